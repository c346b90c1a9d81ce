/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of /sys/class/kfd, as a real tree in the session's directory. Opens of the real
 * paths are answered with files and directories from it. Then the file system itself handles the
 * listing of such a directory, and opens below it. (stat(2) of the real paths is not answered.)
 *
 *   sysfs/kfd/topology/{generation_id,system_properties,nodes/N/{gpu_id,name,properties}}
 *   sysfs/kfd/proc/PID/{queues/ID/{gpuid,size,type},vram_GPUID,sdma_GPUID,stats_GPUID/…}
 */
#ifndef RBT_SOFTGPU_KFD_SYSFS_H
#define RBT_SOFTGPU_KFD_SYSFS_H

#include "softgpu/kfd/kfd.h"

struct kfd_sysfs;

/* Makes a new tree below `dir`; NULL with errno. The strings are copied. */
struct kfd_sysfs *kfd_sysfs_create(const char *dir, const struct rbt_kfd_config *config);
void kfd_sysfs_destroy(struct kfd_sysfs *s); /* with the tree; accepts NULL */

/* Whether a path is in the tree; and the file to open for it: an fd or -errno. */
bool kfd_sysfs_has(const char *path);
int kfd_sysfs_open(const struct kfd_sysfs *s, const char *path, int flags);

void kfd_sysfs_add_process(struct kfd_sysfs *s, int pid);
void kfd_sysfs_remove_process(struct kfd_sysfs *s, int pid);
/* The type as the program requests it; sysfs does not know AQL. */
void kfd_sysfs_add_queue(
	struct kfd_sysfs *s, int pid, uint32_t id, uint32_t gpu_id, uint32_t size, uint32_t type);
void kfd_sysfs_remove_queue(struct kfd_sysfs *s, int pid, uint32_t id);
void kfd_sysfs_set_vram(struct kfd_sysfs *s, int pid, uint32_t gpu_id, uint64_t bytes);
void kfd_sysfs_set_occupancy(struct kfd_sysfs *s, int pid, uint32_t gpu_id, uint32_t cus);

#define KFD_SYSFS_CUS 304u /* of one GPU */

#endif
