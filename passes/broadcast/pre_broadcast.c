/* pre_broadcast.c - carries a loop's row values with a trailing dim of 128 equal lanes.
 *
 * What: a carried [b, m] or [b, m, 1] that is broadcast along lanes in the loop (softmax's maximum and sum) becomes
 * [b, m, 128]: initial value, placeholder, arithmetic, result; `[:, :, None]` of it is itself. Where it meets a value
 * 128 wide nothing is left to do, where it meets a multiple, one tile.pre_broadcast_tile per width; where something
 * wants the old shape, lane 0 is selected. Refused where a loop uses it against a width that is no multiple of 128.
 * Why on a TPU: a column [b, m, 1] that a loop carries in VMEM is stored as one lane, masked, and spread over lanes
 * again on each step, in the cross-lane unit; with 128 equal lanes it has the layout of the tiles that it meets.
 *
 *     m_new = maximum m, amax(s)         [b, m]         m_new = maximum m, amax(s, keepdim)   [b, m, 128]
 *     c = subscript m_new, [:, :, null]  [b, m, 1]  =>  t = pre_broadcast_tile m_new, 512     [b, m, 512]
 *     p = sub s, c                       [b, m, 512]    p = sub s, t                          [b, m, 512]
 */
#include "broadcast.h"
#include "pre_broadcast.h"

/* ---- which values meet wider ones: backwards --------------------------------------------------------------------- */

static void reach(Spreading *w, NodeId n) {
	if (n == NONE || w->reach[n] || !is_tensor_value(w, n))
		return;
	w->reach[n] = true;
	vec_push(w->arena, &w->reached, n);
}

static void reach_operands(Spreading *w, NodeId n, ThinUse use, ThinUse or_use) {
	for (uint32_t i = 0; i < node_get(w->m, n)->arg_count; i++) {
		NodeId x = node_input(w->m, n, i);
		ThinUse is = x == NONE || !is_tensor_value(w, x) ? THIN_OTHER : thin_use(w, n, x);
		if (is == use || is == or_use)
			reach(w, x);
	}
}

NodeId item_node(const Module *m, const Arg *list, uint32_t i) {
	const Arg *a = arg_item(m, list, i);
	return a->kind == ARG_REF ? a->node : NONE;
}

static NodeId loop_result(const Spreading *w, GraphId g, uint32_t i) {
	return item_node(w->m, graph_results(w->m, g), i);
}

/* The loop graph whose result node n takes; NONE. */
static GraphId taken_loop(const Spreading *w, NodeId n, uint32_t *output) {
	NodeId call = node_get(w->m, n)->op == OP_GETITEM ? node_input(w->m, n, 0) : NONE;
	if (call == NONE || node_get(w->m, call)->op != OP_FOR_LOOP)
		return NONE;
	*output = (uint32_t)node_arg(w->m, n, 1)->integer;
	return node_arg(w->m, call, 0)->graph;
}

static void reach_carried(Spreading *w, GraphId g, uint32_t arg) {
	NodeId call = graph_get(w->m, g)->caller;
	reach(w, graph_get(w->m, g)->placeholders.at[arg]);
	reach(w, item_node(w->m, op_arg(w->m, call, "args"), arg));
	if (w->loop[g].arg_output[arg] != NONE)
		reach(w, loop_result(w, g, w->loop[g].arg_output[arg]));
}

static void reach_through(Spreading *w, NodeId n) {
	GraphId g = node_get(w->m, n)->graph;
	uint32_t output = 0;
	GraphId taken = taken_loop(w, n, &output);
	if (node_get(w->m, n)->op == OP_PLACEHOLDER && w->loop[g].is_loop)
		reach_carried(w, g, w->argument[n]);
	else if (taken != NONE && w->loop[taken].output_arg[output] != NONE)
		reach_carried(w, taken, w->loop[taken].output_arg[output]);
	else
		reach_operands(w, n, THIN_SAME, THIN_IDENTITY);
}

static void reach_meetings(Spreading *w) {
	for (GraphId g = 0; g < w->m->graphs.count; g++)
		for (NodeId n = graph_first(w->m, g); w->loop[g].in_loop && n != NONE; n = node_get(w->m, n)->next)
			if (is_fat(w, n))
				reach_operands(w, n, THIN_MEETS, THIN_MEETS);
}

/* ---- what is spread with them: forwards ------------------------------------------------------------------------- */

NodeId find_root(Spreading *w, NodeId n) {
	while (w->parent[n] != n)
		n = w->parent[n] = w->parent[w->parent[n]];
	return n;
}

