/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and memory, where there is no GPU to have them: which check comes first. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "judge.h"

#define OUTSIDE 0x8000000000000000ull /* of what a process may address */

static struct kfd_create_queue good_queue(void)
{
	static uint64_t ring[512], pointers[2];

	return (struct kfd_create_queue){.ring_base_address = (uintptr_t)ring,
		.write_pointer_address = (uintptr_t)&pointers[0],
		.read_pointer_address = (uintptr_t)&pointers[1],
		.ring_size = sizeof(ring),
		.gpu_id = 1,
		.queue_type = KFD_QUEUE_COMPUTE_AQL,
		.queue_percentage = 100,
		.queue_priority = 7};
}

#define TRY_CREATE(what, field, value)                                                             \
	do {                                                                                       \
		struct kfd_create_queue a_ = good_queue();                                         \
		a_.field = (value);                                                                \
		say_result(what, call(fd, KFD_IOC_CREATE_QUEUE, &a_));                             \
	} while (0)

JUDGE_CASE(case_create_queue)
{
	int fd = open_kfd();

	TRY_CREATE("gpu-0", gpu_id, 0);
	TRY_CREATE("gpu-1", gpu_id, 1);
	TRY_CREATE("gpu-all", gpu_id, UINT32_MAX);
	TRY_CREATE("percent-101", queue_percentage, 101);
	TRY_CREATE("percent-0x164", queue_percentage, 0x164);
	TRY_CREATE("percent-0x165", queue_percentage, 0x165);
	TRY_CREATE("priority-15", queue_priority, 15);
	TRY_CREATE("priority-16", queue_priority, 16);
	TRY_CREATE("ring-0", ring_size, 0);
	TRY_CREATE("ring-odd", ring_size, 3000);
	TRY_CREATE("ring-outside", ring_base_address, OUTSIDE);
	TRY_CREATE("ring-null", ring_base_address, 0);
	TRY_CREATE("rptr-outside", read_pointer_address, OUTSIDE);
	TRY_CREATE("wptr-outside", write_pointer_address, OUTSIDE);
	TRY_CREATE("eop-outside", eop_buffer_address, OUTSIDE);
	TRY_CREATE("save-outside", ctx_save_restore_address, OUTSIDE);
	TRY_CREATE("type-1", queue_type, 1);
	TRY_CREATE("type-3", queue_type, 3);
	TRY_CREATE("type-4", queue_type, 4);
	TRY_CREATE("type-5", queue_type, 5);
	TRY_CREATE("metadata-odd", metadata_ring_size, 3);
}

/* Two things wrong in each: the error says which is looked at first. */
JUDGE_CASE(case_create_queue_order)
{
	int fd = open_kfd();
	struct kfd_create_queue a = good_queue();

	a.queue_percentage = 101;
	a.ring_base_address = OUTSIDE;
	say_result("percent-ring", call(fd, KFD_IOC_CREATE_QUEUE, &a));
	a = good_queue();
	a.ring_base_address = OUTSIDE;
	a.ring_size = 3;
	say_result("ring-size", call(fd, KFD_IOC_CREATE_QUEUE, &a));
	a = good_queue();
	a.ring_size = 3;
	a.read_pointer_address = OUTSIDE;
	say_result("size-rptr", call(fd, KFD_IOC_CREATE_QUEUE, &a));
	a = good_queue();
	a.queue_type = 9;
	a.eop_buffer_address = OUTSIDE;
	say_result("type-eop", call(fd, KFD_IOC_CREATE_QUEUE, &a));
	a = good_queue();
	a.metadata_ring_size = 3;
	a.read_pointer_address = OUTSIDE;
	say_result("metadata-rptr", call(fd, KFD_IOC_CREATE_QUEUE, &a));
	a = good_queue();
	a.ring_size = 16;
	say_result("small", call(fd, KFD_IOC_CREATE_QUEUE, &a));
	say("ring=%u id=%u", a.ring_size, a.queue_id);
}

JUDGE_CASE(case_unknown_queue)
{
	int fd = open_kfd();
	static const uint32_t ids[] = {0, 1, 1023, 1024, UINT32_MAX};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		char what[32];
		struct kfd_destroy_queue d = {.queue_id = ids[i]};
		snprintf(what, sizeof(what), "destroy-%u", ids[i]);
		say_result(what, call(fd, KFD_IOC_DESTROY_QUEUE, &d));
		uint32_t wave[6] = {0, 0, ids[i], 0, 0, 0};
		snprintf(what, sizeof(what), "wave-state-%u", ids[i]);
		say_result(what, call(fd, _IOWR('K', 0x1b, wave), wave));
		uint32_t gws[4] = {ids[i], 1, 0, 0};
		snprintf(what, sizeof(what), "gws-%u", ids[i]);
		say_result(what, call(fd, _IOWR('K', 0x1e, gws), gws));
	}
}

