/* steps.c - how often loops run: the mean of their steps over some grid points, with guesses of what tables say. */
#include <math.h>
#include "schedule.h"

typedef struct Steps {
	Kernel *k;
	double *at;    /* by value: of an int, at the grid point that is looked at; NAN: not known */
	bool *guessed; /* by value: ... by a guess of what tables hold */
	bool guess;    /* what was evaluated was */
	double *trips; /* by statement: of a loop, its steps at all points that were looked at */
} Steps;

static double larger(double a, double b) { return a > b ? a : b; }

/* Of what is not negative. */
static double remainder_of(double a, double b) { return a - b * floor(a / b); }

enum { SAMPLES = 32 }; /* grid points at which steps are counted */

/* ---- values of ints ---------------------------------------------------------------------------------------- */

static double int_at(Steps *t, IntId i);

/* Elements of a table are taken as rising evenly from 0 to `most`. */
static double table_share(Steps *t, ValueId v) {
	StmtId def = t->k->values.at[v].def;
	const KStmt *s = def == NONE ? NULL : &t->k->stmts.at[def];
	const KArg *a = s && s->op == K_LOAD ? &t->k->args.at[s->arg_first] : NULL;
	if (!a || a->kind != KARG_REF)
		return NAN;
	const KRef *r = &t->k->refs.at[a->ref];
	const KBuffer *b = &t->k->buffers.at[r->buffer];
	if (r->rank != 1 || b->rank != 1 || b->shape[0] < 2)
		return NAN;
	return int_at(t, r->dim[0].start) / (double)(b->shape[0] - 1);
}

static double arg_at(Steps *t, const KArg *a) {
	switch (a->kind) {
	case KARG_INTEGER: return (double)a->integer;
	case KARG_INT: return int_at(t, a->index);
	case KARG_VALUE: t->guess = t->guess || t->guessed[a->value]; return t->at[a->value];
	default: return NAN;
	}
}

static double binary(IntKind kind, double a, double b) {
	switch (kind) {
	case INT_ADD: return a + b;
	case INT_SUB: return a - b;
	case INT_MUL: return a * b;
	case INT_DIV: return floor(a / b);
	case INT_REM: return remainder_of(a, b);
	case INT_EQ: return a == b;
	case INT_LT: return a < b;
	case INT_LE: return a <= b;
	case INT_GT: return a > b;
	case INT_GE: return a >= b;
	case INT_AND: return a != 0 && b != 0;
	case INT_MIN: return a < b ? a : b;
	case INT_MAX: return larger(a, b);
	default: return NAN;
	}
}

/* Of a length that a table says, half a step more than divides it. */
static double rounded_up(Steps *t, const KInt *x) {
	bool before = t->guess;
	t->guess = false;
	double a = int_at(t, x->a), b = int_at(t, x->b), up = t->guess ? a / b + 0.5 : ceil(a / b);
	t->guess = t->guess || before;
	return up;
}

static double int_at(Steps *t, IntId i) {
	const KInt *x = &t->k->ints.at[i];
	switch (x->kind) {
	case INT_CONST: return (double)x->number;
	case INT_VALUE: t->guess = t->guess || t->guessed[x->value]; return t->at[x->value];
	case INT_CDIV: return rounded_up(t, x);
	case INT_NEG: return -int_at(t, x->a);
	case INT_TURN: return int_at(t, x->b);
	case INT_CHOOSE: return int_at(t, x->a) != 0 ? int_at(t, x->b) : int_at(t, x->c);
	default: return binary(x->kind, int_at(t, x->a), int_at(t, x->b));
	}
}

static void find_value(Steps *t, const KStmt *s) {
	if (s->result == NONE || s->result_count != 1)
		return;
	const KArg *a = &t->k->args.at[s->arg_first];
	double *value = &t->at[s->result];
	t->guess = false;
	switch (s->op) {
	case K_PROGRAM_ID: *value = t->at[t->k->grid.at[s->ints[0]].at]; break;
	case K_INT:
	case K_SCALAR:
	case K_LET: *value = arg_at(t, a); break;
	case OP_ADD: *value = arg_at(t, a) + arg_at(t, a + 1); break;
	case OP_SUB: *value = arg_at(t, a) - arg_at(t, a + 1); break;
	case OP_MUL: *value = arg_at(t, a) * arg_at(t, a + 1); break;
	case OP_MAXIMUM: *value = larger(arg_at(t, a), arg_at(t, a + 1)); break;
	case OP_MINIMUM: *value = binary(INT_MIN, arg_at(t, a), arg_at(t, a + 1)); break;
	case OP_FLOOR_DIVIDE:
	case K_FLOORED: *value = floor(arg_at(t, a) / arg_at(t, a + 1)); break;
	case OP_CLAMP:
		*value = arg_at(t, a);
		if (isnan(*value) && a->kind == KARG_VALUE && s->arg_count == 3)
			*value = table_share(t, a->value) * arg_at(t, a + 2);
		t->guess = t->guess || a->kind == KARG_VALUE;
		break;
	default: break;
	}
	t->guessed[s->result] = t->guess;
}

