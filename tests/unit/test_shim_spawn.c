/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that the shim starts inside a program: what it is like, and that the program does not
 * notice. The test executes itself as the command, which writes what it finds to a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "shim/spawn.h"
#include "util/time.h"

#define N_THREADS 4
#define ROUNDS    50
#define LIMIT_S   20

static char self[4096], report[64];
static _Atomic int n_sigchld, n_forks;
static _Atomic bool is_over;
static struct shim_spawn *spawn;
static char *environment[] = {(char *)"ONLY=this", NULL};

static void count_sigchld(int signo)
{
	n_sigchld++;
}

static void count_fork(void)
{
	n_forks++;
}

static bool is_ignored(int signo)
{
	struct sigaction old;

	return sigaction(signo, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

static unsigned count_files(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		n += fcntl(fd, F_GETFD) >= 0;
	}
	return n;
}

/* As the command. The report is complete once it has its name. */
static int be_command(const char *path)
{
	char cwd[256] = "", null[64] = "", temporary[128];
	unsigned n_files = count_files(), n_blocked = 0, n_ignored = 0;
	sigset_t mask;
	cpu_set_t cpus;

	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int signo = 1; signo < 32; signo++) {
		n_blocked += sigismember(&mask, signo) == 1;
		n_ignored += is_ignored(signo);
	}
	sched_getaffinity(0, sizeof(cpus), &cpus);
	if (getcwd(cwd, sizeof(cwd)) == NULL || readlink("/proc/self/fd/2", null, 63) < 0) {
		return 1;
	}
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	FILE *f = fopen(temporary, "w");
	if (f == NULL) {
		return 1;
	}
	fprintf(f, "%d %d %u %u %u %s %s %s %d # %d", (int)getpid(), getsid(0) == getpid(), n_files,
		n_blocked, n_ignored, cwd, null,
		environ[0] != NULL && environ[1] == NULL ? environ[0] : "?",
		sched_getscheduler(0) == SCHED_OTHER, CPU_COUNT(&cpus));
	fclose(f);
	return rename(temporary, path) < 0;
}

/* As the shim calls it: with signals blocked. */
static int start(const char *path, char *const argv[])
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	spawn->path = path;
	spawn->argv = argv;
	spawn->envp = environment;
	int r = shim_raw_spawn(spawn);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

static void wait_until_done(void)
{
	uint64_t until_ns = rbt_now_ns() + LIMIT_S * RBT_NS_PER_S;

	while (spawn->is_under_way != 0 && rbt_now_ns() < until_ns) {
		usleep(100);
	}
	CHECK_INT(spawn->is_under_way, 0);
}

