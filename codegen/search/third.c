/* third.c - a third buffer of the grid's windows, and of those that loops copy. With two, a point's blocks start to
 * come when the point before it starts, behind what the one before that gives: where copies take about as long as what
 * a point computes, HBM is idle for the latency of a copy at every other point. With three they start a point earlier:
 *
 *     HBM, two     in 2 out 0|idle|in 3 out 1|idle|        HBM, three   in 3 out 0 in 4 out 1 in 5 out 2
 *     core           point 1     |  point 2     |          core            point 1   point 2   point 3
 *
 * jax: "Only single (1) and double (2) buffering are supported" of the grid's own pipeline. So the grid becomes a loop
 * in the kernel (rewrite_grid_loop.c), or a pipeline (rewrite_pipelined.c), which one core runs. In them libtpu makes
 * fewer bundles of the same statements, too, where some reach across lanes. Taken where the time of the core says that
 * it saves enough, or where such a point computes about as long as HBM copies, and VMEM has room. */
#include "search.h"
#include "codegen/core/core.h"
#include "codegen/costs/costs.h"
#include "codegen/place/place.h"
#include "codegen/rewrite/rewrite.h"
#include "codegen/vmem/vmem.h"
#include "src/config/config.h"

enum {
	THIRD = 3,
	LEAST_POINTS = 4,
	LEAST_CYCLES = 20000 /* of a shorter kernel `auto` saves less than its launch takes */
};
/* By the time of the core: of kernels that it says less of some gain nothing (docs/passes/third_buffers.md). */
#define SAVES_AT_LEAST 1.038
/* By the profiler: a product of rows, which on v7x computes 1.9 times as long as HBM copies, takes 9% more with three;
 * a rotary embedding whose tables are a fifth of what comes, again and again, 29 and 52% (v6e, v7x). */
#define COMPUTES_MUCH 1.6
#define MUCH_AGAIN 0.1
/* By the profiler: 128 rows of softmax's gradient are 1,525 bundles at a grid point and 1,211 in the kernel's pipeline.
 * Of 36 kernels on v7x and 18 on v6e those that use the cross-lane unit and compute at least so long take up to 16%
 * less, one 1.1% more; the others between 0.4% less and 0.5% more. */
#define COMPUTES_LITTLE 0.4

/* ON: somewhere three are asked for; OFF: other counts are. */
static Switch asked(const Planner *p) {
	const ConfigList *given = &p->m->config.load_buffer_count;
	bool any = false;
	for (uint32_t i = 0; i < given->values.count; i++)
		any = any || given->values.at[i] == THIRD;
	return !given->set ? SWITCH_AUTO : any ? SWITCH_ON : SWITCH_OFF;
}

/* Its block is another one at each point, and three of them are wanted. */
static bool gains_third(Planner *p, const Operand *o) {
	return !o->output && o->space == SPACE_WINDOW && o->buffers == 2 &&
	       (double)o->fetches >= grid_points(p->plan) &&
	       (asked(p) == SWITCH_AUTO || input_buffers(p, o->tensor) == THIRD);
}

bool operand_is_plain(const Operand *o) {
	bool bits = operand_fuses(o) && o->dtype == DTYPE_F16; /* the kernel takes them as XLA makes them */
	bool copied = o->held && o->held->initial == INITIAL_COPY;
	return o->space == SPACE_WINDOW && !o->clamped && !copied && !o->ahead && !bits &&
	       (!o->output || o->alias_of == NONE) && !(o->input && o->output);
}

bool points_only_compute(const Plan *plan) {
	return !plan->places.count && !plan->kept_bytes && !plan->remote && plan->kernel && !plan->kernel->mesh_axis;
}

/* Why the grid's own pipeline stays; NULL: it need not. */
static const char *why_two(Planner *p) {
	const Plan *plan = p->plan;
	bool any = false;
	if (p->m->target->tensorcores > 1)
		return "cores share the grid";
	if (!points_only_compute(plan))
		return "a point does more than compute on its blocks";
	if (plan->back_and_forth || plan->grid.count > RANK_MAX || grid_points(plan) < LEAST_POINTS)
		return "its points are too few, or not walked in order";
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		if (!operand_is_plain(&plan->operands.at[i]))
			return arena_printf(p->a, "%s is not only copied block by block", plan->operands.at[i].ref);
		any = any || gains_third(p, &plan->operands.at[i]);
	}
	return any ? NULL : "no input of three has another block at each point";
}

