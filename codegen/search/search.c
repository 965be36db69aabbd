/* search.c - the best way to plan a kernel: the rows of scope PLAN in choices.def.
 *
 * Each way gives a value to every row. What the configuration settles has one value; of the others each is drafted, and
 * its time estimated (plan_seconds()). The fastest draft is made to fit VMEM, and is taken if it does: what that takes
 * never makes a plan faster, so no other can win. Of equals the first is taken.
 *
 *     STEPS LOOPED   WINDOWS COPIED    PAIRS TWO    12.1 us   3. fits: taken
 *                    WINDOWS RESIDENT  PAIRS TWO    11.0 us   1. does not fit
 *                                      PAIRS NONE   11.9 us   2. does not fit
 *     STEPS STRAIGHT WINDOWS RESIDENT  PAIRS TWO    13.7 us
 *
 * Of some loops that comparison says too little of straight code (straight.c): the fastest such draft, and the fastest
 * of the others, become kernels, and their estimates are compared.
 *
 * The values of the rows TILES, SKEW, PAIRS and BUFFERS stand from the fastest on, by the estimate: the next one is
 * drafted only if the one before does not fit. Few drafts become kernels, which is what takes time: one, mostly. */
#include "search.h"
#include "codegen/core/core.h"
#include "codegen/costs/costs.h"
#include "codegen/loops/loops.h"
#include "codegen/vmem/vmem.h"
#include <math.h>

/* A GRPO loss, of which the estimate saves 1%, takes 23% longer by the profiler (a vocabulary of 32000, v6e). */
#define TIME_SAVES_AT_LEAST 1.02

/* Straight code in place of loops, where the estimates of both kernels tell: of VMEM it takes at most, or leaves room
 * for so much of its spills again, for those of many steps are predicted less well, and how much code it is. libtpu
 * compiles 20,000 bundles in 8 to 10 s. */
#define STRAIGHT_HOLDS_AT_MOST 0.75
#define STRAIGHT_SPILLS_AGAIN 0.5
#define STRAIGHT_CYCLES_A_POINT 24e3
/* What steps without a matmul spill beyond loops is predicted less well: 18 MiB of a GRPO loss were 9. */
#define STRAIGHT_SPILLS_AT_MOST (5 << 20)

typedef struct Draft {
	PlanWay way;
	Plan *plan;        /* NULL: it was refused, ... */
	const char *wrong; /* ... because of this */
	bool complete;
	double bound; /* the seconds of the draft */
} Draft;

struct Search {
	Arena *a;
	Module *m;
	LoopType type; /* that is asked for */
	PlanWay way;
	const Plan *plan; /* of this way, once there is one */
	VEC(Draft) drafts;
	/* what drafts so far have shown */
	const Plan *best; /* the fastest one; NULL */
	bool results_may_stay, may_also_stay, may_hold_all, may_be_straight, fori_copies, may_copy_rows;
	bool all; /* nothing is left out */
};

/* ---- what stands to choose --------------------------------------------------------------------------------------- */

static const Config *config_of(const Search *s) { return &s->m->config; }

static bool is_straight(const Search *s) { return s->way.at[ROW_STEPS] == STEPS_STRAIGHT; }
/* Steps behind fences are straight code, on resident blocks. */
static Switch fori_dma(const Search *s) { return s->m->fenced ? SWITCH_OFF : (Switch)config_of(s)->fori_dma.value; }
static bool must_pair(const Search *s) { return (Switch)config_of(s)->step_pairs.value == SWITCH_ON; }

static bool holds_all(const Search *s) { return group_holds_all(s->m, s->type); }

static bool legal_default_type(const Search *s) { return s->type == LOOP_DEFAULT; }
static bool legal_unroll(const Search *s) { return s->type == LOOP_UNROLL; }
static bool legal_fori(const Search *s) { return s->type == LOOP_FORI; }
static bool legal_pipeline(const Search *s) { return s->type == LOOP_EMIT_PIPELINE; }

static bool legal_strips(const Search *s) {
	return (Switch)config_of(s)->column_strips.value != SWITCH_OFF && !module_has_loops(s->m);
}

