/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cmd_policy.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/runtime.h"

#ifndef RUBATO_LEFT_OUT
#define RUBATO_LEFT_OUT ""
#endif

/* ABSENT: this machine does not have the part, and may not need it. */
enum verdict { GOOD, BAD, PARTLY, ABSENT };

struct report {
	bool json;
	bool is_try; /* try known drivers as well */
	struct rbt_json j;
};

__attribute__((format(printf, 4, 5))) static void say(
	struct report *rep, enum verdict v, const char *what, const char *fmt, ...)
{
	static const char *const marks[] = {
		[GOOD] = "ok", [BAD] = "no", [PARTLY] = "--", [ABSENT] = "--"};
	static const char *const words[] = {
		[GOOD] = "ok", [BAD] = "no", [PARTLY] = "partly", [ABSENT] = "no"};
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!rep->json) {
		printf("%-3s %-14s %s\n", marks[v], what, text);
		return;
	}
	rbt_json_object(&rep->j, NULL);
	rbt_json_string(&rep->j, "what", what);
	rbt_json_string(&rep->j, "verdict", words[v]);
	rbt_json_string(&rep->j, "text", text);
	rbt_json_end(&rep->j, '}');
}

static void check_gpu(struct report *rep, const struct rbt_gpu_info *g)
{
	char what[32], memory[32] = "";

	snprintf(what, sizeof(what), "gpu %u", g->gpu);
	if ((g->valid & RBT_GPU_HAS_MEMORY) != 0) {
		snprintf(memory, sizeof(memory), ", %llu MiB",
			(unsigned long long)(g->memory_bytes >> 20));
	}
	say(rep, GOOD, what, "%s%s%s%s", (g->valid & RBT_GPU_HAS_NAME) != 0 ? g->name : "a GPU",
		(g->valid & RBT_GPU_HAS_PCI) != 0 ? " at " : "",
		(g->valid & RBT_GPU_HAS_PCI) != 0 ? g->pci : "", memory);
	if ((g->valid & RBT_GPU_HAS_MIG) != 0 && g->mig) {
		say(rep, PARTLY, what,
			"is partitioned (MIG): programs share with those of their own instance only");
	}
}

/* Tries a driver on objects of our own, and updates the capabilities of an unknown driver by the
 * result. */
static void check_trial(
	struct report *rep, const struct rbt_backend *b, struct rbt_device_info *info)
{
	struct rbt_trial trial;

	if (b->try_out == NULL || b->try_out(&trial) < 0) {
		return;
	}
	say(rep, trial.slices ? GOOD : BAD, "tried slices", "%s", trial.slices_text);
	say(rep, trial.suspends ? GOOD : BAD, "tried suspends", "%s", trial.suspends_text);
	if (!info->driver_known) {
		info->caps |= trial.slices ? RBT_CAP_TIMESLICE : 0;
		info->caps |= trial.suspends ? RBT_CAP_SUSPEND : 0;
		snprintf(info->why_not, sizeof(info->why_not),
			"driver %s is not known, and no trial has shown that this works%s",
			info->driver_version, trial.slices ? "" : "; --force uses it");
	}
}

static void check_caps(
	struct report *rep, const struct rbt_backend *b, const struct rbt_device_info *info)
{
	static const struct {
		uint32_t cap;
		const char *name;
		const char *what;
	} caps[] = {
		{RBT_CAP_TIMESLICE, "timeslice", "classes, priorities and timeslices can be set"},
		{RBT_CAP_SUSPEND, "suspend", "programs can be suspended and resumed"},
		{RBT_CAP_INTERLEAVE, "interleave", "runlist interleave levels can be set"},
		{RBT_CAP_STATS, "stats", "memory per program can be read"},
	};

	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		/* Devices of this vendor have no such thing. */
		if (caps[i].cap == RBT_CAP_INTERLEAVE && b->set_interleave == NULL) {
			continue;
		}
		bool can = (info->caps & caps[i].cap) != 0;
		say(rep, can ? GOOD : PARTLY, caps[i].name, "%s",
			can ? caps[i].what : info->why_not);
	}
}

