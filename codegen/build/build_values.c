/* build_values.c - a node's value as an argument: where it was made, or made here; in the form in which it is read. */
#include "builder.h"
#include "codegen/lower/lower.h"

/* ---- statements ------------------------------------------------------------------------------------------------- */

static void mark(Builder *b, StmtId s) {
	KStmt *stmt = kernel_stmt(b->k, s);
	stmt->from = b->from;
	stmt->also = b->also;
	stmt->flags = b->flags;
}

KArg build_shaped(Builder *b, uint16_t op, Dtype dtype, uint32_t rank, const int64_t *shape, uint32_t arg_count,
                  const KArg *args) {
	ValueId v = kernel_op(b->k, b->at, op, dtype, rank, shape, arg_count, args, 0, NULL);
	mark(b, b->k->values.at[v].def);
	return karg_value(v);
}

KArg build_op(Builder *b, uint16_t op, Dtype dtype, uint32_t arg_count, const KArg *args, uint32_t int_count,
              const int64_t *ints) {
	ValueId v = kernel_op(b->k, b->at, op, dtype, 0, NULL, arg_count, args, int_count, ints);
	mark(b, b->k->values.at[v].def);
	return karg_value(v);
}

StmtId build_statement(Builder *b, uint16_t op, uint32_t arg_count, const KArg *args) {
	StmtId s = kernel_append(b->k, b->at, op, arg_count, args, 0, NULL);
	mark(b, s);
	return s;
}

void build_when(Builder *b, KArg condition, const char *name) {
	StmtId when = build_statement(b, K_WHEN, 1, &condition);
	b->at = kernel_region(b->k, when);
	kernel_stmt(b->k, when)->body = b->at;
	kernel_stmt(b->k, when)->name = name;
}

Dtype karg_dtype(const Builder *b, KArg x) {
	return x.kind == KARG_VALUE ? b->k->values.at[x.value].dtype : DTYPE_NONE;
}

void build_name(Builder *b, KArg x, const char *name) {
	if (x.kind == KARG_VALUE)
		b->k->values.at[x.value].name = name;
}

void build_name_of(Builder *b, KArg x, NodeId n) {
	const Node *node = node_get(b->m, n);
	NodeId operand = node_input(b->m, n, 0);
	build_name(b, x, node->name);
	KArg after = operand == NONE ? (KArg){0} : b->value[value_root(b->plan, operand)];
	bool convert = strncmp(node->name, "convert_element_type", 20) == 0,
	     masked = strncmp(node->name, "_mask_to", 8) == 0;
	if (x.kind != KARG_VALUE || after.kind != KARG_VALUE || (!convert && !masked))
		return;
	b->k->values.at[x.value].after = after.value;
	b->k->values.at[x.value].cut = true;
	b->k->values.at[x.value].suffix = convert ? dtype_brief(node_type(b->m, n)->dtype) : "masked";
}

/* ---- shapes and forms ------------------------------------------------------------------------------------------- */

uint32_t type_rank(const Builder *b, NodeId n) {
	const Type *t = node_type(b->m, n);
	return t->kind == TYPE_TENSOR ? t->count : 0;
}

uint32_t built_shape(const Builder *b, NodeId n, Form form, int64_t *shape) {
	return plan_shape(b->plan, n, form, shape);
}

static KArg full(Builder *b, NodeId n, Form form);
static KArg index_value(Builder *b, NodeId n, Form form);

static KArg turned(Builder *b, NodeId n, KArg x, Form to) {
	static const int64_t new_row[] = {K_ITEM_REST, 0, 0, K_ITEM_NEW, 0, 0, K_ITEM_ALL, 0, 0};
	static const int64_t no_row[] = {K_ITEM_REST, 0, 0, K_ITEM_AT, 0, 0, K_ITEM_ALL, 0, 0};
	bool row = type_rank(b, n) == 1;
	Dtype t = karg_dtype(b, x);
	if (op_lowering(node_get(b->m, n)->op) == LOWER_FULL)
		return full(b, n, to);
	if (op_lowering(node_get(b->m, n)->op) == LOWER_INDEX)
		return index_value(b, n, to);
	if (to == FORM_COLUMN)
		return build_unary(b, K_TO_COLUMN, t, row ? x : build_op(b, K_INDEX, t, 1, &x, 9, new_row));
	x = build_unary(b, K_TO_ROW, t, x);
	return row ? x : build_op(b, K_INDEX, t, 1, &x, 9, no_row);
}

