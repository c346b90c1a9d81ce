/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/heal.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/shim.h"
#include "util/sandbox.h"

/* The keeper starts a killed daemon within 2 s. */
#define LOST_NS 3000000000ull
/* How often one program starts the command. */
#define PAUSE_NS 60000000000ull
/* The command starts a daemon within this time, or not at all. */
#define START_NS  5000000000ull
#define TEXT_SIZE 8192

/* What the command and the daemon that it starts read, as far as it is not about one program. */
static const char *const kept[] = {"PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME",
	RBT_ENV_RUNTIME_DIR, "RUBATO_SYSTEM_DIR", "RUBATO_IDLE_EXIT_S", "RUBATO_DEBUG"};
#define N_KEPT (sizeof(kept) / sizeof(kept[0]))

static struct {
	const char *path; /* of `rubato`; NULL: nothing is ever started */
	char sandbox[RBT_SANDBOX_MAX];
	char *envp[N_KEPT + 2];
	char text[TEXT_SIZE];
	size_t size;
} command;

/* Appends to the text. NULL: there is no room. */
static char *keep(const char *part)
{
	size_t len = strlen(part);
	char *at = command.text + command.size;

	if (len >= sizeof(command.text) - command.size) {
		return NULL;
	}
	memcpy(at, part, len + 1);
	command.size += len;
	return at;
}

static bool keep_variables(void)
{
	static char heal[] = RBT_ENV_HEAL "=1";
	size_t n = 0;

	command.envp[n++] = heal;
	for (size_t i = 0; i < N_KEPT; i++) {
		const char *value = secure_getenv(kept[i]);
		if (value == NULL) {
			continue;
		}
		command.envp[n] = keep(kept[i]);
		if (command.envp[n++] == NULL || keep("=") == NULL || keep(value) == NULL) {
			return false;
		}
		command.size++; /* the end of the string */
	}
	return true;
}

void shim_heal_configure(void)
{
	const char *path = secure_getenv(RBT_ENV_HEALER);
	const char *sandbox = secure_getenv(RBT_ENV_SANDBOX);

	if (shim_config.no_daemon || path == NULL || path[0] != '/' || sandbox == NULL ||
		strlen(sandbox) >= sizeof(command.sandbox) || !keep_variables()) {
		return;
	}
	memcpy(command.sandbox, sandbox, strlen(sandbox) + 1);
	command.path = keep(path);
}

static bool is_own(const char *path, mode_t type)
{
	struct stat st;

	return syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (st.st_mode & S_IFMT) == type && (type == S_IFSOCK || st.st_size > 0) &&
	       st.st_uid == (uid_t)syscall(SYS_geteuid);
}

/* Whether a daemon of our user was killed. One that ends in order removes its socket and, if all
 * programs are restored, its state file. */
static bool was_killed(void)
{
	static const char name[] = "/state";
	char path[sizeof(shim_config.socket) + sizeof(name)];
	const char *slash = strrchr(shim_config.socket, '/');

	if (slash == NULL) {
		return false;
	}
	size_t len = (size_t)(slash - shim_config.socket);
	memcpy(path, shim_config.socket, len);
	memcpy(path + len, name, sizeof(name));
	return is_own(shim_config.socket, S_IFSOCK) || is_own(path, S_IFREG);
}

/*
 * Whether a process that this program starts is like one that its user starts elsewhere. The order
 * matters: a program that has a seccomp filter of its own may be killed for the calls that follow.
 */
static bool is_ordinary(void)
{
	char sandbox[RBT_SANDBOX_MAX];
	int is_reaper = 0;

	if (rbt_sandbox_describe(sandbox) < 0 || strcmp(sandbox, command.sandbox) != 0) {
		return false;
	}
	/* The command has the rights of the user alone. */
	if (syscall(SYS_getuid) != syscall(SYS_geteuid) ||
		syscall(SYS_getgid) != syscall(SYS_getegid)) {
		return false;
	}
	/* The command would become a child of such a program. */
	return shim_sys_getpid() != 1 &&
	       syscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, &is_reaper, 0, 0, 0) == 0 &&
	       is_reaper == 0;
}

void shim_heal_consider(struct shim *s, uint64_t now_ns)
{
	static char *const argv[] = {(char *)"rubato", (char *)"ps", NULL};
	struct shim_heal *h = &s->heal;

	if (command.path == NULL) {
		return;
	}
	h->lost_ns = h->lost_ns != 0 ? h->lost_ns : now_ns;
	if (now_ns - h->lost_ns < LOST_NS || now_ns < h->allowed_ns || !was_killed()) {
		return;
	}
	/* Whatever follows: these checks take longer than the others. */
	h->allowed_ns = now_ns + PAUSE_NS;
	if (!is_ordinary()) {
		return;
	}
	s->spawn.path = command.path;
	s->spawn.argv = argv;
	s->spawn.envp = command.envp;
	(void)shim_raw_spawn(&s->spawn);
}

void shim_heal_found(struct shim *s)
{
	s->heal.lost_ns = 0;
}

bool shim_heal_is_under_way(const struct shim *s, uint64_t now_ns)
{
	return s->heal.allowed_ns != 0 && now_ns < s->heal.allowed_ns - PAUSE_NS + START_NS;
}
