/* ir.h - the Module: a dataflow program over tiles, as docs/graph-format.md defines it.
 *
 * Everything is an index into a vector of the Module (nodes, graphs, tensors, types, expressions, arguments), so that a
 * Module is cloned by copying a dozen arrays and no pass chases pointers. Strings are interned: names compare by ==.
 *
 * All edits of nodes go through the functions at the end of this header: they keep the use lists, so that no pass walks
 * the world to find users. */
#ifndef PALLASC_IR_H
#define PALLASC_IR_H

#include "src/base/base.h"
#include "src/ops/ops.h"
#include "src/target/target.h"

typedef uint32_t NodeId, GraphId, TensorId, ScalarId, BlockId, TunableId, ArgId, ExprId, TypeId;

enum { RANK_MAX = 8 };
/* A kernel counts positions in int32: no dim or range is longer. */
enum { POSITION_MAX = INT32_MAX };
/* Devices of a program: a barrier is a signal of each to each. */
enum { MESH_DEVICES_MAX = 256 };
/* Pairs of semaphores that copies between devices count on. */
enum { CHANNELS_MAX = 64 };
/* Graphs may be called within graphs this deep. */
enum { GRAPH_DEPTH_MAX = 64 };

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

/* An expression over ints, block symbols and tunables. Hash-consed and folded where constant, so that structurally
 * equal expressions have one id. They compare by value under the configuration: expr_equal(). */
typedef enum ExprKind {
	EXPR_INT,
	EXPR_BLOCK,   /* value = BlockId */
	EXPR_TUNABLE, /* value = TunableId */
	EXPR_ADD,
	EXPR_SUB,
	EXPR_MUL,
	EXPR_FLOORDIV,
	EXPR_MOD,
	EXPR_CDIV,
	EXPR_MIN,
	EXPR_MAX,
	EXPR_NEXT_POW2
} ExprKind;

typedef struct Expr {
	ExprKind kind;
	ExprId a, b;    /* operands */
	bool known;     /* `number` is valid */
	int64_t value;  /* EXPR_INT: the int; EXPR_BLOCK, EXPR_TUNABLE: the index */
	int64_t number; /* its value under the Module's configuration, once resolved */
} Expr;

/* ---- types ------------------------------------------------------------------------------------------------------ */

typedef enum TypeKind {
	TYPE_NONE,   /* tile.store */
	TYPE_TENSOR, /* dtype, dims; [] for 0-d; host tensors and scalars too */
	TYPE_SYM,    /* a symbolic int, or bool if dtype is DTYPE_BOOL */
	TYPE_TUPLE
} TypeKind;

/* Hash-consed: equal types have one id. */
typedef struct Type {
	TypeKind kind;
	Dtype dtype;            /* TENSOR; SYM: DTYPE_I32 or DTYPE_BOOL */
	ExprId sym;             /* SYM: its expression, NONE if known only at run time */
	uint32_t count;         /* TENSOR: rank; TUPLE: elements */
	ExprId dims[RANK_MAX];  /* TENSOR */
	const TypeId *elements; /* TUPLE, in the arena */
} Type;

/* ---- the document's tables -------------------------------------------------------------------------------------- */

typedef enum TensorRole { ROLE_INPUT, ROLE_OUTPUT, ROLE_INOUT, ROLE_VIEW, ROLE_DERIVED } TensorRole;
typedef enum ViewKind { VIEW_RESHAPE, VIEW_PERMUTE, VIEW_SLICE, VIEW_EXPAND } ViewKind;

/* One host-side step, `[target, args...]`, of `derived` and of `returns`: args are constants. */
typedef struct HostStep {
	uint16_t op; /* Op */
	ArgId first; /* its arguments after the value itself, in Module.args */
	uint32_t count;
} HostStep;

typedef struct Tensor {
	const char *name;
	TensorRole role;
	Dtype dtype;
	uint32_t rank;
	ExprId shape[RANK_MAX];
	bool has_init; /* output: `init` is a number */
	double init;
	bool whole;  /* stands for one of int64: what is stored must be what int32 holds */
	TensorId of; /* view, derived */
	ViewKind view;
	int64_t view_arg[RANK_MAX][3]; /* permute: [d][0] = dim; slice: start, stop, step */
	HostStep *steps;               /* derived */
	uint32_t step_count;
} Tensor;

/* A number that has a name in the document's expressions. */
typedef struct NamedSize {
	const char *name;
	int64_t value;
	bool fixed; /* the graph is written for this value: none else can be chosen */
} NamedSize;

typedef struct Scalar {
	const char *name;
	Dtype dtype;
	bool has_value;
	double value; /* exact for ints up to 2^53; int_value is used for int dtypes */
	int64_t int_value;
	int64_t most; /* no value, but one from 0 to this; 0: nobody knows */
} Scalar;

typedef struct Return {
	TensorId tensor;
	HostStep *steps;
	uint32_t step_count;
	bool has_shape;
	uint32_t rank;
	ExprId shape[RANK_MAX];
} Return;

