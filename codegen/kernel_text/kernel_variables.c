/* kernel_variables.c - which values of a text need a variable in Python though the text gives them none. A value
 * without one is printed inside the statement that reads it, so late. If it reads memory, it gets one where it is read
 * again, or in another region, or where a statement between may change what stands there; so does a large expression,
 * as what is in it is printed by each of its readers. What the compiler wrote has none of these. */
#include "kernel_text.h"

enum { PRINTED_MAX = 48 }; /* of an expression on one line: Python takes 200 parentheses in each other */

typedef struct Variables {
	Kernel *k;
	const uint32_t *uses;
	uint32_t *effects; /* by statement: how many before it, in the kernel, change anything */
	uint32_t count;
	StmtId *user; /* by value: the last statement that reads it */
	int *size;    /* by value: of what is printed for it, in ops */
} Variables;

static bool changes_memory(uint16_t op) {
	KOpKind kind = kernel_op_kind(op);
	bool silent = op == K_LOAD || op == K_COPY || op == K_REMOTE_COPY || op == K_BARRIER || op == K_DEF ||
	              op == K_RETURN || op == K_YIELD || op == K_QUEUE;
	return kind != KIND_PURE && !silent;
}

static void used(Variables *s, ValueId v, StmtId by) { s->user[v] = by; }

static void used_int(Variables *s, IntId id, StmtId by) {
	if (id == NONE)
		return;
	const KInt *i = &s->k->ints.at[id];
	if (i->kind == INT_VALUE)
		used(s, i->value, by);
	used_int(s, i->a, by);
	used_int(s, i->b, by);
	used_int(s, i->c, by);
}

static void used_ref(Variables *s, const KRef *ref, StmtId by) {
	used_int(s, ref->at, by);
	for (uint32_t d = 0; d < ref->rank; d++)
		if (ref->dim[d].kind != KDIM_ALL)
			used_int(s, ref->dim[d].start, by);
}

/* Python needs a function for it. */
static const char *function_wish(const Kernel *k, StmtId id) {
	const KStmt *s = kernel_stmt(k, id);
	if (s->op == K_STORE) {
		const KRef *ref = &k->refs.at[kernel_arg(k, id, 0)->ref];
		for (uint32_t d = 0; d < ref->rank; d++)
			if (ref->dim[d].kind == KDIM_PART)
				return "put";
	}
	return s->op == K_WHEN ? "then" : s->op == K_PIPELINE ? "pipeline" : NULL;
}

static void visit(Kernel *k, StmtId id, void *data) {
	Variables *s = data;
	KStmt *stmt = kernel_stmt(k, id);
	stmt->name = stmt->name ? stmt->name : function_wish(k, id);
	s->effects[id] = s->count;
	s->count += changes_memory(stmt->op);
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		const KArg *arg = kernel_arg(k, id, i);
		if (arg->kind == KARG_VALUE)
			used(s, arg->value, id);
		else if (arg->kind == KARG_INT)
			used_int(s, arg->index, id);
		else if (arg->kind == KARG_REF)
			used_ref(s, &k->refs.at[arg->ref], id);
	}
}

/* It, or what is printed inside it, reads memory or calls a function. */
static bool reads_memory(const Variables *s, const bool *reads, StmtId id) {
	const KStmt *stmt = kernel_stmt(s->k, id);
	bool found = stmt->op == K_LOAD || stmt->op == K_CALL || stmt->op == K_POP;
	for (uint32_t i = 0; i < stmt->arg_count && !found; i++) {
		const KArg *arg = kernel_arg(s->k, id, i);
		found = arg->kind == KARG_VALUE && !s->k->values.at[arg->value].name && reads[arg->value];
	}
	return found;
}

/* Of what is printed for a statement. */
static int size_of(const Variables *s, StmtId id) {
	int size = 1;
	for (uint32_t i = 0; i < kernel_stmt(s->k, id)->arg_count; i++) {
		const KArg *arg = kernel_arg(s->k, id, i);
		if (arg->kind == KARG_VALUE && !s->k->values.at[arg->value].name)
			size += s->size[arg->value];
	}
	return size;
}

/* The function in which a region stands. */
static StmtId function_of(const Kernel *k, RegionId r) {
	StmtId owner = k->regions.at[r].owner;
	while (owner != NONE && kernel_stmt(k, owner)->op != K_DEF)
		owner = k->regions.at[kernel_stmt(k, owner)->region].owner;
	return owner;
}

static bool needs_variable(const Variables *s, ValueId v, bool reads) {
	StmtId def = s->k->values.at[v].def, user = s->user[v];
	RegionId region = kernel_stmt(s->k, def)->region;
	if (kernel_stmt(s->k, def)->op == K_CHOOSE) /* Python has an `if` for it */
		return s->uses[v] > 0;
	if (kernel_stmt(s->k, def)->op == K_PROGRAM_ID) /* a pipeline's body has a grid of its own */
		return user != NONE && function_of(s->k, kernel_stmt(s->k, user)->region) != function_of(s->k, region);
	if (s->size[v] > PRINTED_MAX && s->uses[v] > 0)
		return true;
	if (!reads || s->uses[v] == 0)
		return false;
	uint32_t after = s->effects[def] + changes_memory(kernel_stmt(s->k, def)->op);
	return user == NONE || s->uses[v] > 1 || kernel_stmt(s->k, user)->region != region || s->effects[user] != after;
}

/* It is stored by a statement that follows, in whose place Python assigns it. */
static bool is_stored(const Variables *s, ValueId v) {
	StmtId at = kernel_stmt(s->k, s->k->values.at[v].def)->next;
	for (; at != NONE && kernel_stmt(s->k, at)->op == K_STORE; at = kernel_stmt(s->k, at)->next) {
		const KArg *x = kernel_arg(s->k, at, 1);
		if (x->kind == KARG_VALUE && x->value == v)
			return s->uses[v] == 1;
	}
	return false;
}

