/* orient.c - computes a chain of matmuls transposed, so that reductions between them run along sublanes.
 *
 * What: where a loop reduces the rows of a matmul's result [m, n] along n (softmax of scores), the result is computed
 * as [n, m] instead, from the swapped operands; so is all that is computed from it lane by lane, its row statistics [m]
 * are [1, m], and the matmul that it feeds gives [d, m] too, which is turned back behind the loop. Why on a TPU: a
 * reduction along lanes goes through the cross-lane unit and gives a column, of which a register holds 8 values; along
 * sublanes it is lane-by-lane arithmetic on registers that hold 1024, and a statistic [1, m] meets every sublane for
 * nothing. The second matmul's output is m lanes wide, where d may fill only half of the matrix unit. A loaded vector
 * of one value for each row (lse in attention's backward kernels) lies along lanes too: it meets the turned tile as it
 * is, where it would be transposed to a column in each step; and a swap of what is turned is gone. A loaded vector of
 * one value for each column (ids of segments) is turned in each step instead, with 128 equal lanes.
 *
 * A sum that a loop adds products of swapped tiles to (dv of P^T dO) is turned by itself where it has few columns:
 * [d, n] of dO^T P has the wide tile as the factor that stays in the matrix unit, and fills it.
 *
 *     s = bmm q, k                 [b, m, n]         s = bmm k^T, q^T            [b, n, m]
 *     x = amax s, [-1]             [b, m]            x = amax s, [-2], keepdim   [b, 1, m]
 *     c = subscript x, [:, :, null]             =>
 *     p = sub s, c                 [b, m, n]         p = sub s, x                [b, n, m]
 *     acc = baddbmm acc, p, v      [b, m, d]         acc = baddbmm acc, v^T, p   [b, d, m]
 *
 * How: from each matmul in a loop, all that must turn with it is followed, forwards and backwards, across carried
 * values and out of the loop. A use that wants the old shape gets it by a permute: behind the loop, or as an operand of
 * a matmul, which reads it swapped for nothing. Anywhere else in a loop it speaks against the whole. */
#include "layout.h"
#include "orient.h"

/* ---- types ------------------------------------------------------------------------------------------------------- */

static bool is_one(const Orient *o, ExprId e) { return expr_is_int(o->m, e, 1); }

static const Type *old_type(const Orient *o, NodeId n) { return type_get(o->m, o->old[n]); }

bool is_old_tile(const Orient *o, NodeId n) {
	return n < o->nodes && old_type(o, n)->kind == TYPE_TENSOR && old_type(o, n)->count > 0;
}

/* [.., m, 1]. */
static bool is_column(const Orient *o, NodeId n) {
	const Type *t = old_type(o, n);
	return t->count > 1 && is_one(o, t->dims[t->count - 1]);
}

TypeId turned_type(const Orient *o, TypeId type, Stand s) {
	Type t = *type_get(o->m, type);
	if (s == STAND_TURNED || (s == STAND_LANES && t.count > 1 && is_one(o, t.dims[t.count - 1]))) {
		ExprId last = t.dims[t.count - 1];
		t.dims[t.count - 1] = t.dims[t.count - 2];
		t.dims[t.count - 2] = last;
	} else if (s == STAND_LANES) {
		t.dims[t.count] = t.dims[t.count - 1];
		t.dims[t.count++ - 1] = expr_int(o->m, 1);
	}
	return type_tensor(o->m, t.dtype, t.count, t.dims);
}

static bool leading_equal(const Orient *o, const Type *a, const Type *b, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (!expr_equal(o->m, a->dims[i], b->dims[i]))
			return false;
	return true;
}

bool is_unit_view(const Orient *o, NodeId n) {
	NodeId x = op_kind(o->m, n) == KIND_VIEW ? node_input(o->m, n, 0) : NONE;
	if (!is_old_tile(o, x) || !is_old_tile(o, n))
		return false;
	const Type *thin = old_type(o, x), *column = old_type(o, n);
	if (thin->count > column->count) {
		const Type *t = thin;
		thin = column;
		column = t;
	}
	bool is_column =
		thin->count > 1 && is_one(o, thin->dims[thin->count - 1]); /* of which one more dim makes none */
	return column->count == thin->count + 1 && is_one(o, column->dims[thin->count]) && !is_column &&
	       leading_equal(o, thin, column, thin->count);
}

