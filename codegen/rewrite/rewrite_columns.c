/* rewrite_columns.c - a row that is turned to meet tiles is turned spread over all lanes.
 *
 * Turned as a column it is one lane, which each tile that it meets has spread once more. The turn gives 128 equal lanes
 * anyway, and they stand beside each 128 columns of a tile as they are. Where a loop's step meets a
 * product of its own so, that is measured (docs/passes/orient.md#sums-of-few-columns), and where strips of a tile do
 * (docs/passes/column_strips.md#columns); other columns stay.
 *
 *     c = to_column row : float32[512, 1]        %1 = broadcast row : float32[128, 512]
 *     y = sub x, c : float32[512, 256]           c = swapaxes %1 a=0 b=1 : float32[512, 128]
 *                                                %2 = tile c times=(1, 2) : float32[512, 256]
 *                                                y = sub x, %2 : float32[512, 256] */
#include "rewrite.h"

enum { SPREAD_LANES = 128 };

typedef struct Columns {
	bool *stays;      /* by value: something but wide tiles reads it */
	bool *met;        /* by value: a wide tile does */
	bool *made;       /* by value: computed lane by lane of a matmul's result */
	uint32_t *strips; /* by value: loops over strips that read it */
	RegionId *last;   /* by value: the last of them */
} Columns;

static bool is_column(const Kernel *k, const KArg *a) {
	if (a->kind != KARG_VALUE || k->values.at[a->value].def == NONE)
		return false;
	const KValue *v = &k->values.at[a->value];
	return v->type == KTYPE_TILE && v->dtype == DTYPE_F32 && kernel_stmt(k, v->def)->op == K_TO_COLUMN;
}

static bool is_turned_in_step(const Kernel *k, const KArg *a) {
	return is_column(k, a) && kernel_stmt(k, k->values.at[a->value].def)->region != k->body;
}

/* Statements come in the order of the program. */
static void find_made(Kernel *k, StmtId s, void *data) {
	const Columns *c = data;
	const KStmt *stmt = kernel_stmt(k, s);
	bool made = stmt->op == K_DOT;
	for (uint32_t i = 0; i < stmt->arg_count && (stmt->op < K_FIRST || stmt->op == K_CONVERT); i++)
		made = made || (kernel_arg(k, s, i)->kind == KARG_VALUE && c->made[kernel_arg(k, s, i)->value]);
	if (stmt->result != NONE)
		c->made[stmt->result] = made;
}

/* It stands beside whole registers that have each row of the column. */
static bool meets_wide(const Kernel *k, StmtId s, ValueId column) {
	const KStmt *stmt = kernel_stmt(k, s);
	if (stmt->op >= K_FIRST || stmt->result == NONE)
		return false;
	const KValue *to = &k->values.at[stmt->result], *x = &k->values.at[column];
	return to->type == KTYPE_TILE && to->rank == x->rank && to->shape[to->rank - 1] % SPREAD_LANES == 0 &&
	       kernel_same_shape(to->rank - 1, to->shape, x->rank - 1, x->shape);
}

static void look(Kernel *k, StmtId s, void *data) {
	Columns *c = data;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		const KArg *a = kernel_arg(k, s, i);
		if (!is_turned_in_step(k, a))
			continue;
		bool met = meets_wide(k, s, a->value) && c->made[kernel_stmt(k, s)->result];
		*(met ? &c->met[a->value] : &c->stays[a->value]) = true;
	}
}

/* A statement before another, of the same line. */
static ValueId before(Kernel *k, StmtId s, uint16_t op, const KValue *like, const int64_t *shape, ValueId x,
                      uint32_t count, const int64_t *ints) {
	KArg arg = karg_value(x);
	StmtId made = kernel_insert_before(k, s, op, 1, &arg, count, ints);
	kernel_stmt(k, made)->from = kernel_stmt(k, s)->from;
	return kernel_result(k, made, KTYPE_TILE, like->dtype, like->rank, shape, NULL);
}

static const int64_t *with_last(Kernel *k, const KValue *v, int64_t second, int64_t last) {
	int64_t *shape = arena_array(k->arena, v->rank, sizeof *shape);
	memcpy(shape, v->shape, v->rank * sizeof *shape);
	shape[v->rank - 2] = second;
	shape[v->rank - 1] = last;
	return shape;
}

