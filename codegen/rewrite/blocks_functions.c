/* blocks_functions.c - the function of a step once more, of so many of its rows and columns: what the flag chooses is
 * chosen, and no flag is left. A comparison of positions that is the same wherever the grid is compares rows and
 * columns of the block, so that the compiler computes its mask once; one that holds in all of the block is gone. Of the
 * first step, which starts from numbers, what those leave as it is stays so: `acc * alpha + dot` of acc = 0 is the dot.
 *
 *     def step(j, s, m, masked) {                      def step_256_512(s, m, until) {
 *       row = add (tile * 1024), iota axis=1             row = iota axis=1 : int32[1, 256]
 *       column = add (j * 512), iota axis=0              last = add row, until
 *       seen = ge row, column                    =>      column = iota axis=0 : int32[512, 1]
 *                                                        seen = le column, last
 *       s_1 = where seen, s, -inf                        s_1 = where seen, s, -inf
 *       s_2 = choose masked, s_1, s                      ...
 *       ... */
#include "blocks.h"
#include <math.h>

typedef struct Copy {
	Blocks *b;
	const Variant *v;
	KArg *as;         /* by value of the whole step's function: itself, what it is the same as, or a number */
	bool *needed;     /* by value */
	ValueId *named;   /* by value without a name: one that is the same and has one; NONE */
	ValueId start[2]; /* NONE: nothing reads it */
	ValueId by[LEAVES_MAX];
	ValueId *now;     /* by value */
	BufferId *buffer; /* by buffer */
	VEC(ValueId) ints;
	bool without_end; /* what it gives is not what the whole step does */
} Copy;

/* ---- what is left of it ------------------------------------------------------------------------------------------ */

/* Which of the function's comparisons of positions; NONE: it is none of them. */
static uint32_t leaf_of(const Copy *c, StmtId s) {
	const Kernel *k = c->b->k;
	uint32_t leaf = 0;
	if (!c->v->masked || !blocks_compares(k, s))
		return NONE;
	for (StmtId at = region_first(k, k->functions.at[c->v->of].body); at != s; at = kernel_stmt(k, at)->next)
		leaf += blocks_compares(k, at);
	return leaf < c->v->bounds ? leaf : NONE;
}

static bool is_dropped(const Copy *c, KArg x) {
	StmtId def = kernel_def_of(c->b->k, x);
	uint32_t leaf = def == NONE ? NONE : leaf_of(c, def);
	return leaf != NONE && c->v->bound[leaf].holds == HOLDS_ALWAYS;
}

static KArg resolved(const Copy *c, KArg x) {
	while (x.kind == KARG_VALUE && !(c->as[x.value].kind == KARG_VALUE && c->as[x.value].value == x.value))
		x = c->as[x.value];
	return x;
}

static bool reads_flag(const Copy *c, StmtId s) {
	KArg flag = *kernel_arg(c->b->k, s, 0);
	return kernel_stmt(c->b->k, s)->op == K_CHOOSE && flag.kind == KARG_VALUE && flag.value == c->b->flag;
}

/* What the statement's result is the same as; else itself. */
static KArg same_as(const Copy *c, StmtId s) {
	const Kernel *k = c->b->k;
	const KStmt *stmt = kernel_stmt(k, s);
	KArg own = karg_value(stmt->result);
	if (reads_flag(c, s))
		return *kernel_arg(k, s, c->v->masked ? 1 : 2);
	for (uint32_t i = 0; i < 2 && stmt->arg_count == 2; i++) {
		KArg x = resolved(c, *kernel_arg(k, s, i)), y = resolved(c, *kernel_arg(k, s, 1 - i));
		bool alike = y.kind == KARG_VALUE &&
		             kernel_same_shape(k->values.at[y.value].rank, k->values.at[y.value].shape,
		                               k->values.at[stmt->result].rank, k->values.at[stmt->result].shape) &&
		             k->values.at[y.value].dtype == k->values.at[stmt->result].dtype;
		if ((stmt->op == OP_BITWISE_AND || stmt->op == OP_LOGICAL_AND) && is_dropped(c, *kernel_arg(k, s, i)))
			return *kernel_arg(k, s, 1 - i);
		if (stmt->op == OP_MUL && karg_is_number(x, 0))
			return x;
		if (alike && ((stmt->op == OP_ADD && karg_is_number(x, 0)) ||
		              (stmt->op == OP_MAXIMUM && karg_is_number(x, -INFINITY))))
			return y;
	}
	return own;
}

