/* skew.c - pallas_loop_skew: which loops compute part of a step one step ahead, beside the rest of the step before.
 *
 * The TPU compiler schedules a loop's body as a whole, but nothing moves from one iteration into another. So in
 *
 *   scores = q @ k[j]; p = softmax(scores, m); acc = acc * .. + p @ v[j]
 *
 * the MXU waits for the vector unit in the middle of each step, and the vector unit for the MXU at both ends. A skewed
 * loop has `scores` of the next step in the same body, where nothing depends on anything:
 *
 *   scores = q @ k[0]
 *   loop j: ahead = q @ k[j + 1]; p = softmax(scores, m); acc = acc * .. + p @ v[j]; scores = ahead
 *   p = softmax(scores, m); acc = acc * .. + p @ v[last]
 *
 * What may run ahead depends on no carried value and on nothing that the kernel writes. `auto` takes matmuls that lead
 * to a matmul which does depend on a carried value, or to a tile of exponents and the like which does, with all that
 * they need and the pointwise ops that only they feed; `on` takes any matmul. Values that the rest of the step reads
 * are handed on in VMEM scratch. Each value is computed as before and in the same order: no number changes.
 *
 * Unrolled steps are straight code, and the compiler could move what does not depend on a carried value by itself, but
 * keeps close to the order of the program. pallas_matmul_ahead says how many steps earlier such matmuls stand in it. */
#include "loops.h"
#include "codegen/costs/costs.h"
#include "mask_blocks.h"
#include "codegen/lower/lower.h"

/* auto: what a step hands on, where two steps wait. */
enum { TWO_AHEAD_BYTES = 2 << 20 };
/* So many full steps give a pair and what stands behind the loop. */
enum { PAIR_STEPS = 3 };
/* What is copied for the steps of a pair, and for those of the next one. */
enum { PAIR_BUFFERS = 4 };
/* auto: what a step hands on: of computed bounds, of which some is loaded, at most; in a single pair less. */
enum { HANDED_BYTES = 4 << 20 };

/* A node of the loop, and one of the loop that it reads. */
typedef struct Read {
	NodeId user, operand;
} Read;

typedef struct Skew {
	Planner *p;
	Loop *loop;
	bool *late;        /* by node: depends on a carried value or on something that the kernel writes */
	bool *ahead;       /* by node: one step ahead */
	bool *leads;       /* by node: a matmul that is late depends on it, ... */
	bool *weighs;      /* ... or a late tile that takes the vector unit long */
	bool *seldom;      /* by node: a choice that only the last steps need, ... */
	bool *first;       /* ... or the first as well ... */
	bool *asks;        /* ... or what its condition is made of */
	StepCounts counts; /* of a loop whose bounds are computed */
	VEC(Read) reads;   /* in the order of the program */
} Skew;

typedef void Visit(Skew *s, NodeId user, NodeId operand);

static void push_reads(Skew *s, NodeId user, const Arg *a) {
	if (a->kind == ARG_REF && node_get(s->p->m, a->node)->graph == s->loop->graph)
		vec_push(s->p->a, &s->reads, ((Read){user, a->node}));
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		push_reads(s, user, arg_get(s->p->m, a->list.first + i));
}

/* Flat, for they are walked several times. */
static void find_reads(Skew *s) {
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next) {
		const Node *node = node_get(s->p->m, n);
		for (uint32_t i = 0; i < node->arg_count; i++)
			push_reads(s, n, arg_get(s->p->m, node->arg_first + i));
	}
}

static void forwards(Skew *s, Visit *visit) {
	for (uint32_t i = 0; i < s->reads.count; i++)
		visit(s, s->reads.at[i].user, s->reads.at[i].operand);
}

static void backwards(Skew *s, Visit *visit) {
	for (uint32_t i = s->reads.count; i-- > 0;)
		visit(s, s->reads.at[i].user, s->reads.at[i].operand);
}

static Lowering how_of(const Skew *s, NodeId n) { return op_lowering(node_get(s->p->m, n)->op); }

/* ---- how many steps there are ----------------------------------------------------------------------------------- */

