/* SPDX-License-Identifier: Apache-2.0 */
/* DBG_TRAP: what remains of the operations; threads, other processes, and the death of either. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "judge.h"

#define RUNTIME KFD_EC_PROCESS_RUNTIME

static struct target debugged_target(int fd, int ret_events[2], uint64_t mask)
{
	struct target t = target_start();

	make_pipe(ret_events);
	target_ask(&t, TARGET_OPEN, 0, 0);
	target_ask(&t, TARGET_RUNTIME, KFD_RUNTIME_ENABLE_MODE, 0);
	seize(t.pid);
	say_result("enable", dbg_enable(fd, t.pid, ret_events[1], mask, NULL));
	return t;
}

JUDGE_CASE(case_dbg_launch)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, 0);
	static const uint32_t modes[] = {0, 1, 2, 3, 4, 0x100, 0x102, UINT32_MAX};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		struct kfd_dbg_trap a = {.launch.mode = modes[i]};
		char what[24];
		snprintf(what, sizeof(what), "mode-%x", modes[i]);
		say_result(what, dbg(fd, t.pid, KFD_DBG_SET_LAUNCH_MODE, &a));
	}
	/* override mode, enable mask, support request mask */
	for (uint32_t mode = 0; mode < 3; mode++) {
		struct kfd_dbg_trap a = {0};
		uint32_t *words = (uint32_t *)&a + 2;
		char what[24];
		words[0] = mode;
		words[1] = words[2] = 0x180;
		snprintf(what, sizeof(what), "override-%u", mode);
		say_result(what, dbg(fd, t.pid, KFD_DBG_SET_LAUNCH_OVERRIDE, &a));
		say("%x %x %x", words[0], words[1], words[2]);
	}
}

JUDGE_CASE(case_dbg_watch)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, 0);
	struct kfd_dbg_trap a = {0};
	uint32_t *words = (uint32_t *)&a + 2;

	words[3] = 1; /* mode, mask, gpu */
	words[4] = 0x40;
	words[5] = 1;
	say_result("set", dbg(fd, t.pid, KFD_DBG_SET_WATCH, &a));
	memset(&a, 0, sizeof(a));
	say_result("set-gpu-0", dbg(fd, t.pid, KFD_DBG_SET_WATCH, &a));
	words[0] = 1;
	say_result("clear", dbg(fd, t.pid, KFD_DBG_CLEAR_WATCH, &a));
}

JUDGE_CASE(case_dbg_flags)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, 0);
	static const uint32_t flags[] = {1, 2, 0, 7, UINT32_MAX, 0};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct kfd_dbg_trap a = {.launch.mode = flags[i]};
		char what[24];
		snprintf(what, sizeof(what), "flags-%x", flags[i]);
		say_result(what, dbg(fd, t.pid, KFD_DBG_SET_FLAGS, &a));
		say("before=%x", a.launch.mode);
	}
}

JUDGE_CASE(case_dbg_events)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, 0);
	struct kfd_dbg_trap a = {.event = {.exception_mask = 5, .gpu_id = 6, .queue_id = 7}};

	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, &a));
	say("%lx %u %u", (unsigned long)a.event.exception_mask, a.event.gpu_id, a.event.queue_id);
	/* The runtime ends: nobody has subscribed, so nothing is said; it waits all the same. */
	target_send(&t, TARGET_RUNTIME, 0, 0);
	pause_ms(400);
	say("bytes=%d", bytes_in(events[0]));
	a.event.exception_mask = 0;
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, &a));
	a.exceptions.exception_mask = KFD_EC_QUEUE_NEW;
	say_result("subscribe-other", dbg(fd, t.pid, KFD_DBG_SET_EXCEPTIONS, &a));
	say("bytes=%d", bytes_in(events[0]));
	a.exceptions.exception_mask = RUNTIME;
	say_result("subscribe", dbg(fd, t.pid, KFD_DBG_SET_EXCEPTIONS, &a));
	say("bytes=%d", bytes_in(events[0]));
	a.event.exception_mask = 0;
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, &a));
	say("%lx", (unsigned long)a.event.exception_mask);
	a.event.exception_mask = RUNTIME;
	say_result("query-clear", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, &a));
	say("%lx", (unsigned long)a.event.exception_mask);
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, &a));
	/* Words for what does not wait. */
	a = (struct kfd_dbg_trap){.event.exception_mask = 1};
	say_result("word-queue", dbg(fd, t.pid, KFD_DBG_SEND_RUNTIME_EVENT, &a));
	a = (struct kfd_dbg_trap){.event.exception_mask = 1ull << 33};
	say_result("word-memory", dbg(fd, t.pid, KFD_DBG_SEND_RUNTIME_EVENT, &a));
	a = (struct kfd_dbg_trap){.event.exception_mask = 1ull << 32};
	say_result("word-device", dbg(fd, t.pid, KFD_DBG_SEND_RUNTIME_EVENT, &a));
}

