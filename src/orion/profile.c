/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a profile, and a hash table over them. */
#include "orion/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "orion/demangle.h"

/* The part of the name that rows are found by is the stem of the name, so that rows of Orion's with
 * a return type are found. A mangled name is its own stem. */
struct row {
	struct rbt_profile_row row;
	char *name; /* row.name */
	const char *key;
	size_t key_length;
	uint64_t hash;
};

struct rbt_profile {
	struct row *rows;
	size_t n, room;
	size_t name_bytes;
	uint32_t *index; /* open addressing; 0: empty, otherwise the row's number plus 1 */
	size_t index_size;
};

struct rbt_profile *rbt_profile_create(void)
{
	return calloc(1, sizeof(struct rbt_profile));
}

void rbt_profile_destroy(struct rbt_profile *p)
{
	if (p == NULL) {
		return;
	}
	for (size_t i = 0; i < p->n; i++) {
		free(p->rows[i].name);
	}
	free(p->rows);
	free(p->index);
	free(p);
}

static uint64_t mix(uint64_t h, uint64_t value)
{
	h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ (h >> 29);
}

/* NULL: no shape */
static uint64_t hash_of(const char *key, size_t length, const struct rbt_shape *shape)
{
	uint64_t h = length;

	for (size_t i = 0; i < length; i++) {
		h = mix(h, (unsigned char)key[i]);
	}
	for (int i = 0; shape != NULL && i < 3; i++) {
		h = mix(h, (uint64_t)shape->grid[i] << 32 | shape->block[i]);
	}
	return mix(h, shape != NULL ? shape->shared + 1ull : 0);
}

static bool is_shape(const struct rbt_shape *a, const struct rbt_shape *b)
{
	return memcmp(a->grid, b->grid, sizeof(a->grid)) == 0 &&
	       memcmp(a->block, b->block, sizeof(a->block)) == 0 && a->shared == b->shared;
}

/* Its place in the index: that of the equal row, or an empty one. */
static size_t find_place(const struct rbt_profile *p, uint64_t hash, const char *key, size_t length,
	const struct rbt_shape *shape)
{
	for (size_t i = hash & (p->index_size - 1);; i = (i + 1) & (p->index_size - 1)) {
		if (p->index[i] == 0) {
			return i;
		}
		const struct row *r = &p->rows[p->index[i] - 1];
		if (r->hash == hash && r->key_length == length &&
			r->row.has_shape == (shape != NULL) && memcmp(r->key, key, length) == 0 &&
			(shape == NULL || is_shape(&r->row.shape, shape))) {
			return i;
		}
	}
}

/* The row's number plus 1; 0: there is none. */
static uint32_t find(
	const struct rbt_profile *p, const char *key, size_t length, const struct rbt_shape *shape)
{
	return p->n == 0 ? 0
			 : p->index[find_place(p, hash_of(key, length, shape), key, length, shape)];
}

static int grow(struct rbt_profile *p)
{
	size_t room = p->room > 0 ? p->room * 2 : 64;
	struct row *rows = calloc(room, sizeof(*rows));
	uint32_t *index = calloc(room * 2, sizeof(*index));

	if (rows == NULL || index == NULL) {
		free(rows);
		free(index);
		return -ENOMEM;
	}
	if (p->n > 0) {
		memcpy(rows, p->rows, p->n * sizeof(*rows));
	}
	free(p->rows);
	free(p->index);
	p->rows = rows;
	p->room = room;
	p->index = index;
	p->index_size = room * 2;
	for (size_t i = 0; i < p->n; i++) {
		size_t at = rows[i].hash & (p->index_size - 1);
		while (index[at] != 0) {
			at = (at + 1) & (p->index_size - 1);
		}
		index[at] = (uint32_t)i + 1;
	}
	return 0;
}

static bool is_name(const char *name)
{
	size_t n = name != NULL ? strnlen(name, RBT_PROFILE_MAX_NAME + 1) : 0;

	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f) {
			return false;
		}
	}
	return n > 0 && n <= RBT_PROFILE_MAX_NAME;
}

/* The equal row, or a new one that has a name alone. */
static int take_row(struct rbt_profile *p, const struct rbt_profile_row *row, struct row **ret)
{
	const struct rbt_shape *shape = row->has_shape ? &row->shape : NULL;
	size_t length;

	if (!is_name(row->name)) {
		return -EINVAL;
	}
	const char *key = rbt_name_stem(row->name, &length);
	uint32_t found = find(p, key, length, shape);
	if (found > 0) {
		*ret = &p->rows[found - 1];
		return 0;
	}
	size_t bytes = strlen(row->name);
	if (p->n == RBT_PROFILE_MAX_ROWS || p->name_bytes + bytes > RBT_PROFILE_MAX_BYTES) {
		return -E2BIG;
	}
	if (p->n == p->room && grow(p) < 0) {
		return -ENOMEM;
	}
	char *name = strdup(row->name);
	if (name == NULL) {
		return -ENOMEM;
	}
	uint64_t hash = hash_of(key, length, shape);
	size_t place = find_place(p, hash, key, length, shape);
	struct row *r = &p->rows[p->n++];
	*r = (struct row){.row = {.name = name, .has_shape = row->has_shape, .shape = row->shape},
		.name = name,
		.key = name + (key - row->name),
		.key_length = length,
		.hash = hash};
	p->name_bytes += bytes;
	p->index[place] = (uint32_t)p->n;
	*ret = r;
	return 0;
}

