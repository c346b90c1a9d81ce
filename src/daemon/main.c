/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/apply.h"
#include "daemon/attach/adopt.h"
#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/gpulock.h"
#include "daemon/handlink.h"
#include "daemon/inherit.h"
#include "daemon/metrics/accounting.h"
#include "daemon/metrics/metrics.h"
#include "daemon/notify.h"
#include "daemon/options.h"
#include "daemon/park/park.h"
#include "daemon/peers/crowd.h"
#include "daemon/peers/owners.h"
#include "daemon/peers/porter.h"
#include "daemon/peers/rights.h"
#include "daemon/peers/server.h"
#include "daemon/program.h"
#include "daemon/reconcile.h"
#include "daemon/schedule.h"
#include "daemon/survive/byhand.h"
#include "daemon/survive/home.h"
#include "daemon/survive/keeper.h"
#include "daemon/survive/state.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/runtime.h"
#include "util/time.h"

/* How often suspends, attached programs and locks of other daemons are looked after. */
#define TICK_NS (250 * RBT_NS_PER_MS)
/* A keeper that was killed, or could not be started, is replaced after this. */
#define KEEPER_RETRY_NS RBT_NS_PER_S

int watch(struct daemon *d, struct source *s)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = s};

	return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, s->fd, &ev) < 0 ? -errno : 0;
}

void unwatch(struct daemon *d, struct source *s)
{
	if (s->fd >= 0) {
		epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
		rbt_close(&s->fd);
	}
}

/* Puts in force the part of the configuration that is not the decision core's. Takes the rules out
 * of it. */
static void take_config(struct daemon *d, struct config *config)
{
	snprintf(d->admins.group, sizeof(d->admins.group), "%s", config->admin_group);
	rights_resolve(d, config->admin_group);
	owners_read(d);
	adopt_configure(d, &config->rules, config->scan_ms);
}

static void say_ready(struct daemon *d)
{
	char status[96];

	snprintf(status, sizeof(status), "policy %s, %zu rules", schedule_policy(d),
		d->adopt.rules.n);
	notify_ready(status);
}

static void reload(struct daemon *d)
{
	struct config config;

	notify_reloading();
	/* A wrong file changes nothing. */
	if (options_read_config(&d->options, &config) == 0) {
		if (policy_configure(d, &config) == 0) {
			take_config(d, &config);
			metrics_configure(d, d->options.metrics_at != NULL ? d->options.metrics_at
									   : config.metrics);
			rbt_warn("configuration read; policy %s, %zu rules", schedule_policy(d),
				d->adopt.rules.n);
		}
		config_finish(&config);
	}
	say_ready(d);
}

static void on_signal(struct daemon *d, struct source *s, uint32_t events)
{
	struct signalfd_siginfo info;

	if (read(s->fd, &info, sizeof(info)) != sizeof(info)) {
		return;
	}
	if (info.ssi_signo == SIGHUP) {
		reload(d);
	} else {
		d->stop = true;
	}
}

/* The keeper's end of the pipe is closed: it was killed. */
static void on_keeper(struct daemon *d, struct source *s, uint32_t events)
{
	unwatch(d, s);
	d->keeper.retry_ns = rbt_now_ns() + KEEPER_RETRY_NS;
}

/* Starts the keeper. Without a keeper the daemon goes on, and tries again later. */
static void start_keeper(struct daemon *d)
{
	struct keeper_plan plan = {d->home.dir, d->home.lock_path, d->keeper.argv};
	bool is_said = d->keeper.pid < 0;
	int fd;

	if (d->keeper.pid > 0) {
		waitpid(d->keeper.pid, NULL, WNOHANG);
	}
	d->keeper.pid = keeper_start(&plan, &fd);
	d->keeper.retry_ns = 0;
	if (d->keeper.pid > 0) {
		d->keeper.pipe = (struct source){.fd = fd, .ready = on_keeper};
		watch(d, &d->keeper.pipe);
		return;
	}
	d->keeper.retry_ns = rbt_now_ns() + KEEPER_RETRY_NS;
	if (!is_said) {
		rbt_warn("if rubatod is killed, nobody starts it again: %s",
			strerror((int)-d->keeper.pid));
	}
}

