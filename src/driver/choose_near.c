/* choose_near.c - where nobody gives block sizes: a climb from what the defaults came to.
 *
 * The defaults follow from what each block does (default_blocks.c), each by a rule. What they come to together only a
 * kernel tells, and the time of the core on it (codegen/core). So from there the other loop types are tried, then each
 * block twice and half as large, and the climb goes on from whatever is faster; where nothing is, one block twice and
 * another half as large, for as large a tile:
 *
 *     blocks 1024, 1024, 512, emit_pipeline    69.0 kilocycles
 *     unroll                                   54.8
 *     2048, 1024, 512, unroll                  52.0
 *     4096, ... 2048, 2048, ...                not faster
 *
 * Straight steps that only add up are one step in the end, if that is estimated to be as fast: the matrix unit adds up
 * by itself what is added between steps else. Of steps the first grid point's blocks come in chunks (first_chunks.c),
 * of one step they do not: then one must be estimated to be faster. docs/config.md has what was measured.
 *
 * Columns of a matmul grow to the width up to there that leaves least over beyond their range (default_columns()):
 * 128256 are 167 blocks of 768.
 *
 * Two estimates, made of different things, must agree: the time of the core, of which the climb is, and that by which
 * ways of a plan are compared (seconds.c). The first takes straight code that keeps vector units busy for faster than
 * it is, the second knows little of a step's own work. The second is known of a draft, and leaves few kernels to be
 * lowered. What was climbed is taken if both see that it saves enough: else the defaults stay. */
#include "choose.h"
#include "share.h"
#include "codegen/core/core.h"
#include "codegen/costs/costs.h"
#include "src/config/config.h"
#include "src/load/load.h"
#include "src/shard/shard.h"
#include <math.h>

enum {
	MOST_TRIES = 32,
	JOIN_TRIES = 2, /* loops whose steps are tried as one */
	PAIRED_BLOCKS = 8,
	MOST_STRAIGHT = 64, /* steps of a loop as straight code that nobody asked for: each is code to compile */
	MOST_CODE = 32768   /* cycles of a loop's code, which are bundles to compile: it ends rarely enough */
};
/* What the whole climb must save by the time of the core and by the other, which sees less of it: where loops stay what
 * they were, half as much, ... */
#define CLIMB_SAVES_AT_LEAST 1.04
#define CLIMB_COMPARED_AT_LEAST 1.03
#define CLIMB_OF_SIZES_COMPARED_AT_LEAST 1.012
/* ... nothing, where it saves so much by the time of the core, or has steps in pairs, of which the other knows nothing,
 * ... */
#define CLIMB_SAVES_MUCH 1.2
/* ... little, where what fits VMEM with two buffers of each window is in place of what waits for copies, ... */
#define CLIMB_TO_BUFFERS_SAVES_AT_LEAST 1.02
/* ... one move by the time of the core, less where no larger one leads on, and what it may lose of the other. */
#define MOVE_SAVES_AT_LEAST 1.02
#define MOVE_LOSES_AT_MOST 1.02
#define LAST_MOVE_SAVES_AT_LEAST 1.012
#define LAST_MOVE_LOSES_AT_MOST 0.99
/* ... and what steps as one may lose: what computes a factor is taken to be through before its matmul begins. What they
 * save in place of chunks. */
#define JOINED_LOSES_AT_MOST 1.15
#define JOINED_CHUNKS_SAVE_AT_LEAST 1.005
#define JOINED_COMPARED_AT_MOST 1.05

/* A way, and what it came to. */
typedef struct Spot {
	ModuleWay way;
	Trial trial;
	double cycles, seconds;
} Spot;

typedef struct Climb {
	Choosing *s;
	Spot at;
	int64_t left;        /* kernels that may be lowered */
	double saves, loses; /* a move, at least and at most, by the two estimates */
	int tries;
} Climb;

/* ---- one spot ---------------------------------------------------------------------------------------------------- */

static bool measure(const Climb *n, Spot *p, Program *program) {
	CoreTime time;
	Arena *a = n->s->c->arena;
	if (!program)
		return false;
	program_time(program, a, &time);
	p->trial.program = program;
	p->trial.fits = true;
	p->trial.outcome.seconds = p->seconds = program_seconds(program);
	p->cycles = time.cycles;
	return true;
}

/* All blocks are as large as where the climb stands, and loops are lowered in the same way. No passes ran on `there`,
 * which add blocks. */
