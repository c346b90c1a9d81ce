/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trial of a driver. open() and ioctl() of this program answer for the driver's nodes and files
 * out of the RM model, which a test changes before.
 */
#include "backend/nvidia/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/nvidia/park.h"
#include "backend/nvidia/rm_abi.h"
#include "check.h"
#include "softgpu/rm/rm.h"

static struct {
	struct rbt_rm *rm;
	struct rbt_rm_open *control;
	const char *version;  /* what the driver's file says */
	unsigned n_opens;     /* of the control node */
	uint32_t locked_gpus; /* whose nodes cannot be opened */
	uint32_t shift;       /* device numbers are off by so many against the nodes' */
	uint32_t lie_us;      /* more than the slice is read */
	bool leaks;           /* what is refused for its size is done all the same */
	int fail_at;          /* this ioctl fails with EIO, counted from 1; 0: none */
	bool is_free_failed;  /* it was one that frees */
} world;

static void begin(uint32_t n_gpus)
{
	struct rbt_rm_config config = {
		.driver_version = "999.10", .n_gpus = n_gpus, .memory_bytes = 1 << 30};

	rbt_rm_destroy(world.rm);
	memset(&world, 0, sizeof(world));
	world.rm = rbt_rm_create(&config);
	world.control = rbt_rm_open(world.rm, RBT_RM_NODE_CONTROL, 0, 1, getpid(), 0);
	world.version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  999.10  Mon\n";
}

static int file_with(const char *text)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	lseek(fd, 0, SEEK_SET);
	return fd;
}

