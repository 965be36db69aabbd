/* expand_lanes.c - lanes on ways of their own: rolls, flips, every second one, sorts. As the functions that a module
 * defines for them are traced (codegen/print/print_helpers.c). */
#include "expand.h"

enum { LANE_BITS = 7 }; /* of a lane's number in a register */

/* Registers of a tile whose lanes go elsewhere, in tiles of whole registers: in all, and along lanes. */
typedef struct LaneTile {
	double n, along;
	bool low; /* they lie in lower tiles, and are put into such by each step that reads them */
} LaneTile;

/* Each register is made of two. */
static void roll_lanes(Expander *e, const LaneTile *l) {
	double pieces = l->n + l->n / l->along;
	count_operations(e, RO_ROTATE, pieces);
	count_operations(e, RO_SELECT, l->n);
	count_operations(e, RO_MASK, l->n / l->along + (l->along > 1));
	count_operations(e, RO_PACK, l->low ? 3 * pieces : 0);
}

static void roll_rows(Expander *e, double n) {
	count_operations(e, RO_ROTATE, 3 * n);
	count_operations(e, RO_SELECT, n);
	count_operations(e, RO_MASK, n);
}

static LaneTile lanes_in(const KValue *v, const RegisterForm *from) {
	RegisterForm native = native_form(from->bits);
	return (LaneTile){.n = value_as(v, &native),
	                  .along = (double)int_cdiv(lanes_of(v), LANES),
	                  .low = from->bits < WORD && from->rows != native.rows};
}

/* One row is put into all rows of registers of its own; places along an axis stand so already. */
static void unfold_row(Expander *e, const KStmt *s, const KValue *x, bool inside) {
	const KStmt *def = s;
	do {
		StmtId by = e->k->values.at[e->k->args.at[def->arg_first].value].def;
		def = by == NONE ? s : &e->k->stmts.at[by];
	} while ((def->op == K_CONVERT || def->op == K_BROADCAST) && expand_tile(e, def, 0));
	bool places = def->op == K_IOTA;
	if (expand_traced(e, s, 0)->form.same_rows && rows_of(x) > 1 && !places)
		count_operations(e, RO_PERMUTE, (double)int_cdiv(lanes_of(x), LANES) + inside);
}

/* By a number that is known: whole registers for nothing. */
void expand_roll(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	expand_rename(e, s);
	if (!x || s->int_count < 2)
		return;
	bool along_lanes = s->ints[1] + 1 == x->rank, along_rows = s->ints[1] + 2 == x->rank;
	RegisterForm *f = result_form(e, s);
	if (along_lanes)
		unfold_row(e, s, x, s->ints[0] % LANES != 0);
	f->same_lanes = f->same_rows = false;
	LaneTile l = lanes_in(x, f);
	if ((!along_lanes && !along_rows) || s->ints[0] % (along_lanes ? LANES : f->rows) == 0)
		return;
	if (along_lanes) {
		roll_lanes(e, &l);
		f->rows = native_rows(f->bits);
	} else {
		roll_rows(e, l.n);
	}
}

/* The numbers of lanes, and so many masks that are made of them for a purpose, once of a size; some are packed for
 * narrow elements each time. */
static void lane_masks(Expander *e, const KValue *v, const RegisterForm *f, uint64_t purpose, double ints,
                       double masks) {
	uint64_t key = purpose + 64 * (uint64_t)lanes_of(v) + ((uint64_t)rows_of(v) << 32);
	RegisterForm at = expand_places(e, v, v->rank - 1);
	double n = value_as(v, &at);
	if (!computed_before(e, key)) {
		count_operations(e, RO_INT, ints * n);
		count_operations(e, RO_COMPARE, masks * n);
	}
	count_operations(e, RO_MASK, f->bits < WORD ? masks * n : 0);
}

enum { SWAPPED_BITS = 6 }; /* of a lane's number in a register, next to each other */

/* Lanes trade places by bits of their numbers: a roll each way, and two choices. */
static void swap_lanes(Expander *e, const KValue *v, const RegisterForm *f, LaneTile l) {
	for (uint32_t bit = 0; bit < SWAPPED_BITS; bit++) {
		lane_masks(e, v, f, 0x5ab0 + bit, bit ? 2 : 1, 2);
		roll_lanes(e, &l);
		roll_lanes(e, &l);
		count_operations(e, RO_SELECT, 2 * l.n);
		count_operations(e, RO_PACK, l.low ? 3 * l.n : 0);
		l.low = false;
	}
}

/* Halves of registers side by side. */
static void join_halves(Expander *e, double n) {
	count_operations(e, RO_ROTATE, n);
	count_operations(e, RO_SELECT, n);
	count_operations(e, RO_MASK, n);
}

/* The tile with whole registers of lanes. */
static KValue padded_lanes(const KValue *v, int64_t lanes, int64_t *shape) {
	KValue out = *v;
	for (uint32_t i = 0; i < v->rank; i++)
		shape[i] = v->shape[i];
	shape[v->rank - 1] = int_round_up(lanes, LANES);
	out.shape = shape;
	return out;
}

