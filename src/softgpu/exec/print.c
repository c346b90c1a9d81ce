/* SPDX-License-Identifier: Apache-2.0 */
/* The two functions that a kernel may call without defining them: vprintf and __assertfail. */
#include <stdio.h>
#include <string.h>

#include "softgpu/exec/impl.h"

#define TEXT_MAX   1024
#define STRING_MAX 256

/* The state of a lane's print: the format, its arguments, the text so far. */
struct printer {
	struct exec_warp *w;
	uint32_t lane;
	uint64_t args; /* generic address of the next one */
	int taken;
	char text[TEXT_MAX];
	size_t used;
};

/* A string in device memory, cut to the room; false: the address is invalid. */
static bool read_string(
	struct exec_warp *w, uint32_t lane, uint64_t va, char *ret_text, size_t room)
{
	const void *at = NULL;
	uint64_t there = exec_generic_room(w, lane, va, &at);
	size_t most = there < room - 1 ? (size_t)there : room - 1, size;

	if (there == 0) {
		return false;
	}
	size = strnlen(at, most);
	memcpy(ret_text, at, size);
	ret_text[size] = '\0';
	return true;
}

/* The next argument of 4 or 8 bytes, aligned to its size; 0: there is no memory. */
static uint64_t take(struct printer *p, unsigned size)
{
	const void *at = NULL;
	uint64_t value = 0;

	p->args = (p->args + size - 1) & ~(uint64_t)(size - 1);
	if (exec_generic_room(p->w, p->lane, p->args, &at) >= size) {
		memcpy(&value, at, size);
	}
	p->args += size;
	p->taken++;
	return value;
}

static void put(struct printer *p, const char *text, size_t size)
{
	size_t room = TEXT_MAX - p->used;

	size = size < room ? size : room;
	memcpy(p->text + p->used, text, size);
	p->used += size;
}

/* One conversion as the kernel wrote it, without its length: %[flags][width][.precision]. */
struct conversion {
	char flags[8];
	int width, precision; /* -1: not given */
	unsigned longs;       /* 1: l; 2: ll and other 64-bit lengths */
	unsigned shorts;
	char letter;
};

static int parse_number(struct printer *p, const char **at)
{
	int n = 0;

	if (**at == '*') {
		(*at)++;
		n = (int)take(p, 4);
		return n < 0 ? 0 : n > 200 ? 200 : n;
	}
	while (**at >= '0' && **at <= '9') {
		n = n < 1000 ? n * 10 + (**at - '0') : n;
		(*at)++;
	}
	return n > 200 ? 200 : n;
}

