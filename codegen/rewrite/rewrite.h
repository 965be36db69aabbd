/* rewrite.h - rewrites of a kernel: from kernels to kernels that compute the same, values that are rounded alike. */
#ifndef PALLASC_REWRITE_H
#define PALLASC_REWRITE_H

#include "codegen/kernel/kernel.h"

typedef struct Rewrite {
	const char *name, *about;
	void (*run)(Kernel *k);
} Rewrite;

/* In their order; the last has no name. */
const Rewrite *kernel_rewrites(void);
const Rewrite *rewrite_find(const char *name);
/* Runs those of `names`, in their own order, or all if `names` is NULL. With `verify`, every kernel is verified after
 * each: false after a diagnostic. */
bool kernels_rewrite(KProgram *p, const char *const *names, uint32_t count, Diag *verify);

#define REWRITE(name, about) void rewrite_##name(Kernel *k);
#include "rewrites.def"
#undef REWRITE

/* rewrite_float16.c: the launches of its wrapper take and give bits. */
void launch_bits(const KProgram *p);
/* rewrite_lines.c: before it, which operands the launches make rows of; behind it, they give and take 1-D arrays. */
void lines_look_at_launches(const KProgram *p);
void launch_lines(KProgram *p);
/* rewrite_ring.c: before it, whether launches are such that it can be done; behind it, what they take and give. */
void ring_look_at_launches(const KProgram *p);
void ring_set_launches(KProgram *p);

/* rewrite_columns.c: so many columns, of what most loops over strips read, are spread over all lanes once. */
void columns_spread(Kernel *k, uint32_t count);

/* The statements of an op, outer ones first. */
StmtIds kernel_stmts_of(Kernel *k, uint16_t op);
/* The loops that no driver runs yet. */
static inline StmtIds kernel_loops(Kernel *k) { return kernel_stmts_of(k, K_LOOP); }
/* The calls of a loop's region, as rewrite_split() makes it: of what is to run ahead, NONE if nothing is, and of the
 * step or its rest, whose results are yielded. False: it is no such region. */
bool loop_calls(const Kernel *k, StmtId loop, StmtId *ahead, StmtId *step);
/* Calls stand in the loop's region, and what places them: it is split. */
bool loop_is_split(const Kernel *k, StmtId loop);
/* In place of the loop's flag a split loop's call has its function's own, which is set, or nothing. */
void loop_set_flag(Kernel *k, const KLoop *loop, StmtId call, bool set);
/* A loop's call once more, at the end of a region, of the step `at` instead of its own. Results are called alike. */
StmtId loop_call_at(Kernel *k, const KLoop *loop, StmtId call, RegionId to, IntId at);
/* The end of a region: it yields the results of a call. */
void loop_yield(Kernel *k, RegionId r, StmtId call);
/* What stands once for each `width` of `size` rows or columns, from *start on; its step is called `step`. */
KFor *for_slices(Kernel *k, const char *step, int64_t size, int64_t width, IntId *start);
/* One more result of a statement: a part, of that shape, of the tile `of`, called as it is. `now`: by value its part;
 * NONE. */
ValueId result_part(Kernel *k, StmtId s, ValueId of, const int64_t *shape, const ValueId *now);
/* What a statement reads of the results of another it reads of those from `first` on. */
void loop_read_results(Kernel *k, StmtId s, StmtId of, ValueId first);
/* The loop counts in `by`, and an int in its region gives the number that it counted in. */
void loop_count_by(Kernel *k, KLoop *loop, ValueId by, StmtId number);
/* Single elements of it are read, and nothing writes them. */
static inline bool buffer_is_table(const Kernel *k, BufferId b) {
	const KBuffer *x = &k->buffers.at[b];
	return x->role == BUFFER_IN && (x->space == KSPACE_SMEM || x->space == KSPACE_PREFETCH);
}
/* A tile of the shape and layout of another, made by a statement before one, of its line. `axis`: its int; -1: none. */
KArg tile_before(Kernel *k, StmtId before, KValue like, uint16_t op, Dtype dtype, uint32_t count, const KArg *args,
                 int64_t axis);
/* What the value is called, or would like to be. */
static inline const char *value_name(const Kernel *k, ValueId v) {
	return k->values.at[v].name ? k->values.at[v].name : k->values.at[v].var;
}
/* `v` is called as `like`, with the suffix behind; "" for a variable of its own. */
void value_called_after(Kernel *k, ValueId v, ValueId like, const char *suffix);
/* All steps as one number; false: known only at run time. */
bool loop_static_steps(const Kernel *k, const KLoop *loop, int64_t *steps);
/* Statements alone, none of which does anything but compute and load, and a return. */
bool function_computes(const Kernel *k, FunctionId f);
/* The grid's point, and the one after it. */
typedef struct NextPoint {
	ValueId *program; /* by grid dim: its program id, with room for one more */
	IntId *point;     /* ... and where the next one is, the same */
	IntId number;     /* so many points are before it */
	IntId first;      /* flag: this is the first point */
	IntId another;    /* flag: there is a next one */
} NextPoint;
/* Of a grid of several points; its ints are made at the end of a region. */
NextPoint grid_next_point(Kernel *k, RegionId at);

/* rewrite_points.c: flag: it is the first of all grid points; NONE: there is only one. */
IntId grid_first_point(Kernel *k);
/* rewrite_repeats.c: what is loaded of an output goes back to where it stood, where nothing else does. */
bool load_put_back(Kernel *k, StmtId load);
/* rewrite_pipelined.c: so many blocks, of one position each, are made of output b, which comes whole; 0: it stays so.
 */
int64_t pipelined_blocks(Kernel *k, BufferId b);
/* ... the block of the same position comes of an output as of that input. */
bool results_come_with(Kernel *k, BufferId in);
/* rewrite_grid_loop.c: each block that moves lies in its array and is another one at each point, but for inputs that
 * are little beside the others. */
bool points_have_blocks(const Kernel *k);
/* rewrite_peel.c: a split loop's peeled step, with the flags set. */
void loop_add_tail(Kernel *k, StmtId stmt);

/* rewrite_turn_once.c: how often matmuls read each row that it would turn; 0: there are none. */
double rows_read_again(Kernel *k);

/* rewrite_pieces.c: what follows the matmuls of a kernel, as its steps are opened, can be computed of pieces of their
 * results. */
typedef struct ResultPieces {
	uint32_t matmuls;
	int64_t rows, columns; /* of a piece */
	StmtIds following;
} ResultPieces;
bool results_in_pieces(Kernel *k, ResultPieces *found);

/* rewrite_chunks.c: a branch's matmul has a first factor that can be made in chunks of what it sums. */
bool factor_in_chunks(Kernel *k);
/* Some buffer is both stored to and loaded from by its statements. */
bool region_changes_what_it_loads(const Kernel *k, RegionId r);
/* A matmul of two dims, of the first one's last with the second one's first, in float32. */
bool is_plain_matmul(const Kernel *k, StmtId s);
/* A statement of the region loads all of a block. */
bool is_loaded_block(const Kernel *k, RegionId r, KArg x);
/* The buffer that a statement stores to, or loads from; NONE. */
BufferId stmt_buffer(const Kernel *k, StmtId s);
/* All of a block of two dims that the grid brings, or of such scratch. */
bool is_whole_block(const Kernel *k, KArg ref);

typedef VEC(KArg) KArgs;

#endif
