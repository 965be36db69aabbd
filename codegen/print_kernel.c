/* print_kernel.c - the kernel function: its parameters, and the statements of each graph. */
#include "printer.h"

static Planner planner_of(Printer *pr) {
	return (Planner){.plan = (Plan *)(uintptr_t)pr->plan, .m = pr->m, .a = pr->a};
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

/* Gives n's variable the value `x` with the lanes that a mask hides filled, if only in the ragged step. */
static void print_mask(Printer *pr, NodeId n, const Mask *mask, const char *x, const char *fill) {
	const Type *t = node_type(pr->m, n);
	uint32_t axis = mask->dim + (t->count == 1 && pr->plan->values[n].form == FORM_NATURAL);
	uint32_t dim, l = block_scope(pr->plan, node_get(pr->m, n)->graph, mask->block, &dim);
	Affine count = affine_sub(pr->a, mask->end, mask->offset);
	if (mask->last_only)
		count = affine_int(pr->plan->loops.at[l].dim[dim].tail);
	pr->mask = true;
	int64_t shape[DIM_MAX];
	uint32_t rank = printed_shape(pr, n, pr->plan->values[n].form, shape);
	Dtype in = arith_mask_dtype(t->dtype, rank > 1 ? shape[rank - 2] : 1);
	const char *masked =
		arena_printf(pr->a, "_mask(%s, %u, %s, %s)", converted_text(pr, py_atom(x), t->dtype, in).text, axis,
	                     affine_text(pr, &count, PREC_LOWEST), fill);
	const char *text = converted_text(pr, py_atom(masked), in, t->dtype).text;
	if (mask->last_only)
		py_choice(&pr->w, pr->names[n], text, pr->ragged[l], x);
	else
		py_line(&pr->w, "%s = %s", pr->names[n], text);
}

static void print_masks(Printer *pr, NodeId n, const char *x, const char *fill) {
	const Value *v = &pr->plan->values[n];
	for (uint32_t i = 0; i < v->mask_count; i++) {
		print_mask(pr, n, &v->masks[i], x, fill);
		x = pr->names[n];
	}
}

/* ---- stores ----------------------------------------------------------------------------------------------------- */

static bool same_shape(const int64_t *a, uint32_t ra, const int64_t *b, uint32_t rb) {
	bool same = ra == rb;
	for (uint32_t i = 0; same && i < ra; i++)
		same = a[i] == b[i];
	return same;
}

/* The shape that an access selects of its ref, unit dim dropped or kept. */
static uint32_t region_shape(Printer *pr, const Access *access, bool keep_unit, int64_t *shape) {
	const Operand *o = &pr->plan->operands.at[access->operand];
	const int64_t *block = access->kind == REF_WINDOW
	                               ? pr->plan->loops.at[access->loop].windows.at[access->window].block
	                               : o->block;
	uint32_t rank = 0;
	for (uint32_t i = 0; i < access->rank; i++)
		if (access->dim[i].kind != SLICE_AT || (keep_unit && i == o->unit))
			shape[rank++] = pr->strip && i + 1 == access->rank   ? pr->plan->strips->width
			                : access->dim[i].kind == SLICE_RANGE ? access->dim[i].size
			                                                     : block[i];
	return rank;
}

/* Where operand dim d stands in the region. */
static uint32_t region_axis(const Operand *o, const Access *access, bool keep_unit, uint32_t d) {
	uint32_t axis = 0;
	for (uint32_t i = 0; i < d; i++)
		axis += access->dim[i].kind != SLICE_AT || (keep_unit && i == o->unit);
	return axis;
}

static uint32_t accumulator_of(const Operand *o) { return o->held ? o->held->accumulator : NONE; }

static const char *write_ref(Printer *pr, const Access *access, bool keep_unit) {
	uint32_t accumulator = accumulator_of(&pr->plan->operands.at[access->operand]);
	const char *ref = accumulator != NONE           ? pr->scratch[accumulator]
	                  : access->kind == REF_OPERAND ? pr->refs[access->operand]
	                                                : pr->window[access->loop][access->window];
	return arena_printf(pr->a, "%s%s", ref, access_text(pr, access, keep_unit));
}

/* What is stored as a row: a column, or what lies in a row already. */
static bool stored_as_row(Printer *pr, const Arg *arg) {
	return arg->kind == ARG_REF && node_type(pr->m, arg->node)->kind == TYPE_TENSOR &&
	       node_type(pr->m, arg->node)->count > 0 && pr->plan->values[arg->node].form != FORM_NATURAL;
}

/* Mosaic moves no bools, which are masks to it. */
static PyExpr movable(Printer *pr, NodeId value, PyExpr x) {
	return node_type(pr->m, value)->dtype == DTYPE_BOOL ? as_dtype(pr, x, DTYPE_I32) : x;
}

/* A row goes into the boundary view's unit dim if there is one, else it is squeezed. */
static PyExpr row_to_store(Printer *pr, NodeId value, bool keep_unit) {
	Form form = pr->plan->values[value].form;
	PyExpr x = movable(pr, value, value_text(pr, value, form));
	bool squeeze = !keep_unit && node_type(pr->m, value)->count > 1;
	if (form == FORM_COLUMN) {
		pr->to_row = true;
		x = py_atom(arena_printf(pr->a, "_to_row(%s)", x.text));
	}
	return squeeze ? py_atom(arena_printf(pr->a, "%s[..., 0, :]", in_parens(pr, x, PREC_ATOM))) : x;
}

/* The shape of row_to_store(). */
static uint32_t stored_row_shape(Printer *pr, NodeId value, bool keep_unit, int64_t *shape) {
	uint32_t rank = printed_shape(pr, value, FORM_ROW, shape);
	if (keep_unit || node_type(pr->m, value)->count == 1)
		return rank;
	shape[rank - 2] = shape[rank - 1];
	return rank - 1;
}

/* Into this step's part of a block that several share. */
static void print_store_part(Printer *pr, const Access *access, bool keep_unit, const char *x) {
	const char *put = printer_name(pr, "put"), *value = printer_name(pr, "value");
	const char *part = part_of(pr, access_part_dim(access));
	py_line(&pr->w, "%s = %s", value, x);
	py_def(&pr->w);
	py_line(&pr->w, "def %s(part):", put);
	pr->w.indent++;
	py_line(&pr->w, "%s = %s", write_ref(pr, access, keep_unit), value);
	pr->w.indent--;
	py_blank(&pr->w);
	py_line(&pr->w, "%s%s)", part, put);
}

/* An operand of the write n, its value or its mask, in the shape of the region and in dtype `to`. */
static PyExpr written_text(Printer *pr, NodeId n, uint32_t operand, bool keep_unit, Dtype to) {
	const Access *access = pr->plan->values[n].access;
	const Arg *arg = node_arg(pr->m, n, operand);
	bool tensor = arg->kind == ARG_REF && node_type(pr->m, arg->node)->kind == TYPE_TENSOR &&
	              node_type(pr->m, arg->node)->count > 0;
	bool row = stored_as_row(pr, arg);
	int64_t want[DIM_MAX], have[DIM_MAX];
	uint32_t want_rank = region_shape(pr, access, keep_unit, want);
	PyExpr x = row ? row_to_store(pr, arg->node, keep_unit) : arg_text(pr, arg, FORM_NATURAL);
	uint32_t have_rank = row      ? stored_row_shape(pr, arg->node, keep_unit, have)
	                     : tensor ? printed_shape(pr, arg->node, FORM_NATURAL, have)
	                              : 0;
	bool swap = !row && access->perm_rank;
	bool beside = tensor && !row && keep_unit && node_type(pr->m, arg->node)->count >= 2;
	bool spread = !swap && !beside && !same_shape(want, want_rank, have, have_rank);
	bool moved = row || swap || beside || (tensor && spread);
	if (swap)
		x = py_atom(arena_printf(pr->a, "jnp.swapaxes(%s, -1, -2)", movable(pr, arg->node, x).text));
	else if (beside) /* a mask of a row that goes into the unit dim */
		x = py_atom(arena_printf(pr->a, "jnp.expand_dims(%s, -2)", movable(pr, arg->node, x).text));
	else if (spread)
		x = py_atom(arena_printf(pr->a, "jnp.broadcast_to(%s, %s)",
		                         (tensor && !row ? movable(pr, arg->node, x) : x).text,
		                         shape_text(pr, want_rank, want)));
	if (!tensor)
		return as_dtype(pr, x, to);
	Dtype from = node_type(pr->m, arg->node)->dtype;
	return converted_text(pr, x, moved && from == DTYPE_BOOL ? DTYPE_I32 : from, to);
}

/* What an atomic makes of the old value and the new. */
static PyExpr combined_text(Printer *pr, NodeId n, PyExpr old, PyExpr value) {
	if (node_get(pr->m, n)->op == OP_ATOMIC_XCHG)
		return value;
	return row_text(pr, op_row(node_get(pr->m, n)->op), (PyExpr[]){old, value}, 2);
}

/* The dtype in which lanes of a region are selected. */
static Dtype selected_dtype(Printer *pr, const Access *access, bool keep_unit, Dtype dtype) {
	int64_t shape[DIM_MAX];
	uint32_t rank = region_shape(pr, access, keep_unit, shape);
	return arith_mask_dtype(dtype, rank > 1 ? shape[rank - 2] : 1);
}

/* What stands where the write goes: a number, if nothing but the tensor's initial value can. */
static PyExpr old_text(Printer *pr, NodeId n, bool keep_unit, Dtype to) {
	const Access *access = pr->plan->values[n].access;
	const Operand *o = &pr->plan->operands.at[access->operand];
	if (o->held && o->held->initial == INITIAL_FOLDED)
		return held_initial_text(pr, o, to);
	PyExpr ref = {write_ref(pr, access, keep_unit), PREC_ATOM};
	return converted_text(pr, ref, accumulator_of(o) != NONE ? DTYPE_F32 : o->dtype, to);
}

/* `value` where the store's extra_mask is true, else what stands there. */
static PyExpr masked_text(Printer *pr, NodeId n, bool keep_unit, Dtype dtype, PyExpr value) {
	Dtype in = selected_dtype(pr, pr->plan->values[n].access, keep_unit, dtype);
	PyExpr mask = written_text(pr, n, 3, keep_unit, DTYPE_BOOL);
	value = py_atom(arena_printf(pr->a, "jnp.where(%s, %s, %s)", mask.text,
	                             converted_text(pr, value, dtype, in).text, old_text(pr, n, keep_unit, in).text));
	return converted_text(pr, value, in, dtype);
}

/* `value` with the lanes that the write must leave alone as they are. */
static PyExpr kept_text(Printer *pr, NodeId n, bool keep_unit, Dtype dtype, PyExpr value) {
	const Value *v = &pr->plan->values[n];
	const Operand *o = &pr->plan->operands.at[v->access->operand];
	Dtype in = selected_dtype(pr, v->access, keep_unit, dtype);
	if (v->mask_count == 0)
		return value;
	value = converted_text(pr, value, dtype, in);
	PyExpr old = old_text(pr, n, keep_unit, in);
	for (uint32_t i = 0; i < v->mask_count; i++) {
		const Mask *mask = &v->masks[i];
		uint32_t dim, l = block_scope(pr->plan, node_get(pr->m, n)->graph, mask->block, &dim);
		Affine count = affine_sub(pr->a, mask->end, mask->offset);
		pr->mask = true;
		const char *end = affine_text(pr, &count, PREC_LOWEST);
		if (mask->last_only)
			end = arena_printf(pr->a, "%lld if %s else %lld",
			                   (long long)pr->plan->loops.at[l].dim[dim].tail, pr->ragged[l],
			                   (long long)pr->plan->loops.at[l].dim[dim].step);
		value.text = arena_printf(pr->a, "_mask(%s, %u, %s, %s)", value.text,
		                          region_axis(o, v->access, keep_unit, o->dim_of[mask->dim]), end, old.text);
		value.precedence = PREC_ATOM;
	}
	return converted_text(pr, value, in, dtype);
}

/* A store or an atomic. */
static void print_write(Printer *pr, NodeId n) {
	const Value *v = &pr->plan->values[n];
	const Operand *o = &pr->plan->operands.at[v->access->operand];
	const Arg *arg = node_arg(pr->m, n, 2);
	bool atomic = node_get(pr->m, n)->op != OP_STORE;
	bool keep_unit =
		stored_as_row(pr, arg) && o->unit != NONE && o->unit + 2 == o->rank && v->access->perm_rank == 0;
	Dtype held = accumulator_of(o) != NONE ? DTYPE_F32 : o->dtype;
	Dtype in = atomic ? arith_write_dtype(pr->m, n) : held;
	PyExpr value = written_text(pr, n, 2, keep_unit, in);
	const char *ref = write_ref(pr, v->access, keep_unit);
	bool adds_zero = o->held && o->held->initial == INITIAL_FOLDED && o->held->value == 0 &&
	                 node_get(pr->m, n)->op == OP_ATOMIC_ADD;
	if (atomic && !adds_zero)
		value = combined_text(pr, n, old_text(pr, n, keep_unit, in), value);
	value = kept_text(pr, n, keep_unit, in, value);
	if (!atomic && node_input(pr->m, n, 3) != NONE)
		value = masked_text(pr, n, keep_unit, in, value);
	value = converted_text(pr, value, in, held);
	if (access_part_dim(v->access))
		print_store_part(pr, v->access, keep_unit, value.text);
	else
		py_line(&pr->w, "%s = %s", ref, value.text);
}

/* ---- statements ------------------------------------------------------------------------------------------------- */

static bool int_is_read(Printer *pr, NodeId n) {
	Planner p = planner_of(pr);
	Arg ref = arg_ref(n);
	Affine a = affine_of_arg(&p, node_get(pr->m, n)->graph, &ref);
	return a.count == 1 && a.term[0].kind == VAR_NODE && a.term[0].id == n;
}

static void print_value(Printer *pr, NodeId n) {
	printer_comment(pr, n);
	const char *before = pr->names[n];
	PyExpr e = node_text(pr, n);
	if (pr->names[n] != before) /* viewed_text() */
		return;
	pr->names[n] = value_name(pr, n);
	py_line(&pr->w, "%s = %s", pr->names[n], e.text);
}

void print_node(Printer *pr, NodeId n) {
	const Value *v = &pr->plan->values[n];
	Lowering how = op_lowering(node_get(pr->m, n)->op);
	if (!v->printed || v->inlined || how == LOWER_RESULT)
		return;
	switch (how) {
	case LOWER_STORE:
		printer_comment(pr, n);
		print_write(pr, n);
		break;
	case LOWER_LOOP: print_loop(pr, n); break;
	case LOWER_INT:
		if (int_is_read(pr, n))
			print_value(pr, n);
		break;
	case LOWER_MASK: {
		printer_comment(pr, n);
		PyExpr x = arg_text(pr, node_arg(pr->m, n, 0), v->form);
		PyExpr fill = arg_text(pr, node_arg(pr->m, n, 1), FORM_NATURAL);
		pr->names[n] = value_name(pr, n);
		print_masks(pr, n, x.text, fill.text);
		break;
	}
	case LOWER_FULL:
		if (node_type(pr->m, n)->count > 0)
			print_value(pr, n);
		break;
	case LOWER_LOAD:
		print_value(pr, n);
		print_masks(pr, n, pr->names[n], node_type(pr->m, n)->dtype == DTYPE_BOOL ? "False" : "0");
		break;
	default: print_value(pr, n); break;
	}
}

void print_graph(Printer *pr, GraphId g) {
	for (NodeId n = graph_first(pr->m, g); n != NONE; n = node_get(pr->m, n)->next)
		print_node(pr, n);
}

void print_graph_part(Printer *pr, GraphId g, bool ahead) {
	for (NodeId n = graph_first(pr->m, g); n != NONE; n = node_get(pr->m, n)->next)
		if (pr->plan->values[n].ahead == ahead)
			print_node(pr, n);
}

/* ---- the function ----------------------------------------------------------------------------------------------- */

static const char *parameters(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (int output = 0; output < 2; output++)
		for (uint32_t i = 0; i < pr->plan->operands.count; i++)
			if (pr->plan->operands.at[i].output == (bool)output)
				text_printf(&out, out.length ? ", %s" : "%s", pr->refs[i]);
	for (uint32_t i = 0; i < pr->plan->scratches.count; i++)
		text_printf(&out, out.length ? ", %s" : "%s", pr->scratch[i]);
	return out.at ? out.at : "";
}

static void name_everything(Printer *pr) {
	const Plan *p = pr->plan;
	uint32_t loops = p->loops.count + 1;
	pr->names = arena_array(pr->a, pr->m->nodes.count + 1, sizeof *pr->names);
	pr->refs = arena_array(pr->a, p->operands.count + 1, sizeof *pr->refs);
	pr->scratch = arena_array(pr->a, p->scratches.count + 1, sizeof *pr->scratch);
	pr->window = arena_array(pr->a, loops, sizeof *pr->window);
	for (uint32_t l = 0; l < p->loops.count; l++)
		pr->window[l] = arena_array(pr->a, p->loops.at[l].windows.count + 1, sizeof **pr->window);
	pr->program = arena_array(pr->a, p->grid.count + 1, sizeof *pr->program);
	pr->program_used = arena_array(pr->a, p->grid.count + 1, sizeof *pr->program_used);
	pr->step = arena_array(pr->a, (size_t)loops * RANK_MAX, sizeof *pr->step);
	pr->step_value = arena_array(pr->a, (size_t)loops * RANK_MAX, sizeof *pr->step_value);
	pr->step_used = arena_array(pr->a, (size_t)loops * RANK_MAX, sizeof *pr->step_used);
	pr->ragged = arena_array(pr->a, loops, sizeof *pr->ragged);
	for (uint32_t i = 0; i < p->operands.count; i++)
		pr->refs[i] = printer_name(pr, p->operands.at[i].ref);
	for (uint32_t i = 0; i < p->scratches.count; i++)
		pr->scratch[i] = printer_name(pr, p->scratches.at[i].ref);
	for (uint32_t i = 0; i < p->grid.count; i++)
		pr->program[i] = printer_name(pr, p->grid.at[i].name);
}

/* The first line that is no comment starts a nested function. */
static bool opens_with_def(const char *s) {
	while (s && strncmp(s, "    #", 5) == 0)
		s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL;
	return s && (strncmp(s, "    def ", 8) == 0 || strncmp(s, "    @", 5) == 0);
}

void print_kernel(Printer *pr, const char *name) {
	name_everything(pr);
	if (pr->plan->back_and_forth) /* the index maps walk so, whatever the body does */
		helper_named(pr, "_back_and_forth");
	Text body, *out = pr->w.out;
	text_init(&body, pr->a);
	pr->w.out = &body;
	pr->w.indent = 1;
	print_first_visits(pr);
	if (pr->plan->strips)
		print_strips(pr);
	else
		print_graph(pr, pr->plan->root);
	print_last_visits(pr);
	pr->w.out = out;
	pr->w.indent = 0;
	py_line(&pr->w, "def %s(%s):", name, parameters(pr));
	pr->w.indent = 1;
	bool used = false;
	for (uint32_t i = 0; i < pr->plan->grid.count; i++) {
		bool turns = pr->plan->back_and_forth && i + 1 == pr->plan->grid.count;
		const char *id = arena_printf(pr->a, "pl.program_id(%u)", i);
		if (turns)
			id = back_and_forth_text(pr, arena_printf(pr->a, "pl.program_id(%u)", i - 1), id);
		if (pr->program_used[i])
			py_line(&pr->w, "%s = %s", pr->program[i], id);
		used = used || pr->program_used[i];
	}
	if (used && opens_with_def(body.at))
		py_blank(&pr->w);
	text_put(out, body.length ? body.at : "    pass\n");
	pr->w.indent = 0;
}