static void renew_suspends(struct daemon *d, uint64_t now_ns)
{
	struct program *p;
	struct client *h;
	bool failed = false;
	static const struct rbt_action lapse = {.op = RBT_ACT_LAPSE};

	d->hand.any_off = false;
	LIST_FOREACH (p, &d->programs, entries) {
		LIST_FOREACH (h, &p->clients, entries) {
			d->hand.any_off =
				d->hand.any_off || rbt_applied_has_any_off(&h->mine->applied);
		}
		if (p->suspend.is_ordered && p->suspend.until_ns != 0 &&
			p->suspend.until_ns <= now_ns) {
			p->suspend.is_ordered = false;
			d->dirty = true;
		}
		d->dirty = queues_expire(&p->suspend.queues, now_ns) || d->dirty;
	}
	if (!d->hand.any_off || hand_renew(d, now_ns + LEASE_NS, &failed) <= 0) {
		return;
	}
	/* The daemon was stopped for longer than a lease, and the hand has restored the programs.
	 * Everything is applied again. If the driver refused some of it, a program may still be
	 * suspended or have a short slice: then none is taken to be restored. */
	LIST_FOREACH (p, &d->programs, entries) {
		LIST_FOREACH (h, &p->clients, entries) {
			h->stale = true;
			/* Resuming a program once too often does no harm. */
			rbt_holding_apply(h->mine, &lapse, failed ? -EIO : 0);
		}
	}
	d->dirty = true;
}

static void on_tick(struct daemon *d, struct source *s, uint32_t events)
{
	uint64_t expirations, now_ns = rbt_now_ns();
	ssize_t ignored = read(s->fd, &expirations, sizeof(expirations));
	struct program *p, *next;

	(void)ignored;
	hand_tick(d);
	state_tick(d, now_ns);
	renew_suspends(d, now_ns);
	park_tick(d, now_ns);
	accounting_tick(d);
	metrics_tick(d);
	for (p = LIST_FIRST(&d->programs); p != NULL; p = next) {
		next = LIST_NEXT(p, entries);
		/* The driver may close the files of a parked program, and open others later. */
		if (p->peer == NULL && park_find(d, p) == NULL) {
			program_check_attached(d, p);
		}
	}
	gpulock_check(d);
	porter_tick(d);
	run_tick(d);
	server_listen_again(d);
	home_tick(d, now_ns);
	if (d->keeper.retry_ns != 0 && now_ns >= d->keeper.retry_ns) {
		start_keeper(d);
	}
	if (d->retry_ns != 0 && now_ns >= d->retry_ns) {
		d->retry_ns = 0;
		d->dirty = true;
	}
	if (!LIST_EMPTY(&d->programs) || !LIST_EMPTY(&d->server.peers) || byhand_is_wanting(d) ||
		policy_is_users(d) || park_needs_tick(d)) {
		d->idle_since_ns = now_ns;
	} else if (d->options.idle_exit_ns != 0 &&
		   now_ns - d->idle_since_ns >= d->options.idle_exit_ns) {
		d->stop = server_close_door(d);
	}
}

/* Whether a tick is needed, for things that have no event of their own. */
static bool is_tick_needed(struct daemon *d)
{
	struct program *p;

	if (d->server.is_deaf || d->home.is_lost || d->hand.any_off || hand_is_awaited(d) ||
		d->retry_ns != 0 || d->keeper.retry_ns != 0 || d->state.heal_ns != 0 ||
		d->locks.gpus.locked != 0 || accounting_needs_tick(d) || metrics_needs_tick(d) ||
		porter_needs_tick(d) || run_needs_tick(d) || park_needs_tick(d)) {
		return true;
	}
	LIST_FOREACH (p, &d->programs, entries) {
		if (p->peer == NULL) {
			return true;
		}
	}
	return LIST_EMPTY(&d->programs) && d->options.idle_exit_ns != 0 && !policy_is_users(d);
}

