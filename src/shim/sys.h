/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct system calls. libc's close(), sendmsg() and similar functions are cancellation points, and
 * other libraries may interpose them: a thread must not end, nor another library run, in the middle
 * of the shim. Direct calls also keep the library free of symbols newer than GLIBC_2.17 (fstat:
 * 2.33).
 *
 * All functions return -errno on failure. observe.c saves and restores errno around everything.
 */
#ifndef RBT_SHIM_SYS_H
#define RBT_SHIM_SYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * A file descriptor with the identity of its file: programs close numbers that they do not know
 * (closefrom(3)) and get the same numbers again. The mode distinguishes our locks, which are
 * read-only, from the program's own files on the same nodes.
 */
struct shim_fd {
	_Atomic int fd_plus_1; /* so that zeroed memory means none */
	uint32_t mode;
	bool borrowed; /* not closed by us */
	uint64_t dev, ino, rdev;
};

static inline int shim_fd_get(const struct shim_fd *f)
{
	return f->fd_plus_1 - 1;
}

/* Notes fd and its identity. 0 or -errno. */
int shim_fd_set(struct shim_fd *f, int fd);

/* Takes ownership of fd and moves it to a high number, away from programs that count on low
 * numbers, or have few. Fails if it would take one of the last. */
int shim_fd_own(struct shim_fd *f, int fd);

/* A copy of an fd, owned and moved up. 0 or -errno. */
int shim_fd_dup(struct shim_fd *f, int fd);

/* Notes an fd that shim_fd_close() does not close. 0 or -errno. */
int shim_fd_borrow(struct shim_fd *f, int fd);

/* Whether the number still stands for the same file. */
bool shim_fd_valid(const struct shim_fd *f);

/* Closes the fd if it is still ours, and forgets it. */
void shim_fd_close(struct shim_fd *f);

int shim_sys_close(int fd);
uint32_t shim_sys_gettid(void);
int32_t shim_sys_getpid(void);
void shim_sys_yield(void);
uint64_t shim_sys_block_signals(void);
void shim_sys_restore_signals(uint64_t mask);
void *shim_sys_mmap(size_t size);
void shim_sys_munmap(void *p, size_t size);
bool shim_sys_wipe_on_fork(void *p, size_t size);

/* Replaces the memory at p by empty private memory. 0 or -errno. */
int shim_sys_map_private(void *p, size_t size);

/* Maps a file, at p unless that is NULL. NULL on failure. */
void *shim_sys_map_shared(void *p, size_t size, int fd);

/* Wakes one waiter, in any process. */
void shim_sys_futex_wake(_Atomic uint32_t *word);

/* Waits until fd is readable, or for wait_ns; UINT64_MAX: for ever. 1, 0 after the timeout, or
 * -errno. For the agent only: no thread of the program ever waits. */
int shim_sys_wait_readable(int fd, uint64_t wait_ns);

/* The same, until the word changes or is woken. */
int shim_sys_wait_word(_Atomic uint32_t *word, uint32_t seen, uint64_t wait_ns);

/* Copies from addresses that may not be mapped. 0 or -errno. */
int shim_sys_peek(void *to, const void *from, size_t size);

/* Whether the 16 bytes there can be read; also if a filter forbids to ask. */
bool shim_sys_is_readable(const void *p);

/* The same for n words of 8 bytes, SHIM_PEEK_MAX at most. Returns how many were read, up to the
 * first that is not mapped. */
#define SHIM_PEEK_MAX 1024u
uint32_t shim_sys_peek_words(uint64_t *to, const struct iovec *from, uint32_t n);

/* Whether a thread of this process exists. */
bool shim_sys_thread_alive(uint32_t tid);

/* A non-blocking connection to root or the program's user, not yet moved up; or -errno. */
int shim_sys_connect(const char *path);

/* Sends one packet, with one fd unless it is negative. Never blocks, never raises SIGPIPE. */
int shim_sys_send(int sock, const void *buf, size_t size, int fd);

/* Receives one packet, without waiting: its size, 0 at the end, or -errno. */
int shim_sys_recv(int sock, void *buf, size_t size);

/* The same with one fd, which the caller closes; *ret_fd is -1 if there is none. */
int shim_sys_recv_fd(int sock, void *buf, size_t size, int *ret_fd);

/* A pair of connected non-blocking packet sockets. 0 or -errno. */
int shim_sys_socketpair(int ret[2]);

/* Prints one line on standard error, if it can be written without waiting. Strings up to a NULL. */
void shim_say(const char *const parts[]);

/* raw.c: access to the outside, which tests replace. */

/* As ioctl(2): -1 and errno. */
int shim_raw_ioctl(int fd, unsigned long request, void *arg);
uint64_t shim_raw_now_ns(void);

/* The processor's counter, read without waiting for earlier instructions; and whether it may be
 * read: where it is trapped, reading it kills the program. */
bool shim_raw_has_counter(void);
#ifdef SHIM_COUNTER_IS_FAKE
uint64_t shim_raw_counter(void);
#else
static inline uint64_t shim_raw_counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t count;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
#else
	return 0;
#endif
}
#endif

/* Whether the file is NVIDIA's control node. */
bool shim_raw_is_control(int fd);

/* Whether the file is AMD's /dev/kfd. */
bool shim_raw_is_kfd(int fd);

/* thread.c: starts a detached thread with all signals blocked but for libc's own and for those that
 * the thread would raise itself. 0 or -errno. */
int shim_raw_start_thread(void (*fn)(void));

/* Opens the GPU's device node, for its lock. fd or -errno. */
int shim_raw_open_gpu(uint32_t gpu);

/* Opens AMD's device node; the caller closes it. fd or -errno. */
int shim_raw_open_kfd(void);

/* The driver's version text, NUL-terminated. Length or -errno. */
ssize_t shim_raw_driver_version(char *buf, size_t size);

#endif
