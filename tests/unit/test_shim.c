/* SPDX-License-Identifier: Apache-2.0 */
/* What the shim learns from a program's ioctls, and what it must leave alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test_shim_world.h"

static void asleep_without_a_word(void)
{
	world_start(NULL, NULL, "1");
	make_client(CLIENT, 0);
	CHECK(shim_peek() == NULL);
	CHECK(world.n_calls == 3);
}

/* Of version 0.1.0, whose variables other programs may have set. */
static void asleep_with_nonsense(void)
{
	world_start(NULL, NULL, "1");
	setenv("RUBATO_PRIORITY", "16", 1);
	make_client(CLIENT, 0);
	CHECK(shim_peek() == NULL);
}

static void reads_the_old_environment(void)
{
	world_start(NULL, NULL, "1");
	setenv("RUBATO_PRIORITY", "3", 1);
	make_client(CLIENT, 0);
	CHECK(shim_config.active && shim_config.treat.priority == 3);
}

static void reads_the_environment(void)
{
	world_start("3", "/nowhere", "0");
	setenv("RUBATO_TREAT_TIMESLICE_US", "70", 1);
	setenv("RUBATO_TREAT_FORCE", "1", 1);
	make_client(CLIENT, 0);
	CHECK(shim_config.active && !shim_config.no_daemon && shim_config.treat.force == 1);
	CHECK(shim_config.treat.priority == 3 && shim_config.ignored[0] == '\0');
	CHECK(shim_config.treat.timeslice_us == 70 && shim_config.wanted_us == 70);
	CHECK(strcmp(shim_config.socket, "/nowhere") == 0);
}

static void ignores_a_bad_timeslice(void)
{
	world_start("3", NULL, "1");
	setenv("RUBATO_TREAT_TIMESLICE_US", "1000000000000", 1);
	make_client(CLIENT, 0);
	CHECK(shim_config.treat.timeslice_us == 0 && shim_config.wanted_us == 50);
}

static void keeps_the_tree(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 2);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_COPY0 + 2);
	struct shim *s = table();
	CHECK(known(CLIENT, CLIENT, SHIM_CLIENT) && known(CLIENT, DEVICE, SHIM_DEVICE));
	CHECK(known(CLIENT, SUBDEVICE, SHIM_SUBDEVICE) && known(CLIENT, TSG(1) + 2, SHIM_CHANNEL));
	struct shim_obj *t = shim_find_type(s, CLIENT, TSG(0), SHIM_TASK);
	CHECK(t != NULL && t->t.kind == RBT_TASK_COMPUTE && t->t.scheduled);
	CHECK(t->t.own_us == 2048 && t->t.runlist == 0);
	CHECK(t->t.creator_tid == (uint32_t)gettid());
	CHECK(t->t.id == (TSG(0) & 0xffff));
	uint32_t gpu = 99;
	CHECK(shim_gpu_of(s, t, &gpu) && gpu == 2);
	t = shim_find_type(s, CLIENT, TSG(1), SHIM_TASK);
	CHECK(t->t.kind == RBT_TASK_COPY && t->t.own_us == 1024 && t->t.runlist == 10);
	/* Once a GPU, once a task. */
	rm_schedule(CLIENT, TSG(0), false);
	rm_schedule(CLIENT, TSG(0), true);
	CHECK(world.n_gpu_id == 1 && world.n_card_info == 1 && world.n_tsg_info == 2);
	CHECK(!s->lossy && world.n_writes == 0);
}

