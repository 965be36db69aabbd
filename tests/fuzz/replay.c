/* replay.c - each file of a fuzz target's corpus, and one mutation of it, in any build: replay TARGET FILE... */
#include "fuzz.h"

#include <stdlib.h>
#include <time.h>

enum { FILE_MOST = 1 << 20 };

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

int main(int argc, char **argv) {
	static uint8_t text[FILE_MOST];
	const FuzzTarget *t = fuzz_targets;
	while (t->name && (argc < 2 || strcmp(t->name, argv[1]) != 0))
		t++;
	if (!t->name) {
		(void)fputs("usage: replay load|compile|kernel|target FILE...\n", stderr);
		return 2;
	}
	double slowest = 0;
	for (int i = 2; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		if (!file) {
			perror(argv[i]);
			return 1;
		}
		size_t size = fread(text, 1, sizeof text, file);
		(void)fclose(file);
		(void)fprintf(stderr, "%s\n", argv[i]); /* the last one is the one that ended it */
		double start = seconds();
		t->run(text, size);
		size = (t->kernel ? mutate_text : mutate_json)(text, size, sizeof text, (unsigned)i, NULL, 0);
		t->run(text, size);
		double took = seconds() - start;
		slowest = took > slowest ? took : slowest;
	}
	printf("%s: %d files, the slowest took %.0f ms\n", t->name, argc - 2, slowest * 1e3);
	return 0;
}
