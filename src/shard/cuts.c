/* cuts.c - what follows from cutting some blocks along axes of the mesh: a block is cut as the dims of the tensors that
 * it indexes are, and these as those of what they are views of. Each device runs the tiles of its part, as if the
 * others were not there; that this is right is seen by accesses alone. All positions in what is cut are whole tiles, so
 * each device finds what it reads in its part; and what a tile writes is written by no tile of another device, unless
 * it can be merged (merges.c). */
#include "cuts.h"

#include <stdarg.h>

bool cuts_refuse(Cuts *c, NodeId at, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	if (!c->why) {
		c->why = arena_vprintf(c->a, fmt, ap);
		c->at = at;
	}
	va_end(ap);
	return false;
}

/* A size that is a number before there is any configuration. */
static bool known(const Module *m, ExprId e, int64_t *value) {
	*value = e != NONE && m->exprs.at[e].kind == EXPR_INT ? m->exprs.at[e].value : -1;
	return *value >= 0;
}

static const char *name_of(const Cuts *c, TensorId t) { return c->m->tensors.at[t].name; }
static const char *block_name(const Cuts *c, BlockId b) { return c->m->blocks.at[b].name; }
static const char *text(const Cuts *c, const Cut *cut) { return cut_text(c->a, c->mesh, cut); }

/* ---- from cut to cut -------------------------------------------------------------------------------------------- */

/* Both are cut the same way. */
static bool unify(Cuts *c, Cut *x, Cut *y, NodeId at, const char *what) {
	if (cut_is(x, y))
		return true;
	if (x->count && y->count)
		return cuts_refuse(c, at, "%s would be cut along %s and along %s", what, text(c, x), text(c, y));
	*(x->count ? y : x) = *(x->count ? x : y);
	c->changed = true;
	return true;
}

static bool solve_access(Cuts *c, NodeId n) {
	TensorId t = access_tensor(c->m, n);
	for (Entry e = {0}; entry_next(c->m, n, &e);) {
		const char *what = arena_printf(c->a, "dim %u of %s", e.dim, name_of(c, t));
		if (e.block != NONE && !unify(c, &c->block[e.block], &c->tensor[t].dim[e.dim], n, what))
			return false;
		if (e.block != NONE && e.counts)
			c->counted[t][e.dim] = e.block;
	}
	return true;
}

/* A shape and how it is cut. */
typedef struct Shape {
	uint32_t rank;
	int64_t size[RANK_MAX];
	Cut *dim;
} Shape;

/* Of dims [from, to) in row-major order the axes, one dim's behind the other's: each dim before a cut one is cut to
 * parts of one. False: parts are not contiguous. */
static bool gather_axes(const Cuts *c, const Shape *x, uint32_t from, uint32_t to, Cut *all) {
	bool whole = true; /* all before it */
	*all = (Cut){0};
	for (uint32_t d = from; d < to; d++) {
		const Cut *cut = &x->dim[d];
		if (x->size[d] == 1)
			continue;
		if (cut->count && (!whole || all->count + cut->count > CUT_AXES_MAX))
			return false;
		for (uint32_t i = 0; i < cut->count; i++)
			all->axis[all->count++] = cut->axis[i];
		whole = whole && cut_parts(c->mesh, cut) == x->size[d];
	}
	return true;
}

/* The other way. */
static bool spread_axes(const Cuts *c, const Shape *y, uint32_t from, uint32_t to, const Cut *all, Cut *out) {
	uint32_t i = 0;
	for (uint32_t d = from; d < to; d++) {
		int64_t left = y->size[d];
		out[d] = (Cut){0};
		for (; i < all->count && left % c->mesh->axis[all->axis[i]].devices == 0; i++) {
			out[d].axis[out[d].count++] = all->axis[i];
			left /= c->mesh->axis[all->axis[i]].devices;
		}
		if (left > 1)
			break;
	}
	return i == all->count;
}

