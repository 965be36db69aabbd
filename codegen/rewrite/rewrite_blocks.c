/* rewrite_blocks.c - the masked steps behind a loop in blocks of their rows and columns: what the mask leaves nothing of
 * is not computed. The rows of a block need the columns up to their own diagonal alone.
 *
 *     m, acc = call step((j), s, v[..], m, acc, masked)      m_1 = index m items=[:, 0:256]
 *                                                            s_1 = load s_ref[:, 0 +: 256, 0 +: 256]
 *                                                            m_2, acc_2 = call step_256_256((j), s_1, ..., masked)
 *                                                            m_3 = index m items=[:, 256:512]
 *                                                            s_3 = load s_ref[:, 0 +: 512, 256 +: 256]
 *                                                            m_4, acc_4 = call step_256_512((j), s_3, ..., masked)
 *                                                            m = concatenate m_2, m_4 axis=1
 *
 * Axes that must be cut alike are of one class: all that a statement makes element by element, what a matmul contracts.
 * Rows are the axis of the mask by which a step gives its results; columns are folded away in it: by a maximum of what is
 * -inf where the mask is not set, a sum or a matmul of what is 0 there. So numbers are those of the whole step, but for
 * 0 times what is not finite. */
#include <math.h>
#include "rewrite.h"

enum { BLOCK = 256, TERMS_MAX = 8, STEPS_MAX = 2 };

/* What a value is on columns that the mask leaves out, or, of one without columns, where it leaves out all of them. */
typedef enum Known { KNOWN_NOT, KNOWN_INF, KNOWN_ZERO, KNOWN_ONE, KNOWN_SAME /* as a parameter is */ } Known;

typedef struct Part {
	int64_t start, size;
} Part;

/* A step behind the loop. */
typedef struct Step {
	StmtId call, ahead; /* of what ran ahead of it, if that stands behind the loop; NONE */
	Part *columns;      /* by block of rows: those that it needs; none: all is masked */
	bool *masked;       /* ... and whether the mask leaves some of these out */
} Step;

typedef struct Blocks {
	Kernel *k;
	RegionId region;
	uint32_t values; /* that there were before */
	FunctionId step, ahead; /* NONE: nothing runs ahead behind the loop, or it stays whole */
	StmtId where;           /* the choice by position */
	ValueId flag;
	uint32_t *root; /* by axis of a value, then of a buffer: one of its class */
	bool *whole;    /* by class: it cannot be cut */
	uint32_t rows, columns; /* classes */
	uint32_t row_axis;      /* of the mask, from its end: 0 or 1 */
	Known *known;           /* by value */
	uint32_t *same;         /* by value that is as a parameter is: which value */
	bool skips;             /* a step of which all columns are masked gives what it is given */
	int64_t size[2];        /* rows, columns of a step */
	bool moves[2];          /* not all blocks start at the first row, or column */
	uint32_t parts;         /* blocks of rows */
	Step steps[STEPS_MAX];
	uint32_t count;
	VEC(FunctionId) made;   /* functions of blocks, ... */
	VEC(FunctionId) made_of;
	VEC(Part) made_size;    /* (rows, columns) of each */
} Blocks;

static StmtId def_of(const Kernel *k, KArg x) { return x.kind == KARG_VALUE ? k->values.at[x.value].def : NONE; }

static bool is_tile(const Kernel *k, KArg x) {
	return x.kind == KARG_VALUE && k->values.at[x.value].type == KTYPE_TILE;
}

/* ---- classes of axes --------------------------------------------------------------------------------------------- */

static uint32_t axis_at(uint32_t v, uint32_t axis) { return v * KDIM_MAX + axis; }
static uint32_t buffer_axis(const Blocks *b, BufferId buffer, uint32_t axis) {
	return axis_at(b->values + buffer, axis);
}

static uint32_t class_of(Blocks *b, uint32_t axis) {
	while (b->root[axis] != axis)
		axis = b->root[axis] = b->root[b->root[axis]];
	return axis;
}

static void join(Blocks *b, uint32_t x, uint32_t y) {
	x = class_of(b, x);
	y = class_of(b, y);
	b->root[x] = y;
	b->whole[y] = b->whole[y] || b->whole[x];
}

static void keep_whole(Blocks *b, uint32_t axis) { b->whole[class_of(b, axis)] = true; }

static void keep_value_whole(Blocks *b, ValueId v) {
	for (uint32_t d = 0; d < b->k->values.at[v].rank; d++)
		keep_whole(b, axis_at(v, d));
}

static void join_values(Blocks *b, ValueId x, ValueId y) {
	const KValue *a = &b->k->values.at[x], *c = &b->k->values.at[y];
	for (uint32_t d = 0; d < a->rank && a->rank == c->rank; d++)
		join(b, axis_at(x, d), axis_at(y, d));
}

/* Element by element, counted from the last dim; one element goes with all. */
static void join_pointwise(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	const KValue *to = &b->k->values.at[stmt->result];
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		KArg x = *kernel_arg(b->k, s, i);
		const KValue *from = is_tile(b->k, x) ? &b->k->values.at[x.value] : NULL;
		for (uint32_t e = 1; from && e <= from->rank && e <= to->rank; e++)
			if (from->shape[from->rank - e] != 1)
				join(b, axis_at(x.value, from->rank - e), axis_at(stmt->result, to->rank - e));
	}
}

static void join_loaded(Blocks *b, StmtId s) {
	const KRef *ref = &b->k->refs.at[kernel_arg(b->k, s, 0)->ref];
	uint32_t axis = 0;
	for (uint32_t d = 0; d < b->k->buffers.at[ref->buffer].rank; d++) {
		KDimKind kind = d < ref->rank ? ref->dim[d].kind : KDIM_ALL;
		if (kind == KDIM_AT)
			continue;
		join(b, axis_at(kernel_stmt(b->k, s)->result, axis), buffer_axis(b, ref->buffer, d));
		if (kind != KDIM_ALL)
			keep_whole(b, buffer_axis(b, ref->buffer, d));
		axis++;
	}
}

static bool reduces(const KStmt *s, uint32_t axis) {
	for (uint32_t i = 1; i < s->int_count; i++)
		if (s->ints[i] == (int64_t)axis)
			return true;
	return s->int_count == 1;
}

/* One axis of the operand after the other, and of the result. */
static void join_reduced(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	ValueId x = kernel_arg(b->k, s, 0)->value;
	for (uint32_t d = 0, to = 0; d < b->k->values.at[x].rank; d++) {
		if (!reduces(stmt, d))
			join(b, axis_at(x, d), axis_at(stmt->result, to));
		to += stmt->ints[0] || !reduces(stmt, d);
	}
}

/* A batch first, where there are three; then what is left of each factor. */
static void join_multiplied(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	uint32_t to = 0;
	for (uint32_t i = 0; i < 2; i++) {
		ValueId x = kernel_arg(b->k, s, i)->value;
		uint32_t rank = b->k->values.at[x].rank;
		for (uint32_t d = 0; d < rank; d++) {
			bool batch = rank == 3 && d == 0;
			if ((int64_t)d != stmt->ints[i])
				join(b, axis_at(x, d), axis_at(stmt->result, batch ? 0 : to));
			to += (int64_t)d != stmt->ints[i] && !(batch && i == 1);
		}
	}
	join(b, axis_at(kernel_arg(b->k, s, 0)->value, (uint32_t)stmt->ints[0]),
	     axis_at(kernel_arg(b->k, s, 1)->value, (uint32_t)stmt->ints[1]));
}

