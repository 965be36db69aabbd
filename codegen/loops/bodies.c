/* bodies.c - a loop of computed bounds of which masks by position leave little: straight code for each number of steps
 * that there is, in which rewrite_blocks.c leaves out what they leave nothing of.
 *
 *   for tile_n in hl.tile(max(tile_m.begin - 1024, 0), tile_m.end):      at most 3 steps of 1024: 3 but at the first
 *     s = where(near, q @ k.T, -inf)                                     tile of 2048 rows, 2 there
 *
 *   if steps == 3: for each 256 rows their 1280 columns, parts of two or three steps
 *   if steps == 2: ...
 *
 * A sliding window has few steps at each tile of rows, of which the first and the last are masked: a loop of them is
 * hardly entered when it ends. In one piece the scores of the next rows stand beside the exponents of these.
 * Measured: docs/passes/loop_skew.md. */
#include "loops.h"
#include "mask_blocks.h"
#include "codegen/lower/lower.h"

/* Of rows and columns, that masks leave in all bodies: libtpu takes 10 to 13 s for so many. */
enum { BODY_BLOCKS = 160 };
static const double LIVE = 0.8;

/* The blocks whose positions a condition compares: of the loop, and another one. */
typedef struct Tile {
	BlockId rows, columns;
	bool both; /* it compares positions of the loop's, ... */
	bool more; /* ... and something else */
} Tile;

static void find_tile(const Module *m, NodeId n, Tile *t) {
	const Node *node = node_get(m, n);
	uint16_t op = op_canonical(node->op);
	if (node_type(m, n)->kind == TYPE_SYM)
		return;
	if (op == OP_TILE_INDEX) {
		BlockId b = query_block(m, n);
		t->both = t->both || b == t->columns;
		t->more = t->more || (b != t->columns && t->rows != NONE && t->rows != b);
		t->rows = b == t->columns ? t->rows : b;
		return;
	}
	bool sum = op == OP_ADD || op == OP_SUB || op == OP_LOGICAL_AND || op == OP_BITWISE_AND || op == OP_GE ||
	           op == OP_GT || op == OP_LE || op == OP_LT;
	if (!sum && op_lowering(node->op) != LOWER_VIEW) {
		t->more = true;
		return;
	}
	for (uint32_t i = 0; i < node->arg_count; i++)
		if (node_arg(m, n, i)->kind == ARG_REF)
			find_tile(m, node_arg(m, n, i)->node, t);
}

/* The one choice by position of the loop's step; NONE. */
static NodeId only_choice(Planner *p, const Loop *loop, Tile *tile) {
	NodeId found = NONE;
	for (NodeId n = graph_first(p->m, loop->graph); n != NONE; n = node_get(p->m, n)->next) {
		const Arg *condition = op_canonical(node_get(p->m, n)->op) == OP_WHERE ? node_arg(p->m, n, 0) : NULL;
		Tile t = {.rows = NONE, .columns = loop->dim[0].block};
		if (!condition || condition->kind != ARG_REF || node_type(p->m, n)->count < 2)
			continue;
		find_tile(p->m, condition->node, &t);
		if (t.more || !t.both || t.rows == NONE)
			continue;
		if (found != NONE || node_arg(p->m, n, 1)->kind != ARG_REF || p->plan->values[n].mask_count)
			return NONE;
		found = n;
		*tile = t;
	}
	return found;
}

/* Blocks of step j at the point that is pinned of which the choice leaves something, by block of rows. */
static void add_blocks_left(Planner *p, uint32_t l, NodeId condition, const Tile *tile, int64_t j, int64_t *left) {
	int64_t rows = block_size(p, tile->rows), columns = p->plan->loops.at[l].dim[0].step;
	p->pin[1] = (Pin){VAR_STEP, l * RANK_MAX, j};
	p->pins = p->parts = 2;
	for (int64_t r = 0; r < rows; r += mask_block(rows))
		for (int64_t c = 0; c < columns; c += mask_block(columns)) {
			p->part[0] = (TilePart){tile->rows, r, mask_block(rows)};
			p->part[1] = (TilePart){tile->columns, c, mask_block(columns)};
			left[r / mask_block(rows)] += !condition_fails(p, condition);
		}
	p->pins = 1;
	p->parts = 0;
}

