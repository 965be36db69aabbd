/* choose_rows.c - the domain of the row ROWS: reduction_loops where nobody chose it.
 *
 * Whole rows are faster where they fit, and only the plan knows whether they do. So for a graph with rows that may be
 * too long whole rows are tried, then rows in blocks that divide them, then any: a ragged last step is not stored by a
 * copy. Where the configuration asks for whole rows, the refusal names the blocks. */
#include "choose.h"

enum {
	LEAST_ROWS = 8,        /* of a tile whose rows are not the configuration's */
	TILE_BYTES = 1 << 19,  /* of a block, in 32-bit values: the copy of one takes longer than its start */
	LEAST_COLUMNS = 256,   /* of a block of columns that divides the row */
	MOST_COLUMNS = 1 << 16 /* of any */
};

/* ---- rows that may be too long ----------------------------------------------------------------------------------- */

/* Bytes, as 32-bit values, of one column of the tile that n loads; 0 if no dim of it is that long. */
static int64_t column_bytes(Module *m, NodeId n, int64_t extent, bool least) {
	const Type *t = node_type(m, n);
	int64_t bytes = 4, size = 0;
	bool found = false;
	for (uint32_t i = 0; i < t->count; i++) {
		BlockId b = expr_as_block(m, t->dims[i]);
		if (!expr_value(m, t->dims[i], &size))
			return 0;
		if (size == extent && !found) {
			found = true;
			continue;
		}
		if (least && b != NONE && !m->config.block_sizes.set)
			size = int_min(size, LEAST_ROWS);
		if (!checked_mul(bytes, int_max(size, 1), &bytes))
			return 0;
	}
	return found ? bytes : 0;
}

/* The most that a column of a load of such rows takes. */
static int64_t most_column_bytes(Module *m, int64_t extent, bool least) {
	int64_t most = 0;
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && node_get(m, n)->op == OP_LOAD)
			most = int_max(most, column_bytes(m, n, extent, least));
	return most;
}

/* Columns of a block: a power of two, or what divides the row if that is asked for; 0: none. */
static int64_t block_columns(const Module *m, int64_t extent, int64_t bytes, bool dividing) {
	int64_t most = MOST_COLUMNS, lanes = m->target->lanes;
	while (most > LEAST_COLUMNS && most * bytes > TILE_BYTES)
		most /= 2;
	for (int64_t columns = most; dividing && extent % most != 0; columns -= lanes) {
		if (columns < LEAST_COLUMNS)
			return 0;
		if (extent % columns == 0)
			return columns;
	}
	return most < extent ? most : 0;
}

/* Blocks for every row that may be too long, by reduction id; false if there is none. */
static bool blocks_for(Module *m, bool dividing, ConfigList *list) {
	bool any = false;
	list->values.count = 0;
	for (BlockId b = 0; b < m->blocks.count; b++) {
		int64_t extent = 0, columns = 0, whole = 0;
		if (!m->blocks.at[b].reduction)
			continue;
		bool known = expr_value(m, m->blocks.at[b].extent, &extent) && !block_iterated(m, b);
		if (known && (!checked_mul(most_column_bytes(m, extent, true), extent * TILES_HELD, &whole) ||
		              whole > m->target->vmem_bytes))
			columns = block_columns(m, extent, most_column_bytes(m, extent, false), dividing);
		vec_push(m->arena, &list->values, columns);
		any |= columns != 0;
	}
	return any;
}

static bool list_for(Module *m, bool dividing, ConfigList *list) {
	*list = (ConfigList){.origin = m->config.reduction_loops.origin};
	list->origin.source = list->origin.source ? list->origin.source : m->source;
	list->origin.pointer = list->origin.pointer ? list->origin.pointer : "/config";
	return list->set = blocks_for(m, dividing, list);
}

void rows_domain(Choosing *s) {
	s->long_rows = list_for(s->start, false, &s->rows_cut);
	if (s->long_rows)
		list_for(s->start, true, &s->rows_divided);
}

const char *rows_text(Arena *a, const ConfigList *list) {
	Text t;
	text_init(&t, a);
	for (uint32_t i = 0; i < list->values.count; i++)
		text_printf(&t, "%s%s", i ? ", " : "",
		            list->values.at[i] ? arena_printf(a, "%lld", (long long)list->values.at[i]) : "null");
	return arena_printf(a, "reduction_loops=[%s]", t.at);
}
