/* decompose_access.c - loads as the plan knows them: masks, steps and new axes stand behind them; and atomics whose old
 * value something reads: a load and a store, where all lanes have places of their own. */
#include "decompose.h"

/* A slice with a step, of known ends. */
static bool is_stepped(const Module *m, const Arg *entry) {
	const Arg *step = entry->kind == ARG_SLICE ? arg_item(m, entry, 2) : entry;
	if (entry->kind != ARG_SLICE || step->kind != ARG_INT || step->integer < 2)
		return false;
	for (uint32_t i = 0; i < 2; i++)
		if (arg_item(m, entry, i)->kind != ARG_NULL && arg_item(m, entry, i)->kind != ARG_INT)
			return false;
	return true;
}

static bool has_entry(const Module *m, NodeId n, bool (*is)(const Module *, const Arg *)) {
	const Arg *index = node_arg(m, n, 1);
	for (uint32_t i = 0; i < index->list.count; i++)
		if (is(m, arg_item(m, index, i)))
			return true;
	return false;
}

/* The end of a loop over it is clamped to what its tiles index. */
static bool is_of_loop(const Module *m, GraphId g, BlockId b) {
	for (; graph_get(m, g)->caller != NONE; g = graph_parent(m, g))
		for (uint32_t i = 0; i < graph_get(m, g)->blocks.count; i++)
			if (graph_get(m, g)->blocks.at[i] == b)
				return true;
	return false;
}

/* The tile of the grid by which a load's last dim, of one element, is indexed: all its lanes are that element; NONE. */
static BlockId spread_block(const Module *m, NodeId n) {
	TensorId t = access_tensor(m, n);
	const Arg *index = node_arg(m, n, 1);
	if (node_get(m, n)->op != OP_LOAD || t == NONE || m->assume_in_bounds || index->list.count == 0 ||
	    !tensor_is_given(m, t))
		return NONE;
	const Tensor *of = &m->tensors.at[t];
	BlockId b = arg_block(m, arg_item(m, index, index->list.count - 1));
	int64_t extent;
	if (b == NONE || is_of_loop(m, node_get(m, n)->graph, b) || of->rank < 2 ||
	    !expr_is_int(m, of->shape[of->rank - 1], 1))
		return NONE;
	bool one = m->blocks.at[b].extent != NONE && expr_value(m, m->blocks.at[b].extent, &extent) && extent == 1;
	return one ? NONE : b;
}

/* Entry i of a load's index is a tile of the grid that may pass the end of its dim: lanes behind it give the last
 * element, as positions do. */
static bool passes_end(const Module *m, NodeId n, uint32_t i) {
	TensorId t = access_tensor(m, n);
	const Arg *index = node_arg(m, n, 1);
	if (node_get(m, n)->op != OP_LOAD || t == NONE || m->assume_in_bounds || index->kind != ARG_LIST)
		return false;
	BlockId b = arg_block(m, arg_item(m, index, i));
	if (b == NONE || m->tensors.at[tensor_base(m, t)].role != ROLE_INPUT || has_entry(m, n, entry_gathers))
		return false;
	uint32_t dim = 0;
	for (uint32_t k = 0; k < i; k++)
		dim += arg_item(m, index, k)->kind != ARG_NULL;
	int64_t size, extent;
	return !is_of_loop(m, node_get(m, n)->graph, b) && dim < m->tensors.at[t].rank &&
	       expr_value(m, m->tensors.at[t].shape[dim], &size) && size > 1 && m->blocks.at[b].extent != NONE &&
	       expr_value(m, m->blocks.at[b].extent, &extent) && extent > size;
}

static bool some_passes_end(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++)
		if (passes_end(m, n, i))
			return true;
	return false;
}

static bool is_new_axis(const Module *m, const Arg *entry) {
	(void)m;
	return entry->kind == ARG_NULL;
}

/* Every so many lanes of what was loaded whole. */
static NodeId make_stepped(Decompose *d, NodeId value) {
	Module *m = d->m;
	uint32_t dim = 0, count = node_arg(m, d->n, 1)->list.count;
	for (uint32_t i = 0; i < count; i++) {
		Arg entry = *arg_item(m, node_arg(m, d->n, 1), i);
		if (is_stepped(m, &entry))
			value = make_slice(d, value, dim, &entry);
		dim += entry.kind != ARG_NULL && entry_is_dim(m, &entry);
	}
	return value;
}