/* How much code a block of the choice is: of several tiles side by side, as heads are, it overlaps no better for being
 * more, and of float32, whose factors are multiplied in parts, libtpu takes twice as long. */
static int64_t code_of_block(const Planner *p, const Loop *loop, NodeId choice, int64_t tile) {
	int64_t shape[DIM_MAX], elements = 1;
	uint32_t rank = plan_shape(p->plan, choice, FORM_NATURAL, shape);
	bool parts = false;
	for (uint32_t d = 0; d < rank; d++)
		elements *= shape[d];
	for (NodeId n = graph_first(p->m, loop->graph); n != NONE; n = node_get(p->m, n)->next)
		parts = parts || (op_lowering(node_get(p->m, n)->op) == LOWER_MATMUL &&
		                  node_type(p->m, matmul_operand(p->m, n, 1))->dtype == DTYPE_F32);
	int64_t tiles = int_cdiv(elements, tile);
	return tiles * tiles * (1 + parts);
}

/* Blocks left of so many steps, by block of rows, at the first point that has that many: others are no different, for
 * steps are counted from the last. */
static int64_t *body_blocks(Planner *p, uint32_t l, const StepCounts *counts, const Bodies *bodies, const Tile *tile,
                            int64_t wanted) {
	NodeId condition = node_arg(p->m, bodies->choice, 0)->node;
	int64_t rows = block_size(p, tile->rows), steps = 0;
	int64_t *left = arena_array(p->a, (size_t)(rows / mask_block(rows)) + 1, sizeof *left);
	for (int64_t i = 0; i < counts->points && steps != wanted; i++) {
		p->pin[0] = (Pin){VAR_PROGRAM, counts->dim, i};
		p->pins = 1;
		if (!dim_steps_here(p, &p->plan->loops.at[l].dim[0], &steps) || steps != wanted)
			continue;
		for (int64_t j = 0; j < steps; j++)
			add_blocks_left(p, l, condition, tile, j, left);
	}
	p->pins = 0;
	return left;
}

static bool lowers_plainly(Lowering how) {
	return lowering_streams(how) || how == LOWER_FREE || how == LOWER_RESULT || how == LOWER_FULL ||
	       how == LOWER_REDUCE || how == LOWER_LOAD || how == LOWER_STORE;
}

/* What stands behind the loop computes and stores, and is done where each body ends. */
static bool ends_plain(const Planner *p, const Loop *loop) {
	bool plain = node_get(p->m, loop->call)->graph == p->plan->root && !p->m->debug_prints;
	for (uint32_t i = 0; i < p->plan->operands.count && plain; i++)
		plain = !p->plan->operands.at[i].held && !p->plan->operands.at[i].ahead;
	for (NodeId n = node_get(p->m, loop->call)->next; n != NONE && plain; n = node_get(p->m, n)->next)
		plain = lowers_plainly(op_lowering(node_get(p->m, n)->op));
	return plain;
}

/* What keeps any loop from it. */
static const char *switched_off(const Planner *p, const Loop *loop) {
	const Config *c = &p->m->config;
	if ((Switch)c->straight_loops.value == SWITCH_OFF)
		return "pallas_straight_loops is off";
	if ((Switch)c->mask_blocks.value == SWITCH_OFF)
		return "pallas_mask_blocks is off";
	if ((Switch)c->loop_skew.value == SWITCH_OFF || !p->m->target->skews_loops || !way_is(p, ROW_SKEW, SKEW_AHEAD))
		return "its steps are not skewed";
	if ((Switch)c->step_pairs.value == SWITCH_ON || p->m->fenced)
		return "its steps are asked for in pairs";
	if (p->plan->loops.count != 1 || loop->parent != NONE || p->plan->remote || !ends_plain(p, loop))
		return "more than what it computes stands behind it, or beside it";
	return p->way.loops_stay ? "its steps cannot be cut" : NULL;
}

