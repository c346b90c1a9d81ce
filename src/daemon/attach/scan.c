/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/attach/scan.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/backend.h"
#include "daemon/attach/adopt.h"
#include "daemon/attach/rules.h"
#include "daemon/daemon.h"
#include "daemon/peers/devicefile.h"
#include "daemon/survive/byhand.h"
#include "proto/message.h"
#include "util/cgroup.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/time.h"

#define ENVIRON_MAX (1 << 20)
#define MAPS_MAX    (8 << 20)
/* Room for a dozen cgroup v1 hierarchies, with the longest paths that the kernel shows. */
#define CGROUPS_MAX (16 * (PATH_MAX + 64))

/* Facts about the program that is being inspected. */
static struct {
	char user[64], groups[4096], exe[4096], argv0[4096], args[8192], cgroups[CGROUPS_MAX];
	char environ[ENVIRON_MAX];
	size_t environ_size;
	char maps[MAPS_MAX];
} buf;

struct scan {
	const struct daemon *d;
	int sock;
	uint64_t now_ns;
	uint64_t inside_ns; /* the scan's time spent on searching for tasks */
};

static ssize_t read_proc(pid_t pid, const char *name, char *to, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	ssize_t n = rbt_read_file(path, to, size);
	if (n < 0) {
		to[0] = '\0';
	}
	return n;
}

static void read_user(uid_t uid, bool with_groups)
{
	const struct passwd *pw = getpwuid(uid);
	gid_t gids[256];
	int n = 256;

	buf.user[0] = buf.groups[0] = '\0';
	if (pw == NULL) {
		return;
	}
	snprintf(buf.user, sizeof(buf.user), "%s", pw->pw_name);
	if (!with_groups || getgrouplist(pw->pw_name, pw->pw_gid, gids, &n) < 0) {
		return;
	}
	size_t at = 0;
	for (int i = 0; i < n && at < sizeof(buf.groups); i++) {
		const struct group *gr = getgrgid(gids[i]);
		int len = gr == NULL ? 0
				     : snprintf(buf.groups + at, sizeof(buf.groups) - at, " %s ",
					       gr->gr_name);
		at += len > 0 ? (size_t)len : 0;
	}
}

static void read_command(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	ssize_t n = readlink(path, buf.exe, sizeof(buf.exe) - 1);
	buf.exe[n > 0 ? n : 0] = '\0';
	/* An executable that was replaced while it runs still has its old name. */
	char *deleted = strstr(buf.exe, " (deleted)");
	if (deleted != NULL) {
		*deleted = '\0';
	}
	n = read_proc(pid, "cmdline", buf.args, sizeof(buf.args));
	snprintf(buf.argv0, sizeof(buf.argv0), "%.*s", (int)sizeof(buf.argv0) - 1, buf.args);
	while (n > 0 && buf.args[n - 1] == '\0') {
		n--;
	}
	for (ssize_t i = 0; i < n; i++) {
		if (buf.args[i] == '\0') {
			buf.args[i] = ' ';
		}
	}
}

/* Reads the paths of the program's cgroups. cgroup v2 has one of them, v1 several. */
static void read_cgroups(pid_t pid)
{
	static char text[sizeof(buf.cgroups)];
	const char *rest = text;
	struct rbt_cgroup_line line;
	size_t at = 0;

	buf.cgroups[0] = '\0';
	if (read_proc(pid, "cgroup", text, sizeof(text)) <= 0) {
		return;
	}
	/* Each path is shorter than its line, so all of them fit. */
	while (rbt_cgroup_next(&rest, &line)) {
		memcpy(buf.cgroups + at, line.path, line.length);
		at += line.length;
		buf.cgroups[at++] = '\n';
	}
	buf.cgroups[at] = '\0';
}

static const char *variable(void *ctx, const char *name)
{
	size_t len = strlen(name);

	for (size_t at = 0; at < buf.environ_size; at += strlen(buf.environ + at) + 1) {
		if (strncmp(buf.environ + at, name, len) == 0 && buf.environ[at + len] == '=') {
			return buf.environ + at + len + 1;
		}
	}
	return NULL;
}

/*
 * Whether the program's shim will say how to treat it, to this daemon or another one. Only the
 * loaded library counts: anybody can set an environment variable.
 */
static bool speaks_for_itself(pid_t pid)
{
	return read_proc(pid, "maps", buf.maps, sizeof(buf.maps)) > 0 &&
	       strstr(buf.maps, "/librubato.so\n") != NULL;
}

static bool any_rule_names_groups(const struct rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		if (strchr(rules->list[i].user, '@') != NULL) {
			return true;
		}
	}
	return false;
}

