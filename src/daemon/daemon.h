/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside rubatod: the model of the programs there are, how each is to be treated, and what was
 * applied to it.
 *
 * Events change the model and mark it dirty; the loop then calls reconcile(), which tells the
 * decision core and carries out its decisions. So there is one path for a new program, a renice, a
 * lost hand and a restart. Time that passes and programs that become busy go to the core alone
 * (schedule.c), and only what it changes is carried out (apply.c).
 *
 * Each part keeps its state in a struct of its own header; struct daemon has them all.
 */
#ifndef RBT_DAEMON_DAEMON_H
#define RBT_DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "act/holding.h"
#include "backend/gpus.h"
#include "daemon/attach/adopt.h"
#include "daemon/events.h"
#include "daemon/gate.h"
#include "daemon/gpulock.h"
#include "daemon/handlink.h"
#include "daemon/loop.h"
#include "daemon/metrics/accounting.h"
#include "daemon/options.h"
#include "daemon/park/park.h"
#include "daemon/peers/crowd.h"
#include "daemon/peers/owners.h"
#include "daemon/peers/porter.h"
#include "daemon/peers/rights.h"
#include "daemon/peers/server.h"
#include "daemon/peers/waiting.h"
#include "daemon/policy/manager.h"
#include "daemon/program.h"
#include "daemon/run.h"
#include "daemon/schedule.h"
#include "daemon/survive/byhand.h"
#include "daemon/survive/home.h"
#include "daemon/survive/keeper.h"
#include "daemon/survive/state.h"
#include "daemon/trace.h"

struct metrics;

struct daemon {
	/* The loop. */
	int epoll_fd;
	struct source signals, timer;
	struct source alive_timer; /* for the service manager */
	bool stop, is_ticking;
	uint64_t idle_since_ns;

	/* The model. */
	LIST_HEAD(, program) programs;
	struct rbt_holdings mine; /* with fds of our own, to restore with if the hand dies */
	uint32_t next_holding_id;
	uint64_t last_group;            /* ids of groups are never used again */
	struct rbt_gpu_table gpu_table; /* gives each GPU its index */
	bool dirty;                     /* reconcile() is to be called */
	uint64_t retry_ns;              /* when to reconcile again; 0: when something happens */
	LIST_HEAD(, program) pending;   /* apply.c: their decisions are to be carried out */
	uint64_t kick_ns; /* when to check whether resumed programs do run; UINT64_MAX: never */

	/* The parts. */
	struct options options;
	struct schedule sched;
	struct events events;
	struct gates gates;
	struct policies policy;
	struct handlink hand;
	struct gpulocks locks;
	struct control_server server;
	struct waiting waiting;
	struct crowd crowd;
	struct porters porters;
	struct owners owners;
	struct runs runs;
	struct admins admins;
	struct home home;
	struct keeper keeper;
	struct statefile state;
	struct byhand byhand;
	struct parking parking;
	struct adoption adopt;
	struct trace trace;
	struct gpu_account gpu_accounts[RBT_MAX_GPUS];
	struct metrics *metrics; /* NULL: none are served */
};

#endif
