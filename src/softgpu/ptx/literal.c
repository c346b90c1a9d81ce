/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers: 12, 0x1F, 017, 0b11, each with an optional U; 0f3F800000, 0d...; 1.5, 2e-3. */
#include <stdlib.h>

#include "softgpu/ptx/impl.h"

static int digit_of(const struct parser *p, size_t pos)
{
	int c = pos < p->size ? (unsigned char)p->text[pos] : 0;

	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	if (c >= 'a' && c <= 'f') {
		return c - 'a' + 10;
	}
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

static int char_at(const struct parser *p, size_t pos)
{
	return pos < p->size ? (unsigned char)p->text[pos] : 0;
}

static int lex_bits(struct parser *p, enum literal_kind kind, unsigned digits)
{
	uint64_t bits = 0;
	size_t pos = p->pos + 2;

	for (unsigned i = 0; i < digits; i++, pos++) {
		int d = digit_of(p, pos);

		if (d > 15) {
			return ptx_fail(p, EINVAL,
				"a floating-point constant needs %u hexadecimal digits", digits);
		}
		bits = bits << 4 | (uint64_t)d;
	}
	p->pos = pos;
	p->tok.kind = TOK_FLOAT;
	p->tok.literal = (struct literal){.kind = kind, .bits = bits};
	return 0;
}

static int lex_integer(struct parser *p, unsigned base, size_t pos)
{
	uint64_t value = 0;
	size_t start = pos;
	int d;

	for (; (d = digit_of(p, pos)) < (int)base; pos++) {
		if (__builtin_mul_overflow(value, base, &value) ||
			__builtin_add_overflow(value, (unsigned)d, &value)) {
			return ptx_fail(p, EINVAL, "an integer of more than 64 bits");
		}
	}
	if (pos == start) {
		return ptx_fail(p, EINVAL, "a number without digits");
	}
	pos += char_at(p, pos) == 'U';
	p->pos = pos;
	p->tok.kind = TOK_INT;
	p->tok.literal = (struct literal){.kind = LIT_INT, .bits = value};
	return 0;
}

/* strtod() on a copy: the text need not end with a NUL, and more digits than this do not matter. */
static int lex_decimal(struct parser *p, size_t end)
{
	char copy[64];
	double value;
	size_t length = end - p->pos;

	if (length >= sizeof(copy)) {
		return ptx_fail(
			p, EINVAL, "a number of more than %zu characters", sizeof(copy) - 1);
	}
	memcpy(copy, p->text + p->pos, length);
	copy[length] = '\0';
	value = strtod(copy, NULL);
	p->tok.kind = TOK_FLOAT;
	p->tok.literal.kind = LIT_F64;
	memcpy(&p->tok.literal.bits, &value, sizeof(value));
	p->pos = end;
	return 0;
}

/* The end of a decimal number with a point or an exponent; 0: it has neither. */
static size_t decimal_end(const struct parser *p)
{
	size_t pos = p->pos, mark;
	bool is_float = false;

	while (digit_of(p, pos) < 10) {
		pos++;
	}
	if (char_at(p, pos) == '.' && digit_of(p, pos + 1) < 10) {
		is_float = true;
		for (pos++; digit_of(p, pos) < 10; pos++) {
		}
	}
	if (char_at(p, pos) == 'e' || char_at(p, pos) == 'E') {
		mark = pos + 1;
		mark += char_at(p, mark) == '+' || char_at(p, mark) == '-';
		if (digit_of(p, mark) < 10) {
			is_float = true;
			for (pos = mark; digit_of(p, pos) < 10; pos++) {
			}
		}
	}
	return is_float ? pos : 0;
}

int ptx_lex_number(struct parser *p)
{
	int second = char_at(p, p->pos + 1);
	size_t end;

	if (p->text[p->pos] == '0') {
		switch (second) {
		case 'f':
		case 'F':
			return lex_bits(p, LIT_F32, 8);
		case 'd':
		case 'D':
			return lex_bits(p, LIT_F64, 16);
		case 'x':
		case 'X':
			return lex_integer(p, 16, p->pos + 2);
		case 'b':
		case 'B':
			return lex_integer(p, 2, p->pos + 2);
		default:
			break;
		}
	}
	end = decimal_end(p);
	if (end > 0) {
		return lex_decimal(p, end);
	}
	return lex_integer(p, p->text[p->pos] == '0' ? 8 : 10, p->pos);
}

static uint64_t bits_of_float(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* A constant as an operand or value of a type: its bits, as wide as the type. */
int ptx_literal_bits(struct parser *p, const struct literal *lit, unsigned type, uint64_t *ret_bits)
{
	unsigned width = rbt_ptx_type_bits(type);
	float single;
	double wide;
	uint32_t low = (uint32_t)lit->bits;

	if (lit->kind == LIT_INT) {
		if (type == RBT_PTX_F32 || type == RBT_PTX_F64) {
			return ptx_fail(
				p, EINVAL, "an integer constant as .%s", ptx_type_name(type));
		}
		*ret_bits = width == 64 ? lit->bits : lit->bits & ((UINT64_C(1) << width) - 1);
		return 0;
	}
	if (width == (lit->kind == LIT_F32 ? 32 : 64) && !ptx_is_half(type)) {
		*ret_bits = lit->bits;
	} else if (lit->kind == LIT_F32 && type == RBT_PTX_F64) {
		memcpy(&single, &low, sizeof(single));
		wide = single;
		memcpy(ret_bits, &wide, sizeof(wide));
	} else if (lit->kind == LIT_F64 && type == RBT_PTX_F32) {
		memcpy(&wide, &lit->bits, sizeof(wide));
		*ret_bits = bits_of_float((float)wide);
	} else {
		return ptx_fail(p, EINVAL, "a floating-point constant as .%s", ptx_type_name(type));
	}
	return 0;
}
