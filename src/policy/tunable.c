/* SPDX-License-Identifier: Apache-2.0 */
/* Sets variables of a policy before it is loaded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/object.h"

/* A number with an optional minus. Its bits are those of two's complement. */
static int parse_number(const char *s, bool *ret_is_negative, uint64_t *ret)
{
	const bool is_negative = s[0] == '-';
	char *end;

	if (s[is_negative] < '0' || s[is_negative] > '9') {
		return -EINVAL;
	}
	errno = 0;
	unsigned long long n = strtoull(s + is_negative, &end, 0);
	if (*end != '\0') {
		return -EINVAL;
	}
	if (errno != 0 || (is_negative && n > (1ull << 63))) {
		return -ERANGE;
	}
	*ret_is_negative = is_negative && n != 0;
	*ret = is_negative ? 0 - n : n;
	return 0;
}

static bool fits(uint32_t size, bool is_signed, bool is_negative, uint64_t n)
{
	const unsigned bits = size * 8;

	if (is_negative) {
		return is_signed && (int64_t)n >= -(int64_t)(1ull << (bits - 2)) * 2;
	}
	return bits - is_signed >= 64 || n >> (bits - is_signed) == 0;
}

static int find_enumerator(
	const struct rbt_btf *btf, const struct btf_type *t, const char *name, uint64_t *ret)
{
	const uint32_t *e = (const void *)(t + 1);
	const unsigned words = RBT_BTF_KIND(t) == BTF_KIND_ENUM64 ? 3 : 2;

	for (unsigned i = 0; i < RBT_BTF_VLEN(t); i++, e += words) {
		if (strcmp(rbt_btf_name(btf, e[0]), name) == 0) {
			*ret = words == 3 ? e[1] | (uint64_t)e[2] << 32
					  : (uint64_t)(int64_t)(int32_t)e[1];
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_value(
	const struct rbt_btf *btf, const struct btf_type *t, const char *s, uint64_t *ret)
{
	const unsigned kind = RBT_BTF_KIND(t);
	bool is_negative = false, is_signed = BTF_INFO_KFLAG(t->info);

	if (kind != BTF_KIND_INT && find_enumerator(btf, t, s, ret) == 0) {
		return 0;
	}
	if (kind == BTF_KIND_ENUM) {
		is_signed = true; /* clang 14 does not say */
	} else if (kind == BTF_KIND_INT) {
		const unsigned encoding =
			BTF_INT_ENCODING(*(const uint32_t *)(const void *)(t + 1));
		is_signed = (encoding & BTF_INT_SIGNED) != 0;
		if ((encoding & BTF_INT_BOOL) != 0) {
			if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0) {
				*ret = s[0] == 't';
				return 0;
			}
			int r = parse_number(s, &is_negative, ret);
			return r == 0 && *ret > 1 ? -ERANGE : r;
		}
	}
	int r = parse_number(s, &is_negative, ret);
	return r == 0 && !fits(t->size, is_signed, is_negative, *ret) ? -ERANGE : r;
}

/* The type of a variable of .rodata, if it is a number. */
static const struct btf_type *type_of(const struct rbt_object *o, const char *name)
{
	const struct btf_type *section = rbt_btf_section(&o->btf, ".rodata");

	if (section == NULL) {
		return NULL;
	}
	const struct btf_var_secinfo *vars = (const void *)(section + 1);
	for (unsigned i = 0; i < RBT_BTF_VLEN(section); i++) {
		const struct btf_type *var = rbt_btf_type(&o->btf, vars[i].type);
		if (var == NULL || RBT_BTF_KIND(var) != BTF_KIND_VAR ||
			strcmp(rbt_btf_name(&o->btf, var->name_off), name) != 0) {
			continue;
		}
		const struct btf_type *t = rbt_btf_plain(&o->btf, var->type, NULL);
		const unsigned kind = t != NULL ? RBT_BTF_KIND(t) : BTF_KIND_UNKN;
		const bool is_number =
			kind == BTF_KIND_INT || kind == BTF_KIND_ENUM || kind == BTF_KIND_ENUM64;
		return is_number && (t->size == 1 || t->size == 2 || t->size == 4 || t->size == 8)
			       ? t
			       : NULL;
	}
	return NULL;
}

int rbt_object_set(struct rbt_object *o, const char *assignment, struct rbt_why *why)
{
	const char *value = strchr(assignment, '=');
	char name[RBT_OBJECT_NAME_SIZE];
	uint64_t n = 0;

	if (value == NULL || (size_t)(value - assignment) >= sizeof(name)) {
		return rbt_why_set(why, -EINVAL, "%.64s: not of the form NAME=VALUE", assignment);
	}
	memcpy(name, assignment, (size_t)(value - assignment));
	name[value - assignment] = '\0';
	value++;
	int i = rbt_object_find_map(o, ".rodata");
	const Elf64_Sym *symbol =
		i >= 0 ? rbt_object_find_symbol(o, o->maps[i].section, name) : NULL;
	const struct btf_type *t = symbol != NULL ? type_of(o, name) : NULL;
	if (t == NULL || symbol->st_value > o->maps[i].value_size ||
		t->size > o->maps[i].value_size - symbol->st_value) {
		return rbt_why_set(why, -ENOENT,
			"%s: the policy has no number `const volatile` of this name", name);
	}
	int r = parse_value(&o->btf, t, value, &n);
	if (r < 0) {
		return rbt_why_set(why, r, "%s: it cannot have the value %.64s", name, value);
	}
	memcpy(o->maps[i].initial + symbol->st_value, &n, t->size); /* little endian */
	return 0;
}
