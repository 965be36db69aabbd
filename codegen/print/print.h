/* print.h - kernels as a Python module. */
#ifndef PALLASC_PRINT_H
#define PALLASC_PRINT_H

#include "codegen/kernel/kernel.h"

/* A variable for all that has none yet, which Python and kernel text use; the Python module. */
void kernels_name(KProgram *p);
void kernels_print_python(const KProgram *p, Text *out);

#endif
