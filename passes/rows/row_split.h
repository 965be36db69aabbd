/* row_split.h - what row_split.c finds and row_split_rewrite.c does. */
#ifndef PALLASC_ROW_SPLIT_H
#define PALLASC_ROW_SPLIT_H

#include "passes/facts/facts.h"

typedef enum RowRole {
	ROLE_OUTSIDE, /* knows nothing of rows */
	ROLE_ROW,     /* each row by itself: moves into the loop */
	ROLE_SUM,     /* adds up over rows, or takes their maximum or minimum: moves, and is carried */
	ROLE_AFTER    /* uses what was added up: stays behind the loop */
} RowRole;

typedef struct RowSplit {
	PassContext *c;
	Module *m;
	GraphId root;
	BlockId block;   /* of the grid: its rows are split */
	int64_t rows;    /* of one step */
	int64_t largest; /* bytes of the largest tile, as 32-bit values */
	int64_t windows; /* bytes of the tiles that are loaded and stored */
	RowRole *role;   /* by NodeId, as far as the Module had nodes before */
	uint32_t nodes;  /* how many that were */
	const char *why; /* not: the reason */
	NodeId at;       /* the node that says so; NONE */
} RowSplit;

/* Splits what s describes. False after a diagnostic. */
bool row_split_rewrite(RowSplit *s);

#endif