/* The index of the access without its new axes and steps; `views`: of what it gives, with them, as tile.subscript takes
 * it. */
static Arg index_of(Decompose *d, Arg *views) {
	Module *m = d->m;
	uint32_t count = 0, dims = 0, all = node_arg(m, d->n, 1)->list.count;
	Arg *entries = arena_array(m->arena, (size_t)all + 1, sizeof *entries);
	Arg *view = arena_array(m->arena, (size_t)all + 1, sizeof *view);
	for (uint32_t i = 0; i < all; i++) {
		Arg entry = *arg_item(m, node_arg(m, d->n, 1), i);
		if (entry_is_dim(m, &entry) || entry_gathers(m, &entry))
			view[dims++] = entry.kind == ARG_NULL ? arg_null() : arg_whole(m);
		bool behind = passes_end(m, d->n, i);
		Arg tile = arg_copy(m, entry);
		if (entry.kind != ARG_NULL)
			entries[count++] = is_stepped(m, &entry) ? arg_whole(m)
			                   : behind ? arg_ref(make_node(d, OP_TILE_INDEX, "index", 1, &tile))
			                            : tile;
	}
	if (spread_block(m, d->n) != NONE)
		entries[count - 1] = arg_whole(m);
	*views = arg_list(m, dims, view);
	return arg_list(m, count, entries);
}

/* ---- lanes at positions ------------------------------------------------------------------------------------------ */

/* The load's elements are taken from registers: lanes wherever they can be, rows where no other way takes less. */
static bool takes_elements(const Module *m, NodeId n, VectorGather *v) {
	if (m->config.indirect_access_mode.value > INDIRECT_AUTO || vector_gather_of(m, n, v))
		return false;
	if (!v->rows)
		return true;
	WayCost cost[WAY_COUNT];
	indirect_costs(m, n, (double)v->count, (double)v->others, cost);
	bool least = true;
	for (IndirectWay way = 0; way < WAY_COUNT; way++)
		least = least && (cost[way].why || cost[way].cycles >= cost[WAY_VECTOR].cycles);
	return least;
}

NodeId make_zero_outside(Decompose *d, NodeId index, NodeId value) {
	Module *m = d->m;
	bool hidden = true;
	for (uint32_t i = 0; i < node_type(m, index)->count; i++) {
		BlockId b = expr_as_block(m, node_type(m, index)->dims[i]);
		hidden = hidden && (b == NONE || hides_outside(m, d->n, b));
	}
	Arg args[2] = {arg_ref(value), node_type(m, value)->dtype == DTYPE_BOOL ? arg_bool(false) : arg_int(0)};
	return hidden ? value : make_node(d, OP_MASK_TO, "inside", 2, args);
}

/* ---- loads ------------------------------------------------------------------------------------------------------- */

/* The load, or one of whole rows whose elements are then taken. */
static NodeId make_load(Decompose *d, Arg *args) {
	Module *m = d->m;
	VectorGather v;
	if (!takes_elements(m, d->n, &v))
		return make_node(d, OP_LOAD, "all", 3, args);
	indirect_note(d->c, d->n, WAY_VECTOR);
	Arg entries[RANK_MAX];
	uint32_t count = args[1].list.count;
	for (uint32_t i = 0; i < count; i++)
		entries[i] = entry_gathers(m, arg_item(m, &args[1], i)) ? arg_whole(m)
		                                                        : arg_copy(m, *arg_item(m, &args[1], i));
	args[1] = arg_list(m, count, entries);
	NodeId all = make_node(d, OP_LOAD, "rows", 3, args);
	return make_zero_outside(d, v.index, (v.rows ? make_rows_taken : make_taken)(d, all, v.index));
}

NodeId make_elements(Decompose *d, NodeId load) {
	Decompose at = {.c = d->c, .m = d->m, .n = load};
	VectorGather v;
	Arg args[3] = {arg_null(), arg_null(), arg_null()};
	if (!takes_elements(d->m, load, &v))
		return load;
	for (uint32_t i = 0; i < 2; i++)
		args[i] = arg_copy(d->m, *node_arg(d->m, load, i));
	NodeId value = make_load(&at, args);
	node_remove(d->m, load);
	d->failed |= at.failed;
	return value;
}

