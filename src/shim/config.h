/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_SHIM_CONFIG_H
#define RBT_SHIM_CONFIG_H

#include <stdbool.h>

/* Reads the environment at first use. Whether this program was started by `rubato run`. */
bool shim_config_active(void);

#endif
