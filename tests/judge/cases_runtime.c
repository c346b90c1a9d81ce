/* SPDX-License-Identifier: Apache-2.0 */
/* RUNTIME_ENABLE, alone and under a debugger: who waits for whom, and for how long. */
#include <unistd.h>

#include "judge.h"

#define WAITS_MS 400   /* long enough to call it waiting */
#define COMES_MS 10000 /* and this to call it never */

#define ENABLE  KFD_RUNTIME_ENABLE_MODE
#define RUNTIME KFD_EC_PROCESS_RUNTIME

/* Says the answer to what was sent, or that there is none. */
static void say_answer(const char *what, struct target *t, unsigned ms)
{
	long r = 0;

	if (target_answers(t, ms, &r)) {
		say_result(what, r);
	} else {
		say("%s=waits", what);
	}
}

static long send_word(int fd, pid_t pid, uint64_t mask)
{
	struct kfd_dbg_trap a = {.event.exception_mask = mask};

	return dbg(fd, pid, KFD_DBG_SEND_RUNTIME_EVENT, &a);
}

/* A program that is debugged before its runtime starts. */
static void begin_debugged(
	struct target *t, int fd, int ret_events[2], struct kfd_runtime_info *ret_info)
{
	make_pipe(ret_events);
	say_result("open", target_ask(t, TARGET_OPEN, 0, 0));
	say_result("seize", seize(t->pid));
	say_result("enable", dbg_enable(fd, t->pid, ret_events[1], RUNTIME, ret_info));
}

JUDGE_CASE(case_runtime_modes)
{
	int fd = open_kfd();

	say_result("disable", runtime_enable(fd, 0, 0));
	say_result("disable", runtime_enable(fd, 0, 0));
	say_result("enable", runtime_enable(fd, ENABLE, 1));
	say_result("enable", runtime_enable(fd, ENABLE, 1));
	say_result("enable-ttmp", runtime_enable(fd, ENABLE | KFD_RUNTIME_TTMP_MODE, 1));
	say_result("disable", runtime_enable(fd, 0, 0));
	say_result("enable-ttmp", runtime_enable(fd, ENABLE | KFD_RUNTIME_TTMP_MODE, 1));
	say_result("ttmp-alone", runtime_enable(fd, KFD_RUNTIME_TTMP_MODE, 1));
	say_result("unknown-bits", runtime_enable(fd, 0xfffffff0u, 1));
	say_result("all-bits", runtime_enable(fd, UINT32_MAX, 1));
	say_result("disable", runtime_enable(fd, 0, 0));
}

JUDGE_CASE(case_runtime_reopen)
{
	struct target t = target_start();
	int fd = open_kfd(), events[2];
	struct kfd_runtime_info info = {0};

	make_pipe(events);
	say_result("open", target_ask(&t, TARGET_OPEN, 0, 0));
	say_result("runtime", target_ask(&t, TARGET_RUNTIME, ENABLE | KFD_RUNTIME_TTMP_MODE, 0));
	say_result("close", target_ask(&t, TARGET_CLOSE, 0, 0));
	pause_ms(300);
	say_result("seize", seize(t.pid));
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, &info));
	say("r_debug=%lx state=%u ttmp=%u", (unsigned long)info.r_debug, info.state,
		info.ttmp_setup);
}

JUDGE_CASE(case_runtime_debugged)
{
	struct target t = target_start();
	int fd = open_kfd(), events[2];
	struct kfd_dbg_trap a = {0};
	struct kfd_runtime_info info = {0};

	begin_debugged(&t, fd, events, &info);
	say("r_debug=%lx state=%u ttmp=%u", (unsigned long)info.r_debug, info.state,
		info.ttmp_setup);
	target_send(&t, TARGET_RUNTIME, ENABLE | KFD_RUNTIME_TTMP_MODE, 0);
	say_answer("starts", &t, WAITS_MS);
	say("events=%d", bytes_in(events[0]));
	say_result("query", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, &a));
	say("mask=%lx", (unsigned long)a.event.exception_mask);
	a = (struct kfd_dbg_trap){.info.info_ptr = (uintptr_t)&info,
		.info.info_size = sizeof(info),
		.info.code = KFD_EC_CODE_PROCESS_RUNTIME,
		.info.clear = 1};
	say_result("info", dbg(fd, t.pid, KFD_DBG_QUERY_EXCEPTION_INFO, &a));
	say("r_debug=%lx state=%u ttmp=%u size=%u", (unsigned long)info.r_debug, info.state,
		info.ttmp_setup, a.info.info_size);
	say_result("word", send_word(fd, t.pid, RUNTIME));
	say_answer("started", &t, COMES_MS);
	target_send(&t, TARGET_RUNTIME, 0, 0);
	say_answer("ends", &t, WAITS_MS);
	say("events=%d", bytes_in(events[0]));
	say_result("word", send_word(fd, t.pid, RUNTIME));
	say_answer("ended", &t, COMES_MS);
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	say_result("runtime-alone", target_ask(&t, TARGET_RUNTIME, ENABLE, 0));
}

/* A word for nobody is kept, as a semaphore keeps it. */
JUDGE_CASE(case_runtime_early_word)
{
	struct target t = target_start();
	int fd = open_kfd(), events[2];

	begin_debugged(&t, fd, events, NULL);
	say_result("word", send_word(fd, t.pid, RUNTIME));
	target_send(&t, TARGET_RUNTIME, ENABLE, 0);
	say_answer("starts", &t, COMES_MS);
	target_send(&t, TARGET_RUNTIME, 0, 0);
	say_answer("ends", &t, WAITS_MS);
	say_result("other-word", send_word(fd, t.pid, 0));
	say_answer("ends", &t, WAITS_MS);
	say_result("word", send_word(fd, t.pid, RUNTIME));
	say_answer("ends", &t, COMES_MS);
}

/* A runtime whose debugger goes away waits on: only an answer, or death, ends the wait. */
JUDGE_CASE(case_runtime_disable_ends)
{
	struct target t = target_start();
	int fd = open_kfd(), events[2];

	begin_debugged(&t, fd, events, NULL);
	target_send(&t, TARGET_RUNTIME, ENABLE, 0);
	say_answer("starts", &t, WAITS_MS);
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	say_answer("after-disable", &t, WAITS_MS);
	say_result("enable", dbg_enable(fd, t.pid, events[1], RUNTIME, NULL));
	say_result("word", send_word(fd, t.pid, RUNTIME));
	say_answer("after-word", &t, COMES_MS);
}
