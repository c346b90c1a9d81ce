/* SPDX-License-Identifier: Apache-2.0 */
/* The linker: passes one PTX text through. It cannot join several. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/front.h"

struct front_link_state {
	uint32_t kind;
	char *text;
	struct front_jit jit;
};

static CUresult check_state(CUlinkState state)
{
	CUresult r = front_check_init();

	return r == CUDA_SUCCESS && !front_is(state, FRONT_LINK_STATE) ? CUDA_ERROR_INVALID_HANDLE
								       : r;
}

CUresult cuLinkCreate_v2(unsigned n_options, int *options, void **values, CUlinkState *ret_state)
{
	struct front_context *ctx;
	struct front_jit jit;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && ret_state == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_jit_parse(n_options, options, values, &jit);
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	struct front_link_state *state = front_pool_take(FRONT_LINK_STATE, sizeof(*state));

	if (state == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	state->jit = jit;
	*ret_state = state;
	return CUDA_SUCCESS;
}

static CUresult add_text(
	CUlinkState state, const char *call, int type, const void *data, size_t size)
{
	size_t length;

	if (state->text != NULL || type != CU_JIT_INPUT_PTX) {
		if (type != CU_JIT_INPUT_PTX && type >= 0 && type < CU_JIT_NUM_INPUT_TYPES) {
			front_say("%s: only PTX text is taken", call);
		}
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	char *text = calloc(1, size + sizeof(uint32_t));

	if (text == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(text, data, size);
	CUresult r = front_image_check(call, text, &length);

	if (r != CUDA_SUCCESS) {
		free(text);
		return r;
	}
	state->text = text;
	return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, int type, void *data, size_t size, const char *name,
	unsigned n_options, int *options, void **values)
{
	CUresult r = check_state(state);

	if (r == CUDA_SUCCESS && (data == NULL || size == 0 || type < 0 ||
					 type >= CU_JIT_NUM_INPUT_TYPES || size > SIZE_MAX / 2)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : add_text(state, __func__, type, data, size);
}

CUresult cuLinkAddFile_v2(CUlinkState state, int type, const char *path, unsigned n_options,
	int *options, void **values)
{
	char *text;
	size_t size;
	CUresult r = check_state(state);

	if (r == CUDA_SUCCESS && (path == NULL || type < 0 || type >= CU_JIT_NUM_INPUT_TYPES)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_read_file(path, &text, &size);
	}
	if (r == CUDA_SUCCESS) {
		r = add_text(state, __func__, type, text, size);
		free(text);
	}
	return r;
}

/* The result lives until the linker is destroyed. It is checked when it is loaded as a module. */
CUresult cuLinkComplete(CUlinkState state, void **ret_image, size_t *ret_size)
{
	CUresult r = check_state(state);

	if (r == CUDA_SUCCESS && ret_image == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && state->text == NULL) {
		r = CUDA_ERROR_INVALID_IMAGE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_image = state->text;
		if (ret_size != NULL) {
			*ret_size = strlen(state->text) + 1;
		}
	}
	return r;
}

CUresult cuLinkDestroy(CUlinkState state)
{
	CUresult r = check_state(state);

	if (r == CUDA_SUCCESS) {
		free(state->text);
		front_pool_give(state, sizeof(*state));
	}
	return r;
}
