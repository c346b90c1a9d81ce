/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the amdgpu driver's /dev/kfd interface that is used here, from public facts. Systems
 * ship headers that are older than the debugger interface (1.13), so none of them is included.
 *
 * The driver accepts an argument of any size: missing fields are zero, additional ones are ignored.
 * So one layout, the newest, works for every version; comments say which fields older versions
 * lack.
 */
#ifndef RBT_BACKEND_AMD_KFD_ABI_H
#define RBT_BACKEND_AMD_KFD_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define KFD_PATH       "/dev/kfd"
#define KFD_IOCTL_TYPE 'K'

#define KFD_MAJOR                 1
#define KFD_MINOR_EXPORT          12u /* EXPORT_DMABUF */
#define KFD_MINOR_DEBUGGER        13u /* DBG_TRAP, RUNTIME_ENABLE */
#define KFD_MINOR_SDMA_ENGINE     17u /* CREATE_QUEUE's last two words */
#define KFD_MINOR_CREATE_PROCESS  19u
#define KFD_MINOR_CAPABILITY2     21u /* the device entry's last two words */
#define KFD_MINOR_METADATA        22u /* metadata_ring_size */
#define KFD_MINOR_PROFILER        23u
#define KFD_MINOR_LATE_RULES      23u  /* the latest version with Linux 7.2's rules on debuggers */
#define KFD_MAX_QUEUES            1024 /* per process, and ids per call */
#define KFD_DEVICE_ENTRY_OLD_SIZE 120
#define KFD_MAX_PERCENTAGE        100
#define KFD_MAX_PRIORITY          15
#define KFD_MIN_RING_SIZE         1024 /* smaller sizes are rounded up to it */
#define KFD_OLD_APERTURES         7    /* entries of GET_PROCESS_APERTURES */
#define KFD_ERRNO_NOT_SUPPORTED   524  /* the kernel's ENOTSUPP reaches user space unchanged */

struct kfd_version {
	uint32_t major, minor;
};

enum kfd_queue_type {
	KFD_QUEUE_COMPUTE = 0, /* PM4 packets */
	KFD_QUEUE_SDMA = 1,
	KFD_QUEUE_COMPUTE_AQL = 2,
	KFD_QUEUE_SDMA_XGMI = 3,
	KFD_QUEUE_SDMA_BY_ENGINE = 4, /* requests an engine; reads as SDMA afterwards */
};

struct kfd_create_queue {
	uint64_t ring_base_address, write_pointer_address, read_pointer_address;
	uint64_t doorbell_offset; /* out */
	uint32_t ring_size;       /* bytes; 0 or a power of two */
	uint32_t gpu_id, queue_type;
	uint32_t queue_percentage; /* low byte; the next one chooses a partition */
	uint32_t queue_priority;
	uint32_t queue_id; /* out */
	uint64_t eop_buffer_address, eop_buffer_size;
	uint64_t ctx_save_restore_address;
	uint32_t ctx_save_restore_size, ctl_stack_size;
	uint32_t sdma_engine_id, metadata_ring_size; /* from 1.17 */
};
static_assert(sizeof(struct kfd_create_queue) == 96, "KFD ABI");
static_assert(offsetof(struct kfd_create_queue, ctx_save_restore_address) == 72, "KFD ABI");

struct kfd_destroy_queue {
	uint32_t queue_id, pad;
};

/* Every call sets ring base and size. A percentage of 0 takes the queue off. */
struct kfd_update_queue {
	uint64_t ring_base_address;
	uint32_t queue_id, ring_size, queue_percentage, queue_priority;
};
static_assert(sizeof(struct kfd_update_queue) == 24, "KFD ABI");

struct kfd_set_cu_mask {
	uint32_t queue_id, n_bits;
	uint64_t mask_ptr;
};
static_assert(sizeof(struct kfd_set_cu_mask) == 16, "KFD ABI");

struct kfd_clock_counters {
	uint64_t gpu, cpu, system, system_hz;
	uint32_t gpu_id, pad;
};
static_assert(sizeof(struct kfd_clock_counters) == 40, "KFD ABI");

struct kfd_aperture {
	uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
	uint32_t gpu_id, pad;
};
static_assert(sizeof(struct kfd_aperture) == 56, "KFD ABI");

struct kfd_apertures_old {
	struct kfd_aperture list[KFD_OLD_APERTURES];
	uint32_t n, pad;
};
static_assert(sizeof(struct kfd_apertures_old) == 400, "KFD ABI");

