/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speaks the HSA runtime's opening dialogue to /dev/kfd: version, apertures, address spaces, the
 * runtime handshake, queues with ring, pointers and save area; and then lives on, moving write
 * pointers and ringing doorbells. What a ROCm program looks like to everything that watches or
 * debugs one. Works on the software GPU.
 *
 * Standard input takes commands, each answered by a line:
 *   more        a further compute queue             free      destroys the last queue
 *   submit N    N packets into every queue          drain     waits until all have been run
 *   queues      write and read pointers             saved     bytes of wave state in save areas
 *   runtime     starts the runtime (--no-runtime)   stop      ends it
 *   toggle N    ends and starts it N times
 *   silent N    N packets into every queue, with no doorbell rung
 *   set P R     percentage and priority of all     ring      a new ring for the first queue
 *   signals     SIGUSR1s that arrived               exec      becomes another program
 *   leave       ends the main thread alone          outlive   the same; another thread goes on
 *   quit
 * and what is in odd.h. With --json it begins and ends as programs in bench/ do; these answer so:
 *   measure P N RATE SEED   N requests of P packets to the first queue, RATE a second
 *   count       packets run by compute queues       go, pause   with --busy or without
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "backend/amd/kfd_abi.h"
#include "client.h"
#include "odd.h"

#define RING_BYTES   65536u
#define PACKET_BYTES 64u
#define MAX_GPUS     8
#define TICK_MS      2
#define BUSY_PACKETS 16
#define SAVE_BYTES   0x8000u
#define DRAIN_MS     20000
#define DOORBELLS    8192u /* bytes that a process has on a GPU */
#define LOOK_US      200   /* how often the end of a request is looked for */

struct queue {
	uint32_t id, type;
	volatile uint64_t *wptr, *rptr, *bell;
	uint8_t *ring, *save;
	uint64_t seen; /* where the read pointer was: it never goes back */
};

static struct {
	int compute, sdma, gpu, memory_mib, depth;
	bool busy, no_runtime, old_queue, json;
	int churn_ms;
	double for_s;
} opt = {.compute = 2, .sdma = 2, .depth = BUSY_PACKETS};

static int kfd = -1;
static struct kfd_aperture gpus[MAX_GPUS];
static struct queue queues[KFD_MAX_QUEUES];
static int n_queues;
static uint64_t submitted;
static uint8_t *doorbells; /* of the GPU */
static volatile sig_atomic_t n_signals;

static void die(const char *what)
{
	fprintf(stderr, "kfdclient: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void call(unsigned long request, void *arg, const char *what)
{
	if (ioctl(kfd, request, arg) < 0) {
		die(what);
	}
}

static void open_device(void)
{
	struct kfd_version version = {0};
	struct kfd_apertures ap = {0};

	kfd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	if (kfd < 0) {
		die(KFD_PATH);
	}
	call(KFD_IOC_GET_VERSION, &version, "version");
	/* How many first: the driver refuses more room than there are nodes. */
	call(KFD_IOC_APERTURES, &ap, "apertures");
	ap.n = ap.n < MAX_GPUS ? ap.n : MAX_GPUS;
	ap.list_ptr = (uintptr_t)gpus;
	call(KFD_IOC_APERTURES, &ap, "apertures");
	if (version.major != KFD_MAJOR || (int)ap.n <= opt.gpu) {
		fprintf(stderr, "kfdclient: KFD %u.%u with %u GPUs\n", version.major, version.minor,
			ap.n);
		exit(1);
	}
	/* As before 1.17: the shorter argument. */
	opt.old_queue = version.minor < KFD_MINOR_SDMA_ENGINE;
	for (uint32_t i = 0; i < ap.n; i++) {
		struct kfd_acquire_vm vm = {.drm_fd = (uint32_t)kfd, .gpu_id = gpus[i].gpu_id};
		call(KFD_IOC_ACQUIRE_VM, &vm, "acquire vm");
	}
	if (version.minor < KFD_MINOR_DEBUGGER) {
		opt.no_runtime = true;
	}
}

static void set_runtime(bool on)
{
	struct kfd_runtime_enable a = {.mode_mask = on ? KFD_RUNTIME_ENABLE_MODE : 0};

	call(KFD_IOC_RUNTIME_ENABLE, &a, "runtime");
}

static void allocate(int mib)
{
	struct kfd_alloc_memory a = {.size = (uint64_t)mib << 20,
		.gpu_id = gpus[opt.gpu].gpu_id,
		.flags = KFD_ALLOC_VRAM};

	if (mib > 0) {
		call(KFD_IOC_ALLOC_MEMORY, &a, "memory");
	}
}

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		die("mmap");
	}
	return p;
}

