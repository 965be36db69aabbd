/* fits.c - does an argument fit its parameter? A reference is judged by the type of its node; one whose type is still
 * to be inferred fits whatever takes a value. */
#include "ir.h"

bool node_is_untyped(const Module *m, NodeId n) {
	ShapeRule rule = op_row(node_get(m, n)->op)->shape;
	const Type *t = node_type(m, n);
	if (node_get(m, n)->op == OP_SYMNODE && t->kind == TYPE_SYM) /* its argument says what it is */
		return t->sym == NONE;
	return t->kind == TYPE_NONE && rule != SHAPE_NONE && rule != SHAPE_STORE && rule != SHAPE_REMOTE;
}

static bool fits_int(const Module *m, const Arg *a) {
	if (a->kind == ARG_INT || a->kind == ARG_SYM)
		return true;
	if (a->kind != ARG_REF)
		return false;
	const Type *t = node_type(m, a->node);
	if (t->kind == TYPE_SYM)
		return t->dtype != DTYPE_BOOL;
	return t->kind == TYPE_TENSOR && t->count == 0 && !dtype_is_float(t->dtype) && t->dtype != DTYPE_BOOL;
}

static bool fits_value(const Module *m, const Arg *a) {
	if (a->kind == ARG_REF)
		return node_type(m, a->node)->kind == TYPE_TENSOR || node_type(m, a->node)->kind == TYPE_SYM;
	return a->kind == ARG_INT || a->kind == ARG_FLOAT || a->kind == ARG_BOOL || a->kind == ARG_SYM;
}

static bool is_untyped(const Module *m, const Arg *a) { return a->kind == ARG_REF && node_is_untyped(m, a->node); }

/* A slice's start, stop and step are ints or absent. */
static bool fits_slice(const Module *m, const Arg *a) {
	for (uint32_t i = 0; i < a->list.count; i++) {
		const Arg *bound = arg_item(m, a, i);
		if (bound->kind != ARG_NULL && !is_untyped(m, bound) && !fits_int(m, bound))
			return false;
	}
	return true;
}

static bool fits_index(const Module *m, const Arg *a) {
	if (a->kind == ARG_REF)
		return node_type(m, a->node)->kind == TYPE_TENSOR || node_type(m, a->node)->kind == TYPE_SYM;
	if (a->kind == ARG_SLICE)
		return fits_slice(m, a);
	return a->kind == ARG_NULL || a->kind == ARG_INT || a->kind == ARG_SYM;
}

static bool fits_block(const Module *m, uint16_t op, const Arg *a) {
	if (a->kind == ARG_BLOCK || (a->kind == ARG_SYM && op == OP_SYMNODE))
		return true;
	return a->kind == ARG_REF && node_type(m, a->node)->kind == TYPE_SYM &&
	       expr_as_block(m, node_type(m, a->node)->sym) != NONE;
}

bool arg_fits(const Module *m, uint16_t op, char letter, const Arg *a) {
	if (is_untyped(m, a))
		return strchr("xtiIXNSV", letter) != NULL;
	switch (letter) {
	case 'x': return fits_value(m, a);
	case 't': return a->kind == ARG_REF && node_type(m, a->node)->kind == TYPE_TENSOR;
	case 'i': return fits_int(m, a);
	case 'n': return a->kind == ARG_INT || a->kind == ARG_FLOAT || a->kind == ARG_BOOL;
	case 'b': return a->kind == ARG_BOOL;
	case 'd': return a->kind == ARG_DTYPE;
	case 's': return a->kind == ARG_STRING;
	case 'S': return fits_block(m, op, a);
	default: return true;
	}
}

bool arg_item_fits(const Module *m, char letter, const Arg *a) {
	return is_untyped(m, a) || (letter == 'I'   ? fits_int(m, a)
	                            : letter == 'N' ? fits_index(m, a)
	                                            : a->kind == ARG_NULL || fits_value(m, a));
}
