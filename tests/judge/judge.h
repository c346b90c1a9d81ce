/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judge: one table of calls on /dev/kfd and reads of its sysfs tree, each case in a process of
 * its own, each result one line. The same program runs under the real amdgpu driver and on the
 * software GPU; the lines must be the same. So nothing that differs from run to run is printed: no
 * pid, address or time.
 */
#ifndef RBT_TESTS_JUDGE_H
#define RBT_TESTS_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/amd/kfd_abi.h"

struct judge_case {
	const char *name;
	void (*run)(const struct judge_case *self);
	uint32_t nr, dir, size; /* of the cases that go through all numbers */
	bool risky;             /* some kernels crash: run last, and only when asked for */
};

extern const struct judge_case judge_cases[];
extern const size_t judge_n_cases;

/* Adds " text" to the case's line. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Adds " what=" and a result: a number, or the error's name. */
void say_result(const char *what, long result);

/* All return what the system call does, or -errno. */
int open_kfd(void); /* ends the case when it fails */
long call(int fd, unsigned long request, void *arg);
long dbg(int fd, pid_t pid, uint32_t op, struct kfd_dbg_trap *arg); /* arg NULL: zeroes */
/* Enable with a pipe whose write end is `event`; the runtime's state goes to *ret, if not NULL. */
long dbg_enable(int fd, pid_t pid, int event, uint64_t mask, struct kfd_runtime_info *ret);
long runtime_enable(int fd, uint32_t mode, uint64_t r_debug);
long seize(pid_t pid);
long detach(pid_t pid); /* stops it first, as the kernel wants */
void make_pipe(int ret[2]);
int bytes_in(int fd); /* that can be read */
void pause_ms(unsigned ms);

/* Calls fn(data) on another thread, and waits for it. */
long on_thread(long (*fn)(void *data), void *data);

/* A process that does as it is told. Killed with the case. */
struct target {
	pid_t pid;
	int order, answer;
	bool asked; /* an answer is due */
};

enum target_op {
	TARGET_OPEN,    /* /dev/kfd; opens again replace the fd that the others use */
	TARGET_CLOSE,   /* that fd */
	TARGET_VERSION, /* GET_VERSION: 0 or -errno */
	TARGET_RUNTIME, /* RUNTIME_ENABLE with mode a */
	TARGET_SEIZE,   /* pid a */
	TARGET_DETACH,  /* pid a */
	TARGET_ENABLE,  /* DBG_TRAP ENABLE of pid a; with a pipe of its own */
	TARGET_DBG,     /* DBG_TRAP operation b on pid a, with zeroes */
	TARGET_TAKE,    /* fds by SCM_RIGHTS over the order socket: replaces the fd */
	TARGET_EXEC,    /* itself, anew: everything close-on-exec goes */
	TARGET_FORK,    /* a child that makes GET_VERSION on the inherited fd: its result */
	TARGET_EXIT,
};

struct target target_start(void);
long target_ask(struct target *t, enum target_op op, uint32_t a, uint32_t b);
void target_send(struct target *t, enum target_op op, uint32_t a, uint32_t b);
/* Whether an answer to target_send came within the time; at once where none is due. */
bool target_answers(struct target *t, unsigned ms, long *ret);
void target_give(struct target *t, int fd); /* before TARGET_TAKE */
void target_kill(struct target *t);         /* and waits until it is a zombie; does not reap it */
void target_reap(struct target *t);
int target_main(int order, int answer); /* of a process that was exec'ed as one */

/* Runs a case's child to its end, and prints its line. */
void judge_run_case(const struct judge_case *c);

/* As the first process of a virtual machine: loads modules, runs everything, powers off. */
int judge_guest(void);

/* Cases, in cases_*.c. */
#define JUDGE_CASE(name) void name(const struct judge_case *self)
JUDGE_CASE(case_number);
JUDGE_CASE(case_version);
JUDGE_CASE(case_wrong_file);
JUDGE_CASE(case_bad_pointers);
JUDGE_CASE(case_two_words);
JUDGE_CASE(case_clock);
JUDGE_CASE(case_apertures_old);
JUDGE_CASE(case_apertures);
JUDGE_CASE(case_create_queue);
JUDGE_CASE(case_create_queue_order);
JUDGE_CASE(case_unknown_queue);
JUDGE_CASE(case_update_queue);
JUDGE_CASE(case_cu_mask);
JUDGE_CASE(case_memory);
JUDGE_CASE(case_acquire_vm);
JUDGE_CASE(case_policy);
JUDGE_CASE(case_events);
JUDGE_CASE(case_event_life);
JUDGE_CASE(case_event_wait);
JUDGE_CASE(case_event_limit);
JUDGE_CASE(case_svm);
JUDGE_CASE(case_xnack);
JUDGE_CASE(case_criu);
JUDGE_CASE(case_smi);
JUDGE_CASE(case_profiler);
JUDGE_CASE(case_second_process);
JUDGE_CASE(case_open_modes);
JUDGE_CASE(case_two_opens);
JUDGE_CASE(case_dup);
JUDGE_CASE(case_fork);
JUDGE_CASE(case_pass);
JUDGE_CASE(case_thread_open);
JUDGE_CASE(case_reopen);
JUDGE_CASE(case_exec);
JUDGE_CASE(case_sysfs_class);
JUDGE_CASE(case_sysfs_system);
JUDGE_CASE(case_sysfs_node);
JUDGE_CASE(case_sysfs_process);
JUDGE_CASE(case_sysfs_life);
JUDGE_CASE(case_runtime_modes);
JUDGE_CASE(case_runtime_reopen);
JUDGE_CASE(case_runtime_debugged);
JUDGE_CASE(case_runtime_early_word);
JUDGE_CASE(case_runtime_disable_ends);
JUDGE_CASE(case_dbg_pids);
JUDGE_CASE(case_dbg_self);
JUDGE_CASE(case_dbg_not_traced);
JUDGE_CASE(case_dbg_not_kfd);
JUDGE_CASE(case_dbg_traced);
JUDGE_CASE(case_dbg_before_enable);
JUDGE_CASE(case_dbg_runtime_off);
JUDGE_CASE(case_dbg_enable_args);
JUDGE_CASE(case_dbg_event_files);
JUDGE_CASE(case_dbg_twice);
JUDGE_CASE(case_dbg_suspend);
JUDGE_CASE(case_dbg_resume);
JUDGE_CASE(case_dbg_snapshot);
JUDGE_CASE(case_dbg_devices);
JUDGE_CASE(case_dbg_launch);
JUDGE_CASE(case_dbg_watch);
JUDGE_CASE(case_dbg_flags);
JUDGE_CASE(case_dbg_events);
JUDGE_CASE(case_dbg_info);
JUDGE_CASE(case_dbg_sizes);
JUDGE_CASE(case_dbg_thread);
JUDGE_CASE(case_dbg_detached);
JUDGE_CASE(case_dbg_two);
JUDGE_CASE(case_dbg_disable_by_other);
JUDGE_CASE(case_dbg_no_file);
JUDGE_CASE(case_dbg_target_dies);
JUDGE_CASE(case_dbg_target_dies_waiting);
JUDGE_CASE(case_dbg_target_execs);
JUDGE_CASE(case_dbg_debugger_dies);
JUDGE_CASE(case_dbg_debugger_dies_waiting);
JUDGE_CASE(case_dbg_debugger_closes);
JUDGE_CASE(case_svm_cut_off);
JUDGE_CASE(case_suspend_no_array);

#endif
