/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the RM model: objects, and declarations that its files share. */
#ifndef RBT_SOFTGPU_RM_MODEL_H
#define RBT_SOFTGPU_RM_MODEL_H

#include "softgpu/rm/params.h"
#include "softgpu/rm/rm.h"

#define RM_MAX_OBJECTS     (1u << 20)
#define RM_N_BUCKETS       4096u
#define RM_N_RUNLISTS      32u
#define RM_IDS_PER_RUNLIST 2048u
#define RM_MAX_PARAMS      16384u

enum rm_kind {
	RM_KIND_CLIENT,
	RM_KIND_DEVICE,
	RM_KIND_SUBDEVICE,
	RM_KIND_TSG,
	RM_KIND_CHANNEL,
	RM_KIND_ENGINE,
	RM_KIND_SUBCONTEXT,
	RM_KIND_MEMORY,
	RM_KIND_OTHER,
};

enum rm_channel_state { RM_CHANNEL_ENABLED, RM_CHANNEL_DISABLED, RM_CHANNEL_DISABLED_SCHEDULING };

struct rm_tsg {
	uint32_t runlist, id, engine_type, interleave;
	uint64_t timeslice_us, n_preempts;
	uint64_t n_suspends, n_resumes; /* calls that named its first channel */
	bool scheduled, realtime;
	/* Quirks. drowsy: will sleep when it is enabled; wakeful: cannot get drowsy any more. */
	bool drowsy, asleep, wakeful;
	bool in_setup, is_set_up, stuck;
};

struct rm_channel {
	uint32_t id;
	enum rm_channel_state state;
	uint32_t n_disabled; /* calls that have disabled it and were not undone */
};

struct rm_object {
	struct rm_object *next_in_bucket;
	struct rm_object *parent, *first_child, *next_sibling;
	struct rm_client *client;
	enum rm_kind kind;
	uint32_t handle, hclass;
	uint32_t gpu; /* meaningless for a client */
	union {
		struct rm_tsg tsg;
		struct rm_channel channel;
		uint64_t memory_bytes;
	};
};

struct rm_client {
	struct rm_client *next;
	struct rbt_rm_open *open;
	struct rm_object *root; /* has the client's own handle */
	int pid;
	bool is_off; /* its process is checkpointed: its objects take no memory */
	uint32_t next_object, n_objects;
};

struct rm_runlist {
	uint64_t tsg_ids[RM_IDS_PER_RUNLIST / 64], channel_ids[RM_IDS_PER_RUNLIST / 64];
};

struct rm_gpu {
	uint64_t memory_used_bytes;
	struct rm_runlist runlists[RM_N_RUNLISTS];
};

struct rm_counters {
	uint64_t allocs, frees, controls, other_ioctls, unknown_ioctls, unknown_controls, faults;
	uint64_t log_lines;
};

#define RM_N_CONTROLS 20

struct rbt_rm {
	struct rbt_rm_config config;
	uint32_t next_client, n_objects;
	struct rm_client *clients;
	struct rbt_rm_open *opens;
	struct rm_object *buckets[RM_N_BUCKETS];
	struct rm_gpu gpus[NV_MAX_GPUS];
	struct rm_counters counters;
	uint64_t per_control[RM_N_CONTROLS];
	struct rbt_rm_fault faults[RBT_RM_MAX_FAULTS];
	size_t n_faults;
};

struct rbt_rm_open {
	struct rbt_rm *rm;
	struct rbt_rm_open *next;
	enum rbt_rm_node node;
	uint32_t gpu;
	uint64_t id;
	int pid;
	uint32_t uid;
};

/* A call under way: the argument is our copy, written back if the handler returns 0. */
struct rm_call {
	struct rbt_rm *rm;
	struct rbt_rm_open *open;
	const struct rbt_rm_env *env;
	uint32_t nr, size;
	uint64_t addr;
	union {
		struct nv_free free;
		struct nv_control control;
		struct nv_alloc21 alloc21;
		struct nv_alloc64 alloc64;
		struct nv_card_info cards[NV_MAX_GPUS];
		struct nv_register_fd register_fd;
		struct nv_check_version check_version;
		struct nv_sys_params sys_params;
		uint8_t bytes[sizeof(struct nv_card_info[NV_MAX_GPUS])];
	} arg;
	/* Further parameters of a control or an allocation: also a copy, used by one handler at a
	 * time. */
	union {
		uint8_t bytes[RM_MAX_PARAMS];
		struct nv_device_params device;
		struct nv_subdevice_params subdevice;
		struct nv_tsg_params tsg;
		struct nv_memory_params memory;
		struct nv_handle_info_params handle_info;
		struct nv_schedule_params schedule;
		struct nv_timeslice_params timeslice;
		struct nv_preempt_params preempt;
		struct nv_tsg_info_params tsg_info;
		struct nv_interleave_params interleave;
		struct nv_realtime_params realtime;
		struct nv_token_params token;
		struct nv_gpu_id_params gpu_id;
		struct nv_gid_params gid;
		struct nv_pid_info_params pid_info;
		struct nv_fb_info_params fb_info;
		struct nv_disable_channels_params disable_channels;
		struct nv_attached_ids_params attached_ids;
		struct nv_name_params name;
		struct nv_ctxsw_params ctxsw;
	} params;
};

