/* verify.c - module_verify: a Module is what the format promises. The loader checks what one value of the document can
 * show; here is what needs several: structure, each node's type inferred anew, calls, block symbols in scope. It holds
 * after every pass as well (--verify-each). Linear in the Module's size. */
#include "verifier.h"
#include "verify.h"

/* ---- reporting --------------------------------------------------------------------------------------------------- */

void verify_node_error(Verifier *v, NodeId n, const char *code, const char *hint, const char *fmt, ...) {
	const Infer in = {v->m, v->d, n};
	va_list ap;
	va_start(ap, fmt);
	const char *what = arena_vprintf(v->m->arena, fmt, ap);
	va_end(ap);
	infer_error(&in, code, hint, "%s", what);
	v->failed[n] = true;
}

void verify_graph_error(Verifier *v, GraphId g, const char *code, const char *hint, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	const char *what = arena_vprintf(v->m->arena, fmt, ap);
	va_end(ap);
	diag_error(v->d, graph_place(v->m, v->d, g), code, hint, "graph %lld: %s", (long long)graph_get(v->m, g)->id,
	           what);
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static bool has_value(Module *m, TypeId type) { return !type_admits(m, type_none(m), type); }

void verify_type(Verifier *v, NodeId n) {
	TypeId declared = node_get(v->m, n)->type, inferred;
	if (!op_infer(v->m, v->d, n, &inferred))
		v->failed[n] = true;
	else if (type_admits(v->m, declared, inferred))
		return;
	else if (!has_value(v->m, declared))
		verify_node_error(v, n, "missing-meta", "declare what is inferred",
		                  "it declares no `meta`, inferred %s", type_string(v->m, inferred));
	else if (!has_value(v->m, inferred))
		verify_node_error(v, n, "type-mismatch", "leave out its `meta`", "it declares %s, but has no value",
		                  type_string(v->m, declared));
	else
		verify_node_error(v, n, "type-mismatch", "declare what is inferred, or leave out its `meta`",
		                  "it declares %s, inferred %s", type_string(v->m, declared),
		                  type_string(v->m, inferred));
}

static bool inputs_failed(const Verifier *v, const Arg *arg) {
	if (arg->kind == ARG_REF)
		return v->failed[arg->node];
	if (arg->kind != ARG_LIST && arg->kind != ARG_SLICE)
		return false;
	for (uint32_t i = 0; i < arg->list.count; i++)
		if (inputs_failed(v, arg_item(v->m, arg, i)))
			return true;
	return false;
}

/* ---- block symbols ----------------------------------------------------------------------------------------------- */

/* A whole tile can be named where its loop or grid is around; a `reduction` dim that is not rolled, everywhere. As a
 * size, in a shape or tile.block_size, a symbol may stand anywhere: the configuration gives its value. */
static void check_scope(Verifier *v, NodeId n, const Arg *arg) {
	BlockId block = arg_block(v->m, arg);
	if (block == NONE || v->failed[n] || block_in_scope(v->m, node_get(v->m, n)->graph, block))
		return;
	verify_node_error(v, n, "block-scope", "a tile exists only inside its grid or loop",
	                  "no grid or loop around it iterates over block '%s'", v->m->blocks.at[block].symbol);
	block_relate(v->m, v->d, block);
}

static void check_scopes(Verifier *v, NodeId n) {
	uint16_t op = node_get(v->m, n)->op;
	if (op_kind(v->m, n) == KIND_QUERY && op != OP_TILE_BLOCK_SIZE)
		check_scope(v, n, node_arg(v->m, n, 0));
	if (!op_accesses(op))
		return;
	const Arg *index = op_arg(v->m, n, "index");
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++)
		check_scope(v, n, arg_item(v->m, index, i));
}

/* ---- host tensors ------------------------------------------------------------------------------------------------ */

/* A host tensor lies in HBM: what computes needs a tile of it. Its sizes may be asked for. */
static bool takes_host_tensor(const Module *m, NodeId n, uint32_t param) {
	uint16_t op = node_get(m, n)->op;
	return op == OP_SYM_SIZE || (param == 0 && op_accesses(op));
}

static NodeId host_operand(const Module *m, const Arg *arg) {
	if (arg->kind == ARG_REF)
		return node_get(m, arg->node)->op == OP_HOST_TENSOR ? arg->node : NONE;
	NodeId found = NONE;
	for (uint32_t i = 0; arg->kind == ARG_LIST && i < arg->list.count && found == NONE; i++)
		found = host_operand(m, arg_item(m, arg, i));
	return found;
}

static void check_host_operands(Verifier *v, NodeId n) {
	for (uint32_t i = 0; i < node_get(v->m, n)->arg_count && !v->failed[n]; i++) {
		NodeId host = takes_host_tensor(v->m, n, i) ? NONE : host_operand(v->m, node_arg(v->m, n, i));
		if (host != NONE)
			verify_node_error(v, n, "host-tensor-operand", "take a tile of it with tile.load",
			                  "operand '%s' is a host tensor", node_get(v->m, host)->name);
	}
}