static void on_alive(struct daemon *d, struct source *s, uint32_t events)
{
	uint64_t expirations;
	ssize_t ignored = read(s->fd, &expirations, sizeof(expirations));

	(void)ignored;
	notify_alive();
}

/* A timer of its own tells the service manager that this loop goes round, and nothing else. */
static int watch_alive(struct daemon *d)
{
	uint64_t every_ns = notify_alive_every_ns();
	struct timespec every = {
		.tv_sec = (time_t)(every_ns / RBT_NS_PER_S),
		.tv_nsec = (long)(every_ns % RBT_NS_PER_S),
	};
	struct itimerspec spec = {.it_value = every, .it_interval = every};

	if (every_ns == 0) {
		return 0;
	}
	d->alive_timer = (struct source){
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
		.ready = on_alive,
	};
	if (d->alive_timer.fd < 0 || timerfd_settime(d->alive_timer.fd, 0, &spec, NULL) < 0) {
		return -errno;
	}
	return watch(d, &d->alive_timer);
}

static void arm_timer(struct daemon *d)
{
	bool needed = is_tick_needed(d);
	struct itimerspec spec = {0};

	if (needed == d->is_ticking) {
		return;
	}
	d->is_ticking = needed;
	if (needed) {
		spec.it_value.tv_nsec = spec.it_interval.tv_nsec = TICK_NS;
		d->idle_since_ns = rbt_now_ns();
	}
	timerfd_settime(d->timer.fd, 0, &spec, NULL);
}

static int setup_loop(struct daemon *d)
{
	sigset_t set;
	int r;

	inherit_nothing();
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll_fd < 0) {
		return -errno;
	}
	d->signals = (struct source){
		.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
		.ready = on_signal,
	};
	d->timer = (struct source){
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
		.ready = on_tick,
	};
	if (d->signals.fd < 0 || d->timer.fd < 0) {
		return -errno;
	}
	if ((r = watch(d, &d->signals)) < 0 || (r = watch(d, &d->timer)) < 0) {
		return r;
	}
	r = crowd_start(d);
	return r < 0 ? r : watch_alive(d);
}

/* Carries out the consequences of an event. */
static void run_pending(struct daemon *d)
{
	trace_look(d);
	do {
		if (!d->dirty) {
			apply_changes(d);
		}
		if (d->dirty) {
			reconcile(d);
		}
	} while (policy_run(d));
	trace_look(d);
	crowd_spoke(d);
	arm_timer(d);
}

/* One at a time: handling one event may free what another points to. */
static int take_event(struct daemon *d)
{
	struct epoll_event ev;
	int n = epoll_wait(d->epoll_fd, &ev, 1, 0);

	if (n == 1) {
		struct source *s = ev.data.ptr;
		s->ready(d, s, ev.events);
	} else if (n == 0) {
		rbt_board_waiter_rewatch(d->sched.waiter);
	}
	return n < 0 && errno != EINTR ? -errno : 0;
}

/* When something is to be done without any event. */
static uint64_t next_moment(const struct daemon *d)
{
	uint64_t next_ns = schedule_next(d), gate_ns = gate_next(d), idle_ns = park_idle_next(d);

	next_ns = gate_ns < next_ns ? gate_ns : next_ns;
	return idle_ns < next_ns ? idle_ns : next_ns;
}

static void run_loop(struct daemon *d)
{
	int r = 0;

	arm_timer(d);
	while (!d->stop && r == 0) {
		bool has_event = rbt_board_waiter_wait(d->sched.waiter, next_moment(d));
		/* Programs that submit work come before peers that ask. */
		schedule_run(d);
		gate_run(d);
		park_idle_run(d);
		run_pending(d);
		if (has_event) {
			r = take_event(d);
			run_pending(d);
		}
	}
	if (r < 0) {
		rbt_error("epoll_wait: %s", strerror(-r));
	}
}

static void announce(int *ready_fd)
{
	if (*ready_fd >= 0) {
		ssize_t ignored = write(*ready_fd, "1", 1);
		(void)ignored;
		rbt_close(ready_fd);
	}
}

