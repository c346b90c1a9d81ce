/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubato serve: lets the programs of a guest use this machine's GPU. Each connection to its socket
 * is one guest process (remote/peer.h) and gets a worker, which is started as `rubato run` starts
 * every program. After that, guest and worker speak with each other; serve only counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "remote/peer.h"
#include "remote/vm.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/runtime.h"

#define MAX_PROGRAMS     256
#define DEFAULT_PROGRAMS 64
#define MAX_GREETING     16 /* connections that have not said who they are */
#define WORKER_SOCKET    3
#define WORKER_ACCOUNT   4
#define FREE_FD          16 /* above the numbers that workers inherit */
/* A device that ends at once is not started faster than this. */
#define DEVICE_PAUSE_MS 200

struct options {
	const char *vm, *listen, *qemu, *user;
	uint64_t programs, mem_mib; /* 0: no limit */
	struct rbt_treatment treat;
};

struct server {
	const struct options *options;
	const struct passwd *user; /* NULL: workers run as we do */
	char path[108], worker[4096];
	char device[4096];          /* rubato-vhost-user, if there is a QEMU */
	pid_t device_pid;           /* 0: it does not run */
	int sock, signals, account; /* the sums of workers' memory; -1: no limit */
	_Atomic uint64_t *sums;
	pid_t workers[MAX_PROGRAMS]; /* by slot; 0: free */
	int greeting[MAX_GREETING];
	size_t n_greeting;
	bool stop;
};

static void answer(int sock, int result)
{
	struct rbt_peer_answer a = {.header = {RBT_PEER_MAGIC, RBT_PEER_ANSWER},
		.answers = RBT_PEER_HELLO,
		.result = result};

	(void)rbt_send(sock, &a, sizeof(a), NULL, 0, MSG_DONTWAIT);
}

static int become(const struct passwd *user)
{
	if (initgroups(user->pw_name, user->pw_gid) < 0 || setgid(user->pw_gid) < 0 ||
		setuid(user->pw_uid) < 0) {
		return -errno;
	}
	if (user->pw_uid != 0) {
		/* Root's directories are not the user's. */
		unsetenv("XDG_RUNTIME_DIR");
		unsetenv("RUBATO_RUNTIME_DIR");
	}
	setenv("HOME", user->pw_dir, 1);
	setenv("USER", user->pw_name, 1);
	return 0;
}

/* Tells the daemon whose worker this process is going to be. It is a program without that, too. */
static void announce(const struct server *s, const struct rbt_link_identity *id)
{
	struct rbt_msg_guest msg = {.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_GUEST},
		.guest = {.pid = id->pid}};
	char text[sizeof(msg.guest) + 16];
	int daemon = daemon_start();

	snprintf(msg.guest.vm, sizeof(msg.guest.vm), "%s", s->options->vm);
	snprintf(msg.guest.command, sizeof(msg.guest.command), "%.*s", (int)sizeof(id->command) - 1,
		id->command);
	/* For the daemons after this one. */
	snprintf(text, sizeof(text), "%u %s %s", msg.guest.pid, msg.guest.vm, msg.guest.command);
	setenv(RBT_ENV_GUEST, text, 1);
	if (daemon >= 0) {
		(void)rbt_send(daemon, &msg, sizeof(msg), NULL, 0, MSG_DONTWAIT);
		close(daemon);
	}
}

/* In the new process. Never returns. */
static void be_worker(const struct server *s, int sock, size_t slot, pid_t parent,
	const struct rbt_link_identity *id)
{
	char number[16], account[16], mine[24], limit[32];
	char *argv[] = {(char *)"rubato-worker", number, NULL, NULL, NULL, NULL};
	/* Copies first: their own numbers may be those that the worker gets. */
	int connection = fcntl(sock, F_DUPFD_CLOEXEC, FREE_FD);
	int sums = s->account < 0 ? -1 : fcntl(s->account, F_DUPFD_CLOEXEC, FREE_FD);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Only these files are inherited. */
	if (dup2(connection, WORKER_SOCKET) < 0 || (s->user != NULL && become(s->user) < 0)) {
		_exit(EXIT_FAILED);
	}
	snprintf(number, sizeof(number), "%d", WORKER_SOCKET);
	if (s->account >= 0) {
		if (dup2(sums, WORKER_ACCOUNT) < 0) {
			_exit(EXIT_FAILED);
		}
		snprintf(account, sizeof(account), "%d", WORKER_ACCOUNT);
		snprintf(mine, sizeof(mine), "%zu", slot);
		snprintf(limit, sizeof(limit), "%" PRIu64, s->options->mem_mib << 20);
		argv[2] = account;
		argv[3] = mine;
		argv[4] = limit;
	}
	/* Workers do not outlive serve. (A change of the user would reset this.) */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(EXIT_FAILED);
	}
	announce(s, id);
	_exit(run_exec("serve", s->worker, argv, &s->options->treat, false));
}

