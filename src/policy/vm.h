/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vm's memory, as a policy sees it. An address is not one of this process: its upper half
 * names a region, its lower half is a place in it. So a policy can reach nothing but its regions,
 * whatever it calculates.
 *
 * A region consists of slots of 2^shift addresses each. Only the first `size` bytes of each can be
 * accessed, so that an access beyond a map's element fails although there is another one behind.
 */
#ifndef RBT_POLICY_VM_H
#define RBT_POLICY_VM_H

#include "policy/engine_ops.h"
#include "policy/vm_map.h"

#define VM_FRAMES       8
#define VM_FRAME_SIZE   512
#define VM_RESERVATIONS 8

/* Regions. Region 0 has no memory: small numbers, such as NULL, are no addresses. */
#define VM_REGION_FRAME       1
#define VM_REGION_CTX         (VM_REGION_FRAME + VM_FRAMES)
#define VM_REGION_RESERVATION (VM_REGION_CTX + 1)
#define VM_REGION_MAP         (VM_REGION_RESERVATION + VM_RESERVATIONS)
#define VM_REGIONS            (VM_REGION_MAP + RBT_OBJECT_MAX_MAPS)
/* A map itself, as an argument of helpers, has an address without memory. */
#define VM_REGION_HANDLE 0x10000u

#define VM_ADDRESS(region, low) ((uint64_t)(region) << 32 | (uint32_t)(low))

struct vm_region {
	uint8_t *base;
	uint32_t size;    /* of each slot, in bytes */
	uint32_t n_slots; /* 0: the region is not there */
	uint32_t stride;  /* from slot to slot, in our memory */
	uint8_t shift;
	bool is_writable;
};

/*
 * A load of 8 bytes and the store of them to the own frame, which is the next instruction. Policies
 * copy their context so (GPU_SCHED_HOOK); most of a hook's time is for dispatching instructions.
 * check.c lets no object have this code.
 */
#define VM_COPY (BPF_JMP32 | BPF_JA)

struct vm_insn {
	uint8_t code, dst, src;
	bool is_frame; /* accesses its own frame by r10, at a place that has been checked */
	int32_t off;   /* of memory; otherwise the index of the instruction that is jumped to */
	uint64_t imm;
};

struct vm_reservation {
	struct vm_map *ring; /* NULL: not in use */
	uint8_t *record;
};

struct vm {
	struct rbt_engine base;
	struct vm_insn *code;
	struct vm_map *maps[RBT_OBJECT_MAX_MAPS];
	struct vm_region regions[VM_REGIONS];
	struct vm_reservation reservations[VM_RESERVATIONS];
	uint64_t charged; /* what helpers cost beside the call */
	_Alignas(8) uint8_t stack[VM_FRAMES][VM_FRAME_SIZE];
};

/* Our address of n bytes (n > 0), or NULL if the policy may not access all of them. */
static inline uint8_t *vm_at(const struct vm *vm, uint64_t address, uint64_t n, bool is_write)
{
	const uint64_t id = address >> 32;

	if (id >= VM_REGIONS) {
		return NULL;
	}
	const struct vm_region *r = &vm->regions[id];
	const uint32_t low = (uint32_t)address, slot = low >> r->shift;
	const uint64_t off = low & ((1u << r->shift) - 1);
	if (slot >= r->n_slots || n > r->size || off > r->size - n ||
		(is_write && !r->is_writable)) {
		return NULL;
	}
	return r->base + (size_t)slot * r->stride + off;
}

/*
 * vm_helper.c: calls a helper of the allow list with the arguments in r1 to r5; the result is in
 * r0. NULL, or what is wrong with the call.
 */
const char *vm_helper(struct vm *vm, int32_t id, uint64_t *r);
/* Gives back records that were neither submitted nor discarded. Whether there were any. */
bool vm_drop_reservations(struct vm *vm);

#endif
