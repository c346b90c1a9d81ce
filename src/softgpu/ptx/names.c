/* SPDX-License-Identifier: Apache-2.0 */
/* Names, their meaning in each scope, and the memory that lives while a text is parsed. */
#include <stdlib.h>
#include <sys/random.h>

#include "softgpu/ptx/impl.h"

enum { CHUNK_SIZE = 64 << 10 };

struct chunk {
	struct chunk *next;
	size_t used, size;
	max_align_t data[];
};

void *ptx_alloc(struct parser *p, size_t size)
{
	struct chunk *chunk = p->chunks;
	size_t want = size > CHUNK_SIZE ? size : CHUNK_SIZE;
	char *memory;

	size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
	if (chunk == NULL || chunk->size - chunk->used < size) {
		chunk = malloc(sizeof(*chunk) + want + sizeof(max_align_t));
		if (chunk == NULL) {
			ptx_fail(p, ENOMEM, "out of memory");
			return NULL;
		}
		*chunk = (struct chunk){.next = p->chunks, .size = want + sizeof(max_align_t)};
		p->chunks = chunk;
	}
	memory = (char *)chunk->data + chunk->used;
	chunk->used += size;
	memset(memory, 0, size);
	return memory;
}

/* `array` is the address of a pointer; room for one more than count. */
int ptx_grow(struct parser *p, void *array, uint32_t *cap, uint32_t count, size_t size)
{
	uint32_t new_cap = *cap > 0 ? *cap * 2 : 8;
	void *old, *bigger;

	if (count < *cap) {
		return 0;
	}
	memcpy(&old, array, sizeof(old));
	bigger = new_cap < *cap ? NULL : reallocarray(old, new_cap, size);
	if (bigger == NULL) {
		return ptx_fail(p, ENOMEM, "out of memory");
	}
	memcpy(array, &bigger, sizeof(bigger));
	*cap = new_cap;
	return 0;
}

/* Keyed, so that no text can have names that all fall into one bucket. */
static uint64_t hash_of(struct parser *p, const char *text, uint32_t length)
{
	uint64_t hash = p->hash_key;

	for (uint32_t i = 0; i < length; i++) {
		hash = (hash ^ (unsigned char)text[i]) * (p->hash_key | 1);
		hash ^= hash >> 29;
	}
	return hash;
}

static int rehash(struct parser *p)
{
	uint32_t count = p->nbuckets > 0 ? p->nbuckets * 2 : 1024;
	uint32_t *buckets = calloc(count, sizeof(*buckets));

	if (buckets == NULL) {
		return ptx_fail(p, ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < p->nnames; i++) {
		uint32_t *bucket = &buckets[p->names[i].hash & (count - 1)];

		p->names[i].next = *bucket;
		*bucket = i + 1;
	}
	free(p->buckets);
	p->buckets = buckets;
	p->nbuckets = count;
	return 0;
}

int ptx_intern(struct parser *p, const char *text, uint32_t length, uint32_t *ret_name)
{
	uint64_t hash;
	uint32_t *bucket;
	int r = 0;

	if (p->hash_key == 0 && getrandom(&p->hash_key, sizeof(p->hash_key), GRND_NONBLOCK) < 0) {
		p->hash_key = 0x9e3779b97f4a7c15u;
	}
	if (p->nnames >= p->nbuckets) {
		r = rehash(p);
	}
	r = r < 0 ? r : ptx_grow(p, &p->names, &p->name_cap, p->nnames, sizeof(*p->names));
	if (r < 0) {
		return r;
	}
	hash = hash_of(p, text, length);
	bucket = &p->buckets[hash & (p->nbuckets - 1)];
	for (uint32_t i = *bucket; i > 0; i = p->names[i - 1].next) {
		const struct name *name = &p->names[i - 1];

		if (name->hash == hash && name->length == length &&
			memcmp(name->text, text, length) == 0) {
			*ret_name = i - 1;
			return 0;
		}
	}
	p->names[p->nnames] =
		(struct name){.text = text, .length = length, .hash = hash, .next = *bucket};
	*ret_name = p->nnames++;
	*bucket = p->nnames;
	return 0;
}

char *ptx_name_copy(struct parser *p, uint32_t name)
{
	char *copy = strndup(p->names[name].text, p->names[name].length);

	if (copy == NULL) {
		ptx_fail(p, ENOMEM, "out of memory");
	}
	return copy;
}

static struct binding *push_binding(struct parser *p, uint32_t name, unsigned depth)
{
	struct binding *b = ptx_alloc(p, sizeof(*b)), **link = &p->names[name].top;

	if (b == NULL) {
		return NULL;
	}
	/* Innermost first: a register of an outer range may be used first in an inner scope. */
	while (*link != NULL && (*link)->depth > depth) {
		link = &(*link)->outer;
	}
	b->name = name;
	b->depth = (uint8_t)depth;
	b->outer = *link;
	*link = b;
	b->scope_next = p->scopes[depth].bindings;
	p->scopes[depth].bindings = b;
	return b;
}

int ptx_bind(struct parser *p, uint32_t name, enum binding_kind kind, struct binding **ret_binding)
{
	struct binding *b;

	for (b = p->names[name].top; b != NULL && b->depth == p->depth; b = b->outer) {
		if ((b->kind == BIND_RANGE) == (kind == BIND_RANGE)) {
			return ptx_fail(p, EINVAL, "'%.*s' is declared twice",
				(int)p->names[name].length, p->names[name].text);
		}
	}
	b = push_binding(p, name, p->depth);
	if (b == NULL) {
		return p->failed;
	}
	b->kind = (uint8_t)kind;
	*ret_binding = b;
	return 0;
}

/* The range %r<n> that contains %r12, or NULL. */
static struct binding *range_of(struct parser *p, uint32_t name)
{
	const char *text = p->names[name].text;
	uint32_t length = p->names[name].length, digits = length, prefix;
	uint64_t number = 0;
	struct binding *b;

	while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9') {
		digits--;
	}
	if (digits == length || digits == 0 || length - digits > 9 ||
		(text[digits] == '0' && length - digits > 1)) {
		return NULL;
	}
	for (uint32_t i = digits; i < length; i++) {
		number = number * 10 + (uint64_t)(text[i] - '0');
	}
	if (ptx_intern(p, text, digits, &prefix) < 0) {
		return NULL;
	}
	for (b = p->names[prefix].top; b != NULL; b = b->outer) {
		if (b->kind == BIND_RANGE && number < b->index) {
			return b;
		}
	}
	return NULL;
}