static bool solve_group(Cuts *c, Shape *x, Shape *y, const uint32_t from[2], const uint32_t to[2], const char *what) {
	Cut all[2], out[RANK_MAX] = {{0}};
	if (!gather_axes(c, x, from[0], to[0], &all[0]) || !gather_axes(c, y, from[1], to[1], &all[1]))
		return cuts_refuse(c, NONE, "parts of %s do not lie one behind the other", what);
	if (cut_is(&all[0], &all[1]))
		return true;
	if (all[0].count && all[1].count)
		return cuts_refuse(c, NONE, "%s would be cut along %s and along %s", what, text(c, &all[0]),
		                   text(c, &all[1]));
	uint32_t k = all[0].count > 0; /* the side that is not cut yet */
	Shape *to_cut = k ? y : x;
	if (!spread_axes(c, to_cut, from[k], to[k], &all[!k], out))
		return cuts_refuse(c, NONE, "%s cannot be cut along %s: its dims do not divide so", what,
		                   text(c, &all[!k]));
	for (uint32_t d = from[k]; d < to[k]; d++)
		to_cut->dim[d] = out[d];
	c->changed = true;
	return true;
}

/* Two shapes of one array: runs of dims with the same number of elements are cut the same way. */
static bool solve_reshape(Cuts *c, Shape x, Shape y, const char *what) {
	uint32_t from[2] = {0, 0}, to[2];
	for (; from[0] < x.rank && from[1] < y.rank; memcpy(from, to, sizeof from)) {
		int64_t a = x.size[from[0]], b = y.size[from[1]];
		to[0] = from[0] + 1;
		to[1] = from[1] + 1;
		while (a != b && (a < b ? to[0] < x.rank : to[1] < y.rank)) {
			if (a < b)
				a *= x.size[to[0]++];
			else
				b *= y.size[to[1]++];
		}
		if (a != b)
			return cuts_refuse(c, NONE, "the shapes of %s do not agree", what);
		if (!solve_group(c, &x, &y, from, to, what))
			return false;
	}
	return true;
}

/* False without a word where a size is not known: then nothing of it can be cut. */
static bool shape_of(const Module *m, uint32_t rank, const ExprId *dims, Cut *cuts, Shape *out) {
	*out = (Shape){.rank = rank, .dim = cuts};
	for (uint32_t d = 0; d < rank; d++)
		if (!known(m, dims[d], &out->size[d]) || out->size[d] == 0)
			return false;
	return true;
}

static bool any_cut(const Parted *p) {
	uint32_t cut = 0;
	for (uint32_t d = 0; d < p->rank; d++)
		cut += p->dim[d].count;
	return cut > 0;
}

static bool reshape_between(Cuts *c, TensorId t, Parted *to, uint32_t rank, const ExprId *dims, const char *what) {
	const Tensor *from = &c->m->tensors.at[t];
	Shape x, y;
	if (shape_of(c->m, from->rank, from->shape, c->tensor[t].dim, &x) && shape_of(c->m, rank, dims, to->dim, &y))
		return solve_reshape(c, x, y, what);
	if (any_cut(&c->tensor[t]) || any_cut(to))
		return cuts_refuse(c, NONE, "the sizes of %s are not known", what);
	return true;
}

/* The dim of its base that dim d of a view is, cut alike; NONE: another, which must not be cut. */
static uint32_t view_dim(const Cuts *c, const Tensor *view, uint32_t d) {
	const Tensor *base = &c->m->tensors.at[view->of];
	switch (view->view) {
	case VIEW_PERMUTE: return (uint32_t)view->view_arg[d][0];
	case VIEW_SLICE: {
		int64_t size;
		bool all = known(c->m, base->shape[d], &size) && view->view_arg[d][0] == 0 &&
		           view->view_arg[d][1] == size && view->view_arg[d][2] == 1;
		return all ? d : NONE;
	}
	case VIEW_EXPAND: {
		uint32_t ahead = view->rank - base->rank;
		return d >= ahead && view->shape[d] == base->shape[d - ahead] ? d - ahead : NONE;
	}
	case VIEW_RESHAPE: break;
	}
	return NONE;
}

/* What an expansion repeats may be cut, a dim that is sliced may not; nor may what no dim of the view is. */
static bool solve_dims(Cuts *c, TensorId t) {
	const Tensor *view = &c->m->tensors.at[t];
	bool seen[RANK_MAX] = {false};
	for (uint32_t d = 0; d < view->rank; d++) {
		uint32_t of = view_dim(c, view, d);
		Cut *cut = &c->tensor[t].dim[d];
		if (of == NONE && cut->count && view->view == VIEW_SLICE)
			return cuts_refuse(c, NONE, "%s is a slice of dim %u of %s", view->name, d,
			                   name_of(c, view->of));
		if (of == NONE)
			continue;
		seen[of] = true;
		if (!unify(c, cut, &c->tensor[view->of].dim[of], NONE,
		           arena_printf(c->a, "dim %u of %s", of, name_of(c, view->of))))
			return false;
	}
	for (uint32_t d = 0; d < c->tensor[view->of].rank; d++)
		if (!seen[d] && c->tensor[view->of].dim[d].count)
			return cuts_refuse(c, NONE, "%s is a part of dim %u of %s", view->name, d,
			                   name_of(c, view->of));
	return true;
}

