/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of a virtual machine that runs tests: the commands of /commands, one per line.
 * The first word is the user: root, or nobody with CAP_BPF alone, which is what rubatod's service
 * has. What a command writes goes to the second serial line, between "begin N" and "end N STATUS".
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define RESULTS  "/dev/ttyS1"
#define COMMANDS "/commands"
#define NOBODY   65534
#define MAX_ARGS 8

static int become_nobody(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}, {0}};
	const unsigned bit = 1u << (CAP_BPF - 32);

	data[1] = (struct __user_cap_data_struct){bit, bit, bit};
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0 ||
		syscall(SYS_capset, &head, data) < 0 ||
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_BPF, 0, 0) < 0) {
		return -errno;
	}
	return 0;
}

static void run(int number, char *line)
{
	char *args[MAX_ARGS + 1] = {NULL}, *rest = NULL;
	const char *user = strtok_r(line, " \n", &rest);
	int status = -1;

	for (int i = 0; i < MAX_ARGS; i++) {
		args[i] = strtok_r(NULL, " \n", &rest);
	}
	printf("begin %d\n", number);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(STDOUT_FILENO, STDERR_FILENO);
		if (args[0] == NULL || (strcmp(user, "root") != 0 && become_nobody() < 0)) {
			_exit(125);
		}
		execv(args[0], args);
		_exit(126);
	}
	if (pid > 0) {
		waitpid(pid, &status, 0);
	}
	printf("\nend %d %d\n", number, status);
	fflush(stdout);
}

static void run_all(void)
{
	char line[512];
	FILE *list = fopen(COMMANDS, "re");

	for (int i = 0; list != NULL && fgets(line, sizeof(line), list) != NULL; i++) {
		run(i, line);
	}
	if (list != NULL) {
		fclose(list);
	}
}

int main(void)
{
	struct utsname name = {0};

	if (getpid() != 1) {
		fprintf(stderr, "first: for virtual machines, as their first process\n");
		return 2;
	}
	if (mount("proc", "/proc", "proc", 0, NULL) < 0 ||
		mount("sys", "/sys", "sysfs", 0, NULL) < 0 ||
		(mount("dev", "/dev", "devtmpfs", 0, NULL) < 0 && errno != EBUSY)) {
		perror("first: mount");
	}
	int out = open(RESULTS, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (out >= 0) {
		dup2(out, STDOUT_FILENO);
	}
	uname(&name);
	printf("kernel %s\n", name.release);
	run_all();
	printf("done\n");
	fflush(stdout);
	sleep(1); /* the serial line is slow to drain */
	reboot(RB_POWER_OFF);
	return 1;
}
