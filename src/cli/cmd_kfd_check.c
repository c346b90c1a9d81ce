/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report from a machine with an AMD GPU, which its user can send to the developers: the latency
 * of every call, whether pointers stand still while queues are suspended, and the effect of classes
 * on two programs. The report names no program, user, machine, path, process or address.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/amd/sysfs.h"
#include "cli/cmd_kfd.h"
#include "cli/cmd_kfd_times.h"
#include "util/log.h"
#include "util/time.h"

#define ITERATIONS      100u
#define HOLD_MS         2u
#define SETTLE_MS       1000u
#define SAMPLE_MS       3000u
#define MAX_LINE        512
#define VERDICT_COLUMNS 19 /* of doctor's lines */
#define REPORT_NAME     "rubato-kfd-report.txt"

enum call {
	CALL_OPEN,
	CALL_ENABLE,
	CALL_SNAPSHOT,
	CALL_SUSPEND,
	CALL_RESUME,
	CALL_DISABLE,
	N_CALLS
};

struct check {
	pid_t pid, other; /* other: 0 without one */
	const char *path;
	bool force;
	FILE *out; /* owned */
	struct kfd_times times[N_CALLS];
	uint32_t n_done, n_whole;  /* iterations; those in which every queue obeyed */
	uint32_t n_still, n_moved; /* pointers, while suspended; between iterations */
	uint64_t sum;              /* of read pointers, before */
};

