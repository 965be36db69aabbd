/* rewrite_pipelined.c - a grid that is a pipeline in the kernel. The grid's own pipeline copies the blocks of the next
 * step alone: where tables name the same large block for several steps, nothing is copied in all but the last of them.
 * An emit_pipeline looks further, to the next step whose block is another one.
 *
 *     grid i 95 arbitrary                          in w_hbm hbm int8[32, 1024, 1024]
 *     in w_ref vmem int8[1, 1024, 1024] ...        def steps(w_ref: vmem int8[1, 1024, 1024]) { ... }
 *         at (groups_ref[i], 0, 0)                 pipeline steps grid (95) at (i) pipeline {
 *         buffers 2 ahead                            in w_hbm [1, 1024, 1024] at (groups_ref[i], 0, 0) buffers 2 ahead
 *     ...                                          }
 *
 * An output of which each step reads and stores the one block that a table names comes in such blocks, too. Lists may
 * have any order, so what was stored to a block that is found again, after others, is brought back first. */
#include "pipelined.h"

bool block_moves(const Kernel *k, const KBuffer *b) {
	int64_t number;
	for (uint32_t d = 0; b->index && d < b->rank; d++)
		if (!int_is_const(k, b->index[d], &number))
			return true;
	return false;
}

bool operand_is_whole(const Kernel *k, const KBuffer *b) {
	bool whole = (b->space == KSPACE_HBM || (b->space == KSPACE_VMEM && b->index)) &&
	             kernel_same_shape(b->rank, b->shape, b->rank, b->array);
	int64_t at;
	for (uint32_t d = 0; whole && b->space == KSPACE_VMEM && d < b->rank; d++)
		whole = int_is_const(k, b->index[d], &at) && at == 0;
	return whole;
}

bool points_can_run_inside(const Kernel *k) {
	bool can = k->grid.count > 0 && k->grid.count <= RANK_MAX && !k->turns && !k->mesh_axis;
	for (uint32_t d = 0; d < k->grid.count; d++)
		can = can && (!k->grid.at[d].parallel || k->grid.at[d].steps == 1);
	for (BufferId b = 0; b < k->buffers.count; b++)
		can = can && (k->buffers.at[b].alias == NONE || !block_moves(k, &k->buffers.at[b]));
	return can;
}

bool blocks_come_early(const Kernel *k) {
	bool early = false;
	for (BufferId b = 0; b < k->buffers.count; b++)
		early = early || k->buffers.at[b].ahead ||
		        (k->buffers.at[b].role == BUFFER_IN && k->buffers.at[b].buffers > 2);
	return early && points_can_run_inside(k);
}

const char *called_after(Kernel *k, const char *ref, const char *what) {
	size_t length = strlen(ref), end = length > 4 && strcmp(ref + length - 4, "_ref") == 0 ? 4 : 0;
	return arena_printf(k->arena, "%.*s_%s", (int)(length - end), ref, what);
}

KBuffer leave_in_hbm(Kernel *k, BufferId operand) {
	KBuffer block = k->buffers.at[operand];
	KBuffer *whole = &k->buffers.at[operand];
	whole->space = KSPACE_HBM;
	whole->shape = block.array;
	whole->name = called_after(k, block.name, "hbm");
	whole->var = NULL;
	whole->index = NULL;
	whole->buffers = 0;
	whole->ahead = whole->fused = false;
	return block;
}

/* The block becomes a parameter of the function, called as it was; the operand stays in HBM. */
static BufferId parameter_of(Kernel *k, BufferId operand) {
	KBuffer block = leave_in_hbm(k, operand);
	BufferId found = kernel_buffer(k, (KBuffer){.role = BUFFER_PARAMETER,
	                                            .space = KSPACE_VMEM,
	                                            .dtype = block.dtype,
	                                            .rank = block.rank,
	                                            .shape = block.shape,
	                                            .name = block.name,
	                                            .var = block.var,
	                                            .alias = NONE});
	for (RefId r = 0; r < k->refs.count; r++)
		if (k->refs.at[r].buffer == operand)
			k->refs.at[r].buffer = found;
	return found;
}

/* ---- outputs whose blocks tables name ---------------------------------------------------------------------------- */

