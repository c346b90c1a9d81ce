/* SPDX-License-Identifier: Apache-2.0 */
/* What is neither queue nor debugger: events, shared memory, checkpoints, profilers. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "judge.h"

static long one_event(int fd, uint32_t nr, uint32_t id)
{
	uint32_t a[2] = {id, 0};

	return call(fd, _IOW('K', nr, a), a);
}

/* What refers to an event that is not there. */
JUDGE_CASE(case_events)
{
	int fd = open_kfd();
	static const uint32_t ids[] = {0, 1, 4095, UINT32_MAX};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		char what[32];
		snprintf(what, sizeof(what), "destroy-%u", ids[i]);
		say_result(what, one_event(fd, 0x09, ids[i]));
		snprintf(what, sizeof(what), "set-%u", ids[i]);
		say_result(what, one_event(fd, 0x0a, ids[i]));
		snprintf(what, sizeof(what), "reset-%u", ids[i]);
		say_result(what, one_event(fd, 0x0b, ids[i]));
	}
}

/* page offset, trigger data, type, auto reset, node, id, slot */
static uint32_t make_event(int fd, const char *what, uint32_t type, uint32_t auto_reset)
{
	struct kfd_create_event a = {.type = type, .auto_reset = auto_reset};

	say_result(what, call(fd, _IOWR('K', 0x08, a), &a));
	say("page=%lx data=%x id=%x slot=%u", (unsigned long)a.page_offset, a.trigger_data,
		a.event_id, a.slot);
	return a.event_id;
}

static void wait_for(int fd, const char *what, const uint32_t *ids, uint32_t n, uint32_t all)
{
	struct kfd_event_data data[4] = {0};
	struct kfd_wait_events a = {
		.events_ptr = (uintptr_t)data, .n_events = n, .all = all, .result = 9};

	for (uint32_t i = 0; i < n; i++) {
		data[i].event_id = ids[i];
	}
	say_result(what, call(fd, _IOWR('K', 0x0c, a), &a));
	say("result=%u", a.result);
}

/* Made, set, asked for without waiting, and destroyed. */
JUDGE_CASE(case_event_life)
{
	int fd = open_kfd();
	uint32_t ids[4];

	ids[0] = make_event(fd, "signal", KFD_EVENT_SIGNAL, 0);
	ids[1] = make_event(fd, "auto", KFD_EVENT_SIGNAL, 1);
	ids[2] = make_event(fd, "memory", 8, 0);
	ids[3] = make_event(fd, "debug", KFD_EVENT_DEBUG, 0);
	make_event(fd, "hardware", 3, 1);
	make_event(fd, "unknown", 99, 0);
	wait_for(fd, "none-set", ids, 4, 0);
	say_result("set", one_event(fd, 0x0a, ids[0]));
	say_result("set", one_event(fd, 0x0a, ids[1]));
	say_result("set-memory", one_event(fd, 0x0a, ids[2]));
	say_result("set-debug", one_event(fd, 0x0a, ids[3]));
	wait_for(fd, "any", ids, 1, 0);
	wait_for(fd, "both", ids, 2, 1);
	wait_for(fd, "auto-again", ids + 1, 1, 0);
	wait_for(fd, "signal-again", ids, 1, 0);
	wait_for(fd, "all", ids, 4, 1);
	say_result("reset", one_event(fd, 0x0b, ids[0]));
	say_result("reset-memory", one_event(fd, 0x0b, ids[2]));
	wait_for(fd, "after-reset", ids, 1, 0);
	wait_for(fd, "no-events", ids, 0, 0);
	say_result("destroy", one_event(fd, 0x09, ids[0]));
	say_result("destroy", one_event(fd, 0x09, ids[0]));
	wait_for(fd, "destroyed", ids, 2, 0);
	make_event(fd, "reused", KFD_EVENT_SIGNAL, 0);
	struct kfd_wait_events a = {.events_ptr = 16, .n_events = 1};
	say_result("bad-array", call(fd, _IOWR('K', 0x0c, a), &a));
	say("result=%u", a.result);
}

struct helper {
	int fd;
	unsigned after_ms;
	uint32_t nr, ids[2];
};

/* Sets or destroys events one after another, while the first thread waits. */
static void *help_later(void *data)
{
	const struct helper *h = data;

	for (int i = 0; i < 2 && h->ids[i] != 0; i++) {
		pause_ms(h->after_ms);
		(void)one_event(h->fd, h->nr, h->ids[i]);
	}
	return NULL;
}

/* Says the result, and whether it took at least as long as it should. */
static void wait_long(
	const char *what, uint32_t timeout_ms, uint32_t all, uint32_t n, struct helper h)
{
	struct kfd_event_data data[2] = {{.event_id = h.ids[0]}, {.event_id = h.ids[1]}};
	struct kfd_wait_events a = {
		.events_ptr = (uintptr_t)data, .n_events = n, .all = all, .timeout_ms = timeout_ms};
	struct timespec from, to;
	pthread_t thread;

	clock_gettime(CLOCK_MONOTONIC, &from);
	if (pthread_create(&thread, NULL, help_later, &h) != 0) {
		_exit(1);
	}
	say_result(what, call(h.fd, _IOWR('K', 0x0c, a), &a));
	clock_gettime(CLOCK_MONOTONIC, &to);
	pthread_join(thread, NULL);
	long ms = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
	unsigned least_ms = h.nr == 0 ? timeout_ms : h.after_ms * (all ? 2 : 1);
	say("result=%u waited=%d", a.result, ms + 1 >= (long)least_ms);
}