/* The one lane of the value's last dim in all lanes of a tile; zeros where no tile is. */
static NodeId make_spread(Decompose *d, NodeId value, BlockId b) {
	Module *m = d->m;
	Type t = *node_type(m, value);
	t.dims[t.count - 1] = node_type(m, d->n)->dims[node_type(m, d->n)->count - 1];
	value = make_expanded(d, value, t.count, t.dims, "spread");
	Arg inside[2] = {arg_ref(value), t.dtype == DTYPE_BOOL ? arg_bool(false) : arg_int(0)};
	return hides_outside(m, d->n, b) ? value : make_node(d, OP_MASK_TO, "inside", 2, inside);
}

/* What the access touches; without a mask. */
static NodeId load_all(Decompose *d) {
	Module *m = d->m;
	Arg views, args[3] = {arg_copy(m, *node_arg(m, d->n, 0)), arg_null(), arg_null()};
	args[1] = index_of(d, &views);
	NodeId value = make_stepped(d, make_load(d, args));
	BlockId b = spread_block(m, d->n);
	value = b == NONE ? value : make_spread(d, value, b);
	Arg view[2] = {arg_ref(value), views};
	return has_entry(m, d->n, is_new_axis) ? make_node(d, OP_SUBSCRIPT, "axes", 2, view) : value;
}

static NodeId or_zero(Decompose *d, NodeId mask, NodeId value) {
	bool is_bool = node_type(d->m, value)->dtype == DTYPE_BOOL;
	return make_where(d, "masked", mask, arg_ref(value), is_bool ? arg_bool(false) : arg_int(0));
}

/*     v = load x[None, u0]      =>      w = load x[u0]
 *                                       v = subscript w, [None, :]
 *
 *     v = load x[u0, ::2]     =>      w = load x[u0, :]
 *                                     v = slice w, 1, step 2
 *
 * Lanes that extra_mask hides are 0. */
static NodeId plain_load(Decompose *d, uint32_t element) {
	(void)element;
	NodeId mask = node_input(d->m, d->n, 2), value = load_all(d);
	return mask == NONE ? value : or_zero(d, mask, value);
}

/* ---- old values -------------------------------------------------------------------------------------------------- */

/* An entry that is one position, as a node gives it. */
static bool is_position(const Module *m, const Arg *entry) {
	return entry->kind == ARG_REF && arg_block(m, entry) == NONE && node_type(m, entry->node)->count == 0;
}

static bool is_expanded(const Module *m, TensorId t) {
	for (; m->tensors.at[t].role == ROLE_VIEW; t = m->tensors.at[t].of)
		if (m->tensors.at[t].view == VIEW_EXPAND)
			return true;
	return false;
}

/* Each lane has a place of its own: tiles, whole dims and positions. */
static bool places_differ(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	TensorId t = access_tensor(m, n);
	if (t == NONE || index->kind != ARG_LIST || is_expanded(m, t))
		return false;
	for (uint32_t i = 0, dim = 0; i < index->list.count; i++) {
		const Arg *e = arg_item(m, index, i);
		int64_t extent;
		if (e->kind == ARG_NULL)
			continue;
		if (dim >= m->tensors.at[t].rank || !expr_value(m, m->tensors.at[t].shape[dim++], &extent))
			return false;
		bool number = e->kind == ARG_INT && e->integer >= 0 && e->integer < extent;
		if (arg_block(m, e) == NONE && !arg_is_whole(m, e) && !is_position(m, e) && !number)
			return false;
	}
	return true;
}

/* Where the lanes of a tile lie in a dim of `size`; they are a dim of the access, with `after` behind it. */
static NodeId lanes_inside(Decompose *d, Arg tile, int64_t size, uint32_t after) {
	NodeId index = make_node(d, OP_TILE_INDEX, "index", 1, &tile);
	NodeId below = make_binary(d, OP_LT_SCALAR, "below", index, arg_int(size));
	return make_unsqueezed(d, below, 1, after, "below");
}

