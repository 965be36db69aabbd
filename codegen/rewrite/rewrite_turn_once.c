/* rewrite_turn_once.c - what several matmuls contract along its rows is turned once, and read turned by all of them.
 *
 * The matrix unit takes a first factor row by row. One of which the rows are summed, V of attention whose scores lie
 * transposed, is turned for it, and of masked steps in blocks each block of rows does so. The compiler finds that it is
 * the same, turns all of it ahead of everything else, and spills it. In scratch it is turned where it is first read.
 *
 *     turn_once                                  %1 = load v_ref[0 +: 512, :]
 *                                                %2 = transpose %1 axes=(1, 0)
 *                                                store turned_ref[:, 0 +: 512], %2
 *     a = call step(p, v_ref[0 +: 512, :])       a = call step(p, turned_ref[:, 0 +: 512])
 *     b = call step(q, v_ref[0 +: 512, :])       b = call step(q, turned_ref[:, 0 +: 512])
 *
 *     def step(p, v_win) {                       def step(p, v_win) {
 *       v = load v_win[...]                        v = load v_win[...]
 *       o = dot v, p a=0 b=0                       o = dot v, p a=1 b=0
 *       ...                                        ...
 *
 * docs/passes/loop_skew.md has what is measured. */
#include "rewrite.h"

/* Parts of the turned array start where registers do. */
enum { LANES = 128 };

/* A parameter of a function that is the first factor of matmuls which sum its rows. */
typedef struct Factor {
	FunctionId f;
	uint32_t parameter;
	bool called, stays;
} Factor;

/* A call gives rows of an array for it. */
typedef struct Use {
	uint32_t factor;
	StmtId call;
	int64_t start, size; /* from the first row of all uses */
} Use;

/* What is called for in one region of an array, from places that lie apart as is known. */
typedef struct Array {
	BufferId of;
	RegionId region;
	uint32_t dim; /* the rows */
	RefId first;  /* of the first use */
	int64_t size;
	VEC(Use) uses;
	BufferId turned;
} Array;

typedef struct TurnOnce {
	Kernel *k;
	VEC(Factor) factors;
	VEC(Array) arrays;
} TurnOnce;

/* ---- factors ----------------------------------------------------------------------------------------------------- */

static bool is_whole(const Kernel *k, KArg x, BufferId b) {
	if (x.kind != KARG_REF || k->refs.at[x.ref].buffer != b)
		return false;
	const KRef *ref = &k->refs.at[x.ref];
	bool whole = true;
	for (uint32_t d = 0; d < ref->rank; d++)
		whole = whole && ref->dim[d].kind == KDIM_ALL;
	return whole;
}

static bool loads_all(const Kernel *k, KArg x, BufferId b) {
	StmtId s = kernel_def_of(k, x);
	return s != NONE && kernel_stmt(k, s)->op == K_LOAD && is_whole(k, *kernel_arg(k, s, 0), b);
}

/* A matmul whose first factor, and no other, is what the statement loads, and which sums its rows. */
static bool sums_rows(const Kernel *k, StmtId s, StmtId load) {
	const KStmt *dot = kernel_stmt(k, s);
	if (dot->op != K_DOT || kernel_def_of(k, *kernel_arg(k, s, 0)) != load)
		return false;
	uint32_t rank = k->values.at[kernel_stmt(k, load)->result].rank;
	return rank >= 2 && dot->ints[0] == (int64_t)rank - 2 && kernel_def_of(k, *kernel_arg(k, s, 1)) != load;
}

/* Nothing in the function reads the parameter but matmuls that sum its rows. */
static bool is_factor(const Kernel *k, RegionId body, BufferId b) {
	bool sums = false, also = false;
	for (StmtId s = region_first(k, body); s != NONE; s = kernel_stmt(k, s)->next) {
		bool load = kernel_stmt(k, s)->op == K_LOAD && is_whole(k, *kernel_arg(k, s, 0), b);
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count && !load; i++) {
			const KArg *x = kernel_arg(k, s, i);
			also = also || (x->kind == KARG_REF && k->refs.at[x->ref].buffer == b);
		}
		for (StmtId t = kernel_stmt(k, s)->next; t != NONE && load; t = kernel_stmt(k, t)->next) {
			bool sum = sums_rows(k, t, s);
			sums = sums || sum;
			also = also || (!sum && kernel_stmt_reads(k, t, kernel_stmt(k, s)->result));
		}
	}
	return sums && !also;
}

