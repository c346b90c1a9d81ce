/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of PTX: functions, calls, variables, scopes, control flow, limits; real kernels. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test_ptx_parse.h"

#define HEAD ".version 6.4\n.target sm_70\n.address_size 64\n"
#define ENTRY                                                                                      \
	".visible .entry k(.param .u64 x) {\n.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"

static struct rbt_ptx_module *parse_good(const char *text)
{
	struct rbt_ptx_module *module = ptx_parse(text, strlen(text));

	CHECK(module != NULL);
	if (module == NULL) {
		exit(check_result());
	}
	return module;
}

static void check_refused(const char *text, int err, const char *message)
{
	struct rbt_ptx_module *module = NULL;
	struct rbt_ptx_error error;
	int r = rbt_ptx_parse(text, strlen(text), &module, &error);

	CHECK_INT(r, -err);
	if (r == 0) {
		rbt_ptx_module_destroy(module);
	} else if (strcmp(error.text, message) != 0) {
		fprintf(stderr, "'%s', not '%s'\n", error.text, message);
		CHECK(!"the message");
	}
}

static void check_lookups(const struct rbt_ptx_module *m)
{
	CHECK_INT(rbt_ptx_find_variable(m, "half"), 3);
	CHECK_INT(rbt_ptx_find_variable(m, "whole"), RBT_PTX_NO_INDEX);
	CHECK(rbt_ptx_find_entry(m, "f") == NULL);
	CHECK(rbt_ptx_function_at(m, RBT_PTX_FUNC_ADDRESS(0)) == &m->functions[0]);
	CHECK(rbt_ptx_function_at(m, RBT_PTX_FUNC_ADDRESS(1)) == NULL);
	CHECK(rbt_ptx_function_at(m, RBT_PTX_FUNC_ADDRESS(0) + 1) == NULL);
	CHECK(rbt_ptx_function_at(m, 0) == NULL);
}

static void test_variables(void)
{
	struct rbt_ptx_module *m = parse_good(HEAD
		".visible .const .align 4 .b8 table[8] = {0, 0, 128, 63, 0, 0};\n"
		".visible .global .align 4 .u32 counter = -7;\n"
		".func f() { ret; }\n"
		".visible .global .align 8 .u64 list[4] = {3, generic(counter)+12, f, table};\n"
		".global .f32 half = 0f3F000000; .global .f64 d = 2.5; .global .align 16 .b8 zeros[100];\n"
		".extern .global .b32 other;\n");
	const struct rbt_ptx_variable *v = m->variables;

	CHECK_INT(m->version, 64);
	CHECK_INT(m->target, 70);
	CHECK_INT(m->nvariables, 7);
	CHECK_INT(v[0].space, RBT_PTX_SPACE_CONST);
	CHECK_INT(v[0].size, 8);
	CHECK_INT(v[0].init_size, 6);
	CHECK_INT(v[0].init[3], 63);
	CHECK_INT(*(int32_t *)(void *)v[1].init, -7);
	CHECK_INT(v[2].nrelocs, 3);
	CHECK_INT(v[2].relocs[0].offset, 8);
	CHECK_INT(v[2].relocs[0].index, 1);
	CHECK_INT(v[2].relocs[0].addend, 12);
	CHECK(v[2].relocs[1].is_function);
	CHECK_INT(v[2].relocs[1].offset, 16);
	CHECK_INT(v[2].relocs[2].index, 0);
	CHECK_INT(*(uint32_t *)(void *)v[3].init, 0x3f000000);
	CHECK_INT(*(uint64_t *)(void *)v[4].init, 0x4004000000000000);
	CHECK_INT(v[5].align, 16);
	CHECK(v[5].init == NULL);
	CHECK(v[6].is_extern);
	check_lookups(m);
	rbt_ptx_module_destroy(m);
	check_refused(HEAD ".global .b8 x[2] = {1, 2, 3};", EINVAL,
		"line 4: more values than 'x' has room for");
	check_refused(
		HEAD ".global .u64 x = y;", EINVAL, "line 4: 'y' is not a variable or function");
	check_refused(
		HEAD ".global .b32 x; .global .b32 x;", EINVAL, "line 4: 'x' is declared twice");
	check_refused(HEAD ".global .align 3 .b32 x;", EINVAL,
		"line 4: '3' where an alignment, a power of two, should be");
}

