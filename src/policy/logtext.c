/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a record of gpu_sched_log(). */
#include <stdio.h>
#include <string.h>

#include "policy/engine.h"

/* Where the text goes. */
struct text {
	char *buf;
	size_t size, n;
};

static void add(struct text *t, char c)
{
	if (t->n + 1 < t->size) {
		t->buf[t->n++] = c < ' ' || c > '~' ? '?' : c;
		t->buf[t->n] = '\0';
	}
}

static void add_number(struct text *t, char kind, bool is_long, uint64_t n)
{
	char digits[32];

	switch (kind) {
	case 'd':
	case 'i':
		snprintf(digits, sizeof(digits), "%lld",
			is_long ? (long long)n : (long long)(int32_t)n);
		break;
	case 'x':
		snprintf(digits, sizeof(digits), "%llx",
			is_long ? (unsigned long long)n : (unsigned long long)(uint32_t)n);
		break;
	case 'c':
		snprintf(digits, sizeof(digits), "%c", n != 0 ? (char)n : '?');
		break;
	default:
		snprintf(digits, sizeof(digits), "%llu",
			is_long ? (unsigned long long)n : (unsigned long long)(uint32_t)n);
	}
	for (const char *c = digits; *c != '\0'; c++) {
		add(t, *c);
	}
}

void rbt_log_format(const void *record, size_t record_size, char *buf, size_t size)
{
	struct gpu_sched_log_record record_copy = {0}, *r = &record_copy;
	struct text t = {.buf = buf, .size = size};
	unsigned n_args = 0;

	if (size == 0) {
		return;
	}
	buf[0] = '\0';
	memcpy(r, record, record_size < sizeof(*r) ? record_size : sizeof(*r));
	r->format[sizeof(r->format) - 1] = '\0';
	for (const char *c = r->format; *c != '\0'; c++) {
		const char *kind = c + 1;
		while (*c == '%' && *kind == 'l') {
			kind++;
		}
		if (*c == '%' && *kind == '%') {
			add(&t, '%');
			c = kind;
		} else if (*c == '%' && *kind != '\0' && strchr("diuxc", *kind) != NULL &&
			   n_args < GPU_SCHED_LOG_ARGS) {
			add_number(&t, *kind, kind > c + 1, r->args[n_args++]);
			c = kind;
		} else {
			add(&t, *c);
		}
	}
}
