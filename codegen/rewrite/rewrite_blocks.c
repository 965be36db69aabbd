/* rewrite_blocks.c - the masked steps behind a loop in blocks of their rows and columns: what the mask leaves nothing
 * of is not computed. The rows of a block need the columns up to their own diagonal alone.
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
 * Rows are the axis of the mask by which a step gives its results; columns are folded away in it: by a maximum of what
 * is -inf where the mask is not set, a sum or a matmul of what is 0 there. So numbers are those of the whole step, but
 * for 0 times what is not finite.
 *
 * What stands ahead of a step stands ahead of the rows before, too, and is masked there: `s_1, a = call
 * step_mask(...)`, its maxima taken, so that the step begins with what depends on the one before it
 * (blocks_functions.c). Behind each block of rows stands as much of what the next grid point starts with
 * (rewrite_points.c). */
#include "blocks.h"
#include <math.h>

/* ---- calls of blocks --------------------------------------------------------------------------------------------- */

/* What is there of a step, and of what runs ahead of it, in the block of rows that is being made. */
typedef struct Group {
	Blocks *b;
	StmtId before;                /* statements go there; NONE: to the region's end */
	Part cut[2];                  /* rows, columns */
	bool started;                 /* a step has been made for them */
	ValueId (*maxima)[EARLY_MAX]; /* by step whose mask is made ahead of it, what that gives besides */
	ValueId *done;                /* by value of the region: what a call of the block gave for it; NONE */
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
		uint32_t which = block_cut(g->b, first + axis++);
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
	if (!kernel_is_tile(k, x))
		return x;
	for (uint32_t d = 0; d < k->values.at[like].rank; d++) {
		uint32_t which = block_cut(g->b, block_value_axis(like, d));
		Part all = {0, k->values.at[like].shape[d]}, part = which < 2 ? g->cut[which] : all;
		any = any || which < 2;
		shape[d] = part.size;
		items[(size_t)3 * d] = which < 2 ? K_ITEM_RANGE : K_ITEM_ALL;
		items[(size_t)3 * d + 1] = which < 2 ? part.start : 0;
		items[(size_t)3 * d + 2] = which < 2 ? part.start + part.size : 0;
	}
	StmtId def = kernel_def_of(k, x);
	if (!any)
		return x;
	if (def != NONE && kernel_stmt(k, def)->op == K_LOAD && kernel_stmt(k, def)->region == g->b->region &&
	    stays(g->b, def)) {
		KArg ref = ref_cut(g, kernel_arg(k, def, 0)->ref, block_value_axis(like, 0));
		StmtId load = put(g, K_LOAD, 1, &ref, 0, NULL);
		return karg_value(kernel_result(k, load, KTYPE_TILE, k->values.at[x.value].dtype,
		                                k->values.at[like].rank, shape, NULL));
	}
	StmtId s = put(g, K_INDEX, 1, &x, 3 * k->values.at[like].rank, items);
	ValueId v = kernel_result(k, s, KTYPE_TILE, k->values.at[x.value].dtype, k->values.at[like].rank, shape, NULL);
	k->values.at[v].layout = k->values.at[x.value].layout;
	return karg_value(v);
}

/* Its last two dims are rows and columns as those of the mask are. */
static bool lies_as_mask(Blocks *b, ValueId v) {
	uint32_t rank = b->k->values.at[v].rank;
	return rank >= 2 && block_cut(b, block_value_axis(v, rank - 1 - b->row_axis)) == 0 &&
	       block_cut(b, block_value_axis(v, rank - 2 + b->row_axis)) == 1;
}

/* The comparisons of the step's function in this block. */
static void find_bounds(Group *g, StmtId call, Variant *v) {
	Blocks *b = g->b;
	const Kernel *k = b->k;
	Part part[2];
	part[b->row_axis] = g->cut[0];
	part[1 - b->row_axis] = g->cut[1];
	for (StmtId s = region_first(k, k->functions.at[v->of].body); s != NONE && v->bounds < LEAVES_MAX;
	     s = kernel_stmt(k, s)->next) {
		if (!blocks_compares(k, s))
			continue;
		bool lies = lies_as_mask(b, kernel_stmt(k, s)->result);
		Bound bound = lies ? blocks_bound(b, call, s, part) : (Bound){.holds = HOLDS_SOMEWHERE};
		bound.fixed = bound.fixed && bound.holds != HOLDS_ALWAYS;
		v->bound[v->bounds++] = bound;
	}
}

