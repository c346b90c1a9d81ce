/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suite of kernels: what each is launched with, and what must come out. Nothing here knows
 * what runs them: the executor, the software GPU's front, or hardware.
 */
#ifndef RBT_TESTS_KERNELS_CASES_H
#define RBT_TESTS_KERNELS_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KCASE_BUFFERS 4
#define KCASE_ARGS    6

/* How the first contents of a buffer are made; always the same ones for the same case. */
enum kcase_fill {
	KFILL_ZERO,
	KFILL_RANDOM,      /* any bytes */
	KFILL_INTS,        /* 32-bit words: random, with small and extreme ones among them */
	KFILL_INTS64,      /* the same in 64 bits */
	KFILL_FLOATS,      /* f32 of mixed sizes and signs, none special */
	KFILL_FLOATS_ODD,  /* the same with NaN, infinities, zeros and subnormals among them */
	KFILL_FLOATS_PLUS, /* f32 in [0.25, 8) */
	KFILL_DOUBLES,     /* f64 of mixed sizes and signs, none special */
	KFILL_HALVES,      /* f16 of up to 15 and of both signs; KFILL_RANDOM has them all */
	KFILL_ONES,        /* all bits set */
};

/* What counts as equal to the reference. */
enum kcase_equal {
	KEQUAL_BYTES,
	KEQUAL_F32,        /* as bytes, but any NaN equals any NaN */
	KEQUAL_F64,        /* the same */
	KEQUAL_F32_APPROX, /* within 2^-20 of the value: what approximate instructions promise */
	KEQUAL_F16,        /* as bytes, but any NaN equals any NaN */
	KEQUAL_BF16,       /* the same */
	KEQUAL_F16_APPROX, /* within 2^-9.5 of the value */
};

struct kcase_buffer {
	size_t size;
	enum kcase_fill fill;
	enum kcase_equal equal;
};

/* In the order of the kernel's parameters: pointers to the buffers first, then these. */
struct kcase_arg {
	unsigned size; /* 4 or 8; 0 ends the list */
	uint64_t bits;
};

struct kcase_data {
	void *bytes[KCASE_BUFFERS];    /* what goes in */
	void *expected[KCASE_BUFFERS]; /* starts as a copy of that; the reference changes it */
};

struct kcase {
	const char *module; /* name of the .ptx file */
	const char *entry;
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared;
	struct kcase_buffer buffers[KCASE_BUFFERS];
	struct kcase_arg args[KCASE_ARGS];
	void (*reference)(const struct kcase *kase, struct kcase_data *data);
	bool small; /* few enough instructions to be preempted after each of them */
};

struct kcase_set {
	const struct kcase *cases;
	size_t count;
};

/* Case n of all sets, one after the other; NULL after the last. */
const struct kcase *kcase_at(size_t n);
/* What a test with arguments `DIRECTORY [ENTRY]` does: each case, or those of one entry. Says how
 * many there were. */
void kcase_each(
	int argc, char **argv, void (*test)(const char *directory, const struct kcase *kase));
extern const struct kcase_set kcases_classic, kcases_integer, kcases_bits, kcases_float,
	kcases_convert, kcases_half, kcases_memory, kcases_atomic, kcases_warp, kcases_diverge,
	kcases_sync, kcases_misc;

/* Makes buffers and expectation; false without memory. Freed with kcase_free. */
bool kcase_prepare(const struct kcase *kase, struct kcase_data *ret_data);
void kcase_free(struct kcase_data *data);
unsigned kcase_buffer_count(const struct kcase *kase);
/* Packs the parameters as a kernel's parameter buffer has them; returns the size. */
size_t kcase_pack(const struct kcase *kase, const uint64_t *addresses, void *params, size_t room);
/* The first byte of buffer `index` that is not as expected, or -1. */
int64_t kcase_compare(
	const struct kcase *kase, const struct kcase_data *data, unsigned index, const void *got);

static inline uint32_t kcase_f32(float f)
{
	union {
		float f;
		uint32_t u;
	} u = {.f = f};

	return u.u;
}

static inline uint32_t kcase_ones(uint64_t a)
{
	uint32_t count = 0;

	for (; a; a &= a - 1) {
		count++;
	}
	return count;
}

/* Position of the highest set bit, or all ones. */
static inline uint32_t kcase_highest(uint64_t a)
{
	uint32_t at = UINT32_MAX;

	for (; a; a >>= 1) {
		at++;
	}
	return at;
}

#define KARG32(value)                                                                              \
	{                                                                                          \
		4, (uint32_t)(value)                                                               \
	}
#define KARG64(value)                                                                              \
	{                                                                                          \
		8, (uint64_t)(value)                                                               \
	}
#define KSET(array)                                                                                \
	{                                                                                          \
		array, sizeof(array) / sizeof((array)[0])                                          \
	}
/* The usual case: a thread for each of n elements, n up to 256, and two buffers, in and out, with
 * so many bytes an element. */
#define KCASE_MAP(module, entry, n, in_size, fill, out_size, equal, reference)                     \
	{                                                                                          \
		module, entry, {4, 1, 1}, {64, 1, 1}, 0,                                           \
			{{(in_size) * (n), fill, KEQUAL_BYTES},                                    \
				{(out_size) * (n), KFILL_ZERO, equal}},                            \
			{KARG32(n)}, reference, true                                               \
	}

#endif