/* Full steps, at most. */
static int64_t full_steps(const Skew *s) {
	return s->loop->dim[0].computed ? s->counts.most : s->loop->dim[0].full_steps;
}

/* Of windows that are copied, where the configuration counts them. */
static bool has_fewer_buffers(const Skew *s) {
	bool fewer = false;
	for (uint32_t i = 0; i < s->loop->windows.count && s->p->m->config.load_buffer_count.set; i++)
		fewer = fewer ||
		        (window_comes(&s->loop->windows.at[i]) && s->loop->windows.at[i].buffers < PAIR_BUFFERS);
	return fewer;
}

static bool writes_windows(const Loop *loop) {
	bool writes = false;
	for (uint32_t i = 0; i < loop->windows.count; i++)
		writes = writes || (loop->windows.at[i].dma && loop->windows.at[i].output);
	return writes;
}

/* Why the loop has one step in each iteration; NULL if it has two. */
static const char *not_paired(const Skew *s) {
	Switch asked = (Switch)s->p->m->config.step_pairs.value;
	if (s->loop->type == LOOP_UNROLL)
		return "its steps are straight code";
	if (asked == SWITCH_OFF)
		return "pallas_step_pairs is off";
	if (s->loop->type == LOOP_EMIT_PIPELINE && writes_windows(s->loop))
		return "its pipeline copies what it gives step by step";
	if (s->loop->type == LOOP_EMIT_PIPELINE && has_fewer_buffers(s))
		return "its windows have too few buffers";
	if (!way_is(s->p, ROW_PAIRS, PAIRS_TWO))
		return "what a second one hands on does not fit";
	if (s->loop->dim[0].computed && !s->counts.even)
		return "at some grid points their number is odd, at others even";
	return full_steps(s) < PAIR_STEPS ? "it has too few of them" : NULL;
}

/* ---- what may run ahead ----------------------------------------------------------------------------------------- */

/* It belongs to its own step whatever it depends on. */
static bool is_bound(const Skew *s, NodeId n) {
	const Plan *plan = s->p->plan;
	Lowering how = how_of(s, n);
	if (how == LOWER_LOAD)
		return plan_writes(plan, plan->operands.at[plan->values[n].access->operand].tensor);
	if (node_get(s->p->m, n)->op == OP_PLACEHOLDER)
		return plan->values[n].same_as == NONE;
	return how == LOWER_STORE || how == LOWER_REMOTE || how == LOWER_LOOP || how == LOWER_RESULT ||
	       node_type(s->p->m, n)->kind == TYPE_TUPLE || n == graph_get(s->p->m, s->loop->graph)->output;
}

static void mark_late(Skew *s, NodeId user, NodeId operand) { s->late[user] = s->late[user] || s->late[operand]; }

static void mark_leads(Skew *s, NodeId user, NodeId operand) {
	if (s->leads[user] || (s->late[user] && how_of(s, user) == LOWER_MATMUL))
		s->leads[operand] = true;
}

static int64_t handed_bytes(Planner *p, NodeId n) {
	int64_t shape[DIM_MAX];
	uint32_t rank = plan_shape(p->plan, n, p->plan->values[n].form, shape);
	return register_bytes(p->m->target, node_type(p->m, n)->dtype, rank, shape);
}

/* Exponents and the like of a tile, for which the matmul before them need not be waited for: more than one operation on
 * each register. Unrolled steps are straight code, in which the compiler finds that by itself. */
static bool is_long_vector_work(const Skew *s, NodeId n) {
	const Type *t = node_type(s->p->m, n);
	uint16_t op = node_get(s->p->m, n)->op;
	bool is_tile = t->kind == TYPE_TENSOR && t->count >= 2 && expr_number(s->p->m, t->dims[t->count - 1]) > 1;
	bool is_long = !op_is(op, IS_CHEAP) && !op_is(op, IS_CHOICE) && !op_row(op_canonical(op))->condition;
	return s->loop->type != LOOP_UNROLL && s->late[n] && how_of(s, n) == LOWER_POINTWISE && is_long && is_tile &&
	       dtype_is_float(t->dtype);
}

static void mark_weighs(Skew *s, NodeId user, NodeId operand) {
	if (s->weighs[user] || is_long_vector_work(s, user))
		s->weighs[operand] = true;
}