/* [.., m, n] to [1, .., m, n]: the last two dims stay where they are. */
static bool is_leading_view(const Orient *o, NodeId n) {
	uint16_t op = node_get(o->m, n)->op;
	NodeId x = view_adds_units(op) ? node_input(o->m, n, 0) : NONE;
	if (!is_old_tile(o, x) || !is_old_tile(o, n))
		return false;
	const Type *from = old_type(o, x), *to = old_type(o, n);
	uint32_t added = to->count - from->count;
	if (from->count < 2 || to->count <= from->count)
		return false;
	for (uint32_t i = 0; i < to->count; i++)
		if (i < added ? !is_one(o, to->dims[i]) : !expr_equal(o->m, to->dims[i], from->dims[i - added]))
			return false;
	if (op_lanes(op) == LANES_UNSQUEEZE)
		return node_arg(o->m, n, 1)->kind == ARG_INT && node_arg(o->m, n, 1)->integer == 0;
	for (uint32_t i = 0; i < to->count; i++)
		if ((arg_item(o->m, node_arg(o->m, n, 1), i)->kind == ARG_NULL) != (i < added))
			return false;
	return true;
}

NodeId across_index(const Orient *o, NodeId x) {
	uint16_t op = node_get(o->m, x)->op;
	const Type *t = old_type(o, x);
	if (t->count == 2 && is_one(o, t->dims[0]) && view_adds_units(op))
		x = node_input(o->m, x, 0);
	return x != NONE && x < o->nodes && node_get(o->m, x)->op == OP_TILE_INDEX && old_type(o, x)->count == 1 ? x
	                                                                                                         : NONE;
}

/* [.., n] to [.., 1, n]. */
static bool is_row_view(const Orient *o, NodeId n, NodeId x) {
	const Type *from = old_type(o, x), *to = old_type(o, n);
	return view_adds_units(node_get(o->m, n)->op) && to->count == from->count + 1 && from->count > 0 &&
	       is_one(o, to->dims[to->count - 2]) && leading_equal(o, from, to, from->count - 1) &&
	       expr_equal(o->m, from->dims[from->count - 1], to->dims[to->count - 1]);
}

NodeId across_load(const Orient *o, NodeId x) {
	NodeId from = op_kind(o->m, x) == KIND_VIEW ? node_input(o->m, x, 0) : NONE;
	if (is_old_tile(o, from) && is_row_view(o, x, from))
		x = from;
	else if (old_type(o, x)->count != 1)
		return NONE;
	const Type *t = old_type(o, x);
	return node_get(o->m, x)->op == OP_LOAD && t->count < RANK_MAX && dtype_bits(t->dtype) == 32 ? x : NONE;
}

Stand beside_turned(const Orient *o, NodeId n, NodeId x) {
	const Type *have = old_type(o, x), *t = old_type(o, n);
	if (have->count > t->count || t->count < 2)
		return STAND_ASIS;
	ExprId rows = t->dims[t->count - 2], columns = t->dims[t->count - 1];
	ExprId last = have->dims[have->count - 1], first = have->count > 1 ? have->dims[have->count - 2] : NONE;
	bool all_rows = first != NONE && expr_equal(o->m, first, rows);
	if (all_rows && expr_equal(o->m, last, columns))
		return STAND_TURNED;
	if (all_rows && is_one(o, last))
		return STAND_LANES;
	return (first == NONE || is_one(o, first)) && expr_equal(o->m, last, columns) ? STAND_ACROSS : STAND_ASIS;
}

bool swaps_asis(const Orient *o, NodeId x, Stand s) {
	return s == STAND_TURNED && x < o->nodes && permutation_swaps_rows(o->m, x) &&
	       stand_of(o, node_input(o->m, x, 0)) == STAND_ASIS;
}

/* ---- where values go --------------------------------------------------------------------------------------------- */

static bool in_loop(const Orient *o, GraphId g) {
	for (; g != NONE; g = graph_parent(o->m, g))
		if (graph_get(o->m, g)->kind == GRAPH_FOR_LOOP)
			return true;
	return false;
}

static bool against(Orient *o, NodeId n, const char *why) {
	if (!o->why) {
		o->why = why;
		o->at = n;
	}
	return false;
}

