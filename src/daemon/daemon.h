/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside rubatod: the model of who is there, what they want, and what they have.
 *
 * What comes and goes changes the model and marks it dirty; the loop then calls reconcile(), which
 * tells the decision core and carries out what it decides. So there is one path for a new program,
 * a renice, a lost hand and a restart. Time that passes and programs that become busy go to the
 * core alone (schedule.c), and only what it changes is carried out (apply.c).
 */
#ifndef RBT_DAEMON_DAEMON_H
#define RBT_DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "act/holding.h"
#include "backend/gpus.h"
#include "board/board.h"
#include "board/waiter.h"
#include "daemon/attach/rules.h"
#include "daemon/attach/scan.h"
#include "daemon/doubt.h"
#include "daemon/metrics/account.h"
#include "proto/protocol.h"
#include "sched/core.h"

struct daemon;
struct metrics;

/* Something the loop watches. */
struct source {
	int fd;
	void (*ready)(struct daemon *d, struct source *s, uint32_t events);
};

/* Whom what is taken in is charged to; crowd.c's own. */
struct user;

/* A connection: a shim inside a program, or a tool. */
struct peer {
	struct source source;
	struct source porter; /* porter.c: through which its messages come meanwhile; -1: none */
	pid_t porter_pid;
	uint64_t heard_ns; /* when its porter last said something */
	pid_t pid;
	int pidfd; /* of who connected, whatever becomes of the number; -errno: not to be had */
	uid_t uid;
	struct user *user;
	uint64_t spent_ns;      /* crowd.c: of our time */
	uint64_t not_before_ns; /* crowd.c: it is put off until then */
	bool is_paused;
	LIST_ENTRY(peer) paused;
	bool is_admin;              /* root, or of the group that may raise */
	struct program *program;    /* the one it speaks for; NULL for tools */
	struct program *attached;   /* what a tool attached and may still say what it wants of */
	unsigned answer_priority;   /* of what a tool last reniced */
	struct rbt_treatment asked; /* what a shim wants for its program */
	bool is_older;              /* a shim of version 0.1.0 */
	LIST_ENTRY(peer) link;
};

/* One client of a program: a record held by us and by the hand. What was applied to it is in
 * mine->applied, and nowhere else. */
struct hold {
	uint32_t id;
	struct rbt_holding *mine; /* in the daemon's table */
	struct program *program;
	uint32_t backend, client;
	bool in_hand; /* the hand has the current record */
	/* What is wanted is to be said again, even if it was applied: the record names tasks that
	 * have not heard of it, or the hand or the driver has undone or refused some of it. */
	bool stale;
	bool refused;   /* the driver refused it something: said again with the next change */
	bool is_beyond; /* it has a task on a GPU without an index: too many have one */
	uint64_t new_since_ns;   /* its program is setting up a task; 0: not */
	uint64_t watch_retry_ns; /* its queues could not be looked at: not before this */
	int board_fd;            /* where that goes, if it is not the program's own; -1 */
	LIST_ENTRY(hold) link;
};

