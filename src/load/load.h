/* load.h - a document becomes a Module. */
#ifndef PALLASC_LOAD_H
#define PALLASC_LOAD_H

#include "src/ir/ir.h"

/* load.c: JSON text to Module. NULL after diagnostics. */
Module *module_load(Arena *a, Diag *d, const Source *source, const Target *target);
/* load_notes.c: compares the document's annotations with the facts recomputed by passes, as far as these ran; false
 * after diagnostics. An alignment of 0 in dim 0 of given_alignments means that the document says nothing. */
bool module_check_annotations(Module *m, Diag *d);

#endif
