/* expand_pointwise.c - pointwise ops, conversions, and what is spread for them. The numbers are in
 * include/operations.def. */
#include <math.h>
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

/* A mask beside elements of a width is one of that width. */
static RegisterForm mask_as(Expander *e, const KValue *x, const RegisterForm *from, Dtype dtype) {
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

/* A tile of another dtype: how it lies then. */
static RegisterForm converted(Expander *e, const KValue *x, const RegisterForm *from, Dtype to) {
	RegisterForm wide = x->dtype == DTYPE_BOOL && to != DTYPE_BOOL ? mask_as(e, x, from, DTYPE_I32) : *from;
	from = &wide;
	RegisterForm out = *from, usual = usual_form(to), word;
	bool from_bool = x->dtype == DTYPE_BOOL, to_float = dtype_is_float(to), from_float = dtype_is_float(x->dtype);
	out.product = false;
	if (from->splat || x->dtype == to) {
		out.bits = usual.bits;
		out.rows = from->splat ? usual.rows : from->rows;
		return out;
	}
	if (to == DTYPE_BOOL) {
		count_operations(e, RO_COMPARE, value_as(x, &out));
		return out;
	}
	uint8_t bits = from_bool ? WORD : from->bits;
	out.bits = usual.bits;
	out.rows = usual.bits < bits || from->rows > usual.rows ? usual.rows : from->rows;
	word = out;
	word.bits = WORD;
	word.rows = out.rows > SUBLANES ? SUBLANES : out.rows;
	if (usual.bits < bits && bits == WORD && from->rows < SUBLANES &&
	    rows_of(x) == 1) /* each register of the row becomes one of tall tiles */
		count_operations(e, RO_PERMUTE, words_of(x, &word));
	if (from_bool)
		count_operations(e, RO_CONVERT, value_as(x, &word));
	if (usual.bits != bits)
		count_operations(e, RO_PACK, value_as(x, &out));
	if (bits == 8 && out.bits == 16 && from_float) /* by way of float32 */
		count_operations(e, RO_PACK, words_of(x, &out));
	if (to_float != from_float && (out.bits == WORD || out.bits == bits || !to_float))
		count_operations(e, RO_CONVERT, value_as(x, &word));
	return out;
}

void expand_convert(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	bool ints = x && !dtype_is_float(x->dtype) && x->dtype != DTYPE_BOOL && !dtype_is_float(result_of(e, s)->dtype);
	if (ints && dtype_vmem_bits(x->dtype) == dtype_vmem_bits(result_of(e, s)->dtype)) {
		e->values[s->result].summed = expand_traced(e, s, 0)->summed;
		e->values[s->result].added = expand_traced(e, s, 0)->added;
	}
	if (x)
		*result_form(e, s) = converted(e, x, &expand_traced(e, s, 0)->form, result_of(e, s)->dtype);
}

/* Of a value that is spread, a key beside that of the value itself. */
enum { OPERANDS = 8, SPREAD = 0x51 };

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
	if (same || f->splat || computed_before(e, v->id + 0xb001))
		return;
	count_operations(e, RO_CONVERT, value_as(x, f));
	count_operations(e, RO_COMPARE, value_as(to, &as));
}

