/* costs.h - what a plan costs: FLOPs, bytes, steps, and the time they take. */
#ifndef PALLASC_COSTS_H
#define PALLASC_COSTS_H

#include "codegen/plan/plan.h"

void plan_costs(Planner *p); /* costs.c */
void plan_fused(Planner *p); /* fused.c: after plan_costs() */
/* fused.c: it is an input of float16, with blocks that XLA fuses, of a kernel that may read such. */
bool operand_may_fuse(const Planner *p, const Operand *o);
double plan_seconds(Planner *p); /* seconds.c */
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
double loop_steps(Planner *p, const Loop *loop, bool tail_too);
/* How often one grid point computes a node. */
double node_runs(Planner *p, NodeId n);
/* Of gathers and scatters: how many positions there are, and the bytes that copies of them move. */
double places_rows(const Places *s);
double places_bytes(const Plan *p, const Places *s);
double block_hbm_bytes(const Operand *o, const int64_t *block, const Affine *index);

#endif
