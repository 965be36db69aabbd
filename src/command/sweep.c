/* sweep.c - `pallasc sweep`: threads judge the configurations of a space, a chunk at a time; this one says what came of
 * them, in their order. Chunks that wait to be said are few, so that memory stays the same however long it takes. */
#define _POSIX_C_SOURCE 200809L
#include "sweep_command.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 64, CHUNKS_A_THREAD = 4, MOST_THREADS = 256 };

/* So many configurations in order, and what they came to. */
typedef struct Chunk {
	Arena arena; /* of this and the messages in it */
	Judgement judged[CHUNK];
	Text lines;    /* with their JSON lines, where those are wanted */
	uint64_t done; /* the number of the chunk that is here, and one; 0: none */
} Chunk;

/* Configurations that are refused for one reason. */
typedef struct Reason {
	const char *code, *message; /* of the first */
	uint64_t count;
} Reason;

typedef struct Ranked {
	uint64_t number;
	Judgement judged;
} Ranked;

typedef struct Sweep {
	const SweepOptions *how;
	const CompileOptions *options;
	const ConfigSpace *space;
	Arena *arena;
	/* by all threads, under the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	Chunk *chunks;
	uint64_t window, all, next, said; /* chunks: here at once, of all, to be taken next, to be said next */
	bool stopped, out_of_memory;
	_Atomic double bar; /* seconds of the last of `best`, once those are as many as are wanted; 0 */
	/* by the one that says */
	VEC(Reason) reasons;
	VEC(Ranked) best; /* fastest first; of equals the first */
	uint64_t judged, accepted;
	struct timespec start, shown;
} Sweep;

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static uint64_t chunk_end(const Sweep *s, uint64_t chunk) {
	uint64_t end = (chunk + 1) * CHUNK;
	return end < s->space->count ? end : s->space->count;
}

static void judge_chunk(Sweep *s, Chunk *c, uint64_t chunk, Shared *shared, Arena *work) {
	arena_reset(&c->arena);
	text_init(&c->lines, &c->arena);
	for (uint64_t i = chunk * CHUNK; i < chunk_end(s, chunk); i++) {
		uint64_t number = space_number(s->space, i);
		Judgement *j = &c->judged[i % CHUNK];
		arena_reset(work);
		*j = space_judge(s->space, number, s->options, s->bar, shared, work);
		if (!s->how->table)
			judgement_put(s->space, number, j, work, &c->lines);
		if (j->code)
			j->message = arena_strdup(&c->arena, j->message);
	}
}

/* The next chunk that there is room for; false: there is none left. */
static bool take_chunk(Sweep *s, uint64_t *chunk) {
	pthread_mutex_lock(&s->lock);
	while (!s->stopped && s->next < s->all && s->next - s->said >= s->window)
		pthread_cond_wait(&s->changed, &s->lock);
	bool any = !s->stopped && s->next < s->all;
	if (any)
		*chunk = s->next++;
	pthread_mutex_unlock(&s->lock);
	return any;
}

static void give_chunk(Sweep *s, Chunk *c, uint64_t chunk) {
	pthread_mutex_lock(&s->lock);
	c->done = chunk + 1;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void stop(Sweep *s, bool out_of_memory) {
	pthread_mutex_lock(&s->lock);
	s->stopped = true;
	s->out_of_memory = s->out_of_memory || out_of_memory;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

typedef struct Worker {
	Sweep *sweep;
	Arena work;
	Shared *shared;
	jmp_buf oom;
	pthread_t thread;
} Worker;

static void *work(void *argument) {
	Worker *w = argument;
	Sweep *s = w->sweep;
	uint64_t chunk;
	if (setjmp(w->oom)) {
		stop(s, true);
		return NULL;
	}
	while (take_chunk(s, &chunk)) {
		Chunk *c = &s->chunks[chunk % s->window];
		c->arena.oom = &w->oom;
		judge_chunk(s, c, chunk, w->shared, &w->work);
		give_chunk(s, c, chunk);
	}
	return NULL;
}

/* ---- saying ------------------------------------------------------------------------------------------------------ */

static void count_reason(Sweep *s, const Judgement *j) {
	for (uint32_t i = 0; i < s->reasons.count; i++)
		if (strcmp(s->reasons.at[i].code, j->code) == 0) {
			s->reasons.at[i].count++;
			return;
		}
	vec_push(s->arena, &s->reasons, ((Reason){j->code, arena_strdup(s->arena, j->message), 1}));
}

static void rank(Sweep *s, uint64_t number, const Judgement *j) {
	uint32_t at = s->best.count;
	while (at > 0 && j->seconds < s->best.at[at - 1].judged.seconds)
		at--;
	if (at >= s->how->top)
		return;
	if (s->best.count < s->how->top)
		vec_push(s->arena, &s->best, ((Ranked){0}));
	memmove(&s->best.at[at + 1], &s->best.at[at], (s->best.count - 1 - at) * sizeof *s->best.at);
	s->best.at[at] = (Ranked){number, *j};
	if (s->how->table && s->best.count == s->how->top)
		s->bar = s->best.at[s->how->top - 1].judged.seconds;
}

static double seconds_since(const struct timespec *then) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - then->tv_sec) + 1e-9 * (double)(now.tv_nsec - then->tv_nsec);
}

static void show_progress(Sweep *s) {
	if (!s->how->progress || seconds_since(&s->shown) < 0.1)
		return;
	clock_gettime(CLOCK_MONOTONIC, &s->shown);
	double rate = (double)s->judged / (seconds_since(&s->start) + 1e-9);
	fprintf(stderr, "\r\033[K%llu of %llu judged, %llu accepted, %.0f/s", (unsigned long long)s->judged,
	        (unsigned long long)s->space->count, (unsigned long long)s->accepted, rate);
	fflush(stderr);
}

