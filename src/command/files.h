/* files.h - reading whole documents and replacing files atomically: for the command only, the library does no I/O. */
#ifndef PALLASC_FILES_H
#define PALLASC_FILES_H

#include "src/base/base.h"

/* Reads the file, or standard input if `path` is "-", into the arena. NULL on success, else what went wrong. */
const char *file_read(Arena *a, const char *path, Source *source);
/* Writes all of `text` to standard output. NULL on success, else what went wrong. */
const char *output_write(const char *text, size_t length);
/* Replaces the file: the text goes to a new file beside it, which then takes its name, so that nobody ever sees half of
 * it. What is no regular file (/dev/null, a pipe) is written to. NULL on success, else what went wrong. */
const char *file_replace(Arena *a, const char *path, const char *text, size_t length);
/* Makes descriptors 0 to 2 refuse input or output if the caller closed them, so that no file gets their number. */
void files_guard(void);

#endif
