/* SPDX-License-Identifier: Apache-2.0 */
/* References for integer.cu and carry.cu. */
#include <string.h>

#include "cases.h"

#define N 200

__extension__ typedef unsigned __int128 wide;

/* What C leaves undefined is spelt out: overflow, and the one quotient that does not fit. */
#define ARITHMETIC(name, T, U, quotient, remainder)                                                \
	static void ref_##name(const struct kcase *kase, struct kcase_data *d)                     \
	{                                                                                          \
		const T *in = d->bytes[0];                                                         \
		T *out = d->expected[1];                                                           \
                                                                                                   \
		for (unsigned i = 0; i < N; i++) {                                                 \
			T a = in[i], b = in[N + i], c = in[2 * N + i];                             \
			uint64_t ua = (uint64_t)a, ub = (uint64_t)b, uc = (uint64_t)c;             \
                                                                                                   \
			out[0 * N + i] = (T)(U)(ua + ub);                                          \
			out[1 * N + i] = (T)(U)(ua - ub);                                          \
			out[2 * N + i] = (T)(U)(ua * ub);                                          \
			out[3 * N + i] = (T)(U)(ua * ub + uc);                                     \
			out[4 * N + i] = b != 0 ? (T)(quotient) : c;                               \
			out[5 * N + i] = b != 0 ? (T)(remainder) : c;                              \
			out[6 * N + i] = a < b ? a : b;                                            \
			out[7 * N + i] = a > b ? a : b;                                            \
			out[8 * N + i] = (T)(a >> (b & 7));                                        \
			out[9 * N + i] = (T)(U)(ua << (b & 7));                                    \
			out[10 * N + i] = (T)(U)(0 - ua);                                          \
		}                                                                                  \
	}

ARITHMETIC(u32, uint32_t, uint32_t, a / b, a % b)
ARITHMETIC(u64, uint64_t, uint64_t, a / b, a % b)
ARITHMETIC(u16, uint16_t, uint16_t, a / b, a % b)
ARITHMETIC(s16, int16_t, uint16_t, a / b, a % b)
ARITHMETIC(s32, int32_t, uint32_t, (int64_t)a / b, (int64_t)a % b)
ARITHMETIC(s64, int64_t, uint64_t, b == -1 ? (int64_t)(0 - ua) : a / b, b == -1 ? 0 : a % b)

static void ref_wide(const struct kcase *kase, struct kcase_data *d)
{
	const uint32_t *in = d->bytes[0];
	uint64_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint32_t a = in[i], b = in[N + i];
		int32_t sa = (int32_t)a, sb = (int32_t)b;
		uint64_t product = (uint64_t)a * b;
		int64_t swide = (int64_t)sa * sb;

		out[0 * N + i] = product >> 32;
		out[1 * N + i] = (uint64_t)(swide >> 32);
		out[2 * N + i] = product;
		out[3 * N + i] = (uint64_t)swide;
		out[4 * N + i] = (uint64_t)(swide - 5);
		out[5 * N + i] = (uint64_t)((wide)(product * 3) * (product + 7) >> 64);
		out[6 * N + i] = product * (product + 7);
		out[7 * N + i] = (uint64_t)(int64_t)(int32_t)(sa < 0 ? 0 - a : a);
		out[8 * N + i] = (uint64_t)(int64_t)(int32_t)(0 - a);
		out[9 * N + i] = (uint32_t)((a > b ? a - b : b - a) + 9);
	}
}

static void ref_carry_add(const struct kcase *kase, struct kcase_data *d)
{
	for (unsigned i = 0; i < N; i++) {
		wide a, b, sum, difference;

		memcpy(&a, (char *)d->bytes[0] + 16 * i, 16);
		memcpy(&b, (char *)d->bytes[0] + 16 * (N + i), 16);
		sum = a + b;
		difference = a - b;
		memcpy((char *)d->expected[1] + 16 * i, &sum, 16);
		memcpy((char *)d->expected[1] + 16 * (N + i), &difference, 16);
	}
}

static void ref_carry_mul(const struct kcase *kase, struct kcase_data *d)
{
	for (unsigned i = 0; i < N; i++) {
		uint64_t a[2];
		wide product;

		memcpy(a, (char *)d->bytes[0] + 16 * i, 16);
		product = (wide)a[0] * a[1];
		memcpy((char *)d->expected[1] + 16 * i, &product, 16);
	}
}

#define CASE(module, entry, in_size, out_size, fill, reference)                                    \
	KCASE_MAP(module, entry, N, in_size, fill, out_size, KEQUAL_BYTES, reference)

static const struct kcase cases[] = {
	CASE("integer", "int_u32", 12, 44, KFILL_INTS, ref_u32),
	CASE("integer", "int_s32", 12, 44, KFILL_INTS, ref_s32),
	CASE("integer", "int_u64", 24, 88, KFILL_INTS64, ref_u64),
	CASE("integer", "int_s64", 24, 88, KFILL_INTS64, ref_s64),
	CASE("integer", "int_u16", 6, 22, KFILL_INTS, ref_u16),
	CASE("integer", "int_s16", 6, 22, KFILL_INTS, ref_s16),
	CASE("integer", "int_wide", 8, 80, KFILL_INTS, ref_wide),
	CASE("carry", "carry_add", 32, 32, KFILL_INTS, ref_carry_add),
	CASE("carry", "carry_mul", 16, 16, KFILL_INTS, ref_carry_mul),
};

const struct kcase_set kcases_integer = KSET(cases);
