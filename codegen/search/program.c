/* program.c - the kernels of a document: one for each root graph, in document order. Each is planned as if it were
 * alone; what an earlier root stored is given to a later one (src/ir/ir_root.c). XLA runs them one after the other, so
 * the program needs the VMEM of the largest. */
#include "search.h"
#include "codegen/kernel/kernel.h"
#include <math.h>

/* ---- results ---------------------------------------------------------------------------------------------------- */

static bool is_returned(const Module *m, TensorId base) {
	for (uint32_t r = 0; r < m->returns.count; r++)
		if (tensor_base(m, m->returns.at[r].tensor) == base)
			return true;
	return false;
}

static bool outputs_stored(Module *m, Diag *d) {
	bool ok = true;
	for (TensorId t = 0; t < m->tensors.count; t++) {
		const Tensor *tensor = &m->tensors.at[t];
		if (tensor->role != ROLE_OUTPUT || tensor->has_init || !is_returned(m, t) || tensor_is_written(m, t))
			continue;
		diag_error(d, tensor_place(m, d, t), "output-not-stored",
		           "store it, give it an initial value, or drop it from returns",
		           "output tensor %s is returned but never stored", tensor->name);
		ok = false;
	}
	return ok;
}

/* ---- HBM -------------------------------------------------------------------------------------------------------- */

/* A buffer of its own: of no other operand's array, nor of one before in the same shape. */
static bool has_own_array(const Plan *p, uint32_t o) {
	const Operand *x = &p->operands.at[o];
	for (uint32_t i = 0; i < o; i++) {
		const Operand *y = &p->operands.at[i];
		if (y->tensor == x->tensor && kernel_same_shape(y->rank, y->shape, x->rank, x->shape))
			return false;
	}
	return x->tensor != NONE && x->alias_of == NONE;
}

static int64_t viewed_bytes(const Plan *p, const Operand *o) {
	return hbm_array_bytes(p->module->target, o->dtype, o->rank, o->shape);
}

static int64_t callers_bytes(const Plan *p, const Operand *o) {
	const Module *m = p->module;
	const Tensor *t = &m->tensors.at[o->tensor];
	int64_t shape[RANK_MAX];
	for (uint32_t i = 0; i < t->rank; i++)
		shape[i] = expr_number(m, t->shape[i]);
	return hbm_array_bytes(m->target, o->dtype, t->rank, shape);
}

static bool is_padded_view(const Plan *p, const Operand *o) {
	return o->tensor != NONE && o->steps.count && callers_bytes(p, o) < viewed_bytes(p, o);
}

/* Operand `o` is a padded copy of the caller's array, which no operand before it was, and none takes as it is. */
static bool leaves_callers(const Plan *p, uint32_t o) {
	for (uint32_t i = 0; i < p->operands.count; i++) {
		const Operand *x = &p->operands.at[i];
		if (x->tensor == p->operands.at[o].tensor && (!x->steps.count || (i < o && is_padded_view(p, x))))
			return false;
	}
	return is_padded_view(p, &p->operands.at[o]);
}

/* All arrays of a kernel are in HBM while it runs, as it takes them, padded to whole tiles as XLA does, which is much
 * where a view gives them dims of few lanes; beside such a copy the caller's. What XLA takes beside them is not known.
 */
static bool arrays_fit(const Plan *p, Diag *d) {
	const Target *t = p->module->target;
	const Operand *most = NULL;
	int64_t total = 0, largest = 0;
	for (uint32_t i = 0; i < p->operands.count; i++) {
		const Operand *o = &p->operands.at[i];
		int64_t bytes = has_own_array(p, i) ? viewed_bytes(p, o) : 0;
		int64_t beside = bytes && leaves_callers(p, i) ? callers_bytes(p, o) : 0;
		total = int_min(total + bytes + beside, INT64_MAX / 4);
		if (bytes > largest)
			most = o, largest = bytes;
	}
	if (!most || total <= t->hbm_bytes)
		return true;
	Text shape;
	text_init(&shape, p->arena);
	for (uint32_t i = 0; i < most->rank; i++)
		text_printf(&shape, "%s%lld", i ? ", " : "", (long long)most->shape[i]);
	diag_error(d, tensor_place(p->module, d, most->tensor), "hbm",
	           most->steps.count ? "give blocks of whole lanes, multiples of 128: they need no such view"
	                             : "make it smaller, or spread it over devices by --mesh",
	           "the arrays of %s need %lld bytes of HBM and %s has %lld; %s, as %s[%s], takes %lld",
	           p->module->name, (long long)total, t->name, (long long)t->hbm_bytes,
	           p->module->tensors.at[most->tensor].name, dtype_name(most->dtype), shape.at, (long long)largest);
	return false;
}

