/* choose.c - the best of what can be chosen only by compiling: the rows of scope MODULE in choices.def.
 *
 * Each way gives a value to every row, and is compiled on a clone, by all passes, and drafted (search.c). Of two ways
 * one that fits is better than one that does not, then the one that is estimated to be faster, then the simpler one:
 * that of the earlier values. No way is faster than its fastest draft, so a way whose draft is no better than what was
 * found is not lowered. The clone that wins is what the compilation goes on with.
 *
 *     ROWS WHOLE     SIZES GIVEN              refused
 *                    SIZES HALVED  1          refused
 *     ROWS DIVIDED   SIZES GIVEN              31.0 us: taken
 *
 * Most graphs leave nothing to choose here: they are compiled as they are. */
#include "choose.h"
#include "share.h"
#include "passes/pipeline/pipeline.h"
#include "src/config/config.h"
#include "src/load/load.h"

/* Halvings of the default sizes: 1024 to 128 is three; one more for outer rows and lanes. */
enum { LEVELS = 5 };
/* Estimates of one kernel in tiles of two sizes are less sure than of two plans with the same tiles. */
#define ROWS_SAVE_AT_LEAST 1.25
#define OVERLAP_SAVES_AT_LEAST 1.005
/* Of a JS divergence whose estimate saves 5% the profiler saved 1.7%, at 8 MiB more of VMEM. */
#define JOINED_SAVES_AT_LEAST 1.1
/* Estimates take the few rows of one head for as fast as those of many. Decode attention of 8192 columns on v7x: eight
 * heads at once take 168 us and one at a time 210 by the profiler, 153 and 147 by the estimate. */
#define BATCH_SAVES_AT_LEAST 0.95
#define GATHERS_SAVE_AT_LEAST 1.05
#define SAVES_AT_LEAST 1.001
/* Bytes of a block's rows from which on loops over them are joined. */
#define WHOLE_ROWS_LEAST (INT64_C(1) << 20)

typedef struct Tried {
	ModuleWay way;
	const char *wrong; /* NULL: it was not refused */
	double seconds;    /* at least */
} Tried;

/* ---- what stands to choose --------------------------------------------------------------------------------------- */

/* Each: how many ways the value stands for, by what was tried so far. */

static const Config *config_of(const Choosing *s) { return &s->start->config; }
static bool found(const Choosing *s) { return s->best.fits; }
static bool searches(const Choosing *s) { return !s->c->options->passes; }

static uint32_t legal_whole_rows(const Choosing *s) { return !s->relaxed; }

static uint32_t legal_divided_rows(const Choosing *s) {
	return !found(s) && s->rows_divided.set && (s->relaxed || !config_of(s)->reduction_loops.set);
}

static uint32_t legal_cut_rows(const Choosing *s) {
	return !found(s) && s->rows_cut.set && (s->relaxed || !config_of(s)->reduction_loops.set);
}

static uint32_t legal_given(const Choosing *s) {
	(void)s;
	return 1;
}

static uint32_t legal_halved(const Choosing *s) { return s->defaults && !found(s) ? LEVELS : 0; }

static uint32_t legal_given_columns(const Choosing *s) {
	(void)s;
	return 1;
}

static uint32_t legal_column_parts(const Choosing *s) { return s->columns.size && !s->relaxed && searches(s); }

static bool in_parts(const Choosing *s) { return s->way.at[ROW_COLUMNS] == COLUMNS_PARTS; }
static bool must_part(const Choosing *s) { return (Switch)config_of(s)->narrow_steps.value == SWITCH_ON; }

/* Steps have no more columns than with which they gain by overlapping. */
static bool columns_gain(const Choosing *s) { return in_parts(s) || !s->columns.size; }

/* Straight code gains nothing by parts. */
static uint32_t legal_unfenced(const Choosing *s) { return !in_parts(s) || !s->may_fence || must_part(s); }

static uint32_t legal_fenced(const Choosing *s) {
	bool asked = (Switch)config_of(s)->fenced_steps.value == SWITCH_ON;
	return s->may_fence && !s->relaxed && (asked || columns_gain(s));
}

static bool must_enlarge(const Choosing *s) { return (Switch)config_of(s)->wide_blocks.value == SWITCH_ON; }

/* Where they must be wide, the last dim that can be is. */
static uint32_t legal_long_steps(const Choosing *s) {
	bool done = must_enlarge(s) && s->best_way.at[ROW_SIZES] == SIZES_LONG_STEPS;
	return found(s) && !done && !s->relaxed ? s->long_steps.count : 0;
}

