/* SPDX-License-Identifier: Apache-2.0 */
/* Results by name, for libraries that answer the driver interface. */
#include <stddef.h>

#include "cuda/common.h"

static const struct {
	int result;
	const char *name, *text;
} errors[] = {
	{0, "CUDA_SUCCESS", "no error"},
	{1, "CUDA_ERROR_INVALID_VALUE", "an argument is not acceptable"},
	{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{3, "CUDA_ERROR_NOT_INITIALIZED", "cuInit has not been called, or not in this process"},
	{4, "CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"},
	{5, "CUDA_ERROR_PROFILER_DISABLED", "the profiler is disabled"},
	{6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED", "the profiler is not initialized"},
	{7, "CUDA_ERROR_PROFILER_ALREADY_STARTED", "the profiler runs already"},
	{8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED", "the profiler has stopped already"},
	{34, "CUDA_ERROR_STUB_LIBRARY", "the driver library is a stub"},
	{36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "the call needs a newer driver"},
	{46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or has gone"},
	{100, "CUDA_ERROR_NO_DEVICE", "there is no CUDA device"},
	{101, "CUDA_ERROR_INVALID_DEVICE", "no such device"},
	{102, "CUDA_ERROR_DEVICE_NOT_LICENSED", "the device is not licensed"},
	{200, "CUDA_ERROR_INVALID_IMAGE", "the image of the kernels is invalid"},
	{201, "CUDA_ERROR_INVALID_CONTEXT", "no context is current, or not a valid one"},
	{202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "the context is current already"},
	{205, "CUDA_ERROR_MAP_FAILED", "mapping failed"},
	{206, "CUDA_ERROR_UNMAP_FAILED", "unmapping failed"},
	{207, "CUDA_ERROR_ARRAY_IS_MAPPED", "the array is mapped"},
	{208, "CUDA_ERROR_ALREADY_MAPPED", "the resource is mapped already"},
	{209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the image has no code for this device"},
	{210, "CUDA_ERROR_ALREADY_ACQUIRED", "the resource is acquired already"},
	{211, "CUDA_ERROR_NOT_MAPPED", "the resource is not mapped"},
	{212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "the resource is not mapped as an array"},
	{213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER", "the resource is not mapped as a pointer"},
	{214, "CUDA_ERROR_ECC_UNCORRECTABLE", "an error in memory that cannot be corrected"},
	{215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "no such limit on this device"},
	{216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "another thread has the context"},
	{217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "these devices do not reach each other"},
	{218, "CUDA_ERROR_INVALID_PTX", "the PTX is invalid, or not supported here"},
	{219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "the graphics context is invalid"},
	{220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "an NVLink error that cannot be corrected"},
	{221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "there is no PTX compiler"},
	{222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX is of a newer version"},
	{223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "compiling PTX is disabled"},
	{224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "no such affinity on this device"},
	{300, "CUDA_ERROR_INVALID_SOURCE", "the source is invalid"},
	{301, "CUDA_ERROR_FILE_NOT_FOUND", "the file was not found"},
	{302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "a shared object lacks a symbol"},
	{303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "a shared object did not start"},
	{304, "CUDA_ERROR_OPERATING_SYSTEM", "a call of the operating system failed"},
	{400, "CUDA_ERROR_INVALID_HANDLE", "a handle is not valid"},
	{401, "CUDA_ERROR_ILLEGAL_STATE", "not possible in this state"},
	{500, "CUDA_ERROR_NOT_FOUND", "no such name"},
	{600, "CUDA_ERROR_NOT_READY", "not done yet"},
	{700, "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel used an address that is not its own"},
	{701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "a launch needs more than the device has"},
	{702, "CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel did not end"},
	{703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "textures of another kind"},
	{704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is enabled already"},
	{705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access is not enabled"},
	{708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "the primary context is active"},
	{709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context has been destroyed"},
	{710, "CUDA_ERROR_ASSERT", "an assertion failed in a kernel"},
	{711, "CUDA_ERROR_TOO_MANY_PEERS", "too many peers"},
	{712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "the memory is registered already"},
	{713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "the memory is not registered"},
	{714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "a kernel's stack overflowed"},
	{715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "a kernel has an illegal instruction"},
	{716, "CUDA_ERROR_MISALIGNED_ADDRESS", "a kernel used a misaligned address"},
	{717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "a kernel used an address of another space"},
	{718, "CUDA_ERROR_INVALID_PC", "a kernel jumped to an invalid place"},
	{719, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed"},
	{720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "more blocks than fit at once"},
	{800, "CUDA_ERROR_NOT_PERMITTED", "not permitted"},
	{801, "CUDA_ERROR_NOT_SUPPORTED", "not supported here"},
	{802, "CUDA_ERROR_SYSTEM_NOT_READY", "the system is not ready"},
	{803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver and libraries differ in version"},
	{804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "no compatibility on this device"},
	{900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not possible while a stream captures"},
	{901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier error ended the capture"},
	{902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures would become one"},
	{903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture began at another stream"},
	{904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a stream that joined was not joined again"},
	{905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "a capture would wait for work outside"},
	{906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "the legacy stream would wait for a capture"},
	{907, "CUDA_ERROR_CAPTURED_EVENT", "the event was last recorded in a capture"},
	{908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "another thread began the capture"},
	{909, "CUDA_ERROR_TIMEOUT", "it took too long"},
	{910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graphs differ in more than parameters"},
	{911, "CUDA_ERROR_EXTERNAL_DEVICE", "another device failed"},
	{912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "no such cluster size"},
	{913, "CUDA_ERROR_FUNCTION_NOT_LOADED", "the function is not loaded"},
	{914, "CUDA_ERROR_INVALID_RESOURCE_TYPE", "the resource is of another type"},
	{915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "the resource is configured wrongly"},
	{999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int find(int result)
{
	for (int i = 0; i < (int)(sizeof(errors) / sizeof(errors[0])); i++) {
		if (errors[i].result == result) {
			return i;
		}
	}
	return -1;
}

CUresult rbt_cuda_error_name(int result, const char **ret_name)
{
	int i = find(result);

	if (ret_name == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_name = i < 0 ? NULL : errors[i].name;
	return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult rbt_cuda_error_text(int result, const char **ret_text)
{
	int i = find(result);

	if (ret_text == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_text = i < 0 ? NULL : errors[i].text;
	return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
