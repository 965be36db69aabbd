/* decompose_combine.c - scans and reductions with a function: its combine graph stands in straight code, once for each
 * doubling of what a lane has combined.
 *
 *     y = associative_scan f, x      =>      left = roll x, [1]
 *                                            x = where place >= 1, f left x, x
 *                                            left = roll x, [2]
 *                                            x = where place >= 2, f left x, x         ...
 *
 * From the end on, and in a reduction, lanes come from the other side; the first one of a reduction has combined all.
 * Operands stay in the order of their lanes: f is associative, and need not commute. */
#include "decompose.h"

enum { VALUES_MAX = 16 };

typedef struct Combine {
	Decompose *d;
	GraphId graph;
	uint32_t count; /* of values that are combined together */
	NodeId value[VALUES_MAX];
	uint32_t dim;
	int64_t size;
	bool from_end; /* lanes combine with those after them */
	bool is_scan;
	NodeId place; /* 0, 1, ... along the dim */
} Combine;

/* ---- the function ------------------------------------------------------------------------------------------------ */

static bool is_number(const Type *t) { return t->kind == TYPE_TENSOR && t->count <= 1; }

/* Nodes of one lane each, which mean the same of whole tiles. */
static bool is_lane_by_lane(const Module *m, GraphId g) {
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		uint16_t op = node_get(m, n)->op;
		bool constant = op_kind(m, n) == KIND_CREATION && op_lowering(op) == LOWER_FULL;
		bool pointwise = op_kind(m, n) == KIND_POINTWISE && op_lowering(op) != LOWER_PARTS;
		bool given = op == OP_PLACEHOLDER || op == OP_SCALAR;
		if (op != OP_OUTPUT && ((!constant && !pointwise && !given) || !is_number(node_type(m, n))))
			return false;
	}
	return true;
}

static Arg mapped(Module *m, const NodeId *copies, const Arg *a) {
	return a->kind == ARG_REF ? arg_ref(copies[a->node]) : arg_copy(m, *a);
}

