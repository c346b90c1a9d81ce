/* SPDX-License-Identifier: Apache-2.0 */
/* `rubato doctor --program` reads files it cannot trust. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/cli.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct elf_facts facts;
	char path[32];

	if (fd < 0) {
		fd = memfd_create("elf", MFD_CLOEXEC);
	}
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size) {
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (elf_read(path, &facts) == 0) {
		elf_finish(&facts);
	}
	elf_is_static(path);
	return 0;
}
