/* rewrite_lines.c - what the wrapper would make a row of comes, and goes, as the 1-D array that it is.
 *
 * A row of 16 bits lies in tiles of two rows, of which the other one is empty, and a 1-D array does not: between them
 * XLA copies, in 1,300 to 1,700 cycles before the kernel or behind it, however short the row is. A block of the array
 * itself is loaded 1-D, and becomes a row in registers, where nothing moves.
 *
 *     in weight_ref vmem bfloat16[1, 4096] ...         in weight_ref vmem bfloat16[4096] ...
 *     %1 = load weight_ref[:, 0 +: 128]         =>     %2 = load weight_ref[0 +: 128]
 *                                                      %1 = reshape %2 : bfloat16[1, 128]
 *
 * Of kernels without a grid, whose operands come and go once: the grid's own windows XLA may fill from what makes the
 * row.
 */
#include "rewrite.h"

/* A 1-D array of 16 bits lies in tiles of so many elements (XLA's layout of bfloat16[4096] is T(1024)(128)(2,1)). */
enum { TILE = 1024 };

/* ---- which operands ---------------------------------------------------------------------------------------------- */

/* A whole array, of one row of whole tiles. */
static bool is_row(const Kernel *k, const KBuffer *b) {
	bool row = b->space == KSPACE_VMEM && b->dtype == DTYPE_BF16 && b->rank == 2 && b->shape[0] == 1 &&
	           b->shape[1] % TILE == 0 && kernel_same_shape(2, b->shape, 2, b->array) && !b->fused &&
	           b->alias == NONE && !b->half && !b->held;
	int64_t at;
	for (uint32_t d = 0; row && d < 2; d++)
		row = b->index && int_is_const(k, b->index[d], &at) && at == 0;
	return row;
}

/* A start that Python knows: a number, or so many columns from the step of straight code on. */
static bool is_known(const Kernel *k, IntId start) {
	int64_t number;
	const KInt *i = &k->ints.at[start];
	if (int_is_const(k, start, &number))
		return true;
	if (i->kind != INT_MUL || k->ints.at[i->a].kind != INT_VALUE || !int_is_const(k, i->b, &number))
		return false;
	StmtId def = k->values.at[k->ints.at[i->a].value].def;
	return def == NONE; /* the step of a `for` is no statement's result */
}

static bool is_part_of_row(const Kernel *k, const KRef *ref) {
	if (ref->rank == 0)
		return true;
	const KDim *columns = &ref->dim[1];
	return ref->at == NONE && ref->rank == 2 && ref->dim[0].kind == KDIM_ALL &&
	       (columns->kind == KDIM_ALL || (columns->kind == KDIM_RANGE && is_known(k, columns->start)));
}

typedef struct Uses {
	bool *row; /* by buffer */
} Uses;

static void look_at(Kernel *k, StmtId s, void *data) {
	Uses *uses = data;
	uint16_t op = kernel_stmt(k, s)->op;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		const KArg *x = kernel_arg(k, s, i);
		if (x->kind != KARG_REF)
			continue;
		const KRef *ref = &k->refs.at[x->ref];
		const KBuffer *b = &k->buffers.at[ref->buffer];
		bool read = op == K_LOAD && b->role == BUFFER_IN;
		bool stored = op == K_STORE && i == 0 && b->role == BUFFER_OUT && ref->rank == 0;
		uses->row[ref->buffer] = uses->row[ref->buffer] && (read || stored) && is_part_of_row(k, ref);
	}
}

/* The wrapper makes the row of a 1-D array. */
static bool made_of_line(const Kernel *host, KArg x) {
	StmtId s = x.kind == KARG_VALUE ? kernel_def_of(host, x) : NONE;
	return s != NONE && kernel_stmt(host, s)->op == K_RESHAPE &&
	       host->values.at[kernel_arg(host, s, 0)->value].rank == 1;
}

/* The statement of the wrapper that makes a 1-D array of the row, the only one that reads it; NONE. */
static StmtId made_a_line(const Kernel *host, ValueId row) {
	StmtId found = NONE;
	uint32_t reads = 0;
	for (StmtId s = region_first(host, host->body); s != NONE; s = kernel_stmt(host, s)->next)
		for (uint32_t i = 0; i < kernel_stmt(host, s)->arg_count; i++)
			if (kernel_arg(host, s, i)->kind == KARG_VALUE && kernel_arg(host, s, i)->value == row) {
				found = s;
				reads++;
			}
	bool line = reads == 1 && kernel_stmt(host, found)->op == K_RESHAPE &&
	            host->values.at[kernel_stmt(host, found)->result].rank == 1;
	return line ? found : NONE;
}

/* Of each operand in the order of a launch: inputs are its arguments, outputs its results. */
static bool stands_for_line(const KProgram *p, StmtId launch, const Kernel *k, BufferId b) {
	uint32_t place = 0;
	for (BufferId i = 0; i < b; i++)
		place += k->buffers.at[i].role == k->buffers.at[b].role;
	if (k->buffers.at[b].role == BUFFER_OUT)
		return made_a_line(p->host, kernel_stmt(p->host, launch)->result + place) != NONE;
	return made_of_line(p->host, *kernel_arg(p->host, launch, place));
}