/* The meaning of the name here, innermost scope first; NULL: it has none, or there is no memory. */
struct binding *ptx_lookup(struct parser *p, uint32_t name)
{
	struct binding *b = p->names[name].top, *range, *reg;

	if (b != NULL && (b->kind != BIND_RANGE && b->depth == p->depth)) {
		return b;
	}
	while (b != NULL && b->kind == BIND_RANGE) {
		b = b->outer;
	}
	range = range_of(p, name);
	if (range == NULL || (b != NULL && b->depth >= range->depth)) {
		return b;
	}
	reg = push_binding(p, name, range->depth);
	if (reg == NULL) {
		return NULL;
	}
	reg->kind = BIND_REG;
	reg->type = range->type;
	return ptx_new_slot(p, reg->type, &reg->slot) < 0 ? NULL : reg;
}

int ptx_scope_push(struct parser *p)
{
	if (p->depth + 1 >= PTX_MAX_DEPTH) {
		return ptx_fail(p, E2BIG, "more than %d nested blocks", PTX_MAX_DEPTH - 1);
	}
	p->depth++;
	p->scopes[p->depth] = (struct scope){.frame_used = (uint32_t)p->body.frame_used};
	p->scopes[p->depth].uses_end = &p->scopes[p->depth].uses;
	return 0;
}

/* A label may be used before it is defined, and an inner one hides an outer one. So branches are
 * resolved when the scope ends, or wait for the end of the next outer one. */
static int resolve_labels(struct parser *p)
{
	struct scope *scope = &p->scopes[p->depth], *outer = scope - 1;
	struct label_use *use, *next;

	for (use = scope->uses; use != NULL; use = next) {
		const struct binding *b = p->names[use->name].top;

		next = use->next;
		if (b != NULL && b->kind == BIND_LABEL && b->depth == p->depth) {
			ptx_function(p)->insts[use->inst].target = b->index;
		} else if (p->depth > 1) {
			use->next = NULL;
			*outer->uses_end = use;
			outer->uses_end = &use->next;
		} else {
			p->tok.line = use->line;
			return ptx_fail(p, EINVAL, "there is no label '%.*s'",
				(int)p->names[use->name].length, p->names[use->name].text);
		}
	}
	return 0;
}

int ptx_scope_pop(struct parser *p)
{
	struct scope *scope = &p->scopes[p->depth];
	int r = resolve_labels(p);

	for (struct binding *b = scope->bindings; b != NULL; b = b->scope_next) {
		p->names[b->name].top = b->outer;
	}
	p->body.frame_used = scope->frame_used;
	p->depth--;
	return r;
}

void ptx_names_finish(struct parser *p)
{
	struct chunk *next;

	for (struct chunk *chunk = p->chunks; chunk != NULL; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(p->names);
	free(p->buckets);
}
