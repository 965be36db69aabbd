/* plan.h - the whole kernel as data. Every decision about hardware is made here: the printer (print_*.c), the VMEM
 * model (vmem.c), --emit=plan, --emit=report and every refusal read the Plan and decide nothing.
 *
 * Vocabulary. An *operand* is an array that pl.pallas_call takes or gives. A *window* is what one step of an inner loop
 * sees of an operand. A *value* is a node of the graph as it stands in the kernel: its graph shape plus its form.
 * Sizes are in elements unless a name says bytes. */
#ifndef PALLASC_PLAN_H
#define PALLASC_PLAN_H

#include "choices.h"
#include "src/ir/ir.h"
#include "src/ops/ops.h"
#include "passes/facts/facts.h"

enum { DIM_MAX = RANK_MAX + 2 }; /* an operand may have two dims more than its tensor */

/* ---- integers of the kernel ------------------------------------------------------------------------------------- */

typedef enum VarKind {
	VAR_PROGRAM, /* pl.program_id(id) */
	VAR_STEP,    /* the step number of loop `id` */
	VAR_NODE,    /* a scalar int that node `id` computes */
	VAR_PLACE    /* of the positions of an access, that of one tensor dim: places * RANK_MAX + which */
} VarKind;

/* scale * (variable // divide % modulo); 0: not divided, no rest taken. Only of variables that are never negative. */
typedef struct Term {
	VarKind kind;
	uint32_t id;
	int64_t scale;
	int64_t divide, modulo;
} Term;

/* constant + sum of terms: block indices, offsets, bounds. A value: terms are shared and never changed. */
typedef struct Affine {
	int64_t constant;
	uint32_t count;
	const Term *term; /* as many as there are, in an arena */
} Affine;

/* ---- operands --------------------------------------------------------------------------------------------------- */

typedef enum Space {
	SPACE_WINDOW, /* VMEM, one block per grid point, through a BlockSpec */
	SPACE_HBM,    /* stays in HBM; inner loops copy windows of it */
	SPACE_SMEM    /* run-time scalars, and tables of which elements are read */
} Space;

/* What the wrapper does to an array before the call, and backwards to a result after it. */
typedef enum ArrayStepKind { ARRAY_RESHAPE, ARRAY_TRANSPOSE, ARRAY_SLICE, ARRAY_EXPAND } ArrayStepKind;
typedef struct ArrayStep {
	ArrayStepKind kind;
	uint32_t rank;
	int64_t shape[DIM_MAX];    /* RESHAPE, EXPAND: the new shape; TRANSPOSE: the permutation */
	int64_t slice[DIM_MAX][3]; /* SLICE: start, stop, step */
	bool boundary;             /* ours, not the graph's: a unit dim for alignment */
} ArrayStep;

/* How a window comes by a legal block: placement.c. */
typedef enum Placement {
	PLACE_OWN,    /* as it is */
	PLACE_VIEW,   /* a unit dim before the last */
	PLACE_SPLIT,  /* the last dim N as [N / block, 1, block] */
	PLACE_SHARED, /* a wider block, of which consecutive grid steps take parts */
	PLACE_MERGED  /* the last two dims as one: a position in the first of them chooses the block */
} Placement;

/* An output's block that the accesses of several steps change one after the other: held.c. */
typedef enum InitialKind {
	INITIAL_NONE,   /* nothing: the graph stores before it reads */
	INITIAL_VALUE,  /* the first visit fills the block with `value` */
	INITIAL_FOLDED, /* the one write combines with `value`, which is never stored */
	INITIAL_COPY    /* the first visit copies the block of operand `from` */
} InitialKind;
typedef struct Held {
	InitialKind initial;
	double value;
	uint32_t from;
	uint32_t revisits;    /* bit set of the grid dims whose steps find the same block */
	uint32_t accumulator; /* scratch that adds up in a wider dtype; the last visit rounds it into the block. NONE */
} Held;

/* The array that an operand is a slice of, and where in it that starts: within.c. */
typedef struct Within {
	int64_t shape[DIM_MAX], first[DIM_MAX];
} Within;

