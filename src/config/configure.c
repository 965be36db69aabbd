/* configure.c - resolves the configuration: the size of every block and the value of every expression.
 *
 * A block's size may be an expression over other blocks, and a reduction's is its extent; so blocks and expressions
 * form one graph of dependencies. It is evaluated depth first with an explicit stack, each expression once. */
#include "config.h"
#include "default_blocks.h"

/* Where one block's size comes from: a number, or an expression (for a default: of its extent). */
typedef struct BlockSource {
	int64_t number; /* 0: see `from` */
	ExprId from;    /* NONE: a default for an unknown extent */
	bool is_default;
} BlockSource;

typedef struct Resolver {
	Module *m;
	Diag *d;
	BlockSource *source;  /* by BlockId */
	const BlockUse *uses; /* by BlockId, where there are defaults */
	uint8_t *state;       /* by ExprId: 0 new, 1 on the current path, 2 done */
	VEC(ExprId) stack;
} Resolver;

/* What a sweep laid down comes from no document. */
Place config_list_place(Diag *d, ConfigOrigin origin, uint32_t index) {
	if (index == NONE || !origin.pointer)
		return (Place){.source = origin.source, .pointer = origin.pointer};
	return diag_place(d, origin.source, "%s/%u", origin.pointer, index);
}

/* ---- where sizes come from -------------------------------------------------------------------------------------- */

/* `: tile_m, tile_n`, of those that the configuration chooses; nothing if there are none. */
static const char *chosen_names(Module *m) {
	Text names;
	text_init(&names, m->arena);
	text_put(&names, "");
	for (BlockId b = 0; b < m->blocks.count; b++)
		if (block_is_chosen(&m->blocks.at[b]))
			text_printf(&names, "%s%s", names.length ? ", " : ": ", m->blocks.at[b].name);
	return names.at;
}

static void check_block_count(Module *m, Diag *d) {
	const ConfigList *list = &m->config.block_sizes;
	uint32_t count = 0;
	for (BlockId b = 0; b < m->blocks.count; b++)
		count += block_is_chosen(&m->blocks.at[b]);
	if (list->set && list->values.count != count)
		diag_error(d, config_list_place(d, list->origin, NONE), "config-count", NULL,
		           "block_sizes has %u value%s, but %u %s to be chosen%s", list->values.count,
		           list->values.count == 1 ? "" : "s", count, count == 1 ? "is" : "are", chosen_names(m));
}

static void check_reduction_count(Module *m, Diag *d) {
	const ConfigList *list = &m->config.reduction_loops;
	uint32_t count = 0;
	for (BlockId b = 0; b < m->blocks.count; b++)
		count += m->blocks.at[b].reduction;
	if (list->set && list->values.count != count)
		diag_error(d, config_list_place(d, list->origin, NONE), "config-count", NULL,
		           "reduction_loops has %u value%s, but there are %u reduction blocks", list->values.count,
		           list->values.count == 1 ? "" : "s", count);
	for (BlockId b = 0, i = 0; b < m->blocks.count; b++) {
		const Block *block = &m->blocks.at[b];
		if (!block->reduction)
			continue;
		if (i < list->values.count && block->size != NONE && !expr_is_int(m, block->size, list->values.at[i]))
			diag_error(d, config_list_place(d, list->origin, i), "config-value",
			           "leave reduction_loops out",
			           "reduction_loops gives '%s' another size than the graph does", block->name);
		i++;
	}
}

static BlockSource *block_sources(Module *m) {
	BlockSource *source = arena_array(m->arena, (size_t)m->blocks.count + 1, sizeof *source);
	const Config *c = &m->config;
	uint32_t chosen = 0, reductions = 0;
	for (BlockId b = 0; b < m->blocks.count; b++) {
		const Block *block = &m->blocks.at[b];
		BlockSource *s = &source[b];
		s->from = block->extent;
		if (block->reduction) {
			s->from = block->size == NONE ? block->extent : block->size;
			if (reductions < c->reduction_loops.values.count && block_iterated(m, b))
				s->number = c->reduction_loops.values.at[reductions];
			reductions++;
		} else if (block->size != NONE) {
			s->from = block->size;
		} else if (chosen < c->block_sizes.values.count) {
			s->number = c->block_sizes.values.at[chosen++];
		} else if (b < m->defaults.count && m->defaults.at[b].taken) {
			const DefaultBlock *d = &m->defaults.at[b];
			s->number = int_max(d->size >> m->default_level, int_min(d->size, d->least));
		} else {
			s->is_default = true;
		}
	}
	return source;
}

