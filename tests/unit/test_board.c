/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's end of a board: what is mapped, what is refused, and what is read from it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "board/board.h"
#include "check.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define MS    1000000ull

static int make_fd(off_t size, int seals, const void *content, size_t content_size)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && ftruncate(fd, size) == 0);
	CHECK(pwrite(fd, content, content_size, 0) == (ssize_t)content_size);
	CHECK(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

/* Takes ownership of fd. */
static int map_result(int fd)
{
	struct rbt_board *b = NULL;
	int r = rbt_board_map(fd, &b);

	CHECK((r == 0) == (b != NULL));
	rbt_board_unmap(b);
	close(fd);
	return r;
}

static struct rbt_board *make_board(int *ret_fd)
{
	struct rbt_board *mine, *theirs = NULL;

	*ret_fd = rbt_board_create_fd();
	mine = mmap(NULL, RBT_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
	CHECK(mine != MAP_FAILED);
	rbt_board_init(mine);
	CHECK_INT(rbt_board_map(*ret_fd, &theirs), 0);
	rbt_board_unmap(mine);
	return theirs;
}

static void what_the_program_makes_is_mapped(void)
{
	int fd;
	struct rbt_board *b = make_board(&fd);

	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	/* Daemons of the first version take boards of this version alone. */
	CHECK(b->version == 2 &&
		b->features == (RBT_BOARD_HAS_LENGTHS | RBT_BOARD_HAS_GATE | RBT_BOARD_HAS_PARK));
	/* Its size is for ever, whoever holds it. */
	CHECK(ftruncate(fd, 0) < 0 && errno == EPERM);
	CHECK(ftruncate(fd, 2 * RBT_BOARD_SIZE) < 0 && errno == EPERM);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, RBT_BOARD_SIZE) == 0);
	CHECK_INT(b->magic, 0);
	close(fd);
	b->slots[3].n[0] = 1;
	rbt_board_unmap(b);
	rbt_board_unmap(NULL);
}

static void what_could_harm_is_refused(void)
{
	struct rbt_board good;
	int pipes[2];
	char path[64];

	memset(&good, 0, sizeof(good));
	rbt_board_init(&good);
	CHECK_INT(map_result(make_fd(4096, SEALS, &good, sizeof(good))), 0);
	CHECK_INT(map_result(make_fd(4096, F_SEAL_SHRINK | F_SEAL_SEAL, &good, 4096)), 0);
	CHECK_INT(map_result(make_fd(4096, 0, &good, 4096)), -EPERM);
	CHECK_INT(map_result(make_fd(4096, F_SEAL_SHRINK | F_SEAL_GROW, &good, 4096)), -EPERM);
	CHECK_INT(map_result(make_fd(4096, F_SEAL_GROW | F_SEAL_SEAL, &good, 4096)), -EPERM);
	CHECK_INT(map_result(make_fd(4096, SEALS | F_SEAL_WRITE, &good, 4096)), -EPERM);
	CHECK_INT(map_result(make_fd(0, SEALS, &good, 0)), -EBADMSG);
	CHECK_INT(map_result(make_fd(4095, SEALS, &good, 4095)), -EBADMSG);
	CHECK_INT(map_result(make_fd(8192, SEALS, &good, 4096)), -EBADMSG);
	CHECK_INT(map_result(make_fd(1 << 30, SEALS, &good, 4096)), -EBADMSG);
	CHECK_INT(map_result(-1), -EBADF);
	CHECK(pipe(pipes) == 0);
	CHECK_INT(map_result(pipes[0]), -EBADF);
	CHECK_INT(map_result(pipes[1]), -EBADF);
	CHECK_INT(map_result(open("/dev/null", O_RDWR)), -EBADF);
	CHECK(map_result(open("/tmp", O_TMPFILE | O_RDWR, 0600)) < 0);
	/* Opened for reading only. */
	int fd = make_fd(4096, SEALS, &good, 4096);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK_INT(map_result(open(path, O_RDONLY)), -EPERM);
	close(fd);
}

static void what_is_no_board_is_refused(void)
{
	struct rbt_board b;
	unsigned char garbage[4096];

	memset(&b, 0, sizeof(b));
	CHECK_INT(map_result(make_fd(4096, SEALS, &b, 4096)), -EBADMSG);
	rbt_board_init(&b);
	b.version++;
	CHECK_INT(map_result(make_fd(4096, SEALS, &b, 4096)), -EPROTONOSUPPORT);
	rbt_board_init(&b);
	b.size = 8192;
	CHECK_INT(map_result(make_fd(4096, SEALS, &b, 4096)), -EBADMSG);
	rbt_board_init(&b);
	b.n_slots = 1 << 20;
	CHECK_INT(map_result(make_fd(4096, SEALS, &b, 4096)), -EBADMSG);
	memset(garbage, 0xff, sizeof(garbage));
	CHECK_INT(map_result(make_fd(4096, SEALS, garbage, 4096)), -EBADMSG);
}

