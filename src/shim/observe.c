/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns from a program's calls to RM about its clients, devices, channel groups (tasks) and
 * channels.
 *
 * The program's memory is read after the driver has accepted the call, so that every pointer was
 * valid a moment ago, and before the lock is taken, so that a fault in it is the program's own.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shim/config.h"
#include "shim/shim.h"
#include "shim/sizes.h"
#include "shim/submit.h"

/* NV_ESC_IOCTL_XFER_CMD wraps any other call whose argument is too large for an ioctl's size
 * field. */
struct xfer {
	uint32_t cmd, size;
	uint64_t ptr;
};
static_assert(sizeof(struct xfer) == 16, "transfer");

/* How often a thread handles events of other threads that came while it handled such events. */
#define MAX_ROUNDS 4

#define MAX_WAIT_NS 10000000ull

/* Classes under which RM creates a client, besides the one that libcuda uses. */
#define CLASS_ROOT          0x0000
#define CLASS_ROOT_NON_PRIV 0x0001

static void read_program(void *dst, uint64_t src, size_t size)
{
	memcpy(dst, (const void *)(uintptr_t)src, size);
}

static bool is_root(uint32_t hclass)
{
	return hclass == NV_CLASS_ROOT_CLIENT || hclass == CLASS_ROOT ||
	       hclass == CLASS_ROOT_NON_PRIV;
}

static bool is_wanted(uint32_t hclass)
{
	return is_root(hclass) || hclass == NV_CLASS_DEVICE || hclass == NV_CLASS_SUBDEVICE ||
	       hclass == NV_CLASS_TSG || nv_class_is_channel(hclass) ||
	       nv_class_is_compute(hclass) || nv_class_is_copy(hclass);
}

static void decode_alloc(struct shim_event *ev, const void *arg, size_t size)
{
	struct nv_alloc64 a64 = {.status = NV_ERR_INVALID_ARGUMENT};
	struct nv_alloc21 a21;

	if (size == sizeof(a21)) {
		memcpy(&a21, arg, sizeof(a21));
		memcpy(&a64, &a21, offsetof(struct nv_alloc21, params_size));
		a64.params_size = a21.params_size;
		a64.status = a21.status;
	} else if (size == sizeof(a64)) {
		memcpy(&a64, arg, sizeof(a64));
	}
	if (a64.status != NV_OK || a64.object == 0 || !is_wanted(a64.hclass)) {
		return;
	}
	ev->type = EV_ALLOC;
	ev->client = is_root(a64.hclass) ? a64.object : a64.root;
	ev->parent = a64.parent;
	ev->object = a64.object;
	ev->hclass = a64.hclass;
	/* Without a size RM uses the class's own. */
	size_t need = a64.hclass == NV_CLASS_TSG      ? sizeof(struct nv_tsg_params)
		      : a64.hclass == NV_CLASS_DEVICE ? sizeof(struct nv_device_params)
						      : SIZE_MAX;
	if (a64.params != 0 && need != SIZE_MAX &&
		(a64.params_size == 0 || a64.params_size >= need)) {
		ev->params = a64.params;
	}
}

static void decode_control(struct shim_event *ev, const void *arg, size_t size)
{
	struct nv_control ctl;

	if (size != sizeof(ctl)) {
		return;
	}
	memcpy(&ctl, arg, sizeof(ctl));
	if (ctl.status != NV_OK || ctl.params == 0) {
		return;
	}
	ev->client = ctl.client;
	ev->object = ctl.object;
	ev->params = ctl.params;
	if (ctl.cmd == NV_CTRL_TSG_GPFIFO_SCHEDULE && ctl.params_size >= 1) {
		ev->type = EV_SCHEDULE;
	} else if (ctl.cmd == NV_CTRL_TSG_SET_TIMESLICE &&
		   ctl.params_size == sizeof(struct nv_timeslice_params)) {
		ev->type = EV_TIMESLICE;
	} else if (ctl.cmd == NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN &&
		   ctl.params_size == sizeof(struct nv_token_params)) {
		ev->type = EV_TOKEN;
	}
}

static void decode_free(struct shim_event *ev, const void *arg, size_t size)
{
	struct nv_free f;

	if (size != sizeof(f)) {
		return;
	}
	memcpy(&f, arg, sizeof(f));
	if (f.status == NV_OK) {
		ev->type = EV_FREE;
		ev->client = f.client;
		ev->object = f.object;
	}
}

