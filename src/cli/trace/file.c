/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "util/fd.h"

static const char array_begin[] = "[\n", array_end[] = "]\n";

/* Writes all of it: 0 or -errno. at < 0: where the file stands. */
static int write_all(int fd, struct iovec *iov, int n, off_t at)
{
	while (n > 0) {
		ssize_t done = at < 0 ? writev(fd, iov, n) : pwritev(fd, iov, n, at);

		if (done < 0 && errno == EINTR) {
			continue;
		}
		if (done <= 0) {
			return done < 0 ? -errno : -EIO;
		}
		at += at < 0 ? 0 : done;
		while (n > 0 && (size_t)done >= iov->iov_len) {
			done -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n > 0) {
			iov->iov_base = (char *)iov->iov_base + done;
			iov->iov_len -= (size_t)done;
		}
	}
	return 0;
}

static int put(struct trace_file *f, const char *text, size_t size)
{
	struct iovec iov[] = {{.iov_base = (void *)text, .iov_len = size},
		{.iov_base = (void *)array_end, .iov_len = strlen(array_end)}};

	if (!f->is_regular) {
		return write_all(f->fd, iov, 1, -1);
	}
	int r = write_all(f->fd, iov, 2, f->end);
	if (r < 0) {
		/* The bytes that the end had are still its own, so there is room for it. */
		struct iovec end = {.iov_base = (void *)array_end, .iov_len = strlen(array_end)};
		(void)write_all(f->fd, &end, 1, f->end);
		if (ftruncate(f->fd, f->end + (off_t)strlen(array_end)) < 0) {
			return r; /* whatever follows the end is no part of the array */
		}
		return r;
	}
	f->end += (off_t)size;
	return 0;
}

int trace_file_open(struct trace_file *f, const char *path)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);

	if (fd < 0) {
		return -errno;
	}
	*f = (struct trace_file){
		.fd = fd, .is_regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode)};
	int r = put(f, array_begin, strlen(array_begin));
	if (r < 0) {
		rbt_close(&f->fd);
	}
	return r;
}

int trace_file_append(struct trace_file *f, const char *events, size_t size)
{
	if (size == 0) {
		return 0;
	}
	size_t skip = f->has_events ? 0 : 1;
	int r = put(f, events + skip, size - skip);
	f->has_events = f->has_events || r == 0;
	return r;
}

int trace_file_close(struct trace_file *f)
{
	struct iovec end = {.iov_base = (void *)array_end, .iov_len = strlen(array_end)};
	int r = 0;

	if (f->fd < 0) {
		return 0;
	}
	if (!f->is_regular) {
		r = write_all(f->fd, &end, 1, -1);
	}
	/* Some file systems say only now that there was no room. */
	if (close(f->fd) < 0 && r == 0) {
		r = -errno;
	}
	f->fd = -1;
	return r;
}
