/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "backend/backend.h"
#include "util/time.h"

/* libcuda takes some milliseconds from scheduling a task to setting its slice. A program whose
 * tasks keep the driver's slice for good looks the same, hence the limit. */
#define SETUP_NS      RBT_NS_PER_S
#define LOOK_EVERY_US 20000

static bool are_new(const struct rbt_record *recs, size_t n)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		any = any || rbt_record_is_new(&recs[i]);
	}
	return any;
}

int rbt_discover_set_up(
	rbt_discover_fn discover, const void *data, struct rbt_record **ret, size_t *ret_n)
{
	uint64_t until_ns = rbt_now_ns() + SETUP_NS;
	struct rbt_record *recs = NULL;
	size_t n = 0;
	int r = discover(data, &recs, &n);

	while (r == 0 && are_new(recs, n) && rbt_now_ns() < until_ns) {
		rbt_records_free(recs, n);
		usleep(LOOK_EVERY_US);
		r = discover(data, &recs, &n);
	}
	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < n; i++) {
		rbt_record_make_old(&recs[i]);
	}
	*ret = recs;
	*ret_n = n;
	return 0;
}

void rbt_records_free(struct rbt_record *recs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rbt_record_finish(&recs[i]);
	}
	free(recs);
}
