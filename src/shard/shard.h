/* shard.h - a document becomes that of one device of a mesh: which arrays are cut along which axes, and how what the
 * devices give becomes whole. docs/sharding.md says what is asked for, and what is refused. */
#ifndef PALLASC_SHARD_H
#define PALLASC_SHARD_H

#include "src/ir/ir.h"

enum { MESH_AXES_MAX = 8, CUT_AXES_MAX = MESH_AXES_MAX + 1 };

typedef struct MeshAxis {
	const char *name;
	int64_t devices;
} MeshAxis;

typedef struct Mesh {
	uint32_t count;
	MeshAxis axis[CUT_AXES_MAX]; /* behind the mesh's own, its ring's */
} Mesh;

/* The axes along which one dim is cut into equal parts, the outermost first. */
typedef struct Cut {
	uint32_t count;
	uint8_t axis[CUT_AXES_MAX];
} Cut;

/* How one array lies on the mesh. */
typedef struct Parted {
	uint32_t rank;
	Cut dim[RANK_MAX];
	int64_t size[RANK_MAX]; /* of the whole array: of inputs, and of what is returned */
	TensorId tensor;
	bool moves;        /* it is one of Ring.arrays */
	uint32_t part_dim; /* in which a step of a ring takes or gives a part of it; NONE: all of it */
} Parted;

typedef enum RingKind {
	RING_NONE,
	RING_GATHER, /* parts of inputs travel: each step takes what is there */
	RING_SCATTER /* sums travel: each step adds to what is there, until it is where it stays */
} RingKind;

/* Where parts travel: between launches of a kernel of one step, or in a kernel of all of them. */
typedef enum RingWay { RING_IN_WRAPPER, RING_IN_KERNEL, RING_AUTO } RingWay;

/* What travels round the devices of an axis, while each of them takes as many steps as they are. */
typedef struct Ring {
	RingKind kind;
	uint8_t axis;         /* of the mesh */
	uint8_t steps;        /* the axis behind the mesh's own: a cut along it is a cut in time */
	BlockId block;        /* which is cut so; NONE: the compiler chooses */
	bool inside;          /* copies between devices are the kernel's: there are no steps */
	bool narrow;          /* RING_SCATTER, inside: sums travel in bfloat16 */
	bool plain;           /* RING_SCATTER: one step, and a psum_scatter ... */
	const char *why;      /* ... as this is against more; NULL */
	bool asks;            /* kernels take the number of the step, to know where in the whole range its part is */
	uint32_t root;        /* behind whose kernel a step ends, and what it left is merged; NONE: with the last one */
	VEC(TensorId) arrays; /* inputs, or what is returned, ... */
	VEC(const char *) names; /* ... and their names */
} Ring;

typedef enum MergeKind {
	MERGE_SUM,
	MERGE_MAX,
	MERGE_MIN,
	MERGE_SCALED /* a sum in units of exp(-m), m a running maximum: brought to the greatest m before it is added up
	              */
} MergeKind;

/* What becomes of a tensor when the kernel of root `root` has run: each device has a part of what it is. */
typedef struct Merge {
	MergeKind kind;
	const char *name; /* of what is merged */
	uint32_t root;
	TensorId tensor, by;  /* by: the running maximum, merged after the same kernel; NONE */
	uint16_t exp;         /* OP_EXP or OP_EXP2 */
	int8_t row[RANK_MAX]; /* by dim of `tensor`: the dim of `by` that it goes along, in order; -1: none */
	Cut cut;              /* the axes along which devices differ ... */
	bool steps;           /* ... and so do, before that, the steps of the ring */
} Merge;

/* A scalar that is not the caller's: the first position of a device's part, its place along `cut` times `part`. */
typedef struct Offset {
	ScalarId scalar;
	BlockId block;
	int64_t part;
	Cut cut;
} Offset;

typedef struct Sharding {
	Mesh mesh;
	Ring ring;
	VEC(Parted) inputs;  /* input and inout tensors, in order */
	VEC(Parted) outputs; /* by Module.returns */
	VEC(Merge) merges;   /* running maxima before what is scaled by them */
	VEC(Merge) summed;   /* by Module.returns: of what its step `root` gives; without a cut it is whole */
	VEC(Offset) offsets;
	VEC(const char *) remarks;
} Sharding;

/* What a user asks for, as on the command line. */
typedef struct ShardRequest {
	const char *mesh; /* "data=2,model=4" */
	const char
		*blocks; /* "tile_m=data,tile_n=model+data": what is cut along which axes; NULL: the compiler chooses */
	const char
		*gather; /* "x=model", "x=model:tile_k": inputs whose parts, of a block, travel round devices; NULL */
	const char *scatter; /* "out=model", "out=model:tile_m": sums over an axis's devices, of which each keeps a
	                        part; NULL */
	RingWay way;         /* module_shard() takes RING_AUTO as RING_IN_WRAPPER */
	bool narrow;         /* the kernel's sums travel in bfloat16 */
} ShardRequest;

/* ring.c: what moves parts: "wrapper", "kernel", "auto", the latter two perhaps with ":bfloat16" behind. False: it is
 * none of them. */
bool ring_way_read(const char *text, ShardRequest *to);

/* mesh.c: NULL, or what is wrong with the text in one line. */
const char *mesh_parse(Arena *a, const char *text, Mesh *mesh);
/* The axis of this name, of `length` bytes; NONE. */
uint32_t mesh_axis(const Mesh *mesh, const char *name, size_t length);
/* The axes of a cut, one behind the other: data+model. */
const char *cut_text(Arena *a, const Mesh *mesh, const Cut *cut);
bool cut_has(const Cut *cut, uint32_t axis);
/* On how many devices each part differs. */
int64_t cut_parts(const Mesh *mesh, const Cut *cut);

/* carried.c: what loop graph g carries is something, all of it sums, and it writes none of them. */
bool loop_only_adds(const Module *m, Arena *a, GraphId g);
/* parts.c: the steps of loop graph g, over one block, may be taken in parts of so many lanes of it. */
bool loop_takes_parts(Module *m, GraphId g, int64_t part);
/* shard.c: makes a verified Module that of one device, and sets m->sharding. False after a diagnostic. */
bool module_shard(Module *m, Diag *d, const ShardRequest *request);

#endif
