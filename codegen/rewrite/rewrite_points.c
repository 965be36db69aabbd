/* rewrite_points.c - what runs ahead of a loop's first step runs at the grid point before, of that point's own blocks
 * (points.c decides where): beside its last step, where before the loop nothing could. Only the first point runs it
 * before its loop.
 *
 *     loop step(j) ... carry (...) {                       def step_ahead_next() { ... k_next_ref[...] ... }
 *       runs (7)                                           loop step(j) ... carry (...) {
 *       window k_win: ...                                    runs (7)
 *       next k_next_ref for k_win                            window k_win: ...
 *       before {                                             once
 *         s = call step_ahead(k_win[...] at (0))             before { ... }
 *         yield s                                            behind {
 *       }                                                      s_next = call step_ahead_next()
 *       behind {                                               m = call step(s, .. at (7), m)
 *         m = call step(s, .. at (7), m)                       store s_ref[...], s_next
 *         yield m                                              yield m
 *       }                                                    }
 *       ...                                                  ...
 *     }                                                    } */
#include "rewrite.h"

IntId grid_first_point(Kernel *k) {
	IntId all = NONE;
	for (uint32_t g = 0; g < k->grid.count; g++)
		if (k->grid.at[g].steps > 1)
			all = all == NONE ? int_first(k, g) : int_binary(k, INT_AND, all, int_first(k, g));
	return all;
}

typedef struct Points {
	Kernel *k;
	KLoop *loop;
	StmtId stmt;
	StmtId ahead; /* the call before the loop */
	RegionId to;  /* of the function that is made */
	BufferId *by; /* by buffer: the block that stands for it there; NONE */
	ValueId *now; /* by value of what is copied, the first `count`: what it is there; NONE */
	uint32_t count;
} Points;

/* The block that stands for a buffer; NONE: nothing does. */
static BufferId next_for(const Points *p, BufferId b) {
	for (uint32_t i = 0; i < p->loop->next.count; i++)
		if (p->loop->next.at[i].of == b)
			return p->loop->next.at[i].by;
	return NONE;
}

static void read_next(const Points *p, StmtId s) {
	Kernel *k = p->k;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg x = *kernel_arg(k, s, i);
		BufferId by = x.kind == KARG_REF ? p->by[k->refs.at[x.ref].buffer] : NONE;
		if (by == NONE)
			continue;
		KRef ref = k->refs.at[x.ref];
		*kernel_arg(k, s, i) = karg_ref(kernel_ref(k, by, ref.rank, ref.dim));
	}
}

/* It computes or loads, and no more. */
static bool is_plain(const Kernel *k, StmtId s) {
	uint16_t op = kernel_stmt(k, s)->op;
	return op == K_LOAD || (kernel_op_kind(op) == KIND_PURE && kernel_stmt(k, s)->body == NONE);
}

/* A plain statement of the kernel, ahead of the loop, which makes what the loop reads; NONE. */
static StmtId outside(const Points *p, KArg x) {
	const Kernel *k = p->k;
	StmtId def = kernel_def_of(k, x);
	return def != NONE && kernel_stmt(k, def)->region == k->body && is_plain(k, def) ? def : NONE;
}

static void copy_here(Points *p, StmtId s) {
	Kernel *k = p->k;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg x = *kernel_arg(k, s, i);
		if (outside(p, x) != NONE && x.value < p->count && p->now[x.value] == NONE)
			copy_here(p, outside(p, x));
	}
	StmtId copy = kernel_copy(k, p->to, s, p->now, p->count, true);
	read_next(p, copy);
	for (uint32_t i = 0; i < kernel_stmt(k, s)->result_count; i++)
		k->values.at[kernel_stmt(k, copy)->result + i].as = kernel_stmt(k, s)->result + i;
}

