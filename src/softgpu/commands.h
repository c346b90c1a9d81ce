/* SPDX-License-Identifier: Apache-2.0 */
/* The sub-commands of rubato-softgpu. argv[0] is the sub-command's name; each returns an exit
 * status. */
#ifndef RBT_SOFTGPU_COMMANDS_H
#define RBT_SOFTGPU_COMMANDS_H

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_PERMISSION = 4, EXIT_NO_DEVICE = 5 };

extern const char help_exec[], help_state[], help_fault[], help_kill[];

int cmd_exec(int argc, char **argv);
int cmd_state(int argc, char **argv);
int cmd_fault(int argc, char **argv);
int cmd_kill(int argc, char **argv);

#endif
