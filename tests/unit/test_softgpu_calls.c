/* SPDX-License-Identifier: Apache-2.0 */
/* The RM model: memory, cards, nodes, calls that are wrapped,
 * restarted, made to fail; deep trees. */
#include "test_softgpu_world.h"

static void test_memory(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_memory_params memory = {.size = 1000ull << 20};
	static struct nv_pid_info_params info;
	uint32_t h = 0, h2 = 0;

	info = (struct nv_pid_info_params){.count = 2, .list = {{.pid = 42}, {.pid = 7}}};
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_PID_INFO, &info,
			  sizeof(info)),
		NV_OK);
	CHECK(info.list[0].mem_private > 0);
	CHECK_INT(info.list[1].result, NV_ERR_OBJECT_NOT_FOUND);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h, NV_CLASS_MEMORY_LOCAL, &memory,
			  sizeof(memory)),
		NV_OK);
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_PID_INFO, &info,
			  sizeof(info)),
		NV_OK);
	CHECK_INT(info.list[0].mem_private, 1000ull << 20);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h2, NV_CLASS_MEMORY_LOCAL, &memory,
			  sizeof(memory)),
		NV_ERR_NO_MEMORY);
	CHECK_INT(free_as(mine, p.client, h), NV_OK);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h2, NV_CLASS_MEMORY_LOCAL, &memory,
			  sizeof(memory)),
		NV_OK);
	info.count = NV_PID_INFO_MAX + 1;
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_PID_INFO, &info,
			  sizeof(info)),
		NV_ERR_INVALID_ARGUMENT);
	end();
}

static void test_cards(void)
{
	begin("580.159.04");
	struct program p = make_program(1, 1);
	static struct nv_card_info cards[NV_MAX_GPUS];
	struct nv_attached_ids_params ids = {0};
	struct nv_gpu_id_params id = {0};
	struct nv_name_params name = {0};
	struct nv_check_version version = {.cmd = NV_CHECK_VERSION_QUERY};

	CHECK_INT(call(mine, NV_IOCTL_CARD_INFO, cards), 0);
	CHECK(cards[0].valid && cards[1].valid && !cards[2].valid);
	CHECK_INT(cards[1].minor_number, 1);
	CHECK_INT(control_as(mine, p.client, p.client, NV_CTRL_GPU_GET_ATTACHED_IDS, &ids,
			  sizeof(ids)),
		NV_OK);
	CHECK_INT(ids.gpu_id[1], cards[1].gpu_id);
	CHECK_INT(ids.gpu_id[2], NV_GPU_ID_INVALID);
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_ID, &id, sizeof(id)),
		NV_OK);
	CHECK_INT(id.gpu_id, cards[1].gpu_id);
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_NAME_STRING, &name,
			  sizeof(name)),
		NV_OK);
	CHECK(strcmp(name.name.ascii, RBT_RM_GPU_NAME) == 0);
	CHECK_INT(call(mine, NV_IOCTL_CHECK_VERSION, &version), 0);
	CHECK(strcmp(version.version, "580.159.04") == 0);
	version = (struct nv_check_version){.version = "570.1"};
	CHECK_INT(call(mine, NV_IOCTL_CHECK_VERSION, &version), -EINVAL);
	end();
}

static void test_nodes(void)
{
	begin("580.159.04");
	struct rbt_rm_open *gpu = rbt_rm_open(rm, RBT_RM_NODE_GPU, 1, 3, 42, 0);
	struct rbt_rm_open *uvm = rbt_rm_open(rm, RBT_RM_NODE_UVM, 0, 4, 42, 0);
	struct nv_register_fd reg = {.ctl_fd = 3}, wrong = {.ctl_fd = 4};
	struct nv_alloc64 a = {.hclass = NV_CLASS_ROOT_CLIENT};

	CHECK_INT(call(gpu, NV_IOCTL_REGISTER_FD, &reg), 0);
	CHECK_INT(call(gpu, NV_IOCTL_REGISTER_FD, &wrong), -EINVAL);
	CHECK_INT(call(gpu, NV_IOCTL_ALLOC64, &a), -EINVAL);
	CHECK_INT(call(uvm, NV_IOCTL_ALLOC64, &a), -ENOTTY);
	CHECK_INT(call(mine, _IOWR('K', 1, uint32_t), &a), -ENOTTY);
	CHECK_INT(call(mine, NV_IOCTL_ALLOC64, (void *)8), -EFAULT);
	CHECK_INT(n_logged, 2);
	end();
}

static void test_transfer(void)
{
	begin("580.159.04");
	struct nv_alloc64 a = {.hclass = NV_CLASS_ROOT_CLIENT, .status = 0xdead};
	struct nv_xfer xfer = {.cmd = NV_ESC_RM_ALLOC, .size = sizeof(a), .arg = (uintptr_t)&a};

	CHECK_INT(call(mine, _IOWR('F', NV_ESC_IOCTL_XFER_CMD, struct nv_xfer), &xfer), 0);
	CHECK_INT(a.status, NV_OK);
	CHECK_INT(a.object, 0xc1d9a000);
	end();
}

