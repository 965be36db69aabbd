/* print_strips.c - the root's statements in strips of columns, phase by phase: strips.c. The loop over the strips is
 * Python's, so that the compiler sees straight code, one strip after the other. */
#include "printer.h"

static bool runs_in(const Strips *s, NodeId n, uint32_t phase) { return s->inside[n] && (s->computed[n] >> phase & 1); }

static const char *stash_text(Printer *pr, NodeId n) {
	Text out;
	const Scratch *s = &pr->plan->scratches.at[pr->plan->strips->stash[n]];
	text_init(&out, pr->a);
	text_printf(&out, "%s[", pr->scratch[pr->plan->strips->stash[n]]);
	for (uint32_t i = 0; i + 1 < s->rank; i++)
		text_put(&out, ":, ");
	text_printf(&out, "%s]", pr->strip);
	return out.at;
}

/* ---- reductions over the strips --------------------------------------------------------------------------------- */

typedef struct Fold {
	const char *combine, *initial;
} Fold;

static Fold fold_of(const Printer *pr, NodeId n) {
	switch (node_get(pr->m, n)->op) {
	case OP_AMAX: return (Fold){"jnp.maximum", "-jnp.inf"};
	case OP_AMIN: return (Fold){"jnp.minimum", "jnp.inf"};
	default: return (Fold){"jnp.add", NULL};
	}
}

/* Converted by the reduction, or as it is. */
static bool folds_operand(const Printer *pr, NodeId n) {
	return pr->plan->strips->folded[n] == value_root(pr->plan, node_input(pr->m, n, 0));
}

static Dtype fold_dtype(const Printer *pr, NodeId n) {
	return folds_operand(pr, n) ? DTYPE_F32 : node_type(pr->m, pr->plan->strips->folded[n])->dtype;
}

static void print_fold_start(Printer *pr, NodeId n) {
	int64_t shape[DIM_MAX];
	uint32_t rank = strips_part_shape(pr->plan, n, shape);
	const char *text = shape_text(pr, rank, shape), *initial = fold_of(pr, n).initial;
	pr->names[n] = value_name(pr, n);
	const char *dtype = dtype_jnp(fold_dtype(pr, n));
	if (initial)
		py_line(&pr->w, "%s = jnp.full(%s, %s, %s)", pr->names[n], text, initial, dtype);
	else
		py_line(&pr->w, "%s = jnp.zeros(%s, %s)", pr->names[n], text, dtype);
}

static void print_fold(Printer *pr, NodeId n) {
	const Value *v = &pr->plan->values[n];
	printer_comment(pr, n);
	const char *x = folds_operand(pr, n) ? computed_text(pr, node_arg(pr->m, n, 0), v->wants, v->compute).text
	                                     : value_text(pr, pr->plan->strips->folded[n], FORM_NATURAL).text;
	py_line(&pr->w, "%s = %s(%s, %s, %s)", pr->names[n], helper_named(pr, "_fold_lanes"), fold_of(pr, n).combine,
	        pr->names[n], x);
}

static void print_fold_end(Printer *pr, NodeId n) {
	PyExpr part = converted_text(pr, py_atom(pr->names[n]), fold_dtype(pr, n), DTYPE_F32);
	py_line(&pr->w, "%s = %s", pr->names[n], reduction_text(pr, n, part.text, DTYPE_F32).text);
}

/* ---- a phase ---------------------------------------------------------------------------------------------------- */

/* Rows that the strips read as columns are turned before the first of them. */
static void print_columns(Printer *pr, NodeId n) {
	const Node *node = node_get(pr->m, n);
	for (uint32_t i = 0; i < node->arg_count; i++) {
		const Arg *a = node_arg(pr->m, n, i);
		bool narrow = a->kind == ARG_REF && node_type(pr->m, a->node)->kind == TYPE_TENSOR &&
		              node_type(pr->m, a->node)->count > 0 &&
		              !pr->plan->strips->wide[value_root(pr->plan, a->node)];
		Lowering how = op_lowering(node->op);
		if (narrow && (how == LOWER_POINTWISE || how == LOWER_MASK))
			value_text(pr, a->node,
			           how == LOWER_MASK ? pr->plan->values[n].form : pr->plan->values[n].wants);
	}
}

static void print_in_strip(Printer *pr, NodeId n, uint32_t phase) {
	const Strips *s = pr->plan->strips;
	bool stashed = s->inside[n] && s->stash[n] != NONE;
	if (s->folds[n] && s->phase[n] == phase) {
		print_fold(pr, n);
	} else if (runs_in(s, n, phase)) {
		print_node(pr, n);
		if (stashed)
			py_line(&pr->w, "%s = %s", stash_text(pr, n), pr->names[n]);
	} else if (stashed && (s->needed[n] >> phase & 1)) {
		pr->names[n] = printer_name(pr, node_get(pr->m, n)->name);
		py_line(&pr->w, "%s = %s", pr->names[n], stash_text(pr, n));
	}
}

static void print_phase(Printer *pr, uint32_t phase) {
	const Strips *s = pr->plan->strips;
	GraphId root = pr->plan->root;
	bool any = false;
	for (NodeId n = graph_first(pr->m, root); n != NONE; n = node_get(pr->m, n)->next) {
		any = any || runs_in(s, n, phase);
		if (!s->inside[n] && s->phase[n] == phase)
			print_node(pr, n);
	}
	if (!any)
		return;
	for (NodeId n = graph_first(pr->m, root); n != NONE; n = node_get(pr->m, n)->next) {
		if (runs_in(s, n, phase))
			print_columns(pr, n);
		if (s->folds[n] && s->phase[n] == phase)
			print_fold_start(pr, n);
	}
	const char *strip = printer_name(pr, "strip"), *at = printer_name(pr, "at");
	py_line(&pr->w, "for %s in range(%lld):", strip, (long long)s->count);
	pr->w.indent++;
	py_line(&pr->w, "%s = pl.ds(%s * %lld, %lld)", at, strip, (long long)s->width, (long long)s->width);
	pr->strip = at;
	for (NodeId n = graph_first(pr->m, root); n != NONE; n = node_get(pr->m, n)->next)
		print_in_strip(pr, n, phase);
	pr->strip = NULL;
	pr->w.indent--;
	for (NodeId n = graph_first(pr->m, root); n != NONE; n = node_get(pr->m, n)->next)
		if (s->folds[n] && s->phase[n] == phase)
			print_fold_end(pr, n);
}

void print_strips(Printer *pr) {
	for (uint32_t phase = 0; phase < pr->plan->strips->phases; phase++)
		print_phase(pr, phase);
}
