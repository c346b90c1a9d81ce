/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

double client_now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int client_count(const char *text, int min, int max, void (*usage)(int code))
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || *end != '\0' || v < min || v > max) {
		usage(2);
	}
	return (int)v;
}

bool client_read(struct client_input *in)
{
	char c;

	if (read(in->fd, &c, 1) != 1) {
		in->fd = -1;
		return false;
	}
	if (c == '\n') {
		in->line[in->len] = '\0';
		in->len = 0;
		return true;
	}
	if (in->len < sizeof(in->line) - 1) {
		in->line[in->len++] = c;
	}
	return false;
}
