/* print_exprs.c - values as Python expressions: the texts of kernel_ops.def around their arguments. */
#include "printer.h"

const char *in_parens(Printer *pr, PyExpr e, Precedence around) {
	return e.precedence < around ? arena_printf(pr->a, "(%s)", e.text) : e.text;
}

const char *list_text(Printer *pr, uint32_t count, const char *const *items) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < count; i++) {
		text_put(&out, i ? ", " : "");
		text_put(&out, items[i]);
	}
	return out.at ? out.at : "";
}

static void put_ints(Text *out, uint32_t count, const int64_t *ints) {
	for (uint32_t i = 0; i < count; i++)
		text_printf(out, i ? ", %lld" : "%lld", (long long)ints[i]);
}

const char *shape_text(Printer *pr, uint32_t rank, const int64_t *shape) {
	Text out;
	text_init(&out, pr->a);
	text_put(&out, "(");
	put_ints(&out, rank, shape);
	text_put(&out, rank == 1 ? ",)" : ")");
	return out.at;
}

/* ---- references ------------------------------------------------------------------------------------------------- */

const KDim *ref_part(const KRef *ref) {
	for (uint32_t i = 0; i < ref->rank; i++)
		if (ref->dim[i].kind == KDIM_PART)
			return &ref->dim[i];
	return NULL;
}

const char *part_text(Printer *pr, const KDim *part) {
	return arena_printf(pr->a, "%s(%s, %lld, ", helper_named(pr, "_part"), int_text(pr, part->start, PREC_LOWEST),
	                    (long long)part->parts);
}

static const char *dim_text(Printer *pr, const KDim *d) {
	if (d->kind == KDIM_ALL)
		return ":";
	if (d->kind == KDIM_PART)
		return d->size == 1 ? "pl.ds(part, 1)"
		                    : arena_printf(pr->a, "pl.ds(part * %lld, %lld)", (long long)d->size,
		                                   (long long)d->size);
	if (pr->slice && d->kind == KDIM_RANGE && d->start == pr->slice_start && d->size == pr->slice_size)
		return pr->slice;
	const char *start = int_text(pr, d->start, PREC_LOWEST);
	if (d->multiple)
		start = arena_printf(pr->a, "pl.multiple_of(%s, %lld)", start, (long long)d->multiple);
	return d->kind == KDIM_AT ? start : arena_printf(pr->a, "pl.ds(%s, %lld)", start, (long long)d->size);
}

const char *subscript_text(Printer *pr, const KRef *ref) {
	const char *items[KDIM_MAX];
	for (uint32_t i = 0; i < ref->rank; i++)
		items[i] = dim_text(pr, &ref->dim[i]);
	return ref->rank ? arena_printf(pr->a, "[%s]", list_text(pr, ref->rank, items)) : "[...]";
}