/* Parameters that start as numbers, in the first step that the block has. */
static void find_constants(const Group *g, Variant *v) {
	const Blocks *b = g->b;
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[v->of];
	if (v->of != b->step || g->started)
		return;
	for (uint32_t i = 0; i < f->parameters.count && i < 64; i++) {
		const KParameter *p = &f->parameters.at[i];
		if (p->kind != PARAMETER_VALUE)
			continue;
		if (blocks_start_as(b, p->id, 0))
			v->zero |= (uint64_t)1 << i;
		else if (blocks_start_as(b, p->id, -INFINITY))
			v->low |= (uint64_t)1 << i;
	}
}

/* It stores a result of what ran ahead. */
static bool stores_handed(const Kernel *k, StmtId s, StmtId ahead) {
	KArg x = kernel_stmt(k, s)->op == K_STORE ? *kernel_arg(k, s, 1) : (KArg){.kind = KARG_NONE};
	return x.kind == KARG_VALUE && x.value - kernel_stmt(k, ahead)->result < kernel_stmt(k, ahead)->result_count;
}

/* All that it is handed of what ran ahead goes through scratch. */
static bool is_handed_in_scratch(const Kernel *k, const Step *step) {
	uint32_t stores = 0;
	for (StmtId s = step->ahead == NONE ? step->call : step->ahead; s != step->call; s = kernel_stmt(k, s)->next)
		stores += stores_handed(k, s, step->ahead);
	return step->ahead != NONE && stores == kernel_stmt(k, step->ahead)->result_count;
}

static Variant variant_of(Group *g, StmtId call, bool masked) {
	Blocks *b = g->b;
	Variant v = {
		.of = kernel_stmt(b->k, call)->function, .size = {g->cut[0].size, g->cut[1].size}, .masked = masked};
	memcpy(v.moves, b->moves, sizeof v.moves);
	if (masked)
		find_bounds(g, call, &v);
	find_constants(g, &v);
	for (uint32_t t = 0; t < b->count && masked; t++)
		v.early = v.early || (b->steps[t].call == call && is_handed_in_scratch(b->k, &b->steps[t]));
	return v;
}

/* Where the block starts, and the numbers of its mask. */
static void add_ints(const Group *g, const Variant *v, const bool *start, KArgs *args) {
	Kernel *k = g->b->k;
	for (uint32_t i = 0; i < 2; i++)
		if (start[i])
			vec_push(k->arena, args, karg_int(int_const(k, g->cut[i].start)));
	for (uint32_t i = 0; i < v->bounds; i++)
		if (v->bound[i].fixed)
			vec_push(k->arena, args, karg_int(int_const(k, v->bound[i].by)));
}

/* The call in the block; its results are `done` for those of the whole one. `maxima`: of an early mask. */
static StmtId put_call(Group *g, StmtId call, bool masked, const ValueId *maxima) {
	Kernel *k = g->b->k;
	Variant v = variant_of(g, call, masked);
	const Made *made = blocks_function(g->b, &v);
	KArgs args = {0};
	for (uint32_t i = 0; i < k->functions.at[v.of].parameters.count; i++) {
		KParameter p = k->functions.at[v.of].parameters.at[i];
		if (!made->kept[i])
			continue;
		KArg x = *kernel_arg(k, call, i);
		x = p.kind == PARAMETER_BUFFER ? ref_cut(g, x.ref, block_buffer_axis(g->b, p.id, 0))
		                               : value_cut(g, x, p.id);
		vec_push(k->arena, &args, x);
	}
	if (made->mask.f != NONE)
		v.bounds = 0;
	add_ints(g, &v, made->start, &args);
	for (uint32_t i = 0; maxima && i < made->mask.maxima; i++)
		vec_push(k->arena, &args, karg_value(maxima[i]));
	StmtId s = put(g, K_CALL, args.count, args.at, 0, NULL);
	StmtId end = region_last(k, k->functions.at[made->f].body);
	kernel_stmt(k, s)->function = made->f;
	for (uint32_t i = 0; i < kernel_stmt(k, call)->result_count; i++) {
		ValueId like = kernel_stmt(k, call)->result + i;
		g->done[like] = result(g, s, like, k->values.at[kernel_arg(k, end, i)->value].shape);
	}
	return s;
}

