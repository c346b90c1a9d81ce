/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver's library to stand in for: libcuda.so.1 with functions that do nothing but remember how
 * they were called, and cuGetProcAddress in both versions. cuCtxCreate speaks enough of the
 * driver's dialogue to /dev/nvidiactl for the program to be known by; where there is none it
 * fails.
 *
 * fake_last() and fake_set() are for the test: it opens this library by its path.
 */
#include "fakedriver.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "backend/nvidia/rm_abi.h"

#define EXPORT __attribute__((visibility("default")))

/* All pointers and numbers, which are passed alike. */
typedef uintptr_t a_;
#define P0  void
#define P1  a_ a
#define P2  P1, a_ b
#define P3  P2, a_ c
#define P4  P3, a_ d
#define P5  P4, a_ e
#define P6  P5, a_ f
#define P7  P6, a_ g
#define P8  P7, a_ h
#define P9  P8, a_ i
#define P10 P9, a_ j
#define P11 P10, a_ k
#define A0
#define A1  , a
#define A2  A1, b
#define A3  A2, c
#define A4  A3, d
#define A5  A4, e
#define A6  A5, f
#define A7  A6, g
#define A8  A7, h
#define A9  A8, i
#define A10 A9, j
#define A11 A10, k

static __thread struct fake_call last;
static _Atomic uint64_t n_calls;
static int result;
static unsigned wait_us;

static int record(const char *name, int n, ...)
{
	va_list ap;

	n_calls++;
	last = (struct fake_call){.name = name, .n_args = n};
	va_start(ap, n);
	for (int i = 0; i < n; i++) {
		last.args[i] = va_arg(ap, uintptr_t);
	}
	va_end(ap);
	if (strstr(name, "Synchronize") != NULL && wait_us > 0) {
		usleep(wait_us);
	}
	return result;
}

