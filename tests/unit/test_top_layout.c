/* SPDX-License-Identifier: Apache-2.0 */
/* Where `rubato top` puts things: columns by width, wide and hostile characters, screens of any
 * size. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli/top/canvas.h"
#include "cli/top/layout.h"
#include "sched/class.h"
#include "util/time.h"

#define ALL ((UINT32_C(1) << TOP_N_COLUMNS) - 1)

static char line[4096];

static const char *line_of(const struct top_canvas *c, int y)
{
	top_canvas_line(c, y, line);
	return line;
}

static const char *put(bool utf8, int room, const char *text)
{
	struct top_canvas c;

	CHECK_INT(top_canvas_init(&c, 40, 1, utf8), 0);
	int used = top_put_cut(&c, 0, 0, room, TOP_STYLE_PLAIN, text);
	CHECK(used <= room);
	CHECK(room < 3 ||
		used == (top_text_width(&c, text) < room ? top_text_width(&c, text) : used));
	line_of(&c, 0);
	top_canvas_finish(&c);
	return line;
}

#define CHECK_TEXT(actual, expected)                                                               \
	do {                                                                                       \
		const char *actual_ = (actual);                                                    \
		CHECK(strcmp(actual_, expected) == 0);                                             \
		if (strcmp(actual_, expected) != 0) {                                              \
			fprintf(stderr, "'%s', not '%s'\n", actual_, expected);                    \
		}                                                                                  \
	} while (0)

static void test_text(bool has_utf8)
{
	CHECK_TEXT(put(false, 10, "train.py"), "train.py");
	CHECK_TEXT(put(false, 5, "train.py"), "trai+");
	CHECK_TEXT(put(false, 2, "train.py"), "tr");
	CHECK_TEXT(put(false, 20, "a\033[2Jb\nc\td\177e"), "a?[2Jb?c?d?e");
	CHECK_TEXT(put(false, 20, "na\303\257ve"), "na?ve");
	if (!has_utf8) {
		return;
	}
	CHECK_TEXT(put(true, 5, "train.py"), "trai\u2026");
	CHECK_TEXT(put(true, 20, "na\303\257ve"), "na\u00efve");
	/* Two columns each; half of one is not shown. */
	CHECK_TEXT(put(true, 4, "\u8bad\u7ec3"), "\u8bad\u7ec3");
	CHECK_TEXT(put(true, 3, "\u8bad\u7ec3"), "\u8bad\u2026");
	CHECK_TEXT(put(true, 5, "\u8bad\u7ec3\u6a21"), "\u8bad\u7ec3\u2026");
	CHECK_TEXT(put(true, 4, "\u8bad\u7ec3\u6a21"), "\u8bad\u2026");
	/* No bytes that are none, nothing that turns the line round or joins its neighbour. */
	CHECK_TEXT(put(true, 20, "a\377b\300\200c\355\240\200d\364\220\200\200"),
		"a\ufffdb\ufffd\ufffdc\ufffd\ufffd\ufffdd\ufffd\ufffd\ufffd\ufffd");
	CHECK_TEXT(put(true, 20, "a\u202eb\u200bc\u0301d\302\205e\ue000f"), "abcd\ufffde\ufffdf");
	CHECK_TEXT(put(true, 20, "cut \342\202"), "cut \ufffd\ufffd");
}

static void test_writing_over_wide_characters(void)
{
	struct top_canvas c;

	CHECK_INT(top_canvas_init(&c, 8, 1, true), 0);
	top_put(&c, 0, 0, 8, TOP_STYLE_PLAIN, "\u8bad\u7ec3\u6a21\u578b");
	top_put(&c, 3, 0, 1, TOP_STYLE_PLAIN, "x");
	CHECK_TEXT(line_of(&c, 0), "\u8bad x\u6a21\u578b");
	top_put(&c, 3, 0, 2, TOP_STYLE_PLAIN, "\u7ec3");
	CHECK_TEXT(line_of(&c, 0), "\u8bad \u7ec3 \u578b");
	CHECK_INT(top_put(&c, 7, 0, 5, TOP_STYLE_PLAIN, "\u8bad"), 0);
	CHECK_INT(top_put(&c, 8, 0, 5, TOP_STYLE_PLAIN, "x"), 0);
	CHECK_INT(top_put(&c, 0, 1, 5, TOP_STYLE_PLAIN, "x"), 0);
	CHECK_INT(top_put(&c, -1, 0, 5, TOP_STYLE_PLAIN, "x"), 0);
	top_put_char(&c, 99, 99, TOP_STYLE_PLAIN, L'x', 'x');
	top_canvas_finish(&c);
}

