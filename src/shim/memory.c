/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/memory.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/own.h"
#include "shim/shim.h"
#include "shim/submit.h"

/* About a second, if nobody else wants the processor. The thread with the lock runs meanwhile. */
#define MAX_YIELDS 1000000
#define SPINS      64

/* False: this thread has the lock (a signal handler interrupted it), or nobody gives it up. */
static bool lock(struct shim_memory *m)
{
	const uintptr_t me = (uintptr_t)&shim_own;

	for (int i = 0; i < MAX_YIELDS; i++) {
		uintptr_t holder = 0;
		if (atomic_compare_exchange_strong(&m->lock_owner, &holder, me)) {
			return true;
		}
		if (holder == me) {
			return false;
		}
		if (i >= SPINS) {
			shim_sys_yield();
		}
	}
	return false;
}

static void unlock(struct shim_memory *m)
{
	atomic_store_explicit(&m->lock_owner, 0, memory_order_release);
}

static struct rbt_ledger *ledger_of(struct shim_memory *m)
{
	return m->shared != NULL ? m->shared : &m->alone;
}

static uint64_t limit_of(const struct shim_memory *m)
{
	if (m->shared != NULL) {
		return rbt_ledger_limit(m->shared);
	}
	return shim_config.treat.memory != 0 ? shim_config.treat.memory : UINT64_MAX;
}

static struct shim_memory_owner *find_owner(struct shim_memory *m, uint32_t client, uint32_t handle)
{
	for (uint32_t i = 0; i < m->n_owners; i++) {
		if (m->owners[i].client == client && m->owners[i].handle == handle) {
			return &m->owners[i];
		}
	}
	return NULL;
}

static uint32_t *bucket(struct shim_memory *m, uint32_t client, uint32_t handle)
{
	uint32_t h = (client * 0x85ebca6bu) ^ (handle * 0x9e3779b1u);

	return &m->hash[(h ^ (h >> 15)) % SHIM_ALLOC_HASH];
}

/* Returns the place that refers to the entry, or to 0 at the end of its bucket. */
static uint32_t *find(struct shim_memory *m, uint32_t client, uint32_t handle)
{
	uint32_t *link = bucket(m, client, handle);

	while (*link != 0 &&
		(m->entries[*link].client != client || m->entries[*link].handle != handle)) {
		link = &m->entries[*link].next;
	}
	return link;
}

/* Whether the program is being parked, is parked, or comes back. */
static bool is_moving(void)
{
	const struct rbt_board *b = shim_board_peek();

	return b != NULL && (atomic_load(&b->parking) & RBT_BOARD_MOVES) != 0;
}

/* The program is back: what the driver has not allocated again is given back. */
static void end_move(struct shim_memory *m)
{
	for (uint32_t gpu = 0; m->has_left && gpu < RBT_LEDGER_GPUS; gpu++) {
		if (m->kept[gpu] > 0) {
			rbt_ledger_give_back(ledger_of(m), m->slot, gpu, m->kept[gpu]);
			m->kept[gpu] = 0;
		}
	}
	m->has_left = false;
}

static void give_back(struct shim_memory *m, uint32_t gpu, uint64_t bytes)
{
	if (is_moving()) {
		m->has_left = true;
		m->kept[gpu] += bytes;
		return;
	}
	end_move(m);
	rbt_ledger_give_back(ledger_of(m), m->slot, gpu, bytes);
}

/* False: the limit does not allow it. Memory that comes back is charged already; and a driver that
 * is refused any of it loses the program, so nothing is refused then. */
static bool take(struct shim_memory *m, uint32_t gpu, uint64_t bytes, uint64_t limit)
{
	if (!is_moving()) {
		end_move(m);
	}
	uint64_t kept = m->kept[gpu] < bytes ? m->kept[gpu] : bytes;
	bool fits = rbt_ledger_charge(
		ledger_of(m), m->slot, gpu, bytes - kept, m->has_left ? UINT64_MAX : limit);

	m->kept[gpu] -= fits ? kept : 0;
	return fits;
}