/* Takes all operands in one form, which the result has. Returns its registers. */
static double take_operands(Expander *e, const KStmt *s) {
	const KValue *to = result_of(e, s);
	RegisterForm *out = result_form(e, s), form[OPERANDS] = {0};
	Dtype dtype = taken_dtype(e, s);
	uint32_t count = s->arg_count < OPERANDS ? s->arg_count : OPERANDS;
	for (uint32_t i = 0; i < count; i++) {
		const KValue *x = expand_tile(e, s, i);
		if (x && x->dtype != DTYPE_BOOL)
			form[i] = converted(e, x, &expand_traced(e, s, i)->form, dtype);
		else if (x)
			form[i] = mask_as(e, x, &expand_traced(e, s, i)->form, dtype);
	}
	*out = usual_form(dtype);
	if (dtype == DTYPE_BOOL) /* of bools alone */
		for (uint32_t i = 0; i < count; i++)
			if (expand_tile(e, s, i))
				out->bits = form[i].bits;
	out->same_rows = out->same_lanes = true;
	out->rows = common_rows(e, s, form, to, out->bits);
	for (uint32_t i = 0; i < count; i++) {
		const KValue *x = expand_tile(e, s, i);
		if (!x)
			continue;
		bool one_row = rows_of(x) == 1 && rows_of(to) > 1;
		bool one_lane = lanes_of(x) == 1 && lanes_of(to) > 1;
		bool beside = x->dtype == DTYPE_BOOL && dtype != DTYPE_BOOL; /* a mask has no tiles of its own */
		double taken = one_row || beside ? 0 : taken_as(e, x, &form[i], out->rows);
		count_operations(e, RO_ROTATE, form[i].turned ? 2 * taken : 0);
		spread(e, x, expand_traced(e, s, i), &form[i], to, out->rows);
		if (x->dtype == DTYPE_BOOL)
			spread_mask(e, x, &form[i], expand_traced(e, s, i), to);
		out->same_rows = out->same_rows && (form[i].same_rows || one_row || form[i].splat);
		out->same_lanes = out->same_lanes && (form[i].same_lanes || one_lane || form[i].splat);
		out->implied = x->rank == to->rank && !out->implied ? form[i].implied : out->implied;
	}
	return value_as(to, out);
}

/* What Mosaic folds away: the maximum with what is least, a sum with a product that takes it up. */
static bool is_folded(Expander *e, const KStmt *s) {
	double number;
	for (uint32_t i = 0; i < 2 && s->arg_count == 2; i++) {
		bool constant = argument_number(e, s, i, &number);
		const KValue *x = expand_tile(e, s, 1 - i);
		if (!x)
			continue;
		RegisterForm *f = &expand_traced(e, s, 1 - i)->form;
		bool ints = !dtype_is_float(x->dtype) && x->dtype == result_of(e, s)->dtype && constant;
		bool nothing =
			s->op == OP_MUL
				? number == 1
				: number == 0 &&
					  (s->op == OP_ADD || s->op == OP_BITWISE_OR || s->op == OP_BITWISE_XOR ||
		                           (i == 1 && (s->op == OP_SUB || s->op == OP_LSHIFT || s->op == OP_RSHIFT)));
		if (ints && nothing) {
			*result_form(e, s) = *f;
			return true;
		}
		bool least = constant && isinf(number) && (s->op == OP_MAXIMUM ? number < 0 : number > 0);
		if ((s->op == OP_MAXIMUM || s->op == OP_MINIMUM) && least) {
			*result_form(e, s) = *f;
			return true;
		}
		if (s->op == OP_ADD && f->product && (i == 1 || constant)) {
			const KValue *added = constant ? NULL : expand_tile(e, s, i), *to = result_of(e, s);
			if (added)
				spread(e, added, expand_traced(e, s, i), &expand_traced(e, s, i)->form, to, f->rows);
			*result_form(e, s) = *f;
			result_form(e, s)->product = constant && number == 0;
			return true;
		}
	}
	return false;
}

/* Of numbers alone. */
static bool is_constant(Expander *e, const KStmt *s) {
	double number;
	for (uint32_t i = 0; i < s->arg_count; i++)
		if (e->k->args.at[s->arg_first + i].kind == KARG_VALUE && !argument_number(e, s, i, &number))
			return false;
	return true;
}

/* What an op computes of its argument that another op computes as well: the second has less to do. */
typedef struct Shared {
	uint16_t op, with;
	double floats, functions, compares;
} Shared;

static const Shared shares[] = {{OP_EXPM1, OP_EXP, 0, 1, 0},      {OP_EXPM1, OP_ABS, 1, 0, 0},
                                {OP_LOG2, OP_LOG, 0, 1, 0},       {OP_LOG10, OP_LOG, 0, 1, 0},
                                {OP_TRUNC, OP_FLOOR, 0, 1, 0},    {OP_TRUNC, OP_CEIL, 0, 1, 0},
                                {OP_REMAINDER, OP_FMOD, 0, 1, 0}, {OP_ASINH, OP_SINH, 1, 0, 2}};

