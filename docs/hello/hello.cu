/* SPDX-License-Identifier: Apache-2.0 */
#define GLOBAL extern "C" __attribute__((global))

GLOBAL void add(float *sum, const float *a, const float *b, int n)
{
	int i = __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();

	if (i < n) {
		sum[i] = a[i] + b[i];
	}
}
