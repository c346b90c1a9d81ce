/* SPDX-License-Identifier: Apache-2.0 */
/* The KFD model: the rules of the debugger interface that tools get wrong, and queues that run. */
#include "test_kfd_world.h"

static void test_version_and_files(void)
{
	struct kfd_version v = {0};

	begin();
	CHECK_INT(target_call(KFD_IOC_GET_VERSION, &v), 0);
	CHECK_INT(v.major, 1);
	CHECK_INT(v.minor, 17);
	/* Another process's file is no use. */
	CHECK_INT(call_as(target, DEBUGGER, DEBUGGER, KFD_IOC_GET_VERSION, &v), -EBADF);
	CHECK_INT(target_call(_IOR('K', 0x60, v), &v), -ENOTTY);
	CHECK_INT(target_call(KFD_IOC_GET_VERSION, (void *)8), -EFAULT);
	CHECK_INT(n_logged, 1);
	end();

	/* Before the debugger interface. */
	struct rbt_kfd_config old = usual;
	old.minor = 11;
	begin_with(old);
	CHECK_INT(simple_op(KFD_DBG_DISABLE), -ENOTTY);
	CHECK_INT(start_runtime(), -ENOTTY);
	end();
}

static void test_create_checks(void)
{
	uint32_t id = 99;

	begin();
	/* Without an address space on the GPU. */
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, 0, &id), -ESRCH);
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(make_queue(9, 0, 0, &id), -KFD_ERRNO_NOT_SUPPORTED);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 5, 0, &id), -EINVAL);
	struct kfd_create_queue a = {.ring_size = 3000, .gpu_id = rbt_kfd_gpu_id(0)};
	CHECK_INT(target_call(KFD_IOC_CREATE_QUEUE, &a), -EINVAL);
	a.ring_size = 4096;
	a.queue_percentage = 101;
	CHECK_INT(target_call(KFD_IOC_CREATE_QUEUE, &a), -EINVAL);
	a.queue_percentage = 100;
	a.queue_priority = 16;
	CHECK_INT(target_call(KFD_IOC_CREATE_QUEUE, &a), -EINVAL);
	a.queue_priority = 15;
	a.ring_base_address = 1ull << 63;
	CHECK_INT(target_call(KFD_IOC_CREATE_QUEUE, &a), -EFAULT);
	/* The shorter argument of older headers; ids are the lowest free ones. */
	CHECK_INT(make_queue(KFD_QUEUE_SDMA, 1, 0, &id), 0);
	CHECK_INT(id, 0);
	a.ring_base_address = (uintptr_t)rings[1].packets;
	CHECK_INT(target_call((uint32_t)_IOC(3u, KFD_IOCTL_TYPE, 2, KFD_CREATE_QUEUE_OLD_SIZE), &a),
		0);
	CHECK_INT(a.queue_id, 1);
	CHECK_INT(destroy_queue(0), 0);
	CHECK_INT(destroy_queue(0), -EINVAL);
	CHECK_INT(make_queue(KFD_QUEUE_SDMA_BY_ENGINE, 0, 0, &id), 0);
	CHECK_INT(id, 0);
	CHECK_INT(look(0).type, KFD_QUEUE_SDMA);
	end();
}

static void test_many_queues(void)
{
	uint32_t id = 0;

	begin();
	CHECK_INT(start_runtime(), 0);
	for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
		CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, i, &id), 0);
	}
	CHECK_INT(id, 1023);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, 0, &id), -ENOMEM);
	end();
}

