/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/demangle.h"

#include <stdint.h>
#include <string.h>

static const char anonymous[] = "(anonymous namespace)";
#define ANONYMOUS_LENGTH (sizeof(anonymous) - 1)

struct text {
	char *buf;
	size_t size, length;
	bool is_full;
};

static void append(struct text *t, const char *s, size_t n)
{
	if (t->is_full || n >= t->size - t->length) {
		t->is_full = true;
		return;
	}
	memcpy(t->buf + t->length, s, n);
	t->length += n;
	t->buf[t->length] = '\0';
}

/* Compilers call the anonymous namespace _GLOBAL__N_1, and nvcc adds the file's name to that. */
static bool is_anonymous(const char *s, size_t n)
{
	return n >= 10 && memcmp(s, "_GLOBAL_", 8) == 0 && strchr("._$", s[8]) != NULL &&
	       s[9] == 'N';
}

/* A source name: its length in decimal, then its characters. NULL: there is none. */
static const char *take_identifier(const char *s, const char **ret_name, size_t *ret_n)
{
	size_t n = 0;

	if (*s < '1' || *s > '9') {
		return NULL;
	}
	for (; *s >= '0' && *s <= '9'; s++) {
		n = n * 10 + (size_t)(*s - '0');
		if (n > UINT16_MAX) {
			return NULL;
		}
	}
	if (strnlen(s, n) < n) {
		return NULL;
	}
	*ret_name = s;
	*ret_n = n;
	return s + n;
}

/* One component of a name with its ABI tags. NULL: something else follows. */
static const char *take_component(const char *s, struct text *t)
{
	const char *name, *tag;
	size_t n;

	s += *s == 'L'; /* internal linkage: static kernels */
	s = take_identifier(s, &name, &n);
	if (s == NULL) {
		return NULL;
	}
	if (t->length > 0) {
		append(t, "::", 2);
	}
	if (is_anonymous(name, n)) {
		append(t, anonymous, ANONYMOUS_LENGTH);
	} else {
		append(t, name, n);
	}
	while (*s == 'B') {
		s = take_identifier(s + 1, &tag, &n);
		if (s == NULL) {
			return NULL;
		}
		append(t, "[abi:", 5);
		append(t, tag, n);
		append(t, "]", 1);
	}
	return s;
}

size_t rbt_demangle_stem(const char *mangled, char *buf, size_t size)
{
	struct text t = {.buf = buf, .size = size};
	const char *s = mangled;

	if (size == 0 || strncmp(s, "_Z", 2) != 0) {
		return 0;
	}
	s += 2;
	bool is_nested = *s == 'N';
	if (is_nested) {
		s++;
		s += strspn(s, "rVKRO"); /* qualifiers of member functions */
	}
	/* The other substitutions stand for earlier parts of the name, and there are none yet. */
	bool is_std = strncmp(s, "St", 2) == 0;
	if (is_std) {
		append(&t, "std", 3);
		s += 2;
	}
	do {
		s = take_component(s, &t);
		if (s == NULL) {
			return 0;
		}
	} while (is_nested && *s != 'E' && *s != 'I');
	return t.is_full ? 0 : t.length;
}

/* Whether the space at `s` is the one of the anonymous namespace. */
static bool is_inside_anonymous(const char *name, const char *s)
{
	size_t before = strcspn(anonymous, " ");

	return (size_t)(s - name) >= before &&
	       strncmp(s - before, anonymous, ANONYMOUS_LENGTH) == 0;
}

const char *rbt_name_stem(const char *name, size_t *ret_length)
{
	const char *end = name;

	while (*end != '\0' && *end != '<') {
		bool is_it = strncmp(end, anonymous, ANONYMOUS_LENGTH) == 0;

		if (*end == '(' && !is_it) {
			break;
		}
		end += is_it ? ANONYMOUS_LENGTH : 1;
	}
	while (end > name && end[-1] == ' ') {
		end--;
	}
	/* The return type stands before the last space. */
	const char *begin = end;
	while (begin > name && (begin[-1] != ' ' || is_inside_anonymous(name, begin - 1))) {
		begin--;
	}
	*ret_length = begin < end ? (size_t)(end - begin) : strlen(name);
	return begin < end ? begin : name;
}
