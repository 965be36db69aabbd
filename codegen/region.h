/* region.h - a graph of a kernel as the compiler schedules it, for spills.c and late.c: what is read until when, what
 * waits for what. */
#ifndef REGION_H
#define REGION_H

#include "planner.h"

/* No value counts for more: far above any VMEM, and sums stay below 2^63. */
#define TOO_MUCH (INT64_C(1) << 34)

/* What waits for the reduction at a position; in an unrolled step, for one before its loop. */
#define AFTER(pos) ((pos) + 1)
enum { OUTSIDE = AFTER(0) };

/* What computes a value that a node reads, and its position; 0: it is in another graph. */
typedef struct RegionRef {
	NodeId node;
	uint32_t pos;
} RegionRef;

typedef struct Region {
	Planner *p;
	GraphId graph;
	uint32_t count;      /* nodes */
	NodeId *nodes;       /* by position */
	VEC(RegionRef) refs; /* what the nodes refer to, one node after the other */
	uint32_t *ref_first; /* by position, and one more: its first in `refs` */
	uint32_t *at;        /* by node: its position in this graph, 1-based; 0: not of this graph */
	uint32_t *until;     /* by position: the last position that reads it, streaming users seen through */
	uint32_t *barriers;  /* by position: barriers before it */
	bool *carried;       /* by position: depends on a carried value */
	bool *frontier;      /* by position: does not, but something that does reads it */
	bool stores;         /* it stores something */
	bool multiplies;     /* straight code with a matmul */
	bool both_ways;      /* it reduces tiles along lanes, and tiles along other dims only */
	bool *reduced;       /* by node, of all graphs: it depends on a reduction along lanes, or is one */
	int64_t *beside;  /* of all graphs: bytes spilled beside the peak: of ragged last steps, of what waits in others
	                   */
	uint32_t *waits;  /* by position: AFTER() the last reduction along lanes that it depends on; 0: none */
	bool any_waits;   /* there is such a one */
	bool *narrow;     /* by position: depends on elements of fewer than 32 bits, no reduction between */
	uint32_t *leaf;   /* by position: the last load or held value that it is computed from, no other between */
	bool *computed;   /* by position: of wide values that are no loads */
	bool *turned;     /* by position: it is a row turned into a column */
	bool *early;      /* by position: only read after a reduction that it does not need */
	bool *joins_wide; /* by position: reads a wide value that waits as it does, or was there before */
	bool *joins_rows; /* by position: reads a column that waits as it does */
	uint32_t *read_after;  /* by position: the reduction after which it was read last */
	uint32_t *last_reader; /* by position: by what */
	bool *twice;           /* by position: two read it after one reduction */
	bool *met;             /* by AFTER(): something that does not wait for it meets what does */
	int64_t *late;         /* by AFTER(): bytes of what is computed early, before it */
	int64_t *late_load;    /* by AFTER(): the largest tile that is loaded early and widened after it */
} Region;

static inline bool lowering_is_barrier(Lowering how) {
	return how == LOWER_REDUCE || how == LOWER_SCAN || how == LOWER_MATMUL || how == LOWER_LOOP;
}

static inline Lowering how_of(const Region *r, uint32_t pos) {
	return op_lowering(node_get(r->p->m, r->nodes[pos])->op);
}

/* Its elements lie packed in VMEM. */
static inline bool is_narrow(const Module *m, NodeId n) {
	return node_type(m, n)->kind == TYPE_TENSOR && dtype_vmem_bits(node_type(m, n)->dtype) < 32;
}

/* It computes nothing: it rounds or views what is computed elsewhere. */
static inline bool rounds_or_views(const Module *m, NodeId n) {
	Lowering how = op_lowering(node_get(m, n)->op);
	return how == LOWER_VIEW || how == LOWER_ALIAS || node_get(m, n)->op == OP_CONVERT;
}

/* A row that is wanted as a column: transposed, which takes as long as a reduction. */
static inline bool turns_to_column(const Planner *p, NodeId user, NodeId operand) {
	NodeId n = value_root(p->plan, operand);
	const Type *t = node_type(p->m, n);
	return t->kind == TYPE_TENSOR && t->count > 1 && p->plan->values[n].form == FORM_NATURAL &&
	       p->plan->values[user].wants == FORM_COLUMN;
}

static inline bool reduces_lanes(const Planner *p, NodeId n) {
	if (op_lowering(node_get(p->m, n)->op) != LOWER_REDUCE)
		return false;
	uint32_t rank = value_rank(p, node_input(p->m, n, 0));
	return rank > 0 && (reduction_dims(p->m, n) >> (rank - 1) & 1);
}

/* A value's bytes in whole registers; 0 for what is no tensor. */
int64_t spilled_size(const Plan *plan, NodeId n);
/* What holding a value costs: nothing for what is the same in every lane. */
int64_t held_bytes(const Region *r, uint32_t pos);
int64_t last_size(const Plan *plan, NodeId n);
/* It is read after a barrier that comes after it. */
bool region_crosses(const Region *r, uint32_t pos);
bool is_plain_load(const Region *r, uint32_t pos);

typedef void Visit(Region *r, uint32_t user, RegionRef operand);
void each_operand(Region *r, uint32_t user, Visit *visit);
/* Position of the node that computes the value which n names; 0 if that is in another graph. */
uint32_t position(const Region *r, NodeId n);

/* late.c: fills what stands after `both_ways`. */
void region_late(Region *r);

/* moved.c: bytes of the largest value that is moved whole. */
int64_t moves_spills(const Planner *p);

/* columns.c: bytes of what waits for columns that are loaded or turned. */
int64_t columns_spills(const Planner *p);

/* streams.c: bytes that are spilled beside what barriers hold. */
int64_t streams_spills(const Planner *p);

#endif
