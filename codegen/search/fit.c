/* fit.c - makes the kernel fit the target's VMEM, or says what would.
 *
 * The pipeline keeps two windows of an array, so that one is copied while the other is used. Where that is too much,
 * arrays whose windows are copied least often give up the second one, one after another until the kernel fits: what a
 * copy costs is then waited for, but seldom. K and V of attention move once per head, Q and the result with every grid
 * point. Counts that the configuration gives to inputs are kept. */
#include "search.h"
#include "codegen/costs/costs.h"
#include "codegen/vmem/vmem.h"
#include "src/config/config.h"
#include "src/verify/verify.h"

/* ---- giving up second buffers ----------------------------------------------------------------------------------- */

/* Something that keeps more than one buffer: a window of the grid (loop NONE), or of a loop. */
typedef struct Buffered {
	uint32_t operand, loop, window;
	double copies; /* over the whole kernel */
	int64_t bytes;
} Buffered;

static bool better(const Buffered *a, const Buffered *b) {
	if (a->operand == NONE || b->operand == NONE)
		return b->operand == NONE && a->operand != NONE;
	return a->copies < b->copies || (a->copies == b->copies && a->bytes > b->bytes);
}

static void consider(Buffered *best, Buffered candidate) {
	if (better(&candidate, best))
		*best = candidate;
}

/* The configuration gives no count of its own; a block that several steps change is held as it is; of a window that
 * never moves the compiler keeps one buffer in any case. */
static bool may_give_up(const Planner *p, const Operand *o) {
	if (o->bytes <= vmem_bytes(p->m->target, o->dtype, o->rank, o->block))
		return false;
	return o->output ? !o->input && !o->held : !p->m->config.load_buffer_count.set;
}

/* The window whose second buffer is given up first; operand NONE if there is none. */
static Buffered cheapest(Planner *p) {
	const Plan *plan = p->plan;
	Buffered best = {.operand = NONE};
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		const Operand *o = &plan->operands.at[i];
		if (o->space == SPACE_WINDOW && o->buffers > 1 && may_give_up(p, o))
			consider(&best, (Buffered){i, NONE, NONE, (double)operand_fetches(plan, o), o->bytes});
	}
	for (uint32_t l = 0; l < plan->loops.count; l++)
		for (uint32_t i = 0; i < plan->loops.at[l].windows.count; i++) {
			const Window *w = &plan->loops.at[l].windows.at[i];
			if (window_comes(w) && w->buffers > 1 && !p->m->config.load_buffer_count.set &&
			    (!plan->skewed || (Switch)p->m->config.loop_skew.value == SWITCH_ON))
				consider(&best, (Buffered){w->operand, l, i, loop_copies(p, l), w->bytes});
		}
	return best;
}

static void keep_one(Plan *plan, const Buffered *b) {
	plan->kernel = NULL; /* it said two */
	Operand *o = &plan->operands.at[b->operand];
	const char *name = plan->module->tensors.at[o->tensor].name;
	if (b->loop == NONE) {
		o->buffers = 1;
		o->why = arena_printf(plan->arena, "%s; one buffer, for two would not fit", o->why);
	} else {
		plan_window_buffers(plan, &plan->loops.at[b->loop].windows.at[b->window], 1);
		plan->loops.at[b->loop].across = false;
	}
	plan_remark(plan, "%s: one buffer of its windows, not two: they would not fit; its %.0f copies are waited for",
	            name, b->copies);
}

static bool fits(Planner *p) {
	plan_vmem(p->plan, p->m, false);
	return p->plan->vmem.total <= plan_vmem_line(p->plan);
}

bool plan_may_give_up(Planner *p) { return cheapest(p).operand != NONE; }

bool plan_fit(Planner *p) {
	while (!fits(p)) {
		Buffered b = cheapest(p);
		if (b.operand == NONE || !way_is(p, ROW_BUFFERS, BUFFERS_FEWER))
			return false;
		keep_one(p->plan, &b);
	}
	return true;
}

/* ---- what would fit --------------------------------------------------------------------------------------------- */

