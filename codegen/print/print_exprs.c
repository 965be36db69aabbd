/* print_exprs.c - values as Python expressions: the texts of kernel_ops.def around their arguments. All is put where it
 * is to stand; what turns out to bind too loosely gets its parentheses then. */
#include "printer.h"

void put_parens(Text *out, size_t start, Precedence is, Precedence around) {
	if (is >= around)
		return;
	size_t length = out->length - start;
	text_more(out, 2);
	char *at = out->at + start;
	memmove(at + 1, at, length);
	at[0] = '(';
	at[length + 1] = ')';
}

static void put_comma(Text *out, bool wanted) {
	if (wanted)
		text_put(out, ", ");
}

void put_list(Text *out, uint32_t count, const char *const *items) {
	for (uint32_t i = 0; i < count; i++) {
		put_comma(out, i > 0);
		text_put(out, items[i]);
	}
}

static void put_ints(Text *out, uint32_t count, const int64_t *ints) {
	for (uint32_t i = 0; i < count; i++) {
		put_comma(out, i > 0);
		text_put_int(out, ints[i]);
	}
}

void put_shape(Text *out, uint32_t rank, const int64_t *shape) {
	text_put(out, "(");
	put_ints(out, rank, shape);
	if (rank == 1)
		text_put(out, ",");
	text_put(out, ")");
}

/* `, name` and the like before a number. */
static void put_number(Text *out, const char *before, int64_t number) {
	text_put(out, before);
	text_put_int(out, number);
}

/* ---- references ------------------------------------------------------------------------------------------------- */

const KDim *ref_part(const KRef *ref) {
	for (uint32_t i = 0; i < ref->rank; i++)
		if (ref->dim[i].kind == KDIM_PART)
			return &ref->dim[i];
	return NULL;
}

void put_part(Printer *pr, Text *out, const KDim *part) {
	text_put(out, helper_named(pr, "_part"));
	text_put(out, "(");
	put_int(pr, out, part->start);
	put_number(out, ", ", part->parts);
	text_put(out, ", ");
}

static void put_start(Printer *pr, Text *out, const KDim *d) {
	if (d->multiple)
		text_put(out, "pl.multiple_of(");
	put_int(pr, out, d->start);
	if (d->multiple) {
		put_number(out, ", ", d->multiple);
		text_put(out, ")");
	}
}

static void put_dim(Printer *pr, Text *out, const KDim *d) {
	if (d->kind == KDIM_ALL) {
		text_put(out, ":");
	} else if (d->kind == KDIM_PART) {
		text_put(out, "pl.ds(part");
		if (d->size != 1)
			put_number(out, " * ", d->size);
		put_number(out, ", ", d->size);
		text_put(out, ")");
	} else if (d->kind == KDIM_RANGE && slice_from(pr, d->start, d->size)) {
		text_put(out, slice_from(pr, d->start, d->size)->var);
	} else if (d->kind == KDIM_AT) {
		put_start(pr, out, d);
	} else {
		text_put(out, "pl.ds(");
		put_start(pr, out, d);
		put_number(out, ", ", d->size);
		text_put(out, ")");
	}
}

static void put_subscript(Printer *pr, Text *out, const KRef *ref) {
	text_put(out, ref->rank ? "[" : "[...");
	for (uint32_t i = 0; i < ref->rank; i++) {
		put_comma(out, i > 0);
		put_dim(pr, out, &ref->dim[i]);
	}
	text_put(out, "]");
}

