/* shapes_dtype.c - the dtype of a result, by the dtype rule of its op's row: torch's promotion, where int32
 * stands for the int64 of sums and Python's ints too (`meta` may say either: type_admits()); and what the operands'
 * dtypes may be, where not everything goes. */
#include "infer.h"

/* torch promotes in three classes: tensors with dims, 0-d tensors, and Python numbers. A lower class only matters where
 * its category (bool, int, float) is above the higher one's. */
typedef struct Promotion {
	Dtype with_dims, zero_dim, number;
	uint32_t skip; /* parameters before this one do not take part: where's condition */
} Promotion;

static bool promotion_add(const Infer *in, void *context, uint32_t param, const Operand *operand) {
	(void)in;
	Promotion *p = context;
	if (param < p->skip)
		return true;
	Dtype *in_class = operand->weak ? &p->number : operand->shape.rank == 0 ? &p->zero_dim : &p->with_dims;
	*in_class = dtype_promote(*in_class, operand->dtype);
	return true;
}

static Dtype promotion_combine(Dtype higher, Dtype lower) {
	if (higher == DTYPE_NONE || lower == DTYPE_NONE)
		return higher == DTYPE_NONE ? lower : higher;
	if (dtype_is_float(higher))
		return higher;
	return higher == DTYPE_BOOL || dtype_is_float(lower) ? dtype_promote(higher, lower) : higher;
}

/* DTYPE_NONE without operands. */
static bool infer_promoted(const Infer *in, uint32_t skip, Dtype *dtype) {
	Promotion p = {DTYPE_NONE, DTYPE_NONE, DTYPE_NONE, skip};
	if (!infer_each_operand(in, promotion_add, &p))
		return false;
	*dtype = promotion_combine(p.with_dims, promotion_combine(p.zero_dim, p.number));
	return true;
}

static bool infer_promoted_float(const Infer *in, Dtype *dtype) {
	if (!infer_promoted(in, 0, dtype))
		return false;
	if (!dtype_is_float(*dtype))
		*dtype = DTYPE_F32;
	return true;
}

static bool infer_first_dtype(const Infer *in, Dtype *dtype) {
	const Arg *first = node_arg(in->m, in->n, 0);
	Operand operand;
	if (!infer_operand(in, first->kind == ARG_LIST ? arg_item(in->m, first, 0) : first, &operand))
		return false;
	*dtype = infer_flag(in, "half_to_float") ? DTYPE_F32 : operand.dtype;
	return true;
}

/* Integer sums are int64 in torch: `meta` says whether they are here. */
static bool infer_sum_dtype(const Infer *in, Dtype *dtype) {
	if (!infer_first_dtype(in, dtype))
		return false;
	if (!dtype_is_float(*dtype))
		*dtype = DTYPE_I32;
	return true;
}

/* Without its dtype argument a new tensor takes that of its fill value; without one, and in scalar_tensor, torch's
 * default. */
static bool infer_filled_dtype(const Infer *in, Dtype *dtype) {
	if (!infer_promoted(in, 0, dtype))
		return false;
	if (*dtype == DTYPE_NONE || node_get(in->m, in->n)->op == OP_SCALAR_TENSOR)
		*dtype = DTYPE_F32;
	return true;
}

/* any() and all() of uint8, which stood for bool in old torch, are uint8. */
static bool infer_test_dtype(const Infer *in, Dtype *dtype) {
	*dtype = DTYPE_BOOL;
	if (op_kind(in->m, in->n) != KIND_REDUCTION)
		return true;
	if (!infer_first_dtype(in, dtype))
		return false;
	if (*dtype != DTYPE_U8)
		*dtype = DTYPE_BOOL;
	return true;
}

static bool infer_ruled_dtype(const Infer *in, DtypeRule rule, Dtype *dtype) {
	switch (rule) {
	case RULE_SAME: return infer_first_dtype(in, dtype);
	case RULE_PROMOTE: return infer_promoted(in, 0, dtype);
	case RULE_PROMOTE_REST: return infer_promoted(in, 1, dtype);
	case RULE_PROMOTE_FLOAT: return infer_promoted_float(in, dtype);
	case RULE_DIV_MODE:
		return op_arg(in->m, in->n, "rounding_mode")->kind == ARG_NULL ? infer_promoted_float(in, dtype)
		                                                               : infer_promoted(in, 0, dtype);
	case RULE_SUM: return infer_sum_dtype(in, dtype);
	case RULE_ARG: return infer_filled_dtype(in, dtype);
	case RULE_BOOL: return infer_test_dtype(in, dtype);
	case RULE_INT32: *dtype = DTYPE_I32; return true;
	case RULE_NONE: break;
	}
	*dtype = DTYPE_F32; /* tile.rand */
	return true;
}

bool infer_dtype(const Infer *in, Dtype *dtype) {
	static const char *const names[] = {"dtype", "out_dtype"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const Arg *given = op_arg(in->m, in->n, names[i]);
		if (given->kind == ARG_DTYPE) {
			*dtype = given->dtype;
			return true;
		}
	}
	if (!infer_ruled_dtype(in, op_row(node_get(in->m, in->n)->op)->dtype, dtype))
		return false;
	return *dtype != DTYPE_NONE || infer_error(in, "bad-argument", NULL, "it has no operand");
}

/* ---- categories -------------------------------------------------------------------------------------------------- */

static const char *const category_names[] = {"", "bool", "ints or bools", "numbers other than bools", "floats"};

static bool category_holds(Takes category, Dtype dtype) {
	switch (category) {
	case TAKES_BOOLS: return dtype == DTYPE_BOOL;
	case TAKES_INTS: return !dtype_is_float(dtype);
	case TAKES_NUMBERS: return dtype != DTYPE_BOOL;
	case TAKES_FLOATS: return dtype_is_float(dtype);
	case TAKES_ALL: break;
	}
	return true;
}

static bool check_category(const Infer *in, void *context, uint32_t param, const Operand *operand) {
	(void)context;
	uint16_t op = node_get(in->m, in->n)->op;
	bool converted = op_canonical(op) == OP_MEAN && op_arg(in->m, in->n, "dtype")->kind == ARG_DTYPE;
	Takes wanted = converted ? TAKES_ALL : op_takes(op, param);
	return category_holds(wanted, operand->dtype) ||
	       infer_error(in, "dtype-mismatch", "convert it with prims.convert_element_type.default",
	                   "argument %u is %s, it takes %s", param, dtype_name(operand->dtype), category_names[wanted]);
}

bool infer_check_categories(const Infer *in) {
	uint16_t op = node_get(in->m, in->n)->op;
	bool computes = op_row(op)->kind == KIND_POINTWISE || op_row(op)->kind == KIND_REDUCTION;
	for (uint32_t param = 0; computes && param < 2; param++) /* most take anything: operands are not read twice */
		if (op_takes(op, param) != TAKES_ALL)
			return infer_each_operand(in, check_category, NULL);
	return true;
}
