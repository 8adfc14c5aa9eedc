/*
 * truth FILE MODE [CPU]: does one simple thing and writes down, by its own
 * clocks, when and for how long: what a recording of it is compared with. A
 * line of JSON is appended to FILE. With CPU it runs there alone.
 *
 * In C, because it must have one thread: in a Go program the runtime's monitor
 * takes part, and what happened is up to it.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL

static long long now(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		_exit(1);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static void nap(long long ns)
{
	struct timespec left = { 0, ns };

	while (nanosleep(&left, &left))
		;
}

/* Reads the clock without a system call. Gives how much of the time went by
 * between two readings that were far apart. */
static long long burn(long long ns)
{
	long long begin = now(CLOCK_MONOTONIC), last = begin, at, gaps = 0;

	while (last - begin < ns) {
		at = now(CLOCK_MONOTONIC);
		if (at - last > 20000)
			gaps += at - last;
		last = at;
	}
	return gaps;
}

static void report(const char *file, const char *mode, long long begin, long long end, long long cpu, long long gaps)
{
	FILE *f = fopen(file, "a");

	if (!f)
		_exit(1);
	fprintf(f, "{\"pid\":%d,\"mode\":\"%s\",\"begin\":%lld,\"end\":%lld,\"cpu\":%lld,\"gaps\":%lld}\n", getpid(), mode, begin, end, cpu, gaps);
	if (fclose(f))
		_exit(1);
}

/* Sleeps, writes it down, and then writes the byte that the parent waits for. */
static void child(const char *file, int fd)
{
	long long begin = now(CLOCK_MONOTONIC), end;

	nap(20 * MS);
	end = now(CLOCK_MONOTONIC);
	report(file, "child", begin, end, 0, 0);
	_exit(write(fd, "x", 1) != 1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		_exit(1);
}

int main(int argc, char **argv)
{
	long long begin, end, cpu, gaps = 0;
	const char *file, *mode;
	int p[2], status = 0;
	pid_t pid = 0;
	char byte;

	if (argc < 3)
		return 2;
	file = argv[1];
	mode = argv[2];
	if (argc > 3)
		pin(atoi(argv[3]));
	if (!strcmp(mode, "spin")) {
		puts("spinning");
		fflush(stdout);
		for (;;)
			burn(1000 * MS);
	}
	if (!strcmp(mode, "pipe")) {
		if (pipe(p) || (pid = fork()) < 0)
			return 1;
		if (!pid)
			child(file, p[1]);
	}
	cpu = now(CLOCK_THREAD_CPUTIME_ID);
	begin = now(CLOCK_MONOTONIC);
	if (!strcmp(mode, "sleep"))
		nap(30 * MS);
	else if (!strcmp(mode, "burn"))
		gaps = burn(30 * MS);
	else if (!strcmp(mode, "pipe") && read(p[0], &byte, 1) != 1)
		return 1;
	end = now(CLOCK_MONOTONIC);
	cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (pid)
		waitpid(pid, &status, 0);
	report(file, mode, begin, end, cpu, gaps);
	return status != 0;
}
