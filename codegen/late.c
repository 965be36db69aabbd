/* late.c - what is computed before a reduction along lanes though only what comes after it reads it.
 *
 * Such a reduction takes long to come out, and straight code is scheduled by what is ready: of
 *
 *     t = sum(x, -1)
 *     out = exp(y) * t + z
 *
 * the exponents are ready at once, and are computed and spilled before the first of them meets t. What was measured,
 * for [256, 4096] and all chips (tests/unit/test_vmem.c has some):
 *
 * - What is computed waits whole. Of 32-bit loads the compilers of v5e and v5p compute nothing early.
 * - What is only loaded, or widened, as the tile that meets t itself waits as well, if something is computed of the
 *   product; of a sum or product alone that is stored a quarter waits at most, and more of a quotient or where t is one
 *   value for all rows (TargetSpills.joined).
 * - What is only loaded and meets such a tile later, as z, is loaded where it is used; of widened ones the compilers
 *   load one early, packed.
 * - What is widened, and read before the reduction and twice after it, waits twice.
 * - A mask made of what is loaded waits as what is compared does; made of what is held anyway it costs nothing.
 * - A row that is turned into a column takes as long as a reduction; what has met one column waits for the next.
 * - Of unrolled steps one is computed early.
 * - Reductions of rows and matmuls come out as they go: nothing is computed early. */
#include "region.h"

/* Percent of a sum or product alone, at most 20 was seen; of a mask, at least. */
enum { ONE_OP = 25, MASK = 50 };
enum { WIDENED_SECOND = 1024 * 1024 };

static const Module *module_of(const Region *r) { return r->p->m; }

static bool is_wide(const Region *r, uint32_t pos) {
	return last_size(r->p->plan, r->nodes[pos]) > module_of(r)->target->lanes && held_bytes(r, pos) > 0;
}

static bool has_rows(const Region *r, NodeId n) {
	int64_t shape[DIM_MAX] = {0}, rows = 1;
	uint32_t rank = plan_shape(r->p->plan, n, r->p->plan->values[n].form, shape);
	for (uint32_t i = 0; i + 1 < rank; i++)
		rows *= int_max(shape[i], 1);
	return rows > 1;
}

static bool along_lanes(const Region *r, uint32_t pos) { return reduces_lanes(r->p, r->nodes[pos]); }

/* A reduction along lanes, or an unrolled loop with one: straight code too. */
static bool takes_long(const Region *r, uint32_t pos) {
	if (how_of(r, pos) != LOWER_LOOP)
		return along_lanes(r, pos);
	GraphId body = node_arg(module_of(r), r->nodes[pos], 0)->graph;
	if (r->p->plan->loops.at[r->p->plan->loop_of[body]].type != LOOP_UNROLL)
		return false;
	for (NodeId n = graph_first(module_of(r), body); n != NONE; n = node_get(module_of(r), n)->next)
		if (reduces_lanes(r->p, n))
			return true;
	return false;
}

static uint32_t first_input(const Region *r, uint32_t pos) {
	return position(r, node_input(module_of(r), r->nodes[pos], 0));
}

/* Position of the packed load that this widens, and does no more than that; 0. */
static uint32_t widened_load(const Region *r, uint32_t pos) {
	bool widens = false;
	while (pos && rounds_or_views(module_of(r), r->nodes[pos])) {
		widens = widens || node_get(module_of(r), r->nodes[pos])->op == OP_CONVERT;
		pos = first_input(r, pos);
	}
	return pos && widens && is_plain_load(r, pos) && r->narrow[pos] ? pos : 0;
}

/* ---- what waits for what ---------------------------------------------------------------------------------------- */

/* In an unrolled step, of a value that is there before the loop. */
static bool waits_outside(const Region *r, NodeId n) {
	uint32_t l = r->p->plan->loop_of[r->graph];
	return l != NONE && r->p->plan->loops.at[l].type == LOOP_UNROLL && r->reduced[n];
}

static void add_wait(Region *r, uint32_t user, RegionRef operand) {
	uint32_t pos = operand.pos, last = waits_outside(r, operand.node) ? OUTSIDE : 0;
	if (pos)
		last = takes_long(r, pos) ? AFTER(pos) : r->waits[pos];
	if (turns_to_column(r->p, r->nodes[user], operand.node)) {
		last = (uint32_t)int_max(last, OUTSIDE);
		r->turned[user] = true;
	}
	if (r->waits[user] < last)
		r->waits[user] = last;
	r->any_waits = r->any_waits || last;
	r->reduced[r->nodes[user]] = r->waits[user] > 0 || takes_long(r, user);
	if (!pos)
		return;
	r->narrow[user] = r->narrow[user] || (r->narrow[pos] && !along_lanes(r, pos));
	bool leaf = how_of(r, pos) == LOWER_LOAD || region_crosses(r, pos);
	r->leaf[user] = (uint32_t)int_max(r->leaf[user], leaf ? pos : r->leaf[pos]);
	r->computed[user] = r->computed[user] || (how_of(r, pos) != LOWER_LOAD && is_wide(r, pos));
}

