/* spills.c - the values that a kernel holds at once and the 64 vector registers cannot: the compiler spills them to
 * VMEM.
 *
 * libtpu's VMEM report has no other buffers for intermediates than the register allocator's spill slots. Straight-line
 * code is scheduled so that a chain of pointwise ops streams through registers, one register of each tile after the
 * other. What must be whole is what lies across a *barrier*: a reduction, a matmul or a loop, which reads all of a tile
 * before anything that depends on it can start. So a value is *held* from where it is computed to its last use if a
 * barrier lies strictly between; the peak over the barriers of the bytes held is what must be spilled, less the
 * registers. */
#include "region.h"

/* Of the 64 registers of 4 KiB, those that hold values across barriers; the others are at work. */
enum { SPARE_BYTES = 20 * 4096 };
int64_t spilled_size(const Plan *plan, NodeId n) {
	const Type *t = node_type(plan->module, n);
	int64_t shape[DIM_MAX];
	if (t->kind != TYPE_TENSOR || t->count == 0)
		return 0;
	uint32_t rank = plan_shape(plan, n, plan->values[n].form, shape);
	return int_min(register_bytes(plan->module->target, t->dtype, rank, shape), TOO_MUCH);
}

/* What holding a value costs: nothing for what is the same in every lane. */
int64_t held_bytes(const Region *r, uint32_t pos) {
	const Plan *plan = r->p->plan;
	NodeId n = r->nodes[pos];
	const Value *v = &plan->values[n];
	Lowering how = how_of(r, pos);
	if (v->same_as != NONE || v->folded || how == LOWER_FULL || how == LOWER_STORE || how == LOWER_INDEX ||
	    how == LOWER_INT)
		return 0;
	if (how == LOWER_FREE && node_get(plan->module, n)->op != OP_PLACEHOLDER)
		return 0;
	return spilled_size(plan, n);
}

/* What is held at one barrier, by what the compiler makes of it. */
typedef struct Kept {
	int64_t tiles;   /* values of several registers in a row */
	int64_t columns; /* values one register wide, as [.., 1]: one lane of it in use */
	int64_t loads;   /* what was loaded and is read again later: some chips' compilers load it again */
	int64_t results; /* of the matmul that is the barrier: partial sums of its passes */
	int64_t parts;   /* bfloat16 parts of float32 factors at full precision */
	int64_t factors; /* the matmul's left factor: kept for each column of tiles of the right one */
	int64_t ahead;   /* the left factor of an unrolled sum's next step, read before this one is done */
	int64_t early;   /* of an unrolled loop, what all its steps compute before their turn; within `steps` */
	int64_t steps;   /* tiles of an unrolled loop's other steps, which can start early */
} Kept;

/* Independent parts of a value: what its dims before the last two count. */
static int64_t batch_of(const Plan *plan, NodeId n) {
	int64_t shape[DIM_MAX] = {0}, batch = 1;
	uint32_t rank = plan_shape(plan, n, plan->values[n].form, shape);
	for (uint32_t i = 0; i + 2 < rank; i++)
		batch *= int_max(shape[i], 1);
	return batch;
}

int64_t last_size(const Plan *plan, NodeId n) {
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank = plan_shape(plan, n, plan->values[n].form, shape);
	return rank ? shape[rank - 1] : 1;
}

/* ---- positions -------------------------------------------------------------------------------------------------- */

/* A matmul, or an unrolled loop with one: straight code too. */
static bool multiplies(const Region *r, uint32_t pos) {
	if (how_of(r, pos) != LOWER_LOOP)
		return how_of(r, pos) == LOWER_MATMUL;
	GraphId body = node_arg(r->p->m, r->nodes[pos], 0)->graph;
	if (r->p->plan->loops.at[r->p->plan->loop_of[body]].type != LOOP_UNROLL)
		return false;
	for (NodeId n = graph_first(r->p->m, body); n != NONE; n = node_get(r->p->m, n)->next)
		if (op_lowering(node_get(r->p->m, n)->op) == LOWER_MATMUL)
			return true;
	return false;
}

