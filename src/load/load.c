/* load.c - JSON text to Module. Everything that is wrong with the document alone is reported here, located; what needs
 * inference (dtypes and shapes of values) is verify.c's, what needs the configuration module_configure()'s. */
#include "load.h"
#include "loader.h"
#include "src/config/config.h"

/* Names that the emitted module needs for itself. */
/* clang-format off */
static const char *const module_names[] = {
	"jax", "jnp", "lax", "pl", "pltpu", "functools", "warnings", "KERNEL_INFO", "interpret", "_check", "_dispatch", "_mask", "_gelu",
	"_simulator", "_to_row", "_to_column", "_pallas_call", "_sparse_call", "_varying", "_axes", "_batched", "_threads", "range",
	"list", "str", "int", "tuple", "frozenset", "zip", "len", "all", "any", "hasattr", "TypeError", "AttributeError",
	"ImportError", "RuntimeError", "ValueError", "__debug__", NULL};
/* clang-format on */

static const char *const python_keywords[] = {
	"False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
	"class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
	"from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
	"or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",    NULL};

static bool is_member(const char *word, const char *const *list) {
	for (; *list; list++)
		if (strcmp(word, *list) == 0)
			return true;
	return false;
}

static void load_name(Loader *l, const json_t *root, const Path *path) {
	const char *name, *problem = NULL;
	Path at = path_key(path, "name");
	if (!get_string(&l->r, root, "name", path, true, &name))
		return;
	if (!is_identifier(name))
		problem = "is no Python identifier (ASCII letters, digits and _)";
	else if (is_member(name, python_keywords))
		problem = "is a Python keyword";
	else if (is_member(name, module_names))
		problem = "is a name that the emitted module needs itself";
	else if (strlen(name) > 200)
		problem = "is too long";
	if (problem)
		diag_error(l->r.d, place_at(&l->r, &at), "bad-name", "it becomes the name of the emitted function",
		           "the name '%s' %s", name, problem);
	l->m->name = intern(l, name);
}

/* Another format or version is the one error worth reporting. */
static bool load_format(Loader *l, const json_t *root, const Path *path) {
	const char *format = "fxtile";
	int64_t version = 1;
	Path format_at = path_key(path, "format"), version_at = path_key(path, "version");
	if (get_string(&l->r, root, "format", path, true, &format) && strcmp(format, "fxtile") != 0) {
		diag_error(l->r.d, place_at(&l->r, &format_at), "bad-format", NULL,
		           "the format is \"fxtile\", not \"%s\"", format);
		return false;
	}
	if (get_int(&l->r, root, "version", path, true, &version) && version != 1) {
		diag_error(l->r.d, place_at(&l->r, &version_at), "bad-version", NULL,
		           "version %lld of the format: this compiler reads version 1", (long long)version);
		return false;
	}
	return true;
}

/* A reduction block is the whole dim, unless loops iterate it. */
static void check_reductions(Loader *l) {
	for (BlockId b = 0; b < l->m->blocks.count; b++) {
		const Block *block = &l->m->blocks.at[b];
		if (block->reduction && block->size != NONE && !block_iterated(l->m, b))
			diag_error(l->r.d, diag_place(l->r.d, l->m->source, "/block_sizes/%u/reduction", b),
			           "block-reduction", "leave out one of them",
			           "block '%s' has a fixed size and is a reduction", block->name);
	}
}

/* One axis, and how many devices are along it. */
static void load_mesh(Loader *l, const json_t *root, const Path *path) {
	const json_t *mesh = json_object_get(root, "mesh");
	Path here = path_key(path, "mesh");
	const char *axis;
	json_t *devices;
	if (!mesh || json_is_null(mesh))
		return;
	if (!json_is_object(mesh)) {
		expected(&l->r, &here, "an object of one axis and its devices", mesh);
		return;
	}
	if (json_object_size(mesh) != 1)
		diag_error(l->r.d, place_at(&l->r, &here), "mesh", "name one axis: devices are counted along it",
		           "the mesh has %zu axes, not 1", json_object_size(mesh));
	json_object_foreach((json_t *)(uintptr_t)mesh, axis, devices) {
		Path at = path_key(&here, axis);
		if (!is_identifier(axis))
			diag_error(l->r.d, place_key(&l->r, &at), "mesh", NULL,
			           "the name of an axis is an identifier, not '%s'", axis);
		if (!to_int(&l->r, devices, &at, "a number of devices", &l->m->mesh_devices))
			continue;
		if (l->m->mesh_devices < 1 || l->m->mesh_devices > MESH_DEVICES_MAX)
			diag_error(l->r.d, place_at(&l->r, &at), "mesh", NULL,
			           "the axis %s has 1 to %d devices, not %lld", axis, MESH_DEVICES_MAX,
			           (long long)l->m->mesh_devices);
		l->m->mesh_axis = intern(l, axis);
	}
}

