/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches programs by rule. Every few seconds a child process (scan.h) searches for processes that
 * have a GPU's control node open. The daemon remembers its findings by pid and start time. A
 * process is inspected again only for a reason: it has opened or closed the device since, it had no
 * tasks yet, or the rules have changed.
 *
 * A user's order goes before any rule, until the program ends.
 */
#include "daemon/attach/adopt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "daemon/attach/rules.h"
#include "daemon/attach/scan.h"
#include "daemon/daemon.h"
#include "daemon/loop.h"
#include "daemon/peers/crowd.h"
#include "daemon/program.h"
#include "daemon/survive/byhand.h"
#include "proto/message.h"
#include "sched/class.h"
#include "util/aside.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/time.h"

/* A scan that is silent for this much longer than allowed is given up. */
#define GRACE_NS RBT_NS_PER_S
/* A process that has the device open but no tasks (a monitor, or a program that is still starting)
 * is inspected less and less often, because each inspection may leave lines in the kernel log. The
 * interval doubles at most this often. */
#define MAX_DOUBLINGS 6
/* The default interval. With thousands of processes a scan takes long; then it may use at most one
 * part in WALK_SHARE of the time. */
#define SCAN_MS    5000
#define WALK_SHARE 100
/* From this many entries on, the daemon checks whether their processes have ended. */
#define MIN_BY_HAND 64

struct sighting *adopt_find(const struct daemon *d, pid_t pid, uint64_t start_time)
{
	struct sighting *k;

	LIST_FOREACH (k, &d->adopt.sightings[(unsigned)pid % SIGHTING_LISTS], entries) {
		if (k->pid == pid && k->start_time == start_time) {
			return k;
		}
	}
	return NULL;
}

bool adopt_is_due(
	const struct daemon *d, const struct sighting *k, uint32_t n_files, uint64_t now_ns)
{
	const struct said *said = byhand_find(d, k->pid, k->start_time);

	if (said != NULL && said->has_treat && !said->is_wanted) {
		return false;
	}
	return k->is_stale || n_files != k->n_files || now_ns >= k->next_ns;
}

static struct sighting *obtain(struct daemon *d, pid_t pid, uint64_t start_time)
{
	struct sighting *k = adopt_find(d, pid, start_time);

	if (k == NULL && (k = calloc(1, sizeof(*k))) != NULL) {
		k->pid = pid;
		k->start_time = start_time;
		k->next_ns = UINT64_MAX;
		LIST_INSERT_HEAD(&d->adopt.sightings[(unsigned)pid % SIGHTING_LISTS], k, entries);
	}
	return k;
}

/* Calls fn for each sighting, in any order. fn may remove the sighting. */
static void each_sighting(struct daemon *d, void (*fn)(struct sighting *k))
{
	for (size_t i = 0; i < SIGHTING_LISTS; i++) {
		struct sighting *next;
		for (struct sighting *k = LIST_FIRST(&d->adopt.sightings[i]); k != NULL; k = next) {
			next = LIST_NEXT(k, entries);
			fn(k);
		}
	}
}

static void forget(struct sighting *k)
{
	LIST_REMOVE(k, entries);
	free(k);
}

static void forget_unseen(struct sighting *k)
{
	if (!k->is_seen) {
		forget(k);
	} else {
		k->is_seen = false;
	}
}

static void make_stale(struct sighting *k)
{
	k->is_stale = true;
	k->is_said = false;
}

void adopt_released(struct daemon *d, const struct program *p)
{
	struct sighting *k = p->rule[0] != '\0' ? adopt_find(d, p->pid, p->start_time) : NULL;

	/* After it was parked, a program may have opened other files, which a scan finds. */
	if (p->kept_slice_us != 0 && !rbt_pidfd_has_exited(p->pidfd.fd)) {
		byhand_want(d, p);
	}
	/* If the process has not ended, it has closed the device or become another program. */
	if (k != NULL) {
		k->is_stale = true;
	}
}

/* No rule matches the program any more: it is treated as if no rule ever had. */
static void let_alone(struct daemon *d, struct program *p)
{
	p->rule[0] = '\0';
	program_set_treatment(p, &RBT_TREATMENT_INIT, 0);
	program_set_group(d, p, false, "");
	d->dirty = true;
}

static void take_group(struct daemon *d, struct program *p, const struct scan_report *report)
{
	bool is_shared = report->group_is_shared != 0;

	if (strcmp(p->treat.group, report->group) != 0 || p->group.is_shared != is_shared) {
		program_set_group(d, p, is_shared, report->group);
	}
}

