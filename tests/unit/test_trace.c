/* SPDX-License-Identifier: Apache-2.0 */
/* What `rubato trace` writes: whatever events come, slices of a track neither overlap nor go back,
 * and the file is whole after each write. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "cli/trace/chrome.h"
#include "cli/trace/file.h"

#define DAEMON   1000
#define N_EVENTS 20000
#define N_PIDS   12
#define N_TRACKS 8

/* The open slices of a track, and the time of its last event. */
static struct {
	int depth;
	double last_us;
} tracks[2000][N_TRACKS];
static unsigned n_begins;

static double number_after(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	return at != NULL ? strtod(at + strlen(key), NULL) : -1;
}

static void check_line(const char *line)
{
	int pid = (int)number_after(line, "\"pid\": "), tid = (int)number_after(line, "\"tid\": ");
	double us = number_after(line, "\"ts\": ");

	CHECK(pid > 0 && pid < 2000 && tid >= 0 && tid < N_TRACKS);
	if (strstr(line, "\"ph\": \"M\"") != NULL) {
		return;
	}
	CHECK(us >= tracks[pid][tid].last_us);
	tracks[pid][tid].last_us = us;
	if (strstr(line, "\"ph\": \"B\"") != NULL) {
		CHECK_INT(tracks[pid][tid].depth++, 0);
		n_begins++;
	} else if (strstr(line, "\"ph\": \"E\"") != NULL) {
		CHECK_INT(tracks[pid][tid].depth--, 1);
	}
}

static void check_lines(char *text)
{
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		CHECK(line[0] == ',');
		check_line(line);
	}
}

static void test_random(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	const struct rbt_gpu gpus[RBT_MAX_GPUS] = {{1, 0}, {1, 1}, {2, 0}};
	struct chrome c;

	srand(1);
	chrome_begin(&c, out, DAEMON, 5000, 0);
	chrome_set_gpus(&c, gpus);
	for (uint64_t i = 0; i < N_EVENTS; i++) {
		struct rbt_trace_event e = {.time_ns = i * 1000,
			.pid = 1 + rand() % N_PIDS,
			.start_time = (uint64_t)(rand() % 8 == 0),
			.flags = (uint32_t)rand() % 256,
			.gpus = (uint32_t)rand() % 8,
			.priority = (uint32_t)rand() % 20};

		/* Nothing but the pid is believed. */
		e.time_ns -= rand() % 16 == 0 && i > 5 ? 4000 : 0;
		memset(e.name, 'a' + rand() % 3, sizeof(e.name));
		CHECK_INT(chrome_put(&c, &e), 0);
		if (rand() % 512 == 0) {
			chrome_end_all(&c, i * 1000, i % 2);
		}
	}
	chrome_end_all(&c, 0, 0);
	chrome_finish(&c);
	fclose(out);
	check_lines(text);
	free(text);
	CHECK(n_begins > N_EVENTS / 2);
	for (int pid = 0; pid < 2000; pid++) {
		for (int i = 0; i < N_TRACKS; i++) {
			CHECK_INT(tracks[pid][i].depth, 0);
		}
	}
}

static void check_file(const char *path, const char *wanted)
{
	char text[256];
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	CHECK(strcmp(text, wanted) == 0);
}

static void test_file(void)
{
	char path[] = "/tmp/rbt-trace-XXXXXX";
	struct trace_file f;
	struct rlimit limit = {.rlim_cur = 24, .rlim_max = RLIM_INFINITY};

	close(mkstemp(path));
	CHECK_INT(trace_file_open(&f, path), 0);
	check_file(path, "[\n]\n");
	CHECK_INT(trace_file_append(&f, "", 0), 0);
	CHECK_INT(trace_file_append(&f, ",{}\n", 4), 0);
	check_file(path, "[\n{}\n]\n");
	CHECK_INT(trace_file_append(&f, ",{\"a\": 1}\n", 10), 0);
	check_file(path, "[\n{}\n,{\"a\": 1}\n]\n");
	/* There is room for some of it, but not for all. */
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	CHECK_INT(trace_file_append(&f, ",{\"longer\": 1}\n", 15), -EFBIG);
	check_file(path, "[\n{}\n,{\"a\": 1}\n]\n");
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &limit);
	CHECK_INT(trace_file_append(&f, ",{\"longer\": 1}\n", 15), 0);
	CHECK_INT(trace_file_close(&f), 0);
	CHECK_INT(trace_file_close(&f), 0);
	check_file(path, "[\n{}\n,{\"a\": 1}\n,{\"longer\": 1}\n]\n");
	unlink(path);
	CHECK_INT(trace_file_open(&f, "/nonexistent/file"), -ENOENT);
}

static void test_base(void)
{
	/* As PyTorch: multiples of 7889238 s. */
	CHECK(chrome_base_ns(UINT64_C(1790000000123456789)) == UINT64_C(7889238000000000) * 226);
	CHECK(chrome_base_ns(UINT64_C(7889238000000000)) == UINT64_C(7889238000000000));
}

int main(void)
{
	test_random();
	test_file();
	test_base();
	return check_result();
}
