/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever names cgroups have, what is found in them can be printed as a label, and a path that
 * consists of it alone says the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "util/cgroup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require_plain(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	REQUIRE(n < size && strspn(text, "0123456789abcdef-") == n);
	for (; n < size; n++) {
		REQUIRE(text[n] == '\0'); /* places are compared and sent as bytes */
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rbt_place p, again;
	char clean[512], *text = malloc(size + 1);

	if (text == NULL) {
		return 0;
	}
	memcpy(text, data, size);
	text[size] = '\0';
	rbt_place_parse(text, &p);
	require_plain(p.container_id, sizeof(p.container_id));
	require_plain(p.pod_uid, sizeof(p.pod_uid));
	require_plain(p.slurm_job, sizeof(p.slurm_job));
	snprintf(clean, sizeof(clean), "0::/slurm%s%s%s%s/%s\n", p.slurm_job[0] ? "/job_" : "",
		p.slurm_job, p.pod_uid[0] ? "/pod" : "", p.pod_uid, p.container_id);
	rbt_place_parse(clean, &again);
	REQUIRE(memcmp(&p, &again, sizeof(p)) == 0);
	free(text);
	return 0;
}