/* In the new process. Never returns. The device is for one user, as the workers are. */
static void be_device(const struct server *s, pid_t parent)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (s->user != NULL && become(s->user) < 0) {
		_exit(EXIT_FAILED);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(EXIT_FAILED);
	}
	execl(s->device, "rubato-vhost-user", "--qemu", s->options->qemu, "--serve", s->path,
		(char *)NULL);
	rbt_error("serve: cannot start %s: %s", s->device, strerror(errno));
	_exit(EXIT_FAILED);
}

/* The guest's programs lose their workers when its device ends; the next device serves new ones,
 * without a reboot. */
static void start_device(struct server *s)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		be_device(s, parent);
	}
	if (pid > 0) {
		s->device_pid = pid;
	}
}

static void start_worker(struct server *s, int sock, const struct rbt_link_identity *id)
{
	pid_t parent = getpid();
	size_t slot = 0;

	while (slot < s->options->programs && s->workers[slot] != 0) {
		slot++;
	}
	if (slot == s->options->programs) {
		answer(sock, -EUSERS);
		return;
	}
	pid_t pid = fork();

	if (pid == 0) {
		be_worker(s, sock, slot, parent, id);
	}
	if (pid < 0) {
		answer(sock, -EUSERS);
		rbt_error("serve: cannot start a worker: %s", strerror(errno));
		return;
	}
	s->workers[slot] = pid;
}

/* A connection has said something: its HELLO, or nothing that we know. */
static void greet(struct server *s, int sock)
{
	struct rbt_peer_hello hello;
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;
	ssize_t n = rbt_recv(sock, &hello, sizeof(hello), fds, &n_fds, MSG_DONTWAIT);

	for (size_t i = 0; i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	if (n != sizeof(hello) || hello.header.magic != RBT_PEER_MAGIC ||
		hello.header.type != RBT_PEER_HELLO) {
		return;
	}
	if (hello.version != RBT_PEER_VERSION) {
		answer(sock, -EPROTO);
		return;
	}
	start_worker(s, sock, &hello.id);
}

static void accept_one(struct server *s)
{
	int sock = accept4(s->sock, NULL, NULL, SOCK_CLOEXEC);

	if (sock >= 0 && s->n_greeting == MAX_GREETING) {
		/* The oldest has had its time. */
		rbt_close(&s->greeting[0]);
		memmove(s->greeting, s->greeting + 1, --s->n_greeting * sizeof(s->greeting[0]));
	}
	if (sock >= 0) {
		s->greeting[s->n_greeting++] = sock;
	}
}

static void take_signal(struct server *s)
{
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) != sizeof(info)) {
		return;
	}
	s->stop = s->stop || info.ssi_signo != SIGCHLD;
	for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) {
		if (pid == s->device_pid) {
			s->device_pid = 0;
			rbt_error("serve: the device of %s has ended; it is started again",
				s->options->vm);
		}
		for (size_t i = 0; i < MAX_PROGRAMS; i++) {
			if (s->workers[i] == pid) {
				s->workers[i] = 0;
				if (s->sums != NULL) {
					s->sums[i] = 0;
				}
			}
		}
	}
}

static void step(struct server *s)
{
	struct pollfd p[MAX_GREETING + 2];
	size_t n = s->n_greeting, left = 0;

	p[0] = (struct pollfd){.fd = s->sock, .events = POLLIN};
	p[1] = (struct pollfd){.fd = s->signals, .events = POLLIN};
	for (size_t i = 0; i < n; i++) {
		p[i + 2] = (struct pollfd){.fd = s->greeting[i], .events = POLLIN};
	}
	const bool needs_device = s->options->qemu != NULL && s->device_pid == 0;

	int ready = poll(p, n + 2, needs_device ? DEVICE_PAUSE_MS : -1);
	if (needs_device && ready == 0) {
		start_device(s);
	}
	if (ready <= 0) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (p[i + 2].revents != 0) {
			greet(s, s->greeting[i]);
			rbt_close(&s->greeting[i]);
		} else {
			s->greeting[left++] = s->greeting[i];
		}
	}
	s->n_greeting = left;
	if (p[1].revents != 0) {
		take_signal(s);
	}
	if (p[0].revents != 0) {
		accept_one(s);
	}
}