/* What a value meets: another wide one that waits for the same, or was there before; a column that waits. */
static void mark_joins(Region *r, uint32_t user, RegionRef operand) {
	uint32_t pos = operand.pos, after = r->waits[user];
	if (!pos && after == OUTSIDE && waits_outside(r, operand.node))
		r->joins_rows[user] = r->joins_rows[user] || has_rows(r, operand.node);
	if (!pos || !after)
		return;
	if (is_wide(r, pos))
		r->joins_wide[user] = r->joins_wide[user] || pos < after || r->waits[pos] == after;
	else if (r->waits[pos] == after || AFTER(pos) == after)
		r->joins_rows[user] = r->joins_rows[user] || has_rows(r, operand.node);
}

/* Columns are turned one after the other: what has met one waits for the next. */
static void add_between(Region *r, uint32_t user, RegionRef operand) {
	uint32_t pos = operand.pos;
	if (!pos || !r->turned[pos] || r->waits[user] != OUTSIDE)
		return;
	for (uint32_t i = 0; i < node_get(module_of(r), r->nodes[user])->arg_count; i++) {
		NodeId n = node_input(module_of(r), r->nodes[user], i);
		uint32_t other = n == NONE ? 0 : position(r, n);
		if (other && other != pos && is_wide(r, other) && r->waits[other] == OUTSIDE)
			r->late_load[OUTSIDE] = int_max(r->late_load[OUTSIDE], held_bytes(r, other));
	}
}

/* What has met one column of outside the unrolled steps waits for the next, of all steps. Measured for softmax in two
 * passes on v6e and v7x: of 4 and 8 steps' tiles [256, 256] half, of 13 of [128, 1280] nine tenths, of 32 tiles one
 * register wide an eighth; of what is widened no more than 1 MiB. */
static int64_t second_size(const Region *r, uint32_t pos, int64_t steps) {
	int64_t bytes = int_min(held_bytes(r, pos), TOO_MUCH / 1024) * steps;
	if (!is_wide(r, pos))
		return bytes / 8;
	if (r->narrow[pos])
		return int_min(bytes / 2, WIDENED_SECOND);
	return steps > 8 ? bytes / 10 * 9 : bytes / 2;
}

static void add_second(Region *r, uint32_t user, RegionRef operand) {
	uint32_t pos = operand.pos, l = r->p->plan->loop_of[r->graph];
	if (!pos || !module_of(r)->target->bf16_vpu || l == NONE || r->waits[pos] != OUTSIDE || r->turned[pos] ||
	    !lowering_streams(how_of(r, pos)))
		return;
	bool second = false;
	for (uint32_t i = 0; i < node_get(module_of(r), r->nodes[user])->arg_count; i++) {
		NodeId n = node_input(module_of(r), r->nodes[user], i);
		second = second || (n != NONE && !position(r, n) && waits_outside(r, value_root(r->p->plan, n)) &&
		                    has_rows(r, n));
	}
	const LoopDim *d = &r->p->plan->loops.at[l].dim[0];
	int64_t steps = int_min(d->full_steps + (d->tail != 0), TOO_MUCH / 1024);
	if (second)
		*r->beside += second_size(r, pos, steps);
}

/* ---- what comes early ------------------------------------------------------------------------------------------- */

static uint32_t only_user(const Region *r, uint32_t pos) {
	const Module *m = module_of(r);
	return node_use_count(m, r->nodes[pos]) == 1 ? r->at[arg_get(m, node_uses(m, r->nodes[pos]))->user] : 0;
}

/* What is computed here is only stored, rounded or not. */
static bool goes_to_store(const Region *r, uint32_t pos) {
	uint32_t user = only_user(r, pos);
	while (user && rounds_or_views(module_of(r), r->nodes[user]))
		user = only_user(r, user);
	return user && how_of(r, user) == LOWER_STORE;
}

/* Percent of the tile that meets the reduction itself, if it is loaded only. */
static int64_t first_share(const Region *r, uint32_t user) {
	uint16_t op = node_get(module_of(r), r->nodes[user])->op;
	bool one_op = op == OP_ADD || op == OP_SUB || op == OP_MUL;
	if (!goes_to_store(r, user) || !(one_op || op == OP_DIV))
		return 100;
	int64_t joined = module_of(r)->target->spills.joined;
	return one_op && r->joins_rows[user] ? int_min(ONE_OP, joined) : joined;
}

