/* print_fori.c - drives a loop by jax.lax.fori_loop: copies of its windows started ahead into spare buffers, waited for
 * where they are read; without DMA, slices of resident blocks. */
#include "loop_printer.h"

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
static void print_starts(LoopPrinter *lp, const char *const *copies, int ahead, const char *step,
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
		if (!input_copied(win) || !here)
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

static bool any_buffers(const LoopPrinter *lp, int buffers) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (input_copied(&lp->loop->windows.at[w]) && lp->loop->windows.at[w].buffers == buffers)
			return true;
	return false;
}

/* The first copies: as many steps ahead as there are spare buffers. */
static void print_prologue(LoopPrinter *lp, const char *const *copies) {
	int64_t steps;
	bool known = static_steps(lp, &steps);
	for (int ahead = 0; ahead + 1 < most_buffers(lp); ahead++)
		if (!known)
			print_starts(lp, copies, ahead, NULL,
			             arena_printf(lp->pr->a, "%d < %s", ahead, total_steps(lp)));
		else if (ahead < steps)
			print_starts(lp, copies, ahead, NULL, NULL);
}

static void print_waits(LoopPrinter *lp, const char *const *copies, const char *step) {
	Printer *pr = lp->pr;
	for (int ahead = 1; ahead < most_buffers(lp); ahead++)
		if (any_buffers(lp, ahead + 1))
			print_starts(lp, copies, ahead, step,
			             arena_printf(pr->a, "%s + %d < %s", step, ahead, total_steps(lp)));
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		if (!input_copied(&lp->loop->windows.at[w]))
			continue;
		if (lp->loop->windows.at[w].buffers == 1)
			py_line(&pr->w, "%s(%s).start()", copies[w], step);
		py_line(&pr->w, "%s(%s).wait()", copies[w], step);
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

static void fori_windows(LoopPrinter *lp, const char *step, Names *args) {
	Printer *pr = lp->pr;
	for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
		const Window *win = &lp->loop->windows.at[w];
		if (win->dma)
			names_add(pr, args,
			          arena_printf(pr->a, "%s.at[%s]", pr->scratch[win->scratch],
			                       slot_of(pr, step, win->buffers)));
		else
			names_add(pr, args, resident_window(lp, win));
	}
}

/* The loop body: copies, the step, and what it passes on. `carry` names the register carries' variable. */
static const char *print_fori_body(LoopPrinter *lp, const StepParams *steps, const char *const *copies,
                                   const Names *registers) {
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
		py_line(&pr->w, "%s = carry", names_join(pr, registers));
	add_steps(lp, steps, &args);
	fori_windows(lp, step, &args);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		const char *ref = carry_ref(lp, i);
		const char *value = ref ? ref : pr->names[carry_placeholder(lp, i)];
		names_add(pr, &args, value);
		names_add(pr, &targets, value);
		if (!ref)
			names_add(pr, &next, value);
	}
	py_statement(&pr->w, call_results(pr, &targets, step_call(lp, &args)));
	print_output_starts(lp, copies, step);
	py_line(&pr->w, "return %s", next.count ? names_join(pr, &next) : "carry");
	pr->w.indent--;
	py_blank(&pr->w);
	return name;
}

void print_fori(LoopPrinter *lp, const StepParams *steps, const Names *results) {
	Printer *pr = lp->pr;
	Names registers = {0}, initial = {0}, held = {0};
	const char **copies = arena_array(pr->a, lp->loop->windows.count + 1, sizeof *copies);
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (lp->loop->windows.at[w].dma && !no_full_steps(lp))
			copies[w] = print_copy(lp, w);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		if (carry_ref(lp, i))
			continue;
		names_add(pr, &registers, pr->names[carry_placeholder(lp, i)]);
		names_add(pr, &held, results->at[i]);
	}
	const char *body = no_full_steps(lp) ? NULL : print_fori_body(lp, steps, copies, &registers);
	print_scratch_init(lp);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++)
		if (!carry_ref(lp, i))
			names_add(pr, &initial, initial_value(lp, i));
	if (!body) {
		for (uint32_t i = 0; i < held.count && i < initial.count; i++)
			py_line(&pr->w, "%s = %s", held.at[i], initial.at[i]);
	} else {
		print_prologue(lp, copies);
		const char *init = initial.count == 0   ? "None"
		                   : initial.count == 1 ? initial.at[0]
		                                        : arena_printf(pr->a, "(%s)", names_join(pr, &initial));
		py_statement(&pr->w, call_results(pr, &held,
		                                  arena_printf(pr->a, "jax.lax.fori_loop(0, %s, %s, %s)",
		                                               total_steps(lp), body, init)));
		print_drain(lp, copies);
	}
	print_scratch_results(lp, results);
	print_tail(lp, steps, results);
}