bool node_infer(Module *m, Diag *d, NodeId n) {
	Verifier v = {.m = m, .d = d, .failed = arena_array(m->arena, m->nodes.count, sizeof(bool))};
	TypeId inferred;
	check_host_operands(&v, n);
	if (v.failed[n])
		return false;
	if (has_value(m, node_get(m, n)->type))
		verify_type(&v, n);
	else if (op_infer(m, d, n, &inferred))
		node_set_type(m, n, inferred);
	else
		return false;
	return !v.failed[n];
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static void verify_node(Verifier *v, NodeId n) {
	if (v->failed[n])
		return;
	for (uint32_t i = 0; i < node_get(v->m, n)->arg_count && !v->failed[n]; i++)
		v->failed[n] = inputs_failed(v, node_arg(v->m, n, i));
	if (!v->failed[n])
		check_host_operands(v, n);
	if (v->failed[n])
		return;
	if (op_row(node_get(v->m, n)->op)->shape == SHAPE_CALL)
		return; /* after the graphs that it calls: verify_call.c */
	if (node_get(v->m, n)->op == OP_PLACEHOLDER && !has_value(v->m, node_get(v->m, n)->type))
		verify_node_error(v, n, "missing-meta", NULL, "it declares no `meta`");
	else
		verify_type(v, n);
	check_scopes(v, n);
}

static void verify_root(Verifier *v, GraphId g) {
	const Graph *graph = graph_get(v->m, g);
	const Arg *results = graph_results(v->m, g);
	if (results->kind == ARG_LIST && results->list.count > 0)
		verify_node_error(v, graph->output, "output-node", "a root gives its results by tile.store",
		                  "the output of a root must be empty");
	if (graph->placeholders.count > 0)
		verify_node_error(v, graph->placeholders.at[0], "root-placeholder", NULL,
		                  "nothing calls a root with arguments");
	for (uint32_t i = 0; i < graph->blocks.count; i++) {
		const Block *block = &v->m->blocks.at[graph->blocks.at[i]];
		if (block->extent != NONE)
			continue;
		verify_graph_error(v, g, "grid-extent", "give it one: the kernel runs at a fixed number of grid points",
		                   "block '%s' of its grid has no extent", block->symbol);
		block_relate(v->m, v->d, graph->blocks.at[i]);
	}
}

bool position_too_far(const Module *m, ExprId e, int64_t *value) {
	bool known = expr_value(m, e, value) && (m->exprs.at[e].kind == EXPR_INT || !m->sizes_asked);
	return known && (*value < -POSITION_MAX || *value > POSITION_MAX);
}

/* Every position of a kernel lies in a tensor's dim, or in a block's range. */
static void verify_positions(Verifier *v) {
	int64_t value;
	for (TensorId t = 0; t < v->m->tensors.count; t++) {
		const Tensor *tensor = &v->m->tensors.at[t];
		for (uint32_t d = 0; d < tensor->rank; d++)
			if (position_too_far(v->m, tensor->shape[d], &value))
				diag_error(v->d, tensor_place(v->m, v->d, t), "size-range", POSITION_HINT,
				           "dim %u of '%s' has %lld elements", d, tensor->name, (long long)value);
	}
	for (BlockId b = 0; b < v->m->blocks.count; b++) {
		const Block *block = &v->m->blocks.at[b];
		if (position_too_far(v->m, block->begin, &value))
			diag_error(v->d, diag_place(v->d, v->m->source, "/block_sizes/%u/begin", b), "size-range",
			           POSITION_HINT, "the range of block '%s' begins at %lld", block->symbol,
			           (long long)value);
		if (position_too_far(v->m, block->extent, &value))
			diag_error(v->d, diag_place(v->d, v->m->source, "/block_sizes/%u/extent", b), "size-range",
			           POSITION_HINT, "the range of block '%s' ends at %lld", block->symbol,
			           (long long)value);
	}
}

/* The ops before and after the kernel, once the sizes are known. */
static void verify_host(Verifier *v) {
	for (TensorId t = 0; t < v->m->tensors.count && v->m->configured; t++) {
		const Tensor *tensor = &v->m->tensors.at[t];
		if (tensor->role == ROLE_DERIVED)
			derived_infer(v->m, v->d, v->m->arena, t,
			              arena_array(v->m->arena, (size_t)tensor->step_count + 1, sizeof(HostValue)));
	}
	for (uint32_t r = 0; r < v->m->returns.count && v->m->configured; r++) {
		uint32_t count = v->m->returns.at[r].step_count;
		if (count > 0)
			return_infer(v->m, v->d, v->m->arena, r,
			             arena_array(v->m->arena, count + 2, sizeof(HostValue)));
	}
}

bool module_verify(Module *m, Diag *d) {
	uint32_t before = d->errors;
	Verifier v = {.m = m, .d = d};
	v.failed = arena_array(m->arena, m->nodes.count, sizeof *v.failed);
	v.position = arena_array(m->arena, m->nodes.count, sizeof *v.position);
	verify_structure(&v);
	if (m->configured)
		verify_positions(&v);
	if (d->errors > before)
		return false;
	for (GraphId g = 0; g < m->graphs.count; g++) {
		for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
			verify_node(&v, n);
		if (graph_get(m, g)->kind == GRAPH_ROOT)
			verify_root(&v, g);
	}
	verify_calls(&v);
	verify_remote(&v);
	verify_host(&v);
	return d->errors == before;
}
