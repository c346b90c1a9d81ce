/* SPDX-License-Identifier: Apache-2.0 */
/* Boards and files that wake who waits. The boards are plain memory: a futex does not mind. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "board/waiter.h"
#include "check.h"
#include "util/time.h"

#define MANY 300

static int files = -1;

static struct rbt_board_waiter *make_waiter(void)
{
	struct rbt_board_waiter *w = NULL;

	files = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(files >= 0 && rbt_board_waiter_create(files, &w) == 0);
	return w;
}

static void drop_waiter(struct rbt_board_waiter *w)
{
	rbt_board_waiter_destroy(w);
	close(files);
}

/* The board that wakes us within that time, or NULL. */
static struct rbt_board *woken(struct rbt_board_waiter *w, unsigned timeout_ms)
{
	CHECK(!rbt_board_waiter_wait(w, rbt_now_ns() + timeout_ms * RBT_NS_PER_MS));
	return rbt_board_waiter_next(w);
}

static struct rbt_board *make_boards(size_t n)
{
	struct rbt_board *b = mmap(
		NULL, n * sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(b != MAP_FAILED);
	for (size_t i = 0; i < n; i++) {
		rbt_board_sleep(&b[i]);
	}
	return b;
}

/* As the program does. */
static void edge(struct rbt_board *b)
{
	uint32_t one = 1;

	if (atomic_compare_exchange_strong(&b->asleep, &one, 0)) {
		syscall(SYS_futex, &b->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}

static void an_edge_wakes(void)
{
	struct rbt_board_waiter *w = make_waiter();
	struct rbt_board *b = make_boards(3);

	CHECK(woken(w, 0) == NULL);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(rbt_board_waiter_add(w, &b[i]), 0);
		CHECK_INT(rbt_board_waiter_add(w, &b[i]), 0);
	}
	CHECK(woken(w, 20) == NULL);
	for (int round = 0; round < 50; round++) {
		struct rbt_board *which = &b[round % 3];
		edge(which);
		CHECK(woken(w, 2000) == which);
		CHECK(woken(w, 0) == NULL);
		/* Nobody listens until it is added again. */
		rbt_board_sleep(which);
		edge(which);
		CHECK(woken(w, 1) == NULL);
		rbt_board_sleep(which);
		CHECK_INT(rbt_board_waiter_add(w, which), 0);
	}
	/* An end of requests, for which no edge is taken. */
	rbt_board_waiter_remove(w, &b[1]);
	b[1].requests_open = 1;
	CHECK(rbt_board_await_end(&b[1]));
	CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
	edge(&b[1]);
	CHECK(woken(w, 20) == NULL);
	b[1].asleep = 0;
	syscall(SYS_futex, &b[1].asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
	CHECK(woken(w, 2000) == &b[1]);
	/* Nor is one for the return of a synchronisation. */
	CHECK(rbt_board_await_sync(&b[1], &(struct rbt_board_reader){0}));
	CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
	edge(&b[1]);
	CHECK(woken(w, 20) == NULL);
	b[1].asleep = 0;
	syscall(SYS_futex, &b[1].asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
	CHECK(woken(w, 2000) == &b[1]);
	/* Quicker than it could be added. */
	CHECK(!rbt_board_awake(&b[0]));
	rbt_board_waiter_remove(w, &b[0]);
	CHECK_INT(rbt_board_waiter_add(w, &b[0]), 0);
	CHECK(woken(w, 2000) == &b[0]);
	drop_waiter(w);
	rbt_board_waiter_destroy(NULL);
	munmap(b, 3 * sizeof(*b));
}

/* One that is awake again before it is added must not keep us from all else. */
static void each_wakes_once_a_wait(void)
{
	struct rbt_board_waiter *w = make_waiter();
	struct rbt_board *b = make_boards(2), *which;
	unsigned n = 0;

	CHECK_INT(rbt_board_waiter_add(w, &b[0]), 0);
	CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
	for (unsigned round = 1; round <= 3; round++) {
		edge(&b[0]);
		edge(&b[1]);
		CHECK(!rbt_board_waiter_wait(w, UINT64_MAX));
		while (n < 10 && (which = rbt_board_waiter_next(w)) != NULL) {
			CHECK_INT(rbt_board_waiter_add(w, which), 0);
			n++;
		}
		CHECK_INT(n, 2 * round);
	}
	drop_waiter(w);
	munmap(b, 2 * sizeof(*b));
}

static void removed_ones_may_go(void)
{
	struct rbt_board_waiter *w = make_waiter();
	struct rbt_board *keep = make_boards(2);
	CHECK_INT(rbt_board_waiter_add(w, &keep[0]), 0);
	for (int round = 0; round < 200; round++) {
		struct rbt_board *b = make_boards(2);
		CHECK_INT(rbt_board_waiter_add(w, &b[0]), 0);
		CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
		if (round % 3 == 0) {
			edge(&b[1]);
		}
		if (round % 6 == 0) {
			CHECK(!rbt_board_waiter_wait(w, UINT64_MAX));
		}
		rbt_board_waiter_remove(w, &b[0]);
		rbt_board_waiter_remove(w, &b[1]);
		rbt_board_waiter_remove(w, &b[1]);
		munmap(b, 2 * sizeof(*b));
		CHECK(rbt_board_waiter_next(w) == NULL);
	}
	edge(&keep[0]);
	CHECK(woken(w, 2000) == &keep[0]);
	drop_waiter(w);
	munmap(keep, 2 * sizeof(*keep));
}

static void more_than_the_kernel_takes_at_once(void)
{
	struct rbt_board_waiter *w = make_waiter();
	struct rbt_board *b = make_boards(MANY), *got;
	static unsigned seen[MANY];

	for (int i = 0; i < MANY; i++) {
		CHECK_INT(rbt_board_waiter_add(w, &b[i]), 0);
	}
	for (int i = 0; i < MANY; i++) {
		edge(&b[i]);
	}
	while ((got = woken(w, 500)) != NULL) {
		seen[got - b]++;
	}
	for (int i = 0; i < MANY; i++) {
		CHECK_INT(seen[i], 1);
	}
	drop_waiter(w);
	munmap(b, MANY * sizeof(*b));
}

/* What this thread has used of a core. */
static uint64_t used_ns(void)
{
	struct timespec mine;

	CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mine) == 0);
	return (uint64_t)mine.tv_sec * RBT_NS_PER_S + (uint64_t)mine.tv_nsec;
}

/* A program of a thread: what it does to its board until n_used is set. */
struct program {
	pthread_t thread;
	struct rbt_board *board;
};

static bool goes_on(const struct program *p)
{
	return atomic_load_explicit(&p->board->n_used, memory_order_relaxed) == 0;
}

static void *submit_now_and_then(void *data)
{
	struct program *p = data;

	while (goes_on(p)) {
		usleep(1000);
		edge(p->board);
	}
	return NULL;
}

/* Wakes without an edge, as fast as it can. */
static void *wake_for_nothing(void *data)
{
	struct program *p = data;

	while (goes_on(p)) {
		syscall(SYS_futex, &p->board->asleep, FUTEX_WAKE, 10, NULL, NULL, 0);
	}
	return NULL;
}

static void start(struct program *p, struct rbt_board *b, void *(*run)(void *))
{
	p->board = b;
	CHECK(pthread_create(&p->thread, NULL, run, p) == 0);
}

static void stop(struct program *p)
{
	p->board->n_used = 1;
	pthread_join(p->thread, NULL);
}

static void wakes_who_sleeps(void)
{
	struct rbt_board_waiter *w = make_waiter();
	struct rbt_board *b = make_boards(2);
	struct program p;

	start(&p, &b[1], submit_now_and_then);
	for (int i = 0; i < 100; i++) {
		rbt_board_sleep(&b[1]);
		CHECK_INT(rbt_board_waiter_add(w, &b[0]), 0);
		CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
		CHECK(woken(w, 2000) == &b[1]);
	}
	stop(&p);
	drop_waiter(w);
	munmap(b, 2 * sizeof(*b));
}

/* It costs little, and only the board itself is heard of late. */
static void wakes_for_nothing_cost_little(void)
{
	struct rbt_board_waiter *w = make_waiter();
	struct rbt_board *b = make_boards(2);
	struct program hostile, good;

	CHECK_INT(rbt_board_waiter_add(w, &b[0]), 0);
	start(&hostile, &b[0], wake_for_nothing);
	uint64_t before_ns = used_ns();
	CHECK(woken(w, 400) == NULL);
	CHECK(used_ns() - before_ns < 40 * RBT_NS_PER_MS);
	/* The neighbour is heard at once, by what a busy machine calls so. */
	start(&good, &b[1], submit_now_and_then);
	for (int i = 0; i < 20; i++) {
		rbt_board_sleep(&b[1]);
		CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
		CHECK(woken(w, 200) == &b[1]);
	}
	edge(&b[0]);
	CHECK(woken(w, 2000) == &b[0]);
	stop(&hostile);
	stop(&good);
	drop_waiter(w);
	munmap(b, 2 * sizeof(*b));
}

static void *write_to_files(void *data)
{
	uint64_t one = 1;

	usleep(20000);
	return write(files, &one, sizeof(one)) == sizeof(one) ? NULL : data;
}

static void files_wake_too(void)
{
	struct rbt_board_waiter *w = make_waiter();
	struct rbt_board *b = make_boards(1);
	uint64_t n;

	CHECK_INT(rbt_board_waiter_add(w, b), 0);
	for (int i = 0; i < 10; i++) {
		pthread_t writer;
		CHECK(pthread_create(&writer, NULL, write_to_files, NULL) == 0);
		CHECK(rbt_board_waiter_wait(w, rbt_now_ns() + 2 * RBT_NS_PER_S));
		/* Until it is said that there is no more; and boards are not forgotten over it. */
		CHECK(rbt_board_waiter_wait(w, UINT64_MAX));
		CHECK(rbt_board_waiter_next(w) == NULL);
		edge(b);
		CHECK(rbt_board_waiter_wait(w, UINT64_MAX) && rbt_board_waiter_next(w) == b);
		rbt_board_sleep(b);
		CHECK_INT(rbt_board_waiter_add(w, b), 0);
		pthread_join(writer, NULL);
		CHECK(read(files, &n, sizeof(n)) == sizeof(n));
		rbt_board_waiter_rewatch(w);
		CHECK(woken(w, 2) == NULL);
	}
	drop_waiter(w);
	munmap(b, sizeof(*b));
}

/* Not before, and soon after. */
static void keeps_time(void)
{
	struct rbt_board_waiter *w = make_waiter();
	uint64_t least_ns = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		uint64_t at_ns = rbt_now_ns() + 3 * RBT_NS_PER_MS;
		CHECK(!rbt_board_waiter_wait(w, at_ns));
		uint64_t late_ns = rbt_now_ns() - at_ns;
		CHECK(rbt_now_ns() >= at_ns);
		least_ns = late_ns < least_ns ? late_ns : least_ns;
	}
	CHECK(least_ns < RBT_NS_PER_MS);
	CHECK(!rbt_board_waiter_wait(w, 0));
	drop_waiter(w);
}

/* However it meets the thread. */
static void ends_at_any_moment(void)
{
	for (int i = 0; i < 200; i++) {
		struct rbt_board_waiter *w = make_waiter();
		uint64_t one = 1;
		CHECK(write(files, &one, sizeof(one)) == sizeof(one));
		usleep((useconds_t)i / 4);
		drop_waiter(w);
	}
}

/* Some sandboxes refuse the call instead of not knowing it. */
static void refuse_futex_waitv(int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 449, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = 4, .filter = code};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0);
}