void put_ref(Printer *pr, Text *out, const KRef *ref) {
	text_put(out, pr->k->buffers.at[ref->buffer].var);
	put_subscript(pr, out, ref);
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

static Precedence number(Text *out, const KArg *arg) {
	size_t start = out->length;
	if (arg->kind == KARG_REAL)
		py_put_float(out, arg->real);
	else if (arg->kind == KARG_BOOL)
		text_put(out, arg->boolean ? "True" : "False");
	else
		text_put_int(out, arg->integer);
	return out->at[start] == '-' ? PREC_UNARY : PREC_ATOM;
}

static Precedence put_value(Printer *pr, Text *out, ValueId v) {
	const KValue *x = &pr->k->values.at[v];
	if (x->var) {
		text_put(out, x->var);
		return PREC_ATOM;
	}
	const KStmt *def = kernel_stmt(pr->k, x->def);
	if (def->op != K_LAUNCH)
		return put_expr(pr, out, x->def);
	text_put(out, def->var);
	put_number(out, "[", v - def->result);
	text_put(out, "]");
	return PREC_ATOM;
}

Precedence put_arg(Printer *pr, Text *out, const KArg *arg) {
	switch (arg->kind) {
	case KARG_VALUE: return put_value(pr, out, arg->value);
	case KARG_INT: return put_int(pr, out, arg->index);
	case KARG_REF: {
		const KRef *ref = &pr->k->refs.at[arg->ref];
		text_put(out, pr->k->buffers.at[ref->buffer].var);
		if (ref->rank) {
			text_put(out, ".at");
			put_subscript(pr, out, ref);
		}
		return PREC_ATOM;
	}
	case KARG_NONE: text_put(out, "None"); return PREC_ATOM;
	default: return number(out, arg);
	}
}

void put_arg_in(Printer *pr, Text *out, const KArg *arg, Precedence around) {
	size_t start = out->length;
	put_parens(out, start, put_arg(pr, out, arg), around);
}

/* Argument i of a statement. */
static Precedence put_arg_of(Printer *pr, Text *out, StmtId s, uint32_t i) {
	KArg arg = *kernel_arg(pr->k, s, i);
	return put_arg(pr, out, &arg);
}

static void put_arg_of_in(Printer *pr, Text *out, StmtId s, uint32_t i, Precedence around) {
	KArg arg = *kernel_arg(pr->k, s, i);
	put_arg_in(pr, out, &arg, around);
}

void put_args(Printer *pr, Text *out, StmtId s, uint32_t first) {
	uint32_t count = kernel_stmt(pr->k, s)->arg_count;
	for (uint32_t i = first; i < count; i++) {
		put_comma(out, i > first);
		put_arg_of(pr, out, s, i);
	}
}

const char *arg_text(Printer *pr, StmtId s, uint32_t i) {
	Text out;
	text_init(&out, pr->a);
	put_arg_of(pr, &out, s, i);
	return out.at;
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
	if (length == 1 && is_digit(*field))
		put_arg_of_in(pr, out, s, (uint32_t)(*field - '0'), postfix ? PREC_ATOM : PREC_LOWEST);
	else if (result && length == 5 && strncmp(field, "shape", 5) == 0)
		put_shape(out, result->rank, result->shape);
	else if (result && length == 5 && strncmp(field, "dtype", 5) == 0)
		text_put(out, dtype_jnp(result->dtype));
	else
		put_attribute(out, stmt, kernel_op_row(stmt->op)->attributes, field, length);
}

static Precedence row_expr(Printer *pr, Text *out, StmtId s, const char *text) {
	if (strcmp(text, "{0}") == 0)
		return put_arg_of(pr, out, s, 0);
	if (*text == '_')
		helper_named(pr, arena_printf(pr->a, "%.*s", (int)strcspn(text, "("), text));
	for (const char *c = text; *c;) {
		size_t plain = strcspn(c, "{");
		text_putn(out, c, plain);
		c += plain;
		if (!*c)
			break;
		size_t length = strcspn(c + 1, "}");
		put_field(pr, out, s, c + 1, length, c == text && (c[length + 2] == '.' || c[length + 2] == '['));
		c += length + 2;
	}
	return PREC_ATOM;
}

/* ---- texts of their own ----------------------------------------------------------------------------------------- */

static void put_index(Printer *pr, Text *out, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	put_arg_of_in(pr, out, s, 0, PREC_ATOM);
	text_put(out, "[");
	for (uint32_t i = 0; i + 2 < stmt->int_count; i += 3) {
		const int64_t *item = &stmt->ints[i];
		put_comma(out, i > 0);
		switch ((KItem)item[0]) {
		case K_ITEM_NEW: text_put(out, "None"); break;
		case K_ITEM_ALL: text_put(out, ":"); break;
		case K_ITEM_AT: text_put_int(out, item[1]); break;
		case K_ITEM_REST: text_put(out, "..."); break;
		case K_ITEM_RANGE:
			text_put_int(out, item[1]);
			put_number(out, ":", item[2]);
			break;
		case K_ITEM_FIRST: put_number(out, ":", item[2]); break;
		}
	}
	text_put(out, "]");
}

static void put_strided(Printer *pr, Text *out, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	put_arg_of_in(pr, out, s, 0, PREC_ATOM);
	text_put(out, "[");
	for (uint32_t i = 0; i + 2 < stmt->int_count; i += 3) {
		put_comma(out, i > 0);
		text_put_int(out, stmt->ints[i]);
		put_number(out, ":", stmt->ints[i + 1]);
		if (stmt->ints[i + 2] != 1)
			put_number(out, ":", stmt->ints[i + 2]);
	}
	text_put(out, "]");
}

static void put_joined(Printer *pr, Text *out, StmtId s, const char *function) {
	text_put(out, function);
	put_args(pr, out, s, 0);
	put_number(out, "], axis=", kernel_stmt(pr->k, s)->ints[0]);
	text_put(out, ")");
}

static void put_pad(Printer *pr, Text *out, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	text_put(out, "jnp.pad(");
	put_arg_of(pr, out, s, 0);
	text_put(out, ", (");
	for (uint32_t i = 0; i + 1 < stmt->int_count; i += 2) {
		put_comma(out, i > 0);
		put_shape(out, 2, &stmt->ints[i]);
	}
	text_put(out, "), constant_values=");
	put_arg_of(pr, out, s, 1);
	text_put(out, ")");
}

/* Each second number from `first` on; one alone stands without parentheses. */
static void put_seconds(Text *out, const KStmt *stmt, uint32_t first) {
	bool several = stmt->int_count > 2;
	text_put(out, several ? "(" : "");
	for (uint32_t i = first; i < stmt->int_count; i += 2) {
		put_comma(out, i > first);
		text_put_int(out, stmt->ints[i]);
	}
	text_put(out, several ? ")" : "");
}

static void put_roll(Printer *pr, Text *out, StmtId s) {
	text_put(out, "jnp.roll(");
	put_arg_of(pr, out, s, 0);
	text_put(out, ", ");
	put_seconds(out, kernel_stmt(pr->k, s), 0);
	text_put(out, ", axis=");
	put_seconds(out, kernel_stmt(pr->k, s), 1);
	text_put(out, ")");
}

static void put_every(Printer *pr, Text *out, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const KValue *x = &pr->k->values.at[stmt->result];
	int64_t axis = stmt->ints[3], rank = x->rank;
	const char *name = axis + 1 == rank ? "_every_lane" : axis + 2 == rank ? "_every_row" : "_every";
	text_put(out, helper_named(pr, name));
	text_put(out, "(");
	put_arg_of(pr, out, s, 0);
	text_put(out, ", ");
	put_ints(out, 3, stmt->ints);
	if (axis + 2 < rank)
		put_number(out, ", axis=", axis);
	text_put(out, ")");
}

static void put_reduce(Printer *pr, Text *out, StmtId s) {
	static const char *const functions[] = {"jnp.sum", "jnp.mean", "jnp.max", "jnp.min", "_prod"};
	const KStmt *stmt = kernel_stmt(pr->k, s);
	uint32_t count = stmt->int_count - 1;
	text_put(out, helper_named(pr, functions[stmt->op - K_SUM]));
	text_put(out, "(");
	put_arg_of(pr, out, s, 0);
	if (count > 0) {
		text_put(out, count == 1 ? ", axis=" : ", axis=(");
		put_ints(out, count, stmt->ints + 1);
		text_put(out, count == 1 ? "" : ")");
	}
	text_put(out, stmt->ints[0] ? ", keepdims=True)" : ")");
}

/* Of two dims, not transposed, in float32. */
static void put_narrow_dot(Printer *pr, Text *out, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	text_put(out, helper_named(pr, "_narrow_dot"));
	text_put(out, "(");
	put_arg_of(pr, out, s, 0);
	text_put(out, ", ");
	put_arg_of(pr, out, s, 1);
	text_put(out, stmt->int_count > 4 ? ", (0, 1))" : stmt->ints[3] ? ", (1,))" : ", (0,))");
}

static void put_dot(Printer *pr, Text *out, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	if (stmt->int_count > 3) {
		put_narrow_dot(pr, out, s);
		return;
	}
	bool batch = pr->k->values.at[stmt->result].rank == 3;
	text_put(out, "jax.lax.dot_general(");
	put_arg_of(pr, out, s, 0);
	text_put(out, ", ");
	put_arg_of(pr, out, s, 1);
	put_number(out, ", (((", stmt->ints[0]);
	put_number(out, ",), (", stmt->ints[1]);
	text_put(out, batch ? ",)), ((0,), (0,)))" : ",)), ((), ()))");
	if (stmt->ints[2])
		text_put(out, ", precision=jax.lax.Precision.HIGHEST");
	text_put(out, ", preferred_element_type=");
	text_put(out, dtype_jnp(pr->k->values.at[stmt->result].dtype));
	text_put(out, ")");
}

static void put_load(Printer *pr, Text *out, StmtId s) {
	const KRef *ref = &pr->k->refs.at[kernel_arg(pr->k, s, 0)->ref];
	const KDim *part = ref_part(ref);
	if (part) {
		put_part(pr, out, part);
		text_put(out, "lambda part: ");
	}
	put_ref(pr, out, ref);
	if (part)
		text_put(out, ")");
}

static void put_call(Printer *pr, Text *out, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const KFunction *f = &pr->k->functions.at[stmt->function];
	bool any = false;
	text_put(out, f->var);
	text_put(out, "(");
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		const KParameter *to = i < f->parameters.count ? &f->parameters.at[i] : NULL;
		const KArg *arg = kernel_arg(pr->k, s, i);
		bool flag = to && to->kind == PARAMETER_FLAG;
		if (flag && arg->kind == KARG_NONE)
			continue;
		put_comma(out, any);
		any = true;
		if (flag) { /* set by its own name, or to what another flag is */
			text_put(out, pr->k->values.at[to->id].var);
			text_put(out, "=");
		}
		if (flag && arg->kind == KARG_VALUE && arg->value == to->id)
			text_put(out, "True");
		else
			put_arg_of(pr, out, s, i);
	}
	text_put(out, ")");
}

