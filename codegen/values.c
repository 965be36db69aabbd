/* values.c - how each value stands in the kernel: its form (row or column), which invalid lanes its users read and so
 * which masks are written, and which values are printed inside their one user. */
#include "planner.h"

static uint32_t rank_of(const Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	return t->kind == TYPE_TENSOR ? t->count : 0;
}

static Value *value_of(Planner *p, NodeId n) { return &p->plan->values[n]; }

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

/* ---- forms ------------------------------------------------------------------------------------------------------ */

static void vote_column(Planner *p, NodeId n, NodeId operand) {
	if (rank_of(p, operand) == rank_of(p, n) && value_of(p, operand)->form == FORM_COLUMN)
		value_of(p, n)->form = FORM_COLUMN;
}

/* The operand's form if the op leaves the last dim alone. */
static void form_pointwise(Planner *p, NodeId n) {
	if (rank_of(p, n) > 0)
		each_operand(p, n, vote_column);
	value_of(p, n)->wants = value_of(p, n)->form;
}

static void form_reduce(Planner *p, NodeId n) {
	NodeId x = node_input(p->m, n, 0);
	bool keepdim;
	uint32_t dims = reduction_dims(p->m, n, &keepdim), rank = rank_of(p, x);
	bool last = rank > 0 && (dims >> (rank - 1) & 1);
	Value *v = value_of(p, n);
	v->wants = last ? FORM_NATURAL : value_of(p, x)->form;
	v->form = !last ? v->wants : keepdim || rank_of(p, n) == 0 ? FORM_NATURAL : FORM_COLUMN;
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
	case VIEW_SHAPE_LANE_0: v->form = FORM_COLUMN; break;
	case VIEW_SHAPE_OTHER: break;
	}
}

static bool forms_in(Planner *p, GraphId g);

static bool join(Planner *p, NodeId n, Form f) {
	if (f != FORM_COLUMN || value_of(p, n)->form == FORM_COLUMN)
		return false;
	value_of(p, n)->form = FORM_COLUMN;
	return true;
}

static NodeId graph_result(const Module *m, const Graph *g, uint32_t i) {
	return arg_item(m, node_arg(m, g->output, 0), i)->node;
}

/* Arguments that a loop only reads are the outer value itself; a carried one has one form, whoever needs a column. */
static bool forms_of_loop(Planner *p, NodeId call) {
	Module *m = p->m;
	const Graph *g = graph_get(m, node_arg(m, call, 0)->graph);
	const Arg *args = node_arg(m, call, 3);
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
		if (!forms_in(p, node_arg(m, call, 0)->graph))
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
	Module *m = p->m;
	NodeId call = node_input(m, n, 0);
	const Graph *g = graph_get(m, node_arg(m, call, 0)->graph);
	uint32_t output = (uint32_t)node_arg(m, n, 1)->integer;
	for (uint32_t i = 0; i < g->carried.count; i++)
		if (g->carried.at[i].output == output)
			value_of(p, n)->form = value_of(p, g->placeholders.at[g->carried.at[i].arg])->form;
}

static bool forms_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Value *v = value_of(p, n);
		switch (op_lowering(node_get(p->m, n)->op)) {
		case LOWER_POINTWISE: case LOWER_MASK: form_pointwise(p, n); break;
		case LOWER_REDUCE: form_reduce(p, n); break;
		case LOWER_VIEW: form_view(p, n); break;
		case LOWER_ALIAS:
			v->same_as = node_input(p->m, n, node_get(p->m, n)->op == OP_PHI ? 1 : 0);
			v->form = value_of(p, v->same_as)->form;
			break;
		case LOWER_RESULT: form_result(p, n); break;
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
	Module *m = p->m;
	NodeId user = arg_get(m, use)->user;
	Lowering how = op_lowering(node_get(m, user)->op);
	if (how == LOWER_LOOP) {
		const Graph *g = graph_get(m, node_arg(m, user, 0)->graph);
		const Arg *args = node_arg(m, user, 3);
		uint32_t i = use - args->list.first;
		return i < args->list.count ? value_of(p, g->placeholders.at[i])->form : FORM_NATURAL;
	}
	return how == LOWER_STORE || rank_of(p, user) < rank_of(p, n) ? FORM_NATURAL : value_of(p, user)->wants;
}

/* A constant or an index is made in the form that all its users want. */
static void settle_free_forms(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_LOOP)
			settle_free_forms(p, node_arg(p->m, n, 0)->graph);
		if ((how != LOWER_FULL && how != LOWER_INDEX) || rank_of(p, n) == 0)
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
			settle_aliases(p, node_arg(p->m, n, 0)->graph);
		if (how == LOWER_VIEW && v->same_as != NONE && value_of(p, v->same_as)->form != v->wants)
			v->same_as = NONE;
	}
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

