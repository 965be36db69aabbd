/* plan_work.h - what the kernel moves and computes, and the least time that takes: numbers for report.c and
 * plan_json.c. */
#ifndef PALLASC_PLAN_WORK_H
#define PALLASC_PLAN_WORK_H

#include "plan_text.h"

/* The least times the target's figures allow, each as if the other cost nothing and everything overlapped. */
typedef struct Roofline {
	double mxu_seconds, hbm_seconds;
	double peak;           /* FLOP/s of the MXU, of factors of their dtypes */
	double flops_per_byte; /* of the kernel */
	double balance;        /* FLOPs per byte at which the target's MXU and HBM take equally long */
	int passes;            /* MXU passes that each product takes */
	bool hbm_bound;
} Roofline;
Roofline plan_roofline(const Plan *p);

/* Bytes between HBM and VMEM for one operand over the whole kernel, by the count behind Plan.hbm_bytes. */
double plan_operand_traffic(const Plan *p, uint32_t operand);
/* Of the whole array, once. */
double plan_array_bytes(const Operand *o);
/* Some window of the operand depends on that grid dim. */
bool plan_operand_follows(const Plan *p, uint32_t operand, uint32_t grid_dim);
/* The widths of matmuls (contracted or output dims) that are tiles of block b. */
bool plan_matmul_width(const Plan *p, BlockId b);
/* Some loop's length is only known at run time, so that its steps are counted as one. */
bool plan_computed(const Plan *p);

#endif