/* New dims alone. */
static bool join_indexed(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	ValueId x = kernel_arg(b->k, s, 0)->value;
	uint32_t from = 0, to = 0, rank = b->k->values.at[x].rank;
	for (uint32_t i = 0; i < stmt->int_count; i += 3) {
		if (stmt->ints[i] == K_ITEM_ALL && from < rank)
			join(b, axis_at(x, from++), axis_at(stmt->result, to));
		else if (stmt->ints[i] != K_ITEM_NEW)
			return false;
		to++;
	}
	while (from < rank)
		join(b, axis_at(x, from++), axis_at(stmt->result, to++));
	return true;
}

static bool is_pointwise(uint16_t op) {
	return op < OP_COUNT || op == K_CONVERT || op == K_LET || op == K_CHOOSE || op == K_BROADCAST;
}

static bool is_dot(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	return stmt->op == K_DOT && stmt->arg_count == 2 && is_tile(k, *kernel_arg(k, s, 0)) &&
	       is_tile(k, *kernel_arg(k, s, 1));
}

static bool is_fold(const Kernel *k, StmtId s) {
	uint16_t op = kernel_stmt(k, s)->op;
	return (op == K_MAX || op == K_SUM) && is_tile(k, *kernel_arg(k, s, 0));
}

/* Of what is not known all stays whole. */
static void join_axes(Blocks *b, StmtId s) {
	Kernel *k = b->k;
	const KStmt *stmt = kernel_stmt(k, s);
	bool known = true;
	if (stmt->op == K_RETURN || stmt->result == NONE)
		return;
	if (is_pointwise(stmt->op))
		join_pointwise(b, s);
	else if (stmt->op == K_LOAD)
		join_loaded(b, s);
	else if (is_fold(k, s))
		join_reduced(b, s);
	else if (is_dot(k, s))
		join_multiplied(b, s);
	else if (stmt->op == K_INDEX)
		known = join_indexed(b, s);
	else if (stmt->op == K_TRANSPOSE)
		for (uint32_t d = 0; d < stmt->int_count; d++)
			join(b, axis_at(kernel_arg(k, s, 0)->value, (uint32_t)stmt->ints[d]), axis_at(stmt->result, d));
	else
		known = stmt->op == K_IOTA || stmt->op == K_INT || stmt->op == K_SCALAR || stmt->op == K_ZEROS ||
		        stmt->op == K_FULL;
	for (uint32_t i = 0; !known && i < stmt->arg_count; i++)
		if (is_tile(k, *kernel_arg(k, s, i)))
			keep_value_whole(b, kernel_arg(k, s, i)->value);
	if (!known)
		keep_value_whole(b, stmt->result);
}

/* Which dim of a value, or of a buffer, is of the class; NONE. */
static uint32_t dim_in(Blocks *b, uint32_t first, uint32_t rank, uint32_t class) {
	for (uint32_t d = 0; d < rank; d++)
		if (class_of(b, first + d) == class_of(b, class))
			return d;
	return NONE;
}

static uint32_t value_dim(Blocks *b, ValueId v, uint32_t class) {
	return dim_in(b, axis_at(v, 0), b->k->values.at[v].rank, class);
}

/* Statements alone, none of which does anything but compute and load. */
static bool computes_only(const Kernel *k, FunctionId f) {
	for (StmtId s = region_first(k, k->functions.at[f].body); s != NONE; s = kernel_stmt(k, s)->next) {
		const KStmt *stmt = kernel_stmt(k, s);
		KOpKind kind = kernel_op_kind(stmt->op);
		if (kind != KIND_PURE && stmt->op != K_LOAD && stmt->op != K_RETURN)
			return false;
		if (stmt->op != K_RETURN && stmt->result_count != 1)
			return false;
	}
	StmtId last = region_last(k, k->functions.at[f].body);
	return last != NONE && kernel_stmt(k, last)->op == K_RETURN;
}

static void join_function(Blocks *b, FunctionId f) {
	for (StmtId s = region_first(b->k, b->k->functions.at[f].body); s != NONE; s = kernel_stmt(b->k, s)->next)
		join_axes(b, s);
}

/* ---- what the mask leaves out ------------------------------------------------------------------------------------- */

/* number + what ints that are not known add + the place along the mask's last two dims, from the end. */
typedef struct Linear {
	int64_t number, axis[2];
	ValueId term[TERMS_MAX];
	int64_t by[TERMS_MAX];
	uint32_t terms;
	bool known;
} Linear;

static void add_term(Linear *to, ValueId v, int64_t by) {
	uint32_t i = 0;
	while (i < to->terms && to->term[i] != v)
		i++;
	to->known = to->known && i < TERMS_MAX;
	if (!to->known)
		return;
	if (i == to->terms) {
		to->term[i] = v;
		to->by[i] = 0;
		to->terms++;
	}
	to->by[i] += by;
}

static void add_int(const Blocks *b, StmtId call, Linear *to, IntId id, int64_t by);

/* A parameter is what the call gives for it, an int by name what it names. */
static void add_int_value(const Blocks *b, StmtId call, Linear *to, ValueId v, int64_t by) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	StmtId def = k->values.at[v].def;
	for (uint32_t i = 0; i < f->parameters.count; i++)
		if (f->parameters.at[i].kind == PARAMETER_VALUE && f->parameters.at[i].id == v) {
			to->known = to->known && kernel_arg(k, call, i)->kind == KARG_INT;
			if (to->known)
				add_int(b, call, to, kernel_arg(k, call, i)->index, by);
			return;
		}
	if (def != NONE && kernel_stmt(k, def)->op == K_INT && kernel_arg(k, def, 0)->kind == KARG_INT)
		add_int(b, call, to, kernel_arg(k, def, 0)->index, by);
	else
		add_term(to, v, by);
}

static void add_int(const Blocks *b, StmtId call, Linear *to, IntId id, int64_t by) {
	const KInt *i = &b->k->ints.at[id];
	int64_t number;
	switch (i->kind) {
	case INT_CONST: to->number += by * i->number; break;
	case INT_VALUE: add_int_value(b, call, to, i->value, by); break;
	case INT_NEG: add_int(b, call, to, i->a, -by); break;
	case INT_ADD:
	case INT_SUB:
		add_int(b, call, to, i->a, by);
		add_int(b, call, to, i->b, i->kind == INT_ADD ? by : -by);
		break;
	case INT_MUL:
		if (int_is_const(b->k, i->b, &number))
			add_int(b, call, to, i->a, by * number);
		else if (int_is_const(b->k, i->a, &number))
			add_int(b, call, to, i->b, by * number);
		else
			to->known = false;
		break;
	default: to->known = false;
	}
}

/* It has a new dim behind its last one, or is no mere view. */
static bool moves_dims(const KStmt *s) {
	for (uint32_t i = 0; i < s->int_count; i += 3)
		if ((s->ints[i] != K_ITEM_NEW && s->ints[i] != K_ITEM_ALL) ||
		    (i + 3 == s->int_count && s->ints[i] == K_ITEM_NEW))
			return true;
	return false;
}