typedef struct Operand {
	TensorId tensor;  /* the array: an input, inout or output of the function; NONE for a scalar */
	ScalarId scalar;  /* NONE for an array */
	TensorId seen_as; /* the tensor or view that the graph names */
	bool input, output;
	Space space;
	bool prefetch;   /* SPACE_SMEM: it is there before the grid starts, for index maps read it */
	const char *ref; /* its name in the kernel */
	VEC(ArrayStep) steps;
	Dtype dtype;
	uint32_t rank; /* after the steps */
	int64_t shape[DIM_MAX];
	const Within *within;      /* the array itself is larger: all but the signature sees the slice alone; NULL */
	int64_t block[DIM_MAX];    /* SPACE_WINDOW */
	Affine index[DIM_MAX];     /* the index map: block index in each dim, of program ids and of nodes that tables
	                              give for them (positions.c) */
	uint32_t clamped;          /* bit set of dims where the nearest block comes for one outside: halo.c */
	uint32_t dim_of[RANK_MAX]; /* tensor dim -> operand dim */
	Placement placement;       /* SPACE_WINDOW */
	uint32_t unit;             /* the unit dim that the boundary view adds; NONE */
	uint32_t split;            /* SPLIT: the dim that counts blocks; NONE */
	uint32_t merged;           /* MERGED: the dim of size 1 where the position stood; NONE */
	int64_t parts;             /* SHARED: steps that share a block: the index map divides by it; else 1 */
	uint32_t part_dim;         /* SHARED: the dim that they share */
	uint32_t covered;       /* SHARED: bit set of dims that lie in the block whole, for inner grid dims walk them */
	int64_t view_hbm_bytes; /* VIEW, SPLIT: what XLA moves for the view */
	int buffers;            /* windows that the pipeline keeps: 1, 2 or, third.c, 3 */
	bool ahead;             /* SPACE_WINDOW: tables name its blocks; the next other one is copied before its step */
	bool fused;             /* SPACE_WINDOW: XLA makes its blocks in VMEM, if it has two buffers: fused.c */
	int64_t bytes;          /* VMEM of all its buffers, padded to tiles */
	int64_t fetches;        /* windows copied over the whole grid */
	double hbm_bytes;       /* moved between HBM and VMEM over the whole kernel, mean blocks counted */
	uint32_t alias_of;      /* output: the input operand whose buffer it takes over; NONE */
	bool next;              /* SPACE_WINDOW: the block is that of the grid's next point: points.c */
	const Held *held;       /* NULL: each visit stores the whole block, and nothing else touches it */
	const char *why;        /* why this space and block: one line */
} Operand;

static inline bool operand_fuses(const Operand *o) { return o->fused && o->buffers == 2; }

/* Where an operand stands in the call. */
typedef enum OperandPlace { OPERAND_PREFETCH, OPERAND_IN, OPERAND_OUT, OPERAND_PLACES } OperandPlace;
static inline OperandPlace operand_place_in_call(const Operand *o) {
	return o->output ? OPERAND_OUT : o->prefetch ? OPERAND_PREFETCH : OPERAND_IN;
}

/* ---- accesses --------------------------------------------------------------------------------------------------- */

typedef enum SliceKind {
	SLICE_ALL,  /* : */
	SLICE_AT,   /* one position; the dim is dropped */
	SLICE_RANGE /* pl.ds(start, size) */
} SliceKind;

typedef struct SliceDim {
	SliceKind kind;
	Affine start;
	int64_t size;
	int64_t parts; /* `start` counts tiles, of which so many lie in the block: at start % parts * size; 0: elements
	                */
	int64_t multiple; /* `start` is provably a multiple of this and Mosaic must be told; 0: no hint */
	int64_t window;   /* Mosaic slices nothing from there: so many elements around it, from a multiple of `multiple`
	                   * that is at most `last`, are read and turned to their place; 0: it does */
	int64_t last;
	bool copied; /* the ref is that window, and `last` the last place of the array where a loop copies it from */
} SliceDim;

/* One dim of a tensor at positions that an int tensor gives. */
typedef struct PlaceDim {
	NodeId index;
	int64_t extent;      /* of the tensor's dim */
	uint32_t first;      /* of the positions' dims, where those of the index begin */
	uint32_t vmem, smem; /* scratch by which computed ints come to SMEM; NONE: a table is there */
	uint32_t semaphore;  /* scratch: of that copy; NONE */
	bool shared;         /* an access before has that scratch for the same ints */
} PlaceDim;

/* Where the grid point before copies what positions select, one slot is read while the other is filled. */
enum { GATHER_SLOTS = 2 };

/* An access at positions that int tensors give, one after the other: places.c. */
typedef struct Places {
	NodeId node;
	uint32_t rank;           /* dims of the positions, */
	int64_t shape[RANK_MAX]; /* how many there are along each, */
	uint32_t dim[RANK_MAX];  /* and where it stands among the dims of what is accessed */
	uint32_t count;
	PlaceDim of[RANK_MAX];
	uint32_t kept;     /* dims that one position selects */
	bool single;       /* single elements are written: these are dims of 1 or of `lanes`, */
	int64_t lanes;     /* as many as are changed around each, by a spread value; 0: it goes to its place. */
	int64_t chunk;     /* So many positions are spread at once, */
	uint32_t chunked;  /* of this dim */
	uint32_t rows;     /* scratch: what the positions select, their dims first; NONE: single elements */
	uint32_t masks;    /* scratch: the extra_mask of a store, the same; NONE */
	uint32_t expected; /* scratch: what tile.atomic_cas compares with, the same; NONE */
	uint32_t old;      /* scratch: the old values that an atomic gives, the same; NONE */
	bool copied;       /* a gather: each is copied from HBM (rows.c), */
	uint32_t group;    /* with so many rows around it, */
	uint32_t groups;   /* scratch: to there, and then to `rows`; NONE: at once */
	uint32_t numbers;  /* scratch: which row is asked for; all are taken at once from words in `groups`; NONE */
	int64_t last_rows; /* of the tensor, which fill no group: */
	uint32_t last;     /* scratch: these; NONE */
	uint32_t arrived;  /* scratch: the semaphores of these copies; NONE */
	bool across;       /* the grid point before starts them: gather_across.c; */
	uint32_t moved_by; /* ... bit set of the grid dims that move what is copied */
} Places;

