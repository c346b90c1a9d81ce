/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the preloaded library adds to one ioctl: libc's own ioctl against the one that programs get,
 * in alternating batches of the same run. The calls go to /dev/null, which refuses them all, so
 * that what is timed is the way there and back; an ioctl that the library does not know must cost
 * next to nothing, and one of the driver's type may cost what looking at it costs.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/nvidia/rm_abi.h"
#include "median.h"
#include "util/time.h"

#define BATCH  20000
#define ROUNDS 101

static double time_batch_ns(int (*fn)(int, unsigned long, ...), int fd, unsigned long request)
{
	struct nv_control arg = {.cmd = NV_CTRL_TSG_GET_INFO};
	uint64_t start_ns = rbt_now_ns();

	for (int i = 0; i < BATCH; i++) {
		if (fn(fd, request, &arg) == 0) {
			fprintf(stderr, "shim_overhead: /dev/null accepted an ioctl\n");
			exit(1);
		}
	}
	return (double)(rbt_now_ns() - start_ns) / BATCH;
}

int main(void)
{
	static const struct {
		const char *name;
		unsigned long request;
	} cases[] = {
		{"other", _IOWR('T', 0x2a, struct nv_control)},
		{"driver", NV_IOCTL_CONTROL},
	};
	int (*plain)(int, unsigned long, ...), (*seen)(int, unsigned long, ...);
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (libc == NULL || fd < 0) {
		fprintf(stderr, "shim_overhead: cannot find libc or open /dev/null\n");
		return 1;
	}
	*(void **)&plain = dlsym(libc, "ioctl");
	*(void **)&seen = dlsym(RTLD_DEFAULT, "ioctl");
	if (plain == NULL || seen == NULL || plain == seen) {
		fprintf(stderr,
			"shim_overhead: no preloaded library: run with LD_PRELOAD=librubato.so\n");
		return 1;
	}
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		static double plain_ns[ROUNDS], seen_ns[ROUNDS], ratio[ROUNDS];

		for (int i = 0; i < ROUNDS; i++) {
			plain_ns[i] = time_batch_ns(plain, fd, cases[c].request);
			seen_ns[i] = time_batch_ns(seen, fd, cases[c].request);
			ratio[i] = seen_ns[i] / plain_ns[i];
		}
		printf("{\"ioctl\": \"%s\", \"plain_ns\": %.1f, \"preloaded_ns\": %.1f, \"ratio\": %.4f}\n",
			cases[c].name, median(plain_ns, ROUNDS), median(seen_ns, ROUNDS),
			median(ratio, ROUNDS));
	}
	return 0;
}
