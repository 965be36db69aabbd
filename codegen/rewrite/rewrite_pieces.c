/* rewrite_pieces.c - a matmul's result is taken piece by piece, and what follows it is computed of each.
 *
 * Where results add up in a buffer of the matrix unit, the next product waits until they have been taken out of it, and
 * the compiler takes them as it computes what follows. Through scratch they are out at once, and a piece's rest stands
 * beside the next piece's product. Where in it they lie must be nothing that the compiler knows: what it can tell to be
 * loaded as it was stored, it does not store. A grid point's number is never negative, which is not known to it.
 *
 *     pieces                                    %1 = program_id dim=0
 *                                               for piece in 16 {
 *     x = load x_ref[...]                         x = load x_ref[piece % 8 * 128 +: 128, :]
 *     y = load y_ref[...]                         y = load y_ref[:, piece / 8 * 512 +: 512]
 *     dot = dot x, y : float32[1024, 1024]        dot = dot x, y : float32[128, 512]
 *                                                 store piece_ref[min(%1, 0) +: 128, :], dot
 *                                                 dot_1 = load piece_ref[min(%1, 0) +: 128, :]
 *     z = gelu_erf dot                            z = gelu_erf dot_1
 *     store z_ref[...], z                         store z_ref[piece % 8 * 128 +: 128, piece / 8 * 512 +: 512], z
 *                                               }
 *
 * docs/passes/result_pieces.md has what is measured. */
#include "rewrite.h"

/* Columns of two matrix units. Rows: the weights of the next piece are there in time, which of 64 rows they are not;
 * more where there were too many pieces: libtpu takes half a second for each. */
enum { PIECE_RANK = 2, PIECE_COLUMNS = 512, LEAST_ROWS = 128, MOST_PIECES = 8, SUBLANES = 8 };

typedef struct Pieces {
	Kernel *k;
	RegionId region;
	bool *follows;                               /* by value: it is a matmul's result, or computed of one */
	int64_t shape[PIECE_RANK], size[PIECE_RANK]; /* of a result; of a piece of it */
	uint32_t matmuls;
	IntId start[PIECE_RANK], zero; /* of the piece that is being made; of scratch */
	ValueId *now;                  /* by value: what it is of that piece; NONE */
} Pieces;

/* ---- what can be computed of a piece ----------------------------------------------------------------------------- */

/* Each dim is the result's, or 1. */
static bool has_pieces(const Pieces *p, ValueId v) {
	const KValue *x = &p->k->values.at[v];
	bool fits = x->rank == PIECE_RANK;
	for (uint32_t d = 0; fits && d < PIECE_RANK; d++)
		fits = x->shape[d] == p->shape[d] || x->shape[d] == 1;
	return fits;
}

static bool can_be_read(const Pieces *p, KArg x);

/* Made of loads alone, beside the matmul or before it: it is made again of each piece. */
static bool can_be_made(const Pieces *p, ValueId v) {
	StmtId s = p->k->values.at[v].def;
	if (s == NONE || kernel_stmt(p->k, s)->region != p->region || !has_pieces(p, v))
		return false;
	const KStmt *stmt = kernel_stmt(p->k, s);
	if (stmt->op == K_LOAD)
		return is_whole_block(p->k, *kernel_arg(p->k, s, 0));
	bool good = kernel_op_is_pointwise(stmt->op);
	for (uint32_t i = 0; good && i < stmt->arg_count; i++)
		good = can_be_read(p, *kernel_arg(p->k, s, i));
	return good;
}

static bool can_be_read(const Pieces *p, KArg x) {
	if (kernel_is_tile(p->k, x))
		return p->follows[x.value] || can_be_made(p, x.value);
	return x.kind != KARG_REF && (x.kind != KARG_VALUE || kernel_def_of(p->k, x) == NONE ||
	                              kernel_stmt(p->k, p->k->values.at[x.value].def)->region != p->region);
}

/* Of whole blocks: each piece has rows of one, columns of the other. */
static bool is_matmul(const Pieces *p, StmtId s) {
	return is_plain_matmul(p->k, s) && is_loaded_block(p->k, p->region, *kernel_arg(p->k, s, 0)) &&
	       is_loaded_block(p->k, p->region, *kernel_arg(p->k, s, 1));
}

/* The first says which shape all have. */
static bool add_matmul(Pieces *p, StmtId s) {
	const KValue *x = &p->k->values.at[kernel_stmt(p->k, s)->result];
	if (!is_matmul(p, s))
		return false;
	if (p->matmuls++ == 0)
		memcpy(p->shape, x->shape, sizeof p->shape);
	return kernel_same_shape(PIECE_RANK, p->shape, PIECE_RANK, x->shape);
}

static bool reads_following(const Pieces *p, StmtId s) {
	bool reads = false;
	for (uint32_t i = 0; i < kernel_stmt(p->k, s)->arg_count; i++) {
		const KArg *x = kernel_arg(p->k, s, i);
		reads = reads || (x->kind == KARG_VALUE && p->follows[x->value]);
	}
	return reads;
}

