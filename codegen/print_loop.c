/* print_loop.c - an inner loop: a step function that computes one step from windows and carried values, the same for
 * every lowering, and the driver that calls it: straight calls here, fori_loop and emit_pipeline in files of their own.
 */
#include "loop_printer.h"

const Operand *window_operand(const LoopPrinter *lp, uint32_t w) {
	return &lp->pr->plan->operands.at[lp->loop->windows.at[w].operand];
}

const char *names_join(Printer *pr, const Names *names) { return dims_text(pr, names->count, names->at); }

void names_add(Printer *pr, Names *names, const char *name) { vec_push(pr->a, names, name); }

NodeId carry_placeholder(const LoopPrinter *lp, uint32_t i) {
	return graph_get(lp->pr->m, lp->loop->graph)->placeholders.at[lp->loop->carries.at[i].arg];
}

/* ---- the step function ------------------------------------------------------------------------------------------ */

void set_step(LoopPrinter *lp, uint32_t dim, const char *name, int64_t value) {
	uint32_t slot = lp->index * RANK_MAX + dim;
	lp->pr->step[slot] = name;
	lp->pr->step_value[slot] = value;
	lp->pr->step_used[slot] = false;
}

bool step_used(const LoopPrinter *lp, uint32_t dim) { return lp->pr->step_used[lp->index * RANK_MAX + dim]; }

/* What the rest of the step reads of what was computed one step ahead. */
void add_handed(LoopPrinter *lp, Names *names) {
	for (uint32_t i = 0; i < lp->loop->handed.count; i++)
		names_add(lp->pr, names, lp->pr->names[lp->loop->handed.at[i].node]);
}

static void print_results(LoopPrinter *lp, Part part) {
	Printer *pr = lp->pr;
	const Arg *results = graph_results(pr->m, lp->loop->graph);
	Names values = {0};
	if (part == PART_AHEAD)
		add_handed(lp, &values);
	for (uint32_t i = 0; part == PART_STEP && i < lp->loop->carries.count; i++) {
		Form form = pr->plan->values[carry_placeholder(lp, i)].form;
		names_add(pr, &values,
		          arg_text(pr, arg_item(pr->m, results, lp->loop->carries.at[i].output), form).text);
	}
	if (values.count)
		py_line(&pr->w, "return %s", names_join(pr, &values));
}

bool part_reads(const LoopPrinter *lp, Part part, uint32_t w) {
	const Window *win = &lp->loop->windows.at[w];
	return !lp->loop->skewed || (part == PART_AHEAD ? win->ahead : win->behind);
}

/* Some of the part's values have masks in the ragged step alone. */
static bool part_masked(const LoopPrinter *lp, Part part) {
	const Printer *pr = lp->pr;
	if (!lp->loop->skewed || !lp->loop->masked)
		return lp->loop->masked;
	for (NodeId n = graph_first(pr->m, lp->loop->graph); n != NONE; n = node_get(pr->m, n)->next) {
		const Value *v = &pr->plan->values[n];
		if (v->ahead == (part == PART_AHEAD) && v->mask_count > 0)
			return true;
	}
	return false;
}

/* The body first, to know which step numbers it reads. */
static Text print_part_body(LoopPrinter *lp, Part part) {
	Printer *pr = lp->pr;
	Text body, *outer = pr->w.out;
	text_init(&body, pr->a);
	pr->w.out = &body;
	pr->w.indent++;
	pr->scope++;
	if (lp->loop->skewed)
		print_graph_part(pr, lp->loop->graph, part == PART_AHEAD);
	else
		print_graph(pr, lp->loop->graph);
	print_results(lp, part);
	pr->scope++; /* temporaries of the body are out of scope now */
	pr->w.indent--;
	pr->w.out = outer;
	return body;
}

