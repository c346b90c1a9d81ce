/* SPDX-License-Identifier: Apache-2.0 */
/* References for bits.cu and compare.cu. */
#include <math.h>

#include "cases.h"

#define N 200

/* Bit by bit, so that it is not the executor's own way. */
static uint64_t reversed(uint64_t a, unsigned width)
{
	uint64_t r = 0;

	for (unsigned k = 0; k < width; k++) {
		r |= (a >> k & 1) << (width - 1 - k);
	}
	return r;
}

static void ref_count(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint32_t a = in[i];
		uint64_t wide = (uint64_t)in[N + i] << 32 | a;

		out[0 * N + i] = kcase_ones(a);
		out[1 * N + i] = 31 - kcase_highest(a);
		out[2 * N + i] = (uint32_t)reversed(a, 32);
		out[3 * N + i] = kcase_highest(a);
		out[4 * N + i] = kcase_highest(a >> 31 ? (uint32_t)~a : a);
		out[5 * N + i] = a ? 31 - kcase_highest(a) : UINT32_MAX;
		out[6 * N + i] = kcase_ones(wide);
		out[7 * N + i] = 63 - kcase_highest(wide);
		out[8 * N + i] = (uint32_t)reversed(wide, 64);
		out[9 * N + i] = (uint32_t)(reversed(wide, 64) >> 32);
	}
}

/* bfe: bits past the end read as 0, or as the sign. */
static uint32_t field(uint32_t a, unsigned at, unsigned len, int is_signed)
{
	unsigned top = at + len - 1 > 31 ? 31 : at + len - 1;
	uint32_t sign = is_signed && len > 0 ? a >> top & 1 : 0, r = 0;

	for (unsigned k = 0; k < 32; k++) {
		r |= (k < len && at + k <= 31 ? a >> (at + k) & 1 : sign) << k;
	}
	return r;
}

static uint32_t inserted(uint32_t a, uint32_t b, unsigned at, unsigned len)
{
	for (unsigned k = 0; k < len && at + k <= 31; k++) {
		b = (b & ~(1u << (at + k))) | (a >> k & 1) << (at + k);
	}
	return b;
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector)
{
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t r = 0;

	for (unsigned k = 0; k < 4; k++) {
		unsigned pick = selector >> (4 * k) & 15;
		uint32_t byte = (uint32_t)(both >> (8 * (pick & 7))) & 0xff;
		r |= (pick & 8 ? (byte >> 7) * 0xff : byte) << (8 * k);
	}
	return r;
}

static void ref_field(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint32_t a = in[i], b = in[N + i], c = in[2 * N + i], at = c % 48,
			 len = (c >> 8) % 40;
		uint64_t both = (uint64_t)b << 32 | a;
		unsigned wrap = at & 31, clamp = at > 32 ? 32 : at;

		out[0 * N + i] = field(a, at, len, 0);
		out[1 * N + i] = field(a, at, len, 1);
		out[2 * N + i] = inserted(a, b, at, len);
		out[3 * N + i] = at > 31 ? 0 : a << at;
		out[4 * N + i] = at > 31 ? 0 : a >> at;
		out[5 * N + i] = (uint32_t)((int32_t)a >> (at > 31 ? 31 : at));
		out[6 * N + i] = (uint32_t)(both << wrap >> 32);
		out[7 * N + i] = (uint32_t)(both >> wrap);
		out[8 * N + i] = (uint32_t)(clamp == 32 ? a : both << clamp >> 32);
		out[9 * N + i] = (uint32_t)(both >> clamp);
		out[10 * N + i] = permuted(a, b, c & 0xffff);
	}
}

static void ref_logic(const struct kcase *kase, struct kcase_data *d)
{
	const uint64_t *in = d->bytes[0];
	uint64_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint64_t a = in[i], b = in[N + i];
		unsigned at = (uint32_t)(b >> 7) % 80;

		out[0 * N + i] = a & b;
		out[1 * N + i] = a | b;
		out[2 * N + i] = a ^ b;
		out[3 * N + i] = ~a;
		out[4 * N + i] = at > 63 ? 0 : a << at;
		out[5 * N + i] = at > 63 ? 0 : a >> at;
		out[6 * N + i] = (uint64_t)((int64_t)a >> (at > 63 ? 63 : at));
		out[7 * N + i] = ~b;
		out[8 * N + i] = (i % 3 ? a : 0) == 0;
	}
}

static void ref_compare_int(const struct kcase *kase, struct kcase_data *d)
{
	const int32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		int32_t a = in[i], b = in[N + i];
		uint32_t ua = (uint32_t)a, ub = (uint32_t)b;
		unsigned bits[] = {a == b, a != b, a<b, a <= b, a> b, a >= b,
			ua<ub, ua <= ub, ua> ub, ua >= ub, ua < ub};

		for (unsigned k = 0; k < sizeof(bits) / sizeof(bits[0]); k++) {
			out[i] |= bits[k] << k;
		}
	}
}

static void ref_compare_float(const struct kcase *kase, struct kcase_data *d)
{
	const float *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		float a = in[i], b = in[N + i];
		unsigned un = isnan(a) || isnan(b), lt = !un && isless(a, b), eq = !un && a == b;
		unsigned gt = !un && isgreater(a, b);
		unsigned bits[] = {eq, !un && !eq, lt, lt | eq, gt, gt | eq, eq | un, (!eq) | un,
			lt | un, lt | eq | un, gt | un, gt | eq | un, !un, un};

		for (unsigned k = 0; k < sizeof(bits) / sizeof(bits[0]); k++) {
			out[i] |= bits[k] << k;
		}
	}
}

static void ref_compare_combined(const struct kcase *kase, struct kcase_data *d)
{
	const int32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		int32_t a = in[i], b = in[N + i];
		int p = a > 5, q = b < 7;
		int32_t less = (int32_t)((uint32_t)a - (uint32_t)b);

		out[0 * N + i] = (uint32_t)(a < b && a > 0) | (uint32_t)(!(a < b) && a > 0) << 1;
		out[1 * N + i] = (p ^ q) || !p ? 3 : 4;
		out[2 * N + i] = (uint32_t)(less >= 0 ? a : b);
		out[3 * N + i] = a >= b ? UINT32_MAX : 0;
	}
}

#define CASE(module, entry, in_size, out_size, fill, reference)                                    \
	KCASE_MAP(module, entry, N, in_size, fill, out_size, KEQUAL_BYTES, reference)

static const struct kcase cases[] = {
	CASE("bits", "bits_count", 8, 40, KFILL_INTS, ref_count),
	CASE("bits", "bits_field", 12, 44, KFILL_INTS, ref_field),
	CASE("bits", "bits_logic", 16, 72, KFILL_INTS64, ref_logic),
	CASE("compare", "compare_int", 8, 4, KFILL_INTS, ref_compare_int),
	CASE("compare", "compare_float", 8, 4, KFILL_FLOATS_ODD, ref_compare_float),
	CASE("compare", "compare_combined", 8, 16, KFILL_INTS, ref_compare_combined),
};

const struct kcase_set kcases_bits = KSET(cases);
