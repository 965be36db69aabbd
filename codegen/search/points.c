/* points.c - pallas_ahead_across: what runs ahead of a loop's first step (skew.c) is computed by the grid point before.
 *
 * Before a skewed loop nothing runs beside what its first step starts with, and its last step computes nothing ahead:
 *
 *     matrix unit   qk 0|qk 1 pv 0|...|     pv n|qk 0|...         qk 1 pv 0|...|qk 0' pv n|qk 1' pv 0'|...
 *     vector unit       |softmax 0|...|softmax n|    |...         softmax 0|...|softmax n |softmax 0' |...
 *
 * The last step computes it for the next point, of blocks of its own: the next point's tile of Q, and the window of K
 * that its first step reads, which the grid's pipeline brings as it brings all blocks. It lies in scratch till then, so
 * that points run in order, on one core; only the first one computes its own (rewrite_points.c). No number changes.
 *
 * Decided once all else is: what it takes of VMEM is given back where that does not fit. */
#include "search.h"
#include "codegen/core/core.h"
#include "codegen/costs/costs.h"
#include "codegen/loops/loops.h"
#include "codegen/lower/lower.h"
#include "codegen/vmem/vmem.h"
#include "src/config/config.h"

/* auto: what a step hands to the next where they are not in pairs: the last one still reads that. Causal attention of
 * 8192 rows on v7x, not in pairs: [512, 512] takes 5% less, [1024, 1024] 6% more; its dq of [512, 512], 2 MiB, 2% more.
 */
enum { HANDED_BYTES = 3 << 19 };
/* auto: and of pairs: attention with ids of segments in [4096, 1024], 16 MiB, takes 2% more on v6e. */
enum { PAIRS_HAND_BYTES = 9 << 20 };
/* auto: of what a point computes its copies take at most so much, with those of the blocks. */
static const double copies_at_most = 0.9;
/* auto: cycles that what is computed takes of the matrix unit at its peak, at least: two more blocks take a point about
 * 130 (16 points of attention of 128 rows and columns: 23.8 kilocycles on v6e, 25.9). */
enum { LEAST_CYCLES = 100 };

/* What stands ahead of the loop: it is computed for the next point, not for this one, or cannot be. */
typedef enum Along { UNASKED, COMES_ALONG, STAYS } Along;

typedef struct Points {
	Planner *p;
	Loop *loop;
	uint32_t l;
	Along *known; /* by node of the root */
} Points;

/* ---- what runs ahead --------------------------------------------------------------------------------------------- */

/* The step's number and where the grid stands are no part of it. */
static bool is_fixed(const SliceDim *dim, uint32_t rank) {
	bool fixed = true;
	for (uint32_t d = 0; d < rank; d++)
		fixed = fixed && (dim[d].kind == SLICE_ALL || affine_is_int(&dim[d].start));
	return fixed;
}

static bool load_can_move(const Points *x, NodeId n) {
	const Plan *plan = x->p->plan;
	const Access *a = plan->values[n].access;
	const Operand *o = a ? &plan->operands.at[a->operand] : NULL;
	return o && o->space == SPACE_WINDOW && o->input && !o->output && o->parts <= 1 && a->places == NONE &&
	       !a->halo && is_fixed(a->dim, a->rank) && (a->kind == REF_OPERAND || a->loop == x->l);
}

static bool can_move(const Points *x, NodeId n);

/* It is known wherever the grid stands: a number, what runs ahead, or what little computes ahead of the loop. */
static bool is_there(const Points *x, const Arg *a) {
	const Module *m = x->p->m;
	bool all = true;
	for (uint32_t i = 0; a->kind == ARG_LIST && i < a->list.count; i++)
		all = all && is_there(x, arg_item(m, a, i));
	if (a->kind != ARG_REF)
		return all && a->kind != ARG_SLICE;
	NodeId n = value_root(x->p->plan, a->node);
	if (node_type(m, n)->kind == TYPE_SYM) {
		Affine value = affine_of_arg(x->p, node_get(m, a->node)->graph, a);
		return affine_is_int(&value);
	}
	if (x->p->plan->values[n].ahead || constant_is_number(m, n))
		return true;
	if (node_get(m, n)->graph != x->p->plan->root)
		return false;
	if (x->known[n] == UNASKED) {
		Lowering how = op_lowering(node_get(m, n)->op);
		bool little = how != LOWER_MATMUL && how != LOWER_REDUCE && can_move(x, n);
		x->known[n] = little ? COMES_ALONG : STAYS;
	}
	return x->known[n] == COMES_ALONG;
}

