/* decompose_slices.c - accesses through slice and expand views of tensors that are written are accesses of the tensors
 * themselves: what is written has one operand, and what a kernel gives back is the whole array.
 *
 *     half = x[:, 3:200]
 *     store half[u0, u1], v       =>     store x[u0, index u1 + 3], v
 *     store half[i, :], v         =>     store x[i, 3:200], v
 *
 *     same = x.expand(.., 128)
 *     store same[u0, :], v        =>     store x[u0, index 128 * 0], v
 *
 * Positions outside the slice may lie in the tensor: there nothing is stored, and loads take the nearest of the slice.
 */
#include "decompose.h"

typedef struct Sliced {
	Decompose d;
	TensorId view;
	NodeId mask;       /* where the store's positions lie in the slice; NONE: everywhere */
	uint32_t rank, at; /* dims of the access; those of the entries before this one */
	Arg index[2 * RANK_MAX];
} Sliced;

/* One dim of the view: so many elements of the tensor's dim; `step` 0: all are its one element. */
typedef struct Cut {
	int64_t size, start, step, count;
} Cut;

static bool cut_of(const Module *m, TensorId view, uint32_t dim, Cut *c) {
	const Tensor *t = &m->tensors.at[view], *of = &m->tensors.at[t->of];
	if (t->rank != of->rank || !expr_value(m, t->shape[dim], &c->count) || !expr_value(m, of->shape[dim], &c->size))
		return false;
	c->start = t->view == VIEW_SLICE ? t->view_arg[dim][0] : 0;
	c->step = t->view == VIEW_SLICE ? t->view_arg[dim][2] : c->count == c->size;
	return c->count > 0;
}

static bool is_all(const Cut *c) { return c->start == 0 && c->step == 1 && c->count == c->size; }

static int64_t end_of(const Arg *a, int64_t absent, int64_t size) {
	int64_t x = a->kind == ARG_INT ? a->integer + (a->integer < 0 ? size : 0) : absent;
	return int_min(int_max(x, 0), size);
}

bool slice_elements(const Module *m, const Arg *slice, int64_t size, Elements *out) {
	for (uint32_t i = 0; i < 3; i++)
		if (arg_item(m, slice, i)->kind != ARG_NULL && arg_item(m, slice, i)->kind != ARG_INT)
			return false;
	const Arg *step = arg_item(m, slice, 2);
	int64_t by = step->kind == ARG_INT ? step->integer : 1, from = end_of(arg_item(m, slice, 0), 0, size),
		to = end_of(arg_item(m, slice, 1), size, size);
	if (by < 1)
		return false;
	*out = (Elements){from, by, int_cdiv(int_max(to - from, 0), by)};
	return true;
}

/* A slice of known ends, of the slice. */
static bool slice_of_cut(const Module *m, const Arg *entry, const Cut *c, Cut *out) {
	Elements e;
	if (!slice_elements(m, entry, c->count, &e) || e.count == 0)
		return false;
	*out = (Cut){c->size, c->start + e.start * c->step, c->step * e.step, e.count};
	return true;
}

static Arg slice_arg(Module *m, const Cut *c) {
	Arg ends[3] = {arg_int(c->start), arg_int(c->start + (c->count - 1) * c->step + 1),
	               c->step == 1 ? arg_null() : arg_int(c->step)};
	Arg slice = arg_list(m, 3, ends);
	slice.kind = ARG_SLICE;
	return is_all(c) ? arg_whole(m) : slice;
}

/* How positions outside of the slice, which may lie in the tensor, are treated. */
typedef enum Outside { OUTSIDE_NONE, OUTSIDE_NEAREST, OUTSIDE_MASKED, OUTSIDE_NOWHERE } Outside;

static NodeId lies_inside(Decompose *d, NodeId index, int64_t count) {
	NodeId low = make_binary(d, OP_GE_SCALAR, "not_below", index, arg_int(0));
	return make_and(d, "inside", low, make_binary(d, OP_LT_SCALAR, "below", index, arg_int(count)));
}

/* Where the positions lie in the slice, of the access's dims. */
static void mask_outside(Sliced *s, NodeId in) {
	Decompose *d = &s->d;
	uint32_t own = node_type(d->m, in)->count, after = own == 0 ? 0 : s->rank - s->at - own;
	in = make_unsqueezed(d, in, own, after, "inside");
	s->mask = make_and(d, "inside", s->mask, in);
}