static void find_factors(TurnOnce *o, FunctionId f) {
	const Kernel *k = o->k;
	bool computes = function_computes(k, f);
	for (uint32_t i = 0; i < k->functions.at[f].parameters.count && computes; i++) {
		const KParameter *p = &k->functions.at[f].parameters.at[i];
		if (p->kind != PARAMETER_BUFFER)
			continue;
		const KBuffer *b = &k->buffers.at[p->id];
		bool turns = b->space == KSPACE_VMEM && (b->dtype == DTYPE_BF16 || b->dtype == DTYPE_F32);
		if (turns && is_factor(k, k->functions.at[f].body, p->id))
			vec_push(k->arena, &o->factors, ((Factor){.f = f, .parameter = i}));
	}
}

/* ---- what calls give for them ------------------------------------------------------------------------------------ */

/* Both name the same of one array but for its rows, which start so far apart. */
static bool lie_apart(const Kernel *k, const KRef *a, const KRef *b, uint32_t rows, int64_t *apart) {
	Linear d = {.known = true};
	bool same = a->buffer == b->buffer && a->rank == b->rank && a->at == b->at;
	for (uint32_t i = 0; same && i < a->rank; i++)
		same = a->dim[i].kind == b->dim[i].kind &&
		       (i == rows || (a->dim[i].start == b->dim[i].start && a->dim[i].size == b->dim[i].size));
	if (!same)
		return false;
	linear_add(k, NONE, &d, b->dim[rows].start, 1);
	linear_add(k, NONE, &d, a->dim[rows].start, -1);
	*apart = d.number;
	return linear_is_number(&d);
}

/* Which dim of the array is the rows of the parameter, the last but one that is no position. */
static uint32_t rows_of(const Kernel *k, const KRef *ref) {
	uint32_t seen = 0;
	for (uint32_t d = k->buffers.at[ref->buffer].rank; d-- > 0;)
		if ((d >= ref->rank || ref->dim[d].kind != KDIM_AT) && ++seen == 2)
			return d;
	return NONE;
}

static bool add_use(TurnOnce *o, uint32_t factor, StmtId call) {
	Kernel *k = o->k;
	KArg x = *kernel_arg(k, call, o->factors.at[factor].parameter);
	if (x.kind != KARG_REF)
		return false;
	const KRef *ref = &k->refs.at[x.ref];
	const KBuffer *b = &k->buffers.at[ref->buffer];
	uint32_t rows = rows_of(k, ref);
	if (b->role != BUFFER_IN || b->space != KSPACE_VMEM || rows >= ref->rank || ref->dim[rows].kind != KDIM_RANGE)
		return false;
	Use use = {.factor = factor, .call = call, .size = ref->dim[rows].size};
	for (uint32_t i = 0; i < o->arrays.count; i++) {
		Array *a = &o->arrays.at[i];
		if (a->region != kernel_stmt(k, call)->region || a->dim != rows ||
		    !lie_apart(k, &k->refs.at[a->first], ref, rows, &use.start))
			continue;
		vec_push(k->arena, &a->uses, use);
		return true;
	}
	Array a = {.of = ref->buffer, .region = kernel_stmt(k, call)->region, .dim = rows, .first = x.ref};
	vec_push(k->arena, &a.uses, use);
	vec_push(k->arena, &o->arrays, a);
	return true;
}

/* False: one that is called with something else stays as it is. */
static bool find_uses(TurnOnce *o, const StmtIds *calls) {
	bool all = true;
	o->arrays.count = 0;
	for (uint32_t c = 0; c < calls->count; c++)
		for (uint32_t i = 0; i < o->factors.count; i++) {
			Factor *f = &o->factors.at[i];
			if (f->stays || f->f != kernel_stmt(o->k, calls->at[c])->function)
				continue;
			f->called = true;
			f->stays = !add_use(o, i, calls->at[c]);
			all = all && !f->stays;
		}
	return all;
}

/* From the first row on; each part starts where registers do, and some rows are read twice. */
static bool read_twice(Array *a) {
	int64_t first = 0, end = 0, all = 0;
	bool aligned = true;
	for (uint32_t i = 0; i < a->uses.count; i++) {
		first = int_min(first, a->uses.at[i].start);
		end = int_max(end, a->uses.at[i].start + a->uses.at[i].size);
	}
	for (uint32_t i = 0; i < a->uses.count; i++) {
		Use *use = &a->uses.at[i];
		use->start -= first;
		aligned = aligned && use->start % LANES == 0 && use->size % LANES == 0;
		all += use->size;
	}
	a->size = end - first;
	return aligned && all > a->size;
}

/* False: some function is called with what is not read twice, and stays as it is. */
static bool all_read_twice(TurnOnce *o) {
	bool all = true;
	for (uint32_t i = 0; i < o->arrays.count; i++) {
		Array *a = &o->arrays.at[i];
		bool twice = read_twice(a);
		for (uint32_t u = 0; u < a->uses.count && !twice; u++)
			o->factors.at[a->uses.at[u].factor].stays = true;
		all = all && twice;
	}
	return all;
}

