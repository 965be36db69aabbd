/* columns.c - what waits for columns that are loaded.
 *
 * A column [m, 1] that meets a tile [m, n] is spread along the lanes first, which takes the unit that permutes lanes
 * about as long as a reduction. Straight code is scheduled by what is ready: of
 *
 *     out = (x * y + z) * column
 *
 * x * y + z is computed and spilled before the first rows of the column come out. Measured for tiles of [32, 1024] to
 * [1024, 1024], float32 and bfloat16, all chips (tests/unit/test_vmem_measured.c, tests/test_vmem_measured.py):
 *
 * - On v6e and v7x a computed tile, or one that is widened, waits for its column, but for 50 registers of it, and no
 *   more than 1 MiB: so much is under way. What is only loaded does not wait. On the others nothing does.
 * - What has met one column waits for the next whole, on all chips; where elements of 32 bits are loaded, on v5e and
 *   v5p a sixth of it, three quarters for a third column. */
#include "region.h"

enum { UNDER_WAY = 1024 * 1024, AT_WORK = 50 * 4096, SPARE = 20 * 4096, REGISTERS = 64 * 4096 };

typedef struct Columns {
	const Planner *p;
	bool *column;   /* by node: a column that is loaded, or computed of such */
	bool *narrow;   /* by node: depends on a load of packed elements */
	bool *computed; /* by node: a tile that is more than loaded */
	uint8_t *met;   /* by node: columns that the tile has met, one after the other; at most 2 */
	uint32_t *seen; /* by node: the last store that it was seen from */
	int64_t bytes;  /* of the largest tile that waits */
	int64_t turned; /* the most that is there whole where something is turned */
} Columns;

static uint32_t shape_of(const Columns *c, NodeId n, int64_t *shape) {
	return plan_shape(c->p->plan, n, c->p->plan->values[n].form, shape);
}

static bool is_column(const Columns *c, NodeId n) {
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank = shape_of(c, n, shape);
	return rank >= 2 && shape[rank - 1] == 1 && shape[rank - 2] > 1;
}

static bool is_tile(const Columns *c, NodeId n) {
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank = shape_of(c, n, shape);
	return rank >= 2 && shape[rank - 1] > 1 && shape[rank - 2] > 1;
}

/* Bytes of a tile that waits, in 32-bit elements. */
static int64_t waiting(const Columns *c, NodeId n, uint32_t met) {
	const Target *t = c->p->m->target;
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank = shape_of(c, n, shape);
	int64_t bytes = int_min(register_bytes(t, DTYPE_F32, rank, shape), TOO_MUCH);
	if (met == 0)
		return t->bf16_vpu ? int_min(bytes - AT_WORK, UNDER_WAY) : 0;
	if (t->spills.late > 0 || c->narrow[n])
		return bytes - SPARE;
	return (met == 1 ? bytes / 6 : bytes / 4 * 3) - SPARE;
}

/* ---- what is turned --------------------------------------------------------------------------------------------- */

static int64_t column_bytes(const Columns *c, NodeId n, Form form) {
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank = plan_shape(c->p->plan, n, form, shape);
	return int_min(register_bytes(c->p->m->target, DTYPE_F32, rank, shape), TOO_MUCH);
}

/* Packed where it is reduced so. */
static int64_t reduced_bytes(const Columns *c, NodeId n) {
	const Value *v = &c->p->plan->values[n];
	bool packed = c->p->m->target->bf16_vpu && is_narrow(c->p->m, n) && v->compute != DTYPE_F32;
	return column_bytes(c, n, v->form) / (packed ? 2 : 1);
}

/* One of a loop's results. */
static bool reads_tuple(const Planner *p, NodeId n) {
	const Arg *a = node_get(p->m, n)->arg_count ? node_arg(p->m, n, 0) : NULL;
	return a && a->kind == ARG_REF && node_type(p->m, a->node)->kind != TYPE_TENSOR;
}

/* What a value, stored as a row, is computed of that comes out of the unit for lanes, or of a loop; each counts once.
 */
static int64_t sources(Columns *c, NodeId user, NodeId operand, uint32_t store) {
	const Planner *p = c->p;
	NodeId n = value_root(p->plan, operand);
	if (c->seen[n] == store || node_type(p->m, n)->kind != TYPE_TENSOR)
		return 0;
	c->seen[n] = store;
	if (turns_to_column(p, user, n))
		return column_bytes(c, n, FORM_COLUMN);
	if (reduces_lanes(p, n))
		return reduced_bytes(c, n);
	Lowering how = op_lowering(node_get(p->m, n)->op);
	if (!lowering_streams(how) || reads_tuple(p, n))
		return is_column(c, n) && how != LOWER_FULL && how != LOWER_INDEX
		               ? column_bytes(c, n, p->plan->values[n].form)
		               : 0;
	int64_t bytes = 0;
	for (uint32_t i = 0; i < node_get(p->m, n)->arg_count; i++)
		if (node_arg(p->m, n, i)->kind == ARG_REF)
			bytes += sources(c, n, node_arg(p->m, n, i)->node, store);
	return int_min(bytes, TOO_MUCH);
}

