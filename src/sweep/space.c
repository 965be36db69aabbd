/* space.c - which configurations of a graph there are. */
#include "sweep.h"
#include "src/config/config.h"
#include "src/json/json.h"

/* Orders of loops with more dims than that are not all tried: 24 of 4. */
enum { MOST_ORDERED_DIMS = 4 };
/* Where a block's range is known only as the kernel runs, and the least columns of a long row. */
enum { UNKNOWN_RANGE = 2048, LEAST_COLUMNS = 128 };

/* ---- axes -------------------------------------------------------------------------------------------------------- */

/* Given by --config, --set or the caller, not by the graph alone. */
static bool is_given(const Module *m, int key) {
	const KeyRow *row = &key_rows[key];
	const void *field = key_field(row, &m->config);
	const ConfigOrigin *origin = key_is_list(row)          ? &((const ConfigList *)field)->origin
	                             : row->kind == KEY_ORDERS ? &((const ConfigOrders *)field)->origin
	                                                       : &((const ConfigKey *)field)->origin;
	return key_is_set(row, &m->config) && origin->source != m->source;
}

static Axis *add_axis(ConfigSpace *s, AxisKind kind, int key, uint32_t item, const char *name) {
	Axis axis = {.kind = kind, .row = key < 0 ? NULL : &key_rows[key], .item = item, .name = name};
	vec_push(s->arena, &s->axes, axis);
	return &s->axes.at[s->axes.count - 1];
}

static void add_value(ConfigSpace *s, Axis *axis, int64_t value) { vec_push(s->arena, &axis->values, value); }

/* Powers of two from `low` up to the first that covers the range, or, if `below`, while they are less. */
static void add_powers(ConfigSpace *s, Axis *axis, int64_t low, int64_t range, bool below) {
	int64_t size = low;
	for (; size < range && size <= INT32_MAX / 2; size *= 2)
		add_value(s, axis, size);
	if (!below)
		add_value(s, axis, size);
}

/* The length of a block's range; 0: unknown. */
static int64_t range_of(Module *sized, BlockId b) {
	const Block *block = &sized->blocks.at[b];
	int64_t begin = 0, end = 0;
	bool known = block->extent != NONE && expr_value(sized, block->extent, &end) &&
	             (block->begin == NONE || expr_value(sized, block->begin, &begin));
	return known && end > begin ? end - begin : 0;
}

/* Where messages say that a list of the space stands: as if the graph's configuration had it. */
static ConfigOrigin origin_of(const ConfigSpace *s, int key) {
	return (ConfigOrigin){s->start->source, arena_printf(s->arena, "/config/%s", key_rows[key].name)};
}

static void add_sizes(ConfigSpace *s, Module *sized) {
	ConfigList *list = &s->start->config.block_sizes;
	uint32_t chosen = 0;
	if (s->given[KEY_OF_block_sizes])
		return;
	*list = (ConfigList){.origin = origin_of(s, KEY_OF_block_sizes)};
	for (BlockId b = 0; b < sized->blocks.count; b++) {
		if (!block_is_chosen(&sized->blocks.at[b]))
			continue;
		int64_t range = range_of(sized, b);
		Axis *axis = add_axis(s, AXIS_SIZE, KEY_OF_block_sizes, chosen++, sized->blocks.at[b].name);
		add_powers(s, axis, 1, range ? range : UNKNOWN_RANGE, false);
		vec_push(s->start->arena, &list->values, axis->values.at[0]);
	}
	list->set = chosen > 0;
}

static void add_reductions(ConfigSpace *s, Module *sized) {
	ConfigList *list = &s->start->config.reduction_loops;
	uint32_t reductions = 0;
	if (s->given[KEY_OF_reduction_loops])
		return;
	*list = (ConfigList){.origin = origin_of(s, KEY_OF_reduction_loops)};
	for (BlockId b = 0; b < sized->blocks.count; b++) {
		const Block *block = &sized->blocks.at[b];
		if (!block->reduction)
			continue;
		Axis *axis = add_axis(s, AXIS_REDUCTION, KEY_OF_reduction_loops, reductions++, block->name);
		add_value(s, axis, 0);
		if (block->size == NONE)
			add_powers(s, axis, LEAST_COLUMNS, range_of(sized, b), true);
		vec_push(s->start->arena, &list->values, 0);
	}
	list->set = reductions > 0;
}

