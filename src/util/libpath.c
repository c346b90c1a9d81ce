/* SPDX-License-Identifier: Apache-2.0 */
/* Part of the stand-in for libcuda.so.1 as well: no symbol newer than GLIBC_2.17. */
#include "util/libpath.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CACHE_PATH "/etc/ld.so.cache"
/* Before glibc 2.32 the table came second, behind one for older loaders. */
#define OLD_MAGIC  "ld.so-1.7.0"
#define OLD_HEADER 16 /* with the number of entries in its last word */
#define OLD_ENTRY  12
#define MAGIC      "glibc-ld.so.cache1.1"
#define MAX_CACHE  (64 << 20)
#define MAX_PATH   4096
#define MAX_LIST   65536

/* On newer systems these functions have newer versions, in another library. */
#if defined(__x86_64__)
__asm__(".symver dladdr1, dladdr1@GLIBC_2.3.3");
__asm__(".symver dlinfo, dlinfo@GLIBC_2.3.3");
#elif defined(__aarch64__)
__asm__(".symver dladdr1, dladdr1@GLIBC_2.17");
__asm__(".symver dlinfo, dlinfo@GLIBC_2.17");
#endif

struct cache_header {
	char magic[20];
	uint32_t n_entries, strings_size;
	uint32_t more[5];
};

struct cache_entry {
	uint32_t flags, name, path; /* offsets of strings from the header */
	uint32_t os_version;
	uint64_t hwcap;
};

/* A string within the file, or NULL. */
static const char *string_at(const char *p, size_t size, uint32_t at)
{
	size_t room = at < size ? size - at : 0;

	room = room < MAX_PATH ? room : MAX_PATH;
	return room > 0 && memchr(p + at, '\0', room) != NULL ? p + at : NULL;
}

/* The offset of the table; size: there is none. */
static size_t find_table(const char *p, size_t size)
{
	size_t at = 0;

	if (size >= OLD_HEADER && memcmp(p, OLD_MAGIC, sizeof(OLD_MAGIC) - 1) == 0) {
		uint32_t n;
		memcpy(&n, p + OLD_HEADER - sizeof(n), sizeof(n));
		at = OLD_HEADER + (size_t)n * OLD_ENTRY;
		at = (at + 7) & ~(size_t)7;
	}
	if (at > size || size - at < sizeof(struct cache_header) ||
		memcmp(p + at, MAGIC, sizeof(MAGIC) - 1) != 0) {
		return size;
	}
	return at;
}

bool rbt_libpath_each_cached(const void *cache, size_t size, const char *soname,
	bool (*found)(const char *path, void *data), void *data)
{
	size_t at = find_table(cache, size);
	const char *p = (const char *)cache + at;
	struct cache_header h;

	if (at == size) {
		return false;
	}
	size -= at;
	memcpy(&h, p, sizeof(h));
	if (h.n_entries > (size - sizeof(h)) / sizeof(struct cache_entry)) {
		return false;
	}
	for (uint32_t i = 0; i < h.n_entries; i++) {
		struct cache_entry e;
		memcpy(&e, p + sizeof(h) + i * sizeof(e), sizeof(e));
		const char *name = string_at(p, size, e.name);
		const char *path = string_at(p, size, e.path);
		if (name != NULL && path != NULL && path[0] == '/' && strcmp(name, soname) == 0 &&
			found(path, data)) {
			return true;
		}
	}
	return false;
}

static bool look_in_cache(
	const char *soname, bool (*found)(const char *path, void *data), void *data)
{
	int fd = open(CACHE_PATH, O_RDONLY | O_CLOEXEC);
	bool done = false;

	if (fd < 0) {
		return false;
	}
	/* Not fstat(), which old C libraries lack under that name. ldconfig replaces the file, and
	 * never shortens one that is in use. */
	off_t size = lseek(fd, 0, SEEK_END);
	void *p = size > 0 && size < MAX_CACHE
			  ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0)
			  : MAP_FAILED;
	close(fd);
	if (p != MAP_FAILED) {
		done = rbt_libpath_each_cached(p, (size_t)size, soname, found, data);
		munmap(p, (size_t)size);
	}
	return done;
}

static bool look_in_folder(const char *folder, const char *soname,
	bool (*found)(const char *path, void *data), void *data)
{
	char path[MAX_PATH];
	size_t len = strlen(folder), name_len = strlen(soname);

	if (len == 0 || len + 1 + name_len >= sizeof(path)) {
		return false;
	}
	memcpy(path, folder, len + 1);
	path[len] = '/';
	memcpy(path + len + 1, soname, name_len + 1);
	return found(path, data);
}

static bool look_in_folders(const Dl_serinfo *list, bool defaults, const char *soname,
	bool (*found)(const char *path, void *data), void *data)
{
	for (unsigned i = 0; i < list->dls_cnt; i++) {
		const Dl_serpath *p = &list->dls_serpath[i];
		if (((p->dls_flags & LA_SER_DEFAULT) != 0) == defaults &&
			look_in_folder(p->dls_name, soname, found, data)) {
			return true;
		}
	}
	return false;
}

bool rbt_libpath_each(const void *inside, const char *soname,
	bool (*found)(const char *path, void *data), void *data)
{
	/* The loader's own search path: the environment may have changed since it started. */
	static union {
		Dl_serinfo list;
		char room[MAX_LIST];
	} known;
	struct link_map *self = NULL;
	Dl_info info;
	bool listed = dladdr1(inside, &info, (void **)&self, RTLD_DL_LINKMAP) != 0 &&
		      self != NULL && dlinfo(self, RTLD_DI_SERINFOSIZE, &known.list) == 0 &&
		      known.list.dls_size <= sizeof(known) &&
		      dlinfo(self, RTLD_DI_SERINFO, &known.list) == 0;

	return (listed && look_in_folders(&known.list, false, soname, found, data)) ||
	       look_in_cache(soname, found, data) ||
	       (listed && look_in_folders(&known.list, true, soname, found, data));
}
