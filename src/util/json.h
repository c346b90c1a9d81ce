/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON to a stream as it goes. It sees to commas, indentation and escaping; the caller sees
 * to nesting.
 */
#ifndef RBT_UTIL_JSON_H
#define RBT_UTIL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rbt_json {
	FILE *out; /* borrowed */
	int depth;
	bool first;
	bool one_line; /* set after init: each top-level value is one line */
};

void rbt_json_init(struct rbt_json *j, FILE *out);

/* `key` is NULL inside arrays and at the top. */
void rbt_json_object(struct rbt_json *j, const char *key);
void rbt_json_array(struct rbt_json *j, const char *key);
void rbt_json_end(struct rbt_json *j, char bracket);
void rbt_json_string(struct rbt_json *j, const char *key, const char *value);
void rbt_json_u64(struct rbt_json *j, const char *key, uint64_t value);
void rbt_json_i64(struct rbt_json *j, const char *key, int64_t value);
void rbt_json_bool(struct rbt_json *j, const char *key, bool value);
void rbt_json_null(struct rbt_json *j, const char *key);
void rbt_json_double(struct rbt_json *j, const char *key, double value);
/* Microseconds with three decimals. */
void rbt_json_us(struct rbt_json *j, const char *key, uint64_t ns);

#endif
