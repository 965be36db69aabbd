/* rewrite_walk.c - the grid walks back and forth: its last dim runs backwards in every other step of the one before it,
 * so that two grid points that follow each other share a block where the row turns (walk.c decides where that pays).
 *
 *     tile_n = program_id dim=1         tile_n = int (turn(program_id 0, program_id 1, 4))
 *     at (tile_m, tile_n)               at (tile_m, turn(tile_m, tile_n, 4)) */
#include "codegen/kernel/kernel.h"

static StmtId program_id_of(const Kernel *k, uint32_t dim) {
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_PROGRAM_ID && kernel_stmt(k, s)->ints[0] == dim)
			return s;
	return NONE;
}

static IntId new_program_id(Kernel *k, StmtId before, int64_t dim) {
	StmtId s = kernel_insert_before(k, before, K_PROGRAM_ID, 0, NULL, 1, &dim);
	return int_value(k, kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, NULL));
}

void rewrite_walk(Kernel *k) {
	if (!k->turns)
		return;
	k->turns = false;
	uint32_t last = k->grid.count - 1;
	IntId steps = int_const(k, k->grid.at[last].steps);
	ValueId at = k->grid.at[last].at;
	IntId turned = int_turn(k, int_value(k, k->grid.at[last - 1].at), int_value(k, at), steps);
	for (BufferId b = 0; b < k->buffers.count; b++) {
		IntId *index = NULL;
		for (uint32_t d = 0; k->buffers.at[b].index && d < k->buffers.at[b].rank; d++) {
			index = index ? index : arena_array(k->arena, k->buffers.at[b].rank, sizeof *index);
			index[d] = int_substitute(k, k->buffers.at[b].index[d], at, turned);
		}
		k->buffers.at[b].index = index;
	}
	StmtId s = program_id_of(k, last);
	if (s == NONE)
		return;
	IntId row = new_program_id(k, s, last - 1), step = new_program_id(k, s, last);
	KArg turn = karg_int(int_turn(k, row, step, steps));
	StmtId named = kernel_insert_before(k, s, K_INT, 1, &turn, 0, NULL);
	kernel_stmt(k, named)->result = kernel_stmt(k, s)->result;
	kernel_stmt(k, named)->result_count = 1;
	k->values.at[kernel_stmt(k, s)->result].def = named;
	kernel_remove(k, s);
}