/* What follows is computed element by element, and stored where nothing is loaded from; nothing else is stored. */
static bool statement_can(Pieces *p, StmtId s) {
	const KStmt *stmt = kernel_stmt(p->k, s);
	RegionId regions[STMT_REGIONS_MAX];
	if (stmt->op == K_STORE)
		return is_whole_block(p->k, *kernel_arg(p->k, s, 0)) && kernel_is_tile(p->k, *kernel_arg(p->k, s, 1)) &&
		       p->follows[kernel_arg(p->k, s, 1)->value];
	if (kernel_regions(p->k, s, regions) || stmt->result_count != 1 ||
	    (kernel_op_kind(stmt->op) != KIND_PURE && stmt->op != K_LOAD))
		return false;
	if (stmt->op == K_DOT) {
		p->follows[stmt->result] = true;
		return add_matmul(p, s);
	}
	if (!reads_following(p, s))
		return true;
	p->follows[stmt->result] = true;
	bool good = kernel_op_is_pointwise(stmt->op) && has_pieces(p, stmt->result);
	for (uint32_t i = 0; good && i < stmt->arg_count; i++)
		good = can_be_read(p, *kernel_arg(p->k, s, i));
	return good;
}

/* There are two at least, and not too many. */
static bool choose_size(Pieces *p) {
	int64_t rows = LEAST_ROWS, all = p->shape[0] * p->shape[1] * p->matmuls;
	while (all > MOST_PIECES * rows * PIECE_COLUMNS && p->shape[0] % (2 * rows) == 0)
		rows *= 2;
	p->size[0] = rows;
	p->size[1] = PIECE_COLUMNS;
	return p->shape[0] % rows == 0 && p->shape[1] % PIECE_COLUMNS == 0 &&
	       p->shape[0] * p->shape[1] > rows * PIECE_COLUMNS && all <= MOST_PIECES * rows * PIECE_COLUMNS;
}

static bool region_can(Pieces *p) {
	bool good = p->k->grid.count > 0;
	for (StmtId s = region_first(p->k, p->region); s != NONE && good; s = kernel_stmt(p->k, s)->next)
		good = statement_can(p, s);
	return good && p->matmuls && !region_changes_what_it_loads(p->k, p->region) && choose_size(p);
}

static Pieces pieces_of(Kernel *k, RegionId region) {
	return (Pieces){.k = k, .region = region, .follows = arena_array(k->arena, k->values.count + 1, sizeof(bool))};
}

bool results_in_pieces(Kernel *k, ResultPieces *found) {
	Pieces p = pieces_of(k, k->body);
	if (!region_can(&p))
		return false;
	*found = (ResultPieces){.matmuls = p.matmuls, .rows = p.size[0], .columns = p.size[1]};
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op != K_DOT && reads_following(&p, s))
			vec_push(k->arena, &found->following, s);
	return true;
}

/* ---- a piece ----------------------------------------------------------------------------------------------------- */

/* Of dim d of a block as many as a piece has, where it is the result's dim `of`. */
static KDim of_piece(const Pieces *p, uint32_t of) {
	return (KDim){.kind = KDIM_RANGE, .start = p->start[of], .size = p->size[of]};
}

static RefId block_ref(Pieces *p, BufferId b) {
	KDim *dims = arena_array(p->k->arena, PIECE_RANK, sizeof *dims);
	for (uint32_t d = 0; d < PIECE_RANK; d++)
		dims[d] = p->k->buffers.at[b].shape[d] == 1 ? (KDim){.kind = KDIM_ALL} : of_piece(p, d);
	return kernel_ref(p->k, b, PIECE_RANK, dims);
}

/* Rows of the first operand, columns of the second. */
static RefId operand_ref(Pieces *p, BufferId b, uint32_t d) {
	KDim *dims = arena_array(p->k->arena, PIECE_RANK, sizeof *dims);
	dims[0] = dims[1] = (KDim){.kind = KDIM_ALL};
	dims[d] = of_piece(p, d);
	return kernel_ref(p->k, b, PIECE_RANK, dims);
}

/* The piece of a result that a statement gives. */
static ValueId piece_of(Pieces *p, StmtId s, ValueId of) {
	int64_t shape[PIECE_RANK];
	for (uint32_t d = 0; d < PIECE_RANK; d++)
		shape[d] = p->k->values.at[of].shape[d] == 1 ? 1 : p->size[d];
	return result_part(p->k, s, of, shape, p->now);
}

static ValueId factor(Pieces *p, RegionId to, StmtId matmul, uint32_t i) {
	Kernel *k = p->k;
	ValueId old = kernel_arg(k, matmul, i)->value;
	StmtId load = k->values.at[old].def;
	KArg ref = karg_ref(operand_ref(p, stmt_buffer(k, load), i));
	StmtId s = kernel_append_like(k, to, load, &ref);
	int64_t shape[PIECE_RANK];
	memcpy(shape, k->values.at[old].shape, sizeof shape);
	shape[i] = p->size[i];
	return result_part(k, s, old, shape, p->now);
}

