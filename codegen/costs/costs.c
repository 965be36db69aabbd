/* costs.c - floating-point operations and HBM bytes of the whole kernel, from the Plan. */
#include "costs.h"
#include "codegen/lower/lower.h"

/* Mean of an affine of program ids over the grid; of anything else, `unknown`. */
static double affine_mean(const Plan *p, const Affine *a, double unknown) {
	double mean = (double)a->constant;
	for (uint32_t i = 0; i < a->count; i++) {
		if (a->term[i].kind != VAR_PROGRAM)
			return unknown;
		mean += (double)a->term[i].scale * (double)term_last(&a->term[i], p->grid.at[a->term[i].id].steps - 1) /
		        2;
	}
	return mean;
}

/* The mean number of whole steps that a dim takes. Bounds known only at run time count as half of the block's extent.
 */
static double dim_steps(Planner *p, const LoopDim *d, bool tail_too) {
	int64_t extent = 0;
	if (!d->computed)
		return (double)(d->full_steps + (tail_too && d->tail != 0));
	if (d->counts.sum > 0)
		return (double)d->counts.sum / (double)d->counts.points;
	ExprId e = p->m->blocks.at[d->block].extent;
	for (uint32_t k = 0; k < p->plan->grid.count && e == NONE; k++)
		extent = int_max(extent, p->plan->grid.at[k].steps * block_size(p, p->plan->grid.at[k].block));
	if (e != NONE)
		expr_value(p->m, e, &extent);
	Affine length = affine_sub(p->a, d->end, d->begin);
	return affine_mean(p->plan, &length, (double)extent / 2) / (double)d->step;
}

double loop_steps(Planner *p, const Loop *loop, bool tail_too) {
	double steps = 1;
	for (uint32_t i = 0; i < loop->rank; i++)
		steps *= dim_steps(p, &loop->dim[i], tail_too || !loop->peeled);
	return loop->bodies ? steps * loop->bodies->live : steps;
}

double grid_points(const Plan *p) {
	double points = 1;
	for (uint32_t i = 0; i < p->grid.count; i++)
		points *= (double)p->grid.at[i].steps;
	return points;
}

double matmul_flops(Planner *p, NodeId n) {
	int64_t shape[DIM_MAX];
	NodeId a = matmul_operand(p->m, n, 0);
	double flops = 2;
	uint32_t rank = plan_shape(p->plan, n, FORM_NATURAL, shape);
	for (uint32_t i = 0; i < rank; i++)
		flops *= (double)shape[i];
	return flops * (double)expr_number(p->m, node_type(p->m, a)->dims[node_type(p->m, a)->count - 1]);
}

/* Of factors of 8 bits; 0 in a target: as of bfloat16. */
static double matmul_rate(const Module *m, NodeId n) {
	const Target *t = m->target;
	Dtype a = node_type(m, matmul_operand(m, n, 0))->dtype, b = node_type(m, matmul_operand(m, n, 1))->dtype;
	bool narrow = dtype_bits(a) == 8 && dtype_bits(b) == 8 && dtype_is_float(a) == dtype_is_float(b);
	double rate = !narrow ? 0 : dtype_is_float(a) ? t->float8_flops : t->int8_flops;
	return rate > 0 ? rate : t->bf16_flops;
}

double matmul_seconds(Planner *p, NodeId n) { return matmul_flops(p, n) / matmul_rate(p->m, n); }

static void add_work(Planner *p, GraphId g, double times, double *flops, double *seconds) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_MATMUL) {
			*flops += times * matmul_flops(p, n);
			*seconds += times * matmul_seconds(p, n);
		}
		if (how == LOWER_LOOP) {
			GraphId body = loop_body(p->m, n);
			add_work(p, body, times * loop_steps(p, &p->plan->loops.at[p->plan->loop_of[body]], true),
			         flops, seconds);
		}
	}
}

double step_matmul_seconds(Planner *p, const Loop *loop) {
	double flops = 0, seconds = 0;
	add_work(p, loop->graph, 1, &flops, &seconds);
	return seconds;
}

/* Mean bytes of one copy: a dim that the copies walk has its last block cut off at the array's end; one that stays at a
 * block has what is left from there. */
double block_hbm_bytes(const Operand *o, const int64_t *block, const Affine *index) {
	double bytes = dtype_bits(o->dtype) / 8.0;
	for (uint32_t i = 0; i < o->rank; i++) {
		int64_t size = int_min(block[i], o->shape[i]);
		if (index[i].count > 0)
			bytes *= (double)o->shape[i] / (double)int_cdiv(o->shape[i], block[i]);
		else
			bytes *= (double)int_min(size, int_max(o->shape[i] - index[i].constant * block[i], 0));
	}
	return bytes;
}

/* Steps of grid dim k after which the index moves on; 0: it does not depend on k. */
static int64_t index_stays(const Plan *p, const Operand *o, uint32_t k) {
	int64_t stays = 0;
	for (uint32_t i = 0; i < o->rank; i++)
		for (uint32_t t = 0; t < o->index[i].count; t++) {
			const Term *term = &o->index[i].term[t];
			int64_t divide = int_max(term->divide, 1);
			bool table = term->kind == VAR_NODE && (p->values[term->id].points >> k & 1);
			if (table || (term->kind == VAR_PROGRAM && term->id == k))
				stays = stays ? int_min(stays, divide) : divide;
		}
	return stays;
}

