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
 *
 * There is also a number of entries, 16 bytes apart, for programs whose calls are all counted
 * (intercept.h). An entry counts, wakes the daemon if it wants to be woken, and jumps to the address
 * in standin_behind[], with all registers and the stack unchanged.
 */
#include "cuda/entries.h"

	.text
	.hidden standin_symbol
	.hidden standin_late
	.hidden standin_targets
	.hidden standin_wake
	.hidden standin_calls
	.hidden standin_behind
	.hidden standin_entries
	.globl standin_entries
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

/* Calls a function with the index in %r11d, and jumps to the address that it returns. Some functions
 * of the driver take a float. */
	.macro through function
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
	call \function
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
	.endm

	.p2align 5
late:
	through standin_late

	.macro entry index
	.p2align 4
	.cfi_startproc
	endbr64
	movl $\index, %r11d
	jmp enter
	.cfi_endproc
	.endm

/* The addition is locked, and so a full barrier: see board/park.h. */
	.p2align 5
enter:
	.cfi_startproc
	movq standin_calls(%rip), %r10
	lock incq (%r10)
	movq standin_calls + 8(%rip), %r10
	testl $(1 << RUBATO_CALLS_WAKES_BIT), (%r10)
	jnz woken
	leaq standin_behind(%rip), %r10
	jmp *(%r10, %r11, 8)
	.cfi_endproc

	.p2align 5
woken:
	through standin_wake

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

	.macro through function
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
	bl \function
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
	.endm

	.p2align 5
late:
	through standin_late

	.macro entry index
	.p2align 4
	.cfi_startproc
	hint #34 /* bti c */
	mov w16, #\index
	b enter
	.cfi_endproc
	.endm

/* The barrier comes between the addition and the load: see board/park.h. */
	.p2align 5
enter:
	.cfi_startproc
	adrp x17, standin_calls
	add x17, x17, :lo12:standin_calls
	ldr x9, [x17]
1:	ldaxr x10, [x9]
	add x10, x10, #1
	stlxr w11, x10, [x9]
	cbnz w11, 1b
	dmb ish
	ldr x9, [x17, #8]
	ldr w9, [x9]
	tbnz w9, #RUBATO_CALLS_WAKES_BIT, woken
	adrp x17, standin_behind
	add x17, x17, :lo12:standin_behind
	ldr x16, [x17, x16, lsl #3]
	br x16
	.cfi_endproc

	.p2align 5
woken:
	through standin_wake

#endif

#define DRIVER_SYMBOL(name, index, use) export name, index
#include "cuda/symbols.inc"
#undef DRIVER_SYMBOL

	.p2align 5
standin_trampolines:
#define DRIVER_SYMBOL(name, index, use) trampoline index
#include "cuda/symbols.inc"

#undef DRIVER_SYMBOL

	.p2align 4
standin_entries:
	.set i, 0
	.rept STANDIN_ENTRIES
	entry i
	.set i, i + 1
	.endr

	.section .note.GNU-stack, "", %progbits
