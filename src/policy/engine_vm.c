/* SPDX-License-Identifier: Apache-2.0 */
/* The engine "vm": its maps, its code, and the memory that the code may access. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/vm.h"
#include "policy/vm_run.h"

static struct vm *of(struct rbt_engine *e)
{
	return (struct vm *)((char *)e - offsetof(struct vm, base));
}

static int run(struct rbt_engine *e, enum rbt_hook hook, void *ctx, struct rbt_fault *fault)
{
	struct vm *vm = of(e);
	uint64_t value = 0;

	vm->regions[VM_REGION_CTX] = (struct vm_region){.base = ctx,
		.size = (uint32_t)rbt_hook_ctx_size(hook),
		.n_slots = 1,
		.shift = 31,
		.is_writable = true};
	int r = vm_run(vm, e->object->functions[e->object->hooks[hook]].start, &value, fault);
	vm->regions[VM_REGION_CTX].n_slots = 0;
	if (r == 0 && (uint32_t)value != 0) { /* a hook returns an int, as the kernel sees it */
		fault->kind = RBT_FAULT_RETURNED;
		fault->value = (int32_t)value;
		return -EFAULT;
	}
	return r;
}

static int lookup(struct rbt_engine *e, unsigned map, const void *key, void *ret_value)
{
	struct vm_map *m = of(e)->maps[map];
	uint32_t slot = vm_map_find(m, key, false);

	if (slot == VM_NO_SLOT) {
		return -ENOENT;
	}
	memcpy(ret_value, vm_map_value(m, slot), m->value_size);
	return 0;
}

static int update(
	struct rbt_engine *e, unsigned map, const void *key, const void *value, uint64_t flags)
{
	return vm_map_update(of(e)->maps[map], key, value, flags);
}

static int delete (struct rbt_engine *e, unsigned map, const void *key)
{
	return vm_map_delete(of(e)->maps[map], key);
}

static int next_key(struct rbt_engine *e, unsigned map, const void *key, void *ret_key)
{
	return vm_map_next_key(of(e)->maps[map], key, ret_key);
}

static ssize_t read_ring(struct rbt_engine *e, unsigned map, void *buf, size_t size)
{
	return vm_ring_read(of(e)->maps[map], buf, size);
}

static void close_vm(struct rbt_engine *e)
{
	struct vm *vm = of(e);

	for (size_t i = 0; i < RBT_OBJECT_MAX_MAPS; i++) {
		vm_map_unref(vm->maps[i]);
	}
	free(vm->code);
	free(vm);
}

static const struct rbt_engine_ops ops = {
	.kind = RBT_ENGINE_VM,
	.run = run,
	.lookup = lookup,
	.update = update,
	.delete = delete,
	.next_key = next_key,
	.read_ring = read_ring,
	.close = close_vm,
};

static void init_frames(struct vm *vm)
{
	for (unsigned i = 0; i < VM_FRAMES; i++) {
		vm->regions[VM_REGION_FRAME + i] = (struct vm_region){.base = vm->stack[i],
			.size = VM_FRAME_SIZE,
			.shift = 31,
			.is_writable = true};
	}
}

static int init_maps(struct vm *vm, const struct rbt_object *o, const struct rbt_heritage *heritage)
{
	for (size_t i = 0; i < o->n_maps; i++) {
		struct vm_map *m = heritage->maps[i] >= 0
					   ? vm_map_ref(of(heritage->from)->maps[heritage->maps[i]])
					   : vm_map_create(&o->maps[i]);
		if (m == NULL) {
			return -ENOMEM;
		}
		vm->maps[i] = m;
		if (m->type == BPF_MAP_TYPE_RINGBUF) {
			continue;
		}
		struct vm_region region = {.base = m->values,
			.size = m->value_size,
			.n_slots = m->n_slots,
			.stride = m->stride,
			.is_writable = !o->maps[i].is_read_only};
		while ((1u << region.shift) < m->value_size) {
			region.shift++;
		}
		vm->regions[VM_REGION_MAP + i] = region;
	}
	return 0;
}

