/* expand_dims.c - reductions, and what places along a dim say. */
#include <math.h>
#include "expand.h"

static bool reduces(const KStmt *s, uint32_t dim) {
	for (uint32_t i = 1; i < s->int_count; i++)
		if (s->ints[i] == dim)
			return true;
	return s->int_count == 1;
}

/* Of registers that the tile does not fill, what lies beside it is replaced before they are combined. */
static void mask_rest(Expander *e, const KValue *x, const RegisterForm *f, double registers) {
	int64_t rows = rows_of(x), lanes = lanes_of(x);
	double high = f->same_rows ? 1 : (double)int_cdiv(rows, f->rows),
	       wide = f->same_lanes ? 1 : (double)int_cdiv(lanes, LANES);
	double cut_rows = rows % f->rows && !f->same_rows && rows > 1 ? 1 : 0,
	       cut_lanes = lanes % LANES && !f->same_lanes && lanes > 1 ? 1 : 0;
	double part = 1 - (1 - cut_rows / high) * (1 - cut_lanes / wide);
	count_operations(e, RO_SELECT, registers * part);
	count_operations(e, RO_MASK, registers * part);
}

void expand_reduce(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	RegisterForm from = expand_traced(e, s, 0)->form, *out = result_form(e, s);
	uint8_t tall = native_rows(from.bits);
	double in = taken_as(e, x, &from, tall), left = in;
	bool one_tile = rows_of(x) == 1 && lanes_of(x) <= LANES;
	if (from.rows < tall && rows_of(x) == 1 && from.bits == WORD && !one_tile) {
		count_operations(e, RO_PERMUTE, in);
		count_operations(e, RO_SELECT, in);
		count_operations(e, RO_MASK, in);
	}
	from.rows = tall;
	mask_rest(e, x, &from, in);
	bool lanes = reduces(s, x->rank - 1), sublanes = x->rank > 1 && reduces(s, x->rank - 2);
	for (uint32_t i = 0; i < x->rank; i++) {
		int64_t of = i + 1 == x->rank   ? int_cdiv(x->shape[i], LANES)
		             : i + 2 == x->rank ? int_cdiv(x->shape[i], tall)
		                                : x->shape[i];
		left /= reduces(s, i) ? (double)int_max(of, 1) : 1;
	}
	bool sums = s->op == K_SUM || s->op == K_MEAN, floats = dtype_is_float(x->dtype);
	count_operations(e, floats ? RO_FLOAT : RO_INT, sums && floats ? in : in - left);
	count_operations(e, RO_REDUCE, lanes || sublanes ? left * (lanes && sublanes && !one_tile ? 2 : 1) : 0);
	count_operations(e, RO_ROTATE, result_of(e, s)->rank ? 0 : 2 * left); /* to its first place */
	count_operations(e, RO_FUNCTION, s->op == K_MEAN ? left : 0);
	*out = from;
	out->splat = out->product = false;
	out->same_lanes = from.same_lanes || lanes;
	out->same_rows = from.same_rows || sublanes;
	if (!s->ints[0] && result_of(e, s)->rank)
		out->implied = sublanes && !lanes ? 2 : lanes && !sublanes ? 1 : 0;
}

/* By halves: those of less than a register are rotated. */
void expand_product(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x || s->int_count != 2)
		return;
	bool lanes = s->ints[1] + 1 == x->rank;
	RegisterForm *out = result_form(e, s);
	int64_t unit = lanes ? LANES : out->rows;
	double n = value_as(x, out) / (double)int_cdiv(x->shape[s->ints[1]], unit);
	for (int64_t half = x->shape[s->ints[1]] / 2; half > 0 && s->ints[1] + 2 >= x->rank; half /= 2) {
		count_operations(e, RO_FLOAT, n * (double)int_cdiv(half, unit));
		count_operations(e, RO_ROTATE, half < unit ? n : 0);
	}
}