/* Positions of the slice as positions of the tensor. */
static Arg positions(Sliced *s, NodeId index, const Cut *c, Outside how) {
	Decompose *d = &s->d;
	NodeId in = how == OUTSIDE_NOWHERE ? lies_inside(d, index, c->count) : NONE;
	if (how == OUTSIDE_MASKED)
		mask_outside(s, lies_inside(d, index, c->count));
	else if (how == OUTSIDE_NEAREST)
		index = make_inside(d, index, expr_int(d->m, c->count));
	index = c->step == 1 ? index : make_binary(d, OP_MUL, "at", index, arg_int(c->step));
	index = c->start == 0 ? index : make_binary(d, OP_ADD, "at", index, arg_int(c->start));
	return arg_ref(in == NONE ? index : make_where(d, "at", in, arg_ref(index), arg_int(-1)));
}

/* What the access does at positions outside the slice. The rows of a tile are one slice only if no `where` chooses
 * among them. */
static Outside outside_of(const Module *m, NodeId n, bool tensor) {
	if (m->assume_in_bounds)
		return OUTSIDE_NONE;
	if (node_get(m, n)->op == OP_LOAD)
		return OUTSIDE_NEAREST;
	return tensor || op_is_atomic(node_get(m, n)->op) ? OUTSIDE_NOWHERE : OUTSIDE_MASKED;
}

/* A symbolic position: where a tile begins, as in a grid. */
static bool begins_inside(const Module *m, NodeId n, const Cut *c) {
	return node_get(m, n)->op == OP_TILE_BEGIN && tile_within(m, arg_block(m, node_arg(m, n, 0)), c->count);
}

static NodeId begin_of_base(Decompose *d, NodeId n, const Cut *c) {
	Arg product[2] = {arg_ref(n), arg_int(c->step)};
	n = c->step == 1 ? n : make_node(d, OP_SYM_MUL, "at", 2, product);
	Arg sum[2] = {arg_ref(n), arg_int(c->start)};
	return c->start == 0 ? n : make_node(d, OP_SYM_ADD, "at", 2, sum);
}

static bool entry_of_base(Sliced *s, Arg entry, const Cut *c, Arg *out) {
	Decompose *d = &s->d;
	Module *m = d->m;
	BlockId b = arg_block(m, &entry);
	Cut cut;
	*out = entry;
	if (is_all(c))
		return true;
	if (entry.kind == ARG_SLICE) {
		bool known = slice_of_cut(m, &entry, c, &cut);
		if (known && c->step == 0) {
			*out = positions(s, make_iota(d, expr_int(m, cut.count), 0, 1), c, OUTSIDE_NONE);
			return true;
		}
		*out = known ? slice_arg(m, &cut) : entry;
		return known;
	}
	if (b != NONE) {
		Arg tile = arg_copy(m, entry);
		Outside how = tile_within(m, b, c->count) ? OUTSIDE_NONE : outside_of(m, d->n, false);
		*out = positions(s, make_node(d, OP_TILE_INDEX, "index", 1, &tile), c, how);
		return true;
	}
	if (entry.kind == ARG_INT) {
		*out = arg_int(c->start + entry.integer * c->step);
		return entry.integer >= 0 && entry.integer < c->count;
	}
	if (entry.kind != ARG_REF)
		return false;
	if (node_type(m, entry.node)->kind == TYPE_SYM) {
		*out = arg_ref(begin_of_base(d, entry.node, c));
		return begins_inside(m, entry.node, c);
	}
	*out = positions(s, entry.node, c, outside_of(m, d->n, node_type(m, entry.node)->count > 0));
	return true;
}

/* How many dims the index's int tensors make, all together. */
typedef struct Tensors {
	bool outer;      /* all are 1-D over blocks: each makes a dim of its own */
	uint32_t joined; /* else the dims of all, where the first stands */
	uint32_t count;
} Tensors;

static Tensors index_tensors(const Module *m, const Arg *index) {
	Tensors t = {.outer = true};
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *entry = arg_item(m, index, i);
		const Type *of = entry_gathers(m, entry) ? node_type(m, entry->node) : NULL;
		if (of != NULL) {
			t.outer = t.outer && of->count == 1 && expr_as_block(m, of->dims[0]) != NONE;
			t.joined = (uint32_t)int_max(t.joined, of->count);
			t.count++;
		}
	}
	return t;
}

