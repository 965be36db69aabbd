/* allocations.c - `allocations [--sample COUNT] GRAPH...`: each allocation of the library fails in turn.
 *
 * A graph is loaded and compiled to all texts with the n-th allocation failing, and with all from the n-th on, for each
 * n, or for COUNT of them. Wanted: the same texts as otherwise, or NULL; all memory given back; and a context that
 * compiles as before. Exit status 1, and a line for each n where that is not so. */
#include "input.h"

#include "failing_malloc.h"
#include "pallasc/pallasc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 40 /* of a sample: where contexts and arenas begin */, MOST_COMPLAINTS = 20 };

/* One compilation in a context; NULL if there was no memory. */
static pallasc_result *compile(pallasc_context *context, const Input *in) {
	static const char *const sets[] = {"num_warps=4"}; /* ignored, with a warning */
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.emit = PALLASC_EMIT_SOURCE | PALLASC_EMIT_PLAN | PALLASC_EMIT_REPORT | PALLASC_EMIT_GRAPH |
	               PALLASC_EMIT_KERNEL | PALLASC_EMIT_PAGE;
	options.sets = sets;
	options.set_count = 1;
	return pallasc_compile(context, in->text, in->length, &options);
}

typedef const char *Getter(const pallasc_result *, size_t *);

static bool same(const pallasc_result *a, const pallasc_result *b) {
	static Getter *const texts[] = {pallasc_result_source,     pallasc_result_plan,   pallasc_result_report,
	                                pallasc_result_graph,      pallasc_result_kernel, pallasc_result_page,
	                                pallasc_result_diagnostics};
	bool equal = pallasc_result_status(a) == pallasc_result_status(b);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		size_t n, m;
		const char *x = texts[i](a, &n), *y = texts[i](b, &m);
		equal = equal && n == m && memcmp(x, y, n) == 0;
	}
	return equal;
}

/* What is wrong when the n-th allocation fails; NULL. */
static const char *fault(const Input *in, const pallasc_result *right, long n, bool on) {
	const char *wrong = NULL;
	long before = faults_live();
	faults_at(n, on);
	pallasc_context *context = pallasc_context_new();
	pallasc_result *result = compile(context, in);
	faults_at(0, false);
	if (result && !same(result, right))
		wrong = "other texts";
	pallasc_result_free(result);
	result = compile(context, in);
	if (context && !same(result, right))
		wrong = "the context does not compile any more";
	pallasc_result_free(result);
	pallasc_context_free(context);
	if (faults_live() != before)
		wrong = "memory is not given back";
	return wrong;
}

/* The first ones all, then evenly to the last. */
static long nth(long i, long count, long all) {
	return i < FIRST || count >= all ? i + 1 : FIRST + 1 + (all - FIRST - 1) * (i - FIRST) / (count - FIRST);
}

/* How many were off. */
static int try_graph(const char *path, long sample) {
	Input in;
	if (!read_file(path, &in)) {
		printf("%s: cannot be read\n", path);
		return 1;
	}
	pallasc_context *context = pallasc_context_new();
	faults_at(0, false);
	pallasc_result *right = compile(context, &in);
	pallasc_context_free(context);
	faults_at(0, false);
	context = pallasc_context_new();
	pallasc_result_free(compile(context, &in));
	pallasc_context_free(context);
	long all = faults_seen(), count = sample && sample < all ? sample : all;
	int off = pallasc_result_status(right) != PALLASC_OK;
	for (long i = 0; i < 2 * count; i++) {
		long n = nth(i / 2, count, all);
		const char *wrong = fault(&in, right, n, i % 2);
		if (wrong && off++ < MOST_COMPLAINTS)
			printf("%s: allocation %ld of %ld fails%s: %s\n", path, n, all,
			       i % 2 ? ", and all after it" : "", wrong);
	}
	printf("%s: %ld of %ld allocations failed in turn, alone and with all after them; %d off\n", path, count, all,
	       off);
	fflush(stdout);
	pallasc_result_free(right);
	free(in.text);
	return off;
}

int main(int argc, char **argv) {
	int off = 0, at = 1;
	long sample = 0;
	if (argc > 2 && strcmp(argv[1], "--sample") == 0) {
		sample = strtol(argv[2], NULL, 10);
		at = 3;
	}
	for (; at < argc; at++)
		off += try_graph(argv[at], sample);
	return off != 0;
}
