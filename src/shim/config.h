/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_SHIM_CONFIG_H
#define RBT_SHIM_CONFIG_H

#include <stdbool.h>

/* Whether this program was started by `rubato run`. Reads the environment at first use. */
bool shim_config_active(void);

#endif
