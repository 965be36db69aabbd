/* choose.h - the search of what changes the Module: rows of scope MODULE in choices.def. */
#ifndef PALLASC_CHOOSE_H
#define PALLASC_CHOOSE_H

#include "driver.h"
#include "codegen/search/search.h"

/* A kernel may hold so many tiles of whole rows, or of rows that may be split: fewer surely fit. */
enum { TILES_HELD = 8 };
/* Kernels lowered for what is near the defaults: by large moves, by small ones behind them, for steps that are joined.
 */
enum { MOST_NEAR = 16, MOST_LAST = 8, MOST_JOINED = 4 };

/* A block in tiles of another size than the configuration's. */
typedef struct WideBlock {
	BlockId block;
	int64_t size;
	bool overlaps; /* rows of a loop whose steps overlap: they were enough without */
} WideBlock;
typedef VEC(WideBlock) WideBlocks;

/* What a changed clone of the Module is compiled to. */
typedef struct Trial {
	PassContext context;
	Program *program; /* NULL: it is refused, and nothing is said, or known without */
	Outcome outcome;  /* of what fits: the seconds; where it is shared, all */
	bool fits, known; /* known: the outcome is, all of it */
} Trial;

/* A value for each row of scope MODULE; which of them, where a value stands for several sizes. */
typedef struct ModuleWay {
	ChoiceValue at[FIRST_PLAN_ROW];
	uint32_t which[FIRST_PLAN_ROW];
	const int64_t *sizes; /* by BlockId, in place of defaults; NULL: the defaults */
	LoopType type;        /* in place of none */
} ModuleWay;

typedef struct Choosing {
	Compilation *c;
	Module *start; /* configured, as it was before the passes */
	ModuleWay way;
	bool relaxed; /* as if reduction_loops had not been given: what would fit */
	bool all;     /* nothing is left out */
	/* domains */
	ConfigList rows_divided, rows_cut; /* not set: there are none */
	WideBlocks long_steps, more_rows, batches;
	WideBlock columns; /* of steps that may take parts of them; size 0: none */
	bool defaults, long_rows, may_split, may_one_hot, may_fence;
	int64_t row_bytes; /* of rows that loops could take whole; 0: none */
	/* what was tried */
	VEC(struct Tried) tried;
	Trial best;
	ModuleWay best_way;
	uint32_t best_index;
	bool bounded; /* nothing became faster than its drafts */
} Choosing;

/* choose_rows.c: blocks for rows that may be too long. */
void rows_domain(Choosing *s);
/* As KEY=VALUE. */
const char *rows_text(Arena *a, const ConfigList *list);
/* choose_sizes.c: tiles of several blocks. */
void sizes_domain(Choosing *s);
/* Parts of the columns of steps. */
void columns_domain(Choosing *s);
/* Unrolled steps may stand in pairs behind fences, or could if each took a part of the columns. */
bool may_fence(const Choosing *s);
/* As many rows of the root's block as fill a large tile, if nothing looks at its size. */
void sizes_of_whole_rows(Module *m, int64_t row_bytes);
void sizes_enlarge(Module *m, const WideBlock *wide, ChoiceValue value);

/* choose.c: a clone of the start that has this way, not configured yet. */
Module *choose_module(const Choosing *s, const ModuleWay *way);
/* choose_near.c: what was found gives way to a configuration near it that is faster. */
void choose_near(Choosing *s);

/* Leaves in the compilation what it goes on with: the program if a trial showed it, else the settings. */
void compile_choose(Compilation *c);
/* Nothing left out; the same outcome. `bounded`: as plan_search_all(). */
Program *choose_all(Compilation *c, bool *bounded);
/* adapt.c: the nearest power of two above or below. */
int64_t power_beside(int64_t size, bool up);
/* Changes the configuration, as little as may be, until it is accepted; notes say what and why. */
void compile_adapt(Compilation *c);
/* Why it was refused is said: adds the reduction_loops that would fit, where whole rows were asked for. */
void compile_say_what_fits(Compilation *c);

#endif