/* A device by its place along the kernel's axis: the caller's mesh may have others. */
static void put_device(Printer *pr, Text *out, StmtId s, uint32_t i) {
	text_printf(out, ", device_id={\"%s\": ", pr->k->mesh_axis);
	put_arg_of(pr, out, s, i);
	text_put(out, "}");
}

static void put_remote(Printer *pr, Text *out, StmtId s) {
	text_put(out, "pltpu.make_async_remote_copy(");
	put_arg_of(pr, out, s, 0);
	text_put(out, ", ");
	put_arg_of(pr, out, s, 1);
	text_put(out, ", send_sem=");
	put_arg_of(pr, out, s, 3);
	text_put(out, ", recv_sem=");
	put_arg_of(pr, out, s, 2);
	put_device(pr, out, s, 4);
	text_put(out, ")");
}

static void put_signal(Printer *pr, Text *out, StmtId s) {
	text_put(out, "pltpu.semaphore_signal(");
	put_arg_of(pr, out, s, 0);
	text_put(out, ", inc=");
	put_arg_of(pr, out, s, 1);
	if (kernel_stmt(pr->k, s)->arg_count > 2 && kernel_arg(pr->k, s, 2)->kind != KARG_NONE)
		put_device(pr, out, s, 2);
	text_put(out, ")");
}

