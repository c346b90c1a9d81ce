/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_thunks: SHIM_N_SUBMIT functions, SHIM_THUNK_SIZE bytes apart. Each counts a submission, as
 * shim_count() in submit.h does, and jumps to the real function at its index in shim_submits[], with
 * all registers and the stack unchanged: it need not know the arguments. This cannot be written in
 * C: a compiler that does not know the number of arguments moves words of the caller's stack, or
 * stores them back.
 *
 * Registers: only those that no call preserves and that hold no argument.
 */
#include "shim/thunks.h"

	.text
	.globl shim_thunks
	.hidden shim_thunks
	.type shim_thunks, %function
	.hidden shim_submits
	.hidden shim_own
	.hidden shim_count_slow

#if defined(__x86_64__)

	.p2align 6
shim_thunks:
	.set i, 0
	.rept SHIM_N_SUBMIT
	.p2align 6 /* fills one cache line */
	.cfi_startproc
	endbr64
	leaq shim_submits + 16 * i(%rip), %r11
	movq shim_own@gottpoff(%rip), %rax
	movq %fs:(%rax), %r10
	testq %r10, %r10
	jz rest
	movl 8(%r11), %eax
	incq (%r10, %rax, 8)
	movq %r10, %rax
	andq $SHIM_BOARD_MASK, %rax
	movl SHIM_BOARD_TICK(%rax), %eax
	cmpl %eax, SHIM_SLOT_TICK(%r10)
	jne rest
	jmp *(%r11)
	.cfi_endproc
	.set i, i + 1
	.endr
	.size shim_thunks, . - shim_thunks

	.p2align 6
	.type rest, %function
rest:
	.cfi_startproc
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	pushq %rcx
	.cfi_adjust_cfa_offset 8
	pushq %r8
	.cfi_adjust_cfa_offset 8
	pushq %r9
	.cfi_adjust_cfa_offset 8
	pushq %r11
	.cfi_adjust_cfa_offset 8
	movl 8(%r11), %edi
	call shim_count_slow
	popq %r11
	.cfi_adjust_cfa_offset -8
	popq %r9
	.cfi_adjust_cfa_offset -8
	popq %r8
	.cfi_adjust_cfa_offset -8
	popq %rcx
	.cfi_adjust_cfa_offset -8
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp *(%r11)
	.cfi_endproc
	.size rest, . - rest

#elif defined(__aarch64__)

	.p2align 6
shim_thunks:
	.set i, 0
	.rept SHIM_N_SUBMIT
	.p2align 4
	.cfi_startproc
	hint #34 /* bti c */
	adrp x16, shim_submits + 16 * i
	add x16, x16, :lo12:shim_submits + 16 * i
	b count
	.cfi_endproc
	.set i, i + 1
	.endr
	.size shim_thunks, . - shim_thunks

	.p2align 6
	.type count, %function
count:
	.cfi_startproc
	adrp x17, :gottprel:shim_own
	ldr x17, [x17, :gottprel_lo12:shim_own]
	mrs x9, tpidr_el0
	ldr x9, [x9, x17]
	cbz x9, rest
	ldr w10, [x16, #8]
	ldr x11, [x9, x10, lsl #3]
	add x11, x11, #1
	str x11, [x9, x10, lsl #3]
	and x10, x9, #SHIM_BOARD_MASK
	add x10, x10, #SHIM_BOARD_TICK
	ldar w10, [x10]
	ldr w11, [x9, #SHIM_SLOT_TICK]
	cmp w10, w11
	b.ne rest
	ldr x16, [x16]
	br x16

rest:
	stp x29, x30, [sp, #-96]!
	.cfi_def_cfa_offset 96
	.cfi_offset 29, -96
	.cfi_offset 30, -88
	mov x29, sp
	stp x0, x1, [sp, #16]
	stp x2, x3, [sp, #32]
	stp x4, x5, [sp, #48]
	stp x6, x7, [sp, #64]
	stp x8, x16, [sp, #80]
	ldr w0, [x16, #8]
	bl shim_count_slow
	ldp x0, x1, [sp, #16]
	ldp x2, x3, [sp, #32]
	ldp x4, x5, [sp, #48]
	ldp x6, x7, [sp, #64]
	ldp x8, x16, [sp, #80]
	ldp x29, x30, [sp], #96
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	ldr x16, [x16]
	br x16
	.cfi_endproc
	.size count, . - count

#endif

	.section .note.GNU-stack, "", %progbits
