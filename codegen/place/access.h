/* access.h - what a load or store wants of its tensor, and the two files that answer: operand.c (what stands in VMEM or
 * HBM over the grid) and window.c (what an inner loop's step sees). */
#ifndef PALLASC_ACCESS_H
#define PALLASC_ACCESS_H

#include "codegen/plan/plan.h"

/* What an access wants of one dim of the tensor as the graph names it. */
typedef enum WantKind {
	WANT_WHOLE,
	WANT_GRID,  /* the tile of a block that the grid iterates */
	WANT_STEP,  /* the tile of a block that an inner loop iterates */
	WANT_AT,    /* one position */
	WANT_RANGE, /* so many elements from a position */
	WANT_GATHER /* the positions that an int tensor gives */
} WantKind;

typedef struct Want {
	WantKind kind;
	BlockId block;           /* whose tile it is; NONE */
	bool shifted;            /* RANGE: a block and its halo, which may lie outside the tensor: halo.c */
	uint32_t loop, loop_dim; /* STEP */
	uint32_t grid_dim;       /* GRID */
	int64_t size;            /* elements of the tile */
	NodeId index;            /* GATHER: the positions, 1-D */
	Affine at;               /* first element; WHOLE: 0 */
	int64_t extent;          /* of the tensor's dim */
} Want;

typedef struct AccessWant {
	NodeId node;
	TensorId tensor;
	bool store; /* it writes: a store or an atomic */
	uint32_t rank;
	Want dim[RANK_MAX];
	uint32_t loop;     /* the innermost loop that moves it; NONE */
	const char *stays; /* the loop could copy it, but it is better resident: why; NULL */
	bool saves_half;   /* so at most half of the bytes move */
	bool held;         /* of a tensor whose block is held: held.c */
	uint32_t held_in;  /* the operand that holds it */
	uint32_t places;   /* the positions that int tensors give: places.c; NONE */
	bool table;        /* elements of a tensor that stands in SMEM: smem.c */
	bool part;         /* what devices exchange: parts.c */
	bool stays_in_hbm; /* of a tensor that devices exchange parts of, which stays in HBM */
	bool rows;         /* of its tensor single rows are exchanged: it has a unit dim before the last */
} AccessWant;

typedef VEC(AccessWant) AccessWants;

/* held.c */
/* The tile of one grid dim that a loop's steps never leave, as block size and block index; false if there is none. */
bool want_tile(Planner *p, const Want *w, int64_t *size, Affine *index);
/* Where its last tile ends: past the dim's end if it is ragged. */
int64_t want_end(Planner *p, const Want *w);
/* Some of the tile's lanes are invalid and inside the tensor: a write there must leave them alone. */
bool want_partial(Planner *p, const AccessWant *w);
/* Marks the accesses of tensors that are held; false after a diagnostic. */
bool held_mark(Planner *p, AccessWants *wants);
/* The order of grid dims in which visits of held blocks are consecutive; false: it is so already. */
bool held_order(Planner *p, const AccessWants *wants, uint32_t *order);
/* The operands that hold them, and each access's slice of its operand; false after diagnostics. */
bool held_operands(Planner *p, AccessWants *wants);
void held_access(Planner *p, const AccessWant *w, Access *access);

/* positions.c */
/* All that reads the load is an index of a gather. */
bool reads_positions(const Planner *p, NodeId load);
/* The dim of the access that gathers; NONE. */
static inline uint32_t want_gathers(const AccessWant *w) {
	uint32_t i = 0;
	while (i < w->rank && w->dim[i].kind != WANT_GATHER)
		i++;
	return i < w->rank ? i : NONE;
}
/* How many dims of the tensor the access keeps: the rank of what it reads or writes, at one position. */
static inline uint32_t want_kept(const AccessWant *w) {
	uint32_t kept = 0;
	for (uint32_t i = 0; i < w->rank; i++)
		kept += w->dim[i].kind != WANT_AT;
	return kept;
}
/* Gives accesses at places that a table gives the loop that can copy their windows; refuses other gathers. After
 * tables_mark(). */
