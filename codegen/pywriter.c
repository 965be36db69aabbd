/* pywriter.c - layout of Python statements; knows nothing of kernels. */
#include "pywriter.h"
#include <math.h>
#include <stdio.h>

static void put_indent(PyWriter *w, int indent) {
	for (int i = 0; i < indent; i++)
		text_put(w->out, "    ");
}

static void put_line(PyWriter *w, int indent, const char *s, size_t n) {
	put_indent(w, indent);
	text_putn(w->out, s, n);
	text_put(w->out, "\n");
}

static size_t skip_string(const char *s, size_t i) {
	char quote = s[i++];
	while (s[i] && s[i] != quote)
		i += s[i] == '\\' && s[i + 1] ? 2 : 1;
	return i;
}

static bool is_open(char c) { return c == '(' || c == '[' || c == '{'; }
static bool is_close(char c) { return c == ')' || c == ']' || c == '}'; }

/* Where to break s[0..n): the last outermost bracket pair up to whose opening the line fits `width`, or else the first
 * pair. False if there is none. */
static bool break_brackets(const char *s, size_t n, size_t width, size_t *open, size_t *close) {
	bool found = false;
	int depth = 0;
	size_t start = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '"' || s[i] == '\'') {
			i = skip_string(s, i);
		} else if (is_open(s[i]) && depth++ == 0) {
			start = i;
		} else if (is_close(s[i]) && --depth == 0 && i > start + 1) {
			if (found && start >= width)
				break;
			*open = start;
			*close = i;
			found = true;
		}
	}
	return found;
}

/* The end of the item that starts at i: its comma at depth 0, or n. A lambda's parameters end at its colon. */
static size_t item_end(const char *s, size_t i, size_t n) {
	int depth = 0;
	if (n - i > 7 && strncmp(s + i, "lambda ", 7) == 0)
		while (i < n && s[i] != ':')
			i++;
	for (; i < n; i++) {
		if (s[i] == '"' || s[i] == '\'')
			i = skip_string(s, i);
		else if (is_open(s[i]))
			depth++;
		else if (is_close(s[i]))
			depth--;
		else if (s[i] == ',' && depth == 0)
			return i;
	}
	return n;
}

static bool is_name_char(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_callee(const char *s, size_t open) {
	return open > 0 && (is_name_char(s[open - 1]) || is_close(s[open - 1]));
}

/* A comma before the closing bracket asks for one item per line, but for that of a tuple of one item. */
static bool wants_breaking(const char *s, size_t n) {
	size_t open[64];
	int depth = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '"' || s[i] == '\'')
			i = skip_string(s, i);
		else if (is_open(s[i]) && depth < 64)
			open[depth++] = i;
		else if (is_close(s[i]) && depth > 0) {
			size_t start = open[--depth];
			bool one = s[i] == ')' && !is_callee(s, start) && item_end(s, start + 1, i) == i - 1;
			if (i > 0 && s[i - 1] == ',' && !one)
				return true;
		}
	}
	return false;
}

static void put_statement(PyWriter *w, int indent, const char *s, size_t n);

static void put_items(PyWriter *w, int indent, const char *s, size_t n) {
	for (size_t i = 0; i < n;) {
		size_t end = item_end(s, i, n);
		char *item = arena_printf(w->arena, "%.*s,", (int)(end - i), s + i);
		put_statement(w, indent, item, strlen(item));
		for (i = end + 1; i < n && s[i] == ' ';)
			i++;
	}
}

/* Call arguments and parameters may share one line; the items of a literal each get their own. */
static void put_broken(PyWriter *w, int indent, const char *s, size_t n, size_t open, size_t close) {
	put_line(w, indent, s, open + 1);
	const char *body = s + open + 1;
	size_t length = close - open - 1;
	bool call = is_callee(s, open);
	bool keyword = open >= 7 && strncmp(s + open - 7, "return ", 7) == 0;
	bool one_line = (call || keyword) && body[length - 1] != ',' && !wants_breaking(body, length) &&
	                (size_t)(indent + 1) * 4 + length <= PY_WIDTH;
	if (one_line)
		put_line(w, indent + 1, body, length);
	else if (item_end(body, 0, length) == length && !call)
		put_statement(w, indent + 1, body, length); /* a parenthesised expression */
	else
		put_items(w, indent + 1, body, length);
	put_line(w, indent, s + close, n - close);
}

/* Where the value of `target = value` starts; n if it is no assignment. */
static size_t value_start(const char *s, size_t n) {
	for (size_t i = 0; i + 3 < n && !is_open(s[i]) && s[i] != '"'; i++)
		if (strncmp(s + i, " = ", 3) == 0)
			return i + 3;
	return n;
}

/* How loosely the operator at s, between spaces, binds: 1 comparisons, 2 bits, 3 sums, 4 products; 0: none. */
static int operator_at(const char *s) {
	static const struct {
		const char *text;
		int level;
	} ops[] = {{" == ", 1}, {" != ", 1}, {" <= ", 1}, {" >= ", 1}, {" < ", 1}, {" > ", 1},  {" | ", 2}, {" ^ ", 2},
	           {" & ", 2},  {" + ", 3},  {" - ", 3},  {" * ", 4},  {" / ", 4}, {" // ", 4}, {" % ", 4}};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (strncmp(s, ops[i].text, strlen(ops[i].text)) == 0)
			return ops[i].level;
	return 0;
}

