/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are refused. They are there, so that programs that link them start, and return
 * cudaErrorNotSupported whatever the arguments are.
 */
#include "remote/cudart/cudart.h"

static int refuse(void)
{
	return rt_done(cudaErrorNotSupported);
}

#define REFUSED(name)                                                                              \
	RT_API int name(void);                                                                     \
	RT_API int name(void)                                                                      \
	{                                                                                          \
		return refuse();                                                                   \
	}

REFUSED(cudaArrayGetInfo)
REFUSED(cudaArrayGetPlane)
REFUSED(cudaBindTexture)
REFUSED(cudaBindTexture2D)
REFUSED(cudaBindTextureToArray)
REFUSED(cudaChooseDevice)
REFUSED(cudaCreateSurfaceObject)
REFUSED(cudaCreateTextureObject)
REFUSED(cudaDestroyExternalMemory)
REFUSED(cudaDestroyExternalSemaphore)
REFUSED(cudaDestroySurfaceObject)
REFUSED(cudaDestroyTextureObject)
REFUSED(cudaDeviceFlushGPUDirectRDMAWrites)
REFUSED(cudaDeviceGetGraphMemAttribute)
REFUSED(cudaDeviceGraphMemTrim)
REFUSED(cudaDeviceSetGraphMemAttribute)
REFUSED(cudaExternalMemoryGetMappedBuffer)
REFUSED(cudaExternalMemoryGetMappedMipmappedArray)
REFUSED(cudaFreeArray)
REFUSED(cudaFreeMipmappedArray)
REFUSED(cudaGetExportTable)
REFUSED(cudaGetMipmappedArrayLevel)
REFUSED(cudaGetTextureObjectResourceDesc)
REFUSED(cudaGraphAddChildGraphNode)
REFUSED(cudaGraphAddMemAllocNode)
REFUSED(cudaGraphAddMemFreeNode)
REFUSED(cudaGraphAddMemcpyNode)
REFUSED(cudaGraphAddMemcpyNode1D)
REFUSED(cudaGraphAddNode)
REFUSED(cudaGraphConditionalHandleCreate)
REFUSED(cudaGraphDebugDotPrint)
REFUSED(cudaGraphNodeSetParams)
REFUSED(cudaGraphReleaseUserObject)
REFUSED(cudaGraphRetainUserObject)
REFUSED(cudaImportExternalMemory)
REFUSED(cudaImportExternalSemaphore)
REFUSED(cudaIpcCloseMemHandle)
REFUSED(cudaIpcGetEventHandle)
REFUSED(cudaIpcGetMemHandle)
REFUSED(cudaIpcOpenEventHandle)
REFUSED(cudaIpcOpenMemHandle)
REFUSED(cudaLaunchCooperativeKernelMultiDevice)
REFUSED(cudaMalloc3D)
REFUSED(cudaMalloc3DArray)
REFUSED(cudaMallocArray)
REFUSED(cudaMallocMipmappedArray)
REFUSED(cudaMemPoolExportPointer)
REFUSED(cudaMemPoolExportToShareableHandle)
REFUSED(cudaMemPoolGetAccess)
REFUSED(cudaMemPoolImportFromShareableHandle)
REFUSED(cudaMemPoolImportPointer)
REFUSED(cudaMemPoolSetAccess)
REFUSED(cudaMemRangeGetAttribute)
REFUSED(cudaMemcpy2DFromArray)
REFUSED(cudaMemcpy2DToArray)
REFUSED(cudaMemcpy2DToArrayAsync)
REFUSED(cudaMemcpy3D)
REFUSED(cudaMemcpy3DAsync)
REFUSED(cudaMemcpy3DPeer)
REFUSED(cudaMemcpy3DPeerAsync)
REFUSED(cudaMemcpyFromArray)
REFUSED(cudaMemcpyToArray)
REFUSED(cudaMemset3D)
REFUSED(cudaMemset3DAsync)
REFUSED(cudaOccupancyMaxActiveClusters)
REFUSED(cudaOccupancyMaxPotentialClusterSize)
REFUSED(cudaSignalExternalSemaphoresAsync_v2)
REFUSED(cudaStreamCopyAttributes)
REFUSED(cudaStreamGetAttribute)
REFUSED(cudaStreamSetAttribute)
REFUSED(cudaUnbindTexture)
REFUSED(cudaUserObjectCreate)
REFUSED(cudaUserObjectRelease)
REFUSED(cudaUserObjectRetain)
REFUSED(cudaWaitExternalSemaphoresAsync_v2)

/* Textures and surfaces that a program registers are never found. */
RT_API void __cudaRegisterTexture(void);
RT_API void __cudaRegisterTexture(void)
{
}

RT_API void __cudaRegisterSurface(void);
RT_API void __cudaRegisterSurface(void)
{
}
