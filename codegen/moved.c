/* moved.c - what is spilled to move rows and lanes.
 *
 * A register holds 8 rows of 128 lanes of the last two dims. What the compiler moves between lanes, or between rows and
 * the dims before them, goes through registers whole. Each number was measured alone (libtpu 0.0.51):
 *
 * - Dims before the last two that are transposed with them. For [b, m, n] to [n, b, m], planes of 32-bit [m, n] go
 *   together, as many as a register has rows, and the registers hold 64 of their own; of fewer bits a quarter more. To
 *   [n, m, b] all of it goes, and a fifth or (of fewer bits) three tenths more. To [m, b, n] and [m, n, b] nothing
 *   waits.
 * - v4 (TargetSpills.rows) moves rows one by one: any of these takes 2.2 times the tile, [m, b, n] 3 times of fewer
 *   than 32 bits, and 3.6 and 5 times where something is computed of it. A row that becomes a tile of its own, as by
 *   x[:, None, :] or a store to out[:, 0, :], takes a register for each 128 lanes, half more of fewer bits. */
#include "region.h"

enum { REGISTERS = 64 * 4096 };

/* ---- lanes ------------------------------------------------------------------------------------------------------ */

/* The parts of a concatenation along lanes start at whole tiles of them. */
static bool parts_aligned(const Planner *p, NodeId n) {
	const Arg *parts = node_arg(p->m, n, 0);
	int64_t lanes = 0;
	for (uint32_t i = 0; i + 1 < parts->list.count; i++)
		lanes += last_size(p->plan, arg_item(p->m, parts, i)->node);
	return lanes % p->m->target->lanes == 0;
}

/* Times the tile that a move of lanes keeps beside itself: one distance after the other, the tile is moved both ways
 * and chosen from. What was measured: 7 times the tile for every other lane, twice for a flip, 2.4 times for halves of
 * a tile of lanes side by side, 0.8 times for a stack along lanes. */
static int64_t move_times(const Planner *p, NodeId n) {
	const Node *node = node_get(p->m, n);
	uint32_t rank = value_rank(p, n), dims = moved_dims(p->m, n);
	if (p->plan->values[n].folded)
		return 16; /* its parts are half as wide */
	if (node->op == OP_SLICE)
		return slice_of(p->m, n).step > 1 ? 8 : 0;
	if (node->op == OP_CAT)
		return rank > 0 && (dims >> (rank - 1) & 1) && !parts_aligned(p, n) ? 3 : 0;
	if (!stacks_last(p->m, n))
		return node->op == OP_FLIP ? 2 : 0;
	/* Each column that joins the others is turned to its lane: of 2, 3 and 4, up to 1, 2.8 and 3.8 times. */
	int64_t parts = node_arg(p->m, n, 0)->list.count;
	return p->plan->values[n].wants == FORM_COLUMN ? int_max(2 * parts - 3, 1) : 1;
}

/* ---- transposed dims -------------------------------------------------------------------------------------------- */

/* The dims of the operand that the last two come from; false: of a transposition that leaves those before alone. */
static bool last_from(const Planner *p, NodeId n, int64_t from[2]) {
	int64_t rank = value_rank(p, n);
	if (node_get(p->m, n)->op != OP_PERMUTE || rank < 3)
		return false;
	bool before = false;
	for (int i = 0; i < 2; i++) {
		int64_t d = arg_item(p->m, node_arg(p->m, n, 1), (uint32_t)(rank - 2 + i))->integer;
		from[i] = d < 0 ? d + rank : d;
		before = before || from[i] < rank - 2;
	}
	return before;
}

static bool only_stored(const Planner *p, NodeId n) {
	for (ArgId u = node_uses(p->m, n); u != NONE; u = arg_get(p->m, u)->next_use)
		if (op_lowering(node_get(p->m, arg_get(p->m, u)->user)->op) != LOWER_STORE)
			return false;
	return true;
}

/* On a chip that moves rows one by one, in tenths of the tile. */
static int64_t tenths_by_rows(const Planner *p, NodeId n, bool last_stays) {
	if (!last_stays)
		return 22;
	bool narrow = is_narrow(p->m, n);
	return only_stored(p, n) ? (narrow ? 30 : 22) : narrow ? 50 : 36;
}

/* What goes together of planes of the operand's last two dims, along dim d, but for what the registers hold. */
static int64_t planes_size(const Planner *p, NodeId x, int64_t d) {
	const Target *t = p->m->target;
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank = plan_shape(p->plan, x, p->plan->values[x].form, shape);
	int64_t packed = 32 / int_min(dtype_vmem_bits(node_type(p->m, x)->dtype), 32);
	int64_t planes = int_min(shape[d], t->sublanes * packed);
	int64_t plane = register_bytes(t, node_type(p->m, x)->dtype, 2, shape + rank - 2);
	int64_t bytes = int_min(planes * int_min(plane, TOO_MUCH / 64), TOO_MUCH);
	return int_max((packed > 1 ? bytes * 5 / 4 : bytes) - REGISTERS, 0);
}