static void region_nodes(Region *r) {
	Module *m = r->p->m;
	for (NodeId n = graph_first(m, r->graph); n != NONE; n = node_get(m, n)->next)
		r->count++;
	r->nodes = arena_array(r->p->a, r->count + 2, sizeof *r->nodes);
	r->until = arena_array(r->p->a, r->count + 2, sizeof *r->until);
	r->barriers = arena_array(r->p->a, r->count + 2, sizeof *r->barriers);
	r->carried = arena_array(r->p->a, r->count + 2, sizeof *r->carried);
	r->frontier = arena_array(r->p->a, r->count + 2, sizeof *r->frontier);
	uint32_t pos = 1;
	for (NodeId n = graph_first(m, r->graph); n != NONE; n = node_get(m, n)->next, pos++) {
		r->nodes[pos] = n;
		r->at[n] = pos;
	}
	bool lanes = false, rows = false;
	for (pos = 1; pos <= r->count; pos++) {
		r->barriers[pos + 1] = r->barriers[pos] + lowering_is_barrier(how_of(r, pos));
		r->stores = r->stores || how_of(r, pos) == LOWER_STORE;
		r->multiplies = r->multiplies || multiplies(r, pos);
		uint32_t rank = how_of(r, pos) == LOWER_REDUCE ? value_rank(r->p, node_input(m, r->nodes[pos], 0)) : 0;
		bool along = rank >= 2 && (reduction_dims(m, r->nodes[pos]) >> (rank - 1) & 1);
		lanes = lanes || along;
		rows = rows || (rank >= 2 && !along);
	}
	r->both_ways = lanes && rows;
}

bool region_crosses(const Region *r, uint32_t pos) {
	return r->until[pos] > pos && r->barriers[r->until[pos]] > r->barriers[pos + 1];
}

uint32_t position(const Region *r, NodeId n) {
	n = value_root(r->p->plan, n);
	return node_get(r->p->m, n)->graph == r->graph ? r->at[n] : 0;
}

static void push_refs(Region *r, const Arg *a) {
	if (a->kind == ARG_REF)
		vec_push(r->p->a, &r->refs, ((RegionRef){value_root(r->p->plan, a->node), position(r, a->node)}));
	for (uint32_t i = 0; arg_is_list(a) && i < a->list.count; i++)
		push_refs(r, arg_get(r->p->m, a->list.first + i));
}

/* Flat, for they are walked a dozen times. */
static void region_refs(Region *r) {
	r->ref_first = arena_array(r->p->a, r->count + 2, sizeof *r->ref_first);
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Node *node = node_get(r->p->m, r->nodes[pos]);
		for (uint32_t i = 0; i < node->arg_count; i++)
			push_refs(r, arg_get(r->p->m, node->arg_first + i));
		r->ref_first[pos + 1] = r->refs.count;
	}
}

void each_operand(Region *r, uint32_t user, Visit *visit) {
	for (uint32_t i = r->ref_first[user]; i < r->ref_first[user + 1]; i++)
		visit(r, user, r->refs.at[i]);
}

static void read_until(Region *r, uint32_t user, RegionRef operand) {
	uint32_t pos = operand.pos;
	/* What streams is computed where it is read. */
	bool through = lowering_streams(how_of(r, user)) && !region_crosses(r, user) && r->until[user] > user;
	/* A loop reads its arguments until its last step. */
	uint32_t last = through ? r->until[user] : user + (how_of(r, user) == LOWER_LOOP);
	if (pos && r->until[pos] < last)
		r->until[pos] = last;
}

static void mark_carried(Region *r, uint32_t user, RegionRef operand) {
	uint32_t pos = operand.pos;
	r->carried[user] = r->carried[user] || (pos && r->carried[pos]);
}

/* What does not depend on the step before, but is read by what does. */
static void mark_frontier(Region *r, uint32_t user, RegionRef operand) {
	uint32_t pos = operand.pos;
	if (pos && r->carried[user] && !r->carried[pos])
		r->frontier[pos] = true;
}

static bool is_carry(const Region *r, NodeId n) {
	return node_get(r->p->m, n)->op == OP_PLACEHOLDER && r->p->plan->values[n].same_as == NONE;
}

