/* live.h - a kernel as the TPU compiler schedules it, for spills.c and the files beside it: what is read until when,
 * what waits for what. Positions count a region's values and stores from 1, carried values first. */
#ifndef PALLASC_LIVE_H
#define PALLASC_LIVE_H

#include "codegen/kernel/kernel.h"
#include "codegen/plan/plan.h"

/* No value counts for more: far above any VMEM, and sums stay below 2^63. */
#define TOO_MUCH (INT64_C(1) << 34)

/* What waits for the reduction at a position; in an unrolled step, for one before its loop. */
#define AFTER(pos) ((pos) + 1)
enum { OUTSIDE = AFTER(0) };

typedef enum Part {
	PART_NOTHING, /* a constant, an int, the end of a region */
	PART_STREAM,  /* computed register by register as its operands come */
	PART_MOVE,    /* lanes go elsewhere */
	PART_LOAD,
	PART_STORE,
	PART_CARRIED,
	PART_RESULT, /* of a loop */
	/* Barriers: all of an operand is read before anything that depends on it starts. */
	PART_REDUCE,
	PART_SCAN,
	PART_PRODUCT, /* a matmul, with the sum that it is added to */
	PART_LOOP
} Part;

/* Of what columns meet. */
typedef enum Shape { SHAPE_OTHER, SHAPE_COLUMN, SHAPE_TILE } Shape;

typedef struct Live {
	struct Region *region;
	uint32_t pos;
	StmtId stmt;         /* NONE: a carried value */
	ValueId value;       /* NONE: it gives none */
	struct Region *body; /* of a loop */
	Part part;
	int64_t bytes;        /* in whole registers */
	Shape shape;          /* a column that is spread along lanes stays one */
	bool column;          /* no wider than a register */
	uint32_t read, reads; /* what it reads, in Lives.reads */
	bool looped;          /* a loop reads it */
	uint32_t uses;        /* arguments that read it */
	uint32_t until;       /* the last position that reads it, streaming users seen through */
	uint32_t barriers;    /* before it */
	bool carries;         /* it depends on a carried value */
	bool frontier;        /* it does not, but something that does reads it */
	bool loaded;          /* it is computed of loads, and of nothing that is there only after a barrier */
	bool split;           /* its rows are lanes of a tile that it is computed of */
	bool narrow;          /* it depends on elements of fewer than 32 bits, no reduction between */
	/* waits.c */
	uint32_t waits; /* AFTER() the last reduction along lanes that it depends on; 0: none */
	bool reduced;   /* it depends on a reduction along lanes in any region, or is one */
	bool early;     /* only read after a reduction that it does not need */
	bool joins;     /* it reads a wide value that waits as it does, or was there before */
	bool spread;    /* it is a column that is loaded, or computed of such */
	bool computed;  /* it is a tile that is more than loaded */
	uint8_t met;    /* loaded columns that the tile has met, one after the other; at most 2 */
	StmtId seen;    /* the last store that it was seen from */
} Live;

typedef struct Region {
	struct Lives *of;
	const KLoop *loop; /* whose step it is; NULL: the kernel's function */
	uint32_t count;
	Live *at;             /* by position */
	VEC(ValueId) outside; /* values of regions around it that it reads */
	bool stores;          /* it stores something */
	bool multiplies;      /* straight code with a matmul */
	bool both_ways;       /* it reduces tiles along lanes, and tiles along other dims only */
	bool any_waits;
	int64_t *late;      /* by AFTER(): bytes of what is computed early, before it */
	int64_t *late_load; /* by AFTER(): the largest tile that is loaded early and widened after it */
} Region;

typedef struct Lives {
	const Kernel *k;
	const Target *t;
	Arena *a;
	Live **value; /* by value: NULL: of a signature, a grid, ... */
	VEC(Live *) reads;
	Region *root;
	uint32_t *uses;    /* by value: arguments that read it */
	BufferId *operand; /* by buffer: of a window its operand; else itself */
	int64_t beside;    /* bytes that are spilled beside the peak: of ragged last steps, of what waits in others */
	int64_t columns;   /* of what waits for columns that are loaded or turned */
	bool copies;       /* the kernel waits for copies of its own, behind which no chip's compiler loads again */
} Lives;

/* What the registers hold across barriers. */
static inline int64_t held_bytes(const Target *t) { return target_registers_bytes(t, t->held_registers); }

