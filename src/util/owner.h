/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_OWNER_H
#define RBT_UTIL_OWNER_H

#include <stddef.h>

/* The struct of that type whose member `field` the pointer points to; Linux calls this
 * container_of. */
#define RBT_OWNER_OF(ptr, type, field) ((type *)(void *)((char *)(ptr)-offsetof(type, field)))

#endif
