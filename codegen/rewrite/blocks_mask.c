/* blocks_mask.c - of which rows and columns a mask by position leaves nothing, and whether what is made of those adds
 * nothing: -inf to a maximum, 0 to a sum or a matmul. */
#include <math.h>
#include "blocks.h"

/* ---- what the mask leaves out ------------------------------------------------------------------------------------ */

/* An int + the place along the mask's last two dims, from the end. */
typedef struct Position {
	Linear at;
	int64_t axis[2];
} Position;

/* It has a new dim behind its last one, or is no mere view. */
static bool moves_dims(const KStmt *s) {
	for (uint32_t i = 0; i < s->int_count; i += 3)
		if ((s->ints[i] != K_ITEM_NEW && s->ints[i] != K_ITEM_ALL) ||
		    (i + 3 == s->int_count && s->ints[i] == K_ITEM_NEW))
			return true;
	return false;
}

static void add_tile(const Blocks *b, StmtId call, Position *to, KArg x, int64_t by) {
	const Kernel *k = b->k;
	StmtId s = kernel_def_of(k, x);
	if (x.kind == KARG_INTEGER)
		to->at.number += by * x.integer;
	else if (x.kind == KARG_INT)
		linear_add(k, call, &to->at, x.index, by);
	else if (x.kind == KARG_VALUE && k->values.at[x.value].type == KTYPE_INT)
		linear_add_value(k, call, &to->at, x.value, by);
	else if (s == NONE || !kernel_is_tile(k, x) || k->values.at[x.value].dtype != DTYPE_I32)
		to->at.known = false;
	else if (kernel_stmt(k, s)->op == OP_ADD || kernel_stmt(k, s)->op == OP_SUB) {
		add_tile(b, call, to, *kernel_arg(k, s, 0), by);
		add_tile(b, call, to, *kernel_arg(k, s, 1), kernel_stmt(k, s)->op == OP_ADD ? by : -by);
	} else if (kernel_stmt(k, s)->op == K_IOTA) {
		int64_t axis = (int64_t)k->values.at[x.value].rank - 1 - kernel_stmt(k, s)->ints[0];
		to->at.known = to->at.known && axis < 2;
		to->axis[axis & 1] += by;
	} else if (kernel_stmt(k, s)->op == K_LET || kernel_stmt(k, s)->op == K_BROADCAST ||
	           (kernel_stmt(k, s)->op == K_INDEX && !moves_dims(kernel_stmt(k, s)))) {
		add_tile(b, call, to, *kernel_arg(k, s, 0), by);
	} else {
		to->at.known = false;
	}
}

bool blocks_compares(const Kernel *k, StmtId s) {
	uint16_t op = kernel_stmt(k, s)->op;
	return op == OP_GE || op == OP_GT || op == OP_LE || op == OP_LT;
}

Bound blocks_bound(const Blocks *b, StmtId call, StmtId s, const Part part[2]) {
	uint16_t op = kernel_stmt(b->k, s)->op;
	bool turned = op == OP_LE || op == OP_LT;
	Position d = {.at = {.number = op == OP_GT || op == OP_LT ? -1 : 0, .known = true}};
	add_tile(b, call, &d, *kernel_arg(b->k, s, turned), 1);
	add_tile(b, call, &d, *kernel_arg(b->k, s, !turned), -1);
	int64_t low = d.at.number, high = low, row = d.axis[b->row_axis], column = d.axis[1 - b->row_axis];
	bool known = linear_is_number(&d.at);
	for (uint32_t e = 0; e < 2; e++) {
		int64_t first = d.axis[e] * part[e].start, last = d.axis[e] * (part[e].start + part[e].size - 1);
		low += int_min(first, last);
		high += int_max(first, last);
	}
	int64_t apart = part[b->row_axis].start - part[1 - b->row_axis].start;
	Bound bound = {.holds = !known     ? HOLDS_SOMEWHERE
	                        : low >= 0 ? HOLDS_ALWAYS
	                        : high < 0 ? HOLDS_NEVER
	                                   : HOLDS_SOMEWHERE};
	bound.since = row == -1;
	bound.by = bound.since ? apart - d.at.number : apart + d.at.number;
	bound.fixed = known && row * column == -1 && (row == 1 || row == -1);
	return bound;
}