static void region_flow(Region *r) {
	for (uint32_t pos = r->count; pos >= 1; pos--)
		if (r->p->plan->values[r->nodes[pos]].same_as == NONE)
			each_operand(r, pos, read_until);
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		r->carried[pos] = is_carry(r, r->nodes[pos]);
		each_operand(r, pos, mark_carried);
	}
	for (uint32_t pos = 1; pos <= r->count; pos++)
		each_operand(r, pos, mark_frontier);
}

/* ---- the peak --------------------------------------------------------------------------------------------------- */

static int64_t weigh(const Target *t, const Kept *h) {
	const TargetSpills *s = &t->spills;
	int64_t bytes = h->tiles * s->tiles + h->columns * s->columns + h->loads * s->loads + h->results * s->results +
	                h->parts * s->parts + h->factors * s->factors + h->ahead * int_max(100 - s->factors, 0) +
	                h->steps * s->steps;
	return bytes / 100;
}

bool is_plain_load(const Region *r, uint32_t pos) {
	return how_of(r, pos) == LOWER_LOAD && r->p->plan->values[r->nodes[pos]].mask_count == 0;
}

static bool read_by_loop(const Region *r, NodeId n) {
	const Module *m = r->p->m;
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use)
		if (op_lowering(node_get(m, arg_get(m, u)->user)->op) == LOWER_LOOP)
			return true;
	return false;
}

/* A choice that a loop reads, as the factor of a matmul: the compiler hands the mask to the matrix unit, and keeps it
 * beside the value, as 32-bit elements (read from its schedule of squeeze-and-excitation backward). */
static int64_t mask_beside(const Region *r, uint32_t pos) {
	const Module *m = r->p->m;
	NodeId n = r->nodes[pos], chosen = n;
	while (chosen != NONE && node_get(m, chosen)->op == OP_CONVERT)
		chosen = value_root(r->p->plan, node_input(m, chosen, 0));
	if (chosen == NONE || node_get(m, chosen)->op != OP_WHERE || !read_by_loop(r, n))
		return 0;
	return spilled_size(r->p->plan, node_input(m, chosen, 0));
}

static void held_add(const Region *r, Kept *h, uint32_t pos, int64_t sign) {
	int64_t bytes = sign * held_bytes(r, pos);
	h->tiles += sign * mask_beside(r, pos);
	if (is_plain_load(r, pos))
		h->loads += bytes;
	else if (last_size(r->p->plan, r->nodes[pos]) <= r->p->m->target->lanes)
		h->columns += bytes;
	else
		h->tiles += bytes;
}

/* Of a step of an unrolled loop, before the step it follows is done. A column is there twice: as the step reduced it,
 * and joined to the carried one. */
static int64_t early_bytes(const Region *r, uint32_t pos) {
	if (is_plain_load(r, pos))
		return 0;
	return held_bytes(r, pos) * (last_size(r->p->plan, r->nodes[pos]) == 1 ? 2 : 1);
}

static int64_t parts_of(const Planner *p, NodeId n) {
	int64_t bytes = 0;
	if ((DotPrecision)p->m->config.dot_precision.value == DOT_DEFAULT)
		return 0;
	for (int i = 0; i < 2; i++) {
		NodeId x = matmul_operand(p->m, n, i);
		if (node_type(p->m, x)->dtype != DTYPE_F32)
			return 0;
		bytes += spilled_size(p->plan, x);
	}
	return bytes;
}

/* Tiles of float8 that a matmul reads are widened to bfloat16 on the way, where its result does not stream back. */
static int64_t widened_of(const Planner *p, NodeId n) {
	int64_t bytes = 0;
	for (int i = 0; i < 2; i++) {
		NodeId x = matmul_operand(p->m, n, i);
		Dtype d = node_type(p->m, x)->dtype;
		bytes += d == DTYPE_F8E4M3 || d == DTYPE_F8E5M2 ? 2 * spilled_size(p->plan, x) : 0;
	}
	return bytes;
}

static Kept region_peak(Planner *p, GraphId g, uint32_t *at, bool *reduced, int64_t *beside);

/* A scratch carry is read where it lies. */
static bool in_scratch(const Region *r, NodeId n) {
	uint32_t l = r->p->plan->loop_of[r->graph];
	const Graph *g = graph_get(r->p->m, r->graph);
	if (l == NONE)
		return false;
	const Loop *loop = &r->p->plan->loops.at[l];
	for (uint32_t i = 0; i < loop->carries.count; i++)
		if (g->placeholders.at[loop->carries.at[i].arg] == n)
			return loop->carries.at[i].place == CARRY_SCRATCH;
	return false;
}

