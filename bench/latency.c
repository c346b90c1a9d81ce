/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A latency program. A request is a chain of small kernels, launched as one CUDA graph or one by
 * one, then a synchronisation; or, with gaps, 16 such graphs, each synchronised, as a program does
 * that generates token by token. Requests arrive by a Poisson process, whether or not earlier ones
 * are done (open loop), and are served one after another: latency counts from arrival, service from
 * the first launch. When the program itself slept past a moment of arrival, with nothing to serve,
 * the request arrived when it woke: that is its lateness, and said apart.
 *
 * Driven by lines on standard input, answered by one line of JSON each:
 *   measure graph|eager|gaps[+hints] REQUESTS RATE_PER_S SEED
 *           +hints: tells Rubato where each request begins and ends
 *   check   how many threads have a wrong result, over all requests
 *   quit (or end of file)
 * With --input-kib, a request copies that much to the device first. The length of its kernels is
 * calibrated (--request-us), or the work in a kernel given (--steps).
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_min.h"
#include "rubato/rubato.h"
#include "util/time.h"

#define WARM_REQUESTS 5
#define MAX_REQUESTS  1000000u
#define GAPS_GRAPHS   16

enum mode { MODE_GRAPH, MODE_EAGER, MODE_GAPS };

struct server {
	struct cuda cuda;
	struct cuda_spin spin;
	unsigned n_kernels;
	void *graph;        /* executable */
	size_t input_bytes; /* 0: there is nothing to copy */
	void *input;
	uint64_t device_input;
};

struct load {
	enum mode mode;
	bool hinted;
	unsigned n;
	double rate;
	uint64_t seed;
};

struct sample {
	double latency_us, service_us, late_us;
};

static void launch_all(struct server *s)
{
	for (unsigned i = 0; i < s->n_kernels; i++) {
		cuda_spin_launch(&s->spin);
	}
}

static void capture_graph(struct server *s)
{
	uint64_t total_steps = s->spin.total_steps;
	void *graph;

	CUDA_DO(&s->cuda, cuStreamBeginCapture_v2, s->cuda.stream, CUDA_CAPTURE_THREAD_LOCAL);
	launch_all(s);
	CUDA_DO(&s->cuda, cuStreamEndCapture, s->cuda.stream, &graph);
	CUDA_DO(&s->cuda, cuGraphInstantiateWithFlags, &s->graph, graph, 0ull);
	s->spin.total_steps = total_steps; /* captured, not run */
}

static void copy_input(struct server *s)
{
	if (s->input_bytes > 0) {
		CUDA_DO(&s->cuda, cuMemcpyHtoDAsync_v2, s->device_input, s->input, s->input_bytes,
			s->cuda.stream);
	}
}

static void serve_graph(struct server *s)
{
	CUDA_DO(&s->cuda, cuGraphLaunch, s->graph, s->cuda.stream);
	s->spin.total_steps += (uint64_t)s->n_kernels * s->spin.steps;
	CUDA_DO(&s->cuda, cuStreamSynchronize, s->cuda.stream);
}

static void serve(struct server *s, enum mode mode)
{
	copy_input(s);
	switch (mode) {
	case MODE_GRAPH:
		serve_graph(s);
		break;
	case MODE_EAGER:
		launch_all(s);
		CUDA_DO(&s->cuda, cuStreamSynchronize, s->cuda.stream);
		break;
	case MODE_GAPS:
		for (unsigned i = 0; i < GAPS_GRAPHS; i++) {
			serve_graph(s);
		}
		break;
	}
}

static void serve_told(struct server *s, const struct load *load)
{
	if (load->hinted) {
		rubato_request_begin(0);
	}
	serve(s, load->mode);
	if (load->hinted) {
		rubato_request_end();
	}
}

/* Uniform in (0, 1]: splitmix64, so that a seed means the same arrivals everywhere. */
static double next_uniform(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return ((double)(z >> 11) + 1) * 0x1p-53;
}

/* A sleeper wakes some 50 µs late: sleep short of the moment, then spin. */
static void wait_until(uint64_t when_ns)
{
	const uint64_t early_ns = 100 * RBT_NS_PER_US;

	if (when_ns > rbt_now_ns() + early_ns) {
		struct timespec ts = {
			.tv_sec = (time_t)((when_ns - early_ns) / RBT_NS_PER_S),
			.tv_nsec = (long)((when_ns - early_ns) % RBT_NS_PER_S),
		};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	}
	while (rbt_now_ns() < when_ns) {
	}
}