/* ---- evaluation ------------------------------------------------------------------------------------------------- */

/* Names the innermost block of the current path: only a block closes one. */
static void report_cycle(Resolver *r) {
	for (uint32_t i = r->stack.count; i-- > 0;) {
		const Expr *e = &r->m->exprs.at[r->stack.at[i]];
		if (e->kind != EXPR_BLOCK || r->state[r->stack.at[i]] != 1)
			continue;
		diag_error(r->d, diag_place(r->d, r->m->source, "/block_sizes/%u", (BlockId)e->value), "block-cycle",
		           NULL, "the size of block '%s' depends on itself", r->m->blocks.at[e->value].name);
		return;
	}
}

static void need_first(Resolver *r, ExprId e) {
	if (e != NONE && r->state[e] == 1)
		report_cycle(r);
	else if (e != NONE && r->state[e] == 0)
		vec_push(r->m->arena, &r->stack, e);
}

static void visit(Resolver *r, ExprId id) {
	const Expr *e = &r->m->exprs.at[id];
	need_first(r, e->a);
	need_first(r, e->b);
	if (e->kind != EXPR_BLOCK || r->source[e->value].number)
		return;
	need_first(r, r->source[e->value].from);
}

static void evaluate_block(Resolver *r, Expr *e) {
	const BlockSource *s = &r->source[e->value];
	int64_t value = 0;
	bool known = s->number != 0 || expr_value(r->m, s->from, &value);
	if (s->number)
		value = s->number;
	if (s->is_default) {
		value = default_block(r->m, &r->uses[e->value], known ? value : 0);
		known = true;
	}
	e->known = known;
	e->number = value;
}

static void evaluate(Resolver *r, ExprId id) {
	Expr *e = &r->m->exprs.at[id];
	if (e->kind == EXPR_INT) {
		e->known = true;
		e->number = e->value;
	} else if (e->kind == EXPR_TUNABLE) {
		e->known = true;
		e->number = r->m->config.tunables.at[e->value];
	} else if (e->kind == EXPR_BLOCK) {
		evaluate_block(r, e);
	} else {
		int64_t a, b = 0;
		e->known = expr_value(r->m, e->a, &a) && (e->b == NONE || expr_value(r->m, e->b, &b)) &&
		           expr_apply(e->kind, a, b, &e->number);
	}
}

static void resolve(Resolver *r, ExprId root) {
	need_first(r, root);
	while (r->stack.count) {
		ExprId e = r->stack.at[r->stack.count - 1];
		if (r->state[e] == 0) {
			r->state[e] = 1;
			visit(r, e);
		} else {
			if (r->state[e] == 1)
				evaluate(r, e);
			r->state[e] = 2;
			r->stack.count--;
		}
	}
}

static void resolve_all(Resolver *r) {
	Module *m = r->m;
	ExprId *symbol = arena_array(m->arena, (size_t)m->blocks.count + 1, sizeof *symbol);
	m->configured = false;
	for (BlockId b = 0; b < m->blocks.count; b++)
		symbol[b] = expr_block(m, b);
	for (ExprId e = 0; e < m->exprs.count; e++)
		m->exprs.at[e].known = false;
	r->state = arena_alloc(m->arena, (size_t)m->exprs.count + 1);
	for (ExprId e = 0; e < m->exprs.count; e++)
		resolve(r, e);
	m->block_size.count = 0;
	for (BlockId b = 0; b < m->blocks.count; b++)
		vec_push(m->arena, &m->block_size, m->exprs.at[symbol[b]].known ? m->exprs.at[symbol[b]].number : 0);
	m->configured = true;
}

static bool any_default(const Resolver *r) {
	bool any = false;
	for (BlockId b = 0; b < r->m->blocks.count; b++)
		any = any || r->source[b].is_default;
	return any;
}

