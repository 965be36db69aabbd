/* load_calls.c - the graphs as a whole: who calls whom, what loops carry, which block symbols are in scope. */
#include "loader.h"

/* ---- reachability ----------------------------------------------------------------------------------------------- */

/* Does calling g lead back to g? With one caller each, the way up from g either ends or closes. *first: g comes first
 * of its cycle in the document, and is the one to report. */
static bool graph_recursive(const Module *m, GraphId g, bool *first) {
	GraphId at = graph_parent(m, g);
	*first = true;
	for (uint32_t steps = 0; at != NONE && steps <= m->graphs.count; steps++) {
		if (at == g)
			return true;
		*first &= at > g;
		at = graph_parent(m, at);
	}
	return false;
}

static void check_reachable(Loader *l, GraphId g) {
	const Graph *graph = graph_get(l->m, g);
	uint32_t depth;
	bool first;
	if (!hints_wanted(&l->r) || graph_root(l->m, g, &depth) != NONE)
		return;
	Place at = graph_place(l->m, l->r.d, g);
	if (graph->caller == NONE)
		diag_error(l->r.d, at, "graph-unreachable", "remove it, or call it", "graph %lld is never called",
		           (long long)graph->id);
	else if (!graph_recursive(l->m, g, &first) && depth > GRAPH_DEPTH_MAX)
		diag_error(l->r.d, at, "graph-depth", NULL, "graph %lld is nested deeper than %d calls",
		           (long long)graph->id, GRAPH_DEPTH_MAX);
	else if (graph_recursive(l->m, g, &first) && first)
		diag_error(l->r.d, at, "graph-recursion", NULL, "graph %lld calls itself, by way of '%s' in graph %lld",
		           (long long)graph->id, node_get(l->m, graph->caller)->name,
		           (long long)graph_get(l->m, graph_parent(l->m, g))->id);
	/* else a graph above it is unreachable, and reported */
}

/* ---- what graphs carry and give --------------------------------------------------------------------------------- */

static void check_carried(Loader *l, GraphId g, uint32_t outputs) {
	const Graph *graph = graph_get(l->m, g);
	uint32_t arguments = graph->placeholders.count;
	for (uint32_t i = 0; i < graph->carried.count; i++) {
		Carried c = graph->carried.at[i];
		if (c.arg < arguments && c.output < outputs)
			continue;
		Place at = diag_place(l->r.d, l->r.source, "/graphs/%u/carried/%u", g, i);
		if (c.arg >= arguments)
			diag_error(l->r.d, at, "carried", NULL, "graph %lld has no argument %lld: it has %u",
			           (long long)graph->id, c.arg == NONE ? -1LL : (long long)c.arg, arguments);
		else
			diag_error(l->r.d, at, "carried", NULL, "graph %lld has no output %lld: it has %u",
			           (long long)graph->id, c.output == NONE ? -1LL : (long long)c.output, outputs);
	}
	if (graph->lengths != NONE && graph->lengths >= arguments)
		diag_error(l->r.d, diag_place(l->r.d, l->r.source, "/graphs/%u/lengths", g), "lengths", NULL,
		           "graph %lld has no such argument: it has %u", (long long)graph->id, arguments);
}

/* Each argument is replaced by one output at most; and one output may replace several. */
static void check_carried_once(Loader *l, GraphId g) {
	const Graph *graph = graph_get(l->m, g);
	uint8_t *seen = arena_alloc(l->r.arena, (size_t)graph->placeholders.count + 1);
	for (uint32_t i = 0; i < graph->carried.count; i++) {
		uint32_t arg = graph->carried.at[i].arg;
		if (arg >= graph->placeholders.count)
			continue;
		if (seen[arg]++)
			diag_error(l->r.d, diag_place(l->r.d, l->r.source, "/graphs/%u/carried/%u", g, i), "carried",
			           NULL, "argument %u is carried twice", arg);
	}
}

static void check_outputs(Loader *l, GraphId g) {
	const Graph *graph = graph_get(l->m, g);
	const Arg *list = graph->output == NONE ? NULL : node_arg(l->m, graph->output, 0);
	if (!list || list->kind != ARG_LIST)
		return; /* reported */
	uint32_t outputs = list->list.count;
	if (graph->kind == GRAPH_ROOT && outputs && !l->kinds_unclear)
		diag_error(l->r.d, node_place(l->m, l->r.d, graph->output), "output-node",
		           "a root stores its results: args is [[]]", "root %lld has outputs", (long long)graph->id);
	if (graph->kind == GRAPH_COND && outputs != 1)
		diag_error(l->r.d, node_place(l->m, l->r.d, graph->output), "output-node", NULL,
		           "cond graph %lld must have one output, a bool", (long long)graph->id);
	check_carried(l, g, outputs);
	check_carried_once(l, g);
}

/* ---- scope of block symbols ------------------------------------------------------------------------------------- */

static void check_scope(Loader *l, NodeId n, uint32_t arg, const Arg *a) {
	const Module *m = l->m;
	BlockId b = arg_block(m, a);
	GraphId g = node_get(m, n)->graph;
	if (b == NONE || block_in_scope(m, g, b))
		return;
	diag_error(l->r.d, node_arg_place(m, l->r.d, n, arg), "block-scope",
	           "a tile exists only inside its grid or loop",
	           "'%s' uses the position of block '%s' (%s), but graph %lld is not inside a loop over it",
	           node_get(m, n)->name, m->blocks.at[b].symbol, m->blocks.at[b].name, (long long)graph_get(m, g)->id);
	block_relate(m, l->r.d, b);
}

static void check_node_scope(Loader *l, NodeId n) {
	uint16_t op = node_get(l->m, n)->op;
	if (op == OP_UNKNOWN || op == OP_SYMNODE || op == OP_TILE_BLOCK_SIZE)
		return;
	const Schema *s = load_schema(l, op);
	bool memory = op_row(op)->kind == KIND_MEMORY;
	for (uint32_t i = 0; i < s->count; i++) {
		const Arg *a = node_arg(l->m, n, i);
		if (s->params[i].letter == 'S')
			check_scope(l, n, i, a);
		for (uint32_t k = 0; memory && s->params[i].letter == 'N' && a->kind == ARG_LIST && k < a->list.count;
		     k++)
			check_scope(l, n, i, arg_item(l->m, a, k));
	}
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

void load_check_calls(Loader *l) {
	Module *m = l->m;
	uint32_t roots = 0;
	for (GraphId g = 0; g < m->graphs.count; g++) {
		roots += graph_get(m, g)->kind == GRAPH_ROOT;
		check_outputs(l, g);
	}
	if (l->kinds_unclear)
		return;
	if (roots == 0)
		diag_error(l->r.d, diag_place(l->r.d, l->r.source, "/graphs"), "no-root", NULL, "no graph is a root");
	if (l->calls_unclear || roots == 0)
		return;
	for (GraphId g = 0; g < m->graphs.count; g++)
		check_reachable(l, g);
	for (NodeId n = 0; n < m->nodes.count && l->r.d->errors < DIAG_ERROR_LIMIT; n++)
		check_node_scope(l, n);
}
