/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand's end of the way to an agent inside a program (proto/agent.h). The record is one with
 * RBT_RECORD_AGENT, its file a socket that a program has given us: it may be slow, stopped, or not
 * mean well, so nobody waits for it for long, and not again before it has answered something.
 *
 * 0 or -errno; -ENOENT: nobody is at the other end any more, -ETIMEDOUT: no answer.
 */
#ifndef RBT_BACKEND_AMD_LINK_H
#define RBT_BACKEND_AMD_LINK_H

#include "backend/record.h"
#include "proto/agent.h"

int rbt_amd_link_suspend(const struct rbt_record *rec, uint32_t kinds);
int rbt_amd_link_resume(const struct rbt_record *rec, uint32_t kinds);
int rbt_amd_link_preempt(const struct rbt_record *rec, uint32_t queue);

/* Not waited for. */
int rbt_amd_link_tell(const struct rbt_record *rec, enum rbt_agent_op op, uint64_t value);

/* 0 when the record's file can be such a way. */
int rbt_amd_link_check(const struct rbt_record *rec);

#endif