/* Steps without fences do not overlap by more rows. Those with fences do, but their code grows with the rows, and with
 * it the time to compile it: attention of 256 columns takes 5% less time for 1024 rows than for 512 on v6e, and 2.5
 * times as long to compile. So rows must be asked for. */
static uint32_t legal_more_rows(const Choosing *s) {
	bool fenced = s->way.at[ROW_FENCES] == FENCES_PAIRS && must_enlarge(s);
	uint32_t count = 0;
	while (count < s->more_rows.count &&
	       (!s->more_rows.at[count].overlaps || (columns_gain(s) && (fenced || !s->may_fence))))
		count++;
	return found(s) && !s->relaxed ? count : 0;
}

static uint32_t legal_given_loops(const Choosing *s) {
	(void)s;
	return 1;
}

static uint32_t legal_joined_loops(const Choosing *s) { return s->row_bytes && !s->relaxed && searches(s); }

/* The most at once that fits and pays. */
static uint32_t legal_batch(const Choosing *s) {
	bool done = s->best_way.at[ROW_SIZES] == SIZES_BATCH;
	return found(s) && !done && !s->relaxed ? s->batches.count : 0;
}

static uint32_t legal_in_turn(const Choosing *s) {
	(void)s;
	return 1;
}

static uint32_t legal_at_once(const Choosing *s) { return s->may_one_hot; }

static uint32_t legal_body_at_once(const Choosing *s) {
	(void)s;
	return 1;
}

static uint32_t legal_split_body(const Choosing *s) { return s->may_split; }

#define VALUE_MODULE(row, name, legal, words) [row##_##name] = legal_##legal,
#define VALUE_PLAN(...)
#define CHOICE(scope, row, key)
#define VALUE(scope, row, name, legal, words) VALUE_##scope(row, name, legal, words)
static uint32_t (*const legal[VALUE_COUNT])(const Choosing *s) = {
#include "choices.def"
};
#undef CHOICE
#undef VALUE

/* A tile may be too large as a whole. */
static bool has_large_tile(Module *m) {
	for (NodeId n = 0; n < m->nodes.count; n++) {
		int64_t bytes = 4 * (int64_t)TILES_HELD, size = 0;
		const Type *t = node_type(m, n);
		if (node_get(m, n)->dead || node_get(m, n)->op != OP_LOAD)
			continue;
		for (uint32_t i = 0; i < t->count; i++)
			if (!expr_value(m, t->dims[i], &size) || !checked_mul(bytes, int_max(size, 1), &bytes))
				return true;
		if (bytes > m->target->vmem_bytes)
			return true;
	}
	return false;
}

static bool may_split_body(const Choosing *s) {
	const Config *c = config_of(s);
	return !module_has_loops(s->start) && (Switch)c->row_split.value == SWITCH_AUTO &&
	       (LoopType)c->loop_type.value != LOOP_UNROLL && has_large_tile(s->start);
}

/* Rows are gathered, and the configuration does not say how. */
static bool may_gather(const Choosing *s) {
	const Module *m = s->start;
	bool any = false;
	for (NodeId n = 0; n < m->nodes.count && !any; n++) {
		uint16_t op = node_get(m, n)->op;
		const Arg *index = op == OP_LOAD ? node_arg(m, n, 1) : NULL;
		any = op == OP_EMBEDDING || op == OP_INDEX || op == OP_INDEX_SELECT;
		for (uint32_t i = 0; index && index->kind == ARG_LIST && i < index->list.count; i++)
			any = any || entry_gathers(m, arg_item(m, index, i));
		any = any && !node_get(m, n)->dead;
	}
	return any && config_of(s)->indirect_access_mode.value <= INDIRECT_AUTO;
}

/* Rows, and loops over the columns of one block: the pass finds out the rest (whole_rows.c). */
static bool may_join(const Choosing *s) {
	const Module *m = s->start;
	GraphId root = module_root(m, 0);
	BlockId columns = NONE;
	bool can = (Switch)config_of(s)->whole_rows.value != SWITCH_OFF && root != NONE &&
	           graph_get(m, root)->blocks.count == 1 && m->graphs.count > 1;
	for (GraphId g = 0; g < m->graphs.count && can; g++) {
		const Graph *x = graph_get(m, g);
		if (g == root)
			continue;
		can = x->kind == GRAPH_FOR_LOOP && x->blocks.count == 1 &&
		      (columns == NONE || x->blocks.at[0] == columns);
		columns = can ? x->blocks.at[0] : NONE;
	}
	return can;
}

