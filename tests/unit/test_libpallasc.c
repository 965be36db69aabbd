/* test_libpallasc.c - the public API: results, refusals, wrong options, NULL, many configurations of one graph. */
#include "document.h"

#include "pallasc/pallasc.h"

#include <stdlib.h>

/* out = x * 2 in float32[64, 128], rows by tiles; `between` stands before the store. */
#define TWICE(between)                                                                                                 \
	"name twice\n"                                                                                                 \
	"tensor x input float32[64, 128]\n"                                                                            \
	"tensor out output float32[64, 128]\n"                                                                         \
	"block tile 64\n"                                                                                              \
	"config {\"block_sizes\": [8], \"num_warps\": 4}\n"                                                            \
	"root 0 over [0]\n"                                                                                            \
	"x = tile.host_tensor('x') : float32[64, 128]\n"                                                               \
	"t = tile.load(x, [u0, :]) : float32[u0, 128]\n"                                                               \
	"y = aten.mul.Tensor(t, 2.0) : float32[u0, 128]\n" between                                                     \
	"out = tile.host_tensor('out') : float32[64, 128]\n"                                                           \
	"s = tile.store(out, [u0, :], y)\n"                                                                            \
	"return\n"

static Arena arena;
static const char *graph_json;

static int setup(void **state) {
	arena_init(&arena, NULL);
	graph_json = document_text(&arena, TWICE(""));
	*state = pallasc_context_new();
	return *state == NULL;
}

static int teardown(void **state) {
	pallasc_context_free(*state);
	arena_free(&arena);
	return 0;
}

static pallasc_graph *load(void **state) {
	pallasc_graph *graph = pallasc_graph_load(*state, graph_json, strlen(graph_json), "twice.json");
	assert_int_equal(pallasc_graph_status(graph), PALLASC_OK);
	return graph;
}

static void compiles(void **state) {
	size_t length;
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.emit =
		PALLASC_EMIT_SOURCE | PALLASC_EMIT_PLAN | PALLASC_EMIT_REPORT | PALLASC_EMIT_GRAPH | PALLASC_EMIT_PAGE;
	pallasc_result *result = pallasc_compile(*state, graph_json, strlen(graph_json), &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_OK);
	assert_non_null(strstr(pallasc_result_source(result, &length), "def twice(x, "));
	assert_int_equal(length, strlen(pallasc_result_source(result, NULL)));
	assert_int_equal(*pallasc_result_plan(result, NULL), '{');
	assert_true(strlen(pallasc_result_report(result, NULL)) > 0);
	assert_int_equal(*pallasc_result_graph(result, NULL), '{');
	assert_int_equal(strncmp(pallasc_result_page(result, &length), "<!DOCTYPE html>\n", 16), 0);
	assert_int_equal(length, strlen(pallasc_result_page(result, NULL)));
	assert_non_null(strstr(pallasc_result_diagnostics(result, NULL), "\"code\": \"config-ignored\""));
	pallasc_result_free(result);
}

