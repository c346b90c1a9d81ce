/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubato/kfd.h for C++17: header only, link with -lrubato-kfd. Errors are false, an empty optional
 * or a negative errno; QueueMonitor::error() says which, and rubato_kfd_strerror() what it means.
 *
 *     kfd::QueueMonitor monitor;
 *     if (monitor.open_kfd() && monitor.enable_debug_trap(pid)) {
 *             if (auto snapshot = monitor.get_snapshot(pid)) {
 *                     auto ids = snapshot->get_queue_ids();
 *                     kfd::suspend_queues(monitor.fd(), pid, ids.data(), ids.size());
 *                     …
 *                     ids = snapshot->get_queue_ids();
 *                     kfd::resume_queues(monitor.fd(), pid, ids.data(), ids.size());
 *             }
 *     }
 *
 * When the monitor goes, so do its sessions, and every queue runs.
 */
#ifndef RUBATO_KFD_QUEUE_MONITOR_HPP
#define RUBATO_KFD_QUEUE_MONITOR_HPP

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "rubato/kfd.h"

namespace kfd
{

struct QueueInfo {
	uint32_t queue_id = 0;
	uint32_t gpu_id = 0;
	uint32_t queue_type = 0; /* enum rubato_kfd_type */
	uint32_t ring_size = 0;
	/* Zero unless the process is being debugged. */
	uint64_t ring_base_address = 0;
	uint64_t write_pointer_address = 0;
	uint64_t read_pointer_address = 0;
	uint64_t ctx_save_restore_address = 0;
	uint32_t ctx_save_restore_area_size = 0;
	std::optional<uint64_t> pending; /* what stands in the ring, if that could be read */

	const char *type_name() const
	{
		return rubato_kfd_type_name(queue_type);
	}
};

struct QueueSnapshot {
	std::chrono::steady_clock::time_point timestamp;
	pid_t pid = 0;
	std::vector<QueueInfo> queues;

	std::vector<uint32_t> get_queue_ids() const
	{
		std::vector<uint32_t> ids;

		ids.reserve(queues.size());
		for (const QueueInfo &q : queues) {
			ids.push_back(q.queue_id);
		}
		return ids;
	}
};

struct QueueStats {
	size_t total_samples = 0;
	size_t min_queues = 0;
	size_t max_queues = 0;
	double avg_queues = 0;
	bool is_stable = false;                        /* the same queues in every sample */
	std::map<uint32_t, size_t> queue_id_frequency; /* id: samples it was in */
	std::map<uint32_t, size_t> gpu_id_distribution;
	std::map<uint32_t, size_t> type_distribution;
};

class QueueMonitor
{
      public:
	QueueMonitor() = default;
	QueueMonitor(const QueueMonitor &) = delete;
	QueueMonitor &operator=(const QueueMonitor &) = delete;
	QueueMonitor(QueueMonitor &&other) noexcept
	    : kfd_(std::exchange(other.kfd_, nullptr)), error_(other.error_)
	{
	}
	QueueMonitor &operator=(QueueMonitor &&other) noexcept
	{
		std::swap(kfd_, other.kfd_);
		std::swap(error_, other.error_);
		return *this;
	}
	~QueueMonitor()
	{
		close_kfd();
	}

	bool open_kfd()
	{
		return kfd_ != nullptr || note(rubato_kfd_open(&kfd_));
	}
	void close_kfd()
	{
		rubato_kfd_close(kfd_);
		kfd_ = nullptr;
	}
	bool is_open() const
	{
		return kfd_ != nullptr;
	}
	/* For suspend_queues() and resume_queues(); stays the monitor's. -errno. */
	int fd()
	{
		return kfd_ != nullptr ? rubato_kfd_fd(kfd_) : -ENODEV;
	}
	int error() const /* of the last call: 0 or a negative errno */
	{
		return error_;
	}

	bool enable_debug_trap(pid_t pid)
	{
		/* The fd stands for this monitor from now on. */
		return kfd_ != nullptr && note(rubato_kfd_fd(kfd_)) &&
		       note(rubato_kfd_attach(kfd_, pid));
	}
	bool disable_debug_trap(pid_t pid)
	{
		return kfd_ != nullptr && note(rubato_kfd_detach(kfd_, pid));
	}

	std::optional<QueueSnapshot> get_snapshot(pid_t pid)
	{
		rubato_kfd_snapshot *raw = nullptr;

		if (kfd_ == nullptr || !note(rubato_kfd_snapshot_take(kfd_, pid, &raw))) {
			return std::nullopt;
		}
		QueueSnapshot snapshot = copy(*raw);
		rubato_kfd_snapshot_free(raw);
		return snapshot;
	}

	/* Every interval until the duration is over or the process has ended. */
	std::vector<QueueSnapshot> monitor(pid_t pid, std::chrono::duration<double> duration,
		std::chrono::duration<double> interval)
	{
		std::vector<QueueSnapshot> snapshots;

		if (kfd_ != nullptr) {
			note(rubato_kfd_monitor(
				kfd_, pid, duration.count(), interval.count(), keep, &snapshots));
		}
		return snapshots;
	}