/* Something stands to choose. */
static bool start(Choosing *s, Compilation *c, Module *m) {
	*s = (Choosing){.c = c, .start = m, .bounded = true};
	for (BlockId b = 0; b < m->blocks.count && !m->config.block_sizes.set; b++)
		s->defaults = s->defaults || block_is_chosen(&m->blocks.at[b]);
	if (searches(s))
		rows_domain(s);
	columns_domain(s);
	s->may_fence = searches(s) && may_fence(s);
	sizes_domain(s);
	return s->defaults || s->may_fence || s->columns.size || s->long_rows || s->long_steps.count ||
	       s->more_rows.count || s->batches.count ||
	       (searches(s) && (may_split_body(s) || may_gather(s) || may_join(s)));
}

/* ---- one way ----------------------------------------------------------------------------------------------------- */

/* The Module's own, not those of the one that it is a clone of. */
static void set_defaults(Module *m, const int64_t *sizes) {
	m->defaults.at = arena_copy(m->arena, m->defaults.at, m->defaults.count, sizeof *m->defaults.at);
	for (BlockId b = 0; b < m->defaults.count; b++)
		if (m->defaults.at[b].taken)
			m->defaults.at[b].size = sizes[b];
	m->default_level = 0;
}

/* Of a value that takes several blocks at once; NULL: it does not. */
static const WideBlocks *wide_blocks(const Choosing *s, ChoiceValue sizes) {
	switch (sizes) {
	case SIZES_LONG_STEPS: return &s->long_steps;
	case SIZES_MORE_ROWS: return &s->more_rows;
	case SIZES_BATCH: return &s->batches;
	default: return NULL;
	}
}

static void apply(const Choosing *s, const ModuleWay *way, Module *m) {
	ChoiceValue sizes = way->at[ROW_SIZES];
	uint32_t which = way->which[ROW_SIZES];
	if (way->at[ROW_ROWS] != ROWS_WHOLE)
		m->config.reduction_loops = way->at[ROW_ROWS] == ROWS_DIVIDED ? s->rows_divided : s->rows_cut;
	if (sizes == SIZES_HALVED)
		m->default_level = which + 1;
	if (wide_blocks(s, sizes))
		sizes_enlarge(m, &wide_blocks(s, sizes)->at[which], sizes);
	if (way->at[ROW_COLUMNS] == COLUMNS_PARTS)
		sizes_enlarge(m, &s->columns, COLUMNS_PARTS);
	m->fenced = way->at[ROW_FENCES] == FENCES_PAIRS;
	m->whole_rows = way->at[ROW_LOOPS] == LOOPS_JOINED;
	if (m->whole_rows)
		sizes_of_whole_rows(m, s->row_bytes);
	m->one_hot = way->at[ROW_POSITIONS] == POSITIONS_AT_ONCE;
	m->split_rows = way->at[ROW_BODY] == BODY_SPLIT;
	if (way->type != LOOP_DEFAULT)
		m->config.loop_type.value = (int)way->type;
	if (way->sizes)
		set_defaults(m, way->sizes);
}

Module *choose_module(const Choosing *s, const ModuleWay *way) {
	Module *copy = module_clone(s->start, s->c->arena);
	apply(s, way, copy);
	return copy;
}

static bool is_first(const ModuleWay *way) {
	return way->at[ROW_ROWS] == ROWS_WHOLE && way->at[ROW_COLUMNS] == COLUMNS_GIVEN &&
	       way->at[ROW_FENCES] == FENCES_WITHOUT && way->at[ROW_SIZES] == SIZES_GIVEN &&
	       way->at[ROW_BODY] == BODY_AT_ONCE && way->at[ROW_LOOPS] == LOOPS_GIVEN;
}

static bool configured(const Choosing *s, const PassContext *context) {
	return is_first(&s->way) || compile_configure(context->module, context->diag);
}

static bool must_join(const Choosing *s) { return (Switch)config_of(s)->whole_rows.value == SWITCH_ON; }

/* `auto` leaves small tiles as they are. */
static bool whole_rows_pay(const Choosing *s, int64_t bytes) {
	if (!bytes || must_join(s))
		return bytes != 0;
	BlockId rows = graph_get(s->start, module_root(s->start, 0))->blocks.at[0];
	return bytes * s->start->block_size.at[rows] >= WHOLE_ROWS_LEAST;
}

