/* pair.h - a forward and its backwards, paired by the names of their arrays (docs/gradients.md): what each backward
 * takes, and which of its outputs is the gradient of which input. */
#ifndef PALLASC_PAIR_H
#define PALLASC_PAIR_H

#include "codegen/kernel/kernel.h"

typedef struct NameList {
	const char *const *at;
	uint32_t count;
} NameList;

/* What the caller says over the names. The first three hold BACKWARD=FORWARD, two arrays' names; of an
 * array of one of several backwards PROGRAM.BACKWARD=FORWARD. */
typedef struct PairWishes {
	NameList residuals;  /* inputs of backwards that are an input or output of the forward */
	NameList cotangents; /* ... that are the cotangent of an output */
	NameList gradients;  /* outputs of backwards that are the gradient of an input */
	NameList returns;    /* the forward's outputs that its caller gets; none: all */
	NameList nondiff;    /* inputs whose gradient is zero; outputs whose cotangent is ignored */
} PairWishes;

/* One that is paired. */
typedef struct PairPart {
	KProgram *program;
	const Source *source;
	const Module *module; /* as it was read; NULL: the source is kernel text */
} PairPart;

typedef enum PairFrom { PAIR_INPUT, PAIR_OUTPUT, PAIR_COTANGENT, PAIR_BACKWARD } PairFrom;

/* What an input of a backward is: an input, output or cotangent of the forward, or an output of an earlier backward. */
typedef struct PairArg {
	PairFrom from;
	uint32_t backward; /* PAIR_BACKWARD: its number */
	uint32_t index;
} PairArg;

typedef struct Pairing {
	const KProgram *forward;
	const bool *returned; /* by the forward's output: its caller gets it */
	uint32_t backward_count;
	const KProgram *const *backwards;
	const PairArg *const *args; /* by backward, by input */
	const PairArg *gradients;   /* by the forward's input; its backward is NONE: zeros */
} Pairing;

/* Pairs them; NULL after diagnostics. Names of kernels and programs that clash are changed. */
const Pairing *pairing_make(Arena *a, Diag *d, const PairPart *forward, const PairPart *backwards, uint32_t count,
                            const PairWishes *wishes);

#endif
