/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a profile. The file is not trusted: it is read as a whole, then taken apart in place. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "orion/profile.h"

#define MAX_FIELDS 256 /* of a line; names of C++ may have commas without quotes */

/* clang-format off */
enum column { NAME, PROFILE, MEMORY, SMS, DURATION, ORIONS,
	GRID = ORIONS, BLOCK, SHARED, RUNS, TOTAL, P50, P99, MAX, N_COLUMNS };
/* clang-format on */
static const char *const columns[N_COLUMNS] = {"Name", "Profile", "Memory_footprint", "SM_usage",
	"Duration", "Grid_size", "Block_size", "Shared", "Runs", "Total", "P50", "P99", "Max"};

struct field {
	char *text;
	bool is_quoted;
};

struct reader {
	struct rbt_profile *profile;
	struct rbt_profile_fault *fault;
	unsigned line;
	size_t n_columns;
	int where[N_COLUMNS]; /* the field that has the column; -1: none has */
	struct field fields[MAX_FIELDS];
	size_t n_fields;
};

__attribute__((format(printf, 3, 4))) static int wrong(
	struct reader *r, const char *field, const char *fmt, ...)
{
	va_list ap;

	r->fault->line = r->line;
	snprintf(r->fault->field, sizeof(r->fault->field), "%s", field);
	va_start(ap, fmt);
	vsnprintf(r->fault->text, sizeof(r->fault->text), fmt, ap);
	va_end(ap);
	/* The text may quote the file, and goes to terminals. */
	for (char *s = r->fault->text; *s != '\0'; s++) {
		if (*s < ' ' || *s > '~') {
			*s = '?';
		}
	}
	return -EBADMSG;
}

/* Takes the quotes off the field at `s`; its end (a comma or the line's) or NULL. */
static char *unquote(char *s, struct field *ret)
{
	char *to = s;

	*ret = (struct field){.text = s, .is_quoted = true};
	for (s++;; s++) {
		if (s[0] == '"' && s[1] == '"') {
			s++;
		} else if (s[0] == '"') {
			break;
		}
		if (*s == '\0') {
			return NULL;
		}
		*to++ = *s;
	}
	s++;
	if (*s != ',' && *s != '\0') {
		return NULL;
	}
	/* The text has become shorter by a quote at least, so this is no part of it. */
	*to = '\0';
	return s;
}

static int split(struct reader *r, char *s)
{
	for (r->n_fields = 0;; s++) {
		if (r->n_fields == MAX_FIELDS) {
			return wrong(r, "", "has more than %d fields", MAX_FIELDS);
		}
		struct field *f = &r->fields[r->n_fields++];
		if (*s == '"') {
			s = unquote(s, f);
			if (s == NULL) {
				return wrong(
					r, "", "field %zu has an unfinished quote", r->n_fields);
			}
		} else {
			*f = (struct field){.text = s};
			s += strcspn(s, ",");
		}
		if (*s == '\0') {
			return 0;
		}
		*s = '\0';
	}
}

static int read_header(struct reader *r, char *line)
{
	int error = split(r, line);

	if (error < 0) {
		return error;
	}
	for (int c = 0; c < N_COLUMNS; c++) {
		r->where[c] = -1;
	}
	for (size_t i = 0; i < r->n_fields; i++) {
		for (int c = 0; c < N_COLUMNS; c++) {
			if (strcmp(r->fields[i].text, columns[c]) != 0) {
				continue;
			}
			if (r->where[c] >= 0) {
				return wrong(r, columns[c], "is there twice");
			}
			r->where[c] = (int)i;
		}
	}
	for (int c = 0; c < ORIONS; c++) {
		if (r->where[c] != c) {
			return wrong(r, columns[c], "column %d of the first line must be %s", c + 1,
				columns[c]);
		}
	}
	r->n_columns = r->n_fields;
	return 0;
}

/* A name without quotes may have commas, in files that have no columns but Orion's: then it is all
 * but the last four fields. */
static int join_name(struct reader *r)
{
	size_t surplus = r->n_fields - r->n_columns;

	for (size_t i = 0; i <= surplus; i++) {
		if (r->n_columns != ORIONS || r->fields[i].is_quoted) {
			return wrong(r, "", "has %zu fields, and the first line has %zu",
				r->n_fields, r->n_columns);
		}
	}
	for (size_t i = 1; i <= surplus; i++) {
		r->fields[i].text[-1] = ',';
	}
	memmove(&r->fields[1], &r->fields[1 + surplus], (ORIONS - 1) * sizeof(r->fields[0]));
	r->n_fields = ORIONS;
	return 0;
}