static void mark_needed(Skew *s, NodeId user, NodeId operand) {
	s->ahead[operand] = s->ahead[operand] || s->ahead[user];
}

/* A reduction along sublanes, to what scratch or registers can hand on: it takes each register of a matmul as that
 * gives it, and its result is small. */
static bool folds_sublanes(const Skew *s, NodeId n) {
	const Type *t = node_type(s->p->m, n);
	if (how_of(s, n) != LOWER_REDUCE || t->kind != TYPE_TENSOR || t->count == 0 || t->dtype == DTYPE_BOOL)
		return false;
	uint32_t rank = value_rank(s->p, node_input(s->p->m, n, 0));
	return rank >= 2 && !(reduction_dims(s->p->m, n) >> (rank - 1) & 1);
}

/* Such a reduction, or what only feeds one (a mask). In straight code the compiler takes the maximum of what the MXU
 * gives by itself. */
static bool ends_folded(const Skew *s, NodeId n) {
	const Module *m = s->p->m;
	if (s->loop->type == LOOP_UNROLL)
		return false;
	NodeId user = lowering_streams(how_of(s, n)) ? node_only_user(m, n) : NONE;
	return folds_sublanes(s, n) || (user != NONE && folds_sublanes(s, user));
}

/* What has another user would be handed on as well as what follows it. */
static void mark_follows(Skew *s, NodeId user, NodeId operand) {
	bool alone = lowering_streams(how_of(s, user)) && node_use_count(s->p->m, operand) == 1;
	if (s->ahead[operand] && !s->late[user] && (alone || ends_folded(s, user)))
		s->ahead[user] = true;
}

/* Choices that only the steps behind the loop need stay with those: they are made under a flag there. `first`: and
 * those that the first step needs, which is made ahead of the loop. */
static void stay_seldom(Skew *s, bool first) {
	uint32_t l = s->p->plan->loop_of[s->loop->graph];
	int64_t last = s->counts.even && !not_paired(s) ? 2 : 1;
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE && s->counts.least > 0;
	     n = node_get(s->p->m, n)->next) {
		if (s->loop->bodies) {
			s->seldom[n] = n == s->loop->bodies->choice;
			s->late[n] = s->late[n] || s->seldom[n];
			continue;
		}
		bool too = false, *may = first && last == 1 ? &too : NULL;
		s->seldom[n] = how_of(s, n) == LOWER_POINTWISE && choice_is_seldom(s->p, l, n, &s->counts, last, may);
		s->first[n] = s->seldom[n] && too;
		s->late[n] = s->late[n] || s->seldom[n];
	}
}

/* A reduction of such a choice, along sublanes, is made of all lanes ahead, too: only the last steps choose the other.
 */
static void take_both(Skew *s) {
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next) {
		NodeId of = folds_sublanes(s, n) ? value_root(s->p->plan, node_input(s->p->m, n, 0)) : NONE;
		s->seldom[n] =
			s->seldom[n] || (of != NONE && s->seldom[of] && s->ahead[node_arg(s->p->m, of, 1)->node]);
	}
}

/* Nothing but the choice reads what it chooses of. */
static bool alone_reads(const Skew *s, NodeId choice, NodeId of) {
	bool alone = true;
	for (uint32_t i = 0; i < s->reads.count && alone; i++) {
		const Read *r = &s->reads.at[i];
		bool reads = value_root(s->p->plan, r->operand) == of;
		alone = !reads || r->user == choice || s->p->plan->values[r->user].same_as != NONE;
	}
	return alone;
}

/* The choice can be made of what runs ahead: of a tile that only it reads, which is handed on chosen, and a number. */
static bool can_choose_ahead(const Skew *s, NodeId choice) {
	const Module *m = s->p->m;
	const Value *values = s->p->plan->values;
	NodeId of = value_root(s->p->plan, node_arg(m, choice, 1)->node);
	const Arg *other = node_arg(m, choice, 2);
	bool number = other->kind != ARG_REF || constant_is_number(m, value_root(s->p->plan, other->node));
	bool alike = node_get(m, of)->type == node_get(m, choice)->type && values[choice].compute == DTYPE_NONE &&
	             values[of].form == values[choice].form && values[choice].wants == values[of].form;
	return number && alike && s->ahead[of] && alone_reads(s, choice, of);
}

