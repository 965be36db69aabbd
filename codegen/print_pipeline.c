/* print_pipeline.c - drives a loop by pltpu.emit_pipeline: a BlockSpec for each window, carried values in scratch. */
#include "loop_printer.h"

static int64_t full_steps(const LoopPrinter *lp) { return lp->loop->dim[0].full_steps; }

/* A window of an emit_pipeline: `pl.BlockSpec(block, lambda j: index)`. A skewed loop has one step more: the first one
 * computes nothing but what runs ahead, the last one nothing of that. */
static const char *pipeline_spec(LoopPrinter *lp, uint32_t w, uint32_t rank) {
	Printer *pr = lp->pr;
	const Window *win = &lp->loop->windows.at[w];
	const char *items[DIM_MAX];
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		set_step(lp, i, lp->vars[i], 0);
	if (lp->loop->skewed)
		set_step(lp, 0,
		         part_reads(lp, PART_AHEAD, w) ? arena_printf(pr->a, "jnp.minimum(%s, %lld)", lp->vars[0],
		                                                      (long long)full_steps(lp) - 1)
		                                       : arena_printf(pr->a, "jnp.maximum(%s - 1, 0)", lp->vars[0]),
		         0);
	for (uint32_t d = 0; d < rank; d++)
		items[d] = affine_text(pr, &win->index[d], PREC_LOWEST);
	const char *index = rank == 1 ? arena_printf(pr->a, "(%s,)", items[0])
	                              : arena_printf(pr->a, "(%s)", dims_text(pr, rank, items));
	Names vars = {0};
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		names_add(pr, &vars, lp->vars[i]);
	const char *mode =
		win->buffers == 2 ? "" : arena_printf(pr->a, ", pipeline_mode=pl.Buffered(%d)", win->buffers);
	return arena_printf(pr->a, "pl.BlockSpec(%s, lambda %s: %s%s)", shape_text(pr, rank, win->block),
	                    names_join(pr, &vars), index, mode);
}

/* The windows' refs, the body's parameters: inputs, then outputs. */
static const char **pipeline_params(LoopPrinter *lp, Names *params) {
	const char **inner = arena_array(lp->pr->a, lp->loop->windows.count + 1, sizeof *inner);
	for (int output = 0; output < 2; output++)
		for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
			const Window *win = &lp->loop->windows.at[w];
			if (!win->dma || win->output != (bool)output)
				continue;
			inner[w] = lp->pr->window[lp->index][w];
			names_add(lp->pr, params, inner[w]);
		}
	return inner;
}

static void add_windows(LoopPrinter *lp, Part part, const char *const *inner, Names *args) {
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		if (part_reads(lp, part, w))
			names_add(lp->pr, args, inner[w] ? inner[w] : resident_window(lp, &lp->loop->windows.at[w]));
}

/* The statement that runs a step, or the rest of one. */
static const char *rest_statement(LoopPrinter *lp, const char *const *inner) {
	Names args = {0}, carried = {0};
	add_steps(lp, PART_STEP, &args);
	add_handed_refs(lp, &args);
	add_windows(lp, PART_STEP, inner, &args);
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		names_add(lp->pr, &args, carry_ref(lp, i));
		names_add(lp->pr, &carried, carry_ref(lp, i));
	}
	return call_results(lp->pr, &carried, step_call(lp, PART_STEP, &args));
}

static void open_when(Printer *pr, const char *condition, const char *name) {
	py_def(&pr->w);
	py_line(&pr->w, "@pl.when(%s)", condition);
	py_line(&pr->w, "def %s():", printer_name(pr, name));
	pr->w.indent++;
}

static void close_when(Printer *pr) {
	pr->w.indent--;
	py_blank(&pr->w);
}

