/* sweep_command.h - `pallasc sweep`, below the options and above the space. */
#ifndef PALLASC_SWEEP_COMMAND_H
#define PALLASC_SWEEP_COMMAND_H

#include "files.h"
#include "src/sweep/sweep.h"

typedef struct SweepOptions {
	Output *output;
	bool table;       /* the fastest, and how many are refused for which reason; else a line of JSON for each */
	uint32_t top;     /* rows of the table */
	uint32_t threads; /* 0: one for each processor */
	bool progress;    /* how far it is, on standard error */
} SweepOptions;

typedef struct SweepResult {
	const char *error;      /* of the output, which is closed then; NULL */
	const char *unfinished; /* why not all was judged: memory, threads; NULL */
	bool any_accepted;
} SweepResult;

/* Judges all that the space says, and writes what comes of it in the space's order. */
SweepResult sweep(Arena *a, const ConfigSpace *space, const CompileOptions *options, const SweepOptions *how);

#endif
