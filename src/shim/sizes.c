/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/sizes.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* CUDA's numbers of a device's attributes. */
#define PCI_BUS    33
#define PCI_DEVICE 34
#define PCI_DOMAIN 50

typedef int mem_get_info_fn(size_t *ret_free, size_t *ret_total);
typedef int total_mem_fn(size_t *ret_bytes, int device);
typedef int get_device_fn(int *ret_device);
typedef int get_attribute_fn(int *ret, int attribute, int device);

static _Atomic(mem_get_info_fn *) mem_get_info;
static _Atomic(total_mem_fn *) total_mem;
static _Atomic(get_device_fn *) get_device;
static _Atomic(get_attribute_fn *) get_attribute;
static _Atomic(shim_sizes_fn *) ask;

void shim_sizes_ask(shim_sizes_fn *fn)
{
	ask = fn;
}

/* The GPU's PCI address, or 0. */
static uint32_t pci_of(int device)
{
	get_attribute_fn *get = get_attribute;
	int bus, slot, domain;

	if (get == NULL || get(&bus, PCI_BUS, device) != 0 || get(&slot, PCI_DEVICE, device) != 0 ||
		get(&domain, PCI_DOMAIN, device) != 0) {
		return 0;
	}
	return (uint32_t)domain << 16 | ((uint32_t)bus & 0xff) << 8 | ((uint32_t)slot & 0xff);
}

static uint32_t pci_of_context(void)
{
	get_device_fn *get = get_device;
	int device;

	return get != NULL && get(&device) == 0 ? pci_of(device) : 0;
}

static int wrapped_mem_get_info(size_t *ret_free, size_t *ret_total)
{
	mem_get_info_fn *real = mem_get_info;
	shim_sizes_fn *state = ask;
	uint64_t limit, used;
	int r = real(ret_free, ret_total);

	if (r != 0 || ret_free == NULL || ret_total == NULL || state == NULL ||
		!state(pci_of_context(), &limit, &used)) {
		return r;
	}
	uint64_t left = limit > used ? limit - used : 0;
	*ret_total = limit < *ret_total ? limit : *ret_total;
	*ret_free = left < *ret_free ? left : *ret_free;
	return r;
}

static int wrapped_total_mem(size_t *ret_bytes, int device)
{
	total_mem_fn *real = total_mem;
	shim_sizes_fn *state = ask;
	uint64_t limit, used;
	int r = real(ret_bytes, device);

	if (r == 0 && ret_bytes != NULL && state != NULL && state(pci_of(device), &limit, &used)) {
		*ret_bytes = limit < *ret_bytes ? limit : *ret_bytes;
	}
	return r;
}

void *shim_sizes_wrap(const char *symbol, void *real)
{
	if (strcmp(symbol, "cuMemGetInfo_v2") == 0) {
		mem_get_info = (mem_get_info_fn *)(uintptr_t)real;
		return (void *)(uintptr_t)wrapped_mem_get_info;
	}
	if (strcmp(symbol, "cuDeviceTotalMem_v2") == 0) {
		total_mem = (total_mem_fn *)(uintptr_t)real;
		return (void *)(uintptr_t)wrapped_total_mem;
	}
	if (strcmp(symbol, "cuCtxGetDevice") == 0) {
		get_device = (get_device_fn *)(uintptr_t)real;
	} else if (strcmp(symbol, "cuDeviceGetAttribute") == 0) {
		get_attribute = (get_attribute_fn *)(uintptr_t)real;
	}
	return real;
}