/* A value of several parts, as ruff sees it: it is put in parentheses rather than broken in the brackets of the last.
 */
static bool wants_parentheses(const char *s, size_t n) {
	int depth = 0, loosest = 0, count = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '"' || s[i] == '\'')
			return false;
		depth += is_open(s[i]) - is_close(s[i]);
		int level = depth == 0 && s[i] == ' ' ? operator_at(s + i) : 0;
		count = level && (loosest == 0 || level < loosest) ? 1 : count + (level && level == loosest);
		loosest = level && (loosest == 0 || level < loosest) ? level : loosest;
	}
	return count > 1 || (count == 1 && !is_close(s[n - 1]));
}

/* `target = (`, the value on a line of its own, `)`; false if that is not how the statement is laid out. */
static bool put_in_parentheses(PyWriter *w, int indent, const char *s, size_t n) {
	size_t start = value_start(s, n);
	if (start >= n || n - start + (size_t)(indent + 1) * 4 > PY_WIDTH || !wants_parentheses(s + start, n - start))
		return false;
	const char *head = arena_printf(w->arena, "%.*s(", (int)start, s);
	put_line(w, indent, head, strlen(head));
	put_line(w, indent + 1, s + start, n - start);
	put_line(w, indent, ")", 1);
	return true;
}

static void put_statement(PyWriter *w, int indent, const char *s, size_t n) {
	size_t open = 0, close = 0, width = PY_WIDTH - (size_t)indent * 4;
	bool fits = n <= width && !wants_breaking(s, n);
	if (!fits && put_in_parentheses(w, indent, s, n))
		return;
	if (fits || !break_brackets(s, n, width, &open, &close))
		put_line(w, indent, s, n);
	else
		put_broken(w, indent, s, n, open, close);
}

void py_statement(PyWriter *w, const char *text) { put_statement(w, w->indent, text, strlen(text)); }

void py_choice(PyWriter *w, const char *target, const char *yes, const char *flag, const char *no) {
	const char *choice = arena_printf(w->arena, "%s if %s else %s", yes, flag, no);
	size_t room = PY_WIDTH - (size_t)w->indent * 4;
	if (strlen(target) + strlen(choice) + 3 <= room) {
		py_line(w, "%s = %s", target, choice);
		return;
	}
	py_line(w, "%s = (", target);
	w->indent++;
	if (strlen(choice) + 4 <= room) {
		py_statement(w, choice);
	} else {
		py_statement(w, yes);
		py_line(w, "if %s", flag);
		py_line(w, "else %s", no);
	}
	w->indent--;
	py_statement(w, ")");
}

void py_line(PyWriter *w, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	py_statement(w, arena_vprintf(w->arena, fmt, ap));
	va_end(ap);
}

void py_def(PyWriter *w) {
	size_t n = w->out->length;
	const char *s = w->out->at;
	bool opens = n < 2 || s[n - 2] == ':' || s[n - 2] == '\n';
	if (!opens)
		text_put(w->out, "\n");
}

void py_blank(PyWriter *w) { text_put(w->out, "\n"); }

void py_comment(PyWriter *w, const char *text) {
	put_indent(w, w->indent);
	text_put(w->out, "#");
	int column = w->indent * 4 + 1;
	bool space = true;
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (column >= PY_WIDTH - 4) {
			text_put(w->out, "...");
			break;
		}
		if (space)
			text_put(w->out, " "), column++;
		space = false;
		/* Only printable ASCII: no other byte can end the line, hide text or reorder it. */
		char shown = *c >= 0x20 && *c < 0x7f ? (char)*c : '?';
		text_putn(w->out, &shown, 1);
		column++;
	}
	while (w->out->length > 0 && w->out->at[w->out->length - 1] == ' ')
		w->out->at[--w->out->length] = 0;
	text_put(w->out, "\n");
}

void py_put_string(Text *out, const char *s) {
	text_put(out, "\"");
	for (const char *end = s + strlen(s); s < end;) {
		uint32_t point = 0xfffd;
		int n = utf8_decode(s, end, &point);
		s += n ? n : 1;
		if (point == '"' || point == '\\')
			text_printf(out, "\\%c", (int)point);
		else if (point >= 0x20 && point < 0x7f)
			text_printf(out, "%c", (int)point);
		else
			text_printf(out, point < 0x100 ? "\\x%02x" : point < 0x10000 ? "\\u%04x" : "\\U%08x", point);
	}
	text_put(out, "\"");
}

void py_put_float(Text *out, double x) {
	if (isnan(x))
		text_put(out, "jnp.nan");
	else if (isinf(x))
		text_put(out, x > 0 ? "jnp.inf" : "-jnp.inf");
	else
		text_put_double(out, x);
}
