/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory that is a shared mapping. The server needs the file behind it. The kernel does
 * not give a mapping's file to an ordinary user, so it is looked for among this process's open
 * files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "softgpu/cuda/front.h"

/* A part of the range: one mapping of one file. */
struct piece {
	uint64_t address, size, offset;
	dev_t device;
	ino_t inode;
};

typedef bool piece_fn(struct front_context *ctx, const struct piece *piece);

/* Calls fn for each mapping of the range, in order; false: fn returned false, or the range is not
 * made of shared mappings. */
static bool each_piece(struct front_context *ctx, uint64_t address, uint64_t size, piece_fn *fn)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t end = address + size;
	bool good = maps != NULL;
	char line[512];

	while (good && address < end && fgets(line, sizeof(line), maps) != NULL) {
		unsigned long from, to, offset, inode;
		unsigned major, minor;
		char rights[5];

		if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &from, &to, rights, &offset, &major,
			    &minor, &inode) != 7 ||
			to <= address) {
			continue;
		}
		struct piece piece = {.address = address,
			.size = (to < end ? to : end) - address,
			.offset = offset + (address - from),
			.device = makedev(major, minor),
			.inode = inode};

		good = from <= address && strcmp(rights, "rw-s") == 0 && inode != 0 &&
		       fn(ctx, &piece);
		address += piece.size;
	}
	if (maps != NULL) {
		fclose(maps);
	}
	return good && address >= end;
}

/* A file of this process that is the mapping's; -1: none is open. */
static int find_file(const struct piece *piece)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	int found = -1;

	while (dir != NULL && found < 0 && (entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);
		struct stat st;

		if (entry->d_name[0] != '.' && fstat(fd, &st) == 0 && st.st_ino == piece->inode &&
			st.st_dev == piece->device) {
			found = fd;
		}
	}
	if (dir != NULL) {
		closedir(dir);
	}
	return found;
}

static bool share_piece(struct front_context *ctx, const struct piece *piece)
{
	int fd = find_file(piece);

	return fd >= 0 &&
	       front_link_share(ctx, piece->address, piece->size, fd, piece->offset) == 0;
}

static bool unshare_piece(struct front_context *ctx, const struct piece *piece)
{
	(void)front_link_free(ctx, piece->address);
	return true;
}

bool front_share(struct front_context *ctx, uint64_t address, uint64_t size)
{
	if (each_piece(ctx, address, size, share_piece)) {
		return true;
	}
	/* Those that were shared before one was not. */
	(void)each_piece(ctx, address, size, unshare_piece);
	return false;
}

void front_unshare(struct front_context *ctx, uint64_t address, uint64_t size)
{
	(void)each_piece(ctx, address, size, unshare_piece);
}
