/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: PTX text, parsed here for names, parameters and sizes, and parsed again by the server,
 * which runs it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softgpu/cuda/front.h"
#include "softgpu/serve/gpu_link.h"
#include "util/fd.h"

#define FATBIN_WRAPPER 0x466243b1u
#define FATBIN         0xba55ed50u
#define ELF            0x464c457fu

CUresult front_image_check(const char *call, const void *image, size_t *ret_size)
{
	uint32_t magic = 0;
	/* A text of one character is shorter than a magic number. */
	size_t n = strnlen(image, sizeof(magic));

	memcpy(&magic, image, n);
	if (magic == FATBIN_WRAPPER || magic == FATBIN || magic == ELF) {
		front_say("%s: this is %s, made for NVIDIA's hardware; the software GPU runs PTX "
			  "text (clang -S --cuda-gpu-arch=sm_70 --cuda-device-only)",
			call, magic == ELF ? "a cubin" : "a fat binary");
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	size_t size = strnlen(image, GPU_MAX_TEXT + 1);

	if (size > GPU_MAX_TEXT) {
		front_say("%s: more than %u MiB of text", call, GPU_MAX_TEXT >> 20);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	if (size == 0) {
		return CUDA_ERROR_INVALID_IMAGE;
	}
	*ret_size = size;
	return CUDA_SUCCESS;
}

CUresult front_jit_parse(
	unsigned n_options, const int *options, void **values, struct front_jit *ret)
{
	struct front_jit jit = {.n_options = n_options, .options = options, .values = values};

	if (n_options > 0 && (options == NULL || values == NULL)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned i = 0; i < n_options; i++) {
		switch (options[i]) {
		case CU_JIT_INFO_LOG_BUFFER:
			jit.info_log = values[i];
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			jit.info_room = (unsigned)(uintptr_t)values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER:
			jit.error_log = values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			jit.error_room = (unsigned)(uintptr_t)values[i];
			break;
		default: /* nothing is compiled: optimisation levels and the like are met */
			if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) {
				return CUDA_ERROR_INVALID_VALUE;
			}
			break;
		}
	}
	*ret = jit;
	return CUDA_SUCCESS;
}

/* Fills the logs, and their sizes, if the program asked for them. */
static void write_logs(const struct front_jit *jit, const char *error)
{
	size_t length = 0;

	if (jit->error_log != NULL && jit->error_room > 0) {
		snprintf(jit->error_log, jit->error_room, "%s", error);
		length = strnlen(jit->error_log, jit->error_room);
	}
	if (jit->info_log != NULL && jit->info_room > 0) {
		jit->info_log[0] = '\0';
	}
	for (unsigned i = 0; i < jit->n_options; i++) {
		if (jit->options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
			jit->values[i] = (void *)(uintptr_t)length;
		} else if (jit->options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
			   jit->options[i] == CU_JIT_WALL_TIME) {
			jit->values[i] = NULL; /* nothing was written, and 0.0f ms */
		}
	}
}

/* The result of parsing, here or in the server. */
static CUresult load_result(int error)
{
	switch (error) {
	case -EINVAL:
	case -ENOTSUP:
	case -E2BIG:
		return CUDA_ERROR_INVALID_PTX;
	default:
		return front_from_errno(error);
	}
}

/* From the pool, like everything that a program holds: a handle may outlive the module. */
static struct front_function *make_function(struct front_module *m, uint32_t index)
{
	const struct rbt_ptx_function *ptx = &m->ptx->functions[index];
	struct front_function *f = front_pool_take(FRONT_FUNCTION, sizeof(*f));

	if (f != NULL) {
		f->module = m;
		f->ptx = ptx;
		f->index = index;
		f->carveout = -1;
		f->max_dynamic = ptx->shared_size < FRONT_STATIC_MAX
					 ? FRONT_STATIC_MAX - ptx->shared_size
					 : 0;
	}
	return f;
}

static int make_functions(struct front_module *m)
{
	uint32_t n = m->ptx->nfunctions;

	m->functions = calloc(n + 1, sizeof(struct front_function *));
	m->addresses = calloc(m->ptx->nvariables + 1, sizeof(*m->addresses));
	if (m->functions == NULL || m->addresses == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++) {
		m->functions[i] = make_function(m, i);
		if (m->functions[i] == NULL) {
			return -ENOMEM;
		}
	}
	return 0;
}

static void add_variables(struct front_module *m)
{
	for (uint32_t i = 0; i < m->ptx->nvariables; i++) {
		/* If it does not fit into the table, it only cannot be copied to. */
		if (m->ptx->variables[i].size > 0) {
			(void)front_memory_add(m->ctx, m->addresses[i], m->ptx->variables[i].size,
				FRONT_ENTRY_VARIABLE);
		}
	}
}

static void free_module(struct front_module *m)
{
	for (uint32_t i = 0; m->functions != NULL && i < m->ptx->nfunctions; i++) {
		front_pool_give(m->functions[i], sizeof(*m->functions[i]));
	}
	free(m->functions);
	free(m->addresses);
	rbt_ptx_module_destroy(m->ptx);
	front_pool_give(m, sizeof(*m));
}

static int load(struct front_module *m, const char *text, size_t size, struct rbt_ptx_error *error)
{
	int r = rbt_ptx_parse(text, size, &m->ptx, error);

	if (r == 0 && m->ptx->nvariables > GPU_MAX_VARIABLES) {
		snprintf(error->text, sizeof(error->text), "more than %u variables",
			GPU_MAX_VARIABLES);
		r = -E2BIG;
	}
	if (r == 0) {
		r = make_functions(m);
	}
	if (r == 0) {
		r = front_link_load(m->ctx, text, size, &m->number, m->addresses,
			m->ptx->nvariables, error->text, sizeof(error->text));
	}
	return r;
}

CUresult front_module_load(struct front_context *ctx, const char *call, const char *text,
	size_t size, const struct front_jit *jit, struct front_module **ret)
{
	struct rbt_ptx_error error = {.text = ""};
	struct front_module *m = front_pool_take(FRONT_MODULE, sizeof(*m));

	if (m == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->ctx = ctx;
	CUresult result = load_result(load(m, text, size, &error));

	write_logs(jit, result == CUDA_SUCCESS ? "" : error.text);
	if (result != CUDA_SUCCESS) {
		if (error.text[0] != '\0' && jit->error_log == NULL) {
			front_say("%s: %s", call, error.text);
		}
		free_module(m);
		return result;
	}
	add_variables(m);
	pthread_mutex_lock(&ctx->lock);
	LIST_INSERT_HEAD(&ctx->modules, m, next);
	pthread_mutex_unlock(&ctx->lock);
	*ret = m;
	return CUDA_SUCCESS;
}

void front_module_unload(struct front_module *m)
{
	struct front_context *ctx = m->ctx;

	front_library_forget(m);
	pthread_mutex_lock(&ctx->lock);
	LIST_REMOVE(m, next);
	pthread_mutex_unlock(&ctx->lock);
	for (uint32_t i = 0; i < m->ptx->nvariables; i++) {
		front_memory_remove(ctx, m->addresses[i]);
	}
	(void)front_link_unload(ctx, m->number);
	free_module(m);
}

CUresult front_read_file(const char *path, char **ret_text, size_t *ret_size)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t size = 0;

	if (fd < 0) {
		return CUDA_ERROR_FILE_NOT_FOUND;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > GPU_MAX_TEXT) {
		close(fd);
		return CUDA_ERROR_INVALID_SOURCE;
	}
	char *text = calloc(1, (size_t)st.st_size + sizeof(uint32_t));

	while (text != NULL && size < (size_t)st.st_size) {
		ssize_t n = read(fd, text + size, (size_t)st.st_size - size);

		if (n <= 0 && !(n < 0 && errno == EINTR)) {
			break;
		}
		size += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	if (text == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_text = text;
	*ret_size = size;
	return CUDA_SUCCESS;
}

static CUresult load_image(
	const char *call, struct front_module **ret, const void *image, const struct front_jit *jit)
{
	struct front_context *ctx;
	size_t size;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && (ret == NULL || image == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_image_check(call, image, &size);
	}
	return r != CUDA_SUCCESS ? r : front_module_load(ctx, call, image, size, jit, ret);
}

CUresult cuModuleLoadData(CUmodule *ret_module, const void *image)
{
	struct front_jit none = {0};

	return load_image(__func__, ret_module, image, &none);
}

CUresult cuModuleLoadDataEx(CUmodule *ret_module, const void *image, unsigned n_options,
	const int *options, void **values)
{
	struct front_context *ctx;
	struct front_jit jit;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS) {
		r = front_jit_parse(n_options, options, values, &jit);
	}
	return r != CUDA_SUCCESS ? r : load_image(__func__, ret_module, image, &jit);
}

CUresult cuModuleLoadFatBinary(CUmodule *ret_module, const void *image)
{
	return cuModuleLoadData(ret_module, image);
}

CUresult cuModuleLoad(CUmodule *ret_module, const char *path)
{
	struct front_jit none = {0};
	struct front_context *ctx;
	char *text;
	size_t size;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_module == NULL || path == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	r = front_read_file(path, &text, &size);
	if (r == CUDA_SUCCESS) {
		r = load_image(__func__, ret_module, text, &none);
		free(text);
	}
	return r;
}

static CUresult enter_module(CUmodule module)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && !front_is(module, FRONT_MODULE)) {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	return r != CUDA_SUCCESS ? r : front_check_context(module->ctx);
}

/* Kernels that were launched before still need it, so this waits. */
CUresult cuModuleUnload(CUmodule module)
{
	CUresult r = enter_module(module);

	if (r == CUDA_SUCCESS && module->library != NULL) {
		r = CUDA_ERROR_NOT_PERMITTED; /* the library's to unload */
	}
	if (r == CUDA_SUCCESS) {
		r = front_wait_context(module->ctx);
	}
	if (r == CUDA_SUCCESS) {
		front_module_unload(module);
	}
	return r;
}

struct front_function *front_module_find(struct front_module *module, const char *name)
{
	const struct rbt_ptx_function *f = rbt_ptx_find_entry(module->ptx, name);

	return f == NULL ? NULL : module->functions[f - module->ptx->functions];
}

CUresult cuModuleGetFunction(CUfunction *ret_function, CUmodule module, const char *name)
{
	CUresult r = enter_module(module);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_function == NULL || name == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	struct front_function *f = front_module_find(module, name);

	if (f == NULL) {
		return CUDA_ERROR_NOT_FOUND;
	}
	*ret_function = f;
	return CUDA_SUCCESS;
}

CUresult front_module_global(
	struct front_module *module, const char *name, CUdeviceptr *ret, size_t *ret_size)
{
	uint32_t i = rbt_ptx_find_variable(module->ptx, name);

	if (ret != NULL) {
		/* 0 for an unknown name, as NVIDIA's driver does. */
		*ret = i == RBT_PTX_NO_INDEX ? 0 : module->addresses[i];
	}
	if (i == RBT_PTX_NO_INDEX) {
		return CUDA_ERROR_NOT_FOUND;
	}
	if (ret_size != NULL) {
		*ret_size = module->ptx->variables[i].size;
	}
	return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(
	CUdeviceptr *ret_address, size_t *ret_size, CUmodule module, const char *name)
{
	CUresult r = enter_module(module);

	if (r == CUDA_SUCCESS && (name == NULL || (ret_address == NULL && ret_size == NULL))) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : front_module_global(module, name, ret_address, ret_size);
}

static unsigned count_entries(const struct front_module *m)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < m->ptx->nfunctions; i++) {
		n += m->ptx->functions[i].is_entry;
	}
	return n;
}

CUresult cuModuleGetFunctionCount(unsigned *ret_count, CUmodule module)
{
	CUresult r = enter_module(module);

	if (r == CUDA_SUCCESS && ret_count == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_count = count_entries(module);
	}
	return r;
}

CUresult cuModuleEnumerateFunctions(CUfunction *ret_functions, unsigned room, CUmodule module)
{
	CUresult r = enter_module(module);
	unsigned n = 0;

	if (r == CUDA_SUCCESS && (ret_functions == NULL || room == 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	for (uint32_t i = 0; r == CUDA_SUCCESS && i < module->ptx->nfunctions && n < room; i++) {
		if (module->ptx->functions[i].is_entry) {
			ret_functions[n++] = module->functions[i];
		}
	}
	return r;
}

CUresult cuModuleGetLoadingMode(int *ret_mode)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && ret_mode == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_mode = 1; /* eager */
	}
	return r;
}
