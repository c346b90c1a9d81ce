/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever text says how to treat a program, what is taken of it is within range, and printed it
 * says the same again. Whatever bytes arrive as a treatment, or from a shim of version 0.1.0, the
 * same. */
#include <stdlib.h>
#include <string.h>

#include "daemon/peers/older.h"
#include "proto/protocol.h"
#include "proto/treatment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require_sound(const struct rbt_treatment *t)
{
	char why[RBT_TREAT_WHY_MAX] = "";

	if (rbt_treatment_check(t, why) < 0 || t->size != sizeof(*t) || (t->said & t->reset) != 0) {
		abort();
	}
}

static void try_text(const char *text)
{
	char why[RBT_TREAT_WHY_MAX] = "", printed[RBT_TREAT_TEXT_MAX];
	struct rbt_treatment t = RBT_TREATMENT_INIT, again = RBT_TREATMENT_INIT;

	rbt_treatment_parse(&t, text, why);
	require_sound(&t);
	if (strlen(why) >= sizeof(why) ||
		rbt_treatment_print(&t, printed, sizeof(printed)) >= sizeof(printed)) {
		abort();
	}
	why[0] = '\0';
	rbt_treatment_parse(&again, printed, why);
	if (why[0] != '\0' || memcmp(&t, &again, sizeof(t)) != 0) {
		abort();
	}
}

static void try_bytes(const uint8_t *data, size_t size)
{
	struct rbt_treatment t, merged = RBT_TREATMENT_INIT, again;

	if (rbt_treatment_decode(data, size, &t) < 0) {
		return;
	}
	require_sound(&t);
	rbt_treatment_merge(&merged, &t);
	if (rbt_treatment_decode(&t, sizeof(t), &again) < 0 || memcmp(&t, &again, sizeof(t)) != 0 ||
		memcmp(&t, &merged, sizeof(t)) != 0) {
		abort();
	}
}

static void try_older(const uint8_t *data, size_t size)
{
	struct rbt_treatment t;
	uint64_t loaded_ns;
	bool is_hello;

	/* The caller has looked at the header. */
	if (size >= sizeof(struct rbt_msg_header) &&
		older_decode(data, size, &t, &is_hello, &loaded_ns) == 0) {
		require_sound(&t);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (text != NULL) {
		memcpy(text, data, size);
		text[size] = '\0';
		try_text(text);
	}
	free(text);
	try_bytes(data, size);
	try_older(data, size);
	return 0;
}
