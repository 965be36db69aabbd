/* work_moves.c - what lanes and rows that go elsewhere take. */
#include "work.h"

typedef struct MovedRow {
	double xlu, valu, loads, stores;
} MovedRow;

static const MovedRow moved_rows[] = {
#define EXPANSION(...)
#define CONVERSION(...)
#define MOVED(name, ...) {__VA_ARGS__},
#include "expansions.def"
#undef EXPANSION
#undef CONVERSION
#undef MOVED
};

void work_moved(Work *w, Moved what, double registers) {
	const MovedRow *row = &moved_rows[what];
	work_across(w, row->xlu * registers);
	w->of[UNIT_VALU] += row->valu * registers;
	w->of[UNIT_LOAD] += row->loads * registers;
	w->of[UNIT_STORE] += row->stores * registers;
}

/* By doubling distances, each a rotation, a selection and a combination; whole registers need no rotation. */
void work_of_scan(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = work_tile(c, s, 0);
	if (!x)
		return;
	bool lanes = s->ints[0] + 1 == x->rank;
	double within = 0, whole = 0, n = array_registers(c->t, DTYPE_F32, x->rank, x->shape);
	for (int64_t size = 1; size < x->shape[s->ints[0]]; size *= 2) {
		within += !lanes || size < c->t->lanes;
		whole += lanes && size >= c->t->lanes;
	}
	w->of[UNIT_VALU] += (lanes ? 2 : 4) * n * within + n * whole;
	work_across(w, lanes ? n * within : 0);
}

/* A bitonic network on keys and places: each exchange rotates both ways and selects. */
void work_of_sort(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = work_tile(c, s, 0);
	if (!x)
		return;
	double stages = 0, n = array_registers(c->t, DTYPE_F32, x->rank, x->shape);
	for (int64_t size = 1, k = 1; size < x->shape[s->ints[0]]; size *= 2, k++)
		stages += (double)k;
	work_moved(w, MOVED_EXCHANGED, n * stages);
}

/* Whole registers go elsewhere for nothing; else each is rotated along lanes. */
static void move_lanes(const Core *c, const KStmt *s, Work *w) {
	double n = work_result(c, s);
	work_across(w, n);
	w->of[UNIT_VALU] += n / 2;
}

/* Each lane on its own way. */
static void scatter_lanes(const Core *c, const KStmt *s, Moved what, Work *w) {
	double n = work_result(c, s), in = work_registers(c, s, 0);
	double busy = w->of[UNIT_XLU];
	work_moved(w, what, in > n ? in : n);
	w->chain = 1.5 * (w->of[UNIT_XLU] - busy) /
	           c->u->per_cycle[UNIT_XLU]; /* each waits for others: flip, even_lanes */
}

static void transpose(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = work_tile(c, s, 0), *y = &c->k->values.at[s->result];
	if (!x)
		return;
	double in = work_registers(c, s, 0), out = array_registers(c->t, y->dtype, y->rank, y->shape);
	if (!swaps_lanes(s, x->rank))
		return;
	w->of[UNIT_XLU] += in > out ? in : out;
	w->of[UNIT_POP] += out;
	w->chain = (in > out ? in : out) * c->u->transpose_cycles;
	w->of[UNIT_VALU] += dtype_vmem_bits(x->dtype) < 32 ? (c->t->bf16_vpu ? 1 : 4) * in : 0;
}

static void reshape(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = work_tile(c, s, 0), *y = &c->k->values.at[s->result];
	if (!x || !is_tile_value(y))
		return;
	double n = work_result(c, s), in = work_registers(c, s, 0);
	n = in > n ? in : n;
	if (value_lanes(x) != value_lanes(y)) {
		bool whole = value_lanes(x) % c->t->lanes == 0 && value_lanes(y) % c->t->lanes == 0;
		w->of[UNIT_XLU] += whole ? 0 : n;
		w->of[UNIT_VALU] += n;
		w->of[UNIT_STORE] += whole ? n : 0;
		w->of[UNIT_LOAD] += whole ? n : 0;
	} else if (value_rows(x) % c->t->sublanes || value_rows(y) % c->t->sublanes) {
		w->of[UNIT_VALU] += value_rows(x) == value_rows(y) ? 0 : n;
	}
}

