/* SPDX-License-Identifier: Apache-2.0 */
/* Attach: clients found in a program's memory with few questions, objects classified, races
 * survived. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/nvidia/rm_abi.h"
#include "check.h"
#include "test_nvidia_world.h"
#include "util/proc.h"
#include "util/time.h"

static struct rbt_record *records;
static size_t n_records;

static size_t open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(dir) != NULL) {
		n++;
	}
	closedir(dir);
	return n;
}

static int discover(pid_t pid)
{
	int pidfd = rbt_pidfd_open(pid);

	n_records = 0;
	int r = rbt_backend_nvidia.discover(pid, pidfd, &records, &n_records);
	close(pidfd);
	return r;
}

static void drop_records(void)
{
	for (size_t i = 0; i < n_records; i++) {
		rbt_record_finish(&records[i]);
	}
	free(records);
	records = NULL;
	n_records = 0;
}

/* A program with one context, its client planted as the word says, whose HANDLE is empty. Returns
 * its pid. */
static pid_t start_program(uint32_t first_client, const char *word, const char *const *decoys)
{
	static char text[64];
	const char *words[24] = {text};

	world_reset(first_client);
	int fd = world_open();
	uint32_t client = world_client(fd);
	world_context(fd, client, 0, 0x5c000001);
	const char *comma = strchr(word, ',');
	snprintf(text, sizeof(text), "%.*s,%x%s", (int)(comma - word), word, client, comma + 1);
	for (size_t i = 0; decoys != NULL && decoys[i] != NULL && i < 22; i++) {
		words[i + 1] = decoys[i];
	}
	return world_start(&fd, 1, words);
}

static void check_context(const struct rbt_record *rec, uint32_t gpu)
{
	CHECK_INT(rbt_record_check(rec), 0);
	CHECK_INT(rec->n_tasks, WORLD_CONTEXT_TASKS);
	CHECK_INT(rec->n_channels, WORLD_CONTEXT_CHANNELS);
	for (uint32_t t = 0; t < rec->n_tasks; t++) {
		const struct rbt_task *task = &rec->tasks[t];
		CHECK_INT(task->kind, t == 0 ? RBT_TASK_COMPUTE : RBT_TASK_COPY);
		CHECK_INT(task->n_channels, t == 0 ? 8 : 4);
		CHECK_INT(task->gpu, gpu);
		CHECK_INT(task->valid, RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_ID | RBT_TASK_HAS_GPU |
					       RBT_TASK_HAS_OWN_TIMESLICE);
		CHECK_INT(task->own_timeslice_us, t == 0 ? 2048 : 1024);
		CHECK(t == 0 ? task->runlist == 0 : task->runlist != 0);
	}
}

static void test_plain(void)
{
	size_t before = open_fds();
	pid_t pid = start_program(0x10, "data,,3,5c000002", NULL);

	CHECK_INT(discover(pid), 0);
	CHECK_INT(n_records, 1);
	CHECK_INT(records[0].client, 0xc1d00010);
	CHECK_INT(records[0].target_fd, WORLD_FIRST_FD);
	CHECK_INT(records[0].tasks[0].subdevice, 0x5c000002);
	CHECK(rbt_same_file(getpid(), records[0].fd, pid, WORLD_FIRST_FD) == 1);
	check_context(&records[0], 0);
	CHECK_INT(world_log_lines(), 0);
	CHECK_INT(open_fds(), before + 2); /* the record's, and the target's pipe */
	drop_records();
	world_stop(pid);
}

/* A server that has been up for months, and a program full of floats that look like handles. */
static void test_decoys(void)
{
	static const char *const decoys[] = {"data,c1d00000,900,0", "data,c1d40000,800,0",
		"heap,c1d80000,20000,0", "heap,c1d12345,20000,0", "data,c1dc0000,700,5cabcdef",
		NULL};
	pid_t pid = start_program(0xf4240, "heap,,2,5c000001", decoys);

	CHECK_INT(discover(pid), 0);
	CHECK_INT(n_records, 1);
	CHECK_INT(records[0].client, 0xc1df4240);
	CHECK_INT(world_log_lines(), 0);
	drop_records();
	world_stop(pid);
}

