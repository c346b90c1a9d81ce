/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table's memory, and its lock.
 *
 * The table is one private mapping that the kernel wipes in a forked child (MADV_WIPEONFORK):
 * however the child was made, and whatever another thread of its parent was doing, the child finds
 * it empty and unlocked. A vfork child, which runs in its parent's memory, finds it full, with a
 * pid that is not its own, and does not use it. On kernels without the advice (before 4.14) libc's
 * fork handler empties it; children that are made without libc then do not use it either.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shim/config.h"
#include "shim/shim.h"

/* Some of our driver calls under the lock take a millisecond. */
#define FORK_WAIT_NS 10000000ull
#define SPINS        64

struct shim_owned shim_owned;

static _Atomic(struct shim *) table;
static atomic_bool table_wiped_on_fork;
static atomic_bool fork_watched;

/* The function behind pthread_atfork(), in a version that old C libraries have. */
extern int __register_atfork(
	void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso_handle);
extern void *__dso_handle __attribute__((visibility("hidden")));

struct shim *shim_peek(void)
{
	return atomic_load_explicit(&table, memory_order_acquire);
}

bool shim_is_wiped_on_fork(void)
{
	return table_wiped_on_fork;
}

static struct shim *table_obtain(void)
{
	struct shim *s = shim_peek();

	if (s != NULL) {
		return s;
	}
	struct shim *fresh = shim_sys_mmap(sizeof(*fresh));
	if (fresh == NULL) {
		return NULL;
	}
	if (shim_sys_wipe_on_fork(fresh, sizeof(*fresh))) {
		table_wiped_on_fork = true;
	}
	if (!atomic_compare_exchange_strong(&table, &s, fresh)) {
		shim_sys_munmap(fresh, sizeof(*fresh));
		return s;
	}
	return fresh;
}

/* Sequentially consistent with late.c's count: see shim_record(). */
static bool try_lock(struct shim *s, uint32_t tid)
{
	uint32_t holder = 0;

	for (int i = 0; i < SPINS && holder != tid; i++) {
		holder = 0;
		if (atomic_compare_exchange_strong(&s->lock_tid, &holder, tid)) {
			return true;
		}
	}
	/* Or this thread has it: a signal handler runs in the middle of the shim, or a fork
	 * handler. */
	return false;
}

static void unlock(struct shim *s)
{
	s->lock_tid = 0;
}

/* In a child these are copies: the parent's connection, and locks that would outlive the parent. */
static void close_owned(void)
{
	if (!shim_owned.any) {
		return;
	}
	shim_fd_close(&shim_owned.sock);
	shim_fd_close(&shim_owned.kfd);
	shim_fd_close(&shim_owned.link);
	shim_fd_close(&shim_owned.ledger);
	for (size_t i = 0; i < NV_MAX_GPUS; i++) {
		shim_fd_close(&shim_owned.locks[i]);
		shim_fd_close(&shim_owned.marks[i]);
	}
	shim_owned.any = false;
}

static void empty(struct shim *s)
{
	memset(s, 0, offsetof(struct shim, objs));
	/* Large, and seldom used. */
	if (s->kfd.n_used > 0 || s->kfd.partial) {
		memset(&s->kfd, 0, sizeof(s->kfd));
	}
	s->spawn.is_under_way = 0;
	/* A forked child has no mapping of the ledger. */
	if (s->memory.n_owners > 0 || s->memory.shared != NULL) {
		memset(&s->memory, 0, offsetof(struct shim_memory, entries));
	}
}

void shim_reset(void)
{
	struct shim *s = shim_peek();

	close_owned();
	if (s != NULL) {
		empty(s);
	}
}

/* If a process forks while another thread is between opening a file and noting it, the child has an
 * unknown copy. This is worth a short wait: forking takes time anyway. */
static void before_fork(void)
{
	struct shim *s = shim_peek();
	uint32_t tid = shim_sys_gettid();
	uint64_t deadline_ns = shim_raw_now_ns() + FORK_WAIT_NS;

	if (s == NULL || s->pid != shim_sys_getpid()) {
		return;
	}
	while (s->lock_tid != tid && shim_raw_now_ns() < deadline_ns) {
		if (try_lock(s, tid)) {
			s->fork_tid = tid;
			return;
		}
		shim_sys_yield();
	}
}

static void after_fork_in_parent(void)
{
	struct shim *s = shim_peek();

	if (s != NULL && s->fork_tid == shim_sys_gettid()) {
		s->fork_tid = 0;
		unlock(s);
	}
}

static void after_fork_in_child(void)
{
	struct shim *s = shim_peek();

	/* Another library's fork handler may have made driver calls already, and so started our
	 * table. */
	if (s != NULL && !(table_wiped_on_fork && s->pid != 0)) {
		shim_reset();
	}
}

/* First entry of this process, under the lock. */
static void start(struct shim *s)
{
	bool no = false;

	close_owned();
	s->pid = shim_sys_getpid();
	if (atomic_compare_exchange_strong(&fork_watched, &no, true)) {
		__register_atfork(
			before_fork, after_fork_in_parent, after_fork_in_child, __dso_handle);
		shim_heal_configure();
	}
}

int shim_enter(struct shim_guard *g)
{
	struct shim *s = shim_config_active() ? table_obtain() : NULL;

	if (s == NULL || (s->pid != 0 && s->pid != shim_sys_getpid())) {
		return -EPERM;
	}
	g->s = s;
	g->old_mask = shim_sys_block_signals();
	if (!try_lock(s, shim_sys_gettid())) {
		shim_sys_restore_signals(g->old_mask);
		return -EBUSY;
	}
	if (s->pid == 0) {
		start(s);
	}
	return 0;
}

void shim_leave(struct shim_guard *g)
{
	unlock(g->s);
	shim_sys_restore_signals(g->old_mask);
}
