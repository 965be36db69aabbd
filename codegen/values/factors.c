/* factors.c - in what a matmul takes its factors of float8_e4m3fn. The MXU of some chips (narrow_nan) takes them as
 * float8_e4m3b11fnuz times 16: the same but for -0.0, which the compiler cares for, and NaN, which counts as 480. There
 * a tile in which NaN can be looked for word by word is taken as it is, and NaN are added to the product; so is one
 * that the graph converts to bfloat16 first, where looking for NaN takes less. Any other is converted. */
#include "values.h"
#include "codegen/lower/lower.h"

/* Operations of the vector unit by register of a tile: of four of 32 bits, elements of 8 fill one. */
enum { CONVERTED = 4 * 7, LOOKED_AT = 3, ADDED = 4 };

/* Words hold elements of four rows; rows and columns of them are whole registers. */
static bool is_whole_words(const Planner *p, NodeId x) {
	const Type *t = node_type(p->m, x);
	return t->count == 2 && expr_number(p->m, t->dims[0]) % 32 == 0 && expr_number(p->m, t->dims[1]) % 128 == 0;
}

static bool is_e4m3(const Planner *p, NodeId x) { return node_type(p->m, x)->dtype == DTYPE_F8E4M3; }

static int64_t elements(const Planner *p, NodeId x) {
	const Type *t = node_type(p->m, x);
	return expr_number(p->m, t->dims[0]) * expr_number(p->m, t->dims[1]);
}

/* What x, which only the matmul reads, converts to bfloat16, if the product of that is to be made instead. */
static NodeId unconverted(const Planner *p, NodeId n, NodeId x) {
	const Node *node = node_get(p->m, x);
	if (node->op != OP_CONVERT || node_type(p->m, x)->dtype != DTYPE_BF16 || node_use_count(p->m, x) != 1 ||
	    node->graph != node_get(p->m, n)->graph)
		return NONE;
	NodeId from = node_input(p->m, x, 0);
	bool pays = is_e4m3(p, from) && is_whole_words(p, from) &&
	            elements(p, from) * (CONVERTED - LOOKED_AT) > elements(p, n) * ADDED;
	return pays ? from : NONE;
}

static void plan_factor(Planner *p, NodeId n, int which) {
	NodeId x = value_root(p->plan, matmul_operand(p->m, n, which));
	Value *v = value_of(p, n);
	const char *name = node_get(p->m, n)->name, *side = which ? "right" : "left";
	bool plain = !v->transpose_a && !v->transpose_b;
	NodeId from = plain && node_type(p->m, n)->count == 2 ? unconverted(p, n, x) : NONE;
	if (from != NONE)
		value_of(p, x)->same_as = from;
	else if (!is_e4m3(p, x))
		return;
	v->factor[which] = plain && is_whole_words(p, from != NONE ? from : x) ? FACTOR_NAN : FACTOR_WIDE;
	plan_remark(p->plan, "%s: the %s factor of float8_e4m3fn %s: the matrix unit of %s takes NaN for 480", name,
	            side,
	            v->factor[which] == FACTOR_NAN ? "goes there as it is, and its NaN are added to the product"
	                                           : "is converted to bfloat16",
	            p->m->target->name);
}

static void factors_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_LOOP)
			factors_in(p, loop_body(p->m, n));
		for (int i = 0; how == LOWER_MATMUL && i < 2; i++)
			plan_factor(p, n, i);
	}
}

void plan_factors(Planner *p) {
	if (p->m->target->narrow_matmuls && !p->m->target->narrow_nan)
		factors_in(p, p->plan->root);
}