/* The module's shared variables lie before a kernel's own, wherever they are written. */
static void test_shared(void)
{
	struct rbt_ptx_module *m = parse_good(HEAD
		".extern .shared .align 4 .b8 dyn[];\n"
		".entry a() { .reg .b64 %rd<3>; .shared .align 8 .b8 own[40]; mov.u64 %rd1, own+8;\n"
		" mov.u64 %rd2, dyn; ret; }\n"
		".entry b() { ret; }\n"
		".shared .align 4 .b8 both[20];\n"
		".func f() { .reg .b32 %r<2>; mov.u32 %r1, both; ret; }\n");
	const struct rbt_ptx_function *a = rbt_ptx_find_entry(m, "a"),
				      *b = rbt_ptx_find_entry(m, "b");

	CHECK_INT(a->shared_size, 32 + 48);
	CHECK_INT(b->shared_size, 32);
	CHECK_INT(a->nconsts64, 2);
	CHECK_INT(a->consts64[0].kind, RBT_PTX_CONST_VALUE);
	CHECK_INT(a->consts64[0].value, 32 + 8);
	CHECK_INT(a->consts64[1].kind, RBT_PTX_CONST_DYN_SHARED);
	CHECK_INT(m->functions[2].consts32[0].value, 0);
	rbt_ptx_module_destroy(m);
	check_refused(HEAD ".shared .b8 x[49153];", E2BIG,
		"line 4: more than 49152 bytes of shared memory");
	check_refused(HEAD ".shared .b8 x[40000];\n.entry k() { .shared .b8 y[10000]; ret; }",
		E2BIG, "line 5: shared memory of 'k' is larger than 49152 bytes");
}

static void test_calls(void)
{
	struct rbt_ptx_module *m = parse_good(HEAD
		".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
		".func (.param .align 8 .b8 r[12]) f(.param .b64 a, .param .b32 b);\n" ENTRY
		"{ .param .b64 p0; st.param.b64 [p0+0], %rd1; .param .b32 p1; .param .align 8 .b8 r0[12];\n"
		"call.uni (r0), f, (p0, p1); ld.param.b32 %r1, [r0+8]; }\n"
		"{ .param .b32 p0; q : .callprototype () _ (.param .b32 _);\n"
		"call %rd1, (p0), q; }\n"
		"{ .param .b64 p0; .param .b64 p1; .param .b32 r; call (r), vprintf, (p0, p1); }\n"
		"ret; }\n"
		".func (.param .align 8 .b8 r[12]) f(.param .b64 a, .param .b32 b) {\n"
		".reg .b64 %rd<4>; mov.b64 %rd1, a; ld.param.b32 %rd2, [%rd1+8]; ret; }\n");
	const struct rbt_ptx_function *k = rbt_ptx_find_entry(m, "k"), *f = &m->functions[1];

	CHECK_INT(m->functions[0].builtin, RBT_PTX_BUILTIN_VPRINTF);
	CHECK_INT(f->nparams, 2);
	CHECK_INT(f->nrets, 1);
	CHECK_INT(f->params[0].offset, 16);
	CHECK_INT(f->params[1].offset, 24);
	CHECK_INT(f->params[2].offset, 0);
	CHECK_INT(f->frame_size, 32);
	CHECK_INT(f->insts[1].space, RBT_PTX_SPACE_FRAME);
	CHECK_INT(f->insts[1].dbits, 64);
	CHECK_INT(f->consts64[0].value, 16);
	CHECK_INT(k->ncalls, 3);
	CHECK_INT(k->calls[0].function, 1);
	CHECK_INT(k->calls[0].nargs, 2);
	CHECK_INT(k->calls[0].args[1].offset, 8);
	CHECK_INT(k->calls[0].args[2].offset, 16);
	CHECK_INT(k->calls[0].args[2].size, 12);
	CHECK_INT(k->calls[1].function, RBT_PTX_NO_INDEX);
	CHECK_INT(k->calls[1].args[0].offset, 0);
	CHECK_INT(k->calls[2].function, 0);
	CHECK_INT(k->frame_size, 32);
	rbt_ptx_module_destroy(m);
}

