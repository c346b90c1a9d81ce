/* SPDX-License-Identifier: Apache-2.0 */
/* DBG_TRAP: who may, in which order things are checked, and each operation without queues. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "judge.h"

#define LAST_OP (KFD_DBG_DEVICE_SNAPSHOT + 1) /* one too many */

static void each_op(int fd, pid_t pid, const char *what, uint32_t first)
{
	for (uint32_t op = first; op <= LAST_OP; op++) {
		char name[48];
		snprintf(name, sizeof(name), "%s-%u", what, op);
		say_result(name, dbg(fd, pid, op, NULL));
	}
}

/* A seized process with KFD open, its runtime on if wanted; debugging is not enabled. */
static struct target traced_target(bool runtime)
{
	struct target t = target_start();

	target_ask(&t, TARGET_OPEN, 0, 0);
	if (runtime) {
		target_ask(&t, TARGET_RUNTIME, KFD_RUNTIME_ENABLE_MODE, 0);
	}
	seize(t.pid);
	return t;
}

/* The same with debugging enabled, its runtime on. */
static struct target debugged_target(int fd, int ret_events[2])
{
	struct target t = traced_target(true);

	make_pipe(ret_events);
	say_result("enable", dbg_enable(fd, t.pid, ret_events[1], KFD_EC_PROCESS_RUNTIME, NULL));
	return t;
}

JUDGE_CASE(case_dbg_pids)
{
	int fd = open_kfd();
	pid_t gone = fork();

	if (gone == 0) {
		_exit(0);
	}
	siginfo_t info;
	waitid(P_PID, (id_t)gone, &info, WEXITED | WNOWAIT);
	say_result("zombie", dbg(fd, gone, KFD_DBG_ENABLE, NULL));
	say_result("zombie-disable", dbg(fd, gone, KFD_DBG_DISABLE, NULL));
	waitpid(gone, NULL, 0);
	say_result("gone", dbg(fd, gone, KFD_DBG_ENABLE, NULL));
	say_result("pid-0", dbg(fd, 0, KFD_DBG_ENABLE, NULL));
	say_result("pid--1", dbg(fd, -1, KFD_DBG_ENABLE, NULL));
	say_result("pid-max", dbg(fd, 0x7fffffff, KFD_DBG_SUSPEND_QUEUES, NULL));
	say_result("pid-0-op-99", dbg(fd, 0, 99, NULL));
}

JUDGE_CASE(case_dbg_self)
{
	int fd = open_kfd(), events[2];
	struct kfd_runtime_info info = {0};

	make_pipe(events);
	each_op(fd, getpid(), "before", KFD_DBG_DISABLE);
	say_result("enable", dbg_enable(fd, getpid(), events[1], 0, &info));
	say("r_debug=%lx state=%u ttmp=%u", (unsigned long)info.r_debug, info.state,
		info.ttmp_setup);
	say_result("twice", dbg_enable(fd, getpid(), events[1], 0, NULL));
	each_op(fd, getpid(), "enabled", KFD_DBG_SEND_RUNTIME_EVENT);
	say_result("disable", dbg(fd, getpid(), KFD_DBG_DISABLE, NULL));
	say_result("disable", dbg(fd, getpid(), KFD_DBG_DISABLE, NULL));
}

JUDGE_CASE(case_dbg_not_traced)
{
	struct target t = target_start();
	int fd = open_kfd();

	target_ask(&t, TARGET_OPEN, 0, 0);
	each_op(fd, t.pid, "op", KFD_DBG_ENABLE);
}

JUDGE_CASE(case_dbg_not_kfd)
{
	struct target t = target_start();
	int fd = open_kfd(), events[2];

	make_pipe(events);
	each_op(fd, t.pid, "untraced", KFD_DBG_ENABLE);
	say_result("seize", seize(t.pid));
	each_op(fd, t.pid, "traced", KFD_DBG_DISABLE);
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, NULL));
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, NULL));
	say_result("open-later", target_ask(&t, TARGET_OPEN, 0, 0));
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, NULL));
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
}

JUDGE_CASE(case_dbg_traced)
{
	struct target t = traced_target(true);
	int fd = open_kfd(), events[2];
	struct kfd_runtime_info info = {0};

	make_pipe(events);
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, &info));
	say("r_debug=%lx state=%u ttmp=%u", (unsigned long)info.r_debug, info.state,
		info.ttmp_setup);
	say_result("lives", target_ask(&t, TARGET_VERSION, 0, 0));
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, &info));
	say("state=%u", info.state);
	say_result("detach", detach(t.pid));
	say_result("lives", target_ask(&t, TARGET_VERSION, 0, 0));
}

