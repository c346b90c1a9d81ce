/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/treatment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/parse.h"

#define VALUE_MAX 128

enum kind { CLASS, NUMBER, SHARE, NAME, FLAG, SIZE, SECONDS };

/*
 * The table of keys. Messages call a key by its `label`, and `expects` says which values are right.
 * A key that is not said has the value `unset`. For some keys, `unset` means that something else
 * decides: the priority decides the timeslice, the configuration the reserve and the share, the
 * launcher the group.
 */
static const struct key {
	const char *name, *label, *expects, *unit;
	enum kind kind;
	size_t offset, size;
	uint64_t min, max;
	uint32_t unset;
	bool has_default; /* the value `default` resets the key */
} keys[RBT_TREAT_KEYS] = {
#define FIELD(member)                                                                              \
	.offset = offsetof(struct rbt_treatment, member),                                          \
	.size = sizeof(((struct rbt_treatment *)0)->member)
	[RBT_TREAT_CLASS] = {"class", "class", "latency, normal or best-effort", "", CLASS,
		FIELD(priority), 0, RBT_PRIORITY_MAX, RBT_PRIORITY_NORMAL},
	[RBT_TREAT_PRIORITY] = {"priority", "priority", "a whole number from 0 to 15", "", NUMBER,
		FIELD(priority), 0, RBT_PRIORITY_MAX, RBT_PRIORITY_NORMAL},
	[RBT_TREAT_TIMESLICE] = {"timeslice-us", "timeslice",
		"a whole number of microseconds from 1 to 1000000", " us", NUMBER,
		FIELD(timeslice_us), 1, RBT_TIMESLICE_MAX_US, RBT_TIMESLICE_OWN},
	[RBT_TREAT_WEIGHT] = {"weight", "weight", "a whole number from 1 to 1000", "", NUMBER,
		FIELD(weight), 1, RBT_WEIGHT_MAX, 1},
	[RBT_TREAT_MAX_RESERVE] = {"max-reserve-ms", "max-reserve-ms",
		"a whole number from 1 to 3600000, or default", "", NUMBER,
		FIELD(limits.max_reserve_ms), 1, RBT_RESERVE_MAX_MS, 0, true},
	[RBT_TREAT_MIN_SHARE] = {"min-share", "min-share", "a share from 0 to 10 %, or default",
		" %", SHARE, FIELD(limits.min_share_permille), 1, RBT_SHARE_MAX_PERMILLE, 0, true},
	[RBT_TREAT_GROUP] = {"group", "group",
		"up to 63 letters, digits, dots, dashes and underscores", "", NAME, FIELD(group)},
	[RBT_TREAT_FORCE] = {"force", "force", "0 or 1", "", FLAG, FIELD(force), 0, 1, 0},
	[RBT_TREAT_MEMORY] = {"memory", "memory", "a size from 1M to 1024T such as 20G, or default",
		"", SIZE, FIELD(memory), RBT_MEMORY_MIN, RBT_MEMORY_MAX, 0, true},
	[RBT_TREAT_PARK_IDLE] = {"park-idle-s", "park-idle-s",
		"a time in seconds from 0.1 to 604800, or default", "", SECONDS,
		FIELD(park_idle_ms), RBT_PARK_IDLE_MIN_MS, RBT_PARK_IDLE_MAX_MS, 0, true},
#undef FIELD
};
static_assert(RBT_PRIORITY_MAX == 15 && RBT_TIMESLICE_MAX_US == 1000000 && RBT_WEIGHT_MAX == 1000 &&
		      RBT_RESERVE_MAX_MS == 3600000 && RBT_SHARE_MAX_PERMILLE == 100 &&
		      RBT_GROUP_NAME_MAX == 64 && RBT_MEMORY_MIN >> 20 == 1 &&
		      RBT_MEMORY_MAX >> 40 == 1024 && RBT_PARK_IDLE_MIN_MS == 100 &&
		      RBT_PARK_IDLE_MAX_MS == 604800000,
	"the sentences say so");

static uint32_t bit(enum rbt_treat_key key)
{
	return UINT32_C(1) << key;
}

static void put_number(struct rbt_treatment *t, const struct key *k, uint64_t v)
{
	uint32_t narrow = (uint32_t)v;

	if (k->kind == SIZE) {
		memcpy((char *)t + k->offset, &v, sizeof(v));
	} else {
		memcpy((char *)t + k->offset, &narrow, sizeof(narrow));
	}
}