static void add_tile(const Blocks *b, StmtId call, Linear *to, KArg x, int64_t by) {
	const Kernel *k = b->k;
	StmtId s = def_of(k, x);
	if (x.kind == KARG_INTEGER)
		to->number += by * x.integer;
	else if (x.kind == KARG_INT)
		add_int(b, call, to, x.index, by);
	else if (x.kind == KARG_VALUE && k->values.at[x.value].type == KTYPE_INT)
		add_int_value(b, call, to, x.value, by);
	else if (s == NONE || !is_tile(k, x) || k->values.at[x.value].dtype != DTYPE_I32)
		to->known = false;
	else if (kernel_stmt(k, s)->op == OP_ADD || kernel_stmt(k, s)->op == OP_SUB) {
		add_tile(b, call, to, *kernel_arg(k, s, 0), by);
		add_tile(b, call, to, *kernel_arg(k, s, 1), kernel_stmt(k, s)->op == OP_ADD ? by : -by);
	} else if (kernel_stmt(k, s)->op == K_IOTA) {
		int64_t axis = (int64_t)k->values.at[x.value].rank - 1 - kernel_stmt(k, s)->ints[0];
		to->known = to->known && axis < 2;
		to->axis[axis & 1] += by;
	} else if (kernel_stmt(k, s)->op == K_LET || kernel_stmt(k, s)->op == K_BROADCAST ||
	           (kernel_stmt(k, s)->op == K_INDEX && !moves_dims(kernel_stmt(k, s)))) {
		add_tile(b, call, to, *kernel_arg(k, s, 0), by);
	} else {
		to->known = false;
	}
}

typedef enum Holds { HOLDS_SOMEWHERE, HOLDS_ALWAYS, HOLDS_NEVER } Holds;

/* a - b >= least, of places of the mask's last two dims from the end in such parts. */
static Holds compared(const Blocks *b, StmtId call, KArg x, KArg y, int64_t least, const Part part[2]) {
	Linear d = {.known = true};
	add_tile(b, call, &d, x, 1);
	add_tile(b, call, &d, y, -1);
	int64_t low = d.number - least, high = low;
	for (uint32_t i = 0; i < d.terms; i++)
		d.known = d.known && d.by[i] == 0;
	for (uint32_t e = 0; e < 2; e++) {
		int64_t first = d.axis[e] * part[e].start, last = d.axis[e] * (part[e].start + part[e].size - 1);
		low += int_min(first, last);
		high += int_max(first, last);
	}
	return !d.known ? HOLDS_SOMEWHERE : low >= 0 ? HOLDS_ALWAYS : high < 0 ? HOLDS_NEVER : HOLDS_SOMEWHERE;
}

static Holds holds(const Blocks *b, StmtId call, KArg x, const Part part[2]) {
	const Kernel *k = b->k;
	StmtId s = def_of(k, x);
	if (s == NONE || !is_tile(k, x))
		return HOLDS_SOMEWHERE;
	KArg first = *kernel_arg(k, s, 0), second = kernel_stmt(k, s)->arg_count > 1 ? *kernel_arg(k, s, 1) : first;
	switch (kernel_stmt(k, s)->op) {
	case OP_GE: return compared(b, call, first, second, 0, part);
	case OP_GT: return compared(b, call, first, second, 1, part);
	case OP_LE: return compared(b, call, second, first, 0, part);
	case OP_LT: return compared(b, call, second, first, 1, part);
	case OP_BITWISE_AND:
	case OP_LOGICAL_AND: {
		Holds a = holds(b, call, first, part), c = holds(b, call, second, part);
		if (a == HOLDS_NEVER || c == HOLDS_NEVER)
			return HOLDS_NEVER;
		return a == HOLDS_ALWAYS ? c : HOLDS_SOMEWHERE;
	}
	case K_INDEX: return moves_dims(kernel_stmt(k, s)) ? HOLDS_SOMEWHERE : holds(b, call, first, part);
	case K_CONVERT:
	case K_LET:
	case K_BROADCAST: return holds(b, call, first, part);
	default: return HOLDS_SOMEWHERE;
	}
}

/* ---- what that changes ------------------------------------------------------------------------------------------- */

static bool is_number(KArg x, double number) {
	return (x.kind == KARG_REAL && x.real == number) || (x.kind == KARG_INTEGER && (double)x.integer == number);
}

static Known known_of(Blocks *b, KArg x, bool columns) {
	if (is_number(x, 0))
		return KNOWN_ZERO;
	if (is_number(x, 1))
		return KNOWN_ONE;
	if (!is_tile(b->k, x) || (columns && value_dim(b, x.value, b->columns) == NONE))
		return KNOWN_NOT;
	return b->known[x.value];
}

static void know_as(Blocks *b, ValueId v, KArg x) {
	b->known[v] = x.kind == KARG_VALUE ? b->known[x.value] : known_of(b, x, false);
	b->same[v] = x.kind == KARG_VALUE ? b->same[x.value] : NONE;
}

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
		uint32_t d = value_dim(b, x, b->columns);
		neutral = neutral || (b->known[x] == wanted && d != NONE);
		folds = folds || (d != NONE && value_dim(b, stmt->result, b->columns) == NONE);
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
	bool columns = value_dim(b, v, b->columns) != NONE;
	if (s == b->where) {
		KArg fill = *kernel_arg(b->k, s, 2);
		b->known[v] = is_number(fill, 0) ? KNOWN_ZERO : is_number(fill, -INFINITY) ? KNOWN_INF : KNOWN_NOT;
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
	case OP_EXP:
	case OP_EXP2: {
		Known x = known_of(b, *kernel_arg(b->k, s, 0), columns);
		b->known[v] = x == KNOWN_INF ? KNOWN_ZERO : x == KNOWN_ZERO ? KNOWN_ONE : KNOWN_NOT;
		return true;
	}
	case K_LET: know_as(b, v, *kernel_arg(b->k, s, 0)); return true;
	case K_CONVERT:
	case K_INDEX:
	case K_TRANSPOSE: {
		Known x = known_of(b, *kernel_arg(b->k, s, 0), columns);
		b->known[v] = x == KNOWN_SAME ? KNOWN_NOT : x;
		return true;
	}
	case K_MAX:
	case K_SUM:
	case K_DOT: return know_folded(b, s);
	default: return true;
	}
}

/* Columns that are left out change nothing. */
static bool know_step(Blocks *b) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		ValueId v = f->parameters.at[i].id;
		if (f->parameters.at[i].kind != PARAMETER_VALUE || k->values.at[v].type != KTYPE_TILE)
			continue;
		b->known[v] = value_dim(b, v, b->columns) == NONE ? KNOWN_SAME : KNOWN_NOT;
		b->same[v] = v;
	}
	bool fits = true;
	for (StmtId s = region_first(k, f->body); s != NONE; s = kernel_stmt(k, s)->next)
		fits = know(b, s) && fits;
	StmtId end = region_last(k, f->body);
	b->skips = true;
	for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++) {
		KArg x = *kernel_arg(k, end, i);
		b->skips = b->skips && is_tile(k, x) && b->known[x.value] == KNOWN_SAME;
	}
	return fits;
}

/* ---- functions of blocks ----------------------------------------------------------------------------------------- */

/* Which axis of its is cut: rows 0, columns 1; 2: none. */
static uint32_t cut_of(Blocks *b, uint32_t axis) {
	uint32_t class = class_of(b, axis);
	return class == class_of(b, b->rows) ? 0 : class == class_of(b, b->columns) ? 1 : 2;
}

/* The function reads where its block starts. */
static bool reads_start(Blocks *b, FunctionId f, uint32_t cut) {
	const Kernel *k = b->k;
	bool reads = false;
	for (StmtId s = region_first(k, k->functions.at[f].body); s != NONE && b->moves[cut];
	     s = kernel_stmt(k, s)->next) {
		const KStmt *stmt = kernel_stmt(k, s);
		if (stmt->op == K_IOTA)
			reads = reads || cut_of(b, axis_at(stmt->result, (uint32_t)stmt->ints[0])) == cut;
		BufferId x = stmt->op == K_LOAD ? k->refs.at[kernel_arg(k, s, 0)->ref].buffer : NONE;
		for (uint32_t d = 0; x != NONE && k->buffers.at[x].role != BUFFER_PARAMETER && d < k->buffers.at[x].rank;
		     d++)
			reads = reads || cut_of(b, buffer_axis(b, x, d)) == cut;
	}
	return reads;
}