/* Why the loop stays one; NULL: each number of its steps has a body, which is `out`. */
static const char *stays_loop(Planner *p, uint32_t l, const StepCounts *counts, Bodies *out) {
	const Loop *loop = &p->plan->loops.at[l];
	const char *off = switched_off(p, loop);
	Tile tile = {0};
	if (off)
		return off;
	if (counts->kinds > STEP_KINDS || counts->most > MASK_STEPS)
		return arena_printf(p->a, "it has %lld to %lld steps, of many numbers", (long long)counts->least,
		                    (long long)counts->most);
	*out = (Bodies){.choice = only_choice(p, loop, &tile), .rows = tile.rows};
	if (out->choice == NONE)
		return "no one choice by position masks its steps";
	int64_t rows = block_size(p, tile.rows), columns = loop->dim[0].step, all = 0, code = 0;
	int64_t blocks = rows / mask_block(rows) * (columns / mask_block(columns));
	for (uint32_t i = 0; i < counts->kinds; i++) {
		const int64_t *left = body_blocks(p, l, counts, out, &tile, counts->kind[i]);
		for (int64_t r = 0; r < rows / mask_block(rows); r++) {
			all += left[r] * counts->points_of[i];
			code += left[r] * code_of_block(p, loop, out->choice, rows * columns);
			out->columns = int_max(out->columns, left[r] * mask_block(columns));
		}
	}
	out->live = (double)all / (double)(counts->sum * blocks);
	return rows <= MASK_BLOCK ? "it has no more rows than a block"
	       : code > BODY_BLOCKS
	               ? arena_printf(p->a, "masks leave %lld blocks of %d rows and columns: that is much code",
	                              (long long)code, MASK_BLOCK)
	       : out->live > LIVE ? "masks leave most of its steps"
	                          : NULL;
}

void plan_bodies(Planner *p) {
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		Loop *loop = &p->plan->loops.at[l];
		Bodies *bodies = arena_alloc(p->a, sizeof *bodies);
		StepCounts counts;
		if (loop->type != LOOP_FORI || loop->dma || !loop_counts(p, loop, &counts))
			continue;
		const char *stays = stays_loop(p, l, &counts, bodies);
		loop->bodies = stays ? NULL : bodies;
		loop->bodies_why = stays ? stays : arena_printf(p->a, "masks leave %.0f%% of them", 100 * bodies->live);
	}
}

/* Which dim of a value is of the rows; NONE. */
static uint32_t rows_dim(const Module *m, const Loop *loop, NodeId n) {
	const Type *t = node_type(m, n);
	for (uint32_t d = 0; d < t->count; d++)
		if (expr_as_block(m, t->dims[d]) == loop->bodies->rows)
			return d;
	return NONE;
}

uint32_t bodies_scratch(Planner *p, const Loop *loop, NodeId n) {
	uint32_t at = carry_scratch(p, n, "each step is handed what is its own"), rows = rows_dim(p->m, loop, n);
	Scratch *s = &p->plan->scratches.at[at];
	memmove(&s->shape[1], s->shape, s->rank++ * sizeof *s->shape);
	s->shape[0] = loop->dim[0].counts.most;
	if (rows != NONE) {
		s->whole_dim = rows + 1;
		s->whole = s->shape[s->whole_dim];
		s->shape[s->whole_dim] = int_min(s->whole, (int64_t)2 * MASK_BLOCK);
	}
	s->bytes = scratch_vmem_bytes(p->m->target, s->dtype, s->rank, s->shape);
	return at;
}

bool plan_bodies_stand(const Plan *plan) {
	bool stand = true;
	for (uint32_t l = 0; l < plan->loops.count; l++) {
		const Loop *loop = &plan->loops.at[l];
		stand = stand && (!loop->bodies || (loop->skewed && loop->cut));
		for (uint32_t i = 0; loop->bodies && i < loop->handed.count; i++)
			stand = stand && rows_dim(plan->module, loop, loop->handed.at[i].node) != NONE;
	}
	return stand;
}
