/* work.c - a statement as operations on vector registers, by unit. */
#include "core.h"

typedef struct Expansion {
	uint16_t op;
	double valu, eup, wide_valu, wide_eup;
} Expansion;

static const Expansion expansions[] = {
#define EXPANSION(op, ...) {op, __VA_ARGS__},
#define CONVERSION(...)
#include "expansions.def"
#undef EXPANSION
#undef CONVERSION
};

typedef struct Conversion {
	Dtype from, to;
	double valu, narrow_valu, wide_valu;
} Conversion;

static const Conversion conversions[] = {
#define EXPANSION(...)
#define CONVERSION(from, to, ...) {DTYPE_##from, DTYPE_##to, __VA_ARGS__},
#include "expansions.def"
#undef EXPANSION
#undef CONVERSION
};

/* ---- registers -------------------------------------------------------------------------------------------------- */

double array_registers(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape) {
	return rank ? (double)register_bytes(t, dtype, rank, shape) / (double)target_registers_bytes(t, 1) : 0;
}

static bool is_tile(const KValue *v) { return v->type == KTYPE_TILE && v->rank > 0; }

static double registers_as(const Core *c, ValueId v, Dtype dtype) {
	const KValue *x = &c->k->values.at[v];
	return is_tile(x) ? array_registers(c->t, dtype, x->rank, x->shape) : 0;
}

double value_registers(const Core *c, ValueId v) { return registers_as(c, v, c->k->values.at[v].dtype); }

static ValueId operand(const Core *c, const KStmt *s, uint32_t i) {
	const KArg *a = i < s->arg_count ? &c->k->args.at[s->arg_first + i] : NULL;
	return a && a->kind == KARG_VALUE ? a->value : NONE;
}

static const KValue *tile_operand(const Core *c, const KStmt *s, uint32_t i) {
	ValueId v = operand(c, s, i);
	return v != NONE && is_tile(&c->k->values.at[v]) ? &c->k->values.at[v] : NULL;
}

static double operand_registers(const Core *c, const KStmt *s, uint32_t i) {
	ValueId v = operand(c, s, i);
	return v == NONE ? 0 : value_registers(c, v);
}

static double result_registers(const Core *c, const KStmt *s) {
	return s->result == NONE ? 0 : value_registers(c, s->result);
}

/* Of the widest value that it reads or gives: a bool has as many registers as what it was compared of. */
static double lanes_registers(const Core *c, const KStmt *s) {
	double most = 0;
	Dtype dtype = DTYPE_BOOL;
	for (uint32_t i = 0; i < s->arg_count; i++) {
		const KValue *x = tile_operand(c, s, i);
		if (x && x->dtype != DTYPE_BOOL)
			dtype = x->dtype;
	}
	for (uint32_t i = 0; i < s->arg_count; i++) {
		const KValue *x = tile_operand(c, s, i);
		double n = x ? registers_as(c, operand(c, s, i), x->dtype == DTYPE_BOOL ? dtype : x->dtype) : 0;
		most = n > most ? n : most;
	}
	Dtype gives = s->result == NONE ? dtype : c->k->values.at[s->result].dtype;
	double n = s->result == NONE ? 0 : registers_as(c, s->result, gives == DTYPE_BOOL ? dtype : gives);
	return n > most ? n : most;
}

static int64_t last_of(const KValue *v) { return v->rank ? v->shape[v->rank - 1] : 1; }
static int64_t rows_of_value(const KValue *v) { return v->rank > 1 ? v->shape[v->rank - 2] : 1; }

/* ---- ops -------------------------------------------------------------------------------------------------------- */

