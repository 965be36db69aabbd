/* ring.c - see ring.h. */
#include "ring.h"
#include "rewrite.h"

/* ---- ints ------------------------------------------------------------------------------------------------------- */

IntId ring_sum(const Travel *r, IntId a, IntId b) {
	int64_t x;
	if (int_is_const(r->k, a, &x) && x == 0)
		return b;
	return int_is_const(r->k, b, &x) && x == 0 ? a : int_binary(r->k, INT_ADD, a, b);
}

IntId ring_product(const Travel *r, IntId a, int64_t by) {
	return by == 1 ? a : int_binary(r->k, INT_MUL, a, ring_number(r, by));
}

IntId ring_quotient(const Travel *r, IntId a, int64_t by) {
	return by == 1 ? a : int_binary(r->k, INT_DIV, a, ring_number(r, by));
}

IntId ring_rest(const Travel *r, IntId a, int64_t by) {
	return by == 1 ? ring_number(r, 0) : int_binary(r->k, INT_REM, a, ring_number(r, by));
}

IntId ring_both(const Travel *r, IntId a, IntId b) {
	int64_t x;
	if (int_is_const(r->k, a, &x) && x == 1)
		return b;
	return int_is_const(r->k, b, &x) && x == 1 ? a : int_binary(r->k, INT_AND, a, b);
}

/* `a` in the even direction, the right, and -a in the odd one. */
static IntId signed_by(const Travel *r, IntId turn, IntId a) {
	if (r->directions == 1)
		return a;
	IntId twice = ring_product(r, ring_direction(r, turn), 2);
	return int_binary(r->k, INT_MUL, int_binary(r->k, INT_SUB, ring_number(r, 1), twice), a);
}

static IntId around(const Travel *r, IntId device) {
	return ring_rest(r, ring_sum(r, device, ring_number(r, r->devices)), r->devices);
}

IntId ring_neighbour(const Travel *r, IntId turn, bool back) {
	IntId twice = ring_product(r, ring_direction(r, turn), 2);
	IntId to = ring_sum(r, r->me, ring_number(r, back ? r->devices - 1 : r->devices + 1));
	to = r->directions == 1 ? to : int_binary(r->k, back ? INT_ADD : INT_SUB, to, twice);
	return ring_rest(r, to, r->devices);
}

/* Gathered parts come from behind, the own one first; a sum travels on until it is with the device whose part it is. */
IntId ring_share(const Travel *r, IntId me, IntId turn) {
	IntId far = ring_round(r, turn);
	if (r->ring->scatter)
		far = ring_sum(r, far, ring_number(r, 1));
	IntId part = around(r, int_binary(r->k, INT_SUB, me, signed_by(r, turn, far)));
	return ring_sum(r, ring_product(r, part, r->directions), ring_direction(r, turn));
}

/* ---- what a kernel must be -------------------------------------------------------------------------------------- */

static const char *say(const Travel *r, const char *what) {
	return arena_printf(r->k->arena, "%s: %s", r->k->buffers.at[r->whole].name, what);
}

/* More of it than which way a walk back and forth goes. */
static bool follows(const Kernel *k, IntId id, ValueId v) {
	if (id == NONE || !int_reads(k, id, v))
		return false;
	const KInt *i = &k->ints.at[id];
	bool row = i->kind != INT_TURN && follows(k, i->a, v);
	return i->kind == INT_VALUE || row || follows(k, i->b, v) || follows(k, i->c, v);
}