void positions_mark(Planner *p, AccessWants *wants);
/* Does away with what only the copies of windows read. */
void positions_fold(Planner *p);
/* Where the loop's window is in that dim is known before its step runs. */
bool want_ahead(const Planner *p, uint32_t loop, const Want *want);
/* The same of a block of the grid's pipeline: by the grid's point, and what tables give for it. */
bool point_tells(Planner *p, const Affine *at);
/* An index map counts by that: its tables are there before the grid starts. */
void point_prefetch(Planner *p, const Affine *at);

/* places.c */
/* A dim of the access, whose value has `kept` dims before, at the positions of an int tensor; returns how many dims the
 * value gets by it. */
uint32_t want_places(Planner *p, AccessWant *w, Want *want, const Arg *entry, uint32_t kept);
/* The scratch of the access's positions, if it has any; false after a diagnostic. */
bool places_plan(Planner *p, const AccessWant *w, const Access *access);

/* halo.c */
/* Dim i of the access can be `want`, a block of the grid and one beside it. */
bool halo_fits(Planner *p, const AccessWant *w, uint32_t i, const Want *want);
/* What the two blocks are, of an access whose dim i is so. */
void halo_split(Planner *p, const AccessWant *w, uint32_t i, AccessWant *block, AccessWant *beside, Halo *halo);
/* The dim of the access that is so; NONE. */
static inline uint32_t want_shifted(const AccessWant *w) {
	uint32_t i = 0;
	while (i < w->rank && !w->dim[i].shifted)
		i++;
	return i < w->rank ? i : NONE;
}

/* rows.c */
/* Marks the gathers that copy rows from HBM, if this way of planning does; false after a diagnostic. */
bool rows_mark(Planner *p, AccessWants *wants);
/* Such an access. */
bool rows_copied(Planner *p, const AccessWant *w, Access *access);

/* Why the rows of a gather cannot be copied; NULL if they can. */
const char *rows_not_copied(Planner *p, const AccessWant *w);

/* operand.c */
/* The tensor as an array of the kernel: the wrapper's steps, the shape after them, and which dim is which. */
bool operand_array(Planner *p, Operand *o, const AccessWant *w);
/* It permutes the last two dims, and nothing else. */
bool tensor_swaps_last_two(const Tensor *view);
/* within.c: the array of whose slice, the operand's last step, such blocks are windows; NULL: they are not. */
const Within *operand_within(Planner *p, const Operand *o, const int64_t *block, TileUse use);
/* It is the operand, if it is there: the wrapper makes no slice. */
void operand_take_within(Planner *p, Operand *o, const Within *in);
/* hbm_layout.c: XLA lays the array out with its last two dims swapped, and so the kernel takes it. */
bool operand_lies_swapped(Planner *p, const Operand *o);
void remark_swapped(Plan *plan);
/* How a slice of its block is cut. What takes an input's buffer over lies in HBM as the input does. */
static inline TileUse operand_slice_use(const Operand *o) {
	return o->output && o->alias_of == NONE ? TILE_SLICE_OUT : TILE_SLICE;
}
/* placement.c: makes a window that a loop copies legal for the last two dims, as `use` asks, with a boundary view where
 * that helps. Returns NULL, or what is wrong. */
const char *operand_align(Planner *p, Operand *o, int64_t *block, Affine *index, uint32_t tensor_rank, TileUse use);
/* Sets block and block index that the grid's pipeline brings for w, before alignment; false after a diagnostic. */
bool operand_block(Planner *p, Operand *o, const AccessWant *w, bool step_is_tail);
/* Slices that start between tiles are cut out of whole ones: blocks of whole tiles. */
void round_to_slices(Planner *p, Operand *o, const AccessWant *w);
/* placement.c: some block of the grid's pipeline is the access's tile. */
bool operand_placeable(Planner *p, const AccessWant *w);
/* Makes the block that operand_block() found legal for the chip, in the cheapest way; false after a
 * diagnostic. */
