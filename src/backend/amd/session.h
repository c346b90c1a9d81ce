/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A debug session on one process: it shows and suspends the queues of a program from outside.
 *
 * Older kernels accept operations only from the thread that ptraces the target, so a session has a
 * thread of its own for all of them. The thread seizes the target (PTRACE_SEIZE: the target does
 * not stop), passes its signals on, answers its runtime's handshakes, and watches for new queues.
 *
 * When the session ends, by close(), by the death of either process or of this thread, the kernel
 * resumes every queue: nothing stays suspended without its session.
 *
 * Calls may be made from any thread; they are carried out one after another. While a session lives,
 * no other thread of this process may wait(2) for the target: it would take the session's events.
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
 * Suspends or resumes the named queues, up to KFD_MAX_QUEUES. If a queue did not obey, its ids[i]
 * has the kernel's bits (KFD_QUEUE_ID_*). Returns how many obeyed, or -ENOTCONN: the runtime has
 * not started; -ESRCH; -errno. `grace` is clamped to the kernel's limits.
 */
int rbt_amd_session_suspend(struct rbt_amd_session *s, uint32_t *ids, uint32_t n, uint32_t grace);
int rbt_amd_session_resume(struct rbt_amd_session *s, uint32_t *ids, uint32_t n);

/* Kinds of queues. */
enum { RBT_AMD_COMPUTE = 1 << 0, RBT_AMD_SDMA = 1 << 1 };
uint32_t rbt_amd_kind(uint32_t queue_type);

/*
 * Keeps all queues of these kinds off the GPU, also those that the target makes later, until
 * release() of the kind or the session's end. Kinds add up. Either all queues of the new kinds are
 * off, or none: 0 or -errno as above.
 */
int rbt_amd_session_hold(struct rbt_amd_session *s, uint32_t kinds, uint32_t grace);
int rbt_amd_session_release(struct rbt_amd_session *s, uint32_t kinds);
/* The same for one queue, whatever happens to its kind. -ENOENT: there is no such queue. */
int rbt_amd_session_hold_queue(struct rbt_amd_session *s, uint32_t id);
int rbt_amd_session_release_queue(struct rbt_amd_session *s, uint32_t id);
/* Whether a queue of this kind is held off, by its kind or alone. */
bool rbt_amd_session_holds(struct rbt_amd_session *s, uint32_t kind, uint32_t id);

/* Polls the target's queues every interval_us, and writes the result to the board (borrowed;
 * board/gauge.h); 0: stops. 0 or -errno. */
int rbt_amd_session_poll(struct rbt_amd_session *s, int board_fd, uint32_t interval_us);

/* Counts how often queues, or the target, have come or gone since the session began. While it is
 * unchanged, so is a snapshot, except for its exceptions. Does not wait. */
uint64_t rbt_amd_session_changes(const struct rbt_amd_session *s);

/* Whether it holds or polls anything; false also if the target is gone. */
bool rbt_amd_session_is_used(struct rbt_amd_session *s);

#endif