/* ---- turned ------------------------------------------------------------------------------------------------------ */

/* Two branches that stand behind one another: what one has turned is read before the other runs. */
static bool are_branches(const Kernel *k, RegionId r, RegionId other) {
	StmtId a = k->regions.at[r].owner, b = k->regions.at[other].owner;
	return r != other && a != NONE && b != NONE && kernel_stmt(k, a)->op == K_WHEN &&
	       kernel_stmt(k, b)->op == K_WHEN && kernel_stmt(k, a)->region == kernel_stmt(k, b)->region;
}

static const int64_t *turned_shape(const Kernel *k, uint32_t rank, const int64_t *shape, int64_t rows) {
	int64_t *turned = arena_copy(k->arena, shape, rank, sizeof *turned);
	turned[rank - 2] = shape[rank - 1];
	turned[rank - 1] = rows;
	return turned;
}

/* Branches share it. */
static BufferId scratch_for(TurnOnce *o, uint32_t array, Dtype dtype, uint32_t rank, const int64_t *shape) {
	Kernel *k = o->k;
	for (uint32_t i = 0; i < array; i++) {
		const Array *a = &o->arrays.at[i];
		KBuffer *b = &k->buffers.at[a->turned];
		if (a->of != o->arrays.at[array].of || !are_branches(k, a->region, o->arrays.at[array].region) ||
		    !kernel_same_shape(rank - 1, shape, b->rank - 1, b->shape))
			continue;
		if (shape[rank - 1] > b->shape[rank - 1])
			b->shape = shape;
		return a->turned;
	}
	return kernel_scratch(k, KSPACE_VMEM, dtype, rank, shape, "turned_ref");
}

static void add_scratch(TurnOnce *o, uint32_t array) {
	const Kernel *k = o->k;
	Array *a = &o->arrays.at[array];
	const Factor *f = &o->factors.at[a->uses.at[0].factor];
	const KBuffer *p = &k->buffers.at[k->functions.at[f->f].parameters.at[f->parameter].id];
	a->turned = scratch_for(o, array, p->dtype, p->rank, turned_shape(k, p->rank, p->shape, a->size));
}

static KArg turned_part(TurnOnce *o, const Array *a, int64_t start, int64_t size) {
	KDim dim[KDIM_MAX];
	uint32_t rank = o->k->buffers.at[a->turned].rank;
	for (uint32_t d = 0; d < rank; d++)
		dim[d] = (KDim){.kind = KDIM_ALL};
	dim[rank - 1] = (KDim){.kind = KDIM_RANGE, .start = int_const(o->k, start), .size = size};
	return karg_ref(kernel_ref(o->k, a->turned, rank, dim));
}

/* The statement that loads what the function's matmuls sum the rows of. */
static StmtId summed_load(const Kernel *k, const Factor *f) {
	BufferId b = k->functions.at[f->f].parameters.at[f->parameter].id;
	StmtId s = region_first(k, k->functions.at[f->f].body);
	while (kernel_stmt(k, s)->op != K_LOAD || !is_whole(k, *kernel_arg(k, s, 0), b))
		s = kernel_stmt(k, s)->next;
	return s;
}

/* Python makes it where its one use stands. */
static bool is_inside(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	return (stmt->op == K_LOAD || kernel_op_kind(stmt->op) == KIND_PURE) && stmt->result_count == 1 &&
	       !value_name(k, stmt->result);
}

/* Before the call, and what is made inside of it. */
static StmtId before_call(const Kernel *k, StmtId call) {
	StmtId s = call;
	while (kernel_stmt(k, s)->prev != NONE && is_inside(k, kernel_stmt(k, s)->prev))
		s = kernel_stmt(k, s)->prev;
	return s;
}

