/* rewrite_lane_sums.c - what a loop adds up of rows stays in 128 lanes, and is summed along them once, behind the loop.
 *
 * A sum along lanes is one of each 128 lanes' parts, then one across the lanes of a register, which every step would
 * wait for. A sum that is scaled by the step, as a softmax's is, has the same scale in all lanes. Of elements that a
 * step chooses by a condition, and sums, the condition holds for one of a row at most where it compares the column's
 * number with the row's own: then it is chosen in its lane, and nothing is added.
 *
 *     loop carry (s = %1) : float32[8, 1] {           loop carry (s = %1) : float32[8, 128] {
 *       %2 = sum x keep=1 axes=(1)                      s_1 = fold_sum s, x : float32[8, 128]
 *       s_1 = add s, %2 : float32[8, 1]                 yield s_1
 *       yield s_1                                     }
 *     }                                               s_2 = sum s_lanes keep=1 axes=(1) : float32[8, 1] */
#include "rewrite.h"

enum { LANES = 128 };

typedef struct LaneSums {
	Kernel *k;
	StmtId loop;
	uint32_t *uses;
	bool *same; /* by value: its lanes are equal, as far as is known; of what loops carry: it may be */
} LaneSums;

static const KValue *value_of(const Kernel *k, KArg x) { return x.kind == KARG_VALUE ? &k->values.at[x.value] : NULL; }

/* ---- equal lanes ------------------------------------------------------------------------------------------------ */

static bool same_lanes(const LaneSums *l, KArg x) {
	const KValue *v = value_of(l->k, x);
	return !v || v->rank == 0 || v->shape[v->rank - 1] == 1 || l->same[x.value];
}

static void find_same(Kernel *k, StmtId s, void *data) {
	LaneSums *l = data;
	const KStmt *stmt = kernel_stmt(k, s);
	bool same = stmt->op < K_FIRST || stmt->op == K_ZEROS || stmt->op == K_ONES || stmt->op == K_FULL ||
	            stmt->op == K_BROADCAST || stmt->op == K_LET || stmt->op == K_CONVERT;
	for (uint32_t i = 0; i < stmt->arg_count && same; i++)
		same = same_lanes(l, *kernel_arg(k, s, i));
	if (stmt->op == K_LOOP) /* until a step gives others */
		for (uint32_t i = 0; i < stmt->arg_count; i++)
			l->same[stmt->loop->carried.at[i]] =
				l->same[stmt->loop->carried.at[i]] && same_lanes(l, *kernel_arg(k, s, i));
	else if (stmt->result != NONE && stmt->result_count == 1)
		l->same[stmt->result] = same;
}

/* What the loop carries has equal lanes where each step gives such if it is given such. */
static void find_equal_lanes(LaneSums *l) {
	const KLoop *loop = kernel_stmt(l->k, l->loop)->loop;
	StmtId yield = region_last(l->k, kernel_stmt(l->k, l->loop)->body);
	for (uint32_t i = 0; i < loop->carried.count; i++)
		l->same[loop->carried.at[i]] = true;
	for (bool changed = true; changed;) {
		changed = false;
		kernel_walk(l->k, l->k->body, find_same, l);
		for (uint32_t i = 0; i < kernel_stmt(l->k, yield)->arg_count; i++) {
			bool *same = &l->same[loop->carried.at[i]];
			changed = changed || (*same && !same_lanes(l, *kernel_arg(l->k, yield, i)));
			*same = *same && same_lanes(l, *kernel_arg(l->k, yield, i));
		}
	}
}

/* ---- what is summed --------------------------------------------------------------------------------------------- */

typedef struct LaneSum {
	uint32_t at;      /* of what is carried */
	StmtId add, sum;  /* in the loop's region */
	KArg total, part; /* what the step adds to, and the sum's operand */
	KArg condition;   /* of one element of a row at most, over all steps, where `part` is chosen; or none */
} LaneSum;

/* The sum along the lanes of whole registers, more than one, that nothing else reads. */
static bool sums_lanes(const LaneSums *l, KArg x) {
	const Kernel *k = l->k;
	StmtId s = kernel_def_of(k, x);
	if (s == NONE || l->uses[x.value] != 1 || kernel_stmt(k, s)->op != K_SUM)
		return false;
	const KStmt *stmt = kernel_stmt(k, s);
	const KValue *of = value_of(k, *kernel_arg(k, s, 0));
	return of && stmt->region == kernel_stmt(k, l->loop)->body && stmt->int_count == 2 && stmt->ints[0] &&
	       of->rank >= 2 && stmt->ints[1] == (int64_t)of->rank - 1 && of->dtype == DTYPE_F32 &&
	       of->shape[of->rank - 1] % LANES == 0 && of->shape[of->rank - 1] > LANES;
}

