/* expand.c - a statement as operations on vector registers, by class. The numbers are in include/operations.def. */
#include <math.h>
#include "registers.h"

const char *const register_op_names[RO_COUNT + 1] = {"load",      "store",   "matmul",  "float", "function", "int",
                                                     "compare",   "select",  "convert", "pack",  "reduce",   "rotate",
                                                     "transpose", "permute", "mask",    NULL};

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

/* ---- how values lie --------------------------------------------------------------------------------------------- */

enum { SUBLANES = 8, LANES = 128, WORD = 32 };

/* Of tiles that are whole registers. */
static uint8_t native_rows(uint32_t bits) { return (uint8_t)(SUBLANES * WORD / (bits ? bits : WORD)); }

RegisterForm usual_form(Dtype dtype) {
	uint32_t bits = dtype == DTYPE_BOOL ? WORD : (uint32_t)dtype_vmem_bits(dtype);
	bits = bits < 4 ? 4 : bits;
	return (RegisterForm){.bits = (uint8_t)bits, .rows = native_rows(bits)};
}

static int64_t last_dim(uint32_t rank, const int64_t *shape) { return rank ? shape[rank - 1] : 1; }
static int64_t rows_dim(uint32_t rank, const int64_t *shape) { return rank > 1 ? shape[rank - 2] : 1; }

static double outer_size(uint32_t rank, const int64_t *shape) {
	double size = 1;
	for (uint32_t i = 0; i + 2 < rank; i++)
		size *= (double)shape[i];
	return size;
}

double form_registers(const RegisterForm *f, uint32_t rank, const int64_t *shape) {
	if (rank == 0 || f->splat || !f->rows || !f->bits)
		return rank ? 1 : 0;
	int64_t beside = SUBLANES * WORD / f->bits / f->rows; /* tiles in a register */
	int64_t rows = rows_dim(rank, shape), lanes = last_dim(rank, shape);
	double outer = outer_size(rank, shape);
	if (f->implied) {
		outer *= (double)rows;
		rows = f->implied == 2 ? 1 : lanes;
		lanes = f->implied == 2 ? lanes : 1;
	}
	double high = f->same_rows ? 1 : (double)int_cdiv(rows, f->rows);
	double wide = f->same_lanes ? 1 : (double)int_cdiv(lanes, LANES * int_max(beside, 1));
	return outer * high * wide;
}

static double value_as(const KValue *v, const RegisterForm *f) { return form_registers(f, v->rank, v->shape); }

void count_operations(Expander *e, RegisterOp op, double times) {
	e->to->of[op] += times;
	e->to->any = e->to->any || times != 0;
}

/* Its tiles of 8 rows and 128 lanes, as registers of 32 bits. */
static double words_of(const KValue *v, const RegisterForm *f) {
	RegisterForm word = *f;
	word.bits = WORD;
	word.rows = SUBLANES;
	return value_as(v, &word);
}

double taken_as(Expander *e, const KValue *v, const RegisterForm *f, uint8_t to) {
	RegisterForm as = *f;
	as.rows = to;
	double n = value_as(v, &as);
	if (f->rows == to || f->splat)
		return n;
	int64_t low = f->rows < to ? f->rows : to;
	if (last_dim(v->rank, v->shape) <= LANES &&
	    rows_dim(v->rank, v->shape) <= low) /* it is the first tile of both */
		return n;
	bool row = rows_dim(v->rank, v->shape) == 1;
	if (f->bits == 16 && row && f->rows < SUBLANES && to > f->rows) {
		count_operations(e, RO_PERMUTE, 13 * value_as(v, f));
		return n;
	}
	if (f->bits == WORD || (row && to < SUBLANES)) {
		double each = f->rows > to ? value_as(v, f) / n : 1; /* of which each is made */
		count_operations(e, RO_PERMUTE, each > 2 ? 5 * value_as(v, f) : each > 1 ? 14 * n : 0);
		return n;
	}
	count_operations(e, RO_PACK, words_of(v, f) + n);
	return n;
}

static bool is_tile(const KValue *v) { return v->type == KTYPE_TILE && v->rank > 0; }

const KValue *expand_tile(const Expander *e, const KStmt *s, uint32_t i) {
	const KArg *a = i < s->arg_count ? &e->k->args.at[s->arg_first + i] : NULL;
	const KValue *v = a && a->kind == KARG_VALUE ? &e->k->values.at[a->value] : NULL;
	return v && is_tile(v) ? v : NULL;
}

Traced *expand_traced(const Expander *e, const KStmt *s, uint32_t i) {
	return &e->values[e->k->args.at[s->arg_first + i].value];
}