static void need(Copy *c, KArg x) {
	x = resolved(c, x);
	if (x.kind == KARG_VALUE)
		c->needed[x.value] = true;
}

static bool is_fixed(const Copy *c, StmtId s) {
	uint32_t leaf = leaf_of(c, s);
	return leaf != NONE && c->v->bound[leaf].fixed;
}

/* Ints are read by what it names, too. */
static void need_args(Copy *c, StmtId s) {
	const Kernel *k = c->b->k;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++)
		need(c, *kernel_arg(k, s, i));
	for (ValueId v = 0; v < c->b->values; v++)
		if (k->values.at[v].type == KTYPE_INT && !c->needed[v])
			c->needed[v] = kernel_stmt_reads(k, s, v);
}

/* Its name goes over to what it is the same as. */
static void alias(Copy *c, ValueId v, KArg x) {
	const Kernel *k = c->b->k;
	c->as[v] = x;
	x = resolved(c, x);
	if (x.kind == KARG_VALUE && x.value != v && !value_name(k, x.value) && value_name(k, v))
		c->named[x.value] = v;
}

static ValueId called(const Copy *c, ValueId v) { return c->named[v] == NONE ? v : c->named[v]; }

/* False: a number would be returned. */
static bool find_needed(Copy *c) {
	Kernel *k = c->b->k;
	const KFunction *f = &k->functions.at[c->v->of];
	StmtId end = region_last(k, f->body);
	for (ValueId v = 0; v < c->b->values; v++)
		c->as[v] = karg_value(v);
	for (uint32_t i = 0; i < f->parameters.count && i < 64; i++)
		if ((c->v->zero | c->v->low) >> i & 1)
			c->as[f->parameters.at[i].id] =
				(KArg){.kind = KARG_REAL, .real = c->v->zero >> i & 1 ? 0 : -INFINITY};
	for (StmtId s = region_first(k, f->body); s != end; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->result != NONE)
			alias(c, kernel_stmt(k, s)->result, same_as(c, s));
	for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++) {
		if (resolved(c, *kernel_arg(k, end, i)).kind != KARG_VALUE)
			return false;
		need(c, *kernel_arg(k, end, i));
	}
	for (StmtId s = kernel_stmt(k, end)->prev; s != NONE; s = kernel_stmt(k, s)->prev)
		if (kernel_stmt(k, s)->result != NONE && c->needed[kernel_stmt(k, s)->result] && !is_fixed(c, s))
			need_args(c, s);
	return true;
}

/* Something reads where the block starts. */
static bool reads_start(const Copy *c, uint32_t cut) {
	const Kernel *k = c->b->k;
	Blocks *b = c->b;
	bool reads = false;
	for (StmtId s = region_first(k, k->functions.at[c->v->of].body); s != NONE && c->v->moves[cut];
	     s = kernel_stmt(k, s)->next) {
		const KStmt *stmt = kernel_stmt(k, s);
		if (stmt->result == NONE || !c->needed[stmt->result])
			continue;
		if (stmt->op == K_IOTA)
			reads = reads || block_cut(b, block_value_axis(stmt->result, (uint32_t)stmt->ints[0])) == cut;
		BufferId x = stmt->op == K_LOAD ? k->refs.at[kernel_arg(k, s, 0)->ref].buffer : NONE;
		for (uint32_t d = 0;
		     x != NONE && k->buffers.at[x].role != BUFFER_PARAMETER && d < k->buffers.at[x].rank; d++)
			reads = reads || block_cut(b, block_buffer_axis(b, x, d)) == cut;
	}
	return reads;
}