/* In the plan, and in its kernel. */
static void set_buffers(Plan *plan, uint32_t i, int count) {
	Operand *o = &plan->operands.at[i];
	o->buffers = count;
	for (BufferId b = 0; b < plan->kernel->buffers.count; b++)
		if (plan->kernel->buffers.at[b].name == o->ref)
			plan->kernel->buffers.at[b].buffers = count;
}

void plan_walk_in_order(Plan *plan, const char *why) {
	for (uint32_t k = 0; k < plan->grid.count; k++) {
		if (!plan->grid.at[k].parallel)
			continue;
		plan->grid.at[k].parallel = plan->kernel->grid.at[k].parallel = false;
		plan->grid.at[k].why = why;
	}
}

void plan_fuse_nothing(Planner *p) {
	for (uint32_t i = 0; i < p->plan->operands.count; i++)
		p->plan->operands.at[i].fused = false;
	for (BufferId b = 0; p->plan->kernel && b < p->plan->kernel->buffers.count; b++)
		p->plan->kernel->buffers.at[b].fused = false;
	plan_vmem(p->plan, p->m, false);
}

double operand_block_bits(const Operand *o) {
	double bits = dtype_bits(o->dtype);
	for (uint32_t d = 0; d < o->rank; d++)
		bits *= (double)o->block[d];
	return bits;
}

/* Blocks of some come several times, and are much of what is copied: the grid may walk back and forth instead. */
static bool much_comes_again(const Plan *plan) {
	double again = 0, all = 0;
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		const Operand *o = &plan->operands.at[i];
		double blocks = 1;
		for (uint32_t d = 0; d < o->rank; d++)
			blocks *= (double)int_cdiv(o->shape[d], o->block[d]);
		again += ((double)o->fetches - blocks) * operand_block_bits(o);
		all += (double)o->fetches * operand_block_bits(o);
	}
	return again > MUCH_AGAIN * all;
}

/* Of what points give, where the grid becomes a loop (rewrite_grid_loop.c). */
static void set_outputs(Planner *p, int count) {
	Plan *plan = p->plan;
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (plan->operands.at[i].output && (double)plan->operands.at[i].fetches >= grid_points(plan))
			set_buffers(plan, i, count);
	plan_vmem(plan, p->m, false);
}

static CoreTime time_with(Planner *p, const bool *third, int count) {
	Plan *plan = p->plan;
	CoreTime time;
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (third[i])
			set_buffers(plan, i, count);
	int outputs = points_have_blocks(plan->kernel) ? count : THIRD - 1;
	set_outputs(p, outputs);
	if (outputs == THIRD && plan->vmem.total > plan_vmem_line(plan))
		set_outputs(p, THIRD - 1);
	plan_time(plan, p->a, &time);
	return time;
}

static bool pays(const CoreTime *two, const CoreTime *three) {
	bool fewer_bundles = two->busy[UNIT_XLU] > 0 && two->compute >= COMPUTES_LITTLE * two->hbm;
	return two->cycles >= LEAST_CYCLES && two->compute <= COMPUTES_MUCH * two->hbm &&
	       (fewer_bundles || three->cycles * SAVES_AT_LEAST <= two->cycles);
}

static bool refuse(Planner *p, const char *why) {
	if (!p->way.trial)
		diag_error(p->d, config_place(&p->m->config.load_buffer_count.origin), "unsupported-config",
		           "give it 1 or 2",
		           "pallas_load_buffer_count: 3 windows, but the grid's pipeline keeps 1 or 2: %s", why);
	return false;
}

/* Tables name its blocks, each for a run of points: rewrite_runs.c copies those of the next runs. */
static bool is_named(const Operand *o) { return o->ahead && o->buffers > 1; }

/* A run of results is a run of some inputs, too, and of those a third buffer would gain nothing: the other one is free
 * for all of a run, which others cut in pieces. */
static bool named_gains(Planner *p, const Operand *o) {
	Kernel *k = p->plan->kernel;
	if (asked(p) == SWITCH_ON)
		return input_buffers(p, o->tensor) == THIRD;
	for (BufferId b = 0; b < k->buffers.count; b++)
		if (k->buffers.at[b].name == o->ref)
			return !results_come_with(k, b);
	return false;
}

