/* SPDX-License-Identifier: Apache-2.0 */
/* The model's entry: decodes a call, applies injected faults, dispatches it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/rm/model.h"

#define NO_STATUS UINT32_MAX
#define MAX_ERRNO 133

struct ioctl_def {
	uint32_t nr, size;
	int (*fn)(struct rm_call *c);
	uint32_t status_at; /* offset of the RM status, or NO_STATUS */
	/* Offsets of the pointer to further parameters and of their size; 0: none. */
	uint32_t params_at, params_size_at;
	bool on_gpu_node; /* else on the control node only */
};

static const struct ioctl_def ioctls[] = {
	{NV_ESC_RM_FREE, sizeof(struct nv_free), rm_free, offsetof(struct nv_free, status), 0, 0,
		false},
	{NV_ESC_RM_CONTROL, sizeof(struct nv_control), rm_control,
		offsetof(struct nv_control, status), offsetof(struct nv_control, params),
		offsetof(struct nv_control, params_size), false},
	{NV_ESC_RM_ALLOC, sizeof(struct nv_alloc21), rm_alloc, offsetof(struct nv_alloc21, status),
		offsetof(struct nv_alloc21, params), offsetof(struct nv_alloc21, params_size),
		false},
	{NV_ESC_RM_ALLOC, sizeof(struct nv_alloc64), rm_alloc, offsetof(struct nv_alloc64, status),
		offsetof(struct nv_alloc64, params), offsetof(struct nv_alloc64, params_size),
		false},
	{NV_ESC_CARD_INFO, sizeof(struct nv_card_info[NV_MAX_GPUS]), rm_card_info, NO_STATUS, 0, 0,
		false},
	{NV_ESC_REGISTER_FD, sizeof(struct nv_register_fd), rm_register_fd, NO_STATUS, 0, 0, true},
	{NV_ESC_CHECK_VERSION_STR, sizeof(struct nv_check_version), rm_check_version, NO_STATUS, 0,
		0, true},
	{NV_ESC_SYS_PARAMS, sizeof(struct nv_sys_params), rm_sys_params, NO_STATUS, 0, 0, false},
};

#define N_IOCTLS (sizeof(ioctls) / sizeof(ioctls[0]))

void rm_log(struct rm_call *c, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	if (c->env->log == NULL) {
		return;
	}
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	c->env->log(c->env->data, line);
}

static const struct ioctl_def *find_ioctl(uint32_t nr, uint32_t size)
{
	for (size_t i = 0; i < N_IOCTLS; i++) {
		if (ioctls[i].nr == nr && ioctls[i].size == size) {
			return &ioctls[i];
		}
	}
	return NULL;
}

size_t rbt_rm_prefetch_rules(struct rbt_rm_prefetch *rules, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < N_IOCTLS && n < max; i++) {
		if (ioctls[i].params_at != 0) {
			rules[n++] = (struct rbt_rm_prefetch){
				.request = _IOC(_IOC_READ | _IOC_WRITE, NV_IOCTL_TYPE, ioctls[i].nr,
					ioctls[i].size),
				.address_at = ioctls[i].params_at,
				.size_at = ioctls[i].params_size_at,
			};
		}
	}
	return n;
}

int rbt_rm_add_fault(struct rbt_rm *rm, const struct rbt_rm_fault *fault)
{
	bool is_size_sound =
		fault->size == 0 || fault->size == RBT_RM_ANY_SIZE || fault->size <= RM_MAX_PARAMS;

	if (fault->error > MAX_ERRNO || fault->error == ERESTART || !is_size_sound) {
		return -EINVAL;
	}
	if (rm->n_faults == RBT_RM_MAX_FAULTS) {
		return -ENOSPC;
	}
	rm->faults[rm->n_faults++] = *fault;
	return 0;
}

void rbt_rm_clear_faults(struct rbt_rm *rm)
{
	rm->n_faults = 0;
}

