/* decompose_store.c - stores as the plan knows them: without new axes and steps.
 *
 *     store x[u0, None], v       =>     store x[u0], v[:, 0]
 *
 *     store x[u0, 1::2], v       =>     w = gather v, lane // 2
 *                                       store x[u0, :], w where lane % 2 == 1
 *
 *     store x[::4, u0], v        =>     store x[0, 4, 8, ..; u0], v
 *
 *     store x[::4, u0, ::2, :], v   =>  store x[0, 4, 8, ..; index u0; 0, 2, 4, ..; :], v, all that meet of the three
 *
 * Every so many lanes are moved there in registers, all of a row at once, and stored with a mask. Every so many of
 * another dim are stored one after the other: a stride of rows is no block. */
#include "decompose.h"

typedef struct Step {
	int64_t size, start, step, count; /* of the dim; which of its elements */
} Step;

/* The elements that a slice stands for; false: they are not known. */
static bool read_slice(const Module *m, NodeId n, uint32_t dim, const Arg *slice, Step *s) {
	TensorId t = access_tensor(m, n);
	Elements e;
	if (t == NONE || !expr_value(m, m->tensors.at[t].shape[dim], &s->size) ||
	    !slice_elements(m, slice, s->size, &e))
		return false;
	*s = (Step){s->size, e.start, e.step, e.count};
	return true;
}

/* Those of a slice with a step; false: it has none, or where it ends is not known. */
static bool read_step(const Module *m, NodeId n, uint32_t dim, const Arg *entry, Step *s) {
	return entry->kind == ARG_SLICE && read_slice(m, n, dim, entry, s) && s->step > 1 && s->count > 0;
}

/* ---- new axes ---------------------------------------------------------------------------------------------------- */

/* x, of the store's dims, without those in a set of the store's `rank` dims, which have one element. */
static NodeId without_dims(Decompose *d, NodeId x, uint32_t rank, uint32_t dims) {
	uint32_t have = node_type(d->m, x)->count;
	return make_kept(d, x, have < rank ? dims >> (rank - have) : dims, false);
}

/* ---- every so many lanes ---------------------------------------------------------------------------------------- */

static NodeId place_of_lane(Decompose *d, const Step *s) {
	NodeId lane = make_iota(d, expr_int(d->m, s->size), 0, 1);
	NodeId from = s->start ? make_binary(d, OP_SUB, "from", lane, arg_int(s->start)) : lane;
	return make_binary(d, OP_FLOOR_DIVIDE, "place", from, arg_int(s->step));
}

static NodeId position_of(Decompose *d, const Step *s, NodeId place) {
	NodeId at = make_binary(d, OP_MUL, "at", place, arg_int(s->step));
	return s->start ? make_binary(d, OP_ADD, "at", at, arg_int(s->start)) : at;
}

/* Lanes that the slice names. */
static NodeId lanes_named(Decompose *d, const Step *s, NodeId place) {
	NodeId lane = make_iota(d, expr_int(d->m, s->size), 0, 1);
	NodeId named = make_binary(d, OP_EQ, "named", lane, arg_ref(position_of(d, s, place)));
	if (s->start >= s->step)
		named = make_and(d, "named", named, make_binary(d, OP_GE_SCALAR, "after", place, arg_int(0)));
	if (s->start + s->count * s->step < s->size)
		named = make_and(d, "named", named, make_binary(d, OP_LT_SCALAR, "before", place, arg_int(s->count)));
	return named;
}

/* The lanes of x where the slice has them; NONE: they are too many. */
static NodeId spread(Decompose *d, NodeId x, const Step *s, NodeId place) {
	Module *m = d->m;
	Type t = *node_type(m, x);
	if (t.count == 0 || !expr_is_int(m, t.dims[t.count - 1], s->count))
		return x; /* the same in all lanes */
	ExprId flat[2] = {dims_product(d, x, (1u << (t.count - 1)) - 1), t.dims[t.count - 1]};
	if (t.count > 2)
		x = make_view(d, x, 2, flat, "rows");
	x = t.dtype == DTYPE_BOOL ? make_converted(d, x, DTYPE_I32) : x;
	x = make_taken(d, x, place);
	t.dims[t.count - 1] = expr_int(m, s->size);
	if (x != NONE && t.count > 2)
		x = make_view(d, x, t.count, t.dims, "lanes");
	return x == NONE ? NONE : make_converted(d, x, t.dtype);
}

/* ---- stores ----------------------------------------------------------------------------------------------------- */

typedef struct Stored {
	Arg args[4];
	Arg index[2 * RANK_MAX];
	uint32_t count;
} Stored;