static void visit_store(Columns *c, NodeId n) {
	NodeId x = node_input(c->p->m, n, 2);
	if (x != NONE && c->p->plan->values[x].form == FORM_COLUMN)
		c->turned = int_max(c->turned, sources(c, n, x, n + 1));
}

/* A column that was a row, and what it meets. A column that is computed and meets a tile is there whole as well:
 * rsqrt(x) [2, 4096, 1], 4 MiB on v5p and v6e. */
static void visit_join(Columns *c, NodeId user) {
	const Planner *p = c->p;
	int64_t column = 0, others = 0, computed = 0;
	for (uint32_t i = 0; i < node_get(p->m, user)->arg_count; i++) {
		const Arg *a = node_arg(p->m, user, i);
		NodeId n = a->kind == ARG_REF ? value_root(p->plan, a->node) : NONE;
		if (n == NONE || node_type(p->m, n)->kind != TYPE_TENSOR)
			continue;
		if (turns_to_column(p, user, n))
			column += column_bytes(c, n, FORM_COLUMN);
		else if (reduces_lanes(p, n))
			others += reduced_bytes(c, n);
		else if (is_column(c, n) && is_tile(c, user) && lowering_streams(op_lowering(node_get(p->m, n)->op)))
			computed += column_bytes(c, n, p->plan->values[n].form);
		else if (c->computed[n])
			others += column_bytes(c, n, p->plan->values[n].form);
	}
	c->turned = int_max(c->turned, int_min(column ? column + others : computed, TOO_MUCH));
}

/* ---- the nodes -------------------------------------------------------------------------------------------------- */

static void visit_load(Columns *c, NodeId n) {
	c->column[n] = is_column(c, n);
	c->narrow[n] = is_narrow(c->p->m, n);
	c->computed[n] = c->p->plan->values[n].mask_count > 0;
}

/* The tile among the operands that has met most columns; NONE. `column`: one of them is a loaded column. */
static NodeId operands(Columns *c, NodeId user, bool *column) {
	NodeId tile = NONE;
	for (uint32_t i = 0; i < node_get(c->p->m, user)->arg_count; i++) {
		const Arg *a = node_arg(c->p->m, user, i);
		NodeId n = a->kind == ARG_REF ? value_root(c->p->plan, a->node) : NONE;
		if (n == NONE || node_type(c->p->m, n)->kind != TYPE_TENSOR)
			continue;
		c->narrow[user] = c->narrow[user] || c->narrow[n];
		*column = *column || c->column[n];
		c->computed[user] = c->computed[user] || c->computed[n];
		if (is_tile(c, n) && (tile == NONE || c->met[n] > c->met[tile]))
			tile = n;
	}
	return tile;
}

static void visit_op(Columns *c, NodeId n) {
	const Module *m = c->p->m;
	bool column = false;
	NodeId tile = operands(c, n, &column);
	c->column[n] = column && is_column(c, n);
	if (tile == NONE || !is_tile(c, n))
		return;
	if (column && (c->computed[n] || c->met[tile]))
		c->bytes = int_max(c->bytes, waiting(c, n, c->met[tile]));
	c->met[n] = (uint8_t)int_min(c->met[tile] + column, 2);
	bool widens = node_get(m, n)->op == OP_CONVERT && is_narrow(m, tile) && !is_narrow(m, n);
	c->computed[n] = c->computed[n] || widens || !rounds_or_views(m, n);
}

/* v4 starts an eighth of what the other steps of an unrolled loop turn. */
static void visit_graph(Columns *c, GraphId g);
static void visit_loop(Columns *c, GraphId g) {
	const Loop *loop = &c->p->plan->loops.at[c->p->plan->loop_of[g]];
	int64_t before = c->turned;
	c->turned = 0;
	visit_graph(c, g);
	if (loop->type == LOOP_UNROLL && c->p->m->target->spills.rows)
		c->turned += c->turned / 8;
	c->turned = int_max(before, c->turned);
}

static void visit_graph(Columns *c, GraphId g) {
	const Module *m = c->p->m;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		Lowering how = op_lowering(node_get(m, n)->op);
		if (c->p->plan->values[n].same_as != NONE)
			continue;
		if (how == LOWER_LOOP)
			visit_loop(c, node_arg(m, n, 0)->graph);
		else if (how == LOWER_LOAD)
			visit_load(c, n);
		else if (how == LOWER_STORE)
			visit_store(c, n);
		if (!lowering_streams(how))
			continue;
		visit_op(c, n);
		visit_join(c, n);
	}
}

int64_t columns_spills(const Planner *p) {
	size_t count = p->m->nodes.count;
	Columns c = {.p = p};
	c.column = arena_array(p->a, count, sizeof *c.column);
	c.narrow = arena_array(p->a, count, sizeof *c.narrow);
	c.computed = arena_array(p->a, count, sizeof *c.computed);
	c.met = arena_array(p->a, count, sizeof *c.met);
	c.seen = arena_array(p->a, count, sizeof *c.seen);
	visit_graph(&c, p->plan->root);
	return int_max(c.bytes, c.turned - (p->m->target->spills.rows ? SPARE : REGISTERS));
}