JUDGE_CASE(case_dbg_info)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, 0);
	struct kfd_runtime_info info;
	static const uint32_t codes[] = {
		0, 1, 6, 7, 16, 31, 32, 33, 34, 36, 37, 47, 48, 49, 50, 64, 100};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct kfd_dbg_trap a = {.info.info_ptr = (uintptr_t)&info,
			.info.info_size = sizeof(info),
			.info.code = codes[i]};
		char what[24];
		snprintf(what, sizeof(what), "code-%u", codes[i]);
		say_result(what, dbg(fd, t.pid, KFD_DBG_QUERY_EXCEPTION_INFO, &a));
	}
	struct kfd_dbg_trap a = {.info.code = KFD_EC_CODE_PROCESS_RUNTIME};
	say_result("no-room", dbg(fd, t.pid, KFD_DBG_QUERY_EXCEPTION_INFO, &a));
}

/* The argument cut off before what an operation needs: that is then zero. */
JUDGE_CASE(case_dbg_sizes)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, 0);
	static const uint32_t sizes[] = {0, 4, 8, 16, 24, 31, 32, 33, 256};
	static uint8_t bytes[256];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct kfd_dbg_trap a = {.pid = (uint32_t)t.pid, .op = KFD_DBG_QUEUE_SNAPSHOT};
		char what[24];
		a.snapshot.buf_ptr = (uintptr_t)bytes;
		a.snapshot.n_entries = 3;
		a.snapshot.entry_size = 77;
		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, &a, sizeof(a));
		snprintf(what, sizeof(what), "size-%u", sizes[i]);
		say_result(what, call(fd, _IOC(3, 'K', KFD_NR_DBG_TRAP, sizes[i]), bytes));
		memcpy(&a, bytes, sizeof(a));
		say("n=%u entry=%u", a.snapshot.n_entries, a.snapshot.entry_size);
	}
}

struct thread_args {
	int fd;
	pid_t pid;
	int event;
	uint32_t op;
};

static long thread_dbg(void *data)
{
	struct thread_args *t = data;

	return t->op == KFD_DBG_ENABLE ? dbg_enable(t->fd, t->pid, t->event, 0, NULL)
				       : dbg(t->fd, t->pid, t->op, NULL);
}

/* The tracer is a thread: another of the same process may, or may not. */
JUDGE_CASE(case_dbg_thread)
{
	struct target t = target_start();
	int events[2];
	struct thread_args args = {.fd = open_kfd(), .pid = t.pid};

	make_pipe(events);
	args.event = events[1];
	target_ask(&t, TARGET_OPEN, 0, 0);
	target_ask(&t, TARGET_RUNTIME, 1, 0);
	say_result("seize", seize(t.pid));
	say_result("enable-thread", on_thread(thread_dbg, &args));
	say_result("enable", dbg_enable(args.fd, t.pid, events[1], 0, NULL));
	say_result("twice-thread", on_thread(thread_dbg, &args));
	static const uint32_t ops[] = {KFD_DBG_QUERY_EVENT, KFD_DBG_SUSPEND_QUEUES,
		KFD_DBG_QUEUE_SNAPSHOT, KFD_DBG_DISABLE, KFD_DBG_DISABLE};
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		char what[24];
		args.op = ops[i];
		snprintf(what, sizeof(what), "thread-%u", ops[i]);
		say_result(what, on_thread(thread_dbg, &args));
	}
	say_result("disable", dbg(args.fd, t.pid, KFD_DBG_DISABLE, NULL));
}

