/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool rbt_number_is(const struct btf_type *t)
{
	const unsigned kind = t != NULL ? RBT_BTF_KIND(t) : BTF_KIND_UNKN;

	return (kind == BTF_KIND_INT || kind == BTF_KIND_ENUM || kind == BTF_KIND_ENUM64) &&
	       (t->size == 1 || t->size == 2 || t->size == 4 || t->size == 8);
}

static unsigned encoding(const struct btf_type *t)
{
	return RBT_BTF_KIND(t) == BTF_KIND_INT
		       ? BTF_INT_ENCODING(*(const uint32_t *)(const void *)(t + 1))
		       : 0;
}

bool rbt_number_is_signed(const struct btf_type *t)
{
	switch (RBT_BTF_KIND(t)) {
	case BTF_KIND_INT:
		return (encoding(t) & BTF_INT_SIGNED) != 0;
	case BTF_KIND_ENUM:
		return true; /* clang 14 does not say */
	default:
		return BTF_INFO_KFLAG(t->info);
	}
}

bool rbt_number_is_bool(const struct btf_type *t)
{
	return (encoding(t) & BTF_INT_BOOL) != 0;
}

uint64_t rbt_number_get(const struct btf_type *t, const void *memory, unsigned first, unsigned bits)
{
	const unsigned char *p = memory;
	uint64_t n = 0;

	for (unsigned i = 0; i < bits; i++) {
		unsigned at = first + i;
		n |= (uint64_t)(p[at / 8] >> at % 8 & 1) << i;
	}
	if (bits > 0 && bits < 64 && rbt_number_is_signed(t) && (n >> (bits - 1) & 1) != 0) {
		n |= UINT64_MAX << bits;
	}
	return n;
}

void rbt_number_put(void *memory, unsigned first, unsigned bits, uint64_t number)
{
	unsigned char *p = memory;

	for (unsigned i = 0; i < bits; i++) {
		unsigned at = first + i, mask = 1u << at % 8;
		p[at / 8] = (unsigned char)((number >> i & 1) != 0 ? p[at / 8] | mask
								   : p[at / 8] & ~mask);
	}
}

/* A number with an optional minus. Its bits are those of two's complement. */
static int parse_digits(const char *s, bool *ret_is_negative, uint64_t *ret)
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

static bool fits(unsigned bits, bool is_signed, bool is_negative, uint64_t n)
{
	if (is_negative) {
		return is_signed && (bits >= 64 || (int64_t)n >= -(int64_t)(1ull << (bits - 1)));
	}
	return bits - is_signed >= 64 || n >> (bits - is_signed) == 0;
}

/* The words of the enumerator `i`: its name, and the value in one or two more. */
static const uint32_t *enumerator(const struct btf_type *t, unsigned i, uint64_t *ret)
{
	const bool is_long = RBT_BTF_KIND(t) == BTF_KIND_ENUM64;
	const uint32_t *e = (const uint32_t *)(const void *)(t + 1) + (size_t)i * (is_long ? 3 : 2);

	*ret = is_long ? e[1] | (uint64_t)e[2] << 32 : (uint64_t)(int64_t)(int32_t)e[1];
	return e;
}

static int find_enumerator(
	const struct rbt_btf *btf, const struct btf_type *t, const char *name, uint64_t *ret)
{
	uint64_t n;

	for (unsigned i = 0; i < RBT_BTF_VLEN(t); i++) {
		if (strcmp(rbt_btf_name(btf, enumerator(t, i, &n)[0]), name) == 0) {
			*ret = n;
			return 0;
		}
	}
	return -EINVAL;
}

const char *rbt_number_enumerator(
	const struct rbt_btf *btf, const struct btf_type *t, uint64_t number)
{
	uint64_t n;

	for (unsigned i = 0; RBT_BTF_KIND(t) != BTF_KIND_INT && i < RBT_BTF_VLEN(t); i++) {
		const uint32_t *e = enumerator(t, i, &n);
		if (n == number && rbt_btf_name(btf, e[0])[0] != '\0') {
			return rbt_btf_name(btf, e[0]);
		}
	}
	return NULL;
}

int rbt_number_parse(const struct rbt_btf *btf, const struct btf_type *t, unsigned bits,
	const char *text, uint64_t *ret)
{
	const bool is_bool = rbt_number_is_bool(t);
	bool is_negative = false;

	if (RBT_BTF_KIND(t) != BTF_KIND_INT && find_enumerator(btf, t, text, ret) == 0) {
		return 0;
	}
	if (is_bool && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
		*ret = text[0] == 't';
		return 0;
	}
	uint64_t n = 0;
	int r = parse_digits(text, &is_negative, &n);
	if (r == 0 && (is_bool ? n > 1 : !fits(bits, rbt_number_is_signed(t), is_negative, n))) {
		r = -ERANGE;
	}
	*ret = r == 0 ? n : *ret;
	return r;
}
