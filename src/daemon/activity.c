/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices on which a program's activity shows in its queues alone, so that the queues must be
 * polled. The agent polls them inside a program under `rubato run`, and the hand those of an
 * attached program. Both write what they see to a board; from there on such a program is like any
 * other.
 *
 * Polling matters while several programs use a GPU, because one of them may then be suspended for
 * another. A program that is alone under `rubato run` is polled only so often that `rubato ps` is
 * not wrong for long. An attached program that is alone is not polled at all, unless a policy wants
 * to hear of its work.
 */
#include "daemon/activity.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/apply.h"
#include "daemon/daemon.h"
#include "daemon/handlink.h"
#include "daemon/loop.h"
#include "daemon/peers/allowed.h"
#include "daemon/program.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

static_assert((int)RBT_CLASS_BEST_EFFORT == 0 && (int)RBT_CLASS_NORMAL == RBT_LEVEL_OWN &&
		      (int)RBT_CLASS_LATENCY == 2,
	"a class is a level");

#define DEFAULT_POLL_US 2000
#define ALONE_POLL_US   100000

/* The number of programs on each of the core's GPUs. */
struct company {
	uint32_t n[RBT_MAX_GPUS];
	uint32_t n_special[RBT_MAX_GPUS]; /* not normal, or taking turns like all programs */
};

static void count_programs(struct daemon *d, struct company *ret)
{
	bool all_take_turns = schedule_takes_turns(d, RBT_PRIORITY_NORMAL);
	struct program *p;

	*ret = (struct company){0};
	LIST_FOREACH (p, &d->programs, entries) {
		for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
			uint32_t is_there = p->sched.params.tasks[gpu].n_compute > 0;
			ret->n[gpu] += is_there;
			ret->n_special[gpu] +=
				all_take_turns || !program_is_plain(p) ? is_there : 0;
		}
	}
}

/* An attached program is debugged while its queues are polled: not for the sake of equals. */
static bool has_company(const struct program *p, const struct company *c)
{
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		if (p->sched.params.tasks[gpu].n_compute > 0 && c->n[gpu] > 1 &&
			(p->peer != NULL || c->n_special[gpu] > 0)) {
			return true;
		}
	}
	return false;
}

/* A board for a program that has none of its own. 0 or -errno. */
static int make_board(struct daemon *d, struct program *p, struct client *h)
{
	int fd = rbt_board_create_fd();

	if (fd < 0) {
		return fd;
	}
	struct rbt_board *b = mmap(NULL, RBT_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int r = b == MAP_FAILED ? -errno : 0;
	if (r == 0) {
		rbt_board_init(b);
		/* Slot 1 is the watcher's. */
		atomic_store_explicit(&b->n_used, 2, memory_order_relaxed);
		munmap(b, RBT_BOARD_SIZE);
		r = program_put_board(d, p, fd);
	}
	if (r < 0) {
		rbt_close(&fd);
		return r;
	}
	rbt_close(&h->board_fd);
	h->board_fd = fd;
	return 0;
}

/* A board that is not written any more says nothing about the program. */
static void drop_board(struct daemon *d, struct program *p, struct client *h)
{
	if (h->board_fd >= 0) {
		rbt_close(&h->board_fd);
		program_drop_board(d, p);
	}
}

static void poll_client(struct daemon *d, struct program *p, struct client *h, uint32_t poll_us)
{
	const struct rbt_holding *mine = h->mine;
	const struct rbt_backend *b = rbt_backend_by_id(h->backend);

	if (b == NULL || b->poll == NULL || !h->in_hand || !holding_may(mine, RBT_CAP_TIMESLICE)) {
		return;
	}
	bool has_agent = (mine->rec.flags & RBT_RECORD_AGENT) != 0;
	bool is_followed = has_agent || events_want_work(d);
	uint32_t alone_us = is_followed && !program_is_beyond(p) ? ALONE_POLL_US : 0;
	uint32_t us = poll_us != 0 ? poll_us : alone_us;
	if (us == mine->applied.poll_us || rbt_now_ns() < h->poll_retry_ns) {
		return;
	}
	int r = !has_agent && us != 0 && h->board_fd < 0 ? make_board(d, p, h) : 0;
	r = r < 0 ? r : hand_poll(d, h, us);
	if (r < 0 && r != -ENOTCONN) {
		rbt_debug(
			"process %d: its queues cannot be watched: %s", (int)p->pid, strerror(-r));
		h->poll_retry_ns = rbt_now_ns() + NO_TURNS_NS;
	}
	if (r < 0 || us == 0) {
		drop_board(d, p, h);
	}
}

/*
 * A device that arbitrates between programs by itself is told which programs to prefer while
 * several are on it. This matters until a latency program's first packets have been seen, and
 * beside normal programs.
 */
static void set_level(struct daemon *d, const struct program *p, struct client *h)
{
	const struct rbt_backend *b = rbt_backend_by_id(h->backend);
	uint32_t level = program_is_beyond(p) ? RBT_LEVEL_OWN
					      : (uint32_t)rbt_class_of(p->sched.params.priority);

	if (b != NULL && b->set_level != NULL && h->in_hand &&
		holding_may(h->mine, RBT_CAP_TIMESLICE) && level != h->mine->applied.level) {
		(void)hand_set_level(d, h, level);
	}
}

void activity_update(struct daemon *d)
{
	struct company company;
	uint32_t poll_us = d->sched.config.queue_poll_us != 0 ? d->sched.config.queue_poll_us
							      : DEFAULT_POLL_US;
	struct program *p;
	struct client *h;

	count_programs(d, &company);
	LIST_FOREACH (p, &d->programs, entries) {
		LIST_FOREACH (h, &p->clients, entries) {
			poll_client(d, p, h, has_company(p, &company) ? poll_us : 0);
			set_level(d, p, h);
		}
	}
}

void activity_forget(struct client *h)
{
	static const struct rbt_action no_poll = {.op = RBT_ACT_POLL};
	static const struct rbt_action own_level = {.op = RBT_ACT_LEVEL, .value = RBT_LEVEL_OWN};

	rbt_holding_apply(h->mine, &no_poll, 0);
	rbt_holding_apply(h->mine, &own_level, 0);
}

void activity_account(const struct program *p, struct rbt_program_account *account)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (h->mine->applied.poll_us != 0 && p->reader.board != NULL) {
			account->n_pending = atomic_load_explicit(
				&p->reader.board->n_pending, memory_order_relaxed);
			account->valid |= RBT_ACCOUNT_HAS_PENDING | RBT_ACCOUNT_HAS_DONE;
			return;
		}
	}
}
