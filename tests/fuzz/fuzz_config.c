/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the configuration file holds, it is refused with its line, or its rules can be asked.
 * The input is the file, and after a NUL what is known of a program. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config config;
	char why[256] = "";
	const uint8_t *end = memchr(data, '\0', size);
	size_t n = end != NULL ? (size_t)(end - data) : size;
	char text[256] = "";
	FILE *f = n > 0 ? fmemopen((void *)data, n, "r") : NULL;

	if (f == NULL) {
		return 0;
	}
	if (end != NULL) {
		size_t rest = size - n - 1 < sizeof(text) - 1 ? size - n - 1 : sizeof(text) - 1;
		memcpy(text, end + 1, rest);
	}
	int r = config_parse(f, "fuzz", &config, why, sizeof(why));
	fclose(f);
	if (r < 0) {
		if (r == -EINVAL && strncmp(why, "fuzz:", 5) != 0) {
			abort();
		}
		return 0;
	}
	struct rule_facts facts = {
		.uid = 1,
		.user = text,
		.groups = text,
		.exe = text,
		.argv0 = text,
		.args = text,
		.cgroups = text,
	};
	const struct rule *rule = rules_match(&config.rules, &facts);
	if (rule != NULL &&
		(rule < config.rules.list || rule >= config.rules.list + config.rules.n)) {
		abort();
	}
	config_finish(&config);
	return 0;
}
