/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines run the hooks of a policy's object. There are two, and the same object gives the same
 * results on both:
 * - kernel: the kernel's verifier judges the code and its JIT compiles it; about 1 us per hook.
 * - vm: an interpreter in this process, which checks every access at run time; about 0.1 us.
 *
 * An engine, and all engines that share maps with it, belong to one thread.
 */
#ifndef RBT_POLICY_ENGINE_H
#define RBT_POLICY_ENGINE_H

#include <stdint.h>
#include <sys/types.h>

#include "policy/object.h"

enum rbt_engine_kind { RBT_ENGINE_KERNEL, RBT_ENGINE_VM, RBT_N_ENGINES };

const char *rbt_engine_kind_name(enum rbt_engine_kind kind);

/* Instructions that the vm executes in one call of a hook. Copied bytes cost fuel, too. */
#define RBT_ENGINE_FUEL 100000

/* Why a hook failed. */
enum rbt_fault_kind {
	RBT_FAULT_NONE,
	RBT_FAULT_ACCESS,   /* a forbidden access or call; vm only, the verifier refuses those */
	RBT_FAULT_FUEL,     /* more than RBT_ENGINE_FUEL instructions; vm only */
	RBT_FAULT_RETURNED, /* the hook itself returned something else than 0 */
	RBT_FAULT_SYSTEM    /* the kernel refused to run it */
};

struct rbt_fault {
	enum rbt_fault_kind kind;
	const char *what;    /* static text */
	const char *section; /* the object's, or NULL */
	uint32_t pc;         /* instruction of that section; 0 if not known */
	int64_t value;       /* what was returned, or -errno */
};

/* "section gpu_sched/schedule: instruction 12: …" */
void rbt_fault_format(const struct rbt_fault *fault, char *buf, size_t size);

struct rbt_engine;

/* NULL if this engine can be used here, otherwise one line with the reason. */
const char *rbt_engine_why_not(enum rbt_engine_kind kind);

/*
 * Loads an object, which is borrowed until the engine is closed. Maps that `predecessor` (or NULL)
 * has under the same name and in the same shape are taken over with their entries: engines of one
 * kind share them, so that the predecessor can go on if this fails; otherwise the entries are
 * copied. Global data begins anew. On failure `why` has one line, and *ret_log the verifier's log
 * or NULL; the caller frees it. ret_log may be NULL.
 *
 * To try an object without touching entries, open it without a predecessor, run it and close it.
 */
int rbt_engine_open(enum rbt_engine_kind kind, const struct rbt_object *o,
	struct rbt_engine *predecessor, struct rbt_engine **ret, struct rbt_why *why,
	char **ret_log);
/* Accepts NULL. */
void rbt_engine_close(struct rbt_engine *e);

/*
 * The same with a dry run (trial.h), for a caller that must not wait: a process tries the object
 * with maps of its own, and loads it into the kernel.
 */
struct rbt_engine_load;
/* The object is borrowed until the load ends, and then until the engine is closed. 0 or -errno and
 * `why`. */
int rbt_engine_load_start(enum rbt_engine_kind kind, const struct rbt_object *o,
	struct rbt_engine *predecessor, struct rbt_engine_load **ret, struct rbt_why *why);
/* Becomes readable when there is something to do. */
int rbt_engine_load_fd(const struct rbt_engine_load *load);
/*
 * Goes on without waiting. -EAGAIN: call it again when the fd is readable, or a second later, which
 * notices a process that takes too long. Otherwise the result, as of rbt_engine_open(), but entries
 * of a predecessor of the other kind are not copied yet. The predecessor is the one of the start,
 * or NULL if it has been closed since.
 */
int rbt_engine_load_step(struct rbt_engine_load *load, struct rbt_engine *predecessor,
	struct rbt_engine **ret, struct rbt_why *why, char **ret_log);
/* Copies the entries from a predecessor of the other kind; engines of one kind share them. 0,
 * -ETIMEDOUT if that takes longer than limit_ns, or -errno; and `why`. */
int rbt_engine_inherit(struct rbt_engine *e, struct rbt_engine *predecessor, uint64_t limit_ns,
	struct rbt_why *why);
/* Ends and frees it, done or not. Accepts NULL. Returns 0, or the pid of a process that hangs in
 * the kernel and must still be reaped. */
pid_t rbt_engine_load_end(struct rbt_engine_load *load);

enum rbt_engine_kind rbt_engine_kind(const struct rbt_engine *e);

bool rbt_engine_has_hook(const struct rbt_engine *e, enum rbt_hook hook);

/*
 * Runs a hook on its context (rbt_hook_ctx_size() bytes). 0: the context has the outputs. Otherwise
 * the context is as before: -ENOENT if the policy does not have this hook, -EFAULT with *ret_fault
 * if it failed.
 */
int rbt_engine_run(
	struct rbt_engine *e, enum rbt_hook hook, void *ctx, struct rbt_fault *ret_fault);

/*
 * For tools. Maps are numbered as in the object; keys and values have its sizes. -EINVAL: there is
 * no such map, or it has no entries; -ENOENT: no such key; -E2BIG: the map is full; -EPERM: .rodata
 * cannot be changed. flags: BPF_ANY, BPF_NOEXIST or BPF_EXIST.
 */
int rbt_engine_lookup(struct rbt_engine *e, unsigned map, const void *key, void *ret_value);
int rbt_engine_update(
	struct rbt_engine *e, unsigned map, const void *key, const void *value, uint64_t flags);
int rbt_engine_delete(struct rbt_engine *e, unsigned map, const void *key);
/* The key behind `key`, or the first one (NULL). -ENOENT at the end. */
int rbt_engine_next_key(struct rbt_engine *e, unsigned map, const void *key, void *ret_key);

/*
 * Takes the oldest record of a ring buffer. Returns its size; -EAGAIN if there is none, -EMSGSIZE
 * if it was larger than the buffer and is lost.
 */
ssize_t rbt_engine_read_ring(struct rbt_engine *e, unsigned map, void *buf, size_t size);

/*
 * Formats a record of gpu_sched_log(). Neither its size nor its format is trusted: what cannot be
 * formatted is printed as it is, and what cannot be printed as '?'.
 */
void rbt_log_format(const void *record, size_t record_size, char *buf, size_t size);

#endif