#define TRY_UPDATE(what, ...)                                                                      \
	do {                                                                                       \
		struct kfd_update_queue a_ = {__VA_ARGS__};                                        \
		say_result(what, call(fd, KFD_IOC_UPDATE_QUEUE, &a_));                             \
	} while (0)

JUDGE_CASE(case_update_queue)
{
	int fd = open_kfd();

	TRY_UPDATE("zero", .queue_id = 0);
	TRY_UPDATE("unknown", .queue_id = 5, .queue_percentage = 100);
	TRY_UPDATE("percent-101", .queue_percentage = 101);
	TRY_UPDATE("percent-0x165", .queue_percentage = 0x165);
	TRY_UPDATE("priority-16", .queue_priority = 16);
	TRY_UPDATE("ring-outside", .ring_base_address = OUTSIDE);
	TRY_UPDATE("ring-odd", .ring_size = 5);
	TRY_UPDATE("percent-ring", .queue_percentage = 101, .ring_base_address = OUTSIDE);
	TRY_UPDATE("ring-size", .ring_size = 5, .ring_base_address = OUTSIDE);
}

JUDGE_CASE(case_cu_mask)
{
	int fd = open_kfd();
	uint32_t mask[64] = {1};
	struct kfd_set_cu_mask a = {.n_bits = 0, .mask_ptr = (uintptr_t)mask};

	say_result("bits-0", call(fd, KFD_IOC_SET_CU_MASK, &a));
	a.n_bits = 31;
	say_result("bits-31", call(fd, KFD_IOC_SET_CU_MASK, &a));
	a.n_bits = 32;
	say_result("bits-32", call(fd, KFD_IOC_SET_CU_MASK, &a));
	a.n_bits = 2048;
	say_result("bits-2048", call(fd, KFD_IOC_SET_CU_MASK, &a));
	a.n_bits = 32;
	a.mask_ptr = 0;
	say_result("no-mask", call(fd, KFD_IOC_SET_CU_MASK, &a));
}

JUDGE_CASE(case_memory)
{
	int fd = open_kfd();
	struct kfd_alloc_memory a = {.size = 0, .gpu_id = 1};

	say_result("size-0", call(fd, KFD_IOC_ALLOC_MEMORY, &a));
	a = (struct kfd_alloc_memory){.size = 4096, .gpu_id = 1, .flags = KFD_ALLOC_VRAM};
	say_result("vram", call(fd, KFD_IOC_ALLOC_MEMORY, &a));
	say("handle=%lu", (unsigned long)a.handle);
	a = (struct kfd_alloc_memory){.size = UINT64_MAX, .gpu_id = 0};
	say_result("huge", call(fd, KFD_IOC_ALLOC_MEMORY, &a));
	struct kfd_free_memory f = {.handle = 0};
	say_result("free-0", call(fd, KFD_IOC_FREE_MEMORY, &f));
	f.handle = 1ull << 32 | 1;
	say_result("free", call(fd, KFD_IOC_FREE_MEMORY, &f));
	uint32_t ids[2] = {1, 2};
	struct {
		uint64_t handle, ids;
		uint32_t n, done;
	} map = {.handle = 1ull << 32 | 1, .ids = (uintptr_t)ids, .n = 0};
	say_result("map-none", call(fd, _IOWR('K', 0x18, map), &map));
	map.n = 1;
	say_result("map", call(fd, _IOWR('K', 0x18, map), &map));
	map.done = 2;
	say_result("map-done-2", call(fd, _IOWR('K', 0x18, map), &map));
	map.done = 0;
	map.ids = 0;
	say_result("map-no-ids", call(fd, _IOWR('K', 0x18, map), &map));
	say_result("unmap-no-ids", call(fd, _IOWR('K', 0x19, map), &map));
	map.ids = (uintptr_t)ids;
	say_result("unmap", call(fd, _IOWR('K', 0x19, map), &map));
}

JUDGE_CASE(case_acquire_vm)
{
	int fd = open_kfd();
	struct kfd_acquire_vm a = {.drm_fd = 999, .gpu_id = 1};

	say_result("no-file", call(fd, KFD_IOC_ACQUIRE_VM, &a));
	a.drm_fd = (uint32_t)fd;
	say_result("own", call(fd, KFD_IOC_ACQUIRE_VM, &a));
	a.drm_fd = 1;
	say_result("pipe", call(fd, KFD_IOC_ACQUIRE_VM, &a));
}

JUDGE_CASE(case_policy)
{
	int fd = open_kfd();
	struct {
		uint64_t base, size;
		uint32_t gpu_id, policy, alternate, pad;
	} a = {.gpu_id = 1, .policy = 2};

	say_result("policy-2", call(fd, _IOW('K', 0x04, a), &a));
	a.policy = 1;
	a.alternate = 2;
	say_result("alternate-2", call(fd, _IOW('K', 0x04, a), &a));
	a.alternate = 0;
	say_result("gpu", call(fd, _IOW('K', 0x04, a), &a));
}