/* Both name the same of one buffer: all of it, or what is at one place. */
static bool same_place(const Kernel *k, RefId x, RefId y) {
	const KRef *a = &k->refs.at[x], *b = &k->refs.at[y];
	bool same = a->buffer == b->buffer && a->rank == b->rank;
	for (uint32_t d = 0; same && d < a->rank; d++)
		same = a->dim[d].kind == b->dim[d].kind && a->dim[d].start == b->dim[d].start &&
		       a->dim[d].size == b->dim[d].size;
	return same;
}

/* What the step has of a result of what ran ahead; NONE. */
static ValueId parameter_of(Blocks *b, const Step *step, uint32_t r) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	ValueId wanted = kernel_stmt(k, step->ahead)->result + r;
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		KArg x = *kernel_arg(k, step->call, i);
		StmtId def = f->parameters.at[i].kind == PARAMETER_VALUE ? kernel_def_of(k, x) : NONE;
		if (def == NONE)
			continue;
		if (x.value == wanted)
			return f->parameters.at[i].id;
		RefId from = kernel_stmt(k, def)->op == K_LOAD ? kernel_arg(k, def, 0)->ref : NONE;
		for (StmtId s = step->ahead; from != NONE && s != def && s != NONE; s = kernel_stmt(k, s)->next)
			if (kernel_stmt(k, s)->op == K_STORE && kernel_arg(k, s, 1)->kind == KARG_VALUE &&
			    kernel_arg(k, s, 1)->value == wanted && same_place(k, kernel_arg(k, s, 0)->ref, from))
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

/* What the mask leaves of a tile that a step is handed as this parameter, where that is masked early, and its maxima.
 */
static ValueId put_mask(Group *g, const Step *step, ValueId parameter, ValueId given, ValueId *maxima) {
	Kernel *k = g->b->k;
	Variant v = variant_of(g, step->call, true);
	const Made *made = blocks_function(g->b, &v);
	KArgs args = {0};
	if (made->mask.f == NONE || made->mask.tile != parameter)
		return given;
	for (uint32_t i = 0; i < k->functions.at[v.of].parameters.count; i++)
		if (made->mask.kept[i])
			vec_push(k->arena, &args,
			         k->functions.at[v.of].parameters.at[i].id == parameter
			                 ? karg_value(given)
			                 : *kernel_arg(k, step->call, i));
	add_ints(g, &v, made->mask.start, &args);
	StmtId s = put(g, K_CALL, args.count, args.at, 0, NULL);
	StmtId end = region_last(k, k->functions.at[made->mask.f].body);
	kernel_stmt(k, s)->function = made->mask.f;
	ValueId masked = result(g, s, given, k->values.at[given].shape);
	k->values.at[masked].as = NONE;
	for (uint32_t i = 0; i < made->mask.maxima; i++) {
		ValueId like = kernel_arg(k, end, 1 + i)->value;
		maxima[i] = result(g, s, like, k->values.at[like].shape);
		if (!k->values.at[maxima[i]].name)
			k->values.at[maxima[i]].name = "maximum";
	}
	k->values.at[given].name = value_name(k, parameter);
	return masked;
}

