/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors and the sockets that carry them.
 */
#ifndef RBT_UTIL_FD_H
#define RBT_UTIL_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define RBT_MAX_FDS_PER_MSG 4

/* Closes *fd unless it is negative, and sets it to -1. Keeps errno. */
void rbt_close(int *fd);

/* Sends one packet with up to RBT_MAX_FDS_PER_MSG fds
 * (borrowed). Never raises SIGPIPE. 0 or -errno. */
int rbt_send(int sock, const void *buf, size_t size, const int *fds, size_t n_fds, int flags);

/*
 * Receives one packet. Returns its size, 0 at end of file, or -errno; -EMSGSIZE if packet or fds
 * were cut off (nothing is kept then). Received fds are CLOEXEC and belong to the caller; unused
 * slots are -1.
 */
ssize_t rbt_recv(int sock, void *buf, size_t size, int fds[RBT_MAX_FDS_PER_MSG], size_t *ret_n_fds,
	int flags);

/*
 * Tells what the next message of a unix socket is, without taking it. The socket must not be a
 * stream, and must have SO_PASSCRED set. The message keeps its files: to receive them would put
 * them into our table, and to drop them would close them. RBT_HEAD_NONE also at the end of file;
 * RBT_HEAD_FILES also if it cannot be told.
 */
enum rbt_head { RBT_HEAD_NONE, RBT_HEAD_PLAIN, RBT_HEAD_FILES };
enum rbt_head rbt_head(int sock);

/* Connects to a SOCK_SEQPACKET unix socket. Waits at most timeout_ms for room in its queue (0: for
 * ever), then -ETIMEDOUT. The timeout also holds for later sends. Returns an fd or -errno. */
int rbt_connect(const char *path, int timeout_ms);

/* Reads a whole small file into buf, NUL-terminated. Returns the length or -errno. */
ssize_t rbt_read_file(const char *path, char *buf, size_t size);

/* Opens a file for reading, or a new one for writing, as fopen(3) with "re" and "we" does, but
 * never waits. Another kind of file than a plain one is not read (-EBADF), and is replaced for
 * writing. 0 or -errno. */
int rbt_fopen_plain(const char *path, bool is_new, FILE **ret);

#endif