static bool cuts_lanes(const Core *c, const KStmt *s) {
	const KValue *x = work_tile(c, s, 0);
	if (!x)
		return false;
	if (s->op == K_SLICE_IN_DIM)
		return s->ints[2] + 1 == x->rank && s->ints[0] % c->t->lanes != 0;
	if (s->op != K_INDEX)
		return true;
	uint32_t dim = 0;
	for (uint32_t i = 0; i + 2 < s->int_count; i += 3) {
		bool lanes = dim + 1 == x->rank;
		if (lanes && (s->ints[i] == K_ITEM_AT || s->ints[i] == K_ITEM_RANGE) && s->ints[i + 1] % c->t->lanes)
			return true;
		dim += s->ints[i] != K_ITEM_NEW;
	}
	return false;
}

static void roll(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = work_tile(c, s, 0);
	double n = work_result(c, s);
	bool lanes = false, whole = true;
	for (uint32_t i = 0; x && i + 1 < s->int_count; i += 2) {
		lanes = lanes || s->ints[i + 1] + 1 == x->rank;
		whole = whole && s->ints[i] % (s->ints[i + 1] + 1 == x->rank ? c->t->lanes : c->t->sublanes) == 0;
	}
	if (whole)
		return;
	work_across(w, lanes ? n : 0);
	w->of[UNIT_VALU] += lanes ? n : 2 * n;
}

/* By a number that is not known: within each register, then whole registers by one bit of it after the other. Where
 * there are many, they lie in VMEM between: of 24 to 2048 rows of float32 so much is counted in schedules. */
static void rotate(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = work_tile(c, s, 0);
	if (!x)
		return;
	double n = work_result(c, s), bits = 0;
	bool lanes = s->ints[0] + 1 == x->rank;
	int64_t registers = lanes ? int_cdiv(value_lanes(x), c->t->lanes) : int_cdiv(value_rows(x), c->t->sublanes);
	for (int64_t size = 1; size < registers; size *= 2)
		bits++;
	work_across(w, lanes ? n : 0);
	w->of[UNIT_VALU] += bits > 0 ? n * (bits + (lanes ? 1 : 2)) : 0;
	if (bits == 0 && !lanes)
		work_moved(w, MOVED_TURNED_ROWS, n);
	if (lanes || registers < 8)
		return;
	double kept = 0.15 + n / 160; /* of the registers after each bit */
	kept = kept < 1.2 ? kept : 1.2;
	w->of[UNIT_LOAD] += n * bits * kept;
	w->of[UNIT_STORE] += n * bits * kept * 0.9;
}

static bool joins_lanes(const Core *c, const KStmt *s) {
	for (uint32_t i = 0; i < s->arg_count; i++) {
		const KValue *x = work_tile(c, s, i);
		if (x && s->ints[0] + 1 == x->rank && value_lanes(x) % c->t->lanes)
			return true;
	}
	return false;
}

bool work_of_move(const Core *c, const KStmt *s, Work *w) {
	switch (s->op) {
	case K_TRANSPOSE:
	case K_SWAPAXES: transpose(c, s, w); break;
	case K_RESHAPE: reshape(c, s, w); break;
	case K_INDEX:
	case K_SLICE_IN_DIM:
		if (cuts_lanes(c, s))
			move_lanes(c, s, w);
		break;
	case K_STACK:
		if (s->ints[0] + 2 == c->k->values.at[s->result].rank)
			work_moved(w, MOVED_STACKED, work_result(c, s));
		break;
	case K_CONCATENATE:
		if (joins_lanes(c, s))
			move_lanes(c, s, w);
		break;
	case K_ROLL: roll(c, s, w); break;
	case K_ROTATE: rotate(c, s, w); break;
	case K_TO_COLUMN:
		move_lanes(c, s, w);
		c->narrow[s->result] = true;
		w->chain = work_result(c, s) * c->u->transpose_cycles;
		break;
	case K_TO_ROW:
		w->of[UNIT_XLU] += work_registers(c, s, 0);
		w->of[UNIT_VALU] += 3 * work_registers(c, s, 0);
		break;
	case K_FLIP: scatter_lanes(c, s, MOVED_FLIPPED, w); break;
	case K_EVERY:
	case K_EVEN_LANES:
	case K_INTERLEAVE: scatter_lanes(c, s, MOVED_LANES_APART, w); break;
	case K_TAKE_LANES: {
		double in = work_registers(c, s, 0);
		work_across(w, in);
		w->of[UNIT_VALU] += in;
		break;
	}
	case K_TAKE_ROWS: w->of[UNIT_VALU] += 2 * work_registers(c, s, 0); break;
	default: return false;
	}
	return true;
}