static const char *say_chunk(Sweep *s, const Chunk *c, uint64_t chunk) {
	for (uint64_t i = chunk * CHUNK; i < chunk_end(s, chunk); i++) {
		const Judgement *j = &c->judged[i % CHUNK];
		s->judged++;
		s->accepted += !j->code;
		if (j->code)
			count_reason(s, j);
		else
			rank(s, space_number(s->space, i), j);
	}
	show_progress(s);
	return c->lines.length ? output_put(s->how->output, c->lines.at, c->lines.length) : NULL;
}

/* Chunk after chunk; what went wrong with the output, or NULL. */
static const char *say_all(Sweep *s) {
	const char *error = NULL;
	while (!error && s->said < s->all) {
		Chunk *c = &s->chunks[s->said % s->window];
		pthread_mutex_lock(&s->lock);
		while (!s->stopped && c->done != s->said + 1)
			pthread_cond_wait(&s->changed, &s->lock);
		bool here = c->done == s->said + 1;
		pthread_mutex_unlock(&s->lock);
		if (!here)
			break;
		error = say_chunk(s, c, s->said);
		pthread_mutex_lock(&s->lock);
		s->said++;
		pthread_cond_broadcast(&s->changed);
		pthread_mutex_unlock(&s->lock);
	}
	stop(s, false);
	if (s->how->progress)
		fputs("\r\033[K", stderr);
	return error;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void put_ranked(Sweep *s, const Ranked *r, Text *out) {
	const Target *t = s->space->start->target;
	Module *m = module_clone(s->space->start, s->arena);
	space_apply(s->space, r->number, m);
	text_printf(out, "%12.0f %10.1f %10.2f %10.2f  ", r->judged.seconds * t->clock_hz, r->judged.seconds * 1e6,
	            (double)r->judged.vmem_bytes / (1 << 20), r->judged.hbm_bytes / (1 << 20));
	space_put(s->space, m, out);
	text_put(out, "\n");
}

static void put_counts(const Sweep *s, Text *out) {
	text_printf(out, "%llu of %llu configurations judged%s, %llu accepted\n", (unsigned long long)s->judged,
	            (unsigned long long)s->space->size, s->space->size == UINT64_MAX ? " (or more)" : "",
	            (unsigned long long)s->accepted);
	for (uint32_t i = 0; i < s->reasons.count; i++) {
		const Reason *r = &s->reasons.at[i];
		text_printf(out, "%llu refused: %s, such as: ", (unsigned long long)r->count, r->code);
		text_put_printable(out, r->message);
		text_put(out, "\n");
	}
}

static const char *put_table(Sweep *s) {
	Text out;
	text_init(&out, s->arena);
	if (s->best.count)
		text_printf(&out, "%12s %10s %10s %10s  configuration\n", "cycles", "us", "VMEM MiB", "HBM MiB");
	for (uint32_t i = 0; i < s->best.count; i++)
		put_ranked(s, &s->best.at[i], &out);
	put_counts(s, &out);
	return output_put(s->how->output, out.at, out.length);
}

static void put_summary(Sweep *s) {
	Text out;
	text_init(&out, s->arena);
	put_counts(s, &out);
	fwrite(out.at, 1, out.length, stderr);
}

/* ---- the sweep --------------------------------------------------------------------------------------------------- */

static uint64_t threads_of(const Sweep *s) {
	long cores = s->how->threads ? (long)s->how->threads : sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t count = cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : (uint64_t)cores;
	return count < s->all ? count : s->all;
}

static void workers_free(Sweep *s, Worker *workers, uint64_t count) {
	for (uint64_t i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		arena_free(&workers[i].work);
		shared_free(workers[i].shared);
	}
	for (uint64_t i = 0; i < s->window; i++)
		arena_free(&s->chunks[i].arena);
}

static SweepResult run(Sweep *s, uint64_t threads) {
	Worker *workers = arena_array(s->arena, threads, sizeof *workers);
	SharedWays *ways = shared_ways_new(s->arena);
	uint64_t count = 0;
	for (; count < threads; count++) {
		Worker *w = &workers[count];
		w->sweep = s;
		w->shared = shared_new(s->arena, ways, s->space->start, &w->oom);
		arena_init(&w->work, &w->oom);
		if (pthread_create(&w->thread, NULL, work, w) != 0)
			break;
	}
	SweepResult result = {.error = count ? say_all(s) : NULL};
	workers_free(s, workers, count);
	result.unfinished = s->out_of_memory ? "out of memory" : count ? NULL : "no thread can be started";
	if (!result.error && !result.unfinished && s->how->table)
		result.error = put_table(s);
	else if (!result.error && !result.unfinished)
		put_summary(s);
	result.any_accepted = s->accepted > 0;
	return result;
}

SweepResult sweep(Arena *a, const ConfigSpace *space, const CompileOptions *options, const SweepOptions *how) {
	Sweep s = {.how = how, .options = options, .space = space, .arena = a};
	s.all = space->count / CHUNK + (space->count % CHUNK != 0);
	uint64_t threads = threads_of(&s);
	s.window = threads * CHUNKS_A_THREAD;
	s.chunks = arena_array(a, s.window, sizeof *s.chunks);
	for (uint64_t i = 0; i < s.window; i++)
		arena_init(&s.chunks[i].arena, a->oom);
	pthread_mutex_init(&s.lock, NULL);
	pthread_cond_init(&s.changed, NULL);
	clock_gettime(CLOCK_MONOTONIC, &s.start);
	return run(&s, threads);
}
