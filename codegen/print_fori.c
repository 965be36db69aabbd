/* print_fori.c - drives a loop by jax.lax.fori_loop: copies of its windows started ahead into spare buffers, waited for
 * where they are read; without DMA, slices of resident blocks. */
#include "loop_printer.h"

/* The buffer of a step, by its variable or, without one, its number. */
static const char *slot_of(Printer *pr, const char *step, int64_t number, int buffers) {
	if (!step)
		return arena_printf(pr->a, "%lld", (long long)(number % buffers));
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
	set_flat_step(lp, step);
	const char *hbm = arena_printf(pr->a, "%s%s", pr->refs[win->operand], window_slice(lp, win));
	print_split_step(lp, step);
	const char *slot = "0";
	if (win->buffers > 1) {
		slot = "slot";
		py_line(&pr->w, "%s = %s", slot, slot_of(pr, step, 0, win->buffers));
	}
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

static bool input_copied_for(const LoopPrinter *lp, Part part, uint32_t w) {
	return input_copied(&lp->loop->windows.at[w]) && part_reads(lp, part, w);
}

/* `@pl.when(condition)` around starting the copies of inputs that are `ahead` steps ahead: of those that `part` reads
 * where there is a step, else of all. */
static void print_starts(LoopPrinter *lp, const char *const *copies, int ahead, Part part, const char *step,
                         const char *condition) {
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
		if (!input_copied(win) || !here || (step && !part_reads(lp, part, w)))
			continue;
		if (step)
			py_line(&pr->w, "%s(%s + %d).start()", copies[w], step, ahead);
		else
			py_line(&pr->w, "%s(%d).start()", copies[w], ahead);
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

static bool any_buffers(const LoopPrinter *lp, Part part, int buffers) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (input_copied_for(lp, part, w) && lp->loop->windows.at[w].buffers == buffers)
			return true;
	return false;
}

/* The first copies: as many steps ahead as there are spare buffers. */
static void print_prologue(LoopPrinter *lp, const char *const *copies) {
	int64_t steps;
	bool known = static_steps(lp, &steps);
	for (int ahead = 0; ahead + 1 < most_buffers(lp); ahead++)
		if (!known)
			print_starts(lp, copies, ahead, PART_STEP, NULL,
			             arena_printf(lp->pr->a, "%d < %s", ahead, total_steps(lp)));
		else if (ahead < steps)
			print_starts(lp, copies, ahead, PART_STEP, NULL, NULL);
}

static void print_waits(LoopPrinter *lp, const char *const *copies, Part part, const char *step) {
	Printer *pr = lp->pr;
	for (int ahead = 1; ahead < most_buffers(lp); ahead++)
		if (any_buffers(lp, part, ahead + 1))
			print_starts(lp, copies, ahead, part, step,
			             arena_printf(pr->a, "%s + %d < %s", step, ahead, total_steps(lp)));
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		if (!input_copied_for(lp, part, w))
			continue;
		if (lp->loop->windows.at[w].buffers == 1)
			py_line(&pr->w, "%s(%s).start()", copies[w], step);
		py_line(&pr->w, "%s(%s).wait()", copies[w], step);
	}
}

/* The same at a step whose number is known, of a loop of `steps`. */
static void print_waits_at(LoopPrinter *lp, const char *const *copies, Part part, int64_t step, int64_t steps) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		int64_t next = step + lp->loop->windows.at[w].buffers - 1;
		if (!input_copied_for(lp, part, w))
			continue;
		if (next < steps)
			py_line(&lp->pr->w, "%s(%lld).start()", copies[w], (long long)next);
		py_line(&lp->pr->w, "%s(%lld).wait()", copies[w], (long long)step);
	}
}

/* A buffer is free for the next result once its copy of `buffers` steps ago has arrived. */
static void print_reuse(LoopPrinter *lp, const char *const *copies, const char *step) {
	Printer *pr = lp->pr;
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		if (!win->dma || !win->output)
			continue;
		py_def(&pr->w);
		py_line(&pr->w, "@pl.when(%s >= %d)", step, win->buffers);
		py_line(&pr->w, "def %s():", printer_name(pr, "reuse"));
		pr->w.indent++;
		py_line(&pr->w, "%s(%s - %d).wait()", copies[w], step, win->buffers);
		pr->w.indent--;
		py_blank(&pr->w);
	}
}

static void print_output_starts(LoopPrinter *lp, const char *const *copies, const char *step) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (lp->loop->windows.at[w].dma && lp->loop->windows.at[w].output)
			py_line(&lp->pr->w, "%s(%s).start()", copies[w], step);
}

