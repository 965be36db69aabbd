/* work.h - between the files of this room that make operations of statements. */
#ifndef PALLASC_CORE_WORK_H
#define PALLASC_CORE_WORK_H

#include "registers.h"

/* A row of expansions.def, of what moves or is coded anew. */
typedef enum Moved {
#define EXPANSION(...)
#define CONVERSION(...)
#define MOVED(name, ...) MOVED_##name,
#include "expansions.def"
#undef EXPANSION
#undef CONVERSION
#undef MOVED
} Moved;

/* work.c */
static inline int64_t value_lanes(const KValue *v) { return v->rank ? v->shape[v->rank - 1] : 1; }
static inline int64_t value_rows(const KValue *v) { return v->rank > 1 ? v->shape[v->rank - 2] : 1; }
static inline bool is_tile_value(const KValue *v) { return v->type == KTYPE_TILE && v->rank > 0; }
/* Argument i; NONE, NULL: it is no value, no tile. */
ValueId work_operand(const Core *c, const KStmt *s, uint32_t i);
const KValue *work_tile(const Core *c, const KStmt *s, uint32_t i);
/* Registers of argument i, and of the result. */
double work_registers(const Core *c, const KStmt *s, uint32_t i);
double work_result(const Core *c, const KStmt *s);
/* So many registers across lanes. */
void work_across(Work *w, double registers);

/* work_moves.c */
void work_moved(Work *w, Moved what, double registers);
void work_of_scan(const Core *c, const KStmt *s, Work *w);
void work_of_sort(const Core *c, const KStmt *s, Work *w);
/* Of ops that put lanes elsewhere; false: it is none of them. */
bool work_of_move(const Core *c, const KStmt *s, Work *w);

/* work_memory.c */
void work_of_dot(const Core *c, const KStmt *s, Work *w);
void work_of_access(const Core *c, const KStmt *s, const Operations *ops, Work *w);
/* Operations that compute an int. */
double int_operations(const Kernel *k, IntId i);

#endif