static bool is_here(const Climb *n, const Spot *p) {
	const Module *here = n->at.trial.context.module, *there = p->trial.context.module;
	for (BlockId b = 0; b < there->narrowed.count && p->way.type == n->at.way.type; b++)
		if (here->narrowed.at[b].size != there->narrowed.at[b].size)
			return false;
	return p->way.type == n->at.way.type;
}

/* With those of the loops around it. */
static int64_t known_steps(const Plan *p, uint32_t l) {
	int64_t steps = 1;
	for (; l != NONE; l = p->loops.at[l].parent)
		for (uint32_t d = 0; d < p->loops.at[l].rank; d++) {
			const LoopDim *dim = &p->loops.at[l].dim[d];
			if (!checked_mul(steps, int_max(dim->full_steps + (dim->tail != 0), 1), &steps))
				return INT64_MAX;
		}
	return steps;
}

/* A step stands there once, again before and behind a loop that is skewed, and again for the last one, if ragged. 0
 * where the steps are not counted, or take a part of the cycles that is not known. */
static double code_cycles(const Plan *p, uint32_t l, double cycles) {
	const Loop *loop = &p->loops.at[l];
	bool ragged = false;
	for (uint32_t d = 0; d < loop->rank; d++) {
		if (loop->dim[d].computed)
			return 0;
		ragged = ragged || loop->dim[d].tail != 0;
	}
	if (loop->rank == 0 || p->loops.count != 1)
		return 0;
	return cycles / (grid_points(p) * (double)known_steps(p, l)) * (1 + loop->skewed + ragged);
}

static bool is_long_code(const Spot *s) {
	const Program *g = s->trial.program;
	bool is_long = false;
	for (uint32_t k = 0; k < g->kernels.count; k++)
		for (uint32_t l = 0; l < g->kernels.at[k]->loops.count; l++)
			is_long = is_long || (s->way.type == LOOP_UNROLL
			                              ? known_steps(g->kernels.at[k], l) > MOST_STRAIGHT
			                              : code_cycles(g->kernels.at[k], l, s->cycles) > MOST_CODE);
	return is_long;
}

/* A kernel of it is such. */
static bool has(const Spot *s, bool (*is_such)(const Plan *plan)) {
	const Program *g = s->trial.program;
	for (uint32_t k = 0; k < g->kernels.count; k++)
		if (is_such(g->kernels.at[k]))
			return true;
	return false;
}

/* A window that moves has one buffer: the core waits for each of its copies, which no estimate mistakes. */
static bool waits_for_windows(const Plan *plan) {
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		const Operand *o = &plan->operands.at[i];
		if (o->space == SPACE_WINDOW && o->buffers == 1 && operand_fetches(plan, o) > 1)
			return true;
	}
	return false;
}

static bool comes_in_chunks(const Plan *plan) { return plan->first_chunks; }

/* Of a way that is refused, does not fit, becomes long code or is estimated to take more than `most` seconds: false. */
static bool compile_spot(Climb *n, Spot *p, double most, int64_t *left) {
	Compilation *c = n->s->c;
	Diag quiet;
	diag_init(&quiet, c->arena);
	p->trial = (Trial){.context = {.module = choose_module(n->s, &p->way),
	                               .diag = &quiet,
	                               .arena = c->arena,
	                               .explain = c->options->explain}};
	if (!compile_configure(p->trial.context.module, &quiet) || (n->at.trial.program && is_here(n, p)) ||
	    !share_passes(c, &p->trial.context))
		return false;
	Drafts *drafts = program_draft(c->arena, p->trial.context.module, left);
	bool fits = drafts && drafts_bound(drafts) <= most && measure(n, p, program_choose(drafts)) &&
	            p->seconds <= most && !is_long_code(p) && module_check_annotations(p->trial.context.module, &quiet);
	p->trial.context.diag = c->diag;
	return fits;
}

/* Where the choice stands. What another compilation found out of it is compiled here. */
static bool start(Climb *n) {
	Choosing *s = n->s;
	int64_t *left = arena_alloc(s->c->arena, sizeof *left); /* of plans, which stay */
	*left = MOST_LOWERINGS;
	Spot p = {.way = s->best_way, .trial = s->best};
	bool ok = p.trial.program ? measure(n, &p, p.trial.program) : compile_spot(n, &p, INFINITY, left);
	n->at = p;
	return ok;
}

/* ---- moves ------------------------------------------------------------------------------------------------------- */