/* Steps of the wrapper that compute each element alone. */
static bool pointwise(const HostStep *steps, uint32_t count) {
	bool all = true;
	for (uint32_t i = 0; i < count; i++)
		all = all && op_row(steps[i].op)->kind == KIND_POINTWISE;
	return all;
}

static bool solve_derived(Cuts *c, TensorId t) {
	const Tensor *x = &c->m->tensors.at[t];
	Parted *mine = &c->tensor[t], *base = &c->tensor[x->of];
	bool alike = pointwise(x->steps, x->step_count) && mine->rank == base->rank;
	if (!alike && (any_cut(mine) || any_cut(base)))
		return cuts_refuse(c, NONE, "the wrapper computes %s of %s by %s, of the whole array", x->name,
		                   name_of(c, x->of), op_row(x->steps[0].op)->target);
	for (uint32_t d = 0; alike && d < mine->rank; d++)
		if (!unify(c, &mine->dim[d], &base->dim[d], NONE, arena_printf(c->a, "dim %u of %s", d, x->name)))
			return false;
	return true;
}

static bool solve_tensor(Cuts *c, TensorId t) {
	const Tensor *x = &c->m->tensors.at[t];
	if (x->role == ROLE_DERIVED)
		return solve_derived(c, t);
	if (x->role != ROLE_VIEW)
		return true;
	if (x->view != VIEW_RESHAPE)
		return solve_dims(c, t);
	return reshape_between(c, x->of, &c->tensor[t], x->rank, x->shape, x->name);
}

/* The dims of the array that a step of the wrapper reduces, as a bit set; 0: it reduces none, or in another way. */
static uint32_t step_reduces(const Cuts *c, const HostStep *step, uint32_t rank, MergeKind *kind) {
	uint16_t op = op_canonical(step->op);
	const Arg *dims = step->count ? arg_get(c->m, step->first) : &no_argument;
	uint32_t bits = 0;
	*kind = op == OP_AMAX ? MERGE_MAX : op == OP_AMIN ? MERGE_MIN : MERGE_SUM;
	if (op != OP_SUM && op != OP_AMAX && op != OP_AMIN)
		return 0;
	for (uint32_t i = 0; dims->kind == ARG_LIST && i < dims->list.count; i++) {
		int64_t d = arg_item(c->m, dims, i)->integer;
		bits |= 1u << (d < 0 ? d + rank : d);
	}
	return bits ? bits : (1u << rank) - 1;
}

/* Steps that reduce all dims that are cut: parts of that are merged, and what follows is of the whole. */
static bool solve_reduced(Cuts *c, uint32_t r) {
	const Return *ret = &c->m->returns.at[r];
	const Parted *of = &c->tensor[ret->tensor];
	uint32_t i = 0;
	Merge merge = {.tensor = ret->tensor, .by = NONE, .name = name_of(c, ret->tensor)};
	while (i < ret->step_count && pointwise(&ret->steps[i], 1))
		i++;
	uint32_t dims = i < ret->step_count ? step_reduces(c, &ret->steps[i], of->rank, &merge.kind) : 0;
	for (uint32_t d = 0; d < of->rank; d++) {
		if (of->dim[d].count && !(dims & (1u << d)))
			return cuts_refuse(c, NONE,
			                   "the wrapper computes what it returns of %s by %s, of the whole array",
			                   name_of(c, ret->tensor), op_row(ret->steps[0].op)->target);
		for (uint32_t k = 0; k < of->dim[d].count && merge.cut.count < MESH_AXES_MAX; k++)
			merge.cut.axis[merge.cut.count++] = of->dim[d].axis[k];
	}
	merge.root = i;
	c->summed[r] = merge;
	return true;
}