/* The one dim of its array along which its blocks follow a dim of the grid that is cut into parts. */
static const char *look_at_blocks(Travel *r) {
	const KBuffer *b = &r->k->buffers.at[r->whole];
	r->dim = NONE;
	for (uint32_t d = 0; d < b->rank; d++) {
		const KInt *at = &r->k->ints.at[b->index[d]];
		for (uint32_t g = 0; g < r->k->grid.count && r->dim == NONE; g++)
			if (at->kind == INT_VALUE && at->value == r->k->grid.at[g].at && r->k->grid.at[g].steps > 1) {
				r->dim = d;
				r->walks = g;
			}
	}
	if (r->dim == NONE)
		return say(r, "the grid walks along none of its dims, block by block and forwards");
	int64_t steps = r->k->grid.at[r->walks].steps;
	for (uint32_t d = 0; d < b->rank; d++)
		if (b->array[d] % b->shape[d] ||
		    (d != r->dim && follows(r->k, b->index[d], r->k->grid.at[r->walks].at)))
			return say(r, "it is not made of whole blocks, one for each step of the grid");
	r->block = b->shape[r->dim];
	return b->array[r->dim] == steps * r->block ? NULL : say(r, "the grid does not walk along all of it");
}

static const char *share_blocks(Travel *r) {
	const KBuffer *b = &r->k->buffers.at[r->whole];
	int64_t steps = r->k->grid.at[r->walks].steps;
	if (steps % r->devices)
		return arena_printf(
			r->k->arena,
			"%s: %lld blocks of %lld are no equal number on each of %lld devices: ask for smaller ones",
			b->name, (long long)steps, (long long)r->block, (long long)r->devices);
	r->tiles = steps / r->devices;
	return NULL;
}

/* ---- windows that the kernel copies by itself -------------------------------------------------------------------- */

typedef struct Accesses {
	Travel *r;
	ValueId *block; /* by dim of the grid: its program id in the function; NONE */
	bool alike;     /* all so far are of one block of one dim each */
	int64_t size;   /* of the block; 0: there was none yet */
} Accesses;

static bool reads_any(const Accesses *a, IntId i) {
	bool any = false;
	for (uint32_t g = 0; g < a->r->k->grid.count; g++)
		any = any || (a->block[g] != NONE && int_reads(a->r->k, i, a->block[g]));
	return any;
}

/* `i` is the program id of a dim of the grid that has several steps, times `by`; NONE: it is not. */
static uint32_t grid_dim(const Accesses *a, IntId i, int64_t by) {
	const Kernel *k = a->r->k;
	const KInt *x = &k->ints.at[i];
	int64_t factor = 1;
	if (x->kind == INT_MUL && int_is_const(k, x->b, &factor))
		x = &k->ints.at[x->a];
	for (uint32_t g = 0; g < k->grid.count && x->kind == INT_VALUE && factor == by; g++)
		if (k->grid.at[g].steps > 1 && a->block[g] == x->value)
			return g;
	return NONE;
}

/* Dim d of an access starts at `start`, in units of `unit` elements, and has `size`. */
static void look_at_dim(Accesses *a, uint32_t d, IntId start, int64_t unit, int64_t size, bool *found) {
	Travel *r = a->r;
	const KBuffer *b = &r->k->buffers.at[r->whole];
	uint32_t g = grid_dim(a, start, size / unit);
	bool steps = g != NONE && r->k->grid.at[g].steps * size == b->array[d];
	bool same = !a->size || (d == r->dim && g == r->walks && size == a->size);
	if (steps && same && !*found) {
		r->dim = d;
		r->walks = g;
		a->size = size;
		*found = true;
	} else if (a->size && d == r->dim) {
		a->alike = false;
	}
}

static void look_at_ref(Accesses *a, const KRef *ref) {
	bool found = false;
	for (uint32_t d = 0; d < ref->rank; d++) {
		const KDim *dim = &ref->dim[d];
		if (dim->kind != KDIM_ALL && reads_any(a, dim->start))
			look_at_dim(a, d, dim->start, dim->kind == KDIM_PART ? dim->size : 1,
			            dim->kind == KDIM_AT ? 1 : dim->size, &found);
	}
	a->alike = a->alike && found;
}

