/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that read a session's device server and inject faults. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/amd/kfd_abi.h"
#include "softgpu/commands.h"
#include "softgpu/kfd/options.h"
#include "softgpu/serve/gpu_link.h"
#include "softgpu/session/session.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/parse.h"

const char help_state[] =
	"usage: rubato-softgpu state [--session DIR] [--json]\n"
	"\n"
	"Prints the state of the session's device server: GPUs, opens, clients, channel groups, counters.\n";

const char help_fault[] =
	"usage: rubato-softgpu fault [--session DIR] [options]\n"
	"       rubato-softgpu fault [--session DIR] clear\n"
	"\n"
	"Makes matching calls fail or take longer; `clear` removes all such faults. Prints nothing.\n"
	"\n"
	"  --cmd HEX       only this RM control (a06c0103)\n"
	"  --nr HEX        only this ioctl number (2a)\n"
	"  --class HEX     only allocations of this RM class (a06c)\n"
	"  --size N        with --cmd alone: that control accepts N bytes from now on; any: every size\n"
	"  --status HEX    answer with this RM status\n"
	"  --errno N       fail the ioctl itself\n"
	"  --delay-us N    answer this much later; alone, the call is otherwise as usual\n"
	"  --count N       for this many calls (default: until cleared)\n"
	"  --kfd-op OP     instead, on /dev/kfd: this operation of DBG_TRAP (suspend, snapshot…)\n"
	"  --kfd-nr HEX    instead, on /dev/kfd: this ioctl number (2)\n"
	"  --queue-error   with --kfd-op suspend or resume: the queues do not obey\n"
	"  --process CALL  with --delay-us: checkpoint calls (lock, checkpoint, restore) take so long\n";

const char help_kill[] = "usage: rubato-softgpu kill [--session DIR]\n"
			 "\n"
			 "Ends the session's device server at once, as a crash would.\n";

/* Connects to the session's server; or a negated exit status, after a message. */
static int connect_to(const char *command, const char *dir)
{
	char path[SESSION_MAX_PATH + 16];

	if (dir == NULL) {
		dir = getenv(SESSION_ENV);
	}
	if (dir == NULL || dir[0] == '\0') {
		rbt_error(
			"%s: no session: give --session DIR, or run it inside `rubato-softgpu exec`",
			command);
		return -EXIT_USAGE;
	}
	int n = snprintf(path, sizeof(path), "%s/%s", dir, SOCKET_NAME);
	int sock = n > 0 && (size_t)n < sizeof(path) ? rbt_connect(path, 0) : -ENAMETOOLONG;
	if (sock < 0) {
		rbt_error("%s: no device server in session %s: %s", command, dir, strerror(-sock));
		return sock == -EACCES ? -EXIT_NO_PERMISSION : -EXIT_NO_DEVICE;
	}
	return sock;
}

/* Sends one message and waits for the result. Returns an exit status; *ret_fd may be NULL. */
static int ask(const char *command, int sock, const void *msg, size_t size, int *ret_fd)
{
	struct link_result result = {0};
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;
	ssize_t n = rbt_send(sock, msg, size, NULL, 0, 0);

	if (n == 0) {
		n = rbt_recv(sock, &result, sizeof(result), fds, &n_fds, 0);
	}
	close(sock);
	if (n != sizeof(result)) {
		rbt_error("%s: the device server has ended", command);
		return EXIT_NO_DEVICE;
	}
	if (result.error < 0) {
		rbt_error("%s: %s", command, strerror(-result.error));
		return result.error == -EPERM ? EXIT_NO_PERMISSION : EXIT_FAILED;
	}
	if (ret_fd != NULL && n_fds == 1) {
		*ret_fd = fds[0];
	}
	return EXIT_OK;
}

static int usage_error(const char *command, char **argv)
{
	rbt_error("%s: unknown argument, or an option without its value: %s (see --help)", command,
		argv[optind - 1]);
	return EXIT_USAGE;
}

static int copy_to_stdout(int fd)
{
	char buf[65536];
	ssize_t n = 0;

	for (off_t at = 0; (n = pread(fd, buf, sizeof(buf), at)) > 0; at += n) {
		if (fwrite(buf, 1, (size_t)n, stdout) != (size_t)n) {
			return EXIT_FAILED;
		}
	}
	return n < 0 || fflush(stdout) != 0 ? EXIT_FAILED : EXIT_OK;
}

struct tool_options {
	const char *session;
	bool json;
};

/* Parses options without arguments. False: there is nothing more to do, and *ret_status is the
 * result. */
static bool take_options(const char *help, const struct option *longs, int argc, char **argv,
	struct tool_options *ret, int *ret_status)
{
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
		switch (opt) {
		case 's':
			ret->session = optarg;
			break;
		case 'j':
			ret->json = true;
			break;
		case 'h':
			fputs(help, stdout);
			*ret_status = EXIT_OK;
			return false;
		default:
			*ret_status = usage_error(argv[0], argv);
			return false;
		}
	}
	if (optind < argc) {
		optind++;
		*ret_status = usage_error(argv[0], argv);
		return false;
	}
	return true;
}

