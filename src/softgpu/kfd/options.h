/* SPDX-License-Identifier: Apache-2.0 */
/* The AMD options of `exec` and `fault`. */
#ifndef RBT_SOFTGPU_KFD_OPTIONS_H
#define RBT_SOFTGPU_KFD_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>

#include "softgpu/kfd/kfd.h"

enum {
	KFD_OPT_GPUS = 0x4b00, /* distinct from the other options */
	KFD_OPT_NO_GPU,
	KFD_OPT_LENIENT,
	KFD_OPT_MINOR,
	KFD_OPT_GFX,
	KFD_OPT_PTRACE,
	KFD_OPT_ONE_DEBUGGER,
	KFD_OPT_PACKET,
	KFD_OPT_END,
};

/* clang-format off */
#define KFD_OPTIONS \
	{"amd-gpus", required_argument, NULL, KFD_OPT_GPUS}, \
	{"kfd-no-gpu", no_argument, NULL, KFD_OPT_NO_GPU}, \
	{"kfd-lenient", no_argument, NULL, KFD_OPT_LENIENT}, \
	{"kfd-minor", required_argument, NULL, KFD_OPT_MINOR}, \
	{"gfx", required_argument, NULL, KFD_OPT_GFX}, \
	{"kfd-ptrace", required_argument, NULL, KFD_OPT_PTRACE}, \
	{"kfd-one-debugger", no_argument, NULL, KFD_OPT_ONE_DEBUGGER}, \
	{"packet-us", required_argument, NULL, KFD_OPT_PACKET}
/* clang-format on */

#define KFD_OPTIONS_HELP                                                                           \
	"  --amd-gpus N        how many AMD GPUs beside them, 0 to 8: /dev/kfd, /sys/class/kfd\n"  \
	"                      (default 0)\n"                                                      \
	"  --kfd-no-gpu        /dev/kfd as their driver makes it where there are none\n"           \
	"  --kfd-minor N       version 1.N of their interface (default 17)\n"                      \
	"  --kfd-lenient       take arrays of any length, as kernels once did\n"                   \
	"  --gfx N             what they are: 90402 (default), 110000...\n"                        \
	"  --kfd-ptrace WHO    whom they take for a debugger: the `thread` that ptraces, or,\n"    \
	"                      once it began, any of its `process` (default from 1.23 on)\n"       \
	"  --kfd-one-debugger  allow one debugged process a GPU\n"                                 \
	"  --packet-us N       how long a packet in a queue runs (default 500)\n"

#define RBT_KFD_CONFIG_INIT                                                                        \
	((struct rbt_kfd_config){.minor = RBT_KFD_DEFAULT_MINOR,                                   \
		.gfx_target_version = RBT_KFD_DEFAULT_GFX,                                         \
		.packet_us = RBT_KFD_DEFAULT_PACKET_US})

/* Takes one of those. 0, or -EINVAL after a message. */
int kfd_take_option(struct rbt_kfd_config *config, int option, const char *value);

/* Whether a running server's configuration agrees with the options that were given. */
bool kfd_options_fit(const struct rbt_kfd_config *asked, const struct rbt_kfd_config *have);

/* `fault`: the operation of DBG_TRAP by its name or number. 0 or -EINVAL. */
int kfd_parse_op(const char *text, uint32_t *ret);

#endif