typedef struct Copy {
	Blocks *b;
	int64_t size[2];
	ValueId start[2]; /* NONE: nothing reads it */
	ValueId *now;     /* by value of the whole step's function */
	BufferId *buffer; /* by buffer */
	VEC(ValueId) ints;
} Copy;

static const int64_t *cut_shape(Copy *c, uint32_t first, uint32_t rank, const int64_t *shape) {
	int64_t *cut = arena_array(c->b->k->arena, KDIM_MAX, sizeof *cut);
	for (uint32_t d = 0; d < rank; d++) {
		uint32_t which = cut_of(c->b, first + d);
		cut[d] = which < 2 ? c->size[which] : shape[d];
	}
	return cut;
}

static IntId int_copied(Copy *c, IntId i) {
	for (uint32_t v = 0; v < c->ints.count; v++)
		i = int_substitute(c->b->k, i, c->ints.at[v], int_value(c->b->k, c->now[c->ints.at[v]]));
	return i;
}

static RefId ref_copied(Copy *c, RefId id) {
	Kernel *k = c->b->k;
	KRef ref = k->refs.at[id];
	KDim dim[KDIM_MAX];
	uint32_t rank = k->buffers.at[ref.buffer].rank;
	bool parameter = k->buffers.at[ref.buffer].role == BUFFER_PARAMETER, any = ref.rank > 0;
	for (uint32_t d = 0; d < rank; d++) {
		uint32_t which = parameter ? 2 : cut_of(c->b, buffer_axis(c->b, ref.buffer, d));
		dim[d] = d < ref.rank ? ref.dim[d] : (KDim){.kind = KDIM_ALL};
		if (dim[d].kind != KDIM_ALL)
			dim[d].start = int_copied(c, dim[d].start);
		else if (which < 2)
			dim[d] = (KDim){.kind = KDIM_RANGE,
			                .start = c->start[which] == NONE ? int_const(k, 0)
			                                                 : int_value(k, c->start[which]),
			                .size = c->size[which]};
		any = any || which < 2;
	}
	return kernel_ref(k, parameter ? c->buffer[ref.buffer] : ref.buffer, any ? rank : 0, dim);
}

static KArg arg_copied(Copy *c, KArg x) {
	if (x.kind == KARG_VALUE && c->now[x.value] != NONE)
		x.value = c->now[x.value];
	else if (x.kind == KARG_INT)
		x.index = int_copied(c, x.index);
	else if (x.kind == KARG_REF)
		x.ref = ref_copied(c, x.ref);
	return x;
}

static ValueId value_copied(Copy *c, StmtId s, ValueId like, const char *name) {
	Kernel *k = c->b->k;
	KValue x = k->values.at[like];
	const int64_t *shape = cut_shape(c, axis_at(like, 0), x.rank, x.shape);
	ValueId v = s == NONE ? kernel_value(k, x.type, x.dtype, x.rank, shape, name)
	                      : kernel_result(k, s, x.type, x.dtype, x.rank, shape, name);
	k->values.at[v].layout = x.layout;
	k->values.at[v].as = name ? like : NONE; /* of another function, called alike */
	return v;
}

static void copy_stmt(Copy *c, StmtId s, RegionId to) {
	Kernel *k = c->b->k;
	KStmt old = *kernel_stmt(k, s);
	KArg *args = arena_array(k->arena, old.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < old.arg_count; i++)
		args[i] = arg_copied(c, *kernel_arg(k, s, i));
	StmtId made = kernel_append(k, to, old.op, old.arg_count, args, old.int_count, old.ints);
	uint32_t which = old.op == K_IOTA ? cut_of(c->b, axis_at(old.result, (uint32_t)old.ints[0])) : 2;
	bool moved = which < 2 && c->start[which] != NONE;
	const char *name = old.result == NONE ? NULL : value_name(k, old.result);
	if (old.result != NONE)
		c->now[old.result] = value_copied(c, made, old.result, moved ? NULL : name);
	if (moved) {
		const KArg sum[] = {karg_int(int_value(k, c->start[which])), karg_value(c->now[old.result])};
		made = kernel_append(k, to, OP_ADD, 2, sum, 0, NULL);
		c->now[old.result] = value_copied(c, made, old.result, name);
	}
	if (old.result != NONE && k->values.at[old.result].type == KTYPE_INT)
		vec_push(k->arena, &c->ints, old.result);
	KStmt *stmt = kernel_stmt(k, made);
	stmt->from = old.from;
	stmt->also = old.also;
	stmt->flags = old.flags;
}

static void add_starts(Copy *c, FunctionId of, FunctionId f) {
	static const char *const names[] = {"first_row", "first_column"};
	Kernel *k = c->b->k;
	for (uint32_t i = 0; i < 2; i++) {
		c->start[i] = NONE;
		if (!reads_start(c->b, of, i))
			continue;
		c->start[i] = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, names[i]);
		k->values.at[c->start[i]].exact = true;
		KParameter parameter = {PARAMETER_VALUE, c->start[i]};
		vec_push(k->arena, &k->functions.at[f].parameters, parameter);
	}
}

/* The starts stand before the flag. */
static void copy_parameters(Copy *c, FunctionId of, FunctionId f) {
	Kernel *k = c->b->k;
	bool started = false;
	for (uint32_t i = 0; i < k->functions.at[of].parameters.count; i++) {
		KParameter p = k->functions.at[of].parameters.at[i];
		if (p.kind == PARAMETER_FLAG && !started) {
			add_starts(c, of, f);
			started = true;
		}
		if (p.kind == PARAMETER_BUFFER) {
			KBuffer x = k->buffers.at[p.id];
			x.shape = cut_shape(c, buffer_axis(c->b, p.id, 0), x.rank, x.shape);
			p.id = c->buffer[p.id] = kernel_buffer(k, x);
		} else {
			ValueId v = value_copied(c, NONE, p.id, value_name(k, p.id));
			if (k->values.at[p.id].type == KTYPE_INT)
				vec_push(k->arena, &c->ints, p.id);
			p.id = c->now[p.id] = v;
		}
		vec_push(k->arena, &k->functions.at[f].parameters, p);
	}
	if (!started)
		add_starts(c, of, f);
}

static FunctionId make_function(Blocks *b, FunctionId of, Part size) {
	Kernel *k = b->k;
	Copy c = {.b = b, .size = {size.start, size.size}};
	c.now = arena_array(k->arena, b->values + 1, sizeof *c.now);
	c.buffer = arena_array(k->arena, k->buffers.count + 1, sizeof *c.buffer);
	memset(c.now, 0xff, (b->values + 1) * sizeof *c.now);
	const char *like = k->functions.at[of].name ? k->functions.at[of].name : k->functions.at[of].var;
	FunctionId f = kernel_function(
		k, FUNCTION_PLAIN,
		arena_printf(k->arena, "%s_%lld_%lld", like, (long long)size.start, (long long)size.size));
	StmtId old = k->regions.at[k->functions.at[of].body].owner;
	StmtId def = kernel_insert_before(k, kernel_stmt(k, old)->next, K_DEF, 0, NULL, 0, NULL);
	kernel_stmt(k, def)->function = f;
	kernel_stmt(k, def)->from = kernel_stmt(k, old)->from;
	k->regions.at[k->functions.at[f].body].owner = def;
	copy_parameters(&c, of, f);
	for (StmtId s = region_first(k, k->functions.at[of].body); s != NONE; s = kernel_stmt(k, s)->next)
		copy_stmt(&c, s, k->functions.at[f].body);
	return f;
}