JUDGE_CASE(case_dbg_detached)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, 0);

	say_result("detach", detach(t.pid));
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	say_result("suspend", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, NULL));
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, NULL));
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, NULL));
	say_result("seize", seize(t.pid));
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, NULL));
	say_result("lives", target_ask(&t, TARGET_VERSION, 0, 0));
}

/* Two debuggers: whoever ptraces may speak, and the first session stays. */
JUDGE_CASE(case_dbg_two)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, 0), other = target_start();

	say_result("other-open", target_ask(&other, TARGET_OPEN, 0, 0));
	say_result("other-seize", target_ask(&other, TARGET_SEIZE, (uint32_t)t.pid, 0));
	say_result("other-enable", target_ask(&other, TARGET_ENABLE, (uint32_t)t.pid, 0));
	say_result("other-query",
		target_ask(&other, TARGET_DBG, (uint32_t)t.pid, KFD_DBG_QUERY_EVENT));
	say_result("detach", detach(t.pid));
	say_result("other-seize", target_ask(&other, TARGET_SEIZE, (uint32_t)t.pid, 0));
	say_result("other-enable", target_ask(&other, TARGET_ENABLE, (uint32_t)t.pid, 0));
	say_result("other-query",
		target_ask(&other, TARGET_DBG, (uint32_t)t.pid, KFD_DBG_QUERY_EVENT));
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	target_kill(&other);
	target_reap(&other);
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
}

JUDGE_CASE(case_dbg_disable_by_other)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, 0), other = target_start();

	say_result("other-open", target_ask(&other, TARGET_OPEN, 0, 0));
	say_result("other-query",
		target_ask(&other, TARGET_DBG, (uint32_t)t.pid, KFD_DBG_QUERY_EVENT));
	say_result(
		"other-disable", target_ask(&other, TARGET_DBG, (uint32_t)t.pid, KFD_DBG_DISABLE));
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	/* The target itself may, always. */
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, NULL));
	say_result("own-query", target_ask(&t, TARGET_DBG, (uint32_t)t.pid, KFD_DBG_QUERY_EVENT));
	say_result("own-disable", target_ask(&t, TARGET_DBG, (uint32_t)t.pid, KFD_DBG_DISABLE));
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
}

/* A debugger whose fd is another's: the fd is looked at before anything else. */
JUDGE_CASE(case_dbg_no_file)
{
	struct target t = target_start(), other = target_start();
	int fd = open_kfd();
	long r = 0;

	target_ask(&t, TARGET_OPEN, 0, 0);
	target_give(&other, fd);
	(void)target_answers(&other, 5000, &r);
	say_result("other-seize", target_ask(&other, TARGET_SEIZE, (uint32_t)t.pid, 0));
	say_result("other-enable", target_ask(&other, TARGET_ENABLE, (uint32_t)t.pid, 0));
	say_result("other-gone", target_ask(&other, TARGET_DBG, 0, KFD_DBG_QUERY_EVENT));
	/* Or its own target's. */
	say_result("thread-of-target", target_ask(&other, TARGET_OPEN, 0, 0));
	say_result("other-enable", target_ask(&other, TARGET_ENABLE, (uint32_t)t.pid, 0));
}

JUDGE_CASE(case_dbg_target_dies)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, RUNTIME);

	target_kill(&t);
	say_result("zombie-query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	say_result("zombie-disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	say("events=%d", bytes_in(events[0]));
	target_reap(&t);
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	/* We are whole: the next one can be debugged. */
	struct target next = debugged_target(fd, events, RUNTIME);
	say_result("query", dbg(fd, next.pid, KFD_DBG_QUERY_EVENT, NULL));
}

