// SPDX-License-Identifier: Apache-2.0
// kfdusers PID: a program as users of the header write it. The text between the lines is theirs, and
// must compile and run as it is; around it are their variables, and a look at the results.
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>

// clang-format off
// ---
#include "kfd_queue_monitor.hpp"
// ---
// clang-format on

static void on_alarm(int)
{
}

// A signal that is handled ends a pause between samples: what asks for a minute takes a second.
static void hurry()
{
	struct sigaction action = {};
	struct itimerval often = {};

	action.sa_handler = on_alarm;
	sigaction(SIGALRM, &action, nullptr);
	often.it_interval.tv_usec = often.it_value.tv_usec = 100000;
	setitimer(ITIMER_REAL, &often, nullptr);
}

int main(int argc, char **argv)
{
	const pid_t target_pid = argc == 2 ? std::atoi(argv[1]) : 0, offline_pid = target_pid;
	const int kfd_fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	hurry();
	// clang-format off
	// ---
kfd::QueueMonitor monitor;
monitor.open_kfd(); monitor.enable_debug_trap(target_pid);
auto snapshot = monitor.get_snapshot(target_pid);
for (const auto& queue : snapshot.queues) { std::printf("%u on %u\n", queue.queue_id, queue.gpu_id); }
auto snapshots = monitor.monitor(target_pid, 60, 10);     // seconds, seconds
auto stats = kfd::QueueMonitor::analyze(snapshots);
auto queue_ids = snapshot.get_queue_ids();
suspend_queues(kfd_fd, offline_pid, queue_ids.data(), queue_ids.size());
resume_queues(kfd_fd, offline_pid, queue_ids.data(), queue_ids.size());
	// ---
	// clang-format on
	kfd::QueueMonitor::print_snapshot(snapshot);
	kfd::QueueMonitor::print_stats(stats);
	kfd::QueueMonitor::print_ids(snapshot, stats);
	bool good = snapshot && !queue_ids.empty() && monitor.error() == 0 &&
		    snapshots.size() == 6 && stats.is_stable;
	return good ? 0 : 1;
}