/* Straight code to the compiler: the matmul's result is there whole before it is added to what is carried. */
static bool one_step(const Loop *loop) {
	return loop->rank == 1 && !loop->dim[0].computed && loop->dim[0].full_steps + (loop->dim[0].tail != 0) <= 1;
}

/* A matmul's sum that the loop's steps hand on. */
static bool accumulates(const Region *r, uint32_t pos, bool unrolled) {
	uint32_t l = r->p->plan->loop_of[r->graph];
	const Graph *g = graph_get(r->p->m, r->graph);
	if (l == NONE || matmul_operand(r->p->m, r->nodes[pos], 2) == NONE)
		return false;
	const Loop *loop = &r->p->plan->loops.at[l];
	if (!unrolled && one_step(loop))
		return false;
	for (uint32_t i = 0; i < loop->carries.count && (loop->type == LOOP_UNROLL) == unrolled; i++)
		if (position(r, graph_result(r->p->m, g, loop->carries.at[i].output)) == pos)
			return true;
	return false;
}

/* A sum of matmuls alone, in straight code. */
static bool adds_straight_on(const Region *r, uint32_t pos) {
	return accumulates(r, pos, true) &&
	       is_carry(r, value_root(r->p->plan, matmul_operand(r->p->m, r->nodes[pos], 2)));
}

/* What a scratch buffer of this region hands to one of a loop in it goes through registers whole, in and out, in
 * float32 where that is what it is computed in. */
static int64_t copied_bytes(const Region *r, NodeId call) {
	const Module *m = r->p->m;
	const Loop *inner = &r->p->plan->loops.at[r->p->plan->loop_of[node_arg(m, call, 0)->graph]];
	const Arg *args = node_arg(m, call, 3);
	int64_t bytes = 0;
	for (uint32_t i = 0; i < inner->carries.count; i++) {
		const Arg *a = arg_item(m, args, inner->carries.at[i].arg);
		NodeId from = a->kind == ARG_REF ? value_root(r->p->plan, a->node) : NONE;
		if (inner->carries.at[i].place != CARRY_SCRATCH || from == NONE || !in_scratch(r, from))
			continue;
		int64_t wider = int_max(32 / dtype_vmem_bits(node_type(m, from)->dtype), 1);
		bytes += 4 * wider * spilled_size(r->p->plan, from);
	}
	return bytes;
}

/* Straight code that reduces along lanes and along rows walks its tiles in two directions: what streams into a
 * reduction of rows is there whole, and a quarter of the next (fitted to layer-norm backward, 8 to 128 rows of 10240).
 */
static int64_t other_way_bytes(const Region *r, uint32_t pos) {
	const Module *m = r->p->m;
	NodeId n = r->nodes[pos], x = node_input(m, n, 0);
	uint32_t last = value_rank(r->p, x) - 1;
	if (!r->both_ways || value_rank(r->p, x) < 2 || (reduction_dims(m, n) >> last & 1))
		return 0;
	uint32_t from = position(r, x);
	return from && lowering_streams(how_of(r, from)) && !region_crosses(r, from) ? held_bytes(r, from) * 5 / 4 : 0;
}

/* Rows of a matmul's result less what they were reduced to, squared and summed up: the row and its squares are more
 * than the registers hold, and the results come column by column, so that squares of other rows wait. Measured for (c *
 * c).sum(-1), c = x @ y - mean, of 32 to 256 rows: 46% to 67% of the tile for 4096 columns, 72% to 82% for 8192,
 * nothing for 3584, nor of an exponential, nor of what is loaded. */
static int64_t squares_bytes(const Region *r, uint32_t pos) {
	const Target *t = r->p->m->target;
	NodeId x = value_root(r->p->plan, node_input(r->p->m, r->nodes[pos], 0));
	uint32_t from = position(r, x);
	int64_t registers = last_size(r->p->plan, x) / t->lanes;
	bool waits = from && r->multiplies && r->waits[from] && !region_crosses(r, from);
	if (!waits || registers < 32 || !lowering_streams(how_of(r, from)) || node_get(r->p->m, x)->op == OP_EXP)
		return 0;
	return held_bytes(r, from) * (registers >= 64 ? 80 : t->bf16_vpu ? 65 : 45) / 100;
}

