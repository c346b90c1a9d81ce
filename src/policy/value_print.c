/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "policy/number.h"
#include "policy/value.h"

/* Numbers, strings and structs of one key or value that are printed. */
#define MAX_PIECES 65536

struct printer {
	const struct rbt_object *o;
	FILE *out;             /* or NULL */
	struct rbt_json *json; /* or NULL */
	unsigned left;         /* of MAX_PIECES */
	int depth;
	bool is_first; /* of a struct or array, in text */
};

/* Names come from a file that is not trusted. */
static void put_name(FILE *out, const char *s)
{
	for (; *s != '\0'; s++) {
		fputc(*s > ' ' && *s < 0x7f ? *s : '?', out);
	}
}

static void lead(struct printer *p, const char *name)
{
	if (!p->is_first) {
		fputc(',', p->out);
	}
	p->is_first = false;
	if (name != NULL) {
		put_name(p->out, name);
		fputc('=', p->out);
	}
}

static void begin(struct printer *p, const char *name, char bracket)
{
	if (p->json != NULL && bracket == '{') {
		rbt_json_object(p->json, name);
	} else if (p->json != NULL) {
		rbt_json_array(p->json, name);
	} else {
		lead(p, name);
		if (p->depth > 0 || bracket != '{') {
			fputc(bracket, p->out);
		}
		p->is_first = true;
	}
	p->depth++;
}

static void end(struct printer *p, char bracket)
{
	p->depth--;
	if (p->json != NULL) {
		rbt_json_end(p->json, bracket);
		return;
	}
	if (p->depth > 0 || bracket != '}') {
		fputc(bracket, p->out);
	}
	p->is_first = false;
}

/* A word that needs no quotes in text. */
static void put_word(struct printer *p, const char *name, const char *word)
{
	if (p->json != NULL) {
		rbt_json_string(p->json, name, word);
	} else {
		lead(p, name);
		put_name(p->out, word);
	}
}

static void put_bytes(struct printer *p, const char *name, const unsigned char *data, size_t size)
{
	char *text = malloc(size * 2 + 5);

	if (text == NULL) {
		put_word(p, name, "...");
		return;
	}
	strcpy(text, "hex:");
	for (size_t i = 0; i < size; i++) {
		snprintf(text + 4 + i * 2, 3, "%02x", data[i]);
	}
	put_word(p, name, text);
	free(text);
}

static void put_number(struct printer *p, const char *name, const struct btf_type *t, uint64_t n)
{
	const char *word = rbt_number_enumerator(&p->o->btf, t, n);
	const bool is_bool = rbt_number_is_bool(t) && n <= 1;

	if (word != NULL) {
		put_word(p, name, word);
	} else if (is_bool && p->json != NULL) {
		rbt_json_bool(p->json, name, n != 0);
	} else if (is_bool) {
		put_word(p, name, n != 0 ? "true" : "false");
	} else if (p->json != NULL && rbt_number_is_signed(t)) {
		rbt_json_i64(p->json, name, (int64_t)n);
	} else if (p->json != NULL) {
		rbt_json_u64(p->json, name, n);
	} else {
		lead(p, name);
		fprintf(p->out, rbt_number_is_signed(t) ? "%" PRId64 : "%" PRIu64, n);
	}
}