static void read_params(struct shim_event *ev)
{
	struct nv_tsg_params tsg;
	struct nv_device_params device;
	struct nv_token_params token;
	uint8_t enable;

	if (ev->params == 0) {
		return;
	}
	switch (ev->type) {
	case EV_ALLOC:
		if (ev->hclass == NV_CLASS_DEVICE) {
			read_program(&device, ev->params, sizeof(device));
			ev->value = device.device_id;
		} else {
			read_program(&tsg, ev->params, sizeof(tsg));
			ev->value = tsg.engine_type;
		}
		break;
	case EV_SCHEDULE:
		read_program(&enable, ev->params, sizeof(enable));
		ev->value = enable != 0;
		break;
	case EV_TIMESLICE:
		read_program(&ev->value, ev->params, sizeof(ev->value));
		break;
	case EV_TOKEN:
		read_program(&token, ev->params, sizeof(token));
		ev->value = token.token;
		break;
	default:
		break;
	}
}

static void decode_call(struct shim_event *ev, unsigned nr, const void *arg, size_t size)
{
	if (nr == NV_ESC_RM_CONTROL) {
		decode_control(ev, arg, size);
	} else if (nr == NV_ESC_RM_ALLOC) {
		decode_alloc(ev, arg, size);
	} else if (nr == NV_ESC_RM_FREE) {
		decode_free(ev, arg, size);
	}
}

/*
 * Other devices have calls of type 'F' too. The argument of a request that reads and writes has as
 * many bytes as the request says, whatever the device is. Pointers in it are followed only if the
 * file is the driver's. This is checked last, because it takes a system call.
 */
static void decode(struct shim_event *ev, unsigned long request, const void *arg)
{
	struct xfer x;

	if (arg == NULL || _IOC_DIR(request) != (_IOC_READ | _IOC_WRITE)) {
		return;
	}
	if (_IOC_NR(request) != NV_ESC_IOCTL_XFER_CMD) {
		decode_call(ev, _IOC_NR(request), arg, _IOC_SIZE(request));
	} else if (_IOC_SIZE(request) == sizeof(x) && shim_raw_is_control(ev->fd)) {
		memcpy(&x, arg, sizeof(x));
		arg = (const void *)(uintptr_t)x.ptr;
		if (arg != NULL) {
			decode_call(ev, x.cmd, arg, x.size);
		}
	}
	if (ev->type != EV_NONE && shim_raw_is_control(ev->fd)) {
		read_params(ev);
	} else {
		ev->type = EV_NONE;
	}
}

static struct shim_obj *add(
	struct shim *s, const struct shim_event *ev, enum shim_type type, struct shim_obj *parent)
{
	struct shim_obj *obj = shim_add(s, type, ev->client, ev->object, parent);

	if (obj == NULL) {
		s->lossy = true;
		return NULL;
	}
	obj->hclass = ev->hclass;
	if (ev->serial != 0) {
		obj->serial = ev->serial;
	}
	s->touched = true;
	return obj;
}

static void client_freed(struct shim *s, struct shim_obj *client)
{
	s->touched = true;
	shim_memory_drop_client(s, client->handle);
	shim_remove_children(s, client);
	if (client->c.told) {
		client->c.freed = true;
		client->c.dirty = true;
	} else {
		shim_remove(s, client);
	}
}

/* A program that closed its device file without freeing its clients has freed them by that. */
static void drop_closed_clients(struct shim *s)
{
	for (struct shim_obj *c = shim_first(s, SHIM_CLIENT), *next; c != NULL; c = next) {
		next = shim_next(s, c);
		if (!c->c.freed && !shim_fd_valid(&c->c.file)) {
			client_freed(s, c);
		}
	}
}

static void check_in_passing(uint64_t now_ns);

static void client_made(struct shim *s, const struct shim_event *ev)
{
	struct shim_obj *old = shim_find_type(s, ev->client, ev->client, SHIM_CLIENT);
	bool told = old != NULL && old->c.told;

	drop_closed_clients(s);
	struct shim_obj *obj = add(s, ev, SHIM_CLIENT, NULL);
	if (obj == NULL) {
		return;
	}
	if (shim_fd_set(&obj->c.file, ev->fd) < 0) {
		/* Another thread has closed the file already. */
		shim_remove(s, obj);
		return;
	}
	obj->c.told = told;
	obj->c.dirty = told;
	shim_sync_also(check_in_passing);
	shim_sizes_ask(shim_memory_state);
}

