/* decompose_gather.c - values at computed positions: rows of a table are loaded where they lie, lanes of a value are
 * compared with the position and summed.
 *
 *     w = load x[:, :]
 *     v = embedding w, i       =>     v = load x[i, :]
 *
 *                                     at = index along dim 1 == i[:, :, None]
 *     v = gather x, 1, i       =>     v = sum where at, x[:, None, :], 0 along the last dim
 *
 * Lanes of the last of one or two dims are taken from registers (decompose_take.c). Sums are those of the bits as ints:
 * one lane and zeros, so NaN, infinities and -0.0 stay what they are. Of a position outside the nearest element is
 * taken. */
#include "decompose.h"

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static NodeId make_subscript(Decompose *d, NodeId x, uint32_t count, const Arg *entries, const char *suffix) {
	Arg args[2] = {arg_ref(x), arg_list(d->m, count, entries)};
	return make_node(d, OP_SUBSCRIPT, suffix, 2, args);
}

NodeId make_unsqueezed(Decompose *d, NodeId x, uint32_t at, uint32_t more, const char *suffix) {
	Arg entries[2 * RANK_MAX];
	uint32_t rank = node_type(d->m, x)->count;
	for (uint32_t i = 0; i < rank + more; i++)
		entries[i] = i >= at && i < at + more ? arg_null() : arg_whole(d->m);
	return more ? make_subscript(d, x, rank + more, entries, suffix) : x;
}

NodeId make_inside(Decompose *d, NodeId index, ExprId size) {
	if (d->m->assume_in_bounds)
		return index;
	Arg last = size_arg(d->m, expr_binary(d->m, EXPR_SUB, size, expr_int(d->m, 1)));
	Arg args[3] = {arg_ref(index), arg_int(0), last};
	return make_node(d, OP_CLAMP, "inside", 3, args);
}

/* The same bits as another dtype. */
static NodeId make_viewed(Decompose *d, NodeId x, Dtype dtype, const char *suffix) {
	Arg args[2] = {arg_ref(x), arg_dtype(dtype)};
	return node_type(d->m, x)->dtype == dtype ? x : make_node(d, OP_VIEW_DTYPE, suffix, 2, args);
}

/* The lanes of x, as bits, at which `found` is true, of which there is one along dim `dim`: their sum. */
static NodeId make_picked(Decompose *d, NodeId x, NodeId found, uint32_t dim, bool keep) {
	Dtype dtype = node_type(d->m, x)->dtype;
	Dtype wide = dtype == DTYPE_F16 ? dtype : dtype_of_sums(dtype); /* float16.c widens float16, not its bits */
	Dtype bits = dtype == DTYPE_F16 ? DTYPE_I16 : wide == DTYPE_F32 ? DTYPE_I32 : wide;
	x = make_converted(d, make_viewed(d, make_converted(d, x, wide), bits, "bits"), dtype_of_sums(bits));
	NodeId lanes = make_where(d, "lanes", found, arg_ref(x), arg_int(0));
	NodeId sum = make_converted(d, make_reduced(d, OP_SUM_DIM, "picked", lanes, 1u << dim, keep), bits);
	return make_converted(d, make_viewed(d, sum, wide, "picked"), dtype);
}

/* The dims of the index stand before the dim of x that it is compared along: [before, of the index, dim, after]. */
static NodeId make_compared(Decompose *d, NodeId x, uint32_t dim, NodeId index, uint32_t index_dims, bool aligned) {
	uint32_t rank = node_type(d->m, x)->count, after = rank - dim - 1;
	if (rank + index_dims > RANK_MAX)
		return NONE;
	ExprId size = node_type(d->m, x)->dims[dim];
	index = make_inside(d, index, size);
	index = aligned ? make_unsqueezed(d, index, dim + 1, 1, "places")
	                : make_unsqueezed(d, index, index_dims, 1 + after, "places");
	NodeId place = make_iota(d, size, dim, rank);
	NodeId found = make_binary(d, OP_EQ, "found", place, arg_ref(index));
	return make_picked(d, make_unsqueezed(d, x, dim, index_dims, "lanes"), found, dim + index_dims, false);
}

