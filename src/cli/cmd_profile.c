/* SPDX-License-Identifier: Apache-2.0 */
/* `rubato profile`: records the kernels of a program, and shows such a file. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cuda/intercept.h"
#include "orion/demangle.h"
#include "orion/profile.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"
#include "util/utf8.h"

static const char *kind_name(enum rbt_kernel_kind kind)
{
	static const char *const names[] = {[RBT_KERNEL_UNKNOWN] = "-",
		[RBT_KERNEL_COMPUTE] = "compute",
		[RBT_KERNEL_MEMORY] = "memory"};

	return names[kind];
}

/* Longest in all first, then by name. */
static int compare(const void *a, const void *b)
{
	const struct rbt_profile_row *x = *(const struct rbt_profile_row *const *)a;
	const struct rbt_profile_row *y = *(const struct rbt_profile_row *const *)b;
	uint64_t x_ns = rbt_profile_row_total_ns(x), y_ns = rbt_profile_row_total_ns(y);

	return x_ns != y_ns ? (x_ns < y_ns ? 1 : -1) : strcmp(x->name, y->name);
}

/* An unknown number is not 0. */
static void json_number(struct rbt_json *j, const char *key, uint64_t value)
{
	if (value > 0) {
		rbt_json_u64(j, key, value);
	} else {
		rbt_json_null(j, key);
	}
}

static void json_dims(struct rbt_json *j, const char *key, const uint32_t dims[3])
{
	rbt_json_array(j, key);
	for (int i = 0; i < 3; i++) {
		rbt_json_u64(j, NULL, dims[i]);
	}
	rbt_json_end(j, ']');
}

static void json_row(struct rbt_json *j, const struct rbt_profile_row *row)
{
	rbt_json_object(j, NULL);
	rbt_json_string(j, "name", row->name);
	if (row->facts.kind != RBT_KERNEL_UNKNOWN) {
		rbt_json_string(j, "kind", kind_name(row->facts.kind));
	} else {
		rbt_json_null(j, "kind");
	}
	json_number(j, "sms", row->facts.sms);
	json_number(j, "duration_ns", row->facts.duration_ns);
	json_number(j, "memory_bytes", row->memory_bytes);
	if (row->has_shape) {
		json_dims(j, "grid", row->shape.grid);
		json_dims(j, "block", row->shape.block);
		rbt_json_u64(j, "shared_bytes", row->shape.shared);
	} else {
		rbt_json_null(j, "grid");
		rbt_json_null(j, "block");
		rbt_json_null(j, "shared_bytes");
	}
	json_number(j, "runs", row->runs);
	json_number(j, "total_ns", row->total_ns);
	json_number(j, "p50_ns", row->p50_ns);
	json_number(j, "p99_ns", row->p99_ns);
	json_number(j, "max_ns", row->max_ns);
	rbt_json_end(j, '}');
}

static void print_json(const struct rbt_profile_row *const *rows, size_t n)
{
	struct rbt_json j;

	rbt_json_init(&j, stdout);
	rbt_json_array(&j, NULL);
	for (size_t i = 0; i < n; i++) {
		json_row(&j, rows[i]);
	}
	rbt_json_end(&j, ']');
}

#define CELL_MAX 48

/* A number divided by `unit`, with one decimal if that is not 1; "-" if it is not known. */
static const char *cell(uint64_t value, unsigned unit, char buf[CELL_MAX])
{
	if (value == 0) {
		return "-";
	}
	if (unit == 1) {
		snprintf(buf, CELL_MAX, "%" PRIu64, value);
	} else {
		snprintf(buf, CELL_MAX, "%.1f", (double)value / unit);
	}
	return buf;
}

