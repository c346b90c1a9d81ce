/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the driver's library, under both its names, in a folder of its own. `rubato run`
 * puts that folder first in LD_LIBRARY_PATH. So it is in programs that load the driver's library,
 * and in no others. It loads the real library at the moment when that would have been loaded. Then
 * it gives out the real library's functions, through the symbol table (exports.S) and through
 * cuGetProcAddress. Functions with a role are given out as trampolines, which can be intercepted
 * (intercept.h). All others are the real functions, and so is cuGetExportTable: programs check its
 * tables against the driver.
 *
 * Functions that the real library lacks are missing here too: dlsym() returns NULL, since the
 * symbols are indirect functions. There are two exceptions. A program that is linked with a missing
 * function would not have started; here it gets CUDA_ERROR_NOT_FOUND when it calls it. If the real
 * library itself cannot be found, all functions return CUDA_ERROR_STUB_LIBRARY. Functions that a
 * newer driver has but calls.txt lacks are found by cuGetProcAddress only.
 *
 * Everything is looked up once, when the library is loaded. Like the real library, it needs only
 * libc and libdl, and no symbol newer than GLIBC_2.17.
 */
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda/intercept.h"
#include "util/libpath.h"

#define SONAME       "libcuda.so.1"
#define MAX_GETPROCS 4
#define WAIT_YIELDS  1000000

/* From the driver's documentation. */
#define CUDA_SUCCESS            0
#define CUDA_ERROR_STUB_LIBRARY 34  /* no driver behind this library */
#define CUDA_ERROR_NOT_FOUND    500 /* this driver has no such function */

/* On newer systems these have newer versions, in another library. */
#if defined(__x86_64__)
#define OLD "GLIBC_2.2.5"
#else
#define OLD "GLIBC_2.17"
#endif
__asm__(".symver dlopen, dlopen@" OLD);
__asm__(".symver dlclose, dlclose@" OLD);
__asm__(".symver dlsym, dlsym@" OLD);
__asm__(".symver dladdr, dladdr@" OLD);

/* Defined by librubato.so, if that is preloaded. */
#pragma weak rubato_count_v1
#pragma weak rubato_calls_v1

static const char *const names[] = {
#define DRIVER_SYMBOL(name, index, use) #name,
#include "cuda/symbols.inc"
#undef DRIVER_SYMBOL
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

enum use { PLAIN, INTERCEPTED, LOOKUP };
static const unsigned char uses[] = {
#define DRIVER_SYMBOL(name, index, use) use,
#include "cuda/symbols.inc"
#undef DRIVER_SYMBOL
};

#define HIDDEN __attribute__((visibility("hidden")))
extern HIDDEN const unsigned char standin_trampolines[];
#define TRAMPOLINE_SIZE 32

/* The driver's function of each name, and the same behind the count; 0: none, or not known. */
static uintptr_t reals[N_NAMES], counteds[N_NAMES];
/* The function that the name leads to now. */
extern HIDDEN _Atomic uintptr_t standin_targets[N_NAMES];
_Atomic uintptr_t standin_targets[N_NAMES];
static _Atomic(rubato_wrap_fn *) queue;

/* Entries (exports.S), if all calls of this process are counted. */
extern HIDDEN const unsigned char standin_entries[];
extern HIDDEN struct rubato_calls standin_calls;
struct rubato_calls standin_calls;
extern HIDDEN _Atomic uintptr_t standin_behind[STANDIN_ENTRIES];
_Atomic uintptr_t standin_behind[STANDIN_ENTRIES];
static _Atomic uint32_t n_entries;
static bool counts_calls;
uintptr_t standin_wake(unsigned index);
static_assert(offsetof(struct rubato_calls, parking) == 8, "entries");
static_assert(N_NAMES < STANDIN_ENTRIES, "entries");

/* Marks a stand-in, so that one does not take another for the driver. */
extern __attribute__((visibility("default"))) const int rubato_standin;
const int rubato_standin = 1;

static _Atomic int stage;
enum { NOT_LOADED, LOADING, LOADED };
static _Atomic uint32_t loading_tid;
static void *driver; /* NULL: not found */

uintptr_t standin_symbol(unsigned index);
uintptr_t standin_late(unsigned index);

/*
 * cuGetProcAddress in both its versions. The second has one more argument, which is passed on in a
 * register whether the real function reads it or not.
 */
typedef int getproc_fn(const char *, void **, int, uint64_t, void *);
static _Atomic uintptr_t getprocs[MAX_GETPROCS];
static _Atomic uint32_t n_getprocs;
static uintptr_t given_out(const char *name, uintptr_t real);

static int getproc(
	unsigned i, const char *name, void **ret, int version, uint64_t flags, void *status)
{
	int r = ((getproc_fn *)getprocs[i])(name, ret, version, flags, status);

	if (r == CUDA_SUCCESS && name != NULL && ret != NULL && *ret != NULL) {
		*ret = (void *)given_out(name, (uintptr_t)*ret);
	}
	return r;
}

#define GETPROC(i)                                                                                 \
	static int getproc_##i(                                                                    \
		const char *name, void **ret, int version, uint64_t flags, void *status)           \
	{                                                                                          \
		return getproc(i, name, ret, version, flags, status);                              \
	}
