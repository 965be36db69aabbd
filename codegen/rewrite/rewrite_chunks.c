/* rewrite_chunks.c - a matmul's first factor that is computed beside it is computed in chunks of what the matmul sums.
 *
 * Straight code makes all of the factor before the first product can start, or spills what it makes beside it. In
 * chunks the vector unit makes the next one while the matrix unit multiplies one. Sums along the same dim add up in
 * 128 lanes, and are finished behind the chunks.
 *
 *     chunks                                           sums = zeros : float32[1024, 128]
 *                                                      acc = zeros : float32[1024, 512]
 *     when (first(1)) first_step {                     sums, acc = for chunk in 16 slice chunk_at 256 {
 *       x = load x_ref[...]                              x = load x_ref[:, chunk * 256 +: 256]
 *       y = mul x, x                                     y = mul x, x
 *       s = sum y keep=1 axes=(1)                        sums = fold_sum sums, y
 *       z = convert x                                    z = convert x
 *       store z_ref[...], z                      =>      store z_ref[:, chunk * 256 +: 256], z
 *       w = load w_ref[...]                              w = load w_ref[chunk * 256 +: 256, :]
 *       acc = dot z, w : float32[1024, 512]              dot = dot z, w
 *                                                        acc = add acc, dot
 *                                                        yield sums, acc
 *                                                      }
 *                                                      s = sum sums keep=1 axes=(1)
 *       ...                                              ...
 *
 * docs/passes/grid_invariants.md has what is measured. */
#include "rewrite.h"

/* As many columns as weights of a matrix unit have rows: a product of more starts later. */
enum { CHUNK = 256, CHUNK_RANK = 2, LANES = 128 };

typedef struct Chunks {
	Kernel *k;
	RegionId region;
	ValueId factor;     /* the first one of all matmuls */
	int64_t rows, size; /* of the factor: its rows; what the matmul sums */
	bool *along;        /* by value: it is made of parts of the sum alone, one beside the other */
	IntId start;
	ValueId *now; /* by value: what it is of a chunk */
} Chunks;

/* ---- what can be made in chunks ---------------------------------------------------------------------------------- */

static const KValue *tile_of(const Kernel *k, KArg x) { return kernel_is_tile(k, x) ? &k->values.at[x.value] : NULL; }

/* All that a matmul's rows, or one row for all of them, have of what it sums. */
static bool has_chunks(const Chunks *c, const KValue *v) {
	return v && v->rank == CHUNK_RANK && v->shape[1] == c->size && (v->shape[0] == c->rows || v->shape[0] == 1);
}

static bool reads_along(const Chunks *c, StmtId s) {
	for (uint32_t i = 0; i < kernel_stmt(c->k, s)->arg_count; i++)
		if (tile_of(c->k, *kernel_arg(c->k, s, i)) && c->along[kernel_arg(c->k, s, i)->value])
			return true;
	return false;
}

/* Numbers that are there before the region, and what lies along the chunks. */
static bool operands_fit(const Chunks *c, StmtId s) {
	for (uint32_t i = 0; i < kernel_stmt(c->k, s)->arg_count; i++) {
		KArg x = *kernel_arg(c->k, s, i);
		StmtId def = kernel_def_of(c->k, x);
		bool inside = def != NONE && kernel_stmt(c->k, def)->region == c->region;
		if (x.kind == KARG_REF || x.kind == KARG_INT || (tile_of(c->k, x) ? !c->along[x.value] : inside))
			return false;
	}
	return true;
}

static bool is_sum(const Chunks *c, StmtId s) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	const KValue *x = stmt->op == K_SUM ? tile_of(c->k, *kernel_arg(c->k, s, 0)) : NULL;
	return x && x->dtype == DTYPE_F32 && x->shape[0] == c->rows && stmt->int_count == 2 && stmt->ints[0] == 1 &&
	       stmt->ints[1] == 1 && c->k->values.at[stmt->result].dtype == DTYPE_F32;
}

