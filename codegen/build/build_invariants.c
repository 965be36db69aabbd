/* build_invariants.c - what does not change along the grid's innermost dim is computed at the first step of it, and
 * kept in scratch. A norm before a matmul is one: the grid walks the columns of the result for each tile of rows, and
 * each of its points would make the same rows anew.
 *
 *     x = load x_ref[...]                       when (first(1)) invariants {
 *     scaled = mul x, rsqrt(...)                  x = load x_ref[...]
 *     w = load w_ref[...]              =>         store scaled_ref[...], mul x, rsqrt(...)
 *     y = dot scaled, w                         }
 *                                               scaled = load scaled_ref[...]
 *                                               w = load w_ref[...]
 *                                               y = dot scaled, w
 *
 * Kept is what takes more to compute than to load; what takes less, such as a conversion, is computed at each step as
 * before. The first step may also go on by itself (`with_rest`), so that the vector unit computes what is kept while
 * the matrix unit multiplies it, for one more copy of the rest:
 *
 *     when (first(1)) first_step {              when (later(1)) other_steps {
 *       scaled = mul x, rsqrt(...)                scaled = load scaled_ref[...]
 *       store scaled_ref[...], scaled             w = load w_ref[...]
 *       w = load w_ref[...]                       y = dot scaled, w
 *       y = dot scaled, w                       }
 *     }
 *
 * plan_keep_invariants() decides whether that pays. */
#include "build.h"
#include "builder.h"

/* What a value takes, in passes over its tile; loaded and stored again it takes one or two. */
enum { LEAST_WORK = 3, WORK_ACROSS = 2, MOST_WORK = 100 };

typedef enum Fate {
	STAYS,    /* it changes, or is cheap and read by what does */
	GOES,     /* under the first step alone */
	GOES_TOO, /* there as well: it stays, and is computed again */
} Fate;

typedef struct Invariants {
	Kernel *k;
	uint32_t dim;
	bool *same;   /* by value: no step of the dim changes it */
	int *work;    /* by value */
	bool *wanted; /* by value: something that stays reads it */
	bool *kept;   /* by value */
	bool *inside; /* by value: what is kept needs it */
	bool *stored; /* by buffer */
	uint32_t count;
} Invariants;

/* ---- what does not change ---------------------------------------------------------------------------------------- */

static bool same_int(const Invariants *v, IntId id);

static bool same_ref(const Invariants *v, RefId ref) {
	const KRef *r = &v->k->refs.at[ref];
	bool same = r->at == NONE;
	for (uint32_t d = 0; d < r->rank && same; d++)
		same = same_int(v, r->dim[d].start);
	return same;
}

/* The number of a step along another dim. */
static bool is_outer_point(const Invariants *v, ValueId value) {
	StmtId def = v->k->values.at[value].def;
	bool id = def != NONE && kernel_stmt(v->k, def)->op == K_PROGRAM_ID;
	bool outer = id && kernel_stmt(v->k, def)->ints[0] != v->dim;
	for (uint32_t d = 0; d < v->k->grid.count; d++)
		outer = outer || (d != v->dim && v->k->grid.at[d].at == value);
	return outer;
}

static bool same_int(const Invariants *v, IntId id) {
	if (id == NONE)
		return true;
	const KInt *i = &v->k->ints.at[id];
	RefId element = i->kind == INT_VALUE ? value_element(v->k, i->value) : NONE;
	if (i->kind == INT_VALUE)
		return element != NONE ? same_ref(v, element) : is_outer_point(v, i->value);
	return !int_kind_of_dim(i->kind) && same_int(v, i->a) && same_int(v, i->b) && same_int(v, i->c);
}

/* The block of an input that nothing writes. */
static bool same_block(const Invariants *v, BufferId b) {
	const KBuffer *x = &v->k->buffers.at[b];
	bool same = x->role == BUFFER_IN && x->space != KSPACE_HBM && !x->ahead && !v->stored[b];
	for (uint32_t d = 0; same && x->index && d < x->rank; d++)
		same = same_int(v, x->index[d]);
	return same;
}

static bool stmt_is_same(const Invariants *v, const KStmt *s) {
	bool same = s->result_count == 1 && !(s->flags & KSTMT_INITIAL) && s->op != K_PROGRAM_ID && s->op != K_INT;
	if (s->op != K_LOAD && kernel_op_kind(s->op) != KIND_PURE)
		return false;
	for (uint32_t i = 0; i < s->arg_count && same; i++) {
		const KArg *a = &v->k->args.at[s->arg_first + i];
		same = a->kind == KARG_VALUE ? v->same[a->value]
		       : a->kind == KARG_INT ? same_int(v, a->index)
		                             : a->kind != KARG_REF || (same_block(v, v->k->refs.at[a->ref].buffer) &&
		                                                       same_ref(v, a->ref));
	}
	return same;
}