const char *ref_text(Printer *pr, const KRef *ref) {
	return arena_printf(pr->a, "%s%s", pr->k->buffers.at[ref->buffer].var, subscript_text(pr, ref));
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

static PyExpr number(Printer *pr, const KArg *arg) {
	Text out;
	text_init(&out, pr->a);
	if (arg->kind == KARG_REAL)
		py_put_float(&out, arg->real);
	else if (arg->kind == KARG_BOOL)
		text_put(&out, arg->boolean ? "True" : "False");
	else
		text_printf(&out, "%lld", (long long)arg->integer);
	return (PyExpr){out.at, out.at[0] == '-' ? PREC_UNARY : PREC_ATOM};
}

static PyExpr print_value(Printer *pr, ValueId v) {
	const KValue *x = &pr->k->values.at[v];
	if (x->var)
		return py_atom(x->var);
	const KStmt *def = kernel_stmt(pr->k, x->def);
	if (def->op == K_LAUNCH)
		return py_atom(arena_printf(pr->a, "%s[%u]", def->var, v - def->result));
	return print_expr(pr, x->def);
}

PyExpr print_arg(Printer *pr, const KArg *arg) {
	switch (arg->kind) {
	case KARG_VALUE: return print_value(pr, arg->value);
	case KARG_INT: return print_int(pr, arg->index);
	case KARG_REF: {
		const KRef *ref = &pr->k->refs.at[arg->ref];
		const char *name = pr->k->buffers.at[ref->buffer].var;
		return py_atom(ref->rank ? arena_printf(pr->a, "%s.at%s", name, subscript_text(pr, ref)) : name);
	}
	case KARG_NONE: return py_atom("None");
	default: return number(pr, arg);
	}
}

static PyExpr arg_expr(Printer *pr, StmtId s, uint32_t i) {
	KArg arg = *kernel_arg(pr->k, s, i);
	return print_arg(pr, &arg);
}

static const char *args_text(Printer *pr, StmtId s) {
	uint32_t count = kernel_stmt(pr->k, s)->arg_count;
	const char **items = arena_array(pr->a, count + 1, sizeof *items);
	for (uint32_t i = 0; i < count; i++)
		items[i] = arg_expr(pr, s, i).text;
	return list_text(pr, count, items);
}

/* ---- texts of the table ----------------------------------------------------------------------------------------- */

/* The attribute called `name`, from its place in `names`: one number, or all from there on. */
static void put_attribute(Text *out, const KStmt *stmt, const char *names, const char *name, size_t length) {
	uint32_t at = 0;
	for (const char *c = names; *c; at++) {
		size_t n = strcspn(c, " ");
		bool list = n > 0 && c[n - 1] == '*';
		if (n - list == length && strncmp(c, name, length) == 0) {
			put_ints(out, list ? stmt->int_count - at : 1, stmt->ints + at);
			return;
		}
		c += n + (c[n] == ' ');
	}
}

static void put_field(Printer *pr, Text *out, StmtId s, const char *field, size_t length, bool postfix) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const KValue *result = stmt->result == NONE ? NULL : &pr->k->values.at[stmt->result];
	if (length == 1 && is_digit(*field)) {
		PyExpr e = arg_expr(pr, s, (uint32_t)(*field - '0'));
		text_put(out, postfix ? in_parens(pr, e, PREC_ATOM) : e.text);
	} else if (result && length == 5 && strncmp(field, "shape", 5) == 0) {
		text_put(out, shape_text(pr, result->rank, result->shape));
	} else if (result && length == 5 && strncmp(field, "dtype", 5) == 0) {
		text_put(out, dtype_jnp(result->dtype));
	} else {
		put_attribute(out, stmt, kernel_op_row(stmt->op)->attributes, field, length);
	}
}

static PyExpr row_expr(Printer *pr, StmtId s, const char *text) {
	Text out;
	text_init(&out, pr->a);
	if (strcmp(text, "{0}") == 0)
		return arg_expr(pr, s, 0);
	if (*text == '_')
		helper_named(pr, arena_printf(pr->a, "%.*s", (int)strcspn(text, "("), text));
	for (const char *c = text; *c;) {
		size_t plain = strcspn(c, "{");
		text_putn(&out, c, plain);
		c += plain;
		if (!*c)
			break;
		size_t length = strcspn(c + 1, "}");
		put_field(pr, &out, s, c + 1, length, c == text && (c[length + 2] == '.' || c[length + 2] == '['));
		c += length + 2;
	}
	return py_atom(out.at);
}

/* ---- texts of their own ----------------------------------------------------------------------------------------- */

static PyExpr index_expr(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char *x = in_parens(pr, arg_expr(pr, s, 0), PREC_ATOM);
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i + 2 < stmt->int_count; i += 3) {
		const int64_t *item = &stmt->ints[i];
		text_put(&out, i ? ", " : "");
		switch ((KItem)item[0]) {
		case K_ITEM_NEW: text_put(&out, "None"); break;
		case K_ITEM_ALL: text_put(&out, ":"); break;
		case K_ITEM_AT: text_printf(&out, "%lld", (long long)item[1]); break;
		case K_ITEM_REST: text_put(&out, "..."); break;
		case K_ITEM_RANGE: text_printf(&out, "%lld:%lld", (long long)item[1], (long long)item[2]); break;
		case K_ITEM_FIRST: text_printf(&out, ":%lld", (long long)item[2]); break;
		}
	}
	return py_atom(arena_printf(pr->a, "%s[%s]", x, out.at ? out.at : ""));
}

static PyExpr strided_expr(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char *x = in_parens(pr, arg_expr(pr, s, 0), PREC_ATOM);
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i + 2 < stmt->int_count; i += 3) {
		text_printf(&out, i ? ", %lld:%lld" : "%lld:%lld", (long long)stmt->ints[i],
		            (long long)stmt->ints[i + 1]);
		if (stmt->ints[i + 2] != 1)
			text_printf(&out, ":%lld", (long long)stmt->ints[i + 2]);
	}
	return py_atom(arena_printf(pr->a, "%s[%s]", x, out.at ? out.at : ""));
}

