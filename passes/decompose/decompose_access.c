/* decompose_access.c - loads as the plan knows them: masks and new axes stand behind them. */
#include "decompose.h"

static bool has_new_axes(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	for (uint32_t i = 0; i < index->list.count; i++)
		if (arg_item(m, index, i)->kind == ARG_NULL)
			return true;
	return false;
}

/* The index of the access without its new axes; `views`: of what it gives, with them, as tile.subscript takes it. */
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
			entries[count++] = arg_copy(m, entry);
	}
	*views = arg_list(m, dims, view);
	return arg_list(m, count, entries);
}

/*     v = load x[None, u0]      =>      w = load x[u0]
 *                                       v = subscript w, [None, :]
 *
 * Lanes that extra_mask hides are 0. */
static NodeId plain_load(Decompose *d, uint32_t element) {
	(void)element;
	Module *m = d->m;
	Arg views, args[3] = {arg_copy(m, *node_arg(m, d->n, 0)), arg_null(), arg_null()};
	NodeId mask = node_input(m, d->n, 2);
	args[1] = index_of(d, &views);
	NodeId value = make_node(d, OP_LOAD, "all", 3, args);
	if (has_new_axes(m, d->n)) {
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
	return node_input(m, n, 2) != NONE || has_new_axes(m, n) ? plain_load : NULL;
}
