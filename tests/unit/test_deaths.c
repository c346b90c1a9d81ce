/* SPDX-License-Identifier: Apache-2.0 */
/* How many deaths of a daemon are too many, and for how long. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "util/deaths.h"
#include "util/time.h"

#define S RBT_NS_PER_S

static char dir[64];

static void begin(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/deaths", dir);
	unlink(path);
}

static void test_three_within_ten_seconds(void)
{
	begin();
	CHECK_INT(rbt_deaths_pause_end(dir, 100 * S), 0);
	rbt_deaths_note(dir, 100 * S);
	rbt_deaths_note(dir, 105 * S);
	CHECK_INT(rbt_deaths_pause_end(dir, 105 * S), 0);
	rbt_deaths_note(dir, 110 * S);
	CHECK_INT(rbt_deaths_pause_end(dir, 110 * S), 170 * S);
	CHECK_INT(rbt_deaths_pause_end(dir, 169 * S), 170 * S);
	CHECK_INT(rbt_deaths_pause_end(dir, 170 * S), 0);
	/* The one after the pause is the first of its kind. */
	rbt_deaths_note(dir, 171 * S);
	CHECK_INT(rbt_deaths_pause_end(dir, 171 * S), 0);
}

static void test_three_within_more(void)
{
	begin();
	rbt_deaths_note(dir, 100 * S);
	rbt_deaths_note(dir, 105 * S);
	rbt_deaths_note(dir, 111 * S);
	CHECK_INT(rbt_deaths_pause_end(dir, 111 * S), 0);
	rbt_deaths_note(dir, 112 * S);
	CHECK_INT(rbt_deaths_pause_end(dir, 112 * S), 172 * S);
}

/* The file outlives the machine's last boot, and may hold anything. */
static void test_other_times(void)
{
	char path[96];

	begin();
	rbt_deaths_note(dir, 5000 * S);
	rbt_deaths_note(dir, 5001 * S);
	rbt_deaths_note(dir, 5002 * S);
	CHECK_INT(rbt_deaths_pause_end(dir, 100 * S), 0);
	rbt_deaths_note(dir, 100 * S);
	CHECK_INT(rbt_deaths_pause_end(dir, 100 * S), 0);
	snprintf(path, sizeof(path), "%s/deaths", dir);
	FILE *f = fopen(path, "w");
	fputs("rubbish\n\n-7\n99999999999999999999999999999999999999999999999999999999\n", f);
	fclose(f);
	CHECK_INT(rbt_deaths_pause_end(dir, 100 * S), 0);
	unlink(path);
	CHECK_INT(mkfifo(path, 0600), 0);
	CHECK_INT(rbt_deaths_pause_end(dir, 100 * S), 0); /* and does not wait */
	CHECK(rbt_deaths_note(dir, 100 * S) < 0);
	unlink(path);
}

int main(void)
{
	strcpy(dir, "/tmp/rbt-deaths-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	test_three_within_ten_seconds();
	test_three_within_more();
	test_other_times();
	CHECK(rbt_deaths_note("/nonexistent", S) < 0);
	begin();
	rmdir(dir);
	return check_result();
}
