/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries: text without a context. A context that uses one gets a module of it. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/front.h"

struct front_kernel {
	uint32_t kind;
	struct front_library *library;
	const struct rbt_ptx_function *ptx;
	uint32_t index;
	uint32_t max_dynamic; /* what was set on the kernel; functions made later take it over */
	bool has_max_dynamic;
};

struct library_module {
	LIST_ENTRY(library_module) next;
	struct front_module *module;
};

struct front_library {
	uint32_t kind;
	char *text;
	size_t size;
	struct rbt_ptx_module *ptx;
	struct front_kernel **kernels; /* one for each function */
	pthread_mutex_t lock;
	LIST_HEAD(, library_module) modules;
};

static CUresult check_library(CUlibrary library)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && !front_is(library, FRONT_LIBRARY)) {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	return r;
}

static CUresult check_kernel(CUkernel kernel)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && !front_is(kernel, FRONT_KERNEL)) {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	return r;
}

static void destroy(struct front_library *library)
{
	for (uint32_t i = 0; library->kernels != NULL && i < library->ptx->nfunctions; i++) {
		front_pool_give(library->kernels[i], sizeof(*library->kernels[i]));
	}
	free(library->kernels);
	rbt_ptx_module_destroy(library->ptx);
	free(library->text);
	pthread_mutex_destroy(&library->lock);
	front_pool_give(library, sizeof(*library));
}

static struct front_kernel *make_kernel(struct front_library *library, uint32_t index)
{
	struct front_kernel *k = front_pool_take(FRONT_KERNEL, sizeof(*k));

	if (k != NULL) {
		k->library = library;
		k->ptx = &library->ptx->functions[index];
		k->index = index;
	}
	return k;
}

static CUresult create(const char *call, const char *text, size_t size, const struct front_jit *jit,
	struct front_library **ret)
{
	struct rbt_ptx_error error = {.text = ""};
	struct front_library *library = front_pool_take(FRONT_LIBRARY, sizeof(*library));

	if (library == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_init(&library->lock, NULL);
	LIST_INIT(&library->modules);
	library->text = strndup(text, size);
	library->size = size;
	CUresult r = library->text == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;

	if (r == CUDA_SUCCESS && rbt_ptx_parse(text, size, &library->ptx, &error) < 0) {
		r = CUDA_ERROR_INVALID_PTX;
		if (jit->error_log == NULL) {
			front_say("%s: %s", call, error.text);
		} else if (jit->error_room > 0) {
			strncpy(jit->error_log, error.text, jit->error_room - 1);
			jit->error_log[jit->error_room - 1] = '\0';
		}
	}
	if (r == CUDA_SUCCESS) {
		library->kernels =
			calloc(library->ptx->nfunctions + 1, sizeof(struct front_kernel *));
		r = library->kernels == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	}
	for (uint32_t i = 0; r == CUDA_SUCCESS && i < library->ptx->nfunctions; i++) {
		library->kernels[i] = make_kernel(library, i);
		r = library->kernels[i] == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	}
	if (r != CUDA_SUCCESS) {
		destroy(library);
		return r;
	}
	*ret = library;
	return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *ret_library, const void *code, const int *jit_options,
	void **jit_values, unsigned n_jit, const int *options, void **values, unsigned n_options)
{
	struct front_jit jit;
	size_t size;
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && (ret_library == NULL || code == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_jit_parse(n_jit, jit_options, jit_values, &jit);
	}
	/* The text is copied, so the program need not keep its own. */
	if (r == CUDA_SUCCESS && n_options > 0 && options == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_image_check(__func__, code, &size);
	}
	return r != CUDA_SUCCESS ? r : create(__func__, code, size, &jit, ret_library);
}

CUresult cuLibraryLoadFromFile(CUlibrary *ret_library, const char *path, const int *jit_options,
	void **jit_values, unsigned n_jit, const int *options, void **values, unsigned n_options)
{
	char *text;
	size_t size;
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && (ret_library == NULL || path == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_read_file(path, &text, &size);
	}
	if (r == CUDA_SUCCESS) {
		r = cuLibraryLoadData(ret_library, text, jit_options, jit_values, n_jit, options,
			values, n_options);
		free(text);
	}
	return r;
}

/* Called when a module is unloaded, with its library or with its context. */
void front_library_forget(struct front_module *module)
{
	struct front_library *library = module->library;
	struct library_module *m;

	if (library == NULL) {
		return;
	}
	module->library = NULL;
	pthread_mutex_lock(&library->lock);
	LIST_FOREACH (m, &library->modules, next) {
		if (m->module == module) {
			LIST_REMOVE(m, next);
			free(m);
			break;
		}
	}
	pthread_mutex_unlock(&library->lock);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	struct library_module *m;
	CUresult r = check_library(library);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	while ((m = LIST_FIRST(&library->modules)) != NULL) {
		(void)front_wait_context(m->module->ctx);
		front_module_unload(m->module);
	}
	destroy(library);
	return CUDA_SUCCESS;
}

static struct front_module *find_module(
	struct front_library *library, const struct front_context *ctx)
{
	struct library_module *m;

