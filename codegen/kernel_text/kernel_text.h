/* kernel_text.h - kernels as text, read back and verified: docs/kernel.md. */
#ifndef PALLASC_KERNEL_TEXT_H
#define PALLASC_KERNEL_TEXT_H

#include "codegen/kernel/kernel.h"

/* kernel_verify.c: every argument is defined where it is read, types fit, references lie inside of their buffers as far
 * as constants show, copies fit, functions are called with what they take. False after a diagnostic at statement text.
 */
bool program_verify_kernels(const KProgram *p, Diag *d);

/* kernel_text.c and kernel_read.c: docs/kernel.md. Reading gives NULL after diagnostics. */
void kernels_emit_text(const KProgram *p, Text *out);
/* The same; `lines[k][s]` becomes the line, from 1, at which statement s of kernel k stands, the host's behind those of
 * the kernels; 0 where it does not. */
void kernels_emit_lines(const KProgram *p, Text *out, uint32_t *const *lines);
KProgram *kernels_read(Arena *a, Diag *d, const Source *text);

/* kernel_variables.c: what a text gives no variable, and Python needs one for, would like one. */
void program_give_variables(KProgram *p);

#endif
