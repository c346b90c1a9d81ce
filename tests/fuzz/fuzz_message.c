/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever bytes arrive as a record, or as a message about policies, decoding refuses them or
 * yields something that encodes back to itself. */
#include <stdlib.h>
#include <string.h>

#include "proto/message.h"
#include "proto/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Headers are written anew, and so are the bytes behind a label. */
static void check_policy(const uint8_t *data, size_t size)
{
	static char out[RBT_MSG_MAX];
	struct rbt_policy_load load;
	struct rbt_policy_entry entry;
	const size_t head = sizeof(struct rbt_msg_policy_load);

	if (rbt_policy_load_decode(data, size, &load) == 0 &&
		(rbt_policy_load_encode(&load, out, size) != (ssize_t)size ||
			memcmp(out + head, data + head, size - head) != 0)) {
		abort();
	}
	const size_t map_head = sizeof(struct rbt_msg_policy_map);
	if (rbt_policy_entry_decode(data, size, &entry) == 0 &&
		(rbt_policy_entry_encode(&entry, out, size) != (ssize_t)size ||
			memcmp(out + map_head, data + map_head, size - map_head) != 0)) {
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char out[RBT_RECORD_MSG_MAX];
	struct rbt_record rec;

	if (size <= RBT_MSG_MAX) {
		check_policy(data, size);
	}
	if (rbt_record_decode(data, size, &rec) < 0) {
		return 0;
	}
	ssize_t n = rbt_record_encode(&rec, RBT_MSG_RECORD, out, sizeof(out));
	if (n != (ssize_t)size ||
		memcmp(out + sizeof(struct rbt_msg_record), data + sizeof(struct rbt_msg_record),
			size - sizeof(struct rbt_msg_record)) != 0) {
		abort();
	}
	rbt_record_finish(&rec);
	return 0;
}