static enum rbt_task_kind kind_of_engine(uint64_t engine)
{
	if (engine >= NV_ENGINE_TYPE_GRAPHICS && engine <= NV_ENGINE_TYPE_GR_LAST) {
		return RBT_TASK_COMPUTE;
	}
	if ((engine >= NV_ENGINE_TYPE_COPY0 && engine <= NV_ENGINE_TYPE_COPY9) ||
		(engine >= NV_ENGINE_TYPE_COPY10 && engine <= NV_ENGINE_TYPE_COPY19)) {
		return RBT_TASK_COPY;
	}
	return RBT_TASK_OTHER;
}

/* A task is reported when it is made, if its kind and its GPU are known by then. Otherwise the
 * daemon would take it for another one when they are known, and it is reported when it is first
 * scheduled. Returns whether it is reported from now on. */
static bool report(struct shim *s, struct shim_obj *task)
{
	uint32_t gpu;

	if (task->t.reported || task->t.kind == RBT_TASK_OTHER ||
		shim_subdevice_of(s, task) == NULL) {
		return false;
	}
	shim_identify(s, task);
	task->t.reported = shim_gpu_of(s, task, &gpu);
	if (task->t.reported && !task->t.scheduled) {
		shim_gate_ask(s, task);
	}
	return task->t.reported;
}

static bool task_made(struct shim *s, const struct shim_event *ev, struct shim_obj *device)
{
	struct shim_obj *obj = add(s, ev, SHIM_TASK, device);

	if (obj != NULL) {
		obj->t = (struct shim_task){
			.kind = kind_of_engine(ev->value),
			.creator_tid = ev->tid,
			.valid =
				RBT_TASK_HAS_CREATOR | RBT_TASK_HAS_OWN_TIMESLICE | RBT_TASK_IS_NEW,
			.own_us = NV_DEFAULT_TIMESLICE_US,
			.applied_us = NV_DEFAULT_TIMESLICE_US,
		};
	}
	return obj != NULL && report(s, obj);
}

/* If a group was made without naming its engine, the first engine on one of its channels tells its
 * kind. */
static bool engine_made(struct shim *s, const struct shim_event *ev)
{
	struct shim_obj *channel = shim_find_type(s, ev->client, ev->parent, SHIM_CHANNEL);

	if (channel == NULL || s->objs[channel->parent].t.kind != RBT_TASK_OTHER) {
		return false;
	}
	struct shim_obj *task = &s->objs[channel->parent];
	s->touched = true;
	task->t.kind = nv_class_is_compute(ev->hclass) ? RBT_TASK_COMPUTE : RBT_TASK_COPY;
	return report(s, task) || task->t.scheduled;
}

/* These return whether the client's record has changed. The channels of a task that was never
 * scheduled go with the next record: the daemon has no use for them before. */
static bool on_alloc(struct shim *s, const struct shim_event *ev, struct shim_obj *client)
{
	struct shim_obj *parent = shim_find(s, ev->client, ev->parent);

	if (parent == NULL) {
		return false;
	}
	if (ev->hclass == NV_CLASS_DEVICE && parent == client) {
		add(s, ev, SHIM_DEVICE, parent);
	} else if (ev->hclass == NV_CLASS_SUBDEVICE && parent->type == SHIM_DEVICE) {
		add(s, ev, SHIM_SUBDEVICE, parent);
	} else if (ev->hclass == NV_CLASS_TSG && parent->type == SHIM_DEVICE) {
		return task_made(s, ev, parent);
	} else if (nv_class_is_channel(ev->hclass) && parent->type == SHIM_TASK) {
		add(s, ev, SHIM_CHANNEL, parent);
		return parent->t.scheduled;
	} else if (nv_class_is_compute(ev->hclass) || nv_class_is_copy(ev->hclass)) {
		return engine_made(s, ev);
	}
	return false;
}

