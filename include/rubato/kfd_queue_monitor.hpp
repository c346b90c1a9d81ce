/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubato/kfd.h for C++17: header only. `pkg-config --cflags --libs rubato-kfd` finds it and what it
 * is linked with. Errors are false, or a negative errno; QueueMonitor::error() and a snapshot's own
 * error say which, and rubato_kfd_strerror() what it means.
 *
 *     kfd::QueueMonitor monitor;
 *     monitor.open_kfd();
 *     monitor.enable_debug_trap(pid);
 *     auto snapshot = monitor.get_snapshot(pid);
 *     if (snapshot) {
 *             auto ids = snapshot.get_queue_ids();
 *             suspend_queues(monitor.fd(), pid, ids.data(), ids.size());
 *             …
 *             ids = snapshot.get_queue_ids();
 *             resume_queues(monitor.fd(), pid, ids.data(), ids.size());
 *     }
 *
 * When the monitor goes, so do its sessions, and every queue runs.
 *
 * suspend_queues() and resume_queues() are there outside the namespace, too. A program that has
 * functions of these names itself defines RUBATO_KFD_NO_GLOBAL_NAMES before it includes this.
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
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "kfd.h" /* beside this file, whatever the folder is called */

namespace kfd
{

/* A number is one of seconds; or anything of std::chrono. */
class Seconds
{
      public:
	template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
	constexpr Seconds(Number seconds) : value_(static_cast<double>(seconds))
	{
	}
	template <typename Rep, typename Period>
	constexpr Seconds(std::chrono::duration<Rep, Period> duration)
	    : value_(std::chrono::duration<double>(duration).count())
	{
	}
	constexpr double count() const
	{
		return value_;
	}

      private:
	double value_;
};

struct QueueInfo {
	uint32_t queue_id = 0;
	uint32_t gpu_id = 0;
	uint32_t queue_type = 0; /* enum rubato_kfd_type */
	uint32_t ring_size = 0;
	/* Zero unless the process is being debugged. */
	bool has_addresses = false;
	uint64_t ring_base_address = 0;
	uint64_t write_pointer_address = 0;
	uint64_t read_pointer_address = 0;
	uint64_t ctx_save_restore_address = 0;
	uint32_t ctx_save_restore_area_size = 0;
	/* What the pointers say, and what stands in the ring (rubato_kfd_pending); if they could be
	 * read, and make sense. */
	std::optional<uint64_t> write_pointer;
	std::optional<uint64_t> read_pointer;
	std::optional<uint64_t> pending;
	bool is_new = false; /* no debugger has listed it before; while debugged only */

	const char *type_name() const
	{
		return rubato_kfd_type_name(queue_type);
	}
};

struct QueueSnapshot {
	std::chrono::steady_clock::time_point timestamp;
	pid_t pid = 0;
	std::vector<QueueInfo> queues;
	int error = -ENODATA; /* why it is not good: a negative errno; 0: it is */

	bool is_valid() const
	{
		return error == 0;
	}
	explicit operator bool() const
	{
		return is_valid();
	}

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

/* How long the last call of each kind took that succeeded; empty: there was none. */
struct Latency {
	std::optional<std::chrono::nanoseconds> open, enable, snapshot;
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
		return note(fd()) && note(rubato_kfd_attach(kfd_, pid));
	}
	bool disable_debug_trap(pid_t pid)
	{
		return note(kfd_ != nullptr ? rubato_kfd_detach(kfd_, pid) : -ENODEV);
	}

	Latency latency() const
	{
		rubato_kfd_latency raw{};
		Latency latency;

		if (kfd_ != nullptr) {
			rubato_kfd_get_latency(kfd_, &raw);
		}
		auto known = [](uint64_t ns) {
			return ns != 0 ? std::optional(std::chrono::nanoseconds(ns)) : std::nullopt;
		};
		latency.open = known(raw.open_ns);
		latency.enable = known(raw.enable_ns);
		latency.snapshot = known(raw.snapshot_ns);
		return latency;
	}