static inline bool part_streams(Part part) { return part == PART_STREAM; }
static inline bool part_is_barrier(Part part) { return part >= PART_REDUCE; }
static inline const KStmt *live_stmt(const Lives *l, const Live *x) { return &l->k->stmts.at[x->stmt]; }
static inline uint16_t live_op(const Lives *l, const Live *x) {
	return x->stmt == NONE ? (uint16_t)K_FIRST : live_stmt(l, x)->op;
}
/* Of a load or a store. */
static inline const KRef *live_ref(const Lives *l, const Live *x) {
	return &l->k->refs.at[l->k->args.at[live_stmt(l, x)->arg_first].ref];
}
/* A block that the very step that reads it again filled. */
static inline bool buffer_is_filled(const KBuffer *b) {
	return b->held && (b->held->fill || b->held->copy) && b->held->revisits == 0;
}
static inline const KValue *live_value(const Lives *l, const Live *x) {
	static const KValue none;
	return x->value == NONE ? &none : &l->k->values.at[x->value];
}
static inline int64_t last_size(const KValue *v) { return v->rank ? v->shape[v->rank - 1] : 1; }
static inline bool is_narrow(const KValue *v) { return v->rank > 0 && dtype_vmem_bits(v->dtype) < 32; }
static inline int64_t rows_of(const KValue *v) {
	int64_t rows = 1;
	for (uint32_t i = 0; i + 1 < v->rank; i++)
		rows = int_min(rows * int_max(v->shape[i], 1), TOO_MUCH);
	return rows;
}

/* live.c */
Part part_of_op(uint16_t op);
Lives *lives_of(const Kernel *k, const Target *t, Arena *a);
/* Argument i of what gives or stores a value; NULL: a number, a reference. */
Live *live_operand(const Lives *l, const Live *x, uint32_t i);
/* It is read after a barrier that comes after it. */
bool live_crosses(const Live *x);
/* What it rounds, or views, or is. */
Live *live_computed_as(const Lives *l, Live *x);
bool live_rounds_or_views(const Lives *l, const Live *x);
/* The matmul's product that this sum adds up, scaled or rounded between and nothing else; NULL. */
Live *live_product(const Lives *l, const Live *sum);
bool live_reduces_lanes(const Lives *l, const Live *x);
bool live_reduces_rows(const Lives *l, const Live *x);
bool live_is_plain_load(const Lives *l, const Live *x);
/* Straight code: the region itself, and the steps of an unrolled loop. */
static inline bool region_is_unrolled(const Region *r) { return r->loop && r->loop->type == LOOP_UNROLL; }
/* Its step stands a second time, ragged, after its loop. */
static inline bool region_is_again(const Region *r) { return r->loop && r->loop->peel && !region_is_unrolled(r); }
/* Bytes in registers, as elements of 32 bits at least. */
int64_t live_wide_bytes(const Lives *l, const Live *x);
typedef void Visit(Region *r, Live *user, Live *operand);
void each_read(Region *r, Visit *visit);

/* waits.c: what is computed before what it waits for. */
void region_waits(Region *r);
/* spill_stores.c: what stores and loads keep. */
int64_t spilled_by_stores(const Lives *l);
/* spill_moves.c: bytes of the largest value that is moved whole. */
int64_t spilled_by_moves(const Lives *l);
/* spill_strips.c: of a kernel whose rows are computed in strips. */
int64_t spilled_by_strips(const Lives *l);
/* spill_halves.c: of float16 on the way to float32. */
int64_t spilled_by_halves(const Lives *l);
/* spill_ints.c: of long chains of ints. */
int64_t spilled_by_ints(const Lives *l);
/* spill_ints.c: of indices of the greatest lanes, where barriers hold less. */
int64_t waiting_indices(const Lives *l);
/* spill_chains.c: of long chains that end at what waits. */
int64_t spilled_by_late_chains(const Lives *l);
/* spill_batches.c: of factors that are masked for a batch of matmuls. */
int64_t spilled_by_batches(const Kernel *k);
/* spills.c: bytes of the values kept at once that the vector registers have no room for. */
int64_t kernel_spills(const Kernel *k, const Target *t, Arena *a);
/* margin.c */
Doubt kernel_doubt(const Kernel *k);
/* Bytes that it may need beside its buffers and the spills that are counted. */
int64_t margin_bytes(const Target *t, Doubt doubt, int64_t buffers, int64_t spills);

#endif