/* The page is the file's, the place in it the queue's. */
static volatile uint64_t *find_doorbell(uint64_t offset)
{
	if (doorbells == NULL) {
		doorbells = mmap(NULL, DOORBELLS, PROT_READ | PROT_WRITE, MAP_SHARED, kfd,
			(off_t)(offset & ~(uint64_t)(DOORBELLS - 1)));
		if (doorbells == MAP_FAILED) {
			die("doorbells");
		}
	}
	return (volatile uint64_t *)(doorbells + (offset & (DOORBELLS - 1)));
}

static void add_queue(uint32_t type)
{
	struct queue *q = &queues[n_queues];
	bool compute = type != KFD_QUEUE_SDMA;

	if (n_queues == KFD_MAX_QUEUES) {
		errno = ENOSPC;
		die("queues");
	}
	if (q->ring == NULL) {
		q->ring = map(RING_BYTES + SAVE_BYTES + 4096);
	}
	q->save = q->ring + RING_BYTES;
	q->wptr = (uint64_t *)(q->save + SAVE_BYTES);
	q->rptr = q->wptr + 8;
	*q->wptr = *q->rptr = q->seen = 0;
	q->type = type;
	struct kfd_create_queue a = {
		.ring_base_address = (uintptr_t)q->ring,
		.ring_size = RING_BYTES,
		.write_pointer_address = (uintptr_t)q->wptr,
		.read_pointer_address = (uintptr_t)q->rptr,
		.gpu_id = gpus[opt.gpu].gpu_id,
		.queue_type = type,
		.queue_percentage = 100,
		.queue_priority = 7,
		.ctx_save_restore_address = compute ? (uintptr_t)q->save : 0,
		.ctx_save_restore_size = compute ? SAVE_BYTES : 0,
	};
	call(opt.old_queue ? _IOC(_IOC_READ | _IOC_WRITE, KFD_IOCTL_TYPE, KFD_NR_CREATE_QUEUE,
				     KFD_CREATE_QUEUE_OLD_SIZE)
			   : KFD_IOC_CREATE_QUEUE,
		&a, "create queue");
	q->id = a.queue_id;
	q->bell = find_doorbell(a.doorbell_offset);
	n_queues++;
}

static void free_queue(void)
{
	if (n_queues > 0) {
		struct kfd_destroy_queue a = {.queue_id = queues[n_queues - 1].id};
		call(KFD_IOC_DESTROY_QUEUE, &a, "destroy queue");
		n_queues--;
	}
}

static void update(const struct queue *q, uint32_t percentage, uint32_t priority)
{
	struct kfd_update_queue a = {
		.ring_base_address = (uintptr_t)q->ring,
		.queue_id = q->id,
		.ring_size = RING_BYTES,
		.queue_percentage = percentage,
		.queue_priority = priority,
	};

	call(KFD_IOC_UPDATE_QUEUE, &a, "update queue");
}

/* Somewhere else, and half as far from where it was: an old address would be told from it. */
static void move_ring(void)
{
	uint8_t *ring = map(RING_BYTES);

	memcpy(ring, queues[0].ring, RING_BYTES);
	queues[0].ring = ring;
	update(&queues[0], 100, 7);
	printf("ring %p\n", (void *)ring);
}

