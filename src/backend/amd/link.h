/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand's end of the socket to an agent inside a program (proto/agent.h). The record has
 * RBT_RECORD_AGENT, and its file is a socket that the program has sent. The program may be slow,
 * stopped or hostile. So waits are short, and an agent that has not answered is not waited for
 * again until it has sent something.
 *
 * 0 or -errno; -ENOENT: the other end is closed, -ETIMEDOUT: no answer.
 */
#ifndef RBT_BACKEND_AMD_LINK_H
#define RBT_BACKEND_AMD_LINK_H

#include "backend/record.h"
#include "proto/agent.h"

int rbt_amd_link_suspend(const struct rbt_record *rec, uint32_t kinds);
int rbt_amd_link_resume(const struct rbt_record *rec, uint32_t kinds);
int rbt_amd_link_preempt(const struct rbt_record *rec, uint32_t queue);
/* The same for one queue; it is off as long as it is held, whatever happens to its kind. */
int rbt_amd_link_hold(const struct rbt_record *rec, uint32_t queue);
int rbt_amd_link_release(const struct rbt_record *rec, uint32_t queue);

/* Suspends last until deadline_ns, by the hand's clock. The agent ends them a little later, because
 * the hand must be the first to notice: it reports to the daemon that a suspend has ended, and the
 * agent does not. Does not wait. */
int rbt_amd_link_renew(const struct rbt_record *rec, uint64_t deadline_ns);

/* Sends an order without waiting for the answer. */
int rbt_amd_link_tell(const struct rbt_record *rec, enum rbt_agent_op op, uint64_t value);

/* 0 if the record's file can be such a socket. */
int rbt_amd_link_check(const struct rbt_record *rec);

#endif