static void test_wrong_calls(void)
{
	check_refused(HEAD ".func f();\n.entry k() {\ncall f; ret; }", ENOTSUP,
		"line 6: the function 'f' is not here: linking is not supported");
	check_refused(HEAD ".func f(.param .b32 a) { ret; }\n.entry k() {\ncall f; ret; }", EINVAL,
		"line 6: a call of 'f' that is not as it was declared");
	check_refused(HEAD ".func f() { ret; }\n.func f() { ret; }", EINVAL,
		"line 5: 'f' is defined twice");
	check_refused(HEAD ".func f();\n.func f(.param .b32 a) { ret; }", EINVAL,
		"line 5: 'f' was declared otherwise");
	check_refused(HEAD ".entry k(.param .b8 a[4097]) { ret; }", E2BIG,
		"line 4: more than 4096 bytes of parameters");
}

static void test_directives(void)
{
	struct rbt_ptx_module *m = parse_good(HEAD
		"\t.file\t1 \"a; b.cu\"\n"
		".visible .entry k(.param .align 8 .b8 s[40], .param .u8 c, .param .u64 .ptr .global .align 4 p)\n"
		".maxntid 256, 2\n.minnctapersm 2\n.maxnreg 64\n{\n"
		"\t.loc\t1 27 0\nLfunc_begin0:\n\t.loc 1 28 3, function_name $L__info0, inlined_at 1 2 3\n"
		"\t.pragma \"nounroll\";\n\tret; // the end\n/* none\n */ Lend:\n}\n"
		"\t.section\t.debug_str\t{\n.b8 1, 2\nlabel:\n.b8 0\n\t}\n");
	const struct rbt_ptx_function *k = rbt_ptx_find_entry(m, "k");

	CHECK_INT(k->nparams, 3);
	CHECK_INT(k->params[1].offset, 40);
	CHECK_INT(k->params[2].offset, 48);
	CHECK_INT(k->param_size, 56);
	CHECK_INT(k->max_ntid[0], 256);
	CHECK_INT(k->max_ntid[1], 2);
	CHECK_INT(k->max_ntid[2], 1);
	CHECK_INT(k->req_ntid[0], 0);
	CHECK_INT(k->min_nctapersm, 2);
	CHECK_INT(k->max_nreg, 64);
	/* The label behind the last instruction needs something to name. */
	CHECK_INT(k->ninsts, 2);
	CHECK_INT(k->insts[0].line, 14);
	rbt_ptx_module_destroy(m);
}

/* Names mean the innermost thing, labels also when they follow; .param space is used again. */
static void test_scopes(void)
{
	struct rbt_ptx_module *m = parse_good(
		HEAD ENTRY "L1: mov.u32 %r1, 1;\n"                                      /* 0: r0 */
			   "{ .reg .b32 %r1; bra L1; mov.u32 %r1, 2; mov.u32 %r2, 3;\n" /* 1-3 */
			   "L1: mov.u32 %r1, 4; }\n"                                    /* 4 */
			   "{ .reg .b32 %r<2>; L1: mov.u32 %r1, 5; bra L1; bra L2; }\n" /* 5-7 */
			   "bra L1; mov.u32 %r2, 6; L2: mov.u32 %r1, 7; ret; }");       /* 8-10 */
	const struct rbt_ptx_inst *i = rbt_ptx_find_entry(m, "k")->insts;

	CHECK_INT(i[1].target, 4);
	CHECK(i[2].d[0] != i[0].d[0]);
	CHECK_INT(i[4].d[0], i[2].d[0]);
	CHECK(i[3].d[0] != i[0].d[0] && i[3].d[0] != i[2].d[0]);
	CHECK(i[5].d[0] != i[0].d[0] && i[5].d[0] != i[2].d[0]);
	CHECK_INT(i[6].target, 5);
	CHECK_INT(i[7].target, 10);
	CHECK_INT(i[8].target, 0);
	CHECK_INT(i[9].d[0], i[3].d[0]);
	CHECK_INT(i[10].d[0], i[0].d[0]);
	rbt_ptx_module_destroy(m);
	check_refused(
		HEAD ENTRY "{ L1: ret; }\nbra L1; }", EINVAL, "line 7: there is no label 'L1'");
	check_refused(HEAD ENTRY "{ .reg .b32 t; }\nmov.u32 t, 1; ret; }", EINVAL,
		"line 7: 'mov' needs a register to write");
}

