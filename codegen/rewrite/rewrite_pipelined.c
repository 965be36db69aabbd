/* rewrite_pipelined.c - a grid that is a pipeline in the kernel. The grid's own pipeline copies the blocks of the next
 * step alone: where tables name the same large block for several steps, nothing is copied in all but the last of them.
 * An emit_pipeline looks further, to the next step whose block is another one.
 *
 *     grid i 95 arbitrary                          in w_hbm hbm int8[32, 1024, 1024]
 *     in w_ref vmem int8[1, 1024, 1024] ...        def steps(w_ref: vmem int8[1, 1024, 1024]) { ... }
 *         at (groups_ref[i], 0, 0)                 pipeline steps grid (95) at (i) pipeline {
 *         buffers 2 ahead                            in w_hbm [1, 1024, 1024] at (groups_ref[i], 0, 0) buffers 2 ahead
 *     ...                                          } */
#include "rewrite.h"

static bool moves(const Kernel *k, const KBuffer *b) {
	int64_t number;
	for (uint32_t d = 0; b->index && d < b->rank; d++)
		if (!int_is_const(k, b->index[d], &number))
			return true;
	return false;
}

static bool is_wanted(const Kernel *k) {
	bool ahead = false, can = k->grid.count > 0 && k->grid.count <= RANK_MAX && !k->turns && !k->mesh_axis;
	for (uint32_t d = 0; d < k->grid.count; d++)
		can = can && (!k->grid.at[d].parallel || k->grid.at[d].steps == 1);
	for (BufferId b = 0; b < k->buffers.count; b++) {
		const KBuffer *x = &k->buffers.at[b];
		ahead = ahead || x->ahead;
		can = can && (x->alias == NONE || !moves(k, &k->buffers.at[b]));
	}
	return ahead && can;
}

/* The block becomes a parameter of the function, called as it was; the operand stays in HBM. */
static BufferId parameter_of(Kernel *k, BufferId operand) {
	KBuffer block = k->buffers.at[operand];
	size_t length = strlen(block.name), end = length > 4 && strcmp(block.name + length - 4, "_ref") == 0 ? 4 : 0;
	BufferId found = kernel_buffer(k, (KBuffer){.role = BUFFER_PARAMETER,
	                                            .space = KSPACE_VMEM,
	                                            .dtype = block.dtype,
	                                            .rank = block.rank,
	                                            .shape = block.shape,
	                                            .name = block.name,
	                                            .alias = NONE});
	KBuffer *whole = &k->buffers.at[operand];
	whole->space = KSPACE_HBM;
	whole->shape = block.array;
	whole->name = arena_printf(k->arena, "%.*s_hbm", (int)(length - end), block.name);
	whole->index = NULL;
	whole->buffers = 0;
	whole->ahead = false;
	for (RefId r = 0; r < k->refs.count; r++)
		if (k->refs.at[r].buffer == operand)
			k->refs.at[r].buffer = found;
	return found;
}

void rewrite_pipelined(Kernel *k) {
	BufferId operands = k->buffers.count;
	bool wanted = is_wanted(k);
	for (BufferId b = 0; b < operands && !wanted; b++)
		k->buffers.at[b].ahead = false;
	if (!wanted)
		return;
	KPipeline *p = arena_alloc(k->arena, sizeof *p);
	*p = (KPipeline){.rank = k->grid.count, .body = kernel_function(k, FUNCTION_PLAIN, "steps")};
	RegionId inside = k->functions.at[p->body].body;
	for (StmtId s = region_first(k, k->body), next; s != NONE; s = next) {
		next = kernel_stmt(k, s)->next;
		kernel_move(k, s, inside);
	}
	for (uint32_t d = 0; d < p->rank; d++) {
		p->at[d] = k->grid.at[d].at;
		p->grid[d] = int_const(k, k->grid.at[d].steps);
	}
	for (int output = 0; output < 2; output++)
		for (BufferId b = 0; b < operands; b++) {
			const KBuffer block = k->buffers.at[b];
			if (block.role != (output ? BUFFER_OUT : BUFFER_IN) || !moves(k, &block))
				continue;
			KPipelineWindow window = {.of = b,
			                          .output = output,
			                          .block = block.shape,
			                          .index = block.index,
			                          .buffers = block.buffers,
			                          .ahead = block.ahead};
			KParameter parameter = {PARAMETER_BUFFER, parameter_of(k, b)};
			vec_push(k->arena, &p->windows, window);
			vec_push(k->arena, &k->functions.at[p->body].parameters, parameter);
		}
	k->grid.count = 0;
	StmtId def = kernel_append(k, k->body, K_DEF, 0, NULL, 0, NULL);
	kernel_stmt(k, def)->function = p->body;
	k->regions.at[inside].owner = def;
	StmtId run = kernel_append(k, k->body, K_PIPELINE, 0, NULL, 0, NULL);
	kernel_stmt(k, run)->pipeline = p;
	kernel_stmt(k, run)->function = p->body;
	kernel_stmt(k, run)->name = "pipeline";
}
