/* SPDX-License-Identifier: Apache-2.0 */
/* /sys/class/kfd: names, formats, and when a process's directory is there. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "judge.h"

#define ROOT KFD_SYSFS_PATH

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names that every directory of sysfs has, and that are the device core's, are left out. */
static bool is_ours(const char *name)
{
	static const char *const others[] = {".", "..", "power", "subsystem", "uevent", "dev"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strcmp(name, others[i]) == 0) {
			return false;
		}
	}
	return true;
}

static void list(const char *what, const char *path)
{
	char *names[256];
	size_t n = 0;
	struct dirent *e;
	DIR *dir = opendir(path);

	if (dir == NULL) {
		say_result(what, -errno);
		return;
	}
	while ((e = readdir(dir)) != NULL && n < 256) {
		if (is_ours(e->d_name)) {
			names[n++] = strdup(e->d_name);
		}
	}
	closedir(dir);
	qsort(names, n, sizeof(names[0]), by_name);
	say("%s={", what);
	for (size_t i = 0; i < n; i++) {
		say("%s", names[i]);
	}
	say("}");
}

static ssize_t read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		return -errno;
	}
	ssize_t n = read(fd, text, size - 1);
	n = n < 0 ? -errno : n;
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n;
}

/* Newlines as '|'; numbers, which are the machine's, as '#' if they are to be hidden. */
static void show(const char *what, const char *path, bool hide)
{
	char text[4096], out[4096];
	size_t o = 0;
	ssize_t n = read_text(path, text, sizeof(text));

	if (n < 0) {
		say_result(what, n);
		return;
	}
	for (ssize_t i = 0; i < n && o < sizeof(out) - 2; i++) {
		bool starts = i == 0 || isspace((unsigned char)text[i - 1]);
		if (hide && isdigit((unsigned char)text[i]) && starts) {
			out[o++] = '#';
			while (isdigit((unsigned char)text[i + 1])) {
				i++;
			}
		} else {
			out[o++] = text[i] == '\n' ? '|' : text[i] == ' ' ? '_' : text[i];
		}
	}
	out[o] = '\0';
	say("%s=\"%s\"", what, out);
}

JUDGE_CASE(case_sysfs_class)
{
	list("class", "/sys/class/kfd");
	list("kfd", ROOT);
	list("topology", ROOT "/topology");
	list("nodes", ROOT "/topology/nodes");
	list("node", ROOT "/topology/nodes/0");
	list("missing", ROOT "/topology/nodes/1");
	list("device", "/sys/devices/virtual/kfd/kfd/topology/nodes");
}

JUDGE_CASE(case_sysfs_system)
{
	show("generation", ROOT "/topology/generation_id", true);
	show("system", ROOT "/topology/system_properties", true);
	int fd = open(ROOT "/topology/generation_id", O_RDWR);
	say_result("write", fd < 0 ? -errno : 0);
}

JUDGE_CASE(case_sysfs_node)
{
	show("gpu_id", ROOT "/topology/nodes/0/gpu_id", false);
	show("name", ROOT "/topology/nodes/0/name", false);
	show("properties", ROOT "/topology/nodes/0/properties", true);
	show("bank", ROOT "/topology/nodes/0/mem_banks/0/properties", true);
	list("banks", ROOT "/topology/nodes/0/mem_banks");
	list("caches", ROOT "/topology/nodes/0/caches");
	list("links", ROOT "/topology/nodes/0/io_links");
}

static void own_dir(char *ret, size_t size, pid_t pid, const char *rest)
{
	snprintf(ret, size, ROOT "/proc/%d%s", (int)pid, rest);
}

JUDGE_CASE(case_sysfs_process)
{
	char path[128];

	list("before", (own_dir(path, sizeof(path), getpid(), ""), path));
	open_kfd();
	list("mine", path);
	list("queues", (own_dir(path, sizeof(path), getpid(), "/queues"), path));
	show("pasid", (own_dir(path, sizeof(path), getpid(), "/pasid"), path), true);
	list("missing", ROOT "/proc/1");
	list("no-number", ROOT "/proc/x");
}

static bool is_there(pid_t pid)
{
	char path[128];

	own_dir(path, sizeof(path), pid, "");
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	if (fd >= 0) {
		close(fd);
	}
	return fd >= 0;
}

/* The kernel takes it away a little later than the process. */
static bool goes_away(pid_t pid)
{
	for (int i = 0; i < 100 && is_there(pid); i++) {
		pause_ms(20);
	}
	return !is_there(pid);
}

JUDGE_CASE(case_sysfs_life)
{
	struct target t = target_start();

	say("started=%d", is_there(t.pid));
	say_result("open", target_ask(&t, TARGET_OPEN, 0, 0));
	say("opened=%d", is_there(t.pid));
	say_result("close", target_ask(&t, TARGET_CLOSE, 0, 0));
	pause_ms(300);
	say("closed=%d", is_there(t.pid));
	target_ask(&t, TARGET_EXEC, 0, 0);
	say_result("exec", target_ask(&t, TARGET_VERSION, 0, 0));
	say("gone-with-exec=%d", goes_away(t.pid));
	say_result("open", target_ask(&t, TARGET_OPEN, 0, 0));
	say("opened=%d", is_there(t.pid));
	target_kill(&t);
	say("gone-with-death=%d", goes_away(t.pid));
}
