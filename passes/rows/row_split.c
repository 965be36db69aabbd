/* row_split.c - runs the body of a grid point on a few rows at a time.
 *
 * What: where every value of a root that has a grid block's dim is computed row by row, but for sums, maxima and minima
 * over that dim, the body becomes a loop over sub-blocks of rows. What was added up over the tile is carried from step
 * to step. Loads and stores move with the rows, so that the loop's own windows, of a few rows each, take the place of
 * the grid's. Why on a TPU: there are 64 vector registers of 8 x 128; a float32 tile of [128, 10240] is 1280 of them.
 * As one straight body every intermediate of it lives in VMEM, and the compiler unrolls each op over all registers; a
 * step of 16 rows needs an eighth of the memory.
 *
 *     x = load x[u0, :]                      loop = for_loop g, [begin u0], [end u0], [zeros]
 *     store y[u0, :], 2 * x                  store w[id u0, :], loop.0
 *     store w[id u0, :], sum x over rows =>  g(acc) over u1 (16 rows):
 *                                              x = load x[u1, :]
 *                                              store y[u1, :], 2 * x
 *                                              acc + sum x over rows
 *
 * A 1-D tensor of one value a row is then read as a column: columns.c. */
#include "row_split.h"
#include "rows.h"

/* auto leaves it to the search (src/driver/choose.c) where whole tiles may not fit VMEM, of which straight code holds
 * about so many at once: where they do fit, they are faster. docs/passes/row_split.md has the measurements. */
enum { HELD_TILES = 2 };

/* ---- reading nodes ----------------------------------------------------------------------------------------------- */

/* Which dims of a value are the block's, as a bit set. */
static uint32_t dims_with(const RowSplit *s, NodeId n) {
	const Type *t = node_type(s->m, n);
	uint32_t dims = 0;
	for (uint32_t i = 0; t->kind == TYPE_TENSOR && node_get(s->m, n)->op != OP_HOST_TENSOR && i < t->count; i++)
		if (expr_as_block(s->m, t->dims[i]) == s->block)
			dims |= 1u << i;
	return dims;
}

static bool refuse(RowSplit *s, NodeId n, const char *why) {
	s->why = why;
	s->at = n;
	return false;
}

/* Is a member of the argument, or it itself, a reference to a node of that role? */
static bool refers_to(const RowSplit *s, const Arg *a, RowRole role) {
	if (a->kind == ARG_REF)
		return s->role[a->node] == role;
	bool found = false;
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count && !found; i++)
		found = refers_to(s, arg_item(s->m, a, i), role);
	return found;
}

static bool uses_role(const RowSplit *s, NodeId n, RowRole role) {
	bool found = false;
	for (uint32_t i = 0; i < node_get(s->m, n)->arg_count && !found; i++)
		found = refers_to(s, node_arg(s->m, n, i), role);
	return found;
}

/* ---- what moves -------------------------------------------------------------------------------------------------- */

static bool reduction_known(uint16_t op) {
	op = op_canonical(op);
	return op == OP_SUM || op == OP_MEAN || op == OP_MAX || op == OP_MIN;
}

/* A value without rows made of one with rows. */
static bool classify_sum(RowSplit *s, NodeId n) {
	uint16_t op = op_canonical(node_get(s->m, n)->op);
	Dtype dtype = node_type(s->m, n)->dtype;
	if (op != OP_SUM && op != OP_MAX && op != OP_MIN)
		return refuse(s, n, "it needs all rows at once");
	if (!(reduction_dims(s->m, n) & 1) || node_type(s->m, n)->count == 0)
		return refuse(s, n, "it does not reduce over the rows alone");
	if (op == OP_SUM ? dtype != DTYPE_F32 && dtype != DTYPE_I32 : !dtype_is_float(dtype))
		return refuse(s, n, "adding up in steps would round more often");
	s->role[n] = ROLE_SUM;
	return true;
}

static bool classify_access(RowSplit *s, NodeId n) {
	TensorId id = access_tensor(s->m, n);
	const Arg *index = node_arg(s->m, n, 1);
	uint32_t found = 0, dim = 0;
	if (id == NONE || index->kind != ARG_LIST || index->list.count != s->m->tensors.at[id].rank)
		return refuse(s, n, "its index is not one of tiles");
	const Tensor *t = &s->m->tensors.at[id];
	for (uint32_t i = 0; i < index->list.count; i++)
		if (arg_block(s->m, arg_item(s->m, index, i)) == s->block)
			found++, dim = i;
	if (found != 1 || (dim + 1 == t->rank && t->rank > 1))
		return refuse(s, n, "its rows do not lie along a dim before the last");
	if (op_arg(s->m, n, "extra_mask")->kind != ARG_NULL)
		return refuse(s, n, "it has an extra mask");
	if (t->rank > 1)
		s->rows = int_max(s->rows, target_packed_rows(s->m->target, dtype_bits(t->dtype)));
	s->role[n] = ROLE_ROW;
	return true;
}

