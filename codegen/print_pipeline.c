/* print_pipeline.c - drives a loop by pltpu.emit_pipeline: a BlockSpec for each window, carried values in scratch. */
#include "loop_printer.h"

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
		names_add(pr, &vars, pr->step[lp->index * RANK_MAX + i]);
	const char *mode =
		win->buffers == 2 ? "" : arena_printf(pr->a, ", pipeline_mode=pl.Buffered(%d)", win->buffers);
	return arena_printf(pr->a, "pl.BlockSpec(%s, lambda %s: %s%s)", shape_text(pr, rank, win->block),
	                    names_join(pr, &vars), index, mode);
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
			names_add(pr, &params, inner[w]);
		}
	for (uint32_t i = 0; i < lp->loop->rank; i++)
		set_step(lp, i, arena_printf(pr->a, "pl.program_id(%u)", i), 0);
	py_def(&pr->w);
	py_line(&pr->w, "def %s(%s):", name, names_join(pr, &params));
	pr->w.indent++;
	add_steps(lp, steps, &args);
	for (uint32_t w = 0; w < lp->loop->windows.count; w++)
		names_add(pr, &args, inner[w] ? inner[w] : resident_window(lp, &lp->loop->windows.at[w]));
	for (uint32_t i = 0; i < lp->loop->carries.count; i++) {
		names_add(pr, &args, carry_ref(lp, i));
		names_add(pr, &carried, carry_ref(lp, i));
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
		names_add(pr, &grid, dim_steps(lp, i));
	}
	for (int output = 0; output < 2; output++)
		for (uint32_t w = 0; w < lp->loop->windows.count; w++) {
			const Window *win = &lp->loop->windows.at[w];
			if (!win->dma || win->output != (bool)output)
				continue;
			names_add(pr, output ? &out_specs : &in_specs,
			          pipeline_spec(lp, win, window_operand(lp, w)->rank));
			names_add(pr, &refs, pr->refs[win->operand]);
		}
	const char *pipeline = printer_name(pr, "pipeline");
	const char *ins = in_specs.count ? arena_printf(pr->a, "in_specs=[%s,],", names_join(pr, &in_specs)) : "";
	const char *outs = out_specs.count ? arena_printf(pr->a, "out_specs=[%s,],", names_join(pr, &out_specs)) : "";
	py_line(&pr->w, "%s = pltpu.emit_pipeline(%s, grid=(%s%s), %s%s%s)", pipeline, body, names_join(pr, &grid),
	        grid.count == 1 ? "," : "", ins, *ins && *outs ? " " : "", outs);
	py_line(&pr->w, "%s(%s)", pipeline, names_join(pr, &refs));
}

void print_pipeline(LoopPrinter *lp, const StepParams *steps, const Names *results) {
	print_scratch_init(lp);
	if (!no_full_steps(lp)) {
		const char *body = printer_name(lp->pr, "body");
		print_pipeline_body(lp, steps, body);
		print_pipeline_call(lp, body);
	}
	print_scratch_results(lp, results);
	print_tail(lp, steps, results);
}
