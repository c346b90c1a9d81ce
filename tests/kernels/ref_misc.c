/* SPDX-License-Identifier: Apache-2.0 */
/* References for misc.cu and indirect.cu. */
#include <math.h>
#include <string.h>

#include "cases.h"

#define N 200

static void ref_spaces(const struct kcase *kase, struct kcase_data *d)
{
	uint32_t *out = d->expected[0];

	for (unsigned i = 0; i < N; i++) {
		const uint32_t spaces[] = {1, 2, 4, 1}, local[] = {i, 1, 2, 3};
		const uint32_t values[] = {0, 17, local[i / 4 % 4], 4};

		out[i] = spaces[i % 4];
		out[N + i] = values[i % 4];
	}
}

static uint32_t tests_of(int class)
{
	uint32_t finite = class != FP_NAN && class != FP_INFINITE;
	uint32_t normal = class == FP_NORMAL || class == FP_ZERO; /* as PTX has it */

	return finite | (uint32_t)(class == FP_INFINITE) << 1 | (uint32_t)(class != FP_NAN) << 2 |
	       (uint32_t)(class == FP_NAN) << 3 | normal << 4 |
	       (uint32_t)(class == FP_SUBNORMAL) << 5;
}

static void ref_testp(const struct kcase *kase, struct kcase_data *d)
{
	const float *in = d->bytes[0];

	for (unsigned i = 0; i < N; i++) {
		uint64_t bits = i + 1;
		double wide = in[i];

		if (i % 7 == 0) {
			memcpy(&wide, &bits, 8);
		}
		((uint32_t *)d->expected[1])[i] =
			tests_of(fpclassify(in[i])) | tests_of(fpclassify(wide)) << 6;
	}
}

/* Bit by bit, by the table. */
static uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
	uint32_t r = 0;

	for (unsigned k = 0; k < 32; k++) {
		unsigned at = (a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1);
		r |= (uint32_t)(table >> at & 1) << k;
	}
	return r;
}

static uint32_t picked(uint32_t a, uint32_t b, const unsigned char *pick)
{
	unsigned char bytes[8], r[4];
	uint32_t word;

	memcpy(bytes, &a, 4);
	memcpy(bytes + 4, &b, 4);
	for (unsigned k = 0; k < 4; k++) {
		r[k] = bytes[pick[k] & 7];
		if (pick[k] & 8) {
			r[k] = r[k] & 0x80 ? 0xff : 0;
		}
	}
	memcpy(&word, r, 4);
	return word;
}

/* The modes in words: forward, backward, one byte, edges to the left and right, one half. */
static uint32_t permuted(unsigned mode, uint32_t a, uint32_t b, uint32_t c)
{
	unsigned n = c & 3;
	unsigned char pick[4];

	for (unsigned k = 0; k < 4; k++) {
		unsigned modes[] = {c >> (4 * k) & 15, n + k, (n + 8 - k) % 8, n, k > n ? k : n,
			k < n ? k : n, (n & 1) * 2 + (k & 1)};
		pick[k] = (unsigned char)modes[mode];
	}
	return picked(a, b, pick);
}

static void ref_misc_bits(const struct kcase *kase, struct kcase_data *d)
{
	static const unsigned tables[] = {0xe8, 0x96, 0x1b, 0xff, 0x40};
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint32_t a = in[i], b = in[N + i], c = in[2 * N + i];

		for (unsigned k = 0; k < 5; k++) {
			out[k * N + i] = lop3(a, b, c, tables[k]);
		}
		for (unsigned k = 0; k < 7; k++) {
			out[(5 + k) * N + i] = permuted(k, a, b, c);
		}
	}
}

/* Bit by bit. Past the end of the word there are zeros, or the sign. */
static uint64_t field(uint64_t a, unsigned at, unsigned length, int is_signed)
{
	unsigned last = at + length - 1 < 63 ? at + length - 1 : 63;
	uint64_t sign = is_signed && length ? a >> last & 1 : 0, r = 0;

	for (unsigned k = 0; k < 64; k++) {
		uint64_t bit = k < length && at + k < 64 ? a >> (at + k) & 1 : sign;
		r |= bit << k;
	}
	return length ? r : 0;
}

static uint64_t inserted(uint64_t a, uint64_t b, unsigned at, unsigned length)
{
	for (unsigned k = 0; k < length && at + k < 64; k++) {
		b = (b & ~(1ull << (at + k))) | (a >> k & 1) << (at + k);
	}
	return b;
}

static uint32_t low24(uint64_t a, int is_signed)
{
	return is_signed && a & 0x800000 ? (uint32_t)a | 0xff000000 : (uint32_t)a & 0xffffff;
}

static uint64_t shuffled(uint64_t a)
{
	uint64_t p = a & 0xffff, q = a >> 16 & 0xffff, r = a >> 32 & 0xffff, s = a >> 48;

	return s | q << 16 | p << 32 | r << 48;
}

