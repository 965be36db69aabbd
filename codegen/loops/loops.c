/* loops.c - the inner loops: their bounds, how each is lowered, and where carried values live. */
#include "loops.h"
#include <stdio.h>

static bool loop_bounds(Planner *p, NodeId call, Loop *loop) {
	const Module *m = p->m;
	GraphId outer = node_get(m, call)->graph;
	const Graph *g = graph_get(m, loop->graph);
	loop->rank = g->blocks.count;
	if (g->kind == GRAPH_WHILE)
		return while_flag(m, call) != NONE ||
		       plan_refuse(p, call, "unsupported", "compute it without loops and branches of its own",
		                   "a while whose condition calls graphs is not lowered");
	if (loop->rank > RANK_MAX || loop->rank == 0)
		return plan_refuse(p, call, "unsupported", "nest two loops: each over some of the dims",
		                   "a loop over %u dims is not lowered", loop->rank);
	bool one_ragged = false;
	uint32_t order[RANK_MAX] = {0};
	loop_order(p, loop->graph, order);
	if (!loop_order_kept(p, loop))
		return false;
	for (uint32_t i = 0; i < loop->rank; i++) {
		LoopDim *d = &loop->dim[i];
		d->block = g->blocks.at[order[i]];
		d->step = block_size(p, d->block);
		d->begin = affine_of_arg(p, outer, arg_item(m, node_arg(m, call, 1), order[i]));
		d->end = affine_of_arg(p, outer, arg_item(m, node_arg(m, call, 2), order[i]));
		Affine steps = affine_sub(p->a, d->end, d->begin);
		d->computed = !affine_is_int(&steps);
		if (d->computed) {
			d->counts = dim_counts(p, d);
			continue;
		}
		int64_t length = int_max(steps.constant, 0);
		d->full_steps = length / d->step;
		d->tail = length % d->step;
		one_ragged = d->tail != 0;
	}
	loop->peeled = loop->rank == 1 && one_ragged;
	return true;
}

/* A bound is computed in the kernel, though the number of steps may be known. */
static bool loop_traced(const Loop *loop) {
	for (uint32_t i = 0; i < loop->rank; i++)
		if (!affine_is_int(&loop->dim[i].begin) || !affine_is_int(&loop->dim[i].end))
			return true;
	return false;
}

static bool is_scalar(const Module *m, NodeId n) { return node_type(m, n)->count == 0; }

static bool carries_scalar(const Module *m, const Loop *loop) {
	const Graph *g = graph_get(m, loop->graph);
	for (uint32_t i = 0; i < g->carried.count; i++)
		if (is_scalar(m, g->placeholders.at[g->carried.at[i].arg]))
			return true;
	return false;
}

static bool refuse_type(Planner *p, const Loop *loop, LoopType type, const char *why, const char *hint) {
	diag_error(p->d, config_place(&p->m->config.loop_type.origin), "loop-type", hint,
	           "pallas_loop_type %s cannot lower the loop %s: %s", loop_type_name(type),
	           node_get(p->m, loop->call)->name, why);
	loop_relate(p->m, p->d, loop->call);
	return false;
}

/* The configured lowering if the loop can take it, else what suits the loop. */
static bool loop_choose(Planner *p, Loop *loop) {
	const LoopFact *fact = p->m->loop_facts ? &p->m->loop_facts[loop->graph] : NULL;
	LoopType asked = way_type(p), given = p->m->fenced ? LOOP_UNROLL : asked;
	bool computed = loop_traced(loop), ragged = loop_ragged_unpeeled(p, loop);
	if (loop->rank == 0) {
		loop->type = LOOP_FORI;
		loop->why = "it runs while what it carries says so";
		return true;
	}
	loop->why = loop_straight(p, loop);
	if (loop->why) {
		loop->type = LOOP_UNROLL;
		return true;
	}
	if (asked != LOOP_DEFAULT) {
		if (fact && !(fact->legal & (1u << given)))
			return refuse_type(p, loop, given, fact->why_not[given], "use fori_loop");
		if (given == LOOP_UNROLL && computed)
			return refuse_type(p, loop, given, "its bounds are computed in the kernel", "use fori_loop");
		loop->type = asked;
		loop->why = "the configuration asks for it";
		return true;
	}
	loop->type = computed ? LOOP_FORI : LOOP_EMIT_PIPELINE;
	loop->why = computed ? "computed bounds default to fori_loop"
	                     : "the default: inputs are copied while the step computes";
	if (fact && !(fact->legal & 1u << LOOP_EMIT_PIPELINE)) {
		loop->type = LOOP_FORI;
		loop->why = fact->why_not[LOOP_EMIT_PIPELINE];
	} else if (ragged) {
		loop->type = LOOP_FORI;
		loop->why = "ragged steps that cannot be peeled are masked on a resident block";
	} else if (carries_scalar(p->m, loop)) {
		loop->type = LOOP_FORI;
		loop->why = "it carries a scalar, which cannot pass through emit_pipeline";
	}
	return true;
}

static bool loops_in(Planner *p, GraphId g, uint32_t parent);