/* After the loop: the last results are still on their way. */
static void print_drain(LoopPrinter *lp, const char *const *copies) {
	Printer *pr = lp->pr;
	int64_t steps;
	bool known = static_steps(lp, &steps);
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		if (!win->dma || !win->output)
			continue;
		if (known) {
			const char *i = "i";
			long long first = (long long)int_max(steps - win->buffers, 0);
			const char *from = first ? arena_printf(pr->a, "%lld, ", first) : "";
			py_line(&pr->w, "for %s in range(%s%lld):", i, from, (long long)steps);
			pr->w.indent++;
			py_line(&pr->w, "%s(%s).wait()", copies[w], i);
			pr->w.indent--;
			continue;
		}
		for (int back = win->buffers; back >= 1; back--) {
			py_def(&pr->w);
			py_line(&pr->w, "@pl.when(%s >= %d)", total_steps(lp), back);
			py_line(&pr->w, "def %s():", printer_name(pr, "drain"));
			pr->w.indent++;
			py_line(&pr->w, "%s(%s - %d).wait()", copies[w], total_steps(lp), back);
			pr->w.indent--;
			py_blank(&pr->w);
		}
	}
}

static void fori_windows(LoopPrinter *lp, Part part, const char *step, int64_t number, Names *args) {
	Printer *pr = lp->pr;
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		if (!part_reads(lp, part, w))
			continue;
		if (win->dma)
			names_add(pr, args,
			          arena_printf(pr->a, "%s.at[%s]", pr->scratch[win->scratch],
			                       slot_of(pr, step, number, win->buffers)));
		else
			names_add(pr, args, resident_window(lp, win));
	}
}

/* The call of what a skewed loop computes one step ahead, of the step that the variable counts or of that number. */
static const char *ahead_call(LoopPrinter *lp, const char *step, int64_t number) {
	Names args = {0};
	set_step(lp, 0, step, number);
	add_steps(lp, PART_AHEAD, &args);
	fori_windows(lp, PART_AHEAD, step, number, &args);
	return step_call(lp, PART_AHEAD, &args);
}

/* What a step reads of what was computed ahead of it: variables, or scratch, of a loop of pairs that of the even or the
 * odd steps. */
static void add_handed_to(LoopPrinter *lp, bool odd, bool next, Names *names) {
	Printer *pr = lp->pr;
	for (uint32_t i = 0; i < lp->loop->handed.count; i++) {
		const Handed *h = &lp->loop->handed.at[i];
		if (h->scratch != NONE)
			names_add(pr, names, arena_printf(pr->a, "%s[...]", pr->scratch[odd ? h->odd : h->scratch]));
		else
			names_add(pr, names,
			          next ? printer_name(pr, arena_printf(pr->a, "%s_next", pr->names[h->node]))
			               : pr->names[h->node]);
	}
}

/* The call of the rest of a step, or of a whole one, with what is handed to it and carried values as they are named. */
static const char *rest_call(LoopPrinter *lp, const char *step, int64_t number, const Names *handed,
                             const Names *carried) {
	Names args = {0};
	add_steps(lp, PART_STEP, &args);
	for (uint32_t i = 0; i < handed->count; i++)
		names_add(lp->pr, &args, handed->at[i]);
	fori_windows(lp, PART_STEP, step, number, &args);
	for (uint32_t i = 0; i < carried->count; i++)
		names_add(lp->pr, &args, carried->at[i]);
	return step_call(lp, PART_STEP, &args);
}

/* What is handed on as a value that the loop passes on. */
static void add_handed_values(LoopPrinter *lp, Names *names) {
	for (uint32_t i = 0; i < lp->loop->handed.count; i++)
		if (lp->loop->handed.at[i].scratch == NONE)
			names_add(lp->pr, names, lp->pr->names[lp->loop->handed.at[i].node]);
}

static bool copies_ahead(const LoopPrinter *lp) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (input_copied_for(lp, PART_AHEAD, w))
			return true;
	return false;
}

/* The part of the next step that this one computes. Nothing is waited for between its call, which is returned, and
 * that of the rest: a wait would keep the compiler from scheduling them as one. `next`: a variable that counts the next
 * step already, or NULL. */
static const char *print_ahead_waits(LoopPrinter *lp, const char *const *copies, const char *step, const char *next) {
	Printer *pr = lp->pr;
	const char *ahead = next ? next : printer_name(pr, "ahead");
	const char *call = ahead_call(lp, ahead, 0);
	if (!next && (copies_ahead(lp) || step_used(lp, 0)))
		py_line(&pr->w, "%s = %s + 1", ahead, step);
	print_waits(lp, copies, PART_AHEAD, ahead);
	return call;
}

