/* threads.c - `threads COUNT GRAPH...`: eight threads compile different graphs at once, COUNT times in all.
 *
 * Each thread has a context of its own and begins with another graph. Wanted: the texts that one thread alone gets, and
 * memory that does not grow. Exit status 1, and a line, where that is not so. */
#define _POSIX_C_SOURCE 200809L
#include "input.h"

#include "pallasc/pallasc.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, FRESH = 10 /* a context is used so often */, GRAPHS_MAX = 32 };
#ifdef __SANITIZE_THREAD__ /* whose own records grow */
enum { GROWTH_BYTES = 1 << 30 };
#else
enum { GROWTH_BYTES = 8 << 20 };
#endif

static Input inputs[GRAPHS_MAX];
static char *sources[GRAPHS_MAX]; /* what they compile to */
static int input_count;

typedef struct Worker {
	pthread_t thread;
	long first, count;
	int off;
} Worker;

static pallasc_result *compile(pallasc_context *context, const Input *in) {
	pallasc_options options = PALLASC_OPTIONS_INIT;
	options.emit |= PALLASC_EMIT_REPORT;
	return pallasc_compile(context, in->text, in->length, &options);
}

static void *work(void *argument) {
	Worker *w = argument;
	pallasc_context *context = NULL;
	for (long i = 0; i < w->count; i++) {
		if (i % FRESH == 0) {
			pallasc_context_free(context);
			context = pallasc_context_new();
		}
		long which = (w->first + i) % input_count;
		pallasc_result *result = compile(context, &inputs[which]);
		w->off += strcmp(pallasc_result_source(result, NULL), sources[which]) != 0;
		pallasc_result_free(result);
	}
	pallasc_context_free(context);
	return NULL;
}

/* How many compilations were off, of `count` by all threads. */
static int run(long count) {
	Worker workers[THREADS];
	int off = 0;
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (Worker){.first = i, .count = count / THREADS};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			exit(2);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		off += workers[i].off;
	}
	return off;
}

static long resident(void) {
	long size = 0, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (file && fscanf(file, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (file)
		fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv) {
	long count = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
	pallasc_context *context = pallasc_context_new();
	for (int i = 2; i < argc && input_count < GRAPHS_MAX; i++) {
		Input *in = &inputs[input_count++];
		pallasc_result *result = read_file(argv[i], in) ? compile(context, in) : NULL;
		if (pallasc_result_status(result) != PALLASC_OK) {
			printf("%s: does not compile\n", argv[i]);
			return 1;
		}
		sources[input_count - 1] = strdup(pallasc_result_source(result, NULL));
		pallasc_result_free(result);
	}
	pallasc_context_free(context);
	if (count < 4 * THREADS || !input_count)
		return 2;
	int off = run(count / 4); /* what malloc keeps for threads is there by then */
	long before = resident();
	off += run(count - count / 4);
	long grown = resident() - before;
	printf("%ld compilations of %d graphs by %d threads: %d off, %ld KiB grown\n", count, input_count, THREADS, off,
	       grown / 1024);
	return off != 0 || grown > GROWTH_BYTES;
}
