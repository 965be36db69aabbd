/* loops.h - passes that move code into loops. */
#ifndef PALLASC_LOOPS_H
#define PALLASC_LOOPS_H

#include "passes/facts/facts.h"

bool pass_inloop_loads(PassContext *c);

#endif
