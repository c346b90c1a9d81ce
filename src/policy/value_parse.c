/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "policy/number.h"
#include "policy/value.h"

#define WORD_MAX 256

struct parser {
	const struct rbt_object *o;
	const struct rbt_object_map *map;
	const char *at; /* what is not parsed yet */
	struct rbt_why *why;
	unsigned left; /* of MAX_LOOKS */
	int depth;
};

/* Fields that are looked at to find a name. Damaged types can contain each other without end. */
#define MAX_LOOKS 65536

static bool take(struct parser *p, char c)
{
	if (*p->at != c) {
		return false;
	}
	p->at++;
	return true;
}

/* A word ends before a separator; a name before an equals sign, too. */
static int take_word(struct parser *p, const char *ends, char word[WORD_MAX])
{
	size_t n = strcspn(p->at, ends);

	if (n == 0 || n >= WORD_MAX) {
		return rbt_why_set(p->why, -EINVAL,
			"a name or number is missing or too long at `%.32s`", p->at);
	}
	memcpy(word, p->at, n);
	word[n] = '\0';
	p->at += n;
	return 0;
}

static int digit(char c)
{
	return c >= '0' && c <= '9'         ? c - '0'
	       : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
					    : -1;
}

static int parse_bytes(struct parser *p, unsigned char *data, size_t size)
{
	p->at += strlen("hex:");
	for (size_t i = 0; i < size; i++) {
		int high = digit(p->at[0]), low = high >= 0 ? digit(p->at[1]) : -1;
		if (low < 0) {
			break;
		}
		data[i] = (unsigned char)(high << 4 | low);
		p->at += 2;
		if (i + 1 == size && digit(p->at[0]) < 0) {
			return 0;
		}
	}
	return rbt_why_set(
		p->why, -EINVAL, "hex: takes exactly %zu bytes of two digits each", size);
}

static int parse_number(
	struct parser *p, const struct btf_type *t, unsigned first, unsigned bits, void *data)
{
	char word[WORD_MAX];
	uint64_t n = 0;
	int r = take_word(p, ",]}", word);

	if (r < 0) {
		return r;
	}
	r = rbt_number_parse(&p->o->btf, t, bits, word, &n);
	if (r == -ERANGE) {
		return rbt_why_set(p->why, r, "%s does not fit: the %s has %u bits", word,
			rbt_number_is_signed(t) ? "signed number" : "number", bits);
	}
	if (r < 0) {
		return rbt_why_set(p->why, r, "%s is not a number%s", word,
			RBT_BTF_KIND(t) != BTF_KIND_INT ? " or enumerator" : "");
	}
	rbt_number_put(data, first, bits, n);
	return 0;
}

/* "quoted", or a simple word. The rest of the array becomes NUL. */
static int parse_string(struct parser *p, char *data, size_t size)
{
	const bool is_quoted = take(p, '"');
	size_t n = 0;

	memset(data, 0, size);
	while (*p->at != '\0' && strchr(is_quoted ? "\"" : ",]}", *p->at) == NULL) {
		p->at += is_quoted && p->at[0] == '\\' && p->at[1] != '\0';
		if (n == size) {
			return rbt_why_set(p->why, -ERANGE,
				"the string is too long: there is room for %zu characters", size);
		}
		data[n++] = *p->at++;
	}
	return is_quoted && !take(p, '"') ? rbt_why_set(p->why, -EINVAL, "a string has no end") : 0;
}

static int parse_value(struct parser *p, uint32_t type, char *data, size_t size);

