/* forms.c - rows and columns: how each value's shape stands in registers (plan.h, Form). */
#include "values.h"
#include "codegen/lower/lower.h"

/* Calls visit(p, operand) for each node that n refers to directly or in a list, but not for a loop's call. */
typedef void Visit(Planner *p, NodeId n, NodeId operand);
static void each_operand_in(Planner *p, NodeId n, const Arg *a, Visit *visit) {
	if (a->kind == ARG_REF)
		visit(p, n, a->node);
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		each_operand_in(p, n, arg_get(p->m, a->list.first + i), visit);
}
static void each_operand(Planner *p, NodeId n, Visit *visit) {
	const Node *node = node_get(p->m, n);
	for (uint32_t i = 0; i < node->arg_count; i++)
		each_operand_in(p, n, arg_get(p->m, node->arg_first + i), visit);
}

static void vote_column(Planner *p, NodeId n, NodeId operand) {
	if (value_rank(p, operand) == value_rank(p, n) && value_of(p, operand)->form == FORM_COLUMN)
		value_of(p, n)->form = FORM_COLUMN;
}

/* The operand's form if the op leaves the last dim alone. */
static void form_pointwise(Planner *p, NodeId n) {
	if (value_rank(p, n) > 0)
		each_operand(p, n, vote_column);
	value_of(p, n)->wants = value_of(p, n)->form;
}

/* A column's last graph dim lies along sublanes. Its sum there is a column again: registers added up, and no turn into
 * a row whose lanes are added up. A product is made by halves of lanes. */
static bool reduces_column(const Planner *p, NodeId n) {
	uint16_t op = node_get(p->m, n)->op;
	return p->plan->values[node_input(p->m, n, 0)].form == FORM_COLUMN && op_canonical(op) != OP_PROD;
}

static bool is_only_stored(Planner *p, NodeId n) {
	for (ArgId u = node_uses(p->m, n); u != NONE; u = arg_get(p->m, u)->next_use)
		if (op_lowering(node_get(p->m, arg_get(p->m, u)->user)->op) != LOWER_STORE)
			return false;
	return node_uses(p->m, n) != NONE;
}

/* Of so many rows: fewer are summed up before the first transposed ones are there. */
enum { TURNED_ROWS = 4096 };

/* What is reduced along its last dim is a column, and stored it is spread over the lanes and transposed: two trips
 * through the cross-lane unit. Of rows one register long the tile itself is transposed, as many registers in one trip,
 * and reduced along sublanes, which gives the row, and no register of a column is spilled (delta of attention's
 * backward, 8192 rows of 128 at a grid point). */
static bool reduces_to_row(Planner *p, NodeId n, NodeId x) {
	const Type *t = node_type(p->m, x);
	uint16_t op = op_canonical(node_get(p->m, n)->op);
	bool known = op == OP_SUM || op == OP_MAX || op == OP_MIN;
	if (!known || t->count < 2 || reduction_dims(p->m, n) != 1u << (t->count - 1) ||
	    reduction_keeps_dims(p->m, n) || t->dtype != DTYPE_F32 || node_type(p->m, n)->dtype != DTYPE_F32 ||
	    !is_only_stored(p, n))
		return false;
	int64_t lanes = p->m->target->lanes, rows = expr_number(p->m, t->dims[t->count - 2]);
	return expr_number(p->m, t->dims[t->count - 1]) == lanes && rows >= TURNED_ROWS && rows % lanes == 0;
}

static void form_reduce(Planner *p, NodeId n) {
	NodeId x = node_input(p->m, n, 0);
	uint32_t dims = reduction_dims(p->m, n), rank = value_rank(p, x);
	bool last = rank > 0 && (dims >> (rank - 1) & 1) && !reduces_column(p, n);
	Value *v = value_of(p, n);
	v->wants = last ? FORM_NATURAL : value_of(p, x)->form;
	v->form = !last                                                    ? v->wants
	          : reduction_keeps_dims(p->m, n) || value_rank(p, n) == 0 ? FORM_NATURAL
	          : reduces_to_row(p, n, x)                                ? FORM_ROW
	                                                                   : FORM_COLUMN;
}