/* The argument that placeholder n stands for, in the call of its loop; NULL if its graph is no loop. */
static const Arg *placeholder_given(const Orient *o, NodeId n) {
	const Graph *g = graph_get(o->m, node_get(o->m, n)->graph);
	if (g->kind != GRAPH_FOR_LOOP || g->caller == NONE || node_get(o->m, g->caller)->op != OP_FOR_LOOP)
		return NULL;
	return arg_item(o->m, op_arg(o->m, g->caller, "args"), o->index[n]);
}

static int64_t size_from_end(const Orient *o, NodeId n, uint32_t back) {
	const Type *t = old_type(o, n);
	return expr_number(o->m, t->dims[t->count - back]);
}

/* Rows fill the lanes, and what was in the lanes the sublanes of the narrowest type. */
static bool fits(Orient *o, NodeId n) {
	int64_t rows = size_from_end(o, n, 2), columns = size_from_end(o, n, 1);
	if (rows % o->m->target->lanes != 0)
		return against(o, n,
		               arena_printf(o->arena, "%lld rows are no multiple of %lld lanes", (long long)rows,
		                            (long long)o->m->target->lanes));
	if (columns % 32 != 0)
		return against(
			o, n,
			arena_printf(o->arena, "%lld columns are no multiple of 32 sublanes", (long long)columns));
	return true;
}

static bool turn(Orient *o, NodeId n, Stand s) {
	if (!is_old_tile(o, n))
		return against(o, n, "meets something that is no tile");
	if (o->stand[n] == s)
		return true;
	if (s == STAND_TURNED && old_type(o, n)->count >= 2 && !fits(o, n))
		return false;
	if (o->stand[n] != STAND_ASIS || (s == STAND_TURNED && old_type(o, n)->count < 2) ||
	    (s == STAND_LANES && !is_column(o, n) && old_type(o, n)->count == RANK_MAX))
		return against(o, n, "would have to stand two ways");
	o->stand[n] = (uint8_t)s;
	vec_push(o->arena, &o->found, n);
	return true;
}

/* float16 stays where memory is (float16.c): what is loaded as such is turned once it is float32. */
static bool widens_load(const Orient *o, NodeId n) {
	NodeId x = node_get(o->m, n)->op == OP_CONVERT ? node_input(o->m, n, 0) : NONE;
	return x != NONE && node_get(o->m, x)->op == OP_LOAD && old_type(o, x)->dtype == DTYPE_F16;
}

/* Lane by lane, with operands that are broadcast. */
static bool is_lanewise(const Orient *o, NodeId n) {
	uint16_t op = node_get(o->m, n)->op;
	if (widens_load(o, n))
		return false;
	return op_kind(o->m, n) == KIND_POINTWISE || op == OP_NEW_VAR || op == OP_PHI;
}

/* ---- forwards ---------------------------------------------------------------------------------------------------- */

/* The value leaves its loop, or replaces an argument in the next step. */
static bool turn_result(Orient *o, NodeId x, NodeId output, ArgId slot) {
	GraphId loop = node_get(o->m, output)->graph;
	const Graph *g = graph_get(o->m, loop);
	uint32_t place = list_index(graph_results(o->m, loop), slot);
	if (g->kind != GRAPH_FOR_LOOP || g->caller == NONE || place == NONE)
		return against(o, x, "leaves a graph that is no loop");
	uint32_t arg = graph_carried_arg(g, place);
	if (arg == NONE)
		return against(o, x, "leaves the loop without being carried");
	return turn(o, g->placeholders.at[arg], (Stand)o->stand[x]);
}

static bool turn_argument(Orient *o, NodeId x, NodeId call, ArgId slot) {
	uint32_t arg = node_get(o->m, call)->op == OP_FOR_LOOP ? list_index(op_arg(o->m, call, "args"), slot) : NONE;
	if (arg == NONE)
		return against(o, x, "is used by what is neither arithmetic nor a matmul");
	return turn(o, graph_get(o->m, node_arg(o->m, call, 0)->graph)->placeholders.at[arg], (Stand)o->stand[x]);
}

static bool turn_lanewise(Orient *o, NodeId x, NodeId user) {
	const Type *t = old_type(o, x), *u = old_type(o, user);
	Stand s = (Stand)o->stand[x];
	if (t->count == u->count && leading_equal(o, t, u, t->count))
		return turn(o, user, s);
	return beside_turned(o, user, x) == s ? turn(o, user, STAND_TURNED)
	                                      : against(o, user, "broadcasts it along other dims");
}

