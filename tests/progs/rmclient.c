/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speaks libcuda's opening dialogue to /dev/nvidiactl, in libcuda's order, and then lives on: what
 * a CUDA program looks like to everything that watches or attaches to one. Works on the software
 * GPU.
 *
 * Calls go through libc's ioctl(), so that a preloaded library sees them. Standard input takes
 * commands:
 *   more    a further context
 *   free    destroys the last context
 *   group   a further compute group, without channels, which is never scheduled
 *   slice   prints the timeslice of the last context's compute group
 *   user N  becomes user N for good
 *   hide    lets nobody but root look into it
 *   sibling  has another process in its memory, which makes a further context and outlives it
 *   filter N,...  may make only these system calls from now on
 *   children  what it has noticed of children (--count-children)
 *   quit
 * With --exec any line makes it run itself anew, without contexts; its device files close then.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "filter.h"
#include "softgpu/rm/params.h"

#define MAX_CONTEXTS    80
#define N_TSGS          4 /* one compute, three copy */
#define N_COPY_CHANNELS 4
#define MAX_CHANNELS    512
#define LIVE_MS         50
#define ORPHAN_S        3 /* how long a forked child outlives its parent */
#define BUSY_RETRY_MS   100

/* libcuda keeps its handles like this, over and over in its heap: what a search of its memory
 * finds. */
struct object {
	uint32_t client, device, parent, handle, hclass, pad[3];
};

struct context {
	struct object *tsgs[N_TSGS];
	struct object *memory;
	struct object *first, *subcontext;
	size_t n_objects;
	struct object **objects; /* in the order they were made */
};

static struct {
	int contexts, channels, gpu, delay_ms, setup_ms, memory_mib;
	bool old_alloc, threads, exec, fork, survive, no_tokens, count_children;
	double for_s;
	char **argv;
} opt = {.contexts = 1, .channels = 8};

static int ctl = -1, gpu_fd = -1, uvm_fd = -1;
static uint32_t client, device, subdevice;
static struct nv_check_version version = {.cmd = NV_CHECK_VERSION_QUERY};
static struct context contexts[MAX_CONTEXTS];
static int n_contexts;
static bool is_child;
static uint64_t n_calls, n_errors;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void failed(const char *what, uint32_t number, uint32_t status)
{
	/* Once: a program that survives its device meets the same error over and over. */
	if (n_errors++ == 0 && status != 0) {
		fprintf(stderr, "rmclient: %s 0x%x: RM status 0x%x\n", what, number, status);
	} else if (n_errors == 1) {
		fprintf(stderr, "rmclient: %s 0x%x: %s\n", what, number, strerror(errno));
	}
	if (!opt.survive) {
		exit(1);
	}
}

static void sleep_ms(int ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&ts, NULL);
}

static bool control(uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
	struct nv_control c = {.client = client,
		.object = object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_size = size};

	/* As libcuda does when RM is told to put a program off. */
	do {
		c.status = 0;
		if (ioctl(ctl, NV_IOCTL_CONTROL, &c) < 0) {
			failed("control", cmd, 0);
			return false;
		}
		if (c.status == NV_ERR_BUSY_RETRY) {
			sleep_ms(BUSY_RETRY_MS);
		}
	} while (c.status == NV_ERR_BUSY_RETRY);
	if (c.status != NV_OK) {
		failed("control", cmd, c.status);
		return false;
	}
	return true;
}

static uint32_t alloc(uint32_t parent, uint32_t hclass, void *params, uint32_t size)
{
	struct nv_alloc64 a = {
		.root = client, .parent = parent, .hclass = hclass, .params = (uintptr_t)params};
	struct nv_alloc21 b = {
		.root = client, .parent = parent, .hclass = hclass, .params = (uintptr_t)params};

	a.params_size = b.params_size = size;
	int r = opt.old_alloc ? ioctl(ctl, NV_IOCTL_ALLOC21, &b) : ioctl(ctl, NV_IOCTL_ALLOC64, &a);
	uint32_t status = opt.old_alloc ? b.status : a.status;
	if (r < 0 || status != NV_OK) {
		failed("allocation of class", hclass, r < 0 ? 0 : status);
		return 0;
	}
	return opt.old_alloc ? b.object : a.object;
}