struct program {
	struct source pidfd;
	pid_t pid;
	uint64_t start_time;
	uid_t uid;         /* when it came; see program_owner() */
	struct user *user; /* who pays for it */
	uint32_t n_holds;
	bool has_more;              /* clients than we take in */
	struct peer *peer;          /* its shim; NULL when attached from outside */
	bool awaited;               /* `rubato run` became it, and its shim has not spoken yet */
	struct rbt_treatment treat; /* how it is to be treated */
	/* Keys that a user with the right to raise has said. PRIORITY among them means that the
	 * program may have a reserve, and slices longer than the driver's. */
	uint32_t granted;
	uint32_t refused;         /* keys for which it wants more than its user may have */
	uint64_t group;           /* whose turns it shares, for the core; 0: nobody's */
	bool group_is_shared;     /* between users: said by a rule */
	char rule[RULE_NAME_MAX]; /* which is why it was attached; empty: none */
	bool suspended;
	uint64_t resume_at_ns; /* 0: until resumed */
	int error;             /* of the last action on it that failed */
	enum rbt_denial denial;
	struct rbt_board *board; /* what it counts itself; NULL: nothing is known of that */
	struct rbt_board_watch board_watch; /* of rbt_board_look() */
	bool board_is_new;                  /* the core has not heard of it */
	uint32_t gaps[RBT_BOARD_GAPS];      /* as the core knows them */
	uint64_t edge_gap_ns;               /* the one it has seen for itself; 0: none */
	bool has_open_request;              /* as its board says */
	bool is_hinted;                     /* as the core was told */
	bool awaits_end;                    /* its board wakes us when its requests have ended */
	bool awaits_sync;                   /* and when a synchronisation returns */
	uint64_t request_deadline_ns;       /* 0: none */
	uint64_t hinted_ns;                 /* since when */
	struct rbt_sched_prog *sched;       /* what the core has of it; NULL: nothing yet */
	struct rbt_sched_params params;     /* as told to the core */
	uint64_t no_turns_until_ns;         /* the driver refused to take it off */
	struct doubt doubt;                 /* whether it runs when it was let back */
	unsigned released; /* edge.c: RBT_IS_*, of holds that were released since */
	struct account account;
	char name[64]; /* for metrics, as of named_ns; 0: not looked up yet */
	uint64_t named_ns;
	bool is_pending; /* apply.c: a decision is to be carried out */
	LIST_HEAD(, hold) holds;
	LIST_ENTRY(program) link;
	LIST_ENTRY(program) pending;
};

struct said;

#define SIGHTING_LISTS 64
/* A process that had a GPU's control node open when it was last looked at; adopt.c. */
struct sighting {
	pid_t pid;
	uint64_t start_time;
	uint32_t n_files; /* control nodes, when it was looked at */
	unsigned tries;   /* in vain */
	uint64_t next_ns; /* when to look again for tasks; UINT64_MAX: without a reason, not */
	bool is_stale;    /* the rules or the program have changed */
	bool is_seen;     /* in the look that is under way */
	bool is_said;     /* why it cannot be attached */
	LIST_ENTRY(sighting) link;
};

/* A program that a previous daemon left changed and that we have not reached yet; state.c's own. */
struct unhealed;

/* What the programs on a GPU have had, those that have gone included: sums over programs. */
struct gpu_account {
	bool had_programs, had_known;
	uint64_t used_ns; /* of those whose idleness is known */
	uint64_t reserved_ns;
	uint64_t n_switches; /* times one that was kept off was let on */
};

/* Numbers that belong to a user besides their own; owners.c. */
struct owner {
	uid_t first, last, uid;
};

/* Connections that wait for a process to close them. */
#define DOOMED_MAX 256

