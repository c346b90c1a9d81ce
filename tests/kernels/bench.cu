/* SPDX-License-Identifier: Apache-2.0 */
/* What bench/softgpu measures beside matmul_tiled. */
#include "cuda.h"

/* Eight independent chains of fused multiply-adds. */
KERNEL fma_loop(float *out, u32 turns, float a, float b)
{
	float r[8];

	for (int k = 0; k < 8; k++) {
		r[k] = (float)(global_x() + k);
	}
	for (u32 turn = 0; turn < turns; turn++) {
		for (int k = 0; k < 8; k++) {
			r[k] = r[k] * a + b;
		}
	}
	out[global_x()] = r[0] + r[1] + r[2] + r[3] + r[4] + r[5] + r[6] + r[7];
}
