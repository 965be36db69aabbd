/* build_strips.c - the root's statements in strips of columns, phase by phase: strips.c. The loop over the strips is
 * straight code, one strip after the other. */
#include "build.h"

static bool runs_in(const Strips *s, NodeId n, uint32_t phase) { return s->inside[n] && (s->computed[n] >> phase & 1); }

static bool folds_in(const Strips *s, NodeId n, uint32_t phase) { return s->folds[n] && s->phase[n] == phase; }

static RefId stash_ref(Builder *b, NodeId n) {
	BufferId stash = b->scratch[b->plan->strips->stash[n]];
	KDim dims[KDIM_MAX] = {{.kind = KDIM_ALL}};
	uint32_t rank = b->k->buffers.at[stash].rank;
	dims[rank - 1] = (KDim){.kind = KDIM_RANGE, .start = b->strip, .size = b->plan->strips->width};
	return kernel_ref(b->k, stash, rank, dims);
}

/* ---- reductions over the strips --------------------------------------------------------------------------------- */

/* Converted by the reduction, or as it is. */
static bool folds_operand(const Builder *b, NodeId n) {
	return b->plan->strips->folded[n] == value_root(b->plan, node_input(b->m, n, 0));
}

static Dtype fold_dtype(const Builder *b, NodeId n) {
	return folds_operand(b, n) ? DTYPE_F32 : node_type(b->m, b->plan->strips->folded[n])->dtype;
}

static KArg fold_start(Builder *b, NodeId n) {
	int64_t shape[DIM_MAX];
	uint32_t rank = strips_part_shape(b->plan, n, shape);
	uint16_t op = node_get(b->m, n)->op;
	double infinity = 1e308 * 10;
	KArg least = karg_real(op == OP_AMAX ? -infinity : infinity);
	bool extreme = op == OP_AMAX || op == OP_AMIN;
	KArg x = build_shaped(b, extreme ? K_FULL : K_ZEROS, fold_dtype(b, n), rank, shape, extreme, &least);
	build_name_of(b, x, n);
	return x;
}

static void fold(Builder *b, NodeId n) {
	const Value *v = &b->plan->values[n];
	uint16_t op = node_get(b->m, n)->op;
	b->from = &node_get(b->m, n)->loc;
	b->also = NULL;
	KArg x = folds_operand(b, n) ? build_computed(b, node_arg(b->m, n, 0), v->wants, v->compute)
	                             : build_value(b, b->plan->strips->folded[n], FORM_NATURAL);
	KArg total = b->value[n];
	b->value[n] = build_binary(b,
	                           op == OP_AMAX   ? K_FOLD_MAX
	                           : op == OP_AMIN ? K_FOLD_MIN
	                                           : K_FOLD_SUM,
	                           karg_dtype(b, total), total, x);
	b->k->values.at[b->value[n].value].as = total.value;
	build_name(b, b->value[n], node_get(b->m, n)->name);
	b->from = b->also = NULL;
}

static void fold_end(Builder *b, NodeId n) {
	KArg total = b->value[n];
	KArg x = build_converted(b, total, fold_dtype(b, n), DTYPE_F32);
	b->value[n] = build_reduction(b, n, x, DTYPE_F32);
	b->k->values.at[b->value[n].value].as = total.value;
	build_name(b, b->value[n], node_get(b->m, n)->name);
}

/* ---- a phase ---------------------------------------------------------------------------------------------------- */

/* Rows that the strips read as columns are turned before the first of them. */
static void turn_columns(Builder *b, NodeId n) {
	const Node *node = node_get(b->m, n);
	Lowering how = op_lowering(node->op);
	for (uint32_t i = 0; i < node->arg_count; i++) {
		const Arg *a = node_arg(b->m, n, i);
		bool narrow = a->kind == ARG_REF && type_rank(b, a->node) > 0 &&
		              !b->plan->strips->wide[value_root(b->plan, a->node)];
		if (narrow && (how == LOWER_POINTWISE || how == LOWER_MASK))
			build_value(b, a->node, how == LOWER_MASK ? b->plan->values[n].form : b->plan->values[n].wants);
	}
}