struct daemon {
	int epoll_fd, lock_fd;
	struct source listener, signals, timer, hand;
	struct source alive_timer; /* for the service manager */
	struct source keeper;      /* its pipe; -1: none */
	pid_t keeper_pid;
	bool is_kept;             /* a keeper is wanted */
	uint64_t keeper_retry_ns; /* it has died: another one then; 0: not */
	char *const *argv;        /* how we were started */
	struct source crowd, crowd_timer;
	struct peer *speaker; /* who sent what is being handled; NULL: nobody, or gone since */
	struct user *speaking_user;
	uint64_t spoke_ns;
	uint32_t max_fds, n_fds; /* what there is, and what users have of it */
	uint32_t n_hinted;       /* programs with an open request, whose end is looked for */
	bool hints_changed;
	uint64_t hint_look_ns; /* when that is to be done next; UINT64_MAX: not at all */
	uint64_t rouse_ns;     /* when to look whether those let back do run; UINT64_MAX: never */
	struct rbt_sched *sched;
	struct rbt_board_waiter *waiter;
	int hand_cpu; /* that the hand is to run on; -1: any */
	pid_t hand_pid;
	uint32_t hand_seq;
	uint64_t hand_started_ns;
	uint64_t hand_retry_ns; /* not before this, after it died too often */
	unsigned hand_deaths;
	pid_t dying_hand; /* killed, and not gone yet; 0: none */
	int old_hand_fd;  /* the lock of a hand of a daemon before us that is still at work; -1 */
	uint64_t dying_since_ns; /* of either */
	bool is_system;          /* of the whole machine, rather than of one user */
	bool has_admin_gid;
	gid_t admin_gid;
	char admin_group[32];
	bool dirty, stop, is_ticking;
	bool deaf;        /* no fd was left for a connection: the listener is not watched */
	bool is_homeless; /* the runtime directory was removed, or is another daemon's */
	uint64_t home_look_ns;
	bool state_is_lost,
		byhand_is_lost; /* these files could not be written, and that was said */
	uint64_t lost_said_ns;  /* for line_is_due() */
	char runtime_dir[128], socket_path[160], state_path[160], lock_path[160];
	char hand_lock_path[160]; /* hands share it for as long as they live */
	uint64_t idle_exit_ns, idle_since_ns;
	uint32_t next_hold_id;
	struct rbt_holdings mine; /* with fds of our own: what we restore by when the hand dies */
	struct rbt_gpu_table gpu_table; /* gives GPUs the index that all else here goes by */
	int gpu_locks[RBT_MAX_GPUS];
	int gpu_marks[RBT_MAX_GPUS]; /* where others hold the lock */
	struct rbt_sched_gpus gpus;
	struct gpu_account gpu_accounts[RBT_MAX_GPUS];
	uint64_t retry_ns;   /* when to reconcile again; 0: when something happens */
	uint64_t last_group; /* so many that none is ever used again */
	bool any_off;        /* a suspend may be in force, to be renewed */
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
	LIST_HEAD(, said) said;
	const char *config_path;                /* as said; NULL: where it is by default */
	const char *metrics_at;                 /* as said; NULL: as the configuration has it */
	const char *max_reserve_ms, *min_share; /* the same */
	struct metrics *metrics;                /* NULL: none are served */
	LIST_HEAD(, child) children;            /* porter.c's own */
	int doomed[DOOMED_MAX];
	size_t n_doomed;
	LIST_HEAD(, unhealed) unhealed;
	uint64_t heal_ns; /* when to try again what could not be put back; 0: nothing */
	LIST_HEAD(, user) users;
	struct owner *owners; /* owned */
	size_t n_owners;
	LIST_HEAD(, peer) peers, paused;
	LIST_HEAD(, program) programs;
	LIST_HEAD(, program) pending;
};

/* A suspend ends this long after we last meant it: the hand resumes when we are stopped. */
#define LEASE_NS UINT64_C(2000000000)
/* What did not work is tried again after this. */
#define RETRY_NS UINT64_C(1000000000)
/* A compute task that its program has not said to be ready is, after this. */
#define SETUP_NS UINT64_C(1000000000)
/* Who could not be taken off takes no turns for this long. */
#define NO_TURNS_NS UINT64_C(5000000000)

/* main.c */
int watch(struct daemon *d, struct source *s);
void unwatch(struct daemon *d, struct source *s); /* closes it too */

/* inherit.c: no limit and no ignored signal of whoever has started us is ours */
void inherit_nothing(void);

/* home.c: the runtime directory */
/* 0, or -EBUSY when another daemon serves it, or -errno. */
int home_claim(struct daemon *d);
/* Whether what is there is what we have made there. */
bool home_is_ours(const struct daemon *d);
/* Whether we can still be found: makes it so, or ends in favour of who can. */
void home_tick(struct daemon *d, uint64_t now_ns);

/* server.c: the control socket */
int server_start(struct daemon *d);
/* The same when it was removed; those who are connected stay so. 0 or -errno. */
int server_restart(struct daemon *d);
void server_stop(struct daemon *d);
/* For leaving unasked: false when somebody has come in the meantime. */
bool server_close_door(struct daemon *d);
/* Listens again, if it had to stop. */
void server_listen_again(struct daemon *d);
void peer_destroy(struct daemon *d, struct peer *peer);
/* Handles a message of that size, or its end or error. Takes the files. The peer may be gone
 * afterwards. */
