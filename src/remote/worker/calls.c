/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that a worker does. Those that are not written by hand are made from cuda/calls.txt. */
#include "remote/worker/served.h"

#include "cuda/worker.inc"

#define SERVED_CALL(symbol, per_thread, number, params, waits) [number] = {serve_##symbol, waits},
const struct served_call served_calls[RBT_REMOTE_NUMBERS] = {RBT_REMOTE_CALLS(SERVED_CALL)};
