/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that the stand-in exports: those of calls.txt. Each is an indirect function: the
 * loader (for a program that is linked with the driver's library) or dlsym(3) calls it and gets the
 * result of standin_symbol(). After the real library has been loaded, that is the real function, its
 * trampoline if it can be intercepted, or NULL if this driver has no function of that name.
 *
 * There is a trampoline per name, 32 bytes apart; it jumps to the address in standin_targets[].
 * Programs that are linked with the library are bound before any of its code may run. They get
 * trampolines for all functions; the address is then looked up at the first call.
 */
	.text
	.hidden standin_symbol
	.hidden standin_late
	.hidden standin_targets
	.hidden standin_trampolines
	.globl standin_trampolines

#if defined(__x86_64__)

	.macro export name, index
	.globl \name
	.type \name, %gnu_indirect_function
\name:
	.cfi_startproc
	endbr64
	movl $\index, %edi
	jmp standin_symbol
	.cfi_endproc
	.size \name, . - \name
	.endm

	.macro trampoline index
	.p2align 5
	.cfi_startproc
	endbr64
	movq standin_targets + 8 * \index(%rip), %r11
	testq %r11, %r11
	jz 1f
	jmp *%r11
1:	movl $\index, %r11d
	jmp late
	.cfi_endproc
	.endm

/* Some functions take a float. */
	.p2align 5
late:
	.cfi_startproc
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %r8
	pushq %r9
	subq $136, %rsp
	.cfi_adjust_cfa_offset 184
	movups %xmm0, (%rsp)
	movups %xmm1, 16(%rsp)
	movups %xmm2, 32(%rsp)
	movups %xmm3, 48(%rsp)
	movups %xmm4, 64(%rsp)
	movups %xmm5, 80(%rsp)
	movups %xmm6, 96(%rsp)
	movups %xmm7, 112(%rsp)
	movl %r11d, %edi
	call standin_late
	movq %rax, %r11
	movups (%rsp), %xmm0
	movups 16(%rsp), %xmm1
	movups 32(%rsp), %xmm2
	movups 48(%rsp), %xmm3
	movups 64(%rsp), %xmm4
	movups 80(%rsp), %xmm5
	movups 96(%rsp), %xmm6
	movups 112(%rsp), %xmm7
	addq $136, %rsp
	popq %r9
	popq %r8
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	.cfi_adjust_cfa_offset -184
	jmp *%r11
	.cfi_endproc

#elif defined(__aarch64__)

	.macro export name, index
	.globl \name
	.type \name, %gnu_indirect_function
\name:
	.cfi_startproc
	hint #34 /* bti c */
	mov w0, #\index
	b standin_symbol
	.cfi_endproc
	.size \name, . - \name
	.endm

	.macro trampoline index
	.p2align 5
	.cfi_startproc
	hint #34 /* bti c */
	adrp x16, standin_targets + 8 * \index
	ldr x16, [x16, :lo12:standin_targets + 8 * \index]
	cbz x16, 1f
	br x16
1:	mov w16, #\index
	b late
	.cfi_endproc
	.endm

	.p2align 5
late:
	.cfi_startproc
	stp x29, x30, [sp, #-224]!
	.cfi_def_cfa_offset 224
	.cfi_offset 29, -224
	.cfi_offset 30, -216
	mov x29, sp
	stp x0, x1, [sp, #16]
	stp x2, x3, [sp, #32]
	stp x4, x5, [sp, #48]
	stp x6, x7, [sp, #64]
	str x8, [sp, #80]
	stp q0, q1, [sp, #96]
	stp q2, q3, [sp, #128]
	stp q4, q5, [sp, #160]
	stp q6, q7, [sp, #192]
	mov w0, w16
	bl standin_late
	mov x16, x0
	ldp x0, x1, [sp, #16]
	ldp x2, x3, [sp, #32]
	ldp x4, x5, [sp, #48]
	ldp x6, x7, [sp, #64]
	ldr x8, [sp, #80]
	ldp q0, q1, [sp, #96]
	ldp q2, q3, [sp, #128]
	ldp q4, q5, [sp, #160]
	ldp q6, q7, [sp, #192]
	ldp x29, x30, [sp], #224
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	br x16
	.cfi_endproc

#endif

#define DRIVER_SYMBOL(name, index, use) export name, index
#include "cuda/symbols.inc"
#undef DRIVER_SYMBOL

	.p2align 5
standin_trampolines:
#define DRIVER_SYMBOL(name, index, use) trampoline index
#include "cuda/symbols.inc"

	.section .note.GNU-stack, "", %progbits
