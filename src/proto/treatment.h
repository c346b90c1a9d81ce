/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program is to be treated: one struct for the messages, the environment, the rules of the
 * configuration, the options of the tools, the by-hand file and the daemon's model. treatment.c has
 * one table of the keys, which parsing, printing, merging and checking use. A new key is a field
 * and an enumerator here, and a row there; both go to the end.
 *
 * These functions need only libc and allocate nothing, because the preloaded library uses them.
 */
#ifndef RBT_PROTO_TREATMENT_H
#define RBT_PROTO_TREATMENT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/class.h"
#include "util/rankgroup.h"

/* Bits of `said` and `reset`: their numbers are part of the protocol. */
enum rbt_treat_key {
	RBT_TREAT_CLASS, /* only in text: rbt_treatment_settle() turns it into a priority */
	RBT_TREAT_PRIORITY,
	RBT_TREAT_TIMESLICE,
	RBT_TREAT_WEIGHT,
	RBT_TREAT_MAX_RESERVE,
	RBT_TREAT_MIN_SHARE,
	RBT_TREAT_GROUP,
	RBT_TREAT_FORCE,
	RBT_TREAT_MEMORY,
	RBT_TREAT_PARK_IDLE,
	RBT_TREAT_KEYS
};

#define RBT_TREAT_BIT(key) (UINT32_C(1) << RBT_TREAT_##key)
#define RBT_TREAT_ALL      ((UINT32_C(1) << RBT_TREAT_KEYS) - 1)

struct rbt_treatment {
	uint32_t size;  /* of this struct, as its writer knows it */
	uint32_t said;  /* keys that have a value; all other fields have their default */
	uint32_t reset; /* keys that return to their default; no key is in both masks */
	uint32_t priority;
	uint32_t weight;
	uint32_t timeslice_us; /* 0: the slice of the priority */
	struct rbt_limits limits;
	uint32_t force;                 /* 1: write to unknown drivers, too */
	char group[RBT_GROUP_NAME_MAX]; /* of ranks; empty: no group */
	uint32_t pad;
	uint64_t memory;       /* bytes that a run may have on each GPU; 0: no limit */
	uint32_t park_idle_ms; /* an idle program is parked after this time; 0: never */
	uint32_t pad2;
};
static_assert(sizeof(struct rbt_treatment) == 120, "wire: it may only grow, at its end");
static_assert(offsetof(struct rbt_treatment, pad) == 100, "wire: the size of version 0.2.0");
static_assert(offsetof(struct rbt_treatment, park_idle_ms) == 112, "wire");

/* A memory limit is at least this: a smaller number has most likely lost its suffix. */
#define RBT_MEMORY_MIN (UINT64_C(1) << 20)
#define RBT_MEMORY_MAX (UINT64_C(1) << 50)

#define RBT_PARK_IDLE_MIN_MS 100u
#define RBT_PARK_IDLE_MAX_MS 604800000u

/* No key is said, and all fields have their default. */
#define RBT_TREATMENT_INIT                                                                         \
	((struct rbt_treatment){.size = sizeof(struct rbt_treatment),                              \
		.priority = RBT_PRIORITY_NORMAL,                                                   \
		.weight = 1})

/* Room for one sentence about a wrong key or value. An empty string means that nothing is wrong. */
#define RBT_TREAT_WHY_MAX 192

/* The name as in options: "max-reserve-ms". */
const char *rbt_treat_key_name(enum rbt_treat_key key);
/* Returns the key of that name, or -ENOENT. A name may have _ in place of -. */
int rbt_treat_key_find(const char *name);
/* Whether the key is an option without an argument. */
bool rbt_treat_key_is_flag(enum rbt_treat_key key);

/* Sets one key from text. Keys with a default of their own also take `default`, which resets them.
 * Returns 0, or -EINVAL with *t untouched and the reason in `why`. */
int rbt_treatment_set(struct rbt_treatment *t, enum rbt_treat_key key, const char *value,
	char why[RBT_TREAT_WHY_MAX]);
/* Sets the keys of "key=value,key=value". Unknown keys and wrong values are left out; the first of
 * them is named in `why` unless `why` has a text already. */
void rbt_treatment_parse(struct rbt_treatment *t, const char *text, char why[RBT_TREAT_WHY_MAX]);
/* Prints the keys that are said or reset, in the form that rbt_treatment_parse() reads. Returns the
 * length of the text, as snprintf() does. */
#define RBT_TREAT_TEXT_MAX 320
size_t rbt_treatment_print(const struct rbt_treatment *t, char *buf, size_t size);
/* Prints those of `keys` that are said or reset, for people: ", weight 2, default min-share".
 * Returns the length of the text, as snprintf() does. */
size_t rbt_treatment_describe(const struct rbt_treatment *t, uint32_t keys, char *buf, size_t size);

/* Turns a class into the priority in its middle. */
void rbt_treatment_settle(struct rbt_treatment *t);
/* Changes *t as `over` says: keys that `over` says replace those of *t, and keys that `over` resets
 * get their default. */
void rbt_treatment_merge(struct rbt_treatment *t, const struct rbt_treatment *over);
/* Returns 0, or -EINVAL with the reason in `why` if a key is out of range. */
int rbt_treatment_check(const struct rbt_treatment *t, char why[RBT_TREAT_WHY_MAX]);

/*
 * Reads a treatment of `size` bytes from another process, which may be of another version: bytes
 * behind this version's struct are ignored, and keys beyond the end of a shorter struct are not
 * said. Returns 0, -EBADMSG if the struct has another size than `size`, or -EINVAL if a key is out
 * of range.
 */
int rbt_treatment_decode(const void *buf, size_t size, struct rbt_treatment *ret);

/*
 * treatment_env.c: RUBATO_TREAT has the text that rbt_treatment_parse() reads. RUBATO_TREAT_CLASS
 * and its like each set one key, and override RUBATO_TREAT. get() returns the value of a variable,
 * or NULL. The first mistake is named in `why`. Returns false if no such variable is set.
 */
#define RBT_ENV_TREAT "RUBATO_TREAT"
bool rbt_treatment_read_env(const char *(*get)(void *ctx, const char *name), void *ctx,
	struct rbt_treatment *ret, char why[RBT_TREAT_WHY_MAX]);
/* Reads only RUBATO_TREAT_CLASS and its like. A text that `why` already has is kept. */
bool rbt_treatment_read_keys(const char *(*get)(void *ctx, const char *name), void *ctx,
	struct rbt_treatment *ret, char why[RBT_TREAT_WHY_MAX]);
/* If no group is said, sets the group that the program's launcher made, if there is one. */
void rbt_treatment_find_group(
	const char *(*get)(void *ctx, const char *name), void *ctx, struct rbt_treatment *t);
/* If no memory limit is said, takes that of CUDA_DEVICE_MEMORY_LIMIT, a name that other limiters
 * have, too. A value that is no size is ignored. */
void rbt_treatment_find_memory(
	const char *(*get)(void *ctx, const char *name), void *ctx, struct rbt_treatment *t);
/* If `why` is empty, it gets the name of the first variable RUBATO_TREAT_… with an unknown key. */
void rbt_treatment_find_strays(char *const *env, char why[RBT_TREAT_WHY_MAX]);
/* The name of a key's variable, and of its variable in version 0.1.0 (NULL if it had none). */
#define RBT_TREAT_ENV_MAX 64
void rbt_treat_key_env(enum rbt_treat_key key, char ret[RBT_TREAT_ENV_MAX]);
const char *rbt_treat_key_old_env(enum rbt_treat_key key);

#endif
