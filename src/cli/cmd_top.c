/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/top/layout.h"
#include "cli/top/print.h"
#include "cli/top/screen.h"
#include "cli/top/source.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/time.h"

#define MAX_COLUMNS 1000u

struct choice {
	bool batch, once, json, no_color;
	uint64_t count; /* 0: no end */
	struct top_ui ui;
};

void top_clock(char buf[16])
{
	time_t now = time(NULL);
	struct tm tm;

	buf[0] = '\0';
	if (localtime_r(&now, &tm) != NULL) {
		strftime(buf, 16, "%H:%M:%S", &tm);
	}
}

bool top_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* A size from the environment; 0: none is set. */
static int size_from(const char *name)
{
	const char *text = getenv(name);
	uint64_t value;

	return text != NULL && rbt_parse_u64(text, 1, MAX_COLUMNS, &value) == 0 ? (int)value : 0;
}

static int width_of_output(void)
{
	struct winsize size;
	int width = size_from("COLUMNS");

	if (width == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
		width = size.ws_col;
	}
	return width > 0 ? width : 80;
}

static uint64_t wall_clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / RBT_NS_PER_MS;
}

static int print_sample(struct choice *c, const struct top_model *m, uint64_t n_before)
{
	char clock[16];

	if (c->json) {
		return top_print_json(stdout, m, &c->ui.order, wall_clock_ms(), !c->once);
	}
	if (n_before > 0) {
		putchar('\n');
	}
	top_clock(clock);
	return top_print_screen(
		stdout, m, &c->ui, width_of_output(), size_from("LINES"), top_is_utf8(), clock);
}

static void sleep_until(uint64_t when_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(when_ns / RBT_NS_PER_S),
		.tv_nsec = (long)(when_ns % RBT_NS_PER_S),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR) {
	}
}

/* Screens one after another on standard output. The first sample is the base of the first rates. */
static int run_plain(struct choice *c, struct top_source *source)
{
	struct top_model model;
	int r = 0;

	top_model_init(&model);
	c->ui.plain = true;
	for (uint64_t n = 0; r == 0 && (c->count == 0 || n <= c->count); n++) {
		struct top_sample *sample;
		r = top_source_sample(source, &sample);
		if (r < 0) {
			break;
		}
		uint64_t next_ns = sample->now_ns + c->ui.delay_ms * RBT_NS_PER_MS;
		r = top_model_update(&model, sample);
		top_sample_destroy(sample);
		if (r == 0 && n > 0) {
			r = print_sample(c, &model, n - 1);
		}
		if (fflush(stdout) != 0) {
			r = -errno;
		}
		if (r == 0 && (c->count == 0 || n < c->count)) {
			sleep_until(next_ns);
		}
	}
	top_model_finish(&model);
	if (r < 0) {
		rbt_error("top: cannot write output: %s", strerror(-r));
	}
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int run_screen(struct choice *c, struct top_source *source)
{
#ifdef RUBATO_HAVE_NCURSES
	const char *no_color = getenv("NO_COLOR");

	return top_screen_run(source, &c->ui, c->count,
		!c->no_color && (no_color == NULL || no_color[0] == '\0'));
#else
	top_source_destroy(source);
	rbt_error(
		"top: built without ncursesw: no screen, only --once, --batch and --json (see `rubato doctor`)");
	return EXIT_FAILED;
#endif
}

static int parse_sort(struct choice *c, const char *arg)
{
	for (int by = 0; by < TOP_N_COLUMNS; by++) {
		if (by != TOP_BY_HISTORY && strcmp(arg, top_column_name((enum top_by)by)) == 0) {
			c->ui.order.by = (enum top_by)by;
			return 0;
		}
	}
	return usage_error(&cmd_top, "no such column: %s", arg);
}

static int take_option(struct choice *c, int option, const char *arg)
{
	struct top_order *order = &c->ui.order;

	switch (option) {
	case 'b':
		c->batch = true;
		return 0;
	case 'o':
		c->once = true;
		return 0;
	case 'j':
		c->json = true;
		return 0;
	case 'C':
		c->no_color = true;
		return 0;
	case 's':
		return parse_sort(c, arg);
	case 'f':
		if (strlen(arg) >= sizeof(order->filter)) {
			return usage_error(
				&cmd_top, "--filter: at most %zu bytes", sizeof(order->filter) - 1);
		}
		snprintf(order->filter, sizeof(order->filter), "%s", arg);
		return 0;
	case 'n':
		return rbt_parse_u64(arg, 1, UINT32_MAX, &c->count) == 0
			       ? 0
			       : usage_error(
					 &cmd_top, "--count takes a number from 1 on, not %s", arg);
	default:
		if (rbt_parse_seconds(arg, TOP_DELAY_MAX_MS, &c->ui.delay_ms) < 0 ||
			c->ui.delay_ms < TOP_DELAY_MIN_MS) {
			return usage_error(&cmd_top, "--delay takes seconds from 0.1 to %u, not %s",
				TOP_DELAY_MAX_MS / 1000, arg);
		}
		return 0;
	}
}

/* True: go on; otherwise the exit code is in *ret. */
static bool parse(struct choice *c, int argc, char **argv, int *ret)
{
	static const struct option options[] = {
		{"delay", required_argument, NULL, 'd'},
		{"count", required_argument, NULL, 'n'},
		{"batch", no_argument, NULL, 'b'},
		{"once", no_argument, NULL, 'o'},
		{"json", no_argument, NULL, 'j'},
		{"sort", required_argument, NULL, 's'},
		{"filter", required_argument, NULL, 'f'},
		{"no-color", no_argument, NULL, 'C'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "d:n:bh", options, NULL)) != -1) {
		if (option == 'h') {
			*ret = print_usage(&cmd_top);
			return false;
		}
		if (option == '?' || take_option(c, option, optarg) != 0) {
			*ret = EXIT_USAGE;
			return false;
		}
	}
	*ret = EXIT_USAGE;
	if (optind != argc) {
		usage_error(&cmd_top, "unexpected argument: %s", argv[optind]);
		return false;
	}
	if (c->once && c->count > 0) {
		usage_error(&cmd_top, "--once means once; use --batch or --json with --count");
		return false;
	}
	c->count = c->once ? 1 : c->count;
	return true;
}

