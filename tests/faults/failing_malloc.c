/* failing_malloc.c - malloc, calloc, realloc, reallocarray and aligned_alloc that count, and fail when they are told
 * to. glibc's own functions (strdup, open_memstream, stdio's buffers) and jansson's come here, too. Memory is that of
 * whoever has these names next: libc's, or that of AddressSanitizer. One thread at a time is counted right. */
#define _GNU_SOURCE
#include "failing_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

static long seen, live, failing_at;
static bool failing_on;

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void (*free)(void *);
} next;

/* dlsym() may itself ask for memory. */
static char early[4096];
static size_t early_used;
static bool resolving;

static void *early_alloc(size_t size) {
	size = (size + 15) / 16 * 16;
	if (size > sizeof early - early_used)
		abort();
	early_used += size;
	return early + early_used - size;
}

static bool is_early(const void *at) {
	return (uintptr_t)at >= (uintptr_t)early && (uintptr_t)at < (uintptr_t)early + sizeof early;
}

static void find(void *function, const char *name) {
	void *found = dlsym(RTLD_NEXT, name);
	memcpy(function, &found, sizeof found);
}

static bool ready(void) {
	if (next.free || resolving)
		return next.free;
	resolving = true;
	find(&next.malloc, "malloc");
	find(&next.calloc, "calloc");
	find(&next.realloc, "realloc");
	find(&next.aligned_alloc, "aligned_alloc");
	find(&next.free, "free");
	resolving = false;
	return true;
}

void faults_at(long n, bool on) {
	seen = 0;
	failing_at = n;
	failing_on = on;
}

long faults_seen(void) { return seen; }

long faults_live(void) { return live; }

/* Whether the allocation that is asked for now fails. */
static bool fails(void) {
	seen++;
	bool now = failing_at && (seen == failing_at || (failing_on && seen > failing_at));
	if (now)
		errno = ENOMEM;
	return now;
}

static void *counted(void *at) {
	live += at != NULL;
	return at;
}

EXPORTED void *malloc(size_t size) {
	if (!ready())
		return early_alloc(size);
	return fails() ? NULL : counted(next.malloc(size));
}

EXPORTED void *calloc(size_t count, size_t size) {
	if (!ready())
		return early_alloc(count * size);
	return fails() ? NULL : counted(next.calloc(count, size));
}

EXPORTED void *realloc(void *old, size_t size) {
	if (!old)
		return malloc(size);
	if (!ready() || is_early(old))
		abort();
	if (fails())
		return NULL;
	void *at = next.realloc(old, size);
	live -= !at && !size;
	return at;
}

EXPORTED void *reallocarray(void *old, size_t count, size_t size) {
	size_t all;
	if (__builtin_mul_overflow(count, size, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, all);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size) {
	if (!ready())
		abort();
	return fails() ? NULL : counted(next.aligned_alloc(alignment, size));
}

EXPORTED void free(void *at) {
	if (!at || is_early(at) || !ready())
		return;
	live--;
	next.free(at);
}

/* ---- preloaded --------------------------------------------------------------------------------------------------- */

__attribute__((constructor)) static void begin(void) {
	const char *at = getenv("FAULTS_AT"), *on = getenv("FAULTS_ON");
	if (at)
		faults_at(strtol(at, NULL, 10), on && *on);
}

__attribute__((destructor)) static void end(void) {
	const char *path = getenv("FAULTS_COUNT");
	long count = seen;
	FILE *file = path ? fopen(path, "w") : NULL;
	if (!file)
		return;
	fprintf(file, "%ld\n", count);
	fclose(file);
}