#define FAKE(name, n)                                                                              \
	EXPORT int name(P##n);                                                                     \
	EXPORT int name(P##n)                                                                      \
	{                                                                                          \
		return record(#name, n A##n);                                                      \
	}
FAKE_FUNCTIONS(FAKE)

/* Handed out by cuGetProcAddress alone, as if the symbol table had another entry to the same. */
static int inner_cuLaunchKernelEx(a_ a, a_ b, a_ c, a_ d)
{
	return record("inner_cuLaunchKernelEx", 4, a, b, c, d);
}

EXPORT int cuParamSetf(void *function, int offset, float value);
EXPORT int cuParamSetf(void *function, int offset, float value)
{
	record("cuParamSetf", 2, function, (uintptr_t)offset);
	last.number = (double)value;
	return result;
}

EXPORT int cuInit(unsigned flags);
EXPORT int cuInit(unsigned flags)
{
	record("cuInit", 1, (uintptr_t)flags);
	return result;
}

EXPORT int cuDriverGetVersion(int *ret);
EXPORT int cuDriverGetVersion(int *ret)
{
	*ret = 13000;
	return 0;
}

/* Programs compare what is in here: it must be the driver's own. */
static const uint64_t table[3] = {sizeof(table), 0x5eed, 0xf00d};

EXPORT int cuGetExportTable(const void **ret, const void *id);
EXPORT int cuGetExportTable(const void **ret, const void *id)
{
	*ret = table;
	return 0;
}

/* Which function a name means, from which version of the interface on; the last that fits is
 * taken. */
static const struct entry {
	const char *name;
	int since;
	const char *symbol;
	void *fn;
} entries[] = {
#define ENTRY(name, since, symbol) {#name, since, #symbol, (void *)(uintptr_t)symbol},
	FAKE_ENTRIES(ENTRY)
	/* clang-format off */
	{"cuLaunchKernelEx", 11080, "inner", (void *)(uintptr_t)inner_cuLaunchKernelEx},
	{"cuInit", 2000, "cuInit", (void *)(uintptr_t)cuInit},
	{"cuGetProcAddress", 11030, "cuGetProcAddress", (void *)(uintptr_t)cuGetProcAddress},
	{"cuGetProcAddress", 12000, "cuGetProcAddress_v2", (void *)(uintptr_t)cuGetProcAddress_v2},
	{"cuGetExportTable", 3000, "cuGetExportTable", (void *)(uintptr_t)cuGetExportTable},
	/* clang-format on */
};

static int find(const char *name, void **ret, int version, uint64_t flags)
{
	const struct entry *best = NULL;

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		const struct entry *e = &entries[i];
		bool ptsz = strstr(e->symbol, "_ptsz") != NULL;
		if (strcmp(e->name, name) != 0 || e->since > version ||
			(ptsz && (flags & 2) == 0)) {
			continue;
		}
		best = e;
	}
	*ret = best != NULL ? best->fn : NULL;
	return best != NULL ? 0 : 500;
}

EXPORT int cuGetProcAddress(const char *name, void **ret, int version, uint64_t flags)
{
	return find(name, ret, version, flags);
}

EXPORT int cuGetProcAddress_v2(
	const char *name, void **ret, int version, uint64_t flags, int *ret_status)
{
	int r = find(name, ret, version, flags);

	if (ret_status != NULL) {
		*ret_status = r == 0 ? 0 : 1;
	}
	return 0;
}

/* The driver's side: a client, its device, one group with a channel, on to the runlist. */
static int ctl = -1;
static uint32_t client;

static uint32_t alloc(uint32_t parent, uint32_t hclass, void *params, uint32_t size)
{
	struct nv_alloc64 a = {.root = client,
		.parent = parent,
		.hclass = hclass,
		.params = (uintptr_t)params,
		.params_size = size};

	return ioctl(ctl, NV_IOCTL_ALLOC64, &a) == 0 && a.status == NV_OK ? a.object : 0;
}

static bool control(uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
	struct nv_control c = {.client = client,
		.object = object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_size = size};

	return ioctl(ctl, NV_IOCTL_CONTROL, &c) == 0 && c.status == NV_OK;
}

static bool make_context(void)
{
	struct nv_check_version version = {.cmd = NV_CHECK_VERSION_QUERY};
	struct nv_card_info cards[NV_MAX_GPUS] = {0};
	struct nv_device_params device_params = {0};
	struct nv_subdevice_params subdevice_params = {0};
	struct nv_tsg_params tsg_params = {.engine_type = NV_ENGINE_TYPE_GRAPHICS};
	struct nv_schedule_params schedule = {.enable = 1};
	struct nv_token_params token;
	uint8_t channel_params[368] = {0};

	ctl = open(NV_CTL_PATH, O_RDWR | O_CLOEXEC);
	if (ctl < 0 || ioctl(ctl, NV_IOCTL_CHECK_VERSION, &version) < 0 ||
		ioctl(ctl, NV_IOCTL_CARD_INFO, cards) < 0) {
		return false;
	}
	client = 0;
	client = alloc(0, NV_CLASS_ROOT_CLIENT, NULL, 0);
	uint32_t device = alloc(client, NV_CLASS_DEVICE, &device_params, sizeof(device_params));
	alloc(device, NV_CLASS_SUBDEVICE, &subdevice_params, sizeof(subdevice_params));
	uint32_t tsg = alloc(device, NV_CLASS_TSG, &tsg_params, sizeof(tsg_params));
	uint32_t channel =
		alloc(tsg, NV_CLASS_CHANNEL_HOPPER, channel_params, sizeof(channel_params));
	return control(channel, NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN, &token, sizeof(token)) &&
	       control(tsg, NV_CTRL_TSG_GPFIFO_SCHEDULE, &schedule, NV_SCHEDULE_PARAMS_SIZE);
}

EXPORT int cuCtxCreate_v2(void **ret, unsigned flags, int device);
EXPORT int cuCtxCreate_v2(void **ret, unsigned flags, int device)
{
	*ret = &ctl;
	return make_context() ? 0 : 100;
}

EXPORT const struct fake_call *fake_last(uint64_t *ret_n_calls)
{
	*ret_n_calls = n_calls;
	return &last;
}

EXPORT void fake_set(int new_result, unsigned new_wait_us)
{
	result = new_result;
	wait_us = new_wait_us;
}

/* Programs call the driver now and then for other things than work. */
EXPORT int cuDeviceGetUuid(void *ret, int device);
EXPORT int cuDeviceGetUuid(void *ret, int device)
{
	struct nv_card_info cards[NV_MAX_GPUS] = {0};

	return ctl >= 0 && ioctl(ctl, NV_IOCTL_CARD_INFO, cards) == 0 ? 0 : 201;
}
