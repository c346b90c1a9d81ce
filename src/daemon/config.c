/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: lines "key = value", a # begins a comment; then sections "[rule NAME]"
 * with keys of their own (rules.c). A key that is not there has its default; one that is not known,
 * or given twice, is an error, and so is the whole file. All mistakes are named, each once: what
 * only follows from another is not.
 */
#include "daemon/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/attach/rules.h"
#include "daemon/metrics/metrics.h"
#include "util/log.h"
#include "util/parse.h"

#define MAX_LINE     512
#define MAX_MISTAKES 20
#define SCAN_MIN_MS  100
#define SCAN_MAX_MS  3600000

/* Numbers. With 0 the file means none, and the core means its default: hence zero_is_never. */
static const struct key {
	const char *name;
	size_t offset;
	uint32_t min, max;
	bool zero_is_never;
	bool is_percent; /* with a fraction; kept in thousandths, as are min and max */
} keys[] = {
	{"turn_ms", offsetof(struct config, sched.turn_ms), 60, 100, false, false},
	{"latency_slice_us", offsetof(struct config, sched.latency_slice_us), 0, 100000, true,
		false},
	{"max_hold_us", offsetof(struct config, sched.max_hold_us), 0, 30000, true, false},
	{"max_reserve_ms", offsetof(struct config, sched.max_reserve_ms), 1, RBT_RESERVE_MAX_MS,
		false, false},
	{"min_share", offsetof(struct config, sched.min_share_permille), 0, RBT_SHARE_MAX_PERMILLE,
		true, true},
	{"amd_poll_us", offsetof(struct config, sched.queue_poll_us), 100, 5000, false, false},
	{"max_latency", offsetof(struct config, sched.max_latency), 0, 1000, true, false},
};
#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

/* The place in the file, for messages, and the keys seen so far. */
struct reading {
	const char *path;
	unsigned line;
	bool has_policy, has_reserve, has_metrics, has_admin_group, has_scan, has[N_KEYS];
	bool in_rule; /* the keys that follow are of the rule that was begun last */
	bool in_void; /* the keys that follow are of nothing: their section is wrong */
	bool is_rule_wrong;
	struct config config;
	char *why; /* what is wrong, a line each */
	size_t why_size;
	unsigned n_mistakes;
};

static int complain_at(struct reading *r, unsigned line, const char *what, const char *value)
{
	size_t used = strlen(r->why);

	r->n_mistakes++;
	snprintf(r->why + used, r->why_size - used, "%s%s:%u: %s%s%s", used > 0 ? "\n" : "",
		r->path, line, what, value != NULL ? ": " : "", value != NULL ? value : "");
	return -EINVAL;
}

static int complain(struct reading *r, const char *what, const char *value)
{
	return complain_at(r, r->line, what, value);
}

/* 0, or -EINVAL with what is wrong in `text`. */
static int take_number(
	struct config *config, const struct key *k, const char *value, char *text, size_t text_size)
{
	uint64_t v;

	snprintf(text, text_size, "%s is a %s from %u to %u%s, not %s", k->name,
		k->is_percent ? "share" : "whole number", k->is_percent ? k->min / 10 : k->min,
		k->is_percent ? k->max / 10 : k->max, k->is_percent ? " %" : "", value);
	int error = k->is_percent ? rbt_parse_permille(value, k->max, &v)
				  : rbt_parse_u64(value, k->min, k->max, &v);
	if (error < 0) {
		return -EINVAL;
	}
	uint32_t *to = (uint32_t *)((char *)config + k->offset);
	*to = v == 0 && k->zero_is_never ? RBT_SCHED_NEVER : (uint32_t)v;
	return 0;
}

static int set_number(struct reading *r, size_t i, char *value)
{
	char text[MAX_LINE + 96];

	if (r->has[i]) {
		return complain(r, "given twice", keys[i].name);
	}
	r->has[i] = true;
	int error = take_number(&r->config, &keys[i], value, text, sizeof(text));
	return error < 0 ? complain(r, text, NULL) : 0;
}

