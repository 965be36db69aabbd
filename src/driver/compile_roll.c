/* compile_roll.c - reduction_loops where nobody chose it: rows that do not fit VMEM whole are rolled.
 *
 * Whole rows are faster where they fit, and only the plan knows whether they do. So a graph with rows that may be too
 * long is compiled as a trial, on a copy: with whole rows, then with rows in blocks. Blocks are chosen if whole rows
 * are refused and blocks are not. Where the configuration asks for whole rows, the refusal names the blocks. */
#include "driver.h"

enum {
	TILES_HELD = 8,        /* a kernel may hold so many tiles of whole rows: fewer surely fit */
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

/* ---- trials ------------------------------------------------------------------------------------------------------ */

static bool accepted(Compilation *c, const Module *m, const ConfigList *list) {
	Module *copy = module_clone(m, c->arena);
	if (list)
		copy->config.reduction_loops = *list;
	return compile_trial(c, copy).program != NULL;
}

/* Blocks with which the kernel is accepted; false if there are none. Blocks that divide the row are better: a ragged
 * last step is not stored by a copy. */
static bool find_blocks(Compilation *c, Module *m, ConfigList *list) {
	for (int dividing = 1; dividing >= 0; dividing--) {
		*list = (ConfigList){.set = true, .origin = m->config.reduction_loops.origin};
		list->origin.source = list->origin.source ? list->origin.source : m->source;
		list->origin.pointer = list->origin.pointer ? list->origin.pointer : "/config";
		if (blocks_for(m, dividing, list) && accepted(c, m, list))
			return true;
	}
	return false;
}

static const char *list_text(Arena *a, const ConfigList *list) {
	Text t;
	text_init(&t, a);
	for (uint32_t i = 0; i < list->values.count; i++)
		text_printf(&t, "%s%s", i ? ", " : "",
		            list->values.at[i] ? arena_printf(a, "%lld", (long long)list->values.at[i]) : "null");
	return arena_printf(a, "reduction_loops=[%s]", t.at);
}

void compile_choose_blocks(Compilation *c) {
	Module *m = c->module;
	ConfigList list = {.set = true};
	if (c->options->passes || !blocks_for(m, false, &list))
		return;
	if (m->config.reduction_loops.set) {
		c->whole_rows = module_clone(m, c->arena);
		return;
	}
	if (accepted(c, m, NULL) || !find_blocks(c, m, &list))
		return;
	m->config.reduction_loops = list;
	pass_remark(&c->context, "roll", "auto: whole rows are refused: %s", list_text(c->arena, &list));
}

const char *compile_blocks_that_fit(Compilation *c) {
	ConfigList list;
	if (!c->whole_rows || !find_blocks(c, c->whole_rows, &list))
		return NULL;
	return list_text(c->arena, &list);
}
