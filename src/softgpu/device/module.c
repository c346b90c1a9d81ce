/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: decoded PTX, its variables in device memory, and which kernels poll the preempt flag. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/device/device_impl.h"

#define MAX_ALIGN 4096u

/* Variables that are read-only for kernels are in an allocation of their own. */
static unsigned part_of(const struct rbt_ptx_variable *v)
{
	return v->space == RBT_PTX_SPACE_CONST;
}

static int refuse(struct rbt_ptx_error *error, int r, const char *what, const char *name)
{
	if (error) {
		error->line = 0;
		snprintf(error->text, sizeof(error->text), "%s: %.100s", what, name);
	}
	return r;
}

/* Sets the variables' offsets in their parts, and the sizes of these. */
static int place_variables(struct rbt_context *ctx, struct dev_module *module,
	uint64_t ret_sizes[2], struct rbt_ptx_error *error)
{
	uint64_t sizes[2] = {0, 0}, limit = ctx->dev->config.memory_bytes;

	for (uint32_t k = 0; k < module->ptx->nvariables; k++) {
		const struct rbt_ptx_variable *v = &module->ptx->variables[k];
		uint64_t align = v->align ? v->align : 1, *size = &sizes[part_of(v)];

		if (v->is_extern) {
			return refuse(error, -ENOTSUP, "a variable of another module", v->name);
		}
		*size = (*size + align - 1) / align * align;
		if (align > MAX_ALIGN || v->size > limit || *size > limit) {
			return refuse(error, -ENOMEM, "too large for the device", v->name);
		}
		module->variable_va[k] = *size;
		*size += v->size;
	}
	memcpy(ret_sizes, sizes, sizeof(sizes));
	return 0;
}

static void init_variable(struct rbt_context *ctx, struct dev_module *module, uint32_t index)
{
	const struct rbt_ptx_variable *v = &module->ptx->variables[index];
	uint8_t *at = ctx->dev->arena.base + (module->variable_va[index] - GPU_MEMORY_VA);

	if (v->init) {
		memcpy(at, v->init, dev_min(v->init_size, v->size));
	}
	for (uint32_t k = 0; k < v->nrelocs; k++) {
		const struct rbt_ptx_reloc *r = &v->relocs[k];
		uint64_t value = r->is_function ? RBT_PTX_FUNC_ADDRESS(r->index)
						: module->variable_va[r->index];

		value += (uint64_t)r->addend;
		if (r->size > sizeof(value) || r->offset > v->size ||
			r->size > v->size - r->offset) {
			continue;
		}
		memcpy(at + r->offset, &value, r->size);
	}
}

static int load_variables(
	struct rbt_context *ctx, struct dev_module *module, struct rbt_ptx_error *error)
{
	uint64_t sizes[2] = {0, 0};
	int r = place_variables(ctx, module, sizes, error);

	for (unsigned part = 0; r == 0 && part < 2; part++) {
		if (sizes[part] == 0) {
			continue;
		}
		r = dev_memory_alloc(
			ctx, sizes[part], MAX_ALIGN, part == 1, true, &module->memory[part]);
		if (r == 0) {
			dev_arena_zero(&ctx->dev->arena, module->memory[part] - GPU_MEMORY_VA,
				sizes[part]);
		} else {
			refuse(error, r, "no device memory", "variables");
		}
	}
	for (uint32_t k = 0; r == 0 && k < module->ptx->nvariables; k++) {
		module->variable_va[k] += module->memory[part_of(&module->ptx->variables[k])];
	}
	for (uint32_t k = 0; r == 0 && k < module->ptx->nvariables; k++) {
		init_variable(ctx, module, k);
	}
	return r;
}

static bool has_flag(const struct rbt_ptx_function *fn, uint32_t flag)
{
	for (uint32_t k = 0; k < fn->nconsts64; k++) {
		if (fn->consts64[k].kind == RBT_PTX_CONST_VARIABLE &&
			fn->consts64[k].index == flag) {
			return true;
		}
	}
	for (uint32_t k = 0; k < fn->nconsts32; k++) {
		if (fn->consts32[k].kind == RBT_PTX_CONST_VARIABLE &&
			fn->consts32[k].index == flag) {
			return true;
		}
	}
	return false;
}

/* Whether a function calls one that polls; an indirect call may. */
static bool calls_poller(const struct dev_module *module, const struct rbt_ptx_function *fn)
{
	for (uint32_t k = 0; k < fn->ncalls; k++) {
		if (fn->calls[k].function == RBT_PTX_NO_INDEX ||
			module->polls[fn->calls[k].function]) {
			return true;
		}
	}
	return false;
}

static void find_pollers(struct rbt_context *ctx, struct dev_module *module)
{
	const struct rbt_ptx_module *ptx = module->ptx;
	uint32_t flag = rbt_ptx_find_variable(ptx, GPU_PREEMPT_FLAG);
	bool changed = true;

	if (flag == RBT_PTX_NO_INDEX || ptx->variables[flag].size != 4 ||
		ptx->variables[flag].space != RBT_PTX_SPACE_GLOBAL ||
		module->variable_va[flag] % 4 != 0) {
		return;
	}
	module->flag = (uint32_t *)(void *)(ctx->dev->arena.base +
					    (module->variable_va[flag] - GPU_MEMORY_VA));
	for (uint32_t k = 0; k < ptx->nfunctions; k++) {
		module->polls[k] = has_flag(&ptx->functions[k], flag);
	}
	/* Callees may be behind their callers. Chains of calls are rarely long. */
	for (unsigned turn = 0; changed && turn < 16; turn++) {
		changed = false;
		for (uint32_t k = 0; k < ptx->nfunctions; k++) {
			if (!module->polls[k] && calls_poller(module, &ptx->functions[k])) {
				module->polls[k] = changed = true;
			}
		}
	}
}

