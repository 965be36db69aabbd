/* build_loop.c - a loop: one step of it as a region, with what a driver (drive_*.c) needs to run the steps. */
#include "builder.h"

static NodeId placeholder_of(const Builder *b, const Loop *loop, uint32_t i) {
	return graph_get(b->m, loop->graph)->placeholders.at[loop->carries.at[i].arg];
}

/* ---- bounds ----------------------------------------------------------------------------------------------------- */

static IntId dim_steps(Builder *b, const LoopDim *d) {
	Affine length = affine_sub(b->a, d->end, d->begin);
	if (!d->computed)
		return int_const(b->k, d->full_steps + (d->tail != 0));
	if (affine_multiple(&length, d->step)) {
		length = affine_divide(b->a, length, d->step);
		return build_affine(b, &length);
	}
	return int_binary(b->k, INT_CDIV, build_affine(b, &length), int_const(b->k, d->step));
}

static void build_dims(Builder *b, uint32_t l, KLoop *out) {
	const Loop *loop = &b->plan->loops.at[l];
	out->rank = loop->rank;
	for (uint32_t i = 0; i < loop->rank; i++) {
		const LoopDim *d = &loop->dim[i];
		const char *name = loop->rank == 1 ? loop->step_name : arena_printf(b->a, "%s%u", loop->step_name, i);
		out->dim[i] = (KLoopDim){.computed = d->computed,
		                         .steps = dim_steps(b, d),
		                         .full_steps = d->full_steps,
		                         .tail = d->tail,
		                         .size = d->step};
		out->dim[i].step = kernel_value(b->k, KTYPE_INT, DTYPE_I32, 0, NULL, name);
		b->step[l * RANK_MAX + i] = int_value(b->k, out->dim[i].step);
	}
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

static BufferId scratch_or_none(const Builder *b, uint32_t s) { return s == NONE ? NONE : b->scratch[s]; }

/* The only block along the dim, of a pipeline whose steps are counted at run time: Mosaic does not see that there is
 * one at most, and takes no offset among rows or lanes that it does not know. */
static bool covers_all(const Loop *loop, const Operand *o, const Window *win, uint32_t d) {
	bool computed = false;
	for (uint32_t i = 0; i < loop->rank; i++)
		computed = computed || loop->dim[i].computed;
	return loop->type == LOOP_EMIT_PIPELINE && computed && d + 2 >= o->rank && win->block[d] == o->shape[d];
}

static void build_window(Builder *b, uint32_t l, uint32_t w, KLoop *out) {
	const Window *win = &b->plan->loops.at[l].windows.at[w];
	const Operand *o = &b->plan->operands.at[win->operand];
	IntId *index = arena_array(b->a, o->rank, sizeof *index), *start = arena_array(b->a, o->rank, sizeof *start);
	KBuffer parameter = {.role = BUFFER_PARAMETER,
	                     .space = KSPACE_VMEM,
	                     .dtype = o->dtype,
	                     .rank = o->rank,
	                     .shape = win->block,
	                     .name = win->ref,
	                     .alias = NONE};
	ValueId piece = NONE;
	if (win->pieces != NONE) {
		b->k->unchecked = true; /* a test of each piece takes longer than its copy */
		piece = kernel_value(b->k, KTYPE_INT, DTYPE_I32, 0, NULL, "piece");
		kernel_value_at(b->k, piece)->exact = true;
	}
	b->ahead = b->plan->loops.at[l].graph;
	for (uint32_t d = 0; d < o->rank; d++) {
		Affine at = affine_add(b->a, affine_scale(b->a, win->index[d], win->block[d]), win->start[d]);
		index[d] = build_affine(b, &win->index[d]);
		SliceDim around = {.start = at,
		                   .multiple = win->around[d],
		                   .window = win->block[d],
		                   .last = o->shape[d] - win->block[d],
		                   .copied = true};
		start[d] = d == win->pieces ? build_place(b, win->places, piece, o->shape[d])
		           : win->around[d] ? build_base(b, &around)
		                            : build_affine(b, &at);
		if (covers_all(&b->plan->loops.at[l], o, win, d))
			index[d] = int_const(b->k, 0);
		if (win->dma && o->within && o->within->first[d]) {
			IntId first = int_const(b->k, o->within->first[d]);
			index[d] = int_binary(b->k, INT_ADD, index[d],
			                      int_const(b->k, o->within->first[d] / win->block[d]));
			start[d] = int_binary(b->k, INT_ADD, start[d], first);
		}
	}
	b->ahead = NONE;
	KWindow window = {.buffer = kernel_buffer(b->k, parameter),
	                  .of = b->operand[win->operand],
	                  .input = win->input,
	                  .output = win->output,
	                  .dma = win->dma,
	                  .copy = arena_printf(b->a, "%s_copy", b->m->tensors.at[o->tensor].name),
	                  .index = index,
	                  .start = start,
	                  .multiple = win->multiple,
	                  .pieces = win->pieces,
	                  .piece = piece,
	                  .buffers = win->buffers,
	                  .scratch = NONE,
	                  .semaphore = NONE,
	                  .tail = win->tail_operand == NONE ? NONE : b->operand[win->tail_operand]};
	if (win->dma && b->plan->loops.at[l].type == LOOP_FORI) {
		window.scratch = scratch_or_none(b, win->scratch);
		window.semaphore = scratch_or_none(b, win->semaphore);
	}
	b->window[l][w] = window.buffer;
	vec_push(b->a, &out->windows, window);
}

/* ---- what is carried -------------------------------------------------------------------------------------------- */

/* What is handed from step to step as another dtype, else its own; straight code hands nothing on. Mosaic ("failed to
 * legalize scf.for") hands no tile of bools on where its lanes lie otherwise at first, and no number of fewer than 32
 * bits that is a float: they are ints, and float32. */
static Dtype handed_as(const Builder *b, const Loop *loop, uint32_t i) {
	NodeId n = placeholder_of(b, loop, i);
	Dtype dtype = node_type(b->m, n)->dtype;
	if (loop->type == LOOP_UNROLL || loop->carries.at[i].place == CARRY_SCRATCH)
		return dtype;
	if (type_rank(b, n) > 0)
		return dtype == DTYPE_BOOL ? DTYPE_I32 : dtype;
	return dtype_is_float(dtype) && dtype_bits(dtype) < 32 ? DTYPE_F32 : dtype;
}

/* It is handed on as another. */
static bool hands_other(const Builder *b, const Loop *loop, uint32_t i) {
	return handed_as(b, loop, i) != node_type(b->m, placeholder_of(b, loop, i))->dtype;
}

static KArg as_handed(Builder *b, const Loop *loop, uint32_t i, KArg x) {
	return hands_other(b, loop, i) ? build_as(b, x, handed_as(b, loop, i)) : x;
}

/* The value that was handed on. */
static KArg as_itself(Builder *b, const Loop *loop, uint32_t i, KArg x) {
	if (!hands_other(b, loop, i))
		return x;
	KArg value = build_as(b, x, node_type(b->m, placeholder_of(b, loop, i))->dtype);
	if (value.kind == KARG_VALUE && x.kind == KARG_VALUE)
		kernel_value_at(b->k, value.value)->layout = b->k->values.at[x.value].layout;
	return value;
}

static void build_carried(Builder *b, uint32_t l, KLoop *out) {
	const Loop *loop = &b->plan->loops.at[l];
	for (uint32_t i = 0; i < loop->carries.count; i++) {
		NodeId n = placeholder_of(b, loop, i);
		int64_t shape[DIM_MAX];
		uint32_t rank = type_rank(b, n) ? built_shape(b, n, b->plan->values[n].form, shape) : 0;
		ValueId v = kernel_value(b->k, rank ? KTYPE_TILE : KTYPE_SCALAR, handed_as(b, loop, i), rank, shape,
		                         node_get(b->m, n)->name);
		KValue *x = kernel_value_at(b->k, v);
		x->layout = build_layout(x, b->plan->values[n].form, type_rank(b, n) == 1);
		b->value[n] = karg_value(v);
		vec_push(b->a, &out->carried, v);
		bool scratch = loop->carries.at[i].place == CARRY_SCRATCH;
		vec_push(b->a, &out->place, scratch ? b->scratch[loop->carries.at[i].scratch] : NONE);
		vec_push(b->a, &out->odd, NONE);
	}
}

/* A loop that passes some values on fills scratch first. */
static void build_initial(Builder *b, NodeId call, const Loop *loop, KArg *initial) {
	for (int scratch = 1; scratch >= 0; scratch--)
		for (uint32_t i = 0; i < loop->carries.count; i++) {
			bool first = loop->type == LOOP_UNROLL || loop->carries.at[i].place == CARRY_SCRATCH;
			const Arg *x = arg_item(b->m, loop_args(b->m, call), loop->carries.at[i].arg);
			if (first != (bool)scratch)
				continue;
			initial[i] = build_arg(b, x, b->plan->values[placeholder_of(b, loop, i)].form);
			initial[i] = as_handed(b, loop, i, initial[i]);
		}
}

/* What stands behind `last` makes the initial values. */
static void mark_initial(Builder *b, StmtId last) {
	for (StmtId s = last == NONE ? region_first(b->k, b->at) : kernel_stmt(b->k, last)->next; s != NONE;
	     s = kernel_stmt(b->k, s)->next)
		kernel_stmt(b->k, s)->flags |= KSTMT_INITIAL;
}

static void build_step(Builder *b, uint32_t l, RegionId body, KLoop *out) {
	const Loop *loop = &b->plan->loops.at[l];
	RegionId outer = b->at;
	KArg *results = arena_array(b->a, loop->carries.count + 1, sizeof *results);
	b->at = body;
	for (uint32_t i = 0; i < out->carried.count; i++)
		b->value[placeholder_of(b, loop, i)] = as_itself(b, loop, i, karg_value(out->carried.at[i]));
	build_graph(b, loop->graph);
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		const Handed *h = &loop->handed.at[i];
		ValueId v = b->value[h->node].value;
		if (b->plan->values[h->node].seldom) /* what is made of all lanes */
			v = kernel_arg(b->k, b->k->values.at[v].def, 2)->value;
		KHanded handed = {
			.value = v, .scratch = scratch_or_none(b, h->scratch), .odd = scratch_or_none(b, h->odd)};
		vec_push(b->a, &out->handed, handed);
	}
	for (uint32_t i = 0; i < loop->carries.count; i++) {
		results[i] = build_arg(b, arg_item(b->m, graph_results(b->m, loop->graph), loop->carries.at[i].output),
		                       b->plan->values[placeholder_of(b, loop, i)].form);
		results[i] = as_handed(b, loop, i, results[i]);
	}
	build_statement(b, K_YIELD, loop->carries.count, results);
	b->at = outer;
}