/* (rows, columns) as start and size. */
static FunctionId function_of(Blocks *b, FunctionId of, Part size) {
	for (uint32_t i = 0; i < b->made.count; i++)
		if (b->made_of.at[i] == of && b->made_size.at[i].start == size.start &&
		    b->made_size.at[i].size == size.size)
			return b->made.at[i];
	FunctionId f = make_function(b, of, size);
	vec_push(b->k->arena, &b->made, f);
	vec_push(b->k->arena, &b->made_of, of);
	vec_push(b->k->arena, &b->made_size, size);
	return f;
}

/* ---- calls of blocks --------------------------------------------------------------------------------------------- */

/* What is there of a step, and of what runs ahead of it, in the block of rows that is being made. */
typedef struct Group {
	Blocks *b;
	StmtId before; /* statements go there; NONE: to the region's end */
	Part cut[2];   /* rows, columns */
	ValueId *done; /* by value of the region: what a call of the block gave for it; NONE */
} Group;

static StmtId put(Group *g, uint16_t op, uint32_t count, const KArg *args, uint32_t ints, const int64_t *numbers) {
	if (g->before == NONE)
		return kernel_append(g->b->k, g->b->region, op, count, args, ints, numbers);
	return kernel_insert_before(g->b->k, g->before, op, count, args, ints, numbers);
}

static ValueId result(Group *g, StmtId s, ValueId like, const int64_t *shape) {
	Kernel *k = g->b->k;
	KValue x = k->values.at[like];
	ValueId v = kernel_result(k, s, x.type, x.dtype, x.rank, shape, value_name(k, like));
	k->values.at[v].layout = x.layout;
	return v;
}

/* The part of a reference that the block of a dim, `which`, of all that it names is. */
static KDim dim_cut(Kernel *k, KDim dim, Part part) {
	if (dim.kind == KDIM_ALL)
		return (KDim){.kind = KDIM_RANGE, .start = int_const(k, part.start), .size = part.size};
	if (dim.kind == KDIM_PART)
		dim.start = int_binary(k, INT_MUL, dim.start, int_const(k, dim.size));
	if (part.start)
		dim.start = int_binary(k, INT_ADD, dim.start, int_const(k, part.start));
	while (dim.multiple && part.start % dim.multiple)
		dim.multiple /= 2;
	return (KDim){.kind = KDIM_RANGE, .start = dim.start, .size = part.size, .multiple = dim.multiple};
}

/* Dims of what the reference names are those of a value, or of a parameter, whose axes start at `first`. */
static KArg ref_cut(Group *g, RefId id, uint32_t first) {
	Kernel *k = g->b->k;
	KRef ref = k->refs.at[id];
	KDim dim[KDIM_MAX];
	uint32_t rank = k->buffers.at[ref.buffer].rank, axis = 0;
	for (uint32_t d = 0; d < rank; d++) {
		dim[d] = d < ref.rank ? ref.dim[d] : (KDim){.kind = KDIM_ALL};
		if (dim[d].kind == KDIM_AT)
			continue;
		uint32_t which = cut_of(g->b, first + axis++);
		if (which < 2)
			dim[d] = dim_cut(k, dim[d], g->cut[which]);
	}
	return karg_ref(kernel_ref(k, ref.buffer, rank, dim));
}

/* Between a load and the last call nothing may change what it read. */
static bool stays(const Blocks *b, StmtId load) {
	const Kernel *k = b->k;
	BufferId buffer = k->refs.at[kernel_arg(k, load, 0)->ref].buffer;
	StmtId last = b->steps[b->count - 1].call;
	for (StmtId s = kernel_stmt(k, load)->next; s != last; s = kernel_stmt(k, s)->next) {
		uint16_t op = s == NONE ? K_FORI : kernel_stmt(k, s)->op;
		bool stores = op == K_STORE && k->refs.at[kernel_arg(k, s, 0)->ref].buffer == buffer;
		if (stores || (op != K_STORE && op != K_CALL && op != K_DEF && op != K_LOAD &&
		               (op >= K_END || kernel_op_kind(op) != KIND_PURE)))
			return false;
	}
	return true;
}

/* A block of a value as the parameter `like` has it. */
static KArg value_cut(Group *g, KArg x, ValueId like) {
	Kernel *k = g->b->k;
	int64_t items[3 * KDIM_MAX], shape[KDIM_MAX];
	bool any = false;
	if (x.kind == KARG_VALUE && x.value < g->b->values && g->done[x.value] != NONE)
		return karg_value(g->done[x.value]);
	if (!is_tile(k, x))
		return x;
	for (uint32_t d = 0; d < k->values.at[like].rank; d++) {
		uint32_t which = cut_of(g->b, axis_at(like, d));
		Part all = {0, k->values.at[like].shape[d]}, part = which < 2 ? g->cut[which] : all;
		any = any || which < 2;
		shape[d] = part.size;
		items[3 * d] = which < 2 ? K_ITEM_RANGE : K_ITEM_ALL;
		items[3 * d + 1] = which < 2 ? part.start : 0;
		items[3 * d + 2] = which < 2 ? part.start + part.size : 0;
	}
	StmtId def = def_of(k, x);
	if (!any)
		return x;
	if (def != NONE && kernel_stmt(k, def)->op == K_LOAD && kernel_stmt(k, def)->region == g->b->region &&
	    stays(g->b, def)) {
		KArg ref = ref_cut(g, kernel_arg(k, def, 0)->ref, axis_at(like, 0));
		StmtId load = put(g, K_LOAD, 1, &ref, 0, NULL);
		return karg_value(kernel_result(k, load, KTYPE_TILE, k->values.at[x.value].dtype,
		                                k->values.at[like].rank, shape, NULL));
	}
	StmtId s = put(g, K_INDEX, 1, &x, 3 * k->values.at[like].rank, items);
	ValueId v = kernel_result(k, s, KTYPE_TILE, k->values.at[x.value].dtype, k->values.at[like].rank, shape, NULL);
	k->values.at[v].layout = k->values.at[x.value].layout;
	return karg_value(v);
}

/* The call in the block; its results are `done` for those of the whole one. */
static StmtId put_call(Group *g, StmtId call, bool masked) {
	Kernel *k = g->b->k;
	FunctionId of = kernel_stmt(k, call)->function;
	FunctionId f = function_of(g->b, of, (Part){g->cut[0].size, g->cut[1].size});
	KArgs args = {0};
	for (uint32_t i = 0; i < k->functions.at[of].parameters.count; i++) {
		KParameter p = k->functions.at[of].parameters.at[i];
		if (p.kind == PARAMETER_FLAG)
			break;
		KArg x = *kernel_arg(k, call, i);
		x = p.kind == PARAMETER_BUFFER ? ref_cut(g, x.ref, buffer_axis(g->b, p.id, 0)) : value_cut(g, x, p.id);
		vec_push(k->arena, &args, x);
	}
	for (uint32_t i = 0; i < 2; i++)
		if (reads_start(g->b, of, i))
			vec_push(k->arena, &args, karg_int(int_const(k, g->cut[i].start)));
	uint32_t flag = args.count;
	if (masked && flag < k->functions.at[f].parameters.count)
		vec_push(k->arena, &args, karg_value(k->functions.at[f].parameters.at[flag].id));
	StmtId s = put(g, K_CALL, args.count, args.at, 0, NULL);
	StmtId end = region_last(k, k->functions.at[f].body);
	kernel_stmt(k, s)->function = f;
	for (uint32_t i = 0; i < kernel_stmt(k, call)->result_count; i++) {
		ValueId like = kernel_stmt(k, call)->result + i;
		g->done[like] = result(g, s, like, k->values.at[kernel_arg(k, end, i)->value].shape);
	}
	return s;
}