/* Defaults are chosen each by itself, then together; what the target cannot hold is halved until it can. */
static void settle_defaults(Resolver *r) {
	Module *m = r->m;
	bool *candidate = arena_array(m->arena, (size_t)m->blocks.count + 1, sizeof *candidate), any = false;
	for (BlockId b = 0; b < m->blocks.count; b++)
		any |= candidate[b] = r->source[b].is_default;
	bool changed = any && default_blocks_balance(m, r->uses, candidate, m->block_size.at);
	changed |= any && config_shrink(m, m->arena, candidate, m->block_size.at);
	for (BlockId b = 0; b < m->blocks.count && changed; b++)
		if (candidate[b])
			r->source[b] = (BlockSource){.number = m->block_size.at[b]};
	if (changed)
		resolve_all(r);
	for (BlockId b = m->defaults.count; b < m->blocks.count && any; b++)
		vec_push(m->arena, &m->defaults,
		         ((DefaultBlock){candidate[b], m->block_size.at[b], default_least(&r->uses[b])}));
}

/* ---- what came out ---------------------------------------------------------------------------------------------- */

/* Has the size a value, and is it as large as `least`? A size that is not there is sound. */
static bool number_sound(Module *m, ExprId e, int64_t least) {
	int64_t value;
	return e == NONE || (expr_value(m, e, &value) && value >= least);
}

static void report_number(Module *m, Diag *d, ExprId e, Place at, const char *what, const char *of) {
	int64_t value;
	if (!expr_value(m, e, &value))
		diag_error(d, at, "size-overflow", NULL, "%s of '%s' (%s) overflows or divides by zero", what, of,
		           expr_string(m, e));
	else
		diag_error(d, at, "negative-size", NULL, "%s of '%s' (%s) is %lld: too small", what, of,
		           expr_string(m, e), (long long)value);
}

static void check_blocks(Module *m, Diag *d) {
	for (BlockId b = 0; b < m->blocks.count; b++) {
		const Block *block = &m->blocks.at[b];
		if (!number_sound(m, block->size, 1))
			report_number(m, d, block->size, diag_place(d, m->source, "/block_sizes/%u/size", b),
			              "the size", block->name);
		if (!number_sound(m, block->begin, 0))
			report_number(m, d, block->begin, diag_place(d, m->source, "/block_sizes/%u/begin", b),
			              "the begin", block->name);
		if (!number_sound(m, block->extent, 0))
			report_number(m, d, block->extent, diag_place(d, m->source, "/block_sizes/%u/extent", b),
			              "the extent", block->name);
	}
}

static void check_host_shapes(Module *m, Diag *d) {
	for (TensorId t = 0; t < m->tensors.count; t++) {
		const Tensor *tensor = &m->tensors.at[t];
		for (uint32_t i = 0; i < tensor->rank; i++)
			if (!m->exprs.at[tensor->shape[i]].known)
				report_number(m, d, tensor->shape[i],
				              diag_place(d, m->source, "/tensors/%u/shape/%u", t, i), "a dim",
				              tensor->name);
	}
	for (uint32_t r = 0; r < m->returns.count; r++) {
		const Return *x = &m->returns.at[r];
		for (uint32_t i = 0; i < x->rank; i++)
			if (!number_sound(m, x->shape[i], 0))
				report_number(m, d, x->shape[i], diag_place(d, m->source, "/returns/%u/shape/%u", r, i),
				              "a dim", m->tensors.at[x->tensor].name);
	}
}

/* Is every size of the type known, not negative, and their product no overflow? */
static bool type_sound(Module *m, TypeId id) {
	const Type *t = type_get(m, id);
	int64_t value, elements = 1;
	if (t->kind == TYPE_SYM)
		return t->sym == NONE || expr_value(m, t->sym, &value);
	if (t->kind != TYPE_TENSOR)
		return true; /* a tuple's elements are types of their own */
	for (uint32_t i = 0; i < t->count; i++)
		if (!expr_value(m, t->dims[i], &value) || value < 0 || !checked_mul(elements, value, &elements))
			return false;
	return checked_mul(elements, 64, &elements);
}

