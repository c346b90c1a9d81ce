/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that programs call. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cuda/intercept.h"
#include "orion/call.h"
#include "orion/capture.h"
#include "orion/client.h"
#include "orion/driver.h"
#include "orion/known.h"
#include "orion/policy.h"
#include "orion/record.h"
#include "orion/settings.h"
#include "orion/stream.h"
#include "orion/torch.h"
#include "rubato/orion.h"

#define EXPORTED __attribute__((visibility("default")))

/* Starting and stopping. Never held by threads that make CUDA calls. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_clients;           /* 0: not initialised */
static bool has_scheduler;      /* it was started and not stopped */
static _Atomic bool is_enabled; /* calls are intercepted */
static bool has_hooks;          /* ends of lives are, from the first start on */
/* The file of `rubato profile record`. "": none. */
static char profile_path[PATH_MAX];
/* Why the thread's last call failed. */
static _Thread_local char why_failed[512];

__attribute__((format(printf, 1, 2))) static void complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why_failed, sizeof(why_failed), fmt, ap);
	va_end(ap);
	fprintf(stderr, "rubato: orion: %s\n", why_failed);
}

/* Of a function that may fail. */
static void enter(void)
{
	orion_driver_open();
	pthread_mutex_lock(&lock);
	why_failed[0] = '\0';
}

static const struct orion_hook *find_hook(const struct orion_hook *hooks, const char *symbol)
{
	for (; hooks->symbol != NULL; hooks++) {
		if (strcmp(hooks->symbol, symbol) == 0) {
			return hooks;
		}
	}
	return NULL;
}

static bool sees_calls; /* what wrap() is asked for; otherwise only ends of lives */

static void *wrap(const char *symbol, void *next)
{
	const struct orion_hook *h = find_hook(orion_life_hooks, symbol);

	if (h == NULL && sees_calls) {
		h = find_hook(orion_launch_hooks, symbol);
		h = h != NULL ? h : find_hook(orion_hooks, symbol);
	}
	if (h == NULL) {
		return next;
	}
	/* It is the same each time; threads may be reading it. */
	if (*h->next != next) {
		*h->next = next;
	}
	return h->fn;
}

/* The lock is held. */
static int set_intercepted(bool is_wanted)
{
	int r = 0;

	if (is_wanted == is_enabled) {
		return 0;
	}
	if (!is_wanted) {
		/* While calls are still intercepted, so that their order is kept. */
		orion_calls_stop();
	}
	if (!has_hooks) {
		orion_primaries_find();
	}
	sees_calls = is_wanted;
	r = orion_driver_intercept(wrap);
	if (r == 0) {
		has_hooks = true;
		is_enabled = is_wanted;
		if (is_wanted) {
			orion_calls_start();
		} else {
			orion_record_forget();
		}
	}
	return r;
}

static void on_fork(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	/* CUDA cannot be used here, and there are no threads: calls pass. */
	lock = unlocked;
	profile_path[0] = '\0';
	orion_record_forked();
	if (has_hooks) {
		orion_driver_intercept(NULL);
		has_hooks = false;
	}
	if (n_clients > 0) {
		orion_scheduler_forked();
		is_enabled = false;
		has_scheduler = false;
		n_clients = 0;
	}
}

/* The lock is held. */
static void shut_down(void)
{
	if (n_clients > 0) {
		if (has_scheduler) {
			orion_scheduler_stop();
			has_scheduler = false;
		}
		set_intercepted(false);
		n_clients = 0;
	}
}

/* The lock is held. */
static int init(int wanted)
{
	static bool is_prepared;
	struct orion_config config;
	char why[512] = "";

	if (wanted < 1 || wanted > RUBATO_ORION_MAX_CLIENTS) {
		complain("the number of clients must be from 1 to %d, not %d",
			RUBATO_ORION_MAX_CLIENTS, wanted);
		return -1;
	}
	if (n_clients > 0 && (wanted == n_clients || has_scheduler)) {
		return 0;
	}
	shut_down(); /* another number, without a scheduler: of profiling, for example */
	if (orion_driver_find(why, sizeof(why)) < 0) {
		complain("%s", why);
		return -1;
	}
	if (orion_known_begin() < 0 || (!is_prepared && pthread_atfork(NULL, NULL, on_fork) != 0)) {
		complain("no memory");
		return -1;
	}
	is_prepared = true;
	orion_settings_read(wanted, &config);
	orion_clients_begin(&config);
	int r = set_intercepted(true);
	if (r < 0) {
		complain("calls cannot be intercepted: %s",
			r == -EBUSY ? "another library does that already" : strerror(-r));
		return -1;
	}
	n_clients = wanted;
	return 0;
}

EXPORTED int orion_init(int num_clients)
{
	enter();
	int r = init(num_clients);
	pthread_mutex_unlock(&lock);
	return r;
}

EXPORTED void orion_shutdown(void)
{
	pthread_mutex_lock(&lock);
	shut_down();
	if (profile_path[0] != '\0') {
		init(1); /* `rubato profile record` goes on */
	}
	pthread_mutex_unlock(&lock);
}

EXPORTED int orion_start_scheduler(int num_clients)
{
	enter();
	const bool was_initialised = n_clients > 0;
	int r = init(num_clients);
	if (r == 0 && !has_scheduler) {
		r = orion_scheduler_start();
		has_scheduler = r == 0;
		if (r < 0) {
			complain("the scheduler's threads cannot be started: %s", strerror(-r));
			if (!was_initialised) {
				shut_down();
			}
		}
	}
	pthread_mutex_unlock(&lock);
	return r == 0 ? 0 : -1;
}