/* Goes there, if it is faster by what a move is to save now. */
static bool move(Climb *n, const ModuleWay *way) {
	Spot p = {.way = *way};
	if (n->tries == 0 || n->left <= LEFT_FOR_LAST)
		return false;
	n->tries--;
	const ArenaMark before = arena_mark(n->s->c->arena);
	if (!compile_spot(n, &p, n->at.seconds * n->loses, &n->left) || p.cycles * n->saves > n->at.cycles) {
		arena_release(n->s->c->arena, before);
		return false;
	}
	n->at = p;
	return true;
}

static bool move_type(Climb *n) {
	bool any = false;
	if (n->s->start->config.loop_type.value != LOOP_DEFAULT || !module_has_loops(n->s->start))
		return false;
	for (LoopType t = LOOP_UNROLL; t <= LOOP_EMIT_PIPELINE; t++) {
		ModuleWay way = n->at.way;
		way.type = t;
		any = (t != n->at.way.type && move(n, &way)) || any;
	}
	return any;
}

static int64_t *sizes_here(const Climb *n) {
	const Module *m = n->at.trial.context.module;
	int64_t *sizes = arena_array(n->s->c->arena, (size_t)m->narrowed.count + 1, sizeof *sizes);
	for (BlockId b = 0; b < m->narrowed.count; b++)
		sizes[b] = m->narrowed.at[b].asked;
	return sizes;
}

static int64_t size_beside(const Climb *n, BlockId b, int64_t size, bool up) {
	int64_t power = power_beside(size, up);
	int64_t fitting = up ? default_columns(n->s->start, b, power) : power;
	return up && fitting <= size ? power : fitting;
}

static bool move_size(Climb *n, BlockId b, bool up) {
	int64_t *sizes = sizes_here(n);
	ModuleWay way = n->at.way;
	if (sizes[b] <= 1 && !up)
		return false;
	sizes[b] = size_beside(n, b, sizes[b], up);
	way.sizes = sizes;
	return move(n, &way);
}

/* One block twice as large, another half: where neither alone leads on, as each point of the grid takes as long. */
static bool move_pair(Climb *n, BlockId up, BlockId down) {
	int64_t *sizes = sizes_here(n);
	ModuleWay way = n->at.way;
	if (up == down || sizes[down] <= 1 || !n->s->start->defaults.at[up].taken ||
	    !n->s->start->defaults.at[down].taken)
		return false;
	sizes[up] = size_beside(n, up, sizes[up], true);
	sizes[down] = size_beside(n, down, sizes[down], false);
	way.sizes = sizes;
	return move(n, &way);
}

/* Of the last few blocks: pairs of many are more than can be tried. */
static bool move_pairs(Climb *n) {
	uint32_t count = n->s->start->defaults.count, first = count > PAIRED_BLOCKS ? count - PAIRED_BLOCKS : 0;
	for (BlockId up = first; up < count; up++)
		for (BlockId down = first; down < count; down++)
			if (move_pair(n, up, down))
				return true;
	return false;
}

/* As far as it pays, up or down. */
static bool move_block(Climb *n, BlockId b) {
	bool any = false;
	if (!n->s->start->defaults.at[b].taken)
		return false;
	for (int down = 0; down < 2 && !any; down++)
		while (move_size(n, b, !down))
			any = true;
	return any;
}

/* The loop type, then the blocks: the last dims of tensors come last, and tell most. */
static bool move_along(Climb *n, uint32_t direction) {
	return direction == 0 ? move_type(n) : move_block(n, n->s->start->defaults.count - direction);
}

/* Until no direction leads on, nor two at once: from there by the blocks first. */
static void climb(Climb *n) {
	uint32_t directions = n->s->start->defaults.count + 1, first = 0;
	do {
		for (uint32_t i = first, fruitless = 0; fruitless < directions; i++)
			fruitless = move_along(n, i % directions) ? 1 : fruitless + 1;
		first = 1;
	} while (move_pairs(n));
}

/* The block of straight steps that only add up, and take matmuls; NONE. */
static BlockId added_block(const Climb *n, const Plan *p, const Loop *loop) {
	const Module *m = p->module;
	BlockId b = graph_get(m, loop->graph)->blocks.count == 1 ? graph_get(m, loop->graph)->blocks.at[0] : NONE;
	if (loop->type != LOOP_UNROLL || loop->fenced || loop->rank != 1 || loop->dim[0].computed ||
	    loop->dim[0].full_steps < 2 || loop->dim[0].tail != 0 || b >= n->s->start->defaults.count ||
	    !n->s->start->defaults.at[b].taken)
		return NONE;
	return graph_holds(m, loop->graph, LOWER_MATMUL) && loop_only_adds(m, n->s->c->arena, loop->graph) ? b : NONE;
}