/* ---- what it takes ----------------------------------------------------------------------------------------------- */

static int own_work(uint16_t op) {
	switch (op) {
	case K_LOAD:
	case K_ZEROS:
	case K_ONES:
	case K_FULL:
	case K_IOTA:
	case K_SCALAR:
	case K_INT:
	case K_PROGRAM_ID:
	case K_LET:
	case K_RESHAPE:
	case K_BROADCAST:
	case K_EXPAND_DIMS:
	case K_INDEX:
	case K_SLICE_IN_DIM: return 0;
	case K_DOT:
	case K_SORT:
	case K_CUMSUM:
	case K_CUMPROD: return MOST_WORK;
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD:
	case K_TRANSPOSE:
	case K_SWAPAXES:
	case K_ROLL:
	case K_ROTATE: return WORK_ACROSS;
	default: return 1;
	}
}

static void find_work(Invariants *v, const KStmt *s) {
	int work = own_work(s->op);
	for (uint32_t i = 0; i < s->arg_count; i++) {
		const KArg *a = &v->k->args.at[s->arg_first + i];
		work += a->kind == KARG_VALUE ? v->work[a->value] : 0;
	}
	v->work[s->result] = work < MOST_WORK ? work : MOST_WORK;
}

static bool may_keep(const Invariants *v, const KStmt *s) {
	const KValue *x = &v->k->values.at[s->result];
	return x->type == KTYPE_TILE && x->rank > 0 && own_work(s->op) > 0 && v->work[s->result] >= LEAST_WORK &&
	       (x->dtype == DTYPE_F32 || x->dtype == DTYPE_BF16 || x->dtype == DTYPE_I32);
}

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

static void want_args(Kernel *k, StmtId s, void *data) {
	Invariants *v = data;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++)
		if (kernel_arg(k, s, i)->kind == KARG_VALUE)
			v->wanted[kernel_arg(k, s, i)->value] = true;
}

/* What a statement that stays reads, those in it too. */
static void want_all(Invariants *v, StmtId s) {
	RegionId regions[STMT_REGIONS_MAX];
	uint32_t count = kernel_regions(v->k, s, regions);
	want_args(v->k, s, v);
	for (uint32_t i = 0; i < count; i++)
		kernel_walk(v->k, regions[i], want_args, v);
}

static void need_args(Invariants *v, const KStmt *s) {
	for (uint32_t i = 0; i < s->arg_count; i++) {
		const KArg *a = &v->k->args.at[s->arg_first + i];
		if (a->kind == KARG_VALUE)
			v->inside[a->value] = true;
	}
}

static bool is_tile(const Kernel *k, const KStmt *s) {
	return s->result_count == 1 && k->values.at[s->result].type == KTYPE_TILE;
}

static bool is_same(const Invariants *v, const KStmt *s) { return s->result_count == 1 && v->same[s->result]; }

static void find_same(Invariants *v) {
	for (StmtId s = region_first(v->k, v->k->body); s != NONE; s = kernel_stmt(v->k, s)->next) {
		const KStmt *stmt = kernel_stmt(v->k, s);
		if (!stmt_is_same(v, stmt))
			continue;
		v->same[stmt->result] = true;
		find_work(v, stmt);
	}
}

/* Users first: what is read by what stays is kept, or stays. And what is kept needs what it is made of. */
static void find_kept(Invariants *v) {
	for (StmtId s = region_last(v->k, v->k->body); s != NONE; s = kernel_stmt(v->k, s)->prev) {
		const KStmt *stmt = kernel_stmt(v->k, s);
		bool same = is_same(v, stmt), number = same && !is_tile(v->k, stmt);
		bool wanted = !same || number || v->wanted[stmt->result];
		bool kept = same && wanted && may_keep(v, stmt);
		if (kept) {
			v->kept[stmt->result] = v->inside[stmt->result] = true;
			v->count++;
		}
		if (wanted && !kept)
			want_all(v, s);
		if (same && v->inside[stmt->result])
			need_args(v, stmt);
	}
}

static void note_store(Kernel *k, StmtId s, void *data) {
	Invariants *v = data;
	const KStmt *stmt = kernel_stmt(k, s);
	for (uint32_t i = 0; stmt->op != K_LOAD && i < stmt->arg_count; i++)
		if (kernel_arg(k, s, i)->kind == KARG_REF)
			v->stored[k->refs.at[kernel_arg(k, s, i)->ref].buffer] = true;
}

