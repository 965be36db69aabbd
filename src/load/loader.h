/* loader.h - what the parts of the loader share. */
#ifndef PALLASC_LOADER_H
#define PALLASC_LOADER_H

#include "load.h"

/* A reference to a node that stands later: an error, but is it a cycle or only the order? Known once all are read. */
typedef struct ForwardRef {
	NodeId user, target;
	Place at;
} ForwardRef;

/* A node's members, looked up once for both sweeps. */
enum { NODE_NAME, NODE_OP, NODE_TARGET, NODE_ARGS, NODE_KWARGS, NODE_META, NODE_LOC, NODE_MEMBERS };
typedef struct NodeMembers {
	const json_t *at[NODE_MEMBERS]; /* NULL: absent */
} NodeMembers;

typedef struct Loader {
	Reader r;
	Module *m;
	const SizeChoices *sizes; /* NULL: as the document says */
	StringTable targets;      /* read before */
	Map ops;                  /* their ops */
	Schema schemas[OP_COUNT]; /* parsed when first needed */
	bool schema_known[OP_COUNT];
	Arg args[PARAMS_MAX]; /* of the node or step being read */
	VEC(Arg) stack;       /* items of the lists being read */
	VEC(ForwardRef) forward;
	VEC(NodeMembers) members; /* by NodeId */
	VEC(NodeId) document;     /* GraphId -> its first node: the ids of a graph's nodes are consecutive */
	GraphId graph;            /* whose nodes are being read */
	NodeId node;              /* being read; NONE in host steps, where no references are allowed */
	bool sizes_unclear;       /* named sizes were refused: nothing was read with them */
	bool symbols_unclear;     /* a block or tunable was refused: say nothing of its uses */
	bool tensors_unclear;     /* so was the list of tensors */
	bool kinds_unclear;       /* so was the kind of a graph */
	bool calls_unclear;       /* a node was not understood: a graph may seem unreachable because of it */
} Loader;

static inline const char *intern(Loader *l, const char *s) { return string_intern(l->r.arena, &l->m->strings, s); }
const Schema *load_schema(Loader *l, uint16_t op);

/* load_sizes.c */
bool load_size(Loader *l, const json_t *v, const Path *path, ExprId *out);
bool load_shape(Loader *l, const json_t *v, const Path *path, uint32_t *rank, ExprId *dims);
typedef enum DtypeUse { DTYPE_OF_HOST, DTYPE_OF_VALUE } DtypeUse; /* 64-bit: refused; of values, int64 is not */
bool load_dtype(Loader *l, const json_t *v, const Path *path, DtypeUse use, Dtype *out);
bool load_meta(Loader *l, const json_t *v, const Path *path, int depth, TypeId *out);
/* A number or {"float": "inf"}. */
bool load_number(Loader *l, const json_t *v, const Path *path, double *out);
/* Of ints, which have 32 bits at most: a whole number of the dtype's range. Of other dtypes any. */
bool number_fits(Dtype t, double x);

/* load_named.c, load_tables.c, load_tensors.c: in this order */
void load_named_sizes(Loader *l, const json_t *root, const Path *path);
/* Checks that `name` may stand in expressions and is new; then it means `value` of Module.symbols. */
bool symbol_define(Loader *l, const char *name, uint32_t value, Place at);
void load_tunables(Loader *l, const json_t *root, const Path *path);
void load_blocks(Loader *l, const json_t *root, const Path *path);
void load_tensors(Loader *l, const json_t *root, const Path *path);
void load_scalars(Loader *l, const json_t *root, const Path *path);
void load_returns(Loader *l, const json_t *root, const Path *path);

/* load_values.c: any value; `depth` is 0 outside lists. */
bool load_value(Loader *l, const json_t *v, const Path *path, int depth, Arg *out);

/* load_args.c: the arguments of node l->node, or of a host step (`skip` leading parameters are given elsewhere), in
 * *out until others are read. */
bool load_arguments(Loader *l, uint16_t op, uint32_t skip, const json_t *args, size_t args_from, const json_t *kwargs,
                    const Path *path, uint32_t *count, Arg **out);
/* The op of a target, or OP_UNKNOWN after a diagnostic. */
uint16_t load_target(Loader *l, const json_t *v, const Path *path);

/* load_graphs.c, load_calls.c */
void load_graphs(Loader *l, const json_t *root, const Path *path);
void load_check_calls(Loader *l);

/* load_notes.c */
void load_annotations(Loader *l, const json_t *root, const Path *path);

#endif
