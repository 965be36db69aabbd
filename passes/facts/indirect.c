/* indirect.c - fact: how loads at the positions of an int tensor can be done, and what that takes. Estimates are of the
 * indices of one tile, once; what search.c and src/driver/choose.c compare is the whole kernel. */
#include "facts.h"

/* Bytes of an element that the matmul takes, each exact in bfloat16. Of floats in float32, whose last bytes are 0 where
 * they were narrower. */
static uint32_t planes_of(Dtype t, uint32_t *first) {
	bool is_float = dtype_is_float(t);
	uint32_t bytes = (uint32_t)int_cdiv(dtype_bits(t), 8);
	uint32_t count = t == DTYPE_F16 ? 3 : is_float && bytes == 1 ? 2 : bytes;
	*first = is_float ? 4 - count : 0;
	return count;
}

/* Sizes of a value are known. */
static bool has_sizes(const Module *m, const Type *t) {
	int64_t size;
	for (uint32_t i = 0; i < t->count; i++)
		if (!expr_value(m, t->dims[i], &size))
			return false;
	return true;
}

static bool is_absent_or(const Arg *a, int64_t number) {
	return a->kind == ARG_NULL || (a->kind == ARG_INT && a->integer == number);
}

/* As codegen/plan/lines.c reads it. */
static bool counts_up(const Module *m, const Arg *x, int depth, bool *index) {
	bool a = false, b = false;
	*index = false;
	if (x->kind != ARG_REF || depth == 0)
		return x->kind == ARG_INT || x->kind == ARG_SYM;
	const Type *t = node_type(m, x->node);
	uint16_t op = op_canonical(node_get(m, x->node)->op);
	if (t->kind == TYPE_SYM || t->count == 0)
		return t->kind == TYPE_SYM || t->dtype == DTYPE_I32;
	*index = op == OP_TILE_INDEX || (op == OP_IOTA && is_absent_or(op_arg(m, x->node, "step"), 1));
	if (*index || t->dtype != DTYPE_I32)
		return *index && t->dtype == DTYPE_I32;
	bool adds = (op == OP_ADD || op == OP_SUB) && is_absent_or(op_arg(m, x->node, "alpha"), 1) &&
	            counts_up(m, node_arg(m, x->node, 0), depth - 1, &a) &&
	            counts_up(m, node_arg(m, x->node, 1), depth - 1, &b);
	*index = adds && a != b && !(b && op == OP_SUB);
	return adds && (*index || (!a && !b));
}

bool entry_counts_up(const Module *m, const Arg *entry) {
	bool index;
	return entry_gathers(m, entry) && counts_up(m, entry, LINE_DEPTH, &index) && index;
}

/* Between the last two dims that the load keeps, or gathers, there is another: a register has one row. */
static bool lies_apart(const Module *m, NodeId load) {
	const Arg *index = node_arg(m, load, 1);
	uint32_t last = NONE, before = NONE;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *e = arg_item(m, index, i);
		bool kept = entry_is_dim(m, e) || entry_gathers(m, e);
		before = kept ? last : before;
		last = kept ? i : last;
	}
	return before != NONE && last - before > 1;
}

const char *one_hot_of(const Module *m, NodeId load, OneHot *o) {
	const Arg *index = node_arg(m, load, 1);
	TensorId tensor = access_tensor(m, load);
	const Type *t = node_type(m, load);
	uint32_t kept = 0, gathers = 0, before = 0;
	*o = (OneHot){.load = load, .entry = NONE};
	if (node_get(m, load)->op != OP_LOAD)
		return "positions are written in order";
	if (!tensor_is_given(m, tensor))
		return "the kernel writes it";
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *e = arg_item(m, index, i);
		if (entry_gathers(m, e)) {
			gathers++;
			before = kept;
			o->entry = i;
			o->index = e->node;
		}
		kept += entry_is_dim(m, e) && !entry_gathers(m, e);
	}
	if (gathers == 0)
		return "it is at one position";
	if (gathers > 1)
		return "several int tensors say where";
	const Type *at = node_type(m, o->index);
	if (at->count > 2 || (at->count == 2 && (kept != 1 || before != 0)))
		return "its positions have several dims";
	if (kept > 1)
		return "it gathers from several matrices at once";
	if (!has_sizes(m, t) || !has_sizes(m, at) || !expr_value(m, m->tensors.at[tensor].shape[o->entry], &o->rows))
		return "its sizes are known only at run time";
	o->extent = m->tensors.at[tensor].shape[o->entry];
	o->last = kept == 0 || before == 1;
	o->positions = expr_number(m, at->dims[0]) * (at->count == 2 ? expr_number(m, at->dims[1]) : 1);
	if (at->count == 2 && expr_number(m, at->dims[1]) % m->target->sublanes)
		return "its positions have several dims, and fill no whole registers";
	o->columns = kept ? expr_number(m, t->dims[before ? 0 : at->count]) : 1;
	o->planes = planes_of(t->dtype, &o->first);
	o->apart = lies_apart(m, load);
	return NULL;
}

