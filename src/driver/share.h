/* share.h - what compilations of one graph under many configurations have in common: a sweep's.
 *
 * Many of its configurations come to the same: one tries larger tiles that another one asks for, and what the passes
 * make depends on few of the keys that vary. Both are remembered, as far as room goes, and found by all that they
 * depend on, so a compilation gives what it would give alone. */
#ifndef PALLASC_SHARE_H
#define PALLASC_SHARE_H

#include "driver.h"

/* What a way to compile depends on: of a configured Module, the keys, tunables and sizes, as bytes. */
enum { SHARE_KEY_MAX = 176 };
typedef struct ShareKey {
	uint8_t at[SHARE_KEY_MAX];
	uint32_t count; /* 0: it is too long to be shared */
} ShareKey;

/* What a way came to. */
typedef struct Known {
	bool planned;    /* else it is refused */
	double bound;    /* seconds of its drafts; of what is planned */
	bool lowered;    /* it was found out whether it fits, ... */
	bool fits;       /* ... and it does */
	Outcome outcome; /* of what fits */
	int64_t kernels; /* lowered for it */
	bool may_one_hot, may_split_rows;
	int64_t row_bytes; /* of rows that loops could take whole */
} Known;

/* For a Module that is configured, and has not been through passes. */
ShareKey share_key(const Module *m);
bool share_find(Shared *s, const ShareKey *key, Known *out);
void share_add(Shared *s, const ShareKey *key, const Known *known);
/* As compile_passes(), of what they made of the same before, if that is there. */
bool share_passes(const Compilation *c, PassContext *context);

#endif