/* What the step has of a result of what ran ahead; NONE. */
static ValueId parameter_of(Blocks *b, const Step *step, uint32_t r) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	ValueId wanted = kernel_stmt(k, step->ahead)->result + r;
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		KArg x = *kernel_arg(k, step->call, i);
		StmtId def = f->parameters.at[i].kind == PARAMETER_VALUE ? def_of(k, x) : NONE;
		if (def == NONE)
			continue;
		if (x.value == wanted)
			return f->parameters.at[i].id;
		BufferId from = kernel_stmt(k, def)->op == K_LOAD ? k->refs.at[kernel_arg(k, def, 0)->ref].buffer : NONE;
		for (StmtId s = step->ahead; from != NONE && s != def && s != NONE; s = kernel_stmt(k, s)->next)
			if (kernel_stmt(k, s)->op == K_STORE && kernel_arg(k, s, 1)->kind == KARG_VALUE &&
			    kernel_arg(k, s, 1)->value == wanted && k->refs.at[kernel_arg(k, s, 0)->ref].buffer == from)
				return f->parameters.at[i].id;
	}
	return NONE;
}

/* The argument of the step that is made of a result of what ran ahead. */
static ValueId argument_of(Blocks *b, const Step *step, ValueId parameter) {
	const KFunction *f = &b->k->functions.at[b->step];
	for (uint32_t i = 0; i < f->parameters.count; i++)
		if (f->parameters.at[i].kind == PARAMETER_VALUE && f->parameters.at[i].id == parameter)
			return kernel_arg(b->k, step->call, i)->value;
	return NONE;
}

/* What stood ahead of the step, stored and loaded as it was, but for what a masked step does not read. */
static void put_ahead(Group *g, const Step *step, bool masked) {
	Kernel *k = g->b->k;
	ValueId first = kernel_stmt(k, step->ahead)->result;
	put_call(g, step->ahead, false);
	for (StmtId s = kernel_stmt(k, step->ahead)->next; s != step->call; s = kernel_stmt(k, s)->next) {
		KArg x = kernel_stmt(k, s)->op == K_STORE ? *kernel_arg(k, s, 1) : (KArg){.kind = KARG_NONE};
		if (x.kind != KARG_VALUE || x.value - first >= kernel_stmt(k, step->ahead)->result_count)
			continue;
		ValueId parameter = parameter_of(g->b, step, x.value - first), given = g->done[x.value];
		g->done[x.value] = NONE; /* it is loaded again */
		if (masked && value_dim(g->b, parameter, g->b->columns) == NONE) {
			k->values.at[given].name = value_name(k, parameter);
			g->done[argument_of(g->b, step, parameter)] = given;
			continue;
		}
		KArg ref = ref_cut(g, kernel_arg(k, s, 0)->ref, axis_at(x.value, 0));
		put(g, K_STORE, 2, (const KArg[]){ref, karg_value(given)}, 0, NULL);
	}
}

/* All columns of the block are masked: its results are what it was given. */
static void pass_on(Group *g, StmtId call) {
	Kernel *k = g->b->k;
	const KFunction *f = &k->functions.at[g->b->step];
	StmtId end = region_last(k, f->body);
	for (uint32_t r = 0; r < kernel_stmt(k, call)->result_count; r++)
		for (uint32_t i = 0; i < f->parameters.count; i++)
			if (f->parameters.at[i].kind == PARAMETER_VALUE &&
			    f->parameters.at[i].id == g->b->same[kernel_arg(k, end, r)->value])
				g->done[kernel_stmt(k, call)->result + r] =
					value_cut(g, *kernel_arg(k, call, i), f->parameters.at[i].id).value;
}

/* ---- which steps can be cut -------------------------------------------------------------------------------------- */

static bool sets_flag(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	if (stmt->op != K_CALL || stmt->arg_count == 0)
		return false;
	const KParameter *last = &k->functions.at[stmt->function].parameters.at[stmt->arg_count - 1];
	KArg x = *kernel_arg(k, s, stmt->arg_count - 1);
	return last->kind == PARAMETER_FLAG && x.kind == KARG_VALUE && x.value == last->id &&
	       stmt->arg_count == k->functions.at[stmt->function].parameters.count;
}

/* One choice by position under the flag. */
static bool find_where(Blocks *b) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	b->flag = f->parameters.at[f->parameters.count - 1].id;
	for (StmtId s = region_first(k, f->body); s != NONE; s = kernel_stmt(k, s)->next) {
		KArg flag = kernel_stmt(k, s)->op == K_CHOOSE ? *kernel_arg(k, s, 0) : (KArg){.kind = KARG_NONE};
		StmtId def = flag.kind == KARG_VALUE && flag.value == b->flag ? def_of(k, *kernel_arg(k, s, 1)) : NONE;
		if (def == NONE || kernel_stmt(k, def)->op != OP_WHERE)
			continue;
		if (b->where != NONE || k->values.at[kernel_stmt(k, def)->result].rank < 2)
			return false;
		b->where = def;
	}
	return b->where != NONE;
}

/* The call of which a value is the result, as it is or by way of scratch; NONE. */
static StmtId call_behind(const Blocks *b, KArg x) {
	const Kernel *k = b->k;
	StmtId def = def_of(k, x);
	if (def != NONE && kernel_stmt(k, def)->op == K_LOAD) {
		BufferId from = k->refs.at[kernel_arg(k, def, 0)->ref].buffer;
		StmtId s = kernel_stmt(k, def)->prev;
		while (s != NONE && !(kernel_stmt(k, s)->op == K_STORE &&
		                      k->refs.at[kernel_arg(k, s, 0)->ref].buffer == from)) {
			if (kernel_op_kind(kernel_stmt(k, s)->op) == KIND_CONTROL && kernel_stmt(k, s)->op != K_CALL)
				return NONE;
			s = kernel_stmt(k, s)->prev;
		}
		def = s == NONE ? NONE : def_of(k, *kernel_arg(k, s, 1));
	}
	return def != NONE && kernel_stmt(k, def)->op == K_CALL && kernel_stmt(k, def)->region == b->region ? def : NONE;
}

/* What each step is handed of one call, of a function of its own; its results go nowhere else. */
static bool find_ahead(Blocks *b, Step *step, const uint32_t *uses) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	step->ahead = NONE;
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		StmtId call = f->parameters.at[i].kind == PARAMETER_VALUE ? call_behind(b, *kernel_arg(k, step->call, i))
		                                                          : NONE;
		if (call == NONE || kernel_stmt(k, call)->function == b->step)
			continue;
		if (step->ahead != NONE && step->ahead != call)
			return false;
		step->ahead = call;
	}
	for (uint32_t i = 0; step->ahead != NONE && i < kernel_stmt(k, step->ahead)->result_count; i++)
		if (uses[kernel_stmt(k, step->ahead)->result + i] != 1)
			return false;
	return true;
}