/* No pass, and one that there is not. */
static void runs_the_passes_asked_for(void **state) {
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.emit = PALLASC_EMIT_GRAPH;
	options.passes = "";
	pallasc_result *result = pallasc_compile(*state, graph_json, strlen(graph_json), &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_OK);
	assert_non_null(strstr(pallasc_result_graph(result, NULL), "\"name\": \"twice\""));
	pallasc_result_free(result);
	options.passes = "const_fold,fly";
	result = pallasc_compile(*state, graph_json, strlen(graph_json), &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	assert_non_null(strstr(pallasc_result_diagnostics(result, NULL), "unknown-pass"));
	pallasc_result_free(result);
}

/* One graph at its own sizes, at others, and at its own again; a name that it has not. */
static void compiles_at_sizes(void **state) {
	static const char *const other[] = {"S=128"}, *const unknown[] = {"T=1"};
	const char *plain = "\"shape\": [64, 128]", *named = "\"shape\": [\"S\", 128]";
	Text json;
	text_init(&json, &arena);
	text_put(&json, "{\"sizes\": {\"S\": 64}, ");
	for (const char *at = graph_json + 1; *at;) {
		bool here = strncmp(at, plain, strlen(plain)) == 0;
		text_putn(&json, here ? named : at, here ? strlen(named) : 1);
		at += here ? strlen(plain) : 1;
	}
	pallasc_graph *graph = pallasc_graph_load(*state, json.at, json.length, "named.json");
	assert_int_equal(pallasc_graph_status(graph), PALLASC_OK);
	const struct {
		const char *const *sizes;
		const char *shape;
	} rows[] = {{NULL, "float32[64, 128]"}, {other, "float32[128, 128]"}, {NULL, "float32[64, 128]"}};
	for (size_t i = 0; i < 3; i++) {
		pallasc_options options = PALLASC_OPTIONS_INIT;
		options.sizes = rows[i].sizes;
		options.size_count = rows[i].sizes != NULL;
		pallasc_result *result = pallasc_graph_compile(graph, &options);
		assert_int_equal(pallasc_result_status(result), PALLASC_OK);
		assert_non_null(strstr(pallasc_result_source(result, NULL), rows[i].shape));
		pallasc_result_free(result);
	}
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.sizes = unknown;
	options.size_count = 1;
	pallasc_result *result = pallasc_graph_compile(graph, &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	assert_non_null(strstr(pallasc_result_diagnostics(result, NULL), "the graph has no size 'T'"));
	pallasc_result_free(result);
	pallasc_graph_free(graph);
}

/* A page of any module's text: no text becomes an element, and what was found must be JSON. */
static void a_page_of_a_module(void **state) {
	const char *found = "{\"profile\": {\"source\": [\"</script>\"]}}";
	pallasc_result *result = pallasc_module_page(*state, "a<b", "v6e", "x = 1 < 2\n# y\n", found);
	assert_int_equal(pallasc_result_status(result), PALLASC_OK);
	const char *page = pallasc_result_page(result, NULL);
	assert_non_null(strstr(page, "<h1>a&lt;b</h1>"));
	assert_non_null(strstr(page, "<body class=\"module\">"));
	assert_non_null(
		strstr(page, "<span class=\"l\" id=\"p1\">x = 1 &lt; 2\n</span><span class=\"l comment\" id=\"p2\">"));
	assert_non_null(strstr(page, "{\"profile\": {\"source\": [\"\\u003c/script\\u003e\"]}}"));
	assert_string_equal(pallasc_result_source(result, NULL), "");
	pallasc_result_free(result);
	result = pallasc_module_page(*state, "a", "v6e", "", "{1}");
	assert_int_equal(pallasc_result_status(result), PALLASC_USAGE);
	assert_string_equal(pallasc_result_page(result, NULL), "");
	assert_non_null(strstr(pallasc_result_diagnostics(result, NULL), "\"file\": \"<found>\""));
	pallasc_result_free(result);
	assert_null(pallasc_module_page(*state, NULL, "v6e", "", NULL));
	assert_null(pallasc_module_page(NULL, "a", "v6e", "", NULL));
}

/* Kernel text goes in where a graph does, and gives the same module. */
static void kernel_text_compiles(void **state) {
	size_t length;
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.emit = PALLASC_EMIT_SOURCE | PALLASC_EMIT_KERNEL;
	pallasc_result *first = pallasc_compile(*state, graph_json, strlen(graph_json), &options);
	const char *text = pallasc_result_kernel(first, &length);
	assert_int_equal(strncmp(text, "program twice for v6e\n", 22), 0);
	pallasc_graph *kernel = pallasc_graph_load(*state, text, length, "twice.kernel");
	assert_int_equal(pallasc_graph_status(kernel), PALLASC_OK);
	pallasc_result *again = pallasc_graph_compile(kernel, &options);
	assert_string_equal(pallasc_result_kernel(again, NULL), text);
	assert_string_equal(pallasc_result_source(again, NULL), pallasc_result_source(first, NULL));
	assert_string_equal(pallasc_result_plan(again, NULL), "");
	assert_string_equal(pallasc_result_page(again, NULL), "");
	pallasc_result_free(again);
	pallasc_graph_free(kernel);
	kernel = pallasc_graph_load(*state, text, length / 2, "half.kernel");
	assert_int_equal(pallasc_graph_status(kernel), PALLASC_REFUSED);
	assert_non_null(strstr(pallasc_graph_diagnostics(kernel, NULL), "\"file\": \"half.kernel\""));
	pallasc_graph_free(kernel);
	pallasc_result_free(first);
}

static void only_what_is_asked_for(void **state) {
	pallasc_graph *graph = load(state);
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.emit = 0;
	pallasc_result *result = pallasc_graph_compile(graph, &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_OK);
	assert_string_equal(pallasc_result_source(result, NULL), "");
	assert_string_equal(pallasc_result_plan(result, NULL), "");
	pallasc_result_free(result);
	pallasc_graph_free(graph);
}

static pallasc_result *with_set(const pallasc_graph *graph, const char *set) {
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.sets = &set;
	options.set_count = 1;
	return pallasc_graph_compile(graph, &options);
}

/* Nothing is left from one compilation to the next. */
static void configurations_are_independent(void **state) {
	pallasc_graph *graph = load(state);
	pallasc_result *first = pallasc_graph_compile(graph, NULL);
	pallasc_result *other = with_set(graph, "block_sizes=[16]");
	pallasc_result *refused = with_set(graph, "block_sizes=[8, 8]");
	pallasc_result *again = pallasc_graph_compile(graph, NULL);
	pallasc_graph_free(graph);
	assert_int_equal(pallasc_result_status(other), PALLASC_OK);
	assert_string_not_equal(pallasc_result_plan(other, NULL), pallasc_result_plan(first, NULL));
	assert_int_equal(pallasc_result_status(refused), PALLASC_REFUSED);
	assert_string_equal(pallasc_result_source(refused, NULL), "");
	assert_string_equal(pallasc_result_source(again, NULL), pallasc_result_source(first, NULL));
	assert_string_equal(pallasc_result_diagnostics(again, NULL), pallasc_result_diagnostics(first, NULL));
	pallasc_result_free(first);
	pallasc_result_free(other);
	pallasc_result_free(refused);
	pallasc_result_free(again);
}

/* Two rows as one: a tile of an odd number of rows is no such pairs. Only a configuration can show it, each time. */
static void sizes_are_checked_under_each_configuration(void **state) {
	static const struct {
		const char *config;
		pallasc_status status;
	} rows[] = {{"{\"block_sizes\": [8]}", PALLASC_OK},
	            {"{\"block_sizes\": [5]}", PALLASC_REFUSED},
	            {"{\"block_sizes\": [16]}", PALLASC_OK}};
	const char *text =
		document_text(&arena, TWICE("w = aten.view.default(t, [<u0 // 2>, 256]) : float32[u0 // 2, 256]\n"));
	pallasc_graph *graph = pallasc_graph_load(*state, text, strlen(text), NULL);
	assert_int_equal(pallasc_graph_status(graph), PALLASC_OK);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		pallasc_options options = PALLASC_OPTIONS_INIT;
		options.config_json = rows[i].config;
		pallasc_result *result = pallasc_graph_compile(graph, &options);
		assert_int_equal(pallasc_result_status(result), rows[i].status);
		int said = strstr(pallasc_result_diagnostics(result, NULL), "'w'") != NULL;
		assert_int_equal(said, rows[i].status == PALLASC_REFUSED);
		pallasc_result_free(result);
	}
	pallasc_graph_free(graph);
}

static void configuration_over_the_graphs_own(void **state) {
	pallasc_graph *graph = load(state);
	pallasc_options options = PALLASC_OPTIONS_INIT;
	const char *set = "block_sizes=[32]";
	options.config_json = "{\"block_sizes\": [16]}";
	pallasc_result *result = pallasc_graph_compile(graph, &options);
	assert_non_null(strstr(pallasc_result_plan(result, NULL), "\"block_sizes\": [16]"));
	pallasc_result_free(result);
	options.sets = &set;
	options.set_count = 1;
	result = pallasc_graph_compile(graph, &options);
	assert_non_null(strstr(pallasc_result_plan(result, NULL), "\"block_sizes\": [32]"));
	pallasc_result_free(result);
	pallasc_graph_free(graph);
}

static void check_target(const pallasc_graph *graph, const char *target, pallasc_status status,
                         const char *in_diagnostics) {
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.target = target;
	pallasc_result *result = pallasc_graph_compile(graph, &options);
	assert_int_equal(pallasc_result_status(result), status);
	assert_non_null(strstr(pallasc_result_diagnostics(result, NULL), in_diagnostics));
	pallasc_result_free(result);
}

static void targets(void **state) {
	pallasc_graph *graph = load(state);
	for (size_t i = 0; pallasc_target_name(i); i++)
		check_target(graph, pallasc_target_name(i), PALLASC_OK, "");
	check_target(graph, "{\"base\": \"v6e\", \"name\": \"mine\"}", PALLASC_OK, "");
	check_target(graph, "v6x", PALLASC_USAGE, "there is no target 'v6x'");
	check_target(graph, "{\"base\": \"v6e\"", PALLASC_USAGE, "<target>");
	pallasc_graph_free(graph);
}

static void malformed_sets_are_wrong_usage(void **state) {
	static const char *const sets[] = {"block_sizes", "=3", ""};
	pallasc_graph *graph = load(state);
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		pallasc_result *result = with_set(graph, sets[i]);
		assert_int_equal(pallasc_result_status(result), PALLASC_USAGE);
		pallasc_result_free(result);
	}
	pallasc_graph_free(graph);
}

