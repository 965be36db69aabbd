/* document.h - documents for tests, a node on a line:
 *
 *	name row_sum
 *	tensor x input float32[256, 512]
 *	tensor out output float32[256] "init": 0
 *	block m 256                                   its symbol is u0; the next one's is u1
 *	config {"block_sizes": [64]}
 *	root 0 over [0]
 *	  x = tile.host_tensor('x') : float32[256, 512]
 *	  t = tile.load(x, [u0, :]) : float32[u0, 512]
 *	  s = aten.sum.dim_IntList(t, [-1], keepdim=true) : float32[u0, 1]
 *	  ...
 *	  return
 *
 * A loop is `for_loop 1 over [1] carry [[0, 0]]`, a placeholder in it `acc : float32[u0]`, and it ends with what it
 * gives, `return a, b`. Of arguments, a word is a node, 'x' a string, u0 a block, <u0 * 2> an expression, float32 a
 *dtype, -inf a float, and : or 1:u0 a slice. A type may be `sym u0 * 2`, `sym`, whose value is not known, `sym bool`,
 *and of a tuple
 * `(float32[u0], sym)`. What stands in braces or quotes is JSON. */
#ifndef PALLASC_TEST_DOCUMENT_H
#define PALLASC_TEST_DOCUMENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "src/ops/ops.h"

#include <ctype.h>

/* A document in the making. */
typedef struct Document {
	Text out;
	const char *at;      /* what is read next of its lines */
	const char *section; /* the array of the document that is open; NULL */
	uint32_t blocks;
	bool empty, in_graph; /* empty: the graph has no nodes yet */
} Document;

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static inline char document_next(Document *d) {
	d->at += strspn(d->at, " \t");
	return *d->at;
}

/* Reads c if it is next; the last line may have no '\n'. */
static inline bool document_takes(Document *d, char c) {
	bool taken = document_next(d) == c || (c == '\n' && !*d->at);
	d->at += taken && *d->at;
	return taken;
}

static inline void document_expect(Document *d, char c) {
	if (!document_takes(d, c))
		fail_msg("expected '%c' at: %.40s", c, d->at);
}

/* So many characters, which stay in the arena. */
static inline const char *document_cut(Document *d, size_t length) {
	const char *cut = arena_printf(d->out.arena, "%.*s", (int)length, d->at);
	d->at += length;
	return cut;
}

/* Names and numbers: 1e-5 is one too. */
static inline const char *document_word(Document *d) {
	size_t length = document_next(d) == '-';
	for (char c; (c = d->at[length]); length++) {
		bool exponent = (c == '-' || c == '+') && isdigit((unsigned char)*d->at) && d->at[length - 1] == 'e';
		if (!isalnum((unsigned char)c) && c != '_' && c != '.' && !exponent)
			break;
	}
	if (length == 0)
		fail_msg("expected a word at: %.40s", d->at);
	return document_cut(d, length);
}

/* An expression up to one of the ends that stands in no parentheses. */
static inline const char *document_expression(Document *d, const char *ends) {
	size_t length = 0;
	document_next(d);
	for (int depth = 0; d->at[length] && (depth > 0 || !strchr(ends, d->at[length])); length++)
		depth += (d->at[length] == '(') - (d->at[length] == ')');
	return document_cut(d, length);
}

/* Items up to `close`, with commas between. */
static inline void document_items(Document *d, char close, void (*item)(Document *)) {
	for (bool first = true; !document_takes(d, close); first = false) {
		if (!first) {
			document_expect(d, ',');
			text_put(&d->out, ", ");
		}
		item(d);
	}
}

