/* SPDX-License-Identifier: Apache-2.0 */
/* References for diverge.cu. */
#include "cases.h"

#define N 256

static uint32_t nest(uint32_t a)
{
	uint32_t r = 0;

	if (a & 1) {
		if (a & 2) {
			r = a & 4 ? a * 3 : a / 3;
		} else {
			for (uint32_t k = 0; k < (a >> 4) % 7; k++) {
				r += k * a;
				if (r % 11 == 0) {
					break;
				}
			}
		}
		r += 5;
	} else if (a & 8) {
		return 99;
	} else {
		r = ~a;
	}
	switch (a % 6) {
	case 0:
		return r + 10;
	case 1:
		return (r * 7) ^ 0x55;
	case 2:
		return r ^ 0x55;
	case 4:
		return r - 3;
	default:
		return r >> 1;
	}
}

static void ref_nest(const struct kcase *kase, struct kcase_data *d)
{
	for (unsigned i = 0; i < N; i++) {
		((uint32_t *)d->expected[1])[i] = nest(((const uint32_t *)d->bytes[0])[i]);
	}
}

static void ref_collatz(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		for (uint32_t round = 0; round < 1 + in[i] % 3; round++) {
			for (uint32_t v = in[i] % 50 + round + 1; v != 1; out[i]++) {
				v = v % 2 == 0 ? v / 2 : v * 3 + 1;
			}
		}
	}
}

static void ref_barrier(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1], size = kase->block[0];

	for (unsigned i = 0; i < N; i++) {
		uint32_t t = i % size, base = i - t;

		for (uint32_t round = 0; round < 3; round++) {
			int odd = (t ^ round) & 1;
			uint32_t from = odd ? (t + 33) % size : (t + 65) % size;
			uint32_t seen = (from ^ round) & 1 ? in[base + from] + round
							   : in[base + from] * 2 + round;

			out[i] = odd ? out[i] + seen : out[i] ^ seen;
		}
	}
}

static void ref_named(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint32_t base = i / 128 * 128, odd = 0;

		for (unsigned k = 0; k < 128; k++) {
			odd += in[base + k] & 1;
		}
		out[0 * N + i] = in[base + ((i % 128) ^ 63)];
		out[1 * N + i] = odd;
		out[2 * N + i] = 1;
		out[3 * N + i] = base == 0;
	}
}

static void ref_exit(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint32_t t = i % 128;

		out[i] = t % 3 == 1 || t >= 96 ? 0 : 64 + in[i];
	}
}

static void ref_lock(const struct kcase *kase, struct kcase_data *d)
{
	uint32_t *count = d->expected[1];

	for (unsigned k = 0; k < kase->grid[0] * kase->block[0] * kase->args[0].bits; k++) {
		count[0] = count[0] * 5 + 1;
	}
}

static void ref_wait(const struct kcase *kase, struct kcase_data *d)
{
	for (unsigned t = 0; t < kase->block[0]; t++) {
		((uint32_t *)d->expected[0])[t] = 1;
		((uint32_t *)d->expected[1])[t] = 1 + t;
	}
}

#define CASE(entry, threads, rows, reference)                                                      \
	{                                                                                          \
		"diverge", entry, {N / (threads), 1, 1}, {threads, 1, 1}, 0,                       \
			{{4 * N, KFILL_INTS, KEQUAL_BYTES},                                        \
				{4 * (rows)*N, KFILL_ZERO, KEQUAL_BYTES}},                         \
			{KARG32(N)}, reference, true                                               \
	}

static const struct kcase cases[] = {
	CASE("diverge_nest", 64, 1, ref_nest),
	CASE("diverge_collatz", 64, 1, ref_collatz),
	CASE("diverge_barrier", 128, 1, ref_barrier),
	CASE("named_barrier", 128, 4, ref_named),
	CASE("early_exit", 128, 1, ref_exit),
	{"diverge", "spin_lock", {2, 1, 1}, {64, 1, 1}, 0,
		{{4, KFILL_ZERO, KEQUAL_BYTES}, {4, KFILL_ZERO, KEQUAL_BYTES}}, {KARG32(3)},
		ref_lock, false},
	{"diverge", "spin_lock", {1, 1, 1}, {8, 1, 1}, 0,
		{{4, KFILL_ZERO, KEQUAL_BYTES}, {4, KFILL_ZERO, KEQUAL_BYTES}}, {KARG32(2)},
		ref_lock, true},
	{"diverge", "spin_wait", {1, 1, 1}, {32, 1, 1}, 0,
		{{4 * 32, KFILL_ZERO, KEQUAL_BYTES}, {4 * 32, KFILL_ZERO, KEQUAL_BYTES}}, {{0, 0}},
		ref_wait, true},
};

const struct kcase_set kcases_diverge = KSET(cases);
