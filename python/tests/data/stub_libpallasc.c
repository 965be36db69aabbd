/* A stand-in for libpallasc in the tests of the binding: implements include/pallasc/pallasc.h.
 * The "compiled" source is the file named by $STUB_SOURCE; the report tells the options it was
 * given. A graph that holds "refuse" is refused; so is the target "bad", as wrong usage. */
#include "pallasc/pallasc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pallasc_context { int graphs; };
struct pallasc_graph { pallasc_context *context; int refused; };
struct pallasc_result { pallasc_status status; char *source, *report; const char *plan, *diagnostics; };

static const char REFUSAL[] =
	"{\"severity\": \"error\", \"code\": \"stub\", \"file\": \"g.json\", \"line\": 3, \"column\": 5, "
	"\"pointer\": \"/name\", \"message\": \"refused \\u00e9\", \"hint\": \"do not\"}\n"
	"{\"severity\": \"error\", \"code\": \"stub\", \"message\": \"another\"}\n";

#ifndef STUB_ABI
#define STUB_ABI PALLASC_ABI_VERSION
#endif

const char *pallasc_version(void) { return "0.0.stub"; }
int pallasc_abi_version(void) { return STUB_ABI; }

const char *pallasc_target_name(size_t index)
{
	static const char *const names[] = {"v5e", "v6e"};
	return index < 2 ? names[index] : NULL;
}

pallasc_context *pallasc_context_new(void) { return calloc(1, sizeof(pallasc_context)); }

void pallasc_context_free(pallasc_context *context)
{
	if (context && context->graphs)
		abort();
	free(context);
}

pallasc_graph *pallasc_graph_load(pallasc_context *context, const char *json, size_t length, const char *name)
{
	(void)name;
	pallasc_graph *graph = calloc(1, sizeof *graph);
	graph->context = context;
	graph->refused = strlen(json) == length && strstr(json, "refuse") != NULL;
	context->graphs++;
	return graph;
}

pallasc_status pallasc_graph_status(const pallasc_graph *graph)
{
	return !graph ? PALLASC_FAILED : graph->refused ? PALLASC_REFUSED : PALLASC_OK;
}

static const char *text(const char *value, size_t *length)
{
	if (!value)
		value = "";
	if (length)
		*length = strlen(value);
	return value;
}

const char *pallasc_graph_diagnostics(const pallasc_graph *graph, size_t *length)
{
	return text(graph && graph->refused ? REFUSAL : NULL, length);
}

void pallasc_graph_free(pallasc_graph *graph)
{
	if (graph)
		graph->context->graphs--;
	free(graph);
}

static char *file_read(const char *path)
{
	char *data = calloc(1, 1 << 20);
	FILE *file = path ? fopen(path, "r") : NULL;
	if (file) {
		size_t count = fread(data, 1, (1 << 20) - 1, file);
		data[count] = '\0';
		fclose(file);
	}
	return data;
}

pallasc_result *pallasc_graph_compile(const pallasc_graph *graph, const pallasc_options *options)
{
	pallasc_result *result = calloc(1, sizeof *result);
	const char *target = options->target ? options->target : "v6e";
	result->status = pallasc_graph_status(graph);
	if (result->status == PALLASC_OK && strcmp(target, "bad") == 0)
		result->status = PALLASC_USAGE;
	if (result->status != PALLASC_OK) {
		result->diagnostics = REFUSAL;
		return result;
	}
	result->report = calloc(1, 4096);
	int used = snprintf(result->report, 4096, "%zu %u %s %s", options->size, options->emit, target,
			    options->config_json ? options->config_json : "-");
	for (size_t i = 0; i < options->set_count; i++)
		used += snprintf(result->report + used, 4096 - (size_t)used, " %s", options->sets[i]);
	result->source = file_read(getenv("STUB_SOURCE"));
	result->plan = "{\"vmem\": 1}";
	result->diagnostics = "{\"severity\": \"warning\", \"code\": \"w\", \"message\": \"careful\"}\n";
	return result;
}

pallasc_result *pallasc_compile(pallasc_context *context, const char *json, size_t length, const pallasc_options *options)
{
	pallasc_graph *graph = pallasc_graph_load(context, json, length, NULL);
	pallasc_result *result = pallasc_graph_compile(graph, options);
	pallasc_graph_free(graph);
	return result;
}

pallasc_result *pallasc_infer(pallasc_context *context, const char *json, size_t length)
{
	(void)context, (void)json, (void)length;
	return NULL;
}

pallasc_result *pallasc_module_page(pallasc_context *context, const char *name, const char *target, const char *python,
                                    const char *found)
{
	(void)context, (void)name, (void)target, (void)python, (void)found;
	return NULL;
}

pallasc_status pallasc_result_status(const pallasc_result *result) { return result ? result->status : PALLASC_FAILED; }
const char *pallasc_result_source(const pallasc_result *result, size_t *length) { return text(result ? result->source : NULL, length); }
const char *pallasc_result_plan(const pallasc_result *result, size_t *length) { return text(result ? result->plan : NULL, length); }
const char *pallasc_result_report(const pallasc_result *result, size_t *length) { return text(result ? result->report : NULL, length); }
const char *pallasc_result_kernel(const pallasc_result *result, size_t *length) { return text(result ? "program g for v6e\n" : NULL, length); }
const char *pallasc_result_page(const pallasc_result *result, size_t *length) { (void)result; return text(NULL, length); }
const char *pallasc_result_graph(const pallasc_result *result, size_t *length) { (void)result; return text(NULL, length); }
const char *pallasc_result_diagnostics(const pallasc_result *result, size_t *length) { return text(result ? result->diagnostics : NULL, length); }

void pallasc_result_free(pallasc_result *result)
{
	if (result) {
		free(result->source);
		free(result->report);
	}
	free(result);
}
