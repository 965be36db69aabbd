/* id_masks.c - a matmul tells which ids are equal, and the vector unit masks nothing.
 *
 * What: where scores of a row and a column stay if their ids are equal, and become -inf if not, both factors get 128
 * more elements to contract: of each id its eight digits of four bits, one-hot, and what they add is 0 where all
 * digits are equal and -2^110 for each that is not. Scores stay the numbers they were, for 0 is added to them. What is
 * masked is no -inf now, so two values of a row make up for that: its maximum is -inf again where it is so low, and
 * what is subtracted before an exponent is not lower. So it holds for scores of less than 2^108; and a row sees an
 * infinity or a NaN of a factor that the mask hid, as it sees one of what the exponents are multiplied with.
 * Why on a TPU: attention with heads of 128 contracts half of what its matrix unit does in the same time, and waits
 * for the vector unit, which compares and chooses for each score. docs/passes/id_masks.md
 *
 *     s = mul (dot q, (permute k)), 0.09           q2 = cat [q, digits(rows)]          (once, before the loop)
 *     t = where (eq rows, columns), s, -inf        k2 = cat [k, digits(columns)]
 *     m = amax t                             =>    s = mul (dot q2, (permute k2)), 0.09
 *     e = exp2 (sub t, m)                          m = where (lt amax s, -2^109 0.09), -inf, amax s
 *                                                  e = exp2 (sub s, (where (eq m, -inf), nan, max m, -2^108 0.09)) */
#include "simplify.h"

#include <math.h>

enum {
	DIGIT_BITS = 4,
	DIGIT_VALUES = 1 << DIGIT_BITS,
	ID_LANES = 32 / DIGIT_BITS * DIGIT_VALUES, /* what an id of 32 bits takes */
	OPS_OF_DIGIT = 7, /* vector ops for each element of the digits, in a step that makes them */
	OPS_OF_MASK = 2,  /* for each score */
};

static const double hidden = 0x1p110; /* a bfloat16; eight of it, scaled, are a float32 */

/* A factor of the matmul, and the ids of what it has a row of. */
typedef struct Side {
	NodeId factor; /* [.., m, d], in the loop's graph */
	bool swapped;  /* it is [.., d, m] */
	NodeId ids;    /* [.., m] there */
	bool row;      /* it is [.., 1, m] */
	bool outside;  /* both are the same in each step: made before the loop */
} Side;

typedef struct IdMask {
	NodeId choose;  /* where mask, scores, -inf */
	NodeId rest;    /* what else the mask asks; NONE */
	NodeId product; /* the scaled scores; the matmul itself where nothing scales it */
	NodeId dot;
	double scale;
	Side rows, columns;
} IdMask;

/* ---- what is found ----------------------------------------------------------------------------------------------- */

static bool is_number(const Module *m, const Arg *a, double value) {
	double x = 0;
	NodeId n = a->kind == ARG_REF ? a->node : NONE;
	if (n != NONE && node_get(m, n)->op == OP_SCALAR_TENSOR)
		a = node_arg(m, n, 0);
	return known_number(m, a, &x) && x == value;
}

/* Ids of rows, [.., m, 1], or of columns, [.., 1, n] or [n], of scores of type t. */
static bool is_column_of(Module *m, NodeId n, const Type *t) {
	const Type *x = n == NONE ? NULL : node_type(m, n);
	return x && x->kind == TYPE_TENSOR && x->dtype == DTYPE_I32 && x->count > 1 && x->count <= t->count &&
	       expr_is_int(m, x->dims[x->count - 1], 1) && expr_equal(m, x->dims[x->count - 2], t->dims[t->count - 2]);
}

static bool is_row_of(Module *m, NodeId n, const Type *t) {
	const Type *x = n == NONE ? NULL : node_type(m, n);
	return x && x->kind == TYPE_TENSOR && x->dtype == DTYPE_I32 && x->count > 0 && x->count <= t->count &&
	       (x->count == 1 || expr_is_int(m, x->dims[x->count - 2], 1)) &&
	       expr_equal(m, x->dims[x->count - 1], t->dims[t->count - 1]);
}

