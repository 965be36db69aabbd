/* indirect.c - fact: which loads at the positions of an int tensor are a matmul by a one-hot matrix. */
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

const char *one_hot_of(const Module *m, NodeId load, OneHot *o) {
	const Arg *index = node_arg(m, load, 1);
	TensorId tensor = access_tensor(m, load);
	const Type *t = node_type(m, load);
	uint32_t kept = 0, gathers = 0, before = 0;
	*o = (OneHot){.load = load, .entry = NONE};
	if (node_get(m, load)->op != OP_LOAD)
		return "it is no load";
	if (m->tensors.at[tensor_base(m, tensor)].role != ROLE_INPUT)
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
	if (gathers != 1)
		return "several int tensors say where";
	const Type *at = node_type(m, o->index);
	if (at->count != 1)
		return "its positions have several dims";
	if (kept > 1)
		return "it gathers from several matrices at once";
	if (!has_sizes(m, t) || !has_sizes(m, at) || !expr_value(m, m->tensors.at[tensor].shape[o->entry], &o->rows))
		return "its sizes are known only at run time";
	o->extent = m->tensors.at[tensor].shape[o->entry];
	o->last = kept == 0 || before == 1;
	o->positions = expr_number(m, at->dims[0]);
	o->columns = kept ? expr_number(m, t->dims[before ? 0 : 1]) : 1;
	o->planes = planes_of(t->dtype, &o->first);
	return NULL;
}

/* ---- what each way takes ----------------------------------------------------------------------------------------- */

/* Cycles for each row of a gather. Slices and picks as the compiler schedules them: those of packed rows are turned to
 * their place. Copies stand there every 15 cycles; rows lie anywhere in HBM, so more is counted. */
enum { ROW_SLICED = 8, ROW_TURNED = 10, ROW_COPIED = 32, ROW_PICKED = 10, ROW_REGISTERS_PER_CYCLE = 2 };

double row_sliced_cycles(const Target *t, Dtype dtype, double elements) {
	return ROW_SLICED + (dtype_bits(dtype) < 32 ? ROW_TURNED : 0) +
	       elements / (double)t->lanes / ROW_REGISTERS_PER_CYCLE;
}

double row_copied_cycles(bool picked) { return ROW_COPIED + (picked ? ROW_PICKED : 0); }

/* Cycles beside those of the matrix unit, as the compiler schedules them: one for each register of a table's bytes and
 * of what is found, and what all products with one matrix wait for the first. */
enum { ONE_HOT_BEGUN = 480 };

double one_hot_cycles(const Target *t, const OneHot *o) {
	double registers = (double)target_registers_bytes(t, 1) / 4;
	double table = (double)o->rows * (double)o->columns, found = (double)o->positions * (double)o->columns;
	return (o->shares ? 0 : ONE_HOT_BEGUN) + o->planes * (table + found) / registers;
}

double one_hot_all_cycles(const Target *t, const OneHot *o) {
	double flops = 2.0 * (double)o->positions * (double)o->rows * (double)o->columns * o->planes;
	return one_hot_cycles(t, o) + flops * t->clock_hz / t->bf16_flops;
}

/* A register of places asks each register of the row, and chooses. */
double lanes_taken_cycles(const Target *t, int64_t rows, int64_t size, int64_t count) {
	return 2.0 * (double)(int_cdiv(size, t->lanes) * int_cdiv(count, t->lanes) * int_cdiv(rows, t->sublanes));
}

bool one_hot_pays(const Module *m, const OneHot *o) {
	Dtype dtype = node_type(m, o->load)->dtype;
	return one_hot_all_cycles(m->target, o) <
	       (double)o->positions * row_sliced_cycles(m->target, dtype, (double)o->columns);
}

const char *ways_text(Arena *a, const char *tensor, IndirectWay taken, const WayCost *cost) {
	static const char *const names[WAY_COUNT] = {"slice", "dynamic slice in VMEM", "one-hot matmul",
	                                             "vector gather", "DMA gather"};
	Text t;
	text_init(&t, a);
	text_printf(&t, "%s: %s, about %.0f cycles a time", tensor, names[taken], cost[taken].cycles);
	for (IndirectWay w = 0; w < WAY_COUNT; w++) {
		if (w != taken && cost[w].why)
			text_printf(&t, "; no %s: %s", names[w], cost[w].why);
		else if (w != taken)
			text_printf(&t, "; %s: %.0f", names[w], cost[w].cycles);
	}
	return t.at;
}

static bool is_converted(const Module *m, NodeId n, Dtype to) {
	return n != NONE && node_get(m, n)->op == OP_CONVERT && node_type(m, n)->dtype == to;
}

/* Bools as factors of a matmul. */
static bool is_one_hot(const Module *m, NodeId n) {
	NodeId wide = is_converted(m, n, DTYPE_BF16) ? node_input(m, n, 0) : NONE;
	NodeId found = is_converted(m, wide, DTYPE_F32) ? node_input(m, wide, 0) : NONE;
	return found != NONE && node_get(m, found)->op == OP_EQ;
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
	o->rows = expr_number(m, from->dims[!o->last]);
	o->positions = expr_number(m, from->dims[o->last]);
	o->columns = expr_number(m, to->dims[!o->last]);
	return true;
}
