/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/allow.h"

#include <stddef.h>

#define IS_LDDW(insn) ((insn)->code == (BPF_LD | BPF_IMM | BPF_DW))
#define IS_CALL(insn) ((insn)->code == (BPF_JMP | BPF_CALL))

bool rbt_allow_helper(int32_t id)
{
	switch (id) {
	case BPF_FUNC_map_lookup_elem:
	case BPF_FUNC_map_update_elem:
	case BPF_FUNC_map_delete_elem:
	case BPF_FUNC_ktime_get_ns:
	case BPF_FUNC_ringbuf_output:
	case BPF_FUNC_ringbuf_reserve:
	case BPF_FUNC_ringbuf_submit:
	case BPF_FUNC_ringbuf_discard:
		return true;
	default:
		return false;
	}
}

bool rbt_allow_map_type(uint32_t type)
{
	return type == BPF_MAP_TYPE_ARRAY || type == BPF_MAP_TYPE_HASH ||
	       type == BPF_MAP_TYPE_LRU_HASH || type == BPF_MAP_TYPE_RINGBUF;
}

bool rbt_allow_map_flags(uint32_t type, uint32_t flags)
{
	return flags == 0 || (type == BPF_MAP_TYPE_HASH && flags == BPF_F_NO_PREALLOC);
}

/* The functions that authors are most likely to try. */
static const struct {
	int32_t id;
	const char *name;
} names[] = {
	{BPF_FUNC_probe_read, "bpf_probe_read"},
	{BPF_FUNC_trace_printk, "bpf_trace_printk, use gpu_sched_log()"},
	{BPF_FUNC_get_prandom_u32, "bpf_get_prandom_u32"},
	{BPF_FUNC_get_smp_processor_id, "bpf_get_smp_processor_id"},
	{BPF_FUNC_tail_call, "bpf_tail_call"},
	{BPF_FUNC_get_current_pid_tgid, "bpf_get_current_pid_tgid"},
	{BPF_FUNC_perf_event_output, "bpf_perf_event_output, use bpf_ringbuf_output()"},
	{BPF_FUNC_spin_lock, "bpf_spin_lock"},
	{BPF_FUNC_send_signal, "bpf_send_signal"},
	{BPF_FUNC_probe_read_user, "bpf_probe_read_user"},
	{BPF_FUNC_probe_read_kernel, "bpf_probe_read_kernel"},
	{BPF_FUNC_ringbuf_query, "bpf_ringbuf_query"},
	{BPF_FUNC_copy_from_user, "bpf_copy_from_user"},
	{BPF_FUNC_for_each_map_elem, "bpf_for_each_map_elem"},
	{BPF_FUNC_snprintf, "bpf_snprintf"},
	{BPF_FUNC_sys_bpf, "bpf_sys_bpf"},
	{BPF_FUNC_sys_close, "bpf_sys_close"},
	{BPF_FUNC_timer_init, "bpf_timer_init"},
	{BPF_FUNC_trace_vprintk, "bpf_trace_vprintk, use gpu_sched_log()"},
	{BPF_FUNC_loop, "bpf_loop"},
};

const char *rbt_helper_name(int32_t id)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (names[i].id == id) {
			return names[i].name;
		}
	}
	return "see bpf-helpers(7)";
}

const char *rbt_allow_reference(const struct bpf_insn *insn)
{
	if (IS_LDDW(insn)) {
		switch (insn->src_reg) {
		case 0:
		case BPF_PSEUDO_MAP_FD:
		case BPF_PSEUDO_MAP_VALUE:
			return NULL;
		case BPF_PSEUDO_FUNC:
			return "a callback is not allowed";
		default:
			return "a reference to a kernel variable or to a map's id is not allowed";
		}
	}
	if (!IS_CALL(insn) || insn->src_reg == BPF_PSEUDO_CALL) {
		return NULL;
	}
	if (insn->src_reg != 0) {
		return "a call of a kernel function is not allowed";
	}
	return rbt_allow_helper(insn->imm) ? NULL : "the helper is not allowed";
}
