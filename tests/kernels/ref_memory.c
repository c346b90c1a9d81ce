/* SPDX-License-Identifier: Apache-2.0 */
/* References for memory.cu and calls.cu. */
#include <stdlib.h>
#include <string.h>

#include "cases.h"

#define N 200

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void ref_local(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1], order[8];

	for (unsigned i = 0; i < N; i++) {
		memcpy(order, in + 8 * i, sizeof(order));
		qsort(order, 8, sizeof(order[0]), by_value);
		for (unsigned k = 0; k < 8; k++) {
			out[8 * i + k] = order[in[8 * i + k] % 8];
		}
	}
}

static void ref_const(const struct kcase *kase, struct kcase_data *d)
{
	static const uint32_t primes[16] = {
		2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		out[i] = primes[in[i] % 16] * 7 + (in[i] % 4 + 1) * 0x11111111;
	}
}

static void ref_tally(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		out[i % 4] += in[i];
	}
}

static void ref_reverse(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		unsigned from = i / 64 * 64 + 63 - i % 64;
		out[i] = from < N ? in[from] : 0;
	}
}

static void ref_vector(const struct kcase *kase, struct kcase_data *d)
{
	for (unsigned i = 0; i < N; i++) {
		const uint32_t *a = (const uint32_t *)d->bytes[0] + 4 * i;
		const uint8_t *c = (const uint8_t *)(a + 1);
		uint32_t *out = (uint32_t *)d->expected[1] + 16 * i;
		uint64_t wide[2];
		const uint8_t bytes[4] = {c[3], c[1], c[2], c[0]};

		for (unsigned k = 0; k < 4; k++) {
			out[k] = a[3 - k];
		}
		out[4] = a[1];
		out[5] = out[6] = out[7] = a[0];
		memcpy(out + 8, bytes, 4);
		memcpy(wide, a, 16);
		wide[1]++;
		memcpy(out + 12, wide + 1, 8);
		memcpy(out + 14, wide, 8);
	}
}

static void ref_narrow(const struct kcase *kase, struct kcase_data *d)
{
	const int8_t *in = d->bytes[0];
	int64_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		int16_t half, third;
		int32_t word;

		memcpy(&half, in + i / 2 * 2, 2);
		memcpy(&word, in + i / 4 * 4, 4);
		out[0 * N + i] = in[i];
		out[1 * N + i] = (uint8_t)in[i];
		out[2 * N + i] = half;
		out[3 * N + i] = (uint16_t)half;
		out[4 * N + i] = word;
		((int8_t *)(out + 5 * N))[i] = (int8_t)(in[i] + 1);
		third = (int16_t)(in[i] * 3);
		memcpy((char *)(out + 6 * N) + 2 * i, &third, 2);
	}
}

static uint32_t mix(uint32_t a, uint32_t b)
{
	for (uint32_t k = 0; k < (b & 3); k++) {
		a = a * 1664525 + 1013904223 + b;
	}
	return a;
}

static void ref_calls(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint32_t a = in[i], b = in[N + i], low = a < b ? a : b, high = a < b ? b : a;
		uint32_t r = mix(low, high);

		r ^= a % 3 == 0 ? mix(r, b + 1) : 0;
		out[i] = r + (high - low) * (b % 17);
	}
}

static void ref_recurse(const struct kcase *kase, struct kcase_data *d)
{
	static const uint32_t fibonacci[8] = {0, 1, 1, 2, 3, 5, 8, 13};
	const uint32_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		out[i] = fibonacci[in[i] % 8];
	}
}

#define CASE(module, entry, blocks, threads, shared, in_size, out_size, fill, reference)           \
	{                                                                                          \
		module, entry, {blocks, 1, 1}, {threads, 1, 1}, shared,                            \
			{{(in_size)*N, fill, KEQUAL_BYTES},                                        \
				{(out_size)*N, KFILL_ZERO, KEQUAL_BYTES}},                         \
			{KARG32(N)}, reference, true                                               \
	}

static const struct kcase cases[] = {
	CASE("memory", "local_sort", 4, 64, 0, 32, 32, KFILL_INTS, ref_local),
	CASE("memory", "const_lookup", 4, 64, 0, 4, 4, KFILL_INTS, ref_const),
	CASE("memory", "global_tally", 1, 256, 0, 4, 4, KFILL_INTS, ref_tally),
	CASE("memory", "dynamic_reverse", 4, 64, 256, 4, 4, KFILL_INTS, ref_reverse),
	CASE("memory", "vector_moves", 4, 64, 0, 16, 64, KFILL_RANDOM, ref_vector),
	CASE("memory", "narrow_moves", 4, 64, 0, 1, 56, KFILL_RANDOM, ref_narrow),
	CASE("calls", "call_functions", 4, 64, 0, 8, 4, KFILL_INTS, ref_calls),
	CASE("calls", "recurse", 4, 64, 0, 4, 4, KFILL_INTS, ref_recurse),
};

const struct kcase_set kcases_memory = KSET(cases);