	static QueueStats analyze(const std::vector<QueueSnapshot> &snapshots)
	{
		QueueStats stats;
		size_t sum = 0;

		stats.total_samples = snapshots.size();
		for (const QueueSnapshot &s : snapshots) {
			size_t n = s.queues.size();
			stats.min_queues = &s == &snapshots.front() || n < stats.min_queues
						   ? n
						   : stats.min_queues;
			stats.max_queues = n > stats.max_queues ? n : stats.max_queues;
			sum += n;
			for (const QueueInfo &q : s.queues) {
				stats.queue_id_frequency[q.queue_id]++;
				stats.gpu_id_distribution[q.gpu_id]++;
				stats.type_distribution[q.queue_type]++;
			}
		}
		if (!snapshots.empty()) {
			stats.avg_queues =
				static_cast<double>(sum) / static_cast<double>(snapshots.size());
			stats.is_stable = stats.min_queues == stats.max_queues &&
					  stats.queue_id_frequency.size() == stats.max_queues;
		}
		return stats;
	}

	static void print_snapshot(const QueueSnapshot &snapshot, std::FILE *out = stdout)
	{
		std::fprintf(out, "process %d: %zu queues\n", static_cast<int>(snapshot.pid),
			snapshot.queues.size());
		for (const QueueInfo &q : snapshot.queues) {
			std::fprintf(out, "  queue %u: GPU %u, %s, ring of %u bytes", q.queue_id,
				q.gpu_id, q.type_name(), q.ring_size);
			if (q.ring_base_address != 0) {
				std::fprintf(out, " at 0x%llx, save area of %u bytes at 0x%llx",
					static_cast<unsigned long long>(q.ring_base_address),
					q.ctx_save_restore_area_size,
					static_cast<unsigned long long>(
						q.ctx_save_restore_address));
			}
			if (q.pending) {
				std::fprintf(out, ", %llu pending",
					static_cast<unsigned long long>(*q.pending));
			}
			std::fprintf(out, "\n");
		}
	}

	static void print_stats(const QueueStats &stats, std::FILE *out = stdout)
	{
		std::fprintf(out, "%zu samples: %zu to %zu queues, %.1f on average: %s\n",
			stats.total_samples, stats.min_queues, stats.max_queues, stats.avg_queues,
			stats.is_stable ? "stable" : "dynamic");
		for (const auto &[id, n] : stats.queue_id_frequency) {
			std::fprintf(out, "  queue %u: in %zu\n", id, n);
		}
		for (const auto &[id, n] : stats.gpu_id_distribution) {
			std::fprintf(out, "  GPU %u: %zu\n", id, n);
		}
		for (const auto &[type, n] : stats.type_distribution) {
			std::fprintf(out, "  %s: %zu\n", rubato_kfd_type_name(type), n);
		}
	}

      private:
	bool note(int result)
	{
		error_ = result < 0 ? result : 0;
		return result >= 0;
	}

	static QueueSnapshot copy(const rubato_kfd_snapshot &raw)
	{
		QueueSnapshot s;

		s.timestamp = std::chrono::steady_clock::time_point(
			std::chrono::duration_cast<std::chrono::steady_clock::duration>(
				std::chrono::nanoseconds(raw.time_ns)));
		s.pid = raw.pid;
		s.queues.reserve(raw.n_queues);
		for (uint32_t i = 0; i < raw.n_queues; i++) {
			const rubato_kfd_queue &q = raw.queues[i];
			QueueInfo info;
			info.queue_id = q.id;
			info.gpu_id = q.gpu_id;
			info.queue_type = q.type;
			info.ring_size = q.ring_size;
			info.ring_base_address = q.ring_address;
			info.write_pointer_address = q.write_pointer_address;
			info.read_pointer_address = q.read_pointer_address;
			info.ctx_save_restore_address = q.save_address;
			info.ctx_save_restore_area_size = q.save_size;
			if (q.has_pointers != 0) {
				info.pending = q.write_pointer - q.read_pointer;
			}
			s.queues.push_back(info);
		}
		return s;
	}

	/* Nothing may be thrown through C. */
	static int keep(rubato_kfd_snapshot *raw, void *data) noexcept
	{
		try {
			static_cast<std::vector<QueueSnapshot> *>(data)->push_back(copy(*raw));
		} catch (...) {
			return -ENOMEM;
		}
		return 0;
	}

	rubato_kfd *kfd_ = nullptr;
	int error_ = 0;
};

/*
 * Suspend, resume queues of a process that the monitor behind the fd debugs. How many obeyed, or
 * -errno; ids come back with RUBATO_KFD_ID_* set where one did not, so a fresh array goes into every
 * call.
 */
inline int suspend_queues(int kfd_fd, pid_t pid, uint32_t *ids, size_t n, uint32_t grace = 1)
{
	rubato_kfd *kfd = rubato_kfd_by_fd(kfd_fd);

	if (n > RUBATO_KFD_MAX_QUEUES) {
		return -EINVAL;
	}
	return kfd != nullptr ? rubato_kfd_suspend(kfd, pid, ids, static_cast<uint32_t>(n), grace)
			      : -EBADF;
}

inline int resume_queues(int kfd_fd, pid_t pid, uint32_t *ids, size_t n)
{
	rubato_kfd *kfd = rubato_kfd_by_fd(kfd_fd);

	if (n > RUBATO_KFD_MAX_QUEUES) {
		return -EINVAL;
	}
	return kfd != nullptr ? rubato_kfd_resume(kfd, pid, ids, static_cast<uint32_t>(n)) : -EBADF;
}

} // namespace kfd

#endif
