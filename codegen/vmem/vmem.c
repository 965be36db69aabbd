/* vmem.c - the VMEM model: what the kernel will hold at once, by owner, known before anything is printed. */
#include "live.h"
#include "vmem.h"
#include "codegen/build/build.h"
#include "codegen/loops/loops.h"
#include "codegen/rewrite/rewrite.h"

static int64_t add_bytes(int64_t a, int64_t b) { return a > INT64_MAX / 4 - b ? INT64_MAX / 4 : a + b; }

/* ---- windows ---------------------------------------------------------------------------------------------------- */

/* Steps of grid dim i on one core: where the cores share a grid, they do so along its only dim of several steps. */
static int64_t steps_on_core(const Plan *plan, uint32_t i) {
	const Target *t = plan->module->target;
	int64_t cores = t->splits_grid && plan->grid.at[i].parallel ? t->tensorcores : 1;
	for (uint32_t k = 0; k < plan->grid.count; k++)
		if (k != i && plan->grid.at[k].steps > 1)
			cores = 1;
	return int_cdiv(plan->grid.at[i].steps, cores);
}

static bool moves(const Plan *plan, const Affine *index) {
	for (uint32_t i = 0; i < plan->grid.count; i++)
		if (steps_on_core(plan, i) > 1 && index_moves(plan, index, i))
			return true;
	return false;
}

/* The compiler keeps one buffer of a window that is the same at every grid point, whatever was asked for. */
static int64_t operand_bytes(const Planner *p, const Operand *o) {
	bool moving = false;
	if (o->space != SPACE_WINDOW)
		return 0;
	for (uint32_t i = 0; i < o->rank; i++)
		moving = moving || moves(p->plan, &o->index[i]);
	int buffers = (moving ? o->buffers : 1) +
	              2 * operand_fuses(o); /* XLA's pipeline brings it, and makes the kernel's of it */
	return buffers * vmem_bytes(p->m->target, o->dtype, o->rank, o->block);
}

static bool brings_ahead(const Plan *plan) {
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (plan->operands.at[i].ahead && plan->operands.at[i].buffers > 1)
			return !plan->back_and_forth;
	return false;
}

/* Outputs of a list of work, which the plan holds whole, come in blocks of one position, two at a time. */
static void cut_outputs(Plan *plan) {
	Kernel *k = brings_ahead(plan) ? plan_kernel(plan) : NULL;
	for (BufferId b = 0; k && b < k->buffers.count; b++) {
		int64_t blocks = pipelined_blocks(k, b);
		for (uint32_t i = 0; blocks && i < plan->operands.count; i++)
			if (plan->operands.at[i].ref == k->buffers.at[b].name)
				plan->operands.at[i].bytes = 2 * (plan->operands.at[i].bytes / blocks);
	}
}

/* ---- windows of loops ------------------------------------------------------------------------------------------- */

static bool loop_runs(const Loop *loop) {
	for (uint32_t i = 0; i < loop->rank; i++)
		if (!loop->dim[i].computed && loop->dim[i].full_steps == 0 && (loop->peeled || loop->dim[i].tail == 0))
			return false;
	return true;
}

/* emit_pipeline keeps one buffer of an array that its window covers whole, and none if the loop is only its tail. */
static int64_t inner_bytes(const Plan *plan, const Loop *loop, const Window *win) {
	const Operand *o = &plan->operands.at[win->operand];
	bool whole = loop->type == LOOP_EMIT_PIPELINE;
	if (!loop_runs(loop))
		return 0;
	for (uint32_t i = 0; i < o->rank; i++)
		whole = whole && win->block[i] == o->shape[i];
	return whole && win->buffers > 0 ? win->bytes / win->buffers : win->bytes;
}

/* The buffers of fori_loop are scratch, there from start to end; those of emit_pipeline go with it, so that loops one
 * after the other share the space. */
static int64_t loops_bytes(Planner *p) {
	const Plan *plan = p->plan;
	int64_t *within = arena_array(p->a, plan->loops.count + 1, sizeof *within), kept = 0;
	int64_t *top = &within[plan->loops.count];
	for (uint32_t l = plan->loops.count; l-- > 0;) {
		const Loop *loop = &plan->loops.at[l];
		int64_t bytes = 0;
		for (uint32_t i = 0; i < loop->windows.count; i++)
			bytes = add_bytes(bytes, inner_bytes(plan, loop, &loop->windows.at[i]));
		if (loop->type == LOOP_EMIT_PIPELINE)
			within[l] = add_bytes(within[l], bytes);
		else
			kept = add_bytes(kept, bytes);
		int64_t *around = loop->parent == NONE ? top : &within[loop->parent];
		*around = int_max(*around, within[l]);
	}
	return add_bytes(kept, *top);
}