void lines_look_at_launches(const KProgram *p) {
	for (StmtId s = region_first(p->host, p->host->body); s != NONE; s = kernel_stmt(p->host, s)->next) {
		if (kernel_stmt(p->host, s)->op != K_LAUNCH)
			continue;
		Kernel *k = p->kernels.at[kernel_stmt(p->host, s)->ints[0]];
		Uses uses = {arena_array(k->arena, k->buffers.count + 1, sizeof(bool))};
		for (BufferId b = 0; b < k->buffers.count; b++)
			uses.row[b] = k->grid.count == 0 && k->buffers.at[b].role <= BUFFER_OUT &&
			              is_row(k, &k->buffers.at[b]) && stands_for_line(p, s, k, b);
		kernel_walk(k, k->body, look_at, &uses);
		for (BufferId b = 0; b < k->buffers.count; b++)
			k->buffers.at[b].line = uses.row[b];
	}
}

/* ---- the kernel ---------------------------------------------------------------------------------------------------
 */

static RefId line_ref(Kernel *k, RefId ref) {
	const KRef *row = &k->refs.at[ref];
	return row->rank == 0 ? ref : kernel_ref(k, row->buffer, 1, &row->dim[1]);
}

/* A part of the line, loaded or to be stored. */
static ValueId line_before(Kernel *k, StmtId s, uint16_t op, KArg of, int64_t size) {
	int64_t *shape = arena_array(k->arena, 1, sizeof *shape);
	*shape = size;
	StmtId made = kernel_insert_before(k, s, op, 1, &of, 0, NULL);
	kernel_stmt(k, made)->from = kernel_stmt(k, s)->from;
	return kernel_result(k, made, KTYPE_TILE, DTYPE_BF16, 1, shape, "line");
}

static void load_line(Kernel *k, StmtId s) {
	const KValue *row = &k->values.at[kernel_stmt(k, s)->result];
	KArg line = karg_ref(line_ref(k, kernel_arg(k, s, 0)->ref));
	*kernel_arg(k, s, 0) = karg_value(line_before(k, s, K_LOAD, line, row->shape[row->rank - 1]));
	kernel_stmt(k, s)->op = K_RESHAPE;
}

static void store_line(Kernel *k, StmtId s) {
	KArg row = *kernel_arg(k, s, 1);
	int64_t size = k->buffers.at[k->refs.at[kernel_arg(k, s, 0)->ref].buffer].shape[0];
	*kernel_arg(k, s, 1) = karg_value(line_before(k, s, K_RESHAPE, row, size));
}

void rewrite_lines(Kernel *k) {
	StmtIds loads = kernel_stmts_of(k, K_LOAD), stores = kernel_stmts_of(k, K_STORE);
	for (BufferId b = 0; b < k->buffers.count; b++) {
		KBuffer *x = &k->buffers.at[b];
		if (!x->line)
			continue;
		x->rank = 1;
		x->shape++;
		x->array++;
		x->index++;
	}
	for (uint32_t i = 0; i < loads.count; i++)
		if (k->buffers.at[stmt_buffer(k, loads.at[i])].line)
			load_line(k, loads.at[i]);
	for (uint32_t i = 0; i < stores.count; i++)
		if (k->buffers.at[stmt_buffer(k, stores.at[i])].line)
			store_line(k, stores.at[i]);
}

/* ---- the wrapper --------------------------------------------------------------------------------------------------
 */

void launch_lines(KProgram *p) {
	Kernel *host = p->host;
	ValueId *map = arena_raw(host->arena, host->values.count * sizeof *map);
	bool any = false;
	for (ValueId v = 0; v < host->values.count; v++)
		map[v] = NONE;
	for (StmtId s = region_first(host, host->body); s != NONE; s = kernel_stmt(host, s)->next) {
		if (kernel_stmt(host, s)->op != K_LAUNCH)
			continue;
		Kernel *k = p->kernels.at[kernel_stmt(host, s)->ints[0]];
		uint32_t place[BUFFER_OUT + 1] = {0};
		for (BufferId b = 0; b < k->buffers.count; b++) {
			KBuffer *x = &k->buffers.at[b];
			if (x->role > BUFFER_OUT)
				continue;
			uint32_t at = place[x->role]++;
			any = any || x->line;
			if (x->line && x->role == BUFFER_IN) {
				KArg *arg = kernel_arg(host, s, at);
				*arg = *kernel_arg(host, kernel_def_of(host, *arg), 0);
			} else if (x->line) {
				ValueId row = kernel_stmt(host, s)->result + at;
				StmtId line = made_a_line(host, row);
				map[kernel_stmt(host, line)->result] = row;
				host->values.at[row].rank = 1;
				host->values.at[row].shape++;
			}
			x->line = false;
		}
	}
	if (any) {
		kernel_replace_values(host, map, host->values.count);
		kernel_drop_unread(host);
	}
}