/* The field's text without spaces around it, or NULL if the field is missing or empty. */
static char *text_of(struct reader *r, enum column c)
{
	if (r->where[c] < 0) {
		return NULL;
	}
	char *s = r->fields[r->where[c]].text;
	s += strspn(s, " ");
	size_t n = strlen(s);
	while (n > 0 && s[n - 1] == ' ') {
		s[--n] = '\0';
	}
	return n > 0 ? s : NULL;
}

/* Digits from `s` on: where they end, or NULL if there are none or too many. */
static const char *take_digits(const char *s, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (*s < '0' || *s > '9') {
		return NULL;
	}
	for (; *s >= '0' && *s <= '9'; s++) {
		unsigned digit = (unsigned)(*s - '0');
		if (value > (max - digit) / 10) {
			return NULL;
		}
		value = value * 10 + digit;
	}
	*ret = value;
	return s;
}

/* A number up to max; decimals, which Orion's scripts may write, are dropped. */
static int read_number(struct reader *r, enum column c, uint64_t max, uint64_t *ret)
{
	const char *text = text_of(r, c);

	*ret = 0;
	if (text == NULL) {
		return 0;
	}
	const char *end = take_digits(text, max, ret);
	if (end != NULL && *end == '.') {
		end++;
		end += strspn(end, "0123456789");
	}
	return end != NULL && *end == '\0'
		       ? 0
		       : wrong(r, columns[c], "'%.24s' is no number from 0 to %" PRIu64, text, max);
}

static int read_kind(struct reader *r, enum rbt_kernel_kind *ret)
{
	const char *text = text_of(r, PROFILE);
	char *end;

	*ret = RBT_KERNEL_UNKNOWN;
	if (text == NULL) {
		return 0;
	}
	/* Tools that keep numbers as floats write 1.0. */
	long value = strtol(text, &end, 10);
	if (*end == '.') {
		end += 1 + strspn(end + 1, "0");
	}
	if (end == text || *end != '\0' || value < -1 || value > 1) {
		return wrong(r, columns[PROFILE],
			"'%.24s' is neither 1 (compute-bound), 0 (memory-bound) nor -1", text);
	}
	*ret = value == 1   ? RBT_KERNEL_COMPUTE
	       : value == 0 ? RBT_KERNEL_MEMORY
			    : RBT_KERNEL_UNKNOWN;
	return 0;
}

static int read_dims(struct reader *r, enum column c, uint32_t ret[3])
{
	const char *text = text_of(r, c), *s = text;

	for (int i = 0; i < 3; i++) {
		uint64_t value = 0;
		s = take_digits(s, UINT32_MAX, &value);
		if (s == NULL || *s != (i < 2 ? 'x' : '\0')) {
			return wrong(r, columns[c], "'%.24s' is not of the form 128x1x1", text);
		}
		s++;
		ret[i] = (uint32_t)value;
	}
	return 0;
}

static int read_shape(struct reader *r, struct rbt_profile_row *row)
{
	uint64_t shared;
	int n = 0, error;

	for (int c = GRID; c <= SHARED; c++) {
		n += text_of(r, (enum column)c) != NULL;
	}
	if (n == 0) {
		return 0;
	}
	for (int c = GRID; c <= SHARED; c++) {
		if (text_of(r, (enum column)c) == NULL) {
			return wrong(r, columns[c], "is missing, and a shape needs it");
		}
	}
	error = read_dims(r, GRID, row->shape.grid);
	if (error == 0) {
		error = read_dims(r, BLOCK, row->shape.block);
	}
	if (error == 0) {
		error = read_number(r, SHARED, UINT32_MAX, &shared);
	}
	if (error == 0) {
		row->shape.shared = (uint32_t)shared;
		row->has_shape = true;
	}
	return error;
}

static int add_row(struct reader *r, const struct rbt_profile_row *row)
{
	int error = r->n_columns == ORIONS ? rbt_profile_merge(r->profile, row)
					   : rbt_profile_add(r->profile, row);

	switch (error) {
	case -EINVAL:
		return wrong(r, columns[NAME],
			row->name[0] == '\0' ? "is empty"
					     : "is too long, or has control characters");
	case -E2BIG:
		wrong(r, "", "is one too many: a profile has up to %u rows", RBT_PROFILE_MAX_ROWS);
		return error;
	case -ENOMEM:
		wrong(r, "", "there is no memory for it");
		return error;
	default:
		return error;
	}
}

