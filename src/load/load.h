/* load.h - a document becomes a Module. */
#ifndef PALLASC_LOAD_H
#define PALLASC_LOAD_H

#include "src/ir/ir.h"
#include "src/json/json.h"

/* Values of named sizes over the document's: `count` strings NAME=VALUE, of one name the last counts. */
typedef struct SizeChoices {
	const char *const *at;
	uint32_t count;
} SizeChoices;
enum { NAMED_SIZE_MAX = POSITION_MAX };

/* load.c: JSON text to Module. NULL after diagnostics. */
Module *module_load(Arena *a, Diag *d, const Source *source, const Target *target);
/* The same at these sizes (NULL: as the document says). */
Module *module_load_sized(Arena *a, Diag *d, const Source *source, const Target *target, const SizeChoices *sizes);
/* The same of `source`'s text as it was parsed before; `root` stays the caller's, also where memory runs out. */
Module *module_load_parsed(Arena *a, Diag *d, const Source *source, json_t *root, const Target *target,
                           const SizeChoices *sizes);
/* load_named.c: is it NAME=VALUE with a size for its value? Then the name has so many letters. */
bool size_choice_read(const char *text, size_t *name_length, int64_t *value);
/* Gives the Module's sizes these values; false after diagnostics. Expressions that were read before do not change. */
bool module_choose_sizes(Module *m, Diag *d, const SizeChoices *sizes);
/* For a document that was refused: which sizes it was read with. Nothing where it names none. */
void module_note_sizes(const Module *m, Diag *d);
/* load_notes.c: compares the document's annotations with the facts recomputed by passes, as far as these ran; false
 * after diagnostics. An alignment of 0 in dim 0 of given_alignments means that the document says nothing. */
bool module_check_annotations(Module *m, Diag *d);

#endif
