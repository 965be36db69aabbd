/* kernel_text_parts.c - the words of kernel text: names, integer expressions, arguments, attributes, types. */
#include "kernel_writer.h"

const char *const kspace_words[] = {"vmem", "hbm", "smem", "prefetch", "dma", "regular", NULL};
const char *const klayout_words[] = {"tile", "row", "column", "scalar", NULL};

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* It would be read as something else, or is none: it stands in quotes. */
static bool needs_quotes(const char *name) {
	static const char *const words[] = {"_", "nan", "inf", "true", "false", NULL};
	if (!is_letter(*name))
		return true;
	for (const char *const *w = words; *w; w++)
		if (strcmp(name, *w) == 0)
			return true;
	while (is_letter(*name) || is_digit(*name))
		name++;
	return *name != '\0';
}

void ktext_name(KTextOut *t, const char *name) {
	if (!name)
		text_put(t->out, "_");
	else if (needs_quotes(name))
		text_put_json(t->out, name);
	else
		text_put(t->out, name);
}

/* Its variable, or a number that it has from now on. */
static void put_named(KTextOut *t, const char *var, uint32_t *number) {
	if (var) {
		ktext_name(t, var);
		return;
	}
	if (*number == NONE)
		*number = ++t->next_number;
	text_printf(t->out, "%%%u", *number);
}

void ktext_value(KTextOut *t, ValueId v) { put_named(t, t->k->values.at[v].var, &t->value_number[v]); }
void ktext_buffer(KTextOut *t, BufferId b) { put_named(t, t->k->buffers.at[b].var, &t->buffer_number[b]); }
void ktext_function(KTextOut *t, FunctionId f) { put_named(t, t->k->functions.at[f].var, &t->function_number[f]); }

/* ---- integers --------------------------------------------------------------------------------------------------- */

enum { LEVEL_COMPARE, LEVEL_AND, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_UNARY };

typedef struct IntForm {
	const char *text; /* an operator between spaces, or a function's name */
	int level;        /* of an operator; -1: a function */
} IntForm;

static IntForm int_form(IntKind kind) {
	switch (kind) {
	case INT_ADD: return (IntForm){" + ", LEVEL_SUM};
	case INT_SUB: return (IntForm){" - ", LEVEL_SUM};
	case INT_MUL: return (IntForm){" * ", LEVEL_PRODUCT};
	case INT_EQ: return (IntForm){" == ", LEVEL_COMPARE};
	case INT_LT: return (IntForm){" < ", LEVEL_COMPARE};
	case INT_LE: return (IntForm){" <= ", LEVEL_COMPARE};
	case INT_GT: return (IntForm){" > ", LEVEL_COMPARE};
	case INT_GE: return (IntForm){" >= ", LEVEL_COMPARE};
	case INT_AND: return (IntForm){" & ", LEVEL_AND};
	case INT_DIV: return (IntForm){"div", -1};
	case INT_REM: return (IntForm){"rem", -1};
	case INT_CDIV: return (IntForm){"cdiv", -1};
	case INT_MIN: return (IntForm){"min", -1};
	case INT_MAX: return (IntForm){"max", -1};
	case INT_CHOOSE: return (IntForm){"choose", -1};
	case INT_TURN: return (IntForm){"turn", -1};
	default: return (IntForm){"?", -1};
	}
}

static void put_int(KTextOut *t, IntId id, int level);

static void put_call(KTextOut *t, const char *name, const KInt *i) {
	text_printf(t->out, "%s(", name);
	put_int(t, i->a, LEVEL_COMPARE);
	text_put(t->out, ", ");
	put_int(t, i->b, LEVEL_COMPARE);
	if (i->c != NONE) {
		text_put(t->out, ", ");
		put_int(t, i->c, LEVEL_COMPARE);
	}
	text_put(t->out, ")");
}

/* An element that no statement loads stands in the expression that reads it. */
static void put_int_value(KTextOut *t, ValueId v) {
	RefId element = value_element(t->k, v);
	if (element != NONE)
		ktext_ref(t, element);
	else
		ktext_value(t, v);
}