typedef struct Block {
	const char *symbol; /* "u0" */
	const char *name;   /* "tile_m" */
	ExprId begin;       /* default 0 */
	ExprId extent;      /* exclusive end; NONE: null, a loop call computes it */
	ExprId size;        /* fixed by the graph; NONE: chosen by the configuration */
	bool reduction;     /* a whole dim that may be rolled */
	int64_t share;      /* positions that travel together, where the kernel moves them round a ring; 0 */
} Block;

/* The configuration's block_sizes chooses its size: the graph does not fix it, and it is not a whole dim. */
static inline bool block_is_chosen(const Block *b) { return b->size == NONE && !b->reduction; }

typedef struct Tunable {
	const char *name;
	int64_t default_value;
	VEC(int64_t) choices;
} Tunable;

/* ---- graphs and nodes ------------------------------------------------------------------------------------------- */

typedef enum GraphKind {
	GRAPH_ROOT,
	GRAPH_FOR_LOOP,
	GRAPH_REDUCTION_LOOP,
	GRAPH_IF,
	GRAPH_ELSE,
	GRAPH_WHILE,
	GRAPH_COND,
	GRAPH_COMBINE
} GraphKind;

/* `carried: [[arg, output], ...]`: that output replaces that argument next time. */
typedef struct Carried {
	uint32_t arg, output;
} Carried;

typedef struct Graph {
	int64_t id;      /* as the document numbers it */
	uint32_t origin; /* index in the document's `graphs`; NONE if a pass made it */
	GraphKind kind;
	VEC(BlockId) blocks; /* root: its grid; loops: block_ids; outermost first */
	VEC(Carried) carried;
	uint32_t lengths;         /* argument index; NONE */
	NodeId first, last;       /* nodes in order (Node.prev, Node.next); last is the output node */
	NodeId output;            /* its arguments: one LIST of results */
	VEC(NodeId) placeholders; /* argument i; NONE if removed never happens: placeholders stay */
	NodeId caller;            /* the node that calls it; NONE for a root */
	Map names;                /* name of a live node -> NodeId; kept by the editing functions */
} Graph;

typedef enum ArgKind {
	ARG_NULL,
	ARG_BOOL,
	ARG_INT,
	ARG_FLOAT,
	ARG_STRING,
	ARG_DTYPE,
	ARG_REF,    /* a node's value */
	ARG_SYM,    /* an expression */
	ARG_LIST,   /* `count` arguments from `first` */
	ARG_SLICE,  /* exactly three: start, stop, step */
	ARG_TENSOR, /* a name resolved: tile.host_tensor's argument */
	ARG_SCALAR, /* tile.scalar's */
	ARG_GRAPH,  /* the graph argument of tile.for_loop, ... */
	ARG_BLOCK   /* a block symbol where only that is meant: tile.begin(u0), tile.symnode(u0) */
} ArgKind;

typedef struct Arg {
	ArgKind kind;
	union {
		bool boolean;
		int64_t integer;
		double real;
		const char *string;
		Dtype dtype;
		NodeId node;
		ExprId expr;
		TensorId tensor;
		ScalarId scalar;
		GraphId graph;
		BlockId block;
		struct {
			ArgId first;
			uint32_t count;
		} list;
	};
	/* ARG_REF: the use list of `node`. */
	NodeId user;
	ArgId next_use, prev_use;
} Arg;

typedef struct Node {
	const char *name;
	uint16_t op;       /* Op, a row of ops.def */
	bool dead;         /* removed: not in its graph's list any more */
	uint8_t arg_count; /* PARAMS_MAX at most: 64 bytes in all */
	GraphId graph;
	TypeId type;
	ArgId arg_first;   /* arg_count consecutive Args; kwargs and defaults are already in their places */
	ArgId first_use;   /* head of its use list; NONE */
	NodeId prev, next; /* in its graph; NONE at the ends */
	uint32_t origin;   /* index in the document's `nodes`; NONE if a pass made it */
	Location loc;
} Node;

/* ---- configuration ---------------------------------------------------------------------------------------------- */

typedef enum LoopType { LOOP_DEFAULT, LOOP_UNROLL, LOOP_FORI, LOOP_EMIT_PIPELINE } LoopType;
const char *loop_type_name(LoopType t); /* "fori_loop"; keys.c */
typedef enum Switch { SWITCH_AUTO, SWITCH_ON, SWITCH_OFF } Switch;
enum { AHEAD_AUTO = -1 }; /* pallas_matmul_ahead */
/* Where nobody gives it, below them: auto. */
typedef enum IndirectMode { INDIRECT_AUTO, INDIRECT_ONE_HOT, INDIRECT_DMA } IndirectMode;
typedef enum DotPrecision { DOT_HIGHEST, DOT_HIGH, DOT_DEFAULT } DotPrecision;

/* Where a key's value came from, for messages. */
typedef struct ConfigOrigin {
	const Source *source;
	const char *pointer;
} ConfigOrigin;

/* One list-valued key: `set`, the first field of all, tells whether the user or the graph gave it. */
typedef struct ConfigList {
	bool set;
	ConfigOrigin origin;
	VEC(int64_t) values; /* reduction_loops: 0 stands for null; flatten_loops: 0 or 1 */
} ConfigList;

