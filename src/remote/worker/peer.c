/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's connection: memory and channels come and go. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "remote/worker/worker.h"
#include "util/fd.h"
#include "util/log.h"

#define ADDRESS_END 0x7ffffffff000ull

static bool is_range(uint64_t address, uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return address != 0 && size != 0 && address % page == 0 && size % page == 0 &&
	       address < ADDRESS_END && size <= ADDRESS_END - address;
}

/* Only memory that cannot shrink: otherwise the guest could make this process fault. */
static bool is_memory(int fd, uint64_t offset, uint64_t size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &st) == 0 &&
	       offset <= (uint64_t)st.st_size && size <= (uint64_t)st.st_size - offset;
}

static int check_segments(
	const struct rbt_peer_map *m, const struct rbt_peer_segment *segments, const int *fds)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), sum = 0;

	for (uint32_t i = 0; i < m->n_segments; i++) {
		const struct rbt_peer_segment *g = &segments[i];

		if (g->file >= m->n_files || g->size == 0 || g->size % page != 0 ||
			g->offset % page != 0 || g->size > m->size - sum) {
			return -EINVAL;
		}
		if (!is_memory(fds[g->file], g->offset, g->size)) {
			return -EBADF;
		}
		sum += g->size;
	}
	return sum == m->size ? 0 : -EINVAL;
}

static int map_segments(
	const struct rbt_peer_map *m, const struct rbt_peer_segment *segments, const int *fds)
{
	uint64_t at = m->address;

	for (uint32_t i = 0; i < m->n_segments; i++) {
		void *want = (void *)(uintptr_t)at;
		void *p = mmap(want, segments[i].size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fds[segments[i].file],
			(off_t)segments[i].offset);
		int r = p == MAP_FAILED ? -errno : p != want ? -EEXIST : 0;

		if (r < 0) {
			if (p != MAP_FAILED) {
				munmap(p, segments[i].size);
			}
			if (at > m->address) {
				munmap((void *)(uintptr_t)m->address, at - m->address);
			}
			return r;
		}
		at += segments[i].size;
	}
	return 0;
}

static int do_map(struct worker *w, const uint8_t *message, size_t size, int *fds, size_t n_fds)
{
	struct rbt_peer_segment segments[RBT_PEER_SEGMENTS];
	struct rbt_peer_map m;

	if (size < sizeof(m)) {
		return -EPROTO;
	}
	memcpy(&m, message, sizeof(m));
	if (m.n_segments == 0 || m.n_segments > RBT_PEER_SEGMENTS || m.n_files != n_fds ||
		size != sizeof(m) + m.n_segments * sizeof(segments[0])) {
		return -EPROTO;
	}
	memcpy(segments, message + sizeof(m), m.n_segments * sizeof(segments[0]));
	int r = is_range(m.address, m.size) ? check_segments(&m, segments, fds) : -EINVAL;

	if (r == 0) {
		r = worker_map_add(w, m.address, m.size);
	}
	if (r == 0) {
		r = map_segments(&m, segments, fds);
		if (r < 0) {
			(void)worker_map_remove(w, m.address, m.size);
		}
	}
	if (r == 0) {
		worker_map_keep(w, m.address, fds, n_fds);
	}
	return r;
}

/* A ring that a thread still serves stays. */
static int do_unmap(struct worker *w, const uint8_t *message, size_t size)
{
	struct rbt_peer_range m;

	if (size != sizeof(m)) {
		return -EPROTO;
	}
	memcpy(&m, message, sizeof(m));
	if (!is_range(m.address, m.size)) {
		return -EINVAL;
	}
	for (size_t i = 0; i < RBT_LINK_CHANNELS; i++) {
		uint64_t area = (uint64_t)(uintptr_t)w->channels[i].area;

		if (area != 0 && area < m.address + m.size && m.address < area + RBT_WIRE_AREA) {
			return -EBUSY;
		}
	}
	int r = worker_map_remove(w, m.address, m.size);

	if (r == 0) {
		munmap((void *)(uintptr_t)m.address, m.size);
	}
	return r;
}

static int do_channel(struct worker *w, const uint8_t *message, size_t size, int *fds, size_t n_fds)
{
	struct rbt_peer_channel m;

	if (size != sizeof(m)) {
		return -EPROTO;
	}
	memcpy(&m, message, sizeof(m));
	if (m.number >= RBT_LINK_CHANNELS) {
		return -EINVAL;
	}
	if (m.header.type == RBT_PEER_CHANNEL_CLOSE) {
		return worker_channel_close(w, m.number);
	}
	if (n_fds != 2 || m.size != RBT_WIRE_AREA || m.address % RBT_WIRE_HEADER != 0 ||
		!worker_is_shared(w, m.address, m.size)) {
		return -EINVAL;
	}
	return worker_channel_open(w, &m, fds);
}

int worker_message(struct worker *w, const void *message, size_t size, int *fds, size_t n_fds)
{
	struct rbt_peer_header h = {0};
	int r = -EPROTO;

	if (size >= sizeof(h)) {
		memcpy(&h, message, sizeof(h));
	}
	if (h.magic == RBT_PEER_MAGIC) {
		switch (h.type) {
		case RBT_PEER_MAP:
			r = do_map(w, message, size, fds, n_fds);
			break;
		case RBT_PEER_UNMAP:
			r = do_unmap(w, message, size);
			break;
		case RBT_PEER_CHANNEL:
		case RBT_PEER_CHANNEL_CLOSE:
			r = do_channel(w, message, size, fds, n_fds);
			break;
		default:
			break;
		}
	}
	for (size_t i = 0; i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	return r;
}

static int answer(struct worker *w, uint32_t type, int result)
{
	struct rbt_peer_answer a = {
		.header = {RBT_PEER_MAGIC, RBT_PEER_ANSWER}, .answers = type, .result = result};

	return rbt_send(w->sock, &a, sizeof(a), NULL, 0, 0);
}

void worker_run(struct worker *w)
{
	static _Alignas(8) uint8_t buf[sizeof(struct rbt_peer_map) +
				       RBT_PEER_SEGMENTS * sizeof(struct rbt_peer_segment)];
	int r = answer(w, RBT_PEER_HELLO, w->driver != NULL ? 0 : -ENODEV);

	while (r == 0) {
		int fds[RBT_MAX_FDS_PER_MSG];
		size_t n_fds = 0;
		ssize_t n = rbt_recv(w->sock, buf, sizeof(buf), fds, &n_fds, 0);

		if (n == -EINTR) {
			continue;
		}
		if (n <= 0) {
			return;
		}
		int result = worker_message(w, buf, (size_t)n, fds, n_fds);

		if (result == -EPROTO) {
			rbt_error("worker: the guest's library or device sent a malformed message");
			return;
		}
		r = answer(w, ((const struct rbt_peer_header *)(const void *)buf)->type, result);
	}
}