/* A window is copied when its index changes from one grid point to the next: once per step of every grid dim from the
 * outermost down to the innermost one in its index map. */
int64_t operand_fetches(const Plan *p, const Operand *o) {
	int64_t fetches = 1, outer = 1;
	for (uint32_t k = 0; k < p->grid.count; k++) {
		outer *= p->grid.at[k].steps;
		int64_t stays = index_stays(p, o, k);
		fetches = stays ? int_cdiv(outer, stays) : fetches;
	}
	return int_cdiv(fetches, o->parts);
}

double loop_entries(Planner *p, uint32_t loop) {
	double entries = 1;
	for (uint32_t up = p->plan->loops.at[loop].parent; up != NONE; up = p->plan->loops.at[up].parent)
		entries *= loop_steps(p, &p->plan->loops.at[up], true);
	return entries;
}

double loop_copies(Planner *p, uint32_t loop) {
	return grid_points(p->plan) * loop_steps(p, &p->plan->loops.at[loop], false) * loop_entries(p, loop);
}

double node_runs(Planner *p, NodeId n) {
	uint32_t loop = p->plan->loop_of[node_get(p->m, n)->graph];
	return loop == NONE ? 1 : loop_entries(p, loop) * loop_steps(p, &p->plan->loops.at[loop], true);
}

double places_rows(const Places *s) {
	double rows = 1;
	for (uint32_t i = 0; i < s->rank; i++)
		rows *= (double)s->shape[i];
	return rows;
}

double places_bytes(const Plan *p, const Places *s) {
	const Access *access = p->values[s->node].access;
	const Operand *o = &p->operands.at[access->operand];
	double bytes = places_rows(s) * dtype_bits(o->dtype) / 8.0;
	for (uint32_t i = 0; i < access->rank; i++)
		bytes *= (double)(access->dim[i].kind == SLICE_ALL ? o->shape[i] : access->dim[i].size);
	return bytes;
}

/* What copies to other devices read and write in HBM; as many come as go. */
static void add_exchanged(Planner *p) {
	const Module *m = p->m;
	for (NodeId n = 0; n < m->nodes.count && p->plan->remote; n++) {
		const Access *to = p->plan->values[n].access;
		bool staged = p->plan->values[n].staged != NONE;
		if (staged && op_accesses(node_get(m, n)->op) && !op_is_remote(node_get(m, n)->op))
			p->plan->operands.at[to->operand].hbm_bytes +=
				grid_points(p->plan) * node_runs(p, n) *
				(double)p->plan->scratches.at[p->plan->values[n].staged].bytes;
		if (node_get(m, n)->op != OP_REMOTE_COPY || !to)
			continue;
		NodeId source = node_input(m, n, 2);
		const Access *from = p->plan->values[source].access;
		const Type *t = node_type(m, source);
		double bytes = grid_points(p->plan) * node_runs(p, n) * dtype_bits(t->dtype) / 8.0;
		for (uint32_t i = 0; i < t->count; i++)
			bytes *= (double)expr_number(m, t->dims[i]);
		if (p->plan->operands.at[to->operand].space == SPACE_HBM)
			p->plan->operands.at[to->operand].hbm_bytes += bytes;
		if (node_get(m, source)->op == OP_PART && p->plan->operands.at[from->operand].space == SPACE_HBM)
			p->plan->operands.at[from->operand].hbm_bytes += bytes;
	}
}

void operand_costs(const Plan *plan, Operand *o) {
	o->fetches = operand_fetches(plan, o);
	o->hbm_bytes = (double)o->fetches * block_hbm_bytes(o, o->block, o->index);
}

void plan_costs(Planner *p) {
	Plan *plan = p->plan;
	add_work(p, plan->root, grid_points(plan), &plan->flops, &plan->mxu_seconds);
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		Operand *o = &plan->operands.at[i];
		if (o->space == SPACE_WINDOW)
			operand_costs(plan, o);
	}
	for (uint32_t l = 0; l < plan->loops.count; l++) {
		double times = loop_copies(p, l);
		for (uint32_t i = 0; i < plan->loops.at[l].windows.count; i++) {
			const Window *w = &plan->loops.at[l].windows.at[i];
			Operand *o = &plan->operands.at[w->operand];
			if (w->dma)
				o->hbm_bytes += times * block_hbm_bytes(o, w->block, w->index);
		}
	}
	for (uint32_t i = 0; i < plan->places.count; i++) {
		const Places *s = &plan->places.at[i];
		if (s->copied)
			plan->operands.at[plan->values[s->node].access->operand].hbm_bytes +=
				grid_points(plan) * node_runs(p, s->node) * places_bytes(plan, s);
	}
	add_exchanged(p);
	for (uint32_t i = 0; i < plan->operands.count; i++)
		plan->hbm_bytes += plan->operands.at[i].hbm_bytes;
}