static void remove_at(struct shim_memory *m, uint32_t *link)
{
	uint32_t i = *link;
	struct shim_alloc *e = &m->entries[i];

	give_back(m, e->gpu, e->bytes);
	*link = e->next;
	*e = (struct shim_alloc){.next = m->first_free};
	m->first_free = i;
}

static bool has_room(const struct shim_memory *m)
{
	return m->first_free != 0 || m->n_high < SHIM_MAX_ALLOCS;
}

static void add(struct shim_memory *m, const struct shim_charge *c, uint32_t handle)
{
	uint32_t *link = find(m, c->client, handle);

	if (*link != 0) {
		remove_at(m, link); /* its end was missed, or is about to be told */
	}
	uint32_t i = m->first_free;
	if (i != 0) {
		m->first_free = m->entries[i].next;
	} else {
		i = ++m->n_high;
	}
	link = bucket(m, c->client, handle);
	m->entries[i] = (struct shim_alloc){.client = c->client,
		.handle = handle,
		.parent = c->parent,
		.next = *link,
		.bytes = c->bytes,
		.serial = ++m->serial,
		.gpu = c->gpu};
	*link = i;
}

/* Asks about the GPU, once. Without the lock, because the driver may make the call wait. */
static void identify(struct shim_memory *m, int fd, const struct shim_memory_owner *owner)
{
	struct shim_memory_owner asked = *owner, *o;
	uint32_t subdevice = 0;

	for (uint32_t i = 0; i < m->n_owners; i++) {
		if (m->owners[i].client == asked.client && m->owners[i].device == asked.device &&
			m->owners[i].handle != asked.device) {
			subdevice = m->owners[i].handle;
		}
	}
	unlock(m);
	asked.pci = 0; /* not asked again, whatever the answer is */
	if (subdevice != 0) {
		shim_memory_identify(fd, asked.client, subdevice, &asked.pci, &asked.limit);
	}
	if (!lock(m)) {
		return;
	}
	for (uint32_t i = 0; i < m->n_owners; i++) {
		o = &m->owners[i];
		if (o->client == asked.client && o->device == asked.device) {
			o->pci = asked.pci;
			o->limit = asked.limit;
		}
	}
	unlock(m);
}

/* Returns false if the limit does not allow it. *ret has what was charged, if anything. */
static bool charge(struct shim_memory *m, struct shim_charge *c, uint64_t bytes)
{
	const struct shim_memory_owner *owner = find_owner(m, c->client, c->parent);

	if (owner == NULL || owner->gpu >= RBT_LEDGER_GPUS) {
		return true;
	}
	if (!has_room(m)) {
		if (!m->said_full) {
			m->said_full = true;
			shim_say((const char *const[]){"rubato: this program has more GPU "
						       "allocations than can be counted: further "
						       "ones are not limited",
				NULL});
		}
		return true;
	}
	uint64_t limit = limit_of(m);
	limit = owner->limit < limit ? owner->limit : limit;
	if (!take(m, owner->gpu, bytes, limit)) {
		return false;
	}
	c->gpu = owner->gpu;
	c->bytes = bytes;
	return true;
}

static size_t status_offset(unsigned long request)
{
	return request == NV_IOCTL_ALLOC64 ? offsetof(struct nv_alloc64, status)
					   : offsetof(struct nv_alloc21, status);
}

static void refuse(unsigned long request, void *arg)
{
	const uint32_t status = NV_ERR_NO_MEMORY;

	memcpy((char *)arg + status_offset(request), &status, sizeof(status));
}

/* The driver has not seen the address yet, so it may be wrong. */
static bool read_size(uint64_t params, uint64_t *ret_bytes)
{
	const char *at = (const char *)(uintptr_t)params + offsetof(struct nv_memory_params, size);

	if (!shim_sys_is_readable(at)) {
		return false;
	}
	memcpy(ret_bytes, at, sizeof(*ret_bytes));
	return true;
}

/* The device and its subdevice are known from calls that the driver has accepted, so this call is
 * for the driver, too. Its parameters may still be anywhere. */
