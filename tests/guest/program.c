/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program inside a virtual machine that uses the virtio link, for test_virtio.py. Each command
 * prints one line, and exits with 1 if something was wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "remote/link_virtio.h"
#include "rubato_uapi.h"
#include "talk.h"

#define BASE      ((char *)RBT_LINK_MAP_BASE)
#define MIB       (1ull << 20)
#define PATIENCE  20000000000ll
#define LINK      rbt_link_virtio
#define TALK_SIZE 4096

static const char *device = "/dev/rubato0";

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static __attribute__((format(printf, 1, 2), noreturn)) void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	exit(1);
}

/* Makes one call; its result, or a negative errno in *error. */
static uint64_t call(struct rbt_link *link, uint32_t channel, struct talk *t, uint32_t op, void *at,
	uint64_t size, uint64_t value, int *error)
{
	const int64_t until = now_ns() + PATIENCE;

	t->op = op;
	t->address = (uintptr_t)at;
	t->size = size;
	t->value = value;
	__atomic_store_n(&t->state, 1, __ATOMIC_RELEASE);
	*error = LINK.ring(link, channel);
	while (*error == 0 && __atomic_load_n(&t->state, __ATOMIC_ACQUIRE) != 2) {
		*error = LINK.wait(link, channel, until);
	}
	return t->result;
}

/* An open link with channel 0, whose calls are in the first bytes at BASE. */
static struct rbt_link *begin(void)
{
	struct rbt_link_identity id = {.pid = 1};
	struct rbt_link *link = NULL;
	int error = LINK.open(device, &id, &link);

	if (error < 0) {
		die("open: %s", strerror(-error));
	}
	error = LINK.map(link, BASE, RBT_LINK_BLOCK);
	if (error < 0) {
		die("map: %s", strerror(-error));
	}
	error = LINK.channel(link, 0, BASE, TALK_SIZE);
	if (error < 0) {
		die("channel: %s", strerror(-error));
	}
	return link;
}

static void want(const char *what, uint64_t got, uint64_t wanted, int error)
{
	if (error != 0 || got != wanted) {
		die("%s: %llu instead of %llu, %s", what, (unsigned long long)got,
			(unsigned long long)wanted, strerror(-error));
	}
}

/* calls N: N calls, one after the other. */
static int do_calls(int n)
{
	struct rbt_link *link = begin();
	int error;
	int64_t t = now_ns();

	for (int i = 0; i < n; i++) {
		uint64_t got =
			call(link, 0, (struct talk *)BASE, TALK_ECHO, NULL, 0, (uint64_t)i, &error);

		want("echo", got, (uint64_t)i + 1, error);
	}
	printf("%d calls, %lld us each\n", n, (long long)(now_ns() - t) / 1000 / n);
	LINK.close(link);
	return 0;
}

static void check_bulk(struct rbt_link *link, unsigned char *at, uint64_t size, const char *name)
{
	struct talk *t = (struct talk *)BASE;
	int error;

	for (uint64_t i = 0; i < size; i++) {
		at[i] = (unsigned char)(i * 7 + i / 4096);
	}
	uint64_t sum = call(link, 0, t, TALK_SUM, at, size, 0, &error);
	want(name, sum, talk_sum(at, size), error);
	call(link, 0, t, TALK_FILL, at, size, 0x5a, &error);
	want(name, talk_sum(at, size), 0x5a * size, error);
}