/* ---- moving it --------------------------------------------------------------------------------------------------- */

/* Numbers stay as well: bounds of loops and places may read them. */
static Fate fate_of(const Invariants *v, const KStmt *s) {
	if (!is_same(v, s) || !v->inside[s->result])
		return STAYS;
	return v->kept[s->result] || (is_tile(v->k, s) && !v->wanted[s->result]) ? GOES : GOES_TOO;
}

static StmtId copied(Kernel *k, StmtId s, RegionId to) {
	const KStmt old = *kernel_stmt(k, s);
	KArg *args = arena_copy(k->arena, &k->args.at[old.arg_first], old.arg_count + 1, sizeof *args);
	StmtId copy = kernel_append_like(k, to, s, args);
	if (old.result != NONE)
		kernel_result_like(k, copy, old.result, k->values.at[old.result].name);
	return copy;
}

static void read_instead(Kernel *k, RegionId r, const ValueId *map, uint32_t count) {
	for (StmtId s = region_first(k, r); s != NONE; s = kernel_stmt(k, s)->next)
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
			KArg *a = kernel_arg(k, s, i);
			if (a->kind == KARG_VALUE && a->value < count && map[a->value] != NONE)
				a->value = map[a->value];
		}
}

/* To the end of the region, or a copy of it, which it reads. */
static void move_inside(Invariants *v, RegionId inside, StmtId from) {
	Kernel *k = v->k;
	uint32_t count = k->values.count;
	ValueId *again = kernel_value_map(k);
	for (StmtId s = from, next; s != NONE; s = next) {
		const KStmt stmt = *kernel_stmt(k, s);
		Fate fate = fate_of(v, &stmt);
		next = stmt.next;
		if (fate == GOES)
			kernel_move(k, s, inside);
		else if (fate == GOES_TOO)
			again[stmt.result] = kernel_stmt(k, copied(k, s, inside))->result;
	}
	read_instead(k, inside, again, count);
}

StmtId build_first_when(Kernel *k, IntId condition, const char *name) {
	StmtId first = region_first(k, k->body);
	while (kernel_stmt(k, first)->op == K_PROGRAM_ID)
		first = kernel_stmt(k, first)->next;
	return kernel_insert_when(k, first, condition, name);
}

/* Stores a value and has all else read it from there. Returns bytes. */
static int64_t keep(Kernel *k, const Target *t, ValueId v, RegionId inside, StmtId before, ValueId *loaded) {
	const KValue x = k->values.at[v];
	const char *name = arena_printf(k->arena, "%s_ref", x.name ? x.name : "kept");
	KArg whole = karg_ref(kernel_ref(k, kernel_scratch(k, KSPACE_VMEM, x.dtype, x.rank, x.shape, name), 0, NULL));
	kernel_append(k, inside, K_STORE, 2, (const KArg[]){whole, karg_value(v)}, 0, NULL);
	StmtId load = kernel_insert_before(k, before, K_LOAD, 1, &whole, 0, NULL);
	loaded[v] = kernel_result_like(k, load, v, x.name ? x.name : "kept");
	return scratch_vmem_bytes(t, x.dtype, x.rank, x.shape);
}

/* ---- the rest in the first step ---------------------------------------------------------------------------------- */

/* A number that is made of numbers, and of what nothing writes: it may stand before the branches. */
static bool is_number(const Invariants *v, const KStmt *s) {
	bool number = s->result_count == 1 && !is_tile(v->k, s);
	for (uint32_t i = 0; i < s->arg_count && number; i++) {
		const KArg *a = &v->k->args.at[s->arg_first + i];
		number = a->kind == KARG_VALUE ? v->k->values.at[a->value].type != KTYPE_TILE
		         : a->kind == KARG_REF ? v->k->buffers.at[v->k->refs.at[a->ref].buffer].role == BUFFER_IN &&
		                                         !v->stored[v->k->refs.at[a->ref].buffer]
		                               : true;
	}
	return number;
}

/* The rest is straight code, of tiles, and of numbers that need none; and it multiplies. */
static bool may_go_on(const Invariants *v) {
	RegionId regions[STMT_REGIONS_MAX];
	bool multiplies = false;
	for (uint32_t i = 0; i < v->k->buffers.count; i++)
		if (v->k->buffers.at[i].held || v->k->buffers.at[i].ahead)
			return false;
	for (StmtId s = region_first(v->k, v->k->body); s != NONE; s = kernel_stmt(v->k, s)->next) {
		const KStmt *stmt = kernel_stmt(v->k, s);
		KOpKind kind = kernel_op_kind(stmt->op);
		bool plain = (kind == KIND_PURE || kind == KIND_MEMORY_ACCESS) && kernel_regions(v->k, s, regions) == 0;
		if (!plain || stmt->result_count > 1 ||
		    (stmt->result != NONE && !is_tile(v->k, stmt) && !is_number(v, stmt)))
			return false;
		multiplies = multiplies || (stmt->op == K_DOT && !v->same[stmt->result]);
	}
	return multiplies;
}