static struct object *add(
	struct context *x, uint32_t parent, uint32_t hclass, void *params, uint32_t size)
{
	struct object *o = calloc(1, sizeof(*o));

	if (o == NULL || x->n_objects == MAX_CHANNELS * 2 + 64) {
		fprintf(stderr, "rmclient: too many objects\n");
		exit(1);
	}
	*o = (struct object){
		.client = client, .device = device, .parent = parent, .hclass = hclass};
	o->handle = alloc(parent, hclass, params, size);
	x->objects[x->n_objects++] = o;
	return o;
}

/* Group, channels, tokens, engines, and only then: on to the runlist. */
static struct object *add_group(
	struct context *x, uint32_t engine, uint32_t engine_class, int n_channels)
{
	struct nv_tsg_params params = {.engine_type = engine};
	struct nv_schedule_params schedule = {.enable = 1};
	struct nv_token_params token;
	uint8_t channel_params[368] = {0};
	struct object *channels[MAX_CHANNELS];
	struct object *tsg = add(x, device, NV_CLASS_TSG, &params, sizeof(params));

	if (engine == NV_ENGINE_TYPE_GRAPHICS) {
		uint32_t subcontext_params[3] = {0};
		x->subcontext = add(x, tsg->handle, NV_CLASS_SUBCONTEXT, subcontext_params,
			sizeof(subcontext_params));
	}
	for (int i = 0; i < n_channels; i++) {
		channels[i] = add(x, tsg->handle, NV_CLASS_CHANNEL_HOPPER, channel_params,
			sizeof(channel_params));
		add(x, channels[i]->handle, engine_class, NULL, 0);
	}
	for (int i = 0; i < n_channels && !opt.no_tokens; i++) {
		control(channels[i]->handle, NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN, &token,
			sizeof(token));
	}
	control(tsg->handle, NV_CTRL_TSG_GPFIFO_SCHEDULE, &schedule,
		atoi(version.version) < 575 ? NV_SCHEDULE_PARAMS_SIZE_BEFORE_575
					    : NV_SCHEDULE_PARAMS_SIZE);
	return tsg;
}

static void make_context(struct context *x)
{
	struct nv_memory_params memory = {.size = (uint64_t)opt.memory_mib << 20};
	struct nv_ctxsw_params ctxsw = {.flags = NV_CTXSW_FLAG_CILP, .cilp_mode = NV_CTXSW_CILP};
	struct nv_timeslice_params slice = {.timeslice_us = NV_DEFAULT_COMPUTE_TIMESLICE_US};

	*x = (struct context){.objects = calloc(MAX_CHANNELS * 2 + 64, sizeof(struct object *))};
	if (x->objects == NULL) {
		exit(1);
	}
	if (opt.memory_mib > 0) {
		x->memory = add(x, device, NV_CLASS_MEMORY_LOCAL, &memory, sizeof(memory));
	}
	x->tsgs[0] = add_group(x, NV_ENGINE_TYPE_GRAPHICS, NV_CLASS_COMPUTE_HOPPER, opt.channels);
	for (uint32_t i = 1; i < N_TSGS; i++) {
		x->tsgs[i] = add_group(
			x, NV_ENGINE_TYPE_COPY0 + i - 1, NV_CLASS_COPY_HOPPER, N_COPY_CHANNELS);
	}
	ctxsw.channel = x->tsgs[0]->handle;
	control(subdevice, NV_CTRL_GR_SET_CTXSW_PREEMPTION_MODE, &ctxsw, sizeof(ctxsw));
	sleep_ms(opt.setup_ms);
	/* Last of all, as libcuda does: a slice set by anybody before is lost. */
	control(x->tsgs[0]->handle, NV_CTRL_TSG_SET_TIMESLICE, &slice, sizeof(slice));
}