static uint64_t blocks_of(const Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	uint64_t bits = 0;
	for (uint32_t i = 0; t->kind == TYPE_TENSOR && i < t->count; i++) {
		BlockId b = expr_as_block(p->m, t->dims[i]);
		if (b != NONE)
			bits |= 1ull << (b & 63);
	}
	return bits;
}

typedef struct Needs {
	Planner *p;
	bool changed;
} Needs;

static void need(Needs *s, NodeId n, uint64_t bits) {
	if (n == NONE)
		return;
	Value *v = value_of(s->p, n);
	bits &= blocks_of(s->p, n) & ~v->needed;
	if (bits == 0)
		return;
	v->needed |= bits;
	s->changed = true;
}

static void need_operands_in(Needs *s, const Arg *a, uint64_t bits) {
	if (a->kind == ARG_REF)
		need(s, a->node, bits);
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		need_operands_in(s, arg_get(s->p->m, a->list.first + i), bits);
}

static void need_operands(Needs *s, NodeId n, uint64_t bits) {
	const Node *node = node_get(s->p->m, n);
	for (uint32_t i = 0; i < node->arg_count; i++)
		need_operands_in(s, arg_get(s->p->m, node->arg_first + i), bits);
}

static uint64_t block_of_dim(const Planner *p, NodeId n, uint32_t dim) {
	BlockId b = expr_as_block(p->m, node_type(p->m, n)->dims[dim]);
	return b == NONE ? 0 : 1ull << (b & 63);
}

/* A matmul adds up along the contracted dim: both factors need zeros there. The other dims only carry through. */
static void need_matmul(Needs *s, NodeId n) {
	uint64_t needed = value_of(s->p, n)->needed;
	for (int i = 0; i < 2; i++) {
		NodeId x = matmul_operand(s->p->m, n, i);
		uint32_t rank = rank_of(s->p, x);
		need(s, x, block_of_dim(s->p, x, i == 0 ? rank - 1 : rank - 2) | needed);
	}
	need(s, matmul_operand(s->p->m, n, 2), needed);
}

static void need_reduce(Needs *s, NodeId n) {
	NodeId x = node_input(s->p->m, n, 0);
	bool keepdim;
	uint32_t dims = reduction_dims(s->p->m, n, &keepdim);
	uint64_t bits = value_of(s->p, n)->needed;
	for (uint32_t i = 0; i < rank_of(s->p, x); i++)
		if (dims >> i & 1)
			bits |= block_of_dim(s->p, x, i);
	need(s, x, bits);
}

/* A block symbol that a reshape makes vanish may be looked at in all its lanes. */
static void need_through(Needs *s, NodeId n) {
	NodeId x = node_input(s->p->m, n, 0);
	need(s, x, value_of(s->p, n)->needed | (blocks_of(s->p, x) & ~blocks_of(s->p, n)));
}

static void needs_in(Needs *s, GraphId g);

static void need_loop(Needs *s, NodeId call) {
	Module *m = s->p->m;
	const Graph *g = graph_get(m, node_arg(m, call, 0)->graph);
	for (uint32_t i = 0; i < g->carried.count; i++)
		need(s, graph_result(m, g, g->carried.at[i].output),
		     value_of(s->p, g->placeholders.at[g->carried.at[i].arg])->needed);
	needs_in(s, node_arg(m, call, 0)->graph);
	const Arg *args = node_arg(m, call, 3);
	for (uint32_t i = 0; i < g->placeholders.count; i++)
		if (arg_item(m, args, i)->kind == ARG_REF)
			need(s, arg_item(m, args, i)->node, value_of(s->p, g->placeholders.at[i])->needed);
}

static void need_node(Needs *s, NodeId n) {
	Module *m = s->p->m;
	uint64_t needed = value_of(s->p, n)->needed;
	switch (op_lowering(node_get(m, n)->op)) {
	case LOWER_POINTWISE: need_operands(s, n, needed); break;
	case LOWER_ALIAS: need(s, value_of(s->p, n)->same_as, needed); break;
	case LOWER_REDUCE: need_reduce(s, n); break;
	case LOWER_VIEW: need_through(s, n); break;
	case LOWER_MATMUL: need_matmul(s, n); break;
	case LOWER_LOOP: need_loop(s, n); break;
	case LOWER_RESULT: {
		const Graph *g = graph_get(m, node_arg(m, node_input(m, n, 0), 0)->graph);
		need(s, graph_result(m, g, (uint32_t)node_arg(m, n, 1)->integer), needed);
		break;
	}
	default: break; /* mask_to overwrites what it masks; stores skip invalid lanes */
	}
}

static void needs_in(Needs *s, GraphId g) {
	for (NodeId n = graph_get(s->p->m, g)->last; n != NONE; n = node_get(s->p->m, n)->prev)
		need_node(s, n);
}


