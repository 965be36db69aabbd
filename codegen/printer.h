/* printer.h - what the print_*.c files share: kernels as Python. They know names, line breaks and Python. */
#ifndef PALLASC_PRINTER_H
#define PALLASC_PRINTER_H

#include "kernel.h"
#include "pywriter.h"

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

static inline PyExpr py_atom(const char *text) { return (PyExpr){text, PREC_ATOM}; }

enum { HELPER_COUNT = 50 };

typedef struct Printer {
	const KProgram *program;
	Kernel *k;
	Arena *a;
	PyWriter w;
	Map commented;     /* source lines whose comment stands already */
	IntId slice_start; /* inside a loop over slices: where its slice starts, ... */
	int64_t slice_size;
	const char *slice;      /* ... and its variable; else NULL */
	const char *fori_carry; /* in the body of a fori that carries nothing: what it returns */
	bool *printed;          /* by statement: it stands in one that was printed */
	bool helpers[HELPER_COUNT];
} Printer;

/* print_ints.c */
PyExpr print_int(Printer *pr, IntId i);
const char *int_text(Printer *pr, IntId i, Precedence around);

/* print_exprs.c */
const char *in_parens(Printer *pr, PyExpr e, Precedence around);
const char *list_text(Printer *pr, uint32_t count, const char *const *items);
/* (1, 2); (1,) */
const char *shape_text(Printer *pr, uint32_t rank, const int64_t *shape);
/* An argument: a variable, a number, or the expression of a value that has no variable. */
PyExpr print_arg(Printer *pr, const KArg *arg);
/* The expression of a statement with one result. */
PyExpr print_expr(Printer *pr, StmtId s);
/* The subscript of a reference, brackets included. */
const char *subscript_text(Printer *pr, const KRef *ref);
/* `ref[...]`. */
const char *ref_text(Printer *pr, const KRef *ref);
/* The dim in which it is one of several parts; NULL. */
const KDim *ref_part(const KRef *ref);
/* `_part(index, count, `, before a function of the part: a static offset is aligned where a computed one is not. */
const char *part_text(Printer *pr, const KDim *part);

/* print_ops.c: the op table's text around operands. */
PyExpr row_text(Printer *pr, const OpRow *row, const PyExpr *operands, uint32_t count);

/* print_statements.c */
void print_comment(Printer *pr, const Location *from);
void print_region(Printer *pr, RegionId r);
/* The kernel's function. */
void print_kernel(Printer *pr);

/* print_calls.c: the body of the wrapper: the call of each kernel, views between them, and what is returned. */
void print_host(Printer *pr, Kernel *const *kernels);

/* print_helpers.c: the name of a function to call; one of the module's own is then printed. */
const char *helper_named(Printer *pr, const char *name);
void print_used_helpers(Printer *pr);

#endif
