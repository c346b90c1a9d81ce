/* SPDX-License-Identifier: Apache-2.0 */
/* The user interface of `rubato top`: selection, prompts and keys. Pure: keys in, actions out. */
#ifndef RBT_CLI_TOP_UI_H
#define RBT_CLI_TOP_UI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/top/model.h"

/* Keys that are no characters. */
enum top_input {
	TOP_INPUT_NONE = 0,
	TOP_INPUT_UP = 0x110000,
	TOP_INPUT_DOWN,
	TOP_INPUT_PAGE_UP,
	TOP_INPUT_PAGE_DOWN,
	TOP_INPUT_HOME,
	TOP_INPUT_END,
	TOP_INPUT_LEFT,
	TOP_INPUT_RIGHT,
	TOP_INPUT_ENTER,
	TOP_INPUT_ESCAPE,
	TOP_INPUT_BACKSPACE,
	TOP_INPUT_F1,
	TOP_INPUT_F4 = TOP_INPUT_F1 + 3,
	TOP_INPUT_F5,
	TOP_INPUT_F6,
	TOP_INPUT_F7,
	TOP_INPUT_F8,
	TOP_INPUT_F10 = TOP_INPUT_F1 + 9,
};

enum top_mode {
	TOP_MODE_TABLE,
	TOP_MODE_HELP,
	TOP_MODE_SORT,
	/* prompts for a line of text */
	TOP_MODE_FILTER,
	TOP_MODE_RENICE,
	TOP_MODE_DELAY,
	/* prompts for yes or no */
	TOP_MODE_SUSPEND,
};

enum top_wish {
	TOP_WISH_NOTHING,
	TOP_WISH_QUIT,
	TOP_WISH_REFRESH, /* take a sample now */
	TOP_WISH_RENICE,
	TOP_WISH_SUSPEND,
	TOP_WISH_RESUME,
};

/* The action that the user has ordered. */
struct top_action {
	enum top_wish wish;
	pid_t pid;
	uint64_t start_time; /* of the process that was meant: pids are reused */
	unsigned priority;
};

#define TOP_DELAY_MIN_MS     100u
#define TOP_DELAY_MAX_MS     3600000u
#define TOP_DELAY_DEFAULT_MS 1000u

struct top_ui {
	struct top_order order;
	enum top_mode mode;
	bool plain; /* not interactive: no selection, no line of keys */
	bool paused;
	uint64_t delay_ms;

	bool has_chosen;    /* false: the first row is selected, whichever program it is */
	pid_t selected_pid; /* with its start time; 0: none */
	uint64_t selected_start;
	size_t selected; /* its place among the shown rows, also after it has ended */
	size_t first;    /* first row of the table on the screen */
	size_t page;     /* rows that fit on the screen */

	size_t *shown; /* owned; rows in order, into the model's */
	size_t n_shown, shown_capacity;

	char input[64];  /* the input line */
	pid_t asked_pid; /* the program of a prompt: the selection may change */
	uint64_t asked_start;
	char asked_name[32];
	enum top_by menu;
	char status[256];
	bool status_is_bad;
	unsigned status_left; /* for how many more samples */
};

void top_ui_init(struct top_ui *ui);
void top_ui_finish(struct top_ui *ui);

/* To be called after a sample, and after order or size have changed: sorts, keeps the selection
 * with its program, and scrolls it into the `page` rows. */
void top_ui_arrange(struct top_ui *ui, const struct top_model *m, size_t page);
/* A sample has come: the status line ages. */
void top_ui_tick(struct top_ui *ui);

/* The selected program; NULL: none. */
const struct top_row *top_ui_selected(const struct top_ui *ui, const struct top_model *m);

/* `key` is a character, or an enum top_input. */
struct top_action top_ui_key(struct top_ui *ui, const struct top_model *m, uint32_t key);

/* Parses a priority: 0 to 15, or a class or the beginning of its name. 0 or -EINVAL. */
int top_parse_priority(const char *s, unsigned *ret);

void top_ui_say(struct top_ui *ui, bool is_bad, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