/* ---- elements taken from registers ------------------------------------------------------------------------------- */

/* Registers taken from, at most: all stand in straight code. */
enum { LANES_MOST = 8192, ROWS_MOST = 2048 };

static int64_t registers_of(const Target *t, const VectorGather *v) {
	int64_t along = v->rows ? t->sublanes : t->lanes, others = v->rows ? t->lanes : t->sublanes;
	return int_cdiv(v->size, along) * int_cdiv(v->count, along) * int_cdiv(v->others, others);
}

static bool fits_registers(const Target *t, const VectorGather *v) {
	return v->size > 0 && v->count > 0 && v->others > 0 && v->size < INT32_MAX &&
	       registers_of(t, v) <= (v->rows ? ROWS_MOST : LANES_MOST);
}

bool may_take_lanes(const Module *m, int64_t rows, int64_t size, int64_t count) {
	return fits_registers(m->target, &(VectorGather){.size = size, .count = count, .others = rows});
}

/* Something is accessed at positions that value n gives. */
static bool gives_positions(const Module *m, NodeId n) {
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		if (op_kind(m, user) == KIND_MEMORY && list_index(node_arg(m, user, 1), u) != NONE)
			return true;
	}
	return false;
}

const char *vector_gather_of(const Module *m, NodeId load, VectorGather *v) {
	const Arg *index = node_arg(m, load, 1);
	TensorId tensor = access_tensor(m, load);
	const Type *t = node_type(m, load);
	uint32_t at = NONE, dims = 0, before = 0, axes = 0;
	int64_t sizes[2] = {1, 1};
	*v = (VectorGather){.index = NONE};
	if (node_get(m, load)->op != OP_LOAD)
		return "positions are written in order";
	if (tensor == NONE || !tensor_is_given(m, tensor))
		return "the kernel writes it";
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *e = arg_item(m, index, i);
		if (entry_gathers(m, e) && at != NONE)
			return "several int tensors say where";
		before = entry_gathers(m, e) ? dims : before;
		at = entry_gathers(m, e) ? i : at;
		axes += e->kind == ARG_NULL;
		dims += entry_gathers(m, e) ? node_type(m, e->node)->count : entry_is_dim(m, e);
	}
	if (at == NONE)
		return "it is at one position";
	if (t->count == 0 || t->count > 2)
		return "it gathers from several matrices at once";
	v->index = arg_item(m, index, at)->node;
	v->rows = at + 2 == index->list.count && axes == 0 && dims == 2 && before == 0 &&
	          node_type(m, v->index)->count == 1;
	if (!v->rows && at + 1 != index->list.count)
		return "it gathers neither lanes nor rows";
	if (v->rows && !m->target->gathers_rows)
		return "the chip gathers no rows in registers";
	if (v->rows && entry_counts_up(m, arg_item(m, index, at)))
		return "positions count up by one";
	if (gives_positions(m, load))
		return "it gives positions itself";
	bool known = expr_value(m, m->tensors.at[tensor].shape[at - axes], &v->size);
	for (uint32_t i = 0; i < t->count; i++)
		known = known && expr_value(m, t->dims[i], &sizes[i + 2 - t->count]);
	v->count = sizes[!v->rows];
	v->others = sizes[v->rows];
	return !known                          ? "its sizes are known only at run time"
	       : !fits_registers(m->target, v) ? "it would ask too many registers"
	                                       : NULL;
}

/* ---- what each way takes ----------------------------------------------------------------------------------------- */

/* Cycles for each row of a gather. Slices and picks as the compiler schedules them: those of packed rows are turned to
 * their place, and parts of rows are rotated, which each one waits for. Copies stand there every 15 cycles; rows lie
 * anywhere in HBM, so more is counted. */
enum { ROW_SLICED = 8, ROW_TURNED = 10, ROW_ROTATED = 60, ROW_COPIED = 32, ROW_PICKED = 10 };
enum { ROW_REGISTERS_PER_CYCLE = 2, POSITIONS_COPIED = 300 };

/* What one position selects is a part of a row that fills no registers. */
static bool is_part_of_row(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1), *last = arg_item(m, index, index->list.count - 1);
	const Tensor *of = &m->tensors.at[access_tensor(m, n)];
	BlockId b = arg_block(m, last);
	int64_t extent, size = b != NONE && b < m->block_size.count ? m->block_size.at[b] : 0;
	return size > 0 && expr_value(m, of->shape[of->rank - 1], &extent) && size < extent &&
	       size % m->target->lanes != 0;
}

