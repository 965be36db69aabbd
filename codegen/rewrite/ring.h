/* ring.h - kernels that run on a ring of devices: what gathering (ring_gather.c) and scattering (ring_scatter.c) share.
 *
 * Each device has a *part* of an array, or is to have it. A part is one *share*, or two where its blocks can be halved:
 * the first goes from device to device to the right, the second to the left. The grid's outermost dim counts *turns*:
 * in each a device works on one share, of the two directions in turn, and after all turns it had all shares of all
 * devices. Within a turn the grid walks over the *tiles* of the share, and within these over whatever it walked over.
 */
#ifndef PALLASC_RING_H
#define PALLASC_RING_H

#include "drive.h"

typedef struct Travel {
	Driver d; /* where statements go */
	Kernel *k;
	const KRing *ring;
	BufferId whole; /* what is gathered or scattered */
	bool in_hbm;    /* it is gathered, and the kernel copies windows of it by itself */
	uint32_t dim;   /* of the array, along which devices have parts */
	uint32_t walks; /* the dim of the grid that walked along it */
	int64_t devices, directions;
	int64_t turns, tiles; /* of the grid, of a share */
	int64_t inner;        /* grid points of a tile */
	int64_t block, share; /* elements along the array's dim */
	/* in the kernel's function */
	IntId me, turn, tile, step; /* this device; where the grid is, `step` of the points of a tile */
	IntId here[RANK_MAX + 1];   /* the same by dim of the grid, the first two `turn` and `tile` */
} Travel;

/* Whether the kernel can; NULL, or why not. It is not changed. */
const char *ring_look(Travel *r, Kernel *k);
/* The grid gets its turns, what it brings follows them, and the function knows where it is. */
void ring_set_grid(Travel *r);

/* ring_gather.c, ring_scatter.c: the same of what is particular to each; the output in HBM that is added. */
const char *gather_look(const Travel *r);
BufferId gather_run(Travel *r);
const char *scatter_look(const Travel *r);
BufferId scatter_run(Travel *r);

/* ---- ints, folded ----------------------------------------------------------------------------------------------- */

static inline IntId ring_number(const Travel *r, int64_t x) { return int_const(r->k, x); }
IntId ring_sum(const Travel *r, IntId a, IntId b);
IntId ring_product(const Travel *r, IntId a, int64_t by);
IntId ring_quotient(const Travel *r, IntId a, int64_t by);
IntId ring_rest(const Travel *r, IntId a, int64_t by);
static inline IntId ring_is(const Travel *r, IntId a, int64_t x) {
	return int_binary(r->k, INT_EQ, a, ring_number(r, x));
}
static inline IntId ring_from(const Travel *r, IntId a, int64_t x) {
	return int_binary(r->k, INT_GE, a, ring_number(r, x));
}
static inline IntId ring_below(const Travel *r, IntId a, int64_t x) {
	return int_binary(r->k, INT_LT, a, ring_number(r, x));
}
IntId ring_both(const Travel *r, IntId a, IntId b);
/* The direction of a turn, 0 to the right or 1 to the left; how many devices further it is. */
static inline IntId ring_direction(const Travel *r, IntId turn) { return ring_rest(r, turn, r->directions); }
static inline IntId ring_round(const Travel *r, IntId turn) { return ring_quotient(r, turn, r->directions); }
/* Of a device the one to which a turn's share goes on; `back`: from which it comes. */
IntId ring_neighbour(const Travel *r, IntId turn, bool back);
/* The share, counted over all devices, that device `me` works on in a turn. */
IntId ring_share(const Travel *r, IntId me, IntId turn);

/* ---- buffers and statements ------------------------------------------------------------------------------------- */

/* So many semaphores. */
BufferId ring_semaphores(const Travel *r, KSpace space, int64_t count, const char *name);
/* One position of a buffer's first dim. */
KArg ring_at(const Travel *r, BufferId b, IntId at);
/* A function of `count` ints: its parameters. Statements go into it until ring_return() gives back a copy. */
FunctionId ring_define(Travel *r, const char *name, uint32_t count, const char *const *names, IntId *parameters,
                       Cursor *outer);
void ring_return(Travel *r, uint16_t op, uint32_t count, const KArg *args, Cursor outer);
/* What it gives, and `op` of that: start, wait, ... */
void ring_do(Travel *r, uint16_t op, FunctionId copy, uint32_t count, const IntId *args);
/* Both neighbours are in the kernel from here on. */
void ring_meet(Travel *r);

#endif
