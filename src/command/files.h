/* files.h - reading whole documents and replacing files atomically: for the command only, the library does no I/O. */
#ifndef PALLASC_FILES_H
#define PALLASC_FILES_H

#include "src/base/base.h"

/* Reads the file, or standard input if `path` is "-", into the arena. NULL on success, else what went wrong. */
const char *file_read(Arena *a, const char *path, Source *source);
/* A file under construction, or standard output. What is written goes to a new file beside it, which takes its name at
 * the end, so that nobody ever sees half of it; an interrupt removes it. What is no regular file (/dev/null, a pipe) is
 * written to at once. A link stays one: the file that it names is made or replaced. */
typedef struct Output {
	int fd;
	const char *path, *temporary; /* NULL: it is written to as it is */
} Output;

/* All: NULL on success, else what went wrong; then nothing was written but to what is no regular file. `path` "-":
 * standard output. */
const char *output_open(Arena *a, const char *path, Output *out);
/* After an error the file is gone, and the output closed. */
const char *output_put(Output *out, const char *text, size_t length);
const char *output_close(Output *out);
/* Nothing was written, after all. */
void output_drop(Output *out);
/* Of an output that is given up amid anything, as when memory is short: what it has written so far is gone. */
void files_abandon(void);
/* Makes descriptors 0 to 2 refuse input or output if the caller closed them, so that no file gets their number. */
void files_guard(void);

#endif