double rows_sliced_cycles(const Module *m, NodeId n, double positions, double elements) {
	Dtype dtype = m->tensors.at[access_tensor(m, n)].dtype;
	double one = ROW_SLICED + (dtype_bits(dtype) < 32 ? ROW_TURNED : 0) + (is_part_of_row(m, n) ? ROW_ROTATED : 0);
	return positions * (one + elements / (double)m->target->lanes / ROW_REGISTERS_PER_CYCLE);
}

double positions_copied_cycles(void) { return POSITIONS_COPIED; }

/* Of index tensors that no table gives, maybe clamped. */
static double all_positions_copied(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	double cycles = 0;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *e = arg_item(m, index, i);
		NodeId from = entry_gathers(m, e) ? e->node : NONE;
		while (from != NONE && (node_get(m, from)->op == OP_CLAMP || node_get(m, from)->op == OP_CONVERT))
			from = node_input(m, from, 0);
		cycles += from != NONE && node_get(m, from)->op != OP_LOAD ? POSITIONS_COPIED : 0;
	}
	return cycles;
}

double rows_copied_cycles(const Target *t, double positions, double bytes, bool picked) {
	double started = positions * (ROW_COPIED + (picked ? ROW_PICKED : 0));
	double moved = bytes / t->hbm_bytes_per_s * t->clock_hz;
	return (moved > started ? moved : started) + (double)t->copy_cycles;
}

/* Cycles beside those of the matrix unit, as the compiler schedules them: one for each register of a table's bytes and
 * of what is found, more for each row of a table whose rows do not lie one below the other, and what all products with
 * one matrix wait for the first. */
enum { ONE_HOT_BEGUN = 640 };
#define ONE_HOT_ROW_APART 1.5

double one_hot_cycles(const Target *t, const OneHot *o) {
	double registers = (double)target_registers_bytes(t, 1) / 4;
	double table = (double)o->rows * (double)o->columns, found = (double)o->positions * (double)o->columns;
	double apart = o->apart ? ONE_HOT_ROW_APART * (double)o->rows : 0;
	return (o->shares ? 0 : ONE_HOT_BEGUN) + o->planes * ((table + found) / registers + apart);
}

static double one_hot_all_cycles(const Target *t, const OneHot *o) {
	double flops = 2.0 * (double)o->positions * (double)o->rows * (double)o->columns * o->planes;
	return one_hot_cycles(t, o) + flops * t->clock_hz / t->bf16_flops;
}

/* Lanes: a register of places asks each register of the row, and chooses. Rows: the places are turned to a column
 * before, and several units take part. */
enum { LANES_ASKED = 2, ROWS_BEGUN = 300 };

static double vector_cycles(const Target *t, const VectorGather *v) {
	return (v->rows ? ROWS_BEGUN : 0) + (v->rows ? 1.0 : LANES_ASKED) * (double)registers_of(t, v);
}

bool one_hot_pays(const Module *m, const OneHot *o) {
	double sliced = rows_sliced_cycles(m, o->load, (double)o->positions, (double)o->columns);
	return one_hot_all_cycles(m->target, o) < sliced + all_positions_copied(m, o->load);
}

/* Of the tensor's last dim but one, or of its last dim, int tensors say the positions. */
static bool gathers_from_end(const Module *m, NodeId n, uint32_t back) {
	const Arg *index = node_arg(m, n, 1);
	uint32_t count = index->list.count;
	return count > back && entry_gathers(m, arg_item(m, index, count - 1 - back));
}

static const char *no_copies(const Module *m, NodeId n) {
	TensorId tensor = access_tensor(m, n);
	Dtype dtype = m->tensors.at[tensor].dtype;
	if (op_writes(node_get(m, n)->op))
		return "each position is changed in VMEM";
	if (!tensor_is_given(m, tensor))
		return "the kernel writes it";
	if (dtype == DTYPE_BOOL || dtype == DTYPE_F16)
		return "no DMA copies its dtype";
	return gathers_from_end(m, n, 0) ? "it gathers single elements of rows" : NULL;
}

static const char *no_slice(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	uint32_t gathers = 0, lines = 0;
	for (uint32_t i = 0; i < index->list.count; i++) {
		gathers += entry_gathers(m, arg_item(m, index, i));
		lines += entry_counts_up(m, arg_item(m, index, i));
	}
	return gathers == 0       ? "a loaded int says where"
	       : lines == gathers ? "its positions count up, but not all are sure to lie in the tensor"
	                          : "an int tensor says where";
}

