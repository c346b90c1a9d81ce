/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: numbers, names, and capabilities. */
#include <stdio.h>
#include <string.h>

#include "softgpu/cuda/front.h"
#include "softgpu/rm/rm.h"

#define COMPUTE_MAJOR 7
#define COMPUTE_MINOR 0

static const struct CUuuid base_uuid = {RBT_RM_UUID};

CUresult cuDeviceGet(CUdevice *ret_device, int ordinal)
{
	struct front_device *dev;
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && ret_device == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_check_device(ordinal, &dev);
	}
	if (r == CUDA_SUCCESS) {
		*ret_device = dev->ordinal;
	}
	return r;
}

CUresult cuDeviceGetCount(int *ret_count)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && ret_count == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_count = front.n_devices;
	}
	return r;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && (name == NULL || size <= 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		snprintf(name, (size_t)size, "%s",
			dev->card.name[0] != '\0' ? dev->card.name : "Rubato software GPU");
	}
	return r;
}

CUresult cuDeviceGetUuid(struct CUuuid *ret_uuid, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && ret_uuid == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_uuid = base_uuid;
		ret_uuid->bytes[15] = (unsigned char)dev->ordinal;
	}
	return r;
}

CUresult cuDeviceGetUuid_v2(struct CUuuid *ret_uuid, CUdevice device)
{
	return cuDeviceGetUuid(ret_uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t *ret_bytes, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && ret_bytes == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_bytes = dev->memory_bytes;
	}
	return r;
}

/* Attributes that are the same for all devices. Attributes that are not listed are 0: textures,
 * surfaces, sharing between processes, clusters, stream memory operations and so on are not
 * supported. */
static const struct {
	int attribute, value;
} attributes[] = {
	{1, GPU_MAX_BLOCK},                 /* threads per block */
	{2, 1024},                          /* block x */
	{3, 1024},                          /* block y */
	{4, 64},                            /* block z */
	{5, GPU_MAX_GRID_X},                /* grid x */
	{6, GPU_MAX_GRID_YZ},               /* grid y */
	{7, GPU_MAX_GRID_YZ},               /* grid z */
	{8, FRONT_STATIC_MAX},              /* shared memory per block */
	{9, 65536},                         /* constant memory */
	{10, 32},                           /* warp size */
	{11, 0x7fffffff},                   /* pitch */
	{12, 65536},                        /* registers per block */
	{13, 1000000 / GPU_INSTRUCTION_NS}, /* clock, kHz: the virtual one */
	{14, 512},                          /* texture alignment */
	{15, 1},                            /* copies beside kernels */
	{19, 1},                            /* maps host memory */
	{30, 512},                          /* surface alignment */
	{31, 1},                            /* concurrent kernels */
	{36, 1000000},                      /* memory clock, kHz */
	{37, 64},                           /* memory bus, bits */
	{38, 4 << 20},                      /* L2 cache */
	{39, GPU_SM_THREADS},               /* threads per SM */
	{40, 3},                            /* copy engines */
	{41, 1},                            /* unified addressing */
	{51, 32},                           /* texture pitch alignment */
	{75, COMPUTE_MAJOR}, {76, COMPUTE_MINOR},
	{78, 1},                /* stream priorities are kept, and have no effect */
	{79, 1},                /* L1 for global memory */
	{80, 1},                /* and for local */
	{81, GPU_SM_SHARED},    /* shared memory per SM */
	{82, 65536},            /* registers per SM */
	{83, 1},                /* managed memory */
	{87, 1},                /* single to double precision */
	{89, 1},                /* concurrent managed access */
	{90, 1},                /* compute preemption */
	{95, 1},                /* cooperative launch */
	{97, GPU_BLOCK_SHARED}, /* shared memory per block, when asked for */
	{99, 1},                /* host memory can be registered */
	{101, 1},               /* managed memory read by the host without moving */
	{106, GPU_SM_BLOCKS},   /* blocks per SM */
	{115, 1},               /* memory pools */
	{126, 1},               /* memory synchronisation domains */
	{134, -1},              /* host NUMA node */
};
#define ATTRIBUTE_MAX 148