static void remark_named(Planner *p) {
	for (uint32_t i = 0; i < p->plan->operands.count; i++)
		if (p->plan->operands.at[i].ahead)
			plan_remark(
				p->plan,
				"%s: a table names its blocks: the kernel copies them for runs of points, %d at once",
				p->plan->operands.at[i].ref, p->plan->operands.at[i].buffers);
}

static bool third_of_named(Planner *p) {
	Plan *plan = p->plan;
	for (int count = asked(p) == SWITCH_OFF ? 1 : THIRD; count > 1; count--) {
		for (uint32_t i = 0; i < plan->operands.count; i++)
			if (is_named(&plan->operands.at[i]) && named_gains(p, &plan->operands.at[i]))
				set_buffers(plan, i, count);
		plan_vmem(plan, p->m, false);
		if (plan->vmem.total <= plan_vmem_line(plan))
			break;
		if (asked(p) == SWITCH_ON)
			return refuse(p, "they do not fit VMEM");
	}
	remark_named(p);
	return true;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* Of two windows each; it has so many steps that a third one helps. */
static bool copies_by_two(const Loop *loop) {
	bool copies = false, two = loop->type != LOOP_UNROLL && !loop->paired && !loop->across;
	int64_t steps = 1;
	for (uint32_t d = 0; d < loop->rank; d++)
		steps *= loop->dim[d].computed ? 0 : loop->dim[d].full_steps;
	for (uint32_t i = 0; i < loop->windows.count; i++) {
		const Window *w = &loop->windows.at[i];
		copies = copies || window_comes(w);
		two = two && (!window_comes(w) || w->buffers == 2);
	}
	return copies && two && steps >= THIRD;
}

static void set_windows(Planner *p, Loop *loop, int count) {
	for (uint32_t i = 0; i < loop->windows.count; i++)
		if (window_comes(&loop->windows.at[i]))
			plan_window_buffers(p->plan, &loop->windows.at[i], count);
	p->plan->kernel = NULL; /* it said another count */
	if (p->plan->left)      /* it is nearly the same kernel once more */
		++*p->plan->left;
	plan_vmem(p->plan, p->m, false);
}

void plan_third_windows(Planner *p) {
	Plan *plan = p->plan;
	for (uint32_t l = 0; l < plan->loops.count && asked(p) == SWITCH_AUTO; l++) {
		Loop *loop = &plan->loops.at[l];
		CoreTime two, three;
		if (!copies_by_two(loop))
			continue;
		plan_time(plan, p->a, &two);
		if (two.cycles < LEAST_CYCLES || two.waits * SAVES_AT_LEAST < two.cycles * (SAVES_AT_LEAST - 1))
			continue;
		set_windows(p, loop, THIRD);
		plan_time(plan, p->a, &three);
		if (three.cycles * SAVES_AT_LEAST <= two.cycles && plan->vmem.total <= plan_vmem_line(plan))
			plan_remark(plan,
			            "a third buffer of the windows that a loop copies: about %.0f cycles, not %.0f",
			            three.cycles, two.cycles);
		else
			set_windows(p, loop, THIRD - 1);
	}
}

bool plan_third(Planner *p) {
	Plan *plan = p->plan;
	Switch wanted = asked(p);
	bool named = false;
	if (module_has_loops(p->m))
		return true;
	for (uint32_t i = 0; i < plan->operands.count; i++)
		named = named || is_named(&plan->operands.at[i]);
	if (named || wanted == SWITCH_OFF)
		return !named || third_of_named(p);
	const char *why = why_two(p);
	if (why)
		return wanted == SWITCH_AUTO || refuse(p, why);
	bool *third = arena_array(p->a, plan->operands.count, sizeof *third);
	for (uint32_t i = 0; i < plan->operands.count; i++)
		third[i] = gains_third(p, &plan->operands.at[i]);
	CoreTime two = time_with(p, third, THIRD - 1), three = time_with(p, third, THIRD);
	bool fits = plan->vmem.total <= plan_vmem_line(plan);
	if (wanted == SWITCH_ON && !fits)
		return refuse(p, "they do not fit VMEM");
	if (wanted == SWITCH_AUTO && (!fits || !pays(&two, &three) || much_comes_again(plan))) {
		time_with(p, third, THIRD - 1);
		return true;
	}
	plan_walk_in_order(plan, "one core copies the blocks of two points ahead");
	plan_fuse_nothing(p);
	plan_remark(plan, "a third buffer of the blocks that each point reads: about %.0f cycles, not %.0f",
	            three.cycles, two.cycles);
	return true;
}
