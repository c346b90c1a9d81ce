/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses the driver's library, with tests/progs/fakedriver.c behind it.
 *
 *   cudaclient report NAME [local|global|now|deep]   opens NAME and prints everything that it can
 *                          see of the driver: with and without Rubato that must be the same
 *   cudaclient pointers NAME   names whose functions are not the driver's own
 *   cudaclient maps            opens nothing, and prints which files it has mapped
 *   cudaclient live            makes a context, and obeys lines on standard input
 *
 * $FAKE_DRIVER is the driver's library by its path.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/intercept.h"
#include "fakedriver.h"
#include "filter.h"
#include "rubato/rubato.h"

typedef uintptr_t a_;
typedef int any_fn(a_, a_, a_, a_, a_, a_, a_, a_, a_, a_, a_);
typedef int getproc_fn(const char *, void **, int, uint64_t);
typedef int getproc_v2_fn(const char *, void **, int, uint64_t, int *);

static void *lib;
static fake_last_fn *last;
static fake_set_fn *set;

static const char *const names[] = {
#define NAME(name, n) #name,
	FAKE_FUNCTIONS(NAME)
	/* Not in this driver, though in others. */
	"cuMemcpy3DBatchAsync_v2",
	"cuGraphNodeGetDependentNodes_v2",
	"cuLaunch",
	"cuGetProcAddress",
	"cuGetProcAddress_v2",
	"cuGetExportTable",
	"cuInit",
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

static void *find(void *handle, const char *name)
{
	void *p = dlsym(handle, name);

	if (p == NULL) {
		fprintf(stderr, "cudaclient: %s: %s\n", name, dlerror());
		exit(1);
	}
	return p;
}

static void open_library(const char *name, int flags)
{
	lib = dlopen(name, flags);
	if (lib == NULL) {
		printf("cannot open: %s\n", dlerror());
		exit(1);
	}
	/* After, as it would satisfy the other by its name. */
	void *real = dlopen(getenv("FAKE_DRIVER"), RTLD_LAZY);
	if (real == NULL) {
		printf("FAKE_DRIVER: %s\n", dlerror());
		exit(1);
	}
	last = (fake_last_fn *)(uintptr_t)find(real, "fake_last");
	set = (fake_set_fn *)(uintptr_t)find(real, "fake_set");
}

static int flags_of(const char *text)
{
	return strcmp(text, "global") == 0 ? RTLD_LAZY | RTLD_GLOBAL
	       : strcmp(text, "now") == 0  ? RTLD_NOW | RTLD_LOCAL
	       : strcmp(text, "deep") == 0 ? RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND
					   : RTLD_LAZY | RTLD_LOCAL;
}

/* Calls it, and prints what came of it and what the driver saw. */
static void call(const char *name, void *fn)
{
	uint64_t n_before, n;

	last(&n_before);
	errno = 123;
	int r = ((any_fn *)(uintptr_t)fn)(0x1001, 0x1002, 0x1003, 0x1004, 0x1005, 0x1006, 0x1007,
		0x1008, 0x1009, 0x100a, 0x100b);
	int error = errno;
	const struct fake_call *c = last(&n);
	printf("%s: %d, errno %d, %llu call to %s:", name, r, error,
		(unsigned long long)(n - n_before), c->name);
	for (int i = 0; i < c->n_args; i++) {
		printf(" %llx", (unsigned long long)c->args[i]);
	}
	printf("\n");
}

static bool is_plain(const char *name)
{
	return strncmp(name, "cuGet", 5) != 0;
}

static void report_symbols(void)
{
	for (size_t i = 0; i < N_NAMES; i++) {
		void *fn = dlsym(lib, names[i]);
		printf("%s %s\n", names[i], fn != NULL ? "is there" : "is not there");
		if (fn != NULL && is_plain(names[i])) {
			call(names[i], fn);
			set(719, 0);
			call(names[i], fn);
			set(0, 0);
		}
	}
	uint64_t n;
	int (*setf)(void *, int, float) =
		(int (*)(void *, int, float))(uintptr_t)find(lib, "cuParamSetf");
	int r = setf((void *)7, 5, 2.5f);
	printf("cuParamSetf: %d %g\n", r, last(&n)->number);
	int (*table)(const void **, const void *) =
		(int (*)(const void **, const void *))(uintptr_t)find(lib, "cuGetExportTable");
	const void *got = NULL;
	r = table(&got, "id");
	printf("cuGetExportTable: %d %llx\n", r, (unsigned long long)((const uint64_t *)got)[2]);
}

static void report_getproc(void *fn, bool v2)
{
	static const char *const asked[] = {"cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch",
		"cuMemcpyHtoDAsync", "cuMemcpyBatchAsync", "cuMemsetD8Async", "cuStreamSynchronize",
		"cuCtxSynchronize", "cuStreamQuery", "cuMemAllocAsync", "cuEventRecord",
		"cuNoSuchFunction"};
	static const int versions[] = {2000, 3020, 7000, 11080, 12080, 13000};

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
			for (uint64_t flags = 0; flags <= 2; flags += 2) {
				void *got = NULL;
				int status = -1;
				int r = v2 ? ((getproc_v2_fn *)(uintptr_t)fn)(
						     asked[i], &got, versions[v], flags, &status)
					   : ((getproc_fn *)(uintptr_t)fn)(
						     asked[i], &got, versions[v], flags);
				printf("cuGetProcAddress %s %d %d: %d %d\n", asked[i], versions[v],
					(int)flags, r, status);
				if (got != NULL) {
					call(asked[i], got);
				}
			}
		}
	}
}

