/* expand_memory.c - loads, stores and matmuls as operations on vector registers. */
#include "expand.h"

/* Arrays with few rows have tiles as low as a power of two, but whole words; those of 16 bits that come from outside
 * have as many rows as those of 32. */
uint8_t tile_rows(Dtype dtype, uint32_t rank, const int64_t *shape, bool own) {
	RegisterForm f = usual_form(dtype);
	int64_t rows = rank > 1 ? shape[rank - 2] : 1, most = f.bits == 16 && !own ? SUBLANES : f.rows,
		least = WORD / f.bits;
	while (least < rows && least < most)
		least *= 2;
	return (uint8_t)least;
}

/* One row of taller tiles, its place not known before it runs, is told by itself. */
static uint8_t access_rows(const Expander *e, const KRef *r, const KBuffer *b) {
	uint8_t rows = e->rows[r->buffer];
	int64_t at;
	if (b->rank < 2 || r->rank + 1 < b->rank || rows != SUBLANES || dtype_vmem_bits(b->dtype) != WORD)
		return rows;
	const KDim *d = &r->dim[b->rank - 2];
	bool one = d->kind == KDIM_AT || (d->kind == KDIM_RANGE && d->size == 1);
	if (d->kind == KDIM_PART)
		return d->size == 1 ? 1 : rows;
	return one && !int_is_const(e->k, d->start, &at) ? 1 : rows;
}

/* The dim that is cut at one of so many places, each of which is a load of its own; NULL: none is. */
static const KDim *cut_dim(const KRef *r) {
	for (uint32_t i = 0; i < r->rank; i++)
		if (r->dim[i].kind == KDIM_PART)
			return &r->dim[i];
	return NULL;
}

/* Of what is told of a buffer, as it stands there: where the dim along rows has one position, each row is in tiles of
 * its own. Returns its rank. */
static uint32_t shape_in_tiles(const KRef *r, const KBuffer *b, uint32_t rank, int64_t *shape) {
	if (b->rank < 2 || rank < 2 || r->rank + 1 < b->rank || r->dim[b->rank - 2].kind != KDIM_AT)
		return rank;
	shape[rank] = shape[rank - 1];
	shape[rank - 1] = 1;
	return rank + 1;
}

void expand_load(Expander *e, const KStmt *s) {
	const KArg *a = &e->k->args.at[s->arg_first];
	const KRef *r = &e->k->refs.at[a->ref];
	const KBuffer *b = &e->k->buffers.at[r->buffer];
	const KValue *to = &e->k->values.at[s->result];
	RegisterForm *f = &e->values[s->result].form;
	*f = usual_form(b->dtype);
	f->rows = access_rows(e, r, b);
	if (b->space != KSPACE_VMEM)
		return;
	if (!is_tile(to)) { /* put to the first place, from which a number is taken */
		count_operations(e, RO_LOAD, 1);
		count_operations(e, RO_ROTATE, 2);
		return;
	}
	const KDim *cut = cut_dim(r);
	int64_t parts = cut ? int_max(cut->parts, 1) : 1, lanes = to->rank ? to->shape[to->rank - 1] : 1;
	bool one = to->rank < 2 || to->shape[to->rank - 2] == 1;
	f->same_rows = one && f->rows == 1 && lanes <= LANES && parts == 1; /* it is loaded into all of them */
	int64_t shape[KDIM_MAX];
	uint32_t rank = shape_in_tiles(r, b, kernel_ref_shape(e->k, a->ref, shape), shape);
	count_operations(e, RO_LOAD, (double)parts * form_registers(f, rank, shape));
	bool inside =
		cut && cut == r->dim + r->rank - 1 && r->rank == b->rank; /* parts along lanes are put to the front */
	count_operations(e, RO_ROTATE, inside ? (double)(parts - 1) : 0);
}

/* Words of which rows are not written are loaded, and written among what they hold. */
static void merge_words(Expander *e, const RegisterForm *f, uint32_t rank, const int64_t *shape) {
	double n = form_registers(f, rank, shape);
	double tiles =
		n / (double)int_cdiv(int_cdiv(shape[rank - 1], LANES) * f->rows * f->bits, (int64_t)SUBLANES * WORD) *
		(double)int_cdiv(shape[rank - 1], LANES);
	count_operations(e, RO_LOAD, n);
	count_operations(e, RO_SELECT, n);
	count_operations(e, RO_MASK, 2 * tiles);
	count_operations(e, RO_INT, 2 * tiles - n);
}

/* Along lanes it is not known before it runs where it starts. */
static bool starts_anywhere(const Expander *e, const KRef *r, const KBuffer *b) {
	int64_t at;
	const KDim *d = r->rank && r->rank == b->rank ? &r->dim[r->rank - 1] : NULL;
	return d && d->kind != KDIM_ALL && !int_is_const(e->k, d->start, &at);
}

