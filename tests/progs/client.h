/* SPDX-License-Identifier: Apache-2.0 */
/* What programs that tests talk to have in common, whichever driver they use. */
#ifndef RBT_TESTS_PROGS_CLIENT_H
#define RBT_TESTS_PROGS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

double client_now_s(void);

/* A number in that range, or usage(2), which does not return. */
int client_count(const char *text, int min, int max, void (*usage)(int code));

struct client_input {
	int fd; /* -1 after its end */
	char line[1024];
	size_t len;
};

/* Takes one byte, which poll(2) said is there. True when that ends a line, which is then in `line`
 * without its end. */
bool client_read(struct client_input *in);

#endif