/* object.c: the tree. */
struct rm_object *rm_find(
	struct rbt_rm *rm, uint32_t client, uint32_t handle); /* NULL: not found */
/* NULL unless the handle names a client of this open file; counts the line that a driver would
 * log. */
struct rm_client *rm_find_client(struct rm_call *c, uint32_t handle);
/* An object of such a client; or NULL with an RM status. */
struct rm_object *rm_find_object(
	struct rm_call *c, uint32_t client, uint32_t handle, uint32_t *ret_status);
/* Returns an RM status. handle 0: chosen here. */
uint32_t rm_object_create(struct rm_client *client, struct rm_object *parent, uint32_t handle,
	uint32_t hclass, enum rm_kind kind, struct rm_object **ret);
void rm_object_destroy(struct rm_object *obj); /* with everything below it */
/* Walks a client's tree from its root; NULL at the end. */
struct rm_object *rm_next_object(struct rm_object *obj);
uint32_t rm_client_create(
	struct rm_call *c, uint32_t handle, uint32_t hclass, struct rm_object **ret);
/* Takes the lowest free number and sets its bit; false: none is left. */
bool rm_take_id(uint64_t *bits, uint32_t *ret_id);
enum rbt_rm_engine rm_engine_of(uint32_t engine_type);

/* alloc.c */
int rm_alloc(struct rm_call *c);
int rm_free(struct rm_call *c);

/* control.c. Handlers find a copy of the params in the call, and return an RM status. */
struct rm_control_def {
	uint32_t cmd, size;
	enum rm_kind kind;
	bool needs_nice, answers; /* privileged; params are written back */
	uint32_t (*fn)(struct rm_call *c, struct rm_object *obj);
	const char *name;
};
extern const struct rm_control_def rm_controls[RM_N_CONTROLS];
int rm_control(struct rm_call *c);

/* tsg.c */
uint32_t rm_tsg_schedule(struct rm_call *c, struct rm_object *obj);
uint32_t rm_tsg_set_timeslice(struct rm_call *c, struct rm_object *obj);
uint32_t rm_tsg_get_timeslice(struct rm_call *c, struct rm_object *obj);
uint32_t rm_tsg_preempt(struct rm_call *c, struct rm_object *obj);
uint32_t rm_tsg_get_info(struct rm_call *c, struct rm_object *obj);
uint32_t rm_tsg_set_interleave(struct rm_call *c, struct rm_object *obj);
uint32_t rm_tsg_make_realtime(struct rm_call *c, struct rm_object *obj);
uint32_t rm_channel_get_token(struct rm_call *c, struct rm_object *obj);
uint32_t rm_disable_channels(struct rm_call *c, struct rm_object *obj);

/* quirk.c: notifications about a group, with or without quirks. */
void rm_quirk_scheduled(struct rm_object *tsg);
void rm_quirk_slice_set(struct rm_call *c, struct rm_object *tsg);
void rm_quirk_disabled(struct rm_object *tsg, bool scheduling_only);
void rm_quirk_preempted(struct rm_object *tsg, bool is_awaited);
void rm_quirk_enabled(struct rm_object *tsg);
bool rm_tsg_can_run(const struct rm_object *tsg);
bool rm_copies_wait(const struct rm_object *compute);
/* The additional time that the call takes. */
uint64_t rm_quirk_delay_us(const struct rm_call *c);

/* card.c: facts about the fake cards. */
uint64_t rm_free_bytes(const struct rbt_rm *rm, uint32_t gpu);
uint32_t rm_gpu_id(uint32_t gpu);
int rm_card_info(struct rm_call *c);
int rm_register_fd(struct rm_call *c);
int rm_check_version(struct rm_call *c);
int rm_sys_params(struct rm_call *c);
uint32_t rm_get_attached_ids(struct rm_call *c, struct rm_object *obj);
uint32_t rm_get_gpu_id(struct rm_call *c, struct rm_object *obj);
uint32_t rm_get_gid(struct rm_call *c, struct rm_object *obj);
uint32_t rm_get_name(struct rm_call *c, struct rm_object *obj);
uint32_t rm_get_pid_info(struct rm_call *c, struct rm_object *obj);
uint32_t rm_get_fb_info(struct rm_call *c, struct rm_object *obj);

/* ioctl.c: writes one line about an unknown call to the log. */
void rm_log(struct rm_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