/* The flags of blocks that were seen are set to 0 one by one, of many in a loop; they take 32 KiB of SMEM at most. */
enum { STRAIGHT_MAX = 256, BLOCKS_MAX = 8192 };

typedef struct Search {
	Visited *found;
	uint32_t refs;
	bool same;
} Search;

static void look_at(Kernel *k, StmtId s, void *data) {
	Search *search = data;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		const KArg *arg = kernel_arg(k, s, i);
		if (arg->kind != KARG_REF || k->refs.at[arg->ref].buffer != search->found->out)
			continue;
		const KRef *ref = &k->refs.at[arg->ref];
		const KInt *at = ref->rank ? &k->ints.at[ref->dim[0].start] : NULL;
		bool one = at && ref->dim[0].kind == KDIM_AT && at->kind == INT_VALUE;
		search->same = search->same && one && (search->refs == 0 || at->value == search->found->place);
		search->found->place = one ? at->value : NONE;
		search->refs++;
	}
}

static ValueId point_of(const Kernel *k) {
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_PROGRAM_ID && kernel_stmt(k, s)->ints[0] + 1 == k->grid.count)
			return kernel_stmt(k, s)->result;
	return NONE;
}

/* `place` is a clamped element of a table at the grid's point. */
static bool is_told(Kernel *k, Visited *v, ValueId point) {
	v->clamp = k->values.at[v->place].def;
	if (v->clamp == NONE || kernel_stmt(k, v->clamp)->op != OP_CLAMP || point == NONE)
		return false;
	const KArg *x = kernel_arg(k, v->clamp, 0), *low = kernel_arg(k, v->clamp, 1),
		   *high = kernel_arg(k, v->clamp, 2);
	StmtId load = x->kind == KARG_VALUE ? k->values.at[x->value].def : NONE;
	if (load == NONE || kernel_stmt(k, load)->op != K_LOAD || low->kind != KARG_INTEGER || low->integer != 0 ||
	    high->kind != KARG_INTEGER || high->integer != v->count - 1)
		return false;
	const KRef *ref = &k->refs.at[kernel_arg(k, load, 0)->ref];
	v->table = ref->buffer;
	return buffer_is_table(k, v->table) && k->buffers.at[v->table].rank == 1 && ref->rank == 1 &&
	       ref->dim[0].kind == KDIM_AT && ref->dim[0].start == int_value(k, point);
}

bool find_visited(Kernel *k, BufferId b, Visited *v) {
	const KBuffer x = k->buffers.at[b];
	bool changed = x.held && (x.held->fill || x.held->copy || x.held->sums != NONE);
	bool can = x.role == BUFFER_OUT && x.space == KSPACE_VMEM && !changed && x.alias == NONE && x.rank > 2 &&
	           kernel_same_shape(x.rank, x.shape, x.rank, x.array) && x.shape[0] > 1 && x.shape[0] <= BLOCKS_MAX;
	for (uint32_t d = 0; d + 1 < k->grid.count; d++)
		can = can && k->grid.at[d].steps == 1;
	*v = (Visited){.out = b, .count = x.shape[0], .place = NONE};
	Search search = {.found = v, .same = can};
	if (can)
		kernel_walk(k, k->body, look_at, &search);
	return search.same && search.refs > 0 && is_told(k, v, point_of(k));
}

static IntId place_of_block(Kernel *k, const Visited *v) {
	IntId at = int_value(k, k->grid.at[k->grid.count - 1].at);
	IntId told = int_element(k, v->table, &at);
	return int_binary(k, INT_MIN, int_binary(k, INT_MAX, told, int_const(k, 0)), int_const(k, v->count - 1));
}

bool results_come_with(Kernel *k, BufferId in) {
	bool found = false;
	for (BufferId b = 0; b < k->buffers.count; b++) {
		Visited v;
		IntId place =
			k->buffers.at[b].role == BUFFER_OUT && find_visited(k, b, &v) ? place_of_block(k, &v) : NONE;
		for (uint32_t d = 0; place != NONE && d < k->buffers.at[in].rank; d++)
			found = found || k->buffers.at[in].index[d] == place;
	}
	return found;
}