int config_set(
	struct config *config, const char *key, const char *value, char *why, size_t why_size)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		if (strcmp(key, keys[i].name) == 0) {
			return take_number(config, &keys[i], value, why, why_size);
		}
	}
	snprintf(why, why_size, "%s is not that", key);
	return -EINVAL;
}

static int set_policy(struct reading *r, const char *value)
{
	if (r->has_policy) {
		return complain(r, "given twice", "policy");
	}
	r->has_policy = true;
	if (value[0] == '/') {
		snprintf(r->config.policy_file, sizeof(r->config.policy_file), "%s", value);
		return 0;
	}
	r->config.sched.policy = rbt_sched_policy_find(value);
	return r->config.sched.policy != NULL
		       ? 0
		       : complain(r,
				 "policy is turns, priority, fair, fifo or an absolute path, not",
				 value);
}

static int set_reserve(struct reading *r, const char *value)
{
	if (r->has_reserve) {
		return complain(r, "given twice", "reserve");
	}
	r->has_reserve = true;
	r->config.sched.always_reserve = strcmp(value, "always") == 0;
	return r->config.sched.always_reserve || strcmp(value, "auto") == 0
		       ? 0
		       : complain(r, "reserve is auto or always, not", value);
}

static int set_metrics(struct reading *r, const char *value)
{
	if (r->has_metrics) {
		return complain(r, "given twice", "metrics");
	}
	if (metrics_check(value) < 0) {
		return complain(r, "metrics is a path, a port or none, not", value);
	}
	r->has_metrics = true;
	strcpy(r->config.metrics, value);
	return 0;
}

static int set_scan(struct reading *r, const char *value)
{
	uint64_t ms;

	if (r->has_scan) {
		return complain(r, "given twice", "scan_s");
	}
	if (rbt_parse_seconds(value, SCAN_MAX_MS, &ms) < 0 || ms < SCAN_MIN_MS) {
		return complain(r, "scan_s is a time in seconds from 0.1 to 3600, not", value);
	}
	r->has_scan = true;
	r->config.scan_ms = (uint32_t)ms;
	return 0;
}

static int set_admin_group(struct reading *r, const char *value)
{
	if (r->has_admin_group) {
		return complain(r, "given twice", "admin_group");
	}
	if (value[0] == '\0' || strlen(value) >= sizeof(r->config.admin_group)) {
		return complain(r, "not the name of a group", value);
	}
	r->has_admin_group = true;
	strcpy(r->config.admin_group, value);
	return 0;
}

static char *trim(char *s)
{
	size_t n = strlen(s);

	while (n > 0 && isspace((unsigned char)s[n - 1])) {
		s[--n] = '\0';
	}
	while (isspace((unsigned char)*s)) {
		s++;
	}
	return s;
}

static int end_rule(struct reading *r)
{
	const char *what = r->in_rule ? rules_end(&r->config.rules) : NULL;
	const struct rules *rules = &r->config.rules;
	bool is_known = r->is_rule_wrong;

	r->in_rule = r->is_rule_wrong = false;
	return what == NULL || is_known ? 0
					: complain_at(r, rules->list[rules->n - 1].line, what,
						  rules->list[rules->n - 1].name);
}

/* "[rule NAME]" */
static int begin_rule(struct reading *r, char *head)
{
	size_t n = strlen(head);

	end_rule(r);
	r->in_void = true;
	if (head[n - 1] != ']') {
		return complain(r, "a section without its bracket", head);
	}
	head[n - 1] = '\0';
	char *kind = trim(head + 1);
	size_t len = strcspn(kind, " \t");
	if (len != 4 || strncmp(kind, "rule", len) != 0) {
		return complain(r, "sections are of the form [rule NAME], not", kind);
	}
	char *name = trim(kind + len);
	const char *what = rules_begin(&r->config.rules, name, r->line);
	r->in_rule = what == NULL;
	r->in_void = what != NULL;
	return what == NULL ? 0 : complain(r, what, name);
}