/* A socket that nobody answers is left from a serve that was killed. */
static int bind_socket(struct server *s)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int other = rbt_connect(s->path, 1000);

	if (other >= 0) {
		close(other);
		return -EADDRINUSE;
	}
	if (other == -ECONNREFUSED) {
		unlink(s->path);
	}
	strcpy(a.sun_path, s->path);
	s->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* Its mode is what decides who may connect. */
	mode_t mask = umask(0177);
	int r = s->sock < 0 || bind(s->sock, (struct sockaddr *)&a, sizeof(a)) < 0 ||
				listen(s->sock, MAX_PROGRAMS) < 0
			? -errno
			: 0;

	umask(mask);
	return r;
}

static int open_signals(struct server *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC);
	return s->signals < 0 ? -errno : 0;
}

/* The file of all workers' sums. */
static int open_account(struct server *s)
{
	size_t size = MAX_PROGRAMS * sizeof(*s->sums);

	s->account = memfd_create("rubato-serve", MFD_CLOEXEC);
	if (s->account < 0 || ftruncate(s->account, (off_t)size) < 0) {
		return -errno;
	}
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, s->account, 0);

	if (p == MAP_FAILED) {
		return -errno;
	}
	s->sums = p;
	return 0;
}

static int serve(const struct options *o, const struct passwd *user)
{
	struct server s = {.options = o, .user = user, .sock = -1, .signals = -1, .account = -1};
	char dir[80];
	int r = rbt_sibling_path("rubato-worker", RUBATO_LIBEXECDIR, s.worker, sizeof(s.worker));
	int n = -1;

	if (r == 0 && o->listen != NULL) {
		n = snprintf(s.path, sizeof(s.path), "%s", o->listen);
	} else if (r == 0 && (r = rbt_runtime_dir_create(dir, sizeof(dir))) == 0) {
		n = snprintf(s.path, sizeof(s.path), "%s/vm-%s.sock", dir, o->vm);
	}
	if (r == 0 && (n < 0 || (size_t)n >= sizeof(s.path))) {
		r = -ENAMETOOLONG;
	}
	r = r == 0 && o->qemu != NULL ? rbt_sibling_path("rubato-vhost-user", RUBATO_LIBEXECDIR,
						s.device, sizeof(s.device))
				      : r;
	r = r == 0 && o->mem_mib != 0 ? open_account(&s) : r;
	r = r == 0 ? open_signals(&s) : r;
	r = r == 0 ? bind_socket(&s) : r;
	/* The device connects as that user. */
	if (r == 0 && user != NULL && lchown(s.path, user->pw_uid, user->pw_gid) < 0) {
		r = -errno;
	}
	if (r < 0) {
		rbt_error("serve: %s: %s", s.path, strerror(-r));
		return exit_code_for(r);
	}
	printf("%s\n", s.path); /* it can be used now */
	fflush(stdout);
	if (o->qemu != NULL) {
		start_device(&s);
	}
	while (!s.stop) {
		step(&s);
	}
	if (s.device_pid > 0) {
		kill(s.device_pid, SIGKILL);
	}
	unlink(s.path);
	return EXIT_OK;
}

static int check(const struct options *o, const struct passwd **ret_user)
{
	if (o->vm == NULL || !rbt_vm_name_is_valid(o->vm)) {
		return usage_error(&cmd_serve,
			"--vm NAME is needed: 1 to 32 letters, digits, dots, dashes and underscores");
	}
	if (geteuid() == 0 && o->user == NULL) {
		return usage_error(
			&cmd_serve, "root must name the user whom the workers run as: --user USER");
	}
	if (o->qemu != NULL &&
		(o->qemu[0] == '\0' ||
			strlen(o->qemu) > sizeof(((struct sockaddr_un *)0)->sun_path) - 1)) {
		return usage_error(
			&cmd_serve, "--qemu takes the path of a socket, of at most 107 bytes");
	}
	*ret_user = NULL;
	if (o->user != NULL) {
		const struct passwd *user = getpwnam(o->user);

		if (user == NULL) {
			return usage_error(&cmd_serve, "--user: there is no user '%s'", o->user);
		}
		if (geteuid() != 0 && user->pw_uid != geteuid()) {
			rbt_error("serve: only root can serve a guest as user %s", o->user);
			return EXIT_NO_PERMISSION;
		}
		*ret_user = geteuid() == 0 ? user : NULL;
	}
	return EXIT_OK;
}