/* jax.lax.psum(x, ("data", "model")) */
static void put_between_devices(Printer *pr, Text *out, StmtId s) {
	static const char *const functions[] = {"psum", "pmax", "pmin", "axis_index"};
	const KStmt *stmt = kernel_stmt(pr->k, s);
	text_printf(out, "jax.lax.%s(", functions[stmt->op - K_ALL_SUM]);
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		put_arg_of(pr, out, s, i);
		text_put(out, ", ");
	}
	text_put(out, stmt->int_count > 1 ? "(" : "");
	for (uint32_t i = 0; i < stmt->int_count; i++)
		text_printf(out, i ? ", \"%s\"" : "\"%s\"", pr->program->axes.at[stmt->ints[i]].name);
	text_put(out, stmt->int_count > 1 ? "))" : ")");
}

/* A call, a subscript, ...: all bind as tightly as can be. */
static void put_own(Printer *pr, Text *out, StmtId s) {
	switch (kernel_stmt(pr->k, s)->op) {
	case K_INDEX: put_index(pr, out, s); break;
	case K_STRIDED: put_strided(pr, out, s); break;
	case K_CONCATENATE: put_joined(pr, out, s, "jnp.concatenate(["); break;
	case K_STACK: put_joined(pr, out, s, "jnp.stack(["); break;
	case K_PAD: put_pad(pr, out, s); break;
	case K_ROLL: put_roll(pr, out, s); break;
	case K_EVERY: put_every(pr, out, s); break;
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: put_reduce(pr, out, s); break;
	case K_DOT: put_dot(pr, out, s); break;
	case K_LOAD: put_load(pr, out, s); break;
	case K_CALL: put_call(pr, out, s); break;
	case K_REMOTE_COPY: put_remote(pr, out, s); break;
	case K_SIGNAL: put_signal(pr, out, s); break;
	case K_ALL_SUM:
	case K_ALL_MAX:
	case K_ALL_MIN:
	case K_AXES_INDEX: put_between_devices(pr, out, s); break;
	case K_DEVICE_ID: text_printf(out, "jax.lax.axis_index(\"%s\")", pr->k->mesh_axis); break;
	default: text_put(out, "None"); break;
	}
}

Precedence put_expr(Printer *pr, Text *out, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	py_about(&pr->w, stmt->from);
	if (stmt->op < OP_COUNT)
		return put_pointwise(pr, out, s);
	if (stmt->op == K_ZEROS || stmt->op == K_ONES || stmt->op == K_FULL)
		print_comment(pr, stmt->from);
	const char *text = kernel_op_row(stmt->op)->python;
	if (text)
		return row_expr(pr, out, s, text);
	put_own(pr, out, s);
	return PREC_ATOM;
}
