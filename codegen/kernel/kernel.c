/* kernel.c - making and changing a kernel: its vectors, hash-consed integers, regions as lists of statements. */
#include "kernel.h"

/* ---- ops -------------------------------------------------------------------------------------------------------- */

static const KOpRow rows[] = {
#define PURE KIND_PURE
#define MEMORY KIND_MEMORY_ACCESS
#define ASYNC KIND_ASYNC
#define CONTROL KIND_CONTROL
#define KOP(e, name, kind, attributes, text) {name, kind, attributes, text},
#include "kernel_ops.def"
#undef KOP
#undef PURE
#undef MEMORY
#undef ASYNC
#undef CONTROL
};

const KOpRow *kernel_op_row(uint16_t op) { return op > K_FIRST && op < K_END ? &rows[op - K_FIRST - 1] : NULL; }

static const char *const pointwise_names[] = {
#define OP(e, ...) #e,
#include "ops.def"
#undef OP
};

const char *kernel_op_name(Arena *a, uint16_t op) {
	const KOpRow *row = kernel_op_row(op);
	if (row)
		return row->name;
	if (op >= OP_COUNT)
		return "?";
	char *name = arena_strdup(a, pointwise_names[op]);
	for (char *c = name; *c; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
	return name;
}

static bool same_small(const char *name, const char *capitals) {
	for (; *name && *capitals; name++, capitals++)
		if (*name != (*capitals >= 'A' && *capitals <= 'Z' ? *capitals + ('a' - 'A') : *capitals))
			return false;
	return *name == *capitals;
}

uint16_t kernel_op_find(const char *name) {
	for (uint16_t op = K_FIRST + 1; op < K_END; op++)
		if (strcmp(kernel_op_row(op)->name, name) == 0)
			return op;
	for (uint16_t op = 0; op < OP_COUNT; op++) {
		OpKind kind = op_row(op)->kind;
		if ((kind == KIND_POINTWISE || kind == KIND_SYMBOLIC) && same_small(name, pointwise_names[op]))
			return op_canonical(op);
	}
	return K_END;
}

KOpKind kernel_op_kind(uint16_t op) {
	const KOpRow *row = kernel_op_row(op);
	return row ? row->kind : KIND_PURE;
}

/* ---- integers --------------------------------------------------------------------------------------------------- */

static uint64_t int_hash(const KInt *i) {
	uint64_t h = (uint64_t)i->kind * 0x9e3779b97f4a7c15u ^ (uint64_t)i->number;
	h = (h ^ i->value) * 0xff51afd7ed558ccdu;
	h = (h ^ i->a) * 0xff51afd7ed558ccdu;
	h = (h ^ (h >> 29) ^ i->b) * 0xff51afd7ed558ccdu;
	return ((h ^ (h >> 31) ^ i->c) * 0x9e3779b97f4a7c15u) ^ (h >> 33);
}

static bool int_same(const KInt *x, const KInt *y) {
	return x->kind == y->kind && x->number == y->number && x->value == y->value && x->a == y->a && x->b == y->b &&
	       x->c == y->c;
}

/* The one expression equal to it. Two with one hash are told apart by looking: the later one goes under the next. */
IntId int_intern(Kernel *k, KInt i) {
	for (uint64_t key = int_hash(&i);; key++) {
		IntId at = map_get(&k->int_of, key);
		if (at != NONE && int_same(&k->ints.at[at], &i))
			return at;
		if (at != NONE)
			continue;
		map_put(k->arena, &k->int_of, key, k->ints.count);
		vec_push(k->arena, &k->ints, i);
		return k->ints.count - 1;
	}
}

static KInt int_blank(IntKind kind) { return (KInt){.kind = kind, .value = NONE, .a = NONE, .b = NONE, .c = NONE}; }

IntId int_const(Kernel *k, int64_t number) {
	KInt i = int_blank(INT_CONST);
	i.number = number;
	return int_intern(k, i);
}

IntId int_value(Kernel *k, ValueId v) {
	KInt i = int_blank(INT_VALUE);
	i.value = v;
	return int_intern(k, i);
}

bool int_is_const(const Kernel *k, IntId i, int64_t *number) {
	*number = k->ints.at[i].number;
	return k->ints.at[i].kind == INT_CONST;
}

/* false: it is nothing that int64 holds. */
static bool int_fold(IntKind kind, int64_t a, int64_t b, int64_t *out) {
	switch (kind) {
	case INT_NEG: return checked_sub(0, a, out);
	case INT_ADD: return checked_add(a, b, out);
	case INT_SUB: return checked_sub(a, b, out);
	case INT_MUL: return checked_mul(a, b, out);
	case INT_DIV: return checked_floordiv(a, b, out);
	case INT_REM: return checked_mod(a, b, out);
	case INT_CDIV: return b > 0 && a >= 0 && a < INT64_MAX - b && (*out = int_cdiv(a, b), true);
	case INT_MIN: return *out = int_min(a, b), true;
	case INT_MAX: return *out = int_max(a, b), true;
	case INT_EQ: return *out = a == b, true;
	case INT_LT: return *out = a < b, true;
	case INT_LE: return *out = a <= b, true;
	case INT_GT: return *out = a > b, true;
	case INT_GE: return *out = a >= b, true;
	case INT_AND: return *out = a && b, true;
	default: return false;
	}
}

IntId int_binary(Kernel *k, IntKind kind, IntId a, IntId b) {
	int64_t x, y = 0, folded;
	if (int_is_const(k, a, &x) && (kind == INT_NEG || int_is_const(k, b, &y)) && int_fold(kind, x, y, &folded))
		return int_const(k, folded);
	return int_unfolded(k, kind, a, kind == INT_NEG ? NONE : b);
}

static IntId int_of(Kernel *k, IntKind kind, IntId a, IntId b, IntId c) {
	return int_intern(k, (KInt){.kind = kind, .value = NONE, .a = a, .b = b, .c = c});
}

IntId int_unfolded(Kernel *k, IntKind kind, IntId a, IntId b) { return int_of(k, kind, a, b, NONE); }

IntId int_choose(Kernel *k, IntId flag, IntId yes, IntId no) { return int_of(k, INT_CHOOSE, flag, yes, no); }

IntId int_turn(Kernel *k, IntId row, IntId step, IntId steps) { return int_of(k, INT_TURN, row, step, steps); }

IntId int_device(Kernel *k) { return int_intern(k, int_blank(INT_DEVICE)); }

static IntId int_of_dim(Kernel *k, IntKind kind, uint32_t dim) {
	KInt i = int_blank(kind);
	i.number = dim;
	return int_intern(k, i);
}

IntId int_first(Kernel *k, uint32_t dim) { return int_of_dim(k, INT_FIRST, dim); }

IntId int_later(Kernel *k, uint32_t dim) { return int_of_dim(k, INT_LATER, dim); }

/* Adds the terms of a sum that are no constants to `sum`, those to `constant`. */
static void sum_terms(Kernel *k, IntId id, bool minus, IntId *sum, int64_t *constant) {
	KInt i = k->ints.at[id];
	if (i.kind == INT_ADD || i.kind == INT_SUB) {
		sum_terms(k, i.a, minus, sum, constant);
		sum_terms(k, i.b, minus != (i.kind == INT_SUB), sum, constant);
	} else if (i.kind == INT_NEG) {
		sum_terms(k, i.a, !minus, sum, constant);
	} else if (i.kind == INT_CONST) {
		*constant += minus ? -i.number : i.number;
	} else if (*sum == NONE) {
		*sum = minus ? int_binary(k, INT_NEG, id, NONE) : id;
	} else {
		*sum = int_binary(k, minus ? INT_SUB : INT_ADD, *sum, id);
	}
}

/* A sum with its constants in one, behind the rest: before it, if that starts with a minus. */
static IntId sum_in_order(Kernel *k, IntId id) {
	IntId sum = NONE;
	int64_t constant = 0;
	if (k->ints.at[id].kind != INT_ADD && k->ints.at[id].kind != INT_SUB)
		return id;
	sum_terms(k, id, false, &sum, &constant);
	if (sum == NONE || constant == 0)
		return sum == NONE ? int_const(k, constant) : sum;
	IntId first = sum;
	while (k->ints.at[first].kind == INT_ADD || k->ints.at[first].kind == INT_SUB)
		first = k->ints.at[first].a;
	if (k->ints.at[first].kind == INT_NEG) {
		sum = int_const(k, constant);
		int64_t none = 0;
		sum_terms(k, id, false, &sum, &none);
		return sum;
	}
	return int_binary(k, constant < 0 ? INT_SUB : INT_ADD, sum, int_const(k, constant < 0 ? -constant : constant));
}

RefId value_element(const Kernel *k, ValueId v) {
	StmtId def = k->values.at[v].def;
	bool element = def != NONE && k->elements != NONE && kernel_stmt(k, def)->region == k->elements;
	return element ? kernel_arg(k, def, 0)->ref : NONE;
}

static bool same_element(const Kernel *k, RefId r, BufferId table, const IntId *at) {
	bool same = k->refs.at[r].buffer == table;
	for (uint32_t d = 0; same && d < k->refs.at[r].rank; d++)
		same = k->refs.at[r].dim[d].start == at[d];
	return same;
}

IntId int_element(Kernel *k, BufferId table, const IntId *at) {
	KDim dim[KDIM_MAX];
	uint32_t rank = k->buffers.at[table].rank;
	if (k->elements == NONE)
		k->elements = kernel_region(k, NONE);
	for (StmtId s = region_first(k, k->elements); s != NONE; s = kernel_stmt(k, s)->next)
		if (same_element(k, kernel_arg(k, s, 0)->ref, table, at))
			return int_value(k, kernel_stmt(k, s)->result);
	for (uint32_t d = 0; d < rank; d++)
		dim[d] = (KDim){.kind = KDIM_AT, .start = at[d]};
	KArg ref = karg_ref(kernel_ref(k, table, rank, dim));
	StmtId s = kernel_append(k, k->elements, K_LOAD, 1, &ref, 0, NULL);
	return int_value(k, kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, NULL));
}

