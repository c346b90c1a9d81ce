/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allow list: which maps and functions a policy may use. It binds both engines. The kernel's
 * verifier alone is not enough, because it lets such a program send signals, close the loader's
 * files, read kernel memory, and loop for seconds in callbacks.
 */
#ifndef RBT_POLICY_ALLOW_H
#define RBT_POLICY_ALLOW_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>

bool rbt_allow_helper(int32_t id);
bool rbt_allow_map_type(uint32_t type);
/* What a map of this type may have of BPF_F_…; read-only data has its own flags. */
bool rbt_allow_map_flags(uint32_t type, uint32_t flags);

/* The name of a forbidden function, and what to use instead; never NULL. */
const char *rbt_helper_name(int32_t id);

/*
 * Whether one instruction refers to something forbidden: a helper, a kernel function, a callback,
 * a map by its id. NULL if not, otherwise the reason. Serves for code before and after libbpf.
 */
const char *rbt_allow_reference(const struct bpf_insn *insn);

#endif