void peer_take(
	struct daemon *d, struct peer *peer, ssize_t size, const void *buf, int *fds, size_t n_fds);

/* porter.c: messages with files are received, and strangers' files closed, by other processes */
/* Has a process receive what the connection brings. 0, also when none can be had just now, or
 * -errno when the peer is to go. */
int porter_call(struct daemon *d, struct peer *peer);
/* Before the peer goes. */
void porter_dismiss(struct daemon *d, struct peer *peer);
/* Closes a socket that strangers could write to, and sets it to -1. */
void porter_close(struct daemon *d, int *fd);
/* Ends what hangs. */
void porter_tick(struct daemon *d);
bool porter_needs_tick(const struct daemon *d);
/* Whether one of its processes is left. */
bool porter_has_user(const struct daemon *d, const struct user *user);
/* A process of ours was killed, and hangs. */
void porter_lose(struct daemon *d, pid_t pid);
void porter_stop(struct daemon *d);

/* borrow.c: a copy of the device file that a record speaks of, taken from its program. An fd, or
 * -errno; -ESRCH when the program has ended or has no device there any more. Waits 2 s at most. */
int borrow_device(struct daemon *d, pid_t pid, uint64_t start_time, const struct rbt_record *rec);

/* crowd.c: those who speak to us share our files and our time. 0 or -errno. */
int crowd_start(struct daemon *d);
void crowd_stop(struct daemon *d);
/* NULL: no memory. Stays while something is charged to it. */
struct user *user_obtain(struct daemon *d, uid_t uid);
/* 0, or -EDQUOT when that is too much, and it has been said. */
int user_charge(struct daemon *d, struct user *u, uint32_t n_fds);
void user_discharge(struct daemon *d, struct user *u, uint32_t n_fds);
/* Whether another line about it may be written to the log. */
bool user_may_be_named(struct user *u);
/* The same of any trouble that may come again and again; *said_ns is zero at first. */
bool line_is_due(uint64_t *said_ns);
/* Charges for a new connection: 0 or -EDQUOT. */
#define RBT_FDS_PER_PEER 2
int crowd_admit(struct daemon *d, struct peer *peer);
/* Listens to it, now or when its user's time has come. 0 or -errno. */
int crowd_welcome(struct daemon *d, struct peer *peer);
/* The other way round, and forgets all about it. */
void crowd_forget(struct daemon *d, struct peer *peer);
/* As watch(), in the set of those who speak. */
int crowd_watch(struct daemon *d, struct source *s);
void crowd_unwatch(struct daemon *d, struct source *s); /* without closing it */
/* It is not listened to for that long. */
void crowd_put_off(struct daemon *d, struct peer *peer, uint64_t for_ns);
/* A message of this peer is handled now; and that was all of it. */
void crowd_speaks(struct daemon *d, struct peer *peer);
void crowd_settle(struct daemon *d);

/* owners.c: whose a user's number is, if not its own */
/* May block. */
void owners_read(struct daemon *d);
uid_t owners_find(const struct daemon *d, uid_t uid);
void owners_forget(struct daemon *d);

/* older.c: messages of shims of version 0.1.0, which do not know TREAT */
/* Turns one of their messages into a treatment. *ret_loaded_ns is only valid for HELLO, and 0 if
 * the shim does not send it. Returns 0 or -EBADMSG. */
int older_decode(const void *buf, size_t size, struct rbt_treatment *ret, bool *ret_is_hello,
	uint64_t *ret_loaded_ns);

/* requests.c: what tools ask. The reply is sent by the function. */
void request_handle(
	struct daemon *d, struct peer *peer, const void *buf, size_t size, int *fds, size_t n_fds);

