/* SPDX-License-Identifier: Apache-2.0 */
/* References for warp.cu and redux.cu: a warp's lanes, looked at one by one. */
#include "cases.h"

#define N 128 /* whole warps */

/* The lanes of i's warp for which `holds` of the element is true, as a mask. */
#define LANES_WHERE(mask, k, holds)                                                                \
	do {                                                                                       \
		mask = 0;                                                                          \
		for (unsigned k = i / 32 * 32; k < i / 32 * 32 + 32; k++) {                        \
			mask |= (uint32_t)(holds) << (k % 32);                                     \
		}                                                                                  \
	} while (0)

static void ref_vote(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1], mask;

	for (unsigned i = 0; i < N; i++) {
		LANES_WHERE(mask, k, in[k] & 1);
		out[0 * N + i] = mask;
		LANES_WHERE(mask, k, in[k] % 8 == 1);
		out[1 * N + i] = mask != 0;
		LANES_WHERE(mask, k, (in[k] & 1) || k < 32);
		out[2 * N + i] = mask == UINT32_MAX;
		LANES_WHERE(mask, k, k < 40);
		out[3 * N + i] = mask == UINT32_MAX || mask == 0;
		out[4 * N + i] = in[i] & 1;
		LANES_WHERE(mask, k, k % 32 < 16 && (in[k] & 2));
		out[5 * N + i] = i % 32 < 16 ? mask : 0;
		out[6 * N + i] = i % 32 | ((1u << i % 32) - 1) << 8;
	}
}

static void ref_match(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1], mask;

	for (unsigned i = 0; i < N; i++) {
		LANES_WHERE(mask, k, in[k] % 5 == in[i] % 5);
		out[0 * N + i] = mask;
		LANES_WHERE(mask, k, in[k] % 3 == in[i] % 3);
		out[1 * N + i] = mask;
		LANES_WHERE(mask, k, i / 32 == 1 || in[k] == in[i]);
		out[2 * N + i] = mask == UINT32_MAX ? mask : 0;
		out[3 * N + i] = mask == UINT32_MAX;
	}
}

static void give(
	uint32_t *out, const uint32_t *in, unsigned row, unsigned i, int from, int first, int last)
{
	int in_range = from >= first && from <= last;

	out[row * N + i] = in[i / 32 * 32 + (in_range ? (unsigned)from : i % 32)];
	out[(row + 1) * N + i] = (uint32_t)in_range;
}

static void ref_shuffle(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		int lane = (int)(i % 32), segment = lane / 8 * 8;

		give(out, in, 0, i, lane - 3, 0, 31);
		give(out, in, 2, i, lane + 5, 0, 31);
		give(out, in, 4, i, lane ^ 9, 0, 31);
		give(out, in, 6, i, (int)(in[i] % 32), 0, 31);
		give(out, in, 8, i, lane - 2, segment, segment + 7);
		give(out, in, 10, i, lane + 3, segment, segment + 7);
		give(out, in, 12, i, segment + 5, segment, segment + 7);
	}
}

static void ref_redux(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		const uint32_t *warp = in + i / 32 * 32;
		uint32_t r[6] = {0, 0x7fffffff, 0, UINT32_MAX, 0, 0};

		for (unsigned k = 0; k < 32; k++) {
			r[0] += warp[k];
			r[1] = (int32_t)warp[k] < (int32_t)r[1] ? warp[k] : r[1];
			r[2] = warp[k] > r[2] ? warp[k] : r[2];
			r[3] &= warp[k];
			r[4] |= warp[k];
			r[5] ^= warp[k];
		}
		for (unsigned k = 0; k < 6; k++) {
			out[k * N + i] = r[k];
		}
		out[6 * N + i] = i % 32 < 10 ? 0x80000000 : UINT32_MAX;
		for (unsigned k = i % 32 < 10 ? 0 : 10; k < (i % 32 < 10 ? 10 : 32); k++) {
			bool wins = i % 32 < 10 ? (int32_t)warp[k] > (int32_t)out[6 * N + i]
						: warp[k] < out[6 * N + i];
			out[6 * N + i] = wins ? warp[k] : out[6 * N + i];
		}
		out[6 * N + i] ^= i % 32 < 10 ? 0 : 0xfffffc00;
	}
}

#define CASE(module, entry, rows, reference)                                                       \
	{                                                                                          \
		module, entry, {2, 1, 1}, {64, 1, 1}, 0,                                           \
			{{4 * N, KFILL_INTS, KEQUAL_BYTES},                                        \
				{4 * (rows)*N, KFILL_ZERO, KEQUAL_BYTES}},                         \
			{KARG32(N)}, reference, true                                               \
	}

static const struct kcase cases[] = {
	CASE("warp", "warp_vote", 7, ref_vote),
	CASE("warp", "warp_match", 4, ref_match),
	CASE("warp", "warp_shuffle", 14, ref_shuffle),
	CASE("redux", "warp_redux", 7, ref_redux),
};

const struct kcase_set kcases_warp = KSET(cases);
