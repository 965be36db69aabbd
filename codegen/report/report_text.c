/* report_text.c - lines, tables and units for report.c. */
#include "report_text.h"

/* ---- plain ASCII ------------------------------------------------------------------------------------------------ */

/* Names in a graph are any text: one '?' stands for each character that a terminal might not show as one column. */
static char *ascii(Arena *a, const char *s) {
	char *plain = arena_alloc(a, strlen(s) + 1);
	size_t n = 0;
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c >= 0x20 && c < 0x7f)
			plain[n++] = (char)c;
		else if (c < 0x80 || c >= 0xc0) /* not the rest of a UTF-8 sequence */
			plain[n++] = '?';
	}
	plain[n] = '\0';
	return plain;
}

static void spaces(Text *out, size_t n) {
	while (n-- > 0)
		text_put(out, " ");
}

/* How much of `s` goes on a line of `room` columns: all, or up to a space, or (in one long word) as much as fits. */
static size_t break_at(const char *s, size_t room) {
	size_t n = strlen(s), at;
	if (n <= room)
		return n;
	for (at = room; at > 0 && s[at] != ' '; at--)
		;
	return at > 0 ? at : room;
}

void report_line(Text *out, uint32_t indent, uint32_t hang, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	const char *s = ascii(out->arena, arena_vprintf(out->arena, fmt, ap));
	va_end(ap);
	for (size_t margin = indent;; margin = indent + hang) {
		size_t n = break_at(s, REPORT_WIDTH - margin);
		spaces(out, margin);
		text_putn(out, s, n);
		text_put(out, "\n");
		s += n;
		while (*s == ' ')
			s++;
		if (!*s)
			return;
	}
}

void report_heading(Text *out, const char *text) {
	const char *plain = ascii(out->arena, text);
	text_put(out, "\n");
	report_line(out, 0, 0, "%s", plain);
	for (size_t i = 0; i < strlen(plain) && i < REPORT_WIDTH; i++)
		text_put(out, "-");
	text_put(out, "\n");
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

enum { GAP = 2, NARROWEST = 6 };

void table_add(Table *t, Arena *a, Row row) {
	for (uint32_t i = 0; i < TABLE_COLUMNS_MAX; i++)
		row.cell[i] = row.cell[i] ? ascii(a, row.cell[i]) : "";
	vec_push(a, &t->rows, row);
}

static void table_widths(const Table *t, uint32_t indent, size_t *width) {
	memset(width, 0, TABLE_COLUMNS_MAX * sizeof *width);
	for (uint32_t i = 0; i < t->rows.count; i++)
		for (uint32_t c = 0; c < TABLE_COLUMNS_MAX; c++)
			if (strlen(t->rows.at[i].cell[c]) > width[c])
				width[c] = strlen(t->rows.at[i].cell[c]);
	for (;;) {
		size_t total = indent;
		uint32_t widest = 0;
		for (uint32_t c = 0; c < TABLE_COLUMNS_MAX; c++) {
			total += width[c] + (width[c] ? GAP : 0);
			widest = width[c] > width[widest] ? c : widest;
		}
		if (total <= REPORT_WIDTH + GAP || width[widest] <= NARROWEST)
			return;
		width[widest]--;
	}
}

static void put_cell(Text *line, const char **cell, size_t width, bool right) {
	size_t n = break_at(*cell, width), pad = width - n;
	spaces(line, right ? pad : 0);
	text_putn(line, *cell, n);
	spaces(line, (right ? 0 : pad) + GAP);
	*cell += n;
	while (**cell == ' ')
		++*cell;
}

/* As many lines as its longest cell needs; a column that is empty in all rows is left out. */
static void put_row(const Table *t, Text *out, uint32_t indent, const size_t *width, Row row) {
	for (bool more = true; more;) {
		Text line;
		text_init(&line, out->arena);
		spaces(&line, indent);
		more = false;
		for (uint32_t c = 0; c < TABLE_COLUMNS_MAX; c++) {
			if (width[c])
				put_cell(&line, &row.cell[c], width[c], t->right >> c & 1);
			more = more || *row.cell[c];
		}
		while (line.length > 0 && line.at[line.length - 1] == ' ')
			line.length--;
		text_putn(out, line.at, line.length);
		text_put(out, "\n");
	}
}

void table_put(const Table *t, Text *out, uint32_t indent) {
	size_t width[TABLE_COLUMNS_MAX];
	table_widths(t, indent, width);
	for (uint32_t i = 0; i < t->rows.count; i++)
		put_row(t, out, indent, width, t->rows.at[i]);
}

/* ---- units ------------------------------------------------------------------------------------------------------ */

/* By integers, since printf's %f has the locale's decimal point. */
const char *report_number(Arena *a, double value, int digits) {
	static const int64_t powers[] = {1, 10, 100, 1000};
	if (!(value >= 0 && value < 1e15)) {
		Text t;
		text_init(&t, a);
		text_put_double(&t, value);
		return t.at;
	}
	int64_t scaled = (int64_t)(value * (double)powers[digits] + 0.5);
	if (digits == 0 || (digits == 1 && scaled % 10 == 0))
		return arena_printf(a, "%lld", (long long)(scaled / powers[digits]));
	return arena_printf(a, "%lld.%0*lld", (long long)(scaled / powers[digits]), digits,
	                    (long long)(scaled % powers[digits]));
}

/* In the largest unit that keeps it at 1 or above. */
static const char *with_unit(double *value, double factor, const char *const *units) {
	while (*value >= factor && units[1]) {
		*value /= factor;
		units++;
	}
	return *units;
}

static const char *three_figures(Arena *a, double value, double factor, const char *const *units) {
	const char *unit = with_unit(&value, factor, units);
	return arena_printf(a, "%s %s", report_number(a, value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0), unit);
}

const char *bytes_text(Arena *a, double bytes) {
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", NULL};
	const char *unit = with_unit(&bytes, 1024, units);
	return arena_printf(a, "%s %s", report_number(a, bytes, 1), unit);
}

const char *flops_text(Arena *a, double flops) {
	static const char *const units[] = {"kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", NULL};
	return three_figures(a, flops / 1e3, 1e3, units);
}

const char *rate_text(Arena *a, double per_second, const char *unit) {
	static const char *const units[] = {"G", "T", NULL};
	return arena_printf(a, "%s%s/s", three_figures(a, per_second / 1e9, 1e3, units), unit);
}

const char *time_text(Arena *a, double seconds) {
	static const char *const units[] = {"ns", "us", "ms", "s", NULL};
	return three_figures(a, seconds * 1e9, 1e3, units);
}

const char *report_shape(Arena *a, uint32_t rank, const int64_t *shape) {
	Text t;
	text_init(&t, a);
	for (uint32_t i = 0; i < rank; i++)
		text_printf(&t, i ? "x%lld" : "%lld", (long long)shape[i]);
	return rank ? t.at : "scalar";
}
