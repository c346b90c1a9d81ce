/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record as it arrives from another process: whatever passes rbt_record_check() can be walked and
 * copied.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The reader's side of the wire: counts first, then the arrays, which must be there in full. */
static int take(const uint8_t *data, size_t size, struct rbt_record *rec)
{
	uint32_t counts[2];

	if (size < sizeof(counts)) {
		return 0;
	}
	memcpy(counts, data, sizeof(counts));
	data += sizeof(counts);
	size -= sizeof(counts);
	if (counts[0] > RBT_RECORD_MAX_TASKS || counts[1] > RBT_RECORD_MAX_CHANNELS ||
		size < counts[0] * sizeof(struct rbt_task) + counts[1] * sizeof(uint32_t)) {
		return 0;
	}
	rec->n_tasks = counts[0];
	rec->n_channels = counts[1];
	rec->tasks = malloc(counts[0] * sizeof(struct rbt_task) + 1);
	rec->channels = malloc(counts[1] * sizeof(uint32_t) + 1);
	if (rec->tasks == NULL || rec->channels == NULL) {
		return 0;
	}
	memcpy(rec->tasks, data, counts[0] * sizeof(struct rbt_task));
	memcpy(rec->channels, data + counts[0] * sizeof(struct rbt_task),
		counts[1] * sizeof(uint32_t));
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rbt_record rec = RBT_RECORD_INIT;

	if (take(data, size, &rec) && rbt_record_check(&rec) == 0) {
		uint32_t walked = 0;
		for (uint32_t i = 0; i < rec.n_tasks; i++) {
			for (uint32_t c = 0; c < rec.tasks[i].n_channels; c++) {
				/* A read that the sanitizer watches and the
				 * compiler may not drop. */
				(void)*(volatile uint32_t *)&rec
					.channels[rec.tasks[i].first_channel + c];
				walked++;
			}
		}
		if (walked > rec.n_channels || rec.n_tasks > RBT_RECORD_MAX_TASKS) {
			abort(); /* a channel belongs to one task */
		}
	}
	rbt_record_finish(&rec);
	return 0;
}
