/* rewrite_ring.c - a kernel of a whole array, of which each device of a ring has a part, brings the others' itself, or
 * what others add to its own: ring_gather.c, ring_scatter.c. It comes last: copies stand among what all rewrites made.
 *
 *     grid tile_m 16 parallel                 grid turn 8 arbitrary
 *     grid tile_n 2 parallel                  grid tile_m 2 arbitrary
 *     ring gather x_ref model 4               grid tile_n 2 arbitrary
 *                                             mesh model 4 */
#include "ring.h"
#include "rewrite.h"

/* The place of a buffer among those of its role. */
static uint32_t place_of(const Kernel *k, BufferId b) {
	uint32_t place = 0;
	for (BufferId i = 0; i < b; i++)
		place += k->buffers.at[i].role == k->buffers.at[b].role;
	return place;
}

/* The place in the host's return of a value that nothing else reads, perhaps converted to `dtype`; NONE. */
static uint32_t returned_as(const Kernel *host, ValueId y, Dtype dtype) {
	StmtId last = region_last(host, host->body);
	uint32_t *uses = kernel_uses((Kernel *)host);
	for (uint32_t i = 0; i < kernel_stmt(host, last)->arg_count; i++) {
		ValueId v = kernel_arg(host, last, i)->value;
		StmtId def = v == y ? NONE : host->values.at[v].def;
		bool converted = def != NONE && kernel_stmt(host, def)->op == K_CONVERT &&
		                 kernel_arg(host, def, 0)->kind == KARG_VALUE && kernel_arg(host, def, 0)->value == y &&
		                 host->values.at[v].dtype == dtype;
		if ((v == y || converted) && uses[v] == 1 && uses[y] == 1)
			return i;
	}
	return NONE;
}

/* The host passes the array as it is given, or returns it as the kernel gives it. */
static const char *look_at_host(const KProgram *p, const Kernel *k, StmtId launch) {
	const KRing *ring = k->ring;
	const Kernel *host = p->host;
	const char *name = k->buffers.at[ring->buffer].name;
	uint32_t place = place_of(k, ring->buffer);
	if (launch == NONE || p->kernels.count != 1)
		return arena_printf(k->arena, "%s: the program has several kernels", name);
	if (!ring->scatter) {
		const KArg *x = kernel_arg(host, launch, place);
		bool given = x->kind == KARG_VALUE && x->value < p->inputs.count;
		return given && kernel_uses(p->host)[x->value] == 1
		               ? NULL
		               : arena_printf(k->arena, "%s: it is no input as it is given, or is read elsewhere, too",
		                              name);
	}
	return returned_as(host, kernel_stmt(host, launch)->result + place, ring->out) != NONE
	               ? NULL
	               : arena_printf(k->arena, "%s: it is no output as it is given, or is read elsewhere, too", name);
}

static void set_shape(const Kernel *k, ValueId v, Dtype dtype, uint32_t rank, const int64_t *shape) {
	k->values.at[v].dtype = dtype;
	k->values.at[v].rank = rank;
	k->values.at[v].shape = shape;
}

/* The launch takes and gives what the kernel now does: a part, and what came from others, which nothing reads. */
static void set_host(const KProgram *p, const Kernel *k, StmtId launch, BufferId whole, BufferId added) {
	Kernel *host = p->host;
	const KBuffer *b = &k->buffers.at[whole], *more = &k->buffers.at[added];
	uint32_t place = place_of(k, whole);
	if (b->role == BUFFER_IN) {
		ValueId x = kernel_arg(host, launch, place)->value;
		set_shape(host, x, b->dtype, b->rank, b->array);
		p->inputs.at[x].shape = b->array;
	} else {
		ValueId y = kernel_stmt(host, launch)->result + place;
		uint32_t at = returned_as(host, y, b->dtype);
		KArg *returned = kernel_arg(host, region_last(host, host->body), at);
		if (returned->value != y)
			kernel_remove(host, host->values.at[returned->value].def);
		*returned = karg_value(y);
		set_shape(host, y, b->dtype, b->rank, b->array);
		p->outputs.at[at].dtype = b->dtype;
		p->outputs.at[at].shape = b->array;
	}
	/* results of a statement are made one after the other: all anew */
	KStmt *s = kernel_stmt(host, launch);
	ValueId old = s->result;
	uint32_t results = s->result_count;
	ValueId *map = kernel_value_map(host);
	s->result = NONE;
	s->result_count = 0;
	uint32_t values = host->values.count;
	for (uint32_t i = 0; i < results; i++) {
		map[old + i] = kernel_result_like(host, launch, old + i, host->values.at[old + i].name);
		host->values.at[map[old + i]].as = host->values.at[old + i].as;
	}
	kernel_result(host, launch, KTYPE_TILE, more->dtype, more->rank, more->array, "travelled");
	kernel_replace_values(host, map, values);
}

void rewrite_ring(Kernel *k) {
	Travel r;
	if (!k->ring || k->ring->why)
		return;
	k->ring->why = ring_look(&r, k);
	if (k->ring->why)
		return;
	ring_set_grid(&r);
	k->ring->added = k->ring->scatter ? scatter_run(&r) : gather_run(&r);
}

void ring_look_at_launches(const KProgram *p) {
	for (uint32_t i = 0; i < p->kernels.count; i++)
		if (p->kernels.at[i]->ring)
			p->kernels.at[i]->ring->why = look_at_host(p, p->kernels.at[i], program_launch(p));
}

static void add_vmem(KProgram *p, Kernel *k, int64_t bytes) {
	p->vmem_bytes += p->vmem_bytes ? bytes : 0;
	k->vmem_limit += k->vmem_limit ? bytes : 0;
	for (uint32_t i = 0; i < p->vmem.count; i++)
		p->vmem.at[i].value += strcmp(p->vmem.at[i].name, "scratch") == 0 ? (double)bytes : 0;
}

void ring_set_launches(KProgram *p) {
	for (uint32_t i = 0; i < p->kernels.count; i++) {
		Kernel *k = p->kernels.at[i];
		if (!k->ring || k->ring->why)
			continue;
		set_host(p, k, program_launch(p), k->ring->buffer, k->ring->added);
		add_vmem(p, k, k->ring->bytes);
		k->ring = NULL;
	}
}
