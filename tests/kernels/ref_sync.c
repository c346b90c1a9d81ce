/* SPDX-License-Identifier: Apache-2.0 */
/* References for sync.cu. */
#include "cases.h"

#define N 256

static void ref_pipe(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned t = 0; t < 64; t++) {
		uint32_t sum = 0;

		for (unsigned k = 0; k < 5; k++) {
			sum = sum * 3 + in[t ^ 33] * (k + 1) + k;
		}
		out[t] = 1;
		out[64 + t] = sum;
	}
}

static void ref_loop(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1], size = kase->block[0];

	for (unsigned base = 0; base < N; base += size) {
		uint32_t sum[128], board[128];

		for (unsigned t = 0; t < size; t++) {
			sum[t] = in[base + t] % 1000;
		}
		for (unsigned k = 0; k < 6; k++) {
			for (unsigned t = 0; t < size; t++) {
				board[t] = sum[t];
			}
			for (unsigned t = 0; t < size; t++) {
				if ((t + k) % 3 != 0) {
					sum[t] += board[(t + 64) % size] * 3;
					continue;
				}
				if (t & 4) {
					sum[t] += board[(t + 1) % size];
					continue;
				}
				for (unsigned j = 0; j < t % 5; j++) {
					sum[t] = sum[t] * 5 + j;
				}
				sum[t] ^= board[(t + 40) % size];
			}
		}
		for (unsigned t = 0; t < size; t++) {
			out[base + t] = sum[t];
		}
	}
}

static void ref_exit(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1], size = kase->block[0];

	for (unsigned base = 0; base < N; base += size) {
		uint32_t count = 0, odd = 0, votes = 0;

		for (unsigned t = 0; t < size; t++) {
			count += t % 5 != 2;
			odd += t % 5 != 2 && t / 32 != 1 && t % 2;
			votes += t % 5 != 2 && t / 32 != 1 && in[base + t] & 1;
		}
		for (unsigned t = 0; t < size; t++) {
			out[base + t] = t % 5 == 2    ? 0
					: t / 32 == 1 ? count
						      : count * 10000 + odd * 100 + votes;
		}
	}
}

/* A lane that is odd, and its next bit set: until its round ends, those that are still there. */
static uint32_t shrinking(uint32_t lane, uint32_t fewer, uint32_t r)
{
	for (unsigned k = 0;; k++) {
		uint32_t left = 0;

		for (unsigned l = 0; l < 32; l++) {
			left |= (uint32_t)(l % 4 >= k) << l;
		}
		r = r * 3 + kcase_ones(left & fewer);
		if (k >= lane % 4) {
			return r;
		}
	}
}

static void subsets_of_warp(const uint32_t *in, uint32_t *out)
{
	uint32_t some = 0, fewer = 0, r[32] = {0}, ballot = 0;

	for (unsigned l = 0; l < 32; l++) {
		some |= (in[l] & 1) << l;
		fewer |= (in[l] & in[l] >> 1 & 1) << l;
	}
	for (unsigned k = 16; k > 0; k /= 2) {
		uint32_t was[32];

		for (unsigned l = 0; l < 32; l++) {
			was[l] = r[l];
		}
		for (unsigned l = 0; l < 32; l++) {
			r[l] += ~some >> (l ^ k) & 1 ? in[l ^ k] + was[l ^ k] : 1;
		}
	}
	for (unsigned l = 0; l < 32; l++) {
		uint32_t same = 0;

		for (unsigned k = l % 3; k < 32; k += 3) {
			same |= (some & ~fewer) & 1u << k;
		}
		if (some >> l & 1) {
			r[l] = in[__builtin_ctz(some)];
			r[l] = fewer >> l & 1 ? shrinking(l, fewer, r[l]) : r[l] ^ same;
		}
		ballot |= (uint32_t)((r[l] & 4) != 0) << l;
	}
	for (unsigned l = 0; l < 32; l++) {
		out[l] = r[l];
		out[N + l] = ballot;
	}
}

static void ref_subsets(const struct kcase *kase, struct kcase_data *d)
{
	for (unsigned i = 0; i < N; i += 32) {
		subsets_of_warp((const uint32_t *)d->bytes[0] + i, (uint32_t *)d->expected[1] + i);
	}
}

