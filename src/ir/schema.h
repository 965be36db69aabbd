/* schema.h - the parameters of an op, read from its row's `params` string ("self:x other:x alpha:n=1"; the letters are
 * explained at the head of ops.def). */
#ifndef PALLASC_SCHEMA_H
#define PALLASC_SCHEMA_H

#include "src/ops/ops.h"

enum { PARAM_LIST_MAX = 4 };

typedef struct Param {
	const char *name;
	char letter;
	bool nullable; /* `?` after the letter: null is allowed */
	bool has_default;
	Arg value; /* the default; an ARG_LIST's items are below, and its `first` means nothing */
	int64_t items[PARAM_LIST_MAX];
} Param;

typedef struct Schema {
	const Param *params;
	uint32_t count, required; /* all, and those without a default */
	uint32_t positional;      /* the first so many; the others are given by name */
} Schema;

/* Reads a `params` string; rows are trusted (ops.def is ours), so there are no diagnostics. Strings go to the arena. */
Schema schema_parse(Arena *a, const char *params);
/* The default of a parameter as an argument of this Module. */
Arg schema_default(Module *m, const Param *p);
/* Is the argument just the parameter's default? */
bool schema_is_default(const Module *m, const Param *p, const Arg *value);
/* The index of the parameter called `name`; NONE. */
uint32_t schema_find(const Schema *s, const char *name);
/* What a parameter's letter admits, for messages: "a list of ints". */
const char *schema_expects(char letter);

#endif