static bool legal_whole_tiles(const Search *s) {
	return (Switch)config_of(s)->column_strips.value != SWITCH_ON || module_has_loops(s->m);
}

static bool legal_loops(const Search *s) { return (Switch)config_of(s)->straight_loops.value != SWITCH_ON; }

static bool legal_straight(const Search *s) {
	Switch asked = (Switch)config_of(s)->straight_loops.value;
	return asked == SWITCH_ON || (asked == SWITCH_AUTO && s->may_be_straight && !s->m->fenced);
}

static bool legal_copied(const Search *s) { return !is_straight(s) && fori_dma(s) != SWITCH_OFF && !holds_all(s); }

static bool legal_resident(const Search *s) {
	if (is_straight(s))
		return true;
	return !holds_all(s) &&
	       (fori_dma(s) == SWITCH_OFF || (fori_dma(s) == SWITCH_AUTO && (s->fori_copies || !s->best)));
}

static bool may_keep(const Search *s) {
	return !is_straight(s) && !holds_all(s) && fori_dma(s) != SWITCH_ON && !s->m->fenced && s->best;
}

static bool legal_kept(const Search *s) { return may_keep(s) && s->best->may_stay; }
static bool legal_also_kept(const Search *s) { return may_keep(s) && s->may_also_stay; }
static bool legal_all_kept(const Search *s) { return may_keep(s) && s->results_may_stay; }

static bool legal_of_all_steps(const Search *s) {
	return !is_straight(s) && (holds_all(s) || (s->may_hold_all && !config_of(s)->emit_pipeline_group_size.set));
}

static IndirectMode indirect_mode(const Search *s) { return (IndirectMode)config_of(s)->indirect_access_mode.value; }
static bool legal_sliced(const Search *s) { return indirect_mode(s) != INDIRECT_DMA; }

static bool legal_copied_rows(const Search *s) {
	return indirect_mode(s) == INDIRECT_DMA || (indirect_mode(s) != INDIRECT_ONE_HOT && s->may_copy_rows);
}

/* Of loops that nobody skews these are all the same. */
static bool legal_skew(const Search *s) {
	(void)s;
	return true;
}

static bool legal_no_skew(const Search *s) {
	const Config *c = config_of(s);
	bool unrolls = s->type == LOOP_UNROLL || is_straight(s);
	return !must_pair(s) && (Switch)c->loop_skew.value != SWITCH_ON && !(unrolls && c->matmul_ahead.value > 0);
}

static bool legal_pairs(const Search *s) { return s->way.at[ROW_SKEW] == SKEW_AHEAD; }
static bool legal_no_pairs(const Search *s) { return !must_pair(s); }

static bool legal_buffers(const Search *s) {
	(void)s;
	return true;
}

/* Whole tiles before single buffers; blocks that are resident for being copied beside a point's work need two. */
static bool legal_fewer_buffers(const Search *s) {
	if (s->plan && s->plan->stays_for_time)
		return false;
	return !s->plan || !s->plan->strips || (Switch)config_of(s)->column_strips.value != SWITCH_AUTO;
}

#define VALUE_MODULE(...)
#define VALUE_PLAN(row, name, legal, words) [row##_##name] = legal_##legal,
#define CHOICE(scope, row, key)
#define VALUE(scope, row, name, legal, words) VALUE_##scope(row, name, legal, words)
static bool (*const legal[VALUE_COUNT])(const Search *s) = {
#include "choices.def"
};
#undef CHOICE
#undef VALUE

/* The first legal value of a row of scope PLAN from v on; VALUE_COUNT: none. */
static ChoiceValue legal_from(const Search *s, ChoiceRow row, ChoiceValue v) {
	for (; v < VALUE_COUNT && choice_values[v].row <= row; v++)
		if (choice_values[v].row == row && legal[v] && legal[v](s))
			return v;
	return VALUE_COUNT;
}

static ChoiceValue first_value(const Search *s, ChoiceRow row) { return legal_from(s, row, 0); }
static ChoiceValue next_value(const Search *s, ChoiceRow row) { return legal_from(s, row, s->way.at[row] + 1); }

