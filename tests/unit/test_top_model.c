/* SPDX-License-Identifier: Apache-2.0 */
/* What `rubato top` makes of samples: rates, order, filter, and what a key does. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli/top/model.h"
#include "cli/top/ui.h"
#include "sched/class.h"
#include "util/time.h"

#define S RBT_NS_PER_S

static struct top_sample *sample;

static void begin(uint64_t now_ns)
{
	sample = top_sample_create();
	sample->now_ns = now_ns;
	sample->daemon = TOP_DAEMON_RUNS;
	sample->n_gpus = 1;
}

static struct top_reading *managed(pid_t pid, unsigned priority, uint64_t on_ns, uint64_t waited_ns)
{
	struct top_reading *r = top_sample_add(sample);

	r->pid = pid;
	r->at_ns = sample->now_ns;
	r->start_time = 1000 + (uint64_t)pid;
	r->managed = r->has_turns = true;
	r->priority = priority;
	r->gpus = 1;
	r->turns.has_board = 1;
	r->turns.on_ns = on_ns;
	r->turns.waited_ns = waited_ns;
	snprintf(r->turns.policy, sizeof(r->turns.policy), "turns");
	snprintf(r->user, sizeof(r->user), "ann");
	snprintf(r->command, sizeof(r->command), "program %d", (int)pid);
	return r;
}

static void end(struct top_model *m)
{
	CHECK_INT(top_model_update(m, sample), 0);
	top_sample_destroy(sample);
	sample = NULL;
}

static const struct top_row *row(const struct top_model *m, pid_t pid)
{
	static const struct top_row none;

	for (size_t i = 0; i < m->n_rows; i++) {
		if (m->rows[i].now.pid == pid) {
			return &m->rows[i];
		}
	}
	CHECK(!"there is no such row");
	return &none;
}

static bool near(double a, double b)
{
	return a > b - 1e-6 && a < b + 1e-6;
}

static void test_shares_are_of_the_interval(void)
{
	struct top_model m;

	top_model_init(&m);
	begin(100 * S);
	managed(1, 2, 50 * S, 30 * S)->turns.n_turns = 10;
	end(&m);
	CHECK_INT(row(&m, 1)->valid, 0);
	CHECK(top_row_history(row(&m, 1), 0) < 0);
	begin(102 * S);
	managed(1, 2, 50 * S + S / 2, 31 * S)->turns.n_turns = 16;
	end(&m);
	CHECK((row(&m, 1)->valid & TOP_HAS_SHARE) != 0 && near(row(&m, 1)->share, 0.25));
	CHECK(near(row(&m, 1)->wait, 0.5) && near(row(&m, 1)->turns_per_s, 3));
	CHECK((row(&m, 1)->valid & (TOP_SHARE_IS_ALLOWED | TOP_HAS_REQUESTS | TOP_HAS_P99)) == 0);
	CHECK(near(top_row_history(row(&m, 1), 0), 0.25) && top_row_history(row(&m, 1), 1) < 0);
	/* More than all of it there is not: clocks are read at two places. */
	begin(103 * S);
	managed(1, 2, 52 * S, 31 * S)->turns.n_turns = 16;
	end(&m);
	CHECK(near(row(&m, 1)->share, 1) && near(row(&m, 1)->wait, 0));
	CHECK(near(top_row_history(row(&m, 1), 1), 0.25));
	top_model_finish(&m);
}

static void test_unknown_is_not_zero(void)
{
	struct top_model m;

	top_model_init(&m);
	for (int i = 1; i <= 2; i++) {
		begin((uint64_t)i * S);
		managed(1, 8, (uint64_t)i * S, 0)->turns.has_board = 0;
		managed(2, 8, 0, 0)->has_turns = false;
		managed(3, 8, 0, 0)->managed = false;
		sample->readings[2].has_turns = false;
		end(&m);
	}
	CHECK((row(&m, 1)->valid & TOP_SHARE_IS_ALLOWED) != 0 && near(row(&m, 1)->share, 1));
	CHECK_INT(row(&m, 2)->valid, 0);
	CHECK_INT(row(&m, 3)->valid, 0);
	struct top_use use;
	top_model_use(&m, 0, &use);
	CHECK_INT(use.n_programs, 3);
	CHECK(use.has_share[RBT_CLASS_NORMAL] && near(use.share[RBT_CLASS_NORMAL], 1));
	CHECK(use.is_allowed);
	CHECK(!use.has_share[RBT_CLASS_LATENCY] && !use.has_memory && use.turn == NULL);
	top_model_use(&m, 1, &use);
	CHECK_INT(use.n_programs, 0);
	top_model_finish(&m);
}

