/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "daemon/program.h"

static void clean_text(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (size_t i = 0; text[i] != '\0'; i++) {
		text[i] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
	}
}

int guest_read(const void *buf, size_t size, struct rbt_program_guest *ret)
{
	struct rbt_msg_guest msg;

	if (size != sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	clean_text(msg.guest.vm, sizeof(msg.guest.vm));
	clean_text(msg.guest.command, sizeof(msg.guest.command));
	*ret = msg.guest;
	return 0;
}
