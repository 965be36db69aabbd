/* shapes.c - shape inference: a node's type from its arguments' types, by the shape rule of its op's row. Here are the
 * dispatch, the reading of arguments, and the rules of pointwise ops; the other families are in shapes_*.c. */
#include "infer.h"
#include "verify.h"

static InferRule *const rules[SHAPE_RULE_COUNT] = {
#define SHAPE_RULE(e, function) [SHAPE_##e] = function,
#include "shape_rules.def"
#undef SHAPE_RULE
};

bool op_infer(Module *m, Diag *d, NodeId n, TypeId *type) {
	const Infer in = {m, d, n};
	return infer_check_categories(&in) && rules[op_row(node_get(m, n)->op)->shape](&in, type);
}

/* ---- diagnostics ------------------------------------------------------------------------------------------------- */

bool infer_error(const Infer *in, const char *code, const char *hint, const char *fmt, ...) {
	const Node *node = node_get(in->m, in->n);
	va_list ap;
	va_start(ap, fmt);
	const char *what = arena_vprintf(in->m->arena, fmt, ap);
	va_end(ap);
	const char *made = "";
	if (node->origin == NONE) /* nothing in the document to point at: say where it is */
		made = arena_printf(in->m->arena, " (made by a pass in graph %lld)",
		                    (long long)graph_get(in->m, node->graph)->id);
	diag_error(in->d, node_place(in->m, in->d, in->n), code, hint, "%s '%s'%s: %s", op_row(node->op)->target,
	           node->name, made, what);
	operands_relate(in->m, in->d, in->n);
	return false;
}

