/* expand_pointwise.c - pointwise ops, conversions, and what is spread for them. The numbers are in
 * include/operations.def. */
#include "expand.h"

typedef struct Row {
	bool told;
	double floats, functions, ints, compares, selects, converts;
} Row;

/* By op. */
static const Row rows[K_END] = {
#define OPERATION(op, ...) [op] = {true, __VA_ARGS__},
#include "operations.def"
#undef OPERATION
};

bool is_told(uint16_t op) { return rows[op].told; }

enum { OPERANDS = 8 };

/* In which its operands are taken: of a comparison that of the widest. */
static Dtype taken_dtype(const Expander *e, const KStmt *s) {
	Dtype found = s->op == K_FLOAT16_VALUE  ? DTYPE_I32
	              : s->op == K_FLOAT16_BITS ? DTYPE_F32
	                                        : result_of(e, s)->dtype;
	bool compares = found == DTYPE_BOOL, any = false;
	for (uint32_t i = 0; compares && i < s->arg_count; i++) {
		const KValue *x = expand_tile(e, s, i);
		if (!x || (any && dtype_is_float(found) && !dtype_is_float(x->dtype)))
			continue;
		if (!any || dtype_vmem_bits(x->dtype) > dtype_vmem_bits(found) ||
		    dtype_is_float(x->dtype) > dtype_is_float(found))
			found = x->dtype;
		any = true;
	}
	return found;
}

/* Rows of the tiles in which all operands are taken: those of the tallest; rows that are spread are taken whole. */
static uint8_t common_rows(const Expander *e, const KStmt *s, const RegisterForm *form, const KValue *to,
                           uint8_t bits) {
	uint8_t tall = 0;
	bool row = rows_of(to) == 1;
	for (uint32_t i = 0; i < s->arg_count && i < OPERANDS; i++) {
		const KValue *x = expand_tile(e, s, i);
		const RegisterForm *f = &form[i];
		bool beside = x && x->dtype == DTYPE_BOOL && taken_dtype(e, s) != DTYPE_BOOL;
		if (!x || f->splat || beside)
			continue;
		bool spread = rows_of(x) == 1 && rows_of(to) > 1;
		if (f->bits == bits && !spread && (!tall || (row ? f->rows < tall : f->rows > tall)))
			tall = f->rows;
	}
	return tall ? tall : native_rows(bits);
}

/* Registers of one row of 16 bits are taken apart, and each half of a word spread over both. */
static void spread_narrow_row(Expander *e, const KValue *x, const RegisterForm *f) {
	double tiles = (double)int_cdiv(lanes_of(x), LANES);
	count_operations(e, RO_PERMUTE, 13 * value_as(x, f) + tiles);
	count_operations(e, RO_INT, tiles);
	count_operations(e, RO_PACK, 2.5 * tiles);
}

bool spread_before(Expander *e, const Traced *v) { return computed_before(e, v->id + SPREAD + 2); }

void spread(Expander *e, const KValue *x, const Traced *v, const RegisterForm *f, const KValue *to, uint8_t tall) {
	if (f->splat)
		return;
	bool along_lanes = lanes_of(x) == 1 && lanes_of(to) > 1 && !f->same_lanes;
	bool along_rows = rows_of(x) == 1 && rows_of(to) > 1 && !f->same_rows;
	RegisterForm as = *f;
	as.rows = tall;
	if ((!along_lanes && !along_rows) || computed_before(e, v->id + SPREAD + (along_lanes ? 2u : 0u) + along_rows))
		return;
	if (f->bits == 16 && along_rows && f->rows < SUBLANES) {
		spread_narrow_row(e, x, f);
		return;
	}
	count_operations(e, RO_PERMUTE, value_as(x, &as) * (f->bits == 16 && along_lanes ? 2 : 1));
}

/* A mask with fewer places than the result is spread as an int, of which a mask is made again. */
static void spread_mask(Expander *e, const KValue *x, const RegisterForm *f, const Traced *v, const KValue *to) {
	bool same = outer_size(x->rank, x->shape) == outer_size(to->rank, to->shape) && rows_of(x) == rows_of(to) &&
	            lanes_of(x) == lanes_of(to);
	RegisterForm as = *f;
	as.same_rows = f->same_rows || rows_of(x) < rows_of(to);
	as.rows = as.same_rows && f->rows < SUBLANES ? native_rows(f->bits) : f->rows;
	as.same_lanes = f->same_lanes || lanes_of(x) < lanes_of(to);
	if (same || f->splat || computed_before(e, v->id + SPREAD_MASK))
		return;
	count_operations(e, RO_CONVERT, value_as(x, f));
	count_operations(e, RO_COMPARE, value_as(to, &as));
}

/* Takes an operand, in the form of its dtype, as the result lies, which lies alike in all rows or lanes where all do.
 */