static int run(int argc, char **argv)
{
	static const struct option more[] = {
		{"vm", required_argument, NULL, 'V'},
		{"listen", required_argument, NULL, 'l'},
		{"qemu", required_argument, NULL, 'q'},
		{"programs", required_argument, NULL, 'n'},
		{"mem", required_argument, NULL, 'm'},
		{"user", required_argument, NULL, 'u'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct option options[TREAT_OPTIONS_MAX];
	struct options o = {.programs = DEFAULT_PROGRAMS, .treat = RBT_TREATMENT_INIT};
	const struct passwd *user;
	int c;

	treat_options(RBT_TREAT_ALL & ~RBT_TREAT_BIT(GROUP), more, options);
	while ((c = getopt_long(argc, argv, TREAT_LETTERS "h", options, NULL)) != -1) {
		switch (c) {
		case 'V':
			o.vm = optarg;
			break;
		case 'l':
			o.listen = optarg;
			break;
		case 'q':
			o.qemu = optarg;
			break;
		case 'u':
			o.user = optarg;
			break;
		case 'n':
			if (rbt_parse_u64(optarg, 1, MAX_PROGRAMS, &o.programs) < 0) {
				return usage_error(&cmd_serve, "--programs: 1 to %d", MAX_PROGRAMS);
			}
			break;
		case 'm':
			if (rbt_parse_u64(optarg, 1, 1 << 30, &o.mem_mib) < 0) {
				return usage_error(&cmd_serve, "--mem: MiB, 1 or more");
			}
			break;
		case 'h':
			fputs(cmd_serve.usage, stdout);
			return EXIT_OK;
		case '?':
			return EXIT_USAGE;
		default:
			if (treat_option(&cmd_serve, &o.treat, c, optarg) != 0) {
				return EXIT_USAGE;
			}
		}
	}
	if (optind != argc) {
		return usage_error(&cmd_serve, "'%s' is too much", argv[optind]);
	}
	int code = check(&o, &user);

	return code != EXIT_OK ? code : serve(&o, user);
}

const struct command cmd_serve = {
	.name = "serve",
	.summary = "let the programs of a guest use the GPU",
	.usage =
		"Usage: rubato serve --vm NAME [--listen PATH] [--qemu PATH] [--programs N] [--mem MIB]\n"
		"                    [--user USER]\n"
		"                    [--class CLASS] [--priority N] [--timeslice-us N] [--weight N]\n"
		"                    [--max-reserve-ms N] [--min-share PERCENT] [--force]\n"
		"\n"
		"Does the CUDA calls of a guest's programs until SIGTERM. Prints the path of its socket\n"
		"when programs can connect; they run with `rubato run --device remote=PATH`.\n"
		"\n"
		"      --vm NAME            the guest's name\n"
		"      --listen PATH        the socket (vm-NAME.sock in Rubato's runtime directory)\n"
		"      --qemu PATH          the socket of the virtual machine's QEMU, as in `rubato vm-args`\n"
		"      --programs N         at most so many programs at a time, 1 to 256 (64)\n"
		"      --mem MIB            device memory of all its programs together (no limit)\n"
		"      --user USER          workers run as this user; root must say it\n"
		"\n"
		"How the guest's programs are treated, as with `rubato run`:\n"
		"  -c, --class CLASS        latency, normal (default) or best-effort\n"
		"  -p, --priority N         0 (lowest) to 15 (highest)\n"
		"  -t, --timeslice-us N     an exact timeslice, 1 to 1000000\n"
		"  -w, --weight N           share of the turns at equal priority\n"
		"      --max-reserve-ms N   how long they may keep others off without being idle\n"
		"      --min-share PERCENT  their least share of the GPU while others are busy\n"
		"      --force              write to an unknown driver even if its trial failed\n"
		"  -h, --help               print this text\n",
	.run = run,
};
