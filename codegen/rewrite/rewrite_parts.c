/* rewrite_parts.c - of a tile of which a mask keeps a run of rows, those from one int on and before another, no more
 * rows are computed than hold the run. Lists of work name blocks of rows that several groups share, each of which
 * computes its own ones.
 *
 *     x = load x_ref[0, :, :]                 first_row = int (div(...) * 32) : int
 *     y = dot x, w                            parts = int (cdiv(max(... - first, 0), 128)) : int
 *     own = ge row, start : bool[1, 256]      when (parts == 1) rows_128 {
 *     mask = to_column own                      start = int (min(first_row, 128)) : int
 *     old = load out_ref[at, :, :]              x_1 = load x_ref[0, start by 32 +: 128, :]
 *     new = where mask, y, old                  ...
 *     store out_ref[at, :, :], new            }
 *                                             when (parts == 2) whole { ... }
 *
 * What is stored where the mask is not set is what stands there. */
#include "rewrite.h"

/* Fewer rows than PART_ROWS take an MXU as long: it waits for the next matrix. Each number of rows is code of its own,
 * of which there are PARTS_MAX. Tiles of all dtypes of 8 bits or more are sliced at multiples of START_ROWS. */
enum { PART_ROWS = 128, PARTS_MAX = 4, START_ROWS = 32 };

/* What a mask of rows keeps at most: rows `low` to `high` of which row 0 has the number `base`. */
typedef struct Run {
	ValueId base;    /* a scalar; NONE: there is no mask of rows */
	IntId low, high; /* NONE: no such bound */
} Run;

typedef struct Parts {
	Kernel *k;
	RegionId region;
	int64_t rows;
	uint32_t *axis;    /* by value: which of its dims are the rows; NONE */
	uint32_t *reads;   /* by value: how often what is to move reads it, */
	uint32_t *as_rows; /* and how often in rows that are its own */
	bool *moves;       /* by statement */
	StmtIds moved;     /* these, in their order */
	uint32_t dots;
	Run run;
	ValueId *now; /* by value: what it is in the part that is being made, */
	IntId start;  /* from this row on, */
	int64_t size; /* of so many */
} Parts;

/* ---- what the mask keeps ----------------------------------------------------------------------------------------- */

/* A scalar, or a number, of 32 bits as an int; NONE. */
static IntId as_int(Kernel *k, KArg x) {
	if (x.kind == KARG_INTEGER)
		return int_const(k, x.integer);
	bool scalar = x.kind == KARG_VALUE && k->values.at[x.value].type == KTYPE_SCALAR &&
	              k->values.at[x.value].dtype == DTYPE_I32;
	return scalar ? int_value(k, x.value) : NONE;
}

/* The scalar to which x adds the number of each row; NONE. */
static ValueId base_of(const Kernel *k, KArg x) {
	StmtId s = kernel_def_of(k, x);
	if (s == NONE || kernel_stmt(k, s)->op != OP_ADD || k->values.at[x.value].dtype != DTYPE_I32)
		return NONE;
	for (uint32_t i = 0; i < 2; i++) {
		const KArg *base = kernel_arg(k, s, i);
		StmtId numbers = kernel_def_of(k, *kernel_arg(k, s, 1 - i));
		if (base->kind == KARG_VALUE && k->values.at[base->value].type == KTYPE_SCALAR && numbers != NONE &&
		    kernel_stmt(k, numbers)->op == K_IOTA &&
		    kernel_stmt(k, numbers)->ints[0] + 1 == (int64_t)k->values.at[kernel_stmt(k, numbers)->result].rank)
			return base->value;
	}
	return NONE;
}

static IntId tighter(Kernel *k, IntKind kind, IntId a, IntId b) {
	return a == NONE ? b : b == NONE ? a : int_binary(k, kind, a, b);
}

