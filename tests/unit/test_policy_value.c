/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of a compiled policy's maps: as text, as JSON, and from text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "policy/value.h"
#include "test_policy_world.h"

static struct rbt_object *o;
static unsigned char data[4096];
static struct rbt_why why;

static const struct rbt_object_map *map(const char *name)
{
	int i = rbt_object_find_map(o, name);

	if (i < 0) {
		fprintf(stderr, "no map %s\n", name);
		exit(1);
	}
	return &o->maps[i];
}

static char *print(const struct rbt_object_map *m, enum rbt_value_part part, bool is_json)
{
	static char text[16384];
	FILE *out = fmemopen(text, sizeof(text), "w");
	struct rbt_json j;

	if (is_json) {
		rbt_json_init(&j, out);
		j.one_line = true;
		rbt_value_json(&j, NULL, o, m, part, data);
	} else {
		rbt_value_print(out, o, m, part, data);
	}
	fclose(out);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static int parse(const char *name, enum rbt_value_part part, const char *text)
{
	int r = rbt_value_parse(o, map(name), part, text, data, &why);

	CHECK((r == 0) == (why.text[0] == '\0'));
	return r;
}

#define CHECK_TEXT(got, want)                                                                      \
	do {                                                                                       \
		const char *got_ = (got);                                                          \
		if (strcmp(got_, want) != 0) {                                                     \
			fprintf(stderr, "got  %s\nwant %s\n", got_, want);                         \
			CHECK(false);                                                              \
		}                                                                                  \
	} while (0)

#define ENTRY_TEXT                                                                                 \
	"n=18446744073709551615,small=-3,is_on=true,bytes=[1,2,255],kind=SERVER,comm=\"a \\\"b\"," \
	"at={x=1,y=-2},path=[{x=3,y=4},{x=5,y=6}],low=5,high=100,middle=-16,word=65537,half=1,"    \
	"inside=9,pointer=hex:0100000000000000"

static void test_struct(void)
{
	const struct rbt_object_map *m = map("entries");
	unsigned char before[sizeof(data)];

	memset(data, 0, sizeof(data));
	CHECK_INT(parse("entries", RBT_VALUE_VALUE, ENTRY_TEXT), 0);
	CHECK_TEXT(print(m, RBT_VALUE_VALUE, false), ENTRY_TEXT);
	CHECK_TEXT(print(m, RBT_VALUE_VALUE, true),
		"{\"n\": 18446744073709551615,\"small\": -3,\"is_on\": true,\"bytes\": [1,2,255],"
		"\"kind\": \"SERVER\",\"comm\": \"a \\\"b\",\"at\": {\"x\": 1,\"y\": -2},"
		"\"path\": [{\"x\": 3,\"y\": 4},{\"x\": 5,\"y\": 6}],\"low\": 5,\"high\": 100,"
		"\"middle\": -16,\"word\": 65537,\"half\": 1,\"inside\": 9,"
		"\"pointer\": \"hex:0100000000000000\"}");
	/* Fields that are not named stay as they are. */
	memcpy(before, data, sizeof(data));
	CHECK_INT(parse("entries", RBT_VALUE_VALUE, "{n=5,at={y=7},path=[{x=8}],comm=py}"), 0);
	CHECK(strstr(print(m, RBT_VALUE_VALUE, false), "at={x=1,y=7},path=[{x=8,y=4},{x=5,y=6}]"));
	CHECK(strstr(print(m, RBT_VALUE_VALUE, false), "comm=\"py\""));
	CHECK(memcmp(before + m->value_size, data + m->value_size, sizeof(data) - m->value_size) ==
		0);
	CHECK_INT(parse("entries", RBT_VALUE_KEY, "x=-1,y=0x10"), 0);
	CHECK_TEXT(print(m, RBT_VALUE_KEY, false), "x=-1,y=16");
	CHECK_INT(parse("entries", RBT_VALUE_KEY, "hex:0100000002000000"), 0);
	CHECK_TEXT(print(m, RBT_VALUE_KEY, false), "x=1,y=2");
	/* A char that cannot be printed, and one behind the end of the string. */
	memset(data, 0, sizeof(data));
	data[strlen("12345678") + 2 + 1 + 3 + 2 + 4] = 7;
	CHECK(strstr(print(m, RBT_VALUE_VALUE, false), "comm=[7,0,0,0,0,0,0,0]"));
}

static void test_numbers(void)
{
	memset(data, 0, sizeof(data));
	CHECK_INT(parse("kinds", RBT_VALUE_KEY, "4294967295"), 0);
	CHECK_TEXT(print(map("kinds"), RBT_VALUE_KEY, false), "4294967295");
	CHECK_INT(parse("kinds", RBT_VALUE_VALUE, "SERVER"), 0);
	CHECK_TEXT(print(map("kinds"), RBT_VALUE_VALUE, true), "\"SERVER\"");
	CHECK_INT(parse("kinds", RBT_VALUE_VALUE, "77"), 0);
	CHECK_TEXT(print(map("kinds"), RBT_VALUE_VALUE, true), "77");
	CHECK_INT(parse("kinds", RBT_VALUE_KEY, "4294967296"), -ERANGE);
	CHECK_INT(parse("kinds", RBT_VALUE_KEY, "-1"), -ERANGE);
	CHECK_INT(parse("kinds", RBT_VALUE_KEY, "x"), -EINVAL);
	CHECK_INT(parse("kinds", RBT_VALUE_KEY, ""), -EINVAL);
	CHECK_INT(parse("kinds", RBT_VALUE_KEY, "1,2"), -EINVAL);
	CHECK_INT(parse("kinds", RBT_VALUE_VALUE, "BUSY"), -EINVAL);
}

static void test_untyped(void)
{
	memset(data, 0, sizeof(data));
	CHECK_INT(parse("untyped", RBT_VALUE_KEY, "1"), 0);
	CHECK_TEXT(print(map("untyped"), RBT_VALUE_KEY, false), "1");
	CHECK_INT(parse("untyped", RBT_VALUE_KEY, "hex:02000000"), 0);
	CHECK_TEXT(print(map("untyped"), RBT_VALUE_KEY, true), "2");
	CHECK_INT(parse("untyped", RBT_VALUE_VALUE, "1"), -EINVAL);
	CHECK(strstr(why.text, "6 bytes"));
	CHECK_INT(parse("untyped", RBT_VALUE_VALUE, "hex:0aFF00000001"), 0);
	CHECK_TEXT(print(map("untyped"), RBT_VALUE_VALUE, true), "\"hex:0aff00000001\"");
	CHECK_INT(parse("untyped", RBT_VALUE_VALUE, "hex:0aFF000000"), -EINVAL);
	CHECK_INT(parse("untyped", RBT_VALUE_VALUE, "hex:0aFF0000000102"), -EINVAL);
	CHECK_INT(parse("untyped", RBT_VALUE_VALUE, "hex:0aFF0000000"), -EINVAL);
}

static void test_variables(void)
{
	const struct rbt_object_map *m = map(".data");

	memcpy(data, m->initial, m->value_size);
	char *text = print(m, RBT_VALUE_VALUE, false);
	CHECK(strstr(text, "last=TRAINER") && strstr(text, "here={x=1,y=-1}"));
	CHECK_INT(parse(".data", RBT_VALUE_VALUE, "here={x=5},last=IDLE"), 0);
	text = print(m, RBT_VALUE_VALUE, true);
	CHECK(strstr(text, "\"last\": \"IDLE\"") && strstr(text, "\"here\": {\"x\": 5,\"y\": -1}"));
	CHECK_INT(parse(".data", RBT_VALUE_VALUE, "n_calls=5"), -EINVAL);
	CHECK(strstr(why.text, "n_calls: there is no variable"));
	memset(data, 0, sizeof(data));
	CHECK_INT(parse(".bss", RBT_VALUE_VALUE, "n_calls=5"), 0);
	CHECK(strstr(print(map(".bss"), RBT_VALUE_VALUE, false), "n_calls=5"));
	memcpy(data, map(".rodata")->initial, map(".rodata")->value_size);
	CHECK(strstr(print(map(".rodata"), RBT_VALUE_VALUE, false), "limit=7"));
}

static void test_refusals(void)
{
	static const struct {
		const char *text, *says;
	} wrong[] = {
		{"", "missing"},
		{"n", "not of the form"},
		{"n=", "missing"},
		{"none=1", "none: there is no field"},
		{"n=1,", "missing"},
		{"{n=1", "no end"},
		{"n=1}", "behind the value"},
		{"n=18446744073709551616", "does not fit"},
		{"n=1 ", "not a number"},
		{"small=32768", "does not fit: the signed number has 16 bits"},
		{"low=8", "does not fit: the number has 3 bits"},
		{"middle=16", "does not fit: the signed number has 5 bits"},
		{"is_on=2", "does not fit"},
		{"bytes=1", "an array is written as"},
		{"bytes=[1,2,3,4]", "the array has 3"},
		{"bytes=[1,2", "no end"},
		{"comm=\"12345678", "no end"},
		{"comm=123456789", "room for 8"},
		{"at=1", "a struct inside another value"},
		{"at={z=1}", "z: there is no field"},
		{"pointer=1", "hex:"},
		{"kind=NONE", "not a number or enumerator"},
		{"hex:00", "bytes"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int r = parse("entries", RBT_VALUE_VALUE, wrong[i].text);
		if (r == 0 || strstr(why.text, wrong[i].says) == NULL) {
			fprintf(stderr, "%s: %d %s\n", wrong[i].text, r, why.text);
			CHECK(false);
		}
	}
}

int main(int argc, char **argv)
{
	size_t size;

	if (argc < 2) {
		fprintf(stderr, "usage: test_policy_value FOLDER\n");
		return 2;
	}
	unsigned char *bytes = world_read_file(argv[1], "values", &size);
	if (rbt_object_open(bytes, size, &o, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	free(bytes);
	test_struct();
	test_numbers();
	test_untyped();
	test_variables();
	test_refusals();
	rbt_object_close(o);
	return check_result();
}
