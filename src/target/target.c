/* target.c - chips: the built-in rows (targets.def), and target files that give another. */
#include "target.h"
#include "src/json/json.h"

#define KIB INT64_C(1024)
#define MIB (KIB * 1024)

static const Target rows[] = {
#define TARGET(name_, kind_, topology_, vmem_, smem_, mxu_, clock_, hbm_, flops_, cores_, vpu_, buffer_, tile_,        \
               splits_, ...)                                                                                           \
	{.name = name_,                                                                                                \
	 .device_kind = kind_,                                                                                         \
	 .topology = topology_,                                                                                        \
	 .vmem_bytes = vmem_,                                                                                          \
	 .smem_bytes = smem_,                                                                                          \
	 .lanes = 128,                                                                                                 \
	 .sublanes = 8,                                                                                                \
	 .mxu_size = mxu_,                                                                                             \
	 .clock_hz = clock_,                                                                                           \
	 .hbm_bytes_per_s = hbm_,                                                                                      \
	 .bf16_flops = flops_,                                                                                         \
	 .tensorcores = cores_,                                                                                        \
	 .bf16_vpu = vpu_,                                                                                             \
	 .result_buffer = buffer_,                                                                                     \
	 .tile = tile_,                                                                                                \
	 .splits_grid = splits_,                                                                                       \
	 .spills = {__VA_ARGS__}},
#include "targets.def"
#undef TARGET
};

static const char *const names[] = {
#define TARGET(name_, ...) name_,
#include "targets.def"
#undef TARGET
	NULL};

/* A file that has no base and says nothing of the cap gets this one. */
enum { DEFAULT_TILE_ELEMENTS = 1048576 };

const Target *target_find(const char *name) {
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

const Target *target_rows(size_t *count) {
	*count = sizeof rows / sizeof *rows;
	return rows;
}

const char *const *target_names(void) { return names; }

/* ---- target files ----------------------------------------------------------------------------------------------- */

/* clang-format off */
/* The fields of TargetSpills. */
#define SPILLS(X)                                                                                                      \
	X(tiles) X(columns) X(loads) X(results) X(parts) X(factors) X(steps) X(late) X(joined) X(squares) X(second)    \
	X(rows) X(spread) X(turning)

#define KEY(name) "spill_" #name,
static const char *const fields[] = {"base",        "name",          "device_kind",       "topology",
                                     "vmem_bytes",  "smem_bytes",    "max_tile_elements", "lanes",
                                     "sublanes",    "mxu_size",      "clock_hz",          "hbm_bytes_per_s",
                                     "bf16_flops",  "tensorcores",   "bf16_vpu",          "result_buffer",
                                     "tile_rows",   "splits_grid",   SPILLS(KEY)          NULL};
#undef KEY
/* clang-format on */

typedef struct TargetJob {
	Reader r;
	Target target;
	bool based; /* fields may be left out */
} TargetJob;

static void read_text(TargetJob *j, const json_t *root, const char *key, const Path *path, const char **out) {
	const char *text;
	if (get_string(&j->r, root, key, path, !j->based, &text))
		*out = arena_strdup(j->r.arena, text);
}

static void read_count(TargetJob *j, const json_t *root, const char *key, const Path *path, int64_t *out) {
	int64_t value;
	Path at = path_key(path, key);
	if (!get_int(&j->r, root, key, path, !j->based, &value))
		return;
	if (value < 1)
		diag_error(j->r.d, place_at(&j->r, &at), "target-value", NULL, "'%s' must be positive, found %lld", key,
		           (long long)value);
	else
		*out = value;
}

static void read_rate(TargetJob *j, const json_t *root, const char *key, const Path *path, double *out) {
	Path at = path_key(path, key);
	const json_t *v = j->based ? json_object_get(root, key) : need(&j->r, root, key, path, "the target");
	if (!v)
		return;
	if (!json_is_number(v) || json_number_value(v) <= 0)
		expected(&j->r, &at, "a positive number", v);
	else
		*out = json_number_value(v);
}

/* Absent: the base's, or the most that any chip spills. */
static void read_spills(TargetJob *j, const json_t *root, const Path *path) {
	static const struct {
		const char *key;
		size_t at;
	} field[] = {
#define FIELD(name) {"spill_" #name, offsetof(TargetSpills, name)},
		SPILLS(FIELD)
#undef FIELD
	};
	for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
		int64_t *value = (int64_t *)((char *)&j->target.spills + field[i].at);
		for (size_t row = 0; row < sizeof rows / sizeof *rows && !j->based; row++)
			*value = int_max(*value, *(const int64_t *)((const char *)&rows[row].spills + field[i].at));
		if (json_object_get(root, field[i].key))
			read_count(j, root, field[i].key, path, value);
	}
}

