/* SPDX-License-Identifier: Apache-2.0 */
/* Small kernels, each about one thing that a device must bear. */
#include "test_device_world.h"

/* Thread i of the grid, as %r1; its word of the first parameter, as %rd2. */
#define PROLOGUE                                                                                   \
	".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;\n"                                 \
	"mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"                      \
	"mad.lo.s32 %r1, %r2, %r3, %r4;\n"                                                         \
	"ld.param.u64 %rd1, [a0]; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd2, %rd1, %rd3;\n"

const char device_ptx[] =
	".version 6.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 4 .u32 rubato_preempt;\n"
	".visible .global .align 4 .u32 counter = 7;\n"
	".visible .global .align 8 .u64 pointer = counter;\n"
	".visible .const .align 4 .u32 table[4] = {10, 11, 12, 13};\n"

	/* Nothing. */
	".visible .entry empty() { ret; }\n"

	/* a0[i] += 1, a1 times: run again, it counts more. */
	".visible .entry bump(.param .u64 a0, .param .u32 a1)\n{\n" PROLOGUE
	"ld.param.u32 %r5, [a1]; mov.u32 %r6, 0;\n"
	"again: ld.global.u32 %r7, [%rd2]; add.u32 %r7, %r7, 1;\n"
	"st.global.u32 [%rd2], %r7; add.u32 %r6, %r6, 1;\n"
	"setp.lt.u32 %p1, %r6, %r5; @%p1 bra again;\nret;\n}\n"

	/* a0[i] = f(i), computed in a1 turns; run again, it is the same. */
	".visible .entry mix(.param .u64 a0, .param .u32 a1)\n{\n" PROLOGUE
	"ld.param.u32 %r5, [a1]; mov.u32 %r6, 0; mov.u32 %r7, %r1;\n"
	"again: mad.lo.u32 %r7, %r7, 1664525, 1013904223;\n"
	"shr.u32 %r8, %r7, 13; xor.b32 %r7, %r7, %r8; add.u32 %r6, %r6, 1;\n"
	"setp.lt.u32 %p1, %r6, %r5; @%p1 bra again;\n"
	"st.global.u32 [%rd2], %r7; ret;\n}\n"

	/* The same, but it leaves when it is asked to. */
	".visible .entry polite(.param .u64 a0, .param .u32 a1)\n{\n" PROLOGUE
	"ld.param.u32 %r5, [a1]; mov.u32 %r6, 0; mov.u32 %r7, %r1;\n"
	"again: ld.volatile.global.u32 %r9, [rubato_preempt];\n"
	"setp.ne.u32 %p2, %r9, 0; @%p2 bra out;\n"
	"mad.lo.u32 %r7, %r7, 1664525, 1013904223;\n"
	"shr.u32 %r8, %r7, 13; xor.b32 %r7, %r7, %r8; add.u32 %r6, %r6, 1;\n"
	"setp.lt.u32 %p1, %r6, %r5; @%p1 bra again;\n"
	"st.global.u32 [%rd2], %r7;\nout: ret;\n}\n"

	/* The same, but it looks only once, at its beginning. */
	".visible .entry hasty(.param .u64 a0, .param .u32 a1)\n{\n" PROLOGUE
	"ld.param.u32 %r5, [a1]; mov.u32 %r7, %r1;\n"
	"ld.volatile.global.u32 %r9, [rubato_preempt];\n"
	"setp.ne.u32 %p2, %r9, 0; @%p2 bra out;\n"
	"again: mad.lo.u32 %r7, %r7, 1664525, 1013904223;\n"
	"shr.u32 %r8, %r7, 13; xor.b32 %r7, %r7, %r8; sub.u32 %r5, %r5, 1;\n"
	"setp.ne.u32 %p1, %r5, 0; @%p1 bra again;\n"
	"st.global.u32 [%rd2], %r7;\nout: ret;\n}\n"

	/* Never ends. */
	".visible .entry forever(.param .u64 a0)\n{\n" PROLOGUE
	"again: st.volatile.global.u32 [%rd2], %r1; bra again;\n}\n"

	/* Stores at a0, whatever that is. */
	".visible .entry stray(.param .u64 a0)\n{\n"
	".reg .b64 %rd<4>; .reg .b32 %r<4>;\n"
	"ld.param.u64 %rd1, [a0]; mov.u32 %r1, 1; st.global.u32 [%rd1], %r1; ret;\n}\n"

	/* All blocks of the grid meet at a0[0]; a1: how many they are. */
	".visible .entry meet(.param .u64 a0, .param .u32 a1)\n{\n"
	".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n"
	"ld.param.u64 %rd1, [a0]; ld.param.u32 %r1, [a1]; mov.u32 %r2, %tid.x;\n"
	"setp.ne.u32 %p1, %r2, 0; @%p1 bra out;\n"
	"atom.global.add.u32 %r3, [%rd1], 1;\n"
	"again: ld.volatile.global.u32 %r4, [%rd1]; setp.lt.u32 %p2, %r4, %r1;\n"
	"@%p2 bra again;\nout: bar.sync 0; ret;\n}\n"

	/* Waits at a barrier for threads that do not exist. */
	".visible .entry hang()\n{\nbar.sync 1, 1024; ret;\n}\n"
	".visible .entry trapped()\n{\ntrap; ret;\n}\n"

	/* a0[i] = table[i % 4] + counter, through the pointer; then counter is i. */
	".visible .entry variables(.param .u64 a0)\n{\n" PROLOGUE
	"and.b32 %r5, %r1, 3; mul.wide.u32 %rd4, %r5, 4; mov.u64 %rd5, table;\n"
	"add.s64 %rd6, %rd5, %rd4; ld.const.u32 %r6, [%rd6];\n"
	"ld.global.u64 %rd7, [pointer]; ld.u32 %r7, [%rd7]; add.u32 %r8, %r6, %r7;\n"
	"st.global.u32 [%rd2], %r8; ret;\n}\n"
	/* A constant is not to be written. */
	".visible .entry forge()\n{\n.reg .b64 %rd<4>; .reg .b32 %r<4>;\n"
	"mov.u64 %rd1, table; mov.u32 %r1, 5; st.u32 [%rd1], %r1; ret;\n}\n";

uint32_t device_ptx_mixed(uint32_t i, uint32_t turns)
{
	uint32_t x = i;

	for (uint32_t k = 0; k < turns; k++) {
		x = x * 1664525 + 1013904223;
		x ^= x >> 13;
	}
	return x;
}
