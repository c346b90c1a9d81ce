/* SPDX-License-Identifier: Apache-2.0 */
#include "test_shim_world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "util/fd.h"
#include "util/time.h"

#define TEST_LIMIT_S  20
#define GPU_ID(minor) (0x1b00u + (minor))

struct world world = {
	.listener = -1, .peer = -1, .device_fd = -1, .default_us = NV_DEFAULT_TIMESLICE_US};

/* Which GPU a client's subdevice is on: one each. */
static struct {
	uint32_t client, minor;
} placed[16];
static size_t n_placed;

static void own_control(struct nv_control *ctl)
{
	void *params = (void *)(uintptr_t)ctl->params;

	if (ctl->cmd == NV_CTRL_GPU_GET_ID) {
		world.n_gpu_id++;
		for (size_t i = 0; i < n_placed; i++) {
			if (placed[i].client == ctl->client) {
				((struct nv_gpu_id_params *)params)->gpu_id =
					GPU_ID(placed[i].minor);
			}
		}
	} else if (ctl->cmd == NV_CTRL_TSG_GET_INFO) {
		world.n_tsg_info++;
		((struct nv_tsg_info_params *)params)->tsg_id = ctl->object & 0xffff;
	} else if (ctl->cmd == NV_CTRL_TSG_GET_TIMESLICE) {
		((struct nv_timeslice_params *)params)->timeslice_us = world.default_us;
	}
}

static void answer(unsigned long request, void *arg)
{
	if (request == NV_IOCTL_CARD_INFO) {
		struct nv_card_info *cards = arg;
		world.n_card_info++;
		for (uint32_t i = 0; i < 4; i++) {
			/* Not in the order of their numbers. */
			cards[i] = (struct nv_card_info){.valid = 1,
				.pci_bus = (uint8_t)(0x10 + 3 - i),
				.gpu_id = GPU_ID(3 - i),
				.minor_number = 3 - i};
		}
	} else if (request == NV_IOCTL_CONTROL) {
		own_control(arg);
	}
}

static void set_status(unsigned long request, void *arg, uint32_t status)
{
	if (arg == NULL) {
		return;
	}
	if (request == NV_IOCTL_CONTROL) {
		((struct nv_control *)arg)->status = status;
	} else if (request == NV_IOCTL_ALLOC64) {
		((struct nv_alloc64 *)arg)->status = status;
	} else if (request == NV_IOCTL_ALLOC21) {
		((struct nv_alloc21 *)arg)->status = status;
	} else if (request == NV_IOCTL_FREE) {
		((struct nv_free *)arg)->status = status;
	}
}

static _Atomic bool program_speaks;

int shim_raw_ioctl(int fd, unsigned long request, void *arg)
{
	struct nv_control *ctl = request == NV_IOCTL_CONTROL ? arg : NULL;
	uint32_t status = world.fail_status;

	world.n_calls++;
	if (_IOC_TYPE(request) == KFD_IOCTL_TYPE && world.kfd_call != NULL) {
		return world.kfd_call(fd, request, arg);
	}
	if (world.foreign) {
		return 0;
	}
	if (world.fail_errno != 0) {
		errno = world.fail_errno;
		return -1;
	}
	if (world.during_call != NULL) {
		world.during_call(request, arg);
	}
	if (!program_speaks && ctl != NULL && ctl->cmd == NV_CTRL_TSG_SET_TIMESLICE) {
		uint64_t us = ((struct nv_timeslice_params *)(uintptr_t)ctl->params)->timeslice_us;
		CHECK(world.n_writes < 256);
		world.writes[world.n_writes++] = (struct slice_write){ctl->client, ctl->object, us};
		status = world.refuse_slice_status;
	}
	program_speaks = false;
	answer(request, arg);
	set_status(request, arg, status);
	return 0;
}

uint64_t shim_raw_now_ns(void)
{
	return (world.clock_stopped ? 0 : rbt_now_ns()) + world.clock_ns;
}

/* None that would go with such a clock. */
bool shim_raw_has_counter(void)
{
	return false;
}

bool shim_raw_is_control(int fd)
{
	char path[64], link[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, link, sizeof(link) - 1) > 0 && strstr(link, "nvidiactl") != NULL;
}

bool shim_raw_is_kfd(int fd)
{
	char path[64], link[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, link, sizeof(link) - 1) > 0 && strstr(link, "kfd") != NULL;
}

/* The agent is the test itself. */
int shim_raw_start_thread(void (*fn)(void))
{
	world.n_threads++;
	return world.no_threads ? -EAGAIN : 0;
}

int shim_raw_spawn(struct shim_spawn *p)
{
	world.n_spawned++;
	world.spawned = p;
	return 0;
}

static void gpu_path(uint32_t gpu, char *buf, size_t size)
{
	snprintf(buf, size, "%s/gpu%u", world.dir, gpu);
}

