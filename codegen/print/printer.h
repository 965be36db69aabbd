/* printer.h - what the print_*.c files share: kernels as Python. They know names, line breaks and Python. */
#ifndef PALLASC_PRINTER_H
#define PALLASC_PRINTER_H

#include "pywriter.h"
#include "codegen/kernel/kernel.h"
#include "codegen/pair/pair.h"

/* How tightly an expression binds, as Python ranks its operators. */
typedef enum Precedence {
	PREC_LOWEST, /* a if b else c, lambda */
	PREC_COMPARE,
	PREC_OR, /* | */
	PREC_XOR,
	PREC_AND,
	PREC_SHIFT,
	PREC_ADD,
	PREC_MUL,
	PREC_UNARY,
	PREC_POWER,
	PREC_ATOM /* names, calls, subscripts, literals */
} Precedence;

typedef struct PyExpr {
	const char *text;
	Precedence precedence;
} PyExpr;

enum { HELPER_COUNT = 56 };

/* Of a loop over slices. */
typedef struct Slice {
	IntId start;
	int64_t size;
	const char *var;
	const struct Slice *outer;
} Slice;

typedef struct Printer {
	const KProgram *program;
	Kernel *k;
	Arena *a;
	PyWriter w;
	Map commented;               /* source lines whose comment stands already */
	const struct Slice *slice;   /* inside loops over slices that of the innermost; else NULL */
	const char *fori_carry;      /* in the body of a fori that carries nothing: what it returns */
	const KFunction *while_body; /* in the body of a while: it; else NULL */
	bool *printed;               /* by statement: it stands in one that was printed */
	bool helpers[HELPER_COUNT];
} Printer;

/* What these put stands behind what `out` holds; those that return a Precedence say how tightly it binds. */

/* print_ints.c */
Precedence put_int(Printer *pr, Text *out, IntId i);
/* The slice that starts there, of so many elements or, if `size` is 0, of any; NULL. */
const Slice *slice_from(const Printer *pr, IntId start, int64_t size);
/* In parentheses where it binds looser than what stands around it. */
void put_int_in(Printer *pr, Text *out, IntId i, Precedence around);

/* print_exprs.c */
/* Parentheses around all from `start` on, if it binds looser than what stands around it. */
void put_parens(Text *out, size_t start, Precedence is, Precedence around);
void put_list(Text *out, uint32_t count, const char *const *items);
/* (1, 2); (1,) */
void put_shape(Text *out, uint32_t rank, const int64_t *shape);
/* An argument: a variable, a number, or the expression of a value that has no variable. */
Precedence put_arg(Printer *pr, Text *out, const KArg *arg);
void put_arg_in(Printer *pr, Text *out, const KArg *arg, Precedence around);
/* A statement's arguments from `first` on, and one of them as a text of its own. */
void put_args(Printer *pr, Text *out, StmtId s, uint32_t first);
const char *arg_text(Printer *pr, StmtId s, uint32_t i);
/* The expression of a statement with one result. */
Precedence put_expr(Printer *pr, Text *out, StmtId s);
/* `ref[...]`. */
void put_ref(Printer *pr, Text *out, const KRef *ref);
/* The dim in which it is one of several parts; NULL. */
const KDim *ref_part(const KRef *ref);
/* `_part(index, count, `, before a function of the part: a static offset is aligned where a computed one is not. */
void put_part(Printer *pr, Text *out, const KDim *part);

/* print_ops.c: the op table's text around a statement's arguments. */
Precedence put_pointwise(Printer *pr, Text *out, StmtId s);

/* print_statements.c */
void print_comment(Printer *pr, const Location *from);
void print_region(Printer *pr, RegionId r);
/* The kernel's function. */
void print_kernel(Printer *pr);

/* print_calls.c: of the body of the wrapper, from a statement to another one, or to its end (NONE): the call of each
 * kernel, views between them, and what is returned. */
void print_host(Printer *pr, Kernel *const *kernels, StmtId first, StmtId last);

/* print_pair.c: the function that jax differentiates, `_NAME_vjp`, and its rules. */
void print_rules(Printer *pr, const Pairing *pairing);
/* A helper that they call. */
void print_allow_checkpoint(Printer *pr);

/* print_sharded.c: what KERNEL_INFO says of a kernel that is one device's, and the function of whole arrays. */
struct Sharding;
void print_sharding_info(const struct Sharding *s, Text *out);
void print_sharded(Printer *pr, const struct Sharding *s);

/* print_module.c: Python, or a module, has another use for the name. */
bool name_is_reserved(const char *name);

/* print_jax.c: what a kernel's call needs to be simulated, and under jax's transformations. */
void print_simulator(Printer *pr, const char *mesh_axis); /* NULL: it runs on no mesh */
/* Which of jax's functions kernels are called by; and some update arrays that are not of whole blocks. */
typedef struct Calls {
	bool grids, sparse, ragged;
} Calls;
void note_calls(const KProgram *p, Calls *calls);
void print_calls(Printer *pr, const Calls *calls);

/* print_helpers.c: the name of a function to call; one of the module's own is then printed. */
const char *helper_named(Printer *pr, const char *name);
void print_used_helpers(Printer *pr);

#endif
