/* rewrite_strips.c - a tile of long rows is computed in strips of columns that fit the registers. A reduction along the
 * lanes reads all of a row before what depends on it can start; so straight code spills every value of the row in
 * between. In strips, all that needs no such reduction runs on a few columns at a time, and the reduction adds up strip
 * by strip in 128 lanes; what waits for it runs in a strip loop of its own, the next *phase*. What a later phase reads
 * again is computed again there, or kept in the scratch that its statement names. strips.c decides on width and
 * scratch.
 *
 *     strips 512 128                              m = full -inf : float32[8, 128]
 *                                                 m = for strip in 4 ... slice at 128 {
 *     x = load x_ref[...] : float32[8, 512]         x = load x_ref[:, strip * 128 +: 128] : float32[8, 128]
 *     m = max x keep=1 axes=(1)                     m = fold_max m, x
 *                                                   yield m
 *                                                 }
 *                                                 m = max m keep=1 axes=(1) : float32[8, 1]
 *                                                 for strip_1 in 4 from 0 slice at_1 128 {
 *                                                   x_1 = load x_ref[:, strip_1 * 128 +: 128]
 *     y = sub x, m : float32[8, 512]                y = sub x_1, m : float32[8, 128]
 *     store y_ref[...], y                           store y_ref[:, strip_1 * 128 +: 128], y
 *                                                   yield
 *                                                 }
 *
 * A kernel that cannot be computed so, by hand, stays whole. */
#include "rewrite.h"

enum { LANES = 128, PHASES = 32 };

typedef struct Cut {
	Kernel *k;
	const KStrips *s;
	StmtIds all; /* of the body, as they stood */
	uint32_t phases;
	IntId start;        /* of the strip that is being made */
	uint32_t *uses;     /* by value: how often it is read */
	uint32_t *local;    /* by value: how often an argument of what is inside is it, */
	uint32_t *other;    /* of what is not, */
	uint32_t *first;    /* and the first phase of the latter */
	bool *spans;        /* by value: its last dim is the row */
	uint32_t *needed;   /* by value: bit set of the phases that read it */
	BufferId *stash;    /* by value: scratch that keeps it for later phases; NONE */
	ValueId *now;       /* by value: what it is in the phase that is being made */
	bool *inside;       /* by statement: it is computed strip by strip */
	bool *folds;        /* ... and adds up over them */
	uint32_t *phase;    /* by statement: the first in which it can run; what is not inside, before it */
	uint32_t *computed; /* by statement: bit set of the phases that run it */
} Cut;

/* ---- statements ------------------------------------------------------------------------------------------------- */

static StmtId def_of(const Cut *c, KArg x) { return kernel_def_of(c->k, x); }

static bool is_spanning(const Cut *c, KArg x) { return x.kind == KARG_VALUE && c->spans[x.value]; }

static bool reads_spanning(const Cut *c, StmtId s) {
	bool spans = false;
	for (uint32_t i = 0; i < kernel_stmt(c->k, s)->arg_count; i++)
		spans = spans || is_spanning(c, *kernel_arg(c->k, s, i));
	return spans;
}

/* Its last dim is the row, and it is that of what it is made of: a column that becomes a row of as many is not. */
static bool gives_spanning(const Cut *c, StmtId s) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	const KValue *v = stmt->result == NONE ? NULL : &c->k->values.at[stmt->result];
	if (!v || v->type != KTYPE_TILE || v->rank == 0 || v->shape[v->rank - 1] != c->s->size)
		return false;
	switch (stmt->op) {
	case K_LOAD:
	case K_ZEROS:
	case K_ONES:
	case K_FULL:
	case K_IOTA: return true;
	case K_SWAPAXES:
	case K_TRANSPOSE:
	case K_TO_ROW:
	case K_TO_COLUMN: return false;
	default: return reads_spanning(c, s);
	}
}

/* The last two dims of a value that spans the row in each other's place. */
static bool is_swapped(const Cut *c, StmtId s) {
	const KStmt *stmt = s == NONE ? NULL : kernel_stmt(c->k, s);
	return stmt && stmt->op == K_SWAPAXES && stmt->ints[0] + stmt->ints[1] == -3 &&
	       is_spanning(c, *kernel_arg(c->k, s, 0));
}