/* In parentheses where it binds less than `level`. */
static void put_int(KTextOut *t, IntId id, int level) {
	const KInt *i = &t->k->ints.at[id];
	if (i->kind == INT_CONST) {
		text_printf(t->out, "%lld", (long long)i->number);
	} else if (i->kind == INT_VALUE) {
		put_int_value(t, i->value);
	} else if (i->kind == INT_DEVICE) {
		text_put(t->out, "device()");
	} else if (int_kind_of_dim(i->kind)) {
		text_printf(t->out, "%s(%lld)", i->kind == INT_FIRST ? "first" : "later", (long long)i->number);
	} else if (i->kind == INT_NEG) {
		text_put(t->out, "-");
		put_int(t, i->a, LEVEL_UNARY);
	} else {
		IntForm form = int_form(i->kind);
		if (form.level < 0) {
			put_call(t, form.text, i);
			return;
		}
		text_put(t->out, form.level < level ? "(" : "");
		bool compares = form.level == LEVEL_COMPARE; /* of `&` in parentheses: for people */
		put_int(t, i->a, compares ? LEVEL_SUM : form.level);
		text_put(t->out, form.text);
		put_int(t, i->b, compares ? LEVEL_SUM : form.level + 1);
		text_put(t->out, form.level < level ? ")" : "");
	}
}

void ktext_int(KTextOut *t, IntId i) { put_int(t, i, LEVEL_COMPARE); }

void ktext_ints(KTextOut *t, const IntId *ints, uint32_t count) {
	text_put(t->out, "(");
	for (uint32_t i = 0; i < count; i++) {
		text_put(t->out, i ? ", " : "");
		ktext_int(t, ints[i]);
	}
	text_put(t->out, ")");
}

