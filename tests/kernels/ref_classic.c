/* SPDX-License-Identifier: Apache-2.0 */
/* References for classic.cu. */
#include <math.h>

#include "cases.h"

#define N     1000 /* not a multiple of a block */
#define SMALL 100

static unsigned count_of(const struct kcase *kase)
{
	return (unsigned)kase->args[0].bits;
}

static void ref_vector_add(const struct kcase *kase, struct kcase_data *d)
{
	const float *a = d->bytes[0], *b = d->bytes[1];
	float *out = d->expected[2];

	for (unsigned i = 0; i < count_of(kase); i++) {
		out[i] = a[i] + b[i];
	}
}

/* clang contracts the product and the sum: one rounding. */
static void ref_saxpy(const struct kcase *kase, struct kcase_data *d)
{
	const float *x = d->bytes[0];
	float *y = d->expected[1];

	for (unsigned i = 0; i < count_of(kase); i++) {
		y[i] = fmaf(2.5f, x[i], y[i]);
	}
}

static void ref_reduce(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned block = 0; block < kase->grid[0]; block++) {
		out[block] = 0;
		for (unsigned t = 0; t < kase->block[0]; t++) {
			unsigned i = block * kase->block[0] + t;
			out[block] += i < count_of(kase) ? in[i] : 0;
		}
	}
}

static void ref_matmul(const struct kcase *kase, struct kcase_data *d)
{
	const float *a = d->bytes[0], *b = d->bytes[1];
	float *c = d->expected[2];
	unsigned side = count_of(kase);

	for (unsigned row = 0; row < side; row++) {
		for (unsigned column = 0; column < side; column++) {
			float sum = 0;
			for (unsigned k = 0; k < side; k++) {
				sum = fmaf(a[row * side + k], b[k * side + column], sum);
			}
			c[row * side + column] = sum;
		}
	}
}

static void ref_histogram(const struct kcase *kase, struct kcase_data *d)
{
	const uint8_t *in = d->bytes[0];
	uint32_t *bins = d->expected[1];

	for (unsigned i = 0; i < count_of(kase); i++) {
		bins[in[i] & 63]++;
	}
}

static void ref_ones(const struct kcase *kase, struct kcase_data *d)
{
	uint32_t *out = d->expected[0];

	for (unsigned i = 0; i < kase->grid[0] * kase->block[0]; i++) {
		out[i] = 1;
	}
}

#define FLOATS(n)                                                                                  \
	{                                                                                          \
		4 * (n), KFILL_FLOATS, KEQUAL_F32                                                  \
	}
#define ZEROS(n)                                                                                   \
	{                                                                                          \
		4 * (n), KFILL_ZERO, KEQUAL_F32                                                    \
	}

static const struct kcase cases[] = {
	{"classic", "vector_add", {8, 1, 1}, {128, 1, 1}, 0, {FLOATS(N), FLOATS(N), ZEROS(N)},
		{KARG32(N)}, ref_vector_add, false},
	{"classic", "vector_add", {2, 1, 1}, {64, 1, 1}, 0,
		{FLOATS(SMALL), FLOATS(SMALL), ZEROS(SMALL)}, {KARG32(SMALL)}, ref_vector_add,
		true},
	{"classic", "saxpy", {3, 1, 1}, {96, 1, 1}, 0, {FLOATS(N), FLOATS(N)},
		{KARG32(N), {4, 0x40200000}}, ref_saxpy, true},
	{"classic", "reduce_shared", {8, 1, 1}, {128, 1, 1}, 0,
		{{4 * N, KFILL_INTS, KEQUAL_BYTES}, {4 * 8, KFILL_ZERO, KEQUAL_BYTES}}, {KARG32(N)},
		ref_reduce, true},
	{"classic", "matmul_tiled", {4, 4, 1}, {16, 16, 1}, 0,
		{FLOATS(64 * 64), FLOATS(64 * 64), ZEROS(64 * 64)}, {KARG32(64)}, ref_matmul,
		false},
	{"classic", "matmul_tiled", {1, 1, 1}, {16, 16, 1}, 0,
		{FLOATS(16 * 16), FLOATS(16 * 16), ZEROS(16 * 16)}, {KARG32(16)}, ref_matmul, true},
	{"classic", "histogram", {4, 1, 1}, {96, 1, 1}, 0,
		{{N, KFILL_RANDOM, KEQUAL_BYTES}, {4 * 64, KFILL_ZERO, KEQUAL_BYTES}}, {KARG32(N)},
		ref_histogram, true},
	{"classic", "reduce_shuffle", {4, 1, 1}, {256, 1, 1}, 0,
		{{4 * N, KFILL_INTS, KEQUAL_BYTES}, {4 * 4, KFILL_ZERO, KEQUAL_BYTES}}, {KARG32(N)},
		ref_reduce, true},
	{"classic", "clock_spin", {2, 1, 1}, {64, 1, 1}, 0, {{4 * 128, KFILL_ZERO, KEQUAL_BYTES}},
		{KARG64(500)}, ref_ones, true},
};

const struct kcase_set kcases_classic = KSET(cases);