/* The column `at` statement s as 128 lanes. */
static void spread(Kernel *k, StmtId s, void *data) {
	const Columns *c = data;
	ValueId column = kernel_stmt(k, s)->result;
	if (kernel_stmt(k, s)->op != K_TO_COLUMN || !c->met[column] || c->stays[column])
		return;
	KValue like = k->values.at[column];
	int64_t rows = like.shape[like.rank - 2];
	ValueId row = kernel_arg(k, s, 0)->value;
	row = before(k, s, K_BROADCAST, &like, with_last(k, &like, SPREAD_LANES, rows), row, 0, NULL);
	KStmt *stmt = kernel_stmt(k, s);
	KArg arg = karg_value(row);
	int64_t *axes = arena_array(k->arena, 2, sizeof *axes);
	axes[0] = (int64_t)like.rank - 2;
	axes[1] = (int64_t)like.rank - 1;
	stmt->op = K_SWAPAXES;
	stmt->int_count = 2;
	stmt->ints = axes;
	kernel_set_args(k, s, 1, &arg);
	k->values.at[column].shape = with_last(k, &like, rows, SPREAD_LANES);
	k->values.at[column].layout = LAYOUT_TILE;
}

/* Beside a wider tile it stands several times. */
static void repeat(Kernel *k, StmtId s, void *data) {
	const Columns *c = data;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg a = *kernel_arg(k, s, i);
		if (a.kind != KARG_VALUE || !c->met[a.value] || c->stays[a.value])
			continue;
		KValue like = k->values.at[a.value], to = k->values.at[kernel_stmt(k, s)->result];
		int64_t times[KDIM_MAX], wide = to.shape[to.rank - 1];
		if (wide == SPREAD_LANES)
			continue;
		for (uint32_t d = 0; d < like.rank; d++)
			times[d] = d + 1 < like.rank ? 1 : wide / SPREAD_LANES;
		ValueId tiled = before(k, s, K_TILE, &like, with_last(k, &like, like.shape[like.rank - 2], wide),
		                       a.value, like.rank, times);
		*kernel_arg(k, s, i) = karg_value(tiled);
	}
}

static void *by_value(Kernel *k, size_t size) { return arena_array(k->arena, k->values.count, size); }

static void spread_met(Kernel *k, Columns *c) {
	kernel_walk(k, k->body, repeat, c);
	kernel_walk(k, k->body, spread, c);
}

void rewrite_columns(Kernel *k) {
	Columns c = {.stays = by_value(k, sizeof *c.stays),
	             .met = by_value(k, sizeof *c.met),
	             .made = by_value(k, sizeof *c.made)};
	kernel_walk(k, k->body, find_made, &c);
	kernel_walk(k, k->body, look, &c);
	spread_met(k, &c);
}

/* ---- beside strips ----------------------------------------------------------------------------------------------- */

static void look_in_strips(Kernel *k, StmtId s, void *data) {
	Columns *c = data;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		const KArg *a = kernel_arg(k, s, i);
		RegionId region = kernel_stmt(k, s)->region;
		if (!is_column(k, a))
			continue;
		if (region == k->body || !meets_wide(k, s, a->value))
			c->stays[a->value] = true;
		else if (c->strips[a->value] == 0 || c->last[a->value] != region)
			c->strips[a->value]++;
		c->last[a->value] = region;
	}
}

void columns_spread(Kernel *k, uint32_t count) {
	if (count == 0)
		return;
	Columns c = {.stays = by_value(k, sizeof *c.stays),
	             .met = by_value(k, sizeof *c.met),
	             .strips = by_value(k, sizeof *c.strips),
	             .last = by_value(k, sizeof *c.last)};
	kernel_walk(k, k->body, look_in_strips, &c);
	for (; count; count--) {
		ValueId most = NONE;
		for (ValueId v = 0; v < k->values.count; v++)
			if (!c.stays[v] && !c.met[v] && c.strips[v] && (most == NONE || c.strips[v] > c.strips[most]))
				most = v;
		if (most == NONE)
			break;
		c.met[most] = true;
	}
	spread_met(k, &c);
}