/* Other configurations are searched on a copy of the module, as long as kernels may be lowered. */
typedef struct Trials {
	Planner *p;
	Module *m; /* the copy */
	int64_t *left;
} Trials;

static bool configured(Trials *t) {
	Diag quiet;
	diag_init(&quiet, t->p->a);
	return (!t->left || *t->left > 0) && module_configure(t->m, &quiet) && module_verify(t->m, &quiet);
}

static Verdict trial(Trials *t, LoopType type) {
	return configured(t) ? plan_frugal_fits(t->p->a, t->m, type, t->left) : NOT_TAKEN;
}

static bool fits_somehow(Trials *t, LoopType type) {
	Search *s = configured(t) ? search_of_type(t->p->a, t->m, type, t->left) : NULL;
	return s && search_plan(s);
}

static bool type_fits(Trials *t, LoopType type, bool somehow) {
	return type != way_type(t->p) && (somehow ? fits_somehow(t, type) : trial(t, type) == FITS);
}

/* The next smaller size to try: each of a few, then powers of two. */
static int64_t smaller(int64_t size) {
	int64_t power = 1;
	if (size <= 17)
		return size - 1;
	while (power * 2 < size)
		power *= 2;
	return power;
}

/* The largest size of a chosen block with which the kernel fits, all else as it is; 0: none. What is refused for other
 * reasons than VMEM is too small: not aligned. */
static int64_t largest_fitting(Trials *t, uint32_t chosen) {
	int64_t *size = &t->m->config.block_sizes.values.at[chosen], asked = *size, ladder[64], found = 0;
	uint32_t count = 0, low = 0;
	for (int64_t v = smaller(asked); v > 0; v = smaller(v))
		ladder[count++] = v;
	while (low < count) {
		uint32_t middle = (low + count) / 2;
		*size = ladder[middle];
		Verdict v = trial(t, way_type(t->p));
		found = v == FITS ? ladder[middle] : found;
		if (v == TOO_LARGE)
			low = middle + 1;
		else
			count = middle;
	}
	*size = asked;
	return found;
}

static void trials_start(Trials *t, Planner *p) {
	*t = (Trials){.p = p, .m = module_clone(p->m, p->a), .left = p->way.left};
	ConfigList *sizes = &t->m->config.block_sizes;
	sizes->set = true;
	sizes->values.count = 0;
	for (BlockId b = 0; b < t->m->blocks.count; b++)
		if (block_is_chosen(&t->m->blocks.at[b]))
			vec_push(p->a, &sizes->values, p->m->narrowed.at[b].size);
}

static void put_way(Text *out, const char *way) { text_printf(out, "%s%s", out->length ? ", or " : "", way); }

/* What to change: the loop types that fit, and for each block alone the largest size that does. What fits in the way
 * that takes little VMEM is found first: one plan for each type. */
static const char *ways_to_fit(Planner *p) {
	Trials t;
	Text out;
	uint32_t chosen = 0;
	Text names;
	text_init(&names, p->a);
	bool fits[LOOP_EMIT_PIPELINE + 1] = {false};
	trials_start(&t, p);
	text_init(&out, p->a);
	for (LoopType type = LOOP_FORI; type <= LOOP_EMIT_PIPELINE && p->plan->loops.count; type++)
		fits[type] = type_fits(&t, type, false);
	for (BlockId b = 0; b < t.m->blocks.count; b++) {
		if (!block_is_chosen(&t.m->blocks.at[b]))
			continue;
		int64_t size = largest_fitting(&t, chosen++);
		text_printf(&names, "%s%s", names.length ? ", " : "", t.m->blocks.at[b].name);
		if (size)
			put_way(&out, arena_printf(p->a, "%s at most %lld", t.m->blocks.at[b].name, (long long)size));
	}
	for (LoopType type = LOOP_FORI; type <= LOOP_EMIT_PIPELINE && p->plan->loops.count; type++)
		if (fits[type] || type_fits(&t, type, true))
			put_way(&out, arena_printf(p->a, "pallas_loop_type %s", loop_type_name(type)));
	if (out.length)
		return arena_printf(p->a, "these fit: %s", out.at);
	if (chosen == 1)
		return arena_printf(p->a,
		                    "no size of %s fits: each step takes other dims whole; cut one with a tile in the "
		                    "kernel's source",
		                    names.at);
	return chosen ? arena_printf(p->a, "no smaller value of one block alone fits; make several of %s smaller",
	                             names.at)
	              : "no block size is to be chosen that could be smaller: each step takes whole dims; cut one with "
	                "a "
	                "tile in the kernel's source";
}

