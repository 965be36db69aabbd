/* residency.c - inputs that are better kept resident than copied window by window, one tensor at a time.
 *
 * A loop that copies fetches its windows anew at each grid point, and so does each loop that reads the same tensor: K
 * and V for every tile of Q, a row of tiles for each of two passes over it. A resident block moves when its index
 * changes: once per head, once for both passes, once for weights that all grid points use. And where no fewer bytes
 * move, the grid's pipeline brings them while the point before computes; a loop's starts empty at each point and ends
 * empty. So a tensor is offered to stay if that moves no more bytes; search.c plans the kernel that way as well and
 * takes it if it fits and is estimated to be faster.
 *
 * A loop that then copies nothing but what it writes is offered with resident results as well.
 *
 * An emit_pipeline that the configuration asks for keeps at least one window to copy, unless its windows hold all of
 * its steps (group.c); a window of an input, where only that one's time is saved. */
#include "access.h"
#include "codegen/costs/costs.h"
#include "codegen/loops/loops.h"

/* The accesses that loops would copy of one tensor. */
typedef struct Readers {
	VEC(uint32_t) wants;
	double copied, resident; /* HBM bytes over the whole kernel, one way and the other */
	bool two_loops;
} Readers;

static bool can_be_copied(Planner *p, const AccessWant *w, Operand *o, int64_t *block, Affine *index) {
	return w->loop != NONE && !w->held && operand_array(p, o, w) && !window_not_copied(p, w, o, block, index);
}

static double times_around(Planner *p, uint32_t loop) {
	return grid_points(p->plan) * loop_entries(p, loop) * loop_steps(p, &p->plan->loops.at[loop], true);
}

static bool same_block(const Operand *a, const Operand *b) {
	bool same = a->seen_as == b->seen_as;
	for (uint32_t d = 0; same && d < a->rank; d++)
		same = a->block[d] == b->block[d] && affine_equal(&a->index[d], &b->index[d]);
	return same;
}

/* Adds up what the copies move, and what resident blocks would; each different block once. */
static bool count_traffic(Planner *p, const AccessWants *wants, Readers *r) {
	Operand *blocks = arena_array(p->a, (size_t)r->wants.count + 1, sizeof *blocks);
	for (uint32_t i = 0; i < r->wants.count; i++) {
		const AccessWant *w = &wants->at[r->wants.at[i]];
		Operand copied = {0}, *o = &blocks[i];
		int64_t block[DIM_MAX];
		Affine index[DIM_MAX];
		if (want_gathers(w) != NONE || !can_be_copied(p, w, &copied, block, index))
			return false; /* its copies put pieces together, which a block does not */
		*o = (Operand){.space = SPACE_WINDOW, .input = true};
		if (!operand_array(p, o, w) || !operand_block(p, o, w, false))
			return false;
		r->copied += times_around(p, w->loop) * block_hbm_bytes(&copied, block, index);
		bool known = false;
		for (uint32_t k = 0; k < i && !known; k++)
			known = same_block(&blocks[k], o);
		if (!known)
			r->resident += (double)operand_fetches(p->plan, o) * block_hbm_bytes(o, o->block, o->index);
		r->two_loops = r->two_loops || w->loop != wants->at[r->wants.at[0]].loop;
	}
	return true;
}

static bool saves_half(const Readers *r) { return r->resident * 2 <= r->copied; }

static const char *why_stays(Planner *p, const Readers *r) {
	const char *who = !saves_half(r) ? "it comes while the point before computes"
	                  : r->two_loops ? "two loops read it"
	                                 : "each grid point would copy it again";
	return arena_printf(p->a, "%s: resident it moves %.4g MB between HBM and VMEM, copied %.4g MB", who,
	                    r->resident / 1e6, r->copied / 1e6);
}

/* Of loops that would copy nothing all that they read alone is given back; of those that would copy no input, first
 * what does not save half of its bytes. */