static bool reads_buffer(const Copy *c, BufferId x) {
	const Kernel *k = c->b->k;
	bool reads = false;
	for (StmtId s = region_first(k, k->functions.at[c->v->of].body); s != NONE; s = kernel_stmt(k, s)->next)
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++)
			reads = reads || (kernel_arg(k, s, i)->kind == KARG_REF && kernel_stmt(k, s)->result != NONE &&
			                  c->needed[kernel_stmt(k, s)->result] &&
			                  k->refs.at[kernel_arg(k, s, i)->ref].buffer == x);
	return reads;
}

/* ---- the copy ---------------------------------------------------------------------------------------------------- */

static const int64_t *cut_shape(Copy *c, uint32_t first, uint32_t rank, const int64_t *shape) {
	int64_t *cut = arena_array(c->b->k->arena, KDIM_MAX, sizeof *cut);
	for (uint32_t d = 0; d < rank; d++) {
		uint32_t which = block_cut(c->b, first + d);
		cut[d] = which < 2 ? c->v->size[which] : shape[d];
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
		uint32_t which = parameter ? 2 : block_cut(c->b, block_buffer_axis(c->b, ref.buffer, d));
		dim[d] = d < ref.rank ? ref.dim[d] : (KDim){.kind = KDIM_ALL};
		if (dim[d].kind != KDIM_ALL)
			dim[d].start = int_copied(c, dim[d].start);
		else if (which < 2)
			dim[d] = (KDim){.kind = KDIM_RANGE,
			                .start = c->start[which] == NONE ? int_const(k, 0)
			                                                 : int_value(k, c->start[which]),
			                .size = c->v->size[which]};
		any = any || which < 2;
	}
	return kernel_ref(k, parameter ? c->buffer[ref.buffer] : ref.buffer, any ? rank : 0, dim);
}

static KArg arg_copied(Copy *c, KArg x) {
	x = resolved(c, x);
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
	const int64_t *shape = cut_shape(c, block_value_axis(like, 0), x.rank, x.shape);
	ValueId v = s == NONE ? kernel_value(k, x.type, x.dtype, x.rank, shape, name)
	                      : kernel_result(k, s, x.type, x.dtype, x.rank, shape, name);
	k->values.at[v].layout = x.layout;
	k->values.at[v].as = name ? called(c, like) : NONE; /* of another function, called alike */
	return v;
}

static void copy_stmt(Copy *c, StmtId s, RegionId to) {
	Kernel *k = c->b->k;
	KStmt old = *kernel_stmt(k, s);
	KArg *args = arena_array(k->arena, old.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < old.arg_count; i++)
		args[i] = arg_copied(c, *kernel_arg(k, s, i));
	StmtId made = kernel_append(k, to, old.op, old.arg_count, args, old.int_count, old.ints);
	uint32_t which = old.op == K_IOTA ? block_cut(c->b, block_value_axis(old.result, (uint32_t)old.ints[0])) : 2;
	bool moved = which < 2 && c->start[which] != NONE;
	const char *name = old.result == NONE ? NULL : value_name(k, called(c, old.result));
	if (old.result != NONE)
		c->now[old.result] = value_copied(c, made, old.result, moved ? NULL : name);
	if (moved) {
		const KArg sum[] = {karg_int(int_value(k, c->start[which])), karg_value(c->now[old.result])};
		made = kernel_append(k, to, OP_ADD, 2, sum, 0, NULL);
		c->now[old.result] = value_copied(c, made, old.result, name);
	}
	if (old.result != NONE && k->values.at[old.result].type == KTYPE_INT)
		vec_push(k->arena, &c->ints, old.result);
	kernel_say_like(k, made, s);
}