/* It is what is carried, or that scaled alike in all lanes. */
static bool is_total(const LaneSums *l, KArg x, ValueId carried) {
	const Kernel *k = l->k;
	if (x.kind != KARG_VALUE || l->uses[x.value] != 1)
		return false;
	StmtId s = kernel_def_of(k, x);
	if (x.value == carried)
		return true;
	if (s == NONE || kernel_stmt(k, s)->op != OP_MUL || kernel_stmt(k, s)->region != kernel_stmt(k, l->loop)->body)
		return false;
	KArg a = *kernel_arg(k, s, 0), b = *kernel_arg(k, s, 1);
	bool first = a.kind == KARG_VALUE && a.value == carried;
	KArg scale = first ? b : a;
	return l->uses[carried] == 1 && (first || (b.kind == KARG_VALUE && b.value == carried)) && same_lanes(l, scale);
}

static bool starts_at_zero(const LaneSums *l, KArg x) {
	StmtId s = kernel_def_of(l->k, x);
	return s != NONE && l->uses[x.value] == 1 && kernel_stmt(l->k, s)->op == K_ZEROS;
}

static bool find_sum(const LaneSums *l, uint32_t i, LaneSum *found) {
	const Kernel *k = l->k;
	const KStmt *loop = kernel_stmt(k, l->loop);
	ValueId carried = loop->loop->carried.at[i];
	const KValue *v = &k->values.at[carried];
	KArg yielded = *kernel_arg(k, region_last(k, loop->body), i);
	StmtId add = kernel_def_of(k, yielded);
	bool shaped = v->dtype == DTYPE_F32 && v->rank >= 2 && (v->shape[v->rank - 1] == 1 || l->same[carried]);
	if (!shaped || add == NONE || l->uses[yielded.value] != 1 || kernel_stmt(k, add)->op != OP_ADD ||
	    kernel_stmt(k, add)->region != loop->body || !starts_at_zero(l, *kernel_arg(k, l->loop, i)) ||
	    l->uses[loop->result + i] == 0)
		return false;
	KArg a = *kernel_arg(k, add, 0), b = *kernel_arg(k, add, 1);
	bool second = is_total(l, a, carried) && sums_lanes(l, b);
	if (!second && !(is_total(l, b, carried) && sums_lanes(l, a)))
		return false;
	*found = (LaneSum){.at = i, .add = add, .sum = kernel_def_of(k, second ? b : a), .total = second ? a : b};
	found->part = *kernel_arg(k, found->sum, 0);
	const KValue *part = value_of(k, found->part);
	uint16_t flags = kernel_stmt(k, add)->flags & KSTMT_AHEAD;
	return part->rank == v->rank && kernel_same_shape(v->rank - 1, v->shape, v->rank - 1, part->shape) &&
	       flags == (kernel_stmt(k, found->sum)->flags & KSTMT_AHEAD);
}

/* ---- what is chosen by its column ------------------------------------------------------------------------------- */

/* The same in every step: made before the loop, or loaded whole of a block of the grid. */
static bool is_invariant(const LaneSums *l, KArg x) {
	const Kernel *k = l->k;
	StmtId s = kernel_def_of(k, x);
	const KLoop *loop = kernel_stmt(k, l->loop)->loop;
	for (uint32_t i = 0; i < loop->carried.count && x.kind == KARG_VALUE; i++)
		if (loop->carried.at[i] == x.value)
			return false;
	if (s == NONE || kernel_stmt(k, s)->region != kernel_stmt(k, l->loop)->body)
		return s != NONE && kernel_stmt(k, s)->region == k->body;
	if (kernel_stmt(k, s)->op == K_CONVERT || kernel_stmt(k, s)->op == K_EXPAND_DIMS)
		return is_invariant(l, *kernel_arg(k, s, 0));
	if (kernel_stmt(k, s)->op != K_LOAD)
		return false;
	const KRef *ref = &k->refs.at[kernel_arg(k, s, 0)->ref];
	bool whole = k->buffers.at[ref->buffer].role == BUFFER_IN;
	for (uint32_t d = 0; d < ref->rank; d++)
		whole = whole && ref->dim[d].kind == KDIM_ALL;
	return whole;
}

