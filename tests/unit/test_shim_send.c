/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon hears from the shim, and what becomes of it
 * when the daemon, or the socket, goes. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test_shim_world.h"
#include "util/fd.h"

static void wait_a_look(void)
{
	world.clock_ns += SHIM_LOOK_NS + 1;
}

static void start_with_daemon(void)
{
	world_start("2", "", NULL);
	daemon_listen();
	make_client(CLIENT, 1);
}

static void expect_connection(void)
{
	CHECK(daemon_accept());
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_HELLO && m->hello.loaded_ns == shim_config.loaded_ns);
	CHECK(m->treat.priority == 2 && m->treat.said == RBT_TREAT_BIT(PRIORITY));
}

static void expect_record(uint32_t client, uint32_t n_tasks)
{
	struct received *m = daemon_receive_last();

	CHECK(m->type == RBT_MSG_RECORD && m->record.client == client &&
		m->record.n_tasks == n_tasks);
	close(m->fd);
}

static void check_task(
	const struct received *m, uint32_t i, enum rbt_task_kind kind, uint64_t own_us)
{
	const struct rbt_task *t = &m->tasks[i];

	CHECK(t->handle == TSG(i) && t->subdevice == SUBDEVICE && t->gpu == 1);
	CHECK(t->kind == kind && t->own_timeslice_us == own_us);
	CHECK(t->valid == (RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_ID | RBT_TASK_HAS_GPU |
				  RBT_TASK_HAS_OWN_TIMESLICE | RBT_TASK_HAS_CREATOR));
	CHECK(t->id == (TSG(i) & 0xffff) && t->creator_tid == (uint32_t)gettid());
	CHECK(t->first_channel == 2 * i && t->n_channels == 2);
	CHECK(m->channels[2 * i] == TSG(i) + 1 && m->channels[2 * i + 1] == TSG(i) + 2);
}

/* A compute task is scheduled before libcuda is done with it: until then it is to be left alone. */
static void a_task_in_the_making_is_new(void)
{
	start_with_daemon();
	CHECK(!daemon_accept());
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	struct received *m = daemon_receive_last();
	CHECK(m->record.n_tasks == 1 && (m->tasks[0].valid & RBT_TASK_IS_NEW) != 0);
	CHECK(m->record.n_channels == 0 && m->tasks[0].id == (TSG(0) & 0xffff));
	close(m->fd);
	rm_alloc(CLIENT, TSG(0), TSG(0) + 1, NV_CLASS_CHANNEL_HOPPER);
	CHECK(daemon_receive()->type == 0);
	rm_schedule(CLIENT, TSG(0), true);
	m = daemon_receive_last();
	CHECK(m->record.n_tasks == 1 && (m->tasks[0].valid & RBT_TASK_IS_NEW) != 0);
	CHECK(m->record.n_channels == 1);
	close(m->fd);
	rm_set_timeslice(CLIENT, TSG(0), NV_DEFAULT_COMPUTE_TIMESLICE_US);
	m = daemon_receive_last();
	CHECK(m->record.n_tasks == 1 && (m->tasks[0].valid & RBT_TASK_IS_NEW) == 0);
	close(m->fd);
}

/* What a task is and where must be known when it is first told of: it is told of once. */
static void a_task_is_told_of_when_it_is_known(void)
{
	start_with_daemon();
	/* Its GPU is not known. */
	rm_free(CLIENT, SUBDEVICE);
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(!daemon_accept());
	rm_alloc(CLIENT, DEVICE, SUBDEVICE, NV_CLASS_SUBDEVICE);
	CHECK(!daemon_accept());
	rm_schedule(CLIENT, TSG(0), true);
	expect_connection();
	expect_record(CLIENT, 1);
	/* Its engine is not known. */
	rm_alloc(CLIENT, DEVICE, TSG(1), NV_CLASS_TSG);
	rm_alloc(CLIENT, TSG(1), TSG(1) + 1, NV_CLASS_CHANNEL_HOPPER);
	CHECK(daemon_receive()->type == 0);
	rm_alloc(CLIENT, TSG(1) + 1, TSG(1) + 2, NV_CLASS_COMPUTE_HOPPER);
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->record.n_tasks == 2);
	CHECK(m->tasks[1].kind == RBT_TASK_COMPUTE);
}