static IntId substituted(Kernel *k, IntId id, ValueId v, IntId by);

/* The element at other ints. */
static IntId element_substituted(Kernel *k, RefId r, ValueId v, IntId by) {
	IntId at[KDIM_MAX] = {0};
	uint32_t rank = k->refs.at[r].rank;
	for (uint32_t d = 0; d < rank; d++)
		at[d] = substituted(k, k->refs.at[r].dim[d].start, v, by);
	return int_element(k, k->refs.at[r].buffer, at);
}

static IntId substituted(Kernel *k, IntId id, ValueId v, IntId by) {
	if (id == NONE || !int_reads(k, id, v))
		return id;
	KInt i = k->ints.at[id];
	if (i.kind == INT_VALUE)
		return i.value == v ? by : element_substituted(k, value_element(k, i.value), v, by);
	i.a = substituted(k, i.a, v, by);
	i.b = substituted(k, i.b, v, by);
	i.c = substituted(k, i.c, v, by);
	return i.c == NONE ? int_binary(k, i.kind, i.a, i.b) : int_intern(k, i);
}

IntId int_substitute(Kernel *k, IntId id, ValueId v, IntId by) {
	int64_t number;
	if (id == NONE || !int_reads(k, id, v))
		return id;
	id = substituted(k, id, v, by);
	return int_is_const(k, by, &number) ? sum_in_order(k, id) : id;
}

