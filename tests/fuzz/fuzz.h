/* fuzz.h - what is done with the bytes of a file, by fuzz target: the same under libFuzzer (libfuzzer.c) and where the
 * corpus is replayed (replay.c). Each aborts where something is wrong that no sanitizer sees. */
#ifndef PALLASC_FUZZ_H
#define PALLASC_FUZZ_H

#include "src/base/base.h"

typedef struct FuzzTarget {
	const char *name;
	void (*run)(const uint8_t *data, size_t size);
	bool kernel; /* of kernel text; else of JSON */
} FuzzTarget;

/* load: a document is read and verified, and as JSON again it is the same one. compile: it goes through all stages;
 * its member `x_fuzz` has the options. kernel: kernel text. target: a target file, configurations, KEY=VALUE and sizes
 * over graphs that are there, and what a sweep makes of them. The last has no name. */
extern const FuzzTarget fuzz_targets[];

/* mutate_json.c, mutate_text.c: changes `size` bytes at `data`, where there is room for `room`; the new size, 0 if
 * nothing came of it. `other`: where pieces may come from, or NULL. */
size_t mutate_json(uint8_t *data, size_t size, size_t room, unsigned seed, const uint8_t *other, size_t other_size);
size_t mutate_text(uint8_t *data, size_t size, size_t room, unsigned seed, const uint8_t *other, size_t other_size);

/* Numbers that follow from a seed. */
typedef struct Draw {
	uint64_t state;
} Draw;
static inline uint32_t draw(Draw *d, uint32_t below) {
	d->state = d->state * 6364136223846793005u + 1442695040888963407u;
	return below ? (uint32_t)(d->state >> 33) % below : 0;
}
static inline bool draw_one_in(Draw *d, uint32_t n) { return draw(d, n) == 0; }

#endif