static uint64_t number_of(const struct rbt_treatment *t, const struct key *k)
{
	uint64_t wide;
	uint32_t narrow;

	if (k->kind == SIZE) {
		memcpy(&wide, (const char *)t + k->offset, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, (const char *)t + k->offset, sizeof(narrow));
	return narrow;
}

/* Appends as much as fits, without printf(), which the preloaded library does not call. */
static void append(char *buf, size_t size, const char *text)
{
	size_t n = strlen(buf), len = strlen(text);

	len = len < size - 1 - n ? len : size - 1 - n;
	memcpy(buf + n, text, len);
	buf[n + len] = '\0';
}

static void say(char why[RBT_TREAT_WHY_MAX], const char *const texts[])
{
	why[0] = '\0';
	for (; *texts != NULL; texts++) {
		append(why, RBT_TREAT_WHY_MAX, *texts);
	}
}

const char *rbt_treat_key_name(enum rbt_treat_key key)
{
	return keys[key].name;
}

bool rbt_treat_key_is_flag(enum rbt_treat_key key)
{
	return keys[key].kind == FLAG;
}

int rbt_treat_key_find(const char *name)
{
	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		const char *a = keys[i].name, *b = name;
		while (*a != '\0' && (*a == *b || (*a == '-' && *b == '_'))) {
			a++;
			b++;
		}
		if (*a == '\0' && *b == '\0') {
			return i;
		}
	}
	return -ENOENT;
}

static int refuse(const struct key *k, const char *value, char why[RBT_TREAT_WHY_MAX])
{
	if (k->kind == CLASS) {
		say(why, (const char *const[]){"no such class: ", value,
				 "; there are latency, normal, best-effort", NULL});
	} else {
		say(why,
			(const char *const[]){k->label, " is ", k->expects, ", not ", value, NULL});
	}
	return -EINVAL;
}

/* A class and a priority of one treatment must agree. */
static int contradict(unsigned priority, enum rbt_class cls, char why[RBT_TREAT_WHY_MAX])
{
	char digits[] = {(char)('0' + priority / 10), (char)('0' + priority % 10), '\0'};

	say(why, (const char *const[]){"priority ", priority < 10 ? digits + 1 : digits, " is ",
			 rbt_class_name(rbt_class_of(priority)), ", which contradicts class ",
			 rbt_class_name(cls), NULL});
	return -EINVAL;
}

static int set_class(struct rbt_treatment *t, const char *value, char why[RBT_TREAT_WHY_MAX])
{
	enum rbt_class cls;

	if (rbt_class_parse(value, &cls) < 0) {
		return refuse(&keys[RBT_TREAT_CLASS], value, why);
	}
	if ((t->said & RBT_TREAT_BIT(PRIORITY)) == 0) {
		t->priority = rbt_class_priority(cls);
	} else if (rbt_class_of(t->priority) != cls) {
		return contradict(t->priority, cls, why);
	}
	return 0;
}

static int set_number(struct rbt_treatment *t, enum rbt_treat_key key, const char *value,
	char why[RBT_TREAT_WHY_MAX])
{
	const struct key *k = &keys[key];
	uint64_t v;
	int r = k->kind == SHARE     ? rbt_parse_permille(value, k->max, &v)
		: k->kind == SIZE    ? rbt_parse_size(value, k->min, k->max, &v)
		: k->kind == SECONDS ? rbt_parse_seconds(value, k->max, &v)
				     : rbt_parse_u64(value, k->min, k->max, &v);

	if (r < 0 || (k->kind == SECONDS && v < k->min)) {
		return refuse(k, value, why);
	}
	if (key == RBT_TREAT_PRIORITY && (t->said & RBT_TREAT_BIT(CLASS)) != 0 &&
		rbt_class_of((unsigned)v) != rbt_class_of(t->priority)) {
		return contradict((unsigned)v, rbt_class_of(t->priority), why);
	}
	put_number(t, k, k->kind == SHARE && v == 0 ? RBT_SHARE_NONE : v);
	return 0;
}

static int set_name(struct rbt_treatment *t, const char *value, char why[RBT_TREAT_WHY_MAX])
{
	if (!rbt_rankgroup_is_name(value)) {
		return refuse(&keys[RBT_TREAT_GROUP], value, why);
	}
	memset(t->group, 0, sizeof(t->group));
	if (strcmp(value, "none") != 0) {
		memcpy(t->group, value, strlen(value));
	}
	return 0;
}