static int set_key(struct reading *r, const char *key, char *value)
{
	if (r->in_rule) {
		char why[MAX_LINE + 64];
		int error = rules_set(&r->config.rules, key, value, why, sizeof(why));
		r->is_rule_wrong = r->is_rule_wrong || error < 0;
		return error < 0 ? complain(r, why, NULL) : 0;
	}
	if (r->in_void) {
		return 0;
	}
	if (strcmp(key, "policy") == 0) {
		return set_policy(r, value);
	}
	if (strcmp(key, "reserve") == 0) {
		return set_reserve(r, value);
	}
	if (strcmp(key, "metrics") == 0) {
		return set_metrics(r, value);
	}
	if (strcmp(key, "scan_s") == 0) {
		return set_scan(r, value);
	}
	if (strcmp(key, "admin_group") == 0) {
		return set_admin_group(r, value);
	}
	for (size_t i = 0; i < N_KEYS; i++) {
		if (strcmp(key, keys[i].name) == 0) {
			return set_number(r, i, value);
		}
	}
	return complain(r, "no such key", key);
}

static int read_line(struct reading *r, char *line)
{
	line[strcspn(line, "#")] = '\0';
	char *key = trim(line);
	if (key[0] == '\0') {
		return 0;
	}
	if (key[0] == '[') {
		return begin_rule(r, key);
	}
	char *value = strchr(key, '=');
	if (value == NULL) {
		return complain(r, "not of the form key = value", key);
	}
	*value++ = '\0';
	return set_key(r, trim(key), trim(value));
}

void config_default(struct config *ret)
{
	*ret = (struct config){.metrics = "none"};
	strcpy(ret->admin_group, "rubato");
}

void config_finish(struct config *config)
{
	rules_finish(&config->rules);
}

int config_parse(FILE *f, const char *path, struct config *ret, char *why, size_t why_size)
{
	struct reading r = {.path = path, .why = why, .why_size = why_size};
	char line[MAX_LINE];
	int error = 0;

	why[0] = '\0';
	config_default(&r.config);
	errno = 0;
	while (error == 0 && r.n_mistakes < MAX_MISTAKES && fgets(line, sizeof(line), f) != NULL) {
		r.line++;
		if (strchr(line, '\n') != NULL || feof(f)) {
			read_line(&r, line);
		} else {
			error = complain(&r, "line too long", NULL);
		}
	}
	if (error == 0 && ferror(f)) {
		error = errno != 0 && errno != EINVAL ? -errno : -EIO; /* EINVAL is a mistake */
	}
	end_rule(&r);
	error = error == 0 && r.n_mistakes > 0 ? -EINVAL : error;
	if (error < 0) {
		config_finish(&r.config);
		return error;
	}
	*ret = r.config;
	return 0;
}

int config_read(const char *path, struct config *ret)
{
	char why[MAX_MISTAKES * 256] = "", *rest = why, *line;
	FILE *f = fopen(path, "re");

	if (f == NULL) {
		return -errno;
	}
	int r = config_parse(f, path, ret, why, sizeof(why));
	fclose(f);
	while (r == -EINVAL && (line = strsep(&rest, "\n")) != NULL) {
		rbt_error("%s", line);
	}
	return r;
}

int config_default_path(char *buf, size_t size)
{
	const char *dir = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = -1;

	/* Root's environment may be that of another user. */
	if (geteuid() == 0) {
		n = snprintf(buf, size, "/etc/rubato/rubatod.conf");
	} else if (dir != NULL && dir[0] == '/') {
		n = snprintf(buf, size, "%s/rubato/rubatod.conf", dir);
	} else if (home != NULL && home[0] == '/') {
		n = snprintf(buf, size, "%s/.config/rubato/rubatod.conf", home);
	}
	return n < 0 ? -ENOENT : (size_t)n >= size ? -ENAMETOOLONG : 0;
}
