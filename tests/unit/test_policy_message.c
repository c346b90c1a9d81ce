/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about policies: what was encoded is decoded, and anything cut, grown or contradictory is
 * refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "proto/policy.h"

static char buf[RBT_MSG_MAX];

/* A copy on the heap, so that the address sanitizer sees reads behind its end. */
static char *copy(size_t size)
{
	char *p = malloc(size > 0 ? size : 1);

	memcpy(p, buf, size);
	return p;
}

static size_t encode_load(size_t n_settings)
{
	struct rbt_policy_load load = {
		.engine = RBT_POLICY_VM,
		.flags = RBT_POLICY_FOREGROUND,
		.label = "lc_be.bpf.o",
		.n_settings = n_settings,
	};

	for (size_t i = 0; i < n_settings && i < RBT_POLICY_MAX_SETTINGS; i++) {
		load.settings[i] = "limit=12";
	}
	ssize_t n = rbt_policy_load_encode(&load, buf, sizeof(buf));
	CHECK(n > 0);
	CHECK_INT(rbt_policy_load_encode(&load, buf, (size_t)n - 1), -EMSGSIZE);
	CHECK_INT(rbt_policy_load_encode(&load, buf, (size_t)n), n);
	return (size_t)n;
}

static void test_load(void)
{
	struct rbt_policy_load load;
	size_t n = encode_load(2);

	CHECK_INT(rbt_policy_load_decode(buf, n, &load), 0);
	CHECK_INT(load.engine, RBT_POLICY_VM);
	CHECK_INT(load.flags, RBT_POLICY_FOREGROUND);
	CHECK(strcmp(load.label, "lc_be.bpf.o") == 0);
	CHECK_INT(load.n_settings, 2);
	CHECK(strcmp(load.settings[1], "limit=12") == 0);
	CHECK_INT(rbt_policy_load_decode(buf, encode_load(0), &load), 0);
	CHECK_INT(load.n_settings, 0);
	struct rbt_policy_load many = {.label = "", .n_settings = RBT_POLICY_MAX_SETTINGS + 1};
	CHECK_INT(rbt_policy_load_encode(&many, buf, sizeof(buf)), -E2BIG);
}

/* Writes a number into the message and tries to decode it. */
static int decode_with(size_t n, size_t offset, uint32_t value)
{
	struct rbt_policy_load load;

	memcpy(buf + offset, &value, sizeof(value));
	char *p = copy(n);
	int r = rbt_policy_load_decode(p, n, &load);
	free(p);
	return r;
}

static void test_load_refusals(void)
{
	struct rbt_policy_load load;
	size_t n = encode_load(3);

	for (size_t cut = 0; cut < n; cut++) {
		char *p = copy(cut);
		CHECK_INT(rbt_policy_load_decode(p, cut, &load), -EBADMSG);
		free(p);
	}
	buf[n] = '\0';
	CHECK_INT(rbt_policy_load_decode(buf, n + 1, &load), -EBADMSG);
	CHECK_INT(decode_with(encode_load(3), offsetof(struct rbt_msg_policy_load, engine),
			  RBT_POLICY_N_ENGINES),
		-EBADMSG);
	CHECK_INT(
		decode_with(encode_load(3), offsetof(struct rbt_msg_policy_load, flags), 1u << 31),
		-EBADMSG);
	CHECK_INT(decode_with(encode_load(3), offsetof(struct rbt_msg_policy_load, n_settings), 4),
		-EBADMSG);
	CHECK_INT(decode_with(encode_load(3), offsetof(struct rbt_msg_policy_load, n_settings),
			  UINT32_MAX),
		-EBADMSG);
	n = encode_load(3);
	memset(buf + offsetof(struct rbt_msg_policy_load, label), 'x', RBT_POLICY_LABEL_SIZE);
	CHECK_INT(rbt_policy_load_decode(buf, n, &load), -EBADMSG);
}

static void test_entry(void)
{
	struct rbt_policy_entry entry = {
		.op = RBT_POLICY_MAP_SET,
		.load = 7,
		.map = 3,
		.key = "key",
		.key_size = 3,
		.value = "value",
		.value_size = 5,
	};
	struct rbt_policy_entry got;
	ssize_t n = rbt_policy_entry_encode(&entry, buf, sizeof(buf));

	CHECK_INT(n, (ssize_t)sizeof(struct rbt_msg_policy_map) + 8);
	CHECK_INT(rbt_policy_entry_encode(&entry, buf, (size_t)n - 1), -EMSGSIZE);
	CHECK_INT(rbt_policy_entry_decode(buf, (size_t)n, &got), 0);
	CHECK_INT(got.op, RBT_POLICY_MAP_SET);
	CHECK_INT(got.load, 7);
	CHECK_INT(got.map, 3);
	CHECK(got.key_size == 3 && memcmp(got.key, "key", 3) == 0);
	CHECK(got.value_size == 5 && memcmp(got.value, "value", 5) == 0);
	for (size_t cut = 0; cut < (size_t)n; cut++) {
		char *p = copy(cut);
		CHECK_INT(rbt_policy_entry_decode(p, cut, &got), -EBADMSG);
		free(p);
	}
	CHECK_INT(rbt_policy_entry_decode(buf, (size_t)n + 1, &got), -EBADMSG);
	uint32_t huge = UINT32_MAX;
	memcpy(buf + offsetof(struct rbt_msg_policy_map, value_size), &huge, sizeof(huge));
	CHECK_INT(rbt_policy_entry_decode(buf, (size_t)n, &got), -EBADMSG);
	entry.value_size = RBT_POLICY_ENTRY_MAX;
	CHECK_INT(rbt_policy_entry_encode(&entry, buf, sizeof(buf)), -EMSGSIZE);
	struct rbt_policy_entry first = {.op = RBT_POLICY_MAP_NEXT};
	n = rbt_policy_entry_encode(&first, buf, sizeof(buf));
	CHECK_INT(rbt_policy_entry_decode(buf, (size_t)n, &got), 0);
	CHECK(got.key == NULL && got.value == NULL);
}

static void test_names(void)
{
	CHECK(strcmp(rbt_policy_engine_name(RBT_POLICY_VM), "vm") == 0);
	CHECK(strcmp(rbt_policy_engine_name(RBT_POLICY_N_ENGINES), "unknown") == 0);
	CHECK(strcmp(rbt_policy_state_name(RBT_POLICY_EJECTED), "ejected") == 0);
	CHECK(strcmp(rbt_policy_state_name(UINT32_MAX), "unknown") == 0);
}

int main(void)
{
	test_load();
	test_load_refusals();
	test_entry();
	test_names();
	return check_result();
}