static void refused_graphs_tell_why(void **state) {
	static const char bad[] = "{\"format\": \"fxtile\", \"version\": 1, \"name\": 3}";
	size_t length;
	pallasc_graph *graph = pallasc_graph_load(*state, bad, strlen(bad), NULL);
	assert_int_equal(pallasc_graph_status(graph), PALLASC_REFUSED);
	const char *why = pallasc_graph_diagnostics(graph, &length);
	assert_int_equal(length, strlen(why));
	assert_non_null(strstr(why, "\"file\": \"<graph>\""));
	pallasc_result *result = pallasc_graph_compile(graph, NULL);
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	assert_string_equal(pallasc_result_diagnostics(result, NULL), why);
	pallasc_result_free(result);
	pallasc_graph_free(graph);
}

static void the_text_need_not_end_with_nul(void **state) {
	size_t length = strlen(graph_json);
	char *exact = malloc(length);
	assert_non_null(exact);
	memcpy(exact, graph_json, length);
	pallasc_graph *graph = pallasc_graph_load(*state, exact, length, NULL);
	free(exact);
	assert_int_equal(pallasc_graph_status(graph), PALLASC_OK);
	pallasc_graph_free(graph);
	graph = pallasc_graph_load(*state, NULL, 0, NULL);
	assert_int_equal(pallasc_graph_status(graph), PALLASC_REFUSED);
	pallasc_graph_free(graph);
}