static int64_t transposed_size(const Planner *p, NodeId n) {
	const Target *t = p->m->target;
	int64_t from[2], rank = value_rank(p, n);
	if (!last_from(p, n, from))
		return 0;
	int64_t tile = int_min(spilled_size(p->plan, n), TOO_MUCH / 16);
	NodeId x = value_root(p->plan, node_input(p->m, n, 0));
	if (t->spills.rows)
		return tile * tenths_by_rows(p, n, from[1] == rank - 1) / 10 * t->spills.rows / 100;
	if (from[1] >= rank - 2)
		return from[1] == rank - 2 ? planes_size(p, x, from[0]) : 0;
	return from[0] == rank - 2 ? tile * (is_narrow(p->m, n) ? 13 : 12) / 10 : 0;
}

/* ---- rows that become tiles ------------------------------------------------------------------------------------- */

/* Bytes in registers of rows that are tiles of their own. */
static int64_t separate_rows(const Planner *p, NodeId x, int64_t rows, int64_t last) {
	const Target *t = p->m->target;
	if (rows < t->sublanes || rows > TOO_MUCH / 4096)
		return 0;
	int64_t bytes = int_min(rows * int_cdiv(last, t->lanes) * t->lanes * t->sublanes * 4, TOO_MUCH);
	return is_narrow(p->m, x) ? bytes / 2 * 3 : bytes;
}

/* The rank; 0 of a column that has no last dim in the graph: it is turned into a row where it is stored. */
static uint32_t natural_shape(const Planner *p, NodeId n, int64_t *shape) {
	return p->plan->values[n].form == FORM_NATURAL ? plan_shape(p->plan, n, FORM_NATURAL, shape) : 0;
}

static int64_t separated_view(const Planner *p, NodeId n) {
	int64_t from[DIM_MAX] = {0}, to[DIM_MAX] = {0}, rows = 1;
	NodeId x = value_root(p->plan, node_input(p->m, n, 0));
	uint32_t from_rank = natural_shape(p, x, from), rank = natural_shape(p, n, to);
	if (p->plan->values[n].same_as != NONE || from_rank < 2 || rank < 3 || from[from_rank - 2] == 1 ||
	    to[rank - 2] != 1 || from[from_rank - 1] != to[rank - 1])
		return 0;
	for (uint32_t i = 0; i + 1 < rank; i++)
		rows = int_min(rows * int_max(to[i], 1), TOO_MUCH);
	return separate_rows(p, n, rows, to[rank - 1]);
}

/* Of packed elements they are in streams.c. */
static int64_t separated_store(const Planner *p, NodeId n) {
	const Access *a = p->plan->values[n].access;
	NodeId x = node_input(p->m, n, 2);
	int64_t shape[DIM_MAX] = {0}, rows = 1;
	if (x == NONE || !node_is_tile(p->m, x)) /* a number is written where it is wanted */
		return 0;
	x = value_root(p->plan, x);
	uint32_t rank = natural_shape(p, x, shape);
	if (!a || a->rank < 3 || a->dim[a->rank - 2].kind != SLICE_AT || rank < 2 || shape[rank - 2] == 1 ||
	    is_narrow(p->m, x))
		return 0;
	const Operand *o = &p->plan->operands.at[a->operand];
	for (uint32_t i = 0; i + 1 < a->rank && i < o->rank; i++) {
		const SliceDim *d = &a->dim[i];
		int64_t size = d->kind == SLICE_AT ? 1 : d->kind == SLICE_ALL ? o->block[i] : d->size;
		rows = int_min(rows * int_max(size, 1), TOO_MUCH);
	}
	return separate_rows(p, x, rows, shape[rank - 1]);
}

/* A view, or a store to one position of the dim before the last, which separates rows. */
static int64_t separated_size(const Planner *p, NodeId n) {
	Lowering how = op_lowering(node_get(p->m, n)->op);
	if (how == LOWER_STORE)
		return separated_store(p, n);
	return how == LOWER_VIEW && node_get(p->m, n)->op != OP_PERMUTE ? separated_view(p, n) : 0;
}

/* The largest of all moves. */
int64_t moves_spills(const Planner *p) {
	int64_t most = 0, rows = p->m->target->spills.rows;
	for (NodeId n = 0; n < p->m->nodes.count; n++) {
		const Node *node = node_get(p->m, n);
		if (node->dead)
			continue;
		most = int_max(most, transposed_size(p, n));
		most = int_max(most, rows ? separated_size(p, n) * rows / 100 : 0);
		if (op_lowering(node->op) != LOWER_MOVE)
			continue;
		/* A folded stack has no shape of its own. */
		NodeId x = p->plan->values[n].folded ? arg_item(p->m, node_arg(p->m, n, 0), 0)->node
		           : node->op == OP_SLICE    ? node_input(p->m, n, 0)
		                                     : n;
		most = int_max(most, int_min(spilled_size(p->plan, x), TOO_MUCH / 16) * move_times(p, n));
	}
	return most;
}
