/* int_ranges.c - between which ints each int of the kernel lies.
 *
 * Interval arithmetic, forward over the nodes: loads and arguments may hold all that their dtype does; positions lie
 * inside the range that is tiled, and at most two blocks beyond it; constants are what they are; each op makes a range
 * of those of its operands. Ends are exact int64; where one would leave int64, the value wraps around and the range is
 * all of int64. A value narrower than 64 bits that may leave its dtype wraps around likewise.
 *
 * A loop's carried value begins in the range of its argument. If the body leaves it there, it is right. If the body
 * adds to it, the range grows by that once a step. Else it is all that the dtype holds.
 *
 * What a combine graph takes begins in the range of the operands. If what it gives stays there, it is right; a sum of
 * left and right is of at most as many elements as are reduced. Else it is all that the dtype holds.
 *
 * A choice by a comparison, where(x < 0, -x, x), looks at each side under what the comparison says of x: |x|, not the
 * range of both signs. */
#include "facts.h"

enum {
	LOOPS_DEEP = 4, /* loops inside loops whose carried values are followed: each doubles the work */
	LOOK_BACK = 6   /* nodes from a choice back to what its condition compares */
};

static const IntRange all = {INT64_MIN, INT64_MAX};

static IntRange one(int64_t value) { return (IntRange){value, value}; }

bool range_within(IntRange inner, IntRange outer) { return inner.low >= outer.low && inner.high <= outer.high; }

bool range_is_one(IntRange r) { return r.low == r.high; }

static IntRange hull(IntRange a, IntRange b) { return (IntRange){int_min(a.low, b.low), int_max(a.high, b.high)}; }

