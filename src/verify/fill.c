/* fill.c - what a document may leave out: the `meta` of nodes. Each graph is gone through in the order of its nodes,
 * and at a call the graphs that it calls: arguments give placeholders their types, and what a graph gives is the
 * call's. */
#include "infer.h"
#include "verify.h"

typedef struct Filler {
	Module *m;
	Diag *d;
	bool *entered; /* by GraphId */
	bool *known;   /* by NodeId: its type was inferred; of a loop without results it is that there is no value */
} Filler;

static bool is_open(const Module *m, const Arg *arg) {
	bool open = arg->kind == ARG_REF && node_is_untyped(m, arg->node);
	for (uint32_t i = 0; (arg->kind == ARG_LIST || arg->kind == ARG_SLICE) && i < arg->list.count; i++)
		open |= is_open(m, arg_item(m, arg, i));
	return open;
}

/* An input of it could not be inferred, which was reported. */
static bool inputs_open(const Module *m, NodeId n) {
	bool open = false;
	for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++)
		open |= is_open(m, node_arg(m, n, i));
	return open;
}

/* ---- what the loader could not judge ----------------------------------------------------------------------------- */

static bool list_fits(const Module *m, char letter, const Arg *list) {
	bool fits = list->kind == ARG_LIST;
	for (uint32_t i = 0; fits && i < list->list.count; i++)
		fits = arg_item_fits(m, letter, arg_item(m, list, i));
	return fits;
}

static bool arguments_fit(const Infer *in) {
	OpParam param;
	uint32_t index = 0;
	uint16_t op = node_get(in->m, in->n)->op;
	const char *at = op_row(op)->params;
	for (; (at = op_param_next(at, &param)) != NULL; index++) {
		const Arg *arg = node_arg(in->m, in->n, index);
		bool list = strchr("INX", param.letter) && arg->kind == ARG_LIST;
		if (arg->kind != ARG_NULL &&
		    !(list ? list_fits(in->m, param.letter, arg) : arg_fits(in->m, op, param.letter, arg)))
			return infer_error(in, "wrong-argument", NULL, "argument '%.*s' must be %s",
			                   (int)param.name_length, param.name, schema_expects(param.letter));
	}
	return true;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static void fill_graph(Filler *f, GraphId g);

/* Of a value, what the placeholder that takes it is: a number is a 0-d tensor, as where it changes it is one. */
static TypeId placeholder_type(Module *m, TypeId given) {
	const Type *t = type_get(m, given);
	bool number = t->kind == TYPE_SYM && dtype_is_float(t->dtype);
	return number ? type_tensor(m, t->dtype, 0, NULL) : given;
}

static void give(Filler *f, GraphId g, uint32_t placeholder, TypeId type) {
	const Graph *graph = graph_get(f->m, g);
	if (placeholder < graph->placeholders.count && node_is_untyped(f->m, graph->placeholders.at[placeholder]))
		node_set_type(f->m, graph->placeholders.at[placeholder], placeholder_type(f->m, type));
}

/* A combine graph takes the left and then the right of each operand: single elements, as a tile of one. */
static void give_elements(Filler *f, GraphId g, const Arg *x) {
	uint32_t count = x->kind == ARG_LIST ? x->list.count : 1;
	ExprId one = expr_int(f->m, 1);
	for (uint32_t i = 0; i < 2 * count; i++) {
		const Arg *operand = x->kind == ARG_LIST ? arg_item(f->m, x, i % count) : x;
		Dtype dtype = type_get(f->m, arg_type(f->m, operand))->dtype;
		give(f, g, i, type_tensor(f->m, dtype, 1, &one));
	}
}

static void fill_called(Filler *f, NodeId n) {
	for (uint32_t i = 0; i < node_get(f->m, n)->arg_count; i++) {
		const Arg *arg = node_arg(f->m, n, i);
		if (arg->kind != ARG_GRAPH)
			continue;
		GraphId g = arg->graph;
		GraphKind kind = graph_get(f->m, g)->kind;
		const char *name = kind == GRAPH_ELSE ? "else_args" : "args";
		if (kind == GRAPH_COMBINE) {
			give_elements(f, g, op_arg(f->m, n, "x"));
		} else {
			uint32_t count = op_arg(f->m, n, name)->list.count;
			for (uint32_t k = 0; op_arg(f->m, n, name)->kind == ARG_LIST && k < count; k++)
				give(f, g, k, arg_type(f->m, arg_item(f->m, op_arg(f->m, n, name), k)));
		}
		fill_graph(f, g);
	}
}

static void fill_node(Filler *f, NodeId n) {
	const Infer in = {f->m, f->d, n};
	TypeId type;
	if (inputs_open(f->m, n))
		return;
	fill_called(f, n);
	if (!arguments_fit(&in) || !node_is_untyped(f->m, n) || !op_infer(f->m, f->d, n, &type))
		return;
	f->known[n] = true;
	if (!type_admits(f->m, type_none(f->m), type))
		node_set_type(f->m, n, type);
}

static void fill_graph(Filler *f, GraphId g) {
	if (f->entered[g])
		return;
	f->entered[g] = true;
	for (NodeId n = graph_first(f->m, g); n != NONE; n = node_get(f->m, n)->next)
		if (node_get(f->m, n)->op != OP_PLACEHOLDER)
			fill_node(f, n);
}

bool types_missing(const Module *m) {
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (node_is_untyped(m, n))
			return true;
	return false;
}

bool types_fill(Module *m, Diag *d) {
	uint32_t before = d->errors;
	Filler f = {.m = m,
	            .d = d,
	            .entered = arena_array(m->arena, (size_t)m->graphs.count + 1, sizeof(bool)),
	            .known = arena_array(m->arena, (size_t)m->nodes.count + 1, sizeof(bool))};
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->kind == GRAPH_ROOT)
			fill_graph(&f, g);
	for (NodeId n = 0; n < m->nodes.count && d->errors == before; n++) {
		const Infer in = {m, d, n};
		if (node_is_untyped(m, n) && !f.known[n])
			infer_error(&in, "missing-meta", "declare it: \"meta\": {\"dtype\": ..., \"shape\": [...]}",
			            "its type does not follow from its arguments");
	}
	return d->errors == before;
}