static bool check_backend(struct report *rep, const struct rbt_backend *b)
{
	struct rbt_device_info info;
	int r = device_probe(b, &info);

	if (r < 0) {
		/* Few machines have GPUs of both vendors. */
		say(rep, r == -ENODEV ? ABSENT : BAD, b->name, "%s",
			r == -ENODEV ? "no driver here" : strerror(-r));
		return false;
	}
	bool is_tried = b->try_out != NULL && (!info.driver_known || rep->is_try);
	say(rep, info.driver_known ? GOOD : PARTLY, b->name, "driver %s%s", info.driver_version,
		info.driver_known ? ""
		: is_tried        ? " is not known; Rubato tried it on objects of its own"
				  : " is not known: reading works, writing needs --force");
	if (b->is_experimental) {
		say(rep, PARTLY, b->name,
			"experimental: tested on the software GPU, and not on a card yet");
	}
	for (uint32_t i = 0; i < info.n_gpus; i++) {
		check_gpu(rep, &info.gpus[i]);
	}
	if (is_tried) {
		check_trial(rep, b, &info);
	}
	check_caps(rep, b, &info);
	if (info.mps_active) {
		say(rep, PARTLY, "mps",
			"an MPS server runs: its clients share one set of tasks and one timeslice");
	}
	return info.n_gpus > 0;
}

static void check_attach(struct report *rep)
{
	char buf[16] = "";
	int pidfd = rbt_pidfd_open(getpid());
	int fd = pidfd < 0 ? pidfd : rbt_pidfd_getfd(pidfd, 0);

	rbt_close(&pidfd);
	if (fd == -ENOSYS || pidfd == -ENOSYS) {
		say(rep, BAD, "attach",
			"the kernel has no pidfd_getfd (5.6 or later): only `rubato run` works");
		return;
	}
	rbt_close(&fd);
	rbt_read_file("/proc/sys/kernel/yama/ptrace_scope", buf, sizeof(buf));
	if (geteuid() == 0) {
		say(rep, GOOD, "attach", "as root, every program can be reached");
	} else if (buf[0] == '\0' || buf[0] == '0') {
		say(rep, GOOD, "attach", "your own programs can be reached");
	} else {
		say(rep, PARTLY, "attach",
			"ptrace_scope is %c: only descendants and programs under `rubato run`; others need root",
			buf[0]);
	}
}

/* Whether the daemon at the other end answers at all. */
static bool is_answering(int sock)
{
	static char buf[RBT_MSG_MAX];

	return daemon_list(sock, INT_MAX, 0, LIST_TIMEOUT_S, buf, sizeof(buf)) != -ETIMEDOUT;
}

/* `sock` is the daemon's, or negative. A daemon of another version does not know the question. */
static void check_policy(struct report *rep, int sock)
{
	struct rbt_msg_policy p;
	int r = sock >= 0 ? policy_ask(sock, &p) : 0;

	if (r < 0) {
		say(rep, PARTLY, "policy", "rubatod does not say whether one is loaded: %s",
			r == -EBADMSG ? "it is of another version, restart it" : strerror(-r));
		return;
	}
	if (sock < 0) {
		policy_ask_nobody(&p);
	}
	if (p.state == RBT_POLICY_EJECTED) {
		say(rep, PARTLY, "policy", "%s was ejected: %s", p.name, p.reason);
	} else if (p.state == RBT_POLICY_LOADED) {
		say(rep, GOOD, "policy", "%s is loaded (%s)", p.name, p.label);
	} else {
		say(rep, GOOD, "policy", "no policy in eBPF is loaded");
	}
	const char *other = p.engine == RBT_POLICY_VM ? "kernel" : "vm";
	const bool has_reason = p.other[0] != '\0';
	say(rep, GOOD, "policy engine", "%s%s%s%s%s", rbt_policy_engine_name(p.engine),
		has_reason ? "; not " : "", has_reason ? other : "", has_reason ? ": " : "",
		p.other);
}