typedef struct ConfigKey {
	bool set;
	ConfigOrigin origin;
	int value; /* one of the enums above, a word's index, or a number */
} ConfigKey;

/* A permutation for each grid or loop of two or more dims. */
typedef struct ConfigOrders {
	bool set;
	ConfigOrigin origin;
	VEC(ConfigList) values;
} ConfigOrders;

#define KEY_FIELD_SIZES ConfigList
#define KEY_FIELD_FLAGS ConfigList
#define KEY_FIELD_ORDERS ConfigOrders
#define KEY_FIELD_WORD ConfigKey
#define KEY_FIELD_SWITCH ConfigKey
#define KEY_FIELD_NUMBER ConfigKey

/* One field for each row of keys.def. */
typedef struct Config {
#define KEY(field, name, kind, ...) KEY_FIELD_##kind field;
#include "keys.def"
#undef KEY
	VEC(int64_t) tunables;    /* by TunableId */
	VEC(bool) tunables_given; /* the same: by --config or --set, not by the graph */
	bool gpu_keys_noted;      /* the note on ignored GPU keys was given */
} Config;

/* ---- the Module ------------------------------------------------------------------------------------------------- */

/* Facts that passes computed, config-independent; see passes/facts/block_constraints.c and passes/facts/loop_types.c.
 * They are written under `annotations` by --emit=json and checked when such a document is loaded. */
typedef struct Alignment {
	int64_t dim[RANK_MAX]; /* a block of this tensor must be a multiple of this in each dim, or cover the dim */
} Alignment;

/* The elements of a tile value, for a target that caps them: `elements` <= `most`. One for each distinct expression;
 * `node` is the first value of that size. */
typedef struct ElementLimit {
	NodeId node;
	ExprId elements;
	int64_t most;
} ElementLimit;

typedef struct LoopFact {
	uint8_t legal;          /* bit 1 << LoopType */
	const char *why_not[4]; /* by LoopType: the reason, where not legal */
} LoopFact;

/* A block's size where nothing says one (default_blocks.c), and the least that smaller ones may be. */
typedef struct DefaultBlock {
	bool taken;
	int64_t size, least;
} DefaultBlock;

/* A block as the configuration asks for it and as it is. */
typedef struct Narrowed {
	int64_t asked, size;
	const char *kept; /* why it is wider than its range all the same; NULL */
	const char *wide; /* why it is wider than asked for; NULL */
} Narrowed;

/* So much of a block that a grid step takes of it several at once. */
typedef struct Enlarged {
	int64_t size; /* 0: as the configuration says */
	const char *why;
} Enlarged;

/* Is every node's type what follows from its arguments? */
typedef enum Typing {
	TYPING_UNKNOWN,  /* or it is not */
	TYPING_SYMBOLIC, /* for sizes that agree by nothing but what the graph says; real ones may be at odds with it */
	TYPING_ALWAYS    /* no size was asked for: so it is under every configuration */
} Typing;

/* The ways to access a tensor where ints say. */
typedef enum IndirectWay {
	WAY_SLICE,
	WAY_DYNAMIC,
	WAY_ONE_HOT,
	WAY_VECTOR,
	WAY_DMA,
	WAY_SPARSE,
	WAY_COUNT
} IndirectWay;
typedef struct WayCost {
	double cycles;   /* each time that a tile's positions are gone through */
	const char *why; /* why it is not possible; NULL: it is */
} WayCost;

/* A load, store or atomic at the positions of an int tensor or of a loaded int, and how it is done. */
typedef struct Indirect {
	int64_t root, graph; /* their ids in the document */
	uint16_t op;
	const char *node;
	TensorId tensor;
	IndirectWay way;
	bool ahead; /* copied while the step before computes */
	WayCost cost[WAY_COUNT];
} Indirect;