/* A reduction of rows alone, in float32. */
static bool is_fold(const Cut *c, StmtId s) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	bool known = stmt->op == K_SUM || stmt->op == K_MEAN || stmt->op == K_MAX || stmt->op == K_MIN;
	if (!known || stmt->int_count != 2 || kernel_arg(c->k, s, 0)->kind != KARG_VALUE)
		return false;
	KArg x = *kernel_arg(c->k, s, 0);
	bool swapped = is_swapped(c, def_of(c, x));
	const KValue *v = &c->k->values.at[x.value];
	return v->rank >= 2 && v->dtype == DTYPE_F32 && c->k->values.at[stmt->result].dtype == DTYPE_F32 &&
	       (swapped || c->spans[x.value]) && stmt->ints[1] == (int64_t)v->rank - 1 - swapped;
}

/* What it adds up: as its operand stood before it was turned, or widened. */
static KArg folded(const Cut *c, StmtId s) {
	KArg x = *kernel_arg(c->k, s, 0);
	if (is_swapped(c, def_of(c, x)))
		x = *kernel_arg(c->k, def_of(c, x), 0);
	const KStmt *stmt = kernel_stmt(c->k, s);
	bool narrow = (stmt->flags & KSTMT_NARROW) && (stmt->op == K_MAX || stmt->op == K_MIN);
	if (!narrow || kernel_stmt(c->k, def_of(c, x))->op != K_CONVERT)
		return x;
	KArg from = *kernel_arg(c->k, def_of(c, x), 0);
	return is_spanning(c, from) && c->k->values.at[from.value].dtype == DTYPE_BF16 ? from : x;
}

/* ---- what can run strip by strip -------------------------------------------------------------------------------- */

static bool ref_in_strips(const Cut *c, StmtId s) {
	const KRef *ref = &c->k->refs.at[kernel_arg(c->k, s, 0)->ref];
	const KBuffer *b = &c->k->buffers.at[ref->buffer];
	bool all = ref->rank < b->rank || ref->rank == 0 || ref->dim[ref->rank - 1].kind == KDIM_ALL;
	return all && b->rank > 0 && b->space == KSPACE_VMEM && b->shape[b->rank - 1] == c->s->size;
}

/* Of an op along one axis of its result. */
static bool leaves_row(const Cut *c, StmtId s) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	int64_t rank = c->k->values.at[stmt->result].rank, axis = stmt->ints[0];
	return (axis < 0 ? axis + rank : axis) != rank - 1;
}

/* One element of the last dim broadcasts; more than one are another tile. */
static bool is_pointwise(const Cut *c, StmtId s) {
	for (uint32_t i = 0; i < kernel_stmt(c->k, s)->arg_count; i++) {
		KArg x = *kernel_arg(c->k, s, i);
		const KValue *v = x.kind == KARG_VALUE ? &c->k->values.at[x.value] : NULL;
		if (v && v->rank && !c->spans[x.value] && v->shape[v->rank - 1] != 1)
			return false;
	}
	return true;
}

static bool keeps_bits(const Cut *c, StmtId s) {
	Dtype from = c->k->values.at[kernel_arg(c->k, s, 0)->value].dtype;
	return dtype_bits(from) == dtype_bits(c->k->values.at[kernel_stmt(c->k, s)->result].dtype);
}

static bool in_strips(const Cut *c, StmtId s) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	if (stmt->op == K_STORE)
		return ref_in_strips(c, s);
	if (is_swapped(c, s)) /* find_turned() */
		return true;
	if (!c->spans[stmt->result])
		return false;
	switch (stmt->op) {
	case K_LOAD: return ref_in_strips(c, s);
	case K_ZEROS:
	case K_ONES:
	case K_FULL:
	case K_IOTA:
	case K_RESHAPE: return true;
	case K_MASK:
	case K_KEEP:
	case K_EXPAND_DIMS: return leaves_row(c, s) && is_pointwise(c, s);
	case K_INDEX: {
		int64_t last = stmt->int_count >= 3 ? stmt->ints[stmt->int_count - 3] : K_ITEM_ALL;
		return last == K_ITEM_ALL || last == K_ITEM_REST;
	}
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: return true; /* of other dims: its result has the row */
	case K_BITCAST: return keeps_bits(c, s);
	case K_CHOOSE:
	case K_BROADCAST:
	case K_TRUNC_DIVIDE: return is_pointwise(c, s);
	default: return kernel_op_is_pointwise(stmt->op) && is_pointwise(c, s);
	}
}

