/* rewrite_repeats.c - steps of the grid's last dim of which tables alone tell what they do: one that is told the same
 * as the step before it does nothing, for it would store the same again. Lists of work are as long as the longest may
 * be, and their last entries repeat.
 *
 *     at = load blocks_ref[i]         at = load blocks_ref[i]
 *     ...                             at_before = load blocks_ref[max(i - 1, 0)]
 *     store out_ref[at, :, :], x      when (choose((i > 0) & (at == at_before), 0, 1) > 0) news { ... }
 *
 * What a step stores may depend on what it finds there only where it puts that back: `where mask, x, found`. */
#include "rewrite.h"

/* A single element of a table that the step reads. */
typedef struct Told {
	BufferId table;
	const IntId *at;
	ValueId now; /* a statement of the kernel's function gives it; NONE: only index maps read it */
} Told;

typedef struct Repeats {
	Kernel *k;
	ValueId point[KDIM_MAX]; /* by grid dim: the program id; NONE */
	VEC(Told) told;
	bool pure;
} Repeats;

static ValueId last_point(const Repeats *r) { return r->point[r->k->grid.count - 1]; }

static bool ref_reads(const Kernel *k, RefId ref, ValueId v) {
	bool reads = v != NONE && int_reads(k, k->refs.at[ref].at, v);
	for (uint32_t d = 0; v != NONE && d < k->refs.at[ref].rank; d++)
		reads = reads || int_reads(k, k->refs.at[ref].dim[d].start, v);
	return reads;
}

/* The element as the grid's point alone says it, of the values `point`. False: something else tells, too. */
static bool add_told(Repeats *r, RefId ref, const ValueId *point, ValueId now) {
	Kernel *k = r->k;
	const KRef x = k->refs.at[ref];
	IntId *at = arena_array(k->arena, x.rank + 1, sizeof *at);
	bool all = buffer_is_table(k, x.buffer) && x.rank == k->buffers.at[x.buffer].rank;
	for (uint32_t d = 0; all && d < x.rank; d++) {
		int64_t number;
		bool known = int_is_const(k, x.dim[d].start, &number);
		at[d] = x.dim[d].start;
		for (uint32_t g = 0; g < k->grid.count && !known; g++) {
			known = point[g] != NONE && r->point[g] != NONE && at[d] == int_value(k, point[g]);
			at[d] = known ? int_value(k, r->point[g]) : at[d];
		}
		all = known && x.dim[d].kind == KDIM_AT;
	}
	for (uint32_t i = 0; all && i < r->told.count; i++) {
		Told *old = &r->told.at[i];
		if (old->table == x.buffer && memcmp(old->at, at, x.rank * sizeof *at) == 0) {
			old->now = old->now == NONE ? now : old->now;
			return true;
		}
	}
	Told told = {x.buffer, at, now};
	if (all)
		vec_push(k->arena, &r->told, told);
	return all;
}

bool load_put_back(Kernel *k, StmtId load) {
	ValueId found = kernel_stmt(k, load)->result;
	RefId ref = kernel_arg(k, load, 0)->ref;
	StmtId where = kernel_stmt(k, load)->next, store = where == NONE ? NONE : kernel_stmt(k, where)->next;
	if (store == NONE || kernel_stmt(k, where)->op != OP_WHERE || kernel_stmt(k, store)->op != K_STORE)
		return false;
	const KArg *old = kernel_arg(k, where, 2), *to = kernel_arg(k, store, 0), *put = kernel_arg(k, store, 1);
	const KRef *a = &k->refs.at[ref], *b = &k->refs.at[to->ref];
	bool same = a->buffer == b->buffer && a->rank == b->rank;
	for (uint32_t d = 0; same && d < a->rank; d++)
		same = a->dim[d].kind == b->dim[d].kind && a->dim[d].start == b->dim[d].start &&
		       a->dim[d].size == b->dim[d].size;
	return same && old->kind == KARG_VALUE && old->value == found && put->kind == KARG_VALUE &&
	       put->value == kernel_stmt(k, where)->result && kernel_uses(k)[found] == 1;
}

static bool may_repeat(Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	switch (kernel_op_kind(stmt->op)) {
	case KIND_PURE: return true;
	case KIND_ASYNC: return false;
	case KIND_CONTROL:
		return stmt->op == K_WHEN || stmt->op == K_IF || stmt->op == K_YIELD ||
		       (stmt->op == K_FOR && stmt->each->slice == 0);
	case KIND_MEMORY_ACCESS: break;
	}
	const KBuffer *b = &k->buffers.at[k->refs.at[kernel_arg(k, s, 0)->ref].buffer];
	return (stmt->op == K_LOAD && (b->role == BUFFER_IN || load_put_back(k, s))) ||
	       (stmt->op == K_STORE && b->role == BUFFER_OUT);
}