static bool on_free(struct shim *s, const struct shim_event *ev, struct shim_obj *client)
{
	struct shim_obj *obj = shim_find(s, ev->client, ev->object);

	/* Recorded after this free began: a new object of another thread, which got the freed
	 * handle. */
	if (obj == NULL || obj->serial > ev->serial_before) {
		return false;
	}
	if (obj == client) {
		client_freed(s, client);
		return false;
	}
	s->touched = true;
	shim_remove(s, obj);
	return true;
}

static bool on_control(struct shim *s, const struct shim_event *ev)
{
	struct shim_obj *obj = shim_find(s, ev->client, ev->object);

	if (obj == NULL) {
		return false;
	}
	if (ev->type == EV_TOKEN && obj->type == SHIM_CHANNEL &&
		obj->hclass >= NV_CLASS_CHANNEL_AMPERE) {
		struct shim_obj *task = &s->objs[obj->parent];
		bool was_known = (task->t.valid & RBT_TASK_HAS_RUNLIST) != 0;
		task->t.runlist = NV_TOKEN_RUNLIST((uint32_t)ev->value);
		task->t.valid |= RBT_TASK_HAS_RUNLIST;
		return !was_known && task->t.scheduled;
	}
	if (obj->type != SHIM_TASK) {
		return false;
	}
	s->touched = true;
	if (ev->type == EV_SCHEDULE) {
		bool changed = obj->t.scheduled != (ev->value != 0);
		obj->t.scheduled = ev->value != 0;
		if (obj->t.scheduled) {
			shim_identify(s, obj);
			shim_gate_end(s, obj);
			obj->t.reported = true;
		}
		return changed;
	}
	if (ev->type == EV_TIMESLICE) {
		obj->t.own_us = obj->t.applied_us = ev->value;
		obj->t.valid |= RBT_TASK_HAS_OWN_TIMESLICE;
		/* Setting the slice is the last thing that libcuda does to a new task. */
		obj->t.valid &= ~(uint32_t)RBT_TASK_IS_NEW;
		return obj->t.reported;
	}
	return false;
}

static void learn(struct shim *s, const struct shim_event *ev)
{
	if (ev->type >= EV_QUEUE_MADE) {
		shim_kfd_learn(s, ev);
		return;
	}
	if (ev->type == EV_ALLOC && is_root(ev->hclass)) {
		client_made(s, ev);
		return;
	}
	struct shim_obj *client = shim_find_type(s, ev->client, ev->client, SHIM_CLIENT);
	if (client == NULL || client->c.freed) {
		return;
	}
	/* The file may live on under another number. */
	if (shim_fd_get(&client->c.file) != ev->fd && !shim_fd_valid(&client->c.file)) {
		shim_fd_set(&client->c.file, ev->fd);
		client->c.dirty = true;
	}
	bool changed = ev->type == EV_ALLOC  ? on_alloc(s, ev, client)
		       : ev->type == EV_FREE ? on_free(s, ev, client)
					     : on_control(s, ev);
	if (changed) {
		client->c.dirty = true;
		s->touched = true;
	}
}

/* Names a mistake in the environment once, and only in programs that use a GPU: their shells and
 * helpers inherit the environment, too. */
static void say_ignored(void)
{
	if (shim_config.ignored[0] != '\0') {
		shim_say((const char *const[]){
			"rubato: " RBT_ENV_TREAT ": ", shim_config.ignored, ": ignored", NULL});
		shim_config.ignored[0] = '\0';
	}
}

/* Acts on what has changed, or on what could not be done earlier. */
static void act_on_changes(struct shim *s, uint64_t now_ns)
{
	say_ignored();
	shim_agent_ensure(s);
	enum shim_daemon daemon = shim_tell_daemon(s, now_ns);

	if (daemon == SHIM_DAEMON_NONE) {
		shim_apply_alone(s);
	}
	s->touched = false;
	bool is_soon = daemon == SHIM_DAEMON_BUSY || shim_awaits_ledger(s, now_ns);
	s->next_due_ns = is_soon ? now_ns : now_ns + SHIM_LOOK_NS;
}

/* The daemon's records are out of date, and must be sent again. */
static void tell_all_again(struct shim *s)
{
	for (struct shim_obj *c = shim_first(s, SHIM_CLIENT); c != NULL; c = shim_next(s, c)) {
		c->c.dirty = true;
	}
	s->touched = true;
}

