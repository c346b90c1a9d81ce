/* SPDX-License-Identifier: Apache-2.0 */
/* Memory limits in the shim: what is refused, what is given back, and what is left alone. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "board/ledger.h"
#include "shim/submit.h"
#include "test_shim_world.h"
#include "util/fd.h"

#define MIB(n)    ((uint64_t)(n) << 20)
#define MEMORY(i) (0x5c100000u + (i))

static void start(const char *memory, const char *no_daemon)
{
	world_start("8", no_daemon != NULL ? NULL : "", no_daemon);
	setenv("RUBATO_TREAT_MEMORY", memory, 1);
	setenv(RBT_ENV_RUN, "a-run", 1);
	if (no_daemon == NULL) {
		daemon_listen();
	}
}

/* Beside make_client(), which names no device number: on that GPU. */
static void make_device(uint32_t client, uint32_t device, uint32_t number)
{
	struct nv_device_params p = {.device_id = number};
	struct nv_alloc64 a = {.root = client,
		.parent = client,
		.object = device,
		.hclass = NV_CLASS_DEVICE,
		.params = (uintptr_t)&p,
		.params_size = sizeof(p)};

	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_ALLOC64, &a) == 0 && a.status == 0);
}

static uint32_t take_at(uint32_t client, uint32_t parent, uint32_t handle, uint64_t bytes)
{
	struct nv_memory_params p = {.size = bytes};
	struct nv_alloc64 a = {.root = client,
		.parent = parent,
		.object = handle,
		.hclass = NV_CLASS_MEMORY_LOCAL,
		.params = (uintptr_t)&p,
		.params_size = sizeof(p)};

	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_ALLOC64, &a) == 0);
	return a.status;
}

static uint32_t take(uint32_t i, uint64_t mib)
{
	return take_at(CLIENT, DEVICE, MEMORY(i), MIB(mib));
}

static uint64_t counted(uint32_t gpu)
{
	const struct shim_memory *m = &table()->memory;

	return m->shared != NULL ? m->shared->slots[m->slot].bytes[gpu]
				 : m->alone.slots[0].bytes[gpu];
}

static void refused_without_a_call(void)
{
	start("100M", "1");
	make_client(CLIENT, 1);
	CHECK(take(1, 60) == 0);
	unsigned before = world.n_calls;
	CHECK(take(2, 41) == NV_ERR_NO_MEMORY && world.n_calls == before);
	CHECK(take(2, 40) == 0 && world.n_calls == before + 1);
	CHECK(counted(0) == MIB(100));
	/* The older form. */
	struct nv_memory_params p = {.size = 1};
	struct nv_alloc21 a = {.root = CLIENT,
		.parent = DEVICE,
		.hclass = NV_CLASS_MEMORY_LOCAL,
		.params = (uintptr_t)&p,
		.params_size = sizeof(p)};
	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_ALLOC21, &a) == 0);
	CHECK(a.status == NV_ERR_NO_MEMORY);
}

static void errno_stays(void)
{
	start("100M", "1");
	make_client(CLIENT, 1);
	errno = 77;
	CHECK(take(1, 101) == NV_ERR_NO_MEMORY && errno == 77);
	CHECK(take(1, 1) == 0 && errno == 77);
}