int64_t pipelined_blocks(Kernel *k, BufferId b) {
	Visited v;
	return blocks_come_early(k) && find_visited(k, b, &v) ? v.count : 0;
}

RefId element_at(Kernel *k, BufferId b, IntId at) {
	KDim *dim = arena_array(k->arena, 1, sizeof *dim);
	*dim = (KDim){.kind = KDIM_AT, .start = at, .size = 1};
	return kernel_ref(k, b, 1, dim);
}

static StmtId put_when(Kernel *k, RegionId to, StmtId before, IntId condition, const char *name) {
	KArg arg = karg_int(condition);
	StmtId when = before == NONE ? kernel_append(k, to, K_WHEN, 1, &arg, 0, NULL)
	                             : kernel_insert_before(k, before, K_WHEN, 1, &arg, 0, NULL);
	RegionId body = kernel_region(k, when);
	kernel_stmt(k, when)->body = body;
	kernel_stmt(k, when)->name = name;
	return when;
}

void put_flag(Kernel *k, RegionId to, RefId at, int64_t flag) {
	KArg number = karg_integer(flag);
	StmtId s = kernel_append(k, to, K_SCALAR, 1, &number, 0, NULL);
	KArg value = karg_value(kernel_result(k, s, KTYPE_SCALAR, DTYPE_I32, 0, NULL, NULL));
	kernel_append(k, to, K_STORE, 2, (const KArg[]){karg_ref(at), value}, 0, NULL);
}

/* The element, which rewrite_repeats.c may have loaded already. */
static ValueId load_before(Kernel *k, StmtId before, BufferId table, IntId at) {
	for (StmtId s = region_first(k, k->body); s != NONE && s != before; s = kernel_stmt(k, s)->next) {
		const KRef *ref = kernel_stmt(k, s)->op == K_LOAD ? &k->refs.at[kernel_arg(k, s, 0)->ref] : NULL;
		if (ref && ref->buffer == table && ref->rank == 1 && ref->dim[0].start == at)
			return kernel_stmt(k, s)->result;
	}
	KArg arg = karg_ref(element_at(k, table, at));
	StmtId s = kernel_insert_before(k, before, K_LOAD, 1, &arg, 0, NULL);
	return kernel_result(k, s, KTYPE_SCALAR, k->buffers.at[table].dtype, 0, NULL, "told_before");
}

void clear_flags(Kernel *k, const Visited *v, RegionId to) {
	if (v->count <= STRAIGHT_MAX) {
		KFor *each = arena_alloc(k->arena, sizeof *each);
		*each = (KFor){.step = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "block"),
		               .end = int_const(k, v->count)};
		StmtId loop = kernel_append(k, to, K_FOR, 0, NULL, 0, NULL);
		RegionId body = kernel_region(k, loop);
		kernel_stmt(k, loop)->body = body;
		kernel_stmt(k, loop)->each = each;
		put_flag(k, body, element_at(k, v->seen, int_value(k, each->step)), 0);
		kernel_append(k, body, K_YIELD, 0, NULL, 0, NULL);
		return;
	}
	FunctionId clear = kernel_function(k, FUNCTION_FORI, "clear");
	KParameter number = {PARAMETER_VALUE, kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "block")};
	vec_push(k->arena, &k->functions.at[clear].parameters, number);
	StmtId def = kernel_append(k, to, K_DEF, 0, NULL, 0, NULL);
	RegionId body = kernel_define(k, def, clear);
	put_flag(k, body, element_at(k, v->seen, int_value(k, number.id)), 0);
	kernel_append(k, body, K_RETURN, 0, NULL, 0, NULL);
	KArg count = karg_int(int_const(k, v->count));
	StmtId run = kernel_append(k, to, K_FORI, 1, &count, 0, NULL);
	kernel_stmt(k, run)->function = clear;
}

/* What a step does before it reads or stores its block. One that was seen, and left, is read again: an emit_pipeline
 * has waited for what it wrote, for it waits in the first step of the next block. */
