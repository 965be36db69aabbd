/* adapt.c - --adapt: the nearest configuration that is accepted, in place of one that is refused.
 *
 * A configuration is compiled on a clone; the first error says what may change. Where it points at a key, the key is
 * left out. Where VMEM is short, a block is halved; where a block does not fit its tensors, it becomes the next power
 * of two, up or down. Each such change takes one step away from what was asked for, and configurations are tried in the
 * order of their distance, of equal ones the first that was found; the last tries halve the largest block each time.
 * What is wrong with the graph itself stays refused: no change helps, and the first refusal is the one that is said.
 *
 *     block_sizes [16, 4096]        refused: blocks are multiples of 128
 *       [32, 4096], [8, 4096]       refused
 *       ...
 *       [128, 4096]                 refused: VMEM
 *       [128, 2048]                 accepted */
#include "choose.h"
#include "src/config/config.h"

enum {
	MOST_TRIES = 96,   /* of configurations */
	NEAREST_TRIES = 64 /* of them by distance */
};

/* A configuration, by what differs from the one that was asked for. */
typedef struct Candidate {
	int64_t *sizes;   /* of the chosen blocks, in id order */
	const char **why; /* by chosen block, then by key: what the refusal said that it was changed for; NULL: not */
	bool dropped[KEY_COUNT];
	uint32_t distance;
	bool tried;
} Candidate;

typedef struct Adapting {
	Compilation *c;
	uint32_t blocks; /* chosen ones */
	BlockId *block;
	VEC(Candidate) candidates;
	uint32_t tries;
} Adapting;

/* ---- a candidate ------------------------------------------------------------------------------------------------- */

static void drop_key(Config *config, uint32_t key) {
	const KeyRow *row = &key_rows[key];
	*(bool *)key_field(row, config) = false;
	if (key_is_list(row))
		((ConfigList *)key_field(row, config))->values.count = 0;
	else if (row->kind == KEY_ORDERS)
		((ConfigOrders *)key_field(row, config))->values.count = 0;
	else
		((ConfigKey *)key_field(row, config))->value = row->fallback;
}

static void apply(const Adapting *a, const Candidate *x, Module *m) {
	ConfigList *sizes = &m->config.block_sizes;
	for (uint32_t i = 0; sizes->set && i < sizes->values.count && i < a->blocks; i++)
		sizes->values.at[i] = x->sizes[i];
	for (uint32_t k = 0; k < KEY_COUNT; k++)
		if (x->dropped[k])
			drop_key(&m->config, k);
}

/* What is wrong with it; NULL: nothing. */
static const Diagnostic *refusal(Adapting *a, const Candidate *x) {
	Arena *arena = a->c->arena;
	CompileOptions options = *a->c->options;
	Diag *quiet = arena_alloc(arena, sizeof *quiet);
	Compilation trial;
	diag_init(quiet, arena);
	options.hooks = NULL;
	options.explain = false;
	compile_init(&trial, &options, arena, quiet, module_clone(a->c->module, arena));
	apply(a, x, trial.module);
	a->tries++;
	if (compile_configured(&trial) && compile_plan(&trial))
		return NULL;
	for (uint32_t i = 0; i < quiet->list.count; i++)
		if (quiet->list.at[i].severity == SEVERITY_ERROR)
			return &quiet->list.at[i];
	return NULL;
}

static bool same(const Adapting *a, const Candidate *x, const Candidate *y) {
	return memcmp(x->dropped, y->dropped, sizeof x->dropped) == 0 &&
	       (a->blocks == 0 || memcmp(x->sizes, y->sizes, a->blocks * sizeof *x->sizes) == 0);
}

static Candidate copy_of(const Adapting *a, const Candidate *x) {
	Candidate copy = *x;
	Arena *arena = a->c->arena;
	copy.sizes = arena_copy(arena, x->sizes, (size_t)a->blocks + 1, sizeof *x->sizes);
	copy.why = arena_copy(arena, x->why, (size_t)a->blocks + KEY_COUNT, sizeof *x->why);
	copy.tried = false;
	copy.distance++;
	return copy;
}

