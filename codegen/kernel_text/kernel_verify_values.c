/* kernel_verify_values.c - is what a statement reads there, and is what it computes what it states: integer
 * expressions, references, arguments, the types of pure ops. */
#include "kernel_verifier.h"

/* ---- integers --------------------------------------------------------------------------------------------------- */

/* An element of a table: those of the grid's index maps are there before it starts, those of windows when loops do. */
static bool kverify_element(Verifier *v, RefId ref, bool index_map) {
	BufferId b = v->k->refs.at[ref].buffer;
	KSpace space = v->k->buffers.at[b].space;
	if (index_map && space != KSPACE_PREFETCH)
		return kverify_error(v, "kernel-signature", "give it the space prefetch",
		                     "%s is not there before the grid starts", kverify_buffer_name(v, b));
	if (space != KSPACE_PREFETCH && space != KSPACE_SMEM)
		return kverify_error(v, "kernel-signature", "give it the space smem",
		                     "%s is not in SMEM, where single elements are read", kverify_buffer_name(v, b));
	for (uint32_t d = 0; d < v->k->refs.at[ref].rank; d++)
		if (!kverify_int(v, v->k->refs.at[ref].dim[d].start, index_map))
			return false;
	return true;
}

static bool kverify_int_value(Verifier *v, ValueId id, bool index_map) {
	if (id >= v->k->values.count)
		return kverify_error(v, "kernel-undefined", NULL, "there is no value %u", id);
	const KValue *value = &v->k->values.at[id];
	RefId element = value_element(v->k, id);
	if (element != NONE)
		return kverify_element(v, element, index_map);
	if (!v->value_seen[id])
		return kverify_error(v, "kernel-undefined", NULL, "%s is read before it is defined",
		                     kverify_value_name(v, id));
	bool whole = dtype_class(value->dtype < DTYPE_COUNT ? value->dtype : DTYPE_F32) != DTYPE_CLASS_FLOAT;
	if (value->rank || !whole || value->type == KTYPE_COPY || value->type == KTYPE_QUEUE)
		return kverify_error(v, "kernel-type", "an integer expression reads ints, flags and whole numbers",
		                     "%s is %s", kverify_value_name(v, id), kverify_value_type(v, id));
	return true;
}

static bool on_mesh(Verifier *v) {
	return v->k->mesh_axis || kverify_error(v, "kernel-signature", "say `mesh AXIS DEVICES` in the signature",
	                                        "the kernel runs on no mesh");
}

bool kverify_int(Verifier *v, IntId id, bool index_map) {
	if (id >= v->k->ints.count)
		return kverify_error(v, "kernel-undefined", NULL, "an integer expression is missing");
	const KInt *i = &v->k->ints.at[id];
	int64_t by;
	if (i->kind == INT_CONST)
		return true;
	if (i->kind == INT_VALUE)
		return kverify_int_value(v, i->value, index_map);
	if (i->kind == INT_DEVICE)
		return on_mesh(v);
	if (int_kind_of_dim(i->kind))
		return true;
	bool divides = i->kind == INT_DIV || i->kind == INT_REM || i->kind == INT_CDIV;
	if (divides && int_is_const(v->k, i->b, &by) && by <= 0)
		return kverify_error(v, "kernel-bounds", "divide by a positive number", "it divides by %lld",
		                     (long long)by);
	return kverify_int(v, i->a, index_map) && (i->b == NONE || kverify_int(v, i->b, index_map)) &&
	       (i->c == NONE || kverify_int(v, i->c, index_map));
}

bool kverify_ints(Verifier *v, const IntId *ints, uint32_t count, bool index_map) {
	for (uint32_t i = 0; i < count; i++)
		if (!kverify_int(v, ints[i], index_map))
			return false;
	return true;
}

/* ---- references ------------------------------------------------------------------------------------------------- */

