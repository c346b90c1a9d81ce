/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/vm.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/runtime.h"

bool rbt_vm_name_is_valid(const char *name)
{
	const size_t n = strlen(name);

	if (n == 0 || n > RBT_VM_NAME_MAX || !isalnum((unsigned char)name[0])) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)name[i]) && strchr("._-", name[i]) == NULL) {
			return false;
		}
	}
	return true;
}

int rbt_vm_qemu_path(const char *name, char *buf, size_t size)
{
	char dir[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int error = rbt_runtime_dir(geteuid(), dir, sizeof(dir));

	if (error < 0) {
		return error;
	}
	int n = snprintf(buf, size, "%s/vm-%s.qemu", dir, name);
	return n < 0 || (size_t)n >= size || (size_t)n >= sizeof(dir) ? -ENAMETOOLONG : 0;
}
