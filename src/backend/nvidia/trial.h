/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to do about drivers whose layouts nobody has compared with rm_abi.h: they are tried, on
 * objects of our own, before any program is written to.
 */
#ifndef RBT_BACKEND_NVIDIA_TRIAL_H
#define RBT_BACKEND_NVIDIA_TRIAL_H

#include "backend/backend.h"

/* The driver as it is, known or not: the backend's try_out(). */
int rbt_nv_try_out(struct rbt_trial *ret);

/* The backend's hooks of these names. The verdict on an unknown driver is kept for as long as the
 * process lives. */
int rbt_nv_check_driver(void);
int rbt_nv_may_write(uint32_t cap, bool force);
void rbt_nv_why_not(uint32_t cap, char *buf, size_t size);

#endif
