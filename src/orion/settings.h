/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables; docs/environment.md explains them. */
#ifndef RBT_ORION_SETTINGS_H
#define RBT_ORION_SETTINGS_H

struct orion_config;

/* A value that is wrong is reported in a line on standard error, and the default is used. */
void orion_settings_read(int n_clients, struct orion_config *ret);

#endif