static void forget(struct rbt_treatment *t, enum rbt_treat_key key)
{
	t->said &= ~bit(key);
	if (keys[key].kind == NAME) {
		memset((char *)t + keys[key].offset, 0, keys[key].size);
	} else {
		put_number(t, &keys[key], keys[key].unset);
	}
}

int rbt_treatment_set(struct rbt_treatment *t, enum rbt_treat_key key, const char *value,
	char why[RBT_TREAT_WHY_MAX])
{
	const struct key *k = &keys[key];

	if (k->has_default && strcmp(value, "default") == 0) {
		forget(t, key);
		t->reset |= bit(key);
		return 0;
	}
	int r = k->kind == CLASS  ? set_class(t, value, why)
		: k->kind == NAME ? set_name(t, value, why)
				  : set_number(t, key, value, why);
	if (r == 0) {
		t->said |= bit(key);
		t->reset &= ~bit(key);
	}
	return r;
}

/* Parses one "key=value" of n characters. */
static void parse_pair(
	struct rbt_treatment *t, const char *text, size_t n, char why[RBT_TREAT_WHY_MAX])
{
	char pair[VALUE_MAX], reason[RBT_TREAT_WHY_MAX] = "";
	size_t len = n < sizeof(pair) ? n : sizeof(pair) - 1;

	memcpy(pair, text, len);
	pair[len] = '\0';
	char *value = strchr(pair, '=');
	if (value != NULL) {
		*value++ = '\0';
	}
	int key = value == NULL || len < n ? -EINVAL : rbt_treat_key_find(pair);
	if (key == -EINVAL) {
		say(reason, (const char *const[]){"not of the form key=value: ", pair, NULL});
	} else if (key < 0) {
		say(reason, (const char *const[]){"no such key: ", pair, NULL});
	} else {
		rbt_treatment_set(t, (enum rbt_treat_key)key, value, reason);
	}
	if (why[0] == '\0') {
		append(why, RBT_TREAT_WHY_MAX, reason);
	}
}

void rbt_treatment_parse(struct rbt_treatment *t, const char *text, char why[RBT_TREAT_WHY_MAX])
{
	while (*text != '\0') {
		size_t n = strcspn(text, ",");
		if (n > 0) {
			parse_pair(t, text, n, why);
		}
		text += n + (text[n] == ',');
	}
}

/* Exact, with the largest suffix that leaves a whole number. */
static void print_size(uint64_t v, char buf[VALUE_MAX])
{
	static const char suffixes[] = "KMGT";
	size_t n = 0;

	while (v % 1024 == 0 && v != 0 && n < strlen(suffixes)) {
		v /= 1024;
		n++;
	}
	snprintf(buf, VALUE_MAX, "%" PRIu64 "%.*s", v, n > 0, n > 0 ? &suffixes[n - 1] : "");
}

/* Prints the value as rbt_treatment_set() reads it. */
static void print_value(const struct rbt_treatment *t, const struct key *k, char buf[VALUE_MAX])
{
	uint64_t v = k->kind == NAME ? 0 : number_of(t, k);

	switch (k->kind) {
	case CLASS:
		snprintf(buf, VALUE_MAX, "%s", rbt_class_name(rbt_class_of((unsigned)v)));
		return;
	case SHARE:
		v = v == RBT_SHARE_NONE ? 0 : v;
		snprintf(buf, VALUE_MAX, "%" PRIu64 ".%" PRIu64, v / 10, v % 10);
		return;
	case SIZE:
		print_size(v, buf);
		return;
	case SECONDS:
		snprintf(buf, VALUE_MAX, "%" PRIu64 "%s%.*" PRIu64, v / 1000,
			v % 1000 != 0 ? "." : "", v % 1000 != 0 ? 3 : 0, v % 1000);
		return;
	case NAME:
		snprintf(buf, VALUE_MAX, "%s", t->group[0] != '\0' ? t->group : "none");
		return;
	default:
		snprintf(buf, VALUE_MAX, "%" PRIu64, v);
	}
}

size_t rbt_treatment_print(const struct rbt_treatment *t, char *buf, size_t size)
{
	char value[VALUE_MAX];
	size_t at = 0;

	if (size > 0) {
		buf[0] = '\0';
	}
	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		bool is_said = (t->said & bit(i)) != 0;
		if (!is_said && (!keys[i].has_default || (t->reset & bit(i)) == 0)) {
			continue;
		}
		if (is_said) {
			print_value(t, &keys[i], value);
		}
		char name[32];
		snprintf(name, sizeof(name), "%s", keys[i].name);
		for (char *c = name; (c = strchr(c, '-')) != NULL;) {
			*c = '_';
		}
		at += (size_t)snprintf(at < size ? buf + at : NULL, at < size ? size - at : 0,
			"%s%s=%s", at > 0 ? "," : "", name, is_said ? value : "default");
	}
	return at;
}