static void ref_wide(const struct kcase *kase, struct kcase_data *d)
{
	const uint64_t *in = d->bytes[0];
	uint64_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint64_t a = in[i], b = in[N + i];
		unsigned at = b & 127, length = b >> 7 & 127;
		uint32_t top = kcase_highest((int64_t)a < 0 ? ~a : a), low = (uint32_t)b;
		float f;

		memcpy(&f, &low, 4);
		uint64_t rows[] = {field(a, at, length, 0), field(a, at, length, 1),
			inserted(a, b, at, length), kcase_highest(a),
			top == UINT32_MAX ? top : 63 - top, low24(a, 1) * low24(b, 1),
			low24(a, 0) * low24(b, 0) + at, (int32_t)a >= 0 ? a : b, f >= 0 ? a : b,
			(int64_t)a < (int64_t)b ? 0x3f800000 : 0, shuffled(a), (b >> 32) | a << 32};

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * N + i] = rows[k];
		}
	}
}

static void ref_swap(const struct kcase *kase, struct kcase_data *d)
{
	uint64_t *words = d->expected[0], *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint16_t *half = (uint16_t *)(words + 2 * N + i) + i % 4;
		uint32_t *count = (uint32_t *)(words + 3 * N) + i;

		out[0 * N + i] = words[i];
		if (i % 2 == 0 || words[i] == 0) {
			words[i] = (uint64_t)i << 40 | 1;
		}
		out[1 * N + i] = words[N + i];
		words[N + i] = (uint64_t)i * 3;
		out[2 * N + i] = *half;
		if (i % 3 == 0 || *half == 0) {
			*half = 0x1234;
		}
		out[3 * N + i] = *count;
		*count = *count >= 5 ? 0 : *count + 1;
	}
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
	return b == 0 ? a : gcd(b, a % b);
}

static uint32_t call(unsigned which, uint32_t a, uint32_t b)
{
	switch (which) {
	case 0:
		return a + b;
	case 1:
		return a * b;
	case 2:
		return gcd(a, b);
	default:
		return a & 1 ? a ^ b : gcd(a, b | 1) + 7;
	}
}

static void ref_table(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint32_t a = in[i] % 1000, b = in[N + i] % 1000;

		out[0 * N + i] = call(in[i] % 4, a, b);
		out[1 * N + i] = call(N % 4, a, b + 1);
		out[2 * N + i] = i % 3 == 0 ? call(i / 3 % 4, b, a) : 5;
	}
}

static void ref_fold(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];

	for (unsigned i = 0; i < N; i++) {
		uint64_t r = i;

		for (unsigned k = 0; k < 1 + i % 5; k++) {
			r = r * 3 + call(i % 4, (uint32_t)r & 0xff, in[i + k] % 100);
		}
		((uint64_t *)d->expected[1])[i] = r;
	}
}

static void ref_virtual(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];

	for (unsigned i = 0; i < N; i++) {
		uint32_t side = in[i] % 50, radius = in[i] % 30, scale = in[i] % 9, disc = 0;

		for (unsigned k = 0; k < scale % 5; k++) {
			disc += 3 * radius * radius + k;
		}
		((uint32_t *)d->expected[1])[i] =
			in[N + i] & 1 ? side * side * scale * 8 + 4 : disc * 8;
	}
}

#define CASE(module, entry, in_size, fill, out_size, reference)                                    \
	KCASE_MAP(module, entry, N, in_size, fill, out_size, KEQUAL_BYTES, reference)

static const struct kcase cases[] = {
	{"misc", "misc_spaces", {4, 1, 1}, {64, 1, 1}, 0, {{8 * N, KFILL_ZERO, KEQUAL_BYTES}},
		{KARG32(N)}, ref_spaces, true},
	CASE("misc", "misc_testp", 4, KFILL_FLOATS_ODD, 4, ref_testp),
	CASE("misc", "misc_bits", 12, KFILL_INTS, 48, ref_misc_bits),
	CASE("misc", "misc_bits", 12, KFILL_RANDOM, 48, ref_misc_bits),
	CASE("misc", "misc_wide", 16, KFILL_RANDOM, 96, ref_wide),
	CASE("misc", "misc_wide", 16, KFILL_INTS64, 96, ref_wide),
	CASE("misc", "misc_swap", 32, KFILL_INTS64, 32, ref_swap),
	CASE("indirect", "indirect_table", 8, KFILL_INTS, 12, ref_table),
	{"indirect", "indirect_fold", {4, 1, 1}, {64, 1, 1}, 0,
		{{4 * (N + 8), KFILL_INTS, KEQUAL_BYTES}, {8 * N, KFILL_ZERO, KEQUAL_BYTES}},
		{KARG32(N)}, ref_fold, true},
	CASE("indirect", "indirect_virtual", 8, KFILL_INTS, 4, ref_virtual),
};

const struct kcase_set kcases_misc = KSET(cases);
