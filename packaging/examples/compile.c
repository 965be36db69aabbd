/* compile.c - a program that compiles a graph by libpallasc, for two chips: `compile GRAPH.json OUT_PREFIX`.
 *
 *     cc -o compile compile.c $(pkg-config --cflags --libs pallasc)
 *
 * It is read once, and compiled for each chip. Diagnostics are JSON lines, of warnings too. Exit status as that of the
 * command pallasc: 0 done, 1 refused, 2 wrong options, 3 out of memory, or a file that cannot be read or written. */
#include <pallasc/pallasc.h>

#include <stdio.h>
#include <stdlib.h>

static char *file_text(const char *path, size_t *length) {
	FILE *file = fopen(path, "rb");
	char *text = NULL;
	long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
	if (size >= 0 && (text = malloc((size_t)size + 1))) {
		rewind(file);
		*length = fread(text, 1, (size_t)size, file);
	}
	if (file)
		fclose(file);
	return text;
}

/* Compiles for a chip and writes the module to PREFIX.CHIP.py. Of a graph or context that is NULL, for want of memory,
 * every answer is PALLASC_FAILED. */
static int compile_for(const pallasc_graph *graph, const char *chip, const char *prefix) {
	const char *const sets[] = {"pallas_loop_type=unroll"};
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.emit = PALLASC_EMIT_SOURCE;
	options.target = chip;
	options.sets = sets;
	options.set_count = 1;
	pallasc_result *result = pallasc_graph_compile(graph, &options);
	int status = pallasc_result_status(result);
	fputs(pallasc_result_diagnostics(result, NULL), stderr);
	if (status == PALLASC_OK) {
		char path[1024];
		size_t length;
		const char *source = pallasc_result_source(result, &length);
		snprintf(path, sizeof path, "%s.%s.py", prefix, chip);
		FILE *out = fopen(path, "wb");
		if (!out || fwrite(source, 1, length, out) != length || fclose(out) != 0) {
			perror(path);
			status = PALLASC_FAILED;
		}
	}
	pallasc_result_free(result);
	return status;
}

int main(int argc, char **argv) {
	size_t length = 0;
	if (argc != 3 || pallasc_abi_version() != PALLASC_ABI_VERSION) {
		fputs("usage: compile GRAPH.json OUT_PREFIX\n", stderr);
		return PALLASC_USAGE;
	}
	char *text = file_text(argv[1], &length);
	if (!text) {
		perror(argv[1]);
		return PALLASC_FAILED;
	}
	pallasc_context *context = pallasc_context_new();
	pallasc_graph *graph = pallasc_graph_load(context, text, length, argv[1]);
	int status = compile_for(graph, "v6e", argv[2]);
	if (status == PALLASC_OK)
		status = compile_for(graph, "v7x", argv[2]);
	pallasc_graph_free(graph);
	pallasc_context_free(context);
	free(text);
	return status;
}
