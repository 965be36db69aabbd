/* search.c - the best way to plan a kernel: choices.def, row by row.
 *
 * Each way gives a value to every row. What the configuration settles has one value; of the others each is drafted, and
 * its time estimated (plan_seconds()). The fastest draft is made to fit VMEM, and is taken if it does: what that takes
 * never makes a plan faster, so no other can win. Of equals the first is taken.
 *
 *     STEPS LOOPED   WINDOWS COPIED    OVERLAP PAIRS   12.1 us   3. fits: taken
 *                    WINDOWS RESIDENT  OVERLAP PAIRS   11.0 us   1. does not fit
 *                                      OVERLAP SKEW    11.9 us   2. does not fit
 *                                      OVERLAP NONE    14.0 us
 *     STEPS STRAIGHT WINDOWS RESIDENT  OVERLAP PAIRS   13.7 us
 *
 * The values of the rows TILES and OVERLAP stand from the fastest on, by the estimate: the next one is drafted only if
 * the one before does not fit as it is. Few drafts become kernels, which is what takes time: one, mostly. */
#include "search.h"
#include "codegen/loops/loops.h"

/* Plans that are made to fit VMEM at most, also to say what would fit. */
enum { MOST_PLANS = 16 };

typedef struct Draft {
	PlanWay way;
	Plan *plan;        /* NULL: it was refused, ... */
	const char *wrong; /* ... because of this */
	bool complete;
} Draft;

typedef struct Search {
	Arena *a;
	Module *m;
	PlanWay way;
	VEC(Draft) drafts;
	/* what drafts so far have shown */
	const Plan *best; /* the fastest one; NULL */
	bool results_may_stay, may_hold_all, may_be_straight, fori_copies;
	bool all;      /* nothing is left out */
	int64_t *left; /* so many plans may be made to find one that fits */
	int64_t made;
} Search;

/* ---- what stands to choose --------------------------------------------------------------------------------------- */

static const Config *config_of(const Search *s) { return &s->m->config; }

static bool has_loops(const Module *m) {
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->kind != GRAPH_ROOT)
			return true;
	return false;
}

static bool is_straight(const Search *s) { return s->way.at[ROW_STEPS] == STEPS_STRAIGHT; }
static Choice fori_dma(const Search *s) { return (Choice)config_of(s)->fori_dma.value; }
static bool must_pair(const Search *s) { return (Choice)config_of(s)->step_pairs.value == CHOICE_ON; }

static bool legal_strips(const Search *s) {
	return (Choice)config_of(s)->column_strips.value != CHOICE_OFF && !has_loops(s->m);
}

static bool legal_whole_tiles(const Search *s) {
	return (Choice)config_of(s)->column_strips.value != CHOICE_ON || has_loops(s->m);
}

static bool legal_loops(const Search *s) { return (Choice)config_of(s)->straight_loops.value != CHOICE_ON; }

static bool legal_straight(const Search *s) {
	Choice asked = (Choice)config_of(s)->straight_loops.value;
	return asked == CHOICE_ON || (asked == CHOICE_AUTO && s->may_be_straight);
}

static bool legal_copied(const Search *s) {
	return !is_straight(s) && fori_dma(s) != CHOICE_OFF && !group_holds_all(s->m);
}

static bool legal_resident(const Search *s) {
	if (is_straight(s))
		return true;
	return !group_holds_all(s->m) &&
	       (fori_dma(s) == CHOICE_OFF || (fori_dma(s) == CHOICE_AUTO && (s->fori_copies || !s->best)));
}

static bool legal_kept(const Search *s) {
	return !is_straight(s) && !group_holds_all(s->m) && fori_dma(s) != CHOICE_ON && s->best && s->best->may_stay;
}

static bool legal_all_kept(const Search *s) { return legal_kept(s) && s->results_may_stay; }

static bool legal_of_all_steps(const Search *s) {
	return !is_straight(s) &&
	       (group_holds_all(s->m) || (s->may_hold_all && !config_of(s)->emit_pipeline_group_size.set));
}

static bool legal_pairs(const Search *s) {
	(void)s;
	return true;
}

