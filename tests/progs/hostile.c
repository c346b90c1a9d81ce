/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that means ill, and whose daemon must not mind.
 *
 *   hostile MODE...   does all of it in turn until it is killed; prints "ready pid=N" first
 *
 *   board      writes random bytes all over its board (under `rubato run`, on the software GPU)
 *   wake       wakes whoever waits for its board, for nothing
 *   flip       becomes busy and idle as fast as it can
 *   open       says that a request is open, and at once that its end has come
 *   garbage    connects, and sends what is no message
 *   hello      sends valid HELLOs, each a little different, on one connection
 *   records    sends the largest records there can be, with a file that is no device
 *   boards     sends boards: its own, and what is none
 *   list       asks who is there, and never reads the answer
 *   connect    connects as often as it can, and keeps the connections
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "board/layout.h"
#include "proto/message.h"

#define KEPT   2000
#define ROUNDS 200

static struct rbt_board *board;
static unsigned long long n_done;

static void die(const char *what)
{
	fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint32_t noise(void)
{
	static uint64_t x = UINT64_C(0x9e3779b97f4a7c15);

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 16);
}

/* Makes a context, so that there is a board; it is the shared page of that name. */
static void find_board(void)
{
	char line[512];
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context;

	if (lib == NULL) {
		die("libcuda.so.1");
	}
	int (*init)(unsigned) = (int (*)(unsigned))(uintptr_t)dlsym(lib, "cuInit");
	int (*create)(void **, unsigned, int) =
		(int (*)(void **, unsigned, int))(uintptr_t)dlsym(lib, "cuCtxCreate_v2");
	if (init == NULL || create == NULL || init(0) != 0 || create(&context, 0, 0) != 0) {
		die("no context");
	}
	FILE *f = fopen("/proc/self/maps", "r");
	while (f != NULL && board == NULL && fgets(line, sizeof(line), f) != NULL) {
		if (strstr(line, "rubato-board") != NULL) {
			board = (struct rbt_board *)(uintptr_t)strtoull(line, NULL, 16);
		}
	}
	if (board == NULL) {
		die("no board");
	}
	fclose(f);
}

static int connect_daemon(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *dir = getenv("RUBATO_RUNTIME_DIR");
	struct timeval timeout = {.tv_usec = 200000};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/control.sock", dir != NULL ? dir : "");
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (sock >= 0 && connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		close(sock);
		return -1;
	}
	return sock;
}

/* On a connection that is made again whenever it is lost. */
static void say(int *sock, const void *msg, size_t size, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.buf = {0}};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)msg, .iov_len = size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (*sock < 0) {
		*sock = connect_daemon();
	}
	if (fd >= 0) {
		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (sendmsg(*sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
		n_done++;
	} else if (errno == EAGAIN) {
		usleep(200);
	} else {
		close(*sock);
		*sock = -1;
	}
}

static const struct rbt_msg_hello hello = {
	.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_HELLO}};

static struct rbt_msg_treat treat(uint32_t priority)
{
	struct rbt_msg_treat msg = {.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_TREAT},
		.treat = RBT_TREATMENT_INIT};

	msg.treat.priority = priority;
	msg.treat.said = RBT_TREAT_BIT(PRIORITY);
	return msg;
}

static void do_board(void)
{
	static uint32_t words[RBT_BOARD_SIZE / 4];

	for (size_t i = 0; i < RBT_BOARD_SIZE / 4; i++) {
		words[i] = noise();
	}
	for (int i = 0; i < ROUNDS; i++) {
		size_t from = noise() % (RBT_BOARD_SIZE / 4);
		memcpy((char *)board + from * 4, words + from, RBT_BOARD_SIZE - from * 4);
		n_done++;
	}
}

static void do_wake(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		syscall(SYS_futex, &board->asleep, FUTEX_WAKE, 100, NULL, NULL, 0);
		n_done++;
	}
}

static void do_flip(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		board->slots[1].n[0]++;
		board->slots[0].in_sync = noise() % 2;
		board->requests_open = noise() % 3;
		board->asleep = noise() % 4;
		syscall(SYS_futex, &board->asleep, FUTEX_WAKE, 100, NULL, NULL, 0);
		n_done++;
	}
}

/* How often the daemon has waited for the end: so many requests were late. */
static void do_open(void)
{
	board->announces = 1;
	board->requests_open = 1;
	board->n_requests = 1;
	for (int i = 0; i < ROUNDS; i++) {
		for (int n = 0; n < 20; n++) {
			uint32_t asleep = atomic_exchange(&board->asleep, 0);
			board->n_late += asleep == RBT_BOARD_AWAITS_END;
		}
		syscall(SYS_futex, &board->asleep, FUTEX_WAKE, 100, NULL, NULL, 0);
		n_done++;
	}
}

