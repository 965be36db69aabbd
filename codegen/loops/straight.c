/* straight.c - pallas_straight_loops: a loop of few steps on resident blocks is straight code, whatever type is asked
 * for.
 *
 * What a fori_loop or emit_pipeline carries and no register file holds goes through VMEM between any two steps, and the
 * MXU runs dry meanwhile. In straight code the compiler streams each step's sum into the next, tile by tile; and the
 * grid's pipeline brings the next point's blocks while this one computes, where a loop that copies starts empty at each
 * point. It costs VMEM (whole ranges are resident) and code (each step is printed by Mosaic on its own).
 *
 *     for k in 4 steps: acc += x[:, k] @ y[k, :]    =>    acc = x[:, 0] @ y[0, :]; ...; acc = acc + x[:, 3] @ y[3, :]
 *
 * The steps, their width and their order are the same, so every rounding is. `auto` takes it where it fits VMEM and is
 * estimated to be faster (search.c). Measured: docs/passes/loop_types.md. */
#include "loops.h"

/* auto: as many steps as straight code is worth, for each is as much code as the loop's body. */
enum { AUTO_STEPS = 64 };
/* Of no more it is enough that it is faster by what drafts are compared by, where it gains most. Else both kernels
 * tell: of 40 kernels of docs/coverage.md in several blocks those that are estimated to save 13% gain 12 to 93% by the
 * profiler, but for softmax of float16 (12% estimated, 15% slower); of less some lose (bias attention, 26%). */
enum { SURE_STEPS = 8 };
static const double most_cycles = 0.87, most_where_it_gains = 0.98;
/* Where both kernels are compared, which takes time, it is of an array of so many bytes. */
enum { LARGE_ARRAY = 8 << 20 };
/* Few rows: a share of the matrix unit's. */
enum { FEW_ROWS = 8 };

/* The largest value that the loop carries. */
static int64_t carried_bytes(const Planner *p, const Graph *g) {
	int64_t bytes = 0, shape[DIM_MAX];
	for (uint32_t i = 0; i < g->carried.count; i++) {
		NodeId placeholder = g->placeholders.at[g->carried.at[i].arg];
		const Type *t = node_type(p->m, placeholder);
		if (t->kind != TYPE_TENSOR || t->count == 0)
			continue;
		uint32_t rank = plan_shape(p->plan, placeholder, FORM_NATURAL, shape);
		bytes = int_max(bytes, register_bytes(p->m->target, t->dtype, rank, shape));
	}
	return bytes;
}

/* Its steps are counted when the kernel is printed. Where they begin may be computed: at a tile of the grid, whose
 * block is resident, so that each stands at a number in it. */
static bool can_be_straight(const Planner *p, const Loop *loop) {
	const LoopFact *fact = p->m->loop_facts ? &p->m->loop_facts[loop->graph] : NULL;
	const LoopDim *dim = &loop->dim[0];
	bool counted = loop->rank == 1 && !dim->computed, traced = counted && !affine_is_int(&dim->begin);
	bool legal = traced ? dim->tail == 0 : !fact || fact->legal & 1u << LOOP_UNROLL;
	return counted && legal && way_type(p) != LOOP_UNROLL;
}

/* All that the loop carries is a sum of products of so few rows that they take no time beside the copies of their right
 * factors. A loop that copies these starts empty at each grid point. Of sizes that are given: near default ones
 * unrolled loops are looked at anyway, and what is there must save 5% of what stands (choose_near.c). */
static bool multiplies_few_rows(const Planner *p, GraphId g) {
	int64_t shape[DIM_MAX];
	uint32_t found = 0;
	if (!p->m->config.block_sizes.set)
		return false;
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		if (op_lowering(node_get(p->m, n)->op) != LOWER_MATMUL)
			continue;
		uint32_t rank = plan_shape(p->plan, n, FORM_NATURAL, shape);
		if (rank < 2 || shape[rank - 2] * FEW_ROWS > p->m->target->mxu_size)
			return false;
		found++;
	}
	return found == 1 && graph_get(p->m, g)->carried.count == 1;
}

/* From a tile's begin on, only what has a matmul: others gain nothing but VMEM that they hold. */
static bool auto_takes(const Planner *p, const Loop *loop, int64_t steps) {
	bool must_copy = (Switch)p->m->config.fori_dma.value == SWITCH_ON && way_type(p) == LOOP_FORI;
	bool streams = affine_is_int(&loop->dim[0].begin) || graph_holds(p->m, loop->graph, LOWER_MATMUL);
	return !must_copy && streams && steps >= 1 && steps <= AUTO_STEPS && loop->parent == NONE &&
	       !graph_holds(p->m, loop->graph, LOWER_LOOP);
}

/* What is carried takes more than half of the registers: less streams through a loop as well. A single step hands
 * nothing on, but a loop of it copies its windows while nothing computes. */
static bool gains_most(const Planner *p, const Loop *loop, int64_t steps) {
	return steps == 1 || multiplies_few_rows(p, loop->graph) ||
	       carried_bytes(p, graph_get(p->m, loop->graph)) > target_strip_bytes(p->m->target);
}

static bool moves_large_array(const Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		TensorId tensor = access_tensor(p->m, n);
		const Tensor *t = tensor == NONE ? NULL : &p->m->tensors.at[tensor];
		double bytes = t ? dtype_bits(t->dtype) / 8. : 0;
		for (uint32_t d = 0; t && d < t->rank; d++)
			bytes *= (double)expr_number(p->m, t->shape[d]);
		if (bytes >= LARGE_ARRAY)
			return true;
	}
	return false;
}

const char *loop_straight(Planner *p, const Loop *loop) {
	Switch asked = (Switch)p->m->config.straight_loops.value;
	int64_t steps = loop->dim[0].full_steps + (loop->dim[0].tail != 0);
	if (asked == SWITCH_OFF || !can_be_straight(p, loop) || (asked == SWITCH_AUTO && !auto_takes(p, loop, steps)))
		return NULL;
	bool gains = gains_most(p, loop, steps), surely = asked == SWITCH_ON || (gains && steps <= SURE_STEPS);
	if (!surely && !moves_large_array(p, loop->graph))
		return NULL;
	p->plan->may_be_straight = true;
	double most = gains ? most_where_it_gains : most_cycles;
	if (!surely && (p->plan->straight_most == 0 || most < p->plan->straight_most))
		p->plan->straight_most = most;
	if (!way_is(p, ROW_STEPS, STEPS_STRAIGHT))
		return NULL;
	return asked == SWITCH_ON ? "pallas_straight_loops is on"
	                          : arena_printf(p->a, "pallas_straight_loops auto: %lld step%s on resident blocks",
	                                         (long long)steps, steps == 1 ? "" : "s");
}