typedef VEC(Mask) Masks;

static void masks_of(Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	GraphId g = node_get(p->m, n)->graph;
	Value *v = value_of(p, n);
	Masks masks = {0};
	for (uint32_t i = 0; i < t->count; i++) {
		BlockId b = expr_as_block(p->m, t->dims[i]);
		Mask mask = {.block = b, .dim = i};
		if (b == NONE || !(v->needed >> (b & 63) & 1) || !block_ragged(p, g, b, &mask.end, &mask.last_only))
			continue;
		mask.offset = block_offset(p, g, b);
		uint32_t dim, l = block_scope(p->plan, g, b, &dim);
		if (mask.last_only)
			p->plan->loops.at[l].masked = true;
		vec_push(p->a, &masks, mask);
	}
	v->masks = masks.at;
	v->mask_count = masks.count;
	if (op_lowering(node_get(p->m, n)->op) == LOWER_MASK && masks.count == 0)
		v->same_as = node_input(p->m, n, 0);
}

static void masks_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_LOAD || how == LOWER_MASK)
			masks_of(p, n);
		if (how == LOWER_LOOP)
			masks_in(p, node_arg(p->m, n, 0)->graph);
	}
}

/* ---- matmul operands -------------------------------------------------------------------------------------------- */

/* Swaps the last two dims of what it is given, in the kernel or as the load finds it. */
static bool swaps(const Planner *p, NodeId n) {
	const Module *m = p->m;
	uint32_t rank = rank_of(p, n);
	if (node_get(m, n)->op == OP_LOAD)
		return p->plan->values[n].access && p->plan->values[n].access->perm_rank > 0 && p->plan->values[n].mask_count == 0;
	if (node_get(m, n)->op == OP_T || node_get(m, n)->op == OP_MT)
		return rank >= 2;
	if (node_get(m, n)->op != OP_PERMUTE || rank < 2)
		return false;
	for (uint32_t i = 0; i < rank; i++) {
		int64_t d = arg_item(m, node_arg(m, n, 1), i)->integer;
		uint32_t to = i == rank - 1 ? i - 1 : i == rank - 2 ? i + 1 : i;
		if ((d < 0 ? d + rank : d) != (int64_t)to)
			return false;
	}
	return true;
}

/* A swap whose one user is a matmul costs nothing: the matmul contracts the other dim. */
static void fold_swap(Planner *p, NodeId n, int which) {
	NodeId x = matmul_operand(p->m, n, which);
	if (x == NONE || !swaps(p, x) || node_use_count(p->m, x) != 1 || node_get(p->m, x)->graph != node_get(p->m, n)->graph)
		return;
	Value *v = value_of(p, x);
	if (node_get(p->m, x)->op == OP_LOAD) {
		Access *plain = arena_alloc(p->a, sizeof *plain);
		*plain = *v->access;
		plain->perm_rank = 0;
		v->access = plain;
	} else {
		v->same_as = node_input(p->m, x, 0);
	}
	if (which == 0)
		value_of(p, n)->transpose_a = true;
	else
		value_of(p, n)->transpose_b = true;
}

static void fold_swaps_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_LOOP)
			fold_swaps_in(p, node_arg(p->m, n, 0)->graph);
		for (int i = 0; how == LOWER_MATMUL && i < 2; i++)
			fold_swap(p, n, i);
	}
}

/* ---- what is printed, and where --------------------------------------------------------------------------------- */

enum { INLINE_WEIGHT = 3 }; /* operations that one expression may hold */

static bool same_line(const Node *a, const Node *b) {
	return a->loc.line == b->loc.line && a->loc.file == b->loc.file && a->loc.code == b->loc.code;
}

/* The one node that uses n, seeing through nodes that are just other names; NONE. */
static NodeId only_user(Planner *p, NodeId n) {
	while (node_use_count(p->m, n) == 1) {
		NodeId user = arg_get(p->m, node_uses(p->m, n))->user;
		if (value_of(p, user)->same_as == NONE)
			return user;
		n = user;
	}
	return NONE;
}

static bool can_inline(Planner *p, NodeId n) {
	Lowering how = op_lowering(node_get(p->m, n)->op);
	if (value_of(p, n)->same_as != NONE)
		return false;
	NodeId user = only_user(p, n);
	if (user == NONE || node_get(p->m, user)->graph != node_get(p->m, n)->graph)
		return false;
	Lowering use = op_lowering(node_get(p->m, user)->op);
	if (how == LOWER_FULL) /* a constant reads best where it is used */
		return use == LOWER_LOOP || use == LOWER_POINTWISE;
	if (how != LOWER_POINTWISE && how != LOWER_REDUCE && how != LOWER_VIEW)
		return false;
	if (use == LOWER_MATMUL)
		return node_get(p->m, n)->op == OP_CONVERT && same_line(node_get(p->m, n), node_get(p->m, user));
	bool good = use == LOWER_POINTWISE || (use == LOWER_REDUCE && how != LOWER_REDUCE) || use == LOWER_STORE;
	/* A store of a column moves its operand to a row, and a conversion of form is a call already. */
	bool move = use == LOWER_STORE ? value_of(p, n)->form == FORM_COLUMN : value_of(p, user)->wants != value_of(p, n)->form;
	return good && !move && same_line(node_get(p->m, n), node_get(p->m, user));
}