static bool first_are_chosen(const Skew *s) {
	bool all = true;
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE && all; n = node_get(s->p->m, n)->next)
		all = !s->first[n] || can_choose_ahead(s, n);
	return all;
}

/* The matmuls to take, what they need, what follows them, and what that needs. */
static bool take_ahead(Skew *s, bool first) {
	bool any = false;
	bool all = s->loop->type != LOOP_UNROLL && (Switch)s->p->m->config.loop_skew.value == SWITCH_ON;
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next) {
		s->late[n] = is_bound(s, n);
		s->leads[n] = s->weighs[n] = s->seldom[n] = s->first[n] = false;
	}
	stay_seldom(s, first);
	forwards(s, mark_late);
	backwards(s, mark_leads);
	backwards(s, mark_weighs);
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next) {
		s->ahead[n] = how_of(s, n) == LOWER_MATMUL && !s->late[n] && (all || s->leads[n] || s->weighs[n]);
		any = any || s->ahead[n];
	}
	backwards(s, mark_needed);
	forwards(s, mark_follows);
	backwards(s, mark_needed);
	if (!s->loop->bodies)
		take_both(s);
	return any;
}

static bool choose_ahead(Skew *s) {
	find_reads(s);
	bool any = take_ahead(s, true);
	return first_are_chosen(s) ? any : take_ahead(s, false);
}

/* ---- what it hands on ------------------------------------------------------------------------------------------- */

static bool is_handed(const Skew *s, NodeId n) {
	for (uint32_t i = 0; i < s->loop->handed.count; i++)
		if (s->loop->handed.at[i].node == n)
			return true;
	return false;
}

static void hand_value(Skew *s, NodeId n) {
	if (!s->ahead[n] || node_get(s->p->m, n)->graph != s->loop->graph || how_of(s, n) == LOWER_FREE ||
	    (how_of(s, n) == LOWER_FULL && node_type(s->p->m, n)->count == 0) || is_handed(s, n))
		return;
	Handed handed = {.node = n, .scratch = NONE, .odd = NONE};
	vec_push(s->p->a, &s->loop->handed, handed);
}

static void hand_on(Skew *s, NodeId user, NodeId operand) {
	const Plan *plan = s->p->plan;
	NodeId n = value_root(plan, operand);
	if (plan->values[user].same_as != NONE || s->ahead[user])
		return;
	if (node_type(s->p->m, n)->kind != TYPE_SYM) {
		hand_value(s, n);
		return;
	}
	/* An int is printed where it is read, of program ids, steps and the ints that are computed. */
	Arg ref = arg_ref(n);
	Affine a = affine_of_arg(s->p, node_get(s->p->m, n)->graph, &ref);
	for (uint32_t i = 0; i < a.count; i++)
		if (a.term[i].kind == VAR_NODE)
			hand_value(s, a.term[i].id);
}

/* Why it cannot be handed on in scratch; NULL if it can. */
static const char *not_handed(const Skew *s, NodeId n) {
	const Type *t = node_type(s->p->m, n);
	if (t->kind != TYPE_TENSOR || t->count == 0)
		return "a scalar would be handed from step to step";
	return t->dtype == DTYPE_BOOL ? "a bool would be handed from step to step" : NULL;
}

/* Notes which parts of the step read each window. */
static void mark_windows(Skew *s, uint32_t loop) {
	const Plan *plan = s->p->plan;
	for (NodeId n = 0; n < s->p->m->nodes.count; n++) {
		const Access *access = plan->values[n].access;
		if (!access || access->kind != REF_WINDOW || access->loop != loop)
			continue;
		Window *win = &s->loop->windows.at[access->window];
		*(s->ahead[n] ? &win->ahead : &win->behind) = true;
	}
}

/* ---- the choice ------------------------------------------------------------------------------------------------- */

