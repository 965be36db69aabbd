/* kernel_read_parts.c - reading what statements and signatures are made of: integer expressions, references,
 * arguments, types. */
#include "kernel_reader.h"
#include "kernel_writer.h"

#include <math.h>

/* ---- integers --------------------------------------------------------------------------------------------------- */

/* An expression and how deep it is as a tree: who walks it recurses. */
typedef struct Tree {
	IntId id;
	int depth;
} Tree;

typedef struct IntOperator {
	const char *sign;
	IntKind kind;
	int level;
} IntOperator;

enum { LEVEL_COMPARE, LEVEL_AND, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_UNARY };

static const IntOperator operators[] = {
	{"&", INT_AND, LEVEL_AND},     {"==", INT_EQ, LEVEL_COMPARE}, {"<", INT_LT, LEVEL_COMPARE},
	{"<=", INT_LE, LEVEL_COMPARE}, {">", INT_GT, LEVEL_COMPARE},  {">=", INT_GE, LEVEL_COMPARE},
	{"+", INT_ADD, LEVEL_SUM},     {"-", INT_SUB, LEVEL_SUM},     {"*", INT_MUL, LEVEL_PRODUCT},
	{NULL, INT_CONST, 0},
};

static const struct {
	const char *name;
	IntKind kind;
} functions[] = {{"div", INT_DIV},     {"rem", INT_REM},       {"cdiv", INT_CDIV}, {"min", INT_MIN},
                 {"max", INT_MAX},     {"choose", INT_CHOOSE}, {"turn", INT_TURN}, {"device", INT_DEVICE},
                 {"first", INT_FIRST}, {"later", INT_LATER},   {NULL, INT_CONST}};

static Tree tree_at(KReader *r, int level, int nesting);

static Tree leaf(IntId id) { return (Tree){id, 1}; }

static Tree joined(KReader *r, IntKind kind, Tree a, Tree b) {
	IntId both = kind == INT_NEG ? int_binary(r->k, kind, a.id, NONE) : int_unfolded(r->k, kind, a.id, b.id);
	Tree t = {both, 1 + (a.depth > b.depth ? a.depth : b.depth)};
	if (t.depth > READ_INT_DEPTH) {
		Token at = r->token;
		kread_error(r, &at, "kernel-depth", "give a part of it a name: `name = int (...) : int`",
		            "the expression is more than %d operations deep", READ_INT_DEPTH);
	}
	return r->failed ? leaf(int_const(r->k, 0)) : t;
}

/* Of a grid dim, which is told by its number. */
static Tree first_tree(KReader *r, IntKind kind, IntId dim) {
	int64_t number;
	if (int_is_const(r->k, dim, &number) && number >= 0 && number < r->k->grid.count)
		return leaf((kind == INT_FIRST ? int_first : int_later)(r->k, (uint32_t)number));
	Token at = r->token;
	kread_error(r, &at, "kernel-range", "count the grid's dims from 0", "%s() takes the number of a grid dim",
	            kind == INT_FIRST ? "first" : "later");
	return leaf(int_const(r->k, 0));
}

static Tree call_tree(KReader *r, IntKind kind, int nesting) {
	Tree x[3];
	int count = kind == INT_CHOOSE || kind == INT_TURN ? 3 : kind == INT_DEVICE ? 0 : int_kind_of_dim(kind) ? 1 : 2;
	kread_token(r);
	kread_expect(r, "(");
	for (int i = 0; i < count; i++) {
		if (i)
			kread_expect(r, ",");
		x[i] = tree_at(r, LEVEL_COMPARE, nesting + 1);
	}
	kread_expect(r, ")");
	if (count == 0)
		return leaf(int_device(r->k));
	if (count == 1)
		return first_tree(r, kind, x[0].id);
	if (count == 2)
		return joined(r, kind, x[0], x[1]);
	Tree all = {kind == INT_CHOOSE ? int_choose(r->k, x[0].id, x[1].id, x[2].id)
	                               : int_turn(r->k, x[0].id, x[1].id, x[2].id),
	            1};
	for (int i = 0; i < 3; i++)
		all.depth = x[i].depth + 1 > all.depth ? x[i].depth + 1 : all.depth;
	return all;
}