static void take_operand(Expander *e, const KStmt *s, uint32_t i, const RegisterForm *f, Dtype dtype) {
	const KValue *x = expand_tile(e, s, i), *to = result_of(e, s);
	RegisterForm *out = result_form(e, s);
	bool one_row = rows_of(x) == 1 && rows_of(to) > 1, one_lane = lanes_of(x) == 1 && lanes_of(to) > 1;
	bool beside = x->dtype == DTYPE_BOOL && dtype != DTYPE_BOOL; /* a mask has no tiles of its own */
	double taken = one_row || beside ? 0 : taken_as(e, x, f, out->rows);
	count_operations(e, RO_ROTATE, f->turned ? 2 * taken : 0);
	spread(e, x, expand_traced(e, s, i), f, to, out->rows);
	if (x->dtype == DTYPE_BOOL)
		spread_mask(e, x, f, expand_traced(e, s, i), to);
	out->same_rows = out->same_rows && (f->same_rows || one_row || f->splat);
	out->same_lanes = out->same_lanes && (f->same_lanes || one_lane || f->splat);
	out->implied = x->rank == to->rank && !out->implied ? f->implied : out->implied;
}

/* Takes all operands in one form, which the result has. Returns its registers. */
static double take_operands(Expander *e, const KStmt *s) {
	const KValue *to = result_of(e, s);
	RegisterForm *out = result_form(e, s), form[OPERANDS] = {0};
	Dtype dtype = taken_dtype(e, s);
	uint32_t count = s->arg_count < OPERANDS ? s->arg_count : OPERANDS;
	*out = usual_form(dtype);
	for (uint32_t i = 0; i < count; i++) {
		const KValue *x = expand_tile(e, s, i);
		if (!x)
			continue;
		const RegisterForm *from = &expand_traced(e, s, i)->form;
		form[i] = (x->dtype == DTYPE_BOOL ? mask_as : converted)(e, x, from, dtype);
		out->bits = dtype == DTYPE_BOOL ? form[i].bits : out->bits; /* of bools alone */
	}
	out->same_rows = out->same_lanes = true;
	out->rows = common_rows(e, s, form, to, out->bits);
	for (uint32_t i = 0; i < count; i++)
		if (expand_tile(e, s, i))
			take_operand(e, s, i, &form[i], dtype);
	return value_as(to, out);
}

/* Of masks, or of what chooses, one is a single flag. */
static bool reads_flag(const Expander *e, const KStmt *s) {
	bool joins =
		s->op == OP_LOGICAL_AND || s->op == OP_LOGICAL_OR || s->op == OP_BITWISE_AND || s->op == OP_BITWISE_OR;
	uint32_t last = s->op == OP_WHERE ? 1 : joins && result_of(e, s)->dtype == DTYPE_BOOL ? 2 : 0;
	for (uint32_t i = 0; i < last; i++) {
		const KArg *a = &e->k->args.at[s->arg_first + i];
		bool is_flag =
			a->kind == KARG_VALUE && !expand_tile(e, s, i) && e->k->values.at[a->value].dtype == DTYPE_BOOL;
		if (is_flag || (a->kind == KARG_INT && last == 2) || (s->op == OP_WHERE && !expand_tile(e, s, 0)))
			return true;
	}
	return false;
}

/* What is one flag for all lanes is made a mask, and cast to the width of elements. */
static void count_flags(Expander *e, const KStmt *s) {
	bool casts = s->op == OP_WHERE || s->op == OP_LOGICAL_NOT, spreads = reads_flag(e, s);
	if (!spreads && s->op != OP_LOGICAL_NOT)
		return;
	count_operations(e, RO_COMPARE, spreads);
	count_operations(e, RO_MASK, casts && result_form(e, s)->bits < WORD ? 2 : 1);
}

/* So many registers of an op's row, less what is known. */
static void count_row(Expander *e, const KStmt *s, double n, const Known *known) {
	const KValue *first = expand_tile(e, s, s->op == OP_WHERE ? 1 : 0), *to = result_of(e, s);
	const Row *r = &rows[s->op];
	if (!r->told) {
		count_operations(e, dtype_is_float(to->dtype) ? RO_FLOAT : RO_INT, n * (1 - known->floats));
		return;
	}
	bool ints = first && !dtype_is_float(first->dtype) && s->op != K_FLOAT16_VALUE;
	count_operations(e, ints ? RO_INT : RO_FLOAT, n * (r->floats - known->floats));
	count_operations(e, ints ? RO_INT : RO_FUNCTION, n * (r->functions - known->functions));
	count_operations(e, RO_INT, n * r->ints);
	count_operations(e, RO_COMPARE, n * (r->compares - known->compares));
	count_operations(e, RO_SELECT, n * r->selects);
	count_operations(e, RO_CONVERT, n * r->converts);
}

void expand_pointwise(Expander *e, const KStmt *s) {
	if (expand_folded(e, s))
		return;
	const KValue *to = result_of(e, s);
	double n = take_operands(e, s);
	if (s->op == K_FLOAT16_BITS) {
		*result_form(e, s) = usual_form(to->dtype);
		count_operations(e, RO_PACK, value_as(to, result_form(e, s)));
	}
	count_flags(e, s);
	expand_chained(e, s, n);
	Known known = expand_known(e, s);
	count_row(e, s, n, &known);
}