static void pointwise(const Core *c, const KStmt *s, Work *w) {
	double n = lanes_registers(c, s);
	const KArg *last = s->arg_count ? &c->k->args.at[s->arg_first + s->arg_count - 1] : NULL;
	w->of[UNIT_SCALAR] += n > 0 ? 0 : 1;
	if (s->op == OP_POW && last && last->kind != KARG_VALUE) { /* a few products */
		w->of[UNIT_VALU] += 3 * n;
		return;
	}
	if (s->op == OP_MAXIMUM || s->op == OP_MINIMUM) /* of ints a comparison and a selection */
		n *= s->result != NONE && !dtype_is_float(c->k->values.at[s->result].dtype) ? 2 : 1;
	for (uint32_t i = 0; i < sizeof expansions / sizeof *expansions; i++) {
		const Expansion *e = &expansions[i];
		if (e->op != s->op)
			continue;
		double eup = c->t->bf16_vpu ? e->eup : e->wide_eup;
		w->of[UNIT_VALU] += n * (c->t->bf16_vpu ? e->valu : e->wide_valu);
		w->of[UNIT_EUP] += n * eup;
		w->of[UNIT_POP] += n * eup;
		return;
	}
	w->of[UNIT_VALU] += n;
}

static bool only_views(Dtype from, Dtype to) {
	return dtype_vmem_bits(from) == dtype_vmem_bits(to) && !dtype_is_float(from) && !dtype_is_float(to) &&
	       from != DTYPE_BOOL;
}

static void convert(const Core *c, const KStmt *s, Work *w) {
	const KValue *from = tile_operand(c, s, 0), *to = &c->k->values.at[s->result];
	if (!from || from->dtype == to->dtype || only_views(from->dtype, to->dtype))
		return;
	double n = array_registers(c->t, DTYPE_F32, from->rank, from->shape), times = 1;
	for (uint32_t i = 0; i < sizeof conversions / sizeof *conversions; i++) {
		const Conversion *x = &conversions[i];
		if (x->from == from->dtype && x->to == to->dtype)
			times = !c->t->bf16_vpu ? x->wide_valu : c->t->narrow_nan ? x->narrow_valu : x->valu;
	}
	w->of[UNIT_VALU] += n * times;
}

bool reduces_lanes(const Kernel *k, StmtId stmt) {
	const KStmt *s = &k->stmts.at[stmt];
	const KArg *a = &k->args.at[s->arg_first];
	uint32_t rank = a->kind == KARG_VALUE ? k->values.at[a->value].rank : 0;
	bool lanes = s->int_count == 1; /* all axes */
	for (uint32_t i = 1; i < s->int_count; i++)
		lanes = lanes || s->ints[i] + 1 == rank;
	return rank > 0 && lanes;
}

static bool reduces_sublanes(const KStmt *s, uint32_t rank) {
	bool sublanes = s->int_count == 1;
	for (uint32_t i = 1; i < s->int_count; i++)
		sublanes = sublanes || s->ints[i] + 2 == rank;
	return sublanes;
}

/* Registers are combined first, then the one that is left within itself: along lanes by the XLU, along sublanes by
 * rotating and combining three times. */
static void reduce(const Core *c, StmtId stmt, Work *w) {
	const KStmt *s = &c->k->stmts.at[stmt];
	const KValue *x = tile_operand(c, s, 0);
	if (!x)
		return;
	bool lanes = reduces_lanes(c->k, stmt), sublanes = reduces_sublanes(s, x->rank);
	double in = operand_registers(c, s, 0), left = array_registers(c->t, DTYPE_F32, x->rank, x->shape);
	for (uint32_t i = 0; i < x->rank; i++) {
		bool reduced = s->int_count == 1;
		for (uint32_t j = 1; j < s->int_count; j++)
			reduced = reduced || s->ints[j] == i;
		int64_t of = i + 1 == x->rank   ? int_cdiv(x->shape[i], c->t->lanes)
		             : i + 2 == x->rank ? int_cdiv(x->shape[i], c->t->sublanes)
		                                : x->shape[i];
		left /= reduced ? (double)int_max(of, 1) : 1;
	}
	bool compares = (s->op == K_MAX || s->op == K_MIN) && !dtype_is_float(x->dtype);
	w->of[UNIT_VALU] += in > left ? (in - left) * (compares ? 2 : 1) : 0;
	w->chain = in > left && left > 0 ? in / left * c->u->valu_wait : 0;
	w->of[UNIT_XLU] += lanes ? left : 0;
	w->of[UNIT_POP] += lanes ? left : 0;
	w->of[UNIT_VALU] += sublanes && rows_of_value(x) > 1 ? 6 * left : 0;
	w->of[UNIT_VALU] += s->op == K_MEAN ? left : 0;
	if (lanes && s->op == K_PROD) {
		w->of[UNIT_XLU] += 6 * left;
		w->of[UNIT_VALU] += 7 * left;
	}
}

