/* returns.c - what the wrapper computes: which ops of `returns` and of derived tensors can be printed there, and the
 * dtype and shape after each. They are XLA's, so neither VMEM nor alignment matters to them. */
#include "search.h"
#include "codegen/lower/lower.h"
#include "src/verify/verify.h"

/* A pointwise op on a float value and numbers, printed as the op table says. */
static bool step_is_pointwise(const Module *m, const HostStep *s, const HostValue *before, const HostValue *after) {
	const OpRow *row = op_row(s->op);
	if (row->kind != KIND_POINTWISE || row->form == PRINT_CUSTOM || before->dtype != after->dtype ||
	    !dtype_is_float(before->dtype))
		return false;
	const char *at = op_param_next(row->params, &(OpParam){0});
	for (uint32_t i = 0; i < s->count && at; i++) {
		OpParam param;
		const Arg *a = arg_get(m, s->first + i);
		at = op_param_next(at, &param);
		bool number = a->kind == ARG_INT || a->kind == ARG_FLOAT;
		if (!at || !(param.letter == 'x' ? number : a->kind == ARG_INT && a->integer == 1 && param.fallback))
			return false;
	}
	return true;
}

/* A shape of numbers: a reduction without its dtype argument, a reshape, a permutation. */
static bool step_is_printed(const Module *m, const HostStep *s, const HostValue *before, const HostValue *after) {
	switch (op_lowering(s->op)) {
	case LOWER_REDUCE: return true;
	case LOWER_ALIAS: return op_row(s->op)->kind == KIND_POINTWISE;
	case LOWER_VIEW: return view_is_of_shapes(s->op) || op_lanes(s->op) == LANES_PERMUTE;
	case LOWER_POINTWISE: return op_converts(s->op) || step_is_pointwise(m, s, before, after);
	default: return false;
	}
}

static bool steps_are_printed(const Module *m, Diag *d, const HostSteps *of, const HostValue *values) {
	bool ok = true;
	for (uint32_t i = 0; i < of->count; i++) {
		if (step_is_printed(m, &of->steps[i], &values[i], &values[i + 1]))
			continue;
		diag_error(d, diag_place(d, m->source, "/%s/%u/ops/%u", of->list, of->index, i), "unsupported-op",
		           of->hint, "%s %s the kernel is not lowered yet", op_row(of->steps[i].op)->target, of->when);
		ok = false;
	}
	return ok;
}

static bool program_return(Program *g, Module *m, Diag *d, uint32_t r) {
	HostSteps of = return_steps(m, r);
	HostValue *values = arena_array(g->arena, (size_t)of.count + 2, sizeof *values);
	bool ok = return_infer(m, d, g->arena, r, values) && steps_are_printed(m, d, &of, values);
	vec_push(g->arena, &g->returns, values);
	return ok;
}

static bool program_derived(Program *g, Module *m, Diag *d, TensorId t) {
	HostSteps of = derived_steps(m, t);
	HostValue *values = arena_array(g->arena, (size_t)of.count + 1, sizeof *values);
	g->derived[t] = values;
	return derived_infer(m, d, g->arena, t, values) && steps_are_printed(m, d, &of, values);
}

bool program_host(Program *g, Module *m, Diag *d) {
	bool ok = true;
	g->derived = arena_array(g->arena, (size_t)m->tensors.count + 1, sizeof *g->derived);
	for (TensorId t = 0; t < m->tensors.count; t++)
		ok = (m->tensors.at[t].role != ROLE_DERIVED || program_derived(g, m, d, t)) && ok;
	for (uint32_t r = 0; r < m->returns.count; r++)
		ok = program_return(g, m, d, r) && ok;
	return ok;
}
