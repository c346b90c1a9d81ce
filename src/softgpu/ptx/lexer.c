/* SPDX-License-Identifier: Apache-2.0 */
/* Splits text into tokens, and writes the message of the first error. */
#include <stdarg.h>

#include "softgpu/ptx/impl.h"

int ptx_fail(struct parser *p, int err, const char *format, ...)
{
	va_list args;
	size_t used = 0;

	if (p->failed != 0) {
		return p->failed;
	}
	p->failed = -err;
	p->error->line = p->tok.line;
	if (p->tok.line > 0) {
		used = (size_t)snprintf(
			p->error->text, sizeof(p->error->text), "line %u: ", p->tok.line);
	}
	va_start(args, format);
	vsnprintf(p->error->text + used, sizeof(p->error->text) - used, format, args);
	va_end(args);
	/* Names come from the text; a message must be one printable line. */
	for (char *c = p->error->text; *c != '\0'; c++) {
		if (*c < ' ' || *c > '~') {
			*c = '?';
		}
	}
	return p->failed;
}

int ptx_unexpected(struct parser *p, const char *wanted)
{
	if (p->tok.kind == TOK_END) {
		return ptx_fail(p, EINVAL, "the text ends where %s should be", wanted);
	}
	return ptx_fail(p, EINVAL, "'%.*s' where %s should be",
		(int)(p->tok.length < 40 ? p->tok.length : 40), p->tok.text, wanted);
}

static bool is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
	       c == '$';
}

static int at(const struct parser *p, size_t pos)
{
	return pos < p->size ? (unsigned char)p->text[pos] : '\0';
}

static int skip_comment(struct parser *p)
{
	p->pos += 2;
	while (p->pos + 1 < p->size) {
		if (p->text[p->pos] == '*' && p->text[p->pos + 1] == '/') {
			p->pos += 2;
			return 0;
		}
		p->line += p->text[p->pos] == '\n';
		p->pos++;
	}
	return ptx_fail(p, EINVAL, "a comment does not end");
}

static int skip_space(struct parser *p)
{
	for (;;) {
		int c = at(p, p->pos);

		if (c == '\n') {
			p->line++;
			p->pos++;
		} else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
			p->pos++;
		} else if (c == '/' && at(p, p->pos + 1) == '/') {
			while (p->pos < p->size && p->text[p->pos] != '\n') {
				p->pos++;
			}
		} else if (c == '/' && at(p, p->pos + 1) == '*') {
			int r = skip_comment(p);

			if (r < 0) {
				return r;
			}
		} else {
			return 0;
		}
	}
}

static int lex_string(struct parser *p)
{
	size_t end = p->pos + 1;

	while (at(p, end) != '"') {
		if (end >= p->size || p->text[end] == '\n') {
			return ptx_fail(p, EINVAL, "a string does not end");
		}
		end += p->text[end] == '\\' && end + 1 < p->size ? 2 : 1;
	}
	p->tok.kind = TOK_STRING;
	p->pos = end + 1;
	return 0;
}

/* .L2::128B is one word. */
static void lex_word(struct parser *p)
{
	p->tok.kind = TOK_WORD;
	p->pos++;
	for (;;) {
		if (is_word(at(p, p->pos))) {
			p->pos++;
		} else if (at(p, p->pos) == ':' && at(p, p->pos + 1) == ':') {
			p->pos += 2;
		} else {
			return;
		}
	}
}

static int lex(struct parser *p)
{
	int c = at(p, p->pos);

	if (is_digit(c)) {
		return ptx_lex_number(p);
	}
	if (c == '"') {
		return lex_string(p);
	}
	if (c == '.' && is_word(at(p, p->pos + 1))) {
		lex_word(p);
		return 0;
	}
	if (c == '%' ? is_word(at(p, p->pos + 1)) : is_word(c)) {
		p->tok.kind = TOK_IDENT;
		p->pos++;
		while (is_word(at(p, p->pos))) {
			p->pos++;
		}
		return 0;
	}
	p->tok.kind = c;
	p->pos++;
	return 0;
}

int ptx_next(struct parser *p)
{
	size_t start;
	int r;

	if (p->failed != 0) {
		return p->failed;
	}
	r = skip_space(p);
	if (r < 0) {
		return r;
	}
	p->tok.line = p->line;
	start = p->pos;
	p->tok.text = p->text + start;
	p->tok.length = 0;
	if (at(p, p->pos) == '\0') {
		p->tok.kind = TOK_END;
		return 0;
	}
	r = lex(p);
	p->tok.length = (uint32_t)(p->pos - start);
	return r;
}

int ptx_accept(struct parser *p, int kind, bool *ret_found)
{
	*ret_found = p->tok.kind == kind;
	return *ret_found ? ptx_next(p) : 0;
}

int ptx_expect(struct parser *p, int kind, const char *what)
{
	return p->tok.kind == kind ? ptx_next(p) : ptx_unexpected(p, what);
}

bool ptx_tok_is(const struct parser *p, const char *text)
{
	return p->tok.length == strlen(text) && memcmp(p->tok.text, text, p->tok.length) == 0;
}

/* .loc and .file end with their line, not with a semicolon. */
int ptx_skip_line(struct parser *p)
{
	unsigned line = p->tok.line;
	int r = 0;

	while (r == 0 && p->tok.kind != TOK_END && p->tok.line == line) {
		r = ptx_next(p);
	}
	return r;
}

/* The current token is the opening brace. */
int ptx_skip_braces(struct parser *p)
{
	unsigned depth = 0;
	int r;

	do {
		if (p->tok.kind == TOK_END) {
			return ptx_unexpected(p, "'}'");
		}
		depth += p->tok.kind == '{';
		depth -= p->tok.kind == '}';
		r = ptx_next(p);
	} while (r == 0 && depth > 0);
	return r;
}