static uint32_t chosen(int width, uint32_t wanted, int *ret_command)
{
	struct top_place places[TOP_N_COLUMNS];
	size_t n = top_layout_columns(width, wanted, places);
	uint32_t set = 0;
	int end = 0;

	for (size_t i = 0; i < n; i++) {
		CHECK_INT(places[i].x, i == 0 ? 0 : end + 1);
		CHECK(places[i].width > 0);
		end = places[i].x + places[i].width;
		set |= UINT32_C(1) << places[i].column;
		if (places[i].column == TOP_BY_COMMAND) {
			*ret_command = places[i].width;
		}
	}
	CHECK(end <= width);
	CHECK(n == 0 || (set >> TOP_BY_COMMAND & 1) == 0 || end == width);
	return set;
}

static bool has(uint32_t set, enum top_by column)
{
	return (set >> column & 1) != 0;
}

static void test_columns(void)
{
	uint32_t hinted = UINT32_C(1) << TOP_BY_REQUESTS | UINT32_C(1) << TOP_BY_P99 |
			  UINT32_C(1) << TOP_BY_PLACE;
	uint32_t before = 0, set;
	int command = 0;

	for (int width = TOP_MIN_WIDTH; width < 300; width++) {
		set = chosen(width, ALL, &command);
		CHECK(has(set, TOP_BY_COMMAND) && command >= 12);
		/* More room takes nothing important away. */
		CHECK(!has(before, TOP_BY_SHARE) || has(set, TOP_BY_SHARE));
		CHECK(!has(before, TOP_BY_WAIT) || has(set, TOP_BY_WAIT));
		before = set;
	}
	set = chosen(20, ALL, &command);
	CHECK_INT(set, 1 << TOP_BY_COMMAND | 1 << TOP_BY_PID);
	set = chosen(40, ALL, &command);
	CHECK(has(set, TOP_BY_SHARE) && has(set, TOP_BY_CLASS) && !has(set, TOP_BY_USER));
	set = chosen(80, ALL & ~hinted, &command);
	CHECK(has(set, TOP_BY_WAIT) && has(set, TOP_BY_HISTORY) && has(set, TOP_BY_MEMORY));
	CHECK(has(set, TOP_BY_USER) && has(set, TOP_BY_GPU) && has(set, TOP_BY_STATE));
	set = chosen(80, ALL, &command);
	CHECK(has(set, TOP_BY_P99) && has(set, TOP_BY_HISTORY) && has(set, TOP_BY_USER));
	set = chosen(200, ALL, &command);
	CHECK_INT(set, ALL);
	CHECK(command >= 40);
	/* Nothing to say, no column. */
	set = chosen(200, ALL & ~hinted, &command);
	CHECK_INT(set, ALL & ~hinted);
}

static void test_numbers(void)
{
	char buf[32];

	for (uint64_t v = 1; v < UINT64_MAX / 3; v = v * 3 + 1) {
		top_format_bytes(v, buf, sizeof(buf));
		CHECK(strlen(buf) <= 5);
		top_format_ns(v, buf, sizeof(buf));
		CHECK(v > 9000000ull * RBT_NS_PER_S || strlen(buf) <= 8);
		CHECK(v > 9999ull * RBT_NS_PER_S || strlen(buf) <= 5);
	}
	top_format_bytes(0, buf, sizeof(buf));
	CHECK_TEXT(buf, "0K");
	top_format_bytes(UINT64_C(32) << 30, buf, sizeof(buf));
	CHECK_TEXT(buf, "32.0G");
	top_format_bytes(UINT64_C(300) << 20, buf, sizeof(buf));
	CHECK_TEXT(buf, "300M");
	top_format_ns(290 * RBT_NS_PER_US, buf, sizeof(buf));
	CHECK_TEXT(buf, "290us");
	top_format_ns(1810 * RBT_NS_PER_US, buf, sizeof(buf));
	CHECK_TEXT(buf, "1.8ms");
	top_format_ns(12 * RBT_NS_PER_S, buf, sizeof(buf));
	CHECK_TEXT(buf, "12.0s");
	CHECK_TEXT(top_short_command("/usr/bin/python3 /srv/train.py"), "python3 /srv/train.py");
	CHECK_TEXT(top_short_command("/"), "/");
	CHECK_TEXT(top_short_command("train"), "train");
}

