/* SPDX-License-Identifier: Apache-2.0 */
/* The KFD tools under their own names: a separate program, which needs nothing but libc. */
#include <string.h>

#include "cli/cmd_kfd.h"

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		const struct command *cmd;
	} tools[] = {
		{"queue_monitor", &cmd_kfd_monitor},
		{"kfd_preemption_poc", &cmd_kfd_preempt},
		{"get_queue_info", &cmd_kfd_queues},
		{"rubato-kfd-check", &cmd_kfd_check},
	};

	cli_begin();
	for (size_t i = 0; argc > 0 && i < sizeof(tools) / sizeof(tools[0]); i++) {
		const char *slash = strrchr(argv[0], '/');
		if (strcmp(slash != NULL ? slash + 1 : argv[0], tools[i].name) == 0) {
			return cli_end(tools[i].cmd->run(argc, argv));
		}
	}
	/* Called by the file's own name: the same as `rubato kfd`. */
	return cli_end(cmd_kfd.run(argc, argv));
}
