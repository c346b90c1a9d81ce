/* SPDX-License-Identifier: Apache-2.0 */
/* What the shim does alone: the rule that prevents collapse. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test_shim_world.h"
#include "util/fd.h"

static int stderr_pipe = -1;
static int real_stderr = -1;

/* What the shim says goes to a pipe; checks still speak to the terminal through printed lines. */
static void catch_stderr(void)
{
	int fds[2];

	CHECK(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
	real_stderr = dup(2);
	dup2(fds[1], 2);
	close(fds[1]);
	stderr_pipe = fds[0];
}

static unsigned lines_said(char *buf, size_t size)
{
	dup2(real_stderr, 2);
	ssize_t n = read(stderr_pipe, buf, size - 1);
	unsigned lines = 0;

	buf[n > 0 ? n : 0] = '\0';
	for (char *p = buf; *p != '\0'; p++) {
		lines += *p == '\n';
	}
	return lines;
}

static void start_alone(const char *priority)
{
	world_start(priority, NULL, "1");
	make_client(CLIENT, 1);
}

static void holder_gets_the_short_slice(void)
{
	start_alone("2");
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(world.n_writes == 0);
	rm_schedule(CLIENT, TSG(0), true);
	CHECK(world.n_writes == 1 && last_write(TSG(0)) == SHORT_US);
	/* libcuda's last step; and ours comes after it. */
	rm_set_timeslice(CLIENT, TSG(0), 2048);
	CHECK(world.n_writes == 2 && last_write(TSG(0)) == SHORT_US);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_COPY0);
	rm_nothing();
	CHECK(world.n_writes == 2);
	CHECK(lock_gpu(1) < 0 && lock_gpu(0) >= 0);
	int fd = shim_fd_get(&shim_owned.locks[1]);
	CHECK(fd >= 200 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	rm_free(CLIENT, TSG(0));
	CHECK(lock_gpu(1) >= 0 && fcntl(fd, F_GETFD) < 0);
}

static void two_tasks_keep_their_own(void)
{
	start_alone("2");
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(last_write(TSG(0)) == SHORT_US);
	/* Before the second can run. */
	rm_alloc_tsg(CLIENT, DEVICE, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(last_write(TSG(0)) == 2048);
	rm_schedule(CLIENT, TSG(1), true);
	rm_set_timeslice(CLIENT, TSG(1), 2048);
	CHECK(last_write(TSG(1)) == 0);
	int fd = lock_gpu(1);
	CHECK(fd >= 0);
	close(fd);
	rm_free(CLIENT, TSG(0));
	CHECK(last_write(TSG(1)) == SHORT_US && lock_gpu(1) < 0);
}

static void each_gpu_has_its_own_lock(void)
{
	start_alone("2");
	make_client(0xc1d00002, 3);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(0xc1d00002, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(last_write(TSG(0)) == SHORT_US && last_write(TSG(1)) == SHORT_US);
	CHECK(lock_gpu(1) < 0 && lock_gpu(3) < 0 && lock_gpu(0) >= 0);
}

static void second_client_on_the_same_gpu(void)
{
	start_alone("2");
	make_client(0xc1d00002, 1);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(0xc1d00002, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(last_write(TSG(0)) == 2048 && last_write(TSG(1)) == 0 && lock_gpu(1) >= 0);
}

static void taken_lock_leaves_slices_and_says_so_once(void)
{
	char said[1024];

	start_alone("2");
	int fd = lock_gpu(1);
	catch_stderr();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	rm_set_timeslice(CLIENT, TSG(0), 2000);
	unsigned lines = lines_said(said, sizeof(said));
	CHECK(lines == 1 && strncmp(said, "rubato: GPU 1 keeps", 19) == 0);
	CHECK(strstr(said, "--no-daemon") != NULL && world.n_writes == 0);
	/* Free again: the next context gets it. */
	close(fd);
	rm_free(CLIENT, TSG(0));
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(last_write(TSG(1)) == SHORT_US);
}

static void nothing_is_said_where_a_daemon_was_asked_for(void)
{
	char said[1024];

	world_start("2", "", NULL);
	make_client(CLIENT, 1);
	lock_gpu(1);
	catch_stderr();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(lines_said(said, sizeof(said)) == 0 && world.n_writes == 0);
}

static void full_stderr_does_not_block(void)
{
	start_alone("2");
	lock_gpu(1);
	catch_stderr();
	while (write(2, "x", 1) == 1) {
	}
	CHECK(fcntl(2, F_SETFL, 0) == 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	dup2(real_stderr, 2);
}

static void closed_stderr_does_not_kill(void)
{
	start_alone("2");
	lock_gpu(1);
	catch_stderr();
	close(stderr_pipe);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	dup2(real_stderr, 2);
}

/* A program that closed its standard error, and got the number for a database. */
static void data_under_that_number_is_not_written_to(void)
{
	int data = memfd_create("data", MFD_CLOEXEC);

	start_alone("2");
	lock_gpu(1);
	real_stderr = dup(2);
	dup2(data, 2);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	dup2(real_stderr, 2);
	CHECK(lseek(data, 0, SEEK_END) == 0);
}

static void unknown_driver_is_not_written_to(void)
{
	char said[1024];

	start_alone("2");
	world.driver_version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  999.10  Mon\n";
	catch_stderr();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	unsigned lines = lines_said(said, sizeof(said));
	CHECK(lines == 1 && strstr(said, "999.10") != NULL && strstr(said, "--force") != NULL);
	CHECK(world.n_writes == 0 && lock_gpu(1) >= 0);
}

/* Mistakes in the environment are reported once, and only in programs with tasks. */
static void ignored_keys_are_named_once(void)
{
	char said[1024];

	world_start("8,colour=red", NULL, "1");
	catch_stderr();
	make_client(CLIENT, 1);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
	unsigned lines = lines_said(said, sizeof(said));
	CHECK(lines == 1 &&
		strcmp(said, "rubato: RUBATO_TREAT: no such key: colour: ignored\n") == 0);
	CHECK(shim_config.treat.priority == 8);
}

static void no_driver_version_is_unknown(void)
{
	char said[1024];

	start_alone("2");
	world.driver_version = NULL;
	catch_stderr();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(lines_said(said, sizeof(said)) == 1 && world.n_writes == 0);
}

static void force_writes_to_unknown_drivers(void)
{
	world_start("2", NULL, "1");
	setenv("RUBATO_TREAT_FORCE", "1", 1);
	world.driver_version = NULL;
	make_client(CLIENT, 1);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(last_write(TSG(0)) == SHORT_US);
}

static void longer_slices_need_no_lock(void)
{
	world_start("8", NULL, "1");
	setenv("RUBATO_TREAT_TIMESLICE_US", "5000", 1);
	make_client(CLIENT, 1);
	int fd = lock_gpu(1);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(fd >= 0 && last_write(TSG(0)) == 5000 && last_write(TSG(1)) == 5000);
	CHECK(shim_fd_get(&shim_owned.locks[1]) < 0);
}

static void slice_between_the_defaults(void)
{
	world_start("8", NULL, "1");
	setenv("RUBATO_TREAT_TIMESLICE_US", "1500", 1);
	make_client(CLIENT, 1);
	int fd = lock_gpu(1);
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	rm_schedule(CLIENT, TSG(0), true);
	CHECK(last_write(TSG(0)) == 1500);
	/* Longer than RM's, but shorter than what libcuda then chooses. */
	rm_set_timeslice(CLIENT, TSG(0), 2048);
	CHECK(world.n_writes == 1);
	close(fd);
}

static void high_priorities_are_left_alone(void)
{
	start_alone("13");
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(world.n_writes == 0 && lock_gpu(1) >= 0);
}

static void lost_lock_restores(void)
{
	start_alone("2");
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(last_write(TSG(0)) == SHORT_US);
	close(shim_fd_get(&shim_owned.locks[1]));
	int fd = lock_gpu(1);
	CHECK(fd >= 0);
	world.clock_ns += SHIM_LOOK_NS + 1;
	rm_nothing();
	CHECK(last_write(TSG(0)) == 2048);
	close(fd);
}

static void programs_own_file_is_not_closed(void)
{
	char path[128];

	start_alone("2");
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	/* The program closes what it does not know, and opens the GPU under the same number. */
	int number = shim_fd_get(&shim_owned.locks[1]);
	close(number);
	snprintf(path, sizeof(path), "%s/gpu1", world.dir);
	int fd = open(path, O_RDWR);
	CHECK(fd >= 0 && dup2(fd, number) == number);
	close(fd);
	world.clock_ns += SHIM_LOOK_NS + 1;
	rm_nothing();
	CHECK(last_write(TSG(0)) == SHORT_US && shim_fd_get(&shim_owned.locks[1]) != number);
	rm_free(CLIENT, TSG(0));
	CHECK(fcntl(number, F_GETFD) >= 0);
	CHECK(lock_gpu(1) >= 0);
}

static void child_does_not_keep_the_lock(void)
{
	int go[2], status;
	char byte;

	start_alone("2");
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(pipe(go) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		/* It never calls the driver, and outlives its parent's use of it. */
		close(go[1]);
		CHECK(read(go[0], &byte, 1) == 0);
		_exit(0);
	}
	CHECK(lock_gpu(1) < 0);
	/* As the kernel does when the parent dies. */
	close(shim_fd_get(&shim_owned.locks[1]));
	/* The child's handler has run when it waits for us; give it that long. */
	int fd = -1;
	for (int i = 0; i < 1000 && fd < 0; i++) {
		fd = lock_gpu(1);
		usleep(1000);
	}
	CHECK(fd >= 0);
	close(go[1]);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void child_finds_the_lock_taken(void)
{
	int status;

	start_alone("2");
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	pid_t pid = fork();
	if (pid == 0) {
		world.n_writes = 0;
		make_client(0xc1d00002, 1);
		make_task(0xc1d00002, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
		CHECK(world.n_writes == 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(lock_gpu(1) < 0);
}

static void refusal_is_not_repeated(void)
{
	char said[1024];

	start_alone("2");
	world.refuse_slice_status = NV_ERR_INSUFFICIENT_PERMISSIONS;
	catch_stderr();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(lines_said(said, sizeof(said)) == 1);
	unsigned n = world.n_writes;
	world.clock_ns += SHIM_LOOK_NS + 1;
	rm_nothing();
	CHECK(world.n_writes == n);
}

static void daemon_takes_over(void)
{
	world_start("2", "", NULL);
	make_client(CLIENT, 1);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(last_write(TSG(0)) == SHORT_US && lock_gpu(1) < 0);
	daemon_listen();
	world.clock_ns += SHIM_LOOK_NS + 1;
	rm_nothing();
	/* What it finds: own slices, a free lock, and then the news. */
	CHECK(last_write(TSG(0)) == 2048 && lock_gpu(1) >= 0);
	CHECK(daemon_accept() && daemon_receive()->type == RBT_MSG_HELLO);
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->tasks[0].own_timeslice_us == 2048);
	unsigned n = world.n_writes;
	rm_set_timeslice(CLIENT, TSG(0), 3000);
	CHECK(world.n_writes == n);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(holder_gets_the_short_slice),
		TEST(two_tasks_keep_their_own),
		TEST(each_gpu_has_its_own_lock),
		TEST(second_client_on_the_same_gpu),
		TEST(taken_lock_leaves_slices_and_says_so_once),
		TEST(nothing_is_said_where_a_daemon_was_asked_for),
		TEST(full_stderr_does_not_block),
		TEST(closed_stderr_does_not_kill),
		TEST(data_under_that_number_is_not_written_to),
		TEST(unknown_driver_is_not_written_to),
		TEST(no_driver_version_is_unknown),
		TEST(ignored_keys_are_named_once),
		TEST(force_writes_to_unknown_drivers),
		TEST(longer_slices_need_no_lock),
		TEST(slice_between_the_defaults),
		TEST(high_priorities_are_left_alone),
		TEST(lost_lock_restores),
		TEST(programs_own_file_is_not_closed),
		TEST(child_does_not_keep_the_lock),
		TEST(child_finds_the_lock_taken),
		TEST(refusal_is_not_repeated),
		TEST(daemon_takes_over),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