const char *shape_string(const Infer *in, const Shape *s) {
	Text out;
	text_init(&out, in->m->arena);
	text_put(&out, "[");
	for (uint32_t i = 0; i < s->rank; i++) {
		text_put(&out, i ? ", " : "");
		if (s->dims[i] == NONE)
			text_put(&out, "?");
		else
			expr_print(in->m, s->dims[i], &out);
	}
	text_put(&out, "]");
	return out.at;
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static Operand operand_number(Dtype dtype) { return (Operand){.weak = true, .dtype = dtype}; }

static bool operand_of_node(const Infer *in, NodeId value, Operand *operand) {
	Type t = *node_type(in->m, value);
	switch (t.kind) {
	case TYPE_TENSOR:
		/* Python's operators on host scalars make Python numbers again. */
		*operand = (Operand){.dtype = t.dtype, .shape.rank = t.count};
		operand->weak = node_get(in->m, value)->op == OP_SCALAR ||
		                (t.count == 0 && op_kind(in->m, value) == KIND_SYMBOLIC);
		memcpy(operand->shape.dims, t.dims, sizeof t.dims);
		return true;
	case TYPE_SYM: *operand = operand_number(t.dtype); return true;
	case TYPE_NONE:
	case TYPE_TUPLE: break;
	}
	return infer_error(in, "bad-operand", t.kind == TYPE_TUPLE ? "take one element with getitem" : NULL,
	                   "operand '%s' is %s, not a tensor or number", node_get(in->m, value)->name,
	                   t.kind == TYPE_TUPLE ? "a tuple" : "a node without a value");
}

bool infer_operand(const Infer *in, const Arg *arg, Operand *operand) {
	switch (arg->kind) {
	case ARG_NULL: *operand = (Operand){.absent = true, .dtype = DTYPE_NONE}; return true;
	case ARG_BOOL: *operand = operand_number(DTYPE_BOOL); return true;
	case ARG_INT:
	case ARG_SYM:
	case ARG_BLOCK: *operand = operand_number(DTYPE_I32); return true;
	case ARG_FLOAT: *operand = operand_number(DTYPE_F32); return true;
	case ARG_REF: return operand_of_node(in, arg->node, operand);
	default:
		return infer_error(in, "bad-operand", "give {\"ref\": NODE}, an expression or a number",
		                   "an argument is neither a value nor a number");
	}
}

bool infer_tensor(const Infer *in, const char *name, Operand *operand) {
	const Arg *arg = op_arg(in->m, in->n, name);
	if (arg->kind != ARG_REF)
		return infer_error(in, "bad-operand", NULL, "argument `%s` must refer to a tensor", name);
	return infer_operand(in, arg, operand);
}

/* A list of operands (X), or one. */
static bool visit_operands(const Infer *in, const Arg *arg, uint32_t param, OperandVisitor *visit, void *context) {
	Operand operand = {0};
	uint32_t count = arg->kind == ARG_LIST ? arg->list.count : 1;
	for (uint32_t i = 0; i < count; i++) {
		const Arg *item = arg->kind == ARG_LIST ? arg_item(in->m, arg, i) : arg;
		if (!infer_operand(in, item, &operand))
			return false;
		if (!operand.absent && !visit(in, context, param, &operand))
			return false;
	}
	return true;
}

bool infer_each_operand(const Infer *in, OperandVisitor *visit, void *context) {
	OpParam param;
	uint32_t index = 0;
	const char *at = op_row(node_get(in->m, in->n)->op)->params;
	for (; (at = op_param_next(at, &param)) != NULL; index++) {
		bool is_operand = param.letter == 'x' || param.letter == 't' || param.letter == 'X';
		if (is_operand && !visit_operands(in, node_arg(in->m, in->n, index), index, visit, context))
			return false;
	}
	return true;
}

/* ---- sizes and dims ---------------------------------------------------------------------------------------------- */

ExprId arg_expr(Module *m, const Arg *arg) {
	switch (arg->kind) {
	case ARG_INT: return expr_int(m, arg->integer);
	case ARG_SYM: return arg->expr;
	case ARG_BLOCK: return expr_block(m, arg->block);
	case ARG_REF: {
		const Type *t = node_type(m, arg->node);
		return t->kind == TYPE_SYM && t->dtype != DTYPE_BOOL ? t->sym : NONE;
	}
	default: return NONE;
	}
}

bool infer_size(const Infer *in, const Arg *arg, ExprId *size) {
	*size = arg_expr(in->m, arg);
	if (*size != NONE)
		return true;
	if (arg->kind == ARG_REF)
		return infer_error(in, "size-at-run-time", "sizes are ints, block symbols or tunables",
		                   "size '%s' is known only at run time", node_get(in->m, arg->node)->name);
	return infer_error(in, "bad-argument", "such as 128, {\"sym\": \"u0\"} or {\"ref\": NODE} of a symbolic int",
	                   "a size must be an int or an expression");
}

bool infer_number(const Infer *in, const Arg *arg, int64_t *value) {
	ExprId size;
	if (!infer_size(in, arg, &size))
		return false;
	return expr_value(in->m, size, value) ||
	       infer_error(in, "size-unknown", NULL, "`%s` has no value under the configuration",
	                   expr_string(in->m, size));
}

bool infer_dim(const Infer *in, const Arg *arg, uint32_t rank, uint32_t *dim) {
	int64_t value, limit = rank == 0 ? 1 : rank;
	if (!infer_number(in, arg, &value))
		return false;
	if (value < -limit || value >= limit)
		return infer_error(in, "dim-out-of-range", "dims are counted from 0, or from -1 back",
		                   "dim %lld is not in a value of rank %u", (long long)value, rank);
	*dim = (uint32_t)(value < 0 ? value + limit : value);
	return true;
}

bool infer_dim_set(const Infer *in, const Arg *arg, uint32_t rank, bool set[RANK_MAX]) {
	bool is_list = arg->kind == ARG_LIST;
	bool all = arg->kind == ARG_NULL || (is_list && arg->list.count == 0);
	for (uint32_t i = 0; i < RANK_MAX; i++)
		set[i] = all;
	for (uint32_t i = 0; !all && i < (is_list ? arg->list.count : 1); i++) {
		uint32_t dim;
		if (!infer_dim(in, is_list ? arg_item(in->m, arg, i) : arg, rank, &dim))
			return false;
		if (set[dim])
			return infer_error(in, "bad-argument", NULL, "dim %u is named twice", dim);
		set[dim] = true;
	}
	return true;
}

bool infer_shape_list(const Infer *in, const char *name, Shape *shape) {
	const Arg *list = op_arg(in->m, in->n, name);
	bool is_list = list->kind == ARG_LIST;
	shape->rank = 0;
	for (uint32_t i = 0; i < (is_list ? list->list.count : 1); i++) {
		ExprId size;
		int64_t value = 0;
		if (!infer_size(in, is_list ? arg_item(in->m, list, i) : list, &size))
			return false;
		if (expr_as_block(in->m, size) != NONE)
			value = 1; /* some size, and none that means something else */
		else if (expr_value(in->m, size, &value) && value < -1)
			return infer_error(in, "bad-argument", NULL, "size %lld is negative", (long long)value);
		if (!shape_push(in, shape, value == -1 ? NONE : size))
			return false;
	}
	return true;
}

bool infer_flag(const Infer *in, const char *name) {
	const Arg *arg = op_arg(in->m, in->n, name);
	return arg->kind == ARG_BOOL && arg->boolean;
}

/* ---- values passed along ----------------------------------------------------------------------------------------- */

TypeId arg_type(Module *m, const Arg *arg) {
	switch (arg->kind) {
	case ARG_REF: return node_get(m, arg->node)->type;
	case ARG_BOOL: return type_sym(m, DTYPE_BOOL, NONE);
	case ARG_FLOAT: return type_tensor(m, DTYPE_F32, 0, NULL);
	case ARG_INT:
	case ARG_SYM:
	case ARG_BLOCK: return type_sym(m, DTYPE_I32, arg_expr(m, arg));
	default: return type_none(m);
	}
}

/* Where torch gives int64 (sums and positions of ints, Python's ints) a document may say int32, which wraps around. */
static bool is_32_or_64(Dtype t) { return t == DTYPE_I32 || t == DTYPE_I64; }

bool type_admits(Module *m, TypeId declared, TypeId value) {
	if (declared == value)
		return true;
	Type a = *type_get(m, declared), b = *type_get(m, value);
	bool empty_a = a.kind == TYPE_NONE || (a.kind == TYPE_TUPLE && a.count == 0);
	bool empty_b = b.kind == TYPE_NONE || (b.kind == TYPE_TUPLE && b.count == 0);
	if (empty_a || empty_b)
		return empty_a && empty_b;
	if (a.kind != b.kind || a.count != b.count)
		return false;
	if (a.kind == TYPE_SYM) /* a bool's expression is not inferred */
		return a.dtype == b.dtype && (a.sym == NONE || a.dtype == DTYPE_BOOL || type_equal(m, declared, value));
	if (a.kind == TYPE_TENSOR)
		return type_equal(m, declared, value) ||
		       (is_32_or_64(a.dtype) && is_32_or_64(b.dtype) &&
		        type_equal(m, declared, type_tensor(m, a.dtype, b.count, b.dims)));
	for (uint32_t i = 0; i < a.count; i++)
		if (!type_admits(m, a.elements[i], b.elements[i]))
			return false;
	return true;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

bool shape_push(const Infer *in, Shape *s, ExprId dim) {
	if (s->rank == RANK_MAX)
		return infer_error(in, "rank-too-high", "merge dims before", "a value has more than %d dims", RANK_MAX);
	s->dims[s->rank++] = dim;
	return true;
}

bool shape_elements(Module *m, const Shape *s, int64_t *elements) {
	int64_t product = 1, size;
	for (uint32_t i = 0; i < s->rank; i++)
		if (!expr_value(m, s->dims[i], &size) || !checked_mul(product, size, &product))
			return false;
	*elements = product;
	return true;
}

/* A literal 1 gives way first, so that block symbols of value 1 stay; then a 1 by value. Of two equal dims the block
 * symbol stays, for lanes are masked by it. */
bool dim_broadcast(Module *m, ExprId a, ExprId b, ExprId *dim) {
	int64_t value;
	if (expr_is_int(m, a, 1))
		*dim = b;
	else if (expr_is_int(m, b, 1))
		*dim = a;
	else if (expr_equal(m, a, b))
		*dim = expr_as_block(m, a) == NONE && expr_as_block(m, b) != NONE ? b : a;
	else if (expr_value(m, a, &value) && value == 1)
		*dim = b;
	else if (expr_value(m, b, &value) && value == 1)
		*dim = a;
	else
		return false;
	return true;
}

bool shape_broadcast(const Infer *in, Shape *into, const Shape *other) {
	Shape a = *into, b = *other, *longer = a.rank >= b.rank ? &a : &b, *shorter = longer == &a ? &b : &a;
	*into = *longer;
	uint32_t offset = longer->rank - shorter->rank;
	for (uint32_t i = 0; i < shorter->rank; i++)
		if (!dim_broadcast(in->m, longer->dims[offset + i], shorter->dims[i], &into->dims[offset + i]))
			return infer_error(
				in, "shape-mismatch",
				"sizes match if they are the same expression, or 1; aten.unsqueeze.default adds a dim",
				"operands of shapes %s and %s do not broadcast", shape_string(in, &a),
				shape_string(in, &b));
	return true;
}

static bool dim_is_one(Module *m, ExprId dim) {
	int64_t value;
	return expr_value(m, dim, &value) && value == 1;
}

bool shape_fits(Module *m, const Shape *value, const Shape *into) {
	uint32_t extra = value->rank > into->rank ? value->rank - into->rank : 0;
	for (uint32_t i = 0; i < extra; i++)
		if (!dim_is_one(m, value->dims[i]))
			return false;
	uint32_t offset = into->rank - (value->rank - extra);
	for (uint32_t i = extra; i < value->rank; i++) {
		ExprId place = into->dims[offset + i - extra], dim = value->dims[i];
		if (place != NONE && !expr_equal(m, dim, place) && !dim_is_one(m, dim))
			return false;
	}
	return true;
}

/* ---- results and the pointwise rules ----------------------------------------------------------------------------- */

bool infer_result(const Infer *in, const Shape *shape, TypeId *type) {
	Dtype dtype = DTYPE_NONE;
	if (!infer_dtype(in, &dtype))
		return false;
	for (uint32_t d = 0; d < shape->rank; d++)
		if (shape->dims[d] != NONE && expr_overflows(in->m, shape->dims[d]))
			return infer_error(in, "size-overflow", NULL, "the size of dim %u overflows or divides by zero",
			                   d);
	*type = type_tensor(in->m, dtype, shape->rank, shape->dims);
	return true;
}

void infer_pair(const Infer *in, Dtype a, Dtype b, const Shape *shape, TypeId *type) {
	TypeId both[] = {type_tensor(in->m, a, shape->rank, shape->dims),
	                 type_tensor(in->m, b, shape->rank, shape->dims)};
	*type = type_tuple(in->m, 2, both);
}

bool infer_none(const Infer *in, TypeId *type) {
	*type = type_none(in->m);
	return true;
}

bool infer_declared(const Infer *in, TypeId *type) {
	*type = node_get(in->m, in->n)->type;
	return true;
}

static bool broadcast_operand(const Infer *in, void *context, uint32_t param, const Operand *operand) {
	(void)param;
	return shape_broadcast(in, context, &operand->shape);
}

/* gelu's `approximate` is a word of two. */
static bool check_approximate(const Infer *in) {
	const Arg *a = op_arg(in->m, in->n, "approximate");
	if (!a || a->kind != ARG_STRING || strcmp(a->string, "none") == 0 || strcmp(a->string, "tanh") == 0)
		return true;
	return infer_error(in, "bad-argument", "give \"none\" or \"tanh\"", "approximate is '%s'", a->string);
}

bool infer_broadcast(const Infer *in, TypeId *type) {
	Shape shape = {0};
	return check_approximate(in) && infer_each_operand(in, broadcast_operand, &shape) &&
	       infer_result(in, &shape, type);
}

/* The first operand's shape; where it has a `dim` or `dims`, these must be dims of it. */
bool infer_same(const Infer *in, TypeId *type) {
	Operand self = {0};
	bool set[RANK_MAX] = {false};
	if (!infer_operand(in, node_arg(in->m, in->n, 0), &self))
		return false;
	const Arg *dim = op_arg(in->m, in->n, "dim"), *dims = op_arg(in->m, in->n, "dims");
	if (!infer_dim_set(in, dim, self.shape.rank, set) || !infer_dim_set(in, dims, self.shape.rank, set))
		return false;
	return infer_result(in, &self.shape, type);
}

bool infer_mask(const Infer *in, TypeId *type) {
	Operand x = {0}, value = {0};
	if (!infer_tensor(in, "x", &x) || !infer_operand(in, op_arg(in->m, in->n, "value"), &value))
		return false;
	if (!shape_fits(in->m, &value.shape, &x.shape))
		return infer_error(
			in, "shape-mismatch",
			"sizes match if they are the same expression, or 1; aten.unsqueeze.default adds a dim",
			"value of shape %s does not broadcast to %s", shape_string(in, &value.shape),
			shape_string(in, &x.shape));
	return infer_result(in, &x.shape, type);
}
