/* emit.h - the Module as text. */
#ifndef PALLASC_EMIT_H
#define PALLASC_EMIT_H

#include "src/ir/ir.h"

/* emit_json.c: the Module as a document that module_load() reads back to an equal Module. */
void module_emit_json(const Module *m, Text *out);
/* A type as `meta` has it. */
void type_emit_json(const Module *m, TypeId type, Text *out);
/* emit_dot.c: Graphviz; in colour what passes made and changed since `before`, which may be NULL. */
void module_emit_dot(const Module *m, const Module *before, Text *out);

/* emit_changes.c: what became of each node since `before`, the same document earlier; nothing where that is NULL. */
typedef enum NodeChange { NODE_SAME, NODE_CHANGED, NODE_NEW } NodeChange;
typedef struct NodeChanges {
	NodeChange *of; /* by NodeId of `after` */
	uint32_t made, changed, removed;
} NodeChanges;
NodeChanges module_changes(Arena *a, const Module *before, const Module *after);

#endif