static PyExpr joined_expr(Printer *pr, StmtId s, const char *function) {
	return py_atom(arena_printf(pr->a, "%s([%s], axis=%lld)", function, args_text(pr, s),
	                            (long long)kernel_stmt(pr->k, s)->ints[0]));
}

static PyExpr pad_expr(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char *items[KDIM_MAX];
	for (uint32_t i = 0; i < stmt->int_count / 2; i++)
		items[i] = arena_printf(pr->a, "(%lld, %lld)", (long long)stmt->ints[(size_t)2 * i],
		                        (long long)stmt->ints[(size_t)2 * i + 1]);
	return py_atom(arena_printf(pr->a, "jnp.pad(%s, (%s), constant_values=%s)", arg_expr(pr, s, 0).text,
	                            list_text(pr, stmt->int_count / 2, items), arg_expr(pr, s, 1).text));
}

static PyExpr roll_expr(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char *by[KDIM_MAX], *along[KDIM_MAX], *x = arg_expr(pr, s, 0).text;
	uint32_t count = stmt->int_count / 2;
	for (uint32_t i = 0; i < count; i++) {
		by[i] = arena_printf(pr->a, "%lld", (long long)stmt->ints[(size_t)2 * i]);
		along[i] = arena_printf(pr->a, "%lld", (long long)stmt->ints[(size_t)2 * i + 1]);
	}
	if (count == 1)
		return py_atom(arena_printf(pr->a, "jnp.roll(%s, %s, axis=%s)", x, by[0], along[0]));
	return py_atom(arena_printf(pr->a, "jnp.roll(%s, (%s), axis=(%s))", x, list_text(pr, count, by),
	                            list_text(pr, count, along)));
}

static PyExpr every_expr(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const KValue *x = &pr->k->values.at[stmt->result];
	int64_t axis = stmt->ints[3], rank = x->rank;
	const char *name = axis + 1 == rank ? "_every_lane" : axis + 2 == rank ? "_every_row" : "_every";
	const char *place = axis + 2 < rank ? arena_printf(pr->a, ", axis=%lld", (long long)axis) : "";
	return py_atom(arena_printf(pr->a, "%s(%s, %lld, %lld, %lld%s)", helper_named(pr, name),
	                            arg_expr(pr, s, 0).text, (long long)stmt->ints[0], (long long)stmt->ints[1],
	                            (long long)stmt->ints[2], place));
}

static PyExpr reduce_expr(Printer *pr, StmtId s) {
	static const char *const functions[] = {"jnp.sum", "jnp.mean", "jnp.max", "jnp.min", "_prod"};
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char *function = helper_named(pr, functions[stmt->op - K_SUM]), *x = arg_expr(pr, s, 0).text;
	const char *items[KDIM_MAX];
	uint32_t count = stmt->int_count - 1;
	for (uint32_t i = 0; i < count; i++)
		items[i] = arena_printf(pr->a, "%lld", (long long)stmt->ints[i + 1]);
	const char *keep = stmt->ints[0] ? ", keepdims=True" : "";
	if (count == 0)
		return py_atom(arena_printf(pr->a, "%s(%s%s)", function, x, keep));
	const char *axis = count == 1 ? items[0] : arena_printf(pr->a, "(%s)", list_text(pr, count, items));
	return py_atom(arena_printf(pr->a, "%s(%s, axis=%s%s)", function, x, axis, keep));
}

static PyExpr dot_expr(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	bool batch = pr->k->values.at[stmt->result].rank == 3;
	const char *a = arg_expr(pr, s, 0).text, *b = arg_expr(pr, s, 1).text;
	const char *dims =
		arena_printf(pr->a, batch ? "(((%lld,), (%lld,)), ((0,), (0,)))" : "(((%lld,), (%lld,)), ((), ()))",
	                     (long long)stmt->ints[0], (long long)stmt->ints[1]);
	return py_atom(arena_printf(pr->a, "jax.lax.dot_general(%s, %s, %s%s, preferred_element_type=%s)", a, b, dims,
	                            stmt->ints[2] ? ", precision=jax.lax.Precision.HIGHEST" : "",
	                            dtype_jnp(pr->k->values.at[stmt->result].dtype)));
}