/* Steps are fenced for the first time, and must be. */
static bool must_fence(const Choosing *s) {
	return s->way.at[ROW_FENCES] == FENCES_PAIRS && s->best_way.at[ROW_FENCES] == FENCES_WITHOUT &&
	       (Switch)config_of(s)->fenced_steps.value == SWITCH_ON;
}

/* How many times faster it must be than what was found. */
static double saves_at_least(const Choosing *s) {
	ChoiceValue sizes = s->way.at[ROW_SIZES];
	bool wide = wide_blocks(s, sizes);
	bool parts = in_parts(s) && s->best_way.at[ROW_COLUMNS] == COLUMNS_GIVEN;
	if ((wide && must_enlarge(s)) || must_fence(s) || (parts && must_part(s)) ||
	    (s->way.at[ROW_LOOPS] == LOOPS_JOINED && must_join(s)))
		return 0;
	if (sizes == SIZES_MORE_ROWS)
		return s->more_rows.at[s->way.which[ROW_SIZES]].overlaps ? OVERLAP_SAVES_AT_LEAST : ROWS_SAVE_AT_LEAST;
	if (sizes == SIZES_BATCH)
		return BATCH_SAVES_AT_LEAST;
	if (s->way.at[ROW_LOOPS] == LOOPS_JOINED)
		return JOINED_SAVES_AT_LEAST;
	bool gathers = s->way.at[ROW_POSITIONS] != s->best_way.at[ROW_POSITIONS];
	return gathers ? GATHERS_SAVE_AT_LEAST : SAVES_AT_LEAST;
}

static bool better(const Choosing *s, double seconds) {
	return !found(s) || seconds * saves_at_least(s) < s->best.outcome.seconds;
}

/* False: it stays as it was. */
static bool take(Choosing *s, const Trial *trial, double bound) {
	s->bounded = s->bounded && trial->outcome.seconds >= bound;
	if (!better(s, trial->outcome.seconds))
		return false;
	s->best = *trial;
	s->best_way = s->way;
	s->best_index = s->tried.count;
	return true;
}

static bool lowers(const Choosing *s, const Known *known) {
	return known->planned && (better(s, known->bound) || s->all);
}

/* By all passes: what it is known of a way then. */
static void compile_way(Choosing *s, Trial *trial, Known *known) {
	Compilation *c = s->c;
	int64_t left = c->left;
	Drafts *drafts =
		share_passes(c, &trial->context) ? program_draft(c->arena, trial->context.module, &c->left) : NULL;
	const Module *m = trial->context.module;
	*known = (Known){.planned = drafts,
	                 .may_one_hot = m->may_one_hot,
	                 .may_split_rows = m->may_split_rows,
	                 .row_bytes = m->row_bytes};
	known->bound = drafts ? drafts_bound(drafts) : 0;
	known->lowered = lowers(s, known);
	trial->program = known->lowered ? program_choose(drafts) : NULL;
	known->fits = trial->program != NULL;
	known->kernels = left - c->left;
	if (known->fits)
		known->outcome.seconds = program_seconds(trial->program);
}

/* All of it, for others; false: a refusal is to be said of it yet. */
static bool outcome_known(Choosing *s, const Trial *trial, Known *known) {
	Diag quiet;
	int64_t left = s->c->left;
	diag_init(&quiet, s->c->arena);
	if (!known->fits)
		return true;
	if (!module_check_annotations(trial->context.module, &quiet))
		return false;
	known->outcome = program_outcome(trial->program, s->c->bar, s->c->arena);
	s->c->left = left;
	return true;
}

/* What another compilation found out of the same way; false: nothing, or not enough. */
static bool recall(Choosing *s, const ShareKey *key, Known *known) {
	if (!share_find(s->c->shared, key, known))
		return false;
	if (!lowers(s, known))
		return true;
	if (!known->lowered || s->c->left - known->kernels <= LEFT_FOR_LAST)
		return false; /* there, as many kernels as it took could be lowered */
	s->c->left -= known->kernels;
	return true;
}

/* The same as compile_way() says, by whomever it was found out. */
static void look_up_way(Choosing *s, Trial *trial, Known *known) {
	ShareKey key = share_key(trial->context.module);
	trial->known = recall(s, &key, known);
	if (trial->known)
		return;
	compile_way(s, trial, known);
	trial->known = s->c->left > LEFT_FOR_LAST && outcome_known(s, trial, known);
	if (trial->known)
		share_add(s->c->shared, &key, known);
}