/* A library from before an upgrade has counters at offsets 136 and 144, and reads offset 72: 0
 * tells it that there is no window. Its board is of this version, and all else is where it was. */
static void boards_of_older_libraries_are_read(void)
{
	int fd;
	struct rbt_board *b = make_board(&fd);
	unsigned char *at = (unsigned char *)b;
	const uint64_t junk[2] = {0x1111, 0x2222}, n_requests = 5, zero = 0;
	const uint32_t open = 2;
	struct rbt_board_reader w = {0};
	struct rbt_board_reading r;
	struct rbt_hist lengths;

	memcpy(at + 132, &open, sizeof(open));
	memcpy(at + 136, junk, sizeof(junk));
	memcpy(at + 152, &n_requests, sizeof(n_requests));
	rbt_board_read(b, &w, 10 * MS, &r);
	CHECK(r.requests_open == 2 && r.n_requests == 5 && r.n_late == 0 && !r.announces);
	/* They count in all slots, and lengths by powers of two. */
	b->features = 0;
	b->n_used = RBT_BOARD_SLOTS;
	b->slots[55].n[RBT_BOARD_LAUNCH] = 3;
	b->request_times[3] = 2;
	b->request_ns = 11000;
	rbt_board_read(b, &w, 10 * MS, &r);
	CHECK(r.n[RBT_BOARD_LAUNCH] == 3 && r.announces);
	rbt_board_read_lengths(b, &lengths);
	CHECK(rbt_hist_count(&lengths) == 2 && lengths.sum_ns == 11000 && lengths.max_ns == 8000);
	CHECK_INT(lengths.n[6], 2);
	CHECK(!rbt_board_doze(b, &w) && rbt_board_await_end(b));
	CHECK(memcmp(at + 72, &zero, sizeof(zero)) == 0);
	CHECK(memcmp(at + 136, junk, sizeof(junk)) == 0);
	close(fd);
	rbt_board_unmap(b);
}

static void looks_tell_when_it_was_active(void)
{
	int fd;
	struct rbt_board *b = make_board(&fd);
	struct rbt_board_reader w = {0};
	struct rbt_board_reading r;
	struct rbt_board_slot *s = &b->slots[1];

	b->n_used = 3;
	s->n[RBT_BOARD_LAUNCH] = 500;
	rbt_board_read(b, &w, 10 * MS, &r);
	CHECK_INT(r.active_ns, 0);
	CHECK_INT(rbt_board_submissions(&r), 500);
	CHECK(!rbt_board_is_busy(&r, 10 * MS, MS));
	CHECK(b->tick != 0);
	/* Submissions, the first of which left its time, and more that left none. */
	s->last_ns = 11 * MS;
	s->tick = b->tick;
	s->n[RBT_BOARD_GRAPH] = 3;
	rbt_board_read(b, &w, 20 * MS, &r);
	CHECK_INT(r.active_ns, 20 * MS);
	CHECK(r.in_flight);
	CHECK(rbt_board_is_busy(&r, 20 * MS + MS - 1, MS) && !rbt_board_is_busy(&r, 21 * MS, MS));
	/* Nothing since. */
	rbt_board_read(b, &w, 30 * MS, &r);
	CHECK_INT(r.active_ns, 20 * MS);
	/* Another thread, which then waited: the end is exact. */
	b->slots[2].n[RBT_BOARD_COPY] = 1;
	b->slots[2].in_sync = 1;
	rbt_board_read(b, &w, 35 * MS, &r);
	CHECK(r.in_sync && r.active_ns == 35 * MS && rbt_board_is_busy(&r, 99 * MS, MS));
	b->slots[2].in_sync = 0;
	b->slots[2].last_ns = 36 * MS;
	b->slots[2].n_synced = 1;
	b->slots[2].n_syncs = 1;
	rbt_board_read(b, &w, 40 * MS, &r);
	CHECK(!r.in_sync && r.active_ns == 36 * MS && r.n_syncs == 1);
	/* It may have waited for what the first has submitted, which was before. */
	CHECK(!r.in_flight);
	CHECK_INT(rbt_board_submissions(&r), 504);
	/* It polls. */
	b->slots[1].n_polls = 1;
	rbt_board_read(b, &w, 50 * MS, &r);
	CHECK(r.active_ns == 50 * MS && r.n_polls == 1 && rbt_board_submissions(&r) == 504);
	CHECK(r.in_flight);
	/* It has told us. */
	b->requests_open = 1;
	rbt_board_read(b, &w, 90 * MS, &r);
	CHECK(r.active_ns == 90 * MS && rbt_board_is_busy(&r, 99 * MS, 0));
	close(fd);
	rbt_board_unmap(b);
}

