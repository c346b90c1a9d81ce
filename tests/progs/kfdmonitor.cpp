// SPDX-License-Identifier: Apache-2.0
// The C++ interface on a running program (kfdmonitor PID): sees it, takes it off the GPU, puts it
// back. Exits with 0 when everything was as it should be; a line says what was not.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <limits>
#include <unistd.h>

#include "rubato/kfd_queue_monitor.hpp"

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			std::fprintf(stderr, "kfdmonitor: line %d: %s\n", __LINE__, #cond);        \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int end_with_third(rubato_kfd_snapshot *, void *n_samples)
{
	return ++*static_cast<int *>(n_samples) == 3 ? -ECANCELED : 0;
}

/* The longest durations are for ever, too, and not over at once. */
static int check_long(pid_t pid)
{
	const double longest_s = kfd::Seconds(std::chrono::hours::max()).count();
	rubato_kfd *kfd = nullptr;
	int n = 0;

	REQUIRE(rubato_kfd_open(&kfd) == 0);
	REQUIRE(rubato_kfd_monitor(kfd, pid, longest_s, 0.01, end_with_third, &n) == -ECANCELED);
	REQUIRE(rubato_kfd_monitor(kfd, pid, 0.01, longest_s, end_with_third, &n) == 0);
	const double unknown = std::numeric_limits<double>::quiet_NaN();
	REQUIRE(rubato_kfd_monitor(kfd, pid, unknown, 0.01, end_with_third, &n) == -EINVAL);
	rubato_kfd_close(kfd);
	return 0;
}

static int check(kfd::QueueMonitor &monitor, pid_t pid)
{
	using namespace std::chrono_literals;

	REQUIRE(!monitor.latency().snapshot && !monitor.latency().enable);
	auto before = monitor.get_snapshot(pid);
	REQUIRE(before && before.queues.size() >= 2 && before.queues[0].ring_base_address == 0);
	REQUIRE(monitor.enable_debug_trap(pid) && monitor.error() == 0);
	auto snapshot = monitor.get_snapshot(pid);
	REQUIRE(snapshot.is_valid() && snapshot.error == 0 && snapshot.pid == pid);
	REQUIRE(snapshot.get_queue_ids() == before.get_queue_ids());
	REQUIRE(snapshot.queues[0].ring_base_address != 0 && snapshot.queues[0].pending);
	/* A queue is new once. */
	for (const auto &queue : snapshot.queues) {
		REQUIRE(queue.is_new);
	}
	for (const auto &queue : monitor.get_snapshot(pid).queues) {
		REQUIRE(!queue.is_new);
	}
	kfd::QueueMonitor::print_snapshot(snapshot);
	auto latency = monitor.latency();
	REQUIRE(latency.open && latency.enable && latency.snapshot);
	REQUIRE(*latency.enable > 0ns && *latency.enable < 60s);
	kfd::QueueMonitor::print_latency(latency);

	auto ids = snapshot.get_queue_ids();
	int n = static_cast<int>(ids.size());
	REQUIRE(kfd::suspend_queues(monitor.fd(), pid, ids.data(), ids.size()) == n);
	uint32_t unknown = 1000;
	REQUIRE(kfd::suspend_queues(monitor.fd(), pid, &unknown, 1) == 0);
	REQUIRE(unknown == (1000 | RUBATO_KFD_ID_INVALID));
	ids = snapshot.get_queue_ids();
	REQUIRE(kfd::resume_queues(monitor.fd(), pid, ids.data(), ids.size()) == n);
	/* Grace outside of the device's limits is the nearest within them. */
	for (uint32_t grace : {0u, 256u, UINT32_MAX}) {
		ids = snapshot.get_queue_ids();
		REQUIRE(kfd::suspend_queues(monitor.fd(), pid, ids.data(), ids.size(), grace) == n);
		ids = snapshot.get_queue_ids();
		REQUIRE(kfd::resume_queues(monitor.fd(), pid, ids.data(), ids.size()) == n);
	}
	REQUIRE(kfd::resume_queues(-1, pid, ids.data(), ids.size()) == -EBADF);
	/* Any file of /dev/kfd is as good, and no other. */
	int own = open("/dev/kfd", O_RDWR | O_CLOEXEC),
	    null = open("/dev/null", O_RDWR | O_CLOEXEC);
	REQUIRE(suspend_queues(own, pid, ids.data(), ids.size()) == n);
	REQUIRE(resume_queues(own, pid, ids.data(), ids.size()) == n);
	REQUIRE(resume_queues(own, getpid(), ids.data(), ids.size()) == -ENOTCONN);
	REQUIRE(resume_queues(null, pid, ids.data(), ids.size()) == -EBADF);

	auto samples = monitor.monitor(pid, 250ms, 100ms);
	REQUIRE(samples.size() == 3);
	auto stats = kfd::QueueMonitor::analyze(samples);
	REQUIRE(stats.is_stable && stats.min_queues == ids.size() &&
		stats.max_queues == ids.size());
	REQUIRE(stats.queue_id_frequency[0] == 3 && stats.gpu_id_distribution.size() == 1);
	kfd::QueueMonitor::print_stats(stats);
	REQUIRE(kfd::QueueMonitor::analyze({}).total_samples == 0);
	kfd::QueueMonitor::print_ids(snapshot, stats);
	REQUIRE(monitor.monitor(pid, 0.05, 0.1).size() == 1);
	REQUIRE(monitor.monitor(pid, 1, 0).empty() && monitor.error() == -EINVAL);
	REQUIRE(monitor.disable_debug_trap(pid));
	REQUIRE(kfd::resume_queues(monitor.fd(), pid, ids.data(), ids.size()) == -ENOTCONN);
	auto bad = monitor.get_snapshot(-5);
	REQUIRE(!bad && bad.queues.empty() && bad.error < 0 && bad.error == monitor.error());
	REQUIRE(!kfd::QueueSnapshot());
	/* Process 1 has no queues; whether it has is not for everyone to know. */
	REQUIRE(!monitor.enable_debug_trap(1) && (monitor.error() == -ENXIO || geteuid() != 0));
	return 0;
}

/* Pointers are the program's own to write: what makes no sense is not known, as in C. */
static int check_pending()
{
	rubato_kfd_queue queue{};
	rubato_kfd_snapshot raw{};

	queue.ring_size = 4096;
	queue.has_pointers = 1;
	queue.write_pointer = 7;
	queue.read_pointer = 5;
	raw.n_queues = 1;
	raw.queues = &queue;
	REQUIRE(kfd::QueueMonitor::from_c(raw).queues[0].pending == 2);
	queue.write_pointer = 2;
	REQUIRE(!kfd::QueueMonitor::from_c(raw).queues[0].pending);
	REQUIRE(kfd::QueueMonitor::from_c(raw).queues[0].write_pointer == 2);
	queue.has_pointers = 0;
	REQUIRE(!kfd::QueueMonitor::from_c(raw).queues[0].read_pointer);
	return 0;
}

int main(int argc, char **argv)
{
	kfd::QueueMonitor monitor;

	if (argc != 2 || !monitor.open_kfd()) {
		std::fprintf(stderr, "kfdmonitor: %s\n", rubato_kfd_strerror(monitor.error()));
		return 2;
	}
	kfd::QueueMonitor moved = std::move(monitor);
	REQUIRE(moved.is_open() && !monitor.is_open() && monitor.fd() == -ENODEV);
	REQUIRE(!monitor.get_snapshot(1) && monitor.error() == -ENODEV);
	kfd::QueueMonitor closed, closed_too;
	REQUIRE(!closed.enable_debug_trap(1) && closed.error() == -ENODEV);
	REQUIRE(!closed_too.disable_debug_trap(1) && closed_too.error() == -ENODEV);
	const pid_t pid = static_cast<pid_t>(std::atoi(argv[1]));
	if (check_pending() != 0 || check_long(pid) != 0) {
		return 1;
	}
	return check(moved, pid);
}