enum { WRONG_MOST = 1000 };

/* As much as there is room for, in whole characters. */
static void copy_words(char room[WRONG_MOST], const char *words) {
	size_t n = strlen(words);
	for (n = n < WRONG_MOST ? n : WRONG_MOST - 1; n && ((unsigned char)words[n] & 0xc0) == 0x80;)
		n--;
	memcpy(room, words, n);
	room[n] = '\0';
}

/* Gives back what was allocated for a way that is not taken, but for what is said of it. */
static void forget(Choosing *s, ArenaMark before, Tried *t) {
	char words[WRONG_MOST] = "";
	if (t->wrong)
		copy_words(words, t->wrong);
	arena_release(s->c->arena, before);
	if (t->wrong)
		t->wrong = arena_strdup(s->c->arena, words);
}

static void try_way(Choosing *s) {
	Arena *a = s->c->arena;
	const ArenaMark before = arena_mark(a);
	Module *copy = choose_module(s, &s->way);
	Diag quiet;
	diag_init(&quiet, a);
	Trial trial = {.context = {.module = copy, .diag = &quiet, .arena = a, .explain = s->c->options->explain}};
	Tried t = {.way = s->way};
	Known known = {0};
	if (configured(s, &trial.context))
		(s->c->shared ? look_up_way : compile_way)(s, &trial, &known);
	trial.context.diag = s->c->diag;
	trial.fits = lowers(s, &known) && known.fits;
	trial.outcome = known.outcome;
	if (s->way.at[ROW_POSITIONS] == POSITIONS_IN_TURN)
		s->may_one_hot = known.may_one_hot && searches(s) && !s->relaxed;
	if (s->way.at[ROW_LOOPS] == LOOPS_GIVEN)
		s->row_bytes = whole_rows_pay(s, known.row_bytes) ? known.row_bytes : 0;
	if (s->way.at[ROW_BODY] == BODY_AT_ONCE)
		s->may_split = known.may_split_rows;
	if (!known.planned)
		t.wrong = quiet.list.count ? quiet.list.at[0].message : "it cannot be planned";
	else if (lowers(s, &known) && !known.fits)
		t.wrong = "it does not fit";
	t.seconds = trial.fits ? known.outcome.seconds : known.bound;
	if (!trial.fits || !take(s, &trial, known.bound))
		forget(s, before, &t);
	vec_push(a, &s->tried, t);
}

static void try_rows(Choosing *s, ChoiceRow row) {
	if (row == FIRST_PLAN_ROW) {
		try_way(s);
		return;
	}
	for (ChoiceValue v = 0; v < VALUE_COUNT; v++)
		for (uint32_t i = 0; choice_values[v].row == row && i < legal[v](s); i++) {
			s->way.at[row] = v;
			s->way.which[row] = i;
			try_rows(s, row + 1);
		}
}

/* Nothing stands to choose: others may know what it comes to. */
static void try_first(Choosing *s) {
	int64_t left = s->c->left;
	for (ChoiceRow row = 0; row < FIRST_PLAN_ROW; row++)
		while (choice_values[s->way.at[row]].row != row)
			s->way.at[row]++;
	try_way(s);
	if (!found(s) && module_root(s->start, 1) != NONE)
		s->c->left = left; /* then each kernel is planned again, so that its refusal is said */
}

/* ---- remarks ----------------------------------------------------------------------------------------------------- */

static const char *block_text(const Choosing *s, const WideBlock *w) {
	return arena_printf(s->c->arena, " (%s %lld)", s->start->blocks.at[w->block].name, (long long)w->size);
}

static const char *detail(const Choosing *s, const ModuleWay *way, ChoiceRow row) {
	Arena *a = s->c->arena;
	uint32_t which = way->which[row];
	const WideBlocks *wide = wide_blocks(s, way->at[row]);
	if (wide)
		return block_text(s, &wide->at[which]);
	switch (way->at[row]) {
	case ROWS_DIVIDED: return arena_printf(a, " (%s)", rows_text(a, &s->rows_divided));
	case COLUMNS_PARTS: return block_text(s, &s->columns);
	case ROWS_CUT: return arena_printf(a, " (%s)", rows_text(a, &s->rows_cut));
	case SIZES_HALVED: return arena_printf(a, " (halved %u times)", which + 1);
	default: return "";
	}
}