/* The function once more, of the next point's blocks: of what it takes the windows among them are no parameters. */
static FunctionId define_next(Points *p, KArgs *args) {
	Kernel *k = p->k;
	FunctionId of = kernel_stmt(k, p->ahead)->function;
	FunctionId f = kernel_function(k, FUNCTION_PLAIN, arena_printf(k->arena, "%s_next", k->functions.at[of].name));
	StmtId def = kernel_insert_before(k, p->stmt, K_DEF, 0, NULL, 0, NULL);
	RegionId body = kernel_define(k, def, f);
	kernel_stmt(k, def)->from = kernel_stmt(k, p->stmt)->from;
	p->to = body;
	p->by = arena_array(k->arena, k->buffers.count, sizeof *p->by);
	for (BufferId b = 0; b < k->buffers.count; b++)
		p->by[b] = next_for(p, b);
	p->count = k->values.count;
	p->now = kernel_value_map(k);
	for (uint32_t i = 0; i < k->functions.at[of].parameters.count; i++) {
		KParameter x = k->functions.at[of].parameters.at[i];
		KArg given = i < kernel_stmt(k, p->ahead)->arg_count ? *kernel_arg(k, p->ahead, i)
		                                                     : (KArg){.kind = KARG_NONE};
		if (x.kind == PARAMETER_BUFFER && given.kind == KARG_REF)
			p->by[x.id] = next_for(p, k->refs.at[given.ref].buffer);
		if (x.kind == PARAMETER_BUFFER && p->by[x.id] != NONE)
			continue;
		if (x.kind != PARAMETER_BUFFER)
			x.id = p->now[x.id] = kernel_value_like(k, x.id);
		vec_push(k->arena, &k->functions.at[f].parameters, x);
		if (given.kind != KARG_NONE)
			vec_push(k->arena, args, given);
	}
	for (StmtId s = region_first(k, k->functions.at[of].body); s != NONE; s = kernel_stmt(k, s)->next)
		copy_here(p, s);
	StmtId end = region_last(k, body);
	KArgs given = {0};
	for (uint32_t i = 0; i < kernel_stmt(k, end)->arg_count; i++)
		vec_push(k->arena, &given, *kernel_arg(k, end, i));
	for (uint32_t i = 0; i < p->loop->kept.count; i++)
		vec_push(k->arena, &given, karg_value(p->now[p->loop->kept.at[i].value]));
	kernel_set_args(k, end, given.count, given.at);
	return f;
}

/* What is kept is found in scratch: only the first point makes it. */
static void find_kept(Points *p) {
	Kernel *k = p->k;
	ValueId *map = kernel_value_map(k);
	uint32_t count = k->values.count;
	for (uint32_t i = 0; i < p->loop->kept.count; i++) {
		const KHanded *kept = &p->loop->kept.at[i];
		StmtId def = k->values.at[kept->value].def, next = kernel_stmt(k, def)->next;
		StmtId when = kernel_insert_when(k, next, grid_first_point(k), "first");
		KArg place = karg_ref(kernel_ref(k, kept->scratch, 0, NULL));
		p->to = kernel_stmt(k, when)->body;
		p->count = k->values.count;
		p->now = kernel_value_map(k);
		for (BufferId b = 0; b < k->buffers.count; b++)
			p->by[b] = NONE;
		copy_here(p, def);
		kernel_append(k, p->to, K_STORE, 2, (const KArg[]){place, karg_value(p->now[kept->value])}, 0, NULL);
		StmtId load = kernel_insert_before(k, next, K_LOAD, 1, &place, 0, NULL);
		ValueId found = kernel_result_like(k, load, kept->value, value_name(k, kept->value));
		k->values.at[found].as = kept->value;
		map[kept->value] = found;
	}
	kernel_replace_values(k, map, count);
}

/* Of what is handed on, the first. */
static uint32_t handed(const Points *p) { return kernel_stmt(p->k, p->stmt)->result_count; }