static void print_samples(const char *key, const struct sample *samples, size_t n, size_t offset)
{
	printf("\"%s\": [", key);
	for (size_t i = 0; i < n; i++) {
		double us = *(const double *)((const char *)&samples[i] + offset);

		printf("%s%.1f", i == 0 ? "" : ", ", us);
	}
	printf("]");
}

static void measure(struct server *s, const struct load *load)
{
	unsigned n = load->n;
	uint64_t seed = load->seed;
	struct sample *samples = calloc(n, sizeof(*samples));
	uint64_t arrival_ns = rbt_now_ns() + RBT_NS_PER_MS, end_ns = arrival_ns, served_ns = 0;

	if (samples == NULL) {
		printf("{\"error\": \"out of memory\"}\n");
		return;
	}
	for (unsigned i = 0; i < n + WARM_REQUESTS; i++) {
		double gap_s = -log(next_uniform(&seed)) / load->rate;

		arrival_ns += (uint64_t)(gap_s * (double)RBT_NS_PER_S);
		bool idle = arrival_ns >= end_ns;
		wait_until(arrival_ns);
		uint64_t start_ns = rbt_now_ns();

		serve_told(s, load);
		end_ns = rbt_now_ns();
		served_ns += end_ns - start_ns;
		if (i >= WARM_REQUESTS) {
			samples[i - WARM_REQUESTS] = (struct sample){
				.latency_us =
					(double)(end_ns - (idle ? start_ns : arrival_ns)) / 1e3,
				.service_us = (double)(end_ns - start_ns) / 1e3,
				.late_us = idle ? (double)(start_ns - arrival_ns) / 1e3 : 0,
			};
		}
	}
	printf("{");
	print_samples("latency_us", samples, n, offsetof(struct sample, latency_us));
	printf(", ");
	print_samples("service_us", samples, n, offsetof(struct sample, service_us));
	printf(", ");
	print_samples("late_us", samples, n, offsetof(struct sample, late_us));
	printf(", \"n_served\": %u, \"served_us\": %.1f}\n", n + WARM_REQUESTS,
		(double)served_ns / 1e3);
	free(samples);
}

static bool parse_mode(char *word, struct load *load)
{
	static const char *const names[] = {
		[MODE_GRAPH] = "graph", [MODE_EAGER] = "eager", [MODE_GAPS] = "gaps"};
	char *plus = strchr(word, '+');

	load->hinted = plus != NULL && strcmp(plus, "+hints") == 0;
	if (plus != NULL && !load->hinted) {
		return false;
	}
	if (plus != NULL) {
		*plus = '\0';
	}
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(word, names[i]) == 0) {
			load->mode = (enum mode)i;
			return true;
		}
	}
	return false;
}

static void obey(struct server *s, const char *line)
{
	unsigned long long seed;
	struct load load;
	char mode[16];

	if (sscanf(line, "measure %15s %u %lf %llu", mode, &load.n, &load.rate, &seed) == 4 &&
		parse_mode(mode, &load) && load.n >= 1 && load.n <= MAX_REQUESTS &&
		load.rate >= 0.01 && load.rate <= 1e6) {
		load.seed = seed;
		measure(s, &load);
	} else if (strcmp(line, "check\n") == 0) {
		printf("{\"wrong_threads\": %zu}\n", cuda_spin_count_wrong(&s->spin));
	} else {
		printf("{\"error\": \"unknown command\"}\n");
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
		"--kernels", "--request-us", "--steps", "--input-kib", NULL};
	static struct server s;
	char line[256];

	bench_options_check(argc, argv, names);
	s.n_kernels = (unsigned)bench_option(argc, argv, "--kernels", 10000, 60);
	double request_us = (double)bench_option(argc, argv, "--request-us", 10000000, 1000);

	cuda_open(&s.cuda);
	cuda_spin_init(&s.spin, &s.cuda, (unsigned)s.cuda.sm_count);
	s.spin.steps = (uint32_t)bench_option(argc, argv, "--steps", UINT32_MAX, 0);
	if (s.spin.steps == 0) {
		cuda_spin_calibrate(&s.spin, s.n_kernels, request_us);
	}
	s.input_bytes = (size_t)bench_option(argc, argv, "--input-kib", 1 << 20, 0) << 10;
	if (s.input_bytes > 0) {
		CUDA_DO(&s.cuda, cuMemAllocHost_v2, &s.input, s.input_bytes);
		CUDA_DO(&s.cuda, cuMemAlloc_v2, &s.device_input, s.input_bytes);
	}
	capture_graph(&s);
	serve(&s, MODE_GRAPH);
	bench_ready(&s.cuda, "latency", request_us);
	while (fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "quit\n") != 0) {
		obey(&s, line);
	}
	return 0;
}