int cmd_state(int argc, char **argv)
{
	static const struct option longs[] = {{"session", required_argument, NULL, 's'},
		{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct link_state m = {.h = link_header(LINK_STATE, 0)};
	struct tool_options o = {0};
	int status, fd = -1;

	if (!take_options(help_state, longs, argc, argv, &o, &status)) {
		return status;
	}
	m.json = o.json;
	int sock = connect_to("state", o.session);
	if (sock < 0) {
		return -sock;
	}
	status = ask("state", sock, &m, sizeof(m), &fd);
	if (status == EXIT_OK && fd >= 0) {
		status = copy_to_stdout(fd);
		close(fd);
	}
	return status;
}

static int hex(const char *option, const char *text, uint32_t *ret)
{
	char *end;

	errno = 0;
	unsigned long long v = strtoull(text, &end, 16);
	if (end == text || *end != '\0' || text[0] == '-' || text[0] == '+' || errno != 0 ||
		v > UINT32_MAX) {
		rbt_error("fault: --%s wants a hexadecimal number, not '%s'", option, text);
		return -EINVAL;
	}
	*ret = (uint32_t)v;
	return 0;
}

static int decimal(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	int r = rbt_parse_u64(text, min, max, ret);

	if (r < 0) {
		rbt_error("fault: --%s wants a number from %llu to %llu, not '%s'", option,
			(unsigned long long)min, (unsigned long long)max, text);
	}
	return r;
}

/* The values of `fault`'s options. */
struct fault_options {
	struct rbt_rm_fault rm;
	struct rbt_kfd_fault kfd;
	bool is_kfd;
	uint32_t process; /* enum gpu_process_action; 0: none */
	const char *session;
};

static int take_kfd_option(struct fault_options *o, int opt, const char *value)
{
	o->is_kfd = true;
	switch (opt) {
	case 'o':
		o->kfd.nr = KFD_NR_DBG_TRAP;
		o->kfd.has_op = 1;
		return kfd_parse_op(value, &o->kfd.op);
	case 'r':
		return hex("kfd-nr", value, &o->kfd.nr);
	default:
		o->kfd.queue_error = 1;
		return 0;
	}
}

/* The names of checkpoint calls that take time. */
static int parse_process(const char *text, uint32_t *ret)
{
	static const char *const names[GPU_N_PROCESS_ACTIONS] = {
		[GPU_PROCESS_LOCK] = "lock",
		[GPU_PROCESS_CHECKPOINT] = "checkpoint",
		[GPU_PROCESS_RESTORE] = "restore",
	};

	for (uint32_t i = 0; i < GPU_N_PROCESS_ACTIONS; i++) {
		if (names[i] != NULL && strcmp(names[i], text) == 0) {
			*ret = i;
			return 0;
		}
	}
	rbt_error("fault: --process wants lock, checkpoint or restore, not '%s'", text);
	return -EINVAL;
}

static int parse_size(const char *text, uint32_t *ret)
{
	uint64_t v = RBT_RM_ANY_SIZE;
	int r = strcmp(text, "any") == 0 ? 0 : decimal("size", text, 1, 16384, &v);

	*ret = (uint32_t)v;
	return r;
}

/* Which calls are meant. */
static int take_call(struct rbt_rm_fault *f, int opt, const char *value)
{
	return opt == 'c'   ? hex("cmd", value, &f->cmd)
	       : opt == 'n' ? hex("nr", value, &f->nr)
			    : hex("class", value, &f->hclass);
}

static int parse_fault(int argc, char **argv, struct fault_options *o)
{
	static const struct option longs[] = {{"session", required_argument, NULL, 's'},
		{"cmd", required_argument, NULL, 'c'}, {"nr", required_argument, NULL, 'n'},
		{"class", required_argument, NULL, 'C'}, {"size", required_argument, NULL, 'S'},
		{"status", required_argument, NULL, 't'}, {"errno", required_argument, NULL, 'e'},
		{"delay-us", required_argument, NULL, 'd'}, {"count", required_argument, NULL, 'k'},
		{"kfd-op", required_argument, NULL, 'o'}, {"kfd-nr", required_argument, NULL, 'r'},
		{"queue-error", no_argument, NULL, 'q'}, {"process", required_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'}, {0}};
	struct rbt_rm_fault *f = &o->rm;
	uint64_t v = 0;
	int opt, r = 0;

	opterr = 0;
	while (r == 0 && (opt = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
		switch (opt) {
		case 's':
			o->session = optarg;
			break;
		case 'o':
		case 'r':
		case 'q':
			r = take_kfd_option(o, opt, optarg);
			break;
		case 'p':
			r = parse_process(optarg, &o->process);
			break;
		case 'c':
		case 'n':
		case 'C':
			r = take_call(f, opt, optarg);
			break;
		case 'S':
			r = parse_size(optarg, &f->size);
			break;
		case 't':
			r = hex("status", optarg, &f->status);
			f->has_status = 1;
			break;
		case 'e':
			r = decimal("errno", optarg, 1, 133, &v);
			f->error = (uint32_t)v;
			break;
		case 'd':
			r = decimal("delay-us", optarg, 1, 600000000, &f->delay_us);
			break;
		case 'k':
			r = decimal("count", optarg, 1, UINT32_MAX, &f->count);
			break;
		case 'h':
			fputs(help_fault, stdout);
			exit(EXIT_OK);
		default:
			usage_error("fault", argv);
			return -EINVAL;
		}
	}
	return r;
}

/* Whether the options name the calls and the fault; prints a message if not. */
static bool is_whole(const struct fault_options *o)
{
	const struct rbt_rm_fault *f = &o->rm;
	bool something = f->has_status || f->error != 0 || f->delay_us != 0 || o->kfd.queue_error;

	if (f->size != 0) {
		bool is_alone = !something && f->cmd != 0 && f->nr == 0 && f->hclass == 0 &&
				f->count == 0 && !o->is_kfd;
		if (!is_alone) {
			rbt_error("fault: --size goes with --cmd, and nothing else (see --help)");
		}
		return is_alone;
	}
	if ((f->has_status && f->error != 0) || !something) {
		rbt_error(
			"fault: give one of --status and --errno, or --delay-us, or clear (see --help)");
		return false;
	}
	if (o->is_kfd && (f->has_status || f->cmd != 0 || f->nr != 0 || f->hclass != 0)) {
		rbt_error(
			"fault: --cmd, --nr, --class and --status are not for /dev/kfd (see --help)");
		return false;
	}
	if (o->process != 0 && (f->delay_us == 0 || f->cmd != 0 || f->nr != 0 || f->hclass != 0 ||
				       f->has_status || f->error != 0 || o->is_kfd)) {
		rbt_error("fault: --process goes with --delay-us, and nothing else (see --help)");
		return false;
	}
	if (o->kfd.queue_error && (f->error != 0 || !o->kfd.has_op)) {
		rbt_error("fault: --queue-error goes with --kfd-op, without --errno (see --help)");
		return false;
	}
	return true;
}

int cmd_fault(int argc, char **argv)
{
	struct fault_options o = {0};
	struct link_fault rm = {.h = link_header(LINK_FAULT, 0)};
	struct link_kfd_fault kfd = {.h = link_header(LINK_KFD_FAULT, 0)};

	if (parse_fault(argc, argv, &o) < 0) {
		return EXIT_USAGE;
	}
	bool clear = optind == argc - 1 && strcmp(argv[optind], "clear") == 0;
	if (optind < argc && !clear) {
		optind++;
		return usage_error("fault", argv);
	}
	if (!clear && !is_whole(&o)) {
		return EXIT_USAGE;
	}
	int sock = connect_to("fault", o.session);
	if (sock < 0) {
		return -sock;
	}
	if (clear) {
		rm.h = link_header(LINK_CLEAR_FAULTS, 0);
		return ask("fault", sock, &rm, sizeof(rm.h), NULL);
	}
	if (o.process != 0) {
		struct link_process_fault p = {.h = link_header(LINK_PROCESS_FAULT, 0),
			.action = o.process,
			.delay_us = o.rm.delay_us};
		return ask("fault", sock, &p, sizeof(p), NULL);
	}
	if (o.is_kfd) {
		kfd.fault = o.kfd;
		kfd.fault.error = o.rm.error;
		kfd.fault.delay_us = o.rm.delay_us;
		kfd.fault.count = o.rm.count;
		return ask("fault", sock, &kfd, sizeof(kfd), NULL);
	}
	rm.fault = o.rm;
	return ask("fault", sock, &rm, sizeof(rm), NULL);
}

int cmd_kill(int argc, char **argv)
{
	static const struct option longs[] = {
		{"session", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct link_header m = link_header(LINK_KILL, 0);
	struct link_result result;
	struct tool_options o = {0};
	int status, fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	if (!take_options(help_kill, longs, argc, argv, &o, &status)) {
		return status;
	}
	int sock = connect_to("kill", o.session);
	if (sock < 0) {
		return -sock;
	}
	/* The end of the connection is the answer; anything else is a refusal. */
	if (rbt_send(sock, &m, sizeof(m), NULL, 0, 0) == 0 &&
		rbt_recv(sock, &result, sizeof(result), fds, &n_fds, 0) > 0) {
		rbt_error("kill: only the session's owner may end its device server");
		return EXIT_NO_PERMISSION;
	}
	return EXIT_OK;
}
