/* print_loop.c - an inner loop: a step function that computes one step from windows and carried values, the same for
 * every lowering, and the driver that calls it: straight calls, fori_loop (with or without DMA) or emit_pipeline. */
#include "printer.h"

typedef VEC(const char *) Names;

typedef struct LoopPrinter {
	Printer *pr;
	uint32_t index; /* into plan->loops */
	const Loop *loop;
	const char *step; /* the step function */
	const char *vars[RANK_MAX]; /* the variables that count each dim's steps, wherever they are counted */
} LoopPrinter;

static const Operand *window_operand(const LoopPrinter *lp, uint32_t w) {
	return &lp->pr->plan->operands.at[lp->loop->windows.at[w].operand];
}

static const char *join(Printer *pr, const Names *names) { return dims_text(pr, names->count, names->at); }

static void add(Printer *pr, Names *names, const char *name) { vec_push(pr->a, names, name); }

static NodeId carry_placeholder(const LoopPrinter *lp, uint32_t i) {
	return graph_get(lp->pr->m, lp->loop->graph)->placeholders.at[lp->loop->carries.at[i].arg];
}

/* ---- the step function ------------------------------------------------------------------------------------------ */

static void set_step(LoopPrinter *lp, uint32_t dim, const char *name, int64_t value) {
	uint32_t slot = lp->index * RANK_MAX + dim;
	lp->pr->step[slot] = name;
	lp->pr->step_value[slot] = value;
	lp->pr->step_used[slot] = false;
}

static bool step_used(const LoopPrinter *lp, uint32_t dim) { return lp->pr->step_used[lp->index * RANK_MAX + dim]; }

static void print_results(LoopPrinter *lp) {
	Printer *pr = lp->pr;
	const Arg *results = node_arg(pr->m, graph_get(pr->m, lp->loop->graph)->output, 0);
	Names values = {0};
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		Form form = pr->plan->values[carry_placeholder(lp, i)].form;
		add(pr, &values, arg_text(pr, arg_item(pr->m, results, lp->loop->carries.at[i].output), form).text);
	}
	if (values.count)
		py_line(&pr->w, "return %s", join(pr, &values));
}

/* Which dims' step numbers the body needs: known once it is printed. */
typedef struct StepParams {
	bool used[RANK_MAX];
} StepParams;

static StepParams print_step(LoopPrinter *lp) {
	Printer *pr = lp->pr;
	Names params = {0};
	StepParams steps = {0};
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		lp->vars[i] = printer_name(pr, lp->loop->rank == 1 ? lp->loop->step_name
		                                                 : arena_printf(pr->a, "%s%u", lp->loop->step_name, i));
		set_step(lp, i, lp->vars[i], 0);
	}
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		pr->window[lp->index * WINDOW_MAX + w] = printer_name(pr, lp->loop->windows.at[w].ref);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		NodeId p = carry_placeholder(lp, i);
		pr->names[p] = printer_name(pr, node_get(pr->m, p)->name);
	}
	pr->ragged[lp->index] = lp->loop->masked ? printer_name(pr, "ragged") : NULL;
	/* The body first, to know which step numbers it reads. */
	Text body, *outer = pr->w.out;
	text_init(&body, pr->a);
	pr->w.out = &body;
	pr->w.indent++;
	pr->scope++;
	print_graph(pr, lp->loop->graph);
	print_results(lp);
	pr->scope++; /* temporaries of the body are out of scope now */
	pr->w.indent--;
	pr->w.out = outer;
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		steps.used[i] = step_used(lp, i);
		if (steps.used[i])
			add(pr, &params, lp->vars[i]);
	}
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		add(pr, &params, pr->window[lp->index * WINDOW_MAX + w]);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++)
		add(pr, &params, pr->names[carry_placeholder(lp, i)]);
	if (lp->loop->masked)
		add(pr, &params, arena_printf(pr->a, "%s=False", pr->ragged[lp->index]));
	py_line(&pr->w, "def %s(%s):", lp->step, join(pr, &params));
	text_put(pr->w.out, body.at ? body.at : "");
	py_blank(&pr->w);
	return steps;
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

