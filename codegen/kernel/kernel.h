/* kernel.h - a kernel as data: what runs on the chip, statement by statement, between the Plan and any text.
 *
 *     Plan --build--> Kernel --rewrite--> Kernel --print--> Python
 *                                         --emit=kernel, and back
 *
 * A *program* is what a document becomes: arrays that come in, kernels, and the wrapper that launches them. A *kernel*
 * is a signature (grid, operands, scratch: what stands in the pallas_call) and a function; functions hold *regions* of
 * *statements*, and a statement may hold regions and other functions. Every statement takes arguments, each a value, a
 * number, an integer expression or a reference to a part of a buffer, and gives results. Everything refers to
 * everything by index, so that a clone is a few array copies. Nothing here knows how Python is written, and print_*.c
 * know nothing of TPUs. docs/kernel.md is the text of it. Sizes are in elements unless a name says bytes. */
#ifndef PALLASC_KERNEL_H
#define PALLASC_KERNEL_H

#include <string.h>
#include "src/ir/ir.h"

enum { KDIM_MAX = RANK_MAX + 3 }; /* an operand may have two dims more than its tensor, a buffer of windows one more */

typedef uint32_t ValueId, StmtId, RegionId, BufferId, FunctionId, IntId, RefId;
typedef VEC(StmtId) StmtIds;

/* ---- ops -------------------------------------------------------------------------------------------------------- */

/* Below OP_COUNT: the pointwise row of ops.def, under the first of those that print alike (op_canonical()). */
typedef enum KOp {
	K_FIRST = OP_COUNT,
#define KOP(e, name, kind, attributes, text) K_##e,
#include "kernel_ops.def"
#undef KOP
	K_END
} KOp;

typedef enum KOpKind { KIND_PURE, KIND_MEMORY_ACCESS, KIND_ASYNC, KIND_CONTROL } KOpKind;

typedef struct KOpRow {
	const char *name;
	KOpKind kind;
	const char *attributes;
	const char *python;
} KOpRow;
/* A row of kernel_ops.def, of an op that is one. */
const KOpRow *kernel_op_row(uint16_t op);
/* Its name in kernel text: of a pointwise row its own in small letters. */
const char *kernel_op_name(Arena *a, uint16_t op);
/* The op of that name; K_END if there is none. */
uint16_t kernel_op_find(const char *name);
KOpKind kernel_op_kind(uint16_t op);

/* The items of K_INDEX: `None`, `:`, a position, a slice, a slice that says no start, `...`. */
typedef enum KItem {
	K_ITEM_NEW,
	K_ITEM_ALL,
	K_ITEM_AT,
	K_ITEM_RANGE,
	K_ITEM_FIRST, /* a slice from the first on */
	K_ITEM_REST
} KItem;

/* ---- integers --------------------------------------------------------------------------------------------------- */

/* Offsets, bounds, conditions. Equal expressions have one id; there is no limit to their size. Divided is only what is
 * never negative. */
typedef enum IntKind {
	INT_CONST,
	INT_VALUE, /* the scalar int, or flag, `value` */
	INT_NEG,
	INT_ADD,
	INT_SUB,
	INT_MUL,
	INT_DIV,
	INT_REM,
	INT_CDIV, /* rounded up */
	INT_MIN,
	INT_MAX,
	INT_EQ,
	INT_LT,
	INT_LE,
	INT_GT,
	INT_GE,
	INT_AND,
	INT_CHOOSE, /* b if the flag a is set, else c */
	INT_TURN,   /* of c steps of row a, step b: forwards in even rows, backwards in odd ones */
	INT_DEVICE, /* the device's place along the kernel's mesh axis */
	INT_FIRST,  /* flag: of the points that differ along grid dim `number` alone it is the one that runs first */
	INT_LATER   /* flag: it is another one of these */
} IntKind;

/* It asks for the point along a grid dim, of that number. */
static inline bool int_kind_of_dim(IntKind kind) { return kind == INT_FIRST || kind == INT_LATER; }

typedef struct KInt {
	IntKind kind;
	int64_t number; /* INT_CONST, INT_FIRST, INT_LATER */
	ValueId value;  /* INT_VALUE */
	IntId a, b, c;
} KInt;

