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
#include "daemon/gpulock.h"
#include "daemon/handlink.h"
#include "daemon/loop.h"
#include "daemon/metrics/accounting.h"
#include "daemon/peers/crowd.h"
#include "daemon/peers/owners.h"
#include "daemon/peers/porter.h"
#include "daemon/peers/rights.h"
#include "daemon/peers/server.h"
#include "daemon/program.h"
#include "daemon/schedule.h"
#include "daemon/survive/byhand.h"
#include "daemon/survive/home.h"
#include "daemon/survive/keeper.h"
#include "daemon/survive/state.h"

struct metrics;

struct daemon {
	int epoll_fd;
	struct source signals, timer;
	struct source alive_timer; /* for the service manager */
	bool is_kept;              /* a keeper is wanted */
	uint32_t n_hinted;         /* programs with an open request, whose end is looked for */
	bool hints_changed;
	uint64_t hint_look_ns; /* when that is to be done next; UINT64_MAX: not at all */
	uint64_t rouse_ns;     /* when to look whether those let back do run; UINT64_MAX: never */
	struct rbt_sched *sched;
	struct rbt_board_waiter *waiter;
	bool is_system; /* of the whole machine, rather than of one user */
	bool dirty, stop, is_ticking;
	uint64_t idle_exit_ns, idle_since_ns;
	uint32_t next_hold_id;
	struct rbt_holdings mine; /* with fds of our own: what we restore by when the hand dies */
	struct rbt_gpu_table gpu_table; /* gives GPUs the index that all else here goes by */
	struct gpu_account gpu_accounts[RBT_MAX_GPUS];
	uint64_t retry_ns;   /* when to reconcile again; 0: when something happens */
	uint64_t last_group; /* so many that none is ever used again */
	struct rbt_sched_config config;
	struct rules rules;
	uint32_t scan_ms;
	bool scan_is_exact; /* as it was configured, whatever it costs */
	struct source scan, scan_timer;
	pid_t scan_pid;                 /* 0: nobody looks */
	struct scan_report scan_report; /* the one that records are awaited of */
	uint32_t scan_records;          /* that are still to come */
	bool scan_looks;                /* at scan_report's process, as it said */
	uint64_t scan_heard_ns;         /* when it last said something */
	struct rbt_lost lost;
	uint64_t scan_not_before_ns;
	LIST_HEAD(, sighting) sightings[SIGHTING_LISTS]; /* by pid */
	const char *config_path;                         /* as said; NULL: where it is by default */
	const char *metrics_at;                 /* as said; NULL: as the configuration has it */
	const char *max_reserve_ms, *min_share; /* the same */
	struct metrics *metrics;                /* NULL: none are served */
	LIST_HEAD(, program) programs;
	LIST_HEAD(, program) pending;
	struct control_server server;
	struct crowd crowd;
	struct porters porters;
	struct owners owners;
	struct admins admins;
	struct home home;
	struct keeper keeper;
	struct statefile state;
	struct byhand byhand;
	struct handlink hand;
	struct gpulocks locks;
};

#endif
