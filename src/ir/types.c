/* types.c - hash-consed types of values: equal types have one id. */
#include "ir.h"

static uint32_t type_hash(const Type *t) {
	uint64_t h = (uint64_t)t->kind << 40 | (uint64_t)t->dtype << 32 | t->count;
	h = (h ^ t->sym) * 0x9e3779b97f4a7c15u;
	for (uint32_t i = 0; i < t->count; i++)
		h = (h ^ h >> 31 ^ (t->kind == TYPE_TUPLE ? t->elements[i] : t->dims[i])) * 0xc2b2ae3d27d4eb4fu;
	return (uint32_t)(h >> 32);
}

static bool type_same(const Type *a, const Type *b) {
	if (a->kind != b->kind || a->dtype != b->dtype || a->sym != b->sym || a->count != b->count)
		return false;
	if (a->count == 0)
		return true;
	if (a->kind == TYPE_TUPLE)
		return memcmp(a->elements, b->elements, a->count * sizeof *a->elements) == 0;
	return memcmp(a->dims, b->dims, a->count * sizeof *a->dims) == 0;
}

static uint32_t type_slot(const Module *m, const Type *t) {
	uint32_t mask = m->type_table.room - 1, i = type_hash(t) & mask;
	while (m->type_table.slot[i] && !type_same(&m->types.at[m->type_table.slot[i] - 1], t))
		i = (i + 1) & mask;
	return i;
}

static void type_rehash(Module *m) {
	m->type_table.room = m->type_table.room ? m->type_table.room * 2 : 64;
	m->type_table.slot = arena_array(m->arena, m->type_table.room, sizeof(uint32_t));
	for (uint32_t i = 0; i < m->types.count; i++)
		m->type_table.slot[type_slot(m, &m->types.at[i])] = i + 1;
}

static TypeId type_cons(Module *m, Type t) {
	if (m->types.count >= m->type_table.room / 2)
		type_rehash(m);
	uint32_t i = type_slot(m, &t);
	if (!m->type_table.slot[i]) {
		if (t.kind == TYPE_TUPLE && t.count) { /* the caller's array may not live as long */
			TypeId *own = arena_array(m->arena, t.count, sizeof *own);
			memcpy(own, t.elements, t.count * sizeof *own);
			t.elements = own;
		}
		vec_push(m->arena, &m->types, t);
		m->type_table.slot[i] = m->types.count;
	}
	return m->type_table.slot[i] - 1;
}

TypeId type_none(Module *m) {
	if (m->types.count > 0 && m->types.at[0].kind == TYPE_NONE) /* mostly the first that is made */
		return 0;
	return type_cons(m, (Type){.kind = TYPE_NONE, .dtype = DTYPE_NONE, .sym = NONE});
}

TypeId type_tensor(Module *m, Dtype dtype, uint32_t rank, const ExprId *dims) {
	Type t = {.kind = TYPE_TENSOR, .dtype = dtype, .sym = NONE, .count = rank};
	for (uint32_t i = 0; i < rank; i++)
		t.dims[i] = dims[i];
	return type_cons(m, t);
}

TypeId type_sym(Module *m, Dtype dtype, ExprId sym) {
	return type_cons(m, (Type){.kind = TYPE_SYM, .dtype = dtype, .sym = sym});
}

TypeId type_tuple(Module *m, uint32_t count, const TypeId *elements) {
	return type_cons(
		m, (Type){.kind = TYPE_TUPLE, .dtype = DTYPE_NONE, .sym = NONE, .count = count, .elements = elements});
}

/* Tuples of tuples recurse; the loader limits their depth. */
bool type_equal(Module *m, TypeId a, TypeId b) {
	if (a == b)
		return true;
	Type x = *type_get(m, a), y = *type_get(m, b);
	if (x.kind != y.kind || x.dtype != y.dtype || x.count != y.count)
		return false;
	if (x.kind == TYPE_SYM)
		return x.sym != NONE && y.sym != NONE && expr_equal(m, x.sym, y.sym);
	for (uint32_t i = 0; i < x.count; i++)
		if (x.kind == TYPE_TUPLE ? !type_equal(m, x.elements[i], y.elements[i])
		                         : !expr_equal(m, x.dims[i], y.dims[i]))
			return false;
	return true;
}

static void type_print(const Module *m, TypeId id, Text *out) {
	const Type *t = type_get(m, id);
	switch (t->kind) {
	case TYPE_NONE: text_put(out, "nothing"); break;
	case TYPE_SYM:
		text_put(out, t->dtype == DTYPE_BOOL ? "symbolic bool" : "symbolic int");
		if (t->sym != NONE) {
			text_put(out, " ");
			expr_print(m, t->sym, out);
		}
		break;
	case TYPE_TENSOR:
		text_printf(out, "%s[", dtype_name(t->dtype));
		for (uint32_t i = 0; i < t->count; i++) {
			text_put(out, i ? ", " : "");
			expr_print(m, t->dims[i], out);
		}
		text_put(out, "]");
		break;
	case TYPE_TUPLE:
		text_put(out, "(");
		for (uint32_t i = 0; i < t->count; i++) {
			text_put(out, i ? ", " : "");
			type_print(m, t->elements[i], out);
		}
		text_put(out, t->count == 1 ? ",)" : ")");
		break;
	}
}

const char *type_string(Module *m, TypeId t) {
	Text out;
	text_init(&out, m->arena);
	type_print(m, t, &out);
	return out.at;
}

bool node_is_tile(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	return t->kind == TYPE_TENSOR && t->count > 0 && node_get(m, n)->op != OP_HOST_TENSOR;
}
