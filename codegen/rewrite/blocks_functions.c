/* blocks_functions.c - the function of a step once more, of so many of its rows and columns. */
#include "blocks.h"

/* The function reads where its block starts. */
bool blocks_read_start(Blocks *b, FunctionId f, uint32_t cut) {
	const Kernel *k = b->k;
	bool reads = false;
	for (StmtId s = region_first(k, k->functions.at[f].body); s != NONE && b->moves[cut];
	     s = kernel_stmt(k, s)->next) {
		const KStmt *stmt = kernel_stmt(k, s);
		if (stmt->op == K_IOTA)
			reads = reads || block_cut(b, block_value_axis(stmt->result, (uint32_t)stmt->ints[0])) == cut;
		BufferId x = stmt->op == K_LOAD ? k->refs.at[kernel_arg(k, s, 0)->ref].buffer : NONE;
		for (uint32_t d = 0;
		     x != NONE && k->buffers.at[x].role != BUFFER_PARAMETER && d < k->buffers.at[x].rank; d++)
			reads = reads || block_cut(b, block_buffer_axis(b, x, d)) == cut;
	}
	return reads;
}

typedef struct Copy {
	Blocks *b;
	int64_t size[2];
	ValueId start[2]; /* NONE: nothing reads it */
	ValueId *now;     /* by value of the whole step's function */
	BufferId *buffer; /* by buffer */
	VEC(ValueId) ints;
} Copy;

static const int64_t *cut_shape(Copy *c, uint32_t first, uint32_t rank, const int64_t *shape) {
	int64_t *cut = arena_array(c->b->k->arena, KDIM_MAX, sizeof *cut);
	for (uint32_t d = 0; d < rank; d++) {
		uint32_t which = block_cut(c->b, first + d);
		cut[d] = which < 2 ? c->size[which] : shape[d];
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
			                .size = c->size[which]};
		any = any || which < 2;
	}
	return kernel_ref(k, parameter ? c->buffer[ref.buffer] : ref.buffer, any ? rank : 0, dim);
}

static KArg arg_copied(Copy *c, KArg x) {
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
	k->values.at[v].as = name ? like : NONE; /* of another function, called alike */
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
	const char *name = old.result == NONE ? NULL : value_name(k, old.result);
	if (old.result != NONE)
		c->now[old.result] = value_copied(c, made, old.result, moved ? NULL : name);
	if (moved) {
		const KArg sum[] = {karg_int(int_value(k, c->start[which])), karg_value(c->now[old.result])};
		made = kernel_append(k, to, OP_ADD, 2, sum, 0, NULL);
		c->now[old.result] = value_copied(c, made, old.result, name);
	}
	if (old.result != NONE && k->values.at[old.result].type == KTYPE_INT)
		vec_push(k->arena, &c->ints, old.result);
	KStmt *stmt = kernel_stmt(k, made);
	stmt->from = old.from;
	stmt->also = old.also;
	stmt->flags = old.flags;
}

static void add_starts(Copy *c, FunctionId of, FunctionId f) {
	static const char *const names[] = {"first_row", "first_column"};
	Kernel *k = c->b->k;
	for (uint32_t i = 0; i < 2; i++) {
		c->start[i] = NONE;
		if (!blocks_read_start(c->b, of, i))
			continue;
		c->start[i] = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, names[i]);
		k->values.at[c->start[i]].exact = true;
		KParameter parameter = {PARAMETER_VALUE, c->start[i]};
		vec_push(k->arena, &k->functions.at[f].parameters, parameter);
	}
}

/* The starts stand before the flag. */
static void copy_parameters(Copy *c, FunctionId of, FunctionId f) {
	Kernel *k = c->b->k;
	bool started = false;
	for (uint32_t i = 0; i < k->functions.at[of].parameters.count; i++) {
		KParameter p = k->functions.at[of].parameters.at[i];
		if (p.kind == PARAMETER_FLAG && !started) {
			add_starts(c, of, f);
			started = true;
		}
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
		vec_push(k->arena, &k->functions.at[f].parameters, p);
	}
	if (!started)
		add_starts(c, of, f);
}

static FunctionId make_function(Blocks *b, FunctionId of, Part size) {
	Kernel *k = b->k;
	Copy c = {.b = b, .size = {size.start, size.size}};
	c.now = arena_array(k->arena, b->values + 1, sizeof *c.now);
	c.buffer = arena_array(k->arena, k->buffers.count + 1, sizeof *c.buffer);
	memset(c.now, 0xff, (b->values + 1) * sizeof *c.now);
	const char *like = k->functions.at[of].name ? k->functions.at[of].name : k->functions.at[of].var;
	FunctionId f = kernel_function(
		k, FUNCTION_PLAIN,
		arena_printf(k->arena, "%s_%lld_%lld", like, (long long)size.start, (long long)size.size));
	StmtId old = k->regions.at[k->functions.at[of].body].owner;
	StmtId def = kernel_insert_before(k, kernel_stmt(k, old)->next, K_DEF, 0, NULL, 0, NULL);
	kernel_stmt(k, def)->function = f;
	kernel_stmt(k, def)->from = kernel_stmt(k, old)->from;
	k->regions.at[k->functions.at[f].body].owner = def;
	copy_parameters(&c, of, f);
	for (StmtId s = region_first(k, k->functions.at[of].body); s != NONE; s = kernel_stmt(k, s)->next)
		copy_stmt(&c, s, k->functions.at[f].body);
	return f;
}

/* (rows, columns) as start and size. */
FunctionId blocks_function(Blocks *b, FunctionId of, Part size) {
	for (uint32_t i = 0; i < b->made.count; i++)
		if (b->made_of.at[i] == of && b->made_size.at[i].start == size.start &&
		    b->made_size.at[i].size == size.size)
			return b->made.at[i];
	FunctionId f = make_function(b, of, size);
	vec_push(b->k->arena, &b->made, f);
	vec_push(b->k->arena, &b->made_of, of);
	vec_push(b->k->arena, &b->made_size, size);
	return f;
}