static Shared known_of(Expander *e, const KStmt *s) {
	Shared known = {0};
	if (!e->trace)
		return known;
	bool seen = false, is_other = false;
	for (uint32_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		const Shared *x = &shares[i];
		if (x->with == s->op && !is_other) {
			seen = computed_before(e, argument_key(e, x->with, s, 0));
			is_other = true;
		}
		if (x->op != s->op || !computed_before(e, argument_key(e, x->with, s, 0)))
			continue;
		known.floats += x->floats;
		known.functions += x->functions;
		known.compares += x->compares;
	}
	if (seen && s->op == OP_ABS)
		known.floats = 1;
	else if (seen)
		known.functions = s->op == OP_SINH ? 0 : 1;
	return known;
}

/* A number added to a sum with another one: both are added at once, and what only this reads is not computed. */
static void chain_sum(Expander *e, const KStmt *s, double n) {
	double number;
	bool adds = s->op == OP_ADD || s->op == OP_SUB;
	Traced *out = &e->values[s->result];
	for (uint32_t i = 0; adds && i < 2; i++) {
		const KValue *x = expand_tile(e, s, i);
		if (!x || dtype_is_float(x->dtype) || (i == 1 && s->op == OP_SUB) ||
		    !argument_number(e, s, 1 - i, &number))
			continue;
		const Traced *v = expand_traced(e, s, i);
		int64_t added = s->op == OP_ADD ? (int64_t)number : -(int64_t)number;
		out->summed = true;
		out->added = (v->summed ? v->added : 0) + added;
		if (v->summed)
			count_operations(e, RO_INT, out->added & 0xffffffff ? -n : -2 * n);
		return;
	}
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

/* Of a choice within one by the same mask the outer one is left. */
static void nest_choice(Expander *e, const KStmt *s, double n) {
	if (s->op != OP_WHERE || !expand_tile(e, s, 0) || !e->trace)
		return;
	e->values[s->result].chosen = expand_traced(e, s, 0)->id;
	if (expand_tile(e, s, 1) && expand_traced(e, s, 1)->chosen == expand_traced(e, s, 0)->id)
		count_operations(e, RO_SELECT, -n);
}

void expand_pointwise(Expander *e, const KStmt *s) {
	if (is_constant(e, s)) {
		result_form(e, s)->splat = true;
		result_form(e, s)->number = NAN;
		return;
	}
	if (is_folded(e, s))
		return;
	const KValue *first = expand_tile(e, s, s->op == OP_WHERE ? 1 : 0), *to = result_of(e, s);
	double n = take_operands(e, s);
	if (s->op == K_FLOAT16_BITS) {
		*result_form(e, s) = usual_form(to->dtype);
		count_operations(e, RO_PACK, value_as(to, result_form(e, s)));
	}
	if (reads_flag(e, s)) { /* spread */
		count_operations(e, RO_COMPARE, 1);
		count_operations(e, RO_MASK, result_form(e, s)->bits < WORD && s->op == OP_WHERE ? 2 : 1);
	}
	chain_sum(e, s, n);
	nest_choice(e, s, n);
	Shared known = known_of(e, s);
	const Row *r = &rows[s->op];
	if (!r->told) {
		count_operations(e, dtype_is_float(to->dtype) ? RO_FLOAT : RO_INT, n * (1 - known.floats));
		return;
	}
	bool ints = first && !dtype_is_float(first->dtype) && s->op != K_FLOAT16_VALUE &&
	            (r->functions > 0 || r->floats > 0);
	count_operations(e, ints ? RO_INT : RO_FLOAT, n * (r->floats - known.floats));
	count_operations(e, ints ? RO_INT : RO_FUNCTION, n * (r->functions - known.functions));
	count_operations(e, RO_INT, n * r->ints);
	count_operations(e, RO_COMPARE, n * (r->compares - known.compares));
	count_operations(e, RO_SELECT, n * r->selects);
	count_operations(e, RO_CONVERT, n * r->converts);
}