/* ---- aten.gather ------------------------------------------------------------------------------------------------- */

/* x without the lanes that no index asks for: of the other dims those before the index's end. NONE: not known. */
static NodeId cut_to(Decompose *d, NodeId x, NodeId index, uint32_t dim) {
	for (uint32_t i = 0; i < node_type(d->m, index)->count; i++) {
		ExprId have = node_type(d->m, x)->dims[i], want = node_type(d->m, index)->dims[i];
		int64_t from, to;
		if (i == dim || expr_equal(d->m, have, want))
			continue;
		if (!expr_value(d->m, have, &from) || !expr_value(d->m, want, &to) || to > from)
			return NONE;
		Arg args[5] = {arg_ref(x), arg_int(i), arg_int(0), arg_int(to), arg_int(1)};
		x = make_node(d, OP_SLICE, "cut", 5, args);
	}
	return x;
}

/* As make_inside() leaves them. */
static bool is_inside(const Module *m, NodeId index) {
	while (node_get(m, index)->op == OP_EXPAND || node_get(m, index)->op == OP_SUBSCRIPT)
		index = node_input(m, index, 0);
	return m->assume_in_bounds || node_get(m, index)->op == OP_CLAMP;
}

static NodeId gathered(Decompose *d, uint32_t element) {
	Module *m = d->m;
	NodeId x = node_input(m, d->n, 0), index = node_input(m, d->n, 2);
	uint32_t rank = node_type(m, x)->count;
	int64_t named = node_arg(m, d->n, 1)->integer;
	uint32_t dim = (uint32_t)(named < 0 ? named + rank : named);
	bool rows = m->target->gathers_rows && gathers_rows(m, d->n);
	if ((gathers_lanes(m, d->n) || rows) && is_inside(m, index))
		return NONE;
	if (rank == 0 || index == NONE || (x = cut_to(d, x, index, dim)) == NONE)
		return NONE;
	if (!expr_is_int(m, node_type(m, index)->dims[dim], 1)) {
		NodeId taken = dim + 1 == rank ? make_taken(d, x, index) : NONE;
		return taken != NONE ? taken : make_compared(d, x, dim, index, 1, true);
	}
	ExprId size = node_type(m, x)->dims[dim];
	NodeId found =
		make_binary(d, OP_EQ, "found", make_iota(d, size, dim, rank), arg_ref(make_inside(d, index, size)));
	return make_converted(d, make_picked(d, x, found, dim, true), result_dtype(d, element));
}

/* ---- rows of a tensor -------------------------------------------------------------------------------------------- */

static bool stores_block(const Module *m, NodeId store, BlockId b) {
	const Arg *index = node_arg(m, store, 1);
	for (uint32_t i = 0; i < index->list.count; i++)
		if (arg_block(m, arg_item(m, index, i)) == b)
			return true;
	return false;
}

bool tile_within(const Module *m, BlockId b, int64_t size) {
	int64_t extent;
	ExprId end = m->blocks.at[b].extent;
	return end != NONE && expr_value(m, end, &extent) && extent <= size;
}

bool hides_outside(const Module *m, NodeId n, BlockId b) {
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		uint16_t op = node_get(m, user)->op;
		bool value =
			op == OP_STORE && node_input(m, user, 3) != n && list_index(node_arg(m, user, 1), u) == NONE;
		bool stored = value && stores_block(m, user, b);
		bool lanes = op_lowering(op) == LOWER_POINTWISE || op_lanes(op) == LANES_BITCAST;
		bool same = lanes && hides_outside(m, user, b);
		if (!stored && !same && op != OP_MASK_TO)
			return false;
	}
	return true;
}