static const struct rule *match(const struct scan *s, pid_t pid, uid_t uid)
{
	struct rule_facts facts = {
		.uid = uid,
		.user = buf.user,
		.groups = buf.groups,
		.exe = buf.exe,
		.argv0 = buf.argv0,
		.args = buf.args,
		.cgroups = buf.cgroups,
	};

	read_command(pid);
	read_cgroups(pid);
	return rules_match(&s->d->adopt.rules, &facts);
}

/* Names a group after the program's cgroup: the deepest one of its hierarchies. */
static void name_cgroup(char name[RBT_GROUP_NAME_MAX])
{
	const char *best = "", *at = buf.cgroups;
	size_t best_len = 0;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	while (*at != '\0') {
		size_t n = strcspn(at, "\n");
		if (n > best_len) {
			best = at;
			best_len = n;
		}
		at += n + (at[n] == '\n');
	}
	for (size_t i = 0; i < best_len; i++) {
		hash = (hash ^ (unsigned char)best[i]) * UINT64_C(0x100000001b3);
	}
	/* The name shows the end of the path, which tells a reader most. A hash of the whole path
	 * makes it unique. */
	size_t shown = best_len < 32 ? best_len : 32;
	snprintf(name, RBT_GROUP_NAME_MAX, "cgroup:%016llx:%.*s", (unsigned long long)hash,
		(int)shown, best + best_len - shown);
	for (char *c = name; *c != '\0'; c++) {
		if (*c <= ' ' || *c > '~') {
			*c = '_';
		}
	}
}

static void find_group(const struct rule *rule, struct scan_report *report)
{
	struct rbt_treatment said;
	char why[RBT_TREAT_WHY_MAX];
	ssize_t n;

	report->group_is_shared =
		rule->group == RULE_GROUP_CGROUP || rule->group == RULE_GROUP_NAMED;
	report->group[0] = '\0';
	switch (rule->group) {
	case RULE_GROUP_JOB:
		n = read_proc(report->pid, "environ", buf.environ, sizeof(buf.environ));
		buf.environ_size = n > 0 ? (size_t)n : 0;
		rbt_treatment_read_env(variable, NULL, &said, why);
		rbt_treatment_find_group(variable, NULL, &said);
		memcpy(report->group, said.group, sizeof(report->group));
		return;
	case RULE_GROUP_CGROUP:
		name_cgroup(report->group);
		return;
	case RULE_GROUP_NAMED:
		snprintf(report->group, sizeof(report->group), "%s", rule->treat.group);
		return;
	case RULE_GROUP_NONE:
		return;
	}
}

static int discover(const void *data, struct rbt_record **ret, size_t *ret_n)
{
	const struct scan_report *report = data;
	uint64_t start_time = 0;
	int pidfd = rbt_pidfd_open(report->pid);

	if (pidfd < 0) {
		return pidfd == -EINVAL ? -ESRCH : pidfd;
	}
	/* The pidfd may belong to a later process with the same pid. */
	int r = rbt_proc_start_time(report->pid, &start_time);
	if (r < 0 || start_time != report->start_time) {
		close(pidfd);
		return -ESRCH;
	}
	r = rbt_backends_discover(report->pid, pidfd, ret, ret_n);
	close(pidfd);
	return r;
}

static int send_report(const struct scan *s, const struct scan_report *report)
{
	return rbt_send(s->sock, report, sizeof(*report), NULL, 0, 0);
}

/* The program may have another file by now under the number that its device had. Such a file must
 * not reach the daemon (porter.c). Closing it may hang, but then only this process hangs. */
static size_t keep_devices(struct rbt_record *recs, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (check_device_fd(&recs[i]) == 0) {
			recs[kept++] = recs[i];
		} else {
			rbt_record_finish(&recs[i]);
		}
	}
	return kept;
}

/* Finds the program's tasks, unless the daemon has them, and reports both. */
static int report_rule(struct scan *s, struct scan_report *report, bool is_held)
{
	struct rbt_record *recs = NULL;
	uint64_t began_ns = rbt_cpu_ns();
	size_t n = 0;

	report->error = is_held ? 0 : rbt_discover_set_up(discover, report, &recs, &n);
	n = keep_devices(recs, n);
	s->inside_ns += rbt_cpu_ns() - began_ns;
	report->n_records = (uint32_t)n;
	int r = send_report(s, report);
	if (r == 0) {
		r = rbt_records_send(s->sock, recs, n);
	}
	rbt_records_free(recs, n);
	return r;
}

static int count_file(pid_t pid, int fd, void *data)
{
	++*(uint32_t *)data;
	return 0;
}

