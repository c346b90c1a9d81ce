/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: facts about kernels, by name and shape, and the file that carries them from one run to
 * the next. Pure: libc only, no locks. One thread at a time may use a profile.
 *
 * The file is CSV with one line of column names. The first five columns are Orion's:
 *
 *   Name              the kernel's name
 *   Profile           1 compute-bound, 0 memory-bound, -1 unknown
 *   Memory_footprint  bytes; kept and not used
 *   SM_usage          SMs that the kernel fills; 0: unknown
 *   Duration          mean, in nanoseconds; 0: unknown
 *
 * Rubato's columns follow. A file of Orion's has none of them, and each field may be empty:
 *
 *   Grid_size, Block_size  blocks in the grid and threads in a block, such as 128x1x1
 *   Shared                 bytes of dynamic shared memory of a block. These three are the shape: a
 *                          row has all of them or none, and without a shape it is about all shapes
 *   Runs, Total            measured executions, and the sum of their durations in nanoseconds
 *   P50, P99, Max          quantiles of these durations, in nanoseconds
 *
 * Columns with other names are ignored. Orion's files repeat a row for each launch; such rows
 * become one: their mean duration, the largest number of SMs, and a kind if all of them have it.
 */
#ifndef RBT_ORION_PROFILE_H
#define RBT_ORION_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define RBT_PROFILE_MAX_BYTES (16u << 20)
#define RBT_PROFILE_MAX_ROWS  100000u
#define RBT_PROFILE_MAX_NAME  32767u /* bytes of a name, without the terminating zero */

enum rbt_kernel_kind { RBT_KERNEL_UNKNOWN, RBT_KERNEL_COMPUTE, RBT_KERNEL_MEMORY };

struct rbt_shape {
	uint32_t grid[3], block[3];
	uint32_t shared; /* dynamic, in bytes */
};

/* 0: not known */
struct rbt_kernel_facts {
	enum rbt_kernel_kind kind;
	uint32_t sms;
	uint64_t duration_ns;
	bool is_rough; /* the duration may include the time of the call */
};

struct rbt_profile_row {
	const char *name;
	bool has_shape; /* false: the row is about all shapes */
	struct rbt_shape shape;
	struct rbt_kernel_facts facts;
	uint64_t memory_bytes;
	uint64_t runs, total_ns, p50_ns, p99_ns, max_ns; /* 0: not measured */
};

/* The place and the reason of an error in a file. */
struct rbt_profile_fault {
	unsigned line;  /* from 1; 0: it is about the whole file */
	char field[24]; /* the column's name, or "" */
	char text[96];  /* what is wrong with it, in words */
};

struct rbt_profile;

struct rbt_profile *rbt_profile_create(void); /* NULL: no memory */
void rbt_profile_destroy(struct rbt_profile *p);

/*
 * Reads a file up to its end. Returns 0; -EBADMSG, -EFBIG or -E2BIG (too many rows) if the file is
 * wrong; -ENOMEM; or the -errno of reading it. On failure *ret_fault is filled in. The file is not
 * trusted. Names that were read have no control characters.
 */
int rbt_profile_read(FILE *f, struct rbt_profile **ret, struct rbt_profile_fault *ret_fault);

/*
 * Adds a copy of the row, in place of an equal one (the same name and shape). Returns -EINVAL if
 * the name is empty, too long or has control characters, -E2BIG if the profile is full, -ENOMEM.
 */
int rbt_profile_add(struct rbt_profile *p, const struct rbt_profile_row *row);

/* The same, but an equal row is not replaced: both become one, as rows of Orion's files do. */
int rbt_profile_merge(struct rbt_profile *p, const struct rbt_profile_row *row);

/* Writes Rubato's form, without closing or flushing the file. Returns 0, -EFBIG if it would be too
 * large to be read again (it is cut then), or -errno. */
int rbt_profile_write(const struct rbt_profile *p, FILE *f);

/*
 * The row about a kernel of this (mangled) name and shape. A row is preferred that has the name as
 * it is; then one that has the demangled name up to its template arguments, as Orion's files do,
 * with or without the return type. Of these, a row with the shape is preferred. NULL for `shape`
 * finds only rows without one. The row is valid until the next change of the profile; NULL: none.
 */
const struct rbt_profile_row *rbt_profile_find_row(
	const struct rbt_profile *p, const char *name, const struct rbt_shape *shape);

/* The same for the facts alone. */
bool rbt_profile_find(const struct rbt_profile *p, const char *name, const struct rbt_shape *shape,
	struct rbt_kernel_facts *ret);

/* All rows, in the order of their first appearance. */
size_t rbt_profile_count(const struct rbt_profile *p);
const struct rbt_profile_row *rbt_profile_row(const struct rbt_profile *p, size_t i);

/* The sum of a row's durations as far as it is known: measured, or else the duration of one run. */
uint64_t rbt_profile_row_total_ns(const struct rbt_profile_row *row);

#endif