/* The index list of the load x with `index` in place of dim `dim` of what it gives, in `entries`; 0: it can be none. */
static uint32_t rows_index(Decompose *d, NodeId x, uint32_t dim, NodeId index, Arg *entries) {
	Module *m = d->m;
	if (node_get(m, x)->op != OP_LOAD || node_input(m, x, 2) != NONE)
		return 0;
	if (!tensor_is_given(m, access_tensor(m, x)))
		return 0;
	uint32_t kept = 0, count = node_arg(m, x, 1)->list.count;
	bool whole = false;
	for (uint32_t i = 0; i < count; i++) {
		const Arg *entry = arg_item(m, node_arg(m, x, 1), i);
		if (entry->kind == ARG_NULL || entry_gathers(m, entry))
			return 0;
		bool here = entry_is_dim(m, entry) && kept++ == dim;
		whole |= here && arg_is_whole(m, entry);
		entries[i] = here ? arg_ref(index) : arg_copy(m, *entry);
	}
	for (uint32_t i = 0; whole && i < node_type(m, index)->count; i++) {
		BlockId b = expr_as_block(m, node_type(m, index)->dims[i]);
		whole = b == NONE || hides_outside(m, d->n, b);
	}
	return whole ? count : 0;
}

/* x at the positions `index` of dim `dim`, the dims of the index in place of that dim. */
static NodeId selected(Decompose *d, NodeId x, uint32_t dim, NodeId index) {
	Module *m = d->m;
	Arg entries[RANK_MAX];
	if (index == NONE || node_type(m, index)->count == 0 || node_type(m, x)->count == 0)
		return NONE;
	uint32_t count = rows_index(d, x, dim, index, entries);
	if (count == 0) {
		bool last = dim + 1 == node_type(m, x)->count;
		NodeId taken = last && node_type(m, x)->count + node_type(m, index)->count <= 3
		                       ? make_taken(d, x, index)
		                       : NONE;
		return taken != NONE ? taken : make_compared(d, x, dim, index, node_type(m, index)->count, false);
	}
	Arg args[3] = {arg_ref(node_input(m, x, 0)), arg_list(m, count, entries), arg_null()};
	return make_elements(d, make_node(d, OP_LOAD, "rows", 3, args));
}

static NodeId index_selected(Decompose *d, uint32_t element) {
	(void)element;
	NodeId x = node_input(d->m, d->n, 0);
	int64_t dim = node_arg(d->m, d->n, 1)->integer;
	return selected(d, x, (uint32_t)(dim < 0 ? dim + node_type(d->m, x)->count : dim), node_input(d->m, d->n, 2));
}

static NodeId embedded(Decompose *d, uint32_t element) {
	(void)element;
	return selected(d, node_input(d->m, d->n, 0), 0, node_input(d->m, d->n, 1));
}

/* Of one int tensor; null stands for a whole dim. */
static NodeId indexed(Decompose *d, uint32_t element) {
	(void)element;
	const Arg *index = node_arg(d->m, d->n, 1);
	uint32_t dim = NONE;
	for (uint32_t i = 0; i < index->list.count; i++) {
		if (arg_item(d->m, index, i)->kind == ARG_NULL)
			continue;
		if (dim != NONE || !entry_gathers(d->m, arg_item(d->m, index, i)))
			return NONE;
		dim = i;
	}
	return dim == NONE ? NONE : selected(d, node_input(d->m, d->n, 0), dim, arg_item(d->m, index, dim)->node);
}

/* ---- tile.subscript ---------------------------------------------------------------------------------------------- */

/* A slice of known ends. */
static bool is_known(const Module *m, const Arg *slice) {
	for (uint32_t i = 0; i < 3; i++)
		if (arg_item(m, slice, i)->kind != ARG_NULL && arg_item(m, slice, i)->kind != ARG_INT)
			return false;
	return true;
}