static const char *parse_conversion(struct printer *p, const char *at, struct conversion *ret)
{
	size_t flags = 0;

	*ret = (struct conversion){.width = -1, .precision = -1};
	while (*at && strchr("-+ #0", *at)) {
		if (flags < sizeof(ret->flags) - 1) {
			ret->flags[flags++] = *at;
		}
		at++;
	}
	if (*at == '*' || (*at >= '1' && *at <= '9')) {
		ret->width = parse_number(p, &at);
	}
	if (*at == '.') {
		at++;
		ret->precision = parse_number(p, &at);
	}
	for (; *at && strchr("hlzjtL", *at); at++) {
		ret->longs += *at == 'h' ? 0 : 1;
		ret->shorts += *at == 'h' ? 1 : 0;
	}
	ret->letter = *at;
	return *at ? at + 1 : at;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void put_conversion(struct printer *p, const struct conversion *c)
{
	char format[32], text[512], string[STRING_MAX];
	bool wide = c->longs > 0;
	int width = c->width < 0 ? 0 : c->width, size = 0;

	if (strchr("diouxXc", c->letter)) {
		uint64_t v = take(p, wide && c->letter != 'c' ? 8 : 4);
		int64_t s = wide            ? (int64_t)v
			    : c->shorts > 1 ? (int8_t)v
			    : c->shorts     ? (int16_t)v
					    : (int32_t)v;

		v = c->shorts > 1 ? (uint8_t)v : c->shorts ? (uint16_t)v : v;
		snprintf(format, sizeof(format), "%%%s*.*%s%c", c->flags,
			c->letter == 'c' ? "" : "ll", c->letter);
		if (c->letter == 'c') {
			size = snprintf(text, sizeof(text), "%*c", width, (int)(unsigned char)v);
		} else if (c->letter == 'd' || c->letter == 'i') {
			size = snprintf(
				text, sizeof(text), format, width, c->precision, (long long)s);
		} else {
			size = snprintf(text, sizeof(text), format, width, c->precision,
				(unsigned long long)v);
		}
	} else if (strchr("fFeEgGaA", c->letter)) {
		uint64_t v = take(p, 8);
		double d;

		memcpy(&d, &v, 8);
		snprintf(format, sizeof(format), "%%%s*.*%c", c->flags, c->letter);
		size = snprintf(text, sizeof(text), format, width, c->precision, d);
	} else if (c->letter == 's') {
		if (!read_string(p->w, p->lane, take(p, 8), string, sizeof(string))) {
			strcpy(string, "(null)");
		}
		snprintf(format, sizeof(format), "%%%s*.*s", c->flags);
		size = snprintf(text, sizeof(text), format, width, c->precision, string);
	} else if (c->letter == 'p') {
		size = snprintf(text, sizeof(text), "0x%llx", (unsigned long long)take(p, 8));
	}
	put(p, text, size < 0 ? 0 : (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1);
}

#pragma GCC diagnostic pop

static int print_lane(struct printer *p, uint64_t format_va)
{
	char format[TEXT_MAX];
	const char *at = format;

	if (!read_string(p->w, p->lane, format_va, format, sizeof(format))) {
		return -1;
	}
	while (*at) {
		size_t plain = strcspn(at, "%");
		struct conversion c;

		put(p, at, plain);
		at += plain;
		if (*at == '\0') {
			break;
		}
		if (at[1] == '%') {
			put(p, "%", 1);
			at += 2;
			continue;
		}
		at = parse_conversion(p, at + 1, &c);
		put_conversion(p, &c);
	}
	return p->taken;
}

/* Argument `k` of a call, for one lane. */
static uint64_t argument(
	const struct exec_warp *w, const struct rbt_ptx_call *call, uint32_t k, uint32_t lane)
{
	uint64_t value = 0;
	size_t size = call->args[k].size < 8 ? call->args[k].size : 8;

	memcpy(&value,
		w->frame->params + (size_t)lane * w->frame->fn->frame_size + call->args[k].offset,
		size);
	return value;
}

static void run_vprintf(
	struct exec_warp *w, const struct exec_group *g, const struct rbt_ptx_call *call)
{
	const struct rbt_exec_launch *launch = w->block->launch;

	for (uint32_t left = g->mask; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);
		struct printer p = {.w = w, .lane = lane, .args = argument(w, call, 1, lane)};
		int32_t count = print_lane(&p, argument(w, call, 0, lane));

		if (launch->print && p.used > 0) {
			launch->print(launch->user, p.text, p.used);
		}
		if (call->nrets == 1 && call->args[2].size == 4) {
			memcpy(w->frame->params + (size_t)lane * w->frame->fn->frame_size +
					call->args[2].offset,
				&count, 4);
		}
	}
}

static void print_assertion(struct exec_warp *w, const struct rbt_ptx_call *call, uint32_t lane)
{
	char what[STRING_MAX] = "?", file[STRING_MAX] = "?", function[STRING_MAX] = "?",
	     text[TEXT_MAX];
	const struct rbt_exec_launch *launch = w->block->launch;
	const uint32_t *block = w->block->index;
	uint32_t thread[3];
	int size;

	if (!launch->complain) {
		return;
	}
	read_string(w, lane, argument(w, call, 0, lane), what, sizeof(what));
	read_string(w, lane, argument(w, call, 1, lane), file, sizeof(file));
	read_string(w, lane, argument(w, call, 3, lane), function, sizeof(function));
	exec_thread_index(w->block, w->index * EXEC_LANES + lane, thread);
	size = snprintf(text, sizeof(text),
		"%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file,
		(unsigned)argument(w, call, 2, lane), function, block[0], block[1], block[2],
		thread[0], thread[1], thread[2], what);
	if (size > 0) {
		launch->complain(launch->user, text,
			(size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1);
	}
}

int exec_builtin(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i,
	const struct rbt_ptx_call *call, const struct rbt_ptx_function *fn)
{
	uint32_t first = (uint32_t)__builtin_ctz(g->mask);

	if (fn->builtin == RBT_PTX_BUILTIN_VPRINTF && call->nargs == 2) {
		run_vprintf(w, g, call);
		g->pc++;
		return 0;
	}
	if (fn->builtin == RBT_PTX_BUILTIN_ASSERTFAIL && call->nargs == 5) {
		for (uint32_t left = g->mask; left; left &= left - 1) {
			print_assertion(w, call, (uint32_t)__builtin_ctz(left));
		}
		return exec_fault(w, i, RBT_EXEC_FAULT_ASSERT, first, 0);
	}
	return exec_fault(w, i, RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, first, 0);
}