bool shim_memory_refuses(
	struct shim *s, int fd, unsigned long request, void *arg, struct shim_charge *ret)
{
	struct shim_memory *m = &s->memory;
	struct nv_alloc21 a; /* the longer form begins with the same members */
	uint64_t bytes = 0;

	ret->serial = m->serial;
	if ((request != NV_IOCTL_ALLOC64 && request != NV_IOCTL_ALLOC21) || arg == NULL ||
		m->n_owners == 0) {
		return false;
	}
	memcpy(&a, arg, sizeof(a));
	if (a.hclass != NV_CLASS_MEMORY_LOCAL || a.params == 0 || !read_size(a.params, &bytes) ||
		bytes == 0 || !lock(m)) {
		return false;
	}
	const struct shim_memory_owner *owner = find_owner(m, a.root, a.parent);
	if (owner != NULL && owner->pci == UINT32_MAX) {
		identify(m, fd, owner);
		if (!lock(m)) {
			return false;
		}
	}
	ret->client = a.root;
	ret->parent = a.parent;
	bool fits = charge(m, ret, bytes);
	unlock(m);
	if (!fits) {
		refuse(request, arg);
	}
	return !fits;
}

static void settle(struct shim_memory *m, bool is_made, unsigned long request, const void *arg,
	const struct shim_charge *c)
{
	struct nv_alloc21 a; /* the longer form begins with the same members */
	uint32_t status;

	memcpy(&a, arg, sizeof(a));
	memcpy(&status, (const char *)arg + status_offset(request), sizeof(status));
	bool has_lock = lock(m);
	if (is_made && status == NV_OK && has_lock) {
		add(m, c, a.object);
	} else {
		give_back(m, c->gpu, c->bytes);
	}
	if (has_lock) {
		unlock(m);
	}
}

static void add_owner(struct shim_memory *m, const struct shim_event *ev)
{
	bool is_device = ev->hclass == NV_CLASS_DEVICE;
	const struct shim_memory_owner *device =
		is_device ? NULL : find_owner(m, ev->client, ev->parent);
	struct shim_memory_owner *o = find_owner(m, ev->client, ev->object);

	if ((!is_device && device == NULL) ||
		(o == NULL && m->n_owners == SHIM_MAX_MEMORY_OWNERS)) {
		return;
	}
	struct shim_memory_owner fresh = {.client = ev->client,
		.handle = ev->object,
		.device = is_device ? ev->object : device->device,
		.gpu = is_device ? (uint32_t)ev->value : device->gpu,
		.pci = is_device ? UINT32_MAX : device->pci,
		.limit = is_device ? UINT64_MAX : device->limit};
	if (o != NULL) {
		*o = fresh;
	} else {
		m->owners[m->n_owners] = fresh;
		m->n_owners++;
	}
}

/* Removes all allocations of a client, or those below one of its devices or subdevices. */
static void drop_below(struct shim_memory *m, uint32_t client, uint32_t object, uint64_t serial)
{
	for (uint32_t b = 0; b < SHIM_ALLOC_HASH; b++) {
		for (uint32_t *link = &m->hash[b]; *link != 0;) {
			const struct shim_alloc *e = &m->entries[*link];
			const struct shim_memory_owner *o = find_owner(m, client, e->parent);

			if (e->client == client && e->serial <= serial &&
				(object == client || e->parent == object ||
					(o != NULL && o->device == object))) {
				remove_at(m, link);
			} else {
				link = &m->entries[*link].next;
			}
		}
	}
	for (uint32_t i = 0; i < m->n_owners;) {
		const struct shim_memory_owner *o = &m->owners[i];
		if (o->client == client &&
			(object == client || o->handle == object || o->device == object)) {
			m->owners[i] = m->owners[m->n_owners - 1];
			m->n_owners--;
		} else {
			i++;
		}
	}
}