Holds blocks_hold(const Blocks *b, StmtId call, KArg x, const Part part[2]) {
	const Kernel *k = b->k;
	StmtId s = kernel_def_of(k, x);
	if (s == NONE || !kernel_is_tile(k, x))
		return HOLDS_SOMEWHERE;
	KArg first = *kernel_arg(k, s, 0), second = kernel_stmt(k, s)->arg_count > 1 ? *kernel_arg(k, s, 1) : first;
	switch (kernel_stmt(k, s)->op) {
	case OP_GE:
	case OP_GT:
	case OP_LE:
	case OP_LT: return blocks_bound(b, call, s, part).holds;
	case OP_BITWISE_AND:
	case OP_LOGICAL_AND: {
		Holds a = blocks_hold(b, call, first, part), c = blocks_hold(b, call, second, part);
		if (a == HOLDS_NEVER || c == HOLDS_NEVER)
			return HOLDS_NEVER;
		return a == HOLDS_ALWAYS ? c : HOLDS_SOMEWHERE;
	}
	case K_INDEX: return moves_dims(kernel_stmt(k, s)) ? HOLDS_SOMEWHERE : blocks_hold(b, call, first, part);
	case K_CONVERT:
	case K_LET:
	case K_BROADCAST: return blocks_hold(b, call, first, part);
	default: return HOLDS_SOMEWHERE;
	}
}

/* ---- what that changes ------------------------------------------------------------------------------------------- */

static Known known_of(Blocks *b, KArg x, bool columns) {
	if (karg_is_number(x, 0))
		return KNOWN_ZERO;
	if (karg_is_number(x, 1))
		return KNOWN_ONE;
	if (!kernel_is_tile(b->k, x) || (columns && block_value_dim(b, x.value, b->columns) == NONE))
		return KNOWN_NOT;
	return b->known[x.value];
}

static void know_as(Blocks *b, ValueId v, KArg x) {
	b->known[v] = known_of(b, x, false);
	b->same[v] = x.kind == KARG_VALUE ? b->same[x.value] : NONE;
	b->low[v] = x.kind == KARG_VALUE ? b->low[x.value] : NONE;
}

static void know_of_low(Blocks *b, ValueId v, Known known, KArg low) {
	b->known[v] = known;
	b->low[v] = known == KNOWN_LOW ? b->same[low.value] : b->low[low.value];
}

static bool is_known(const Blocks *b, KArg x, Known known) {
	return x.kind == KARG_VALUE && b->known[x.value] == known;
}

/* As its parameter is wherever that may be. */
static bool is_whole(const Blocks *b, KArg x) { return is_known(b, x, KNOWN_SAME) && b->low[x.value] == NONE; }

static bool is_same(const Blocks *b, KArg x, KArg y) {
	return x.kind == KARG_VALUE && y.kind == KARG_VALUE && b->known[x.value] == KNOWN_SAME &&
	       b->known[y.value] == KNOWN_SAME && b->same[x.value] == b->same[y.value];
}

/* Of two operands one may leave the other as it is. */
static void know_binary(Blocks *b, StmtId s, bool columns) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	KArg x = *kernel_arg(b->k, s, 0), y = *kernel_arg(b->k, s, 1);
	Known a = known_of(b, x, columns), c = known_of(b, y, columns);
	Known neutral = stmt->op == OP_MUL ? KNOWN_ONE : stmt->op == OP_MAXIMUM ? KNOWN_INF : KNOWN_ZERO;
	ValueId v = stmt->result;
	bool scales = y.kind == KARG_REAL && y.real > 0;
	if (stmt->op == OP_SUB && is_whole(b, x) && is_known(b, y, KNOWN_SAFE) && b->low[y.value] == b->same[x.value]) {
		know_of_low(b, v, KNOWN_LOST, y);
		return;
	}
	for (uint32_t i = 0; i < 2 && stmt->op == OP_MUL; i++)
		if (is_whole(b, i ? y : x) && is_known(b, i ? x : y, KNOWN_KEEPS)) {
			know_as(b, v, i ? y : x);
			b->low[v] = b->low[(i ? x : y).value];
			return;
		}
	if (stmt->op == OP_MUL && (a == KNOWN_ZERO || c == KNOWN_ZERO))
		b->known[v] = KNOWN_ZERO;
	else if (stmt->op != OP_MAXIMUM && (stmt->op != OP_MUL || scales) && columns && a == KNOWN_INF)
		b->known[v] = KNOWN_INF;
	else if (stmt->op == OP_SUB && is_same(b, x, y))
		b->known[v] = KNOWN_ZERO;
	else if (c == neutral)
		know_as(b, v, x);
	else if (stmt->op != OP_SUB && a == neutral)
		know_as(b, v, y);
}

/* A sum, maximum or matmul over columns; false: what is left out counts in it. */
static bool know_folded(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	Known wanted = stmt->op == K_MAX ? KNOWN_INF : KNOWN_ZERO;
	bool neutral = false, folds = false;
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		ValueId x = kernel_arg(b->k, s, i)->value;
		uint32_t d = block_value_dim(b, x, b->columns);
		neutral = neutral || (b->known[x] == wanted && d != NONE);
		folds = folds || (d != NONE && block_value_dim(b, stmt->result, b->columns) == NONE);
	}
	if (folds && neutral)
		b->known[stmt->result] = wanted;
	return neutral || !folds;
}