static bool solve_return(Cuts *c, uint32_t r) {
	const Return *ret = &c->m->returns.at[r];
	Parted *out = &c->returned[r], *of = &c->tensor[ret->tensor];
	if (!pointwise(ret->steps, ret->step_count))
		return solve_reduced(c, r);
	for (uint32_t d = 0; d < of->rank; d++)
		if (of->dim[d].count && c->counted[ret->tensor][d] != NONE)
			return cuts_refuse(c, NONE, "%s, which is returned, has an element for each tile",
			                   name_of(c, ret->tensor));
	if (ret->has_shape)
		return reshape_between(c, ret->tensor, out, ret->rank, ret->shape, name_of(c, ret->tensor));
	out->rank = of->rank;
	memcpy(out->dim, of->dim, sizeof out->dim);
	return true;
}

/* ---- what is cut can be ------------------------------------------------------------------------------------------ */

static bool is_access(const Module *m, NodeId n) { return op_kind(m, n) == KIND_MEMORY; }

/* Every position in a cut dim is a whole tile's, of a block that covers the dim. */
static bool check_access(Cuts *c, NodeId n) {
	TensorId t = access_tensor(c->m, n);
	if (t == NONE)
		return cuts_refuse(c, n, "'%s' reads or writes an array that it does not name",
		                   node_get(c->m, n)->name);
	for (Entry e = {0}; entry_next(c->m, n, &e);) {
		const char *what = arena_printf(c->a, "dim %u of %s, cut along %s,", e.dim, name_of(c, t),
		                                text(c, &c->tensor[t].dim[e.dim]));
		if (c->tensor[t].dim[e.dim].count == 0 || e.block != NONE)
			continue;
		if (e.arg->kind == ARG_SLICE)
			return cuts_refuse(c, n, "%s is taken whole by '%s'", what, node_get(c->m, n)->name);
		return cuts_refuse(c, n, "'%s' takes positions of %s that are no whole tile's", node_get(c->m, n)->name,
		                   what);
	}
	return true;
}

/* A position within the whole range: of the device's part, and where that begins. */
static bool check_query(Cuts *c, NodeId n) {
	BlockId b = arg_block(c->m, node_arg(c->m, n, 0));
	bool known = b == NONE || c->block[b].count == 0 || position_is_known(c, n);
	return known || cuts_refuse(c, n, "'%s' asks where in its range %s is (%s)", node_get(c->m, n)->name,
	                            block_name(c, b), op_row(node_get(c->m, n)->op)->target);
}

/* sym_size of an array: a number that is another one then. */
static bool check_size(Cuts *c, NodeId n) {
	TensorId t = access_tensor(c->m, n);
	const Arg *dim = node_arg(c->m, n, 1);
	if (t == NONE || dim->kind != ARG_INT)
		return true;
	int64_t d = dim->integer < 0 ? dim->integer + c->tensor[t].rank : dim->integer;
	return d < 0 || d >= c->tensor[t].rank || c->tensor[t].dim[d].count == 0 ||
	       cuts_refuse(c, n, "'%s' asks for the size of dim %lld of %s", node_get(c->m, n)->name, (long long)d,
	                   name_of(c, t));
}

static bool check_nodes(Cuts *c) {
	for (NodeId n = 0; n < c->m->nodes.count; n++) {
		if (node_get(c->m, n)->dead)
			continue;
		bool ok = true;
		if (is_access(c->m, n))
			ok = check_access(c, n);
		else if (op_kind(c->m, n) == KIND_QUERY)
			ok = check_query(c, n);
		else if (node_get(c->m, n)->op == OP_SYM_SIZE)
			ok = check_size(c, n);
		if (!ok)
			return false;
	}
	return true;
}

/* The range of a block that a loop computes is within the dim that it indexes. */
static void find_range(Cuts *c, NodeId n) {
	TensorId t = access_tensor(c->m, n);
	for (Entry e = {0}; entry_next(c->m, n, &e);)
		if (e.block != NONE && !e.counts && c->range[e.block] == NONE)
			c->range[e.block] = c->m->tensors.at[t].shape[e.dim];
}