static void shut_down(struct daemon *d)
{
	struct program *p;

	while ((p = LIST_FIRST(&d->programs)) != NULL) {
		program_release(d, p);
	}
	park_stop(d);
	policy_stop(d);
	metrics_stop(d);
	adopt_stop(d);
	hand_stop(d);
	state_write(d);
	epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, d->keeper.pipe.fd, NULL);
	keeper_dismiss(&d->keeper.pipe.fd);
	server_stop(d);
	run_finish(d);
	porter_stop(d);
	schedule_stop(d);
	crowd_stop(d);
	owners_forget(d);
	gpulock_drop(d, 0);
	rbt_holdings_finish(&d->mine);
	state_finish(d);
	byhand_finish(d);
	unwatch(d, &d->signals);
	unwatch(d, &d->timer);
	unwatch(d, &d->alive_timer);
	rbt_close(&d->epoll_fd);
	rbt_close(&d->hand.old_fd);
	rbt_close(&d->home.lock_fd);
}

static int begin(struct daemon *d, struct config *config)
{
	int r = setup_loop(d);

	r = r == 0 ? schedule_start(d) : r;
	r = r == 0 ? adopt_start(d) : r;
	if (r < 0) {
		return r;
	}
	events_debug(d);
	state_read(d);
	byhand_read(d);
	park_start(d);
	take_config(d, config);
	policy_start(d, config);
	/* Before a program can connect: nobody else would start the next daemon for it. */
	if (d->options.is_kept && !d->options.is_system) {
		start_keeper(d);
	}
	r = server_start(d);
	if (r < 0) {
		/* Nobody can find this daemon. It restores what an earlier one left, and ends. */
		hand_await_old(d);
		keeper_dismiss(&d->keeper.pipe.fd);
		policy_stop(d);
		schedule_stop(d);
		state_finish(d);
		byhand_finish(d);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct daemon d = {
		.epoll_fd = -1,
		.home.lock_fd = -1,
		.server.listener.fd = -1,
		.signals.fd = -1,
		.timer.fd = -1,
		.alive_timer.fd = -1,
		.keeper.pipe.fd = -1,
		.hand.old_fd = -1,
		.keeper.argv = argv,
		.adopt.scan.fd = -1,
		.adopt.timer.fd = -1,
		.hand.socket.fd = -1,
		.crowd.source.fd = -1,
		.crowd.timer.fd = -1,
		.policy.timer.fd = -1,
		.next_holding_id = 1,
		.idle_since_ns = rbt_now_ns(),
	};
	struct config config;
	int ready_fd = -1;

	rbt_log_name("rubatod");
	notify_init();
	gpulock_init(&d);
	config_default(&config);
	int code = options_parse(argc, argv, &d.options, &ready_fd);
	if (code >= 0) {
		return code;
	}
	int r = home_claim(&d);
	if (r == -EBUSY && !d.options.is_system) {
		/* Two tools have started one daemon each, or one is running: the tool can connect
		 * to that. */
		announce(&ready_fd);
		return 0;
	}
	/* A file that was named must be right. A mistake in the default file is no reason to leave
	 * the programs alone. */
	if (r == 0 && options_read_config(&d.options, &config) < 0 &&
		(d.options.config_path != NULL || options_override(&d.options, &config) < 0)) {
		return 1;
	}
	d.sched.config = config.sched;
	r = r == 0 ? begin(&d, &config) : r;
	if (r == -EBUSY) {
		rbt_error("another rubatod serves %s", d.home.dir);
		return 1;
	}
	if (r < 0) {
		rbt_error("cannot start in %s: %s", d.home.dir, strerror(-r));
		return 1;
	}
	/* The same holds for metrics. */
	r = metrics_configure(
		&d, d.options.metrics_at != NULL ? d.options.metrics_at : config.metrics);
	if (r < 0 && d.options.metrics_at != NULL) {
		shut_down(&d);
		return 1;
	}
	announce(&ready_fd);
	/* This may take long with a slow driver: requests of tools wait for it. */
	hand_await_old(&d);
	say_ready(&d);
	run_loop(&d);
	notify_stopping();
	shut_down(&d);
	config_finish(&config);
	return 0;
}
