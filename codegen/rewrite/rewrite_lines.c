/* rewrite_lines.c - what the wrapper would make a row of comes, and goes, as the 1-D array that it is.
 *
 * A row of 16 bits lies in tiles of two rows, of which the other one is empty, and a 1-D array does not: between them
 * XLA copies, in 1,300 to 1,700 cycles before the kernel or behind it, however short the row is. The array itself
 * comes, and the kernel makes the row of it, in scratch, before all else. (Made at each load, two rows cost a layer
 * norm 2 to 4%.)
 *
 *     in weight_ref vmem bfloat16[1, 4096] ...         in weight_ref vmem bfloat16[4096] ...
 *                                                      scratch weight_row_ref vmem bfloat16[1, 4096]
 *                                               =>     %1 = load weight_ref[...]
 *                                                      %2 = reshape %1 : bfloat16[1, 4096]
 *                                                      store weight_row_ref[...], %2
 *     %3 = load weight_ref[:, 0 +: 128]                %3 = load weight_row_ref[:, 0 +: 128]
 *
 * An input that the kernel copies itself (rewrite_grid_loop.c) comes to a line in scratch, of which the row is made
 * once it is there. Of kernels without a grid, whose operands come and go once: windows of a grid XLA may fill from
 * what makes the row. */
#include "pipelined.h"

/* A 1-D array of 16 bits lies in tiles of so many elements (XLA's layout of bfloat16[4096] is T(1024)(128)(2,1)). */
enum { TILE = 1024 };

/* ---- which operands ---------------------------------------------------------------------------------------------- */

/* A whole array, of one row of whole tiles. */
static bool is_row(const Kernel *k, const KBuffer *b) {
	return b->dtype == DTYPE_BF16 && b->rank == 2 && b->shape[0] == 1 && b->shape[1] % TILE == 0 &&
	       operand_is_whole(k, b) && !b->fused && b->alias == NONE && !b->half && !b->held;
}

/* An input is read alone, or copied whole, an output stored whole. `data`: by buffer whether that is so. */
static void look_at(Kernel *k, StmtId s, void *data) {
	bool *row = data;
	uint16_t op = kernel_stmt(k, s)->op;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		const KArg *x = kernel_arg(k, s, i);
		if (x->kind != KARG_REF)
			continue;
		const KRef *ref = &k->refs.at[x->ref];
		bool in = k->buffers.at[ref->buffer].role == BUFFER_IN;
		bool read = in && (op == K_LOAD || (op == K_COPY && i == 0 && ref->rank == 0));
		bool stored = op == K_STORE && i == 0 && ref->rank == 0 && ref->at == NONE;
		row[ref->buffer] = row[ref->buffer] && (read || stored);
	}
}

/* The one copy of the input, of all of it and not in a branch; NONE. */
static StmtId copy_of(Kernel *k, BufferId in) {
	StmtIds copies = kernel_stmts_of(k, K_COPY);
	StmtId found = NONE;
	uint32_t count = 0;
	for (uint32_t i = 0; i < copies.count; i++)
		if (k->refs.at[kernel_arg(k, copies.at[i], 0)->ref].buffer == in) {
			found = copies.at[i];
			count++;
		}
	return count == 1 && kernel_stmt(k, found)->region == k->body ? found : NONE;
}

/* What stands behind where it is waited for, in the same region; NONE. */
static StmtId behind_wait(const Kernel *k, StmtId copy) {
	for (StmtId s = copy; s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_WAIT && kernel_arg(k, s, 0)->value == kernel_stmt(k, copy)->result)
			return kernel_stmt(k, s)->next;
	return NONE;
}