/* Nothing is said if the devices for containers are not installed. */
static void check_containers(struct report *rep)
{
	char dir[128];

	if (access(CDI_CLASS_FILE, F_OK) < 0 ||
		rbt_runtime_dir(RBT_UID_SYSTEM, dir, sizeof(dir)) < 0) {
		return;
	}
	bool is_there = access(dir, F_OK) == 0;
	say(rep, is_there ? GOOD : BAD, "containers", "%s%s%s",
		is_there ? CDI_CLASS_FILE : "those with devices of rubato.dev do not start: ",
		is_there ? "" : dir, is_there ? "" : " is missing; start the system daemon");
}

static void check_house(struct report *rep)
{
	char path[4096], dir[128];
	int r = rbt_sibling_path("librubato.so", RUBATO_LIBDIR, path, sizeof(path));

	say(rep, r == 0 ? GOOD : BAD, "librubato", "%s",
		r == 0 ? path
		       : "librubato.so is not installed: `rubato run` cannot observe programs");
	r = rbt_sibling_path("rubatod", RUBATO_LIBEXECDIR, path, sizeof(path));
	uid_t whose = RBT_UID_SYSTEM;
	int sock = daemon_connect(whose);
	if (sock < 0) {
		whose = geteuid();
		sock = daemon_connect(whose);
	}
	rbt_runtime_dir(whose, dir, sizeof(dir));
	bool is_silent = sock >= 0 && !is_answering(sock);
	say(rep, r == 0 && !is_silent ? GOOD : BAD, "rubatod", "%s in %s",
		is_silent                 ? "does not answer"
		: sock < 0 && r < 0       ? "is not installed: classes and suspends do not last"
		: sock < 0                ? "starts on demand"
		: whose == RBT_UID_SYSTEM ? "runs for the whole machine"
					  : "runs",
		dir);
	if (!is_silent) {
		check_policy(rep, sock);
	}
	rbt_close(&sock);
	check_containers(rep);
	say(rep, RUBATO_LEFT_OUT[0] == '\0' ? GOOD : PARTLY, "build", "%s %s", RUBATO_VERSION,
		RUBATO_LEFT_OUT[0] == '\0' ? "with every library it knows"
					   : "without " RUBATO_LEFT_OUT);
}

static void names(struct report *rep, const char *what, char *const *list, size_t n)
{
	if (rep->json) {
		rbt_json_array(&rep->j, what);
		for (size_t i = 0; i < n; i++) {
			rbt_json_string(&rep->j, NULL, list[i]);
		}
		rbt_json_end(&rep->j, ']');
		return;
	}
	printf("    %-14s", what);
	for (size_t i = 0; i < n; i++) {
		printf(" %s", list[i]);
	}
	puts(n > 0 ? "" : " -");
}

/* The reason why `rubato run` cannot observe a program; NULL: it can. */
static const char *unreachable(const struct elf_facts *f)
{
	if (f->is_static) {
		return "statically linked: not reached by `rubato run`; `rubato renice` works once it runs";
	}
	if (f->is_setuid) {
		return "set-user-id: the dynamic linker ignores preloads; `rubato renice` works as root";
	}
	if (f->is_musl) {
		return "linked with musl: not reached by `rubato run`; `rubato renice` works once it runs";
	}
	return NULL;
}

