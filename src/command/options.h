/* options.h - the command line of pallasc, parsed and checked; nothing is read or written yet. */
#ifndef PALLASC_OPTIONS_H
#define PALLASC_OPTIONS_H

#include "src/driver/driver.h"

/* What to do: a compilation, or one of the options that only print. */
typedef enum Action {
	ACTION_COMPILE,
	ACTION_SWEEP,
	ACTION_HELP,
	ACTION_VERSION,
	ACTION_TARGETS,
	ACTION_TARGET,
	ACTION_PASSES,
	ACTION_REWRITES
} Action;
typedef enum ColorWhen { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } ColorWhen;

typedef struct Options {
	Action action;
	Emit emit;
	bool emit_given;
	const char *input;  /* a path; "-": standard input */
	const char *output; /* a path; "-": standard output */
	const char *target; /* a built-in name, or a path that ends in .json */
	bool target_given;
	VEC(const char *) configs;
	VEC(const char *) sets;
	ShardRequest shard;             /* --mesh, --shard, --gather, --scatter */
	VEC(const char *) debug_prints; /* names of nodes; NAME:all */
	VEC(const char *) sizes;        /* NAME=VALUE, as size_choice_read() takes them */
	VEC(SizeValues) size_lists;     /* one module of all combinations; none: of the sizes that there are */
	VEC(const char *) passes;       /* names; --passes= gives none and `passes_given` */
	bool passes_given;
	VEC(const char *) rewrites; /* names; --rewrites= gives none and `rewrites_given` */
	bool rewrites_given;
	VEC(const char *) backwards; /* paths */
	VEC(const char *) residuals, cotangents, gradients, returns, nondiff;
	const char *pair_only; /* the first option that only a pair takes; NULL */
	VEC(const Pass *) print_before, print_after;
	bool print_after_all;
	bool verify_each, explain, verbose, adapt, named_scopes;
	int64_t vmem_bytes;    /* no more of the chip's VMEM than so much; 0: all of it */
	double vmem_margin;    /* percent of it that estimates must leave free */
	const char *space;     /* the values to try: a JSON object, or the path of one; NULL */
	uint64_t sample, seed; /* configurations to judge; 0: all */
	uint32_t top, threads; /* rows of the table; 0: one for each processor */
	bool table;
	const char *sweep_only; /* the first option that only a sweep takes; NULL */
	DiagFormat diagnostics;
	ColorWhen color;
} Options;

/* NULL on success, else one line: what is wrong with the command line. */
const char *options_parse(Arena *a, int argc, char *const *argv, Options *options);
/* --help. */
const char *options_help(void);

#endif
