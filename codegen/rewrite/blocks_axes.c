/* blocks_axes.c - which axes of a step's values must be cut alike: all that is made element by element, what a matmul
 * contracts. Such are of one class; what is made in another way stays whole. */
#include "blocks.h"

uint32_t block_value_axis(uint32_t v, uint32_t axis) { return v * KDIM_MAX + axis; }
uint32_t block_buffer_axis(const Blocks *b, BufferId buffer, uint32_t axis) {
	return block_value_axis(b->values + buffer, axis);
}

uint32_t block_class(Blocks *b, uint32_t axis) {
	while (b->root[axis] != axis)
		axis = b->root[axis] = b->root[b->root[axis]];
	return axis;
}

static void join(Blocks *b, uint32_t x, uint32_t y) {
	x = block_class(b, x);
	y = block_class(b, y);
	b->root[x] = y;
	b->whole[y] = b->whole[y] || b->whole[x];
}

static void keep_whole(Blocks *b, uint32_t axis) { b->whole[block_class(b, axis)] = true; }

static void keep_value_whole(Blocks *b, ValueId v) {
	for (uint32_t d = 0; d < b->k->values.at[v].rank; d++)
		keep_whole(b, block_value_axis(v, d));
}

void blocks_join_values(Blocks *b, ValueId x, ValueId y) {
	const KValue *a = &b->k->values.at[x], *c = &b->k->values.at[y];
	for (uint32_t d = 0; d < a->rank && a->rank == c->rank; d++)
		join(b, block_value_axis(x, d), block_value_axis(y, d));
}

/* Element by element, counted from the last dim; one element goes with all. */
static void join_pointwise(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	const KValue *to = &b->k->values.at[stmt->result];
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		KArg x = *kernel_arg(b->k, s, i);
		const KValue *from = kernel_is_tile(b->k, x) ? &b->k->values.at[x.value] : NULL;
		for (uint32_t e = 1; from && e <= from->rank && e <= to->rank; e++)
			if (from->shape[from->rank - e] != 1)
				join(b, block_value_axis(x.value, from->rank - e),
				     block_value_axis(stmt->result, to->rank - e));
	}
}

/* What is loaded or stored has the buffer's dims, but for those that are at one place. */
static void join_place(Blocks *b, RefId place, ValueId v) {
	const KRef *ref = &b->k->refs.at[place];
	uint32_t axis = 0, rank = b->k->values.at[v].rank;
	for (uint32_t d = 0; d < b->k->buffers.at[ref->buffer].rank; d++) {
		KDimKind kind = d < ref->rank ? ref->dim[d].kind : KDIM_ALL;
		if (kind == KDIM_AT)
			continue;
		if (axis < rank)
			join(b, block_value_axis(v, axis), block_buffer_axis(b, ref->buffer, d));
		if (kind != KDIM_ALL)
			keep_whole(b, block_buffer_axis(b, ref->buffer, d));
		axis++;
	}
	if (axis != rank)
		keep_value_whole(b, v);
}

static bool reduces(const KStmt *s, uint32_t axis) {
	for (uint32_t i = 1; i < s->int_count; i++)
		if (s->ints[i] == (int64_t)axis)
			return true;
	return s->int_count == 1;
}

/* One axis of the operand after the other, and of the result. */
static void join_reduced(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	ValueId x = kernel_arg(b->k, s, 0)->value;
	for (uint32_t d = 0, to = 0; d < b->k->values.at[x].rank; d++) {
		if (!reduces(stmt, d))
			join(b, block_value_axis(x, d), block_value_axis(stmt->result, to));
		to += stmt->ints[0] || !reduces(stmt, d);
	}
}

/* A batch first, where there are three; then what is left of each factor. */
static void join_multiplied(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	uint32_t to = 0;
	for (uint32_t i = 0; i < 2; i++) {
		ValueId x = kernel_arg(b->k, s, i)->value;
		uint32_t rank = b->k->values.at[x].rank;
		for (uint32_t d = 0; d < rank; d++) {
			bool batch = rank == 3 && d == 0;
			if ((int64_t)d != stmt->ints[i])
				join(b, block_value_axis(x, d), block_value_axis(stmt->result, batch ? 0 : to));
			to += (int64_t)d != stmt->ints[i] && !(batch && i == 1);
		}
	}
	join(b, block_value_axis(kernel_arg(b->k, s, 0)->value, (uint32_t)stmt->ints[0]),
	     block_value_axis(kernel_arg(b->k, s, 1)->value, (uint32_t)stmt->ints[1]));
}

