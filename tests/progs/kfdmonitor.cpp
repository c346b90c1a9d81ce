// SPDX-License-Identifier: Apache-2.0
// The C++ interface on a running program (kfdmonitor PID): sees it, takes it off the GPU, puts it
// back. Exits with 0 when everything was as it should be; a line says what was not.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "rubato/kfd_queue_monitor.hpp"

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			std::fprintf(stderr, "kfdmonitor: line %d: %s\n", __LINE__, #cond);        \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int check(kfd::QueueMonitor &monitor, pid_t pid)
{
	using namespace std::chrono_literals;

	auto before = monitor.get_snapshot(pid);
	REQUIRE(before && before->queues.size() >= 2 && before->queues[0].ring_base_address == 0);
	REQUIRE(monitor.enable_debug_trap(pid) && monitor.error() == 0);
	auto snapshot = monitor.get_snapshot(pid);
	REQUIRE(snapshot && snapshot->pid == pid);
	REQUIRE(snapshot->get_queue_ids() == before->get_queue_ids());
	REQUIRE(snapshot->queues[0].ring_base_address != 0 && snapshot->queues[0].pending);
	kfd::QueueMonitor::print_snapshot(*snapshot);

	auto ids = snapshot->get_queue_ids();
	int n = static_cast<int>(ids.size());
	REQUIRE(kfd::suspend_queues(monitor.fd(), pid, ids.data(), ids.size()) == n);
	uint32_t unknown = 1000;
	REQUIRE(kfd::suspend_queues(monitor.fd(), pid, &unknown, 1) == 0);
	REQUIRE(unknown == (1000 | RUBATO_KFD_ID_INVALID));
	ids = snapshot->get_queue_ids();
	REQUIRE(kfd::resume_queues(monitor.fd(), pid, ids.data(), ids.size()) == n);
	REQUIRE(kfd::resume_queues(-1, pid, ids.data(), ids.size()) == -EBADF);

	auto samples = monitor.monitor(pid, 250ms, 100ms);
	REQUIRE(samples.size() == 3);
	auto stats = kfd::QueueMonitor::analyze(samples);
	REQUIRE(stats.is_stable && stats.min_queues == ids.size() &&
		stats.max_queues == ids.size());
	REQUIRE(stats.queue_id_frequency[0] == 3 && stats.gpu_id_distribution.size() == 1);
	kfd::QueueMonitor::print_stats(stats);
	REQUIRE(kfd::QueueMonitor::analyze({}).total_samples == 0);
	REQUIRE(monitor.disable_debug_trap(pid));
	REQUIRE(kfd::resume_queues(monitor.fd(), pid, ids.data(), ids.size()) == -ENOTCONN);
	/* Process 1 has no queues; whether it has is not for everyone to know. */
	REQUIRE(!monitor.enable_debug_trap(1) && (monitor.error() == -ENXIO || geteuid() != 0));
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
	return check(moved, static_cast<pid_t>(std::atoi(argv[1])));
}