/* ---- values ----------------------------------------------------------------------------------------------------- */

typedef enum KType {
	KTYPE_TILE,   /* an array in registers, of one dim or more; in the wrapper an array of XLA's */
	KTYPE_SCALAR, /* one element */
	KTYPE_INT,    /* an int of which offsets are made */
	KTYPE_FLAG,   /* known where the kernel is traced */
	KTYPE_COPY,   /* of a window: can be started and waited for */
	KTYPE_QUEUE   /* values that wait, of straight code */
} KType;

/* How a tile lies in registers, which are two-dimensional. */
typedef enum Layout {
	LAYOUT_TILE,   /* its last two dims along sublanes and lanes */
	LAYOUT_ROW,    /* [..., 1, n]: along lanes */
	LAYOUT_COLUMN, /* [..., n, 1]: along sublanes */
	LAYOUT_SCALAR  /* no dims */
} Layout;

typedef struct KValue {
	KType type;
	Dtype dtype;
	Layout layout;
	uint32_t rank;
	const int64_t *shape;
	StmtId def;         /* the statement that gives it; NONE: a parameter of a function or of the signature */
	const char *name;   /* what it would like to be called; NULL: it has no variable, its one use prints it */
	const char *suffix; /* it would rather be called as `after` is, with this behind; NULL */
	ValueId after;      /* NONE */
	bool cut;           /* ... of a long name of `after` its first 16 characters */
	ValueId as;         /* it takes over this one's variable; NONE */
	const char *var;    /* its variable in Python and in kernel text: kernel_name_values() */
	bool exact;         /* called `name` as it is, whatever else is */
} KValue;

/* ---- buffers and references to parts of them --------------------------------------------------------------------- */

typedef enum KSpace {
	KSPACE_VMEM,     /* of an operand: one block per grid point */
	KSPACE_HBM,      /* stays there; copied by hand */
	KSPACE_SMEM,     /* scalars and small tables */
	KSPACE_PREFETCH, /* the same, there before the grid starts: index maps may read it */
	KSPACE_DMA,      /* semaphores of copies */
	KSPACE_REGULAR   /* semaphores that are counted */
} KSpace;

typedef enum BufferRole { BUFFER_IN, BUFFER_OUT, BUFFER_SCRATCH, BUFFER_PARAMETER } BufferRole;

/* A block of an output that several grid points change one after the other: rewrite_held.c. */
typedef struct KHeld {
	bool fill, copy; /* the first of them fills it with `value`, or copies the block of `from` */
	double value;
	BufferId from;
	uint32_t revisits; /* bit set of the grid dims whose steps find the same block */
	BufferId sums;     /* scratch in which they add up; the last one rounds it into the block. NONE */
} KHeld;

typedef struct KBuffer {
	BufferRole role;
	KSpace space;
	Dtype dtype;
	uint32_t rank;
	const int64_t *shape; /* what the kernel sees: of a VMEM operand its block */
	const char *name;     /* what it would like to be called */
	const char *var;      /* its variable */
	/* of operands */
	const int64_t *array; /* shape of the whole array, of the same rank */
	const IntId *index; /* VMEM: the block's place in units of blocks, of the grid's values (and prefetched ints) */
	int buffers;        /* VMEM: windows that the pipeline keeps, 1 or 2 */
	bool ahead;         /* in: its next block is to be copied as soon as there is room: rewrite_pipelined.c */
	bool fused;         /* in, VMEM: XLA may make its blocks of what the wrapper makes the array of */
	BufferId alias;     /* out: the in whose buffer it takes over; NONE */
	bool half;          /* out of int16: the array is of float16, and the kernel has a view of its bits */
	bool line;   /* a row that is to be the 1-D array that the wrapper makes it of, or of it: rewrite_lines.c */
	KHeld *held; /* out: what its first and last visits are still to do; NULL */
} KBuffer;

typedef enum KDimKind {
	KDIM_ALL,   /* : */
	KDIM_AT,    /* one position; the dim is dropped */
	KDIM_RANGE, /* `size` from `start` */
	KDIM_PART   /* `size` from size times start, one of `parts` such: `start` is known to be one of so many */
} KDimKind;