/* What a view takes besides its operand says how it lies. */
static bool operands_are_there(const Points *x, NodeId n, Lowering how) {
	bool view = how == LOWER_VIEW || how == LOWER_MOVE, all = true;
	for (uint32_t i = 0; how != LOWER_FULL && i < node_get(x->p->m, n)->arg_count && all; i++)
		all = (view && i > 0) || is_there(x, node_arg(x->p->m, n, i));
	return all;
}

static bool can_move(const Points *x, NodeId n) {
	const Module *m = x->p->m;
	const Value *v = &x->p->plan->values[n];
	Lowering how = op_lowering(node_get(m, n)->op);
	if (v->same_as != NONE || how == LOWER_FREE || how == LOWER_ALIAS || node_type(m, n)->kind == TYPE_SYM)
		return true; /* what reads an int asks what it is */
	if (how == LOWER_LOAD)
		return v->mask_count == 0 && load_can_move(x, n);
	bool computes = how == LOWER_POINTWISE || how == LOWER_REDUCE || how == LOWER_VIEW || how == LOWER_MATMUL ||
	                how == LOWER_MOVE || how == LOWER_FULL || node_get(m, n)->op == OP_IOTA;
	return computes && v->mask_count == 0 && !v->seldom && operands_are_there(x, n, how);
}

/* The first that cannot; NONE: all can. */
static NodeId stays(const Points *x) {
	const Module *m = x->p->m;
	for (NodeId n = graph_first(m, x->loop->graph); n != NONE; n = node_get(m, n)->next)
		if (x->p->plan->values[n].first || (x->p->plan->values[n].ahead && !can_move(x, n)))
			return n;
	for (uint32_t i = 0; i < x->loop->handed.count; i++) {
		const Type *t = node_type(m, x->loop->handed.at[i].node);
		if (t->kind != TYPE_TENSOR || t->count == 0)
			return x->loop->handed.at[i].node;
	}
	return NONE;
}

/* What speaks against it; NULL: nothing. */
static const char *not_moved(const Points *x) {
	const Plan *plan = x->p->plan;
	const Loop *loop = x->loop;
	if ((Switch)x->p->m->config.ahead_across.value == SWITCH_OFF)
		return "pallas_ahead_across is off";
	if (loop->type != LOOP_FORI || loop->dma || loop->bodies || loop->rank != 1)
		return "it is no fori_loop on resident blocks";
	if (grid_points(plan) < 2 || x->p->m->target->tensorcores > 1)
		return "there is no next point on the same core";
	bool plain = !plan->remote && !plan->strips && !plan->keeps && !plan->back_and_forth;
	if (!plain || plan->loops.count > 1 || graph_parent(x->p->m, loop->graph) != plan->root)
		return "it is not the one loop that each point runs once";
	NodeId n = stays(x);
	return n == NONE ? NULL
	                 : arena_printf(x->p->a, "%s needs more than the next point's blocks",
	                                node_get(x->p->m, n)->name);
}

/* ---- the blocks -------------------------------------------------------------------------------------------------- */

/* Of the loop's first step. */
static Affine of_first_step(const Points *x, const Affine *a) {
	Affine first = affine_int(a->constant);
	for (uint32_t i = 0; i < a->count; i++)
		if (a->term[i].kind != VAR_STEP || a->term[i].id / RANK_MAX != x->l)
			first = affine_add(x->p->a, first, affine_term(x->p->a, a->term[i]));
	return first;
}

static bool is_of_grid(const Affine *a) {
	bool of_grid = true;
	for (uint32_t i = 0; i < a->count; i++)
		of_grid = of_grid && a->term[i].kind == VAR_PROGRAM;
	return of_grid;
}

