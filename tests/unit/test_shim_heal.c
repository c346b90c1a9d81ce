/* SPDX-License-Identifier: Apache-2.0 */
/* When the shim starts the command that restarts a daemon, and when it does not. */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "test_shim_world.h"
#include "util/sandbox.h"

#define S 1000000000ull

static void write_state(const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/state", world.dir);
	/* The directory is that of all tests here, and one changes the file's owner. */
	unlink(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* A program whose daemon is gone, and has left something. */
static void start(const char *healer)
{
	char sandbox[RBT_SANDBOX_MAX];

	world.clock_stopped = true;
	world.clock_ns = 1000 * S;
	world_start("2", "", NULL);
	CHECK(rbt_sandbox_describe(sandbox) == 0);
	CHECK(strchr(sandbox, ' ') == NULL && strchr(sandbox, '\n') == NULL);
	setenv(RBT_ENV_SANDBOX, sandbox, 1);
	if (healer != NULL) {
		setenv(RBT_ENV_HEALER, healer, 1);
	}
	unlink(world.socket_path);
	write_state("something");
}

static void make_program(void)
{
	make_client(CLIENT, 1);
	make_task(CLIENT, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
}

/* The program makes a call every tenth of a second. */
static void live(uint64_t ns)
{
	for (uint64_t end_ns = world.clock_ns + ns; world.clock_ns < end_ns;) {
		world.clock_ns += S / 10;
		rm_nothing();
	}
}

static void after_three_seconds(void)
{
	start("/opt/rubato/bin/rubato");
	make_program();
	live(5 * S / 2);
	CHECK(world.n_spawned == 0);
	live(3 * S / 2);
	CHECK(world.n_spawned == 1);
	CHECK(strcmp(world.spawned->path, "/opt/rubato/bin/rubato") == 0);
	CHECK(strcmp(world.spawned->argv[1], "ps") == 0 && world.spawned->argv[2] == NULL);
	/* At most once a minute. */
	live(55 * S);
	CHECK(world.n_spawned == 1);
	live(10 * S);
	CHECK(world.n_spawned == 2);
}

static void the_environment_is_cleaned(void)
{
	static const char *const wanted[] = {
		"RUBATO_HEAL=1", "PATH=/bin", "HOME=/home/x", "RUBATO_RUNTIME_DIR=/run/x"};
	size_t n = 0;

	setenv("PATH", "/bin", 1);
	setenv("HOME", "/home/x", 1);
	setenv("RUBATO_RUNTIME_DIR", "/run/x", 1);
	setenv("LD_LIBRARY_PATH", "/lib/x", 1);
	setenv("OTHER", "x", 1);
	unsetenv("LANG");
	unsetenv("XDG_RUNTIME_DIR");
	unsetenv("XDG_CONFIG_HOME");
	start("/opt/rubato/bin/rubato");
	make_program();
	setenv("HOME", "/home/changed", 1);
	live(4 * S);
	CHECK(world.n_spawned == 1);
	for (; world.spawned->envp[n] != NULL; n++) {
		CHECK(n < 4 && strcmp(world.spawned->envp[n], wanted[n]) == 0);
	}
	CHECK(n == 4);
}

static void a_daemon_in_time(void)
{
	start("/rubato");
	make_program();
	live(2 * S);
	daemon_listen();
	live(S);
	CHECK(daemon_accept());
	live(5 * S);
	CHECK(world.n_spawned == 0);
	/* It goes: the three seconds begin anew. */
	close(world.peer);
	close(world.listener);
	live(5 * S / 2);
	CHECK(world.n_spawned == 0);
	live(2 * S);
	CHECK(world.n_spawned == 1);
}

static void nothing_was_left(void)
{
	start("/rubato");
	make_program();
	write_state("");
	live(20 * S);
	CHECK(world.n_spawned == 0);
	write_state("something");
	live(S);
	CHECK(world.n_spawned == 1);
}

/* A daemon with nothing to restore was killed: its socket is still there. */
static void a_socket_was_left(void)
{
	start("/rubato");
	write_state("");
	daemon_listen();
	close(world.listener);
	make_program();
	live(4 * S);
	CHECK(world.n_spawned == 1);
}

/* It ended in order. */
static void a_socket_was_removed(void)
{
	start("/rubato");
	write_state("");
	daemon_listen();
	make_program();
	CHECK(daemon_accept());
	unlink(world.socket_path);
	close(world.listener);
	close(world.peer);
	live(20 * S);
	CHECK(world.n_spawned == 0);
}

static void without_the_variable(void)
{
	start(NULL);
	make_program();
	live(20 * S);
	CHECK(world.n_spawned == 0);
}

static void a_variable_too_long(void)
{
	static char path[9000];

	memset(path, 'x', sizeof(path) - 1);
	setenv("PATH", path, 1);
	start("/rubato");
	make_program();
	live(20 * S);
	CHECK(world.n_spawned == 0);
}

static void without_a_daemon_by_choice(void)
{
	start("/rubato");
	setenv(RBT_ENV_NO_DAEMON, "1", 1);
	make_program();
	live(20 * S);
	CHECK(world.n_spawned == 0);
}

static void without_tasks(void)
{
	start("/rubato");
	make_client(CLIENT, 1);
	live(20 * S);
	CHECK(world.n_spawned == 0);
}

static void another_users_state(void)
{
	char path[128];

	if (geteuid() != 0) {
		return;
	}
	start("/rubato");
	make_program();
	snprintf(path, sizeof(path), "%s/state", world.dir);
	CHECK(chown(path, 12345, 12345) == 0);
	live(20 * S);
	CHECK(world.n_spawned == 0);
}

/* A process whose command would become the program's child. */
static void in_a_reaper(void)
{
	start("/rubato");
	make_program();
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
	live(20 * S);
	CHECK(world.n_spawned == 0);
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0);
	/* This is not asked more often. */
	live(20 * S);
	CHECK(world.n_spawned == 0);
	live(40 * S);
	CHECK(world.n_spawned == 1);
}

static void with_borrowed_rights(void)
{
	if (geteuid() != 0) {
		return;
	}
	start("/rubato");
	make_program();
	CHECK(setresuid(12345, 0, 0) == 0);
	live(20 * S);
	CHECK(world.n_spawned == 0);
}

static void in_another_namespace(void)
{
	start("/rubato");
	make_program();
	if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER) < 0) {
		return;
	}
	live(20 * S);
	CHECK(world.n_spawned == 0);
}

/* It may have restricted itself with landlock(7), which shows nowhere else. */
static void without_new_privileges(void)
{
	start("/rubato");
	make_program();
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	live(20 * S);
	CHECK(world.n_spawned == 0);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(after_three_seconds),
		TEST(the_environment_is_cleaned),
		TEST(a_daemon_in_time),
		TEST(nothing_was_left),
		TEST(a_socket_was_left),
		TEST(a_socket_was_removed),
		TEST(without_the_variable),
		TEST(a_variable_too_long),
		TEST(without_a_daemon_by_choice),
		TEST(without_tasks),
		TEST(another_users_state),
		TEST(in_a_reaper),
		TEST(with_borrowed_rights),
		TEST(in_another_namespace),
		TEST(without_new_privileges),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