static uint32_t count_files(pid_t pid)
{
	uint32_t n = 0;

	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		rbt_proc_each_fd(pid, (*b)->control_node, count_file, &n);
	}
	return n;
}

static bool is_our_executable(pid_t pid)
{
	struct stat own, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat("/proc/self/exe", &own) == 0 && stat(path, &its) == 0 &&
	       own.st_dev == its.st_dev && own.st_ino == its.st_ino;
}

/* Whether the process is a daemon or a hand, which hold copies of their programs' device files. A
 * process name proves nothing, because any process can take it. The executable alone proves nothing
 * either, because its user can load code into it. */
static bool is_ours(const struct daemon *d, pid_t pid, uid_t uid)
{
	if (pid == getpid() || pid == getppid() || pid == d->hand.pid) {
		return true;
	}
	return (uid == 0 || !d->options.is_system) && is_our_executable(pid);
}

static const struct program *find_program(const struct daemon *d, pid_t pid)
{
	const struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		if (p->pid == pid) {
			return p;
		}
	}
	return NULL;
}

/* Whether the program belongs to a user whom a user's daemon does not serve. */
static bool is_others(const struct daemon *d, uid_t uid)
{
	return !d->options.is_system && uid != geteuid();
}

/* Does everything that reads the program's memory, which may hang. */
static int inspect(struct scan *s, struct scan_report *report, const struct sighting *known)
{
	const struct program *p = find_program(s->d, report->pid);

	report->verdict = SCAN_NOTHING;
	/* If a program has a device open and our library is not loaded, no shim will ever connect,
	 * even if `rubato run` announced the program. */
	if ((p != NULL && p->peer != NULL) ||
		(!is_others(s->d, report->uid) && speaks_for_itself(report->pid))) {
		return send_report(s, report);
	}
	const struct rule *rule = match(s, report->pid, report->uid);
	const struct said *said = byhand_find(s->d, report->pid, report->start_time);
	if (rule != NULL && !rule->is_ignored) {
		report->verdict = SCAN_RULE;
		report->rule = (uint32_t)(rule - s->d->adopt.rules.list);
		find_group(rule, report);
	} else if (said != NULL && said->is_wanted) {
		report->verdict = SCAN_SAID;
	} else {
		return send_report(s, report);
	}
	bool is_held = p != NULL && !LIST_EMPTY(&p->clients) &&
		       (known == NULL || known->n_files == report->n_files);
	return report_rule(s, report, is_held);
}

static int inspect_process(pid_t pid, void *data)
{
	struct scan *s = data;
	struct scan_report report = {.verdict = SCAN_SEEN, .pid = pid};
	uid_t uid;

	if (rbt_proc_uid(pid, &uid) < 0 || is_ours(s->d, pid, uid)) {
		return 0;
	}
	/* Programs of other users count only if root has given an order for them. */
	bool must_be_said = is_others(s->d, uid);
	if (must_be_said && LIST_EMPTY(&s->d->byhand.said)) {
		return 0;
	}
	report.uid = uid;
	report.n_files = count_files(pid);
	if (report.n_files == 0 || rbt_proc_start_time(pid, &report.start_time) < 0 ||
		(must_be_said && byhand_find(s->d, pid, report.start_time) == NULL)) {
		return 0;
	}
	const struct sighting *known = adopt_find(s->d, pid, report.start_time);
	if ((known != NULL && !adopt_is_due(s->d, known, report.n_files, s->now_ns)) ||
		rbt_lost_is_shunned(&s->d->adopt.lost, scan_inspected(&report), s->now_ns)) {
		return send_report(s, &report);
	}
	/* This comes before SCAN_INSPECTS: if the user database is slow, that is not the program's
	 * fault. */
	read_user(uid, any_rule_names_groups(&s->d->adopt.rules));
	report.verdict = SCAN_INSPECTS;
	int r = send_report(s, &report);
	if (r < 0) {
		return r;
	}
	alarm(RBT_INSPECT_S);
	r = inspect(s, &report, known);
	alarm(SCAN_WALK_S);
	return r;
}

void scan_run(int sock, void *data)
{
	struct scan s = {.d = data, .sock = sock, .now_ns = rbt_now_ns()};
	struct scan_report done = {.verdict = SCAN_DONE};
	uint64_t began_ns = rbt_cpu_ns();

	alarm(SCAN_WALK_S);
	if (rbt_proc_each(inspect_process, &s) == 0) {
		done.cpu_ns = rbt_cpu_ns() - began_ns - s.inside_ns;
		send_report(&s, &done);
	}
}