int shim_raw_open_gpu(uint32_t gpu)
{
	char path[128];

	gpu_path(gpu, path, sizeof(path));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int shim_raw_open_kfd(void)
{
	int fd = world.no_kfd ? -1 : memfd_create("kfd", MFD_CLOEXEC);

	return fd < 0 ? -ENOENT : fd;
}

ssize_t shim_raw_driver_version(char *buf, size_t size)
{
	if (world.driver_version == NULL) {
		return -ENOENT;
	}
	return snprintf(buf, size, "%s", world.driver_version);
}

static void put_env(const char *name, const char *value)
{
	if (value != NULL) {
		setenv(name, value, 1);
	} else {
		unsetenv(name);
	}
}

void world_start(const char *priority, const char *socket, const char *no_daemon)
{
	char path[128], treat[64];

	for (uint32_t gpu = 0; gpu < 4; gpu++) {
		gpu_path(gpu, path, sizeof(path));
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		CHECK(fd >= 0);
		close(fd);
	}
	snprintf(world.socket_path, sizeof(world.socket_path), "%s/socket", world.dir);
	snprintf(treat, sizeof(treat), "priority=%s", priority != NULL ? priority : "");
	put_env(RBT_ENV_TREAT, priority != NULL ? treat : NULL);
	put_env(RBT_ENV_SOCKET, socket != NULL && *socket == '\0' ? world.socket_path : socket);
	put_env(RBT_ENV_NO_DAEMON, no_daemon);
	put_env("RUBATO_TREAT_TIMESLICE_US", NULL);
	put_env("RUBATO_TREAT_FORCE", NULL);
	put_env("RUBATO_PRIORITY", NULL);
	world.device_fd = memfd_create("nvidiactl", MFD_CLOEXEC);
	world.kfd_fd = memfd_create("kfd", MFD_CLOEXEC);
	CHECK(world.device_fd >= 0 && world.kfd_fd >= 0);
	world.driver_version =
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  "
		"Release Build\n";
}

uint64_t last_write(uint32_t object)
{
	for (unsigned i = world.n_writes; i > 0; i--) {
		if (world.writes[i - 1].object == object) {
			return world.writes[i - 1].us;
		}
	}
	return 0;
}

int lock_gpu(uint32_t gpu)
{
	char path[128];

	gpu_path(gpu, path, sizeof(path));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int call(unsigned long request, void *arg)
{
	program_speaks = true;
	return rbt_shim_call(world.device_fd, request, arg);
}

uint32_t rm_alloc(uint32_t client, uint32_t parent, uint32_t object, uint32_t hclass)
{
	struct nv_alloc64 a = {
		.root = client, .parent = parent, .object = object, .hclass = hclass};

	call(NV_IOCTL_ALLOC64, &a);
	return a.status;
}

uint32_t rm_alloc_tsg(uint32_t client, uint32_t device, uint32_t object, uint32_t engine)
{
	struct nv_tsg_params p = {.engine_type = engine};
	struct nv_alloc64 a = {
		.root = client,
		.parent = device,
		.object = object,
		.hclass = NV_CLASS_TSG,
		.params = (uintptr_t)&p,
		.params_size = sizeof(p),
	};

	call(NV_IOCTL_ALLOC64, &a);
	return a.status;
}

uint32_t rm_free(uint32_t client, uint32_t object)
{
	struct nv_free f = {.client = client, .object = object};

	call(NV_IOCTL_FREE, &f);
	return f.status;
}

uint32_t rm_control(uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
	struct nv_control c = {
		.client = client,
		.object = object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_size = size,
	};

	call(NV_IOCTL_CONTROL, &c);
	return c.status;
}

uint32_t rm_schedule(uint32_t client, uint32_t tsg, bool enable)
{
	struct nv_schedule_params p = {.enable = enable};

	return rm_control(client, tsg, NV_CTRL_TSG_GPFIFO_SCHEDULE, &p, sizeof(p));
}

uint32_t rm_set_timeslice(uint32_t client, uint32_t tsg, uint64_t us)
{
	struct nv_timeslice_params p = {.timeslice_us = us};

	return rm_control(client, tsg, NV_CTRL_TSG_SET_TIMESLICE, &p, sizeof(p));
}

uint32_t rm_token(uint32_t client, uint32_t channel, uint32_t token)
{
	struct nv_token_params p = {.token = token};

	return rm_control(client, channel, NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN, &p, sizeof(p));
}

void rm_nothing(void)
{
	uint32_t p[4] = {0};

	rm_control(CLIENT, SUBDEVICE, NV_CTRL_GPU_GET_NAME_STRING, p, sizeof(p));
}

void make_client(uint32_t client, uint32_t minor)
{
	placed[n_placed].client = client;
	placed[n_placed++].minor = minor;
	CHECK(rm_alloc(0, 0, client, NV_CLASS_ROOT_CLIENT) == 0);
	CHECK(rm_alloc(client, client, DEVICE, NV_CLASS_DEVICE) == 0);
	CHECK(rm_alloc(client, DEVICE, SUBDEVICE, NV_CLASS_SUBDEVICE) == 0);
}

void make_task(uint32_t client, uint32_t tsg, uint32_t engine)
{
	rm_alloc_tsg(client, DEVICE, tsg, engine);
	for (uint32_t i = 1; i <= 2; i++) {
		rm_alloc(client, tsg, tsg + i, NV_CLASS_CHANNEL_HOPPER);
		rm_token(client, tsg + i, (engine - 1) << 16 | i);
	}
	rm_schedule(client, tsg, true);
	if (engine == NV_ENGINE_TYPE_GRAPHICS) {
		rm_set_timeslice(client, tsg, NV_DEFAULT_COMPUTE_TIMESLICE_US);
	}
}

void daemon_listen(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	unlink(world.socket_path);
	memcpy(addr.sun_path, world.socket_path, sizeof(world.socket_path));
	world.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(bind(world.listener, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	CHECK(listen(world.listener, 8) == 0);
}

bool daemon_accept(void)
{
	rbt_close(&world.peer);
	world.peer = accept4(world.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return world.peer >= 0;
}

struct received *daemon_receive(void)
{
	static struct received m;
	static unsigned char buf[RBT_MSG_MAX];
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;
	ssize_t n = rbt_recv(world.peer, buf, sizeof(buf), fds, &n_fds, MSG_DONTWAIT);

	m = (struct received){.fd = -1};
	if (n <= 0) {
		m.type = n == -EAGAIN ? 0 : UINT32_MAX;
		return &m;
	}
	struct rbt_msg_header h;
	memcpy(&h, buf, sizeof(h));
	CHECK(h.magic == RBT_PROTOCOL_MAGIC);
	m.type = h.type;
	m.size = (size_t)n;
	m.fd = n_fds > 0 ? fds[0] : -1;
	/* Tells nothing about tasks: test_shim_memory.c receives it itself. */
	if (h.type == RBT_MSG_RUN) {
		CHECK(n == sizeof(struct rbt_msg_run) && n_fds <= 1);
		rbt_close(&m.fd);
		return daemon_receive();
	}
	if (h.type == RBT_MSG_BOARD) {
		CHECK(n == sizeof(h) && n_fds == 1);
	} else if (h.type == RBT_MSG_HELLO) {
		struct rbt_msg_treat treat;
		CHECK(n == sizeof(m.hello) && n_fds == 0);
		memcpy(&m.hello, buf, sizeof(m.hello));
		n = rbt_recv(world.peer, buf, sizeof(buf), fds, &n_fds, MSG_DONTWAIT);
		CHECK(n == sizeof(treat) && n_fds == 0);
		memcpy(&treat, buf, sizeof(treat));
		CHECK(treat.h.type == RBT_MSG_TREAT);
		CHECK(rbt_treatment_decode(&treat.treat, sizeof(treat.treat), &m.treat) == 0);
	} else if (h.type == RBT_MSG_CLIENT_GONE) {
		CHECK(n == sizeof(m.client) && n_fds == 0);
		memcpy(&m.client, buf, sizeof(m.client));
	} else {
		CHECK(h.type == RBT_MSG_RECORD && n_fds <= 1);
		memcpy(&m.record, buf, sizeof(m.record));
		size_t tasks = m.record.n_tasks * sizeof(struct rbt_task);
		size_t channels = m.record.n_channels * sizeof(uint32_t);
		CHECK((size_t)n == sizeof(m.record) + tasks + channels);
		memcpy(m.tasks, buf + sizeof(m.record), tasks);
		memcpy(m.channels, buf + sizeof(m.record) + tasks, channels);
	}
	return &m;
}

struct received *daemon_receive_last(void)
{
	static struct received last;

	last = (struct received){.fd = -1};
	for (;;) {
		struct received *m = daemon_receive();
		if (m->type == 0 || m->type == UINT32_MAX) {
			return &last;
		}
		rbt_close(&last.fd);
		last = *m;
	}
}

struct shim *table(void)
{
	CHECK(shim_peek() != NULL);
	return shim_peek();
}

bool known(uint32_t client, uint32_t handle, enum shim_type type)
{
	return shim_find_type(table(), client, handle, type) != NULL;
}

unsigned count_objects(void)
{
	struct shim *s = table();
	unsigned n = 0;

	for (unsigned i = 1; i <= s->n_used; i++) {
		n += s->objs[i].type != SHIM_FREE;
	}
	return n;
}

static int run_one(const struct test *t)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(TEST_LIMIT_S);
		signal(SIGPIPE, SIG_DFL);
		t->run();
		/* Not _exit(): the leak checker has its say. */
		exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	printf("%s %s\n", ok ? "ok" : "NOT OK", t->name);
	if (WIFSIGNALED(status)) {
		printf("# signal %d\n", WTERMSIG(status));
	}
	fflush(stdout);
	return ok ? 0 : 1;
}

void world_remove(void)
{
	char path[128];

	for (uint32_t gpu = 0; gpu < 4; gpu++) {
		gpu_path(gpu, path, sizeof(path));
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/socket", world.dir);
	unlink(path);
	rmdir(world.dir);
}

int run_tests(const struct test *tests, size_t n)
{
	int failed = 0;

	strcpy(world.dir, "/tmp/rubato-test-shim-XXXXXX");
	CHECK(mkdtemp(world.dir) != NULL);
	for (size_t i = 0; i < n; i++) {
		failed += run_one(&tests[i]);
	}
	world_remove();
	return failed > 0;
}
