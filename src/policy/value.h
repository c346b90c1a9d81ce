/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and values of maps as text, by their types in BTF:
 *
 *     12, -3, 0x10, true, BURSTS       numbers; also the names of enumerators
 *     submits=12,last_ns=1000          a struct; braces around it are optional at the top
 *     {a=1,b={c=2}}                    a struct in a struct
 *     [1,2,3]                          an array
 *     "python3"                        an array of char; without quotes if it is simple
 *     hex:0a0b                         bytes, as they are in memory; for every type
 *
 * The value of a data section (.bss, .data, .rodata) is a struct of its variables. A type that BTF
 * does not describe is printed as bytes. Printed text can be parsed, unless it was cut ("...").
 * Neither the object's types nor the data are trusted.
 */
#ifndef RBT_POLICY_VALUE_H
#define RBT_POLICY_VALUE_H

#include <stdio.h>

#include "policy/object.h"
#include "util/json.h"

enum rbt_value_part { RBT_VALUE_KEY, RBT_VALUE_VALUE };

/* Both print key_size or value_size bytes of the map. */
void rbt_value_print(FILE *out, const struct rbt_object *o, const struct rbt_object_map *m,
	enum rbt_value_part part, const void *data);
void rbt_value_json(struct rbt_json *j, const char *name, const struct rbt_object *o,
	const struct rbt_object_map *m, enum rbt_value_part part, const void *data);

/*
 * Parses text into *data. Fields, elements and variables that the text does not name keep their
 * bytes. 0; -EINVAL or -ERANGE, with one line in `why` and *data in any state.
 */
int rbt_value_parse(const struct rbt_object *o, const struct rbt_object_map *m,
	enum rbt_value_part part, const char *text, void *data, struct rbt_why *why);

/* For the files of value*.c. */

/* Structs inside structs, in damaged files without end. */
#define RBT_VALUE_DEPTH 16

/* One field of a struct, or one variable of a data section. */
struct rbt_value_field {
	const char *name;
	uint32_t type;
	uint32_t offset; /* in bytes */
	unsigned first;  /* of a bit field: its first bit, from `offset` on */
	unsigned bits;   /* 0: no bit field */
};

/* What a part of a map consists of: a type, or the variables of a data section. */
struct rbt_value_type {
	uint32_t id;                    /* 0: not known */
	const struct btf_type *section; /* or NULL */
	bool is_number;                 /* without an id: the index of an array */
	size_t size;
};
/* An unsigned number, for those that have no type in BTF. */
extern const struct btf_type *const rbt_value_number;
struct rbt_value_type rbt_value_type(
	const struct rbt_object *o, const struct rbt_object_map *m, enum rbt_value_part part);

/* The field `i` of a struct or union. False: it does not lie within `size` bytes. */
bool rbt_value_member(const struct rbt_btf *btf, const struct btf_type *t, unsigned i, size_t size,
	struct rbt_value_field *ret);
/* The variable `i` of a data section. False: its place is not known. */
bool rbt_value_variable(const struct rbt_object *o, const struct rbt_object_map *m,
	const struct btf_type *section, unsigned i, struct rbt_value_field *ret);
/* Whether the elements of an array are of the type char. */
bool rbt_value_is_char(const struct rbt_btf *btf, uint32_t type);

#endif