static void give_back(Planner *p, AccessWants *wants, bool all) {
	bool *copies = arena_array(p->a, p->plan->loops.count + 1, sizeof *copies);
	bool *given_back = arena_array(p->a, p->m->tensors.count + 1, sizeof *given_back);
	for (uint32_t i = 0; i < wants->count; i++) {
		const AccessWant *w = &wants->at[i];
		Operand o = {0};
		int64_t block[DIM_MAX];
		Affine index[DIM_MAX];
		if (!w->stays && (all || !w->store) && can_be_copied(p, w, &o, block, index))
			copies[w->loop] = true;
	}
	for (uint32_t i = 0; i < wants->count; i++) {
		const AccessWant *w = &wants->at[i];
		if (w->stays && !copies[w->loop] && (all || !w->saves_half))
			given_back[tensor_base(p->m, w->tensor)] = true;
	}
	for (uint32_t i = 0; i < wants->count; i++)
		if (given_back[tensor_base(p->m, wants->at[i].tensor)]) {
			p->plan->may_hold_all = p->plan->may_hold_all || wants->at[i].stays;
			wants->at[i].stays = NULL;
		}
}

/* Loops that the configuration wants as emit_pipeline must copy something. */
static void leave_windows(Planner *p, AccessWants *wants) {
	if (way_type(p) != LOOP_EMIT_PIPELINE || way_holds_all(p))
		return;
	give_back(p, wants, false);
	give_back(p, wants, true);
}

static bool loop_copies_input(Planner *p, const AccessWants *wants, uint32_t loop) {
	bool copies = false;
	for (uint32_t i = 0; i < wants->count && !copies; i++) {
		const AccessWant *w = &wants->at[i];
		Operand o = {0};
		int64_t block[DIM_MAX];
		Affine index[DIM_MAX];
		copies = w->loop == loop && !w->store && can_be_copied(p, w, &o, block, index);
	}
	return copies;
}

static bool loop_keeps_input(const AccessWants *wants, uint32_t loop) {
	bool keeps = false;
	for (uint32_t i = 0; i < wants->count && !keeps; i++)
		keeps = wants->at[i].loop == loop && wants->at[i].stays;
	return keeps;
}

/* A loop whose inputs stay would fill and drain a pipeline at each grid point for its results alone. */
static void mark_results(Planner *p, AccessWants *wants) {
	if (!way_keeps(p) || (way_type(p) == LOOP_EMIT_PIPELINE && !way_holds_all(p)))
		return;
	for (uint32_t i = 0; i < wants->count; i++) {
		AccessWant *w = &wants->at[i];
		Operand o = {0};
		int64_t block[DIM_MAX];
		Affine index[DIM_MAX];
		if (!w->store || !can_be_copied(p, w, &o, block, index) || !loop_keeps_input(wants, w->loop) ||
		    loop_copies_input(p, wants, w->loop))
			continue;
		p->plan->results_may_stay = true;
		if (p->way.at[ROW_WINDOWS] >= WINDOWS_ALL_KEPT)
			w->stays = "what its loop reads is resident";
	}
}

void residency_mark(Planner *p, AccessWants *wants) {
	Readers *readers = arena_array(p->a, p->m->tensors.count + 1, sizeof *readers);
	for (uint32_t i = 0; i < wants->count; i++) {
		TensorId base = tensor_base(p->m, wants->at[i].tensor);
		if (wants->at[i].loop != NONE && !wants->at[i].store && tensor_is_given(p->m, base))
			vec_push(p->a, &readers[base].wants, i);
	}
	const bool halves_only = way_is(p, ROW_WINDOWS, WINDOWS_KEPT), asked = group_holds_all(p->m, way_type(p));
	for (TensorId t = 0; t < p->m->tensors.count; t++) {
		Readers *r = &readers[t];
		if (r->wants.count == 0 || !count_traffic(p, wants, r) ||
		    !(asked || saves_half(r) || (!halves_only && r->resident <= r->copied)))
			continue;
		const char *why = way_keeps(p) ? why_stays(p, r) : "it may stay";
		for (uint32_t i = 0; i < r->wants.count; i++) {
			wants->at[r->wants.at[i]].stays = why;
			wants->at[r->wants.at[i]].saves_half = saves_half(r);
		}
	}
	leave_windows(p, wants);
	for (uint32_t i = 0; i < wants->count; i++) {
		AccessWant *w = &wants->at[i];
		bool also = w->stays && !w->saves_half;
		p->plan->may_stay = p->plan->may_stay || (w->stays && w->saves_half);
		p->plan->may_also_stay = p->plan->may_also_stay || also;
		p->plan->stays_for_time = p->plan->stays_for_time || (also && way_keeps(p) && !asked);
		if (!way_keeps(p))
			w->stays = NULL;
	}
	mark_results(p, wants);
}
