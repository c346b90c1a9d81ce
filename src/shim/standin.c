/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the driver's library, under both its names in a folder of its own, which `rubato
 * run` puts first in LD_LIBRARY_PATH. So it is there in programs that load the driver's library,
 * and in no others. It does two things: it loads the real library, at the moment when that would
 * have been loaded, and it hands out that library's functions, through the symbol table (exports.S)
 * and through cuGetProcAddress; those that librubato.so counts, by way of a wrapper of its.
 *
 * Without librubato.so, or in a program that was not started by `rubato run`, every name is the
 * real function. cuGetExportTable always is: programs check its tables against the driver.
 *
 * What the real library lacks is missing here too: dlsym() answers NULL, since the symbols are
 * indirect functions. Two cases remain where there is something to call. Programs that are linked
 * with a function which this driver lacks would not have started: they get CUDA_ERROR_NOT_FOUND.
 * And if the real library itself cannot be found, all functions answer CUDA_ERROR_STUB_LIBRARY.
 * Functions that a newer driver has and driver-names.txt does not are found by cuGetProcAddress
 * alone.
 *
 * Everything is looked up once, when the library is loaded. Needs libc and libdl alone, as the real
 * library does, and no symbol newer than GLIBC_2.17.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/wrap.h"
#include "util/libpath.h"

#define SONAME       "libcuda.so.1"
#define MAX_GETPROCS 4
#define WAIT_YIELDS  1000000

/* From the driver's documentation. */
#define CUDA_SUCCESS            0
#define CUDA_ERROR_STUB_LIBRARY 34  /* no driver behind this library */
#define CUDA_ERROR_NOT_FOUND    500 /* this driver has no such function */

/* These have newer versions, in another library, on newer systems. */
#if defined(__x86_64__)
#define OLD "GLIBC_2.2.5"
#else
#define OLD "GLIBC_2.17"
#endif
__asm__(".symver dlopen, dlopen@" OLD);
__asm__(".symver dlclose, dlclose@" OLD);
__asm__(".symver dlsym, dlsym@" OLD);

/* librubato.so has it, if that is preloaded. */
#pragma weak rubato_shim_wrap_v1

static const char *const names[] = {
#define DRIVER_NAME(name, index) #name,
#include "driver-names.inc"
#undef DRIVER_NAME
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

#define HIDDEN __attribute__((visibility("hidden")))
extern HIDDEN const unsigned char standin_trampolines[];
#define TRAMPOLINE_SIZE 32

/* What a name stands for; NULL: nothing, or not known yet. */
extern HIDDEN _Atomic uintptr_t standin_targets[N_NAMES];
_Atomic uintptr_t standin_targets[N_NAMES];

/* So that one stand-in does not take another for the driver. */
extern __attribute__((visibility("default"))) const int rubato_standin;
const int rubato_standin = 1;

static _Atomic int stage;
enum { NOT_LOADED, LOADING, LOADED };
static _Atomic uint32_t loading_tid;
static void *driver; /* NULL: none was found */

uintptr_t standin_symbol(unsigned index);
uintptr_t standin_late(unsigned index);

/*
 * cuGetProcAddress in both its versions: the second has one argument more, which is passed on in a
 * register whether the real one looks at it or not.
 */
typedef int getproc_fn(const char *, void **, int, uint64_t, void *);
static _Atomic uintptr_t getprocs[MAX_GETPROCS];
static _Atomic uint32_t n_getprocs;
static uintptr_t adopt(const char *name, uintptr_t real);

static int getproc(
	unsigned i, const char *name, void **ret, int version, uint64_t flags, void *status)
{
	int r = ((getproc_fn *)getprocs[i])(name, ret, version, flags, status);

	if (r == CUDA_SUCCESS && name != NULL && ret != NULL && *ret != NULL) {
		*ret = (void *)adopt(name, (uintptr_t)*ret);
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

static bool is_getproc(const char *name)
{
	return strcmp(name, "cuGetProcAddress") == 0 || strcmp(name, "cuGetProcAddress_v2") == 0;
}

static uintptr_t bind_getproc(uintptr_t real, bool may_add)
{
	uint32_t n = n_getprocs < MAX_GETPROCS ? n_getprocs : MAX_GETPROCS;

	for (uint32_t i = 0; i < n; i++) {
		if (getprocs[i] == real) {
			return (uintptr_t)getproc_fns[i];
		}
	}
	if (!may_add || n == MAX_GETPROCS) {
		return real;
	}
	uint32_t i = n_getprocs++;
	if (i >= MAX_GETPROCS) {
		n_getprocs = MAX_GETPROCS;
		return real;
	}
	getprocs[i] = real;
	return (uintptr_t)getproc_fns[i];
}

/* What to give out for a function of the driver's. */
static uintptr_t adopt(const char *name, uintptr_t real)
{
	if (real == 0 || rubato_shim_wrap_v1 == NULL) {
		return real;
	}
	uintptr_t got = bind_getproc(real, is_getproc(name));
	return got != real ? got : (uintptr_t)rubato_shim_wrap_v1(name, (void *)real);
}

static int no_driver(void)
{
	return CUDA_ERROR_STUB_LIBRARY;
}

static int no_function(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

/* Opens one candidate, unless it is a stand-in itself: by its path, since by its name the loader
 * would find us. */
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
		/* Another thread is at it; or this one, should the driver call us meanwhile. */
		bool mine = loading_tid == (uint32_t)syscall(SYS_gettid);
		for (int i = 0; !mine && i < WAIT_YIELDS && stage == LOADING; i++) {
			sched_yield();
		}
		return;
	}
	loading_tid = (uint32_t)syscall(SYS_gettid);
	rbt_libpath_each(&rubato_standin, SONAME, try_path, NULL);
	for (size_t i = 0; driver != NULL && i < N_NAMES; i++) {
		standin_targets[i] = adopt(names[i], (uintptr_t)dlsym(driver, names[i]));
	}
	stage = LOADED;
}

/* As the real library would have been loaded now. */
__attribute__((constructor)) static void on_load(void)
{
	load();
}

/* Answers the loader. May run before this library has been relocated: touches nothing but its own
 * data, and calls nobody. */
uintptr_t standin_symbol(unsigned index)
{
	if (stage != LOADED || driver == NULL) {
		return (uintptr_t)(standin_trampolines + (size_t)index * TRAMPOLINE_SIZE);
	}
	return standin_targets[index];
}

/* Answers a trampoline that has no target yet. */
uintptr_t standin_late(unsigned index)
{
	load();
	if (standin_targets[index] != 0) {
		return standin_targets[index];
	}
	return (uintptr_t)(driver == NULL ? no_driver : no_function);
}