static void join(Spreading *w, NodeId a, NodeId b) { w->parent[find_root(w, a)] = find_root(w, b); }

static void spread(Spreading *w, NodeId n) {
	if (w->may_spread[n])
		return;
	w->may_spread[n] = true;
	vec_push(w->arena, &w->spreading, n);
}

/* May a loop's argument be carried spread? */
static bool is_eligible(const Spreading *w, NodeId p) {
	const Type *t = type_get(w->m, w->old[p]);
	bool is_row_type =
		t->kind == TYPE_TENSOR && t->count >= 1 && (t->count < RANK_MAX || is_column(w->m, w->old[p]));
	return is_row_type && (t->dtype == DTYPE_F32 || t->dtype == DTYPE_BF16);
}

/* The first value that a spread argument has, in a loop around, and what each step gives back would be broadcast too.
 */
static void reach_given(Spreading *w, GraphId g, uint32_t arg) {
	NodeId call = graph_get(w->m, g)->caller;
	reach(w, loop_result(w, g, w->loop[g].arg_output[arg]));
	if (w->loop[node_get(w->m, call)->graph].in_loop)
		reach(w, item_node(w->m, op_arg(w->m, call, "args"), arg));
}

static void spread_carried(Spreading *w, GraphId g, uint32_t arg, NodeId by) {
	NodeId p = graph_get(w->m, g)->placeholders.at[arg];
	if (!is_eligible(w, p))
		return;
	spread(w, p);
	reach_given(w, g, arg);
	if (by != NONE)
		join(w, by, p);
	uint32_t output = w->loop[g].arg_output[arg];
	for (NodeId n = w->loop[g].getitem[output]; n != NONE; n = w->next_getitem[n]) {
		spread(w, n);
		join(w, n, p);
	}
}

/* A loop that is given a spread value and broadcasts it takes it spread. */
static void spread_passed(Spreading *w, GraphId g, uint32_t arg) {
	NodeId p = graph_get(w->m, g)->placeholders.at[arg];
	if (w->loop[g].arg_output[arg] == NONE && arg != graph_get(w->m, g)->lengths && w->reach[p] &&
	    is_eligible(w, p))
		spread(w, p);
}

static void spread_user(Spreading *w, NodeId x, ArgId slot) {
	NodeId n = arg_get(w->m, slot)->user;
	GraphId g = node_get(w->m, n)->graph;
	if (node_get(w->m, n)->op == OP_FOR_LOOP) {
		uint32_t arg = list_index(op_arg(w->m, n, "args"), slot);
		if (arg != NONE)
			spread_passed(w, node_arg(w->m, n, 0)->graph, arg);
	} else if (node_get(w->m, n)->op == OP_OUTPUT) {
		uint32_t output = w->loop[g].is_loop ? list_index(node_arg(w->m, n, 0), slot) : NONE;
		if (output != NONE && w->loop[g].output_arg[output] != NONE)
			spread_carried(w, g, w->loop[g].output_arg[output], x);
	} else {
		ThinUse use = thin_use(w, n, x);
		if (use != THIN_SAME && use != THIN_IDENTITY)
			return;
		spread(w, n);
		join(w, n, x);
	}
}

/* A carried value that reaches a meeting is spread; one that is passed along, if it is given spread. */
static void spread_reached(Spreading *w, NodeId n) {
	GraphId g = node_get(w->m, n)->graph;
	if (node_get(w->m, n)->op != OP_PLACEHOLDER || !w->loop[g].is_loop)
		return;
	uint32_t arg = w->argument[n];
	NodeId given = item_node(w->m, op_arg(w->m, graph_get(w->m, g)->caller, "args"), arg);
	if (w->loop[g].arg_output[arg] != NONE)
		spread_carried(w, g, arg, NONE);
	else if (given != NONE && w->may_spread[given])
		spread_passed(w, g, arg);
}

/* What stands beside a spread value would be broadcast to it: as good as meeting a wider one. */
static void follow_spread(Spreading *w, NodeId n) {
	if (w->loop[node_get(w->m, n)->graph].in_loop && is_lanewise(w->m, n))
		reach_operands(w, n, THIN_SAME, THIN_SAME);
	for (ArgId u = node_uses(w->m, n); u != NONE; u = arg_get(w->m, u)->next_use)
		spread_user(w, n, u);
}