/* Rules 1 and 2: ENABLE first, and only by who ptraces; which thread depends on the kernel. */
static void test_who_may_debug(void)
{
	struct kfd_runtime_info info = {.state = 99};
	struct kfd_dbg_trap a = {.pid = 12345, .op = KFD_DBG_ENABLE};
	struct kfd_dbg_trap snap = {.pid = TARGET, .op = KFD_DBG_QUEUE_SNAPSHOT};

	begin();
	snap.snapshot.entry_size = sizeof(struct kfd_queue_entry);
	CHECK_INT(simple_op(KFD_DBG_QUEUE_SNAPSHOT), -EINVAL);
	CHECK_INT(dbg(&a), -ESRCH);
	tracer.tid = 0;
	CHECK_INT(enable(&info), -EPERM);
	tracer.tid = DEBUGGER + 1;
	CHECK_INT(enable(&info), -EPERM);
	tracer.tid = DEBUGGER;
	CHECK_INT(enable(&info), 0);
	CHECK_INT(info.state, KFD_RUNTIME_DISABLED);
	CHECK_INT(enable(&info), -EALREADY);
	CHECK_INT(dbg(&snap), 0);
	/* Another thread of the debugger, a stranger, the end of ptrace. */
	CHECK_INT(call_as(debugger, DEBUGGER, DEBUGGER + 1, KFD_IOC_DBG_TRAP, &snap), -EPERM);
	CHECK_INT(call_as(stranger, STRANGER, STRANGER, KFD_IOC_DBG_TRAP, &snap), -EPERM);
	tracer.tid = 0;
	CHECK_INT(dbg(&snap), -EPERM);
	CHECK_INT(simple_op(KFD_DBG_DISABLE), 0);
	CHECK_INT(simple_op(KFD_DBG_DISABLE), -EINVAL);
	end();

	struct rbt_kfd_config relaxed = usual;
	relaxed.ptrace_rule = RBT_KFD_PTRACE_PROCESS;
	begin_with(relaxed);
	tracer.tid = DEBUGGER + 1;
	CHECK_INT(enable(&info), -EPERM);
	tracer.tid = DEBUGGER;
	CHECK_INT(enable(&info), 0);
	CHECK_INT(call_as(debugger, DEBUGGER, DEBUGGER + 2, KFD_IOC_DBG_TRAP, &snap), 0);
	CHECK_INT(call_as(stranger, STRANGER, STRANGER, KFD_IOC_DBG_TRAP, &snap), -EPERM);
	snap.op = KFD_DBG_DISABLE;
	CHECK_INT(call_as(stranger, STRANGER, STRANGER, KFD_IOC_DBG_TRAP, &snap), -EPERM);
	tracer.tid = 0;
	CHECK_INT(call_as(debugger, DEBUGGER, DEBUGGER + 2, KFD_IOC_DBG_TRAP, &snap), 0);
	end();
}

/* A process debugs itself without ptrace. */
static void test_self(void)
{
	struct kfd_dbg_trap a = {.pid = TARGET, .op = KFD_DBG_ENABLE};

	begin();
	tracer.tid = 0;
	a.enable.dbg_fd = 8;
	CHECK_INT(target_call(KFD_IOC_DBG_TRAP, &a), -EBADF);
	a.enable.dbg_fd = 7;
	CHECK_INT(target_call(KFD_IOC_DBG_TRAP, &a), 0);
	end();
}

/* Rules 3 to 6 and 8. */
static void test_suspend(void)
{
	struct kfd_queue_entry list[4];
	struct kfd_runtime_info info;
	uint32_t a = 0, b = 0, n = 0, ids[3];

	begin();
	CHECK_INT(enable(&info), 0);
	CHECK_INT(suspend_ids(ids, 1), -EPERM); /* the runtime is not there */
	CHECK_INT(simple_op(KFD_DBG_DISABLE), 0);
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, 0, &a), 0);
	CHECK_INT(make_queue(KFD_QUEUE_SDMA, 0, 1, &b), 0);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(info.state, KFD_RUNTIME_ENABLED);

	/* New queues are skipped: no error, a count of 0, and a bit. */
	ids[0] = a;
	CHECK_INT(suspend_ids(ids, 1), 0);
	CHECK_INT(ids[0], (int64_t)(a | KFD_QUEUE_ID_INVALID));
	CHECK_INT(look(a).suspended, 0);
	CHECK_INT(snapshot(list, 4, &n), 0);
	CHECK_INT(n, 2);
	CHECK(list[0].exception_status == KFD_EC_QUEUE_NEW);
	CHECK_INT(list[0].queue_type, KFD_QUEUE_COMPUTE_AQL);
	CHECK(list[0].write_pointer_address == (uintptr_t)&rings[0].wptr);

	/* Part of them: how many, and which not. */
	ids[0] = 77;
	ids[1] = b;
	ids[2] = b;
	CHECK_INT(suspend_ids(ids, 3), 1);
	CHECK_INT(ids[0], (int64_t)(77 | KFD_QUEUE_ID_INVALID));
	CHECK_INT(ids[1], b);
	CHECK_INT(ids[2], (int64_t)(b | KFD_QUEUE_ID_INVALID));
	/* The id with its bit is another id: who does not clear it finds nothing. */
	ids[0] = b | KFD_QUEUE_ID_ERROR;
	CHECK_INT(resume_ids(ids, 1), 0);
	ids[0] = a;
	ids[1] = b;
	CHECK_INT(suspend_ids(ids, 2), 2); /* one of them already was */
	CHECK_INT(look(a).suspended && look(b).suspended, 1);
	CHECK_INT(resume_ids(ids, 2), 2);
	CHECK_INT(look(a).suspended || look(b).suspended, 0);

	CHECK_INT(suspend_ids(ids, 1025), -EINVAL);
	CHECK_INT(rbt_kfd_oopses(kfd), 0);
	CHECK_INT(suspend_ids(NULL, 1), -EINVAL);
	CHECK_INT(rbt_kfd_oopses(kfd), 1);
	CHECK_INT(suspend_ids(ids, 2), 2);
	CHECK_INT(resume_ids(NULL, 0), 2); /* all */
	CHECK_INT(look(a).suspended, 0);
	end();
}