static void test_a_pid_comes_again(void)
{
	struct top_model m;

	top_model_init(&m);
	begin(1 * S);
	managed(1, 2, 5 * S, 0);
	end(&m);
	begin(2 * S);
	managed(1, 2, 6 * S, 0)->start_time = 77;
	end(&m);
	CHECK_INT(row(&m, 1)->valid, 0);
	CHECK_INT(row(&m, 1)->n_history, 1);
	top_model_finish(&m);
}

static void test_counters_go_back(void)
{
	struct top_model m;

	top_model_init(&m);
	begin(1 * S);
	managed(1, 2, 5 * S, 5 * S);
	end(&m);
	begin(2 * S);
	managed(1, 2, S / 10, 6 * S);
	end(&m);
	CHECK_INT(row(&m, 1)->valid, 0);
	begin(3 * S);
	managed(1, 2, S / 10 + S / 2, 6 * S);
	end(&m);
	CHECK(near(row(&m, 1)->share, 0.5));
	/* A daemon that has gone and come: nothing of the time between. */
	begin(4 * S);
	managed(1, 2, 0, 0)->has_turns = false;
	end(&m);
	begin(5 * S);
	managed(1, 2, S, 6 * S);
	end(&m);
	CHECK_INT(row(&m, 1)->valid, 0);
	top_model_finish(&m);
}

static struct rbt_program_account *account(
	struct top_reading *r, uint64_t known_ns, uint64_t used_ns)
{
	r->has_account = true;
	r->account.valid = RBT_ACCOUNT_HAS_USED | RBT_ACCOUNT_HAS_REQUESTS;
	r->account.known_ns = known_ns;
	r->account.used_ns = used_ns;
	return &r->account;
}

static void test_the_account_is_preferred(void)
{
	struct top_model m;

	top_model_init(&m);
	begin(1 * S);
	account(managed(1, 13, 5 * S, 0), 10 * S, 1 * S);
	end(&m);
	begin(2 * S);
	/* By the daemon's clock it was two seconds. */
	account(managed(1, 13, 6 * S, 0), 12 * S, 1 * S + S / 2)->n_preemptions = 3;
	end(&m);
	CHECK(near(row(&m, 1)->share, 0.25));
	begin(3 * S);
	account(managed(1, 13, 7 * S, 0), 1 * S, 9 * S);
	end(&m);
	CHECK_INT(row(&m, 1)->valid & TOP_HAS_SHARE, 0);
	top_model_finish(&m);
}

static void test_p99_forgets(void)
{
	struct top_model m;
	struct rbt_hist h = {0};

	top_model_init(&m);
	for (int i = 0; i < 1000; i++) {
		rbt_hist_add(&h, 500 * RBT_NS_PER_MS); /* long ago */
	}
	for (uint64_t i = 1; i <= 40; i++) {
		begin(i * S);
		struct top_reading *r = managed(1, 13, i * S, 0);
		r->turns.n_requests = 1000 + 10 * i;
		account(r, i * S, i * S)->request = h;
		end(&m);
		CHECK_INT((row(&m, 1)->valid & TOP_HAS_P99) != 0, i > 1);
		for (int k = 0; k < 10; k++) {
			rbt_hist_add(&h, 3 * RBT_NS_PER_MS);
		}
	}
	CHECK(row(&m, 1)->p99_ns > 3 * RBT_NS_PER_MS && row(&m, 1)->p99_ns <= 3072 * RBT_NS_PER_US);
	CHECK((row(&m, 1)->valid & TOP_HAS_REQUESTS) != 0 && near(row(&m, 1)->requests_per_s, 10));
	/* Half a minute without a request, and there is none to speak of. */
	for (uint64_t i = 41; i <= 75; i++) {
		begin(i * S);
		account(managed(1, 13, i * S, 0), i * S, i * S)->request = h;
		sample->readings[0].turns.n_requests = 1400;
		end(&m);
	}
	CHECK_INT(row(&m, 1)->valid & TOP_HAS_P99, 0);
	CHECK(near(row(&m, 1)->requests_per_s, 0));
	top_model_finish(&m);
}