/* `rows >= low` and `rows < high`, in either order. */
static Run run_of_bound(Kernel *k, StmtId s) {
	uint16_t op = kernel_stmt(k, s)->op;
	KArg a = *kernel_arg(k, s, 0), b = *kernel_arg(k, s, 1);
	bool turned = op == OP_LE || op == OP_GT;
	Run run = {base_of(k, turned ? b : a), NONE, NONE};
	IntId bound = as_int(k, turned ? a : b);
	if (bound == NONE)
		return (Run){NONE, NONE, NONE};
	*(op == OP_GE || op == OP_LE ? &run.low : &run.high) = bound;
	return run;
}

/* A run out of which the mask is not set. */
static Run run_of(Kernel *k, KArg x) {
	Run none = {NONE, NONE, NONE};
	StmtId s = kernel_def_of(k, x);
	if (s == NONE || !kernel_is_tile(k, x))
		return none;
	switch (kernel_stmt(k, s)->op) {
	case OP_GE:
	case OP_LT:
	case OP_LE:
	case OP_GT: return run_of_bound(k, s);
	case K_CONVERT:
	case K_BROADCAST:
	case K_TO_COLUMN: return run_of(k, *kernel_arg(k, s, 0));
	case OP_BITWISE_AND:
	case OP_LOGICAL_AND: {
		Run a = run_of(k, *kernel_arg(k, s, 0)), b = run_of(k, *kernel_arg(k, s, 1));
		if (a.base == NONE || b.base == NONE || a.base != b.base)
			return a.base != NONE ? a : b;
		return (Run){a.base, tighter(k, INT_MAX, a.low, b.low), tighter(k, INT_MIN, a.high, b.high)};
	}
	default: return none;
	}
}

/* ---- what can be computed in parts ------------------------------------------------------------------------------- */

static bool is_pointwise(uint16_t op) {
	return kernel_op_is_pointwise(op) || op == K_TRUNC_DIVIDE || (op >= K_BITCAST && op <= K_FLOAT16_ROUNDED);
}

/* The dim of the buffer that dim `axis` of what is loaded or stored is, if all of it is; NONE. */
static uint32_t dim_of(const Kernel *k, RefId ref, uint32_t axis) {
	const KRef *x = &k->refs.at[ref];
	for (uint32_t d = 0, left = axis; d < k->buffers.at[x->buffer].rank && x->at == NONE; d++) {
		KDimKind kind = d < x->rank ? x->dim[d].kind : KDIM_ALL;
		if (kind != KDIM_AT && left-- == 0)
			return kind == KDIM_ALL && dtype_bits(k->buffers.at[x->buffer].dtype) >= 8 ? d : NONE;
	}
	return NONE;
}

static bool takes_rows(Parts *p, KArg x, int64_t axis);

/* Dims are counted from the last one, where ranks differ. */
static bool take_rows(Parts *p, StmtId s, uint32_t first, int64_t axis) {
	bool can = true;
	uint32_t rank = p->k->values.at[kernel_stmt(p->k, s)->result].rank;
	for (uint32_t i = first; can && i < kernel_stmt(p->k, s)->arg_count; i++) {
		KArg x = *kernel_arg(p->k, s, i);
		can = !kernel_is_tile(p->k, x) ||
		      takes_rows(p, x, axis - (int64_t)rank + (int64_t)p->k->values.at[x.value].rank);
	}
	return can;
}

/* Each row of what the statement gives, along `axis`, is made of that row of its arguments. */
static bool is_by_rows(Parts *p, StmtId s, uint32_t axis) {
	Kernel *k = p->k;
	const KStmt stmt = *kernel_stmt(k, s);
	uint32_t rank = k->values.at[stmt.result].rank;
	if (stmt.region != p->region)
		return false;
	p->moves[s] = true;
	if (is_pointwise(stmt.op) || stmt.op == K_BROADCAST)
		return take_rows(p, s, 0, axis);
	switch (stmt.op) {
	case K_LOAD: return dim_of(k, kernel_arg(k, s, 0)->ref, axis) != NONE;
	case K_IOTA: return true;
	case K_TO_COLUMN: return axis + 2 == rank && takes_rows(p, *kernel_arg(k, s, 0), rank - 1);
	case K_DOT: p->dots++; return rank == 2 && axis == 0 && takes_rows(p, *kernel_arg(k, s, 0), 1 - stmt.ints[0]);
	default: return false;
	}
}

