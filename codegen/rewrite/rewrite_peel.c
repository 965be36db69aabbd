/* rewrite_peel.c - the ragged last step of a loop runs after it, through the same functions and, where a window of it
 * would pass the array's end, an operand of its own; so the loop has full steps alone, and no step asks whether it is
 * the last.
 *
 *     loop step(j) ... {                                     loop step(j) ... {
 *       dim j steps (4) full 3 tail 37                         dim j steps (3) full 3 tail 37
 *       mask ragged peel                                       peel ragged
 *       m = call step(k_win[...], m, ragged=ragged)            tail {
 *       yield m                                                  m = call step(k_win[...] at (3), m, ragged)
 *     }                                                          yield m
 *                                                              }
 *                                                              m = call step(k_win[...], m)
 *                                                              yield m
 *                                                            }
 *
 * The region `tail` comes with the calls: rewrite_split.c asks for it where the loop has none yet. */
#include "rewrite.h"

/* In place of the loop's flag a call has its function's own, which is set, or nothing: flags come last. */
void loop_set_flag(Kernel *k, const KLoop *loop, StmtId call, bool set) {
	KStmt *s = kernel_stmt(k, call);
	for (uint32_t i = 0; i < s->arg_count; i++) {
		KArg *x = kernel_arg(k, call, i);
		if (x->kind != KARG_VALUE || x->value != loop->ragged)
			continue;
		if (set)
			x->value = k->functions.at[s->function].parameters.at[i].id;
		else
			s->arg_count = i;
	}
}

void loop_add_tail(Kernel *k, StmtId stmt) {
	KLoop *loop = kernel_stmt(k, stmt)->loop;
	StmtId calls[2], copy = NONE, before = NONE;
	if (!loop->peeled || loop->tail != NONE || !loop_calls(k, stmt, &calls[0], &calls[1]))
		return;
	loop->tail = kernel_region(k, stmt);
	for (int c = calls[0] == NONE; c < 2; c++) {
		copy = loop_call_at(k, loop, calls[c], loop->tail, int_const(k, loop->dim[0].full_steps));
		if (before != NONE)
			loop_read_results(k, copy, calls[0], kernel_stmt(k, before)->result);
		loop_set_flag(k, loop, copy, true);
		loop_set_flag(k, loop, calls[c], false);
		before = copy;
	}
	loop_yield(k, loop->tail, copy);
}

static void peel(Kernel *k, StmtId s) {
	KLoop *loop = kernel_stmt(k, s)->loop;
	if (!loop->peel || loop->runs != NONE)
		return;
	loop->peel = false;
	loop->peeled = true;
	loop->dim[0].steps = int_const(k, loop->dim[0].full_steps);
	loop_add_tail(k, s);
}

void rewrite_peel(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t i = 0; i < loops.count; i++)
		peel(k, loops.at[i]);
}
