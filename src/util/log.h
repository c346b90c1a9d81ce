/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-line messages on standard error. Tools and daemons say an error once, where it is handled;
 * library folders use rbt_debug() only, which is silent unless RUBATO_DEBUG is set.
 */
#ifndef RBT_UTIL_LOG_H
#define RBT_UTIL_LOG_H

/* Sets the name in front of every line; "rubato" until set. Borrowed for the life of the
 * process. */
void rbt_log_name(const char *name);

void rbt_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void rbt_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void rbt_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
