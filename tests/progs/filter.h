/* SPDX-License-Identifier: Apache-2.0 */
/* A seccomp filter for programs that tests run. */
#ifndef RBT_TESTS_PROGS_FILTER_H
#define RBT_TESTS_PROGS_FILTER_H

/*
 * From now on the process may make only the system calls whose numbers the list has, separated by
 * commas. At any other call it says "killed by its filter: call N" on standard error and ends with
 * exit status 159, as a shell reports a death by SIGSYS. 0 or -errno.
 */
int filter_install(const char *list);

#endif