static int run(int argc, char **argv)
{
	struct choice c = {0};
	struct top_source *source;
	int code;

	top_ui_init(&c.ui);
	if (!parse(&c, argc, argv, &code)) {
		return code;
	}
	setlocale(LC_ALL, "");
	int r = top_source_create(&source);
	if (r < 0) {
		return no_device_error(&cmd_top, r);
	}
	if (!c.batch && !c.once && !c.json) {
		code = run_screen(&c, source);
	} else {
		code = run_plain(&c, source);
		top_source_destroy(source);
	}
	top_ui_finish(&c.ui);
	return code;
}

const struct command cmd_top = {
	.name = "top",
	.summary = "watch who has the GPUs, and change it",
	.usage =
		"Usage: rubato top [-d SECONDS] [-n COUNT] [--batch | --once] [--json] [OPTIONS]\n"
		"\n"
		"Shows GPUs and programs, updated regularly: how much of the time each had the GPU, how\n"
		"long it waited, its requests. Programs can be reniced, suspended and resumed from it;\n"
		"h shows the keys. A dash means that something is not known.\n"
		"\n"
		"  -d, --delay SECONDS      time between samples, 0.1 to 3600 (default 1)\n"
		"  -n, --count COUNT        end after this many samples\n"
		"  -b, --batch              plain text on standard output, one screen after another\n"
		"      --once               one such screen, after one delay\n"
		"      --json               one JSON object per sample and line; with --once, one object\n"
		"      --sort COLUMN        pid, user, class, priority, state, gpu, share (default),\n"
		"                           wait, memory, limit, pending, requests, p99, off,\n"
		"                           done, turns or command\n"
		"      --filter TEXT        only programs with TEXT in command, user, pid or class\n"
		"      --no-color           no colours; NO_COLOR in the environment means the same\n"
		"\n"
		"Plain screens are as wide as COLUMNS or the terminal, and as long as LINES or needed.\n",
	.run = run,
};