/* What wants it as it was: at little cost, behind the loop. */
static bool leave(Orient *o, NodeId user) {
	return !in_loop(o, node_get(o->m, user)->graph) || against(o, user, "wants it as it was, in the loop");
}

/* Of as many columns of a turned tile it makes one. */
enum { TURNS_BACK = 4 };

/* A product of a turned tile, so much smaller than that that it can be turned back in each step. */
static bool turns_back(const Orient *o, NodeId x) {
	if (op_kind(o->m, x) != KIND_MATMUL || o->stand[x] != STAND_TURNED)
		return false;
	NodeId tile = node_input(o->m, x, matmul_arg(node_get(o->m, x)->op, 0));
	return is_old_tile(o, tile) && o->stand[tile] == STAND_TURNED &&
	       size_from_end(o, tile, 1) >= TURNS_BACK * size_from_end(o, x, 1);
}

/* Node n reduces rows alone, and can keep their dim as 1. */
static bool reduces_rows(const Orient *o, NodeId n) {
	NodeId x = op_kind(o->m, n) == KIND_REDUCTION ? node_input(o->m, n, 0) : NONE;
	return is_old_tile(o, x) && op_param_index(node_get(o->m, n)->op, "keepdim") != NONE &&
	       reduction_dims(o->m, n) == 1u << (old_type(o, x)->count - 1);
}

static bool forward(Orient *o, NodeId x, ArgId slot) {
	NodeId user = arg_get(o->m, slot)->user;
	const Node *node = node_get(o->m, user);
	bool turned = o->stand[x] == STAND_TURNED;
	if (node->op == OP_OUTPUT)
		return turn_result(o, x, user, slot);
	if (op_is_call(node->op))
		return turn_argument(o, x, user, slot);
	if (is_lanewise(o, user))
		return turn_lanewise(o, x, user);
	if (turned && reduces_rows(o, user) && is_old_tile(o, user)) {
		o->reduces = o->reduces || in_loop(o, node->graph);
		return turn(o, user, STAND_LANES);
	}
	if (op_kind(o->m, user) == KIND_MATMUL && turned && matmul_is_plain(o->m, user)) {
		bool right = slot - node->arg_first == matmul_arg(node->op, 1); /* is read swapped for nothing */
		return right || turn(o, user, STAND_TURNED);
	}
	if (!turned && is_unit_view(o, user))
		return turn(o, user, STAND_LANES);
	if (turned && is_leading_view(o, user))
		return turn(o, user, STAND_TURNED);
	if (turned && permutation_swaps_rows(o->m, user)) { /* is what it wants */
		o->unswaps = o->unswaps || in_loop(o, node->graph);
		return true;
	}
	return turns_back(o, x) || leave(o, user);
}

/* ---- sums of few columns ----------------------------------------------------------------------------------------- */

/* Rows that go through the matrix unit, of its size, for a product of [rows, depth] and [depth, columns]. */
static int64_t mxu_rows(const Orient *o, int64_t rows, int64_t depth, int64_t columns) {
	int64_t size = o->m->target->mxu_size;
	return rows * int_cdiv(depth, size) * int_cdiv(columns, size);
}

static NodeId left_factor(const Orient *o, NodeId product) {
	uint16_t op = node_get(o->m, product)->op;
	return op_kind(o->m, product) == KIND_MATMUL ? node_input(o->m, product, matmul_arg(op, 0)) : NONE;
}

/* The swap that x is, or is with what its block has outside of a tensor masked; NONE. */
static NodeId swap_of(const Orient *o, NodeId x) {
	while (x != NONE && x < o->nodes && node_get(o->m, x)->op == OP_MASK_TO)
		x = node_input(o->m, x, 0);
	return x != NONE && x < o->nodes && permutation_swaps_rows(o->m, x) ? x : NONE;
}

/* What it swaps stands as it is. */
static bool swaps_standing(const Orient *o, NodeId x) {
	NodeId swap = swap_of(o, x);
	return swap != NONE && swaps_asis(o, swap, STAND_TURNED);
}