/* Notes whether it lies along the chunks. False: what does is read otherwise. */
static bool statement_can(Chunks *c, StmtId s) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	const KValue *v = stmt->result == NONE ? NULL : &c->k->values.at[stmt->result];
	RegionId regions[STMT_REGIONS_MAX];
	KOpKind kind = kernel_op_kind(stmt->op);
	if (kernel_regions(c->k, s, regions) || stmt->result_count > 1 ||
	    (kind != KIND_PURE && stmt->op != K_LOAD && stmt->op != K_STORE))
		return false;
	if (stmt->op == K_LOAD)
		return !has_chunks(c, v) || (c->along[stmt->result] = is_whole_block(c->k, *kernel_arg(c->k, s, 0)));
	if (!reads_along(c, s))
		return true;
	if (stmt->op == K_STORE)
		return is_whole_block(c->k, *kernel_arg(c->k, s, 0));
	if (stmt->op == K_DOT || is_sum(c, s))
		return true;
	return has_chunks(c, v) && kernel_op_is_pointwise(stmt->op) && operands_fit(c, s) &&
	       (c->along[stmt->result] = true);
}

/* Of a factor of many chunks that is computed in the region, and a block of the other. */
static bool is_matmul(Chunks *c, StmtId s) {
	Kernel *k = c->k;
	const KStmt *stmt = kernel_stmt(k, s);
	StmtId made = kernel_def_of(k, *kernel_arg(k, s, 0));
	bool good = is_plain_matmul(k, s) && made != NONE && kernel_stmt(k, made)->region == c->region &&
	            kernel_stmt(k, made)->op != K_LOAD && is_loaded_block(k, c->region, *kernel_arg(k, s, 1));
	if (!good)
		return false;
	const KValue *x = tile_of(k, *kernel_arg(k, s, 0)), *v = &k->values.at[stmt->result];
	if (x->rank != CHUNK_RANK || x->shape[1] % CHUNK || x->shape[1] == CHUNK || v->shape[1] == x->shape[1])
		return false;
	ValueId factor = kernel_arg(k, s, 0)->value;
	good = c->factor == NONE || c->factor == factor;
	c->factor = factor;
	c->rows = x->shape[0];
	c->size = x->shape[1];
	return good;
}

static bool region_can(Chunks *c) {
	bool good = true;
	for (StmtId s = region_first(c->k, c->region); s != NONE && good; s = kernel_stmt(c->k, s)->next)
		good = kernel_stmt(c->k, s)->op != K_DOT || is_matmul(c, s);
	if (!good || c->factor == NONE)
		return false;
	for (StmtId s = region_first(c->k, c->region); s != NONE; s = kernel_stmt(c->k, s)->next)
		if (!statement_can(c, s))
			return false;
	return c->along[c->factor] && !region_changes_what_it_loads(c->k, c->region);
}

/* ---- the chunks -------------------------------------------------------------------------------------------------- */

/* What the chunks add up in. */
typedef struct Total {
	StmtId stmt; /* the matmul, or a sum */
	ValueId initial, carried;
} Total;

/* A chunk's part of a block along dim d. */
static KArg part_of(Chunks *c, StmtId memory, uint32_t d) {
	BufferId b = stmt_buffer(c->k, memory);
	KDim *dims = arena_array(c->k->arena, CHUNK_RANK, sizeof *dims);
	dims[0] = dims[1] = (KDim){.kind = KDIM_ALL};
	dims[d] = (KDim){.kind = KDIM_RANGE, .start = c->start, .size = CHUNK};
	return karg_ref(kernel_ref(c->k, b, CHUNK_RANK, dims));
}

static ValueId result_of(Chunks *c, StmtId s, ValueId of, int64_t rows, int64_t columns) {
	const int64_t shape[CHUNK_RANK] = {rows, columns};
	return result_part(c->k, s, of, shape, c->now);
}

/* A statement of what lies along the chunks. */
static void make(Chunks *c, RegionId to, StmtId s) {
	Kernel *k = c->k;
	const KStmt stmt = *kernel_stmt(k, s);
	KArg *args = arena_array(k->arena, stmt.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < stmt.arg_count; i++) {
		args[i] = *kernel_arg(k, s, i);
		if (args[i].kind == KARG_REF)
			args[i] = part_of(c, s, 1);
		else if (tile_of(k, args[i]))
			args[i] = karg_value(c->now[args[i].value]);
	}
	StmtId copy = kernel_append_like(k, to, s, args);
	if (stmt.result != NONE)
		c->now[stmt.result] = result_of(c, copy, stmt.result, k->values.at[stmt.result].shape[0], CHUNK);
}