/* The time of a synchronisation is exact, until something is submitted. */
static void ends_are_told_by_counters(void)
{
	int fd;
	struct rbt_board *b = make_board(&fd);
	struct rbt_board_reader w = {0};
	struct rbt_board_reading r;
	struct rbt_board_slot *s = &b->slots[1];

	b->n_used = 2;
	s->n[RBT_BOARD_LAUNCH] = 500;
	rbt_board_read(b, &w, 40 * MS, &r);
	s->n[RBT_BOARD_GRAPH] = 3;
	s->n_polls = 1;
	rbt_board_read(b, &w, 50 * MS, &r);
	CHECK(r.active_ns == 50 * MS && r.in_flight);
	s->n_synced = 504;
	s->last_ns = 55 * MS;
	rbt_board_read(b, &w, 60 * MS, &r);
	CHECK(r.active_ns == 55 * MS && !r.in_flight);
	s->n[RBT_BOARD_MEMSET] = 1;
	rbt_board_read(b, &w, 70 * MS, &r);
	CHECK(r.active_ns == 70 * MS && r.in_flight);
	rbt_board_read(b, &w, 75 * MS, &r);
	CHECK(r.active_ns == 70 * MS && r.in_flight);
	/* More than 32 bits can tell. */
	s->n[RBT_BOARD_LAUNCH] = (1ull << 40) - 505;
	s->n_polls = UINT32_MAX;
	s->n_synced = (uint32_t)rbt_board_total(s);
	s->last_ns = 76 * MS;
	rbt_board_read(b, &w, 80 * MS, &r);
	CHECK(r.active_ns == 76 * MS && !r.in_flight && r.n_polls == UINT32_MAX);
	close(fd);
	rbt_board_unmap(b);
}

/* Of all slots in use, whatever a program writes into the number of those; no look is disturbed.
 * Polls and copies are no progress: copies are made by tasks that stay on while the program is kept
 * off. */
static void progress_is_the_sum(void)
{
	int fd;
	struct rbt_board *b = make_board(&fd);

	b->n_used = UINT32_MAX;
	b->slots[0].n[RBT_BOARD_LAUNCH] = 1;
	b->slots[42].n[RBT_BOARD_GRAPH] = 2;
	b->slots[2].n[RBT_BOARD_MEMSET] = 4;
	b->slots[42].n[RBT_BOARD_COPY] = 8;
	b->slots[3].n_syncs = 16;
	b->slots[3].n_polls = 32;
	struct rbt_board_progress sum = rbt_board_progress(b);
	CHECK_INT(sum.n, 7);
	CHECK_INT(sum.n_launches, 3);
	CHECK_INT(rbt_board_count(b), 31);
	CHECK_INT(b->tick, 0);
	close(fd);
	rbt_board_unmap(b);
}

/* Whatever the daemon slept for: the program was quicker if it has set the futex to 0. */
static void waking_up_tells_who_was_quicker(void)
{
	int fd;
	struct rbt_board *b = make_board(&fd);
	struct rbt_board_reader w = {0};

	rbt_board_sleep(b);
	CHECK(!rbt_board_awake(b) && b->asleep == 0);
	CHECK(rbt_board_awake(b) && b->asleep == 0);
	b->requests_open = 1;
	CHECK(rbt_board_await_end(b));
	CHECK(!rbt_board_awake(b) && b->asleep == 0);
	CHECK(rbt_board_await_end(b));
	b->asleep = 0;
	CHECK(rbt_board_awake(b));
	CHECK(rbt_board_await_sync(b, &w));
	CHECK(!rbt_board_awake(b) && b->asleep == 0);
	CHECK(rbt_board_await_sync(b, &w));
	b->asleep = 0;
	CHECK(rbt_board_awake(b));
	close(fd);
	rbt_board_unmap(b);
}

