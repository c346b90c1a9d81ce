/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_SHIM_HINTS_H
#define RBT_SHIM_HINTS_H

#include <stdint.h>

/* See include/rubato/rubato.h. Returns 1 if a daemon may listen. */
int rubato_request_begin(uint64_t deadline_ns);
void rubato_request_end(void);

#endif
