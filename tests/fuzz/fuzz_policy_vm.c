/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any instructions at all, in an object that is good otherwise. The input's first byte says how
 * many of them belong to the subprogram, and whether instructions are repaired first, so that more
 * of them are accepted. References to maps are made where an lddw asks for them.
 */
#include <string.h>

#include "../unit/test_policy_world.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_TEXT 32
#define MAX_RELS 12

/* An lddw whose src_reg is not 0 refers to a symbol, a call with src_reg 1 to the subprogram. */
static void add_references(struct world *w)
{
	for (uint32_t i = 0; i < w->n_code && w->n_rels < MAX_RELS; i++) {
		struct bpf_insn *insn = &w->code[i];
		if (insn->code == (BPF_LD | BPF_IMM | BPF_DW)) {
			if (insn->src_reg != 0) {
				const unsigned n = 2 + (unsigned)w->n_maps, k = insn->src_reg % n;
				insn->src_reg = 0;
				insn->imm &= 7;
				world_rel(w, i,
					k == 0   ? WORLD_SYM_DATA
					: k == 1 ? WORLD_SYM_CONSTANT
						 : WORLD_SYM_MAP + k - 2,
					1);
				insn->imm = k < 2 ? insn->imm : 0;
			}
			if (i + 1 < w->n_code) { /* most inputs would fail on this alone */
				w->code[i + 1] = INSN(0, 0, 0, 0, w->code[i + 1].imm);
			}
			i++;
		} else if (insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == BPF_PSEUDO_CALL &&
			   w->n_text > 0) {
			world_rel(w, i, WORLD_SYM_SUB, 10);
		}
	}
}

/* Registers and helpers that exist, and jumps that stay inside. */
static void repair(struct bpf_insn *code, size_t n)
{
	static const int32_t helpers[] = {BPF_FUNC_map_lookup_elem, BPF_FUNC_map_update_elem,
		BPF_FUNC_map_delete_elem, BPF_FUNC_ktime_get_ns, BPF_FUNC_ringbuf_output,
		BPF_FUNC_ringbuf_reserve, BPF_FUNC_ringbuf_submit, BPF_FUNC_ringbuf_discard};

	for (size_t i = 0; i < n; i++) {
		struct bpf_insn *insn = &code[i];
		const unsigned class = BPF_CLASS(insn->code), op = BPF_OP(insn->code);
		const bool is_call = insn->code == (BPF_JMP | BPF_CALL);
		if (insn->code == (BPF_LD | BPF_IMM | BPF_DW)) {
			insn->dst_reg %= 10;
			insn->off = 0;
			i++;
		} else if (is_call) {
			insn->dst_reg = insn->off = 0;
			insn->src_reg &= 1;
			insn->imm = helpers[(uint32_t)insn->imm % 8];
		} else {
			insn->dst_reg %= 11;
			insn->src_reg =
				BPF_SRC(insn->code) == BPF_X || class == BPF_LDX || class == BPF_STX
					? insn->src_reg % 11
					: 0;
			if ((class == BPF_JMP || class == BPF_JMP32) && op != BPF_EXIT) {
				insn->off = (int16_t)((uint16_t)insn->off % n) - (int16_t)i - 1;
			}
		}
	}
}

static void fill(struct world *w, const uint8_t *data, size_t size)
{
	size_t n = size > 0 ? (size - 1) / sizeof(struct bpf_insn) : 0,
	       n_text = size > 0 ? data[0] % MAX_TEXT : 0;
	const uint8_t *at = data + 1;

	n_text = n_text < n ? n_text : 0;
	memcpy(w->text, at, n_text * sizeof(struct bpf_insn));
	w->n_text = n_text;
	n -= n_text;
	n = n < WORLD_MAX_CODE ? n : WORLD_MAX_CODE;
	memcpy(w->code, at + n_text * sizeof(struct bpf_insn), n * sizeof(struct bpf_insn));
	w->n_code = n;
	if (size > 0 && data[0] >= 128) {
		repair(w->code, w->n_code);
		repair(w->text, w->n_text);
	}
	add_references(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	struct rbt_why why = {""};
	struct rbt_engine *e = NULL;

	world_init(&w);
	fill(&w, data, size);
	struct rbt_object *o = world_open(&w, &why);
	if (o == NULL) {
		REQUIRE(why.text[0] != '\0' && strchr(why.text, '\n') == NULL);
		return 0;
	}
	if (rbt_engine_open(RBT_ENGINE_VM, o, NULL, &e, &why, NULL) == 0) {
		for (int i = 0; i < 2; i++) {
			struct bpf_gpu_task_ctx ctx = {.task = (uint64_t)i, .uid = 7}, before = ctx;
			struct rbt_fault fault = {0};
			int r = rbt_engine_run(e, RBT_HOOK_TASK_INIT, &ctx, &fault);
			REQUIRE(r == 0 || memcmp(&ctx, &before, sizeof(ctx)) == 0);
			REQUIRE(r == 0 || (fault.kind != RBT_FAULT_NONE && fault.section != NULL));
		}
		rbt_engine_close(e);
	}
	rbt_object_close(o);
	return 0;
}
