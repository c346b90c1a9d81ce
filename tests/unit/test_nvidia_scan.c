/* SPDX-License-Identifier: Apache-2.0 */
/* Which words of a program's memory are taken for handles, and in which order; which memory is
 * read. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/nvidia/memory.h"
#include "backend/nvidia/scan.h"
#include "check.h"
#include "util/time.h"

#define N 4096
static uint32_t words[N];

static struct rbt_nv_scan *scan_of(const uint32_t *w, size_t n)
{
	struct rbt_nv_scan *scan = NULL;

	CHECK_INT(rbt_nv_scan_create(&scan), 0);
	rbt_nv_scan_feed(scan, w, n, false);
	return scan;
}

static void test_company_beats_frequency(void)
{
	struct rbt_nv_candidate best[8];

	memset(words, 0, sizeof(words));
	for (size_t i = 0; i < 1000; i++) {
		words[i] = 0xc1d00000; /* the float -26, in a tensor */
	}
	words[2000] = 0xc1d00123;
	words[2003] = 0x5c000002;
	words[3000] = 0xc1d00055; /* seen more often, but alone */
	words[3500] = 0xc1d00055;
	struct rbt_nv_scan *scan = scan_of(words, N);
	size_t n = rbt_nv_scan_clients(scan, 0xc1d00200, best, 8);
	CHECK_INT(n, 3);
	CHECK_INT(best[0].handle, 0xc1d00123);
	CHECK_INT(best[0].neighbours, 1);
	CHECK_INT(best[1].handle, 0xc1d00000);
	CHECK_INT(best[1].count, 1000);
	CHECK_INT(best[2].handle, 0xc1d00055);
	/* No more than asked for, and those are the best. */
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1d00200, best, 1), 1);
	CHECK_INT(best[0].handle, 0xc1d00123);
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1d00200, best, 0), 0);
	rbt_nv_scan_destroy(scan);
}

static void test_window(void)
{
	struct rbt_nv_candidate best[8];

	memset(words, 0, sizeof(words));
	words[100] = 0xc1d00001;
	words[116] = 0x5c000010; /* the farthest neighbour */
	words[200] = 0xc1d00002;
	words[217] = 0x5c000011; /* one too far */
	words[300] = 0xc1d00003;
	words[299] = 0x5cabcdef; /* close, but its number is not low */
	struct rbt_nv_scan *scan = scan_of(words, N);
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1d00200, best, 8), 3);
	CHECK_INT(best[0].handle, 0xc1d00001);
	CHECK_INT(best[0].neighbours, 1);
	CHECK_INT(best[1].neighbours, 0);
	CHECK_INT(best[2].neighbours, 0);
	/* In libcuda's own memory a handle is in company by itself. */
	rbt_nv_scan_feed(scan, &words[200], 1, true);
	rbt_nv_scan_feed(scan, &words[200], 1, true);
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1d00200, best, 8), 3);
	CHECK_INT(best[0].handle, 0xc1d00002);
	CHECK_INT(best[0].neighbours, 2);
	rbt_nv_scan_destroy(scan);
}

static void test_edges_of_a_buffer(void)
{
	struct rbt_nv_candidate best[8];
	/* Exactly as large as what is fed: a look over the edge
	 * is seen by the address sanitizer. */
	uint32_t *w = calloc(35, sizeof(*w));

	CHECK(w != NULL);
	w[0] = 0xc1d00001;
	w[1] = 0x5c000001;
	w[33] = 0x5c000002;
	w[34] = 0xc1d00002;
	struct rbt_nv_scan *scan = scan_of(w, 35);
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1d00200, best, 8), 2);
	CHECK_INT(best[0].neighbours, 1);
	CHECK_INT(best[1].neighbours, 1);
	rbt_nv_scan_feed(scan, w, 1, false);
	rbt_nv_scan_feed(scan, w, 0, false);
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1d00200, best, 8), 2);
	CHECK_INT(best[0].handle, 0xc1d00001);
	CHECK_INT(best[0].count, 2);
	CHECK_INT(best[0].neighbours, 1);
	rbt_nv_scan_destroy(scan);
	free(w);
}

static void test_top(void)
{
	struct rbt_nv_candidate best[8];

	memset(words, 0, sizeof(words));
	words[100] = 0xc1d00300;
	words[101] = 0x5c000001;
	for (size_t i = 0; i < 4; i++) { /* from before the numbers started again: strong company */
		words[1000 + 100 * i] = 0xc1dfff00;
		words[1001 + 100 * i] = 0x5c000001;
	}
	words[2000] = 0xc1d00100;
	struct rbt_nv_scan *scan = scan_of(words, N);
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1d00200, best, 8), 2);
	CHECK_INT(best[0].handle, 0xc1dfff00);
	CHECK_INT(best[1].handle, 0xc1d00100);
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1dfffff, best, 8), 3);
	rbt_nv_scan_destroy(scan);
}