static int read_row(struct reader *r, char *line)
{
	struct rbt_profile_row row = {0};
	struct {
		enum column column;
		uint64_t *to;
	} numbers[] = {
		{MEMORY, &row.memory_bytes},
		{DURATION, &row.facts.duration_ns},
		{RUNS, &row.runs},
		{TOTAL, &row.total_ns},
		{P50, &row.p50_ns},
		{P99, &row.p99_ns},
		{MAX, &row.max_ns},
	};
	uint64_t sms;
	int error = split(r, line);

	if (error == 0 && r->n_fields > r->n_columns) {
		error = join_name(r);
	}
	if (error == 0 && r->n_fields < r->n_columns) {
		error = wrong(r, "", "has %zu fields, and the first line has %zu", r->n_fields,
			r->n_columns);
	}
	if (error == 0) {
		row.name = r->fields[NAME].text;
		error = read_kind(r, &row.facts.kind);
	}
	if (error == 0) {
		error = read_number(r, SMS, UINT32_MAX, &sms);
	}
	for (size_t i = 0; error == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		error = read_number(r, numbers[i].column, UINT64_MAX, numbers[i].to);
	}
	if (error == 0) {
		row.facts.sms = (uint32_t)sms;
		error = read_shape(r, &row);
	}
	return error == 0 ? add_row(r, &row) : error;
}

/* `text` is terminated by a zero, and has no other. */
static int read_text(struct reader *r, char *text)
{
	static const char mark[] = "\xef\xbb\xbf"; /* some tools begin a file with it */
	int error = 0;

	if (strncmp(text, mark, sizeof(mark) - 1) == 0) {
		text += sizeof(mark) - 1;
	}
	for (char *next; error == 0 && *text != '\0'; text = next) {
		size_t n = strcspn(text, "\n");

		next = text + n + (text[n] == '\n');
		n -= n > 0 && text[n - 1] == '\r';
		text[n] = '\0';
		r->line++;
		if (n > 0) {
			error = r->n_columns == 0 ? read_header(r, text) : read_row(r, text);
		}
	}
	if (error == 0 && r->n_columns == 0) {
		r->line = 0;
		error = wrong(r, "", "it is empty");
	}
	return error;
}

/* Reads all of the file into *ret, with a zero behind it. The caller frees it. */
static int read_file(struct reader *r, FILE *f, char **ret)
{
	size_t n = 0, room = 0;
	char *text = NULL;

	for (;;) {
		if (n + 1 >= room) {
			room = room > 0 ? room * 2 : 65536;
			char *more = realloc(text, room);
			if (more == NULL) {
				free(text);
				wrong(r, "", "there is no memory for it");
				return -ENOMEM;
			}
			text = more;
		}
		errno = 0;
		size_t got = fread(text + n, 1, room - 1 - n, f);
		int error = errno;
		n += got;
		if (n > RBT_PROFILE_MAX_BYTES) {
			free(text);
			wrong(r, "", "it is larger than %u MiB", RBT_PROFILE_MAX_BYTES >> 20);
			return -EFBIG;
		}
		if (got == 0 && ferror(f)) {
			free(text);
			wrong(r, "", "it cannot be read: %s", strerror(error));
			return error > 0 ? -error : -EIO;
		}
		if (got == 0) {
			break;
		}
	}
	text[n] = '\0';
	if (strlen(text) < n) {
		free(text);
		return wrong(r, "", "it has zero bytes, so it is no text");
	}
	*ret = text;
	return 0;
}

int rbt_profile_read(FILE *f, struct rbt_profile **ret, struct rbt_profile_fault *ret_fault)
{
	struct reader r = {.fault = ret_fault, .profile = rbt_profile_create()};
	char *text = NULL;

	if (r.profile == NULL) {
		wrong(&r, "", "there is no memory for it");
		return -ENOMEM;
	}
	int error = read_file(&r, f, &text);
	if (text != NULL) {
		error = read_text(&r, text);
		free(text);
	}
	if (error < 0) {
		rbt_profile_destroy(r.profile);
		return error;
	}
	*ret = r.profile;
	return 0;
}