EXPORTED void orion_stop_scheduler(void)
{
	orion_shutdown();
}

EXPORTED void orion_set_hp_latency(float ms)
{
	/* Not a number is none, either. */
	orion_scheduler_set_budget(ms > 0 && ms < 1e6f ? (uint64_t)((double)ms * 1e6 / 10) : 0);
}

EXPORTED void orion_set_client_idx(int idx)
{
	if (idx != orion_client_of_thread()) {
		orion_torch_leave();
	}
	orion_client_set(idx);
}

EXPORTED int orion_get_client_idx(void)
{
	int idx = orion_client_of_thread();

	return orion_client_exists(idx) ? idx : -1;
}

EXPORTED void orion_set_enabled(int enabled)
{
	pthread_mutex_lock(&lock);
	if (n_clients > 0 && (enabled != 0) != is_enabled) {
		if (enabled) {
			set_intercepted(true);
			if (has_scheduler) {
				has_scheduler = orion_scheduler_start() == 0;
			}
		} else {
			if (has_scheduler) {
				orion_scheduler_stop();
			}
			set_intercepted(false);
		}
	}
	pthread_mutex_unlock(&lock);
}

EXPORTED int orion_is_enabled(void)
{
	return is_enabled;
}

#define MAX_AWAITED 256u

struct awaited {
	int client;
	uint32_t n;
	struct orion_stream *streams[MAX_AWAITED];
};

static bool note_stream(struct orion_stream *s, void *data)
{
	struct awaited *a = data;

	/* What is captured does not run, and waiting for it would end the capture. */
	if (s->client == a->client && a->n < MAX_AWAITED && !orion_capture_is(s)) {
		a->streams[a->n++] = s;
	}
	return true;
}

EXPORTED void block(int phase)
{
	struct awaited a = {.client = orion_client_of_thread()};

	if (!is_enabled || a.client < 0) {
		return;
	}
	/* Not inside the walk: that would keep other threads from making streams. */
	orion_stream_each(note_stream, &a);
	note_stream(orion_stream_own(), &a);
	int mode = orion_capture_relax();
	for (uint32_t i = 0; i < a.n; i++) {
		uint32_t submitted = orion_stream_submitted(a.streams[i]);
		CUstream handle = (CUstream)a.streams[i]->handle;

		if (handle != NULL && orion_driver.stream_synchronize(handle) == CUDA_SUCCESS) {
			orion_stream_done(a.streams[i], submitted);
		}
	}
	orion_capture_restore(mode);
}

EXPORTED int orion_load_profile(const char *path)
{
	char why[256] = "";
	int r = -1;

	enter();
	if (path == NULL) {
		complain("no profile is named");
	} else if (orion_driver_find(why, sizeof(why)) < 0) {
		complain("%s", why);
	} else if (orion_known_begin() < 0) {
		complain("no memory");
	} else if (orion_known_load(path, why, sizeof(why)) < 0) {
		complain("%s: %s", path, why);
	} else {
		r = 0;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

EXPORTED void orion_start_profiling(const char *model)
{
	enter();
	if (n_clients > 0 || init(1) == 0) {
		orion_record_begin();
	}
	pthread_mutex_unlock(&lock);
}

EXPORTED void orion_end_profiling(const char *output)
{
	enter();
	if (orion_record_is_on()) {
		orion_record_finish();
		int r = output != NULL ? orion_known_save(output) : -EINVAL;
		if (r < 0) {
			complain("%s: %s", output != NULL ? output : "profile", strerror(-r));
		}
	}
	pthread_mutex_unlock(&lock);
}

/* When `rubato profile record` began. */
static struct timespec profile_since;

/* Each process of the command has its file: the first one that named, others with their pid. */
static void save_at_exit(void)
{
	char path[PATH_MAX + 16];
	struct stat st;

	if (profile_path[0] == '\0' || orion_known() == NULL) {
		return; /* a forked child, or there is no driver */
	}
	orion_record_finish();
	if (!orion_known_is_measured()) {
		return;
	}
	bool is_other = stat(profile_path, &st) == 0 && st.st_size > 0 &&
			(st.st_mtim.tv_sec > profile_since.tv_sec ||
				(st.st_mtim.tv_sec == profile_since.tv_sec &&
					st.st_mtim.tv_nsec >= profile_since.tv_nsec));
	if (is_other) {
		snprintf(path, sizeof(path), "%s.%d", profile_path, (int)getpid());
	} else {
		snprintf(path, sizeof(path), "%s", profile_path);
	}
	int r = orion_known_save(path);
	if (r < 0) {
		complain("%s: %s", path, strerror(-r));
	}
}

EXPORTED void rubato_orion_profile_v1(const char *file)
{
	if (profile_path[0] != '\0' || strlen(file) >= sizeof(profile_path)) {
		return;
	}
	snprintf(profile_path, sizeof(profile_path), "%s", file);
	clock_gettime(CLOCK_REALTIME_COARSE, &profile_since);
	orion_start_profiling(NULL);
	atexit(save_at_exit);
}

EXPORTED int rubato_orion_stats(int idx, struct rubato_orion_stats *ret)
{
	return orion_client_stats(idx, ret);
}

EXPORTED const char *rubato_orion_why(void)
{
	return why_failed;
}
