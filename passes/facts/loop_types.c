/* loop_types.c - fact: how each loop can legally be lowered, and why not otherwise.
 *
 * What: for each loop, the legal ones of unroll, fori_loop and emit_pipeline, from the graph alone: the same under
 * every configuration. Alignment and VMEM do not show here; the plan asks for them when block sizes are known. A rule
 * is one row of `rules`: a lowering and a function that gives the reason against it, or NULL. Why on a TPU: an unrolled
 * loop is straight-line code, so its trip count must be a number when the kernel is printed; emit_pipeline moves whole
 * blocks by index maps, which cannot stop at each row's own length.
 *
 *     graph 0: for_loop over u2, end = tile.end(u1)
 *       =>  legal: fori_loop, emit_pipeline
 *           not unroll: the end of 'tile_n' is known only at run time (tile.end 'tile_end')
 */
#include "facts.h"

typedef const char *LoopRule(Module *m, GraphId g);

/* ---- computed bounds --------------------------------------------------------------------------------------------- */

/* What a bound is that is no expression; NULL if it is one. */
static const char *bound_origin(Module *m, const Arg *bound) {
	if (bound->kind != ARG_REF)
		return NULL;
	NodeId n = bound->node;
	if (node_get(m, n)->op == OP_CLAMP && node_input(m, n, 0) != NONE) /* bounds.c holds it in its tensors */
		n = node_input(m, n, 0);
	const Type *t = node_type(m, n);
	if (t->kind == TYPE_SYM && t->sym != NONE)
		return NULL;
	uint16_t op = node_get(m, n)->op;
	if (op == OP_SCALAR)
		return arena_printf(m->arena, "host scalar '%s'", m->scalars.at[node_arg(m, n, 0)->scalar].name);
	if (op == OP_PLACEHOLDER)
		return arena_printf(m->arena, "argument '%s'", node_get(m, n)->name);
	return arena_printf(m->arena, "%s '%s'", op_row(op)->target, node_get(m, n)->name);
}

static const char *computed_bound(Module *m, GraphId g, const char *list_name, const char *what) {
	const Graph *graph = graph_get(m, g);
	const Arg *list = op_arg(m, graph->caller, list_name);
	for (uint32_t i = 0; i < graph->blocks.count; i++) {
		const Arg *bound = list->kind == ARG_LIST ? arg_item(m, list, i) : list;
		const char *origin = bound_origin(m, bound);
		if (origin)
			return arena_printf(m->arena, "the %s of '%s' is known only at run time (%s)", what,
			                    m->blocks.at[graph->blocks.at[i]].name, origin);
	}
	return NULL;
}

static const char *begin_is_computed(Module *m, GraphId g) { return computed_bound(m, g, "begins", "begin"); }
static const char *end_is_computed(Module *m, GraphId g) { return computed_bound(m, g, "ends", "end"); }

/* ---- others ------------------------------------------------------------------------------------------------------ */

static const char *rows_have_lengths(Module *m, GraphId g) {
	const Graph *graph = graph_get(m, g);
	if (graph->lengths == NONE)
		return NULL;
	return arena_printf(m->arena, "each row ends at its own length ('%s')",
	                    node_get(m, graph->placeholders.at[graph->lengths])->name);
}

static const char *exchanges(Module *m, GraphId g) {
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		GraphId graphs[2];
		uint16_t op = node_get(m, n)->op;
		if (op_is_remote(op) || op == OP_REMOTE_BARRIER)
			return arena_printf(m->arena, "devices meet in its steps ('%s')", node_get(m, n)->name);
		for (uint32_t i = 0, count = call_graphs(m, n, graphs); i < count; i++) {
			const char *why = exchanges(m, graphs[i]);
			if (why)
				return why;
		}
	}
	return NULL;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* The first rule that gives a reason wins. fori_loop can always be printed. */
static const struct {
	LoopType type;
	LoopRule *why_not;
} rules[] = {
	{LOOP_UNROLL, begin_is_computed},        {LOOP_UNROLL, end_is_computed},  {LOOP_UNROLL, rows_have_lengths},
	{LOOP_EMIT_PIPELINE, rows_have_lengths}, {LOOP_EMIT_PIPELINE, exchanges},
};

static void find_fact(PassContext *c, GraphId g, LoopFact *fact) {
	fact->legal = 1u << LOOP_UNROLL | 1u << LOOP_FORI | 1u << LOOP_EMIT_PIPELINE;
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		LoopType type = rules[i].type;
		const char *reason = fact->why_not[type] ? NULL : rules[i].why_not(c->module, g);
		if (!reason)
			continue;
		fact->legal = (uint8_t)(fact->legal & ~(1u << type));
		fact->why_not[type] = string_intern(c->module->arena, &c->module->strings, reason);
		pass_remark(c, "loop_types", "graph %lld cannot be lowered as %s: %s",
		            (long long)graph_get(c->module, g)->id, loop_type_name(type), reason);
	}
}

bool pass_loop_types(PassContext *c) {
	Module *m = c->module;
	m->loop_facts = arena_array(m->arena, (size_t)m->graphs.count + 1, sizeof *m->loop_facts);
	for (GraphId g = 0; g < m->graphs.count; g++) {
		GraphKind kind = graph_get(m, g)->kind; /* all others, a while too, keep no legal type */
		if ((kind == GRAPH_FOR_LOOP || kind == GRAPH_REDUCTION_LOOP) && graph_get(m, g)->caller != NONE)
			find_fact(c, g, &m->loop_facts[g]);
	}
	return true;
}