static void print_part(LoopPrinter *lp, Part part) {
	Printer *pr = lp->pr;
	Names params = {0};
	StepFunction *f = &lp->part[part];
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		set_step(lp, i, lp->vars[i], 0);
	Text body = print_part_body(lp, part);
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		f->used[i] = step_used(lp, i);
		if (f->used[i])
			names_add(pr, &params, lp->vars[i]);
	}
	if (part == PART_STEP)
		add_handed(lp, &params);
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (part_reads(lp, part, w))
			names_add(pr, &params, pr->window[lp->index][w]);
	for (uint32_t i = 0; part == PART_STEP && i < lp->loop->carries.count; i++)
		names_add(pr, &params, pr->names[carry_placeholder(lp, i)]);
	f->masked = part_masked(lp, part);
	if (f->masked)
		names_add(pr, &params, arena_printf(pr->a, "%s=False", pr->ragged[lp->index]));
	py_line(&pr->w, "def %s(%s):", f->name, names_join(pr, &params));
	text_put(pr->w.out, body.at ? body.at : "");
	py_blank(&pr->w);
}

static void print_step(LoopPrinter *lp) {
	Printer *pr = lp->pr;
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		lp->vars[i] =
			printer_name(pr, lp->loop->rank == 1 ? lp->loop->step_name
		                                             : arena_printf(pr->a, "%s%u", lp->loop->step_name, i));
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		pr->window[lp->index][w] = printer_name(pr, lp->loop->windows.at[w].ref);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		NodeId p = carry_placeholder(lp, i);
		pr->names[p] = printer_name(pr, node_get(pr->m, p)->name);
	}
	pr->ragged[lp->index] = lp->loop->masked ? printer_name(pr, "ragged") : NULL;
	if (lp->loop->skewed)
		print_part(lp, PART_AHEAD);
	if (lp->loop->skewed)
		py_def(&pr->w);
	print_part(lp, PART_STEP);
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

/* The subscript that cuts a window out of its operand: pl.ds(start, block) in each dim that is not whole. */
const char *window_slice(LoopPrinter *lp, const Window *win) {
	Printer *pr = lp->pr;
	const Operand *o = &pr->plan->operands.at[win->operand];
	const char *items[DIM_MAX];
	bool whole = true;
	for (uint32_t d = 0; d < o->rank; d++) {
		int64_t extent = o->space == SPACE_HBM ? o->shape[d] : o->block[d];
		Affine start =
			affine_add(lp->pr->a, affine_scale(lp->pr->a, win->index[d], win->block[d]), win->start[d]);
		bool all = win->block[d] == extent;
		whole = whole && all;
		items[d] = all ? ":"
		               : arena_printf(pr->a, "pl.ds(%s, %lld)", start_text(pr, &start, win->multiple[d]),
		                              (long long)win->block[d]);
	}
	return whole ? "" : arena_printf(pr->a, ".at[%s]", dims_text(pr, o->rank, items));
}

const char *resident_window(LoopPrinter *lp, const Window *win) {
	return arena_printf(lp->pr->a, "%s%s", lp->pr->refs[win->operand], window_slice(lp, win));
}

/* ---- calls of the step function --------------------------------------------------------------------------------- */

void add_steps(LoopPrinter *lp, Part part, Names *args) {
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		Affine step = affine_var(lp->pr->a, VAR_STEP, lp->index * RANK_MAX + i, 1);
		if (lp->part[part].used[i])
			names_add(lp->pr, args, affine_text(lp->pr, &step, PREC_LOWEST));
	}
}

const char *step_call(LoopPrinter *lp, Part part, const Names *args) {
	return arena_printf(lp->pr->a, "%s(%s)", lp->part[part].name, names_join(lp->pr, args));
}

const char *call_results(Printer *pr, const Names *results, const char *call) {
	return results->count ? arena_printf(pr->a, "%s = %s", names_join(pr, results), call) : call;
}

static void add_tail_windows(LoopPrinter *lp, Part part, Names *args) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		if (part_reads(lp, part, w))
			names_add(lp->pr, args,
			          win->tail_operand != NONE ? lp->pr->refs[win->tail_operand]
			                                    : resident_window(lp, win));
	}
}