GETPROC(0)
GETPROC(1)
GETPROC(2)
GETPROC(3)
static getproc_fn *const getproc_fns[MAX_GETPROCS] = {getproc_0, getproc_1, getproc_2, getproc_3};

/* The wrapper of one of the driver's forms of cuGetProcAddress. */
static uintptr_t bind_getproc(uintptr_t real)
{
	uint32_t n = n_getprocs < MAX_GETPROCS ? n_getprocs : MAX_GETPROCS;

	for (uint32_t i = 0; i < n; i++) {
		if (getprocs[i] == real) {
			return (uintptr_t)getproc_fns[i];
		}
	}
	uint32_t i = n_getprocs++;
	if (i >= MAX_GETPROCS) {
		n_getprocs = MAX_GETPROCS;
		return real;
	}
	getprocs[i] = real;
	return (uintptr_t)getproc_fns[i];
}

static uintptr_t count(const char *symbol, uintptr_t real)
{
	return rubato_count_v1 != NULL ? (uintptr_t)rubato_count_v1(symbol, (void *)real) : real;
}

/* The entry that leads to a function; the function itself, if calls are not counted. */
static uintptr_t enter(uintptr_t next)
{
	uint32_t n = n_entries < STANDIN_ENTRIES ? n_entries : STANDIN_ENTRIES;

	if (!counts_calls || next == 0) {
		return next;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (standin_behind[i] == next) {
			return (uintptr_t)(standin_entries + (size_t)i * STANDIN_ENTRY_SIZE);
		}
	}
	uint32_t i = n_entries++;
	if (i >= STANDIN_ENTRIES) {
		n_entries = STANDIN_ENTRIES;
		return next;
	}
	standin_behind[i] = next;
	return (uintptr_t)(standin_entries + (size_t)i * STANDIN_ENTRY_SIZE);
}

static uintptr_t trampoline(size_t index)
{
	return (uintptr_t)(standin_trampolines + index * TRAMPOLINE_SIZE);
}

/* Whether the symbol is a form of the name: itself, or with a suffix such as _v2 or _ptsz. */
static bool is_form(const char *symbol, const char *name)
{
	size_t len = strlen(name);

	return strncmp(symbol, name, len) == 0 &&
	       (symbol[len] == '\0' || strncmp(symbol + len, "_v", 2) == 0 ||
		       strncmp(symbol + len, "_pt", 3) == 0);
}

/*
 * What a program gets for a function that the driver's cuGetProcAddress has answered. The address
 * tells which form that is. (The software GPU has one function for all names that it lacks, so the
 * name must match, too.) An address that no symbol has can be counted, but not intercepted: its
 * arguments are not known.
 */
static uintptr_t given_out(const char *name, uintptr_t real)
{
	for (size_t i = 0; i < N_NAMES; i++) {
		if (reals[i] == real && is_form(names[i], name)) {
			return uses[i] == INTERCEPTED ? trampoline(i) : standin_targets[i];
		}
	}
	return enter(count(name, real));
}

/* The function that the name leads to at first. */
static uintptr_t adopt(size_t i, uintptr_t real)
{
	if (real == 0 || uses[i] == PLAIN) {
		return enter(real);
	}
	return enter(uses[i] == LOOKUP ? bind_getproc(real) : count(names[i], real));
}

static int no_driver(void)
{
	return CUDA_ERROR_STUB_LIBRARY;
}

