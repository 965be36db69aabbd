/* kernel_reader.h - what the files that read kernel text share: kernel_lex.c (tokens, names, complaints),
 * kernel_read_parts.c (ints, references, arguments, types), kernel_read_stmts.c (statements), kernel_read_loops.c
 * (those with many parts) and kernel_read.c (programs and signatures).
 *
 * Reading stops at the first error: from then on every token is the end of the line, so that whoever reads comes to
 * the end of what it does. */
#ifndef PALLASC_KERNEL_READER_H
#define PALLASC_KERNEL_READER_H

#include "codegen/kernel/kernel.h"

enum {
	READ_REGION_DEPTH = 64, /* regions in regions */
	READ_INT_DEPTH = 200    /* of an integer expression, as a tree */
};

typedef enum TokenKind {
	TOKEN_END,      /* of the line */
	TOKEN_NAME,     /* a word */
	TOKEN_NUMBERED, /* %n */
	TOKEN_INTEGER,
	TOKEN_REAL,
	TOKEN_STRING, /* where a name is due, that name: it is no word of the format */
	TOKEN_SIGN    /* `text` of one to three characters */
} TokenKind;

typedef struct Token {
	TokenKind kind;
	const char *text; /* interned: of a name, a numbered name (with %) or a sign; of a string what it says */
	size_t length;    /* of the text as it stands in the source, */
	size_t at;        /* which is there */
	uint64_t number;  /* INTEGER */
	double real;      /* REAL */
} Token;

typedef enum EntryKind { ENTRY_VALUE, ENTRY_BUFFER, ENTRY_FUNCTION } EntryKind;

/* A name in scope. */
typedef struct Entry {
	const char *name;
	EntryKind kind;
	uint32_t id;
	uint32_t hidden; /* the one of the same name that it hides; NONE */
} Entry;

typedef struct KReader {
	Arena *a;
	Diag *d;
	const Source *source;
	bool failed;
	/* where it is */
	size_t cursor, line_start;
	int line;
	Token token; /* the next one */
	/* names */
	StringTable strings;
	VEC(Entry) scope;
	Map entry_of; /* interned name: the newest entry */
	/* what is made */
	KProgram *p;
	Kernel *k;
	VEC(Location *) lines; /* of the kernel, by number - 1 */
	bool in_index;         /* in an index map or a window, which may read elements of tables */
	int region_depth;
	Map op_of; /* interned name: what kernel_op_find() said */
} KReader;

/* ---- kernel_lex.c ----------------------------------------------------------------------------------------------- */

/* To the first line that says something; false at the end of the text. */
bool kread_line(KReader *r);
void kread_token(KReader *r);
/* What is behind the next token, up to the end of the line, as it stands. */
const char *kread_rest(KReader *r);
bool kread_is(const KReader *r, const char *sign_or_word);
/* The token behind the next one is that sign. */
bool kread_next_is(KReader *r, const char *sign);
bool kread_accept(KReader *r, const char *sign_or_word);
/* True if it is there; else a complaint. */
bool kread_expect(KReader *r, const char *sign_or_word);
bool kread_end_of_line(KReader *r);
/* "expected `what`, found ..." at the next token. */
void kread_expected(KReader *r, const char *what);
void kread_error(KReader *r, const Token *at, const char *code, const char *hint, const char *fmt, ...)
	PRINTF_LIKE(5, 6);
/* A plain name, and whatever a Python variable may be called. */
const char *kread_word(KReader *r, const char *what);
const char *kread_variable(KReader *r, const char *what);
/* An integer within bounds; `low` after a complaint. */
int64_t kread_number(KReader *r, const char *what, int64_t low, int64_t high);

void kscope_add(KReader *r, const char *name, EntryKind kind, uint32_t id);
/* Forgets what was added since there were `count`. */
void kscope_cut(KReader *r, uint32_t count);
/* The next token's; NONE after a complaint. */
uint32_t kread_known(KReader *r, EntryKind kind);

/* ---- kernel_read_parts.c ---------------------------------------------------------------------------------------- */

IntId kread_int(KReader *r);
/* (a, b, ...): exactly `count` of them, in the arena. */
IntId *kread_ints(KReader *r, uint32_t count);
/* The same of any number up to `room`; returns how many. */
uint32_t kread_int_list(KReader *r, IntId *ints, uint32_t room);
/* [a, b] or (a, b), of numbers. */
uint32_t kread_numbers(KReader *r, const char *open, const char *close, int64_t low, int64_t *numbers, uint32_t room);
KArg kread_arg(KReader *r);
typedef VEC(KArg) ArgList;
/* To the end of the line, an attribute, or whatever is no argument: arguments with commas between. */
void kread_args(KReader *r, ArgList *args);

typedef struct ReadType {
	KType type;
	Dtype dtype;
	Layout layout;
	uint32_t rank;
	int64_t shape[KDIM_MAX];
} ReadType;
ReadType kread_type(KReader *r);
Dtype kread_dtype(KReader *r);
/* `vmem bfloat16[8, 128]` */
KBuffer kread_buffer_type(KReader *r, int64_t shape[KDIM_MAX]);
/* A name that is given here: a variable, or a number that stands for none. */
Token kread_name(KReader *r);
/* NULL: a number. */
const char *token_variable(const Token *name);
/* In scope at once. */
ValueId kread_new_value(KReader *r, const Token *name, const ReadType *type);
BufferId kread_new_buffer(KReader *r, const Token *name, KBuffer b);

/* ---- kernel_read_stmts.c, kernel_read_loops.c -------------------------------------------------------------------- */

/* What a statement is before it is made. */
typedef struct Draft {
	uint16_t op;
	VEC(Token) results;
	ArgList args;
	VEC(int64_t) ints;
	VEC(ReadType) types;
	const char *name;
	FunctionId function;
	RegionId region; /* where it will stand */
	StmtId stmt;
} Draft;

/* The lines up to `}`, each read by read_one where that is not NULL and takes it: it is a loop's own. */
typedef bool ReadOwnLine(KReader *r, void *data);
void kread_block(KReader *r, RegionId region, ReadOwnLine *read_own, void *data);
/* `: types`, and the words behind; then the statement is there, with its results, which are not in scope yet. */
void draft_make(KReader *r, Draft *d);
/* The region that it holds, up to `}`. */
void draft_body(KReader *r, Draft *d, ReadOwnLine *read_own, void *data);
void kread_for(KReader *r, Draft *d);
void kread_loop(KReader *r, Draft *d);
void kread_pipeline(KReader *r, Draft *d);

#endif