static void given_back(void)
{
	start("100M", "1");
	make_client(CLIENT, 1);
	CHECK(take(1, 60) == 0 && take(2, 40) == 0);
	CHECK(rm_free(CLIENT, MEMORY(1)) == 0 && counted(0) == MIB(40));
	/* Not there, or refused: nothing changes. */
	CHECK(rm_free(CLIENT, MEMORY(9)) == 0 && counted(0) == MIB(40));
	world.fail_status = NV_ERR_OBJECT_NOT_FOUND;
	rm_free(CLIENT, MEMORY(2));
	CHECK(take(3, 10) == NV_ERR_OBJECT_NOT_FOUND);
	world.fail_status = 0;
	CHECK(counted(0) == MIB(40));
	world.fail_errno = EIO;
	struct nv_memory_params p = {.size = MIB(1)};
	struct nv_alloc64 a = {.root = CLIENT,
		.parent = DEVICE,
		.hclass = NV_CLASS_MEMORY_LOCAL,
		.params = (uintptr_t)&p};
	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_ALLOC64, &a) == -1 && errno == EIO);
	world.fail_errno = 0;
	CHECK(counted(0) == MIB(40));
	/* With its subdevice, its device, its client. */
	CHECK(take_at(CLIENT, SUBDEVICE, MEMORY(4), MIB(5)) == 0 && counted(0) == MIB(45));
	CHECK(rm_free(CLIENT, SUBDEVICE) == 0 && counted(0) == MIB(40));
	CHECK(rm_free(CLIENT, DEVICE) == 0 && counted(0) == 0);
	CHECK(rm_alloc(CLIENT, CLIENT, DEVICE, NV_CLASS_DEVICE) == 0);
	CHECK(take(5, 30) == 0 && counted(0) == MIB(30));
	CHECK(rm_free(CLIENT, CLIENT) == 0 && counted(0) == 0);
}

/* As the driver does it: everything is freed when the program leaves, and allocated again. */
static void parked(void)
{
	start("100M", "1");
	make_client(CLIENT, 1);
	struct rbt_board *b = shim_board_obtain();
	const struct shim_memory *m = &table()->memory;

	CHECK(take(1, 60) == 0 && take(2, 30) == 0);
	atomic_store(&b->parking, RBT_BOARD_MOVES);
	CHECK(take(3, 20) == NV_ERR_NO_MEMORY); /* the program's own: nothing has left yet */
	CHECK(rm_free(CLIENT, MEMORY(1)) == 0 && rm_free(CLIENT, MEMORY(2)) == 0);
	CHECK(counted(0) == MIB(90) && m->alone.totals[0] == MIB(90));
	/* It comes back with more than it had, and beyond the limit. */
	CHECK(take(1, 60) == 0 && counted(0) == MIB(90));
	world.fail_status = NV_ERR_OBJECT_NOT_FOUND;
	CHECK(take(2, 30) == NV_ERR_OBJECT_NOT_FOUND && counted(0) == MIB(90));
	world.fail_status = 0;
	CHECK(take(2, 45) == 0 && counted(0) == MIB(105));
	atomic_store(&b->parking, 0);
	CHECK(take(3, 1) == NV_ERR_NO_MEMORY && counted(0) == MIB(105));
	CHECK(rm_free(CLIENT, MEMORY(2)) == 0 && counted(0) == MIB(60));
	/* What did not come back is given back at the next call. */
	atomic_store(&b->parking, RBT_BOARD_MOVES);
	CHECK(rm_free(CLIENT, MEMORY(1)) == 0 && counted(0) == MIB(60));
	CHECK(take(1, 50) == 0 && counted(0) == MIB(60));
	atomic_store(&b->parking, 0);
	CHECK(take(4, 1) == 0 && counted(0) == MIB(51));
	CHECK(m->alone.totals[0] == MIB(51));
}

static void each_gpu_has_its_own(void)
{
	start("100M", "1");
	make_client(CLIENT, 1);
	make_device(CLIENT, DEVICE + 0x1000, 3);
	CHECK(take(1, 100) == 0 && take(2, 1) == NV_ERR_NO_MEMORY);
	CHECK(take_at(CLIENT, DEVICE + 0x1000, MEMORY(3), MIB(100)) == 0);
	CHECK(take_at(CLIENT, DEVICE + 0x1000, MEMORY(4), 1) == NV_ERR_NO_MEMORY);
	CHECK(counted(0) == MIB(100) && counted(3) == MIB(100));
	/* Another client's memory counts with it. */
	make_client(CLIENT + 1, 1);
	CHECK(take_at(CLIENT + 1, DEVICE, MEMORY(5), 1) == NV_ERR_NO_MEMORY);
	CHECK(rm_free(CLIENT, CLIENT) == 0 && counted(0) == 0 && counted(3) == 0);
	CHECK(take_at(CLIENT + 1, DEVICE, MEMORY(5), MIB(100)) == 0);
}

