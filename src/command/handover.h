/* handover.h - commands of pallasc that its Python side runs. */
#ifndef PALLASC_HANDOVER_H
#define PALLASC_HANDOVER_H

#include "src/base/base.h"

/* Whether `pallasc WORD ...` is `python3 -m pallasc WORD ...`. */
bool handed_over(const char *word);

/* Becomes that program; `argv` as main() has it, with the word in argv[1]. Returns why it cannot, one line that also
 * says what to do. The Python is $PALLASC_PYTHON; of a checkout its .venv's; else the one beside this program, as where
 * pip installed both; else python3 of the PATH. */
const char *hand_over(Arena *a, int argc, char *const *argv);

#endif
