/* SPDX-License-Identifier: Apache-2.0 */
#include "util/json.h"

#include <inttypes.h>
#include <math.h>

void rbt_json_init(struct rbt_json *j, FILE *out)
{
	*j = (struct rbt_json){.out = out, .first = true};
}

/* Bytes of the character at `p`; 0 when it is none, as in file names of other times. */
static size_t utf8_length(const unsigned char *p)
{
	/* The second byte's range also keeps out long forms, surrogates and what is too large. */
	static const struct {
		unsigned char first, last, low, high;
		size_t len;
	} forms[] = {
		{0x01, 0x7f, 0x00, 0xff, 1},
		{0xc2, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (*p < forms[i].first || *p > forms[i].last) {
			continue;
		}
		size_t len = forms[i].len;
		bool good = len == 1 || (p[1] >= forms[i].low && p[1] <= forms[i].high);
		for (size_t k = 2; good && k < len; k++) {
			good = (p[k] & 0xc0) == 0x80;
		}
		return good ? len : 0;
	}
	return 0;
}

static void quote(FILE *out, const char *s)
{
	fputc('"', out);
	for (const unsigned char *p = (const unsigned char *)s; *p != '\0';) {
		size_t len = utf8_length(p);
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
	if (j->depth > 0) {
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
	if (!j->first) {
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