bool int_reads(const Kernel *k, IntId id, ValueId v) {
	if (id == NONE)
		return false;
	const KInt *i = &k->ints.at[id];
	RefId element = i->kind == INT_VALUE && i->value != v ? value_element(k, i->value) : NONE;
	bool reads = i->kind == INT_VALUE && i->value == v;
	for (uint32_t d = 0; element != NONE && d < k->refs.at[element].rank; d++)
		reads = reads || int_reads(k, k->refs.at[element].dim[d].start, v);
	return reads || int_reads(k, i->a, v) || int_reads(k, i->b, v) || int_reads(k, i->c, v);
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

RegionId kernel_region(Kernel *k, StmtId owner) {
	KRegion r = {NONE, NONE, owner};
	vec_push(k->arena, &k->regions, r);
	return k->regions.count - 1;
}

RegionId kernel_define(Kernel *k, StmtId def, FunctionId f) {
	RegionId body = k->functions.at[f].body;
	kernel_stmt(k, def)->function = f;
	k->regions.at[body].owner = def;
	return body;
}

Kernel *kernel_new(Arena *a, const char *name) {
	Kernel *k = arena_alloc(a, sizeof *k);
	k->arena = a;
	k->name = name;
	k->collective_id = -1;
	k->elements = NONE;
	k->body = kernel_region(k, NONE);
	return k;
}

static const int64_t *ints_copied(Kernel *k, uint32_t count, const int64_t *ints) {
	return count ? arena_copy(k->arena, ints, count, sizeof *ints) : NULL;
}

ValueId kernel_value(Kernel *k, KType type, Dtype dtype, uint32_t rank, const int64_t *shape, const char *name) {
	KValue v = {.type = type,
	            .dtype = dtype,
	            .layout = rank ? LAYOUT_TILE : LAYOUT_SCALAR,
	            .rank = rank,
	            .shape = ints_copied(k, rank, shape),
	            .def = NONE,
	            .name = name,
	            .after = NONE,
	            .as = NONE};
	vec_push(k->arena, &k->values, v);
	return k->values.count - 1;
}

KValue *kernel_value_at(Kernel *k, ValueId v) { return &k->values.at[v]; }

BufferId kernel_buffer(Kernel *k, KBuffer b) {
	b.shape = ints_copied(k, b.rank, b.shape);
	b.array = b.array ? ints_copied(k, b.rank, b.array) : NULL;
	vec_push(k->arena, &k->buffers, b);
	return k->buffers.count - 1;
}

BufferId kernel_scratch(Kernel *k, KSpace space, Dtype dtype, uint32_t rank, const int64_t *shape, const char *name) {
	return kernel_buffer(k, (KBuffer){.role = BUFFER_SCRATCH,
	                                  .space = space,
	                                  .dtype = dtype,
	                                  .rank = rank,
	                                  .shape = shape,
	                                  .name = name,
	                                  .alias = NONE});
}

BufferId kernel_add_output(Kernel *k, KBuffer b) {
	BufferId last = kernel_buffer(k, b), to = last;
	BufferId *moved = arena_array(k->arena, last + 1, sizeof *moved);
	for (BufferId i = last + 1; i-- > 0;) {
		moved[i] = i;
		if (k->buffers.at[i].role != BUFFER_SCRATCH)
			continue;
		KBuffer out = k->buffers.at[to];
		k->buffers.at[to] = k->buffers.at[i];
		k->buffers.at[i] = out;
		moved[i] = to;
		to = i;
	}
	for (RefId r = 0; r < k->refs.count; r++)
		k->refs.at[r].buffer = moved[k->refs.at[r].buffer];
	return to;
}

RefId kernel_ref(Kernel *k, BufferId b, uint32_t rank, const KDim *dim) {
	KDim *copy = rank ? arena_array(k->arena, rank, sizeof *copy) : NULL;
	if (rank)
		memcpy(copy, dim, rank * sizeof *copy);
	KRef r = {b, rank, copy, NONE};
	vec_push(k->arena, &k->refs, r);
	return k->refs.count - 1;
}

RefId kernel_ref_at(Kernel *k, BufferId b, IntId at) {
	RefId ref = kernel_ref(k, b, 0, NULL);
	k->refs.at[ref].at = at;
	return ref;
}

FunctionId kernel_function(Kernel *k, FunctionKind kind, const char *name) {
	KFunction f = {.kind = kind, .name = name, .body = kernel_region(k, NONE)};
	vec_push(k->arena, &k->functions, f);
	return k->functions.count - 1;
}

/* ---- statements in regions -------------------------------------------------------------------------------------- */

static StmtId stmt_make(Kernel *k, uint16_t op, uint32_t arg_count, const KArg *args, uint32_t int_count,
                        const int64_t *ints) {
	KStmt s = {.op = op,
	           .region = NONE,
	           .body = NONE,
	           .prev = NONE,
	           .next = NONE,
	           .arg_first = k->args.count,
	           .arg_count = arg_count,
	           .result = NONE,
	           .int_count = int_count,
	           .ints = ints_copied(k, int_count, ints),
	           .function = NONE};
	for (uint32_t i = 0; i < arg_count; i++) {
		KArg arg = args[i]; /* they may lie in k->args, which moves as it grows */
		vec_push(k->arena, &k->args, arg);
	}
	vec_push(k->arena, &k->stmts, s);
	return k->stmts.count - 1;
}

static void stmt_link(Kernel *k, StmtId s, RegionId r, StmtId before) {
	KStmt *stmt = kernel_stmt(k, s);
	KRegion *region = &k->regions.at[r];
	stmt->region = r;
	stmt->next = before;
	stmt->prev = before == NONE ? region->last : kernel_stmt(k, before)->prev;
	if (stmt->prev == NONE)
		region->first = s;
	else
		kernel_stmt(k, stmt->prev)->next = s;
	if (before == NONE)
		region->last = s;
	else
		kernel_stmt(k, before)->prev = s;
}

void kernel_remove(Kernel *k, StmtId s) {
	KStmt *stmt = kernel_stmt(k, s);
	KRegion *region = &k->regions.at[stmt->region];
	if (stmt->prev == NONE)
		region->first = stmt->next;
	else
		kernel_stmt(k, stmt->prev)->next = stmt->next;
	if (stmt->next == NONE)
		region->last = stmt->prev;
	else
		kernel_stmt(k, stmt->next)->prev = stmt->prev;
	stmt->region = stmt->prev = stmt->next = NONE;
}

void kernel_remove_behind(Kernel *k, StmtId s) {
	RegionId region = kernel_stmt(k, s)->region;
	while (region_last(k, region) != s) /* each reads those before */
		kernel_remove(k, region_last(k, region));
}

void kernel_move(Kernel *k, StmtId s, RegionId to) {
	kernel_remove(k, s);
	stmt_link(k, s, to, NONE);
}

void kernel_move_all(Kernel *k, RegionId from, RegionId to) {
	for (StmtId s = region_first(k, from), next; s != NONE; s = next) {
		next = kernel_stmt(k, s)->next;
		kernel_move(k, s, to);
	}
}

void kernel_move_before(Kernel *k, StmtId s, StmtId before) {
	kernel_remove(k, s);
	stmt_link(k, s, kernel_stmt(k, before)->region, before);
}

StmtId program_launch(const KProgram *p) {
	StmtId found = NONE;
	for (StmtId s = region_first(p->host, p->host->body); s != NONE; s = kernel_stmt(p->host, s)->next)
		if (kernel_stmt(p->host, s)->op == K_LAUNCH) {
			if (found != NONE)
				return NONE;
			found = s;
		}
	return found;
}

StmtId kernel_append(Kernel *k, RegionId r, uint16_t op, uint32_t arg_count, const KArg *args, uint32_t int_count,
                     const int64_t *ints) {
	StmtId s = stmt_make(k, op, arg_count, args, int_count, ints);
	stmt_link(k, s, r, NONE);
	return s;
}

bool kernel_op_is_pointwise(uint16_t op) {
	return op < K_FIRST || op == K_CONVERT || op == K_LET || op == K_GELU_ERF || op == K_GELU_TANH ||
	       op == K_FLOORED || op == K_INT_POWER || op == K_WIDE_MAXIMUM || op == K_WIDE_MINIMUM;
}

bool kernel_op_views(uint16_t op) {
	switch (op) {
	case K_LET:
	case K_RESHAPE:
	case K_BROADCAST:
	case K_TRANSPOSE:
	case K_SWAPAXES:
	case K_EXPAND_DIMS:
	case K_TILE:
	case K_INDEX:
	case K_SLICE_IN_DIM:
	case K_TO_ROW:
	case K_TO_COLUMN: return true;
	default: return false;
	}
}

void kernel_say_like(Kernel *k, StmtId s, StmtId like) {
	KStmt *stmt = kernel_stmt(k, s);
	const KStmt *of = kernel_stmt(k, like);
	stmt->flags = of->flags;
	stmt->from = of->from;
	stmt->also = of->also;
	stmt->name = of->name;
}

StmtId kernel_append_like(Kernel *k, RegionId r, StmtId like, const KArg *args) {
	const KStmt old = *kernel_stmt(k, like);
	StmtId s = kernel_append(k, r, old.op, old.arg_count, args, old.int_count, old.ints);
	kernel_say_like(k, s, like);
	return s;
}

StmtId kernel_copy(Kernel *k, RegionId r, StmtId s, ValueId *now, uint32_t count, bool named) {
	const KStmt old = *kernel_stmt(k, s);
	KArg *args = arena_copy(k->arena, &k->args.at[old.arg_first], old.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < old.arg_count; i++)
		if (args[i].kind == KARG_VALUE && args[i].value < count && now[args[i].value] != NONE)
			args[i].value = now[args[i].value];
	StmtId copy = kernel_append_like(k, r, s, args);
	kernel_stmt(k, copy)->function = old.function;
	for (uint32_t i = 0; i < old.result_count; i++)
		now[old.result + i] =
			kernel_result_like(k, copy, old.result + i, named ? k->values.at[old.result + i].name : NULL);
	return copy;
}

StmtId kernel_insert_before(Kernel *k, StmtId before, uint16_t op, uint32_t arg_count, const KArg *args,
                            uint32_t int_count, const int64_t *ints) {
	StmtId s = stmt_make(k, op, arg_count, args, int_count, ints);
	stmt_link(k, s, kernel_stmt(k, before)->region, before);
	return s;
}

StmtId kernel_insert_when(Kernel *k, StmtId before, IntId condition, const char *name) {
	KArg arg = karg_int(condition);
	StmtId when = kernel_insert_before(k, before, K_WHEN, 1, &arg, 0, NULL);
	RegionId body = kernel_region(k, when);
	kernel_stmt(k, when)->body = body;
	kernel_stmt(k, when)->name = name;
	return when;
}

ValueId kernel_result(Kernel *k, StmtId s, KType type, Dtype dtype, uint32_t rank, const int64_t *shape,
                      const char *name) {
	ValueId v = kernel_value(k, type, dtype, rank, shape, name);
	k->values.at[v].def = s;
	if (kernel_stmt(k, s)->result_count++ == 0)
		kernel_stmt(k, s)->result = v;
	return v;
}

ValueId kernel_result_like(Kernel *k, StmtId s, ValueId like, const char *name) {
	KValue x = k->values.at[like];
	ValueId v = kernel_result(k, s, x.type, x.dtype, x.rank, x.shape, name);
	k->values.at[v].layout = x.layout;
	return v;
}

ValueId kernel_value_like(Kernel *k, ValueId like) {
	KValue x = k->values.at[like];
	ValueId v = kernel_value(k, x.type, x.dtype, x.rank, x.shape, x.name);
	k->values.at[v].layout = x.layout;
	k->values.at[v].as = like;
	return v;
}

void kernel_set_args(Kernel *k, StmtId s, uint32_t count, const KArg *args) {
	kernel_stmt(k, s)->arg_first = k->args.count;
	kernel_stmt(k, s)->arg_count = count;
	for (uint32_t i = 0; i < count; i++)
		vec_push(k->arena, &k->args, args[i]);
}

ValueId kernel_op(Kernel *k, RegionId r, uint16_t op, Dtype dtype, uint32_t rank, const int64_t *shape,
                  uint32_t arg_count, const KArg *args, uint32_t int_count, const int64_t *ints) {
	int64_t dims[KDIM_MAX];
	const char *why;
	if (rank)
		memcpy(dims, shape, rank * sizeof *dims);
	kernel_infer(k, op, arg_count, args, int_count, ints, &dtype, &rank, dims, &why);
	StmtId s = kernel_append(k, r, op, arg_count, args, int_count, ints);
	return kernel_result(k, s, rank ? KTYPE_TILE : KTYPE_SCALAR, dtype, rank, dims, NULL);
}

/* ---- walking ---------------------------------------------------------------------------------------------------- */

uint32_t kernel_regions(const Kernel *k, StmtId s, RegionId regions[STMT_REGIONS_MAX]) {
	const KStmt *stmt = kernel_stmt(k, s);
	uint32_t count = 0;
	if (stmt->op == K_DEF)
		regions[count++] = k->functions.at[stmt->function].body;
	if (stmt->op == K_LOOP) {
		const RegionId beside[] = {stmt->loop->before, stmt->loop->behind, stmt->loop->tail};
		for (int i = 0; i < 3; i++)
			if (beside[i] != NONE)
				regions[count++] = beside[i];
	}
	if (stmt->body != NONE)
		regions[count++] = stmt->body;
	return count;
}

void kernel_walk(Kernel *k, RegionId r, KVisit *visit, void *data) {
	RegionId regions[STMT_REGIONS_MAX];
	for (StmtId s = region_first(k, r), next; s != NONE; s = next) {
		next = kernel_stmt(k, s)->next;
		visit(k, s, data);
		if (kernel_stmt(k, s)->body == NONE && kernel_stmt(k, s)->op != K_DEF)
			continue;
		uint32_t count = kernel_regions(k, s, regions);
		for (uint32_t i = 0; i < count; i++)
			kernel_walk(k, regions[i], visit, data);
	}
}

bool kernel_loop_reads(const Kernel *k, const KLoop *loop, ValueId v) {
	bool reads = false;
	for (uint32_t i = 0; i < loop->rank; i++)
		reads = reads || int_reads(k, loop->dim[i].steps, v);
	for (uint32_t w = 0; w < loop->windows.count; w++) {
		const KWindow *win = &loop->windows.at[w];
		for (uint32_t d = 0; d < k->buffers.at[win->of].rank; d++)
			reads = reads || int_reads(k, win->index[d], v) || int_reads(k, win->start[d], v);
	}
	return reads;
}

static bool arg_reads(const Kernel *k, const KArg *arg, ValueId v) {
	bool reads =
		(arg->kind == KARG_VALUE && arg->value == v) || (arg->kind == KARG_INT && int_reads(k, arg->index, v));
	reads = reads || (arg->kind == KARG_REF && int_reads(k, k->refs.at[arg->ref].at, v));
	for (uint32_t d = 0; arg->kind == KARG_REF && d < k->refs.at[arg->ref].rank; d++)
		reads = reads || (k->refs.at[arg->ref].dim[d].kind != KDIM_ALL &&
		                  int_reads(k, k->refs.at[arg->ref].dim[d].start, v));
	return reads;
}

bool kernel_stmt_reads(const Kernel *k, StmtId s, ValueId v) {
	const KStmt *stmt = kernel_stmt(k, s);
	bool reads = stmt->op == K_LOOP && kernel_loop_reads(k, stmt->loop, v);
	for (uint32_t i = 0; i < stmt->arg_count && !reads; i++)
		reads = arg_reads(k, kernel_arg(k, s, i), v);
	return reads;
}

/* ---- uses ------------------------------------------------------------------------------------------------------- */

/* What statements read is counted up, and down again where they go. */
typedef struct Uses {
	uint32_t *of; /* by value */
	int32_t by;   /* 1 or -1 */
} Uses;

static void count_value(Uses u, ValueId v) { u.of[v] += (uint32_t)u.by; }

static void count_int(const Kernel *k, IntId id, Uses uses) {
	if (id == NONE)
		return;
	const KInt *i = &k->ints.at[id];
	RefId element = i->kind == INT_VALUE ? value_element(k, i->value) : NONE;
	if (i->kind == INT_VALUE)
		count_value(uses, i->value);
	for (uint32_t d = 0; element != NONE && d < k->refs.at[element].rank; d++)
		count_int(k, k->refs.at[element].dim[d].start, uses);
	count_int(k, i->a, uses);
	count_int(k, i->b, uses);
	count_int(k, i->c, uses);
}

static void count_ints(const Kernel *k, const IntId *ints, uint32_t count, Uses uses) {
	for (uint32_t i = 0; ints && i < count; i++)
		count_int(k, ints[i], uses);
}

static void count_ref(const Kernel *k, const KRef *ref, Uses uses) {
	count_int(k, ref->at, uses);
	for (uint32_t d = 0; d < ref->rank; d++)
		if (ref->dim[d].kind != KDIM_ALL)
			count_int(k, ref->dim[d].start, uses);
}

static void count_loop(const Kernel *k, const KLoop *loop, Uses uses) {
	count_int(k, loop->runs, uses);
	for (uint32_t i = 0; i < loop->rank; i++)
		count_int(k, loop->dim[i].steps, uses);
	for (uint32_t w = 0; w < loop->windows.count; w++) {
		uint32_t rank = k->buffers.at[loop->windows.at[w].of].rank;
		count_ints(k, loop->windows.at[w].index, rank, uses);
		count_ints(k, loop->windows.at[w].start, rank, uses);
	}
	for (uint32_t i = 0; i < loop->handed.count; i++)
		count_value(uses, loop->handed.at[i].value);
}

static void count_args(const Kernel *k, StmtId s, Uses uses) {
	const KStmt *stmt = kernel_stmt(k, s);
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		const KArg *arg = kernel_arg(k, s, i);
		if (arg->kind == KARG_VALUE)
			count_value(uses, arg->value);
		else if (arg->kind == KARG_INT)
			count_int(k, arg->index, uses);
		else if (arg->kind == KARG_REF)
			count_ref(k, &k->refs.at[arg->ref], uses);
	}
}

