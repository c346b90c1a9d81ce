/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic operations: each on a word of its own, so that the order of threads does not matter. */
#include "cuda.h"

#define ATOM(space, text, c, word, value)                                                          \
	do {                                                                                       \
		asm volatile("{.reg .b" #c " old;\n\tatom." space text " old, [%0], %1;}" ::"l"(word), \
			ATOM_##c(value)                                                            \
			: "memory");                                                               \
	} while (0)
#define ATOM_32(v) "r"(v)
#define ATOM_64(v) "l"(v)

KERNEL atomic_global(const u32 *in, u32 *words, u64 *wide, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u32 a = in[i];
	u64 w = ((u64)a << 20) + i;

	ATOM("global.", "add.u32", 32, words + 0, a);
	ATOM("global.", "min.s32", 32, words + 1, a);
	ATOM("global.", "max.s32", 32, words + 2, a);
	ATOM("global.", "min.u32", 32, words + 3, a);
	ATOM("global.", "max.u32", 32, words + 4, a);
	ATOM("global.", "and.b32", 32, words + 5, a | 0xff00ff00u);
	ATOM("global.", "or.b32", 32, words + 6, a & 0x00ff00ffu);
	ATOM("global.", "xor.b32", 32, words + 7, a);
	ATOM("global.", "inc.u32", 32, words + 8, 36u);
	ATOM("global.", "dec.u32", 32, words + 9, 36u);
	asm volatile("red.global.add.u32 [%0], %1;" ::"l"(words + 10), "r"(a) : "memory");
	ATOM("global.", "add.u64", 64, wide + 0, w);
	ATOM("global.", "min.s64", 64, wide + 1, w);
	ATOM("global.", "max.u64", 64, wide + 2, w);
	ATOM("global.", "and.b64", 64, wide + 3, ~w);
	ATOM("global.", "or.b64", 64, wide + 4, w);
	ATOM("global.", "xor.b64", 64, wide + 5, w);
}

/* Each thread takes a ticket; the tickets taken are marked, whoever got which. One block. */
KERNEL atomic_ticket(u32 *counter, u32 *taken, u32 *exchanged, u32 n)
{
	u32 i = global_x(), old, swapped;

	if (i >= n) {
		return;
	}
	asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(old) : "l"(counter) : "memory");
	taken[old] = 1;
	/* A circle of exchanges: what is put in comes out once, the last one at the end. */
	asm volatile("atom.global.exch.b32 %0, [%1], %2;"
		     : "=r"(swapped)
		     : "l"(counter + 1), "r"(i + 1)
		     : "memory");
	exchanged[swapped] += 1;
	__syncthreads();
	if (i == 0) {
		exchanged[counter[1]] += 1;
		counter[1] = 0;
	}
}

/* Floats that add exactly in any order; cas in a loop; 64-bit cas; shared memory. */
KERNEL atomic_float(const u32 *in, float *sums, double *wide, u32 *cas, u32 n)
{
	__shared__ u32 shared_sum;
	__shared__ float shared_float;
	u32 i = global_x();

	if (threadIdx.x == 0) {
		shared_sum = 0;
		shared_float = 0;
	}
	__syncthreads();
	if (i < n) {
		float a = (float)(in[i] % 256) * 0.5f;
		u32 seen = *(volatile u32 *)cas, expected;

		asm volatile("red.global.add.f32 [%0], %1;" ::"l"(sums), "f"(a) : "memory");
		asm volatile("red.global.add.f64 [%0], %1;" ::"l"(wide), "d"((double)a) : "memory");
		do {
			expected = seen;
			asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;"
				     : "=r"(seen)
				     : "l"(cas), "r"(expected), "r"(expected * 3 + 1)
				     : "memory");
		} while (seen != expected);
		__nvvm_atom_add_gen_i((int *)&shared_sum, (int)in[i]);
		__nvvm_atom_add_gen_f(&shared_float, a);
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		__nvvm_atom_add_gen_i((int *)&cas[1], (int)shared_sum);
		asm volatile("red.global.add.f32 [%0], %1;" ::"l"(sums + 1), "f"(shared_float) : "memory");
	}
}
