/* broadcast.h - the pass that gives carried row values a trailing dim of lanes. */
#ifndef PALLASC_BROADCAST_H
#define PALLASC_BROADCAST_H

#include "passes/facts/facts.h"

bool pass_pre_broadcast(PassContext *c);

#endif