typedef struct Module {
	Arena *arena;
	const Source *source;
	const Target *target;
	StringTable strings;

	const char *name;
	VEC(NamedSize) sizes;
	VEC(Tensor) tensors;
	VEC(Scalar) scalars;
	VEC(Return) returns; /* filled with the default when the document has none */
	VEC(Block) blocks;
	VEC(Tunable) tunables;
	bool assume_in_bounds;
	const char *mesh_axis; /* the program runs on each device along it, and may copy between them; NULL */
	int64_t mesh_devices;  /* so many are along it */

	VEC(Graph) graphs; /* document order */
	VEC(Node) nodes;
	VEC(Arg) args;
	VEC(Type) types;
	VEC(Expr) exprs;
	struct {
		uint32_t *slot;
		uint32_t room;
	} type_table, expr_table; /* hash tables for consing */

	Config config;
	VEC(const char *) by_size; /* what its sizes chose of configurations by size, a line each */
	VEC(int64_t) block_size;   /* by BlockId, once module_configure() has resolved the configuration */
	VEC(Narrowed) narrowed;    /* by BlockId, then too */
	VEC(Enlarged) enlarged;    /* by BlockId; empty: none (src/driver/choose_sizes.c) */
	VEC(DefaultBlock)
	defaults;               /* by BlockId, as of the first module_configure(): passes may hide what a block does */
	uint32_t default_level; /* how often defaults are halved: src/driver/choose.c */
	bool may_split_rows;    /* row_split could, and whole tiles may be too large */
	bool split_rows;        /* and is to: src/driver/choose.c */
	bool may_one_hot;       /* rows of tables that are gathered could be found by matmuls, and that may pay */
	bool one_hot;           /* and are to be: src/driver/choose.c */
	int64_t row_bytes; /* of the rows that loops over columns could take whole: whole_rows.c; 0: they could not */
	bool whole_rows;   /* and are to: src/driver/choose.c */
	bool fenced;       /* unrolled steps are to stand in pairs behind fences: src/driver/choose.c */
	bool configured;   /* it has */
	bool settled;      /* a pass wrote sizes of blocks as numbers: the graph is right for these sizes alone */
	bool *sizes_asked; /* set by expr_value() where it is asked for what is no constant; NULL: nobody wants to know
	                    */
	Typing typing;     /* what module_verify_symbols() found; of the graph as it was loaded */
	const struct Sharding *sharding;        /* it is one device's part of a mesh (src/shard/shard.h); NULL */
	bool is_part;                           /* module_of_root() made it, of a document of several roots */
	bool explain;                           /* remarks on its plans are wanted */
	const struct DebugPrints *debug_prints; /* what its kernels print while they run; NULL: nothing */

	Alignment *alignments;            /* by TensorId; NULL until block_constraints ran */
	LoopFact *loop_facts;             /* by GraphId; NULL until loop_types ran */
	VEC(ElementLimit) element_limits; /* by block_constraints: empty where the target has no cap */
	VEC(Indirect) indirect;           /* accesses that passes made other nodes of */
	uint32_t fresh;                   /* counter for names that passes make */

	Map tensor_names; /* name -> TensorId */
	Map scalar_names; /* name -> ScalarId */
	Map symbols;      /* name -> BlockId, TunableId | SYMBOL_TUNABLE, or an index of `sizes` | SYMBOL_SIZE */
	Map graph_ids;    /* document id -> GraphId */
	Alignment *given_alignments;    /* the document's annotations, for module_check_annotations(); NULL: none */
	VEC(ElementLimit) given_limits; /* the same, without nodes */
	bool has_given_limits;
	LoopFact *given_loop_facts; /* by GraphId, `legal` is LOOP_FACT_ABSENT where the document has none */
} Module;

/* The kernel prints the values of the nodes of that name, in all graphs. */
typedef struct DebugPrint {
	const char *name;
	bool whole; /* of a tile every element, not only its extremes, how many are NaN and the first */
} DebugPrint;
typedef struct DebugPrints {
	VEC(DebugPrint) list;
} DebugPrints;

#define SYMBOL_TUNABLE 0x80000000u
#define SYMBOL_SIZE 0x40000000u
#define LOOP_FACT_ABSENT 0xff

/* ir.c: a deep copy in another arena (strings are shared with the original's arena, which must outlive it). */
Module *module_clone(const Module *m, Arena *a);
/* ir_root.c: the root graph number `index` in document order; NONE. */
GraphId module_root(const Module *m, uint32_t index);
/* A copy that has this root alone: what earlier roots stored is given to it. */
Module *module_of_root(const Module *m, Arena *a, uint32_t index);

/* What the wrapper holds of a result: sizes are numbers. */
typedef struct HostValue {
	Dtype dtype;
	uint32_t rank;
	int64_t shape[RANK_MAX + 2]; /* as of an operand, which may have two dims more than its tensor */
} HostValue;
/* Checks host tensors as far as their sizes are known: no negative size, no overflow, views that fit their base. */
bool tensors_check(Module *m, Diag *d);
/* ---- expressions (expr.c) --------------------------------------------------------------------------------------- */
ExprId expr_int(Module *m, int64_t value);
ExprId expr_block(Module *m, BlockId b);
ExprId expr_tunable(Module *m, TunableId t);
ExprId expr_binary(Module *m, ExprKind kind, ExprId a, ExprId b);
ExprId expr_next_pow2(Module *m, ExprId a);
/* The expression with `size` for the size of block b. */
ExprId expr_sized(Module *m, ExprId e, BlockId b, ExprId size);
/* kind(a, b) on ints, checked; false for atoms, on overflow and on division by zero. NEXT_POW2 ignores b. */
bool expr_apply(ExprKind kind, int64_t a, int64_t b, int64_t *out);
/* Parses the language of graph-format.md; NONE after storing a message (one line, no place) in *error. */
ExprId expr_parse(Module *m, const char *text, const char **error);
/* Prints so that expr_parse() gives the same expression back. */
void expr_print(const Module *m, ExprId e, Text *out);
const char *expr_string(Module *m, ExprId e);
/* The same for people: blocks by name. */
const char *expr_named(const Module *m, Arena *a, ExprId e);
/* Its value under the configuration (module_configure() must have run), or without one if it is constant; false if
 * unknown or if it overflows or divides by zero. */