/* What stood ahead of the step, stored and loaded as it was, but for what a masked step does not read. */
static void put_ahead(Group *g, uint32_t t, bool masked) {
	Kernel *k = g->b->k;
	const Step *step = &g->b->steps[t];
	ValueId first = kernel_stmt(k, step->ahead)->result;
	put_call(g, step->ahead, false, NULL);
	for (StmtId s = kernel_stmt(k, step->ahead)->next; s != step->call; s = kernel_stmt(k, s)->next) {
		if (!stores_handed(k, s, step->ahead))
			continue;
		KArg x = *kernel_arg(k, s, 1);
		ValueId parameter = parameter_of(g->b, step, x.value - first), given = g->done[x.value];
		g->done[x.value] = NONE; /* it is loaded again */
		if (masked && block_value_dim(g->b, parameter, g->b->columns) == NONE) {
			k->values.at[given].name = value_name(k, parameter);
			g->done[argument_of(g->b, step, parameter)] = given;
			continue;
		}
		KArg ref = ref_cut(g, kernel_arg(k, s, 0)->ref, block_value_axis(x.value, 0));
		if (masked)
			given = put_mask(g, step, parameter, given, g->maxima[t]);
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
		StmtId def = flag.kind == KARG_VALUE && flag.value == b->flag ? kernel_def_of(k, *kernel_arg(k, s, 1))
		                                                              : NONE;
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
	StmtId def = kernel_def_of(k, x);
	if (def != NONE && kernel_stmt(k, def)->op == K_LOAD) {
		RefId from = kernel_arg(k, def, 0)->ref;
		StmtId s = kernel_stmt(k, def)->prev;
		while (s != NONE &&
		       !(kernel_stmt(k, s)->op == K_STORE && same_place(k, kernel_arg(k, s, 0)->ref, from))) {
			if (kernel_op_kind(kernel_stmt(k, s)->op) == KIND_CONTROL && kernel_stmt(k, s)->op != K_CALL)
				return NONE;
			s = kernel_stmt(k, s)->prev;
		}
		def = s == NONE ? NONE : kernel_def_of(k, *kernel_arg(k, s, 1));
	}
	return def != NONE && kernel_stmt(k, def)->op == K_CALL && kernel_stmt(k, def)->region == b->region ? def
	                                                                                                    : NONE;
}

/* What each step is handed of one call, of a function of its own; its results go nowhere else. */
static bool find_ahead(Blocks *b, Step *step, const uint32_t *uses) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	step->ahead = NONE;
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		StmtId call = f->parameters.at[i].kind == PARAMETER_VALUE
		                      ? call_behind(b, *kernel_arg(k, step->call, i))
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

/* Behind the loop: the call of which all results go to scratch, and that is none of the steps' own. */
static bool is_next(Blocks *b, StmtId s, const uint32_t *uses) {
	const Kernel *k = b->k;
	const KStmt *call = kernel_stmt(k, s);
	bool own = call->op != K_CALL || call->function == b->step || call->result_count == 0;
	for (uint32_t t = 0; t < b->count; t++)
		own = own || b->steps[t].ahead == s;
	uint32_t stored = 0;
	if (own)
		return false;
	b->next_store = arena_array(k->arena, call->result_count + 1, sizeof *b->next_store);
	for (StmtId x = call->next; x != NONE; x = kernel_stmt(k, x)->next)
		if (stores_handed(k, x, s) && uses[kernel_arg(k, x, 1)->value] == 1) {
			b->next_store[kernel_arg(k, x, 1)->value - call->result] = x;
			stored++;
		}
	return stored == call->result_count;
}

static void find_next(Blocks *b, const uint32_t *uses) {
	const Kernel *k = b->k;
	StmtId s = b->steps[0].call, end = kernel_stmt(k, b->steps[b->count - 1].call)->next;
	while (kernel_stmt(k, s)->prev != NONE && kernel_stmt(k, kernel_stmt(k, s)->prev)->op != K_FORI)
		s = kernel_stmt(k, s)->prev;
	b->next = NONE;
	for (bool behind = kernel_stmt(k, s)->prev != NONE; behind && b->next == NONE && s != end;
	     s = kernel_stmt(k, s)->next)
		b->next = is_next(b, s, uses) ? s : NONE;
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
			uint32_t which = block_cut(b, block_value_axis(stmt->result, d));
			if (which < 2 && (found[which]++ || k->values.at[stmt->result].shape[d] != b->size[which]))
				return false;
		}
		for (uint32_t i = 0; (blocks_fold(k, s) || stmt->op == K_DOT) && i < stmt->arg_count; i++)
			if (block_value_dim(b, kernel_arg(k, s, i)->value, b->rows) != NONE &&
			    block_value_dim(b, stmt->result, b->rows) == NONE)
				return false;
		for (uint32_t d = 0;
		     stmt->op == K_LOAD && d < k->buffers.at[k->refs.at[kernel_arg(k, s, 0)->ref].buffer].rank; d++) {
			BufferId x = k->refs.at[kernel_arg(k, s, 0)->ref].buffer;
			uint32_t which = block_cut(b, block_buffer_axis(b, x, d));
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
		if (!kernel_is_tile(k, x))
			return false;
		bool rows = block_value_dim(b, x.value, b->rows) != NONE,
		     columns = block_value_dim(b, x.value, b->columns) != NONE;
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
	for (uint32_t i = 0; (blocks_fold(k, s) || blocks_dot(k, s)) && i < kernel_stmt(k, s)->arg_count; i++)
		folds = folds || (block_value_dim(b, kernel_arg(k, s, i)->value, b->columns) != NONE &&
		                  block_value_dim(b, kernel_stmt(k, s)->result, b->columns) == NONE);
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
	b->root = arena_array(k->arena, axes, sizeof *b->root);
	b->whole = arena_array(k->arena, axes, sizeof *b->whole);
	b->known = arena_array(k->arena, b->values, sizeof *b->known);
	b->same = arena_array(k->arena, b->values, sizeof *b->same);
	b->low = arena_array(k->arena, b->values, sizeof *b->low);
	for (uint32_t i = 0; i < axes; i++)
		b->root[i] = i;
}

/* A step and what runs ahead of it are cut alike. */
static void join_ahead(Blocks *b, const Step *step) {
	const Kernel *k = b->k;
	FunctionId f = kernel_stmt(k, step->ahead)->function;
	StmtId end = region_last(k, k->functions.at[f].body);
	blocks_join_function(b, f);
	for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++) {
		ValueId parameter = parameter_of(b, step, i);
		KArg x = *kernel_arg(k, end, i);
		if (!kernel_is_tile(k, x))
			continue;
		blocks_join_values(b, kernel_stmt(k, step->ahead)->result + i, x.value);
		if (parameter != NONE)
			blocks_join_values(b, x.value, parameter);
	}
}

