/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by C and assembler. */
#ifndef RBT_CUDA_ENTRIES_H
#define RBT_CUDA_ENTRIES_H

/* One per name of calls.txt, and some for functions that only cuGetProcAddress gives out. */
#define STANDIN_ENTRIES    1024
#define STANDIN_ENTRY_SIZE 16
/* The bit RBT_BOARD_WAKES of board/layout.h. */
#define RUBATO_CALLS_WAKES_BIT 1

#endif