/* The product of a piece, through scratch. */
static void multiply(Pieces *p, RegionId to, StmtId matmul) {
	Kernel *k = p->k;
	ValueId result = kernel_stmt(k, matmul)->result;
	KDim *dims = arena_array(k->arena, PIECE_RANK, sizeof *dims);
	dims[0] = (KDim){.kind = KDIM_RANGE, .start = p->zero, .size = p->size[0], .multiple = SUBLANES};
	dims[1] = (KDim){.kind = KDIM_ALL};
	KArg args[2] = {karg_value(factor(p, to, matmul, 0)), karg_value(factor(p, to, matmul, 1))};
	KArg product = karg_value(piece_of(p, kernel_append_like(k, to, matmul, args), result));
	BufferId scratch = kernel_scratch(k, KSPACE_VMEM, DTYPE_F32, PIECE_RANK, p->size, "piece_ref");
	KArg ref = karg_ref(kernel_ref(k, scratch, PIECE_RANK, dims));
	kernel_append(k, to, K_STORE, 2, (const KArg[]){ref, product}, 0, NULL);
	p->now[result] = piece_of(p, kernel_append(k, to, K_LOAD, 1, &ref, 0, NULL), result);
}

static KArg made(Pieces *p, RegionId to, KArg x);

static void make(Pieces *p, RegionId to, StmtId s) {
	Kernel *k = p->k;
	const KStmt stmt = *kernel_stmt(k, s);
	KArg *args = arena_array(k->arena, stmt.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < stmt.arg_count; i++) {
		args[i] = *kernel_arg(k, s, i);
		args[i] = args[i].kind == KARG_REF ? karg_ref(block_ref(p, k->refs.at[args[i].ref].buffer))
		                                   : made(p, to, args[i]);
	}
	StmtId copy = kernel_append_like(k, to, s, args);
	if (stmt.result != NONE)
		p->now[stmt.result] = piece_of(p, copy, stmt.result);
}

static KArg made(Pieces *p, RegionId to, KArg x) {
	if (!kernel_is_tile(p->k, x))
		return x;
	if (p->now[x.value] == NONE)
		make(p, to, p->k->values.at[x.value].def);
	return karg_value(p->now[x.value]);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* For each part of dim d of the result; what goes into it. */
static RegionId open_parts(Pieces *p, RegionId to, uint32_t d) {
	Kernel *k = p->k;
	KFor *each = for_slices(k, d == 0 ? "row" : "column", p->shape[d], p->size[d], &p->start[d]);
	StmtId loop = kernel_append(k, to, K_FOR, 0, NULL, 0, NULL);
	kernel_stmt(k, loop)->each = each;
	kernel_stmt(k, loop)->name = d == 0 ? "rows" : "columns";
	RegionId body = kernel_region(k, loop);
	kernel_stmt(k, loop)->body = body;
	return body;
}

/* A number that is 0. */
static IntId put_zero(Kernel *k, StmtId before) {
	int64_t dim = 0;
	StmtId id = kernel_insert_before(k, before, K_PROGRAM_ID, 0, NULL, 1, &dim);
	ValueId point = kernel_result(k, id, KTYPE_INT, DTYPE_I32, 0, NULL, "point");
	return int_binary(k, INT_MIN, int_value(k, point), int_const(k, 0));
}

void rewrite_pieces(Kernel *k) {
	Pieces p = pieces_of(k, k->body);
	bool wanted = k->pieces;
	k->pieces = false;
	if (!wanted || !region_can(&p))
		return;
	StmtIds all = {0};
	for (StmtId s = region_first(k, p.region); s != NONE; s = kernel_stmt(k, s)->next)
		vec_push(k->arena, &all, s);
	p.now = kernel_value_map(k);
	p.zero = put_zero(k, all.at[0]);
	RegionId columns = open_parts(&p, p.region, 1), rows = open_parts(&p, columns, 0);
	for (uint32_t i = 0; i < all.count; i++)
		if (kernel_stmt(k, all.at[i])->op == K_DOT)
			multiply(&p, rows, all.at[i]);
	for (uint32_t i = 0; i < all.count; i++)
		if (kernel_stmt(k, all.at[i])->op != K_DOT && reads_following(&p, all.at[i]))
			make(&p, rows, all.at[i]);
	kernel_append(k, rows, K_YIELD, 0, NULL, 0, NULL);
	kernel_append(k, columns, K_YIELD, 0, NULL, 0, NULL);
	for (uint32_t i = all.count; i-- > 0;)
		if (kernel_stmt(k, all.at[i])->op == K_STORE)
			kernel_remove(k, all.at[i]);
	kernel_drop_unread(k);
}