static void works_all_the_same(void)
{
	struct rbt_board_waiter *w = make_waiter();
	struct rbt_board *b = make_boards(1);
	struct program p;

	CHECK_INT(rbt_board_waiter_add(w, b), 0);
	uint64_t before_ns = used_ns();
	CHECK(woken(w, 300) == NULL);
	CHECK(used_ns() - before_ns < 60 * RBT_NS_PER_MS);
	start(&p, b, submit_now_and_then);
	for (int i = 0; i < 5; i++) {
		CHECK(woken(w, 2000) == b);
		rbt_board_sleep(b);
		CHECK_INT(rbt_board_waiter_add(w, b), 0);
	}
	stop(&p);
	rbt_board_waiter_remove(w, b);
	CHECK(pthread_create(&p.thread, NULL, write_to_files, NULL) == 0);
	CHECK(rbt_board_waiter_wait(w, rbt_now_ns() + 2 * RBT_NS_PER_S));
	pthread_join(p.thread, NULL);
	drop_waiter(w);
}

static void works_without_the_call(int error)
{
	refuse_futex_waitv(error);
	works_all_the_same();
}

/* And some: a folder for each, and a sanitizer may have one of its own. */
static uint64_t n_threads(void)
{
	struct stat st;

	CHECK(stat("/proc/self/task", &st) == 0);
	return st.st_nlink;
}