static RefId kread_ref(KReader *r);

/* An element of a table, which an index map or a window reads. */
static Tree element(KReader *r) {
	IntId index[KDIM_MAX];
	Token at = r->token;
	RefId id = kread_ref(r);
	if (r->failed || !r->in_index) {
		kread_error(r, &at, "kernel-syntax", "load the element with a statement: `name = load table[i] : int`",
		            "only the `at` of an operand or a window may read an element within an expression");
		return leaf(int_const(r->k, 0));
	}
	const KRef *ref = &r->k->refs.at[id];
	bool single = ref->rank == r->k->buffers.at[ref->buffer].rank;
	for (uint32_t d = 0; d < ref->rank; d++) {
		single = single && ref->dim[d].kind == KDIM_AT;
		index[d] = ref->dim[d].start;
	}
	if (!single) {
		kread_error(r, &at, "kernel-bounds", "give a position for each dim", "it is not one element of %s",
		            r->k->buffers.at[ref->buffer].name);
		return leaf(int_const(r->k, 0));
	}
	return leaf(int_element(r->k, ref->buffer, index));
}

static Tree named_tree(KReader *r, int nesting) {
	bool call = r->token.kind == TOKEN_NAME && kread_next_is(r, "(");
	for (int i = 0; call && functions[i].name; i++)
		if (kread_is(r, functions[i].name))
			return call_tree(r, functions[i].kind, nesting);
	if (!call && kread_next_is(r, "["))
		return element(r);
	uint32_t v = kread_known(r, ENTRY_VALUE);
	return leaf(v == NONE ? int_const(r->k, 0) : int_value(r->k, v));
}

static Tree number_tree(KReader *r, bool negative) {
	uint64_t number = r->token.number;
	if (!negative && number > INT64_MAX) {
		Token at = r->token;
		kread_error(r, &at, "kernel-number", NULL, "the number does not fit into 64 bits");
		return leaf(int_const(r->k, 0));
	}
	kread_token(r);
	return leaf(int_const(r->k, negative ? (int64_t)(0 - number) : (int64_t)number));
}

static Tree unary(KReader *r, int nesting) {
	if (nesting > READ_INT_DEPTH) {
		Token at = r->token;
		kread_error(r, &at, "kernel-depth", "give a part of it a name: `name = int (...) : int`",
		            "the expression is nested more than %d deep", READ_INT_DEPTH);
		return leaf(int_const(r->k, 0));
	}
	if (r->token.kind == TOKEN_INTEGER)
		return number_tree(r, false);
	if (kread_accept(r, "-")) {
		if (r->token.kind == TOKEN_INTEGER)
			return number_tree(r, true);
		Tree x = unary(r, nesting + 1);
		return joined(r, INT_NEG, x, x);
	}
	if (kread_accept(r, "(")) {
		Tree x = tree_at(r, LEVEL_COMPARE, nesting + 1);
		kread_expect(r, ")");
		return x;
	}
	if (r->token.kind == TOKEN_NAME || r->token.kind == TOKEN_NUMBERED || r->token.kind == TOKEN_STRING)
		return named_tree(r, nesting);
	kread_expected(r, "an integer expression");
	return leaf(int_const(r->k, 0));
}

static const IntOperator *operator_here(const KReader *r, int level) {
	for (const IntOperator *o = operators; o->sign; o++)
		if (o->level == level && kread_is(r, o->sign))
			return o;
	return NULL;
}

