/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A debug session on one process: the way to see and suspend the queues of a program from outside.
 *
 * Older kernels take every operation from the very thread that ptraces the target, so a session has
 * a thread of its own for all of them. It seizes the target (PTRACE_SEIZE: the target does not
 * stop), passes its signals on, answers what its runtime waits for, and watches for new queues.
 *
 * When the session ends, by close(), by the death of either process or of this thread, the kernel
 * resumes every queue: nothing stays suspended without its session.
 *
 * Calls may be made from any thread; they are carried out one after another. While a session lives,
 * nobody else in this process may wait(2) for the target: they would take what is for the session.
 */
#ifndef RBT_BACKEND_AMD_SESSION_H
#define RBT_BACKEND_AMD_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/amd/kfd_abi.h"

struct rbt_amd_session;

/*
 * Begins one. Costs a few milliseconds. Errors that callers tell apart:
 *   -ENODEV      no /dev/kfd
 *   -EOPNOTSUPP  the kernel's interface is too old
 *   -ESRCH       no such process
 *   -ENXIO       the process does not use KFD
 *   -EPERM       it may not be ptraced by us
 *   -EBUSY       another debugger has it, or its GPU
 *   -EIO         the GPU could not be put into debug mode
 */
int rbt_amd_session_open(pid_t pid, struct rbt_amd_session **ret);
void rbt_amd_session_close(struct rbt_amd_session *s); /* accepts NULL */

pid_t rbt_amd_session_pid(const struct rbt_amd_session *s);

/* All queues, as the kernel lists them; the caller frees the array. 0, -ESRCH or -errno. */
int rbt_amd_session_snapshot(
	struct rbt_amd_session *s, struct kfd_queue_entry **ret, uint32_t *ret_n);

/*
 * Suspends or resumes the queues named, up to KFD_MAX_QUEUES. ids[i] comes back with the kernel's
 * bits (KFD_QUEUE_ID_*) where it did not obey. Returns how many did, or: -ENOTCONN, the runtime
 * has not started; -ESRCH; -errno. `grace` is clamped to what the kernel keeps.
 */
int rbt_amd_session_suspend(struct rbt_amd_session *s, uint32_t *ids, uint32_t n, uint32_t grace);
int rbt_amd_session_resume(struct rbt_amd_session *s, uint32_t *ids, uint32_t n);

/* Kinds of queues. */
enum { RBT_AMD_COMPUTE = 1 << 0, RBT_AMD_SDMA = 1 << 1 };
uint32_t rbt_amd_kind(uint32_t queue_type);

/*
 * Keeps all queues of these kinds off the GPU, those included that the target makes from now on,
 * until release() of the kind or the session's end. Kinds add up. All or nothing of what is asked
 * for now: 0 or -errno as above.
 */
int rbt_amd_session_hold(struct rbt_amd_session *s, uint32_t kinds, uint32_t grace);
int rbt_amd_session_release(struct rbt_amd_session *s, uint32_t kinds);
uint32_t rbt_amd_session_held(struct rbt_amd_session *s);

/* Looks at the target's queues every interval_us, and puts what is there on the board (borrowed;
 * board/gauge.h); 0: no more. 0 or -errno. */
int rbt_amd_session_watch(struct rbt_amd_session *s, int board_fd, uint32_t interval_us);

/* How often queues have come or gone, or the target has, since it began: while this is the same, so
 * is a snapshot, but for what it says of exceptions. Does not wait. */
uint64_t rbt_amd_session_changes(const struct rbt_amd_session *s);

/* Whether it holds or watches anything; false also when the target has gone. */
bool rbt_amd_session_is_used(struct rbt_amd_session *s);

#endif