static void look_at_stmt(Kernel *k, StmtId s, void *data) {
	Accesses *a = data;
	const KStmt *stmt = kernel_stmt(k, s);
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		const KArg *x = kernel_arg(k, s, i);
		if (x->kind == KARG_REF && k->refs.at[x->ref].buffer == a->r->whole)
			look_at_ref(a, &k->refs.at[x->ref]);
	}
	for (uint32_t w = 0; stmt->op == K_PIPELINE && w < stmt->pipeline->windows.count; w++) {
		const KPipelineWindow *win = &stmt->pipeline->windows.at[w];
		bool found = false;
		for (uint32_t d = 0; win->of == a->r->whole && d < k->buffers.at[win->of].rank; d++)
			if (reads_any(a, win->index[d]))
				look_at_dim(a, d, win->index[d], win->block[d], win->block[d], &found);
		a->alike = a->alike && (found || win->of != a->r->whole);
	}
}

/* Each copy is of the block of the grid's point. */
static const char *look_at_copies(Travel *r) {
	Kernel *k = r->k;
	Accesses a = {.r = r, .block = arena_array(k->arena, k->grid.count + 1, sizeof *a.block), .alike = true};
	for (uint32_t g = 0; g < k->grid.count; g++)
		a.block[g] = NONE;
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_PROGRAM_ID)
			a.block[kernel_stmt(k, s)->ints[0]] = kernel_stmt(k, s)->result;
	kernel_walk(k, k->body, look_at_stmt, &a);
	if (!a.alike || !a.size)
		return say(r, "the kernel copies other parts of it than blocks of the grid");
	r->block = a.size;
	return NULL;
}

const char *ring_look(Travel *r, Kernel *k) {
	const KRing *ring = k->ring;
	*r = (Travel){.d = {.k = k, .at = {k->body, NONE}}, .k = k, .ring = ring, .whole = ring->buffer};
	r->devices = ring->devices;
	const KBuffer *b = &k->buffers.at[r->whole];
	if (k->mesh_axis || k->sparse_cores)
		return say(r, "the kernel runs on several devices or SparseCores already");
	r->in_hbm = b->space == KSPACE_HBM && !ring->scatter;
	if (!r->in_hbm && (b->space != KSPACE_VMEM || !b->index || b->fused || b->half))
		return say(r, "it does not come in blocks of the grid");
	const char *why = r->in_hbm ? look_at_copies(r) : look_at_blocks(r);
	if (!why)
		why = share_blocks(r);
	if (why)
		return why;
	r->directions = r->tiles % 2 == 0 ? 2 : 1;
	r->tiles /= r->directions;
	r->turns = r->devices * r->directions;
	r->share = r->tiles * r->block;
	r->inner = 1;
	for (uint32_t g = 0; g < k->grid.count; g++)
		r->inner *= g == r->walks ? 1 : k->grid.at[g].steps;
	return ring->scatter ? scatter_look(r) : gather_look(r);
}

/* ---- the grid --------------------------------------------------------------------------------------------------- */

/* Where a turn's tile lies among all blocks; where the grid is in its walk, for what only turns back and forth. */
typedef struct Places {
	ValueId old;
	IntId block, count;
} Places;

static IntId placed(Kernel *k, IntId id, const Places *p) {
	if (id == NONE || !int_reads(k, id, p->old))
		return id;
	KInt i = k->ints.at[id];
	if (i.kind == INT_VALUE)
		return int_substitute(k, id, p->old, p->block);
	if (i.kind == INT_TURN)
		return int_turn(k, int_substitute(k, i.a, p->old, p->count), placed(k, i.b, p), i.c);
	if (i.kind == INT_CHOOSE)
		return int_choose(k, placed(k, i.a, p), placed(k, i.b, p), placed(k, i.c, p));
	return int_binary(k, i.kind, placed(k, i.a, p), placed(k, i.b, p));
}

static IntId number_of_turn(const Travel *r, IntId turn, IntId tile) {
	return ring_sum(r, ring_product(r, turn, r->tiles), tile);
}

static ValueId program_id(const Travel *r, int64_t dim, const char *name) {
	StmtId first = region_first(r->k, r->k->body);
	StmtId s = first == NONE ? kernel_append(r->k, r->k->body, K_PROGRAM_ID, 0, NULL, 1, &dim)
	                         : kernel_insert_before(r->k, first, K_PROGRAM_ID, 0, NULL, 1, &dim);
	return kernel_result(r->k, s, KTYPE_INT, DTYPE_I32, 0, NULL, name);
}