static ValueId converted_find(const Builder *b, uint64_t key) {
	for (uint32_t i = b->converted.count; i-- > 0;)
		if (b->converted.at[i].key == key)
			return b->converted.at[i].value;
	return NONE;
}

/* As what is called a row or a column lies: one that has lost the dim of size 1 lies as a tile does. */
Layout build_layout(const KValue *v, Form form, bool vector) {
	if (v->rank == 0)
		return LAYOUT_SCALAR;
	if (form == FORM_COLUMN && v->shape[v->rank - 1] == 1)
		return LAYOUT_COLUMN;
	bool row = form == FORM_ROW || (form == FORM_NATURAL && vector);
	return row && (v->rank == 1 || v->shape[v->rank - 2] == 1) ? LAYOUT_ROW : LAYOUT_TILE;
}

/* A converted value gets a name, so that it is converted once: that of `view`, a view that is this and no more, or one
 * of its own. */
static KArg value_turned(Builder *b, NodeId n, KArg x, Form to, NodeId view) {
	uint64_t key = ((uint64_t)n * 4 + to) * 2 + (b->flags & KSTMT_AHEAD);
	ValueId found = converted_find(b, key);
	if (found != NONE)
		return karg_value(found);
	KArg y = turned(b, n, x, to);
	if (view != NONE && !b->sunk[view]) {
		build_name_of(b, y, view);
		b->value[view] = y;
	} else {
		build_name(b, y,
		           arena_printf(b->a, "%s_%s", node_get(b->m, n)->name, to == FORM_COLUMN ? "col" : "row"));
	}
	KValue *v = &b->k->values.at[y.value];
	v->layout = build_layout(v, to == FORM_COLUMN ? to : FORM_ROW, true);
	Converted c = {key, y.value};
	vec_push(b->a, &b->converted, c);
	return y;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static KArg int_of_node(Builder *b, NodeId n) {
	Planner p = build_planner(b);
	Arg ref = arg_ref(n);
	Affine a = affine_of_arg(&p, node_get(b->m, n)->graph, &ref);
	return build_int_arg(b, build_affine(b, &a));
}

KArg build_value_for(Builder *b, NodeId n, Form form, NodeId view) {
	NodeId root = value_root(b->plan, n);
	Lowering how = op_lowering(node_get(b->m, root)->op);
	if (node_get(b->m, root)->op == OP_SCALAR)
		return build_runtime_scalar(b, root);
	if (node_type(b->m, root)->kind == TYPE_SYM || how == LOWER_INT)
		return int_of_node(b, root);
	bool is_full = how == LOWER_FULL, constant = is_full && type_rank(b, root) == 0;
	/* An alias's form differs from its root's where a view is free: what counts is the physical shape, its own. */
	bool as_is = type_rank(b, n) == 0 || b->plan->values[n].form == form;
	const Location *from = b->from;
	if (b->sunk[root] && is_full)
		b->from = &node_get(b->m, root)->loc;
	KArg x;
	if (!as_is && is_full && b->sunk[root] && root == n)
		x = full(b, root, form);
	else
		x = constant || b->sunk[root] ? build_node_value(b, root) : b->value[root];
	if (b->sunk[root] && is_full && x.kind != KARG_VALUE)
		b->also = b->from; /* a number is no statement of its own */
	b->from = from;
	if (as_is || (is_full && b->sunk[root] && root == n))
		return x;
	return value_turned(b, n, x, form, view);
}

KArg build_value(Builder *b, NodeId n, Form form) { return build_value_for(b, n, form, NONE); }

KArg build_number(const Module *m, const Arg *a) {
	switch (a->kind) {
	case ARG_FLOAT: return karg_real(a->real);
	case ARG_BOOL: return karg_bool(a->boolean);
	case ARG_SYM: return karg_integer(expr_number(m, a->expr));
	default: return karg_integer(a->integer);
	}
}

KArg build_arg(Builder *b, const Arg *a, Form form) {
	return a->kind == ARG_REF ? build_value(b, a->node, form) : build_number(b->m, a);
}

/* ---- creation --------------------------------------------------------------------------------------------------- */

static KArg full(Builder *b, NodeId n, Form form) {
	Arg value = constant_of(b->m, n);
	Dtype dtype = node_type(b->m, n)->dtype;
	int64_t shape[DIM_MAX];
	uint32_t rank = built_shape(b, n, form, shape);
	bool zero = (value.kind == ARG_FLOAT && value.real == 0 && !(1 / value.real < 0)) ||
	            (value.kind == ARG_INT && value.integer == 0);
	bool one = op_fill(node_get(b->m, n)->op) == FILL_ONES;
	if (zero || one)
		return build_shaped(b, zero ? K_ZEROS : K_ONES, dtype, rank, shape, 0, NULL);
	KArg x = build_arg(b, &value, FORM_NATURAL);
	return build_shaped(b, K_FULL, dtype, rank, shape, 1, &x);
}

static KArg scalar_full(Builder *b, NodeId n) {
	Arg value = constant_of(b->m, n);
	if (constant_is_number(b->m, n))
		return build_number(b->m, &value);
	return build_scalar(b, build_arg(b, &value, FORM_NATURAL), node_type(b->m, n)->dtype);
}

/* In a shape whose dim `dim` is the index's own; the others are 1. */
static KArg index_along(Builder *b, NodeId n, uint32_t rank, const int64_t *shape, uint32_t dim) {
	Planner p = build_planner(b);
	bool query = node_get(b->m, n)->op == OP_TILE_INDEX;
	Affine offset = query ? block_offset(&p, node_get(b->m, n)->graph, query_block(b->m, n)) : affine_int(0);
	int64_t axis = dim;
	KArg x = build_shaped(b, K_IOTA, DTYPE_I32, rank, shape, 0, NULL);
	KStmt *iota = kernel_stmt(b->k, b->k->values.at[x.value].def);
	iota->int_count = 1;
	iota->ints = memcpy(arena_array(b->a, 1, sizeof axis), &axis, sizeof axis);
	if (offset.count == 0 && offset.constant == 0)
		return x;
	return build_binary(b, OP_ADD, DTYPE_I32, build_int_arg(b, build_affine(b, &offset)), x);
}

static KArg index_value(Builder *b, NodeId n, Form form) {
	int64_t shape[DIM_MAX];
	uint32_t rank = built_shape(b, n, form, shape);
	return index_along(b, n, rank, shape, form == FORM_COLUMN ? 0 : 1);
}

KArg build_index_view(Builder *b, NodeId n) {
	NodeId x = value_root(b->plan, node_input(b->m, n, 0));
	int64_t shape[DIM_MAX], length = 1;
	uint32_t rank = built_shape(b, n, b->plan->values[n].form, shape), dim = 0;
	if (op_lowering(node_get(b->m, x)->op) != LOWER_INDEX || op_lanes(node_get(b->m, n)->op) == LANES_EXPAND)
		return (KArg){0};
	for (uint32_t i = 0; i < rank; i++) {
		length *= shape[i];
		dim = shape[i] > 1 ? i : dim;
	}
	return shape[dim] == length ? index_along(b, x, rank, shape, dim) : (KArg){0};
}

/* ---- along dims ------------------------------------------------------------------------------------------------- */

uint16_t build_reduction_op(uint16_t op) {
	switch (op_canonical(op)) {
	case OP_SUM: return K_SUM;
	case OP_MEAN: return K_MEAN;
	case OP_PROD: return K_PROD;
	case OP_MIN: return K_MIN;
	default: return K_MAX;
	}
}

/* dims: of x as it stands in the kernel; none: all of them. */
static KArg reduced_along(Builder *b, uint16_t op, KArg x, Dtype t, uint32_t dims, bool keep) {
	int64_t ints[DIM_MAX + 1] = {keep};
	uint32_t count = 1;
	for (uint32_t i = 0; i < DIM_MAX; i++)
		if (dims >> i & 1)
			ints[count++] = i;
	return build_op(b, op, t, 1, &x, count, ints);
}

/* Of several dims that are reduced, only the last is kept, at size 1: the others go first. */
static KArg last_kept(Builder *b, uint16_t op, KArg x, Dtype t, uint32_t dims) {
	uint32_t last = 0, others = 0;
	for (uint32_t i = 0; i < DIM_MAX; i++)
		last = dims >> i & 1 ? i : last;
	for (uint32_t i = 0; i < last; i++)
		others += dims >> i & 1;
	if (others)
		x = reduced_along(b, op, x, t, dims & ~(1u << last), false);
	return reduced_along(b, op, x, t, 1u << (last - others), true);
}

static KArg reduced(Builder *b, NodeId n, KArg x, Dtype from) {
	const Value *v = &b->plan->values[n];
	uint32_t rank = type_rank(b, node_input(b->m, n, 0));
	uint32_t dims = reduction_dims(b->m, n) << (rank == 1 && v->wants == FORM_NATURAL);
	uint16_t op = build_reduction_op(node_get(b->m, n)->op);
	if (v->form == FORM_ROW && rank >= 2) {
		static const int64_t last_two[] = {-1, -2};
		return reduced_along(b, op, build_op(b, K_SWAPAXES, from, 1, &x, 2, last_two), from, 1u << (rank - 2),
		                     true);
	}
	/* A column's own last dim is never reduced; a rank-1 result keeps a dim so that it stays a row or a column. */
	bool stays_column = v->form == FORM_COLUMN && v->wants == FORM_COLUMN;
	bool keep_one = !stays_column && (v->form == FORM_COLUMN || type_rank(b, n) == 1);
	if (type_rank(b, n) == 0)
		x = reduced_along(b, op, x, from, 0, false);
	else if (!reduction_keeps_dims(b->m, n) && keep_one)
		x = last_kept(b, op, x, from, dims);
	else
		x = reduced_along(b, op, x, from, dims, reduction_keeps_dims(b->m, n));
	Dtype dtype = node_type(b->m, n)->dtype;
	return from == dtype ? x : build_as(b, x, dtype);
}

/* In which dtype n's operand comes to it. */
static Dtype comes_in(const Builder *b, NodeId n) {
	const Value *v = &b->plan->values[n];
	return v->compute != DTYPE_NONE ? v->compute : node_type(b->m, node_input(b->m, n, 0))->dtype;
}

/* What the strips add up is what its operand was converted from. */
static void mark_narrow(Builder *b, NodeId n, KArg y) {
	const Strips *s = b->plan->strips;
	if (!s->folds[n] || s->folded[n] == value_root(b->plan, node_input(b->m, n, 0)))
		return;
	KStmt *stmt = kernel_stmt(b->k, b->k->values.at[y.value].def);
	while (stmt->op != K_MAX && stmt->op != K_MIN)
		stmt = kernel_stmt(b->k, b->k->values.at[b->k->args.at[stmt->arg_first].value].def);
	stmt->flags |= KSTMT_NARROW;
}

/* Of all lanes, one step ahead; where the step makes its choices, of what is chosen. */
static KArg reduction_of_both(Builder *b, NodeId n) {
	const Value *v = &b->plan->values[n];
	NodeId choice = value_root(b->plan, node_input(b->m, n, 0));
	KArg chosen = build_computed(b, node_arg(b->m, n, 0), v->wants, v->compute);
	b->flags = KSTMT_AHEAD;
	KArg all = reduced(b, n, build_computed(b, node_arg(b->m, choice, 1), v->wants, v->compute), comes_in(b, n));
	build_name_of(b, all, n);
	b->flags = 0;
	KArg some = reduced(b, n, chosen, comes_in(b, n));
	const KArg both[] = {karg_value(b->flag), some, all};
	return build_op(b, K_CHOOSE, node_type(b->m, n)->dtype, 3, both, 0, NULL);
}

static KArg reduction(Builder *b, NodeId n) {
	const Value *v = &b->plan->values[n];
	if (v->seldom)
		return reduction_of_both(b, n);
	KArg x = build_computed(b, node_arg(b->m, n, 0), v->wants, v->compute);
	KArg y = reduced(b, n, x, comes_in(b, n));
	if (b->plan->strips)
		mark_narrow(b, n, y);
	return y;
}

static KArg scan(Builder *b, NodeId n) {
	const Value *v = &b->plan->values[n];
	int64_t dim = op_arg(b->m, n, "dim")->integer;
	uint32_t rank = type_rank(b, node_input(b->m, n, 0));
	dim += (dim < 0 ? rank : 0) + (rank == 1); /* a row is [1, n] */
	KArg x = build_computed(b, node_arg(b->m, n, 0), v->wants, v->compute);
	if (node_get(b->m, n)->op == OP_SORT) {
		const int64_t ints[2] = {dim, op_arg(b->m, n, "descending")->boolean};
		return build_op(b, K_SORT, DTYPE_I32, 1, &x, 2, ints);
	}
	Dtype from = comes_in(b, n), to = node_type(b->m, n)->dtype;
	x = build_op(b, node_get(b->m, n)->op == OP_CUMSUM ? K_CUMSUM : K_CUMPROD, from, 1, &x, 1, &dim);
	return from == to ? x : build_as(b, x, to);
}

/* Values, or their places, of what a sort gives. */
static KArg sorted_element(Builder *b, NodeId n) {
	NodeId sort = node_input(b->m, n, 0);
	int64_t element = node_arg(b->m, n, 1)->integer, item[3] = {K_ITEM_AT, element, 0};
	Dtype from = element == 0 ? comes_in(b, sort) : DTYPE_I32, to = node_type(b->m, n)->dtype;
	KArg x = build_op(b, K_INDEX, DTYPE_I32, 1, &b->value[sort], 3, item);
	if (from != DTYPE_I32)
		x = build_unary(b, K_BITCAST, from, x);
	return from == to ? x : build_converted(b, x, from, to);
}

/* ---- matmuls ---------------------------------------------------------------------------------------------------- */

static bool number_is(const Arg *a, double x) {
	return (a->kind == ARG_INT && (double)a->integer == x) || (a->kind == ARG_FLOAT && a->real == x) ||
	       a->kind == ARG_NULL;
}

static KArg scaled(Builder *b, KArg x, const Arg *factor, Dtype t) {
	return number_is(factor, 1) ? x : build_binary(b, OP_MUL, t, x, build_number(b->m, factor));
}

/* ints: the attributes of the product, to which it adds those of the factor. */
static KArg factor(Builder *b, NodeId n, NodeId x, int which, int64_t *ints, uint32_t *count) {
	KArg tile = build_value(b, x, FORM_NATURAL);
	Factor how = b->plan->values[n].factor[which];
	if (how == FACTOR_NAN)
		ints[(*count)++] = which;
	return how == FACTOR_WIDE ? build_as(b, tile, DTYPE_BF16) : tile;
}

/* The tile as a sum of two of bfloat16, which hold 16 bits of its 24. Beside an infinity is a NaN. */
typedef struct Halves {
	KArg high, low;
} Halves;

static Halves halved(Builder *b, KArg tile, const char *name) {
	Halves x = {.high = build_converted(b, tile, DTYPE_F32, DTYPE_BF16)};
	build_name(b, x.high, arena_printf(b->a, "%s_high", name));
	KArg rest = build_binary(b, OP_SUB, DTYPE_F32, tile, build_converted(b, x.high, DTYPE_BF16, DTYPE_F32));
	x.low = build_converted(b, rest, DTYPE_F32, DTYPE_BF16);
	build_name(b, x.low, arena_printf(b->a, "%s_low", name));
	return x;
}

static KArg dot(Builder *b, KArg x, KArg y, Dtype sum, uint32_t count, const int64_t *ints) {
	const KArg args[2] = {x, y};
	return build_op(b, K_DOT, sum, 2, args, count, ints);
}

/* Of two float32 tiles, in three passes: what the low halves give together is below 2^-16 of the product. The small
 * ones are added first. */
static KArg product_of_halves(Builder *b, NodeId x, NodeId y, const KArg *tile, uint32_t count, const int64_t *ints) {
	Halves left = halved(b, tile[0], node_get(b->m, x)->name);
	Halves right = x == y ? left : halved(b, tile[1], node_get(b->m, y)->name);
	KArg low_high = dot(b, left.low, right.high, DTYPE_F32, count, ints);
	KArg high_low = dot(b, left.high, right.low, DTYPE_F32, count, ints);
	KArg small = build_binary(b, OP_ADD, DTYPE_F32, low_high, high_low);
	KArg high_high = dot(b, left.high, right.high, DTYPE_F32, count, ints);
	return build_binary(b, OP_ADD, DTYPE_F32, small, high_high);
}

static KArg product(Builder *b, NodeId n, NodeId x, NodeId y, Dtype sum) {
	const Value *v = &b->plan->values[n];
	bool floats = node_type(b->m, x)->dtype == DTYPE_F32 && node_type(b->m, y)->dtype == DTYPE_F32;
	DotPrecision precision = floats ? (DotPrecision)b->m->config.dot_precision.value : DOT_DEFAULT;
	uint32_t rank = type_rank(b, x);
	int64_t ints[5] = {v->transpose_a ? rank - 2 : rank - 1, v->transpose_b ? rank - 1 : rank - 2,
	                   precision == DOT_HIGHEST};
	uint32_t count = 3;
	KArg args[2];
	args[0] = factor(b, n, x, 0, ints, &count);
	args[1] = factor(b, n, y, 1, ints, &count);
	return precision == DOT_HIGH ? product_of_halves(b, x, y, args, count, ints)
	                             : dot(b, args[0], args[1], sum, count, ints);
}

static KArg matmul(Builder *b, NodeId n) {
	const Node *node = node_get(b->m, n);
	NodeId x = matmul_operand(b->m, n, 0), added = matmul_operand(b->m, n, 2);
	Dtype to = node_type(b->m, n)->dtype, sum = dtype_of_sums(node_type(b->m, x)->dtype);
	KArg made = product(b, n, x, matmul_operand(b->m, n, 1), sum);
	if (added == NONE)
		return to == sum ? made : build_as(b, made, to);
	/* The product has a name of its own: the sum reads like the source. */
	build_name(b, made, arena_printf(b->a, "%s_dot", node->name));
	uint32_t beta = node->arg_count >= 5 ? node->arg_count - 2 : 0;
	Dtype t = node_type(b->m, added)->dtype, both = dtype_promote(sum, t);
	bool fp8 = dtype_is_float(t) && dtype_bits(t) == 8; /* which jnp does not promote */
	Arg bias = arg_ref(added);
	KArg left = build_computed(b, &bias, FORM_NATURAL, fp8 ? sum : DTYPE_NONE), right = made;
	if (beta && node->op != OP_DOT) {
		left = scaled(b, left, node_arg(b->m, n, beta), fp8 ? sum : t);
		right = scaled(b, right, node_arg(b->m, n, beta + 1), sum);
	}
	KArg e = build_binary(b, OP_ADD, both, left, right);
	return to == both ? e : build_as(b, e, to);
}

/* ---- ints ------------------------------------------------------------------------------------------------------- */

/* A scalar int that the kernel computes. */
static KArg int_value_of(Builder *b, NodeId n) {
	Planner p = build_planner(b);
	const Node *node = node_get(b->m, n);
	KArg operands[2];
	if (node->op == OP_TILE_END) {
		BlockId block = query_block(b->m, n);
		Affine offset = block_offset(&p, node->graph, block), end = {0};
		bool peeled;
		block_ragged(&p, node->graph, block, &end, &peeled);
		Affine next = affine_add(b->a, offset, affine_int(block_size(&p, block)));
		operands[0] = build_int_arg(b, build_affine(b, &next));
		operands[1] = build_int_arg(b, build_affine(b, &end));
		return build_op(b, OP_MINIMUM, DTYPE_I32, 2, operands, 0, NULL);
	}
	if (node->op == OP_TILE_ID) { /* of a tile that begins anywhere */
		BlockId block = query_block(b->m, n);
		Affine offset = block_offset(&p, node->graph, block), size = affine_int(block_size(&p, block));
		operands[0] = build_int_arg(b, build_affine(b, &offset));
		operands[1] = build_int_arg(b, build_affine(b, &size));
		return build_op(b, op_canonical(OP_SYM_FLOORDIV), DTYPE_I32, 2, operands, 0, NULL);
	}
	if (node->op == OP_TILE_NUM) { /* of a range that may be empty */
		BlockId block = query_block(b->m, n);
		Affine length = block_length(&p, node->graph, block);
		int64_t size = block_size(&p, block);
		IntId all = int_binary(b->k, INT_MAX, build_affine(b, &length), int_const(b->k, 0));
		all = int_binary(b->k, INT_ADD, all, int_const(b->k, size - 1));
		return build_int_arg(b, int_binary(b->k, INT_DIV, all, int_const(b->k, size)));
	}
	if (node->op == OP_DEVICE_ID) {
		StmtId s = kernel_append(b->k, b->at, K_DEVICE_ID, 0, NULL, 0, NULL);
		return karg_value(kernel_result(b->k, s, KTYPE_INT, DTYPE_I32, 0, NULL, NULL));
	}
	uint32_t count = node->arg_count < 2 ? node->arg_count : 2;
	for (uint32_t i = 0; i < count; i++)
		operands[i] = build_arg(b, node_arg(b->m, n, i), FORM_NATURAL);
	Dtype t = op_row(node->op)->dtype == RULE_BOOL ? DTYPE_BOOL : DTYPE_I32;
	return build_op(b, op_canonical(node->op), t, count, operands, 0, NULL);
}

/* ---- any node --------------------------------------------------------------------------------------------------- */

static KArg node_value(Builder *b, NodeId n) {
	switch (op_lowering(node_get(b->m, n)->op)) {
	case LOWER_INT: return int_value_of(b, n);
	case LOWER_POINTWISE: return build_pointwise(b, n);
	case LOWER_REDUCE: return reduction(b, n);
	case LOWER_SCAN: return scan(b, n);
	case LOWER_RESULT: return sorted_element(b, n);
	case LOWER_VIEW: return build_view(b, n);
	case LOWER_MOVE: return build_move(b, n);
	case LOWER_MATMUL: return matmul(b, n);
	case LOWER_FULL: return type_rank(b, n) == 0 ? scalar_full(b, n) : full(b, n, b->plan->values[n].form);
	case LOWER_INDEX: return index_value(b, n, b->plan->values[n].form);
	case LOWER_LOAD: return build_load(b, n);
	default: return (KArg){0};
	}
}

KArg build_node_value(Builder *b, NodeId n) {
	KArg x = node_value(b, n);
	if (x.kind == KARG_VALUE && type_rank(b, n) > 0) {
		KValue *v = &b->k->values.at[x.value];
		v->layout = build_layout(v, b->plan->values[n].form, type_rank(b, n) == 1);
	}
	return x;
}