static bool is_copied(Kernel *k, BufferId b) {
	StmtId copy = k->buffers.at[b].role == BUFFER_IN ? copy_of(k, b) : NONE;
	return copy != NONE && behind_wait(k, copy) != NONE;
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
		bool *row = arena_array(k->arena, k->buffers.count + 1, sizeof *row);
		for (BufferId b = 0; b < k->buffers.count; b++)
			row[b] = k->grid.count == 0 && k->buffers.at[b].role <= BUFFER_OUT &&
			         is_row(k, &k->buffers.at[b]) && stands_for_line(p, s, k, b);
		kernel_walk(k, k->body, look_at, row);
		for (BufferId b = 0; b < k->buffers.count; b++)
			k->buffers.at[b].line = row[b] && (k->buffers.at[b].space == KSPACE_VMEM || is_copied(k, b));
	}
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* A value of bfloat16, made before a statement. */
static KArg made(Kernel *k, StmtId before, uint16_t op, KArg of, uint32_t rank, const int64_t *shape) {
	StmtId s = kernel_insert_before(k, before, op, 1, &of, 0, NULL);
	kernel_stmt(k, s)->from = kernel_stmt(k, before)->from;
	return karg_value(kernel_result(k, s, KTYPE_TILE, DTYPE_BF16, rank, shape, rank == 1 ? "line" : "row"));
}

/* Of a line, before a statement. */
static void make_row(Kernel *k, StmtId before, BufferId line, BufferId row) {
	const int64_t *shape = k->buffers.at[row].shape;
	KArg found = made(k, before, K_LOAD, karg_ref(kernel_ref(k, line, 0, NULL)), 1, shape + 1);
	KArg args[] = {karg_ref(kernel_ref(k, row, 0, NULL)), made(k, before, K_RESHAPE, found, 2, shape)};
	kernel_insert_before(k, before, K_STORE, 2, args, 0, NULL);
}

/* All that is read of the input is read of its row, in scratch. */
static void read_row(Kernel *k, BufferId in, const int64_t *shape) {
	RefId refs = k->refs.count;
	BufferId row = kernel_scratch(k, KSPACE_VMEM, DTYPE_BF16, 2, shape,
	                              called_after(k, k->buffers.at[in].name, "row_ref"));
	for (RefId r = 0; r < refs; r++)
		if (k->refs.at[r].buffer == in)
			k->refs.at[r].buffer = row;
	make_row(k, region_first(k, k->body), in, row);
}

/* The copy of the input brings a line, of which its row is made where the copy is waited for. */
static void copy_line(Kernel *k, BufferId in, const int64_t *shape) {
	StmtId copy = copy_of(k, in);
	BufferId row = k->refs.at[kernel_arg(k, copy, 1)->ref].buffer;
	BufferId line = kernel_scratch(k, KSPACE_VMEM, DTYPE_BF16, 1, shape + 1,
	                               called_after(k, k->buffers.at[row].name, "line_ref"));
	*kernel_arg(k, copy, 0) = karg_ref(kernel_ref(k, in, 0, NULL));
	*kernel_arg(k, copy, 1) = karg_ref(kernel_ref(k, line, 0, NULL));
	make_row(k, behind_wait(k, copy), line, row);
}

static void store_line(Kernel *k, StmtId s) {
	const KBuffer *to = &k->buffers.at[stmt_buffer(k, s)];
	*kernel_arg(k, s, 1) = made(k, s, K_RESHAPE, *kernel_arg(k, s, 1), 1, to->shape);
}

void rewrite_lines(Kernel *k) {
	StmtIds stores = kernel_stmts_of(k, K_STORE);
	BufferId operands = k->buffers.count;
	for (BufferId b = 0; b < operands; b++) {
		KBuffer *x = &k->buffers.at[b];
		const int64_t *row = x->shape;
		if (!x->line)
			continue;
		x->rank = 1;
		x->shape++;
		x->array++;
		if (x->index) /* of a block */
			x->index++;
		if (x->space == KSPACE_HBM)
			copy_line(k, b, row);
		else if (x->role == BUFFER_IN)
			read_row(k, b, row);
	}
	for (uint32_t i = 0; i < stores.count; i++)
		if (stmt_buffer(k, stores.at[i]) < operands && k->buffers.at[stmt_buffer(k, stores.at[i])].line)
			store_line(k, stores.at[i]);
}

/* ---- the wrapper ------------------------------------------------------------------------------------------------- */

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