static void add_ragged(LoopPrinter *lp, Part part, Names *args) {
	if (lp->part[part].masked)
		names_add(lp->pr, args, arena_printf(lp->pr->a, "%s=True", lp->pr->ragged[lp->index]));
}

/* The ragged last step, straight after the loop: values in, values out. */
void print_tail(LoopPrinter *lp, const Names *values) {
	Printer *pr = lp->pr;
	if (!lp->loop->peeled)
		return;
	set_step(lp, 0, NULL, lp->loop->dim[0].full_steps);
	Names ahead = {0}, handed = {0}, args = {0};
	if (lp->loop->skewed) {
		add_steps(lp, PART_AHEAD, &ahead);
		add_tail_windows(lp, PART_AHEAD, &ahead);
		add_ragged(lp, PART_AHEAD, &ahead);
		add_handed(lp, &handed);
		py_statement(&pr->w, call_results(pr, &handed, step_call(lp, PART_AHEAD, &ahead)));
	}
	add_steps(lp, PART_STEP, &args);
	add_handed(lp, &args);
	add_tail_windows(lp, PART_STEP, &args);
	for (uint32_t i = 0; i < values->count; i++)
		names_add(pr, &args, values->at[i]);
	add_ragged(lp, PART_STEP, &args);
	py_statement(&pr->w, call_results(pr, values, step_call(lp, PART_STEP, &args)));
}

/* ---- bounds ----------------------------------------------------------------------------------------------------- */

const char *dim_steps(LoopPrinter *lp, uint32_t dim) {
	Printer *pr = lp->pr;
	const LoopDim *d = &lp->loop->dim[dim];
	Affine length = affine_sub(lp->pr->a, d->end, d->begin);
	if (!d->computed) {
		int64_t steps = d->full_steps + (d->tail && !lp->loop->peeled);
		return arena_printf(pr->a, "%lld", (long long)steps);
	}
	if (affine_multiple(&length, d->step)) {
		length = affine_divide(lp->pr->a, length, d->step);
		return affine_text(pr, &length, PREC_LOWEST);
	}
	return arena_printf(pr->a, "pl.cdiv(%s, %lld)", affine_text(pr, &length, PREC_LOWEST), (long long)d->step);
}

/* All dims' steps as one count, for a loop with one induction variable. */
const char *total_steps(LoopPrinter *lp) {
	if (lp->loop->rank == 1)
		return dim_steps(lp, 0);
	Text out;
	text_init(&out, lp->pr->a);
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		text_printf(&out, i ? " * %s" : "%s", dim_steps(lp, i));
	return out.at;
}

/* Static and zero: there is nothing but the ragged step to run. */
bool no_full_steps(const LoopPrinter *lp) {
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		const LoopDim *d = &lp->loop->dim[i];
		if (!d->computed && d->full_steps == 0 && (lp->loop->peeled || d->tail == 0))
			return true;
	}
	return false;
}

void set_flat_step(LoopPrinter *lp, const char *flat) {
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		set_step(lp, i, lp->loop->rank == 1 ? flat : lp->vars[i], 0);
}

void print_split_step(LoopPrinter *lp, const char *flat) {
	Printer *pr = lp->pr;
	uint32_t first = 0;
	while (first < lp->loop->rank && !step_used(lp, first))
		first++;
	for (uint32_t i = lp->loop->rank; lp->loop->rank > 1 && i-- > first;) {
		const char *steps = dim_steps(lp, i), *rest = arena_printf(pr->a, "%s_rest", lp->vars[i]);
		if (i == 0)
			py_line(&pr->w, "%s = %s", lp->vars[i], flat);
		else if (step_used(lp, i))
			py_line(&pr->w, "%s = jax.lax.rem(%s, %s)", lp->vars[i], flat, steps);
		if (i > first)
			py_line(&pr->w, "%s = jax.lax.div(%s, %s)", rest, flat, steps);
		flat = rest;
	}
}

/* ---- initial values and results --------------------------------------------------------------------------------- */