int rbt_profile_add(struct rbt_profile *p, const struct rbt_profile_row *row)
{
	struct row *r;
	int error = take_row(p, row, &r);

	if (error == 0) {
		r->row = *row;
		r->row.name = r->name;
	}
	return error;
}

int rbt_profile_merge(struct rbt_profile *p, const struct rbt_profile_row *row)
{
	struct row *r;
	size_t n = p->n;
	int error = take_row(p, row, &r);

	if (error < 0) {
		return error;
	}
	struct rbt_profile_row *old = &r->row;
	if (p->n > n) {
		old->facts = row->facts;
	} else if (old->facts.kind != row->facts.kind) {
		old->facts.kind = RBT_KERNEL_UNKNOWN;
	}
	if (row->facts.sms > old->facts.sms) {
		old->facts.sms = row->facts.sms;
	}
	if (row->memory_bytes > old->memory_bytes) {
		old->memory_bytes = row->memory_bytes;
	}
	uint64_t ns = row->facts.duration_ns;
	if (ns > 0 && !__builtin_add_overflow(old->total_ns, ns, &ns)) {
		old->runs++;
		old->total_ns = ns;
		old->facts.duration_ns = ns / old->runs;
	}
	return 0;
}

const struct rbt_profile_row *rbt_profile_find_row(
	const struct rbt_profile *p, const char *name, const struct rbt_shape *shape)
{
	char stem[1024];
	size_t length = strlen(name);
	uint32_t found = shape != NULL ? find(p, name, length, shape) : 0;

	if (found == 0) {
		found = find(p, name, length, NULL);
	}
	if (found == 0 && (length = rbt_demangle_stem(name, stem, sizeof(stem))) > 0) {
		found = shape != NULL ? find(p, stem, length, shape) : 0;
		found = found == 0 ? find(p, stem, length, NULL) : found;
	}
	return found > 0 ? &p->rows[found - 1].row : NULL;
}

bool rbt_profile_find(const struct rbt_profile *p, const char *name, const struct rbt_shape *shape,
	struct rbt_kernel_facts *ret)
{
	const struct rbt_profile_row *row = rbt_profile_find_row(p, name, shape);

	if (row != NULL) {
		*ret = row->facts;
	}
	return row != NULL;
}

size_t rbt_profile_count(const struct rbt_profile *p)
{
	return p->n;
}

const struct rbt_profile_row *rbt_profile_row(const struct rbt_profile *p, size_t i)
{
	return &p->rows[i].row;
}

uint64_t rbt_profile_row_total_ns(const struct rbt_profile_row *row)
{
	return row->runs > 0 ? row->total_ns : row->facts.duration_ns;
}

/* A name is quoted if it must be, with its quotes doubled. Returns the number of bytes. */
static size_t write_name(const char *name, FILE *f)
{
	size_t n = 2;

	if (strpbrk(name, ",\"") == NULL) {
		fputs(name, f);
		return strlen(name);
	}
	fputc('"', f);
	for (const char *s = name; *s != '\0'; s++, n++) {
		if (*s == '"') {
			fputc('"', f);
			n++;
		}
		fputc(*s, f);
	}
	fputc('"', f);
	return n;
}

static size_t write_row(const struct rbt_profile_row *r, FILE *f)
{
	static const int kinds[] = {
		[RBT_KERNEL_UNKNOWN] = -1, [RBT_KERNEL_COMPUTE] = 1, [RBT_KERNEL_MEMORY] = 0};
	const uint32_t *g = r->shape.grid, *b = r->shape.block;
	size_t n = write_name(r->name, f);
	int m = fprintf(f, ",%d,%" PRIu64 ",%" PRIu32 ",%" PRIu64, kinds[r->facts.kind],
		r->memory_bytes, r->facts.sms, r->facts.duration_ns);
	int k = r->has_shape ? fprintf(f, ",%ux%ux%u,%ux%ux%u,%u", g[0], g[1], g[2], b[0], b[1],
				       b[2], r->shape.shared)
			     : fprintf(f, ",,,");

	n += (size_t)(m > 0 ? m : 0) + (size_t)(k > 0 ? k : 0);
	if (r->runs == 0) {
		fputs(",,,,,\n", f);
		return n + 6;
	}
	m = fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", r->runs,
		r->total_ns, r->p50_ns, r->p99_ns, r->max_ns);
	return n + (size_t)(m > 0 ? m : 0);
}

int rbt_profile_write(const struct rbt_profile *p, FILE *f)
{
	static const char header[] = "Name,Profile,Memory_footprint,SM_usage,Duration,Grid_size,"
				     "Block_size,Shared,Runs,Total,P50,P99,Max\n";
	size_t bytes = sizeof(header) - 1;

	errno = 0;
	fputs(header, f);
	for (size_t i = 0; i < p->n && !ferror(f); i++) {
		bytes += write_row(&p->rows[i].row, f);
		if (bytes > RBT_PROFILE_MAX_BYTES) {
			return -EFBIG;
		}
	}
	return !ferror(f) ? 0 : errno != 0 ? -errno : -EIO;
}