static void *context_thread(void *data)
{
	pthread_mutex_lock(&lock);
	make_context(data);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void more(void)
{
	pthread_t thread;

	if (n_contexts == MAX_CONTEXTS) {
		fprintf(stderr, "rmclient: no room for another context\n");
		return;
	}
	sleep_ms(opt.delay_ms);
	if (opt.threads &&
		pthread_create(&thread, NULL, context_thread, &contexts[n_contexts]) == 0) {
		pthread_join(thread, NULL);
	} else {
		make_context(&contexts[n_contexts]);
	}
	n_contexts++;
}

static void free_last(void)
{
	if (n_contexts == 0) {
		return;
	}
	struct context *x = &contexts[--n_contexts];
	for (size_t i = x->n_objects; i > 0; i--) {
		struct object *o = x->objects[i - 1];
		struct nv_free f = {.client = client, .parent = o->parent, .object = o->handle};
		/* Channels and engines go with their group. */
		bool top = o->parent == device;
		if (top && (ioctl(ctl, NV_IOCTL_FREE, &f) < 0 || f.status != NV_OK)) {
			failed("free of object", o->handle, f.status);
		}
		free(o);
	}
	free(x->objects);
}

/* cuInit: the nodes, the version, the cards, the client and its device. */
static void open_device(void)
{
	struct nv_card_info cards[NV_MAX_GPUS] = {0};
	struct nv_sys_params sys = {0};
	struct nv_attached_ids_params ids;
	struct nv_device_params device_params = {.device_id = (uint32_t)opt.gpu};
	struct nv_subdevice_params subdevice_params = {0};
	char path[32];

	ctl = open(NV_CTL_PATH, O_RDWR | O_CLOEXEC);
	if (ctl < 0) {
		failed("open of " NV_CTL_PATH, 0, 0);
		exit(1);
	}
	if (ioctl(ctl, NV_IOCTL_CHECK_VERSION, &version) < 0) {
		failed("version check", 0, 0);
	}
	if (ioctl(ctl, _IOWR(NV_IOCTL_TYPE, NV_ESC_SYS_PARAMS, struct nv_sys_params), &sys) < 0) {
		failed("system parameters", 0, 0);
	}
	if (ioctl(ctl, NV_IOCTL_CARD_INFO, cards) < 0) {
		failed("card info", 0, 0);
	}
	client = alloc(0, NV_CLASS_ROOT_CLIENT, NULL, 0);
	control(client, NV_CTRL_GPU_GET_ATTACHED_IDS, &ids, sizeof(ids));
	uvm_fd = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), NV_GPU_PATH_FMT, (unsigned)opt.gpu);
	gpu_fd = open(path, O_RDWR | O_CLOEXEC);
	if (gpu_fd < 0) {
		failed("open of GPU", (uint32_t)opt.gpu, 0);
		exit(1);
	}
	struct nv_register_fd reg = {.ctl_fd = ctl};
	if (ioctl(gpu_fd, NV_IOCTL_REGISTER_FD, &reg) < 0) {
		failed("registering the control node", 0, 0);
	}
	device = alloc(client, NV_CLASS_DEVICE, &device_params, sizeof(device_params));
	subdevice = alloc(device, NV_CLASS_SUBDEVICE, &subdevice_params, sizeof(subdevice_params));
}

static void announce(void)
{
	const char *comma = "";

	printf("ready pid=%d client=0x%x tsgs=", (int)getpid(), client);
	for (int i = 0; i < n_contexts; i++) {
		for (int t = 0; t < N_TSGS; t++) {
			printf("%s0x%x", comma, contexts[i].tsgs[t]->handle);
			comma = ",";
		}
	}
	printf("\n");
	fflush(stdout);
}

static uint64_t read_slice(void)
{
	struct nv_timeslice_params slice = {0};

	if (n_contexts > 0) {
		control(contexts[n_contexts - 1].tsgs[0]->handle, NV_CTRL_TSG_GET_TIMESLICE, &slice,
			sizeof(slice));
		n_calls++;
	}
	return slice.timeslice_us;
}