/* x is read row by row, or has one row for all. */
static bool takes_rows(Parts *p, KArg x, int64_t axis) {
	const KValue *v = &p->k->values.at[x.value];
	if (axis < 0 || v->shape[axis] == 1)
		return true;
	p->as_rows[x.value]++;
	if (p->axis[x.value] != NONE)
		return p->axis[x.value] == axis;
	p->axis[x.value] = (uint32_t)axis;
	return v->def != NONE && v->shape[axis] == p->rows && is_by_rows(p, v->def, (uint32_t)axis);
}

/* The statements of the region run where so many parts hold the run: it was in parts before, as a kernel's text is. */
static bool is_part(const Kernel *k, RegionId region) {
	StmtId owner = k->regions.at[region].owner;
	if (owner == NONE || kernel_stmt(k, owner)->op != K_WHEN || kernel_arg(k, owner, 0)->kind != KARG_INT)
		return false;
	const KInt *is = &k->ints.at[kernel_arg(k, owner, 0)->index];
	bool names = is->kind == INT_EQ && k->ints.at[is->a].kind == INT_VALUE;
	StmtId def = names ? k->values.at[k->ints.at[is->a].value].def : NONE;
	if (def == NONE || kernel_stmt(k, def)->op != K_INT)
		return false;
	const KInt *count = &k->ints.at[kernel_arg(k, def, 0)->index];
	return count->kind == INT_CDIV && k->ints.at[count->b].kind == INT_CONST &&
	       k->ints.at[count->b].number % PART_ROWS == 0;
}

/* The store keeps what stands where a mask of rows is not set. */
static bool find_run(Parts *p, StmtId store) {
	Kernel *k = p->k;
	StmtId where = kernel_def_of(k, *kernel_arg(k, store, 1));
	if (where == NONE || kernel_stmt(k, where)->op != OP_WHERE || !kernel_is_tile(k, *kernel_arg(k, store, 1)) ||
	    is_part(k, p->region))
		return false;
	StmtId old = kernel_def_of(k, *kernel_arg(k, where, 2));
	const KValue *v = &k->values.at[kernel_stmt(k, where)->result];
	if (old == NONE || kernel_stmt(k, old)->op != K_LOAD || !load_put_back(k, old) || v->rank < 2)
		return false;
	p->run = run_of(k, *kernel_arg(k, where, 0));
	p->rows = v->shape[v->rank - 2];
	if (p->run.base == NONE || p->rows <= PART_ROWS || p->rows % PART_ROWS ||
	    dim_of(k, kernel_arg(k, store, 0)->ref, v->rank - 2) == NONE)
		return false;
	p->moves[store] = true;
	return takes_rows(p, *kernel_arg(k, store, 1), v->rank - 2) && p->dots > 0;
}

static void count_reads(Parts *p, StmtId s) {
	for (uint32_t i = 0; i < kernel_stmt(p->k, s)->arg_count; i++)
		if (kernel_arg(p->k, s, i)->kind == KARG_VALUE)
			p->reads[kernel_arg(p->k, s, i)->value]++;
}

/* Other tiles that nothing else reads move, too: what stands outside would wait in VMEM. */
static bool moves_along(const Parts *p, StmtId s, const uint32_t *uses) {
	const KStmt *stmt = kernel_stmt(p->k, s);
	bool pure = kernel_op_kind(stmt->op) == KIND_PURE ||
	            (stmt->op == K_LOAD &&
	             p->k->buffers.at[p->k->refs.at[kernel_arg(p->k, s, 0)->ref].buffer].role == BUFFER_IN);
	return pure && stmt->result_count == 1 && p->k->values.at[stmt->result].type == KTYPE_TILE &&
	       uses[stmt->result] > 0 && p->reads[stmt->result] == uses[stmt->result];
}

