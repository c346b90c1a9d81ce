/* SPDX-License-Identifier: Apache-2.0 */
/* A KFD of the test's making below the shim's world (test_shim_world.h): what it has of each queue,
 * a program that makes and sets queues, and the daemon's end of the way to the agent. */
#ifndef RBT_TESTS_UNIT_TEST_AGENT_WORLD_H
#define RBT_TESTS_UNIT_TEST_AGENT_WORLD_H

#include "proto/agent.h"
#include "test_shim_world.h"

#define GPU_ID 28851u
#define RING   0x10000u
/* The driver does not take it. */
#define BAD_RING 0xbad000u

/* What the driver has. */
struct agent_driver {
	struct kfd_update_queue set[KFD_MAX_QUEUES];
	bool there[KFD_MAX_QUEUES];
	unsigned n_updates; /* by the agent */
	bool agent_acts;
	int fail_errno;
	void (*during)(uint32_t id);
};
extern struct agent_driver driver;
/* Each queue's write and read pointer. */
extern uint64_t pointers[2 * KFD_MAX_QUEUES];

/* The driver, for world.kfd_call; and the world with it and a daemon, its clock stopped. */
int driver_call(int fd, unsigned long request, void *arg);
void start(void);

/* What the program does. */
uint32_t make_queue(uint32_t type);
int destroy_queue(uint32_t id);
int set_queue(uint32_t id, uint64_t ring, uint32_t percentage, uint32_t priority);

/* The agent's turn; when it wants the next. */
uint64_t step(void);

/* Our end of the way to the agent: what came with the first record. */
int await_link(void);
/* What is answered; 1: nothing. */
int answer_of(int link);
/* Says it, and returns what is answered; 1: nothing. */
int say(int link, uint32_t op, uint32_t kinds, uint64_t value);
int suspend(int link, uint32_t kinds);

bool is_off(uint32_t id);

#endif