NodeId make_slice(Decompose *d, NodeId x, uint32_t dim, const Arg *slice) {
	Arg step = arg_copy(d->m, *arg_item(d->m, slice, 2));
	Arg args[5] = {arg_ref(x), arg_int(dim), arg_copy(d->m, *arg_item(d->m, slice, 0)),
	               arg_copy(d->m, *arg_item(d->m, slice, 1)), step.kind == ARG_NULL ? arg_int(1) : step};
	return make_node(d, OP_SLICE, "part", 5, args);
}

/* Position `at`, known at run time, of dim `dim`, which stays as one of 1. */
static NodeId make_at(Decompose *d, NodeId x, uint32_t dim, NodeId at) {
	Type t = *node_type(d->m, x);
	Arg args[3] = {arg_list(d->m, 0, NULL), arg_ref(at), arg_dtype(DTYPE_I32)};
	at = make_inside(d, make_node(d, OP_FULL, "at", 3, args), t.dims[dim]);
	NodeId found = make_binary(d, OP_EQ, "found", make_iota(d, t.dims[dim], dim, t.count), arg_ref(at));
	return make_picked(d, x, found, dim, true);
}

static bool is_part(const Module *m, const Arg *entry) { return entry->kind == ARG_SLICE && !arg_is_whole(m, entry); }

/* How many entries of an index list are more than new axes, whole dims and known positions; 0 as well if one has ends
 * that are known only at run time, or two are tensors. */
static uint32_t parts_in(const Module *m, const Arg *index) {
	uint32_t parts = 0, tensors = 0;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *entry = arg_item(m, index, i);
		tensors += entry_gathers(m, entry);
		if ((is_part(m, entry) && !is_known(m, entry)) || tensors > 1)
			return 0;
		parts += is_part(m, entry) || (entry->kind == ARG_REF && arg_block(m, entry) == NONE);
	}
	return parts;
}

/* Parts of dims are slices, a position that is computed picks lanes, and so do those that one tensor holds; what is
 * left is new axes and known positions. */
static NodeId subscripted(Decompose *d, uint32_t element) {
	Module *m = d->m;
	(void)element;
	NodeId x = node_input(m, d->n, 0), picks = NONE;
	uint32_t dim = 0, picked = 0, count = 0;
	Arg left[3 * RANK_MAX];
	if (parts_in(m, node_arg(m, d->n, 1)) == 0)
		return NONE;
	for (uint32_t i = 0; i < node_arg(m, d->n, 1)->list.count; i++) {
		Arg entry = *arg_item(m, node_arg(m, d->n, 1), i);
		bool part = is_part(m, &entry), gathers = entry_gathers(m, &entry);
		bool at = !gathers && entry.kind == ARG_REF && arg_block(m, &entry) == NONE;
		if (part)
			x = make_slice(d, x, dim, &entry);
		else if (at)
			x = make_at(d, x, dim, entry.node);
		else if (gathers)
			picked = dim, picks = entry.node;
		for (uint32_t k = 0; gathers && k < node_type(m, picks)->count; k++)
			left[count++] = arg_whole(m);
		if (!gathers)
			left[count++] = part ? arg_whole(m) : at ? arg_int(0) : arg_copy(m, entry);
		dim += entry.kind != ARG_NULL;
	}
	if (picks != NONE && (x = selected(d, x, picked, picks)) == NONE)
		return NONE;
	NodeId value = make_subscript(d, x, count, left, "part");
	node_set_type(m, value, node_get(m, d->n)->type);
	return value;
}

Decomposition *decompose_gather(uint16_t op) {
	switch (op) {
	case OP_GATHER: return gathered;
	case OP_INDEX_SELECT: return index_selected;
	case OP_INDEX: return indexed;
	case OP_EMBEDDING: return embedded;
	case OP_SUBSCRIPT: return subscripted;
	default: return NULL;
	}
}