/* Only in a large anonymous mapping, behind stale clients in good company. */
static void test_far_away(void)
{
	static const char *const decoys[] = {
		"data,c1d00003,9,5c000001", "heap,c1d00004,9,5c000001", NULL};
	pid_t pid = start_program(0x100, "big,,1,5c000001", decoys);

	CHECK_INT(discover(pid), 0);
	CHECK_INT(records[0].client, 0xc1d00100);
	CHECK_INT(world_log_lines(), 2);
	drop_records();
	world_stop(pid);
}

/* Without company the most frequent are tried, and not for ever. */
static void test_bounded_questions(void)
{
	static const char *const few[] = {"data,c1d00001,50,0", "data,c1d00002,40,0", NULL};
	static const char *const many[] = {"data,c1d00001,50,0", "data,c1d00002,50,0",
		"data,c1d00003,50,0", "data,c1d00004,50,0", "data,c1d00005,50,0",
		"data,c1d00006,50,0", "data,c1d00007,50,0", "data,c1d00008,50,0",
		"data,c1d00009,50,0", NULL};
	pid_t pid = start_program(0x100, "data,,9,0", few);

	CHECK_INT(discover(pid), 0);
	CHECK_INT(world_log_lines(), 2);
	drop_records();
	world_stop(pid);

	pid = start_program(0x100, "data,,9,0", many);
	CHECK_INT(discover(pid), -ENXIO);
	CHECK_INT(world_log_lines(), 8);
	world_stop(pid);
}

/* A file without a client and a copy of it, before the one that has it; two contexts, one with high
 * handles. */
static void test_files_and_contexts(void)
{
	static const char *const words[] = {"data,c1d00020,40,5c000001", "heap,c1d00020,1,5c0abc02",
		NULL}; /* one group of the second: the rest is around it */
	uint32_t second = 0x5c0abc00;
	world_reset(0x20);
	int fds[3] = {world_open(), -1, world_open()};
	fds[1] = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	uint32_t client = world_client(fds[2]);
	world_context(fds[2], client, 0, 0x5c000001);
	world_context(fds[2], client, 1, second);
	pid_t pid = world_start(fds, 3, words);
	CHECK_INT(discover(pid), 0);
	CHECK_INT(n_records, 1);
	CHECK_INT(records[0].target_fd, WORLD_FIRST_FD + 2);
	CHECK_INT(records[0].n_tasks, 2 * WORLD_CONTEXT_TASKS);
	CHECK_INT(records[0].n_channels, 2 * WORLD_CONTEXT_CHANNELS);
	for (uint32_t t = 0; t < records[0].n_tasks; t++) {
		CHECK_INT(records[0].tasks[t].gpu, records[0].tasks[t].handle >= second);
	}
	CHECK_INT(world_log_lines(), 1); /* the copy was not asked */
	drop_records();
	world_stop(pid);
}

/* What a scheduler that died left behind is not the program's own choice. */
static void test_left_over_slice(uint64_t us)
{
	struct nv_timeslice_params left = {.timeslice_us = us};

	world_reset(0x10);
	int fd = world_open();
	uint32_t client = world_client(fd);
	world_context(fd, client, 1, 0x5c000001);
	world_control(fd, client, 0x5c000003, NV_CTRL_TSG_SET_TIMESLICE, &left, sizeof(left));
	pid_t pid = world_start(&fd, 1, (const char *const[]){"data,c1d00010,3,5c000001", NULL});
	CHECK_INT(discover(pid), 0);
	check_context(&records[0], 1);
	drop_records();
	world_stop(pid);
}

/* Nor is a copy task's, even of a length that libcuda might choose for kernels. */
static void test_left_over_copy_slice(uint64_t us)
{
	struct nv_timeslice_params left = {.timeslice_us = us};

	world_reset(0x10);
	int fd = world_open();
	uint32_t client = world_client(fd);
	world_context(fd, client, 1, 0x5c000001);
	pid_t pid = world_start(&fd, 1, (const char *const[]){"data,c1d00010,3,5c000001", NULL});
	CHECK_INT(discover(pid), 0);
	CHECK_INT(records[0].tasks[2].kind, RBT_TASK_COPY);
	world_control(records[0].fd, client, records[0].tasks[2].handle, NV_CTRL_TSG_SET_TIMESLICE,
		&left, sizeof(left));
	drop_records();
	CHECK_INT(discover(pid), 0);
	check_context(&records[0], 1);
	drop_records();
	world_stop(pid);
}

