/* spill_stores.c - what loads and stores keep whole, beside what barriers hold.
 *
 * Of several stores in straight code without a barrier the compiler starts the later ones' values before the first is
 * done, and shares what they have in common: up to a tile of each (2 to 6 tiles seen for 5 to 8 outputs).
 *
 * A block that is filled and then read again, as that of a tensor changed in place, is a barrier of its own: its loads
 * wait for its stores, and what else is ready is computed meanwhile. Of
 *
 *     o_ref[...] = x_ref[...]
 *     o_ref[...] = exp(o_ref[...]) + exp(y_ref[...])
 *
 * each stored value that something is computed for waits whole; of o + y nothing does. Seen for [256, 1024] to [1024,
 * 1024]. Those of 32-bit elements wait as rereads_wait says, of fewer bits all do. */
#include "live.h"

/* Its elements are packed in memory: bools, which registers have as 32 bits, too. */
static bool is_packed(const Lives *l, const Live *x) {
	return dtype_bits(l->k->buffers.at[live_ref(l, x)->buffer].dtype) < 32;
}

static bool accesses(const Live *x) { return x->part == PART_LOAD || x->part == PART_STORE; }

/* What a load gives or a store takes; NULL where that is a number, which no register holds. */
static const Live *accessed(const Lives *l, const Live *x) {
	const Live *value = x->part == PART_LOAD ? x : live_operand(l, x, 1);
	return value && live_value(l, value)->rank ? value : NULL;
}

static int64_t accessed_bytes(const Lives *l, const Live *x) { return accessed(l, x) ? accessed(l, x)->bytes : 0; }

typedef void Each(Lives *l, Live *x, void *data);
static void each_in(Region *r, Each *each, void *data) {
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		each(r->of, &r->at[pos], data);
		if (r->at[pos].body)
			each_in(r->at[pos].body, each, data);
	}
}

/* ---- several stores --------------------------------------------------------------------------------------------- */

static bool in_order(const Kernel *k) {
	for (BufferId b = 0; b < k->buffers.count; b++)
		if (buffer_is_filled(&k->buffers.at[b]))
			return true;
	return false;
}

/* Bytes of all operands that wait for each other: computed tiles, and those that are loaded packed, to be widened.
 * `computed`: one of them is more than loaded. */
static int64_t operands_bytes(const Lives *l, const Live *x, bool *computed) {
	int64_t bytes = 0;
	for (uint32_t i = 0; i < x->reads; i++) {
		Live *of = live_computed_as(l, l->reads.at[x->read + i]);
		bool made = part_streams(of->part) || of->part == PART_MOVE;
		if (live_value(l, of)->dtype == DTYPE_BOOL)
			continue;
		bytes += made || of->narrow ? of->bytes : 0;
		*computed = *computed || made;
	}
	return bytes;
}

/* Of a value that is stored: of loads alone it is computed as they come; not where they are to be widened. */
static int64_t stored_bytes(const Lives *l, const Live *store) {
	Live *value = live_operand(l, store, 1);
	const Live *x = value ? live_computed_as(l, value) : NULL;
	bool computed = false;
	if (!x || !part_streams(x->part))
		return 0;
	bool widens = operands_bytes(l, x, &computed) > 0 && l->t->widens_stored;
	bool packed = is_narrow(live_value(l, x)) && !l->t->widens_stored;
	return computed || widens ? (packed ? x->bytes : live_wide_bytes(l, x)) : 0;
}

/* Steps of an unrolled loop that nothing waits in. */
static bool is_straight_on(const Live *x) {
	return x->body && region_is_unrolled(x->body) && x->body->at[x->body->count + 1].barriers == 0;
}

static int64_t straight_stores(const Lives *l) {
	int64_t bytes = 0, most = 0, stored = 0;
	bool waits = l->t->rereads_wait;
	for (uint32_t pos = 1; pos <= l->root->count; pos++) {
		const Live *x = &l->root->at[pos];
		if (part_is_barrier(x->part) && !is_straight_on(x))
			return 0;
		waits = waits || (x->part == PART_LOAD && x->narrow);
		if (x->part != PART_STORE)
			continue;
		bytes += accessed_bytes(l, x);
		most = int_max(most, accessed_bytes(l, x));
		stored += stored_bytes(l, x);
	}
	return int_max(bytes - most, in_order(l->k) && waits ? stored : 0);
}

