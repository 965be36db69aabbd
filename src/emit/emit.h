/* emit.h - the Module as text. */
#ifndef PALLASC_EMIT_H
#define PALLASC_EMIT_H

#include "src/ir/ir.h"

/* emit_json.c: the Module as a document that module_load() reads back to an equal Module. */
void module_emit_json(const Module *m, Text *out);
/* emit_dot.c: Graphviz. */
void module_emit_dot(const Module *m, Text *out);

#endif
