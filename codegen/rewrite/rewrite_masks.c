/* rewrite_masks.c - a loop whose ragged last step is to run after it needs its masks in that step alone: they hold
 * under a flag of the step, and how many lanes they leave is a number there.
 *
 *     v = mask %1, (421 - j * 128), 0        %2 = mask %1, 37, 0
 *                                            v = choose ragged, %2, %1 */
#include "rewrite.h"

static ValueId flag_of(Kernel *k, KLoop *loop) {
	if (loop->ragged == NONE)
		loop->ragged = kernel_value(k, KTYPE_FLAG, DTYPE_BOOL, 0, NULL, "ragged");
	return loop->ragged;
}

/* The one statement that converts what s gives back to what it was; s if there is none. */
static StmtId converted_back(const Kernel *k, StmtId s) {
	StmtId next = kernel_stmt(k, s)->next;
	ValueId v = kernel_stmt(k, s)->result;
	while (!k->values.at[v].name && !k->values.at[v].var && next != NONE && kernel_stmt(k, next)->op == K_CONVERT &&
	       kernel_arg(k, next, 0)->kind == KARG_VALUE && kernel_arg(k, next, 0)->value == v) {
		s = next;
		v = kernel_stmt(k, s)->result;
		next = kernel_stmt(k, s)->next;
	}
	return s;
}

/* What was masked, before it was converted for that. */
static KArg unmasked(const Kernel *k, StmtId mask, Dtype dtype) {
	KArg x = *kernel_arg(k, mask, 0);
	while (x.kind == KARG_VALUE && k->values.at[x.value].dtype != dtype)
		x = *kernel_arg(k, k->values.at[x.value].def, 0);
	return x;
}

/* The value has the lanes filled if the flag is set, and else is what it was. */
static void choose_masked(Kernel *k, StmtId mask, ValueId flag) {
	StmtId end = converted_back(k, mask);
	KStmt *stmt = kernel_stmt(k, end);
	KValue value = k->values.at[stmt->result];
	ValueId old = stmt->result, filled = kernel_value(k, value.type, value.dtype, value.rank, value.shape, NULL);
	k->values.at[filled].def = end;
	k->values.at[filled].layout = value.layout;
	const KArg args[3] = {karg_value(flag), karg_value(filled), unmasked(k, mask, value.dtype)};
	StmtId choose = stmt->next == NONE ? kernel_append(k, stmt->region, K_CHOOSE, 3, args, 0, NULL)
	                                   : kernel_insert_before(k, stmt->next, K_CHOOSE, 3, args, 0, NULL);
	stmt = kernel_stmt(k, end); /* statements may have moved */
	stmt->result = filled;
	KStmt *made = kernel_stmt(k, choose);
	made->result = old;
	made->result_count = 1;
	made->from = stmt->from;
	made->also = stmt->also;
	made->flags = stmt->flags;
	k->values.at[old].def = choose;
}

/* What the count is in that step. */
static bool count_is(Kernel *k, IntId count, const KLoopDim *d, int64_t step, int64_t wanted) {
	int64_t found;
	return int_is_const(k, int_substitute(k, count, d->step, int_const(k, step)), &found) && found == wanted;
}

/* It leaves the valid lanes of each step's tile: `tail` in the last one, all before. Choices by position may not. */
static bool leaves_valid(Kernel *k, StmtId s, IntId count, const KLoopDim *d) {
	int64_t axis = kernel_stmt(k, s)->ints[0];
	const KValue *v = &k->values.at[kernel_arg(k, s, 0)->value];
	return int_reads(k, count, d->step) && v->shape[axis] == d->size &&
	       count_is(k, count, d, d->full_steps, d->tail) &&
	       (d->full_steps == 0 || count_is(k, count, d, d->full_steps - 1, d->tail + d->size));
}

static void mask_last(Kernel *k, StmtId s, void *data) {
	KLoop *loop = data;
	uint16_t op = kernel_stmt(k, s)->op;
	KArg *count = (op == K_MASK || op == K_KEEP) ? kernel_arg(k, s, 1) : NULL;
	if (!count || count->kind != KARG_INT || !leaves_valid(k, s, count->index, &loop->dim[0]))
		return;
	ValueId flag = flag_of(k, loop);
	IntId tail = int_const(k, loop->dim[0].tail);
	if (op == K_KEEP) {
		*count = karg_int(int_choose(k, int_value(k, flag), tail, int_const(k, loop->dim[0].size)));
		return;
	}
	*count = karg_integer(loop->dim[0].tail);
	choose_masked(k, s, flag);
}

static void masks(Kernel *k, StmtId s) {
	if (kernel_stmt(k, s)->loop->peel)
		kernel_walk(k, kernel_stmt(k, s)->body, mask_last, kernel_stmt(k, s)->loop);
}

void rewrite_masks(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t i = 0; i < loops.count; i++)
		masks(k, loops.at[i]);
}