static void ticks_never_stop_at_zero(void)
{
	int fd;
	struct rbt_board *b = make_board(&fd);
	struct rbt_board_reader w = {0};
	struct rbt_board_reading r;

	b->tick = UINT32_MAX;
	rbt_board_read(b, &w, MS, &r);
	CHECK_INT(b->tick, 1);
	b->tick = UINT32_MAX;
	rbt_board_sleep(b);
	CHECK(b->tick == 1 && b->asleep == 1);
	/* Going to rest after the last submission, and too early. */
	CHECK(rbt_board_doze(b, &w));
	CHECK(b->asleep == 1);
	b->n_used = RBT_BOARD_SLOTS;
	b->slots[55].n[0]++; /* not a slot any more */
	CHECK(rbt_board_doze(b, &w));
	b->slots[42].n[0]++;
	CHECK(!rbt_board_doze(b, &w));
	CHECK(b->asleep == 0);
	b->slots[42].n[0]--;
	/* For the end of a request, if there is one. */
	CHECK(!rbt_board_await_end(b) && b->asleep == 0);
	b->requests_open = 2;
	CHECK(rbt_board_await_end(b) && b->asleep == RBT_BOARD_AWAITS_END);
	b->requests_open = UINT32_MAX;
	CHECK(!rbt_board_await_end(b) && b->asleep == 0);
	/* With a request open, until its deadline has passed. */
	b->requests_open = 1;
	CHECK(!rbt_board_doze(b, &w));
	b->deadline_ns = 1;
	CHECK(rbt_board_doze(b, &w));
	rbt_board_read(b, &w, MS, &r);
	CHECK(r.requests_open == 1 && !r.in_request && r.active_ns < MS);
	close(fd);
	rbt_board_unmap(b);
}

static void lies_stay_within_bounds(void)
{
	int fd;
	struct rbt_board *b = make_board(&fd);
	unsigned seed = 1;

	for (int round = 0; round < 2000; round++) {
		struct rbt_board_reader w = {0};
		struct rbt_board_reading r;
		for (size_t i = 0; i < RBT_BOARD_SIZE / sizeof(uint32_t); i++) {
			((uint32_t *)b)[i] = (uint32_t)rand_r(&seed) * 2654435761u;
		}
		rbt_board_read(b, &w, 10 * MS, &r);
		rbt_board_read(b, &w, 11 * MS, &r);
		CHECK(r.active_ns <= 11 * MS && r.requests_open <= INT32_MAX);
		CHECK(b->tick != 0);
	}
	/* A count that went below zero is no thread that waits. */
	memset(b, 0, sizeof(*b));
	struct rbt_board_reader w = {0};
	struct rbt_board_reading r;
	b->n_used = UINT32_MAX;
	b->slots[0].in_sync = UINT32_MAX;
	b->requests_open = UINT32_MAX;
	rbt_board_read(b, &w, MS, &r);
	CHECK(!r.in_sync && r.requests_open == 0 && !rbt_board_is_busy(&r, MS, MS));
	close(fd);
	rbt_board_unmap(b);
}

/* Or a program could have itself looked at for ever. */
static void slots_that_are_not_in_use_are_no_news(void)
{
	int fd;
	struct rbt_board *b = make_board(&fd);
	struct rbt_board_reader w = {0};
	struct rbt_board_reading r;

	b->n_used = 3;
	b->slots[2].n[RBT_BOARD_COPY] = 1;
	b->slots[3].n[RBT_BOARD_LAUNCH] = 7;
	b->slots[RBT_BOARD_SLOTS - 1].in_sync = 1;
	rbt_board_read(b, &w, MS, &r);
	CHECK_INT(rbt_board_submissions(&r), 1);
	CHECK(rbt_board_doze(b, &w) && b->asleep == 1);
	b->slots[2].n[RBT_BOARD_COPY] = 2;
	CHECK(!rbt_board_doze(b, &w));
	close(fd);
	rbt_board_unmap(b);
}

static void durations_fall_into_classes(void)
{
	CHECK_INT(rbt_board_bucket(0, 16000, 16), 0);
	CHECK_INT(rbt_board_bucket(15999, 16000, 16), 0);
	CHECK_INT(rbt_board_bucket(16000, 16000, 16), 1);
	CHECK_INT(rbt_board_bucket(31999, 16000, 16), 1);
	CHECK_INT(rbt_board_bucket(32000, 16000, 16), 2);
	CHECK_INT(rbt_board_bucket(UINT64_MAX, 16000, 16), 15);
}

/* A program whose files may not become that large goes without, and on. */
static void test_limit(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		const struct rlimit limit = {100, 100};
		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(rbt_board_create_fd() == -EFBIG ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}

int main(void)
{
	test_limit();
	what_the_program_makes_is_mapped();
	what_could_harm_is_refused();
	what_is_no_board_is_refused();
	boards_of_older_libraries_are_read();
	looks_tell_when_it_was_active();
	ends_are_told_by_counters();
	progress_is_the_sum();
	waking_up_tells_who_was_quicker();
	ticks_never_stop_at_zero();
	lies_stay_within_bounds();
	slots_that_are_not_in_use_are_no_news();
	durations_fall_into_classes();
	return check_result();
}
