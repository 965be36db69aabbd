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
 * v5p a sixth of it, three quarters for a third column.
 */
#include "region.h"

enum { UNDER_WAY = 1024 * 1024, AT_WORK = 50 * 4096, SPARE = 20 * 4096 };

typedef struct Columns {
	const Planner *p;
	bool *column;   /* by node: a column that is loaded, or computed of such */
	bool *narrow;   /* by node: depends on a load of packed elements */
	bool *computed; /* by node: a tile that is more than loaded */
	uint8_t *met;   /* by node: columns that the tile has met, one after the other; at most 2 */
	int64_t bytes;  /* of the largest tile that waits */
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

static void visit_graph(Columns *c, GraphId g) {
	const Module *m = c->p->m;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		Lowering how = op_lowering(node_get(m, n)->op);
		if (c->p->plan->values[n].same_as != NONE)
			continue;
		if (how == LOWER_LOOP)
			visit_graph(c, node_arg(m, n, 0)->graph);
		else if (how == LOWER_LOAD)
			visit_load(c, n);
		else if (lowering_streams(how))
			visit_op(c, n);
	}
}

int64_t columns_spills(const Planner *p) {
	size_t count = p->m->nodes.count;
	Columns c = {.p = p};
	c.column = arena_array(p->a, count, sizeof *c.column);
	c.narrow = arena_array(p->a, count, sizeof *c.narrow);
	c.computed = arena_array(p->a, count, sizeof *c.computed);
	c.met = arena_array(p->a, count, sizeof *c.met);
	visit_graph(&c, p->plan->root);
	return c.bytes;
}