IntRange dtype_range(Dtype t) {
	if (t == DTYPE_BOOL)
		return (IntRange){0, 1};
	if (t >= DTYPE_COUNT || dtype_is_float(t) || dtype_bits(t) == 64)
		return all;
	int64_t span = INT64_C(1) << dtype_bits(t);
	bool is_signed = dtype_class(t) == DTYPE_CLASS_SIGNED;
	return is_signed ? (IntRange){-(span / 2), span / 2 - 1} : (IntRange){0, span - 1};
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static IntRange range_add(IntRange a, IntRange b) {
	IntRange out;
	return checked_add(a.low, b.low, &out.low) && checked_add(a.high, b.high, &out.high) ? out : all;
}

static IntRange range_negate(IntRange a) { return a.low == INT64_MIN ? all : (IntRange){-a.high, -a.low}; }

static IntRange range_subtract(IntRange a, IntRange b) {
	return b.low == INT64_MIN ? all : range_add(a, range_negate(b));
}

/* The least and greatest of four corners. */
static IntRange range_multiply(IntRange a, IntRange b) {
	const int64_t x[2] = {a.low, a.high}, y[2] = {b.low, b.high};
	IntRange out = {INT64_MAX, INT64_MIN};
	for (int i = 0; i < 4; i++) {
		int64_t product;
		if (!checked_mul(x[i / 2], y[i % 2], &product))
			return all;
		out = hull(out, one(product));
	}
	return out;
}

static IntRange range_abs(IntRange a) {
	if (a.low == INT64_MIN)
		return all;
	if (a.low >= 0)
		return a;
	return a.high <= 0 ? range_negate(a) : (IntRange){0, int_max(-a.low, a.high)};
}

static IntRange range_max(IntRange a, IntRange b) { return (IntRange){int_max(a.low, b.low), int_max(a.high, b.high)}; }

static IntRange range_min(IntRange a, IntRange b) { return (IntRange){int_min(a.low, b.low), int_min(a.high, b.high)}; }

/* The least 2^k - 1 that is no less than x >= 0. */
static int64_t ones_above(int64_t x) {
	int64_t ones = 0;
	while (ones < x)
		ones = ones * 2 + 1;
	return ones;
}

/* The least power of two whose negative is no greater than x < 0. */
static int64_t sign_below(int64_t x) { return -ones_above(-(x + 1)) - 1; }

/* One that is not negative bounds the other. */
static IntRange range_and(IntRange a, IntRange b) {
	if (range_is_one(a) && range_is_one(b))
		return one(a.low & b.low);
	if (a.low >= 0 || b.low >= 0)
		return (IntRange){0, a.low < 0 ? b.high : b.low < 0 ? a.high : int_min(a.high, b.high)};
	return (IntRange){sign_below(int_min(a.low, b.low)), int_max(a.high, b.high)};
}

/* Of or and xor: as many bits as the wider has. */
static IntRange range_bits(IntRange a, IntRange b, bool is_xor) {
	if (range_is_one(a) && range_is_one(b))
		return one(is_xor ? a.low ^ b.low : a.low | b.low);
	int64_t low = int_min(a.low, b.low), high = int_max(a.high, b.high);
	int64_t ones = ones_above(int_max(high, low < 0 ? -(low + 1) : 0));
	return low >= 0 ? (IntRange){is_xor ? 0 : int_max(a.low, b.low), ones} : (IntRange){-ones - 1, ones};
}

/* By 0 to 62 bits; torch makes something of other counts, which nobody relies on. */
static IntRange range_shift(IntRange x, IntRange by, bool left) {
	if (by.low < 0 || by.high > 62)
		return left ? all : hull(x, (IntRange){x.low < 0 ? -1 : 0, x.high < 0 ? -1 : 0});
	if (left)
		return range_multiply(x, (IntRange){INT64_C(1) << by.low, INT64_C(1) << by.high});
	return hull((IntRange){x.low >> by.low, x.high >> by.low}, (IntRange){x.low >> by.high, x.high >> by.high});
}

static int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* By one sign: the corners. A divisor that may be 0 gives what nobody relies on. */
static IntRange range_quotient(IntRange a, IntRange b, bool floors) {
	if (a.low == INT64_MIN || (b.low <= 0 && b.high >= 0) || b.low == 0 ||
	    b.high == 0) /* the last two: for analyzers */
		return all;
	const int64_t x[2] = {a.low, a.high}, y[2] = {b.low, b.high};
	IntRange out = {INT64_MAX, INT64_MIN};
	for (int i = 0; i < 4; i++)
		out = hull(out, one(floors ? floor_quotient(x[i / 2], y[i % 2]) : x[i / 2] / y[i % 2]));
	return out;
}

/* The sign of Python's remainder is the divisor's, that of C's the dividend's; a divisor of 0 is left out. */
static IntRange range_remainder(IntRange a, IntRange b, bool like_python) {
	if (b.low == INT64_MIN)
		return all;
	int64_t size = int_max(int_max(b.high, -b.low), 1) - 1;
	IntRange sign = like_python ? b : a;
	IntRange out = {sign.low < 0 ? -size : 0, sign.high > 0 ? size : 0};
	bool smaller = a.low >= 0 && b.low > 0;
	return smaller ? (IntRange){0, int_min(out.high, a.high)} : out;
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static IntRange node_range(const IntRanges *r, NodeId n, int depth);

/* Of a value of n's type. */
static IntRange own_range(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	return t->kind == TYPE_TENSOR || t->kind == TYPE_SYM ? dtype_range(t->dtype) : all;
}

static IntRange operand_range(const IntRanges *r, const Arg *a, int depth) {
	int64_t value;
	switch (a->kind) {
	case ARG_INT: return one(a->integer);
	case ARG_BOOL: return one(a->boolean);
	case ARG_SYM: return expr_value(r->m, a->expr, &value) ? one(value) : dtype_range(DTYPE_I32);
	case ARG_BLOCK: return one(r->m->block_size.at[a->block]);
	case ARG_REF: return node_range(r, a->node, depth);
	default: return all;
	}
}

IntRange arg_range(const IntRanges *r, const Arg *a) { return operand_range(r, a, 0); }

static IntRange nth(const IntRanges *r, NodeId n, uint32_t i, int depth) {
	return operand_range(r, node_arg(r->m, n, i), depth);
}

/* Of the tensors in a list, or of all arguments that are tensors. */
static IntRange hull_of_tensors(const IntRanges *r, NodeId n) {
	IntRange out = {INT64_MAX, INT64_MIN};
	for (uint32_t i = 0; i < node_get(r->m, n)->arg_count; i++) {
		const Arg *a = node_arg(r->m, n, i);
		for (uint32_t k = 0; a->kind == ARG_LIST && k < a->list.count; k++)
			if (arg_item(r->m, a, k)->kind == ARG_REF)
				out = hull(out, arg_range(r, arg_item(r->m, a, k)));
		if (a->kind == ARG_REF && node_type(r->m, a->node)->kind == TYPE_TENSOR)
			out = hull(out, arg_range(r, a));
	}
	return out.low > out.high ? all : out;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* Where the tiles of a block lie. Lanes beyond the range are computed as well: one block of them, or as many as a
 * grid step may take together. */
static IntRange range_of_block(const IntRanges *r, NodeId n, BlockId b) {
	Module *m = r->m;
	GraphId g = block_graph(m, node_get(m, n)->graph, b);
	IntRange begin = one(0), end = all;
	const Block *block = &m->blocks.at[b];
	int64_t value;
	if (g != NONE && graph_get(m, g)->kind != GRAPH_ROOT) {
		uint32_t i = 0;
		while (graph_get(m, g)->blocks.at[i] != b)
			i++;
		NodeId call = graph_get(m, g)->caller;
		begin = arg_range(r, arg_item(m, op_arg(m, call, "begins"), i));
		end = arg_range(r, arg_item(m, op_arg(m, call, "ends"), i));
	} else {
		end = block->extent != NONE && expr_value(m, block->extent, &value) ? one(value) : all;
		begin = block->begin == NONE ? begin : expr_value(m, block->begin, &value) ? one(value) : all;
	}
	bool begins = node_get(m, n)->op == OP_TILE_BEGIN && range_is_one(begin) && range_is_one(end);
	if (begins && end.high >= begin.low && end.high - m->block_size.at[b] <= begin.low) /* the only tile */
		return begin;
	int64_t most = int_max(m->block_size.at[b], range_is_one(end) ? end.high : 0), slack;
	IntRange out = {int_min(begin.low, 0), end.high};
	bool known = checked_mul(2, most, &slack) && checked_add(end.high, slack, &out.high);
	return known && range_within(out, dtype_range(DTYPE_I32)) ? out : dtype_range(DTYPE_I32);
}

static IntRange range_of_query(const IntRanges *r, NodeId n) {
	BlockId b = arg_block(r->m, node_arg(r->m, n, 0));
	return b == NONE ? dtype_range(DTYPE_I32) : range_of_block(r, n, b);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* Of these dims of x; 0: not known. */
static int64_t elements_of(const IntRanges *r, NodeId x, uint32_t dims) {
	const Type *t = node_type(r->m, x);
	int64_t count = 1, size;
	for (uint32_t i = 0; i < t->count; i++)
		if ((dims >> i & 1) && (!expr_value(r->m, t->dims[i], &size) || !checked_mul(count, size, &count)))
			return 0;
	return int_max(count, 1);
}

/* Value i of those that its combine graph makes: what the graph takes is of the operands, or combined already. */
static IntRange range_of_combined(const IntRanges *r, NodeId n, uint32_t i) {
	const Graph *g = graph_get(r->m, op_arg(r->m, n, "combine")->graph);
	return i < g->placeholders.count ? r->of[g->placeholders.at[i]] : all;
}

static IntRange range_of_reduction(const IntRanges *r, NodeId n) {
	if (node_combines(r->m, n))
		return range_of_combined(r, n, 0);
	NodeId x = node_input(r->m, n, 0);
	if (x == NONE || node_type(r->m, x)->kind != TYPE_TENSOR)
		return all;
	IntRange from = r->of[x];
	int64_t count = elements_of(r, x, reduction_dims(r->m, n));
	switch (op_canonical(node_get(r->m, n)->op)) {
	case OP_SUM: return count ? range_multiply(from, one(count)) : all;
	case OP_CUMSUM: return count ? range_multiply(from, (IntRange){1, count}) : all;
	case OP_PROD:
	case OP_CUMPROD: return range_within(from, (IntRange){0, 1}) ? from : all;
	case OP_ARGMAX:
	case OP_ARGMIN: return count ? (IntRange){0, count - 1} : all;
	case OP_MAX:
	case OP_MIN: return from;
	default: return all;
	}
}

/* Values, and their places. */
static IntRange range_of_element(const IntRanges *r, NodeId n) {
	const Module *m = r->m;
	NodeId tuple = node_input(m, n, 0);
	int64_t i = node_arg(m, n, 1)->kind == ARG_INT ? node_arg(m, n, 1)->integer : -1;
	switch (tuple == NONE ? OP_UNKNOWN : node_get(m, tuple)->op) {
	case OP_FOR_LOOP:
	case OP_IF: {
		GraphId g = op_arg(m, tuple, "graph")->graph;
		const Arg *other = op_arg(m, tuple, "else_graph");
		IntRange out = arg_range(r, arg_item(m, graph_results(m, g), (uint32_t)i));
		if (other->kind == ARG_GRAPH)
			return hull(out, arg_range(r, arg_item(m, graph_results(m, other->graph), (uint32_t)i)));
		uint32_t carried = graph_carried_arg(graph_get(m, g), (uint32_t)i);
		return carried == NONE ? out : hull(out, r->of[graph_get(m, g)->placeholders.at[carried]]);
	}
	case OP_MAX_DIM:
	case OP_MIN_DIM:
	case OP_SORT:
	case OP_SORT_STABLE:
	case OP_TOPK: {
		int64_t count = elements_of(r, node_input(m, tuple, 0), reduction_dims(m, tuple));
		return i == 0 ? r->of[node_input(m, tuple, 0)] : count ? (IntRange){0, count - 1} : all;
	}
	case OP_ASSOCIATIVE_SCAN:
	case OP_TILE_REDUCE: return range_of_combined(r, tuple, (uint32_t)i);
	default:
		return tuple != NONE && op_lanes(node_get(m, tuple)->op) == LANES_SPLIT ? r->of[node_input(m, tuple, 0)]
		                                                                        : all;
	}
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

/* What a comparison of a node with something says of it where it holds, and where not; false: it says nothing. */
static bool comparison_says(const IntRanges *r, NodeId condition, NodeId *x, IntRange *yes, IntRange *no) {
	const Module *m = r->m;
	*x = node_input(m, condition, 0);
	if (*x == NONE || node_get(m, condition)->arg_count < 2)
		return false;
	IntRange with = nth(r, condition, 1, 0), known = r->of[*x];
	*yes = *no = known;
	if (with.low == INT64_MIN || with.high == INT64_MAX)
		return false;
	switch (op_canonical(node_get(m, condition)->op)) {
	case OP_LT: yes->high = int_min(known.high, with.high - 1), no->low = int_max(known.low, with.low); break;
	case OP_LE: yes->high = int_min(known.high, with.high), no->low = int_max(known.low, with.low + 1); break;
	case OP_GT: yes->low = int_max(known.low, with.low + 1), no->high = int_min(known.high, with.high); break;
	case OP_GE: yes->low = int_max(known.low, with.low), no->high = int_min(known.high, with.high - 1); break;
	default: return false;
	}
	return yes->low <= yes->high && no->low <= no->high;
}

static IntRange range_of_choice(const IntRanges *r, NodeId n) {
	NodeId condition = node_input(r->m, n, 0), x;
	IntRanges yes = *r, no = *r;
	if (condition == NONE || !comparison_says(r, condition, &x, &yes.given_range, &no.given_range))
		return hull(nth(r, n, 1, 0), nth(r, n, 2, 0));
	yes.given = no.given = x;
	return hull(nth(&yes, n, 1, LOOK_BACK), nth(&no, n, 2, LOOK_BACK));
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* The alpha or value that scales one operand. */
static IntRange scaled(const IntRanges *r, NodeId n, IntRange x) {
	const Arg *alpha = op_arg(r->m, n, "alpha");
	return alpha->kind == ARG_NULL ? x : range_multiply(x, arg_range(r, alpha));
}

static IntRange range_of_clamp(const IntRanges *r, NodeId n) {
	IntRange out = nth(r, n, 0, 0);
	if (node_arg(r->m, n, 1)->kind != ARG_NULL)
		out = range_max(out, nth(r, n, 1, 0));
	return node_arg(r->m, n, 2)->kind == ARG_NULL ? out : range_min(out, nth(r, n, 2, 0));
}

/* Nothing rounds an int. */
static IntRange range_of_division(const IntRanges *r, NodeId n) {
	const Arg *mode = op_arg(r->m, n, "rounding_mode");
	bool truncates = mode->kind == ARG_STRING && strcmp(mode->string, "trunc") == 0;
	return range_quotient(nth(r, n, 0, 0), nth(r, n, 1, 0), !truncates);
}

static bool is_int(const Module *m, const Arg *a) {
	if (a->kind != ARG_REF)
		return a->kind == ARG_INT || a->kind == ARG_BOOL || a->kind == ARG_SYM || a->kind == ARG_BLOCK;
	const Type *t = node_type(m, a->node);
	return (t->kind == TYPE_TENSOR || t->kind == TYPE_SYM) && !dtype_is_float(t->dtype);
}

/* What the ranges decide of a comparison or of a logical op, of bools. */
static IntRange range_of_test(uint16_t op, IntRange a, IntRange b) {
	const IntRange either = {0, 1};
	bool same = range_is_one(a) && range_is_one(b) && a.low == b.low;
	bool below = a.high < b.low;
	bool above = a.low > b.high;
	switch (op) {
	case OP_EQ: return same ? one(1) : below || above ? one(0) : either;
	case OP_NE: return same ? one(0) : below || above ? one(1) : either;
	case OP_LT: return below ? one(1) : a.low >= b.high ? one(0) : either;
	case OP_LE: return above ? one(0) : a.high <= b.low ? one(1) : either;
	case OP_GT: return above ? one(1) : a.high <= b.low ? one(0) : either;
	case OP_GE: return below ? one(0) : a.low >= b.high ? one(1) : either;
	default: break;
	}
	if (!range_within(a, either) || !range_within(b, either))
		return either;
	return op == OP_LOGICAL_AND ? range_min(a, b) : op == OP_LOGICAL_OR ? range_max(a, b) : either;
}

/* Of pointwise ops of ints; `depth`: how far back what is given is looked for. */
static IntRange range_of_pointwise(const IntRanges *r, NodeId n, int d) {
	uint16_t op = op_canonical(node_get(r->m, n)->op);
	if (op_lowering(op) == LOWER_ALIAS)
		return nth(r, n, 0, d);
	switch (op) {
	case OP_ADD: return range_add(nth(r, n, 0, d), scaled(r, n, nth(r, n, 1, d)));
	case OP_SUB: return range_subtract(nth(r, n, 0, d), scaled(r, n, nth(r, n, 1, d)));
	case OP_RSUB: return range_subtract(nth(r, n, 1, d), scaled(r, n, nth(r, n, 0, d)));
	case OP_MUL: return range_multiply(nth(r, n, 0, d), nth(r, n, 1, d));
	case OP_SQUARE: {
		IntRange size = range_abs(nth(r, n, 0, d));
		return range_multiply(size, size);
	}
	case OP_NEG: return range_negate(nth(r, n, 0, d));
	case OP_ABS: return range_abs(nth(r, n, 0, d));
	case OP_SIGN: return (IntRange){-1, 1};
	case OP_RELU: return range_max(nth(r, n, 0, d), one(0));
	case OP_EQ:
	case OP_NE:
	case OP_LT:
	case OP_LE:
	case OP_GT:
	case OP_GE:
	case OP_LOGICAL_AND:
	case OP_LOGICAL_OR: return range_of_test(op, nth(r, n, 0, d), nth(r, n, 1, d));
	case OP_LOGICAL_NOT: return range_of_test(OP_EQ, nth(r, n, 0, d), one(0));
	case OP_BITWISE_NOT: return range_subtract(one(-1), nth(r, n, 0, d));
	case OP_BITWISE_AND: return range_and(nth(r, n, 0, d), nth(r, n, 1, d));
	case OP_BITWISE_OR: return range_bits(nth(r, n, 0, d), nth(r, n, 1, d), false);
	case OP_BITWISE_XOR: return range_bits(nth(r, n, 0, d), nth(r, n, 1, d), true);
	case OP_LSHIFT: return range_shift(nth(r, n, 0, d), nth(r, n, 1, d), true);
	case OP_RSHIFT: return range_shift(nth(r, n, 0, d), nth(r, n, 1, d), false);
	case OP_FLOOR_DIVIDE:
	case OP_DIV_MODE: return range_of_division(r, n);
	case OP_REMAINDER: return range_remainder(nth(r, n, 0, d), nth(r, n, 1, d), true);
	case OP_FMOD: return range_remainder(nth(r, n, 0, d), nth(r, n, 1, d), false);
	case OP_MAXIMUM: return range_max(nth(r, n, 0, d), nth(r, n, 1, d));
	case OP_MINIMUM: return range_min(nth(r, n, 0, d), nth(r, n, 1, d));
	case OP_CLAMP: return range_of_clamp(r, n);
	case OP_WHERE: return range_of_choice(r, n);
	case OP_MASKED_FILL: return hull(nth(r, n, 0, d), nth(r, n, 2, d));
	case OP_MASK_TO: return hull(nth(r, n, 0, d), nth(r, n, 1, d));
	case OP_TRIL:
	case OP_TRIU: return hull(nth(r, n, 0, d), one(0));
	case OP_CONVERT:
	case OP_FLOOR:
	case OP_CEIL:
	case OP_ROUND:
	case OP_TRUNC: return nth(r, n, 0, d);
	default: return all;
	}
}

static IntRange range_of_creation(const IntRanges *r, NodeId n) {
	int64_t count;
	if (op_fill(node_get(r->m, n)->op) != FILL_NONE) {
		Arg value = fill_arg(r->m, n);
		return arg_range(r, &value);
	}
	switch (node_get(r->m, n)->op) {
	case OP_ARANGE:
		return range_is_one(nth(r, n, 0, 0)) ? (IntRange){0, int_max(nth(r, n, 0, 0).high - 1, 0)} : all;
	case OP_ARANGE_START:
	case OP_ARANGE_STEP: return hull(nth(r, n, 0, 0), nth(r, n, 1, 0));
	case OP_IOTA: {
		IntRange length = nth(r, n, 0, 0);
		count = range_is_one(length) ? int_max(length.low - 1, 0) : INT64_MAX;
		return range_add(nth(r, n, 1, 0), range_multiply((IntRange){0, count}, nth(r, n, 2, 0)));
	}
	default: return all;
	}
}

static IntRange range_of_structure(const IntRanges *r, NodeId n) {
	const Module *m = r->m;
	switch (node_get(m, n)->op) {
	case OP_SCALAR: {
		const Scalar *s = &m->scalars.at[node_arg(m, n, 0)->scalar];
		if (s->most)
			return (IntRange){0, s->most};
		return s->has_value && !dtype_is_float(s->dtype) ? one(s->int_value) : dtype_range(s->dtype);
	}
	case OP_GETITEM: return range_of_element(r, n);
	case OP_NEW_VAR: return nth(r, n, 0, 0);
	case OP_PHI: return hull(nth(r, n, 0, 0), nth(r, n, 1, 0));
	default: return all;
	}
}

static IntRange range_of_symbolic(const IntRanges *r, NodeId n) {
	return node_get(r->m, n)->op == OP_SYM_MOD ? range_remainder(nth(r, n, 0, 0), nth(r, n, 1, 0), true)
	                                           : range_of_pointwise(r, n, 0);
}

/* As computed, in ints without end. */
static IntRange computed_range(const IntRanges *r, NodeId n, int depth) {
	const Module *m = r->m;
	switch (op_kind(m, n)) {
	case KIND_POINTWISE:
		for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++)
			if (node_arg(m, n, i)->kind == ARG_FLOAT ||
			    (node_arg(m, n, i)->kind == ARG_REF && !is_int(m, node_arg(m, n, i))))
				return all;
		return range_of_pointwise(r, n, depth);
	case KIND_CREATION: return range_of_creation(r, n);
	case KIND_VIEW: {
		Lanes lanes = op_lanes(node_get(m, n)->op);
		IntRange moved = lanes == LANES_BITCAST ? all : hull_of_tensors(r, n);
		return lanes == LANES_PAD ? hull(moved, arg_range(r, op_arg(m, n, "value"))) : moved;
	}
	case KIND_REDUCTION: return range_of_reduction(r, n);
	case KIND_QUERY: return range_of_query(r, n);
	case KIND_SYMBOLIC: return range_of_symbolic(r, n);
	case KIND_STRUCTURE: return range_of_structure(r, n);
	case KIND_MATMUL:
	case KIND_MEMORY: break;
	}
	return all;
}

/* The dtype in which torch computes it: an int64 value of int32 operands has wrapped around in int32 already, unless
 * the op's own rule makes int64 of them. */
static Dtype computed_dtype(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	DtypeRule rule = op_row(node_get(m, n)->op)->dtype;
	if (t->kind != TYPE_TENSOR || t->dtype != DTYPE_I64 || rule != RULE_PROMOTE || op_kind(m, n) == KIND_VIEW)
		return t->kind == TYPE_TENSOR || t->kind == TYPE_SYM ? t->dtype : DTYPE_NONE;
	Dtype widest = DTYPE_NONE;
	for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++) {
		const Arg *a = node_arg(m, n, i);
		if (a->kind == ARG_REF && node_type(m, a->node)->kind == TYPE_TENSOR &&
		    node_get(m, a->node)->op != OP_SCALAR)
			widest = dtype_promote(widest, node_type(m, a->node)->dtype);
	}
	return widest == DTYPE_NONE || widest == DTYPE_BOOL ? DTYPE_I64 : widest;
}

static IntRange node_range(const IntRanges *r, NodeId n, int depth) {
	if (n == r->given)
		return r->given_range;
	if (r->given == NONE || depth == 0 || op_kind(r->m, n) != KIND_POINTWISE)
		return r->of[n];
	IntRange found = computed_range(r, n, depth - 1);
	return range_within(found, r->of[n]) ? found : r->of[n];
}

static void find_range(IntRanges *r, NodeId n) {
	const Type *t = node_type(r->m, n);
	int64_t value;
	if (t->kind == TYPE_SYM && t->sym != NONE && expr_value(r->m, t->sym, &value)) {
		r->of[n] = one(value);
		return;
	}
	IntRange found = computed_range(r, n, 0);
	Dtype computed = computed_dtype(r->m, n);
	if (computed != DTYPE_NONE && !range_within(found, dtype_range(computed)))
		found = dtype_range(computed);
	r->of[n] = range_within(found, own_range(r->m, n)) ? found : own_range(r->m, n);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static void find_in_graph(IntRanges *r, GraphId g, uint32_t depth);

/* At most as many as the ranges of its bounds allow, in blocks of the size at hand; -1: not known. */
static int64_t steps_of(const IntRanges *r, NodeId call) {
	const Module *m = r->m;
	const Graph *g = graph_get(m, node_arg(m, call, 0)->graph);
	int64_t steps = 1;
	for (uint32_t i = 0; i < g->blocks.count; i++) {
		IntRange begin = arg_range(r, arg_item(m, op_arg(m, call, "begins"), i)),
			 end = arg_range(r, arg_item(m, op_arg(m, call, "ends"), i));
		int64_t length, size = int_max(m->block_size.at[g->blocks.at[i]], 1);
		if (!checked_sub(end.high, begin.low, &length) || length > INT32_MAX)
			return -1;
		int64_t here = int_max((length + size - 1) / size, 0);
		if (!checked_mul(steps, here, &steps))
			return -1;
	}
	return steps;
}

/* What the body adds to its carried value p in one step: in *added; false: it does something else with it. */
static bool step_adds(const IntRanges *r, NodeId p, const Arg *result, IntRange *added) {
	NodeId n = result->kind == ARG_REF ? result->node : NONE;
	uint16_t op = n == NONE ? OP_UNKNOWN : node_get(r->m, n)->op;
	if (op_canonical(op) != OP_ADD)
		return false;
	bool first = node_input(r->m, n, 0) == p, second = node_input(r->m, n, 1) == p;
	if (first == second || (second && op_arg(r->m, n, "alpha")->kind != ARG_INT) || node_use_count(r->m, p) != 1 ||
	    (op_arg(r->m, n, "alpha")->kind == ARG_INT && op_arg(r->m, n, "alpha")->integer != 1))
		return false;
	*added = nth(r, n, first ? 1 : 0, 0);
	return true;
}

static IntRange after_steps(IntRange from, IntRange added, int64_t steps) {
	IntRange grown = range_multiply(hull(added, one(0)), one(steps));
	return range_add(from, grown);
}

/* The range of a carried value over all steps, from what the body makes of it. */
static IntRange carried_range(const IntRanges *r, NodeId call, uint32_t i, const Arg *result) {
	NodeId p = graph_get(r->m, node_arg(r->m, call, 0)->graph)->placeholders.at[i];
	IntRange from = arg_range(r, arg_item(r->m, op_arg(r->m, call, "args"), i)), added;
	int64_t steps = steps_of(r, call);
	if (steps >= 0 && step_adds(r, p, result, &added))
		return after_steps(from, added, steps);
	return hull(from, arg_range(r, result));
}

/* Widens the carried values that leave their range: `follow` those that grow by a range each step; else, and then all
 * of them, to what their dtype holds. True if any was. */
static bool carry(IntRanges *r, NodeId call, bool follow) {
	Module *m = r->m;
	GraphId g = node_arg(m, call, 0)->graph;
	const Graph *graph = graph_get(m, g);
	bool left = false;
	for (uint32_t pass = 0; pass < 2 && (pass == 0 || left); pass++)
		for (uint32_t i = 0; i < graph->placeholders.count; i++) {
			NodeId p = graph->placeholders.at[i];
			uint32_t output = graph_carried_output(graph, i);
			if (output == NONE)
				continue;
			const Arg *result = arg_item(m, graph_results(m, g), output);
			IntRange found = carried_range(r, call, i, result), added;
			bool leaves = !range_within(found, r->of[p]);
			left = left || leaves;
			if (pass == 0)
				continue;
			bool grows = follow && leaves && step_adds(r, p, result, &added) &&
			             range_within(found, own_range(m, p));
			if (leaves || !follow)
				r->of[p] = grows ? found : own_range(m, p);
		}
	return left;
}

static void find_in_loop(IntRanges *r, NodeId call, uint32_t depth) {
	Module *m = r->m;
	GraphId g = node_arg(m, call, 0)->graph;
	Graph *graph = graph_get(m, g);
	const Arg *args = op_arg(m, call, "args");
	for (uint32_t i = 0; i < graph->placeholders.count; i++) {
		NodeId p = graph->placeholders.at[i];
		bool followed = depth < LOOPS_DEEP || graph_carried_output(graph, i) == NONE;
		r->of[p] = followed ? arg_range(r, arg_item(m, args, i)) : own_range(m, p);
	}
	find_in_graph(r, g, depth + 1);
	if (carry(r, call, true)) {
		find_in_graph(r, g, depth + 1);
		if (carry(r, call, false)) /* what was added has grown as well */
			find_in_graph(r, g, depth + 1);
	}
}

static void find_in_branch(IntRanges *r, NodeId call, const char *graph, const char *list, uint32_t depth) {
	const Arg *g = op_arg(r->m, call, graph), *args = op_arg(r->m, call, list);
	if (g->kind != ARG_GRAPH)
		return;
	const Graph *branch = graph_get(r->m, g->graph);
	for (uint32_t i = 0; i < branch->placeholders.count; i++)
		r->of[branch->placeholders.at[i]] = arg_range(r, arg_item(r->m, args, i));
	find_in_graph(r, g->graph, depth);
}

/* The range of value i over all that is combined, if the graph adds left and right; false: it does something else. */
static bool combine_adds(const IntRanges *r, NodeId n, uint32_t i, IntRange *range) {
	const Module *m = r->m;
	GraphId id = op_arg(m, n, "combine")->graph;
	const Graph *g = graph_get(m, id);
	const Arg *result = arg_item(m, graph_results(m, id), i), *operand = combined_operand(m, n, i);
	if (result->kind != ARG_REF || operand->kind != ARG_REF ||
	    op_canonical(node_get(m, result->node)->op) != OP_ADD)
		return false;
	const Arg *alpha = op_arg(m, result->node, "alpha");
	NodeId left = g->placeholders.at[i], right = g->placeholders.at[g->placeholders.count / 2 + i];
	NodeId a = node_input(m, result->node, 0), b = node_input(m, result->node, 1);
	int64_t count = elements_of(r, operand->node, combined_dims(m, n));
	bool plain = alpha->kind == ARG_INT && alpha->integer == 1;
	if (count == 0 || !plain || !((a == left && b == right) || (a == right && b == left)))
		return false;
	*range = range_multiply(r->of[operand->node], (IntRange){1, count});
	if (!range_within(*range, own_range(m, left)))
		*range = own_range(m, left);
	return true;
}

/* What the graph takes is of the operands, or combined already: a value that leaves that range may be anything. */
static void find_in_combine(IntRanges *r, NodeId n) {
	Module *m = r->m;
	GraphId id = op_arg(m, n, "combine")->graph;
	const Graph *g = graph_get(m, id);
	const uint32_t count = g->placeholders.count / 2;
	IntRange range;
	for (uint32_t i = 0; i < count; i++)
		r->of[g->placeholders.at[i]] = r->of[g->placeholders.at[count + i]] =
			combine_adds(r, n, i, &range) ? range : arg_range(r, combined_operand(m, n, i));
	for (bool left = true; left;) {
		find_in_graph(r, id, LOOPS_DEEP);
		left = false;
		for (uint32_t i = 0; i < count; i++) {
			NodeId p = g->placeholders.at[i];
			if (combine_adds(r, n, i, &range) ||
			    range_within(arg_range(r, arg_item(m, graph_results(m, id), i)), r->of[p]))
				continue;
			r->of[p] = r->of[g->placeholders.at[count + i]] = own_range(m, p);
			left = true;
		}
	}
}

/* Of the graphs of a while the arguments are not known: they keep what their dtype holds. */
static void find_in_call(IntRanges *r, NodeId n, uint32_t depth) {
	GraphId graphs[2];
	uint16_t op = node_get(r->m, n)->op;
	if (node_combines(r->m, n)) {
		find_in_combine(r, n);
		return;
	}
	if (op == OP_FOR_LOOP) {
		find_in_loop(r, n, depth);
	} else if (op == OP_IF) {
		find_in_branch(r, n, "graph", "args", depth);
		find_in_branch(r, n, "else_graph", "else_args", depth);
	} else {
		for (uint32_t k = 0, count = call_graphs(r->m, n, graphs); k < count; k++)
			find_in_graph(r, graphs[k], LOOPS_DEEP);
	}
}

static void find_in_graph(IntRanges *r, GraphId g, uint32_t depth) {
	for (NodeId n = graph_first(r->m, g); n != NONE; n = node_get(r->m, n)->next) {
		if (node_get(r->m, n)->op == OP_PLACEHOLDER)
			continue;
		find_in_call(r, n, depth);
		find_range(r, n);
	}
}

IntRanges int_ranges(Arena *a, Module *m) {
	IntRanges r = {.m = m, .a = a, .given = NONE};
	r.of = arena_array(a, (size_t)m->nodes.count + 1, sizeof *r.of);
	for (NodeId n = 0; n < m->nodes.count; n++)
		r.of[n] = own_range(m, n);
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->kind == GRAPH_ROOT)
			find_in_graph(&r, g, 0);
	return r;
}