/* The vector [.., m] that n views as [.., m, 1]; NONE. */
static NodeId viewed_vector(Module *m, NodeId n) {
	NodeId x = view_adds_units(node_get(m, n)->op) ? node_input(m, n, 0) : NONE;
	const Type *to = node_type(m, n), *from = x == NONE ? NULL : node_type(m, x);
	bool same = from && from->count + 1 == to->count;
	for (uint32_t i = 0; same && i < from->count; i++)
		same = expr_equal(m, from->dims[i], to->dims[i]);
	return same ? x : NONE;
}

/* mask compares ids of rows with ids of columns, of scores of type t. */
static bool ids_compared(Module *m, NodeId mask, const Type *t, IdMask *x) {
	if (mask == NONE || op_canonical(node_get(m, mask)->op) != OP_EQ)
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		NodeId a = node_input(m, mask, i), b = node_input(m, mask, 1 - i);
		if (is_column_of(m, a, t) && is_row_of(m, b, t) && viewed_vector(m, a) != NONE) {
			x->rows.ids = viewed_vector(m, a);
			x->columns.ids = b;
			x->columns.row = node_type(m, b)->count > 1;
			return true;
		}
	}
	return false;
}

/* The mask [.., m, n] that n views as [1, .., m, n]; else n. */
static NodeId without_units(Module *m, NodeId n) {
	NodeId x = view_adds_units(node_get(m, n)->op) ? node_input(m, n, 0) : NONE;
	const Type *to = node_type(m, n), *from = x == NONE ? NULL : node_type(m, x);
	bool same = from && from->count > 1 && from->count < to->count;
	for (uint32_t i = 1; same && i <= to->count; i++)
		same = i <= from->count ? expr_equal(m, from->dims[from->count - i], to->dims[to->count - i])
		                        : expr_is_int(m, to->dims[to->count - i], 1);
	return same ? x : n;
}

/* mask is such a comparison, or it and another. */
static bool ids_asked(Module *m, NodeId mask, const Type *t, IdMask *x) {
	mask = without_units(m, mask);
	if (ids_compared(m, mask, t, x))
		return true;
	uint16_t op = op_canonical(node_get(m, mask)->op);
	for (uint32_t i = 0; i < 2 && (op == OP_LOGICAL_AND || op == OP_BITWISE_AND); i++) {
		x->rest = node_input(m, mask, 1 - i);
		if (x->rest != NONE && type_equal(m, node_get(m, x->rest)->type, node_get(m, mask)->type) &&
		    ids_compared(m, node_input(m, mask, i), t, x))
			return true;
	}
	return false;
}

static bool is_exponent(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	return op == OP_EXP || op == OP_EXP2;
}

/* It reads masked scores as something that is nothing, and its result shows no difference between that and very low. */
static bool hides(Module *m, NodeId user, NodeId scores) {
	const Node *n = node_get(m, user);
	uint32_t last = node_type(m, scores)->count - 1;
	if (n->op == OP_MASK_TO) {
		bool low = is_number(m, node_arg(m, user, 1), -INFINITY);
		for (ArgId u = node_uses(m, user); u != NONE && low; u = arg_get(m, u)->next_use)
			low = hides(m, arg_get(m, u)->user, user);
		return low;
	}
	if (n->op == OP_AMAX)
		return reduction_dims(m, user) == 1u << last;
	NodeId row = n->op == OP_SUB && node_input(m, user, 0) == scores ? node_input(m, user, 1) : NONE;
	const Type *t = row == NONE ? NULL : node_type(m, row);
	bool column = t && t->kind == TYPE_TENSOR && t->dtype == DTYPE_F32 && t->count > 1 &&
	              expr_is_int(m, t->dims[t->count - 1], 1) && is_number(m, node_arg(m, user, 2), 1);
	for (ArgId u = node_uses(m, user); u != NONE && column; u = arg_get(m, u)->next_use)
		column = is_exponent(m, arg_get(m, u)->user);
	return column;
}