/* One step of the body, with the copies that it waits for and starts. What is computed ahead goes to `to`, and carried
 * values where they came from. */
static void print_body_step(LoopPrinter *lp, const char *const *copies, const char *step, const char *next,
                            const Names *from, const Names *to, const Names *carried) {
	const char *ahead = lp->loop->skewed ? print_ahead_waits(lp, copies, step, next) : NULL;
	print_waits(lp, copies, PART_STEP, step);
	print_reuse(lp, copies, step);
	if (ahead)
		py_statement(&lp->pr->w, call_results(lp->pr, to, ahead));
	set_flat_step(lp, step);
	const char *rest = call_results(lp->pr, carried, rest_call(lp, step, 0, from, carried));
	print_split_step(lp, step);
	py_statement(&lp->pr->w, rest);
	print_output_starts(lp, copies, step);
}

/* Both steps of an iteration: what one hands on the other reads from its own scratch, so that neither waits for room.
 * Carried values go through scratch once for both. */
static void print_pair(LoopPrinter *lp, const char *const *copies, const char *step, const Names *refs,
                       const Names *carried) {
	Printer *pr = lp->pr;
	Names even = {0}, odd = {0}, next = {0};
	const char *second = printer_name(pr, step);
	add_handed_to(lp, false, false, &even);
	add_handed_to(lp, true, true, &odd);
	for (uint32_t i = 0; i < odd.count; i++)
		names_add(pr, &next, lp->loop->handed.at[i].scratch == NONE ? even.at[i] : odd.at[i]);
	for (uint32_t i = 0; i < refs->count; i++)
		if (refs->at[i])
			py_line(&pr->w, "%s = %s", carried->at[i], refs->at[i]);
	py_line(&pr->w, "%s = %s + 1", second, step);
	print_body_step(lp, copies, step, second, &even, &odd, carried);
	print_body_step(lp, copies, second, NULL, &odd, &even, carried);
	for (uint32_t i = 0; i < refs->count; i++)
		if (refs->at[i])
			py_line(&pr->w, "%s = %s", refs->at[i], carried->at[i]);
}

/* A step of a loop that has one in each iteration: it hands on once all is read. */
static void print_single(LoopPrinter *lp, const char *const *copies, const char *step, const Names *refs,
                         const Names *carried) {
	Printer *pr = lp->pr;
	Names now = {0}, from = {0}, to = {0};
	for (uint32_t i = 0; i < refs->count; i++)
		names_add(pr, &now, refs->at[i] ? refs->at[i] : carried->at[i]);
	add_handed_to(lp, false, false, &from);
	for (uint32_t i = 0; i < from.count; i++)
		names_add(pr, &to,
		          printer_name(pr, arena_printf(pr->a, "%s_next", pr->names[lp->loop->handed.at[i].node])));
	print_body_step(lp, copies, step, NULL, &from, &to, &now);
	for (uint32_t i = 0; i < from.count; i++)
		py_line(&pr->w, "%s = %s", from.at[i], to.at[i]);
}

/* Carried values as the loop's body names them, and `ref[...]` of those in scratch, else NULL. `held` are the values
 * that the loop passes on: carried or handed on. */
static void body_names(LoopPrinter *lp, Names *carried, Names *refs, Names *held) {
	Printer *pr = lp->pr;
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		const char *name = pr->names[carry_placeholder(lp, i)];
		names_add(pr, carried, name);
		names_add(pr, refs, carry_ref(lp, i));
		if (!carry_ref(lp, i))
			names_add(pr, held, name);
	}
	add_handed_values(lp, held);
}

/* The loop body: the step or two, and what they pass on. */
static const char *print_fori_body(LoopPrinter *lp, const char *const *copies) {
	Printer *pr = lp->pr;
	Names carried = {0}, refs = {0}, held = {0};
	const char *name = printer_name(pr, "body"), *i = lp->loop->paired ? "i" : NULL;
	const char *step = lp->loop->rank == 1 ? lp->vars[0] : lp->loop->step_name;
	body_names(lp, &carried, &refs, &held);
	py_def(&pr->w);
	py_line(&pr->w, "def %s(%s, %s):", name, i ? i : step, held.count == 1 ? held.at[0] : "carry");
	pr->w.indent++;
	if (held.count > 1)
		py_line(&pr->w, "%s = carry", names_join(pr, &held));
	if (i)
		py_line(&pr->w, "%s = %s * 2", step, i);
	(i ? print_pair : print_single)(lp, copies, step, &refs, &carried);
	py_line(&pr->w, "return %s", held.count ? names_join(pr, &held) : "carry");
	pr->w.indent--;
	py_blank(&pr->w);
	return name;
}