/* By doubling distances, each a rotation, a selection and a combination. */
static void scan(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = tile_operand(c, s, 0);
	if (!x)
		return;
	bool lanes = s->ints[0] + 1 == x->rank;
	double steps = 0, n = array_registers(c->t, DTYPE_F32, x->rank, x->shape);
	for (int64_t size = 1; size < x->shape[s->ints[0]]; size *= 2)
		steps++;
	w->of[UNIT_VALU] += (lanes ? 2 : 4) * n * steps;
	w->of[UNIT_XLU] += lanes ? n * steps : 0;
	w->of[UNIT_POP] += lanes ? n * steps : 0;
}

/* A bitonic network on keys and places: each exchange rotates both ways and selects. */
static void sort(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = tile_operand(c, s, 0);
	if (!x)
		return;
	double stages = 0, n = array_registers(c->t, DTYPE_F32, x->rank, x->shape);
	for (int64_t size = 1, k = 1; size < x->shape[s->ints[0]]; size *= 2, k++)
		stages += (double)k;
	w->of[UNIT_XLU] += 4.8 * n * stages;
	w->of[UNIT_POP] += 4.8 * n * stages;
	w->of[UNIT_VALU] += 8 * n * stages;
}

/* Whole registers go elsewhere for nothing; else each is rotated along lanes. */
static void move_lanes(const Core *c, const KStmt *s, double times, Work *w) {
	double n = result_registers(c, s);
	w->of[UNIT_XLU] += times * n;
	w->of[UNIT_POP] += times * n;
	w->of[UNIT_VALU] += n / 2;
}

/* Each lane on its own way: so many rotations of a register, most of which are kept in VMEM between. */
static void scatter_lanes(const Core *c, const KStmt *s, double times, Work *w) {
	double n = result_registers(c, s), in = operand_registers(c, s, 0);
	n = times * (in > n ? in : n);
	w->of[UNIT_XLU] += n;
	w->of[UNIT_POP] += n;
	w->of[UNIT_VALU] += 3 * n;
	w->of[UNIT_LOAD] += 2.5 * n;
	w->of[UNIT_STORE] += 1.4 * n;
}

static void transpose(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = tile_operand(c, s, 0), *y = &c->k->values.at[s->result];
	if (!x)
		return;
	bool moves = s->op == K_TRANSPOSE
	                     ? s->int_count > 0 && s->ints[s->int_count - 1] + 1 != x->rank
	                     : (uint32_t)int_max(s->ints[0], s->ints[1]) + 1 == x->rank && s->ints[0] != s->ints[1];
	double in = operand_registers(c, s, 0), out = array_registers(c->t, y->dtype, y->rank, y->shape);
	if (!moves)
		return;
	w->of[UNIT_XLU] += in > out ? in : out;
	w->of[UNIT_POP] += out;
	w->of[UNIT_VALU] += dtype_vmem_bits(x->dtype) < 32 ? in : 0;
}

static void reshape(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = tile_operand(c, s, 0), *y = &c->k->values.at[s->result];
	if (!x || !is_tile(y))
		return;
	double n = result_registers(c, s), in = operand_registers(c, s, 0);
	n = in > n ? in : n;
	if (last_of(x) != last_of(y)) {
		bool whole = last_of(x) % c->t->lanes == 0 && last_of(y) % c->t->lanes == 0;
		w->of[UNIT_XLU] += whole ? 0 : n;
		w->of[UNIT_VALU] += n;
		w->of[UNIT_STORE] += whole ? n : 0;
		w->of[UNIT_LOAD] += whole ? n : 0;
	} else if (rows_of_value(x) % c->t->sublanes || rows_of_value(y) % c->t->sublanes) {
		w->of[UNIT_VALU] += rows_of_value(x) == rows_of_value(y) ? 0 : n;
	}
}