/* The subscript that cuts a window out of its operand: pl.ds(index * block, block) in each dim that is not whole. */
static const char *window_slice(LoopPrinter *lp, const Window *win) {
	Printer *pr = lp->pr;
	const Operand *o = &pr->plan->operands.at[win->operand];
	const char *items[DIM_MAX];
	bool whole = true;
	for (uint32_t d = 0; d < o->rank; d++) {
		int64_t extent = o->space == SPACE_HBM ? o->shape[d] : o->block[d];
		Affine start = affine_scale(win->index[d], win->block[d]);
		bool all = win->block[d] == extent;
		whole = whole && all;
		items[d] = all ? ":" : arena_printf(pr->a, "pl.ds(%s, %lld)", affine_text(pr, &start, PREC_LOWEST),
		                                    (long long)win->block[d]);
	}
	return whole ? "" : arena_printf(pr->a, ".at[%s]", dims_text(pr, o->rank, items));
}

static const char *resident_window(LoopPrinter *lp, const Window *win) {
	return arena_printf(lp->pr->a, "%s%s", lp->pr->refs[win->operand], window_slice(lp, win));
}

/* ---- calls of the step function --------------------------------------------------------------------------------- */

static void add_steps(LoopPrinter *lp, const StepParams *steps, Names *args) {
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		Affine step = affine_var(VAR_STEP, lp->index * RANK_MAX + i, 1);
		if (steps->used[i])
			add(lp->pr, args, affine_text(lp->pr, &step, PREC_LOWEST));
	}
}

static const char *step_call(LoopPrinter *lp, const Names *args) {
	return arena_printf(lp->pr->a, "%s(%s)", lp->step, join(lp->pr, args));
}

static const char *call_results(Printer *pr, const Names *results, const char *call) {
	return results->count ? arena_printf(pr->a, "%s = %s", join(pr, results), call) : call;
}

/* The ragged last step, straight after the loop: values in, values out. */
static void print_tail(LoopPrinter *lp, const StepParams *steps, const Names *values) {
	Printer *pr = lp->pr;
	if (!lp->loop->peeled)
		return;
	set_step(lp, 0, NULL, lp->loop->dim[0].full_steps);
	Names args = {0};
	add_steps(lp, steps, &args);
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		add(pr, &args, win->tail_operand != NONE ? pr->refs[win->tail_operand] : resident_window(lp, win));
	}
	for (uint32_t i = 0; i < values->count; i++)
		add(pr, &args, values->at[i]);
	if (lp->loop->masked)
		add(pr, &args, arena_printf(pr->a, "%s=True", pr->ragged[lp->index]));
	py_statement(&pr->w, call_results(pr, values, step_call(lp, &args)));
}

/* ---- bounds ----------------------------------------------------------------------------------------------------- */

static const char *dim_steps(LoopPrinter *lp, uint32_t dim) {
	Printer *pr = lp->pr;
	const LoopDim *d = &lp->loop->dim[dim];
	Affine length = affine_add(d->end, affine_scale(d->begin, -1));
	if (!d->computed)
		return arena_printf(pr->a, "%lld", (long long)(d->full_steps + (d->tail && !lp->loop->peeled)));
	if (affine_multiple(&length, d->step)) {
		length = affine_divide(length, d->step);
		return affine_text(pr, &length, PREC_LOWEST);
	}
	return arena_printf(pr->a, "pl.cdiv(%s, %lld)", affine_text(pr, &length, PREC_LOWEST), (long long)d->step);
}

/* All dims' steps as one count, for a loop with one induction variable. */
static const char *total_steps(LoopPrinter *lp) {
	if (lp->loop->rank == 1)
		return dim_steps(lp, 0);
	Text out;
	text_init(&out, lp->pr->a);
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		text_printf(&out, i ? " * %s" : "%s", dim_steps(lp, i));
	return out.at;
}