/* Its scratch is still to be read by the call. */
static bool reads_handed(const Points *p, StmtId call) {
	const Kernel *k = p->k;
	for (uint32_t i = 0; i < kernel_stmt(k, call)->arg_count; i++) {
		KArg x = *kernel_arg(k, call, i);
		for (uint32_t c = handed(p); c < p->loop->carried.count; c++)
			if (x.kind == KARG_VALUE && x.value == p->loop->carried.at[c])
				return true;
	}
	return false;
}

static StmtId last_call(const Kernel *k, RegionId r) {
	StmtId s = region_last(k, r);
	while (s != NONE && kernel_stmt(k, s)->op != K_CALL)
		s = kernel_stmt(k, s)->prev;
	return s;
}

/* What the call gives goes to scratch, before a statement. */
static void put_stores(const Points *p, StmtId call, StmtId before) {
	Kernel *k = p->k;
	for (uint32_t i = 0; i < kernel_stmt(k, call)->result_count; i++) {
		uint32_t c = handed(p) + i;
		BufferId to = c < p->loop->carried.count ? p->loop->place.at[c]
		                                         : p->loop->kept.at[c - p->loop->carried.count].scratch;
		RefId place = kernel_ref(k, to, 0, NULL);
		KArg x = karg_value(kernel_stmt(k, call)->result + i);
		kernel_insert_before(k, before, K_STORE, 2, (const KArg[]){karg_ref(place), x}, 0, NULL);
	}
}

/* The loop is as rewrite_skew() and rewrite_pairs() make it, and all that is handed on lies in scratch. */
static bool fits(Points *p) {
	const Kernel *k = p->k;
	const KLoop *loop = p->loop;
	bool all = loop->next.count > 0 && loop->before != NONE && loop->behind != NONE;
	for (uint32_t c = handed(p); all && c < loop->carried.count; c++)
		all = loop->place.at[c] != NONE;
	for (uint32_t i = 0; i < loop->kept.count; i++)
		all = all && outside(p, karg_value(loop->kept.at[i].value)) != NONE;
	p->ahead = all ? region_first(k, loop->before) : NONE;
	all = all && kernel_stmt(k, p->ahead)->op == K_CALL && last_call(k, loop->behind) != NONE &&
	      kernel_stmt(k, p->ahead)->result_count == loop->carried.count - handed(p);
	return all && function_computes(k, kernel_stmt(k, p->ahead)->function);
}

static void give_to_next(Kernel *k, StmtId s) {
	Points p = {.k = k, .loop = kernel_stmt(k, s)->loop, .stmt = s};
	KArgs args = {0};
	if (!fits(&p))
		return;
	FunctionId f = define_next(&p, &args);
	StmtId last = last_call(k, p.loop->behind), before = last;
	bool waits = reads_handed(&p, last);
	while (!waits && kernel_stmt(k, before)->prev != NONE &&
	       kernel_stmt(k, kernel_stmt(k, before)->prev)->op == K_LOAD)
		before = kernel_stmt(k, before)->prev; /* what the call loads stands with it */
	StmtId call = kernel_insert_before(k, before, K_CALL, args.count, args.at, 0, NULL);
	kernel_stmt(k, call)->function = f;
	for (uint32_t i = 0; i < kernel_stmt(k, p.ahead)->result_count; i++) {
		ValueId like = kernel_stmt(k, p.ahead)->result + i;
		ValueId v = kernel_result_like(k, call, like, waits ? value_name(k, like) : NULL);
		if (waits)
			value_called_after(k, v, p.loop->carried.at[handed(&p) + i], "next");
	}
	for (uint32_t i = 0; i < p.loop->kept.count; i++)
		kernel_result_like(k, call, p.loop->kept.at[i].value,
		                   waits ? value_name(k, p.loop->kept.at[i].value) : NULL);
	put_stores(&p, call, waits ? kernel_stmt(k, last)->next : before);
	find_kept(&p);
	p.loop->kept.count = 0;
	p.loop->next.count = 0;
	p.loop->once = true;
}

void rewrite_points(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t i = 0; i < loops.count; i++)
		give_to_next(k, loops.at[i]);
}