/* Absent: the base's, or the default cap. null: none. */
static void read_cap(TargetJob *j, const json_t *root, const Path *path) {
	const json_t *v = json_object_get(root, "max_tile_elements");
	if (!v)
		j->target.max_tile_elements = j->based ? j->target.max_tile_elements : DEFAULT_TILE_ELEMENTS;
	else if (json_is_null(v))
		j->target.max_tile_elements = 0;
	else
		read_count(j, root, "max_tile_elements", path, &j->target.max_tile_elements);
}

/* Four numbers, for elements of 32, 16, 8 and 4 bits. */
static void read_widths(TargetJob *j, const json_t *rows, const char *key, const Path *path, int64_t least,
                        int64_t *out) {
	const json_t *list = json_object_get(rows, key);
	Path at = path_key(path, key);
	if (!list)
		return;
	bool good = json_is_array(list) && json_array_size(list) == TILE_WIDTHS;
	for (size_t i = 0; good && i < TILE_WIDTHS; i++) {
		const json_t *v = json_array_get(list, i);
		good = json_is_integer(v) && json_integer_value(v) >= least && json_integer_value(v) <= 4096;
		out[i] = good ? json_integer_value(v) : least;
	}
	if (!good)
		expected(&j->r, &at,
		         least ? "four numbers from 1 to 4096, for 32, 16, 8 and 4 bits"
		               : "four numbers from 0 to 4096, for 32, 16, 8 and 4 bits",
		         list);
}

/* {"copy": {"wide": [8, 8, 32, 64], ...}, ...}: what is left out stays as it is on a TPU. */
static void read_tile_rows(TargetJob *j, const json_t *root, const Path *path) {
	static const char *const uses[] = {"block", "copy", "clipped", "slice", NULL};
	static const char *const kinds[] = {"wide", "narrow", "powers", NULL};
	const json_t *tile = json_object_get(root, "tile_rows");
	Path at = path_key(path, "tile_rows");
	if (!tile || !read_object(&j->r, tile, &at, "tile_rows", uses))
		return;
	for (int use = 0; use < TILE_USES; use++) {
		const json_t *rows = json_object_get(tile, uses[use]);
		Path use_at = path_key(&at, uses[use]);
		TileRows *out = &j->target.tile[use];
		if (!rows || !read_object(&j->r, rows, &use_at, uses[use], kinds))
			continue;
		read_widths(j, rows, "wide", &use_at, 1, out->wide);
		read_widths(j, rows, "narrow", &use_at, 1, out->narrow);
		read_widths(j, rows, "powers", &use_at, 0, out->powers);
	}
}

static void read_base(TargetJob *j, const json_t *root, const Path *path) {
	const char *base;
	Path at = path_key(path, "base");
	if (!get_string(&j->r, root, "base", path, false, &base))
		return;
	const Target *row = target_find(base);
	j->based = true;
	if (row)
		j->target = *row;
	else
		diag_error(j->r.d, place_at(&j->r, &at), "unknown-target", hint_nearest(&j->r, base, names),
		           "there is no target '%s'", base);
}

