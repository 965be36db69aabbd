/* expand_moves.c - lanes and rows that go elsewhere. */
#include "expand.h"

bool swaps_lanes(const KStmt *s, uint32_t rank) {
	if (s->op == K_TRANSPOSE)
		return s->int_count > 0 && s->ints[s->int_count - 1] + 1 != rank;
	int64_t a = s->ints[0], b = s->ints[1];
	return int_max(a < 0 ? a + rank : a, b < 0 ? b + rank : b) + 1 == rank && a != b;
}

static void transpose_lanes(Expander *e, const KStmt *s, const KValue *x) {
	RegisterForm from = expand_traced(e, s, 0)->form, *out = result_form(e, s);
	uint8_t tall = native_rows(from.bits);
	taken_as(e, x, &from, tall);
	count_operations(e, RO_TRANSPOSE,
	                 outer_size(x->rank, x->shape) * (double)int_cdiv(rows_of(x), LANES) *
	                         (double)int_cdiv(lanes_of(x), LANES));
	*out = (RegisterForm){
		.bits = from.bits, .rows = tall, .same_rows = from.same_lanes, .same_lanes = from.same_rows};
}

void expand_transpose(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	*result_form(e, s) = expand_traced(e, s, 0)->form;
	if (swaps_lanes(s, x->rank))
		transpose_lanes(e, s, x);
}

/* A column along 128 lanes, turned, of which one row is taken. */
void expand_to_row(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	const RegisterForm *from = &expand_traced(e, s, 0)->form;
	RegisterForm *out = result_form(e, s);
	uint8_t tall = native_rows(from->bits);
	double n = taken_as(e, x, from, tall);
	bool spreads = !from->same_lanes && lanes_of(x) == 1;
	if (spreads && !spread_before(e, expand_traced(e, s, 0)))
		count_operations(e, RO_PERMUTE, n);
	count_operations(e, RO_TRANSPOSE, outer_size(x->rank, x->shape) * (double)int_cdiv(rows_of(x), LANES));
	*out = native_form(from->bits);
}

/* A mask is spread as an int of 32 bits, and turned as one of 16. */
static void mask_to_column(Expander *e, const KValue *x, const RegisterForm *from, RegisterForm *out,
                           const KValue *to) {
	RegisterForm as = *from;
	as.rows = SUBLANES;
	double tiles = value_as(x, &as);
	*out = usual_form(DTYPE_I16);
	count_operations(e, RO_PERMUTE, from->same_rows ? 0 : tiles);
	count_operations(e, RO_CONVERT, value_as(x, from) + tiles);
	count_operations(e, RO_COMPARE, tiles + value_as(to, out));
	count_operations(e, RO_MASK, tiles);
	count_operations(e, RO_TRANSPOSE, tiles);
}

void expand_to_column(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	const RegisterForm *from = &expand_traced(e, s, 0)->form;
	RegisterForm *out = result_form(e, s), as = *from;
	if (x->dtype == DTYPE_BOOL) {
		mask_to_column(e, x, from, out, result_of(e, s));
		return;
	}
	as.rows = native_rows(from->bits);
	double n = value_as(x, &as);
	count_operations(e, RO_PERMUTE, from->same_rows ? 0 : n);
	count_operations(e, RO_TRANSPOSE, n);
	*out = as;
	out->same_rows = false;
}

/* It is cut along lanes within a register. */
static bool starts_inside(const KStmt *s, uint32_t rank) {
	if (s->op == K_SLICE_IN_DIM)
		return s->ints[2] + 1 == rank && s->ints[0] % LANES != 0;
	uint32_t dim = 0;
	for (uint32_t i = 0; s->op == K_INDEX && i + 2 < s->int_count; i += 3) {
		bool cuts = s->ints[i] == K_ITEM_AT || s->ints[i] == K_ITEM_RANGE;
		if (dim + 1 == rank && cuts && s->ints[i + 1] % LANES)
			return true;
		dim += s->ints[i] != K_ITEM_NEW;
	}
	return false;
}