/* It is a loop whose full steps are counted before it runs; of one whose bounds are computed `counts`, if known. */
static const char *not_counted(Planner *p, const Loop *loop, StepCounts *counts) {
	*counts = (StepCounts){0};
	if (loop->rank == 0)
		return "its steps are not counted";
	if (loop->rank != 1)
		return "it has several dims";
	if (!loop->dim[0].computed)
		return loop->dim[0].full_steps < 2 ? "it has no two full steps" : NULL;
	if (loop->type == LOOP_FORI && !loop->dma && loop_counts(p, loop, counts))
		return counts->most < 2 ? "it has no two full steps" : NULL;
	*counts = (StepCounts){0};
	return "its bounds are computed in the kernel";
}

/* Why the loop's steps cannot overlap so; NULL if they can. */
static const char *not_skewable(const Planner *p, const Loop *loop, const char *uncounted) {
	const Config *c = &p->m->config;
	bool unrolled = loop->type == LOOP_UNROLL;
	bool on_auto = unrolled ? c->matmul_ahead.value == AHEAD_AUTO : (Switch)c->loop_skew.value == SWITCH_AUTO;
	if (unrolled && c->matmul_ahead.value == 0)
		return "pallas_matmul_ahead is 0";
	if (!unrolled && (Switch)c->loop_skew.value == SWITCH_OFF)
		return "pallas_loop_skew is off";
	if (on_auto && !p->m->target->skews_loops)
		return "on this chip the matmuls of a step take most of its time";
	return uncounted;
}

/* Its steps overlap, or would as those of a loop that is not straight code: time that a plan without that loses. */
static bool overlap_counts(const Planner *p, const char *uncounted) {
	return (Switch)p->m->config.loop_skew.value != SWITCH_OFF && p->m->target->skews_loops && !uncounted;
}

/* Matmuls that run ahead and lead to another. */
static double ahead_seconds(const Skew *s) {
	double seconds = 0;
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next)
		if (s->ahead[n] && s->leads[n] && how_of(s, n) == LOWER_MATMUL)
			seconds += matmul_seconds(s->p, n);
	return seconds;
}

/* Cycles of the exponents and the like that a step makes of what runs ahead: one for each register. */
static double weight_cycles(const Skew *s) {
	double bytes = 0;
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next)
		bytes += is_long_vector_work(s, n) ? (double)handed_bytes(s->p, n) : 0;
	return bytes / (double)target_registers_bytes(s->p->m->target, 1);
}

/* An emit_pipeline takes one step more at each grid point, and other loops what stands before and behind them: what
 * steps can hide must be worth that. */
static bool pays(const Skew *s) {
	const Target *t = s->p->m->target;
	double matmuls = ahead_seconds(s), hidden = matmuls > 0 ? matmuls : weight_cycles(s) / t->clock_hz;
	if ((Switch)s->p->m->config.loop_skew.value == SWITCH_ON ||
	    (s->loop->type != LOOP_EMIT_PIPELINE && matmuls > 0))
		return true;
	return hidden * (double)s->loop->dim[0].full_steps > (double)t->pipeline_step_cycles / t->clock_hz;
}

/* A step reduces along sublanes, where a score tile is reduced register by register as the matmul gives it; or along
 * lanes, where the compiler does better with unrolled steps as they are. Measured: docs/passes/loop_skew.md */
static bool reduces(const Skew *s, bool sublanes) {
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next)
		if (how_of(s, n) == LOWER_REDUCE && folds_sublanes(s, n) == sublanes)
			return true;
	return false;
}

/* What a step loads and hands on is copied once more, which takes longer than what overlaps, unless a mask is left out
 * for it and little is handed on. Causal attention backward of S = 8192 on v6e, cycles as it stands, skewed: dk and dv
 * in blocks of 512 6.42M, 6.91M, without masks but in the first step and the last 6.24M; dq in blocks of 512 6.01M,
 * 5.04M, by default 3.78M, in pairs 4.36M. */
static bool hands_too_much(const Skew *s) {
	bool loads = false, seldom = false;
	int64_t bytes = 0;
	if (!s->loop->dim[0].computed || (Switch)s->p->m->config.loop_skew.value != SWITCH_AUTO)
		return false;
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next) {
		seldom = seldom || s->seldom[n];
		loads = loads || (how_of(s, n) == LOWER_LOAD && is_handed(s, n));
		bytes += is_handed(s, n) ? handed_bytes(s->p, n) : 0;
	}
	return loads && !(seldom && not_paired(s) && bytes <= HANDED_BYTES);
}