static bool legal_skew(const Search *s) { return !must_pair(s); }

static bool legal_no_overlap(const Search *s) {
	const Config *c = config_of(s);
	bool unrolls = (LoopType)c->loop_type.value == LOOP_UNROLL || is_straight(s);
	return !must_pair(s) && (Choice)c->loop_skew.value != CHOICE_ON && !(unrolls && c->matmul_ahead.value > 0);
}

typedef struct ValueRow {
	PlanRow row;
	bool (*legal)(const Search *s);
	const char *words;
} ValueRow;

static const ValueRow values[VALUE_COUNT] = {
#define CHOICE(row, key)
#define VALUE(row, name, legal, words) [row##_##name] = {ROW_##row, legal_##legal, words},
#include "choices.def"
#undef CHOICE
#undef VALUE
};

/* ---- one way ----------------------------------------------------------------------------------------------------- */

static void learn(Search *s, const Plan *plan) {
	if (!s->best || plan->seconds < s->best->seconds)
		s->best = plan;
	s->results_may_stay |= plan->results_may_stay;
	s->may_hold_all |= plan->may_hold_all;
	s->may_be_straight |= plan->may_be_straight;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		s->fori_copies |= plan->loops.at[l].type == LOOP_FORI && plan->loops.at[l].dma;
}

/* An emit_pipeline that was asked for stays one, unless its steps overlap without. */
static bool keeps_type(const Search *s, const Plan *plan) {
	return s->way.at[ROW_WINDOWS] != WINDOWS_OF_ALL_STEPS || plan->skewed || group_holds_all(s->m) ||
	       !config_of(s)->loop_type.set;
}