static const KValue *result_of(const Expander *e, const KStmt *s) { return &e->k->values.at[s->result]; }
static RegisterForm *result_form(const Expander *e, const KStmt *s) { return &e->values[s->result].form; }

/* ---- pointwise -------------------------------------------------------------------------------------------------- */

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
	if (last_dim(x->rank, x->shape) == 1) { /* there and back */
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
	    rows_dim(x->rank, x->shape) == 1) /* each register of the row becomes one of tall tiles */
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

static void convert(Expander *e, const KStmt *s) {
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
	bool row = rows_dim(to->rank, to->shape) == 1;
	for (uint32_t i = 0; i < s->arg_count && i < OPERANDS; i++) {
		const KValue *x = expand_tile(e, s, i);
		const RegisterForm *f = &form[i];
		bool beside = x && x->dtype == DTYPE_BOOL && taken_dtype(e, s) != DTYPE_BOOL;
		if (!x || f->splat || beside)
			continue;
		bool spread = rows_dim(x->rank, x->shape) == 1 && rows_dim(to->rank, to->shape) > 1;
		if (f->bits == bits && !spread && (!tall || (row ? f->rows < tall : f->rows > tall)))
			tall = f->rows;
	}
	return tall ? tall : native_rows(bits);
}

/* Registers of one row of 16 bits are taken apart, and each half of a word spread over both. */
static void spread_narrow_row(Expander *e, const KValue *x, const RegisterForm *f) {
	double tiles = (double)int_cdiv(last_dim(x->rank, x->shape), LANES);
	count_operations(e, RO_PERMUTE, 13 * value_as(x, f) + tiles);
	count_operations(e, RO_INT, tiles);
	count_operations(e, RO_PACK, 2.5 * tiles);
}

