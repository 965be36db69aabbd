/* sweep.h - many configurations of one graph: which there are, and what each comes to.
 *
 * A ConfigSpace is a product of axes, and its configurations have numbers: the last axis moves fastest. Nothing is
 * listed, so a space of billions takes no memory, and each configuration is made from its number alone, by whichever
 * thread. */
#ifndef PALLASC_SWEEP_H
#define PALLASC_SWEEP_H

#include "src/driver/driver.h"

typedef enum AxisKind {
	AXIS_SIZE,      /* entry `item` of block_sizes */
	AXIS_REDUCTION, /* entry `item` of reduction_loops; 0: null */
	AXIS_ORDER,     /* entry `item` of loop_orders: the number of a permutation, in lexical order */
	AXIS_TUNABLE,   /* tunable `item` */
	AXIS_KEY        /* the whole value of a key: an index of `whole` */
} AxisKind;

typedef struct Axis {
	AxisKind kind;
	const KeyRow *row; /* NULL of a tunable */
	uint32_t item;
	uint32_t dims;       /* AXIS_ORDER: of the loop */
	const char *name;    /* of the block, the tunable or the key */
	VEC(int64_t) values; /* at least one */
	Config *whole;       /* AXIS_KEY: by value, with the key's field */
} Axis;

typedef struct ConfigSpace {
	Arena *arena;
	Module *start;         /* verified, with the configuration that every one is laid over; not configured */
	bool given[KEY_COUNT]; /* by the options: one value */
	VEC(Axis) axes;
	uint64_t size;  /* of the product; UINT64_MAX: that many or more */
	uint64_t count; /* of those that are judged: all, or a sample */
	uint64_t seed;
} ConfigSpace;

/* space.c: the space of a Module whose own configuration was read and whose types were verified.
 *
 * What the options' configuration gives stays as it is. Of the rest vary: the size of each block (powers of two up to
 * the first that covers its range), the blocks of each long row, the orders of each grid and loop, the loop type where
 * there are loops, and tunables. `spec` (NULL: none), an object, names keys, blocks or tunables and lists the values to
 * try of each instead. `sample`: judge so many, spread evenly over the space, one drawn from each part by `seed`; 0:
 * all. NULL after diagnostics. */
ConfigSpace *space_new(Arena *a, Diag *d, Module *m, const CompileOptions *options, const Source *spec, uint64_t sample,
                       uint64_t seed);
/* The number in the space of the configuration that is judged as number i < count; grows with i. */
uint64_t space_number(const ConfigSpace *s, uint64_t i);
/* Lays the configuration of this number over that of a clone of the start. */
void space_apply(const ConfigSpace *s, uint64_t number, Module *m);
/* It as a JSON object: the axes' keys, and those that the options gave. */
void space_put(const ConfigSpace *s, const Module *m, Text *out);

/* judge.c: what a configuration comes to; no texts are made. */
typedef struct Judgement {
	const char *code, *message; /* of the first error; NULL: it is accepted */
	int64_t vmem_bytes;         /* of the largest kernel */
	double flops, hbm_bytes;    /* of all kernels */
	double seconds;             /* estimated, as in --emit=plan */
} Judgement;

/* Judges configuration `number` as compiling it would, in the arena, which the caller resets. The space is only read:
 * threads may judge at the same time, each in an arena and with a Shared of its own. `bar`: seconds; what is sure to
 * take longer has a number of seconds past it, and no estimate. It only falls from one call to the next; 0: none. */
Judgement space_judge(const ConfigSpace *s, uint64_t number, const CompileOptions *options, double bar, Shared *shared,
                      Arena *a);
/* A line of JSON: its number, configuration, verdict, bytes of VMEM, FLOPs, bytes of HBM, seconds and cycles, or why it
 * is refused. */
void judgement_put(const ConfigSpace *s, uint64_t number, const Judgement *j, Arena *a, Text *out);

#endif
