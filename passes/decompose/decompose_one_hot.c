/* decompose_one_hot.c - rows of a small table at the positions of an int tensor, by a matmul.
 *
 *     v = load x[i, :]      =>      w = load x[:, :]
 *                                   at = i[:, None] == index along dim 1
 *                                   v = at @ byte 0 of w | (at @ byte 1 of w) << 8 | ...
 *
 * What: the table is loaded whole, and the bytes of its elements are factors of their own, beside a matrix that has one
 * 1 in each row. Why on a TPU: the matrix unit finds all positions at once, where slices and copies are made one after
 * the other. Bytes are exact in bfloat16 and a sum has one term that is not 0, so NaN, infinities, -0.0 and all ints
 * stay what they are. Of a position outside the nearest row is taken. Done where pallas_indirect_access_mode asks, or
 * src/driver/choose.c finds it faster. What only counts up by one is a slice, and none. */
#include "decompose.h"

/* What the matmul takes: numbers exact in bfloat16. */
static NodeId make_factor(Decompose *d, NodeId x) {
	return make_converted(d, make_converted(d, x, DTYPE_F32), DTYPE_BF16);
}

/* How many there are; of two dims, as one. */
static ExprId all_positions(Decompose *d, const OneHot *o) {
	const Type *t = node_type(d->m, o->index);
	return t->count == 1 ? t->dims[0] : expr_binary(d->m, EXPR_MUL, t->dims[0], t->dims[1]);
}

/* 1 where the position is: [positions, rows], or [rows, positions] for lanes of a row. */
static NodeId make_one_hot(Decompose *d, const OneHot *o) {
	NodeId index = make_inside(d, make_converted(d, o->index, DTYPE_I32), o->extent);
	uint32_t rank = node_type(d->m, index)->count;
	index = make_unsqueezed(d, index, o->last ? 0 : rank, 1, "places");
	NodeId place = make_iota(d, o->extent, o->last ? 0 : rank, rank + 1);
	NodeId found = make_converted(d, make_binary(d, OP_EQ, "found", index, arg_ref(place)), DTYPE_F32);
	if (rank == 2)
		found = make_view(d, found, 2, (const ExprId[]){all_positions(d, o), o->extent}, "found");
	return make_converted(d, found, DTYPE_BF16);
}

/* The load without positions, as a matrix. */
static NodeId load_table(Decompose *d, const OneHot *o) {
	Module *m = d->m;
	Arg entries[RANK_MAX], args[3] = {arg_copy(m, *node_arg(m, d->n, 0)), arg_null(), arg_null()};
	uint32_t count = node_arg(m, d->n, 1)->list.count;
	for (uint32_t i = 0; i < count; i++)
		entries[i] = i == o->entry ? arg_whole(m) : arg_copy(m, *arg_item(m, node_arg(m, d->n, 1), i));
	args[1] = arg_list(m, count, entries);
	NodeId table = make_node(d, OP_LOAD, "table", 3, args);
	return node_type(m, table)->count == 1 ? make_unsqueezed(d, table, 0, 1, "table") : table;
}

static NodeId make_product(Decompose *d, const OneHot *o, NodeId one_hot, NodeId plane) {
	Arg args[3] = {arg_ref(o->last ? plane : one_hot), arg_ref(o->last ? one_hot : plane), arg_dtype(DTYPE_F32)};
	return make_node(d, OP_MM_DTYPE, "found", 3, args);
}

/* Elements of one byte are factors as they are. */
static NodeId product_of_values(Decompose *d, const OneHot *o, NodeId one_hot, NodeId table) {
	Dtype dtype = node_type(d->m, table)->dtype;
	NodeId x = make_product(d, o, one_hot, make_factor(d, table));
	return dtype == DTYPE_BOOL ? make_binary(d, OP_NE_SCALAR, "found", x, arg_int(0))
	                           : make_converted(d, make_converted(d, x, DTYPE_I32), dtype);
}

static NodeId product_of_bytes(Decompose *d, const OneHot *o, NodeId one_hot, NodeId table) {
	NodeId bits = make_bits(d, table), all = NONE;
	for (uint32_t i = o->first; i < o->first + o->planes; i++) {
		Arg shift = arg_int((int64_t)8 * i);
		NodeId byte = i ? make_binary(d, OP_RSHIFT_SCALAR, "byte", bits, shift) : bits;
		if (i < 3) /* the last one has a sign, and is as exact */
			byte = make_binary(d, OP_BITWISE_AND_SCALAR, "byte", byte, arg_int(255));
		NodeId x = make_converted(d, make_product(d, o, one_hot, make_factor(d, byte)), DTYPE_I32);
		x = i ? make_binary(d, OP_LSHIFT_SCALAR, "byte", x, shift) : x;
		all = all == NONE ? x : make_binary(d, OP_BITWISE_OR, "bits", all, arg_ref(x));
	}
	return make_from_bits(d, all, node_type(d->m, table)->dtype);
}

static NodeId by_one_hot(Decompose *d, const OneHot *o) {
	Module *m = d->m;
	NodeId table = load_table(d, o), one_hot = make_one_hot(d, o);
	NodeId x = o->planes == 1 ? product_of_values(d, o, one_hot, table) : product_of_bytes(d, o, one_hot, table);
	const Type *t = node_type(m, d->n);
	if (t->count != 2)
		x = make_view(d, x, t->count, t->dims, "found");
	return make_zero_outside(d, o->index, x);
}

/* In place of the load: where it is asked for, or stands to choose and pays. */
static bool replace(PassContext *c, NodeId n, const OneHot *o) {
	Module *m = c->module;
	Decompose d = {.c = c, .m = m, .n = n};
	const char *name = node_get(m, n)->name;
	indirect_note(c, n, WAY_ONE_HOT);
	NodeId value = by_one_hot(&d, o);
	node_replace_uses(m, n, value, NONE);
	node_remove(m, n);
	node_rename(m, value, name);
	return !d.failed;
}

/* Positions that count up are a slice, if they surely lie in the table, and where no estimate is asked. */
static bool is_slice(PassContext *c, IntRanges *r, const OneHot *o) {
	Module *m = c->module;
	if (!entry_counts_up(m, arg_item(m, node_arg(m, o->load, 1), o->entry)))
		return false;
	if (m->config.indirect_access_mode.value == INDIRECT_ONE_HOT)
		return true;
	if (!r->of)
		*r = int_ranges(c->arena, m);
	return range_within(r->of[o->index], (IntRange){0, o->rows - 1});
}

bool pass_one_hot(PassContext *c) {
	Module *m = c->module;
	IndirectMode mode = (IndirectMode)m->config.indirect_access_mode.value;
	IntRanges ranges = {0};
	const bool *live = NULL;
	OneHot o, before = {.index = NONE};
	for (GraphId g = 0; g < m->graphs.count && mode != INDIRECT_DMA; g++)
		for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
			next = node_get(m, n)->next;
			if (node_get(m, n)->op != OP_LOAD || one_hot_of(m, n, &o) || is_slice(c, &ranges, &o))
				continue;
			live = live ? live : liveness_of(c).live;
			if (!live[n])
				continue;
			o.shares = o.index == before.index && o.last == before.last && o.rows == before.rows;
			bool pays = mode == INDIRECT_ONE_HOT || one_hot_pays(m, &o);
			m->may_one_hot |= pays;
			before = pays ? o : before;
			if (pays && (mode == INDIRECT_ONE_HOT || m->one_hot) && !replace(c, n, &o))
				return false;
		}
	return true;
}
