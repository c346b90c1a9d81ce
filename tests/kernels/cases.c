/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct random {
	uint64_t state;
};

static uint64_t random_next(struct random *r)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return r->state * 0x2545f4914f6cdd1dull;
}

static uint64_t random_int(struct random *r, unsigned i)
{
	static const uint64_t edges[] = {0, 1, UINT64_MAX, 0x80000000, 0x7fffffff,
		0x8000000000000000, 0x7fffffffffffffff, 2};
	uint64_t any = random_next(r);

	if (i % 5 == 3) {
		return edges[any % (sizeof(edges) / sizeof(edges[0]))];
	}
	return i % 5 == 1 ? any >> 57 : any >> (any & 31);
}

static double random_float(struct random *r)
{
	uint64_t any = random_next(r);
	double fraction = (double)(any >> 12) / (double)(1ull << 52);

	return ldexp((any & 1 ? -1 : 1) * (0.5 + fraction), (int)(any >> 1 & 31) - 12);
}

static float random_odd(struct random *r, unsigned i)
{
	const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-42f, 3e38f, 1.0f};
	double d = random_float(r);

	return i % 4 == 2 ? odd[random_next(r) % (sizeof(odd) / sizeof(odd[0]))] : (float)d;
}

static void fill(struct random *r, enum kcase_fill how, void *bytes, size_t size)
{
	size_t width = how == KFILL_INTS64 || how == KFILL_DOUBLES ? 8
		       : how == KFILL_RANDOM                       ? 1
		       : how == KFILL_HALVES                       ? 2
								   : 4;

	for (size_t i = 0; i < size / width; i++) {
		uint64_t word = how == KFILL_ONES ? UINT64_MAX : 0;
		float f = 0;

		if (how == KFILL_RANDOM) {
			word = random_next(r) >> 33;
		} else if (how == KFILL_HALVES) {
			/* Exponents up to 2^3. */
			word = random_next(r) >> 20;
			word = (word & 0x83ff) | (word >> 16) % 19 << 10;
		} else if (how == KFILL_INTS || how == KFILL_INTS64) {
			word = random_int(r, (unsigned)i);
		} else if (how == KFILL_DOUBLES) {
			double d = random_float(r);
			memcpy(&word, &d, 8);
		} else if (how == KFILL_FLOATS || how == KFILL_FLOATS_ODD) {
			f = how == KFILL_FLOATS ? (float)random_float(r)
						: random_odd(r, (unsigned)i);
			memcpy(&word, &f, 4);
		} else if (how == KFILL_FLOATS_PLUS) {
			f = 0.25f + (float)(random_next(r) % 1000) * 0.00775f;
			memcpy(&word, &f, 4);
		}
		memcpy((char *)bytes + i * width, &word, width);
	}
}

unsigned kcase_buffer_count(const struct kcase *kase)
{
	unsigned count = 0;

	while (count < KCASE_BUFFERS && kase->buffers[count].size > 0) {
		count++;
	}
	return count;
}

bool kcase_prepare(const struct kcase *kase, struct kcase_data *ret_data)
{
	struct random r = {0x9e3779b97f4a7c15ull};
	struct kcase_data data = {{NULL}, {NULL}};

	for (const char *c = kase->entry; *c; c++) {
		r.state = r.state * 31 + (unsigned char)*c;
	}
	for (unsigned i = 0; i < kcase_buffer_count(kase); i++) {
		size_t size = kase->buffers[i].size;

		data.bytes[i] = calloc(1, size);
		data.expected[i] = malloc(size);
		if (!data.bytes[i] || !data.expected[i]) {
			kcase_free(&data);
			return false;
		}
		fill(&r, kase->buffers[i].fill, data.bytes[i], size);
		memcpy(data.expected[i], data.bytes[i], size);
	}
	kase->reference(kase, &data);
	*ret_data = data;
	return true;
}

void kcase_free(struct kcase_data *data)
{
	for (unsigned i = 0; i < KCASE_BUFFERS; i++) {
		free(data->bytes[i]);
		free(data->expected[i]);
	}
	*data = (struct kcase_data){{NULL}, {NULL}};
}

size_t kcase_pack(const struct kcase *kase, const uint64_t *addresses, void *params, size_t room)
{
	size_t at = 0;

	for (unsigned i = 0; i < kcase_buffer_count(kase) && at + 8 <= room; i++, at += 8) {
		memcpy((char *)params + at, &addresses[i], 8);
	}
	for (unsigned i = 0; i < KCASE_ARGS && kase->args[i].size > 0; i++) {
		size_t size = kase->args[i].size;

		at = (at + size - 1) & ~(size - 1);
		if (at + size > room) {
			break;
		}
		memcpy((char *)params + at, &kase->args[i].bits, size);
		at += size;
	}
	return at;
}

static bool same_f32(uint32_t expected, uint32_t got, bool approx)
{
	float e, g;

	memcpy(&e, &expected, 4);
	memcpy(&g, &got, 4);
	if (expected == got || (isnan(e) && isnan(g))) {
		return true;
	}
	return approx && fabsf(e - g) <= fabsf(e) * 0x1p-20f;
}

/* f16 has 10 bits after the point, bf16 7. */
static double value_of_half(uint32_t h, bool is_bf16)
{
	int digits = is_bf16 ? 7 : 10, exponents = is_bf16 ? 255 : 31;
	int exponent = (int)(h & 0x7fff) >> digits, fraction = (int)h & ((1 << digits) - 1);
	double value = exponent == exponents
			       ? (fraction ? (double)NAN : (double)INFINITY)
			       : ldexp(exponent ? fraction + (1 << digits) : fraction,
					 (exponent ? exponent : 1) - exponents / 2 - digits);

	return h & 0x8000 ? -value : value;
}

static bool same_half(uint32_t expected, uint32_t got, enum kcase_equal equal)
{
	double e = value_of_half(expected, equal == KEQUAL_BF16);
	double g = value_of_half(got, equal == KEQUAL_BF16);

	if (expected == got || (isnan(e) && isnan(g))) {
		return true;
	}
	return equal == KEQUAL_F16_APPROX && fabs(e - g) <= fabs(e) * 0x1p-9 * 0.71 + 0x1p-24;
}

static bool same_f64(uint64_t expected, uint64_t got)
{
	double e, g;

	memcpy(&e, &expected, 8);
	memcpy(&g, &got, 8);
	return expected == got || (isnan(e) && isnan(g));
}

int64_t kcase_compare(
	const struct kcase *kase, const struct kcase_data *data, unsigned index, const void *got)
{
	enum kcase_equal equal = kase->buffers[index].equal;
	size_t width = equal == KEQUAL_BYTES ? 1
		       : equal == KEQUAL_F64 ? 8
		       : equal >= KEQUAL_F16 ? 2
					     : 4;
	const char *expected = data->expected[index];

	for (size_t at = 0; at < kase->buffers[index].size; at += width) {
		uint64_t e = 0, g = 0;
		bool same;

		memcpy(&e, expected + at, width);
		memcpy(&g, (const char *)got + at, width);
		if (width == 4) {
			same = same_f32((uint32_t)e, (uint32_t)g, equal == KEQUAL_F32_APPROX);
		} else if (width == 2) {
			same = same_half((uint32_t)e, (uint32_t)g, equal);
		} else {
			same = width == 8 ? same_f64(e, g) : e == g;
		}
		if (!same) {
			return (int64_t)at;
		}
	}
	return -1;
}
