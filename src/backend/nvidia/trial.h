/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers whose layouts were not compared with rm_abi.h are tried, on objects of our own, before
 * any program is changed.
 */
#ifndef RBT_BACKEND_NVIDIA_TRIAL_H
#define RBT_BACKEND_NVIDIA_TRIAL_H

#include "backend/backend.h"

/* Tries the driver, known or not: the backend's try_out(). */
int rbt_nv_try_out(struct rbt_trial *ret);

/* The backend's hooks of these names. The verdict on an unknown driver is kept for the life of the
 * process. */
int rbt_nv_check_driver(void);
int rbt_nv_may_write(uint32_t cap, bool force);
void rbt_nv_why_not(uint32_t cap, char *buf, size_t size);

#endif