struct kfd_apertures {
	uint64_t list_ptr;
	uint32_t n, pad; /* n: room on input; if 0, the number of entries on output */
};

struct kfd_acquire_vm {
	uint32_t drm_fd, gpu_id;
};

struct kfd_alloc_memory {
	uint64_t va_addr, size, handle, mmap_offset;
	uint32_t gpu_id, flags;
};
static_assert(sizeof(struct kfd_alloc_memory) == 40, "KFD ABI");
#define KFD_ALLOC_VRAM (1u << 0)

/* Calls that only the software GPU uses, to answer them. */
struct kfd_set_policy {
	uint64_t base, size;
	uint32_t gpu_id, policy, alternate, flags;
};

enum kfd_event_type { KFD_EVENT_SIGNAL = 0, KFD_EVENT_DEBUG = 5 };

struct kfd_create_event {
	uint64_t page_offset;
	uint32_t trigger_data, type, auto_reset, node_id, event_id, slot;
};
static_assert(sizeof(struct kfd_create_event) == 32, "KFD ABI");

struct kfd_one_event {
	uint32_t event_id, pad;
};

struct kfd_event_data {
	uint64_t last_age, more[3]; /* last_age: for signals, from 1.14 */
	uint64_t extension;
	uint32_t event_id, pad;
};
static_assert(sizeof(struct kfd_event_data) == 48, "KFD ABI");

enum kfd_wait_result { KFD_WAIT_COMPLETE = 0, KFD_WAIT_TIMEOUT = 1, KFD_WAIT_FAIL = 2 };

struct kfd_wait_events {
	uint64_t events_ptr;
	uint32_t n_events, all, timeout_ms, result;
};

struct kfd_map_memory {
	uint64_t handle, ids_ptr;
	uint32_t n_ids, n_done;
};

struct kfd_available_memory {
	uint64_t available;
	uint32_t gpu_id, pad;
};

struct kfd_wave_state {
	uint64_t stack_address;
	uint32_t stack_used, save_used, queue_id, pad;
};

struct kfd_svm {
	uint64_t start, size;
	uint32_t op, n_attributes; /* followed by the attributes, 8 bytes each */
};

struct kfd_profiler {
	uint32_t op, value[3];
};

struct kfd_free_memory {
	uint64_t handle;
};

struct kfd_runtime_enable {
	uint64_t r_debug;
	uint32_t mode_mask, capabilities_mask;
};
#define KFD_RUNTIME_ENABLE_MODE 1u
#define KFD_RUNTIME_TTMP_MODE   2u

enum kfd_runtime_state {
	KFD_RUNTIME_DISABLED = 0,
	KFD_RUNTIME_ENABLED = 1,
	KFD_RUNTIME_BUSY = 2, /* enabled, but another debugger has the GPU */
	KFD_RUNTIME_ERROR = 3,
};

struct kfd_runtime_info {
	uint64_t r_debug;
	uint32_t state, ttmp_setup;
};
static_assert(sizeof(struct kfd_runtime_info) == 16, "KFD ABI");

/* Exceptions: bit code - 1 of a mask. */
#define KFD_EC_QUEUE_PREEMPTION_ERROR (1ull << 29)
#define KFD_EC_QUEUE_NEW              (1ull << 30)
#define KFD_EC_DEVICE_QUEUE_DELETE    (1ull << 31)
#define KFD_EC_PROCESS_RUNTIME        (1ull << 47)
#define KFD_EC_CODE_PROCESS_RUNTIME   48u
#define KFD_EC_ALL_QUEUE              0x607f803full
#define KFD_EC_DEVICE_MEMORY_FAULT    (1ull << 32)
#define KFD_EC_ALL_DEVICE             0xf80000000ull
#define KFD_EC_ALL_PROCESS            (3ull << 47)

enum kfd_dbg_op {
	KFD_DBG_ENABLE = 0,
	KFD_DBG_DISABLE = 1,
	KFD_DBG_SEND_RUNTIME_EVENT = 2,
	KFD_DBG_SET_EXCEPTIONS = 3,
	KFD_DBG_SET_LAUNCH_OVERRIDE = 4,
	KFD_DBG_SET_LAUNCH_MODE = 5,
	KFD_DBG_SUSPEND_QUEUES = 6,
	KFD_DBG_RESUME_QUEUES = 7,
	KFD_DBG_SET_WATCH = 8,
	KFD_DBG_CLEAR_WATCH = 9,
	KFD_DBG_SET_FLAGS = 10,
	KFD_DBG_QUERY_EVENT = 11,
	KFD_DBG_QUERY_EXCEPTION_INFO = 12,
	KFD_DBG_QUEUE_SNAPSHOT = 13,
	KFD_DBG_DEVICE_SNAPSHOT = 14,
};

