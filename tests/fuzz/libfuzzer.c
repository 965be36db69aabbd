/* libfuzzer.c - what libFuzzer calls: the fuzz target FUZZ_TARGET of targets.c, and its mutations. */
#include "fuzz.h"

#include <stdlib.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

static const FuzzTarget *target(void) {
	static const FuzzTarget *found;
	for (const FuzzTarget *t = fuzz_targets; !found && t->name; t++)
		if (strcmp(t->name, FUZZ_TARGET) == 0)
			found = t;
	return found;
}

/* One in so many mutations knows nothing of the grammar. */
enum { BLIND = 16 };

static size_t mutate(uint8_t *data, size_t size, size_t room, unsigned seed, const uint8_t *other, size_t other_size) {
	size_t made = 0;
	if (seed % BLIND)
		made = (target()->kernel ? mutate_text : mutate_json)(data, size, room, seed, other, other_size);
	return made;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
	size_t made = mutate(data, size, room, seed, NULL, 0);
	return made ? made : LLVMFuzzerMutate(data, size, room);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t size, const uint8_t *other, size_t other_size, uint8_t *out,
                                 size_t room, unsigned seed) {
	if (size > room)
		return 0;
	memcpy(out, one, size);
	return mutate(out, size, room, seed | 1, other, other_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	target()->run(data, size);
	return 0;
}

/* What is freed stays poisoned for as long as 16 MiB are; where it was allocated is asked for when a find is run again:
 * ASAN_OPTIONS=malloc_context_size=30. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
	return "quarantine_size_mb=16:malloc_context_size=0:max_malloc_fill_size=256";
}