/* Operators of that level and those that bind more. Comparisons are not chained. */
static Tree tree_at(KReader *r, int level, int nesting) {
	if (level == LEVEL_UNARY)
		return unary(r, nesting);
	Tree x = tree_at(r, level + 1, nesting);
	for (const IntOperator *o; (o = operator_here(r, level)) != NULL;) {
		kread_token(r);
		Tree y = tree_at(r, level + 1, nesting);
		x = joined(r, o->kind, x, y);
		if (level == LEVEL_COMPARE)
			break;
	}
	return x;
}

IntId kread_int(KReader *r) { return tree_at(r, LEVEL_COMPARE, 0).id; }

uint32_t kread_int_list(KReader *r, IntId *ints, uint32_t room) {
	uint32_t count = 0;
	kread_expect(r, "(");
	while (!r->failed && !kread_is(r, ")")) {
		if (count)
			kread_expect(r, ",");
		if (count == room)
			kread_expected(r, "')'");
		else
			ints[count++] = kread_int(r);
	}
	kread_expect(r, ")");
	return count;
}

IntId *kread_ints(KReader *r, uint32_t count) {
	IntId *ints = arena_array(r->a, KDIM_MAX, sizeof *ints);
	Token at = r->token;
	uint32_t found = kread_int_list(r, ints, KDIM_MAX);
	if (!r->failed && found != count)
		kread_error(r, &at, "kernel-count", NULL, "there must be %u expressions, one for each dim, not %u",
		            count, found);
	return ints;
}

uint32_t kread_numbers(KReader *r, const char *open, const char *close, int64_t low, int64_t *numbers, uint32_t room) {
	uint32_t count = 0;
	kread_expect(r, open);
	while (!r->failed && !kread_is(r, close)) {
		if (count)
			kread_expect(r, ",");
		if (count == room)
			kread_expected(r, arena_printf(r->a, "'%s'", close));
		else
			numbers[count++] = kread_number(r, "a number", low, INT64_MAX);
	}
	kread_expect(r, close);
	return count;
}

/* ---- references ------------------------------------------------------------------------------------------------- */

static KDim kread_dim(KReader *r, int64_t whole) {
	KDim dim = {.kind = KDIM_ALL, .start = NONE, .size = whole};
	if (kread_accept(r, ":"))
		return dim;
	dim.kind = KDIM_AT;
	dim.size = 1;
	dim.start = kread_int(r);
	if (kread_accept(r, "by"))
		dim.multiple = kread_number(r, "what it is a multiple of", 1, INT64_MAX);
	if (kread_accept(r, "+:")) {
		dim.kind = KDIM_RANGE;
		dim.size = kread_number(r, "how many elements", 0, INT64_MAX);
	} else if (kread_accept(r, "*:")) {
		dim.kind = KDIM_PART;
		dim.size = kread_number(r, "how many elements", 0, INT64_MAX);
		kread_expect(r, "of");
		dim.parts = kread_number(r, "how many parts", 1, INT64_MAX);
	}
	return dim;
}

static RefId kread_part(KReader *r) {
	KDim dims[KDIM_MAX];
	uint32_t rank = 0;
	Token at = r->token;
	BufferId b = kread_known(r, ENTRY_BUFFER);
	if (r->failed)
		return NONE;
	kread_expect(r, "[");
	if (kread_accept(r, "...")) {
		kread_expect(r, "]");
		return kernel_ref(r->k, b, 0, NULL);
	}
	for (;;) {
		uint32_t has = r->k->buffers.at[b].rank;
		if (!r->failed && rank == has)
			kread_error(r, &at, "kernel-count", NULL, "'%s' has %u dim%s, the reference more", at.text, has,
			            has == 1 ? "" : "s");
		if (r->failed)
			return NONE;
		dims[rank] = kread_dim(r, r->k->buffers.at[b].shape[rank]);
		rank++;
		if (!kread_accept(r, ","))
			break;
	}
	kread_expect(r, "]");
	return kernel_ref(r->k, b, rank, dims);
}