static void add(Adapting *a, const Candidate *x) {
	for (uint32_t i = 0; i < a->candidates.count; i++)
		if (same(a, &a->candidates.at[i], x))
			return;
	vec_push(a->c->arena, &a->candidates, *x);
}

/* ---- what a refusal suggests ------------------------------------------------------------------------------------- */

static const ConfigOrigin *origin_of(const KeyRow *row, const Config *c) {
	if (row->kind == KEY_ORDERS)
		return &((const ConfigOrders *)key_field(row, c))->origin;
	return key_is_list(row) ? &((const ConfigList *)key_field(row, c))->origin
	                        : &((const ConfigKey *)key_field(row, c))->origin;
}

/* The key at which it points, or whose entry it points at; KEY_COUNT: none. */
static uint32_t key_at(const Adapting *a, const Diagnostic *d) {
	const Config *config = &a->c->module->config;
	for (uint32_t k = 0; k < KEY_COUNT; k++) {
		const ConfigOrigin *o = origin_of(&key_rows[k], config);
		if (!key_is_set(&key_rows[k], config) || !d->at.pointer || !o->pointer || d->at.source != o->source)
			continue;
		size_t n = strlen(o->pointer);
		if (strncmp(d->at.pointer, o->pointer, n) == 0 && (d->at.pointer[n] == '\0' || d->at.pointer[n] == '/'))
			return k;
	}
	return KEY_COUNT;
}

static void leave_out(Adapting *a, const Candidate *x, uint32_t key, const char *why) {
	if (x->dropped[key] || !key_is_set(&key_rows[key], &a->c->module->config))
		return;
	Candidate next = copy_of(a, x);
	next.dropped[key] = true;
	next.why[a->blocks + key] = why;
	add(a, &next);
}

int64_t power_beside(int64_t size, bool up) {
	int64_t power = 1;
	while (up ? power <= size : power * 2 < size)
		power *= 2;
	return power;
}

static void resize(Adapting *a, const Candidate *x, uint32_t i, bool up, const char *why) {
	int64_t size = power_beside(x->sizes[i], up);
	if (x->sizes[i] <= 1 && !up)
		return;
	if (size > INT32_MAX)
		return;
	Candidate next = copy_of(a, x);
	next.sizes[i] = size;
	next.why[i] = next.why[i] ? next.why[i] : why;
	add(a, &next);
}

static bool has_sizes(const Adapting *a, const Candidate *x) {
	return a->c->module->config.block_sizes.set && !x->dropped[KEY_OF_block_sizes];
}

