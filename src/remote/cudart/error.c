/* SPDX-License-Identifier: Apache-2.0 */
/* Results: their names, their numbers before CUDA 10.1, and each thread's last one. */
#include <string.h>

#include "cuda/common.h"
#include "remote/cudart/cudart.h"

/* Names of the runtime interface, and the numbers of CUDA 9. 0: it had none. */
static const struct {
	int error, old;
	const char *name;
} errors[] = {
	{0, 0, "cudaSuccess"},
	{1, 11, "cudaErrorInvalidValue"},
	{2, 2, "cudaErrorMemoryAllocation"},
	{3, 3, "cudaErrorInitializationError"},
	{4, 29, "cudaErrorCudartUnloading"},
	{9, 9, "cudaErrorInvalidConfiguration"},
	{12, 12, "cudaErrorInvalidPitchValue"},
	{13, 13, "cudaErrorInvalidSymbol"},
	{21, 21, "cudaErrorInvalidMemcpyDirection"},
	{35, 35, "cudaErrorInsufficientDriver"},
	{46, 46, "cudaErrorDevicesUnavailable"},
	{52, 1, "cudaErrorMissingConfiguration"},
	{98, 8, "cudaErrorInvalidDeviceFunction"},
	{100, 38, "cudaErrorNoDevice"},
	{101, 10, "cudaErrorInvalidDevice"},
	{200, 47, "cudaErrorInvalidKernelImage"},
	{201, 49, "cudaErrorDeviceUninitialized"},
	{209, 48, "cudaErrorNoKernelImageForDevice"},
	{214, 39, "cudaErrorECCUncorrectable"},
	{215, 42, "cudaErrorUnsupportedLimit"},
	{217, 64, "cudaErrorPeerAccessUnsupported"},
	{218, 78, "cudaErrorInvalidPtx"},
	{222, 78, "cudaErrorUnsupportedPtxVersion"},
	{304, 63, "cudaErrorOperatingSystem"},
	{400, 33, "cudaErrorInvalidResourceHandle"},
	{401, 0, "cudaErrorIllegalState"},
	{500, 13, "cudaErrorSymbolNotFound"},
	{600, 34, "cudaErrorNotReady"},
	{700, 77, "cudaErrorIllegalAddress"},
	{701, 7, "cudaErrorLaunchOutOfResources"},
	{702, 6, "cudaErrorLaunchTimeout"},
	{704, 50, "cudaErrorPeerAccessAlreadyEnabled"},
	{705, 51, "cudaErrorPeerAccessNotEnabled"},
	{708, 36, "cudaErrorSetOnActiveProcess"},
	{709, 49, "cudaErrorContextIsDestroyed"},
	{710, 59, "cudaErrorAssert"},
	{712, 61, "cudaErrorHostMemoryAlreadyRegistered"},
	{713, 62, "cudaErrorHostMemoryNotRegistered"},
	{714, 72, "cudaErrorHardwareStackError"},
	{715, 73, "cudaErrorIllegalInstruction"},
	{716, 74, "cudaErrorMisalignedAddress"},
	{717, 75, "cudaErrorInvalidAddressSpace"},
	{718, 76, "cudaErrorInvalidPc"},
	{719, 4, "cudaErrorLaunchFailure"},
	{720, 82, "cudaErrorCooperativeLaunchTooLarge"},
	{800, 70, "cudaErrorNotPermitted"},
	{801, 71, "cudaErrorNotSupported"},
	{802, 0, "cudaErrorSystemNotReady"},
	{900, 0, "cudaErrorStreamCaptureUnsupported"},
	{901, 0, "cudaErrorStreamCaptureInvalidated"},
	{902, 0, "cudaErrorStreamCaptureMerge"},
	{903, 0, "cudaErrorStreamCaptureUnmatched"},
	{904, 0, "cudaErrorStreamCaptureUnjoined"},
	{905, 0, "cudaErrorStreamCaptureIsolation"},
	{906, 0, "cudaErrorStreamCaptureImplicit"},
	{907, 0, "cudaErrorCapturedEvent"},
	{908, 0, "cudaErrorStreamCaptureWrongThread"},
	{910, 0, "cudaErrorGraphExecUpdateFailure"},
	{999, 30, "cudaErrorUnknown"},
};
#define N_ERRORS    (sizeof(errors) / sizeof(errors[0]))
#define IS_OLD      (RT_VERSION < 10010)
#define OLD_UNKNOWN 30

/* The row of a number as this version has it; N_ERRORS: none. */
static size_t find(int error)
{
	size_t i = 0;

	while (i < N_ERRORS && (IS_OLD ? errors[i].old : errors[i].error) != error) {
		i++;
	}
	return i;
}

static int as_told(int error)
{
	for (size_t i = 0; IS_OLD && error != 0 && i < N_ERRORS; i++) {
		if (errors[i].error == error) {
			return errors[i].old != 0 ? errors[i].old : OLD_UNKNOWN;
		}
	}
	return error;
}

int rt_done(int error)
{
	if (error != 0) {
		rt_thread.last_error = error;
	}
	return as_told(error);
}

RT_API int cudaPeekAtLastError(void);
RT_API int cudaPeekAtLastError(void)
{
	return as_told(rt_thread.last_error);
}

RT_API int cudaGetLastError(void);
RT_API int cudaGetLastError(void)
{
	int error = rt_thread.last_error;

	rt_thread.last_error = 0;
	return as_told(error);
}

RT_API const char *cudaGetErrorName(int error);
RT_API const char *cudaGetErrorName(int error)
{
	size_t i = find(error);

	return i < N_ERRORS ? errors[i].name : "unrecognized error code";
}

RT_API const char *cudaGetErrorString(int error);
RT_API const char *cudaGetErrorString(int error)
{
	static const struct {
		int error;
		const char *text;
	} own[] = {
		{cudaErrorInvalidConfiguration,
			"the configuration of the launch is not acceptable"},
		{cudaErrorInvalidPitchValue, "the pitch is not acceptable"},
		{cudaErrorInvalidSymbol, "no such device variable"},
		{cudaErrorInvalidMemcpyDirection, "no such direction of a copy"},
		{cudaErrorInsufficientDriver, "the driver is missing, or too old"},
		{cudaErrorMissingConfiguration, "the launch has not been configured"},
		{cudaErrorInvalidDeviceFunction, "no such kernel"},
	};
	size_t i = find(error);
	const char *text = NULL;

	for (size_t k = 0; i < N_ERRORS && k < sizeof(own) / sizeof(own[0]); k++) {
		if (own[k].error == errors[i].error) {
			return own[k].text;
		}
	}
	if (i == N_ERRORS || rbt_cuda_error_text(errors[i].error, &text) != CUDA_SUCCESS) {
		return "unrecognized error code";
	}
	return text;
}