/* A tile of which a block of the grid has a part, and one beside it the rest: halo.c. */
typedef struct Halo {
	const struct Access *beside; /* the other block; NULL: the tile is a block */
	int64_t rows;                /* elements of it along the dim, */
	bool first;                  /* which come before those of the block: */
	int64_t skip;                /* so many of both come before the tile */
	uint32_t dim;                /* of the tensor */
	bool below, past;            /* read lanes may lie before the tensor, behind it, */
	Affine before, behind;       /* up to this lane, from this one on: they give the nearest element */
} Halo;

typedef enum RefKind { REF_OPERAND, REF_WINDOW } RefKind;

/* What a load or store node reads or writes. */
typedef struct Access {
	RefKind kind;
	uint32_t operand;      /* always */
	uint32_t loop, window; /* REF_WINDOW: a loop, and which of its windows */
	uint32_t rank;         /* of the ref */
	SliceDim dim[DIM_MAX];
	uint32_t places;  /* NONE */
	const Halo *halo; /* NULL */
	bool column;      /* one position of the last dim, which stays at size 1: the value is a column */
	uint32_t perm_rank;
	uint32_t perm[DIM_MAX]; /* transpose of what was read (loads), before writing (stores); perm_rank 0: none */
	bool unswapped;         /* a load whose last two dims its matmuls swap: folds.c */
} Access;

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* A TPU register is 2-D, so no value in the kernel is 1-D. A rank-1 value is a row [1, n] or a column [n, 1]; a value
 * reduced along its last dim keeps that dim at size 1 (a column), so that it broadcasts against rows without a move. */
typedef enum Form {
	FORM_NATURAL, /* the graph's shape; rank 1: [1, n] */
	FORM_COLUMN,  /* the graph's shape and a trailing 1 */
	FORM_ROW /* the graph's shape and a 1 before the last dim: only what is stored; a reduction: of the swapped tile
	          */
} Form;

typedef struct Mask {
	BlockId block;  /* whose lanes end; NONE: of a choice */
	uint32_t dim;   /* graph dim of the value */
	bool last_only; /* only in the ragged last step of the loop: under `if ragged` */
	Affine offset;  /* of the tile's first lane in its range */
	Affine end;     /* the range's end */
} Mask;

/* A factor of a matmul. */
typedef enum Factor {
	FACTOR_AS_IS,
	FACTOR_NAN,  /* as it is, of float8_e4m3fn; the MXU knows no NaN of them: they are looked for, and added */
	FACTOR_WIDE, /* in bfloat16 */
} Factor;

typedef struct Value {
	Form form;
	bool folded;     /* a stack of pairs that exists only as the row its one user makes of it */
	NodeId same_as;  /* it is just another name of this node's value; NONE */
	uint64_t needed; /* blocks (bit id & 63) whose invalid lanes its users read */
	uint32_t mask_count;
	const Mask *masks; /* load: these lanes are 0; mask_to: its value; a write leaves them as they are; a choice: of
	                      the number */
	bool negated;      /* of such a choice, the number stands first */
	const Access *access; /* load, store */
	bool table;           /* load: of elements of a table in SMEM */
	uint32_t points;      /* an int that an index map reads from a table: bit set of the grid dims that tell it */
	Form wants;           /* the form in which it takes its tensor operands */
	bool ahead;           /* computed one step ahead of its loop's others: skew.c */
	bool seldom;          /* a choice by position that only the loop's last steps need: counted.c, */
	bool first;           /* or the first as well: it is made of what runs ahead, too */
	Dtype compute;        /* computed in this dtype and rounded to its own; its own if DTYPE_NONE */
	bool transpose_a,
		transpose_b; /* matmul: the operand is read as stored, its last two dims swapped in the contraction */
	Factor factor[2];    /* matmul */
	uint32_t staged;     /* remote copy: scratch that a computed source is sent from. Load, store: of a tensor
	                      * in HBM, scratch that it goes through. NONE */
} Value;

