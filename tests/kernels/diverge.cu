/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that go different ways: nests, loops of different lengths, switches, early ends, barriers. */
#include "cuda.h"

KERNEL diverge_nest(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), r = 0;

	if (i >= n) {
		return;
	}
	u32 a = in[i];

	if (a & 1) {
		if (a & 2) {
			r = a & 4 ? a * 3 : a / 3;
		} else {
			for (u32 k = 0; k < (a >> 4) % 7; k++) {
				r += k * a;
				if (r % 11 == 0) {
					break;
				}
			}
		}
		r += 5;
	} else if (a & 8) {
		out[i] = 99;
		return;
	} else {
		r = ~a;
	}
	switch (a % 6) {
	case 0:
		r += 10;
		break;
	case 1:
		r *= 7;
		/* fall through */
	case 2:
		r ^= 0x55;
		break;
	case 4:
		r -= 3;
		break;
	default:
		r = r >> 1;
	}
	out[i] = r;
}

/* Loops in loops, with continue and with ends that differ from lane to lane. */
KERNEL diverge_collatz(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), steps = 0;

	if (i >= n) {
		return;
	}
	for (u32 round = 0; round < 1 + in[i] % 3; round++) {
		u32 value = in[i] % 50 + round + 1;

		while (value != 1) {
			steps++;
			if (value % 2 == 0) {
				value /= 2;
				continue;
			}
			value = value * 3 + 1;
		}
	}
	out[i] = steps;
}

/* The two halves of each warp reach the same barrier by different ways, several times. */
KERNEL diverge_barrier(const u32 *in, u32 *out, u32 n)
{
	__shared__ u32 seen[256];
	u32 t = threadIdx.x, i = global_x(), sum = 0;

	for (u32 round = 0; round < 3; round++) {
		if ((t ^ round) & 1) {
			seen[t] = in[i] + round;
			asm volatile("barrier.sync 0;" ::: "memory");
			sum += seen[(t + 33) % blockDim.x];
			asm volatile("barrier.sync 0;" ::: "memory");
		} else {
			seen[t] = in[i] * 2 + round;
			asm volatile("barrier.sync 0;" ::: "memory");
			sum ^= seen[(t + 65) % blockDim.x];
			asm volatile("barrier.sync 0;" ::: "memory");
		}
	}
	out[i] = sum;
}

/* Two barriers of 64 threads each in a block of 128; and barriers that count and combine. */
KERNEL named_barrier(const u32 *in, u32 *out, u32 n)
{
	__shared__ u32 part[128];
	u32 t = threadIdx.x, i = global_x(), id = 1 + t / 64, odd, all, any;

	part[t] = in[i];
	asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory");
	out[0 * n + i] = part[t ^ 63];
	asm volatile("{.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\tbar.red.popc.u32 %0, 0, p;}"
		     : "=r"(odd)
		     : "r"(in[i] & 1)
		     : "memory");
	asm volatile("{.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\tbar.red.and.pred q, 0, p;\n\t"
		     "selp.u32 %0, 1, 0, q;}"
		     : "=r"(all)
		     : "r"(in[i] | 1)
		     : "memory");
	asm volatile("{.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\tbar.red.or.pred q, 0, p;\n\t"
		     "selp.u32 %0, 1, 0, q;}"
		     : "=r"(any)
		     : "r"(i == 3)
		     : "memory");
	out[1 * n + i] = odd;
	out[2 * n + i] = all;
	out[3 * n + i] = any;
}

/* Some threads end before a barrier that the others meet: it waits for those that live. */
KERNEL early_exit(const u32 *in, u32 *out, u32 n)
{
	__shared__ u32 count;
	u32 t = threadIdx.x;

	if (t == 0) {
		count = 0;
	}
	__syncthreads();
	if (t % 3 == 1 || t >= 96) {
		return;
	}
	__nvvm_atom_add_gen_i((int *)&count, 1);
	__syncthreads();
	out[global_x()] = count + in[global_x()];
}

/* A lock that lanes of one warp take from each other: needs every lane to make progress. */
KERNEL spin_lock(u32 *lock, u32 *count, u32 rounds)
{
	for (u32 k = 0; k < rounds; k++) {
		while (__nvvm_atom_cas_gen_i((int *)lock, 0, 1) != 0) {
		}
		__nvvm_membar_gl();
		*(volatile u32 *)count = *(volatile u32 *)count * 5 + 1;
		__nvvm_membar_gl();
		*(volatile u32 *)lock = 0;
	}
}

/* One lane waits for what another lane of its warp writes later. */
KERNEL spin_wait(volatile u32 *flags, u32 *out)
{
	u32 t = threadIdx.x;

	if (t > 0) {
		while (flags[t - 1] == 0) {
		}
	}
	flags[t] = 1;
	out[t] = flags[t] + t;
}