/* Counted before anything is made of it. */
static bool within_limits(const Loader *l, const json_t *root, const Path *path) {
	static const struct {
		Limit limit;
		const char *keys[4];
	} rows[] = {{LIMIT_TENSORS, {"tensors", "scalars"}},
	            {LIMIT_RETURNS, {"returns"}},
	            {LIMIT_BLOCKS, {"block_sizes", "tunables", "sizes"}},
	            {LIMIT_GRAPHS, {"graphs"}}};
	const json_t *graphs = json_object_get(root, "graphs");
	Path at = path_key(path, "graphs");
	bool ok = true;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t count = 0;
		for (const char *const *key = rows[i].keys; *key; key++)
			count += json_array_size(json_object_get(root, *key)) +
			         json_object_size(json_object_get(root, *key));
		Path first = path_key(path, rows[i].keys[0]);
		ok &= limit_keeps(&l->r, place_at(&l->r, &first), rows[i].limit, count);
	}
	size_t nodes = 0, roots = 0;
	for (size_t i = 0; i < json_array_size(graphs); i++) {
		const json_t *graph = json_array_get(graphs, i);
		const char *kind = json_string_value(json_object_get(graph, "kind"));
		nodes += json_array_size(json_object_get(graph, "nodes"));
		roots += kind && strcmp(kind, "root") == 0;
	}
	ok &= limit_keeps(&l->r, place_at(&l->r, &at), LIMIT_ROOTS, roots);
	if (roots > 1)
		ok &= limit_keeps(&l->r, place_at(&l->r, &at), LIMIT_COPIES, (uint64_t)nodes * roots);
	return limit_keeps(&l->r, place_at(&l->r, &at), LIMIT_NODES, nodes) && ok;
}

static void load_document(void *context, json_t *root) {
	static const char *const known[] = {"format",      "version",          "name",     "tensors", "scalars",
	                                    "returns",     "block_sizes",      "tunables", "config",  "graphs",
	                                    "annotations", "assume_in_bounds", "sizes",    "mesh",    NULL};
	Loader *l = context;
	Path path = {0}, config_at = path_key(&path, "config");
	uint32_t errors = l->r.d->errors;
	if (!read_object(&l->r, root, &path, "the document", known) || !load_format(l, root, &path) ||
	    !within_limits(l, root, &path))
		return;
	l->symbols_unclear = l->calls_unclear =
		l->r.d->errors != errors; /* a misspelt table: what it defines is missing */
	load_name(l, root, &path);
	get_bool(&l->r, root, "assume_in_bounds", &path, &l->m->assume_in_bounds);
	load_mesh(l, root, &path);
	load_named_sizes(l, root, &path);
	if (l->sizes_unclear) /* all else may follow from them */
		return;
	load_tunables(l, root, &path);
	load_blocks(l, root, &path);
	config_init(l->m);
	load_tensors(l, root, &path);
	load_scalars(l, root, &path);
	load_returns(l, root, &path);
	load_graphs(l, root, &path);
	check_reductions(l);
	const json_t *config = json_object_get(root, "config");
	if (config && !json_is_null(config))
		config_read(&l->r, l->m, config, &config_at);
	if (l->r.d->errors == 0)
		tensors_check(l->m, l->r.d);
	load_annotations(l, root, &path);
}

static Loader *loader_new(Arena *a, Diag *d, const Source *source, const Target *target, const SizeChoices *sizes) {
	Loader *l = arena_alloc(a, sizeof *l);
	l->r = reader_of(a, d, source);
	l->m = arena_alloc(a, sizeof *l->m);
	l->sizes = sizes;
	l->node = NONE;
	l->m->arena = a;
	l->m->source = source;
	l->m->target = target;
	return l;
}

/* What was read, unless that said errors: there were so many before. */
static Module *loaded(const Loader *l, uint32_t errors) {
	if (l->r.d->errors == errors)
		return l->m;
	if (!l->sizes_unclear)
		module_note_sizes(l->m, l->r.d);
	return NULL;
}

Module *module_load_parsed(Arena *a, Diag *d, const Source *source, json_t *root, const Target *target,
                           const SizeChoices *sizes) {
	Loader *l = loader_new(a, d, source, target, sizes);
	uint32_t errors = d->errors;
	load_document(l, root);
	return loaded(l, errors);
}

Module *module_load_sized(Arena *a, Diag *d, const Source *source, const Target *target, const SizeChoices *sizes) {
	Loader *l = loader_new(a, d, source, target, sizes);
	uint32_t errors = d->errors;
	json_t *root = json_read(&l->r);
	if (root)
		json_guard(root, a, load_document, l);
	return root ? loaded(l, errors) : NULL;
}

Module *module_load(Arena *a, Diag *d, const Source *source, const Target *target) {
	return module_load_sized(a, d, source, target, NULL);
}