/* Of a loop that runs once, what is stored and read again as whole registers never reaches its scratch buffer. */
static bool passes_once(const Loop *loop) {
	const LoopDim *d = &loop->dim[0];
	return loop->rank == 1 && !d->computed && d->full_steps + (d->tail != 0) <= 1;
}

static bool in_whole_tiles(const Target *t, const Scratch *s) {
	return s->rank >= 2 && s->shape[s->rank - 1] % t->lanes == 0 && s->shape[s->rank - 2] % t->sublanes == 0;
}

/* Of a scratch that may not be there. */
static int64_t scratch_bytes(const Plan *plan, uint32_t scratch) {
	return scratch < plan->scratches.count ? plan->scratches.at[scratch].bytes : 0;
}

/* What skewed loops hand from step to step, and from point to point. */
static int64_t handed_bytes(const Plan *plan) {
	int64_t bytes = 0;
	for (uint32_t l = 0; l < plan->loops.count; l++) {
		for (uint32_t i = 0; i < plan->loops.at[l].kept.count; i++)
			bytes = add_bytes(bytes, scratch_bytes(plan, plan->loops.at[l].kept.at[i].scratch));
		for (uint32_t i = 0; i < plan->loops.at[l].handed.count; i++)
			if (plan->loops.at[l].handed.at[i].scratch != NONE)
				bytes = add_bytes(bytes, plan->loops.at[l].handed.at[i].bytes *
				                                 (1 + plan->loops.at[l].paired));
	}
	return bytes;
}

static int64_t carries_bytes(const Plan *plan) {
	int64_t bytes = 0;
	for (uint32_t l = 0; l < plan->loops.count; l++) {
		const Loop *loop = &plan->loops.at[l];
		for (uint32_t i = 0; i < loop->carries.count; i++) {
			const Carry *c = &loop->carries.at[i];
			if (c->place != CARRY_SCRATCH)
				continue;
			const Scratch *s = &plan->scratches.at[c->scratch];
			if (!passes_once(loop) || !in_whole_tiles(plan->module->target, s))
				bytes = add_bytes(bytes, s->bytes);
		}
	}
	bytes = add_bytes(bytes, handed_bytes(plan));
	for (uint32_t i = 0; i < plan->places.count; i++) {
		const Places *s = &plan->places.at[i];
		bytes = add_bytes(bytes, scratch_bytes(plan, s->rows));
		bytes = add_bytes(bytes, scratch_bytes(plan, s->masks));
		bytes = add_bytes(bytes, scratch_bytes(plan, s->expected));
		bytes = add_bytes(bytes, scratch_bytes(plan, s->old));
		bytes = add_bytes(bytes, scratch_bytes(plan, s->groups));
		bytes = add_bytes(bytes, scratch_bytes(plan, s->numbers));
		bytes = add_bytes(bytes, scratch_bytes(plan, s->last));
		for (uint32_t k = 0; k < s->count; k++)
			bytes = add_bytes(bytes, s->of[k].shared ? 0 : scratch_bytes(plan, s->of[k].vmem));
	}
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		const Operand *o = &plan->operands.at[i];
		if (o->held)
			bytes = add_bytes(bytes, scratch_bytes(plan, o->held->accumulator));
	}
	return bytes;
}

int64_t plan_vmem_line(const Plan *p) { return vmem_line(p->vmem_limit, p->module->target->vmem_margin); }

/* Room for an error of the estimate; the rest of VMEM is left to XLA, but where `pallas_whole_vmem` says otherwise. As
 * much again and 4 MiB: beyond vmem_most(), for one of many permutations of bytes takes 1.7 times its estimate of 11
 * MiB. Whole MiB, so that small changes of the estimate leave it. */
static int64_t asked_bytes(const Plan *p) {
	const int64_t mib = 1 << 20;
	if ((Switch)p->module->config.whole_vmem.value == SWITCH_ON)
		return p->vmem_limit;
	return int_min(p->vmem_limit, int_cdiv(add_bytes(p->vmem.total, p->vmem.total + 4 * mib), mib) * mib);
}

/* Buffers may still be given up: the kernel is the same, but for their counts. */
static int64_t plan_spills(Plan *plan) {
	if (plan->spills < 0) {
		plan->kernel = plan_kernel(plan);
		plan->spills = kernel_spills(plan->kernel, plan->module->target, plan->arena);
		plan->doubt = kernel_doubt(plan->kernel);
	}
	return plan->spills;
}