/* ---- one way ----------------------------------------------------------------------------------------------------- */

static void learn(Search *s, const Plan *plan) {
	if (!s->best || plan->seconds < s->best->seconds)
		s->best = plan;
	s->results_may_stay |= plan->results_may_stay;
	s->may_also_stay |= plan->may_also_stay;
	s->may_hold_all |= plan->may_hold_all;
	s->may_be_straight |= plan->may_be_straight;
	s->may_copy_rows |= plan->may_copy_rows;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		s->fori_copies |= plan->loops.at[l].type == LOOP_FORI && plan->loops.at[l].dma;
}

/* An emit_pipeline that was asked for stays one, unless its steps overlap without. */
static bool keeps_type(const Search *s, const Plan *plan) {
	return s->way.at[ROW_WINDOWS] != WINDOWS_OF_ALL_STEPS || plan->skewed || holds_all(s) ||
	       !config_of(s)->loop_type.set;
}

static bool keeps_fences(const Search *s, const Plan *plan) {
	bool all = plan->loops.count > 0;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		all = all && plan->loops.at[l].fenced;
	return all || !s->m->fenced;
}

static void draft(Search *s) {
	Diag quiet;
	diag_init(&quiet, s->a);
	s->way.other = s->best;
	Draft new = {.way = s->way, .plan = plan_draft(s->a, s->m, &quiet, s->way)};
	if (new.plan)
		learn(s, new.plan);
	else
		new.wrong = quiet.list.count ? quiet.list.at[0].message : "it cannot be planned";
	if (new.plan && !keeps_type(s, new.plan)) {
		new.plan = NULL;
		new.wrong = "it would be no emit_pipeline";
	}
	if (new.plan && !keeps_fences(s, new.plan)) {
		new.plan = NULL;
		new.wrong = "its steps would gain nothing by it";
	}
	new.bound = new.plan ? new.plan->seconds : 0;
	vec_push(s->a, &s->drafts, new);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static bool is_ordered(ChoiceRow row) {
	return row == ROW_TILES || row == ROW_SKEW || row == ROW_PAIRS || row == ROW_BUFFERS;
}

static void draft_rows(Search *s, ChoiceRow row) {
	if (row == ROW_COUNT) {
		draft(s);
		return;
	}
	for (ChoiceValue v = first_value(s, row); v != VALUE_COUNT; v = next_value(s, row)) {
		s->way.at[row] = v;
		draft_rows(s, row + 1);
		s->way.at[row] = v;
		if (row == ROW_BUFFERS || (is_ordered(row) && !s->all))
			break;
	}
}

/* What needs less VMEM than this draft: less overlap if it has any, else whole tiles. */
static void draft_next(Search *s, const Draft *d) {
	const bool has[ROW_COUNT] = {
		[ROW_PAIRS] = plan_has_pairs(d->plan), [ROW_SKEW] = d->plan->skewed, [ROW_TILES] = d->plan->strips};
	static const ChoiceRow rows[] = {ROW_PAIRS, ROW_SKEW, ROW_TILES};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		s->way = d->way;
		ChoiceValue next = next_value(s, rows[i]);
		if (!has[rows[i]] || next == VALUE_COUNT)
			continue;
		s->way.at[rows[i]] = next;
		s->way.at[ROW_PAIRS] = i ? first_value(s, ROW_PAIRS) : next;
		s->way.at[ROW_BUFFERS] = first_value(s, ROW_BUFFERS);
		draft(s);
		return;
	}
}

/* Seconds, for comparing drafts: blocks that move no less must save what estimates are sure of. */
static double weighed(const Plan *plan) { return plan->seconds * (plan->stays_for_time ? TIME_SAVES_AT_LEAST : 1); }

/* It is straight code of which only both kernels tell whether it pays. */
static bool is_told_by_kernels(const Draft *d) {
	return d->plan && d->plan->straight_most > 0 && d->way.at[ROW_STEPS] == STEPS_STRAIGHT;
}