/* The block of the operand, or of that the window, at the next point; NONE: there is none. */
static uint32_t next_block(const Points *x, uint32_t operand, uint32_t window) {
	Planner *p = x->p;
	Operand next = p->plan->operands.at[operand];
	const Window *w = window == NONE ? NULL : &x->loop->windows.at[window];
	for (uint32_t d = 0; d < next.rank; d++) {
		if (w && (w->block[d] != next.block[d] || !affine_is_int(&w->index[d]) || w->index[d].constant)) {
			Affine index = of_first_step(x, &w->index[d]), start = of_first_step(x, &w->start[d]);
			Affine at = affine_add(p->a, affine_scale(p->a, next.index[d], next.block[d]),
			                       affine_add(p->a, affine_scale(p->a, index, w->block[d]), start));
			if (!affine_multiple(&at, w->block[d]) || next.within || next.clamped >> d & 1 ||
			    next.shape[d] % w->block[d])
				return NONE;
			next.index[d] = affine_divide(p->a, at, w->block[d]);
			next.block[d] = w->block[d];
		}
		if (!is_of_grid(&next.index[d]))
			return NONE;
	}
	next.next = true;
	next.buffers = 2;
	next.fused = next.ahead = false;
	const char *name = p->m->tensors.at[next.tensor].name;
	next.ref = arena_printf(p->a, window == NONE ? "%s_next_ref" : "%s_first_ref", name);
	next.why = "what the loop's first step starts with is computed by the grid point before";
	for (uint32_t i = 0; i < p->plan->operands.count; i++)
		if (strcmp(p->plan->operands.at[i].ref, next.ref) == 0)
			return NONE;
	operand_costs(p->plan, &next);
	vec_push(p->a, &p->plan->operands, next);
	return p->plan->operands.count - 1;
}

static bool add_block(const Points *x, uint32_t operand, uint32_t window) {
	for (uint32_t i = 0; i < x->loop->next.count; i++)
		if (x->loop->next.at[i].operand == operand && x->loop->next.at[i].window == window)
			return true;
	NextBlock block = {operand, window, next_block(x, operand, window)};
	vec_push(x->p->a, &x->loop->next, block);
	return block.next != NONE;
}

static bool add_blocks(const Points *x) {
	const Module *m = x->p->m;
	const Value *values = x->p->plan->values;
	bool all = true;
	for (NodeId n = 0; n < m->nodes.count && all; n++) {
		bool ahead = node_get(m, n)->graph == x->loop->graph && values[n].ahead;
		if (op_lowering(node_get(m, n)->op) != LOWER_LOAD || !(ahead || x->known[n] == COMES_ALONG))
			continue;
		const Access *a = values[n].access;
		all = add_block(x, a->operand, a->kind == REF_WINDOW ? a->window : NONE);
	}
	return all && x->loop->next.count > 0;
}

/* What a loop passed on as a value lies in scratch, from point to point. */
static void hand_in_scratch(const Points *x) {
	for (uint32_t i = 0; i < x->loop->handed.count; i++) {
		Handed *h = &x->loop->handed.at[i];
		if (h->scratch == NONE)
			h->scratch = carry_scratch(x->p, h->node, "handed from a step to the next");
		if (h->odd == NONE && x->loop->paired)
			h->odd = carry_scratch(x->p, h->node, "handed from an even step to an odd one");
	}
}

/* What runs ahead reads of what is made ahead of the loop. */
static void keep_made(const Points *x, const Arg *a) {
	const Module *m = x->p->m;
	for (uint32_t i = 0; a->kind == ARG_LIST && i < a->list.count; i++)
		keep_made(x, arg_item(m, a, i));
	NodeId n = a->kind == ARG_REF ? value_root(x->p->plan, a->node) : NONE;
	if (n == NONE || x->known[n] != COMES_ALONG || op_lowering(node_get(m, n)->op) == LOWER_LOAD ||
	    node_type(m, n)->kind != TYPE_TENSOR || node_type(m, n)->count == 0)
		return;
	for (uint32_t i = 0; i < x->loop->kept.count; i++)
		if (x->loop->kept.at[i].node == n)
			return;
	Handed kept = {.node = n, .odd = NONE};
	kept.scratch = carry_scratch(x->p, n, "computed by the grid point before");
	vec_push(x->p->a, &x->loop->kept, kept);
}

