/* runs.h - what rewrite_runs.c makes of a grid: a loop over its points, whose copies are the kernel's own. */
#ifndef PALLASC_RUNS_H
#define PALLASC_RUNS_H

#include "drive.h"

/* Operands whose blocks change at the same points, and have as many slots. */
typedef struct Track {
	IntId index[KDIM_MAX]; /* what tells their blocks: ints that are no constants */
	uint32_t count;
	int slots;
	bool in; /* inputs are among them */
	const char *name;
	BufferId runs; /* in SMEM: the first point of each run, and behind the last the number of points */
	FunctionId start;
	/* in the body: */
	IntId run, slot;      /* parameters: the number of the next run, and the slot of the point before */
	IntId new, now, next; /* flag: a run begins here; slot of this point; the number of the run behind its own */
} Track;

typedef struct Moved {
	BufferId of, window, semaphore;
	KBuffer block; /* the operand as it was */
	uint32_t track;
	FunctionId copy;
	const struct Visited *visited; /* NULL */
} Moved;

typedef struct FirstPoint FirstPoint;

typedef struct Runs {
	Kernel *k;
	Driver d;
	int64_t points;
	RefId refs; /* those before are of what computes a point */
	VEC(Track) tracks;
	VEC(Moved) moved;
	FirstPoint *first; /* the first point has code of its own; NULL */
} Runs;

static inline IntId runs_number(const Runs *r, int64_t n) { return int_const(r->k, n); }
/* How often the grid computes. */
int64_t runs_points(const Kernel *k);
/* An operand's blocks come, or go, in windows of the kernel's own: so many slots as its track has. */
Moved *runs_take_over(Runs *r, BufferId operand, uint32_t track);
/* Its function of copies: of a point's block, and a slot. */
void runs_define_copy(Runs *r, Moved *m);
/* What the points' references select of the block they select of its slot. */
void runs_refer_to_slot(const Runs *r, const Moved *m);
/* Slots go round. */
IntId runs_slot_after(Runs *r, const Track *t, IntId slot);
/* What computes a point, in its function. */
void runs_move_points(Runs *r, RegionId from, IntId point);
/* The part of the array that is the operand's block at a point, dim by dim. */
void runs_block_at(Runs *r, const Moved *m, IntId point, KDim *dims);
/* Starts the copy of a point's block, or waits for it. */
void runs_put_copy(Runs *r, uint16_t op, const Moved *m, IntId point, IntId slot);

/* runs_first.c: NULL if what computes a point, the kernel's body, is not such; before anything is changed. */
FirstPoint *first_point_find(Runs *r);
/* The chunks' copies, and what else the first point reads. */
void first_point_start(Runs *r);
/* What computes it, out of what computes the others. */
void first_point_compute(Runs *r, RegionId computes);

#endif
