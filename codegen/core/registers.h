/* registers.h - statements as operations on vector registers, as Mosaic's own stage `post-apply-vector-layout` has
 * them: how each value lies in registers, and what is done to them one by one.
 *
 *     kernel as it is printed --trace.c--> statement after statement, as Python runs it
 *                             --expand*.c--> operations of each, by class, and how its results lie
 *
 * That stage knows nothing of how a chip computes an exponential or converts: there each is one operation. */
#ifndef PALLASC_CORE_REGISTERS_H
#define PALLASC_CORE_REGISTERS_H

#include "core.h"

/* Classes of operations; python/pallasc/profile/mosaic.py says which of Mosaic's each holds. */
typedef enum RegisterOp {
	RO_LOAD,
	RO_STORE,
	RO_MATMUL,
	RO_FLOAT,    /* sums, products, maxima */
	RO_FUNCTION, /* quotients, exponentials, roots */
	RO_INT,
	RO_COMPARE,
	RO_SELECT,
	RO_CONVERT,
	RO_PACK, /* narrow elements into registers, or out of them */
	RO_REDUCE,
	RO_ROTATE,
	RO_TRANSPOSE,
	RO_PERMUTE, /* lanes or rows put elsewhere, or spread */
	RO_MASK,
	RO_COUNT
} RegisterOp;

/* By RegisterOp; NULL-terminated. */
extern const char *const register_op_names[RO_COUNT + 1];

typedef struct Operations {
	double of[RO_COUNT];
	bool any;
} Operations;

/* How a value lies in registers. A register is tiles of `rows` rows and 128 lanes, side by side. */
typedef struct RegisterForm {
	uint8_t rows, bits;         /* of a tile; of an element: of a bool those of what was compared */
	bool same_rows, same_lanes; /* one row, or lane, stands in all of them */
	uint8_t implied;            /* 1, 2: it has one lane, one row, that its shape does not say */
	bool turned;                /* its first lane is not that of a register */
	bool splat;                 /* a constant, `number` in all places */
	bool product;               /* a matmul's into nothing: what is added to it next is added by the matmul */
	double number;
} RegisterForm;

/* A value while the kernel is traced. */
typedef struct Traced {
	RegisterForm form;
	uint64_t id;     /* equal ones are the same value */
	uint64_t chosen; /* of a choice, its mask; 0 */
	bool summed;     /* of ints: it is something and the number `added` */
	int64_t added;
} Traced;

typedef struct Expander {
	struct Trace *trace; /* that it is part of; NULL: nothing is known but the statement */
	const Kernel *k;
	const Target *t;
	Traced *values;       /* by value */
	uint8_t *rows;        /* by buffer: of its tiles in VMEM */
	const uint32_t *uses; /* by value; NULL: not known */
	Operations *to;       /* of the statement that is expanded */
} Expander;

/* trace.c: by statement, over all runs of a kernel whose loops' steps are known; of other loops one step. `order`:
 * those with any, as they are come to. */
Operations *kernel_operations(Kernel *k, const Target *t, Arena *a, StmtIds *order);
/* Whether this has been computed before where it is asked; from now on it has. */
bool computed_before(Expander *e, uint64_t key);
/* Argument i is a number, or a tile of one. */
bool argument_number(Expander *e, const KStmt *s, uint32_t i, double *number);
uint64_t argument_key(const Expander *e, uint64_t before, const KStmt *s, uint32_t i);

/* A kernel's, where values lie as they usually do. */
Expander *expander_of(const Kernel *k, const Target *t, Arena *a);

/* expand.c: one statement, and how its result lies. */
void expand_statement(Expander *e, StmtId s);
/* Registers of its result; 0 of what needs no operation. */
double expanded_registers(const Expander *e, const KStmt *s, const Operations *ops);
RegisterForm usual_form(Dtype dtype);
double form_registers(const RegisterForm *f, uint32_t rank, const int64_t *shape);

/* expand_moves.c: whether a transposition or a swap, whose axes may count from the back, moves the last dim. */
bool swaps_lanes(const KStmt *s, uint32_t rank);

/* expand_memory.c: `own`: of an array that the kernel makes itself. */
uint8_t tile_rows(Dtype dtype, uint32_t rank, const int64_t *shape, bool own);

#endif