static void count_stmt(Kernel *k, StmtId s, void *data) {
	const KStmt *stmt = kernel_stmt(k, s);
	Uses uses = {data, 1};
	count_args(k, s, uses);
	if (stmt->op == K_LOOP)
		count_loop(k, stmt->loop, uses);
	if (stmt->op == K_FOR)
		count_int(k, stmt->each->end, uses);
	for (uint32_t i = 0; stmt->op == K_PIPELINE && i < stmt->pipeline->rank; i++)
		count_int(k, stmt->pipeline->grid[i], uses);
	for (uint32_t w = 0; stmt->op == K_PIPELINE && w < stmt->pipeline->windows.count; w++)
		count_ints(k, stmt->pipeline->windows.at[w].index, k->buffers.at[stmt->pipeline->windows.at[w].of].rank,
		           uses);
}

uint32_t *kernel_uses(Kernel *k) {
	uint32_t *uses = arena_array(k->arena, k->values.count + 1, sizeof *uses);
	kernel_walk(k, k->body, count_stmt, uses);
	for (BufferId b = 0; b < k->buffers.count; b++)
		count_ints(k, k->buffers.at[b].index, k->buffers.at[b].rank, (Uses){uses, 1});
	return uses;
}

/* ---- references, replacing -------------------------------------------------------------------------------------- */