static int no_function(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

/* Opens one candidate, unless it is a stand-in itself. By its path: by its name the loader would
 * find this library. */
static bool try_path(const char *path, void *data)
{
	void *handle = access(path, R_OK) == 0 ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;

	if (handle == NULL) {
		return false;
	}
	if (dlsym(handle, "rubato_standin") != NULL) {
		dlclose(handle);
		return false;
	}
	driver = handle;
	return true;
}

static void load(void)
{
	int expected = NOT_LOADED;

	if (stage == LOADED) {
		return;
	}
	if (!atomic_compare_exchange_strong(&stage, &expected, LOADING)) {
		/* Another thread is loading; or this one, if the driver calls us meanwhile. */
		bool mine = loading_tid == (uint32_t)syscall(SYS_gettid);
		for (int i = 0; !mine && i < WAIT_YIELDS && stage == LOADING; i++) {
			sched_yield();
		}
		return;
	}
	loading_tid = (uint32_t)syscall(SYS_gettid);
	rbt_libpath_each(&rubato_standin, SONAME, try_path, NULL);
	counts_calls = rubato_calls_v1 != NULL && rubato_calls_v1(&standin_calls) != 0;
	for (size_t i = 0; driver != NULL && i < N_NAMES; i++) {
		reals[i] = (uintptr_t)dlsym(driver, names[i]);
		counteds[i] = adopt(i, reals[i]);
		standin_targets[i] = counteds[i];
	}
	stage = LOADED;
}

/* libgpu_scheduler.so is beside the stand-in's folder in the build tree, and one further up when
 * installed. */
static void open_profiler(const char *file)
{
	static const char *const places[] = {
		"/../libgpu_scheduler.so", "/../../libgpu_scheduler.so"};
	char path[4096];
	Dl_info info;

	if (dladdr(&rubato_standin, &info) == 0 || info.dli_fname == NULL) {
		return;
	}
	const char *slash = strrchr(info.dli_fname, '/');
	size_t len = slash != NULL ? (size_t)(slash - info.dli_fname) : 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (len == 0 || len + strlen(places[i]) >= sizeof(path)) {
			return;
		}
		memcpy(path, info.dli_fname, len);
		strcpy(path + len, places[i]);
		void *lib = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
		rubato_orion_profile_fn *begin =
			lib != NULL ? (rubato_orion_profile_fn *)(uintptr_t)dlsym(
					      lib, "rubato_orion_profile_v1")
				    : NULL;
		if (begin != NULL) {
			begin(file);
			return;
		}
	}
}

/* At the time when the real library would have been loaded. */
__attribute__((constructor)) static void on_load(void)
{
	const char *profile = getenv(RBT_ENV_ORION_PROFILE);

	load();
	if (profile != NULL && profile[0] != '\0' && driver != NULL) {
		open_profiler(profile);
	}
}

/* Called by the loader, maybe before this library has been relocated: accesses only its own data,
 * and calls no function. */
uintptr_t standin_symbol(unsigned index)
{
	if (stage != LOADED || driver == NULL ||
		(uses[index] == INTERCEPTED && reals[index] != 0)) {
		return (uintptr_t)(standin_trampolines + (size_t)index * TRAMPOLINE_SIZE);
	}
	return standin_targets[index];
}

/* Called by a trampoline that has no target yet. */
uintptr_t standin_late(unsigned index)
{
	load();
	if (standin_targets[index] != 0) {
		return standin_targets[index];
	}
	return (uintptr_t)(driver == NULL ? no_driver : no_function);
}

/* Called by an entry. */
uintptr_t standin_wake(unsigned index)
{
	standin_calls.wake();
	return standin_behind[index];
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *rubato_standin_driver_v1(const char *symbol)
{
	load();
	return driver != NULL ? dlsym(driver, symbol) : NULL;
}

EXPORTED int rubato_standin_queue_v1(rubato_wrap_fn *wrap)
{
	rubato_wrap_fn *old = NULL;

	load();
	if (driver == NULL) {
		return -ENODEV;
	}
	if (wrap != NULL && !atomic_compare_exchange_strong(&queue, &old, wrap) && old != wrap) {
		return -EBUSY;
	}
	for (size_t i = 0; i < N_NAMES; i++) {
		if (uses[i] == INTERCEPTED && counteds[i] != 0) {
			standin_targets[i] =
				wrap != NULL ? (uintptr_t)wrap(names[i], (void *)counteds[i])
					     : counteds[i];
		}
	}
	if (wrap == NULL) {
		queue = NULL;
	}
	return 0;
}