/* So many of the rows that the call reads, from so many behind its first one on, before it. */
static void turn(TurnOnce *o, const Array *a, const Use *use, int64_t behind, int64_t size) {
	Kernel *k = o->k;
	const Factor *f = &o->factors.at[use->factor];
	const KRef ref = k->refs.at[kernel_arg(k, use->call, f->parameter)->ref];
	KDim *dim = arena_copy(k->arena, ref.dim, ref.rank, sizeof *dim), *rows = &dim[a->dim];
	StmtId like = summed_load(k, f);
	KValue x = k->values.at[kernel_stmt(k, like)->result];
	int64_t axes[KDIM_MAX], *shape = arena_copy(k->arena, x.shape, x.rank, sizeof *shape);
	rows->size = shape[x.rank - 2] = size;
	if (behind)
		rows->start = int_binary(k, INT_ADD, rows->start, int_const(k, behind));
	while (rows->multiple && behind % rows->multiple)
		rows->multiple /= 2;
	for (uint32_t d = 0; d < x.rank; d++)
		axes[d] = d + 2 < x.rank ? d : (int64_t)2 * x.rank - 3 - d;
	StmtId before = before_call(k, use->call);
	KArg part = karg_ref(kernel_ref(k, a->of, ref.rank, dim));
	StmtId load = kernel_insert_before(k, before, K_LOAD, 1, &part, 0, NULL);
	KArg loaded = karg_value(kernel_result(k, load, KTYPE_TILE, x.dtype, x.rank, shape, NULL));
	StmtId turn = kernel_insert_before(k, before, K_TRANSPOSE, 1, &loaded, x.rank, axes);
	const int64_t *turned = turned_shape(k, x.rank, shape, size);
	const KArg args[] = {turned_part(o, a, use->start + behind, size),
	                     karg_value(kernel_result(k, turn, KTYPE_TILE, x.dtype, x.rank, turned, NULL))};
	StmtId store = kernel_insert_before(k, before, K_STORE, 2, args, 0, NULL);
	kernel_say_like(k, load, like);
	kernel_say_like(k, turn, like);
	kernel_say_like(k, store, like);
}

/* What of the rows no call before has read. */
static void turn_new(TurnOnce *o, const Array *a, const Use *use, bool *done) {
	bool *rows = &done[use->start / LANES];
	int64_t at = 0, end = use->size / LANES;
	while (at < end) {
		int64_t from = at;
		for (; at < end && !rows[at]; at++)
			rows[at] = true;
		if (at > from)
			turn(o, a, use, from * LANES, (at - from) * LANES);
		while (at < end && rows[at])
			at++;
	}
}

/* The function's matmuls read it turned. */
static void read_turned(Kernel *k, const Factor *f) {
	KParameter *parameter = &k->functions.at[f->f].parameters.at[f->parameter];
	BufferId b = parameter->id;
	KBuffer turned = k->buffers.at[b];
	turned.shape = turned_shape(k, turned.rank, turned.shape, turned.shape[turned.rank - 2]);
	parameter->id = kernel_buffer(k, turned);
	for (StmtId s = region_first(k, k->functions.at[f->f].body); s != NONE; s = kernel_stmt(k, s)->next) {
		KStmt *stmt = kernel_stmt(k, s);
		if (stmt->op == K_LOAD && is_whole(k, *kernel_arg(k, s, 0), b)) {
			*kernel_arg(k, s, 0) = karg_ref(kernel_ref(k, parameter->id, 0, NULL));
			k->values.at[stmt->result].shape = turned.shape;
		} else if (stmt->op == K_DOT && loads_all(k, *kernel_arg(k, s, 0), parameter->id)) {
			int64_t *ints = arena_copy(k->arena, stmt->ints, stmt->int_count, sizeof *ints);
			ints[0]++;
			stmt->ints = ints;
		}
	}
}

static void turn_array(TurnOnce *o, uint32_t array) {
	add_scratch(o, array);
	Array *a = &o->arrays.at[array];
	bool *done = arena_array(o->k->arena, (size_t)(a->size / LANES) + 1, sizeof *done);
	for (uint32_t i = 0; i < a->uses.count; i++) {
		const Use *use = &a->uses.at[i];
		turn_new(o, a, use, done);
		*kernel_arg(o->k, use->call, o->factors.at[use->factor].parameter) =
			turned_part(o, a, use->start, use->size);
	}
}

static void find_arrays(TurnOnce *o) {
	StmtIds calls = kernel_stmts_of(o->k, K_CALL);
	for (FunctionId f = 0; f < o->k->functions.count; f++)
		find_factors(o, f);
	while (!find_uses(o, &calls) || !all_read_twice(o))
		;
}

double rows_read_again(Kernel *k) {
	TurnOnce o = {.k = k};
	double rows = 0, reads = 0;
	find_arrays(&o);
	for (uint32_t i = 0; i < o.arrays.count; i++) {
		rows += (double)o.arrays.at[i].size;
		for (uint32_t u = 0; u < o.arrays.at[i].uses.count; u++)
			reads += (double)o.arrays.at[i].uses.at[u].size;
	}
	return rows == 0 ? 0 : reads / rows;
}

void rewrite_turn_once(Kernel *k) {
	TurnOnce o = {.k = k};
	bool wanted = k->turn_once;
	k->turn_once = false;
	if (wanted)
		find_arrays(&o);
	for (uint32_t i = 0; i < o.arrays.count; i++)
		turn_array(&o, i);
	for (uint32_t i = 0; i < o.factors.count; i++)
		if (o.factors.at[i].called && !o.factors.at[i].stays)
			read_turned(k, &o.factors.at[i]);
}