/* Where the flag is set the step does not read it: it is of all columns, masked or not. */
static bool unread_if_masked(const Blocks *b, ValueId v) {
	const Kernel *k = b->k;
	for (StmtId s = region_first(k, k->functions.at[b->step].body); s != NONE; s = kernel_stmt(k, s)->next)
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
			KArg x = *kernel_arg(k, s, i), flag = *kernel_arg(k, s, 0);
			bool other = kernel_stmt(k, s)->op == K_CHOOSE && i == 2 && flag.kind == KARG_VALUE &&
			             flag.value == b->flag;
			if (x.kind == KARG_VALUE && x.value == v && !other)
				return false;
		}
	return true;
}

/* Both axes of a tile are not of one class, and what folds one away is known to be of columns. */
static bool dims_differ(Blocks *b, FunctionId f) {
	const Kernel *k = b->k;
	for (StmtId s = region_first(k, k->functions.at[f].body); s != NONE; s = kernel_stmt(k, s)->next) {
		const KStmt *stmt = kernel_stmt(k, s);
		uint32_t found[2] = {0};
		for (uint32_t d = 0; stmt->result != NONE && d < k->values.at[stmt->result].rank; d++) {
			uint32_t which = cut_of(b, axis_at(stmt->result, d));
			if (which < 2 && (found[which]++ || k->values.at[stmt->result].shape[d] != b->size[which]))
				return false;
		}
		for (uint32_t i = 0; (is_fold(k, s) || stmt->op == K_DOT) && i < stmt->arg_count; i++)
			if (value_dim(b, kernel_arg(k, s, i)->value, b->rows) != NONE &&
			    value_dim(b, stmt->result, b->rows) == NONE)
				return false;
		for (uint32_t d = 0; stmt->op == K_LOAD && d < k->buffers.at[k->refs.at[kernel_arg(k, s, 0)->ref].buffer].rank;
		     d++) {
			BufferId x = k->refs.at[kernel_arg(k, s, 0)->ref].buffer;
			uint32_t which = cut_of(b, buffer_axis(b, x, d));
			if (which < 2 && k->buffers.at[x].shape[d] != b->size[which])
				return false;
		}
	}
	return true;
}

/* Each result has rows and no columns; of what runs ahead some may have none if only steps without a mask read it. */
static bool gives_rows(Blocks *b, FunctionId f, const Step *of) {
	const Kernel *k = b->k;
	StmtId end = region_last(k, k->functions.at[f].body);
	for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++) {
		KArg x = *kernel_arg(k, end, i);
		if (!is_tile(k, x))
			return false;
		bool rows = value_dim(b, x.value, b->rows) != NONE, columns = value_dim(b, x.value, b->columns) != NONE;
		if (!of && (!rows || columns))
			return false;
		ValueId parameter = of ? parameter_of(b, of, i) : NONE;
		if (of && (parameter == NONE || (!columns && !unread_if_masked(b, parameter))))
			return false;
	}
	return true;
}

/* So often the function reads it. */
static uint32_t reads_of(const Kernel *k, FunctionId f, ValueId v) {
	uint32_t reads = 0;
	for (StmtId s = region_first(k, k->functions.at[f].body); s != NONE; s = kernel_stmt(k, s)->next)
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++)
			reads += kernel_arg(k, s, i)->kind == KARG_VALUE && kernel_arg(k, s, i)->value == v;
	return reads;
}

static bool folds_columns(Blocks *b, StmtId s) {
	const Kernel *k = b->k;
	bool folds = false;
	for (uint32_t i = 0; (is_fold(k, s) || is_dot(k, s)) && i < kernel_stmt(k, s)->arg_count; i++)
		folds = folds || (value_dim(b, kernel_arg(k, s, i)->value, b->columns) != NONE &&
		                  value_dim(b, kernel_stmt(k, s)->result, b->columns) == NONE);
	return folds;
}

/* What runs ahead folds columns into results alone. */
static bool folds_to_results(Blocks *b, FunctionId f) {
	const Kernel *k = b->k;
	StmtId end = region_last(k, k->functions.at[f].body);
	for (StmtId s = region_first(k, k->functions.at[f].body); s != end; s = kernel_stmt(k, s)->next) {
		bool returned = false;
		for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++)
			returned = returned || (kernel_arg(k, end, i)->kind == KARG_VALUE &&
			                        kernel_arg(k, end, i)->value == kernel_stmt(k, s)->result);
		if (folds_columns(b, s) && !(returned && reads_of(k, f, kernel_stmt(k, s)->result) == 1))
			return false;
	}
	return true;
}

static void start_classes(Blocks *b) {
	Kernel *k = b->k;
	uint32_t axes = (k->values.count + k->buffers.count) * KDIM_MAX;
	b->values = k->values.count;
	b->root = arena_array(k->arena, axes + 1, sizeof *b->root);
	b->whole = arena_array(k->arena, axes + 1, sizeof *b->whole);
	b->known = arena_array(k->arena, b->values + 1, sizeof *b->known);
	b->same = arena_array(k->arena, b->values + 1, sizeof *b->same);
	for (uint32_t i = 0; i < axes; i++)
		b->root[i] = i;
}

/* A step and what runs ahead of it are cut alike. */
static void join_ahead(Blocks *b, const Step *step) {
	const Kernel *k = b->k;
	FunctionId f = kernel_stmt(k, step->ahead)->function;
	StmtId end = region_last(k, k->functions.at[f].body);
	join_function(b, f);
	for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++) {
		ValueId parameter = parameter_of(b, step, i);
		KArg x = *kernel_arg(k, end, i);
		if (!is_tile(k, x))
			continue;
		join_values(b, kernel_stmt(k, step->ahead)->result + i, x.value);
		if (parameter != NONE)
			join_values(b, x.value, parameter);
	}
}

/* With the mask's last dim but `axis` from its end as rows, and the other as columns. */
static bool takes_rows(Blocks *b, uint32_t axis) {
	const KValue *mask = &b->k->values.at[kernel_stmt(b->k, b->where)->result];
	ValueId v = kernel_stmt(b->k, b->where)->result;
	b->row_axis = axis;
	b->rows = class_of(b, axis_at(v, mask->rank - 1 - axis));
	b->columns = class_of(b, axis_at(v, mask->rank - 2 + axis));
	b->size[0] = mask->shape[mask->rank - 1 - axis];
	b->size[1] = mask->shape[mask->rank - 2 + axis];
	memset(b->known, 0, b->values * sizeof *b->known);
	if (b->rows == b->columns || b->whole[b->rows] || b->whole[b->columns] || b->size[0] <= 1 || b->size[1] <= 1)
		return false;
	for (uint32_t t = 0; t < b->count; t++) {
		StmtId ahead = b->steps[t].ahead;
		FunctionId f = ahead == NONE ? NONE : kernel_stmt(b->k, ahead)->function;
		if (f != NONE && !(dims_differ(b, f) && gives_rows(b, f, &b->steps[t]) && folds_to_results(b, f)))
			return false;
	}
	return dims_differ(b, b->step) && gives_rows(b, b->step, NULL) && know_step(b);
}

/* ---- the blocks -------------------------------------------------------------------------------------------------- */

static int64_t block_of(int64_t size) { return size > BLOCK && size % BLOCK == 0 ? BLOCK : size; }

/* Columns that the mask leaves rows of, first to last, in blocks. */
static void find_columns(Blocks *b, Step *step, uint32_t g) {
	int64_t rows = block_of(b->size[0]), size = block_of(b->size[1]), first = -1, end = 0;
	bool all = true;
	for (int64_t at = 0; at < b->size[1]; at += size) {
		Part part[2];
		part[b->row_axis] = (Part){g * rows, rows};
		part[1 - b->row_axis] = (Part){at, size};
		Holds h = holds(b, step->call, *kernel_arg(b->k, b->where, 0), part);
		all = all && h == HOLDS_ALWAYS;
		first = h != HOLDS_NEVER && first < 0 ? at : first;
		end = h != HOLDS_NEVER ? at + size : end;
	}
	if (first < 0 && !b->skips)
		end = size;
	step->columns[g] = (Part){int_max(first, 0), end - int_max(first, 0)};
	step->masked[g] = !all;
}