/* ---- loops ------------------------------------------------------------------------------------------------------ */

typedef enum CarryPlace {
	CARRY_REGISTER, /* a value that the loop passes on */
	CARRY_SCRATCH   /* a VMEM scratch buffer */
} CarryPlace;

typedef struct Carry {
	uint32_t arg, output;
	CarryPlace place;
	uint32_t scratch; /* CARRY_SCRATCH */
	const char *why;
} Carry;

/* A value that the steps of a skewed loop hand on to the next: skew.c. */
typedef struct Handed {
	NodeId node;
	uint32_t scratch; /* NONE: it is handed on as a value */
	uint32_t odd;     /* of a loop of pairs: what odd steps read, as even ones read `scratch`; else NONE */
	int64_t bytes;
} Handed;

typedef struct Window {
	uint32_t operand;
	const char *ref; /* the step function's parameter */
	bool input, output;
	bool dma;           /* copied from or to HBM; else a slice of the resident block */
	bool ahead, behind; /* of a skewed loop: read by what it computes one step ahead, by the rest of the step */
	int64_t block[DIM_MAX];
	Affine index[DIM_MAX]; /* in units of block, of program ids, steps of this and outer loops */
	Affine start[DIM_MAX]; /* elements, on top of that: of a slice of a resident block that starts between blocks */
	int64_t multiple[DIM_MAX]; /* of such a start, as SliceDim.multiple */
	int64_t around[DIM_MAX];   /* `start` is where a tile starts, anywhere; what is copied starts at a multiple of
	                            * this at or before it; 0: there */
	uint32_t pieces;           /* the dim whose positions `places` gives, each copied by itself; NONE */
	NodeId places;             /* 1-D ints */
	int buffers;
	uint32_t scratch, semaphore; /* fori_loop with DMA */
	uint32_t tail_operand;       /* the ragged last step reads this operand instead; NONE */
	int64_t bytes;               /* VMEM of all its buffers */
	const char *why;
} Window;
/* A step copies it from HBM. */
static inline bool window_comes(const Window *w) { return w->dma && w->input; }

/* Numbers of steps that are told apart. */
enum { STEP_KINDS = 4 };

/* counted.c: how many steps a loop of computed bounds has, over the grid. */
typedef struct StepCounts {
	uint32_t dim;   /* of the grid: what alone moves the bounds */
	int64_t points; /* along it; 0: not known */
	int64_t least, most, sum;
	bool even;                                       /* at each point there are an even number */
	int64_t kind[STEP_KINDS], points_of[STEP_KINDS]; /* each number of them that there is, and at how many points */
	uint32_t kinds;                                  /* more than STEP_KINDS: the others are not told */
} StepCounts;

typedef struct LoopDim {
	BlockId block;
	bool computed; /* bounds known only at run time */
	Affine begin, end;
	int64_t step;       /* elements */
	int64_t full_steps; /* static bounds: steps whose lanes are all valid */
	int64_t tail;       /* static bounds: lanes of the last, ragged step; 0: divides */
	StepCounts counts;  /* computed bounds */
} LoopDim;

/* Straight code for each number of steps that a loop has: bodies.c. */
typedef struct Bodies {
	NodeId choice;   /* by position */
	BlockId rows;    /* the block whose positions it compares with the loop's */
	double live;     /* the share of all steps that it leaves, in blocks */
	int64_t columns; /* that it leaves of some block of rows, at most */
} Bodies;

/* What runs ahead of a loop's first step finds the grid's next point's part of a window, or of an operand, in a block
 * of its own: points.c. */
typedef struct NextBlock {
	uint32_t operand, window; /* NONE: it is all of the operand's block */
	uint32_t next;            /* the operand with the block */
} NextBlock;