static Draft *fastest_of(const Search *s, bool straight) {
	Draft *best = NULL;
	for (uint32_t i = 0; i < s->drafts.count; i++) {
		Draft *d = &s->drafts.at[i];
		if (d->plan && is_told_by_kernels(d) == straight && (!best || weighed(d->plan) < weighed(best->plan)))
			best = d;
	}
	return best;
}

/* Of those that what drafts are compared by is enough for. */
static Draft *fastest(const Search *s) { return fastest_of(s, false); }

/* With two buffers of each window, or with fewer if that is what the draft says. */
static void complete(Search *s, Draft *d) {
	Draft was = *d;
	Planner p = {.plan = d->plan, .m = s->m, .a = s->a, .way = d->way};
	s->way = d->way;
	s->plan = d->plan;
	d->complete = plan_complete(d->plan, s->m, NULL, d->way);
	ChoiceValue fewer = d->complete || !plan_may_give_up(&p) ? VALUE_COUNT : next_value(s, ROW_BUFFERS);
	s->plan = NULL;
	if (fewer != VALUE_COUNT) {
		d->way.at[ROW_BUFFERS] = fewer;
	} else if (!d->complete) {
		d->plan = NULL;
		d->wrong = "VMEM";
	}
	if (!d->complete && was.way.at[ROW_BUFFERS] == first_value(s, ROW_BUFFERS) && !s->all)
		draft_next(s, &was);
}

static bool may_lower(const Search *s) { return !s->way.left || *s->way.left > LEFT_FOR_LAST; }

/* The fastest that fits; NULL: none does. */
static Draft *taken_of(Search *s, bool straight) {
	Draft *d;
	while ((d = fastest_of(s, straight)) && !d->complete && may_lower(s))
		complete(s, d);
	return d && d->complete ? d : NULL;
}

/* Straight code in place of the loops of `d`, if both kernels say so; else `d`. */
static const Draft *straight_or(Search *s, Draft *d) {
	Draft *straight = taken_of(s, true);
	CoreTime loops, code;
	if (!straight)
		return d;
	plan_time(d->plan, s->a, &loops);
	plan_time(straight->plan, s->a, &code);
	double line = (double)plan_vmem_line(straight->plan), held = (double)straight->plan->vmem.total;
	double again = held + STRAIGHT_SPILLS_AGAIN * (double)straight->plan->vmem.intermediates;
	bool spills =
		straight->plan->mxu_seconds == 0 && straight->plan->spills - d->plan->spills > STRAIGHT_SPILLS_AT_MOST;
	const char *why = code.cycles > straight->plan->straight_most * loops.cycles             ? "that is too little"
	                  : held > STRAIGHT_HOLDS_AT_MOST * line && again > line                 ? "it takes much VMEM"
	                  : spills                                                               ? "it spills"
	                  : code.compute > STRAIGHT_CYCLES_A_POINT * grid_points(straight->plan) ? "it is much code"
	                                                                                         : NULL;
	Draft *best = why ? d : straight;
	straight->plan->kernel_seconds = code.cycles / s->m->target->clock_hz;
	plan_remark(best->plan, "pallas_straight_loops: straight code would take %.0f cycles, not %.0f: %s",
	            code.cycles, loops.cycles, why ? why : "taken");
	return best;
}

static const Draft *taken(Search *s) {
	Draft *d = taken_of(s, false);
	return d ? straight_or(s, d) : taken_of(s, true);
}

static void search_init(Search *s, Arena *a, Module *m, int64_t *left) {
	*s = (Search){.a = a, .m = m, .type = module_loop_type(m), .way = {.trial = true, .left = left}};
}

Search *search_start(Arena *a, Module *m, int64_t *left) { return search_of_type(a, m, module_loop_type(m), left); }

Search *search_of_type(Arena *a, Module *m, LoopType type, int64_t *left) {
	Search *s = arena_alloc(a, sizeof *s);
	search_init(s, a, m, left);
	s->type = type;
	draft_rows(s, FIRST_PLAN_ROW);
	return fastest(s) || fastest_of(s, true) ? s : NULL;
}