/* A matmul that adds a swapped tile's product to a value that its loop carries. */
static bool sums_swapped(const Orient *o, NodeId n) {
	uint32_t sum = matmul_arg(node_get(o->m, n)->op, 2);
	NodeId left = left_factor(o, n), added = left == NONE || sum == NONE ? NONE : node_input(o->m, n, sum);
	return swap_of(o, left) != NONE && added != NONE && added < o->nodes &&
	       node_get(o->m, added)->op == OP_PLACEHOLDER && placeholder_given(o, added);
}

/* Such a sum, turned, is a product of fewer rows, or of narrower tiles. */
static bool spares_rows(const Orient *o, NodeId n) {
	int64_t rows = size_from_end(o, n, 2), columns = size_from_end(o, n, 1);
	int64_t depth = size_from_end(o, left_factor(o, n), 1);
	return mxu_rows(o, columns, depth, rows) < mxu_rows(o, rows, depth, columns);
}

/* May sums be turned by themselves? */
static bool turns_sums(const Orient *o) { return o->m->config.transposed_sums.value != SWITCH_OFF; }

/* What a product with found tile x as its left factor takes: of x turned, or as x stands. */
typedef struct Work {
	int64_t turned, asis;
} Work;

static bool is_found(const Orient *o, NodeId x) {
	for (uint32_t i = 0; i < o->found.count; i++)
		if (o->found.at[i] == x)
			return o->stand[x] == STAND_TURNED;
	return false;
}

/* Product n, if a tile that was found, or its swap, is its left factor. */
static void add_product(const Orient *o, NodeId n, Work *w) {
	NodeId left = left_factor(o, n), swap = swap_of(o, left);
	if (left == NONE || !is_found(o, swap == NONE ? left : node_input(o->m, swap, 0)))
		return;
	int64_t rows = size_from_end(o, n, 2), columns = size_from_end(o, n, 1), depth = size_from_end(o, left, 1);
	int64_t as_written = mxu_rows(o, rows, depth, columns), other = mxu_rows(o, columns, depth, rows);
	w->turned += swap == NONE ? other : as_written;
	w->asis += sums_swapped(o, n) ? int_min(other, as_written) : as_written;
}

/* The graph stands in a loop of which every step's number is known: else its steps do not overlap, and each waits for
 * the columns that rows are turned into. */
static bool steps_are_known(const Orient *o, GraphId g) {
	for (; g != NONE && graph_get(o->m, g)->kind != GRAPH_FOR_LOOP; g = graph_parent(o->m, g))
		;
	return g == NONE || !o->m->loop_facts || (o->m->loop_facts[g].legal >> LOOP_UNROLL & 1);
}

/* As they stand, with the sums of their swaps turned, the found tiles of n's chain keep the matrix unit for a shorter
 * time. */
static bool stands_for_sums(const Orient *o, NodeId seed) {
	Work w = {0, 0};
	if (!turns_sums(o) || !steps_are_known(o, node_get(o->m, seed)->graph))
		return false;
	for (NodeId n = 0; n < o->nodes; n++)
		if (op_kind(o->m, n) == KIND_MATMUL && matmul_is_plain(o->m, n) && in_loop(o, node_get(o->m, n)->graph))
			add_product(o, n, &w);
	return w.asis < w.turned;
}

/* ---- backwards --------------------------------------------------------------------------------------------------- */

/* It can be computed turned: else a use of it as such needs a permute. */
static bool can_turn(const Orient *o, NodeId x) {
	const Node *node = node_get(o->m, x);
	if (node->op == OP_PLACEHOLDER)
		return placeholder_given(o, x) != NULL;
	if (node->op == OP_GETITEM) {
		NodeId call = node_input(o->m, x, 0);
		return call != NONE && node_get(o->m, call)->op == OP_FOR_LOOP;
	}
	return is_lanewise(o, x) || op_kind(o->m, x) == KIND_REDUCTION || is_unit_view(o, x) || is_leading_view(o, x) ||
	       (op_kind(o->m, x) == KIND_MATMUL && matmul_is_plain(o->m, x));
}

