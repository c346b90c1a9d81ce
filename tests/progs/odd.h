/* SPDX-License-Identifier: Apache-2.0 */
/* What programs do to themselves, as commands of the test programs'. */
#ifndef RBT_TESTS_PROGS_ODD_H
#define RBT_TESTS_PROGS_ODD_H

#include <stdbool.h>

/*
 * Does it and answers with a line; false if it is none of these.
 *   nobody        gives up root                      files N   may have fds below N only
 *   close-from N  all fds but `keep`                 refuse N  system call N fails with EPERM
 *   no-threads    no thread or child can be made     landlock  may not debug others
 */
bool odd_obey(const char *line, int keep);

#endif