/* The end of a session, of either side, resumes. */
static void test_ends(void)
{
	struct kfd_queue_entry list[4];
	struct kfd_runtime_info info;
	uint32_t a = 0, n = 0;

	begin();
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, 0, &a), 0);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(snapshot(list, 4, &n), 0);
	CHECK_INT(suspend_ids(&a, 1), 1);
	CHECK_INT(simple_op(KFD_DBG_DISABLE), 0);
	CHECK_INT(look(0).suspended, 0);
	CHECK_INT(look(0).is_new, 0); /* gone with the session */
	CHECK_INT(n_files, 0);

	CHECK_INT(enable(&info), 0);
	CHECK_INT(suspend_ids(&a, 1), 1);
	rbt_kfd_exit(kfd, DEBUGGER);
	CHECK_INT(look(0).suspended, 0);
	CHECK_INT(n_files, 0);

	/* The debugger's file outlives it by a moment, and then serves nobody. */
	CHECK_INT(simple_op(KFD_DBG_DISABLE), -EBADF);
	rbt_kfd_close(debugger);
	debugger = rbt_kfd_open(kfd, DEBUGGER);
	CHECK_INT(enable(&info), 0);
	rbt_kfd_exit(kfd, TARGET);
	CHECK_INT(n_files, 0);
	tracer.tid = 0;
	CHECK_INT(simple_op(KFD_DBG_DISABLE), -ESRCH);
	end();
}

/* Rule 10: both ends of the runtime wait for the debugger. */
static void test_runtime_handshake(void)
{
	struct kfd_runtime_enable off = {0};
	struct kfd_runtime_info info;
	struct kfd_dbg_trap event = {.pid = TARGET, .op = KFD_DBG_QUERY_EVENT};
	struct kfd_dbg_trap answer = {.pid = TARGET, .op = KFD_DBG_SEND_RUNTIME_EVENT};
	uint32_t id = 0;

	begin();
	answer.event.exception_mask = KFD_EC_PROCESS_RUNTIME;
	CHECK_INT(enable(&info), 0);
	CHECK_INT(dbg(&event), -EAGAIN);
	CHECK(start_runtime() == RBT_KFD_WAIT);
	CHECK_INT(n_events, 1);
	CHECK(start_runtime() == RBT_KFD_WAIT); /* made again, it is still the same call */
	CHECK_INT(n_events, 1);
	event.event.exception_mask = KFD_EC_PROCESS_RUNTIME;
	CHECK_INT(dbg(&event), 0);
	CHECK(event.event.exception_mask == KFD_EC_PROCESS_RUNTIME);
	CHECK_INT(dbg(&event), -EAGAIN);
	CHECK_INT(dbg(&answer), 0);
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(start_runtime(), -EBUSY);

	CHECK(target_call(KFD_IOC_RUNTIME_ENABLE, &off) == RBT_KFD_WAIT);
	CHECK_INT(dbg(&answer), 0);
	CHECK_INT(target_call(KFD_IOC_RUNTIME_ENABLE, &off), 0);
	CHECK_INT(simple_op(KFD_DBG_DISABLE), 0);
	/* With queues it is too late; without a debugger nobody waits. */
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, 0, &id), 0);
	CHECK_INT(start_runtime(), -EEXIST);
	CHECK_INT(destroy_queue(id), 0);
	CHECK_INT(start_runtime(), 0);
	end();
}

