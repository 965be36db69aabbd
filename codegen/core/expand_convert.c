/* expand_convert.c - conversions, and masks of other widths. */
#include "expand.h"

RegisterForm mask_as(Expander *e, const KValue *x, const RegisterForm *from, Dtype dtype) {
	RegisterForm as = usual_form(dtype);
	if (dtype == DTYPE_BOOL || from->bits == as.bits || from->splat)
		return *from;
	as.same_lanes = from->same_lanes;
	as.same_rows = from->same_rows;
	as.implied = from->implied;
	if (from->bits > as.bits) {
		count_operations(e, RO_MASK, value_as(x, &as));
		return as;
	}
	count_operations(e, RO_CONVERT, value_as(x, from));
	count_operations(e, RO_PACK, value_as(x, &as));
	count_operations(e, RO_COMPARE, value_as(x, &as));
	if (lanes_of(x) == 1) { /* there and back */
		count_operations(e, RO_CONVERT, value_as(x, &as));
		count_operations(e, RO_PACK, 2 * value_as(x, &as));
		count_operations(e, RO_COMPARE, value_as(x, &as));
	}
	return as;
}

/* Elements of other bits, or of another kind, all of them numbers. */
static RegisterForm converted_numbers(Expander *e, const KValue *x, const RegisterForm *from, uint8_t bits, Dtype to) {
	RegisterForm out = *from, usual = usual_form(to), word;
	bool to_float = dtype_is_float(to), from_float = dtype_is_float(x->dtype), narrows = usual.bits < bits;
	out.bits = usual.bits;
	out.rows = narrows || from->rows > usual.rows ? usual.rows : from->rows;
	word = out;
	word.bits = WORD;
	word.rows = out.rows > SUBLANES ? SUBLANES : out.rows;
	if (narrows && bits == WORD && from->rows < SUBLANES && rows_of(x) == 1) /* a row in tall tiles */
		count_operations(e, RO_PERMUTE, words_of(x, &word));
	if (x->dtype == DTYPE_BOOL)
		count_operations(e, RO_CONVERT, value_as(x, &word));
	if (usual.bits != bits)
		count_operations(e, RO_PACK, value_as(x, &out));
	if (bits == 8 && out.bits == 16 && from_float) /* by way of float32 */
		count_operations(e, RO_PACK, words_of(x, &out));
	if (to_float != from_float && (out.bits == WORD || out.bits == bits || !to_float))
		count_operations(e, RO_CONVERT, value_as(x, &word));
	return out;
}

RegisterForm converted(Expander *e, const KValue *x, const RegisterForm *from, Dtype to) {
	bool from_bool = x->dtype == DTYPE_BOOL;
	RegisterForm out = from_bool && to != DTYPE_BOOL ? mask_as(e, x, from, DTYPE_I32) : *from;
	out.product = false;
	if (out.splat || x->dtype == to) {
		RegisterForm usual = usual_form(to);
		out.bits = usual.bits;
		out.rows = out.splat ? usual.rows : out.rows;
		return out;
	}
	if (to == DTYPE_BOOL) {
		count_operations(e, RO_COMPARE, value_as(x, &out));
		return out;
	}
	return converted_numbers(e, x, &out, from_bool ? WORD : out.bits, to);
}

void expand_convert(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	bool ints = x && !dtype_is_float(x->dtype) && x->dtype != DTYPE_BOOL && !dtype_is_float(result_of(e, s)->dtype);
	if (ints && dtype_vmem_bits(x->dtype) == dtype_vmem_bits(result_of(e, s)->dtype)) {
		e->values[s->result].summed = expand_traced(e, s, 0)->summed;
		e->values[s->result].added = expand_traced(e, s, 0)->added;
	}
	if (x && x->dtype == DTYPE_BOOL)
		computed_before(e, expand_traced(e, s, 0)->id + AS_INT);
	if (x)
		*result_form(e, s) = converted(e, x, &expand_traced(e, s, 0)->form, result_of(e, s)->dtype);
}
