/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_LIBPATH_H
#define RBT_UTIL_LIBPATH_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Calls `found` with each path at which the dynamic loader may look for a library, until `found`
 * returns true: LD_LIBRARY_PATH as it was when the program started, the loader's cache, its default
 * folders, in this order. Returns whether `found` did. The paths may not exist, or may be libraries
 * for other machines. `inside` is an address in the object on whose behalf to search: its RUNPATH
 * counts.
 */
bool rbt_libpath_each(const void *inside, const char *soname,
	bool (*found)(const char *path, void *data), void *data);

/* The same for the entries of a cache (ldconfig(8)); a foreign or damaged cache has none. */
bool rbt_libpath_each_cached(const void *cache, size_t size, const char *soname,
	bool (*found)(const char *path, void *data), void *data);

#endif
