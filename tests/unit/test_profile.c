/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: what is read, found, merged and written, and what a wrong file is told. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "orion/demangle.h"
#include "orion/profile.h"

#define ORION "Name,Profile,Memory_footprint,SM_usage,Duration\n"
#define OURS                                                                                       \
	"Name,Profile,Memory_footprint,SM_usage,Duration,Grid_size,Block_size,Shared,Runs,Total,"  \
	"P50,P99,Max\n"

static const struct rbt_shape small = {{1, 1, 1}, {32, 1, 1}, 0};
static const struct rbt_shape large = {{128, 4, 1}, {256, 1, 1}, 4096};

static int read_bytes(
	const char *text, size_t n, struct rbt_profile **ret, struct rbt_profile_fault *ret_fault)
{
	FILE *f = fmemopen((void *)text, n, "r");
	int error = rbt_profile_read(f, ret, ret_fault);

	fclose(f);
	return error;
}

static struct rbt_profile *read_good(const char *text)
{
	struct rbt_profile *p = NULL;
	struct rbt_profile_fault fault = {0};
	int error = read_bytes(text, strlen(text), &p, &fault);

	CHECK_INT(error, 0);
	if (error != 0) {
		fprintf(stderr, "line %u, %s: %s\n", fault.line, fault.field, fault.text);
		p = rbt_profile_create();
	}
	return p;
}

/* Whether the profile says this about a kernel. */
static bool says(const struct rbt_profile *p, const char *name, const struct rbt_shape *shape,
	enum rbt_kernel_kind kind, uint32_t sms, uint64_t duration_ns)
{
	struct rbt_kernel_facts f;

	return rbt_profile_find(p, name, shape, &f) && f.kind == kind && f.sms == sms &&
	       f.duration_ns == duration_ns;
}

static bool knows(const struct rbt_profile *p, const char *name, const struct rbt_shape *shape)
{
	struct rbt_kernel_facts f;

	return rbt_profile_find(p, name, shape, &f);
}

static void test_orion_file(void)
{
	struct rbt_profile *p = read_good(
		ORION "void at::native::vectorized_elementwise_kernel,0,0,48,5152\n"
		      "void at::native::(anonymous namespace)::CatArrayBatchedCopy,-1,0,80,5952\n"
		      "volta_sgemm_128x64_tn,1,0,72,195486\n"
		      "void (anonymous namespace)::softmax_warp_forward,0,0,96,33088\n"
		      "\"foo(int, float)\",1,7,2,10.7\r\n"
		      "\n"
		      "bar(int, float*),1.0,,,\n");

	CHECK_INT(rbt_profile_count(p), 6);
	CHECK(says(p, "_ZN2at6native29vectorized_elementwise_kernelILi4EfEEviT0_", &small,
		RBT_KERNEL_MEMORY, 48, 5152));
	CHECK(says(p,
		"_ZN2at6native54_GLOBAL__N__0123456789abcdef_10_Shape_cu_0123456789_3719"
		"CatArrayBatchedCopyIfEEvPT_",
		&large, RBT_KERNEL_UNKNOWN, 80, 5952));
	CHECK(says(p, "volta_sgemm_128x64_tn", &small, RBT_KERNEL_COMPUTE, 72, 195486));
	CHECK(says(p, "_ZN12_GLOBAL__N_120softmax_warp_forwardIfEEvPT_", NULL, RBT_KERNEL_MEMORY,
		96, 33088));
	CHECK(says(p, "_Z3fooif", &small, RBT_KERNEL_COMPUTE, 2, 10));
	CHECK(says(p, "_Z3bariPf", &small, RBT_KERNEL_COMPUTE, 0, 0));
	CHECK(!knows(p, "_ZN2at29vectorized_elementwise_kernelEv", &small));
	CHECK(!knows(p, "at::native", &small));
	rbt_profile_destroy(p);
}

