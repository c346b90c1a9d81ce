/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process in which libbpf runs. libbpf reads the object again and on its own. So what it is
 * about to load is compared with the allow list once more: its maps before, its code after the
 * relocations.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/allow.h"
#include "policy/kernel_load.h"
#include "policy/trial.h"

/* libbpf's callbacks have no argument of ours; this process has one job. */
static struct {
	int sock;
	struct rbt_why why;                 /* of our own refusal, or empty */
	char program[RBT_OBJECT_NAME_SIZE]; /* the section that is being loaded */
} job;

__attribute__((format(printf, 2, 0))) static int say(
	enum libbpf_print_level level, const char *fmt, va_list args)
{
	char *text = NULL;
	int n = level == LIBBPF_WARN ? vasprintf(&text, fmt, args) : -1;

	for (int at = 0; at < n; at += RBT_LOAD_TEXT) {
		const int rest = n - at;
		rbt_loader_send(job.sock, RBT_LOAD_LOG, 0, 0, text + at,
			(size_t)(rest < RBT_LOAD_TEXT ? rest : RBT_LOAD_TEXT), -1);
	}
	if (n >= 0) {
		free(text);
	}
	return 0;
}

static int done(int error, const char *what)
{
	char text[256];
	int n;

	if (job.why.text[0] != '\0') {
		n = snprintf(text, sizeof(text), "%s", job.why.text);
	} else if (job.program[0] != '\0') {
		n = snprintf(text, sizeof(text), "section %s: %s: %s", job.program, what,
			strerror(-error));
	} else {
		n = snprintf(text, sizeof(text), "%s: %s", what, strerror(-error));
	}
	rbt_loader_send(job.sock, RBT_LOAD_DONE, 0, error, text,
		n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1, -1);
	return error;
}

static int setup(struct bpf_program *p, long cookie)
{
	return bpf_program__set_flags(p, bpf_program__flags(p) | BPF_F_SLEEPABLE);
}

/* Called with the instructions that the kernel will get. */
static int prepare(struct bpf_program *p, struct bpf_prog_load_opts *opts, long cookie)
{
	const struct bpf_insn *insns = bpf_program__insns(p);
	const size_t n = bpf_program__insn_cnt(p);

	snprintf(job.program, sizeof(job.program), "%s", bpf_program__section_name(p));
	for (size_t i = 0; i < n; i++) {
		const char *wrong = rbt_allow_reference(&insns[i]);
		if (wrong != NULL) {
			return rbt_why_set(&job.why, -EINVAL, "section %s: instruction %zu: %s",
				job.program, i, wrong);
		}
		if (insns[i].code == (BPF_LD | BPF_IMM | BPF_DW)) {
			i++;
		}
	}
	return 0;
}

/* Our number of a map of libbpf's, or -1. It names global data OBJECT.bss, others .data.OTHER. */
static int number_of(const struct rbt_object *o, const struct bpf_map *map)
{
	const char *name = bpf_map__name(map);

	if (bpf_map__is_internal(map)) {
		name = strchr(name, '.');
	}
	return name != NULL ? rbt_object_find_map(o, name) : -1;
}

static int prepare_map(const struct rbt_object *o, struct bpf_map *map, const int *files)
{
	const int i = number_of(o, map);
	const struct rbt_object_map *m = i >= 0 ? &o->maps[i] : NULL;

	if (m == NULL || bpf_map__type(map) != m->type || bpf_map__key_size(map) != m->key_size ||
		bpf_map__value_size(map) != m->value_size ||
		bpf_map__max_entries(map) != m->max_entries || bpf_map__pin_path(map) != NULL ||
		bpf_map__is_internal(map) != m->is_data) {
		return rbt_why_set(&job.why, -EINVAL, "map %.64s: libbpf reads it differently",
			bpf_map__name(map));
	}
	if (m->is_data) {
		return bpf_map__set_initial_value(map, m->initial, m->value_size);
	}
	return files[i] >= 0 ? bpf_map__reuse_fd(map, files[i]) : 0;
}

