/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/top/source.h"
#include "sched/class.h"
#include "util/proc.h"

static int send_wish(const struct top_action *a, struct rbt_msg_result *ret, char *why)
{
	struct rbt_msg_renice renice = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RENICE},
		.pid = a->pid,
		.treat = RBT_TREATMENT_INIT,
	};
	struct rbt_msg_suspend suspend = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_SUSPEND},
		.pid = a->pid,
	};
	struct rbt_msg_pid resume = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RESUME},
		.pid = a->pid,
	};

	if (a->wish == TOP_WISH_RENICE) {
		renice.treat.priority = a->priority;
		renice.treat.said = RBT_TREAT_BIT(PRIORITY);
		renice.treat.reset = RBT_TREAT_BIT(TIMESLICE); /* it goes with its priority */
		return target_try(a->pid, &renice, sizeof(renice), ret, why);
	}
	if (a->wish == TOP_WISH_SUSPEND) {
		return target_try(a->pid, &suspend, sizeof(suspend), ret, why);
	}
	return target_try(a->pid, &resume, sizeof(resume), ret, why);
}

bool top_source_act(const struct top_action *a, char *ret_text, size_t size)
{
	struct rbt_msg_result result = {0};
	char why[TARGET_WHY_MAX] = "";
	uint64_t start_time;

	if (a->start_time != 0 &&
		(rbt_proc_start_time(a->pid, &start_time) < 0 || start_time != a->start_time)) {
		snprintf(ret_text, size, "process %d has ended", (int)a->pid);
		return false;
	}
	if (send_wish(a, &result, why) != EXIT_OK) {
		snprintf(ret_text, size, "%s", why);
		return false;
	}
	const char *semicolon = result.text[0] != '\0' ? "; " : "";
	if (a->wish == TOP_WISH_RENICE) {
		snprintf(ret_text, size, "%d: %s, priority %u%s%s", (int)a->pid,
			rbt_class_name(rbt_class_of(result.priority)), result.priority, semicolon,
			result.text);
	} else {
		snprintf(ret_text, size, "%d: %s%s%s", (int)a->pid,
			a->wish == TOP_WISH_SUSPEND ? "suspended" : "resumed", semicolon,
			result.text);
	}
	return true;
}