static void test_objects(void)
{
	uint32_t objects[8];

	memset(words, 0, sizeof(words));
	words[10] = 0x5c000007;
	words[11] = 0x5c200000;
	words[12] = 0x5c200000;
	words[500] = 0xc1d00001;
	words[501] = 0x5c300000;
	words[600] = 0x5c000000; /* text, more likely */
	words[700] = 0x5cffffff;
	struct rbt_nv_scan *scan = scan_of(words, N);
	CHECK_INT(rbt_nv_scan_objects(scan, 0x5c000000, objects, 8), 4);
	CHECK_INT(objects[0], 0x5c300000); /* beside a client */
	CHECK_INT(objects[1], 0x5c000007);
	CHECK_INT(objects[2], 0x5c200000);
	CHECK_INT(objects[3], 0x5cffffff);
	CHECK_INT(rbt_nv_scan_objects(scan, 0x5c001000, objects, 8), 3);
	CHECK_INT(rbt_nv_scan_objects(scan, 0x5c001000, objects, 2), 2);
	rbt_nv_scan_destroy(scan);
}

/* A tensor of random bits must not bring more than chance hits above the real client. */
static void test_random_bits(void)
{
	enum { RANDOM_WORDS = 4 << 20 };
	struct rbt_nv_candidate best[8];
	uint32_t *w = malloc(RANDOM_WORDS * sizeof(*w)), x = 0x12345678;

	CHECK(w != NULL);
	for (size_t i = 0; i < RANDOM_WORDS; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		w[i] = x;
	}
	for (size_t i = 0; i < 3; i++) {
		w[1000 * i] = 0xc1d1d2d3;
		w[1000 * i + 1] = 0x5c000003;
	}
	struct rbt_nv_scan *scan = scan_of(w, RANDOM_WORDS);
	CHECK(rbt_nv_scan_clients(scan, 0xc1dfffff, best, 8) > 0);
	CHECK_INT(best[0].handle, 0xc1d1d2d3);
	rbt_nv_scan_destroy(scan);
	free(w);
}

static const char maps_text[] =
	"55d000000000-55d000001000 r--p 00000000 08:01 11 /usr/bin/my program\n"
	"55d000001000-55d000003000 rw-p 00001000 08:01 11 /usr/bin/my program\n"
	"55d000003000-55d000004000 rw-p 00000000 00:00 0 \n"
	"55d000100000-55d000200000 rw-p 00000000 00:00 0                          [heap]\n"
	"7f0000000000-7f0040000000 rw-p 00000000 00:00 0 \n"
	"7f0050000000-7f0050100000 rw-p 00000000 00:00 0 \n"
	"7f0060000000-7f0060100000 rw-s 00000000 00:06 5 /dev/nvidia0\n"
	"7f0070000000-7f0070100000 ---p 00000000 00:00 0 \n"
	"7f0080000000-7f0080100000 r-xp 00000000 08:01 12 /usr/lib/libcuda.so.580.159.04\n"
	"7f0080100000-7f0080110000 rw-p 00100000 08:01 12 /usr/lib/libcuda.so.580.159.04\n"
	"7f0080110000-7f0080190000 rw-p 00000000 00:00 0 \n"
	"7f0080200000-7f0080210000 rw-p 00000000 08:01 13 /usr/lib/libother.so\n"
	"7f0080210000-7f0080220000 rw-p 00000000 00:00 0 \n"
	"7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n"
	"nonsense\n"
	"7f-zz rw-p\n";

static void test_regions(void)
{
	struct rbt_nv_region *r = NULL;
	size_t n = 0;
	FILE *f = fmemopen((void *)maps_text, strlen(maps_text), "r");

	CHECK(f != NULL);
	CHECK_INT(rbt_nv_regions_parse(f, NULL, "/usr/bin/my program", &r, &n), 0);
	fclose(f);
	CHECK_INT(n, 8);
	/* libcuda's data and .bss, the executable's .bss and data: by size. */
	CHECK_INT(r[0].start, 0x7f0080100000);
	CHECK_INT(r[1].start, 0x7f0080110000);
	CHECK_INT(r[1].place, RBT_NV_PLACE_LIBCUDA);
	CHECK_INT(r[2].start, 0x55d000003000);
	CHECK_INT(r[3].start, 0x55d000001000);
	CHECK_INT(r[3].place, RBT_NV_PLACE_PROGRAM);
	CHECK_INT(r[4].start, 0x55d000100000);
	CHECK_INT(r[4].place, RBT_NV_PLACE_HEAP);
	/* The rest, smallest first. */
	CHECK_INT(r[5].start, 0x7f0080210000);
	CHECK_INT(r[5].place, RBT_NV_PLACE_OTHER);
	CHECK_INT(r[6].start, 0x7f0050000000);
	CHECK_INT(r[7].start, 0x7f0000000000);
	CHECK_INT(r[7].end, 0x7f0040000000);
	free(r);
}