static void print_shape(const struct rbt_profile_row *row)
{
	const uint32_t *g = row->shape.grid, *b = row->shape.block;
	char grid[CELL_MAX] = "-", block[CELL_MAX] = "-", shared[CELL_MAX] = "-";

	if (row->has_shape) {
		snprintf(grid, sizeof(grid), "%ux%ux%u", g[0], g[1], g[2]);
		snprintf(block, sizeof(block), "%ux%ux%u", b[0], b[1], b[2]);
		snprintf(shared, sizeof(shared), "%u", row->shape.shared);
	}
	printf("%-14s %-12s %7s  ", grid, block, shared);
}

/* The name without its parameters, since mangled ones are too long for a table. */
static void print_name(const char *name)
{
	char buf[1024];

	if (rbt_demangle_stem(name, buf, sizeof(buf)) == 0) {
		snprintf(buf, sizeof(buf), "%s", name);
	}
	rbt_utf8_make_harmless(buf);
	puts(buf);
}

static void print_table(const struct rbt_profile_row *const *rows, size_t n)
{
	char runs[CELL_MAX], mean[CELL_MAX], p50[CELL_MAX], p99[CELL_MAX], sms[CELL_MAX];
	double sum_ns = 0;

	for (size_t i = 0; i < n; i++) {
		sum_ns += (double)rbt_profile_row_total_ns(rows[i]);
	}
	printf("%6s %11s %8s %10s %10s %10s %4s %-7s %-14s %-12s %7s  %s\n", "TIME", "TOTAL(us)",
		"RUNS", "MEAN(us)", "P50(us)", "P99(us)", "SMS", "KIND", "GRID", "BLOCK", "SHARED",
		"NAME");
	for (size_t i = 0; i < n; i++) {
		const struct rbt_profile_row *row = rows[i];
		double total_ns = (double)rbt_profile_row_total_ns(row);

		printf("%5.1f%% %11.1f %8s %10s %10s %10s %4s %-7s ",
			sum_ns > 0 ? 100 * total_ns / sum_ns : 0, total_ns / 1000,
			cell(row->runs, 1, runs), cell(row->facts.duration_ns, 1000, mean),
			cell(row->p50_ns, 1000, p50), cell(row->p99_ns, 1000, p99),
			cell(row->facts.sms, 1, sms), kind_name(row->facts.kind));
		print_shape(row);
		print_name(row->name);
	}
}

/* An exit code, with the error printed. */
static int read_profile(const char *file, struct rbt_profile **ret)
{
	struct rbt_profile_fault fault = {0};
	FILE *f = fopen(file, "re");

	if (f == NULL) {
		rbt_error("profile: %s: %s", file, strerror(errno));
		return EXIT_FAILED;
	}
	int r = rbt_profile_read(f, ret, &fault);
	fclose(f);
	if (r == 0) {
		return EXIT_OK;
	}
	if (fault.line == 0) {
		rbt_error("profile: %s: %s", file, fault.text);
	} else {
		rbt_error("profile: %s: line %u%s%s: %s", file, fault.line,
			fault.field[0] != '\0' ? ", field " : "", fault.field, fault.text);
	}
	return EXIT_FAILED;
}

static int show(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct rbt_profile *p;
	bool json = false;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c != 'j') {
			return c == 'h' ? print_usage(&cmd_profile) : EXIT_USAGE;
		}
		json = true;
	}
	if (argc - optind != 1) {
		return usage_error(&cmd_profile, "show takes FILE");
	}
	int code = read_profile(argv[optind], &p);
	if (code != EXIT_OK) {
		return code;
	}
	size_t n = rbt_profile_count(p);
	const struct rbt_profile_row **rows = calloc(n + 1, sizeof(struct rbt_profile_row *));
	if (rows == NULL) {
		rbt_error("profile: %s: %s", argv[optind], strerror(ENOMEM));
		rbt_profile_destroy(p);
		return EXIT_FAILED;
	}
	for (size_t i = 0; i < n; i++) {
		rows[i] = rbt_profile_row(p, i);
	}
	qsort(rows, n, sizeof(rows[0]), compare);
	(json ? print_json : print_table)(rows, n);
	free(rows);
	rbt_profile_destroy(p);
	return EXIT_OK;
}