enum kfd_launch_mode { KFD_LAUNCH_NORMAL = 0, KFD_LAUNCH_HALT = 1, KFD_LAUNCH_DEBUG = 3 };

/* Set in the ids that SUSPEND and RESUME return. */
#define KFD_QUEUE_ID_ERROR   (1u << 30) /* the hardware failed */
#define KFD_QUEUE_ID_INVALID (1u << 31) /* missing, new, or being destroyed */
#define KFD_QUEUE_ID_MASK    (KFD_QUEUE_ID_ERROR - 1)

/* In units of 1024 clocks, kept in 8 bits. */
#define KFD_GRACE_MIN 1u
#define KFD_GRACE_MAX 255u

struct kfd_dbg_trap {
	uint32_t pid, op;
	union {
		struct {
			uint64_t exception_mask, rinfo_ptr;
			uint32_t rinfo_size, dbg_fd;
		} enable;
		struct {
			uint64_t exception_mask;
			uint32_t gpu_id, queue_id;
		} event; /* SEND_RUNTIME_EVENT, QUERY_EVENT */
		struct {
			uint64_t exception_mask;
		} exceptions;
		struct {
			uint32_t mode, pad;
		} launch;
		struct {
			uint32_t mode, enable_mask, support_mask, pad;
		} launch_override;
		struct {
			uint64_t address;
			uint32_t mode, mask, gpu_id, id;
		} set_watch;
		struct {
			uint32_t gpu_id, id;
		} clear_watch;
		struct {
			uint32_t flags, pad;
		} flags;
		struct {
			uint64_t exception_mask, queue_array_ptr;
			uint32_t n_queues, grace_period;
		} suspend;
		struct {
			uint64_t queue_array_ptr;
			uint32_t n_queues, pad;
		} resume;
		struct {
			uint64_t info_ptr;
			uint32_t info_size, source_id, code, clear;
		} info;
		struct {
			uint64_t exception_mask, buf_ptr;
			uint32_t n_entries, entry_size;
		} snapshot; /* of queues, of devices */
	};
};
static_assert(sizeof(struct kfd_dbg_trap) == 32, "KFD ABI");
static_assert(offsetof(struct kfd_dbg_trap, suspend.n_queues) == 24, "KFD ABI");
static_assert(offsetof(struct kfd_dbg_trap, info.clear) == 28, "KFD ABI");

struct kfd_queue_entry {
	uint64_t exception_status, ring_base_address, write_pointer_address, read_pointer_address;
	uint64_t ctx_save_restore_address;
	uint32_t queue_id, gpu_id, ring_size, queue_type, ctx_save_restore_area_size, reserved;
};
static_assert(sizeof(struct kfd_queue_entry) == 64, "KFD ABI");

struct kfd_device_entry {
	uint64_t exception_status;
	uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
	uint32_t gpu_id, location_id, vendor_id, device_id, revision_id, subsystem_vendor_id;
	uint32_t subsystem_device_id, fw_version, gfx_target_version, simd_count;
	uint32_t max_waves_per_simd, array_count, simd_arrays_per_engine, num_xcc, capability;
	uint32_t debug_prop;
	uint32_t capability2, pad; /* later kernels; the entry is 120 bytes long without these */
};
static_assert(sizeof(struct kfd_device_entry) == 128, "KFD ABI");
static_assert(
	offsetof(struct kfd_device_entry, capability2) == KFD_DEVICE_ENTRY_OLD_SIZE, "KFD ABI");

/* The driver's header at the start of a suspended queue's save area. */
struct kfd_save_area_header {
	uint32_t control_stack_offset, control_stack_size, wave_state_offset, wave_state_size;
	uint32_t debug_offset, debug_size;
	uint64_t err_payload_addr;
	uint32_t err_event_id, reserved;
};
static_assert(sizeof(struct kfd_save_area_header) == 40, "KFD ABI");

