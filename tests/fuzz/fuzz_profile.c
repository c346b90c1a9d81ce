/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever bytes are a profile, they are refused with a reason, or what was read can be found,
 * written, and read again as the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orion/demangle.h"
#include "orion/profile.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rbt_profile *read_bytes(const void *data, size_t size)
{
	struct rbt_profile *p = NULL;
	struct rbt_profile_fault fault;
	FILE *f = fmemopen((void *)data, size, "r");

	REQUIRE(f != NULL);
	memset(&fault, 'x', sizeof(fault));
	int error = rbt_profile_read(f, &p, &fault);
	fclose(f);
	REQUIRE((error == 0) == (p != NULL));
	if (error < 0) {
		REQUIRE(fault.text[0] != '\0' && strlen(fault.text) < sizeof(fault.text));
		REQUIRE(strlen(fault.field) < sizeof(fault.field));
	}
	return p;
}

static void require_found(const struct rbt_profile *p)
{
	for (size_t i = 0; i < rbt_profile_count(p); i++) {
		const struct rbt_profile_row *row = rbt_profile_row(p, i);
		const struct rbt_shape *shape = row->has_shape ? &row->shape : NULL;
		char name[RBT_PROFILE_MAX_NAME + 1];
		size_t n;
		const char *stem = rbt_name_stem(row->name, &n);

		memcpy(name, stem, n);
		name[n] = '\0';
		REQUIRE(rbt_profile_find_row(p, name, shape) == row);
		(void)rbt_profile_row_total_ns(row);
	}
}

static void try_names(const uint8_t *data, size_t size)
{
	char mangled[512], stem[64];
	size_t n = size < sizeof(mangled) ? size : sizeof(mangled) - 1;

	memcpy(mangled, data, n);
	mangled[n] = '\0';
	size_t length = rbt_demangle_stem(mangled, stem, sizeof(stem));
	REQUIRE(length < sizeof(stem) && (length == 0 || strlen(stem) == length));
	const char *begin = rbt_name_stem(mangled, &n);
	REQUIRE(begin >= mangled && n <= strlen(begin));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = NULL;
	size_t n = 0;

	try_names(data, size);
	if (size == 0) {
		return 0; /* no FILE can have this */
	}
	struct rbt_profile *p = read_bytes(data, size), *again;
	if (p == NULL) {
		return 0;
	}
	require_found(p);
	FILE *f = open_memstream(&text, &n);
	REQUIRE(f != NULL);
	REQUIRE(rbt_profile_write(p, f) == 0);
	fclose(f);
	again = read_bytes(text, n);
	REQUIRE(again != NULL && rbt_profile_count(again) == rbt_profile_count(p));
	require_found(again);
	rbt_profile_destroy(again);
	rbt_profile_destroy(p);
	free(text);
	return 0;
}
