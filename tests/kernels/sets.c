/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <stdio.h>
#include <string.h>

static const struct kcase_set *const sets[] = {&kcases_classic, &kcases_integer, &kcases_bits,
	&kcases_float, &kcases_convert, &kcases_half, &kcases_memory, &kcases_atomic, &kcases_warp,
	&kcases_diverge, &kcases_sync, &kcases_misc};

const struct kcase *kcase_at(size_t n)
{
	for (size_t s = 0; s < sizeof(sets) / sizeof(sets[0]); s++) {
		if (n < sets[s]->count) {
			return &sets[s]->cases[n];
		}
		n -= sets[s]->count;
	}
	return NULL;
}

void kcase_each(
	int argc, char **argv, void (*test)(const char *directory, const struct kcase *kase))
{
	const struct kcase *kase;
	unsigned ran = 0;

	for (size_t n = 0; argc > 1 && (kase = kcase_at(n)) != NULL; n++) {
		if (argc < 3 || strcmp(argv[2], kase->entry) == 0) {
			test(argv[1], kase);
			ran++;
		}
	}
	fprintf(stderr, "%u cases\n", ran);
}
