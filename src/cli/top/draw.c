/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE_EXTENDED 1
#include "cli/top/draw.h"

#include <curses.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include "cli/top/ui.h"

/* An Esc that nothing follows within this time is a key, not the beginning of a sequence. */
#define ESCAPE_MS 40

static struct {
	SCREEN *screen;
	attr_t attributes[TOP_N_STYLES];
	short pairs[TOP_N_STYLES];
	/* For fatal signals: what a signal handler needs to restore the terminal. */
	struct termios before;
	bool has_before;
	char leave[64];
} terminal;

/* After a crash of ours: restores the terminal. Calls only async-signal-safe functions. */
static void on_fatal(int number)
{
	ssize_t ignored = write(STDOUT_FILENO, terminal.leave, strlen(terminal.leave));

	(void)ignored;
	if (terminal.has_before) {
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal.before);
	}
	raise(number); /* with its usual effect: the handler is removed by now */
}

static void prepare_for_the_worst(void)
{
	static const int fatal[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
	struct sigaction sa = {.sa_handler = on_fatal, .sa_flags = (int)SA_RESETHAND};
	const char *leave = tigetstr("rmcup"), *visible = tigetstr("cnorm");
	const char *none = "";

	leave = leave != NULL && leave != (char *)-1 ? leave : none;
	visible = visible != NULL && visible != (char *)-1 ? visible : none;
	if (strlen(leave) + strlen(visible) < sizeof(terminal.leave)) {
		snprintf(terminal.leave, sizeof(terminal.leave), "%s%s", visible, leave);
	}
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		sigaction(fatal[i], &sa, NULL);
	}
}

static void set_style(enum top_style style, attr_t attributes, int colour)
{
	terminal.attributes[style] = attributes;
	if (colour >= 0 && has_colors()) {
		short pair = (short)(style + 1);
		if (init_pair(pair, (short)colour, -1) == OK) {
			terminal.pairs[style] = pair;
		}
	}
}

static void set_styles(bool with_colours)
{
	if (with_colours && has_colors()) {
		start_color();
		use_default_colors();
	}
	int none = -1;
	bool c = with_colours;
	set_style(TOP_STYLE_LATENCY, A_NORMAL, c ? COLOR_GREEN : none);
	set_style(TOP_STYLE_NORMAL, A_NORMAL, c ? COLOR_CYAN : none);
	set_style(TOP_STYLE_BEST_EFFORT, A_NORMAL, c ? COLOR_YELLOW : none);
	set_style(TOP_STYLE_PLAIN, A_NORMAL, none);
	set_style(TOP_STYLE_DIM, A_DIM, none);
	set_style(TOP_STYLE_BOLD, A_BOLD, none);
	set_style(TOP_STYLE_HEAD, A_REVERSE, none);
	set_style(TOP_STYLE_KEY, A_REVERSE | A_BOLD, none);
	set_style(TOP_STYLE_ALERT, c ? A_NORMAL : A_BOLD, c ? COLOR_RED : none);
	set_style(TOP_STYLE_SELECT, A_STANDOUT, none);
}

const char *top_draw_open(bool with_colours)
{
	static char why[160];
	const char *name = getenv("TERM");

	terminal.has_before = tcgetattr(STDIN_FILENO, &terminal.before) == 0;
	terminal.screen = name != NULL ? newterm(name, stdout, stdin) : NULL;
	if (terminal.screen == NULL) {
		snprintf(why, sizeof(why), "no such terminal type: '%.64s'; set TERM",
			name != NULL ? name : "");
		return why;
	}
	if (cursor_address == NULL) {
		top_draw_close();
		snprintf(why, sizeof(why), "a terminal of type '%.64s' has no screen; set TERM",
			name);
		return why;
	}
	cbreak();
	noecho();
	nonl();
	intrflush(stdscr, FALSE);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	set_styles(with_colours);
	prepare_for_the_worst();
	return NULL;
}

void top_draw_close(void)
{
	if (terminal.screen != NULL) {
		endwin();
		delscreen(terminal.screen);
		terminal.screen = NULL;
	}
}

void top_draw_resize(int *ret_width, int *ret_height)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
		resizeterm(size.ws_row, size.ws_col);
	}
	getmaxyx(stdscr, *ret_height, *ret_width);
}

/* Shows adjacent cells of one style. */
static void show_run(int x, int y, const struct top_cell *cells, int n)
{
	wchar_t text[256];
	int len = 0;

	for (int i = 0; i < n; i++) {
		if (cells[i].ch != 0) {
			text[len++] = cells[i].ch;
		}
	}
	attr_set(terminal.attributes[cells[0].style], terminal.pairs[cells[0].style], NULL);
	mvaddnwstr(y, x, text, len);
}

void top_draw_show(const struct top_canvas *c)
{
	erase();
	for (int y = 0; y < c->height; y++) {
		const struct top_cell *line = &c->cells[(size_t)y * (size_t)c->width];
		for (int x = 0, end; x < c->width; x = end) {
			for (end = x + 1; end < c->width && end - x < 256 &&
					  (line[end].style == line[x].style || line[end].ch == 0);
				end++) {
			}
			show_run(x, y, line + x, end - x);
		}
	}
	curs_set(c->cursor_x >= 0 ? 1 : 0);
	if (c->cursor_x >= 0) {
		move(c->cursor_y, c->cursor_x);
	}
	refresh();
}

static uint32_t special_key(wint_t key)
{
	static const struct {
		wint_t curses;
		uint32_t ours;
	} keys[] = {{KEY_UP, TOP_INPUT_UP}, {KEY_DOWN, TOP_INPUT_DOWN},
		{KEY_PPAGE, TOP_INPUT_PAGE_UP}, {KEY_NPAGE, TOP_INPUT_PAGE_DOWN},
		{KEY_HOME, TOP_INPUT_HOME}, {KEY_END, TOP_INPUT_END}, {KEY_LEFT, TOP_INPUT_LEFT},
		{KEY_RIGHT, TOP_INPUT_RIGHT}, {KEY_ENTER, TOP_INPUT_ENTER},
		{KEY_BACKSPACE, TOP_INPUT_BACKSPACE}, {KEY_DC, TOP_INPUT_BACKSPACE}};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (keys[i].curses == key) {
			return keys[i].ours;
		}
	}
	if (key >= KEY_F(1) && key <= KEY_F(10)) {
		return TOP_INPUT_F1 + (uint32_t)(key - KEY_F(1));
	}
	return ' ' | 0x80; /* a key without a meaning */
}

uint32_t top_draw_key(void)
{
	wint_t key;
	int kind = get_wch(&key);

	if (kind == ERR) {
		return 0;
	}
	if (kind == KEY_CODE_YES) {
		return special_key(key);
	}
	switch (key) {
	case '\r':
	case '\n':
		return TOP_INPUT_ENTER;
	case 27:
		return TOP_INPUT_ESCAPE;
	case 8:
	case 127:
		return TOP_INPUT_BACKSPACE;
	default:
		return (uint32_t)key;
	}
}