static void apply_rule(struct daemon *d, struct program *p, const struct rule *rule,
	const struct scan_report *report)
{
	if (strcmp(p->rule, rule->name) != 0) {
		rbt_debug("process %d: rule %s", (int)p->pid, rule->name);
	}
	strcpy(p->rule, rule->name);
	/* The configuration may raise any program. A rule that sets a slice also gives the right to
	 * longer slices. */
	bool has_slice = (rule->treat.said & RBT_TREAT_BIT(TIMESLICE)) != 0;
	program_set_treatment(p, &rule->treat,
		(rule->treat.said & ~RBT_TREAT_BIT(PRIORITY)) |
			(has_slice ? RBT_TREAT_BIT(PRIORITY) : 0));
	take_group(d, p, report);
	d->dirty = true;
}

/* Returns the program of a report, and creates it if necessary. Its start time confirms the pid. */
static struct program *make_program(struct daemon *d, const struct scan_report *report)
{
	struct user *user = user_obtain(d, report->uid);
	int error = 0, pidfd = rbt_pidfd_open(report->pid);
	struct program *p =
		user != NULL ? program_obtain(d, report->pid, pidfd, user, &error) : NULL;

	rbt_close(&pidfd);
	return p;
}

/* Returns the program of a report, or NULL if the scan must not change it. `make`: creates it,
 * because records have come for it. */
static struct program *program_of(struct daemon *d, const struct scan_report *report, bool make)
{
	struct program *p = make ? make_program(d, report) : program_find(d, report->pid);

	if (p == NULL) {
		return NULL;
	}
	bool is_it = p->start_time == report->start_time && p->peer == NULL;
	/* It was found with tasks, and without our library, so no HELLO can come from it. */
	if (is_it && report->verdict == SCAN_RULE && report->error == 0) {
		p->awaited = false;
	}
	if (!is_it || p->awaited) {
		/* The pid belongs to another process by now, or the program's shim has connected
		 * meanwhile. */
		if (p->peer == NULL && !p->awaited && LIST_EMPTY(&p->clients)) {
			program_release(d, p);
		}
		return NULL;
	}
	return p;
}

/* A scan of a program whose slices Rubato has changed finds those slices. The own slices are the
 * ones in the record that the daemon already has. */
static void keep_own_slices(const struct program *p, struct rbt_record *rec)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_holding *mine = h->mine;
		if (h->backend != rec->backend || h->client != rec->client) {
			continue;
		}
		for (uint32_t i = 0; i < rec->n_tasks; i++) {
			for (uint32_t k = 0; k < mine->rec.n_tasks; k++) {
				const struct rbt_task *known = &mine->rec.tasks[k];
				if (known->handle == rec->tasks[i].handle) {
					rec->tasks[i].own_timeslice_us = known->own_timeslice_us;
				}
			}
		}
	}
}

static int take_record(struct daemon *d, const void *buf, size_t size, int *fds, size_t n_fds)
{
	struct rbt_record rec;
	int r = n_fds == 1 ? rbt_record_decode(buf, size, &rec) : -EBADMSG;

	if (r < 0) {
		return r;
	}
	rec.fd = fds[0];
	fds[0] = -1;
	struct program *p = program_of(d, &d->adopt.report, true);
	if (p == NULL) {
		rbt_record_finish(&rec);
		return 0;
	}
	keep_own_slices(p, &rec);
	r = program_put_record(d, p, &rec, false);
	if (r < 0) {
		rbt_debug("process %d: a record is refused: %s", (int)p->pid, strerror(-r));
	}
	if (LIST_EMPTY(&p->clients)) {
		program_release(d, p);
	}
	return 0;
}

/* Sets when the process is inspected again, after it could not be attached. */
static void put_off(struct daemon *d, struct sighting *k, const struct scan_report *report)
{
	const char *rule = d->adopt.rules.list[report->rule].name;

	k->next_ns = rbt_now_ns() + (d->adopt.scan_ms * RBT_NS_PER_MS << k->tries);
	k->tries += k->tries < MAX_DOUBLINGS;
	/* A program without tasks, or one that has ended, needs no message. */
	struct user *user = user_obtain(d, report->uid);
	if (report->error != -ENXIO && report->error != -ESRCH && !k->is_said && user != NULL &&
		user_may_be_named(user)) {
		k->is_said = true;
		rbt_warn("process %d, which matches rule %s, cannot be attached: %s",
			(int)report->pid, rule, strerror(-report->error));
	}
}

/* The program of an order that a user gave to a former daemon. If the program is known by now, the
 * order has been applied. If not, its shim will connect, or it has to be attached, which is tried
 * several times. */
