/* expand.h - between the files that expand statements: expand*.c. */
#ifndef PALLASC_CORE_EXPAND_H
#define PALLASC_CORE_EXPAND_H

#include "registers.h"

/* A register: rows, lanes, bits of each. */
enum { SUBLANES = 8, LANES = 128, WORD = 32 };
/* Beside the id of a value: keys of what is made of it. */
enum { SPREAD = 0x51, SPREAD_MASK = 0xb001, AS_INT = 0xe417 };

/* Rows of tiles that are whole registers. */
static inline uint8_t native_rows(uint32_t bits) { return (uint8_t)(SUBLANES * WORD / (bits ? bits : WORD)); }
static inline RegisterForm native_form(uint32_t bits) {
	return (RegisterForm){.bits = (uint8_t)bits, .rows = native_rows(bits)};
}
static inline int64_t last_dim(uint32_t rank, const int64_t *shape) { return rank ? shape[rank - 1] : 1; }
static inline int64_t rows_dim(uint32_t rank, const int64_t *shape) { return rank > 1 ? shape[rank - 2] : 1; }
static inline int64_t lanes_of(const KValue *v) { return last_dim(v->rank, v->shape); }
static inline int64_t rows_of(const KValue *v) { return rows_dim(v->rank, v->shape); }
static inline bool is_tile(const KValue *v) { return v->type == KTYPE_TILE && v->rank > 0; }
static inline const KValue *result_of(const Expander *e, const KStmt *s) { return &e->k->values.at[s->result]; }
static inline RegisterForm *result_form(const Expander *e, const KStmt *s) { return &e->values[s->result].form; }

/* expand.c */
double outer_size(uint32_t rank, const int64_t *shape);
double value_as(const KValue *v, const RegisterForm *f);
/* Its tiles of 8 rows and 128 lanes, as registers of 32 bits. */
double words_of(const KValue *v, const RegisterForm *f);
void count_operations(Expander *e, RegisterOp op, double times);
/* Argument i as a tile, and how it lies; NULL: it is none. */
const KValue *expand_tile(const Expander *e, const KStmt *s, uint32_t i);
Traced *expand_traced(const Expander *e, const KStmt *s, uint32_t i);
/* Registers of a value taken with tiles of so many rows; it is put into such first. */
double taken_as(Expander *e, const KValue *v, const RegisterForm *f, uint8_t to);

/* expand_convert.c */
void expand_convert(Expander *e, const KStmt *s);
/* A tile as another dtype: how it lies then. */
RegisterForm converted(Expander *e, const KValue *x, const RegisterForm *from, Dtype to);
/* A mask beside elements of a dtype is one of their width. */
RegisterForm mask_as(Expander *e, const KValue *x, const RegisterForm *from, Dtype dtype);

/* expand_folds.c */
typedef struct Known {
	double floats, functions, compares;
} Known;

/* Nothing is left to do; its result lies as it will. */
bool expand_folded(Expander *e, const KStmt *s);
/* What of an op's operations has been computed for others. */
Known expand_known(Expander *e, const KStmt *s);
/* What becomes one operation with the one whose result it reads, which is taken back. */
void expand_chained(Expander *e, const KStmt *s, double n);

/* expand_pointwise.c */
void expand_pointwise(Expander *e, const KStmt *s);
/* Spreads the operand to the shape: a lane along lanes, a row along rows; once for all that read it. */
void spread(Expander *e, const KValue *x, const Traced *v, const RegisterForm *f, const KValue *to, uint8_t tall);
/* Whether it has been, along lanes; from now on it has. */
bool spread_before(Expander *e, const Traced *v);
/* The op has a row in operations.def. */
bool is_told(uint16_t op);

/* expand_dims.c: along dims. The places along an axis: those of one register, and how far others are. */
RegisterForm expand_places(Expander *e, const KValue *v, uint32_t axis);
void expand_iota(Expander *e, const KStmt *s);
void expand_mask(Expander *e, const KStmt *s);
void expand_reduce(Expander *e, const KStmt *s);
void expand_product(Expander *e, const KStmt *s);
void expand_fold(Expander *e, const KStmt *s);
void expand_fold_where(Expander *e, const KStmt *s);

/* expand_moves.c: lanes and rows that go elsewhere, or registers that are called otherwise. */
void expand_transpose(Expander *e, const KStmt *s);
void expand_to_row(Expander *e, const KStmt *s);
void expand_to_column(Expander *e, const KStmt *s);
void expand_rename(Expander *e, const KStmt *s);
void expand_rotate(Expander *e, const KStmt *s);
void expand_pad(Expander *e, const KStmt *s);
void expand_join(Expander *e, const KStmt *s);

/* expand_lanes.c */
void expand_roll(Expander *e, const KStmt *s);
void expand_sort(Expander *e, const KStmt *s);
void expand_even_lanes(Expander *e, const KStmt *s);
void expand_interleave(Expander *e, const KStmt *s);
void expand_take_lanes(Expander *e, const KStmt *s);
void expand_flip(Expander *e, const KStmt *s);

/* expand_memory.c */
void expand_load(Expander *e, const KStmt *s);
void expand_store(Expander *e, const KStmt *s);
void expand_dot(Expander *e, const KStmt *s);

#endif