typedef struct Loop {
	GraphId graph;
	NodeId call;
	uint32_t parent; /* loop around it; NONE */
	LoopType type;
	bool dma; /* any window of it is */
	const char *why;
	uint32_t rank;
	LoopDim dim[RANK_MAX];
	bool peeled; /* the ragged last step runs after the loop */
	bool masked; /* its step function takes a flag `ragged`: that step masks */
	VEC(Window) windows;
	VEC(Carry) carries;
	bool skewed;               /* each step computes what the next one starts with, or */
	int ahead;                 /* one so many steps later: more than one only where the loop is unrolled */
	VEC(Handed) handed;        /* and hands it on */
	const char *skew_why;      /* why, or why not */
	double overlap_seconds;    /* of a step's matmuls that can run beside the step before: skew.c */
	bool paired;               /* two steps of a skewed loop stand in one iteration */
	bool fenced;               /* and each iteration, straight code of its own, behind a fence: it is unrolled */
	VEC(NextBlock) next;       /* the grid point before computes what its first step starts with, of these; */
	VEC(Handed) kept;          /* of that, what is made ahead of the loop lies in scratch as well */
	const char *next_why;      /* why, or why not; NULL: it could not */
	bool flagged;              /* choices by position are made under a flag of the last steps: counted.c */
	bool cut;                  /* ... which are computed in blocks: rewrite_blocks.c */
	NodeId choice;             /* of bodies: the choice by position */
	const Bodies *bodies;      /* it is no loop, and all of its steps are flagged; NULL */
	const char *bodies_why;    /* why, or why not; NULL: it could not */
	const char *cut_why;       /* why, or why not; NULL if it is not flagged */
	bool unmasked;             /* steps that masks leave whole are computed without: rewrite_unmasked.c */
	const char *unmasked_why;  /* why, or why not; NULL: it has no such mask */
	const char *pair_why;      /* why, or why not; NULL if it is not skewed */
	bool across;               /* the last step copies the first windows of what runs next */
	bool lane_sums;            /* sums along lanes that it carries are kept in 128 lanes: lane_sums.c */
	const char *lane_sums_why; /* why, or why not; NULL: it carries none */
	const char *across_why;
	const char *name;      /* of its step function */
	const char *step_name; /* of its step variable; of a loop of several dims, of the flattened one */
} Loop;

/* How it is lowered, for people. */
static inline const char *loop_lowering_name(const Loop *l) {
	return loop_type_name(l->fenced ? LOOP_UNROLL : l->type);
}
static inline const char *loop_copies_words(const Loop *l) {
	return l->type != LOOP_FORI || l->fenced ? "" : l->dma ? " with DMA" : " without DMA";
}

/* ---- scratch ---------------------------------------------------------------------------------------------------- */

typedef enum ScratchKind { SCRATCH_VMEM, SCRATCH_SMEM, SCRATCH_DMA_SEMAPHORE } ScratchKind;
typedef struct Scratch {
	ScratchKind kind;
	const char *ref;
	Dtype dtype;
	uint32_t rank;
	int64_t shape[DIM_MAX + 1];
	int64_t bytes;
	const char *why;
	int64_t slots;      /* there are so many of it, one behind the other; 0: one */
	uint32_t whole_dim; /* of bodies: until rewrite_blocks.c leaves so much, it has `whole` along that dim; 0: no
	                       more */
	int64_t whole;
} Scratch;

/* A tile that is computed strip by strip of its columns: strips.c. Lists are by NodeId. */
typedef struct Strips {
	int64_t size, width, count; /* columns of a row; of a strip; strips */
	uint32_t phases;            /* runs over the strips */
	uint32_t spread;            /* columns turned from rows that are spread over all lanes once, for all strips */
	bool *spans;                /* its last dim is the row */
	bool *inside;               /* it is computed strip by strip */
	bool *folds;                /* ... and adds up over them */
	NodeId *folded;             /* what adds up: its operand, or what that converts */
	uint32_t *phase;            /* it is computed in that run; what is not inside, before it */
	uint32_t *computed;         /* bit set of the runs that compute it */
	uint32_t *needed;           /* bit set of the runs that read it */
	uint32_t *stash;            /* the scratch that keeps it for later runs; NONE */
} Strips;

typedef struct GridDim {
	BlockId block;
	int64_t steps;
	bool parallel;    /* dimension_semantics */
	const char *why;  /* why not parallel */
	const char *name; /* of its program id in the kernel */
} GridDim;

/* VMEM by owner, bytes. */
typedef struct VmemUse {
	int64_t windows;       /* grid windows, all buffers */
	int64_t inner;         /* inner loops' buffers */
	int64_t scratch;       /* carried values */
	int64_t intermediates; /* live values that registers cannot hold */
	int64_t total;
} VmemUse;

/* Of what the estimate of the time consists, in seconds over the whole grid (seconds.c): the longer of the first two
 * and the others add up to Plan.seconds, but for rounding. */
typedef struct TimeParts {
	double mxu;     /* matmuls at the peak */
	double vector;  /* blocks and windows read into registers */
	double windows; /* waits for what loops copy */
	double steps;   /* loops over straight code */
	double gathers; /* positions taken one after the other */
	double one_hot; /* around matmuls with one-hot matrices */
	double blocks;  /* waits for the grid's blocks, but for the first and last ones */
	double start;   /* the first blocks to come, the last to go */
} TimeParts;

/* The copies to other devices on a channel. A device that is quick may send its next one before this device has waited
 * for the last, and then they may come in any order: each counts on a semaphore of its own, `slots` of them in turn. */
typedef struct ChannelUse {
	int64_t starts; /* how many copies a device starts */
	int64_t first;  /* where its semaphores stand among those of all channels */
	int64_t slots;
} ChannelUse;
/* Semaphores that a channel has at most: the devices meet before one of them counts again. */
enum { CHANNEL_SLOTS = 16 };