/* Spreads the operand to the shape: a lane along lanes, a row along rows; once for all that read it. */
static void spread(Expander *e, const KValue *x, const RegisterForm *f, const Traced *v, uint32_t rank,
                   const int64_t *shape, uint8_t tall) {
	if (f->splat)
		return;
	bool along_lanes = last_dim(x->rank, x->shape) == 1 && last_dim(rank, shape) > 1 && !f->same_lanes;
	bool along_rows = rows_dim(x->rank, x->shape) == 1 && rows_dim(rank, shape) > 1 && !f->same_rows;
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
	bool same = outer_size(x->rank, x->shape) == outer_size(to->rank, to->shape) &&
	            rows_dim(x->rank, x->shape) == rows_dim(to->rank, to->shape) &&
	            last_dim(x->rank, x->shape) == last_dim(to->rank, to->shape);
	RegisterForm as = *f;
	as.same_rows = f->same_rows || rows_dim(x->rank, x->shape) < rows_dim(to->rank, to->shape);
	as.rows = as.same_rows && f->rows < SUBLANES ? native_rows(f->bits) : f->rows;
	as.same_lanes = f->same_lanes || last_dim(x->rank, x->shape) < last_dim(to->rank, to->shape);
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
		bool one_row = rows_dim(x->rank, x->shape) == 1 && rows_dim(to->rank, to->shape) > 1;
		bool one_lane = last_dim(x->rank, x->shape) == 1 && last_dim(to->rank, to->shape) > 1;
		bool beside = x->dtype == DTYPE_BOOL && dtype != DTYPE_BOOL; /* a mask has no tiles of its own */
		double taken = one_row || beside ? 0 : taken_as(e, x, &form[i], out->rows);
		count_operations(e, RO_ROTATE, form[i].turned ? 2 * taken : 0);
		spread(e, x, &form[i], expand_traced(e, s, i), to->rank, to->shape, out->rows);
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
				spread(e, added, &expand_traced(e, s, i)->form, expand_traced(e, s, i), to->rank,
				       to->shape, f->rows);
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

static void pointwise(Expander *e, const KStmt *s) {
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

/* ---- along dims ------------------------------------------------------------------------------------------------- */

static bool reduces(const KStmt *s, uint32_t dim) {
	for (uint32_t i = 1; i < s->int_count; i++)
		if (s->ints[i] == dim)
			return true;
	return s->int_count == 1;
}

/* Of registers that the tile does not fill, what lies beside it is replaced before they are combined. */
static void mask_rest(Expander *e, const KValue *x, const RegisterForm *f, double registers) {
	int64_t rows = rows_dim(x->rank, x->shape), lanes = last_dim(x->rank, x->shape);
	double high = f->same_rows ? 1 : (double)int_cdiv(rows, f->rows),
	       wide = f->same_lanes ? 1 : (double)int_cdiv(lanes, LANES);
	double cut_rows = rows % f->rows && !f->same_rows && rows > 1 ? 1 : 0,
	       cut_lanes = lanes % LANES && !f->same_lanes && lanes > 1 ? 1 : 0;
	double part = 1 - (1 - cut_rows / high) * (1 - cut_lanes / wide);
	count_operations(e, RO_SELECT, registers * part);
	count_operations(e, RO_MASK, registers * part);
}

static void reduce(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	RegisterForm from = expand_traced(e, s, 0)->form, *out = result_form(e, s);
	uint8_t tall = native_rows(from.bits);
	double in = taken_as(e, x, &from, tall), left = in;
	bool one_tile = rows_dim(x->rank, x->shape) == 1 && last_dim(x->rank, x->shape) <= LANES;
	if (from.rows < tall && rows_dim(x->rank, x->shape) == 1 && from.bits == WORD && !one_tile) {
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
static void product(Expander *e, const KStmt *s) {
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
static void fold(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 1), *total = expand_tile(e, s, 0);
	if (!x || !total)
		return;
	const RegisterForm *f = &expand_traced(e, s, 1)->form, *to = &expand_traced(e, s, 0)->form;
	RegisterForm part = *f;
	part.splat = false;
	double n = form_registers(&part, total->rank, total->shape);
	double parts = (double)int_cdiv(last_dim(x->rank, x->shape), LANES);
	bool first = to->splat && isinf(to->number) && s->op != K_FOLD_SUM;
	count_operations(e, dtype_is_float(x->dtype) ? RO_FLOAT : RO_INT, n * (first ? parts - 1 : parts));
	if (f->bits < WORD && f->rows == SUBLANES) /* every other part stands beside another */
		count_operations(e, RO_ROTATE, n * 2 * (double)(int64_t)(parts / 2));
	*result_form(e, s) = part;
}

/* The places along an axis: those of one register, and how far others are. */
static RegisterForm places(Expander *e, const KValue *v, uint32_t axis) {
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

static void iota(Expander *e, const KStmt *s) { *result_form(e, s) = places(e, result_of(e, s), (uint32_t)s->ints[0]); }

/* An index along the axis, compared with one number or two, selects. */
static void mask(Expander *e, const KStmt *s) {
	bool within = s->op == K_WITHIN;
	const KValue *x = expand_tile(e, s, within ? 1 : 0);
	if (!x)
		return;
	RegisterForm *out = result_form(e, s), at = places(e, x, (uint32_t)s->ints[0]);
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

/* ---- elsewhere -------------------------------------------------------------------------------------------------- */

static bool swaps_lanes(const KStmt *s, uint32_t rank) {
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
	                 outer_size(x->rank, x->shape) * (double)int_cdiv(rows_dim(x->rank, x->shape), LANES) *
	                         (double)int_cdiv(last_dim(x->rank, x->shape), LANES));
	*out = (RegisterForm){
		.bits = from.bits, .rows = tall, .same_rows = from.same_lanes, .same_lanes = from.same_rows};
}

static void transpose(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	*result_form(e, s) = expand_traced(e, s, 0)->form;
	if (swaps_lanes(s, x->rank))
		transpose_lanes(e, s, x);
}

/* A column along 128 lanes, turned, of which one row is taken. */
static void to_row(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	const RegisterForm *from = &expand_traced(e, s, 0)->form;
	RegisterForm *out = result_form(e, s);
	uint8_t tall = native_rows(from->bits);
	double n = taken_as(e, x, from, tall);
	bool spreads = !from->same_lanes && last_dim(x->rank, x->shape) == 1;
	if (spreads && !computed_before(e, expand_traced(e, s, 0)->id + SPREAD + 2))
		count_operations(e, RO_PERMUTE, n);
	count_operations(e, RO_TRANSPOSE,
	                 outer_size(x->rank, x->shape) * (double)int_cdiv(rows_dim(x->rank, x->shape), LANES));
	*out = (RegisterForm){.bits = from->bits, .rows = tall};
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

static void to_column(Expander *e, const KStmt *s) {
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
static void rename_registers(Expander *e, const KStmt *s) {
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
	if (s->op == K_BITCAST && usual_form(to->dtype).bits != v->form.bits)
		*out = usual_form(to->dtype);
	bool apart = rows_dim(x->rank, x->shape) > 1 && rows_dim(to->rank, to->shape) == 1 && to->rank > x->rank;
	if (apart && out->rows == SUBLANES && out->bits == WORD && !out->same_rows && s->op != K_BROADCAST &&
	    !v->form.implied)
		count_operations(e, RO_PERMUTE, 13 * value_as(x, &v->form)); /* each row a register of its own */
	if (apart && out->rows == 1 && last_dim(x->rank, x->shape) <= LANES)
		out->same_rows = true; /* it was loaded into all of them */
	if (s->op != K_BROADCAST && s->op != K_TILE)
		return;
	spread(e, x, &v->form, v, to->rank, to->shape, out->rows);
	out->same_lanes = out->same_lanes || (last_dim(x->rank, x->shape) == 1 && last_dim(to->rank, to->shape) > 1);
	out->same_rows = out->same_rows || (rows_dim(x->rank, x->shape) == 1 && rows_dim(to->rank, to->shape) > 1);
}

/* By a number that is not known: each register within itself, then whole ones by one bit of it after the other. */
static void rotate(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	if (!x)
		return;
	RegisterForm *out = result_form(e, s);
	bool lanes = s->ints[0] + 1 == x->rank;
	int64_t size =
		lanes ? int_cdiv(last_dim(x->rank, x->shape), LANES) : int_cdiv(rows_dim(x->rank, x->shape), SUBLANES);
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
static void join(Expander *e, const KStmt *s) {
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

/* By a number that is known: whole registers for nothing; else each is made of two. */
static void roll(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0);
	rename_registers(e, s);
	if (!x || s->int_count < 2)
		return;
	bool lanes = s->ints[1] + 1 == x->rank, sublanes = s->ints[1] + 2 == x->rank;
	RegisterForm *f = result_form(e, s);
	f->same_lanes = f->same_rows = false;
	double n = value_as(x, f), along = lanes ? (double)int_cdiv(last_dim(x->rank, x->shape), LANES) : 1;
	if ((!lanes && !sublanes) || s->ints[0] % (lanes ? LANES : f->rows) == 0)
		return;
	count_operations(e, RO_ROTATE, lanes ? n + n / along : 3 * n);
	count_operations(e, RO_SELECT, n);
	count_operations(e, RO_MASK, lanes ? n / along + (along > 1) : n);
}

static void constant(Expander *e, const KStmt *s) {
	RegisterForm *out = result_form(e, s);
	double number = s->op == K_ONES ? 1 : 0;
	bool known = s->op != K_FULL || argument_number(e, s, 0, &number);
	*out = usual_form(result_of(e, s)->dtype);
	out->splat = known;
	out->same_rows = out->same_lanes = true;
	out->number = number;
}

void expand_statement(Expander *e, StmtId stmt) {
	const KStmt *s = &e->k->stmts.at[stmt];
	if (s->result != NONE && s->op != K_LOAD)
		*result_form(e, s) = usual_form(result_of(e, s)->dtype);
	double number;
	if (s->op == K_SCALAR && argument_number(e, s, 0, &number)) {
		result_form(e, s)->splat = true;
		result_form(e, s)->number = number;
		return;
	}
	if (s->op == K_INDEX && expand_tile(e, s, 0) && !is_tile(result_of(e, s))) {
		count_operations(e, RO_ROTATE, 2); /* to the first place, from which a number is taken */
		return;
	}
	bool reduces_all = s->op == K_SUM || s->op == K_MAX || s->op == K_MIN || s->op == K_MEAN;
	if (s->op != K_STORE && !reduces_all && (s->result == NONE || !is_tile(result_of(e, s))))
		return;
	switch (s->op) {
	case K_ZEROS:
	case K_ONES:
	case K_FULL: constant(e, s); break;
	case K_IOTA: iota(e, s); break;
	case K_LET:
	case K_BITCAST:
	case K_BROADCAST:
	case K_EXPAND_DIMS:
	case K_TILE:
	case K_REVERSE:
	case K_RESHAPE:
	case K_INDEX:
	case K_SLICE_IN_DIM: rename_registers(e, s); break;
	case K_CONVERT: convert(e, s); break;
	case K_MASK:
	case K_KEEP:
	case K_WITHIN: mask(e, s); break;
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN: reduce(e, s); break;
	case K_PROD: product(e, s); break;
	case K_FOLD_SUM:
	case K_FOLD_MAX:
	case K_FOLD_MIN: fold(e, s); break;
	case K_TRANSPOSE:
	case K_SWAPAXES: transpose(e, s); break;
	case K_CONCATENATE: join(e, s); break;
	case K_ROLL: roll(e, s); break;
	case K_ROTATE: rotate(e, s); break;
	case K_TO_ROW: to_row(e, s); break;
	case K_TO_COLUMN: to_column(e, s); break;
	case K_DOT: expand_dot(e, s); break;
	case K_LOAD: expand_load(e, s); break;
	case K_STORE: expand_store(e, s); break;
	default:
		if (s->op < OP_COUNT || rows[s->op].told)
			pointwise(e, s);
		else
			rename_registers(e, s);
		break;
	}
}

double expanded_registers(const Expander *e, const KStmt *s, const Operations *ops) {
	return ops->any && s->result != NONE && is_tile(result_of(e, s)) ? value_as(result_of(e, s), result_form(e, s))
	                                                                 : 0;
}
