/* SPDX-License-Identifier: Apache-2.0 */
/* Sets variables of a policy before it is loaded. */
#include <errno.h>
#include <string.h>

#include "policy/number.h"
#include "policy/object.h"

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
		return rbt_number_is(t) ? t : NULL;
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
	int r = rbt_number_parse(&o->btf, t, t->size * 8, value, &n);
	if (r < 0) {
		return rbt_why_set(why, r, "%s: it cannot have the value %.64s", name, value);
	}
	memcpy(o->maps[i].initial + symbol->st_value, &n, t->size); /* little endian */
	return 0;
}