/* JSON in brackets, braces or quotes. */
static inline void document_json(Document *d) {
	size_t length = 0;
	int depth = 0;
	bool quoted = false;
	do {
		char c = d->at[length++];
		quoted ^= c == '"';
		depth += quoted ? 0 : (c == '{' || c == '[') - (c == '}' || c == ']');
	} while (d->at[length] && (quoted || depth > 0));
	text_put(&d->out, document_cut(d, length));
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static inline bool document_is_literal(const char *word) {
	return isdigit((unsigned char)word[*word == '-']) || strcmp(word, "true") == 0 || strcmp(word, "false") == 0 ||
	       strcmp(word, "null") == 0;
}

/* What a word of the arguments is: the key of its object. */
static inline const char *document_kind(const char *word) {
	const char *plain = word + (*word == '-');
	if (strcmp(plain, "inf") == 0 || strcmp(plain, "nan") == 0)
		return "float";
	if (*word == 'u' && word[1] && strspn(word + 1, "0123456789") == strlen(word + 1))
		return "sym";
	return dtype_find(word) != DTYPE_NONE ? "dtype" : "ref";
}

/* An argument that is no list and no slice. */
static inline void document_atom(Document *d) {
	if (document_next(d) == '{' || *d->at == '"') {
		document_json(d);
	} else if (document_takes(d, '\'')) {
		text_printf(&d->out, "\"%s\"", document_expression(d, "'"));
		document_expect(d, '\'');
	} else if (document_takes(d, '<')) {
		text_printf(&d->out, "{\"sym\": \"%s\"}", document_expression(d, ">"));
		document_expect(d, '>');
	} else {
		const char *word = document_word(d);
		if (document_is_literal(word))
			text_put(&d->out, word);
		else
			text_printf(&d->out, "{\"%s\": \"%s\"}", document_kind(word), word);
	}
}

/* BEGIN:END:STEP, each of which may be left out. */
static inline void document_slice(Document *d) {
	text_put(&d->out, "{\"slice\": [");
	for (int i = 0; i < 3; i++) {
		text_put(&d->out, i ? ", " : "");
		if (strchr(":,])", document_next(d)))
			text_put(&d->out, "null");
		else
			document_atom(d);
		document_takes(d, ':');
	}
	text_put(&d->out, "]}");
}

static inline void document_argument(Document *d) {
	bool json = strchr("{\"'", document_next(d)) != NULL;
	if (document_takes(d, '[')) {
		text_put(&d->out, "[");
		document_items(d, ']', document_argument);
		text_put(&d->out, "]");
	} else if (!json && memchr(d->at, ':', strcspn(d->at, ",])\n"))) {
		document_slice(d);
	} else {
		document_atom(d);
	}
}

/* a, b, key=c: behind the first that is given by its name, all are. */
static inline void document_arguments(Document *d) {
	bool named = false;
	text_put(&d->out, ", \"args\": [");
	document_expect(d, '(');
	for (bool first = true; !document_takes(d, ')'); first = false) {
		if (!first)
			document_expect(d, ',');
		bool opens = !named && d->at[strcspn(d->at, "=,()[]{}\"<\n")] == '=';
		text_put(&d->out, opens ? "], \"kwargs\": {" : first ? "" : ", ");
		named |= opens;
		if (named) {
			text_printf(&d->out, "\"%s\": ", document_word(d));
			document_expect(d, '=');
		}
		document_argument(d);
	}
	text_put(&d->out, named ? "}" : "]");
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static inline void document_dim(Document *d) {
	const char *dim = document_expression(d, ",]");
	bool number = strspn(dim, "-0123456789") == strlen(dim);
	text_printf(&d->out, number ? "%s" : "\"%s\"", dim);
}

static inline void document_sym(Document *d) {
	if (strchr(",)\n", document_next(d)))
		text_put(&d->out, "\"sym\": null");
	else if (strncmp(d->at, "bool", 4) == 0)
		text_printf(&d->out, "\"sym\": null, \"dtype\": \"%s\"", document_word(d));
	else
		text_printf(&d->out, "\"sym\": \"%s\"", document_expression(d, ",)\n"));
}

static inline void document_type(Document *d);

/* The fields of a type. */
static inline void document_type_fields(Document *d) {
	if (document_takes(d, '(')) {
		text_put(&d->out, "\"tuple\": [");
		document_items(d, ')', document_type);
		text_put(&d->out, "]");
		return;
	}
	const char *word = document_word(d);
	if (strcmp(word, "sym") == 0) {
		document_sym(d);
		return;
	}
	text_printf(&d->out, "\"dtype\": \"%s\", \"shape\": [", word);
	document_expect(d, '[');
	document_items(d, ']', document_dim);
	text_put(&d->out, "]");
}

static inline void document_type(Document *d) {
	text_put(&d->out, "{");
	document_type_fields(d);
	text_put(&d->out, "}");
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* What is left of the line, as fields of JSON, and the end of an object. */
static inline void document_rest(Document *d) {
	bool more = document_next(d) != '\n' && *d->at;
	text_printf(&d->out, "%s%s}", more ? ", " : "", document_cut(d, strcspn(d->at, "\n")));
}

static inline void document_close(Document *d) {
	if (d->in_graph)
		text_put(&d->out, "]}");
	if (d->section)
		text_put(&d->out, "]");
	d->section = NULL;
	d->in_graph = false;
}

/* The comma before an item of an array of the document, or the array's begin. */
static inline void document_section(Document *d, const char *section) {
	if (d->section && strcmp(d->section, section) == 0) {
		text_put(&d->out, d->in_graph ? "]}, " : ", ");
	} else {
		document_close(d);
		text_printf(&d->out, ", \"%s\": [", section);
	}
	d->section = section;
	d->in_graph = false;
}

static inline void document_name(Document *d) {
	document_close(d);
	text_printf(&d->out, ", \"name\": \"%s\"", document_word(d));
}

static inline void document_tensor(Document *d) {
	document_section(d, "tensors");
	text_printf(&d->out, "{\"name\": \"%s\", ", document_word(d));
	text_printf(&d->out, "\"role\": \"%s\", ", document_word(d));
	document_type_fields(d);
	document_rest(d);
}

static inline void document_scalar(Document *d) {
	document_section(d, "scalars");
	text_printf(&d->out, "{\"name\": \"%s\", ", document_word(d));
	text_printf(&d->out, "\"dtype\": \"%s\"", document_word(d));
	document_rest(d);
}

static inline void document_block(Document *d) {
	document_section(d, "block_sizes");
	text_printf(&d->out, "{\"id\": %u, \"symbol\": \"u%u\", ", d->blocks, d->blocks);
	text_printf(&d->out, "\"name\": \"%s\", ", document_word(d));
	text_put(&d->out, "\"extent\": ");
	document_atom(d);
	d->blocks++;
	document_rest(d);
}

static inline void document_graph(Document *d, const char *kind) {
	document_section(d, "graphs");
	text_printf(&d->out, "{\"id\": %s, \"kind\": \"%s\"", document_word(d), kind);
	while (!document_takes(d, '\n')) {
		const char *word = document_word(d), *blocks = strcmp(kind, "root") == 0 ? "grid" : "block_ids";
		text_printf(&d->out, ", \"%s\": ", strcmp(word, "over") == 0 ? blocks : "carried");
		document_next(d);
		document_json(d);
	}
	text_put(&d->out, ", \"nodes\": [");
	d->in_graph = d->empty = true;
}

/* NAME : TYPE, NAME = TARGET(ARGUMENTS), maybe with a type, or return ARGUMENTS. */
static inline void document_node(Document *d, const char *name) {
	bool output = strcmp(name, "return") == 0;
	text_printf(&d->out, "%s{\"name\": \"%s\"", d->empty ? "" : ", ", output ? "output" : name);
	d->empty = false;
	if (output) {
		text_put(&d->out, ", \"op\": \"output\", \"args\": [[");
		document_items(d, '\n', document_argument);
		text_put(&d->out, "]]}");
		return;
	}
	if (document_takes(d, '=')) {
		text_printf(&d->out, ", \"target\": \"%s\"", document_word(d));
		document_arguments(d);
	} else {
		text_put(&d->out, ", \"op\": \"placeholder\"");
	}
	if (document_takes(d, ':')) {
		text_put(&d->out, ", \"meta\": ");
		document_type(d);
	}
	text_put(&d->out, "}");
}

static inline void document_line(Document *d) {
	static const struct {
		const char *word;
		void (*write)(Document *);
	} lines[] = {{"name", document_name},
	             {"tensor", document_tensor},
	             {"scalar", document_scalar},
	             {"block", document_block}};
	const char *word = document_word(d);
	char next = document_next(d);
	bool named = next == '=' || next == ':';
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		if (!named && strcmp(word, lines[i].word) == 0) {
			lines[i].write(d);
			return;
		}
	if (isdigit((unsigned char)next)) {
		document_graph(d, word);
	} else if (next == '{' || (next == '[' && !d->in_graph)) {
		document_close(d);
		text_printf(&d->out, ", \"%s\": ", word);
		document_json(d);
	} else {
		document_node(d, word);
	}
}

/* The document as JSON; lines that are JSON stay. */
static inline const char *document_text(Arena *a, const char *lines) {
	Document d = {.at = lines};
	if (*lines == '{')
		return lines;
	text_init(&d.out, a);
	text_put(&d.out, "{\"format\": \"fxtile\", \"version\": 1");
	while (d.at += strspn(d.at, " \t\n"), *d.at)
		document_line(&d);
	document_close(&d);
	text_put(&d.out, "}\n");
	return d.out.at;
}

#endif
