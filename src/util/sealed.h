/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed memory files: how one process gives another a larger piece of data. Nobody can change or
 * cut a sealed file any more, and reading it never waits for a disk or another process.
 */
#ifndef RBT_UTIL_SEALED_H
#define RBT_UTIL_SEALED_H

#include <stddef.h>

/* A sealed file with these bytes: its fd or -errno. */
int rbt_sealed_create(const char *name, const void *data, size_t size);

/*
 * Reads the whole file, which is borrowed and not trusted. -EINVAL: it is no memory file, or is not
 * sealed against writing, growing and shrinking; -EFBIG: it has more than `max` bytes; or another
 * -errno. The caller frees *ret_data, which has one NUL behind its *ret_size bytes.
 */
int rbt_sealed_read(int fd, size_t max, void **ret_data, size_t *ret_size);

#endif
