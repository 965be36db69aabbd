/* choose_sizes.c - pallas_wide_blocks: a grid step takes several blocks of a dim at once.
 *
 * Between the end of a copy from HBM and the start of the next one lie some hundreds of cycles, whatever is copied: a
 * grid of small steps waits for the latency of HBM, not for its bytes (docs/passes/wide_blocks.md). The same holds for
 * weights that a loop copies anew at each grid point: few rows at a point use each of them too little to keep the MXU
 * fed.
 *
 * What a kernel computes row by row is the same in tiles of more rows. So where nothing looks at a block's size and no
 * value mixes lanes of its dim (narrow.c), the kernel may be compiled with a multiple of it: each value is computed
 * from what it was, by the same ops. The configuration stays what the user gave; --explain and the plan say both.
 *
 * Which tiles stand to choose:
 *   - in a kernel without loops, blocks of steps that copy for less than SHORT_STEP, until they copy for LONG_STEP;
 *   - in a kernel with loops, the rows of a loop's matmul that are fewer than the MXU's, doubled;
 *   - on a chip that overlaps the steps of a loop, the rows of a loop's matmul of which it makes a factor of its only
 *     other one, doubled: at each end of an iteration the MXU runs empty, and the more rows the more seldom.
 * Of such matmuls (attention's) pallas_narrow_steps takes fewer columns in a step than the block has, where it can
 * tell that the loop comes to the same (src/shard/parts.c).
 * `on` enlarges them as far in both, whatever is estimated. What is refused as it was asked for stays refused. Blocks
 * that the configuration does not give are the defaults' (default_blocks.c), and stay. */
#include "choose.h"
#include "passes/rows/rows.h"
#include "passes/simplify/simplify.h"
#include "src/config/config.h"
#include "src/shard/shard.h"

/* Of HBM, in seconds: the latency of a copy is about 0.2e-6 (seconds.c, COPY_CYCLES with the grid's own steps). */
#define SHORT_STEP 0.5e-6
#define LONG_STEP 1e-6
/* Steps that `auto` leaves the grid: its first and last copies are hidden by nothing, and the cores share it. */
enum { LEAST_POINTS = 16 };
/* Elements of 32 bits that the vector unit computes in a cycle: four instructions on registers of 8 x 128. */
#define VECTOR_LANES 4096.0
/* A matmul of so few rows takes no longer than its right factor takes into the matrix unit; so many of them at once. */
enum { FEW_ROWS = 16, MOST_BATCH = 8 };
/* Overlapping steps with such tiles gain by more rows, as measured (docs/passes/wide_blocks.md). */
enum { CHAIN_ROWS = 2048, CHAIN_COLUMNS = 1024 };

/* ---- facts ------------------------------------------------------------------------------------------------------- */

static int64_t size_now(const Module *m, BlockId b) { return m->block_size.at[b]; }

/* Grid points, with block b in tiles of `size`; 0: not known. */
static int64_t points_with(Module *m, GraphId root, BlockId b, int64_t size) {
	const Graph *g = graph_get(m, root);
	int64_t points = 1;
	for (uint32_t i = 0; i < g->blocks.count; i++) {
		const Block *block = &m->blocks.at[g->blocks.at[i]];
		int64_t begin = 0, end = 0, one = g->blocks.at[i] == b ? size : size_now(m, g->blocks.at[i]);
		if (block->extent == NONE || !expr_value(m, block->extent, &end) ||
		    (block->begin != NONE && !expr_value(m, block->begin, &begin)) || end <= begin)
			return 0;
		if (one != size_now(m, g->blocks.at[i]) && (end - begin) % one != 0)
			return 0; /* a ragged tile is masked */
		if (!checked_mul(points, int_cdiv(end - begin, one), &points))
			return 0;
	}
	return points;
}

static double tile_elements(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	double elements = 1;
	for (uint32_t i = 0; i < t->count; i++)
		elements *= (double)expr_number(m, t->dims[i]);
	return elements;
}

/* What the root's loads and stores move in one grid step. */
static double step_bytes(Module *m, GraphId root) {
	double bytes = 0;
	for (NodeId n = graph_first(m, root); n != NONE; n = node_get(m, n)->next) {
		NodeId tile = node_get(m, n)->op == OP_LOAD    ? n
		              : node_get(m, n)->op == OP_STORE ? node_input(m, n, 2)
		                                               : NONE;
		if (tile != NONE && node_type(m, tile)->kind == TYPE_TENSOR)
			bytes += tile_elements(m, tile) * dtype_bits(node_type(m, tile)->dtype) / 8.0;
	}
	return bytes;
}

