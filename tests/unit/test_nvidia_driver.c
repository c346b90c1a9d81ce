/* SPDX-License-Identifier: Apache-2.0 */
/* Driver versions and families, and what RM's statuses become. */
#include <errno.h>
#include <string.h>

#include "backend/nvidia/driver.h"
#include "backend/nvidia/rm.h"
#include "check.h"

static void check_version(const char *text, const char *version, uint32_t major, bool known)
{
	struct rbt_nv_driver d;

	CHECK_INT(rbt_nv_driver_parse(text, &d), 0);
	CHECK(strcmp(d.version, version) == 0);
	CHECK_INT(d.major, major);
	CHECK_INT(d.known, known);
	CHECK_INT(d.schedule_params_size, major < 575 ? 2 : 3);
	CHECK_INT(d.retries_schedule, major == 580);
}

static void test_parse(void)
{
	check_version(
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
		"  (dvs-builder@U22-I3)  Mon Jan  1 00:00:00 UTC 2026\n"
		"GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
		"580.159.04", 580, true);
	check_version(
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183  Sun May 12 19:39:15 UTC\n",
		"535.183", 535, true);
	check_version("575.51.02\n", "575.51.02", 575, true);
	check_version("570.86.15", "570.86.15", 570, true);
	check_version("515.43.04\n", "515.43.04", 515, false);
	check_version("595.44.02\n", "595.44.02", 595, true);
}

static void test_unknown_families(void)
{
	check_version("600.10\n", "600.10", 600, false);
	check_version("585.1.1\n", "585.1.1", 585, false);
	check_version("470.256.02\n", "470.256.02", 470, false);
	check_version("5800.1\n", "5800.1", 5800, false);
}

static void test_nonsense(void)
{
	static const char *const texts[] = {"", "\n", "NVRM version: none", "580", "580.", ".580.1",
		"580.1.2.3", "580.1x", "580..1", "v580.10", "1234567.10",
		"99999999999999999999999999999999999999999.1"};
	struct rbt_nv_driver d = {.major = 7};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		CHECK_INT(rbt_nv_driver_parse(texts[i], &d), -EBADMSG);
	}
	CHECK_INT(d.major, 7);
}

static void test_status(void)
{
	CHECK_INT(rbt_nv_status_to_errno(NV_OK), 0);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_INSUFFICIENT_PERMISSIONS), -EPERM);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_OBJECT_NOT_FOUND), -ENOENT);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_INVALID_CLIENT), -ENOENT);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_INVALID_OBJECT_HANDLE), -ENOENT);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_RESOURCE_LOST), -ENOENT);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_NOT_SUPPORTED), -EOPNOTSUPP);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_INVALID_ARGUMENT), -EINVAL);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_BUSY_RETRY), -EAGAIN);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_GPU_IS_LOST), -EIO);
	CHECK_INT(rbt_nv_status_to_errno(NV_ERR_TIMEOUT), -ETIMEDOUT);
	/* Whatever RM invents is an error, and never a positive number. */
	for (uint32_t status = 1; status < 0x10000; status++) {
		CHECK(rbt_nv_status_to_errno(status) < 0);
	}
	CHECK_INT(rbt_nv_status_to_errno(0xffffffff), -EIO);
}

int main(void)
{
	test_parse();
	test_unknown_families();
	test_nonsense();
	test_status();
	return check_result();
}
