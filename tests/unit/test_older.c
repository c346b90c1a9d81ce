/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of shims of version 0.1.0 become treatments; wrong ones are refused. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "daemon/peers/older.h"
#include "proto/protocol.h"

static struct rbt_treatment t;
static uint64_t loaded_ns;
static bool is_hello;

struct hello {
	uint32_t magic, type, priority, force;
	uint64_t timeslice_us, loaded_ns;
};

static int decode(const void *msg, size_t size)
{
	return older_decode(msg, size, &t, &is_hello, &loaded_ns);
}

static void check_text(const char *expected)
{
	char text[RBT_TREAT_TEXT_MAX];

	rbt_treatment_print(&t, text, sizeof(text));
	CHECK(strcmp(text, expected) == 0);
}

static void test_hello(void)
{
	struct hello msg = {RBT_PROTOCOL_MAGIC, RBT_MSG_HELLO, 3, 0, 50, 7};

	CHECK_INT(decode(&msg, 32), 0);
	check_text("priority=3,timeslice_us=50");
	CHECK(is_hello && loaded_ns == 7 && t.reset == RBT_TREAT_BIT(FORCE));
	CHECK_INT(decode(&msg, 24), 0); /* the first ones end there */
	CHECK(is_hello && loaded_ns == 0);
	msg.timeslice_us = 0;
	msg.force = 1;
	CHECK_INT(decode(&msg, 32), 0);
	check_text("priority=3,force=1");
	CHECK_INT(t.reset, RBT_TREAT_BIT(TIMESLICE));
	CHECK_INT(decode(&msg, 31), -EBADMSG);
	CHECK_INT(decode(&msg, 16), -EBADMSG);
	msg.timeslice_us = (UINT64_C(1) << 32) + 50;
	CHECK_INT(decode(&msg, 32), -EBADMSG);
	msg.timeslice_us = 0;
	msg.priority = 16;
	CHECK_INT(decode(&msg, 32), -EBADMSG);
}

static void test_weight_and_limits(void)
{
	uint32_t msg[4] = {RBT_PROTOCOL_MAGIC, RBT_MSG_WEIGHT, 5, 0};

	CHECK_INT(decode(msg, sizeof(msg)), 0);
	check_text("weight=5");
	CHECK(!is_hello && t.reset == 0);
	msg[2] = 0;
	CHECK_INT(decode(msg, sizeof(msg)), -EBADMSG);
	msg[2] = 1001;
	CHECK_INT(decode(msg, sizeof(msg)), -EBADMSG);
	msg[1] = RBT_MSG_LIMITS;
	msg[3] = UINT32_MAX;
	CHECK_INT(decode(msg, sizeof(msg)), 0);
	check_text("max_reserve_ms=1001,min_share=0.0");
	msg[2] = 0;
	msg[3] = 25;
	CHECK_INT(decode(msg, sizeof(msg)), 0);
	check_text("max_reserve_ms=default,min_share=2.5");
	msg[3] = 101;
	CHECK_INT(decode(msg, sizeof(msg)), -EBADMSG);
	CHECK_INT(decode(msg, sizeof(msg) - 1), -EBADMSG);
}

static void test_group(void)
{
	struct {
		uint32_t magic, type;
		char name[64];
	} msg = {RBT_PROTOCOL_MAGIC, RBT_MSG_GROUP, "torch:1.2"};

	CHECK_INT(decode(&msg, sizeof(msg)), 0);
	check_text("group=torch:1.2");
	CHECK_INT(decode(&msg, sizeof(msg) - 1), -EBADMSG);
	msg.name[0] = '\0';
	CHECK_INT(decode(&msg, sizeof(msg)), -EBADMSG);
	memset(msg.name, 'a', sizeof(msg.name));
	CHECK_INT(decode(&msg, sizeof(msg)), -EBADMSG);
	msg.name[63] = '\0';
	CHECK_INT(decode(&msg, sizeof(msg)), 0);
	msg.name[9] = ' ';
	CHECK_INT(decode(&msg, sizeof(msg)), -EBADMSG);
}

int main(void)
{
	test_hello();
	test_weight_and_limits();
	test_group();
	return check_result();
}
