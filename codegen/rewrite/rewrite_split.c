/* rewrite_split.c - a step of a loop becomes a function, which whatever runs the steps calls; where some of it is to
 * run ahead two: that, and the rest, which is handed what it gave.
 *
 *     loop step(j) ... {                     def step(j: int, k_win: ..., m: ...) {
 *       ...                                    ...
 *       yield m_new                            return m_new
 *     }                                      }
 *                                            loop step(j) ... {
 *                                              m_new = call step((j), k_win[...], m)
 *                                              yield m_new
 *                                            } */
#include "rewrite.h"

typedef struct Split {
	Kernel *k;
	KLoop *loop;
	StmtId stmt;
	StmtId made;         /* the call of what runs ahead; NONE */
	ValueId flag;        /* as the functions read it, which the loop passes on; NONE */
	bool used[RANK_MAX]; /* the part reads that dim's step number */
	bool *read;          /* ... and that buffer */
} Split;

/* ---- what a part reads ------------------------------------------------------------------------------------------ */

static void note_steps(Kernel *k, StmtId s, void *data) {
	Split *p = data;
	for (uint32_t i = 0; i < p->loop->rank; i++)
		p->used[i] = p->used[i] || kernel_stmt_reads(k, s, p->loop->dim[i].step);
}

/* A step that is one function takes the flag in any case. */
static bool takes_flag(const Split *p, RegionId body) {
	bool reads = !p->loop->skew;
	for (StmtId s = region_first(p->k, body); s != NONE && !reads; s = kernel_stmt(p->k, s)->next)
		reads = kernel_stmt_reads(p->k, s, p->flag);
	return p->flag != NONE && reads;
}

static void note_windows(Kernel *k, StmtId s, void *data) {
	Split *p = data;
	const KStmt *stmt = kernel_stmt(k, s);
	for (uint32_t i = 0; i < stmt->arg_count; i++)
		if (kernel_arg(k, s, i)->kind == KARG_REF)
			p->read[k->refs.at[kernel_arg(k, s, i)->ref].buffer] = true;
	for (uint32_t w = 0; stmt->op == K_LOOP && w < stmt->loop->windows.count; w++) {
		p->read[stmt->loop->windows.at[w].of] = true;
		if (stmt->loop->windows.at[w].tail != NONE)
			p->read[stmt->loop->windows.at[w].tail] = true;
	}
}

/* ---- a part ----------------------------------------------------------------------------------------------------- */

static void add(Split *p, FunctionId f, KArgs *args, ParameterKind kind, uint32_t id, KArg arg) {
	KParameter parameter = {kind, id};
	vec_push(p->k->arena, &p->k->functions.at[f].parameters, parameter);
	vec_push(p->k->arena, args, arg);
}

/* The function's parameters, and what the loop's region gives for them. */
static void add_parameters(Split *p, bool ahead, FunctionId f, const ValueId *handed, KArgs *args) {
	Kernel *k = p->k;
	const KLoop *loop = p->loop;
	for (uint32_t i = 0; i < loop->rank; i++)
		if (p->used[i])
			add(p, f, args, PARAMETER_VALUE, loop->dim[i].step, karg_int(int_value(k, loop->dim[i].step)));
	for (uint32_t i = 0; handed && i < loop->handed.count; i++)
		add(p, f, args, PARAMETER_VALUE, loop->handed.at[i].value, karg_value(handed[i]));
	for (uint32_t w = 0; w < loop->windows.count; w++)
		if (!loop->skew || p->read[loop->windows.at[w].buffer])
			add(p, f, args, PARAMETER_BUFFER, loop->windows.at[w].buffer,
			    karg_ref(kernel_ref(k, loop->windows.at[w].buffer, 0, NULL)));
	for (uint32_t i = 0; !ahead && i < loop->carried.count; i++)
		add(p, f, args, PARAMETER_VALUE, loop->carried.at[i], karg_value(loop->carried.at[i]));
	if (takes_flag(p, k->functions.at[f].body))
		add(p, f, args, PARAMETER_FLAG, p->flag, karg_value(loop->ragged));
}