/* The positions and lanes that lie in the tensor; NONE: all do. */
static NodeId places_inside(Decompose *d) {
	Module *m = d->m;
	NodeId all = NONE;
	uint32_t after = node_type(m, d->n)->count;
	for (uint32_t i = 0, dim = 0; i < node_arg(m, d->n, 1)->list.count; i++) {
		Arg e = arg_copy(m, *arg_item(m, node_arg(m, d->n, 1), i));
		int64_t extent = 0;
		BlockId b = arg_block(m, &e);
		after -= entry_is_dim(m, &e);
		if (e.kind == ARG_NULL)
			continue;
		(void)expr_value(m, m->tensors.at[access_tensor(m, d->n)].shape[dim++], &extent);
		if (b != NONE && !tile_within(m, b, extent))
			all = make_and(d, "and", all, lanes_inside(d, e, extent, after));
		if (!is_position(m, &e))
			continue;
		all = make_and(d, "and", all, make_binary(d, OP_GE_SCALAR, "not_below", e.node, arg_int(0)));
		all = make_and(d, "and", all, make_binary(d, OP_LT_SCALAR, "below", e.node, arg_int(extent)));
	}
	return all;
}

static NodeId in_dtype(Decompose *d, Arg value, Dtype dtype) {
	Arg full[3] = {arg_list(d->m, 0, NULL), value, arg_dtype(dtype)};
	if (value.kind != ARG_REF)
		return make_node(d, OP_FULL, "number", 3, full);
	return node_type(d->m, value.node)->kind == TYPE_SYM ? value.node : make_converted(d, value.node, dtype);
}

/* What the place holds afterwards; other lanes stay. */
static NodeId new_value(Decompose *d, NodeId old) {
	Module *m = d->m;
	uint16_t op = node_get(m, d->n)->op;
	Dtype own = node_type(m, d->n)->dtype, wide = own;
	Arg value = *op_arg(m, d->n, "value");
	if (op == OP_ATOMIC_CAS) {
		Arg same[2] = {arg_ref(old), arg_ref(in_dtype(d, *op_arg(m, d->n, "expected"), own))};
		NodeId taken = make_node(d, OP_EQ, "same", 2, same);
		return make_where(d, "swapped", taken, arg_ref(in_dtype(d, value, own)), arg_ref(old));
	}
	if (value.kind == ARG_REF && node_type(m, value.node)->kind == TYPE_TENSOR)
		wide = dtype_promote(own, node_type(m, value.node)->dtype);
	if (op == OP_ATOMIC_XCHG)
		return in_dtype(d, value, wide);
	wide = op_is(op, IS_CHOICE) ? wide : dtype_widened(wide); /* codegen widens what it chooses of */
	NodeId x = make_converted(d, old, wide);
	return make_binary(d, op_canonical(op), "combined", x, arg_ref(in_dtype(d, value, wide)));
}

/*     v = atomic_add x[u0], y      =>      v = load x[u0]
 *                                          store x[u0], v + y */
static NodeId load_first(Decompose *d, uint32_t element) {
	(void)element;
	Module *m = d->m;
	NodeId old = load_all(d), inside = places_inside(d);
	Arg args[4] = {arg_copy(m, *node_arg(m, d->n, 0)), arg_copy(m, *node_arg(m, d->n, 1)),
	               arg_ref(new_value(d, old)), arg_null()};
	make_node(d, OP_STORE, "new", 4, args);
	return inside == NONE ? old : or_zero(d, inside, old);
}

/* Numbers are of the tensor's own kind; what tile.atomic_cas compares and writes is of its dtype. */
static bool value_fits(const Module *m, NodeId n, const Arg *value) {
	Dtype t = node_type(m, n)->dtype;
	if (value->kind == ARG_REF && node_type(m, value->node)->kind == TYPE_TENSOR)
		return node_get(m, n)->op != OP_ATOMIC_CAS || node_type(m, value->node)->dtype == t;
	if (value->kind == ARG_REF)
		return t == DTYPE_I32;
	return value->kind == ARG_INT || (value->kind == ARG_FLOAT && dtype_is_float(t)) ||
	       (value->kind == ARG_BOOL && t == DTYPE_BOOL);
}

static bool values_fit(const Module *m, NodeId n) {
	return value_fits(m, n, op_arg(m, n, "value")) &&
	       (node_get(m, n)->op != OP_ATOMIC_CAS || value_fits(m, n, op_arg(m, n, "expected")));
}

/*     v = atomic_add x[idx, u0], y      =>      w = atomic_add x[idx, u0], y
 *                                               v = mask_to w, 0
 *
 * Of each position the kernel takes what a whole slice finds. */
