/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of shims of version 0.1.0, which do not know TREAT.
 */
#ifndef RBT_DAEMON_PEERS_OLDER_H
#define RBT_DAEMON_PEERS_OLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/treatment.h"

/* Turns one of their messages into a treatment. *ret_loaded_ns is only valid for HELLO, and 0 if
 * the shim does not send it. Returns 0 or -EBADMSG. */
int older_decode(const void *buf, size_t size, struct rbt_treatment *ret, bool *ret_is_hello,
	uint64_t *ret_loaded_ns);

#endif