/* Entries of the table that a loop's windows go through, step by step; 0: none. */
static double listed(const Steps *t, IntId i, ValueId step) {
	const KInt *x = &t->k->ints.at[i];
	if (x->kind == INT_CONST || !int_reads(t->k, i, step))
		return 0;
	RefId r = x->kind == INT_VALUE ? value_element(t->k, x->value) : NONE;
	if (r != NONE) {
		const KRef *element = &t->k->refs.at[r];
		for (uint32_t d = 0; d < element->rank; d++)
			if (int_reads(t->k, element->dim[d].start, step))
				return (double)t->k->buffers.at[element->buffer].shape[d];
	}
	if (x->kind == INT_VALUE)
		return 0;
	double a = listed(t, x->a, step);
	return a > 0 || x->kind == INT_NEG ? a : listed(t, x->b, step);
}

/* Of a loop whose steps only data bound: a list is taken as a third full. */
static double unknown_steps(const Steps *t, const KLoop *loop, uint32_t dim) {
	enum { FILLED = 3 };
	for (uint32_t w = 0; w < loop->windows.count; w++)
		for (uint32_t d = 0; d < t->k->buffers.at[loop->windows.at[w].of].rank; d++) {
			double entries = listed(t, loop->windows.at[w].index[d], loop->dim[dim].step);
			if (entries > 0)
				return larger(entries / FILLED, 1);
		}
	return 1;
}

static void find_steps(Kernel *k, StmtId s, void *data) {
	Steps *t = data;
	const KStmt *x = &k->stmts.at[s];
	find_value(t, x);
	if (x->op != K_LOOP)
		return;
	double all = 1;
	for (uint32_t i = 0; i < x->loop->rank; i++) {
		double steps = int_at(t, x->loop->dim[i].steps);
		steps = isnan(steps) ? unknown_steps(t, x->loop, i) : larger(steps, 0);
		t->at[x->loop->dim[i].step] = larger((steps - 1) / 2, 0);
		all *= steps;
	}
	t->trips[s] += all;
}

double grid_points_of(const Kernel *k) {
	double points = 1;
	for (uint32_t i = 0; i < k->grid.count; i++)
		points *= (double)k->grid.at[i].steps;
	return points;
}

static void find_computed(Kernel *k, StmtId s, void *data) {
	const KStmt *x = &k->stmts.at[s];
	for (uint32_t i = 0; x->op == K_LOOP && i < x->loop->rank; i++)
		*(bool *)data |= k->ints.at[x->loop->dim[i].steps].kind != INT_CONST;
}

/* Grid points that are spread over all its rows and columns; one, where all points have the same steps. */
double *loop_trips(Kernel *k, Arena *a) {
	Steps t = {.k = k};
	t.at = arena_array(a, k->values.count + 1, sizeof *t.at);
	for (uint32_t i = 0; i < k->values.count; i++)
		t.at[i] = NAN;
	t.guessed = arena_array(a, k->values.count + 1, sizeof *t.guessed);
	t.trips = arena_array(a, k->stmts.count + 1, sizeof *t.trips);
	bool computed = false;
	kernel_walk(k, k->body, find_computed, &computed);
	double points = grid_points_of(k), most = computed ? SAMPLES : 1, samples = points < most ? larger(points, 1) : most;
	for (uint32_t s = 0; s < (uint32_t)samples; s++) {
		double at = remainder_of(s * (floor(points / samples) + 1), points);
		for (uint32_t d = k->grid.count; d-- > 0;) {
			double steps = (double)k->grid.at[d].steps;
			t.at[k->grid.at[d].at] = remainder_of(at, steps);
			at = floor(at / steps);
		}
		kernel_walk(k, k->body, find_steps, &t);
	}
	for (uint32_t i = 0; i < k->stmts.count; i++)
		t.trips[i] /= samples;
	return t.trips;
}
