/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver trial. RM compares the size of a control's parameters with its own size before it does
 * anything else. So a control that succeeds with our size, and fails with others, has the layout
 * that we know, or one that looks the same from outside.
 *
 * No program is touched. A client of our own gets a device and a channel group without channels,
 * which no engine ever runs. All of it is freed with the client, or with the file if this process
 * dies. Wrong sizes are larger than the right one: a driver that did not check would still read
 * only our memory. From 570 on nothing of this is written to the kernel log; earlier drivers may
 * write a line for each refused size ("bad params", "bad paramsize").
 */
#include "backend/nvidia/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend/nvidia/driver.h"
#include "backend/nvidia/rm.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

#define TRIED_US 3000u
#define OTHER_US 4000u
/* A trial that failed for lack of memory or files is repeated after this time. */
#define AGAIN_NS   (5 * RBT_NS_PER_S)
#define VERSION_NS RBT_NS_PER_S

/* The objects of the trial. */
struct own {
	int ctl, node;
	uint32_t client, device, subdevice, group;
	bool is_short_of_something; /* the last failure says nothing about the driver */
};

/* Ways to make a channel group, tried in this order. A group for copies comes first, because one
 * for kernels takes GPU memory for their contexts. The last way has an address space as well. */
static const struct {
	uint32_t engine, va_mode;
} ways[] = {
	{NV_ENGINE_TYPE_COPY0, NV_VA_MODE_MULTIPLE},
	{NV_ENGINE_TYPE_GRAPHICS, NV_VA_MODE_MULTIPLE},
	{NV_ENGINE_TYPE_GRAPHICS, 0},
};

#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

/* Writes what failed, and how, to text; returns false. */
static bool fail(struct own *o, char *text, const char *what, int error, uint32_t status)
{
	int e = error < 0 ? error : rbt_nv_status_to_errno(status);

	o->is_short_of_something =
		e == -ENOMEM || e == -EAGAIN || e == -EMFILE || e == -ENFILE || e == -ETIMEDOUT;
	if (error < 0) {
		snprintf(text, RBT_TRIAL_TEXT, "%s: %s", what, strerror(-error));
	} else {
		snprintf(text, RBT_TRIAL_TEXT, "%s: RM status 0x%x", what, status);
	}
	return false;
}

static bool control(struct own *o, uint32_t object, uint32_t cmd, void *params, uint32_t size,
	char *text, const char *what)
{
	uint32_t status = NV_OK;
	int r = rbt_nv_control_status(o->ctl, o->client, object, cmd, params, size, &status);

	return r == 0 && status == NV_OK ? true : fail(o, text, what, r, status);
}

/* Whether parameters that are 4 and 8 bytes too long are refused for their size, and with which
 * status. */
static bool minds_sizes(struct own *o, uint32_t object, uint32_t cmd, const void *params,
	uint32_t size, uint32_t *ret_status, char *text)
{
	for (uint32_t wrong = size + 4; wrong <= size + 8; wrong += 4) {
		uint8_t copy[sizeof(struct nv_disable_channels_params) + 8] = {0};
		uint32_t status = NV_OK;
		char what[64];

		memcpy(copy, params, size);
		snprintf(what, sizeof(what), "%u bytes in place of %u", wrong, size);
		int r = rbt_nv_control_status(o->ctl, o->client, object, cmd, copy, wrong, &status);
		if (r == 0 && status == NV_OK) {
			snprintf(text, RBT_TRIAL_TEXT,
				"%s were accepted: the driver does not check sizes", what);
			return false;
		}
		if (r < 0 || (status != NV_ERR_INVALID_ARGUMENT &&
				     status != NV_ERR_INVALID_PARAM_STRUCT)) {
			return fail(o, text, what, r, status);
		}
		/* The two statuses differ: one of the sizes may be right, and refused for another
		 * reason. */
		if (wrong > size + 4 && status != *ret_status) {
			return fail(o, text, what, 0, status);
		}
		*ret_status = status;
	}
	return true;
}

static bool read_slice(struct own *o, char *text, uint64_t *ret_us)
{
	struct nv_timeslice_params p = {0};

	if (!control(o, o->group, NV_CTRL_TSG_GET_TIMESLICE, &p, sizeof(p), text,
		    "a timeslice could not be read")) {
		return false;
	}
	*ret_us = p.timeslice_us;
	return true;
}

static bool set_slice(struct own *o, char *text, uint64_t us)
{
	struct nv_timeslice_params p = {.timeslice_us = us};
	uint64_t is_us = 0;

	if (!control(o, o->group, NV_CTRL_TSG_SET_TIMESLICE, &p, sizeof(p), text,
		    "a timeslice could not be set") ||
		!read_slice(o, text, &is_us)) {
		return false;
	}
	if (is_us != us) {
		snprintf(text, RBT_TRIAL_TEXT, "%llu us were set, and %llu us read back",
			(unsigned long long)us, (unsigned long long)is_us);
	}
	return is_us == us;
}