bool expr_value(const Module *m, ExprId e, int64_t *value);
/* Ints in what a node's rule made of its operands' dims overflow, or are divided by zero, whatever blocks are. */
bool expr_overflows(const Module *m, ExprId e);
/* expr_value() of an expression already known to have one. */
static inline int64_t expr_number(const Module *m, ExprId e) { return m->exprs.at[e].number; }
static inline bool expr_is_int(const Module *m, ExprId e, int64_t value) {
	return e != NONE && m->exprs.at[e].kind == EXPR_INT && m->exprs.at[e].value == value;
}
/* The block of which `e` is just the symbol, else NONE. */
static inline BlockId expr_as_block(const Module *m, ExprId e) {
	return e != NONE && m->exprs.at[e].kind == EXPR_BLOCK ? (BlockId)m->exprs.at[e].value : NONE;
}
bool expr_equal(const Module *m, ExprId a, ExprId b);

/* ---- types (ir.c) ----------------------------------------------------------------------------------------------- */
TypeId type_none(Module *m);
TypeId type_tensor(Module *m, Dtype dtype, uint32_t rank, const ExprId *dims);
TypeId type_sym(Module *m, Dtype dtype, ExprId sym); /* sym may be NONE */
TypeId type_tuple(Module *m, uint32_t count, const TypeId *elements);
static inline const Type *type_get(const Module *m, TypeId t) { return &m->types.at[t]; } /* valid until one is made */
/* Equal under the configuration. */
bool type_equal(Module *m, TypeId a, TypeId b);
const char *type_string(Module *m, TypeId t); /* "float32[u0, 128]" */

/* ---- arguments and parameters (fits.c) -------------------------------------------------------------------------- */
/* A value whose type the document leaves out and nothing has inferred yet. */
bool node_is_untyped(const Module *m, NodeId n);
/* Does an argument fit a parameter with this letter of include/ops.def; does an item of a list, for I, N and X? */
bool arg_fits(const Module *m, uint16_t op, char letter, const Arg *a);
bool arg_item_fits(const Module *m, char letter, const Arg *a);

/* ---- reading nodes ---------------------------------------------------------------------------------------------- */
/* What is asked of inner loops. Steps behind fences are planned as those of a fori_loop, and stand there one by one. */
static inline LoopType module_loop_type(const Module *m) {
	return m->fenced ? LOOP_FORI : (LoopType)m->config.loop_type.value;
}
static inline Node *node_get(const Module *m, NodeId n) { return &m->nodes.at[n]; }
static inline Graph *graph_get(const Module *m, GraphId g) { return &m->graphs.at[g]; }
static inline Arg *arg_get(const Module *m, ArgId a) { return &m->args.at[a]; }
extern const Arg no_argument; /* of the kind ARG_NULL */
/* Argument i of node n (NULL-kind argument if it has fewer). */
static inline const Arg *node_arg(const Module *m, NodeId n, uint32_t i) {
	const Node *node = node_get(m, n);
	return i < node->arg_count ? arg_get(m, node->arg_first + i) : &no_argument;
}
/* The node that argument i refers to; NONE if it is not a reference. */
static inline NodeId node_input(const Module *m, NodeId n, uint32_t i) {
	const Arg *a = node_arg(m, n, i);
	return a->kind == ARG_REF ? a->node : NONE;
}
static inline bool arg_is_list(const Arg *a) { return a->kind == ARG_LIST || a->kind == ARG_SLICE; }
static inline const Arg *arg_item(const Module *m, const Arg *list, uint32_t i) {
	return arg_is_list(list) && i < list->list.count ? arg_get(m, list->list.first + i) : &no_argument;
}
bool arg_is_whole(const Module *m, const Arg *a); /* the slice of all of a dim */
/* The place of a slot in a list; NONE. */
static inline uint32_t list_index(const Arg *list, ArgId slot) {
	bool inside = list->kind == ARG_LIST && slot >= list->list.first && slot - list->list.first < list->list.count;
	return inside ? slot - list->list.first : NONE;
}
/* The block that an index entry takes a whole tile of, or that a query names: an argument that is just its symbol, as
 * such, as an expression or by reference to one; NONE. */
BlockId arg_block(const Module *m, const Arg *arg);
/* A dim of the tensor that it gives is the block's. */
bool node_has_block(const Module *m, NodeId n, BlockId b);
static inline const Type *node_type(const Module *m, NodeId n) { return type_get(m, node_get(m, n)->type); }

/* A value of one or more dims that the kernel holds: not a host tensor. */
bool node_is_tile(const Module *m, NodeId n);

/* for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) ... arg_get(m, u)->user */
static inline ArgId node_uses(const Module *m, NodeId n) { return node_get(m, n)->first_use; }
uint32_t node_use_count(const Module *m, NodeId n);
/* The user, where n is used once; NONE. */
NodeId node_only_user(const Module *m, NodeId n);
/* for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) */
static inline NodeId graph_first(const Module *m, GraphId g) { return graph_get(m, g)->first; }
/* One of its own nodes is lowered so. */
bool graph_holds(const Module *m, GraphId g, Lowering how);
/* The list of what a graph gives: its output node's argument. */
static inline const Arg *graph_results(const Module *m, GraphId g) { return node_arg(m, graph_get(m, g)->output, 0); }
static inline uint32_t graph_result_count(const Module *m, GraphId g) {
	const Arg *results = graph_results(m, g);
	return results->kind == ARG_LIST ? results->list.count : 0;
}
/* The graph that calls g; NONE for a root. */
static inline GraphId graph_parent(const Module *m, GraphId g) {
	NodeId caller = graph_get(m, g)->caller;
	return caller == NONE ? NONE : node_get(m, caller)->graph;
}
/* Of a loop: the output that replaces argument `arg` in the next step, and the argument that `output` replaces; NONE.
 */