/* What is stored, before it is rounded; NULL: a number. */
static const Live *stored_value(const Lives *l, const Live *store) {
	Live *stored = live_operand(l, store, 1);
	return stored && live_value(l, stored)->rank ? live_computed_as(l, stored) : NULL;
}

/* The choice that a masked write stores; NULL: it stores something else. */
static const Live *stored_choice(const Lives *l, const Live *store) {
	const Live *value = stored_value(l, store);
	return value && live_op(l, value) == OP_WHERE ? value : NULL;
}

/* A masked write at a position known at run time, to a block that is filled first: what is there is read, chosen from
 * and written, and the compiler, which cannot tell the positions apart, has all of it chosen before it writes (0.81 MiB
 * of a region of 1 MiB, int32 [128, 1, 129] on v7x). Packed elements, chosen in 32 bits, to any block: 0.3 to 1 of the
 * region in 32 bits, of uint16 1.3 to 2 (416 rows of 256, all chips but v5e and v5p, which take less). */
static int64_t rewritten_bytes(const Lives *l, const Live *store) {
	const KRef *ref = live_ref(l, store);
	const KHeld *held = l->k->buffers.at[ref->buffer].held;
	const Live *stored = live_operand(l, store, 1), *value = stored_choice(l, store);
	bool run_time = false, filled = held && held->fill && !held->revisits;
	int64_t at;
	if (!value || !(filled || is_narrow(live_value(l, stored))))
		return 0;
	for (uint32_t i = 0; i < ref->rank; i++)
		run_time = run_time || (ref->dim[i].kind == KDIM_AT && !int_is_const(l->k, ref->dim[i].start, &at));
	int64_t times = live_value(l, stored)->dtype == DTYPE_U16 ? 2 : 1;
	return run_time ? times * live_wide_bytes(l, value) : 0;
}

/* Of the block that is stored to. */
static bool loads_what_stands(const Lives *l, const Live *x, const Live *store) {
	return x->part == PART_LOAD && live_ref(l, x)->buffer == live_ref(l, store)->buffer;
}

/* A masked write to a block that is read for it, at a position that is known: up to 256 registers the compilers of v5e
 * and v5p load ahead of what is chosen (of 64 registers none waits, of 128 16, of 256 144; more go in loops). */
static int64_t chosen_bytes(const Lives *l, const Live *store) {
	enum { IN_STRAIGHT_CODE = 256 };
	const Live *value = stored_choice(l, store);
	if (!value || l->t->bf16_vpu || l->t->spill_rows)
		return 0;
	for (uint32_t i = 1; i < value->reads; i++)
		if (loads_what_stands(l, l->reads.at[value->read + i], store))
			return value->bytes <= target_registers_bytes(l->t, IN_STRAIGHT_CODE)
			               ? value->bytes / 2 * (region_is_again(store->region) ? 2 : 1)
			               : 0;
	return 0;
}

/* What is spread to this, rounded or not; NULL: it is no such thing. */
static Live *spread_of(const Lives *l, Live *x) {
	while (x && live_op(l, x) != K_BROADCAST && live_rounds_or_views(l, x))
		x = live_operand(l, x, 0);
	return x && live_op(l, x) == K_BROADCAST ? live_operand(l, x, 0) : NULL;
}

/* It comes late: it waits for a reduction along lanes, or spreads one number of a row. */
static bool comes_late(const Lives *l, Live *x) {
	const Live *of = spread_of(l, x);
	return x->waits || (of && last_size(live_value(l, of)) == 1);
}

/* Chips before v6e load what is there first, all of it, where packed elements are chosen from (bfloat16 [256, 3, 129]:
 * 0.65 to 0.95 of it in 32 bits), or some rows or lanes of each tile are kept (float32 [2, 256] to [2, 512], 64 to 256
 * times: 0.66 to 0.97 of it; of dims before the rows nothing). */
static bool waits_for_old(const Lives *l, const Live *store, const Live *value) {
	if (l->t->bf16_vpu)
		return false;
	if (live_op(l, value) == K_KEEP)
		return live_stmt(l, value)->ints[0] + 2 >= live_value(l, value)->rank;
	return live_op(l, value) == OP_WHERE && is_packed(l, store);
}

/* A masked write to a block that is read for it, of packed elements: what is there is loaded and widened until what is
 * chosen comes, if that comes late (products with their row's sum, in 32 to 128 times [8, 1024] and [64, 128]: 0.35 to
 * 0.8 of them in 32 bits of bfloat16, 0.7 to 1 of 8 bits; less on v5p, of bfloat16 nothing). */