static void pause_ms(uint64_t ms)
{
	struct timespec ts = {
		.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

	(void)nanosleep(&ts, NULL);
}

/* Runs the `rubato` in this program's folder, with its output to `fd`. Its exit status, or -1. */
static int run_rubato(const char *const *args, int fd)
{
	char path[4096], *argv[8] = {path};
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("/rubato"));
	int status = 0;

	path[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(path, '/');
	if (slash == NULL) {
		return -1;
	}
	memcpy(slash, "/rubato", sizeof("/rubato"));
	for (size_t i = 0; args[i] != NULL && i + 2 < sizeof(argv) / sizeof(argv[0]); i++) {
		argv[i + 1] = (char *)args[i];
	}
	pid_t child = fork();
	if (child == 0) {
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		execv(path, argv);
		_exit(127);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Removes " at 0000:03:00.0": PCI addresses tell machines apart. */
static void remove_pci_addresses(char *line)
{
	char *at = line;

	while ((at = strstr(at, " at ")) != NULL) {
		unsigned domain, bus, device, function;
		int len = 0;
		if (sscanf(at, " at %4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &len) ==
			4) {
			memmove(at, at + len, strlen(at + len) + 1);
		} else {
			at++;
		}
	}
}

/* A line that contains a path is cut down to its verdict and subject. */
static void report_doctor(struct check *c)
{
	FILE *text = tmpfile();
	char line[MAX_LINE];

	if (text == NULL) {
		return;
	}
	fprintf(c->out, "\ndoctor:\n");
	int code = run_rubato((const char *const[]){"doctor", NULL}, fileno(text));
	rewind(text);
	while (code >= 0 && fgets(line, sizeof(line), text) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		remove_pci_addresses(line);
		fprintf(c->out, "  %.*s\n", strchr(line, '/') != NULL ? VERDICT_COLUMNS : MAX_LINE,
			line);
	}
	fclose(text);
}

static int report_machine(struct check *c, struct rubato_kfd *kfd)
{
	struct rbt_amd_topology *t = malloc(sizeof(*t));
	struct kfd_version version = {0};
	struct utsname name;
	int r = t == NULL ? -ENOMEM : rbt_amd_topology_read(KFD_SYSFS_PATH, t);

	if (r == 0) {
		(void)ioctl(rubato_kfd_fd(kfd), KFD_IOC_GET_VERSION, &version);
		(void)uname(&name);
		/* What follows the numbers was chosen by whoever built the kernel. */
		name.release[strspn(name.release, "0123456789.")] = '\0';
		fprintf(c->out, "rubato %s\nkernel %s %s, KFD %u.%u, %u GPU%s\n", RUBATO_VERSION,
			name.release, name.machine, version.major, version.minor, t->n,
			t->n == 1 ? "" : "s");
	}
	for (uint32_t i = 0; r == 0 && i < t->n; i++) {
		const struct rbt_amd_gpu *gpu = &t->gpus[i];
		fprintf(c->out, "gpu %u: gfx %u, %u SIMDs, save area %u bytes, %" PRIu64 " MiB\n",
			gpu->number, gpu->gfx_target_version, gpu->simd_count, gpu->cwsr_size,
			gpu->memory_bytes >> 20);
	}
	free(t);
	return r;
}

static uint64_t took(struct check *c, enum call call, uint64_t since_ns)
{
	uint64_t now_ns = rbt_now_ns();

	kfd_times_add(&c->times[call], (now_ns - since_ns) / RBT_NS_PER_US);
	return now_ns;
}

static uint64_t sum_of_pointers(const struct rubato_kfd_snapshot *snap)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < snap->n_queues; i++) {
		sum += snap->queues[i].read_pointer;
	}
	return sum;
}

/* Looks twice while the queues are suspended: their read pointers must not have moved. */
static int watch_pointers(struct check *c, struct rubato_kfd *kfd)
{
	struct rubato_kfd_snapshot *first, *second;
	int r = rubato_kfd_snapshot_take(kfd, c->pid, &first);

	if (r < 0) {
		return r;
	}
	pause_ms(HOLD_MS);
	r = rubato_kfd_snapshot_take(kfd, c->pid, &second);
	if (r == 0) {
		uint64_t sum = sum_of_pointers(first);
		c->n_still += sum == sum_of_pointers(second);
		c->n_moved += c->n_done > 0 && sum != c->sum;
		c->sum = sum;
		rubato_kfd_snapshot_free(second);
	}
	rubato_kfd_snapshot_free(first);
	return r;
}

static int suspend_once(struct check *c, struct rubato_kfd *kfd)
{
	struct rubato_kfd_snapshot *snap;
	uint32_t ids[RUBATO_KFD_MAX_QUEUES], again[RUBATO_KFD_MAX_QUEUES], n;
	uint64_t at_ns = rbt_now_ns();
	int r = rubato_kfd_snapshot_take(kfd, c->pid, &snap);

	if (r < 0) {
		return r;
	}
	at_ns = took(c, CALL_SNAPSHOT, at_ns);
	n = snap->n_queues;
	for (uint32_t i = 0; i < n; i++) {
		ids[i] = again[i] = snap->queues[i].id;
	}
	rubato_kfd_snapshot_free(snap);
	int off = rubato_kfd_suspend(kfd, c->pid, ids, n, 1);
	if (off < 0) {
		return off;
	}
	took(c, CALL_SUSPEND, at_ns);
	r = watch_pointers(c, kfd);
	at_ns = rbt_now_ns();
	int on = rubato_kfd_resume(kfd, c->pid, again, n);
	took(c, CALL_RESUME, at_ns);
	c->n_whole += off == (int)n && on == (int)n && n > 0;
	return on < 0 ? on : r;
}

/* Makes every call once, from opening the device to the end of the session. */
static int iterate(struct check *c)
{
	struct rubato_kfd *kfd = NULL;
	uint64_t at_ns = rbt_now_ns();
	int r = rubato_kfd_open(&kfd);

	r = r < 0 ? r : rubato_kfd_fd(kfd);
	if (r >= 0) {
		at_ns = took(c, CALL_OPEN, at_ns);
		r = kfd_attach(kfd, c->pid);
	}
	if (r >= 0) {
		took(c, CALL_ENABLE, at_ns);
		r = suspend_once(c, kfd);
		at_ns = rbt_now_ns();
		(void)rubato_kfd_detach(kfd, c->pid);
		took(c, CALL_DISABLE, at_ns);
		c->n_done++;
	}
	rubato_kfd_close(kfd);
	return r < 0 ? r : 0;
}

static void report_calls(struct check *c)
{
	static const char *const names[N_CALLS] = {
		"open", "enable", "snapshot", "suspend", "resume", "disable"};

	fprintf(c->out, "\nlatency, us     n    min    p50    p90    p99    max\n");
	for (int i = 0; i < N_CALLS; i++) {
		struct kfd_times *t = &c->times[i];
		fprintf(c->out,
			"  %-9s %5zu %6" PRIu64 " %6" PRIu64 " %6" PRIu64 " %6" PRIu64 " %6" PRIu64
			"\n",
			names[i], t->n, kfd_times_quantile(t, 0), kfd_times_quantile(t, 0.5),
			kfd_times_quantile(t, 0.9), kfd_times_quantile(t, 0.99),
			kfd_times_quantile(t, 1));
	}
	fprintf(c->out,
		"\nsuspended and resumed whole: %u of %u\n"
		"pointers still while suspended: %u of %u\n"
		"pointers moved from one suspend to the next: %u of %u\n",
		c->n_whole, c->n_done, c->n_still, c->n_done, c->n_moved,
		c->n_done > 0 ? c->n_done - 1 : 0);
}

/* The addresses of a program's read pointers, which can be read without debugging the program. */
struct places {
	pid_t pid;
	uint32_t n;
	uint64_t at[RUBATO_KFD_MAX_QUEUES];
};

static int find_places(pid_t pid, struct places *ret)
{
	struct rubato_kfd_snapshot *snap = NULL;
	struct rubato_kfd *kfd = NULL;
	int r = rubato_kfd_open(&kfd);

	r = r < 0 ? r : kfd_attach(kfd, pid);
	r = r < 0 ? r : rubato_kfd_snapshot_take(kfd, pid, &snap);
	*ret = (struct places){.pid = pid};
	for (uint32_t i = 0; r == 0 && i < snap->n_queues; i++) {
		const struct rubato_kfd_queue *q = &snap->queues[i];
		if (q->type == RUBATO_KFD_COMPUTE || q->type == RUBATO_KFD_AQL) {
			ret->at[ret->n++] = q->read_pointer_address;
		}
	}
	rubato_kfd_snapshot_free(snap);
	rubato_kfd_close(kfd);
	return r;
}

static uint64_t progress(const struct places *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		uint64_t word = 0;
		struct iovec local = {.iov_base = &word, .iov_len = sizeof(word)},
			     remote = {.iov_base = (void *)(uintptr_t)p->at[i],
				     .iov_len = sizeof(word)};
		(void)process_vm_readv(p->pid, &local, 1, &remote, 1, 0);
		sum += word;
	}
	return sum;
}

static void report_rates(struct check *c, const char *what, const struct places two[2])
{
	pause_ms(SETTLE_MS);
	uint64_t start_ns = rbt_now_ns(), a = progress(&two[0]), b = progress(&two[1]);
	pause_ms(SAMPLE_MS);
	uint64_t end_a = progress(&two[0]), end_b = progress(&two[1]);
	double s = (double)(rbt_now_ns() - start_ns) / 1e9;

	fprintf(c->out, "  %-32s %10.1f %10.1f\n", what, (double)(end_a - a) / s,
		(double)(end_b - b) / s);
}

static int renice(pid_t pid, const char *class)
{
	char number[16];
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	snprintf(number, sizeof(number), "%d", (int)pid);
	int code =
		run_rubato((const char *const[]){"renice", number, "--class", class, NULL}, null);
	close(null);
	return code;
}

static int end_early(struct check *c, pid_t pid, int error)
{
	fprintf(c->out, "\nended early: %s\n", strerror(-error));
	return kfd_failed(&cmd_kfd_check, pid, error);
}

/* Returns an exit code. */
static int report_classes(struct check *c)
{
	static struct places two[2];

	for (int i = 0; i < 2; i++) {
		pid_t pid = i == 0 ? c->pid : c->other;
		int r = find_places(pid, &two[i]);
		if (r < 0) {
			return end_early(c, pid, r);
		}
	}
	fprintf(c->out, "\nread pointers, moves a second           first     second\n");
	report_rates(c, "as they are", two);
	/* A program that no user has given a class keeps no other program off. */
	int code = renice(c->pid, "normal") | renice(c->other, "best-effort");
	report_rates(c, "first normal, second best-effort", two);
	code |= renice(c->pid, "latency");
	report_rates(c, "first latency", two);
	code |= renice(c->pid, "normal") | renice(c->other, "normal");
	fprintf(c->out, "  renice: %s\n", code == 0 ? "done" : "failed");
	return code == 0 ? EXIT_OK : EXIT_FAILED;
}

/* Refuses if the second process has no queues. */
static int check_other(struct check *c, struct rubato_kfd *kfd)
{
	struct rubato_kfd_snapshot *snap;
	int r = c->other != 0 ? rubato_kfd_snapshot_take(kfd, c->other, &snap) : 0;

	if (r < 0) {
		return kfd_failed(&cmd_kfd_check, c->other, r);
	}
	if (c->other != 0) {
		rubato_kfd_snapshot_free(snap);
	}
	return EXIT_OK;
}

/* Refuses if the suspends would hold up programs that were not named. */
static int spare_others(struct check *c, struct rubato_kfd *kfd)
{
	uint32_t gpus[RUBATO_KFD_MAX_QUEUES], n = 0;
	struct rubato_kfd_snapshot *snap;
	int r = rubato_kfd_snapshot_take(kfd, c->pid, &snap);

	if (r < 0) {
		return kfd_failed(&cmd_kfd_check, c->pid, r);
	}
	while (n < snap->n_queues) {
		gpus[n] = snap->queues[n].gpu_id;
		n++;
	}
	rubato_kfd_snapshot_free(snap);
	return c->force ? EXIT_OK : kfd_spare_others(&cmd_kfd_check, c->pid, c->other, gpus, n);
}

static int examine(struct check *c)
{
	int r = 0;

	report_doctor(c);
	for (uint32_t i = 0; r == 0 && i < ITERATIONS && !kfd_stop; i++) {
		r = iterate(c);
	}
	report_calls(c);
	if (r < 0) {
		return end_early(c, c->pid, r);
	}
	int code = c->other != 0 && !kfd_stop ? report_classes(c) : EXIT_OK;
	bool is_whole =
		c->n_done == ITERATIONS && c->n_whole == c->n_done && c->n_still == c->n_done;
	return code != EXIT_OK || is_whole ? code : EXIT_FAILED;
}

static int check(struct check *c)
{
	struct rubato_kfd *kfd = NULL;
	int code = kfd_begin(&cmd_kfd_check, c->pid, false, &kfd);

	code = code != EXIT_OK ? code : check_other(c, kfd);
	code = code != EXIT_OK ? code : spare_others(c, kfd);
	/* A file that is there is somebody's; a link in a public directory may lead anywhere. */
	int fd = code == EXIT_OK
			 ? open(c->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644)
			 : -1;
	c->out = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (c->out == NULL && code == EXIT_OK) {
		rbt_error("%s: %s: %s", cmd_kfd_check.name, c->path, strerror(errno));
		code = EXIT_FAILED;
	}
	if (code == EXIT_OK) {
		int r = report_machine(c, kfd);
		code = r < 0 ? kfd_failed(&cmd_kfd_check, c->pid, r) : EXIT_OK;
	}
	rubato_kfd_close(kfd);
	code = code == EXIT_OK ? examine(c) : code;
	if (c->out != NULL) {
		fprintf(c->out, "\n%s\n",
			code == EXIT_OK ? "all as it should be" : "something is not");
		/* A report that is cut short helps nobody. */
		bool is_whole = ferror(c->out) == 0;
		if (fclose(c->out) != 0 || !is_whole) {
			rbt_error("%s: %s: the report cannot be written: %s", cmd_kfd_check.name,
				c->path, strerror(errno));
			code = EXIT_FAILED;
		} else {
			printf("report: %s\n", c->path);
		}
	}
	for (int i = 0; i < N_CALLS; i++) {
		kfd_times_finish(&c->times[i]);
	}
	return code;
}

int kfd_check(int argc, char **argv)
{
	static const struct option options[] = {
		{"output", required_argument, NULL, 'o'},
		{"force", no_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct check c = {.path = REPORT_NAME};
	int opt;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (opt) {
		case 'o':
			c.path = optarg;
			break;
		case 'f':
			c.force = true;
			break;
		case 'h':
			fputs(cmd_kfd.usage, stdout);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind == argc || argc - optind > 2) {
		return usage_error(&cmd_kfd_check,
			optind == argc ? "no process named" : "one process, or two");
	}
	int code = kfd_take_pid(&cmd_kfd_check, argv[optind], &c.pid);
	if (code == EXIT_OK && optind + 1 < argc) {
		code = kfd_take_pid(&cmd_kfd_check, argv[optind + 1], &c.other);
	}
	if (code == EXIT_OK && c.other == c.pid) {
		return usage_error(&cmd_kfd_check, "the second process is the first one");
	}
	return code == EXIT_OK ? check(&c) : code;
}

const struct command cmd_kfd_check = {.name = "kfd check", .run = kfd_check};
