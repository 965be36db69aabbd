/* rewrite.c - the list of rewrites, and the small ones. */
#include "rewrite.h"
#include "codegen/kernel_text/kernel_text.h"

const Rewrite *kernel_rewrites(void) {
	static const Rewrite all[] = {
#define REWRITE(name, about) {#name, about, rewrite_##name},
#include "rewrites.def"
#undef REWRITE
		{NULL, NULL, NULL}};
	return all;
}

static bool is_named(const char *name, const char *const *names, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return names == NULL;
}

const Rewrite *rewrite_find(const char *name) {
	for (const Rewrite *r = kernel_rewrites(); r->name; r++)
		if (strcmp(r->name, name) == 0)
			return r;
	return NULL;
}

bool kernels_rewrite(KProgram *p, const char *const *names, uint32_t count, Diag *verify) {
	for (const Rewrite *r = kernel_rewrites(); r->name; r++) {
		if (!is_named(r->name, names, count))
			continue;
		if (r->run == rewrite_ring)
			ring_look_at_launches(p);
		if (r->run == rewrite_lines)
			lines_look_at_launches(p);
		for (uint32_t i = 0; i < p->kernels.count; i++)
			r->run(p->kernels.at[i]);
		if (r->run == rewrite_float16)
			launch_bits(p);
		if (r->run == rewrite_lines)
			launch_lines(p);
		if (r->run == rewrite_ring)
			ring_set_launches(p);
		if (verify && !program_verify_kernels(p, verify))
			return false;
	}
	return true;
}

/* As kernel_walk() goes, without a call for each statement: most rewrites ask, and most find nothing to do. */
static void find_stmts(Kernel *k, RegionId r, uint16_t op, StmtIds *found) {
	RegionId regions[STMT_REGIONS_MAX];
	for (StmtId s = region_first(k, r); s != NONE; s = kernel_stmt(k, s)->next) {
		const KStmt *stmt = kernel_stmt(k, s);
		if (stmt->op == op)
			vec_push(k->arena, found, s);
		uint32_t count = stmt->body == NONE && stmt->op != K_DEF ? 0 : kernel_regions(k, s, regions);
		for (uint32_t i = 0; i < count; i++)
			find_stmts(k, regions[i], op, found);
	}
}

StmtIds kernel_stmts_of(Kernel *k, uint16_t op) {
	StmtIds found = {0};
	find_stmts(k, k->body, op, &found);
	return found;
}

static bool yields_all(const Kernel *k, StmtId yield, StmtId call) {
	const KStmt *s = kernel_stmt(k, yield);
	bool all = s->op == K_YIELD && s->arg_count == kernel_stmt(k, call)->result_count;
	for (uint32_t i = 0; all && i < s->arg_count; i++)
		all = kernel_arg(k, yield, i)->kind == KARG_VALUE &&
		      kernel_arg(k, yield, i)->value == kernel_stmt(k, call)->result + i;
	return all;
}

bool loop_calls(const Kernel *k, StmtId loop, StmtId *ahead, StmtId *step) {
	StmtId s = region_first(k, kernel_stmt(k, loop)->body);
	*ahead = *step = NONE;
	for (; s != NONE && kernel_stmt(k, s)->op == K_CALL && *ahead == NONE; s = kernel_stmt(k, s)->next) {
		*ahead = *step;
		*step = s;
	}
	return *step != NONE && s != NONE && yields_all(k, s, *step);
}

bool loop_is_split(const Kernel *k, StmtId loop) {
	StmtId ahead, step;
	return kernel_stmt(k, loop)->loop->runs != NONE || loop_calls(k, loop, &ahead, &step);
}

StmtId loop_call_at(Kernel *k, const KLoop *loop, StmtId call, RegionId to, IntId at) {
	KArgs args = {0};
	ValueId step = loop->dim[0].step;
	KStmt old = *kernel_stmt(k, call);
	for (uint32_t i = 0; i < old.arg_count; i++) {
		KArg x = *kernel_arg(k, call, i);
		if (x.kind == KARG_INT)
			x.index = int_substitute(k, x.index, step, at);
		if (x.kind == KARG_REF) {
			KRef ref = k->refs.at[x.ref];
			x.ref = kernel_ref_at(k, ref.buffer, ref.at == NONE ? at : int_substitute(k, ref.at, step, at));
		}
		vec_push(k->arena, &args, x);
	}
	StmtId s = kernel_append(k, to, K_CALL, args.count, args.at, 0, NULL);
	kernel_stmt(k, s)->function = old.function;
	for (uint32_t i = 0; i < old.result_count; i++) {
		ValueId like = old.result + i, as = k->values.at[like].as;
		ValueId v = kernel_result_like(k, s, like, value_name(k, like));
		k->values.at[v].as = as != NONE ? as : like;
	}
	return s;
}

void loop_yield(Kernel *k, RegionId r, StmtId call) {
	KArgs results = {0};
	for (uint32_t i = 0; i < kernel_stmt(k, call)->result_count; i++)
		vec_push(k->arena, &results, karg_value(kernel_stmt(k, call)->result + i));
	kernel_append(k, r, K_YIELD, results.count, results.at, 0, NULL);
}

void loop_read_results(Kernel *k, StmtId s, StmtId of, ValueId first) {
	ValueId old = kernel_stmt(k, of)->result;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg *x = kernel_arg(k, s, i);
		if (x->kind == KARG_VALUE && x->value - old < kernel_stmt(k, of)->result_count)
			x->value += first - old;
	}
}