	LIST_FOREACH (m, &library->modules, next) {
		if (m->module->ctx == ctx) {
			return m->module;
		}
	}
	return NULL;
}

static void take_over(struct front_library *library, struct front_module *module)
{
	module->library = library;
	for (uint32_t i = 0; i < module->ptx->nfunctions; i++) {
		module->functions[i]->kernel = library->kernels[i];
		if (library->kernels[i]->has_max_dynamic) {
			module->functions[i]->max_dynamic = library->kernels[i]->max_dynamic;
		}
	}
}

/* The library's module in a context; loaded at its first use. */
static CUresult module_in(
	struct front_context *ctx, struct front_library *library, struct front_module **ret)
{
	struct front_jit none = {0};
	struct front_module *module;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&library->lock);
	module = find_module(library, ctx);
	if (module == NULL) {
		struct library_module *m = calloc(1, sizeof(*m));

		r = m == NULL ? CUDA_ERROR_OUT_OF_MEMORY
			      : front_module_load(ctx, "library", library->text, library->size,
					&none, &module);
		if (r == CUDA_SUCCESS) {
			take_over(library, module);
			m->module = module;
			LIST_INSERT_HEAD(&library->modules, m, next);
		} else {
			free(m);
		}
	}
	pthread_mutex_unlock(&library->lock);
	if (r == CUDA_SUCCESS) {
		*ret = module;
	}
	return r;
}

CUresult front_kernel_function(
	struct front_context *ctx, struct front_kernel *kernel, struct front_function **ret)
{
	struct front_module *module;
	CUresult r = module_in(ctx, kernel->library, &module);

	if (r == CUDA_SUCCESS) {
		*ret = module->functions[kernel->index];
	}
	return r;
}

CUresult cuLibraryGetKernel(CUkernel *ret_kernel, CUlibrary library, const char *name)
{
	CUresult r = check_library(library);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_kernel == NULL || name == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	const struct rbt_ptx_function *f = rbt_ptx_find_entry(library->ptx, name);

	if (f == NULL) {
		return CUDA_ERROR_NOT_FOUND;
	}
	*ret_kernel = library->kernels[f - library->ptx->functions];
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned *ret_count, CUlibrary library)
{
	CUresult r = check_library(library);

	if (r == CUDA_SUCCESS && ret_count == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_count = 0;
		for (uint32_t i = 0; i < library->ptx->nfunctions; i++) {
			*ret_count += library->ptx->functions[i].is_entry;
		}
	}
	return r;
}