/* Seconds that the vector unit takes in one grid step at best, of ops of one instruction each. */
static double step_computes(Module *m, GraphId root) {
	double elements = 0;
	for (NodeId n = graph_first(m, root); n != NONE; n = node_get(m, n)->next)
		if (op_kind(m, n) == KIND_POINTWISE && node_type(m, n)->kind == TYPE_TENSOR)
			elements += tile_elements(m, n);
	return elements / (VECTOR_LANES * m->target->clock_hz);
}

static bool is_in_loop(const Module *m, NodeId n) {
	return !node_get(m, n)->dead && graph_get(m, node_get(m, n)->graph)->kind == GRAPH_FOR_LOOP;
}

/* The block is a batch dim of a loop's matmuls of at most so many rows. */
static bool is_batch_of_matmul(const Module *m, BlockId b, int64_t most_rows) {
	for (NodeId n = 0; n < m->nodes.count; n++) {
		if (!is_in_loop(m, n) || op_kind(m, n) != KIND_MATMUL)
			continue;
		const Type *t = node_type(m, n);
		int64_t rows;
		for (uint32_t i = 0; i + 2 < t->count; i++)
			if (expr_as_block(m, t->dims[i]) == b && expr_value(m, t->dims[t->count - 2], &rows) &&
			    rows <= most_rows)
				return true;
	}
	return false;
}

/* n is a matmul in a loop, and the block is the rows of its left factor. */
static bool has_rows(const Module *m, NodeId n, BlockId b) {
	if (!is_in_loop(m, n) || !matmul_is_plain(m, n))
		return false;
	const Type *t = node_type(m, n);
	return expr_as_block(m, t->dims[t->count - 2]) == b;
}

/* The block is the rows of the left factor of a matmul in a loop. */
static bool is_rows_of_matmul(const Module *m, BlockId b) {
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (has_rows(m, n, b))
			return true;
	return false;
}

/* The left factor of another such matmul is n, or follows from it in its step. `seen`: by node, is looked at. */
static bool makes_factor(const Module *m, NodeId n, BlockId b, bool *seen) {
	seen[n] = true;
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		if (has_rows(m, user, b) && node_input(m, user, matmul_arg(node_get(m, user)->op, 0)) == n)
			return true;
		if (!seen[user] && node_get(m, user)->graph == node_get(m, n)->graph && makes_factor(m, user, b, seen))
			return true;
	}
	return false;
}

/* The block is the rows of two matmuls of a step, of which this is the first, and the second is of what it gives; NONE:
 * it is not. */
static NodeId first_of_chain(const Module *m, BlockId b) {
	bool *seen = arena_array(m->arena, (size_t)m->nodes.count + 1, sizeof *seen);
	NodeId first = NONE;
	uint32_t count = 0;
	for (NodeId n = 0; n < m->nodes.count; n++) {
		count += has_rows(m, n, b);
		first = has_rows(m, n, b) && makes_factor(m, n, b, seen) ? n : first;
	}
	return count == 2 ? first : NONE;
}

static int64_t columns_of(const Module *m, NodeId matmul) {
	const Type *t = node_type(m, matmul);
	return expr_number(m, t->dims[t->count - 1]);
}

/* A step has no more columns than gain, or may take parts of them. */
static bool columns_gain(const Choosing *s, NodeId first) {
	return columns_of(s->start, first) <= CHAIN_COLUMNS || s->columns.size;
}

/* Where the block is such rows, and steps can overlap: so many rows, those of all its tile's batches together, are as
 * many as gain. 0: it is not, or there are more of them. */
static int64_t rows_of_chain(const Choosing *s, const Module *m, BlockId b) {
	NodeId first = first_of_chain(m, b);
	if (!m->target->skews_loops || (module_loop_type(m) == LOOP_UNROLL && !s->may_fence) || first == NONE)
		return 0;
	const Type *t = node_type(m, first);
	int64_t rows = CHAIN_ROWS;
	for (uint32_t i = 0; i + 2 < t->count; i++)
		rows /= int_max(expr_number(m, t->dims[i]), 1);
	return columns_gain(s, first) ? rows : 0;
}

/* ---- the domains ------------------------------------------------------------------------------------------------- */