/* Rules 7 and 11: events, and a queue that is destroyed while it is suspended. */
static void test_events(void)
{
	struct kfd_queue_entry list[4];
	struct kfd_runtime_info info;
	struct kfd_dbg_trap event = {.pid = TARGET, .op = KFD_DBG_QUERY_EVENT};
	struct kfd_dbg_trap mask = {.pid = TARGET, .op = KFD_DBG_SET_EXCEPTIONS};
	uint32_t a = 0, b = 0, n = 0;

	begin();
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 1, 0, &a), 0);
	CHECK_INT(n_events, 1);
	event.event.exception_mask = UINT64_MAX;
	CHECK_INT(dbg(&event), 0);
	CHECK(event.event.exception_mask == KFD_EC_QUEUE_NEW);
	CHECK_INT(event.event.queue_id, a);
	CHECK_INT(event.event.gpu_id, rbt_kfd_gpu_id(1));
	CHECK_INT(suspend_ids(&a, 1), 1);

	CHECK(destroy_queue(0) == RBT_KFD_WAIT);
	CHECK(destroy_queue(0) == RBT_KFD_WAIT);
	a = 0;
	CHECK_INT(resume_ids(&a, 1), 1);
	CHECK_INT(suspend_ids(&a, 1), 0); /* on its way out */
	CHECK_INT(destroy_queue(0), 0);
	CHECK_INT(n_events, 2);
	event.event.exception_mask = UINT64_MAX;
	CHECK_INT(dbg(&event), 0);
	CHECK(event.event.exception_mask == KFD_EC_DEVICE_QUEUE_DELETE);
	CHECK_INT(dbg(&event), -EAGAIN);

	/* What is not subscribed to is kept, and told on subscription. */
	CHECK_INT(dbg(&mask), 0);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, 1, &b), 0);
	CHECK_INT(n_events, 2);
	CHECK_INT(dbg(&event), -EAGAIN);
	mask.exceptions.exception_mask = KFD_EC_QUEUE_NEW;
	CHECK_INT(dbg(&mask), 0);
	CHECK_INT(n_events, 3);
	CHECK_INT(snapshot(list, 0, &n), 0);
	CHECK_INT(n, 1);
	CHECK_INT(look(b).is_new, 1); /* no entry, nothing cleared */
	end();
}

static void test_strides(void)
{
	struct kfd_runtime_info info;
	struct kfd_dbg_trap a = {.pid = TARGET, .op = KFD_DBG_QUEUE_SNAPSHOT};
	uint8_t wide[3][100], devices[2][200];
	uint32_t id;

	begin();
	CHECK_INT(start_runtime(), 0);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, i, &id), 0);
	}
	CHECK_INT(enable(&info), 0);
	memset(wide, 0xee, sizeof(wide));
	a.snapshot.buf_ptr = (uintptr_t)wide;
	a.snapshot.n_entries = 2;
	a.snapshot.entry_size = sizeof(wide[0]);
	CHECK_INT(dbg(&a), 0);
	CHECK_INT(a.snapshot.n_entries, 3);
	CHECK_INT(a.snapshot.entry_size, 64);
	CHECK_INT(wide[0][64], 0xee);
	struct kfd_queue_entry second;
	memcpy(&second, wide[1], sizeof(second));
	CHECK_INT(second.queue_id, 1);
	CHECK_INT(wide[2][0], 0xee);
	a.snapshot.entry_size = 0;
	CHECK_INT(dbg(&a), -EINVAL);
	a.op = KFD_DBG_DEVICE_SNAPSHOT;
	a.snapshot.buf_ptr = (uintptr_t)devices;
	a.snapshot.n_entries = 2;
	a.snapshot.entry_size = sizeof(devices[0]);
	CHECK_INT(dbg(&a), 0);
	CHECK_INT(a.snapshot.entry_size, 120);
	CHECK_INT(a.snapshot.n_entries, 2);
	end();
}

/* One debugged process a GPU: the second finds out from the state alone. */
static void test_one_debugger(void)
{
	struct rbt_kfd_config one = usual;
	struct kfd_runtime_info info;
	struct kfd_runtime_enable on = {.mode_mask = KFD_RUNTIME_ENABLE_MODE};
	struct kfd_dbg_trap self = {.pid = STRANGER, .op = KFD_DBG_ENABLE};
	uint32_t id = 0;

	one.one_debugger = 1;
	begin_with(one);
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(call_as(stranger, STRANGER, STRANGER, KFD_IOC_RUNTIME_ENABLE, &on), 0);
	self.enable.dbg_fd = 7;
	CHECK_INT(call_as(stranger, STRANGER, STRANGER, KFD_IOC_DBG_TRAP, &self), 0);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(info.state, KFD_RUNTIME_BUSY);
	CHECK_INT(suspend_ids(&id, 1), -EPERM);
	CHECK_INT(simple_op(KFD_DBG_DISABLE), 0);
	rbt_kfd_exit(kfd, STRANGER);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(info.state, KFD_RUNTIME_ENABLED);
	end();
}

