/* compile.c - the pipeline: verify, configure, verify what depends on sizes, passes, plan, print. */
#include "choose.h"
#include "share.h"
#include "codegen/build/build.h"
#include "codegen/core/core.h"
#include "codegen/kernel_text/kernel_text.h"
#include "codegen/page/page.h"
#include "codegen/print/print.h"
#include "codegen/report/report.h"
#include "codegen/rewrite/rewrite.h"
#include "codegen/search/search.h"
#include "src/config/config.h"
#include "src/emit/emit.h"
#include "src/load/load.h"
#include "src/verify/verify.h"

/* Kernels that may still be lowered for what compile_say_what_fits() says. */
enum { LEFT_TO_SAY = 5 };

const char *const *emit_names(void) {
	static const char *const names[] = {"python", "json",   "plan", "kernel", "operations",
	                                    "dot",    "report", "html", "none",   NULL};
	return names;
}

void compile_init(Compilation *c, const CompileOptions *options, Arena *a, Diag *d, Module *m) {
	*c = (Compilation){.options = options, .arena = a, .diag = d, .module = m, .left = MOST_LOWERINGS};
	c->context = (PassContext){.module = m, .diag = d, .arena = a, .explain = options->explain};
	m->target = options->target;
	m->explain = options->explain;
}

/* Every document and every KEY=VALUE is read although one before was refused: independent errors are all reported. */
bool compile_read_configuration(const CompileOptions *o, Module *m, Diag *d) {
	bool ok = true;
	for (uint32_t i = 0; i < o->config_count; i++)
		ok &= config_load(m, d, &o->configs[i]);
	for (uint32_t i = 0; i < o->set_count; i++)
		ok &= config_set(m, d, o->sets[i]);
	return ok;
}

/* With what only sizes can show, where that was not all shown before there were any. */
bool compile_configure(Module *m, Diag *d) {
	return module_configure(m, d) && (m->typing == TYPING_ALWAYS || module_verify(m, d));
}

/* --passes may have left out what the plan reads. */
static bool compute_facts(PassContext *c) {
	return pass_int64(c) && (c->module->loop_facts || pass_loop_types(c)) &&
	       (c->module->alignments || pass_block_constraints(c));
}

bool compile_passes(const Compilation *c, PassContext *context) {
	return pass_pipeline_run(context, c->options->passes, c->options->pass_count, NULL) && compute_facts(context);
}

/* What is compiled is one device's part: its types follow from the sizes that it has there. */
static bool shard(Compilation *c) {
	ShardRequest asked = c->options->shard;
	if (!asked.mesh && !asked.blocks && !asked.gather && !asked.scatter)
		return true;
	compile_choose_ring(c, &asked);
	if (!module_shard(c->module, c->diag, &asked) || !module_verify_symbols(c->module, c->diag))
		return false;
	for (uint32_t i = 0; i < c->module->sharding->remarks.count; i++)
		pass_remark(&c->context, "shard", "%s", c->module->sharding->remarks.at[i]);
	return true;
}

bool compile_module(Compilation *c) {
	bool typed = c->module->typing != TYPING_UNKNOWN || module_verify_symbols(c->module, c->diag);
	if (!compile_read_configuration(c->options, c->module, c->diag) || !typed || !shard(c) ||
	    !compile_debug_prints(c))
		return false;
	if (c->options->keep_read || c->debug_prints)
		c->read = module_clone(c->module, c->arena);
	if (c->options->adapt)
		compile_adapt(c);
	return compile_configured(c);
}

bool compile_configured(Compilation *c) {
	const CompileOptions *o = c->options;
	if (!compile_configure(c->module, c->diag))
		return false;
	compile_choose(c);
	if (c->known)
		return true;
	if (!c->program && c->shared) {
		bool ok = share_passes(c, &c->context);
		c->module = c->context.module;
		return ok && module_check_annotations(c->module, c->diag);
	}
	return (c->program || pass_pipeline_run(&c->context, o->passes, o->pass_count, o->hooks)) &&
	       module_check_annotations(c->module, c->diag);
}

/* ---- plan and text ---------------------------------------------------------------------------------------------- */

bool emit_needs_plan(Emit emit) { return emit != EMIT_JSON && emit != EMIT_DOT; }

bool compile_plan(Compilation *c) {
	if (c->program || c->known)
		return compile_debug_printed(c);
	if (!compute_facts(&c->context) || !module_check_annotations(c->module, c->diag))
		return false;
	c->left -= c->whole_rows ? LEFT_TO_SAY : 0;
	c->program = (c->refused ? program_frugal : program_plan)(c->arena, c->module, c->diag, &c->left);
	c->left += c->whole_rows ? LEFT_TO_SAY : 0;
	if (!c->program)
		compile_say_what_fits(c);
	return c->program && compile_debug_printed(c);
}

