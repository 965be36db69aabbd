/* steps.c - how often loops run: the mean of their steps over some grid points, with guesses of what data say. */
#include "ints.h"
#include "schedule.h"

typedef struct Steps {
	Ints ints;
	double *trips;   /* by statement: of a loop its steps at this grid point */
	double *all;     /* ... in all, at all points that were looked at */
	double *entered; /* ... how often it is come to */
} Steps;

enum { SAMPLES = 32 }; /* grid points at which steps are counted */

/* Entries of the table that a loop's windows go through, step by step; 0: none. */
static double listed(const Kernel *k, IntId i, ValueId step) {
	const KInt *x = &k->ints.at[i];
	if (x->kind == INT_CONST || !int_reads(k, i, step))
		return 0;
	RefId r = x->kind == INT_VALUE ? value_element(k, x->value) : NONE;
	if (r != NONE) {
		const KRef *element = &k->refs.at[r];
		for (uint32_t d = 0; d < element->rank; d++)
			if (int_reads(k, element->dim[d].start, step))
				return (double)k->buffers.at[element->buffer].shape[d];
	}
	if (x->kind == INT_VALUE)
		return 0;
	double a = listed(k, x->a, step);
	return a > 0 || x->kind == INT_NEG ? a : listed(k, x->b, step);
}

/* Of a loop whose steps only data bound: as many as are expected; of a list two fifths are taken as filled. */
static double unknown_steps(const Steps *t, const KLoop *loop, uint32_t dim) {
	static const double filled = 0.4;
	const Kernel *k = t->ints.k;
	if (k->expected_steps > 0)
		return k->expected_steps;
	for (uint32_t w = 0; w < loop->windows.count; w++)
		for (uint32_t d = 0; d < k->buffers.at[loop->windows.at[w].of].rank; d++) {
			double entries = listed(k, loop->windows.at[w].index[d], loop->dim[dim].step);
			if (entries > 0)
				return larger(entries * filled, 1);
		}
	return 1;
}

static double steps_at(Steps *t, const KLoop *loop) {
	double all = loop->rank == 0 ? larger(t->ints.k->expected_steps, 1) : 1;
	for (uint32_t i = 0; i < loop->rank; i++) {
		double steps = int_at(&t->ints, loop->dim[i].steps);
		steps = isnan(steps) ? unknown_steps(t, loop, i) : larger(steps, 0);
		t->ints.at[loop->dim[i].step] = larger((steps - 1) / 2, 0);
		all *= steps;
	}
	return all;
}

/* How often the statement is come to at this grid point. */
static double comings(const Steps *t, StmtId s) {
	const Kernel *k = t->ints.k;
	double times = 1;
	for (s = k->regions.at[k->stmts.at[s].region].owner; s != NONE; s = k->regions.at[k->stmts.at[s].region].owner)
		times *= k->stmts.at[s].op == K_LOOP ? t->trips[s] : 1;
	return times;
}

static void find_steps(Kernel *k, StmtId s, void *data) {
	Steps *t = data;
	const KStmt *x = &k->stmts.at[s];
	find_value(&t->ints, s);
	if (x->op != K_LOOP)
		return;
	double times = comings(t, s);
	t->trips[s] = steps_at(t, x->loop) * (x->loop->bodies.count ? x->loop->live / 100. : 1);
	t->all[s] += times * t->trips[s];
	t->entered[s] += times;
}

double grid_points_of(const Kernel *k) {
	double points = 1;
	for (uint32_t i = 0; i < k->grid.count; i++)
		points *= (double)k->grid.at[i].steps;
	return points;
}

/* Point `sample` of `samples`: of few points each, of many some that are spread evenly along each dim, in another order
 * along each. */
static void go_to(Ints *t, uint32_t sample, double samples) {
	const Kernel *k = t->k;
	double at = sample;
	for (uint32_t d = k->grid.count, order = 1; d-- > 0; order += 6) {
		double steps = (double)k->grid.at[d].steps;
		bool each = samples < SAMPLES;
		double turned = (sample * order) % SAMPLES + (sample % 2 ? 0.75 : 0.25);
		t->at[k->grid.at[d].at] = each ? remainder_of(at, steps) : floor(turned / SAMPLES * steps);
		at = floor(at / steps);
	}
}

/* Some loop's steps are not the same at all points. */
static bool varies(const Kernel *k) {
	bool computed = false;
	for (StmtId s = 0; s < k->stmts.count; s++)
		for (uint32_t d = 0; k->stmts.at[s].op == K_LOOP && d < k->stmts.at[s].loop->rank; d++)
			computed = computed || k->stmts.at[s].loop->dim[d].computed;
	return computed;
}

double *loop_trips(Kernel *k, Arena *a) {
	Steps t = {.ints = ints_start(k, a)};
	t.trips = arena_array(a, k->stmts.count + 1, sizeof *t.trips);
	t.all = arena_array(a, k->stmts.count + 1, sizeof *t.all);
	t.entered = arena_array(a, k->stmts.count + 1, sizeof *t.entered);
	double points = grid_points_of(k), samples = points < SAMPLES ? larger(points, 1) : SAMPLES;
	if (varies(k)) {
		go_to(&t.ints, 0, samples);
		find_most(&t.ints, a, find_steps, &t);
		memset(t.all, 0, k->stmts.count * sizeof *t.all);
		memset(t.entered, 0, k->stmts.count * sizeof *t.entered);
	} else {
		samples = 1;
	}
	for (uint32_t s = 0; s < (uint32_t)samples; s++) {
		go_to(&t.ints, s, samples);
		kernel_walk(k, k->body, find_steps, &t);
	}
	for (uint32_t i = 0; i < k->stmts.count; i++)
		t.all[i] = t.entered[i] > 0 ? t.all[i] / t.entered[i] : 0;
	return t.all;
}
