/* ints.c - ints of a kernel at one grid point, with guesses of what data say.
 *
 * Tables, lengths and flags are not known before a kernel runs. The elements of a table are taken as rising evenly from
 * 0 to the most that it may hold, so are numbers that stand alone, those of a tile of ints as spread evenly, a flag as
 * set in half of all cases. The most is found by the clamps behind: with all of a table's elements at a great number,
 * and at 0, a clamp's argument says how great they are where it lets no more through.
 *
 *     length = load lengths[b];   pages = clamp(cdiv(length, 64), 0, 128)        most: 8192 */
#include "ints.h"

static const double PROBE = 1 << 24;

static double arg_at(Ints *t, const KArg *a) {
	switch (a->kind) {
	case KARG_INTEGER: return (double)a->integer;
	case KARG_REAL: return a->real;
	case KARG_INT: return int_at(t, a->index);
	case KARG_VALUE: t->guess = t->guess || t->guessed[a->value]; return t->at[a->value];
	default: return NAN;
	}
}

static double compared(bool holds, double a, double b) { return isnan(a) || isnan(b) ? NAN : holds; }

static double binary(IntKind kind, double a, double b) {
	switch (kind) {
	case INT_ADD: return a + b;
	case INT_SUB: return a - b;
	case INT_MUL: return a * b;
	case INT_DIV: return floor(a / b);
	case INT_REM: return remainder_of(a, b);
	case INT_EQ: return compared(a == b, a, b);
	case INT_LT: return compared(a < b, a, b);
	case INT_LE: return compared(a <= b, a, b);
	case INT_GT: return compared(a > b, a, b);
	case INT_GE: return compared(a >= b, a, b);
	case INT_AND: return a == 0 || b == 0 ? 0 : compared(true, a, b);
	case INT_MIN: return a < b ? a : b;
	case INT_MAX: return larger(a, b);
	default: return NAN;
	}
}

/* The mean of both where the flag is not known. */
static double chosen(Ints *t, double flag, double yes, double no) {
	if (!isnan(flag))
		return flag != 0 ? yes : no;
	if (t->probing)
		return isnan(yes) ? no : yes;
	t->guess = true;
	return (yes + no) / 2;
}

/* Of a length that a table says, half a step more than divides it. */
static double rounded_up(Ints *t, const KInt *x) {
	bool before = t->guess;
	t->guess = false;
	double a = int_at(t, x->a), b = int_at(t, x->b), up = t->guess && a > 0 ? a / b + 0.5 : ceil(a / b);
	t->guess = t->guess || before;
	return up;
}

Ints ints_start(Kernel *k, Arena *a) {
	Ints t = {.k = k, .probed = NONE};
	t.at = arena_array(a, k->values.count + 1, sizeof *t.at);
	for (uint32_t i = 0; i < k->values.count; i++)
		t.at[i] = NAN;
	t.most = arena_array(a, k->buffers.count + 1, sizeof *t.most);
	for (uint32_t i = 0; i < k->buffers.count; i++)
		t.most[i] = NAN;
	t.guessed = arena_array(a, k->values.count + 1, sizeof *t.guessed);
	return t;
}