/* How far an int goes on from one step to the next; false: not known. */
static bool int_stride(const LaneSums *l, KArg x, int64_t *stride) {
	Kernel *k = l->k;
	const KLoop *loop = kernel_stmt(k, l->loop)->loop;
	int64_t first, second;
	if (x.kind == KARG_INTEGER)
		return *stride = 0, true;
	if (x.kind != KARG_INT)
		return false;
	bool known = int_is_const(k, int_substitute(k, x.index, loop->dim[0].step, int_const(k, 0)), &first) &&
	             int_is_const(k, int_substitute(k, x.index, loop->dim[0].step, int_const(k, 1)), &second);
	*stride = known ? second - first : 0;
	return known;
}

/* A row that counts columns, each once over all steps. */
static bool counts_columns(const LaneSums *l, KArg x) {
	const Kernel *k = l->k;
	StmtId s = kernel_def_of(k, x);
	if (s == NONE || kernel_stmt(k, s)->op != OP_ADD)
		return false;
	KArg a = *kernel_arg(k, s, 0), b = *kernel_arg(k, s, 1);
	StmtId iota = kernel_def_of(k, a.kind == KARG_VALUE ? a : b);
	const KValue *v = value_of(k, x);
	int64_t stride;
	return iota != NONE && kernel_stmt(k, iota)->op == K_IOTA && v->dtype == DTYPE_I32 &&
	       kernel_stmt(k, iota)->ints[0] == (int64_t)v->rank - 1 &&
	       int_stride(l, a.kind == KARG_VALUE ? b : a, &stride) && stride >= v->shape[v->rank - 1];
}

/* A comparison of such a row with a column of the rows' own numbers. */
static bool holds_once(const LaneSums *l, KArg x) {
	const Kernel *k = l->k;
	StmtId s = kernel_def_of(k, x);
	if (s == NONE || kernel_stmt(k, s)->op != OP_EQ)
		return false;
	KArg a = *kernel_arg(k, s, 0), b = *kernel_arg(k, s, 1);
	bool first = counts_columns(l, a);
	const KValue *number = value_of(k, first ? b : a);
	return (first || counts_columns(l, b)) && number && number->dtype == DTYPE_I32 &&
	       (number->rank == 0 || number->shape[number->rank - 1] == 1) && is_invariant(l, first ? b : a);
}

/* Instead of what is 0 elsewhere, the sum gets what is chosen: masked as that was. */
static void find_choice(const LaneSums *l, LaneSum *found) {
	Kernel *k = l->k;
	const KLoop *loop = kernel_stmt(k, l->loop)->loop;
	StmtId s = kernel_def_of(k, found->part), mask = NONE;
	if (s != NONE && kernel_stmt(k, s)->op == K_MASK && karg_is_number(*kernel_arg(k, s, 2), 0) &&
	    l->uses[found->part.value] == 1)
		mask = s, s = kernel_def_of(k, *kernel_arg(k, s, 0));
	if (s == NONE || kernel_stmt(k, s)->op != OP_WHERE || loop->rank != 1 ||
	    found->total.value != loop->carried.at[found->at] || !karg_is_number(*kernel_arg(k, s, 2), 0) ||
	    !holds_once(l, *kernel_arg(k, s, 0)))
		return;
	KArg x = *kernel_arg(k, s, 1);
	const KValue *v = value_of(k, x), *all = value_of(k, found->part), *where = value_of(k, *kernel_arg(k, s, 0));
	if (!v || v->dtype != all->dtype || !kernel_same_shape(v->rank, v->shape, all->rank, all->shape) ||
	    !kernel_same_shape(where->rank, where->shape, all->rank, all->shape))
		return;
	found->condition = *kernel_arg(k, s, 0);
	if (mask == NONE)
		found->part = x;
	else
		*kernel_arg(k, mask, 0) = x;
}

/* ---- in lanes --------------------------------------------------------------------------------------------------- */

static const int64_t *with_last(Kernel *k, const KValue *v, int64_t last) {
	int64_t *shape = arena_array(k->arena, v->rank, sizeof *shape);
	memcpy(shape, v->shape, v->rank * sizeof *shape);
	shape[v->rank - 1] = last;
	return shape;
}

