/* effects.h - which host tensors each graph writes, by itself or through the graphs it calls: shared by the passes that
 * merge, move or remove loads. */
#ifndef PALLASC_EFFECTS_H
#define PALLASC_EFFECTS_H

#include "src/ir/ir.h"

typedef struct GraphEffects {
	VEC(TensorId) written; /* base tensors, each once */
	bool has_while;        /* it or a graph below it calls a while */
} GraphEffects;

typedef struct Effects {
	GraphEffects *graph; /* by GraphId */
	Map writes;          /* graph << 32 | base: a member of `written` */
} Effects;

/* Linear: each write is noted in the graphs around it, whose depth is bounded. */
Effects effects_of(Arena *a, const Module *m);
bool graph_writes(const Effects *e, GraphId g, TensorId base);
/* The base tensor that a load, store or atomic touches. */
TensorId access_base(const Module *m, NodeId n);
/* The graphs that call node n runs: up to two; returns their count. */
uint32_t call_graphs(const Module *m, NodeId n, GraphId graphs[2]);

#endif
