/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by C and assembler. */
#ifndef RBT_SHIM_THUNKS_H
#define RBT_SHIM_THUNKS_H

/* Some 80 functions submit, counting all versions; twice that, in case the driver gives other
 * addresses through cuGetProcAddress than through its symbol table. */
#define SHIM_N_SUBMIT 192

/* Distance of two thunks in bytes. */
#if defined(__x86_64__)
#define SHIM_THUNK_SIZE 64
#else
#define SHIM_THUNK_SIZE 16
#endif

/* Offsets in board/layout.h, checked in wrap.c. */
#define SHIM_BOARD_MASK (-4096)
#define SHIM_BOARD_TICK 64
#define SHIM_SLOT_TICK  52

#endif
