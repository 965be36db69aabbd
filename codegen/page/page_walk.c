/* page_walk.c - what a kernel's grid and its loops bring when, for the first grid points and steps, and the estimates
 * of both. */
#include "page_parts.h"
#include "codegen/costs/costs.h"

/* So many points and steps are shown. */
enum { POINTS_SHOWN = 64, STEPS_SHOWN = 12 };

/* Where the kernel is: a grid point, and a step of the loop `loop`, NONE of none; loops around it are at their first.
 */
typedef struct Moment {
	const Plan *plan;
	int64_t *at;
	uint32_t loop;
	int64_t step[RANK_MAX];
} Moment;

/* False where a table or a computed int decides. */
static bool affine_now(const Moment *now, const Affine *a, int64_t *value) {
	*value = a->constant;
	for (uint32_t i = 0; i < a->count; i++) {
		const Term *t = &a->term[i];
		int64_t variable = 0;
		if (t->kind == VAR_PROGRAM)
			variable = now->at[t->id];
		else if (t->kind == VAR_STEP)
			variable = t->id / RANK_MAX == now->loop ? now->step[t->id % RANK_MAX] : 0;
		else
			return false;
		*value += term_value(t, variable);
	}
	return true;
}

/* The last dim moves first; walked back and forth, it runs backwards in odd steps of the one before it. */
static void point_set(Moment *now, int64_t point) {
	const Plan *p = now->plan;
	uint32_t last = p->grid.count - 1;
	for (uint32_t k = p->grid.count; k-- > 0;) {
		now->at[k] = point % p->grid.at[k].steps;
		point /= p->grid.at[k].steps;
	}
	if (p->back_and_forth && now->at[last - 1] % 2)
		now->at[last] = p->grid.at[last].steps - 1 - now->at[last];
}

static void put_ints(Text *out, uint32_t count, const int64_t *values) {
	text_put(out, "[");
	for (uint32_t i = 0; i < count; i++)
		text_printf(out, i ? ", %lld" : "%lld", (long long)values[i]);
	text_put(out, "]");
}

/* ---- the grid --------------------------------------------------------------------------------------------------- */

/* The place of an operand's block, in blocks; false where it is not known before the kernel runs. */
static bool block_now(const Moment *now, const Operand *o, int64_t *block) {
	for (uint32_t d = 0; d < o->rank; d++) {
		if (!affine_now(now, &o->index[d], &block[d]))
			return false;
		if (o->clamped >> d & 1)
			block[d] = int_min(int_max(block[d], 0), int_cdiv(o->shape[d], o->block[d]) - 1);
		if (o->parts > 1 && d == o->part_dim)
			block[d] /= o->parts;
	}
	return true;
}

/* By point: its block, null where a table decides; and whether it is another one than at the point before. */
static void put_operand_walk(Moment *now, uint32_t index, int64_t shown, Text *out) {
	const Operand *o = &now->plan->operands.at[index];
	int64_t before[DIM_MAX] = {0}, block[DIM_MAX] = {0};
	Text moves;
	text_init(&moves, out->arena);
	text_put(out, "{\"ref\": ");
	text_put_json(out, o->ref);
	text_printf(out, ", \"input\": %s, \"output\": %s, \"blocks\": [", o->input ? "true" : "false",
	            o->output ? "true" : "false");
	for (int64_t i = 0; i < shown; i++) {
		point_set(now, i);
		bool known = block_now(now, o, block);
		text_put(out, i ? ", " : "");
		text_put(&moves, i ? ", " : "");
		if (known)
			put_ints(out, o->rank, block);
		else
			text_put(out, "null");
		bool moved = i == 0 || memcmp(block, before, o->rank * sizeof *block) != 0;
		text_put(&moves, known ? moved ? "true" : "false" : "null");
		memcpy(before, block, sizeof before);
	}
	text_printf(out, "], \"moves\": [%s]}", moves.length ? moves.at : "");
}

void page_put_walk(const Plan *plan, Text *out) {
	Moment now = {.plan = plan, .loop = NONE};
	now.at = arena_array(out->arena, plan->grid.count + 1, sizeof *now.at);
	double points = grid_points(plan);
	int64_t shown = points < POINTS_SHOWN ? (int64_t)points : POINTS_SHOWN;
	bool any = false;
	text_put(out, "\"walk\": {\"points\": ");
	text_printf(out, "%.0f, \"at\": [", points);
	for (int64_t i = 0; i < shown; i++) {
		point_set(&now, i);
		text_put(out, i ? ", " : "");
		put_ints(out, plan->grid.count, now.at);
	}
	text_put(out, "], \"operands\": [");
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (plan->operands.at[i].space == SPACE_WINDOW) {
			text_put(out, any ? ", " : "");
			put_operand_walk(&now, i, shown, out);
			any = true;
		}
	text_put(out, "]}");
}

/* ---- loops ------------------------------------------------------------------------------------------------------ */

/* Steps that a loop runs; of one whose bounds are computed, -1. */
static int64_t steps_of_loop(const Loop *l) {
	int64_t steps = 1;
	for (uint32_t i = 0; i < l->rank; i++)
		if (l->dim[i].computed || !checked_mul(steps, l->dim[i].full_steps + (l->dim[i].tail != 0), &steps))
			return -1;
	return steps;
}