static void find_spread(Spreading *w) {
	reach_meetings(w);
	while (w->reached.count || w->spreading.count) {
		if (w->reached.count) {
			NodeId n = w->reached.at[--w->reached.count];
			reach_through(w, n);
			spread_reached(w, n);
		} else {
			follow_spread(w, w->spreading.at[--w->spreading.count]);
		}
	}
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static bool is_loop_kind(const Module *m, GraphId g) {
	GraphKind kind = graph_get(m, g)->kind;
	return kind == GRAPH_FOR_LOOP || kind == GRAPH_REDUCTION_LOOP;
}

static uint32_t *none_array(Arena *a, uint32_t count) {
	uint32_t *array = arena_array(a, (size_t)count + 1, sizeof *array);
	memset(array, 0xff, count * sizeof *array);
	return array;
}

static void index_graph(Spreading *w, GraphId g) {
	const Graph *graph = graph_get(w->m, g);
	SpreadLoop *l = &w->loop[g];
	l->is_loop = is_loop_kind(w->m, g);
	for (GraphId at = g; at != NONE && !l->in_loop; at = graph_parent(w->m, at))
		l->in_loop = is_loop_kind(w->m, at);
	l->arg_output = none_array(w->arena, graph->placeholders.count);
	l->output_arg = none_array(w->arena, graph_result_count(w->m, g));
	l->getitem = none_array(w->arena, graph_result_count(w->m, g));
	for (uint32_t i = 0; i < graph->placeholders.count; i++)
		w->argument[graph->placeholders.at[i]] = i;
	for (uint32_t i = 0; i < graph->carried.count; i++) {
		l->arg_output[graph->carried.at[i].arg] = graph->carried.at[i].output;
		l->output_arg[graph->carried.at[i].output] = graph->carried.at[i].arg;
	}
}

static void index_module(Spreading *w) {
	for (GraphId g = 0; g < w->m->graphs.count; g++)
		index_graph(w, g);
	for (NodeId n = 0; n < w->nodes; n++) {
		uint32_t output = 0;
		w->old[n] = node_get(w->m, n)->type;
		w->parent[n] = n;
		GraphId taken = node_get(w->m, n)->dead ? NONE : taken_loop(w, n, &output);
		if (taken == NONE)
			continue;
		w->next_getitem[n] = w->loop[taken].getitem[output];
		w->loop[taken].getitem[output] = n;
	}
}

static void spreading_init(Spreading *w, PassContext *c) {
	*w = (Spreading){.c = c, .m = c->module, .arena = c->arena, .lanes = c->module->target->lanes};
	uint32_t count = w->nodes = w->m->nodes.count;
	w->old = none_array(w->arena, count);
	w->loop = arena_array(w->arena, (size_t)w->m->graphs.count + 1, sizeof *w->loop);
	w->argument = none_array(w->arena, count);
	w->next_getitem = none_array(w->arena, count);
	w->reach = arena_array(w->arena, (size_t)count + 1, sizeof *w->reach);
	w->may_spread = arena_array(w->arena, (size_t)count + 1, sizeof *w->may_spread);
	w->met = arena_array(w->arena, (size_t)count + 1, sizeof *w->met);
	w->columns = arena_array(w->arena, (size_t)count + 1, sizeof *w->columns);
	w->parent = none_array(w->arena, count);
	w->refusal = arena_array(w->arena, (size_t)count + 1, sizeof *w->refusal);
	w->representative = none_array(w->arena, count);
	w->narrow = none_array(w->arena, count);
	w->column = none_array(w->arena, count);
	w->spread = none_array(w->arena, count);
	index_module(w);
}

/* Why the pass leaves all as it is; NULL. In unrolled steps the compiler sees that a reduction's result is the same in
 * all lanes and keeps it so: the schedule is the same with and without (docs/passes/pre_broadcast.md). */
static const char *reason_not_to(const Module *m) {
	Switch choice = (Switch)m->config.pre_broadcast.value;
	if (choice == SWITCH_OFF)
		return "off: the configuration says so";
	if (choice == SWITCH_AUTO && module_loop_type(m) == LOOP_UNROLL)
		return "auto: off, for unrolled steps pass row values on in registers, broadcast already";
	return NULL;
}

bool pass_pre_broadcast(PassContext *c) {
	const char *why = reason_not_to(c->module);
	if (why) {
		pass_remark(c, "pre_broadcast", "%s", why);
		return true;
	}
	Spreading w;
	spreading_init(&w, c);
	w.automatic = c->module->config.pre_broadcast.value == SWITCH_AUTO;
	find_spread(&w);
	spreading_judge(&w);
	bool any = false;
	for (NodeId n = 0; n < w.nodes && !any; n++)
		any = is_spread(&w, n);
	if (any)
		spreading_rewrite(&w);
	c->module->settled = c->module->settled || any; /* 128 lanes meet what the tile's size says */
	return true;
}