typedef struct KDim {
	KDimKind kind;
	IntId start;
	int64_t size, parts;
	int64_t multiple; /* `start` is known to be a multiple of this, which Mosaic is told; 0: nothing to tell */
} KDim;

typedef struct KRef {
	BufferId buffer;
	uint32_t rank; /* dims that are given: the first ones; the rest is whole. 0: all of it */
	const KDim *dim;
	IntId at; /* of a loop's window: that of this step; NONE: of the step that its region is */
} KRef;

/* ---- arguments -------------------------------------------------------------------------------------------------- */

typedef enum KArgKind { KARG_NONE, KARG_VALUE, KARG_INTEGER, KARG_REAL, KARG_BOOL, KARG_INT, KARG_REF } KArgKind;

/* A number has no dtype of its own: it takes that of what stands beside it. */
typedef struct KArg {
	KArgKind kind;
	union {
		ValueId value;
		int64_t integer;
		double real;
		bool boolean;
		IntId index;
		RefId ref;
	};
} KArg;

/* ---- statements ------------------------------------------------------------------------------------------------- */

/* A step of a loop sees a window of an operand. */
typedef struct KWindow {
	BufferId buffer; /* the parameter by which the step calls it, of the window's shape */
	BufferId of;     /* the operand */
	bool input, output;
	bool dma;                /* it is copied; else it is a part of a resident block */
	const char *copy;        /* what the function of its copies would like to be called */
	const IntId *index;      /* in units of the window, of the steps' values */
	const IntId *start;      /* in elements: where it starts in the operand */
	const int64_t *multiple; /* of such a start, as KDim.multiple */
	uint32_t pieces;         /* along this dim each position is copied by itself, from a start that reads `piece` */
	ValueId piece;           /* their number in the window; both NONE: the window is one piece */
	int buffers;
	BufferId scratch, semaphore; /* fori_loop with copies; else NONE */
	BufferId tail;               /* the ragged last step reads this operand instead; NONE */
} KWindow;

typedef struct KLoopDim {
	ValueId step;       /* the step's number, in the loop's region */
	bool computed;      /* the number of steps is known only at run time */
	IntId steps;        /* how many, the peeled one not counted */
	int64_t full_steps; /* not computed: those whose lanes are all valid */
	int64_t tail;       /* not computed: lanes of the ragged last step; 0: there is none */
	int64_t size;       /* elements that a full step takes */
} KLoopDim;

/* A value that what is to run ahead gives to the rest of its step. */
typedef struct KHanded {
	ValueId value;
	BufferId scratch, odd; /* will carry it, and from even steps to odd ones; NONE: it is handed on as a value */
} KHanded;

/* In place of a window of a loop, or an operand's block: that of the grid's next point, of its loop's first step. */
typedef struct KNext {
	BufferId of, by;
} KNext;

/* A loop before a driver (drive_*.c) makes copies and calls of it; without dims it runs while the first value that it
 * carries, a bool, is set. Its statement's arguments are the initial values,
 * its results what is carried out; its region has the steps' numbers and carried values as parameters and ends with a
 * yield. `before` yields the last ones of what is carried, where no argument does; it and what stands behind the steps
 * see the windows of any step, by KRef.at. */
typedef struct KLoop {
	LoopType type;
	uint32_t rank;
	KLoopDim dim[RANK_MAX];
	bool peel;      /* the ragged last step is to run after the loop: rewrite_peel.c */
	bool peeled;    /* it does */
	ValueId ragged; /* the flag under which a step masks; NONE */
	VEC(KWindow) windows;
	VEC(ValueId) carried; /* by argument: its parameter in the regions */
	VEC(BufferId) place;  /* by argument: the scratch that holds it; NONE: a value that the loop passes on */
	VEC(BufferId) odd;    /* by argument: scratch that rewrite_pairs.c takes for it between two steps; NONE */
	int skew;             /* statements marked `ahead` are to run so many steps early: rewrite_skew.c, _ahead.c */
	bool paired;          /* two steps are to stand in one iteration: rewrite_pairs.c */
	bool across;          /* the last step starts the copies of the first windows of what runs next: drive_fori.c,
	                         drive_items.c */
	VEC(KNext) next;      /* the point before is to run what runs ahead of the first step: rewrite_points.c */
	VEC(KHanded) kept;    /* ... and to leave in scratch what that reads of what is made ahead of the loop */
	bool once;            /* it does: only the first point runs what stands before the loop */
	bool fenced;          /* of a fori_loop: each iteration stands there, behind a fence: drive_fori.c */
	bool lane_sums;       /* sums along lanes that are carried are to be kept in 128: rewrite_lane_sums.c */
	int unroll;           /* the compiler is to put so many steps in one iteration; 0: one */
	VEC(KHanded) handed;  /* from what is marked to the rest */
	VEC(int64_t) bodies;  /* it is to be straight code for each of these numbers of steps, no other is there, ... */
	int live;             /* ... of which masks leave so many percent: drive_bodies.c */
	int64_t columns, rows;         /* ... and of some 256 of its rows so many columns */
	IntId runs;                    /* how often the region runs; NONE: once for each step */
	RegionId before, behind, tail; /* what runs before, behind, and in the peeled step behind all; NONE */
	const char *name;              /* of its step function */
	const char *step_name;
} KLoop;

