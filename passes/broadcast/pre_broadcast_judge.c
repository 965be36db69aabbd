/* pre_broadcast_judge.c - of the values that pre_broadcast.c finds, which groups are spread: those that something in a
 * loop profits from, and that nothing refuses. Says so. */
#include "pre_broadcast.h"

bool is_spread(Spreading *w, NodeId n) {
	if (n >= w->nodes || !w->may_spread[n])
		return false;
	NodeId root = find_root(w, n);
	return w->met[root] && !w->refusal[root];
}

/* ---- widths ------------------------------------------------------------------------------------------------------ */

static void judge_meeting(Spreading *w, NodeId x, NodeId n) {
	const Type *t = type_get(w->m, w->old[n]);
	NodeId root = find_root(w, x);
	int64_t width = 0;
	w->met[root] = true;
	if (meeting_width(w, n, &width) || w->refusal[root])
		return;
	w->refusal[root] =
		arena_printf(w->arena, "'%s' meets a width of %s (%lld) at '%s', which is no multiple of %lld",
	                     node_get(w->m, x)->name, expr_string(w->m, t->dims[t->count - 1]), (long long)width,
	                     node_get(w->m, n)->name, (long long)w->lanes);
}

/* After the loop a bad width costs one selection; in it, one on each step. */
static void judge(Spreading *w) {
	for (NodeId x = 0; x < w->nodes; x++) {
		bool inside = w->may_spread[x] && w->loop[node_get(w->m, x)->graph].in_loop;
		for (ArgId u = inside ? node_uses(w->m, x) : NONE; u != NONE; u = arg_get(w->m, u)->next_use) {
			NodeId n = arg_get(w->m, u)->user;
			if (!w->may_spread[n] && thin_use(w, n, x) == THIN_MEETS)
				judge_meeting(w, x, n);
		}
	}
}

/* Node x, in a loop, is the first value of a spread argument of a loop inside. */
static bool is_given_spread(Spreading *w, NodeId x) {
	for (ArgId u = node_uses(w->m, x); u != NONE; u = arg_get(w->m, u)->next_use) {
		NodeId n = arg_get(w->m, u)->user;
		uint32_t arg = node_get(w->m, n)->op == OP_FOR_LOOP ? list_index(op_arg(w->m, n, "args"), u) : NONE;
		GraphId g = arg == NONE ? NONE : node_arg(w->m, n, 0)->graph;
		if (g != NONE && is_spread(w, graph_get(w->m, g)->placeholders.at[arg]))
			return true;
	}
	return false;
}

/* Spreading what a loop inside takes spread saves a broadcast as well; once for each level of loops. */
static void judge_given(Spreading *w) {
	for (bool changed = true; changed;) {
		changed = false;
		for (NodeId x = w->nodes; x-- > 0;) { /* later loops first */
			bool inside = w->may_spread[x] && w->loop[node_get(w->m, x)->graph].in_loop;
			if (!inside || w->met[find_root(w, x)] || !is_given_spread(w, x))
				continue;
			w->met[find_root(w, x)] = true;
			changed = true;
		}
	}
}

/* ---- rows, for pallas_pre_broadcast: auto ------------------------------------------------------------------------ */

/* A step's spread node n takes a column: a reduction leaves its result in one. */
static bool takes_column(const Spreading *w, NodeId n) {
	if (!w->may_spread[n] || !w->loop[node_get(w->m, n)->graph].in_loop || !is_lanewise(w->m, n))
		return false;
	for (uint32_t i = 0; i < node_get(w->m, n)->arg_count; i++) {
		NodeId x = node_input(w->m, n, i);
		if (x != NONE && !w->may_spread[x] && (is_column(w->m, w->old[x]) || reduces_last(w, x)))
			return true;
	}
	return false;
}

/* The value that spread node n, an argument of a loop, is at first; NONE. */
static NodeId given_to(const Spreading *w, NodeId n) {
	GraphId g = node_get(w->m, n)->graph;
	if (!w->may_spread[n] || node_get(w->m, n)->op != OP_PLACEHOLDER || !w->loop[g].is_loop)
		return NONE;
	NodeId given = item_node(w->m, op_arg(w->m, graph_get(w->m, g)->caller, "args"), w->argument[n]);
	return given != NONE && w->may_spread[given] ? given : NONE;
}

/* Values that are rows at heart, lying along lanes: steps turn them where they meet tiles, spread or not, and as rows
 * they take 128 times less. A loop takes its arguments as another gives them. */
static void refuse_rows(Spreading *w) {
	for (NodeId n = 0; n < w->nodes; n++)
		if (takes_column(w, n))
			w->columns[find_root(w, n)] = true;
	for (bool changed = true; changed;) {
		changed = false;
		for (NodeId n = 0; n < w->nodes; n++) {
			NodeId given = given_to(w, n);
			if (given == NONE || w->columns[find_root(w, n)] || !w->columns[find_root(w, given)])
				continue;
			changed = w->columns[find_root(w, n)] = true;
		}
	}
	for (NodeId n = 0; n < w->nodes; n++)
		if (w->may_spread[n] && !w->columns[find_root(w, n)])
			w->refusal[find_root(w, n)] =
				"auto: it is made of rows, which lie along lanes; no step reduces to it";
}

/* ---- what is said of it ------------------------------------------------------------------------------------------ */

/* False: there is nothing to say of it. */
static bool explain_argument(Spreading *w, GraphId g, uint32_t i) {
	NodeId p = graph_get(w->m, g)->placeholders.at[i];
	const char *name = node_get(w->m, p)->name;
	long long id = graph_get(w->m, g)->id;
	if (is_spread(w, p))
		pass_remark(w->c, "pre_broadcast",
		            "%s: '%s' of graph %lld has %lld equal lanes: no broadcast along lanes is left in the loop",
		            w->automatic ? "auto" : "on", name, id, (long long)w->lanes);
	else if (w->may_spread[p] && w->met[find_root(w, p)] && w->refusal[find_root(w, p)])
		pass_remark(w->c, "pre_broadcast", "'%s' of graph %lld stays as it is: %s", name, id,
		            w->refusal[find_root(w, p)]);
	else
		return false;
	return true;
}

static void explain(Spreading *w) {
	bool any = false;
	for (GraphId g = 0; g < w->m->graphs.count; g++)
		for (uint32_t i = 0; w->loop[g].is_loop && i < graph_get(w->m, g)->placeholders.count; i++)
			any = explain_argument(w, g, i) || any;
	if (!any)
		pass_remark(w->c, "pre_broadcast", "nothing to do: no loop broadcasts along lanes what it carries");
}

void spreading_judge(Spreading *w) {
	judge(w);
	if (w->automatic)
		refuse_rows(w);
	judge_given(w);
	explain(w);
}