/* The numbers along an axis of the block, in a tile that is as long along no other. */
static KArg numbers_along(Copy *c, StmtId like, RegionId to, uint32_t rank, uint32_t axis, int64_t size) {
	Kernel *k = c->b->k;
	int64_t shape[KDIM_MAX], along = axis;
	for (uint32_t d = 0; d < rank; d++)
		shape[d] = d == axis ? size : 1;
	StmtId s = kernel_append(k, to, K_IOTA, 0, NULL, 1, &along);
	kernel_say_like(k, s, like);
	return karg_value(kernel_result(k, s, KTYPE_TILE, DTYPE_I32, rank, shape, NULL));
}

/* column <= row + by, or >= */
static void put_bound(Copy *c, StmtId s, uint32_t leaf, RegionId to) {
	Kernel *k = c->b->k;
	const KStmt old = *kernel_stmt(k, s);
	uint32_t rank = k->values.at[old.result].rank, last = rank - 1 - c->b->row_axis,
		 other = rank - 2 + c->b->row_axis;
	KArg row = numbers_along(c, s, to, rank, last, c->v->size[0]);
	KArg sum[] = {row, karg_int(int_value(k, c->by[leaf]))};
	StmtId add = kernel_append(k, to, OP_ADD, 2, sum, 0, NULL);
	kernel_say_like(k, add, s);
	KArg end = karg_value(kernel_result_like(k, add, row.value, NULL));
	KArg column = numbers_along(c, s, to, rank, other, c->v->size[1]);
	KArg both[] = {column, end};
	StmtId made = kernel_append(k, to, c->v->bound[leaf].since ? OP_GE : OP_LE, 2, both, 0, NULL);
	kernel_say_like(k, made, s);
	c->now[old.result] = value_copied(c, made, old.result, value_name(k, called(c, old.result)));
}

static void add_int(Copy *c, FunctionId f, const char *name, ValueId *v) {
	Kernel *k = c->b->k;
	*v = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, name);
	k->values.at[*v].exact = true;
	KParameter parameter = {PARAMETER_VALUE, *v};
	vec_push(k->arena, &k->functions.at[f].parameters, parameter);
}

/* The starts, and the numbers of the mask, stand behind what is left of the step's own. */
static void add_ints(Copy *c, FunctionId f) {
	static const char *const names[] = {"first_row", "first_column"};
	Kernel *k = c->b->k;
	uint32_t of[2] = {0};
	for (uint32_t i = 0; i < 2; i++) {
		c->start[i] = NONE;
		if (reads_start(c, i))
			add_int(c, f, names[i], &c->start[i]);
	}
	for (uint32_t i = 0; i < c->v->bounds; i++) {
		const Bound *x = &c->v->bound[i];
		const char *name = x->since ? "since" : "until";
		c->by[i] = NONE;
		if (x->fixed)
			add_int(c, f, of[x->since]++ ? arena_printf(k->arena, "%s_%u", name, of[x->since]) : name,
			        &c->by[i]);
	}
}

static void copy_parameters(Copy *c, Made *made) {
	Kernel *k = c->b->k;
	FunctionId of = c->v->of;
	for (uint32_t i = 0; i < k->functions.at[of].parameters.count; i++) {
		KParameter p = k->functions.at[of].parameters.at[i];
		made->kept[i] = p.kind == PARAMETER_BUFFER ? reads_buffer(c, p.id)
		                                           : p.kind == PARAMETER_VALUE && c->needed[p.id];
		if (!made->kept[i])
			continue;
		if (p.kind == PARAMETER_BUFFER) {
			KBuffer x = k->buffers.at[p.id];
			x.shape = cut_shape(c, block_buffer_axis(c->b, p.id, 0), x.rank, x.shape);
			p.id = c->buffer[p.id] = kernel_buffer(k, x);
		} else {
			ValueId v = value_copied(c, NONE, p.id, value_name(k, p.id));
			if (k->values.at[p.id].type == KTYPE_INT)
				vec_push(k->arena, &c->ints, p.id);
			p.id = c->now[p.id] = v;
		}
		vec_push(k->arena, &k->functions.at[made->f].parameters, p);
	}
	add_ints(c, made->f);
}