/* As far as constants show. */
static bool inside(Verifier *v, BufferId b, uint32_t d, const KDim *dim) {
	int64_t start, has = v->k->buffers.at[b].shape[d], first = 0, size = dim->kind == KDIM_AT ? 1 : dim->size;
	bool known = int_is_const(v->k, dim->start, &start);
	if (dim->kind == KDIM_PART && (dim->parts < 1 || dim->size > has / dim->parts))
		return kverify_error(v, "kernel-bounds", NULL, "dim %u of %s has %lld elements, no %lld parts of %lld",
		                     d, kverify_buffer_name(v, b), (long long)has, (long long)dim->parts,
		                     (long long)dim->size);
	if (dim->kind == KDIM_PART && known && (start < 0 || start >= dim->parts))
		return kverify_error(v, "kernel-bounds", NULL, "there is no part %lld of %lld", (long long)start,
		                     (long long)dim->parts);
	if (dim->kind != KDIM_PART && known)
		first = start;
	if (size < 0 || first < 0 || first > has || size > has - first)
		return kverify_error(v, "kernel-bounds", NULL,
		                     "dim %u of %s has %lld elements: %lld from %lld are not in it", d,
		                     kverify_buffer_name(v, b), (long long)has, (long long)size, (long long)first);
	if (known && dim->multiple && dim->kind != KDIM_PART && start % dim->multiple)
		return kverify_error(v, "kernel-bounds", NULL, "%lld is no multiple of %lld", (long long)start,
		                     (long long)dim->multiple);
	return true;
}

static bool is_window(const KLoop *loop, BufferId b) {
	for (uint32_t w = 0; w < loop->windows.count; w++)
		if (loop->windows.at[w].buffer == b)
			return true;
	return false;
}

/* Of an emit_pipeline: what its first and its last step, the peeled one and all others may see of it. */
static bool piped_step_fits(const Verifier *v, IntId at) {
	const KLoop *loop = v->loop;
	int64_t number, steps = loop->dim[0].full_steps, runs = 0;
	int_is_const(v->k, loop->dim[0].steps, &steps);
	if (v->loop_region == loop->tail || loop->runs == NONE)
		return true;
	bool known = int_is_const(v->k, at, &number);
	int64_t by = int_is_const(v->k, loop->runs, &runs) && runs == steps - 1 ? 1 : 2;
	if (v->loop_region == loop->before)
		return known && number == 0;
	if (v->loop_region == loop->behind)
		return known && number < steps && number >= steps - by;
	Linear x = {.known = true};
	linear_add(v->k, NONE, &x, at, 1);
	return x.known && x.terms == 1 && x.term[0] == loop->dim[0].step && x.by[0] == by && x.number >= 0 &&
	       x.number <= by;
}

/* A window at a step that is said: calls take them, where the steps of others are seen, too. */
static bool step_fits(Verifier *v, const KRef *r) {
	int64_t number;
	const KLoop *loop = v->loop;
	bool beside = loop && (v->loop_region == loop->before || v->loop_region == loop->behind ||
	                       v->loop_region == loop->tail);
	bool said = loop && is_window(loop, r->buffer) && (beside || loop->runs != NONE);
	if (r->at == NONE && said)
		return kverify_error(
			v, "kernel-structure", "say `at (STEP)` behind it",
			"there is no window of an own step before or behind a loop, or where it says `runs`");
	if (r->at == NONE)
		return true;
	if (!said || r->rank || kernel_stmt(v->k, v->stmt)->op != K_CALL)
		return kverify_error(v, "kernel-structure", "it is an argument of a call, in a loop that says `runs`",
		                     "only a whole window of a loop is one at a step");
	bool counted = beside && int_is_const(v->k, loop->dim[0].steps, &number);
	if (beside && !int_is_const(v->k, r->at, &number) && (counted || int_reads(v->k, r->at, loop->dim[0].step)))
		return kverify_error(v, "kernel-structure", NULL, "before and behind a loop the step is a number");
	if (loop->type != LOOP_FORI && loop->type != LOOP_UNROLL && !piped_step_fits(v, r->at))
		return kverify_error(
			v, "kernel-structure", NULL,
			"an emit_pipeline sees its own steps and the next, before it the first, behind it the last");
	return kverify_int(v, r->at, false);
}