/* Registers are called otherwise. */
void expand_rename(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0), *to = result_of(e, s);
	RegisterForm *out = result_form(e, s);
	*out = usual_form(to->dtype);
	if (!x && to->dtype == DTYPE_BOOL) { /* a flag, spread */
		count_operations(e, RO_COMPARE, 1);
		count_operations(e, RO_MASK, 1);
	}
	out->same_rows = out->same_lanes = !x;
	if (!x)
		return;
	Traced *v = expand_traced(e, s, 0);
	*out = v->form;
	out->product = false;
	out->implied = x->rank == to->rank ? out->implied : 0;
	out->turned = v->form.turned != starts_inside(s, x->rank);
	if (s->op == K_WORDS || (s->op == K_BITCAST && usual_form(to->dtype).bits != v->form.bits))
		*out = usual_form(to->dtype);
	bool apart = rows_of(x) > 1 && rows_of(to) == 1 && to->rank > x->rank;
	if (apart && out->rows == SUBLANES && out->bits == WORD && !out->same_rows && s->op != K_BROADCAST &&
	    !v->form.implied)
		count_operations(e, RO_PERMUTE, 13 * value_as(x, &v->form)); /* each row a register of its own */
	if (apart && out->rows == 1 && lanes_of(x) <= LANES)
		out->same_rows = true; /* it was loaded into all of them */
	if (s->op != K_BROADCAST && s->op != K_TILE)
		return;
	if (rows_of(x) < rows_of(to) && out->bits == WORD)
		out->rows = SUBLANES;
	spread(e, x, v, &v->form, to, out->rows);
	out->same_lanes = out->same_lanes || (lanes_of(x) == 1 && lanes_of(to) > 1);
	out->same_rows = out->same_rows || (rows_of(x) == 1 && rows_of(to) > 1);
}

/* By a number that is not known: each register within itself, then whole ones by one bit of it after the other. */
void expand_rotate(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	RegisterForm *out = result_form(e, s);
	bool lanes = s->ints[0] + 1 == x->rank;
	int64_t size = lanes ? int_cdiv(lanes_of(x), LANES) : int_cdiv(rows_of(x), SUBLANES);
	double bits = 0, n = value_as(x, out);
	for (int64_t i = 1; i < size; i *= 2)
		bits++;
	const RegisterForm *from = &expand_traced(e, s, 0)->form;
	count_operations(e, RO_PERMUTE, from->rows < out->rows ? n : 0);
	count_operations(e, RO_ROTATE, n);
	count_operations(e, RO_SELECT, n * (bits + 1));
	count_operations(e, RO_COMPARE, bits + 1);
}

/* Whole registers, one beside the other. */
void expand_join(Expander *e, const KStmt *s) {
	RegisterForm *out = result_form(e, s);
	for (uint32_t i = 0; i < s->arg_count; i++)
		if (expand_tile(e, s, i))
			taken_as(e, expand_tile(e, s, i), &expand_traced(e, s, i)->form, out->rows);
	const KValue *first = expand_tile(e, s, 0), *to = result_of(e, s);
	if (!first || s->ints[0] + 1 != to->rank || last_dim(first->rank, first->shape) % LANES == 0)
		return;
	count_operations(e, RO_SELECT, value_as(to, out));
	count_operations(e, RO_MASK, value_as(to, out));
}

/* Behind the last lanes something is put into their registers. */
void expand_pad(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	RegisterForm *out = result_form(e, s);
	double n = taken_as(e, x, &expand_traced(e, s, 0)->form, out->rows);
	double last = lanes_of(x) % LANES ? n / (double)int_cdiv(lanes_of(x), LANES) : 0;
	count_operations(e, RO_SELECT, last);
	count_operations(e, RO_MASK, last);
}
