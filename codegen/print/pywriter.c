/* pywriter.c - layout of Python statements; knows nothing of kernels. */
#include "pywriter.h"
#include <math.h>
#include <stdio.h>

/* A line at that indentation: s[0..n), and `tail` behind it unless that is 0. */
static void put_line(PyWriter *w, int indent, const char *s, size_t n, char tail) {
	size_t margin = (size_t)indent * 4;
	char *at = text_more(w->out, margin + n + (tail != '\0') + 1);
	memset(at, ' ', margin);
	memcpy(at + margin, s, n);
	at += margin + n;
	if (tail)
		*at++ = tail;
	*at = '\n';
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

/* What layout looks at in a statement, found in one walk, in order; everything else is passed over. Brackets know each
 * other, so that what they hold is passed over as well:
 *
 *     x = f(a, "b") + g(c,)      ASSIGN OPEN COMMA STRING CLOSE OPERATOR OPEN COMMA CLOSE
 */
enum { PLAIN, OPEN, CLOSE, COMMA, STRING, SPACE, END, LAMBDA, OPERATOR, ASSIGN, ATTRIBUTE };
static const unsigned char kinds[256] = {
	['\0'] = END,  ['"'] = STRING, ['\''] = STRING, ['('] = OPEN,  ['['] = OPEN, ['{'] = OPEN,
	[')'] = CLOSE, [']'] = CLOSE,  ['}'] = CLOSE,   [','] = COMMA, [' '] = SPACE};

static int kind_of(char c) { return kinds[(unsigned char)c]; }
static bool is_open(char c) { return kind_of(c) == OPEN; }
static bool is_close(char c) { return kind_of(c) == CLOSE; }

/* The first character from i on that may be marked, or the end of the text. */
static size_t skip_plain(const char *s, size_t i) {
	while (kind_of(s[i]) == PLAIN)
		i++;
	return i;
}

static bool is_name_char(char c) { return is_letter(c) || is_digit(c); }

static bool is_callee(const char *s, size_t open) {
	return open > 0 && (is_name_char(s[open - 1]) || is_close(s[open - 1]));
}

/* The last character of the string that starts at i. */
static size_t skip_string(const char *s, size_t i) {
	char quote = s[i++];
	while (s[i] && s[i] != quote)
		i += s[i] == '\\' && s[i + 1] ? 2 : 1;
	return s[i] ? i : i - 1;
}

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

/* What the space s[i] is part of; PLAIN: nothing to mark. */
static int space_kind(const char *s, size_t i, int *level) {
	*level = operator_at(s + i);
	if (*level)
		return OPERATOR;
	if (s[i + 1] == '=' && s[i + 2] == ' ')
		return ASSIGN;
	return i >= 6 && s[i - 1] == 'a' && memcmp(s + i - 6, "lambda", 6) == 0 ? LAMBDA : PLAIN;
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* A part of a statement: its characters and the marks in it. Brackets in it are closed in it. */
typedef struct Span {
	size_t from, to;
	uint32_t first, last; /* marks from `first` to before `last` */
	char tail;            /* is to stand behind it; 0: nothing */
} Span;

static size_t span_length(Span x) { return x.to - x.from + (x.tail != '\0'); }

/* Of what is counted over the marks, the part that is in the span. */
#define COUNT_IN(w, x, member)                                                                                         \
	(((x).last ? (w)->marks.at[(x).last - 1].member : 0) - ((x).first ? (w)->marks.at[(x).first - 1].member : 0))

static bool wants_breaking(const PyWriter *w, Span x) { return COUNT_IN(w, x, magic) != 0; }

/* The mark behind mark i, or behind the brackets that open there. */
static uint32_t next_mark(const PyWriter *w, uint32_t i) {
	return (w->marks.at[i].kind == OPEN ? w->marks.at[i].partner : i) + 1;
}

/* The part of a span in front of mark i, and the one from character `from` on. */
static Span span_before(const PyWriter *w, Span x, uint32_t i) {
	return (Span){x.from, w->marks.at[i].at, x.first, i, '\0'};
}

static Span span_from(const PyWriter *w, Span x, uint32_t first, size_t from) {
	while (first < x.last && w->marks.at[first].at < from)
		first++;
	return (Span){from, x.to, first, x.last, x.tail};
}

/* Where to break: the last outermost bracket pair up to whose opening the line fits `width`, or else the first pair.
 * The mark that opens it; NONE. */
static uint32_t break_brackets(const PyWriter *w, Span x, size_t width) {
	const PyMark *m = w->marks.at;
	uint32_t found = NONE;
	for (uint32_t i = x.first; i < x.last; i = next_mark(w, i)) {
		if (m[i].kind != OPEN || m[i].partner >= x.last || m[m[i].partner].at == m[i].at + 1)
			continue;
		if (found != NONE && m[i].at - x.from >= width)
			break;
		found = i;
	}
	return found;
}

/* The mark of the comma that ends the item with which the span starts; x.last if there is none. A lambda's parameters
 * end at its colon. */
static uint32_t item_end(const PyWriter *w, const char *s, Span x) {
	const PyMark *m = w->marks.at;
	uint32_t i = x.first;
	if (i < x.last && m[i].kind == LAMBDA && m[i].at == x.from)
		i = span_from(w, x, i, x.from + strcspn(s + x.from, ":")).first;
	while (i < x.last && m[i].kind != COMMA)
		i = next_mark(w, i);
	return i < x.last ? i : x.last;
}

/* A comma before the closing bracket asks for one item per line, but for that of a tuple of one item. */
static bool is_magic(const PyWriter *w, const char *s, uint32_t close) {
	const PyMark *m = w->marks.at, *end = &m[close], *start = &m[end->partner];
	if (s[end->at - 1] != ',')
		return false;
	Span inside = {start->at + 1, end->at, end->partner + 1, close, '\0'};
	return s[end->at] != ')' || is_callee(s, start->at) || m[item_end(w, s, inside)].at != end->at - 1;
}

/* Links a closing bracket with the innermost that is open; returns what is then open. */
static uint32_t close_bracket(PyWriter *w, const char *s, uint32_t open) {
	uint32_t close = w->marks.count - 1, outer;
	if (open == NONE)
		return NONE;
	outer = w->marks.at[open].partner;
	w->marks.at[open].partner = close;
	w->marks.at[close].partner = open;
	w->marks.at[close].magic += is_magic(w, s, close);
	return outer;
}

static void find_marks(PyWriter *w, const char *s, size_t n) {
	PyMark mark = {0};
	uint32_t open = NONE;
	w->marks.count = 0;
	vec_reserve(w->arena, &w->marks, (uint32_t)n); /* one for each character is enough */
	for (size_t i = skip_plain(s, 0); i < n; i = skip_plain(s, i + 1)) {
		int level = 0, kind = kind_of(s[i]);
		if (kind == SPACE && (kind = space_kind(s, i, &level)) == PLAIN)
			continue;
		mark.at = (uint32_t)(kind == LAMBDA ? i - 6 : i);
		mark.kind = (uint8_t)kind;
		mark.level = (uint8_t)level;
		mark.partner = open;
		mark.opaque += kind == STRING || kind == LAMBDA;
		w->marks.at[w->marks.count++] = mark;
		if (kind == OPEN)
			open = w->marks.count - 1;
		else if (kind == STRING)
			i = skip_string(s, i);
		else if (kind == CLOSE) {
			open = close_bracket(w, s, open);
			mark.magic = w->marks.at[w->marks.count - 1].magic;
			if (s[i + 1] != '.')
				continue;
			mark.at = (uint32_t)++i;
			mark.kind = ATTRIBUTE;
			mark.attributes++;
			w->marks.at[w->marks.count++] = mark;
		}
	}
	for (uint32_t outer; open != NONE; open = outer) {
		outer = w->marks.at[open].partner;
		w->marks.at[open].partner = w->marks.count;
	}
}

/* ---- brackets ---------------------------------------------------------------------------------------------------- */

static void put_expression(PyWriter *w, int indent, const char *s, Span x);

static void put_items(PyWriter *w, int indent, const char *s, Span x) {
	while (x.from < x.to) {
		uint32_t end = item_end(w, s, x);
		Span item = end < x.last ? span_before(w, x, end) : x;
		item.tail = ',';
		put_expression(w, indent, s, item);
		size_t next = item.to + 1;
		while (next < x.to && s[next] == ' ')
			next++;
		x = span_from(w, x, end, next);
	}
}

/* In the brackets that mark `open` opens. Call arguments and parameters may share one line; the items of a literal each
 * get their own. */
static void put_broken(PyWriter *w, int indent, const char *s, Span x, uint32_t open) {
	uint32_t close = w->marks.at[open].partner;
	Span body = {w->marks.at[open].at + 1, w->marks.at[close].at, open + 1, close, '\0'};
	const char *before = s + body.from - 1; /* the bracket */
	bool call = is_callee(s, body.from - 1);
	bool keyword = body.from - x.from > 7 && strncmp(before - 7, "return ", 7) == 0;
	bool one_line = (call || keyword) && s[body.to - 1] != ',' && !wants_breaking(w, body) &&
	                (size_t)(indent + 1) * 4 + span_length(body) <= PY_WIDTH;
	put_line(w, indent, s + x.from, body.from - x.from, '\0');
	if (one_line)
		put_line(w, indent + 1, s + body.from, body.to - body.from, '\0');
	else if (!call && item_end(w, s, body) == body.last)
		put_expression(w, indent + 1, s, body); /* a parenthesised one */
	else
		put_items(w, indent + 1, s, body);
	put_line(w, indent, s + body.to, x.to - body.to, x.tail);
}

/* In the brackets that break_brackets() finds, if there are any. */
static void put_in_brackets(PyWriter *w, int indent, const char *s, Span x) {
	uint32_t open = break_brackets(w, x, PY_WIDTH - (size_t)indent * 4);
	if (open != NONE)
		put_broken(w, indent, s, x, open);
	else
		put_line(w, indent, s + x.from, x.to - x.from, x.tail);
}

/* ---- chains and operators ---------------------------------------------------------------------------------------- */

/* The loosest operators outside brackets. A text with strings has none, nor has a lambda, which is not broken. */
typedef struct Operators {
	int level;
	uint32_t count;
} Operators;

static Operators operators_of(const PyWriter *w, Span x) {
	Operators found = {0};
	for (uint32_t i = x.first; i < x.last && COUNT_IN(w, x, opaque) == 0; i = next_mark(w, i)) {
		int level = w->marks.at[i].level;
		if (level && (found.level == 0 || level < found.level))
			found = (Operators){level, 0};
		found.count += level && level == found.level;
	}
	return found;
}

/* The mark behind the first, where a value is broken next: before an operator of the level; level 0: before an
 * attribute of what ends with a bracket, as `.astype` of `f(x).astype(y)`. x.last if there is none. */
static uint32_t next_part(const PyWriter *w, Span x, int level) {
	for (uint32_t i = x.first; i < x.last; i = next_mark(w, i)) {
		const PyMark *m = &w->marks.at[i];
		if (m->at > x.from && (level ? m->level == level : m->kind == ATTRIBUTE))
			return i;
	}
	return x.last;
}

/* One operand, perhaps behind its operator, with two such attributes or more: it is broken before each. */
static bool is_chain(const PyWriter *w, const char *s, Span x) {
	if (COUNT_IN(w, x, attributes) < 2)
		return false;
	const char *at = s + x.from;
	size_t n = x.to - x.from;
	bool behind = n > 3 && at[0] != '"' && !is_name_char(at[0]) && !is_open(at[0]);
	size_t start = behind ? strcspn(at, " ") + 1 : 0;
	int depth = 0, outside = 0; /* of the brackets that are open where the operand starts */
	uint32_t attributes = 0;
	for (size_t i = 0; i < n; i++) {
		int kind = kind_of(at[i]);
		if (i == start)
			outside = depth;
		if (kind == STRING)
			i = skip_string(at, i);
		depth += (kind == OPEN) - (kind == CLOSE);
		if (kind == SPACE && i >= start && depth == outside)
			return false;
		attributes += at[i] == '.' && depth == 0 && i > 0 && is_close(at[i - 1]);
	}
	return attributes >= 2;
}

static void put_parts(PyWriter *w, int indent, const char *s, Span x, int level) {
	for (uint32_t end = next_part(w, x, level); end < x.last; end = next_part(w, x, level)) {
		put_expression(w, indent, s, span_before(w, x, end));
		x = span_from(w, x, end,
		              w->marks.at[end].at + (level != 0)); /* without the space before the operator */
	}
	put_expression(w, indent, s, x);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* On lines of its own inside brackets. */
static void put_expression(PyWriter *w, int indent, const char *s, Span x) {
	if (span_length(x) + (size_t)indent * 4 <= PY_WIDTH && !wants_breaking(w, x)) {
		put_line(w, indent, s + x.from, x.to - x.from, x.tail);
		return;
	}
	Operators operators = operators_of(w, x);
	if (operators.count || is_chain(w, s, x))
		put_parts(w, indent, s, x, operators.level);
	else
		put_in_brackets(w, indent, s, x);
}

/* The value of `target = value` or `return value`; empty if it is neither. */
static Span value_of(const PyWriter *w, const char *s, Span x) {
	if (x.to > 7 && strncmp(s, "return ", 7) == 0)
		return span_from(w, x, 0, 7);
	for (uint32_t i = 0, opaque = 0; i < x.last && opaque == 0; i = next_mark(w, i)) {
		const PyMark *m = &w->marks.at[i];
		if (m->kind == ASSIGN)
			return span_from(w, x, i, m->at + 3);
		opaque = w->marks.at[next_mark(w, i) - 1].opaque; /* a string: in what is assigned there is none */
	}
	return (Span){x.to, x.to, x.last, x.last, '\0'};
}

/* A value of several parts, as ruff sees it: it is put in parentheses rather than broken in the brackets of one. */
static bool wants_parentheses(const PyWriter *w, const char *s, Span x) {
	Operators operators = operators_of(w, x);
	bool brackets = x.from < x.to && (is_open(s[x.from]) || is_close(s[x.to - 1]));
	return operators.count > 1 || (operators.count == 1 && !brackets) || is_chain(w, s, x);
}

/* Several targets that leave no room for the bracket in which the value is broken: each gets a line, in brackets. */
static bool breaks_targets(const PyWriter *w, const char *s, Span x, Span value) {
	uint32_t open = value.first;
	while (open < value.last && w->marks.at[open].kind != OPEN)
		open++;
	return value.from >= 3 && value.from < x.to && open < value.last && item_end(w, s, x) < value.first &&
	       w->marks.at[open].at + 1 + (size_t)w->indent * 4 > PY_WIDTH;
}

/* A statement that does not fit its line, or has a comma before a closing bracket. */
static void put_marked(PyWriter *w, const char *s, size_t n) {
	int indent = w->indent;
	find_marks(w, s, n);
	Span x = {0, n, 0, w->marks.count, '\0'};
	if (n + (size_t)indent * 4 <= PY_WIDTH && !wants_breaking(w, x)) {
		put_line(w, indent, s, n, '\0');
		return;
	}
	Span value = value_of(w, s, x);
	if (breaks_targets(w, s, x, value)) {
		Span targets = {0, value.from - 3, 0, value.first, '\0'};
		const char *rest = arena_printf(w->arena, ") = %.*s", (int)(n - value.from), s + value.from);
		put_line(w, indent, "(", 1, '\0');
		put_items(w, indent + 1, s, targets);
		put_marked(w, rest, n - value.from + 4);
		return;
	}
	uint32_t brackets = break_brackets(w, x, PY_WIDTH - (size_t)indent * 4);
	/* A target is not broken if it stands on one line. */
	bool breaks_target = brackets != NONE && w->marks.at[brackets].at < value.from &&
	                     value.from + 1 + (size_t)indent * 4 <= PY_WIDTH;
	if (value.from < n && (breaks_target || wants_parentheses(w, s, value))) {
		put_line(w, indent, s, value.from, '(');
		put_expression(w, indent + 1, s, value);
		put_line(w, indent, ")", 1, '\0');
	} else if (brackets != NONE) {
		put_broken(w, indent, s, x, brackets);
	} else {
		put_line(w, indent, s, n, '\0');
	}
}

/* Is there a comma before a closing bracket, in a string perhaps? */
static bool may_want_breaking(const char *s, size_t n) {
	const char *end = s + n;
	for (const char *at = s; (at = memchr(at, ',', (size_t)(end - at))) != NULL; at++)
		if (is_close(at[1]))
			return true;
	return false;
}

static void put_statement(PyWriter *w, const char *s, size_t n) {
	size_t from = w->out->length;
	if (n + (size_t)w->indent * 4 > PY_WIDTH || may_want_breaking(s, n))
		put_marked(w, s, n);
	else
		put_line(w, w->indent, s, n, '\0');
	for (uint32_t i = 0; i < w->about.count; i++)
		py_link(w, from, w->about.at[i]);
	w->about.count = 0;
}

void py_link(PyWriter *w, size_t from, const void *about) {
	PyLink link = {from, w->out->length, about};
	if (w->links && about && link.to > from)
		vec_push(w->arena, w->links, link);
}

void py_statement(PyWriter *w, const char *text) { put_statement(w, text, strlen(text)); }

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

Text *py_open(PyWriter *w) {
	if (!w->line.arena)
		text_init(&w->line, w->arena);
	w->line.length = 0;
	return &w->line;
}

void py_close(PyWriter *w) { put_statement(w, w->line.at, w->line.length); }

void py_line(PyWriter *w, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(py_open(w), fmt, ap);
	va_end(ap);
	py_close(w);
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
	size_t n = 1, indent = (size_t)w->indent * 4, most = indent + 1 < PY_WIDTH - 4 ? PY_WIDTH - 4 - indent : 0;
	if (*text && most)
		line[n++] = ' ';
	/* Only printable ASCII: no other byte can end the line, hide text or reorder it. */
	for (; *text && n < most; text++)
		line[n++] = (char)(*text >= 0x20 && *text < 0x7f ? *text : '?');
	if (*text) {
		memcpy(line + n, "...", 3);
		n += 3;
	}
	while (line[n - 1] == ' ')
		n--;
	put_line(w, w->indent, line, n, '\0');
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