static bool try_slices(struct own *o, char *text)
{
	struct nv_timeslice_params wrong = {.timeslice_us = OTHER_US};
	uint64_t own_us = 0, is_us = 0;
	uint32_t status;

	if (!read_slice(o, text, &own_us) || !set_slice(o, text, TRIED_US) ||
		!minds_sizes(o, o->group, NV_CTRL_TSG_SET_TIMESLICE, &wrong, sizeof(wrong), &status,
			text) ||
		!read_slice(o, text, &is_us)) {
		return false;
	}
	if (is_us != TRIED_US) {
		snprintf(text, RBT_TRIAL_TEXT, "a timeslice that was refused is in force");
		return false;
	}
	/* The value must not be 0, which cannot be set: then the field that was read is not the
	 * slice. */
	if (!set_slice(o, text, own_us)) {
		return false;
	}
	snprintf(text, RBT_TRIAL_TEXT,
		"%u us were set and read back on a channel group of its own; 12 and 16 bytes were refused",
		TRIED_US);
	return true;
}

/*
 * All zeroes, so that even in an unknown layout there is no channel in it. A driver may refuse an
 * empty list (580.159.04 on an H200 answers 0x3a, and 0x1f to a wrong size): it is enough that it
 * distinguishes the right size from wrong ones.
 */
static bool try_suspends(struct own *o, char *text)
{
	struct nv_disable_channels_params none = {0};
	uint32_t status = NV_OK, wrong = NV_OK;
	int r = rbt_nv_control_status(o->ctl, o->client, o->subdevice,
		NV_CTRL_FIFO_DISABLE_CHANNELS, &none, sizeof(none), &status);

	if (r < 0 || (status != NV_OK && status != NV_ERR_INVALID_ARGUMENT &&
			     status != NV_ERR_INVALID_PARAM_STRUCT)) {
		return fail(o, text, "a call for no channels was refused", r, status);
	}
	if (!minds_sizes(o, o->subdevice, NV_CTRL_FIFO_DISABLE_CHANNELS, &none, sizeof(none),
		    &wrong, text)) {
		return false;
	}
	if (status == wrong) {
		return fail(o, text, "right and wrong sizes are refused alike", 0, status);
	}
	snprintf(text, RBT_TRIAL_TEXT,
		"a call for no channels was answered with 0x%x, %u and %u bytes with 0x%x", status,
		(unsigned)sizeof(none) + 4, (unsigned)sizeof(none) + 8, wrong);
	return true;
}

static bool make(struct own *o, uint32_t parent, uint32_t hclass, const void *params, uint32_t size,
	uint32_t *ret_object, char *text, const char *what)
{
	uint32_t status = NV_OK;
	int r = rbt_nv_alloc(o->ctl, o->client, parent, hclass, params, size, &status, ret_object);

	return r == 0 && status == NV_OK ? true : fail(o, text, what, r, status);
}

static void free_device(struct own *o)
{
	if (o->device != 0) {
		(void)rbt_nv_free(o->ctl, o->client, o->client, o->device);
	}
	o->device = o->subdevice = o->group = 0;
}

/* Makes the card's device and subdevice. RM numbers devices in the order in which it attached them,
 * which may differ from that of the nodes. So the card is found by its id. */
static bool make_device(struct own *o, uint32_t gpu_id, uint32_t va_mode, char *text)
{
	char ignored[RBT_TRIAL_TEXT] = "";

	for (uint32_t i = 0; i < NV_MAX_GPUS; i++) {
		struct nv_device_params device = {.device_id = i, .va_mode = va_mode};
		struct nv_subdevice_params subdevice = {0};
		struct nv_gpu_id_params id = {0};

		device.client_share = va_mode == 0 ? o->client : 0;
		if (!make(o, o->client, NV_CLASS_DEVICE, &device, sizeof(device), &o->device,
			    i == 0 ? text : ignored, "a device could not be made")) {
			continue;
		}
		if (!make(o, o->device, NV_CLASS_SUBDEVICE, &subdevice, sizeof(subdevice),
			    &o->subdevice, text, "a subdevice could not be made") ||
			!control(o, o->subdevice, NV_CTRL_GPU_GET_ID, &id, sizeof(id), text,
				"the GPU could not be asked for its number")) {
			return false;
		}
		if (id.gpu_id == gpu_id) {
			return true;
		}
		free_device(o);
		snprintf(text, RBT_TRIAL_TEXT, "the GPU is not among the driver's devices");
	}
	return false;
}

static bool make_group(struct own *o, const struct nv_card_info *card, char *text)
{
	for (size_t i = 0; i < N_WAYS; i++) {
		struct nv_tsg_params group = {.engine_type = ways[i].engine};

		if (make_device(o, card->gpu_id, ways[i].va_mode, text) &&
			make(o, o->device, NV_CLASS_TSG, &group, sizeof(group), &o->group, text,
				"a channel group could not be made")) {
			return true;
		}
		free_device(o);
	}
	return false;
}

/* A GPU answers only while a process has its node open. */
static bool open_node(struct own *o, uint32_t minor, char *text)
{
	char path[32];

	snprintf(path, sizeof(path), NV_GPU_PATH_FMT, minor);
	o->node = open(path, O_RDWR | O_CLOEXEC);
	return o->node >= 0 ? true : fail(o, text, path, -errno, NV_OK);
}

