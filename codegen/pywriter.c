/* pywriter.c - layout of Python statements; knows nothing of kernels. */
#include "pywriter.h"
#include <math.h>
#include <stdio.h>

static void put_line(PyWriter *w, int indent, const char *s, size_t n) {
	for (int i = 0; i < indent; i++)
		text_putn(w->out, "    ", 4);
	text_putn(w->out, s, n);
	text_putn(w->out, "\n", 1);
}

/* What the walks over a statement look for; all other characters are passed over at once. */
enum { PLAIN, QUOTE, OPEN, CLOSE, COMMA, SPACE, DOT, END };
static const unsigned char kinds[256] = {
	['\0'] = END,  ['"'] = QUOTE, ['\''] = QUOTE, ['('] = OPEN,  ['['] = OPEN,  ['{'] = OPEN,
	[')'] = CLOSE, [']'] = CLOSE, ['}'] = CLOSE,  [','] = COMMA, [' '] = SPACE, ['.'] = DOT};

static int kind_of(char c) { return kinds[(unsigned char)c]; }
static bool is_open(char c) { return kind_of(c) == OPEN; }
static bool is_close(char c) { return kind_of(c) == CLOSE; }

/* The first character from i on that a walk looks for, or the end of the text. */
static size_t skip_plain(const char *s, size_t i) {
	while (kind_of(s[i]) == PLAIN)
		i++;
	return i;
}

/* The last character of the string that starts at i. */
static size_t skip_string(const char *s, size_t i) {
	char quote = s[i++];
	while (s[i] && s[i] != quote)
		i += s[i] == '\\' && s[i + 1] ? 2 : 1;
	return s[i] ? i : i - 1;
}

/* Where to break s[0..n): the last outermost bracket pair up to whose opening the line fits `width`, or else the first
 * pair. False if there is none. */