/* It is assigned where its statement stands, or never. */
static bool is_assigned(const Variables *s, ValueId v) {
	switch (kernel_stmt(s->k, s->k->values.at[v].def)->op) {
	case K_FOR:
	case K_IF: return true;
	case K_QUEUE: return s->uses[v] > 0;
	case K_CALL: return s->k->values.at[v].type != KTYPE_COPY && s->uses[v] > 0 && !is_stored(s, v);
	case K_WHILE: return s->uses[v] > 0;
	case K_FORI:
	case K_POP: return s->uses[v] > 0 && !is_stored(s, v);
	default: return false;
	}
}

/* What comes out of a `for` is in the variable that it carries. */
static void join_carried(Kernel *k, StmtId id, void *data) {
	const KStmt *s = kernel_stmt(k, id);
	(void)data;
	for (uint32_t i = 0; s->op == K_FOR && i < s->result_count; i++) {
		KValue *x = &k->values.at[s->result + i], *in = &k->values.at[s->each->carried.at[i]];
		if (in->var || x->var)
			x->var = in->var = in->var ? in->var : x->var;
		else
			x->as = s->each->carried.at[i];
	}
}

/* What is printed for it reads that value. */
static bool prints(const Kernel *k, const KArg *x, ValueId v) {
	if (x->kind == KARG_INT)
		return int_reads(k, x->index, v);
	const KRef *ref = x->kind == KARG_REF ? &k->refs.at[x->ref] : NULL;
	for (uint32_t d = 0; ref && d < ref->rank; d++)
		if (ref->dim[d].kind != KDIM_ALL && int_reads(k, ref->dim[d].start, v))
			return true;
	if (x->kind != KARG_VALUE || x->value == v)
		return x->kind == KARG_VALUE;
	StmtId def = k->values.at[x->value].name ? NONE : k->values.at[x->value].def;
	for (uint32_t i = 0; def != NONE && i < kernel_stmt(k, def)->arg_count; i++)
		if (prints(k, kernel_arg(k, def, i), v))
			return true;
	return false;
}

/* Python assigns what a `for` yields one after the other: what is carried in another place is kept before. */
static void keep_yielded(Kernel *k, StmtId id, void *data) {
	const KStmt *s = kernel_stmt(k, id);
	StmtId owner = k->regions.at[s->region].owner;
	(void)data;
	if (s->op != K_YIELD || owner == NONE || kernel_stmt(k, owner)->op != K_FOR)
		return;
	const KFor *each = kernel_stmt(k, owner)->each;
	for (uint32_t i = 0; i < kernel_stmt(k, id)->arg_count; i++) {
		KArg x = *kernel_arg(k, id, i);
		bool other = false;
		for (uint32_t j = 0; j < each->carried.count && !other; j++)
			other = j != i && prints(k, &x, each->carried.at[j]);
		if (!other)
			continue;
		if (x.kind == KARG_VALUE && !k->values.at[x.value].name) {
			k->values.at[x.value].name = "value";
			continue;
		}
		KValue v = k->values.at[kernel_stmt(k, owner)->result + i];
		StmtId let = kernel_insert_before(k, id, K_LET, 1, &x, 0, NULL);
		*kernel_arg(k, id, i) = karg_value(kernel_result(k, let, v.type, v.dtype, v.rank, v.shape, "value"));
	}
}

/* Values stand in the order of the text, so that what one reads is known before it. */
static void give_variables(Kernel *k) {
	Variables s = {.k = k, .uses = kernel_uses(k)};
	bool *reads = arena_array(k->arena, k->values.count + 1, sizeof *reads);
	s.effects = arena_array(k->arena, k->stmts.count + 1, sizeof *s.effects);
	s.user = arena_array(k->arena, k->values.count + 1, sizeof *s.user);
	s.size = arena_array(k->arena, k->values.count + 1, sizeof *s.size);
	for (ValueId v = 0; v < k->values.count; v++)
		s.user[v] = NONE;
	kernel_walk(k, k->body, visit, &s);
	for (ValueId v = 0; v < k->values.count; v++) {
		KValue *x = &k->values.at[v];
		if (x->name || x->def == NONE || kernel_stmt(k, x->def)->region == NONE)
			continue;
		reads[v] = reads_memory(&s, reads, x->def);
		s.size[v] = size_of(&s, x->def);
		bool control = kernel_op_kind(kernel_stmt(k, x->def)->op) == KIND_CONTROL;
		if (control ? is_assigned(&s, v) : needs_variable(&s, v, reads[v]))
			x->name = "value";
	}
	kernel_walk(k, k->body, keep_yielded, NULL);
	kernel_walk(k, k->body, join_carried, NULL);
	kernel_part_names(k);
}

/* What a launch gives is unpacked; many results together (kernel_names.c). */
static void name_launched(Kernel *host, StmtId id, void *data) {
	KStmt *s = kernel_stmt(host, id);
	(void)data;
	if (s->op != K_LAUNCH || s->var)
		return;
	if (s->result_count > UNPACK_MAX)
		s->name = "outputs";
	for (uint32_t i = 0; i < s->result_count && s->result_count <= UNPACK_MAX; i++) {
		KValue *x = &host->values.at[s->result + i];
		x->name = x->name ? x->name : "output";
	}
}

void program_give_variables(KProgram *p) {
	for (uint32_t i = 0; i < p->kernels.count; i++)
		give_variables(p->kernels.at[i]);
	kernel_walk(p->host, p->host->body, name_launched, NULL);
	kernel_part_names(p->host);
}
