/* rewrite_pairs.c - two steps of a skewed loop stand in one iteration, so that the compiler has more to schedule at a
 * time. What the first hands on has scratch of its own, `odd`, so that neither waits for room; what is carried in
 * scratch besides goes through it once for both.
 *
 *     loop step(j) ... carry (m = %1 in m_ref,       loop step(i) ... carry (m = %1 in m_ref,
 *                s: ... = _ in s_ref odd t_ref) {               s: ... = _ in s_ref) {
 *       dim j steps (6) ...                            dim i steps (6) ...
 *       runs (5)                                       runs (2)
 *       pairs                                          ...
 *       ...                                            j = int (i * 2)
 *                                                      m_1 = let m
 *                                                      j_1 = int (j + 1)
 *       s_next = call step_ahead(.. at (j + 1))        s_next = call step_ahead(.. at (j_1))
 *                                                      store t_ref[...], s_next
 *       m = call step(s, .. at (j), m)                 m_1 = call step(s, .. at (j), m_1)
 *       s = let s_next                                 s = call step_ahead(.. at (j_1 + 1))
 *                                                      %2 = load t_ref[...]
 *                                                      m_1 = call step(%2, .. at (j_1), m_1)
 *                                                      m = let m_1
 *       yield m, s                                     yield m, s
 *     }                                              }
 *
 * An even number of steps leaves two of them to `behind`. */
#include "rewrite.h"

typedef struct Pairs {
	Kernel *k;
	KLoop *loop;
	StmtId ahead, rest; /* the calls of the one step */
	uint32_t results;   /* so many of the carried values come out of the loop; the others are handed on */
	ValueId *now;       /* by carried value: what it is where statements go */
} Pairs;

static uint32_t handed(const Pairs *p) { return p->loop->carried.count - p->results; }

static KArg whole(const Pairs *p, BufferId b) { return karg_ref(kernel_ref(p->k, b, 0, NULL)); }

/* A copy of a call, of `step`; where it says that of the step behind it, of `next`. */
static StmtId put_call(const Pairs *p, RegionId r, StmtId call, IntId step, IntId next) {
	Kernel *k = p->k;
	IntId behind = int_binary(k, INT_ADD, int_value(k, p->loop->dim[0].step), int_const(k, 1));
	StmtId s = loop_call_at(k, p->loop, call, r, step);
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg *x = kernel_arg(k, s, i);
		const KArg *old = kernel_arg(k, call, i);
		for (uint32_t c = 0; x->kind == KARG_VALUE && c < p->loop->carried.count; c++)
			if (old->value == p->loop->carried.at[c])
				x->value = p->now[c];
		if (x->kind == KARG_INT && old->index == behind)
			x->index = next;
		if (x->kind == KARG_REF && k->refs.at[old->ref].at == behind)
			k->refs.at[x->ref].at = next;
	}
	return s;
}

/* What runs ahead of an odd step: it has scratch of its own for what it gives. Returns that, by handed value. */
static ValueId put_ahead_of_odd(const Pairs *p, RegionId r, IntId step, IntId odd) {
	Kernel *k = p->k;
	StmtId s = put_call(p, r, p->ahead, step, odd);
	ValueId first = kernel_stmt(k, s)->result;
	for (uint32_t i = 0; i < handed(p); i++) {
		value_called_after(k, first + i, p->loop->carried.at[p->results + i], "next");
		if (p->loop->odd.at[p->results + i] == NONE)
			continue;
		k->values.at[first + i].name = NULL;
		kernel_append(k, r, K_STORE, 2,
		              (const KArg[]){whole(p, p->loop->odd.at[p->results + i]), karg_value(first + i)}, 0,
		              NULL);
	}
	return first;
}

static StmtId put_rest(Pairs *p, RegionId r, IntId step) {
	StmtId s = put_call(p, r, p->rest, step, NONE);
	for (uint32_t c = 0; c < p->results; c++)
		p->now[c] = kernel_stmt(p->k, s)->result + c;
	return s;
}

/* An odd step reads what was handed to it. */
static void read_odd(Pairs *p, RegionId r, ValueId first) {
	Kernel *k = p->k;
	for (uint32_t i = 0; i < handed(p); i++) {
		BufferId odd = p->loop->odd.at[p->results + i];
		ValueId *now = &p->now[p->results + i];
		*now = first + i;
		if (odd == NONE)
			continue;
		KArg ref = whole(p, odd);
		*now = kernel_result_like(k, kernel_append(k, r, K_LOAD, 1, &ref, 0, NULL), first + i, NULL);
	}
}

/* What is carried in scratch besides what is handed: read into a variable, or to be stored again. */
static void pass_scratch(Pairs *p, RegionId r, bool named) {
	Kernel *k = p->k;
	for (uint32_t c = 0; c < p->results; c++) {
		if (p->loop->place.at[c] == NONE)
			continue;
		KArg x = karg_value(p->now[c]);
		ValueId carried = p->loop->carried.at[c];
		StmtId let = kernel_append(k, r, K_LET, 1, &x, 0, NULL);
		p->now[c] = kernel_result_like(k, let, carried, named ? value_name(p->k, carried) : NULL);
		k->values.at[p->now[c]].as = named ? carried : NONE;
	}
}