static void drop_object(struct shim_memory *m, uint32_t client, uint32_t object, uint64_t serial)
{
	uint32_t *link = find(m, client, object);

	if (*link != 0) {
		/* One that is newer got the freed handle meanwhile, in another thread. */
		if (m->entries[*link].serial <= serial) {
			remove_at(m, link);
		}
	} else if (object == client || find_owner(m, client, object) != NULL) {
		drop_below(m, client, object, serial);
	}
}

static void learn(struct shim_memory *m, const struct shim_event *ev, const struct shim_charge *c)
{
	bool is_owner = ev->type == EV_ALLOC &&
			(ev->hclass == NV_CLASS_DEVICE || ev->hclass == NV_CLASS_SUBDEVICE);

	if ((!is_owner && (ev->type != EV_FREE || m->n_owners == 0)) || !lock(m)) {
		return;
	}
	if (is_owner) {
		add_owner(m, ev);
	} else {
		drop_object(m, ev->client, ev->object, c->serial);
	}
	unlock(m);
}

void shim_memory_after(struct shim *s, bool is_made, unsigned long request, const void *arg,
	const struct shim_event *ev, const struct shim_charge *charge)
{
	if (charge->bytes > 0) {
		settle(&s->memory, is_made, request, arg, charge);
	}
	if (ev->type != EV_NONE) {
		learn(&s->memory, ev, charge);
	}
}

void shim_memory_drop_client(struct shim *s, uint32_t client)
{
	struct shim_memory *m = &s->memory;

	if (m->n_owners > 0 && lock(m)) {
		drop_below(m, client, client, m->serial);
		unlock(m);
	}
}

/* Moves this process's counts to another ledger. */
static void move(struct shim_memory *m, struct rbt_ledger *to, uint32_t slot)
{
	struct rbt_ledger *from = ledger_of(m);

	for (uint32_t gpu = 0; gpu < RBT_LEDGER_GPUS; gpu++) {
		uint64_t bytes = atomic_load(&from->slots[m->slot].bytes[gpu]);
		if (bytes > 0) {
			rbt_ledger_charge(to, slot, gpu, bytes, UINT64_MAX);
			rbt_ledger_give_back(from, m->slot, gpu, bytes);
		}
	}
	m->shared = to;
	m->slot = slot;
}

int shim_memory_join(struct shim *s, int fd, uint32_t slot)
{
	struct shim_memory *m = &s->memory;
	struct rbt_ledger *old = m->shared, *l;

	/* Otherwise a child that is made without the C library would use the table, and not have
	 * the mapping. */
	l = shim_is_wiped_on_fork() ? shim_sys_map_shared(NULL, RBT_LEDGER_SIZE, fd) : NULL;
	if (l == NULL) {
		return -ENOMEM;
	}
	/* A child has no part in it before it is given a slot of its own. */
	syscall(SYS_madvise, l, RBT_LEDGER_SIZE, MADV_DONTFORK);
	if (!rbt_ledger_is_sound(l) || slot >= RBT_LEDGER_SLOTS || !lock(m)) {
		shim_sys_munmap(l, RBT_LEDGER_SIZE);
		return -EPROTO;
	}
	move(m, l, slot);
	unlock(m);
	if (old != NULL) {
		shim_sys_munmap(old, RBT_LEDGER_SIZE);
	}
	return 0;
}

bool shim_memory_state(uint32_t pci, uint64_t *ret_limit, uint64_t *ret_used)
{
	struct shim *s = shim_peek();
	uint64_t limit = shim_config.treat.memory, used = 0;

	if (s != NULL && lock(&s->memory)) {
		struct shim_memory *m = &s->memory;

		limit = limit_of(m);
		for (uint32_t i = 0; i < m->n_owners; i++) {
			const struct shim_memory_owner *o = &m->owners[i];
			if (o->pci == pci) {
				limit = o->limit < limit ? o->limit : limit;
				used = atomic_load(&ledger_of(m)->totals[o->gpu]);
			}
		}
		unlock(m);
	} else if (limit == 0) {
		limit = UINT64_MAX;
	}
	*ret_limit = limit;
	*ret_used = used;
	return limit != UINT64_MAX;
}
