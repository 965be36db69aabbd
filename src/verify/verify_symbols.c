/* verify_symbols.c - module_verify_symbols: is the graph well-typed whatever sizes its blocks get?
 *
 * Sizes are compared by value, and what is compared under one configuration may agree by chance: of bias[u0] and
 * bias[u1] where both blocks are 256. So before any configuration is read the graph is verified under sizes that agree
 * by nothing but what the document says: each block whose size the configuration chooses, and each tunable, is the
 * multiple of a prime of its own. A size that the graph fixes is what it says, a reduction block that nothing iterates
 * is its extent. Two expressions that differ as polynomials of the symbols differ so under one of two sets of primes.
 * Most graphs never need a second set: where all that had to be equal was the same expression, no size was asked for,
 * and what holds for these holds for all, also for those of a configuration (TYPING_ALWAYS).
 *
 * The multiples are of 64, so that u0 // 2 * 2 is u0, and at least 4288, so that the first 128 of u0 are 128: whether a
 * configuration's sizes are so is asked afterwards, by module_verify() under it. */
#include "infer.h"
#include "verify.h"
#include "src/config/config.h"

enum { SETS = 2, MULTIPLE = 64, FIRST = 64 };

/* No two symbols of a set, and no symbol of two sets, have the same prime. */
static int64_t next_prime(int64_t after) {
	for (int64_t n = after + 1;; n++) {
		bool prime = true;
		for (int64_t d = 2; d * d <= n && prime; d++)
			prime = n % d != 0;
		if (prime)
			return n;
	}
}

/* Gives every expression its value where symbol i is MULTIPLE times the i-th prime behind *prime, which moves on. */
static void give_values(Module *m, int64_t *prime) {
	int64_t *sizes = arena_array(m->arena, (size_t)m->blocks.count + 1, sizeof *sizes);
	for (TunableId t = 0; t < m->config.tunables.count; t++)
		m->config.tunables.at[t] = MULTIPLE * (*prime = next_prime(*prime));
	for (BlockId b = 0; b < m->blocks.count; b++) {
		(void)expr_block(m, b);
		sizes[b] = MULTIPLE * (*prime = next_prime(*prime));
	}
	const int64_t *values = expr_values_at(m, m->arena, sizes);
	m->block_size.count = 0;
	for (BlockId b = 0; b < m->blocks.count; b++) {
		const Block *block = &m->blocks.at[b];
		bool whole = block->reduction && block->size == NONE && !block_iterated(m, b) && block->extent != NONE;
		if (whole && values[block->extent] != EXPR_UNKNOWN)
			sizes[b] = values[block->extent];
	}
	values = expr_values_at(m, m->arena, sizes);
	for (ExprId e = 0; e < m->exprs.count; e++) {
		m->exprs.at[e].known = values[e] != EXPR_UNKNOWN || m->exprs.at[e].kind == EXPR_INT;
		m->exprs.at[e].number = values[e];
	}
	for (BlockId b = 0; b < m->blocks.count; b++)
		vec_push(m->arena, &m->block_size, values[expr_block(m, b)]);
	m->configured = true;
}

/* A copy with sizes of the next primes, which says in *asked whether one was asked for: what has these sizes is of no
 * use to anybody else. */
static Module *copy_with_values(Module *m, int64_t *prime, bool *asked) {
	Module *copy = module_clone(m, m->arena);
	give_values(copy, prime);
	copy->sizes_asked = asked;
	*asked = false;
	return copy;
}

/* Types as the sizes of a first set have them: that they hold for others too is what is verified then. A configuration
 * gives every expression its value anew. */
static bool fill(Module *m, Diag *d) {
	int64_t prime = FIRST;
	VEC(int64_t) given = {0};
	for (TunableId t = 0; t < m->config.tunables.count; t++)
		vec_push(m->arena, &given, m->config.tunables.at[t]);
	give_values(m, &prime);
	bool ok = types_fill(m, d);
	for (TunableId t = 0; t < given.count; t++)
		m->config.tunables.at[t] = given.at[t];
	m->configured = false;
	return ok;
}

bool module_verify_symbols(Module *m, Diag *d) {
	int64_t prime = FIRST;
	bool asked = true;
	m->typing = TYPING_UNKNOWN;
	if (types_missing(m) && !fill(m, d))
		return false;
	for (int set = 0; set < SETS && asked; set++) {
		uint32_t before = d->errors;
		if (!module_verify(copy_with_values(m, &prime, &asked), d) || d->errors != before)
			return false;
	}
	m->typing = asked ? TYPING_SYMBOLIC : TYPING_ALWAYS;
	return true;
}

Module *node_infer_symbols(Module *m, Diag *d, NodeId n) {
	int64_t prime = FIRST;
	bool asked = true;
	Module *first = NULL;
	const char *type = NULL;
	for (int set = 0; set < SETS && asked; set++) {
		Module *copy = copy_with_values(m, &prime, &asked);
		if (!node_infer(copy, d, n))
			return NULL;
		const char *found = type_string(copy, node_get(copy, n)->type);
		if (first && strcmp(type, found) != 0) {
			const Infer in = {m, d, n};
			infer_error(&in, "size-unknown", "write it as an expression of them",
			            "its shape depends on what sizes the blocks get");
			return NULL;
		}
		first = first ? first : copy;
		type = found;
	}
	return first;
}