static bool row_by_row(const RowSplit *s, NodeId n) {
	uint16_t op = node_get(s->m, n)->op;
	switch (op_kind(s->m, n)) {
	case KIND_POINTWISE:
	case KIND_CREATION: return op != OP_IOTA;
	case KIND_MATMUL: return true;
	case KIND_REDUCTION: return reduction_known(op);
	case KIND_VIEW: return view_renames(op) || op_lanes(op) == LANES_EXPAND;
	case KIND_QUERY: return op == OP_TILE_INDEX;
	default: return op == OP_MASK_TO || op == OP_NEW_VAR;
	}
}

static bool classify_row(RowSplit *s, NodeId n) {
	if (dims_with(s, n) != 1)
		return refuse(s, n, "its rows are not its first dim alone");
	if (uses_role(s, n, ROLE_SUM) || uses_role(s, n, ROLE_AFTER))
		return refuse(s, n, "it needs what all rows give");
	if (node_get(s->m, n)->op == OP_LOAD)
		return classify_access(s, n);
	if (!row_by_row(s, n))
		return refuse(s, n, "its op is not known to work row by row");
	s->role[n] = ROLE_ROW;
	return true;
}

static bool classify_store(RowSplit *s, NodeId n) {
	const Arg *index = node_arg(s->m, n, 1);
	bool rows = uses_role(s, n, ROLE_ROW);
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++)
		rows |= arg_block(s->m, arg_item(s->m, index, i)) == s->block;
	if (!rows)
		s->role[n] = ROLE_AFTER;
	else if (uses_role(s, n, ROLE_SUM) || uses_role(s, n, ROLE_AFTER))
		return refuse(s, n, "it needs what all rows give");
	return !rows || classify_access(s, n);
}

static bool classify(RowSplit *s, NodeId n) {
	uint16_t op = node_get(s->m, n)->op;
	OpKind kind = op_kind(s->m, n);
	if (op == OP_OUTPUT || op == OP_HOST_TENSOR || op == OP_SCALAR || kind == KIND_SYMBOLIC)
		return true;
	if (op == OP_STORE)
		return classify_store(s, n);
	if (op == OP_ATOMIC_ADD && node_uses(s->m, n) == NONE && !uses_role(s, n, ROLE_ROW)) {
		s->role[n] = ROLE_AFTER;
		return true;
	}
	if (op_has_effect(op) || op_is_call(op) || op == OP_GETITEM)
		return refuse(s, n, "the body has loops, branches or atomics of its own");
	if (dims_with(s, n))
		return classify_row(s, n);
	if (uses_role(s, n, ROLE_ROW))
		return classify_sum(s, n);
	if (uses_role(s, n, ROLE_SUM) || uses_role(s, n, ROLE_AFTER))
		s->role[n] = ROLE_AFTER;
	return true;
}

/* Of a value, as 32-bit ones; 0 if it is no tensor or its size is not known. */
static int64_t tile_bytes(const RowSplit *s, NodeId n) {
	const Type *t = node_type(s->m, n);
	int64_t bytes = 4, size;
	for (uint32_t i = 0; t->kind == TYPE_TENSOR && i < t->count; i++)
		if (!expr_value(s->m, t->dims[i], &size) || !checked_mul(bytes, size, &bytes))
			return 0;
	return t->kind == TYPE_TENSOR ? bytes : 0;
}

static void measure(RowSplit *s, NodeId n) {
	uint16_t op = node_get(s->m, n)->op;
	NodeId moved = op == OP_LOAD ? n : op == OP_STORE ? node_input(s->m, n, 2) : NONE;
	if (s->role[n] != ROLE_ROW)
		return;
	s->largest = int_max(s->largest, tile_bytes(s, n));
	if (moved != NONE)
		s->windows += tile_bytes(s, moved) / 32 * dtype_bits(s->m->tensors.at[access_tensor(s->m, n)].dtype);
}