static bool loop_add(Planner *p, NodeId call, uint32_t parent) {
	Loop loop = {.graph = loop_body(p->m, call), .call = call, .parent = parent};
	if (graph_get(p->m, loop.graph)->lengths != NONE)
		return plan_refuse(p, call, "unsupported", "run the pass jagged",
		                   "the rows of a jagged loop are not masked");
	if (!loop_bounds(p, call, &loop) || !loop_choose(p, &loop))
		return false;
	uint32_t index = p->plan->loops.count;
	loop.name = index ? arena_printf(p->a, "step_%u", index) : "step";
	loop.step_name = index ? arena_printf(p->a, "j_%u", index) : "j";
	vec_push(p->a, &p->plan->loops, loop);
	p->plan->loop_of[loop.graph] = index;
	return loops_in(p, loop.graph, index);
}

static bool loops_in(Planner *p, GraphId g, uint32_t parent) {
	bool ok = true;
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next)
		if (op_lowering(node_get(p->m, n)->op) == LOWER_LOOP)
			ok = loop_add(p, n, parent) && ok;
	return ok;
}

bool plan_loops(Planner *p) {
	p->plan->loops.count = 0;
	return loops_in(p, p->plan->root, NONE);
}

/* ---- carried values --------------------------------------------------------------------------------------------- */

static bool scratch_named(const Planner *p, const char *ref) {
	for (uint32_t i = 0; i < p->plan->scratches.count; i++)
		if (strcmp(p->plan->scratches.at[i].ref, ref) == 0)
			return true;
	return false;
}

/* Loops may carry values of one name; each has its own scratch. */
static const char *scratch_name(const Planner *p, const char *value) {
	const char *ref = arena_printf(p->a, "%s_ref", value);
	for (uint32_t copy = 1; scratch_named(p, ref); copy++)
		ref = arena_printf(p->a, "%s_ref_%u", value, copy);
	return ref;
}

uint32_t carry_scratch(Planner *p, NodeId value, const char *why) {
	Scratch s = {.kind = SCRATCH_VMEM, .why = why};
	s.dtype = node_type(p->m, value)->dtype;
	s.rank = plan_shape(p->plan, value, p->plan->values[value].form, s.shape);
	s.bytes = scratch_vmem_bytes(p->m->target, s.dtype, s.rank, s.shape);
	s.ref = scratch_name(p, node_get(p->m, value)->name);
	return plan_scratch(p, s);
}

static void carry_place(Planner *p, Loop *loop, Carry *c, NodeId placeholder) {
	const Type *t = node_type(p->m, placeholder);
	int64_t shape[DIM_MAX];
	uint32_t rank = plan_shape(p->plan, placeholder, p->plan->values[placeholder].form, shape);
	int64_t bytes = register_bytes(p->m->target, t->dtype, rank, shape);
	c->place = CARRY_REGISTER;
	c->scratch = NONE;
	if (loop->type == LOOP_UNROLL)
		c->why = "unrolled steps pass values straight on";
	else if (loop->type == LOOP_EMIT_PIPELINE)
		c->place = CARRY_SCRATCH, c->why = "emit_pipeline passes nothing from step to step";
	else if (t->count > 0 && p->m->fenced)
		c->place = CARRY_SCRATCH, c->why = "it is passed over a fence";
	else if (loop->bodies)
		c->why = "straight code passes values on";
	else if (t->count > 0 && bytes > target_strip_bytes(p->m->target))
		c->place = CARRY_SCRATCH,
		c->why = "too large for registers: a loop carry would be spilled whole each step";
	else
		c->why = "small enough for registers";
	if (c->place == CARRY_SCRATCH)
		c->scratch = carry_scratch(p, placeholder, c->why);
}

/* Of a while, what says whether it goes on comes first. */
static uint32_t carried_at(const Module *m, const Loop *loop, uint32_t i) {
	const Graph *g = graph_get(m, loop->graph);
	uint32_t flag = loop->rank == 0 ? while_flag(m, loop->call) : NONE, at = 0;
	if (flag == NONE)
		return i;
	while (g->carried.at[at].arg != flag)
		at++;
	return i == 0 ? at : i - (i <= at);
}

static bool loop_carries(Planner *p, Loop *loop) {
	const Module *m = p->m;
	const Graph *g = graph_get(m, loop->graph);
	const Arg *results = graph_results(m, loop->graph);
	for (uint32_t i = 0; i < g->carried.count; i++) {
		Carried carried = g->carried.at[carried_at(m, loop, i)];
		Carry c = {.arg = carried.arg, .output = carried.output};
		NodeId placeholder = g->placeholders.at[c.arg];
		if (loop->type == LOOP_EMIT_PIPELINE && is_scalar(m, placeholder))
			return plan_refuse(p, placeholder, "unsupported", "use fori_loop",
			                   "a carried scalar cannot pass through emit_pipeline");
		carry_place(p, loop, &c, placeholder);
		plan_remark(p->plan, "%s: carried %s lives in %s: %s", loop->name, node_get(m, placeholder)->name,
		            c.place == CARRY_REGISTER ? "registers" : "VMEM scratch", c.why);
		vec_push(p->a, &loop->carries, c);
	}
	for (uint32_t i = 0; i < results->list.count; i++)
		if (graph_carried_arg(g, i) == NONE)
			return plan_refuse(p, loop->call, "unsupported", "carry it from step to step",
			                   "a loop result that is not carried is undefined when the loop runs zero "
			                   "times");
	return true;
}

bool plan_carries(Planner *p) {
	bool ok = true;
	for (uint32_t i = 0; i < p->plan->loops.count; i++)
		ok = loop_carries(p, &p->plan->loops.at[i]) && ok;
	return ok;
}