/* Starts the command and reads its report. */
static void run_command(char *buf, size_t size)
{
	char *argv[] = {self, report, NULL};
	uint64_t until_ns = rbt_now_ns() + LIMIT_S * RBT_NS_PER_S;
	int fd = -1;

	unlink(report);
	CHECK_INT(start(self, argv), 0);
	while (fd < 0 && rbt_now_ns() < until_ns) {
		usleep(1000);
		fd = open(report, O_RDONLY | O_CLOEXEC);
	}
	CHECK(fd >= 0);
	ssize_t n = read(fd, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	close(fd);
	wait_until_done();
}

static void test_the_command(void)
{
	char found[512] = "", facts[256] = "";
	cpu_set_t all, one;
	int n_cpus = 0;

	/* The program's own ways. */
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	int leaked = open("/dev/zero", O_RDONLY);
	CHECK(chdir("/tmp") == 0);
	unsigned n_files = count_files();
	run_command(found, sizeof(found));
	CHECK(sscanf(found, "%*d %255[^#]# %d", facts, &n_cpus) == 2);
	CHECK(strcmp(facts, "1 3 0 0 / /dev/null ONLY=this 1 ") == 0);
	CHECK(n_cpus >= CPU_COUNT(&all));
	/* They are still the program's. */
	char cwd[64] = "";
	CHECK(getcwd(cwd, sizeof(cwd)) != NULL);
	CHECK(strcmp(cwd, "/tmp") == 0);
	CHECK(count_files() == n_files && fcntl(leaked, F_GETFD) == 0);
	CHECK(is_ignored(SIGPIPE) && is_ignored(SIGINT) && getsid(0) != getpid() + 1);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	close(leaked);
	sched_setaffinity(0, sizeof(all), &all);
}

static void *churn(void *data)
{
	int *failures = data;

	/* errno is thread-local; memory and files are the program's. */
	while (!is_over) {
		errno = EXDEV;
		void *p = malloc(4096);
		memset(p, 1, 4096);
		free(p);
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		*failures += fd < 0 || close(fd) < 0 || errno != EXDEV;
	}
	return NULL;
}

/* Waits for the program's own child, and must get no other. */
static void *wait_for_own(void *data)
{
	pid_t own = *(pid_t *)data, got;

	while ((got = wait(NULL)) < 0 && errno == EINTR) {
	}
	return (void *)(uintptr_t)(got == own);
}

/* Many times, with other threads at work and one in wait(2). */
static void test_the_program(void)
{
	pthread_t threads[N_THREADS], waiter;
	int failures[N_THREADS] = {0};
	uint64_t slowest_ns = 0, sum_ns = 0;
	char *argv[] = {(char *)"true", NULL};
	void *got_own = NULL;

	CHECK_INT(wait(NULL), -1);
	CHECK_INT(errno, ECHILD);
	pid_t own = fork();
	if (own == 0) {
		pause();
		_exit(0);
	}
	signal(SIGCHLD, count_sigchld);
	pthread_atfork(count_fork, count_fork, count_fork);
	CHECK_INT(pthread_create(&waiter, NULL, wait_for_own, &own), 0);
	for (int i = 0; i < N_THREADS; i++) {
		CHECK_INT(pthread_create(&threads[i], NULL, churn, &failures[i]), 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		errno = ENOTTY;
		uint64_t begin_ns = rbt_now_ns();
		CHECK_INT(start("/bin/true", argv), 0);
		uint64_t took_ns = rbt_now_ns() - begin_ns;
		CHECK_INT(errno, ENOTTY);
		sum_ns += took_ns;
		slowest_ns = took_ns > slowest_ns ? took_ns : slowest_ns;
		wait_until_done();
	}
	is_over = true;
	for (int i = 0; i < N_THREADS; i++) {
		pthread_join(threads[i], NULL);
		CHECK_INT(failures[i], 0);
	}
	CHECK_INT(n_sigchld, 0);
	CHECK_INT(n_forks, 0);
	/* No child of any kind is left but its own. */
	CHECK_INT(waitpid(-1, NULL, WNOHANG | __WCLONE), -1);
	kill(own, SIGKILL);
	pthread_join(waiter, &got_own);
	CHECK(got_own != NULL);
	CHECK_INT(wait(NULL), -1);
	CHECK_INT(errno, ECHILD);
	printf("     a start takes %llu us beside %d busy threads, %llu us at most\n",
		(unsigned long long)(sum_ns / ROUNDS / 1000), N_THREADS,
		(unsigned long long)(slowest_ns / 1000));
}

/* Nothing happens, and the next one works. */
static void test_no_such_command(void)
{
	char *argv[] = {(char *)"x", NULL};
	char found[512];
	struct rlimit none = {0, 0}, old;

	CHECK_INT(start("/no/such/command", argv), 0);
	wait_until_done();
	if (geteuid() != 0) {
		getrlimit(RLIMIT_NPROC, &old);
		none.rlim_max = old.rlim_max;
		setrlimit(RLIMIT_NPROC, &none);
		CHECK_INT(start("/bin/true", argv), -EAGAIN);
		CHECK_INT(spawn->is_under_way, 0);
		setrlimit(RLIMIT_NPROC, &old);
	}
	run_command(found, sizeof(found));
	spawn->is_under_way = 1;
	CHECK_INT(start("/bin/true", argv), -EBUSY);
	spawn->is_under_way = 0;
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		return be_command(argv[1]);
	}
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	CHECK(n > 0);
	snprintf(report, sizeof(report), "/tmp/rbt-spawn-%d", (int)getpid());
	spawn = mmap(
		NULL, sizeof(*spawn), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(spawn != MAP_FAILED);
	test_the_command();
	test_no_such_command();
	test_the_program();
	unlink(report);
	return check_result();
}
