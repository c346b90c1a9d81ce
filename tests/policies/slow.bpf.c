/* SPDX-License-Identifier: Apache-2.0 */
/* The same with a loop that takes more than a millisecond, and the verifier more than a moment. In
 * the vm the fuel does not last for that. */
#define SLOW_MAX 30000
#include "steered.bpf.c"