static const char *skew_wrong(Skew *s, uint32_t l) {
	if (s->loop->type == LOOP_UNROLL && s->p->m->config.matmul_ahead.value == AHEAD_AUTO && reduces(s, false))
		return "unrolled steps that reduce along lanes overlap as they are";
	if (!pays(s))
		return "one step more of the pipeline takes longer than what could run beside the others";
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next)
		if (s->seldom[n] && how_of(s, n) == LOWER_REDUCE)
			vec_push(s->p->a, &s->loop->handed, ((Handed){.node = n, .scratch = NONE, .odd = NONE}));
	forwards(s, hand_on);
	mark_windows(s, l);
	for (uint32_t i = 0; i < s->loop->windows.count; i++) {
		const Window *win = &s->loop->windows.at[i];
		if (win->dma && win->ahead && win->behind)
			return arena_printf(s->p->a, "%s is needed one step ahead and in its own step", win->ref);
	}
	const char *wrong = s->loop->handed.count ? NULL : "the rest of the step reads nothing of it";
	if (hands_too_much(s)) {
		s->loop->overlap_seconds = 0; /* nothing is lost */
		return "it would hand on what it loads";
	}
	for (uint32_t i = 0; i < s->loop->handed.count && !wrong && s->loop->type != LOOP_UNROLL; i++)
		wrong = not_handed(s, s->loop->handed.at[i].node);
	return wrong;
}

/* What no scratch holds passes no fence; steps that reduce along lanes overlap without. */
static bool can_fence(const Skew *s) {
	const Loop *loop = s->loop;
	bool can = loop->paired && !loop->dim[0].computed && reduces(s, true) && !reduces(s, false);
	for (uint32_t i = 0; i < loop->carries.count; i++)
		can = can && loop->carries.at[i].place == CARRY_SCRATCH;
	return can;
}

/* Three or four steps are one iteration of two, which is no loop: straight code, in which the compiler keeps what it
 * should hand on. Attention of S = 4096, steps of 1024, in pairs and not: 2048 rows on v7x 371K, 306K, on v6e 375K,
 * 299K cycles; of 512 rows 349K, 364K and 369K, 380K. */
static bool pairs_are_no_loop(const Skew *s) {
	const Loop *loop = s->loop;
	int64_t bytes = 0;
	if ((Switch)s->p->m->config.step_pairs.value != SWITCH_AUTO || s->p->m->fenced || loop->dim[0].computed ||
	    full_steps(s) > PAIR_STEPS + 1)
		return false;
	for (NodeId n = graph_first(s->p->m, loop->graph); n != NONE; n = node_get(s->p->m, n)->next)
		if (s->seldom[n])
			return false;
	for (uint32_t i = 0; i < loop->handed.count; i++)
		bytes += handed_bytes(s->p, loop->handed.at[i].node);
	return bytes >= HANDED_BYTES;
}

/* A pair's windows are waited for at once, while those of the next one are on their way: each has a buffer, unless the
 * configuration counts them. */
static void copy_by_pairs(const Skew *s) {
	bool given = s->p->m->config.load_buffer_count.set;
	for (uint32_t i = 0; i < s->loop->windows.count && !given; i++)
		if (window_comes(&s->loop->windows.at[i]))
			plan_window_buffers(s->p->plan, &s->loop->windows.at[i], PAIR_BUFFERS);
}

/* Two steps that wait for HBM take no less than one after the other: attention with a bias of S = 4096 takes 3 to 7%
 * more in pairs. Nor do those with one matmul after the other: fused linear + cross-entropy takes as long, and the
 * compiler twice as long for it. */
static bool copies_in_turn(const Skew *s) {
	if (!s->loop->dma || (Switch)s->p->m->config.step_pairs.value != SWITCH_AUTO)
		return false;
	if (has_fewer_buffers(s) || ahead_seconds(s) == 0)
		return true;
	StepTimes step = plan_step_times(s->p, s->p->plan->loop_of[s->loop->graph]);
	return step.hidden + step.shown > step.matmul;
}