/* Files are readable and boards wake, also while the waiter has no thread. */
static void works_without_a_thread(int ignored)
{
	struct rbt_board_waiter *w = make_waiter();
	struct rbt_board *b = make_boards(1);
	struct rlimit had;
	uint64_t one = 1, before = n_threads();

	/* Root is not limited. */
	CHECK(getrlimit(RLIMIT_NPROC, &had) == 0 && (geteuid() != 0 || setuid(65534) == 0));
	CHECK(setrlimit(RLIMIT_NPROC, &(struct rlimit){0, had.rlim_max}) == 0);
	CHECK(woken(w, 20) == NULL);
	CHECK(write(files, &one, sizeof(one)) == sizeof(one));
	CHECK(rbt_board_waiter_wait(w, rbt_now_ns() + RBT_NS_PER_S));
	CHECK(read(files, &one, sizeof(one)) == sizeof(one));
	rbt_board_waiter_rewatch(w);
	CHECK_INT(rbt_board_waiter_add(w, b), 0);
	edge(b);
	CHECK(woken(w, 1000) == b);
	CHECK_INT(n_threads(), before);
	drop_waiter(w);
}

static void in_a_child(void (*test)(int), int arg)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0) {
		test(arg);
		_exit(check_result());
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	in_a_child(works_without_a_thread, 0);
	in_a_child(works_without_the_call, ENOSYS);
	in_a_child(works_without_the_call, EPERM);
	in_a_child(works_without_the_call, EIO);
	an_edge_wakes();
	each_wakes_once_a_wait();
	removed_ones_may_go();
	more_than_the_kernel_takes_at_once();
	wakes_who_sleeps();
	wakes_for_nothing_cost_little();
	files_wake_too();
	keeps_time();
	ends_at_any_moment();
	return check_result();
}
