/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of the modelled hardware, each with its source. "Linux" is the public source of the
 * amdgpu driver. "Reported" is a figure that others measured on an MI308X. "Assumed" is nobody's
 * measurement. So results on this GPU can be compared with each other, not with those of hardware.
 */
#ifndef RBT_SOFTGPU_KFD_TIMING_H
#define RBT_SOFTGPU_KFD_TIMING_H

/* clang-format off */
/* name                     value       source */
#define KFD_HW_SLOTS        24u      /* Linux: 4 pipes of 8 queues, 8 of which graphics keeps */
#define KFD_HW_PROCESSES    8u       /* Linux: address spaces (VMIDs) 8 to 15; some have more */
#define KFD_HW_QUANTUM_US   10000u   /* Linux, for MES: 10 ms per process; assumed before */
#define KFD_HW_MEDIUM       7u       /* Linux: priorities 0 to 6 are low, 7 to 10 medium, */
#define KFD_HW_HIGH         11u      /*        11 to 15 high */
#define KFD_HW_LOW_WEIGHT    1u      /* assumed: each level has twice the weight of the one below */
#define KFD_HW_MEDIUM_WEIGHT 2u
#define KFD_HW_HIGH_WEIGHT   4u
#define KFD_HW_COPY_ENGINES 2u       /* assumed; one queue keeps one engine busy */
#define KFD_HW_SUSPEND_US   400u     /* reported: a suspend takes 400 to 500 µs; that a GPU full */
#define KFD_HW_SAVE_US      100u     /* of waves makes the difference is assumed */
#define KFD_HW_RESUME_US    300u     /* reported: 300 to 400 µs; the same */
#define KFD_HW_RESTORE_US   100u
#define KFD_HW_SWITCH_US    10u      /* reported: 1 to 10 µs if the firmware switches by itself */
#define KFD_HW_BUSY_TICK_US 1000u    /* of this model: how often doorbells are looked at */
#define KFD_HW_IDLE_TICK_US 2000u    /* the same, while no queue has work */
/* clang-format on */

/* A queue's share is counted in this many parts of the GPU. */
#define KFD_WHOLE 1024u

#endif
