/* recompile.c - loads a graph once and compiles it COUNT times, for measuring what one more configuration costs:
 * recompile GRAPH.json COUNT [CONFIG.json-text]. Runs that differ by one in COUNT differ by that. */
#include "pallasc/pallasc.h"

#include <stdio.h>
#include <stdlib.h>

/* The file's text, which the caller frees; NULL. */
static char *read_text(const char *path, size_t *length) {
	FILE *file = fopen(path, "rb");
	char *text = NULL;
	if (!file)
		return NULL;
	if (fseek(file, 0, SEEK_END) == 0) {
		long size = ftell(file);
		rewind(file);
		text = size > 0 ? malloc((size_t)size) : NULL;
		*length = text ? fread(text, 1, (size_t)size, file) : 0;
	}
	fclose(file);
	return text;
}

int main(int argc, char **argv) {
	size_t length = 0;
	char *text = argc >= 3 ? read_text(argv[1], &length) : NULL;
	if (!text) {
		fputs("recompile GRAPH.json COUNT [CONFIG]\n", stderr);
		return 2;
	}
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.emit = PALLASC_EMIT_SOURCE;
	options.config_json = argc > 3 ? argv[3] : NULL;
	pallasc_context *context = pallasc_context_new();
	pallasc_graph *graph = pallasc_graph_load(context, text, length, argv[1]);
	pallasc_status status = pallasc_graph_status(graph);
	for (long count = strtol(argv[2], NULL, 10); count > 0 && status == PALLASC_OK; count--) {
		pallasc_result *result = pallasc_graph_compile(graph, &options);
		status = pallasc_result_status(result);
		fputs(pallasc_result_diagnostics(result, NULL), stderr);
		pallasc_result_free(result);
	}
	pallasc_graph_free(graph);
	pallasc_context_free(context);
	free(text);
	return (int)status;
}
