/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for each other: barriers that count, in loops and branches; meetings of some lanes; locks. */
#include "cuda.h"

#define SYNC(id, count)   asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(count) : "memory")
#define ARRIVE(id, count) asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(count) : "memory")

/* Half of the warps write, the other half read: each tells the other when, and does not wait to be heard. */
KERNEL sync_pipe(const u32 *in, u32 *out, u32 n)
{
	__shared__ u32 slot[2][64];
	u32 t = threadIdx.x % 64, rounds = 5, sum = 0;
	bool writes = threadIdx.x < 64;

	for (u32 k = 0; k < rounds; k++) {
		u32 which = k & 1;

		if (writes) {
			/* 1 + which: full; 3 + which: empty again. */
			if (k >= 2) {
				SYNC(3 + which, 128);
			}
			slot[which][t] = in[t] * (k + 1) + k;
			ARRIVE(1 + which, 128);
		} else {
			SYNC(1 + which, 128);
			sum = sum * 3 + slot[which][t ^ 33];
			if (k + 2 < rounds) {
				ARRIVE(3 + which, 128);
			}
		}
	}
	out[threadIdx.x] = writes ? 1 : sum;
}

/* Every round takes other ways through nested branches, each with the barrier; some leave the loop for good. */
KERNEL sync_loop(const u32 *in, u32 *out, u32 n)
{
	__shared__ u32 board[2][128];
	u32 t = threadIdx.x, size = blockDim.x, sum = in[global_x()] % 1000;

	for (u32 k = 0; k < 6; k++) {
		board[k & 1][t] = sum;
		if ((t + k) % 3 == 0) {
			if (t & 4) {
				asm volatile("barrier.sync 0;" ::: "memory");
				sum += board[k & 1][(t + 1) % size];
			} else {
				for (u32 j = 0; j < t % 5; j++) {
					sum = sum * 5 + j;
				}
				asm volatile("barrier.sync 0;" ::: "memory");
				sum ^= board[k & 1][(t + 40) % size];
			}
		} else {
			asm volatile("barrier.sync 0;" ::: "memory");
			sum += board[k & 1][(t + 64) % size] * 3;
		}
		/* Rows are used by turns: who is late finds the old one still there. */
	}
	out[global_x()] = sum;
}

/* Threads end before barriers of all and of a count; those that are left are enough. */
KERNEL sync_exit(const u32 *in, u32 *out, u32 n)
{
	__shared__ u32 count, odd;
	u32 t = threadIdx.x, i = global_x(), votes;

	if (t == 0) {
		count = odd = 0;
	}
	asm volatile("barrier.sync 0;" ::: "memory");
	if (t % 5 == 2) {
		return;
	}
	__nvvm_atom_add_gen_i((int *)&count, 1);
	asm volatile("barrier.sync 0;" ::: "memory");
	u32 first = count;

	/* A whole warp, then all that are odd: the rest meet again. */
	if (t / 32 == 1) {
		out[i] = first;
		return;
	}
	if (t % 2 == 1) {
		__nvvm_atom_add_gen_i((int *)&odd, 1);
	}
	asm volatile("{.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\tbarrier.red.popc.u32 %0, 0, p;}"
		     : "=r"(votes)
		     : "r"(in[i] & 1)
		     : "memory");
	out[i] = first * 10000 + odd * 100 + votes;
}

/* Lanes of one warp meet in subsets that the data choose, in branches of branches. */
KERNEL sync_subsets(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), a = in[i], lane = i % 32, r = 0;
	u32 some = (u32)__nvvm_vote_ballot_sync(WARP_ALL, a & 1);

	if (a & 1) {
		u32 first = (u32)__builtin_ctz(some);

		r = (u32)__nvvm_shfl_sync_idx_i32(some, (int)a, (int)first, 31);
		u32 fewer = (u32)__nvvm_vote_ballot_sync(some, a & 2);

		if (a & 2) {
			/* Each leaves the loop in its own round: the mask shrinks. */
			u32 left = fewer, rounds = lane % 4;

			for (u32 k = 0;; k++) {
				r = r * 3 + (u32)__builtin_popcount(left);
				left = (u32)__nvvm_vote_ballot_sync(left, k < rounds);
				if (k >= rounds) {
					break;
				}
			}
		} else {
			u32 same, others = some & ~fewer;

			asm volatile("match.any.sync.b32 %0, %1, %2;" : "=r"(same) : "r"(lane % 3), "r"(others));
			r ^= same;
		}
		__nvvm_bar_warp_sync(some);
	} else {
		u32 others = ~some;

		for (u32 k = 16; k > 0; k /= 2) {
			u32 given = (u32)__nvvm_shfl_sync_bfly_i32(others, (int)(a + r), (int)k, 31);

			r += others >> (lane ^ k) & 1 ? given : 1;
		}
	}
	out[0 * n + i] = r;
	/* All again, wherever they were. */
	out[1 * n + i] = (u32)__nvvm_vote_ballot_sync(WARP_ALL, r & 4);
}

/* Tickets: a lane may go on only after the one before it, whichever lane of its warp that is. */
KERNEL lock_tickets(u32 *next, volatile u32 *serving, u32 *order)
{
	u32 mine, t = global_x();

	asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(mine) : "l"(next) : "memory");
	while (*serving != mine) {
	}
	__nvvm_membar_gl();
	order[0] = order[0] * 3 + mine;
	order[1 + t] = 1;
	__nvvm_membar_gl();
	*serving = mine + 1;
}

/* Two locks at a time, by their order; who does not get one sleeps a little. */
KERNEL lock_pairs(const u32 *in, u32 *locks, u32 *values, u32 count, u32 rounds)
{
	for (u32 k = 0; k < rounds; k++) {
		u32 a = (in[global_x()] + k) % count, b = (a + 1 + k) % count;
		u32 low = a < b ? a : b, high = a < b ? b : a;

		if (low == high) {
			continue;
		}
		while (__nvvm_atom_cas_gen_i((int *)locks + low, 0, 1) != 0) {
			asm volatile("nanosleep.u32 50;");
		}
		while (__nvvm_atom_cas_gen_i((int *)locks + high, 0, 1) != 0) {
		}
		__nvvm_membar_gl();
		((volatile u32 *)values)[low] += 3;
		((volatile u32 *)values)[high] -= 2;
		__nvvm_membar_gl();
		((volatile u32 *)locks)[high] = 0;
		((volatile u32 *)locks)[low] = 0;
	}
}

/* A lock inside a critical part that some lanes skip, and barriers around it. */
KERNEL lock_barrier(u32 *lock, u32 *out, u32 rounds)
{
	__shared__ u32 sum;
	u32 t = threadIdx.x;

	if (t == 0) {
		sum = 0;
	}
	__syncthreads();
	for (u32 k = 0; k < rounds; k++) {
		if ((t + k) % 3 != 0) {
			bool done = false;

			while (!done) {
				if (__nvvm_atom_cas_gen_i((int *)lock + blockIdx.x, 0, 1) == 0) {
					__nvvm_membar_gl();
					*(volatile u32 *)&sum = *(volatile u32 *)&sum + t;
					__nvvm_membar_gl();
					*((volatile u32 *)lock + blockIdx.x) = 0;
					done = true;
				}
			}
		}
		__syncthreads();
		if (t == k) {
			out[blockIdx.x * rounds + k] = sum;
		}
		__syncthreads();
	}
}
