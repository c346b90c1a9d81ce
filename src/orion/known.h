/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of this process, and the profile that was loaded. */
#ifndef RBT_ORION_KNOWN_H
#define RBT_ORION_KNOWN_H

#include <stdbool.h>

#include "orion/kernel.h"

/* After orion_driver_find(). 0 or -ENOMEM; may be repeated. */
int orion_known_begin(void);
/* Never NULL after that. */
struct rbt_kernels *orion_known(void);
bool orion_known_has_profile(void);
/* 0 or a negative errno, with a sentence about the file. */
int orion_known_load(const char *path, char *ret_why, size_t size);
/* Writes what was measured. A full disk leaves an earlier file as it was. */
int orion_known_save(const char *path);
/* Whether there is something to write. */
bool orion_known_is_measured(void);

#endif
