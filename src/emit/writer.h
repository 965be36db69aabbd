/* writer.h - what the parts of the JSON writer share. */
#ifndef PALLASC_WRITER_H
#define PALLASC_WRITER_H

#include "src/ir/ir.h"

typedef struct Writer {
	const Module *m;
	Text *out;
	Arena scratch;
	Schema *schemas; /* by op, parsed when first needed: count is NONE until then */
	bool first;      /* no member of the current object was written yet */
} Writer;

static inline void put(Writer *w, const char *s) { text_put(w->out, s); }
/* `, ` but before the first member, then `"name": `. */
void emit_key(Writer *w, const char *name);
void emit_string(Writer *w, const char *name, const char *value);
void emit_int(Writer *w, const char *name, int64_t value);
/* `, "config": {...}` and `, "annotations": {...}`: emit_json_config.c. */
void emit_config(Writer *w);
void emit_annotations(Writer *w);

#endif
