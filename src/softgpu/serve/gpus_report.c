/* SPDX-License-Identifier: Apache-2.0 */
/* A report of the devices, for tests and people to read. */
#include <inttypes.h>

#include "softgpu/serve/gpus_impl.h"
#include "util/json.h"
#include "util/time.h"

static void stats_of(struct bound *b, struct rbt_context_stats *ret)
{
	card_lock(b->card);
	rbt_context_get_stats(b->ctx, ret);
	card_unlock(b->card);
}

static void json_contexts(const struct gpus *g, struct rbt_json *j)
{
	rbt_json_array(j, "contexts");
	for (struct bound *b = g->contexts; b != NULL; b = b->next) {
		struct rbt_context_stats s;
		stats_of(b, &s);
		rbt_json_object(j, NULL);
		rbt_json_u64(j, "pid", s.id);
		rbt_json_u64(j, "gpu", b->gpu);
		rbt_json_u64(j, "group", b->tsg);
		rbt_json_u64(j, "busy_ns", s.busy_ns);
		rbt_json_u64(j, "launches", s.launches);
		rbt_json_u64(j, "instructions", s.instructions);
		rbt_json_u64(j, "slices", s.slices);
		rbt_json_u64(j, "preempts", s.preempts);
		rbt_json_u64(j, "saved_bytes", s.saved_bytes);
		rbt_json_u64(j, "restored_bytes", s.restored_bytes);
		rbt_json_u64(j, "repeated_instructions", s.repeated_instructions);
		rbt_json_u64(j, "lost_instructions", s.lost_instructions);
		rbt_json_u64(j, "pending_cleared", s.pending_cleared);
		rbt_json_u64(j, "memory_bytes", s.memory_bytes);
		rbt_json_u64(j, "error", s.error);
		rbt_json_bool(j, "has_work", s.has_work);
		rbt_json_end(j, '}');
	}
	rbt_json_end(j, ']');
}

static void json_devices(struct gpus *g, struct rbt_json *j)
{
	rbt_json_array(j, "devices");
	for (uint32_t i = 0; i < g->server->config.rm.n_gpus; i++) {
		struct card *card = &g->cards[i];
		uint64_t free_bytes = 0, total = 0;
		if (card->dev == NULL) {
			continue;
		}
		card_lock(card);
		rbt_device_memory(card->dev, &free_bytes, &total);
		uint64_t now_ns = rbt_device_now_ns(card->dev);
		card_unlock(card);
		rbt_json_object(j, NULL);
		rbt_json_u64(j, "gpu", i);
		rbt_json_u64(j, "sms", rbt_device_config(card->dev)->n_sms);
		rbt_json_u64(j, "clock_ns", now_ns);
		rbt_json_u64(j, "memory_free_bytes", free_bytes);
		rbt_json_u64(j, "memory_bytes", total);
		rbt_json_string(j, "mechanism",
			rbt_mechanism_name(rbt_device_config(card->dev)->mechanism));
		rbt_json_end(j, '}');
	}
	rbt_json_end(j, ']');
}

void gpus_write_json(struct gpus *g, struct rbt_json *j)
{
	json_contexts(g, j);
	json_devices(g, j);
}

void gpus_write_text(struct gpus *g, FILE *out)
{
	if (g->contexts == NULL) {
		return;
	}
	fprintf(out, "    PID  GPU   BUSY(ms)   KERNELS    SLICES  PREEMPTED  SAVED(KiB)  "
		     "REPEATED      LOST  MEM(KiB)\n");
	for (struct bound *b = g->contexts; b != NULL; b = b->next) {
		struct rbt_context_stats s;
		stats_of(b, &s);
		fprintf(out,
			"%7" PRIu64 "  %3u  %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "  %9" PRIu64
			"  %10" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n",
			s.id, b->gpu, (uint64_t)(s.busy_ns / RBT_NS_PER_MS), s.launches, s.slices,
			s.preempts, s.saved_bytes >> 10, s.repeated_instructions,
			s.lost_instructions, s.memory_bytes >> 10);
	}
}