static Total start_total(Chunks *c, StmtId before, StmtId s) {
	Kernel *k = c->k;
	ValueId of = kernel_stmt(k, s)->result;
	StmtId zeros = kernel_insert_before(k, before, K_ZEROS, 0, NULL, 0, NULL);
	bool matmul = kernel_stmt(k, s)->op == K_DOT;
	const int64_t shape[CHUNK_RANK] = {c->rows, matmul ? k->values.at[of].shape[1] : LANES};
	const char *name = !matmul ? "sums" : value_name(k, of) ? value_name(k, of) : "acc";
	Total t = {.stmt = s, .initial = kernel_result(k, zeros, KTYPE_TILE, DTYPE_F32, CHUNK_RANK, shape, name)};
	t.carried = kernel_value_like(k, t.initial);
	return t;
}

/* The product of a chunk. */
static KArg multiply(Chunks *c, RegionId to, StmtId matmul) {
	Kernel *k = c->k;
	StmtId load = kernel_def_of(k, *kernel_arg(k, matmul, 1));
	ValueId y = kernel_stmt(k, load)->result, result = kernel_stmt(k, matmul)->result;
	KArg part = part_of(c, load, 0);
	StmtId s = kernel_append_like(k, to, load, &part);
	KArg args[2] = {karg_value(c->now[c->factor]), karg_value(result_of(c, s, y, CHUNK, k->values.at[y].shape[1]))};
	s = kernel_append_like(k, to, matmul, args);
	const KValue *x = &k->values.at[result];
	return karg_value(kernel_result(k, s, KTYPE_TILE, DTYPE_F32, CHUNK_RANK, x->shape, "dot"));
}

static ValueId add_to(Chunks *c, RegionId to, const Total *t, ValueId total, KArg x) {
	Kernel *k = c->k;
	StmtId s = kernel_append(k, to, OP_ADD, 2, (const KArg[]){karg_value(total), x}, 0, NULL);
	kernel_stmt(k, s)->from = kernel_stmt(k, t->stmt)->from;
	ValueId v = kernel_result_like(k, s, t->carried, value_name(k, t->initial));
	k->values.at[v].as = t->carried;
	return v;
}

/* A total and what the chunk adds to it: of a sum 128 lanes after the other, each to the total, as the fewest values
 * wait so (rms_norm_matmul of 4096 on v6e: 0.8% less than added to each other first). */
static KArg add(Chunks *c, RegionId to, const Total *t) {
	Kernel *k = c->k;
	if (kernel_stmt(k, t->stmt)->op == K_DOT)
		return karg_value(add_to(c, to, t, t->carried, multiply(c, to, t->stmt)));
	ValueId total = t->carried, x = c->now[kernel_arg(k, t->stmt, 0)->value];
	if (k->values.at[x].name == NULL && k->values.at[x].var == NULL)
		k->values.at[x].name = "terms";
	for (int64_t lane = 0; lane < CHUNK; lane += LANES) {
		const int64_t items[3 * CHUNK_RANK] = {K_ITEM_ALL, 0, 0, K_ITEM_RANGE, lane, lane + LANES};
		KArg whole = karg_value(x);
		StmtId s = kernel_append(k, to, K_INDEX, 1, &whole, 3 * CHUNK_RANK, items);
		const int64_t shape[CHUNK_RANK] = {c->rows, LANES};
		ValueId part = kernel_result(k, s, KTYPE_TILE, DTYPE_F32, CHUNK_RANK, shape, NULL);
		total = add_to(c, to, t, total, karg_value(part));
	}
	return karg_value(total);
}

/* Behind the chunks it is what it was. */
static void end_total(Chunks *c, const Total *t, ValueId total, ValueId *map) {
	Kernel *k = c->k;
	k->values.at[total].as = t->initial;
	if (kernel_stmt(k, t->stmt)->op == K_DOT)
		map[kernel_stmt(k, t->stmt)->result] = total;
	else
		*kernel_arg(k, t->stmt, 0) = karg_value(total);
}

