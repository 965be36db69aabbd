/* rewrite_peel.c - the ragged last step of a loop runs after it, through the same function and, where a window of it
 * would pass the array's end, an operand of its own; so the loop has full steps alone, and no step asks whether it is
 * the last.
 *
 *     loop step(j) ... dim j steps (4) full 3 tail 37        loop step(j) ... dim j steps (3) full 3 tail 37
 *                      mask ragged                                            peel ragged */
#include "rewrite.h"

static void peel(Kernel *k, StmtId s) {
	KLoop *loop = kernel_stmt(k, s)->loop;
	if (!loop->peel)
		return;
	loop->peel = false;
	loop->peeled = true;
	loop->dim[0].steps = int_const(k, loop->dim[0].full_steps);
}

void rewrite_peel(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t i = 0; i < loops.count; i++)
		peel(k, loops.at[i]);
}