static bool cuts_lanes(const Core *c, const KStmt *s) {
	const KValue *x = tile_operand(c, s, 0);
	if (!x)
		return false;
	if (s->op == K_SLICE_IN_DIM)
		return s->ints[2] + 1 == x->rank && s->ints[0] % c->t->lanes != 0;
	if (s->op != K_INDEX)
		return true;
	uint32_t dim = 0;
	for (uint32_t i = 0; i + 2 < s->int_count; i += 3) {
		bool lanes = dim + 1 == x->rank;
		if (lanes && (s->ints[i] == K_ITEM_AT || s->ints[i] == K_ITEM_RANGE) && s->ints[i + 1] % c->t->lanes)
			return true;
		dim += s->ints[i] != K_ITEM_NEW;
	}
	return false;
}

static void roll(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = tile_operand(c, s, 0);
	double n = result_registers(c, s);
	bool lanes = false;
	bool whole = s->op == K_ROLL;
	for (uint32_t i = 0; x && s->op == K_ROLL && i + 1 < s->int_count; i += 2) {
		lanes = lanes || s->ints[i + 1] + 1 == x->rank;
		whole = whole && s->ints[i] % (s->ints[i + 1] + 1 == x->rank ? c->t->lanes : c->t->sublanes) == 0;
	}
	if (whole)
		return;
	if (s->op == K_ROTATE)
		lanes = x && s->ints[0] + 1 == x->rank;
	w->of[UNIT_XLU] += lanes ? n : 0;
	w->of[UNIT_POP] += lanes ? n : 0;
	if (lanes || s->op == K_ROLL) {
		w->of[UNIT_VALU] += lanes ? n : 2 * n;
	} else { /* by a number of rows that is not known: by bits of it, the tile in VMEM between */
		bool many = x && rows_of_value(x) > c->t->sublanes;
		w->of[UNIT_VALU] += (many ? 5 : 3.5) * n;
		w->of[UNIT_LOAD] += many ? 2.5 * n : 0;
		w->of[UNIT_STORE] += many ? 1.9 * n : 0;
	}
}

static bool joins_lanes(const Core *c, const KStmt *s) {
	for (uint32_t i = 0; i < s->arg_count; i++) {
		const KValue *x = tile_operand(c, s, i);
		if (x && s->ints[0] + 1 == x->rank && last_of(x) % c->t->lanes)
			return true;
	}
	return false;
}

/* ---- matmuls ---------------------------------------------------------------------------------------------------- */

/* The left factor's rows go through the matrix units, into which blocks of the right one are pushed, once for each
 * block of columns; each block of the contracted dim gives a sum of its own. */
