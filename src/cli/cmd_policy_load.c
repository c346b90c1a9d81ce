/* SPDX-License-Identifier: Apache-2.0 */
/* `rubato policy load` and `unload`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cmd_policy.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"

#define LOOK_MS 100

static int load_foreground(const struct policy_args *a)
{
	struct policy_hold h;
	struct rbt_json json;
	char why[POLICY_WHY_MAX] = "";

	policy_catch_signals();
	int code = policy_hold_begin(&h, &cmd_policy, &a->choice, 0, false);
	if (code != EXIT_OK) {
		return code;
	}
	while (code == EXIT_OK && !policy_stop) {
		if (!policy_hold_look(&h, a->json ? &json : NULL, true, why)) {
			code = EXIT_FAILED;
		} else {
			policy_pause(LOOK_MS);
		}
	}
	if (code == EXIT_OK) {
		(void)policy_hold_look(&h, a->json ? &json : NULL, true, why);
	} else {
		fflush(stdout);
		fprintf(stderr, "EXIT: %s\n", why);
	}
	policy_hold_end(&h);
	return code;
}

int policy_load(const struct policy_args *a)
{
	unsigned char *object;
	size_t size;
	struct rbt_msg_result result;
	char *log = NULL;

	if (a->is_foreground) {
		return load_foreground(a);
	}
	if (a->json) {
		return usage_error(&cmd_policy, "load: --json needs --foreground");
	}
	int code = policy_read_file(&cmd_policy, a->choice.file, &object, &size);
	if (code != EXIT_OK) {
		return code;
	}
	int sock = daemon_start();
	if (sock < 0) {
		rbt_error("policy: %s", daemon_start_error(sock));
		free(object);
		return EXIT_FAILED;
	}
	int r = policy_send_load(sock, &a->choice, 0, object, size, &result, &log);
	if (r < 0 || result.error < 0) {
		code = policy_failed(&cmd_policy, a->choice.file, r, &result);
		policy_print_log(log);
	} else if (result.text[0] != '\0') {
		printf("%s: %s\n", a->choice.file, result.text);
	}
	free(log);
	free(object);
	rbt_close(&sock);
	return code;
}

int policy_unload(const struct policy_args *a)
{
	struct rbt_msg_result result;
	int sock = policy_connect();
	int r = sock < 0 ? sock : policy_send_unload(sock, 0, &result);

	rbt_close(&sock);
	return r < 0 || result.error < 0 ? policy_failed(&cmd_policy, "unload", r, &result)
					 : EXIT_OK;
}
