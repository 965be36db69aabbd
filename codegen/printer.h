/* printer.h - what the print_*.c files share. They walk the Plan and decide nothing but line breaks and names. */
#ifndef PALLASC_PRINTER_H
#define PALLASC_PRINTER_H

#include "planner.h"
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

enum { HELPER_COUNT = 46 };

/* A name that only exists where it was made: a converted value, a mask. */
typedef struct Temporary {
	uint64_t key;
	const char *name;
	uint32_t scope;
} Temporary;

typedef struct Printer {
	const Program *whole;
	const Plan *plan; /* the kernel that is printed, or called */
	Module *m;
	Arena *a;
	PyWriter w;
	StringTable strings;
	Map taken;            /* identifiers in use in the kernel */
	const char **names;   /* by NodeId: the variable, once it is printed */
	const char **refs;    /* by operand */
	const char **scratch; /* by scratch */
	const char ***window; /* by loop and window: the step function's parameter */
	VEC(Temporary) temporaries;
	uint32_t scope;       /* nesting of step functions: a temporary of a closed one is gone */
	Map commented;        /* source lines whose comment stands already */
	const char **program; /* by grid dim: the variable that holds its program id */
	bool *program_used;
	const char **step;   /* by loop * RANK_MAX + dim: the step's variable where the printer stands, ... */
	int64_t *step_value; /* ... or its value, where `step` is NULL */
	bool *step_used;
	const char *strip;                  /* the slice of columns where the printer is in strips; else NULL */
	const char **ragged;                /* by loop: the flag of its step function */
	bool to_row, to_column, mask, part; /* helpers that the module needs */
	bool helpers[HELPER_COUNT];
} Printer;

/* print_names.c */
/* An unused identifier close to `wish`, which may be any text. */
const char *printer_name(Printer *pr, const char *wish);
/* A name for node n's variable: its own, or for what a tracer named after the op, one after its operand. */
const char *value_name(Printer *pr, NodeId n);
/* Makes names that the kernel must not use for anything else. */
void printer_reserve(Printer *pr, const char *name);
void printer_comment(Printer *pr, NodeId n);

/* print_expr.c */
const char *affine_text(Printer *pr, const Affine *a, Precedence around);
/* Where a slice starts, with what the compiler must be told of it. */
const char *start_text(Printer *pr, const Affine *start, int64_t multiple);
/* Node n's value in a form: its variable, or its expression if it is printed in place. Statements that it needs are
 * written first. */
PyExpr value_text(Printer *pr, NodeId n, Form form);
/* What a view is that is its operand's value in the form it wants and no more. A conversion takes the view's name, and
 * is then its variable. */
PyExpr viewed_text(Printer *pr, NodeId view);
/* The same for any argument: literals too. */
PyExpr arg_text(Printer *pr, const Arg *a, Form form);
/* A view that only adds dims of 1 to an index is an index along that dim; NULL if n is none. */
const char *index_view_text(Printer *pr, NodeId n);
/* A literal, or the number that an expression is. */
PyExpr number_text(Printer *pr, const Arg *a);
const char *in_parens(Printer *pr, PyExpr e, Precedence around);
/* Node n's dims in the graph. */
uint32_t type_rank(Printer *pr, NodeId n);
/* The expression that computes node n itself. */
PyExpr node_text(Printer *pr, NodeId n);
/* A reduction's text around its operand, of dtype `from`. */
PyExpr reduction_text(Printer *pr, NodeId n, const char *operand, Dtype from);
/* The shape of node n's value where the printer stands: of a strip of it, inside one. */
uint32_t printed_shape(Printer *pr, NodeId n, Form form, int64_t *shape);
const char *shape_text(Printer *pr, uint32_t rank, const int64_t *shape);
const char *access_text(Printer *pr, const Access *access, bool keep_unit);
/* The dim in which it is part of a block that several grid steps share; NULL. */
static inline const SliceDim *access_part_dim(const Access *access) {
	for (uint32_t i = 0; i < access->rank; i++)
		if (access->dim[i].parts)
			return &access->dim[i];
	return NULL;
}
const char *part_of(Printer *pr, const SliceDim *s);
/* `a` divided by `by`, or the rest of that. */
const char *affine_divided(Printer *pr, const Affine *a, int64_t by, bool rest, Precedence around);
const char *dims_text(Printer *pr, uint32_t rank, const char *const *items);