/* What the grid's innermost dim does not change is computed at its first step and kept: apart from the rest of that
 * step, or in straight code with it. */
typedef enum Keeps { KEEPS_NOTHING, KEEPS_APART, KEEPS_WITH_REST } Keeps;

/* What a kernel does whose spills are not known to the byte: codegen/vmem/margin.c. */
typedef enum Doubt { DOUBT_PLAIN, DOUBT_MOVES, DOUBT_PARTS } Doubt;

/* One kernel: a root graph. */
typedef struct Plan {
	const Module *module; /* of which it is the only root */
	Arena *arena;
	GraphId root;
	VEC(GridDim) grid;
	VEC(Operand) operands; /* inputs first, then outputs, in the order of the call */
	VEC(Scratch) scratches;
	VEC(Loop) loops;                /* outer before inner */
	VEC(Places) places;             /* of gathers and scatters */
	const Strips *strips;           /* of the root; NULL: tiles are computed whole */
	Value *values;                  /* by NodeId */
	uint32_t *loop_of;              /* by GraphId: index into loops; NONE */
	const struct AccessWant *wants; /* for another way of planning it: access.c */
	uint32_t want_count;
	const struct AccessWant *placed; /* as they stand in this plan */
	uint32_t placed_count;
	VEC(Indirect) indirect; /* accesses where ints say, once the plan is taken: ways.c */
	struct Kernel *kernel;  /* once it is built; NULL */
	int64_t spills;         /* bytes that it spills; negative: not known yet */
	Doubt doubt;            /* about them */
	Keeps keeps;            /* invariants.c */
	VEC(Scratch) kept;      /* the scratch for it, and for pieces and what is turned, behind `scratches` */
	int64_t kept_bytes;     /* of that; 0: nothing is kept */
	int64_t widened_bytes;  /* of these those for tables: build_tables.c */
	bool chunks;            /* what the first step computes for others it computes in chunks: invariants.c */
	bool pieces;            /* what follows matmuls is computed of pieces of their results: pieces.c */
	int64_t piece_bytes;    /* the scratch for it */
	bool first_chunks;      /* the first grid point's blocks come in chunks: first_chunks.c */
	int64_t first_bytes;    /* what its loop carries from chunk to chunk */
	double turned_reads;  /* how often matmuls read each row of what several contract along its rows: turn_once.c */
	VEC(Scratch) turned;  /* the scratch that it would take to turn that once */
	int64_t turned_bytes; /* ... and takes; 0: nothing is turned once */
	int64_t *left;        /* counts down with each kernel that is built; NULL */
	VmemUse vmem;
	int64_t vmem_limit; /* what the chip has or the budget is, bytes */
	int64_t vmem_asked; /* of the TPU compiler, bytes */
	double flops, hbm_bytes;
	double mxu_seconds;    /* of the flops, at the peak of the matrix units for factors of their dtypes */
	bool remote;           /* it copies to other devices, or meets them at barriers */
	ChannelUse *channels;  /* by channel, CHANNELS_MAX of them; NULL: it does not copy */
	uint32_t sent, come;   /* scratch: semaphores that count what has left, by channel, and what has come */
	int64_t staging_bytes; /* of all scratch that copies, loads and stores go through */
	uint32_t staged;       /* scratch: the semaphore of loads and stores in HBM; NONE: there are none */
	uint32_t started;      /* scratch: how many copies have started, by channel; NONE: one of each at most */
	bool skewed;           /* some loop is */
	double seconds;        /* an estimate, for comparing plans of one kernel: seconds.c */
	TimeParts time;        /* what it consists of */
	bool may_hold_all;     /* windows of an emit_pipeline could hold all its steps: group.c */
	bool may_stay;         /* some input that loops copy would move half if it were resident: residency.c */
	bool may_also_stay;    /* ... some would move no more */
	bool stays_for_time;   /* some input is resident that saves less than half: while the point before computes */
	bool may_copy_rows;    /* some gather could copy rows from HBM: rows.c */
	bool back_and_forth;   /* the last grid dim runs backwards in every other step of the one before it: walk.c */
	bool may_be_straight;  /* some loop could be straight code on resident blocks: straight.c */
	double straight_most;  /* of the loops' cycles it takes at most so much, by both kernels; 0: drafts tell */
	double kernel_seconds; /* what the estimate of the kernel says, where that was asked for it; else 0 */
	bool results_may_stay; /* some loop whose inputs stay would copy nothing but what it writes */
	VEC(Remark) remarks;   /* --explain */
} Plan;

/* All that a document becomes: the kernels of its roots, in the order in which they run, and what is returned. */
typedef struct Program {
	const Module *module;
	Arena *arena;
	VEC(Plan *) kernels;
	VEC(HostValue *) returns; /* by return: as return_infer() gives them */
	HostValue **derived;      /* by derived tensor: as derived_infer() gives them */
	int64_t vmem_bytes;       /* of the kernel that takes most */
	double flops, hbm_bytes;  /* of all kernels */
	VEC(Remark) remarks;      /* --explain: what no kernel says */
} Program;

