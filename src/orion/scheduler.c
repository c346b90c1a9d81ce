/* SPDX-License-Identifier: Apache-2.0 */
/* Held calls, and the threads that let them go. */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "orion/driver.h"
#include "orion/impl.h"
#include "orion/known.h"
#include "orion/stream.h"
#include "util/time.h"

#define MAX_HELD_NS (100 * RBT_NS_PER_MS)
/* While a call is held, between two looks at the GPU's events. A look costs 1.5 us per event. */
#define NAP_NS 15000u
/*
 * For so long, the thread of a held call looks by itself. Most calls wait for the end of a kernel,
 * which is sooner, and to wake a thread can take longer than the kernel: 0.2 ms in a virtual
 * machine with an H200, where a GPT's training lost 30 % to it.
 */
#define SPIN_NS     500000u
#define BUDGET_NS   200000u
#define THREAD_NAME "rubato-orion"

struct scheduler orion_scheduler = {.lock = PTHREAD_MUTEX_INITIALIZER, .budget_ns = BUDGET_NS};

void orion_scheduler_set_budget(uint64_t budget_ns)
{
	orion_scheduler.budget_ns = budget_ns != 0 ? budget_ns : BUDGET_NS;
}

/* Only for profiles, and asked for once. The thread's context is that of the launch. */
static void find_sms(void)
{
	CUdevice device;
	int n;

	if (orion_scheduler.n_sms == 0 && orion_known_has_profile() &&
		orion_driver.ctx_device(&device) == CUDA_SUCCESS &&
		orion_driver.device_attribute(
			&n, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) == CUDA_SUCCESS &&
		n > 0) {
		orion_scheduler.n_sms = (uint32_t)n;
	}
}

static struct client *client_of(struct rbt_heap_node *node)
{
	return (struct client *)((char *)node - offsetof(struct client, node));
}

/* The next one to be let go: of those that wait, the client with the least GPU time. */
static struct client *first_client(void)
{
	struct rbt_heap_node *node = rbt_heap_top(&orion_scheduler.waiting);

	return node != NULL ? client_of(node) : NULL;
}