static void widen(Kernel *k, ValueId v) {
	k->values.at[v].shape = with_last(k, &k->values.at[v], LANES);
	k->values.at[v].layout = LAYOUT_TILE;
}

static void widen_place(Kernel *k, BufferId b, ValueId like) {
	if (b != NONE)
		k->buffers.at[b].shape = k->values.at[like].shape;
}

/* A statement behind another, of the same line. */
static ValueId behind(Kernel *k, StmtId s, uint16_t op, ValueId of, const int64_t *shape, Layout layout) {
	const KArg arg = karg_value(of);
	const int64_t ints[] = {1, (int64_t)k->values.at[of].rank - 1};
	uint32_t count = op == K_SUM ? 2 : 0;
	StmtId next = kernel_stmt(k, s)->next;
	StmtId made = next == NONE ? kernel_append(k, kernel_stmt(k, s)->region, op, 1, &arg, count, ints)
	                           : kernel_insert_before(k, next, op, 1, &arg, count, ints);
	kernel_stmt(k, made)->from = kernel_stmt(k, s)->from;
	ValueId v = kernel_result(k, made, KTYPE_TILE, DTYPE_F32, k->values.at[of].rank, shape, NULL);
	k->values.at[v].layout = layout;
	return v;
}

/* What comes out of the loop is summed; where 128 equal lanes were carried, there are again as many. */
static void sum_behind(LaneSums *l, uint32_t at, KValue old) {
	Kernel *k = l->k;
	ValueId lanes = kernel_stmt(k, l->loop)->result + at;
	ValueId sum = behind(k, l->loop, K_SUM, lanes, with_last(k, &old, 1), LAYOUT_COLUMN), out = sum;
	StmtId made = k->values.at[sum].def;
	if (old.shape[old.rank - 1] == LANES)
		out = behind(k, made, K_BROADCAST, sum, old.shape, old.layout);
	const char *name = k->values.at[lanes].name;
	k->values.at[out].name = name ? arena_printf(k->arena, "%s_sum", name) : "sum";
	ValueId *map = arena_raw(k->arena, k->values.count * sizeof *map);
	for (ValueId v = 0; v < k->values.count; v++)
		map[v] = v == lanes ? out : NONE;
	kernel_replace_values(k, map, k->values.count);
	*kernel_arg(k, made, 0) = karg_value(lanes);
}

static void put_in_lanes(LaneSums *l, const LaneSum *found) {
	Kernel *k = l->k;
	const KStmt *loop = kernel_stmt(k, l->loop);
	ValueId carried = loop->loop->carried.at[found->at], result = loop->result + found->at;
	KValue old = k->values.at[carried];
	widen(k, carried);
	widen(k, result);
	widen(k, kernel_arg(k, l->loop, found->at)->value);
	widen(k, kernel_stmt(k, found->add)->result);
	if (found->total.value != carried)
		widen(k, found->total.value);
	widen_place(k, loop->loop->place.at[found->at], carried);
	widen_place(k, loop->loop->odd.at[found->at], carried);
	const KArg args[] = {found->total, found->condition, found->part};
	bool chosen = found->condition.kind == KARG_VALUE;
	const KArg sum[] = {found->total, found->part};
	kernel_stmt(k, found->add)->op = chosen ? K_FOLD_WHERE : K_FOLD_SUM;
	kernel_set_args(k, found->add, chosen ? 3 : 2, chosen ? args : sum);
	kernel_remove(k, found->sum);
	sum_behind(l, found->at, old);
}

static void lane_sums(Kernel *k, StmtId loop) {
	LaneSums l = {.k = k, .loop = loop, .same = arena_array(k->arena, k->values.count, sizeof(bool))};
	KLoop *data = kernel_stmt(k, loop)->loop;
	find_equal_lanes(&l);
	for (uint32_t i = 0; i < kernel_stmt(k, loop)->arg_count; i++) {
		LaneSum found;
		l.uses = kernel_uses(k);
		if (find_sum(&l, i, &found)) {
			find_choice(&l, &found);
			put_in_lanes(&l, &found);
		}
	}
	data->lane_sums = false;
}

void rewrite_lane_sums(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t i = 0; i < loops.count; i++)
		if (kernel_stmt(k, loops.at[i])->loop->lane_sums)
			lane_sums(k, loops.at[i]);
}