/* A handle whose end was missed, and one that a new object gets while the old one is freed. */
static void reuse_handle(unsigned long request, void *arg)
{
	world.during_call = NULL;
	if (request == NV_IOCTL_FREE) {
		CHECK(take(1, 20) == 0);
	}
}

static void handles_again(void)
{
	start("100M", "1");
	make_client(CLIENT, 1);
	CHECK(take(1, 10) == 0 && take(1, 20) == 0 && counted(0) == MIB(20));
	world.during_call = reuse_handle;
	CHECK(rm_free(CLIENT, MEMORY(1)) == 0);
	CHECK(counted(0) == MIB(20));
	CHECK(rm_free(CLIENT, MEMORY(1)) == 0 && counted(0) == 0);
}

static void left_alone(void)
{
	start("100M", "1");
	make_client(CLIENT, 1);
	/* Unknown parents, other classes, no parameters, parameters that are not there. */
	CHECK(take_at(CLIENT, 0x5c00ffff, MEMORY(1), MIB(500)) == 0);
	CHECK(take_at(CLIENT + 7, DEVICE, MEMORY(1), MIB(500)) == 0);
	CHECK(rm_alloc(CLIENT, DEVICE, MEMORY(2), NV_CLASS_MEMORY_LOCAL) == 0);
	struct nv_alloc64 a = {
		.root = CLIENT, .parent = DEVICE, .hclass = NV_CLASS_MEMORY_LOCAL, .params = 4096};
	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_ALLOC64, &a) == 0 && a.status == 0);
	CHECK(counted(0) == 0);
}

static void a_full_table_lets_pass(void)
{
	start("4096M", "1");
	make_client(CLIENT, 1);
	for (uint32_t i = 0; i < SHIM_MAX_ALLOCS; i++) {
		CHECK(take_at(CLIENT, DEVICE, MEMORY(i), 4096) == 0);
	}
	CHECK(counted(0) == (uint64_t)SHIM_MAX_ALLOCS * 4096);
	int pipe_fds[2];
	CHECK(pipe(pipe_fds) == 0 && dup2(pipe_fds[1], 2) == 2);
	CHECK(take_at(CLIENT, DEVICE, 0x5d000000, MIB(5000)) == 0);
	CHECK(take_at(CLIENT, DEVICE, 0x5d000001, MIB(5000)) == 0);
	char said[512] = "";
	CHECK(read(pipe_fds[0], said, sizeof(said) - 1) > 0);
	CHECK(strstr(said, "more GPU allocations than can be counted") != NULL);
	CHECK(strchr(said, '\n') == said + strlen(said) - 1); /* once */
	CHECK(counted(0) == (uint64_t)SHIM_MAX_ALLOCS * 4096);
	/* One that is freed makes room. */
	CHECK(rm_free(CLIENT, MEMORY(7)) == 0);
	CHECK(take_at(CLIENT, DEVICE, MEMORY(7), MIB(5000)) == NV_ERR_NO_MEMORY);
	CHECK(rm_free(CLIENT, CLIENT) == 0 && counted(0) == 0);
}

static struct rbt_ledger *ledger;
static int ledger_fd = -1;

static void make_ledger(uint64_t limit)
{
	rbt_ledger_unmap(ledger);
	rbt_close(&ledger_fd);
	ledger_fd = rbt_ledger_create_fd();
	CHECK(ledger_fd >= 0 && rbt_ledger_map(ledger_fd, &ledger) == 0);
	ledger->limit = limit;
}

static void send_ledger(uint32_t slot, int fd)
{
	struct rbt_msg_ledger msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_LEDGER}, .slot = slot};

	CHECK(rbt_send(world.peer, &msg, sizeof(msg), &fd, fd >= 0, 0) == 0);
}

