/* drive_bodies.c - a loop as straight code for each number of steps that there is, and behind each what stands behind
 * the loop. All that is to run ahead stands ahead of the steps: rewrite_blocks.c cuts both, and puts together again
 * what belongs together.
 *
 *     m = loop step(j) fori_loop ... {             when (steps == 2) {
 *       bodies (2, 1) live 40                        s = call step_ahead(k_ref[steps - 2]); store s_ref[0], s
 *       skew 1                                       s = call step_ahead(k_ref[steps - 1]); store s_ref[1], s
 *       s = call step_ahead(k_win[...])              m = call step(load s_ref[0], v_ref[steps - 2], m_0, masked)
 *       m = call step(s, v_win[...], m, masked)      m = call step(load s_ref[1], v_ref[steps - 1], m, masked)
 *       yield m                                      store out_ref, m
 *       hand s in s_ref                            }
 *     }                                            when (steps == 1) { ... }
 *     store out_ref, m
 *
 * Steps are counted from the last one back: those of a causal loop end where its rows do. */
#include "drive.h"
#include "rewrite.h"

typedef struct Bodies {
	Driver *d;
	StmtId ahead, step; /* the calls */
	StmtId rest;        /* what stands behind the loop, from here on */
	KArg *initial;      /* by carried value */
} Bodies;

/* A copy of the call, of step `at`, on resident blocks. */
static StmtId put_call(const Bodies *b, StmtId call, IntId at) {
	Driver *d = b->d;
	StmtId s = loop_call_at(d->k, d->loop, call, d->at.region, at);
	for (uint32_t i = 0; i < kernel_stmt(d->k, s)->arg_count; i++) {
		uint32_t w = drive_window_of(d, kernel_arg(d->k, s, i));
		if (w == NONE)
			continue;
		KArg x = drive_window(d, &d->loop->windows.at[w], at);
		*kernel_arg(d->k, s, i) = x;
	}
	return s;
}

/* The place of what a step is handed. */
static KArg handed_to(const Bodies *b, const KHanded *h, int64_t step) {
	Kernel *k = b->d->k;
	KDim at = {.kind = KDIM_AT, .start = int_const(k, step)};
	return karg_ref(kernel_ref(k, h->scratch, 1, &at));
}

/* What the step is handed; it stands in scratch, or is a value. */
static void put_ahead(const Bodies *b, int64_t step, IntId at, KArg *handed) {
	Driver *d = b->d;
	const KLoop *loop = d->loop;
	StmtId s = put_call(b, b->ahead, at);
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		handed[i] = karg_value(kernel_stmt(d->k, s)->result + i);
		d->k->values.at[handed[i].value].as = NONE;
		if (loop->handed.at[i].scratch == NONE)
			continue;
		KArg place = handed_to(b, &loop->handed.at[i], step);
		drive_put(d, K_STORE, 2, (const KArg[]){place, handed[i]});
		d->k->values.at[handed[i].value].name = NULL;
		handed[i] = place;
	}
}

static void put_step(const Bodies *b, IntId at, const KArg *handed, KArg *carried) {
	Driver *d = b->d;
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	KArg *given = arena_array(k->arena, loop->handed.count + 1, sizeof *given);
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		given[i] = handed[i];
		if (handed[i].kind == KARG_REF)
			given[i] = karg_value(kernel_result_like(k, drive_put(d, K_LOAD, 1, &handed[i]),
			                                         loop->handed.at[i].value, NULL));
	}
	StmtId s = put_call(b, b->step, at);
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg x = *kernel_arg(k, s, i);
		for (uint32_t c = 0; x.kind == KARG_VALUE && c < loop->carried.count; c++)
			if (x.value == loop->carried.at[c]) {
				x = carried[c];
				break;
			}
		for (uint32_t h = 0; x.kind == KARG_VALUE && h < loop->handed.count; h++)
			if (x.value == kernel_stmt(k, b->ahead)->result + h) {
				x = given[h];
				break;
			}
		*kernel_arg(k, s, i) = x;
	}
	loop_set_flag(k, loop, s, true);
	for (uint32_t c = 0; c < loop->carried.count; c++) {
		carried[c] = karg_value(kernel_stmt(k, s)->result + c);
		k->values.at[carried[c].value].as = NONE;
	}
}

/* A copy of the rest, of what the steps gave. */
static void put_rest(const Bodies *b, const KArg *carried) {
	Driver *d = b->d;
	Kernel *k = d->k;
	ValueId *map = kernel_value_map(k);
	uint32_t count = k->values.count;
	for (uint32_t i = 0; i < drive_results(d); i++)
		map[drive_result(d, i)] = carried[i].value;
	for (StmtId s = b->rest; s != NONE; s = kernel_stmt(k, s)->next)
		kernel_copy(k, d->at.region, s, map, count, true);
}

static void put_body(const Bodies *b, int64_t steps) {
	Driver *d = b->d;
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	IntId all = loop->dim[0].steps;
	Cursor outer = drive_when(d, int_binary(k, INT_EQ, all, int_const(k, steps)), "body");
	KArg **handed = arena_array(k->arena, (size_t)steps + 1, sizeof *handed);
	KArg *carried = arena_copy(k->arena, b->initial, loop->carried.count + 1, sizeof *carried);
	for (int64_t j = 0; j < steps; j++) {
		handed[j] = arena_array(k->arena, loop->handed.count + 1, sizeof **handed);
		put_ahead(b, j, int_binary(k, INT_SUB, all, int_const(k, steps - j)), handed[j]);
	}
	for (int64_t j = 0; j < steps; j++)
		put_step(b, int_binary(k, INT_SUB, all, int_const(k, steps - j)), handed[j], carried);
	put_rest(b, carried);
	d->at = outer;
}

void drive_bodies(Driver *d) {
	Kernel *k = d->k;
	Bodies b = {.d = d, .rest = kernel_stmt(k, d->stmt)->next};
	loop_calls(k, d->stmt, &b.ahead, &b.step);
	b.initial = arena_array(k->arena, d->loop->carried.count + 1, sizeof *b.initial);
	for (uint32_t i = 0; i < d->loop->carried.count; i++)
		b.initial[i] = drive_initial(d, i);
	for (uint32_t i = 0; i < d->loop->bodies.count; i++)
		put_body(&b, d->loop->bodies.at[i]);
	kernel_remove_behind(k, d->stmt);
}