/* Lanes that the last registers do not fill are masked. */
static void mask_lanes(Expander *e, const RegisterForm *f, uint32_t rank, const int64_t *shape, bool anywhere) {
	int64_t lanes = rank ? shape[rank - 1] : 1, tiles = int_cdiv(lanes, LANES),
		rows = rank > 1 ? shape[rank - 2] : 1;
	double n = form_registers(f, rank, shape);
	if (rank == 0)
		return;
	if (f->bits < WORD && rows % (WORD / f->bits)) {
		merge_words(e, f, rank, shape);
	} else if (f->rows == 1 && (tiles > 1 || anywhere) && lanes % ((int64_t)SUBLANES * LANES)) {
		count_operations(e, RO_INT, 1);
		count_operations(e, RO_COMPARE, 2);
	} else if (lanes % LANES) {
		count_operations(e, RO_MASK, n / (double)int_cdiv(tiles * f->rows * f->bits, (int64_t)SUBLANES * WORD));
	}
}

void expand_store(Expander *e, const KStmt *s) {
	const KArg *a = &e->k->args.at[s->arg_first];
	const KRef *r = &e->k->refs.at[a->ref];
	const KBuffer *b = &e->k->buffers.at[r->buffer];
	int64_t shape[KDIM_MAX];
	uint32_t rank = shape_in_tiles(r, b, kernel_ref_shape(e->k, a->ref, shape), shape);
	RegisterForm f = usual_form(b->dtype);
	const KValue *x = expand_tile(e, s, 1);
	f.rows = access_rows(e, r, b);
	if (b->space != KSPACE_VMEM)
		return;
	if (x)
		taken_as(e, x, &expand_traced(e, s, 1)->form, f.rows);
	if (x && x->dtype == DTYPE_BOOL && !computed_before(e, expand_traced(e, s, 1)->id + AS_INT))
		count_operations(e, RO_CONVERT, form_registers(&f, rank, shape));
	count_operations(e, RO_STORE, form_registers(&f, rank, shape));
	mask_lanes(e, &f, rank, shape, starts_anywhere(e, r, b));
}

/* Of a factor that is contracted along rows, those that fill no whole word. */
static void rest_of_words(Expander *e, const KValue *x, const RegisterForm *f, int64_t axis, int64_t k) {
	if (axis + 2 != x->rank || k % (WORD / f->bits) == 0)
		return;
	double last = (double)int_cdiv(x->shape[x->rank - 1], LANES);
	count_operations(e, RO_INT, last);
	count_operations(e, RO_MASK, last);
}

/* The contracted dim of a factor fills its registers. */
static bool fills(const KValue *x, int64_t axis, uint8_t tall, int64_t k) {
	return k % (axis + 1 == x->rank ? LANES : tall) == 0;
}

/* NaN of float8 is looked for in words, of which those along the contracted dim are one in the end, and added up. */
static void look_for_nan(Expander *e, const KValue *x, const RegisterForm *f, bool lanes) {
	double words = form_registers(f, x->rank, x->shape);
	double along = (double)int_cdiv(x->shape[x->rank - (lanes ? 1 : 2)], lanes ? LANES : f->rows),
	       found = words / along;
	count_operations(e, RO_INT, 3 * words);
	count_operations(e, RO_PACK, 4 * found);
	count_operations(e, RO_FLOAT, 4 * found);
	count_operations(e, RO_REDUCE, lanes ? 4 * found : found);
}

/* The factors in tiles of 32 bytes' rows; blocks of the contracted dim and of columns, as wide as the matrix unit. */
void expand_dot(Expander *e, const KStmt *s) {
	const KValue *x = expand_tile(e, s, 0), *y = expand_tile(e, s, 1);
	const KValue *z = &e->k->values.at[s->result];
	RegisterForm *out = &e->values[s->result].form;
	*out = usual_form(z->dtype);
	out->product = true;
	if (!x || !y)
		return;
	const RegisterForm *fx = &expand_traced(e, s, 0)->form, *fy = &expand_traced(e, s, 1)->form;
	uint8_t tall = (uint8_t)(SUBLANES * WORD / fx->bits);
	uint32_t first = x->rank == 3 ? 1 : 0;
	int64_t a = s->ints[0], b = s->ints[1], size = e->t->mxu_size;
	double batch = first ? (double)x->shape[0] : 1, left = taken_as(e, x, fx, tall);
	double right = taken_as(e, y, fy, (uint8_t)(SUBLANES * WORD / fy->bits));
	int64_t k = x->shape[a], n = y->shape[2 * first + 1 - b], m = x->shape[2 * first + 1 - a];
	count_operations(e, RO_MATMUL, batch * (double)(int_cdiv(k, size) * int_cdiv(n, size)));
	for (uint32_t i = 3; i < s->int_count; i++)
		look_for_nan(e, s->ints[i] ? y : x, s->ints[i] ? fy : fx, s->ints[i] == 0);
	if (s->int_count > 3) { /* the first is added by the matmul itself */
		count_operations(e, RO_FLOAT, (s->int_count - 4) * form_registers(out, z->rank, z->shape));
		out->product = false;
	}
	double rest = (fills(x, a, tall, k) ? 0 : left) + (fills(y, b, tall, k) ? 0 : right);
	count_operations(e, RO_SELECT, rest);
	count_operations(e, RO_MASK, rest);
	rest_of_words(e, x, fx, a, k);
	rest_of_words(e, y, fy, b, k);
	if (a == (int64_t)first)
		count_operations(e, RO_TRANSPOSE, batch * (double)(int_cdiv(k, LANES) * int_cdiv(m, LANES)));
}
