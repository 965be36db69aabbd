/* rewrite_unmasked.c - a step of a loop of which masks by position leave every element is computed without them. Ends
 * of what the masks compare tell, before the step: positions go up along a tile, so that its first and last element
 * bound it.
 *
 *     m = call step((j), k_buf[...], m)             first = floored_quotient (at - start), 4 : int32
 *     store m_ref[...], m                           whole = int (choose(j * 512 + 511 <= before + first, 1, 0)) : int
 *                                                   when (whole == 1) unmasked {
 *                                                     m_1 = call step((j), k_buf[...], m_2)
 *                                                     store m_ref[...], m_1
 *                                                   }
 *                                                   when (whole == 0) masked {
 *                                                     m = call step((j), k_buf[...], m, masked)
 *                                                     store m_ref[...], m
 *                                                   }
 *
 * In the step's function each choice stands under the flag that the second call sets. Where a sum passes the largest
 * int its last element is below its first one, and the step is masked. */
#include "rewrite.h"

typedef struct Unmasked {
	Kernel *k;
	StmtId call;
	FunctionId step;
	StmtIds masks; /* of the step's function */
	StmtId first;  /* of what moves with the call: the loads that it reads, the call, the stores behind it */
	StmtId last;
	IntId holds; /* each mask leaves every element; NONE: no mask is known yet */
} Unmasked;

/* The elements of a value: none is below `first` or above `last`, which lie apart by at most `spread`. */
typedef struct Ends {
	bool known;
	IntId first, last;
	int64_t spread;
} Ends;

static void require(Unmasked *u, IntId condition) {
	u->holds = u->holds == NONE ? condition : int_binary(u->k, INT_AND, u->holds, condition);
}

/* ---- ints of the step where its call stands ---------------------------------------------------------------------- */

static IntId int_there(Unmasked *u, KArg x);

/* What the call gives for a parameter; the value itself if it is none. */
static KArg given_for(const Unmasked *u, ValueId v) {
	const KFunction *f = &u->k->functions.at[u->step];
	for (uint32_t i = 0; i < f->parameters.count && i < kernel_stmt(u->k, u->call)->arg_count; i++)
		if (f->parameters.at[i].kind == PARAMETER_VALUE && f->parameters.at[i].id == v)
			return *kernel_arg(u->k, u->call, i);
	return karg_value(v);
}

static bool is_of_step(const Unmasked *u, StmtId s) {
	return s != NONE && kernel_stmt(u->k, s)->region == u->k->functions.at[u->step].body;
}

/* A floored quotient is a statement of its own. */
static IntId quotient_there(Unmasked *u, IntId x, int64_t by) {
	const KArg args[] = {karg_int(x), karg_integer(by)};
	StmtId s = kernel_insert_before(u->k, u->first, K_FLOORED, 2, args, 0, NULL);
	return int_value(u->k, kernel_result(u->k, s, KTYPE_SCALAR, DTYPE_I32, 0, NULL, "quotient"));
}

static IntId statement_there(Unmasked *u, StmtId s) {
	static const struct {
		uint16_t op;
		IntKind kind;
	} same[] = {
		{OP_ADD, INT_ADD}, {OP_SUB, INT_SUB}, {OP_MUL, INT_MUL}, {OP_MINIMUM, INT_MIN}, {OP_MAXIMUM, INT_MAX}};
	Kernel *k = u->k;
	uint16_t op = kernel_stmt(k, s)->op;
	if (op == K_INT || op == K_LET || op == K_SCALAR)
		return int_there(u, *kernel_arg(k, s, 0));
	if (kernel_stmt(k, s)->arg_count != 2)
		return NONE;
	KArg b = *kernel_arg(k, s, 1);
	IntId x = int_there(u, *kernel_arg(k, s, 0)), y = int_there(u, b);
	if (x == NONE || y == NONE)
		return NONE;
	if (op == K_FLOORED)
		return b.kind == KARG_INTEGER && b.integer > 0 ? quotient_there(u, x, b.integer) : NONE;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++)
		if (same[i].op == op)
			return int_binary(k, same[i].kind, x, y);
	return NONE;
}

static IntId value_there(Unmasked *u, ValueId v) {
	KArg given = given_for(u, v);
	if (given.kind != KARG_VALUE || given.value != v)
		return given.kind == KARG_INT ? given.index : NONE;
	StmtId def = u->k->values.at[v].def;
	return is_of_step(u, def) ? statement_there(u, def) : int_value(u->k, v);
}

