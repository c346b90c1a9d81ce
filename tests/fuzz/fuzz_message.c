/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever bytes arrive as a record, decoding refuses them or
 * yields something that encodes back to itself. */
#include <stdlib.h>
#include <string.h>

#include "proto/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char out[RBT_RECORD_MSG_MAX];
	struct rbt_record rec;

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