const char *initial_value(LoopPrinter *lp, uint32_t i) {
	Printer *pr = lp->pr;
	const Arg *init = arg_item(pr->m, node_arg(pr->m, lp->loop->call, 3), lp->loop->carries.at[i].arg);
	return arg_text(pr, init, pr->plan->values[carry_placeholder(lp, i)].form).text;
}

static const char *const UNREAD = "_";

/* Variables that hold the loop's results; each getitem of the call is one of them. UNREAD: nothing reads it, neither
 * the graph nor steps that run after the loop. */
static Names result_names(LoopPrinter *lp) {
	Printer *pr = lp->pr;
	Names names = {0};
	bool steps_follow = lp->loop->type == LOOP_UNROLL || lp->loop->peeled || lp->loop->skewed;
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		const char *name = printer_name(pr, node_get(pr->m, carry_placeholder(lp, i))->name);
		bool read = steps_follow;
		for (ArgId u = node_uses(pr->m, lp->loop->call); u != NONE; u = arg_get(pr->m, u)->next_use) {
			NodeId getitem = arg_get(pr->m, u)->user;
			if (node_get(pr->m, getitem)->op == OP_GETITEM &&
			    node_arg(pr->m, getitem, 1)->integer == (int64_t)lp->loop->carries.at[i].output) {
				pr->names[getitem] = name;
				read = true;
			}
		}
		names_add(pr, &names, read ? name : UNREAD);
	}
	return names;
}

/* ---- carried values in scratch ---------------------------------------------------------------------------------- */

const char *carry_ref(LoopPrinter *lp, uint32_t i) {
	const Carry *c = &lp->loop->carries.at[i];
	return c->place == CARRY_SCRATCH ? arena_printf(lp->pr->a, "%s[...]", lp->pr->scratch[c->scratch]) : NULL;
}

/* `ref[...]` of what a skewed loop hands from step to step. */
void add_handed_refs(LoopPrinter *lp, Names *names) {
	for (uint32_t i = 0; i < lp->loop->handed.count; i++)
		names_add(lp->pr, names,
		          arena_printf(lp->pr->a, "%s[...]", lp->pr->scratch[lp->loop->handed.at[i].scratch]));
}

void print_scratch_init(LoopPrinter *lp) {
	for (uint32_t i = 0; i < lp->loop->carries.count; i++)
		if (carry_ref(lp, i)) {
			const char *init = initial_value(lp, i);
			py_line(&lp->pr->w, "%s = %s", carry_ref(lp, i), init);
		}
}

void print_scratch_results(LoopPrinter *lp, const Names *results) {
	for (uint32_t i = 0; i < lp->loop->carries.count; i++)
		if (carry_ref(lp, i) && results->at[i] != UNREAD)
			py_line(&lp->pr->w, "%s = %s", results->at[i], carry_ref(lp, i));
}

/* ---- unroll ----------------------------------------------------------------------------------------------------- */

static void add_resident_windows(LoopPrinter *lp, Part part, Names *args) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (part_reads(lp, part, w))
			names_add(lp->pr, args, resident_window(lp, &lp->loop->windows.at[w]));
}

/* What is computed ahead of its step, under the variable `ahead`. */
static void print_ahead_call(LoopPrinter *lp, const char *ahead, const Names *handed) {
	Names args = {0};
	set_step(lp, 0, ahead, 0);
	add_steps(lp, PART_AHEAD, &args);
	add_resident_windows(lp, PART_AHEAD, &args);
	py_statement(&lp->pr->w, call_results(lp->pr, handed, step_call(lp, PART_AHEAD, &args)));
}

/* The rest of a step. */
static void print_rest_call(LoopPrinter *lp, const Names *handed, const Names *results) {
	Names args = {0};
	set_step(lp, 0, lp->vars[0], 0);
	add_steps(lp, PART_STEP, &args);
	for (uint32_t i = 0; i < handed->count; i++)
		names_add(lp->pr, &args, handed->at[i]);
	add_resident_windows(lp, PART_STEP, &args);
	for (uint32_t i = 0; i < results->count; i++)
		names_add(lp->pr, &args, results->at[i]);
	py_statement(&lp->pr->w, call_results(lp->pr, results, step_call(lp, PART_STEP, &args)));
}

