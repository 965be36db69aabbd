/* decompose_scan.c - scans whose combine graph is one sum or product, as Helion traces torch.cumsum, hl.cumsum and
 * torch.cumprod: cumulative sums and products. From the end on they are those of the flipped value, flipped. Others:
 * decompose_combine.c. */
#include "decompose.h"

/* The op of `a op b` of a combine graph's two arguments, in the dtype of what is scanned; NONE if it does something
 * else. */
static uint32_t combined_by(const Module *m, GraphId g, Dtype dtype) {
	const Graph *graph = graph_get(m, g);
	const Arg *results = graph_results(m, g);
	if (graph->placeholders.count != 2 || graph_result_count(m, g) != 1 || arg_item(m, results, 0)->kind != ARG_REF)
		return NONE;
	NodeId f = arg_item(m, results, 0)->node, first = graph->placeholders.at[0], second = graph->placeholders.at[1];
	uint16_t op = node_get(m, f)->op;
	if ((op != OP_ADD && op != OP_MUL) || node_type(m, f)->dtype != dtype)
		return NONE;
	NodeId a = node_input(m, f, 0), b = node_input(m, f, 1);
	const Arg *alpha = op_arg(m, f, "alpha");
	bool plain = op == OP_MUL || (alpha->kind == ARG_INT && alpha->integer == 1);
	return plain && ((a == first && b == second) || (a == second && b == first)) ? op : NONE;
}

static NodeId flipped(Decompose *d, NodeId x, Arg dim) {
	Arg args[2] = {arg_ref(x), arg_list(d->m, 1, &dim)};
	return make_node(d, OP_FLIP, "flipped", 2, args);
}

/* Of one tensor; bools are counted by no sum. */
static NodeId cumulative(Decompose *d, uint32_t element) {
	Module *m = d->m;
	NodeId x = node_input(m, d->n, 1);
	const Arg *dim = op_arg(m, d->n, "dim"), *backwards = op_arg(m, d->n, "reverse");
	if (x == NONE || node_type(m, x)->kind != TYPE_TENSOR || dim->kind != ARG_INT)
		return NONE;
	Dtype dtype = node_type(m, x)->dtype;
	uint32_t op = combined_by(m, node_arg(m, d->n, 0)->graph, dtype);
	if (op == NONE || dtype == DTYPE_BOOL)
		return NONE;
	bool reverse = backwards->kind == ARG_BOOL && backwards->boolean;
	Arg along = *dim;
	x = reverse ? flipped(d, x, along) : x;
	Arg args[3] = {arg_ref(x), along, arg_null()};
	x = make_converted(d, make_node(d, op == OP_ADD ? OP_CUMSUM : OP_CUMPROD, "scanned", 3, args),
	                   result_dtype(d, element));
	return reverse ? flipped(d, x, along) : x;
}

static NodeId scan(Decompose *d, uint32_t element) {
	NodeId value = cumulative(d, element);
	return value != NONE || d->failed ? value : decompose_combine(OP_ASSOCIATIVE_SCAN)(d, element);
}

Decomposition *decompose_scan(uint16_t op) { return op == OP_ASSOCIATIVE_SCAN ? scan : NULL; }