/* A graph is its own backward here: the gradient of 2 x is twice its cotangent. */
static void backwards_are_paired(void **state) {
	pallasc_graph *graph = load(state);
	const pallasc_graph *backwards[] = {graph};
	const char *cotangents[] = {"x=out"}, *gradients[] = {"out=x"}, *configs[] = {"{\"block_sizes\": [16]}"};
	pallasc_pairing pairing = PALLASC_PAIRING_INIT;
	pairing.backwards = backwards;
	pairing.backward_count = 1;
	pairing.backward_configs = configs;
	pairing.cotangents = cotangents;
	pairing.gradients = gradients;
	pairing.cotangent_count = pairing.gradient_count = 1;
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.emit = PALLASC_EMIT_SOURCE;
	options.pairing = &pairing;
	pallasc_result *result = pallasc_graph_compile(graph, &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_OK);
	const char *source = pallasc_result_source(result, NULL);
	assert_non_null(strstr(source, "\n_twice_vjp.defvjp(_twice_fwd, _twice_bwd)\n"));
	assert_non_null(strstr(source, "    \"config\": {\"block_sizes\": [8]},"));
	assert_non_null(strstr(source, "            \"config\": {\"block_sizes\": [16]},"));
	pallasc_result_free(result);

	pairing.gradient_count = 0;
	result = pallasc_graph_compile(graph, &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	assert_non_null(strstr(pallasc_result_diagnostics(result, NULL), "\"code\": \"pair-unknown\""));
	assert_string_equal(pallasc_result_source(result, NULL), "");
	pallasc_result_free(result);

	options.emit |= PALLASC_EMIT_PLAN;
	result = pallasc_graph_compile(graph, &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	assert_non_null(strstr(pallasc_result_diagnostics(result, NULL), "ask for the source alone"));
	pallasc_result_free(result);

	options.emit = PALLASC_EMIT_SOURCE;
	backwards[0] = NULL; /* as for a failed allocation */
	result = pallasc_graph_compile(graph, &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_FAILED);
	pallasc_result_free(result);
	pairing.backward_count = 0;
	result = pallasc_graph_compile(graph, &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	pallasc_result_free(result);
	pallasc_graph_free(graph);
}

/* A document with one value and the node in question. */
static pallasc_result *infer(void **state, const char *node) {
	char json[1024];
	int length = snprintf(
		json, sizeof json,
		"{\"format\": \"fxtile\", \"version\": 1, \"name\": \"f\", \"tensors\": [{\"name\": \"y\", "
		"\"role\": \"output\", \"dtype\": \"float32\", \"shape\": [8]}], \"block_sizes\": [{\"id\": 0, "
		"\"symbol\": \"m\", \"extent\": 8}], \"graphs\": [{\"id\": 0, \"kind\": \"root\", \"grid\": [0], "
		"\"nodes\": [{\"name\": \"x\", \"target\": \"tile.full\", \"args\": [[{\"sym\": \"m\"}, 4], 0, "
		"{\"dtype\": \"bfloat16\"}], \"meta\": {\"dtype\": \"bfloat16\", \"shape\": [\"m\", 4]}}, "
		"{\"name\": \"it\", %s}, {\"name\": \"output\", \"op\": \"output\", \"args\": [[]]}]}]}",
		node);
	assert_in_range(length, 1, sizeof json - 1);
	return pallasc_infer(*state, json, (size_t)length);
}

static void types_of_nodes(void **state) {
	pallasc_result *result = infer(state, "\"target\": \"aten.sum.dim_IntList\", \"args\": [{\"ref\": \"x\"}, 1]");
	assert_int_equal(pallasc_result_status(result), PALLASC_OK);
	assert_string_equal(pallasc_result_graph(result, NULL), "{\"dtype\": \"bfloat16\", \"shape\": [\"m\"]}");
	pallasc_result_free(result);
	result = infer(state, "\"target\": \"aten.sum.dim_IntList\", \"args\": [{\"ref\": \"x\"}, 2]");
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	assert_non_null(strstr(pallasc_result_diagnostics(result, NULL), "dim 2 is not in a value of rank 2"));
	pallasc_result_free(result);
	/* It would be another number for each m. */
	result = infer(state, "\"target\": \"aten.view.default\", \"args\": [{\"ref\": \"x\"}, [128, -1]]");
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	assert_non_null(strstr(pallasc_result_diagnostics(result, NULL), "size-unknown"));
	pallasc_result_free(result);
	/* A type that it declares is compared. */
	result = infer(state, "\"target\": \"tile.new_var\", \"args\": [{\"ref\": \"x\"}], \"meta\": {\"dtype\": "
	                      "\"bfloat16\", \"shape\": [\"m + 0\", \"2 * 2\"]}");
	assert_int_equal(pallasc_result_status(result), PALLASC_OK);
	pallasc_result_free(result);
	result = infer(state, "\"target\": \"tile.new_var\", \"args\": [{\"ref\": \"x\"}], \"meta\": {\"dtype\": "
	                      "\"bfloat16\", \"shape\": [\"m\", \"m\"]}");
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	pallasc_result_free(result);
	result = pallasc_infer(*state, "{}", 2);
	assert_int_equal(pallasc_result_status(result), PALLASC_REFUSED);
	pallasc_result_free(result);
}

static void null_is_taken_everywhere(void **state) {
	(void)state;
	size_t length = 7;
	assert_null(pallasc_graph_load(NULL, "{}", 2, NULL));
	assert_int_equal(pallasc_graph_status(NULL), PALLASC_FAILED);
	assert_string_equal(pallasc_graph_diagnostics(NULL, &length), "");
	assert_int_equal(length, 0);
	assert_null(pallasc_graph_compile(NULL, NULL));
	assert_null(pallasc_compile(NULL, "{}", 2, NULL));
	assert_null(pallasc_infer(NULL, "{}", 2));
	assert_int_equal(pallasc_result_status(NULL), PALLASC_FAILED);
	assert_string_equal(pallasc_result_source(NULL, &length), "");
	assert_string_equal(pallasc_result_diagnostics(NULL, NULL), "");
	pallasc_result_free(NULL);
	pallasc_graph_free(NULL);
	pallasc_context_free(NULL);
}

static void an_older_callers_options_are_shorter(void **state) {
	pallasc_graph *graph = load(state);
	pallasc_options options = {
		.size = offsetof(pallasc_options, config_json), .emit = PALLASC_EMIT_PLAN, .target = "v4"};
	options.config_json = "not read";
	options.set_count = 99;
	pallasc_result *result = pallasc_graph_compile(graph, &options);
	assert_int_equal(pallasc_result_status(result), PALLASC_OK);
	assert_non_null(strstr(pallasc_result_plan(result, NULL), "\"v4\""));
	pallasc_result_free(result);
	pallasc_graph_free(graph);
}

static void versions(void **state) {
	(void)state;
	assert_int_equal(pallasc_abi_version(), PALLASC_ABI_VERSION);
	assert_int_equal(strspn(pallasc_version(), "0123456789."), strlen(pallasc_version()));
	assert_string_equal(pallasc_target_name(0), "v4");
	assert_null(pallasc_target_name(1000));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compiles),
		cmocka_unit_test(runs_the_passes_asked_for),
		cmocka_unit_test(compiles_at_sizes),
		cmocka_unit_test(a_page_of_a_module),
		cmocka_unit_test(types_of_nodes),
		cmocka_unit_test(kernel_text_compiles),
		cmocka_unit_test(only_what_is_asked_for),
		cmocka_unit_test(configurations_are_independent),
		cmocka_unit_test(sizes_are_checked_under_each_configuration),
		cmocka_unit_test(configuration_over_the_graphs_own),
		cmocka_unit_test(targets),
		cmocka_unit_test(malformed_sets_are_wrong_usage),
		cmocka_unit_test(refused_graphs_tell_why),
		cmocka_unit_test(the_text_need_not_end_with_nul),
		cmocka_unit_test(backwards_are_paired),
		cmocka_unit_test(null_is_taken_everywhere),
		cmocka_unit_test(an_older_callers_options_are_shorter),
		cmocka_unit_test(versions),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
