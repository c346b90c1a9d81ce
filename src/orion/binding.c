/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing, one cache line per slot. A new binding goes into an empty slot, and its handle
 * is written last, so a look-up that sees the handle sees the rest. When bindings are removed, the
 * remaining ones are inserted again into the same memory. The version is odd meanwhile and larger
 * afterwards, so a look-up at that time notices it and reports a miss.
 *
 * Every load is an acquire and every store a release. This keeps the loads of a look-up between its
 * two loads of the version, and costs nothing on x86. Fences would be enough, but ThreadSanitizer
 * does not support them.
 */
#include "orion/binding.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 256u
#define KEY_WORDS  4

struct slot {
	alignas(64) _Atomic(const void *) handle; /* NULL: empty */
	_Atomic(struct rbt_kernel *) kernel;
	_Atomic uint64_t key[KEY_WORDS]; /* the shape */
	/* Only for threads that hold the lock. */
	const void *owner;
	enum rbt_binding_type type;
};

struct slots {
	struct slots *smaller; /* kept until the end: a look-up may still read it */
	size_t size;           /* a power of two, at least twice the bindings */
	struct slot slot[];
};

/* A binding outside of the slots. */
struct binding {
	const void *handle;
	struct rbt_kernel *kernel;
	uint64_t key[KEY_WORDS];
	const void *owner;
	enum rbt_binding_type type;
};

static_assert(sizeof(struct slot) == 64, "a slot is a cache line");

#define LOAD(p)         atomic_load_explicit(p, memory_order_acquire)
#define STORE(p, value) atomic_store_explicit(p, value, memory_order_release)

static void pack(const struct rbt_shape *s, uint64_t ret[KEY_WORDS])
{
	if (s == NULL) {
		memset(ret, 0, KEY_WORDS * sizeof(ret[0]));
		return;
	}
	ret[0] = (uint64_t)s->grid[0] << 32 | s->grid[1];
	ret[1] = (uint64_t)s->grid[2] << 32 | s->block[0];
	ret[2] = (uint64_t)s->block[1] << 32 | s->block[2];
	ret[3] = UINT64_C(1) << 32 | s->shared;
}