/* Orion's files have a row for each launch. */
static void test_merging(void)
{
	struct rbt_profile *p = read_good(ORION "void f,1,0,3,1000\n"
						"void f,1,0,9,3000\n"
						"g,1,0,3,1000\n"
						"g,0,0,3,1000\n"
						"g,0,0,3,1000\n"
						"h,-1,0,3,1000\n"
						"h,0,0,3,0\n");

	CHECK_INT(rbt_profile_count(p), 3);
	CHECK(says(p, "_Z1fv", &small, RBT_KERNEL_COMPUTE, 9, 2000));
	CHECK(says(p, "g", &small, RBT_KERNEL_UNKNOWN, 3, 1000));
	CHECK(says(p, "h", &small, RBT_KERNEL_UNKNOWN, 3, 1000));
	CHECK_INT(rbt_profile_row(p, 0)->runs, 2);
	CHECK_INT(rbt_profile_row_total_ns(rbt_profile_row(p, 0)), 4000);
	CHECK_INT(rbt_profile_row(p, 2)->runs, 1);
	rbt_profile_destroy(p);
}

static void test_shapes(void)
{
	struct rbt_profile *p = read_good(OURS "_Z1fv,1,0,3,100,1x1x1,32x1x1,0,5,500,90,110,120\n"
					       "_Z1fv,0,0,4,200,128x4x1,256x1x1,4096,,,,,\n"
					       "_Z1fv,-1,0,5,300,,,,,,,,\n"
					       "_Z1gv,1,0,6,400,1x1x1,32x1x1,0,,,,,\n"
					       "h,1,0,7,500,1x1x1,32x1x1,0,,,,,\n"
					       "h,0,0,8,600,1x1x1,32x1x1,0,,,,,\n");
	struct rbt_shape other = large;

	CHECK_INT(rbt_profile_count(p), 5);
	CHECK(says(p, "_Z1fv", &small, RBT_KERNEL_COMPUTE, 3, 100));
	CHECK(says(p, "_Z1fv", &large, RBT_KERNEL_MEMORY, 4, 200));
	other.shared = 0;
	CHECK(says(p, "_Z1fv", &other, RBT_KERNEL_UNKNOWN, 5, 300));
	CHECK(says(p, "_Z1fv", NULL, RBT_KERNEL_UNKNOWN, 5, 300));
	CHECK(!knows(p, "_Z1gv", &other));
	CHECK(says(p, "_Z1hv", &small, RBT_KERNEL_MEMORY, 8, 600)); /* the later row */
	CHECK_INT(rbt_profile_row(p, 0)->p99_ns, 110);
	CHECK_INT(rbt_profile_row(p, 0)->max_ns, 120);
	rbt_profile_destroy(p);
}

/* What was written reads as the same, and the columns of others are ignored. */
static void test_writing(void)
{
	static const char text[] =
		OURS "\"a \"\"b\"\"<1, 2>\",1,9,3,100,1x1x1,32x1x1,0,5,500,90,110,120\n"
		     "_Z1fv,0,0,0,0,,,,,,,,\n"
		     "_Z1gv,-1,0,4294967295,18446744073709551615,,,,,,,,\n";
	struct rbt_profile *p = read_good(text), *q;
	char *written = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&written, &size);

	CHECK_INT(rbt_profile_write(p, f), 0);
	fclose(f);
	CHECK(strcmp(written, text) == 0);
	free(written);
	rbt_profile_destroy(p);

	q = read_good("\xef\xbb\xbfName,Profile,Memory_footprint,SM_usage,Duration,Block,Grid\n"
		      "f,1,0,2,5,\"(1, 1, 1)\",whatever\n");
	CHECK(says(q, "f", &small, RBT_KERNEL_COMPUTE, 2, 5));
	CHECK(!rbt_profile_row(q, 0)->has_shape);
	rbt_profile_destroy(q);
}