static void look_at(Kernel *k, StmtId s, void *data) {
	Repeats *r = data;
	const KStmt stmt = *kernel_stmt(k, s);
	ValueId last = last_point(r);
	bool top = stmt.region == k->body;
	r->pure = r->pure && may_repeat(k, s);
	if (stmt.op == K_PROGRAM_ID) {
		r->pure = r->pure && top && stmt.result == r->point[stmt.ints[0]];
		return;
	}
	r->pure = r->pure && (stmt.op != K_FOR || last == NONE || !int_reads(k, stmt.each->end, last));
	for (uint32_t i = 0; r->pure && i < stmt.arg_count; i++) {
		KArg arg = *kernel_arg(k, s, i);
		if (arg.kind == KARG_REF && ref_reads(k, arg.ref, last))
			r->pure = stmt.op == K_LOAD && add_told(r, arg.ref, r->point, top ? stmt.result : NONE);
		else if (last != NONE && arg.kind == KARG_VALUE)
			r->pure = arg.value != last;
		else if (last != NONE && arg.kind == KARG_INT)
			r->pure = !int_reads(k, arg.index, last);
	}
}

/* The elements by which index maps find blocks. False: the point itself moves one. */
static bool told_in(Repeats *r, IntId i, const ValueId *point) {
	const Kernel *k = r->k;
	if (i == NONE)
		return true;
	const KInt x = k->ints.at[i];
	RefId element = x.kind == INT_VALUE ? value_element(k, x.value) : NONE;
	if (element != NONE)
		return !ref_reads(k, element, point[k->grid.count - 1]) || add_told(r, element, point, NONE);
	return (x.kind != INT_VALUE || x.value != point[k->grid.count - 1]) && told_in(r, x.a, point) &&
	       told_in(r, x.b, point) && told_in(r, x.c, point);
}

/* Nothing but the grid's point, tables and arrays that stay as they are tell what a step stores. */
static bool steps_can_repeat(Repeats *r) {
	Kernel *k = r->k;
	uint32_t last = k->grid.count - 1;
	ValueId at[KDIM_MAX] = {0};
	if (k->grid.count == 0 || k->grid.count > KDIM_MAX || k->grid.at[last].steps < 2 || k->grid.at[last].parallel ||
	    k->turns || k->mesh_axis || k->strips)
		return false;
	for (uint32_t d = 0; d < KDIM_MAX; d++)
		r->point[d] = NONE;
	for (uint32_t d = 0; d <= last; d++)
		at[d] = k->grid.at[d].at;
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_PROGRAM_ID && r->point[kernel_stmt(k, s)->ints[0]] == NONE)
			r->point[kernel_stmt(k, s)->ints[0]] = kernel_stmt(k, s)->result;
	if (last_point(r) == NONE)
		return false;
	for (BufferId b = 0; b < k->buffers.count && r->pure; b++) {
		const KBuffer x = k->buffers.at[b];
		r->pure = x.role != BUFFER_SCRATCH && x.alias == NONE && !x.held;
		for (uint32_t d = 0; x.index && d < x.rank && r->pure; d++)
			r->pure = told_in(r, x.index[d], at);
	}
	kernel_walk(k, k->body, look_at, r);
	return r->pure && r->told.count > 0;
}

static ValueId load_of(Kernel *k, const Told *told, ValueId last, IntId by, StmtId before) {
	KBuffer table = k->buffers.at[told->table];
	KDim *dim = arena_array(k->arena, table.rank + 1, sizeof *dim);
	for (uint32_t d = 0; d < table.rank; d++)
		dim[d] = (KDim){.kind = KDIM_AT, .start = int_substitute(k, told->at[d], last, by), .size = 1};
	KArg ref = karg_ref(kernel_ref(k, told->table, table.rank, dim));
	StmtId s = kernel_insert_before(k, before, K_LOAD, 1, &ref, 0, NULL);
	return kernel_result(k, s, KTYPE_SCALAR, table.dtype, 0, NULL, "told");
}

void rewrite_repeats(Kernel *k) {
	Repeats r = {.k = k, .pure = true};
	if (!steps_can_repeat(&r))
		return;
	ValueId last = last_point(&r);
	IntId here = int_value(k, last), zero = int_const(k, 0);
	IntId before = int_binary(k, INT_MAX, int_binary(k, INT_SUB, here, int_const(k, 1)), zero);
	IntId same = int_binary(k, INT_GT, here, zero);
	StmtId when = kernel_append(k, k->body, K_WHEN, 0, NULL, 0, NULL), next;
	RegionId body = kernel_region(k, when);
	kernel_stmt(k, when)->body = body;
	kernel_stmt(k, when)->name = "news";
	for (StmtId s = region_first(k, k->body); s != when; s = next) {
		bool stays = kernel_stmt(k, s)->op == K_PROGRAM_ID;
		next = kernel_stmt(k, s)->next;
		for (uint32_t i = 0; i < r.told.count; i++)
			stays = stays || (r.told.at[i].now != NONE && kernel_stmt(k, s)->result == r.told.at[i].now);
		if (!stays)
			kernel_move(k, s, body);
	}
	for (uint32_t i = 0; i < r.told.count; i++) {
		Told *told = &r.told.at[i];
		if (told->now == NONE)
			told->now = load_of(k, told, last, here, when);
		ValueId old = load_of(k, told, last, before, when);
		value_called_after(k, old, told->now, "before");
		same = int_binary(k, INT_AND, same, int_binary(k, INT_EQ, int_value(k, told->now), int_value(k, old)));
	}
	KArg news = karg_int(int_binary(k, INT_GT, int_choose(k, same, zero, int_const(k, 1)), zero));
	kernel_set_args(k, when, 1, &news);
}
