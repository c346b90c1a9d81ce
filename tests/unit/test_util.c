/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing, JSON, packets with file descriptors, facts about processes. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "util/aside.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/parse.h"
#include "util/proc.h"
#include "util/runtime.h"
#include "util/sealed.h"
#include "util/utf8.h"

static void test_parse_u64(void)
{
	uint64_t v = 7;

	CHECK_INT(rbt_parse_u64("1000000", 1, 1000000, &v), 0);
	CHECK_INT(v, 1000000);
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "1e12", "abc", "0x10", "1.5"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_INT(rbt_parse_u64(bad[i], 0, 100, &v), -EINVAL);
	}
	CHECK_INT(rbt_parse_u64("0", 1, 100, &v), -ERANGE);
	CHECK_INT(rbt_parse_u64("101", 1, 100, &v), -ERANGE);
	CHECK_INT(rbt_parse_u64("99999999999999999999999", 0, UINT64_MAX, &v), -ERANGE);
	CHECK_INT(v, 1000000); /* untouched by failure */
}

static void test_parse_size(void)
{
	static const struct {
		const char *text;
		int result;
		uint64_t bytes;
	} cases[] = {{"1048576", 0, 1 << 20}, {"512M", 0, 512u << 20}, {"20G", 0, 20ull << 30},
		{"20g", 0, 20ull << 30}, {"20GB", 0, 20ull << 30}, {"20GiB", 0, 20ull << 30},
		{"2T", 0, 2ull << 40}, {"2048K", 0, 2 << 20}, {"1048576b", 0, 1 << 20},
		{"0", -ERANGE, 0}, {"20", -ERANGE, 0}, {"5000T", -ERANGE, 0},
		{"99999999999999999999999G", -ERANGE, 0}, {"18014398509481984K", -ERANGE, 0},
		{"-5", -EINVAL, 0}, {"20X", -EINVAL, 0}, {"", -EINVAL, 0}, {"G", -EINVAL, 0},
		{"1.5G", -EINVAL, 0}, {"20 G", -EINVAL, 0}, {"20Gi", -EINVAL, 0},
		{"20GBs", -EINVAL, 0}, {"+20G", -EINVAL, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t v = 0;
		int r = rbt_parse_size(cases[i].text, 1 << 20, 1ull << 50, &v);
		if (r != cases[i].result || v != cases[i].bytes) {
			fprintf(stderr, "%s: %d, %llu\n", cases[i].text, r, (unsigned long long)v);
			CHECK(false);
		}
	}
}

static void test_parse_seconds(void)
{
	uint64_t ms = 0;

	CHECK_INT(rbt_parse_seconds("1.5", 10000, &ms), 0);
	CHECK_INT(ms, 1500);
	CHECK_INT(rbt_parse_seconds(".0001", 10000, &ms), 0);
	CHECK_INT(ms, 1); /* rounded up: never 0, which would mean for ever */
	CHECK_INT(rbt_parse_seconds("0", 10000, &ms), -ERANGE);
	CHECK_INT(rbt_parse_seconds("11", 10000, &ms), -ERANGE);
	CHECK_INT(rbt_parse_seconds("-1", 10000, &ms), -EINVAL);
	CHECK_INT(rbt_parse_seconds("nan", 10000, &ms), -EINVAL);
	CHECK_INT(rbt_parse_seconds("1s", 10000, &ms), 0);
	CHECK_INT(ms, 1000);
	CHECK_INT(rbt_parse_seconds("1.5m", 100000, &ms), 0);
	CHECK_INT(ms, 90000);
	CHECK_INT(rbt_parse_seconds("2h", 7200000, &ms), 0);
	CHECK_INT(ms, 7200000);
	CHECK_INT(rbt_parse_seconds("2m", 100000, &ms), -ERANGE);
	CHECK_INT(rbt_parse_seconds("1ms", 10000, &ms), -EINVAL);
	CHECK_INT(rbt_parse_seconds("1d", 10000, &ms), -EINVAL);
	CHECK_INT(rbt_parse_seconds("m", 10000, &ms), -EINVAL);
}

static void test_parse_permille(void)
{
	static const struct {
		const char *text;
		int result;
		uint64_t permille;
	} cases[] = {{"2", 0, 20}, {"2.5", 0, 25}, {"2.5 %", 0, 25}, {"10%", 0, 100}, {"0", 0, 0},
		{"10.1", -ERANGE, 0}, {"18446744073709551615", -ERANGE, 0}, {"", -EINVAL, 0},
		{"%", -EINVAL, 0}, {"2%%", -EINVAL, 0}, {"% 2", -EINVAL, 0}, {"2.55", -EINVAL, 0},
		{".5", -EINVAL, 0}, {"2.", -EINVAL, 0}, {"-1", -EINVAL, 0},
		{"1                                        ", -EINVAL, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t v = 0;
		CHECK_INT(rbt_parse_permille(cases[i].text, 100, &v), cases[i].result);
		CHECK_INT(v, cases[i].permille);
	}
}

static void test_json(void)
{
	char *text = NULL;
	size_t size = 0;
	struct rbt_json j;
	FILE *f = open_memstream(&text, &size);

	rbt_json_init(&j, f);
	rbt_json_object(&j, NULL);
	rbt_json_string(&j, "a\"b", "x\\y\n\x01");
	rbt_json_array(&j, "list");
	rbt_json_u64(&j, NULL, UINT64_MAX);
	rbt_json_null(&j, NULL);
	rbt_json_end(&j, ']');
	rbt_json_array(&j, "empty");
	rbt_json_end(&j, ']');
	rbt_json_double(&j, "nan", 0.0 / 0.0);
	rbt_json_bool(&j, "yes", true);
	/* Whole characters stay; a lone byte, a long form, a surrogate and a cut-off end do not. */
	rbt_json_string(&j, "utf8", "\u00e9\u20ac|\xff|\xc0\xaf|\xed\xa0\x80|\xe2\x82");
	rbt_json_end(&j, '}');
	fclose(f);
	static const char want[] =
		"{\n  \"a\\\"b\": \"x\\\\y\\u000a\\u0001\",\n  \"list\": [\n"
		"    18446744073709551615,\n    null\n  ],\n  \"empty\": [],\n"
		"  \"nan\": null,\n  \"yes\": true,\n  \"utf8\": \"\u00e9\u20ac|"
		"\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\"\n}\n";
	CHECK(strcmp(text, want) == 0);
	free(text);
}

static void test_fds_travel(void)
{
	int pair[2], fds[RBT_MAX_FDS_PER_MSG], pipe_fds[2];
	size_t n_fds = 0;
	char buf[8], c = 0;

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
	CHECK_INT(rbt_send(pair[0], "hi", 2, pipe_fds, 2, 0), 0);
	CHECK_INT(rbt_recv(pair[1], buf, sizeof(buf), fds, &n_fds, 0), 2);
	CHECK_INT(n_fds, 2);
	CHECK((fcntl(fds[0], F_GETFD) & FD_CLOEXEC) != 0);
	CHECK_INT(write(fds[1], "x", 1), 1);
	CHECK_INT(read(pipe_fds[0], &c, 1), 1);
	CHECK_INT(c, 'x');
	rbt_close(&fds[0]);
	rbt_close(&fds[1]);
	/* A packet that does not fit is refused whole, and its fds do not leak. */
	int before = dup(0);
	close(before);
	CHECK_INT(rbt_send(pair[0], "too long to fit", 15, pipe_fds, 2, 0), 0);
	CHECK_INT(rbt_recv(pair[1], buf, sizeof(buf), fds, &n_fds, 0), -EMSGSIZE);
	int after = dup(0);
	close(after);
	CHECK_INT(before, after);
	close(pair[1]);
	CHECK_INT(rbt_send(pair[0], "x", 1, NULL, 0, 0), -EPIPE); /* and no signal */
	close(pair[0]);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static int count_fd(pid_t pid, int fd, void *data)
{
	(*(int *)data)++;
	return 0;
}

static enum rbt_head head_after(const char *text, size_t size, int fd)
{
	int pair[2], on = 1;
	char buf[8];

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	CHECK_INT(rbt_head(pair[0]), RBT_HEAD_NONE);
	/* The other end is closed with something unread. */
	CHECK_INT(rbt_send(pair[0], "x", 1, NULL, 0, 0), 0);
	if (text != NULL) {
		CHECK_INT(rbt_send(pair[1], text, size, &fd, fd >= 0 ? 1 : 0, 0), 0);
	}
	close(pair[1]);
	int before = dup(pair[0]);
	close(before);
	enum rbt_head ret = rbt_head(pair[0]);
	/* It was looked at, and no file came in. */
	int after = dup(pair[0]);
	close(after);
	CHECK_INT(after, before);
	CHECK_INT(rbt_head(pair[0]), ret);
	CHECK_INT(recv(pair[0], buf, sizeof(buf), MSG_DONTWAIT), (int)size);
	CHECK_INT(rbt_head(pair[0]), RBT_HEAD_NONE);
	close(pair[0]);
	return ret;
}

static void test_head(void)
{
	CHECK_INT(head_after(NULL, 0, -1), RBT_HEAD_NONE);
	CHECK_INT(head_after("abc", 3, -1), RBT_HEAD_PLAIN);
	CHECK_INT(head_after("", 0, -1), RBT_HEAD_PLAIN);
	CHECK_INT(head_after("abc", 3, STDERR_FILENO), RBT_HEAD_FILES);
	CHECK_INT(head_after("", 0, STDERR_FILENO), RBT_HEAD_FILES);
	/* Not known. */
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_INT(rbt_head(fd), RBT_HEAD_FILES);
	close(fd);
}

static void report_kept(int sock, void *data)
{
	const size_t *n = data;
	char text[4] = {0};

	/* What each of the kept files brings, in their order; and that no other is open. */
	for (size_t i = 0; i < *n; i++) {
		if (read(RBT_ASIDE_KEPT + (int)i, text + i, 1) != 1) {
			text[i] = '?';
		}
	}
	text[*n] = fcntl(sock + 1, F_GETFD) < 0 ? '.' : '!';
	rbt_send(sock, text, *n + 1, NULL, 0, 0);
}

static int filled_pipe(const char *text)
{
	int fds[2];

	CHECK(pipe2(fds, O_CLOEXEC) == 0 && write(fds[1], text, 1) == 1);
	close(fds[1]);
	return fds[0];
}

/* A process of its own has the files that it is to have, in order, wherever they were. */
static void test_aside(void)
{
	for (size_t n = 0; n <= 3; n++) {
		int keep[3] = {filled_pipe("a"), filled_pipe("b"), filled_pipe("c")}, sock, fds[4];
		char text[8] = "";
		size_t n_fds;
		/* Far away, and where another is to go. */
		keep[1] = fcntl(keep[1], F_DUPFD_CLOEXEC, 300);
		pid_t pid = rbt_aside_start_with(report_kept, &n, keep, n, &sock);
		CHECK(pid > 0);
		CHECK_INT(rbt_recv(sock, text, sizeof(text), fds, &n_fds, 0), (int)n + 1);
		CHECK(strcmp(text, n == 0 ? "." : n == 1 ? "a." : n == 2 ? "ab." : "acb.") == 0);
		CHECK_INT(waitpid(pid, NULL, 0), pid);
		close(sock);
	}
}

static void expect_harmless(const char *text, const char *wanted)
{
	char buf[64];

	snprintf(buf, sizeof(buf), "%s", text);
	rbt_utf8_make_harmless(buf);
	CHECK(strcmp(buf, wanted) == 0);
}

static void test_harmless(void)
{
	expect_harmless("plain, \xc3\xa4, \xe2\x82\xac, \xf0\x9f\x98\x80",
		"plain, \xc3\xa4, \xe2\x82\xac, \xf0\x9f\x98\x80");
	expect_harmless("", "");
	expect_harmless("\x1b[2J\n\t\x7f", " [2J   ");
	/* C1 controls, in both forms */
	expect_harmless("\xc2\x9b\x33m\xc2\x80", " 3m ");
	expect_harmless("\x9b\x33m", "?3m");
	/* no characters: alone, cut short, too long a form, a surrogate, too large */
	expect_harmless("\xff\xfe", "??");
	expect_harmless("a\xe2\x82", "a??");
	expect_harmless("\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80", "?????????");
	/* directions, no width, a tag */
	expect_harmless("a\xe2\x80\xae"
			"b\xe2\x81\xa6"
			"c\xd8\x9c",
		"a?b?c?");
	expect_harmless("\xef\xbb\xbf\xe2\x80\x8b\xf3\xa0\x81\x81", "???");
}

static void test_proc(void)
{
	uint64_t mine = 0, child_start = 0;
	uid_t uid = 12345;
	char command[64];
	int n = 0;

	CHECK_INT(rbt_proc_start_time(getpid(), &mine), 0);
	CHECK(mine > 0);
	CHECK_INT(rbt_proc_uid(getpid(), &uid), 0);
	CHECK_INT(uid, geteuid());
	CHECK_INT(rbt_proc_command(getpid(), command, sizeof(command)), 0);
	CHECK(strstr(command, "test") != NULL);
	/* What another's command line would do to a terminal. */
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/sleep", "a\x1b[2J\xc2\x9b\x33\x31m\x7f\xc3\xa4", "60", NULL);
		_exit(1);
	}
	for (int i = 0; i < 1000; i++) {
		usleep(1000);
		CHECK_INT(rbt_proc_command(child, command, sizeof(command)), 0);
		if (strstr(command, " 60") != NULL) {
			break;
		}
	}
	CHECK(strcmp(command, "a [2J 31m \xc3\xa4 60") == 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_INT(rbt_proc_each_fd(getpid(), "/dev/null", count_fd, &n), 0);
	CHECK(n >= 1);
	int copy = dup(null_fd), other = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_INT(rbt_same_file(getpid(), null_fd, getpid(), copy), 1);
	CHECK_INT(rbt_same_file(getpid(), null_fd, getpid(), other), 0);
	close(copy);
	close(other);
	close(null_fd);
	pid_t pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	int pidfd = rbt_pidfd_open(pid);
	CHECK_INT(rbt_pidfd_pid(pidfd), pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK_INT(rbt_pidfd_pid(pidfd), -ESRCH);
	CHECK_INT(rbt_proc_start_time(pid, &child_start), -ESRCH);
	close(pidfd);
}

static void test_sealed(void)
{
	char path[] = "/tmp/rubato-test-XXXXXX";
	void *data = NULL;
	size_t size = 99;
	int fd = rbt_sealed_create("test", "12345", 5);

	CHECK(fd >= 0);
	CHECK(pwrite(fd, "x", 1, 0) < 0 && errno == EPERM);
	CHECK(ftruncate(fd, 3) < 0 && errno == EPERM);
	CHECK_INT(rbt_sealed_read(fd, 4, &data, &size), -EFBIG);
	CHECK(data == NULL && size == 99);
	CHECK_INT(rbt_sealed_read(fd, 5, &data, &size), 0);
	CHECK(size == 5 && strcmp(data, "12345") == 0);
	free(data);
	close(fd);
	fd = rbt_sealed_create("test", "", 0);
	CHECK_INT(rbt_sealed_read(fd, 5, &data, &size), 0);
	CHECK_INT(size, 0);
	free(data);
	close(fd);
	/* Files that somebody could still change, or that can block. */
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	CHECK_INT(rbt_sealed_read(fd, 5, &data, &size), -EINVAL);
	close(fd);
	fd = mkstemp(path);
	unlink(path);
	CHECK_INT(rbt_sealed_read(fd, 5, &data, &size), -EINVAL);
	close(fd);
	CHECK_INT(rbt_sealed_read(-1, 5, &data, &size), -EINVAL);
}

/* A job of Slurm has the variables of the host that it was submitted on. */
static void test_runtime_dir(void)
{
	bool is_root = geteuid() == 0;
	char dir[128];

	CHECK_INT(is_root ? seteuid(65534) : 0, 0); /* root's is always the same */
	unsetenv("RUBATO_RUNTIME_DIR");
	setenv("XDG_RUNTIME_DIR", "/tmp", 1);
	CHECK_INT(rbt_runtime_dir(geteuid(), dir, sizeof(dir)), 0);
	CHECK(strcmp(dir, "/tmp/rubato") == 0);
	setenv("XDG_RUNTIME_DIR", "/nonexistent/4242", 1);
	CHECK_INT(rbt_runtime_dir(geteuid(), dir, sizeof(dir)), 0);
	CHECK(strncmp(dir, "/nonexistent", 12) != 0);
	CHECK_INT(is_root ? seteuid(0) : 0, 0);
}

int main(void)
{
	test_parse_u64();
	test_parse_size();
	test_parse_seconds();
	test_parse_permille();
	test_json();
	test_fds_travel();
	test_head();
	test_sealed();
	test_aside();
	test_harmless();
	test_proc();
	test_runtime_dir();
	return check_result();
}