void ktext_numbers(KTextOut *t, const char *open, const int64_t *numbers, uint32_t count, const char *close) {
	text_put(t->out, open);
	for (uint32_t i = 0; i < count; i++)
		text_printf(t->out, "%s%lld", i ? ", " : "", (long long)numbers[i]);
	text_put(t->out, close);
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

static void put_dim(KTextOut *t, const KDim *dim) {
	if (dim->kind == KDIM_ALL) {
		text_put(t->out, ":");
		return;
	}
	ktext_int(t, dim->start);
	if (dim->multiple)
		text_printf(t->out, " by %lld", (long long)dim->multiple);
	if (dim->kind == KDIM_RANGE)
		text_printf(t->out, " +: %lld", (long long)dim->size);
	if (dim->kind == KDIM_PART)
		text_printf(t->out, " *: %lld of %lld", (long long)dim->size, (long long)dim->parts);
}

void ktext_ref(KTextOut *t, RefId id) {
	const KRef *ref = &t->k->refs.at[id];
	ktext_buffer(t, ref->buffer);
	text_put(t->out, ref->rank ? "[" : "[...");
	for (uint32_t d = 0; d < ref->rank; d++) {
		text_put(t->out, d ? ", " : "");
		put_dim(t, &ref->dim[d]);
	}
	text_put(t->out, "]");
	if (ref->at != NONE) {
		text_put(t->out, " at ");
		ktext_ints(t, &ref->at, 1);
	}
}

/* Infinities and NaN have names; a NaN has no sign here. */
static void put_real(KTextOut *t, double x) {
	if (x != x)
		text_put(t->out, "nan");
	else if (x - x != 0)
		text_put(t->out, x < 0 ? "-inf" : "inf");
	else
		text_put_double(t->out, x);
}

void ktext_arg(KTextOut *t, const KArg *arg) {
	switch (arg->kind) {
	case KARG_NONE: text_put(t->out, "_"); break;
	case KARG_VALUE: ktext_value(t, arg->value); break;
	case KARG_INTEGER: text_printf(t->out, "%lld", (long long)arg->integer); break;
	case KARG_REAL: put_real(t, arg->real); break;
	case KARG_BOOL: text_put(t->out, arg->boolean ? "true" : "false"); break;
	case KARG_INT: ktext_ints(t, &arg->index, 1); break;
	case KARG_REF: ktext_ref(t, arg->ref); break;
	}
}

void ktext_args(KTextOut *t, StmtId s, uint32_t first) {
	for (uint32_t i = first; i < kernel_stmt(t->k, s)->arg_count; i++) {
		text_put(t->out, i > first ? ", " : "");
		ktext_arg(t, kernel_arg(t->k, s, i));
	}
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

static void put_items(KTextOut *t, const KStmt *s) {
	text_put(t->out, " items=[");
	for (uint32_t i = 0; i + 2 < s->int_count; i += 3) {
		text_put(t->out, i ? ", " : "");
		switch ((KItem)s->ints[i]) {
		case K_ITEM_NEW: text_put(t->out, "None"); break;
		case K_ITEM_ALL: text_put(t->out, ":"); break;
		case K_ITEM_AT: text_printf(t->out, "%lld", (long long)s->ints[i + 1]); break;
		case K_ITEM_RANGE:
			text_printf(t->out, "%lld:%lld", (long long)s->ints[i + 1], (long long)s->ints[i + 2]);
			break;
		case K_ITEM_FIRST: text_printf(t->out, ":%lld", (long long)s->ints[i + 2]); break;
		case K_ITEM_REST: text_put(t->out, "..."); break;
		}
	}
	text_put(t->out, "]");
}

/* Those that the op's row names. */
void ktext_attributes(KTextOut *t, StmtId id) {
	const KStmt *s = kernel_stmt(t->k, id);
	const KOpRow *row = kernel_op_row(s->op);
	const char *at = row ? row->attributes : "";
	uint32_t i = 0;
	if (s->op == K_INDEX) {
		put_items(t, s);
		return;
	}
	while (*at) {
		size_t n = strcspn(at, " *");
		bool list = at[n] == '*';
		if (i == s->int_count) /* an empty list, or none */
			return;
		text_put(t->out, " ");
		text_putn(t->out, at, n);
		if (list) {
			ktext_numbers(t, "=(", s->ints + i, s->int_count - i, ")");
			return;
		}
		text_printf(t->out, "=%lld", (long long)s->ints[i++]);
		at += n + strspn(at + n, " ");
	}
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

void ktext_array(KTextOut *t, Dtype dtype, uint32_t rank, const int64_t *shape) {
	text_put(t->out, dtype < DTYPE_COUNT ? dtype_name(dtype) : "");
	ktext_numbers(t, "[", shape, rank, "]");
}

/* Of a number without a dtype, and without dims: a semaphore that a statement gives. */
static void put_scalar(KTextOut *t, const KValue *v) {
	text_put(t->out, v->dtype < DTYPE_COUNT ? dtype_name(v->dtype) : "semaphore");
}

void ktext_type(KTextOut *t, ValueId id) {
	const KValue *v = &t->k->values.at[id];
	switch (v->type) {
	case KTYPE_TILE: ktext_array(t, v->dtype, v->rank, v->shape); break;
	case KTYPE_SCALAR: put_scalar(t, v); break;
	case KTYPE_INT: text_put(t->out, "int"); break;
	case KTYPE_FLAG: text_put(t->out, "flag"); break;
	case KTYPE_COPY: text_put(t->out, "copy"); break;
	case KTYPE_QUEUE: text_put(t->out, "queue"); break;
	}
	Layout usual = v->type == KTYPE_TILE && v->rank ? LAYOUT_TILE : LAYOUT_SCALAR;
	if (v->layout != usual)
		text_printf(t->out, " %s", klayout_words[v->layout]);
}

void ktext_buffer_type(KTextOut *t, const KBuffer *b) {
	text_printf(t->out, "%s ", kspace_words[b->space]);
	ktext_array(t, b->space == KSPACE_DMA || b->space == KSPACE_REGULAR ? DTYPE_NONE : b->dtype, b->rank, b->shape);
}
