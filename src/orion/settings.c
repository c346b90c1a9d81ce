/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orion/client.h"
#include "orion/policy.h"

#define MAX_SMS 9999 /* more than any GPU has */

static void wrong(const char *name, const char *value, const char *wanted)
{
	fprintf(stderr, "rubato: orion: %s=%.64s is ignored: it must be %s\n", name, value, wanted);
}

/* A decimal index below n, and what follows it. False: there is none. */
static bool parse_index(const char **text, int n, int *ret)
{
	char *end;

	if (!isdigit((unsigned char)**text)) {
		return false;
	}
	unsigned long value = strtoul(*text, &end, 10);
	*text = end;
	*ret = (int)value;
	return value < (unsigned long)n;
}

/* Indices with commas between them, as bits. */
static bool parse_set(const char *text, int n, uint64_t *ret)
{
	uint64_t set = 0;
	int i;

	do {
		if (!parse_index(&text, n, &i)) {
			return false;
		}
		set |= UINT64_C(1) << i;
	} while (*text++ == ',');
	*ret = set;
	return text[-1] == '\0';
}

void orion_settings_read(int n_clients, struct orion_config *ret)
{
	const char *hp = getenv("RUBATO_ORION_HP"), *others = getenv("RUBATO_ORION_OTHERS");
	const char *policy = getenv("RUBATO_ORION_POLICY"), *rest = others;
	const char *partition = getenv("RUBATO_ORION_PARTITION"), *behind = partition;
	uint64_t hp_clients = 1;
	int idx, sms;

	if (hp != NULL && !parse_set(hp, n_clients, &hp_clients)) {
		wrong("RUBATO_ORION_HP", hp, "indices of clients with commas between them");
	}
	*ret = (struct orion_config){.n_clients = n_clients,
		.hp_clients = hp_clients,
		.others = -1,
		.policy = orion_policy_find("hold")};
	if (others != NULL && parse_index(&rest, n_clients, &idx) && *rest == '\0') {
		ret->others = idx;
	} else if (others != NULL) {
		wrong("RUBATO_ORION_OTHERS", others, "the index of a client");
	}
	const struct orion_policy *found = policy != NULL ? orion_policy_find(policy) : NULL;
	if (found != NULL) {
		ret->policy = found;
	} else if (policy != NULL) {
		wrong("RUBATO_ORION_POLICY", policy, "hold or priority");
	}
	if (partition != NULL && parse_index(&behind, MAX_SMS + 1, &sms) && *behind == '\0' &&
		sms > 0) {
		ret->partition_sms = (uint32_t)sms;
	} else if (partition != NULL) {
		wrong("RUBATO_ORION_PARTITION", partition, "a number of SMs");
	}
}