/* A factor of bfloat16 that leaves the matrix unit room for an id. */
static bool has_room(Module *m, const Side *s) {
	const Type *t = s->factor == NONE ? NULL : node_type(m, s->factor);
	int64_t d = 0;
	return t && t->kind == TYPE_TENSOR && t->dtype == DTYPE_BF16 && t->count > 1 &&
	       expr_value(m, t->dims[t->count - (s->swapped ? 2 : 1)], &d) && d % ID_LANES == 0 &&
	       d + ID_LANES <= m->target->mxu_size;
}

/* The matmul of the scores, and its factors. */
static bool find_factors(Module *m, NodeId scores, IdMask *x) {
	uint32_t scale = scale_index(m, scores);
	x->product = scores;
	x->scale = 1;
	x->dot = scale == NONE ? scores : node_input(m, scores, 1 - scale);
	if (scale != NONE)
		known_number(m, node_arg(m, scores, scale), &x->scale);
	const Node *dot = node_get(m, x->dot);
	if (op_kind(m, x->dot) != KIND_MATMUL || node_type(m, x->dot)->dtype != DTYPE_F32 ||
	    !matmul_is_plain(m, x->dot) || matmul_arg(dot->op, 0) != 0 || node_input(m, x->dot, 2) != NONE)
		return false;
	NodeId second = node_input(m, x->dot, 1);
	bool swaps = second != NONE && permutation_swaps_rows(m, second);
	x->rows.factor = node_input(m, x->dot, 0);
	x->columns.factor = swaps ? node_input(m, second, 0) : second;
	x->columns.swapped = !swaps;
	return has_room(m, &x->rows) && has_room(m, &x->columns) && x->scale >= 0x1p-60 && x->scale <= 0x1p10;
}

static bool used_once(const Module *m, NodeId n, NodeId user) {
	return node_only_user(m, n) == user && node_get(m, n)->graph == node_get(m, user)->graph;
}

static bool is_outside(const Module *m, const Side *s) {
	const Arg *factor = constant_argument(m, s->factor), *ids = constant_argument(m, s->ids);
	return factor && factor->kind == ARG_REF && ids && ids->kind == ARG_REF;
}

static bool find(Module *m, NodeId n, IdMask *x) {
	const Node *node = node_get(m, n);
	*x = (IdMask){.choose = n, .rest = NONE};
	if (node->op != OP_WHERE || node_type(m, n)->dtype != DTYPE_F32 || node_type(m, n)->count < 2 ||
	    !is_number(m, node_arg(m, n, 2), -INFINITY))
		return false;
	NodeId scores = node_input(m, n, 1), mask = node_input(m, n, 0);
	Type t = *node_type(m, n);
	if (scores == NONE || mask == NONE || !type_equal(m, node_get(m, scores)->type, node->type) ||
	    !ids_asked(m, mask, &t, x) || !used_once(m, scores, n) || !find_factors(m, scores, x) ||
	    (x->dot != scores && !used_once(m, x->dot, scores)))
		return false;
	bool hidden_well = node_uses(m, n) != NONE;
	for (ArgId u = node_uses(m, n); u != NONE && hidden_well; u = arg_get(m, u)->next_use)
		hidden_well = hides(m, arg_get(m, u)->user, n);
	x->rows.outside = is_outside(m, &x->rows);
	x->columns.outside = is_outside(m, &x->columns);
	return hidden_well;
}

/* ---- what is made ------------------------------------------------------------------------------------------------ */

/* The last two dims in the other order. */
static NodeId make_swapped(Decompose *d, NodeId x) {
	Arg args[2] = {arg_ref(x), rows_swapped(d->m, node_type(d->m, x)->count)};
	return make_node(d, OP_PERMUTE, "swapped", 2, args);
}

