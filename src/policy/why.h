/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why an object was refused, in one line. Names in it come from files that are not trusted, so that
 * characters which cannot be printed are replaced.
 */
#ifndef RBT_POLICY_WHY_H
#define RBT_POLICY_WHY_H

struct rbt_why {
	char text[256];
};

/* Writes the line and returns `error`. */
int rbt_why_set(struct rbt_why *why, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
