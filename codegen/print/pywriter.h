/* pywriter.h - writes Python statements the way `ruff format` leaves them (88 columns, 4 spaces). */
#ifndef PALLASC_PYWRITER_H
#define PALLASC_PYWRITER_H

#include "src/base/base.h"

enum { PY_WIDTH = 88 };

/* Something in a statement that layout looks at, and how many of some kinds stand up to it, itself included. */
typedef struct PyMark {
	uint32_t at, partner; /* brackets: the mark of the other one */
	uint8_t kind, level;  /* an operator: how tightly it binds */
	uint32_t magic, opaque, attributes;
} PyMark;

/* Bytes of the text that are about something. */
typedef struct PyLink {
	size_t from, to;
	const void *about;
} PyLink;
typedef VEC(PyLink) PyLinks;

typedef struct PyWriter {
	Arena *arena;
	Text *out;
	int indent;              /* levels */
	Text line;               /* the statement that is put together */
	VEC(PyMark) marks;       /* of the statement that is laid out */
	PyLinks *links;          /* gets what the text is about; NULL: nobody asks */
	VEC(const void *) about; /* what the next statement is */
} PyWriter;

/* One statement on one line, or broken at its last brackets if it is too long; a bracket whose content ends with a
 * comma is broken in any case. */
void py_line(PyWriter *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same for a statement that is put together piece by piece: an empty text, and what is done with it when it is
 * whole. Comments may be written in between, but no statements. */
Text *py_open(PyWriter *w);
void py_close(PyWriter *w);
void py_statement(PyWriter *w, const char *text);
/* `target = yes if flag else no`. */
void py_choice(PyWriter *w, const char *target, const char *yes, const char *flag, const char *no);
/* The blank line that stands before a nested function, its decorators and its comment, unless it opens a block. */
void py_def(PyWriter *w);
void py_blank(PyWriter *w);
/* For who asks: the next statement is about this, too; what was written from byte `from` on is. NULL is about nothing.
 */
static inline void py_about(PyWriter *w, const void *about) {
	if (w->links && about)
		vec_push(w->arena, &w->about, about);
}
void py_link(PyWriter *w, size_t from, const void *about);
/* A comment of text from a graph: whatever it holds, it stays one comment line of at most PY_WIDTH columns. */
void py_comment(PyWriter *w, const char *text);

/* `s` as a Python string literal in double quotes, ASCII only. */
void py_put_string(Text *out, const char *s);
/* A Python float literal: shortest digits, `jnp.inf`, `-jnp.inf`, `jnp.nan`. */
void py_put_float(Text *out, double x);

#endif