static void test_meeting_points(void)
{
	struct rbt_ptx_module *m =
		parse_good(HEAD ENTRY "@%p1 bra A;\n"    /* 0: meets at 5 */
				      "bra.uni B;\n"     /* 1 */
				      "A: @%p2 bra C;\n" /* 2: meets at 3: the trap is no way out */
				      "bra.uni B;\n"     /* 3 */
				      "C: trap;\n"       /* 4 */
				      "B: mov.u32 %r1, 1;\n" /* 5: a loop to 6 */
				      "D: @%p3 bra E;\n"     /* 6: meets at 9 */
				      "@%p4 exit;\n"         /* 7 */
				      "bra D;\n"             /* 8 */
				      "E: @%p5 bra F;\n"     /* 9: F does not end */
				      "ret;\n"               /* 10 */
				      "F: bra F; }");        /* 11 */
	const struct rbt_ptx_inst *i = rbt_ptx_find_entry(m, "k")->insts;

	CHECK_INT(i[0].reconv, 5);
	CHECK_INT(i[2].reconv, 3);
	CHECK_INT(i[6].reconv, 9);
	CHECK_INT(i[9].reconv, 10);
	CHECK_INT(i[11].reconv, RBT_PTX_NO_INDEX);
	CHECK_INT(i[10].op, RBT_PTX_EXIT);
	CHECK((i[1].flags & RBT_PTX_UNI) != 0);
	CHECK((i[5].flags & RBT_PTX_LEADER) != 0);
	CHECK((i[6].flags & RBT_PTX_LEADER) != 0);
	CHECK((i[7].flags & RBT_PTX_LEADER) != 0);
	CHECK((i[8].flags & RBT_PTX_LEADER) != 0);
	rbt_ptx_module_destroy(m);
}

static void test_syntax_errors(void)
{
	check_refused("", EINVAL, "line 1: the text ends where .version should be");
	check_refused("\x7f"
		      "ELF",
		EINVAL, "line 1: '?' where .version, first in PTX, should be");
	check_refused(".version 6.4 .target sm_70 .address_size 32", ENOTSUP,
		"line 1: addresses of other than 64 bits are not supported");
	check_refused(HEAD ".tex .u64 t;", ENOTSUP, "line 4: '.tex' is not supported");
	check_refused(HEAD ENTRY "mov.u32 %r1, 1", EINVAL,
		"line 6: the text ends where ',' or ';' should be");
	check_refused(
		HEAD ENTRY "ret; ", EINVAL, "line 6: the text ends where a statement should be");
	check_refused(HEAD ENTRY "/* ret; ", EINVAL, "line 5: a comment does not end");
	check_refused(HEAD ENTRY "mov.u32 %r1, 18446744073709551616;", EINVAL,
		"line 6: an integer of more than 64 bits");
	check_refused(HEAD ENTRY "mov.f32 %r1, 0f12;", EINVAL,
		"line 6: a floating-point constant needs 8 hexadecimal digits");
	check_refused(HEAD ENTRY "brx.idx %r1, T;", ENOTSUP,
		"line 6: the instruction 'brx' is not supported");
}