static void free_held(struct held *h)
{
	/* Read first: `h` is on the stack of a thread that goes on once it is free. */
	const bool is_asleep = h->is_asleep;

	atomic_store(&h->is_free, 1);
	if (is_asleep) {
		syscall(SYS_futex, &h->is_free, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}

/* Takes a call out of its queue, wherever it stands. */
static void unqueue(struct client *c, struct held *h)
{
	struct held **at = &c->first, *before = NULL;

	while (*at != h) {
		before = *at;
		at = &(*at)->next;
	}
	*at = h->next;
	if (c->last == h) {
		c->last = before;
	}
	orion_scheduler.n_held--;
	if (c->first == NULL) {
		rbt_heap_remove(&orion_scheduler.waiting, &c->node);
	} else {
		c->node.major = c->gpu_ns;
		rbt_heap_update(&orion_scheduler.waiting, &c->node);
	}
}

static void queue_up(struct client *c, struct held *h)
{
	struct scheduler *s = &orion_scheduler;

	if (c->first == NULL) {
		c->first = h;
		/* An idle client does not save up time. */
		c->gpu_ns = c->gpu_ns > s->turn_ns ? c->gpu_ns : s->turn_ns;
		c->node.major = c->gpu_ns;
		rbt_heap_push(&s->waiting, &c->node);
	} else {
		c->last->next = h;
	}
	c->last = h;
	s->n_held++;
}

/* Lets the client's first held call go, if it is this client's turn and the policy agrees. */
static bool let_go(struct client *c)
{
	struct held *h = c->first;

	if (first_client() != c || !orion_flight_lets(c, h->facts)) {
		return false;
	}
	orion_scheduler.turn_ns = c->gpu_ns;
	h->flight = orion_flight_take(c, h->facts);
	unqueue(c, h);
	free_held(h);
	return true;
}

/* Returns whether the call was let go; false: it has waited for too long. */
static bool wait_for(struct held *h, uint64_t until_ns)
{
	while (atomic_load(&h->is_free) == 0) {
		uint64_t now_ns = rbt_now_ns();
		if (now_ns >= until_ns) {
			return false;
		}
		struct timespec t = {.tv_nsec = (long)(until_ns - now_ns)};
		syscall(SYS_futex, &h->is_free, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
	}
	return true;
}

/* Without the scheduler thread. One thread at a time, so that waiting takes no more than a core.
 * Returns whether the call was let go. */
static bool spin(const struct held *h, uint64_t until_ns)
{
	struct scheduler *s = &orion_scheduler;

	if (s->has_spinner) {
		return false;
	}
	s->has_spinner = true;
	while (h->is_free == 0 && rbt_now_ns() < until_ns) {
		pthread_mutex_unlock(&s->lock);
		sched_yield();
		pthread_mutex_lock(&s->lock);
		orion_flight_poll(true);
		/* The call of the client whose turn it is, which may be another one's. */
		struct client *first = first_client();
		if (first != NULL) {
			let_go(first);
		}
	}
	s->has_spinner = false;
	return h->is_free != 0;
}

static void hold(struct client *c, struct held *h)
{
	struct scheduler *s = &orion_scheduler;
	const uint64_t since_ns = rbt_now_ns();

	queue_up(c, h);
	if (orion_busy_streams > 0) {
		pthread_cond_signal(&c->wake); /* its thread alone looks for the end of that */
	}
	if (!spin(h, since_ns + SPIN_NS)) {
		h->is_asleep = true;
		pthread_cond_signal(&c->wake);
		pthread_mutex_unlock(&s->lock);
		bool was_let_go = wait_for(h, since_ns + MAX_HELD_NS);
		pthread_mutex_lock(&s->lock);
		if (!was_let_go && h->is_free == 0) {
			h->flight = orion_flight_take(c, h->facts);
			unqueue(c, h);
			c->n_overdue++;
		}
	}
	c->n_held++;
	c->held_ns += rbt_now_ns() - since_ns;
}

struct orion_flight orion_flight_begin(int idx, const struct rbt_kernel_facts *facts)
{
	struct scheduler *s = &orion_scheduler;
	struct client *c = &orion_clients[idx];
	struct held h = {.facts = facts, .flight = {.client = idx}};

	c->n_launches++;
	if (!s->runs || orion_config.policy->lets == NULL) {
		return h.flight;
	}
	find_sms();
	pthread_mutex_lock(&s->lock);
	if (orion_flight_is_stale(c) || !orion_flight_lets(c, facts)) {
		orion_flight_poll(true);
	}
	if (!s->runs) {
		/* stopped meanwhile */
	} else if (first_client() == NULL && orion_flight_lets(c, facts)) {
		s->turn_ns = c->gpu_ns;
		h.flight = orion_flight_take(c, facts);
	} else {
		hold(c, &h);
	}
	pthread_mutex_unlock(&s->lock);
	return h.flight;
}

static void nap(struct client *c)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += NAP_NS;
	if (t.tv_nsec >= 1000000000L) {
		t.tv_nsec -= 1000000000L;
		t.tv_sec++;
	}
	pthread_cond_timedwait(&c->wake, &orion_scheduler.lock, &t);
}

static void *run_client(void *data)
{
	struct client *c = data;
	struct scheduler *s = &orion_scheduler;
	int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	prctl(PR_SET_NAME, THREAD_NAME);
	prctl(PR_SET_TIMERSLACK, 1000UL); /* naps are short */
	/* A capture of the program does not forbid this thread's calls, nor do they spoil it. */
	orion_driver.capture_mode(&mode);
	pthread_mutex_lock(&s->lock);
	while (s->runs) {
		if (c->first == NULL) {
			pthread_cond_wait(&c->wake, &s->lock);
			continue;
		}
		orion_flight_poll(false);
		orion_flight_probe();
		if (!let_go(c)) {
			nap(c);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* The last high-priority work is done. Without the lock: a signal that comes too early costs a
 * nap. */
void orion_scheduler_on_idle(void)
{
	if (orion_scheduler.n_held == 0) {
		return;
	}
	for (int i = 0; i < orion_config.n_clients; i++) {
		if (!orion_clients[i].is_hp) {
			pthread_cond_signal(&orion_clients[i].wake);
		}
	}
}

/* Once per process: threads may be about to use them while the scheduler starts again. */
static void init_conditions(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	for (int i = 0; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		pthread_cond_init(&orion_clients[i].wake, &attr);
	}
	pthread_condattr_destroy(&attr);
}

static int start_thread(struct client *c)
{
	sigset_t all, old;

	/* Signals are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int r = pthread_create(&c->thread, NULL, run_client, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	c->has_thread = r == 0;
	return -r;
}

int orion_scheduler_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct scheduler *s = &orion_scheduler;

	pthread_once(&once, init_conditions);
	pthread_mutex_lock(&s->lock);
	int r = rbt_heap_reserve(&s->waiting, RUBATO_ORION_MAX_CLIENTS);
	if (r < 0) {
		pthread_mutex_unlock(&s->lock);
		return r;
	}
	orion_flight_reset();
	s->generation = s->generation + 1 != 0 ? s->generation + 1 : 1;
	s->turn_ns = 0;
	s->runs = true;
	pthread_mutex_unlock(&s->lock);
	for (int i = 0; r == 0 && i < orion_config.n_clients; i++) {
		r = orion_clients[i].is_hp ? 0 : start_thread(&orion_clients[i]);
	}
	if (r < 0) {
		orion_scheduler_stop();
	}
	return r;
}

void orion_scheduler_stop(void)
{
	struct scheduler *s = &orion_scheduler;

	pthread_mutex_lock(&s->lock);
	s->runs = false;
	for (int i = 0; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		struct client *c = &orion_clients[i];
		while (c->first != NULL) {
			struct held *h = c->first;
			unqueue(c, h);
			free_held(h);
		}
		if (c->has_thread) {
			pthread_cond_signal(&c->wake);
		}
	}
	pthread_mutex_unlock(&s->lock);
	for (int i = 0; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		if (orion_clients[i].has_thread) {
			pthread_join(orion_clients[i].thread, NULL);
			orion_clients[i].has_thread = false;
		}
	}
}

void orion_scheduler_forked(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	orion_scheduler.lock = unlocked;
	/* The parent's threads waited here. */
	init_conditions();
	orion_scheduler.runs = false;
	orion_scheduler.waiting.n = 0;
	orion_scheduler.n_held = 0;
	orion_scheduler.has_spinner = false;
	orion_scheduler.generation++;
	for (int i = 0; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		orion_clients[i].first = orion_clients[i].last = NULL;
		orion_clients[i].node.pos = 0;
		orion_clients[i].has_thread = false;
	}
}