static void test_full_disk(void)
{
	struct rbt_profile *p = read_good(ORION "f,1,0,3,100\n");
	FILE *f = fopen("/dev/full", "w");

	if (f != NULL) {
		setvbuf(f, NULL, _IONBF, 0);
		CHECK_INT(rbt_profile_write(p, f), -ENOSPC);
		fclose(f);
	}
	rbt_profile_destroy(p);
}

static void check_wrong(
	const char *text, int error, unsigned line, const char *field, const char *words)
{
	struct rbt_profile *p = NULL;
	struct rbt_profile_fault fault = {0};

	CHECK_INT(read_bytes(text, strlen(text), &p, &fault), error);
	CHECK(p == NULL);
	CHECK_INT(fault.line, line);
	if (strcmp(fault.field, field) != 0 || strstr(fault.text, words) == NULL) {
		fprintf(stderr, "'%s': field '%s', text '%s'\n", text, fault.field, fault.text);
		CHECK(false);
	}
	for (const char *s = fault.text; *s != '\0'; s++) {
		CHECK(*s >= ' ' && *s <= '~');
	}
}

static void test_wrong_files(void)
{
	check_wrong("\n\n", -EBADMSG, 0, "", "empty");
	check_wrong("{}\n", -EBADMSG, 1, "Name", "column 1 of the first line must be Name");
	check_wrong("Name,Profile,SM_usage,Memory_footprint,Duration\n", -EBADMSG, 1,
		"Memory_footprint", "column 3");
	check_wrong("Name,Profile,Memory_footprint,SM_usage,Duration,Runs,Runs\n", -EBADMSG, 1,
		"Runs", "twice");
	check_wrong(ORION "f,1,0,3,100\nf,1,0\n", -EBADMSG, 3, "", "has 3 fields");
	check_wrong(ORION "\n\nf,2,0,3,100\n", -EBADMSG, 4, "Profile", "'2' is neither");
	check_wrong(ORION "f,1.5,0,3,100\n", -EBADMSG, 2, "Profile", "'1.5'");
	check_wrong(ORION "f,99999999999999999999,0,3,100\n", -EBADMSG, 2, "Profile", "neither");
	check_wrong(ORION "f,1,-1,3,100\n", -EBADMSG, 2, "Memory_footprint", "'-1'");
	check_wrong(ORION "f,1,0,4294967296,100\n", -EBADMSG, 2, "SM_usage", "4294967295");
	check_wrong(ORION "f,1,0,3,18446744073709551616\n", -EBADMSG, 2, "Duration", "number");
	check_wrong(ORION "f,1,0,3,1e5\n", -EBADMSG, 2, "Duration", "'1e5'");
	check_wrong(ORION "f,1,0,3,\033[2J\xff\n", -EBADMSG, 2, "Duration", "'?[2J?'");
	check_wrong(ORION ",1,0,3,1\n", -EBADMSG, 2, "Name", "empty");
	check_wrong(ORION "a\tb,1,0,3,1\n", -EBADMSG, 2, "Name", "control");
	check_wrong(ORION "\"f,1,0,3,1\n", -EBADMSG, 2, "", "quote");
	check_wrong(ORION "\"f\"x,1,0,3,1\n", -EBADMSG, 2, "", "quote");
	check_wrong(ORION "\"f\",g,1,0,3,1\n", -EBADMSG, 2, "", "has 6 fields");
	check_wrong(OURS "f,g,1,0,3,1,,,,,,,,\n", -EBADMSG, 2, "", "has 14 fields");
	check_wrong(OURS "f,1,0,3,1,1x1,1x1x1,0,,,,,\n", -EBADMSG, 2, "Grid_size", "'1x1'");
	check_wrong(OURS "f,1,0,3,1,1x1x1,1x1x1x,0,,,,,\n", -EBADMSG, 2, "Block_size", "form");
	check_wrong(OURS "f,1,0,3,1,1x1x1,,0,,,,,\n", -EBADMSG, 2, "Block_size", "missing");
	check_wrong(OURS "f,1,0,3,1,,,,5,x,,,\n", -EBADMSG, 2, "Total", "'x'");
}

