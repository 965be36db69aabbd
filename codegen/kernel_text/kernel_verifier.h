/* kernel_verifier.h - what the files that verify kernels share: kernel_verify.c (scopes, signatures, diagnostics),
 * kernel_verify_stmts.c (statements and what holds regions) and kernel_verify_values.c (ints, references, pure ops). */
#ifndef PALLASC_KERNEL_VERIFIER_H
#define PALLASC_KERNEL_VERIFIER_H

#include "codegen/kernel/kernel.h"

/* One kernel, or the host, under way. */
typedef struct Verifier {
	const KProgram *p;
	Diag *d;
	Kernel *k;
	uint32_t index; /* in the program; the host's is behind the last */
	bool host, ok;
	StmtId stmt; /* where it is; NONE: in the signature */
	/* what is in scope, and in which order it came */
	bool *value_seen, *buffer_seen, *function_seen;
	VEC(uint32_t) values, buffers, functions;
	uint32_t *pipeline_rank; /* by function: of the pipeline whose body it is; 0: of none */
	StmtId *returns;         /* by function: its return; NONE */
	uint32_t grid_rank;      /* of the innermost grid */
	const KLoop *loop;       /* in whose regions it is, not in a function there; NULL */
	RegionId loop_region;    /* ... in which of them */
	uint32_t *const *lines;  /* by kernel and statement, in `text`; NULL until there is an error */
	Text text;
} Verifier;

/* Where it is: says what is wrong with the statement, or with the signature. False, for `return`. */
bool kverify_error(Verifier *v, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
const char *kverify_value_name(const Verifier *v, ValueId id);
const char *kverify_buffer_name(const Verifier *v, BufferId id);
/* "bfloat16[8, 128]" */
const char *kverify_type_text(const Verifier *v, Dtype dtype, uint32_t rank, const int64_t *shape);
const char *kverify_value_type(const Verifier *v, ValueId id);

/* From here on in scope. */
void kverify_define_value(Verifier *v, ValueId id);
void kverify_define_buffer(Verifier *v, BufferId id);
typedef struct VerifyMark {
	uint32_t values, buffers, functions;
} VerifyMark;
VerifyMark kverify_mark(const Verifier *v);
void kverify_leave(Verifier *v, VerifyMark mark);

/* ---- kernel_verify_values.c ------------------------------------------------------------------------------------- */

bool kverify_int(Verifier *v, IntId id, bool index_map);
bool kverify_ints(Verifier *v, const IntId *ints, uint32_t count, bool index_map);
bool kverify_ref(Verifier *v, RefId id);
bool kverify_arg(Verifier *v, const KArg *arg);
/* A result's type: its layout fits, its rank its kind. */
bool kverify_type(Verifier *v, ValueId id);
/* The argument can stand for a value of that type. */
bool kverify_passes(Verifier *v, const KArg *arg, ValueId as, const char *what);
bool kverify_pure(Verifier *v, StmtId s);

/* ---- kernel_verify_stmts.c -------------------------------------------------------------------------------------- */

/* The statements of a region, which stay in scope: its last one may be `end`, a return or yield. */
void kverify_region(Verifier *v, RegionId r, uint16_t end);

#endif
