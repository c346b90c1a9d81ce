/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/lines.h"

#include <stdio.h>
#include <stdlib.h>

static struct rbt_msg_policy_line *place(const struct policy_lines *l, uint64_t number)
{
	return &l->list[number % POLICY_LINES_MAX];
}

void lines_add(struct policy_lines *l, uint64_t time_ns, uint32_t load, const char *text)
{
	if (l->list == NULL) {
		l->list = calloc(POLICY_LINES_MAX, sizeof(l->list[0]));
	}
	if (l->list == NULL) {
		return;
	}
	struct rbt_msg_policy_line *line = place(l, ++l->last);
	*line = (struct rbt_msg_policy_line){
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_POLICY_LINE},
		.number = l->last,
		.time_ns = time_ns,
		.load = load,
	};
	snprintf(line->text, sizeof(line->text), "%s", text);
}

const struct rbt_msg_policy_line *lines_find(const struct policy_lines *l, uint64_t number)
{
	const uint64_t first = l->last >= POLICY_LINES_MAX ? l->last - POLICY_LINES_MAX + 1 : 1;

	number = number > first ? number : first;
	return l->list != NULL && number <= l->last ? place(l, number) : NULL;
}

void lines_finish(struct policy_lines *l)
{
	free(l->list);
	*l = (struct policy_lines){0};
}