static void do_garbage(void)
{
	static uint32_t words[16000];
	int sock = -1;

	for (size_t i = 0; i < 16000; i++) {
		words[i] = noise();
	}
	for (int i = 0; i < 20; i++) {
		if (i % 2 == 0) {
			words[0] = RBT_PROTOCOL_MAGIC;
			words[1] = noise() % (RBT_MSG_TREAT + 1);
		}
		say(&sock, words, noise() % sizeof(words), noise() % 4 == 0 ? STDIN_FILENO : -1);
		words[0] = noise();
	}
	if (sock >= 0) {
		close(sock);
	}
}

static void do_hello(void)
{
	static int sock = -1;

	for (int i = 0; i < ROUNDS; i++) {
		struct rbt_msg_treat msg = treat(noise() % 6);
		say(&sock, &hello, sizeof(hello), -1);
		say(&sock, &msg, sizeof(msg), -1);
	}
}

static void do_records(void)
{
	static uint8_t buf[RBT_RECORD_MSG_MAX];
	static int sock = -1, file = -1;
	struct rbt_msg_record msg = {.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RECORD},
		.backend = 1,
		.client = noise(),
		.n_tasks = RBT_RECORD_MAX_TASKS,
		.n_channels = RBT_RECORD_MAX_CHANNELS};
	struct rbt_msg_treat second = treat(2);

	if (file < 0) {
		file = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	memcpy(buf, &msg, sizeof(msg));
	for (int i = 0; i < 20; i++) {
		say(&sock, &hello, sizeof(hello), -1);
		say(&sock, &second, sizeof(second), -1);
		say(&sock, buf, sizeof(buf), file);
	}
}

static void do_boards(void)
{
	static int sock = -1;
	struct rbt_msg_header msg = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_BOARD};
	struct rbt_msg_treat second = treat(2);
	int fd = memfd_create("board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint32_t head[4] = {RBT_BOARD_MAGIC, RBT_BOARD_VERSION, RBT_BOARD_SIZE, RBT_BOARD_SLOTS};

	if (fd < 0 || ftruncate(fd, RBT_BOARD_SIZE) < 0 || write(fd, head, sizeof(head)) < 0) {
		die("memfd");
	}
	if (noise() % 8 != 0) {
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	}
	say(&sock, &hello, sizeof(hello), -1);
	say(&sock, &second, sizeof(second), -1);
	for (int i = 0; i < 20; i++) {
		say(&sock, &msg, sizeof(msg), fd);
	}
	close(fd);
}

static void do_list(void)
{
	static int sock = -1;
	struct rbt_msg_pid msg = {.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_LIST}};

	for (int i = 0; i < ROUNDS; i++) {
		say(&sock, &msg, sizeof(msg), -1);
	}
}

static void do_connect(void)
{
	static int kept[KEPT];
	static unsigned at;

	for (int i = 0; i < 20; i++, at = (at + 1) % KEPT) {
		if (kept[at] > 0) {
			close(kept[at]);
		}
		kept[at] = connect_daemon();
		n_done++;
	}
}

static const struct {
	const char *name;
	void (*run)(void);
	bool needs_board;
} modes[] = {
	{"board", do_board, true},
	{"wake", do_wake, true},
	{"flip", do_flip, true},
	{"open", do_open, true},
	{"garbage", do_garbage, false},
	{"hello", do_hello, false},
	{"records", do_records, false},
	{"boards", do_boards, false},
	{"list", do_list, false},
	{"connect", do_connect, false},
};
#define N_MODES (sizeof(modes) / sizeof(modes[0]))

int main(int argc, char **argv)
{
	bool wanted[N_MODES] = {false};

	for (int i = 1; i < argc; i++) {
		for (size_t m = 0; m < N_MODES; m++) {
			wanted[m] = wanted[m] || strcmp(argv[i], modes[m].name) == 0;
		}
	}
	for (size_t m = 0; m < N_MODES; m++) {
		if (wanted[m] && modes[m].needs_board && board == NULL) {
			find_board();
		}
	}
	printf("ready pid=%d\n", (int)getpid());
	fflush(stdout);
	for (;;) {
		for (size_t m = 0; m < N_MODES; m++) {
			if (wanted[m]) {
				modes[m].run();
			}
		}
	}
}