static inline uint32_t graph_carried_output(const Graph *g, uint32_t arg) {
	for (uint32_t i = 0; i < g->carried.count; i++)
		if (g->carried.at[i].arg == arg)
			return g->carried.at[i].output;
	return NONE;
}
static inline uint32_t graph_carried_arg(const Graph *g, uint32_t output) {
	for (uint32_t i = 0; i < g->carried.count; i++)
		if (g->carried.at[i].output == output)
			return g->carried.at[i].arg;
	return NONE;
}
/* The root above g; NONE if the way up ends at a graph that nobody calls, closes, or is longer than GRAPH_DEPTH_MAX.
 * *depth: how far the way up was. */
GraphId graph_root(const Module *m, GraphId g, uint32_t *depth);
/* The innermost of g and the graphs around it that iterates over block b; NONE. */
GraphId block_graph(const Module *m, GraphId g, BlockId b);
/* Some graph is no root: a loop, a branch, what a scan combines by. */
bool module_has_loops(const Module *m);
/* Some grid or loop iterates it. Else a reduction block is the whole dim, whatever reduction_loops says. */
bool block_iterated(const Module *m, BlockId b);
/* A block's size is a number everywhere; its position only means something inside the grid or a loop over it. A
 * reduction block that is not rolled is the whole dim, at position 0, everywhere. */
bool block_in_scope(const Module *m, GraphId g, BlockId b);
/* The graph with the document's id; NONE. */
GraphId graph_find(const Module *m, int64_t id);
TensorId tensor_find(const Module *m, const char *name);
ScalarId scalar_find(const Module *m, const char *name);
/* The live node called `name` in graph g; NONE. */
NodeId graph_node(const Module *m, GraphId g, const char *name);
/* The tensor at the bottom of a chain of views. */
TensorId tensor_base(const Module *m, TensorId t);
/* It, or what it views, is there before the kernel runs and stays as it is: an input, or derived from one. */
bool tensor_is_given(const Module *m, TensorId t);
/* It is a slice or an expansion of another tensor: not all of its elements, once each. */
bool tensor_is_part(const Module *m, TensorId t);
/* The host tensor that a load, store or atomic names; NONE. */
TensorId access_tensor(const Module *m, NodeId n);

/* ---- editing nodes: the only ways a Module changes -------------------------------------------------------------- */
/* A constant or reference to give to node_new(). */
Arg arg_null(void);
Arg arg_bool(bool b);
Arg arg_int(int64_t i);
Arg arg_float(double f);
Arg number_of_dtype(Dtype t, int64_t value);  /* of the dtype's own kind, so that it promotes nothing */
Arg extreme_of_dtype(Dtype t, bool greatest); /* the least or greatest value of a dtype */
Arg arg_dtype(Dtype t);
Arg arg_ref(NodeId n);
Arg arg_sym(ExprId e);
Arg size_arg(const Module *m, ExprId e);                   /* an int where the size is one, else its expression */
Arg shape_arg(Module *m, TypeId type);                     /* the list of a tensor type's sizes */
Arg arg_list(Module *m, uint32_t count, const Arg *items); /* copies items into Module.args */
Arg arg_whole(Module *m);                                  /* the slice of all of a dim */

/* A deep copy with slots of its own: for giving a list that is one node's argument to another node as well. */
Arg arg_copy(Module *m, Arg value);

/* Makes a node (not yet in a graph's list) called `name`, made unique in the graph by a suffix; uses are recorded. */
NodeId node_new(Module *m, GraphId g, uint16_t op, const char *name, TypeId type, uint32_t count, const Arg *args);
void node_insert_before(Module *m, NodeId n, NodeId before);
void node_insert_after(Module *m, NodeId n, NodeId after);
/* Moves a node to stand before another of any graph (its own arguments must be visible there). */
void node_move_before(Module *m, NodeId n, NodeId before);
/* Every use of `of` becomes a use of `with`, but for those by the node `except` (NONE: all). */
void node_replace_uses(Module *m, NodeId of, NodeId with, NodeId except);
/* One argument slot (an ARG_REF) now refers to `with`. */
void arg_set_ref(Module *m, ArgId slot, NodeId with);
/* Any argument slot gets a new value; use lists are kept. */
void arg_set(Module *m, ArgId slot, Arg value);
void node_set_type(Module *m, NodeId n, TypeId t);
/* Result i of a node that gives a tuple. */
void node_set_result_type(Module *m, NodeId n, uint32_t i, TypeId t);
/* Calls a node `name`, made unique in its graph by a suffix. */
void node_rename(Module *m, NodeId n, const char *name);
/* Gives a node new arguments; use lists are kept. */
void node_set_args(Module *m, NodeId n, uint32_t count, const Arg *args);
/* Appends a node made by node_new() at the end of its graph's list. */
void node_append(Module *m, NodeId n);
/* Removes a node without uses from its graph. */
void node_remove(Module *m, NodeId n);
/* Adds an argument to a called graph and to its call: a new placeholder of `value`'s type. Returns it; NONE if the
 * graph takes no argument list (a root, a combine). A while and its cond both get it. */
