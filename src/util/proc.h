/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about processes, from /proc and pidfds.
 */
#ifndef RBT_UTIL_PROC_H
#define RBT_UTIL_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* pidfd or -errno. */
int rbt_pidfd_open(pid_t pid);

/* A copy of fd `target_fd` of the process behind pidfd: same
 * open file description. fd or -errno. */
int rbt_pidfd_getfd(int pidfd, int target_fd);

/* The pid behind a pidfd, in our namespace; -ESRCH if the process is gone. */
pid_t rbt_pidfd_pid(int pidfd);

/* Whether the process behind a pidfd has ended, reaped or not. */
bool rbt_pidfd_has_exited(int pidfd);

/* Start time in clock ticks since boot. Pid and start time together identify a process for good. 0
 * or -errno. */
int rbt_proc_start_time(pid_t pid, uint64_t *ret);

/* A number that changes when the process calls exec: the addresses of its code and its stack, which
 * the kernel chooses at random. The kernel shows them to the same user and to root, and otherwise
 * the number is RBT_IMAGE_HIDDEN. 0, -ESRCH for a process that has ended, or -errno. */
#define RBT_IMAGE_HIDDEN 1
int rbt_proc_image(pid_t pid, uint64_t *ret);

/* 0 or -errno. */
int rbt_proc_parent(pid_t pid, pid_t *ret);

/* 0 or -errno. */
int rbt_proc_uid(pid_t pid, uid_t *ret);
/* The effective user. Unlike rbt_proc_uid(), also right for a process that is not dumpable, whose
 * files in /proc belong to root. */
int rbt_proc_euid(pid_t pid, uid_t *ret);

/* The process's [comm], without control characters. Does not read its memory. 0 or -errno. */
int rbt_proc_name(pid_t pid, char *buf, size_t size);

/* The command line with spaces, or [comm] if it is empty. Waits for the lock of the process's
 * memory, which a file system in user space may keep for ever. 0 or -errno. */
int rbt_proc_command(pid_t pid, char *buf, size_t size);

/* Whether fd a of process p and fd b of process q are the same open file description: 1, 0 or
 * -errno. */
int rbt_same_file(pid_t p, int a, pid_t q, int b);

/*
 * Calls fn for every open fd of pid whose link reads exactly `path`. Stops at a non-zero return
 * value and returns it; 0 at the end, -errno if the table cannot be read.
 */
int rbt_proc_each_fd(
	pid_t pid, const char *path, int (*fn)(pid_t pid, int fd, void *data), void *data);

/* Calls fn for every process. Same return convention. */
int rbt_proc_each(int (*fn)(pid_t pid, void *data), void *data);

#endif