static StmtId open_chunks(Chunks *c, StmtId before, uint32_t count, const Total *totals) {
	Kernel *k = c->k;
	KArg *initial = arena_array(k->arena, count, sizeof *initial);
	KFor *each = for_slices(k, "chunk", c->size, CHUNK, &c->start);
	for (uint32_t i = 0; i < count; i++) {
		initial[i] = karg_value(totals[i].initial);
		k->values.at[totals[i].carried].as = totals[i].initial;
		vec_push(k->arena, &each->carried, totals[i].carried);
	}
	StmtId loop = kernel_insert_before(k, before, K_FOR, count, initial, 0, NULL);
	RegionId body = kernel_region(k, loop);
	kernel_stmt(k, loop)->each = each;
	kernel_stmt(k, loop)->name = "chunk_at";
	kernel_stmt(k, loop)->body = body;
	return loop;
}

static bool goes_in(const Chunks *c, StmtId s) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	return stmt->op == K_STORE ? reads_along(c, s) : stmt->result != NONE && c->along[stmt->result];
}

static bool adds_up(const Chunks *c, StmtId s) {
	return kernel_stmt(c->k, s)->op == K_DOT || (is_sum(c, s) && reads_along(c, s));
}

/* One chunk of all that lies along them, and what it adds to the totals. */
static void put_chunk(Chunks *c, RegionId to, const StmtIds *all, uint32_t count, const Total *totals) {
	KArg *yields = arena_array(c->k->arena, count, sizeof *yields);
	for (uint32_t i = 0, n = 0; i < all->count; i++)
		if (goes_in(c, all->at[i])) {
			make(c, to, all->at[i]);
		} else if (n < count && totals[n].stmt == all->at[i]) {
			yields[n] = add(c, to, &totals[n]);
			n++;
		}
	kernel_append(c->k, to, K_YIELD, count, yields, 0, NULL);
}

/* What follows reads the totals behind the chunks. */
static void end_totals(Chunks *c, StmtId loop, uint32_t count, const Total *totals) {
	Kernel *k = c->k;
	for (uint32_t i = 0; i < count; i++)
		kernel_result_like(k, loop, totals[i].initial, value_name(k, totals[i].initial));
	ValueId *map = kernel_value_map(k);
	for (uint32_t i = 0; i < count; i++)
		end_total(c, &totals[i], kernel_stmt(k, loop)->result + i, map);
	kernel_replace_values(k, map, k->values.count);
}

static void cut(Chunks *c) {
	Kernel *k = c->k;
	StmtIds all = {0}, gone = {0};
	VEC(Total) totals = {0};
	StmtId before = NONE;
	for (StmtId s = region_first(k, c->region); s != NONE; s = kernel_stmt(k, s)->next)
		vec_push(k->arena, &all, s);
	for (uint32_t i = 0; i < all.count && before == NONE; i++)
		before = adds_up(c, all.at[i]) || goes_in(c, all.at[i]) ? all.at[i] : NONE;
	for (uint32_t i = 0; i < all.count; i++)
		if (adds_up(c, all.at[i]))
			vec_push(k->arena, &totals, start_total(c, before, all.at[i]));
	StmtId loop = open_chunks(c, before, totals.count, totals.at);
	c->now = kernel_value_map(k);
	put_chunk(c, kernel_stmt(k, loop)->body, &all, totals.count, totals.at);
	for (uint32_t i = all.count; i-- > 0;)
		if (goes_in(c, all.at[i]) || kernel_stmt(k, all.at[i])->op == K_DOT)
			vec_push(k->arena, &gone, all.at[i]);
	end_totals(c, loop, totals.count, totals.at);
	for (uint32_t i = 0; i < gone.count; i++)
		kernel_remove(k, gone.at[i]);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static bool find(Kernel *k, RegionId region, Chunks *c) {
	*c = (Chunks){.k = k,
	              .region = region,
	              .factor = NONE,
	              .along = arena_array(k->arena, k->values.count + 1, sizeof(bool))};
	return region_can(c);
}

/* The first step's branch of a kernel whose grid keeps something. */
static bool find_first(Kernel *k, Chunks *c) {
	StmtIds branches = kernel_stmts_of(k, K_WHEN);
	for (uint32_t i = 0; i < branches.count; i++)
		if (find(k, kernel_stmt(k, branches.at[i])->body, c))
			return true;
	return false;
}

bool factor_in_chunks(Kernel *k) {
	Chunks c;
	return find_first(k, &c);
}

void rewrite_chunks(Kernel *k) {
	Chunks c;
	bool wanted = k->chunks;
	k->chunks = false;
	if (wanted && find_first(k, &c)) {
		cut(&c);
		kernel_drop_unread(k);
	}
}