static int setup_fd;

static void set_slice(void *us)
{
	struct nv_timeslice_params slice = {.timeslice_us = *(uint64_t *)us};

	world_control(
		setup_fd, 0xc1d00010, 0x5c000003, NV_CTRL_TSG_SET_TIMESLICE, &slice, sizeof(slice));
}

static int look(const void *data, struct rbt_record **ret, size_t *ret_n)
{
	int r = discover(*(const pid_t *)data);

	*ret = records;
	*ret_n = n_records;
	return r;
}

/* Before libcuda has set the slice, its task is new: who will act on it waits, and no longer than
 * makes sense. */
static void test_setup(void)
{
	uint64_t driver_us = 1024, own_us = 2048;

	world_reset(0x10);
	int fd = world_open();
	world_context(fd, world_client(fd), 1, 0x5c000001);
	setup_fd = dup(fd);
	set_slice(&driver_us);
	pid_t pid = world_start(&fd, 1, (const char *const[]){"data,c1d00010,3,5c000001", NULL});
	CHECK_INT(discover(pid), 0);
	CHECK(rbt_record_is_new(&records[0]));
	drop_records();

	uint64_t began_ns = rbt_now_ns();
	CHECK_INT(rbt_discover_set_up(look, &pid, &records, &n_records), 0);
	CHECK(rbt_now_ns() - began_ns >= RBT_NS_PER_S);
	CHECK(!rbt_record_is_new(&records[0]));
	CHECK_INT(records[0].tasks[0].own_timeslice_us, 1024);
	drop_records();

	began_ns = rbt_now_ns();
	world_before_ioctl(1000, set_slice, &own_us);
	CHECK_INT(rbt_discover_set_up(look, &pid, &records, &n_records), 0);
	CHECK(rbt_now_ns() - began_ns < RBT_NS_PER_S);
	check_context(&records[0], 1);
	drop_records();
	close(setup_fd);
	world_stop(pid);
}

static void test_nothing_to_find(void)
{
	world_reset(0x10);
	int fd = world_open();
	uint32_t client = world_client(fd); /* without tasks */
	CHECK_INT(client, 0xc1d00010);
	pid_t pid = world_start(&fd, 1, (const char *const[]){"data,c1d00010,3,5c000001", NULL});
	CHECK_INT(discover(pid), -ENXIO);
	world_stop(pid);

	fd = world_open(); /* without a client */
	pid = world_start(&fd, 1, NULL);
	CHECK_INT(discover(pid), -ENXIO);
	world_stop(pid);

	pid = world_start(NULL, 0, NULL); /* without the device */
	CHECK_INT(discover(pid), -ENXIO);
	world_stop(pid);
	CHECK_INT(world_log_lines(), 0);
}

/* A worker forked by the program holds its files and handles, but the tasks are the program's. */
static void test_forked_worker(void)
{
	pid_t pid = start_program(0x10, "data,,3,5c000001", NULL);
	pid_t worker = world_fork_worker(pid);

	CHECK(worker > 0 && worker != pid);
	CHECK_INT(discover(worker), -ENXIO);
	CHECK_INT(discover(pid), 0);
	drop_records();
	world_stop(pid);
}

static void kill_target(void *data)
{
	siginfo_t info;

	kill(*(pid_t *)data, SIGKILL);
	waitid(P_PID, (id_t) * (pid_t *)data, &info, WEXITED | WNOWAIT);
}

static void exec_target(void *data)
{
	char command[64] = "";

	kill(*(pid_t *)data, SIGUSR1);
	for (int i = 0; i < 1000 && strncmp(command, "sleep", 5) != 0; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
		rbt_proc_command(*(pid_t *)data, command, sizeof(command));
	}
}

