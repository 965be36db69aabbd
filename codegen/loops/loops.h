/* loops.h - the grid and the inner loops: how each is lowered, what it carries, what runs ahead, what is computed in
 * strips. */
#ifndef PALLASC_LOOPS_H
#define PALLASC_LOOPS_H

#include "codegen/plan/plan.h"

/* False after diagnostics, as all steps of the plan. */
/* grid.c. `order`: of the root's dims; NULL: the configuration's, else the graph's. */
bool plan_grid(Planner *p, const uint32_t *order);
/* orders.c: the order of a grid's or loop's dims, which the configuration gives; NULL: it gives none. */
const ConfigList *loop_order_given(Planner *p, GraphId g);
/* That, or the graph's, as places in its list of blocks. */
void loop_order(Planner *p, GraphId g, uint32_t *order);
/* The loop's steps may run in the order that is given; false after a diagnostic. */
bool loop_order_kept(Planner *p, const Loop *loop);
/* The configuration gives the order of the grid's dims. */
bool grid_order_given(Planner *p);
bool plan_loops(Planner *p); /* loops.c */
/* straight.c: why this loop is straight code whatever type is asked for; NULL if it is not. Marks the plan if it could
 * be. */
const char *loop_straight(Planner *p, const Loop *loop);
bool plan_carries(Planner *p);   /* loops.c */
void plan_unmasked(Planner *p);  /* unmasked.c; after plan_skew() */
void plan_lane_sums(Planner *p); /* lane_sums.c; after plan_skew() */
void plan_across(Planner *p);    /* across.c; after plan_skew() */
void plan_skew(Planner *p);      /* skew.c */
/* counted.c */
/* Of a dim whose bounds are computed, where it can be known. */
StepCounts dim_counts(Planner *p, const LoopDim *d);
/* False: not known, or there may be none. */
bool loop_counts(Planner *p, const Loop *loop, StepCounts *out);
/* Of loop `l` the choice, by position, gives all lanes of its first value but in the `last` steps at most; or, where
 * `first` is given, in the first step as well: then that is set. */
bool choice_is_seldom(Planner *p, uint32_t l, NodeId choice, const StepCounts *counts, int64_t last, bool *first);
/* How many steps there are where the planner's pins leave one number of them; false: they do not. */
bool dim_steps_here(Planner *p, const LoopDim *d, int64_t *steps);
/* The condition, of positions, holds for no lane of its tile, wherever the planner's pins and parts leave it. */
bool condition_fails(Planner *p, NodeId n);
/* bodies.c: which loops become a body for each number of their steps; before plan_carries() */
void plan_bodies(Planner *p);
/* VMEM in which such steps are handed a value: those of two blocks of rows. */
uint32_t bodies_scratch(Planner *p, const Loop *loop, NodeId n);
/* Each of them is skewed, and cut; after plan_skew() */
bool plan_bodies_stand(const Plan *plan);
/* loops.c: a VMEM buffer for a value of a loop; its index in plan->scratches. */
uint32_t carry_scratch(Planner *p, NodeId value, const char *why);
void plan_strips(Planner *p); /* strips.c */
/* remote.c: copies between devices are waited for. Sets plan->remote. */
bool plan_remote(Planner *p);

/* group.c: the configuration asks for windows of several steps; they hold all of this loop's, else false after a
 * diagnostic. */
bool group_holds_all(const Module *m, LoopType type);
bool group_covers(Planner *p, const Loop *loop);

/* strips.c: n may be printed inside its user; bytes of the stashes. */
bool strips_may_inline(const Plan *p, NodeId n, NodeId user);
int64_t strips_bytes(const Plan *p);

#endif