/* Parts of 128 lanes combined, then with what there is. */
void expand_fold(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 1), *total = expand_tile(e, s, 0);
	if (!x || !total)
		return;
	const RegisterForm *f = &expand_traced(e, s, 1)->form, *to = &expand_traced(e, s, 0)->form;
	RegisterForm part = *f;
	part.splat = false;
	double n = form_registers(&part, total->rank, total->shape);
	double parts = (double)int_cdiv(lanes_of(x), LANES);
	bool first = to->splat && isinf(to->number) && s->op != K_FOLD_SUM;
	count_operations(e, dtype_is_float(x->dtype) ? RO_FLOAT : RO_INT, n * (first ? parts - 1 : parts));
	if (f->bits < WORD && f->rows == SUBLANES) /* every other part stands beside another */
		count_operations(e, RO_ROTATE, n * 2 * (double)(int64_t)(parts / 2));
	*result_form(e, s) = part;
}

/* Each 128 lanes are chosen, or what there is. */
void expand_fold_where(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 2);
	if (!x)
		return;
	RegisterForm part = expand_traced(e, s, 2)->form;
	part.splat = false;
	count_operations(e, RO_SELECT, value_as(x, &part));
	*result_form(e, s) = part;
}

RegisterForm expand_places(Expander *e, const KValue *v, uint32_t axis) {
	RegisterForm out = usual_form(DTYPE_I32);
	out.same_lanes = axis + 1 != v->rank;
	out.same_rows = axis + 2 != v->rank;
	uint64_t key = 0x10a + axis;
	for (uint32_t i = 0; i < v->rank; i++)
		key = key * 0x9e3779b97f4a7c15u + (uint64_t)v->shape[i];
	double outer =
		outer_size(v->rank, v->shape); /* those of one tile serve all; along such a dim they are numbers */
	if (axis + 2 >= v->rank && !computed_before(e, key))
		count_operations(e, RO_INT, value_as(v, &out) / outer + 1);
	return out;
}

void expand_iota(Expander *e, const KStmt *s) {
	*result_form(e, s) = expand_places(e, result_of(e, s), (uint32_t)s->ints[0]);
}

/* An index along the axis, compared with one number or two, selects. */
void expand_mask(Expander *e, const KStmt *s) {
	bool within = s->op == K_WITHIN;
	const KValue *x = expand_tile(e, s, within ? 1 : 0);
	if (!x)
		return;
	RegisterForm *out = result_form(e, s), at = expand_places(e, x, (uint32_t)s->ints[0]);
	*out = expand_traced(e, s, within ? 1 : 0)->form;
	out->splat = out->product = false;
	double n = value_as(x, &at);
	uint32_t other = within ? 0 : 2; /* what stands where it is not */
	if (expand_tile(e, s, other)) {
		const RegisterForm *old = &expand_traced(e, s, other)->form;
		uint8_t tall = old->bits == out->bits && old->rows > out->rows ? old->rows : out->rows;
		taken_as(e, x, out, tall);
		taken_as(e, expand_tile(e, s, other), old, tall);
		out->rows = tall;
	}
	out->same_lanes = out->same_lanes && at.same_lanes;
	out->same_rows = out->same_rows && at.same_rows;
	uint64_t key = argument_key(e, 0x3a5c + (uint64_t)s->ints[0], s, within ? 2 : 1);
	for (uint32_t i = 0; i < x->rank; i++)
		key = key * 0x9e3779b97f4a7c15u + (uint64_t)x->shape[i];
	if (!computed_before(e, key + within)) {
		count_operations(e, RO_INT, within ? n : 0);
		count_operations(e, RO_COMPARE, within ? 2 * n : n);
	}
	count_operations(e, RO_SELECT, value_as(x, out));
	RegisterForm packed = at;
	packed.bits = out->bits;
	packed.rows = out->rows;
	bool whole = at.same_rows && at.same_lanes; /* a register is in the mask or is not */
	count_operations(e, RO_MASK, out->bits < WORD ? value_as(x, &packed) * (whole ? 2 : 1) : 0);
}
