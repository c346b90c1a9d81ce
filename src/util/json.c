/* SPDX-License-Identifier: Apache-2.0 */
#include "util/json.h"

#include <inttypes.h>
#include <math.h>

#include "util/utf8.h"

void rbt_json_init(struct rbt_json *j, FILE *out)
{
	*j = (struct rbt_json){.out = out, .first = true};
}

static void quote(FILE *out, const char *s)
{
	fputc('"', out);
	for (const unsigned char *p = (const unsigned char *)s; *p != '\0';) {
		size_t len = rbt_utf8_length(p);
		if (len == 0) {
			fputs("\\ufffd", out);
			len = 1;
		} else if (*p == '"' || *p == '\\') {
			fprintf(out, "\\%c", *p);
		} else if (*p < ' ' || *p == 0x7f) {
			fprintf(out, "\\u%04x", *p);
		} else {
			fwrite(p, len, 1, out);
		}
		p += len;
	}
	fputc('"', out);
}

static void lead(struct rbt_json *j, const char *key)
{
	if (!j->first) {
		fputc(',', j->out);
	}
	if (j->depth > 0 && !j->one_line) {
		fprintf(j->out, "\n%*s", j->depth * 2, "");
	}
	if (key != NULL) {
		quote(j->out, key);
		fputs(": ", j->out);
	}
	j->first = false;
}

static void begin(struct rbt_json *j, const char *key, char bracket)
{
	lead(j, key);
	fputc(bracket, j->out);
	j->depth++;
	j->first = true;
}

void rbt_json_object(struct rbt_json *j, const char *key)
{
	begin(j, key, '{');
}

void rbt_json_array(struct rbt_json *j, const char *key)
{
	begin(j, key, '[');
}

void rbt_json_end(struct rbt_json *j, char bracket)
{
	j->depth--;
	if (!j->first && !j->one_line) {
		fprintf(j->out, "\n%*s", j->depth * 2, "");
	}
	fputc(bracket, j->out);
	if (j->depth == 0) {
		fputc('\n', j->out);
	}
	j->first = false;
}

void rbt_json_string(struct rbt_json *j, const char *key, const char *value)
{
	lead(j, key);
	quote(j->out, value);
}

void rbt_json_u64(struct rbt_json *j, const char *key, uint64_t value)
{
	lead(j, key);
	fprintf(j->out, "%" PRIu64, value);
}

void rbt_json_i64(struct rbt_json *j, const char *key, int64_t value)
{
	lead(j, key);
	fprintf(j->out, "%" PRId64, value);
}

void rbt_json_bool(struct rbt_json *j, const char *key, bool value)
{
	lead(j, key);
	fputs(value ? "true" : "false", j->out);
}

void rbt_json_null(struct rbt_json *j, const char *key)
{
	lead(j, key);
	fputs("null", j->out);
}

void rbt_json_double(struct rbt_json *j, const char *key, double value)
{
	if (!isfinite(value)) {
		rbt_json_null(j, key);
		return;
	}
	lead(j, key);
	fprintf(j->out, "%.6g", value);
}

void rbt_json_us(struct rbt_json *j, const char *key, uint64_t ns)
{
	lead(j, key);
	fprintf(j->out, "%" PRIu64 ".%03" PRIu64, ns / 1000, ns % 1000);
}