double int_at(Ints *t, IntId i) {
	const KInt *x = &t->k->ints.at[i];
	switch (x->kind) {
	case INT_CONST: return (double)x->number;
	case INT_VALUE: t->guess = t->guess || t->guessed[x->value]; return t->at[x->value];
	case INT_CDIV: return rounded_up(t, x);
	case INT_NEG: return -int_at(t, x->a);
	case INT_TURN: return int_at(t, x->b);
	case INT_DEVICE: return 0;
	case INT_FIRST:
	case INT_LATER: return NAN;
	case INT_CHOOSE: return chosen(t, int_at(t, x->a), int_at(t, x->b), int_at(t, x->c));
	default: return binary(x->kind, int_at(t, x->a), int_at(t, x->b));
	}
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

static bool is_alone(const KBuffer *b) {
	return b->role == BUFFER_IN && b->rank == 1 && b->shape[0] == 1 && !dtype_is_float(b->dtype) &&
	       b->dtype != DTYPE_BOOL;
}

/* Of a number that stands alone, among those that do: in the order in which they are given, as in a table, so that a
 * range from one to another is not empty. */
static double share_alone(const Kernel *k, BufferId buffer) {
	uint32_t before = 0, all = 0;
	for (BufferId b = 0; b < k->buffers.count; b++) {
		before += b < buffer && is_alone(&k->buffers.at[b]);
		all += is_alone(&k->buffers.at[b]);
	}
	return (before + 1.0) / (all + 1.0);
}

/* How far along its table, from 0 to 1, an element stands; of a tile the mean. */
static double share_of(Ints *t, const KRef *r, const KBuffer *b) {
	if (is_alone(b))
		return share_alone(t->k, r->buffer);
	if (b->rank != 1 || r->rank != 1 || r->dim[0].kind != KDIM_AT)
		return 0.5;
	double at = b->shape[0] > 1 ? int_at(t, r->dim[0].start) / (double)(b->shape[0] - 1) : 0.5;
	return isnan(at) ? 0.5 : at;
}

static double loaded(Ints *t, const KArg *from) {
	if (from->kind != KARG_REF)
		return NAN;
	const KRef *r = &t->k->refs.at[from->ref];
	const KBuffer *b = &t->k->buffers.at[r->buffer];
	if (b->role != BUFFER_IN || dtype_is_float(b->dtype) || b->dtype == DTYPE_BOOL)
		return NAN;
	if (t->probing)
		return r->buffer == t->probed ? PROBE : 0;
	if (isnan(t->most[r->buffer]))
		return NAN;
	t->guess = true;
	return share_of(t, r, b) * t->most[r->buffer];
}

/* A clamp whose argument grows with the ints of the buffer that is probed says what they reach. */
static void learn_most(Ints *t, StmtId s, double x, double limit) {
	if (t->probed == NONE) {
		t->probe[s] = x;
		return;
	}
	double grows = (x - t->probe[s]) / PROBE;
	if (isnan(t->most[t->probed]) && grows > 1e-6)
		t->most[t->probed] = (limit - t->probe[s]) / grows;
}

static double clamped(Ints *t, StmtId stmt, const KStmt *s) {
	const KArg *a = &t->k->args.at[s->arg_first];
	if (s->arg_count != 3)
		return NAN;
	double x = arg_at(t, a), least = arg_at(t, a + 1), most = arg_at(t, a + 2);
	if (t->probing) {
		learn_most(t, stmt, x, most);
		return x;
	}
	if (x >= most) /* as far as it goes, whatever the data */
		t->guess = false;
	return x < least ? least : x > most ? most : x;
}

/* Of a tile of which the mean is known: the greatest of what is spread evenly from 0. */
static double greatest(Ints *t, double mean) { return t->probing ? mean : 2 * mean; }

/* ---- statements ------------------------------------------------------------------------------------------------- */

static double value_given(Ints *t, StmtId stmt, const KStmt *s) {
	const KArg *a = &t->k->args.at[s->arg_first];
	switch (s->op) {
	case K_PROGRAM_ID: return t->at[t->k->grid.at[s->ints[0]].at];
	case K_INT:
	case K_SCALAR:
	case K_CONVERT:
	case K_LET: return arg_at(t, a);
	case K_LOAD: return loaded(t, a);
	case K_MAX: return greatest(t, arg_at(t, a));
	case OP_ADD: return arg_at(t, a) + arg_at(t, a + 1);
	case OP_SUB: return arg_at(t, a) - arg_at(t, a + 1);
	case OP_MUL: return arg_at(t, a) * arg_at(t, a + 1);
	case OP_MAXIMUM: return binary(INT_MAX, arg_at(t, a), arg_at(t, a + 1));
	case OP_MINIMUM: return binary(INT_MIN, arg_at(t, a), arg_at(t, a + 1));
	case OP_EQ: return binary(INT_EQ, arg_at(t, a), arg_at(t, a + 1));
	case OP_LT: return binary(INT_LT, arg_at(t, a), arg_at(t, a + 1));
	case OP_LE: return binary(INT_LE, arg_at(t, a), arg_at(t, a + 1));
	case OP_GT: return binary(INT_GT, arg_at(t, a), arg_at(t, a + 1));
	case OP_GE: return binary(INT_GE, arg_at(t, a), arg_at(t, a + 1));
	case OP_LOGICAL_AND: return binary(INT_AND, arg_at(t, a), arg_at(t, a + 1));
	case OP_FLOOR_DIVIDE:
	case K_FLOORED: return floor(arg_at(t, a) / arg_at(t, a + 1));
	case OP_WHERE: return chosen(t, arg_at(t, a), arg_at(t, a + 1), arg_at(t, a + 2));
	case OP_CLAMP: return clamped(t, stmt, s);
	default: return NAN;
	}
}

/* An int or a flag, or a tile of them; what pointwise ops make of tiles of floats is not asked for. */
static bool is_int(const KValue *v) { return v->rank == 0 || (!dtype_is_float(v->dtype) && v->dtype != DTYPE_BOOL); }

void find_value(Ints *t, StmtId stmt) {
	const KStmt *s = &t->k->stmts.at[stmt];
	if (s->result == NONE || s->result_count != 1 || s->arg_count + s->int_count == 0 ||
	    !is_int(&t->k->values.at[s->result]))
		return;
	t->guess = false;
	t->at[s->result] = value_given(t, stmt, s);
	t->guessed[s->result] = t->guess;
}

typedef struct Clamps {
	Ints *t;
	bool any;
	bool *loaded; /* by buffer: an int is loaded from it */
} Clamps;

static void look(Kernel *k, StmtId stmt, void *data) {
	Clamps *c = data;
	const KStmt *s = &k->stmts.at[stmt];
	const KArg *a = &k->args.at[s->arg_first];
	c->any = c->any || (s->op == OP_CLAMP && k->values.at[s->result].rank == 0);
	if (s->op == K_LOAD && a->kind == KARG_REF && is_int(&k->values.at[s->result]))
		c->loaded[k->refs.at[a->ref].buffer] = true;
}

void find_most(Ints *t, Arena *a, KVisit *visit, void *data) {
	uint32_t buffers = t->k->buffers.count;
	Clamps c = {.t = t, .loaded = arena_array(a, buffers + 1, sizeof *c.loaded)};
	kernel_walk(t->k, t->k->body, look, &c);
	if (!c.any)
		return;
	t->probe = arena_array(a, t->k->stmts.count + 1, sizeof *t->probe);
	t->probing = true;
	t->probed = NONE;
	kernel_walk(t->k, t->k->body, visit, data);
	for (BufferId b = 0; b < buffers; b++) {
		const KBuffer *x = &t->k->buffers.at[b];
		t->probed = b;
		if (c.loaded[b] && x->role == BUFFER_IN && !dtype_is_float(x->dtype))
			kernel_walk(t->k, t->k->body, visit, data);
	}
	t->probing = false;
}