/* Rows of a tile of a VMEM buffer of so many rows: 8 for every dtype (a 16-bit tile is (8, 128)(2, 1)); of fewer rows
 * the next power of two, at least as many as share a 32-bit word. Read from libtpu 0.0.51's VMEM report. */
int64_t vmem_tile_rows(const Target *t, int64_t rows, int64_t bits);
/* Bytes of a VMEM buffer of this shape: the last dim padded to lanes, the one before to the sublane packing of the
 * dtype (8 rows of 32 bits; jax's tiling). */
int64_t vmem_bytes(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape);
/* Bytes of an array in HBM, as a kernel takes it: its last two dims padded as in VMEM, bools a byte. */
int64_t hbm_array_bytes(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape);
/* The same of scratch, where an int4 takes a byte (libtpu 0.0.51). */
int64_t scratch_vmem_bytes(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape);
/* The same of a value in vector registers, which hold 8 rows of 32 bits, of however few a value has. */
int64_t register_bytes(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape);
/* The node whose value n is: n, or through the names that it is only another of (Value.same_as); of NONE NONE. */
NodeId value_root(const Plan *p, NodeId n);
/* The shape of node n's value in the kernel; returns its rank. */
uint32_t plan_shape(const Plan *p, NodeId n, Form form, int64_t *shape);

