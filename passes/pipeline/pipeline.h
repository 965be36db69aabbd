/* pipeline.h - the passes in order, by name, and how they run.
 *
 * A pass rewrites or annotates the Module. Listed in order in passes.def; each runs alone from the command line
 * (--passes=NAME). */
#ifndef PALLASC_PIPELINE_H
#define PALLASC_PIPELINE_H

#include "passes/facts/facts.h"

typedef struct Pass {
	const char *name;
	const char *summary;         /* one line for --print-passes */
	bool (*run)(PassContext *c); /* false after diagnostics */
	bool configured;             /* needs the configuration resolved first */
} Pass;

/* All passes in pipeline order, NULL-name terminated. */
const Pass *pass_list(void);
const Pass *pass_find(const char *name);
/* The pass whose name is nearest, for "did you mean"; NULL. */
const char *pass_nearest(const char *name);

/* ---- the pipeline ------------------------------------------------------------------------------------------------ */

typedef struct PassHooks {
	/* Called around each pass, for --print-before and --print-after; either may be NULL. */
	void (*before)(void *user, const Pass *pass, const Module *m);
	void (*after)(void *user, const Pass *pass, const Module *m);
	void *user;
	bool verify_each; /* module_verify() after each pass; a violation is an error that names the pass */
} PassHooks;

/* Runs the passes called names[0..count), or all of them in order where `names` is NULL. Resolves the configuration
 * before the first pass that needs it, unless that was done. `hooks` may be NULL. Stops, false, at the first pass that
 * fails, and before running any if a name is unknown. */
bool pass_pipeline_run(PassContext *c, const char *const *names, uint32_t count, const PassHooks *hooks);

#endif