static atomic_bool is_sibling_ready;

/* libc takes the two for one thread: as long as the first one lives, this one only sleeps. */
static int be_sibling(void *parent)
{
	more();
	is_sibling_ready = true;
	while (getppid() == *(pid_t *)parent) {
		sleep_ms(LIVE_MS);
	}
	for (int ms = 0; ms < ORPHAN_S * 1000; ms += LIVE_MS) {
		read_slice();
		sleep_ms(LIVE_MS);
	}
	_exit(0);
}

static void make_sibling(void)
{
	static char stack[1 << 18] __attribute__((aligned(16)));
	static pid_t self;

	self = getpid();
	int pid = clone(be_sibling, stack + sizeof(stack),
		CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD, &self);
	while (pid > 0 && !is_sibling_ready) {
		sleep_ms(1);
	}
	printf("sibling %d\n", pid);
	fflush(stdout);
}

static _Atomic unsigned n_sigchld, n_waited, n_forks;

static void on_sigchld(int number)
{
	n_sigchld++;
}

static void on_fork(void)
{
	n_forks++;
}

static void *wait_for_children(void *data)
{
	for (;;) {
		if (wait(NULL) > 0) {
			n_waited++;
		} else if (errno == ECHILD) {
			return NULL;
		}
	}
}

/* Has a child of its own, and a thread that waits for whichever child ends. */
static void count_children(void)
{
	pthread_t thread;

	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			pause();
		}
	}
	signal(SIGCHLD, on_sigchld);
	pthread_atfork(on_fork, on_fork, on_fork);
	if (pthread_create(&thread, NULL, wait_for_children, NULL) != 0) {
		exit(1);
	}
}