/* Such steps as one, of the whole range. */
static void join_steps(Climb *n) {
	const Program *g = n->at.trial.program;
	n->tries = JOIN_TRIES;
	for (uint32_t k = 0; k < g->kernels.count; k++)
		for (uint32_t l = 0; l < g->kernels.at[k]->loops.count; l++) {
			const Loop *loop = &g->kernels.at[k]->loops.at[l];
			BlockId b = added_block(n, g->kernels.at[k], loop);
			if (b == NONE)
				continue;
			int64_t *sizes = sizes_here(n);
			ModuleWay way = n->at.way;
			sizes[b] = g->kernels.at[k]->module->block_size.at[b] * loop->dim[0].full_steps;
			way.sizes = sizes;
			move(n, &way);
		}
}

/* ---- the climb --------------------------------------------------------------------------------------------------- */

static const char *words_of(const Climb *n) {
	const Module *m = n->at.trial.context.module;
	Text t;
	text_init(&t, n->s->c->arena);
	for (BlockId b = 0; b < n->s->start->defaults.count; b++) /* passes may have added blocks */
		if (n->s->start->defaults.at[b].taken)
			text_printf(&t, "%s%s %lld", t.length ? ", " : "", m->blocks.at[b].name,
			            (long long)m->narrowed.at[b].asked);
	return n->at.way.type == LOOP_DEFAULT ? t.at
	                                      : arena_printf(t.arena, "%s, %s", t.at, loop_type_name(n->at.way.type));
}

static void remark(const Climb *n, const char *words, bool taken) {
	Choosing *s = n->s;
	pass_remark(&s->c->context, "choose", "%s", choice_remark(s->c->arena, words, NULL, n->at.seconds, taken));
}

/* Moves of one kind, each of which must save so much, with so many kernels that may be lowered for them. */
static void walk(Climb *n, void (*moves)(Climb *n), double saves, double loses, int64_t kernels) {
	const int64_t had = int_min(n->s->c->left, kernels + LEFT_FOR_LAST);
	n->saves = saves;
	n->loses = loses;
	n->left = had;
	n->tries = MOST_TRIES;
	moves(n);
	n->s->c->left -= had - n->left;
}

void choose_near(Choosing *s) {
	Climb *n = arena_alloc(s->c->arena, sizeof *n); /* plans, which stay, count in `left` */
	*n = (Climb){.s = s};
	if (!start(n))
		return;
	Spot from = n->at;
	walk(n, climb, MOVE_SAVES_AT_LEAST, MOVE_LOSES_AT_MOST, MOST_NEAR);
	walk(n, climb, LAST_MOVE_SAVES_AT_LEAST, LAST_MOVE_LOSES_AT_MOST, MOST_LAST);
	double compared = has(&n->at, plan_has_pairs) && !has(&from, plan_has_pairs) ? 1
	                  : n->at.way.type != from.way.type                          ? CLIMB_COMPARED_AT_LEAST
	                  : n->at.cycles * CLIMB_SAVES_MUCH <= from.cycles           ? 1
	                                                                             : CLIMB_OF_SIZES_COMPARED_AT_LEAST;
	bool to_buffers = has(&from, waits_for_windows) && !has(&n->at, waits_for_windows);
	double saves = to_buffers ? CLIMB_TO_BUFFERS_SAVES_AT_LEAST : CLIMB_SAVES_AT_LEAST;
	bool taken = n->at.cycles * saves <= from.cycles && n->at.seconds * compared <= from.seconds;
	if (n->at.trial.program != from.trial.program)
		remark(n,
		       arena_printf(s->c->arena, "near the defaults, %s: %.0f cycles, not %.0f", words_of(n),
		                    n->at.cycles, from.cycles),
		       taken);
	if (!taken)
		n->at = from;
	const Program *steps = n->at.trial.program;
	double joined = has(&n->at, comes_in_chunks) ? JOINED_CHUNKS_SAVE_AT_LEAST : 1 / JOINED_LOSES_AT_MOST;
	walk(n, join_steps, joined, JOINED_COMPARED_AT_MOST, MOST_JOINED);
	if (n->at.trial.program != steps)
		remark(n, arena_printf(s->c->arena, "steps that only add up as one, %s", words_of(n)), true);
	if (n->at.trial.program == from.trial.program)
		return;
	s->best = n->at.trial;
	s->best_way = n->at.way;
}
