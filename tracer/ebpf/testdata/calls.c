/* A program without libraries that calls a function 1000 times, small enough to
 * lie beside the tests, since not every machine that they run on has a compiler:
 *
 *	cc -O1 -nostdlib -static -no-pie -fno-asynchronous-unwind-tables -Wl,--build-id=none -Wl,-z,noseparate-code -o calls-amd64 calls.c
 */
static volatile int sink;

__attribute__((noinline, noclone)) void leaf(void)
{
	sink++;
}

void _start(void)
{
	for (int i = 0; i < 1000; i++)
		leaf();
	__asm__ volatile("syscall" ::"a"(60), "D"(sink != 1000));
}
