/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of types, and the variables of data sections. */
#include "policy/value.h"

#include <string.h>

#include "policy/number.h"

/* For numbers that have no type in BTF. */
static const struct {
	struct btf_type t;
	uint32_t encoding;
} number = {.t = {.info = BTF_KIND_INT << 24, .size = 4}};

const struct btf_type *const rbt_value_number = &number.t;

struct rbt_value_type rbt_value_type(
	const struct rbt_object *o, const struct rbt_object_map *m, enum rbt_value_part part)
{
	struct rbt_value_type type = {
		.id = part == RBT_VALUE_KEY ? m->key_btf : m->value_btf,
		.size = part == RBT_VALUE_KEY ? m->key_size : m->value_size,
	};
	uint32_t size = 0;

	if (m->is_data && part == RBT_VALUE_VALUE) {
		type.section = rbt_btf_section(&o->btf, m->name);
	}
	if (rbt_btf_size(&o->btf, type.id, &size) < 0 || size != type.size) {
		type.id = 0;
		type.is_number = part == RBT_VALUE_KEY && m->type == BPF_MAP_TYPE_ARRAY;
	}
	return type;
}

bool rbt_value_member(const struct rbt_btf *btf, const struct btf_type *t, unsigned i, size_t size,
	struct rbt_value_field *ret)
{
	const struct btf_member *m = (const struct btf_member *)(const void *)(t + 1) + i;
	const bool has_bits = BTF_INFO_KFLAG(t->info);
	const uint32_t bit = has_bits ? BTF_MEMBER_BIT_OFFSET(m->offset) : m->offset;
	const unsigned bits = has_bits ? BTF_MEMBER_BITFIELD_SIZE(m->offset) : 0;
	uint32_t n = 0;

	*ret = (struct rbt_value_field){
		.name = rbt_btf_name(btf, m->name_off),
		.type = m->type,
		.offset = bit / 8,
		.first = bit % 8,
		.bits = bits,
	};
	if (bits != 0) {
		return bits <= 64 && rbt_number_is(rbt_btf_plain(btf, m->type, NULL)) &&
		       ((uint64_t)bit + bits + 7) / 8 <= size;
	}
	return ret->first == 0 && rbt_btf_size(btf, m->type, &n) == 0 &&
	       (uint64_t)ret->offset + n <= size;
}

bool rbt_value_variable(const struct rbt_object *o, const struct rbt_object_map *m,
	const struct btf_type *section, unsigned i, struct rbt_value_field *ret)
{
	const struct btf_var_secinfo *info =
		(const struct btf_var_secinfo *)(const void *)(section + 1) + i;
	const struct btf_type *var = rbt_btf_type(&o->btf, info->type);
	uint32_t n = 0;

	if (var == NULL || RBT_BTF_KIND(var) != BTF_KIND_VAR) {
		return false;
	}
	/* clang leaves the offsets in BTF to the loader. */
	const char *name = rbt_btf_name(&o->btf, var->name_off);
	const Elf64_Sym *symbol = rbt_object_find_symbol(o, m->section, name);
	if (symbol == NULL || rbt_btf_size(&o->btf, var->type, &n) < 0 ||
		symbol->st_value > m->value_size || n > m->value_size - symbol->st_value) {
		return false;
	}
	*ret = (struct rbt_value_field){
		.name = name, .type = var->type, .offset = (uint32_t)symbol->st_value};
	return true;
}

bool rbt_value_is_char(const struct rbt_btf *btf, uint32_t type)
{
	const struct btf_type *t = rbt_btf_plain(btf, type, NULL);

	return t != NULL && RBT_BTF_KIND(t) == BTF_KIND_INT && t->size == 1 &&
	       strcmp(rbt_btf_name(btf, t->name_off), "char") == 0;
}