static void test_limits(void)
{
	struct rbt_profile *p = NULL;
	struct rbt_profile_fault fault = {0};
	size_t size = RBT_PROFILE_MAX_BYTES + 1;
	char *text = malloc(size + 1), *s = text;

	memset(text, 'x', size);
	CHECK_INT(read_bytes(text, size, &p, &fault), -EFBIG);
	CHECK(strstr(fault.text, "16 MiB") != NULL && fault.line == 0);
	memcpy(text, ORION, strlen(ORION)); /* one name that fills the file */
	CHECK_INT(read_bytes(text, size - 2, &p, &fault), -EBADMSG);
	CHECK_INT(fault.line, 2);
	memset(text + strlen(ORION), ',', size - strlen(ORION));
	CHECK_INT(read_bytes(text, size - 1, &p, &fault), -EBADMSG);
	CHECK(strstr(fault.text, "256 fields") != NULL);
	CHECK_INT(read_bytes(
			  ORION "f,1,0\0,3,100\n", sizeof(ORION "f,1,0\0,3,100\n") - 1, &p, &fault),
		-EBADMSG);
	CHECK(strstr(fault.text, "zero bytes") != NULL);

	s = stpcpy(s, ORION);
	for (unsigned i = 0; i <= RBT_PROFILE_MAX_ROWS; i++) {
		s += sprintf(s, "k%u,0,0,1,%u\n", i, i);
	}
	CHECK_INT(read_bytes(text, (size_t)(s - text), &p, &fault), -E2BIG);
	CHECK_INT(fault.line, RBT_PROFILE_MAX_ROWS + 2);
	s[-1] = '\0';
	*strrchr(text, '\n') = '\0';
	p = read_good(text);
	CHECK_INT(rbt_profile_count(p), RBT_PROFILE_MAX_ROWS);
	CHECK(says(p, "k99999", &small, RBT_KERNEL_MEMORY, 1, 99999));
	CHECK(says(p, "_Z6k54321v", &small, RBT_KERNEL_MEMORY, 1, 54321));
	rbt_profile_destroy(p);
	free(text);
}

static void test_adding(void)
{
	struct rbt_profile *p = rbt_profile_create();
	char *name = malloc(RBT_PROFILE_MAX_NAME + 2);
	struct rbt_profile_row row = {.name = "f", .facts = {RBT_KERNEL_COMPUTE, 1, 10}};

	CHECK(!knows(p, "f", &small));
	CHECK_INT(rbt_profile_add(p, &row), 0);
	row.facts.sms = 2;
	CHECK_INT(rbt_profile_add(p, &row), 0);
	CHECK_INT(rbt_profile_count(p), 1);
	CHECK(says(p, "f", &small, RBT_KERNEL_COMPUTE, 2, 10));
	row.has_shape = true;
	row.shape = small;
	row.facts.sms = 3;
	CHECK_INT(rbt_profile_add(p, &row), 0);
	CHECK_INT(rbt_profile_count(p), 2);
	CHECK(says(p, "f", &small, RBT_KERNEL_COMPUTE, 3, 10));
	CHECK(says(p, "f", &large, RBT_KERNEL_COMPUTE, 2, 10));
	row.name = "";
	CHECK_INT(rbt_profile_add(p, &row), -EINVAL);
	row.name = "a\nb";
	CHECK_INT(rbt_profile_add(p, &row), -EINVAL);
	memset(name, 'n', RBT_PROFILE_MAX_NAME + 1);
	name[RBT_PROFILE_MAX_NAME + 1] = '\0';
	row.name = name;
	CHECK_INT(rbt_profile_add(p, &row), -EINVAL);
	name[RBT_PROFILE_MAX_NAME] = '\0';
	for (int i = 0; i < 511; i++) {
		name[0] = (char)('A' + i / 32);
		name[1] = (char)('A' + i % 32);
		CHECK_INT(rbt_profile_add(p, &row), 0);
	}
	name[2] = '!';
	CHECK_INT(rbt_profile_add(p, &row), 0);
	name[2] = '?';
	CHECK_INT(rbt_profile_add(p, &row), -E2BIG); /* 16 MiB of names */
	FILE *f = fopen("/dev/null", "w");
	CHECK_INT(rbt_profile_write(p, f), -EFBIG); /* with the numbers it is more */
	fclose(f);
	free(name);
	rbt_profile_destroy(p);
	rbt_profile_destroy(NULL);
}

