/* test_shapes.c - op_infer, rule by rule: one node per case, over values of known types. */
#include "module_fixture.h"
#include "src/verify/verify.h"

/* What the cases compute with. */
static const char operands[] = "root 0 over [0, 1, 4]\n"
			       "a = tile.full([u0, u1], 0, float32) : float32[u0, u1]\n"
			       "b = tile.full([u0, u1], 0, bfloat16) : bfloat16[u0, u1]\n"
			       "i = tile.full([u0, u1], 0, int32) : int32[u0, u1]\n"
			       "m = tile.full([u0, u1], 0, bool) : bool[u0, u1]\n"
			       "r = tile.full([u0], 0, float32) : float32[u0]\n"
			       "j = tile.full([u0], 0, int32) : int32[u0]\n"
			       "k = tile.full([u1], 0, int32) : int32[u1]\n"
			       "c = tile.full([u0, 1], 0, float32) : float32[u0, 1]\n"
			       "o = tile.full([u4, u1], 0, float32) : float32[u4, u1]\n"
			       "g = tile.full([4, u0, 64], 0, bfloat16) : bfloat16[4, u0, 64]\n"
			       "w = tile.full([4, 64, u1], 0, bfloat16) : bfloat16[4, 64, u1]\n"
			       "p = tile.full([4, 6], 0, float32) : float32[4, 6]\n"
			       "q = tile.full([4, 6], 0, int32) : int32[4, 6]\n"
			       "q8 = tile.full([6, 4], 0, int8) : int8[6, 4]\n"
			       "e = tile.full([2, 3, 4], 0, bfloat16) : bfloat16[2, 3, 4]\n"
			       "f = tile.full([10, 2], 0, float32) : float32[10, 2]\n"
			       "zf = tile.full([], 0, float32) : float32[]\n"
			       "zb = tile.full([], 0, bfloat16) : bfloat16[]\n"
			       "zi = tile.full([], 0, int32) : int32[]\n"
			       "six = tile.full([6], 0, float32) : float32[6]\n"
			       "nine = tile.full([9], 0, bfloat16) : bfloat16[9]\n"
			       "s = tile.scalar('scale') : float32[]\n"
			       "u = sym_size(a, 0) : sym u0\n"
			       "x = tile.host_tensor('x') : float32[1000, 5000]\n"
			       "v = tile.host_tensor('v') : int32[1000]\n"
			       "out = tile.host_tensor('out') : float32[1000, 5000]\n"
			       "io = tile.host_tensor('io') : int32[1000]\n"
			       "begin = tile.begin(u0) : sym\n";

typedef struct Case {
	const char *target, *args, *expected; /* a type, or after "!" a part of the message */
} Case;

static void check_case(Fixture *f, uint32_t i, const Case *c) {
	Module *m = f->module;
	NodeId n = graph_node(m, 0, arena_printf(&f->arena, "t%u", i));
	TypeId type;
	uint32_t before = f->diag.list.count;
	bool ok = op_infer(m, &f->diag, n, &type);
	const char *message = f->diag.list.count > before ? f->diag.list.at[before].message : "";
	const char *got = ok ? type_string(m, type) : message;
	bool good = *c->expected == '!' ? !ok && strstr(message, c->expected + 1) != NULL
	                                : ok && strcmp(got, c->expected) == 0;
	f->diag.errors = f->diag.list.count = 0;
	if (!good)
		fail_msg("%s(%s): expected %s, got %s", c->target, c->args, c->expected, got);
}

static void run_cases(const Case *cases, uint32_t count) {
	Text graph;
	Fixture f;
	fixture_init(&f);
	text_init(&graph, &f.arena);
	text_put(&graph, operands);
	for (uint32_t i = 0; i < count; i++)
		text_printf(&graph, "t%u = %s(%s) : int32[]\n", i, cases[i].target, cases[i].args);
	text_put(&graph, "return\n");
	fixture_load(&f, graph.at);
	for (uint32_t i = 0; i < count; i++)
		check_case(&f, i, &cases[i]);
	fixture_free(&f);
}

#define RUN(cases) run_cases(cases, sizeof(cases) / sizeof *(cases))

