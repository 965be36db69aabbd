/* print.h - kernels as a Python module. */
#ifndef PALLASC_PRINT_H
#define PALLASC_PRINT_H

#include "codegen/kernel/kernel.h"
#include "codegen/pair/pair.h"

/* A variable for all that has none yet, which Python and kernel text use; the Python module. */
void kernels_name(KProgram *p);
void kernels_print_python(const KProgram *p, Text *out);
/* A module whose function jax differentiates: of a forward and its backwards, which have their names. */
void kernels_print_pair(const Pairing *pairing, Text *out);

/* One module of several programs, which one document is at other sizes: a function `name` that chooses among them by
 * the shapes of its arguments. No two take the same shapes. */
void kernels_print_variants(KProgram *const *programs, uint32_t count, const char *name, Text *out);

/* A line of the module, from 1, and a source line that it is of. */
typedef struct PrintedLine {
	uint32_t line;
	const Location *from;
} PrintedLine;
typedef VEC(PrintedLine) PrintedLines;
/* The same, with the source lines of the kernels' statements, in order; one may be named twice. */
void kernels_print_linked(const KProgram *p, Text *out, PrintedLines *lines);

#endif
