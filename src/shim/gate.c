/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate (board/gate.h): while a policy refuses a compute task that has never run, its first
 * GPFIFO_SCHEDULE is answered with NV_ERR_BUSY_RETRY in the driver's place. libcuda then repeats
 * the call, every 100 ms at first. It holds the context's lock meanwhile, so other threads of the
 * program that need it wait in libcuda.
 *
 * The gate decides before the call, from the call's header and the places below alone. Whatever is
 * not known for sure opens it.
 */
#include <stddef.h>
#include <string.h>

#include "backend/nvidia/driver.h"
#include "board/gate.h"
#include "shim/shim.h"
#include "shim/submit.h"

enum { UNASKED, RETRIES, DOES_NOT_RETRY };

static void publish(struct shim *s, uint32_t i)
{
	struct rbt_board *b = shim_board_peek();

	if (b != NULL) {
		atomic_store_explicit(&b->asks[i], s->gate.tasks[i], memory_order_release);
	}
}

void shim_gate_publish(struct shim *s)
{
	struct rbt_board *b = shim_board_peek();

	if (b == NULL) {
		return;
	}
	atomic_store_explicit(&b->expects_gate, shim_config.expects_gate, memory_order_relaxed);
	for (uint32_t i = 0; i < RBT_BOARD_GATES; i++) {
		publish(s, i);
	}
}

void shim_gate_ask(struct shim *s, struct shim_obj *task)
{
	/* A program that does not count its submissions has no board. */
	if (task->t.kind != RBT_TASK_COMPUTE || task->t.gate != 0 || !shim_submit_enabled()) {
		return;
	}
	for (uint32_t i = 0; i < RBT_BOARD_GATES; i++) {
		if (s->gate.tasks[i] == 0) {
			task->t.gate = (uint8_t)(i + 1);
			s->gate.since_ns[i] = 0;
			s->gate.tasks[i] = rbt_gate_task(task->client, task->handle);
			s->gate.n++;
			publish(s, i);
			return;
		}
	}
}

void shim_gate_end(struct shim *s, struct shim_obj *task)
{
	if (task->t.gate != 0) {
		uint32_t i = task->t.gate - 1u;

		task->t.gate = 0;
		s->gate.tasks[i] = 0;
		s->gate.n--;
		publish(s, i);
	}
}

/* Whether any answer could be "no": otherwise the program's memory is not looked at. */
static bool is_in_force(const struct shim *s, const struct rbt_board *b, uint64_t now_ns)
{
	for (uint32_t i = 0; i < RBT_BOARD_GATES; i++) {
		uint64_t task = s->gate.tasks[i];
		if (task != 0 && (shim_config.expects_gate ||
					 rbt_gate_read(b, i, task, now_ns) == RBT_GATE_SHUT)) {
			return true;
		}
	}
	return false;
}

/* Only where libcuda is known to repeat the call. */
static bool is_repeated(struct shim *s)
{
	struct rbt_nv_driver driver = {0};
	char text[1024];

	if (s->gate.driver == UNASKED) {
		if (shim_raw_driver_version(text, sizeof(text)) > 0) {
			(void)rbt_nv_driver_parse(text, &driver);
		}
		s->gate.driver = driver.retries_schedule ? RETRIES : DOES_NOT_RETRY;
	}
	return s->gate.driver == RETRIES;
}

/* A missing answer is waited for from the first attempt on, and not for long. */
static bool is_shut(struct shim *s, const struct rbt_board *b, uint64_t task, uint64_t now_ns)
{
	for (uint32_t i = 0; i < RBT_BOARD_GATES; i++) {
		uint64_t since_ns = 0;

		if (s->gate.tasks[i] != task) {
			continue;
		}
		if (atomic_compare_exchange_strong(&s->gate.since_ns[i], &since_ns, now_ns)) {
			since_ns = now_ns;
		}
		enum rbt_gate gate = rbt_gate_read(b, i, task, now_ns);
		return gate == RBT_GATE_SHUT ||
		       (gate == RBT_GATE_UNSAID && shim_config.expects_gate &&
			       now_ns - since_ns < RBT_GATE_MISSING_NS);
	}
	return false;
}

bool shim_gate_holds(int fd, unsigned long request, void *arg)
{
	struct shim *s = shim_peek();
	const struct rbt_board *b = shim_board_peek();
	struct nv_control ctl;

	if (s == NULL || b == NULL || s->gate.n == 0 || request != NV_IOCTL_CONTROL ||
		arg == NULL) {
		return false;
	}
	uint64_t now_ns = shim_raw_now_ns();
	/* Before the argument is read: another device may mean something else by it. */
	if (!is_in_force(s, b, now_ns) || !shim_raw_is_control(fd)) {
		return false;
	}
	memcpy(&ctl, arg, sizeof(ctl));
	if (ctl.cmd != NV_CTRL_TSG_GPFIFO_SCHEDULE ||
		!is_shut(s, b, rbt_gate_task(ctl.client, ctl.object), now_ns) || !is_repeated(s)) {
		return false;
	}
	ctl.status = NV_ERR_BUSY_RETRY;
	memcpy(arg, &ctl, sizeof(ctl));
	return true;
}
