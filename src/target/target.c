/* target.c - chips: the built-in ones (targets.def), target files that give another, and how either is printed. */
#include "target.h"
#include "src/json/json.h"

#define KIB INT64_C(1024)
#define MIB (KIB * 1024)

static const Target rows[] = {
#define TARGET(name_, ...) {.name = #name_, __VA_ARGS__},
#include "targets.def"
#undef TARGET
};

static const char *const names[] = {
#define TARGET(name_, ...) #name_,
#include "targets.def"
#undef TARGET
	NULL};

/* Where neither a file nor its base says a field; else the value that holds. */
enum { NEEDED = -1, MOST = -2, OF_FIRST = -3 };

typedef struct Field {
	const char *name;
	FieldKind kind;
	size_t offset;
	double low, high;
	int64_t absent;
} Field;

static const Field fields[] = {
#define FIELD(name_, kind_, unit_, low_, high_, absent_, about_)                                                       \
	{#name_, FIELD_##kind_, offsetof(Target, name_), (double)(low_), (double)(high_), absent_},
#include "target_fields.def"
#undef FIELD
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static void *field_of(const Field *f, const Target *t) { return (char *)(uintptr_t)t + f->offset; }

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

const Target *target_known(Arena *a, Diag *d, const Source *source, const char *name) {
	const Target *target = target_find(name);
	const char *near = target ? NULL : name_nearest(name, target_names());
	if (!target)
		diag_error(d, (Place){.source = source}, "unknown-target",
		           near ? arena_printf(a, "did you mean '%s'?", near) : "name a chip, or give a target file",
		           "there is no target '%s'", name);
	return target;
}

/* ---- target files ----------------------------------------------------------------------------------------------- */

static const char *const members[] = {"base",
#define FIELD(name_, ...) #name_,
#include "target_fields.def"
#undef FIELD
                                      NULL};

static const char *const tile_uses[] = {"block", "copy", "clipped", "slice", "copy_out", "slice_out", NULL};
static const char *const tile_kinds[] = {"wide", "narrow", "powers", NULL};

typedef struct TargetJob {
	Reader r;
	Target target;
	bool based;   /* fields may be left out */
	Text lacking; /* names of fields that may not be, and are */
	uint32_t lacks;
} TargetJob;

static void out_of_range(TargetJob *j, const Field *f, const json_t *v, const Path *at) {
	diag_error(j->r.d, place_at(&j->r, at), "target-value", NULL, "'%s' must be %s from %.15g to %.15g, found %s",
	           f->name, f->kind == FIELD_NUMBER ? "a number" : "an int", f->low, f->high, json_describe(&j->r, v));
}

/* Names stand in the emitted module's text and in messages: letters, digits and a few signs. */
static void read_text(TargetJob *j, const Field *f, const json_t *v, const Path *at) {
	static const char signs[] = ".:+- ";
	const char *text = json_string_value(v);
	if (!text) {
		expected(&j->r, at, "a string", v);
		return;
	}
	bool good = *text && strlen(text) <= (size_t)f->high;
	for (const char *c = text; good && *c; c++)
		good = is_letter(*c) || is_digit(*c) || strchr(signs, *c);
	*(const char **)field_of(f, &j->target) = arena_strdup(j->r.arena, text);
	if (!good)
		diag_error(j->r.d, place_at(&j->r, at), "bad-name",
		           "letters, digits, spaces and _ . : + - only, at most 64",
		           "the target's %s is not a plain name", f->name);
}

static void read_int(TargetJob *j, const Field *f, const json_t *v, const Path *at) {
	if (f->kind == FIELD_CAP && json_is_null(v))
		*(int64_t *)field_of(f, &j->target) = 0;
	else if (!json_is_integer(v) || (double)json_integer_value(v) < f->low ||
	         (double)json_integer_value(v) > f->high)
		out_of_range(j, f, v, at);
	else
		*(int64_t *)field_of(f, &j->target) = json_integer_value(v);
}

static void read_number(TargetJob *j, const Field *f, const json_t *v, const Path *at) {
	if (!json_is_number(v) || json_number_value(v) < f->low || json_number_value(v) > f->high)
		out_of_range(j, f, v, at);
	else
		*(double *)field_of(f, &j->target) = json_number_value(v);
}

static void read_flag(TargetJob *j, const Field *f, const json_t *v, const Path *at) {
	if (!json_is_boolean(v))
		expected(&j->r, at, "true or false", v);
	else
		*(bool *)field_of(f, &j->target) = json_is_true(v);
}

/* The lists of a TileRows, as tile_kinds has them; `least`: what their numbers are at least. */
static int64_t *widths_of(const TileRows *rows, int kind, int64_t *least) {
	*least = kind < 2;
	return (int64_t *)(uintptr_t)(kind == 0 ? rows->wide : kind == 1 ? rows->narrow : rows->powers);
}

/* Four numbers, for elements of 32, 16, 8 and 4 bits. */
static void read_widths(TargetJob *j, const Field *f, const json_t *list, const Path *at, int64_t least, int64_t *out) {
	bool good = json_is_array(list) && json_array_size(list) == TILE_WIDTHS;
	for (size_t i = 0; good && i < TILE_WIDTHS; i++) {
		const json_t *v = json_array_get(list, i);
		good = json_is_integer(v) && json_integer_value(v) >= least &&
		       json_integer_value(v) <= (int64_t)f->high;
		out[i] = good ? json_integer_value(v) : least;
	}
	if (!good)
		expected(&j->r, at,
		         arena_printf(j->r.arena, "four numbers from %lld to %.15g, for 32, 16, 8 and 4 bits",
		                      (long long)least, f->high),
		         list);
}

/* {"copy": {"wide": [8, 8, 32, 64], ...}, ...}: what is left out stays as it is. */
static void read_tiles(TargetJob *j, const Field *f, const json_t *v, const Path *at) {
	TileRows *tiles = field_of(f, &j->target);
	if (!read_object(&j->r, v, at, f->name, tile_uses))
		return;
	for (int use = 0; use < TILE_USES; use++) {
		const json_t *rows = json_object_get(v, tile_uses[use]);
		Path use_at = path_key(at, tile_uses[use]);
		if (!rows || !read_object(&j->r, rows, &use_at, tile_uses[use], tile_kinds))
			continue;
		for (int kind = 0; tile_kinds[kind]; kind++) {
			const json_t *list = json_object_get(rows, tile_kinds[kind]);
			Path list_at = path_key(&use_at, tile_kinds[kind]);
			int64_t least, *out = widths_of(&tiles[use], kind, &least);
			if (list)
				read_widths(j, f, list, &list_at, least, out);
		}
	}
}

/* What holds where nobody says the field. */
static void set_absent(TargetJob *j, const Field *f) {
	void *out = field_of(f, &j->target);
	if (f->absent == NEEDED)
		text_printf(&j->lacking, "%s'%s'", j->lacks++ ? ", " : "", f->name);
	else if (f->absent == OF_FIRST)
		memcpy(out, field_of(f, &rows[0]), sizeof rows[0].tile_rows);
	else if (f->kind == FIELD_FLAG)
		*(bool *)out = f->absent;
	else if (f->absent != MOST)
		*(int64_t *)out = f->absent;
	for (size_t i = 0; f->absent == MOST && i < sizeof rows / sizeof *rows; i++)
		*(int64_t *)out = int_max(*(int64_t *)out, *(int64_t *)field_of(f, &rows[i]));
}

static void read_field(TargetJob *j, const Field *f, const json_t *root, const Path *path) {
	const json_t *v = json_object_get(root, f->name);
	Path at = path_key(path, f->name);
	if (json_is_null(v) && f->kind != FIELD_CAP)
		v = NULL;
	if (!j->based && (!v || f->kind == FIELD_TILES))
		set_absent(j, f);
	if (!v)
		return;
	switch (f->kind) {
	case FIELD_TEXT: read_text(j, f, v, &at); break;
	case FIELD_INT:
	case FIELD_CAP: read_int(j, f, v, &at); break;
	case FIELD_NUMBER: read_number(j, f, v, &at); break;
	case FIELD_FLAG: read_flag(j, f, v, &at); break;
	case FIELD_TILES: read_tiles(j, f, v, &at); break;
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

static void target_body(void *context, json_t *root) {
	TargetJob *j = context;
	Path path = {0};
	if (!read_object(&j->r, root, &path, "the target", members))
		return;
	read_base(j, root, &path);
	text_init(&j->lacking, j->r.arena);
	for (const Field *f = fields; f < fields + FIELD_COUNT; f++)
		read_field(j, f, root, &path);
	if (j->lacks)
		diag_error(j->r.d, place_at(&j->r, &path), "missing-field",
		           "with a base, such as \"base\": \"v6e\", only what differs from it is needed",
		           "the target has no base and lacks the field%s %s", j->lacks == 1 ? "" : "s", j->lacking.at);
}

const Target *target_load(Arena *a, Diag *d, const Source *source) {
	TargetJob *j = arena_alloc(a, sizeof *j);
	uint32_t errors = d->errors;
	j->r = reader_of(a, d, source);
	json_t *root = json_read(&j->r);
	if (root)
		json_guard(root, a, target_body, j);
	return d->errors == errors ? &j->target : NULL;
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

static void put_tiles(const TileRows *tiles, Text *out) {
	for (int use = 0; use < TILE_USES; use++) {
		text_printf(out, "%s\n    \"%s\": {", use ? "," : "{", tile_uses[use]);
		for (int kind = 0; tile_kinds[kind]; kind++) {
			int64_t least, *list = widths_of(&tiles[use], kind, &least);
			text_printf(out, "%s\"%s\": [", kind ? ", " : "", tile_kinds[kind]);
			for (int i = 0; i < TILE_WIDTHS; i++)
				text_printf(out, "%s%lld", i ? ", " : "", (long long)list[i]);
			text_put(out, "]");
		}
		text_put(out, "}");
	}
	text_put(out, "\n  }");
}

void target_put(const Target *t, Text *out) {
	for (const Field *f = fields; f < fields + FIELD_COUNT; f++) {
		const void *value = field_of(f, t);
		text_printf(out, "%s\n  \"%s\": ", f == fields ? "{" : ",", f->name);
		switch (f->kind) {
		case FIELD_TEXT: text_put_json(out, *(const char *const *)value); break;
		case FIELD_NUMBER: text_put_double(out, *(const double *)value); break;
		case FIELD_FLAG: text_put(out, *(const bool *)value ? "true" : "false"); break;
		case FIELD_TILES: put_tiles(value, out); break;
		case FIELD_INT:
		case FIELD_CAP: {
			int64_t number = *(const int64_t *)value;
			if (f->kind == FIELD_CAP && number == 0)
				text_put(out, "null");
			else
				text_put_int(out, number);
		}
		}
	}
	text_put(out, "\n}\n");
}

/* ---- cuts ------------------------------------------------------------------------------------------------------- */

static int width_index(int bits) { return bits >= 32 ? 0 : bits >= 16 ? 1 : bits >= 8 ? 2 : 3; }

int64_t target_block_multiple(const Target *t, int bits, uint32_t rank, uint32_t dim) {
	if (rank == 1)
		return t->lanes * 32 / int_min(bits, 32);
	return dim + 1 == rank ? t->lanes : dim + 2 == rank ? t->tile_rows[TILE_BLOCK].wide[width_index(bits)] : 1;
}

int64_t target_row_multiple(const Target *t, TileUse use, int bits, int64_t width) {
	const TileRows *rows = &t->tile_rows[use];
	return (width <= t->lanes ? rows->narrow : rows->wide)[width_index(bits)];
}

bool target_takes_rows(const Target *t, TileUse use, int bits, int64_t width, int64_t rows) {
	if (rows % target_row_multiple(t, use, bits, width) == 0)
		return true;
	return rows > 0 && (rows & (rows - 1)) == 0 && (t->tile_rows[use].powers[width_index(bits)] & rows) != 0;
}

int64_t target_packed_rows(const Target *t, int bits) { return t->sublanes * 32 / int_min(bits, 32); }

/* Of VMEM, in percent. */
enum { MARGIN_LOWEST = -50, MARGIN_HIGHEST = 90 };

static bool budget_is_right(Diag *d, const Target *t, int64_t bytes, double margin) {
	if (bytes < 0 || bytes > t->vmem_bytes) {
		diag_error(d, (Place){0}, "vmem-budget", "leave the budget out, or give less",
		           "%s has %lld bytes of VMEM: a budget of %lld is none", t->name, (long long)t->vmem_bytes,
		           (long long)bytes);
		return false;
	}
	if (!(margin >= MARGIN_LOWEST && margin <= MARGIN_HIGHEST)) {
		diag_error(d, (Place){0}, "vmem-margin", "leave the margin out for none",
		           "a margin of VMEM is from %d to %d percent, not %g", MARGIN_LOWEST, MARGIN_HIGHEST, margin);
		return false;
	}
	return true;
}

const Target *target_within(Arena *a, Diag *d, const Target *target, int64_t bytes, double margin) {
	if (!target || !budget_is_right(d, target, bytes, margin))
		return NULL;
	if (bytes == 0 && margin == 0)
		return target;
	Target *less = arena_copy(a, target, 1, sizeof *target);
	less->vmem_bytes = bytes ? bytes : target->vmem_bytes;
	less->vmem_margin = margin;
	return less;
}