JUDGE_CASE(case_dbg_before_enable)
{
	struct target t = traced_target(true);

	int fd = open_kfd();

	each_op(fd, t.pid, "op", KFD_DBG_DISABLE);
	say_result("op-77", dbg(fd, t.pid, 77, NULL));
}

JUDGE_CASE(case_dbg_runtime_off)
{
	struct target t = traced_target(false);
	int fd = open_kfd(), events[2];

	make_pipe(events);
	say_result("enable", dbg_enable(fd, t.pid, events[1], 0, NULL));
	each_op(fd, t.pid, "op", KFD_DBG_SEND_RUNTIME_EVENT);
}

static void try_enable(const char *what, int fd, struct target *t, struct kfd_dbg_trap a)
{
	say_result(what, dbg(fd, t->pid, KFD_DBG_ENABLE, &a));
	say("size=%u", a.enable.rinfo_size);
	say_result("disable", dbg(fd, t->pid, KFD_DBG_DISABLE, NULL));
}

JUDGE_CASE(case_dbg_enable_args)
{
	struct target t = traced_target(true);
	uint8_t info[64];
	int fd = open_kfd(), events[2];

	make_pipe(events);
	struct kfd_dbg_trap good = {.enable.rinfo_ptr = (uintptr_t)info,
		.enable.rinfo_size = sizeof(struct kfd_runtime_info),
		.enable.dbg_fd = (uint32_t)events[1]};
	struct kfd_dbg_trap a = good;
	memset(info, 0xa5, sizeof(info));
	a.enable.rinfo_size = 0;
	try_enable("size-0", fd, &t, a);
	a.enable.rinfo_ptr = 0;
	try_enable("size-0-null", fd, &t, a);
	a = good;
	a.enable.rinfo_size = 8;
	try_enable("size-8", fd, &t, a);
	say("behind=%x", info[8]);
	a.enable.rinfo_size = sizeof(info);
	try_enable("size-64", fd, &t, a);
	say("last=%x behind=%x", info[15], info[16]);
	a = good;
	a.enable.dbg_fd = 999;
	try_enable("bad-fd", fd, &t, a);
	a.enable.dbg_fd = UINT32_MAX;
	try_enable("fd--1", fd, &t, a);
	a = good;
	a.enable.exception_mask = UINT64_MAX;
	try_enable("all-exceptions", fd, &t, a);
	/* Refused only after everything was done: is there a session now? */
	a = good;
	a.enable.rinfo_ptr = 0;
	say_result("null", dbg(fd, t.pid, KFD_DBG_ENABLE, &a));
	say_result("after-null", dbg(fd, t.pid, KFD_DBG_ENABLE, &good));
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	a = good;
	a.enable.dbg_fd = 999;
	a.enable.rinfo_ptr = 0;
	say_result("null-bad-fd", dbg(fd, t.pid, KFD_DBG_ENABLE, &a));
	say_result("after-bad-fd", dbg(fd, t.pid, KFD_DBG_QUERY_EVENT, NULL));
}

/* Any file will do; what cannot take one byte gets none. */
JUDGE_CASE(case_dbg_event_files)
{
	struct target t = traced_target(true);
	int fd = open_kfd(), events[2];
	const struct {
		const char *name;
		int fd;
	} files[] = {{"eventfd", eventfd(0, EFD_CLOEXEC)}, {"kfd", fd},
		{"null", open("/dev/null", O_RDWR | O_CLOEXEC)},
		{"root", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)}};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		say_result(files[i].name, dbg_enable(fd, t.pid, files[i].fd, 0, NULL));
		say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	}
	make_pipe(events);
	say_result("read-end", dbg_enable(fd, t.pid, events[0], 0, NULL));
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
}

JUDGE_CASE(case_dbg_twice)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events);

	say_result("twice", dbg_enable(fd, t.pid, events[1], 0, NULL));
	say_result("twice-bad-fd", dbg_enable(fd, t.pid, 999, 0, NULL));
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	say_result("disable", dbg(fd, t.pid, KFD_DBG_DISABLE, NULL));
	say_result("again", dbg_enable(fd, t.pid, events[1], 0, NULL));
	/* By another file of the same process. */
	int other = open_kfd();
	say_result("other-file", dbg(other, t.pid, KFD_DBG_QUERY_EVENT, NULL));
	say_result("other-disable", dbg(other, t.pid, KFD_DBG_DISABLE, NULL));
}

