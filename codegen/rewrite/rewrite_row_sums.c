/* rewrite_row_sums.c - sums of rows that grid points add up are kept in a register of rows, and summed by the last one.
 *
 * A sum along rows is two: the registers of a column of them are added to one, and its eight rows to one row. The
 * second half takes rotations, and what it gives fills an eighth of a register: added up are the registers as they are,
 * and their rows by the grid's last point.
 *
 *     %3 = load acc_ref[:, 0 +: 128]             %3 = load acc_ref[:, 0 +: 128]
 *     %4 = sum x axis=0 keepdims                 %4 = reshape x : float32[16, 8, 128]
 *     %5 = add %3, %4                     =>     %5 = sum %4 axis=0
 *     store acc_ref[:, 0 +: 128], %5             %6 = add %3, %5
 *                                                store acc_ref[:, 0 +: 128], %6
 *
 * held.c decides which sums are such, and gives them the room; the rest of the last visit is rewrite_held.c's. */
#include "rewrite.h"

enum { ROWS = 8 };

typedef struct RowSums {
	Kernel *k;
	BufferId acc;
	const uint32_t *uses; /* by value */
	StmtIds stores;
	bool all; /* nothing else names it */
} RowSums;

static bool names(const RowSums *r, KArg x) { return x.kind == KARG_REF && r->k->refs.at[x.ref].buffer == r->acc; }

/* All of its one row, of all columns or some. */
static bool is_row(const RowSums *r, RefId ref) {
	const KRef *at = &r->k->refs.at[ref];
	uint32_t rank = r->k->buffers.at[r->acc].rank;
	return at->rank == 0 || (at->rank == rank && at->dim[rank - 2].kind == KDIM_ALL);
}

/* What a value is made of, if nothing else uses it. */
static StmtId made_by(const RowSums *r, KArg x, uint16_t op) {
	StmtId s = x.kind == KARG_VALUE && r->uses[x.value] == 1 ? kernel_def_of(r->k, x) : NONE;
	return s != NONE && kernel_stmt(r->k, s)->op == op ? s : NONE;
}

/* Registers of rows, summed along them to one row. */
static bool sums_registers(const RowSums *r, StmtId sum) {
	const KStmt *s = kernel_stmt(r->k, sum);
	const KArg *x = kernel_arg(r->k, sum, 0);
	const KValue *of = x->kind == KARG_VALUE ? &r->k->values.at[x->value] : NULL;
	return of && s->int_count == 2 && s->ints[0] && of->rank == r->k->buffers.at[r->acc].rank && of->rank == 2 &&
	       s->ints[1] == 0 && of->dtype == DTYPE_F32 && of->shape[0] % ROWS == 0;
}

/* store acc[at], add(load acc[at], sum(x)): the load and the sum. */
static bool adds_sum(const RowSums *r, StmtId store, StmtId *load, StmtId *sum) {
	Kernel *k = r->k;
	const KArg *to = kernel_arg(k, store, 0);
	StmtId add = made_by(r, *kernel_arg(k, store, 1), OP_ADD);
	if (add == NONE || !is_row(r, to->ref))
		return false;
	*load = made_by(r, *kernel_arg(k, add, 0), K_LOAD);
	*sum = made_by(r, *kernel_arg(k, add, 1), K_SUM);
	return *load != NONE && *sum != NONE && names(r, *kernel_arg(k, *load, 0)) &&
	       is_row(r, kernel_arg(k, *load, 0)->ref) && sums_registers(r, *sum);
}

static void look_at(Kernel *k, StmtId s, void *data) {
	RowSums *r = data;
	const KStmt *stmt = kernel_stmt(k, s);
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		if (!names(r, *kernel_arg(k, s, i)))
			continue;
		StmtId load, sum;
		bool stores = stmt->op == K_STORE && i == 0 && adds_sum(r, s, &load, &sum);
		r->all = r->all && (stores || stmt->op == K_LOAD);
		if (stores)
			vec_push(k->arena, &r->stores, s);
	}
}

static uint32_t loads(RowSums *r) {
	uint32_t count = 0;
	StmtIds all = kernel_stmts_of(r->k, K_LOAD);
	for (uint32_t i = 0; i < all.count; i++)
		count += names(r, *kernel_arg(r->k, all.at[i], 0));
	return count;
}

static const int64_t *with_rows(Kernel *k, const int64_t *shape, uint32_t rank) {
	int64_t *rows = arena_copy(k->arena, shape, rank, sizeof *rows);
	rows[rank - 2] = ROWS;
	return rows;
}

static void keep_rows(RowSums *r, StmtId store) {
	Kernel *k = r->k;
	StmtId load = NONE, sum = NONE;
	adds_sum(r, store, &load, &sum);
	ValueId total = kernel_arg(k, store, 1)->value, now = kernel_stmt(k, sum)->result;
	const KArg x = *kernel_arg(k, sum, 0);
	const KValue *of = &k->values.at[x.value];
	const int64_t parts[] = {of->shape[0] / ROWS, ROWS, of->shape[1]}, along[] = {0, 0};
	const int64_t *rows = with_rows(k, k->values.at[now].shape, 2);
	StmtId split = kernel_insert_before(k, sum, K_RESHAPE, 1, &x, 0, NULL);
	kernel_stmt(k, split)->from = kernel_stmt(k, sum)->from;
	KArg registers = karg_value(kernel_result(k, split, KTYPE_TILE, DTYPE_F32, 3,
	                                          arena_copy(k->arena, parts, 3, sizeof *parts), "registers"));
	StmtId added = kernel_insert_before(k, sum, K_SUM, 1, &registers, 2, along);
	kernel_stmt(k, added)->from = kernel_stmt(k, sum)->from;
	ValueId row = kernel_result(k, added, KTYPE_TILE, DTYPE_F32, 2, rows, k->values.at[now].name);
	*kernel_arg(k, kernel_def_of(k, karg_value(total)), 1) = karg_value(row);
	kernel_remove(k, sum);
	const ValueId widened[] = {total, kernel_stmt(k, load)->result};
	for (uint32_t i = 0; i < 2; i++) {
		k->values.at[widened[i]].shape = rows;
		k->values.at[widened[i]].layout = LAYOUT_TILE;
	}
}

void rewrite_row_sums(Kernel *k) {
	for (BufferId b = 0; b < k->buffers.count; b++) {
		const KHeld *held = k->buffers.at[b].held;
		if (!held || held->sums == NONE || !held->fill || held->value != 0)
			continue;
		KBuffer *acc = &k->buffers.at[held->sums];
		RowSums r = {.k = k, .acc = held->sums, .uses = kernel_uses(k), .all = true};
		if (acc->dtype != DTYPE_F32 || acc->rank != 2 || acc->shape[0] != 1)
			continue;
		kernel_walk(k, k->body, look_at, &r);
		if (!r.all || r.stores.count == 0 || loads(&r) != r.stores.count)
			continue;
		acc->shape = with_rows(k, acc->shape, acc->rank);
		for (uint32_t i = 0; i < r.stores.count; i++)
			keep_rows(&r, r.stores.at[i]);
	}
}