static int check_program(struct report *rep, const char *path)
{
	struct elf_facts f;
	int r = elf_read(path, &f);

	if (r < 0) {
		rbt_error("doctor: %s: %s", path,
			r == -ENOEXEC
				? "not a 64-bit ELF program (name the interpreter for a script)"
				: strerror(-r));
		return EXIT_FAILED;
	}
	const char *why_not = unreachable(&f);
	say(rep, why_not == NULL ? GOOD : PARTLY, "program", "%s: %s", path,
		why_not != NULL ? why_not : "reached by `rubato run`");
	if (f.n_driver_calls + f.n_runtime_calls > 0 || f.has_fatbin) {
		say(rep, why_not == NULL ? GOOD : PARTLY, "cuda",
			"%zu driver and %zu runtime calls%s: all of them act through "
			"tasks, which are %s",
			f.n_driver_calls, f.n_runtime_calls,
			f.has_cudart_static ? " (static runtime)" : "",
			why_not == NULL ? "observed, timed and suspended"
					: "seen from outside only");
	} else {
		say(rep, PARTLY, "cuda",
			"no CUDA call is named in the file; libraries it loads may make them");
	}
	if (rep->json) {
		rbt_json_object(&rep->j, NULL);
	}
	names(rep, "libraries", f.needed, f.n_needed);
	names(rep, "driver_calls", f.driver_calls, f.n_driver_calls);
	names(rep, "runtime_calls", f.runtime_calls, f.n_runtime_calls);
	if (rep->json) {
		rbt_json_end(&rep->j, '}');
	}
	elf_finish(&f);
	return EXIT_OK;
}

/* Kernels from 6.14 on can limit the memory of some devices by cgroup, below every program and
 * without Rubato. One line of the file is "REGION BYTES". */
static void check_dmem(struct report *rep)
{
	char text[4096], region[256];
	unsigned long long bytes;

	if (rbt_read_file("/sys/fs/cgroup/dmem.capacity", text, sizeof(text)) <= 0) {
		return;
	}
	for (const char *line = text; line != NULL && *line != '\0';) {
		if (sscanf(line, "%255s %llu", region, &bytes) == 2) {
			say(rep, GOOD, "dmem", "%s, %llu MiB: cgroups can limit it (dmem.max)",
				region, bytes >> 20);
		}
		line = strchr(line, '\n');
		line += line != NULL;
	}
}

static int examine(struct report *rep)
{
	bool any = false;

	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		any = check_backend(rep, *b) || any;
	}
	check_dmem(rep);
	check_attach(rep);
	check_house(rep);
	return any ? EXIT_OK : EXIT_NO_DEVICE;
}

static int run(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"program", required_argument, NULL, 'p'},
		{"try", no_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct report rep = {0};
	const char *program = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			rep.json = true;
			break;
		case 'p':
			program = optarg;
			break;
		case 't':
			rep.is_try = true;
			break;
		case 'h':
			return print_usage(&cmd_doctor);
		default:
			return EXIT_USAGE;
		}
	}
	if (optind != argc) {
		return usage_error(&cmd_doctor, "unexpected argument: %s", argv[optind]);
	}
	if (program != NULL && rep.is_try) {
		return usage_error(
			&cmd_doctor, "--program asks about a file, --try about a driver");
	}
	if (rep.json) {
		rbt_json_init(&rep.j, stdout);
		rbt_json_object(&rep.j, NULL);
		rbt_json_u64(&rep.j, "version", JSON_VERSION);
		rbt_json_array(&rep.j, "checks");
	}
	int code = program != NULL ? check_program(&rep, program) : examine(&rep);
	if (rep.json) {
		rbt_json_end(&rep.j, ']');
		rbt_json_end(&rep.j, '}');
	}
	return code;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.summary = "tell what works on this machine, and why not",
	.usage =
		"Usage: rubato doctor [--json] [--try]\n"
		"       rubato doctor [--json] --program FILE\n"
		"\n"
		"Checks devices, driver, rights and installation, and reports what works here.\n"
		"Exit status 5 if there is no GPU that Rubato can use.\n"
		"\n"
		"      --program FILE       instead: which CUDA calls FILE makes, and whether they are seen\n"
		"      --try                also try a known driver, as unknown ones always are: on objects\n"
		"                           of Rubato's own, which are removed afterwards\n"
		"      --json               the same facts as JSON\n",
	.run = run,
};