/* An array of char is printed as a string if it is one: printable characters, then only NULs. */
static bool put_string(struct printer *p, const char *name, const char *data, size_t size)
{
	size_t len = strnlen(data, size);

	for (size_t i = 0; i < size; i++) {
		if (i < len ? data[i] < ' ' || data[i] > '~' : data[i] != '\0') {
			return false;
		}
	}
	char *copy = strndup(data, len);
	if (copy == NULL) {
		return false;
	}
	if (p->json != NULL) {
		rbt_json_string(p->json, name, copy);
	} else {
		lead(p, name);
		fputc('"', p->out);
		for (const char *c = copy; *c != '\0'; c++) {
			fprintf(p->out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
		}
		fputc('"', p->out);
	}
	free(copy);
	return true;
}

static void put_value(
	struct printer *p, const char *name, uint32_t type, const char *data, size_t size);

static void put_array(struct printer *p, const char *name, const struct btf_type *t,
	const char *data, size_t size)
{
	const struct btf_array *array = (const void *)(t + 1);
	uint32_t n = 0;

	if (rbt_value_is_char(&p->o->btf, array->type) && put_string(p, name, data, size)) {
		return;
	}
	if (rbt_btf_size(&p->o->btf, array->type, &n) < 0 || n == 0) {
		put_bytes(p, name, (const void *)data, size);
		return;
	}
	begin(p, name, '[');
	for (size_t at = 0; at + n <= size && p->left > 0; at += n) {
		put_value(p, NULL, array->type, data + at, n);
	}
	end(p, ']');
}

static void put_field(
	struct printer *p, const struct rbt_value_field *f, const char *data, size_t size)
{
	const struct btf_type *t = rbt_btf_plain(&p->o->btf, f->type, NULL);
	uint32_t n = 0;

	if (f->bits != 0) {
		put_number(p, f->name, t, rbt_number_get(t, data + f->offset, f->first, f->bits));
	} else if (rbt_btf_size(&p->o->btf, f->type, &n) == 0 && n <= size - f->offset) {
		put_value(p, f->name, f->type, data + f->offset, n);
	}
}

/* The fields of a struct; those of a struct without a name belong to the outer one. */
static void put_members(
	struct printer *p, const struct btf_type *t, const char *data, size_t size, int depth)
{
	struct rbt_value_field f;

	for (unsigned i = 0; i < RBT_BTF_VLEN(t) && p->left > 0; i++) {
		if (!rbt_value_member(&p->o->btf, t, i, size, &f)) {
			continue;
		}
		const struct btf_type *inner = rbt_btf_plain(&p->o->btf, f.type, NULL);
		const unsigned kind = RBT_BTF_KIND(inner);
		if (f.name[0] != '\0') {
			put_field(p, &f, data, size);
		} else if ((kind == BTF_KIND_STRUCT || kind == BTF_KIND_UNION) && f.bits == 0 &&
			   depth < RBT_VALUE_DEPTH) {
			p->left--;
			put_members(p, inner, data + f.offset, inner->size, depth + 1);
		}
	}
}

/* `size` is the size of the type. */
static void put_value(
	struct printer *p, const char *name, uint32_t type, const char *data, size_t size)
{
	const struct btf_type *t = rbt_btf_plain(&p->o->btf, type, NULL);
	const unsigned kind = t != NULL ? RBT_BTF_KIND(t) : BTF_KIND_UNKN;

	if (p->left == 0 || --p->left == 0 || p->depth >= RBT_VALUE_DEPTH) {
		put_word(p, name, "...");
	} else if (rbt_number_is(t)) {
		put_number(p, name, t, rbt_number_get(t, data, 0, (unsigned)size * 8));
	} else if (kind == BTF_KIND_STRUCT || kind == BTF_KIND_UNION) {
		begin(p, name, '{');
		put_members(p, t, data, size, p->depth);
		end(p, '}');
	} else if (kind == BTF_KIND_ARRAY) {
		put_array(p, name, t, data, size);
	} else {
		put_bytes(p, name, (const void *)data, size);
	}
}

static void put_variables(struct printer *p, const char *name, const struct rbt_object_map *m,
	const struct btf_type *section, const char *data)
{
	struct rbt_value_field f;

	begin(p, name, '{');
	for (unsigned i = 0; i < RBT_BTF_VLEN(section) && p->left > 0; i++) {
		if (rbt_value_variable(p->o, m, section, i, &f)) {
			put_field(p, &f, data, m->value_size);
		}
	}
	end(p, '}');
}

static void put_part(struct printer *p, const char *name, const struct rbt_object_map *m,
	enum rbt_value_part part, const void *data)
{
	struct rbt_value_type type = rbt_value_type(p->o, m, part);

	p->left = MAX_PIECES;
	p->is_first = true;
	if (type.section != NULL) {
		put_variables(p, name, m, type.section, data);
	} else if (type.id != 0) {
		put_value(p, name, type.id, data, type.size);
	} else if (type.is_number) {
		put_number(p, name, rbt_value_number,
			rbt_number_get(rbt_value_number, data, 0, (unsigned)type.size * 8));
	} else {
		put_bytes(p, name, data, type.size);
	}
}

void rbt_value_print(FILE *out, const struct rbt_object *o, const struct rbt_object_map *m,
	enum rbt_value_part part, const void *data)
{
	struct printer p = {.o = o, .out = out};

	put_part(&p, NULL, m, part, data);
}

void rbt_value_json(struct rbt_json *j, const char *name, const struct rbt_object *o,
	const struct rbt_object_map *m, enum rbt_value_part part, const void *data)
{
	struct printer p = {.o = o, .json = j};

	put_part(&p, name, m, part, data);
}