void loop_count_by(Kernel *k, KLoop *loop, ValueId by, StmtId number) {
	ValueId old = loop->dim[0].step;
	kernel_stmt(k, number)->result = old;
	kernel_stmt(k, number)->result_count = 1;
	k->values.at[old].def = number;
	for (uint32_t w = 0; w < loop->windows.count; w++) {
		KWindow *win = &loop->windows.at[w];
		uint32_t rank = k->buffers.at[win->of].rank;
		IntId *index = arena_array(k->arena, KDIM_MAX, sizeof *index);
		IntId *start = arena_array(k->arena, KDIM_MAX, sizeof *start);
		for (uint32_t d = 0; d < rank; d++) {
			index[d] = int_substitute(k, win->index[d], old, int_value(k, by));
			start[d] = int_substitute(k, win->start[d], old, int_value(k, by));
		}
		win->index = index;
		win->start = start;
	}
	loop->dim[0].step = by;
}

KArg tile_before(Kernel *k, StmtId before, KValue like, uint16_t op, Dtype dtype, uint32_t count, const KArg *args,
                 int64_t axis) {
	int64_t *ints = arena_array(k->arena, 1, sizeof *ints);
	*ints = axis;
	StmtId s = kernel_insert_before(k, before, op, count, args, axis >= 0, ints);
	kernel_stmt(k, s)->from = kernel_stmt(k, before)->from;
	ValueId v = kernel_result(k, s, KTYPE_TILE, dtype, like.rank, like.shape, NULL);
	k->values.at[v].layout = like.layout;
	return karg_value(v);
}

void value_called_after(Kernel *k, ValueId v, ValueId like, const char *suffix) {
	k->values.at[v].after = like;
	k->values.at[v].suffix = suffix;
	k->values.at[v].as = NONE;
}

bool loop_static_steps(const Kernel *k, const KLoop *loop, int64_t *steps) {
	int64_t dim;
	*steps = 1;
	for (uint32_t i = 0; i < loop->rank; i++) {
		if (!int_is_const(k, loop->dim[i].steps, &dim))
			return false;
		*steps *= dim;
	}
	return true;
}

bool function_computes(const Kernel *k, FunctionId f) {
	for (StmtId s = region_first(k, k->functions.at[f].body); s != NONE; s = kernel_stmt(k, s)->next) {
		const KStmt *stmt = kernel_stmt(k, s);
		KOpKind kind = kernel_op_kind(stmt->op);
		if (kind != KIND_PURE && stmt->op != K_LOAD && stmt->op != K_RETURN)
			return false;
		if (stmt->op != K_RETURN && stmt->result_count != 1)
			return false;
	}
	StmtId last = region_last(k, k->functions.at[f].body);
	return last != NONE && kernel_stmt(k, last)->op == K_RETURN;
}

void rewrite_tidy(Kernel *k) { kernel_drop_unread(k); }

bool is_whole_block(const Kernel *k, KArg x) {
	const KRef *ref = &k->refs.at[x.ref];
	const KBuffer *b = &k->buffers.at[ref->buffer];
	for (uint32_t d = 0; d < ref->rank; d++)
		if (ref->dim[d].kind != KDIM_ALL)
			return false;
	return b->space == KSPACE_VMEM && b->rank == 2 && b->role != BUFFER_PARAMETER && !b->held;
}

BufferId stmt_buffer(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	bool refers = stmt->arg_count && kernel_arg(k, s, 0)->kind == KARG_REF;
	return refers ? k->refs.at[kernel_arg(k, s, 0)->ref].buffer : NONE;
}

bool region_changes_what_it_loads(const Kernel *k, RegionId r) {
	bool *stored = arena_array(k->arena, k->buffers.count + 1, sizeof *stored), changes = false;
	for (StmtId s = region_first(k, r); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_STORE)
			stored[stmt_buffer(k, s)] = true;
	for (StmtId s = region_first(k, r); s != NONE; s = kernel_stmt(k, s)->next)
		changes = changes ||
		          (kernel_stmt(k, s)->op != K_STORE && stmt_buffer(k, s) != NONE && stored[stmt_buffer(k, s)]);
	return changes;
}

ValueId result_part(Kernel *k, StmtId s, ValueId of, const int64_t *shape, const ValueId *now) {
	const KValue x = k->values.at[of];
	ValueId v = kernel_result(k, s, x.type, x.dtype, x.rank, shape, x.name ? x.name : x.var);
	KValue *part = &k->values.at[v];
	part->layout = x.layout;
	part->suffix = x.suffix;
	part->cut = x.cut;
	part->exact = x.exact;
	part->after = x.after != NONE && now[x.after] != NONE ? now[x.after] : x.after;
	return v;
}

KFor *for_slices(Kernel *k, const char *step, int64_t size, int64_t width, IntId *start) {
	KFor *each = arena_alloc(k->arena, sizeof *each);
	*each = (KFor){.step = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, step),
	               .end = int_const(k, size / width),
	               .slice = width};
	*start = int_binary(k, INT_MUL, int_value(k, each->step), int_const(k, width));
	return each;
}

bool is_plain_matmul(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	if (stmt->op != K_DOT || stmt->arg_count != 2 || stmt->ints[0] != 1 || stmt->ints[1] != 0)
		return false;
	const KValue *x = &k->values.at[stmt->result];
	return x->rank == 2 && x->dtype == DTYPE_F32;
}

bool is_loaded_block(const Kernel *k, RegionId r, KArg x) {
	StmtId def = kernel_def_of(k, x);
	return def != NONE && kernel_stmt(k, def)->region == r && kernel_stmt(k, def)->op == K_LOAD &&
	       is_whole_block(k, *kernel_arg(k, def, 0));
}