/* Straight code that stands `count` times, its iterations counted by `step`. Arguments: what is carried into the first;
 * the region's parameters; a yield; results. */
typedef struct KFor {
	ValueId step;
	int64_t from;
	IntId end;
	VEC(ValueId) carried;
	bool unread;   /* nothing reads `step` */
	int64_t slice; /* each iteration works on so many columns from slice * step, called as the statement
	                  is; 0: on no such */
} KFor;

typedef struct KPipelineWindow {
	BufferId of;
	bool output;
	const int64_t *block;
	const IntId *index; /* of the pipeline's `at`, and elements of tables */
	int buffers;
	bool ahead; /* the next block that is another one is copied as soon as a buffer is free */
} KPipelineWindow;

/* Runs a function of windows once for each point of a grid of its own. */
typedef struct KPipeline {
	FunctionId body;
	uint32_t rank;
	IntId grid[RANK_MAX];
	ValueId at[RANK_MAX];         /* the grid's point, in the index maps */
	VEC(KPipelineWindow) windows; /* ins first: as the body's parameters stand */
} KPipeline;

enum {
	KSTMT_AHEAD = 1,   /* it is to run ahead of its step: rewrite_split.c */
	KSTMT_SAID = 2,    /* its source line is told where it stands, though its one use prints it */
	KSTMT_INITIAL = 4, /* it makes an initial value of the loop behind it: where its driver wants it */
	KSTMT_NARROW = 8   /* a maximum or minimum is to be taken of what its operand was converted from */
};

typedef struct KStmt {
	uint16_t op;
	uint16_t flags;
	RegionId region, body; /* where it stands; its own, or NONE */
	StmtId prev, next;
	uint32_t arg_first, arg_count; /* in Kernel.args */
	ValueId result;                /* the first one; NONE */
	uint32_t result_count;
	uint32_t int_count; /* attributes */
	const int64_t *ints;
	FunctionId function; /* DEF, CALL, FORI; else NONE */
	union {
		KLoop *loop;
		KFor *each;
		KPipeline *pipeline;
		const char *text; /* DEBUG_PRINT: what stands before the values */
	};
	const char *name,
		*var;         /* WHEN, PIPELINE, a STORE of a part: what its function would like to be called, and is */
	const Location *from; /* the source line that it is of; NULL */
	const Location *also; /* and that of a number in it; NULL */
} KStmt;

typedef struct KRegion {
	StmtId first, last;
	StmtId owner; /* the statement that holds it; NONE: the kernel's function */
} KRegion;

typedef enum ParameterKind { PARAMETER_VALUE, PARAMETER_BUFFER, PARAMETER_FLAG } ParameterKind;
typedef struct KParameter {
	ParameterKind kind; /* FLAG: a value that is unset where a call does not name it */
	uint32_t id;        /* ValueId or BufferId */
} KParameter;

typedef enum FunctionKind {
	FUNCTION_PLAIN,
	FUNCTION_FORI, /* of the step and what is carried, which comes as one argument and goes as one result */
	FUNCTION_WHILE /* of what is carried alone; its first one says whether it runs again */
} FunctionKind;
typedef struct KFunction {
	FunctionKind kind;
	const char *name, *var;
	VEC(KParameter) parameters;
	RegionId body;
} KFunction;