/* What reads a result of the loop reads this. */
static void give_result(Builder *b, NodeId call, uint32_t output, KArg result) {
	for (ArgId u = node_uses(b->m, call); u != NONE; u = arg_get(b->m, u)->next_use) {
		NodeId n = arg_get(b->m, u)->user;
		if (node_get(b->m, n)->op == OP_GETITEM && node_arg(b->m, n, 1)->integer == (int64_t)output)
			b->value[n] = result;
	}
}

static void build_results(Builder *b, NodeId call, const Loop *loop, StmtId s) {
	KArg *results = arena_array(b->a, loop->carries.count + 1, sizeof *results);
	for (uint32_t i = 0; i < loop->carries.count; i++) { /* they stand in a row */
		ValueId carried = kernel_stmt(b->k, s)->loop->carried.at[i];
		results[i] = karg_value(kernel_result_like(b->k, s, carried, b->k->values.at[carried].name));
	}
	for (uint32_t i = 0; i < loop->carries.count; i++)
		give_result(b, call, loop->carries.at[i].output, as_itself(b, loop, i, results[i]));
}

static void add_bodies(Builder *b, const Loop *loop, KLoop *out) {
	const StepCounts *counts = &loop->dim[0].counts;
	Planner p = build_planner(b);
	for (uint32_t i = counts->kinds; i-- > 0;)
		vec_push(b->a, &out->bodies, counts->kind[i]);
	out->columns = loop->bodies->columns;
	out->rows = block_size(&p, loop->bodies->rows);
	out->live = (int)int_max(1, (int64_t)(loop->bodies->live * 100));
}