/* rights.c: who may do what */
/* Looks the group up whose members may do what root may. May block. */
void rights_resolve(struct daemon *d, const char *group);
/* Whether the peer of a connected socket is root or of that group. */
struct ucred;
bool rights_is_admin(const struct daemon *d, int fd, const struct ucred *cred);
/* Whether it may act on programs of `owner`. */
bool may_touch(const struct peer *peer, uid_t owner);
/* As with nice: above normal only for root, the daemon's own user and the group. */
bool may_raise(const struct peer *peer, unsigned priority);
/* Whether these limits are above the configuration's, and above those that it had: a privilege. */
bool limits_take_more(
	const struct daemon *d, const struct rbt_limits *than, const struct rbt_limits *limits);
/* A program's own limits as far as they count now: without a right to them, none above the
 * configuration's. */
struct rbt_limits limits_in_force(const struct daemon *d, const struct program *p);

/* devicefile.c */
/* 0 when the record's fd is its backend's device: such fds get our ioctls. */
int check_device_fd(const struct rbt_record *rec);

/* program.c */
struct program *program_find(struct daemon *d, pid_t pid);
struct program *program_next(struct daemon *d, pid_t after);

/* The user that its process is now, who may renice it: a server may have dropped root's rights
 * since it came. Its group stays its first user's, so that nobody gets into another's by it. */
uid_t program_owner(const struct program *p);

/* Finds or makes the program behind a pidfd (borrowed), which names it for sure, unlike its pid;
 * NULL and *ret_error when it has ended or cannot be watched. The payer is charged for it. */
struct program *program_obtain(
	struct daemon *d, pid_t pid, int pidfd, struct user *payer, int *ret_error);
/* The group it has its turns with, of its user's by that name, or, shared, of all users'; "": none.
 */
void program_set_group(struct daemon *d, struct program *p, bool is_shared, const char *name);
/* Puts back what was changed, then forgets it. */
void program_release(struct daemon *d, struct program *p);
/* Adds or replaces the record of a client. Takes ownership of *rec, also on failure. */
int program_put_record(struct daemon *d, struct program *p, struct rbt_record *rec, bool from_shim);
/* Takes a board in place of the one it had. fd is borrowed. 0 or -errno. */
int program_put_board(struct daemon *d, struct program *p, int fd);
/* What it counts is not known any more. */
void program_drop_board(struct daemon *d, struct program *p);
void program_drop_client(struct daemon *d, struct program *p, uint32_t backend, uint32_t client);
uint64_t program_wanted_us(const struct program *p);

/* allowed.c: what drivers may be told (cap: RBT_CAP_TIMESLICE or RBT_CAP_SUSPEND). A driver that is
 * not known is tried at the first question. */
bool hold_may(const struct rbt_holding *mine, uint32_t cap);
/* Through all of its clients. */
bool program_may(struct daemon *d, const struct program *p, uint32_t cap);
/* Why not, in one line; empty if it may. */
void program_why_not(
	struct daemon *d, const struct program *p, uint32_t cap, char *buf, size_t size);
/* The capability that the program's wishes need and its driver may not be told; 0: none. A latency
 * program needs suspends, of the others. */
uint32_t program_missing_cap(struct daemon *d, const struct program *p);
/* program_may() of all drivers here, for programs still to come: 0, or -EPROTONOSUPPORT and why. */
int drivers_may(uint32_t cap, bool force, char *buf, size_t size);

/* Replaces the program's treatment and its grants. The program keeps its group, and a program that
 * was forced stays forced. */
void program_set_treatment(struct program *p, const struct rbt_treatment *t, uint32_t granted);
/* Whether anything about it differs from an unmanaged program. */
bool program_is_plain(const struct program *p);
/* Whether something of what was done to it is not undone. */
bool program_is_changed(const struct program *p);
/* Whether it has tasks on a GPU that cannot be scheduled, since RBT_MAX_GPUS others are. Such a
 * program is left alone. */