/* An expression with what the step's own values are there. */
static IntId expression_there(Unmasked *u, IntId id) {
	KInt i = u->k->ints.at[id];
	if (i.kind == INT_VALUE)
		return value_there(u, i.value);
	if (i.kind < INT_NEG || i.kind > INT_GE || i.c != NONE)
		return i.kind == INT_CONST ? id : NONE;
	IntId a = expression_there(u, i.a), b = i.b == NONE ? NONE : expression_there(u, i.b);
	if (a == NONE || i.b == NONE || b == NONE)
		return NONE;
	return int_binary(u->k, i.kind, a, b);
}

/* A scalar of 32 bits, or a number; NONE: it is not known there. */
static IntId int_there(Unmasked *u, KArg x) {
	if (x.kind == KARG_INTEGER)
		return int_const(u->k, x.integer);
	if (x.kind == KARG_INT)
		return expression_there(u, x.index);
	if (x.kind != KARG_VALUE)
		return NONE;
	const KValue *v = &u->k->values.at[x.value];
	bool scalar = v->type == KTYPE_INT || (v->type == KTYPE_SCALAR && v->dtype == DTYPE_I32);
	return scalar ? value_there(u, x.value) : NONE;
}

/* ---- ends of tiles ----------------------------------------------------------------------------------------------- */

static Ends ends_of(Unmasked *u, KArg x);

static IntId sum_of(Kernel *k, IntId a, IntId b) {
	int64_t number;
	if (int_is_const(k, a, &number) && number == 0)
		return b;
	return int_is_const(k, b, &number) && number == 0 ? a : int_binary(k, INT_ADD, a, b);
}

/* The same of a step of the way; where it passed the largest int it started again below. */
static Ends ordered(Unmasked *u, Ends e) {
	e.known = e.spread < INT32_MAX;
	if (e.known)
		require(u, int_binary(u->k, INT_LE, e.first, e.last));
	return e;
}

static Ends ends_of_pair(Unmasked *u, StmtId s) {
	Kernel *k = u->k;
	uint16_t op = kernel_stmt(k, s)->op;
	KArg by = *kernel_arg(k, s, 1);
	Ends none = {0}, a = ends_of(u, *kernel_arg(k, s, 0)), b = ends_of(u, by);
	if (!a.known || !b.known)
		return none;
	switch (op) {
	case OP_ADD:
		return ordered(
			u, (Ends){true, sum_of(k, a.first, b.first), sum_of(k, a.last, b.last), a.spread + b.spread});
	case OP_SUB:
		return ordered(u, (Ends){true, int_binary(k, INT_SUB, a.first, b.last),
		                         int_binary(k, INT_SUB, a.last, b.first), a.spread + b.spread});
	case K_FLOORED:
		if (by.kind != KARG_INTEGER || by.integer < 1)
			return none;
		return (Ends){true, quotient_there(u, a.first, by.integer), quotient_there(u, a.last, by.integer),
		              a.spread / by.integer + 1};
	default: return none;
	}
}