NodeId graph_add_argument(Module *m, GraphId g, NodeId value, const char *name);

/* ir_new.c: a tensor, a scalar called `name`, a block of fixed size and a loop over it, made unique by a suffix. The
 * configuration is to be resolved again after a block; the graph has an output node without results, and no caller yet.
 */
TensorId tensor_new(Module *m, const char *name, Tensor t);
ScalarId scalar_new(Module *m, const char *name, Scalar s);
BlockId block_new(Module *m, const char *name, ExprId size);
GraphId graph_new(Module *m, GraphKind kind, BlockId block);
/* A node made before `before`, at its place in the source, called `x_suffix` after node x. */
NodeId node_derive(Module *m, uint16_t op, NodeId x, const char *suffix, TypeId type, uint32_t count, const Arg *args,
                   NodeId before);
/* A copy of node n, with the same arguments, that stands before another node of any graph. */
NodeId node_copy(Module *m, NodeId n, NodeId before);

/* The other way (ir_drop.c). Removes the arguments i of a called graph, and of the one that shares them (a while and
 * its cond), where drop[i]: their placeholders, which have no uses, the call's arguments and carried pairs. `lengths`
 * stays. */
void graph_drop_arguments(Module *m, GraphId g, const bool *drop);
/* Removes the results i of a called graph and of the other branch where drop[i]: no getitem takes them. */
void graph_drop_outputs(Module *m, GraphId g, const bool *drop);
/* Removes graphs whose results nothing uses (or roots), with those below them and their calls; GraphIds change. The
 * configuration forgets the loops among them; loop facts are computed anew. */
void module_drop_graphs(Module *m, const bool *drop);

/* The place of a node, tensor, ... in the document, for diagnostics. */
Place node_place(const Module *m, Diag *d, NodeId n);
Place node_arg_place(const Module *m, Diag *d, NodeId n, uint32_t arg);
Place tensor_place(const Module *m, Diag *d, TensorId t);
Place graph_place(const Module *m, Diag *d, GraphId g);
/* Notes on the last diagnostic: what else it is about, and where that stands. In relate.c. */
void node_relate(Module *m, Diag *d, NodeId n);     /* its type; of a host tensor, the tensor's declaration */
void operands_relate(Module *m, Diag *d, NodeId n); /* those of a node; of a call the graphs */
void tensor_relate(const Module *m, Diag *d, TensorId t);
void loop_relate(const Module *m, Diag *d, NodeId call); /* where a loop is called */
void graph_relate(const Module *m, Diag *d, GraphId g);
void block_relate(const Module *m, Diag *d, BlockId b);

/* ---- what the arguments of a node say, by its op (ir_ops.c) ------------------------------------------------------ */

/* The node's argument for the parameter called `name`; a NULL-kind argument if it is absent. */
const Arg *op_arg(const Module *m, NodeId n, const char *name);

static inline OpKind op_kind(const Module *m, NodeId n) { return op_row(node_get(m, n)->op)->kind; }
/* No other node has a graph among its arguments. */
static inline bool op_may_call(const Module *m, NodeId n) {
	return op_kind(m, n) == KIND_STRUCTURE || op_kind(m, n) == KIND_REDUCTION; /* scans */
}
/* The graph that a tile.for_loop or tile.while runs, and what it gets. */
static inline GraphId loop_body(const Module *m, NodeId call) {
	return arg_get(m, node_get(m, call)->arg_first + (node_get(m, call)->op == OP_WHILE))->graph;
}
static inline const Arg *loop_args(const Module *m, NodeId call) {
	return arg_get(m, node_get(m, call)->arg_first + (node_get(m, call)->op == OP_WHILE ? 2 : 3));
}
/* An entry of an index list: a new axis, a slice or a tile, each a dim of what is read or written; a tensor of
 * positions. Else it is a single position. */
bool entry_is_dim(const Module *m, const Arg *entry);
bool entry_gathers(const Module *m, const Arg *entry);
/* An aten.gather of 32-bit ints along the last of one or two dims, whose index has the same rows: lanes of registers.
 */
bool gathers_lanes(const Module *m, NodeId n);
/* The same of whole rows, whose positions are equal in all lanes. */
bool gathers_rows(const Module *m, NodeId n);
/* The argument of a while that says whether its next step runs: its cond graph is that placeholder and no more, and
 * the body carries it. NONE: the condition is still to be computed. */
uint32_t while_flag(const Module *m, NodeId call);
/* The argument that a loop's placeholder n always stands for; NULL: it is carried, or no loop's. */
const Arg *constant_argument(const Module *m, NodeId n);

