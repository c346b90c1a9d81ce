/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "policy/vm.h"
#include "util/time.h"

/* Flags of ring buffers that concern wake-ups, of which there are none. */
#define RING_FLAGS (BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP)

static struct vm_map *map_of(const struct vm *vm, uint64_t address)
{
	const uint64_t i = (address >> 32) - VM_REGION_HANDLE;

	return (uint32_t)address == 0 && i < vm->base.object->n_maps ? vm->maps[i] : NULL;
}

static uint64_t error(int r)
{
	return (uint64_t)(int64_t)r;
}

/* Long keys and values take longer than an instruction. */
static void charge(struct vm *vm, uint64_t bytes)
{
	vm->charged += bytes / 8;
}

static const char *call_map(struct vm *vm, int32_t id, uint64_t *r)
{
	struct vm_map *m = map_of(vm, r[1]);
	const uint8_t *key, *value;

	if (m == NULL || m->type == BPF_MAP_TYPE_RINGBUF) {
		return "r1 is no map with entries";
	}
	key = vm_at(vm, r[2], m->key_size, false);
	if (key == NULL) {
		return "r2 does not point to a key";
	}
	charge(vm, m->key_size);
	if (id == BPF_FUNC_map_lookup_elem) {
		uint32_t slot = vm_map_find(m, key, true);
		uint64_t region = VM_REGION_MAP + (r[1] >> 32) - VM_REGION_HANDLE;
		r[0] = slot == VM_NO_SLOT
			       ? 0
			       : VM_ADDRESS(region, (uint64_t)slot << vm->regions[region].shift);
		return NULL;
	}
	if (!vm->regions[VM_REGION_MAP + (r[1] >> 32) - VM_REGION_HANDLE].is_writable) {
		return "the map is read-only";
	}
	if (id == BPF_FUNC_map_delete_elem) {
		r[0] = error(vm_map_delete(m, key));
		return NULL;
	}
	value = vm_at(vm, r[3], m->value_size, false);
	if (value == NULL) {
		return "r3 does not point to a value";
	}
	charge(vm, m->value_size);
	r[0] = error(vm_map_update(m, key, value, r[4]));
	return NULL;
}

static const char *call_output(struct vm *vm, struct vm_map *m, uint64_t *r)
{
	const uint64_t size = r[3];
	const uint8_t *data = size > 0 ? vm_at(vm, r[2], size, false) : vm->stack[0];

	if (data == NULL) {
		return "r2 does not point to r3 bytes";
	}
	if ((r[4] & ~(uint64_t)RING_FLAGS) != 0) {
		r[0] = error(-EINVAL);
		return NULL;
	}
	charge(vm, size);
	uint8_t *record = vm_ring_reserve(m, (uint32_t)size);
	if (record == NULL) {
		r[0] = error(-EAGAIN);
		return NULL;
	}
	memcpy(record, data, size);
	r[0] = 0;
	return NULL;
}

static const char *call_reserve(struct vm *vm, struct vm_map *m, uint64_t *r)
{
	const uint64_t size = r[2];

	r[0] = 0;
	for (unsigned i = 0; i < VM_RESERVATIONS; i++) {
		struct vm_reservation *v = &vm->reservations[i];
		if (v->ring != NULL) {
			continue;
		}
		uint8_t *record = size <= m->max_entries && r[3] == 0
					  ? vm_ring_reserve(m, (uint32_t)size)
					  : NULL;
		if (record == NULL) {
			return NULL;
		}
		charge(vm, size);
		memset(record, 0, size);
		*v = (struct vm_reservation){.ring = m, .record = record};
		vm->regions[VM_REGION_RESERVATION + i] = (struct vm_region){.base = record,
			.size = (uint32_t)size,
			.n_slots = 1,
			.shift = 31,
			.is_writable = true};
		r[0] = VM_ADDRESS(VM_REGION_RESERVATION + i, 0);
		return NULL;
	}
	return "more than 8 records are reserved at once";
}

static void finish(struct vm *vm, unsigned i, bool is_discarded)
{
	vm_ring_commit(vm->reservations[i].record, is_discarded);
	vm->reservations[i].ring = NULL;
	vm->regions[VM_REGION_RESERVATION + i].n_slots = 0;
}

static const char *call_finish(struct vm *vm, bool is_discarded, uint64_t *r)
{
	const uint64_t i = (r[1] >> 32) - VM_REGION_RESERVATION;

	if (i >= VM_RESERVATIONS || vm->reservations[i].ring == NULL || (uint32_t)r[1] != 0) {
		return "r1 is no reserved record";
	}
	finish(vm, (unsigned)i, is_discarded);
	r[0] = 0;
	return NULL;
}

bool vm_drop_reservations(struct vm *vm)
{
	bool had_any = false;

	for (unsigned i = 0; i < VM_RESERVATIONS; i++) {
		if (vm->reservations[i].ring != NULL) {
			finish(vm, i, true);
			had_any = true;
		}
	}
	return had_any;
}

const char *vm_helper(struct vm *vm, int32_t id, uint64_t *r)
{
	struct vm_map *m;

	switch (id) {
	case BPF_FUNC_map_lookup_elem:
	case BPF_FUNC_map_update_elem:
	case BPF_FUNC_map_delete_elem:
		return call_map(vm, id, r);
	case BPF_FUNC_ktime_get_ns:
		r[0] = rbt_now_ns();
		return NULL;
	case BPF_FUNC_ringbuf_submit:
	case BPF_FUNC_ringbuf_discard:
		return call_finish(vm, id == BPF_FUNC_ringbuf_discard, r);
	default:
		m = map_of(vm, r[1]);
		if (m == NULL || m->type != BPF_MAP_TYPE_RINGBUF) {
			return "r1 is no ring buffer";
		}
		return id == BPF_FUNC_ringbuf_output ? call_output(vm, m, r)
						     : call_reserve(vm, m, r);
	}
}