/* The last dim first: its blocks lie beside each other in HBM. */
static void long_steps(Choosing *s, Module *m, GraphId root, Switch asked) {
	const Graph *g = graph_get(m, root);
	int64_t least = asked == SWITCH_ON ? 1 : LEAST_POINTS;
	double per_s = m->target->hbm_bytes_per_s, bytes = step_bytes(m, root);
	if (bytes <= 0 || bytes >= (asked == SWITCH_ON ? LONG_STEP : SHORT_STEP) * per_s)
		return;
	/* Nothing waits for a copy beside which so much is computed; of more at once, more is spilled: dropout of 64 x
	 * 256 takes 6.6M cycles on v7x, of 64 x 8192 11.7M. */
	if (asked == SWITCH_AUTO && step_computes(m, root) >= SHORT_STEP)
		return;
	for (uint32_t i = g->blocks.count; i-- > 0;) {
		BlockId b = g->blocks.at[i];
		int64_t size = size_now(m, b), times = 1;
		while (bytes * (double)times < LONG_STEP * per_s && points_with(m, root, b, size * times * 2) >= least)
			times *= 2;
		if (times > 1 && !block_size_matters(m, b))
			vec_push(s->c->arena, &s->long_steps, ((WideBlock){b, size * times, false}));
	}
}

/* So many rows of it may be worth their while; 0: more are not. */
static int64_t most_rows(const Choosing *s, const Module *m, BlockId b, int64_t size) {
	int64_t share = m->blocks.at[b].share, most = is_rows_of_matmul(m, b) ? m->target->mxu_size : 0;
	most = int_max(most, rows_of_chain(s, m, b));
	most = share ? int_min(share, most) : most;
	return size < most ? most : 0;
}

static void more_rows(Choosing *s, Module *m, GraphId root, Switch asked) {
	const Graph *g = graph_get(m, root);
	int64_t least = asked == SWITCH_ON ? 1 : LEAST_POINTS;
	for (uint32_t i = 0; i < g->blocks.count; i++) {
		BlockId b = g->blocks.at[i];
		int64_t size = size_now(m, b), few = m->target->mxu_size, most = most_rows(s, m, b, size);
		bool default_rows = !m->config.block_sizes.set && size < few;
		if (!most || default_rows || block_size_matters(m, b))
			continue;
		for (; size < most && points_with(m, root, b, size * 2) >= least; size *= 2)
			vec_push(s->c->arena, &s->more_rows, ((WideBlock){b, size * 2, size >= few}));
	}
}

/* Heads and sequences whose few rows a loop multiplies: tiles, or single positions that may become one. The most at
 * once first: fewer are for what does not fit so. */
static void batches(Choosing *s, Module *m, GraphId root, Switch asked) {
	const Graph *g = graph_get(m, root);
	int64_t least = asked == SWITCH_ON ? 1 : LEAST_POINTS;
	for (uint32_t i = 0; i < g->blocks.count; i++) {
		BlockId b = g->blocks.at[i];
		bool position = block_is_position(m, b);
		bool may = position ? positions_may_batch(m, b, FEW_ROWS)
		                    : m->config.block_sizes.set && is_batch_of_matmul(m, b, FEW_ROWS) &&
		                              !block_size_matters(m, b);
		for (int64_t size = MOST_BATCH; may && size > size_now(m, b); size /= 2)
			if (points_with(m, root, b, size) >= least)
				vec_push(s->c->arena, &s->batches, ((WideBlock){b, size, false}));
	}
}

/* Some block twice as large leaves the grid its points: else nothing needs to be looked at. */
static bool may_enlarge(Module *m, GraphId root, Switch asked) {
	const Graph *g = graph_get(m, root);
	int64_t least = asked == SWITCH_ON ? 1 : LEAST_POINTS;
	bool may = false;
	for (uint32_t i = 0; i < g->blocks.count; i++)
		may = may || points_with(m, root, g->blocks.at[i], size_now(m, g->blocks.at[i]) * 2) >= least;
	return may;
}

/* What no store depends on is no reason, nor is what is loaded twice. */
static Module *without_dead(const Choosing *s) {
	PassContext context = {.arena = s->c->arena, .diag = s->c->diag, .module = module_clone(s->start, s->c->arena)};
	return pass_cse(&context) && pass_dce(&context) ? context.module : s->start;
}

void sizes_domain(Choosing *s) {
	Module *m = s->start;
	Switch asked = (Switch)m->config.wide_blocks.value;
	GraphId root = module_root(m, 0);
	bool alone = root != NONE && module_root(m, 1) == NONE;
	if (asked == SWITCH_OFF || s->c->options->passes || !alone || !m->target || !may_enlarge(m, root, asked))
		return;
	m = without_dead(s);
	root = module_root(m, 0);
	if (module_has_loops(m)) {
		batches(s, m, root, asked);
		more_rows(s, m, root, asked);
	} else if (m->config.block_sizes.set) {
		long_steps(s, m, root, asked);
	}
}