bool program_is_beyond(const struct program *p);
/* Whether a compute task of it is not to be touched yet; and until when, at the latest. */
bool program_is_in_setup(const struct program *p, uint64_t now_ns, uint64_t *ret_until_ns);
/* One that has had its time for that is like any other. */
void program_end_setup(struct daemon *d, struct program *p, uint64_t now_ns);
/* Whether it has tasks that its records do not name. */
bool program_is_partial(struct daemon *d, const struct program *p);
/* Lets go of the clients whose file the program has closed, by exec or otherwise: our copy would
 * keep their memory. */
void program_drop_closed(struct daemon *d, struct program *p);
/* The same for an attached program, which is released with its last client. */
void program_check_attached(struct daemon *d, struct program *p);

/* reconcile.c. 0, or -errno when nothing could be done at all; it is tried again then. */
int reconcile(struct daemon *d);

/* adopt.c: programs that nobody has spoken for are attached by rule */
int adopt_start(struct daemon *d);
/* Takes other rules, and looks at once. Takes ownership of what is in *rules. */
void adopt_configure(struct daemon *d, struct rules *rules, uint32_t scan_ms);
void adopt_stop(struct daemon *d);
/* Before it goes. */
void adopt_released(struct daemon *d, const struct program *p);
struct sighting *adopt_find(const struct daemon *d, pid_t pid, uint64_t start_time);
/* Whether a process that has that many control nodes open now is to be looked at again. */
bool adopt_is_due(
	const struct daemon *d, const struct sighting *k, uint32_t n_files, uint64_t now_ns);

/* schedule.c: what the decision core is told, and when it is asked. 0 or -errno. */
int schedule_start(struct daemon *d);
/* Takes another configuration. */
int schedule_configure(struct daemon *d, const struct rbt_sched_config *config);
void schedule_stop(struct daemon *d);
/* Tells what has changed about a program, if anything. 0 or -errno. */
int schedule_tell(struct daemon *d, struct program *p);
/* Before it goes. */
void schedule_forget(struct daemon *d, struct program *p);
/* Before its board goes. */
void schedule_forget_board(struct daemon *d, struct program *p);
/* After the GPUs' locks or marks have changed. */
void schedule_tell_gpus(struct daemon *d);
/* The name of the policy in force. */
const char *schedule_policy(const struct daemon *d);
/* Whether programs of this priority take turns under it. */
bool schedule_takes_turns(const struct daemon *d, unsigned priority);
/* When the core is to be asked next, if nothing happens; UINT64_MAX: never. */
uint64_t schedule_next(const struct daemon *d);
/* Tells it who has woken, and asks it if that time has come. */
void schedule_run(struct daemon *d);
/* The core does what is due, and counts up to now. */
void schedule_tick(struct daemon *d);

/* activity.c: devices whose queues are looked at, because nobody tells when they have work */
/* Looks as often as it matters now, at all programs' that have such. */
void activity_update(struct daemon *d);
/* Fills in what stands in its queues, where that is known. */
void activity_account(const struct program *p, struct rbt_program_account *account);

/* apply.c: decisions are carried out */
/* Whatever has been decided anew. */
void apply_changes(struct daemon *d);
/* Everything, wherever what was applied differs. */
void apply_all(struct daemon *d);
/* Kept off by turns or by a reserve, and not by command. */
bool program_is_waiting(const struct program *p);

/* edge.c: what has changed since it was last asked for, over all of a program's holds */
struct edge {
	unsigned was, is;    /* RBT_IS_*, of any hold: then and now */
	unsigned gone, back; /* of a hold that was not so then, and of one that is not so now */
};
/* At the end of a round: until the next one, this is "then". */
struct edge edge_take(struct program *p);
/* Before a hold goes. */
void edge_release(struct program *p, struct hold *h);

/* rouse.c: a device may overlook whom it was given back */
/* What is in force for p may have changed. */
void rouse_applied(struct daemon *d, struct program *p, const struct edge *edge, uint64_t now_ns);
/* Looks at those whose time has come: d->rouse_ns. */
void rouse_run(struct daemon *d);