/* Of the pointers: packets, or bytes. */
static uint64_t step(const struct queue *q)
{
	return q->type == KFD_QUEUE_COMPUTE_AQL ? 1 : PACKET_BYTES;
}

static uint64_t room(const struct queue *q)
{
	return RING_BYTES / PACKET_BYTES * step(q) - (*q->wptr - *q->rptr);
}

static void put_packets(struct queue *q, uint64_t packets)
{
	for (uint64_t i = 0; i < packets && room(q) >= step(q); i++) {
		uint64_t at = *q->wptr / step(q) % (RING_BYTES / PACKET_BYTES);
		memset(q->ring + at * PACKET_BYTES, (int)(submitted & 0xff), PACKET_BYTES);
		/* The packet is there before the pointer says so. */
		__atomic_store_n(q->wptr, *q->wptr + step(q), __ATOMIC_RELEASE);
		submitted++;
	}
}

static void submit(struct queue *q, uint64_t packets)
{
	put_packets(q, packets);
	/* The pointer is there before the GPU is told to look at it. */
	__atomic_store_n(q->bell, *q->wptr, __ATOMIC_RELEASE);
}

static void check_queues(void)
{
	for (int i = 0; i < n_queues; i++) {
		uint64_t rptr = *queues[i].rptr;
		if (rptr < queues[i].seen || rptr > *queues[i].wptr) {
			fprintf(stderr,
				"kfdclient: queue %u: read pointer %" PRIu64 " after %" PRIu64
				", write pointer %" PRIu64 "\n",
				queues[i].id, rptr, queues[i].seen, *queues[i].wptr);
			exit(1);
		}
		queues[i].seen = rptr;
	}
}

static void sleep_ms(int ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&ts, NULL);
}

static bool drain(void)
{
	for (int ms = 0; ms < DRAIN_MS; ms++) {
		bool done = true;
		check_queues();
		for (int i = 0; i < n_queues; i++) {
			done &= *queues[i].rptr == *queues[i].wptr;
		}
		if (done) {
			return true;
		}
		sleep_ms(1);
	}
	return false;
}

static void wait_for(double due_s)
{
	while (client_now_s() < due_s) {
		nanosleep(&(struct timespec){.tv_nsec = LOOK_US * 1000L}, NULL);
	}
}

/* They arrive by a Poisson process, and are served one after another. What the machine is late by
 * in noticing an arrival is no part of a request's time. */
static void measure(unsigned packets, unsigned n, double rate, unsigned seed)
{
	unsigned short state[3] = {(unsigned short)seed};
	double due_s = client_now_s(), end_s = due_s;

	printf("{\"latency_us\": [");
	for (unsigned i = 0; i < n; i++) {
		due_s += -log(1 - erand48(state)) / rate;
		bool idle = due_s >= end_s;
		wait_for(due_s);
		double start_s = idle ? client_now_s() : due_s;
		submit(&queues[0], packets);
		while (*queues[0].rptr < *queues[0].wptr) {
			nanosleep(&(struct timespec){.tv_nsec = LOOK_US * 1000L}, NULL);
		}
		end_s = client_now_s();
		printf("%s%.0f", i > 0 ? ", " : "", (end_s - start_s) * 1e6);
	}
	printf("]}\n");
}

static void count(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < n_queues; i++) {
		sum += queues[i].type == KFD_QUEUE_SDMA ? 0 : *queues[i].rptr;
	}
	printf("{\"count\": %" PRIu64 ", \"now_ns\": %.0f}\n", sum, client_now_s() * 1e9);
}

static bool obey_bench(const char *line)
{
	unsigned packets, n, seed;
	double rate;

	if (sscanf(line, "measure %u %u %lf %u", &packets, &n, &rate, &seed) == 4) {
		measure(packets, n, rate, seed);
	} else if (strcmp(line, "count") == 0) {
		count();
	} else if (strcmp(line, "go") == 0 || strcmp(line, "pause") == 0) {
		opt.busy = line[0] == 'g';
		puts("{}");
	} else {
		return false;
	}
	return true;
}