static void check_stem(const char *mangled, const char *expected)
{
	char buf[256] = "";

	CHECK_INT(rbt_demangle_stem(mangled, buf, sizeof(buf)), strlen(expected));
	if (strcmp(expected, "") != 0 && strcmp(buf, expected) != 0) {
		fprintf(stderr, "%s: '%s', not '%s'\n", mangled, buf, expected);
		CHECK(false);
	}
}

static void check_name_stem(const char *name, const char *expected)
{
	size_t n;
	const char *s = rbt_name_stem(name, &n);

	if (n != strlen(expected) || memcmp(s, expected, n) != 0) {
		fprintf(stderr, "%s: '%.*s', not '%s'\n", name, (int)n, s, expected);
		CHECK(false);
	}
}

static void test_names(void)
{
	char buf[8];

	check_stem("_Z5saxpyPfS_f", "saxpy");
	check_stem("_Z5saxpyIfEvPT_S1_S0_", "saxpy");
	check_stem("_ZL5saxpyPf", "saxpy");
	check_stem("_ZN2at6native6kernelIfEEvT_", "at::native::kernel");
	check_stem("_ZN7cutlass6KernelIN4cute5tupleIJEEEEEvNT_6ParamsE", "cutlass::Kernel");
	check_stem("_ZN3fooIiE3barEv", "foo"); /* Orion cuts at the first < */
	check_stem("_ZN12_GLOBAL__N_1L1fEv", "(anonymous namespace)::f");
	check_stem("_ZNSt3__14sortEv", "std::__1::sort");
	check_stem("_ZSt4sortv", "std::sort");
	check_stem("_ZNK1a1bEv", "a::b");
	check_stem("_Z1fB5cxx11v", "f[abi:cxx11]");
	check_stem("saxpy", "");
	check_stem("_Z", "");
	check_stem("_ZN", "");
	check_stem("_ZN1a", "");
	check_stem("_Z9saxpy", "");
	check_stem("_Z99999999999999999999f", "");
	check_stem("_ZplRK1aS1_", "");
	check_stem("_ZZN1a1bEvENKUlvE_clEv", "");
	check_stem("_ZN1aC1Ev", "");
	CHECK_INT(rbt_demangle_stem("_Z7abcdefgv", buf, sizeof(buf)), 7);
	CHECK_INT(rbt_demangle_stem("_Z8abcdefghv", buf, sizeof(buf)), 0);
	CHECK_INT(rbt_demangle_stem("_Z1av", buf, 0), 0);

	check_name_stem("void a::b<int, 3>(float*)", "a::b");
	check_name_stem("void at::native::(anonymous namespace)::f<int>",
		"at::native::(anonymous namespace)::f");
	check_name_stem("void (anonymous namespace)::f", "(anonymous namespace)::f");
	check_name_stem("(anonymous namespace)::f(int)", "(anonymous namespace)::f");
	check_name_stem("unsigned int f  (int)", "f");
	check_name_stem("_Z1fv", "_Z1fv");
	check_name_stem("(graph 1)", "(graph 1)");
	check_name_stem("<lambda>", "<lambda>");
	check_name_stem("", "");
}

int main(void)
{
	test_orion_file();
	test_merging();
	test_shapes();
	test_writing();
	test_full_disk();
	test_wrong_files();
	test_limits();
	test_adding();
	test_names();
	return check_result();
}