static void snapshot_says_all(void)
{
	struct stat mine, theirs;

	start_with_daemon();
	CHECK(!daemon_accept());
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_COPY0);
	expect_connection();
	struct received *m = daemon_receive_last();
	CHECK(m->type == RBT_MSG_RECORD && m->record.client == CLIENT && m->record.backend == 1);
	CHECK(m->record.target_fd == world.device_fd);
	CHECK(m->record.n_tasks == 2 && m->record.n_channels == 4);
	check_task(m, 0, RBT_TASK_COMPUTE, 2048);
	check_task(m, 1, RBT_TASK_COPY, 1024);
	CHECK(m->tasks[0].runlist == 0 && m->tasks[1].runlist == 8);
	CHECK(fstat(world.device_fd, &mine) == 0 && fstat(m->fd, &theirs) == 0);
	CHECK(mine.st_ino == theirs.st_ino && mine.st_dev == theirs.st_dev);
	/* With a daemon the shim writes nothing. */
	CHECK(world.n_writes == 0);
	CHECK(lock_gpu(1) >= 0);
	CHECK(fcntl(shim_fd_get(&shim_owned.sock), F_GETFD) == FD_CLOEXEC);
	CHECK(shim_fd_get(&shim_owned.sock) >= 200);
}

static void only_changes_are_sent(void)
{
	start_with_daemon();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	expect_record(CLIENT, 1);
	rm_nothing();
	rm_free(CLIENT, 0x5c00beef);
	rm_schedule(CLIENT, TSG(0), true);
	CHECK(daemon_receive()->type == 0);
	rm_alloc_tsg(CLIENT, DEVICE, TSG(1), NV_ENGINE_TYPE_GRAPHICS);
	expect_record(CLIENT, 2);
	rm_alloc(CLIENT, TSG(0), TSG(0) + 9, NV_CLASS_CHANNEL_HOPPER);
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->record.n_tasks == 2 && m->record.n_channels == 3);
	rm_set_timeslice(CLIENT, TSG(0), 4000);
	m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->tasks[0].own_timeslice_us == 4000);
	rm_schedule(CLIENT, TSG(1), true);
	expect_record(CLIENT, 2);
	/* A task stays until it is freed. */
	rm_schedule(CLIENT, TSG(0), false);
	expect_record(CLIENT, 2);
	rm_free(CLIENT, TSG(0));
	m = daemon_receive();
	CHECK(m->record.n_tasks == 1 && m->tasks[0].handle == TSG(1) && m->record.n_channels == 0);
}

static void ends_are_told(void)
{
	start_with_daemon();
	make_client(0xc1d00002, 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_COPY0);
	expect_connection();
	expect_record(CLIENT, 2);
	rm_free(CLIENT, TSG(1));
	expect_record(CLIENT, 1);
	rm_free(0xc1d00002, 0xc1d00002);
	CHECK(daemon_receive()->type == 0);
	rm_free(CLIENT, CLIENT);
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_CLIENT_GONE && m->client.client == CLIENT &&
		m->client.backend == 1);
	CHECK(shim_first(shim_peek(), SHIM_CLIENT) == NULL);
	/* The same name again is another client. */
	make_client(CLIENT, 1);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_record(CLIENT, 1);
	/* Nothing to hold the program's file for. */
	rm_free(CLIENT, DEVICE);
	m = daemon_receive();
	CHECK(m->type == RBT_MSG_CLIENT_GONE && m->client.client == CLIENT);
}

static void full_socket_is_tried_again(void)
{
	unsigned sent = 0;

	start_with_daemon();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	struct shim *s = shim_peek();
	for (uint64_t us = 10000; !shim_find(s, CLIENT, CLIENT)->c.dirty; us++) {
		CHECK(rm_set_timeslice(CLIENT, TSG(0), us) == 0);
		CHECK(++sent < 100000);
	}
	uint64_t own_us = shim_find(s, CLIENT, TSG(0))->t.own_us;
	CHECK(world.n_writes == 0);
	struct received *m = daemon_receive_last();
	CHECK(m->type == RBT_MSG_RECORD && m->tasks[0].own_timeslice_us == own_us - 1);
	close(m->fd);
	rm_nothing();
	m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->tasks[0].own_timeslice_us == own_us);
	close(m->fd);
	CHECK(daemon_receive()->type == 0 && !shim_find(s, CLIENT, CLIENT)->c.dirty);
}