static void step_set(Moment *now, const Loop *l, int64_t step) {
	for (uint32_t d = l->rank; d-- > 0;) {
		int64_t steps = l->dim[d].computed ? INT64_MAX : l->dim[d].full_steps + (l->dim[d].tail != 0);
		now->step[d] = step % int_max(steps, 1);
		step /= int_max(steps, 1);
	}
}

/* In units of the window; false where it starts between two, or a computed int decides. */
static bool window_now(const Moment *now, const Window *w, uint32_t rank, int64_t *block) {
	for (uint32_t d = 0; d < rank; d++)
		if (!affine_now(now, &w->index[d], &block[d]) || w->start[d].count || w->start[d].constant)
			return false;
	return true;
}

/* Steps that a window is read early: of a skewed loop by what it computes ahead. */
static int64_t read_ahead(const Loop *l, const Window *w) { return l->skewed && w->ahead ? int_max(l->ahead, 1) : 0; }

/* `steps`: those that are shown, and those whose windows are there by then. */
static void put_window_walk(Moment *now, const Loop *l, const Window *w, int64_t steps, Text *out) {
	const Operand *o = &now->plan->operands.at[w->operand];
	int64_t block[DIM_MAX] = {0}, ahead = read_ahead(l, w);
	text_put(out, "{\"ref\": ");
	text_put_json(out, w->ref);
	text_put(out, ", \"operand\": ");
	text_put_json(out, o->ref);
	text_printf(out, ", \"input\": %s, \"output\": %s, \"dma\": %s, \"buffers\": %d, ", w->input ? "true" : "false",
	            w->output ? "true" : "false", w->dma ? "true" : "false", w->dma ? w->buffers : 0);
	text_printf(out, "\"ahead\": %lld, \"behind\": %s, \"blocks\": [", (long long)ahead,
	            !ahead || w->behind ? "true" : "false");
	for (int64_t i = 0; i < steps; i++) {
		step_set(now, l, i);
		text_put(out, i ? ", " : "");
		if (window_now(now, w, o->rank, block))
			put_ints(out, o->rank, block);
		else
			text_put(out, "null");
	}
	text_put(out, "]}");
}

static void put_seconds(Text *out, const char *key, double seconds) {
	text_printf(out, "%s: ", key);
	text_put_double(out, seconds);
}

static void put_step_times(Plan *plan, uint32_t l, Text *out) {
	Planner p = {.plan = plan, .m = plan->module, .a = plan->arena};
	StepTimes t = plan_step_times(&p, l);
	put_seconds(out, "{\"matmul\"", t.matmul);
	put_seconds(out, ", \"read\"", t.read);
	put_seconds(out, ", \"hidden\"", t.hidden);
	put_seconds(out, ", \"shown\"", t.shown);
	put_seconds(out, ", \"between\"", t.between);
	put_seconds(out, ", \"overlap\"", t.overlap);
	put_seconds(out, ", \"latency\"", t.latency);
	text_put(out, "}");
}

static void put_point_times(Plan *plan, Text *out) {
	Planner p = {.plan = plan, .m = plan->module, .a = plan->arena};
	PointTimes t = plan_point_times(&p);
	put_seconds(out, "\"seconds\"", plan->seconds);
	put_seconds(out, ", \"point\": {\"matmul\"", t.matmul);
	put_seconds(out, ", \"read\"", t.read);
	put_seconds(out, ", \"wait\"", t.wait);
	put_seconds(out, ", \"between\"", t.between);
	put_seconds(out, ", \"gathers\"", t.gathers);
	put_seconds(out, ", \"one_hot\"", t.one_hot);
	put_seconds(out, ", \"point\"", t.point);
	put_seconds(out, ", \"first\"", t.first);
	put_seconds(out, ", \"next\"", t.next);
	put_seconds(out, ", \"shown\"", t.shown);
	text_put(out, "}, ");
}

void page_put_times(Plan *plan, Text *out) {
	put_point_times(plan, out);
	text_put(out, "\"loops\": [");
	for (uint32_t l = 0; l < plan->loops.count; l++) {
		const Loop *loop = &plan->loops.at[l];
		Moment now = {.plan = plan, .loop = l};
		now.at = arena_array(out->arena, plan->grid.count + 1, sizeof *now.at);
		int64_t steps = steps_of_loop(loop);
		int64_t shown = steps < 0 ? 4 : int_min(steps, STEPS_SHOWN);
		text_put(out, l ? ", {\"name\": " : "{\"name\": ");
		text_put_json(out, loop->name);
		text_printf(out, ", \"steps\": %lld, \"shown\": %lld, \"times\": ", (long long)steps, (long long)shown);
		put_step_times(plan, l, out);
		text_put(out, ", \"windows\": [");
		for (uint32_t i = 0; i < loop->windows.count; i++) {
			text_put(out, i ? ", " : "");
			const Window *w = &loop->windows.at[i];
			int64_t walked = shown + read_ahead(loop, w) + w->buffers;
			put_window_walk(&now, loop, w, steps < 0 ? walked : int_min(walked, steps), out);
		}
		text_put(out, "]}");
	}
	text_put(out, "]");
}