static bool find_blocks(Blocks *b) {
	bool less = false;
	b->moves[0] = b->size[0] > block_of(b->size[0]);
	b->parts = (uint32_t)(b->size[0] / block_of(b->size[0]));
	for (uint32_t t = 0; t < b->count; t++) {
		Step *step = &b->steps[t];
		step->columns = arena_array(b->k->arena, b->parts, sizeof *step->columns);
		step->masked = arena_array(b->k->arena, b->parts, sizeof *step->masked);
		for (uint32_t g = 0; g < b->parts; g++) {
			find_columns(b, step, g);
			less = less || step->columns[g].size < b->size[1];
			b->moves[1] = b->moves[1] || step->columns[g].start > 0;
		}
	}
	return less;
}

static void put_group(Blocks *b, uint32_t g, StmtId before, KArg *results) {
	const Step *last = &b->steps[b->count - 1];
	int64_t rows = block_of(b->size[0]);
	Group group = {.b = b, .before = before, .cut[0] = {g * rows, rows}};
	group.done = arena_array(b->k->arena, b->values + 1, sizeof *group.done);
	memset(group.done, 0xff, (b->values + 1) * sizeof *group.done);
	for (uint32_t t = 0; t < b->count; t++) {
		group.cut[1] = b->steps[t].columns[g];
		if (group.cut[1].size && b->steps[t].ahead != NONE)
			put_ahead(&group, &b->steps[t], b->steps[t].masked[g]);
	}
	for (uint32_t t = 0; t < b->count; t++) {
		group.cut[1] = b->steps[t].columns[g];
		if (group.cut[1].size == 0)
			pass_on(&group, b->steps[t].call);
		else
			put_call(&group, b->steps[t].call, b->steps[t].masked[g]);
	}
	for (uint32_t i = 0; i < kernel_stmt(b->k, last->call)->result_count; i++)
		results[(size_t)i * b->parts + g] = karg_value(group.done[kernel_stmt(b->k, last->call)->result + i]);
}

/* What reads the whole steps' results reads those of all blocks. */
static void join_groups(Blocks *b, StmtId before, const KArg *results) {
	Kernel *k = b->k;
	StmtId call = b->steps[b->count - 1].call, end = region_last(k, k->functions.at[b->step].body);
	KStmt old = *kernel_stmt(k, call);
	ValueId *map = arena_array(k->arena, k->values.count, sizeof *map);
	uint32_t count = k->values.count;
	memset(map, 0xff, count * sizeof *map);
	Group at = {.b = b, .before = before};
	for (uint32_t i = 0; i < old.result_count; i++) {
		ValueId v = old.result + i;
		int64_t axis = value_dim(b, kernel_arg(k, end, i)->value, b->rows);
		KValue x = k->values.at[v];
		if (b->parts == 1) {
			map[v] = results[i].value;
			continue;
		}
		StmtId s = put(&at, K_CONCATENATE, b->parts, results + (size_t)i * b->parts, 1, &axis);
		map[v] = kernel_result(k, s, x.type, x.dtype, x.rank, x.shape, value_name(k, v));
		k->values.at[map[v]].layout = x.layout;
	}
	kernel_replace_values(k, map, count);
}

static void remove_whole(Blocks *b) {
	Kernel *k = b->k;
	for (uint32_t t = 0; t < b->count; t++) {
		StmtId ahead = b->steps[t].ahead;
		for (StmtId s = ahead == NONE ? NONE : kernel_stmt(k, ahead)->next, next; s != NONE && s != b->steps[t].call;
		     s = next) {
			next = kernel_stmt(k, s)->next;
			KArg x = kernel_stmt(k, s)->op == K_STORE ? *kernel_arg(k, s, 1) : (KArg){.kind = KARG_NONE};
			if (x.kind == KARG_VALUE &&
			    x.value - kernel_stmt(k, ahead)->result < kernel_stmt(k, ahead)->result_count)
				kernel_remove(k, s);
		}
	}
	for (uint32_t t = b->count; t-- > 0;) {
		kernel_remove(k, b->steps[t].call);
		if (b->steps[t].ahead != NONE)
			kernel_remove(k, b->steps[t].ahead);
	}
}

/* Only the steps themselves read the results of those before the last one. */
static bool results_stay(const Blocks *b, const uint32_t *uses) {
	const Kernel *k = b->k;
	for (uint32_t t = 0; t + 1 < b->count; t++) {
		const KStmt *call = kernel_stmt(k, b->steps[t].call);
		for (uint32_t r = 0; r < call->result_count; r++) {
			uint32_t read = 0;
			for (uint32_t i = 0; i < kernel_stmt(k, b->steps[t + 1].call)->arg_count; i++) {
				KArg x = *kernel_arg(k, b->steps[t + 1].call, i);
				read += x.kind == KARG_VALUE && x.value == call->result + r;
			}
			if (read != uses[call->result + r])
				return false;
		}
	}
	return true;
}

static void cut_steps(Blocks *b) {
	Kernel *k = b->k;
	const uint32_t *uses = kernel_uses(k);
	b->step = kernel_stmt(k, b->steps[0].call)->function;
	b->where = NONE;
	if (!computes_only(k, b->step) || !find_where(b) || !results_stay(b, uses))
		return;
	start_classes(b);
	join_function(b, b->step);
	for (uint32_t t = 0; t < b->count; t++) {
		if (!find_ahead(b, &b->steps[t], uses))
			return;
		StmtId ahead = b->steps[t].ahead;
		if (ahead != NONE && !computes_only(k, kernel_stmt(k, ahead)->function))
			return;
		if (ahead != NONE)
			join_ahead(b, &b->steps[t]);
	}
	if ((!takes_rows(b, 0) && !takes_rows(b, 1)) || !find_blocks(b))
		return;
	StmtId before = kernel_stmt(k, b->steps[b->count - 1].call)->next;
	uint32_t results = kernel_stmt(k, b->steps[0].call)->result_count;
	KArg *given = arena_array(k->arena, (size_t)results * b->parts + 1, sizeof *given);
	for (uint32_t g = 0; g < b->parts; g++)
		put_group(b, g, before, given);
	join_groups(b, before, given);
	remove_whole(b);
}

void rewrite_blocks(Kernel *k) {
	StmtIds calls = k->blocks ? kernel_stmts_of(k, K_CALL) : (StmtIds){0};
	k->blocks = false;
	for (uint32_t i = 0; i < calls.count;) {
		Blocks b = {.k = k, .region = kernel_stmt(k, calls.at[i])->region};
		FunctionId f = kernel_stmt(k, calls.at[i])->function;
		bool more = sets_flag(k, calls.at[i]);
		for (uint32_t j = i; more && j < calls.count; j++) {
			bool own = sets_flag(k, calls.at[j]) && kernel_stmt(k, calls.at[j])->function == f &&
			           kernel_stmt(k, calls.at[j])->region == b.region;
			if (own && b.count < STEPS_MAX)
				b.steps[b.count].call = calls.at[j];
			b.count += own;
		}
		if (b.count > 0 && b.count <= STEPS_MAX)
			cut_steps(&b);
		i += b.count ? b.count : 1;
	}
}
