/* work.c - a statement as operations on vector registers, by unit. The numbers are in include/expansions.def. */
#include "work.h"

typedef struct Expansion {
	bool told;
	double valu, eup, wide_valu, wide_eup;
} Expansion;

/* By op. */
static const Expansion expansions[K_END] = {
#define EXPANSION(op, ...) [op] = {true, __VA_ARGS__},
#define CONVERSION(...)
#define MOVED(...)
#include "expansions.def"
#undef EXPANSION
#undef CONVERSION
#undef MOVED
};

typedef struct Conversion {
	Dtype from, to;
	double valu, narrow_valu, wide_valu;
} Conversion;

static const Conversion conversions[] = {
#define EXPANSION(...)
#define CONVERSION(from, to, ...) {DTYPE_##from, DTYPE_##to, __VA_ARGS__},
#define MOVED(...)
#include "expansions.def"
#undef EXPANSION
#undef CONVERSION
#undef MOVED
};

/* ---- registers -------------------------------------------------------------------------------------------------- */

double array_registers(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape) {
	return rank ? (double)register_bytes(t, dtype, rank, shape) / (double)target_registers_bytes(t, 1) : 0;
}

static double registers_as(const Core *c, ValueId v, Dtype dtype) {
	const KValue *x = &c->k->values.at[v];
	return is_tile_value(x) ? array_registers(c->t, dtype, x->rank, x->shape) : 0;
}

double value_registers(const Core *c, ValueId v) { return registers_as(c, v, c->k->values.at[v].dtype); }

ValueId work_operand(const Core *c, const KStmt *s, uint32_t i) {
	const KArg *a = i < s->arg_count ? &c->k->args.at[s->arg_first + i] : NULL;
	return a && a->kind == KARG_VALUE ? a->value : NONE;
}

const KValue *work_tile(const Core *c, const KStmt *s, uint32_t i) {
	ValueId v = work_operand(c, s, i);
	return v != NONE && is_tile_value(&c->k->values.at[v]) ? &c->k->values.at[v] : NULL;
}

double work_registers(const Core *c, const KStmt *s, uint32_t i) {
	ValueId v = work_operand(c, s, i);
	return v == NONE ? 0 : value_registers(c, v);
}

double work_result(const Core *c, const KStmt *s) { return s->result == NONE ? 0 : value_registers(c, s->result); }

void work_across(Work *w, double registers) {
	w->of[UNIT_XLU] += registers;
	w->of[UNIT_POP] += registers;
}

/* ---- ops -------------------------------------------------------------------------------------------------------- */