/* bulk MIB: as much memory of map(), and a little of share(), in both directions. */
static int do_bulk(int mib)
{
	struct rbt_link *link = begin();
	unsigned char *at = (unsigned char *)BASE + RBT_LINK_BLOCK;
	const uint64_t size = (uint64_t)mib * MIB, mine = 512 * 1024;
	int error = LINK.map(link, at, size);

	want("map", 0, 0, error);
	for (uint64_t i = 0; i < size; i += 4096) {
		want("zero", at[i], 0, 0);
	}
	check_bulk(link, at, size, "mapped");
	want("map again", (uint64_t)-LINK.map(link, at, size), EEXIST, 0);
	want("unmap", 0, 0, LINK.unmap(link, at, size));
	want("unmap again", (uint64_t)-LINK.unmap(link, at, size), EINVAL, 0);

	unsigned char *own = mmap(BASE + RBT_LINK_BLOCK, mine, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	want("share", 0, 0, LINK.share(link, own, mine));
	check_bulk(link, own, mine, "shared");
	want("unshare", 0, 0, LINK.unmap(link, own, mine));
	want("still there", own[5], 0x5a, 0);
	printf("%d MiB mapped, %llu KiB shared\n", mib, (unsigned long long)mine / 1024);
	LINK.close(link);
	return 0;
}

struct thread {
	pthread_t thread;
	struct rbt_link *link;
	uint32_t channel;
	int n;
	bool is_wrong;
};

static void *thread_calls(void *data)
{
	struct thread *t = data;
	struct talk *talk = (struct talk *)(BASE + t->channel * TALK_SIZE);
	int error = LINK.channel(t->link, t->channel, talk, TALK_SIZE);

	for (int i = 0; i < t->n && error == 0; i++) {
		const uint64_t value = (uint64_t)t->channel << 32 | (unsigned)i;

		t->is_wrong |= call(t->link, t->channel, talk, TALK_ECHO, NULL, 0, value, &error) !=
			       value + 1;
	}
	t->is_wrong |= error != 0 || LINK.channel_close(t->link, t->channel) != 0;
	return NULL;
}

/* threads N: eight threads with a channel each make N calls. */
static int do_threads(int n)
{
	struct rbt_link *link = begin();
	struct thread threads[8] = {0};
	bool is_wrong = false;

	for (uint32_t i = 0; i < 8; i++) {
		threads[i] = (struct thread){.link = link, .channel = i + 1, .n = n};
		pthread_create(&threads[i].thread, NULL, thread_calls, &threads[i]);
	}
	for (uint32_t i = 0; i < 8; i++) {
		pthread_join(threads[i].thread, NULL);
		is_wrong |= threads[i].is_wrong;
	}
	printf("8 threads, %d calls each%s\n", n, is_wrong ? ": wrong" : "");
	LINK.close(link);
	return is_wrong;
}

/* flood N: more doorbells than a queue holds, then a call. */
static int do_flood(int n)
{
	struct rbt_link *link = begin();
	int error = 0;

	for (int i = 0; i < n && error == 0; i++) {
		error = LINK.ring(link, 0);
	}
	want("ring", 0, 0, error);
	uint64_t got = call(link, 0, (struct talk *)BASE, TALK_ECHO, NULL, 0, 41, &error);
	want("echo", got, 42, error);
	got = call(link, 0, (struct talk *)BASE, TALK_COUNT, NULL, 0, 0, &error);
	printf("%d doorbells%s\n", n, got > 0 ? "" : ", none came through");
	LINK.close(link);
	return got == 0;
}

/* load: calls until something fails; says what. */
static int do_load(int ignored)
{
	struct rbt_link *link = begin();
	uint64_t n = 0;
	int error = 0;

	printf("begun\n");
	fflush(stdout);
	for (; error == 0; n++) {
		call(link, 0, (struct talk *)BASE, TALK_ECHO, NULL, 0, n, &error);
	}
	int after = LINK.ring(link, 0);
	printf("%s, then %s\n", strerror(-error), strerror(-after));
	LINK.close(link);
	return ignored;
}

/* hold: waits for a doorbell that never comes, without a deadline. */
static int do_hold(int ignored)
{
	struct rbt_link *link = begin();

	want("wait", (uint64_t)-LINK.wait(link, 0, now_ns() + 20000000), ETIMEDOUT, 0);
	printf("begun\n");
	fflush(stdout);
	int64_t t = now_ns();
	int error = LINK.wait(link, 0, RBT_LINK_FOREVER);
	fprintf(stderr, "lost after %lld ms\n", (long long)(now_ns() - t) / 1000000);
	printf("%s\n", strerror(-error));
	LINK.close(link);
	return ignored;
}

/* open N: N links at once, each in a process of its own. How many could be opened? */
static int do_open(int n)
{
	int opened = 0, refused = 0;
	int go[2];

	if (pipe(go) < 0) {
		return 1;
	}
	for (int i = 0; i < n; i++) {
		int told[2];
		char result = 0;

		if (pipe(told) < 0 || fork() == 0) {
			struct rbt_link *link = NULL;
			struct rbt_link_identity id = {.pid = 1};
			int error = LINK.open(device, &id, &link);

			close(go[1]);
			result = error == 0 ? 'o' : error == -EUSERS ? 'r' : '?';
			if (write(told[1], &result, 1) == 1 && read(go[0], &result, 1) == 0) {
				LINK.close(link);
			}
			_exit(0);
		}
		close(told[1]);
		if (read(told[0], &result, 1) == 1) {
			opened += result == 'o';
			refused += result == 'r';
		}
		close(told[0]);
	}
	printf("%d opened, %d refused, %d failed\n", opened, refused, n - opened - refused);
	close(go[1]);
	while (wait(NULL) > 0) {
	}
	return 0;
}

/* fork: a child has no link, and does not keep its parent's alive. */
static int do_fork(int ignored)
{
	struct rbt_link *link = begin();
	int error, status = -1;
	uint32_t zero = 0;

	pid_t child = fork();
	if (child == 0) {
		unsigned char there;
		int result = LINK.ring(link, zero);
		bool is_gone = mincore(BASE, 4096, &there) < 0 && errno == ENOMEM;

		LINK.close(link);
		_exit(result == -ECONNRESET && is_gone ? 0 : 1);
	}
	waitpid(child, &status, 0);
	uint64_t got = call(link, 0, (struct talk *)BASE, TALK_ECHO, NULL, 0, 1, &error);
	want("echo", got, 2, error);
	/* A child that stays must not keep the worker. */
	if (fork() == 0) {
		close(1);
		close(2);
		pause();
		_exit(0);
	}
	printf("child: %s\n", status == 0 ? "no link" : "wrong");
	return status != 0 || ignored;
}

struct noise {
	int fd, n;
	unsigned seed;
};

/* Maps, shows and unmaps the same few ranges as other threads do. */
static void quarrel(int fd, unsigned *seed)
{
	static int n_mapped;
	static const unsigned long requests[] = {
		RUBATO_IOC_MAP, RUBATO_IOC_SHARE, RUBATO_IOC_UNMAP};
	char *at = BASE + (unsigned)rand_r(seed) % 4 * RBT_LINK_BLOCK;
	const struct rubato_range range = {(uintptr_t)at, RBT_LINK_BLOCK};

	if (__atomic_add_fetch(&n_mapped, 1, __ATOMIC_RELAXED) < 24) {
		mmap(at, RBT_LINK_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	}
	ioctl(fd, requests[(unsigned)rand_r(seed) % 3], &range);
}

static void *make_noise(void *data)
{
	static const unsigned long requests[] = {RUBATO_IOC_MAP, RUBATO_IOC_SHARE, RUBATO_IOC_UNMAP,
		RUBATO_IOC_CHANNEL, RUBATO_IOC_CHANNEL_CLOSE, RUBATO_IOC_RING, RUBATO_IOC_WAIT, 0,
		_IOW(0xb7, 8, int)};
	struct noise *v = data;

	for (int i = 0; i < v->n; i++) {
		uint64_t words[3];

		for (int k = 0; k < 3; k++) {
			words[k] = (uint64_t)rand_r(&v->seed) << (rand_r(&v->seed) % 48) >>
				   (rand_r(&v->seed) % 32);
			words[k] &= rand_r(&v->seed) % 2 ? ~0ull : ~0xfffull;
		}
		/* Deadlines pass soon, and sizes are often possible ones. */
		words[1] = rand_r(&v->seed) % 2 ? words[1] & 0xfffffff : words[1] % (4 * MIB);
		ioctl(v->fd, requests[(unsigned)rand_r(&v->seed) % 9],
			rand_r(&v->seed) % 16 ? (void *)words : (void *)8);
		mmap(NULL, words[1] % (4 * MIB) + 1, PROT_READ, MAP_SHARED, v->fd,
			(off_t)((words[0] & 0x3000) | 0x1000));
		quarrel(v->fd, &v->seed);
	}
	return NULL;
}

/* noise N: N ioctls and mmaps with nonsense, by four threads. The driver refuses, and works
 * afterwards. */
static int do_noise(int n)
{
	struct noise noises[4];
	pthread_t threads[4];
	int fd = open(device, O_RDWR | O_CLOEXEC);

	for (unsigned i = 0; i < 4; i++) {
		noises[i] = (struct noise){fd, n / 4, i};
		pthread_create(&threads[i], NULL, make_noise, &noises[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
	}
	close(fd);
	munmap(BASE, 4 * RBT_LINK_BLOCK);
	return fd < 0 ? 1 : do_calls(10);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int n);
	} commands[] = {{"calls", do_calls}, {"bulk", do_bulk}, {"threads", do_threads},
		{"flood", do_flood}, {"load", do_load}, {"hold", do_hold}, {"open", do_open},
		{"fork", do_fork}, {"noise", do_noise}};

	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) == 0) {
			return commands[i].run(argc > 2 ? atoi(argv[2]) : 0);
		}
	}
	printf("usage: program COMMAND [N]\n");
	return 2;
}