size_t rbt_treatment_describe(const struct rbt_treatment *t, uint32_t which, char *buf, size_t size)
{
	char value[VALUE_MAX];
	size_t at = 0;

	if (size > 0) {
		buf[0] = '\0';
	}
	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		char *to = at < size ? buf + at : NULL;
		size_t room = at < size ? size - at : 0;
		if ((t->said & which & bit(i)) != 0) {
			print_value(t, &keys[i], value);
			at += (size_t)snprintf(
				to, room, ", %s %s%s", keys[i].label, value, keys[i].unit);
		} else if (keys[i].has_default && (t->reset & which & bit(i)) != 0) {
			at += (size_t)snprintf(to, room, ", default %s", keys[i].label);
		}
	}
	return at;
}

void rbt_treatment_settle(struct rbt_treatment *t)
{
	if ((t->said & RBT_TREAT_BIT(CLASS)) != 0) {
		t->said = (t->said & ~RBT_TREAT_BIT(CLASS)) | RBT_TREAT_BIT(PRIORITY);
		t->reset &= ~RBT_TREAT_BIT(PRIORITY);
	}
}

void rbt_treatment_merge(struct rbt_treatment *t, const struct rbt_treatment *over)
{
	struct rbt_treatment settled = *over;

	rbt_treatment_settle(&settled);
	rbt_treatment_settle(t);
	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		const struct key *k = &keys[i];
		if ((settled.said & bit(i)) != 0) {
			memcpy((char *)t + k->offset, (const char *)&settled + k->offset, k->size);
			t->said |= bit(i);
			t->reset &= ~bit(i);
		} else if ((settled.reset & bit(i)) != 0) {
			forget(t, i);
			t->reset |= bit(i);
		}
	}
}

/* Names from launchers may have characters that rbt_rankgroup_is_name() refuses to users. */
static bool is_group(const char *name)
{
	size_t n = strnlen(name, RBT_GROUP_NAME_MAX);

	for (size_t i = 0; i < n; i++) {
		if (name[i] <= ' ' || name[i] > '~') {
			return false;
		}
	}
	return n < RBT_GROUP_NAME_MAX;
}

int rbt_treatment_check(const struct rbt_treatment *t, char why[RBT_TREAT_WHY_MAX])
{
	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		const struct key *k = &keys[i];
		if ((t->said & bit(i)) == 0) {
			continue;
		}
		uint64_t v = k->kind == NAME ? 0 : number_of(t, k);
		bool is_right = k->kind == NAME ? is_group(t->group)
						: (v >= k->min && v <= k->max) ||
							  (k->kind == SHARE && v == RBT_SHARE_NONE);
		if (!is_right) {
			say(why, (const char *const[]){k->label, " is ", k->expects, NULL});
			return -EINVAL;
		}
	}
	return 0;
}

/* All versions have the fields before the first key. */
#define HEAD_SIZE offsetof(struct rbt_treatment, priority)

int rbt_treatment_decode(const void *buf, size_t size, struct rbt_treatment *ret)
{
	struct rbt_treatment t = {0};
	char why[RBT_TREAT_WHY_MAX];

	if (size < HEAD_SIZE) {
		return -EBADMSG;
	}
	memcpy(&t, buf, size < sizeof(t) ? size : sizeof(t));
	if (t.size != size) {
		return -EBADMSG;
	}
	t.size = sizeof(t);
	t.pad = t.pad2 = 0;
	/* Peers send priorities: a class exists only in text. */
	t.said &= RBT_TREAT_ALL & ~RBT_TREAT_BIT(CLASS);
	t.reset &= RBT_TREAT_ALL & ~RBT_TREAT_BIT(CLASS) & ~t.said;
	for (int i = RBT_TREAT_CLASS + 1; i < RBT_TREAT_KEYS; i++) {
		if ((t.said & bit(i)) == 0 || keys[i].offset + keys[i].size > size) {
			forget(&t, i);
		}
	}
	if (rbt_treatment_check(&t, why) < 0) {
		return -EINVAL;
	}
	/* Treatments are compared as bytes, so the bytes after the name's end must be zero. */
	size_t n = strlen(t.group);
	memset(t.group + n, 0, sizeof(t.group) - n);
	*ret = t;
	return 0;
}