/* Returns whether there was a GPU for the trial; if not, text has the reason. */
static bool try_on(struct own *o, const struct nv_card_info *card, struct rbt_trial *trial)
{
	bool is_made = open_node(o, card->minor_number, trial->slices_text) &&
		       make_group(o, card, trial->slices_text);

	if (is_made) {
		trial->slices = try_slices(o, trial->slices_text);
		trial->suspends = trial->slices && try_suspends(o, trial->suspends_text);
	}
	free_device(o);
	rbt_close(&o->node);
	return is_made;
}

int rbt_nv_try_out(struct rbt_trial *ret)
{
	struct rbt_trial trial = {.slices_text = "there is no GPU to try it on",
		.suspends_text = "not tried, because timeslices failed"};
	struct nv_card_info cards[NV_MAX_GPUS];
	struct own o = {.ctl = rbt_nv_open_control(), .node = -1};
	int r = o.ctl;

	if (r == -ENODEV) {
		return r;
	}
	r = r < 0 ? r : rbt_nv_card_info(o.ctl, cards);
	r = r < 0 ? r : rbt_nv_alloc_client(o.ctl, &o.client);
	if (r < 0) {
		fail(&o, trial.slices_text, "a client could not be made", r, NV_OK);
	}
	for (size_t i = 0; r == 0 && i < NV_MAX_GPUS; i++) {
		if (cards[i].valid && try_on(&o, &cards[i], &trial)) {
			break;
		}
	}
	if (o.client != 0) {
		(void)rbt_nv_free(o.ctl, o.client, o.client, o.client);
	}
	rbt_close(&o.ctl);
	trial.is_final = !o.is_short_of_something || trial.slices;
	*ret = trial;
	return 0;
}

int rbt_nv_check_driver(void)
{
	struct rbt_nv_driver driver;
	int r = rbt_nv_driver_read(&driver);

	return r < 0 ? r : driver.known ? 0 : -EPROTONOSUPPORT;
}

/* The verdict so far. Every write checks it, and the driver cannot change while programs use it: so
 * a good verdict is not checked again for a while. */
static struct {
	pthread_mutex_t lock;
	char version[32]; /* the driver of this verdict; empty: none */
	bool is_known, is_tried;
	struct rbt_trial trial;
	uint64_t read_ns;  /* when the version was read */
	uint64_t again_ns; /* when the trial must be repeated; 0: never */
} verdict = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Notes the driver's version. If it cannot be read now (for lack of files, say), the last one
 * counts: programs must be restored in any case. */
static int note_driver(uint64_t now_ns)
{
	struct rbt_nv_driver driver;
	bool is_good = verdict.is_known || verdict.trial.slices;

	if (is_good && now_ns - verdict.read_ns < VERSION_NS) {
		return 0;
	}
	int r = rbt_nv_driver_read(&driver);
	if (r < 0) {
		return verdict.version[0] != '\0' ? 0 : r;
	}
	verdict.read_ns = now_ns;
	if (strcmp(verdict.version, driver.version) != 0) {
		memcpy(verdict.version, driver.version, sizeof(verdict.version));
		verdict.is_known = driver.known;
		verdict.is_tried = false;
		verdict.trial = (struct rbt_trial){0};
	}
	return 0;
}

static int try_once(uint64_t now_ns)
{
	if (verdict.is_tried && (verdict.again_ns == 0 || now_ns < verdict.again_ns)) {
		return 0;
	}
	int r = rbt_nv_try_out(&verdict.trial);
	if (r < 0) {
		return r;
	}
	verdict.is_tried = true;
	verdict.again_ns = verdict.trial.is_final ? 0 : now_ns + AGAIN_NS;
	rbt_debug("driver %s was tried: %s; suspends: %s", verdict.version,
		verdict.trial.slices_text, verdict.trial.suspends_text);
	return 0;
}

static int may_write(uint32_t cap, bool force)
{
	uint64_t now_ns = rbt_now_ns();
	int r = note_driver(now_ns);

	if (r < 0 || verdict.is_known || force) {
		return r;
	}
	r = try_once(now_ns);
	if (r < 0) {
		return r;
	}
	bool may = cap == RBT_CAP_SUSPEND ? verdict.trial.suspends : verdict.trial.slices;
	return may ? 0 : -EPROTONOSUPPORT;
}

int rbt_nv_may_write(uint32_t cap, bool force)
{
	pthread_mutex_lock(&verdict.lock);
	int r = may_write(cap, force);
	pthread_mutex_unlock(&verdict.lock);
	return r;
}

void rbt_nv_why_not(uint32_t cap, char *buf, size_t size)
{
	bool is_slices_fault;

	pthread_mutex_lock(&verdict.lock);
	is_slices_fault = cap != RBT_CAP_SUSPEND || !verdict.trial.slices;
	snprintf(buf, size, "driver %s is not known, and the trial of its %s failed",
		verdict.version, is_slices_fault ? "timeslices" : "suspends");
	pthread_mutex_unlock(&verdict.lock);
}
