/* decompose.h - what the parts of the decompose pass share: making primitive nodes before the one that is rewritten. */
#ifndef PALLASC_DECOMPOSE_H
#define PALLASC_DECOMPOSE_H

#include "passes/facts/facts.h"

typedef struct Decompose {
	PassContext *c;
	Module *m;
	NodeId n;    /* the composite node; what is made stands before it, at its place in the source */
	bool failed; /* a node that was made has no type: after a diagnostic */
} Decompose;

/* A rewrite makes nodes and gives the value that takes the composite's place; of a composite that gives a tuple, the
 * value of element `element`. NONE: it stays as it is. */
typedef NodeId Decomposition(Decompose *d, uint32_t element);

/* The rewrite of an op, of all LOWER_PARTS but tile.if and tile.atomic_cas, and of some that are lowered in other
 * cases; NULL. */
Decomposition *decompose_rewrite(uint16_t op);
/* decompose_reduce.c, decompose_softmax.c, decompose_create.c, decompose_matmul.c, _split.c: the rewrite of an op;
 * NULL. */
Decomposition *decompose_reduction(uint16_t op);
Decomposition *decompose_softmax(uint16_t op);
Decomposition *decompose_creation(uint16_t op);
Decomposition *decompose_matmul(uint16_t op);
Decomposition *decompose_split(uint16_t op);
Decomposition *decompose_scan(uint16_t op);
Decomposition *decompose_combine(uint16_t op);
Decomposition *decompose_sort(uint16_t op);
Decomposition *decompose_gather(uint16_t op);
/* decompose_access.c: of a load with a mask or new axes, of an atomic whose old value is read; NULL. */
Decomposition *decompose_access(Module *m, NodeId n);
/* decompose_access.c: an atomic becomes a load and a store, where all lanes have places of their own. */
bool atomic_loads_first(const Module *m, NodeId n);

/* decompose_slices.c: the elements of a dim of `size` that a slice names, from `start` on `count` of them. False: where
 * it begins or ends, or its step, is not known. */
typedef struct Elements {
	int64_t start, step, count;
} Elements;
bool slice_elements(const Module *m, const Arg *slice, int64_t size, Elements *out);

/* decompose_store.c: of a store with steps or new axes; NULL. */
Decomposition *decompose_store(const Module *m, NodeId n);

/* decompose_slices.c: an access through slice views of a tensor that is written becomes one of the tensor; gives
 * the node that stands for n. */
NodeId decompose_slices(PassContext *c, NodeId n);

/* ---- decompose_build.c ------------------------------------------------------------------------------------------- */

/* A node of that op; its type is inferred. */
NodeId make_node(Decompose *d, uint16_t op, const char *suffix, uint32_t count, const Arg *args);
NodeId make_unary(Decompose *d, uint16_t op, const char *suffix, NodeId x);
NodeId make_binary(Decompose *d, uint16_t op, const char *suffix, NodeId a, Arg b);
/* Bools that both are set; a may be NONE, which hides nothing. */
NodeId make_and(Decompose *d, const char *suffix, NodeId a, NodeId b);
NodeId make_where(Decompose *d, const char *suffix, NodeId condition, Arg yes, Arg no);
/* x itself where it is of that dtype already. */
NodeId make_converted(Decompose *d, NodeId x, Dtype dtype);
/* x in the dtype that torch computes floats in: float32. */
NodeId make_wide(Decompose *d, NodeId x);
/* A sum, mean, maximum or minimum over a set of dims. */
NodeId make_reduced(Decompose *d, uint16_t op, const char *suffix, NodeId x, uint32_t dims, bool keep);
/* A value that kept its reduced dims, with or without them. */
NodeId make_kept(Decompose *d, NodeId x, uint32_t dims, bool keep);
NodeId make_view(Decompose *d, NodeId x, uint32_t rank, const ExprId *dims, const char *suffix);
/* x broadcast to those sizes. */
NodeId make_expanded(Decompose *d, NodeId x, uint32_t rank, const ExprId *dims, const char *suffix);
/* 0, 1, ... of a length, int32; along dim `dim` of a value of `rank` dims, as [length, 1, ..]. */
NodeId make_iota(Decompose *d, ExprId length, uint32_t dim, uint32_t rank);
/* x[.., start:stop:step, ..], of a slice that stands in an index list. */
NodeId make_slice(Decompose *d, NodeId x, uint32_t dim, const Arg *slice);
/* decompose_sort.c: the bits of x in int32, floats widened first; the value that such bits are. */
NodeId make_bits(Decompose *d, NodeId x);
NodeId make_from_bits(Decompose *d, NodeId bits, Dtype t);
/* decompose_take.c: lanes of x's last dim at the places of an int tensor: one or two dims each, together at most two,
 * or the same rows. NONE: that is not how. */
NodeId make_taken(Decompose *d, NodeId x, NodeId index);
/* Rows of x, of two dims of known sizes, at the places of an int tensor of one dim. */
NodeId make_rows_taken(Decompose *d, NodeId x, NodeId index);
/* x with `more` new dims before dim `at`. */
NodeId make_unsqueezed(Decompose *d, NodeId x, uint32_t at, uint32_t more, const char *suffix);
/* decompose_access.c: of a load that was just made, the same from registers, if that is how; else the load. */
NodeId make_elements(Decompose *d, NodeId load);
/* decompose_access.c: zeros where no tile of the index is. */
NodeId make_zero_outside(Decompose *d, NodeId index, NodeId value);
/* decompose_gather.c: the nearest position that a dim of `size` has. */
NodeId make_inside(Decompose *d, NodeId index, ExprId size);
/* The range of a block's tiles ends where a dim of `size` does, or before. */
bool tile_within(const Module *m, BlockId b, int64_t size);
/* Lanes of value n outside the range of block b, which a load gives zeros, are read by nothing. */
bool hides_outside(const Module *m, NodeId n, BlockId b);
/* The dtype of element `element` of what the composite gives. */
Dtype result_dtype(const Decompose *d, uint32_t element);
/* The product of a value's sizes in a set of dims. */
ExprId dims_product(Decompose *d, NodeId x, uint32_t dims);

bool pass_decompose(PassContext *c);
bool pass_one_hot(PassContext *c);
bool pass_float16(PassContext *c);
bool pass_random(PassContext *c);

#endif