/* Static and zero: there is nothing but the ragged step to run. */
static bool no_full_steps(const LoopPrinter *lp) {
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		const LoopDim *d = &lp->loop->dim[i];
		if (!d->computed && d->full_steps == 0 && (lp->loop->peeled || d->tail == 0))
			return true;
	}
	return false;
}

/* From one induction variable to each dim's step: last dim fastest. */
static void split_steps(LoopPrinter *lp, const char *flat) {
	Printer *pr = lp->pr;
	set_step(lp, 0, lp->loop->rank == 1 ? flat : lp->vars[0], 0);
	for (uint32_t i = lp->loop->rank; lp->loop->rank > 1 && i-- > 0;) {
		const char *steps = dim_steps(lp, i), *rest = arena_printf(pr->a, "%s_rest", lp->vars[i]);
		set_step(lp, i, lp->vars[i], 0);
		if (i == 0) {
			py_line(&pr->w, "%s = %s", lp->vars[i], flat);
			continue;
		}
		py_line(&pr->w, "%s = jax.lax.rem(%s, %s)", lp->vars[i], flat, steps);
		py_line(&pr->w, "%s = jax.lax.div(%s, %s)", rest, flat, steps);
		flat = rest;
	}
}

/* ---- initial values and results --------------------------------------------------------------------------------- */

static const char *initial_value(LoopPrinter *lp, uint32_t i) {
	Printer *pr = lp->pr;
	const Arg *init = arg_item(pr->m, node_arg(pr->m, lp->loop->call, 3), lp->loop->carries.at[i].arg);
	return arg_text(pr, init, pr->plan->values[carry_placeholder(lp, i)].form).text;
}

/* Variables that hold the loop's results; each getitem of the call is one of them. */
static Names result_names(LoopPrinter *lp) {
	Printer *pr = lp->pr;
	Names names = {0};
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		const char *name = printer_name(pr, node_get(pr->m, carry_placeholder(lp, i))->name);
		add(pr, &names, name);
		for (ArgId u = node_uses(pr->m, lp->loop->call); u != NONE; u = arg_get(pr->m, u)->next_use) {
			NodeId getitem = arg_get(pr->m, u)->user;
			if (node_get(pr->m, getitem)->op == OP_GETITEM &&
			    node_arg(pr->m, getitem, 1)->integer == (int64_t)lp->loop->carries.at[i].output)
				pr->names[getitem] = name;
		}
	}
	return names;
}

/* ---- unroll ----------------------------------------------------------------------------------------------------- */

static void print_unroll(LoopPrinter *lp, const StepParams *steps, const Names *results) {
	Printer *pr = lp->pr;
	Names args = {0};
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		const char *init = initial_value(lp, i);
		py_line(&pr->w, "%s = %s", results->at[i], init);
	}
	if (!no_full_steps(lp)) {
		int indent = pr->w.indent;
		for (uint32_t i = 0; i < lp->loop->rank; i++) {
			py_line(&pr->w, "for %s in range(%s):", lp->vars[i], dim_steps(lp, i));
			set_step(lp, i, lp->vars[i], 0);
			pr->w.indent++;
		}
		add_steps(lp, steps, &args);
		for (uint32_t w = 0; w < lp->loop->windows.count; w++)
			add(pr, &args, resident_window(lp, &lp->loop->windows.at[w]));
		for (uint32_t i = 0; i < results->count; i++)
			add(pr, &args, results->at[i]);
		py_statement(&pr->w, call_results(pr, results, step_call(lp, &args)));
		pr->w.indent = indent;
	}
	print_tail(lp, steps, results);
}

/* ---- carried values in scratch ---------------------------------------------------------------------------------- */

