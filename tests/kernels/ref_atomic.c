/* SPDX-License-Identifier: Apache-2.0 */
/* References for atomics.cu. */
#include <string.h>

#include "cases.h"

#define N 200

static void words32(const uint32_t *in, uint32_t *w)
{
	for (unsigned i = 0; i < N; i++) {
		uint32_t a = in[i];

		w[0] += a;
		w[1] = (int32_t)a < (int32_t)w[1] ? a : w[1];
		w[2] = (int32_t)a > (int32_t)w[2] ? a : w[2];
		w[3] = a < w[3] ? a : w[3];
		w[4] = a > w[4] ? a : w[4];
		w[5] &= a | 0xff00ff00u;
		w[6] |= a & 0x00ff00ffu;
		w[7] ^= a;
		w[8] = w[8] >= 36 ? 0 : w[8] + 1;
		w[9] = w[9] == 0 || w[9] > 36 ? 36 : w[9] - 1;
		w[10] += a;
	}
}

static void words64(const uint32_t *in, uint64_t *w)
{
	for (unsigned i = 0; i < N; i++) {
		uint64_t a = ((uint64_t)in[i] << 20) + i;

		w[0] += a;
		w[1] = (int64_t)a < (int64_t)w[1] ? a : w[1];
		w[2] = a > w[2] ? a : w[2];
		w[3] &= ~a;
		w[4] |= a;
		w[5] ^= a;
	}
}

static void ref_global(const struct kcase *kase, struct kcase_data *d)
{
	words32(d->bytes[0], d->expected[1]);
	words64(d->bytes[0], d->expected[2]);
}

static void ref_ticket(const struct kcase *kase, struct kcase_data *d)
{
	uint32_t *counter = d->expected[0], *taken = d->expected[1], *exchanged = d->expected[2];

	counter[0] = kase->block[0];
	for (unsigned i = 0; i < kase->block[0]; i++) {
		taken[i] = 1;
	}
	for (unsigned i = 0; i <= kase->block[0]; i++) {
		exchanged[i] = 1;
	}
}

static void ref_float(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	float *sums = d->expected[1];
	double *wide = d->expected[2];
	uint32_t *cas = d->expected[3];

	for (unsigned i = 0; i < N; i++) {
		float a = (float)(in[i] % 256) * 0.5f;

		sums[0] += a;
		sums[1] += a;
		wide[0] += (double)a;
		cas[0] = cas[0] * 3 + 1;
		cas[1] += in[i];
	}
}

static const struct kcase cases[] = {
	{"atomics", "atomic_global", {4, 1, 1}, {64, 1, 1}, 0,
		{{4 * N, KFILL_INTS, KEQUAL_BYTES}, {4 * 11, KFILL_INTS, KEQUAL_BYTES},
			{8 * 6, KFILL_INTS64, KEQUAL_BYTES}},
		{KARG32(N)}, ref_global, true},
	{"atomics", "atomic_ticket", {1, 1, 1}, {96, 1, 1}, 0,
		{{4 * 2, KFILL_ZERO, KEQUAL_BYTES}, {4 * 128, KFILL_ZERO, KEQUAL_BYTES},
			{4 * 128, KFILL_ZERO, KEQUAL_BYTES}},
		{KARG32(96)}, ref_ticket, true},
	{"atomics", "atomic_float", {4, 1, 1}, {64, 1, 1}, 0,
		{{4 * N, KFILL_INTS, KEQUAL_BYTES}, {4 * 2, KFILL_ZERO, KEQUAL_F32},
			{8, KFILL_ZERO, KEQUAL_F64}, {4 * 2, KFILL_ZERO, KEQUAL_BYTES}},
		{KARG32(N)}, ref_float, true},
};

const struct kcase_set kcases_atomic = KSET(cases);