/* Under the lock. */
static void take_in(struct shim *s, const struct shim_event *ev, uint64_t now_ns)
{
	struct shim_event late;

	for (int i = 0; i < SHIM_MAX_LATE && shim_late_take(s, &late); i++) {
		learn(s, &late);
	}
	if (ev->type != EV_NONE) {
		learn(s, ev);
	}
	if (s->lossy && !s->lossy_told) {
		s->lossy_told = true;
		tell_all_again(s);
	}
	if (s->touched || now_ns >= s->next_due_ns) {
		act_on_changes(s, now_ns);
	}
}

void shim_take_in(struct shim *s, uint64_t now_ns)
{
	struct shim_event none = {.type = EV_NONE};

	take_in(s, &none, now_ns);
}

/* Takes the lock, or leaves the event to the thread that has it. Waits only if there is no room for
 * the event, and not for long; then the event is lost. */
static int enter_with_news(struct shim_guard *g, struct shim_event *ev, uint64_t now_ns)
{
	int r;

	while ((r = shim_enter(g)) == -EBUSY) {
		if (shim_late_put(g->s, ev)) {
			ev->type = EV_NONE;
			/* The thread that had the lock may have released it before the event was
			 * there. */
			return shim_enter(g);
		}
		if (shim_raw_now_ns() - now_ns >= MAX_WAIT_NS) {
			g->s->lossy = true;
			return -EBUSY;
		}
		shim_sys_yield();
	}
	return r;
}

/* News from another process in this memory (clone(2), CLONE_VM), for which we do not speak. It may
 * use the program's clients, whose tasks are then not all known. */
static void note_stranger(void)
{
	struct shim *s = shim_peek();

	if (s != NULL) {
		s->lossy = true;
		s->next_due_ns = 0;
	}
}

void shim_record(struct shim_event *ev, const struct shim *s)
{
	struct shim_guard g;

	/* Without a table there is nothing to do, unless the call makes a client or a queue, with
	 * which a table begins. */
	if (s == NULL && ev->type != EV_ALLOC && ev->type != EV_QUEUE_MADE) {
		return;
	}
	uint64_t now_ns = shim_raw_now_ns();
	if (ev->type == EV_NONE && now_ns < s->next_due_ns && s->n_late <= 0) {
		return;
	}
	int r = ev->type == EV_NONE ? shim_enter(&g) : enter_with_news(&g, ev, now_ns);
	if (r == -EPERM && ev->type != EV_NONE) {
		note_stranger();
	}
	/* Others may have put theirs down meanwhile: that is asked without the lock, so that either
	 * they find it free or we find their news. Not for ever: a later call will do. */
	for (int round = 0; r == 0; round++) {
		take_in(g.s, ev, now_ns);
		ev->type = EV_NONE;
		shim_leave(&g);
		r = g.s->n_late > 0 && round < MAX_ROUNDS ? shim_enter(&g) : -EBUSY;
	}
}

/* A busy program launches and waits, and may make no driver call for hours. Without this check a
 * new daemon would not learn of it. */
static void check_in_passing(uint64_t now_ns)
{
	const struct shim *s = shim_peek();
	struct shim_event ev = {.type = EV_NONE, .fd = -1};

	if (s != NULL && now_ns >= s->next_due_ns) {
		int saved_errno = errno;
		shim_record(&ev, s);
		errno = saved_errno;
	}
}

int rbt_shim_call(int fd, unsigned long request, void *arg)
{
	struct shim *s = shim_peek();
	struct shim_event ev = {.fd = fd, .serial_before = s != NULL ? s->serial : 0};
	struct shim_charge charge = {0};
	int saved_errno = errno;
	bool is_held = s != NULL && ((s->gate.n > 0 && shim_gate_holds(fd, request, arg)) ||
					    shim_memory_refuses(s, fd, request, arg, &charge));

	errno = saved_errno;
	int result = is_held ? 0 : shim_raw_ioctl(fd, request, arg);
	saved_errno = errno;
	if (shim_config_active()) {
		if (result == 0 && !is_held) {
			decode(&ev, request, arg);
		}
		if (s != NULL) {
			shim_memory_after(s, result == 0, request, arg, &ev, &charge);
		}
		if (ev.type != EV_NONE) {
			ev.tid = shim_sys_gettid();
		}
		shim_record(&ev, s);
	}
	errno = saved_errno;
	return result;
}