static void pointwise(void **state) {
	(void)state;
	static const Case cases[] = {
		{"aten.add.Tensor", "a, a", "float32[u0, u1]"},
		{"aten.add.Tensor", "a, c", "float32[u0, u1]"},
		{"aten.add.Tensor", "k, a", "float32[u0, u1]"},
		{"aten.add.Tensor", "a, r", "!operands of shapes [u0, u1] and [u0] do not broadcast"},
		{"aten.add.Tensor", "a, o", "float32[u0, u1]"}, /* u4 is 1 */
		{"aten.add.Tensor", "o, o", "float32[u4, u1]"},
		{"aten.mul.Tensor", "b, 2.5", "bfloat16[u0, u1]"},
		{"aten.mul.Tensor", "i, 2.5", "float32[u0, u1]"},
		{"aten.mul.Tensor", "i, 2", "int32[u0, u1]"},
		{"aten.mul.Tensor", "m, 2", "int32[u0, u1]"},
		{"aten.mul.Tensor", "b, s", "bfloat16[u0, u1]"},
		{"aten.mul.Tensor", "b, zf", "bfloat16[u0, u1]"}, /* a 0-d tensor is of the lower class */
		{"aten.mul.Tensor", "zb, zf", "float32[]"},
		{"aten.mul.Tensor", "zb, s", "bfloat16[]"}, /* a scalar is weak */
		{"aten.mul.Tensor", "i, zb", "bfloat16[u0, u1]"},
		{"aten.mul.Tensor", "i, u", "int32[u0, u1]"},
		{"aten.mul.Tensor", "a, u1", "float32[u0, u1]"},
		{"aten.mul.Tensor", "2, 3.0", "float32[]"},
		{"aten.add.Tensor", "a, b", "float32[u0, u1]"},
		{"aten.div.Tensor", "i, i", "float32[u0, u1]"},
		{"aten.div.Tensor", "b, 2", "bfloat16[u0, u1]"},
		{"aten.div.Tensor_mode", "i, i, rounding_mode=\"floor\"", "int32[u0, u1]"},
		{"aten.div.Tensor_mode", "i, i", "float32[u0, u1]"},
		{"aten.exp.default", "i", "float32[u0, u1]"},
		{"aten.exp.default", "b", "bfloat16[u0, u1]"},
		{"aten.abs.default", "i", "int32[u0, u1]"},
		{"aten.lt.Scalar", "a, 1", "bool[u0, u1]"},
		{"aten.lt.Tensor", "r, c", "bool[u0, u0]"},
		{"aten.where.self", "m, b, zb", "bfloat16[u0, u1]"},
		{"aten.where.ScalarOther", "m, a, 0", "float32[u0, u1]"},
		{"aten.where.self", "m, zi, b", "bfloat16[u0, u1]"},
		{"aten.masked_fill.Scalar", "b, m, 1e30", "bfloat16[u0, u1]"},
		{"aten.clamp.default", "i, null, 3", "int32[u0, u1]"},
		{"aten.clamp.default", "i, 0.5", "float32[u0, u1]"},
		{"aten.bitwise_and.Tensor", "m, m", "bool[u0, u1]"},
		{"aten.logical_not.default", "a", "bool[u0, u1]"},
		{"prims.convert_element_type.default", "a, bfloat16", "bfloat16[u0, u1]"},
		{"aten._to_copy.default", "a, dtype=int8", "int8[u0, u1]"},
		{"aten._to_copy.default", "a", "float32[u0, u1]"},
		{"tile.mask_to", "a, -inf", "float32[u0, u1]"},
		{"tile.mask_to", "r, a", "!does not broadcast"},
		{"aten.addcmul.default", "r, r, r", "float32[u0]"},
		{"aten.pow.Scalar", "2, i", "int32[u0, u1]"},
		{"aten.tril.default", "a", "float32[u0, u1]"},
		{"aten.bitwise_and.Tensor", "m, a", "!argument 1 is float32, it takes ints or bools"},
		{"aten.where.self", "i, a, a", "!argument 0 is int32, it takes bool"},
		{"aten.masked_fill.Scalar", "a, i, 0", "!argument 1 is int32, it takes bool"},
		{"aten.neg.default", "m", "!takes numbers other than bools"},
		{"aten._softmax.default", "i, 0, false", "!it takes floats"},
	};
	RUN(cases);
}