static void inline_in(Planner *p, GraphId g, uint32_t *weight) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Value *v = value_of(p, n);
		Lowering how = op_lowering(node_get(p->m, n)->op);
		v->printed = how != LOWER_FREE && v->same_as == NONE;
		if (how == LOWER_LOOP)
			inline_in(p, node_arg(p->m, n, 0)->graph, weight);
		weight[n] += 1;
		if (!can_inline(p, n) || weight[n] > INLINE_WEIGHT)
			continue;
		v->inlined = true;
		weight[only_user(p, n)] += weight[n];
	}
}

bool plan_inlining(Planner *p) {
	uint32_t *weight = arena_array(p->a, p->m->nodes.count, sizeof *weight);
	inline_in(p, p->plan->root, weight);
	return true;
}

/* ---- dtypes that are computed in float32 ------------------------------------------------------------------------ */

/* Exact in bfloat16 and float16, so that rounding the number first changes nothing. */
static bool number_is_exact(const Arg *a) {
	double x = a->kind == ARG_FLOAT ? a->real : a->kind == ARG_INT ? (double)a->integer : 0;
	double scaled = x;
	for (int i = 0; i < 7 && scaled != (double)(int64_t)scaled && scaled < 256 && scaled > -256; i++)
		scaled *= 2;
	return x != x || x - x != 0 || (scaled == (double)(int64_t)scaled && scaled <= 256 && scaled >= -256);
}

static bool scalar_is_exact(const Planner *p, const Arg *a) {
	if (a->kind != ARG_REF || node_get(p->m, a->node)->op != OP_SCALAR)
		return a->kind == ARG_REF || number_is_exact(a);
	const Scalar *s = &p->m->scalars.at[node_arg(p->m, a->node, 0)->scalar];
	return s->has_value && number_is_exact(&(Arg){.kind = ARG_FLOAT, .real = s->value});
}

/* Narrow floats compute in float32 and round once, as torch does: jnp would round a Python number to bfloat16 first,
 * and a function of a bfloat16 has no better name. Sums, products and choices of two narrow values are exact either
 * way. */
static void compute_dtype(Planner *p, NodeId n) {
	const Node *node = node_get(p->m, n);
	const OpRow *row = op_row(node->op);
	Dtype widest = DTYPE_NONE;
	bool exact = row->form == PRINT_INFIX || row->form == PRINT_PREFIX;
	switch (node->op) {
	case OP_MAXIMUM: case OP_MINIMUM: case OP_WHERE: case OP_ABS: case OP_CONVERT: case OP_TO_COPY: case OP_RELU:
		exact = true;
		break;
	default: break;
	}
	for (uint32_t i = 0; i < node->arg_count; i++) {
		NodeId x = node_input(p->m, n, i);
		exact = exact && scalar_is_exact(p, node_arg(p->m, n, i));
		if (x != NONE && rank_of(p, x) > 0 && dtype_is_float(node_type(p->m, x)->dtype))
			widest = widest == DTYPE_NONE ? node_type(p->m, x)->dtype : dtype_promote(widest, node_type(p->m, x)->dtype);
	}
	value_of(p, n)->compute = !exact && widest != DTYPE_NONE && dtype_bits(widest) < 32 ? DTYPE_F32 : DTYPE_NONE;
}

static void compute_dtypes_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_POINTWISE)
			compute_dtype(p, n);
		if (how == LOWER_LOOP)
			compute_dtypes_in(p, node_arg(p->m, n, 0)->graph);
	}
}

bool plan_values(Planner *p) {
	for (NodeId n = 0; n < p->m->nodes.count; n++) {
		p->plan->values[n].same_as = NONE;
		p->plan->values[n].compute = DTYPE_NONE;
	}
	compute_dtypes_in(p, p->plan->root);
	if (!forms_in(p, p->plan->root))
		return false;
	settle_free_forms(p, p->plan->root);
	settle_aliases(p, p->plan->root);
	Needs needs = {.p = p};
	do {
		needs.changed = false;
		needs_in(&needs, p->plan->root);
	} while (needs.changed);
	masks_in(p, p->plan->root);
	fold_swaps_in(p, p->plan->root);
	return true;
}