double search_bound(const Search *s) {
	double bound = INFINITY;
	for (uint32_t i = 0; i < s->drafts.count; i++)
		if (s->drafts.at[i].plan)
			bound = fmin(bound, s->drafts.at[i].bound);
	return bound;
}

/* ---- what takes little VMEM -------------------------------------------------------------------------------------- */

/* The first values that stand to choose, but of ordered rows the last. */
static Plan *draft_frugal(Search *s, Diag *d) {
	for (ChoiceRow row = FIRST_PLAN_ROW; row < ROW_COUNT; row++) {
		ChoiceValue v = first_value(s, row);
		for (; v != VALUE_COUNT; v = is_ordered(row) ? next_value(s, row) : VALUE_COUNT)
			s->way.at[row] = v;
	}
	return plan_draft(s->a, s->m, d, s->way);
}

Verdict plan_frugal_fits(Arena *a, Module *m, LoopType type, int64_t *left) {
	Search s;
	Diag quiet;
	diag_init(&quiet, a);
	search_init(&s, a, m, left);
	s.type = type;
	Plan *plan = draft_frugal(&s, &quiet);
	if (!plan)
		return NOT_TAKEN;
	return plan_complete(plan, m, &quiet, s.way) ? FITS : TOO_LARGE;
}

Plan *plan_frugal(Arena *a, Module *m, Diag *d, int64_t *left) {
	Search s;
	search_init(&s, a, m, left);
	s.way.trial = false;
	Plan *plan = draft_frugal(&s, d);
	if (!plan || !plan_complete(plan, m, d, s.way))
		return NULL;
	plan_settle(plan, m);
	return plan;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* The values of the rows in which the drafts differ. */
static const char *words_of(const Search *s, const PlanWay *way) {
	Text t;
	text_init(&t, s->a);
	for (ChoiceRow row = FIRST_PLAN_ROW; row < ROW_COUNT; row++) {
		bool differs = false;
		for (uint32_t i = 1; i < s->drafts.count; i++)
			differs = differs || s->drafts.at[i].way.at[row] != s->drafts.at[0].way.at[row];
		if (differs)
			text_printf(&t, "%s%s", t.length ? ", " : "", choice_values[way->at[row]].words);
	}
	return t.at;
}

static void remark(Search *s, const Draft *best) {
	if (!s->m->explain)
		return;
	if ((Switch)config_of(s)->column_strips.value == SWITCH_ON && module_has_loops(s->m))
		plan_remark(best->plan, "column strips: none: the body has loops of its own");
	for (uint32_t i = 0; s->drafts.count > 1 && i < s->drafts.count; i++) {
		const Draft *d = &s->drafts.at[i];
		plan_remark(
			best->plan, "%s",
			choice_remark(s->a, words_of(s, &d->way), d->wrong, d->plan ? d->plan->seconds : 0, d == best));
	}
}

Plan *search_plan(Search *s) {
	const Draft *best = taken(s);
	if (!best)
		return NULL;
	plan_settle(best->plan, s->m);
	remark(s, best);
	return best->plan;
}

/* The draft of the first values of ordered rows that is else the same. */
static const Draft *first_of(const Search *s, const Draft *d) {
	for (uint32_t i = 0; i < s->drafts.count; i++) {
		bool same = true;
		for (ChoiceRow row = FIRST_PLAN_ROW; row < ROW_COUNT; row++)
			same = same && (is_ordered(row) || s->drafts.at[i].way.at[row] == d->way.at[row]);
		if (same)
			return &s->drafts.at[i];
	}
	return d;
}

Plan *plan_search_all(Arena *a, Module *m, bool *bounded) {
	Search s;
	search_init(&s, a, m, NULL);
	s.all = *bounded = true;
	draft_rows(&s, FIRST_PLAN_ROW);
	for (uint32_t i = 0; i < s.drafts.count; i++) {
		Draft *d = &s.drafts.at[i];
		while (d->plan && !d->complete)
			complete(&s, d);
		*bounded =
			*bounded && (!d->plan || (d->plan->seconds >= d->bound && d->bound >= first_of(&s, d)->bound));
	}
	const Draft *best = taken(&s);
	return best ? best->plan : NULL;
}
