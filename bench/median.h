/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_BENCH_MEDIAN_H
#define RBT_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int median_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts them; n > 0. */
static inline double median(double *values, size_t n)
{
	qsort(values, n, sizeof(values[0]), median_compare);
	return values[n / 2];
}

#endif