static int64_t permutations(uint32_t dims) {
	int64_t count = 1;
	for (uint32_t i = 2; i <= dims && dims <= MOST_ORDERED_DIMS; i++)
		count *= i;
	return count;
}

static void put_order(const Axis *axis, int64_t number, Arena *a, ConfigList *out) {
	uint32_t left[RANK_MAX] = {0}, count = axis->dims;
	for (uint32_t i = 0; i < count; i++)
		left[i] = i;
	out->set = true;
	out->values.count = 0;
	for (int64_t base = permutations(count); count; count--) {
		base = axis->dims <= MOST_ORDERED_DIMS ? base / count : 1;
		uint32_t pick = (uint32_t)(number / base);
		number %= base;
		vec_push(a, &out->values, left[pick]);
		memmove(&left[pick], &left[pick + 1], (count - pick - 1) * sizeof *left);
	}
}

static void add_orders(ConfigSpace *s) {
	ConfigOrders *orders = &s->start->config.loop_orders;
	uint32_t count;
	const GraphId *loops = config_loops(s->start, s->arena, &count);
	if (s->given[KEY_OF_loop_orders])
		return;
	*orders = (ConfigOrders){.set = count > 0, .origin = origin_of(s, KEY_OF_loop_orders)};
	for (uint32_t i = 0; i < count; i++) {
		const char *name = arena_printf(s->arena, "loop_orders[%u]", i);
		Axis *axis = add_axis(s, AXIS_ORDER, KEY_OF_loop_orders, i, name);
		ConfigList first = {.origin = orders->origin};
		axis->dims = graph_get(s->start, loops[i])->blocks.count;
		for (int64_t n = 0; n < permutations(axis->dims); n++)
			add_value(s, axis, n);
		put_order(axis, 0, s->start->arena, &first);
		vec_push(s->start->arena, &orders->values, first);
	}
}

static bool may_have_loops(const ConfigSpace *s) {
	bool rolls = false;
	for (uint32_t i = 0; i < s->axes.count; i++)
		rolls = rolls || (s->axes.at[i].kind == AXIS_REDUCTION && s->axes.at[i].values.count > 1);
	return rolls || module_has_loops(s->start) || s->given[KEY_OF_reduction_loops];
}

static void add_loop_types(ConfigSpace *s) {
	int key = KEY_OF_loop_type;
	if (s->given[key] || !may_have_loops(s))
		return;
	Axis *axis = add_axis(s, AXIS_KEY, key, 0, key_rows[key].name);
	axis->whole = arena_array(s->arena, LOOP_EMIT_PIPELINE + 1, sizeof *axis->whole);
	for (LoopType t = LOOP_UNROLL; t <= LOOP_EMIT_PIPELINE; t++) {
		axis->whole[axis->values.count].loop_type = (ConfigKey){.set = true, .value = (int)t};
		add_value(s, axis, axis->values.count);
	}
}

static void add_tunables(ConfigSpace *s) {
	Module *m = s->start;
	for (uint32_t i = 0; i < m->tunables.count; i++) {
		const Tunable *t = &m->tunables.at[i];
		if (m->config.tunables_given.count > i && m->config.tunables_given.at[i])
			continue;
		Axis *axis = add_axis(s, AXIS_TUNABLE, -1, i, t->name);
		for (uint32_t k = 0; k < t->choices.count; k++)
			add_value(s, axis, t->choices.at[k]);
		if (!t->choices.count)
			add_value(s, axis, m->config.tunables.at[i]);
	}
}

/* ---- what the spec says ------------------------------------------------------------------------------------------ */

typedef struct SpecReader {
	Reader r;
	ConfigSpace *s;
} SpecReader;

static Axis *axis_called(ConfigSpace *s, const char *name) {
	for (uint32_t i = 0; i < s->axes.count; i++)
		if (s->axes.at[i].kind != AXIS_KEY && strcmp(s->axes.at[i].name, name) == 0)
			return &s->axes.at[i];
	return NULL;
}

static const KeyRow *row_called(const char *name) {
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	return NULL;
}

/* All that a member may be called: keys, and blocks and tunables that vary. */
static const char *const *names(const ConfigSpace *s) {
	const char **list = arena_array(s->arena, (size_t)KEY_COUNT + s->axes.count + 1, sizeof *list);
	uint32_t count = 0;
	for (uint32_t i = 0; i < s->axes.count; i++)
		if (s->axes.at[i].kind != AXIS_KEY && s->axes.at[i].kind != AXIS_ORDER)
			list[count++] = s->axes.at[i].name;
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++)
		list[count++] = row->name;
	return list;
}