/* The RUN that the shim has sent; its fd is the caller's. */
static struct rbt_msg_run receive_run(int *ret_fd)
{
	static unsigned char buf[RBT_MSG_MAX];
	struct rbt_msg_run run = {0};
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;
	ssize_t n;

	while ((n = rbt_recv(world.peer, buf, sizeof(buf), fds, &n_fds, MSG_DONTWAIT)) > 0) {
		struct rbt_msg_header h;
		memcpy(&h, buf, sizeof(h));
		if (h.type == RBT_MSG_RUN) {
			CHECK(n == sizeof(run));
			memcpy(&run, buf, sizeof(run));
			*ret_fd = n_fds == 1 ? fds[0] : -1;
			return run;
		}
		for (size_t i = 0; i < n_fds; i++) {
			close(fds[i]);
		}
	}
	CHECK(false);
	return run;
}

static void joins_a_ledger(void)
{
	int fd;

	start("100M", NULL);
	make_client(CLIENT, 1);
	CHECK(take(1, 30) == 0);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(daemon_accept());
	struct rbt_msg_run run = receive_run(&fd);
	CHECK(strcmp(run.name, "a-run") == 0 && fd == -1);
	/* What it has moves to the ledger, where a sibling has something, too. */
	make_ledger(MIB(100));
	CHECK(rbt_ledger_take_slot(ledger, 1, 1) == 0 && rbt_ledger_take_slot(ledger, 2, 1) == 1);
	CHECK(rbt_ledger_charge(ledger, 0, 0, MIB(50), UINT64_MAX));
	send_ledger(1, ledger_fd);
	rm_nothing();
	CHECK(ledger->slots[1].bytes[0] == MIB(30) && ledger->totals[0] == MIB(80));
	CHECK(take(2, 21) == NV_ERR_NO_MEMORY && take(2, 20) == 0);
	CHECK(rm_free(CLIENT, MEMORY(1)) == 0 && ledger->totals[0] == MIB(70));
	ledger->limit = MIB(71);
	CHECK(take(3, 2) == NV_ERR_NO_MEMORY && take(3, 1) == 0);
	ledger->limit = 0;
	CHECK(take(4, 5000) == 0 && rm_free(CLIENT, MEMORY(4)) == 0);
	/* The daemon dies: counts go on, and the next one is given the ledger. */
	rbt_close(&world.peer);
	CHECK(take(5, 4) == 0 && ledger->slots[1].bytes[0] == MIB(25));
	world.clock_ns += 2 * SHIM_LOOK_NS;
	rm_nothing();
	CHECK(daemon_accept());
	run = receive_run(&fd);
	struct rbt_ledger *brought;
	CHECK(fd >= 0 && run.slot == 1 && rbt_ledger_map(fd, &brought) == 0);
	CHECK(brought->slots[1].bytes[0] == MIB(25));
	rbt_ledger_unmap(brought);
	close(fd);
	/* Another ledger: it moves. */
	struct rbt_ledger *old = ledger;
	ledger = NULL;
	int old_fd = ledger_fd;
	ledger_fd = -1;
	make_ledger(MIB(30));
	send_ledger(0, ledger_fd);
	world.clock_ns += 2 * SHIM_LOOK_NS;
	rm_nothing();
	CHECK(ledger->slots[0].bytes[0] == MIB(25) && old->slots[1].bytes[0] == 0);
	CHECK(old->totals[0] == MIB(50));
	rbt_ledger_unmap(old);
	close(old_fd);
}