/* A tile that is to be computed in strips of columns: rewrite_strips.c. */
typedef struct KStash {
	ValueId value;
	BufferId scratch; /* keeps it for what waits for a reduction of rows; other values are computed again */
} KStash;

typedef struct KStrips {
	int64_t size, width; /* columns of a row, of a strip */
	uint32_t spread;     /* columns that are spread over all lanes once, for all strips: columns_spread() */
	VEC(KStash) stashes;
} KStrips;

/* A kernel of a whole array is to be one of a device's parts, and bring the others', or what others add, itself, from
 * device to device round a ring: rewrite_ring.c. */
typedef struct KRing {
	bool scatter;       /* `buffer`, an out, is summed, and a device keeps its part; else, an in, it is gathered */
	BufferId buffer;    /* its blocks in VMEM are those of the whole array */
	const char *axis;   /* of the mesh */
	int64_t devices;    /* along it, at least two */
	Dtype travels, out; /* scatter: what sums are between devices, and what the finished ones are */
	const char *why;    /* it cannot be done: why; NULL */
	BufferId added;     /* done: the output through which others' parts, or sums, came, ... */
	int64_t bytes;      /* ... and VMEM that it takes beside what the kernel took before */
} KRing;

/* ---- the kernel ------------------------------------------------------------------------------------------------- */

/* What XLA is told that a kernel costs: it schedules by it what runs beside. */
typedef struct KCost {
	int64_t flops, transcendentals, bytes;
} KCost;

typedef struct KGridDim {
	ValueId at; /* in index maps */
	int64_t steps;
	bool parallel;
} KGridDim;

typedef struct Kernel {
	Arena *arena;
	const char *name; /* of the call; its function is _name_kernel */
	VEC(KGridDim) grid;
	VEC(KValue) values;
	VEC(KBuffer) buffers; /* the signature's in the order of its function's parameters, then those of functions */
	VEC(KInt) ints;
	Map int_of;        /* hash of an int: the first with it */
	RegionId elements; /* holds the loads that stand in index maps and windows; NONE: there is none yet */
	VEC(KRef) refs;
	VEC(KArg) args;
	VEC(KStmt) stmts;
	VEC(KRegion) regions;
	VEC(KFunction) functions;
	RegionId body;         /* of the kernel's function */
	int64_t vmem_limit;    /* bytes, passed to the compiler; 0: its own */
	const KCost *cost;     /* NULL: XLA is told nothing */
	const char *mesh_axis; /* the kernel runs on each device along it, and copies between them; NULL */
	int64_t devices;       /* so many are along it */
	int64_t collective_id; /* of its barrier; NONE-like -1: no barrier */
	bool unchecked;        /* all copies lie in their arrays: the compiler need not test it */
	bool turns;            /* the grid is to walk back and forth: rewrite_walk.c */
	bool blocks;           /* masked steps behind loops are to be cut into blocks: rewrite_blocks.c */
	bool turn_once; /* what several matmuls contract along its rows is to be turned once: rewrite_turn_once.c */
	bool unmasked;  /* steps that masks leave whole are to be computed without: rewrite_unmasked.c */
	bool narrow;    /* what two bfloat16 give is to be computed in it where it is rounded to it: rewrite_narrow.c */
	bool chunks;    /* a factor that is computed beside its matmul is to be made in chunks: rewrite_chunks.c */
	bool pieces;    /* what follows its matmuls is to be computed of pieces of their results: rewrite_pieces.c */
	bool first_chunks;    /* the first grid point's blocks are to come chunk by chunk of its loop: rewrite_runs.c */
	int expected_steps;   /* of loops of which only data say how often they run, for estimates; 0: nobody says */
	int64_t sparse_cores; /* it has no grid and runs on so many SparseCores, ...; 0: on a TensorCore */
	int64_t subcores;     /* ... on so many vector subcores of each */
	KStrips *strips;      /* rows are to be computed in strips of columns; NULL */
	KRing *ring;          /* it is to run on a ring of devices; NULL */
	VEC(uint32_t) line_of; /* by statement: its line in the text that it was read from; others are behind the end */
} Kernel;

