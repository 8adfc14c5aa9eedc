/* Functions whose calls are counted by those who know: 1000 of leaf, of which 10
 * leave outer by longjmp, so that it never returns. */
#include <setjmp.h>

static jmp_buf out;
static volatile int sink;

__attribute__((noinline, noclone)) void leaf(int leave)
{
	sink++;
	if (leave)
		longjmp(out, 1);
}

__attribute__((noinline, noclone)) void outer(int leave)
{
	leaf(leave);
	sink++;
}

int main(void)
{
	for (volatile int i = 0; i < 1000; i++)
		if (!setjmp(out))
			outer(i % 100 == 99);
	return sink != 1990;
}