static void reductions(void **state) {
	(void)state;
	static const Case cases[] = {
		{"aten.sum.dim_IntList", "a, [-1]", "float32[u0]"},
		{"aten.sum.dim_IntList", "a, [-1], true", "float32[u0, 1]"},
		{"aten.sum.dim_IntList", "a, [0, 1]", "float32[]"},
		{"aten.sum.dim_IntList", "a, null", "float32[]"},
		{"aten.sum.dim_IntList", "m, [0]", "int32[u1]"},
		{"aten.sum.dim_IntList", "b, [0], dtype=float32", "float32[u1]"},
		{"aten.sum.dim_IntList", "a, [2]", "!dim 2 is not in a value of rank 2"},
		{"aten.sum.dim_IntList", "a, [1, -1]", "!dim 1 is named twice"},
		{"aten.sum.default", "b", "bfloat16[]"},
		{"aten.amax.default", "b, [1]", "bfloat16[u0]"},
		{"aten.amax.default", "b", "bfloat16[]"},
		{"aten.mean.dim", "a, [0], true", "float32[1, u1]"},
		{"aten.max.dim", "b, 1", "(bfloat16[u0], int32[u0])"},
		{"aten.argmax.default", "b, 1", "int32[u0]"},
		{"aten.argmin.default", "b", "int32[]"},
		{"aten.any.dim", "i, 0", "bool[u1]"},
		{"aten.any.dims", "i, []", "bool[u0, u1]"},
		{"aten.var.correction", "i, [0]", "!it takes floats"},
		{"aten.mean.dim", "i, [0], dtype=float32", "float32[u1]"},
		{"aten.all.default", "i", "bool[]"},
		{"aten.var_mean.correction", "a, [1], correction=0, keepdim=true", "(float32[u0, 1], float32[u0, 1])"},
		{"aten._softmax.default", "b, -1, false", "bfloat16[u0, u1]"},
		{"aten._softmax.default", "b, -1, true", "float32[u0, u1]"},
		{"aten._softmax.default", "b, 5, false", "!dim 5"},
		{"aten.cumsum.default", "m, 0", "int32[u0, u1]"},
		{"aten.logsumexp.default", "a, [1]", "float32[u0]"},
		{"aten.sort.default", "a", "(float32[u0, u1], int32[u0, u1])"},
		{"aten.topk.default", "p, 2", "(float32[4, 2], int32[4, 2])"},
		{"aten.topk.default", "p, 7", "!k is 7, but the dim has 6"},
	};
	RUN(cases);
}

