/*
 * whatif FILE MODE: does something with a part that can be left out, and leaves
 * it out every second time it is run. A line of JSON for each run is appended to
 * FILE: when it began, and whether the part was in it. What a replay of the runs
 * with it predicts can so be held against the runs without it, in one recording.
 *
 * In C, because it must have one thread: see truth.c.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL

static long long now(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts))
		_exit(1);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static void nap(int ms)
{
	struct timespec left = { 0, ms * MS };

	while (nanosleep(&left, &left))
		;
}

static void burn(int ms)
{
	long long end = now() + ms * MS;

	while (now() < end)
		;
}

/* Whether this run has the part: by how many there were before. */
static int note(const char *file)
{
	int c, with = 1;
	FILE *f = fopen(file, "a+");

	if (!f)
		_exit(1);
	while ((c = getc(f)) != EOF)
		with ^= c == '\n';
	fprintf(f, "{\"begin\":%lld,\"with\":%s}\n", now(), with ? "true" : "false");
	if (fclose(f))
		_exit(1);
	return with;
}

/* One after the other: without its sleep the rest is left. */
static int serial(int with)
{
	burn(8);
	if (with)
		nap(16);
	return 0;
}

/* The child takes longer than its parent, which waits for it. Without the
 * child's sleep the parent's own is what counts. */
static int branch(int with)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return 1;
	if (!pid) {
		if (with)
			nap(26);
		_exit(0);
	}
	poll(NULL, 0, 12);
	return waitpid(pid, &status, 0) != pid;
}

/* The child is dead long before its parent asks for it. Without the parent's
 * sleep the child is what counts, though nothing ever waited for it. */
static int finished(int with)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return 1;
	if (!pid) {
		nap(12);
		_exit(0);
	}
	if (with)
		poll(NULL, 0, 26);
	return waitpid(pid, &status, 0) != pid;
}

/* The same with a message, which is there long before it is read. */
static int message(int with)
{
	int s[2];
	char byte;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || (pid = fork()) < 0)
		return 1;
	if (!pid) {
		nap(12);
		_exit(write(s[1], "x", 1) != 1);
	}
	if (with)
		poll(NULL, 0, 26);
	return read(s[0], &byte, 1) != 1;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; int (*run)(int with); } modes[] = {
		{ "serial", serial }, { "branch", branch }, { "finished", finished }, { "message", message },
	};
	unsigned i;

	if (argc != 3)
		return 2;
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[2], modes[i].name))
			return modes[i].run(note(argv[1]));
	return 2;
}