/* Its parts are equal, and of whole tiles where the graph fixes their size. */
static bool check_block(Cuts *c, BlockId b) {
	const Block *block = &c->m->blocks.at[b];
	int64_t parts = cut_parts(c->mesh, &c->block[b]), extent, begin, size;
	if (c->block[b].count == 0)
		return true;
	if (block->reduction)
		return cuts_refuse(c, NONE, "%s is a whole dim, which a tile holds at once", block->name);
	if (!known(c->m, c->range[b], &extent))
		return cuts_refuse(c, NONE, "the range of %s is computed", block->name);
	if (block->begin != NONE && (!known(c->m, block->begin, &begin) || begin != 0))
		return cuts_refuse(c, NONE, "the range of %s does not begin at 0", block->name);
	if (extent % parts)
		return cuts_refuse(c, NONE, "%s has %lld positions, which %lld devices cannot share equally",
		                   block->name, (long long)extent, (long long)parts);
	if (block->size == NONE)
		return true;
	if (!known(c->m, block->size, &size) || size == 0)
		return cuts_refuse(c, NONE, "the size of %s is computed", block->name);
	if (extent / parts % size)
		return cuts_refuse(c, NONE, "%s has tiles of %lld, and %lld devices %lld positions each", block->name,
		                   (long long)size, (long long)parts, (long long)(extent / parts));
	return true;
}

/* As long as each block that indexes it, and no axis cuts two dims. */
static bool check_tensor(Cuts *c, TensorId t) {
	uint32_t seen = 0;
	for (uint32_t d = 0; d < c->tensor[t].rank; d++) {
		int64_t size;
		if (c->tensor[t].dim[d].count && c->counted[t][d] == NONE &&
		    !known(c->m, c->m->tensors.at[t].shape[d], &size))
			return cuts_refuse(c, NONE, "the size of dim %u of %s is computed", d, name_of(c, t));
		for (uint32_t i = 0; i < c->tensor[t].dim[d].count; i++) {
			uint32_t bit = 1u << c->tensor[t].dim[d].axis[i];
			if (seen & bit)
				return cuts_refuse(c, NONE, "the axis %s would cut two dims of %s",
				                   c->mesh->axis[c->tensor[t].dim[d].axis[i]].name, name_of(c, t));
			seen |= bit;
		}
	}
	return true;
}

static bool check_extents(Cuts *c, NodeId n) {
	TensorId t = access_tensor(c->m, n);
	for (Entry e = {0}; entry_next(c->m, n, &e);) {
		if (e.block == NONE || e.counts || c->block[e.block].count == 0 ||
		    c->m->tensors.at[t].shape[e.dim] == c->range[e.block])
			continue;
		return cuts_refuse(c, n, "dim %u of %s is not as long as the range of %s", e.dim, name_of(c, t),
		                   block_name(c, e.block));
	}
	return true;
}

/* The axes of the blocks that graph g and those around it iterate. No tile of a nest is cut twice along one. */
static bool check_nest(Cuts *c, GraphId g) {
	uint32_t seen = 0;
	for (GraphId at = g; at != NONE; at = graph_parent(c->m, at)) {
		const Graph *graph = graph_get(c->m, at);
		for (uint32_t i = 0; i < graph->blocks.count; i++) {
			const Cut *cut = &c->block[graph->blocks.at[i]];
			bool within = block_within(c->m, graph->blocks.at[i]) != NONE; /* a part of its tile */
			for (uint32_t k = 0; k < cut->count && !within; k++) {
				uint32_t bit = 1u << cut->axis[k];
				if (seen & bit)
					return cuts_refuse(
						c, NONE,
						"the axis %s would cut %s and another block around it: only pairs "
						"of equal parts would meet",
						c->mesh->axis[cut->axis[k]].name, block_name(c, graph->blocks.at[i]));
				seen |= bit;
			}
		}
	}
	return true;
}

static bool inside(const Module *m, GraphId g, GraphId outer) {
	for (; g != NONE; g = graph_parent(m, g))
		if (g == outer)
			return true;
	return false;
}

static bool indexed_by(const Module *m, NodeId n, BlockId b) {
	bool any = false;
	for (Entry e = {0}; entry_next(m, n, &e);)
		any = any || (e.block != NONE && (e.block == b || block_within(m, e.block) == b));
	return any;
}

/* What graph g, or one that it calls, writes is another place at each step of block b. */
static bool check_stores(Cuts *c, GraphId g, BlockId b) {
	for (NodeId n = 0; n < c->m->nodes.count; n++) {
		const Node *node = node_get(c->m, n);
		if (node->dead || !is_access(c->m, n) || node->op == OP_LOAD || !inside(c->m, node->graph, g) ||
		    indexed_by(c->m, n, b))
			continue;
		TensorId t = access_tensor(c->m, n);
		if (cuts_merge_atomic(c, n, &c->block[b]))
			continue;
		return cuts_refuse(c, n, "'%s' writes the same places of %s in each step of %s", node->name,
		                   t == NONE ? "an array" : name_of(c, t), block_name(c, b));
	}
	return true;
}

