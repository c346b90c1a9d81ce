/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the decoder of an instruction by its name; modifiers that no decoder has used are
 * refused. */
#include "softgpu/ptx/impl.h"

/* Whether the instruction has this modifier, which then counts as used. */
bool ptx_has(struct insn *in, const char *mod)
{
	for (unsigned i = 0; i < in->nmods; i++) {
		if (strcmp(in->mods[i], mod) == 0) {
			in->used[i] = true;
			return true;
		}
	}
	return false;
}

/* The index of the first of the words (NULL ends them) that is a modifier, or -1. */
int ptx_one_of(struct insn *in, const char *const *words)
{
	for (int i = 0; words[i] != NULL; i++) {
		if (ptx_has(in, words[i])) {
			return i;
		}
	}
	return -1;
}

int ptx_nops(struct parser *p, struct insn *in, unsigned min, unsigned max)
{
	if (in->nops < min || in->nops > max) {
		return ptx_fail(p, EINVAL, "'%s' with %u operands", in->name, in->nops);
	}
	return 0;
}

int ptx_no_form(struct parser *p, struct insn *in)
{
	char form[80];
	size_t used = 0;

	for (unsigned i = 0; i < in->nmods && used < sizeof(form); i++) {
		used += (size_t)snprintf(form + used, sizeof(form) - used, ".%s", in->mods[i]);
	}
	return ptx_fail(p, ENOTSUP, "'%s%s' is not supported", in->name, in->nmods > 0 ? form : "");
}

/* enum rbt_ptx_round, or -1: the instruction has none. */
int ptx_rounding(struct insn *in)
{
	static const char *const words[] = {
		"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "approx", "full", NULL};
	int round = ptx_one_of(in, words);

	return round > RBT_PTX_APPROX ? RBT_PTX_APPROX : round;
}

static ptx_decode_fn *decoder_of(const char *name)
{
	const struct decoder *const tables[] = {ptx_mem_decoders, ptx_move_decoders,
		ptx_compare_decoders, ptx_flow_decoders, ptx_lower_decoders, ptx_sync_decoders};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		for (const struct decoder *d = tables[i]; d->name != NULL; d++) {
			if (strcmp(d->name, name) == 0) {
				return d->decode;
			}
		}
	}
	return NULL;
}

int ptx_decode(struct parser *p, struct insn *in)
{
	ptx_decode_fn *decode = decoder_of(in->name);
	bool known = decode != NULL;
	int r = known ? decode(p, in) : ptx_decode_alu(p, in, &known);

	if (r < 0) {
		return r;
	}
	if (!known) {
		return ptx_fail(p, ENOTSUP, "the instruction '%s' is not supported", in->name);
	}
	for (unsigned i = 0; i < in->nmods; i++) {
		if (!in->used[i]) {
			return ptx_fail(p, ENOTSUP, "'.%.40s' of '%s' is not supported",
				in->mods[i], in->name);
		}
	}
	return ptx_emit(p, in);
}