/* An entry that becomes an int tensor, if it does, makes a dim of its own, and goes together with no other. */
static bool stays_apart(const Module *m, const Arg *entry, const Cut *c, Tensors *t) {
	bool tile = arg_block(m, entry) != NONE;
	if (is_all(c) || !entry_is_dim(m, entry) || (!tile && c->step > 0))
		return true;
	t->outer = t->outer && tile;
	return ++t->count == 1 || t->outer;
}

/* Dims of the access that an entry makes; `joined` dims are made by the first of the tensors that go together. */
static uint32_t entry_dims(const Module *m, const Arg *entry, Tensors *t) {
	uint32_t joined = t->joined;
	if (!entry_gathers(m, entry))
		return entry_is_dim(m, entry);
	t->joined = 0;
	return t->outer ? 1 : joined;
}

/* Index and mask of the access in the tensor that its view is of. False: it stays. */
static bool read_index(Sliced *s) {
	Module *m = s->d.m;
	Arg all = *node_arg(m, s->d.n, 1);
	Tensors tensors = index_tensors(m, &all), left = tensors;
	for (uint32_t i = 0; i < all.list.count; i++)
		s->rank += entry_dims(m, arg_item(m, &all, i), &left);
	left = tensors;
	for (uint32_t i = 0, dim = 0; i < all.list.count; i++) {
		Arg entry = *arg_item(m, &all, i);
		Cut c;
		if (entry.kind == ARG_NULL)
			s->index[i] = entry;
		else if (!cut_of(m, s->view, dim++, &c) || !stays_apart(m, &entry, &c, &tensors) ||
		         !entry_of_base(s, arg_copy(m, entry), &c, &s->index[i]))
			return false;
		s->at += entry_dims(m, &entry, &left);
	}
	return true;
}

static NodeId make_access(Sliced *s) {
	Decompose *d = &s->d;
	Module *m = d->m;
	const Node node = *node_get(m, d->n);
	Arg args[PARAMS_MAX], host = {.kind = ARG_TENSOR, .tensor = m->tensors.at[s->view].of};
	for (uint32_t i = 2; i < node.arg_count; i++)
		args[i] = arg_copy(m, *node_arg(m, d->n, i));
	args[0] = arg_ref(make_node(d, OP_HOST_TENSOR, "base", 1, &host));
	args[1] = arg_list(m, node_arg(m, d->n, 1)->list.count, s->index);
	NodeId mask = node.op == OP_STORE ? node_input(m, d->n, 3) : NONE;
	if (s->mask != NONE)
		args[3] = arg_ref(make_and(d, "inside", mask, s->mask));
	NodeId n = make_node(d, node.op, "base",
	                     s->mask == NONE ? node.arg_count : (uint32_t)int_max(node.arg_count, 4), args);
	node_replace_uses(m, d->n, n, NONE);
	node_remove(m, d->n);
	node_rename(m, n, node.name);
	return n;
}

static bool is_stored(const Module *m, GraphId root, TensorId base) {
	for (NodeId n = 0; n < m->nodes.count; n++) {
		uint32_t depth;
		bool writes = !node_get(m, n)->dead && op_writes(node_get(m, n)->op);
		TensorId t = writes ? access_tensor(m, n) : NONE;
		if (t != NONE && tensor_base(m, t) == base && graph_root(m, node_get(m, n)->graph, &depth) == root)
			return true;
	}
	return false;
}

NodeId decompose_slices(PassContext *c, NodeId n) {
	Module *m = c->module;
	for (uint32_t depth;;) {
		TensorId t = op_kind(m, n) == KIND_MEMORY ? access_tensor(m, n) : NONE;
		if (t == NONE || !tensor_is_part(m, t) || node_arg(m, n, 1)->kind != ARG_LIST ||
		    atomic_loads_first(m, n) ||
		    !is_stored(m, graph_root(m, node_get(m, n)->graph, &depth), tensor_base(m, t)))
			return n;
		Sliced s = {.d = {.c = c, .m = m, .n = n}, .view = t, .mask = NONE};
		if (!read_index(&s) || s.d.failed)
			return n;
		n = make_access(&s);
	}
}