static void report(void)
{
	getproc_v2_fn *v2 = (getproc_v2_fn *)(uintptr_t)find(lib, "cuGetProcAddress_v2");
	void *got = NULL;

	report_symbols();
	report_getproc(find(lib, "cuGetProcAddress"), false);
	report_getproc((void *)(uintptr_t)v2, true);
	/* What they give out for themselves must do the same. */
	v2("cuGetProcAddress", &got, 13000, 0, NULL);
	report_getproc(got, true);
	v2("cuGetProcAddress", &got, 11040, 0, NULL);
	report_getproc(got, false);
}

/* Which functions are not the driver's own: by name, and as cuGetProcAddress gives them. */
static void pointers(void)
{
	void *real = dlopen(getenv("FAKE_DRIVER"), RTLD_LAZY);
	getproc_v2_fn *mine = (getproc_v2_fn *)(uintptr_t)find(lib, "cuGetProcAddress_v2");
	getproc_v2_fn *theirs = (getproc_v2_fn *)(uintptr_t)find(real, "cuGetProcAddress_v2");

	for (size_t i = 0; i < N_NAMES; i++) {
		void *a = NULL, *b = NULL;
		if (dlsym(lib, names[i]) != dlsym(real, names[i])) {
			printf("%s\n", names[i]);
		}
		mine(names[i], &a, 13000, 0, NULL);
		theirs(names[i], &b, 13000, 0, NULL);
		if (a != b) {
			printf("getproc %s\n", names[i]);
		}
	}
}

static void print_maps(void)
{
	char line[4096];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		fputs(line, stdout);
	}
}

