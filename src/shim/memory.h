/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory limits. RM_ALLOC of class NV_CLASS_MEMORY_LOCAL takes memory of a GPU, whichever CUDA
 * function it comes from. A call that would exceed the limit is answered with NV_ERR_NO_MEMORY in
 * the driver's place, and libcuda reports that the GPU is out of memory.
 *
 * The limit holds for each GPU, and for all processes of a run together: they count in a ledger
 * (board/ledger.h) that the daemon passes to them. Until it arrives, and without a daemon, a
 * process counts in a ledger of its own. Everything is counted from the start, also without a
 * limit, because a limit may be set later.
 *
 * This costs one system call. That matters: an allocation must not become a microsecond dearer.
 *
 * This part of the shim has a table and a lock of its own. The lock is held for some memory
 * accesses only, never during a system call that could wait, so threads do wait for it. Whatever
 * cannot be counted passes: the table is full, the GPU is unknown, the lock cannot be had.
 */
#ifndef RBT_SHIM_MEMORY_H
#define RBT_SHIM_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "board/ledger.h"

#define SHIM_MAX_ALLOCS        (1u << 17)
#define SHIM_ALLOC_HASH        (1u << 15)
#define SHIM_MAX_MEMORY_OWNERS 128u

struct shim;
struct shim_event;

struct shim_alloc {
	uint32_t client, handle, parent;
	uint32_t next; /* in its bucket, or in the list of free entries */
	uint64_t bytes;
	uint64_t serial : 56; /* order of recording */
	uint64_t gpu : 8;
};

/* A device or a subdevice, below which memory is allocated. */
struct shim_memory_owner {
	uint32_t client, handle;
	uint32_t device; /* its device; a device is its own */
	uint32_t gpu;    /* RM's number of the device, which is the same in all processes */
	uint32_t pci;    /* domain, bus and slot; UINT32_MAX: not asked yet, or unknown */
	uint64_t limit;  /* of this GPU alone (CUDA_DEVICE_MEMORY_LIMIT_N); UINT64_MAX: none */
};

struct shim_memory {
	_Atomic uintptr_t lock_owner; /* a thread, by the address of its own data; 0: free */
	_Atomic uint32_t n_owners;
	struct shim_memory_owner owners[SHIM_MAX_MEMORY_OWNERS];
	struct rbt_ledger *shared; /* NULL: `alone` is in use, with slot 0 */
	uint32_t slot;
	uint64_t serial;
	bool said_full;
	/* While the driver takes the program's memory away and brings it back (board/park.h): bytes
	 * that it has freed and not allocated again. They stay charged, so that no other process of
	 * the run can take them. */
	bool has_left;
	uint64_t kept[RBT_LEDGER_GPUS];
	struct rbt_ledger alone;
	/* entries[1 .. n_high] have been used */
	uint32_t n_high, first_free;
	uint32_t hash[SHIM_ALLOC_HASH];
	struct shim_alloc entries[SHIM_MAX_ALLOCS + 1]; /* 0 stands for none */
};

/* What a call of the program is about to take. */
struct shim_charge {
	uint64_t serial; /* when the call began */
	uint64_t bytes;  /* 0: nothing */
	uint32_t gpu, client, parent;
};

/* Before a call: whether it must not be made, because it would exceed the limit. Then it is
 * answered. Otherwise *ret has what was charged for it. May change errno. */
bool shim_memory_refuses(
	struct shim *s, int fd, unsigned long request, void *arg, struct shim_charge *ret);

/* After the call, which the driver has accepted if is_made: settles what was charged, and learns of
 * devices that were made and of objects that were freed. */
void shim_memory_after(struct shim *s, bool is_made, unsigned long request, const void *arg,
	const struct shim_event *ev, const struct shim_charge *charge);

/* A client is gone with all that it had. */
void shim_memory_drop_client(struct shim *s, uint32_t client);

/* Under the table's lock: counts in this ledger from now on. The fd is borrowed. 0 or -errno. */
int shim_memory_join(struct shim *s, int fd, uint32_t slot);

/* The limit and the use of a GPU, by its PCI address, for the whole run. An unknown GPU has no use.
 * Without a limit: false. */
bool shim_memory_state(uint32_t pci, uint64_t *ret_limit, uint64_t *ret_used);

/* memory_gpu.c: the GPU's PCI address, and its own limit from the environment. The driver is asked
 * on the program's device file. */
void shim_memory_identify(
	int fd, uint32_t client, uint32_t subdevice, uint32_t *ret_pci, uint64_t *ret_limit);

#define SHIM_PCI(domain, bus, slot)                                                                \
	((uint32_t)(domain) << 16 | ((uint32_t)(bus)&0xff) << 8 | ((uint32_t)(slot)&0xff))

#endif