/* Parts of steps that stand ahead of the rest: what they give waits in a list. */
static void print_unroll_ahead(LoopPrinter *lp, const Names *results) {
	Printer *pr = lp->pr;
	const LoopDim *d = &lp->loop->dim[0];
	long long steps = d->full_steps + (d->tail && !lp->loop->peeled);
	const char *waiting = printer_name(pr, "waiting"), *ahead = printer_name(pr, "ahead");
	Names handed = {0};
	for (uint32_t i = 0; i < lp->loop->handed.count; i++)
		names_add(pr, &handed, printer_name(pr, pr->names[lp->loop->handed.at[i].node]));
	const char *one = names_join(pr, &handed);
	py_line(&pr->w, "%s = []", waiting);
	py_line(&pr->w, "for %s in range(%lld):", ahead, steps + lp->loop->ahead);
	pr->w.indent++;
	py_line(&pr->w, "if %s < %lld:", ahead, steps);
	pr->w.indent++;
	print_ahead_call(lp, ahead, &handed);
	py_line(&pr->w, handed.count == 1 ? "%s.append(%s)" : "%s.append((%s))", waiting, one);
	pr->w.indent--;
	py_line(&pr->w, "%s = %s - %d", lp->vars[0], ahead, lp->loop->ahead);
	py_line(&pr->w, "if %s >= 0:", lp->vars[0]);
	pr->w.indent++;
	py_line(&pr->w, "%s = %s.pop(0)", one, waiting);
	print_rest_call(lp, &handed, results);
	pr->w.indent -= 2;
}

static void print_unroll_steps(LoopPrinter *lp, const Names *results) {
	Printer *pr = lp->pr;
	Names args = {0};
	/* The call first, to know which step numbers it reads; one step needs no loop. */
	bool once[RANK_MAX] = {false};
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		once[i] = strcmp(dim_steps(lp, i), "1") == 0;
		set_step(lp, i, once[i] ? NULL : lp->vars[i], 0);
	}
	add_steps(lp, PART_STEP, &args);
	add_resident_windows(lp, PART_STEP, &args);
	for (uint32_t i = 0; i < results->count; i++)
		names_add(pr, &args, results->at[i]);
	const char *call = call_results(pr, results, step_call(lp, PART_STEP, &args));
	int indent = pr->w.indent;
	for (uint32_t i = 0; i < lp->loop->rank; i++) {
		if (once[i])
			continue;
		py_line(&pr->w, "for %s in range(%s):", step_used(lp, i) ? lp->vars[i] : "_", dim_steps(lp, i));
		pr->w.indent++;
	}
	py_statement(&pr->w, call);
	pr->w.indent = indent;
}

static void print_unroll(LoopPrinter *lp, const Names *results) {
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		const char *init = initial_value(lp, i);
		py_line(&lp->pr->w, "%s = %s", results->at[i], init);
	}
	if (lp->loop->skewed)
		print_unroll_ahead(lp, results);
	else if (!no_full_steps(lp))
		print_unroll_steps(lp, results);
	print_tail(lp, results);
}

void print_loop(Printer *pr, NodeId call) {
	LoopPrinter lp = {.pr = pr, .index = pr->plan->loop_of[node_arg(pr->m, call, 0)->graph]};
	lp.loop = &pr->plan->loops.at[lp.index];
	if (lp.loop->skewed)
		lp.part[PART_AHEAD].name = printer_name(pr, arena_printf(pr->a, "%s_ahead", lp.loop->name));
	lp.part[PART_STEP].name = printer_name(pr, lp.loop->name);
	py_def(&pr->w);
	printer_comment(pr, call);
	print_step(&lp);
	Names results = result_names(&lp);
	switch (lp.loop->type) {
	case LOOP_UNROLL: print_unroll(&lp, &results); break;
	case LOOP_FORI: print_fori(&lp, &results); break;
	default: print_pipeline(&lp, &results); break;
	}
}