/* Rows are read by what moves alone and as rows; nothing between what moves changes memory. */
static bool can_move(Parts *p, StmtId store) {
	const uint32_t *uses = kernel_uses(p->k);
	bool stays = false;
	for (StmtId s = store; s != NONE; s = kernel_stmt(p->k, s)->prev) {
		const KStmt *stmt = kernel_stmt(p->k, s);
		p->moves[s] = p->moves[s] || moves_along(p, s, uses);
		if (!p->moves[s]) {
			stays = stays || kernel_op_kind(stmt->op) == KIND_ASYNC ||
			        kernel_op_kind(stmt->op) == KIND_CONTROL || stmt->op == K_STORE;
			continue;
		}
		ValueId v = stmt->result;
		if (stays ||
		    (v != NONE && (p->reads[v] != uses[v] || (p->axis[v] != NONE && p->as_rows[v] != uses[v]))))
			return false;
		count_reads(p, s);
	}
	for (StmtId s = region_first(p->k, p->region); s != NONE; s = kernel_stmt(p->k, s)->next)
		if (p->moves[s])
			vec_push(p->k->arena, &p->moved, s);
	return true;
}

/* ---- a part ------------------------------------------------------------------------------------------------------ */

static RefId ref_in_part(Parts *p, RefId ref, uint32_t axis) {
	Kernel *k = p->k;
	KRef x = k->refs.at[ref];
	uint32_t rank = k->buffers.at[x.buffer].rank, rows = dim_of(k, ref, axis);
	KDim *dim = arena_array(k->arena, rank, sizeof *dim);
	for (uint32_t d = 0; d < rank; d++)
		dim[d] = d < x.rank ? x.dim[d] : (KDim){.kind = KDIM_ALL};
	dim[rows] = (KDim){.kind = KDIM_RANGE, .start = p->start, .size = p->size, .multiple = START_ROWS};
	return kernel_ref(k, x.buffer, rank, dim);
}

static ValueId result_in_part(Parts *p, StmtId s, ValueId like, bool named) {
	int64_t shape[KDIM_MAX];
	KValue x = p->k->values.at[like];
	memcpy(shape, x.shape, x.rank * sizeof *shape);
	if (p->axis[like] != NONE)
		shape[p->axis[like]] = p->size;
	ValueId v = kernel_result(p->k, s, x.type, x.dtype, x.rank, shape, named ? x.name : NULL);
	p->k->values.at[v].layout = x.layout;
	return v;
}

static void copy(Parts *p, StmtId s, RegionId to) {
	Kernel *k = p->k;
	KStmt old = *kernel_stmt(k, s);
	uint32_t axis = old.result != NONE ? p->axis[old.result] : k->values.at[kernel_arg(k, s, 1)->value].rank - 2;
	KArg *args = arena_array(k->arena, old.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < old.arg_count; i++) {
		args[i] = *kernel_arg(k, s, i);
		if (args[i].kind == KARG_VALUE && p->now[args[i].value] != NONE)
			args[i].value = p->now[args[i].value];
		else if (args[i].kind == KARG_REF && axis != NONE)
			args[i].ref = ref_in_part(p, args[i].ref, axis);
	}
	StmtId made = kernel_append(k, to, old.op, old.arg_count, args, old.int_count, old.ints);
	bool numbers = old.op == K_IOTA && axis != NONE && old.ints[0] == (int64_t)axis;
	if (old.result != NONE)
		p->now[old.result] = result_in_part(p, made, old.result, !numbers);
	if (numbers) {
		const KArg sum[] = {karg_int(p->start), karg_value(p->now[old.result])};
		made = kernel_append(k, to, OP_ADD, 2, sum, 0, NULL);
		p->now[old.result] = result_in_part(p, made, old.result, true);
	}
	kernel_say_like(k, made, s);
}

/* ---- the statements ---------------------------------------------------------------------------------------------- */

static IntId named_int(Kernel *k, StmtId before, IntId i, const char *name) {
	KArg x = karg_int(i);
	StmtId s = kernel_insert_before(k, before, K_INT, 1, &x, 0, NULL);
	return int_value(k, kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, name));
}

