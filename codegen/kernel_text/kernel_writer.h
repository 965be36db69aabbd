/* kernel_writer.h - what the files that write kernel text share: kernel_text.c (programs, signatures, statements) and
 * kernel_text_parts.c (names, ints, arguments, types). */
#ifndef PALLASC_KERNEL_WRITER_H
#define PALLASC_KERNEL_WRITER_H

#include "codegen/kernel/kernel.h"

typedef struct KTextOut {
	Text *out;
	const KProgram *p;
	Kernel *k;
	uint32_t *value_number, *buffer_number, *function_number; /* of what has no variable; NONE: it has none yet */
	uint32_t next_number;
	uint32_t *uses;
	int depth;
	StringTable lines;
	Map line_of; /* by what a source line says: its number in the table */
	uint32_t line_count;
	uint32_t line;                  /* of the text, from 1 */
	uint32_t *const *line_of_stmts; /* by kernel, the host last: where its statements stand; NULL */
	uint32_t *line_of_stmt;
} KTextOut;

void ktext_name(KTextOut *t, const char *name);
void ktext_value(KTextOut *t, ValueId v);
void ktext_buffer(KTextOut *t, BufferId b);
void ktext_function(KTextOut *t, FunctionId f);
void ktext_int(KTextOut *t, IntId i);
/* (a, b), or what `open` and `close` say. */
void ktext_ints(KTextOut *t, const IntId *ints, uint32_t count);
void ktext_numbers(KTextOut *t, const char *open, const int64_t *numbers, uint32_t count, const char *close);
void ktext_ref(KTextOut *t, RefId id);
void ktext_arg(KTextOut *t, const KArg *arg);
/* With commas between. */
void ktext_args(KTextOut *t, StmtId s, uint32_t first);
void ktext_attributes(KTextOut *t, StmtId id);
/* dtype[dims]. */
void ktext_array(KTextOut *t, Dtype dtype, uint32_t rank, const int64_t *shape);
void ktext_type(KTextOut *t, ValueId id);
/* `vmem bfloat16[8, 128]` */
void ktext_buffer_type(KTextOut *t, const KBuffer *b);

/* The words of the format, by enum. */
extern const char *const kspace_words[]; /* KSpace; NULL-terminated */
extern const char *const klayout_words[];

#endif