typedef struct KArray {
	const char *name;
	Dtype dtype;
	uint32_t rank;
	const int64_t *shape;
	bool scalar; /* a number at run time */
	int line;    /* of the text that it was read from; 0: of none */
} KArray;

/* A part of an estimate, and its name in KERNEL_INFO. */
typedef struct KPart {
	const char *name;
	double value;
} KPart;
typedef VEC(KPart) KParts;

/* An axis of a mesh. */
typedef struct KAxis {
	const char *name;
	int64_t devices;
} KAxis;

/* What a document becomes. */
typedef struct KProgram {
	Arena *arena;
	const char *name, *target;
	VEC(KArray) inputs;  /* the function's parameters */
	VEC(KArray) outputs; /* what it returns */
	VEC(Kernel *) kernels;
	Kernel *host;       /* the wrapper: parameters are values 0.. of `inputs`; launches; one return */
	const char *config; /* JSON members, without braces */
	const char *sizes;  /* the same of the document's named sizes; "": it has none */
	int64_t vmem_bytes;
	double flops, hbm_bytes;
	KParts vmem;                     /* bytes by owner, of the kernel that takes most; none: nobody knows */
	KParts estimate;                 /* cycles, seconds, and cycles by part, of all kernels; none: nobody knows */
	VEC(KAxis) axes;                 /* of the mesh on which the wrapper runs, which names them by their numbers */
	VEC(ValueId) step_values;        /* what a step of its ring leaves; none: all that it returns */
	StmtId step_end;                 /* the wrapper's last statement of such a step */
	const struct Sharding *sharding; /* it is one device's part of a mesh; NULL */
	const Source *source;            /* that it was read from; NULL */
	bool named_scopes;               /* in Python the statements of each source line stand in a scope of its name */
} KProgram;

/* ---- kernel.c: making and changing it ---------------------------------------------------------------------------- */

Kernel *kernel_new(Arena *a, const char *name);

IntId int_const(Kernel *k, int64_t number);
IntId int_value(Kernel *k, ValueId v);
/* An expression of a and b; of constants the constant. Nothing else is folded: text says what it says. */
IntId int_binary(Kernel *k, IntKind kind, IntId a, IntId b);
/* The same, of constants too: for who reads it. */
IntId int_unfolded(Kernel *k, IntKind kind, IntId a, IntId b);
/* That expression, as it is. */
IntId int_intern(Kernel *k, KInt i);
IntId int_choose(Kernel *k, IntId flag, IntId yes, IntId no);
IntId int_turn(Kernel *k, IntId row, IntId step, IntId steps);
IntId int_device(Kernel *k);
IntId int_first(Kernel *k, uint32_t dim);
IntId int_later(Kernel *k, uint32_t dim);
/* One element of a table in SMEM, at an int in each dim: stands in index maps, and in a loop's windows. */
IntId int_element(Kernel *k, BufferId table, const IntId *at);
/* The reference that such a value loads; NONE: it is no element. */
RefId value_element(const Kernel *k, ValueId v);
/* It is a constant: *number. */
bool int_is_const(const Kernel *k, IntId i, int64_t *number);
/* `i` with value `v` replaced by `by`; with its constants in one, behind the rest, if `by` is one. */
IntId int_substitute(Kernel *k, IntId i, ValueId v, IntId by);
/* It reads the value. */
bool int_reads(const Kernel *k, IntId i, ValueId v);

ValueId kernel_value(Kernel *k, KType type, Dtype dtype, uint32_t rank, const int64_t *shape, const char *name);
KValue *kernel_value_at(Kernel *k, ValueId v);
BufferId kernel_buffer(Kernel *k, KBuffer b);
BufferId kernel_scratch(Kernel *k, KSpace space, Dtype dtype, uint32_t rank, const int64_t *shape, const char *name);
/* An output of a kernel whose loops are all driven, which stands before its scratch: scratch gets other ids. */
BufferId kernel_add_output(Kernel *k, KBuffer b);
RefId kernel_ref(Kernel *k, BufferId b, uint32_t rank, const KDim *dim);
/* All of a loop's window at a step. */
RefId kernel_ref_at(Kernel *k, BufferId b, IntId at);
FunctionId kernel_function(Kernel *k, FunctionKind kind, const char *name);
RegionId kernel_region(Kernel *k, StmtId owner);
/* A `def` is that of a function; returns its body. */
RegionId kernel_define(Kernel *k, StmtId def, FunctionId f);