/* Returns false to end. */
static bool obey(const char *line)
{
	if (opt.exec) {
		char *argv[] = {opt.argv[0], (char *)"--contexts", (char *)"0", NULL};
		execv("/proc/self/exe", argv);
		failed("exec", 0, 0);
	} else if (strcmp(line, "more") == 0) {
		if (ctl < 0) {
			open_device();
		}
		more();
		announce();
	} else if (strcmp(line, "free") == 0) {
		free_last();
		announce();
	} else if (strcmp(line, "group") == 0) {
		struct nv_tsg_params params = {.engine_type = NV_ENGINE_TYPE_GRAPHICS};
		printf("group 0x%x\n", alloc(device, NV_CLASS_TSG, &params, sizeof(params)));
		fflush(stdout);
	} else if (strcmp(line, "slice") == 0) {
		printf("slice %llu\n", (unsigned long long)read_slice());
		fflush(stdout);
	} else if (strncmp(line, "user ", 5) == 0) {
		uid_t uid = (uid_t)strtoul(line + 5, NULL, 10);
		printf("user %d\n", setresgid(uid, uid, uid) | setresuid(uid, uid, uid));
		fflush(stdout);
	} else if (strcmp(line, "sibling") == 0) {
		make_sibling();
	} else if (strcmp(line, "hide") == 0) {
		printf("hide %d\n", prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
		fflush(stdout);
	} else if (strncmp(line, "filter ", 7) == 0) {
		printf("%d ok\n", filter_install(line + 7));
		fflush(stdout);
	} else if (strcmp(line, "children") == 0) {
		printf("children signals=%u waited=%u forks=%u\n", n_sigchld, n_waited, n_forks);
		fflush(stdout);
	} else if (strcmp(line, "quit") == 0) {
		return false;
	} else if (line[0] != '\0') {
		fprintf(stderr, "rmclient: unknown command '%s'\n", line);
	}
	return true;
}

/* Until quit, --for is over, or killed; at the end of standard input it goes on. */
static void live(void)
{
	static struct client_input in = {.fd = STDIN_FILENO};
	double end_s = opt.for_s > 0 ? client_now_s() + opt.for_s : 0;
	pid_t parent = getppid();

	while (end_s == 0 || client_now_s() < end_s) {
		struct pollfd p = {.fd = in.fd, .events = POLLIN};
		int r = poll(&p, 1, LIVE_MS);
		if (r == 0) {
			read_slice();
		}
		if (is_child && end_s == 0 && getppid() != parent) {
			end_s = client_now_s() + ORPHAN_S;
		}
		if (r <= 0) {
			continue;
		}
		if (client_read(&in) && !obey(in.line)) {
			return;
		}
	}
}

static void usage(int code)
{
	fputs("usage: rmclient [--contexts N] [--gpu I] [--channels N] [--old-alloc] [--threads]\n"
	      "  [--memory-mib N] [--delay-ms N] [--exec] [--fork] [--for SECONDS] [--survive]\n"
	      "  [--no-tokens] [--count-children]\n",
		code == 0 ? stdout : stderr);
	exit(code);
}

/* Options without a value. */
static bool take_flag(int c)
{
	switch (c) {
	case 'o':
		opt.old_alloc = true;
		return true;
	case 't':
		opt.threads = true;
		return true;
	case 'e':
		opt.exec = true;
		return true;
	case 'f':
		opt.fork = true;
		return true;
	case 'v':
		opt.survive = true;
		return true;
	case 'k':
		opt.no_tokens = true;
		return true;
	case 'C':
		opt.count_children = true;
		return true;
	default:
		return false;
	}
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {{"contexts", 1, NULL, 'c'}, {"gpu", 1, NULL, 'g'},
		{"channels", 1, NULL, 'n'}, {"old-alloc", 0, NULL, 'o'}, {"threads", 0, NULL, 't'},
		{"memory-mib", 1, NULL, 'm'}, {"delay-ms", 1, NULL, 'd'}, {"exec", 0, NULL, 'e'},
		{"fork", 0, NULL, 'f'}, {"for", 1, NULL, 's'}, {"survive", 0, NULL, 'v'},
		{"setup-ms", 1, NULL, 'u'}, {"no-tokens", 0, NULL, 'k'},
		{"count-children", 0, NULL, 'C'}, {"help", 0, NULL, 'h'}, {0}};
	int c;

	opt.argv = argv;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'c':
			opt.contexts = client_count(optarg, 0, MAX_CONTEXTS, usage);
			break;
		case 'g':
			opt.gpu = client_count(optarg, 0, NV_MAX_GPUS - 1, usage);
			break;
		case 'n':
			opt.channels = client_count(optarg, 1, MAX_CHANNELS, usage);
			break;
		case 'm':
			opt.memory_mib = client_count(optarg, 0, 1 << 30, usage);
			break;
		case 'd':
			opt.delay_ms = client_count(optarg, 0, 60000, usage);
			break;
		case 'u':
			opt.setup_ms = client_count(optarg, 0, 60000, usage);
			break;
		case 's':
			opt.for_s = strtod(optarg, NULL);
			break;
		default:
			if (!take_flag(c)) {
				usage(c == 'h' ? 0 : 2);
			}
		}
	}
	if (optind < argc) {
		usage(2);
	}
}

int main(int argc, char **argv)
{
	pid_t child = 0;

	parse(argc, argv);
	if (opt.count_children) {
		count_children();
	}
	if (opt.contexts > 0) {
		open_device();
	}
	for (int i = 0; i < opt.contexts; i++) {
		more();
	}
	announce();
	if (opt.fork && (child = fork()) == 0) {
		/* CUDA does not survive a fork: the child opens the device for itself, and keeps
		 * what it inherited. */
		is_child = true;
		n_contexts = 0;
		open_device();
		more();
		announce();
		int null = open("/dev/null", O_RDONLY);
		dup2(null, STDIN_FILENO);
	}
	live();
	if (child > 0 && opt.for_s == 0) {
		kill(child, SIGTERM);
	}
	if (child > 0) {
		waitpid(child, NULL, 0);
	}
	printf("done calls=%llu errors=%llu\n", (unsigned long long)n_calls,
		(unsigned long long)n_errors);
	return 0;
}