static PyExpr load_expr(Printer *pr, StmtId s) {
	const KRef *ref = &pr->k->refs.at[kernel_arg(pr->k, s, 0)->ref];
	const KDim *part = ref_part(ref);
	const char *text = ref_text(pr, ref);
	return py_atom(part ? arena_printf(pr->a, "%slambda part: %s)", part_text(pr, part), text) : text);
}

static PyExpr call_expr(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const KFunction *f = &pr->k->functions.at[stmt->function];
	const char **items = arena_array(pr->a, stmt->arg_count + 1, sizeof *items);
	uint32_t count = 0;
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		const KParameter *to = i < f->parameters.count ? &f->parameters.at[i] : NULL;
		const KArg *arg = kernel_arg(pr->k, s, i);
		if (!to || to->kind != PARAMETER_FLAG)
			items[count++] = arg_expr(pr, s, i).text;
		else if (arg->kind != KARG_NONE) /* set by its own name, or to what another flag is */
			items[count++] = arena_printf(
				pr->a, "%s=%s", pr->k->values.at[to->id].var,
				arg->kind == KARG_VALUE && arg->value == to->id ? "True" : arg_expr(pr, s, i).text);
	}
	return py_atom(arena_printf(pr->a, "%s(%s)", f->var, list_text(pr, count, items)));
}

/* A device by its place along the kernel's axis: the caller's mesh may have others. */
static const char *device_text(Printer *pr, StmtId s, uint32_t i) {
	return arena_printf(pr->a, "device_id={\"%s\": %s}", pr->k->mesh_axis, arg_expr(pr, s, i).text);
}

static PyExpr remote_expr(Printer *pr, StmtId s) {
	const char *from = arg_expr(pr, s, 0).text, *to = arg_expr(pr, s, 1).text;
	const char *there = arg_expr(pr, s, 2).text, *here = arg_expr(pr, s, 3).text;
	return py_atom(arena_printf(pr->a, "pltpu.make_async_remote_copy(%s, %s, send_sem=%s, recv_sem=%s, %s)", from,
	                            to, here, there, device_text(pr, s, 4)));
}

static PyExpr signal_expr(Printer *pr, StmtId s) {
	bool far = kernel_stmt(pr->k, s)->arg_count > 2 && kernel_arg(pr->k, s, 2)->kind != KARG_NONE;
	const char *to = far ? arena_printf(pr->a, ", %s", device_text(pr, s, 2)) : "";
	return py_atom(arena_printf(pr->a, "pltpu.semaphore_signal(%s, inc=%s%s)", arg_expr(pr, s, 0).text,
	                            arg_expr(pr, s, 1).text, to));
}

static PyExpr pointwise_expr(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	PyExpr operands[PARAMS_MAX] = {{0}};
	uint32_t count = stmt->arg_count < PARAMS_MAX ? stmt->arg_count : PARAMS_MAX;
	for (uint32_t i = 0; i < count; i++)
		operands[i] = arg_expr(pr, s, i);
	return row_text(pr, op_row(stmt->op), operands, count);
}

PyExpr print_expr(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	if (stmt->op < OP_COUNT)
		return pointwise_expr(pr, s);
	if (stmt->op == K_ZEROS || stmt->op == K_ONES || stmt->op == K_FULL)
		print_comment(pr, stmt->from);
	const char *text = kernel_op_row(stmt->op)->python;
	if (text)
		return row_expr(pr, s, text);
	switch (stmt->op) {
	case K_INDEX: return index_expr(pr, s);
	case K_STRIDED: return strided_expr(pr, s);
	case K_CONCATENATE: return joined_expr(pr, s, "jnp.concatenate");
	case K_STACK: return joined_expr(pr, s, "jnp.stack");
	case K_PAD: return pad_expr(pr, s);
	case K_ROLL: return roll_expr(pr, s);
	case K_EVERY: return every_expr(pr, s);
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: return reduce_expr(pr, s);
	case K_DOT: return dot_expr(pr, s);
	case K_LOAD: return load_expr(pr, s);
	case K_CALL: return call_expr(pr, s);
	case K_REMOTE_COPY: return remote_expr(pr, s);
	case K_SIGNAL: return signal_expr(pr, s);
	case K_DEVICE_ID: return py_atom(arena_printf(pr->a, "jax.lax.axis_index(\"%s\")", pr->k->mesh_axis));
	default: return py_atom("None");
	}
}