static bool is_power_of_two(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

static void pointwise(const Core *c, const KStmt *s, const Operations *ops, Work *w) {
	double n = expanded_registers(c->expander, s, ops);
	const KArg *last = s->arg_count ? &c->k->args.at[s->arg_first + s->arg_count - 1] : NULL;
	w->of[UNIT_SCALAR] += s->result != NONE && is_tile_value(&c->k->values.at[s->result]) ? 0 : 1;
	if (s->op == OP_POW && last && last->kind != KARG_VALUE) { /* a few products */
		w->of[UNIT_VALU] += 3 * n;
		return;
	}
	if (s->op == OP_WHERE && work_operand(c, s, 1) != NONE && work_operand(c, s, 1) == work_operand(c, s, 2))
		return;
	if (s->op == K_FLOORED && last && last->kind == KARG_INTEGER && is_power_of_two(last->integer)) {
		w->of[UNIT_VALU] += 17 * n; /* counted for 4, on v5e and v6e */
		return;
	}
	if (s->op == OP_MAXIMUM || s->op == OP_MINIMUM) /* of ints a comparison and a selection */
		n *= s->result != NONE && !dtype_is_float(c->k->values.at[s->result].dtype) ? 2 : 1;
	const Expansion *e = &expansions[s->op];
	double eup = c->t->bf16_vpu ? e->eup : e->wide_eup;
	w->of[UNIT_VALU] += n * (!e->told ? 1 : c->t->bf16_vpu ? e->valu : e->wide_valu);
	w->of[UNIT_EUP] += n * eup;
	w->of[UNIT_POP] += n * eup;
}

static bool only_views(Dtype from, Dtype to) {
	return dtype_vmem_bits(from) == dtype_vmem_bits(to) && !dtype_is_float(from) && !dtype_is_float(to) &&
	       from != DTYPE_BOOL;
}

/* A bool of what has fewer than 32 bits, compared: its lanes lie packed as those do. */
static bool is_packed_bool(const Core *c, const KStmt *s) {
	for (ValueId v = work_operand(c, s, 0); v != NONE && c->k->values.at[v].def != NONE;
	     v = work_operand(c, s, 0)) {
		s = &c->k->stmts.at[c->k->values.at[v].def];
		const KValue *x = work_tile(c, s, 0);
		if (s->op != OP_LOGICAL_NOT)
			return x && x->dtype != DTYPE_BOOL && dtype_vmem_bits(x->dtype) < 32;
	}
	return false;
}

/* The statement that converts a bool to what this value is but for its shape; NONE. */
static StmtId from_bool(const Kernel *k, ValueId v) {
	while (v != NONE && k->values.at[v].def != NONE) {
		const KStmt *s = &k->stmts.at[k->values.at[v].def];
		const KArg *a = &k->args.at[s->arg_first];
		if (a->kind != KARG_VALUE)
			return NONE;
		if (s->op == K_CONVERT)
			return k->values.at[a->value].dtype == DTYPE_BOOL ? k->values.at[v].def : NONE;
		if (s->op != K_INDEX && s->op != K_RESHAPE && s->op != K_BROADCAST && s->op != K_EXPAND_DIMS)
			return NONE;
		v = a->value;
	}
	return NONE;
}

const bool *gone_statements(const Kernel *k, Arena *a) {
	bool *gone = arena_array(a, k->stmts.count + 1, sizeof *gone);
	for (StmtId i = 0; i < k->stmts.count; i++) {
		const KStmt *s = &k->stmts.at[i];
		if (s->op != K_CONVERT || s->result == NONE || k->values.at[s->result].dtype != DTYPE_BOOL)
			continue;
		const KArg *x = &k->args.at[s->arg_first];
		StmtId first = x->kind == KARG_VALUE ? from_bool(k, x->value) : NONE;
		if (first != NONE)
			gone[first] = true;
	}
	return gone;
}

static void convert(const Core *c, const KStmt *s, Work *w) {
	const KValue *from = work_tile(c, s, 0), *to = &c->k->values.at[s->result];
	if (!from || from->dtype == to->dtype || only_views(from->dtype, to->dtype))
		return;
	double n = array_registers(c->t, DTYPE_F32, from->rank, from->shape), times = 1;
	for (uint32_t i = 0; i < sizeof conversions / sizeof *conversions; i++) {
		const Conversion *x = &conversions[i];
		if (x->from == from->dtype && x->to == to->dtype)
			times = !c->t->bf16_vpu ? x->wide_valu : c->t->narrow_nan ? x->narrow_valu : x->valu;
	}
	if (from->dtype == DTYPE_BOOL && is_packed_bool(c, s))
		times = 5;
	w->of[UNIT_VALU] += n * times;
}

bool reduces_lanes(const Kernel *k, StmtId stmt) {
	const KStmt *s = &k->stmts.at[stmt];
	const KArg *a = &k->args.at[s->arg_first];
	uint32_t rank = a->kind == KARG_VALUE ? k->values.at[a->value].rank : 0;
	bool lanes = s->int_count == 1; /* all axes */
	for (uint32_t i = 1; i < s->int_count; i++)
		lanes = lanes || s->ints[i] + 1 == rank;
	return rank > 0 && lanes;
}

static bool reduces_sublanes(const KStmt *s, uint32_t rank) {
	bool sublanes = s->int_count == 1;
	for (uint32_t i = 1; i < s->int_count; i++)
		sublanes = sublanes || s->ints[i] + 2 == rank;
	return sublanes;
}

/* Registers are combined first, then the one that is left within itself: along lanes by the XLU, along sublanes by
 * rotating and combining three times. */
static void reduce(const Core *c, StmtId stmt, Work *w) {
	const KStmt *s = &c->k->stmts.at[stmt];
	const KValue *x = work_tile(c, s, 0);
	if (!x)
		return;
	bool lanes = reduces_lanes(c->k, stmt), sublanes = reduces_sublanes(s, x->rank);
	double in = work_registers(c, s, 0), left = array_registers(c->t, DTYPE_F32, x->rank, x->shape);
	for (uint32_t i = 0; i < x->rank; i++) {
		bool reduced = s->int_count == 1;
		for (uint32_t j = 1; j < s->int_count; j++)
			reduced = reduced || s->ints[j] == i;
		int64_t of = i + 1 == x->rank   ? int_cdiv(x->shape[i], c->t->lanes)
		             : i + 2 == x->rank ? int_cdiv(x->shape[i], c->t->sublanes)
		                                : x->shape[i];
		left /= reduced ? (double)int_max(of, 1) : 1;
	}
	bool compares = (s->op == K_MAX || s->op == K_MIN) && !dtype_is_float(x->dtype);
	if (sublanes && value_rows(x) > 1 && dtype_vmem_bits(x->dtype) < 32 && x->dtype != DTYPE_BOOL) {
		/* rows share registers: they are taken apart */
		in = array_registers(c->t, DTYPE_F32, x->rank, x->shape);
		w->of[UNIT_VALU] += in;
	}
	w->of[UNIT_VALU] += in > left ? (in - left) * (compares ? 2 : 1) : 0;
	w->chain = in > left && left > 0 ? in / left * c->u->valu_wait : 0;
	w->again = lanes && compares && x->dtype != DTYPE_BOOL; /* its low halves once the high ones are known */
	if (lanes && !dtype_is_float(x->dtype) && x->dtype != DTYPE_BOOL)
		work_moved(w, compares ? MOVED_INTS_COMPARED : MOVED_INTS_ADDED, left);
	else
		work_across(w, lanes ? left : 0);
	w->of[UNIT_VALU] += sublanes && value_rows(x) > 1 ? 6 * left : 0;
	w->of[UNIT_VALU] += s->op == K_MEAN ? left : 0;
	if (lanes && s->op == K_PROD) {
		w->of[UNIT_XLU] += 6 * left;
		w->of[UNIT_VALU] += 7 * left;
	}
}

/* A column that was a row stands in one lane, and so does what is computed of it; where it meets more lanes it is
 * spread over them, once. */
static void spread_columns(const Core *c, const KStmt *s, Work *w) {
	const KValue *to = s->result == NONE ? NULL : &c->k->values.at[s->result];
	for (uint32_t i = 0; to && i < s->arg_count; i++) {
		const KValue *x = work_tile(c, s, i);
		ValueId v = work_operand(c, s, i);
		if (!x || !c->narrow[v] || value_lanes(x) != 1)
			continue;
		if (value_lanes(to) > 1)
			work_across(w, value_registers(c, v));
		c->narrow[v] = value_lanes(to) == 1;
		c->narrow[s->result] = value_lanes(to) == 1;
	}
}

static Work work_of(const Core *c, StmtId stmt) {
	const KStmt *s = &c->k->stmts.at[stmt];
	Work w = {0};
	Operations ops = {0};
	c->expander->to = &ops;
	expand_statement(c->expander, stmt);
	if (c->gone && c->gone[stmt])
		return w;
	switch (s->op) {
	case K_ZEROS:
	case K_ONES:
	case K_FULL:
	case K_IOTA:
	case K_LET:
	case K_SCALAR:
	case K_BITCAST:
	case K_WORDS:
	case K_YIELD:
	case K_RETURN:
	case K_DEBUG_PRINT:
	case K_REVERSE:
	case K_CHOOSE: break;
	case K_BROADCAST:
	case K_EXPAND_DIMS:
	case K_TILE: spread_columns(c, s, &w); break;
	case K_PROGRAM_ID: w.of[UNIT_SCALAR] += 1; break;
	case K_INT: {
		const KArg *a = &c->k->args.at[s->arg_first];
		w.of[UNIT_SCALAR] += a->kind == KARG_INT ? int_operations(c->k, a->index) : 0;
		break;
	}
	case K_START: w.of[UNIT_SCALAR] += 24; break;
	case K_COPY: break;
	case K_WAIT: w.chain = c->u->copy_wait; break;
	case K_CONVERT: convert(c, s, &w); break;
	case K_MASK:
	case K_KEEP:
	case K_WITHIN: w.of[UNIT_VALU] += work_result(c, s); break;
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: reduce(c, stmt, &w); break;
	case K_FOLD_SUM:
	case K_FOLD_MAX:
	case K_FOLD_MIN: w.of[UNIT_VALU] += work_registers(c, s, 1); break;
	case K_FOLD_WHERE: w.of[UNIT_VALU] += work_registers(c, s, 2); break;
	case K_CUMSUM:
	case K_CUMPROD: work_of_scan(c, s, &w); break;
	case K_SORT: work_of_sort(c, s, &w); break;
	case K_PAD: w.of[UNIT_VALU] += work_result(c, s); break;
	case K_DOT: work_of_dot(c, s, &w); break;
	case K_LOAD:
	case K_STORE: work_of_access(c, s, &ops, &w); break;
	default:
		if (work_of_move(c, s, &w))
			break;
		pointwise(c, s, &ops, &w);
		spread_columns(c, s, &w);
		break;
	}
	return w;
}

const Work *statement_work(const Core *c, StmtId stmt) {
	Work **w = &c->works[stmt];
	if (!*w) {
		*w = arena_alloc(c->a, sizeof **w);
		**w = work_of(c, stmt);
	}
	return *w;
}

Core core_of(const Kernel *k, const Target *t, Arena *a) {
	Core c = {.k = k, .t = t, .u = units_of(t), .a = a, .expander = expander_of(k, t, a)};
	c.narrow = arena_array(a, k->values.count + 1, sizeof *c.narrow);
	c.works = arena_array(a, k->stmts.count + 1, sizeof *c.works);
	c.gone = gone_statements(k, a);
	return c;
}