/* A copy of what stands behind the branch goes to its end, and the rest to a branch for the other steps. `computed`: by
 * what is loaded of what is kept, the value. */
static void go_on(Invariants *v, StmtId when, const ValueId *computed, uint32_t count) {
	Kernel *k = v->k;
	RegionId first = kernel_stmt(k, when)->body;
	for (StmtId s = kernel_stmt(k, when)->next, next; s != NONE; s = next) {
		next = kernel_stmt(k, s)->next;
		if (kernel_stmt(k, s)->result != NONE && !is_tile(k, kernel_stmt(k, s)))
			kernel_move_before(k, s, when);
	}
	StmtId others = kernel_insert_when(k, kernel_stmt(k, when)->next, int_later(k, v->dim), "other_steps");
	RegionId later = kernel_stmt(k, others)->body;
	ValueId *again = kernel_value_map(k);
	kernel_stmt(k, when)->name = "first_step";
	for (StmtId s = kernel_stmt(k, others)->next, next; s != NONE; s = next) {
		ValueId given = kernel_stmt(k, s)->result;
		next = kernel_stmt(k, s)->next;
		StmtId copy = given == NONE || computed[given] == NONE ? copied(k, s, first) : NONE;
		if (given != NONE)
			again[given] = copy == NONE ? computed[given] : kernel_stmt(k, copy)->result;
		kernel_move(k, s, later);
	}
	read_instead(k, first, again, count);
}

static int64_t move(Invariants *v, const Target *t, bool with_rest) {
	Kernel *k = v->k;
	uint32_t count = k->values.count;
	StmtId when = build_first_when(k, int_first(k, v->dim), "invariants");
	RegionId inside = kernel_stmt(k, when)->body;
	move_inside(v, inside, kernel_stmt(k, when)->next);
	ValueId *loaded = kernel_value_map(k);
	StmtId rest = kernel_stmt(k, when)->next;
	int64_t bytes = 0;
	for (ValueId i = 0; i < count; i++)
		bytes += v->kept[i] ? keep(k, t, i, inside, rest, loaded) : 0;
	uint32_t all = k->values.count;
	ValueId *computed = kernel_value_map(k);
	for (ValueId i = 0; i < count; i++)
		if (loaded[i] != NONE)
			computed[loaded[i]] = i;
	kernel_replace_values(k, loaded, count);
	read_instead(k, inside, computed, all);
	if (with_rest)
		go_on(v, when, computed, all);
	return bytes;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* The innermost dim that has steps; NONE: there is none, or points run otherwise than one after the other. */
static uint32_t innermost(const Kernel *k) {
	uint32_t dim = NONE;
	for (uint32_t d = 0; d < k->grid.count; d++)
		dim = k->grid.at[d].steps > 1 ? d : dim;
	return k->strips || k->ring || k->mesh_axis || k->sparse_cores ? NONE : dim;
}

static Invariants invariants_of(Kernel *k) {
	uint32_t values = k->values.count + 1;
	Invariants v = {.k = k, .dim = innermost(k)};
	if (v.dim == NONE)
		return v;
	v.same = arena_array(k->arena, values, sizeof *v.same);
	v.work = arena_array(k->arena, values, sizeof *v.work);
	v.wanted = arena_array(k->arena, values, sizeof *v.wanted);
	v.kept = arena_array(k->arena, values, sizeof *v.kept);
	v.inside = arena_array(k->arena, values, sizeof *v.inside);
	v.stored = arena_array(k->arena, k->buffers.count + 1, sizeof *v.stored);
	kernel_walk(k, k->body, note_store, &v);
	find_same(&v);
	find_kept(&v);
	return v;
}

bool kernel_has_invariants(Kernel *k) { return invariants_of(k).count > 0; }

int64_t kernel_keep_invariants(Kernel *k, const Target *t, bool with_rest) {
	Invariants v = invariants_of(k);
	if (v.count == 0 || (with_rest && !may_go_on(&v)))
		return 0;
	for (uint32_t d = v.dim; d < k->grid.count; d++)
		k->grid.at[d].parallel = false;
	int64_t bytes = move(&v, t, with_rest);
	kernel_drop_unread(k); /* numbers that stay, and what only those read */
	return bytes;
}
