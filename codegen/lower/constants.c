/* constants.c - constants as Python numbers.
 *
 * A 0-d constant beside a tile is printed as a number, which takes the tile's dtype; so it must be the number that its
 * own dtype makes of it: an int wraps around, and a narrow float that would have to be rounded is no plain number. */
#include "lower.h"

/* ---- the value -------------------------------------------------------------------------------------------------- */

static int64_t wrapped(int64_t value, Dtype ints) {
	int64_t span = INT64_C(1) << dtype_bits(ints), low = dtype_class(ints) == DTYPE_CLASS_SIGNED ? -(span / 2) : 0;
	return ((value - low) % span + span) % span + low;
}

static bool is_int_range(double x) { return x > -1e18 && x < 1e18; }

Arg constant_as(const Arg *a, Dtype dtype) {
	double real = a->kind == ARG_FLOAT ? a->real : a->kind == ARG_BOOL ? a->boolean : (double)a->integer;
	if (a->kind != ARG_FLOAT && a->kind != ARG_INT && a->kind != ARG_BOOL)
		return *a;
	if (dtype_is_float(dtype))
		return arg_float(real);
	if (dtype == DTYPE_BOOL)
		return arg_bool(real != 0);
	if (a->kind == ARG_FLOAT && !is_int_range(real))
		return *a;
	return arg_int(wrapped(a->kind == ARG_INT ? a->integer : (int64_t)real, dtype));
}

Arg constant_of(const Module *m, NodeId n) {
	Arg value = fill_arg(m, n);
	return constant_as(&value, node_type(m, n)->dtype);
}

/* ---- what stands in the text ------------------------------------------------------------------------------------ */

/* Does a narrow float hold it? Asked of sizes that most of them have. */
static bool holds(double x, Dtype dtype) {
	double size = x < 0 ? -x : x;
	if (x == 0)
		return true;
	if (!(size >= 1.0 / 64 && size <= 448 && size <= dtype_largest(dtype)))
		return false;
	while (size < 1)
		size *= 2;
	while (size >= 2)
		size /= 2;
	size *= (double)(1 << (dtype_significant(dtype) - 1));
	return size == (double)(int)size;
}

bool constant_is_number(const Module *m, NodeId n) {
	if (op_lowering(node_get(m, n)->op) != LOWER_FULL || node_type(m, n)->count != 0)
		return false;
	Arg value = constant_of(m, n);
	Dtype dtype = node_type(m, n)->dtype;
	if (value.kind != ARG_FLOAT)
		return value.kind == ARG_INT || value.kind == ARG_BOOL;
	if (!dtype_is_float(dtype))
		return false;
	bool finite = value.real - value.real == 0; /* of 8 bits, not every float has others */
	return dtype_bits(dtype) >= 32 ||           /* jnp makes a float32 of it */
	       (finite ? holds(value.real, dtype) : dtype_bits(dtype) > 8);
}

bool constant_operand(const Module *m, const Arg *a) {
	return a->kind != ARG_REF || node_type(m, a->node)->kind == TYPE_SYM || node_get(m, a->node)->op == OP_SCALAR ||
	       constant_is_number(m, a->node);
}