static void put_visit(Kernel *k, const Visited *v, BufferId block) {
	ValueId point = point_of(k);
	StmtId next = kernel_stmt(k, v->clamp)->next;
	RegionId region = kernel_stmt(k, v->clamp)->region;
	IntId here = int_value(k, point), zero = int_const(k, 0), one = int_const(k, 1);
	IntId place = int_value(k, v->place);
	StmtId first = put_when(k, region, next, int_binary(k, INT_EQ, here, zero), "first");
	clear_flags(k, v, kernel_stmt(k, first)->body);
	IntId last = int_binary(k, INT_MAX, int_binary(k, INT_SUB, here, one), zero);
	ValueId was = load_before(k, next, v->table, last);
	KArg range[] = {karg_value(was), karg_integer(0), karg_integer(v->count - 1)};
	StmtId clamp = kernel_insert_before(k, next, OP_CLAMP, 3, range, 0, NULL);
	ValueId left = kernel_result(k, clamp, KTYPE_SCALAR, k->buffers.at[v->table].dtype, 0, NULL, "left");
	IntId stays = int_binary(k, INT_AND, int_binary(k, INT_GT, here, zero),
	                         int_binary(k, INT_EQ, place, int_value(k, left)));
	StmtId visit = put_when(k, region, next, int_binary(k, INT_GT, int_choose(k, stays, zero, one), zero), "visit");
	RegionId inside = kernel_stmt(k, visit)->body;
	KArg flag = karg_ref(element_at(k, v->seen, place));
	StmtId seen = kernel_append(k, inside, K_LOAD, 1, &flag, 0, NULL);
	IntId known = int_value(k, kernel_result(k, seen, KTYPE_SCALAR, DTYPE_I32, 0, NULL, "seen"));
	StmtId again = put_when(k, inside, NONE, int_binary(k, INT_GT, known, zero), "again");
	KDim *dim = arena_array(k->arena, 1, sizeof *dim);
	*dim = (KDim){.kind = KDIM_RANGE, .start = place, .size = 1};
	KArg parts[] = {karg_ref(kernel_ref(k, v->out, 1, dim)), karg_ref(kernel_ref(k, block, 0, NULL)),
	                karg_ref(element_at(k, v->semaphore, zero))};
	StmtId copy = kernel_append(k, kernel_stmt(k, again)->body, K_COPY, 3, parts, 0, NULL);
	KArg back = karg_value(kernel_result(k, copy, KTYPE_COPY, DTYPE_NONE, 0, NULL, "back"));
	kernel_append(k, kernel_stmt(k, again)->body, K_START, 1, &back, 0, NULL);
	kernel_append(k, kernel_stmt(k, again)->body, K_WAIT, 1, &back, 0, NULL);
	put_flag(k, inside, element_at(k, v->seen, place), 1);
}

void cut_blocks(Kernel *k, Visited *v) {
	v->seen = kernel_scratch(k, KSPACE_SMEM, DTYPE_I32, 1, (const int64_t[]){v->count}, "seen_ref");
	v->semaphore = kernel_scratch(k, KSPACE_DMA, DTYPE_NONE, 1, (const int64_t[]){1}, "again_sem");
	KBuffer *out = &k->buffers.at[v->out];
	int64_t *shape = arena_array(k->arena, out->rank, sizeof *shape);
	IntId *index = arena_array(k->arena, out->rank, sizeof *index);
	for (uint32_t d = 0; d < out->rank; d++) {
		shape[d] = d ? out->shape[d] : 1;
		index[d] = int_const(k, 0);
	}
	index[0] = place_of_block(k, v);
	out->shape = shape;
	out->index = index;
	out->buffers = 2;
	for (RefId r = 0; r < k->refs.count; r++) {
		KRef *ref = &k->refs.at[r];
		if (ref->buffer != v->out || ref->rank == 0)
			continue;
		KDim *dim = arena_array(k->arena, ref->rank, sizeof *dim);
		memcpy(dim, ref->dim, ref->rank * sizeof *dim);
		dim[0].start = int_const(k, 0);
		ref->dim = dim;
	}
}

/* ---- what the first and the last point do ------------------------------------------------------------------------ */