static const char *carry_ref(LoopPrinter *lp, uint32_t i) {
	const Carry *c = &lp->loop->carries.at[i];
	return c->place == CARRY_SCRATCH ? arena_printf(lp->pr->a, "%s[...]", lp->pr->scratch[c->scratch]) : NULL;
}

static void print_scratch_init(LoopPrinter *lp) {
	for (uint32_t i = 0; i < lp->loop->carries.count; i++)
		if (carry_ref(lp, i)) {
			const char *init = initial_value(lp, i);
			py_line(&lp->pr->w, "%s = %s", carry_ref(lp, i), init);
		}
}

static void print_scratch_results(LoopPrinter *lp, const Names *results) {
	for (uint32_t i = 0; i < lp->loop->carries.count; i++)
		if (carry_ref(lp, i))
			py_line(&lp->pr->w, "%s = %s", results->at[i], carry_ref(lp, i));
}

/* ---- fori_loop -------------------------------------------------------------------------------------------------- */

static const char *slot_of(Printer *pr, const char *step, int buffers) {
	return buffers == 1 ? "0" : arena_printf(pr->a, "jax.lax.rem(%s, %d)", step, buffers);
}

/* The function that makes the copy of one step's window; returns its name. */
static const char *print_copy(LoopPrinter *lp, uint32_t w) {
	Printer *pr = lp->pr;
	const Window *win = &lp->loop->windows.at[w];
	const Operand *o = window_operand(lp, w);
	const char *buffer = pr->scratch[win->scratch], *semaphore = pr->scratch[win->semaphore];
	const char *name = printer_name(pr, arena_printf(pr->a, "%s_copy", pr->m->tensors.at[o->tensor].name));
	const char *step = "i";
	py_def(&pr->w);
	py_line(&pr->w, "def %s(%s):", name, step);
	pr->w.indent++;
	split_steps(lp, step);
	const char *slot = "0";
	if (win->buffers > 1) {
		slot = "slot";
		py_line(&pr->w, "%s = %s", slot, slot_of(pr, step, win->buffers));
	}
	const char *hbm = arena_printf(pr->a, "%s%s", pr->refs[win->operand], window_slice(lp, win));
	const char *vmem = arena_printf(pr->a, "%s.at[%s]", buffer, slot);
	py_line(&pr->w, "return pltpu.make_async_copy(%s, %s, %s.at[%s])", win->output ? vmem : hbm,
	        win->output ? hbm : vmem, semaphore, slot);
	pr->w.indent--;
	py_blank(&pr->w);
	return name;
}

static bool static_steps(const LoopPrinter *lp, int64_t *steps) {
	*steps = 1;
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		if (lp->loop->dim[i].computed)
			return false;
		*steps *= lp->loop->dim[i].full_steps + (lp->loop->dim[i].tail && !lp->loop->peeled);
	}
	return true;
}

static bool input_copied(const Window *w) { return w->dma && w->input; }

/* `@pl.when(condition)` around starting the copies of inputs that are `ahead` steps ahead. */
static void print_starts(LoopPrinter *lp, const Names *copies, int ahead, const char *step, const char *condition) {
	Printer *pr = lp->pr;
	if (condition) {
		py_def(&pr->w);
		py_line(&pr->w, "@pl.when(%s)", condition);
		py_line(&pr->w, "def %s():", printer_name(pr, "prefetch"));
		pr->w.indent++;
	}
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		bool here = step ? win->buffers - 1 == ahead : win->buffers - 1 > ahead;
		if (!input_copied(win) || !here)
			continue;
		if (step)
			py_line(&pr->w, "%s(%s + %d).start()", copies->at[w], step, ahead);
		else
			py_line(&pr->w, "%s(%d).start()", copies->at[w], ahead);
	}
	if (condition) {
		pr->w.indent--;
		py_blank(&pr->w);
	}
}

static int most_buffers(const LoopPrinter *lp) {
	int most = 0;
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (input_copied(&lp->loop->windows.at[w]) && lp->loop->windows.at[w].buffers > most)
			most = lp->loop->windows.at[w].buffers;
	return most;
}

