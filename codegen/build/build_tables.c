/* build_tables.c - a table of 16 bits whose rows are gathered one by one is widened at the grid's first point, and kept
 * in scratch. Mosaic slices no single row of a tile that packs two in each word, so each row would be eight that are
 * loaded, widened and turned until it comes first; of 32 bits a row is sliced as it is.
 *
 *     %1 = load t_ref[div(at, 8) * 8 by 8 +: 8, :]           when (first(0)) tables {
 *     %2 = convert %1 : float32                                %1 = convert (load t_ref[...]) : float32
 *     %3 = rotate %2, (rem(8 - (at - div(at, 8) * 8), 8))  =>     store t_wide[...], %1
 *     row = slice_in_dim %3 start=0 end=1 axis=0             }
 *                                                            row = load t_wide[at +: 1, :] */
#include "builder.h"

typedef struct Tables {
	Kernel *k;
	uint32_t *uses; /* by value */
	bool *other;    /* by buffer: something else reads or writes it */
	uint32_t *rows; /* by buffer: loads of single rows */
	BufferId *wide; /* by buffer */
	uint32_t count; /* of those buffers */
	bool changes;   /* there are such rows */
} Tables;

static Dtype wide_dtype(Dtype dtype) {
	return dtype == DTYPE_BF16 ? DTYPE_F32 : dtype == DTYPE_I16 ? DTYPE_I32 : DTYPE_NONE;
}

static StmtId only_user(const Tables *t, StmtId s, uint16_t op) {
	StmtId next = kernel_stmt(t->k, s)->next;
	bool reads = next != NONE && kernel_stmt(t->k, next)->op == op && kernel_stmt(t->k, s)->result_count == 1 &&
	             t->uses[kernel_stmt(t->k, s)->result] == 1;
	const KArg *a = reads ? kernel_arg(t->k, next, 0) : NULL;
	return a && a->kind == KARG_VALUE && a->value == kernel_stmt(t->k, s)->result ? next : NONE;
}

/* The row of `div(row, size) * size`; NONE: it is something else. */
static IntId row_of(const Kernel *k, IntId start, int64_t size) {
	const KInt *times = &k->ints.at[start];
	int64_t by, in;
	if (times->kind != INT_MUL || !int_is_const(k, times->b, &by) || by != size)
		return NONE;
	const KInt *tile = &k->ints.at[times->a];
	return tile->kind == INT_DIV && int_is_const(k, tile->b, &in) && in == size ? tile->a : NONE;
}

/* The slice that a row is, loaded by `load` with those around it; *row where it lies. NONE: it is no such load. */
static StmtId slice_of(const Tables *t, StmtId load, IntId *row) {
	const Kernel *k = t->k;
	const KRef *ref = &k->refs.at[kernel_arg(k, load, 0)->ref];
	uint32_t rank = k->buffers.at[ref->buffer].rank;
	if (rank < 2 || ref->rank + 1 < rank || ref->dim[rank - 2].kind != KDIM_RANGE)
		return NONE;
	const KDim *rows = &ref->dim[rank - 2];
	for (uint32_t d = 0; d < ref->rank; d++)
		if (d != rank - 2 && ref->dim[d].kind != KDIM_ALL)
			return NONE;
	StmtId wide = only_user(t, load, K_CONVERT), turned = wide == NONE ? NONE : only_user(t, wide, K_ROTATE);
	StmtId slice = turned == NONE ? NONE : only_user(t, turned, K_SLICE_IN_DIM);
	*row = row_of(k, rows->start, rows->size);
	bool fits = slice != NONE && *row != NONE &&
	            k->values.at[kernel_stmt(k, wide)->result].dtype == wide_dtype(k->buffers.at[ref->buffer].dtype);
	const int64_t *cut = fits ? kernel_stmt(k, slice)->ints : NULL;
	return fits && cut[0] == 0 && cut[1] == 1 && cut[2] == rank - 2 ? slice : NONE;
}

static bool is_table(const Kernel *k, BufferId b) {
	const KBuffer *x = &k->buffers.at[b];
	bool still = x->role == BUFFER_IN && x->space == KSPACE_VMEM && wide_dtype(x->dtype) != DTYPE_NONE && !x->ahead;
	int64_t at;
	for (uint32_t d = 0; still && x->index && d < x->rank; d++)
		still = int_is_const(k, x->index[d], &at);
	return still;
}

static void look_at(Kernel *k, StmtId s, void *data) {
	Tables *t = data;
	IntId row;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		const KArg *a = kernel_arg(k, s, i);
		if (a->kind != KARG_REF)
			continue;
		BufferId b = k->refs.at[a->ref].buffer;
		bool rows = kernel_stmt(k, s)->op == K_LOAD && is_table(k, b) && slice_of(t, s, &row) != NONE;
		t->rows[b] += rows;
		t->other[b] = t->other[b] || !rows;
	}
	for (uint32_t w = 0; kernel_stmt(k, s)->op == K_LOOP && w < kernel_stmt(k, s)->loop->windows.count; w++)
		t->other[kernel_stmt(k, s)->loop->windows.at[w].of] = true;
}

static Tables tables_of(Kernel *k) {
	Tables t = {.k = k, .uses = kernel_uses(k)};
	t.count = k->buffers.count;
	t.other = arena_array(k->arena, t.count + 1, sizeof *t.other);
	t.rows = arena_array(k->arena, t.count + 1, sizeof *t.rows);
	t.wide = arena_array(k->arena, t.count + 1, sizeof *t.wide);
	kernel_walk(k, k->body, look_at, &t);
	for (BufferId b = 0; b < t.count; b++) {
		t.wide[b] = NONE;
		t.rows[b] = t.other[b] ? 0 : t.rows[b];
		t.changes = t.changes || t.rows[b];
	}
	return t;
}