bool operand_place(Planner *p, Operand *o, const AccessWant *w);
/* The operand's index in the plan: an equal one that is there already, or a new one. */
uint32_t operand_intern(Planner *p, Operand *o, const char *suffix);
/* An operand that the grid's own pipeline brings to VMEM; NONE after a diagnostic. */
uint32_t operand_window(Planner *p, const AccessWant *w, bool step_is_tail, const char *suffix);
bool refuse_block(Planner *p, const AccessWant *w, const char *why);

/* buffers.c */
/* jax's grid pipeline keeps 1 or 2 windows of an input, and third.c may make a pipeline of 3 of it: sets o->buffers, or
 * false after a diagnostic. A tensor that a loop copies as well keeps its count there. */
bool grid_buffers(Planner *p, Operand *o, bool also_copied);

/* smem.c: marks the accesses of tensors that stand whole in SMEM; the operand of one. */
void tables_mark(Planner *p, AccessWants *wants);
uint32_t operand_table(Planner *p, const AccessWant *w);

/* parts.c */
/* Whether devices exchange parts of a tensor, and where that stands. */
typedef enum Exchange { EXCHANGE_NOT, EXCHANGE_IN_HBM, EXCHANGE_HELD } Exchange;
Exchange tensor_exchange(Planner *p, const AccessWants *wants, TensorId base);
/* Where what devices exchange stands; false after a diagnostic. After held_mark(). */
bool parts_mark(Planner *p, AccessWants *wants);
/* The operands that stay in HBM, and the scratch of copies. After held_operands(). */
bool parts_operands(Planner *p, AccessWants *wants);
/* Such an access. */
bool part_access(Planner *p, const AccessWant *w, Access *access);
/* placement.c: a unit dim before the last, if there is none. */
void operand_unit_rows(Planner *p, Operand *o, uint32_t tensor_rank);

/* residency.c: marks inputs that stay resident although loops could copy them, if this way of planning keeps them. */
void residency_mark(Planner *p, AccessWants *wants);

/* window.c */
/* What the compiler must be told that its start is a multiple of; 0: it sees that by itself. */
int64_t slice_hint(Planner *p, const Operand *o, uint32_t d, const Affine *at);
/* Dim d of o's block such that all that is read around a slice lies in it. */
int64_t slice_block(Planner *p, const Operand *o, uint32_t d, int64_t size, const Affine *at);
/* Makes a slice of dim d of a block in VMEM one that Mosaic takes: says what is read around it. */
void slice_place(Planner *p, const Operand *o, uint32_t d, SliceDim *s);
/* A window of a resident block that starts or ends between tiles, of which Mosaic loads no slice: all of the other dim
 * is read, and turned. */
bool window_between_tiles(const Planner *p, const Operand *o, const Window *win);
void slice_whole(Planner *p, const Operand *o, uint32_t d, SliceDim *s);
/* A single element is stored among those around it: Mosaic says of others "Cannot store scalars to VMEM". */
void slice_single(Planner *p, const Operand *o, SliceDim *dims);
/* Where lanes start at a place that the kernel computes (`lanes_move`: the window's do), or are a part of the row, a
 * row does not. */
void slice_both(Planner *p, const Operand *o, SliceDim *dims, bool lanes_move, bool store);
/* Where only a lane is accessed, at a place that the kernel computes, its row stays a dim if Mosaic wants it: it turns
 * no 1-D vector (`turned`: what a store finds is), and takes a part of a row's lanes only of whole tiles. */
void slice_keep_row(Planner *p, const Operand *o, SliceDim *dims, bool turned);
/* Why the loop cannot copy the window of this access; NULL if it can. Fills o, block and index. */
const char *window_not_copied(Planner *p, const AccessWant *w, Operand *o, int64_t *block, Affine *index);
/* The window of an access that a loop moves; NONE after a diagnostic. */
uint32_t loop_window(Planner *p, const AccessWant *w);

#endif
