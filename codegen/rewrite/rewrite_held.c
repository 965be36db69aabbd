/* rewrite_held.c - a block that several grid points change one after the other: the first of them fills it or copies
 * what stands in the array, and the last one rounds the sums into it. held.c decides which blocks are such.
 *
 *     out out_ref ... held fill 0.0          out out_ref ...
 *         over (tile_k)
 *                                            when (tile_k == 0) first_visit {
 *                                              %1 = zeros : float32[8, 128]
 *                                              store out_ref[...], %1
 *                                            } */
#include "codegen/kernel/kernel.h"

typedef struct Spot {
	RegionId region;
	StmtId before;
} Spot;

static StmtId put(Kernel *k, Spot at, uint16_t op, uint32_t count, const KArg *args) {
	return at.before == NONE ? kernel_append(k, at.region, op, count, args, 0, NULL)
	                         : kernel_insert_before(k, at.before, op, count, args, 0, NULL);
}

static KArg value_of(Kernel *k, Spot at, uint16_t op, Dtype dtype, const KBuffer *like, uint32_t count,
                     const KArg *args) {
	StmtId s = put(k, at, op, count, args);
	return karg_value(kernel_result(k, s, KTYPE_TILE, dtype, like->rank, like->shape, NULL));
}

/* x of one dtype in another, by a way that Mosaic has. */
static KArg converted(Kernel *k, Spot at, KArg x, Dtype from, Dtype to, const KBuffer *like) {
	Dtype hub = from == to ? DTYPE_NONE : mosaic_conversion_hub(from, to);
	if (hub != DTYPE_NONE)
		x = value_of(k, at, K_CONVERT, hub, like, 1, &x);
	return from == to ? x : value_of(k, at, K_CONVERT, to, like, 1, &x);
}

static KArg whole(Kernel *k, BufferId b) { return karg_ref(kernel_ref(k, b, 0, NULL)); }

static void start(Kernel *k, Spot at, BufferId b) {
	const KHeld *held = k->buffers.at[b].held;
	BufferId to = held->sums == NONE ? b : held->sums;
	KBuffer out = k->buffers.at[b];
	Dtype dtype = k->buffers.at[to].dtype;
	out.shape = k->buffers.at[to].shape;
	KArg x = dtype_is_float(dtype) ? karg_real(held->value) : karg_integer((int64_t)held->value);
	if (held->copy) {
		KArg from = whole(k, held->from);
		x = value_of(k, at, K_LOAD, k->buffers.at[held->from].dtype, &out, 1, &from);
		x = converted(k, at, x, out.dtype, dtype, &out);
	} else {
		x = value_of(k, at, held->value == 0 ? K_ZEROS : K_FULL, dtype, &out, held->value != 0, &x);
	}
	put(k, at, K_STORE, 2, (const KArg[]){whole(k, to), x});
}

static void finish(Kernel *k, Spot at, BufferId b) {
	BufferId sums = k->buffers.at[b].held->sums;
	KBuffer out = k->buffers.at[b];
	KArg from = whole(k, sums);
	KArg x = value_of(k, at, K_LOAD, k->buffers.at[sums].dtype, &k->buffers.at[sums], 1, &from);
	if (!kernel_same_shape(out.rank, out.shape, out.rank, k->buffers.at[sums].shape)) {
		const int64_t along_rows[] = {1, (int64_t)out.rank - 2};
		StmtId s = at.before == NONE ? kernel_append(k, at.region, K_SUM, 1, &x, 2, along_rows)
		                             : kernel_insert_before(k, at.before, K_SUM, 1, &x, 2, along_rows);
		x = karg_value(kernel_result(k, s, KTYPE_TILE, DTYPE_F32, out.rank, out.shape, NULL));
	}
	x = converted(k, at, x, k->buffers.at[sums].dtype, out.dtype, &out);
	put(k, at, K_STORE, 2, (const KArg[]){whole(k, b), x});
}

static bool starts(const KBuffer *b) { return b->held && (b->held->fill || b->held->copy); }
static bool ends(const KBuffer *b) { return b->held && b->held->sums != NONE; }

static ValueId program_id(Kernel *k, uint32_t dim) {
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_PROGRAM_ID && kernel_stmt(k, s)->ints[0] == dim)
			return kernel_stmt(k, s)->result;
	int64_t number = dim;
	StmtId first = region_first(k, k->body);
	StmtId s = first == NONE ? kernel_append(k, k->body, K_PROGRAM_ID, 0, NULL, 1, &number)
	                         : kernel_insert_before(k, first, K_PROGRAM_ID, 0, NULL, 1, &number);
	return kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, "point");
}

/* `tile_m == 0`, or `(tile_m == 0) & (tile_n == 0)`; the last steps if not the first. */
static IntId condition(Kernel *k, uint32_t revisits, bool first) {
	IntId all = NONE;
	for (uint32_t d = 0; d < k->grid.count; d++) {
		if (!(revisits >> d & 1))
			continue;
		IntId one = int_binary(k, INT_EQ, int_value(k, program_id(k, d)),
		                       int_const(k, first ? 0 : k->grid.at[d].steps - 1));
		all = all == NONE ? one : int_binary(k, INT_AND, all, one);
	}
	return all;
}

static bool handled_before(const Kernel *k, BufferId b, bool (*wanted)(const KBuffer *)) {
	for (BufferId i = 0; i < b; i++)
		if (wanted(&k->buffers.at[i]) && k->buffers.at[i].held->revisits == k->buffers.at[b].held->revisits)
			return true;
	return false;
}

/* What `make` makes for each buffer that `wanted` names, those with the same condition together. */
static void visits(Kernel *k, Spot at, bool first, bool (*wanted)(const KBuffer *),
                   void (*make)(Kernel *, Spot, BufferId)) {
	for (BufferId b = 0; b < k->buffers.count; b++) {
		if (!wanted(&k->buffers.at[b]) || handled_before(k, b, wanted))
			continue;
		uint32_t revisits = k->buffers.at[b].held->revisits;
		Spot inside = at;
		if (revisits) {
			KArg arg = karg_int(condition(k, revisits, first));
			StmtId when = put(k, at, K_WHEN, 1, &arg);
			inside = (Spot){kernel_region(k, when), NONE};
			kernel_stmt(k, when)->body = inside.region;
			kernel_stmt(k, when)->name = first ? "first_visit" : "last_visit";
		}
		for (BufferId i = b; i < k->buffers.count; i++)
			if (wanted(&k->buffers.at[i]) && k->buffers.at[i].held->revisits == revisits)
				make(k, inside, i);
	}
}

void rewrite_held(Kernel *k) {
	StmtId first = region_first(k, k->body);
	while (first != NONE && kernel_stmt(k, first)->op == K_PROGRAM_ID)
		first = kernel_stmt(k, first)->next;
	visits(k, (Spot){k->body, first}, true, starts, start);
	visits(k, (Spot){k->body, NONE}, false, ends, finish);
	for (BufferId b = 0; b < k->buffers.count; b++)
		k->buffers.at[b].held = NULL;
}