/* What turns a row is not computed: only reductions may read it, which turn what they added up. */
static bool turned_folds(const Cut *c, StmtId s) {
	uint32_t folds = 0;
	for (uint32_t i = 0; i < c->all.count && is_swapped(c, s); i++)
		folds += c->folds[c->all.at[i]] && def_of(c, *kernel_arg(c->k, c->all.at[i], 0)) == s;
	return !is_swapped(c, s) || folds == c->uses[kernel_stmt(c->k, s)->result];
}

/* ---- phases ----------------------------------------------------------------------------------------------------- */

static uint32_t phase_behind(const Cut *c, ValueId v) {
	StmtId def = c->k->values.at[v].def;
	return def == NONE ? 0 : c->phase[def] + c->folds[def];
}

static uint32_t later(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t int_phase(const Cut *c, IntId id) {
	if (id == NONE)
		return 0;
	const KInt *i = &c->k->ints.at[id];
	uint32_t own = i->kind == INT_VALUE ? phase_behind(c, i->value) : 0;
	return later(later(own, int_phase(c, i->a)), later(int_phase(c, i->b), int_phase(c, i->c)));
}

static uint32_t arg_phase(const Cut *c, KArg x) {
	uint32_t phase = x.kind == KARG_VALUE ? phase_behind(c, x.value)
	                 : x.kind == KARG_INT ? int_phase(c, x.index)
	                                      : 0;
	for (uint32_t d = 0; x.kind == KARG_REF && d < c->k->refs.at[x.ref].rank; d++)
		if (c->k->refs.at[x.ref].dim[d].kind != KDIM_ALL)
			phase = later(phase, int_phase(c, c->k->refs.at[x.ref].dim[d].start));
	return phase;
}

/* A statement runs in the phase of its operands, or after the last phase of the reductions that it reads. */
static bool find_phases(Cut *c) {
	for (uint32_t n = 0; n < c->all.count; n++) {
		StmtId s = c->all.at[n];
		const KStmt *stmt = kernel_stmt(c->k, s);
		KOpKind kind = kernel_op_kind(stmt->op);
		if (kind == KIND_CONTROL || kind == KIND_ASYNC)
			return false;
		if (stmt->result != NONE && !(c->spans[stmt->result] = gives_spanning(c, s)))
			c->stash[stmt->result] = NONE;
		c->inside[s] = reads_spanning(c, s) || (stmt->result != NONE && c->spans[stmt->result]);
		c->folds[s] = is_fold(c, s);
		if (c->inside[s] && !c->folds[s] && !in_strips(c, s))
			return false;
		c->inside[s] = c->inside[s] || c->folds[s];
		for (uint32_t i = 0; i < stmt->arg_count && !c->folds[s]; i++)
			c->phase[s] = later(c->phase[s], arg_phase(c, *kernel_arg(c->k, s, i)));
		if (c->folds[s])
			c->phase[s] = arg_phase(c, folded(c, s));
		c->phases = later(c->phases, c->phase[s] + 1);
	}
	bool good = c->phases < PHASES;
	for (uint32_t n = 0; n < c->all.count; n++)
		good = good && turned_folds(c, c->all.at[n]);
	return good;
}

static void note_inside(Cut *c, StmtId s, KArg x) {
	if (x.kind != KARG_VALUE)
		return;
	c->needed[x.value] |= c->computed[s];
	c->local[x.value]++;
}

static void note_other(Cut *c, StmtId s, KArg x) {
	if (x.kind != KARG_VALUE)
		return;
	c->first[x.value] = c->other[x.value]++ && c->first[x.value] < c->phase[s] ? c->first[x.value] : c->phase[s];
}

/* A value without a variable stands where it is read: in the strips, or before them. */
static void place_nameless(Cut *c, StmtId s) {
	ValueId v = kernel_stmt(c->k, s)->result;
	if (c->inside[s] || v == NONE || c->k->values.at[v].name || c->k->values.at[v].var || c->uses[v] == 0)
		return;
	c->inside[s] = c->local[v] == c->uses[v];
	if (c->other[v] == c->uses[v])
		c->phase[s] = c->first[v];
}

/* Backwards from readers: where each value is computed. */
static void find_computed(Cut *c) {
	for (uint32_t n = c->all.count; n-- > 0;) {
		StmtId s = c->all.at[n];
		const KStmt *stmt = kernel_stmt(c->k, s);
		place_nameless(c, s);
		bool own = c->folds[s] || stmt->result == NONE || c->stash[stmt->result] != NONE;
		if (c->inside[s])
			c->computed[s] = own ? 1u << c->phase[s] : c->needed[stmt->result];
		if (c->folds[s])
			note_inside(c, s, folded(c, s));
		for (uint32_t i = 0; i < stmt->arg_count && !c->folds[s]; i++)
			(c->inside[s] ? note_inside : note_other)(c, s, *kernel_arg(c->k, s, i));
	}
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Half phases: what is not inside runs before its phase's loop. */
static uint32_t first_run(const Cut *c, StmtId s) {
	uint32_t phase = 0;
	while (c->inside[s] && phase < PHASES && !(c->computed[s] >> phase & 1))
		phase++;
	return c->inside[s] ? 2 * phase + 1 : 2 * c->phase[s];
}
static uint32_t last_run(const Cut *c, StmtId s) {
	uint32_t phase = 0;
	for (uint32_t i = 0; c->inside[s] && i < PHASES; i++)
		phase = c->computed[s] >> i & 1 ? i : phase;
	return c->inside[s] ? 2 * phase + 1 : 2 * c->phase[s];
}

static BufferId touched(const Cut *c, StmtId s) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	bool memory = stmt->op == K_LOAD || stmt->op == K_STORE;
	return memory ? c->k->refs.at[kernel_arg(c->k, s, 0)->ref].buffer : NONE;
}

/* Loads and stores of a buffer that is written stay in their order; nothing else uses a stash. */
static bool memory_in_order(const Cut *c) {
	/* By buffer, from 1: the last run that stores there; that stores or loads. */
	uint32_t *stored = arena_array(c->k->arena, c->k->buffers.count + 1, sizeof *stored);
	uint32_t *used = arena_array(c->k->arena, c->k->buffers.count + 1, sizeof *used);
	bool good = true;
	for (uint32_t n = 0; n < c->all.count; n++) {
		StmtId s = c->all.at[n];
		BufferId b = touched(c, s);
		bool store = kernel_stmt(c->k, s)->op == K_STORE;
		if (b == NONE)
			continue;
		good = good && (store ? used[b] : stored[b]) <= first_run(c, s) + 1;
		stored[b] = store ? later(stored[b], last_run(c, s) + 1) : stored[b];
		used[b] = later(used[b], last_run(c, s) + 1);
	}
	for (uint32_t n = 0; n < c->all.count; n++) { /* what is no strip's is read again in each */
		StmtId s = c->all.at[n];
		bool again = touched(c, s) != NONE && c->inside[s] && kernel_stmt(c->k, s)->op == K_LOAD;
		good = good && !(again && !c->spans[kernel_stmt(c->k, s)->result] && stored[touched(c, s)]);
	}
	for (ValueId v = 0; v < c->k->values.count; v++)
		if (c->stash[v] != NONE)
			good = good && used[c->stash[v]]++ == 0;
	return good;
}

/* ---- in a strip ------------------------------------------------------------------------------------------------- */

static uint32_t strip_shape(const Cut *c, ValueId v, int64_t *shape) {
	const KValue *x = &c->k->values.at[v];
	if (x->rank)
		memcpy(shape, x->shape, x->rank * sizeof *shape);
	if (c->spans[v])
		shape[x->rank - 1] = c->s->width;
	return x->rank;
}

static RefId strip_ref(Cut *c, BufferId b, const KRef *ref) {
	KDim dims[KDIM_MAX] = {{.kind = KDIM_ALL}};
	uint32_t rank = c->k->buffers.at[b].rank;
	for (uint32_t d = 0; d < rank; d++)
		dims[d] = ref && d < ref->rank ? ref->dim[d] : (KDim){.kind = KDIM_ALL};
	dims[rank - 1] = (KDim){.kind = KDIM_RANGE, .start = c->start, .size = c->s->width};
	return kernel_ref(c->k, b, rank, dims);
}

static ValueId mapped(const Cut *c, ValueId v) { return v != NONE && c->now[v] != NONE ? c->now[v] : v; }

/* The result of s, which stands for v in this phase. A variable of a text is that of the first such. */
static void stand_for(Cut *c, ValueId v, StmtId s) {
	int64_t shape[KDIM_MAX];
	strip_shape(c, v, shape);
	ValueId now = result_part(c->k, s, v, shape, c->now);
	const KValue *x = &c->k->values.at[v];
	KValue *y = &c->k->values.at[now];
	y->as = mapped(c, x->as);
	y->var = c->now[v] == NONE ? x->var : NULL;
	c->now[v] = now;
}

static KArg arg_in_strip(Cut *c, KArg x, bool strips) {
	if (x.kind == KARG_VALUE)
		return karg_value(mapped(c, x.value));
	if (x.kind != KARG_REF || !strips)
		return x;
	KRef ref = c->k->refs.at[x.ref];
	return karg_ref(strip_ref(c, ref.buffer, &ref));
}

static StmtId append_like(Cut *c, RegionId r, StmtId like, uint16_t op, uint32_t count, const KArg *args) {
	KStmt old = *kernel_stmt(c->k, like);
	bool same = op == old.op;
	StmtId s = kernel_append(c->k, r, op, count, args, same ? old.int_count : 0, old.ints);
	KStmt *stmt = kernel_stmt(c->k, s);
	stmt->from = old.from;
	stmt->also = old.also;
	stmt->flags = old.flags;
	stmt->name = old.name;
	stmt->var = old.var;
	return s;
}

static void copy(Cut *c, StmtId s, RegionId r) {
	KStmt old = *kernel_stmt(c->k, s);
	KArg *args = arena_array(c->k->arena, old.arg_count + 1, sizeof *args);
	bool strips = old.op == K_STORE || (old.result != NONE && c->spans[old.result]);
	for (uint32_t i = 0; i < old.arg_count; i++)
		args[i] = arg_in_strip(c, *kernel_arg(c->k, s, i), strips);
	StmtId now = append_like(c, r, s, old.op, old.arg_count, args);
	bool along = old.op == K_IOTA && strips && old.ints[0] == (int64_t)c->k->values.at[old.result].rank - 1;
	if (along) {
		int64_t shape[KDIM_MAX];
		uint32_t rank = strip_shape(c, old.result, shape);
		ValueId column = kernel_result(c->k, now, KTYPE_TILE, DTYPE_I32, rank, shape, NULL);
		now = append_like(c, r, s, OP_ADD, 2, (const KArg[]){karg_int(c->start), karg_value(column)});
	}
	if (old.result != NONE)
		stand_for(c, old.result, now);
}

static bool runs_in(const Cut *c, StmtId s, uint32_t phase) { return c->inside[s] && (c->computed[s] >> phase & 1); }

static bool folds_in(const Cut *c, StmtId s, uint32_t phase) { return c->folds[s] && c->phase[s] == phase; }

static void put_in_strip(Cut *c, StmtId s, RegionId r, uint32_t phase) {
	ValueId v = kernel_stmt(c->k, s)->result;
	BufferId stash = v == NONE ? NONE : c->stash[v];
	KArg kept = stash == NONE ? (KArg){0} : karg_ref(strip_ref(c, stash, NULL));
	if (runs_in(c, s, phase)) {
		copy(c, s, r);
		if (stash != NONE && (c->needed[v] & ~c->computed[s]))
			kernel_append(c->k, r, K_STORE, 2, (const KArg[]){kept, karg_value(c->now[v])}, 0, NULL);
	} else if (stash != NONE && (c->needed[v] >> phase & 1)) {
		stand_for(c, v, kernel_append(c->k, r, K_LOAD, 1, &kept, 0, NULL));
	}
}

/* ---- reductions over the strips --------------------------------------------------------------------------------- */

/* What a reduction adds up in. */
typedef struct Total {
	StmtId stmt;
	ValueId named; /* what gives it its name: the reduction's result, or what converts it; NONE */
	KArg initial;
} Total;

static bool has_name(const Cut *c, ValueId v) { return c->k->values.at[v].name || c->k->values.at[v].var; }

static ValueId named_for(const Cut *c, StmtId fold) {
	ValueId v = kernel_stmt(c->k, fold)->result;
	for (uint32_t n = 0; n < c->all.count && !has_name(c, v); n++) {
		StmtId s = c->all.at[n];
		bool converts = kernel_stmt(c->k, s)->op == K_CONVERT && !c->inside[s];
		if (converts && kernel_arg(c->k, s, 0)->kind == KARG_VALUE && kernel_arg(c->k, s, 0)->value == v &&
		    c->uses[v] == 1)
			v = kernel_stmt(c->k, s)->result;
	}
	return has_name(c, v) ? v : NONE;
}

static void name_total(Cut *c, const Total *t, ValueId v) {
	const KValue *like = t->named == NONE ? NULL : kernel_value_at(c->k, t->named);
	KValue *x = kernel_value_at(c->k, v);
	x->name = !like ? "total" : like->name ? like->name : like->var;
	x->var = like ? like->var : NULL;
	if (t->initial.kind == KARG_VALUE && t->initial.value != v)
		x->as = t->initial.value;
}

static Total start_fold(Cut *c, StmtId s, RegionId r) {
	KArg x = folded(c, s);
	const KValue *v = &c->k->values.at[x.value];
	uint16_t op = kernel_stmt(c->k, s)->op;
	int64_t shape[KDIM_MAX];
	uint32_t rank = strip_shape(c, x.value, shape);
	double infinity = 1e308 * 10;
	KArg least = karg_real(op == K_MAX ? -infinity : infinity);
	bool extreme = op == K_MAX || op == K_MIN;
	shape[rank - 1] = LANES;
	ValueId initial =
		kernel_op(c->k, r, extreme ? K_FULL : K_ZEROS, v->dtype, rank, shape, extreme, &least, 0, NULL);
	Total t = {s, named_for(c, s), karg_value(initial)};
	name_total(c, &t, initial);
	return t;
}

static bool same_shape(const Kernel *k, KArg x, ValueId as) {
	const KValue *a = &k->values.at[as], *b = x.kind == KARG_VALUE ? &k->values.at[x.value] : NULL;
	return b && kernel_same_shape(a->rank, a->shape, b->rank, b->shape);
}

/* The numbers of the row's columns. */
static bool counts_columns(const Cut *c, KArg x) {
	StmtId s = def_of(c, x);
	return s != NONE && kernel_stmt(c->k, s)->op == K_IOTA && c->spans[x.value] &&
	       kernel_stmt(c->k, s)->ints[0] + 1 == (int64_t)c->k->values.at[x.value].rank;
}

/* The sum of what is chosen where a column's number is the row's own, as a label is, and 0 elsewhere: of one column at
 * most. The choice; NONE. */
static StmtId choice_of(const Cut *c, StmtId fold) {
	const Kernel *k = c->k;
	KArg x = *kernel_arg(k, fold, 0);
	StmtId where = def_of(c, x), eq;
	if (kernel_stmt(k, fold)->op != K_SUM || where == NONE || kernel_stmt(k, where)->op != OP_WHERE ||
	    c->uses[x.value] != 1 || !karg_is_number(*kernel_arg(k, where, 2), 0))
		return NONE;
	for (uint32_t i = 0; i < 2; i++)
		if (!same_shape(k, *kernel_arg(k, where, i), x.value))
			return NONE;
	eq = def_of(c, *kernel_arg(k, where, 0));
	if (eq == NONE || kernel_stmt(k, eq)->op != OP_EQ)
		return NONE;
	KArg a = *kernel_arg(k, eq, 0), b = *kernel_arg(k, eq, 1);
	return (counts_columns(c, a) && !is_spanning(c, b)) || (counts_columns(c, b) && !is_spanning(c, a)) ? where
	                                                                                                    : NONE;
}

/* `total` and what the strip adds to it: nothing is added up of a choice of one column. */
static KArg fold(Cut *c, const Total *t, RegionId r, ValueId carried) {
	Kernel *k = c->k;
	uint16_t op = kernel_stmt(k, t->stmt)->op;
	StmtId where = choice_of(c, t->stmt), s;
	if (where != NONE) {
		KValue x = k->values.at[carried];
		ValueId none = kernel_op(k, r, K_ZEROS, x.dtype, x.rank, x.shape, 0, NULL, 0, NULL);
		const KArg args[3] = {karg_value(none), karg_value(mapped(c, kernel_arg(k, where, 0)->value)),
		                      karg_value(mapped(c, kernel_arg(k, where, 1)->value))};
		s = append_like(c, r, t->stmt, K_FOLD_WHERE, 3, args);
		const KArg sum[2] = {karg_value(carried), karg_value(kernel_result_like(k, s, carried, NULL))};
		s = append_like(c, r, t->stmt, OP_ADD, 2, sum);
	} else {
		const KArg args[2] = {karg_value(carried), karg_value(mapped(c, folded(c, t->stmt).value))};
		s = append_like(c, r, t->stmt,
		                op == K_MAX   ? K_FOLD_MAX
		                : op == K_MIN ? K_FOLD_MIN
		                              : K_FOLD_SUM,
		                2, args);
	}
	kernel_stmt(k, s)->flags &= (uint16_t)~KSTMT_NARROW;
	ValueId v = kernel_result_like(k, s, carried, NULL);
	name_total(c, t, v);
	return karg_value(v);
}

/* The reduction of its lanes, which gives the value that the whole one gave. */
static void end_fold(Cut *c, const Total *t, RegionId r, ValueId total) {
	KStmt old = *kernel_stmt(c->k, t->stmt);
	bool mean = old.op == K_MEAN;
	int64_t swap[] = {-1, -2};
	KArg x = karg_value(total);
	if (c->k->values.at[total].dtype != DTYPE_F32)
		x = karg_value(kernel_op(c->k, r, K_CONVERT, DTYPE_F32, 0, NULL, 1, &x, 0, NULL));
	if (is_swapped(c, def_of(c, *kernel_arg(c->k, t->stmt, 0))))
		x = karg_value(kernel_op(c->k, r, K_SWAPAXES, DTYPE_F32, 0, NULL, 1, &x, 2, swap));
	StmtId last;
	if (mean) {
		x = karg_value(kernel_op(c->k, r, K_SUM, DTYPE_F32, 0, NULL, 1, &x, old.int_count, old.ints));
		last = kernel_append(c->k, r, OP_DIV, 2, (const KArg[]){x, karg_integer(c->s->size)}, 0, NULL);
	} else {
		last = kernel_append(c->k, r, old.op, 1, &x, old.int_count, old.ints);
	}
	kernel_stmt(c->k, last)->result = old.result;
	kernel_stmt(c->k, last)->result_count = 1;
	c->k->values.at[old.result].def = last;
	if (t->named != NONE)
		c->k->values.at[t->named].as = total;
}

/* ---- a phase ---------------------------------------------------------------------------------------------------- */

static void strip_loop(Cut *c, uint32_t phase, uint32_t count, const Total *totals) {
	Kernel *k = c->k;
	KArg *args = arena_array(k->arena, count + 1, sizeof *args);
	KFor *each = for_slices(k, "strip", c->s->size, c->s->width, &c->start);
	for (uint32_t i = 0; i < count; i++)
		args[i] = totals[i].initial;
	StmtId loop = kernel_append(k, k->body, K_FOR, count, args, 0, NULL);
	RegionId r = kernel_region(k, loop);
	kernel_stmt(k, loop)->each = each;
	kernel_stmt(k, loop)->name = "at";
	kernel_stmt(k, loop)->body = r;
	ValueId *carried = arena_array(k->arena, count + 1, sizeof *carried);
	for (uint32_t i = 0; i < count; i++) {
		KValue x = k->values.at[totals[i].initial.value];
		carried[i] = kernel_value(k, x.type, x.dtype, x.rank, x.shape, NULL);
		name_total(c, &totals[i], carried[i]);
		vec_push(k->arena, &each->carried, carried[i]);
	}
	for (uint32_t n = 0, i = 0; n < c->all.count; n++) {
		if (!folds_in(c, c->all.at[n], phase)) {
			put_in_strip(c, c->all.at[n], r, phase);
			continue;
		}
		args[i] = fold(c, &totals[i], r, carried[i]);
		i++;
	}
	kernel_append(k, r, K_YIELD, count, args, 0, NULL);
	for (uint32_t i = 0; i < count; i++) {
		KValue x = k->values.at[totals[i].initial.value];
		name_total(c, &totals[i], kernel_result(k, loop, x.type, x.dtype, x.rank, x.shape, NULL));
	}
	for (uint32_t i = 0; i < count; i++)
		end_fold(c, &totals[i], k->body, kernel_stmt(k, loop)->result + i);
}

static void put_phase(Cut *c, uint32_t phase) {
	Total *totals = arena_array(c->k->arena, c->all.count + 1, sizeof *totals);
	uint32_t count = 0;
	bool any = false;
	for (uint32_t n = 0; n < c->all.count; n++) {
		any = any || runs_in(c, c->all.at[n], phase);
		if (!c->inside[c->all.at[n]] && c->phase[c->all.at[n]] == phase)
			kernel_move(c->k, c->all.at[n], c->k->body);
	}
	for (uint32_t n = 0; n < c->all.count; n++)
		if (folds_in(c, c->all.at[n], phase))
			totals[count++] = start_fold(c, c->all.at[n], c->k->body);
	if (any)
		strip_loop(c, phase, count, totals);
}

static void *by_value(Kernel *k, size_t size) { return arena_array(k->arena, k->values.count + 1, size); }
static void *by_stmt(Kernel *k, size_t size) { return arena_array(k->arena, k->stmts.count + 1, size); }

static Cut cut_new(Kernel *k) {
	Cut c = {.k = k, .s = k->strips, .uses = kernel_uses(k)};
	c.local = by_value(k, sizeof *c.local);
	c.other = by_value(k, sizeof *c.other);
	c.first = by_value(k, sizeof *c.first);
	c.spans = by_value(k, sizeof *c.spans);
	c.needed = by_value(k, sizeof *c.needed);
	c.stash = by_value(k, sizeof *c.stash);
	c.now = by_value(k, sizeof *c.now);
	c.inside = by_stmt(k, sizeof *c.inside);
	c.folds = by_stmt(k, sizeof *c.folds);
	c.phase = by_stmt(k, sizeof *c.phase);
	c.computed = by_stmt(k, sizeof *c.computed);
	for (ValueId v = 0; v < k->values.count; v++)
		c.stash[v] = c.now[v] = NONE;
	for (uint32_t i = 0; i < k->strips->stashes.count; i++)
		c.stash[k->strips->stashes.at[i].value] = k->strips->stashes.at[i].scratch;
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		vec_push(k->arena, &c.all, s);
	return c;
}

void rewrite_strips(Kernel *k) {
	if (!k->strips)
		return;
	Cut c = cut_new(k);
	bool cut = find_phases(&c);
	if (cut)
		find_computed(&c);
	cut = cut && memory_in_order(&c);
	for (uint32_t phase = 0; cut && phase < c.phases; phase++)
		put_phase(&c, phase);
	for (uint32_t n = 0; n < c.all.count; n++) {
		if (cut && c.inside[c.all.at[n]])
			kernel_remove(k, c.all.at[n]);
		kernel_stmt(k, c.all.at[n])->flags &= (uint16_t)~KSTMT_NARROW;
	}
	if (cut)
		columns_spread(k, k->strips->spread);
	k->strips = NULL;
}
