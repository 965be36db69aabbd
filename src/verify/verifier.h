/* verifier.h - the verifier's three parts: structure (verify_structure.c), each node's type (verify.c) and what calls
 * must agree with (verify_call.c). Nothing else includes this. */
#ifndef PALLASC_VERIFIER_H
#define PALLASC_VERIFIER_H

#include "infer.h"

typedef struct Verifier {
	Module *m;
	Diag *d;
	bool *failed;       /* by NodeId: reported, or uses one that was; nothing more is said about it */
	uint32_t *position; /* by NodeId: 1-based in its graph's list; 0: not in one, or not reached yet */
} Verifier;

/* Is it beyond POSITION_MAX, and what is it then? Not of what depends on sizes that are none of a configuration. */
bool position_too_far(const Module *m, ExprId e, int64_t *value);
#define POSITION_HINT "cut it into parts of at most 2147483647: a kernel counts positions in int32"

/* Lists of nodes, use lists, order, calls between graphs. Without these the other parts cannot run. */
void verify_structure(Verifier *v);
/* Calls: arguments against placeholders, bounds, carried values, results. */
void verify_calls(Verifier *v);
/* Copies between devices: the mesh, and what shares a channel. */
void verify_remote(Verifier *v);

/* Reports at node n, naming it, its target and, where a pass made it, its graph. */
void verify_node_error(Verifier *v, NodeId n, const char *code, const char *hint, const char *fmt, ...)
	PRINTF_LIKE(5, 6);
void verify_graph_error(Verifier *v, GraphId g, const char *code, const char *hint, const char *fmt, ...)
	PRINTF_LIKE(5, 6);
/* The node's inferred type against the one it declares. */
void verify_type(Verifier *v, NodeId n);

#endif
