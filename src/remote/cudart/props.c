/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of devices: a structure of attributes, whose layout depends on the version. */
#include <string.h>

#include "remote/cudart/cudart.h"

/* Where the value of a device attribute goes, by the attribute's number. */
struct field {
	uint16_t offset, attribute;
	bool is_large;
};
#define FIELD(name, number)                                                                        \
	{                                                                                          \
		offsetof(struct cudaDeviceProp, name), number, false                               \
	}
#define LARGE(name, number)                                                                        \
	{                                                                                          \
		offsetof(struct cudaDeviceProp, name), number, true                                \
	}

static const struct field fields[] = {
	FIELD(maxThreadsPerBlock, 1),
	FIELD(maxThreadsDim[0], 2),
	FIELD(maxThreadsDim[1], 3),
	FIELD(maxThreadsDim[2], 4),
	FIELD(maxGridSize[0], 5),
	FIELD(maxGridSize[1], 6),
	FIELD(maxGridSize[2], 7),
	LARGE(sharedMemPerBlock, 8),
	LARGE(totalConstMem, 9),
	FIELD(warpSize, 10),
	LARGE(memPitch, 11),
	FIELD(regsPerBlock, 12),
	LARGE(textureAlignment, 14),
	FIELD(multiProcessorCount, 16),
	FIELD(integrated, 18),
	FIELD(canMapHostMemory, 19),
	FIELD(maxTexture1D, 21),
	FIELD(maxTexture2D[0], 22),
	FIELD(maxTexture2D[1], 23),
	FIELD(maxTexture3D[0], 24),
	FIELD(maxTexture3D[1], 25),
	FIELD(maxTexture3D[2], 26),
	FIELD(maxTexture2DLayered[0], 27),
	FIELD(maxTexture2DLayered[1], 28),
	FIELD(maxTexture2DLayered[2], 29),
	LARGE(surfaceAlignment, 30),
	FIELD(concurrentKernels, 31),
	FIELD(ECCEnabled, 32),
	FIELD(pciBusID, 33),
	FIELD(pciDeviceID, 34),
	FIELD(tccDriver, 35),
	FIELD(memoryBusWidth, 37),
	FIELD(l2CacheSize, 38),
	FIELD(maxThreadsPerMultiProcessor, 39),
	FIELD(asyncEngineCount, 40),
	FIELD(unifiedAddressing, 41),
	FIELD(maxTexture1DLayered[0], 42),
	FIELD(maxTexture1DLayered[1], 43),
	FIELD(pciDomainID, 50),
	LARGE(texturePitchAlignment, 51),
	FIELD(major, 75),
	FIELD(minor, 76),
	FIELD(streamPrioritiesSupported, 78),
	FIELD(globalL1CacheSupported, 79),
	FIELD(localL1CacheSupported, 80),
	LARGE(sharedMemPerMultiprocessor, 81),
	FIELD(regsPerMultiprocessor, 82),
	FIELD(managedMemory, 83),
	FIELD(isMultiGpuBoard, 84),
	FIELD(multiGpuBoardGroupID, 85),
	FIELD(hostNativeAtomicSupported, 86),
	FIELD(pageableMemoryAccess, 88),
	FIELD(concurrentManagedAccess, 89),
	FIELD(computePreemptionSupported, 90),
	FIELD(canUseHostPointerForRegisteredMem, 91),
	FIELD(cooperativeLaunch, 95),
	LARGE(sharedMemPerBlockOptin, 97),
#if RT_VERSION < 13000
	FIELD(clockRate, 13),
	FIELD(deviceOverlap, 15),
	FIELD(kernelExecTimeoutEnabled, 17),
	FIELD(computeMode, 20),
	FIELD(memoryClockRate, 36),
	FIELD(singleToDoublePrecisionPerfRatio, 87),
	FIELD(cooperativeMultiDeviceLaunch, 96),
#endif
#if RT_VERSION >= 10000
	FIELD(pageableMemoryAccessUsesHostPageTables, 100),
	FIELD(directManagedMemAccessFromHost, 101),
#endif
#if RT_VERSION >= 11000
	FIELD(maxBlocksPerMultiProcessor, 106),
	FIELD(persistingL2CacheMaxSize, 108),
	FIELD(accessPolicyMaxWindowSize, 109),
	LARGE(reservedSharedMemPerBlock, 111),
#endif
#if RT_VERSION >= 12000
	FIELD(hostRegisterSupported, 99),
	FIELD(sparseCudaArraySupported, 112),
	FIELD(hostRegisterReadOnlySupported, 113),
	FIELD(timelineSemaphoreInteropSupported, 114),
	FIELD(memoryPoolsSupported, 115),
	FIELD(gpuDirectRDMASupported, 116),
	FIELD(clusterLaunch, 120),
	FIELD(deferredMappingCudaArraySupported, 121),
	FIELD(unifiedFunctionPointers, 129),
#endif
};

static int fill(struct cudaDeviceProp *ret, int device)
{
	int error = rt_check_device(device);

	if (error != 0) {
		return error;
	}
	*ret = (struct cudaDeviceProp){0};
	error = (int)rt_driver.cuDeviceGetName(ret->name, sizeof(ret->name), device);
	if (error == 0) {
		error = (int)rt_driver.cuDeviceTotalMem_v2(&ret->totalGlobalMem, device);
	}
#if RT_VERSION >= 10000
	if (error == 0) {
		error = (int)rt_driver.cuDeviceGetUuid_v2(&ret->uuid, device);
	}
#endif
	for (size_t i = 0; error == 0 && i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct field *f = &fields[i];
		int value = 0;

		/* An older driver lacks some attributes; they are 0. */
		(void)rt_driver.cuDeviceGetAttribute(&value, f->attribute, device);
		size_t large = (size_t)value;

		memcpy((char *)ret + f->offset, f->is_large ? (void *)&large : (void *)&value,
			f->is_large ? sizeof(large) : sizeof(value));
	}
	return error;
}

/* Programs of CUDA 12 call _v2; only older ones call the plain name of libcudart.so.12. */
RT_API int cudaGetDeviceProperties(void *ret, int device);
RT_API int cudaGetDeviceProperties(void *ret, int device)
{
	struct cudaDeviceProp prop;
	int error = ret == NULL ? cudaErrorInvalidValue : fill(&prop, device);

	if (error == 0) {
		memcpy(ret, &prop, RT_VERSION / 1000 == 12 ? RT_PROP_11_SIZE : sizeof(prop));
	}
	return rt_done(error);
}

RT_API int cudaGetDeviceProperties_v2(struct cudaDeviceProp *ret, int device);
RT_API int cudaGetDeviceProperties_v2(struct cudaDeviceProp *ret, int device)
{
	return rt_done(ret == NULL ? cudaErrorInvalidValue : fill(ret, device));
}