/* A mask waits as what is compared, or, of 32-bit loads, as what it is: some bits of each element. */
static int64_t early_mask(const Region *r, uint32_t user, uint32_t pos) {
	int64_t bytes = held_bytes(r, pos);
	if (r->leaf[pos] < r->waits[user])
		return 0;
	if (r->narrow[pos])
		return bytes;
	return r->computed[pos] ? bytes * int_max(module_of(r)->target->spills.late, MASK) / 100 : bytes / 8;
}

static int64_t early_size(const Region *r, uint32_t user, uint32_t pos) {
	const Target *t = module_of(r)->target;
	int64_t bytes = held_bytes(r, pos), wait = r->narrow[pos] ? 100 : t->spills.late;
	bool widened = widened_load(r, pos), loaded = is_plain_load(r, pos);
	if (node_type(module_of(r), r->nodes[pos])->dtype == DTYPE_BOOL)
		return early_mask(r, user, pos);
	if (!widened && !loaded)
		return bytes * wait / 100;
	if (r->joins_wide[user])
		return 0;
	int64_t share = first_share(r, user);
	if (loaded && (share < 100 || r->narrow[pos]))
		return 0;
	return bytes * int_min(share, wait) / 100;
}

/* What is widened once and read twice after the reduction is there twice, as the compiler widens it for each. */
static void add_again(Region *r, uint32_t user, RegionRef operand) {
	uint32_t pos = operand.pos, after = r->waits[user];
	uint32_t from = pos && after && lowering_streams(how_of(r, user)) ? widened_load(r, pos) : 0;
	bool again = from && !r->waits[pos] && r->read_after[pos] == after && r->last_reader[pos] != user;
	if (from) {
		r->read_after[pos] = after;
		r->last_reader[pos] = user;
	}
	if (!again || r->twice[pos])
		return;
	r->twice[pos] = true;
	r->late[after] += pos < after ? held_bytes(r, pos) : 0;
	r->late_load[after] = int_max(r->late_load[after], pos < after ? 0 : held_bytes(r, from));
}

static void add_late(Region *r, uint32_t user, RegionRef operand) {
	uint32_t pos = operand.pos, after = r->waits[user];
	if (!pos || pos < after || r->waits[pos] >= after || r->early[pos] || !lowering_streams(how_of(r, user)) ||
	    how_of(r, pos) == LOWER_FREE || !is_wide(r, pos))
		return;
	r->early[pos] = r->met[after] = true;
	r->late[after] += early_size(r, user, pos);
	uint32_t from = r->joins_wide[user] ? widened_load(r, pos) : 0;
	r->late_load[after] = int_max(r->late_load[after], from ? held_bytes(r, from) : 0);
}

static void each_node(Region *r, Visit *visit) {
	for (uint32_t pos = 1; pos <= r->count; pos++)
		if (r->p->plan->values[r->nodes[pos]].same_as == NONE)
			each_operand(r, pos, visit);
}

void region_late(Region *r) {
	Arena *a = r->p->a;
	r->waits = arena_array(a, r->count + 2, sizeof *r->waits);
	r->leaf = arena_array(a, r->count + 2, sizeof *r->leaf);
	r->computed = arena_array(a, r->count + 2, sizeof *r->computed);
	r->turned = arena_array(a, r->count + 2, sizeof *r->turned);
	r->narrow = arena_array(a, r->count + 2, sizeof *r->narrow);
	r->early = arena_array(a, r->count + 2, sizeof *r->early);
	r->joins_wide = arena_array(a, r->count + 2, sizeof *r->joins_wide);
	r->joins_rows = arena_array(a, r->count + 2, sizeof *r->joins_rows);
	r->read_after = arena_array(a, r->count + 2, sizeof *r->read_after);
	r->last_reader = arena_array(a, r->count + 2, sizeof *r->last_reader);
	r->twice = arena_array(a, r->count + 2, sizeof *r->twice);
	r->met = arena_array(a, AFTER(r->count) + 1, sizeof *r->met);
	r->late = arena_array(a, AFTER(r->count) + 1, sizeof *r->late);
	r->late_load = arena_array(a, AFTER(r->count) + 1, sizeof *r->late_load);
	for (uint32_t pos = 1; pos <= r->count; pos++)
		r->narrow[pos] = how_of(r, pos) == LOWER_LOAD && is_narrow(module_of(r), r->nodes[pos]);
	each_node(r, add_wait);
	if (!r->any_waits)
		return;
	each_node(r, mark_joins);
	each_node(r, add_late);
	each_node(r, add_again);
	each_node(r, add_between);
	each_node(r, add_second);
}
