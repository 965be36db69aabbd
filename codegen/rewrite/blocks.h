/* blocks.h - masked steps in blocks: what the files of the rewrite share. rewrite_blocks.c is where it begins. */
#ifndef PALLASC_BLOCKS_H
#define PALLASC_BLOCKS_H

#include "rewrite.h"

enum { BLOCK = 256, TERMS_MAX = 8, STEPS_MAX = 2 };

/* What a value is on columns that the mask leaves out, or, of one without columns, where it leaves out all of them. */
typedef enum Known { KNOWN_NOT, KNOWN_INF, KNOWN_ZERO, KNOWN_ONE, KNOWN_SAME /* as a parameter is */ } Known;

typedef struct Part {
	int64_t start, size;
} Part;

/* A step behind the loop. */
typedef struct Step {
	StmtId call, ahead; /* of what ran ahead of it, if that stands behind the loop; NONE */
	Part *columns;      /* by block of rows: those that it needs; none: all is masked */
	bool *masked;       /* ... and whether the mask leaves some of these out */
} Step;

typedef struct Blocks {
	Kernel *k;
	RegionId region;
	uint32_t values; /* that there were before */
	FunctionId step;
	StmtId where; /* the choice by position */
	ValueId flag;
	uint32_t *root;         /* by axis of a value, then of a buffer: one of its class */
	bool *whole;            /* by class: it cannot be cut */
	uint32_t rows, columns; /* classes */
	uint32_t row_axis;      /* of the mask, from its end: 0 or 1 */
	Known *known;           /* by value */
	uint32_t *same;         /* by value that is as a parameter is: which value */
	bool skips;             /* a step of which all columns are masked gives what it is given */
	int64_t size[2];        /* rows, columns of a step */
	bool moves[2];          /* not all blocks start at the first row, or column */
	uint32_t parts;         /* blocks of rows */
	Step steps[STEPS_MAX];
	uint32_t count;
	VEC(FunctionId) made; /* functions of blocks, ... */
	VEC(FunctionId) made_of;
	VEC(Part) made_size; /* (rows, columns) of each */
} Blocks;

static inline bool block_is_tile(const Kernel *k, KArg x) {
	return x.kind == KARG_VALUE && k->values.at[x.value].type == KTYPE_TILE;
}

/* blocks_axes.c: an axis of a value, of a buffer, and its class; rows 0, columns 1, 2 neither. */
uint32_t block_value_axis(uint32_t v, uint32_t axis);
uint32_t block_buffer_axis(const Blocks *b, BufferId buffer, uint32_t axis);
uint32_t block_class(Blocks *b, uint32_t axis);
uint32_t block_cut(Blocks *b, uint32_t axis);
/* Which dim of a value is of the class; NONE. */
uint32_t block_value_dim(Blocks *b, ValueId v, uint32_t class);
void blocks_join_values(Blocks *b, ValueId x, ValueId y);
/* Axes of all that the function computes. */
void blocks_join_function(Blocks *b, FunctionId f);
bool blocks_fold(const Kernel *k, StmtId s);
bool blocks_dot(const Kernel *k, StmtId s);

/* blocks_mask.c: whether a condition holds of the places of the mask's last two dims, from the end, in such parts. */
typedef enum Holds { HOLDS_SOMEWHERE, HOLDS_ALWAYS, HOLDS_NEVER } Holds;
Holds blocks_hold(const Blocks *b, StmtId call, KArg x, const Part part[2]);
/* Columns that are left out change nothing in the step; and whether all of them may be. */
bool blocks_know_step(Blocks *b);

/* blocks_functions.c: the function of a block of (rows, columns); whether it takes where its rows, or columns, start.
 */
FunctionId blocks_function(Blocks *b, FunctionId of, Part size);
bool blocks_read_start(Blocks *b, FunctionId f, uint32_t cut);

#endif