/* Suspended, nothing moves; resumed, it goes on where it was. */
static void test_exact(void)
{
	struct kfd_queue_entry list[4];
	struct kfd_runtime_info info;
	struct kfd_save_area_header header;
	uint32_t id = 0, n = 0;

	begin();
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, 0, &id), 0);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(snapshot(list, 4, &n), 0);
	submit_to(0, 10);
	run_for(MS); /* seen */
	run_for(3 * MS + MS / 2);
	CHECK_INT(rings[0].rptr, 3);
	for (uint32_t i = 0; i < 5; i++) {
		CHECK_INT(suspend_ids(&id, 1), 1);
		memcpy(&header, rings[0].save, sizeof(header));
		CHECK_INT(header.wave_state_size > 0, 1);
		run_for(20 * MS);
		CHECK_INT(rings[0].rptr, 3);
		CHECK_INT(resume_ids(&id, 1), 1);
	}
	CHECK_INT(look(id).restored, 5);
	run_for(RESUME);
	CHECK_INT(rings[0].rptr, 3);
	run_for(MS / 2);
	CHECK_INT(rings[0].rptr, 4); /* half a packet's time was enough */
	run_for(6 * MS);
	CHECK_INT(rings[0].rptr, 10);
	CHECK_INT(look(id).completed, 10);
	CHECK_INT(look(id).restarted, 0);
	/* Between packets there is nothing to save. */
	CHECK_INT(suspend_ids(&id, 1), 1);
	memcpy(&header, rings[0].save, sizeof(header));
	CHECK_INT(header.wave_state_size, 0);
	CHECK_INT(resume_ids(&id, 1), 1);

	/* A program that destroys the save area loses the packet's progress. */
	submit_to(0, 11);
	run_for(MS);
	run_for(MS * 9 / 10);
	CHECK_INT(suspend_ids(&id, 1), 1);
	memset(rings[0].save, 0, sizeof(rings[0].save));
	CHECK_INT(resume_ids(&id, 1), 1);
	run_for(RESUME + MS / 2);
	CHECK_INT(rings[0].rptr, 10);
	CHECK_INT(look(id).restarted, 1);
	end();
}

/* UPDATE_QUEUE is the lever from inside: 0 per cent takes off, 100 puts back. */
static void test_update(void)
{
	struct kfd_update_queue a = {0};
	uint32_t id = 0, masks[2] = {0xf, 0x1};
	struct kfd_set_cu_mask cu = {.n_bits = 64, .mask_ptr = (uintptr_t)masks};

	begin();
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, 0, &id), 0);
	submit_to(0, 4);
	run_for(MS);
	run_for(MS / 2);
	a.queue_id = id;
	a.ring_base_address = (uintptr_t)rings[0].packets;
	a.ring_size = sizeof(rings[0].packets);
	CHECK_INT(target_call(KFD_IOC_UPDATE_QUEUE, &a), 0);
	run_for(10 * MS);
	CHECK_INT(rings[0].rptr, 0);
	a.queue_percentage = 100;
	a.queue_priority = 11;
	CHECK_INT(target_call(KFD_IOC_UPDATE_QUEUE, &a), 0);
	run_for(RESUME + MS / 2);
	CHECK_INT(rings[0].rptr, 1);
	CHECK_INT(look(id).priority, 11);
	CHECK_INT(look(id).restored, 1);
	/* Ring and size are part of it: who leaves them out stops the queue. */
	a.ring_base_address = 0;
	CHECK_INT(target_call(KFD_IOC_UPDATE_QUEUE, &a), 0);
	run_for(10 * MS);
	CHECK_INT(rings[0].rptr, 1);
	a.queue_id = 9;
	CHECK_INT(target_call(KFD_IOC_UPDATE_QUEUE, &a), -EFAULT);
	cu.queue_id = id;
	CHECK_INT(target_call(KFD_IOC_SET_CU_MASK, &cu), 0);
	cu.n_bits = 20;
	CHECK_INT(target_call(KFD_IOC_SET_CU_MASK, &cu), -EINVAL);
	end();
}

