/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps as BTF defines them. A variable of the section .maps is a struct whose members' types have
 * the values: __uint(max_entries, 5) is a pointer to an array of 5 ints.
 */
#include <errno.h>
#include <string.h>

#include "policy/allow.h"
#include "policy/object.h"

#define MAX_KEY_SIZE   512
#define MAX_VALUE_SIZE 65536
#define MIN_RING       4096
/* What an entry of a hash map has beside key and value, in the kernel and in the vm. */
#define HASH_OVERHEAD 64

static const struct btf_type *pointee(
	const struct rbt_btf *btf, const struct btf_member *member, uint32_t *ret_id)
{
	const struct btf_type *t = rbt_btf_plain(btf, member->type, NULL);

	if (t == NULL || RBT_BTF_KIND(t) != BTF_KIND_PTR) {
		return NULL;
	}
	return rbt_btf_plain(btf, t->type, ret_id);
}

static int read_uint(const struct rbt_btf *btf, const struct btf_member *member, uint32_t *ret)
{
	const struct btf_type *t = pointee(btf, member, NULL);

	if (t == NULL || RBT_BTF_KIND(t) != BTF_KIND_ARRAY) {
		return -EINVAL;
	}
	*ret = ((const struct btf_array *)(const void *)(t + 1))->nelems;
	return 0;
}

/* __type(key, T) gives the size as well; __uint(key_size, n) gives it alone. */
static int read_type(const struct rbt_btf *btf, const struct btf_member *member, uint32_t *ret_id,
	uint32_t *ret_size)
{
	return pointee(btf, member, ret_id) == NULL ? -EINVAL
						    : rbt_btf_size(btf, *ret_id, ret_size);
}

static int read_member(const struct rbt_btf *btf, const struct btf_member *member,
	struct rbt_object_map *m, struct rbt_why *why)
{
	const char *name = rbt_btf_name(btf, member->name_off);
	int r = 0;

	if (strcmp(name, "type") == 0) {
		r = read_uint(btf, member, &m->type);
	} else if (strcmp(name, "max_entries") == 0) {
		r = read_uint(btf, member, &m->max_entries);
	} else if (strcmp(name, "map_flags") == 0) {
		r = read_uint(btf, member, &m->flags);
	} else if (strcmp(name, "key_size") == 0) {
		r = read_uint(btf, member, &m->key_size);
	} else if (strcmp(name, "value_size") == 0) {
		r = read_uint(btf, member, &m->value_size);
	} else if (strcmp(name, "key") == 0) {
		r = read_type(btf, member, &m->key_btf, &m->key_size);
	} else if (strcmp(name, "value") == 0) {
		r = read_type(btf, member, &m->value_btf, &m->value_size);
	} else {
		return rbt_why_set(
			why, -EINVAL, "map %s: its attribute %s is not allowed", m->name, name);
	}
	return r < 0 ? rbt_why_set(why, r, "map %s: the BTF of %s is damaged", m->name, name) : 0;
}

static int read_map(struct rbt_object *o, unsigned section, const struct btf_type *var,
	struct rbt_object_map *m, struct rbt_why *why)
{
	const char *name = rbt_btf_name(&o->btf, var->name_off);
	const Elf64_Sym *symbol = rbt_object_find_symbol(o, section, name);
	const struct btf_type *t = rbt_btf_plain(&o->btf, var->type, NULL);

