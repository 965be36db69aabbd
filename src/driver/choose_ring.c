/* choose_ring.c - parts that travel round a ring of devices are moved by the wrapper, between launches of a kernel of
 * one step, or by a kernel of all steps (rewrite_ring.c). Whether that can be is known when all else is decided: it is
 * tried on a clone. */
#include "driver.h"
#include "codegen/rewrite/rewrite.h"

/* Why the kernel cannot move them; NULL: it can. */
static const char *refusal(const Compilation *c, const ShardRequest *asked) {
	CompileOptions options = *c->options;
	Diag *quiet = arena_alloc(c->arena, sizeof *quiet);
	Compilation trial;
	diag_init(quiet, c->arena);
	options.shard = *asked;
	options.shard.way = RING_IN_KERNEL;
	options.hooks = NULL;
	options.explain = options.adapt = options.keep_read = false;
	compile_init(&trial, &options, c->arena, quiet, module_clone(c->module, c->arena));
	if (compile_module(&trial) && compile_plan(&trial) && compile_kernels(&trial))
		return NULL;
	for (uint32_t i = 0; i < quiet->list.count; i++)
		if (quiet->list.at[i].severity == SEVERITY_ERROR)
			return quiet->list.at[i].message;
	return "it is refused";
}

void compile_choose_ring(Compilation *c, ShardRequest *asked) {
	if (asked->way != RING_AUTO)
		return;
	const char *why = asked->gather || asked->scatter ? refusal(c, asked) : NULL;
	asked->way = why ? RING_IN_WRAPPER : RING_IN_KERNEL;
	if (why)
		pass_remark(&c->context, "ring", "the wrapper moves what travels: %s", why);
}

/* The kernel's buffer of a role, by its place among those. */
static BufferId buffer_at(const Kernel *k, BufferRole role, uint32_t place) {
	for (BufferId b = 0; b < k->buffers.count; b++)
		if (k->buffers.at[b].role == role && place-- == 0)
			return b;
	return NONE;
}

/* The buffer of what travels, and of a scattered output what its sums become; NONE: the launch neither takes it as it
 * is given nor gives it as it is returned. */
static BufferId travelling(const KProgram *p, const Kernel *k, bool scatter, uint32_t which, Dtype *out) {
	const Kernel *host = p->host;
	StmtId launch = program_launch(p), last = region_last(host, host->body);
	if (launch == NONE)
		return NONE;
	const KStmt *s = kernel_stmt(host, launch);
	for (uint32_t i = 0; i < s->arg_count && !scatter; i++)
		if (kernel_arg(host, launch, i)->kind == KARG_VALUE && kernel_arg(host, launch, i)->value == which)
			return buffer_at(k, BUFFER_IN, i);
	if (!scatter)
		return NONE;
	ValueId y = kernel_arg(host, last, which)->value;
	StmtId def = host->values.at[y].def;
	*out = host->values.at[y].dtype;
	if (def != NONE && kernel_stmt(host, def)->op == K_CONVERT && kernel_arg(host, def, 0)->kind == KARG_VALUE)
		y = kernel_arg(host, def, 0)->value;
	return y - s->result < s->result_count ? buffer_at(k, BUFFER_OUT, y - s->result) : NONE;
}

static uint32_t moving(const Sharding *s, uint32_t *count) {
	bool scatter = s->ring.kind == RING_SCATTER;
	uint32_t all = scatter ? s->outputs.count : s->inputs.count, found = NONE;
	*count = 0;
	for (uint32_t i = 0; i < all; i++)
		if (scatter ? s->outputs.at[i].moves : s->inputs.at[i].moves) {
			found = i;
			*count += 1;
		}
	return found;
}

void ring_ask(const KProgram *p) {
	const Sharding *s = p->sharding;
	uint32_t count = 0;
	if (!s || !s->ring.inside || p->kernels.count != 1)
		return;
	bool scatter = s->ring.kind == RING_SCATTER;
	uint32_t which = moving(s, &count);
	Dtype out = DTYPE_F32;
	BufferId buffer = count == 1 ? travelling(p, p->kernels.at[0], scatter, which, &out) : NONE;
	if (buffer == NONE)
		return;
	KRing *ring = arena_alloc(p->arena, sizeof *ring);
	*ring = (KRing){.scatter = scatter,
	                .buffer = buffer,
	                .axis = s->mesh.axis[s->ring.axis].name,
	                .devices = s->mesh.axis[s->ring.axis].devices,
	                .travels = s->ring.narrow ? DTYPE_BF16 : DTYPE_F32,
	                .out = out,
	                .added = NONE};
	p->kernels.at[0]->ring = ring;
}

bool ring_answered(const Compilation *c, const KProgram *p) {
	const Sharding *s = p->sharding;
	const KRing *ring = p->kernels.at[0]->ring;
	if (!s || !s->ring.inside || (ring && !ring->why)) /* the rewrite is not among those that are asked for */
		return true;
	const char *why =
		ring ? ring->why : "one kernel must take one array as it is given, or give one as it is returned";
	int64_t most = c->module->target->vmem_bytes;
	if (p->kernels.at[0]->mesh_axis && p->vmem_bytes <= most) {
		p->kernels.at[0]->vmem_limit = int_min(p->kernels.at[0]->vmem_limit, most);
		return true;
	}
	if (p->kernels.at[0]->mesh_axis)
		why = arena_printf(p->arena, "with what travels it needs %lld bytes of VMEM, and there are %lld",
		                   (long long)p->vmem_bytes, (long long)most);
	diag_error(c->diag, (Place){.source = c->module->source}, "kernel-ring",
	           "--ring wrapper moves it between launches", "the kernel cannot move %s along %s: %s",
	           s->ring.names.at[0], s->mesh.axis[s->ring.axis].name, why);
	return false;
}