CUresult cuLibraryEnumerateKernels(CUkernel *ret_kernels, unsigned room, CUlibrary library)
{
	CUresult r = check_library(library);
	unsigned n = 0;

	if (r == CUDA_SUCCESS && (ret_kernels == NULL || room == 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	for (uint32_t i = 0; r == CUDA_SUCCESS && i < library->ptx->nfunctions && n < room; i++) {
		if (library->ptx->functions[i].is_entry) {
			ret_kernels[n++] = library->kernels[i];
		}
	}
	return r;
}

CUresult cuLibraryGetModule(CUmodule *ret_module, CUlibrary library)
{
	struct front_context *ctx = NULL;
	CUresult r = check_library(library);

	if (r == CUDA_SUCCESS) {
		r = front_enter(&ctx);
	}
	if (r == CUDA_SUCCESS && ret_module == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : module_in(ctx, library, ret_module);
}

CUresult cuLibraryGetGlobal(
	CUdeviceptr *ret_address, size_t *ret_size, CUlibrary library, const char *name)
{
	struct front_context *ctx = NULL;
	struct front_module *module;
	CUresult r = check_library(library);

	if (r == CUDA_SUCCESS) {
		r = front_enter(&ctx);
	}
	if (r == CUDA_SUCCESS && (name == NULL || (ret_address == NULL && ret_size == NULL))) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = module_in(ctx, library, &module);
	}
	return r != CUDA_SUCCESS ? r : front_module_global(module, name, ret_address, ret_size);
}

CUresult cuKernelGetFunction(CUfunction *ret_function, CUkernel kernel)
{
	struct front_context *ctx = NULL;
	CUresult r = check_kernel(kernel);

	if (r == CUDA_SUCCESS) {
		r = front_enter(&ctx);
	}
	if (r == CUDA_SUCCESS && ret_function == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : front_kernel_function(ctx, kernel, ret_function);
}

CUresult cuKernelGetLibrary(CUlibrary *ret_library, CUkernel kernel)
{
	CUresult r = check_kernel(kernel);

	if (r == CUDA_SUCCESS && ret_library == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_library = kernel->library;
	}
	return r;
}

CUresult cuKernelGetName(const char **ret_name, CUkernel kernel)
{
	CUresult r = check_kernel(kernel);

	if (r == CUDA_SUCCESS && ret_name == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_name = kernel->ptx->name;
	}
	return r;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *ret_offset, size_t *ret_size)
{
	CUresult r = check_kernel(kernel);

	if (r == CUDA_SUCCESS && (ret_offset == NULL || index >= kernel->ptx->nparams)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_offset = kernel->ptx->params[index].offset;
		if (ret_size != NULL) {
			*ret_size = kernel->ptx->params[index].size;
		}
	}
	return r;
}

/* A function that represents the kernel before any context has loaded it. */
static struct front_function abstract(const struct front_kernel *kernel)
{
	uint32_t shared = kernel->ptx->shared_size;
	struct front_function f = {.kind = FRONT_FUNCTION,
		.ptx = kernel->ptx,
		.carveout = -1,
		.max_dynamic = shared < FRONT_STATIC_MAX ? FRONT_STATIC_MAX - shared : 0};

	if (kernel->has_max_dynamic) {
		f.max_dynamic = kernel->max_dynamic;
	}
	return f;
}

CUresult cuKernelGetAttribute(int *ret_value, int attribute, CUkernel kernel, CUdevice device)
{
	struct front_device *dev;
	CUresult r = check_kernel(kernel);

	if (r == CUDA_SUCCESS) {
		r = front_check_device(device, &dev);
	}
	if (r == CUDA_SUCCESS && ret_value == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	struct front_function f = abstract(kernel);

	return front_function_attribute(&f, attribute, ret_value);
}

CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device)
{
	struct front_device *dev;
	struct library_module *m;
	CUresult r = check_kernel(kernel);

	if (r == CUDA_SUCCESS) {
		r = front_check_device(device, &dev);
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	struct front_function f = abstract(kernel);

	r = front_function_set(&f, attribute, value);
	if (r != CUDA_SUCCESS) {
		return r;
	}
	pthread_mutex_lock(&kernel->library->lock);
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
		kernel->max_dynamic = f.max_dynamic;
		kernel->has_max_dynamic = true;
	}
	LIST_FOREACH (m, &kernel->library->modules, next) {
		(void)front_function_set(m->module->functions[kernel->index], attribute, value);
	}
	pthread_mutex_unlock(&kernel->library->lock);
	return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice device)
{
	struct front_device *dev;
	CUresult r = check_kernel(kernel);

	if (r == CUDA_SUCCESS) {
		r = front_check_device(device, &dev);
	}
	if (r == CUDA_SUCCESS && (config < 0 || config > 3)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r;
}
