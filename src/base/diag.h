/* diag.h - every error, warning and note a user sees, and where it points.
 *
 * A diagnostic names its place by JSON pointer (RFC 6901) into one Source; line and column are found from the pointer
 * when it is printed, by walking the text, so that a compilation that succeeds pays nothing for them. */
#ifndef PALLASC_DIAG_H
#define PALLASC_DIAG_H

#include "base.h"
#include <stdio.h>

/* A document that the user gave: a graph, a configuration, a target. */
typedef struct Source {
	const char *name; /* as the user wrote it; "<stdin>" for standard input; "<command line>" for --set */
	const char *text; /* NUL-terminated at `length` */
	size_t length;
} Source;

typedef enum { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE } Severity;

typedef struct Diagnostic {
	Severity severity;
	const char *code;     /* stable, kebab-case: "unknown-target"; listed in docs/diagnostics.md */
	const Source *source; /* may be NULL: no place */
	const char *pointer;  /* JSON pointer into source; NULL: use line and column as they are */
	int line, column;     /* 1-based; 0: none. For syntax errors, from the JSON parser */
	const char *message;  /* one line: what is wrong, naming the thing */
	const char *hint;     /* one line: what to do; NULL where the message says it all */
	bool at_key;          /* points at the member's name rather than at its value */
} Diagnostic;

enum {
	DIAG_ERROR_LIMIT = 20, /* further errors are counted, not kept */
	DIAG_OTHER_LIMIT = 50  /* further warnings and notes are dropped */
};

typedef struct Diag {
	Arena *arena;
	VEC(Diagnostic) list;
	uint32_t errors; /* all of them, also those past the limit */
	uint32_t others; /* warnings and notes */
} Diag;

void diag_init(Diag *d, Arena *a);

/* Where a diagnostic points. Made by the helpers below, passed by value. */
typedef struct Place {
	const Source *source;
	const char *pointer;
	int line, column;
	bool at_key; /* the member's name, not its value */
} Place;

/* A place `pointer_fmt...` (a JSON pointer, printf-formatted) in `source`. */
Place diag_place(Diag *d, const Source *source, const char *pointer_fmt, ...) PRINTF_LIKE(3, 4);

/* One member's name as a token of a JSON pointer: ~ and / are escaped. */
const char *diag_pointer_token(Diag *d, const char *key);
/* A place by byte offset: for what is no valid JSON. */
Place diag_place_offset(const Source *source, size_t offset);

/* Adds a diagnostic. `hint` may be NULL; it is copied. */
void diag_error(Diag *d, Place at, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);
void diag_warning(Diag *d, Place at, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);
void diag_note(Diag *d, Place at, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);

typedef enum { DIAG_TEXT, DIAG_JSON } DiagFormat;
/* Prints all in order: text as `file:line:col: error: message [code]`, the offending line and a caret, then
 * `hint: ...`; JSON as one object per line. `color`: ANSI colours in the text form. */
void diag_print(const Diag *d, FILE *out, DiagFormat format, bool color);

/* Line and column (1-based, column in bytes) of the value at `pointer` in valid JSON text; false if there is none. */
bool diag_locate(const Source *source, const char *pointer, int *line, int *column);
/* The byte offset of the value (or of its name) at `pointer`, or of the deepest part of `pointer` that exists: then
 * false. Linear in the text, no recursion. In locate.c. */
bool diag_offset(const Source *source, const char *pointer, bool key, size_t *offset);

#endif
