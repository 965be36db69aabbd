/* blocks.h - masked steps in blocks: what the files of the rewrite share. rewrite_blocks.c is where it begins. */
#ifndef PALLASC_BLOCKS_H
#define PALLASC_BLOCKS_H

#include "mask_blocks.h"
#include "rewrite.h"

enum { LEAVES_MAX = 8 };

/* What a value is on columns that the mask leaves out, or, of one without columns, where it leaves out all of them. Of
 * a running maximum, `low`, that is -inf as long as a row has seen nothing, what is made of it has a number of its own
 * there. */
typedef enum Known {
	KNOWN_NOT,
	KNOWN_INF, /* -inf */
	KNOWN_ZERO,
	KNOWN_ONE,
	KNOWN_SAME, /* as a parameter is */
	KNOWN_LOW,  /* a flag: the parameter is -inf */
	KNOWN_SAFE, /* as the parameter is, 0 where that is -inf */
	KNOWN_LOST, /* 0, -inf where it is */
	KNOWN_KEEPS /* 1, 0 where it is */
} Known;

typedef struct Part {
	int64_t start, size;
} Part;

/* A step behind the loop. */
typedef struct Step {
	StmtId call, ahead; /* of what ran ahead of it, if that stands behind the loop; NONE */
	Part *columns;      /* by block of rows: those that it needs; none: all is masked */
	bool *masked;       /* ... and whether the mask leaves some of these out */
} Step;

/* A comparison of positions in a block of rows and columns, counted from its first ones: as much as is known of it. */
typedef enum Holds { HOLDS_SOMEWHERE, HOLDS_ALWAYS, HOLDS_NEVER } Holds;
typedef struct Bound {
	Holds holds;
	bool fixed; /* column <= row + by, or if `since` column >= row + by */
	bool since;
	int64_t by;
} Bound;

/* Of a step's function what a block needs: it is made once for all that need the same. */
typedef struct Variant {
	FunctionId of;
	int64_t size[2];         /* rows, columns */
	bool moves[2];           /* blocks start elsewhere than at the first row, or column */
	bool masked;             /* the mask leaves out some */
	Bound bound[LEAVES_MAX]; /* of its comparisons, as they stand in the function; what differs by call are the
	                            numbers */
	uint32_t bounds;
	uint64_t zero, low; /* by parameter: it is 0, or -inf, in the first step */
	bool early;         /* what ran ahead of it is masked, and its maxima are taken, where that stands */
} Variant;

/* Maxima of what is masked. */
enum { EARLY_MAX = 2 };

/* The function of what is masked early: it gives that, and its maxima. */
typedef struct EarlyMask {
	FunctionId f;  /* NONE: there is none */
	ValueId tile;  /* the step's parameter that stands for what is masked, too */
	bool *kept;    /* by parameter of the step: it has that one */
	bool start[2]; /* as of Made */
	uint32_t maxima;
} EarlyMask;

typedef struct Made {
	Variant variant;
	FunctionId f;
	bool *kept;     /* by parameter: it has that one */
	bool start[2];  /* behind those the first row and column of its block; behind these the numbers of fixed bounds
	                 */
	EarlyMask mask; /* of an early one: `f` has no bounds, and takes the maxima last */
} Made;
typedef VEC(Made) MadeList;

/* Scratch through which blocks of so many rows go, of that dim. */
typedef struct Through {
	BufferId buffer;
	uint32_t dim;
	int64_t rows;
	bool others; /* something else does, too */
} Through;
typedef VEC(Through) ThroughList;

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
	uint32_t *low;   /* by value: the running maximum; of one that is as a parameter is, 0 where that is -inf, NONE:
	                    as it is everywhere */
	bool skips;      /* a step of which all columns are masked gives what it is given */
	int64_t size[2]; /* rows, columns of a step */
	bool moves[2];   /* not all blocks start at the first row, or column */
	uint32_t parts;  /* blocks of rows */
	Step steps[MASK_STEPS];
	uint32_t count;
	StmtId next;        /* what runs ahead of the next point's first step, of which nothing is masked; NONE */
	StmtId *next_store; /* by result of it: where that goes */
	StmtId rest;        /* what stands behind them, from here on, goes on block by block; NONE: it does not */
	MadeList *made;
	ThroughList *through;
} Blocks;

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
void blocks_join_stmt(Blocks *b, StmtId s);
bool blocks_fold(const Kernel *k, StmtId s);
bool blocks_dot(const Kernel *k, StmtId s);

/* blocks_mask.c: whether a condition holds of the places of the mask's last two dims, from the end, in such parts. */
Holds blocks_hold(const Blocks *b, StmtId call, KArg x, const Part part[2]);
/* The same of one comparison of the condition. */
Bound blocks_bound(const Blocks *b, StmtId call, StmtId s, const Part part[2]);
bool blocks_compares(const Kernel *k, StmtId s);
/* Columns that are left out change nothing in the step; and whether all of them may be. */
bool blocks_know_step(Blocks *b);
/* A parameter of the step starts as a number, in the first of the steps. */
bool blocks_start_as(const Blocks *b, ValueId parameter, double number);

/* blocks_rest.c: what stands behind the steps can go on block by block, to the region's end. */
bool blocks_find_rest(Blocks *b);

/* blocks_functions.c */
const Made *blocks_function(Blocks *b, const Variant *v);

#endif