void expand_even_lanes(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	int64_t shape[KDIM_MAX];
	if (!x)
		return;
	const RegisterForm *from = &expand_traced(e, s, 0)->form;
	KValue wide = padded_lanes(x, lanes_of(x), shape);
	LaneTile l = lanes_in(&wide, from);
	if (lanes_of(x) % LANES) {
		count_operations(e, RO_ROTATE, from->turned ? l.n : 0);
		count_operations(e, RO_SELECT, l.n);
		count_operations(e, RO_MASK, l.n / l.along + (l.along > 1));
		count_operations(e, RO_PACK, l.low ? 3 * l.n : 0);
		l.low = false;
	}
	swap_lanes(e, &wide, from, l);
	if (l.along > 1)
		join_halves(e, l.n / l.along * (double)int_cdiv((int64_t)l.along, 2));
	*result_form(e, s) = native_form(from->bits);
}

void expand_interleave(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	int64_t shape[KDIM_MAX];
	if (!x)
		return;
	const RegisterForm *from = &expand_traced(e, s, 0)->form;
	KValue wide = padded_lanes(x, 2 * lanes_of(x), shape);
	LaneTile l = lanes_in(&wide, from);
	l.low = false;
	join_halves(e, l.n);
	swap_lanes(e, &wide, from, l);
	*result_form(e, s) = native_form(from->bits);
}

/* Lane i of each register trades places with lane i ^ 1, i ^ 2, ..., then registers do. */
void expand_flip(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	expand_rename(e, s);
	if (!x || s->ints[0] + 1 != x->rank || lanes_of(x) % LANES)
		return;
	RegisterForm *f = result_form(e, s);
	LaneTile l = lanes_in(x, f);
	for (uint32_t bit = 0; bit < LANE_BITS; bit++) {
		lane_masks(e, x, f, 0xf11b + bit, 1, 1);
		roll_lanes(e, &l);
		if (bit + 1 < LANE_BITS || l.along > 1) /* half a register either way is the same */
			roll_lanes(e, &l);
		count_operations(e, RO_SELECT, l.n);
		l.low = false;
	}
	f->rows = native_rows(f->bits);
}

static void pad_lanes(Expander *e, const KValue *v) {
	RegisterForm usual = usual_form(DTYPE_I32);
	double n = lanes_of(v) % LANES ? value_as(v, &usual) / (double)int_cdiv(lanes_of(v), LANES) : 0;
	count_operations(e, RO_SELECT, n);
	count_operations(e, RO_MASK, n);
}

/* Of each register of lanes those that lie there, by the places; then one is chosen. */
void expand_take_lanes(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0), *at = expand_tile(e, s, 1);
	RegisterForm usual = usual_form(DTYPE_I32);
	if (!x || !at)
		return;
	double n = value_as(at, &usual), of = (double)int_cdiv(lanes_of(x), LANES);
	double places = value_as(at, &expand_traced(e, s, 1)->form);
	pad_lanes(e, x);
	pad_lanes(e, at);
	count_operations(e, RO_INT, places);
	count_operations(e, RO_PERMUTE, n * of);
	count_operations(e, RO_COMPARE, places * (of - 1));
	count_operations(e, RO_SELECT, n * (of - 1));
}

/* A bitonic network of keys and places along lanes. Steps within registers rotate both ways, and choose; those of half
 * a register rotate once. */
typedef struct Network {
	double phases, inner, half, whole; /* steps within registers, of these by half of one, between registers */
} Network;

static Network network_of(int64_t size) {
	Network w = {0};
	for (int64_t reach = 1; reach < size; reach *= 2) {
		w.phases++;
		w.inner += w.phases < LANE_BITS ? w.phases : LANE_BITS;
		w.half += reach >= LANES / 2;
		w.whole += w.phases > LANE_BITS ? w.phases - LANE_BITS : 0;
	}
	return w;
}

/* What makes keys and places of floats, and floats of keys: -0.0 is known by its place, NaN is the greatest. */
static void sort_floats(Expander *e, double n, double along) {
	count_operations(e, RO_INT, 3 * n + along);
	count_operations(e, RO_COMPARE, 5 * n);
	count_operations(e, RO_SELECT, 6 * n);
}

void expand_sort(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x || s->ints[0] + 1 != x->rank)
		return;
	Network w = network_of(lanes_of(x));
	RegisterForm usual = usual_form(DTYPE_I32);
	double n = value_as(x, &usual), along = (double)int_cdiv(lanes_of(x), LANES);
	double pairs = w.inner * n + w.whole * n / 2, below = w.inner - w.half;
	double bits = w.phases < LANE_BITS ? w.phases : LANE_BITS;
	count_operations(e, RO_INT, 2 * pairs + w.inner * n + w.phases * (3 * along + 4 * n) + bits * along);
	count_operations(e, RO_INT, 4 * along + 3 + n + (s->ints[1] ? 2 * n : 0)); /* places, and keys turned round */
	count_operations(e, RO_COMPARE, 3 * pairs + bits * along);
	count_operations(e, RO_SELECT, (4 * w.inner + 4 * below + 2 * w.whole) * n);
	count_operations(e, RO_ROTATE, 2 * (w.inner + below) * n);
	count_operations(e, RO_MASK, 2 * (w.inner + below));
	if (dtype_is_float(x->dtype))
		sort_floats(e, n, along);
}