static bool any_buffers(const LoopPrinter *lp, int buffers) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (input_copied(&lp->loop->windows.at[w]) && lp->loop->windows.at[w].buffers == buffers)
			return true;
	return false;
}

/* The first copies: as many steps ahead as there are spare buffers. */
static void print_prologue(LoopPrinter *lp, const Names *copies) {
	int64_t steps;
	bool known = static_steps(lp, &steps);
	for (int ahead = 0; ahead + 1 < most_buffers(lp); ahead++)
		if (!known)
			print_starts(lp, copies, ahead, NULL, arena_printf(lp->pr->a, "%d < %s", ahead, total_steps(lp)));
		else if (ahead < steps)
			print_starts(lp, copies, ahead, NULL, NULL);
}

static void print_waits(LoopPrinter *lp, const Names *copies, const char *step) {
	Printer *pr = lp->pr;
	for (int ahead = 1; ahead < most_buffers(lp); ahead++)
		if (any_buffers(lp, ahead + 1))
			print_starts(lp, copies, ahead, step,
			             arena_printf(pr->a, "%s + %d < %s", step, ahead, total_steps(lp)));
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		if (!input_copied(&lp->loop->windows.at[w]))
			continue;
		if (lp->loop->windows.at[w].buffers == 1)
			py_line(&pr->w, "%s(%s).start()", copies->at[w], step);
		py_line(&pr->w, "%s(%s).wait()", copies->at[w], step);
	}
}

/* A buffer is free for the next result once its copy of `buffers` steps ago has arrived. */
static void print_reuse(LoopPrinter *lp, const Names *copies, const char *step) {
	Printer *pr = lp->pr;
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		if (!win->dma || !win->output)
			continue;
		py_def(&pr->w);
		py_line(&pr->w, "@pl.when(%s >= %d)", step, win->buffers);
		py_line(&pr->w, "def %s():", printer_name(pr, "reuse"));
		pr->w.indent++;
		py_line(&pr->w, "%s(%s - %d).wait()", copies->at[w], step, win->buffers);
		pr->w.indent--;
		py_blank(&pr->w);
	}
}

static void print_output_starts(LoopPrinter *lp, const Names *copies, const char *step) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (lp->loop->windows.at[w].dma && lp->loop->windows.at[w].output)
			py_line(&lp->pr->w, "%s(%s).start()", copies->at[w], step);
}

/* After the loop: the last results are still on their way. */
static void print_drain(LoopPrinter *lp, const Names *copies) {
	Printer *pr = lp->pr;
	int64_t steps;
	bool known = static_steps(lp, &steps);
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		if (!win->dma || !win->output)
			continue;
		if (known) {
			const char *i = "i";
			py_line(&pr->w, "for %s in range(%lld, %lld):", i, (long long)int_max(steps - win->buffers, 0), (long long)steps);
			pr->w.indent++;
			py_line(&pr->w, "%s(%s).wait()", copies->at[w], i);
			pr->w.indent--;
			continue;
		}
		for (int back = win->buffers; back >= 1; back--) {
			py_def(&pr->w);
		py_line(&pr->w, "@pl.when(%s >= %d)", total_steps(lp), back);
			py_line(&pr->w, "def %s():", printer_name(pr, "drain"));
			pr->w.indent++;
			py_line(&pr->w, "%s(%s - %d).wait()", copies->at[w], total_steps(lp), back);
			pr->w.indent--;
			py_blank(&pr->w);
		}
	}
}

static void fori_windows(LoopPrinter *lp, const char *step, Names *args) {
	Printer *pr = lp->pr;
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		if (win->dma)
			add(pr, args, arena_printf(pr->a, "%s.at[%s]", pr->scratch[win->scratch], slot_of(pr, step, win->buffers)));
		else
			add(pr, args, resident_window(lp, win));
	}
}