static int64_t waiting_bytes(const Lives *l, const Live *store) {
	const Live *value = stored_value(l, store);
	bool old = false, late = value && waits_for_old(l, store, value);
	if (!value || !(is_packed(l, store) || late) || (live_op(l, value) != OP_WHERE && live_op(l, value) != K_KEEP))
		return 0;
	for (uint32_t i = 0; i < value->reads; i++) {
		Live *x = l->reads.at[value->read + i];
		bool loads = loads_what_stands(l, live_computed_as(l, x), store);
		old = old || loads;
		late = late || (!loads && comes_late(l, x));
	}
	return old && late ? live_wide_bytes(l, value) : 0;
}

/* Packed rows that lie in a register each, computed and spread along dims before them: they are packed as they are
 * stored, one time after the other, and kept in 32 bits meanwhile (bfloat16 [96, 1, 1] and [192, 1, 1] spread 4 and 64
 * times: 0.6 to 1 of them on all chips; float32 not, nor whole tiles of rows). */
static int64_t spread_bytes(const Lives *l, const Live *store) {
	Live *spread = live_operand(l, store, 1);
	Live *of = spread && live_op(l, spread) == K_BROADCAST ? live_operand(l, spread, 0) : NULL;
	const KValue *v = of ? live_value(l, of) : NULL;
	if (!v || !is_narrow(v) || v->rank < 3 || v->shape[v->rank - 2] > 1 || live_value(l, spread)->rank < v->rank ||
	    !part_streams(live_computed_as(l, of)->part))
		return 0;
	return rows_of(v) < rows_of(live_value(l, spread)) ? live_wide_bytes(l, of) : 0;
}

/* ---- blocks that are read again --------------------------------------------------------------------------------- */

typedef struct Forwarded {
	uint32_t *stored; /* by buffer: barriers before its first store, from 1; 0: there is none */
	int64_t bytes;
} Forwarded;

static void forward(const Lives *l, Region *r, uint32_t place, bool loads, Forwarded *f) {
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		uint32_t here = place ? place : x[1].barriers + 1;
		if (x->body && region_is_unrolled(x->body))
			forward(l, x->body, here, loads, f);
		if (x->part != (loads ? PART_LOAD : PART_STORE))
			continue;
		BufferId operand = l->operand[live_ref(l, x)->buffer];
		const KBuffer *b = &l->k->buffers.at[operand];
		uint32_t *first = &f->stored[operand];
		if (!loads && (!*first || here < *first)) {
			*first = here;
		} else if (loads && *first && here > *first && b->space == KSPACE_VMEM && b->role != BUFFER_SCRATCH) {
			f->bytes += vmem_bytes(l->t, b->dtype, b->rank, b->shape);
			*first = 0;
		}
	}
}

/* What straight code stores, and reads again after a barrier, never leaves the registers: it is spilled beside its
 * block. Bytes of such blocks. */
static int64_t forwarded(const Lives *l) {
	Forwarded f = {.stored = arena_array(l->a, l->k->buffers.count + 1, sizeof *f.stored)};
	forward(l, l->root, 0, false, &f);
	forward(l, l->root, 0, true, &f);
	return f.bytes;
}

/* ---- rows and branches ------------------------------------------------------------------------------------------ */

/* Rows of 8 bits that are loaded of tiles with no other, a register each: v4 keeps all of them, in place of the two
 * thirds that loads alone count for, those of float8_e5m2 twice (column of 64 to 1,024 rows: 8.5 KiB each). */
static int64_t lone_rows_bytes(const Lives *l, Dtype t, int64_t bytes) {
	if (!l->t->spill_rows || dtype_bits(t) != 8)
		return bytes;
	return t == DTYPE_F8E5M2 ? 3 * bytes : bytes / 2 * 3;
}

/* A register for each row. */
static int64_t row_registers_bytes(const Lives *l, const KValue *v) {
	return rows_of(v) * int_round_up(last_size(v), l->t->lanes) * l->t->sublanes * 4;
}

/* Bytes of an access of which each row comes from or goes to a tile of its own, as those of x[:, :, 0, :] do: packed
 * elements are moved row by row, a register each. Of 16 bits, where the tile has that row alone, a third of it; where a
 * chip moves rows one by one half of what is loaded, and all that is stored (v4, 128 rows: 1.4 registers each), of what
 * is spread once and a half (2,100 rows: 1.56 registers). A ragged last step, which stands after its loop, keeps them
 * again. Rows of 32 bits that are no multiple of 8: v5e and v5p keep up to 0.9 registers of a row, for a load and a
 * store of it together (of [24, 100] and [8, 100] rows), v4 an eighth. */