/* Nobody sets the slices of copy tasks, so the driver is asked; once. */
static void asks_for_the_slices_of_copy_tasks(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 2);
	world.default_us = 3000;
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_COPY0);
	const struct shim_task *compute = &shim_find(table(), CLIENT, TSG(0))->t;
	const struct shim_task *copy = &shim_find(table(), CLIENT, TSG(1))->t;
	CHECK(compute->own_us == 2048 && copy->own_us == 3000);
	CHECK((copy->valid & RBT_TASK_HAS_OWN_TIMESLICE) != 0);
	world.default_us = 1;
	rm_schedule(CLIENT, TSG(1), false);
	rm_schedule(CLIENT, TSG(1), true);
	CHECK(copy->own_us == 3000);
	/* What the driver does not say is not known. */
	world.default_us = 0;
	make_task(CLIENT, TSG(2), NV_ENGINE_TYPE_COPY0);
	copy = &shim_find(table(), CLIENT, TSG(2))->t;
	CHECK((copy->valid & RBT_TASK_HAS_OWN_TIMESLICE) == 0);
	CHECK(world.n_writes == 0);
}

static void older_allocation_form(void)
{
	struct nv_tsg_params p = {.engine_type = NV_ENGINE_TYPE_GRAPHICS};
	struct nv_alloc21 a = {.root = CLIENT,
		.parent = DEVICE,
		.object = TSG(0),
		.hclass = NV_CLASS_TSG,
		.params = (uintptr_t)&p};

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_ALLOC21, &a) == 0);
	struct shim_obj *t = shim_find_type(table(), CLIENT, TSG(0), SHIM_TASK);
	CHECK(t != NULL && t->t.kind == RBT_TASK_COMPUTE);
}

static void transferred_call(void)
{
	struct nv_alloc64 a = {
		.root = CLIENT, .parent = DEVICE, .object = TSG(0), .hclass = NV_CLASS_TSG};
	struct {
		uint32_t cmd, size;
		uint64_t ptr;
	} x = {NV_ESC_RM_ALLOC, sizeof(a), (uintptr_t)&a};
	unsigned long request = _IOWR(NV_IOCTL_TYPE, NV_ESC_IOCTL_XFER_CMD, x);

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	CHECK(rbt_shim_call(world.device_fd, request, &x) == 0);
	CHECK(known(CLIENT, TSG(0), SHIM_TASK));
	/* Another size is another call. */
	x.size = 40;
	a.object = TSG(1);
	CHECK(rbt_shim_call(world.device_fd, request, &x) == 0);
	CHECK(!known(CLIENT, TSG(1), SHIM_TASK));
}

static void engine_named_later(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	rm_alloc(CLIENT, DEVICE, TSG(0), NV_CLASS_TSG);
	rm_alloc(CLIENT, TSG(0), TSG(0) + 1, NV_CLASS_CHANNEL_HOPPER);
	CHECK(shim_find(table(), CLIENT, TSG(0))->t.kind == RBT_TASK_OTHER);
	rm_alloc(CLIENT, TSG(0) + 1, TSG(0) + 2, NV_CLASS_COMPUTE_HOPPER);
	CHECK(shim_find(table(), CLIENT, TSG(0))->t.kind == RBT_TASK_COMPUTE);
	rm_alloc(CLIENT, TSG(0) + 1, TSG(0) + 3, NV_CLASS_COPY_HOPPER);
	CHECK(shim_find(table(), CLIENT, TSG(0))->t.kind == RBT_TASK_COMPUTE);
}

static void runlist_only_where_tokens_have_it(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	rm_alloc(CLIENT, TSG(0), TSG(0) + 1, 0xc36f);
	rm_token(CLIENT, TSG(0) + 1, 5 << 16 | 7);
	CHECK(!(shim_find(table(), CLIENT, TSG(0))->t.valid & RBT_TASK_HAS_RUNLIST));
}

static void refused_calls_teach_nothing(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	world.fail_status = NV_ERR_NO_MEMORY;
	CHECK(rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS) == NV_ERR_NO_MEMORY);
	CHECK(!known(CLIENT, TSG(0), SHIM_TASK));
	CHECK(rm_free(CLIENT, DEVICE) == NV_ERR_NO_MEMORY);
	CHECK(known(CLIENT, DEVICE, SHIM_DEVICE));
}