static void add_next(Builder *b, uint32_t l, KLoop *out) {
	const Loop *loop = &b->plan->loops.at[l];
	for (uint32_t i = 0; i < loop->next.count; i++) {
		const NextBlock *x = &loop->next.at[i];
		KNext next = {.of = x->window == NONE ? b->operand[x->operand] : b->window[l][x->window],
		              .by = b->operand[x->next]};
		vec_push(b->a, &out->next, next);
	}
	for (uint32_t i = 0; i < loop->kept.count; i++) {
		KHanded kept = {.value = b->value[loop->kept.at[i].node].value,
		                .scratch = b->scratch[loop->kept.at[i].scratch],
		                .odd = NONE};
		vec_push(b->a, &out->kept, kept);
	}
}

/* Of tiles where there are none: parts of buffers that its step would name need not be there. */
static bool never_runs(const Loop *loop) {
	for (uint32_t i = 0; i < loop->rank; i++)
		if (!loop->dim[i].computed && loop->dim[i].full_steps == 0 && loop->dim[i].tail == 0)
			return true;
	return false;
}

void build_loop(Builder *b, NodeId call) {
	uint32_t l = b->plan->loop_of[loop_body(b->m, call)];
	const Loop *loop = &b->plan->loops.at[l];
	const Location *from = b->from;
	uint16_t flags = b->flags;
	KLoop *out = arena_alloc(b->a, sizeof *out);
	*out = (KLoop){.type = loop->type,
	               .peel = loop->peeled,
	               .ragged = NONE,
	               .runs = NONE,
	               .before = NONE,
	               .behind = NONE,
	               .tail = NONE,
	               .skew = loop->skewed ? loop->ahead : 0,
	               .paired = loop->paired,
	               .across = loop->across,
	               .fenced = loop->fenced,
	               .lane_sums = loop->lane_sums,
	               .name = loop->name,
	               .step_name = loop->step_name};
	KArg *initial = arena_array(b->a, loop->carries.count + 1, sizeof *initial);
	StmtId last = b->k->regions.at[b->at].last;
	if (never_runs(loop)) {
		build_initial(b, call, loop, initial);
		for (uint32_t i = 0; i < loop->carries.count; i++)
			give_result(b, call, loop->carries.at[i].output, as_itself(b, loop, i, initial[i]));
		return;
	}
	build_dims(b, l, out);
	if (loop->bodies)
		add_bodies(b, loop, out);
	for (uint32_t w = 0; w < loop->windows.count; w++)
		build_window(b, l, w, out);
	add_next(b, l, out);
	build_carried(b, l, out);
	b->from = NULL;
	b->flags = 0;
	build_initial(b, call, loop, initial);
	mark_initial(b, last);
	StmtId s = build_statement(b, K_LOOP, loop->carries.count, initial);
	RegionId body = kernel_region(b->k, s);
	b->k->blocks = b->k->blocks || loop->cut;
	b->k->unmasked = b->k->unmasked || loop->unmasked;
	if (loop->flagged)
		out->ragged = b->flag = kernel_value(b->k, KTYPE_FLAG, DTYPE_BOOL, 0, NULL, "masked");
	build_step(b, l, body, out);
	KStmt *stmt = kernel_stmt(b->k, s);
	stmt->body = body;
	stmt->loop = out;
	stmt->from = from;
	stmt->flags = flags;
	build_results(b, call, loop, s);
}