static void draft(Search *s) {
	Diag quiet;
	diag_init(&quiet, s->a);
	s->way.trial = true;
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
	vec_push(s->a, &s->drafts, new);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static bool is_ordered(PlanRow row) { return row == ROW_TILES || row == ROW_OVERLAP; }

static void draft_rows(Search *s, uint32_t row) {
	bool done = false;
	if (row == ROW_COUNT) {
		draft(s);
		return;
	}
	for (PlanValue v = 0; v < VALUE_COUNT; v++) {
		if (values[v].row != row || done || !values[v].legal(s))
			continue;
		s->way.at[row] = v;
		draft_rows(s, row + 1);
		done = is_ordered((PlanRow)row);
	}
}

/* The next legal value of an ordered row; VALUE_COUNT: none. */
static PlanValue next_value(const Search *s, PlanRow row) {
	for (PlanValue v = s->way.at[row] + 1; v < VALUE_COUNT && values[v].row == row; v++)
		if (values[v].legal(s))
			return v;
	return VALUE_COUNT;
}

static bool any_paired(const Plan *plan) {
	for (uint32_t l = 0; l < plan->loops.count; l++)
		if (plan->loops.at[l].paired)
			return true;
	return false;
}

/* What needs less VMEM than this draft: less overlap if it has any, else whole tiles. */
static void draft_next(Search *s, const Draft *d) {
	s->way = d->way;
	PlanValue overlap = next_value(s, ROW_OVERLAP), tiles = next_value(s, ROW_TILES);
	if (overlap == OVERLAP_SKEW && !any_paired(d->plan)) {
		s->way.at[ROW_OVERLAP] = overlap;
		overlap = next_value(s, ROW_OVERLAP);
	}
	if (d->plan->skewed && overlap != VALUE_COUNT)
		s->way.at[ROW_OVERLAP] = overlap;
	else if (d->plan->strips && tiles != VALUE_COUNT)
		s->way.at[ROW_TILES] = tiles;
	else
		return;
	draft(s);
}

static Draft *fastest(const Search *s) {
	Draft *best = NULL;
	for (uint32_t i = 0; i < s->drafts.count; i++) {
		Draft *d = &s->drafts.at[i];
		if (d->plan && (!best || d->plan->seconds < best->plan->seconds))
			best = d;
	}
	return best;
}

static void complete(Search *s, Draft *d) {
	Diag quiet;
	diag_init(&quiet, s->a);
	Draft was = *d;
	s->made++;
	d->complete = plan_complete(d->plan, s->m, &quiet, d->way);
	if (!d->complete) {
		d->plan = NULL;
		d->wrong = "VMEM";
	}
	if (!d->complete || was.plan->single_buffers || s->all)
		draft_next(s, &was);
}

/* The fastest that fits; NULL: none does. */
static const Draft *search(Search *s) {
	draft_rows(s, 0);
	for (uint32_t i = 0; s->all && i < s->drafts.count; i++)
		if (s->drafts.at[i].plan)
			complete(s, &s->drafts.at[i]);
	for (Draft *d; (d = fastest(s)); complete(s, d)) {
		if (d->complete)
			return d;
		if (s->left && --*s->left < 0)
			return NULL;
	}
	return NULL;
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* The first values that stand to choose, of whole tiles with the least overlap: what takes little VMEM. */
static void settle(Search *s) {
	bool settled[ROW_COUNT] = {false};
	for (PlanValue v = 0; v < VALUE_COUNT; v++) {
		PlanRow row = values[v].row;
		if (!values[v].legal(s) || (settled[row] && row != ROW_OVERLAP && row != ROW_TILES))
			continue;
		s->way.at[row] = v;
		settled[row] = true;
	}
}

static void refuse(Search *s, Diag *d) {
	settle(s);
	s->way.trial = false;
	s->way.left = int_max(MOST_PLANS - 1 - s->made, 0);
	Plan *plan = plan_draft(s->a, s->m, d, s->way);
	if (plan)
		plan_complete(plan, s->m, d, s->way);
}

Verdict plan_least(Arena *a, Module *m, int64_t *left) {
	Search s = {.a = a, .m = m};
	Diag quiet;
	diag_init(&quiet, a);
	settle(&s);
	s.way.trial = true;
	--*left;
	Plan *plan = plan_draft(a, m, &quiet, s.way);
	if (!plan)
		return NOT_TAKEN;
	return plan_complete(plan, m, &quiet, s.way) ? FITS : TOO_LARGE;
}

bool plan_fits_somehow(Arena *a, Module *m, int64_t *left) {
	Search s = {.a = a, .m = m, .left = left};
	return search(&s);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* The values of the rows in which the drafts differ. */
static const char *words_of(const Search *s, const PlanWay *way) {
	Text t;
	text_init(&t, s->a);
	for (uint32_t row = 0; row < ROW_COUNT; row++) {
		bool differs = false;
		for (uint32_t i = 1; i < s->drafts.count; i++)
			differs = differs || s->drafts.at[i].way.at[row] != s->drafts.at[0].way.at[row];
		if (differs)
			text_printf(&t, "%s%s", t.length ? ", " : "", values[way->at[row]].words);
	}
	return t.at;
}

static void remark(Search *s, const Draft *taken) {
	if ((Choice)config_of(s)->column_strips.value == CHOICE_ON && has_loops(s->m))
		plan_remark(taken->plan, "column strips: none: the body has loops of its own");
	for (uint32_t i = 0; s->drafts.count > 1 && i < s->drafts.count; i++) {
		const Draft *d = &s->drafts.at[i];
		const char *words = words_of(s, &d->way);
		if (d->wrong)
			plan_remark(taken->plan, "refused: %s: %s", words, d->wrong);
		else
			plan_remark(taken->plan, "%s: %s: about %.3g us", d == taken ? "taken" : "not taken", words,
			            d->plan->seconds * 1e6);
	}
}

Plan *plan_search_all(Arena *a, Module *m) {
	Search s = {.a = a, .m = m, .all = true};
	const Draft *taken = search(&s);
	return taken ? taken->plan : NULL;
}

Plan *plan_search(Arena *a, Module *m, Diag *d, bool trial) {
	Search s = {.a = a, .m = m};
	const Draft *taken = search(&s);
	if (!taken && !trial)
		refuse(&s, d);
	if (!taken)
		return NULL;
	plan_settle(taken->plan, m);
	remark(&s, taken);
	return taken->plan;
}