/* The times of requests that the queues show, without an announced one. */
static void test_times(void)
{
	struct top_model m;
	struct rbt_hist h = {0};

	top_model_init(&m);
	for (uint64_t i = 1; i <= 3; i++) {
		begin(i * S);
		struct rbt_program_account *a = account(managed(1, 13, i * S, 0), i * S, i * S);
		a->request = a->seen_to_off = a->off_to_done = h;
		a->valid |= RBT_ACCOUNT_HAS_SUBMISSIONS | (i > 2 ? 0 : RBT_ACCOUNT_HAS_DONE);
		end(&m);
		uint32_t times = row(&m, 1)->valid & (TOP_HAS_P99 | TOP_HAS_OFF | TOP_HAS_DONE);
		CHECK_INT(times, i == 1   ? 0
				 : i == 2 ? TOP_HAS_P99 | TOP_HAS_OFF | TOP_HAS_DONE
					  : TOP_HAS_P99 | TOP_HAS_OFF);
		for (int k = 0; k < 5; k++) {
			rbt_hist_add(&h, i * RBT_NS_PER_MS);
		}
	}
	CHECK(row(&m, 1)->off_ns > RBT_NS_PER_MS && row(&m, 1)->off_ns <= 2 * RBT_NS_PER_MS);
	CHECK((row(&m, 1)->valid & TOP_HAS_REQUESTS) != 0 && near(row(&m, 1)->requests_per_s, 5));
	top_model_finish(&m);
}

static void test_who_has_the_turn(void)
{
	struct top_model m;
	struct top_use use;

	top_model_init(&m);
	for (uint64_t i = 1; i <= 2; i++) {
		begin(i * S);
		managed(1, 2, i * S, 0)->turns.n_turns = i;
		managed(2, 2, 0, i * S)->waiting = true;
		managed(3, 8, i * S, 0);
		managed(4, 13, i * S, 0)->turns.reserved_ns = i * S / 4;
		managed(5, 2, 0, 0)->suspended = true;
		managed(6, 2, 0, 0)->unseen = true;
		end(&m);
	}
	CHECK_INT(row(&m, 1)->state, TOP_STATE_TURN);
	CHECK_INT(row(&m, 2)->state, TOP_STATE_WAITING);
	CHECK_INT(row(&m, 3)->state, TOP_STATE_RUNNING);
	CHECK_INT(row(&m, 4)->state, TOP_STATE_RUNNING); /* but not at this moment */
	CHECK_INT(row(&m, 5)->state, TOP_STATE_SUSPENDED);
	CHECK_INT(row(&m, 6)->state, TOP_STATE_UNKNOWN);
	top_model_use(&m, 0, &use);
	CHECK(use.turn == row(&m, 1) && use.reserve == row(&m, 4));
	CHECK_INT(top_model_count(&m, TOP_STATE_WAITING), 1);
	CHECK(strcmp(top_model_policy(&m), "turns") == 0);
	begin(3 * S);
	managed(1, 2, 2 * S, S)->waiting = true;
	managed(2, 2, 0, 3 * S)->waiting = true;
	sample->readings[0].turns.n_turns = 2;
	managed(4, 13, 3 * S, 0)->turns.reserved_ns = S;
	managed(3, 13, 3 * S, 0)->turns.n_turns = 5;
	end(&m);
	CHECK_INT(row(&m, 4)->state, TOP_STATE_RESERVES);
	CHECK_INT(row(&m, 1)->state, TOP_STATE_WAITING);
	begin(4 * S);
	managed(1, 2, 2 * S, S)->waiting = true;
	managed(3, 13, 3 * S, 0)->turns.n_turns = 5; /* of a time when it took turns */
	end(&m);
	CHECK_INT(row(&m, 3)->state, TOP_STATE_RUNNING);
	top_model_finish(&m);
}

