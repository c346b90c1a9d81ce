/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

const struct kcase_set *const kcase_sets[] = {&kcases_classic, &kcases_integer, &kcases_bits,
	&kcases_float, &kcases_convert, &kcases_half, &kcases_memory, &kcases_atomic, &kcases_warp,
	&kcases_diverge, &kcases_sync, &kcases_misc, NULL};
