/* print_ops - docs/ops.md on standard output. */
#include "src/driver/driver.h"

#include <stdio.h>

int main(void) {
	Arena arena;
	Text text;
	arena_init(&arena, NULL);
	text_init(&text, &arena);
	ops_print_markdown(&text);
	bool ok = fwrite(text.at, 1, text.length, stdout) == text.length && fflush(stdout) == 0;
	arena_free(&arena);
	return ok ? 0 : 3;
}