static NodeId zero_outside(Decompose *d, uint32_t element) {
	(void)element;
	Module *m = d->m;
	uint32_t count = node_get(m, d->n)->arg_count;
	Arg args[PARAMS_MAX], masked[2] = {arg_null(), arg_int(0)};
	for (uint32_t i = 0; i < count; i++)
		args[i] = arg_copy(m, *node_arg(m, d->n, i));
	masked[0] = arg_ref(make_node(d, node_get(m, d->n)->op, "all", count, args));
	if (node_type(m, d->n)->dtype == DTYPE_BOOL)
		masked[1] = arg_bool(false);
	return make_node(d, OP_MASK_TO, "inside", 2, masked);
}

/* Int tensors say where, and what one position selects has tiles. */
static bool gathers_tiles(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	bool tiles = false;
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++)
		tiles = tiles || arg_block(m, arg_item(m, index, i)) != NONE || arg_is_whole(m, arg_item(m, index, i));
	return tiles && has_entry(m, n, entry_gathers);
}

static bool is_masked(const Module *m, NodeId n) {
	NodeId user = node_only_user(m, n);
	return user != NONE && node_get(m, user)->op == OP_MASK_TO;
}

/* Loads and stores of a position that a node computes are held in the tensor by the pass bounds. */
static bool has_computed_position(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	bool found = false;
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++) {
		const Arg *e = arg_item(m, index, i);
		found = found || (is_position(m, e) && node_type(m, e->node)->kind == TYPE_TENSOR &&
		                  node_get(m, e->node)->op != OP_CLAMP);
	}
	return found;
}

/* Tiles of a slice view are rows from any one on, which an atomic would change one after the other. */
bool atomic_loads_first(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	if (!op_is_atomic(op) || !places_differ(m, n) || !values_fit(m, n))
		return false;
	return op == OP_ATOMIC_CAS || node_uses(m, n) != NONE || tensor_is_part(m, access_tensor(m, n)) ||
	       (!m->assume_in_bounds && has_computed_position(m, n));
}

static Decomposition *decompose_atomic(const Module *m, NodeId n) {
	if (atomic_loads_first(m, n))
		return load_first;
	bool read = values_fit(m, n) && node_uses(m, n) != NONE;
	return read && gathers_tiles(m, n) && !is_masked(m, n) ? zero_outside : NULL;
}

/* ---- single numbers ---------------------------------------------------------------------------------------------- */

/* A tensor without dims as a view of one element, at position 0. */
static NodeId access_number(Decompose *d, uint32_t element) {
	Module *m = d->m;
	TensorId of = access_tensor(m, d->n);
	uint32_t count = node_get(m, d->n)->arg_count;
	Tensor one = {.role = ROLE_VIEW, .dtype = m->tensors.at[of].dtype, .rank = 1, .of = of, .view = VIEW_RESHAPE};
	(void)element;
	one.shape[0] = expr_int(m, 1);
	Arg first = arg_int(0), host = {.kind = ARG_TENSOR, .tensor = tensor_new(m, m->tensors.at[of].name, one)};
	Arg args[PARAMS_MAX] = {arg_null(), arg_list(m, 1, &first)};
	for (uint32_t i = 2; i < count; i++)
		args[i] = arg_copy(m, *node_arg(m, d->n, i));
	args[0] = arg_ref(make_node(d, OP_HOST_TENSOR, "one", 1, &host));
	return make_node(d, node_get(m, d->n)->op, "number", count, args);
}

Decomposition *decompose_access(Module *m, NodeId n) {
	TensorId tensor = op_kind(m, n) == KIND_MEMORY ? access_tensor(m, n) : NONE;
	bool masked_load = node_get(m, n)->op == OP_LOAD && node_input(m, n, 2) != NONE;
	if (tensor != NONE && m->tensors.at[tensor].rank == 0 && !masked_load)
		return access_number;
	if (node_get(m, n)->op == OP_STORE)
		return decompose_store(m, n);
	if (op_is_atomic(node_get(m, n)->op))
		return decompose_atomic(m, n);
	if (node_get(m, n)->op != OP_LOAD)
		return NULL;
	bool steps = has_entry(m, n, is_stepped);
	if (steps && has_entry(m, n, entry_gathers))
		return NULL;
	VectorGather v;
	bool plain = !steps && node_input(m, n, 2) == NONE && !has_entry(m, n, is_new_axis);
	plain = plain && !takes_elements(m, n, &v) && spread_block(m, n) == NONE && !some_passes_end(m, n);
	return plain ? NULL : plain_load;
}
