/* rewrite_ahead.c - in straight code, what is to run ahead of its step stands so many steps earlier (skew.c decides how
 * many): what it gives waits in a queue. The compiler could move it there by itself, but keeps close to the order of
 * the program.
 *
 *                                               waiting = queue
 *     loop step(j) unroll ... carry (m = %1) {  loop step(ahead) unroll ... carry (m = %1) {
 *       dim j steps (4) ...                       dim ahead steps (4) ...
 *       skew 2                                    runs (6)
 *                                                 if (ahead < 4) {
 *       s = call step_ahead(k_win[...])             s_1 = call step_ahead(k_win[...] at (ahead))
 *                                                   push waiting, s_1
 *                                                 }
 *                                                 j = int (ahead - 2)
 *                                                 m = if (j >= 0) else (m) {
 *                                                   s_1 = pop waiting
 *       m = call step(s, v_win[...], m)             m = call step(s_1, v_win[...] at (j), m)
 *                                                   yield m
 *                                                 }
 *       yield m                                   yield m
 *       hand s                                  }
 *     } */
#include "rewrite.h"

/* A statement at the end of the region that holds a region of its own, under a condition; that region. */
static RegionId open_if(Kernel *k, RegionId r, IntId condition, const ValueId *otherwise, uint32_t count, StmtId *s) {
	KArgs args = {0};
	vec_push(k->arena, &args, karg_int(condition));
	for (uint32_t i = 0; i < count; i++)
		vec_push(k->arena, &args, karg_value(otherwise[i]));
	*s = kernel_append(k, r, K_IF, args.count, args.at, 0, NULL);
	RegionId inside = kernel_region(k, *s);
	kernel_stmt(k, *s)->body = inside;
	return inside;
}

static ValueId new_queue(Kernel *k, StmtId loop) {
	StmtId s = kernel_insert_before(k, loop, K_QUEUE, 0, NULL, 0, NULL);
	kernel_stmt(k, s)->flags |= KSTMT_INITIAL;
	return kernel_result(k, s, KTYPE_QUEUE, DTYPE_NONE, 0, NULL, "waiting");
}

/* What a step computes ahead goes into the queue, called alike, but in variables of its own. Returns the first. */
static ValueId push_given(Kernel *k, RegionId r, ValueId queue, StmtId ahead, StmtId call) {
	KArgs push = {0};
	ValueId first = kernel_stmt(k, call)->result;
	vec_push(k->arena, &push, karg_value(queue));
	for (uint32_t i = 0; i < kernel_stmt(k, call)->result_count; i++) {
		value_called_after(k, first + i, kernel_stmt(k, ahead)->result + i, "");
		vec_push(k->arena, &push, karg_value(first + i));
	}
	kernel_append(k, r, K_PUSH, push.count, push.at, 0, NULL);
	return first;
}

/* The rest of a step, of what the queue gives. */
static void pop_and_call(Kernel *k, const KLoop *loop, RegionId r, ValueId queue, StmtId ahead, ValueId given,
                         StmtId rest, IntId step) {
	KArg from = karg_value(queue);
	StmtId pop = kernel_append(k, r, K_POP, 1, &from, 0, NULL);
	for (uint32_t i = 0; i < kernel_stmt(k, ahead)->result_count; i++) {
		ValueId v = kernel_result_like(k, pop, given + i, k->values.at[given + i].name);
		k->values.at[v].as = given + i;
	}
	StmtId call = loop_call_at(k, loop, rest, r, step);
	loop_read_results(k, call, ahead, kernel_stmt(k, pop)->result);
	loop_yield(k, r, call);
}

static void stand_ahead(Kernel *k, StmtId s) {
	KLoop *loop = kernel_stmt(k, s)->loop;
	RegionId body = kernel_stmt(k, s)->body;
	StmtId ahead, rest, yield = region_last(k, body), when;
	int64_t steps, early = loop->skew;
	if (!early || loop->peel || loop->type != LOOP_UNROLL || loop->rank != 1 ||
	    !loop_static_steps(k, loop, &steps) || !loop_calls(k, s, &ahead, &rest) || ahead == NONE)
		return;
	ValueId queue = new_queue(k, s), step = loop->dim[0].step;
	ValueId number = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "ahead");
	kernel_remove(k, ahead);
	kernel_remove(k, rest);
	kernel_remove(k, yield);
	RegionId inside =
		open_if(k, body, int_binary(k, INT_LT, int_value(k, number), int_const(k, steps)), NULL, 0, &when);
	StmtId call = loop_call_at(k, loop, ahead, inside, int_value(k, number));
	ValueId given = push_given(k, inside, queue, ahead, call);
	KArg own = karg_int(int_binary(k, INT_SUB, int_value(k, number), int_const(k, early)));
	StmtId named = kernel_append(k, body, K_INT, 1, &own, 0, NULL);
	inside = open_if(k, body, int_binary(k, INT_GE, int_value(k, step), int_const(k, 0)), loop->carried.at,
	                 loop->carried.count, &when);
	pop_and_call(k, loop, inside, queue, ahead, given, rest, int_value(k, step));
	const KStmt *results = kernel_stmt(k, region_last(k, inside));
	for (uint32_t i = 0; i < results->arg_count; i++) {
		ValueId like = kernel_arg(k, region_last(k, inside), i)->value;
		ValueId v = kernel_result_like(k, when, like, k->values.at[like].name);
		k->values.at[v].as = like;
	}
	loop_yield(k, body, when);
	loop_count_by(k, loop, number, named);
	loop->runs = int_const(k, steps + early);
	loop->skew = 0;
	loop->handed.count = 0;
}

void rewrite_ahead(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t i = 0; i < loops.count; i++)
		stand_ahead(k, loops.at[i]);
}
