/* shard.h - a document becomes that of one device of a mesh: which arrays are cut along which axes, and how what the
 * devices give becomes whole. docs/sharding.md says what is asked for, and what is refused. */
#ifndef PALLASC_SHARD_H
#define PALLASC_SHARD_H

#include "src/ir/ir.h"

enum { MESH_AXES_MAX = 8 };

typedef struct MeshAxis {
	const char *name;
	int64_t devices;
} MeshAxis;

typedef struct Mesh {
	uint32_t count;
	MeshAxis axis[MESH_AXES_MAX];
} Mesh;

/* The axes along which one dim is cut into equal parts, the outermost first. */
typedef struct Cut {
	uint32_t count;
	uint8_t axis[MESH_AXES_MAX];
} Cut;

/* How one array lies on the mesh. */
typedef struct Parted {
	uint32_t rank;
	Cut dim[RANK_MAX];
} Parted;

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
	Cut cut;              /* the axes along which devices differ */
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
} ShardRequest;

/* mesh.c: NULL, or what is wrong with the text in one line. */
const char *mesh_parse(Arena *a, const char *text, Mesh *mesh);
/* The axes of a cut, one behind the other: data+model. */
const char *cut_text(Arena *a, const Mesh *mesh, const Cut *cut);
/* On how many devices each part differs. */
int64_t cut_parts(const Mesh *mesh, const Cut *cut);

/* shard.c: makes a verified Module that of one device, and sets m->sharding. False after a diagnostic. */
bool module_shard(Module *m, Diag *d, const ShardRequest *request);

#endif