/* New dims alone. */
static bool join_indexed(Blocks *b, StmtId s) {
	const KStmt *stmt = kernel_stmt(b->k, s);
	ValueId x = kernel_arg(b->k, s, 0)->value;
	uint32_t from = 0, to = 0, rank = b->k->values.at[x].rank;
	for (uint32_t i = 0; i < stmt->int_count; i += 3) {
		if (stmt->ints[i] == K_ITEM_ALL && from < rank)
			join(b, block_value_axis(x, from++), block_value_axis(stmt->result, to));
		else if (stmt->ints[i] != K_ITEM_NEW)
			return false;
		to++;
	}
	while (from < rank)
		join(b, block_value_axis(x, from++), block_value_axis(stmt->result, to++));
	return true;
}

static bool is_pointwise(uint16_t op) {
	return op < OP_COUNT || op == K_CONVERT || op == K_LET || op == K_CHOOSE || op == K_BROADCAST;
}

bool blocks_dot(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	return stmt->op == K_DOT && stmt->arg_count == 2 && kernel_is_tile(k, *kernel_arg(k, s, 0)) &&
	       kernel_is_tile(k, *kernel_arg(k, s, 1));
}

bool blocks_fold(const Kernel *k, StmtId s) {
	uint16_t op = kernel_stmt(k, s)->op;
	return (op == K_MAX || op == K_SUM) && kernel_is_tile(k, *kernel_arg(k, s, 0));
}

/* Of what is not known all stays whole. */
void blocks_join_stmt(Blocks *b, StmtId s) {
	Kernel *k = b->k;
	const KStmt *stmt = kernel_stmt(k, s);
	bool known = true;
	if (stmt->op == K_STORE && kernel_is_tile(k, *kernel_arg(k, s, 1)))
		join_place(b, kernel_arg(k, s, 0)->ref, kernel_arg(k, s, 1)->value);
	if (stmt->op == K_RETURN || stmt->result == NONE)
		return;
	if (is_pointwise(stmt->op))
		join_pointwise(b, s);
	else if (stmt->op == K_LOAD)
		join_place(b, kernel_arg(k, s, 0)->ref, stmt->result);
	else if (blocks_fold(k, s))
		join_reduced(b, s);
	else if (blocks_dot(k, s))
		join_multiplied(b, s);
	else if (stmt->op == K_INDEX)
		known = join_indexed(b, s);
	else if (stmt->op == K_TRANSPOSE)
		for (uint32_t d = 0; d < stmt->int_count; d++)
			join(b, block_value_axis(kernel_arg(k, s, 0)->value, (uint32_t)stmt->ints[d]),
			     block_value_axis(stmt->result, d));
	else
		known = stmt->op == K_IOTA || stmt->op == K_INT || stmt->op == K_SCALAR || stmt->op == K_ZEROS ||
		        stmt->op == K_FULL;
	for (uint32_t i = 0; !known && i < stmt->arg_count; i++)
		if (kernel_is_tile(k, *kernel_arg(k, s, i)))
			keep_value_whole(b, kernel_arg(k, s, i)->value);
	if (!known)
		keep_value_whole(b, stmt->result);
}

/* Which dim of a value, or of a buffer, is of the class; NONE. */
static uint32_t dim_in(Blocks *b, uint32_t first, uint32_t rank, uint32_t class) {
	for (uint32_t d = 0; d < rank; d++)
		if (block_class(b, first + d) == block_class(b, class))
			return d;
	return NONE;
}

uint32_t block_value_dim(Blocks *b, ValueId v, uint32_t class) {
	return dim_in(b, block_value_axis(v, 0), b->k->values.at[v].rank, class);
}

void blocks_join_function(Blocks *b, FunctionId f) {
	for (StmtId s = region_first(b->k, b->k->functions.at[f].body); s != NONE; s = kernel_stmt(b->k, s)->next)
		blocks_join_stmt(b, s);
}

/* Which axis of its is cut: rows 0, columns 1; 2: none. */
uint32_t block_cut(Blocks *b, uint32_t axis) {
	uint32_t class = block_class(b, axis);
	return class == block_class(b, b->rows) ? 0 : class == block_class(b, b->columns) ? 1 : 2;
}