static int parse_array(struct parser *p, const struct btf_type *t, char *data, size_t size)
{
	const struct btf_array *array = (const void *)(t + 1);
	uint32_t n = 0;

	if (rbt_btf_size(&p->o->btf, array->type, &n) < 0 || n == 0) {
		return rbt_why_set(p->why, -EINVAL, "an array of unknown elements: use hex:");
	}
	if (*p->at != '[' && rbt_value_is_char(&p->o->btf, array->type)) {
		return parse_string(p, data, size);
	}
	if (!take(p, '[')) {
		return rbt_why_set(
			p->why, -EINVAL, "an array is written as [1,2,3], not as %.32s", p->at);
	}
	for (size_t at = 0; !take(p, ']'); at += n) {
		if (at > 0 && !take(p, ',')) {
			return rbt_why_set(p->why, -EINVAL, "an array has no end");
		}
		if (at + n > size) {
			return rbt_why_set(
				p->why, -ERANGE, "too many elements: the array has %zu", size / n);
		}
		int r = parse_value(p, array->type, data + at, n);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/* Finds a field by name, also in structs without a name. Its place counts from `t` on. */
static bool find_member(struct parser *p, const struct btf_type *t, size_t size, const char *name,
	int depth, struct rbt_value_field *ret)
{
	struct rbt_value_field f;

	for (unsigned i = 0; i < RBT_BTF_VLEN(t) && p->left > 0; i++, p->left--) {
		if (!rbt_value_member(&p->o->btf, t, i, size, &f)) {
			continue;
		}
		const struct btf_type *inner = rbt_btf_plain(&p->o->btf, f.type, NULL);
		const unsigned kind = RBT_BTF_KIND(inner);
		if (strcmp(f.name, name) == 0) {
			*ret = f;
			return true;
		}
		if (f.name[0] == '\0' && (kind == BTF_KIND_STRUCT || kind == BTF_KIND_UNION) &&
			f.bits == 0 && depth < RBT_VALUE_DEPTH &&
			find_member(p, inner, inner->size, name, depth + 1, ret)) {
			ret->offset += f.offset;
			return true;
		}
	}
	return false;
}

static bool find_field(struct parser *p, const struct btf_type *t, size_t size, const char *name,
	struct rbt_value_field *ret)
{
	if (RBT_BTF_KIND(t) != BTF_KIND_DATASEC) {
		p->left = MAX_LOOKS;
		return find_member(p, t, size, name, 0, ret);
	}
	for (unsigned i = 0; i < RBT_BTF_VLEN(t); i++) {
		if (rbt_value_variable(p->o, p->map, t, i, ret) && strcmp(ret->name, name) == 0) {
			return true;
		}
	}
	return false;
}

static int parse_field(struct parser *p, const struct btf_type *t, char *data, size_t size)
{
	const bool is_data = RBT_BTF_KIND(t) == BTF_KIND_DATASEC;
	struct rbt_value_field f = {0};
	char name[WORD_MAX] = "";
	uint32_t n = 0;
	int r = take_word(p, "=,]}", name);

	if (r < 0) {
		return r;
	}
	if (!take(p, '=')) {
		return rbt_why_set(p->why, -EINVAL, "%s: not of the form %s=VALUE", name,
			is_data ? "VARIABLE" : "FIELD");
	}
	if (!find_field(p, t, size, name, &f)) {
		return rbt_why_set(p->why, -EINVAL, "%s: there is no %s of this name", name,
			is_data ? "variable" : "field");
	}
	const struct btf_type *plain = rbt_btf_plain(&p->o->btf, f.type, NULL);
	if (f.bits != 0 && plain != NULL) {
		return parse_number(p, plain, f.first, f.bits, data + f.offset);
	}
	if (rbt_btf_size(&p->o->btf, f.type, &n) < 0 || f.offset > size || n > size - f.offset) {
		return rbt_why_set(p->why, -EINVAL, "%s: its type is damaged", name);
	}
	return parse_value(p, f.type, data + f.offset, n);
}

/* The fields of a struct or the variables of a section, without braces. */
static int parse_fields(struct parser *p, const struct btf_type *t, char *data, size_t size)
{
	int r;

	do {
		r = parse_field(p, t, data, size);
	} while (r == 0 && take(p, ','));
	return r;
}

static int parse_struct(struct parser *p, const struct btf_type *t, char *data, size_t size)
{
	const bool has_brace = take(p, '{');

	if (!has_brace && p->depth > 1) {
		return rbt_why_set(p->why, -EINVAL,
			"a struct inside another value is written as {field=value}, not as %.32s",
			p->at);
	}
	if (has_brace && take(p, '}')) {
		return 0;
	}
	int r = parse_fields(p, t, data, size);
	return r == 0 && has_brace && !take(p, '}')
		       ? rbt_why_set(p->why, -EINVAL, "a struct has no end")
		       : r;
}

/* `size` is the size of the type. */
static int parse_value(struct parser *p, uint32_t type, char *data, size_t size)
{
	const struct btf_type *t = rbt_btf_plain(&p->o->btf, type, NULL);
	const unsigned kind = t != NULL ? RBT_BTF_KIND(t) : BTF_KIND_UNKN;
	int r;

	if (strncmp(p->at, "hex:", 4) == 0) {
		return parse_bytes(p, (unsigned char *)data, size);
	}
	if (p->depth >= RBT_VALUE_DEPTH) {
		return rbt_why_set(p->why, -EINVAL, "the value is nested too deeply: use hex:");
	}
	p->depth++;
	if (t != NULL && rbt_number_is(t)) {
		r = parse_number(p, t, 0, (unsigned)size * 8, data);
	} else if (kind == BTF_KIND_STRUCT || kind == BTF_KIND_UNION) {
		r = parse_struct(p, t, data, size);
	} else if (kind == BTF_KIND_ARRAY) {
		r = parse_array(p, t, data, size);
	} else {
		r = rbt_why_set(p->why, -EINVAL, "only hex: can give a value of this type");
	}
	p->depth--;
	return r;
}

/* Without a type, only the size is known. */
static int parse_untyped(struct parser *p, char *data, size_t size)
{
	if (strncmp(p->at, "hex:", 4) == 0) {
		return parse_bytes(p, (unsigned char *)data, size);
	}
	if (size != 1 && size != 2 && size != 4 && size != 8) {
		return rbt_why_set(
			p->why, -EINVAL, "its type is not known: give %zu bytes as hex:…", size);
	}
	return parse_number(p, rbt_value_number, 0, (unsigned)size * 8, data);
}

int rbt_value_parse(const struct rbt_object *o, const struct rbt_object_map *m,
	enum rbt_value_part part, const char *text, void *data, struct rbt_why *why)
{
	struct rbt_value_type type = rbt_value_type(o, m, part);
	struct parser p = {.o = o, .map = m, .at = text, .why = why};
	int r;

	why->text[0] = '\0';
	if (type.section != NULL && strncmp(text, "hex:", 4) != 0) {
		p.depth = 1;
		r = parse_struct(&p, type.section, data, type.size);
	} else if (type.id != 0) {
		r = parse_value(&p, type.id, data, type.size);
	} else {
		r = parse_untyped(&p, data, type.size);
	}
	if (r == 0 && *p.at != '\0') {
		r = rbt_why_set(
			why, -EINVAL, "what is behind the value is not understood: %.32s", p.at);
	}
	return r;
}