static void lost_end_is_told_when_there_is_room(void)
{
	start_with_daemon();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	struct shim *s = shim_peek();
	for (uint64_t us = 10000; !shim_find(s, CLIENT, CLIENT)->c.dirty; us++) {
		rm_set_timeslice(CLIENT, TSG(0), us);
	}
	rm_free(CLIENT, CLIENT);
	CHECK(shim_find(s, CLIENT, CLIENT)->c.freed);
	daemon_receive_last();
	rm_nothing();
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_CLIENT_GONE && m->client.client == CLIENT);
	CHECK(shim_find(s, CLIENT, CLIENT) == NULL);
}

static void daemon_starts_anew(void)
{
	start_with_daemon();
	make_client(0xc1d00002, 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(0xc1d00002, TSG(0), NV_ENGINE_TYPE_COPY0);
	expect_connection();
	close(world.listener);
	rbt_close(&world.peer);
	/* Dead, and so far nobody else: the shim acts alone. */
	wait_a_look();
	rm_nothing();
	CHECK(last_write(TSG(0)) == SHORT_US && lock_gpu(1) < 0);
	daemon_listen();
	rm_set_timeslice(CLIENT, TSG(0), 2048);
	CHECK(!daemon_accept());
	wait_a_look();
	rm_nothing();
	CHECK(last_write(TSG(0)) == 2048);
	expect_connection();
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->record.n_tasks == 1);
	uint32_t first = m->record.client;
	m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->record.n_tasks == 1 && m->record.client != first);
	CHECK(daemon_receive()->type == 0);
	CHECK(lock_gpu(1) >= 0);
}

static void lost_daemon_leaves_own_slices(void)
{
	start_with_daemon();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_COPY0);
	expect_connection();
	close(world.listener);
	rbt_close(&world.peer);
	/* The daemon had set some slice, and its lock is another's now. */
	CHECK(lock_gpu(1) >= 0);
	wait_a_look();
	rm_nothing();
	CHECK(world.n_writes == 1 && last_write(TSG(0)) == 2048);
	wait_a_look();
	rm_nothing();
	CHECK(world.n_writes == 1);
}

static void reconnects_at_once_when_a_send_fails(void)
{
	start_with_daemon();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	world.clock_ns += SHIM_LOOK_NS;
	rbt_close(&world.peer);
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_COPY0);
	expect_connection();
	expect_record(CLIENT, 2);
	CHECK(world.n_writes == 0);
}

static void program_closes_the_socket(void)
{
	int pipe_fds[2];
	char byte;

	start_with_daemon();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	expect_record(CLIENT, 1);
	/* As closefrom(3) does, but for the test's own; then the number is taken by a socket of the
	 * program. */
	int number = shim_fd_get(&shim_owned.sock);
	close(number);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pipe_fds) == 0);
	CHECK(dup2(pipe_fds[0], number) == number);
	wait_a_look();
	make_task(CLIENT, TSG(1), NV_ENGINE_TYPE_COPY0);
	CHECK(recv(pipe_fds[1], &byte, 1, 0) < 0 && errno == EAGAIN);
	CHECK(fcntl(number, F_GETFD) >= 0);
	CHECK(daemon_receive()->type == UINT32_MAX);
	expect_connection();
	expect_record(CLIENT, 2);
	CHECK(shim_fd_get(&shim_owned.sock) != number);
}

static void program_closes_its_device(void)
{
	start_with_daemon();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	expect_record(CLIENT, 1);
	int old = world.device_fd;
	world.device_fd = memfd_create("nvidiactl", MFD_CLOEXEC);
	dup2(world.device_fd, old);
	make_client(0xc1d00002, 0);
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_CLIENT_GONE && m->client.client == CLIENT);
}

