/* loop_printer.h - what the drivers of a loop share: print_loop.c (step function, unroll), print_fori.c and
 * print_pipeline.c. */
#ifndef PALLASC_LOOP_PRINTER_H
#define PALLASC_LOOP_PRINTER_H

#include "printer.h"

typedef VEC(const char *) Names;

/* The functions of a step: one, or of a skewed loop what runs one step ahead and the rest. */
typedef enum Part { PART_STEP, PART_AHEAD } Part;
typedef struct StepFunction {
	const char *name;
	bool used[RANK_MAX]; /* the dims whose step numbers its body needs: known once it is printed */
	bool masked;         /* it takes the flag `ragged` */
} StepFunction;

typedef struct LoopPrinter {
	Printer *pr;
	uint32_t index; /* into plan->loops */
	const Loop *loop;
	StepFunction part[2];
	const char *vars[RANK_MAX]; /* the variables that count each dim's steps, wherever they are counted */
} LoopPrinter;

const Operand *window_operand(const LoopPrinter *lp, uint32_t w);
const char *names_join(Printer *pr, const Names *names);
void names_add(Printer *pr, Names *names, const char *name);
NodeId carry_placeholder(const LoopPrinter *lp, uint32_t i);

/* From here on, dim's step number is the variable `name`, or `value` where that is NULL. */
void set_step(LoopPrinter *lp, uint32_t dim, const char *name, int64_t value);
/* It was read since. */
bool step_used(const LoopPrinter *lp, uint32_t dim);
/* The subscript that cuts a window out of its operand: pl.ds(start, block) in each dim that is not whole. */
const char *window_slice(LoopPrinter *lp, const Window *win);
const char *resident_window(LoopPrinter *lp, const Window *win);

/* That part of the step reads window w. */
bool part_reads(const LoopPrinter *lp, Part part, uint32_t w);
/* The step function's arguments for the step numbers it reads. */
void add_steps(LoopPrinter *lp, Part part, Names *args);
const char *step_call(LoopPrinter *lp, Part part, const Names *args);
/* `results = call`, or the call alone. */
const char *call_results(Printer *pr, const Names *results, const char *call);
/* The ragged last step, straight after the loop: values in, values out. */
void print_tail(LoopPrinter *lp, const Names *values);

const char *dim_steps(LoopPrinter *lp, uint32_t dim);
/* All dims' steps as one count, for a loop with one induction variable. */
const char *total_steps(LoopPrinter *lp);
/* Static and zero: there is nothing but the ragged step to run. */
bool no_full_steps(const LoopPrinter *lp);
/* One induction variable counts all steps, of the last dim fastest: from here on each dim's step number is a variable,
 * which print_split_step() computes of it if it was read since. */
void set_flat_step(LoopPrinter *lp, const char *flat);
void print_split_step(LoopPrinter *lp, const char *flat);

const char *initial_value(LoopPrinter *lp, uint32_t i);
/* `ref[...]` of a value carried in scratch; NULL if it is in registers. */
const char *carry_ref(LoopPrinter *lp, uint32_t i);
/* What a skewed loop hands from step to step: as variables, and `ref[...]` of their scratch. */
void add_handed(LoopPrinter *lp, Names *names);
void add_handed_refs(LoopPrinter *lp, Names *names);
void print_scratch_init(LoopPrinter *lp);
void print_scratch_results(LoopPrinter *lp, const Names *results);

void print_fori(LoopPrinter *lp, const Names *results);
void print_pipeline(LoopPrinter *lp, const Names *results);

#endif