static void views(void **state) {
	(void)state;
	static const Case cases[] = {
		{"aten.permute.default", "g, [1, 0, 2]", "bfloat16[u0, 4, 64]"},
		{"aten.permute.default", "g, [1, 0]", "!each of the 3 dims"},
		{"aten.permute.default", "g, [1, 1, 2]", "!named twice"},
		{"aten.transpose.int", "g, -1, 0", "bfloat16[64, u0, 4]"},
		{"aten.t.default", "a", "float32[u1, u0]"},
		{"aten.view.default", "g, [-1, 64]", "bfloat16[4 * u0, 64]"},
		{"aten.view.default", "g, [<u0 * 4>, 64]", "bfloat16[u0 * 4, 64]"},
		{"aten.view.default", "g, [u, 4, -1]", "bfloat16[u0, 4, 64]"},
		{"aten.view.default", "g, [4, -1, 8]", "bfloat16[4, 1024, 8]"},
		{"aten.view.default", "g, [5, -1]", "!counts of elements differ"},
		{"aten.view.default", "g, [-1, -1]", "!only one size"},
		{"aten.view.default", "g, [4, 64]", "!counts of elements differ"},
		{"aten.view.default", "a, [u0, 1, u1]", "float32[u0, 1, u1]"},
		{"aten.reshape.default", "p, [24]", "float32[24]"},
		{"aten.view.dtype", "p, bfloat16", "bfloat16[4, 12]"},
		{"aten.view.dtype", "e, float32", "float32[2, 3, 2]"},
		{"aten.view.dtype", "q8, float32", "float32[6, 1]"},
		{"aten.view.dtype", "nine, float32", "!9 elements of bfloat16 do not make whole ones"},
		{"aten.squeeze.dim", "c, 1", "float32[u0]"},
		{"aten.squeeze.dim", "c, 0", "float32[u0, 1]"},
		{"aten.squeeze.dim", "o, 0", "float32[u4, u1]"}, /* a block symbol stays, though it is 1 */
		{"aten.squeeze.default", "c", "float32[u0]"},
		{"aten.unsqueeze.default", "a, -1", "float32[u0, u1, 1]"},
		{"aten.unsqueeze.default", "a, 0", "float32[1, u0, u1]"},
		{"aten.unsqueeze.default", "a, 3", "!dim 3"},
		{"aten.expand.default", "c, [-1, u1]", "float32[u0, u1]"},
		{"aten.expand.default", "r, [3, -1]", "float32[3, u0]"},
		{"aten.expand.default", "r, [-1, 3]", "!a new dim cannot"},
		{"aten.expand.default", "p, [4, 7]", "!cannot expand [4, 6] to [4, 7]"},
		{"aten.repeat.default", "p, [2, 1, 3]", "float32[2, 4, 18]"},
		{"aten.cat.default", "[a, b], 1", "float32[u0, u1 + u1]"},
		{"aten.cat.default", "[p, q], 0", "float32[8, 6]"},
		{"aten.cat.default", "[p, a], 0", "!cannot join"},
		{"aten.stack.default", "[p, q], -1", "float32[4, 6, 2]"},
		{"aten.split.Tensor", "p, 4, 1", "(float32[4, 4], float32[4, 2])"},
		{"aten.split.Tensor", "p, 0, 1", "!cannot split"},
		{"aten.split.Tensor", "x, 1, 1", "!cannot split 5000"},
		{"aten.split_with_sizes.default", "p, [1, 5], 1", "(float32[4, 1], float32[4, 5])"},
		{"aten.split_with_sizes.default", "p, [1, 4], 1", "!the pieces make 5, the dim has 6"},
		{"aten.unbind.int", "f, 1", "(float32[10], float32[10])"},
		{"aten.slice.Tensor", "p, 1, 1, 5, 2", "float32[4, 2]"},
		{"aten.slice.Tensor", "p, 1, 0, 9223372036854775807", "float32[4, 6]"},
		{"aten.slice.Tensor", "p, 1, -2", "float32[4, 2]"},
		{"aten.slice.Tensor", "a, 1, 0, u0", "float32[u0, u0]"},
		{"aten.select.int", "g, 0, 1", "bfloat16[u0, 64]"},
		{"aten.select.int", "g, 0, 4", "!index 4 is not in a dim of 4"},
		{"aten.flip.default", "g, [0]", "bfloat16[4, u0, 64]"},
		{"aten.constant_pad_nd.default", "p, [1, 2]", "float32[4, 9]"},
		{"aten.constant_pad_nd.default", "p, [1]", "!pairs"},
		{"tile.split", "f", "(float32[10], float32[10])"},
		{"tile.split", "p", "!the last dim of [4, 6] is not 2"},
		{"tile.join", "r, j", "float32[u0, 2]"},
		{"tile.pre_broadcast_tile", "c, 128", "float32[u0, 128]"},
		{"aten.gather.default", "a, 1, i", "float32[u0, u1]"},
		{"aten.gather.default", "a, 1, b", "!indices are ints, not bfloat16"},
		{"aten.index_select.default", "g, 0, k", "bfloat16[u1, u0, 64]"},
		{"aten.embedding.default", "p, i", "float32[u0, u1, 6]"},
		{"tile.subscript", "r, [:, null]", "float32[u0, 1]"},
		{"tile.subscript", "p, [1:3, 0]", "float32[2]"},
		{"tile.subscript", "p, [0]", "!entries for 1 dims"},
		{"aten.index.Tensor", "p, [null, j]", "float32[4, u0]"},
	};
	RUN(cases);
}