static void child_lets_go_of_the_socket(void)
{
	int status;

	start_with_daemon();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	expect_record(CLIENT, 1);
	int number = shim_fd_get(&shim_owned.sock);
	pid_t pid = fork();
	if (pid == 0) {
		CHECK(fcntl(number, F_GETFD) < 0 && errno == EBADF);
		make_client(0xc1d00002, 0);
		make_task(0xc1d00002, TSG(0), NV_ENGINE_TYPE_COPY0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(fcntl(number, F_GETFD) >= 0);
	rm_free(CLIENT, TSG(0));
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_CLIENT_GONE && m->client.client == CLIENT);
	/* The child spoke on a connection of its own. */
	expect_connection();
	expect_record(0xc1d00002, 1);
}

static void low_limit_of_files(void)
{
	struct rlimit limit = {100, 100};

	start_with_daemon();
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	expect_record(CLIENT, 1);
	CHECK(shim_fd_get(&shim_owned.sock) < 100);
}

/* More channels than a record holds, though the tasks fit. */
static void more_channels_than_a_record_holds(void)
{
	start_with_daemon();
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_COPY0);
	for (uint32_t c = 1; c <= RBT_RECORD_MAX_CHANNELS; c++) {
		rm_alloc(CLIENT, TSG(0), TSG(0) + c, NV_CLASS_CHANNEL_HOPPER);
	}
	rm_schedule(CLIENT, TSG(0), true);
	expect_connection();
	struct received *m = daemon_receive_last();
	CHECK(m->record.n_channels == RBT_RECORD_MAX_CHANNELS && m->record.flags == 0);
	rm_alloc(CLIENT, TSG(0), 0x5cabcdef, NV_CLASS_CHANNEL_HOPPER);
	m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->record.n_channels == RBT_RECORD_MAX_CHANNELS);
	CHECK(m->record.flags == RBT_RECORD_PARTIAL);
	/* What was told of stays. */
	for (uint32_t c = 0; c < RBT_RECORD_MAX_CHANNELS; c++) {
		CHECK(m->channels[c] == TSG(0) + 1 + c);
	}
}

/* What was missed is said of all that was told before, too. */
static void loss_is_told(void)
{
	start_with_daemon();
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	expect_connection();
	expect_record(CLIENT, 1);
	daemon_receive_last();
	shim_peek()->lossy = true;
	wait_a_look();
	rm_nothing();
	struct received *m = daemon_receive_last();
	CHECK(m->type == RBT_MSG_RECORD && m->record.flags == RBT_RECORD_PARTIAL);
}

static void more_than_a_record_holds(void)
{
	start_with_daemon();
	for (uint32_t i = 0; i < RBT_RECORD_MAX_TASKS + 3; i++) {
		rm_alloc_tsg(CLIENT, DEVICE, TSG(i), NV_ENGINE_TYPE_COPY0);
		for (uint32_t c = 1; c <= 9; c++) {
			rm_alloc(CLIENT, TSG(i), TSG(i) + c, NV_CLASS_CHANNEL_HOPPER);
		}
	}
	for (uint32_t i = 0; i < RBT_RECORD_MAX_TASKS + 3; i++) {
		rm_schedule(CLIENT, TSG(i), true);
	}
	expect_connection();
	daemon_receive_last();
	rm_nothing();
	rm_set_timeslice(CLIENT, TSG(0), 3000);
	struct received *m = daemon_receive_last();
	CHECK(m->type == RBT_MSG_RECORD && m->record.n_tasks == RBT_RECORD_MAX_TASKS);
	CHECK(m->record.flags == RBT_RECORD_PARTIAL);
	CHECK(m->record.n_channels == RBT_RECORD_MAX_CHANNELS);
	uint32_t next = 0;
	for (uint32_t i = 0; i < m->record.n_tasks; i++) {
		CHECK(m->tasks[i].handle == TSG(i)); /* the first that were made */
		CHECK(m->tasks[i].first_channel == next);
		next += m->tasks[i].n_channels;
	}
	CHECK(next == RBT_RECORD_MAX_CHANNELS);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(a_task_in_the_making_is_new),
		TEST(a_task_is_told_of_when_it_is_known),
		TEST(snapshot_says_all),
		TEST(only_changes_are_sent),
		TEST(ends_are_told),
		TEST(full_socket_is_tried_again),
		TEST(lost_end_is_told_when_there_is_room),
		TEST(daemon_starts_anew),
		TEST(lost_daemon_leaves_own_slices),
		TEST(reconnects_at_once_when_a_send_fails),
		TEST(program_closes_the_socket),
		TEST(program_closes_its_device),
		TEST(child_lets_go_of_the_socket),
		TEST(low_limit_of_files),
		TEST(more_channels_than_a_record_holds),
		TEST(loss_is_told),
		TEST(more_than_a_record_holds),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