static bool know(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	ValueId v = stmt->result;
	if (v == NONE || stmt->op == K_RETURN || b->k->values.at[v].type != KTYPE_TILE)
		return true;
	bool columns = block_value_dim(b, v, b->columns) != NONE;
	if (s == b->where) {
		KArg fill = *kernel_arg(b->k, s, 2);
		b->known[v] = karg_is_number(fill, 0)           ? KNOWN_ZERO
		              : karg_is_number(fill, -INFINITY) ? KNOWN_INF
		                                                : KNOWN_NOT;
		return b->known[v] != KNOWN_NOT;
	}
	switch (stmt->op) {
	case K_CHOOSE:
		if (kernel_arg(b->k, s, 0)->kind == KARG_VALUE && kernel_arg(b->k, s, 0)->value == b->flag)
			know_as(b, v, *kernel_arg(b->k, s, 1));
		return true;
	case OP_ADD:
	case OP_SUB:
	case OP_MUL:
	case OP_MAXIMUM: know_binary(b, s, columns); return true;
	case OP_EQ: {
		KArg x = *kernel_arg(b->k, s, 0);
		if (is_whole(b, x) && karg_is_number(*kernel_arg(b->k, s, 1), -INFINITY))
			know_of_low(b, v, KNOWN_LOW, x);
		return true;
	}
	case OP_WHERE: {
		KArg low = *kernel_arg(b->k, s, 0), x = *kernel_arg(b->k, s, 2);
		if (is_known(b, low, KNOWN_LOW) && karg_is_number(*kernel_arg(b->k, s, 1), 0) && is_whole(b, x) &&
		    b->same[x.value] == b->low[low.value])
			know_of_low(b, v, KNOWN_SAFE, low);
		return true;
	}
	case OP_EXP:
	case OP_EXP2: {
		Known x = known_of(b, *kernel_arg(b->k, s, 0), columns);
		if (x == KNOWN_LOST) {
			know_of_low(b, v, KNOWN_KEEPS, *kernel_arg(b->k, s, 0));
			return true;
		}
		b->known[v] = x == KNOWN_INF ? KNOWN_ZERO : x == KNOWN_ZERO ? KNOWN_ONE : KNOWN_NOT;
		return true;
	}
	case K_LET: know_as(b, v, *kernel_arg(b->k, s, 0)); return true;
	case K_CONVERT:
	case K_INDEX:
	case K_TRANSPOSE: {
		Known x = known_of(b, *kernel_arg(b->k, s, 0), columns);
		b->known[v] = x == KNOWN_KEEPS || x < KNOWN_SAME ? x : KNOWN_NOT;
		b->low[v] = x == KNOWN_KEEPS ? b->low[kernel_arg(b->k, s, 0)->value] : NONE;
		return true;
	}
	case K_MAX:
	case K_SUM:
	case K_DOT: return know_folded(b, s);
	default: return true;
	}
}

bool blocks_start_as(const Blocks *b, ValueId parameter, double number) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		if (f->parameters.at[i].kind != PARAMETER_VALUE || f->parameters.at[i].id != parameter)
			continue;
		KArg x = *kernel_arg(k, b->steps[0].call, i);
		StmtId def = kernel_def_of(k, x);
		if (def == NONE)
			return karg_is_number(x, number);
		const KStmt *s = kernel_stmt(k, def);
		return (s->op == K_ZEROS && number == 0) ||
		       (s->op == K_FULL && karg_is_number(*kernel_arg(k, def, 0), number));
	}
	return false;
}

/* A row that has seen nothing has 0 where its maximum is -inf: so it starts, and so each step leaves it. */
static bool stays_zero(Blocks *b, ValueId result, StmtId end) {
	ValueId low = b->low[result];
	bool passed_on = low == NONE;
	for (uint32_t i = 0; i < kernel_stmt(b->k, end)->arg_count; i++) {
		KArg x = *kernel_arg(b->k, end, i);
		passed_on = passed_on || (is_whole(b, x) && b->same[x.value] == low);
	}
	return passed_on &&
	       (low == NONE || (blocks_start_as(b, low, -INFINITY) && blocks_start_as(b, b->same[result], 0)));
}

/* Columns that are left out change nothing. */
bool blocks_know_step(Blocks *b) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		ValueId v = f->parameters.at[i].id;
		if (f->parameters.at[i].kind != PARAMETER_VALUE || k->values.at[v].type != KTYPE_TILE)
			continue;
		b->known[v] = block_value_dim(b, v, b->columns) == NONE ? KNOWN_SAME : KNOWN_NOT;
		b->same[v] = v;
		b->low[v] = NONE;
	}
	bool fits = true;
	for (StmtId s = region_first(k, f->body); s != NONE; s = kernel_stmt(k, s)->next)
		fits = know(b, s) && fits;
	StmtId end = region_last(k, f->body);
	b->skips = true;
	for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++) {
		KArg x = *kernel_arg(k, end, i);
		b->skips = b->skips && kernel_is_tile(k, x) && b->known[x.value] == KNOWN_SAME &&
		           stays_zero(b, x.value, end);
	}
	return fits;
}
