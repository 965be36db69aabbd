/* expand.c - how values lie in registers, and which file says what a statement does to them. */
#include "expand.h"

const char *const register_op_names[RO_COUNT + 1] = {"load",      "store",   "matmul",  "float", "function", "int",
                                                     "compare",   "select",  "convert", "pack",  "reduce",   "rotate",
                                                     "transpose", "permute", "mask",    NULL};

/* ---- how values lie --------------------------------------------------------------------------------------------- */

/* Bools, and what has no dtype (copies under way), in words. */
RegisterForm usual_form(Dtype dtype) {
	if (dtype == DTYPE_BOOL || dtype == DTYPE_NONE)
		return native_form(WORD);
	uint32_t bits = (uint32_t)dtype_vmem_bits(dtype);
	return native_form(bits < 4 ? 4 : bits);
}

double outer_size(uint32_t rank, const int64_t *shape) {
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

double value_as(const KValue *v, const RegisterForm *f) { return form_registers(f, v->rank, v->shape); }

void count_operations(Expander *e, RegisterOp op, double times) {
	e->to->of[op] += times;
	e->to->any = e->to->any || times != 0;
}

double words_of(const KValue *v, const RegisterForm *f) {
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

const KValue *expand_tile(const Expander *e, const KStmt *s, uint32_t i) {
	const KArg *a = i < s->arg_count ? &e->k->args.at[s->arg_first + i] : NULL;
	const KValue *v = a && a->kind == KARG_VALUE ? &e->k->values.at[a->value] : NULL;
	return v && is_tile(v) ? v : NULL;
}

Traced *expand_traced(const Expander *e, const KStmt *s, uint32_t i) {
	return &e->values[e->k->args.at[s->arg_first + i].value];
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

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
	if (s->op != K_STORE && s->op != K_LOAD && !reduces_all && (s->result == NONE || !is_tile(result_of(e, s))))
		return;
	switch (s->op) {
	case K_ZEROS:
	case K_ONES:
	case K_FULL: constant(e, s); break;
	case K_IOTA: expand_iota(e, s); break;
	case K_LET:
	case K_BITCAST:
	case K_WORDS:
	case K_BROADCAST:
	case K_EXPAND_DIMS:
	case K_TILE:
	case K_REVERSE:
	case K_RESHAPE:
	case K_INDEX:
	case K_SLICE_IN_DIM: expand_rename(e, s); break;
	case K_CONVERT: expand_convert(e, s); break;
	case K_MASK:
	case K_KEEP:
	case K_WITHIN: expand_mask(e, s); break;
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN: expand_reduce(e, s); break;
	case K_PROD: expand_product(e, s); break;
	case K_FOLD_SUM:
	case K_FOLD_MAX:
	case K_FOLD_MIN: expand_fold(e, s); break;
	case K_FOLD_WHERE: expand_fold_where(e, s); break;
	case K_TRANSPOSE:
	case K_SWAPAXES: expand_transpose(e, s); break;
	case K_CONCATENATE: expand_join(e, s); break;
	case K_SORT: expand_sort(e, s); break;
	case K_EVEN_LANES: expand_even_lanes(e, s); break;
	case K_INTERLEAVE: expand_interleave(e, s); break;
	case K_TAKE_LANES: expand_take_lanes(e, s); break;
	case K_PAD: expand_pad(e, s); break;
	case K_FLIP: expand_flip(e, s); break;
	case K_ROLL: expand_roll(e, s); break;
	case K_ROTATE: expand_rotate(e, s); break;
	case K_TO_ROW: expand_to_row(e, s); break;
	case K_TO_COLUMN: expand_to_column(e, s); break;
	case K_DOT: expand_dot(e, s); break;
	case K_LOAD: expand_load(e, s); break;
	case K_STORE: expand_store(e, s); break;
	default:
		if (s->op < OP_COUNT || is_told(s->op))
			expand_pointwise(e, s);
		else
			expand_rename(e, s);
		break;
	}
}

double expanded_registers(const Expander *e, const KStmt *s, const Operations *ops) {
	return ops->any && s->result != NONE && is_tile(result_of(e, s)) ? value_as(result_of(e, s), result_form(e, s))
	                                                                 : 0;
}