static void build_in_strip(Builder *b, NodeId n, uint32_t phase) {
	const Strips *s = b->plan->strips;
	bool stashed = s->inside[n] && s->stash[n] != NONE;
	if (folds_in(s, n, phase)) {
		fold(b, n);
	} else if (runs_in(s, n, phase)) {
		b->value[n] = (KArg){0};
		build_node(b, n);
		if (stashed)
			build_statement(b, K_STORE, 2, (const KArg[]){karg_ref(stash_ref(b, n)), b->value[n]});
	} else if (stashed && (s->needed[n] >> phase & 1)) {
		RefId ref = stash_ref(b, n);
		int64_t shape[KDIM_MAX];
		uint32_t rank = kernel_ref_shape(b->k, ref, shape);
		KArg arg = karg_ref(ref);
		b->value[n] = build_shaped(b, K_LOAD, b->k->buffers.at[b->k->refs.at[ref].buffer].dtype, rank, shape, 1,
		                           &arg);
		build_name(b, b->value[n], node_get(b->m, n)->name);
	}
}

/* A value of the loop over the strips that is carried as `like` is. */
static ValueId like(Builder *b, ValueId v) {
	KValue x = b->k->values.at[v];
	ValueId copy = kernel_value(b->k, x.type, x.dtype, x.rank, x.shape, x.name);
	b->k->values.at[copy].as = v;
	return copy;
}

static void build_strip_loop(Builder *b, uint32_t phase, uint32_t count, const NodeId *folds, const KArg *initial) {
	const Strips *s = b->plan->strips;
	KFor *each = arena_alloc(b->a, sizeof *each);
	KArg *totals = arena_array(b->a, count + 1, sizeof *totals);
	*each = (KFor){.step = kernel_value(b->k, KTYPE_INT, DTYPE_I32, 0, NULL, "strip"),
	               .end = int_const(b->k, s->count),
	               .slice = s->width};
	StmtId loop = build_statement(b, K_FOR, count, initial);
	RegionId outer = b->at;
	kernel_stmt(b->k, loop)->each = each;
	kernel_stmt(b->k, loop)->name = "at";
	b->at = kernel_region(b->k, loop);
	kernel_stmt(b->k, loop)->body = b->at;
	b->strip = int_binary(b->k, INT_MUL, int_value(b->k, each->step), int_const(b->k, s->width));
	for (uint32_t i = 0; i < count; i++) {
		ValueId carried = like(b, initial[i].value);
		vec_push(b->a, &each->carried, carried);
		b->value[folds[i]] = karg_value(carried);
	}
	for (NodeId n = graph_first(b->m, b->plan->root); n != NONE; n = node_get(b->m, n)->next)
		build_in_strip(b, n, phase);
	for (uint32_t i = 0; i < count; i++)
		totals[i] = b->value[folds[i]];
	build_statement(b, K_YIELD, count, totals);
	b->strip = NONE;
	b->at = outer;
	for (uint32_t i = 0; i < count; i++) {
		KValue x = b->k->values.at[initial[i].value];
		ValueId v = kernel_result(b->k, loop, x.type, x.dtype, x.rank, x.shape, x.name);
		b->k->values.at[v].as = initial[i].value;
		b->value[folds[i]] = karg_value(v);
	}
	for (uint32_t i = 0; i < count; i++)
		fold_end(b, folds[i]);
}

static void build_phase(Builder *b, uint32_t phase) {
	const Strips *s = b->plan->strips;
	GraphId root = b->plan->root;
	uint32_t count = 0;
	NodeId *folds = arena_array(b->a, b->m->nodes.count + 1, sizeof *folds);
	KArg *initial = arena_array(b->a, b->m->nodes.count + 1, sizeof *initial);
	bool any = false;
	for (NodeId n = graph_first(b->m, root); n != NONE; n = node_get(b->m, n)->next) {
		any = any || runs_in(s, n, phase);
		if (!s->inside[n] && s->phase[n] == phase)
			build_node(b, n);
	}
	if (!any)
		return;
	for (NodeId n = graph_first(b->m, root); n != NONE; n = node_get(b->m, n)->next) {
		if (runs_in(s, n, phase))
			turn_columns(b, n);
		if (folds_in(s, n, phase)) {
			folds[count] = n;
			initial[count++] = fold_start(b, n);
		}
	}
	build_strip_loop(b, phase, count, folds, initial);
}

void build_strips(Builder *b) {
	for (uint32_t phase = 0; phase < b->plan->strips->phases; phase++)
		build_phase(b, phase);
}