static size_t hash_of(const void *handle, const uint64_t key[KEY_WORDS])
{
	uint64_t h = (uint64_t)(uintptr_t)handle;

	for (int i = 0; i < KEY_WORDS; i++) {
		h = (h ^ key[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return (size_t)h;
}

static struct slots *create_slots(size_t size)
{
	size_t bytes = sizeof(struct slots) + size * sizeof(struct slot);
	struct slots *s = aligned_alloc(64, bytes);

	if (s != NULL) {
		memset(s, 0, bytes);
		s->size = size;
	}
	return s;
}

int rbt_bindings_init(struct rbt_bindings *b)
{
	struct slots *s = create_slots(FIRST_SIZE);

	if (s == NULL) {
		return -ENOMEM;
	}
	atomic_init(&b->slots, s);
	atomic_init(&b->version, 0);
	b->n = 0;
	return 0;
}

void rbt_bindings_finish(struct rbt_bindings *b)
{
	for (struct slots *s = atomic_load(&b->slots), *next; s != NULL; s = next) {
		next = s->smaller;
		free(s);
	}
	atomic_store(&b->slots, NULL);
}

static bool has_key(const struct slot *slot, const uint64_t key[KEY_WORDS])
{
	return LOAD(&slot->key[0]) == key[0] && LOAD(&slot->key[1]) == key[1] &&
	       LOAD(&slot->key[2]) == key[2] && LOAD(&slot->key[3]) == key[3];
}

struct rbt_kernel *rbt_bindings_find(
	const struct rbt_bindings *b, const void *handle, const struct rbt_shape *shape)
{
	uint64_t key[KEY_WORDS], version = LOAD(&b->version);
	struct slots *s = LOAD(&b->slots);

	pack(shape, key);
	size_t at = hash_of(handle, key);
	for (size_t i = 0; i < s->size; i++) {
		const struct slot *slot = &s->slot[(at + i) & (s->size - 1)];
		const void *there = LOAD(&slot->handle);
		if (there == NULL) {
			break;
		}
		if (there == handle && has_key(slot, key)) {
			struct rbt_kernel *kernel = LOAD(&slot->kernel);
			return version % 2 == 0 && LOAD(&b->version) == version ? kernel : NULL;
		}
	}
	return NULL;
}

static void put(struct slots *s, const struct binding *binding)
{
	size_t at = hash_of(binding->handle, binding->key);

	while (LOAD(&s->slot[at & (s->size - 1)].handle) != NULL) {
		at++;
	}
	struct slot *slot = &s->slot[at & (s->size - 1)];
	for (int i = 0; i < KEY_WORDS; i++) {
		STORE(&slot->key[i], binding->key[i]);
	}
	STORE(&slot->kernel, binding->kernel);
	slot->owner = binding->owner;
	slot->type = binding->type;
	STORE(&slot->handle, binding->handle);
}

static struct binding get(const struct slot *slot)
{
	struct binding b = {.handle = LOAD(&slot->handle),
		.kernel = LOAD(&slot->kernel),
		.owner = slot->owner,
		.type = slot->type};

	for (int i = 0; i < KEY_WORDS; i++) {
		b.key[i] = LOAD(&slot->key[i]);
	}
	return b;
}

/* The smaller slots stay unchanged. A look-up that still reads them finds the right kernel, unless
 * a binding has been removed since; then the version has changed. */
static int grow(struct rbt_bindings *b)
{
	struct slots *old = LOAD(&b->slots), *s = create_slots(old->size * 2);

	if (s == NULL) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < old->size; i++) {
		struct binding binding = get(&old->slot[i]);
		if (binding.handle != NULL) {
			put(s, &binding);
		}
	}
	s->smaller = old;
	STORE(&b->slots, s);
	return 0;
}

int rbt_bindings_add(struct rbt_bindings *b, enum rbt_binding_type type, void *handle,
	const struct rbt_shape *shape, void *owner, struct rbt_kernel *kernel)
{
	struct binding binding = {.handle = handle, .kernel = kernel, .owner = owner, .type = type};

	if (b->n >= RBT_BINDINGS_MAX) {
		rbt_bindings_forget(b, NULL);
	}
	if ((b->n + 1) * 2 > LOAD(&b->slots)->size && grow(b) < 0) {
		return -ENOMEM;
	}
	pack(shape, binding.key);
	put(LOAD(&b->slots), &binding);
	b->n++;
	return 0;
}

/* Which bindings are removed. */
struct loss {
	const void *owner, *exec;
	bool is_module;
};

/*
 * The driver does not tell which library a CUfunction belongs to, so all functions are removed with
 * a library. Bindings with an unknown owner are removed with everything.
 */
static bool is_lost(const struct slot *slot, const struct loss *loss)
{
	const void *handle = LOAD(&slot->handle);

	if (handle == NULL || loss->exec != NULL || slot->type == RBT_BINDING_GRAPH) {
		return handle != NULL && slot->type == RBT_BINDING_GRAPH && handle == loss->exec;
	}
	return loss->owner == NULL || slot->owner == loss->owner || slot->owner == NULL ||
	       (slot->type == RBT_BINDING_FUNCTION && !loss->is_module);
}

static void lose(struct rbt_bindings *b, const struct loss *loss)
{
	struct slots *s = LOAD(&b->slots);
	size_t n_lost = 0, n = 0;

	for (size_t i = 0; i < s->size; i++) {
		n_lost += is_lost(&s->slot[i], loss);
	}
	if (n_lost == 0) {
		return;
	}
	/* Without memory, all bindings are removed. The driver is then asked again for each. */
	struct binding *kept = calloc(b->n - n_lost + 1, sizeof(*kept));
	uint64_t version = LOAD(&b->version);
	STORE(&b->version, version + 1);
	for (size_t i = 0; i < s->size; i++) {
		struct slot *slot = &s->slot[i];
		if (LOAD(&slot->handle) != NULL && !is_lost(slot, loss) && kept != NULL) {
			kept[n++] = get(slot);
		}
		STORE(&slot->handle, NULL);
	}
	for (size_t i = 0; i < n; i++) {
		put(s, &kept[i]);
	}
	b->n = n;
	STORE(&b->version, version + 2);
	free(kept);
}

void rbt_bindings_forget(struct rbt_bindings *b, const void *owner)
{
	const struct slots *s = LOAD(&b->slots);
	struct loss loss = {.owner = owner};

	for (size_t i = 0; i < s->size; i++) {
		const struct slot *slot = &s->slot[i];
		loss.is_module =
			loss.is_module || (LOAD(&slot->handle) != NULL && slot->owner == owner &&
						  slot->type == RBT_BINDING_FUNCTION);
	}
	lose(b, &loss);
}

void rbt_bindings_forget_graph(struct rbt_bindings *b, const void *exec)
{
	lose(b, &(struct loss){.exec = exec});
}