/* The first of such two matmuls, whichever block their rows are; NONE. */
static NodeId chain_of(const Module *m) {
	GraphId root = module_root(m, 0);
	NodeId first = NONE;
	for (uint32_t i = 0; root != NONE && first == NONE && i < graph_get(m, root)->blocks.count; i++)
		first = first_of_chain(m, graph_get(m, root)->blocks.at[i]);
	return first;
}

/* Steps overlap: skewed, in pairs. */
static bool may_pair(const Module *m) {
	const Config *c = &m->config;
	return m->target && m->target->skews_loops && (Switch)c->loop_skew.value != SWITCH_OFF &&
	       (Switch)c->step_pairs.value != SWITCH_OFF;
}

static bool fences_pass(const Module *m) {
	const Config *c = &m->config;
	return (Switch)c->fenced_steps.value != SWITCH_OFF && module_root(m, 0) != NONE && may_pair(m) &&
	       module_loop_type(m) == LOOP_UNROLL && c->matmul_ahead.value == AHEAD_AUTO &&
	       (Switch)c->fori_dma.value != SWITCH_ON && (Switch)c->straight_loops.value != SWITCH_ON;
}

bool may_fence(const Choosing *s) {
	const Module *m = s->start;
	if (!fences_pass(m))
		return false;
	NodeId first = chain_of(m);
	return (Switch)m->config.fenced_steps.value == SWITCH_ON || (first != NONE && columns_gain(s, first));
}

/* The block of the columns of a step that has more of them than gain, in a loop over them alone; NONE. */
static BlockId many_columns(const Module *m, GraphId *loop) {
	NodeId first = chain_of(m);
	const Type *t = first == NONE ? NULL : node_type(m, first);
	BlockId b = t ? expr_as_block(m, t->dims[t->count - 1]) : NONE;
	*loop = first == NONE ? NONE : node_get(m, first)->graph;
	bool many = b != NONE && size_now(m, b) > CHAIN_COLUMNS && graph_get(m, *loop)->blocks.at[0] == b;
	return many ? b : NONE;
}

/* A loop of attention of D = 256 in tiles of [2, 512, 2048] takes 1.19 times as long as in steps of 1024 columns on
 * v6e, 1.18 times on v7x: what a step computes is spilled. */
void columns_domain(Choosing *s) {
	Module *m = s->start;
	GraphId loop;
	Switch asked = (Switch)m->config.narrow_steps.value;
	bool overlaps = module_loop_type(m) == LOOP_UNROLL ? fences_pass(m) : may_pair(m);
	if (asked == SWITCH_OFF || (asked == SWITCH_AUTO && !overlaps) || !m->config.block_sizes.set || !m->target ||
	    module_root(m, 0) == NONE || module_root(m, 1) != NONE || many_columns(m, &loop) == NONE)
		return;
	m = without_dead(s);
	BlockId b = many_columns(m, &loop);
	if (b != NONE && loop_takes_parts(m, loop, CHAIN_COLUMNS))
		s->columns = (WideBlock){b, CHAIN_COLUMNS, false};
}

void sizes_enlarge(Module *m, const WideBlock *wide, ChoiceValue value) {
	const char *why = value == COLUMNS_PARTS      ? "what a step of more columns computes would be spilled"
	                  : value == SIZES_LONG_STEPS ? "a grid step would copy too little to hide the latency of HBM"
	                  : value == SIZES_BATCH      ? "one head's few rows keep no unit busy"
	                  : wide->overlaps ? "at the ends of a loop's iterations the MXU would run empty more often"
	                                   : "too few rows use what a loop copies at each grid point";
	while (m->enlarged.count < m->blocks.count)
		vec_push(m->arena, &m->enlarged, (Enlarged){0});
	m->enlarged.at[wide->block] = (Enlarged){wide->size, why};
	m->settled = true;
}

/* Whole rows are wider tiles than parts of them: fewer rows stand in a grid step. */
enum { MOST_TILE_BYTES = 4 << 20, LEAST_ROWS = 16 };

void sizes_of_whole_rows(Module *m, int64_t row_bytes) {
	BlockId b = graph_get(m, module_root(m, 0))->blocks.at[0];
	int64_t size = size_now(m, b), most = int_min(MOST_TILE_BYTES, m->target->vmem_bytes / TILES_HELD);
	if (block_size_matters(m, b))
		return;
	while (size * row_bytes > most && size % 2 == 0 && size / 2 >= LEAST_ROWS)
		size /= 2;
	if (size == size_now(m, b))
		return;
	while (m->enlarged.count < m->blocks.count)
		vec_push(m->arena, &m->enlarged, (Enlarged){0});
	m->enlarged.at[b] = (Enlarged){size, "its rows are computed whole, fewer at a time"};
}