static void errno_is_the_drivers(void)
{
	struct nv_free f = {.client = CLIENT, .object = 0x5c00beef};

	world_start("2", "", NULL);
	make_client(CLIENT, 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	world.fail_errno = EINTR;
	errno = 0;
	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_FREE, &f) == -1 && errno == EINTR);
	world.fail_errno = 0;
	/* There is no daemon: the shim's own call fails, the program's does not. */
	world.clock_ns += SHIM_LOOK_NS + 1;
	uint64_t next_connect_ns = table()->next_connect_ns;
	errno = ENOTTY;
	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_FREE, &f) == 0 && errno == ENOTTY);
	CHECK(table()->next_connect_ns > next_connect_ns);
}

static void arguments_are_untouched(void)
{
	struct nv_timeslice_params p = {.timeslice_us = 2048};
	struct nv_control c = {.client = CLIENT,
		.object = TSG(0),
		.cmd = NV_CTRL_TSG_SET_TIMESLICE,
		.flags = 7,
		.params = (uintptr_t)&p,
		.params_size = sizeof(p)};
	struct nv_control before = c;

	world_start("2", NULL, "1");
	make_client(CLIENT, 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_CONTROL, &c) == 0);
	CHECK(memcmp(&c, &before, sizeof(c)) == 0 && p.timeslice_us == 2048);
}

static void freeing_takes_what_is_below(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_COPY0);
	CHECK(count_objects() == 9);
	rm_free(CLIENT, TSG(0) + 1);
	CHECK(count_objects() == 8 && known(CLIENT, TSG(0), SHIM_TASK));
	rm_free(CLIENT, TSG(0));
	CHECK(count_objects() == 6 && !known(CLIENT, TSG(0) + 2, SHIM_CHANNEL));
	rm_free(CLIENT, 0x5cffffff);
	rm_free(0xc1d0ffff, DEVICE);
	CHECK(count_objects() == 6);
	rm_free(CLIENT, DEVICE);
	CHECK(count_objects() == 1);
	make_client(0xc1d00009, 1);
	make_client(CLIENT, 0);
	rm_free(CLIENT, CLIENT);
	CHECK(count_objects() == 3 && known(0xc1d00009, SUBDEVICE, SHIM_SUBDEVICE));
}