static inline KArg karg_value(ValueId v) { return (KArg){.kind = KARG_VALUE, .value = v}; }
static inline KArg karg_integer(int64_t x) { return (KArg){.kind = KARG_INTEGER, .integer = x}; }
static inline KArg karg_real(double x) { return (KArg){.kind = KARG_REAL, .real = x}; }
static inline bool karg_is_number(KArg x, double number) {
	return (x.kind == KARG_REAL && x.real == number) || (x.kind == KARG_INTEGER && (double)x.integer == number);
}
static inline KArg karg_bool(bool x) { return (KArg){.kind = KARG_BOOL, .boolean = x}; }
static inline KArg karg_int(IntId i) { return (KArg){.kind = KARG_INT, .index = i}; }
static inline KArg karg_ref(RefId r) { return (KArg){.kind = KARG_REF, .ref = r}; }

/* A statement at the end of a region, or before `before` where that is not NONE. Attributes are copied. */
StmtId kernel_append(Kernel *k, RegionId r, uint16_t op, uint32_t arg_count, const KArg *args, uint32_t int_count,
                     const int64_t *ints);
StmtId kernel_insert_before(Kernel *k, StmtId before, uint16_t op, uint32_t arg_count, const KArg *args,
                            uint32_t int_count, const int64_t *ints);
/* It has the flags, places in the source and name of another. */
void kernel_say_like(Kernel *k, StmtId s, StmtId like);
/* Another of the same op, attributes, flags and places in the source, with as many arguments; it gives nothing yet. */
StmtId kernel_append_like(Kernel *k, RegionId r, StmtId like, const KArg *args);
/* The same that reads what values, the first `count`, are `now`, and notes what its results are; they keep their names
 * where they are `named`. */
StmtId kernel_copy(Kernel *k, RegionId r, StmtId s, ValueId *now, uint32_t count, bool named);
/* A branch there, still empty, that is taken where the condition holds; its body is its region. */
StmtId kernel_insert_when(Kernel *k, StmtId before, IntId condition, const char *name);
/* The shape of what a reference selects; returns its rank. */
uint32_t kernel_ref_shape(const Kernel *k, RefId r, int64_t *shape);
/* By value, of those that there are: NONE. */
ValueId *kernel_value_map(const Kernel *k);
/* Every argument and int that reads a value v reads map[v] instead, where that is not NONE. */
void kernel_replace_values(Kernel *k, const ValueId *map, uint32_t count);
/* Statements that nothing reads and that do nothing else go. */
void kernel_drop_unread(Kernel *k);
/* Gives it one more result. Results of a statement are made one after the other. */
ValueId kernel_result(Kernel *k, StmtId s, KType type, Dtype dtype, uint32_t rank, const int64_t *shape,
                      const char *name);
/* The same of the type of the value `like`. */
ValueId kernel_result_like(Kernel *k, StmtId s, ValueId like, const char *name);
/* A value of the type of another, which takes over its variable. */
ValueId kernel_value_like(Kernel *k, ValueId like);
/* Other arguments. */
void kernel_set_args(Kernel *k, StmtId s, uint32_t count, const KArg *args);
/* A statement with one result, whose type follows from the arguments and, where it does not, from `dtype` and
 * `shape` (kernel_infer()). */
ValueId kernel_op(Kernel *k, RegionId r, uint16_t op, Dtype dtype, uint32_t rank, const int64_t *shape,
                  uint32_t arg_count, const KArg *args, uint32_t int_count, const int64_t *ints);
