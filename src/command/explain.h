/* explain.h - `pallasc explain CODE`: what a diagnostic means and what to do. */
#ifndef PALLASC_EXPLAIN_H
#define PALLASC_EXPLAIN_H

#include "src/base/base.h"

/* Writes the section of a code of docs/diagnostics.md; `code` NULL: all codes, a line each. NULL on success, else what
 * is wrong: there is no such code, and which is near. */
const char *explain_put(Arena *a, const char *code, Text *out);

#endif