/* A name for an int where statements go. */

static void set_index_maps(Travel *r, ValueId turn, ValueId tile) {
	Kernel *k = r->k;
	IntId t = int_value(k, turn), m = int_value(k, tile);
	Places p = {k->grid.at[r->walks].at, ring_sum(r, ring_product(r, ring_share(r, int_device(k), t), r->tiles), m),
	            number_of_turn(r, t, m)};
	for (BufferId b = 0; b < k->buffers.count; b++) {
		KBuffer *x = &k->buffers.at[b];
		IntId *index = x->index ? arena_array(k->arena, x->rank + 1, sizeof *index) : NULL;
		for (uint32_t d = 0; index && d < x->rank; d++)
			index[d] = placed(k, x->index[d], &p);
		x->index = index;
	}
}

/* It stands in the body of a pipeline, whose grid it is of. */
static bool is_of_pipeline(const Travel *r, StmtId s, const StmtIds *pipelines) {
	for (; s != NONE; s = r->k->regions.at[kernel_stmt(r->k, s)->region].owner)
		for (uint32_t i = 0; i < pipelines->count; i++)
			if (kernel_stmt(r->k, s)->op == K_DEF &&
			    kernel_stmt(r->k, s)->function == kernel_stmt(r->k, pipelines->at[i])->pipeline->body)
				return true;
	return false;
}

/* Those that the function asks for are of the new grid; of the dim that is walked along in turns it is computed. */
static void set_program_ids(Travel *r, const StmtIds *ids) {
	StmtIds pipelines = kernel_stmts_of(r->k, K_PIPELINE);
	for (uint32_t i = 0; i < ids->count; i++) {
		StmtId s = ids->at[i];
		if (is_of_pipeline(r, s, &pipelines))
			continue;
		int64_t dim = kernel_stmt(r->k, s)->ints[0];
		if (dim != r->walks) {
			int64_t *to = arena_array(r->k->arena, 1, sizeof *to);
			*to = dim < r->walks ? dim + 2 : dim + 1;
			kernel_stmt(r->k, s)->ints = to;
			continue;
		}
		IntId share = ring_share(r, r->me, r->turn);
		KArg block = karg_int(ring_sum(r, ring_product(r, share, r->tiles), r->tile));
		StmtId number = kernel_insert_before(r->k, s, K_INT, 1, &block, 0, NULL);
		kernel_stmt(r->k, number)->result = kernel_stmt(r->k, s)->result;
		kernel_stmt(r->k, number)->result_count = 1;
		r->k->values.at[kernel_stmt(r->k, s)->result].def = number;
		r->d.at.before = r->d.at.before == s ? number : r->d.at.before;
		kernel_remove(r->k, s);
	}
}

/* The number of the grid's point among those of its tile. */
static IntId step_of_tile(Travel *r) {
	IntId all = ring_number(r, 0);
	for (uint32_t g = 2; g < r->k->grid.count; g++) {
		int64_t steps = r->k->grid.at[g].steps;
		r->here[g] = steps == 1 ? ring_number(r, 0) : int_value(r->k, program_id(r, g, "point"));
		all = ring_sum(r, ring_product(r, all, steps), r->here[g]);
	}
	return all;
}