/* The loop body: copies, the step, and what it passes on. `carry` names the register carries' variable. */
static const char *print_fori_body(LoopPrinter *lp, const StepParams *steps, const Names *copies, const Names *registers) {
	Printer *pr = lp->pr;
	Names args = {0}, targets = {0}, next = {0};
	const char *name = printer_name(pr, "body");
	const char *step = lp->loop->rank == 1 ? lp->vars[0] : lp->loop->step_name;
	const char *carry = registers->count == 1 ? registers->at[0] : "carry";
	py_def(&pr->w);
	py_line(&pr->w, "def %s(%s, %s):", name, step, carry);
	pr->w.indent++;
	print_waits(lp, copies, step);
	print_reuse(lp, copies, step);
	split_steps(lp, step);
	if (registers->count > 1)
		py_line(&pr->w, "%s = carry", join(pr, registers));
	add_steps(lp, steps, &args);
	fori_windows(lp, step, &args);
	uint32_t r = 0;
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		const char *ref = carry_ref(lp, i);
		const char *value = ref ? ref : registers->at[r++];
		add(pr, &args, value);
		add(pr, &targets, value);
		if (!ref)
			add(pr, &next, value);
	}
	py_statement(&pr->w, call_results(pr, &targets, step_call(lp, &args)));
	print_output_starts(lp, copies, step);
	py_line(&pr->w, "return %s", next.count ? join(pr, &next) : "carry");
	pr->w.indent--;
	py_blank(&pr->w);
	return name;
}

static void print_fori(LoopPrinter *lp, const StepParams *steps, const Names *results) {
	Printer *pr = lp->pr;
	Names copies = {0}, registers = {0}, initial = {0}, held = {0};
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		add(pr, &copies, lp->loop->windows.at[w].dma && !no_full_steps(lp) ? print_copy(lp, w) : NULL);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		if (carry_ref(lp, i))
			continue;
		add(pr, &registers, pr->names[carry_placeholder(lp, i)]);
		add(pr, &held, results->at[i]);
	}
	const char *body = no_full_steps(lp) ? NULL : print_fori_body(lp, steps, &copies, &registers);
	print_scratch_init(lp);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++)
		if (!carry_ref(lp, i))
			add(pr, &initial, initial_value(lp, i));
	if (!body) {
		for (uint32_t i = 0; i < held.count; i++)
			py_line(&pr->w, "%s = %s", held.at[i], initial.at[i]);
	} else {
		print_prologue(lp, &copies);
		const char *init = initial.count == 0   ? "None"
		                   : initial.count == 1 ? initial.at[0]
		                                        : arena_printf(pr->a, "(%s)", join(pr, &initial));
		py_statement(&pr->w, call_results(pr, &held, arena_printf(pr->a, "jax.lax.fori_loop(0, %s, %s, %s)",
		                                                          total_steps(lp), body, init)));
		print_drain(lp, &copies);
	}
	print_scratch_results(lp, results);
	print_tail(lp, steps, results);
}

/* ---- emit_pipeline ---------------------------------------------------------------------------------------------- */

/* A window of an emit_pipeline: `pl.BlockSpec(block, lambda j: index)`. */
static const char *pipeline_spec(LoopPrinter *lp, const Window *win, uint32_t rank) {
	Printer *pr = lp->pr;
	const char *items[DIM_MAX];
	for (uint32_t d = 0; d < rank; d++)
		items[d] = affine_text(pr, &win->index[d], PREC_LOWEST);
	const char *index = rank == 1 ? arena_printf(pr->a, "(%s,)", items[0])
	                              : arena_printf(pr->a, "(%s)", dims_text(pr, rank, items));
	Names vars = {0};
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		add(pr, &vars, pr->step[lp->index * RANK_MAX + i]);
	const char *mode = win->buffers == 2 ? "" : arena_printf(pr->a, ", pipeline_mode=pl.Buffered(%d)", win->buffers);
	return arena_printf(pr->a, "pl.BlockSpec(%s, lambda %s: %s%s)", shape_text(pr, rank, win->block), join(pr, &vars),
	                    index, mode);
}

