/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of Chrome trace events: a JSON array that is complete after each write, so that the file
 * can be opened while the trace goes on, and whatever ends it.
 */
#ifndef RBT_CLI_TRACE_FILE_H
#define RBT_CLI_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct trace_file {
	int fd;
	/* A regular file: each write replaces the end of the array. Elsewhere, as in a pipe, the
	 * end is written once, by trace_file_close(). */
	bool is_regular;
	bool has_events;
	off_t end; /* where the end of the array begins */
};

/* Creates or overwrites the file. 0 or -errno. */
int trace_file_open(struct trace_file *f, const char *path);
/*
 * Appends events, which are JSON objects with a comma before each, the first of all included.
 * Returns 0 or -errno. After a failure a regular file has the events of earlier calls, and the end
 * of the array.
 */
int trace_file_append(struct trace_file *f, const char *events, size_t size);
/* Returns 0 or -errno. Accepts a file that was not opened (fd -1). */
int trace_file_close(struct trace_file *f);

#endif