/* The axes of a key make way for its whole values. */
static void drop_axes(ConfigSpace *s, const KeyRow *row) {
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->axes.count; i++)
		if (s->axes.at[i].row != row)
			s->axes.at[kept++] = s->axes.at[i];
	s->axes.count = kept;
}

/* Sizes of a block, or of columns: ints of at least 1, null for whole rows; a tunable's own choices. */
static void read_numbers(SpecReader *c, Axis *axis, const json_t *v, const Path *at) {
	axis->values.count = 0;
	for (size_t i = 0; i < json_array_size(v); i++) {
		Path item = path_index(at, i);
		const json_t *x = json_array_get(v, i);
		int64_t value = 0;
		bool null = axis->kind == AXIS_REDUCTION && json_is_null(x);
		if (!null && !to_int(&c->r, x, &item, "an int", &value))
			continue;
		bool legal = null || axis->kind == AXIS_TUNABLE || (value >= 1 && value <= INT32_MAX);
		const Tunable *t = axis->kind == AXIS_TUNABLE ? &c->s->start->tunables.at[axis->item] : NULL;
		for (uint32_t k = 0; t && t->choices.count; k++) {
			legal = k < t->choices.count && t->choices.at[k] == value;
			if (legal || k >= t->choices.count)
				break;
		}
		if (legal)
			add_value(c->s, axis, value);
		else
			diag_error(c->r.d, place_at(&c->r, &item), "sweep-space", NULL, "%s cannot be %lld", axis->name,
			           (long long)value);
	}
}

/* Each is read as the configuration that has nothing else. */
static void read_whole(SpecReader *c, const KeyRow *row, const json_t *v, const Path *at) {
	ConfigSpace *s = c->s;
	drop_axes(s, row);
	Axis *axis = add_axis(s, AXIS_KEY, (int)(row - key_rows), 0, row->name);
	axis->whole = arena_array(s->arena, json_array_size(v) + 1, sizeof *axis->whole);
	for (size_t i = 0; i < json_array_size(v); i++) {
		Module *scratch = module_clone(s->start, s->arena);
		Path item = path_index(at, i);
		config_init(scratch);
		config_read_key(&c->r, scratch, row, json_array_get(v, i), &item);
		axis->whole[i] = scratch->config;
		add_value(s, axis, (int64_t)i);
	}
}

static void read_member(SpecReader *c, const char *name, const json_t *v, const Path *at) {
	const KeyRow *row = row_called(name);
	Axis *axis = row ? NULL : axis_called(c->s, name);
	if (!row && !axis)
		diag_error(c->r.d, place_key(&c->r, at), "sweep-space", hint_nearest(&c->r, name, names(c->s)),
		           "'%s' is no configuration key, and no block or tunable that varies", name);
	else if (row && c->s->given[row - key_rows])
		diag_error(c->r.d, place_key(&c->r, at), "sweep-space", "leave one of them out",
		           "%s has one value by the configuration that is given", name);
	else if (read_list(&c->r, v, at, "a list of the values to try") && json_array_size(v) == 0)
		diag_error(c->r.d, place_at(&c->r, at), "sweep-space", "leave it out, or list what to try",
		           "%s has no values", name);
	else if (axis && json_is_array(v))
		read_numbers(c, axis, v, at);
	else if (json_is_array(v))
		read_whole(c, row, v, at);
}

static void spec_body(void *context, json_t *root) {
	SpecReader *c = context;
	Path path = {0};
	const char *name;
	json_t *v;
	if (!json_is_object(root)) {
		expected(&c->r, &path, "an object: the values to try, by key or block", root);
		return;
	}
	json_object_foreach(root, name, v) {
		Path at = path_key(&path, name);
		read_member(c, name, v, &at);
	}
}

static bool read_spec(ConfigSpace *s, Diag *d, const Source *spec) {
	SpecReader c = {.r = reader_of(s->arena, d, spec), .s = s};
	uint32_t errors = d->errors;
	json_t *root = json_read(&c.r);
	if (root)
		json_guard(root, s->arena, spec_body, &c);
	return d->errors == errors;
}

/* ---- the space --------------------------------------------------------------------------------------------------- */