void indirect_costs(const Module *m, NodeId n, double positions, double elements, WayCost *cost) {
	const Target *t = m->target;
	Dtype dtype = m->tensors.at[access_tensor(m, n)].dtype;
	bool picked = gathers_from_end(m, n, 1) && dtype_bits(dtype) < 32;
	double bytes = positions * elements * (picked ? 32 : dtype_bits(dtype)) / 8;
	OneHot o;
	VectorGather v;
	cost[WAY_SLICE] = (WayCost){.why = no_slice(m, n)};
	double before = all_positions_copied(m, n);
	cost[WAY_DYNAMIC] = (WayCost){.cycles = before + rows_sliced_cycles(m, n, positions, elements)};
	cost[WAY_ONE_HOT] = (WayCost){.why = one_hot_of(m, n, &o)};
	if (!cost[WAY_ONE_HOT].why)
		cost[WAY_ONE_HOT].cycles = one_hot_all_cycles(t, &o);
	cost[WAY_VECTOR] = (WayCost){.why = vector_gather_of(m, n, &v)};
	if (!cost[WAY_VECTOR].why)
		cost[WAY_VECTOR].cycles = vector_cycles(t, &v);
	cost[WAY_DMA] = (WayCost){.why = no_copies(m, n)};
	if (!cost[WAY_DMA].why)
		cost[WAY_DMA].cycles = before + rows_copied_cycles(t, positions, bytes, picked);
	cost[WAY_SPARSE] = (WayCost){.why = "no schedule tells what it takes"};
}

static double elements_of(const Module *m, const Type *t) {
	double elements = 1;
	for (uint32_t i = 0; i < t->count; i++)
		elements *= (double)expr_number(m, t->dims[i]);
	return elements;
}

void indirect_note(PassContext *c, NodeId n, IndirectWay way) {
	Module *m = c->module;
	const Node *node = node_get(m, n);
	const Arg *index = node_arg(m, n, 1);
	uint32_t depth;
	double positions = 1;
	for (uint32_t i = 0; i < index->list.count; i++)
		if (entry_gathers(m, arg_item(m, index, i)))
			positions = elements_of(m, node_type(m, arg_item(m, index, i)->node));
	Indirect x = {.root = graph_get(m, graph_root(m, node->graph, &depth))->id,
	              .graph = graph_get(m, node->graph)->id,
	              .op = node->op,
	              .node = node->name,
	              .tensor = access_tensor(m, n),
	              .way = way};
	indirect_costs(m, n, positions, elements_of(m, node_type(m, n)) / positions, x.cost);
	vec_push(m->arena, &m->indirect, x);
}

const char *indirect_way_name(IndirectWay way) {
	static const char *const names[WAY_COUNT] = {
		"slice", "dynamic slice in VMEM", "one-hot matmul", "vector gather", "DMA gather", "SparseCore"};
	return names[way];
}

static bool is_converted(const Module *m, NodeId n, Dtype to) {
	return n != NONE && node_get(m, n)->op == OP_CONVERT && node_type(m, n)->dtype == to;
}

/* Bools as factors of a matmul. */
static bool is_one_hot(const Module *m, NodeId n) {
	NodeId wide = is_converted(m, n, DTYPE_BF16) ? node_input(m, n, 0) : NONE;
	if (wide != NONE && node_get(m, wide)->op == OP_VIEW) /* of positions of two dims */
		wide = node_input(m, wide, 0);
	NodeId found = is_converted(m, wide, DTYPE_F32) ? node_input(m, wide, 0) : NONE;
	return found != NONE && node_get(m, found)->op == OP_EQ;
}

/* The load of the table whose bytes are the product's other factor. */
static NodeId table_of(const Module *m, NodeId plane) {
	while (plane != NONE && node_get(m, plane)->op != OP_LOAD)
		plane = node_get(m, plane)->arg_count ? node_input(m, plane, 0) : NONE;
	return plane;
}

bool one_hot_product(const Module *m, NodeId n, OneHot *o) {
	if (node_get(m, n)->op != OP_MM_DTYPE)
		return false;
	NodeId a = node_input(m, n, 0), b = node_input(m, n, 1);
	*o = (OneHot){.load = NONE, .index = NONE, .last = !is_one_hot(m, a), .planes = 1};
	const Type *from = node_type(m, o->last ? b : a), *to = node_type(m, n);
	o->shares = arg_get(m, node_uses(m, o->last ? b : a))->user != n;
	if (o->last && !is_one_hot(m, b))
		return false;
	NodeId table = table_of(m, o->last ? a : b);
	o->apart = table != NONE && lies_apart(m, table);
	o->rows = expr_number(m, from->dims[!o->last]);
	o->positions = expr_number(m, from->dims[o->last]);
	o->columns = expr_number(m, to->dims[!o->last]);
	return true;
}
