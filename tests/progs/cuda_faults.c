/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that does wrong kills its context, with the error that a GPU gives, and no other
 * context or process; and what kernels print. usage: cuda_faults KERNELS
 */
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

static const char *kernels;

/* In a process of its own: a fault on hardware is the end of all the process's contexts. */
static void in_child(const char *name, void (*fn)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		fn();
		exit(check_result());
	}
	int status = -1;

	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	if (status != 0) {
		fprintf(stderr, "in %s\n", name);
	}
}

static void launch(const char *module, const char *name, void **params)
{
	void *function = cuda_api_function(cuda_api_module(kernels, module), name);

	OK(cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
}

/* The error stays with the context, whatever is called; the rest of the program goes on. */
static void expect_dead(void *context, int error)
{
	uint64_t data;
	uint32_t word = 0;
	void *other;

	CHECK_INT(cu.cuCtxSynchronize(), error);
	CHECK_INT(cu.cuCtxSynchronize(), error);
	CHECK_INT(cu.cuMemAlloc_v2(&data, 16), error);
	CHECK_INT(cu.cuStreamSynchronize(NULL), error);
	OK(cu.cuCtxDestroy_v2(context));
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	OK(cu.cuMemAlloc_v2(&data, 16));
	OK(cu.cuMemcpyHtoD_v2(data, &word, 4));
	OK(cu.cuCtxSynchronize());
	OK(cu.cuCtxDestroy_v2(other));
}

static void fault_poke(uint64_t address, int error)
{
	void *context, *module, *function;
	uint32_t value = 1;
	void *params[] = {&address, &value};
	int soft = cuda_api_start(&context);

	MUST(cu.cuModuleLoadData(&module, test_ptx));
	function = cuda_api_function(module, "poke");
	OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	if (soft) {
		expect_dead(context, error);
	} else {
		CHECK_INT(cu.cuCtxSynchronize(), error);
	}
}

static void fault_null(void)
{
	fault_poke(0, 700);
}

static void fault_far(void)
{
	fault_poke(0x100000000000ull + (1ull << 40), 700);
}

static void fault_misaligned(void)
{
	void *context;
	uint64_t data;

	cuda_api_start(&context);
	MUST(cu.cuMemAlloc_v2(&data, 64));
	fault_poke(data + 2, 716);
}

/* On hardware it is that very error only where it is exact. */
static void fault_in_kernel(const char *name, int error, bool exact)
{
	void *context;
	uint64_t data;
	uint32_t n = 0;
	void *params[] = {&data, &data, &n};
	int soft = cuda_api_start(&context);

	data = cuda_api_zeros(32);
	launch("faults", name, params);
	if (soft) {
		expect_dead(context, error);
	} else {
		int got = cu.cuCtxSynchronize();
		CHECK(got == error || (got != 0 && !exact));
	}
}

static void fault_trap(void)
{
	fault_in_kernel("fault_trap", 719, false);
}

static void fault_assert(void)
{
	fault_in_kernel("fault_assert", 710, true);
}

/* Calls that never come back end where the stack does: how deep they were is in pinned memory. */
static uint32_t depth_of(size_t stack)
{
	void *context;
	uint32_t *depth, found;
	size_t limit = 0;
	void *params[] = {&depth};
	int soft = cuda_api_start(&context);

	MUST(cu.cuCtxSetLimit(0, stack));
	MUST(cu.cuCtxGetLimit(&limit, 0));
	CHECK(limit >= stack);
	MUST(cu.cuMemHostAlloc((void **)&depth, 4096, 2));
	launch("calls", "recurse_endless", params);
	CHECK(cu.cuCtxSynchronize() != 0);
	found = depth[0];
	if (soft) {
		expect_dead(context, 714);
	}
	return found;
}

static void fault_stack(void)
{
	uint32_t depth = depth_of(1024);

	CHECK(depth > 5);
}

static void fault_deep_stack(void)
{
	uint32_t depth = depth_of(32768);

	CHECK(depth > 300);
}

/* Another context's memory is not this one's, and its owner does not notice. */
static void fault_neighbour(void)
{
	void *first, *second, *module;
	uint64_t data;
	uint32_t value = 1, got = 9;
	void *params[] = {&data, &value};

	if (!cuda_api_start(&first)) {
		return;
	}
	MUST(cu.cuMemAlloc_v2(&data, 16));
	MUST(cu.cuMemsetD32_v2(data, 5, 4));
	MUST(cu.cuCtxSynchronize());
	MUST(cu.cuCtxCreate_v2(&second, 0, 0));
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	OK(cu.cuLaunchKernel(
		cuda_api_function(module, "poke"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK_INT(cu.cuCtxSynchronize(), 700);
	OK(cu.cuCtxSetCurrent(first));
	OK(cu.cuMemcpyDtoH_v2(&got, data, 4));
	CHECK_INT(got, 5);
	OK(cu.cuCtxDestroy_v2(second));
	OK(cu.cuCtxDestroy_v2(first));
}

/* What a kernel prints is there when the program has synchronised, in its own order. */
static void print_lines(void)
{
	void *context;
	uint64_t data, out;
	uint32_t n = 32;
	void *params[] = {&data, &out, &n};
	char line[64] = "";
	int fds[2], lines = 0;

	CHECK_INT(pipe(fds), 0);
	dup2(fds[1], STDOUT_FILENO);
	close(fds[1]);
	cuda_api_start(&context);
	MUST(cu.cuMemAlloc_v2(&data, 128));
	MUST(cu.cuMemAlloc_v2(&out, 128));
	MUST(cu.cuMemsetD32_v2(data, 3, 32));
	launch("faults", "print_lines", params);
	OK(cu.cuCtxSynchronize());
	fflush(stdout);
	close(STDOUT_FILENO);
	FILE *in = fdopen(fds[0], "r");

	while (in != NULL && fgets(line, sizeof(line), in) != NULL) {
		char expected[64];

		snprintf(expected, sizeof(expected), "%d: 3 1.5 odd\n", lines++);
		CHECK(strcmp(line, expected) == 0);
	}
	CHECK_INT(lines, 32);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		return 2;
	}
	kernels = argv[1];
	in_child("null", fault_null);
	in_child("far", fault_far);
	in_child("misaligned", fault_misaligned);
	in_child("trap", fault_trap);
	in_child("assert", fault_assert);
	in_child("stack", fault_stack);
	in_child("deep stack", fault_deep_stack);
	in_child("neighbour", fault_neighbour);
	in_child("print", print_lines);
	return check_result();
}