/* A result that streams back; in int32 a quarter more is under way (fitted to int8 products on v7x). */
static int64_t streamed_bytes(const Region *r, NodeId n) {
	int64_t bytes = spilled_size(r->p->plan, n);
	return node_type(r->p->m, n)->dtype == DTYPE_I32 ? bytes / 4 * 5 : bytes;
}

/* Loads that meet a tile which waits as they do are kept, where such tiles of 32 bits are. */
static int64_t kept_loads(const Region *r, uint32_t pos, int64_t loads) {
	const TargetSpills *s = &r->p->m->target->spills;
	return r->met[AFTER(pos)] ? loads * int_max(s->late - s->loads, 0) / 100 : 0;
}

/* A ragged last step stands after its loop and has spill slots of its own: what the step holds, of the elements that
 * are not masked away (read from the schedule of GRPO's loss on v5e: 359 slots in the loop, 224 after it, 62 of them in
 * both: the carried columns). */
static int64_t tail_spills(const Planner *p, const Loop *loop, const Kept *step) {
	const LoopDim *d = &loop->dim[0];
	if (!loop->peeled || loop->type == LOOP_UNROLL || loop->rank != 1 || d->step <= 0)
		return 0;
	Kept own = *step;
	own.columns = 0;
	return int_max(weigh(p->m->target, &own) / d->step * d->tail - SPARE_BYTES, 0);
}

static Kept barrier_held(Region *r, uint32_t pos, const Kept *across) {
	NodeId n = r->nodes[pos];
	Kept h = *across;
	Lowering how = how_of(r, pos);
	h.tiles += r->late[AFTER(pos)] + r->late_load[AFTER(pos)] + kept_loads(r, pos, h.loads);
	if (how == LOWER_REDUCE)
		h.tiles += other_way_bytes(r, pos) + squares_bytes(r, pos);
	if (how == LOWER_MATMUL) {
		bool adds = accumulates(r, pos, false); /* it streams back as it is computed */
		h.results += adds ? streamed_bytes(r, n) : 0;
		h.tiles += adds ? 0 : spilled_size(r->p->plan, n);
		h.parts += parts_of(r->p, n) + (adds ? 0 : widened_of(r->p, n));
		NodeId left = matmul_operand(r->p->m, n, 0);
		h.factors += spilled_size(r->p->plan, left) / batch_of(r->p->plan, left);
		h.ahead += adds_straight_on(r, pos) ? spilled_size(r->p->plan, left) / batch_of(r->p->plan, left) : 0;
	}
	if (how == LOWER_LOOP) {
		GraphId body = node_arg(r->p->m, n, 0)->graph;
		Kept in = region_peak(r->p, body, r->at, r->reduced, r->beside);
		*r->beside += tail_spills(r->p, &r->p->plan->loops.at[r->p->plan->loop_of[body]], &in);
		h.tiles += in.tiles + copied_bytes(r, n);
		h.columns += in.columns;
		h.loads += in.loads;
		h.results += in.results;
		h.parts += in.parts;
		h.factors += in.factors;
		h.ahead += in.ahead;
		h.early = in.early;
		h.steps += in.steps;
	}
	return h;
}

/* What the other steps of an unrolled loop compute before their turn; `early` is one step's, of which `own` is not that
 * of loops in it. Steps of an unrolled loop in an unrolled loop are steps of both. */
static void add_steps(const Loop *loop, int64_t early, int64_t own, Kept *h) {
	int64_t steps = loop->dim[0].full_steps + (loop->dim[0].tail != 0), bytes;
	h->early = 0;
	if (loop->type != LOOP_UNROLL || steps <= 0)
		return;
	h->early = checked_mul(early, steps, &bytes) ? int_min(bytes, TOO_MUCH) : TOO_MUCH;
	h->steps = int_max(h->steps, h->early - own);
}