static void move_statements(Split *p, bool ahead, RegionId from, RegionId to) {
	Kernel *k = p->k;
	for (StmtId s = region_first(k, from), next; s != NONE; s = next) {
		next = kernel_stmt(k, s)->next;
		bool runs_ahead = kernel_stmt(k, s)->flags & KSTMT_AHEAD;
		if (kernel_stmt(k, s)->op == K_YIELD || s == p->made || (p->loop->skew && runs_ahead != ahead))
			continue;
		kernel_stmt(k, s)->flags &= (uint16_t)~KSTMT_AHEAD;
		kernel_move(k, s, to);
	}
}

/* A function before the loop, of the statements of a part; its call, before the yield in the loop's region. */
static StmtId make_part(Split *p, bool ahead, const ValueId *handed, uint32_t count, const ValueId *results) {
	Kernel *k = p->k;
	RegionId source = kernel_stmt(k, p->stmt)->body;
	const char *name = ahead ? arena_printf(k->arena, "%s_ahead", p->loop->name) : p->loop->name;
	FunctionId f = kernel_function(k, FUNCTION_PLAIN, name);
	StmtId def = kernel_insert_before(k, p->stmt, K_DEF, 0, NULL, 0, NULL);
	RegionId body = kernel_define(k, def, f);
	KArgs given = {0}, args = {0};
	kernel_stmt(k, def)->from = kernel_stmt(k, p->stmt)->from;
	move_statements(p, ahead, source, body);
	StmtId yield = k->regions.at[source].last;
	for (uint32_t i = 0; i < count; i++)
		vec_push(k->arena, &given, ahead ? karg_value(results[i]) : *kernel_arg(k, yield, i));
	if (count)
		kernel_append(k, body, K_RETURN, count, given.at, 0, NULL);
	memset(p->used, 0, sizeof p->used);
	kernel_walk(k, body, note_steps, p);
	if (p->loop->skew) {
		p->read = arena_array(k->arena, k->buffers.count, sizeof *p->read);
		kernel_walk(k, body, note_windows, p);
	}
	add_parameters(p, ahead, f, handed, &args);
	StmtId call = kernel_insert_before(k, yield, K_CALL, args.count, args.at, 0, NULL);
	kernel_stmt(k, call)->function = f;
	for (uint32_t i = 0; i < count; i++) {
		ValueId like = ahead ? results[i] : p->loop->carried.at[i];
		ValueId v = kernel_result_like(k, call, like, value_name(k, like));
		k->values.at[v].as = like;
	}
	return call;
}

/* The functions have a flag of their own. */
static ValueId own_flag(Kernel *k, const KLoop *loop) {
	if (loop->ragged == NONE)
		return NONE;
	uint32_t count = k->values.count;
	KValue flag = k->values.at[loop->ragged];
	ValueId *map = kernel_value_map(k);
	map[loop->ragged] = kernel_value(k, KTYPE_FLAG, DTYPE_BOOL, 0, NULL, flag.name ? flag.name : flag.var);
	k->values.at[map[loop->ragged]].as = loop->ragged;
	kernel_replace_values(k, map, count);
	return map[loop->ragged];
}

static void split(Kernel *k, StmtId s) {
	Split p = {.k = k, .loop = kernel_stmt(k, s)->loop, .stmt = s, .made = NONE};
	if (loop_is_split(k, s))
		return;
	p.flag = own_flag(k, p.loop);
	uint32_t handed = p.loop->handed.count, carried = p.loop->carried.count;
	ValueId *values = arena_array(k->arena, handed + 1, sizeof *values), *given = NULL;
	for (uint32_t i = 0; i < handed; i++) {
		values[i] = p.loop->handed.at[i].value;
		if (!k->values.at[values[i]].name) /* a parameter has a variable */
			k->values.at[values[i]].name = "value";
	}
	if (p.loop->skew) {
		StmtId call = make_part(&p, true, NULL, handed, values);
		p.made = call;
		given = arena_array(k->arena, handed + 1, sizeof *given);
		for (uint32_t i = 0; i < handed; i++)
			given[i] = kernel_stmt(k, call)->result + i;
	}
	StmtId call = make_part(&p, false, given, carried, NULL);
	StmtId yield = k->regions.at[kernel_stmt(k, s)->body].last;
	for (uint32_t i = 0; i < carried; i++)
		*kernel_arg(k, yield, i) = karg_value(kernel_stmt(k, call)->result + i);
	for (uint32_t i = 0; i < handed && given; i++)
		p.loop->handed.at[i].value = given[i];
	loop_add_tail(k, s);
}

void rewrite_split(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t i = 0; i < loops.count; i++)
		split(k, loops.at[i]);
}