/* Adds dims of size 1, one of them last: a column has that one. */
static bool adds_units_last(Planner *p, NodeId n) {
	const Type *from = node_type(p->m, node_input(p->m, n, 0)), *to = node_type(p->m, n);
	if (op_lanes(node_get(p->m, n)->op) == LANES_INDEX) {
		const Arg *index = node_arg(p->m, n, 1);
		for (uint32_t i = 0; i < index->list.count; i++)
			if (arg_item(p->m, index, i)->kind != ARG_NULL && arg_item(p->m, index, i)->kind != ARG_SLICE)
				return false;
		return from->count > 0 && arg_item(p->m, index, index->list.count - 1)->kind == ARG_NULL;
	}
	bool same = from->count > 0 && from->count < to->count;
	for (uint32_t i = 0; same && i < to->count; i++) {
		int64_t size = i < from->count ? expr_number(p->m, from->dims[i]) : 1;
		same = expr_number(p->m, to->dims[i]) == size;
	}
	return same;
}

/* All that reads it stacks it along a new last dim, beside other columns: as a column it is there. */
static bool is_only_stacked(Planner *p, NodeId n) {
	for (ArgId u = node_uses(p->m, n); u != NONE; u = arg_get(p->m, u)->next_use)
		if (!stacks_columns(p, arg_get(p->m, u)->user))
			return false;
	return node_uses(p->m, n) != NONE;
}

static void form_view(Planner *p, NodeId n) {
	NodeId x = node_input(p->m, n, 0);
	Value *v = value_of(p, n);
	Form from = value_of(p, x)->form;
	v->wants = v->form = FORM_NATURAL;
	v->same_as = NONE;
	switch (view_shape(p, n)) {
	case VIEW_SHAPE_SAME:
		v->wants = v->form = from;
		v->same_as = x;
		break;
	case VIEW_SHAPE_UNIT_LAST:
		v->wants = FORM_COLUMN;
		v->same_as = x;
		break;
	case VIEW_SHAPE_UNIT_FIRST:
	case VIEW_SHAPE_DROP_FIRST: v->same_as = x; break;
	case VIEW_SHAPE_DROP_LAST:
		v->form = FORM_COLUMN;
		v->same_as = x;
		break;
	case VIEW_SHAPE_DROP_ROW:
		if (from == FORM_NATURAL && is_only_stored(p, n)) {
			v->form = FORM_ROW;
			v->same_as = x;
		}
		break;
	case VIEW_SHAPE_LANE_0: v->form = FORM_COLUMN; break;
	case VIEW_SHAPE_OTHER:
		if (adds_units_last(p, n))
			v->wants = from;
		if (view_picks_lane(p, n) && is_only_stacked(p, n))
			v->form = FORM_COLUMN;
		break;
	}
}

static bool forms_in(Planner *p, GraphId g);

static bool join(Planner *p, NodeId n, Form f) {
	if (f != FORM_COLUMN || value_of(p, n)->form == FORM_COLUMN)
		return false;
	value_of(p, n)->form = FORM_COLUMN;
	return true;
}

/* Arguments that a loop only reads are the outer value itself; a carried one has one form, whoever needs a column. */
static bool forms_of_loop(Planner *p, NodeId call) {
	const Module *m = p->m;
	const Graph *g = graph_get(m, loop_body(m, call));
	const Arg *args = loop_args(m, call);
	for (uint32_t i = 0; i < g->placeholders.count; i++) {
		const Arg *a = arg_item(m, args, i);
		if (a->kind != ARG_REF)
			continue;
		value_of(p, g->placeholders.at[i])->same_as = a->node;
		join(p, g->placeholders.at[i], value_of(p, a->node)->form);
	}
	for (uint32_t i = 0; i < g->carried.count; i++)
		value_of(p, g->placeholders.at[g->carried.at[i].arg])->same_as = NONE;
	bool again = true;
	while (again) {
		if (!forms_in(p, loop_body(m, call)))
			return false;
		again = false;
		for (uint32_t i = 0; i < g->carried.count; i++) {
			NodeId result = graph_result(m, g, g->carried.at[i].output);
			again = join(p, g->placeholders.at[g->carried.at[i].arg], value_of(p, result)->form) || again;
		}
	}
	return true;
}