static void start(Pairs *p) {
	for (uint32_t c = 0; c < p->loop->carried.count; c++)
		p->now[c] = p->loop->carried.at[c];
}

static void put_pair(Pairs *p, RegionId r, ValueId number) {
	Kernel *k = p->k;
	ValueId even = p->loop->dim[0].step;
	IntId step = int_value(k, even);
	KArg twice = karg_int(int_binary(k, INT_MUL, int_value(k, number), int_const(k, 2)));
	KArg plus = karg_int(int_binary(k, INT_ADD, step, int_const(k, 1)));
	KArgs yield = {0};
	StmtId doubled = kernel_append(k, r, K_INT, 1, &twice, 0, NULL);
	start(p);
	pass_scratch(p, r, true);
	StmtId second = kernel_append(k, r, K_INT, 1, &plus, 0, NULL);
	IntId odd = int_value(k, kernel_result_like(k, second, even, value_name(p->k, even)));
	ValueId given = put_ahead_of_odd(p, r, step, odd);
	put_rest(p, r, step);
	StmtId next = put_call(p, r, p->ahead, odd, int_binary(k, INT_ADD, odd, int_const(k, 1)));
	for (uint32_t i = 0; i < handed(p); i++) {
		ValueId v = kernel_stmt(k, next)->result + i, carried = p->loop->carried.at[p->results + i];
		k->values.at[v].name = value_name(p->k, carried);
		k->values.at[v].after = NONE;
		k->values.at[v].as = carried;
	}
	read_odd(p, r, given);
	put_rest(p, r, odd);
	pass_scratch(p, r, false);
	for (uint32_t c = 0; c < p->loop->carried.count; c++)
		vec_push(k->arena, &yield,
		         karg_value(c < p->results ? p->now[c] : kernel_stmt(k, next)->result + (c - p->results)));
	kernel_append(k, r, K_YIELD, yield.count, yield.at, 0, NULL);
	loop_count_by(k, p->loop, number, doubled);
}

/* Behind the loop: the last step, or the last two, which were a pair if the second had anything to compute ahead. Of
 * steps that are counted only at run time there is an even number. */
static void put_last(Pairs *p, RegionId r) {
	Kernel *k = p->k;
	int64_t known;
	IntId steps = p->loop->dim[0].steps, last = int_binary(k, INT_SUB, steps, int_const(k, 1));
	if (int_is_const(k, steps, &known) && known % 2)
		return;
	while (region_first(k, r) != NONE)
		kernel_remove(k, region_first(k, r));
	IntId even = int_binary(k, INT_SUB, steps, int_const(k, 2));
	start(p);
	ValueId given = put_ahead_of_odd(p, r, even, last);
	loop_set_flag(k, p->loop, put_rest(p, r, even), true);
	read_odd(p, r, given);
	loop_set_flag(k, p->loop, put_rest(p, r, last), true);
	KArgs results = {0};
	for (uint32_t c = 0; c < p->results; c++)
		vec_push(k->arena, &results, karg_value(p->now[c]));
	kernel_append(k, r, K_YIELD, results.count, results.at, 0, NULL);
}

/* The ops of a region from `s` on are these, and lets before its yield. */
static bool has_calls(const Kernel *k, StmtId s, uint32_t calls) {
	for (; s != NONE && kernel_stmt(k, s)->op == K_CALL; s = kernel_stmt(k, s)->next)
		calls--;
	while (s != NONE && kernel_stmt(k, s)->op == K_LET)
		s = kernel_stmt(k, s)->next;
	return calls == 0 && s != NONE && kernel_stmt(k, s)->op == K_YIELD;
}

/* The loop is as rewrite_skew() makes it. Its calls, and its region is empty. */
static bool take_calls(Pairs *p, RegionId r) {
	Kernel *k = p->k;
	if (p->loop->before == NONE || p->loop->behind == NONE || !has_calls(k, region_first(k, r), 2) ||
	    !has_calls(k, region_first(k, p->loop->behind), 1))
		return false;
	p->ahead = region_first(k, r);
	p->rest = kernel_stmt(k, p->ahead)->next;
	if (kernel_stmt(k, p->ahead)->result_count != handed(p) || kernel_stmt(k, p->rest)->result_count != p->results)
		return false;
	while (region_first(k, r) != NONE)
		kernel_remove(k, region_first(k, r));
	return true;
}

static void pair(Kernel *k, StmtId s) {
	KLoop *loop = kernel_stmt(k, s)->loop;
	RegionId body = kernel_stmt(k, s)->body;
	Pairs p = {.k = k, .loop = loop, .results = kernel_stmt(k, s)->result_count};
	if (!loop->paired || !take_calls(&p, body))
		return;
	p.now = arena_array(k->arena, loop->carried.count + 1, sizeof *p.now);
	ValueId number = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "i");
	k->values.at[number].exact = true;
	put_last(&p, loop->behind);
	put_pair(&p, body, number);
	loop->paired = false;
	loop->runs =
		int_binary(k, INT_DIV, int_binary(k, INT_SUB, loop->dim[0].steps, int_const(k, 1)), int_const(k, 2));
	for (uint32_t c = 0; c < loop->odd.count; c++)
		loop->odd.at[c] = NONE;
}

void rewrite_pairs(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t i = 0; i < loops.count; i++)
		pair(k, loops.at[i]);
}
