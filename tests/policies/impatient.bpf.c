/* SPDX-License-Identifier: Apache-2.0 */
/* The same with a short timeout. */
#define TIMEOUT_MS 300
#include "steered.bpf.c"