int open(const char *path, int flags, ...)
{
	if (strcmp(path, NV_CTL_PATH) == 0) {
		world.n_opens++;
		return file_with("");
	}
	if (strncmp(path, "/dev/nvidia", 11) == 0) {
		if (world.locked_gpus >> atoi(path + 11) & 1) {
			errno = EACCES;
			return -1;
		}
		return file_with("");
	}
	if (strcmp(path, NV_VERSION_PATH) == 0) {
		return file_with(world.version);
	}
	if (strncmp(path, "/sys/module/nvidia", 18) == 0) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

static int copy_in(void *data, uint64_t addr, void *buf, size_t size)
{
	memcpy(buf, (const void *)(uintptr_t)addr, size);
	return 0;
}

static int copy_out(void *data, uint64_t addr, const void *buf, size_t size)
{
	memcpy((void *)(uintptr_t)addr, buf, size);
	return 0;
}

static int caller(void *data)
{
	return getpid();
}

static int call(unsigned long request, void *arg)
{
	static const struct rbt_rm_env env = {.read = copy_in, .write = copy_out, .pid = caller};
	uint64_t delay_us;
	int r = rbt_rm_ioctl(world.control, (uint32_t)request, (uintptr_t)arg, &env, &delay_us);

	errno = -r;
	return r < 0 ? -1 : 0;
}

static void renumber(struct nv_alloc21 *a)
{
	struct nv_device_params *p = (void *)(uintptr_t)a->params;
	uint32_t n = rbt_rm_config(world.rm)->n_gpus;

	if (p->device_id < n) {
		p->device_id = (p->device_id + world.shift) % n;
	}
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (world.fail_at > 0 && --world.fail_at == 0) {
		world.is_free_failed = request == NV_IOCTL_FREE;
		errno = EIO;
		return -1;
	}
	if (request == NV_IOCTL_ALLOC21 && ((struct nv_alloc21 *)arg)->hclass == NV_CLASS_DEVICE) {
		renumber(arg);
	}
	int r = call(request, arg);
	struct nv_control *c = request == NV_IOCTL_CONTROL ? arg : NULL;
	if (c != NULL && c->cmd == NV_CTRL_TSG_GET_TIMESLICE && c->status == NV_OK) {
		((struct nv_timeslice_params *)(uintptr_t)c->params)->timeslice_us += world.lie_us;
	}
	if (c != NULL && c->cmd == NV_CTRL_TSG_SET_TIMESLICE && c->status != NV_OK && world.leaks) {
		struct nv_control again = *c;
		again.params_size = sizeof(struct nv_timeslice_params);
		call(request, &again);
	}
	return r;
}

static void count(const struct rbt_rm_tsg_info *info, void *data)
{
	++*(unsigned *)data;
}

/* Tries; whatever comes of it, nothing is left. */
static struct rbt_trial tried(void)
{
	struct rbt_trial trial = {0};
	unsigned n_groups = 0;
	int before = dup(0), after;

	close(before);
	CHECK_INT(rbt_nv_try_out(&trial), 0);
	after = dup(0);
	close(after);
	CHECK_INT(after, before); /* no file is left open */
	rbt_rm_each_tsg(world.rm, count, &n_groups);
	CHECK(n_groups == 0 || world.is_free_failed);
	CHECK_INT(rbt_rm_log_lines(world.rm), 0);
	CHECK(trial.slices_text[0] != '\0' && trial.suspends_text[0] != '\0');
	CHECK(trial.slices || !trial.suspends);
	return trial;
}

static struct rbt_trial tried_with(struct rbt_rm_fault fault)
{
	begin(1);
	CHECK_INT(rbt_rm_add_fault(world.rm, &fault), 0);
	return tried();
}

static void check_refused(struct rbt_trial trial, const char *why)
{
	CHECK(!trial.slices && !trial.suspends && trial.is_final);
	if (strstr(trial.slices_text, why) == NULL) {
		fprintf(stderr, "\"%s\" is not in \"%s\"\n", why, trial.slices_text);
		CHECK(false);
	}
}

static void test_as_known(void)
{
	begin(1);
	struct rbt_trial trial = tried();
	CHECK(trial.slices && trial.suspends && trial.is_final);
	CHECK(strstr(trial.slices_text, "3000 us") != NULL);
	/* The nodes' numbers need not be the driver's. */
	for (uint32_t shift = 0; shift < 3; shift++) {
		begin(3);
		world.shift = shift;
		trial = tried();
		CHECK(trial.slices && trial.suspends);
	}
}

static void test_slices_are_not_understood(void)
{
	const uint32_t set = NV_CTRL_TSG_SET_TIMESLICE, get = NV_CTRL_TSG_GET_TIMESLICE;

	check_refused(tried_with((struct rbt_rm_fault){.cmd = set, .size = 16}), "be set");
	check_refused(tried_with((struct rbt_rm_fault){.cmd = set, .size = 12}), "be set");
	check_refused(tried_with((struct rbt_rm_fault){.cmd = get, .size = 16}), "be read");
	check_refused(tried_with((struct rbt_rm_fault){.cmd = set, .size = RBT_RM_ANY_SIZE}),
		"12 bytes in place of 8 were accepted");
	check_refused(
		tried_with((struct rbt_rm_fault){.cmd = set, .status = 0x1b, .has_status = 1}),
		"RM status 0x1b");
	begin(1);
	world.lie_us = 1;
	check_refused(tried(), "3001 us");
	begin(1);
	world.leaks = true;
	check_refused(tried(), "that was refused is in force");
}

static void test_suspends_are_not_understood(void)
{
	const struct rbt_rm_fault faults[] = {
		{.cmd = NV_CTRL_FIFO_DISABLE_CHANNELS, .size = 544},
		{.cmd = NV_CTRL_FIFO_DISABLE_CHANNELS, .size = 528},
		{.cmd = NV_CTRL_FIFO_DISABLE_CHANNELS, .size = RBT_RM_ANY_SIZE},
		{.cmd = NV_CTRL_FIFO_DISABLE_CHANNELS,
			.status = NV_ERR_NOT_SUPPORTED,
			.has_status = 1},
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct rbt_trial trial = tried_with(faults[i]);
		CHECK(trial.slices && !trial.suspends && trial.is_final);
	}
}

static void test_nothing_to_try_on(void)
{
	struct rbt_rm_fault no_groups = {
		.hclass = NV_CLASS_TSG, .status = NV_ERR_NOT_SUPPORTED, .has_status = 1};
	struct rbt_rm_fault no_memory = {
		.hclass = NV_CLASS_TSG, .status = NV_ERR_NO_MEMORY, .has_status = 1};

	check_refused(tried_with(no_groups), "channel group could not be made: RM status 0x56");
	CHECK(!tried_with(no_memory).is_final);
	/* One engine will not do, another will. */
	no_groups.count = 1;
	CHECK(tried_with(no_groups).suspends);
	no_groups.count = 2;
	CHECK(tried_with(no_groups).suspends);
	begin(2);
	world.locked_gpus = 3;
	check_refused(tried(), "/dev/nvidia1: Permission denied");
	begin(2);
	world.locked_gpus = 1;
	CHECK(tried().suspends);
}

/* Wherever the driver fails, the answer is no or a repair, and nothing is left. */
static void test_failing_at_every_call(void)
{
	int i = 1;

	for (;; i++) {
		begin(1);
		world.fail_at = i;
		struct rbt_trial trial = tried();
		if (world.fail_at > 0) {
			CHECK(trial.suspends);
			break; /* it was not reached */
		}
		/* Devices and groups have second chances, and what is freed is not asked. */
		CHECK(!trial.slices || i >= 3);
	}
	CHECK(i > 15);
}

/* The verdict is a process's: each of these has one of its own. */
static void in_child(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		fn();
		_exit(check_failures > 0 ? 1 : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void known_is_not_tried(void)
{
	begin(1);
	world.version = "580.159.04\n";
	CHECK_INT(rbt_nv_check_driver(), 0);
	CHECK_INT(rbt_nv_may_write(RBT_CAP_TIMESLICE, false), 0);
	CHECK_INT(rbt_nv_may_write(RBT_CAP_SUSPEND, false), 0);
	CHECK_INT(world.n_opens, 0);
}

static void unknown_is_tried_once(void)
{
	begin(1);
	CHECK_INT(rbt_nv_check_driver(), -EPROTONOSUPPORT);
	CHECK_INT(rbt_nv_may_write(RBT_CAP_SUSPEND, true), 0);
	CHECK_INT(world.n_opens, 0); /* forced: nobody asks */
	for (int i = 0; i < 3; i++) {
		CHECK_INT(rbt_nv_may_write(RBT_CAP_TIMESLICE, false), 0);
		CHECK_INT(rbt_nv_may_write(RBT_CAP_SUSPEND, false), 0);
	}
	CHECK_INT(world.n_opens, 1);
}

static void failure_is_that_drivers(void)
{
	struct rbt_rm_fault fault = {.cmd = NV_CTRL_TSG_SET_TIMESLICE, .size = 16};
	char why[96];

	begin(1);
	rbt_rm_add_fault(world.rm, &fault);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(rbt_nv_may_write(RBT_CAP_TIMESLICE, false), -EPROTONOSUPPORT);
		CHECK_INT(rbt_nv_may_write(RBT_CAP_SUSPEND, false), -EPROTONOSUPPORT);
		CHECK_INT(rbt_nv_may_write(RBT_CAP_TIMESLICE, true), 0);
		CHECK_INT(rbt_nv_may_write(RBT_CAP_SUSPEND, true), 0);
	}
	CHECK_INT(world.n_opens, 1);
	rbt_nv_why_not(RBT_CAP_SUSPEND, why, sizeof(why));
	CHECK(strstr(why, "999.10") != NULL && strstr(why, "timeslices") != NULL);
	/* Another driver was loaded meanwhile. */
	rbt_rm_clear_faults(world.rm);
	world.version = "999.20\n";
	CHECK_INT(rbt_nv_may_write(RBT_CAP_TIMESLICE, false), 0);
	CHECK_INT(world.n_opens, 2);
}

static void a_driver_is_replaced(void)
{
	struct rbt_rm_fault fault = {.cmd = NV_CTRL_TSG_SET_TIMESLICE, .size = 16};

	begin(1);
	world.version = "580.159.04\n";
	CHECK_INT(rbt_nv_may_write(RBT_CAP_TIMESLICE, false), 0);
	rbt_rm_add_fault(world.rm, &fault);
	world.version = "999.10\n";
	usleep(1100000);
	CHECK_INT(rbt_nv_may_write(RBT_CAP_TIMESLICE, false), -EPROTONOSUPPORT);
	rbt_rm_clear_faults(world.rm);
	world.version = "999.20\n";
	CHECK_INT(rbt_nv_may_write(RBT_CAP_SUSPEND, false), 0);
	/* What cannot be asked now is as it was. */
	world.version = "";
	usleep(1100000);
	CHECK_INT(rbt_nv_may_write(RBT_CAP_SUSPEND, false), 0);
	CHECK_INT(world.n_opens, 2);
}

static void slices_alone(void)
{
	struct rbt_rm_fault fault = {.cmd = NV_CTRL_FIFO_DISABLE_CHANNELS, .size = 544};
	char why[96];

	begin(1);
	rbt_rm_add_fault(world.rm, &fault);
	CHECK_INT(rbt_nv_may_write(RBT_CAP_SUSPEND, false), -EPROTONOSUPPORT);
	CHECK_INT(rbt_nv_may_write(RBT_CAP_TIMESLICE, false), 0);
	CHECK_INT(rbt_nv_may_write(RBT_CAP_SUSPEND, true), 0);
	CHECK_INT(world.n_opens, 1);
	rbt_nv_why_not(RBT_CAP_SUSPEND, why, sizeof(why));
	CHECK(strstr(why, "suspends") != NULL);
}

/* The free memory of a GPU, found by its node although RM counts devices otherwise. */
static void test_free_memory(void)
{
	struct rbt_rm_fault fault = {.cmd = NV_CTRL_FB_GET_INFO, .size = 24};
	uint64_t bytes = 0;

	begin(3);
	world.shift = 1;
	CHECK_INT(rbt_nv_free_memory(2, &bytes), 0);
	CHECK_INT(bytes, 1 << 30);
	CHECK_INT(rbt_nv_free_memory(7, &bytes), -ENODEV);
	rbt_rm_add_fault(world.rm, &fault); /* another layout */
	CHECK(rbt_nv_free_memory(0, &bytes) < 0);
	begin(1);
	world.locked_gpus = 1;
	CHECK_INT(rbt_nv_free_memory(0, &bytes), -EACCES);
}

int main(void)
{
	test_free_memory();
	test_as_known();
	test_slices_are_not_understood();
	test_suspends_are_not_understood();
	test_nothing_to_try_on();
	test_failing_at_every_call();
	in_child(known_is_not_tried);
	in_child(unknown_is_tried_once);
	in_child(failure_is_that_drivers);
	in_child(a_driver_is_replaced);
	in_child(slices_alone);
	rbt_rm_destroy(world.rm);
	return check_result();
}