#define KFD_NR_GET_VERSION    0x01
#define KFD_NR_CREATE_QUEUE   0x02
#define KFD_NR_DESTROY_QUEUE  0x03
#define KFD_NR_CLOCK_COUNTERS 0x05
#define KFD_NR_APERTURES_OLD  0x06
#define KFD_NR_UPDATE_QUEUE   0x07
#define KFD_NR_APERTURES      0x14
#define KFD_NR_ACQUIRE_VM     0x15
#define KFD_NR_ALLOC_MEMORY   0x16
#define KFD_NR_FREE_MEMORY    0x17
#define KFD_NR_SET_CU_MASK    0x1a
#define KFD_NR_RUNTIME_ENABLE 0x25
#define KFD_NR_DBG_TRAP       0x26
#define KFD_NR_CREATE_PROCESS 0x27
#define KFD_NR_PROFILER       0x28

#define KFD_IOC_GET_VERSION   _IOR(KFD_IOCTL_TYPE, KFD_NR_GET_VERSION, struct kfd_version)
#define KFD_IOC_CREATE_QUEUE  _IOWR(KFD_IOCTL_TYPE, KFD_NR_CREATE_QUEUE, struct kfd_create_queue)
#define KFD_IOC_DESTROY_QUEUE _IOWR(KFD_IOCTL_TYPE, KFD_NR_DESTROY_QUEUE, struct kfd_destroy_queue)
#define KFD_IOC_CLOCK_COUNTERS                                                                     \
	_IOWR(KFD_IOCTL_TYPE, KFD_NR_CLOCK_COUNTERS, struct kfd_clock_counters)
#define KFD_IOC_APERTURES_OLD _IOR(KFD_IOCTL_TYPE, KFD_NR_APERTURES_OLD, struct kfd_apertures_old)
#define KFD_IOC_UPDATE_QUEUE  _IOW(KFD_IOCTL_TYPE, KFD_NR_UPDATE_QUEUE, struct kfd_update_queue)
#define KFD_IOC_APERTURES     _IOWR(KFD_IOCTL_TYPE, KFD_NR_APERTURES, struct kfd_apertures)
#define KFD_IOC_ACQUIRE_VM    _IOW(KFD_IOCTL_TYPE, KFD_NR_ACQUIRE_VM, struct kfd_acquire_vm)
#define KFD_IOC_ALLOC_MEMORY  _IOWR(KFD_IOCTL_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory)
#define KFD_IOC_FREE_MEMORY   _IOW(KFD_IOCTL_TYPE, KFD_NR_FREE_MEMORY, struct kfd_free_memory)
#define KFD_IOC_SET_CU_MASK   _IOW(KFD_IOCTL_TYPE, KFD_NR_SET_CU_MASK, struct kfd_set_cu_mask)
#define KFD_IOC_RUNTIME_ENABLE                                                                     \
	_IOWR(KFD_IOCTL_TYPE, KFD_NR_RUNTIME_ENABLE, struct kfd_runtime_enable)
#define KFD_IOC_DBG_TRAP _IOWR(KFD_IOCTL_TYPE, KFD_NR_DBG_TRAP, struct kfd_dbg_trap)

static_assert(KFD_IOC_GET_VERSION == 0x80084b01u, "KFD ABI");
static_assert(KFD_IOC_CREATE_QUEUE == 0xc0604b02u, "KFD ABI");
static_assert(KFD_IOC_UPDATE_QUEUE == 0x40184b07u, "KFD ABI");
static_assert(KFD_IOC_SET_CU_MASK == 0x40104b1au, "KFD ABI");
static_assert(KFD_IOC_RUNTIME_ENABLE == 0xc0104b25u, "KFD ABI");
static_assert(KFD_IOC_DBG_TRAP == 0xc0204b26u, "KFD ABI");

/* Sysfs */
#define KFD_SYSFS_PATH         "/sys/class/kfd/kfd"
#define KFD_CAP_DEBUG_FIRMWARE 0x20000000u /* `capability`: firmware good for debugging */
#define KFD_GFX_MES            110000u     /* gfx_target_version from which MES schedules */
#define KFD_FIRST_RENDER_MINOR 128u

/* Size of CREATE_QUEUE's argument before 1.17. */
#define KFD_CREATE_QUEUE_OLD_SIZE offsetof(struct kfd_create_queue, sdma_engine_id)
static_assert(KFD_CREATE_QUEUE_OLD_SIZE == 88, "KFD ABI");

#endif
