/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the driver and its GPUs. Only /dev/nvidiactl is opened and no device object is made, so
 * that a sleeping GPU stays asleep.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/nvidia/driver.h"
#include "backend/nvidia/ops.h"
#include "backend/nvidia/rm.h"
#include "util/fd.h"
#include "util/proc.h"

#define MPS_SERVER       "nvidia-cuda-mps-server"
#define CAP_SYS_NICE_BIT 23

/* Copies the value of a "Key:   value" line; false: there is no such line. */
static bool find_value(const char *text, const char *key, char *ret, size_t size)
{
	size_t key_len = strlen(key);

	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, key_len) != 0 || line[key_len] != ':') {
			continue;
		}
		const char *value = line + key_len + 1;
		value += strspn(value, " \t");
		snprintf(ret, size, "%.*s", (int)strcspn(value, "\n"), value);
		return true;
	}
	return false;
}

/* Partitions appear as gi* below the GPU's capabilities; "config" and "monitor" exist in any
 * case. */
static bool has_mig_instances(uint32_t minor)
{
	char path[96];
	struct dirent *e;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/driver/nvidia/capabilities/gpu%u/mig", minor);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return false;
	}
	while (!found && (e = readdir(dir)) != NULL) {
		found = strncmp(e->d_name, "gi", 2) == 0;
	}
	closedir(dir);
	return found;
}

/* Returns whether the GPU runs without GSP firmware, which DISABLE_CHANNELS needs. */
static bool fill_gpu(const struct nv_card_info *card, struct rbt_gpu_info *gpu)
{
	char path[96], text[2048], firmware[64];

	gpu->gpu = card->minor_number;
	snprintf(gpu->pci, sizeof(gpu->pci), "%04x:%02x:%02x.%u", card->pci_domain & 0xffff,
		card->pci_bus, card->pci_slot, card->pci_function & 7u);
	gpu->mig = has_mig_instances(card->minor_number);
	gpu->valid = RBT_GPU_HAS_PCI | RBT_GPU_HAS_MIG;
	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", gpu->pci);
	if (rbt_read_file(path, text, sizeof(text)) <= 0) {
		return false;
	}
	if (find_value(text, "Model", gpu->name, sizeof(gpu->name)) && gpu->name[0] != '\0') {
		gpu->valid |= RBT_GPU_HAS_NAME;
	}
	return find_value(text, "GPU Firmware", firmware, sizeof(firmware)) &&
	       strncmp(firmware, "N/A", 3) == 0;
}

/* The kernel keeps 15 characters of a name. */
static bool is_named_mps(pid_t pid)
{
	char path[64], comm[32];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	return rbt_read_file(path, comm, sizeof(comm)) > 0 && strncmp(comm, MPS_SERVER, 15) == 0;
}

/* The server and the control program, which is its parent, have the same first 15 characters. The
 * command line would tell them apart, too, but it would be read from the memory of a process that
 * any user may name so. */
static int is_mps_server(pid_t pid, void *data)
{
	char path[64], exe[4096];
	pid_t parent;

	if (!is_named_mps(pid)) {
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	ssize_t n = readlink(path, exe, sizeof(exe) - 1);
	if (n < 0) {
		return rbt_proc_parent(pid, &parent) == 0 && is_named_mps(parent);
	}
	exe[n] = '\0';
	const char *base = strrchr(exe, '/');
	return strcmp(base != NULL ? base + 1 : exe, MPS_SERVER) == 0;
}

/* Only callers with CAP_SYS_NICE may set interleave levels. */
static bool may_be_nice(void)
{
	char text[4096], caps[32];

	return rbt_read_file("/proc/self/status", text, sizeof(text)) > 0 &&
	       find_value(text, "CapEff", caps, sizeof(caps)) &&
	       ((strtoull(caps, NULL, 16) >> CAP_SYS_NICE_BIT) & 1) != 0;
}

static void fill_caps(struct rbt_device_info *info, bool without_gsp)
{
	const char *why_not = "";

	info->caps = RBT_CAP_READ | RBT_CAP_STATS;
	if (!info->driver_known) {
		snprintf(info->why_not, sizeof(info->why_not),
			"driver %s is not known: reading only, unless forced",
			info->driver_version);
		return;
	}
	info->caps |= RBT_CAP_TIMESLICE | RBT_CAP_PREEMPT;
	if (may_be_nice()) {
		info->caps |= RBT_CAP_INTERLEAVE;
	} else {
		why_not = "interleave levels need CAP_SYS_NICE";
	}
	if (!without_gsp) {
		info->caps |= RBT_CAP_SUSPEND;
	} else {
		why_not = "a GPU runs without GSP firmware: its channels cannot be suspended";
	}
	snprintf(info->why_not, sizeof(info->why_not), "%s", why_not);
}

int rbt_nv_probe(struct rbt_device_info *ret)
{
	struct rbt_device_info info = {0};
	struct nv_card_info cards[NV_MAX_GPUS];
	struct rbt_nv_driver driver;
	bool without_gsp = false;

	int fd = rbt_nv_open_control();
	if (fd < 0) {
		return fd;
	}
	int r = rbt_nv_card_info(fd, cards);
	rbt_close(&fd);
	if (r < 0) {
		return r;
	}
	if (rbt_nv_driver_read(&driver) == 0) {
		memcpy(info.driver_version, driver.version, sizeof(info.driver_version));
		info.driver_known = driver.known;
	} else {
		snprintf(info.driver_version, sizeof(info.driver_version), "unknown");
	}
	for (size_t i = 0; i < NV_MAX_GPUS && info.n_gpus < RBT_MAX_GPUS; i++) {
		if (cards[i].valid) {
			without_gsp |= fill_gpu(&cards[i], &info.gpus[info.n_gpus++]);
		}
	}
	fill_caps(&info, without_gsp);
	info.mps_active = rbt_proc_each(is_mps_server, NULL) == 1;
	*ret = info;
	return 0;
}
