/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with which programs announce requests: include/rubato/rubato.h finds them by name. */
#include <stdint.h>

#include "shim/config.h"
#include "shim/hints.h"
#include "shim/submit.h"

__attribute__((visibility("default"))) int rubato_request_begin(uint64_t deadline_ns)
{
	if (!shim_config_active()) {
		return 0;
	}
	shim_submit_enable();
	shim_request_begin(deadline_ns);
	return 1;
}

__attribute__((visibility("default"))) void rubato_request_end(void)
{
	if (shim_config_active()) {
		shim_request_end();
	}
}
