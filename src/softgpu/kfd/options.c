/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/kfd/options.h"

#include <errno.h>
#include <string.h>

#include "util/log.h"
#include "util/parse.h"

static bool given[KFD_OPT_END - KFD_OPT_GPUS];

static int number(const char *option, const char *text, uint64_t min, uint64_t max, uint32_t *ret)
{
	uint64_t v = 0;
	int r = rbt_parse_u64(text, min, max, &v);

	if (r < 0) {
		rbt_error("exec: --%s wants a number from %llu to %llu, not '%s'", option,
			(unsigned long long)min, (unsigned long long)max, text);
		return -EINVAL;
	}
	*ret = (uint32_t)v;
	return 0;
}

static int take_rule(struct rbt_kfd_config *config, const char *text)
{
	if (strcmp(text, "thread") == 0) {
		config->ptrace_rule = RBT_KFD_PTRACE_THREAD;
	} else if (strcmp(text, "process") == 0) {
		config->ptrace_rule = RBT_KFD_PTRACE_PROCESS;
	} else {
		rbt_error("exec: --kfd-ptrace wants thread or process, not '%s'", text);
		return -EINVAL;
	}
	return 0;
}

int kfd_take_option(struct rbt_kfd_config *config, int option, const char *value)
{
	given[option - KFD_OPT_GPUS] = true;
	switch (option) {
	case KFD_OPT_GPUS:
		return number("amd-gpus", value, 0, RBT_KFD_MAX_GPUS, &config->n_gpus);
	case KFD_OPT_NO_GPU:
		config->no_gpu = 1;
		return 0;
	case KFD_OPT_LENIENT:
		config->lenient = 1;
		return 0;
	case KFD_OPT_MINOR:
		return number("kfd-minor", value, 1, 99, &config->minor);
	case KFD_OPT_GFX:
		return number("gfx", value, 70000, 999999, &config->gfx_target_version);
	case KFD_OPT_PTRACE:
		return take_rule(config, value);
	case KFD_OPT_ONE_DEBUGGER:
		config->one_debugger = 1;
		return 0;
	default:
		return number("packet-us", value, 1, 10000000, &config->packet_us);
	}
}

bool kfd_options_fit(const struct rbt_kfd_config *asked, const struct rbt_kfd_config *have)
{
	const struct {
		int option;
		uint32_t wanted, have;
	} pairs[] = {
		{KFD_OPT_GPUS, asked->n_gpus, have->n_gpus},
		{KFD_OPT_NO_GPU, asked->no_gpu, have->no_gpu},
		{KFD_OPT_LENIENT, asked->lenient, have->lenient},
		{KFD_OPT_MINOR, asked->minor, have->minor},
		{KFD_OPT_GFX, asked->gfx_target_version, have->gfx_target_version},
		{KFD_OPT_PTRACE, asked->ptrace_rule, have->ptrace_rule},
		{KFD_OPT_ONE_DEBUGGER, asked->one_debugger, have->one_debugger},
		{KFD_OPT_PACKET, asked->packet_us, have->packet_us},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		/* Without AMD GPUs the other options have no effect. */
		bool matters =
			given[pairs[i].option - KFD_OPT_GPUS] &&
			(pairs[i].option == KFD_OPT_GPUS || asked->n_gpus > 0 || asked->no_gpu);
		if (matters && pairs[i].wanted != pairs[i].have) {
			return false;
		}
	}
	return true;
}

int kfd_parse_op(const char *text, uint32_t *ret)
{
	static const char *const names[] = {"enable", "disable", "send-runtime-event",
		"set-exceptions", "set-launch-override", "set-launch-mode", "suspend", "resume",
		"set-watch", "clear-watch", "set-flags", "query-event", "query-info", "snapshot",
		"device-snapshot"};
	uint64_t v = 0;

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret = i;
			return 0;
		}
	}
	if (rbt_parse_u64(text, 0, 255, &v) < 0) {
		rbt_error(
			"fault: --kfd-op wants an operation of DBG_TRAP (suspend, snapshot…), not '%s'",
			text);
		return -EINVAL;
	}
	*ret = (uint32_t)v;
	return 0;
}
