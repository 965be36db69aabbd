/* print_ops [json] - docs/ops.md on standard output, or the op table as JSON. */
#include "src/driver/driver.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
	Arena arena;
	Text text;
	arena_init(&arena, NULL);
	text_init(&text, &arena);
	(argc > 1 && strcmp(argv[1], "json") == 0 ? ops_print_json : ops_print_markdown)(&text);
	bool ok = fwrite(text.at, 1, text.length, stdout) == text.length && fflush(stdout) == 0;
	arena_free(&arena);
	return ok ? 0 : 3;
}