/* The operand x of n must stand as s. */
static bool want(Orient *o, NodeId n, NodeId x, Stand s) {
	if (node_get(o->m, x)->op == OP_FULL) /* one of its own */
		return true;
	if (swaps_asis(o, x, s)) /* it is what is swapped */
		return true;
	if (s == STAND_ACROSS) /* made along the sublanes for nothing, or by one turn of 128 lanes of it */
		return across_index(o, x) != NONE || across_load(o, x) != NONE ||
		       against(o, x, "would be moved from lanes to sublanes in each step");
	bool loaded = node_get(o->m, x)->op == OP_LOAD && !is_column(o, x);
	if (s == STAND_LANES &&
	    (loaded || (old_type(o, x)->count == 1 && !can_turn(o, x)))) { /* it lies there anyway */
		o->meets_rows = o->meets_rows || (loaded && in_loop(o, node_get(o->m, n)->graph));
		return true;
	}
	if (can_turn(o, x))
		return turn(o, x, s);
	return in_loop(o, node_get(o->m, n)->graph) ? against(o, x, "would be transposed in each step") : true;
}

/* One number for all rows and columns, such as a head's scale [b, 1, 1]: turned it would be the same. */
static bool is_for_all(const Orient *o, NodeId x) {
	const Type *t = old_type(o, x);
	return is_one(o, t->dims[t->count - 1]) && (t->count == 1 || is_one(o, t->dims[t->count - 2]));
}

static bool want_operands(Orient *o, NodeId n) {
	const Type *t = old_type(o, n);
	bool lanes = o->stand[n] == STAND_LANES;
	for (uint32_t i = 0; i < node_get(o->m, n)->arg_count; i++) {
		NodeId x = node_input(o->m, n, i);
		if (!is_old_tile(o, x) || (!lanes && o->stand[x] == STAND_ASIS && is_for_all(o, x)))
			continue;
		const Type *have = old_type(o, x);
		bool same = have->count == t->count && leading_equal(o, have, t, t->count);
		Stand s = lanes ? same ? STAND_LANES : STAND_ASIS : beside_turned(o, n, x);
		if (s == STAND_ASIS)
			return against(o, n, "broadcasts something else along the rows");
		if (!want(o, n, x, s))
			return false;
	}
	return true;
}

/* A result of a loop, from the value that the loop gives. */
static bool want_given(Orient *o, NodeId n) {
	NodeId call = node_input(o->m, n, 0);
	const Graph *g = graph_get(o->m, node_arg(o->m, call, 0)->graph);
	uint32_t arg = graph_carried_arg(g, (uint32_t)node_arg(o->m, n, 1)->integer);
	return arg != NONE ? turn(o, g->placeholders.at[arg], (Stand)o->stand[n])
	                   : against(o, n, "leaves the loop without being carried");
}

/* A carried value: what it starts from, what replaces it, and what the loop gives in the end. */
static bool want_carried(Orient *o, NodeId n) {
	const Graph *g = graph_get(o->m, node_get(o->m, n)->graph);
	const Arg *given = placeholder_given(o, n);
	uint32_t output = graph_carried_output(g, o->index[n]);
	Stand s = (Stand)o->stand[n];
	if (!given || given->kind != ARG_REF || g->lengths == o->index[n])
		return against(o, n, "comes from outside of a loop");
	if (!want(o, g->caller, given->node, s))
		return false;
	if (output == NONE)
		return true;
	const Arg *next = arg_item(o->m, graph_results(o->m, node_get(o->m, n)->graph), output);
	if (next->kind != ARG_REF || !can_turn(o, next->node) || !turn(o, next->node, s))
		return against(o, n, "is carried from what cannot be turned");
	for (ArgId u = node_uses(o->m, g->caller); u != NONE; u = arg_get(o->m, u)->next_use) {
		NodeId user = arg_get(o->m, u)->user;
		if (node_get(o->m, user)->op == OP_GETITEM && node_arg(o->m, user, 1)->integer == (int64_t)output &&
		    !turn(o, user, s))
			return false;
	}
	return true;
}

