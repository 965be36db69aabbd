/* halo.c - tiles that start a constant away from a block of the grid, or reach past their tensor: x[tile.index - 3, :].
 *
 * The grid brings a block, and beside it a narrow one, its halo, which has the rest of the tile. Where one of them lies
 * outside the tensor, the nearest block comes instead, and lanes outside give the nearest element of that:
 *
 *     x[512 * i - 3 +: 512, :]   =>   both = [block 32 * i - 1 of 16 rows; block i of 512 rows];  its rows from 13 on;
 *                                     where i is 0, row 0 of the halo in the first 3
 *
 * Not of lanes: Mosaic spills many times a tile of lanes that is cut between registers (libtpu 0.0.51: [1, 4096] of
 * float32 at four places 400 times), and positions of lanes are gathered. */
#include "access.h"
#include "codegen/values/values.h"

/* The block, and what lies between the tile's start and it. */
typedef struct Shift {
	Affine start; /* of the block */
	int64_t rows; /* of the halo; 0: there is none */
	bool first;   /* it stands before the block */
	int64_t skip; /* of the halo and the block, so many come before the tile */
} Shift;

/* The kernel finds it at multiples of so many elements alone. */
static int64_t legal_multiple(const Planner *p, const Operand *o, uint32_t d) {
	return d + 2 < o->rank
	               ? 1
	               : target_row_multiple(p->m->target, TILE_BLOCK, dtype_bits(o->dtype), o->shape[o->rank - 1]);
}

/* Where the halo starts. */
static Affine halo_start(Planner *p, const Shift *s, int64_t size) {
	return affine_add(p->a, s->start, affine_int(s->first ? -s->rows : size));
}

/* The least halo of at least `needed` elements whose blocks meet the tile's. */
static bool with_halo(Planner *p, const Operand *o, uint32_t d, int64_t size, int64_t needed, Shift *s) {
	int64_t multiple = legal_multiple(p, o, d);
	for (s->rows = int_round_up(needed, multiple); s->rows <= int_min(size, o->shape[d]); s->rows += multiple) {
		Affine start = halo_start(p, s, size);
		s->skip = s->first ? s->rows - needed : needed;
		if (affine_multiple(&start, s->rows))
			return true;
	}
	return false;
}

static bool shift_of(Planner *p, const Operand *o, uint32_t d, const Want *want, Shift *s) {
	int64_t size = want->size, multiple = legal_multiple(p, o, d), rest = want->at.constant % size;
	rest = rest < 0 ? rest + size : rest;
	Affine block = affine_sub(p->a, want->at, affine_int(rest));
	if (size > o->shape[d] || (size % multiple && size != o->shape[d]) || !affine_multiple(&block, size))
		return false;
	for (uint32_t i = 0; i < block.count; i++)
		if (block.term[i].kind != VAR_PROGRAM)
			return false;
	Shift after = {.start = block}, before = {.start = affine_add(p->a, block, affine_int(size)), .first = true};
	*s = after;
	if (rest == 0)
		return true;
	bool near = rest <= size - rest;
	*s = near ? after : before;
	if (with_halo(p, o, d, size, near ? rest : size - rest, s))
		return true;
	*s = near ? before : after;
	return with_halo(p, o, d, size, near ? size - rest : rest, s);
}

bool halo_fits(Planner *p, const AccessWant *w, uint32_t i, const Want *want) {
	Operand o = {0};
	Shift s = {.rows = 0};
	if (w->store || !tensor_is_given(p->m, w->tensor) || !operand_array(p, &o, w))
		return false;
	uint32_t d = o.dim_of[i];
	return d + 1 < o.rank && shift_of(p, &o, d, want, &s);
}

/* ---- lanes outside ---------------------------------------------------------------------------------------------- */

/* Every use of the load chooses something else there: in the lanes of its dim before `lane`, or from it on. */
static bool is_hidden(Planner *p, NodeId load, uint32_t dim, const Affine *lane, bool before) {
	for (ArgId u = node_uses(p->m, load); u != NONE; u = arg_get(p->m, u)->next_use) {
		NodeId user = arg_get(p->m, u)->user;
		bool chosen = op_canonical(node_get(p->m, user)->op) == OP_WHERE &&
		              node_arg(p->m, user, 1) == arg_get(p->m, u) && node_input(p->m, user, 0) != NONE &&
		              node_input(p->m, user, 0) != load && node_input(p->m, user, 2) != load;
		if (!chosen ||
		    !condition_leaves(p, node_input(p->m, user, 0), value_rank(p, load) - 1 - dim, lane, before))
			return false;
	}
	return node_uses(p->m, load) != NONE;
}

/* The last valid lane of its block lies inside. */
static bool ends_inside(Planner *p, const AccessWant *w, const Want *want) {
	int64_t last, end;
	Affine range, past;
	bool peeled;
	GraphId g = node_get(p->m, w->node)->graph;
	if (affine_max(p, &want->at, &last) && last + want->size <= want->extent)
		return true;
	if (want->block == NONE || !block_ragged(p, g, want->block, &range, &peeled))
		return false;
	past = affine_add(p->a, range, affine_sub(p->a, want->at, block_offset(p, g, want->block)));
	return affine_max(p, &past, &end) && end <= want->extent;
}

static void edges_of(Planner *p, const AccessWant *w, uint32_t i, Halo *halo) {
	const Want *want = &w->dim[i];
	uint32_t dim = 0;
	int64_t first;
	for (uint32_t k = 0; k < i; k++)
		dim += w->dim[k].kind != WANT_AT;
	Affine before = affine_scale(p->a, want->at, -1);
	Affine behind = affine_add(p->a, before, affine_int(want->extent));
	halo->below = !(affine_min(p, &want->at, &first) && first >= 0) && !is_hidden(p, w->node, dim, &before, true);
	halo->past = !ends_inside(p, w, want) && !is_hidden(p, w->node, dim, &behind, false);
	halo->before = before;
	halo->behind = behind;
}

/* ---- the two blocks --------------------------------------------------------------------------------------------- */

void halo_split(Planner *p, const AccessWant *w, uint32_t i, AccessWant *block, AccessWant *beside, Halo *halo) {
	const Want *want = &w->dim[i];
	Operand o = {0};
	Shift s = {.rows = 0};
	operand_array(p, &o, w);
	shift_of(p, &o, o.dim_of[i], want, &s);
	*block = *beside = *w;
	block->dim[i].at = s.start;
	beside->dim[i].at = halo_start(p, &s, want->size);
	beside->dim[i].size = s.rows;
	halo->rows = s.rows;
	halo->first = s.first;
	halo->skip = s.skip;
	halo->dim = i;
	edges_of(p, w, i, halo);
	plan_remark(p->plan,
	            s.rows ? "%s: positions that count up by one, but %lld from a block: beside it comes one of %lld"
	                   : "%s: positions that count up by one are a block, which may lie outside",
	            p->m->tensors.at[w->tensor].name, (long long)(s.first ? s.skip - s.rows : s.skip),
	            (long long)s.rows);
}
