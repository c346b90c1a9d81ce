/* SPDX-License-Identifier: Apache-2.0 */
/* Where the loader looks: its cache, whole and damaged, and its folders. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "util/libpath.h"

#define MAX_FOUND 8

struct found {
	unsigned n;
	const char *stop_at;
	char paths[MAX_FOUND][64];
};

static bool note(const char *path, void *data)
{
	struct found *f = data;

	if (f->n < MAX_FOUND) {
		strncpy(f->paths[f->n], path, sizeof(f->paths[0]) - 1);
	}
	f->n++;
	return f->stop_at != NULL && strcmp(path, f->stop_at) == 0;
}

static const char *const libs[][2] = {
	{"libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"},
	{"libcuda.so.10", "/usr/lib/libcuda.so.10"},
	{"libcuda.so.1", "/usr/lib32/libcuda.so.1"},
	{"libcuda.so.1", "not/absolute"},
	{"libm.so.6", "/usr/lib/libm.so.6"},
};
#define N_LIBS (sizeof(libs) / sizeof(libs[0]))

static void put32(unsigned char *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

/* A cache as ldconfig writes it; with another in front of it, as it did for long. */
static size_t make_cache(unsigned char *p, bool old)
{
	size_t start = old ? 16 + 12 * 3 + 4 : 0, at;

	memset(p, 0, 4096);
	if (old) {
		memcpy(p, "ld.so-1.7.0", 11);
		put32(p + 12, 3);
	}
	p += start;
	memcpy(p, "glibc-ld.so.cache1.1", 20);
	put32(p + 20, N_LIBS);
	at = 48 + 24 * N_LIBS;
	for (size_t i = 0; i < N_LIBS; i++) {
		unsigned char *entry = p + 48 + 24 * i;
		put32(entry + 4, (uint32_t)at);
		at += strlen(strcpy((char *)p + at, libs[i][0])) + 1;
		put32(entry + 8, (uint32_t)at);
		at += strlen(strcpy((char *)p + at, libs[i][1])) + 1;
	}
	return start + at;
}

static void caches_are_read(bool old)
{
	unsigned char cache[4096];
	size_t size = make_cache(cache, old);
	struct found f = {0};

	CHECK(!rbt_libpath_each_cached(cache, size, "libcuda.so.1", note, &f));
	CHECK_INT(f.n, 2);
	CHECK(strcmp(f.paths[0], libs[0][1]) == 0 && strcmp(f.paths[1], libs[2][1]) == 0);
	f = (struct found){.stop_at = libs[0][1]};
	CHECK(rbt_libpath_each_cached(cache, size, "libcuda.so.1", note, &f) && f.n == 1);
	f = (struct found){0};
	CHECK(!rbt_libpath_each_cached(cache, size, "libnone.so", note, &f) && f.n == 0);
}

/* Each in memory of its own size, for the sanitizer to see a step beyond. */
static void damaged_caches_are_survived(bool old)
{
	unsigned char cache[4096];
	size_t size = make_cache(cache, old);
	unsigned seed = 7;

	for (size_t cut = 0; cut < size; cut++) {
		unsigned char *copy = malloc(cut > 0 ? cut : 1);
		struct found f = {0};
		memcpy(copy, cache, cut);
		rbt_libpath_each_cached(copy, cut, "libcuda.so.1", note, &f);
		CHECK(f.n <= 2);
		free(copy);
	}
	for (int round = 0; round < 20000; round++) {
		unsigned char *copy = malloc(size);
		struct found f = {0};
		memcpy(copy, cache, size);
		for (int i = 0; i < 4; i++) {
			copy[(size_t)rand_r(&seed) % size] = (unsigned char)rand_r(&seed);
		}
		rbt_libpath_each_cached(copy, size, "libcuda.so.1", note, &f);
		CHECK(f.n <= N_LIBS);
		free(copy);
	}
}

static bool readable(const char *path, void *data)
{
	return path[0] == '/' && access(path, R_OK) == 0;
}

static void the_loaders_places_are_searched(void)
{
	static const int inside = 1;

	CHECK(rbt_libpath_each(&inside, "libc.so.6", readable, NULL));
	CHECK(!rbt_libpath_each(&inside, "librubato-none.so.9", readable, NULL));
	/* An address in nothing that was loaded. */
	CHECK(rbt_libpath_each((const void *)16, "libc.so.6", readable, NULL));
}

int main(void)
{
	caches_are_read(false);
	caches_are_read(true);
	damaged_caches_are_survived(false);
	damaged_caches_are_survived(true);
	the_loaders_places_are_searched();
	return check_result();
}