static bool break_brackets(const char *s, size_t n, size_t width, size_t *open, size_t *close) {
	bool found = false;
	int depth = 0;
	size_t start = 0;
	for (size_t i = skip_plain(s, 0); i < n; i = skip_plain(s, i + 1)) {
		int kind = kind_of(s[i]);
		if (kind == QUOTE) {
			i = skip_string(s, i);
		} else if (kind == OPEN && depth++ == 0) {
			start = i;
		} else if (kind == CLOSE && --depth == 0 && i > start + 1) {
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
	for (i = skip_plain(s, i); i < n; i = skip_plain(s, i + 1)) {
		int kind = kind_of(s[i]);
		if (kind == QUOTE)
			i = skip_string(s, i);
		else if (kind == COMMA && depth == 0)
			return i;
		else
			depth += (kind == OPEN) - (kind == CLOSE);
	}
	return n;
}

static bool is_name_char(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_callee(const char *s, size_t open) {
	return open > 0 && (is_name_char(s[open - 1]) || is_close(s[open - 1]));
}

/* Where the bracket opens that closes at `close`, behind `depth` others that are still open there. */
static size_t opening(const char *s, size_t close, int depth) {
	size_t found = 0;
	for (size_t i = 0, inside = 0; i < close; i++) {
		if (s[i] == '"' || s[i] == '\'')
			i = skip_string(s, i);
		else if (is_open(s[i]))
			found = inside++ == (size_t)depth ? i : found;
		else if (is_close(s[i]) && inside > 0)
			inside--;
	}
	return found;
}

/* How often `c` stands beside a closing bracket, in strings too: `by` characters before it. A walk that looks for such
 * pairs is for the few texts that have any. */
static uint32_t beside_close(const char *s, size_t n, char c, ptrdiff_t by) {
	uint32_t count = 0;
	const char *end = s + n;
	for (const char *at = s; (at = memchr(at, c, (size_t)(end - at))) != NULL; at++)
		count += at + by >= s && at + by < end && is_close(at[by]);
	return count;
}

/* A comma before the closing bracket asks for one item per line, but for that of a tuple of one item. */
static bool wants_breaking(const char *s, size_t n) {
	int depth = 0;
	if (beside_close(s, n, ',', 1) == 0)
		return false;
	for (size_t i = skip_plain(s, 0); i < n; i = skip_plain(s, i + 1)) {
		int kind = kind_of(s[i]);
		if (kind == QUOTE)
			i = skip_string(s, i);
		else if (kind == OPEN)
			depth++;
		else if (kind == CLOSE && depth > 0) {
			depth--;
			if (s[i - 1] != ',')
				continue;
			size_t start = opening(s, i, depth);
			bool one = s[i] == ')' && !is_callee(s, start) && item_end(s, start + 1, i) == i - 1;
			if (!one)
				return true;
		}
	}
	return false;
}

static void put_expression(PyWriter *w, int indent, const char *s, size_t n);

static void put_items(PyWriter *w, int indent, const char *s, size_t n) {
	for (size_t i = 0; i < n;) {
		size_t end = item_end(s, i, n);
		char *item = arena_alloc(w->arena, end - i + 2);
		memcpy(item, s + i, end - i);
		item[end - i] = ',';
		put_expression(w, indent, item, end - i + 1);
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
	else if (!call && item_end(body, 0, length) == length)
		put_expression(w, indent + 1, body, length); /* a parenthesised one */
	else
		put_items(w, indent + 1, body, length);
	put_line(w, indent, s + close, n - close);
}

/* In the brackets that break_brackets() finds, if there are any. */
static void put_in_brackets(PyWriter *w, int indent, const char *s, size_t n) {
	size_t open = 0, close = 0;
	if (break_brackets(s, n, PY_WIDTH - (size_t)indent * 4, &open, &close))
		put_broken(w, indent, s, n, open, close);
	else
		put_line(w, indent, s, n);
}

/* ---- chains and operators ---------------------------------------------------------------------------------------- */

/* How tightly the operator at s, between spaces, binds: 1 comparisons, ..., 7 products; 0: none. */
static int operator_at(const char *s) {
	if (s[1] == '\0')
		return 0;
	bool one = s[2] == ' ', two = !one && s[2] != '\0' && s[3] == ' ';
	switch (s[1]) {
	case '<':
	case '>': return one || (two && s[2] == '=') ? 1 : two && s[2] == s[1] ? 5 : 0;
	case '=':
	case '!': return two && s[2] == '=' ? 1 : 0;
	case '|': return one ? 2 : 0;
	case '^': return one ? 3 : 0;
	case '&': return one ? 4 : 0;
	case '+':
	case '-': return one ? 6 : 0;
	case '*':
	case '%': return one ? 7 : 0;
	case '/': return one || (two && s[2] == '/') ? 7 : 0;
	default: return 0;
	}
}

/* The loosest operators outside brackets. A text with strings has none, nor has a lambda, which is not broken. */
typedef struct Operators {
	int level;
	uint32_t count;
} Operators;

static Operators operators_of(const char *s, size_t n) {
	Operators found = {0};
	int depth = 0;
	for (size_t i = 0; i < n; i++) {
		int kind = kind_of(s[i]);
		if (kind == QUOTE || (s[i] == 'l' && strncmp(s + i, "lambda ", 7) == 0))
			return (Operators){0};
		if (kind == PLAIN)
			continue;
		depth += (kind == OPEN) - (kind == CLOSE);
		int level = depth == 0 && kind == SPACE ? operator_at(s + i) : 0;
		if (level && (found.level == 0 || level < found.level))
			found = (Operators){level, 0};
		found.count += level && level == found.level;
	}
	return found;
}

/* The next place after `from` where a value is broken: before an operator of the level; level 0: before an attribute of
 * what ends with a bracket, as `.astype` of `f(x).astype(y)`. n if there is none. */
static size_t next_part(const char *s, size_t from, size_t n, int level) {
	int depth = 0;
	for (size_t i = from; i < n; i++) {
		int kind = kind_of(s[i]);
		if (kind == PLAIN)
			continue;
		if (kind == QUOTE)
			i = skip_string(s, i);
		depth += (kind == OPEN) - (kind == CLOSE);
		if (depth == 0 && i > from && level && kind == SPACE && operator_at(s + i) == level)
			return i + 1;
		if (depth == 0 && i > from && !level && kind == DOT && is_close(s[i - 1]))
			return i;
	}
	return n;
}

/* One operand, perhaps behind its operator, with two such attributes or more: it is broken before each. */
static bool is_chain(const char *s, size_t n) {
	if (beside_close(s, n, '.', -1) < 2)
		return false;
	size_t start = n > 3 && s[0] != '"' && !is_name_char(s[0]) && !is_open(s[0]) ? strcspn(s, " ") + 1 : 0;
	int depth = 0, outside = 0; /* of the brackets that are open where the operand starts */
	uint32_t attributes = 0;
	for (size_t i = 0; i < n; i++) {
		int kind = kind_of(s[i]);
		if (i == start)
			outside = depth;
		if (kind == PLAIN)
			continue;
		if (kind == QUOTE)
			i = skip_string(s, i);
		depth += (kind == OPEN) - (kind == CLOSE);
		if (kind == SPACE && i >= start && depth == outside)
			return false;
		attributes += kind == DOT && depth == 0 && i > 0 && is_close(s[i - 1]);
	}
	return attributes >= 2;
}

static void put_parts(PyWriter *w, int indent, const char *s, size_t n, int level) {
	for (size_t i = 0, end; i < n; i = end) {
		end = next_part(s, i, n, level);
		size_t length = end - i - (level && end < n); /* without the space before the operator */
		put_expression(w, indent, arena_printf(w->arena, "%.*s", (int)length, s + i), length);
	}
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* Whether it stands on one line. */
static bool fits(const char *s, size_t n, int indent) {
	return n + (size_t)indent * 4 <= PY_WIDTH && !wants_breaking(s, n);
}

/* On lines of its own inside brackets. */
static void put_expression(PyWriter *w, int indent, const char *s, size_t n) {
	if (fits(s, n, indent)) {
		put_line(w, indent, s, n);
		return;
	}
	Operators operators = operators_of(s, n);
	if (operators.count || is_chain(s, n))
		put_parts(w, indent, s, n, operators.level);
	else
		put_in_brackets(w, indent, s, n);
}

/* Where the value of `target = value` or `return value` starts; n if it is neither. */
static size_t value_start(const char *s, size_t n) {
	int depth = 0;
	if (n > 7 && strncmp(s, "return ", 7) == 0)
		return 7;
	for (size_t i = 0; i + 3 < n && s[i] != '"'; i++) {
		int kind = kind_of(s[i]);
		depth += (kind == OPEN) - (kind == CLOSE);
		if (depth == 0 && kind == SPACE && strncmp(s + i, " = ", 3) == 0)
			return i + 3;
	}
	return n;
}

/* A value of several parts, as ruff sees it: it is put in parentheses rather than broken in the brackets of one. */
static bool wants_parentheses(const char *s, size_t n) {
	Operators operators = operators_of(s, n);
	bool brackets = n > 0 && (is_open(s[0]) || is_close(s[n - 1]));
	return operators.count > 1 || (operators.count == 1 && !brackets) || is_chain(s, n);
}

static void put_statement(PyWriter *w, int indent, const char *s, size_t n) {
	if (fits(s, n, indent)) {
		put_line(w, indent, s, n);
		return;
	}
	size_t start = value_start(s, n), open = n, close = n;
	bool brackets = break_brackets(s, n, PY_WIDTH - (size_t)indent * 4, &open, &close);
	/* A target is not broken if it stands on one line. */
	bool breaks_target = open < start && start + 1 + (size_t)indent * 4 <= PY_WIDTH;
	if (start < n && (breaks_target || wants_parentheses(s + start, n - start))) {
		put_line(w, indent, arena_printf(w->arena, "%.*s(", (int)start, s), start + 1);
		put_expression(w, indent + 1, s + start, n - start);
		put_line(w, indent, ")", 1);
	} else if (brackets) {
		put_broken(w, indent, s, n, open, close);
	} else {
		put_line(w, indent, s, n);
	}
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
	char line[PY_WIDTH + 8] = "#";
	size_t n = 1, indent = (size_t)w->indent * 4;
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (indent + n >= PY_WIDTH - 4) {
			memcpy(line + n, "...", 3);
			n += 3;
			break;
		}
		if (n == 1)
			line[n++] = ' ';
		/* Only printable ASCII: no other byte can end the line, hide text or reorder it. */
		line[n++] = *c >= 0x20 && *c < 0x7f ? (char)*c : '?';
	}
	while (line[n - 1] == ' ')
		n--;
	put_line(w, w->indent, line, n);
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
			text_putn(out, &(char){(char)point}, 1);
		else
			text_printf(out, point < 0x100 ? "\\x%02x" : point < 0x10000 ? "\\u%04x" : "\\U%08x", point);
	}
	text_put(out, "\"");
}

/* ruff writes 1e30 for 1e+30. */
static void put_without_plus(Text *out, double x) {
	size_t start = out->length;
	text_put_double(out, x);
	char *plus = strchr(out->at + start, '+');
	if (plus) {
		memmove(plus, plus + 1, strlen(plus));
		out->length--;
	}
}

void py_put_float(Text *out, double x) {
	if (isnan(x))
		text_put(out, "jnp.nan");
	else if (isinf(x))
		text_put(out, x > 0 ? "jnp.inf" : "-jnp.inf");
	else
		put_without_plus(out, x);
}