static void strangers_are_ignored(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	rm_alloc_tsg(0xc1d00077, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	rm_alloc_tsg(CLIENT, 0x5c00dead, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	rm_alloc(CLIENT, DEVICE, TSG(0), NV_CLASS_CHANNEL_HOPPER);
	/* An object cannot take its client's name, nor its parent's. */
	rm_alloc(CLIENT, CLIENT, CLIENT, NV_CLASS_DEVICE);
	rm_alloc(CLIENT, DEVICE, DEVICE, NV_CLASS_SUBDEVICE);
	CHECK(count_objects() == 3);
}

static void alloc_again(unsigned long request, void *arg)
{
	if (request == NV_IOCTL_FREE) {
		world.during_call = NULL;
		rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	}
}

static void free_spares_a_newer_object_of_that_name(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	/* As another thread, which gets the handle between the driver's free and our learning of
	 * it. */
	world.during_call = alloc_again;
	rm_free(CLIENT, TSG(0));
	CHECK(known(CLIENT, TSG(0), SHIM_TASK));
	CHECK(!shim_find(table(), CLIENT, TSG(0))->t.scheduled);
}

static void file_under_another_number(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	int copy = dup(world.device_fd);
	close(world.device_fd);
	world.device_fd = copy;
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(shim_fd_get(&shim_find(table(), CLIENT, CLIENT)->c.file) == copy);
}

static void closed_files_take_their_clients(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	int old = world.device_fd;
	world.device_fd = memfd_create("nvidiactl", 0);
	close(old);
	make_client(0xc1d00002, 0);
	CHECK(count_objects() == 3 && !known(CLIENT, CLIENT, SHIM_CLIENT));
}

static void full_table_fails_open(void)
{
	world_start("2", NULL, "1");
	make_client(CLIENT, 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(last_write(TSG(0)) == SHORT_US);
	for (uint32_t i = 0; i < SHIM_MAX_OBJS + 10; i++) {
		CHECK(rm_alloc(CLIENT, TSG(0), 0x5d000000 + i, NV_CLASS_CHANNEL_HOPPER) == 0);
	}
	CHECK(count_objects() == SHIM_MAX_OBJS && table()->lossy);
	/* What is not known of might be a second task: no short slices any more. */
	CHECK(last_write(TSG(0)) == 2048);
	rm_free(CLIENT, TSG(0));
	CHECK(count_objects() == 3);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(known(CLIENT, TSG(1), SHIM_TASK) && last_write(TSG(1)) == 0);
	rm_free(CLIENT, CLIENT);
	CHECK(count_objects() == 0);
}

/* Framebuffers and others have calls of type 'F', some with arguments that are no pointers. */
static void other_devices_are_not_believed(void)
{
	int other = memfd_create("framebuffer", MFD_CLOEXEC);
	struct nv_alloc64 a = {.object = 0xc1d00077, .hclass = NV_CLASS_ROOT_CLIENT};
	struct nv_control c = {.client = CLIENT,
		.object = TSG(0),
		.cmd = NV_CTRL_TSG_SET_TIMESLICE,
		.params = 1,
		.params_size = sizeof(struct nv_timeslice_params)};
	struct nv_free f = {.client = CLIENT, .object = TSG(0)};
	uint64_t x[2] = {NV_ESC_RM_ALLOC | (uint64_t)sizeof(a) << 32, 1};

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	unsigned before = count_objects();
	CHECK(rbt_shim_call(other, NV_IOCTL_ALLOC64, &a) == 0);
	c.status = NV_OK;
	CHECK(rbt_shim_call(other, NV_IOCTL_FREE, &f) == 0);
	world.foreign = true; /* as our fake driver would follow the pointers */
	CHECK(rbt_shim_call(other, NV_IOCTL_CONTROL, &c) == 0);
	CHECK(rbt_shim_call(other, _IOWR(NV_IOCTL_TYPE, NV_ESC_IOCTL_XFER_CMD, x), x) == 0);
	for (unsigned nr = 0; nr < 256; nr++) {
		CHECK(rbt_shim_call(other, _IOC(0, NV_IOCTL_TYPE, nr, 0), (void *)1) == 0);
		CHECK(rbt_shim_call(other, _IOC(0, NV_IOCTL_TYPE, nr, 32), (void *)1) == 0);
		CHECK(rbt_shim_call(other, _IOC(_IOC_READ | _IOC_WRITE, NV_IOCTL_TYPE, nr, 32),
			      NULL) == 0);
	}
	CHECK(count_objects() == before);
	CHECK(shim_find(table(), CLIENT, TSG(0))->t.own_us == NV_DEFAULT_COMPUTE_TIMESLICE_US);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(asleep_without_a_word),
		TEST(asleep_with_nonsense),
		TEST(reads_the_old_environment),
		TEST(reads_the_environment),
		TEST(ignores_a_bad_timeslice),
		TEST(keeps_the_tree),
		TEST(asks_for_the_slices_of_copy_tasks),
		TEST(older_allocation_form),
		TEST(transferred_call),
		TEST(engine_named_later),
		TEST(runlist_only_where_tokens_have_it),
		TEST(refused_calls_teach_nothing),
		TEST(errno_is_the_drivers),
		TEST(arguments_are_untouched),
		TEST(freeing_takes_what_is_below),
		TEST(strangers_are_ignored),
		TEST(free_spares_a_newer_object_of_that_name),
		TEST(file_under_another_number),
		TEST(closed_files_take_their_clients),
		TEST(full_table_fails_open),
		TEST(other_devices_are_not_believed),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