/* Each element of its result is computed of those that stand there in its tiles, which may be one for all of a dim. */
bool kernel_op_is_pointwise(uint16_t op);
/* It gives elements of its one tile as they are, by another name or in another shape. */
bool kernel_op_views(uint16_t op);
/* Out of its region; it is not referred to any more. */
void kernel_remove(Kernel *k, StmtId s);
/* All that stands behind it in its region. */
void kernel_remove_behind(Kernel *k, StmtId s);
/* To the end of another region, or before a statement. */
void kernel_move(Kernel *k, StmtId s, RegionId to);
/* All of a region's, in their order. */
void kernel_move_all(Kernel *k, RegionId from, RegionId to);
void kernel_move_before(Kernel *k, StmtId s, StmtId before);
/* The regions that a statement holds, in the order of the text; returns how many. */
enum { STMT_REGIONS_MAX = 4 };
uint32_t kernel_regions(const Kernel *k, StmtId s, RegionId regions[STMT_REGIONS_MAX]);
/* Every statement of a region and of those in it, first to last, a statement before its regions. */
typedef void KVisit(Kernel *k, StmtId s, void *data);
void kernel_walk(Kernel *k, RegionId r, KVisit *visit, void *data);
/* A loop's bounds or windows read the value. */
bool kernel_loop_reads(const Kernel *k, const KLoop *loop, ValueId v);
/* An argument does: as it is, in an int, or in a reference; or those of a loop. Regions are not looked into. */
bool kernel_stmt_reads(const Kernel *k, StmtId s, ValueId v);
/* By value: how often it is read, by arguments, ints, references and index maps. */
uint32_t *kernel_uses(Kernel *k);

static inline KStmt *kernel_stmt(const Kernel *k, StmtId s) { return &k->stmts.at[s]; }
static inline KArg *kernel_arg(const Kernel *k, StmtId s, uint32_t i) {
	return &k->args.at[k->stmts.at[s].arg_first + i];
}
/* The statement that gives it; NONE: it is no value, or a parameter. */
static inline StmtId kernel_def_of(const Kernel *k, KArg x) {
	return x.kind == KARG_VALUE ? k->values.at[x.value].def : NONE;
}
static inline bool kernel_is_tile(const Kernel *k, KArg x) {
	return x.kind == KARG_VALUE && k->values.at[x.value].type == KTYPE_TILE;
}
static inline bool kernel_same_shape(uint32_t rank, const int64_t *shape, uint32_t rank2, const int64_t *shape2) {
	return rank == rank2 && (rank == 0 || memcmp(shape, shape2, rank * sizeof *shape) == 0);
}
/* The last statement: a region's yield or return. */
static inline StmtId region_last(const Kernel *k, RegionId r) { return k->regions.at[r].last; }
static inline StmtId region_first(const Kernel *k, RegionId r) { return k->regions.at[r].first; }
/* The wrapper's one launch of a kernel; NONE: there is none, or there are several. */
StmtId program_launch(const KProgram *p);

/* kernel_infer.c: the type of the result of a pure statement, given the dtype that it states (DTYPE_NONE: none) and,
 * for ops that make shapes, the shape. False: the arguments do not fit, *why says so. */
bool kernel_infer(const Kernel *k, uint16_t op, uint32_t arg_count, const KArg *args, uint32_t int_count,
                  const int64_t *ints, Dtype *dtype, uint32_t *rank, int64_t *shape, const char **why);

/* kernel_linear.c: number + by[i] * term[i] + ..., where that is known. */
enum { LINEAR_TERMS = 8 };
typedef struct Linear {
	int64_t number;
	ValueId term[LINEAR_TERMS];
	int64_t by[LINEAR_TERMS];
	uint32_t terms;
	bool known;
} Linear;
/* It and `by` times an int, or a value that is one. In the function that a statement calls a parameter is what that
 * gives for it; NONE: there is none. */
void linear_add(const Kernel *k, StmtId call, Linear *to, IntId id, int64_t by);
void linear_add_value(const Kernel *k, StmtId call, Linear *to, ValueId v, int64_t by);
bool linear_is_number(const Linear *x);

/* kernel_names.c: a variable for each value, buffer and function that has none yet and needs one, none that is
 * `reserved` nor `own`; each name once. */
typedef bool IsReserved(const char *name);
void kernel_name_values(Kernel *k, IsReserved *reserved, const char *own);
/* The results of a launch from which on they have one variable. */
enum { UNPACK_MAX = 4 };

/* mosaic.c: the dtype through which Mosaic converts; DTYPE_NONE: directly. */
Dtype mosaic_conversion_hub(Dtype from, Dtype to);

/* kernel_clashes.c: what Python would not find any more under the name that a text gives it has no variable, and would
 * like one. */
void kernel_part_names(Kernel *k);

#endif