/* Two samples of a latency program and three best-effort ones, one of them with a bad name. */
static void make_model(struct top_model *m, unsigned n_gpus)
{
	static const char *const commands[] = {"/srv/bin/inference --port 80",
		"\u8bad\u7ec3\u6a21\u578b", "evil \033[2J\377", "train"};

	top_model_init(m);
	for (uint64_t i = 1; i <= 2; i++) {
		struct top_sample *s = top_sample_create();
		s->now_ns = i * RBT_NS_PER_S;
		s->daemon = TOP_DAEMON_RUNS;
		s->n_gpus = n_gpus;
		for (unsigned g = 0; g < n_gpus; g++) {
			s->gpus[g].index =
				(uint32_t)rbt_gpu_index(&s->table, RBT_BACKEND_NVIDIA, g);
			snprintf(s->gpus[g].name, sizeof(s->gpus[g].name), "Card");
		}
		for (int p = 0; p < 4; p++) {
			struct top_reading *r = top_sample_add(s);
			r->pid = 101 + p;
			r->at_ns = s->now_ns;
			r->managed = r->has_turns = true;
			r->turns.has_board = 1;
			r->priority = p == 0 ? 13 : 2;
			r->gpus = 1;
			r->waiting = p > 1;
			r->turns.n_turns = p > 0 ? i : 0;
			r->turns.on_ns = i * RBT_NS_PER_S / (p == 0 ? 10 : 5);
			snprintf(r->turns.policy, sizeof(r->turns.policy), "turns");
			snprintf(r->user, sizeof(r->user), "ann");
			snprintf(r->command, sizeof(r->command), "%s", commands[p]);
			snprintf(r->note, sizeof(r->note), "%s", p == 3 ? "a note" : "");
		}
		CHECK_INT(top_model_update(m, s), 0);
		top_sample_destroy(s);
	}
}

static bool shows(const struct top_canvas *c, const char *text)
{
	for (int y = 0; y < c->height; y++) {
		if (strstr(line_of(c, y), text) != NULL) {
			return true;
		}
	}
	return false;
}

static void draw(struct top_canvas *c, int width, int height, struct top_model *m,
	struct top_ui *ui, bool utf8)
{
	CHECK_INT(top_canvas_init(c, width, height, utf8), 0);
	top_screen_draw(c, m, ui, "12:00:00");
}

static void test_every_size(bool utf8)
{
	struct top_model m;
	struct top_canvas c;

	make_model(&m, 3);
	for (int mode = TOP_MODE_TABLE; mode <= TOP_MODE_SUSPEND; mode++) {
		struct top_ui ui;
		top_ui_init(&ui);
		ui.mode = (enum top_mode)mode;
		snprintf(ui.input, sizeof(ui.input), "a text that is longer than some screens");
		for (int width = 1; width < 220; width += width < 30 ? 1 : 7) {
			for (int height = 1; height < 60; height += height < 10 ? 1 : 9) {
				draw(&c, width, height, &m, &ui, utf8);
				CHECK(line_of(&c, 0)[0] != '\0');
				CHECK(c.cursor_x < width && c.cursor_y < height);
				top_canvas_finish(&c);
			}
		}
		top_ui_finish(&ui);
	}
	top_model_finish(&m);
}

static void test_screen(void)
{
	struct top_model m;
	struct top_canvas c;
	struct top_ui ui;

	make_model(&m, 1);
	top_ui_init(&ui);
	draw(&c, 10, 3, &m, &ui, false);
	CHECK_TEXT(line_of(&c, 0), "too small");
	top_canvas_finish(&c);
	draw(&c, 80, 24, &m, &ui, false);
	CHECK(shows(&c, "policy turns") && shows(&c, "4 programs, 2 waiting") && shows(&c, "Card"));
	CHECK(shows(&c, "latency 10%") && shows(&c, "best-effort 60%") && shows(&c, " 70%"));
	CHECK(shows(&c, "turn: 102") && shows(&c, "evil ?[2J?") && shows(&c, "F1 Help"));
	CHECK(shows(&c, "wait!") && !shows(&c, "a note") && !shows(&c, "REQ/s"));
	CHECK(shows(&c, "[##--------------"));
	top_canvas_finish(&c);
	top_ui_key(&ui, &m, TOP_INPUT_END);
	top_ui_key(&ui, &m, 'N');
	top_ui_arrange(&ui, &m, 10);
	top_ui_key(&ui, &m, TOP_INPUT_END);
	draw(&c, 200, 50, &m, &ui, true);
	CHECK(shows(&c, "104: a note") && shows(&c, "\u8bad\u7ec3\u6a21\u578b"));
	CHECK(shows(&c, "/srv/bin/inference --port 80") && shows(&c, "\u2588 latency"));
	CHECK(shows(&c, "has its turn") && shows(&c, "best-effort"));
	top_canvas_finish(&c);
	/* Few lines: the selected one is among them. */
	draw(&c, 80, 6, &m, &ui, false);
	CHECK(shows(&c, "    104 ") && !shows(&c, "    101 "));
	top_canvas_finish(&c);
	m.daemon = TOP_DAEMON_NONE;
	draw(&c, 80, 24, &m, &ui, false);
	CHECK(shows(&c, "no daemon"));
	top_canvas_finish(&c);
	top_ui_finish(&ui);
	top_model_finish(&m);
}