static bool backward(Orient *o, NodeId n) {
	const Node *node = node_get(o->m, n);
	if (is_lanewise(o, n))
		return want_operands(o, n);
	if (node->op == OP_PLACEHOLDER)
		return want_carried(o, n);
	if (node->op == OP_GETITEM)
		return want_given(o, n);
	NodeId x = node_input(o->m, n, 0);
	if (op_kind(o->m, n) == KIND_MATMUL) {
		uint32_t sum = matmul_arg(node->op, 2);
		NodeId added = sum == NONE ? NONE : node_input(o->m, n, sum);
		if (added == NONE)
			return o->stand[n] == STAND_TURNED || against(o, n, "is a matmul, and its result a statistic");
		const Type *a = old_type(o, added), *t = old_type(o, n);
		if (a->count != t->count || !leading_equal(o, a, t, t->count))
			return against(o, n, "adds what is broadcast");
		if (swaps_standing(o, left_factor(o, n)) && !want(o, n, left_factor(o, n), STAND_TURNED))
			return false;
		return want(o, n, added, STAND_TURNED);
	}
	if (op_kind(o->m, n) == KIND_REDUCTION)
		return reduces_rows(o, n) ? want(o, n, x, STAND_TURNED) : against(o, n, "reduces another dim");
	return want(o, n, x, is_leading_view(o, n) ? STAND_TURNED : STAND_LANES);
}

/* ---- one chain --------------------------------------------------------------------------------------------------- */

static bool follow(Orient *o) {
	while (o->followed < o->found.count) {
		NodeId n = o->found.at[o->followed++];
		if (!backward(o, n))
			return false;
		for (ArgId u = node_uses(o->m, n); u != NONE; u = arg_get(o->m, u)->next_use)
			if (!forward(o, n, u))
				return false;
	}
	return true;
}

static void forget(Orient *o) {
	for (uint32_t i = 0; i < o->found.count; i++)
		o->stand[o->found.at[i]] = STAND_ASIS;
}

static void remark(Orient *o, NodeId n, bool turned) {
	const char *name = node_get(o->m, n)->name;
	bool rows = o->reduces || o->meets_rows;
	if (turned)
		pass_remark(o->c, "orient", "'%s' is computed transposed, with %u values: %s", name, o->found.count - 1,
		            rows ? "rows are reduced along sublanes" : "as a sum of few columns it fills the MXU");
	else
		pass_remark(o->c, "orient", "'%s' is computed as it stands: '%s' %s", name,
		            o->at == NONE ? "it" : node_get(o->m, o->at)->name, o->why);
}

/* Of straight code 2 MiB of float32; of a loop rows and columns. */
enum { AHEAD_ELEMENTS = 512 * 1024 };
enum { AHEAD_ROWS = 512, AHEAD_COLUMNS = 1024 };

static bool batch_is_one(const Orient *o, NodeId n) {
	const Type *t = old_type(o, n);
	for (uint32_t i = 0; i + 2 < t->count; i++)
		if (expr_number(o->m, t->dims[i]) != 1)
			return false;
	return true;
}

/* The MXU works ahead of tiles of such a size: in straight code; in a loop, if a step has rows enough to hide the
 * latency of its column sums. */
static bool is_small_tile(const Orient *o, NodeId n) {
	int64_t rows = size_from_end(o, n, 2), columns = size_from_end(o, n, 1), elements = 0;
	if (module_loop_type(o->m) == LOOP_UNROLL)
		return checked_mul(rows, columns, &elements) && elements <= AHEAD_ELEMENTS && batch_is_one(o, n);
	return (Switch)o->m->config.loop_skew.value != SWITCH_OFF && rows >= AHEAD_ROWS && columns <= AHEAD_COLUMNS;
}

/* Of all matmuls that would turn. */
static bool works_ahead(const Orient *o) {
	bool small = o->m->target->turns_small_tiles;
	for (uint32_t i = 0; i < o->found.count && small; i++)
		small = op_kind(o->m, o->found.at[i]) != KIND_MATMUL || is_small_tile(o, o->found.at[i]);
	return small;
}

/* auto, as measured (docs/passes/orient.md): where the chip says so (turns_scores). Elsewhere where a matmul of
 * turned rows has too few columns to fill it, but rows enough, or is computed ahead; or where what is turned is only
 * wanted swapped: then nothing is turned back. */
static bool pays(Orient *o, NodeId n) {
	const Target *t = o->m->target;
	if (o->m->config.transposed_scores.value == SWITCH_ON)
		return true;
	if (!o->reduces && stands_for_sums(o, n))
		return against(o, n, "leaves the MXU to sums of its swap, which are turned");
	bool narrow = works_ahead(o), any_chained = false;
	for (uint32_t i = 0; i < o->found.count; i++) {
		NodeId product = o->found.at[i];
		NodeId rows = left_factor(o, product);
		bool chained = rows != NONE && stand_of(o, rows) == STAND_TURNED;
		any_chained = any_chained || chained;
		narrow = narrow || (chained && size_from_end(o, product, 1) < t->mxu_size);
	}
	return t->turns_scores || narrow || (o->unswaps && !any_chained) || against(o, n, "fills the MXU as it stands");
}