static void creation(void **state) {
	(void)state;
	static const Case cases[] = {
		{"tile.full", "[u0, u, 3], 1, bfloat16", "bfloat16[u0, u0, 3]"},
		{"tile.full", "[begin], 1, bfloat16", "!known only at run time"},
		{"tile.full", "[-1], 1, bfloat16", "!negative"},
		{"tile.full", "[1,1,1,1,1,1,1,1,1], 1, bool", "!more than 8 dims"},
		{"aten.full.default", "[2], 1", "int32[2]"},
		{"aten.full.default", "[2], 1.0", "float32[2]"},
		{"aten.zeros.default", "[2]", "float32[2]"},
		{"aten.full_like.default", "b, 1.0", "bfloat16[u0, u1]"},
		{"aten.zeros_like.default", "b, dtype=int32", "int32[u0, u1]"},
		{"aten.new_zeros.default", "b, [3]", "bfloat16[3]"},
		{"aten.scalar_tensor.default", "1.5", "float32[]"},
		{"aten.scalar_tensor.default", "1", "float32[]"},
		{"tile.full", "[2], r, bool", "!the value that fills has the shape [u0]"},
		{"aten.scalar_tensor.default", "1.5, dtype=bfloat16", "bfloat16[]"},
		{"aten.arange.default", "u", "int32[u0]"},
		{"aten.arange.start", "2, 10", "int32[8]"},
		{"aten.arange.start_step", "0, 1.0, 0.25", "float32[4]"},
		{"aten.arange.start_step", "10, 0, -3", "int32[4]"},
		{"prims.iota.default", "u1", "int32[u1]"},
		{"tile.rand", "[u0, 2], 7", "float32[u0, 2]"},
		{"tile.randint", "[u0], 0, 9, 7", "int32[u0]"},
	};
	RUN(cases);
}

static void matmuls(void **state) {
	(void)state;
	static const Case cases[] = {
		{"aten.bmm.default", "g, w", "bfloat16[4, u0, u1]"},
		{"aten.bmm.dtype", "g, w, float32", "float32[4, u0, u1]"},
		{"aten.bmm.default", "w, g", "!cannot multiply [4, 64, u1] by [4, u0, 64]"},
		{"aten.mm.default", "g, w", "!operands of rank 2"},
		{"aten.mm.default", "p, q8", "float32[4, 4]"},
		{"aten.mm.default", "p, p", "!cannot multiply"},
		{"aten.baddbmm.default", "a, g, w", "float32[4, u0, u1]"},
		{"aten.baddbmm.default", "g, g, w", "!addend"},
		{"aten.addmm.default", "zf, p, q8", "float32[4, 4]"},
		{"tile.dot", "g, w", "float32[4, u0, u1]"},
		{"tile.dot", "q, q8", "int32[4, 4]"},
		{"tile.dot", "g, w, null, bfloat16", "bfloat16[4, u0, u1]"},
		{"tile.dot", "g, w, a", "float32[4, u0, u1]"},
		{"tile.dot", "six, six", "!cannot multiply"},
		{"tile.dot", "six, q8", "!cannot multiply"},
		{"tile.dot", "p, six", "!cannot multiply"},
		{"aten.mv.default", "p, six", "float32[4]"},
		{"aten.dot.default", "six, six", "float32[]"},
		{"aten.matmul.default", "p, six", "float32[4]"},
		{"aten.matmul.default", "six, six", "float32[]"},
		{"aten.matmul.default", "six, q8", "float32[4]"},
		{"aten.matmul.default", "e, q8", "!cannot multiply"},
	};
	RUN(cases);
}

