/* config.h - a configuration over a Module: read, resolved, and what sizes become under it. */
#ifndef PALLASC_CONFIG_H
#define PALLASC_CONFIG_H

#include "src/ir/ir.h"
#include "src/json/json.h"

/* config.c: merges a document (--config FILE) or KEY=VALUE (--set) over the Module's own configuration. */
bool config_load(Module *m, Diag *d, const Source *source);
bool config_set(Module *m, Diag *d, const char *key_value);
/* Empty lists, AUTO choices, tunables at their defaults. */
void config_init(Module *m);
/* config_shrink.c: halves candidate block sizes until every tile fits the target, as far as they can be halved; `sizes`
 * and `candidate` are by BlockId. A size that the user chose is no candidate. True if any changed. */
bool config_shrink(const Module *m, Arena *a, const bool *candidate, int64_t *sizes);
/* Where element `index` of a configuration list stands (index NONE: the key itself). */
Place config_list_place(Diag *d, ConfigOrigin origin, uint32_t index);
/* The same of one that stands in a document: over the Module's own, member by member. */
void config_read(const Reader *r, Module *m, const json_t *object, const Path *path);
/* One key, as if it stood in such an object; null: as if it did not. */
void config_read_key(const Reader *r, Module *m, const KeyRow *row, const json_t *v, const Path *at);
/* config_by_size.c: the entries of `by_size`: the first that holds for the Module's sizes is read over the others. */
void config_read_by_size(const Reader *r, Module *m, const json_t *list, const Path *path);
/* narrow.c: narrows blocks that are wider than the range they iterate, into m->narrowed; true if there is one. */
bool blocks_narrow(Module *m);
/* narrow.c: tiles of the block may be of another size if nothing looks at it and no value mixes lanes of that dim:
 * NULL, or what speaks against it. */
const char *block_size_matters(Module *m, BlockId b);
/* The same, but that lanes may be folded: into a sum, a greatest or a least value; of parts that divide its range. */
const char *block_parts_matter(Module *m, BlockId b, int64_t part);
/* Resolves block sizes, tunables and every expression under the configuration; false after diagnostics. May be called
 * again after the configuration changed. */
bool module_configure(Module *m, Diag *d);
/* The value of every expression, by ExprId, if the blocks had these sizes (by BlockId; a size that the graph fixes
 * stays as it says): EXPR_UNKNOWN where it has none. config_shrink.c. */
#define EXPR_UNKNOWN INT64_MIN
int64_t *expr_values_at(const Module *m, Arena *a, const int64_t *sizes);

/* default_blocks.c: of a block of a matmul's columns the widest from half of `most` on that leaves least over beyond
 * its range; `most` of any other. */
int64_t default_columns(Module *m, BlockId b, int64_t most);

#endif
