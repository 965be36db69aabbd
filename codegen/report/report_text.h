/* report_text.h - lines, tables and units for report.c. Whatever text comes in, plain ASCII of at most REPORT_WIDTH
 * columns goes out. */
#ifndef PALLASC_REPORT_TEXT_H
#define PALLASC_REPORT_TEXT_H

#include "src/base/base.h"

enum { REPORT_WIDTH = 100, TABLE_COLUMNS_MAX = 10 };

/* One paragraph, wrapped at words; further lines stand `hang` columns further in than the first. */
void report_line(Text *out, uint32_t indent, uint32_t hang, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* An empty line, then a heading underlined. */
void report_heading(Text *out, const char *text);

typedef struct Row {
	const char *cell[TABLE_COLUMNS_MAX]; /* NULL: empty */
} Row;

/* Columns are as wide as they must be, and the widest wrap their cells where a row would not fit. */
typedef struct Table {
	uint32_t right; /* bit i: column i is aligned to the right */
	VEC(Row) rows;
} Table;
void table_add(Table *t, Arena *a, Row row);
void table_put(const Table *t, Text *out, uint32_t indent);

/* Bytes with at most one digit after the point, the rest with three figures. */
const char *bytes_text(Arena *a, double bytes);
const char *flops_text(Arena *a, double flops);                       /* "2.15 GFLOP" */
const char *rate_text(Arena *a, double per_second, const char *unit); /* "920 TFLOP/s" */
const char *time_text(Arena *a, double seconds);                      /* "3.20 us" */
/* `digits` after the point, 0 to 3; of one digit a 0 is left out. */
const char *report_number(Arena *a, double value, int digits);
const char *report_shape(Arena *a, uint32_t rank, const int64_t *shape); /* "4x512x128" */

#endif