static void announce(void)
{
	if (opt.json) {
		printf("{\"ready\": \"kfdclient\", \"pid\": %d}\n", (int)getpid());
		return;
	}
	printf("ready pid=%d gpu=%u queues=", (int)getpid(), gpus[opt.gpu].gpu_id);
	for (int i = 0; i < n_queues; i++) {
		printf("%s%u", i > 0 ? "," : "", queues[i].id);
	}
	printf("\n");
}

static void print_queues(void)
{
	for (int i = 0; i < n_queues; i++) {
		printf("%s%u:%" PRIu64 "/%" PRIu64, i > 0 ? " " : "", queues[i].id, *queues[i].wptr,
			*queues[i].rptr);
	}
	printf("\n");
}

static void print_saved(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < n_queues; i++) {
		struct kfd_save_area_header header;
		memcpy(&header, queues[i].save, sizeof(header));
		sum += queues[i].type == KFD_QUEUE_SDMA ? 0 : header.wave_state_size;
	}
	printf("saved %" PRIu64 "\n", sum);
}

static void live(void);

static void *live_on(void *data)
{
	live();
	exit(0);
}

/* Returns false to end. */
static bool obey(const char *line)
{
	unsigned percentage, priority, times, packets;

	if (strcmp(line, "more") == 0) {
		add_queue(KFD_QUEUE_COMPUTE_AQL);
		announce();
	} else if (strcmp(line, "free") == 0) {
		free_queue();
		announce();
	} else if (strncmp(line, "submit ", 7) == 0) {
		for (int i = 0; i < n_queues; i++) {
			submit(&queues[i], strtoull(line + 7, NULL, 10));
		}
		printf("submitted %" PRIu64 "\n", submitted);
	} else if (sscanf(line, "silent %u", &packets) == 1) {
		for (int i = 0; i < n_queues; i++) {
			put_packets(&queues[i], packets);
		}
		puts("silent");
	} else if (strcmp(line, "drain") == 0) {
		puts(drain() ? "drained" : "stuck");
	} else if (strcmp(line, "queues") == 0) {
		print_queues();
	} else if (strcmp(line, "saved") == 0) {
		print_saved();
	} else if (strcmp(line, "runtime") == 0 || strcmp(line, "stop") == 0) {
		set_runtime(line[0] == 'r');
		puts(line);
	} else if (sscanf(line, "toggle %u", &times) == 1) {
		for (unsigned i = 0; i < 2 * times; i++) {
			set_runtime(i % 2 != 0);
		}
		puts("toggled");
	} else if (sscanf(line, "set %u %u", &percentage, &priority) == 2) {
		for (int i = 0; i < n_queues; i++) {
			update(&queues[i], percentage, priority);
		}
		puts("set");
	} else if (strcmp(line, "ring") == 0) {
		move_ring();
	} else if (strcmp(line, "signals") == 0) {
		printf("signals %d\n", (int)n_signals);
	} else if (strcmp(line, "exec") == 0) {
		execlp("sleep", "sleep", "60", (char *)NULL);
		die("exec");
	} else if (strcmp(line, "leave") == 0 || strcmp(line, "outlive") == 0) {
		puts("left");
		fflush(stdout);
		if (line[0] == 'o' && pthread_create(&(pthread_t){0}, NULL, live_on, NULL) != 0) {
			die("thread");
		}
		pthread_exit(NULL);
	} else if (strcmp(line, "quit") == 0) {
		return false;
	} else if (!obey_bench(line) && !odd_obey(line, kfd)) {
		printf("unknown command '%s'\n", line);
	}
	fflush(stdout);
	return true;
}

