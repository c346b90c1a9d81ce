/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program is to be treated: one struct for the messages, the environment, the rules of the
 * configuration, the options of the tools, the by-hand file and the daemon's model. treatment.c has
 * one table of its keys; parsing, printing, merging and checking follow from it. A new key is a
 * field and an enumerator here, and a row there; both go to the end.
 *
 * Needs libc alone and allocates nothing: the preloaded library uses it, too.
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
	RBT_TREAT_CLASS, /* in text alone: rbt_treatment_settle() makes a priority of it */
	RBT_TREAT_PRIORITY,
	RBT_TREAT_TIMESLICE,
	RBT_TREAT_WEIGHT,
	RBT_TREAT_MAX_RESERVE,
	RBT_TREAT_MIN_SHARE,
	RBT_TREAT_GROUP,
	RBT_TREAT_FORCE,
	RBT_TREAT_KEYS
};

#define RBT_TREAT_BIT(key) (UINT32_C(1) << RBT_TREAT_##key)
#define RBT_TREAT_ALL      ((UINT32_C(1) << RBT_TREAT_KEYS) - 1)

struct rbt_treatment {
	uint32_t size;  /* of this struct, as its writer knows it */
	uint32_t said;  /* keys that have a value below; the others have their default */
	uint32_t reset; /* keys that go back to their default; never those that are said */
	uint32_t priority;
	uint32_t weight;
	uint32_t timeslice_us; /* 0: the priority's */
	struct rbt_limits limits;
	uint32_t force;                 /* 1: write to drivers that are not known, too */
	char group[RBT_GROUP_NAME_MAX]; /* of ranks; empty: in none */
};
static_assert(sizeof(struct rbt_treatment) == 100, "wire: it may only grow, at its end");

/* Nothing is said: all keys have their defaults. */
#define RBT_TREATMENT_INIT                                                                         \
	((struct rbt_treatment){.size = sizeof(struct rbt_treatment),                              \
		.priority = RBT_PRIORITY_NORMAL,                                                   \
		.weight = 1})

/* What is wrong, in words; empty or NUL-terminated. */
#define RBT_TREAT_WHY_MAX 192

/* As in options: "max-reserve-ms". */
const char *rbt_treat_key_name(enum rbt_treat_key key);
/* Takes - and _ for the same. The key, or -ENOENT. */
int rbt_treat_key_find(const char *name);
/* Whether it is said without a value, as an option. */
bool rbt_treat_key_is_flag(enum rbt_treat_key key);

/* Says one key; some take `default`. 0, or -EINVAL with *t untouched and the reason in `why`. */
int rbt_treatment_set(struct rbt_treatment *t, enum rbt_treat_key key, const char *value,
	char why[RBT_TREAT_WHY_MAX]);
/* Says the keys of "key=value,key=value". What is not known or wrong is left out, and the first
 * such thing is named in `why` unless that has a text already. */
void rbt_treatment_parse(struct rbt_treatment *t, const char *text, char why[RBT_TREAT_WHY_MAX]);
/* The same text back, of what is said and reset. Returns its length, as snprintf() does. */
#define RBT_TREAT_TEXT_MAX 320
size_t rbt_treatment_print(const struct rbt_treatment *t, char *buf, size_t size);
/* For people, of the keys in `keys`: ", weight 2, default min-share". The same. */
size_t rbt_treatment_describe(const struct rbt_treatment *t, uint32_t keys, char *buf, size_t size);

/* A class becomes the priority in its middle. */
void rbt_treatment_settle(struct rbt_treatment *t);
/* What `over` says goes before what *t says; what it resets, *t does not say any more. */
void rbt_treatment_merge(struct rbt_treatment *t, const struct rbt_treatment *over);
/* 0, or -EINVAL with the reason in `why`: a key is out of range. */
int rbt_treatment_check(const struct rbt_treatment *t, char why[RBT_TREAT_WHY_MAX]);

/*
 * Reads a treatment of `size` bytes that another process has written, perhaps of another version:
 * what is behind our struct is ignored, and keys that it has no room for are not said. 0, -EBADMSG
 * when its size is not `size`, or -EINVAL when a key is out of range.
 */
int rbt_treatment_decode(const void *buf, size_t size, struct rbt_treatment *ret);

/*
 * treatment_env.c: RUBATO_TREAT is such a text; RUBATO_TREAT_CLASS and so on say one key each, and go
 * before it. get() returns a variable's value or NULL. What is wrong is left out, and the first such
 * thing is in `why`. False: none of them is set.
 */
#define RBT_ENV_TREAT "RUBATO_TREAT"
bool rbt_treatment_read_env(const char *(*get)(void *ctx, const char *name), void *ctx,
	struct rbt_treatment *ret, char why[RBT_TREAT_WHY_MAX]);
/* The same without RUBATO_TREAT; `why` keeps a text that it has. */
bool rbt_treatment_read_keys(const char *(*get)(void *ctx, const char *name), void *ctx,
	struct rbt_treatment *ret, char why[RBT_TREAT_WHY_MAX]);
/* A program whose group nobody says is in that of its launcher, if it has one. */
void rbt_treatment_find_group(
	const char *(*get)(void *ctx, const char *name), void *ctx, struct rbt_treatment *t);
/* Names in `why`, if that is empty, the first variable RUBATO_TREAT_… that is no key's. */
void rbt_treatment_find_strays(char *const *env, char why[RBT_TREAT_WHY_MAX]);
/* The name of a key's own variable, and of the one that it had in version 0.1.0, or NULL. */
#define RBT_TREAT_ENV_MAX 64
void rbt_treat_key_env(enum rbt_treat_key key, char ret[RBT_TREAT_ENV_MAX]);
const char *rbt_treat_key_old_env(enum rbt_treat_key key);

#endif