/* A bound as a row of the tile: 0 to `rows`. Where numbers of rows pass the largest int, and start again, all are kept.
 */
static IntId row_of(Parts *p, IntId bound, IntId all) {
	Kernel *k = p->k;
	IntId base = int_value(k, p->run.base), rows = int_const(k, p->rows);
	if (bound == NONE)
		return all;
	IntId last = int_binary(k, INT_ADD, base, rows);
	IntId within = int_binary(k, INT_MIN, int_binary(k, INT_MAX, bound, base), last);
	IntId wraps = int_binary(k, INT_GT, base, int_const(k, INT32_MAX - p->rows));
	return int_choose(k, wraps, all, int_binary(k, INT_SUB, within, base));
}

static RegionId when(Kernel *k, StmtId before, IntId condition, const char *name) {
	return kernel_stmt(k, kernel_insert_when(k, before, condition, name))->body;
}

/* So many rows, from `first` on or from before. */
static void put_rows(Parts *p, StmtId before, int64_t size, IntId condition, IntId first) {
	Kernel *k = p->k;
	RegionId to = when(k, before, condition, arena_printf(k->arena, "rows_%lld", (long long)size));
	KArg start = karg_int(int_binary(k, INT_MIN, first, int_const(k, p->rows - size)));
	StmtId at = kernel_append(k, to, K_INT, 1, &start, 0, NULL);
	p->size = size;
	p->start = int_value(k, kernel_result(k, at, KTYPE_INT, DTYPE_I32, 0, NULL, "start"));
	p->now = arena_array(k->arena, k->values.count, sizeof *p->now);
	for (ValueId v = 0; v < k->values.count; v++)
		p->now[v] = NONE;
	for (uint32_t m = 0; m < p->moved.count; m++)
		copy(p, p->moved.at[m], to);
}

static void put_in_parts(Parts *p, StmtId store) {
	Kernel *k = p->k;
	KValue *base = kernel_value_at(k, p->run.base);
	if (!base->name && !base->var)
		base->name = "base";
	int64_t part = int_round_up((p->rows + PARTS_MAX - 1) / PARTS_MAX, PART_ROWS), size = part;
	IntId zero = int_const(k, 0), step = int_const(k, START_ROWS);
	IntId low = row_of(p, p->run.low, zero), high = row_of(p, p->run.high, int_const(k, p->rows));
	/* Before the store, to which the rest follows. */
	IntId first = named_int(k, store, int_binary(k, INT_MUL, int_binary(k, INT_DIV, low, step), step), "first_row");
	IntId run = int_binary(k, INT_MAX, int_binary(k, INT_SUB, high, first), zero);
	IntId parts = named_int(k, store, int_binary(k, INT_CDIV, run, int_const(k, part)), "parts");
	for (; size < p->rows; size += part)
		put_rows(p, store, size, int_binary(k, INT_EQ, parts, int_const(k, size / part)), first);
	RegionId whole = when(k, store, int_binary(k, INT_EQ, parts, int_const(k, size / part)), "whole");
	for (uint32_t m = 0; m < p->moved.count; m++)
		kernel_move(k, p->moved.at[m], whole);
}

static void try_store(Kernel *k, StmtId store) {
	Parts p = {.k = k, .region = kernel_stmt(k, store)->region};
	p.axis = arena_array(k->arena, k->values.count, sizeof *p.axis);
	p.reads = arena_array(k->arena, k->values.count, sizeof *p.reads);
	p.as_rows = arena_array(k->arena, k->values.count, sizeof *p.as_rows);
	p.moves = arena_array(k->arena, k->stmts.count, sizeof *p.moves);
	for (ValueId v = 0; v < k->values.count; v++)
		p.axis[v] = NONE;
	if (find_run(&p, store) && can_move(&p, store))
		put_in_parts(&p, store);
}

void rewrite_parts(Kernel *k) {
	StmtIds stores = kernel_stmts_of(k, K_STORE);
	for (uint32_t i = 0; i < stores.count; i++)
		try_store(k, stores.at[i]);
}
