/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BTF: the types of an object's maps and variables, as clang -g writes them. Nothing in it is
 * trusted: every type was checked to lie inside the section, and every function here accepts any
 * type id and any name offset.
 */
#ifndef RBT_POLICY_TYPEINFO_H
#define RBT_POLICY_TYPEINFO_H

#include <linux/btf.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/why.h"

struct rbt_btf {
	unsigned char *data; /* a copy of the section, aligned */
	const unsigned char *types;
	const char *strings; /* end with NUL */
	uint32_t strings_size;
	uint32_t *offsets; /* of each type in `types`; type 0 is void and has none */
	uint32_t n_types;  /* including type 0 */
};

int rbt_btf_init(struct rbt_btf *btf, const void *data, size_t size, struct rbt_why *why);
void rbt_btf_finish(struct rbt_btf *btf);

/* NULL for type 0 and for ids that are not there. */
const struct btf_type *rbt_btf_type(const struct rbt_btf *btf, uint32_t id);
/* Never NULL: a wrong offset is an empty name. */
const char *rbt_btf_name(const struct rbt_btf *btf, uint32_t offset);
/* The type without typedef, const, volatile, restrict and tags, or NULL. ret_id may be NULL. */
const struct btf_type *rbt_btf_plain(const struct rbt_btf *btf, uint32_t id, uint32_t *ret_id);
/* The size in bytes of a variable of this type. 0 or -EINVAL. */
int rbt_btf_size(const struct rbt_btf *btf, uint32_t id, uint32_t *ret);
/* The DATASEC of an ELF section, or NULL. */
const struct btf_type *rbt_btf_section(const struct rbt_btf *btf, const char *name);

#define RBT_BTF_KIND(t) BTF_INFO_KIND((t)->info)
#define RBT_BTF_VLEN(t) BTF_INFO_VLEN((t)->info)

#endif