static void work(double *churned_s)
{
	check_queues();
	for (int i = 0; opt.busy && i < n_queues; i++) {
		uint64_t pending = (*queues[i].wptr - *queues[i].rptr) / step(&queues[i]);
		if (pending < (uint64_t)opt.depth) {
			submit(&queues[i], (uint64_t)opt.depth - pending);
		}
	}
	if (opt.churn_ms > 0 && client_now_s() - *churned_s > opt.churn_ms / 1e3) {
		*churned_s = client_now_s();
		if (rand() & 1 && n_queues > opt.compute + opt.sdma) {
			free_queue();
		} else if (n_queues < opt.compute + opt.sdma + 8) {
			add_queue(KFD_QUEUE_COMPUTE_AQL);
		}
	}
}

/* Until quit, --for is over, or killed; at the end of standard input it goes on, without --json. */
static void live(void)
{
	static struct client_input in = {.fd = STDIN_FILENO};
	double end_s = opt.for_s > 0 ? client_now_s() + opt.for_s : 0, churned_s = client_now_s();

	while (end_s == 0 || client_now_s() < end_s) {
		struct pollfd p = {.fd = in.fd, .events = POLLIN};
		bool idle = !opt.busy && opt.churn_ms == 0;
		if (poll(&p, 1, idle ? 50 : TICK_MS) <= 0) {
			work(&churned_s);
			continue;
		}
		if ((client_read(&in) && !obey(in.line)) || (opt.json && in.fd < 0)) {
			return;
		}
	}
}

static void usage(int code)
{
	fputs("usage: kfdclient [--queues N] [--sdma N] [--gpu I] [--memory-mib N] [--busy]\n"
	      "  [--depth PACKETS] [--churn-ms N] [--no-runtime] [--for SECONDS] [--json]\n",
		code == 0 ? stdout : stderr);
	exit(code);
}

static void parse(int argc, char **argv)
{
	/* --channels: as the conformance suite calls what a task has. */
	static const struct option longs[] = {{"queues", 1, NULL, 'q'}, {"channels", 1, NULL, 'q'},
		{"sdma", 1, NULL, 's'}, {"gpu", 1, NULL, 'g'}, {"memory-mib", 1, NULL, 'm'},
		{"busy", 0, NULL, 'b'}, {"churn-ms", 1, NULL, 'c'}, {"no-runtime", 0, NULL, 'n'},
		{"for", 1, NULL, 'f'}, {"depth", 1, NULL, 'd'}, {"json", 0, NULL, 'j'},
		{"help", 0, NULL, 'h'}, {0}};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'q':
			opt.compute = client_count(optarg, 0, KFD_MAX_QUEUES, usage);
			break;
		case 's':
			opt.sdma = client_count(optarg, 0, KFD_MAX_QUEUES, usage);
			break;
		case 'g':
			opt.gpu = client_count(optarg, 0, MAX_GPUS - 1, usage);
			break;
		case 'm':
			opt.memory_mib = client_count(optarg, 0, 1 << 20, usage);
			break;
		case 'b':
			opt.busy = true;
			break;
		case 'c':
			opt.churn_ms = client_count(optarg, 1, 60000, usage);
			break;
		case 'n':
			opt.no_runtime = true;
			break;
		case 'd':
			opt.depth = client_count(optarg, 1, RING_BYTES / PACKET_BYTES, usage);
			break;
		case 'j':
			opt.json = true;
			break;
		case 'f':
			opt.for_s = strtod(optarg, NULL);
			break;
		default:
			usage(c == 'h' ? 0 : 2);
		}
	}
	if (optind < argc) {
		usage(2);
	}
}

static void on_signal(int number)
{
	n_signals = n_signals + 1;
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	signal(SIGUSR1, on_signal);
	srand((unsigned)getpid());
	open_device();
	if (!opt.no_runtime) {
		set_runtime(true);
	}
	allocate(opt.memory_mib);
	for (int i = 0; i < opt.compute; i++) {
		add_queue(KFD_QUEUE_COMPUTE_AQL);
	}
	for (int i = 0; i < opt.sdma; i++) {
		add_queue(KFD_QUEUE_SDMA);
	}
	announce();
	fflush(stdout);
	live();
	if (!opt.json) {
		printf("done submitted=%" PRIu64 "\n", submitted);
	}
	return 0;
}
