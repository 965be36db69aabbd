/* verify.h - is the Module what it says? Types follow from arguments, structure holds. */
#ifndef PALLASC_VERIFY_H
#define PALLASC_VERIFY_H

#include "src/ir/ir.h"

/* shapes.c: the type that node n must have, from its arguments' types; false after a diagnostic. */
bool op_infer(Module *m, Diag *d, NodeId n, TypeId *type);
/* verify.c: re-infers every dtype and shape, checks structure; false after diagnostics. */
bool module_verify(Module *m, Diag *d);
/* fill.c: gives the nodes that declare no type the one that is inferred; false after diagnostics. The Module's sizes
 * must have values. */
bool types_missing(const Module *m);
bool types_fill(Module *m, Diag *d);
/* verify_symbols.c: the same before any configuration, for all sizes that blocks may get. Sets m->typing. Types that
 * the document leaves out are filled in. */
bool module_verify_symbols(Module *m, Diag *d);
/* verify.c: gives node n the type inferred, if it declares none, or compares the two; false after a diagnostic. */
bool node_infer(Module *m, Diag *d, NodeId n);
/* verify_symbols.c: the same before any configuration, for all sizes that blocks may get, on a copy, which it gives.
 * NULL after a diagnostic. */
Module *node_infer_symbols(Module *m, Diag *d, NodeId n);
/* host_steps.c: ops that the wrapper applies to a tensor, and where the document has them: /LIST/INDEX/ops. */
typedef struct HostSteps {
	const HostStep *steps;
	uint32_t count;
	const char *list;
	uint32_t index;
	const char *when; /* `before` or `after` the kernel */
	const char *hint; /* instead of an op that the wrapper cannot apply */
} HostSteps;
HostSteps return_steps(const Module *m, uint32_t r);
HostSteps derived_steps(const Module *m, TensorId t);
/* Derived tensor t as it is computed: what it is derived from (values[0]), then after each of its ops, the last as the
 * tensor is declared. False after a diagnostic. */
bool derived_infer(const Module *m, Diag *d, Arena *a, TensorId t, HostValue *values);
/* Return r as the kernel gives it (values[0]), after each of its ops, and in its final shape: 2 more
 * values than ops. False after a diagnostic. */
bool return_infer(const Module *m, Diag *d, Arena *a, uint32_t r, HostValue *values);

#endif
