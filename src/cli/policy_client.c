/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about policies. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd_policy.h"
#include "policy/engine.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/runtime.h"
#include "util/sealed.h"

/* The verifier and a dry run take their time. */
#define LOAD_TIMEOUT_S 60
#define MAX_LOG        (64u << 20)

static_assert((int)RBT_POLICY_N_HOOKS == (int)RBT_N_HOOKS, "hooks of messages and objects");

static struct daemon_answer answer; /* large */

int policy_connect(void)
{
	int sock = daemon_connect(RBT_UID_SYSTEM);

	return sock >= 0 ? sock : daemon_connect(geteuid());
}

/* Copies an answer of one type. Another one is a RESULT, whose error is returned, or is wrong. */
static int take(ssize_t n, uint32_t type, void *ret, size_t size)
{
	struct rbt_msg_header h;
	struct rbt_msg_result result;

	rbt_close(&answer.fd);
	if (n < 0) {
		return (int)n;
	}
	memcpy(&h, answer.buf, sizeof(h));
	if (h.magic == RBT_PROTOCOL_MAGIC && h.type == type && (size_t)n == size) {
		memcpy(ret, answer.buf, size);
		return 0;
	}
	int r = daemon_read_result(answer.buf, (size_t)n, &result);
	return r < 0 ? r : result.error < 0 ? result.error : -EBADMSG;
}

int policy_ask(int sock, struct rbt_msg_policy *ret)
{
	struct rbt_msg_header req = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_POLICY_SHOW};
	ssize_t n = daemon_exchange(sock, &req, sizeof(req), -1, LIST_TIMEOUT_S, &answer);
	int r = take(n, RBT_MSG_POLICY, ret, sizeof(*ret));

	if (r == 0) {
		ret->name[sizeof(ret->name) - 1] = ret->base[sizeof(ret->base) - 1] = '\0';
		ret->label[sizeof(ret->label) - 1] = '\0';
		ret->reason[sizeof(ret->reason) - 1] = ret->other[sizeof(ret->other) - 1] = '\0';
	}
	return r;
}

void policy_ask_nobody(struct rbt_msg_policy *ret)
{
	const char *why_not = rbt_engine_why_not(RBT_ENGINE_KERNEL);

	*ret = (struct rbt_msg_policy){
		.state = RBT_POLICY_NONE,
		.engine = why_not == NULL ? RBT_POLICY_KERNEL : RBT_POLICY_VM,
	};
	snprintf(ret->other, sizeof(ret->other), "%s", why_not != NULL ? why_not : "");
}

int policy_next_line(int sock, uint64_t number, struct rbt_msg_policy_line *ret)
{
	struct rbt_msg_policy_log req = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_POLICY_LOG}, .number = number};
	ssize_t n = daemon_exchange(sock, &req, sizeof(req), -1, LIST_TIMEOUT_S, &answer);
	int r = take(n, RBT_MSG_POLICY_LINE, ret, sizeof(*ret));

	if (r < 0) {
		return r == -EAGAIN ? 0 : r;
	}
	ret->text[sizeof(ret->text) - 1] = '\0';
	/* A number that does not grow would be asked for again without end. */
	return ret->number >= number && ret->number < UINT64_MAX ? 1 : -EBADMSG;
}

int policy_fetch_object(
	int sock, void **ret_data, size_t *ret_size, struct rbt_msg_result *ret_result)
{
	struct rbt_msg_header req = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_POLICY_OBJECT};
	ssize_t n = daemon_exchange(sock, &req, sizeof(req), -1, ANSWER_TIMEOUT_S, &answer);
	int r = n < 0 ? (int)n : daemon_read_result(answer.buf, (size_t)n, ret_result);

	if (r == 0 && ret_result->error == 0) {
		r = rbt_sealed_read(answer.fd, RBT_OBJECT_MAX_FILE, ret_data, ret_size);
	}
	rbt_close(&answer.fd);
	return r;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

int policy_send_load(int sock, const struct policy_choice *choice, uint32_t flags,
	const void *object, size_t size, struct rbt_msg_result *ret, char **ret_log)
{
	static char msg[RBT_MSG_MAX];
	struct rbt_policy_load load = {
		.engine = choice->engine,
		.flags = flags,
		.label = base_name(choice->file),
		.n_settings = choice->n_settings,
	};
	void *log = NULL;
	size_t log_size;

	memcpy(load.settings, choice->settings, sizeof(load.settings));
	ssize_t msg_size = rbt_policy_load_encode(&load, msg, sizeof(msg));
	int fd = msg_size < 0 ? (int)msg_size : rbt_sealed_create("policy", object, size);
	if (fd < 0) {
		return fd;
	}
	ssize_t n = daemon_exchange(sock, msg, (size_t)msg_size, fd, LOAD_TIMEOUT_S, &answer);
	close(fd);
	int r = n < 0 ? (int)n : daemon_read_result(answer.buf, (size_t)n, ret);
	if (r == 0 && answer.fd >= 0) {
		(void)rbt_sealed_read(answer.fd, MAX_LOG, &log, &log_size);
	}
	rbt_close(&answer.fd);
	*ret_log = log;
	return r;
}

int policy_send_unload(int sock, uint32_t load, struct rbt_msg_result *ret)
{
	struct rbt_msg_policy_unload msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_POLICY_UNLOAD}, .load = load};

	return daemon_request(sock, &msg, sizeof(msg), NULL, 0, ret);
}

int policy_send_entry(int sock, const struct rbt_policy_entry *entry, char buf[RBT_MSG_MAX],
	struct rbt_policy_entry *ret, struct rbt_msg_result *ret_result)
{
	static char msg[RBT_MSG_MAX];
	ssize_t size = rbt_policy_entry_encode(entry, msg, sizeof(msg));
	struct rbt_msg_header h;

	if (size < 0) {
		return (int)size;
	}
	ssize_t n = daemon_exchange(sock, msg, (size_t)size, -1, ANSWER_TIMEOUT_S, &answer);
	rbt_close(&answer.fd);
	if (n < 0) {
		return (int)n;
	}
	memcpy(&h, answer.buf, sizeof(h));
	if (h.magic != RBT_PROTOCOL_MAGIC || h.type != RBT_MSG_POLICY_MAP) {
		return daemon_read_result(answer.buf, (size_t)n, ret_result);
	}
	memcpy(buf, answer.buf, (size_t)n);
	int r = rbt_policy_entry_decode(buf, (size_t)n, ret);
	return r < 0 ? r : 1;
}

void policy_say_failed(
	const struct command *cmd, const char *what, int error, const struct rbt_msg_result *result)
{
	if (error == -ENOENT || error == -ECONNREFUSED) {
		rbt_error("%s: no rubatod runs, so no policy is loaded", cmd->name);
	} else if (error == -EMSGSIZE) {
		rbt_error("%s: %s: its settings are too long to be sent", cmd->name, what);
	} else if (error < 0) {
		rbt_error("%s: %s: rubatod does not answer: %s", cmd->name, what, strerror(-error));
	} else {
		rbt_error("%s: %s: %s", cmd->name, what,
			result->text[0] != '\0' ? result->text : strerror(-result->error));
	}
}