/* Most accesses of a policy are to its variables on the stack. r10 never changes within a function,
 * so that they can be checked once. */
static bool is_in_frame(const struct bpf_insn *insn)
{
	static const uint8_t sizes[] = {4, 2, 1, 8}; /* BPF_W, BPF_H, BPF_B, BPF_DW */
	const unsigned class = BPF_CLASS(insn->code);
	const int size = sizes[BPF_SIZE(insn->code) >> 3];

	return (class == BPF_LDX ? insn->src_reg : insn->dst_reg) == BPF_REG_10 &&
	       insn->off >= -VM_FRAME_SIZE && insn->off <= -size;
}

/* Turns an instruction into the form in which the interpreter takes the fewest steps. */
static struct vm_insn decode(const struct bpf_insn *insn, uint32_t at)
{
	const unsigned class = BPF_CLASS(insn->code), op = BPF_OP(insn->code);
	struct vm_insn i = {.code = insn->code,
		.dst = insn->dst_reg,
		.src = insn->src_reg,
		.off = insn->off,
		.imm = (uint64_t)(int64_t)insn->imm};

	if (class == BPF_JMP || class == BPF_JMP32) {
		i.off = (int32_t)at + 1 + (op == BPF_CALL ? insn->imm : insn->off);
	} else if (class == BPF_LDX || class == BPF_ST || class == BPF_STX) {
		i.is_frame = is_in_frame(insn);
	} else if (class == BPF_LD && insn->src_reg == BPF_PSEUDO_MAP_FD) {
		i.imm = VM_ADDRESS(VM_REGION_HANDLE + (uint32_t)insn->imm, 0);
	} else if (class == BPF_LD && insn->src_reg == BPF_PSEUDO_MAP_VALUE) {
		i.imm = VM_ADDRESS(VM_REGION_MAP + (uint32_t)insn->imm, insn[1].imm);
	} else if (class == BPF_LD) {
		i.imm = (uint32_t)insn->imm | (uint64_t)(uint32_t)insn[1].imm << 32;
	}
	return i;
}

/* The store stays in its place, for jumps to it. */
static void fuse(struct vm_insn *code, uint32_t n)
{
	for (uint32_t i = 0; i + 1 < n; i++) {
		if (code[i].code == (BPF_LDX | BPF_MEM | BPF_DW) &&
			code[i + 1].code == (BPF_STX | BPF_MEM | BPF_DW) &&
			code[i + 1].src == code[i].dst && code[i + 1].is_frame) {
			code[i].code = VM_COPY;
		}
	}
}

static int init_code(struct vm *vm, const struct rbt_object *o)
{
	vm->code = calloc(o->n_code, sizeof(*vm->code));
	if (vm->code == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < o->n_code; i++) {
		vm->code[i] = decode(&o->code[i], i);
		if (BPF_CLASS(o->code[i].code) == BPF_LD) {
			i++; /* its second half is no instruction */
		}
	}
	fuse(vm->code, o->n_code);
	return 0;
}

int rbt_vm_open(const struct rbt_object *o, const struct rbt_heritage *heritage,
	struct rbt_engine **ret, struct rbt_why *why)
{
	struct vm *vm = calloc(1, sizeof(*vm));
	int r = -ENOMEM;

	if (vm != NULL) {
		vm->base = (struct rbt_engine){.ops = &ops, .object = o};
		init_frames(vm);
		r = init_maps(vm, o, heritage);
		r = r == 0 ? init_code(vm, o) : r;
	}
	if (r < 0) {
		if (vm != NULL) {
			close_vm(&vm->base);
		}
		return rbt_why_set(why, r, "vm: out of memory");
	}
	*ret = &vm->base;
	return 0;
}