/* Names stand in the emitted module's text and in messages: letters, digits and a few signs. */
static void check_name(TargetJob *j, const char *field, const char *value) {
	static const char signs[] = "_.:+- ";
	Path path = {0}, at = path_key(&path, field);
	bool good = value && *value && strlen(value) <= 64;
	for (const char *c = value; good && *c; c++)
		good = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
		       strchr(signs, *c);
	if (value && !good)
		diag_error(j->r.d, place_at(&j->r, &at), "bad-name",
		           "letters, digits, spaces and _ . : + - only, at most 64",
		           "the target's %s is not a plain name", field);
}

static void target_body(void *context, json_t *root) {
	TargetJob *j = context;
	Target *t = &j->target;
	Path path = {0};
	int64_t cores = 1;
	if (!read_object(&j->r, root, &path, "the target", fields))
		return;
	read_base(j, root, &path);
	cores = t->tensorcores ? t->tensorcores : 1;
	read_text(j, root, "name", &path, &t->name);
	read_text(j, root, "device_kind", &path, &t->device_kind);
	read_text(j, root, "topology", &path, &t->topology);
	check_name(j, "name", t->name);
	check_name(j, "device_kind", t->device_kind);
	check_name(j, "topology", t->topology);
	read_count(j, root, "vmem_bytes", &path, &t->vmem_bytes);
	read_count(j, root, "smem_bytes", &path, &t->smem_bytes);
	read_cap(j, root, &path);
	read_spills(j, root, &path);
	read_count(j, root, "lanes", &path, &t->lanes);
	read_count(j, root, "sublanes", &path, &t->sublanes);
	read_tile_rows(j, root, &path);
	read_count(j, root, "mxu_size", &path, &t->mxu_size);
	read_rate(j, root, "clock_hz", &path, &t->clock_hz);
	read_rate(j, root, "hbm_bytes_per_s", &path, &t->hbm_bytes_per_s);
	read_rate(j, root, "bf16_flops", &path, &t->bf16_flops);
	read_count(j, root, "tensorcores", &path, &cores);
	t->tensorcores = (int)int_min(cores, 64);
	get_bool(&j->r, root, "splits_grid", &path, &t->splits_grid);
	get_bool(&j->r, root, "result_buffer", &path, &t->result_buffer);
	if (!get_bool(&j->r, root, "bf16_vpu", &path, &t->bf16_vpu) && !j->based)
		need(&j->r, root, "bf16_vpu", &path, "the target");
}

const Target *target_load(Arena *a, Diag *d, const Source *source) {
	TargetJob *j = arena_alloc(a, sizeof *j);
	uint32_t errors = d->errors;
	j->r = (Reader){.arena = a, .d = d, .source = source};
	memcpy(j->target.tile, rows[0].tile, sizeof rows[0].tile); /* what a file leaves out: the same on every TPU */
	json_t *root = json_read(&j->r);
	if (root)
		json_guard(root, a, target_body, j);
	return d->errors == errors ? &j->target : NULL;
}

static int width_index(int bits) { return bits >= 32 ? 0 : bits >= 16 ? 1 : bits >= 8 ? 2 : 3; }

int64_t target_block_multiple(const Target *t, int bits, uint32_t rank, uint32_t dim) {
	if (rank == 1)
		return t->lanes * 32 / int_min(bits, 32);
	return dim + 1 == rank ? t->lanes : dim + 2 == rank ? t->tile[TILE_BLOCK].wide[width_index(bits)] : 1;
}

int64_t target_row_multiple(const Target *t, TileUse use, int bits, int64_t width) {
	const TileRows *rows = &t->tile[use];
	return (width <= t->lanes ? rows->narrow : rows->wide)[width_index(bits)];
}

bool target_takes_rows(const Target *t, TileUse use, int bits, int64_t width, int64_t rows) {
	if (rows % target_row_multiple(t, use, bits, width) == 0)
		return true;
	return rows > 0 && (rows & (rows - 1)) == 0 && (t->tile[use].powers[width_index(bits)] & rows) != 0;
}

int64_t target_packed_rows(const Target *t, int bits) { return t->sublanes * 32 / int_min(bits, 32); }
