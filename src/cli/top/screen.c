/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/top/draw.h"
#include "cli/top/layout.h"
#include "cli/top/worker.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

/* Rates need two samples: the second comes soon, whatever the delay. */
#define FIRST_DELAY_MS 300u

struct screen {
	struct top_ui *ui;
	struct top_model model;
	struct top_worker *worker;
	int signal_fd, width, height;
	bool is_asked; /* a sample is on its way */
	bool is_dirty;
	uint64_t next_ns, n_samples, count;
	bool quit;
	int killed_by; /* a fatal signal, raised again after the terminal is restored */
};

static int catch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGWINCH);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
		return -errno;
	}
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static void on_signal(struct screen *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGWINCH) {
			top_draw_resize(&s->width, &s->height);
			s->is_dirty = true;
			continue;
		}
		s->quit = true;
		if (info.ssi_signo != SIGINT) {
			s->killed_by = (int)info.ssi_signo;
		}
	}
}

static void on_worker(struct screen *s)
{
	struct top_answer answer;
	bool has_answer;
	struct top_sample *sample = top_worker_take(s->worker, &answer, &has_answer);

	if (has_answer) {
		top_ui_say(s->ui, !answer.is_good, "%s", answer.text);
		s->is_dirty = true;
	}
	if (sample == NULL) {
		return;
	}
	uint64_t delay_ms = s->n_samples == 0 && s->ui->delay_ms > FIRST_DELAY_MS ? FIRST_DELAY_MS
										  : s->ui->delay_ms;
	s->is_asked = false;
	s->next_ns = sample->now_ns + delay_ms * RBT_NS_PER_MS;
	top_model_update(&s->model, sample);
	top_sample_destroy(sample);
	if (!has_answer) {
		top_ui_tick(s->ui);
	}
	s->is_dirty = true;
	/* The first sample has no interval before it. */
	s->n_samples++;
	s->quit = s->quit || (s->count > 0 && s->n_samples > s->count);
}

static void obey(struct screen *s, const struct top_action *a)
{
	switch (a->wish) {
	case TOP_WISH_QUIT:
		s->quit = true;
		break;
	case TOP_WISH_REFRESH:
		s->next_ns = 0;
		top_worker_sample(s->worker);
		s->is_asked = true;
		break;
	case TOP_WISH_RENICE:
	case TOP_WISH_SUSPEND:
	case TOP_WISH_RESUME:
		if (top_worker_act(s->worker, a)) {
			top_ui_say(s->ui, false, "%d: asking the daemon", (int)a->pid);
		} else {
			top_ui_say(s->ui, true, "the daemon has not answered yet");
		}
		break;
	default:
		break;
	}
}

static void on_keys(struct screen *s)
{
	uint32_t key;

	while (!s->quit && (key = top_draw_key()) != 0) {
		uint64_t old_ms = s->ui->delay_ms;
		bool was_paused = s->ui->paused;
		struct top_action a = top_ui_key(s->ui, &s->model, key);

		obey(s, &a);
		/* A shorter delay counts from now on, not after the old one. */
		if (s->ui->delay_ms != old_ms || s->ui->paused != was_paused) {
			s->next_ns = s->model.last_ns + s->ui->delay_ms * RBT_NS_PER_MS;
		}
		s->is_dirty = true;
		/* So that the next key finds the changes of this one. */
		top_ui_arrange(s->ui, &s->model, s->ui->page);
	}
}

static void show(struct screen *s)
{
	struct top_canvas canvas;
	char clock[16];

	s->is_dirty = false;
	if (top_canvas_init(&canvas, s->width, s->height, top_is_utf8()) < 0) {
		return;
	}
	top_clock(clock);
	top_screen_draw(&canvas, &s->model, s->ui, clock);
	top_draw_show(&canvas);
	top_canvas_finish(&canvas);
}

/* Milliseconds until the next sample; -1: wait for an event. */
static int time_left_ms(const struct screen *s)
{
	uint64_t now_ns = rbt_now_ns();

	if (s->is_asked || s->ui->paused) {
		return -1;
	}
	return s->next_ns <= now_ns ? 0 : (int)((s->next_ns - now_ns) / RBT_NS_PER_MS) + 1;
}

static void loop(struct screen *s)
{
	struct pollfd fds[] = {
		{.fd = STDIN_FILENO, .events = POLLIN},
		{.fd = s->signal_fd, .events = POLLIN},
		{.fd = top_worker_fd(s->worker), .events = POLLIN},
	};

	while (!s->quit) {
		int left_ms = time_left_ms(s);
		if (left_ms == 0) {
			top_worker_sample(s->worker);
			s->is_asked = true;
			left_ms = -1;
		}
		if (s->is_dirty) {
			show(s);
		}
		if (poll(fds, sizeof(fds) / sizeof(fds[0]), left_ms) < 0 && errno != EINTR) {
			return;
		}
		/* A terminal that is gone stays readable for ever. */
		if ((fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
			return;
		}
		on_signal(s);
		on_worker(s);
		on_keys(s);
	}
}

/* As if the signal had not been caught. */
static void die_by(int number)
{
	sigset_t set;

	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int run_on_terminal(struct screen *s, bool with_colours)
{
	const char *why = top_draw_open(with_colours);

	if (why != NULL) {
		rbt_error("top: %s, or use --once", why);
		return EXIT_FAILED;
	}
	top_draw_resize(&s->width, &s->height);
	s->is_dirty = true;
	loop(s);
	top_draw_close();
	return EXIT_OK;
}

int top_screen_run(struct top_source *source, struct top_ui *ui, uint64_t count, bool with_colours)
{
	struct screen s = {.ui = ui, .count = count};

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		top_source_destroy(source);
		rbt_error(
			"top: standard input and output are not a terminal; use --once, --batch or --json");
		return EXIT_FAILED;
	}
	top_model_init(&s.model);
	s.signal_fd = catch_signals();
	if (s.signal_fd < 0) {
		top_source_destroy(source);
		rbt_error("top: cannot wait for signals: %s", strerror(-s.signal_fd));
		return EXIT_FAILED;
	}
	int code = EXIT_FAILED, r = top_worker_create(source, &s.worker);
	if (r < 0) {
		rbt_error("top: cannot start a thread: %s", strerror(-r));
	} else {
		code = run_on_terminal(&s, with_colours);
	}
	top_worker_destroy(s.worker);
	top_model_finish(&s.model);
	rbt_close(&s.signal_fd);
	if (s.killed_by != 0) {
		die_by(s.killed_by);
	}
	return code;
}