/* The digits of ids for a factor [.., m, d], [.., m, 128]: `equal` where a lane's digit is the id's, else `other`. */
static NodeId make_digits(Decompose *d, NodeId row, const Type *factor, double equal, double other) {
	Module *m = d->m;
	Type wide = *node_type(m, row);
	wide.dims[wide.count - 2] = expr_int(m, ID_LANES);
	NodeId ids = make_swapped(d, make_expanded(d, row, wide.count, wide.dims, "rows"));
	NodeId lane = make_iota(d, expr_int(m, ID_LANES), 0, 1);
	NodeId which = make_binary(d, OP_RSHIFT_SCALAR, "digit", lane, arg_int(DIGIT_BITS));
	NodeId shift = make_binary(d, OP_MUL, "shift", which, arg_int(DIGIT_BITS));
	NodeId moved = make_binary(d, OP_RSHIFT, "moved", ids, arg_ref(shift));
	NodeId digit = make_binary(d, OP_BITWISE_AND_SCALAR, "value", moved, arg_int(DIGIT_VALUES - 1));
	NodeId asked = make_binary(d, OP_BITWISE_AND_SCALAR, "asked", lane, arg_int(DIGIT_VALUES - 1));
	NodeId same = make_binary(d, OP_EQ, "same", digit, arg_ref(asked));
	NodeId told = make_converted(d, make_where(d, "told", same, arg_float(equal), arg_float(other)), DTYPE_BF16);
	ExprId dims[RANK_MAX];
	memcpy(dims, factor->dims, factor->count * sizeof *dims);
	dims[factor->count - 1] = expr_int(m, ID_LANES);
	TypeId all = type_tensor(m, DTYPE_BF16, factor->count, dims);
	if (wide.count < factor->count)
		told = make_unsqueezed(d, told, 0, factor->count - wide.count, "unit");
	return type_equal(m, node_get(m, told)->type, all) ? told : make_expanded(d, told, factor->count, dims, "all");
}

/* The factor with the digits behind what it contracts. */
static NodeId make_factor(PassContext *c, const IdMask *x, const Side *s, double equal, double other) {
	Module *m = c->module;
	GraphId g = node_get(m, x->dot)->graph;
	NodeId caller = graph_get(m, g)->caller;
	NodeId factor = s->outside ? constant_argument(m, s->factor)->node : s->factor;
	NodeId ids = s->outside ? constant_argument(m, s->ids)->node : s->ids;
	Decompose d = {c, m, s->outside ? caller : x->choose, false};
	factor = s->swapped ? make_swapped(&d, factor) : factor;
	Type t = *node_type(m, factor);
	NodeId row = s->row ? ids : make_unsqueezed(&d, ids, node_type(m, ids)->count - 1, 1, "row");
	NodeId digits = make_digits(&d, row, &t, equal, other);
	node_rename(m, digits, arena_printf(m->arena, "%s_digits", node_get(m, ids)->name));
	Arg parts[2] = {arg_ref(factor), arg_ref(digits)};
	Arg args[2] = {arg_list(m, 2, parts), arg_int((int64_t)t.count - 1)};
	NodeId both = make_node(&d, OP_CAT, "both", 2, args);
	node_rename(m, both, arena_printf(m->arena, "%s_and_ids", node_get(m, factor)->name));
	return s->outside ? graph_add_argument(m, g, both, node_get(m, both)->name) : both;
}

/* The row's maximum is -inf again where all of it is hidden. */
static void mend_maximum(PassContext *c, NodeId amax, double scale) {
	Module *m = c->module;
	Decompose d = {c, m, node_get(m, amax)->next, false};
	NodeId low = make_binary(&d, OP_LT_SCALAR, "hidden", amax, arg_float(-hidden / 2 * scale));
	NodeId seen = make_where(&d, "seen", low, arg_float(-INFINITY), arg_ref(amax));
	node_replace_uses(m, amax, seen, low);
	arg_set_ref(m, node_get(m, seen)->arg_first + 2, amax);
}

