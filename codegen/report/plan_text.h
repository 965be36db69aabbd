/* plan_text.h - the words in which plan_json.c and report.c speak of a Plan. */
#ifndef PALLASC_PLAN_TEXT_H
#define PALLASC_PLAN_TEXT_H

#include "codegen/plan/plan.h"

/* "2*tile_m + j + 1": a grid dim by its block's name, a loop's step by the loop's step variable (with the dim's number
 * in brackets where the loop has several), a computed int by its node's name. */
const char *plan_affine_text(const Plan *p, Arena *a, const Affine *x);
/* The block index of a window over the grid in one dim: "tile_b", "tile_b // 4" of a block that four steps share. */
const char *plan_index_text(const Plan *p, Arena *a, const Operand *o, uint32_t dim);
/* "[tile_b, :, pl.ds(128*j, 128)]" */
const char *plan_slices_text(const Plan *p, Arena *a, const Access *access);

const char *plan_space_name(Space s); /* "vmem", "hbm", "smem" */
const char *plan_block_name(const Plan *p, BlockId b);
/* The name of the tensor or scalar behind an operand. */
const char *plan_operand_name(const Plan *p, const Operand *o);
/* Exclusive end of a block's range, and its length; 0 where they are only known at run time. */
int64_t plan_block_extent(const Plan *p, BlockId b);
int64_t plan_block_length(const Plan *p, BlockId b);
/* Steps that a loop runs each time it is called; -1 where its bounds are computed. */
int64_t plan_loop_steps(const Loop *l);
static inline bool plan_block_chosen(const Plan *p, BlockId b) { return block_is_chosen(&p->module->blocks.at[b]); }

#endif
