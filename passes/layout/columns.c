/* columns.c - in a loop over few rows, a 1-D tensor of one value a row is a column.
 *
 * What: a load or store of a 1-D tensor by a loop's own block becomes one of a view [N, 1], squeezed or unsqueezed,
 * where the loop's steps are no multiples of 128. Why on a TPU: as [1, N] the tensor's rows lie along lanes; a step
 * that starts at a lane which is no multiple of 128 cannot be cut out of a register, and would have to be turned into a
 * column of sublanes each time. As a column it is read where it is needed. In HBM it is padded to 128 lanes, 512 bytes
 * a row: little beside rows so long that a step takes few of them.
 *
 *     m = load mean[u1]          =>     c = load mean_column[u1, :]
 *                                       m = squeeze c, 1
 */

#include "layout.h"

typedef struct Column {
	Module *m;
	GraphId graph;
	BlockId rows;
} Column;

/* The 1-D tensor of an access, as a view [N, 1]. */
static NodeId column_host(Column *w, NodeId access) {
	TensorId of = access_tensor(w->m, access);
	Tensor t = w->m->tensors.at[of];
	const char *name = arena_printf(w->m->arena, "%s_column", t.name);
	TensorId view = tensor_find(w->m, name);
	if (view == NONE || w->m->tensors.at[view].of != of) {
		Tensor column = {.role = ROLE_VIEW, .dtype = t.dtype, .rank = 2, .of = of, .view = VIEW_RESHAPE};
		column.shape[0] = t.shape[0];
		column.shape[1] = expr_int(w->m, 1);
		view = tensor_new(w->m, name, column);
	}
	Arg arg = {.kind = ARG_TENSOR, .tensor = view};
	TypeId type = type_tensor(w->m, t.dtype, 2, w->m->tensors.at[view].shape);
	NodeId host = node_new(w->m, w->graph, OP_HOST_TENSOR, w->m->tensors.at[view].name, type, 1, &arg);
	node_get(w->m, host)->loc = node_get(w->m, access)->loc;
	node_insert_before(w->m, host, access);
	return host;
}

static TypeId column_type(Column *w, Dtype dtype) {
	const ExprId dims[2] = {expr_block(w->m, w->rows), expr_int(w->m, 1)};
	return type_tensor(w->m, dtype, 2, dims);
}

static void set_column_index(Column *w, NodeId n, NodeId host) {
	NodeId old = node_input(w->m, n, 0);
	Arg entries[2] = {arg_sym(expr_block(w->m, w->rows)), arg_whole(w->m)};
	Arg index = arg_list(w->m, 2, entries);
	arg_set_ref(w->m, node_get(w->m, n)->arg_first, host);
	arg_set(w->m, node_get(w->m, n)->arg_first + 1, index);
	if (node_uses(w->m, old) == NONE)
		node_remove(w->m, old);
}

/* load t[u] becomes squeeze(load t_column[u, :], 1). */
static void load_column(Column *w, NodeId n) {
	TypeId row = node_get(w->m, n)->type;
	set_column_index(w, n, column_host(w, n));
	node_set_type(w->m, n, column_type(w, node_type(w->m, n)->dtype));
	Arg args[2] = {arg_ref(n), arg_int(1)};
	NodeId squeezed = node_new(w->m, w->graph, OP_SQUEEZE_DIM, node_get(w->m, n)->name, row, 2, args);
	node_get(w->m, squeezed)->loc = node_get(w->m, n)->loc;
	node_insert_after(w->m, squeezed, n);
	node_replace_uses(w->m, n, squeezed, squeezed);
}

static void store_column(Column *w, NodeId n) {
	NodeId value = node_input(w->m, n, 2);
	set_column_index(w, n, column_host(w, n));
	if (value == NONE || node_type(w->m, value)->count == 0)
		return;
	Arg args[2] = {arg_ref(value), arg_int(1)};
	NodeId column = node_new(w->m, w->graph, OP_UNSQUEEZE, node_get(w->m, value)->name,
	                         column_type(w, node_type(w->m, value)->dtype), 2, args);
	node_get(w->m, column)->loc = node_get(w->m, n)->loc;
	node_insert_before(w->m, column, n);
	arg_set_ref(w->m, node_get(w->m, n)->arg_first + 2, column);
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

/* A loop around graph g, or g itself, iterates b: not the grid. */
static bool loop_iterates(const Module *m, GraphId g, BlockId b) {
	GraphId found = block_graph(m, g, b);
	return found != NONE && graph_get(m, found)->kind != GRAPH_ROOT;
}

/* The block of a 1-D access whose steps start between whole registers; NONE. */
static BlockId column_block(Module *m, GraphId g, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	TensorId id = op == OP_LOAD || op == OP_STORE ? access_tensor(m, n) : NONE;
	const Arg *index = node_arg(m, n, 1);
	if (id == NONE || m->tensors.at[id].rank != 1 || index->kind != ARG_LIST || index->list.count != 1 ||
	    op_arg(m, n, "extra_mask")->kind != ARG_NULL)
		return NONE;
	BlockId b = arg_block(m, arg_item(m, index, 0));
	int64_t extent = 0;
	if (b == NONE || m->block_size.at[b] % m->target->lanes == 0 || !loop_iterates(m, g, b) ||
	    (expr_value(m, m->tensors.at[id].shape[0], &extent) && extent == m->block_size.at[b]))
		return NONE;
	return b;
}

bool pass_columns(PassContext *c) {
	Module *m = c->module;
	uint32_t found = 0;
	if (module_loop_type(m) == LOOP_UNROLL) /* steps are numbers there, and any lane can be cut */
		return true;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
			next = node_get(m, n)->next;
			BlockId b = column_block(m, g, n);
			if (b == NONE)
				continue;
			Column w = {.m = m, .graph = g, .rows = b};
			const char *name = m->tensors.at[access_tensor(m, n)].name;
			if (node_get(m, n)->op == OP_LOAD)
				load_column(&w, n);
			else
				store_column(&w, n);
			pass_remark(c, "columns", "%s is a column in graph %lld: its steps are of %lld rows", name,
			            (long long)graph_get(m, g)->id, (long long)m->block_size.at[b]);
			found++;
		}
	return found == 0 || pass_facts_again(c);
}