static bool device_attribute(const struct front_device *dev, int attribute, int *ret)
{
	switch (attribute) {
	case 16:
		*ret = (int)dev->n_sms;
		return true;
	case 33:
		*ret = (int)dev->card.bus;
		return true;
	case 34:
		*ret = (int)dev->card.slot;
		return true;
	case 50:
		*ret = (int)dev->card.domain;
		return true;
	case 85:
		*ret = dev->ordinal; /* each is a board of its own */
		return true;
	default:
		return false;
	}
}

CUresult cuDeviceGetAttribute(int *ret_value, int attribute, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_value == NULL || attribute <= 0 || attribute >= ATTRIBUTE_MAX) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (device_attribute(dev, attribute, ret_value)) {
		return CUDA_SUCCESS;
	}
	*ret_value = 0;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		if (attributes[i].attribute == attribute) {
			*ret_value = attributes[i].value;
		}
	}
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(struct CUdevprop *ret, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && ret == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret = (struct CUdevprop){.maxThreadsPerBlock = GPU_MAX_BLOCK,
			.maxThreadsDim = {1024, 1024, 64},
			.maxGridSize = {GPU_MAX_GRID_X, GPU_MAX_GRID_YZ, GPU_MAX_GRID_YZ},
			.sharedMemPerBlock = FRONT_STATIC_MAX,
			.totalConstantMemory = 65536,
			.SIMDWidth = 32,
			.memPitch = 0x7fffffff,
			.regsPerBlock = 65536,
			.clockRate = 1000000 / GPU_INSTRUCTION_NS,
			.textureAlign = 512};
	}
	return r;
}

CUresult cuDeviceComputeCapability(int *ret_major, int *ret_minor, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && (ret_major == NULL || ret_minor == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_major = COMPUTE_MAJOR;
		*ret_minor = COMPUTE_MINOR;
	}
	return r;
}

CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && (id == NULL || size < 1)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		snprintf(id, (size_t)size, "%04x:%02x:%02x.0", dev->card.domain, dev->card.bus,
			dev->card.slot);
	}
	return r;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *ret_device, const char *id)
{
	unsigned domain = 0, bus, slot, function = 0;
	CUresult r = front_check_init();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_device == NULL || id == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* domain:bus:device.function, domain:bus:device, bus:device.function */
	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3 &&
		(domain = 0, sscanf(id, "%x:%x.%x", &bus, &slot, &function) != 3)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (int i = 0; i < front.n_devices; i++) {
		const struct front_card *card = &front.devices[i].card;

		if (card->domain == domain && card->bus == bus && card->slot == slot &&
			function == 0) {
			*ret_device = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

/* All devices have their memory at the same addresses, so none can access another's. */
CUresult cuDeviceCanAccessPeer(int *ret_can, CUdevice device, CUdevice peer)
{
	struct front_device *a, *b;
	CUresult r = front_check_device(device, &a);

	if (r == CUDA_SUCCESS) {
		r = front_check_device(peer, &b);
	}
	if (r == CUDA_SUCCESS && ret_can == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_can = 0;
	}
	return r;
}

CUresult cuDeviceGetP2PAttribute(int *ret_value, int attribute, CUdevice device, CUdevice peer)
{
	if (attribute < 1 || attribute > 5) {
		CUresult r = front_check_init();

		return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
	}
	if (device == peer) {
		CUresult r = front_check_init();

		return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_DEVICE;
	}
	return cuDeviceCanAccessPeer(ret_value, device, peer);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (!front_is(peer, FRONT_CONTEXT)) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	return flags != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	return front_is(peer, FRONT_CONTEXT) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
					     : CUDA_ERROR_INVALID_CONTEXT;
}