/* It dies while it waits for our word. */
JUDGE_CASE(case_dbg_target_dies_waiting)
{
	struct target t = target_start();
	int fd = open_kfd(), events[2];
	long r = 0;

	make_pipe(events);
	target_ask(&t, TARGET_OPEN, 0, 0);
	say_result("seize", seize(t.pid));
	say_result("enable", dbg_enable(fd, t.pid, events[1], RUNTIME, NULL));
	target_send(&t, TARGET_RUNTIME, 1, 0);
	say("answers=%d", target_answers(&t, 400, &r));
	say("events=%d", bytes_in(events[0]));
	target_kill(&t);
	say_result("zombie-query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	target_reap(&t);
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	close(events[1]);
	/* The driver has let go of its end as well: what it wrote, and then the pipe's end. */
	char bytes[8];
	say("read=%zd", read(events[0], bytes, sizeof(bytes)));
	say("end=%zd", read(events[0], bytes, sizeof(bytes)));
	struct target next = debugged_target(fd, events, RUNTIME);
	say_result("query", dbg(fd, next.pid, KFD_DBG_QUERY_EVENT, NULL));
}

JUDGE_CASE(case_dbg_target_execs)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events, RUNTIME);

	target_ask(&t, TARGET_EXEC, 0, 0);
	/* Seized: exec stops nobody unless asked to. */
	say_result("exec", target_ask(&t, TARGET_VERSION, 0, 0));
	pause_ms(300);
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	say_result("open", target_ask(&t, TARGET_OPEN, 0, 0));
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, NULL));
}

JUDGE_CASE(case_dbg_debugger_dies)
{
	struct target t = target_start(), debugger = target_start();
	int fd = open_kfd(), events[2];
	struct kfd_runtime_info info = {0};

	make_pipe(events);
	target_ask(&t, TARGET_OPEN, 0, 0);
	target_ask(&t, TARGET_RUNTIME, 1, 0);
	target_ask(&debugger, TARGET_OPEN, 0, 0);
	say_result("seize", target_ask(&debugger, TARGET_SEIZE, (uint32_t)t.pid, 0));
	say_result("enable", target_ask(&debugger, TARGET_ENABLE, (uint32_t)t.pid, 0));
	target_kill(&debugger);
	target_reap(&debugger);
	say_result("lives", target_ask(&t, TARGET_VERSION, 0, 0));
	say_result("seize", seize(t.pid));
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, &info));
	say("state=%u", info.state);
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
}

/* It dies while its target waits for its word. */
JUDGE_CASE(case_dbg_debugger_dies_waiting)
{
	struct target t = target_start(), debugger = target_start();
	int fd = open_kfd(), events[2];
	long r = 0;

	make_pipe(events);
	target_ask(&t, TARGET_OPEN, 0, 0);
	target_ask(&debugger, TARGET_OPEN, 0, 0);
	say_result("seize", target_ask(&debugger, TARGET_SEIZE, (uint32_t)t.pid, 0));
	say_result("enable", target_ask(&debugger, TARGET_ENABLE, (uint32_t)t.pid, 0));
	target_send(&t, TARGET_RUNTIME, 1, 0);
	say("answers=%d", target_answers(&t, 400, &r));
	target_kill(&debugger);
	target_reap(&debugger);
	say("answers=%d", target_answers(&t, 400, &r));
	say_result("seize", seize(t.pid));
	say_result("enable", dbg_enable(fd, t.pid, events[1], RUNTIME, NULL));
	struct kfd_dbg_trap a = {.event.exception_mask = RUNTIME};
	say_result("word", dbg(fd, t.pid, KFD_DBG_SEND_RUNTIME_EVENT, &a));
	say("answers=%d", target_answers(&t, 10000, &r));
	say_result("runtime", r);
}

/* It closes /dev/kfd, and goes on ptracing. */
JUDGE_CASE(case_dbg_debugger_closes)
{
	struct target t = target_start(), debugger = target_start();

	target_ask(&t, TARGET_OPEN, 0, 0);
	target_ask(&t, TARGET_RUNTIME, 1, 0);
	target_ask(&debugger, TARGET_OPEN, 0, 0);
	say_result("seize", target_ask(&debugger, TARGET_SEIZE, (uint32_t)t.pid, 0));
	say_result("enable", target_ask(&debugger, TARGET_ENABLE, (uint32_t)t.pid, 0));
	say_result("close", target_ask(&debugger, TARGET_CLOSE, 0, 0));
	pause_ms(300);
	say_result("reopen", target_ask(&debugger, TARGET_OPEN, 0, 0));
	say_result(
		"query", target_ask(&debugger, TARGET_DBG, (uint32_t)t.pid, KFD_DBG_QUERY_EVENT));
	say_result("enable", target_ask(&debugger, TARGET_ENABLE, (uint32_t)t.pid, 0));
	say_result("disable", target_ask(&debugger, TARGET_DBG, (uint32_t)t.pid, KFD_DBG_DISABLE));
}