/* Nothing unless the Module is to be explained: most compilations show no remarks. */
void plan_remark(Plan *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- what makes a Plan ------------------------------------------------------------------------------------------- */

/* One of the ways in which a kernel can be planned: a value for each row of scope PLAN. */
typedef struct PlanWay {
	bool trial;        /* refuse what does not fit without looking for what would */
	const Plan *other; /* of another way: what none can lower is not there, and dtypes are the same; NULL */
	int64_t *left;     /* so many kernels may still be lowered whole */
	bool loops_stay;   /* none becomes a body for each number of its steps */
	ChoiceValue at[ROW_COUNT];
} PlanWay;

/* A grid dim's or a loop's step number that is taken to be one int: ranges.c. */
typedef struct Pin {
	VarKind kind;
	uint32_t id;
	int64_t at;
} Pin;

enum { PINS_MAX = 2 };

/* Of a tile of that block the part that is looked at. */
typedef struct TilePart {
	BlockId block;
	int64_t start, size;
} TilePart;

typedef struct Planner {
	Plan *plan;
	const Module *m;
	Diag *d;
	Arena *a;
	PlanWay way;
	Pin pin[PINS_MAX];
	uint32_t pins;
	TilePart part[2];
	uint32_t parts;
} Planner;

/* A refusal at node n. Always false, so that `return refuse(...)` reads well. */
bool plan_refuse(Planner *p, NodeId n, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);

/* Adds it; gives its number. */
uint32_t plan_scratch(Planner *p, Scratch s);
/* The shape of scratch, of all its slots; returns its rank. */
uint32_t scratch_shape(const Scratch *s, int64_t *shape);
/* The kernel has the tensor as an output. */
bool plan_writes(const Plan *plan, TensorId tensor);
/* Some loop has two steps in an iteration. */
bool plan_has_pairs(const Plan *plan);
/* Some loop is straight code for each number of its steps. */
bool plan_has_bodies(const Plan *plan);
/* Of a window that a loop copies, so many buffers from here on. */
void plan_window_buffers(Plan *plan, Window *w, int buffers);

static inline bool way_is(const Planner *p, ChoiceRow row, ChoiceValue v) { return p->way.at[row] == v; }
/* The lowering that is asked for, of all loops. */
static inline LoopType way_type(const Planner *p) { return (LoopType)(p->way.at[ROW_TYPE] - TYPE_DEFAULT); }
/* Windows of an emit_pipeline may hold all its steps: group.c. */
static inline bool way_holds_all(const Planner *p) { return way_is(p, ROW_WINDOWS, WINDOWS_OF_ALL_STEPS); }
/* Inputs stay resident where copies would move more: residency.c. */
static inline bool way_keeps(const Planner *p) { return p->way.at[ROW_WINDOWS] >= WINDOWS_KEPT; }

/* The place where the configuration says something. */
static inline Place config_place(const ConfigOrigin *o) { return (Place){.source = o->source, .pointer = o->pointer}; }

/* affine.c */
Affine affine_int(int64_t value);
Affine affine_var(Arena *a, VarKind kind, uint32_t id, int64_t scale);
Affine affine_term(Arena *a, Term t);
/* The term where its variable has this value; the largest multiple of its scale where that counts to `last`. */
int64_t term_value(const Term *t, int64_t value);
int64_t term_last(const Term *t, int64_t last);
Affine affine_add(Arena *arena, Affine a, Affine b);
Affine affine_sub(Arena *arena, Affine a, Affine b);
Affine affine_scale(Arena *arena, Affine a, int64_t factor);
static inline bool affine_is_int(const Affine *a) { return a->count == 0; }
/* Every value it can take is a multiple of `by`, as far as its coefficients show. */
bool affine_multiple(const Affine *a, int64_t by);
/* a / by, of an affine that is a multiple of it. */
Affine affine_divide(Arena *arena, Affine a, int64_t by);
/* The int that an argument stands for: a literal, an expression, a tile query or arithmetic on these; else VAR_NODE. */
Affine affine_of_arg(Planner *p, GraphId g, const Arg *arg);

/* lines.c: step * index + `more` along one dim: tile.index or an arange, times an int, and ints added to it. */
typedef struct Line {
	bool index;    /* else it is a scalar */
	BlockId block; /* whose tile.index it is; NONE */
	Affine more;
	int64_t step; /* at least 1 */
} Line;
/* False: the argument of a node of graph g is none. So many ops are looked through. */
bool steps_of(Planner *p, GraphId g, const Arg *x, int depth, Line *out);
/* The same, of what counts up by one. */
bool line_of(Planner *p, GraphId g, const Arg *x, int depth, Line *out);

bool affine_equal(const Affine *a, const Affine *b);
/* ranges.c: the largest and the smallest value that it can take over the grid and the loops around it; false if that
 * is not known. */
bool affine_max(Planner *p, const Affine *a, int64_t *max);
bool affine_min(Planner *p, const Affine *a, int64_t *min);
/* lines.c: it is that number, or not there. */
bool is_absent_or(const Arg *a, int64_t number);
/* blocks.c: it is a multiple of `by` in every grid point: also tile.end where neither the tile nor its range leaves a
 * rest, which the compiler must be told. */
bool affine_divisible(Planner *p, const Affine *a, int64_t by);
bool affine_uses_program(const Affine *a, uint32_t dim);
/* Of an index map: steps of the grid dim may move it, by a table as well. */
bool index_moves(const Plan *p, const Affine *index, uint32_t dim);
/* No two steps of the grid dim have the same values of all these. */
bool affine_tells_program(uint32_t count, const Affine *index, uint32_t dim, int64_t steps);
/* The loop's steps fill the range, in every grid point. */
bool loop_dim_divides(Planner *p, const LoopDim *d);
/* It has ragged steps that do not run after it: each step masks. */
bool loop_ragged_unpeeled(Planner *p, const Loop *loop);
/* The most steps that a loop takes in a dim, over all its calls; false if that is not known. */
bool loop_most_steps(Planner *p, const LoopDim *d, int64_t *steps);
/* The block that a tile query names, as a symbol or by a reference to one. */
BlockId query_block(const Module *m, NodeId n);

/* The loop around graph g that iterates block b (its index in plan->loops and the dim), or NONE: then *dim is its grid
 * dim, or NONE where b is in neither (a reduction dim taken whole). */
uint32_t block_scope(const Plan *plan, GraphId g, BlockId b, uint32_t *dim);
/* First element of the current tile of b, seen from graph g. */
Affine block_offset(Planner *p, GraphId g, BlockId b);
/* Some tile of b has invalid lanes; *end is the range's end, *peeled whether only in a step that runs after its loop.
 */
bool block_ragged(Planner *p, GraphId g, BlockId b, Affine *end, bool *peeled);
/* How long its range is; below 0 where that is empty. */
Affine block_length(Planner *p, GraphId g, BlockId b);
int64_t block_size(const Planner *p, BlockId b);
/* Where its range begins. */
int64_t block_begin(const Planner *p, BlockId b);

static inline int64_t tensor_dim(const Planner *p, const Tensor *t, uint32_t d) {
	return expr_number(p->m, t->shape[d]);
}
/* The load of a table that gives positions, maybe clamped; NONE: they are computed. */
NodeId place_table(const Plan *plan, NodeId index);
/* The dtype in which lanes and rows move that Mosaic moves in 32 bits only. */
static inline Dtype dtype_turned(Dtype t) { return t == DTYPE_BOOL ? DTYPE_I32 : dtype_widened(t); }
static inline Value *value_of(Planner *p, NodeId n) { return &p->plan->values[n]; }
/* The graph rank of a tensor value; 0 for anything else. */
static inline uint32_t value_rank(const Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	return t->kind == TYPE_TENSOR ? t->count : 0;
}
/* Result i of a called graph. */
static inline NodeId graph_result(const Module *m, const Graph *g, uint32_t i) {
	return arg_item(m, node_arg(m, g->output, 0), i)->node;
}

#endif
