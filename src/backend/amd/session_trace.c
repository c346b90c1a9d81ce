/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ptrace side. Only the target's first thread is seized: it is the one that the kernel checks,
 * and the others are left alone. The end of the session's thread detaches: the kernel then releases
 * the target without stopping it. PTRACE_DETACH would need it stopped first, which makes some of
 * its system calls fail with EINTR.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/amd/session_impl.h"
#include "util/fd.h"

#define SEIZE_TRIES    50
#define SEIZE_PAUSE_NS 2000000L

static int status_number(pid_t pid, const char *name)
{
	char path[64], text[4096];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (rbt_read_file(path, text, sizeof(text)) < 0) {
		return -1;
	}
	const char *at = strstr(text, name);
	return at != NULL ? atoi(at + strlen(name)) : -1;
}

static bool is_dead(pid_t pid)
{
	char path[64], text[4096];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return rbt_read_file(path, text, sizeof(text)) < 0 || strstr(text, "\nState:\tZ") != NULL ||
	       strstr(text, "\nState:\tX") != NULL;
}

int trace_seize(struct rbt_amd_session *s)
{
	int tracer = 0;

	s->is_child = status_number(s->pid, "\nPPid:") == getpid();
	for (int i = 0; i < SEIZE_TRIES; i++) {
		if (ptrace(PTRACE_SEIZE, s->pid, NULL, NULL) == 0) {
			return 0;
		}
		if (errno != EPERM) {
			return -errno;
		}
		if (is_dead(s->pid)) {
			return -ESRCH;
		}
		tracer = status_number(s->pid, "\nTracerPid:");
		if (tracer <= 0) {
			/* Refused, or just released. */
			if (i > 0) {
				continue;
			}
			return -EPERM;
		}
		/* The thread of a session of ours that has just ended may still trace the target:
		 * pthread_join() returns a moment before the kernel releases the thread's
		 * targets. */
		if (status_number(tracer, "\nTgid:") != getpid() && !is_dead(tracer)) {
			return -EBUSY;
		}
		nanosleep(&(struct timespec){.tv_nsec = SEIZE_PAUSE_NS}, NULL);
	}
	return tracer > 0 ? -EBUSY : -EPERM;
}

static void *watch(void *data)
{
	struct rbt_amd_session *s = data;
	uint64_t one = 1;
	siginfo_t info = {0};

	/* Left for the session's thread, which alone may handle it. */
	while (waitid(P_PID, (id_t)s->pid, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL) == 0 ||
		errno == EINTR) {
		(void)!write(s->wake, &one, sizeof(one));
		if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
			info.si_code == CLD_DUMPED) {
			break;
		}
		while (sem_wait(&s->handled) < 0) {
		}
	}
	return NULL;
}

int trace_watch(struct rbt_amd_session *s)
{
	int r = sem_init(&s->handled, 0, 0) < 0 ? errno : 0;

	if (r == 0) {
		r = pthread_create(&s->watcher, NULL, watch, s);
		s->has_watcher = r == 0;
	}
	return -r;
}

void trace_unwatch(struct rbt_amd_session *s)
{
	if (s->has_watcher) {
		pthread_cancel(s->watcher);
		pthread_join(s->watcher, NULL);
		sem_destroy(&s->handled);
		s->has_watcher = false;
	}
}

static bool is_stop_signal(int number)
{
	return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/* As if the target were not traced: a signal is delivered, a stopped process stays stopped. */
static void pass_on(struct rbt_amd_session *s, int status)
{
	int number = WSTOPSIG(status);

	if (status >> 16 == PTRACE_EVENT_STOP) {
		if (is_stop_signal(number)) {
			(void)ptrace(PTRACE_LISTEN, s->pid, NULL, NULL);
		} else {
			(void)ptrace(PTRACE_CONT, s->pid, NULL, NULL);
		}
		return;
	}
	(void)ptrace(PTRACE_CONT, s->pid, NULL, (void *)(intptr_t)number);
}

void trace_handle(struct rbt_amd_session *s)
{
	siginfo_t info = {0};
	int status;

	while (!s->gone) {
		info.si_pid = 0;
		if (waitid(P_PID, (id_t)s->pid, &info,
			    WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL) < 0 ||
			info.si_pid == 0) {
			break;
		}
		if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
			info.si_code == CLD_DUMPED) {
			s->gone = true;
			/* The target's parent learns of its end only after its tracer. */
			if (!s->is_child) {
				(void)waitpid(s->pid, &status, __WALL | WNOHANG);
			}
			return; /* the watcher has ended too */
		}
		if (waitpid(s->pid, &status, __WALL | WNOHANG) == s->pid && WIFSTOPPED(status)) {
			pass_on(s, status);
		}
	}
	int posted = 0;
	if (sem_getvalue(&s->handled, &posted) == 0 && posted == 0) {
		sem_post(&s->handled);
	}
}