static uint64_t product(const ConfigSpace *s) {
	uint64_t size = 1;
	for (uint32_t i = 0; i < s->axes.count; i++)
		if (__builtin_mul_overflow(size, (uint64_t)s->axes.at[i].values.count, &size))
			return UINT64_MAX;
	return size;
}

/* Sizes for what depends on them; a graph without defaults that fit has none, and ranges that depend on sizes are then
 * unknown. */
static Module *with_sizes(const ConfigSpace *s) {
	Module *sized = module_clone(s->start, s->arena);
	Diag quiet;
	diag_init(&quiet, s->arena);
	sized->config.block_sizes.set = s->given[KEY_OF_block_sizes];
	if (!sized->config.block_sizes.set)
		sized->config.block_sizes.values.count = 0;
	module_configure(sized, &quiet);
	return sized;
}

ConfigSpace *space_new(Arena *a, Diag *d, Module *m, const CompileOptions *options, const Source *spec, uint64_t sample,
                       uint64_t seed) {
	ConfigSpace *s = arena_alloc(a, sizeof *s);
	*s = (ConfigSpace){.arena = a, .start = m, .seed = seed};
	m->target = options->target;
	if (!compile_read_configuration(options, m, d))
		return NULL;
	for (int key = 0; key < KEY_COUNT; key++)
		s->given[key] = is_given(m, key);
	Module *sized = with_sizes(s);
	add_sizes(s, sized);
	add_reductions(s, sized);
	add_orders(s);
	add_tunables(s);
	add_loop_types(s);
	if (spec && !read_spec(s, d, spec))
		return NULL;
	s->size = product(s);
	s->count = sample && sample < s->size ? sample : s->size;
	return s;
}

/* splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t mixed(uint64_t x) {
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Part i of `count` parts that differ by one in length at most. */
static uint64_t part_begin(const ConfigSpace *s, uint64_t i) {
	uint64_t length = s->size / s->count, longer = s->size % s->count;
	return i * length + (i < longer ? i : longer);
}

uint64_t space_number(const ConfigSpace *s, uint64_t i) {
	if (s->count == s->size)
		return i;
	uint64_t begin = part_begin(s, i), length = part_begin(s, i + 1) - begin;
	return begin + mixed(mixed(s->seed) ^ i) % length;
}

static void copy_field(const KeyRow *row, const Config *from, Config *to) {
	const void *field = key_field(row, from);
	if (key_is_list(row))
		*(ConfigList *)key_field(row, to) = *(const ConfigList *)field;
	else if (row->kind == KEY_ORDERS)
		*(ConfigOrders *)key_field(row, to) = *(const ConfigOrders *)field;
	else
		*(ConfigKey *)key_field(row, to) = *(const ConfigKey *)field;
}

static void apply(const Axis *axis, int64_t value, Module *m) {
	Config *c = &m->config;
	switch (axis->kind) {
	case AXIS_SIZE: c->block_sizes.values.at[axis->item] = value; break;
	case AXIS_REDUCTION: c->reduction_loops.values.at[axis->item] = value; break;
	case AXIS_ORDER: put_order(axis, value, m->arena, &c->loop_orders.values.at[axis->item]); break;
	case AXIS_TUNABLE: c->tunables.at[axis->item] = value; break;
	case AXIS_KEY: copy_field(axis->row, &axis->whole[value], c); break;
	}
}

void space_apply(const ConfigSpace *s, uint64_t number, Module *m) {
	for (uint32_t i = s->axes.count; i-- > 0;) {
		const Axis *axis = &s->axes.at[i];
		apply(axis, axis->values.at[number % axis->values.count], m);
		number /= axis->values.count;
	}
}

void space_put(const ConfigSpace *s, const Module *m, Text *out) {
	const Config *c = &m->config;
	bool first = true;
	text_put(out, "{");
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++) {
		if (!key_is_set(row, c))
			continue;
		text_put(out, first ? "" : ", ");
		text_put_json(out, row->name);
		text_put(out, ": ");
		key_put(row, c, true, out);
		first = false;
	}
	for (uint32_t i = 0; i < s->start->tunables.count; i++) {
		text_put(out, first ? "" : ", ");
		text_put_json(out, s->start->tunables.at[i].name);
		text_printf(out, ": %lld", (long long)c->tunables.at[i]);
		first = false;
	}
	text_put(out, "}");
}
