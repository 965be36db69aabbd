/* decompose_access.c - loads as the plan knows them: masks, steps and new axes stand behind them. */
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
		if (entry.kind != ARG_NULL)
			entries[count++] = is_stepped(m, &entry) ? arg_whole(m) : arg_copy(m, entry);
	}
	*views = arg_list(m, dims, view);
	return arg_list(m, count, entries);
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
	Module *m = d->m;
	Arg views, args[3] = {arg_copy(m, *node_arg(m, d->n, 0)), arg_null(), arg_null()};
	NodeId mask = node_input(m, d->n, 2);
	args[1] = index_of(d, &views);
	NodeId value = make_stepped(d, make_node(d, OP_LOAD, "all", 3, args));
	if (has_entry(m, d->n, is_new_axis)) {
		Arg view[2] = {arg_ref(value), views};
		value = make_node(d, OP_SUBSCRIPT, "axes", 2, view);
	}
	if (mask == NONE)
		return value;
	bool is_bool = node_type(m, d->n)->dtype == DTYPE_BOOL;
	return make_where(d, "masked", mask, arg_ref(value), is_bool ? arg_bool(false) : arg_int(0));
}

Decomposition *decompose_access(const Module *m, NodeId n) {
	if (node_get(m, n)->op != OP_LOAD)
		return NULL;
	bool steps = has_entry(m, n, is_stepped);
	if (steps && has_entry(m, n, entry_gathers))
		return NULL;
	return steps || node_input(m, n, 2) != NONE || has_entry(m, n, is_new_axis) ? plain_load : NULL;
}