static void repeat(const char *name, long n)
{
	any_fn *fn = (any_fn *)(uintptr_t)find(lib, name);

	for (long i = 0; i < n; i++) {
		fn(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
	}
}

struct job {
	char name[64];
	long n;
};

static void *run_job(void *data)
{
	const struct job *job = data;

	repeat(job->name, job->n);
	return NULL;
}

/* threads COUNT NAME N: that many threads at once, each N calls. */
static void run_threads(long count, const char *name, long n)
{
	pthread_t threads[256];
	struct job job = {.n = n};

	snprintf(job.name, sizeof(job.name), "%s", name);
	for (long i = 0; i < count && i < 256; i++) {
		pthread_create(&threads[i], NULL, run_job, &job);
	}
	for (long i = 0; i < count && i < 256; i++) {
		pthread_join(threads[i], NULL);
	}
}

static void make_context(void)
{
	void *context;
	int (*create)(void **, unsigned, int) =
		(int (*)(void **, unsigned, int))(uintptr_t)find(lib, "cuCtxCreate_v2");
	int r = create(&context, 0, 0);

	if (r != 0) {
		fprintf(stderr, "cudaclient: no context: %d\n", r);
		exit(1);
	}
}

/* In a child: its own context, and `n` launches on it; then it stays until the parent says. */
static void run_child(long n, bool context)
{
	int ready[2];
	char c = 0;

	if (pipe(ready) < 0) {
		exit(1);
	}
	pid_t pid = fork();
	if (pid == 0) {
		if (context) {
			make_context();
		}
		repeat("cuLaunchKernel", n);
		if (write(ready[1], "x", 1) != 1) {
			_exit(1);
		}
		alarm(20);
		pause();
		_exit(0);
	}
	if (read(ready[0], &c, 1) != 1) {
		exit(1);
	}
	printf("child %d\n", (int)pid);
}

/* A queue that passes every second launch, and answers the others itself. */
#define HELD 77
static any_fn *queued_launch;
static unsigned n_queued;

static int every_second(a_ a, a_ b, a_ c, a_ d, a_ e, a_ f, a_ g, a_ h, a_ i, a_ j, a_ k)
{
	return __sync_add_and_fetch(&n_queued, 1) % 2 == 0
		       ? queued_launch(a, b, c, d, e, f, g, h, i, j, k)
		       : HELD;
}

static void *queue(const char *symbol, void *next)
{
	if (strcmp(symbol, "cuLaunchKernel") != 0) {
		return next;
	}
	queued_launch = (any_fn *)(uintptr_t)next;
	return (void *)(uintptr_t)every_second;
}

static void *other_queue(const char *symbol, void *next)
{
	return next;
}

static int set_queue(rubato_wrap_fn *wrap)
{
	rubato_standin_queue_fn *set_fn =
		(rubato_standin_queue_fn *)(uintptr_t)find(lib, "rubato_standin_queue_v1");

	return set_fn(wrap);
}

static bool obey(char *line)
{
	char word[64] = "", name[64] = "";
	long a = 0, b = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "call %63s %ld", name, &a) == 2) {
		repeat(name, a);
	} else if (sscanf(line, "threads %ld %63s %ld", &a, name, &b) == 3) {
		run_threads(a, name, b);
	} else if (sscanf(line, "wait_us %ld", &a) == 1) {
		set(0, (unsigned)a);
	} else if (sscanf(line, "fork %63s %ld", word, &a) == 2) {
		run_child(a, strcmp(word, "context") == 0);
		fflush(stdout);
		return true;
	} else if (sscanf(line, "begin %ld", &a) == 1) {
		printf("%d ", rubato_request_begin((uint64_t)a));
	} else if (strcmp(line, "end") == 0) {
		rubato_request_end();
	} else if (strcmp(line, "context") == 0) {
		make_context();
	} else if (strncmp(line, "filter ", 7) == 0) {
		printf("%d ", filter_install(line + 7));
	} else if (sscanf(line, "queue %63s", word) == 1) {
		printf("%d ", set_queue(strcmp(word, "on") == 0      ? queue
					: strcmp(word, "other") == 0 ? other_queue
								     : NULL));
	} else if (sscanf(line, "driver %63s", name) == 1) {
		rubato_standin_driver_fn *ask = (rubato_standin_driver_fn *)(uintptr_t)find(
			lib, "rubato_standin_driver_v1");
		printf("%s ", ask(name) != NULL && ask(name) != dlsym(lib, name) ? "another"
										 : "the same");
	} else if (strcmp(line, "quit") == 0) {
		return false;
	} else {
		printf("unknown: %s\n", line);
	}
	printf("ok\n");
	fflush(stdout);
	return true;
}

static int live(void)
{
	char line[1024];

	open_library("libcuda.so.1", RTLD_NOW);
	make_context();
	printf("ready pid=%d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL && obey(line)) {
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "maps") == 0) {
		print_maps();
		return 0;
	}
	if (strcmp(what, "live") == 0) {
		return live();
	}
	if (argc < 3) {
		fputs("usage: cudaclient report|pointers NAME [FLAGS] | maps | live\n", stderr);
		return 2;
	}
	open_library(argv[2], flags_of(argc > 3 ? argv[3] : ""));
	if (strcmp(what, "pointers") == 0) {
		pointers();
	} else {
		report();
	}
	return 0;
}