/* Three kinds of steps: the first computes ahead, the last does not, all others do both. */
static void print_skewed_steps(LoopPrinter *lp, const char *ahead, const char *start, const char *rest) {
	Printer *pr = lp->pr;
	Names handed = {0}, next = {0};
	long long steps = (long long)full_steps(lp);
	add_handed_refs(lp, &handed);
	for (uint32_t i = 0; i < handed.count; i++)
		names_add(pr, &next,
		          printer_name(pr, arena_printf(pr->a, "%s_next", pr->names[lp->loop->handed.at[i].node])));
	open_when(pr, arena_printf(pr->a, "%s == 0", ahead), "first");
	py_statement(&pr->w, call_results(pr, &handed, start));
	close_when(pr);
	open_when(pr, arena_printf(pr->a, "(%s > 0) & (%s < %lld)", ahead, ahead, steps), "both");
	py_statement(&pr->w, call_results(pr, &next, start));
	py_statement(&pr->w, rest);
	for (uint32_t i = 0; i < handed.count; i++)
		py_line(&pr->w, "%s = %s", handed.at[i], next.at[i]);
	close_when(pr);
	open_when(pr, arena_printf(pr->a, "%s == %lld", ahead, steps), "last");
	py_statement(&pr->w, rest);
	pr->w.indent--; /* the body's own end leaves the blank line */
}

static void print_skewed_body(LoopPrinter *lp, const char *const *inner) {
	Printer *pr = lp->pr;
	const char *ahead = printer_name(pr, "ahead");
	Names args = {0};
	set_step(lp, 0, ahead, 0);
	add_steps(lp, PART_AHEAD, &args);
	add_windows(lp, PART_AHEAD, inner, &args);
	set_step(lp, 0, lp->vars[0], 0);
	const char *rest = rest_statement(lp, inner);
	py_line(&pr->w, "%s = pl.program_id(0)", ahead);
	if (step_used(lp, 0))
		py_line(&pr->w, "%s = %s - 1", lp->vars[0], ahead);
	print_skewed_steps(lp, ahead, step_call(lp, PART_AHEAD, &args), rest);
}

static void print_pipeline_body(LoopPrinter *lp, const char *name) {
	Printer *pr = lp->pr;
	Names params = {0};
	const char **inner = pipeline_params(lp, &params);
	py_def(&pr->w);
	py_line(&pr->w, "def %s(%s):", name, names_join(pr, &params));
	pr->w.indent++;
	if (lp->loop->skewed) {
		print_skewed_body(lp, inner);
	} else {
		for (uint32_t i = 0; i < lp->loop->rank; i++)
			set_step(lp, i, arena_printf(pr->a, "pl.program_id(%u)", i), 0);
		py_statement(&pr->w, rest_statement(lp, inner));
	}
	pr->w.indent--;
	py_blank(&pr->w);
}

static void print_pipeline_call(LoopPrinter *lp, const char *body) {
	Printer *pr = lp->pr;
	Names in_specs = {0}, out_specs = {0}, refs = {0}, grid = {0};
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		names_add(pr, &grid,
		          lp->loop->skewed ? arena_printf(pr->a, "%lld", (long long)full_steps(lp) + 1)
		                           : dim_steps(lp, i));
	for (int output = 0; output < 2; output++)
		for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
			const Window *win = &lp->loop->windows.at[w];
			if (!win->dma || win->output != (bool)output)
				continue;
			names_add(pr, output ? &out_specs : &in_specs,
			          pipeline_spec(lp, w, window_operand(lp, w)->rank));
			names_add(pr, &refs, pr->refs[win->operand]);
		}
	const char *pipeline = printer_name(pr, "pipeline");
	const char *ins = in_specs.count ? arena_printf(pr->a, "in_specs=[%s,],", names_join(pr, &in_specs)) : "";
	const char *outs = out_specs.count ? arena_printf(pr->a, "out_specs=[%s,],", names_join(pr, &out_specs)) : "";
	py_line(&pr->w, "%s = pltpu.emit_pipeline(%s, grid=(%s%s), %s%s%s)", pipeline, body, names_join(pr, &grid),
	        grid.count == 1 ? "," : "", ins, *ins && *outs ? " " : "", outs);
	py_line(&pr->w, "%s(%s)", pipeline, names_join(pr, &refs));
}

void print_pipeline(LoopPrinter *lp, const Names *results) {
	print_scratch_init(lp);
	if (!no_full_steps(lp)) {
		const char *body = printer_name(lp->pr, "body");
		print_pipeline_body(lp, body);
		print_pipeline_call(lp, body);
	}
	print_scratch_results(lp, results);
	print_tail(lp, results);
}
