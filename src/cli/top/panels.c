/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/top/layout.h"

static const char *const help[] = {
	"Up Down PgUp PgDn Home End   select a program (also j, k)",
	"< >  F6                      sort by another column",
	"P M W T L N                  sort by share, memory, wait, turns, p99, pid",
	"R I                          reverse the order",
	"/  F4                        show only programs with this text; Esc: all",
	"n  F7  F8                    renice: a class or a priority (F7 +1, F8 -1)",
	"s                            suspend: take it off the GPU",
	"r                            resume",
	"+ -  d                       longer or shorter delay; d: type it, in seconds",
	"Space                        pause;   Enter F5: sample now",
	"q  F10  Ctrl-C               quit",
	"",
	"SHARE%   time it had the GPU, or a part of it; ~ if that includes idle time",
	"WAIT%    time it wanted the GPU and was kept off, by turns or for a reserve",
	"P99 REQ/s  of requests: announced ones, or as its queues show them",
	">OFF >DONE p99 from seeing a request until others are off; then until its first packet is done",
	"STATE    run, turn (others wait), resv (others are kept off for it), wait,",
	"         susp; with ! there is a note, shown below when it is selected",
	"PLACE    Slurm job, pod or container (ctr) that the program runs in",
	"A dash means that something is not known.",
};

void top_help_draw(struct top_canvas *c, int y)
{
	top_putf(c, 0, y, c->width, TOP_STYLE_HEAD, "rubato top %-38s any key: back",
		RUBATO_VERSION);
	for (size_t i = 0; i < sizeof(help) / sizeof(help[0]); i++) {
		top_put(c, 0, y + 2 + (int)i, c->width, TOP_STYLE_PLAIN, help[i]);
	}
}

void top_menu_draw(struct top_canvas *c, const struct top_ui *ui, int y, int lines)
{
	/* Scrolled so that the chosen entry is visible. */
	int first = (int)ui->menu >= lines - 1 ? (int)ui->menu - lines + 2 : 0;

	top_putf(c, 0, y, c->width, TOP_STYLE_HEAD, "%-17s|", "Sort by");
	for (int i = 0, by = first; i + 1 < lines && by < TOP_N_COLUMNS; by++) {
		if (by == TOP_BY_HISTORY) {
			continue;
		}
		top_putf(c, 0, y + 1 + i, c->width,
			by == (int)ui->menu ? TOP_STYLE_SELECT : TOP_STYLE_PLAIN, " %-16s|",
			top_column_name((enum top_by)by));
		i++;
	}
}

static void draw_keys(struct top_canvas *c, int y)
{
	static const char *const keys[][2] = {{"F1", "Help"}, {"F4", "Filter"}, {"F6", "Sort"},
		{"n", "Renice"}, {"s", "Suspend"}, {"r", "Resume"}, {"Space", "Pause"},
		{"q", "Quit"}};
	int x = 0;

	top_restyle(c, y, TOP_STYLE_HEAD);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		x += top_put(c, x, y, c->width, TOP_STYLE_KEY, keys[i][0]);
		x += top_putf(c, x, y, c->width, TOP_STYLE_HEAD, " %s  ", keys[i][1]);
	}
}

static void draw_prompt(struct top_canvas *c, const struct top_ui *ui, int y)
{
	const char *name = ui->asked_name;
	char prompt[128];

	switch (ui->mode) {
	case TOP_MODE_FILTER:
		snprintf(prompt, sizeof(prompt), "Filter: ");
		break;
	case TOP_MODE_DELAY:
		snprintf(prompt, sizeof(prompt), "Seconds between samples: ");
		break;
	case TOP_MODE_SUSPEND:
		snprintf(prompt, sizeof(prompt), "Suspend %d %s? (y/n) ", (int)ui->asked_pid, name);
		break;
	default:
		snprintf(prompt, sizeof(prompt),
			"Renice %d %s to (class, or 0 to 15): ", (int)ui->asked_pid, name);
	}
	int x = top_put(c, 0, y, c->width, TOP_STYLE_BOLD, prompt);
	/* If the text is too long, its end is shown. */
	const char *input = ui->input;
	while (top_text_width(c, input) > c->width - x - 1 && *input != '\0') {
		input++;
	}
	x += top_put(c, x, y, c->width, TOP_STYLE_PLAIN, input);
	c->cursor_x = x < c->width ? x : c->width - 1;
	c->cursor_y = y;
}

void top_footer_draw(
	struct top_canvas *c, const struct top_model *m, const struct top_ui *ui, int y)
{
	const struct top_row *row = top_ui_selected(ui, m);

	if (ui->mode >= TOP_MODE_FILTER) {
		draw_prompt(c, ui, y);
	} else if (ui->mode == TOP_MODE_SORT) {
		top_put(c, 0, y, c->width, TOP_STYLE_BOLD, "Up, Down, Enter; Esc: as before");
	} else if (ui->status[0] != '\0') {
		top_put_cut(c, 0, y, c->width, ui->status_is_bad ? TOP_STYLE_ALERT : TOP_STYLE_BOLD,
			ui->status);
	} else if (row != NULL && row->now.note[0] != '\0') {
		top_putf(c, 0, y, c->width, TOP_STYLE_ALERT, "%d: %s", (int)row->now.pid,
			row->now.note);
	} else {
		draw_keys(c, y);
	}
}