/* accounting.c */
void accounting_start(struct program *p);
/* Before it goes, while the core still knows it. */
void accounting_end(struct daemon *d, struct program *p);
/* Before a new board takes the place of the one it has, if any. */
void accounting_begin_board(struct daemon *d, struct program *p, struct rbt_board *board);
/* Its decision has been carried out. */
void accounting_applied(
	struct daemon *d, struct program *p, const struct edge *edge, uint64_t now_ns);
/* Whether programs are to be looked at now and then, and doing so. */
bool accounting_needs_tick(const struct daemon *d);
void accounting_tick(struct daemon *d);
/* Brings all accounts up to date. */
void accounting_refresh(struct daemon *d);
void accounting_fill(struct daemon *d, struct program *p, struct rbt_program_account *ret);
void accounting_fill_turns(struct daemon *d, struct program *p, struct rbt_program_turns *ret);
void accounting_fill_reserve(struct daemon *d, struct program *p, struct rbt_program_reserve *ret);
/* Why it is not reserved for, to be read by people; empty if it is, or would not be anyway. */
const char *accounting_reserve_note(struct daemon *d, struct program *p);

/* metrics.c: accounts for Prometheus */
/* Serves them there (metrics_check()), and no longer where it did. 0, or -errno when all stays as
 * it was, which has been said. */
int metrics_configure(struct daemon *d, const char *at);
void metrics_stop(struct daemon *d);
/* Whether time runs for somebody who is being served, and dealing with it. */
bool metrics_needs_tick(const struct daemon *d);
void metrics_tick(struct daemon *d);

/* gpulock.c: the locks of the GPUs, as far as they can be had */
void gpulock_init(struct daemon *d);
/* Takes those that are wanted; where another has it, leaves our mark. */
void gpulock_take(struct daemon *d, uint32_t wanted);
/* Gives back those that are not, and takes our marks away. */
void gpulock_drop(struct daemon *d, uint32_t wanted);
/* Looks whether others have left or taken away theirs; marks the model dirty if so. */
void gpulock_check(struct daemon *d);

/* handlink.c: the hand's owner side */
int hand_ensure(struct daemon *d);
int hand_hold(struct daemon *d, struct hold *h);
int hand_drop(struct daemon *d, uint32_t id);
/* Of its compute tasks, or, with runlists, of its copy tasks on these: as RBT_ACT_SET_SLICE. */
int hand_set_slice(struct daemon *d, struct hold *h, uint32_t gpu, uint64_t runlists, uint64_t us);
/* how: not RBT_ON. */
int hand_suspend(struct daemon *d, struct hold *h, enum rbt_off how, uint64_t deadline_ns);
int hand_resume(struct daemon *d, struct hold *h);
/* All but its compute tasks. */
int hand_resume_rest(struct daemon *d, struct hold *h);
int hand_set_level(struct daemon *d, struct hold *h, uint32_t level);
/* Makes the device look at what was let back; done after it has answered. */
int hand_rouse(struct daemon *d, struct hold *h);
/* 0: no more. The board is h->board_fd, if it has one. */
int hand_watch(struct daemon *d, struct hold *h, uint32_t interval_us);
int hand_lock(struct daemon *d, uint32_t gpu, bool keep);
/* Renews every suspend. Returns how many had lapsed, or -errno; *ret_failed: some of what the hand
 * then wanted to restore was refused by the driver. */
int hand_renew(struct daemon *d, uint64_t deadline_ns, bool *ret_failed);
/* Looks whether a hand that was lost, or that a daemon before us has left, has gone. */
void hand_tick(struct daemon *d);
/* Whether there is such a one: what it does can undo what we do. */
bool hand_is_awaited(const struct daemon *d);
/* At the start: a hand whose daemon was killed restores everything. Waits for it, for a moment. */
void hand_await_old(struct daemon *d);
void hand_stop(struct daemon *d);

#endif