	/* Without queues, and false, if it could not be taken. */
	QueueSnapshot get_snapshot(pid_t pid)
	{
		rubato_kfd_snapshot *raw = nullptr;
		QueueSnapshot snapshot;

		if (kfd_ == nullptr) {
			error_ = -ENODEV;
		} else if (note(rubato_kfd_snapshot_take(kfd_, pid, &raw))) {
			std::unique_ptr<rubato_kfd_snapshot, void (*)(rubato_kfd_snapshot *)> owner(
				raw, rubato_kfd_snapshot_free);
			return from_c(*raw);
		}
		snapshot.pid = pid;
		snapshot.error = error_;
		return snapshot;
	}

	/* Every interval until the duration is over (0: for ever) or the process has ended. */
	std::vector<QueueSnapshot> monitor(pid_t pid, Seconds duration, Seconds interval)
	{
		std::vector<QueueSnapshot> snapshots;

		if (kfd_ == nullptr) {
			error_ = -ENODEV;
		} else {
			note(rubato_kfd_monitor(
				kfd_, pid, duration.count(), interval.count(), keep, &snapshots));
		}
		return snapshots;
	}

	/* Of the C interface; it stays the caller's. */
	static QueueSnapshot from_c(const rubato_kfd_snapshot &raw)
	{
		QueueSnapshot s;

		s.timestamp = std::chrono::steady_clock::time_point(
			std::chrono::duration_cast<std::chrono::steady_clock::duration>(
				std::chrono::nanoseconds(raw.time_ns)));
		s.pid = raw.pid;
		s.error = 0;
		s.queues.reserve(raw.n_queues);
		for (uint32_t i = 0; i < raw.n_queues; i++) {
			const rubato_kfd_queue &q = raw.queues[i];
			QueueInfo info;
			info.queue_id = q.id;
			info.gpu_id = q.gpu_id;
			info.queue_type = q.type;
			info.ring_size = q.ring_size;
			info.has_addresses = q.has_addresses != 0;
			info.ring_base_address = q.ring_address;
			info.write_pointer_address = q.write_pointer_address;
			info.read_pointer_address = q.read_pointer_address;
			info.ctx_save_restore_address = q.save_address;
			info.ctx_save_restore_area_size = q.save_size;
			info.is_new = q.is_new != 0;
			if (q.has_pointers != 0) {
				info.write_pointer = q.write_pointer;
				info.read_pointer = q.read_pointer;
			}
			uint64_t pending = 0;
			if (rubato_kfd_pending(&q, &pending)) {
				info.pending = pending;
			}
			s.queues.push_back(info);
		}
		return s;
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

	/* As the tools in C print them. */
	static void print_snapshot(const QueueSnapshot &snapshot, std::FILE *out = stdout)
	{
		std::vector<rubato_kfd_queue> queues;
		rubato_kfd_snapshot raw = to_c(snapshot, queues);

		rubato_kfd_print_snapshot(out, &raw);
	}

	static void print_stats(const QueueStats &stats, std::FILE *out = stdout)
	{
		Counts counts;
		rubato_kfd_stats raw = to_c(stats, counts);

		rubato_kfd_print_stats(out, &raw);
	}

	static void print_latency(const Latency &latency, std::FILE *out = stdout)
	{
		auto raw = [](const std::optional<std::chrono::nanoseconds> &time) {
			return time ? static_cast<uint64_t>(time->count()) : 0;
		};
		rubato_kfd_latency all{
			raw(latency.open), raw(latency.enable), raw(latency.snapshot)};

		rubato_kfd_print_latency(out, &all);
	}

	/* An array for a program in C or C++: rubato_kfd_print_ids(). */
	static void print_ids(
		const QueueSnapshot &last, const QueueStats &stats, std::FILE *out = stdout)
	{
		std::vector<rubato_kfd_queue> queues;
		Counts counts;
		rubato_kfd_snapshot raw = to_c(last, queues);
		rubato_kfd_stats raw_stats = to_c(stats, counts);

		rubato_kfd_print_ids(out, &raw, &raw_stats);
	}

      private:
	bool note(int result)
	{
		error_ = result < 0 ? result : 0;
		return result >= 0;
	}

	/* The queues are kept by the caller. */
	static rubato_kfd_snapshot to_c(
		const QueueSnapshot &snapshot, std::vector<rubato_kfd_queue> &queues)
	{
		rubato_kfd_snapshot raw{};

		for (const QueueInfo &info : snapshot.queues) {
			rubato_kfd_queue q{};
			q.id = info.queue_id;
			q.gpu_id = info.gpu_id;
			q.type = info.queue_type;
			q.ring_size = info.ring_size;
			q.has_addresses = info.has_addresses;
			q.has_pointers = info.write_pointer && info.read_pointer;
			q.ring_address = info.ring_base_address;
			q.write_pointer_address = info.write_pointer_address;
			q.read_pointer_address = info.read_pointer_address;
			q.save_address = info.ctx_save_restore_address;
			q.write_pointer = info.write_pointer.value_or(0);
			q.read_pointer = info.read_pointer.value_or(0);
			q.save_size = info.ctx_save_restore_area_size;
			q.is_new = info.is_new;
			queues.push_back(q);
		}
		raw.pid = snapshot.pid;
		raw.n_queues = static_cast<uint32_t>(queues.size());
		raw.queues = queues.data();
		return raw;
	}

	struct Counts {
		std::vector<rubato_kfd_count> ids, gpus, types;
	};

	static rubato_kfd_count *to_c(const std::map<uint32_t, size_t> &map,
		std::vector<rubato_kfd_count> &counts, uint32_t &ret_n)
	{
		for (const auto &[key, n] : map) {
			counts.push_back({key, static_cast<uint32_t>(n)});
		}
		ret_n = static_cast<uint32_t>(counts.size());
		return counts.data();
	}

	static rubato_kfd_stats to_c(const QueueStats &stats, Counts &counts)
	{
		rubato_kfd_stats raw{};

		raw.n_samples = static_cast<uint32_t>(stats.total_samples);
		raw.min_queues = static_cast<uint32_t>(stats.min_queues);
		raw.max_queues = static_cast<uint32_t>(stats.max_queues);
		raw.mean_queues = stats.avg_queues;
		raw.stable = stats.is_stable;
		raw.ids = to_c(stats.queue_id_frequency, counts.ids, raw.n_ids);
		raw.gpus = to_c(stats.gpu_id_distribution, counts.gpus, raw.n_gpus);
		raw.types = to_c(stats.type_distribution, counts.types, raw.n_types);
		return raw;
	}

	/* Nothing may be thrown through C. */
	static int keep(rubato_kfd_snapshot *raw, void *data) noexcept
	{
		try {
			static_cast<std::vector<QueueSnapshot> *>(data)->push_back(from_c(*raw));
		} catch (...) {
			return -ENOMEM;
		}
		return 0;
	}

	rubato_kfd *kfd_ = nullptr;
	int error_ = 0;
};

/*
 * Suspend, resume queues of a process that a monitor of this program debugs. The fd is that
 * monitor's (QueueMonitor::fd), or any other that the program has opened on /dev/kfd. How many
 * obeyed, or -errno (-ENOTCONN: enable_debug_trap() comes first; -EAGAIN: the target's ROCm runtime
 * has not started); ids come back with RUBATO_KFD_ID_* set where one did not, so a fresh array goes
 * into every call.
 */
inline int suspend_queues(int kfd_fd, pid_t pid, uint32_t *ids, size_t n, uint32_t grace = 1)
{
	rubato_kfd *kfd = nullptr;
	int r = n > RUBATO_KFD_MAX_QUEUES ? -EINVAL : rubato_kfd_by_session(kfd_fd, pid, &kfd);

	return r < 0 ? r : rubato_kfd_suspend(kfd, pid, ids, static_cast<uint32_t>(n), grace);
}

inline int resume_queues(int kfd_fd, pid_t pid, uint32_t *ids, size_t n)
{
	rubato_kfd *kfd = nullptr;
	int r = n > RUBATO_KFD_MAX_QUEUES ? -EINVAL : rubato_kfd_by_session(kfd_fd, pid, &kfd);

	return r < 0 ? r : rubato_kfd_resume(kfd, pid, ids, static_cast<uint32_t>(n));
}

} // namespace kfd

#ifndef RUBATO_KFD_NO_GLOBAL_NAMES
using kfd::resume_queues;
using kfd::suspend_queues;
#endif

#endif
