/* dtype.c - element types: their names, and torch's promotion between them. */
#include "ops.h"

typedef struct DtypeRow {
	const char *name;
	DtypeClass class;
	int bits, vmem_bits, significant;
	double largest;
	const char *jnp, *brief;
} DtypeRow;

static const DtypeRow rows[DTYPE_COUNT] = {
#define DTYPE(e, name, class, ...) [DTYPE_##e] = {name, DTYPE_CLASS_##class, __VA_ARGS__},
#include "dtypes.def"
#undef DTYPE
};

const char *dtype_name(Dtype t) { return t < DTYPE_COUNT ? rows[t].name : "none"; }

const char *dtype_jnp(Dtype t) { return rows[t].jnp; }

const char *dtype_brief(Dtype t) { return t < DTYPE_COUNT ? rows[t].brief : "value"; }

int dtype_bits(Dtype t) { return rows[t].bits; }

int dtype_vmem_bits(Dtype t) { return rows[t].vmem_bits ? rows[t].vmem_bits : dtype_bits(t); }

int dtype_significant(Dtype t) { return rows[t].significant; }

double dtype_largest(Dtype t) { return rows[t].largest; }

DtypeClass dtype_class(Dtype t) { return rows[t].class; }

bool dtype_is_float(Dtype t) { return dtype_class(t) == DTYPE_CLASS_FLOAT; }

Dtype dtype_find(const char *name) {
	for (int t = 0; t < DTYPE_COUNT; t++)
		if (strcmp(rows[t].name, name) == 0)
			return (Dtype)t;
	return DTYPE_NONE;
}

/* Different float types meet in the wider one; where neither holds the other (the two 16-bit ones, the two 8-bit ones)
 * in float32. torch refuses to promote float8 types; the wider of the two is what a kernel computes in. */
static Dtype promote_floats(Dtype a, Dtype b) {
	return dtype_bits(a) > dtype_bits(b) ? a : dtype_bits(b) > dtype_bits(a) ? b : DTYPE_F32;
}

/* A signed and an unsigned type meet in the narrowest signed one that holds both. torch refuses to promote uint16 and
 * uint32; here uint32 and a signed type of at most 32 bits meet in int32, where values of 2^31 and more wrap around. */
static Dtype promote_mixed_ints(Dtype is_signed, Dtype is_unsigned) {
	if (dtype_bits(is_signed) > dtype_bits(is_unsigned))
		return is_signed;
	return is_unsigned == DTYPE_U8 ? DTYPE_I16 : DTYPE_I32;
}

Dtype dtype_promote(Dtype a, Dtype b) {
	if (a == b || b == DTYPE_NONE)
		return a;
	if (a == DTYPE_NONE)
		return b;
	DtypeClass class_a = dtype_class(a), class_b = dtype_class(b);
	if (class_a == DTYPE_CLASS_FLOAT && class_b == DTYPE_CLASS_FLOAT)
		return promote_floats(a, b);
	if (class_a == DTYPE_CLASS_FLOAT || class_b == DTYPE_CLASS_BOOL)
		return a;
	if (class_b == DTYPE_CLASS_FLOAT || class_a == DTYPE_CLASS_BOOL)
		return b;
	if (class_a == class_b)
		return dtype_bits(a) > dtype_bits(b) ? a : b;
	return class_a == DTYPE_CLASS_SIGNED ? promote_mixed_ints(a, b) : promote_mixed_ints(b, a);
}

Dtype dtype_of_sums(Dtype t) { return dtype_is_float(t) ? DTYPE_F32 : DTYPE_I32; }

Dtype dtype_widened(Dtype t) { return dtype_bits(t) >= 32 ? t : dtype_of_sums(t); }