/* Of an emit_pipeline, whose body has all kinds of steps: two of them are twice the code, and gain where scores are
 * reduced as the matrix unit gives them (docs/passes/loop_skew.md). */
static bool gains_little(const Skew *s) {
	return s->loop->type == LOOP_EMIT_PIPELINE && (Switch)s->p->m->config.step_pairs.value == SWITCH_AUTO &&
	       (!reduces(s, true) || reduces(s, false));
}

static void choose_pairs(const Skew *s) {
	Loop *loop = s->loop;
	if (loop->type == LOOP_UNROLL || loop->bodies)
		return;
	loop->pair_why = not_paired(s);
	if (!loop->pair_why && pairs_are_no_loop(s))
		loop->pair_why = "they would be one iteration";
	if (!loop->pair_why && copies_in_turn(s))
		loop->pair_why = "each one waits for its copies";
	if (!loop->pair_why && gains_little(s))
		loop->pair_why = "nothing is reduced along rows";
	loop->paired = !loop->pair_why;
	if (loop->paired) {
		loop->pair_why = "what each one hands on has its own scratch";
		copy_by_pairs(s);
	}
	loop->fenced = s->p->m->fenced && can_fence(s);
}

static void mark_asks(Skew *s, NodeId user, NodeId operand) {
	if (s->asks[user] && !s->ahead[user])
		s->asks[operand] = true;
}

/* The condition of a choice that only the last steps need is made of what they are handed: of which blocks of that it
 * holds is not known. */
static bool asks_handed(const Skew *s) {
	bool any = false;
	for (uint32_t i = 0; i < s->loop->handed.count; i++)
		any = any || s->asks[s->loop->handed.at[i].node];
	return any;
}

/* The masked last steps are cut where a block is less than a step. */
static void choose_cut(Skew *s) {
	const Plan *plan = s->p->plan;
	Loop *loop = s->loop;
	int64_t longest = 0, shape[DIM_MAX];
	if (!loop->flagged)
		return;
	for (NodeId n = graph_first(s->p->m, loop->graph); n != NONE; n = node_get(s->p->m, n)->next) {
		bool choice = s->seldom[n] && op_canonical(node_get(s->p->m, n)->op) == OP_WHERE;
		if (choice)
			s->asks[node_input(s->p->m, n, 0)] = true;
		uint32_t rank = choice ? plan_shape(plan, n, plan->values[n].form, shape) : 0;
		for (uint32_t d = 1; d <= 2 && d <= rank; d++)
			longest = int_max(longest, shape[rank - d]);
	}
	backwards(s, mark_asks);
	Switch asked = (Switch)s->p->m->config.mask_blocks.value;
	bool handed = asks_handed(s);
	loop->cut = !handed && (asked == SWITCH_ON || (asked == SWITCH_AUTO && longest > MASK_BLOCK));
	loop->cut_why = loop->cut ? "those that the mask leaves nothing of are left out where they add nothing"
	                : asked == SWITCH_OFF ? "pallas_mask_blocks is off"
	                : handed              ? "their mask is made of what runs ahead of them"
	                                      : "they are no larger than a block";
}

/* A loop passes on values of up to an eighth of the registers by itself. */
static bool is_handed_in_registers(Planner *p, const Loop *loop, Handed *h) {
	h->bytes = handed_bytes(p, h->node);
	return loop->type == LOOP_FORI && !loop->fenced &&
	       h->bytes <= target_registers_bytes(p->m->target, p->m->target->registers) / 8;
}

/* What is handed on, for people; in scratch unless the steps are straight code or it is small. */
static const char *hand_over(Planner *p, Loop *loop) {
	const char *list = "";
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		Handed *h = &loop->handed.at[i];
		bool small = node_type(p->m, h->node)->kind == TYPE_TENSOR && is_handed_in_registers(p, loop, h);
		if (loop->type != LOOP_UNROLL && !small) {
			h->scratch = loop->bodies ? bodies_scratch(p, loop, h->node)
			                          : carry_scratch(p, h->node, "handed from a step to the next");
			h->bytes = p->plan->scratches.at[h->scratch].bytes;
			if (loop->paired)
				h->odd = carry_scratch(p, h->node, "handed from an even step to an odd one");
		}
		list = arena_printf(p->a, "%s%s%s (%lld bytes)", list, i ? ", " : "", node_get(p->m, h->node)->name,
		                    (long long)h->bytes);
	}
	return list;
}