static struct rbt_rm_fault *find_fault(struct rm_call *c)
{
	for (size_t i = 0; i < c->rm->n_faults; i++) {
		struct rbt_rm_fault *f = &c->rm->faults[i];
		if (f->size == 0 && (f->nr == 0 || f->nr == c->nr) &&
			(f->cmd == 0 ||
				(c->nr == NV_ESC_RM_CONTROL && f->cmd == c->arg.control.cmd)) &&
			(f->hclass == 0 ||
				(c->nr == NV_ESC_RM_ALLOC && f->hclass == c->arg.alloc21.hclass))) {
			return f;
		}
	}
	return NULL;
}

static void use_fault(struct rbt_rm *rm, struct rbt_rm_fault *f)
{
	rm->counters.faults++;
	if (f->count > 0 && --f->count == 0) {
		size_t i = (size_t)(f - rm->faults);
		rm->n_faults--;
		memmove(f, f + 1, (rm->n_faults - i) * sizeof(*f));
	}
}

static void count(struct rbt_rm *rm, const struct ioctl_def *def)
{
	switch (def->nr) {
	case NV_ESC_RM_FREE:
		rm->counters.frees++;
		break;
	case NV_ESC_RM_CONTROL:
		rm->counters.controls++;
		break;
	case NV_ESC_RM_ALLOC:
		rm->counters.allocs++;
		break;
	default:
		rm->counters.other_ioctls++;
		break;
	}
}

/* Makes the call, or the fault in its place. */
static int call_or_fail(struct rm_call *c, const struct ioctl_def *def, uint64_t *ret_delay_us)
{
	struct rbt_rm_fault *fault = find_fault(c);
	int r;

	if (fault != NULL && fault->error != 0) {
		r = -(int)fault->error;
	} else if (fault != NULL && fault->has_status) {
		/* A call without a status can only fail as a whole. */
		r = def->status_at == NO_STATUS ? -EIO : 0;
		if (r == 0) {
			memcpy(c->arg.bytes + def->status_at, &fault->status,
				sizeof(fault->status));
		}
	} else {
		r = def->fn(c);
	}
	if (r == -ERESTART) {
		return r;
	}
	*ret_delay_us = fault != NULL ? fault->delay_us : r == 0 ? rm_quirk_delay_us(c) : 0;
	if (fault != NULL) {
		use_fault(c->rm, fault);
	}
	count(c->rm, def);
	return r;
}

/* Some callers wrap a call in a transfer, which has the number, size and address of the real
 * one. */
static int unwrap(struct rm_call *c)
{
	struct nv_xfer xfer;

	if (c->nr != NV_ESC_IOCTL_XFER_CMD || c->size != sizeof(xfer)) {
		return 0;
	}
	int r = c->env->read(c->env->data, c->addr, &xfer, sizeof(xfer));
	if (r == 0) {
		c->nr = xfer.cmd;
		c->size = xfer.size;
		c->addr = xfer.arg;
	}
	return r;
}

int rbt_rm_ioctl(struct rbt_rm_open *open, uint32_t request, uint64_t arg,
	const struct rbt_rm_env *env, uint64_t *ret_delay_us)
{
	struct rm_call c;

	c.rm = open->rm;
	c.open = open;
	c.env = env;
	c.nr = _IOC_NR(request);
	c.size = _IOC_SIZE(request);
	c.addr = arg;
	int r = _IOC_TYPE(request) == NV_IOCTL_TYPE ? unwrap(&c) : 0;
	if (r < 0) {
		return r;
	}
	const struct ioctl_def *def = find_ioctl(c.nr, c.size);
	if (_IOC_TYPE(request) != NV_IOCTL_TYPE || open->node == RBT_RM_NODE_UVM || def == NULL) {
		rm_log(&c, "unknown ioctl 0x%08x (number 0x%x, %u bytes)", request, c.nr, c.size);
		c.rm->counters.unknown_ioctls++;
		return -ENOTTY;
	}
	if (open->node == RBT_RM_NODE_GPU && !def->on_gpu_node) {
		return -EINVAL;
	}
	r = env->read(env->data, c.addr, c.arg.bytes, c.size);
	if (r < 0) {
		return r;
	}
	r = call_or_fail(&c, def, ret_delay_us);
	return r < 0 ? r : env->write(env->data, c.addr, c.arg.bytes, c.size);
}
