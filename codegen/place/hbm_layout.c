/* hbm_layout.c - arrays that XLA lays out with their last two dims swapped.
 *
 * In HBM an array lies in tiles of 8 rows and 128 lanes. XLA gives an argument the order of dims that pads least: y
 * [32768, 64] lies as [64, 32768], for as it is half of each tile would be padding. A kernel takes its operands with
 * the last dim along the lanes, so that y as it is costs a copy of the whole array before the kernel, and twice the
 * bytes in it. A boundary view transposes it instead, which is no work: the bytes lie so already. In the kernel the
 * tile is then the other way round, which is free where a matmul takes it as its right factor, and better than free
 * where one would turn it as its left factor: it contracts the other dim. XLA lays out what the function returns in the
 * same way: the kernel turns what it writes, for nothing where that was computed turned (orient), rather than that XLA
 * copies the array behind it. Compared with libtpu's choice for 34 shapes: docs/passes/alignment.md. */
#include "access.h"
#include "codegen/costs/costs.h"
#include "codegen/lower/lower.h"

/* Registers that a kernel turns so that XLA copies nothing. matmul_split_k_512 turns as many, 64 in each of 8 parts,
 * and takes 28,113 cycles on v7x where kernel and copy took 27,788 and 1,917; on v6e 44,174, where they took 43,414 and
 * 853. Of the 327,680 of chunk_scan_heads_4096, whose time is that of the cross-lane unit, they would be more than the
 * copy. */
enum { TURNED_MOST = 512 };

/* Swapped, nothing is padded; as it is, something is. */
static bool pads_less(const Target *t, int64_t rows, int64_t columns) {
	return columns % t->lanes != 0 && columns % t->sublanes == 0 && rows % t->lanes == 0;
}

/* One matmul takes the load, or that swapped, and nothing else does: as its right factor, or as its left one if it has
 * to turn what is loaded as it is (`swapped`: by the view that is loaded from). */
static bool is_factor(const Module *m, NodeId n, bool swapped) {
	GraphId g = node_get(m, n)->graph;
	NodeId user = node_only_user(m, n);
	for (; user != NONE && permutation_swaps_rows(m, user); user = node_only_user(m, n)) {
		swapped = !swapped;
		n = user;
	}
	return user != NONE && node_get(m, user)->graph == g && op_lowering(node_get(m, user)->op) == LOWER_MATMUL &&
	       (matmul_operand(m, user, 1) == n || (swapped && matmul_operand(m, user, 0) == n));
}

/* Tiles of all columns, of rows that divide the array's. */
static bool fills(const Planner *p, const Type *t, bool swapped, int64_t rows, int64_t columns) {
	int64_t high = expr_number(p->m, t->dims[t->count - 2]), low = expr_number(p->m, t->dims[t->count - 1]);
	int64_t row_tile = swapped ? low : high, column_tile = swapped ? high : low;
	return column_tile == columns && row_tile % p->m->target->lanes == 0 && rows % row_tile == 0;
}

/* A load as a factor, in full tiles: whole rows of the swapped array, in whole registers. */
static bool load_suits(Planner *p, NodeId n, TensorId tensor, int64_t rows, int64_t columns) {
	const Type *t = node_type(p->m, n);
	const Tensor *named = &p->m->tensors.at[tensor];
	bool swapped = named->role == ROLE_VIEW && tensor_swaps_last_two(named);
	if (node_get(p->m, n)->op != OP_LOAD || t->count < 2 || !is_factor(p->m, n, swapped))
		return false;
	return fills(p, t, swapped, rows, columns);
}

/* Registers that all grid points together turn. */
static double turned_registers(const Planner *p, const Type *t) {
	const Target *target = p->m->target;
	double registers = grid_points(p->plan);
	for (uint32_t i = 0; i + 2 < t->count; i++)
		registers *= (double)expr_number(p->m, t->dims[i]);
	return registers * (double)int_cdiv(expr_number(p->m, t->dims[t->count - 2]), target->sublanes) *
	       (double)int_cdiv(expr_number(p->m, t->dims[t->count - 1]), target->lanes);
}

/* A store or an atomic of such tiles, once for a grid point. What was computed turned is written so for nothing; else
 * the kernel turns it, which of few registers takes less than XLA's copy behind it. */
static bool write_suits(Planner *p, const Operand *o, NodeId n, TensorId tensor, int64_t rows, int64_t columns) {
	const Node *node = node_get(p->m, n);
	bool plain = op_writes(node->op) && !op_is_remote(node->op) && tensor == o->tensor &&
	             graph_get(p->m, node->graph)->kind == GRAPH_ROOT && op_arg(p->m, n, "extra_mask")->kind != ARG_REF;
	NodeId tile = plain ? node_input(p->m, n, 2) : NONE;
	const Type *t = tile == NONE ? NULL : node_type(p->m, tile);
	if (!t || t->count < 2 || !fills(p, t, false, rows, columns))
		return false;
	return permutation_swaps_rows(p->m, before_rounding(p->m, tile, o->dtype)) ||
	       turned_registers(p, t) <= TURNED_MOST;
}

/* The kernel alone gives the array, in a dtype whose tiles are turned as they are. */
static bool is_written_alone(const Module *m, const Tensor *t) {
	return !m->is_part && t->role == ROLE_OUTPUT && (t->dtype == DTYPE_F32 || t->dtype == DTYPE_BF16);
}

static bool access_suits(Planner *p, const Operand *o, NodeId n, TensorId tensor, int64_t rows, int64_t columns) {
	return p->m->tensors.at[o->tensor].role == ROLE_OUTPUT ? write_suits(p, o, n, tensor, rows, columns)
	                                                       : load_suits(p, n, tensor, rows, columns);
}

void remark_swapped(Plan *plan) {
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		const Operand *o = &plan->operands.at[i];
		const ArrayStep *last = o->steps.count ? &o->steps.at[o->steps.count - 1] : NULL;
		if (last && last->kind == ARRAY_TRANSPOSE && last->boundary)
			plan_remark(plan,
			            "%s: %s with its last two dims swapped, as XLA lays it out: no copy of it is made",
			            plan->module->tensors.at[o->tensor].name, o->output ? "given" : "taken");
	}
}

bool operand_lies_swapped(Planner *p, const Operand *o) {
	const Tensor *base = &p->m->tensors.at[o->tensor];
	if (base->rank < 2 || o->rank < 2 || (!tensor_is_given(p->m, o->tensor) && !is_written_alone(p->m, base)) ||
	    (Switch)p->m->config.boundary_views.value == SWITCH_OFF)
		return false;
	int64_t rows = expr_number(p->m, base->shape[base->rank - 2]),
		columns = expr_number(p->m, base->shape[base->rank - 1]);
	if (!pads_less(p->m->target, rows, columns) || o->shape[o->rank - 2] != rows ||
	    o->shape[o->rank - 1] != columns)
		return false;
	for (uint32_t i = 0; i < o->steps.count; i++)
		if (o->steps.at[i].kind != ARRAY_RESHAPE)
			return false;
	for (GraphId g = 0; g < p->m->graphs.count; g++)
		for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
			uint16_t op = node_get(p->m, n)->op;
			TensorId t = op_accesses(op) ? access_tensor(p->m, n) : NONE;
			if (t != NONE && tensor_base(p->m, t) == o->tensor && !access_suits(p, o, n, t, rows, columns))
				return false;
		}
	return true;
}