uint32_t kernel_ref_shape(const Kernel *k, RefId r, int64_t *shape) {
	const KRef *ref = &k->refs.at[r];
	const KBuffer *b = &k->buffers.at[ref->buffer];
	uint32_t rank = 0;
	for (uint32_t d = 0; d < b->rank; d++)
		if (d >= ref->rank || ref->dim[d].kind == KDIM_ALL)
			shape[rank++] = b->shape[d];
		else if (ref->dim[d].kind != KDIM_AT)
			shape[rank++] = ref->dim[d].size;
	return rank;
}

ValueId *kernel_value_map(const Kernel *k) {
	ValueId *map = arena_array(k->arena, (size_t)k->values.count + 1, sizeof *map);
	for (ValueId v = 0; v < k->values.count; v++)
		map[v] = NONE;
	return map;
}

void kernel_replace_values(Kernel *k, const ValueId *map, uint32_t count) {
	for (uint32_t i = 0; i < k->args.count; i++) {
		KArg *arg = &k->args.at[i];
		while (arg->kind == KARG_VALUE && arg->value < count && map[arg->value] != NONE)
			arg->value = map[arg->value];
	}
	for (uint32_t i = 0; i < k->ints.count; i++) {
		KInt *x = &k->ints.at[i];
		while (x->kind == INT_VALUE && x->value < count && map[x->value] != NONE)
			x->value = map[x->value];
	}
	for (ValueId v = 0; v < k->values.count; v++)
		while (k->values.at[v].after < count && map[k->values.at[v].after] != NONE)
			k->values.at[v].after = map[k->values.at[v].after];
}

static void drop_unread_of(Kernel *k, RegionId r, uint32_t *uses) {
	RegionId regions[STMT_REGIONS_MAX];
	for (StmtId s = k->regions.at[r].last, prev; s != NONE; s = prev) {
		const KStmt *stmt = kernel_stmt(k, s);
		prev = stmt->prev;
		for (uint32_t i = kernel_regions(k, s, regions); i-- > 0;)
			drop_unread_of(k, regions[i], uses);
		bool pure = kernel_op_kind(stmt->op) == KIND_PURE || stmt->op == K_LOAD;
		if (!pure || stmt->result == NONE || uses[stmt->result])
			continue;
		count_args(k, s, (Uses){uses, -1});
		kernel_remove(k, s);
	}
}

void kernel_drop_unread(Kernel *k) { drop_unread_of(k, k->body, kernel_uses(k)); }