/* The target goes away before the first, a middle and a late ioctl. */
static void test_races(void (*fn)(void *data), int expected)
{
	static const unsigned when[] = {1, 2, 4, 5, 30, 500, 1080};

	for (size_t i = 0; i < sizeof(when) / sizeof(when[0]); i++) {
		pid_t pid = start_program(0x10, "data,,3,5c000001", NULL);
		size_t before = open_fds();
		world_before_ioctl(when[i], fn, &pid);
		int r = discover(pid);
		CHECK_INT(r, expected);
		if (r == 0) {
			drop_records();
		}
		CHECK_INT(open_fds(), before);
		world_stop(pid);
	}
}

static void test_driver_fails(void)
{
	pid_t pid = start_program(0x10, "data,,3,5c000001", NULL);
	int pidfd = rbt_pidfd_open(pid);

	/* Another process's pidfd. */
	CHECK_INT(rbt_backend_nvidia.discover(getpid(), pidfd, &records, &n_records), -ESRCH);
	close(pidfd);
	world_stop(pid);
}

/* What a program says of its tasks is asked for: invented ones are left out, the GPU is RM's. */
static void test_complete(void)
{
	pid_t pid = start_program(7, "data,,3,5c000005", NULL);

	CHECK_INT(discover(pid), 0);
	struct rbt_record *rec = &records[0];
	uint32_t compute = rec->tasks[0].handle, subdevice = rec->tasks[0].subdevice;
	rec->tasks[0].gpu = 31;
	rec->tasks[0].id ^= 1;
	/* Longer and shorter than any driver's: "back to normal" must not set these. */
	rec->tasks[0].own_timeslice_us = 3000000;
	rec->tasks[1].own_timeslice_us = 1;
	rec->tasks[2].handle = 0x5c00ffff; /* nothing */
	rec->tasks[3].handle = subdevice;  /* something else */
	CHECK_INT(rbt_backend_nvidia.complete(rec, pid), 0);
	CHECK_INT(rec->n_tasks, 2);
	CHECK_INT(rec->tasks[0].handle, compute);
	CHECK_INT(rec->tasks[0].gpu, 0);
	CHECK_INT(rec->tasks[0].own_timeslice_us, NV_DEFAULT_COMPUTE_TIMESLICE_US);
	CHECK_INT(rec->tasks[1].own_timeslice_us, NV_DEFAULT_TIMESLICE_US);
	CHECK_INT(rec->flags, 0);
	/* Twice the same is one. */
	rec->tasks[1] = rec->tasks[0];
	CHECK_INT(rbt_backend_nvidia.complete(rec, pid), 0);
	CHECK_INT(rec->n_tasks, 1);
	/* On one of two GPUs, and nobody knows which: it exists, but it is left out. */
	rec->tasks[0].subdevice = compute;
	CHECK_INT(rbt_backend_nvidia.complete(rec, pid), 0);
	CHECK_INT(rec->n_tasks, 0);
	CHECK_INT(rec->flags, RBT_RECORD_PARTIAL);
	/* Another's client: one line in the kernel log, however many tasks. */
	rec->n_tasks = 4;
	rec->client++;
	uint64_t lines = world_log_lines();
	CHECK_INT(rbt_backend_nvidia.complete(rec, pid), 0);
	CHECK_INT(rec->n_tasks, 0);
	CHECK_INT(world_log_lines(), lines + 1);
	CHECK_INT(rec->flags, 0); /* nor is anything left out */
	drop_records();
	world_stop(pid);
}

int main(int argc, char **argv)
{
	world_target(argc, argv);
	test_plain();
	test_decoys();
	test_far_away();
	test_bounded_questions();
	test_files_and_contexts();
	test_left_over_slice(1);
	test_left_over_slice(10000);
	test_left_over_copy_slice(1);
	test_left_over_copy_slice(1000);
	test_setup();
	test_nothing_to_find();
	test_forked_worker();
	test_races(kill_target, -ESRCH);
	test_races(exec_target, -ENXIO);
	test_driver_fails();
	test_complete();
	world_finish();
	return check_result();
}