/* Of what its bound alone puts past the bar, the bound. */
static double cycles_of(const Program *p, double bar, Arena *a) {
	CoreTime time;
	double bound = bar > 0 ? program_bound(p, a) * (1 - 1e-9) : 0; /* sums in another order */
	if (bar > 0 && bound > bar)
		return bound;
	program_time(p, a, &time);
	return time.cycles;
}

Outcome program_outcome(const Program *p, double bar, Arena *a) {
	return (Outcome){.vmem_bytes = p->vmem_bytes,
	                 .flops = p->flops,
	                 .hbm_bytes = p->hbm_bytes,
	                 .seconds = program_seconds(p),
	                 .cycles = cycles_of(p, bar, a)};
}

bool compile_outcome(Compilation *c, Outcome *out) {
	if (!compile_configured(c) || !compile_plan(c) || c->diag->errors)
		return false;
	*out = c->known ? *c->known : program_outcome(c->program, c->bar, c->arena);
	return true;
}

KProgram *compile_kernels(Compilation *c) {
	if (c->kernels)
		return c->kernels;
	const CompileOptions *o = c->options;
	KProgram *p = program_build(c->program);
	compile_estimate(c->program, p);
	ring_ask(p);
	if (!kernels_rewrite(p, o->rewrites, o->rewrite_count, o->verify_kernels ? c->diag : NULL))
		return NULL;
	if (!ring_answered(c, p))
		return NULL;
	kernels_name(p);
	p->named_scopes = o->named_scopes;
	return c->kernels = p;
}

static bool emit_kernels(Compilation *c, Emit emit, Text *out) {
	const KProgram *p = compile_kernels(c);
	if (!p || (emit == EMIT_PYTHON && !kernels_have_python(c->diag, p)))
		return false;
	if (emit == EMIT_PYTHON)
		kernels_print_python(p, out);
	else if (emit == EMIT_OPERATIONS)
		operations_emit(p, c->module->target, out);
	else
		kernels_emit_text(p, out);
	return true;
}

static bool emit_page(Compilation *c, Text *out) {
	const KProgram *p = compile_kernels(c);
	if (!p || !kernels_have_python(c->diag, p))
		return false;
	Page page = {.program = c->program,
	             .kernels = p,
	             .before = c->read,
	             .remarks = c->context.remarks.at,
	             .remark_count = c->context.remarks.count,
	             .found = c->options->found};
	page_emit(&page, out);
	return true;
}

bool compile_emit(Compilation *c, Emit emit, Text *out) {
	switch (emit) {
	case EMIT_PYTHON:
	case EMIT_KERNEL:
	case EMIT_OPERATIONS: return emit_kernels(c, emit, out);
	case EMIT_JSON: module_emit_json(c->module, out); break;
	case EMIT_PLAN: program_emit_json(c->program, out); break;
	case EMIT_DOT: module_emit_dot(c->module, c->read, out); break;
	case EMIT_REPORT: program_emit_report(c->program, out); break;
	case EMIT_HTML: return emit_page(c, out);
	case EMIT_NONE: break;
	}
	return true;
}

/* `kernel`: whose it is, where there are several; NULL. */
static void put_remark(Text *out, const Remark *r, const char *kernel) {
	text_put(out, r->pass);
	if (kernel)
		text_printf(out, " of %s", kernel);
	text_put(out, ": ");
	text_put_printable(out, r->message);
	text_put(out, "\n");
}

void compile_explain(const Compilation *c, Text *out) {
	for (uint32_t i = 0; i < c->module->by_size.count; i++)
		put_remark(out, &(Remark){.pass = "config", .message = c->module->by_size.at[i]}, NULL);
	for (uint32_t i = 0; i < c->context.remarks.count; i++)
		put_remark(out, &c->context.remarks.at[i], NULL);
	for (uint32_t k = 0; c->program && k < c->program->kernels.count; k++) {
		const Plan *p = c->program->kernels.at[k];
		for (uint32_t i = 0; i < p->remarks.count; i++)
			put_remark(out, &p->remarks.at[i], c->program->kernels.count > 1 ? p->module->name : NULL);
	}
	for (uint32_t i = 0; c->program && i < c->program->remarks.count; i++)
		put_remark(out, &c->program->remarks.at[i], NULL);
}