static void check_value_types(Module *m, Diag *d) {
	uint8_t *unsound = arena_alloc(m->arena, (size_t)m->types.count + 1);
	bool any = false;
	for (TypeId t = 0; t < m->types.count; t++) {
		unsound[t] = !type_sound(m, t);
		any |= unsound[t];
	}
	for (NodeId n = 0; any && n < m->nodes.count; n++) {
		const Node *node = node_get(m, n);
		if (!node->dead && unsound[node->type])
			diag_error(
				d, node_place(m, d, n), "size-overflow", NULL,
				"'%s' is %s: under this configuration a size is negative, overflows or divides by zero",
				node->name, type_string(m, node->type));
	}
}

/* ---- lists with one entry for each loop or input ---------------------------------------------------------------- */

static void check_count(Diag *d, const KeyRow *row, ConfigOrigin origin, uint32_t found, uint32_t wanted) {
	const char *what = row->each == EACH_LOOP ? "loops of two or more dims" : "inputs";
	if (found != wanted)
		diag_error(d, config_list_place(d, origin, NONE), "config-count", NULL,
		           "%s has %u value%s; the number of %s is %u", row->name, found, found == 1 ? "" : "s", what,
		           wanted);
}

static void check_loop_orders(Module *m, Diag *d, const GraphId *list, uint32_t loops) {
	const ConfigOrders *orders = &m->config.loop_orders;
	if (orders->set)
		check_count(d, &key_rows[KEY_OF_loop_orders], orders->origin, orders->values.count, loops);
	for (uint32_t i = 0; orders->set && i < loops && i < orders->values.count; i++) {
		const ConfigList *order = &orders->values.at[i];
		uint32_t dims = graph_get(m, list[i])->blocks.count;
		if (order->values.count != dims)
			diag_error(d, config_list_place(d, order->origin, NONE), "config-count", NULL,
			           "the order has %u dims, but the loop has %u", order->values.count, dims);
	}
}

static void check_loop_lists(Module *m, Diag *d) {
	uint32_t loops = 0, inputs = 0;
	bool listed = false;
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++)
		listed |= row->each == EACH_LOOP && key_is_set(row, &m->config);
	const GraphId *list = listed ? config_loops(m, m->arena, &loops) : NULL;
	for (TensorId t = 0; t < m->tensors.count; t++)
		inputs += m->tensors.at[t].role == ROLE_INPUT;
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++) {
		const ConfigList *given = key_field(row, &m->config);
		if (key_is_list(row) && given->set && (row->each == EACH_LOOP || row->each == EACH_INPUT))
			check_count(d, row, given->origin, given->values.count,
			            row->each == EACH_LOOP ? loops : inputs);
	}
	check_loop_orders(m, d, list, loops);
}

/* Blocks wider than their range get its size; no other size depends on such a block. */
static void narrow(Resolver *r) {
	if (!blocks_narrow(r->m))
		return;
	for (BlockId b = 0; b < r->m->blocks.count; b++)
		if (r->m->narrowed.at[b].size != r->m->narrowed.at[b].asked)
			r->source[b].number = r->m->narrowed.at[b].size;
	resolve_all(r);
}

/* What choose_sizes.c may take, over what the configuration says. */
static void enlarge(Resolver *r) {
	for (BlockId b = 0; b < r->m->enlarged.count; b++) {
		const Enlarged *wide = &r->m->enlarged.at[b];
		if (!wide->size)
			continue;
		r->source[b].number = r->m->narrowed.at[b].size = wide->size;
		r->m->narrowed.at[b].wide = wide->why;
	}
	if (r->m->enlarged.count)
		resolve_all(r);
}

bool module_configure(Module *m, Diag *d) {
	uint32_t errors = d->errors;
	check_block_count(m, d);
	check_reduction_count(m, d);
	check_loop_lists(m, d);
	if (d->errors != errors)
		return false;
	Resolver r = {.m = m, .d = d, .source = block_sources(m)};
	if (any_default(&r))
		r.uses = block_uses(m);
	resolve_all(&r);
	if (d->errors == errors)
		settle_defaults(&r);
	if (d->errors == errors)
		check_blocks(m, d);
	if (d->errors == errors)
		narrow(&r), enlarge(&r);
	if (d->errors == errors) {
		check_host_shapes(m, d);
		check_value_types(m, d);
		tensors_check(m, d);
	}
	return d->errors == errors;
}