/* What the steps are given from a place in scratch; NONE. */
static ValueId parameter_at(const Blocks *b, RefId place) {
	const Kernel *k = b->k;
	const KFunction *f = &k->functions.at[b->step];
	for (uint32_t t = 0; t < b->count; t++)
		for (uint32_t i = 0; i < f->parameters.count; i++) {
			StmtId def = f->parameters.at[i].kind == PARAMETER_VALUE
			                     ? kernel_def_of(k, *kernel_arg(k, b->steps[t].call, i))
			                     : NONE;
			if (def != NONE && kernel_stmt(k, def)->op == K_LOAD &&
			    same_place(k, kernel_arg(k, def, 0)->ref, place))
				return f->parameters.at[i].id;
		}
	return NONE;
}

/* What the next point's first step finds in scratch lies there as what the steps behind the loop do. */
static bool join_next(Blocks *b) {
	const Kernel *k = b->k;
	FunctionId f = kernel_stmt(k, b->next)->function;
	StmtId end = region_last(k, k->functions.at[f].body);
	blocks_join_function(b, f);
	for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++) {
		ValueId parameter = parameter_at(b, kernel_arg(k, b->next_store[i], 0)->ref);
		KArg x = *kernel_arg(k, end, i);
		if (!kernel_is_tile(k, x))
			return false;
		blocks_join_values(b, kernel_stmt(k, b->next)->result + i, x.value);
		if (parameter != NONE)
			blocks_join_values(b, x.value, parameter);
	}
	return true;
}

static bool next_has_rows(Blocks *b) {
	const Kernel *k = b->k;
	FunctionId f = kernel_stmt(k, b->next)->function;
	StmtId end = region_last(k, k->functions.at[f].body);
	bool all = dims_differ(b, f);
	for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++)
		all = all && block_value_dim(b, kernel_arg(k, end, i)->value, b->rows) != NONE;
	return all;
}

/* With the mask's last dim but `axis` from its end as rows, and the other as columns. */
static bool takes_rows(Blocks *b, uint32_t axis) {
	const KValue *mask = &b->k->values.at[kernel_stmt(b->k, b->where)->result];
	ValueId v = kernel_stmt(b->k, b->where)->result;
	b->row_axis = axis;
	b->rows = block_class(b, block_value_axis(v, mask->rank - 1 - axis));
	b->columns = block_class(b, block_value_axis(v, mask->rank - 2 + axis));
	b->size[0] = mask->shape[mask->rank - 1 - axis];
	b->size[1] = mask->shape[mask->rank - 2 + axis];
	memset(b->known, 0, b->values * sizeof *b->known);
	memset(b->low, 0xff, b->values * sizeof *b->low);
	if (b->rows == b->columns || b->whole[b->rows] || b->whole[b->columns] || b->size[0] <= 1 || b->size[1] <= 1)
		return false;
	for (uint32_t t = 0; t < b->count; t++) {
		StmtId ahead = b->steps[t].ahead;
		FunctionId f = ahead == NONE ? NONE : kernel_stmt(b->k, ahead)->function;
		if (f != NONE && !(dims_differ(b, f) && gives_rows(b, f, &b->steps[t]) && folds_to_results(b, f)))
			return false;
	}
	if (b->next != NONE && !next_has_rows(b))
		return false;
	return dims_differ(b, b->step) && gives_rows(b, b->step, NULL) && blocks_know_step(b);
}