/* What is subtracted is not so low that something hidden would count. */
static void mend_subtrahend(PassContext *c, NodeId sub, double scale) {
	Module *m = c->module;
	Decompose d = {c, m, sub, false};
	NodeId row = node_input(m, sub, 1);
	NodeId none = make_binary(&d, OP_EQ_SCALAR, "none", row, arg_float(-INFINITY));
	NodeId least = make_binary(&d, OP_MAXIMUM, "least", row, arg_float(-hidden / 4 * scale));
	arg_set_ref(m, node_get(m, sub)->arg_first + 1, make_where(&d, "shift", none, arg_float(NAN), arg_ref(least)));
}

static void mend(PassContext *c, NodeId user, double scale) {
	Module *m = c->module;
	switch (node_get(m, user)->op) {
	case OP_MASK_TO:
		for (ArgId u = node_uses(m, user), next; u != NONE; u = next) {
			next = arg_get(m, u)->next_use;
			mend(c, arg_get(m, u)->user, scale);
		}
		break;
	case OP_AMAX: mend_maximum(c, user, scale); break;
	default: mend_subtrahend(c, user, scale);
	}
}

static void rewrite(PassContext *c, IdMask *x) {
	Module *m = c->module;
	pass_remark(c, "id_masks", "%s is told by %s, of %d more elements: where ids are equal they add 0",
	            node_get(m, x->choose)->name, node_get(m, x->dot)->name, ID_LANES);
	NodeId rows = make_factor(c, x, &x->rows, 1, 0);
	NodeId columns = make_factor(c, x, &x->columns, 0, -hidden);
	Decompose d = {c, m, x->choose, false};
	arg_set_ref(m, node_get(m, x->dot)->arg_first, rows);
	arg_set_ref(m, node_get(m, x->dot)->arg_first + 1, make_swapped(&d, columns));
	node_move_before(m, x->dot, x->choose); /* behind the ids */
	if (x->product != x->dot)
		node_move_before(m, x->product, x->choose);
	for (ArgId u = node_uses(m, x->choose), next; u != NONE; u = next) {
		next = arg_get(m, u)->next_use;
		mend(c, arg_get(m, u)->user, x->scale);
	}
	if (x->rest != NONE) {
		NodeId mask = node_input(m, x->choose, 0);
		if (without_units(m, mask) != mask) {
			mask = node_copy(m, mask, x->choose);
			arg_set_ref(m, node_get(m, mask)->arg_first, x->rest);
		} else {
			mask = x->rest;
		}
		arg_set_ref(m, node_get(m, x->choose)->arg_first, mask);
		return;
	}
	node_replace_uses(m, x->choose, x->product, NONE);
	node_remove(m, x->choose);
}

/* Elements of the last two dims of a tile. */
static double elements(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	int64_t rows = 0, columns = 0;
	bool known = expr_value(m, t->dims[t->count - 2], &rows) && expr_value(m, t->dims[t->count - 1], &columns);
	return known ? (double)rows * (double)columns : 0;
}

static bool pays(const Module *m, const IdMask *x) {
	Switch asked = (Switch)m->config.id_masks.value;
	double made = 0;
	for (uint32_t i = 0; i < 2; i++) {
		const Side *s = i ? &x->columns : &x->rows;
		int64_t rows = 0;
		const Type *t = node_type(m, s->factor);
		if (!s->outside && expr_value(m, t->dims[t->count - 2], &rows))
			made += (double)rows * ID_LANES * OPS_OF_DIGIT;
	}
	double saved = elements(m, x->choose) * OPS_OF_MASK;
	return asked == SWITCH_ON || (asked == SWITCH_AUTO && saved > made);
}

bool pass_id_masks(PassContext *c) {
	Module *m = c->module;
	if (!m->target || (Switch)m->config.id_masks.value == SWITCH_OFF)
		return true;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
			IdMask x;
			next = node_get(m, n)->next;
			if (!find(m, n, &x))
				continue;
			if (pays(m, &x))
				rewrite(c, &x);
			else if ((Switch)m->config.id_masks.value == SWITCH_AUTO)
				pass_remark(c, "id_masks", "%s stays: to tell ids by %s costs more than it saves",
				            node_get(m, n)->name, node_get(m, x.dot)->name);
		}
	return true;
}