/* The values of the rows in which the ways differ. */
static const char *words_of(const Choosing *s, const ModuleWay *way) {
	Text t;
	text_init(&t, s->c->arena);
	for (ChoiceRow row = 0; row < FIRST_PLAN_ROW; row++) {
		bool differs = false;
		for (uint32_t i = 1; i < s->tried.count; i++)
			differs = differs || s->tried.at[i].way.at[row] != s->tried.at[0].way.at[row];
		if (differs)
			text_printf(&t, "%s%s%s", t.length ? ", " : "", choice_values[way->at[row]].words,
			            detail(s, way, row));
	}
	return t.at;
}

static void remark_defaults(const Choosing *s, Program *g) {
	const Module *m = g->module;
	Text t;
	text_init(&t, s->c->arena);
	for (BlockId b = 0; b < m->blocks.count; b++)
		if (block_is_chosen(&m->blocks.at[b]))
			text_printf(&t, "%s%s %lld", t.length ? ", " : "", m->blocks.at[b].name,
			            (long long)m->block_size.at[b]);
	Remark r = {.pass = "plan",
	            .message = arena_printf(s->c->arena, "block_sizes by default: %s%s", t.at,
	                                    m->default_level ? ", for larger ones are refused" : "")};
	vec_push(s->c->arena, &g->remarks, r);
}

static void remark(const Choosing *s) {
	PassContext *context = &s->c->context;
	for (uint32_t i = 0; context->explain && s->tried.count > 1 && i < s->tried.count; i++) {
		const Tried *t = &s->tried.at[i];
		const char *words = words_of(s, &t->way);
		pass_remark(context, "choose", "%s",
		            choice_remark(s->c->arena, words, t->wrong, t->seconds, i == s->best_index));
	}
	if (s->defaults && s->best.program)
		remark_defaults(s, s->best.program);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* With hooks that are to see its passes, the compilation runs them itself. */
static void adopt(Choosing *s) {
	Compilation *c = s->c;
	if (c->options->hooks) {
		apply(s, &s->best_way, c->module);
		module_configure(c->module, c->diag);
		return;
	}
	if (s->best.known)
		c->known = arena_copy(c->arena, &s->best.outcome, 1, sizeof s->best.outcome);
	if (!s->best.program)
		return;
	c->module = s->best.context.module;
	c->context.module = c->module;
	c->program = s->best.program;
	for (uint32_t i = 0; i < s->best.context.remarks.count; i++)
		vec_push(c->arena, &c->context.remarks, s->best.context.remarks.at[i]);
}

void compile_choose(Compilation *c) {
	Choosing s;
	bool stands = start(&s, c, c->module);
	if (s.long_rows && c->module->config.reduction_loops.set)
		c->whole_rows = module_clone(c->module, c->arena);
	if (!stands && !c->shared)
		return;
	if (stands)
		try_rows(&s, 0);
	else
		try_first(&s);
	if (s.defaults && found(&s) && searches(&s))
		choose_near(&s);
	remark(&s);
	c->refused = !found(&s) && (stands || module_root(c->module, 1) == NONE);
	if (found(&s))
		adopt(&s);
}

Program *choose_all(Compilation *c, bool *bounded) {
	Choosing s;
	start(&s, c, c->module);
	s.all = true;
	try_rows(&s, 0);
	if (s.defaults && found(&s))
		choose_near(&s);
	*bounded = s.bounded;
	return s.best.program;
}

static void say(Compilation *c, const char *way) {
	static const char these[] = "these fit: ";
	for (uint32_t i = 0; i < c->diag->list.count; i++) {
		Diagnostic *d = &c->diag->list.at[i];
		if (!refused_for_vmem(d))
			continue;
		bool more = d->hint && strncmp(d->hint, these, sizeof these - 1) == 0;
		d->hint = more ? arena_printf(c->arena, "%s, or %s", d->hint, way)
		               : arena_printf(c->arena, "%s%s", these, way);
	}
}

void compile_say_what_fits(Compilation *c) {
	Choosing s;
	if (!c->whole_rows || c->diag->brief)
		return;
	start(&s, c, c->whole_rows);
	s.relaxed = true;
	try_rows(&s, 0);
	if (found(&s))
		say(c, rows_text(c->arena, &s.best.context.module->config.reduction_loops));
}
