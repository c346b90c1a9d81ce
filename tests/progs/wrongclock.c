/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to preload: the wall clock jumps by hours, back and forth, with every look at it. Other
 * clocks go on as they do. A process that would wait by the wall clock says so and is aborted: it
 * might wait for hours.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* ISO C has no conversion from an object pointer to a function pointer. */
#define REAL(name)                                                                                 \
	(((union {                                                                                 \
		void *p;                                                                           \
		__typeof__(&name) f;                                                               \
	}){.p = dlsym(RTLD_NEXT, #name)})                                                          \
			.f)

#define HOUR_S 3600
#define DAY_S  (24 * HOUR_S)

static long jump_s(void)
{
	static const long jumps_s[] = {0, 7 * HOUR_S, -5 * HOUR_S, 30 * DAY_S};
	static atomic_uint n;

	return jumps_s[atomic_fetch_add(&n, 1) % 4];
}

static bool is_wall(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

static void refuse(const char *what)
{
	static const char says[] = " goes by the wall clock\n";

	syscall(SYS_write, STDERR_FILENO, what, strlen(what));
	syscall(SYS_write, STDERR_FILENO, says, sizeof(says) - 1);
	abort();
}

/* Whether a time is nowhere near that of the clock that runs since the start of the machine. */
static bool is_of_wall(const struct timespec *at)
{
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return labs((long)(at->tv_sec - now.tv_sec)) > DAY_S;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ts);

	if (r == 0 && is_wall(clock)) {
		ts->tv_sec += jump_s();
	}
	return r;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;
	int r = clock_gettime(CLOCK_REALTIME, &ts);

	(void)zone;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return r;
}

time_t time(time_t *ret)
{
	struct timespec ts = {0};

	clock_gettime(CLOCK_REALTIME, &ts);
	if (ret != NULL) {
		*ret = ts.tv_sec;
	}
	return ts.tv_sec;
}

int timerfd_create(int clock, int flags)
{
	if (is_wall(clock)) {
		refuse("timerfd_create");
	}
	return REAL(timerfd_create)(clock, flags);
}

int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict ret)
{
	if (is_wall(clock)) {
		refuse("timer_create");
	}
	return REAL(timer_create)(clock, event, ret);
}

int clock_nanosleep(
	clockid_t clock, int flags, const struct timespec *until, struct timespec *remaining)
{
	if (is_wall(clock) && flags == TIMER_ABSTIME) {
		refuse("clock_nanosleep");
	}
	return REAL(clock_nanosleep)(clock, flags, until, remaining);
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict until)
{
	(void)sem;
	(void)until;
	refuse("sem_timedwait");
	return -1;
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until)
{
	(void)mutex;
	(void)until;
	refuse("pthread_mutex_timedlock");
	return -1;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
	const struct timespec *restrict until)
{
	if (is_of_wall(until)) {
		refuse("pthread_cond_timedwait");
	}
	return REAL(pthread_cond_timedwait)(cond, mutex, until);
}
