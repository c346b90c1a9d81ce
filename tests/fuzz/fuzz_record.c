/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record as it arrives from another process: whatever passes rbt_record_check() can be walked and
 * copied. For libFuzzer; with -DFUZZ_STANDALONE it reads its arguments as inputs, or makes up some
 * of its own.
 */
#include <stdio.h>
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
	struct rbt_record rec = RBT_RECORD_INIT, copy = RBT_RECORD_INIT;

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
		if (rbt_record_copy(&rec, &copy) == 0 && rbt_record_check(&copy) != 0) {
			abort();
		}
	}
	rbt_record_finish(&copy);
	rbt_record_finish(&rec);
	return 0;
}

#ifdef FUZZ_STANDALONE
static void run_file(const char *path)
{
	static uint8_t buf[1 << 20];
	FILE *f = fopen(path, "rb");

	if (f == NULL) {
		perror(path);
		exit(1);
	}
	LLVMFuzzerTestOneInput(buf, fread(buf, 1, sizeof(buf), f));
	fclose(f);
}

/* Small numbers, so that many inputs pass the first checks. */
static void run_made_up(unsigned rounds)
{
	uint32_t words[512];

	srand(1);
	for (unsigned round = 0; round < rounds; round++) {
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
			words[i] =
				rand() % 16 == 0 ? (uint32_t)rand() * 2u : (uint32_t)(rand() % 4);
		}
		LLVMFuzzerTestOneInput(
			(const uint8_t *)words, (size_t)(rand() % (int)sizeof(words)));
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		run_file(argv[i]);
	}
	if (argc == 1) {
		run_made_up(20000);
	}
	return 0;
}
#endif