static void indices_and_memory(void **state) {
	(void)state;
	static const Case cases[] = {
		{"tile.load", "x, [u0, u1]", "float32[u0, u1]"},
		{"tile.load", "x, [u, u4]", "float32[u0, u4]"}, /* a ref to just a symbol is that tile, of size 1 too */
		{"tile.load", "x, [begin, u1]", "float32[u1]"},
		{"tile.load", "x, [3, zi]", "float32[]"},
		{"tile.load", "x, [<u0 + 1>, 0]", "float32[]"}, /* no longer just the symbol */
		{"tile.load", "x, [u0, :]", "float32[u0, 5000]"},
		{"tile.load", "x, [u0, 0:64]", "float32[u0, 64]"},
		{"tile.load", "x, [u0, 10::2]", "float32[u0, 2495]"},
		{"tile.load", "x, [u0, begin:]", "!the length of the slice in dim 1"},
		{"tile.load", "x, [u0, null, 0]", "float32[u0, 1]"},
		{"tile.load", "x, [u0]", "!entries for 1 dims, the tensor [1000, 5000] has 2"},
		{"tile.load", "x, [j, k]", "float32[u0, u1]"}, /* outer product */
		{"tile.load", "x, [i, i]", "float32[u0, u1]"},
		{"tile.load", "x, [i, k]", "float32[u0, u1]"}, /* broadcast together */
		{"tile.load", "x, [i, u0]", "float32[u0, u1, u0]"},
		{"tile.load", "x, [i, null, i]", "!must be adjacent"},
		{"tile.load", "x, [r, 0]", "!is float32; indices are ints"},
		{"tile.load", "x, [m, 0]", "!is bool"},
		{"tile.load", "x, [u0, u1], m", "float32[u0, u1]"},
		{"tile.load", "x, [u0, u1], i", "!extra_mask is int32, not bool"},
		{"tile.load", "a, [u0, u1]", "!must be a tile.host_tensor"},
		{"tile.store", "out, [u0, u1], b", "nothing"},
		{"tile.store", "out, [u0, u1], 1.0", "nothing"},
		{"tile.store", "out, [u0, u1], k", "nothing"},
		{"tile.store", "out, [0, u1], o", "nothing"}, /* leading 1s drop */
		{"tile.store", "out, [u0, begin:], a", "nothing"},
		{"tile.store", "out, [u0, u1], r", "!value of shape [u0] does not broadcast to the indexed [u0, u1]"},
		{"tile.store", "x, [u0, u1], a", "!tensor 'x' is an input"},
		{"tile.atomic_add", "io, [u0], j", "int32[u0]"},
		{"tile.atomic_add", "io, [u0], k", "!does not broadcast"},
		{"tile.atomic_cas", "io, [u0], j, 0", "int32[u0]"},
		{"tile.atomic_cas", "io, [u0], k, 0", "!expected of shape"},
		{"tile.host_tensor", "'x'", "float32[1000, 5000]"},
	};
	RUN(cases);
}

static void symbols(void **state) {
	(void)state;
	static const Case cases[] = {
		{"sym_size", "a, 1", "symbolic int u1"},
		{"sym_size", "x, -1", "symbolic int 5000"},
		{"sym_size", "zf, 0", "!no sizes"},
		{"tile.symnode", "'u0'", "symbolic int u0"},
		{"add", "u, 1", "symbolic int u0 + 1"},
		{"mul", "2, u1", "symbolic int 2 * u1"},
		{"floordiv", "u, 2", "symbolic int u0 // 2"},
		{"mod", "7, 4", "symbolic int 3"},
		{"neg", "u", "symbolic int 0 - u0"},
		{"add", "begin, 1", "symbolic int"},
		{"mul", "s, 2", "float32[]"},
		{"mul", "a, 2", "!Python's operators take"},
		{"lt", "begin, 5", "symbolic bool"},
		{"lt", "s, 5", "bool[]"},
		{"tile.begin", "'u0'", "symbolic int"},
		{"tile.id", "u", "symbolic int"},
		{"tile.count", "'u0'", "symbolic int cdiv(1000, u0)"},
		{"tile.block_size", "'u1'", "symbolic int u1"},
		{"tile.index", "'u1'", "int32[u1]"},
		{"tile.scalar", "'n'", "int32[]"},
		{"tile.phi", "a, b", "bfloat16[u0, u1]"},
		{"tile.new_var", "u", "symbolic int u0"},
	};
	RUN(cases);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pointwise), cmocka_unit_test(reductions), cmocka_unit_test(views),
		cmocka_unit_test(creation),  cmocka_unit_test(matmuls),    cmocka_unit_test(indices_and_memory),
		cmocka_unit_test(symbols),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