/* Hostile sizes end with a message, in time that grows with the text alone. */
static void test_limits(void)
{
	enum { COUNT = 200000 };
	char *text = malloc(64 * (size_t)COUNT), *at = text;
	struct rbt_ptx_error error;
	struct rbt_ptx_module *m = NULL;

	if (text == NULL) {
		abort();
	}
	at = stpcpy(at, HEAD ".entry k() {");
	memset(at, '{', 1000);
	CHECK_INT(rbt_ptx_parse(text, (size_t)(at + 1000 - text), &m, &error), -E2BIG);
	at = stpcpy(
		text, HEAD ".entry k() { .reg .b32 %r<1000000000>; .reg .b64 %rd<4294967295>;\n");
	for (int i = 0; i < COUNT; i++) {
		at += sprintf(at, "add.s32 %%r%d, %%r%d, %d;\n", i % 30000, i % 777, i % 30000);
	}
	at = stpcpy(at, "ret; }");
	CHECK_INT(rbt_ptx_parse(text, (size_t)(at - text), &m, &error), 0);
	CHECK_INT(m->functions[0].nregs32, 30000);
	CHECK_INT(m->functions[0].nconsts32, 30000);
	rbt_ptx_module_destroy(m);
	at = stpcpy(text, HEAD ".entry k() { .reg .b32 %r<1000000000>;\n");
	for (int i = 0; i < 70000; i++) {
		at += sprintf(at, "mov.u32 %%r%d, 1;\n", i);
	}
	CHECK_INT(rbt_ptx_parse(text, (size_t)(at - text), &m, &error), -E2BIG);
	/* A ladder of branches, the slow case of the search for meeting points. */
	at = stpcpy(text, HEAD ".entry k() { .reg .pred %p<2>;\n");
	for (int i = 0; i < 30000; i++) {
		at += sprintf(at, "L%d: @%%p1 bra L%d; @!%%p1 bra L%d;\n", i, 29999 - i, i / 2);
	}
	at = stpcpy(at, "ret; }");
	CHECK_INT(rbt_ptx_parse(text, (size_t)(at - text), &m, &error), 0);
	CHECK(m != NULL && ptx_verify(m) == NULL);
	rbt_ptx_module_destroy(m);
	free(text);
}

static size_t read_all(const char *path, char **ret_text)
{
	FILE *file = fopen(path, "r");
	size_t size = 0, n, cap = 1 << 20;
	char *text = malloc(cap);

	while (file != NULL && text != NULL && (n = fread(text + size, 1, cap - size, file)) > 0) {
		size += n;
	}
	if (file != NULL) {
		fclose(file);
	}
	*ret_text = text;
	return size;
}

/* What clang made of real kernels: whole, and cut off anywhere, which is never PTX but no crash. */
static void test_kernels(const char *directory)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	unsigned count = 0;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		char path[512], *text;
		size_t size, length = strlen(entry->d_name);
		struct rbt_ptx_module *m;

		if (length < 4 || strcmp(entry->d_name + length - 4, ".ptx") != 0) {
			continue;
		}
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		size = read_all(path, &text);
		m = ptx_parse(text, size);
		if (m == NULL) {
			fprintf(stderr, "%s is refused\n", path);
		}
		CHECK(m != NULL);
		rbt_ptx_module_destroy(m);
		for (size_t cut = 0; cut < size; cut += 97) {
			m = NULL;
			if (rbt_ptx_parse(text, cut, &m, NULL) == 0) {
				rbt_ptx_module_destroy(m);
			}
		}
		free(text);
		count++;
	}
	if (dir != NULL) {
		closedir(dir);
	}
	CHECK(count > 0);
}

int main(int argc, char **argv)
{
	test_variables();
	test_shared();
	test_calls();
	test_wrong_calls();
	test_directives();
	test_scopes();
	test_meeting_points();
	test_syntax_errors();
	test_limits();
	if (argc > 1) {
		test_kernels(argv[1]);
	}
	return check_result();
}