static bool program_fits(const Program *g, Diag *d) {
	for (uint32_t k = 0; k < g->kernels.count; k++)
		if (!arrays_fit(g->kernels.at[k], d))
			return false;
	return true;
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

static uint32_t root_count(const Module *m) {
	uint32_t count = 0;
	while (module_root(m, count) != NONE)
		count++;
	return count;
}

static void add_up(Program *g) {
	for (uint32_t k = 0; k < g->kernels.count; k++) {
		const Plan *p = g->kernels.at[k];
		g->vmem_bytes = int_max(g->vmem_bytes, p->vmem.total);
		g->flops += p->flops;
		g->hbm_bytes += p->hbm_bytes;
	}
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

struct Drafts {
	Module *m;
	int64_t *left;
	VEC(Search *) kernels;
	Program *program; /* with its returns */
};

static Module *root_module(Module *m, Arena *a, uint32_t k) { return root_count(m) == 1 ? m : module_of_root(m, a, k); }

/* What it returns; NULL after diagnostics. */
static Program *program_start(Arena *a, Module *m, Diag *d) {
	Program *g = arena_alloc(a, sizeof *g);
	*g = (Program){.module = m, .arena = a};
	bool any = root_count(m) > 0;
	if (!any)
		diag_error(d, diag_place(d, m->source, "/graphs"), "unsupported", "add a graph of kind root",
		           "no root graph: there is nothing to run");
	return any ? g : NULL;
}

static bool program_finish(Program *g, Module *m, Diag *d) {
	if (!outputs_stored(m, d) || !program_fits(g, d) || !program_host(g, m, d))
		return false;
	add_up(g);
	return true;
}

Drafts *program_draft(Arena *a, Module *m, int64_t *left) {
	Diag quiet;
	diag_init(&quiet, a);
	Drafts *drafts = arena_alloc(a, sizeof *drafts);
	*drafts = (Drafts){.m = m, .left = left, .program = program_start(a, m, &quiet)};
	if (!drafts->program)
		return NULL;
	for (uint32_t k = 0; k < root_count(m); k++) {
		Search *s = search_start(a, root_module(m, a, k), left);
		if (!s)
			return NULL;
		vec_push(a, &drafts->kernels, s);
	}
	return drafts;
}

double drafts_bound(const Drafts *d) {
	double seconds = 0;
	for (uint32_t k = 0; k < d->kernels.count; k++)
		seconds += search_bound(d->kernels.at[k]);
	return seconds;
}

double program_seconds(const Program *g) {
	double seconds = 0;
	for (uint32_t k = 0; k < g->kernels.count; k++)
		seconds += fmax(g->kernels.at[k]->seconds, g->kernels.at[k]->kernel_seconds);
	return seconds;
}

Program *program_choose(Drafts *d) {
	Diag quiet;
	diag_init(&quiet, d->program->arena);
	for (uint32_t k = 0; k < d->kernels.count; k++) {
		Plan *plan = search_plan(d->kernels.at[k]);
		if (!plan)
			return NULL;
		vec_push(d->program->arena, &d->program->kernels, plan);
	}
	return program_finish(d->program, d->m, &quiet) ? d->program : NULL;
}

/* Each kernel by itself, so that each one's refusal is said. A search that found nothing is not made again, unless it
 * may have been another kernel's. */
static Program *program_make(Arena *a, Module *m, Diag *d, int64_t *left, bool searched) {
	Program *g = program_start(a, m, d);
	bool ok = g != NULL;
	for (uint32_t k = 0; g && k < root_count(m); k++) {
		const ArenaMark before = arena_mark(a);
		Module *root = root_module(m, a, k);
		Search *s = searched && root_count(m) == 1 ? NULL : search_start(a, root, left);
		Plan *plan = s ? search_plan(s) : NULL;
		if (!plan && root != m) { /* of many roots, drafts that come to nothing would add up */
			arena_release(a, before);
			root = root_module(m, a, k);
		}
		plan = plan ? plan : plan_frugal(a, root, d, left);
		vec_push(a, &g->kernels, plan);
		ok = ok && plan;
	}
	return ok && program_finish(g, m, d) ? g : NULL;
}

Program *program_plan(Arena *a, Module *m, Diag *d, int64_t *left) { return program_make(a, m, d, left, false); }
Program *program_frugal(Arena *a, Module *m, Diag *d, int64_t *left) { return program_make(a, m, d, left, true); }
