/* pass.c - the list of passes and the pipeline that runs them. */
#include "pipeline.h"
#include "passes/broadcast/broadcast.h"
#include "passes/decompose/decompose.h"
#include "passes/layout/layout.h"
#include "passes/loops/loops.h"
#include "passes/rows/rows.h"
#include "passes/simplify/simplify.h"
#include "src/config/config.h"
#include "src/verify/verify.h"

static const Pass passes[] = {
#define PASS(name, summary, configured) {#name, summary, pass_##name, configured},
#include "passes.def"
#undef PASS
	{NULL, NULL, NULL, false}};

enum { PASS_COUNT = sizeof passes / sizeof *passes - 1 };

static const char *const pass_names[] = {
#define PASS(name, summary, configured) #name,
#include "passes.def"
#undef PASS
	NULL};

const Pass *pass_list(void) { return passes; }

const Pass *pass_find(const char *name) {
	for (const Pass *p = passes; p->name; p++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

const char *pass_nearest(const char *name) { return name_nearest(name, pass_names); }

/* ---- the pipeline ------------------------------------------------------------------------------------------------ */

static bool verify_after(PassContext *c, const Pass *pass) {
	if (module_verify(c->module, c->diag))
		return true;
	diag_error(c->diag, (Place){.source = c->module->source}, "pass-broke-module",
	           "this is a bug in pallasc: report it", "the graph is not valid after pass '%s'", pass->name);
	return false;
}

static bool pass_run(PassContext *c, const Pass *pass, const PassHooks *hooks) {
	if (pass->configured && !c->module->configured && !module_configure(c->module, c->diag))
		return false;
	if (hooks && hooks->before)
		hooks->before(hooks->user, pass, c->module);
	if (!pass->run(c) || (hooks && hooks->verify_each && !verify_after(c, pass)))
		return false;
	if (hooks && hooks->after)
		hooks->after(hooks->user, pass, c->module);
	return true;
}

static bool names_known(PassContext *c, const char *const *names, uint32_t count) {
	bool known = true;
	for (uint32_t i = 0; i < count; i++) {
		if (pass_find(names[i]))
			continue;
		const char *near = pass_nearest(names[i]);
		diag_error(c->diag, (Place){0}, "unknown-pass",
		           near ? arena_printf(c->arena, "did you mean '%s'?", near) : "--print-passes lists them",
		           "there is no pass '%s'", names[i]);
		known = false;
	}
	return known;
}

bool pass_pipeline_run(PassContext *c, const char *const *names, uint32_t count, const PassHooks *hooks) {
	if (names && !names_known(c, names, count))
		return false;
	for (uint32_t i = 0; i < (names ? count : PASS_COUNT); i++)
		if (!pass_run(c, names ? pass_find(names[i]) : &passes[i], hooks))
			return false;
	return true;
}