/* Whatever a daemon sends that is no ledger: the old one counts on. */
static void nonsense_from_the_daemon(void)
{
	int fd;

	start("100M", NULL);
	make_client(CLIENT, 1);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(daemon_accept());
	receive_run(&fd);
	make_ledger(MIB(100));
	send_ledger(RBT_LEDGER_SLOTS, ledger_fd);
	send_ledger(0, -1);
	int bad = memfd_create("bad", MFD_CLOEXEC);
	CHECK(bad >= 0 && ftruncate(bad, RBT_LEDGER_SIZE) == 0);
	send_ledger(0, bad);
	struct rbt_msg_result result = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RESULT}, .error = -EBADMSG};
	CHECK(rbt_send(world.peer, &result, sizeof(result), NULL, 0, 0) == 0);
	rm_nothing();
	CHECK(table()->memory.shared == NULL);
	CHECK(take(1, 100) == 0 && take(2, 1) == NV_ERR_NO_MEMORY);
	close(bad);
}

static void a_child_begins_with_nothing(void)
{
	int status, fd;

	start("100M", NULL);
	make_client(CLIENT, 1);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(daemon_accept());
	receive_run(&fd);
	make_ledger(MIB(100));
	CHECK(rbt_ledger_take_slot(ledger, 1, 1) == 0);
	send_ledger(0, ledger_fd);
	world.clock_ns += 2 * SHIM_LOOK_NS;
	CHECK(take(1, 90) == 0);
	CHECK(ledger->totals[0] == MIB(90));
	pid_t pid = fork();
	if (pid == 0) {
		/* Its parent's memory is not its own, in whichever way it is freed. */
		CHECK(rm_free(CLIENT, MEMORY(1)) == 0 && rm_free(CLIENT, CLIENT) == 0);
		make_client(CLIENT + 1, 1);
		CHECK(take_at(CLIENT + 1, DEVICE, MEMORY(2), MIB(100)) == 0);
		CHECK(take_at(CLIENT + 1, DEVICE, MEMORY(3), 1) == NV_ERR_NO_MEMORY);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(ledger->totals[0] == MIB(90));
}

static void *take_and_free(void *data)
{
	uint32_t base = *(uint32_t *)data * 1000;

	for (uint32_t i = 0; i < 2000; i++) {
		if (take(base + i % 7, 1 + i % 40) == 0) {
			CHECK(rm_free(CLIENT, MEMORY(base + i % 7)) == 0);
		}
	}
	return NULL;
}

static void threads_at_once(void)
{
	pthread_t threads[6];
	uint32_t n[6];

	start("100M", "1");
	make_client(CLIENT, 1);
	for (uint32_t i = 0; i < 6; i++) {
		n[i] = i;
		CHECK(pthread_create(&threads[i], NULL, take_and_free, &n[i]) == 0);
	}
	for (uint32_t i = 0; i < 6; i++) {
		pthread_join(threads[i], NULL);
	}
	CHECK(counted(0) == 0);
}

static void without_a_limit_all_is_counted(void)
{
	start("default", "1");
	make_client(CLIENT, 1);
	CHECK(take(1, 1 << 20) == 0 && counted(0) == MIB(1 << 20));
}

static void limits_of_single_gpus(void)
{
	start("100M", "1");
	setenv("CUDA_DEVICE_MEMORY_LIMIT_1", "10m", 1);
	setenv("CUDA_DEVICE_MEMORY_LIMIT_2", "nonsense", 1);
	make_client(CLIENT, 1); /* the cards' addresses are those of their numbers */
	make_client(CLIENT + 1, 2);
	CHECK(take(1, 11) == NV_ERR_NO_MEMORY && take(1, 10) == 0);
	CHECK(take_at(CLIENT + 1, DEVICE, MEMORY(2), MIB(50)) == 0);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(refused_without_a_call),
		TEST(errno_stays),
		TEST(given_back),
		TEST(parked),
		TEST(each_gpu_has_its_own),
		TEST(handles_again),
		TEST(left_alone),
		TEST(a_full_table_lets_pass),
		TEST(joins_a_ledger),
		TEST(nonsense_from_the_daemon),
		TEST(a_child_begins_with_nothing),
		TEST(threads_at_once),
		TEST(without_a_limit_all_is_counted),
		TEST(limits_of_single_gpus),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
