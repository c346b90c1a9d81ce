/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As cudaclient, but linked with the driver's library. Prints what the driver saw; with an argument
 * it makes launches until its standard input ends, so that it can be looked at.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "fakedriver.h"

typedef uintptr_t a_;
int cuInit(unsigned flags);
int cuLaunchKernel(a_, a_, a_, a_, a_, a_, a_, a_, a_, a_, a_);
int cuGraphLaunch(a_, a_);
int cuMemcpyBatchAsync(a_, a_, a_, a_, a_, a_, a_, a_, a_);
int cuCtxSynchronize(void);
int cuCtxCreate_v2(void **, unsigned, int);
int cuStreamQuery(a_);
int cuParamSetf(void *, int, float);

static fake_last_fn *last;

static void show(int r)
{
	uint64_t n;
	const struct fake_call *c = last(&n);

	printf("%d %s", r, c->name);
	for (int i = 0; i < c->n_args; i++) {
		printf(" %llx", (unsigned long long)c->args[i]);
	}
	printf(" %g\n", c->number);
}

/* Also as a value: a program may compare them. */
static int (*const launch)(a_, a_, a_, a_, a_, a_, a_, a_, a_, a_, a_) = cuLaunchKernel;

int main(int argc, char **argv)
{
	void *context;
	void *real = dlopen(getenv("FAKE_DRIVER"), RTLD_LAZY);

	if (real == NULL) {
		printf("FAKE_DRIVER: %s\n", dlerror());
		return 1;
	}
	last = (fake_last_fn *)(uintptr_t)dlsym(real, "fake_last");
	show(cuInit(3));
	show(cuLaunchKernel(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
	show(launch(11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1));
	show(cuGraphLaunch(1, 2));
	show(cuMemcpyBatchAsync(1, 2, 3, 4, 5, 6, 7, 8, 9));
	show(cuCtxSynchronize());
	show(cuStreamQuery(9));
	show(cuParamSetf(NULL, 4, 0.5f));
	printf("%s\n", launch == cuLaunchKernel ? "same" : "differ");
	if (argc > 1) {
		show(cuCtxCreate_v2(&context, 0, 0));
		for (int i = 0; i < 100; i++) {
			cuLaunchKernel(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
		}
		printf("ready\n");
		fflush(stdout);
		while (getchar() != EOF) {
		}
	}
	return 0;
}