static int64_t row_by_row(const Lives *l, const Live *x) {
	const KRef *ref = live_ref(l, x);
	const Live *value = accessed(l, x);
	if (!value || ref->rank < 3 || ref->dim[ref->rank - 2].kind != KDIM_AT)
		return 0;
	const KValue *v = live_value(l, value);
	int64_t registers = row_registers_bytes(l, v);
	if (!is_packed(l, x)) {
		bool odd = v->rank > 2 && v->shape[v->rank - 2] % l->t->sublanes != 0;
		bool keeps = odd && rows_of(v) >= l->t->sublanes && !l->t->bf16_vpu;
		return keeps ? registers / (l->t->spill_rows ? 16 : 2) : 0;
	}
	bool alone = l->k->buffers.at[ref->buffer].shape[ref->rank - 2] == 1;
	int64_t together = !alone || dtype_bits(v->dtype) != 16 ? 1
	                   : !l->t->spill_rows                  ? 3
	                   : x->part == PART_LOAD               ? 2
	                                                        : 1;
	int64_t bytes = registers / together * (region_is_again(x->region) ? 2 : 1);
	if (v->rank < 2 || rows_of(v) < l->t->sublanes)
		return 0;
	if (x->part == PART_STORE)
		return l->t->spill_rows && spread_of(l, live_operand(l, x, 1)) ? bytes / 2 * 3 : bytes;
	return alone ? lone_rows_bytes(l, v->dtype, bytes) : bytes;
}

/* All steps load it at the same place. */
static bool stands_still(const Kernel *k, const KRef *ref) {
	int64_t place;
	for (uint32_t i = 0; i < ref->rank; i++)
		if (ref->dim[i].kind != KDIM_ALL &&
		    (ref->dim[i].kind != KDIM_AT || !int_is_const(k, ref->dim[i].start, &place)))
			return false;
	return k->buffers.at[ref->buffer].role == BUFFER_IN;
}

/* Such rows of 16 bits that the steps of an unrolled loop share: they are loaded once and kept, a register each, and of
 * further ones an eighth (tables of 1,024 to 4,096 rows from which two steps gather by matmuls: 15 to 19 MiB of 4,096
 * rows, 21 of two such tables, all chips). */
static int64_t shared_rows_bytes(const Lives *l, const Live *x) {
	const KValue *v = live_value(l, x);
	bool shared = x->part == PART_LOAD && region_is_unrolled(x->region) && stands_still(l->k, live_ref(l, x));
	return shared && is_packed(l, x) && dtype_bits(v->dtype) == 16 ? row_registers_bytes(l, v) : 0;
}

/* Packed elements that are read or written as few of a register: ints and bools at most half of it, floats an eighth.
 * What is computed of such is packed and unpacked register by register, half of them beside the rest; twice as many on
 * a chip that moves rows one by one. A margin, as the next is: nothing that was drawn had more. */
enum { MOST_LOOSE = 512 << 10, MOST_PACKED = 2 << 20 };

static int64_t loose_bytes(const Lives *l, const Live *x) {
	const Live *value = accessed(l, x);
	if (!value || !is_packed(l, x))
		return 0;
	const KValue *v = live_value(l, value);
	int64_t bytes = live_wide_bytes(l, value), elements = int_min(rows_of(v) * last_size(v), TOO_MUCH / 4);
	bool loose = last_size(v) == 1 || (v->rank > 2 && v->shape[v->rank - 2] < l->t->sublanes);
	if (!loose || elements * 4 * (dtype_is_float(v->dtype) ? 8 : 2) > bytes + bytes / 16)
		return 0;
	return int_min(l->t->spill_rows ? 2 * bytes : bytes / 2, MOST_LOOSE);
}

/* Rows of a register each, spread along dims before them and stored packed: v4 keeps all of them (a row spread to 32 to
 * 512 rows of 256 and 1,024 lanes: 0.93 to 1 of it in 32 bits). */
static int64_t spread_rows_bytes(const Lives *l, const Live *store) {
	if (!l->t->spill_rows || !is_packed(l, store))
		return 0;
	Live *spread = live_operand(l, store, 1), *of = spread_of(l, spread);
	if (!of)
		return 0;
	const KValue *v = live_value(l, spread);
	bool alone = v->rank > 2 && v->shape[v->rank - 2] == 1;
	return alone && rows_of(live_value(l, of)) < rows_of(v) ? live_wide_bytes(l, spread) : 0;
}