static void suggest(Adapting *a, const Candidate *x, const Diagnostic *d) {
	const char *why = d->message;
	bool vmem = refused_for_vmem(d);
	uint32_t key = key_at(a, d);
	if (key != KEY_COUNT && !vmem) {
		leave_out(a, x, key, why);
		return;
	}
	for (uint32_t i = 0; has_sizes(a, x) && i < a->blocks; i++) {
		if (!vmem)
			resize(a, x, i, true, why);
		resize(a, x, i, false, why);
	}
	leave_out(a, x, KEY_OF_loop_type, why);
	leave_out(a, x, KEY_OF_reduction_loops, why);
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

static Candidate *nearest(const Adapting *a) {
	Candidate *best = NULL;
	for (uint32_t i = 0; i < a->candidates.count; i++) {
		Candidate *x = &a->candidates.at[i];
		if (!x->tried && (!best || x->distance < best->distance))
			best = x;
	}
	return best;
}

/* The largest block that may still be halved; NONE. */
static uint32_t largest_of(const Adapting *a, const Candidate *x, uint64_t kept) {
	uint32_t largest = NONE;
	for (uint32_t i = 0; i < a->blocks && i < 64; i++)
		if (!(kept >> i & 1) && x->sizes[i] > 1 && (largest == NONE || x->sizes[i] > x->sizes[largest]))
			largest = i;
	return largest;
}

/* Far below what was asked for: the largest block is halved each time, as long as its tensors take it. */
static bool shrink_all(Adapting *a, Candidate *x) {
	uint64_t kept = 0;
	const Diagnostic *d = refusal(a, x);
	while (d && refused_for_vmem(d) && has_sizes(a, x) && a->tries < MOST_TRIES) {
		uint32_t i = largest_of(a, x, kept);
		if (i == NONE)
			return false;
		int64_t size = x->sizes[i];
		const char *why = x->why[i];
		x->sizes[i] = power_beside(size, false);
		x->why[i] = why ? why : d->message;
		const Diagnostic *next = refusal(a, x);
		if (next && !refused_for_vmem(next)) {
			x->sizes[i] = size;
			x->why[i] = why;
			kept |= UINT64_C(1) << i;
			continue;
		}
		d = next;
	}
	return !d;
}

/* False: none is accepted. `found` is asked for, if nothing is wrong with it. */
static bool search(Adapting *a, Candidate *found) {
	Candidate large = {.distance = UINT32_MAX}; /* the nearest one that only VMEM is too small for */
	for (Candidate *x; (x = nearest(a)) && a->tries < NEAREST_TRIES;) {
		x->tried = true;
		*found = *x;
		const Diagnostic *d = refusal(a, found);
		if (!d)
			return true;
		if (refused_for_vmem(d) && found->distance < large.distance)
			large = *found;
		suggest(a, found, d);
	}
	*found = large.sizes ? copy_of(a, &large) : a->candidates.at[0];
	return large.sizes && shrink_all(a, found);
}

/* ---- what was changed -------------------------------------------------------------------------------------------- */

static Place place_of(const ConfigOrigin *o) { return (Place){.source = o->source, .pointer = o->pointer}; }

static void say(const Adapting *a, const Candidate *x) {
	const Module *m = a->c->module;
	const ConfigList *sizes = &m->config.block_sizes;
	for (uint32_t i = 0; i < a->blocks && has_sizes(a, x); i++) {
		int64_t asked = sizes->values.at[i];
		if (asked != x->sizes[i])
			diag_note(a->c->diag, config_list_place(a->c->diag, sizes->origin, i), "config-adapted", NULL,
			          "block %lld of %s %s to %lld, because %s", (long long)asked,
			          m->blocks.at[a->block[i]].name, x->sizes[i] > asked ? "raised" : "lowered",
			          (long long)x->sizes[i], x->why[i]);
	}
	for (uint32_t k = 0; k < KEY_COUNT; k++)
		if (x->dropped[k])
			diag_note(a->c->diag, place_of(origin_of(&key_rows[k], &m->config)), "config-adapted", NULL,
			          "%s left out, because %s", key_rows[k].name, x->why[a->blocks + k]);
}

static void start(Adapting *a, Compilation *c) {
	const Module *m = c->module;
	const ConfigList *sizes = &m->config.block_sizes;
	*a = (Adapting){.c = c};
	a->block = arena_array(c->arena, (size_t)m->blocks.count + 1, sizeof *a->block);
	for (BlockId b = 0; b < m->blocks.count; b++)
		if (block_is_chosen(&m->blocks.at[b]) && sizes->set && a->blocks < sizes->values.count)
			a->block[a->blocks++] = b;
	Candidate asked = {.sizes = arena_array(c->arena, (size_t)a->blocks + 1, sizeof *asked.sizes)};
	asked.why = arena_array(c->arena, (size_t)a->blocks + KEY_COUNT, sizeof *asked.why);
	for (uint32_t i = 0; i < a->blocks; i++)
		asked.sizes[i] = sizes->values.at[i];
	vec_push(c->arena, &a->candidates, asked);
}

void compile_adapt(Compilation *c) {
	Adapting a;
	Candidate found;
	start(&a, c);
	if (search(&a, &found)) {
		say(&a, &found);
		apply(&a, &found, c->module);
		return;
	}
	diag_note(c->diag, diag_place(c->diag, c->module->source, "/config"), "config-adapted", NULL,
	          "none of %u configurations near this one is accepted", a.tries);
}