static int send_files(const struct rbt_object *o, struct bpf_object *object)
{
	struct bpf_program *p;
	struct bpf_map *map;

	bpf_object__for_each_program(p, object)
	{
		const char *section = bpf_program__section_name(p);
		const char *name = strchr(section, '/');
		enum rbt_hook hook = name != NULL ? rbt_hook_find(name + 1) : RBT_N_HOOKS;
		if (hook == RBT_N_HOOKS || bpf_program__type(p) != BPF_PROG_TYPE_SYSCALL) {
			return rbt_why_set(&job.why, -EINVAL,
				"section %s: libbpf reads it differently", section);
		}
		rbt_loader_send(job.sock, RBT_LOAD_PROGRAM, hook, 0, "", 0, bpf_program__fd(p));
	}
	bpf_object__for_each_map(map, object)
	{
		rbt_loader_send(job.sock, RBT_LOAD_MAP, (uint32_t)number_of(o, map), 0, "", 0,
			bpf_map__fd(map));
	}
	return 0;
}

/* Runs the hooks once, as rbt_trial_run() does with an engine. */
static int try_hooks(struct bpf_object *object)
{
	for (size_t i = 0; i < RBT_N_HOOKS; i++) {
		const enum rbt_hook hook = rbt_trial_order[i];
		struct bpf_program *p;
		union rbt_any_ctx ctx;

		bpf_object__for_each_program(p, object)
		{
			const char *name = strchr(bpf_program__section_name(p), '/');
			struct bpf_test_run_opts opts = {.sz = sizeof(opts),
				.ctx_in = &ctx,
				.ctx_size_in = (uint32_t)rbt_hook_ctx_size(hook)};

			if (name == NULL || rbt_hook_find(name + 1) != hook) {
				continue;
			}
			rbt_trial_fill(hook, &ctx);
			int r = bpf_prog_test_run_opts(bpf_program__fd(p), &opts);
			if (r < 0) {
				return rbt_why_set(&job.why, -EINVAL,
					"section %s: it does not run: %s, in a dry run",
					bpf_program__section_name(p), strerror(-r));
			}
			if (opts.retval != 0) {
				return rbt_why_set(&job.why, -EINVAL,
					"section %s: the hook returned %d, in a dry run",
					bpf_program__section_name(p), (int)opts.retval);
			}
		}
	}
	return 0;
}

/* Opens and loads the object. 0, or -errno, which has been sent. */
static int load_once(const struct rbt_object *o, const int *files, struct bpf_object **ret)
{
	const struct bpf_object_open_opts options = {
		.sz = sizeof(options), .object_name = "rubato"};
	struct bpf_object *object = bpf_object__open_mem(o->file, o->size, &options);
	struct bpf_map *map;

	if (object == NULL) {
		return done(-errno, "libbpf cannot read the object");
	}
	bpf_object__for_each_map(map, object)
	{
		int r = prepare_map(o, map, files);
		if (r < 0) {
			return done(r, "a map cannot be prepared");
		}
	}
	int r = bpf_object__load(object);
	if (r < 0) {
		return done(r, "the kernel refuses it");
	}
	*ret = object;
	return 0;
}

static int try_object(const struct rbt_object *o)
{
	struct bpf_object *object = NULL;
	int none[RBT_OBJECT_MAX_MAPS];

	memset(none, 0xff, sizeof(none)); /* -1 */
	int r = load_once(o, none, &object);
	if (r < 0) {
		return r;
	}
	r = try_hooks(object);
	bpf_object__close(object);
	job.program[0] = '\0';
	return r < 0 ? done(r, "a hook does not run") : 0;
}

static int load(const struct rbt_object *o, const int *files, bool is_tried)
{
	const struct libbpf_prog_handler_opts handler = {
		.sz = sizeof(handler), .prog_setup_fn = setup, .prog_prepare_load_fn = prepare};
	struct bpf_object *object = NULL;

	libbpf_set_print(say);
	int r = libbpf_register_prog_handler("gpu_sched+", BPF_PROG_TYPE_SYSCALL, 0, &handler);
	if (r < 0) {
		return done(r, "libbpf has no handlers");
	}
	r = is_tried ? try_object(o) : 0;
	r = r == 0 ? load_once(o, files, &object) : r;
	if (r < 0) {
		return r;
	}
	r = send_files(o, object);
	return done(r, "the object cannot be used");
}

void rbt_libbpf_load(
	int sock, const struct rbt_object *o, const int files[RBT_OBJECT_MAX_MAPS], bool is_tried)
{
	job.sock = sock;
	load(o, files, is_tried);
	/* The process ends now; what libbpf holds goes with it. */
}