/* The ragged last step runs after the loop, and hands what it carries on as values. */
static void add_tail(const Region *r, const Loop *loop, Kept *h) {
	const Graph *g = graph_get(r->p->m, r->graph);
	for (uint32_t i = 0; i < loop->carries.count && loop->peeled; i++)
		held_add(r, h, r->at[g->placeholders.at[loop->carries.at[i].arg]], 1);
}

/* A tile that is reduced and stored, and no step hands on: the reductions of all steps of an unrolled loop come late,
 * and each step's tile waits for its own (fitted to JS divergence, 16 steps on v7x). */
static bool waits_for_sums(const Region *r, uint32_t pos) {
	return r->stores && region_crosses(r, pos) && !r->carried[pos] &&
	       last_size(r->p->plan, r->nodes[pos]) > r->p->m->target->lanes;
}

static Kept region_peak(Planner *p, GraphId g, uint32_t *at, bool *reduced, int64_t *beside) {
	Region r = {.p = p, .graph = g, .at = at, .reduced = reduced, .beside = beside};
	Kept across = {0}, peak = {0};
	int64_t early = 0, own = 0;
	region_nodes(&r);
	region_refs(&r);
	region_flow(&r);
	region_late(&r);
	peak.tiles = r.late[OUTSIDE] + r.late_load[OUTSIDE];
	Kept *ends = arena_array(p->a, r.count + 2, sizeof *ends);
	for (uint32_t pos = 1; pos <= r.count; pos++) {
		if (lowering_is_barrier(how_of(&r, pos))) {
			Kept here = barrier_held(&r, pos, &across);
			early += here.early;
			if (weigh(p->m->target, &here) > weigh(p->m->target, &peak))
				peak = here;
		}
		across.tiles -= ends[pos].tiles;
		across.columns -= ends[pos].columns;
		across.loads -= ends[pos].loads;
		own += r.frontier[pos] || waits_for_sums(&r, pos) ? early_bytes(&r, pos) : 0;
		if (!region_crosses(&r, pos) || in_scratch(&r, r.nodes[pos]))
			continue;
		Kept *end = &ends[r.until[pos]];
		held_add(&r, &across, pos, 1);
		held_add(&r, end, pos, 1);
	}
	uint32_t l = p->plan->loop_of[g];
	if (l != NONE) {
		add_steps(&p->plan->loops.at[l], int_min(early + own, TOO_MUCH), own, &peak);
		add_tail(&r, &p->plan->loops.at[l], &peak);
	}
	return peak;
}

/* Beside the rest of its step a skewed loop has the factors of what it computes ahead in bfloat16 parts (of float8, a
 * quarter more), and what it hands on again: the last step of a fori_loop, and a ragged one, stand after the loop and
 * spill on their own. Of unrolled steps about half of what waits longer than a step is spilled beside what they have
 * anyway. */
static int64_t skew_spills(Planner *p, const Loop *loop) {
	int64_t bytes = 0, parts = 0;
	for (uint32_t i = 0; i < loop->handed.count; i++)
		bytes += loop->handed.at[i].bytes;
	if (loop->skewed && loop->type == LOOP_UNROLL)
		return bytes / 2 * (loop->ahead - 1);
	for (NodeId n = graph_first(p->m, loop->graph); n != NONE && loop->skewed; n = node_get(p->m, n)->next)
		if (p->plan->values[n].ahead && op_lowering(node_get(p->m, n)->op) == LOWER_MATMUL)
			parts += parts_of(p, n) + widened_of(p, n) * 5 / 4;
	return (loop->peeled || loop->type == LOOP_FORI ? bytes : bytes / 2) + parts;
}

int64_t plan_spills(Planner *p) {
	uint32_t *at = arena_array(p->a, p->m->nodes.count, sizeof *at);
	bool *reduced = arena_array(p->a, p->m->nodes.count, sizeof *reduced);
	int64_t beside = 0;
	Kept h = region_peak(p, p->plan->root, at, reduced, &beside);
	int64_t skewed = 0;
	for (uint32_t l = 0; l < p->plan->loops.count; l++)
		skewed += skew_spills(p, &p->plan->loops.at[l]);
	return int_max(weigh(p->m->target, &h) - SPARE_BYTES, columns_spills(p)) + beside + skewed + streams_spills(p) +
	       int_max(moves_spills(p) - SPARE_BYTES, 0);
}