/* `win[...] at (j + 1)`: a loop's window at another step than its own. */
static RefId kread_ref(KReader *r) {
	RefId ref = kread_part(r);
	if (r->failed || !kread_is(r, "at") || !kread_next_is(r, "("))
		return ref;
	kread_token(r);
	IntId at = NONE;
	kread_int_list(r, &at, 1);
	if (!r->failed)
		r->k->refs.at[ref].at = at;
	return ref;
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

static KArg kread_numeral(KReader *r) {
	bool negative = kread_accept(r, "-");
	if (r->token.kind == TOKEN_REAL) {
		double x = r->token.real;
		kread_token(r);
		return karg_real(negative ? -x : x);
	}
	if (negative && kread_accept(r, "inf"))
		return karg_real(-(double)INFINITY);
	Token at = r->token;
	uint64_t number = at.number;
	if (at.kind != TOKEN_INTEGER) {
		kread_expected(r, "a number");
		return karg_integer(0);
	}
	kread_token(r);
	if (!negative && number > INT64_MAX)
		kread_error(r, &at, "kernel-number", NULL, "the number does not fit into 64 bits");
	return karg_integer(r->failed ? 0 : negative ? (int64_t)(0 - number) : (int64_t)number);
}

static bool kread_constant(KReader *r, KArg *arg) {
	if (kread_accept(r, "_"))
		*arg = (KArg){.kind = KARG_NONE};
	else if (kread_accept(r, "true"))
		*arg = karg_bool(true);
	else if (kread_accept(r, "false"))
		*arg = karg_bool(false);
	else if (kread_accept(r, "inf"))
		*arg = karg_real((double)INFINITY);
	else if (kread_accept(r, "nan"))
		*arg = karg_real((double)NAN);
	else
		return false;
	return true;
}

KArg kread_arg(KReader *r) {
	KArg arg = {.kind = KARG_NONE};
	TokenKind kind = r->token.kind;
	if (kread_constant(r, &arg))
		return arg;
	if (kind == TOKEN_INTEGER || kind == TOKEN_REAL || kread_is(r, "-"))
		return kread_numeral(r);
	if (kread_accept(r, "(")) {
		arg = karg_int(kread_int(r));
		kread_expect(r, ")");
		return arg;
	}
	if (kind != TOKEN_NAME && kind != TOKEN_NUMBERED && kind != TOKEN_STRING) {
		kread_expected(r, "an argument");
		return arg;
	}
	if (kread_next_is(r, "[")) {
		RefId ref = kread_ref(r);
		return r->failed ? arg : karg_ref(ref);
	}
	ValueId v = kread_known(r, ENTRY_VALUE);
	return r->failed ? arg : karg_value(v);
}

/* An argument can start here; attributes and words cannot. */
static bool at_arg(KReader *r) {
	TokenKind kind = r->token.kind;
	if (kind == TOKEN_NAME)
		return !kread_next_is(r, "=");
	return kind == TOKEN_INTEGER || kind == TOKEN_REAL || kind == TOKEN_NUMBERED || kind == TOKEN_STRING ||
	       kread_is(r, "(") || kread_is(r, "-");
}

void kread_args(KReader *r, ArgList *args) {
	if (!at_arg(r))
		return;
	do {
		KArg arg = kread_arg(r);
		vec_push(r->a, args, arg);
	} while (kread_accept(r, ","));
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

enum { ELEMENTS_MAX_BITS = 53 };

Dtype kread_dtype(KReader *r) {
	Dtype t = r->token.kind == TOKEN_NAME ? dtype_find(r->token.text) : DTYPE_NONE;
	if (t == DTYPE_NONE)
		kread_expected(r, "a dtype");
	else
		kread_token(r);
	return t;
}

/* Of what is never asked for more than int64 holds. */
static uint32_t kread_shape(KReader *r, int64_t shape[KDIM_MAX]) {
	Token at = r->token;
	uint32_t rank = kread_numbers(r, "[", "]", 0, shape, KDIM_MAX);
	int64_t elements = 1;
	for (uint32_t d = 0; d < rank && !r->failed; d++)
		if (!checked_mul(elements, shape[d] ? shape[d] : 1, &elements) ||
		    elements > (int64_t)1 << ELEMENTS_MAX_BITS)
			kread_error(r, &at, "kernel-number", NULL, "the shape has more than 2**%d elements",
			            ELEMENTS_MAX_BITS);
	return r->failed ? 0 : rank;
}

static bool kread_plain_type(KReader *r, ReadType *type) {
	static const struct {
		const char *word;
		ReadType type;
	} words[] = {{"int", {.type = KTYPE_INT, .dtype = DTYPE_I32}},
	             {"flag", {.type = KTYPE_FLAG, .dtype = DTYPE_BOOL}},
	             {"copy", {.type = KTYPE_COPY, .dtype = DTYPE_NONE}},
	             {"queue", {.type = KTYPE_QUEUE, .dtype = DTYPE_NONE}},
	             {"semaphore", {.type = KTYPE_SCALAR, .dtype = DTYPE_NONE}}};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (kread_accept(r, words[i].word)) {
			*type = words[i].type;
			return true;
		}
	return false;
}

ReadType kread_type(KReader *r) {
	ReadType type = {.type = KTYPE_SCALAR};
	if (!kread_plain_type(r, &type)) {
		type.dtype = r->token.kind == TOKEN_NAME ? dtype_find(r->token.text) : DTYPE_NONE;
		if (type.dtype == DTYPE_NONE)
			kread_expected(r, "a type");
		else
			kread_token(r);
		type.type = kread_is(r, "[") ? KTYPE_TILE : KTYPE_SCALAR;
		type.rank = kread_is(r, "[") ? kread_shape(r, type.shape) : 0;
	}
	type.layout = type.rank ? LAYOUT_TILE : LAYOUT_SCALAR;
	for (int i = 0; klayout_words[i]; i++)
		if (kread_accept(r, klayout_words[i]))
			type.layout = (Layout)i;
	return type;
}

KBuffer kread_buffer_type(KReader *r, int64_t shape[KDIM_MAX]) {
	KBuffer b = {.dtype = DTYPE_NONE, .alias = NONE, .shape = shape};
	int space = -1;
	for (int i = 0; kspace_words[i] && space < 0; i++)
		if (kread_accept(r, kspace_words[i]))
			space = i;
	if (space < 0)
		kread_expected(r, "vmem, hbm, smem, prefetch, dma or regular");
	b.space = space < 0 ? KSPACE_VMEM : (KSpace)space;
	if (b.space != KSPACE_DMA && b.space != KSPACE_REGULAR)
		b.dtype = kread_dtype(r);
	b.rank = kread_shape(r, shape);
	return b;
}

/* ---- what is named ---------------------------------------------------------------------------------------------- */

Token kread_name(KReader *r) {
	Token name = r->token;
	if (name.kind == TOKEN_NUMBERED)
		kread_token(r);
	else
		name.text = kread_variable(r, "a name");
	return name;
}

const char *token_variable(const Token *name) { return name->kind == TOKEN_NUMBERED ? NULL : name->text; }

ValueId kread_new_value(KReader *r, const Token *name, const ReadType *type) {
	const char *var = token_variable(name);
	ValueId v = kernel_value(r->k, type->type, type->dtype, type->rank, type->shape, var ? var : "value");
	r->k->values.at[v].layout = type->layout;
	r->k->values.at[v].var = var;
	kscope_add(r, name->text, ENTRY_VALUE, v);
	return v;
}

BufferId kread_new_buffer(KReader *r, const Token *name, KBuffer b) {
	b.var = token_variable(name);
	b.name = b.var ? b.var : "buffer";
	BufferId id = kernel_buffer(r->k, b);
	kscope_add(r, name->text, ENTRY_BUFFER, id);
	return id;
}