static bool has_third(const Plan *plan) {
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (plan->operands.at[i].space == SPACE_WINDOW && plan->operands.at[i].buffers > 2)
			return true;
	return false;
}

/* In 32 bits, of a load that strips make; of other nodes 0. */
static int64_t strip_load_bytes(const Strips *s, const Module *m, NodeId n) {
	if (node_get(m, n)->dead || node_get(m, n)->op != OP_LOAD || !s->inside[n])
		return 0;
	const Type *t = node_type(m, n);
	int64_t tile = 4;
	for (uint32_t d = 0; d < t->count; d++)
		tile *= expr_number(m, t->dims[d]);
	return tile;
}

/* Where the grid is a pipeline in the kernel (third.c), the compiler may keep, in 32 bits, what one run over the strips
 * of a tile loads for the next, which loads it again: of RMS norm in blocks of [64, 8192] 1.7 MiB, of a softmax none.
 */
static int64_t loaded_again(const Plan *plan, const Module *m) {
	const Strips *s = plan->strips;
	int64_t bytes = 0;
	if (!s || !has_third(plan))
		return 0;
	for (NodeId n = 0; n < m->nodes.count; n++) {
		bool again = (s->computed[n] & (s->computed[n] - 1)) != 0;
		bytes = add_bytes(bytes, again ? strip_load_bytes(s, m, n) : 0);
	}
	return bytes;
}

/* Whole rows in place of a loop, gone through once before their sum: of what the strips compute as much as a tile in 32
 * bits is kept in all, as of JS divergence in blocks of [64, 32768], 8 MiB (v7x). */
static int64_t kept_by_rows(const Plan *plan, const Module *m) {
	const Strips *s = plan->strips;
	int64_t most = 0;
	for (NodeId n = 0; s && m->whole_rows && s->phases == 2 && n < m->nodes.count; n++)
		most = int_max(most, strip_load_bytes(s, m, n));
	return most;
}

/* Of tiles of so many lanes that a step hands to the next the compiler spills up to three quarters once more, as
 * libtpu 0.0.51 reports of attention with 2048 turned rows of Q: 0 to 5.7 of 8 MiB, more where K and V are copied. */
enum { MANY_LANES = 2048 };

static int64_t spilled_by_chains(const Plan *plan) {
	int64_t most = 0;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		for (uint32_t i = 0; i < plan->loops.at[l].handed.count; i++) {
			const Handed *h = &plan->loops.at[l].handed.at[i];
			const Scratch *s = h->scratch == NONE ? NULL : &plan->scratches.at[h->scratch];
			if (s && s->rank && s->shape[s->rank - 1] >= MANY_LANES)
				most = int_max(most, s->bytes);
		}
	return most / 4 * 3;
}

void plan_vmem(Plan *plan, const Module *m, bool all) {
	Planner p = {.plan = plan, .m = m, .a = plan->arena};
	VmemUse *v = &plan->vmem;
	*v = (VmemUse){0};
	for (uint32_t i = 0; i < plan->operands.count; i++)
		plan->operands.at[i].bytes = operand_bytes(&p, &plan->operands.at[i]);
	cut_outputs(plan);
	for (uint32_t i = 0; i < plan->operands.count; i++)
		v->windows = add_bytes(v->windows, plan->operands.at[i].bytes);
	v->inner = loops_bytes(&p);
	v->scratch = add_bytes(add_bytes(carries_bytes(plan), strips_bytes(plan)), plan->staging_bytes);
	plan->vmem_limit = m->target->vmem_bytes;
	int64_t buffers = add_bytes(add_bytes(v->windows, v->inner), v->scratch);
	int64_t spills = all || buffers < plan_vmem_line(plan) ? plan_spills(plan) : 0;
	spills = add_bytes(spills, add_bytes(loaded_again(plan, m), spilled_by_chains(plan)));
	spills = add_bytes(spills, kept_by_rows(plan, m));
	if (has_third(plan)) /* a layer norm over planes of [1024, 1024] takes 14% more in the kernel's loop */
		spills = add_bytes(spills, spills / 5);
	if (m->fenced) /* two of docs/coverage.md take 1% more than is counted otherwise */
		spills = add_bytes(spills, spills / 8);
	int64_t kept = add_bytes(add_bytes(plan->kept_bytes, plan->piece_bytes), plan->turned_bytes);
	kept = add_bytes(kept, plan->first_bytes);
	v->scratch = add_bytes(v->scratch, kept);
	buffers = add_bytes(buffers, kept);
	v->intermediates = spills + margin_bytes(m->target, plan->doubt, buffers, spills);
	v->total = add_bytes(buffers, v->intermediates);
	plan->vmem_asked = asked_bytes(plan);
}