/* The last entry, of lanes; false: they are too many. */
static bool store_lanes(Decompose *d, Stored *to, const Step *s) {
	Arg *value = &to->args[2], *mask = &to->args[3];
	NodeId place = place_of_lane(d, s), lanes = value->kind == ARG_REF ? spread(d, value->node, s, place) : NONE;
	NodeId hidden = mask->kind == ARG_REF ? spread(d, mask->node, s, place) : NONE;
	if ((value->kind == ARG_REF && lanes == NONE) || (mask->kind == ARG_REF && hidden == NONE))
		return false;
	if (value->kind == ARG_REF)
		*value = arg_ref(lanes);
	*mask = arg_ref(make_and(d, "and", hidden, lanes_named(d, s, place)));
	to->index[to->count - 1] = arg_whole(d->m);
	return true;
}

/* The places that an entry of the store names, a dim with `after` others behind it; NONE: they are not known. */
static NodeId places_of(Decompose *d, const Arg *entry, uint32_t dim, uint32_t after) {
	Module *m = d->m;
	Step s;
	Arg tile = arg_copy(m, *entry);
	if (arg_block(m, entry) != NONE)
		return make_unsqueezed(d, make_node(d, OP_TILE_INDEX, "index", 1, &tile), 1, after, "index");
	if (!read_slice(m, d->n, dim, entry, &s))
		return NONE;
	return position_of(d, &s, make_iota(d, expr_int(m, s.count), 0, 1 + after));
}

/* Entries from the first to the last whose steps are no block as the positions that they name, which go together. */
static bool store_places(Decompose *d, Stored *to, uint32_t first, uint32_t last) {
	uint32_t after = 0;
	for (uint32_t i = last + 1; i-- > first;) {
		if (!entry_is_dim(d->m, &to->index[i]))
			continue;
		NodeId places = places_of(d, &to->index[i], i, after++);
		if (places == NONE)
			return false;
		to->index[i] = arg_ref(places);
	}
	return true;
}

/* The store's dims, as many as its entries make. */
static uint32_t dims_of_entries(const Module *m, NodeId n, uint32_t *new_axes) {
	const Arg *index = node_arg(m, n, 1);
	uint32_t rank = 0;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *entry = arg_item(m, index, i);
		*new_axes |= entry->kind == ARG_NULL ? 1u << rank : 0;
		rank += entry_is_dim(m, entry);
	}
	return rank;
}

static NodeId plain_store(Decompose *d, uint32_t element) {
	(void)element;
	Module *m = d->m;
	Stored to = {.count = 0};
	uint32_t new_axes = 0, rank = dims_of_entries(m, d->n, &new_axes), first = NONE, last = NONE;
	for (uint32_t i = 0; i < 4; i++)
		to.args[i] = i == 1 ? arg_null() : arg_copy(m, *node_arg(m, d->n, i));
	for (uint32_t i = 2; i < 4 && new_axes; i++)
		if (to.args[i].kind == ARG_REF)
			to.args[i] = arg_ref(without_dims(d, to.args[i].node, rank, new_axes));
	uint32_t all = node_arg(m, d->n, 1)->list.count;
	for (uint32_t i = 0; i < all; i++) {
		const Arg *entry = arg_item(m, node_arg(m, d->n, 1), i);
		Step s;
		if (entry->kind == ARG_NULL)
			continue;
		bool steps = read_step(m, d->n, to.count, entry, &s);
		to.index[to.count++] = arg_copy(m, *entry);
		if (steps && (i + 1 < all || !store_lanes(d, &to, &s))) {
			last = to.count - 1;
			first = first == NONE ? last : first;
		}
	}
	if (first != NONE && !store_places(d, &to, first, last))
		return NONE;
	to.args[1] = arg_list(m, to.count, to.index);
	return make_node(d, OP_STORE, "plain", 4, to.args);
}

Decomposition *decompose_store(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	uint32_t others = 0, steps = 0, gathers = 0, dim = 0;
	bool axes = false;
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++) {
		const Arg *entry = arg_item(m, index, i);
		Step s;
		axes = axes || entry->kind == ARG_NULL;
		gathers += entry_gathers(m, entry);
		if (entry->kind == ARG_NULL)
			continue;
		bool steps_here = read_step(m, n, dim++, entry, &s);
		steps += steps_here;
		others += steps_here && i + 1 < index->list.count;
	}
	/* Int tensors would go together with the positions. */
	bool mixed = (axes || others > 0) && gathers > 0;
	return (axes || steps) && !mixed ? plain_store : NULL;
}