/* print_views.c: a LOWER_VIEW, a LOWER_MOVE. */
PyExpr view_text(Printer *pr, NodeId n);
PyExpr move_text(Printer *pr, NodeId n);

/* print_pointwise.c */
/* A Python number beside ints is one of them: cut off after the point, wrapped around to the ints' width. */
PyExpr number_beside_ints(Printer *pr, const Arg *a, Dtype ints);
PyExpr pointwise_text(Printer *pr, NodeId n);
/* An op's text around its operands. */
PyExpr row_text(Printer *pr, const OpRow *row, const PyExpr *operands, uint32_t count);
/* An operand in the dtype that its op computes in; as it is if that is DTYPE_NONE. */
PyExpr computed_text(Printer *pr, const Arg *a, Form form, Dtype compute);
PyExpr as_dtype(Printer *pr, PyExpr e, Dtype dtype);
/* A number as a 0-d value of a dtype. */
PyExpr as_scalar(Printer *pr, PyExpr e, Dtype dtype);
/* The same by a way that Mosaic has. */
PyExpr converted_text(Printer *pr, PyExpr e, Dtype from, Dtype to);

/* Parameters of the function: the inputs in order, then run-time scalars, as identifiers. */
typedef struct Parameters {
	const char **tensor; /* by TensorId: NULL if it is none */
	const char **scalar; /* by ScalarId */
} Parameters;

/* print_calls.c: the calls of all kernels and what is returned. `kernels`: with what they were printed. */
void print_calls(Printer *pr, const Parameters *params, const Printer *kernels);

/* print_returns.c: return r, from the array of its tensor's shape. */
const char *returned_text(Printer *pr, uint32_t r, const char *x);

/* print_helpers.c: the name of a function to call; one of the module's own is then printed. */
const char *helper_named(Printer *pr, const char *name);
void print_used_helpers(Printer *pr);
/* What the module needs already. */
static inline void printer_take_helpers(Printer *pr, const Printer *from) {
	pr->to_row = from->to_row;
	pr->to_column = from->to_column;
	pr->mask = from->mask;
	pr->part = from->part;
	memcpy(pr->helpers, from->helpers, sizeof pr->helpers);
}

/* print_helpers.c: the grid's last step, that runs back and forth, from the ids of the dim before it and its own. */
const char *back_and_forth_text(Printer *pr, const char *row, const char *step);

/* print_held.c: what the first and the last visit of a held block do, and its initial value as a number of a dtype. */
void print_first_visits(Printer *pr);
void print_last_visits(Printer *pr);
PyExpr held_initial_text(Printer *pr, const Operand *o, Dtype dtype);

/* print_loop.c: the step function of a loop and what drives it. */
void print_loop(Printer *pr, NodeId call);

/* print_strips.c: the root in strips of columns. */
void print_strips(Printer *pr);

/* print_kernel.c */
void print_node(Printer *pr, NodeId n);
void print_graph(Printer *pr, GraphId g);
/* Of a skewed loop: what is computed one step ahead, or the rest. */
void print_graph_part(Printer *pr, GraphId g, bool ahead);
/* Its name in the module. */
static inline const char *kernel_name(const Plan *p) { return arena_printf(p->arena, "_%s_kernel", p->module->name); }
/* The kernel function; it leaves in pr which helpers the module needs. */
void print_kernel(Printer *pr, const char *name);

#endif
