/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/nvidia/driver.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "backend/nvidia/rm_abi.h"
#include "util/fd.h"

#define SYSFS_VERSION_PATH "/sys/module/nvidia/version"

/* The release branches whose public sources agree with rm_abi.h. Branches before 535, which are out
 * of support, have another layout of allocations: the shim would take refused ones for
 * successful. */
static const uint32_t known_branches[] = {535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595};

/* The branches whose libcuda was refused for a minute: 580.159.04 (CUDA 13.0, H200) repeats the
 * call every 100 ms at first and every 10 s later, and the context comes up when the call goes
 * through. */
static const uint32_t retrying_branches[] = {580};

static bool is_among(uint32_t major, const uint32_t *branches, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (branches[i] == major) {
			return true;
		}
	}
	return false;
}

/* Length of the version (digits.digits or digits.digits.digits, then white space) at s; 0: there is
 * none. */
static size_t version_length(const char *s)
{
	size_t len = 0;
	int groups = 0;

	for (;;) {
		size_t digits = strspn(s + len, "0123456789");
		if (digits == 0 || digits > 5) {
			return 0;
		}
		len += digits;
		groups++;
		if (s[len] != '.') {
			break;
		}
		len++;
	}
	bool ends = s[len] == '\0' || isspace((unsigned char)s[len]);
	return ends && (groups == 2 || groups == 3) ? len : 0;
}

/* At most five digits. Not strtoul(): this code is also in the preloaded library, and newer C
 * libraries give that function a version that older ones lack. */
static uint32_t leading_number(const char *s)
{
	uint32_t v = 0;

	for (; *s >= '0' && *s <= '9'; s++) {
		v = v * 10 + (uint32_t)(*s - '0');
	}
	return v;
}

int rbt_nv_driver_parse(const char *text, struct rbt_nv_driver *ret)
{
	struct rbt_nv_driver driver = {0};

	/* The first word of that form is the driver's version; the compiler's comes later. */
	while (*text != '\0') {
		text += strspn(text, " \t\r\n");
		size_t len = version_length(text);
		if (len >= sizeof(driver.version)) {
			return -EBADMSG;
		}
		if (len > 0) {
			memcpy(driver.version, text, len);
			driver.major = leading_number(driver.version);
			driver.known = is_among(driver.major, known_branches,
				sizeof(known_branches) / sizeof(known_branches[0]));
			driver.retries_schedule = is_among(driver.major, retrying_branches,
				sizeof(retrying_branches) / sizeof(retrying_branches[0]));
			driver.schedule_params_size = driver.major < 575
							      ? NV_SCHEDULE_PARAMS_SIZE_BEFORE_575
							      : NV_SCHEDULE_PARAMS_SIZE;
			*ret = driver;
			return 0;
		}
		text += strcspn(text, " \t\r\n");
	}
	return -EBADMSG;
}

int rbt_nv_driver_read(struct rbt_nv_driver *ret)
{
	static const char *const paths[] = {NV_VERSION_PATH, SYSFS_VERSION_PATH};
	char text[1024];

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (rbt_read_file(paths[i], text, sizeof(text)) > 0 &&
			rbt_nv_driver_parse(text, ret) == 0) {
			return 0;
		}
	}
	return -ENODEV;
}