static const char fuse_maps_text[] =
	"7f0010000000-7f0010010000 rw-p 00000000 00:2a 2 /home/x/mnt/libcuda.so.1\n"
	"7f0010010000-7f0010020000 rw-p 00000000 00:00 0 \n"
	"7f0020000000-7f0020010000 rw-p 00000000 00:2b 2 /home/y/libcuda.so.1\n"
	"7f0030000000-7f0030010000 rw-p 00000000 00:2c 2 /gone/libcuda.so.1\n"
	"7f0040000000-7f0040010000 rw-p 00000000 fe:01 2 /usr/lib/libcuda.so.1\n"
	"7f0050000000-7f0050010000 rw-p 00000000 08:11 2 /media/libcuda.so.1\n";

static const char mounts_text[] =
	"22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
	"31 22 0:42 / /home/x/mnt rw,nosuid shared:9 master:2 - fuse.sshfs none rw,user_id=7\n"
	"32 22 0:43 / /home/y rw - overlay overlay rw\n"
	"33 22 8:17 / /media rw - fuseblk /dev/sdb1 rw\n"
	"nonsense\n";

/* What a file system in user space would have to answer for is not read; its .bss is. */
static void test_regions_of_files(void)
{
	struct rbt_nv_region *r = NULL;
	size_t n = 0;
	FILE *maps = fmemopen((void *)fuse_maps_text, strlen(fuse_maps_text), "r");
	FILE *mounts = fmemopen((void *)mounts_text, strlen(mounts_text), "r");

	CHECK(maps != NULL && mounts != NULL);
	CHECK_INT(rbt_nv_regions_parse(maps, mounts, "/usr/bin/x", &r, &n), 0);
	fclose(maps);
	fclose(mounts);
	CHECK_INT(n, 3);
	CHECK_INT(r[0].start, 0x7f0010010000);
	CHECK_INT(r[1].start, 0x7f0020000000);
	CHECK_INT(r[2].start, 0x7f0040000000);
	free(r);
}

/* Reads this very process: the words below must be found
 * where they are (nobody here reads them). */
static volatile uint32_t planted[64];

static void test_memory(void)
{
	struct rbt_nv_candidate best[4];
	struct rbt_nv_memory mem;
	struct rbt_nv_scan *scan = NULL;
	uint64_t later = rbt_now_ns() + 60 * RBT_NS_PER_S;

	memset(words, 0, sizeof(words)); /* what other tests planted */
	for (size_t i = 0; i < sizeof(planted) / sizeof(planted[0]); i += 2) {
		planted[i] = 0xc1d0f00d;
		planted[i + 1] = 0x5c000001;
	}
	CHECK_INT(rbt_nv_memory_init(&mem, getpid()), 0);
	CHECK_INT(rbt_nv_scan_create(&scan), 0);
	CHECK_INT(rbt_nv_memory_scan(&mem, RBT_NV_PLACE_HEAP, 0, later, scan), 0);
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1dfffff, best, 4), 0);
	CHECK_INT(rbt_nv_memory_scan(&mem, RBT_NV_PLACE_HEAP, UINT64_MAX, 0, scan), 0);
	CHECK_INT(rbt_nv_scan_clients(scan, 0xc1dfffff, best, 4), 0);
	CHECK_INT(rbt_nv_memory_scan(&mem, RBT_NV_PLACE_HEAP, UINT64_MAX, later, scan), 0);
	CHECK(rbt_nv_scan_clients(scan, 0xc1dfffff, best, 4) >= 1);
	CHECK_INT(best[0].handle, 0xc1d0f00d);
	CHECK(best[0].neighbours >= sizeof(planted) / sizeof(planted[0]) / 2);
	rbt_nv_memory_finish(&mem);
	rbt_nv_memory_finish(&mem);
	rbt_nv_scan_destroy(scan);
	rbt_nv_scan_destroy(NULL);
}

int main(void)
{
	test_company_beats_frequency();
	test_window();
	test_edges_of_a_buffer();
	test_top();
	test_objects();
	test_random_bits();
	test_regions();
	test_regions_of_files();
	test_memory();
	return check_result();
}