	if (symbol == NULL || strlen(name) == 0 || strlen(name) >= sizeof(m->name) ||
		rbt_object_find_map(o, name) >= 0 || t == NULL ||
		RBT_BTF_KIND(t) != BTF_KIND_STRUCT) {
		return rbt_why_set(why, -EINVAL,
			"map %.64s: it is no struct of its own name in section .maps", name);
	}
	*m = (struct rbt_object_map){.section = section, .offset = symbol->st_value};
	strcpy(m->name, name);
	const struct btf_member *members = (const void *)(t + 1);
	for (unsigned i = 0; i < RBT_BTF_VLEN(t); i++) {
		int r = read_member(&o->btf, &members[i], m, why);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

int rbt_object_read_maps(struct rbt_object *o, unsigned section, struct rbt_why *why)
{
	const struct btf_type *t = rbt_btf_section(&o->btf, ".maps");

	if (t == NULL) {
		return rbt_why_set(
			why, -EINVAL, "section .maps: no BTF describes it; compile with clang -g");
	}
	const struct btf_var_secinfo *vars = (const void *)(t + 1);
	for (unsigned i = 0; i < RBT_BTF_VLEN(t); i++) {
		const struct btf_type *var = rbt_btf_type(&o->btf, vars[i].type);
		struct rbt_object_map m;
		if (var == NULL || RBT_BTF_KIND(var) != BTF_KIND_VAR ||
			o->n_maps == RBT_OBJECT_MAX_MAPS) {
			return rbt_why_set(why, -EINVAL,
				"section .maps: its BTF is damaged, or it has more than %d maps",
				RBT_OBJECT_MAX_MAPS);
		}
		int r = read_map(o, section, var, &m, why);
		if (r < 0) {
			return r;
		}
		o->maps[o->n_maps++] = m;
	}
	return 0;
}

static uint64_t round_up(uint64_t n)
{
	return (n + 7) & ~(uint64_t)7;
}

/* NULL if the sizes fit the type; fills `bytes`. */
static const char *check_shape(struct rbt_object_map *m)
{
	const uint64_t entry = round_up(m->value_size) + round_up(m->key_size);

	if (m->max_entries == 0) {
		return "max_entries is 0 or missing";
	}
	if (m->type == BPF_MAP_TYPE_RINGBUF) {
		m->bytes = m->max_entries;
		if (m->key_size != 0 || m->value_size != 0) {
			return "a ring buffer has neither keys nor values";
		}
		if (m->max_entries < MIN_RING || (m->max_entries & (m->max_entries - 1)) != 0) {
			return "max_entries of a ring buffer is a power of two, and at least 4096";
		}
		return NULL;
	}
	if (m->value_size == 0 || (m->value_size > MAX_VALUE_SIZE && !m->is_data)) {
		return "the size of its values is 0 or more than 64 KiB";
	}
	if (m->type == BPF_MAP_TYPE_ARRAY) {
		m->bytes = (uint64_t)m->max_entries * round_up(m->value_size);
		return m->key_size == sizeof(uint32_t) ? NULL : "the key of an array has 4 bytes";
	}
	m->bytes = (uint64_t)m->max_entries * (entry + HASH_OVERHEAD);
	return m->key_size == 0 || m->key_size > MAX_KEY_SIZE
		       ? "the size of its keys is 0 or more than 512"
		       : NULL;
}

int rbt_object_check_maps(struct rbt_object *o, struct rbt_why *why)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < o->n_maps; i++) {
		struct rbt_object_map *m = &o->maps[i];
		if (!rbt_allow_map_type(m->type)) {
			return rbt_why_set(why, -EINVAL,
				"map %s: type %u is not allowed; ARRAY, HASH, LRU_HASH and RINGBUF are",
				m->name, m->type);
		}
		if (!rbt_allow_map_flags(m->type, m->flags)) {
			return rbt_why_set(why, -EINVAL, "map %s: flags %#x are not allowed",
				m->name, m->flags);
		}
		const char *wrong = check_shape(m);
		if (wrong != NULL) {
			return rbt_why_set(why, -EINVAL, "map %s: %s", m->name, wrong);
		}
		sum += m->bytes;
		if (sum > RBT_OBJECT_MAX_BYTES) {
			return rbt_why_set(why, -EINVAL,
				"map %s: all maps together have more than %u MiB", m->name,
				RBT_OBJECT_MAX_BYTES >> 20);
		}
	}
	return 0;
}