/* Those who hold others off may be held off themselves, for as long. */
static void test_who_reserves(void)
{
	struct top_model m;
	struct top_use use;

	top_model_init(&m);
	for (uint64_t i = 1; i <= 2; i++) {
		begin(i * S);
		managed(1, 8, 0, i * S)->turns.reserved_ns = i * S;
		managed(2, 10, i * S, 0)->turns.reserved_ns = i * S - i * S / 50;
		managed(3, 9, 0, i * S)->turns.reserved_ns = i * S;
		managed(4, 15, i * S, 0)->turns.reserved_ns = i * S / 2;
		end(&m);
	}
	top_model_use(&m, 0, &use);
	CHECK(use.reserve == row(&m, 2));
	top_model_finish(&m);
}

static bool in_order(const struct top_model *m, const struct top_order *o, const char *want)
{
	size_t shown[16], n = top_order_rows(m, o, shown);
	char got[16] = "";

	for (size_t i = 0; i < n; i++) {
		got[i] = (char)('0' + m->rows[shown[i]].now.pid);
	}
	if (strcmp(got, want) != 0) {
		fprintf(stderr, "order %s, not %s\n", got, want);
	}
	return strcmp(got, want) == 0;
}

/* 1 and 3 are equals, 4 is not known; samples come in another order than pids. */
static void make_five(struct top_model *m)
{
	top_model_init(m);
	for (uint64_t i = 1; i <= 2; i++) {
		begin(i * S);
		managed(5, 2, i * S / 10, 0);
		managed(3, 2, i * S / 4, 0);
		managed(4, 8, 0, 0)->has_turns = false;
		managed(1, 13, i * S / 4, 0);
		managed(2, 8, i * S / 2, 0);
		end(m);
	}
}

static void test_order(void)
{
	struct top_model m;
	struct top_order o = {.by = TOP_BY_SHARE};

	make_five(&m);
	CHECK(in_order(&m, &o, "21354"));
	o.reverse = true;
	CHECK(in_order(&m, &o, "51324")); /* equals by pid, unknown last either way */
	o.by = TOP_BY_PID;
	CHECK(in_order(&m, &o, "54321"));
	o.reverse = false;
	CHECK(in_order(&m, &o, "12345"));
	o.by = TOP_BY_CLASS;
	CHECK(in_order(&m, &o, "12435"));
	o.by = TOP_BY_COMMAND;
	CHECK(in_order(&m, &o, "12345"));
	o.by = TOP_BY_MEMORY;
	CHECK(in_order(&m, &o, "12345"));
	top_model_finish(&m);
}

static void test_filter(void)
{
	struct top_model m;
	struct top_order o = {.by = TOP_BY_PID};

	make_five(&m);
	snprintf(o.filter, sizeof(o.filter), "GRAM 3");
	CHECK(in_order(&m, &o, "3"));
	snprintf(o.filter, sizeof(o.filter), "best");
	CHECK(in_order(&m, &o, "35"));
	snprintf(o.filter, sizeof(o.filter), "Ann");
	CHECK(in_order(&m, &o, "12345"));
	snprintf(o.filter, sizeof(o.filter), "nothing of this");
	CHECK(in_order(&m, &o, ""));
	m.rows[0].now.managed = false;
	snprintf(o.filter, sizeof(o.filter), "best");
	CHECK(in_order(&m, &o, "3"));
	top_model_finish(&m);
}

static pid_t selected(struct top_ui *ui, struct top_model *m)
{
	const struct top_row *r = top_ui_selected(ui, m);

	return r != NULL ? r->now.pid : 0;
}