/* n is the only product that turns, and its tile stands as it is. */
static bool is_lone_sum(const Orient *o, NodeId n) {
	if (!sums_swapped(o, n) || !swaps_standing(o, left_factor(o, n)))
		return false;
	for (uint32_t i = 0; i < o->found.count; i++)
		if (o->found.at[i] != n && op_kind(o->m, o->found.at[i]) == KIND_MATMUL)
			return false;
	return true;
}

/* auto: where that spares the matrix unit rows. */
static bool sum_pays(Orient *o, NodeId n) {
	if (!is_lone_sum(o, n))
		return against(o, n, "is not reduced by rows in the loop, nor meets loaded vectors of rows");
	if (!turns_sums(o))
		return against(o, n, "is a sum, and pallas_transposed_sums is off");
	return o->m->config.transposed_sums.value == SWITCH_ON || spares_rows(o, n) ||
	       against(o, n, "is a sum that fills the MXU as it stands");
}

/* The chain of matmul n turns as a whole or not at all. */
static bool try_matmul(Orient *o, NodeId n) {
	bool scores = o->m->config.transposed_scores.value != SWITCH_OFF;
	o->found.count = o->followed = 0;
	o->reduces = o->meets_rows = o->unswaps = false;
	o->why = NULL;
	o->at = NONE;
	bool good = turn(o, n, STAND_TURNED) && follow(o);
	bool by_rows = o->reduces || o->meets_rows;
	if (good && by_rows && !scores)
		good = against(o, n, "meets rows, and pallas_transposed_scores is off");
	good = good && (by_rows ? pays(o, n) : sum_pays(o, n));
	if (!good)
		forget(o);
	remark(o, n, good);
	return good;
}

static bool is_seed(const Orient *o, NodeId n) {
	return op_kind(o->m, n) == KIND_MATMUL && matmul_is_plain(o->m, n) && o->stand[n] == STAND_ASIS &&
	       is_old_tile(o, n) && old_type(o, n)->count >= 2;
}

static void number_placeholders(Orient *o) {
	for (GraphId g = 0; g < o->m->graphs.count; g++)
		for (uint32_t i = 0; i < graph_get(o->m, g)->placeholders.count; i++)
			o->index[graph_get(o->m, g)->placeholders.at[i]] = i;
}

static NodeId *no_nodes(const Orient *o) {
	NodeId *list = arena_array(o->arena, (size_t)o->nodes + 1, sizeof *list);
	for (uint32_t i = 0; i < o->nodes; i++)
		list[i] = NONE;
	return list;
}

bool pass_orient(PassContext *c) {
	Module *m = c->module;
	Orient o = {.c = c, .m = m, .arena = c->arena, .nodes = m->nodes.count};
	if (m->config.transposed_scores.value == SWITCH_OFF && m->config.transposed_sums.value == SWITCH_OFF) {
		pass_remark(c, "orient", "pallas_transposed_scores and pallas_transposed_sums are off");
		return true;
	}
	o.old = arena_array(o.arena, (size_t)o.nodes + 1, sizeof *o.old);
	o.stand = arena_array(o.arena, (size_t)o.nodes + 1, sizeof *o.stand);
	o.index = arena_array(o.arena, (size_t)o.nodes + 1, sizeof *o.index);
	o.used = arena_array(o.arena, (size_t)o.nodes + 1, sizeof *o.used);
	for (NodeId n = 0; n < o.nodes; n++) {
		o.old[n] = node_get(m, n)->type;
		o.used[n] = node_uses(m, n) != NONE;
	}
	o.now = no_nodes(&o);
	o.asis = no_nodes(&o);
	o.turned = no_nodes(&o);
	o.lanes = no_nodes(&o);
	o.across = no_nodes(&o);
	number_placeholders(&o);
	bool any = false;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g); in_loop(&o, g) && n != NONE; n = node_get(m, n)->next)
			if (is_seed(&o, n))
				any = try_matmul(&o, n) || any;
	if (any)
		orient_rewrite(&o);
	return true;
}