/* ---- the blocks -------------------------------------------------------------------------------------------------- */

/* Columns that the mask leaves rows of, first to last, in blocks. */
static void find_columns(Blocks *b, Step *step, uint32_t g) {
	int64_t rows = mask_block(b->size[0]), size = mask_block(b->size[1]), first = -1, end = 0;
	bool all = true;
	for (int64_t at = 0; at < b->size[1]; at += size) {
		Part part[2];
		part[b->row_axis] = (Part){g * rows, rows};
		part[1 - b->row_axis] = (Part){at, size};
		Holds h = blocks_hold(b, step->call, *kernel_arg(b->k, b->where, 0), part);
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
	b->moves[0] = b->size[0] > mask_block(b->size[0]);
	b->parts = (uint32_t)(b->size[0] / mask_block(b->size[0]));
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

/* What stands ahead of the steps in a block of rows. */
static void start_group(Blocks *b, Group *group, uint32_t g, StmtId before) {
	int64_t rows = mask_block(b->size[0]);
	*group = (Group){.b = b, .before = before, .cut[0] = {g * rows, rows}};
	group->done = arena_array(b->k->arena, b->values, sizeof *group->done);
	memset(group->done, 0xff, b->values * sizeof *group->done);
	group->maxima = arena_array(b->k->arena, b->count, sizeof *group->maxima);
	for (uint32_t t = 0; t < b->count; t++) {
		group->cut[1] = b->steps[t].columns[g];
		if (group->cut[1].size && b->steps[t].ahead != NONE)
			put_ahead(group, t, b->steps[t].masked[g]);
		group->started = group->started || group->cut[1].size > 0;
	}
	group->started = false;
}

/* What stands behind the steps, of the block. */
static void put_rest(Group *g) {
	Kernel *k = g->b->k;
	for (StmtId s = g->b->rest; s != NONE; s = kernel_stmt(k, s)->next) {
		KStmt old = *kernel_stmt(k, s);
		KArg *args = arena_array(k->arena, old.arg_count + 1, sizeof *args);
		for (uint32_t i = 0; i < old.arg_count; i++) {
			KArg x = *kernel_arg(k, s, i);
			args[i] = x.kind == KARG_REF
			                  ? ref_cut(g, x.ref, block_value_axis(kernel_arg(k, s, 1)->value, 0))
			          : kernel_is_tile(k, x) ? value_cut(g, x, x.value)
			                                 : x;
		}
		StmtId made = put(g, old.op, old.arg_count, args, old.int_count, old.ints);
		kernel_say_like(k, made, s);
		if (old.result == NONE)
			continue;
		int64_t shape[KDIM_MAX];
		for (uint32_t d = 0; d < k->values.at[old.result].rank; d++)
			shape[d] = block_cut(g->b, block_value_axis(old.result, d)) == 0
			                   ? g->cut[0].size
			                   : k->values.at[old.result].shape[d];
		g->done[old.result] = result(g, made, old.result, shape);
	}
}

static void end_group(Blocks *b, Group *group, uint32_t g, KArg *results) {
	const Step *last = &b->steps[b->count - 1];
	for (uint32_t t = 0; t < b->count; t++) {
		group->cut[1] = b->steps[t].columns[g];
		if (group->cut[1].size == 0)
			pass_on(group, b->steps[t].call);
		else
			put_call(group, b->steps[t].call, b->steps[t].masked[g], group->maxima[t]);
		group->started = group->started || group->cut[1].size > 0;
	}
	if (b->rest != NONE)
		put_rest(group);
	for (uint32_t i = 0; i < kernel_stmt(b->k, last->call)->result_count; i++)
		results[(size_t)i * b->parts + g] = karg_value(group->done[kernel_stmt(b->k, last->call)->result + i]);
}

/* What runs ahead of the next point's first step, of the block's rows and all columns. */
static void put_next(Group *g) {
	Kernel *k = g->b->k;
	if (g->b->next == NONE)
		return;
	KStmt call = *kernel_stmt(k, g->b->next);
	g->cut[1] = (Part){0, g->b->size[1]};
	put_call(g, g->b->next, false, NULL);
	for (uint32_t i = 0; i < call.result_count; i++) {
		RefId place = kernel_arg(k, g->b->next_store[i], 0)->ref;
		KArg ref = ref_cut(g, place, block_value_axis(call.result + i, 0));
		put(g, K_STORE, 2, (const KArg[]){ref, karg_value(g->done[call.result + i])}, 0, NULL);
	}
}

static void remove_next(Blocks *b) {
	for (uint32_t i = 0; b->next != NONE && i < kernel_stmt(b->k, b->next)->result_count; i++)
		kernel_remove(b->k, b->next_store[i]);
	if (b->next != NONE)
		kernel_remove(b->k, b->next);
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
		int64_t axis = block_value_dim(b, kernel_arg(k, end, i)->value, b->rows);
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

/* Scratch through which blocks of rows go: two of them are under way at a time. */
static void note_scratch(Blocks *b, StmtId store) {
	const Kernel *k = b->k;
	BufferId buffer = k->refs.at[kernel_arg(k, store, 0)->ref].buffer;
	ValueId v = kernel_arg(k, store, 1)->value;
	uint32_t d = block_value_dim(b, v, b->rows);
	bool known = d == NONE || b->parts < 3;
	for (uint32_t i = 0; i < b->through->count && !known; i++)
		known = b->through->at[i].buffer == buffer;
	if (known)
		return;
	Through through = {.buffer = buffer,
	                   .dim = k->buffers.at[buffer].rank - k->values.at[v].rank + d,
	                   .rows = b->size[0] / b->parts};
	vec_push(k->arena, b->through, through);
}

static void remove_whole(Blocks *b) {
	Kernel *k = b->k;
	for (uint32_t t = 0; t < b->count; t++) {
		StmtId ahead = b->steps[t].ahead;
		for (StmtId s = ahead == NONE ? NONE : kernel_stmt(k, ahead)->next, next;
		     s != NONE && s != b->steps[t].call; s = next) {
			next = kernel_stmt(k, s)->next;
			if (!stores_handed(k, s, ahead))
				continue;
			note_scratch(b, s);
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
	if (!function_computes(k, b->step) || !find_where(b) || !results_stay(b, uses))
		return;
	start_classes(b);
	blocks_join_function(b, b->step);
	for (uint32_t t = 0; t < b->count; t++) {
		if (!find_ahead(b, &b->steps[t], uses))
			return;
		StmtId ahead = b->steps[t].ahead;
		if (ahead != NONE && !function_computes(k, kernel_stmt(k, ahead)->function))
			return;
		if (ahead != NONE)
			join_ahead(b, &b->steps[t]);
	}
	find_next(b, uses);
	if (b->next != NONE && (!function_computes(k, kernel_stmt(k, b->next)->function) || !join_next(b)))
		return;
	if ((!takes_rows(b, 0) && !takes_rows(b, 1)) || !find_blocks(b))
		return;
	remove_next(b);
	StmtId before = kernel_stmt(k, b->steps[b->count - 1].call)->next;
	b->rest = blocks_find_rest(b) ? before : NONE;
	uint32_t results = kernel_stmt(k, b->steps[0].call)->result_count;
	KArg *given = arena_array(k->arena, (size_t)results * b->parts + 1, sizeof *given);
	Group *groups = arena_array(k->arena, b->parts, sizeof *groups);
	for (uint32_t g = 0; g <= b->parts; g++) {
		if (g < b->parts)
			start_group(b, &groups[g], g, before);
		if (g == 0)
			continue;
		end_group(b, &groups[g - 1], g - 1, given);
		put_next(&groups[g - 1]);
	}
	if (b->rest == NONE)
		join_groups(b, before, given);
	else
		kernel_remove_behind(k, kernel_stmt(k, b->rest)->prev);
	remove_whole(b);
}

/* All that reads or writes the scratch does so by blocks of rows. */
static void find_others(Kernel *k, StmtId s, void *data) {
	Through *t = data;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		const KArg *x = kernel_arg(k, s, i);
		if (x->kind != KARG_REF || k->refs.at[x->ref].buffer != t->buffer)
			continue;
		const KRef *ref = &k->refs.at[x->ref];
		int64_t start;
		bool block = t->dim < ref->rank && ref->dim[t->dim].kind == KDIM_RANGE &&
		             ref->dim[t->dim].size == t->rows && int_is_const(k, ref->dim[t->dim].start, &start) &&
		             start % t->rows == 0;
		t->others = t->others || !block;
	}
}

static void go_round(Kernel *k, StmtId s, void *data) {
	const Through *t = data;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg x = *kernel_arg(k, s, i);
		KDim dim[KDIM_MAX];
		int64_t start;
		if (x.kind != KARG_REF || k->refs.at[x.ref].buffer != t->buffer)
			continue;
		uint32_t rank = k->refs.at[x.ref].rank;
		memcpy(dim, k->refs.at[x.ref].dim, rank * sizeof *dim);
		int_is_const(k, dim[t->dim].start, &start);
		dim[t->dim].start = int_const(k, start % (2 * t->rows));
		x.ref = kernel_ref(k, t->buffer, rank, dim);
		*kernel_arg(k, s, i) = x;
	}
}

/* Of rows that come one block after the other, the next ones ahead: every other one has the same place. */
static void narrow_scratch(Kernel *k, Through *t) {
	KBuffer *b = &k->buffers.at[t->buffer];
	if (b->role != BUFFER_SCRATCH || t->rows <= 0 || b->shape[t->dim] <= 2 * t->rows)
		return;
	kernel_walk(k, k->body, find_others, t);
	if (t->others)
		return;
	kernel_walk(k, k->body, go_round, t);
	int64_t *shape = arena_copy(k->arena, b->shape, b->rank, sizeof *shape);
	shape[t->dim] = 2 * t->rows;
	k->buffers.at[t->buffer].shape = shape;
}

/* Functions of whole steps that nothing calls any more. */
static void drop_uncalled(Kernel *k, const MadeList *made) {
	bool *drops = arena_array(k->arena, k->functions.count + 1, sizeof *drops);
	StmtIds calls = kernel_stmts_of(k, K_CALL), defs = kernel_stmts_of(k, K_DEF);
	for (uint32_t i = 0; i < made->count; i++)
		drops[made->at[i].variant.of] = true;
	for (uint32_t c = 0; c < calls.count; c++)
		drops[kernel_stmt(k, calls.at[c])->function] = false;
	for (uint32_t d = 0; d < defs.count; d++)
		if (drops[kernel_stmt(k, defs.at[d])->function])
			kernel_remove(k, defs.at[d]);
}

void rewrite_blocks(Kernel *k) {
	StmtIds calls = k->blocks ? kernel_stmts_of(k, K_CALL) : (StmtIds){0};
	MadeList made = {0};
	ThroughList through = {0};
	bool *seen = arena_array(k->arena, calls.count + 1, sizeof *seen);
	k->blocks = false;
	for (uint32_t i = 0; i < calls.count; i++) {
		Blocks b = {.k = k, .made = &made, .through = &through, .region = kernel_stmt(k, calls.at[i])->region};
		FunctionId f = kernel_stmt(k, calls.at[i])->function;
		bool more = !seen[i] && sets_flag(k, calls.at[i]);
		for (uint32_t j = i; more && j < calls.count; j++) {
			bool own = sets_flag(k, calls.at[j]) && kernel_stmt(k, calls.at[j])->function == f &&
			           kernel_stmt(k, calls.at[j])->region == b.region;
			if (own && b.count < MASK_STEPS)
				b.steps[b.count].call = calls.at[j];
			b.count += own;
			seen[j] = seen[j] || own;
		}
		if (b.count > 0 && b.count <= MASK_STEPS)
			cut_steps(&b);
	}
	if (made.count)
		drop_uncalled(k, &made);
	if (through.count)
		kernel_drop_unread(k); /* whole tiles that were loaded for steps that are cut now */
	for (uint32_t i = 0; i < through.count; i++)
		narrow_scratch(k, &through.at[i]);
}
