/* drive_unroll.c - a loop as straight code, on parts of resident blocks; one step needs no loop.
 *
 *     m = call step(k_win[...], m)       for j in 4 carry (m = m) {
 *     yield m                              m = call step(k_ref[:, j * 128 +: 128], m)
 *                                          yield m
 *                                        } */
#include "drive.h"
#include "rewrite.h"

/* A region that stands `count` times and carries `values`; statements go into it from here on. */
static StmtId open_for(Driver *d, ValueId step, IntId count, ValueId *values) {
	Kernel *k = d->k;
	uint32_t carried = d->loop->carried.count;
	KFor *each = arena_alloc(k->arena, sizeof *each);
	KArgs args = {0};
	*each = (KFor){.step = step, .end = count};
	for (uint32_t i = 0; i < carried; i++) {
		vec_push(k->arena, &args, karg_value(values[i]));
		values[i] = kernel_value_like(k, values[i]);
		vec_push(k->arena, &each->carried, values[i]);
	}
	StmtId s = drive_put(d, K_FOR, args.count, args.at);
	RegionId body = kernel_region(k, s);
	kernel_stmt(k, s)->each = each;
	kernel_stmt(k, s)->body = body;
	d->at = (Cursor){body, NONE};
	return s;
}

/* Ends the region of `s`: its results are what it yields. */
static void close_for(Driver *d, StmtId s, Cursor outer, ValueId *values) {
	KArgs args = {0};
	for (uint32_t i = 0; i < d->loop->carried.count; i++)
		vec_push(d->k->arena, &args, karg_value(values[i]));
	drive_put(d, K_YIELD, args.count, args.at);
	d->at = outer;
	for (uint32_t i = 0; i < d->loop->carried.count; i++) {
		ValueId v = kernel_result_like(d->k, s, values[i], d->k->values.at[values[i]].name);
		d->k->values.at[v].as = values[i];
		values[i] = v;
	}
}

static KArg resident_window(Driver *d, uint32_t w, IntId at) { return drive_window(d, &d->loop->windows.at[w], at); }

static const Placing resident = {resident_window, NULL, NULL};

static void unroll_steps(Driver *d, ValueId *values) {
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	const BufferId *none = drive_values(d);
	StmtId opened[RANK_MAX];
	Cursor outer[RANK_MAX];
	int64_t steps;
	for (uint32_t i = 0; i < loop->rank; i++) {
		IntId runs = loop->runs != NONE ? loop->runs : loop->dim[i].steps;
		opened[i] = NONE;
		outer[i] = d->at;
		if (loop->runs == NONE && int_is_const(k, runs, &steps) && steps == 1) { /* needs no loop */
			d->step[i] = int_const(k, 0);
			continue;
		}
		opened[i] = open_for(d, loop->dim[i].step, runs, values);
		kernel_stmt(k, opened[i])->each->unread = !drive_step_read(d, kernel_stmt(k, d->stmt)->body, i);
	}
	drive_region(d, kernel_stmt(k, d->stmt)->body, &resident, &(Flow){values, none, none, 0});
	for (uint32_t i = loop->rank; i-- > 0;)
		if (opened[i] != NONE)
			close_for(d, opened[i], outer[i], values);
}

void drive_unroll(Driver *d, ValueId *results) {
	const KLoop *loop = d->loop;
	const BufferId *none = drive_values(d);
	StmtId last = kernel_stmt(d->k, d->stmt)->prev; /* a queue that the steps need */
	for (uint32_t i = 0; i < loop->carried.count; i++) {
		ValueId carried = loop->carried.at[i];
		if (kernel_arg(d->k, d->stmt, i)->kind == KARG_NONE)
			continue;
		KArg x = drive_initial(d, i);
		results[i] = drive_let(d, x, carried);
		d->k->values.at[results[i]].as = i < drive_results(d) ? drive_result(d, i) : NONE;
	}
	if (last != NONE && kernel_stmt(d->k, last)->op == K_QUEUE)
		drive_move_initial(d, karg_value(kernel_stmt(d->k, last)->result));
	if (loop->before != NONE)
		drive_region(d, loop->before, &resident, &(Flow){results, none, none, drive_first_given(d)});
	if (!drive_no_full_steps(d))
		unroll_steps(d, results);
	if (loop->behind != NONE)
		drive_region(d, loop->behind, &resident, &(Flow){results, none, none, 0});
	drive_tail(d, results);
}