bool goes_over_all(const Cuts *c, GraphId g, uint32_t i) {
	const Graph *graph = graph_get(c->m, g);
	const Arg *begin = arg_item(c->m, node_arg(c->m, graph->caller, 1), i);
	const Arg *end = arg_item(c->m, node_arg(c->m, graph->caller, 2), i);
	return begin->kind == ARG_INT && begin->integer == 0 && end->kind == ARG_INT &&
	       expr_is_int(c->m, c->range[graph->blocks.at[i]], end->integer);
}

/* A loop goes from one position of its block's range to another. */
static bool check_bounds(Cuts *c, GraphId g, uint32_t i) {
	const Graph *graph = graph_get(c->m, g);
	return graph->lengths == NONE || cuts_refuse(c, graph->caller, "the rows of %s have lengths of their own",
	                                             block_name(c, graph->blocks.at[i]));
}

static bool check_graph(Cuts *c, GraphId g) {
	const Graph *graph = graph_get(c->m, g);
	if (!check_nest(c, g))
		return false;
	for (uint32_t i = 0; i < graph->blocks.count; i++) {
		const Cut *cut = &c->block[graph->blocks.at[i]];
		if (cut->count == 0 || block_within(c->m, graph->blocks.at[i]) != NONE)
			continue;
		if (!check_stores(c, g, graph->blocks.at[i]))
			return false;
		if (graph->kind != GRAPH_ROOT && (!check_bounds(c, g, i) || !cuts_merge_loop(c, g, cut)))
			return false;
	}
	return true;
}

static bool propagate(Cuts *c) {
	c->changed = false;
	for (BlockId b = 0; b < c->m->blocks.count; b++) {
		BlockId of = block_within(c->m, b);
		if (of != NONE && !unify(c, &c->block[b], &c->block[of], NONE, block_name(c, b)))
			return false;
	}
	for (NodeId n = 0; n < c->m->nodes.count; n++)
		if (!node_get(c->m, n)->dead && is_access(c->m, n) && !solve_access(c, n))
			return false;
	for (TensorId t = 0; t < c->m->tensors.count; t++)
		if (!solve_tensor(c, t))
			return false;
	for (uint32_t r = 0; r < c->m->returns.count; r++)
		if (!solve_return(c, r))
			return false;
	return true;
}

static bool check_all(Cuts *c) {
	for (NodeId n = 0; n < c->m->nodes.count; n++)
		if (!node_get(c->m, n)->dead && is_access(c->m, n))
			find_range(c, n);
	for (BlockId b = 0; b < c->m->blocks.count; b++)
		if (!check_block(c, b))
			return false;
	for (TensorId t = 0; t < c->m->tensors.count; t++)
		if (!check_tensor(c, t))
			return false;
	for (NodeId n = 0; n < c->m->nodes.count; n++)
		if (!node_get(c->m, n)->dead && is_access(c->m, n) && !check_extents(c, n))
			return false;
	if (!check_nodes(c))
		return false;
	for (GraphId g = 0; g < c->m->graphs.count; g++)
		if (!check_graph(c, g))
			return false;
	return true;
}

/* What the wrapper merges of its steps. */
static void send_reduced(Cuts *c, uint32_t r) {
	const Return *ret = &c->m->returns.at[r];
	const Tensor *x = &c->m->tensors.at[ret->tensor];
	MergeKind kind;
	double elements = 1;
	uint32_t dims = step_reduces(c, &ret->steps[c->summed[r].root], x->rank, &kind);
	for (uint32_t d = 0; d < x->rank; d++)
		elements *= dims & (1u << d) ? 1 : cuts_size(c, ret->tensor, d);
	cuts_send(c, elements, x->dtype, &c->summed[r].cut);
}

/* Each round cuts at least one dim or block more, of which there are as many. */
bool cuts_solve(Cuts *c) {
	do {
		if (!propagate(c))
			return false;
	} while (c->changed);
	for (uint32_t r = 0; r < c->m->returns.count; r++)
		if (c->summed[r].cut.count)
			send_reduced(c, r);
	return check_all(c);
}