/* The path for a program that may go to another directory: 0 or -errno. */
static int make_absolute(const char *file, char *buf, size_t size)
{
	char cwd[4096] = "";

	if (file[0] != '/' && getcwd(cwd, sizeof(cwd)) == NULL) {
		return -errno;
	}
	int n = snprintf(buf, size, "%s%s%s", cwd, file[0] != '/' ? "/" : "", file);
	return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* Empties the file before the program runs: a file that cannot be written is reported now, and an
 * earlier profile is not taken for this program's. */
static int prepare_output(const char *file)
{
	char path[8192];
	int r = make_absolute(file, path, sizeof(path)), fd = -1;

	if (r == 0) {
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		r = fd < 0 ? -errno : 0;
	}
	rbt_close(&fd);
	if (r == 0 && setenv(RBT_ENV_ORION_PROFILE, path, 1) < 0) {
		r = -errno;
	}
	if (r < 0) {
		rbt_error("profile: %s cannot be written: %s", file, strerror(-r));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

static int record(int argc, char **argv)
{
	static const struct option options[] = {
		{"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {0}};
	const struct rbt_treatment t = RBT_TREATMENT_INIT;
	const char *file = NULL;
	char path[4096];
	int c;

	while ((c = getopt_long(argc, argv, "+o:h", options, NULL)) != -1) {
		if (c != 'o') {
			return c == 'h' ? print_usage(&cmd_profile) : EXIT_USAGE;
		}
		file = optarg;
	}
	if (file == NULL || file[0] == '\0') {
		return usage_error(&cmd_profile, "record needs -o FILE");
	}
	if (optind == argc) {
		return usage_error(&cmd_profile, "record: no command to run");
	}
	if (!run_has_driver()) {
		rbt_error("profile: no libcuda.so.1 here, so no kernel can be recorded; "
			  "--device soft uses the GPU in software");
		return EXIT_NO_DEVICE;
	}
	int code = run_find(cmd_profile.name, argv[optind], path, sizeof(path));
	if (code == EXIT_OK) {
		code = prepare_output(file);
	}
	return code == EXIT_OK ? run_exec(cmd_profile.name, path, argv + optind, &t, true) : code;
}

static int run(int argc, char **argv)
{
	static char name[32];

	if (argc < 2) {
		return usage_error(&cmd_profile, "no verb; use show or record");
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		return print_usage(&cmd_profile);
	}
	bool is_show = strcmp(argv[1], "show") == 0;
	if (!is_show && strcmp(argv[1], "record") != 0) {
		return usage_error(&cmd_profile, "no such verb: %s; use show or record", argv[1]);
	}
	/* The name under which getopt() complains. */
	snprintf(name, sizeof(name), "rubato: profile");
	argv[1] = name;
	return (is_show ? show : record)(argc - 1, argv + 1);
}

const struct command cmd_profile = {
	.name = "profile",
	.summary = "record and show the kernels of a program",
	.usage =
		"Usage: rubato profile record -o FILE [--] COMMAND...\n"
		"       rubato profile show [--json] FILE\n"
		"\n"
		"record runs COMMAND, unmodified, measures its kernels and graphs on the GPU, and\n"
		"writes a profile when COMMAND ends. A measured program runs slower. The scheduler\n"
		"of libgpu_scheduler.so reads profiles, Orion's as well.\n"
		"show prints the rows of a profile, the longest total time first.\n"
		"\n"
		"  -o, --output FILE   the profile; a file of this name is overwritten\n"
		"      --json          print the same facts as JSON\n"
		"\n"
		"Exit status: of record, COMMAND's own, 127 if it is not found, 126 if it cannot be\n"
		"run; 1 if FILE is wrong or cannot be written; 5 if there is no CUDA driver.\n",
	.run = run,
};