static void print_pipeline_body(LoopPrinter *lp, const StepParams *steps, const char *name) {
	Printer *pr = lp->pr;
	Names params = {0}, args = {0}, carried = {0};
	const char **inner = arena_array(pr->a, lp->loop->windows.count + 1, sizeof *inner);
	for (int output = 0; output < 2; output++)
		for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
			const Window *win = &lp->loop->windows.at[w];
			if (!win->dma || win->output != (bool)output)
				continue;
			inner[w] = pr->window[lp->index * WINDOW_MAX + w];
			add(pr, &params, inner[w]);
		}
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		set_step(lp, i, arena_printf(pr->a, "pl.program_id(%u)", i), 0);
	py_def(&pr->w);
	py_line(&pr->w, "def %s(%s):", name, join(pr, &params));
	pr->w.indent++;
	add_steps(lp, steps, &args);
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		add(pr, &args, inner[w] ? inner[w] : resident_window(lp, &lp->loop->windows.at[w]));
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		add(pr, &args, carry_ref(lp, i));
		add(pr, &carried, carry_ref(lp, i));
	}
	py_statement(&pr->w, call_results(pr, &carried, step_call(lp, &args)));
	pr->w.indent--;
	py_blank(&pr->w);
}

static void print_pipeline_call(LoopPrinter *lp, const char *body) {
	Printer *pr = lp->pr;
	Names in_specs = {0}, out_specs = {0}, refs = {0}, grid = {0};
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		set_step(lp, i, lp->vars[i], 0);
		add(pr, &grid, dim_steps(lp, i));
	}
	for (int output = 0; output < 2; output++)
		for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
			const Window *win = &lp->loop->windows.at[w];
			if (!win->dma || win->output != (bool)output)
				continue;
			add(pr, output ? &out_specs : &in_specs, pipeline_spec(lp, win, window_operand(lp, w)->rank));
			add(pr, &refs, pr->refs[win->operand]);
		}
	const char *pipeline = printer_name(pr, "pipeline");
	const char *ins = in_specs.count ? arena_printf(pr->a, "in_specs=[%s,],", join(pr, &in_specs)) : "";
	const char *outs = out_specs.count ? arena_printf(pr->a, "out_specs=[%s,],", join(pr, &out_specs)) : "";
	py_line(&pr->w, "%s = pltpu.emit_pipeline(%s, grid=(%s%s), %s%s%s)", pipeline, body, join(pr, &grid),
	        grid.count == 1 ? "," : "", ins, *ins && *outs ? " " : "", outs);
	py_line(&pr->w, "%s(%s)", pipeline, join(pr, &refs));
}

static void print_pipeline(LoopPrinter *lp, const StepParams *steps, const Names *results) {
	print_scratch_init(lp);
	if (!no_full_steps(lp)) {
		const char *body = printer_name(lp->pr, "body");
		print_pipeline_body(lp, steps, body);
		print_pipeline_call(lp, body);
	}
	print_scratch_results(lp, results);
	print_tail(lp, steps, results);
}

void print_loop(Printer *pr, NodeId call) {
	LoopPrinter lp = {.pr = pr, .index = pr->plan->loop_of[node_arg(pr->m, call, 0)->graph]};
	lp.loop = &pr->plan->loops.at[lp.index];
	lp.step = printer_name(pr, lp.loop->name);
	py_def(&pr->w);
	printer_comment(pr, call);
	StepParams steps = print_step(&lp);
	Names results = result_names(&lp);
	switch (lp.loop->type) {
	case LOOP_UNROLL: print_unroll(&lp, &steps, &results); break;
	case LOOP_FORI: print_fori(&lp, &steps, &results); break;
	default: print_pipeline(&lp, &steps, &results); break;
	}
}