static void keep_all_made(const Points *x) {
	const Module *m = x->p->m;
	for (NodeId n = graph_first(m, x->loop->graph); n != NONE; n = node_get(m, n)->next)
		for (uint32_t i = 0; x->p->plan->values[n].ahead && i < node_get(m, n)->arg_count; i++)
			keep_made(x, node_arg(m, n, i));
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static int64_t handed_bytes(const Points *x) {
	int64_t bytes = 0;
	for (uint32_t i = 0; i < x->loop->handed.count; i++)
		bytes += x->loop->handed.at[i].bytes;
	return bytes;
}

/* Of the matrix unit they are multiplied in parts. */
static bool has_wide_factors(const Points *x) {
	const Module *m = x->p->m;
	bool any = false;
	for (NodeId n = graph_first(m, x->loop->graph); n != NONE; n = node_get(m, n)->next)
		for (int i = 0; op_lowering(node_get(m, n)->op) == LOWER_MATMUL && i < 2; i++)
			any = any || dtype_bits(node_type(m, matmul_operand(m, n, i))->dtype) > 16;
	return any;
}

static double cycles_ahead(const Points *x) {
	double seconds = 0;
	for (NodeId n = graph_first(x->p->m, x->loop->graph); n != NONE; n = node_get(x->p->m, n)->next)
		if (x->p->plan->values[n].ahead && op_lowering(node_get(x->p->m, n)->op) == LOWER_MATMUL)
			seconds += matmul_seconds(x->p, n);
	return seconds * x->p->m->target->clock_hz;
}

/* Why it does not pay; NULL: it does. */
static const char *no_gain(const Points *x) {
	const Target *t = x->p->m->target;
	double bytes = 0;
	CoreTime without; /* the kernel is still that */
	plan_time(x->p->plan, x->p->a, &without);
	for (uint32_t i = 0; i < x->loop->next.count; i++)
		bytes += x->p->plan->operands.at[x->loop->next.at[i].next].hbm_bytes;
	if (without.hbm + bytes / t->hbm_bytes_per_s * t->clock_hz >= copies_at_most * without.compute)
		return "HBM has no room for copies of the next point's blocks";
	if (has_wide_factors(x)) /* attention of float16 takes 1% less on v6e, and libtpu 75 s in place of 63 */
		return "factors of 32 bits keep the matrix unit busy";
	bool single = x->loop->cut && handed_bytes(x) <= HANDED_BYTES;
	if (x->loop->paired ? handed_bytes(x) > PAIRS_HAND_BYTES : !single)
		return "what its last step is handed would be in the way";
	return cycles_ahead(x) < LEAST_CYCLES ? "it takes no longer than to copy blocks for it" : NULL;
}

/* The plan with them; why it is not to be had: NULL if it is. */
static const char *take_blocks(const Points *x) {
	Plan *plan = x->p->plan;
	if (!add_blocks(x))
		return "where the next point's blocks lie is not known before";
	const char *why = (Switch)x->p->m->config.ahead_across.value == SWITCH_AUTO ? no_gain(x) : NULL;
	if (why)
		return why;
	hand_in_scratch(x);
	keep_all_made(x);
	plan->kernel = NULL;
	plan->spills = -1;
	plan_vmem(plan, x->p->m, true);
	if (plan->left) /* it is the same kernel once more */
		++*plan->left;
	return plan->vmem.total <= plan_vmem_line(plan) ? NULL : "the next point's blocks do not fit";
}

static void move_ahead(const Points *x) {
	Plan *plan = x->p->plan, was = *plan;
	Loop *loop = x->loop, alone = *loop;
	Handed *handed = arena_copy(x->p->a, loop->handed.at, loop->handed.count, sizeof *handed);
	const char *why = not_moved(x);
	if (!why)
		why = take_blocks(x);
	if (why) {
		*plan = was;
		*loop = alone;
		memcpy(loop->handed.at, handed, loop->handed.count * sizeof *handed);
		loop->next_why = why;
		return;
	}
	for (uint32_t i = 0; i < loop->next.count; i++)
		plan->hbm_bytes += plan->operands.at[loop->next.at[i].next].hbm_bytes;
	loop->next_why = "its last step has nothing else to compute ahead";
	plan_walk_in_order(plan, "each point computes for the next one");
}

void plan_points(Planner *p) {
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		Points x = {.p = p, .loop = &p->plan->loops.at[l], .l = l};
		if (!x.loop->skewed || !p->plan->kernel)
			continue;
		x.known = arena_array(p->a, p->m->nodes.count, sizeof *x.known);
		move_ahead(&x);
	}
}