JUDGE_CASE(case_dbg_suspend)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events);
	static uint32_t ids[2048];
	struct kfd_dbg_trap a = {0};

	say_result("none", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, &a));
	ids[0] = 0;
	ids[1] = 7;
	ids[2] = 0xc0000001u;
	a.suspend.queue_array_ptr = (uintptr_t)ids;
	a.suspend.n_queues = 3;
	a.suspend.grace_period = 1;
	say_result("unknown", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, &a));
	say("%x %x %x %x", ids[0], ids[1], ids[2], ids[3]);
	say_result("unknown", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, &a));
	say("%x %x %x", ids[0], ids[1], ids[2]);
	a.suspend.n_queues = 1024;
	say_result("1024", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, &a));
	say("%x %x", ids[1023], ids[1024]);
	a.suspend.n_queues = 1025;
	say_result("1025", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, &a));
	a.suspend.n_queues = UINT32_MAX;
	say_result("all", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, &a));
	a.suspend.queue_array_ptr = 16;
	a.suspend.n_queues = 1;
	say_result("bad-array", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, &a));
	a.suspend.n_queues = 0;
	say_result("bad-array-0", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, &a));
}

/* 6.12.43 at least crashes. */
JUDGE_CASE(case_suspend_no_array)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events);
	struct kfd_dbg_trap a = {.suspend.n_queues = 1};

	say_result("no-array", dbg(fd, t.pid, KFD_DBG_SUSPEND_QUEUES, &a));
}

JUDGE_CASE(case_dbg_resume)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events);
	static uint32_t ids[2048];
	struct kfd_dbg_trap a = {0};

	say_result("all", dbg(fd, t.pid, KFD_DBG_RESUME_QUEUES, &a));
	a.resume.n_queues = 5;
	say_result("no-array", dbg(fd, t.pid, KFD_DBG_RESUME_QUEUES, &a));
	ids[1] = 9;
	a.resume.queue_array_ptr = (uintptr_t)ids;
	a.resume.n_queues = 2;
	say_result("unknown", dbg(fd, t.pid, KFD_DBG_RESUME_QUEUES, &a));
	say("%x %x %x", ids[0], ids[1], ids[2]);
	a.resume.n_queues = 0;
	say_result("0", dbg(fd, t.pid, KFD_DBG_RESUME_QUEUES, &a));
	a.resume.n_queues = 1025;
	say_result("1025", dbg(fd, t.pid, KFD_DBG_RESUME_QUEUES, &a));
	a.resume.queue_array_ptr = 16;
	a.resume.n_queues = 1;
	say_result("bad-array", dbg(fd, t.pid, KFD_DBG_RESUME_QUEUES, &a));
}

static void try_snapshot(const char *what, int fd, pid_t pid, uint32_t op, struct kfd_dbg_trap a)
{
	say_result(what, dbg(fd, pid, op, &a));
	say("n=%u size=%u", a.snapshot.n_entries, a.snapshot.entry_size);
}

/* Rooms and sizes for both kinds of snapshot. */
static void try_snapshots(int fd, pid_t pid, uint32_t op)
{
	static uint8_t room[4096];
	static const uint32_t sizes[] = {0, 1, 8, 63, 64, 65, 120, 128, 4096};
	struct kfd_dbg_trap a = {.snapshot.buf_ptr = (uintptr_t)room};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char what[24];
		snprintf(what, sizeof(what), "size-%u", sizes[i]);
		a.snapshot.n_entries = 4;
		a.snapshot.entry_size = sizes[i];
		try_snapshot(what, fd, pid, op, a);
	}
	a.snapshot.entry_size = 64;
	a.snapshot.n_entries = 0;
	try_snapshot("room-0", fd, pid, op, a);
	a.snapshot.n_entries = UINT32_MAX;
	try_snapshot("room-all", fd, pid, op, a);
	a.snapshot.buf_ptr = 0;
	try_snapshot("null", fd, pid, op, a);
	a.snapshot.n_entries = 0;
	try_snapshot("null-room-0", fd, pid, op, a);
}

JUDGE_CASE(case_dbg_snapshot)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events);

	try_snapshots(fd, t.pid, KFD_DBG_QUEUE_SNAPSHOT);
}

JUDGE_CASE(case_dbg_devices)
{
	int fd = open_kfd(), events[2];
	struct target t = debugged_target(fd, events);

	try_snapshots(fd, t.pid, KFD_DBG_DEVICE_SNAPSHOT);
}