static FunctionId declare(Kernel *k, const Variant *v, const char *what) {
	const KFunction *of = &k->functions.at[v->of];
	FunctionId f = kernel_function(k, FUNCTION_PLAIN,
	                               arena_printf(k->arena, "%s%s_%lld_%lld", of->name ? of->name : of->var, what,
	                                            (long long)v->size[0], (long long)v->size[1]));
	StmtId old = k->regions.at[k->functions.at[v->of].body].owner;
	StmtId def = kernel_insert_before(k, kernel_stmt(k, old)->next, K_DEF, 0, NULL, 0, NULL);
	kernel_stmt(k, def)->from = kernel_stmt(k, old)->from;
	kernel_define(k, def, f);
	return f;
}

static void *by_value(const Blocks *b, size_t size) { return arena_array(b->k->arena, b->values + 1, size); }

/* The statements that are needed, in the function that is made. */
static void copy_stmts(Copy *c, FunctionId f) {
	Kernel *k = c->b->k;
	RegionId to = k->functions.at[f].body;
	for (StmtId s = region_first(k, k->functions.at[c->v->of].body); s != NONE; s = kernel_stmt(k, s)->next) {
		ValueId result = kernel_stmt(k, s)->result;
		uint32_t leaf = leaf_of(c, s);
		if (result == NONE ? c->without_end
		                   : !c->needed[result] || resolved(c, karg_value(result)).value != result)
			continue;
		if (leaf != NONE && c->v->bound[leaf].fixed)
			put_bound(c, s, leaf, to);
		else
			copy_stmt(c, s, to);
	}
}

/* ---- what is masked early ---------------------------------------------------------------------------------------- */

/* What the mask gives, and its maxima: what comes early, as the rest of the step reads it. */
typedef struct Early {
	ValueId tile;                 /* the parameter that the mask chooses of */
	ValueId given[1 + EARLY_MAX]; /* what it leaves of that, then its maxima */
	uint32_t count;
	bool *value; /* by value: it is early */
} Early;

static bool is_parameter(const Copy *c, ValueId v) {
	const KFunction *f = &c->b->k->functions.at[c->v->of];
	for (uint32_t i = 0; i < f->parameters.count; i++)
		if (f->parameters.at[i].kind != PARAMETER_BUFFER && f->parameters.at[i].id == v)
			return true;
	return false;
}

/* The tile that the mask chooses of: a parameter. */
static ValueId masked_tile(const Copy *c) {
	const Kernel *k = c->b->k;
	ValueId found = NONE;
	for (uint32_t i = 1; i < kernel_stmt(k, c->b->where)->arg_count; i++) {
		KArg x = resolved(c, *kernel_arg(k, c->b->where, i));
		if (kernel_is_tile(k, x))
			found = found == NONE && is_parameter(c, x.value) ? x.value : c->b->values;
	}
	return found == c->b->values ? NONE : found;
}

/* All that an early statement reads is early, an int, or the tile. */
static bool early_reads(const Copy *c, Early *e, StmtId s) {
	const Kernel *k = c->b->k;
	if (kernel_stmt(k, s)->op == K_LOAD)
		return false;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg x = resolved(c, *kernel_arg(k, s, i));
		if (x.kind != KARG_VALUE)
			continue;
		if (is_parameter(c, x.value) && x.value != e->tile && k->values.at[x.value].type != KTYPE_INT)
			return false;
		e->value[x.value] = true;
	}
	for (ValueId v = 0; v < c->b->values; v++)
		if (k->values.at[v].type == KTYPE_INT && kernel_stmt_reads(k, s, v))
			e->value[v] = true;
	return true;
}

