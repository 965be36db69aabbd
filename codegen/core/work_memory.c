/* work_memory.c - what matmuls, and loads and stores, take. */
#include "work.h"

/* ---- matmuls ---------------------------------------------------------------------------------------------------- */

/* The left factor's rows go through the matrix units, into which blocks of the right one are pushed, once for each
 * block of columns; each block of the contracted dim gives a sum of its own. */
void work_of_dot(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = work_tile(c, s, 0), *y = work_tile(c, s, 1);
	const KValue *z = &c->k->values.at[s->result];
	if (!x || !y)
		return;
	uint32_t first = x->rank == 3 ? 1 : 0;
	int64_t a = s->ints[0], b = s->ints[1], size = c->t->mxu_size;
	double batch = first ? (double)x->shape[0] : 1, bits = dtype_vmem_bits(x->dtype);
	double left = work_registers(c, s, 0), right = work_registers(c, s, 1);
	if (bits < 16 && !dtype_is_float(x->dtype) && !c->u->multiplies_ints) { /* as bfloat16 */
		work_moved(w, MOVED_INTS_WIDENED, left + right);
		bits = 16;
	} else if (bits < 16 && dtype_is_float(x->dtype) && !c->t->bf16_vpu) { /* as bfloat16 */
		work_moved(w, MOVED_FLOATS_WIDENED, left + right);
		bits = 16;
	} else if (bits < 16 && dtype_is_float(x->dtype) && !c->t->narrow_nan) { /* in the unit's own float8 */
		work_moved(w, MOVED_FLOATS_RECODED, left + right);
		if (s->int_count > 3)
			work_moved(w, MOVED_NAN_LOOKED_FOR, left + right);
	}
	double m = (double)x->shape[2 * first + 1 - a], k = (double)x->shape[a];
	double k_blocks = (double)int_cdiv(x->shape[a], size), n = (double)y->shape[2 * first + 1 - b];
	double n_blocks = (double)int_cdiv(y->shape[2 * first + 1 - b], size);
	double rows = bits == 32 ? 8 : bits == 16 ? 16 : 32;
	double groups = batch * (double)int_cdiv((int64_t)m, (int64_t)rows) * k_blocks * n_blocks;
	bool highest = s->int_count > 2 && s->ints[2] && bits == 32;
	double passes = highest ? 6 : 1, out = array_registers(c->t, DTYPE_F32, z->rank, z->shape);
	w->of[UNIT_MXU] += passes * groups * c->u->matmul_cycles * (bits == 32 ? 0.5 : 1) / c->u->matrix_units;
	double weights = batch * (double)int_cdiv((int64_t)k, (int64_t)rows) *
	                 (double)int_cdiv((int64_t)n, c->t->lanes) * (bits == 32 ? 0.5 : 1);
	bool turned = b == 1 + (int64_t)first;
	w->of[UNIT_PUSH] += passes * weights * 2 * (turned ? 2 : 1);
	w->of[UNIT_POP] += passes * (c->u->adds_results ? out * k_blocks : out);
	w->of[UNIT_VALU] += c->u->adds_results ? out * (passes * k_blocks - 1) : 0;
	w->of[UNIT_VALU] += highest ? 10 * out : 0;
	w->of[UNIT_LOAD] += left * (n_blocks - 1);
	if (a == (int64_t)first) { /* its rows stand along lanes */
		work_across(w, left);
	}
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

double int_operations(const Kernel *k, IntId i) {
	const KInt *x = &k->ints.at[i];
	if (x->kind == INT_CONST || x->kind == INT_VALUE)
		return 0;
	double ops = x->kind == INT_DIV || x->kind == INT_REM || x->kind == INT_CDIV ? 4 : 1;
	if (x->kind == INT_NEG)
		return ops + int_operations(k, x->a);
	return ops + int_operations(k, x->a) + int_operations(k, x->b) +
	       (x->kind == INT_CHOOSE ? int_operations(k, x->c) : 0);
}

/* To find a part in its buffer. */
static double address_ops(const Core *c, const KRef *r) {
	double ops = 0;
	int64_t number;
	for (uint32_t i = 0; i < r->rank; i++)
		if (r->dim[i].kind != KDIM_ALL && !int_is_const(c->k, r->dim[i].start, &number))
			ops += 2 + int_operations(c->k, r->dim[i].start);
	return ops;
}

/* Rows of a tile are told one by one: the dim along sublanes has one position, and there are others before it. */
static double single_rows(const Core *c, const KRef *r, uint32_t rank, const int64_t *shape) {
	const KBuffer *b = &c->k->buffers.at[r->buffer];
	bool at = b->rank > 2 && r->rank >= b->rank - 1 && r->dim[b->rank - 2].kind == KDIM_AT;
	double rows = 1;
	for (uint32_t i = 0; i + 1 < rank; i++)
		rows *= (double)shape[i];
	return at && rank > 1 && rows > 1 ? rows * (double)int_cdiv(shape[rank - 1], c->t->lanes) : 0;
}

void work_of_access(const Core *c, const KStmt *s, const Operations *ops, Work *w) {
	const KArg *a = &c->k->args.at[s->arg_first];
	if (a->kind != KARG_REF)
		return;
	int64_t shape[KDIM_MAX];
	const KRef *r = &c->k->refs.at[a->ref];
	const KBuffer *b = &c->k->buffers.at[r->buffer];
	uint32_t rank = kernel_ref_shape(c->k, a->ref, shape);
	w->of[UNIT_SCALAR] += address_ops(c, r);
	if (b->space != KSPACE_VMEM) {
		w->of[UNIT_SCALAR] += 1;
		return;
	}
	bool packed = dtype_vmem_bits(b->dtype) < 32, stores = s->op == K_STORE;
	double n = ops->of[stores ? RO_STORE : RO_LOAD], rows = single_rows(c, r, rank, shape);
	double whole = array_registers(c->t, b->dtype, rank, shape);
	n = packed && whole < n ? whole : n; /* of low tiles below each other two are moved at once */
	if (rows > 0 && packed && stores) {
		work_moved(w, c->t->bf16_vpu ? MOVED_WORD_STORED : MOVED_WORD_STORED_WIDE, rows);
		return;
	}
	n = rows > 0 ? rows : n;
	w->of[UNIT_VALU] += rows > 0 && !stores ? (packed ? 4 : 1) * rows : 0; /* each into its place */
	w->of[stores ? UNIT_STORE : UNIT_LOAD] += n;
	w->of[UNIT_VALU] += ops->of[RO_INT] + ops->of[RO_COMPARE]; /* masks of what is stored in part */
	work_moved(w, MOVED_ROW_PUT, ops->of[RO_PERMUTE]);
	bool column = rank > 1 && shape[rank - 1] == 1 && shape[rank - 2] > 1;
	work_across(w, column && !stores ? n : 0); /* it is spread over its lanes */
	work_across(w, c->beside ? n * c->beside[r->buffer] : 0);
}