/* What n, a LOWER_ALIAS, is another name of; of a loop's phi, what it gives at last. */
const Arg *alias_arg(const Module *m, NodeId n);
/* The value that the creation n puts into all lanes; a NULL-kind argument if it has no fill. */
Arg fill_arg(const Module *m, NodeId n);
/* The dims that a reduction reduces, as a bit set, and whether it keeps them as dims of 1. */
uint32_t reduction_dims(const Module *m, NodeId n);
bool reduction_keeps_dims(const Module *m, NodeId n);
/* A scan or reduction with a function; its operand i; the dims along which it combines, as a bit set. */
bool node_combines(const Module *m, NodeId n);
const Arg *combined_operand(const Module *m, NodeId n, uint32_t i);
uint32_t combined_dims(const Module *m, NodeId n);

/* Two factors of two or more dims each, the same ones in front, and one sum: the product of the factors swapped, in the
 * other order, is its result swapped. */
bool matmul_is_plain(const Module *m, NodeId n);
/* The order in which node n puts its operand's dims; false if it is no permutation. */
bool permutation_order(const Module *m, NodeId n, uint32_t order[RANK_MAX]);
/* It swaps the last two dims and leaves the others where they are. */
bool permutation_swaps_rows(const Module *m, NodeId n);
/* The list of dims of such a permutation of `rank` dims, two or more. */
Arg rows_swapped(Module *m, uint32_t rank);

/* ---- the parameters of an op (schema.c): a row's `params` string; the letters are in ops.def --------------------- */

enum { PARAM_LIST_MAX = 4 };

typedef struct Param {
	const char *name;
	char letter;
	bool nullable; /* `?` after the letter: null is allowed */
	bool has_default;
	Arg value; /* the default; an ARG_LIST's items are below, and its `first` means nothing */
	int64_t items[PARAM_LIST_MAX];
} Param;

typedef struct Schema {
	const Param *params;
	uint32_t count, required; /* all, and those without a default */
	uint32_t positional;      /* the first so many; the others are given by name */
} Schema;

/* Reads a `params` string; rows are trusted (ops.def is ours), so there are no diagnostics. Strings go to the arena. */
Schema schema_parse(Arena *a, const char *params);
/* The default of a parameter as an argument of this Module. */
Arg schema_default(Module *m, const Param *p);
/* Is the argument just the parameter's default? */
bool schema_is_default(const Module *m, const Param *p, const Arg *value);
/* The index of the parameter called `name`; NONE. */
uint32_t schema_find(const Schema *s, const char *name);
/* What a parameter's letter admits, for messages: "a list of ints". */
const char *schema_expects(char letter);

/* ---- the keys of a configuration (keys.c): the rows of keys.def as data, and a key's value as JSON --------------- */

typedef enum KeyKind { KEY_SIZES, KEY_FLAGS, KEY_ORDERS, KEY_WORD, KEY_SWITCH, KEY_NUMBER } KeyKind;

/* What a list has one entry for: a block whose size the configuration chooses, a whole dim that may be rolled, a grid
 * or loop of two or more dims, a tensor of role input. */
typedef enum KeyEach { EACH_NOTHING, EACH_CHOSEN, EACH_REDUCTION, EACH_LOOP, EACH_INPUT } KeyEach;

/* A row: keys.def explains the fields. */
typedef struct KeyRow {
	const char *name;
	KeyKind kind;
	size_t offset; /* of its field in Config */
	const char *const *words;
	int low, high, fallback;
	bool or_null, never_on, or_auto;
	KeyEach each;
	const char *report, *about, *absent, *unlowered;
} KeyRow;

enum {
#define KEY(field, name, kind, ...) KEY_OF_##field,
#include "keys.def"
#undef KEY
	KEY_COUNT
};
extern const KeyRow key_rows[KEY_COUNT]; /* by KEY_OF_field */

/* The field of a row: ConfigList for SIZES and FLAGS, ConfigOrders for ORDERS, else ConfigKey. */
static inline void *key_field(const KeyRow *row, const Config *c) { return (char *)(uintptr_t)c + row->offset; }
static inline bool key_is_set(const KeyRow *row, const Config *c) { return *(const bool *)key_field(row, c); }
static inline bool key_is_list(const KeyRow *row) { return row->kind == KEY_SIZES || row->kind == KEY_FLAGS; }
/* Can the key be given as what holds where nobody gives it? Lists cannot: they depend on the graph. */
bool key_has_default(const KeyRow *row);
/* The word for a value of the key; NULL: it is a number. */
const char *key_word(const KeyRow *row, int value);
/* The words that the key takes, and NULL; NULL for one that takes none. */
const char *const *key_words(const KeyRow *row);
/* The value in force, as JSON; `flags`: true and false where they mean on and off. */
void key_put(const KeyRow *row, const Config *c, bool flags, Text *out);

/* The grids and loops of two or more dims, outer first: loop_orders and flatten_loops have one entry for each. */
const GraphId *config_loops(const Module *m, Arena *a, uint32_t *count);

#endif
