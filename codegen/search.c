/* search.c - the best way to plan a kernel: choices.def, row by row.
 *
 * Each way gives a value to every row. What the configuration settles has one value; the others are tried in the order
 * in which they stand, and the kernel is planned with each. Of those that fit VMEM the one with the least estimated
 * time is taken (plan_seconds()), of equals the first.
 *
 *     STEPS LOOPED   WINDOWS COPIED    OVERLAP PAIRS   12.1 us   <- taken
 *                    WINDOWS RESIDENT  OVERLAP PAIRS   refused: VMEM
 *                                      OVERLAP SKEW    14.0 us
 *     STEPS STRAIGHT WINDOWS RESIDENT  OVERLAP PAIRS   13.7 us
 *
 * What is not planned cannot win: where a way fits with two buffers of each window, less overlap of the same takes
 * longer by the estimate, as do whole tiles where strips fit; where nothing overlaps, or in no pairs, the ways without
 * are the same plan; and a refusal for other reasons than VMEM is one of every overlap. */
#include "planner.h"

/* Plans that a compilation of one kernel makes at most, also to say what would fit. */
enum { MOST_PLANS = 16 };

typedef struct Tried {
	PlanWay way;
	double seconds;
	const char *wrong; /* it was refused; NULL */
} Tried;

typedef struct Search {
	Arena *a;
	Module *m;
	PlanWay way;
	Plan *best;
	PlanWay taken;
	/* what plans so far have shown */
	const Plan *any; /* one that was planned; NULL */
	bool results_may_stay, may_hold_all, may_be_straight, fori_copies;
	const Plan *last;  /* of the last way; NULL: it was refused, */
	const char *wrong; /* because of this */
	VEC(Tried) tried;
	bool all;      /* nothing is left out */
	int64_t *left; /* so many plans may be made to find one that fits; NULL: all are made, to find the best */
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
	       (fori_dma(s) == CHOICE_OFF || (fori_dma(s) == CHOICE_AUTO && (s->fori_copies || !s->any)));
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
	s->any = plan;
	s->results_may_stay |= plan->results_may_stay;
	s->may_hold_all |= plan->may_hold_all;
	s->may_be_straight |= plan->straight_steps > 0;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		s->fori_copies |= plan->loops.at[l].type == LOOP_FORI && plan->loops.at[l].dma;
}

/* An emit_pipeline that was asked for stays one, unless its steps overlap without. */
static bool keeps_type(const Search *s, const Plan *plan) {
	return s->way.at[ROW_WINDOWS] != WINDOWS_OF_ALL_STEPS || plan->skewed || group_holds_all(s->m) ||
	       !config_of(s)->loop_type.set;
}

static void try_way(Search *s) {
	Diag quiet;
	diag_init(&quiet, s->a);
	s->way.trial = true;
	s->way.other = s->any;
	Plan *plan = plan_way(s->a, s->m, &quiet, s->way);
	s->last = plan;
	s->wrong = plan ? NULL : quiet.list.count ? quiet.list.at[0].message : "VMEM";
	vec_push(s->a, &s->tried, ((Tried){s->way, plan ? plan->seconds : 0, s->wrong}));
	if (!plan)
		return;
	learn(s, plan);
	if (!keeps_type(s, plan))
		return;
	if (!s->best || plan->seconds < s->best->seconds) {
		s->best = plan;
		s->taken = s->way;
	}
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static bool any_paired(const Plan *plan) {
	for (uint32_t l = 0; l < plan->loops.count; l++)
		if (plan->loops.at[l].paired)
			return true;
	return false;
}

/* After the last way, `next` of the same row cannot win, or is the same plan. */
static bool cannot_win(const Search *s, PlanValue next) {
	PlanRow row = values[next].row;
	if (row == ROW_TILES)
		return s->last != NULL;
	if (row != ROW_OVERLAP)
		return false;
	if (!s->last)
		return s->wrong && strcmp(s->wrong, "VMEM") != 0;
	return !s->last->skewed || !s->last->single_buffers || (next == OVERLAP_SKEW && !any_paired(s->last));
}

static void search_row(Search *s, uint32_t row) {
	bool first = true;
	if (s->left && (s->best || (row == ROW_COUNT && --*s->left < 0)))
		return;
	if (row == ROW_COUNT) {
		try_way(s);
		return;
	}
	for (PlanValue v = 0; v < VALUE_COUNT; v++) {
		if (values[v].row != row || !values[v].legal(s) || (!first && !s->all && cannot_win(s, v)))
			continue;
		s->way.at[row] = v;
		search_row(s, row + 1);
		first = false;
	}
}

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

static Plan *refused(Search *s, Diag *d) {
	settle(s);
	s->way.trial = false;
	s->way.left = int_max(MOST_PLANS - 1 - (int64_t)s->tried.count, 0);
	return plan_way(s->a, s->m, d, s->way);
}

const char *plan_refusal(Arena *a, Module *m, int64_t *left) {
	Search s = {.a = a, .m = m};
	Diag quiet;
	diag_init(&quiet, a);
	settle(&s);
	s.way.trial = true;
	--*left;
	return plan_way(a, m, &quiet, s.way) ? NULL : quiet.list.count ? quiet.list.at[0].message : "VMEM";
}

bool plan_fits_somehow(Arena *a, Module *m, int64_t *left) {
	Search s = {.a = a, .m = m, .left = left};
	search_row(&s, 0);
	return s.best;
}

/* The values of the rows in which what was tried differs. */
static const char *words_of(const Search *s, const PlanWay *way) {
	Text t;
	text_init(&t, s->a);
	for (uint32_t row = 0; row < ROW_COUNT; row++) {
		bool differs = false;
		for (uint32_t i = 1; i < s->tried.count; i++)
			differs = differs || s->tried.at[i].way.at[row] != s->tried.at[0].way.at[row];
		if (differs)
			text_printf(&t, "%s%s", t.length ? ", " : "", values[way->at[row]].words);
	}
	return t.at;
}

static void remark(Search *s) {
	if ((Choice)config_of(s)->column_strips.value == CHOICE_ON && has_loops(s->m))
		plan_remark(s->best, "column strips: none: the body has loops of its own");
	for (uint32_t i = 0; s->tried.count > 1 && i < s->tried.count; i++) {
		const Tried *t = &s->tried.at[i];
		bool taken = memcmp(t->way.at, s->taken.at, sizeof t->way.at) == 0;
		const char *what = taken ? "taken" : t->wrong ? "refused" : "not taken";
		if (t->wrong)
			plan_remark(s->best, "%s: %s: %s", what, words_of(s, &t->way), t->wrong);
		else
			plan_remark(s->best, "%s: %s: about %.3g us", what, words_of(s, &t->way), t->seconds * 1e6);
	}
}

Plan *plan_search_all(Arena *a, Module *m) {
	Search s = {.a = a, .m = m, .all = true};
	search_row(&s, 0);
	return s.best;
}

Plan *plan_search(Arena *a, Module *m, Diag *d, bool trial) {
	Search s = {.a = a, .m = m};
	search_row(&s, 0);
	if (!s.best)
		return trial ? NULL : refused(&s, d);
	remark(&s);
	return s.best;
}
