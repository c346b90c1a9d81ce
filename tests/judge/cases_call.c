/* SPDX-License-Identifier: Apache-2.0 */
/* Every number of the interface: sizes, directions, pointers, and what is copied back. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "judge.h"

#define LONG_SIZE 1024
#define UNTOUCHED 0xa5

/*
 * One call with `size` bytes of zeroes (0xa5 for what the driver only writes), and more 0xa5 behind
 * them. Says the result, and the last byte that changed.
 */
static void try_size(
	const char *what, int fd, const struct judge_case *c, uint32_t dir, uint32_t size)
{
	uint8_t before[LONG_SIZE + 64], after[sizeof(before)];
	int last = -1;

	memset(before, UNTOUCHED, sizeof(before));
	if (c->dir != _IOC_READ) {
		memset(before, 0, size);
	}
	memcpy(after, before, sizeof(before));
	say_result(what, call(fd, _IOC(dir, KFD_IOCTL_TYPE, c->nr, size), after));
	for (int i = 0; i < (int)sizeof(before); i++) {
		last = before[i] != after[i] ? i : last;
	}
	if (last >= 0) {
		say("(to %d)", last);
	}
}

JUDGE_CASE(case_number)
{
	int fd = open_kfd();

	try_size("right", fd, self, self->dir, self->size);
	try_size("short", fd, self, self->dir, self->size > 4 ? self->size - 4 : 1);
	try_size("4", fd, self, _IOC_READ | _IOC_WRITE, 4);
	try_size("none", fd, self, _IOC_NONE, 0);
	try_size("no-direction", fd, self, _IOC_NONE, self->size);
	try_size("long", fd, self, self->dir, self->size + 8);
	try_size("1024", fd, self, _IOC_READ | _IOC_WRITE, LONG_SIZE);
	say_result("null", call(fd, _IOC(self->dir, KFD_IOCTL_TYPE, self->nr, self->size), NULL));
	say_result("null-none", call(fd, _IOC(_IOC_NONE, KFD_IOCTL_TYPE, self->nr, 0), NULL));
}

JUDGE_CASE(case_version)
{
	struct kfd_version v = {0};

	say_result("version", call(open_kfd(), KFD_IOC_GET_VERSION, &v));
	say("%u.%u", v.major, v.minor);
}

JUDGE_CASE(case_wrong_file)
{
	struct kfd_version v = {0};
	int fd = open_kfd(), events[2];

	make_pipe(events);
	say_result("no-file", call(-1, KFD_IOC_GET_VERSION, &v));
	say_result("pipe", call(events[0], KFD_IOC_GET_VERSION, &v));
	close(fd);
	say_result("closed", call(fd, KFD_IOC_GET_VERSION, &v));
}

static void *page(int protection)
{
	return mmap(NULL, (size_t)getpagesize(), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

JUDGE_CASE(case_bad_pointers)
{
	int fd = open_kfd();
	uint8_t *no = page(PROT_NONE), *ro = page(PROT_READ), *rw = page(PROT_READ | PROT_WRITE);
	uint8_t *end = mmap(NULL, 2 * (size_t)getpagesize(), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(end + getpagesize(), (size_t)getpagesize());
	end += getpagesize() - 4; /* four bytes, and then nothing */
	say_result("version-none", call(fd, KFD_IOC_GET_VERSION, no));
	say_result("version-readonly", call(fd, KFD_IOC_GET_VERSION, ro));
	say_result("version-end", call(fd, KFD_IOC_GET_VERSION, end));
	say_result("version-odd", call(fd, KFD_IOC_GET_VERSION, rw + 3));
	say_result("version-kernel", call(fd, KFD_IOC_GET_VERSION, (void *)0xffff888000000000ul));
	say_result("update-none", call(fd, KFD_IOC_UPDATE_QUEUE, no));
	say_result("update-readonly", call(fd, KFD_IOC_UPDATE_QUEUE, ro));
	/* Written back after the call, whatever came of it. */
	say_result("destroy-readonly", call(fd, KFD_IOC_DESTROY_QUEUE, ro));
	say_result("destroy-end", call(fd, KFD_IOC_DESTROY_QUEUE, end));
	say_result("runtime-readonly", call(fd, KFD_IOC_RUNTIME_ENABLE, ro));
	say_result("dbg-readonly", call(fd, KFD_IOC_DBG_TRAP, ro));
}

/* What a short argument lacks is zero, whatever stands in memory behind it. */
JUDGE_CASE(case_two_words)
{
	struct kfd_runtime_enable a = {.r_debug = 1, .mode_mask = KFD_RUNTIME_ENABLE_MODE};
	int fd = open_kfd();

	say_result("mode-cut-off",
		call(fd, _IOC(_IOC_READ | _IOC_WRITE, KFD_IOCTL_TYPE, KFD_NR_RUNTIME_ENABLE, 8),
			&a));
	say_result("first", runtime_enable(fd, KFD_RUNTIME_ENABLE_MODE, 0));
	say_result("second", runtime_enable(fd, KFD_RUNTIME_ENABLE_MODE, 0));
}

JUDGE_CASE(case_clock)
{
	struct kfd_clock_counters a = {.gpu_id = 77, .gpu = 1}, b = {0};
	int fd = open_kfd();

	say_result("clock", call(fd, KFD_IOC_CLOCK_COUNTERS, &a));
	pause_ms(2);
	say_result("clock", call(fd, KFD_IOC_CLOCK_COUNTERS, &b));
	say("gpu=%d hz=%lu cpu-goes=%d system-goes=%d", a.gpu != 0, (unsigned long)a.system_hz,
		b.cpu - a.cpu >= 2000000 && b.cpu - a.cpu < 10000000000,
		b.system - a.system >= 2000000 && b.system - a.system < 10000000000);
}

JUDGE_CASE(case_apertures_old)
{
	struct kfd_apertures_old a;

	memset(&a, UNTOUCHED, sizeof(a));
	say_result("apertures", call(open_kfd(), KFD_IOC_APERTURES_OLD, &a));
	say("n=%u", a.n);
	bool clear = a.pad == 0;
	for (size_t i = 0; i < sizeof(a.list); i++) {
		clear = clear && ((uint8_t *)a.list)[i] == 0;
	}
	say("clear=%d", clear);
}

JUDGE_CASE(case_apertures)
{
	struct kfd_aperture list[4];
	struct kfd_apertures a = {0};
	int fd = open_kfd();
	static const uint32_t rooms[] = {0, 1, 2, 3, 128, UINT32_MAX};

	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		a = (struct kfd_apertures){.list_ptr = (uintptr_t)list, .n = rooms[i]};
		char what[32];
		snprintf(what, sizeof(what), "room-%u", rooms[i]);
		say_result(what, call(fd, KFD_IOC_APERTURES, &a));
		say("n=%u", a.n);
	}
	a = (struct kfd_apertures){.list_ptr = 0, .n = 1};
	say_result("no-list", call(fd, KFD_IOC_APERTURES, &a));
	say("n=%u", a.n);
}
