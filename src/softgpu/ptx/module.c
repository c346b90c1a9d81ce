/* SPDX-License-Identifier: Apache-2.0 */
/* A parsed module: lookups, and its destruction. */
#include <stdlib.h>

#include "softgpu/ptx/impl.h"

static void function_finish(struct rbt_ptx_function *f)
{
	for (uint32_t i = 0; f->params != NULL && i < f->nparams + f->nrets; i++) {
		free(f->params[i].name);
	}
	for (uint32_t i = 0; i < f->ncalls; i++) {
		free(f->calls[i].args);
	}
	free(f->params);
	free(f->consts32);
	free(f->consts64);
	free(f->insts);
	free(f->calls);
	free(f->name);
}

void rbt_ptx_module_destroy(struct rbt_ptx_module *module)
{
	if (module == NULL) {
		return;
	}
	for (uint32_t i = 0; i < module->nfunctions; i++) {
		function_finish(&module->functions[i]);
	}
	for (uint32_t i = 0; i < module->nvariables; i++) {
		free(module->variables[i].name);
		free(module->variables[i].init);
		free(module->variables[i].relocs);
	}
	free(module->functions);
	free(module->variables);
	free(module);
}

const struct rbt_ptx_function *rbt_ptx_find_entry(
	const struct rbt_ptx_module *module, const char *name)
{
	for (uint32_t i = 0; i < module->nfunctions; i++) {
		const struct rbt_ptx_function *f = &module->functions[i];

		if (f->is_entry && f->has_body && strcmp(f->name, name) == 0) {
			return f;
		}
	}
	return NULL;
}

uint32_t rbt_ptx_find_variable(const struct rbt_ptx_module *module, const char *name)
{
	for (uint32_t i = 0; i < module->nvariables; i++) {
		if (strcmp(module->variables[i].name, name) == 0) {
			return i;
		}
	}
	return RBT_PTX_NO_INDEX;
}

const struct rbt_ptx_function *rbt_ptx_function_at(
	const struct rbt_ptx_module *module, uint64_t address)
{
	uint64_t index = (address - RBT_PTX_FUNC_ADDRESS(0)) >> 4;

	if (address < RBT_PTX_FUNC_ADDRESS(0) || (address & 15) != 0 ||
		index >= module->nfunctions) {
		return NULL;
	}
	return &module->functions[index];
}