static void test_selection_stays_with_its_program(void)
{
	struct top_model m;
	struct top_ui ui;

	top_ui_init(&ui);
	make_five(&m);
	top_ui_arrange(&ui, &m, 3);
	CHECK_INT(selected(&ui, &m), 2);
	/* Nobody has chosen it: the first is selected, whoever that is. */
	top_ui_key(&ui, &m, 'N');
	top_ui_arrange(&ui, &m, 3);
	CHECK_INT(selected(&ui, &m), 1);
	top_ui_key(&ui, &m, 'P');
	top_ui_arrange(&ui, &m, 3);
	top_ui_key(&ui, &m, TOP_INPUT_DOWN);
	top_ui_key(&ui, &m, TOP_INPUT_DOWN);
	CHECK_INT(selected(&ui, &m), 3);
	top_ui_key(&ui, &m, 'N');
	top_ui_arrange(&ui, &m, 3);
	CHECK_INT(selected(&ui, &m), 3);
	top_ui_key(&ui, &m, 'R');
	top_ui_arrange(&ui, &m, 2);
	CHECK_INT(selected(&ui, &m), 3);
	CHECK(ui.selected >= ui.first && ui.selected < ui.first + 2);
	/* It goes: who takes its place is selected. */
	begin(3 * S);
	managed(5, 2, 0, 0);
	managed(2, 2, 0, 0);
	managed(1, 2, 0, 0);
	end(&m);
	top_ui_arrange(&ui, &m, 2);
	CHECK_INT(selected(&ui, &m), 1);
	top_ui_key(&ui, &m, TOP_INPUT_HOME);
	CHECK_INT(selected(&ui, &m), 5);
	top_ui_key(&ui, &m, TOP_INPUT_END);
	CHECK_INT(selected(&ui, &m), 1);
	top_ui_key(&ui, &m, TOP_INPUT_PAGE_UP);
	CHECK_INT(selected(&ui, &m), 2);
	begin(4 * S);
	end(&m);
	top_ui_arrange(&ui, &m, 2);
	CHECK_INT(selected(&ui, &m), 0);
	CHECK_INT(top_ui_key(&ui, &m, 'r').wish, TOP_WISH_NOTHING);
	top_ui_finish(&ui);
	top_model_finish(&m);
}

static struct top_action type(struct top_ui *ui, struct top_model *m, const char *keys)
{
	struct top_action a = {.wish = TOP_WISH_NOTHING};

	for (; *keys != '\0'; keys++) {
		a = top_ui_key(ui, m, *keys == '\n' ? TOP_INPUT_ENTER : (uint32_t)*keys);
		top_ui_arrange(ui, m, 5);
	}
	return a;
}

static void test_wishes(void)
{
	struct top_model m;
	struct top_ui ui;

	top_ui_init(&ui);
	make_five(&m);
	top_ui_arrange(&ui, &m, 5);
	struct top_action a = type(&ui, &m, "n4\n");
	CHECK(a.wish == TOP_WISH_RENICE && a.pid == 2 && a.priority == 4 && a.start_time == 1002);
	a = type(&ui, &m, "nlat\n");
	CHECK(a.wish == TOP_WISH_RENICE && a.priority == 13);
	a = type(&ui, &m, "n\n");
	CHECK(a.wish == TOP_WISH_NOTHING && ui.status[0] == '\0');
	a = type(&ui, &m, "n16\n");
	CHECK(a.wish == TOP_WISH_NOTHING && ui.status_is_bad && ui.status[0] != '\0');
	top_ui_key(&ui, &m, TOP_INPUT_F7);
	a = type(&ui, &m, "\n");
	CHECK(a.wish == TOP_WISH_RENICE && a.priority == 9);
	top_ui_key(&ui, &m, TOP_INPUT_F8);
	a = type(&ui, &m, "\n");
	CHECK(a.wish == TOP_WISH_RENICE && a.priority == 7);
	CHECK_INT(type(&ui, &m, "sn").wish, TOP_WISH_NOTHING);
	CHECK_INT(ui.mode, TOP_MODE_TABLE);
	a = type(&ui, &m, "sy");
	CHECK(a.wish == TOP_WISH_SUSPEND && a.pid == 2);
	CHECK(type(&ui, &m, "r").wish == TOP_WISH_RESUME &&
		type(&ui, &m, "q").wish == TOP_WISH_QUIT);
	/* The action is about the program of the prompt, not about the one selected later. */
	type(&ui, &m, "n");
	ui.has_chosen = true;
	ui.selected_pid = 5;
	ui.selected_start = 1005;
	CHECK_INT(type(&ui, &m, "2\n").pid, 2);
	top_ui_finish(&ui);
	top_model_finish(&m);
}

