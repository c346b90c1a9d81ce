/* SPDX-License-Identifier: Apache-2.0 */
/* What the newest kernels do, which let nobody open /dev/kfd without a GPU and so cannot be asked
 * (tests/judge): from the source of Linux 7.2. And calls with a GPU, up to where it would work. */
#include "test_kfd_world.h"

static const struct rbt_kfd_config newest = {
	.n_gpus = 2, .minor = 23, .gfx_target_version = 90402, .packet_us = 1000};

static int64_t enable_with(struct kfd_dbg_trap a)
{
	a.pid = TARGET;
	a.op = KFD_DBG_ENABLE;
	a.enable.dbg_fd = 7;
	return dbg(&a);
}

/* A debugger that asks for the runtime's state without room for it gets no session either. */
static void test_failed_enable(void)
{
	struct kfd_dbg_trap bad = {.enable.rinfo_size = 16, .enable.rinfo_ptr = 8}, good = {0};

	begin();
	CHECK_INT(enable_with(bad), -EFAULT);
	CHECK_INT(enable_with(good), -EALREADY);
	end();
	begin_with(newest);
	CHECK_INT(enable_with(bad), -EFAULT);
	CHECK_INT(n_files, 0);
	CHECK_INT(enable_with(good), 0);
	end();
}

static void test_secondary(void)
{
	struct kfd_runtime_enable on = {.mode_mask = KFD_RUNTIME_ENABLE_MODE};
	struct kfd_dbg_trap a = {.pid = TARGET, .op = KFD_DBG_QUERY_EVENT};
	uint32_t request = _IO(KFD_IOCTL_TYPE, KFD_NR_CREATE_PROCESS);

	begin();
	CHECK_INT(target_call(request, NULL), -ENOTTY);
	end();
	begin_with(newest);
	struct rbt_kfd_open *other = rbt_kfd_open(kfd, TARGET);
	CHECK_INT(target_call(request, NULL), 0);
	CHECK_INT(target_call(request, NULL), -EINVAL);
	CHECK_INT(target_call(KFD_IOC_RUNTIME_ENABLE, &on), 0);
	CHECK_INT(target_call(KFD_IOC_RUNTIME_ENABLE, &on), -EBUSY);
	CHECK_INT(call_as(other, TARGET, TARGET, KFD_IOC_RUNTIME_ENABLE, &on), 0);
	CHECK_INT(target_call(KFD_IOC_DBG_TRAP, &a), -EOPNOTSUPP);
	/* It goes with its file; the program's own stays, and goes with the program. */
	rbt_kfd_close(target);
	CHECK_INT(call_as(other, TARGET, TARGET, KFD_IOC_RUNTIME_ENABLE, &on), -EBUSY);
	CHECK_INT(call_as(other, TARGET, TARGET, request, NULL), 0);
	rbt_kfd_exit(kfd, TARGET);
	CHECK_INT(call_as(other, TARGET, TARGET, KFD_IOC_RUNTIME_ENABLE, &on), -EBADF);
	end();
}

static void test_profiler(void)
{
	struct kfd_profiler a = {.op = 2};
	uint32_t request = _IOWR(KFD_IOCTL_TYPE, KFD_NR_PROFILER, struct kfd_profiler);
	struct rbt_kfd_task may = {.tid = TARGET, .pid = TARGET, .may_profile = true};

	begin_with(newest);
	CHECK_INT(target_call(request, &a), 0);
	CHECK_INT(a.value[0], 1);
	a.op = 0;
	CHECK_INT(target_call(request, &a), -EPERM);
	CHECK_INT(rbt_kfd_ioctl(target, may, request, (uintptr_t)&a, &delay_us), -EINVAL);
	a.op = 1;
	CHECK_INT(target_call(request, &a), -EINVAL);
	end();
}

/* A metadata ring is looked at before the pointers. */
static void test_metadata(void)
{
	struct kfd_create_queue q = {
		.metadata_ring_size = 3, .read_pointer_address = UINT64_MAX, .ring_size = 4096};

	begin();
	CHECK_INT(target_call(KFD_IOC_CREATE_QUEUE, &q), -EFAULT);
	end();
	begin_with(newest);
	CHECK_INT(target_call(KFD_IOC_CREATE_QUEUE, &q), -EINVAL);
	end();
}

static void test_with_gpu(void)
{
	struct kfd_acquire_vm vm = {.drm_fd = 5, .gpu_id = rbt_kfd_gpu_id(1)};
	struct kfd_alloc_memory m = {
		.size = 8192, .gpu_id = rbt_kfd_gpu_id(1), .flags = KFD_ALLOC_VRAM};
	struct kfd_available_memory left = {.gpu_id = rbt_kfd_gpu_id(1)};
	struct kfd_set_policy policy = {.gpu_id = rbt_kfd_gpu_id(1)};
	uint32_t ids[2] = {rbt_kfd_gpu_id(1), 5};
	struct kfd_map_memory map = {.ids_ptr = (uintptr_t)ids, .n_ids = 1};

	begin();
	CHECK_INT(target_call(_IOW('K', 0x04, policy), &policy), -ESRCH);
	CHECK_INT(target_call(KFD_IOC_ACQUIRE_VM, &vm), 0);
	CHECK_INT(target_call(_IOW('K', 0x04, policy), &policy), 0);
	CHECK_INT(target_call(KFD_IOC_ALLOC_MEMORY, &m), 0);
	CHECK_INT(target_call(_IOWR('K', 0x23, left), &left), 0);
	CHECK(left.available == RBT_KFD_VRAM_BYTES - 8192);
	CHECK_INT(target_call(_IOWR('K', 0x18, map), &map), -EINVAL);
	map.handle = m.handle;
	CHECK_INT(target_call(_IOWR('K', 0x18, map), &map), 0);
	CHECK_INT(map.n_done, 1);
	map.n_ids = 2;
	CHECK_INT(target_call(_IOWR('K', 0x19, map), &map), -EINVAL);
	CHECK_INT(map.n_done, 1); /* the second is no GPU */
	/* What the model has not is said, and is no answer of a driver's. */
	uint32_t smi[2] = {rbt_kfd_gpu_id(0), 0};
	unsigned before = n_logged;
	CHECK_INT(target_call(_IOWR('K', 0x1f, smi), smi), -ENOTTY);
	CHECK_INT(n_logged, before + 1);
	end();
}

int main(void)
{
	test_failed_enable();
	test_secondary();
	test_profiler();
	test_metadata();
	test_with_gpu();
	return check_result();
}