/* Nothing else of it, but ints, does the rest of the step read. */
static bool rest_reads_given(const Copy *c, const Early *e) {
	const Kernel *k = c->b->k;
	for (StmtId s = region_first(k, k->functions.at[c->v->of].body); s != NONE; s = kernel_stmt(k, s)->next) {
		ValueId result = kernel_stmt(k, s)->result;
		if (result != NONE &&
		    (!c->needed[result] || e->value[result] || resolved(c, karg_value(result)).value != result))
			continue;
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
			KArg x = resolved(c, *kernel_arg(k, s, i));
			bool given = x.kind != KARG_VALUE || !e->value[x.value];
			for (uint32_t g = 0; g < e->count; g++)
				given = given || x.value == e->given[g];
			if (!given)
				return false;
		}
		for (ValueId v = 0; v < c->b->values; v++)
			if (k->values.at[v].type == KTYPE_INT && e->value[v] && kernel_stmt_reads(k, s, v))
				return false;
	}
	return true;
}

/* The choice, the maxima of it along columns, and what they are made of. */
static bool find_early(Copy *c, Early *e) {
	const Kernel *k = c->b->k;
	ValueId chosen = kernel_stmt(k, c->b->where)->result;
	*e = (Early){.value = by_value(c->b, sizeof *e->value), .tile = masked_tile(c), .given = {chosen}, .count = 1};
	if (!c->v->early || e->tile == NONE || !c->needed[chosen] || resolved(c, karg_value(chosen)).value != chosen)
		return false;
	e->value[chosen] = true;
	StmtId end = region_last(k, k->functions.at[c->v->of].body);
	for (StmtId s = kernel_stmt(k, c->b->where)->next; s != end; s = kernel_stmt(k, s)->next) {
		ValueId result = kernel_stmt(k, s)->result;
		KArg x = kernel_stmt(k, s)->op == K_MAX ? resolved(c, *kernel_arg(k, s, 0)) : (KArg){.kind = KARG_NONE};
		if (x.kind != KARG_VALUE || x.value != chosen || !c->needed[result])
			continue;
		if (e->count > EARLY_MAX)
			return false;
		e->value[result] = true;
		e->given[e->count++] = result;
	}
	for (StmtId s = kernel_stmt(k, end)->prev; s != NONE; s = kernel_stmt(k, s)->prev)
		if (kernel_stmt(k, s)->result != NONE && e->value[kernel_stmt(k, s)->result] && !is_fixed(c, s) &&
		    !early_reads(c, e, s))
			return false;
	return e->count > 1 && rest_reads_given(c, e);
}

static void start_copies(Copy *c) {
	c->now = by_value(c->b, sizeof *c->now);
	c->buffer = arena_array(c->b->k->arena, c->b->k->buffers.count + 1, sizeof *c->buffer);
	memset(c->now, 0xff, (c->b->values + 1) * sizeof *c->now);
	memset(&c->ints, 0, sizeof c->ints);
}

static bool same_variant(const Variant *a, const Variant *b) {
	bool same = a->of == b->of && a->masked == b->masked && a->early == b->early && a->zero == b->zero &&
	            a->low == b->low && a->bounds == b->bounds;
	for (uint32_t i = 0; i < 2; i++)
		same = same && a->size[i] == b->size[i] && a->moves[i] == b->moves[i];
	for (uint32_t i = 0; same && i < a->bounds; i++)
		same = a->bound[i].holds == b->bound[i].holds && a->bound[i].fixed == b->bound[i].fixed &&
		       a->bound[i].since == b->bound[i].since;
	return same;
}

/* One that starts from other numbers has the same mask. */
static bool take_mask(const Blocks *b, Made *made) {
	for (uint32_t i = 0; i < b->made->count; i++) {
		const Made *x = &b->made->at[i];
		Variant started = x->variant;
		started.zero = made->variant.zero;
		started.low = made->variant.low;
		if (x->mask.f == NONE || !same_variant(&started, &made->variant))
			continue;
		made->mask = x->mask;
		return true;
	}
	return false;
}