/* Its point is the first of the grid, or the last one: as rewrite_held.c says it. NONE: the grid is one point. */
static IntId at_end(Kernel *k, RegionId steps, bool first) {
	IntId all = NONE;
	for (StmtId s = region_first(k, steps); s != NONE; s = kernel_stmt(k, s)->next) {
		if (kernel_stmt(k, s)->op != K_PROGRAM_ID)
			continue;
		int64_t count = k->grid.at[kernel_stmt(k, s)->ints[0]].steps;
		IntId one = int_binary(k, INT_EQ, int_value(k, kernel_stmt(k, s)->result),
		                       int_const(k, first ? 0 : count - 1));
		if (count > 1)
			all = all == NONE ? one : int_binary(k, INT_AND, all, one);
	}
	return all;
}

static uint32_t dims_told(Kernel *k, RegionId steps) {
	uint32_t told = 0, all = 0;
	for (StmtId s = region_first(k, steps); s != NONE; s = kernel_stmt(k, s)->next)
		told += kernel_stmt(k, s)->op == K_PROGRAM_ID && k->grid.at[kernel_stmt(k, s)->ints[0]].steps > 1;
	for (uint32_t d = 0; d < k->grid.count; d++)
		all += k->grid.at[d].steps > 1;
	return told == all ? all : 0;
}

void take_out(Kernel *k, RegionId steps, bool first, RegionId to) {
	IntId condition = dims_told(k, steps) ? at_end(k, steps, first) : NONE;
	for (StmtId s = region_first(k, steps), next; s != NONE && condition != NONE; s = next) {
		const KStmt *stmt = kernel_stmt(k, s);
		next = stmt->next;
		bool ends = stmt->op == K_WHEN && kernel_arg(k, s, 0)->kind == KARG_INT &&
		            kernel_arg(k, s, 0)->index == condition && stmt->name &&
		            strcmp(stmt->name, first ? "first_visit" : "last_visit") == 0;
		if (!ends)
			continue;
		kernel_move_all(k, stmt->body, to);
		kernel_remove(k, s);
	}
}

void rewrite_pipelined(Kernel *k) {
	BufferId operands = k->buffers.count;
	bool wanted = blocks_come_early(k);
	for (BufferId b = 0; b < operands && !wanted; b++)
		k->buffers.at[b].ahead = false;
	if (!wanted)
		return;
	VEC(Visited) visited = {0};
	for (BufferId b = 0; b < operands; b++) {
		Visited v;
		if (!find_visited(k, b, &v))
			continue;
		cut_blocks(k, &v);
		vec_push(k->arena, &visited, v);
	}
	KPipeline *p = arena_alloc(k->arena, sizeof *p);
	*p = (KPipeline){.rank = k->grid.count, .body = kernel_function(k, FUNCTION_PLAIN, "steps")};
	for (uint32_t d = 0; d < p->rank; d++) {
		p->at[d] = k->grid.at[d].at;
		p->grid[d] = int_const(k, k->grid.at[d].steps);
	}
	for (int output = 0; output < 2; output++)
		for (BufferId b = 0; b < operands; b++) {
			const KBuffer block = k->buffers.at[b];
			if (block.role != (output ? BUFFER_OUT : BUFFER_IN) || !block_moves(k, &block))
				continue;
			KPipelineWindow window = {.of = b,
			                          .output = output,
			                          .block = block.shape,
			                          .index = block.index,
			                          .buffers = block.buffers,
			                          .ahead = block.ahead};
			KParameter parameter = {PARAMETER_BUFFER, parameter_of(k, b)};
			for (uint32_t i = 0; i < visited.count; i++)
				if (visited.at[i].out == b)
					put_visit(k, &visited.at[i], parameter.id);
			vec_push(k->arena, &p->windows, window);
			vec_push(k->arena, &k->functions.at[p->body].parameters, parameter);
		}
	RegionId inside = k->functions.at[p->body].body;
	kernel_move_all(k, k->body, inside);
	take_out(k, inside, true, k->body);
	kernel_define(k, kernel_append(k, k->body, K_DEF, 0, NULL, 0, NULL), p->body);
	StmtId run = kernel_append(k, k->body, K_PIPELINE, 0, NULL, 0, NULL);
	kernel_stmt(k, run)->pipeline = p;
	kernel_stmt(k, run)->function = p->body;
	kernel_stmt(k, run)->name = "pipeline";
	take_out(k, inside, false, k->body);
	k->grid.count = 0;
	kernel_drop_unread(k);
}