static Ends ends_of(Unmasked *u, KArg x) {
	Kernel *k = u->k;
	Ends none = {0};
	if (!kernel_is_tile(k, x)) {
		IntId i = int_there(u, x);
		return (Ends){i != NONE, i, i, 0};
	}
	StmtId s = kernel_def_of(k, x);
	const KValue *v = &k->values.at[x.value];
	if (s == NONE || v->dtype != DTYPE_I32)
		return none;
	switch (kernel_stmt(k, s)->op) {
	case K_IOTA: {
		int64_t last = v->shape[kernel_stmt(k, s)->ints[0]] - 1;
		return (Ends){true, int_const(k, 0), int_const(k, last), last};
	}
	case K_LET:
	case K_RESHAPE:
	case K_BROADCAST:
	case K_EXPAND_DIMS:
	case K_INDEX: /* some of its elements */
	case K_TO_COLUMN: return ends_of(u, *kernel_arg(k, s, 0));
	case OP_ADD:
	case OP_SUB:
	case K_FLOORED: return ends_of_pair(u, s);
	default: return none;
	}
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* Asks that a condition by position holds for every element. */
static bool require_all(Unmasked *u, KArg x) {
	Kernel *k = u->k;
	StmtId s = kernel_def_of(k, x);
	if (s == NONE || !kernel_is_tile(k, x) || kernel_stmt(k, s)->arg_count == 0)
		return false;
	uint16_t op = kernel_stmt(k, s)->op;
	KArg a = *kernel_arg(k, s, 0), b = kernel_stmt(k, s)->arg_count > 1 ? *kernel_arg(k, s, 1) : a;
	switch (op) {
	case K_CONVERT:
	case K_LET:
	case K_RESHAPE:
	case K_BROADCAST:
	case K_EXPAND_DIMS:
	case K_INDEX: /* some of its elements */
	case K_TO_COLUMN: return require_all(u, a);
	case OP_LOGICAL_AND:
	case OP_BITWISE_AND: return require_all(u, a) && require_all(u, b);
	case OP_LE:
	case OP_LT:
	case OP_GE:
	case OP_GT: {
		bool up = op == OP_LE || op == OP_LT;
		Ends low = ends_of(u, up ? a : b), high = ends_of(u, up ? b : a);
		if (!low.known || !high.known)
			return false;
		require(u, int_binary(k, op == OP_LE || op == OP_GE ? INT_LE : INT_LT, low.last, high.first));
		return true;
	}
	default: return false;
	}
}

/* So many elements along the axis are left; all of them. */
static bool require_count(Unmasked *u, StmtId mask) {
	const KValue *v = &u->k->values.at[kernel_stmt(u->k, mask)->result];
	IntId count = int_there(u, *kernel_arg(u->k, mask, 1));
	if (count != NONE)
		require(u,
		        int_binary(u->k, INT_GE, count, int_const(u->k, v->shape[kernel_stmt(u->k, mask)->ints[0]])));
	return count != NONE;
}

/* What a mask leaves alone; a tile like its result, or there is no mask. */
static KArg left_alone(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	KArg none = {.kind = KARG_NONE};
	if (stmt->op != K_MASK && stmt->op != OP_WHERE)
		return none;
	KArg x = *kernel_arg(k, s, stmt->op == K_MASK ? 0 : 1);
	const KValue *to = &k->values.at[stmt->result], *from = kernel_is_tile(k, x) ? &k->values.at[x.value] : NULL;
	bool same = from && from->dtype == to->dtype && from->rank == to->rank;
	for (uint32_t d = 0; same && d < to->rank; d++)
		same = from->shape[d] == to->shape[d];
	return same ? x : none;
}

static bool find_masks(Unmasked *u) {
	Kernel *k = u->k;
	for (StmtId s = region_first(k, k->functions.at[u->step].body); s != NONE; s = kernel_stmt(k, s)->next) {
		if (left_alone(k, s).kind == KARG_NONE)
			continue;
		IntId before = u->holds;
		if (kernel_stmt(k, s)->op == K_MASK ? !require_count(u, s) : !require_all(u, *kernel_arg(k, s, 0))) {
			u->holds = before; /* it stays, and asks for nothing */
			continue;
		}
		vec_push(k->arena, &u->masks, s);
	}
	return u->masks.count > 0;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* A step that computes, of masks without a flag. */
static bool only_computes(const Unmasked *u) {
	const Kernel *k = u->k;
	const KFunction *f = &k->functions.at[u->step];
	bool only = f->kind == FUNCTION_PLAIN;
	for (uint32_t i = 0; i < f->parameters.count; i++)
		only = only && f->parameters.at[i].kind != PARAMETER_FLAG;
	for (StmtId s = region_first(k, f->body); s != NONE && only; s = kernel_stmt(k, s)->next) {
		uint16_t op = kernel_stmt(k, s)->op;
		only = op == K_LOAD || op == K_RETURN || (op != K_CHOOSE && kernel_op_kind(op) == KIND_PURE);
	}
	return only;
}

static bool called_once(Kernel *k, FunctionId f) {
	StmtIds calls = kernel_stmts_of(k, K_CALL);
	uint32_t count = 0;
	for (uint32_t i = 0; i < calls.count; i++)
		count += kernel_stmt(k, calls.at[i])->function == f;
	return count == 1;
}

/* All that the call gives is stored right behind it, and nothing else reads it. */
static bool gives_to_stores(Unmasked *u, const uint32_t *uses) {
	const Kernel *k = u->k;
	const KStmt *call = kernel_stmt(k, u->call);
	StmtId s = u->call;
	for (uint32_t i = 0; i < call->result_count; i++) {
		s = kernel_stmt(k, s)->next;
		bool stored = s != NONE && kernel_stmt(k, s)->op == K_STORE &&
		              kernel_arg(k, s, 1)->kind == KARG_VALUE &&
		              kernel_arg(k, s, 1)->value == call->result + i && uses[call->result + i] == 1;
		if (!stored)
			return false;
	}
	u->last = s;
	return call->result_count > 0;
}

/* What it is given is loaded right before it, and nothing else reads that. */
static bool takes_loads(Unmasked *u, const uint32_t *uses) {
	const Kernel *k = u->k;
	u->first = u->call;
	for (StmtId s = kernel_stmt(k, u->call)->prev; s != NONE && kernel_stmt(k, s)->op == K_LOAD;
	     s = kernel_stmt(k, s)->prev) {
		bool read = false;
		for (uint32_t i = 0; i < kernel_stmt(k, u->call)->arg_count; i++)
			read = read || (kernel_arg(k, u->call, i)->kind == KARG_VALUE &&
			                kernel_arg(k, u->call, i)->value == kernel_stmt(k, s)->result);
		if (!read || uses[kernel_stmt(k, s)->result] != 1)
			break;
		u->first = s;
	}
	return true;
}

/* ---- what is made of it ------------------------------------------------------------------------------------------ */

static void choose_masked(Unmasked *u, StmtId mask, ValueId flag) {
	Kernel *k = u->k;
	ValueId old = kernel_stmt(k, mask)->result;
	KValue value = k->values.at[old];
	const KArg args[] = {karg_value(flag), {.kind = KARG_NONE}, left_alone(k, mask)};
	ValueId filled = kernel_value(k, value.type, value.dtype, value.rank, value.shape, NULL);
	k->values.at[filled].def = mask;
	k->values.at[filled].layout = value.layout;
	StmtId made = kernel_insert_before(k, kernel_stmt(k, mask)->next, K_CHOOSE, 3, args, 0, NULL);
	kernel_stmt(k, mask)->result = filled;
	*kernel_arg(k, made, 1) = karg_value(filled);
	kernel_stmt(k, made)->result = old;
	kernel_stmt(k, made)->result_count = 1;
	kernel_stmt(k, made)->from = kernel_stmt(k, mask)->from;
	kernel_stmt(k, made)->also = kernel_stmt(k, mask)->also;
	k->values.at[old].def = made;
}

static RegionId when(Unmasked *u, IntId whole, int64_t is, const char *name) {
	Kernel *k = u->k;
	IntId condition = int_binary(k, INT_EQ, whole, int_const(k, is));
	return kernel_stmt(k, kernel_insert_when(k, u->first, condition, name))->body;
}

/* Loads, call and stores once more. */
static void copy_to(Unmasked *u, RegionId to) {
	Kernel *k = u->k;
	uint32_t count = k->values.count;
	ValueId *now = arena_array(k->arena, count, sizeof *now);
	memset(now, 0xff, count * sizeof *now);
	for (StmtId s = u->first;; s = kernel_stmt(k, s)->next) {
		kernel_copy(k, to, s, now, count, false);
		if (s == u->last)
			return;
	}
}

static void set_flag(Unmasked *u, ValueId flag) {
	Kernel *k = u->k;
	KArgs args = {0};
	for (uint32_t i = 0; i < kernel_stmt(k, u->call)->arg_count; i++)
		vec_push(k->arena, &args, *kernel_arg(k, u->call, i));
	vec_push(k->arena, &args, karg_value(flag));
	kernel_set_args(k, u->call, args.count, args.at);
}

static void split_call(Unmasked *u) {
	Kernel *k = u->k;
	ValueId flag = kernel_value(k, KTYPE_FLAG, DTYPE_BOOL, 0, NULL, "masked");
	KParameter parameter = {PARAMETER_FLAG, flag};
	KArg one = karg_int(int_choose(k, u->holds, int_const(k, 1), int_const(k, 0)));
	StmtId s = kernel_insert_before(k, u->first, K_INT, 1, &one, 0, NULL);
	IntId whole = int_value(k, kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, "whole"));
	copy_to(u, when(u, whole, 1, "unmasked"));
	RegionId rest = when(u, whole, 0, "masked");
	vec_push(k->arena, &k->functions.at[u->step].parameters, parameter);
	for (uint32_t i = 0; i < u->masks.count; i++)
		choose_masked(u, u->masks.at[i], flag);
	set_flag(u, flag);
	for (StmtId move = u->first, next;; move = next) {
		next = kernel_stmt(k, move)->next;
		kernel_move(k, move, rest);
		if (move == u->last)
			return;
	}
}

static bool in_loop(const Kernel *k, StmtId call) {
	StmtId owner = k->regions.at[kernel_stmt(k, call)->region].owner;
	return owner != NONE && kernel_stmt(k, owner)->op == K_DEF &&
	       k->functions.at[kernel_stmt(k, owner)->function].kind == FUNCTION_FORI;
}

void rewrite_unmasked(Kernel *k) {
	StmtIds calls = k->unmasked ? kernel_stmts_of(k, K_CALL) : (StmtIds){0};
	k->unmasked = false;
	for (uint32_t i = 0; i < calls.count; i++) {
		Unmasked u = {
			.k = k, .call = calls.at[i], .step = kernel_stmt(k, calls.at[i])->function, .holds = NONE};
		const uint32_t *uses = kernel_uses(k);
		if (in_loop(k, u.call) && only_computes(&u) && called_once(k, u.step) && gives_to_stores(&u, uses) &&
		    takes_loads(&u, uses) && find_masks(&u))
			split_call(&u);
	}
}