void ring_set_grid(Travel *r) {
	Kernel *k = r->k;
	StmtIds ids = kernel_stmts_of(k, K_PROGRAM_ID);
	ValueId turn = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "turn");
	ValueId tile = kernel_value_like(k, k->grid.at[r->walks].at);
	k->values.at[tile].name = value_name(k, k->grid.at[r->walks].at);
	k->values.at[tile].as = NONE;
	set_index_maps(r, turn, tile);
	uint32_t count = k->grid.count;
	KGridDim *old = arena_copy(k->arena, k->grid.at, count, sizeof *old);
	vec_push(k->arena, &k->grid, old[0]);
	k->grid.at[0] = (KGridDim){.at = turn, .steps = r->turns};
	k->grid.at[1] = (KGridDim){.at = tile, .steps = r->tiles};
	for (uint32_t g = 0, to = 2; g < count; g++)
		if (g != r->walks) {
			old[g].parallel = false;
			k->grid.at[to++] = old[g];
		}
	k->mesh_axis = r->ring->axis;
	k->devices = r->ring->devices;
	k->collective_id = 0;
	r->d.at = (Cursor){k->body, region_first(k, k->body)};
	r->me = int_value(
		k, kernel_result(k, drive_put(&r->d, K_DEVICE_ID, 0, NULL), KTYPE_INT, DTYPE_I32, 0, NULL, "me"));
	r->step = step_of_tile(r);
	r->here[1] = r->tile = int_value(k, program_id(r, 1, "tile"));
	r->here[0] = r->turn = int_value(k, program_id(r, 0, "turn"));
	r->step = r->k->ints.at[r->step].kind == INT_CONST ? r->step : drive_named(&r->d, r->step, "step");
	set_program_ids(r, &ids);
}

/* ---- buffers and statements ------------------------------------------------------------------------------------- */

BufferId ring_semaphores(const Travel *r, KSpace space, int64_t count, const char *name) {
	return kernel_scratch(r->k, space, DTYPE_NONE, 1, &count, name);
}

KArg ring_at(const Travel *r, BufferId b, IntId at) {
	KDim dim = {.kind = KDIM_AT, .start = at, .size = 1};
	return karg_ref(kernel_ref(r->k, b, 1, &dim));
}

FunctionId ring_define(Travel *r, const char *name, uint32_t count, const char *const *names, IntId *parameters,
                       Cursor *outer) {
	FunctionId f = kernel_function(r->k, FUNCTION_PLAIN, name);
	for (uint32_t i = 0; i < count; i++) {
		KParameter p = {PARAMETER_VALUE, kernel_value(r->k, KTYPE_INT, DTYPE_I32, 0, NULL, names[i])};
		r->k->values.at[p.id].exact = true;
		vec_push(r->k->arena, &r->k->functions.at[f].parameters, p);
		parameters[i] = int_value(r->k, p.id);
	}
	*outer = drive_define(&r->d, f);
	return f;
}

void ring_return(Travel *r, uint16_t op, uint32_t count, const KArg *args, Cursor outer) {
	StmtId s = drive_put(&r->d, op, count, args);
	KArg copy = karg_value(kernel_result(r->k, s, KTYPE_COPY, DTYPE_NONE, 0, NULL, NULL));
	drive_put(&r->d, K_RETURN, 1, &copy);
	r->d.at = outer;
}

void ring_do(Travel *r, uint16_t op, FunctionId copy, uint32_t count, const IntId *args) {
	KArg ints[2];
	for (uint32_t i = 0; i < count; i++)
		ints[i] = karg_int(args[i]);
	StmtId call = drive_put(&r->d, K_CALL, count, ints);
	kernel_stmt(r->k, call)->function = copy;
	KArg made = karg_value(kernel_result(r->k, call, KTYPE_COPY, DTYPE_NONE, 0, NULL, NULL));
	drive_put(&r->d, op, 1, &made);
}

void ring_meet(Travel *r) {
	Kernel *k = r->k;
	StmtId s = drive_put(&r->d, K_BARRIER, 0, NULL);
	KArg barrier = karg_value(kernel_result(k, s, KTYPE_SCALAR, DTYPE_NONE, 0, NULL, "barrier"));
	int64_t neighbours = r->devices > 2 ? 2 : 1;
	for (int64_t i = 0; i < neighbours; i++) {
		IntId there = ring_rest(r, ring_sum(r, r->me, ring_number(r, i ? r->devices - 1 : 1)), r->devices);
		drive_put(&r->d, K_SIGNAL, 3, (const KArg[]){barrier, karg_integer(1), karg_int(there)});
	}
	drive_put(&r->d, K_SEMAPHORE_WAIT, 2, (const KArg[]){barrier, karg_integer(neighbours)});
}