/* A loop result has the form of the value carried. */
static void form_result(Planner *p, NodeId n) {
	const Module *m = p->m;
	NodeId call = node_input(m, n, 0);
	const Graph *g = graph_get(m, loop_body(m, call));
	uint32_t output = (uint32_t)node_arg(m, n, 1)->integer;
	uint32_t arg = graph_carried_arg(g, output);
	if (arg != NONE)
		value_of(p, n)->form = value_of(p, g->placeholders.at[arg])->form;
}

/* One position of the last dim, whose other dim lies along sublanes. */
static bool loads_column(const Access *a) { return a && a->column && a->places == NONE; }

/* Old values of single elements, which lie one below the other. */
static bool gives_column(const Planner *p, NodeId n) {
	const Access *a = p->plan->values[n].access;
	return a && a->places != NONE && node_type(p->m, n)->kind == TYPE_TENSOR &&
	       node_type(p->m, n)->count == p->plan->places.at[a->places].rank;
}

static bool forms_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Value *v = value_of(p, n);
		switch (op_lowering(node_get(p->m, n)->op)) {
		case LOWER_LOAD: v->form = loads_column(v->access) ? FORM_COLUMN : FORM_NATURAL; break;
		case LOWER_STORE: v->form = gives_column(p, n) ? FORM_COLUMN : FORM_NATURAL; break;
		case LOWER_POINTWISE:
		case LOWER_MASK: form_pointwise(p, n); break;
		case LOWER_REDUCE: form_reduce(p, n); break;
		case LOWER_VIEW: form_view(p, n); break;
		case LOWER_MOVE: form_move(p, n); break;
		case LOWER_ALIAS:
			v->same_as = alias_arg(p->m, n)->node;
			v->form = value_of(p, v->same_as)->form;
			break;
		case LOWER_RESULT:
			if (takes_of_loop(p->m, n))
				form_result(p, n);
			break;
		case LOWER_LOOP:
			if (!forms_of_loop(p, n))
				return false;
			break;
		default: break;
		}
	}
	return true;
}

/* The form in which `user` takes `n`: a loop argument's is the placeholder's, a store takes any. */
static Form form_wanted_by(Planner *p, NodeId n, ArgId use) {
	const Module *m = p->m;
	NodeId user = arg_get(m, use)->user;
	Lowering how = op_lowering(node_get(m, user)->op);
	if (how == LOWER_LOOP) {
		const Graph *g = graph_get(m, loop_body(m, user));
		const Arg *args = loop_args(m, user);
		uint32_t i = use - args->list.first;
		return i < args->list.count ? value_of(p, g->placeholders.at[i])->form : FORM_NATURAL;
	}
	return how == LOWER_STORE || value_rank(p, user) < value_rank(p, n) ? FORM_NATURAL : value_of(p, user)->wants;
}

/* A constant or an index is made in the form that all its users want. */
static void settle_free_forms(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_LOOP)
			settle_free_forms(p, loop_body(p->m, n));
		if ((how != LOWER_FULL && how != LOWER_INDEX) || value_rank(p, n) == 0)
			continue;
		bool column = node_uses(p->m, n) != NONE;
		for (ArgId u = node_uses(p->m, n); u != NONE; u = arg_get(p->m, u)->next_use)
			column = column && form_wanted_by(p, n, u) == FORM_COLUMN;
		value_of(p, n)->form = column ? FORM_COLUMN : FORM_NATURAL;
	}
}

/* What is only another name keeps it if no conversion lies between; a [.., 1] from a row is a printed move. */
static void settle_aliases(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Value *v = value_of(p, n);
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_LOOP)
			settle_aliases(p, loop_body(p->m, n));
		if (how == LOWER_VIEW && v->same_as != NONE && value_of(p, v->same_as)->form != v->wants)
			v->same_as = NONE;
	}
}

void plan_forms(Planner *p) {
	forms_in(p, p->plan->root);
	settle_free_forms(p, p->plan->root);
	settle_aliases(p, p->plan->root);
}