/* The combine graph's results on whole tiles; false if one has another dtype there. */
static bool call(Combine *f, const NodeId *left, const NodeId *right, Arg *results) {
	Module *m = f->d->m;
	const Graph *graph = graph_get(m, f->graph);
	NodeId *copies = arena_array(f->d->c->arena, m->nodes.count, sizeof *copies);
	for (uint32_t i = 0; i < f->count; i++) {
		copies[graph->placeholders.at[i]] = left[i];
		copies[graph->placeholders.at[f->count + i]] = right[i];
	}
	for (NodeId n = graph_first(m, f->graph); n != NONE; n = node_get(m, n)->next) {
		if (node_get(m, n)->op == OP_PLACEHOLDER || node_get(m, n)->op == OP_OUTPUT)
			continue;
		Arg args[PARAMS_MAX];
		uint32_t count = node_get(m, n)->arg_count;
		for (uint32_t i = 0; i < count; i++)
			args[i] = mapped(m, copies, node_arg(m, n, i));
		copies[n] = make_node(f->d, node_get(m, n)->op, node_get(m, n)->name, count, args);
		if (f->d->failed || node_type(m, copies[n])->dtype != node_type(m, n)->dtype)
			return false;
	}
	for (uint32_t i = 0; i < f->count; i++)
		results[i] = mapped(m, copies, arg_item(m, graph_results(m, f->graph), i));
	return true;
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

/* Each lane is the one `distance` before it. */
static NodeId rolled(Combine *f, NodeId x, int64_t distance) {
	Module *m = f->d->m;
	Dtype dtype = node_type(m, x)->dtype;
	Arg shift = arg_int(distance), dim = arg_int(f->dim);
	x = dtype == DTYPE_BOOL ? make_converted(f->d, x, DTYPE_I32) : x;
	Arg args[3] = {arg_ref(x), arg_list(m, 1, &shift), arg_list(m, 1, &dim)};
	x = make_node(f->d, OP_ROLL, "others", 3, args);
	return dtype == DTYPE_BOOL ? make_binary(f->d, OP_NE_SCALAR, "others", x, arg_int(0)) : x;
}

/* A lane that has combined `step` lanes combines twice as many, or what there is. */
static bool combine_step(Combine *f, int64_t step) {
	NodeId other[VALUES_MAX];
	Arg results[VALUES_MAX];
	for (uint32_t i = 0; i < f->count; i++)
		other[i] = rolled(f, f->value[i], f->from_end ? -step : step);
	if (!call(f, f->is_scan ? other : f->value, f->is_scan ? f->value : other, results))
		return false;
	NodeId there = f->from_end ? make_binary(f->d, OP_LT_SCALAR, "there", f->place, arg_int(f->size - step))
	                           : make_binary(f->d, OP_GE_SCALAR, "there", f->place, arg_int(step));
	for (uint32_t i = 0; i < f->count; i++)
		f->value[i] = make_where(f->d, "combined", there, results[i], arg_ref(f->value[i]));
	return !f->d->failed;
}

static bool combine_dim(Combine *f, uint32_t dim) {
	Module *m = f->d->m;
	Type t = *node_type(m, f->value[0]);
	f->dim = dim;
	if (!expr_value(m, t.dims[dim], &f->size))
		return false;
	m->settled = m->settled || m->exprs.at[t.dims[dim]].kind != EXPR_INT;
	f->place = f->size > 1 ? make_iota(f->d, t.dims[dim], dim, t.count) : NONE;
	for (int64_t step = 1; step < f->size; step *= 2)
		if (!combine_step(f, step))
			return false;
	return true;
}

/* ---- the ops ----------------------------------------------------------------------------------------------------- */

/* Of tiles of one shape, with a function that is understood. */
static bool combine_of(Decompose *d, Combine *f) {
	Module *m = d->m;
	const Arg *x = op_arg(m, d->n, "x");
	*f = (Combine){.d = d, .graph = op_arg(m, d->n, "combine")->graph, .count = 1};
	f->count = x->kind == ARG_LIST ? x->list.count : 1;
	if (f->count > VALUES_MAX || !is_lane_by_lane(m, f->graph))
		return false;
	for (uint32_t i = 0; i < f->count; i++) {
		const Arg *a = combined_operand(m, d->n, i);
		if (a->kind != ARG_REF || node_type(m, a->node)->kind != TYPE_TENSOR)
			return false;
		f->value[i] = a->node;
		const Type *t = node_type(m, a->node), *first = node_type(m, f->value[0]);
		bool same = t->count == first->count && t->count > 0;
		for (uint32_t k = 0; k < t->count && same; k++)
			same = expr_equal(m, t->dims[k], first->dims[k]);
		if (!same)
			return false;
	}
	return true;
}

static bool flag(const Decompose *d, const char *name) {
	const Arg *a = op_arg(d->m, d->n, name);
	return a->kind == ARG_BOOL && a->boolean;
}

static NodeId scan(Decompose *d, uint32_t element) {
	Combine f;
	const Arg *dim = op_arg(d->m, d->n, "dim");
	if (!combine_of(d, &f) || dim->kind != ARG_INT)
		return NONE;
	int64_t rank = node_type(d->m, f.value[0])->count;
	f.is_scan = true;
	f.from_end = flag(d, "reverse");
	return combine_dim(&f, (uint32_t)(dim->integer < 0 ? dim->integer + rank : dim->integer)) ? f.value[element]
	                                                                                          : NONE;
}

/* The first lane along the dim. */
static NodeId first_lane(Combine *f, NodeId x, uint32_t dim) {
	Arg args[5] = {arg_ref(x), arg_int(dim), arg_int(0), arg_int(1), arg_int(1)};
	return make_node(f->d, OP_SLICE, "first", 5, args);
}

/* The last dim first: so all dims combine in row-major order. */
static NodeId reduce(Decompose *d, uint32_t element) {
	Combine f;
	const Arg *dim = op_arg(d->m, d->n, "dim");
	if (!combine_of(d, &f) || (dim->kind != ARG_INT && dim->kind != ARG_NULL))
		return NONE;
	uint32_t rank = node_type(d->m, f.value[0])->count, dims = combined_dims(d->m, d->n);
	f.from_end = true;
	for (uint32_t i = rank; i-- > 0;) {
		if (!(dims >> i & 1))
			continue;
		if (!combine_dim(&f, i))
			return NONE;
		for (uint32_t k = 0; k < f.count; k++)
			f.value[k] = first_lane(&f, f.value[k], i);
	}
	return make_kept(d, f.value[element], dims, flag(d, "keep_dims"));
}

Decomposition *decompose_combine(uint16_t op) {
	return op == OP_ASSOCIATIVE_SCAN ? scan : op == OP_TILE_REDUCE ? reduce : NULL;
}
