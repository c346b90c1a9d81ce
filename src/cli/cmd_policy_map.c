/* SPDX-License-Identifier: Apache-2.0 */
/* `rubato policy map`: entries of the loaded policy's maps. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd_policy.h"
#include "policy/value.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"

/* A connection, and the object that the daemon has loaded. */
struct session {
	int sock;
	uint32_t load;
	struct rbt_object *o;
	const struct rbt_object_map *map; /* the one that was named, or NULL */
	char *key, *value;                /* room for them */
};

static void finish(struct session *s)
{
	rbt_object_close(s->o);
	rbt_close(&s->sock);
	free(s->key);
	free(s->value);
}

static int read_object(struct session *s)
{
	struct rbt_msg_result result = {0};
	struct rbt_msg_policy now;
	struct rbt_why why = {""};
	void *data = NULL;
	size_t size = 0;
	/* Before the object: if another one is loaded meanwhile, its numbers of maps are refused
	 * rather than mistaken. */
	int r = policy_ask(s->sock, &now);

	r = r < 0 ? r : policy_fetch_object(s->sock, &data, &size, &result);
	if (r < 0 || result.error < 0) {
		return policy_failed(&cmd_policy, "map", r, &result);
	}
	s->load = now.n_loads;
	r = rbt_object_open(data, size, &s->o, &why);
	free(data);
	if (r < 0) {
		rbt_error("policy: map: the loaded object cannot be read: %s", why.text);
	}
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

/* Gets the object, and finds the map if one is named. An exit code, with the error printed. */
static int begin(struct session *s, const char *name)
{
	*s = (struct session){.sock = policy_connect()};
	if (s->sock < 0) {
		return policy_failed(&cmd_policy, "map", s->sock, NULL);
	}
	int code = read_object(s);
	if (code != EXIT_OK || name == NULL) {
		return code;
	}
	int i = rbt_object_find_map(s->o, name);
	if (i < 0) {
		rbt_error("policy: %s: the loaded policy has no map of this name (see `rubato "
			  "policy map list`)",
			name);
		return EXIT_FAILED;
	}
	s->map = &s->o->maps[i];
	if (s->map->type == BPF_MAP_TYPE_RINGBUF) {
		rbt_error("policy: %s: a ring buffer has no entries", name);
		return EXIT_FAILED;
	}
	s->key = calloc(1, s->map->key_size + 1);
	s->value = calloc(1, s->map->value_size + 1);
	if (s->key == NULL || s->value == NULL) {
		rbt_error("policy: %s: out of memory", name);
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

static int map_failed(const struct session *s, int error, const struct rbt_msg_result *result)
{
	if (error == 0 && result->error == -ESTALE) {
		rbt_error("policy: %s: another policy has been loaded meanwhile: try again",
			s->map->name);
		return EXIT_FAILED;
	}
	if (error == -EMSGSIZE || (error == 0 && result->error == -EMSGSIZE)) {
		rbt_error("policy: %s: its entries of %u bytes are too large to be sent",
			s->map->name, s->map->key_size + s->map->value_size);
		return EXIT_FAILED;
	}
	if (error == 0 && result->error == -E2BIG) {
		rbt_error("policy: %s: %s %u entries", s->map->name,
			s->map->type == BPF_MAP_TYPE_ARRAY ? "there is no such entry: the array has"
							   : "the map is full: it has",
			s->map->max_entries);
		return EXIT_FAILED;
	}
	return policy_failed(&cmd_policy, s->map->name, error, result);
}

/* Sends an operation with the session's key, and its value if it has one. As policy_send_entry(),
 * which copies an entry into the session. */
static int send(struct session *s, enum rbt_policy_map_op op, bool has_key, bool has_value,
	struct rbt_msg_result *ret)
{
	static char buf[RBT_MSG_MAX];
	struct rbt_policy_entry got, entry = {
					     .op = op,
					     .load = s->load,
					     .map = (uint32_t)(s->map - s->o->maps),
					     .key = s->key,
					     .key_size = has_key ? s->map->key_size : 0,
					     .value = s->value,
					     .value_size = has_value ? s->map->value_size : 0,
				     };
	int r = policy_send_entry(s->sock, &entry, buf, &got, ret);

	if (r != 1) {
		return r;
	}
	if (got.key_size != s->map->key_size || got.value_size != s->map->value_size) {
		return -EBADMSG;
	}
	memcpy(s->key, got.key, got.key_size);
	memcpy(s->value, got.value, got.value_size);
	return 1;
}

static void json_map(struct rbt_json *j, const struct rbt_object_map *m)
{
	rbt_json_object(j, NULL);
	rbt_json_string(j, "name", m->name);
	rbt_json_string(j, "type", policy_map_type(m->type));
	rbt_json_u64(j, "key_size", m->key_size);
	rbt_json_u64(j, "value_size", m->value_size);
	rbt_json_u64(j, "max_entries", m->max_entries);
	rbt_json_bool(j, "read_only", m->is_read_only);
	rbt_json_end(j, '}');
}

int policy_map_list(const struct policy_args *a)
{
	const int width = 24;
	struct session s;
	struct rbt_json j;
	int code = begin(&s, NULL);

	if (code == EXIT_OK && a->json) {
		rbt_json_init(&j, stdout);
		rbt_json_array(&j, NULL);
		for (size_t i = 0; i < s.o->n_maps; i++) {
			json_map(&j, &s.o->maps[i]);
		}
		rbt_json_end(&j, ']');
	} else if (code == EXIT_OK) {
		printf("%-*s %-8s %6s %6s %8s\n", width, "NAME", "TYPE", "KEY", "VALUE", "ENTRIES");
		for (size_t i = 0; i < s.o->n_maps; i++) {
			const struct rbt_object_map *m = &s.o->maps[i];
			const int len = (int)strlen(m->name);
			policy_put_safely(stdout, m->name, "");
			printf("%*s %-8s %6u %6u %8u\n", len < width ? width - len : 0, "",
				policy_map_type(m->type), m->key_size, m->value_size,
				m->max_entries);
		}
	}
	finish(&s);
	return code;
}

static void print_entry(struct session *s, struct rbt_json *j)
{
	if (j != NULL) {
		rbt_json_object(j, NULL);
		rbt_value_json(j, "key", s->o, s->map, RBT_VALUE_KEY, s->key);
		rbt_value_json(j, "value", s->o, s->map, RBT_VALUE_VALUE, s->value);
		rbt_json_end(j, '}');
		return;
	}
	rbt_value_print(stdout, s->o, s->map, RBT_VALUE_KEY, s->key);
	printf("  ");
	rbt_value_print(stdout, s->o, s->map, RBT_VALUE_VALUE, s->value);
	putchar('\n');
}

/* The policy goes on meanwhile: if the last key has vanished, NEXT begins anew. So no more entries
 * are printed than the map can have. */
static int dump(struct session *s, struct rbt_json *j)
{
	struct rbt_msg_result result;
	int r = 1;

	for (uint64_t n = 0; n < s->map->max_entries; n++) {
		r = send(s, RBT_POLICY_MAP_NEXT, n > 0, false, &result);
		if (r != 1) {
			break;
		}
		print_entry(s, j);
	}
	return r == 1 || (r == 0 && result.error == -ENOENT) ? EXIT_OK : map_failed(s, r, &result);
}

int policy_map_dump(const struct policy_args *a)
{
	struct session s;
	struct rbt_json j;
	int code = begin(&s, a->operands[0]);

	if (code == EXIT_OK) {
		if (a->json) {
			rbt_json_init(&j, stdout);
			rbt_json_array(&j, NULL);
		}
		code = dump(&s, a->json ? &j : NULL);
		if (a->json) {
			rbt_json_end(&j, ']');
		}
	}
	finish(&s);
	return code;
}

static int parse(
	const struct session *s, enum rbt_value_part part, const char *what, const char *text)
{
	struct rbt_why why = {""};

	if (rbt_value_parse(s->o, s->map, part, text, part == RBT_VALUE_KEY ? s->key : s->value,
		    &why) < 0) {
		rbt_error("policy: %s: %s: %s", s->map->name, what, why.text);
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

/* Sends an operation that is answered with a RESULT. */
static int change(struct session *s, enum rbt_policy_map_op op, const char *key)
{
	struct rbt_msg_result result = {0};
	int r = send(s, op, true, op == RBT_POLICY_MAP_SET, &result);

	if (r == 0 && result.error == 0) {
		return EXIT_OK;
	}
	if (r == 0 && result.error == -ENOENT) {
		rbt_error("policy: %s: there is no entry %s", s->map->name, key);
		return EXIT_FAILED;
	}
	return map_failed(s, r == 1 ? -EBADMSG : r, &result);
}

/* Fields that are not named keep their values; in a new entry they are 0. */
static int set(struct session *s, const char *key, const char *value)
{
	struct rbt_msg_result result;

	if (s->map->is_read_only) {
		rbt_error("policy: %s: it is read-only: set variables with --set when the policy "
			  "is loaded",
			s->map->name);
		return EXIT_FAILED;
	}
	int code = parse(s, RBT_VALUE_KEY, "key", key);
	if (code != EXIT_OK) {
		return code;
	}
	int r = send(s, RBT_POLICY_MAP_GET, true, false, &result);
	if (r < 0 || (r == 0 && result.error != -ENOENT)) {
		return map_failed(s, r, &result);
	}
	code = parse(s, RBT_VALUE_VALUE, "value", value);
	return code != EXIT_OK ? code : change(s, RBT_POLICY_MAP_SET, key);
}

int policy_map_set(const struct policy_args *a)
{
	struct session s;
	int code = begin(&s, a->operands[0]);

	code = code != EXIT_OK ? code : set(&s, a->operands[1], a->operands[2]);
	finish(&s);
	return code;
}

int policy_map_del(const struct policy_args *a)
{
	struct session s;
	int code = begin(&s, a->operands[0]);

	if (code == EXIT_OK && s.map->type == BPF_MAP_TYPE_ARRAY) {
		rbt_error(
			"policy: %s: an array keeps its entries: set a value instead", s.map->name);
		code = EXIT_FAILED;
	}
	code = code != EXIT_OK ? code : parse(&s, RBT_VALUE_KEY, "key", a->operands[1]);
	code = code != EXIT_OK ? code : change(&s, RBT_POLICY_MAP_DEL, a->operands[1]);
	finish(&s);
	return code;
}