static void test_other_keys(void)
{
	struct top_model m;
	struct top_ui ui;

	top_ui_init(&ui);
	make_five(&m);
	top_ui_arrange(&ui, &m, 5);
	type(&ui, &m, "/gram 3");
	CHECK_INT(ui.n_shown, 1);
	top_ui_key(&ui, &m, TOP_INPUT_BACKSPACE);
	top_ui_arrange(&ui, &m, 5);
	CHECK_INT(ui.n_shown, 5);
	CHECK(type(&ui, &m, "1\n").wish == TOP_WISH_NOTHING && ui.mode == TOP_MODE_TABLE);
	CHECK_INT(ui.n_shown, 1);
	top_ui_key(&ui, &m, TOP_INPUT_ESCAPE);
	CHECK(ui.order.filter[0] == '\0');
	/* Any key that one can type, and more of them than fit. */
	type(&ui, &m, "/");
	for (uint32_t key = 1; key < 0x110000; key += key < 0x3000 ? 7 : 4099) {
		top_ui_key(&ui, &m, key);
	}
	CHECK(strlen(ui.input) < sizeof(ui.input));
	for (int i = 0; i < 80; i++) {
		top_ui_key(&ui, &m, TOP_INPUT_BACKSPACE);
	}
	CHECK(ui.input[0] == '\0' && ui.order.filter[0] == '\0');
	top_ui_key(&ui, &m, TOP_INPUT_ESCAPE);
	type(&ui, &m, "+");
	CHECK_INT(ui.delay_ms, 2000);
	type(&ui, &m, "---");
	CHECK_INT(ui.delay_ms, 200);
	type(&ui, &m, "-----");
	CHECK_INT(ui.delay_ms, TOP_DELAY_MIN_MS);
	type(&ui, &m, "d2.5\n");
	CHECK_INT(ui.delay_ms, 2500);
	type(&ui, &m, "dsoon\n");
	CHECK(ui.delay_ms == 2500 && ui.status_is_bad);
	type(&ui, &m, " ");
	CHECK(ui.paused);
	type(&ui, &m, "h");
	CHECK_INT(ui.mode, TOP_MODE_HELP);
	CHECK_INT(type(&ui, &m, "q").wish, TOP_WISH_NOTHING);
	top_ui_key(&ui, &m, TOP_INPUT_F6);
	top_ui_key(&ui, &m, TOP_INPUT_DOWN);
	type(&ui, &m, "\n");
	CHECK_INT(ui.order.by, TOP_BY_WAIT);
	type(&ui, &m, "<<");
	CHECK_INT(ui.order.by, TOP_BY_GPU);
	type(&ui, &m, "T>>");
	CHECK_INT(ui.order.by, TOP_BY_COMMAND);
	type(&ui, &m, "MM");
	CHECK(ui.order.by == TOP_BY_MEMORY && ui.order.reverse);
	top_ui_finish(&ui);
	top_model_finish(&m);
}

static void test_a_status_grows_old(void)
{
	struct top_ui ui;

	top_ui_init(&ui);
	top_ui_say(&ui, true, "no");
	for (int i = 0; i < 7; i++) {
		top_ui_tick(&ui);
	}
	CHECK(ui.status[0] != '\0');
	top_ui_tick(&ui);
	CHECK(ui.status[0] == '\0');
	top_ui_tick(&ui);
}

int main(void)
{
	test_shares_are_of_the_interval();
	test_unknown_is_not_zero();
	test_a_pid_comes_again();
	test_counters_go_back();
	test_the_account_is_preferred();
	test_p99_forgets();
	test_times();
	test_who_has_the_turn();
	test_who_reserves();
	test_order();
	test_filter();
	test_selection_stays_with_its_program();
	test_wishes();
	test_other_keys();
	test_a_status_grows_old();
	return check_result();
}