static void test_pointers_of_nonsense(void)
{
	uint32_t id = 0;

	begin();
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE, 0, 0, &id), 0);
	submit_to(0, 40);
	run_for(MS);
	run_for(2 * MS);
	CHECK_INT(rings[0].rptr, 32); /* 16 dwords a packet */
	run_for(MS);
	CHECK_INT(rings[0].rptr, 40);
	submit_to(0, 3); /* behind the read pointer */
	run_for(MS);
	run_for(10 * MS);
	CHECK_INT(rings[0].rptr, 40);
	end();
}

static void test_faults(void)
{
	struct rbt_kfd_fault f = {.nr = KFD_NR_DBG_TRAP,
		.op = KFD_DBG_QUEUE_SNAPSHOT,
		.has_op = 1,
		.error = EIO,
		.count = 1};
	struct kfd_queue_entry list[4];
	struct kfd_runtime_info info;
	uint32_t id = 0, n = 0;

	begin();
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(make_queue(KFD_QUEUE_COMPUTE_AQL, 0, 0, &id), 0);
	CHECK_INT(rbt_kfd_add_fault(kfd, &f), 0);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(snapshot(list, 4, &n), -EIO);
	CHECK_INT(snapshot(list, 4, &n), 0);
	f = (struct rbt_kfd_fault){.nr = KFD_NR_DBG_TRAP,
		.op = KFD_DBG_SUSPEND_QUEUES,
		.has_op = 1,
		.queue_error = 1,
		.delay_us = 5000};
	CHECK_INT(rbt_kfd_add_fault(kfd, &f), 0);
	CHECK_INT(suspend_ids(&id, 1), 0);
	CHECK_INT(id, KFD_QUEUE_ID_ERROR);
	CHECK_INT(delay_us, 5000);
	rbt_kfd_clear_faults(kfd);
	id = 0;
	CHECK_INT(suspend_ids(&id, 1), 1);
	CHECK_INT(delay_us, KFD_HW_SUSPEND_US);
	f.error = 134;
	CHECK_INT(rbt_kfd_add_fault(kfd, &f), -EINVAL);
	end();
}

static void test_memory(void)
{
	struct kfd_alloc_memory a = {
		.size = 4096, .gpu_id = rbt_kfd_gpu_id(1), .flags = KFD_ALLOC_VRAM};
	struct kfd_free_memory f;
	struct kfd_apertures ap = {0};
	struct kfd_apertures_old old;
	struct kfd_aperture list[2];

	begin();
	CHECK_INT(target_call(KFD_IOC_ALLOC_MEMORY, &a), -ESRCH);
	CHECK_INT(start_runtime(), 0);
	CHECK_INT(target_call(KFD_IOC_ALLOC_MEMORY, &a), 0);
	CHECK_INT(rbt_kfd_vram_bytes(kfd, TARGET, 1), 4096);
	f.handle = a.handle;
	CHECK_INT(target_call(KFD_IOC_FREE_MEMORY, &f), 0);
	CHECK_INT(target_call(KFD_IOC_FREE_MEMORY, &f), -EINVAL);
	CHECK_INT(rbt_kfd_vram_bytes(kfd, TARGET, 1), 0);
	CHECK_INT(target_call(KFD_IOC_APERTURES, &ap), 0);
	CHECK_INT(ap.n, 2);
	ap.list_ptr = (uintptr_t)list;
	ap.n = 4;
	CHECK_INT(target_call(KFD_IOC_APERTURES, &ap), -EINVAL); /* two GPUs and the CPU */
	ap.n = 3;
	CHECK_INT(target_call(KFD_IOC_APERTURES, &ap), 0);
	CHECK_INT(ap.n, 2);
	CHECK_INT(list[1].gpu_id, rbt_kfd_gpu_id(1));
	CHECK_INT(target_call(KFD_IOC_APERTURES_OLD, &old), 0);
	CHECK_INT(old.n, 2);
	end();
}

int main(void)
{
	test_version_and_files();
	test_create_checks();
	test_many_queues();
	test_who_may_debug();
	test_self();
	test_suspend();
	test_ends();
	test_runtime_handshake();
	test_events();
	test_strides();
	test_one_debugger();
	test_exact();
	test_update();
	test_pointers_of_nonsense();
	test_faults();
	test_memory();
	return check_result();
}