/* The function of what is masked: it gives that, and its maxima. */
static void make_mask(Copy c, const Early *e, Made *made) {
	Kernel *k = c.b->k;
	Made mask = {.kept = made->mask.kept};
	KArg given[1 + EARLY_MAX];
	if (take_mask(c.b, made))
		return;
	mask.f = declare(k, c.v, "_mask");
	start_copies(&c);
	c.needed = e->value;
	c.without_end = true;
	copy_parameters(&c, &mask);
	copy_stmts(&c, mask.f);
	for (uint32_t i = 0; i < e->count; i++)
		given[i] = karg_value(c.now[e->given[i]]);
	kernel_append(k, k->functions.at[mask.f].body, K_RETURN, e->count, given, 0, NULL);
	made->mask = (EarlyMask){.f = mask.f,
	                         .tile = e->tile,
	                         .kept = mask.kept,
	                         .start = {c.start[0] != NONE, c.start[1] != NONE},
	                         .maxima = e->count - 1};
}

/* The rest of the step reads what is masked as it read what was not, and the maxima as parameters. */
static void add_early(Copy *c, const Early *e, FunctionId f) {
	Kernel *k = c->b->k;
	c->now[e->given[0]] = c->now[e->tile];
	for (uint32_t i = 1; i < e->count; i++) {
		ValueId v = value_copied(c, NONE, e->given[i], value_name(k, called(c, e->given[i])));
		if (!k->values.at[v].name)
			k->values.at[v].name = "maximum";
		KParameter parameter = {PARAMETER_VALUE, c->now[e->given[i]] = v};
		vec_push(k->arena, &k->functions.at[f].parameters, parameter);
	}
}

static Made make_function(Blocks *b, const Variant *v) {
	Kernel *k = b->k;
	Copy c = {.b = b, .v = v};
	Made made = {.variant = *v, .mask = {.f = NONE}};
	Variant whole = *v, rest = *v;
	Early early;
	uint32_t parameters = k->functions.at[v->of].parameters.count + 1;
	c.as = by_value(b, sizeof *c.as);
	c.needed = by_value(b, sizeof *c.needed);
	made.kept = arena_array(k->arena, parameters, sizeof *made.kept);
	made.mask.kept = arena_array(k->arena, parameters, sizeof *made.mask.kept);
	c.named = by_value(b, sizeof *c.named);
	memset(c.named, 0xff, (b->values + 1) * sizeof *c.named);
	start_copies(&c);
	if (!find_needed(&c)) {
		whole.zero = whole.low = 0;
		c.v = &whole;
		memset(c.needed, 0, (b->values + 1) * sizeof *c.needed);
		find_needed(&c);
	}
	bool split = find_early(&c, &early);
	if (split) {
		make_mask(c, &early, &made);
		for (ValueId x = 0; x < b->values; x++)
			c.needed[x] = c.needed[x] && !early.value[x];
		c.needed[early.tile] = true;
		rest = *c.v;
		rest.bounds = 0; /* the mask's */
		c.v = &rest;
	}
	made.f = declare(k, v, "");
	copy_parameters(&c, &made);
	if (split)
		add_early(&c, &early, made.f);
	made.start[0] = c.start[0] != NONE;
	made.start[1] = c.start[1] != NONE;
	copy_stmts(&c, made.f);
	return made;
}

const Made *blocks_function(Blocks *b, const Variant *v) {
	for (uint32_t i = 0; i < b->made->count; i++)
		if (same_variant(&b->made->at[i].variant, v))
			return &b->made->at[i];
	Made made = make_function(b, v);
	vec_push(b->k->arena, b->made, made);
	return &b->made->at[b->made->count - 1];
}
