/* spill_strips.c - what a kernel spills whose rows are computed in strips of columns (strips.c): no tile is kept, but
 * what the strips' reductions add up in, and what the compiler starts of a strip before its turn.
 *
 * Strips are straight code: where later phases only reduce, what they widen again of what they load is widened before
 * the reductions that they wait for (waits.c). Seen for 32 to 256 rows: all of it where it goes through an exponential,
 * else half of it at most; nothing where a later phase stores. */
#include "live.h"

typedef struct Striped {
	const Lives *l;
	const KStrips *strips;
	uint32_t *phase; /* by position: the run over the strips that computes it first */
	bool *late;      /* by position: a later run than the first computes it */
} Striped;

static bool is_striped(const Striped *s, const Live *x) {
	const KValue *v = live_value(s->l, x);
	return v->rank > 0 && last_size(v) == s->strips->size;
}

static bool reads_striped(const Striped *s, const Live *x) {
	for (uint32_t i = 0; i < x->reads; i++)
		if (is_striped(s, s->l->reads.at[x->read + i]))
			return true;
	return false;
}

static bool is_stashed(const Striped *s, const Live *x) {
	for (uint32_t i = 0; i < s->strips->stashes.count; i++)
		if (s->strips->stashes.at[i].value == x->value)
			return true;
	return false;
}

/* What reads a reduction along the rows runs in the next phase. A value that a later phase reads is stashed, or
 * computed again. */
static void find_phases(Striped *s) {
	const Region *r = s->l->root;
	for (uint32_t pos = 1; pos <= r->count; pos++)
		for (uint32_t i = 0; i < r->at[pos].reads; i++) {
			const Live *of = s->l->reads.at[r->at[pos].read + i];
			bool folds = live_reduces_lanes(s->l, of) && reads_striped(s, of);
			s->phase[pos] = (uint32_t)int_max(s->phase[pos], s->phase[of->pos] + folds);
		}
	for (uint32_t pos = r->count; pos >= 1; pos--) {
		const Live *x = &r->at[pos];
		s->late[pos] = s->phase[pos] > 0 || (s->late[pos] && is_striped(s, x) && !is_stashed(s, x));
		for (uint32_t i = 0; i < x->reads && s->late[pos]; i++)
			s->late[s->l->reads.at[x->read + i]->pos] = true;
	}
}

/* What a later run loads is not loaded before what is stored ahead of that run. */
static bool stores_between(const Striped *s) {
	uint32_t last = 0;
	for (uint32_t pos = 1; pos <= s->l->root->count; pos++)
		last = is_striped(s, &s->l->root->at[pos]) && s->late[pos] ? (uint32_t)int_max(last, s->phase[pos])
		                                                           : last;
	for (uint32_t pos = 1; pos <= s->l->root->count; pos++)
		if (s->l->root->at[pos].part == PART_STORE && s->phase[pos] <= last)
			return true;
	return false;
}

static int64_t widened_early(const Striped *s) {
	int64_t bytes = 0;
	bool exponential = false;
	if (stores_between(s))
		return 0;
	for (uint32_t pos = 1; pos <= s->l->root->count; pos++) {
		const Live *x = &s->l->root->at[pos];
		if (x->part == PART_STORE && reads_striped(s, x))
			return 0;
		if (!is_striped(s, x))
			continue;
		exponential = exponential || (live_op(s->l, x) == OP_EXP && s->phase[pos] > 0);
		bool widens = live_op(s->l, x) == K_CONVERT && is_narrow(live_value(s->l, live_operand(s->l, x, 0)));
		bytes += widens && s->late[pos] && !is_stashed(s, x) ? x->bytes : 0;
	}
	return exponential ? bytes : bytes / 2;
}

static bool stores_late(const Striped *s) {
	for (uint32_t pos = 1; pos <= s->l->root->count; pos++)
		if (s->l->root->at[pos].part == PART_STORE && reads_striped(s, &s->l->root->at[pos]))
			return true;
	return false;
}

/* A register's lanes of each row, of what is reduced or what that was converted from. */
static int64_t folded_bytes(const Striped *s, const Live *x) {
	const Live *of = live_operand(s->l, x, 0);
	if ((live_stmt(s->l, x)->flags & KSTMT_NARROW) &&
	    live_value(s->l, live_operand(s->l, of, 0))->dtype != DTYPE_F16)
		of = live_operand(s->l, of, 0);
	const KValue *v = live_value(s->l, of);
	return register_bytes(s->l->t, v->dtype, v->rank, v->shape) / (last_size(v) / s->l->t->lanes);
}

/* The last run over the strips computes it: in that phase, or again for what is. */
static void find_last_run(const Striped *s, bool *last) {
	uint32_t phase = 0;
	for (uint32_t pos = 1; pos <= s->l->root->count; pos++)
		phase = is_striped(s, &s->l->root->at[pos]) ? (uint32_t)int_max(phase, s->phase[pos]) : phase;
	for (uint32_t pos = s->l->root->count; pos >= 1; pos--) {
		const Live *x = &s->l->root->at[pos];
		bool striped = x->part == PART_STORE ? reads_striped(s, x) : is_striped(s, x);
		last[pos] = striped && !is_stashed(s, x) && (last[pos] || s->phase[pos] == phase);
		for (uint32_t i = 0; i < x->reads && last[pos]; i++)
			last[s->l->reads.at[x->read + i]->pos] = true;
	}
}

/* What rows were reduced to, for that run: strips are worked off some rows at a time, and no other run's columns are
 * there whole. Of one column it is that, of several the strip that meets them as well (layer norm of 256 to 2048 rows
 * of 32-bit elements, which computes what it centers again: 2.4 to 3 times a column; with a stash, and softmax: one,
 * less 0.05 to 0.3 MiB). */
static int64_t columns_bytes(const Striped *s) {
	const Region *r = s->l->root;
	bool *last = arena_array(s->l->a, r->count + 1, sizeof *last);
	int64_t bytes = 0, most = 0;
	find_last_run(s, last);
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		bool read = false;
		for (uint32_t i = pos + 1; i <= r->count && !is_striped(s, x) && x->shape == SHAPE_COLUMN; i++)
			for (uint32_t k = 0; k < r->at[i].reads && last[i]; k++)
				read = read || s->l->reads.at[r->at[i].read + k] == x;
		bytes += read ? x->bytes : 0;
		most = read ? int_max(most, x->bytes) : most;
	}
	return bytes > most ? bytes + most : bytes;
}

int64_t spilled_by_strips(const Lives *l) {
	uint32_t count = l->root->count + 1;
	Striped s = {.l = l,
	             .strips = l->k->strips,
	             .phase = arena_array(l->a, count, sizeof *s.phase),
	             .late = arena_array(l->a, count, sizeof *s.late)};
	int64_t stashed = 0, folded = 0;
	find_phases(&s);
	for (uint32_t i = 0; i < s.strips->stashes.count; i++) {
		const KBuffer *b = &l->k->buffers.at[s.strips->stashes.at[i].scratch];
		stashed += vmem_bytes(l->t, b->dtype, b->rank, b->shape);
	}
	for (uint32_t pos = 1; pos <= l->root->count; pos++) {
		const Live *x = &l->root->at[pos];
		folded += live_reduces_lanes(l, x) && reads_striped(&s, x) ? folded_bytes(&s, x) : 0;
	}
	if (stashed == 0 && !stores_late(&s))
		return widened_early(&s) + folded;
	int64_t kept = s.strips->stashes.count > 1 ? stashed / 2 : 0;
	return int_max(kept + target_strip_bytes(l->t), widened_early(&s)) + columns_bytes(&s);
}