static void finish_wanted(
	struct daemon *d, struct said *said, struct sighting *k, const struct scan_report *report)
{
	struct user *user = user_obtain(d, report->uid);

	if (report->error < 0 && report->error != -ESRCH && k->tries < MAX_DOUBLINGS) {
		k->next_ns = rbt_now_ns() + (d->adopt.scan_ms * RBT_NS_PER_MS << k->tries);
		k->tries++;
		return;
	}
	said->is_wanted = false;
	if (report->error < 0 && report->error != -ENXIO && report->error != -ESRCH &&
		user != NULL && user_may_be_named(user)) {
		rbt_warn("process %d, which a user reniced or suspended, cannot be attached: %s",
			(int)report->pid, strerror(-report->error));
	}
}

/* All parts of a report have arrived. */
static void finish_report(struct daemon *d)
{
	const struct scan_report *report = &d->adopt.report;
	struct sighting *k = obtain(d, report->pid, report->start_time);
	struct said *said = byhand_find(d, report->pid, report->start_time);
	struct program *p = program_of(d, report, false);

	if (k == NULL) {
		return;
	}
	k->is_seen = true;
	if (report->verdict == SCAN_SEEN) {
		return;
	}
	k->n_files = report->n_files;
	k->is_stale = false;
	k->next_ns = UINT64_MAX;
	if (said != NULL && said->is_wanted) {
		finish_wanted(d, said, k, report);
	}
	if (said != NULL && (said->is_wanted || said->has_treat)) {
		/* A user's order goes before any rule; only the group still comes from the rule. */
		if (report->verdict == SCAN_RULE && p != NULL) {
			take_group(d, p, report);
		}
		return;
	}
	if (report->verdict == SCAN_NOTHING && p != NULL && p->rule[0] != '\0') {
		let_alone(d, p);
	} else if (report->verdict == SCAN_RULE && report->error < 0) {
		put_off(d, k, report);
	} else if (report->verdict == SCAN_RULE && p != NULL) {
		k->tries = 0;
		apply_rule(d, p, &d->adopt.rules.list[report->rule], report);
	}
}

/* The scan has visited all processes: orders wait no longer for programs that have no device
 * open. */
static void stop_wanting(struct daemon *d)
{
	struct said *said;

	LIST_FOREACH (said, &d->byhand.said, entries) {
		said->is_wanted =
			said->is_wanted && adopt_find(d, said->pid, said->start_time) != NULL;
	}
}

/* Inspecting this process has killed or blocked a scan. The process, or another one of its user,
 * may do that on purpose, so it is left alone for a while. */
static void put_off_culprit(struct daemon *d, pid_t child)
{
	const struct scan_report *culprit = &d->adopt.report;
	struct sighting *k = obtain(d, culprit->pid, culprit->start_time);
	struct user *user = user_obtain(d, culprit->uid);
	unsigned tries = k != NULL ? k->tries : 0;

	if (k != NULL) {
		k->is_seen = true;
		k->tries += k->tries < MAX_DOUBLINGS;
	}
	if (user != NULL && user_may_be_named(user)) {
		rbt_warn("process %d cannot be inspected: it is left alone for a while",
			(int)culprit->pid);
	}
	rbt_lost_note(&d->adopt.lost, child, scan_inspected(culprit), rbt_now_ns(),
		RBT_INSPECT_S * RBT_NS_PER_S << tries);
}

/* failed: the scan has died or takes too long. */
static void end_scan(struct daemon *d, bool failed)
{
	pid_t pid = d->adopt.scan_pid;

	unwatch(d, &d->adopt.scan);
	if (pid <= 0) {
		return;
	}
	d->adopt.scan_pid = 0;
	bool hangs = !rbt_aside_end(pid);
	if (d->adopt.is_inspecting && (failed || hangs)) {
		put_off_culprit(d, hangs ? pid : 0);
	} else if (hangs) {
		rbt_lost_note(&d->adopt.lost, pid, (struct rbt_inspected){0}, 0, 0);
	}
	d->adopt.is_inspecting = false;
}