/* What is computed and stored as ints, bools or floats of 8 bits waits to be packed: of drawn tiles of 64 to 421 rows
 * up to half of it in 32 bits on v6e and v7x, 1.7 of it on v4, 1.2 on v5p; of what is loaded as another dtype up to 0.6
 * on v4. */
static int64_t packed_bytes(const Lives *l, const Live *store) {
	Live *value = live_operand(l, store, 1);
	Dtype t = value ? live_value(l, value)->dtype : DTYPE_NONE;
	if (!value || !is_packed(l, store) || (dtype_is_float(t) && dtype_bits(t) == 16))
		return 0;
	const Live *of = live_computed_as(l, value);
	int64_t bytes = live_wide_bytes(l, value);
	if (!part_streams(of->part))
		return l->t->spill_rows && live_value(l, of)->dtype != t ? int_min(bytes, MOST_PACKED) : 0;
	return int_min(l->t->bf16_vpu ? bytes / 2 : l->t->spill_rows ? bytes / 4 * 7 : bytes / 4 * 5, MOST_PACKED);
}

/* Loaded uint16 is kept in 32 bits as well, half of it. */
static int64_t unsigned_bytes(const Lives *l, const Live *x) {
	return x->part == PART_LOAD && live_value(l, x)->dtype == DTYPE_U16
	               ? int_min(live_wide_bytes(l, x) / 2, MOST_LOOSE)
	               : 0;
}

typedef struct Rows {
	int64_t stores, most, loads, shared, most_shared, branches, rewritten, loose, packed;
} Rows;

/* What a branch of a switch loads is there whole after it, as is what is stored by one: of a block that several steps
 * share (for two loads and a store of float32 [640, 200] 1.7 to 2 MiB, of [320, 200] 1.1 to 1.4 MiB). */
static bool branches(const KRef *ref) {
	for (uint32_t i = 0; i < ref->rank; i++)
		if (ref->dim[i].kind == KDIM_PART)
			return true;
	return false;
}

static void add_access(Lives *l, Live *x, void *data) {
	Rows *rows = data;
	if (!accesses(x))
		return;
	int64_t bytes = row_by_row(l, x);
	rows->loose = int_max(rows->loose, int_max(loose_bytes(l, x), unsigned_bytes(l, x)));
	rows->stores += x->part == PART_STORE ? bytes : 0;
	rows->most = int_max(rows->most, x->part == PART_STORE ? bytes : 0);
	rows->loads += x->part == PART_LOAD ? bytes : 0;
	int64_t shared = bytes ? shared_rows_bytes(l, x) : 0;
	rows->shared += shared;
	rows->most_shared = int_max(rows->most_shared, shared);
	if (x->part == PART_STORE) {
		rows->loose = int_max(rows->loose, spread_rows_bytes(l, x));
		rows->packed = int_max(rows->packed, packed_bytes(l, x));
		rows->rewritten = int_max(rows->rewritten, int_max(int_max(rewritten_bytes(l, x), chosen_bytes(l, x)),
		                                                   int_max(waiting_bytes(l, x), spread_bytes(l, x))));
	}
	rows->branches += branches(live_ref(l, x)) ? accessed_bytes(l, x) : 0;
}

/* Rows: measured for two such stores and loads of [2, 256, 128] to [8, 256, 128], all chips: the rows of one store, two
 * thirds of each further one, and of what is loaded so as well; of two stores without such loads those of one (0.98 to
 * 1.05 of them on v6e and v7x), but where rows are moved one by one. */
int64_t spilled_by_stores(const Lives *l) {
	Rows rows = {0};
	each_in(l->root, add_access, &rows);
	bool all = rows.loads || l->t->spill_rows;
	int64_t others = all ? (rows.stores - rows.most + rows.loads) * 2 / 3 : rows.most / 16;
	int64_t shared = rows.most_shared + (rows.shared - rows.most_shared) / 8;
	int64_t bytes = int_max(rows.stores ? rows.most + others : rows.loads * 2 / 3, shared);
	return int_max(bytes, int_max(rows.loose, rows.packed)) + rows.branches * 4 / 3 +
	       int_max(straight_stores(l), rows.rewritten) + forwarded(l);
}
