/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPU a device of RM is. CUDA_DEVICE_MEMORY_LIMIT_N names GPUs as CUDA numbers them for the
 * program: the driver's cards in the order of their PCI addresses, as far as CUDA_VISIBLE_DEVICES
 * has them. RM's own numbers differ from these.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/shim.h"

static uint32_t pci_of(const struct nv_card_info *card)
{
	return SHIM_PCI(card->pci_domain, card->pci_bus, card->pci_slot);
}

/* The place of the card among those that this process can open. */
static int place_of(const struct nv_card_info *cards, const struct nv_card_info *card)
{
	int n = 0;

	for (size_t i = 0; i < NV_MAX_GPUS; i++) {
		if (!cards[i].valid || pci_of(&cards[i]) >= pci_of(card)) {
			continue;
		}
		int fd = shim_raw_open_gpu(cards[i].minor_number);
		if (fd >= 0) {
			shim_sys_close(fd);
			n++;
		}
	}
	return n;
}

/* The place of `number` in a list of numbers; -1: the list has it not, or has other things. */
static int place_in(const char *list, int number)
{
	for (int i = 0; *list != '\0'; i++) {
		int v = 0, n = 0;

		for (; *list >= '0' && *list <= '9' && v < 1000; list++, n++) {
			v = v * 10 + (*list - '0');
		}
		if (n == 0 || (*list != ',' && *list != '\0')) {
			return -1;
		}
		if (v == number) {
			return i;
		}
		list += *list == ',';
	}
	return -1;
}

/* If the variable names GPUs in another way, the smallest limit holds for all of them. */
static uint64_t smallest_limit(void)
{
	uint64_t limit = UINT64_MAX;

	for (int i = 0; i < SHIM_GPU_LIMITS; i++) {
		uint64_t v = shim_config.gpu_limits[i];
		limit = v != 0 && v < limit ? v : limit;
	}
	return limit;
}

static uint64_t limit_of_card(const struct nv_card_info *cards, const struct nv_card_info *card)
{
	const char *visible = secure_getenv("CUDA_VISIBLE_DEVICES");
	int n = place_of(cards, card);

	if (visible != NULL && visible[0] != '\0') {
		n = place_in(visible, n);
	}
	if (n < 0) {
		return smallest_limit();
	}
	uint64_t v = n < SHIM_GPU_LIMITS ? shim_config.gpu_limits[n] : 0;
	return v != 0 ? v : UINT64_MAX;
}

void shim_memory_identify(
	int fd, uint32_t client, uint32_t subdevice, uint32_t *ret_pci, uint64_t *ret_limit)
{
	struct nv_card_info cards[NV_MAX_GPUS];
	struct nv_gpu_id_params id = {0};
	struct nv_control ctl = {
		.client = client,
		.object = subdevice,
		.cmd = NV_CTRL_GPU_GET_ID,
		.params = (uintptr_t)&id,
		.params_size = sizeof(id),
	};

	memset(cards, 0, sizeof(cards));
	if (shim_raw_ioctl(fd, NV_IOCTL_CONTROL, &ctl) != 0 || ctl.status != NV_OK ||
		shim_raw_ioctl(fd, NV_IOCTL_CARD_INFO, cards) != 0) {
		return;
	}
	for (size_t i = 0; i < NV_MAX_GPUS; i++) {
		if (cards[i].valid && cards[i].gpu_id == id.gpu_id) {
			*ret_pci = pci_of(&cards[i]);
			*ret_limit = shim_config.has_gpu_limits ? limit_of_card(cards, &cards[i])
								: UINT64_MAX;
		}
	}
}