/* Frees a module and its memory. */
static void destroy(struct rbt_context *ctx, struct dev_module *module)
{
	for (unsigned part = 0; part < 2; part++) {
		if (module->memory[part]) {
			(void)dev_memory_free(ctx, module->memory[part], true);
		}
	}
	rbt_ptx_module_destroy(module->ptx);
	free(module->variable_va);
	free(module->polls);
	free(module);
}

void dev_module_put(struct rbt_context *ctx, struct dev_module *module)
{
	if (module && --module->refs == 0) {
		destroy(ctx, module);
	}
}

static int append(struct rbt_context *ctx, struct dev_module *module)
{
	size_t room = ctx->modules_room ? ctx->modules_room * 2 : 8;
	struct dev_module **grown;

	if (ctx->n_modules == ctx->modules_room) {
		grown = realloc(ctx->modules, room * sizeof(grown[0]));
		if (!grown) {
			return -ENOMEM;
		}
		ctx->modules = grown;
		ctx->modules_room = room;
	}
	module->id = ++ctx->last_module;
	ctx->modules[ctx->n_modules++] = module;
	return 0;
}

static int build(struct rbt_context *ctx, struct dev_module *module, const char *text, size_t size,
	struct rbt_ptx_error *error)
{
	int r = rbt_ptx_parse(text, size, &module->ptx, error);

	if (r < 0) {
		return r;
	}
	module->variable_va = calloc(module->ptx->nvariables + 1, sizeof(uint64_t));
	module->polls = calloc(module->ptx->nfunctions + 1, sizeof(bool));
	if (!module->variable_va || !module->polls) {
		return -ENOMEM;
	}
	r = load_variables(ctx, module, error);
	if (r < 0) {
		return r;
	}
	find_pollers(ctx, module);
	return append(ctx, module);
}

int rbt_context_load(struct rbt_context *ctx, const char *text, size_t size, uint32_t *ret_module,
	uint64_t *ret_vas, size_t max, size_t *ret_nvars, struct rbt_ptx_error *error)
{
	struct dev_module *module;
	int r;

	if (error) {
		*error = (struct rbt_ptx_error){0, ""};
	}
	if (ctx->n_modules >= DEV_MAX_MODULES || ctx->last_module == UINT32_MAX) {
		return refuse(error, -ENOMEM, "too many modules", "");
	}
	module = calloc(1, sizeof(*module));
	if (!module) {
		return -ENOMEM;
	}
	module->refs = 1;
	r = build(ctx, module, text, size, error);
	if (r < 0) {
		destroy(ctx, module);
		return r;
	}
	for (size_t k = 0; k < module->ptx->nvariables && k < max; k++) {
		ret_vas[k] = module->variable_va[k];
	}
	*ret_nvars = module->ptx->nvariables;
	*ret_module = module->id;
	return 0;
}

static size_t find(const struct rbt_context *ctx, uint32_t id)
{
	size_t low = 0, high = ctx->n_modules;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ctx->modules[middle]->id < id) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

struct dev_module *dev_module_find(struct rbt_context *ctx, uint32_t id)
{
	size_t at = find(ctx, id);

	return at < ctx->n_modules && ctx->modules[at]->id == id ? ctx->modules[at] : NULL;
}

int rbt_context_unload(struct rbt_context *ctx, uint32_t module)
{
	size_t at = find(ctx, module);
	struct dev_module *gone;

	if (at >= ctx->n_modules || ctx->modules[at]->id != module) {
		return -ENOENT;
	}
	gone = ctx->modules[at];
	ctx->n_modules--;
	memmove(&ctx->modules[at], &ctx->modules[at + 1],
		(ctx->n_modules - at) * sizeof(ctx->modules[0]));
	for (uint32_t k = 0; k < ctx->n_channels; k++) {
		dev_channel_commit(&ctx->channels[k]);
	}
	dev_module_put(ctx, gone);
	return 0;
}

void dev_module_finish(struct rbt_context *ctx)
{
	while (ctx->n_modules > 0) {
		(void)rbt_context_unload(ctx, ctx->modules[ctx->n_modules - 1]->id);
	}
	free(ctx->modules);
	ctx->modules = NULL;
}

void dev_flags_set(struct rbt_context *ctx, uint32_t value)
{
	ctx->flagged = value != 0;
	for (size_t k = 0; k < ctx->n_modules; k++) {
		if (ctx->modules[k]->flag) {
			__atomic_store_n(ctx->modules[k]->flag, value, __ATOMIC_RELAXED);
		}
	}
	/* Modules that were unloaded, but whose kernels still run. */
	for (uint32_t k = 0; k < ctx->n_running; k++) {
		if (ctx->running[k]->module->flag) {
			__atomic_store_n(ctx->running[k]->module->flag, value, __ATOMIC_RELAXED);
		}
	}
}