JUDGE_CASE(case_event_wait)
{
	int fd = open_kfd();
	uint32_t one = make_event(fd, "one", KFD_EVENT_SIGNAL, 0);
	uint32_t other = make_event(fd, "auto", KFD_EVENT_SIGNAL, 1);
	const uint32_t set = 0x0a, destroy = 0x09;

	wait_long("times-out", 100, 0, 1, (struct helper){fd, 0, 0, {one, 0}});
	wait_long("for-ever", UINT32_MAX, 0, 2, (struct helper){fd, 100, set, {other, one}});
	say_result("reset", one_event(fd, 0x0b, one));
	wait_long("both", 10000, 1, 2, (struct helper){fd, 100, set, {other, one}});
	say_result("reset", one_event(fd, 0x0b, one));
	wait_for(fd, "left", (uint32_t[]){one, other}, 2, 0);
	wait_long("destroyed", 10000, 0, 1, (struct helper){fd, 100, destroy, {one, 0}});
}

/* How many a process may have, and that another has its own. */
JUDGE_CASE(case_event_limit)
{
	int fd = open_kfd();
	struct kfd_create_event a = {0};
	uint32_t n = 0;
	long r = 0;

	while (n < 10000 && (r = call(fd, _IOWR('K', 0x08, a), &a)) == 0) {
		n++;
		a = (struct kfd_create_event){0};
	}
	say("made=%u", n);
	say_result("then", r);
	struct target t = target_start();
	say_result("other", target_ask(&t, TARGET_OPEN, 0, 0));
	a = (struct kfd_create_event){.page_offset = 1};
	say_result("own-page", call(fd, _IOWR('K', 0x08, a), &a));
}

struct svm {
	uint64_t start, size;
	uint32_t op, n;
	uint32_t attrs[4][2];
};

JUDGE_CASE(case_svm)
{
	int fd = open_kfd();
	struct svm a = {.start = 0};

	say_result("zero", call(fd, _IOC(3, 'K', 0x20, 24), &a));
	a = (struct svm){.start = 0x10001, .size = 0x1000};
	say_result("odd-start", call(fd, _IOC(3, 'K', 0x20, 24), &a));
	a = (struct svm){.start = 0x10000, .size = 0x1001};
	say_result("odd-size", call(fd, _IOC(3, 'K', 0x20, 24), &a));
	a = (struct svm){.start = 0, .size = 0x1000};
	say_result("null", call(fd, _IOC(3, 'K', 0x20, 24), &a));
}

/* An attribute that the argument has no room for: 6.16 to 6.18 at least read it, and crash. */
JUDGE_CASE(case_svm_cut_off)
{
	int fd = open_kfd();
	struct svm a = {.start = 0x10000, .size = 0x1000, .n = 1};

	say_result("cut-off", call(fd, _IOC(3, 'K', 0x20, 24), &a));
}

JUDGE_CASE(case_xnack)
{
	int fd = open_kfd();
	int32_t mode = -1;

	say_result("ask", call(fd, _IOWR('K', 0x21, mode), &mode));
	say("mode=%d", mode);
	mode = 0;
	say_result("off", call(fd, _IOWR('K', 0x21, mode), &mode));
	mode = -1;
	say_result("ask", call(fd, _IOWR('K', 0x21, mode), &mode));
	say("mode=%d", mode);
}

JUDGE_CASE(case_criu)
{
	int fd = open_kfd();
	uint32_t a[14] = {0};

	a[12] = 9;
	say_result("no-capability", call(fd, _IOWR('K', 0x22, a), a));
	say_result("null", call(fd, _IOWR('K', 0x22, a), NULL));
}

JUDGE_CASE(case_smi)
{
	int fd = open_kfd();
	uint32_t smi[2] = {1, 0}, tile[10] = {0}, memory[4] = {0}, info[8] = {0};
	uint64_t export[2] = {1ull << 32 | 1, 0}, import[3] = {0};

	say_result("smi", call(fd, _IOWR('K', 0x1f, smi), smi));
	tile[8] = 1;
	say_result("tile", call(fd, _IOWR('K', 0x12, tile), tile));
	memory[2] = 1;
	say_result("available", call(fd, _IOWR('K', 0x23, memory), memory));
	say_result("dmabuf-info", call(fd, _IOWR('K', 0x1c, info), info));
	say_result("import", call(fd, _IOWR('K', 0x1d, import), import));
	say_result("export", call(fd, _IOWR('K', 0x24, export), export));
}

JUDGE_CASE(case_profiler)
{
	int fd = open_kfd();

	for (uint32_t op = 0; op < 5; op++) {
		uint32_t a[4] = {op, 7, 0, 0};
		char what[16];
		snprintf(what, sizeof(what), "op-%u", op);
		say_result(what, call(fd, _IOWR('K', 0x28, a), a));
		say("(%u)", a[1]);
	}
}

/* From 1.19 on a file can have a process of its own, apart from the others of its program. */
JUDGE_CASE(case_second_process)
{
	int fd = open_kfd(), other = open_kfd();

	say_result("make", call(fd, _IO('K', 0x27), NULL));
	say_result("again", call(fd, _IO('K', 0x27), NULL));
	say_result("other", call(other, _IO('K', 0x27), NULL));
	say_result("dbg", dbg(fd, 0, KFD_DBG_ENABLE, NULL));
	say_result("runtime", runtime_enable(fd, KFD_RUNTIME_ENABLE_MODE, 0));
	say_result("runtime-other", runtime_enable(other, KFD_RUNTIME_ENABLE_MODE, 0));
	say_result("runtime-again", runtime_enable(fd, KFD_RUNTIME_ENABLE_MODE, 0));
	int third = open_kfd();
	say_result("runtime-third", runtime_enable(third, KFD_RUNTIME_ENABLE_MODE, 0));
}