/* A call whose bytes are not there yet changes nothing until they are. */
static void test_restart(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_timeslice_params slice = {.timeslice_us = 9};
	uint32_t before = n_tsgs();

	hesitant = true;
	n_hesitations = 0;
	CHECK_INT(
		control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, sizeof(slice)),
		NV_OK);
	/* Once for the argument, once for the parameters. */
	CHECK_INT(n_hesitations, 2);
	CHECK_INT(look(&p, p.tsg).timeslice_us, 9);
	struct program q = make_program(0, 2);
	CHECK_INT(n_tsgs(), before + 2);
	CHECK_INT(look(&q, q.tsg).n_channels, 2);
	end();
}

static void test_faults(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_timeslice_params slice = {.timeslice_us = 3};
	struct rbt_rm_fault busy = {
		.cmd = NV_CTRL_TSG_SET_TIMESLICE, .status = NV_ERR_BUSY_RETRY, .has_status = 1};
	struct rbt_rm_fault io = {.nr = NV_ESC_RM_FREE, .error = EIO, .count = 1};
	struct rbt_rm_fault slow = {.cmd = NV_CTRL_TSG_GET_TIMESLICE, .delay_us = 500, .count = 1};
	struct rbt_rm_fault bad = {.error = ERESTART};
	struct nv_free f = {.client = p.client, .object = p.copy};

	busy.count = 2;
	CHECK_INT(rbt_rm_add_fault(rm, &busy), 0);
	CHECK_INT(rbt_rm_add_fault(rm, &io), 0);
	CHECK_INT(rbt_rm_add_fault(rm, &slow), 0);
	CHECK_INT(rbt_rm_add_fault(rm, &bad), -EINVAL);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 8),
			NV_ERR_BUSY_RETRY);
		CHECK_INT(look(&p, p.tsg).timeslice_us, NV_DEFAULT_TIMESLICE_US);
	}
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(call(mine, NV_IOCTL_FREE, &f), -EIO);
	CHECK_INT(call(mine, NV_IOCTL_FREE, &f), 0);
	CHECK_INT(f.status, NV_OK);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(delay_us, 500);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(delay_us, 0);
	busy.count = 0;
	CHECK_INT(rbt_rm_add_fault(rm, &busy), 0);
	rbt_rm_clear_faults(rm);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 8), NV_OK);
	end();
}

/* Controls that are built otherwise, and classes that are refused. */
static void test_other_sizes(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct {
		struct nv_timeslice_params slice;
		uint64_t more;
	} big = {.slice.timeslice_us = 7};
	struct rbt_rm_fault longer = {.cmd = NV_CTRL_TSG_SET_TIMESLICE, .size = sizeof(big)};
	struct rbt_rm_fault any = {.cmd = NV_CTRL_TSG_SET_TIMESLICE, .size = RBT_RM_ANY_SIZE};
	struct rbt_rm_fault no_groups = {
		.hclass = NV_CLASS_TSG, .status = NV_ERR_NO_MEMORY, .has_status = 1};
	struct rbt_rm_fault too_big = {.cmd = 1, .size = 1 << 20};
	struct nv_tsg_params group = {.engine_type = NV_ENGINE_TYPE_GRAPHICS};
	uint32_t h = 0;

	CHECK_INT(rbt_rm_add_fault(rm, &too_big), -EINVAL);
	CHECK_INT(rbt_rm_add_fault(rm, &longer), 0);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &big, 8),
		NV_ERR_INVALID_ARGUMENT);
	CHECK_INT(look(&p, p.tsg).timeslice_us, NV_DEFAULT_TIMESLICE_US);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &big, sizeof(big)),
		NV_OK);
	CHECK_INT(look(&p, p.tsg).timeslice_us, 7);
	rbt_rm_clear_faults(rm);
	CHECK_INT(rbt_rm_add_fault(rm, &any), 0);
	for (uint32_t size = 8; size <= sizeof(big); size += 4) {
		big.slice.timeslice_us = size;
		CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &big, size),
			NV_OK);
		CHECK_INT(look(&p, p.tsg).timeslice_us, size);
	}
	CHECK_INT(rbt_rm_add_fault(rm, &no_groups), 0);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h, NV_CLASS_TSG, &group, sizeof(group)),
		NV_ERR_NO_MEMORY);
	CHECK_INT(alloc_as(mine, p.client, p.tsg, &h, NV_CLASS_CHANNEL_HOPPER, NULL, 0), NV_OK);
	end();
}

/* A tree as deep as a program likes must not use up our stack. */
static void test_deep(void)
{
	begin("580.159.04");
	uint32_t client = 0, parent, h;

	CHECK_INT(alloc_as(mine, 0, 0, &client, NV_CLASS_ROOT_CLIENT, NULL, 0), NV_OK);
	parent = client;
	for (int i = 0; i < 200000; i++) {
		h = 0;
		if (alloc_as(mine, client, parent, &h, 0x70, NULL, 0) != NV_OK) {
			CHECK(false);
			break;
		}
		parent = h;
	}
	CHECK_INT(free_as(mine, client, client), NV_OK);
	end();
}

int main(void)
{
	test_memory();
	test_cards();
	test_nodes();
	test_transfer();
	test_restart();
	test_faults();
	test_other_sizes();
	test_deep();
	return check_result();
}