static void test_places(void)
{
	struct top_model m;
	struct top_canvas c;
	struct top_ui ui;

	make_model(&m, 1);
	top_ui_init(&ui);
	draw(&c, 200, 24, &m, &ui, false);
	CHECK(!shows(&c, "PLACE"));
	top_canvas_finish(&c);
	struct rbt_place *job = &m.rows[0].now.place, *pod = &m.rows[1].now.place;
	snprintf(job->slurm_job, sizeof(job->slurm_job), "42");
	snprintf(pod->pod_uid, sizeof(pod->pod_uid), "2f1e0b3c-8a7d-4c5e-9f60-718293a4b5c6");
	snprintf(pod->container_id, sizeof(pod->container_id), "c0ffee");
	snprintf(m.rows[2].now.place.container_id, sizeof(job->container_id), "%064d", 7);
	m.rows[3].now.guest =
		(struct rbt_program_guest){.vm = "lab", .command = "./train", .pid = 31};
	draw(&c, 200, 24, &m, &ui, false);
	CHECK(shows(&c, "vm lab"));
	CHECK(shows(&c, "PLACE") && shows(&c, "job 42") && shows(&c, "pod 2f1e0b3c-8a7 "));
	CHECK(shows(&c, "ctr 000000000000 "));
	top_canvas_finish(&c);
	CHECK(top_filter_matches(&m.rows[0], "42") && top_filter_matches(&m.rows[1], "C0FFEE"));
	CHECK(!top_filter_matches(&m.rows[3], "42"));
	CHECK(top_filter_matches(&m.rows[3], "lab") && top_filter_matches(&m.rows[3], "train"));
	top_ui_finish(&ui);
	top_model_finish(&m);
}

static void test_many_gpus(void)
{
	struct top_model m;
	struct top_canvas c;
	struct top_ui ui;

	make_model(&m, 16);
	top_ui_init(&ui);
	draw(&c, 80, 24, &m, &ui, false);
	CHECK(shows(&c, " GPU vSHARE%") && shows(&c, "GPU 9 ") && !shows(&c, "GPU 10") &&
		shows(&c, "and 6 more GPUs"));
	CHECK(shows(&c, "    101 "));
	top_canvas_finish(&c);
	draw(&c, 80, 80, &m, &ui, false);
	CHECK(shows(&c, "GPU 15") && !shows(&c, "more GPUs"));
	top_canvas_finish(&c);
	/* Another vendor's first is another GPU. */
	m.gpus[15].index = (uint32_t)rbt_gpu_index(&m.table, RBT_BACKEND_AMD, 0);
	m.rows[1].now.gpus = UINT32_C(1) << m.gpus[15].index;
	draw(&c, 80, 80, &m, &ui, false);
	CHECK(shows(&c, "GPU 0    [") && shows(&c, "GPU amd0 [") && shows(&c, " amd0 "));
	top_canvas_finish(&c);
	top_ui_finish(&ui);
	top_model_finish(&m);
}

int main(void)
{
	bool has_utf8 = setlocale(LC_ALL, "C.UTF-8") != NULL;

	test_text(has_utf8);
	test_columns();
	test_numbers();
	test_every_size(false);
	test_many_gpus();
	test_places();
	if (has_utf8) {
		test_writing_over_wide_characters();
		test_every_size(true);
		test_screen();
	} else {
		fprintf(stderr, "no locale C.UTF-8: wide characters are not tested\n");
	}
	return check_result();
}
