/* rewrite_skew.c - what is to run ahead of its step runs one step earlier, beside the rest of the step before, where
 * nothing depends on anything (skew.c decides where that pays). What it gives is carried to the next step, in scratch
 * or as a value.
 *
 *     loop step(j) ... carry (m = %1) {               loop step(j) ... carry (m = %1, s: ... = _ in s_ref) {
 *       dim j steps (4) ...                             dim j steps (4) ...
 *       skew 1                                          runs (3)
 *                                                       before {
 *                                                         s = call step_ahead(k_win[...] at (0))
 *                                                         yield s
 *                                                       }
 *                                                       behind {
 *                                                         m = call step(s, v_win[...] at (3), m)
 *                                                         yield m
 *                                                       }
 *       s = call step_ahead(k_win[...])                 s_next = call step_ahead(k_win[...] at (j + 1))
 *       m = call step(s, v_win[...], m)                 m = call step(s, v_win[...] at (j), m)
 *                                                       s = let s_next
 *       yield m                                         yield m, s
 *       hand s in s_ref                               }
 *     } */
#include "rewrite.h"

/* From here on the loop carries what was handed: by the value that the rest of the step reads already. */
static void carry_handed(Kernel *k, StmtId s) {
	KLoop *loop = kernel_stmt(k, s)->loop;
	KArgs args = {0};
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++)
		vec_push(k->arena, &args, *kernel_arg(k, s, i));
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		const KHanded *h = &loop->handed.at[i];
		KArg none = {.kind = KARG_NONE};
		k->values.at[h->value].def = NONE;
		vec_push(k->arena, &args, none);
		vec_push(k->arena, &loop->carried, h->value);
		vec_push(k->arena, &loop->place, h->scratch);
		vec_push(k->arena, &loop->odd, h->odd);
	}
	kernel_set_args(k, s, args.count, args.at);
	loop->handed.count = 0;
}

/* The region: the next step's part, the rest of its own, then what the next one is handed. */
static void put_step(Kernel *k, StmtId s, StmtId ahead, StmtId rest) {
	const KLoop *loop = kernel_stmt(k, s)->loop;
	RegionId body = kernel_stmt(k, s)->body;
	IntId step = int_value(k, loop->dim[0].step);
	StmtId next = loop_call_at(k, loop, ahead, body, int_binary(k, INT_ADD, step, int_const(k, 1)));
	StmtId own = loop_call_at(k, loop, rest, body, step);
	KArgs yield = {0};
	for (uint32_t i = 0; i < kernel_stmt(k, own)->result_count; i++)
		vec_push(k->arena, &yield, karg_value(kernel_stmt(k, own)->result + i));
	for (uint32_t i = 0; i < kernel_stmt(k, next)->result_count; i++) {
		ValueId carried = kernel_stmt(k, ahead)->result + i, given = kernel_stmt(k, next)->result + i;
		const char *name = value_name(k, carried);
		KArg x = karg_value(given);
		value_called_after(k, given, carried, "next");
		ValueId now = kernel_result_like(k, kernel_append(k, body, K_LET, 1, &x, 0, NULL), carried, name);
		k->values.at[now].as = carried;
		vec_push(k->arena, &yield, karg_value(now));
	}
	kernel_append(k, body, K_YIELD, yield.count, yield.at, 0, NULL);
}

/* What is handed on is all that the call gives. */
static bool hands_all(const Kernel *k, const KLoop *loop, StmtId ahead) {
	const KStmt *s = kernel_stmt(k, ahead);
	bool all = s->result_count == loop->handed.count;
	for (uint32_t i = 0; all && i < loop->handed.count; i++)
		all = loop->handed.at[i].value == s->result + i;
	return all;
}

static void skew(Kernel *k, StmtId s) {
	KLoop *loop = kernel_stmt(k, s)->loop;
	RegionId body = kernel_stmt(k, s)->body;
	StmtId ahead, rest, yield = region_last(k, body);
	int64_t known;
	if (loop->skew != 1 || loop->bodies.count || loop->peel || loop->type == LOOP_UNROLL || loop->rank != 1 ||
	    loop->before != NONE || (loop_static_steps(k, loop, &known) && known < 1) ||
	    !loop_calls(k, s, &ahead, &rest) || ahead == NONE || !hands_all(k, loop, ahead))
		return;
	loop->skew = 0;
	IntId last = int_binary(k, INT_SUB, loop->dim[0].steps, int_const(k, 1));
	loop->runs = last;
	loop->before = kernel_region(k, s);
	loop->behind = kernel_region(k, s);
	StmtId before = loop_call_at(k, loop, ahead, loop->before, int_const(k, 0));
	loop_set_flag(k, loop, before, true);
	loop_yield(k, loop->before, before);
	StmtId behind = loop_call_at(k, loop, rest, loop->behind, last);
	loop_set_flag(k, loop, behind, true);
	loop_yield(k, loop->behind, behind);
	kernel_remove(k, ahead);
	kernel_remove(k, rest);
	kernel_remove(k, yield);
	carry_handed(k, s);
	put_step(k, s, ahead, rest);
}

void rewrite_skew(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t i = 0; i < loops.count; i++)
		skew(k, loops.at[i]);
}
