/* SPDX-License-Identifier: Apache-2.0 */
/* Policies that are loaded as long as a connection to the daemon lasts. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cmd_policy.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

/* A killed daemon is started again by its keeper. */
#define RETURN_MS 10000
/* The policy of a `rubato run` that has just ended is unloaded within this time. */
#define BUSY_MS  2000
#define RETRY_MS 50
/* How long the end of a policy is waited for. */
#define END_MS 1000

volatile sig_atomic_t policy_stop;

static void on_signal(int number)
{
	policy_stop = 1;
}

void policy_catch_signals(void)
{
	/* Without SA_RESTART: a signal ends a pause at once. */
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

void policy_pause(uint64_t ms)
{
	struct timespec t = {
		.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000L};

	if (!policy_stop) {
		nanosleep(&t, NULL);
	}
}

/* Sends the policy. If another one is loaded, it may be about to go. */
static int send_load(struct policy_hold *h, struct rbt_msg_result *result, char **ret_log)
{
	const uint64_t until_ns = rbt_now_ns() + BUSY_MS * RBT_NS_PER_MS;

	for (;;) {
		int r = policy_send_load(
			h->sock, h->choice, h->flags, h->object, h->size, result, ret_log);
		if (r < 0 || result->error != -EBUSY || rbt_now_ns() >= until_ns || policy_stop) {
			return r;
		}
		free(*ret_log);
		*ret_log = NULL;
		policy_pause(RETRY_MS);
	}
}

/* Sends it to the next daemon if this one is killed meanwhile. */
static int send_again(struct policy_hold *h, struct rbt_msg_result *result, char **ret_log)
{
	int r = send_load(h, result, ret_log);

	if (r == -EPIPE || r == -ECONNRESET) {
		rbt_close(&h->sock);
		h->sock = daemon_start();
		r = h->sock < 0 ? h->sock : send_load(h, result, ret_log);
	}
	return r;
}

static int load(struct policy_hold *h, bool may_miss)
{
	struct rbt_msg_result result;
	struct rbt_msg_policy now;
	char *log = NULL;
	/* A load may take a minute, another answer does not. A program does not wait for a daemon
	 * that hangs. */
	int r = may_miss ? policy_ask(h->sock, &now) : 0, code = EXIT_OK;

	r = r == -ETIMEDOUT ? r : send_again(h, &result, &log);
	if (r == 0 && result.error == 0) {
		h->load = result.load;
	} else {
		rbt_close(&h->sock);
	}
	if (r < 0 && r != -EMSGSIZE && may_miss) {
		rbt_warn("%s: the program runs without the policy %s, because rubatod does not "
			 "answer: %s",
			h->cmd->name, h->choice->file, strerror(-r));
	} else if (r < 0 || result.error < 0) {
		code = policy_failed(h->cmd, h->choice->file, r, &result);
		policy_print_log(log);
	}
	free(log);
	return code;
}

int policy_hold_begin(struct policy_hold *h, const struct command *cmd,
	const struct policy_choice *choice, uint32_t flags, bool may_miss)
{
	*h = (struct policy_hold){.cmd = cmd,
		.choice = choice,
		.flags = flags | RBT_POLICY_FOREGROUND,
		.sock = -1,
		.number = 1,
		.until_fd = -1};
	int code = policy_read_file(cmd, choice->file, &h->object, &h->size);
	if (code != EXIT_OK) {
		return code;
	}
	h->sock = daemon_start();
	if (h->sock >= 0) {
		code = load(h, may_miss);
	} else if (may_miss) {
		rbt_warn("%s: the program runs without the policy %s, because no rubatod runs",
			cmd->name, choice->file);
	} else {
		rbt_error("%s: %s", cmd->name, daemon_start_error(h->sock));
		code = EXIT_FAILED;
	}
	if (h->sock < 0) {
		free(h->object);
		h->object = NULL;
	}
	return code;
}

void policy_print_line(const struct rbt_msg_policy_line *line, struct rbt_json *json)
{
	if (json == NULL) {
		printf("[%5llu.%06llu] %s\n", line->time_ns / RBT_NS_PER_S,
			line->time_ns % RBT_NS_PER_S / 1000, line->text);
		return;
	}
	rbt_json_init(json, stdout);
	json->one_line = true;
	rbt_json_object(json, NULL);
	rbt_json_u64(json, "number", line->number);
	rbt_json_u64(json, "time_ns", line->time_ns);
	rbt_json_u64(json, "load", line->load);
	rbt_json_string(json, "text", line->text);
	rbt_json_end(json, '}');
}

/* Prints the new lines of this policy. */
static int print_lines(struct policy_hold *h, struct rbt_json *json)
{
	struct rbt_msg_policy_line line;
	int r;

	while ((r = policy_next_line(h->sock, h->number, &line)) == 1) {
		h->number = line.number + 1;
		if (line.load == h->load) {
			policy_print_line(&line, json);
		}
	}
	fflush(stdout);
	return r;
}

/* Whether the policy is still wanted after a pause; the end of that ends the pause. */
static bool is_wanted_after(const struct policy_hold *h, int ms)
{
	struct pollfd pfd = {.fd = h->until_fd, .events = POLLIN};

	return !policy_stop && poll(&pfd, 1, ms) <= 0 && !policy_stop;
}

/* The daemon is gone: loads the policy into the next one. */
static bool come_back(struct policy_hold *h, char why[POLICY_WHY_MAX])
{
	const uint64_t until_ns = rbt_now_ns() + RETURN_MS * RBT_NS_PER_MS;
	struct rbt_msg_result result;
	char *log = NULL;
	bool is_wanted = true;

	rbt_close(&h->sock);
	h->flags |= RBT_POLICY_JOIN;
	while (h->sock < 0 && is_wanted && rbt_now_ns() < until_ns) {
		is_wanted = is_wanted_after(h, RETRY_MS);
		h->sock = is_wanted ? policy_connect() : -1;
	}
	if (h->sock < 0) {
		snprintf(why, POLICY_WHY_MAX, "rubatod has ended");
		return !is_wanted;
	}
	int r = send_load(h, &result, &log);
	free(log);
	if (r < 0 || result.error < 0) {
		snprintf(why, POLICY_WHY_MAX, "rubatod was started again: %s",
			r < 0 ? strerror(-r) : result.text);
		rbt_close(&h->sock);
		return false;
	}
	h->load = result.load;
	h->number = 1;
	return true;
}

bool policy_hold_look(
	struct policy_hold *h, struct rbt_json *json, bool is_log, char why[POLICY_WHY_MAX])
{
	struct rbt_msg_policy now;

	/* The daemon may have been too slow the last time. */
	daemon_drain(h->sock);
	/* In this order: lines from before an ejection are printed. */
	int r = policy_ask(h->sock, &now);
	int printed = r == 0 && is_log ? print_lines(h, json) : 0;

	if (r == -ECONNRESET || r == -EPIPE || printed == -ECONNRESET || printed == -EPIPE) {
		return come_back(h, why);
	}
	/* A daemon that does not answer in time is not gone. */
	if (r < 0) {
		return true;
	}
	if (now.n_loads != h->load) {
		/* The other one may be gone, too. */
		snprintf(why, POLICY_WHY_MAX, "another policy has replaced it%s%s",
			now.name[0] != '\0' ? ": " : "", now.name);
	} else if (now.state == RBT_POLICY_EJECTED) {
		snprintf(why, POLICY_WHY_MAX, "%s", now.reason);
	} else if (now.state == RBT_POLICY_NONE) {
		snprintf(why, POLICY_WHY_MAX, "it was unloaded");
	}
	return now.n_loads == h->load && now.state == RBT_POLICY_LOADED;
}

/* Whether the policy is still loaded. */
static bool is_loaded(const struct policy_hold *h)
{
	struct rbt_msg_policy now;
	int sock = policy_connect();
	int r = sock < 0 ? sock : policy_ask(sock, &now);

	rbt_close(&sock);
	return r == 0 && now.n_loads == h->load && now.state == RBT_POLICY_LOADED;
}

void policy_hold_end(struct policy_hold *h)
{
	const uint64_t until_ns = rbt_now_ns() + END_MS * RBT_NS_PER_MS;

	/* The daemon unloads the policy after the last connection that holds it. Others may hold
	 * it, too, so the wait has an end. */
	if (h->sock >= 0) {
		rbt_close(&h->sock);
		while (is_loaded(h) && rbt_now_ns() < until_ns) {
			nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L / 10}, NULL);
		}
	}
	free(h->object);
	h->object = NULL;
}
