/* SPDX-License-Identifier: Apache-2.0 */
#include "board/ledger.h"

#include <errno.h>

void rbt_ledger_init(struct rbt_ledger *l)
{
	l->magic = RBT_LEDGER_MAGIC;
	l->version = RBT_LEDGER_VERSION;
	l->size = RBT_LEDGER_SIZE;
	l->n_slots = RBT_LEDGER_SLOTS;
}

bool rbt_ledger_is_sound(const struct rbt_ledger *l)
{
	const volatile uint32_t *id = &l->magic;

	return id[0] == RBT_LEDGER_MAGIC && id[1] == RBT_LEDGER_VERSION &&
	       id[2] == RBT_LEDGER_SIZE && id[3] == RBT_LEDGER_SLOTS;
}

/* Never below zero: a wrong number must not make the rest wrong for ever. */
static void subtract(_Atomic uint64_t *from, uint64_t bytes)
{
	uint64_t old = atomic_load(from);

	while (!atomic_compare_exchange_weak(from, &old, old > bytes ? old - bytes : 0)) {
	}
}

static bool add_within(_Atomic uint64_t *total, uint64_t bytes, uint64_t limit)
{
	uint64_t old = atomic_load(total);

	do {
		if (old > limit || bytes > limit - old) {
			return false;
		}
	} while (!atomic_compare_exchange_weak(total, &old, old + bytes));
	return true;
}

bool rbt_ledger_charge(
	struct rbt_ledger *l, uint32_t slot, uint32_t gpu, uint64_t bytes, uint64_t limit)
{
	struct rbt_ledger_slot *s = &l->slots[slot];

	atomic_fetch_add(&s->begun, 1);
	bool fits = add_within(&l->totals[gpu], bytes, limit);
	if (fits) {
		atomic_fetch_add(&s->bytes[gpu], bytes);
	}
	atomic_fetch_add(&s->done, 1);
	return fits;
}

void rbt_ledger_give_back(struct rbt_ledger *l, uint32_t slot, uint32_t gpu, uint64_t bytes)
{
	struct rbt_ledger_slot *s = &l->slots[slot];

	atomic_fetch_add(&s->begun, 1);
	subtract(&s->bytes[gpu], bytes);
	subtract(&l->totals[gpu], bytes);
	atomic_fetch_add(&s->done, 1);
}

uint64_t rbt_ledger_limit(const struct rbt_ledger *l)
{
	uint64_t limit = atomic_load_explicit(&l->limit, memory_order_relaxed);

	return limit != 0 ? limit : UINT64_MAX;
}

static void empty_slot(struct rbt_ledger_slot *s)
{
	for (uint32_t gpu = 0; gpu < RBT_LEDGER_GPUS; gpu++) {
		atomic_store(&s->bytes[gpu], 0);
	}
	atomic_store(&s->begun, 0);
	atomic_store(&s->done, 0);
}

int rbt_ledger_take_slot(struct rbt_ledger *l, uint32_t pid, uint64_t image)
{
	for (uint32_t i = 0; i < RBT_LEDGER_SLOTS; i++) {
		if (atomic_load(&l->slots[i].pid) == 0) {
			empty_slot(&l->slots[i]);
			atomic_store(&l->slots[i].image, image);
			atomic_store(&l->slots[i].pid, pid);
			return (int)i;
		}
	}
	return -ENOSPC;
}

bool rbt_ledger_clear_slot(struct rbt_ledger *l, uint32_t slot)
{
	struct rbt_ledger_slot *s = &l->slots[slot];
	bool is_whole = atomic_load(&s->begun) == atomic_load(&s->done);

	for (uint32_t gpu = 0; gpu < RBT_LEDGER_GPUS; gpu++) {
		subtract(&l->totals[gpu], atomic_exchange(&s->bytes[gpu], 0));
	}
	empty_slot(s);
	atomic_store(&s->pid, 0);
	return is_whole;
}

/* Whether no process is in the middle of a change; *ret_sum changes with each change. */
static bool is_quiet(struct rbt_ledger *l, uint64_t *ret_sum)
{
	bool is_quiet = true;

	*ret_sum = 0;
	for (uint32_t i = 0; i < RBT_LEDGER_SLOTS; i++) {
		uint32_t done = atomic_load(&l->slots[i].done);
		uint32_t begun = atomic_load(&l->slots[i].begun);

		is_quiet = is_quiet && begun == done;
		*ret_sum += begun;
	}
	return is_quiet;
}

/*
 * While no change is under way, total - sum is the error, and no complete change alters it. So it
 * can be measured at a quiet moment and subtracted later, while processes go on.
 */
bool rbt_ledger_audit(struct rbt_ledger *l)
{
	int64_t errors[RBT_LEDGER_GPUS];
	uint64_t before, after;

	if (!is_quiet(l, &before)) {
		return false;
	}
	for (uint32_t gpu = 0; gpu < RBT_LEDGER_GPUS; gpu++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < RBT_LEDGER_SLOTS; i++) {
			sum += atomic_load(&l->slots[i].bytes[gpu]);
		}
		errors[gpu] = (int64_t)(atomic_load(&l->totals[gpu]) - sum);
	}
	if (!is_quiet(l, &after) || after != before) {
		return false;
	}
	for (uint32_t gpu = 0; gpu < RBT_LEDGER_GPUS; gpu++) {
		if (errors[gpu] > 0) {
			subtract(&l->totals[gpu], (uint64_t)errors[gpu]);
		} else {
			atomic_fetch_add(&l->totals[gpu], (uint64_t)-errors[gpu]);
		}
	}
	return true;
}
