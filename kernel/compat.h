/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between Linux 6.1 and 6.12. */
#ifndef RUBATO_COMPAT_H
#define RUBATO_COMPAT_H

#include <linux/device/class.h>
#include <linux/mm.h>
#include <linux/version.h>
#include <linux/virtio_config.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define DEVNODE_CONST
#else
#define DEVNODE_CONST const
#endif

static inline struct class *compat_class_create(const char *name)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
	return class_create(THIS_MODULE, name);
#else
	return class_create(name);
#endif
}

static inline void compat_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags |= flags;
#else
	vm_flags_set(vma, flags);
#endif
}

/* All queues have the same name. */
static inline int compat_find_vqs(struct virtio_device *vdev, unsigned int n, struct virtqueue *vqs[],
	vq_callback_t *callbacks[], const char *name)
{
	unsigned int i;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
	const char **names = kcalloc(n, sizeof(*names), GFP_KERNEL);
	int err;

	if (!names)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		names[i] = name;
	err = virtio_find_vqs(vdev, n, vqs, callbacks, names, NULL);
	kfree(names);
#else
	struct virtqueue_info *info = kcalloc(n, sizeof(*info), GFP_KERNEL);
	int err;

	if (!info)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		info[i].name = name;
		info[i].callback = callbacks[i];
	}
	err = virtio_find_vqs(vdev, n, vqs, info, NULL);
	kfree(info);
#endif
	return err;
}

#endif
