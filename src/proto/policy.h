/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages about policies in eBPF, from tools to the daemon (enum rbt_msg_type in protocol.h).
 *
 * POLICY_SHOW is answered for all users. The other messages need the right to raise programs: root,
 * the daemon's own user, and members of the administrators' group. Otherwise the RESULT is -EPERM.
 * Without a policy that is loaded or was ejected, the RESULT is -ENOENT.
 *
 * Objects and verifier logs travel as sealed memory files (util/sealed.h), never as a user's file,
 * on which the daemon could hang.
 */
#ifndef RBT_PROTO_POLICY_H
#define RBT_PROTO_POLICY_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/protocol.h"

enum rbt_policy_engine { RBT_POLICY_AUTO, RBT_POLICY_KERNEL, RBT_POLICY_VM, RBT_POLICY_N_ENGINES };
enum rbt_policy_state {
	RBT_POLICY_NONE,
	RBT_POLICY_LOADED,
	RBT_POLICY_EJECTED,
	RBT_POLICY_N_STATES
};

#define RBT_POLICY_N_HOOKS      7  /* in the order of enum rbt_hook (policy/hook.h) */
#define RBT_POLICY_LABEL_SIZE   64 /* the base name of the object's file */
#define RBT_POLICY_MAX_SETTINGS 64

enum {
	/* The policy is unloaded when the last connection ends that loaded or joined it. */
	RBT_POLICY_FOREGROUND = 1 << 0,
	/* If the loaded policy has the same object and settings, it stays, and this connection
	 * counts as one that loaded it. If another policy is loaded, the RESULT is -EBUSY. An
	 * ejected policy is replaced. Without this flag, a loaded policy is always replaced. */
	RBT_POLICY_JOIN = 1 << 1,
};

/*
 * POLICY_LOAD, with one file: the object. n_settings strings "NAME=VALUE" follow, each with its NUL.
 * The RESULT has the number of the load. If the policy is refused, the text has one line, and one
 * file may come with the RESULT: the verifier's log.
 */
struct rbt_msg_policy_load {
	struct rbt_msg_header h;
	uint32_t engine; /* enum rbt_policy_engine */
	uint32_t flags;  /* RBT_POLICY_FOREGROUND, RBT_POLICY_JOIN */
	uint32_t n_settings;
	uint32_t pad;
	char label[RBT_POLICY_LABEL_SIZE]; /* NUL-terminated */
};

/* POLICY_UNLOAD. An ejected policy is forgotten. */
struct rbt_msg_policy_unload {
	struct rbt_msg_header h;
	uint32_t load; /* 0, or -ESTALE if this is not the number of the last load */
	uint32_t pad;
};

/*
 * POLICY_OBJECT, header only. With the RESULT comes one file: the bytes of the loaded or ejected
 * object, as they were sent.
 */

struct rbt_policy_hook {
	uint32_t is_present;
	uint32_t pad;
	uint64_t n_calls, n_errors, n_late;
	uint64_t ns, max_ns; /* of all calls together, and of the longest one */
};

/*
 * The answer to POLICY_SHOW, which is a header only. All strings are NUL-terminated, and are empty
 * if there is nothing to say.
 */
struct rbt_msg_policy {
	struct rbt_msg_header h;
	uint32_t state;  /* enum rbt_policy_state */
	uint32_t engine; /* in use; without a policy: the one that RBT_POLICY_AUTO would choose */
	uint32_t flags;  /* RBT_POLICY_FOREGROUND */
	uint32_t timeout_ms;
	uint32_t n_loads;     /* since the daemon started: the number of the last load */
	uint32_t n_overruled; /* tasks that were admitted against the policy */
	uint64_t loaded_ns;   /* when, on the monotonic clock */
	char name[16], base[16];
	char label[RBT_POLICY_LABEL_SIZE];
	char reason[240]; /* why the policy was ejected */
	char other[240];  /* why the other engine is not used */
	struct rbt_policy_hook hooks[RBT_POLICY_N_HOOKS];
};