static void dot(const Core *c, const KStmt *s, Work *w) {
	const KValue *x = tile_operand(c, s, 0), *y = tile_operand(c, s, 1);
	const KValue *z = &c->k->values.at[s->result];
	if (!x || !y)
		return;
	uint32_t first = x->rank == 3 ? 1 : 0;
	int64_t a = s->ints[0], b = s->ints[1], size = c->t->mxu_size;
	double batch = first ? (double)x->shape[0] : 1, bits = dtype_vmem_bits(x->dtype);
	double left = operand_registers(c, s, 0), right = operand_registers(c, s, 1);
	if (bits < 16 && !dtype_is_float(x->dtype) && !c->u->multiplies_ints) { /* as bfloat16 */
		w->of[UNIT_VALU] += 4 * (left + right);
		bits = 16;
	} else if (bits < 16 && dtype_is_float(x->dtype) && !c->t->narrow_nan) { /* in the unit's own float8 */
		w->of[UNIT_VALU] += 7 * (left + right);
	}
	double m = (double)x->shape[2 * first + 1 - a], k = (double)x->shape[a];
	double k_blocks = (double)int_cdiv(x->shape[a], size), n = (double)y->shape[2 * first + 1 - b];
	double n_blocks = (double)int_cdiv(y->shape[2 * first + 1 - b], size);
	double rows = bits == 32 ? 8 : bits == 16 ? 16 : 32;
	double groups = batch * (double)int_cdiv((int64_t)m, (int64_t)rows) * k_blocks * n_blocks;
	bool highest = s->int_count > 2 && s->ints[2] && bits == 32;
	double passes = highest ? 6 : 1, out = array_registers(c->t, DTYPE_F32, z->rank, z->shape);
	w->of[UNIT_MXU] += passes * groups * c->u->matmul_cycles * (bits == 32 ? 0.5 : 1) / c->u->matrix_units;
	double weights = batch * (double)int_cdiv((int64_t)k, (int64_t)rows) *
	                 (double)int_cdiv((int64_t)n, c->t->lanes) * (bits == 32 ? 0.5 : 1);
	bool turned = b == 1 + (int64_t)first;
	w->of[UNIT_PUSH] += passes * weights * 2 * (turned ? 2 : 1);
	w->of[UNIT_POP] += passes * (c->u->adds_results ? out * k_blocks : out);
	w->of[UNIT_VALU] += c->u->adds_results ? out * (passes * k_blocks - 1) : 0;
	w->of[UNIT_VALU] += highest ? 10 * out : 0;
	w->of[UNIT_LOAD] += left * (n_blocks - 1);
	if (a == (int64_t)first) { /* its rows stand along lanes */
		w->of[UNIT_XLU] += left;
		w->of[UNIT_POP] += left;
	}
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static double int_ops(const Kernel *k, IntId i) {
	const KInt *x = &k->ints.at[i];
	if (x->kind == INT_CONST || x->kind == INT_VALUE)
		return 0;
	double ops = x->kind == INT_DIV || x->kind == INT_REM || x->kind == INT_CDIV ? 4 : 1;
	if (x->kind == INT_NEG)
		return ops + int_ops(k, x->a);
	return ops + int_ops(k, x->a) + int_ops(k, x->b) + (x->kind == INT_CHOOSE ? int_ops(k, x->c) : 0);
}

/* To find a part in its buffer. */
static double address_ops(const Core *c, const KRef *r) {
	double ops = 0;
	int64_t number;
	for (uint32_t i = 0; i < r->rank; i++)
		if (r->dim[i].kind != KDIM_ALL && !int_is_const(c->k, r->dim[i].start, &number))
			ops += 2 + int_ops(c->k, r->dim[i].start);
	return ops;
}

/* Rows of a tile are told one by one: the dim along sublanes has one position, and there are others before it. */
static double single_rows(const Core *c, const KRef *r, uint32_t rank, const int64_t *shape) {
	const KBuffer *b = &c->k->buffers.at[r->buffer];
	bool at = b->rank > 2 && r->rank >= b->rank - 1 && r->dim[b->rank - 2].kind == KDIM_AT;
	double rows = 1;
	for (uint32_t i = 0; i + 1 < rank; i++)
		rows *= (double)shape[i];
	return at && rank > 1 && rows > 1 ? rows * (double)int_cdiv(shape[rank - 1], c->t->lanes) : 0;
}

static void load_or_store(const Core *c, const KStmt *s, Work *w) {
	const KArg *a = &c->k->args.at[s->arg_first];
	if (a->kind != KARG_REF)
		return;
	int64_t shape[KDIM_MAX];
	const KRef *r = &c->k->refs.at[a->ref];
	const KBuffer *b = &c->k->buffers.at[r->buffer];
	uint32_t rank = kernel_ref_shape(c->k, a->ref, shape);
	w->of[UNIT_SCALAR] += address_ops(c, r);
	if (b->space != KSPACE_VMEM) {
		w->of[UNIT_SCALAR] += 1;
		return;
	}
	double n = array_registers(c->t, b->dtype, rank, shape), rows = single_rows(c, r, rank, shape);
	bool packed = dtype_vmem_bits(b->dtype) < 32, stores = s->op == K_STORE;
	if (rows > 0) {
		bool slow = packed && c->t->bf16_vpu; /* what shares a word is read, changed and written back */
		w->of[UNIT_STORE] += stores ? (slow ? 4.2 : packed ? 1.2 : 1) * rows : 0;
		w->of[UNIT_LOAD] += stores ? (slow ? 3 : packed ? 1.4 : 0) * rows : rows;
		w->of[UNIT_VALU] += packed ? 4 * rows : stores ? 0 : rows;
		return;
	}
	w->of[stores ? UNIT_STORE : UNIT_LOAD] += n;
	if (!stores && rank > 1 && shape[rank - 1] == 1 &&
	    shape[rank - 2] > 1) { /* a column is spread over its lanes */
		w->of[UNIT_XLU] += n;
		w->of[UNIT_POP] += n;
	}
}

Work statement_work(const Core *c, StmtId stmt) {
	const KStmt *s = &c->k->stmts.at[stmt];
	Work w = {0};
	switch (s->op) {
	case K_ZEROS:
	case K_ONES:
	case K_FULL:
	case K_IOTA:
	case K_LET:
	case K_SCALAR:
	case K_BITCAST:
	case K_BROADCAST:
	case K_EXPAND_DIMS:
	case K_TILE:
	case K_YIELD:
	case K_RETURN:
	case K_REVERSE:
	case K_CHOOSE: break;
	case K_PROGRAM_ID: w.of[UNIT_SCALAR] += 1; break;
	case K_INT: {
		const KArg *a = &c->k->args.at[s->arg_first];
		w.of[UNIT_SCALAR] += a->kind == KARG_INT ? int_ops(c->k, a->index) : 0;
		break;
	}
	case K_START: w.of[UNIT_SCALAR] += 24; break;
	case K_COPY: break;
	case K_WAIT: w.chain = c->u->copy_wait; break;
	case K_CONVERT: convert(c, s, &w); break;
	case K_MASK:
	case K_KEEP:
	case K_WITHIN: w.of[UNIT_VALU] += result_registers(c, s); break;
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: reduce(c, stmt, &w); break;
	case K_FOLD_SUM:
	case K_FOLD_MAX:
	case K_FOLD_MIN: w.of[UNIT_VALU] += operand_registers(c, s, 1); break;
	case K_CUMSUM:
	case K_CUMPROD: scan(c, s, &w); break;
	case K_SORT: sort(c, s, &w); break;
	case K_TRANSPOSE:
	case K_SWAPAXES: transpose(c, s, &w); break;
	case K_RESHAPE: reshape(c, s, &w); break;
	case K_INDEX:
	case K_SLICE_IN_DIM:
		if (cuts_lanes(c, s))
			move_lanes(c, s, 1, &w);
		break;
	case K_STACK:
		if (s->ints[0] + 2 == c->k->values.at[s->result].rank)
			w.of[UNIT_VALU] += 5 * result_registers(c, s);
		break;
	case K_CONCATENATE:
		if (joins_lanes(c, s))
			move_lanes(c, s, 1, &w);
		break;
	case K_ROLL:
	case K_ROTATE: roll(c, s, &w); break;
	case K_TO_COLUMN: move_lanes(c, s, 1, &w); break;
	case K_TO_ROW:
		w.of[UNIT_XLU] += operand_registers(c, s, 0);
		w.of[UNIT_VALU] += 3 * operand_registers(c, s, 0);
		break;
	case K_PAD: w.of[UNIT_VALU] += result_registers(c, s); break;
	case K_FLIP: scatter_lanes(c, s, 13, &w); break;
	case K_EVERY:
	case K_EVEN_LANES:
	case K_INTERLEAVE: scatter_lanes(c, s, 16, &w); break;
	case K_TAKE_LANES: {
		double in = operand_registers(c, s, 0);
		w.of[UNIT_XLU] += in;
		w.of[UNIT_POP] += in;
		w.of[UNIT_VALU] += in;
		break;
	}
	case K_TAKE_ROWS: w.of[UNIT_VALU] += 2 * operand_registers(c, s, 0); break;
	case K_DOT: dot(c, s, &w); break;
	case K_LOAD:
	case K_STORE: load_or_store(c, s, &w); break;
	default: pointwise(c, s, &w); break;
	}
	return w;
}