/* Every matmul that stands ahead contracts less than the MXU is deep, and so ends sooner than its result's size says.
 */
static bool contracts_little(const Skew *s) {
	for (NodeId n = graph_first(s->p->m, s->loop->graph); n != NONE; n = node_get(s->p->m, n)->next) {
		if (!s->ahead[n] || how_of(s, n) != LOWER_MATMUL)
			continue;
		const Type *left = node_type(s->p->m, matmul_operand(s->p->m, n, 0));
		if (expr_number(s->p->m, left->dims[left->count - 1]) >= s->p->m->target->mxu_size)
			return false;
	}
	return true;
}

/* How far ahead. Of unrolled steps one step is best by measurement, two where matmuls are short and little waits. */
static int steps_ahead(const Skew *s) {
	int asked = s->p->m->config.matmul_ahead.value;
	int64_t bytes = 0;
	for (uint32_t i = 0; i < s->loop->handed.count; i++)
		bytes += s->loop->handed.at[i].bytes;
	if (s->loop->type != LOOP_UNROLL)
		return 1;
	if (asked != AHEAD_AUTO)
		return asked;
	return bytes <= TWO_AHEAD_BYTES && contracts_little(s) ? 2 : 1;
}

static void skew_loop(Planner *p, uint32_t l) {
	Loop *loop = &p->plan->loops.at[l];
	size_t nodes = (size_t)p->m->nodes.count + 1;
	Skew s = {.p = p, .loop = loop};
	const char *uncounted = not_counted(p, loop, &s.counts);
	bool counts = overlap_counts(p, uncounted);
	loop->skew_why = not_skewable(p, loop, uncounted);
	if (loop->skew_why && !counts)
		return;
	s.late = arena_array(p->a, nodes, sizeof *s.late);
	s.ahead = arena_array(p->a, nodes, sizeof *s.ahead);
	s.leads = arena_array(p->a, nodes, sizeof *s.leads);
	s.weighs = arena_array(p->a, nodes, sizeof *s.weighs);
	s.seldom = arena_array(p->a, nodes, sizeof *s.seldom);
	s.first = arena_array(p->a, nodes, sizeof *s.first);
	s.asks = arena_array(p->a, nodes, sizeof *s.asks);
	bool any = choose_ahead(&s);
	loop->overlap_seconds = counts ? ahead_seconds(&s) : 0;
	if (!loop->skew_why)
		loop->skew_why = any ? skew_wrong(&s, l) : "no matmul of the next step can run beside a step";
	if (!loop->skew_why && way_is(p, ROW_SKEW, SKEW_IN_TURN))
		loop->skew_why = "what it hands on does not fit";
	if (loop->skew_why) {
		loop->handed.count = 0;
		return;
	}
	loop->skewed = p->plan->skewed = true;
	for (NodeId n = 0; n < p->m->nodes.count; n++) {
		p->plan->values[n].ahead = p->plan->values[n].ahead || s.ahead[n];
		p->plan->values[n].seldom = p->plan->values[n].seldom || s.seldom[n];
		p->plan->values[n].first = p->plan->values[n].first || s.first[n];
		loop->flagged = loop->flagged || s.seldom[n];
	}
	choose_pairs(&s);
	choose_cut(&s);
	const char *list = hand_over(p, loop);
	loop->ahead = (int)int_min(steps_ahead(&s), full_steps(&s) - 1);
	const char *of = loop->ahead == 1 ? "the next step" : arena_printf(p->a, "the step %d later", loop->ahead);
	loop->skew_why = arena_printf(p->a, "of %s %s can be computed beside this one", of, list);
}

void plan_skew(Planner *p) {
	for (uint32_t l = 0; l < p->plan->loops.count; l++)
		skew_loop(p, l);
}