/* ---- the refusal ------------------------------------------------------------------------------------------------ */

/* VMEM of all windows of one tensor. */
static int64_t tensor_bytes(const Plan *plan, TensorId tensor) {
	int64_t bytes = 0;
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (plan->operands.at[i].tensor == tensor)
			bytes += plan->operands.at[i].bytes;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		for (uint32_t i = 0; i < plan->loops.at[l].windows.count; i++)
			if (plan->operands.at[plan->loops.at[l].windows.at[i].operand].tensor == tensor)
				bytes += plan->loops.at[l].windows.at[i].bytes;
	return bytes;
}

/* The two tensors with the largest windows. */
static const char *largest_tensors(const Plan *plan) {
	const Module *m = plan->module;
	TensorId first = NONE, second = NONE;
	for (TensorId t = 0; t < m->tensors.count; t++) {
		int64_t bytes = tensor_bytes(plan, t);
		if (bytes > 0 && (first == NONE || bytes > tensor_bytes(plan, first)))
			second = first, first = t;
		else if (bytes > 0 && (second == NONE || bytes > tensor_bytes(plan, second)))
			second = t;
	}
	if (first == NONE)
		return "";
	const char *one = arena_printf(plan->arena, "; windows of %s take %lld", m->tensors.at[first].name,
	                               (long long)tensor_bytes(plan, first));
	if (second == NONE)
		return one;
	return arena_printf(plan->arena, "%s, of %s %lld", one, m->tensors.at[second].name,
	                    (long long)tensor_bytes(plan, second));
}

/* Percent of VMEM above which a kernel is refused for sure: the model's error. */
enum { UNCERTAIN = 7 };

/* The largest margin, in whole percent, with which it would be accepted; below -UNCERTAIN: none. */
static int accepting_margin(const Plan *plan) {
	int percent = 99;
	while (percent >= -UNCERTAIN && plan->vmem.total > vmem_line(plan->vmem_limit, percent))
		percent--;
	return percent;
}

static const char *needs_text(Planner *p) {
	const Plan *plan = p->plan;
	const VmemUse *v = &plan->vmem;
	int64_t limit = plan->vmem_limit, line = plan_vmem_line(plan);
	const char *of = line == limit ? "" : arena_printf(p->a, ", of which it may take %lld", (long long)line);
	return arena_printf(p->a,
	                    "%s needs %lld bytes of VMEM and %s has %lld%s: windows %lld, inner buffers %lld, scratch "
	                    "%lld, intermediates %lld%s",
	                    p->m->is_part ? p->m->name : "the kernel", (long long)v->total, p->m->target->name,
	                    (long long)limit, of, (long long)v->windows, (long long)v->inner, (long long)v->scratch,
	                    (long long)v->intermediates, largest_tensors(plan));
}

void plan_refuse_vmem(Planner *p) {
	plan_vmem(p->plan, p->m, true);
	const ConfigList *sizes = &p->m->config.block_sizes;
	Place place = sizes->set ? config_place(&sizes->origin) : diag_place(p->d, p->m->source, "/config");
	const char *hint = p->d->brief ? NULL : ways_to_fit(p), *needs = needs_text(p);
	int margin = accepting_margin(p->plan);
	if (margin < -UNCERTAIN)
		diag_error(p->d, place, "vmem", hint, "%s", needs);
	else
		diag_error(p->d, place, "vmem-uncertain", hint, "uncertain, a --vmem-margin of %d accepts it: %s",
		           margin, needs);
}

bool refused_for_vmem(const Diagnostic *d) {
	return strcmp(d->code, "vmem") == 0 || strcmp(d->code, "vmem-uncertain") == 0;
}