bool kverify_ref(Verifier *v, RefId id) {
	if (id >= v->k->refs.count || v->k->refs.at[id].buffer >= v->k->buffers.count)
		return kverify_error(v, "kernel-undefined", NULL, "a reference is missing");
	const KRef *r = &v->k->refs.at[id];
	if (!step_fits(v, r))
		return false;
	if (!v->buffer_seen[r->buffer])
		return kverify_error(v, "kernel-undefined", NULL, "%s is not in scope here",
		                     kverify_buffer_name(v, r->buffer));
	if (r->rank > v->k->buffers.at[r->buffer].rank)
		return kverify_error(v, "kernel-bounds", NULL, "%s has %u dims, the reference %u",
		                     kverify_buffer_name(v, r->buffer), v->k->buffers.at[r->buffer].rank, r->rank);
	for (uint32_t d = 0; d < r->rank; d++)
		if (r->dim[d].kind != KDIM_ALL &&
		    (!kverify_int(v, r->dim[d].start, false) || !inside(v, r->buffer, d, &r->dim[d])))
			return false;
	return true;
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

bool kverify_arg(Verifier *v, const KArg *arg) {
	switch (arg->kind) {
	case KARG_VALUE:
		if (arg->value < v->k->values.count && v->value_seen[arg->value])
			return true;
		return kverify_error(v, "kernel-undefined", NULL, "%s is read before it is defined",
		                     kverify_value_name(v, arg->value));
	case KARG_INT: return kverify_int(v, arg->index, false);
	case KARG_REF: return kverify_ref(v, arg->ref);
	default: return true;
	}
}

bool kverify_type(Verifier *v, ValueId id) {
	const KValue *x = &v->k->values.at[id];
	bool tile = x->type == KTYPE_TILE;
	if (!tile && x->rank)
		return kverify_error(v, "kernel-type", NULL, "%s has dims and is no tile", kverify_value_name(v, id));
	if (tile && x->dtype >= DTYPE_COUNT)
		return kverify_error(v, "kernel-type", NULL, "%s has no dtype", kverify_value_name(v, id));
	bool row = x->layout == LAYOUT_ROW && x->rank > 1 && x->shape[x->rank - 2] != 1;
	bool column = x->layout == LAYOUT_COLUMN && (x->rank < 1 || x->shape[x->rank - 1] != 1);
	if (row || column)
		return kverify_error(v, "kernel-type", NULL, "%s is %s, which is no %s", kverify_value_name(v, id),
		                     kverify_type_text(v, x->dtype, x->rank, x->shape), row ? "row" : "column");
	return true;
}

bool kverify_passes(Verifier *v, const KArg *arg, ValueId as, const char *what) {
	const KValue *to = &v->k->values.at[as];
	if (arg->kind == KARG_VALUE) {
		const KValue *x = &v->k->values.at[arg->value];
		bool ints = to->rank == 0 && x->rank == 0 && to->type != KTYPE_TILE && x->type != KTYPE_COPY;
		bool same = x->dtype == to->dtype && kernel_same_shape(x->rank, x->shape, to->rank, to->shape);
		if (same && (x->type == to->type || ints))
			return true;
		return kverify_error(v, "kernel-type", NULL, "%s is %s, and %s is %s",
		                     kverify_value_name(v, arg->value), kverify_value_type(v, arg->value), what,
		                     kverify_value_type(v, as));
	}
	bool number = arg->kind != KARG_REF && arg->kind != KARG_NONE;
	if (!number || to->rank || to->type == KTYPE_COPY || to->type == KTYPE_QUEUE)
		return kverify_error(v, "kernel-type", NULL, "%s is %s: it needs a value", what,
		                     kverify_value_type(v, as));
	return true;
}

/* ---- pure ops --------------------------------------------------------------------------------------------------- */

typedef struct Arity {
	uint16_t op;
	uint32_t least, most;
} Arity;

static bool arity_of(uint16_t op, uint32_t *least, uint32_t *most) {
	static const Arity others[] = {{K_ZEROS, 0, 0},
	                               {K_ONES, 0, 0},
	                               {K_FULL, 1, 1},
	                               {K_IOTA, 0, 0},
	                               {K_CHOOSE, 3, 3},
	                               {K_MASK, 3, 3},
	                               {K_KEEP, 3, 3},
	                               {K_WITHIN, 3, 3},
	                               {K_PAD, 2, 2},
	                               {K_ROTATE, 2, 2},
	                               {K_TAKE_LANES, 2, 2},
	                               {K_TAKE_ROWS, 2, 2},
	                               {K_CONCATENATE, 1, UINT32_MAX},
	                               {K_STACK, 1, UINT32_MAX},
	                               {K_INTERLEAVE, 2, 2},
	                               {K_FOLD_SUM, 2, 2},
	                               {K_FOLD_MAX, 2, 2},
	                               {K_FOLD_MIN, 2, 2},
	                               {K_FOLD_WHERE, 3, 3},
	                               {K_DOT, 2, 2},
	                               {K_TRUNC_DIVIDE, 2, 2},
	                               {K_INT_POWER, 2, 2},
	                               {K_WIDE_MAXIMUM, 2, 2},
	                               {K_FLOORED, 2, 2},
	                               {K_WIDE_MINIMUM, 2, 2},
	                               {K_PROGRAM_ID, 0, 0},
	                               {K_DEVICE_ID, 0, 0},
	                               {K_CORE_ID, 0, 0},
	                               {K_SUBCORE_ID, 0, 0},
	                               {K_AXES_INDEX, 0, 0},
	                               {K_INT, 1, 1}};
	*least = *most = 1;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (others[i].op == op) {
			*least = others[i].least;
			*most = others[i].most;
		}
	if (op >= OP_COUNT)
		return true;
	OpParam param;
	*least = *most = 0;
	for (const char *at = op_row(op)->params; (at = op_param_next(at, &param)) != NULL;) {
		++*most;
		*least += !param.fallback && !param.by_name && !param.nullable;
	}
	*most += op == OP_ROUND; /* decimals */
	return true;
}

static bool count_fits(Verifier *v, const KStmt *s) {
	uint32_t least, most;
	arity_of(s->op, &least, &most);
	if (s->arg_count >= least && s->arg_count <= most)
		return true;
	return kverify_error(v, "kernel-arguments", NULL, "it has %u argument%s and takes %s%u", s->arg_count,
	                     s->arg_count == 1 ? "" : "s",
	                     least == most          ? ""
	                     : s->arg_count < least ? "at least "
	                                            : "at most ",
	                     s->arg_count < least ? least : most);
}

/* Numbers with which no shape can overflow; `items` that make no more dims than there can be. */
static bool attributes_fit(Verifier *v, const KStmt *s) {
	for (uint32_t i = 0; i < s->int_count; i++)
		if (s->ints[i] > INT32_MAX || s->ints[i] < -(int64_t)INT32_MAX)
			return kverify_error(v, "kernel-arguments", NULL, "an attribute is %lld",
			                     (long long)s->ints[i]);
	const KArg *x = s->arg_count ? &v->k->args.at[s->arg_first] : NULL;
	uint32_t rank = x && x->kind == KARG_VALUE ? v->k->values.at[x->value].rank : 0, rests = 0, more = 0;
	for (uint32_t i = 0; s->op == K_INDEX && i + 2 < s->int_count; i += 3) {
		more += s->ints[i] == K_ITEM_NEW;
		rests += s->ints[i] == K_ITEM_REST;
		if (s->ints[i] < K_ITEM_NEW || s->ints[i] > K_ITEM_REST)
			return kverify_error(v, "kernel-arguments", NULL, "it has an item of no kind");
	}
	more += s->op == K_STACK || s->op == K_EXPAND_DIMS;
	if (rests > 1)
		return kverify_error(v, "kernel-arguments", NULL, "its items have more than one `...`");
	if (rank + more > KDIM_MAX)
		return kverify_error(v, "kernel-type", NULL, "it would have %u dims; at most %d can be", rank + more,
		                     KDIM_MAX);
	return true;
}

static bool axis_fits(Verifier *v, int64_t axis, uint32_t rank) {
	if (axis >= -(int64_t)rank && axis < (int64_t)rank)
		return true;
	return kverify_error(v, "kernel-bounds", NULL, "there is no axis %lld of %u", (long long)axis, rank);
}

static bool part_fits(Verifier *v, int64_t first, int64_t last, int64_t size) {
	if (first >= 0 && last <= size && (first <= last || first == size))
		return true;
	return kverify_error(v, "kernel-bounds", NULL, "the dim has %lld elements: %lld up to %lld are not in it",
	                     (long long)size, (long long)first, (long long)last);
}

static bool spread_fits(Verifier *v, const KValue *x, const KValue *to) {
	bool fits = x->rank <= to->rank;
	for (uint32_t d = 0; fits && d < x->rank; d++)
		fits = x->shape[d] == 1 || x->shape[d] == to->shape[to->rank - x->rank + d];
	if (fits)
		return true;
	return kverify_error(v, "kernel-type", NULL, "%s does not broadcast to %s",
	                     kverify_type_text(v, x->dtype, x->rank, x->shape),
	                     kverify_type_text(v, to->dtype, to->rank, to->shape));
}

/* What kernel_infer() takes as it is: the parts of a tile that an op takes are there. */
static bool moves_fit(Verifier *v, const KStmt *s) {
	const KArg *arg = s->arg_count ? &v->k->args.at[s->arg_first] : NULL;
	const KValue *x = arg && arg->kind == KARG_VALUE ? &v->k->values.at[arg->value] : NULL;
	const int64_t *n = s->ints;
	int64_t product;
	switch (s->op) {
	case K_BROADCAST: return !x || spread_fits(v, x, &v->k->values.at[s->result]);
	case K_IOTA: return s->int_count == 1 && axis_fits(v, n[0], v->k->values.at[s->result].rank);
	case K_MASK:
	case K_KEEP:
	case K_CUMSUM:
	case K_CUMPROD:
	case K_ROTATE:
	case K_FLIP:
	case K_REVERSE: return !x || s->int_count != 1 || axis_fits(v, n[0], x->rank);
	case K_SORT:
	case K_WITHIN: return !x || s->int_count != 2 || axis_fits(v, n[0], x->rank);
	case K_SLICE_IN_DIM:
		return !x || s->int_count != 3 ||
		       (axis_fits(v, n[2], x->rank) && (n[2] < 0 || part_fits(v, n[0], n[1], x->shape[n[2]])));
	case K_EVERY:
		if (!x || s->int_count != 4 || n[2] < 1)
			return true;
		return axis_fits(v, n[3], x->rank) &&
		       (n[3] < 0 || part_fits(v, n[0], n[0] + (n[2] - 1) * n[1] + 1, x->shape[n[3]]));
	case K_ROLL:
		for (uint32_t i = 0; x && i + 1 < s->int_count; i += 2)
			if (!axis_fits(v, n[i + 1], x->rank))
				return false;
		return s->int_count % 2 == 0 ||
		       kverify_error(v, "kernel-arguments", NULL, "each shift has its axis behind it");
	case K_TILE:
		for (uint32_t d = 0; x && s->int_count >= x->rank && d < x->rank; d++)
			if (n[s->int_count - x->rank + d] < 0 ||
			    !checked_mul(n[s->int_count - x->rank + d], x->shape[d], &product))
				return kverify_error(v, "kernel-type", NULL, "the tile would be too large");
		return true;
	default: return true;
	}
}

/* What its arguments are, but for their shapes. */
static bool kinds_fit(Verifier *v, StmtId id) {
	const KStmt *s = kernel_stmt(v->k, id);
	for (uint32_t i = 0; i < s->arg_count; i++) {
		const KArg *arg = kernel_arg(v->k, id, i);
		if (arg->kind == KARG_REF)
			return kverify_error(v, "kernel-arguments", "load it first: `name = load buffer[...] : type`",
			                     "argument %u is a buffer", i);
		if (arg->kind == KARG_NONE && s->op >= OP_COUNT)
			return kverify_error(v, "kernel-arguments", NULL, "argument %u is missing", i);
		if (arg->kind != KARG_VALUE)
			continue;
		const KValue *x = &v->k->values.at[arg->value];
		if (x->type == KTYPE_COPY || x->type == KTYPE_QUEUE || x->dtype >= DTYPE_COUNT)
			return kverify_error(v, "kernel-type", NULL, "%s is %s: nothing is computed of it",
			                     kverify_value_name(v, arg->value), kverify_value_type(v, arg->value));
	}
	return true;
}

static bool place_fits(Verifier *v, const KStmt *s) {
	if (s->op == K_PROGRAM_ID && (s->int_count != 1 || s->ints[0] < 0 || s->ints[0] >= v->grid_rank))
		return kverify_error(v, "kernel-bounds", NULL, "the innermost grid has %u dims", v->grid_rank);
	if (s->op == K_DEVICE_ID && !on_mesh(v))
		return false;
	if ((s->op == K_CORE_ID || s->op == K_SUBCORE_ID) && !v->k->sparse_cores)
		return kverify_error(v, "kernel-signature", "say `sparse_core CORES SUBCORES` in the signature",
		                     "the kernel runs on no SparseCore");
	bool between = s->op >= K_ALL_SUM && s->op <= K_AXES_INDEX; /* devices */
	for (uint32_t i = 0; between && i < s->int_count; i++)
		if (s->ints[i] < 0 || s->ints[i] >= v->p->axes.count)
			return kverify_error(v, "kernel-bounds", "`axes NAME ...` before the kernels names them",
			                     "the program has no axis %lld", (long long)s->ints[i]);
	if (between && (!v->host || s->int_count == 0))
		return kverify_error(v, "kernel-structure", NULL, "the host alone goes along axes, one or more");
	return true;
}

bool kverify_pure(Verifier *v, StmtId id) {
	const KStmt *s = kernel_stmt(v->k, id);
	if (s->result_count != 1)
		return kverify_error(v, "kernel-structure", NULL, "it gives %u values, and computes one",
		                     s->result_count);
	if (!count_fits(v, s) || !kinds_fit(v, id) || !attributes_fit(v, s) || !place_fits(v, s) || !moves_fit(v, s))
		return false;
	const KValue *x = &v->k->values.at[s->result];
	Dtype dtype = x->dtype;
	uint32_t rank = x->rank;
	int64_t shape[KDIM_MAX + 1] = {0};
	const char *why = NULL;
	if (rank)
		memcpy(shape, x->shape, rank * sizeof *shape);
	if (!kernel_infer(v->k, s->op, s->arg_count, &v->k->args.at[s->arg_first], s->int_count, s->ints, &dtype, &rank,
	                  shape, &why))
		return kverify_error(v, "kernel-type", NULL, "%s", why);
	if (s->op == K_INT && x->type == KTYPE_FLAG)
		dtype = DTYPE_BOOL;
	if (s->op < OP_COUNT && op_row(s->op)->dtype == RULE_BOOL)
		dtype = DTYPE_BOOL;
	if (dtype != x->dtype || !kernel_same_shape(rank, shape, x->rank, x->shape))
		return kverify_error(v, "kernel-type", "state what it gives, or convert", "it gives %s and states %s",
		                     kverify_type_text(v, dtype, rank, shape), kverify_value_type(v, s->result));
	return true;
}