/* What is computed ahead outside of the body, of the step of that number. */
static void print_ahead_at(LoopPrinter *lp, const char *const *copies, int64_t number, int64_t steps, const Names *to) {
	print_waits_at(lp, copies, PART_AHEAD, number, steps);
	py_statement(&lp->pr->w, call_results(lp->pr, to, ahead_call(lp, NULL, number)));
}

static void print_rest_at(LoopPrinter *lp, const char *const *copies, int64_t number, int64_t steps,
                          const Names *handed, const Names *results) {
	print_waits_at(lp, copies, PART_STEP, number, steps);
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		if (win->dma && win->output && number >= win->buffers)
			py_line(&lp->pr->w, "%s(%lld).wait()", copies[w], (long long)(number - win->buffers));
	}
	set_step(lp, 0, NULL, number);
	py_statement(&lp->pr->w, call_results(lp->pr, results, rest_call(lp, NULL, number, handed, results)));
	print_output_starts(lp, copies, arena_printf(lp->pr->a, "%lld", (long long)number));
}

/* How often the body of a skewed loop runs: the last full step computes nothing ahead, and stands behind the loop. */
static int64_t skewed_iterations(const LoopPrinter *lp, int64_t steps) {
	return lp->loop->paired ? (steps - 1) / 2 : steps - 1;
}

/* The last full steps of a skewed loop: one, or two that were a pair if the second had anything to compute ahead. */
static void print_last_rest(LoopPrinter *lp, const char *const *copies, int64_t steps, const Names *results) {
	Names even = {0}, odd = {0};
	bool two = lp->loop->paired && steps % 2 == 0;
	add_handed_to(lp, false, false, &even);
	if (two) {
		add_handed_to(lp, true, true, &odd);
		print_ahead_at(lp, copies, steps - 1, steps, &odd);
		print_rest_at(lp, copies, steps - 2, steps, &even, results);
	}
	print_rest_at(lp, copies, steps - 1, steps, two ? &odd : &even, results);
}

/* The loop's call; `held` names what it passes on after it. */
static void print_fori_call(LoopPrinter *lp, const char *body, const char *const *copies, Names *initial, Names *held) {
	Printer *pr = lp->pr;
	int64_t steps = 0;
	bool skewed = lp->loop->skewed && static_steps(lp, &steps);
	print_prologue(lp, copies);
	if (skewed) {
		Names first = {0};
		add_handed_to(lp, false, false, &first);
		print_ahead_at(lp, copies, 0, steps, &first);
		add_handed_values(lp, initial);
		add_handed_values(lp, held);
	}
	const char *init = initial->count == 0   ? "None"
	                   : initial->count == 1 ? initial->at[0]
	                                         : arena_printf(pr->a, "(%s)", names_join(pr, initial));
	const char *count =
		skewed ? arena_printf(pr->a, "%lld", (long long)skewed_iterations(lp, steps)) : total_steps(lp);
	py_statement(&pr->w, call_results(pr, held,
	                                  arena_printf(pr->a, "jax.lax.fori_loop(0, %s, %s, %s)", count, body, init)));
}

void print_fori(LoopPrinter *lp, const Names *results) {
	Printer *pr = lp->pr;
	Names initial = {0}, held = {0};
	int64_t steps;
	const char **copies = arena_array(pr->a, lp->loop->windows.count + 1, sizeof *copies);
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (lp->loop->windows.at[w].dma && !no_full_steps(lp))
			copies[w] = print_copy(lp, w);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++)
		if (!carry_ref(lp, i))
			names_add(pr, &held, results->at[i]);
	const char *body = no_full_steps(lp) ? NULL : print_fori_body(lp, copies);
	print_scratch_init(lp);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++)
		if (!carry_ref(lp, i))
			names_add(pr, &initial, initial_value(lp, i));
	if (body)
		print_fori_call(lp, body, copies, &initial, &held);
	for (uint32_t i = 0; !body && i < held.count && i < initial.count; i++)
		py_line(&pr->w, "%s = %s", held.at[i], initial.at[i]);
	print_scratch_results(lp, results);
	if (lp->loop->skewed && static_steps(lp, &steps))
		print_last_rest(lp, copies, steps, results);
	if (body)
		print_drain(lp, copies);
	print_tail(lp, results);
}