/* What is written is not read, and each tensor is written in one place. */
static bool one_write_each(RowSplit *s) {
	Map written = {0};
	for (NodeId n = graph_first(s->m, s->root); n != NONE; n = node_get(s->m, n)->next) {
		TensorId id = op_writes(node_get(s->m, n)->op) ? access_tensor(s->m, n) : NONE;
		if (id == NONE)
			continue;
		if (map_get(&written, tensor_base(s->m, id)) != NONE)
			return refuse(s, n, "the tensor is written twice");
		map_put(s->c->arena, &written, tensor_base(s->m, id), n);
	}
	for (NodeId n = graph_first(s->m, s->root); n != NONE; n = node_get(s->m, n)->next) {
		TensorId id = node_get(s->m, n)->op == OP_LOAD ? access_tensor(s->m, n) : NONE;
		if (id != NONE && map_get(&written, tensor_base(s->m, id)) != NONE)
			return refuse(s, n, "the tensor is written too");
	}
	return true;
}

/* ---- whether to -------------------------------------------------------------------------------------------------- */

static bool splits_at(RowSplit *s, BlockId b) {
	uint32_t rows = 0;
	int64_t size = s->m->block_size.at[b];
	s->block = b;
	s->rows = s->m->target->sublanes;
	s->largest = s->windows = 0;
	memset(s->role, 0, s->nodes * sizeof *s->role);
	for (NodeId n = graph_first(s->m, s->root); n != NONE; n = node_get(s->m, n)->next) {
		if (!classify(s, n))
			return false;
		measure(s, n);
		rows += s->role[n] == ROLE_ROW && node_get(s->m, n)->op == OP_STORE;
		rows += s->role[n] == ROLE_SUM;
	}
	if (rows == 0)
		return refuse(s, NONE, "no value has its rows");
	if (size <= s->rows || size % s->rows != 0)
		return refuse(s, NONE,
		              arena_printf(s->c->arena, "a tile of %lld rows is not several times %lld rows",
		                           (long long)size, (long long)s->rows));
	return one_write_each(s);
}

static const char *place(const RowSplit *s) {
	return s->at == NONE ? s->m->blocks.at[s->block].name : node_get(s->m, s->at)->name;
}

/* A cap on elements speaks of the tile that the configuration asks for: where that may be refused, it stays as it is
 * for the plan to say so. */
static bool cap_holds(RowSplit *s) {
	bool held = s->m->element_limits.count == 0 || (Switch)s->m->config.boundary_views.value != SWITCH_OFF;
	for (uint32_t i = 0; i < s->m->element_limits.count; i++) {
		const ElementLimit *limit = &s->m->element_limits.at[i];
		int64_t elements;
		held = held && expr_value(s->m, limit->elements, &elements) && elements <= limit->most;
	}
	return held;
}

static bool worth_it(RowSplit *s, Switch choice) {
	if (!cap_holds(s)) {
		pass_remark(s->c, "row_split", "tiles stay whole: %s may refuse them", s->m->target->name);
		return false;
	}
	if (choice == SWITCH_AUTO && module_loop_type(s->m) == LOOP_UNROLL) {
		pass_remark(s->c, "row_split", "auto: pallas_loop_type unroll asks for straight code");
		return false;
	}
	/* The pipeline keeps two windows of each array, and straight code some tiles. */
	int64_t whole = 2 * s->windows + HELD_TILES * s->largest;
	if (choice == SWITCH_ON)
		return true;
	if (whole > s->m->target->vmem_bytes) {
		s->m->may_split_rows = true;
		return s->m->split_rows;
	}
	pass_remark(s->c, "row_split", "auto: whole tiles take about %lld bytes of VMEM: they fit", (long long)whole);
	return false;
}

/* False after a diagnostic. */
static bool split_root(PassContext *c, GraphId root, Switch choice) {
	Module *m = c->module;
	RowSplit s = {.c = c, .m = m, .root = root, .at = NONE, .nodes = m->nodes.count};
	s.role = arena_array(c->arena, (size_t)s.nodes + 1, sizeof *s.role);
	for (uint32_t i = graph_get(m, root)->blocks.count; i-- > 0;) {
		BlockId b = graph_get(m, root)->blocks.at[i];
		if (splits_at(&s, b))
			return !worth_it(&s, choice) || row_split_rewrite(&s);
		if (choice == SWITCH_ON)
			pass_remark(c, "row_split", "%s is not split: '%s': %s", m->blocks.at[b].name, place(&s),
			            s.why);
	}
	return true;
}

bool pass_row_split(PassContext *c) {
	Switch choice = (Switch)c->module->config.row_split.value;
	bool ok = true;
	GraphId root;
	for (uint32_t k = 0; ok && choice != SWITCH_OFF && (root = module_root(c->module, k)) != NONE; k++)
		ok = split_root(c, root, choice);
	return ok;
}
