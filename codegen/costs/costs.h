/* costs.h - what a plan costs: FLOPs, bytes, steps, and the time they take. */
#ifndef PALLASC_COSTS_H
#define PALLASC_COSTS_H

#include "codegen/plan/plan.h"

void plan_costs(Planner *p); /* costs.c */
void plan_fused(Planner *p); /* fused.c: after plan_costs() */
/* fused.c: it is an input of float16, with blocks that XLA fuses, of a kernel that may read such. */
bool operand_may_fuse(const Planner *p, const Operand *o);
double plan_seconds(Planner *p); /* seconds.c */

/* seconds.c: what the estimate of one grid point is made of, seconds. */
typedef struct PointTimes {
	double matmul, read; /* the MXU at its peak; blocks and windows into registers: beside each other */
	double wait;         /* for windows that loops copy, */
	double between;      /* between the steps of loops, and for matmuls that nothing runs beside, */
	double gathers;      /* for rows that are gathered one by one, */
	double one_hot;      /* for products with one-hot matrices */
	double point;        /* the larger of the first two, and the others */
	double first;        /* the first point waits so long for its blocks */
	double next;         /* the next point's blocks are copied beside a point, where the innermost dim moves on, */
	double shown;        /* and these before it */
} PointTimes;
PointTimes plan_point_times(Planner *p);

/* The same of one step of a loop. */
typedef struct StepTimes {
	double matmul, read;
	double hidden;  /* copies of windows that have several buffers, beside a step; */
	double shown;   /* of those with one, before it */
	double between; /* the units run dry, and what is carried in scratch is read and written */
	double overlap; /* matmuls that could run beside the step before and do not */
	double latency; /* of the first copies and of the last ones, of the whole loop */
} StepTimes;
StepTimes plan_step_times(Planner *p, uint32_t loop);

/* The same: seconds from the start of a grid point's copies until the first bytes are there, where it waits so long. */
double point_latency(const Plan *plan);
/* Windows of a grid operand copied over the whole grid; copies of one window of a loop. */
int64_t operand_fetches(const Plan *p, const Operand *o);
double loop_copies(Planner *p, uint32_t loop);
/* The mean number of times that one grid point enters a loop: the steps of the loops around it. */
double loop_entries(Planner *p, uint32_t loop);

/* costs.c: of the whole grid; of one matmul; the mean steps of a loop, `tail_too`: with the one that is peeled; mean
 * bytes that a copy of one block moves. */
double grid_points(const Plan *p);
double matmul_flops(Planner *p, NodeId n);
double matmul_seconds(Planner *p, NodeId n);
double step_matmul_seconds(Planner *p, const Loop *loop); /* of one step, with those of the loops in it */
double loop_steps(Planner *p, const Loop *loop, bool tail_too);
/* How often one grid point computes a node. */
double node_runs(Planner *p, NodeId n);
/* Of gathers and scatters: how many positions there are, and the bytes that copies of them move. */
double places_rows(const Places *s);
double places_bytes(const Plan *p, const Places *s);
/* Of an operand in windows: how often they are copied, and the bytes. */
void operand_costs(const Plan *plan, Operand *o);
double block_hbm_bytes(const Operand *o, const int64_t *block, const Affine *index);

#endif