static int take_report(struct daemon *d, const void *buf, size_t size)
{
	struct scan_report *report = &d->adopt.report;

	if (size != sizeof(*report)) {
		return -EBADMSG;
	}
	memcpy(report, buf, sizeof(*report));
	report->group[sizeof(report->group) - 1] = '\0';
	if (report->verdict == SCAN_RULE && report->rule >= d->adopt.rules.n) {
		return -EBADMSG;
	}
	d->adopt.is_inspecting = report->verdict == SCAN_INSPECTS;
	if (d->adopt.is_inspecting) {
		return 0;
	}
	if (report->verdict == SCAN_DONE) {
		d->adopt.not_before_ns =
			d->adopt.is_exact ? 0 : rbt_now_ns() + report->cpu_ns * WALK_SHARE;
		/* Processes that this scan has not seen have ended. */
		each_sighting(d, forget_unseen);
		stop_wanting(d);
		return 0;
	}
	d->adopt.n_records = report->n_records;
	if (d->adopt.n_records == 0) {
		finish_report(d);
	}
	return 0;
}

static void on_scan(struct daemon *d, struct source *s, uint32_t events)
{
	static char buf[RBT_MSG_MAX];
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;
	int r = -ECONNRESET;

	ssize_t n = rbt_recv(s->fd, buf, sizeof(buf), fds, &n_fds, MSG_DONTWAIT);
	if (n == -EAGAIN) {
		return;
	}
	d->adopt.heard_ns = rbt_now_ns();
	if (n > 0 && d->adopt.n_records > 0) {
		r = take_record(d, buf, (size_t)n, fds, n_fds);
		if (r == 0 && --d->adopt.n_records == 0) {
			finish_report(d);
		}
	} else if (n > 0) {
		r = take_report(d, buf, (size_t)n);
	}
	for (size_t i = 0; n > 0 && i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	if (r < 0) {
		end_scan(d, true);
	}
}

static void start_scan(struct daemon *d)
{
	int sock;

	bool is_needed = d->adopt.rules.n > 0 || byhand_is_wanting(d);

	if (d->adopt.scan.fd >= 0 || !is_needed || rbt_lost_are_too_many(&d->adopt.lost)) {
		return;
	}
	pid_t pid = rbt_aside_start(scan_run, d, &sock);
	if (pid < 0) {
		return;
	}
	d->adopt.scan_pid = pid;
	d->adopt.n_records = 0;
	d->adopt.is_inspecting = false;
	d->adopt.heard_ns = rbt_now_ns();
	d->adopt.scan = (struct source){.fd = sock, .ready = on_scan};
	if (watch(d, &d->adopt.scan) < 0) {
		end_scan(d, false);
	}
}

static void on_timer(struct daemon *d, struct source *s, uint32_t events)
{
	uint64_t expirations;
	ssize_t ignored = read(s->fd, &expirations, sizeof(expirations));

	(void)ignored;
	uint64_t limit_ns =
		(d->adopt.is_inspecting ? RBT_INSPECT_S : SCAN_WALK_S) * RBT_NS_PER_S + GRACE_NS;
	if (d->adopt.scan.fd >= 0 && rbt_now_ns() >= d->adopt.heard_ns + limit_ns) {
		end_scan(d, true);
	}
	if (rbt_now_ns() >= d->adopt.not_before_ns) {
		start_scan(d);
	}
}

int adopt_start(struct daemon *d)
{
	d->adopt.timer = (struct source){
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
		.ready = on_timer,
	};
	return d->adopt.timer.fd < 0 ? -errno : watch(d, &d->adopt.timer);
}

void adopt_configure(struct daemon *d, struct rules *rules, uint32_t scan_ms)
{
	struct itimerspec spec = {0};
	struct program *p;

	/* The reports of a running scan have the numbers of the old rules. */
	end_scan(d, false);
	rules_finish(&d->adopt.rules);
	d->adopt.rules = *rules;
	*rules = (struct rules){0};
	d->adopt.is_exact = scan_ms != 0;
	d->adopt.scan_ms = scan_ms != 0 ? scan_ms : SCAN_MS;
	d->adopt.not_before_ns = 0;
	each_sighting(d, make_stale);
	LIST_FOREACH (p, &d->programs, entries) {
		if (d->adopt.rules.n == 0 && p->rule[0] != '\0') {
			let_alone(d, p);
		}
	}
	if (d->adopt.rules.n > 0 || byhand_is_wanting(d)) {
		spec.it_interval.tv_sec = (time_t)(d->adopt.scan_ms / 1000);
		spec.it_interval.tv_nsec = (long)(d->adopt.scan_ms % 1000 * RBT_NS_PER_MS);
		spec.it_value = spec.it_interval;
	}
	timerfd_settime(d->adopt.timer.fd, 0, &spec, NULL);
	start_scan(d);
}

void adopt_stop(struct daemon *d)
{
	end_scan(d, false);
	unwatch(d, &d->adopt.timer);
	rules_finish(&d->adopt.rules);
	each_sighting(d, forget);
}