static void ref_tickets(const struct kcase *kase, struct kcase_data *d)
{
	uint32_t count = kase->grid[0] * kase->block[0], *order = d->expected[2];

	*(uint32_t *)d->expected[0] = count;
	*(uint32_t *)d->expected[1] = count;
	for (unsigned k = 0; k < count; k++) {
		order[0] = order[0] * 3 + k;
		order[1 + k] = 1;
	}
}

static void ref_pairs(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *values = d->expected[2], count = (uint32_t)kase->args[0].bits;

	for (unsigned t = 0; t < kase->grid[0] * kase->block[0]; t++) {
		for (unsigned k = 0; k < kase->args[1].bits; k++) {
			uint32_t a = (in[t] + k) % count, b = (a + 1 + k) % count;

			if (a != b) {
				values[a < b ? a : b] += 3;
				values[a < b ? b : a] -= 2;
			}
		}
	}
}

static void ref_lock_barrier(const struct kcase *kase, struct kcase_data *d)
{
	uint32_t *out = d->expected[1], rounds = (uint32_t)kase->args[0].bits;

	for (unsigned b = 0; b < kase->grid[0]; b++) {
		uint32_t sum = 0;

		for (unsigned k = 0; k < rounds; k++) {
			for (unsigned t = 0; t < kase->block[0]; t++) {
				sum += (t + k) % 3 != 0 ? t : 0;
			}
			out[b * rounds + k] = sum;
		}
	}
}

#define BUFFER(words, fill)                                                                        \
	{                                                                                          \
		4 * (words), fill, KEQUAL_BYTES                                                    \
	}
#define CASE(entry, threads, rows, reference)                                                      \
	{                                                                                          \
		"sync", entry, {N / (threads), 1, 1}, {threads, 1, 1}, 0,                          \
			{BUFFER(N, KFILL_INTS), BUFFER((rows)*N, KFILL_ZERO)}, {KARG32(N)},        \
			reference, true                                                            \
	}
#define LOCKED(entry, blocks, threads, reference, small)                                           \
	{                                                                                          \
		"sync", entry, {blocks, 1, 1}, {threads, 1, 1}, 0,                                 \
			{BUFFER(1, KFILL_ZERO), BUFFER(1, KFILL_ZERO),                             \
				BUFFER((blocks) * (threads) + 1, KFILL_ZERO)},                     \
			{{0, 0}}, reference, small                                                 \
	}

static const struct kcase cases[] = {
	{"sync", "sync_pipe", {1, 1, 1}, {128, 1, 1}, 0,
		{BUFFER(64, KFILL_INTS), BUFFER(128, KFILL_ZERO)}, {KARG32(64)}, ref_pipe, true},
	CASE("sync_loop", 128, 1, ref_loop),
	CASE("sync_exit", 128, 1, ref_exit),
	CASE("sync_subsets", 64, 2, ref_subsets),
	LOCKED("lock_tickets", 1, 12, ref_tickets, true),
	LOCKED("lock_tickets", 3, 64, ref_tickets, false),
	{"sync", "lock_pairs", {1, 1, 1}, {16, 1, 1}, 0,
		{BUFFER(16, KFILL_INTS), BUFFER(5, KFILL_ZERO), BUFFER(5, KFILL_ZERO)},
		{KARG32(5), KARG32(2)}, ref_pairs, true},
	{"sync", "lock_pairs", {3, 1, 1}, {64, 1, 1}, 0,
		{BUFFER(192, KFILL_INTS), BUFFER(7, KFILL_ZERO), BUFFER(7, KFILL_ZERO)},
		{KARG32(7), KARG32(4)}, ref_pairs, false},
	{"sync", "lock_barrier", {1, 1, 1}, {40, 1, 1}, 0,
		{BUFFER(1, KFILL_ZERO), BUFFER(2, KFILL_ZERO)}, {KARG32(2)}, ref_lock_barrier,
		true},
	{"sync", "lock_barrier", {2, 1, 1}, {96, 1, 1}, 0,
		{BUFFER(2, KFILL_ZERO), BUFFER(10, KFILL_ZERO)}, {KARG32(5)}, ref_lock_barrier,
		false},
};

const struct kcase_set kcases_sync = KSET(cases);