enum rbt_policy_map_op {
	/* The entry behind `key`, or the first entry if there is no key. -ENOENT at the end */
	RBT_POLICY_MAP_NEXT,
	RBT_POLICY_MAP_GET, /* the entry of `key`, or -ENOENT */
	RBT_POLICY_MAP_SET, /* key and value; a RESULT */
	RBT_POLICY_MAP_DEL, /* key; a RESULT */
	RBT_POLICY_N_MAP_OPS
};

/*
 * POLICY_MAP, in both directions: key and value follow. NEXT and GET are answered with the entry in
 * the same form, or with a RESULT. -EINVAL: there is no such map, or the sizes are not the map's;
 * -ESTALE: another policy was loaded since `load`; -ENODATA: none is loaded, or it was ejected;
 * -EMSGSIZE: the entry does not fit.
 */
struct rbt_msg_policy_map {
	struct rbt_msg_header h;
	uint32_t op;   /* enum rbt_policy_map_op */
	uint32_t load; /* the map's index was found in the object of this load */
	uint32_t map;  /* index in the object */
	uint32_t key_size, value_size;
	uint32_t pad;
};
#define RBT_POLICY_ENTRY_MAX (RBT_MSG_MAX - sizeof(struct rbt_msg_policy_map))

/*
 * POLICY_LOG asks for the line `number`, and is answered with that line or the oldest one behind it
 * that is still kept, or with a RESULT -EAGAIN if there is none yet. Numbers begin with 1 and are
 * never used twice by one daemon.
 */
struct rbt_msg_policy_log {
	struct rbt_msg_header h;
	uint64_t number;
};

/* The answer. */
struct rbt_msg_policy_line {
	struct rbt_msg_header h;
	uint64_t number;
	uint64_t time_ns; /* on the monotonic clock */
	uint32_t load;    /* the load whose policy wrote it */
	uint32_t pad;
	char text[256]; /* NUL-terminated, printable, without a line feed */
};

/* A POLICY_LOAD as it was received; the strings point into the message. */
struct rbt_policy_load {
	enum rbt_policy_engine engine;
	uint32_t flags;
	const char *label;
	const char *settings[RBT_POLICY_MAX_SETTINGS];
	size_t n_settings;
};

/* A POLICY_MAP as it was received; key and value point into the message, or are NULL. */
struct rbt_policy_entry {
	enum rbt_policy_map_op op;
	uint32_t load, map;
	const void *key, *value;
	size_t key_size, value_size;
};

/* "auto", "kernel" or "vm"; "none", "loaded" or "ejected". Any number is accepted. */
const char *rbt_policy_engine_name(uint32_t engine);
const char *rbt_policy_state_name(uint32_t state);

/* The size of the message, or -EMSGSIZE, or -E2BIG if there are too many settings. A label that is
 * too long is cut. */
ssize_t rbt_policy_load_encode(const struct rbt_policy_load *load, void *buf, size_t size);
/* 0, or -EBADMSG if the message is inconsistent. `buf` must live as long as *ret. */
int rbt_policy_load_decode(const void *buf, size_t size, struct rbt_policy_load *ret);

/* The same for an entry of a map. */
ssize_t rbt_policy_entry_encode(const struct rbt_policy_entry *entry, void *buf, size_t size);
int rbt_policy_entry_decode(const void *buf, size_t size, struct rbt_policy_entry *ret);

static_assert(sizeof(struct rbt_msg_policy_load) == 24 + RBT_POLICY_LABEL_SIZE, "wire");
static_assert(sizeof(struct rbt_msg_policy_unload) == 16, "wire");
static_assert(sizeof(struct rbt_policy_hook) == 48, "wire");
static_assert(sizeof(struct rbt_msg_policy) == 40 + 96 + 480 + 48 * RBT_POLICY_N_HOOKS, "wire");
static_assert(sizeof(struct rbt_msg_policy_map) == 32, "wire");
static_assert(sizeof(struct rbt_msg_policy_log) == 16, "wire");
static_assert(sizeof(struct rbt_msg_policy_line) == 288, "wire");

#endif