bool kernel_has_tables(Kernel *k) { return tables_of(k).changes; }

/* What rounds the slice to what it was and widens it again, if that is all that reads it. */
static StmtId rounded(const Tables *t, StmtId slice, Dtype dtype) {
	const Kernel *k = t->k;
	StmtId round = only_user(t, slice, K_CONVERT), wide = round == NONE ? NONE : only_user(t, round, K_CONVERT);
	bool same =
		wide != NONE && k->values.at[kernel_stmt(k, round)->result].dtype == dtype &&
		k->values.at[kernel_stmt(k, wide)->result].dtype == k->values.at[kernel_stmt(k, slice)->result].dtype;
	return same ? wide : slice;
}

/* A loop over rows has a register's rows in an iteration: where they go is then known but for the register (8192 rows
 * of an embedding: 113,000 cycles with four, 102,000 with eight). */
static void loads_more(Kernel *k, StmtId row) {
	enum { ROWS = 8 };
	StmtId owner = k->regions.at[kernel_stmt(k, row)->region].owner;
	KLoop *loop = owner != NONE && kernel_stmt(k, owner)->op == K_LOOP ? kernel_stmt(k, owner)->loop : NULL;
	int64_t steps;
	bool counted = loop && loop->rank == 1 && int_is_const(k, loop->dim[0].steps, &steps) && steps % ROWS == 0;
	if (counted && loop->unroll > 1 && loop->unroll < ROWS)
		loop->unroll = ROWS;
}

/* The same rows from scratch, in place of the slice. */
static void load_row(Kernel *k, StmtId load, void *data) {
	Tables *t = data;
	const KArg *from = kernel_stmt(k, load)->op == K_LOAD ? kernel_arg(k, load, 0) : NULL;
	BufferId b = from ? k->refs.at[from->ref].buffer : NONE;
	IntId row;
	if (!from || b >= t->count || t->rows[b] == 0)
		return;
	StmtId slice = rounded(t, slice_of(t, load, &row), k->buffers.at[b].dtype);
	uint32_t rank = k->buffers.at[b].rank;
	KDim *dim = arena_array(k->arena, rank, sizeof *dim);
	for (uint32_t d = 0; d < rank; d++)
		dim[d] = (KDim){.kind = KDIM_ALL};
	dim[rank - 2] = (KDim){.kind = KDIM_RANGE, .start = row, .size = 1};
	KArg ref = karg_ref(kernel_ref(k, t->wide[b], rank, dim));
	loads_more(k, slice);
	kernel_stmt(k, slice)->op = K_LOAD;
	kernel_stmt(k, slice)->int_count = 0;
	kernel_set_args(k, slice, 1, &ref);
}

static IntId first_point(Kernel *k) {
	IntId all = NONE;
	for (uint32_t d = 0; d < k->grid.count; d++) {
		if (k->grid.at[d].steps < 2)
			continue;
		IntId one = int_first(k, d);
		all = all == NONE ? one : int_binary(k, INT_AND, all, one);
	}
	return all;
}

static BufferId wide_scratch(Kernel *k, BufferId b) {
	const KBuffer x = k->buffers.at[b];
	return kernel_scratch(k, KSPACE_VMEM, wide_dtype(x.dtype), x.rank, x.shape,
	                      arena_printf(k->arena, "%s_wide", x.name));
}

/* Its bytes of VMEM. */
static int64_t widen(Kernel *k, const Target *t, BufferId b, BufferId wide, RegionId inside) {
	const KBuffer to = k->buffers.at[wide];
	KArg from = karg_ref(kernel_ref(k, b, 0, NULL)), x;
	StmtId load = kernel_append(k, inside, K_LOAD, 1, &from, 0, NULL);
	x = karg_value(kernel_result(k, load, KTYPE_TILE, k->buffers.at[b].dtype, to.rank, to.shape, NULL));
	StmtId convert = kernel_append(k, inside, K_CONVERT, 1, &x, 0, NULL);
	x = karg_value(kernel_result(k, convert, KTYPE_TILE, to.dtype, to.rank, to.shape, NULL));
	KArg put[] = {karg_ref(kernel_ref(k, wide, 0, NULL)), x};
	kernel_append(k, inside, K_STORE, 2, put, 0, NULL);
	return scratch_vmem_bytes(t, to.dtype, to.rank, to.shape);
}

int64_t kernel_widen_tables(Kernel *k, const Target *target) {
	Tables t = tables_of(k);
	IntId first = first_point(k);
	if (!t.changes || first == NONE || target->tensorcores > 1) /* each core has VMEM of its own */
		return 0;
	for (BufferId b = 0; b < t.count; b++)
		t.wide[b] = t.rows[b] ? wide_scratch(k, b) : NONE;
	kernel_walk(k, k->body, load_row, &t);
	kernel_drop_unread(k);
	RegionId inside = kernel_stmt(k, build_first_when(k, first, "tables"))->body;
	int64_t bytes = 0;
	for (BufferId b = 0; b < t.count; b++)
		bytes += t.rows[b] ? widen(k, target, b, t.wide[b], inside) : 0;
	for (uint32_t d = 0; d < k->grid.count; d++)
		k->grid.at[d].parallel = false;
	return bytes;
}
