/* build_remote.c - copies to other devices, waits for what they copy, and barriers that all of them come to. */
#include "builder.h"

/* Each device signals all others on the barrier's semaphore and waits until all others have: whoever passes the k-th
 * barrier has found every other device at it, for nobody signals again before that. */
static void build_meeting(Builder *b) {
	Kernel *k = b->k;
	KFor *each = arena_alloc(b->a, sizeof *each);
	int64_t others = b->m->mesh_devices - 1;
	if (!others)
		return;
	*each = (KFor){.step = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "other"), .from = 1};
	each->end = int_const(k, others + 1);
	StmtId loop = build_statement(b, K_FOR, 0, NULL);
	RegionId outer = b->at, inside = kernel_region(k, loop);
	kernel_stmt(k, loop)->each = each;
	kernel_stmt(k, loop)->body = inside;
	b->at = inside;
	IntId device = int_binary(k, INT_ADD, int_value(k, b->me), int_value(k, each->step));
	device = int_binary(k, INT_REM, device, int_const(k, b->m->mesh_devices));
	build_statement(b, K_SIGNAL, 3, (const KArg[]){karg_value(b->barrier), karg_integer(1), karg_int(device)});
	build_statement(b, K_YIELD, 0, NULL);
	b->at = outer;
	build_statement(b, K_SEMAPHORE_WAIT, 2, (const KArg[]){karg_value(b->barrier), karg_integer(others)});
}

static int64_t channel_of(const Builder *b, NodeId n) { return op_arg(b->m, n, "channel")->integer; }

/* How many copies have started on the channel, in SMEM. */
static KArg started(Builder *b, int64_t channel) {
	KDim at = {.kind = KDIM_AT, .start = int_const(b->k, channel)};
	return karg_ref(kernel_ref(b->k, b->scratch[b->plan->started], 1, &at));
}

static IntId started_now(Builder *b, int64_t channel) {
	KArg ref = started(b, channel), x = build_shaped(b, K_LOAD, DTYPE_I32, 0, NULL, 1, &ref);
	build_name(b, x, "started");
	return int_value(b->k, x.value);
}

static void set_started(Builder *b, int64_t channel, IntId count) {
	KArg arg = karg_int(count);
	StmtId s = build_statement(b, K_INT, 1, &arg);
	ValueId x = kernel_result(b->k, s, KTYPE_INT, DTYPE_I32, 0, NULL, "started");
	build_statement(b, K_STORE, 2, (const KArg[]){started(b, channel), karg_value(x)});
}

/* Nothing has. */
static void build_started(Builder *b) {
	for (int64_t c = 0; b->plan->started != NONE && c < b->plan->scratches.at[b->plan->started].shape[0]; c++)
		if (b->plan->channels[c].starts > 1)
			build_statement(b, K_STORE, 2, (const KArg[]){started(b, c), karg_integer(0)});
}

void build_mesh(Builder *b) {
	Kernel *k = b->k;
	if (!b->m->mesh_axis)
		return;
	k->mesh_axis = b->m->mesh_axis;
	k->devices = b->m->mesh_devices;
	if (!b->plan->remote)
		return;
	if (k->devices > 1) {
		k->collective_id = 0; /* program_build() says which */
		StmtId s = build_statement(b, K_BARRIER, 0, NULL);
		b->barrier = kernel_result(k, s, KTYPE_SCALAR, DTYPE_NONE, 0, NULL, "barrier");
		s = build_statement(b, K_DEVICE_ID, 0, NULL);
		b->me = kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, "me");
	}
	build_started(b);
	build_meeting(b);
	b->met = true;
}

static KArg semaphore(Builder *b, uint32_t scratch, IntId at) {
	KDim dim = {.kind = KDIM_AT, .start = at};
	return karg_ref(kernel_ref(b->k, b->scratch[scratch], 1, &dim));
}

/* The semaphore on which copy `number` of the channel comes. */
static KArg come(Builder *b, int64_t channel, IntId number) {
	const ChannelUse *c = &b->plan->channels[channel];
	if (c->starts > c->slots)
		number = int_binary(b->k, INT_REM, number, int_const(b->k, c->slots));
	return semaphore(b, b->plan->come,
	                 c->first ? int_binary(b->k, INT_ADD, number, int_const(b->k, c->first)) : number);
}

static KArg part(Builder *b, NodeId n) { return karg_ref(build_ref(b, b->plan->values[n].access)); }

/* ---- through scratch -------------------------------------------------------------------------------------------- */

static KArg whole(Builder *b, uint32_t scratch) { return karg_ref(kernel_ref(b->k, b->scratch[scratch], 0, NULL)); }

/* The scratch has a unit dim before its last that a value of so many dims has not: rows lie in tiles of their own. */
static bool has_unit(const Builder *b, uint32_t scratch, uint32_t rank) {
	return rank > 1 && b->plan->scratches.at[scratch].rank > rank;
}

/* x, of the node's dims or a number, fills the scratch. */
static void fill(Builder *b, uint32_t scratch, const Arg *x) {
	const Scratch *s = &b->plan->scratches.at[scratch];
	uint32_t rank = x->kind == ARG_REF ? type_rank(b, x->node) : 0;
	KArg value = build_arg(b, x, FORM_NATURAL);
	int64_t before_last = -2;
	if (rank == 0)
		value = build_shaped(b, K_FULL, s->dtype, s->rank, s->shape, 1, &value);
	else
		value = build_converted(b, value, karg_dtype(b, value), s->dtype);
	if (has_unit(b, scratch, rank))
		value = build_op(b, K_EXPAND_DIMS, s->dtype, 1, &value, 1, &before_last);
	build_statement(b, K_STORE, 2, (const KArg[]){whole(b, scratch), value});
}

static void move_now(Builder *b, KArg from, KArg to) {
	KArg semaphore_ref = semaphore(b, b->plan->staged, int_const(b->k, 0));
	StmtId s = build_statement(b, K_COPY, 3, (const KArg[]){from, to, semaphore_ref});
	KArg copy = karg_value(kernel_result(b->k, s, KTYPE_COPY, DTYPE_NONE, 0, NULL, "move"));
	build_statement(b, K_START, 1, &copy);
	build_statement(b, K_WAIT, 1, &copy);
}

KArg build_staged_load(Builder *b, NodeId n) {
	uint32_t scratch = b->plan->values[n].staged, rank = b->plan->scratches.at[scratch].rank;
	Dtype dtype = b->plan->scratches.at[scratch].dtype;
	KDim dims[DIM_MAX];
	int64_t shape[KDIM_MAX];
	move_now(b, part(b, n), whole(b, scratch));
	for (uint32_t d = 0; d < rank; d++)
		dims[d] = (KDim){.kind = KDIM_ALL};
	if (has_unit(b, scratch, type_rank(b, n)))
		dims[rank - 2] = (KDim){.kind = KDIM_AT, .start = int_const(b->k, 0)};
	RefId ref = kernel_ref(b->k, b->scratch[scratch], rank, dims);
	rank = kernel_ref_shape(b->k, ref, shape);
	KArg arg = karg_ref(ref), x = build_shaped(b, K_LOAD, dtype, rank, shape, 1, &arg);
	return build_converted(b, x, dtype, node_type(b->m, n)->dtype);
}

/* Under its extra_mask, which is one bool. */
void build_staged_store(Builder *b, NodeId n) {
	RegionId outer = b->at;
	if (node_input(b->m, n, 3) != NONE)
		build_when(b, build_arg(b, node_arg(b->m, n, 3), FORM_NATURAL), "store");
	fill(b, b->plan->values[n].staged, node_arg(b->m, n, 2));
	move_now(b, whole(b, b->plan->values[n].staged), part(b, n));
	b->at = outer;
}

/* The part that is copied, or the scratch that its source is stored to. */
static KArg source(Builder *b, NodeId n) {
	uint32_t scratch = b->plan->values[n].staged;
	if (scratch == NONE)
		return part(b, node_input(b->m, n, 2));
	fill(b, scratch, node_arg(b->m, n, 2));
	return whole(b, scratch);
}

/* ---- copies to other devices ------------------------------------------------------------------------------------ */

static KArg remote_copy(Builder *b, NodeId n, KArg from, IntId number, KArg device) {
	int64_t channel = channel_of(b, n);
	KArg args[] = {from, part(b, n), come(b, channel, number),
	               semaphore(b, b->plan->sent, int_const(b->k, channel)), device};
	StmtId s = build_statement(b, K_REMOTE_COPY, 5, args);
	return karg_value(kernel_result(b->k, s, KTYPE_COPY, DTYPE_NONE, 0, NULL, "copy"));
}

/* All of them have waited for what came on the channel's semaphores, before these count again. */
static void meet_in_turn(Builder *b, const ChannelUse *c, IntId number) {
	IntId again = int_binary(b->k, INT_EQ, int_binary(b->k, INT_REM, number, int_const(b->k, c->slots)),
	                         int_const(b->k, 0));
	KArg condition =
		karg_int(int_binary(b->k, INT_AND, int_binary(b->k, INT_GT, number, int_const(b->k, 0)), again));
	RegionId outer = b->at;
	build_when(b, condition, "meet");
	build_meeting(b);
	b->at = outer;
}

static void start(Builder *b, NodeId n) {
	int64_t channel = channel_of(b, n);
	const ChannelUse *c = &b->plan->channels[channel];
	KArg device = build_arg(b, op_arg(b->m, n, "device"), FORM_NATURAL);
	IntId number = c->starts > 1 ? started_now(b, channel) : int_const(b->k, 0);
	if (c->starts > c->slots)
		meet_in_turn(b, c, number);
	KArg copy = remote_copy(b, n, source(b, n), number, device);
	build_statement(b, K_START, 1, &copy);
	if (c->starts > 1)
		set_started(b, channel, int_binary(b->k, INT_ADD, number, int_const(b->k, 1)));
}

/* As many bytes are waited for as the part has, wherever the copy that this one stands for went. */
static void wait(Builder *b, NodeId n) {
	int64_t channel = channel_of(b, n);
	bool several = b->plan->channels[channel].starts > 1;
	const char *ends = op_arg(b->m, n, "ends")->string;
	IntId number =
		several ? int_binary(b->k, INT_SUB, started_now(b, channel), int_const(b->k, 1)) : int_const(b->k, 0);
	KArg copy = remote_copy(b, n, part(b, n), number, karg_integer(0));
	if (strcmp(ends, "recv") != 0)
		build_statement(b, K_WAIT_SEND, 1, &copy);
	if (strcmp(ends, "send") != 0)
		build_statement(b, K_WAIT_RECV, 1, &copy);
}

void build_remote(Builder *b, NodeId n) {
	uint16_t op = node_get(b->m, n)->op;
	if (op == OP_REMOTE_BARRIER) {
		if (!b->met)
			build_meeting(b);
		b->met = true;
		return;
	}
	const Arg *pred = op_arg(b->m, n, "pred");
	RegionId outer = b->at;
	KArg condition = pred->kind == ARG_NULL ? karg_bool(true) : build_arg(b, pred, FORM_NATURAL);
	if ((condition.kind == KARG_INTEGER && !condition.integer) ||
	    (condition.kind == KARG_BOOL && !condition.boolean))
		return;
	if (!arg_is_number(condition))
		build_when(b, condition, op == OP_REMOTE_COPY ? "send" : "wait");
	if (op == OP_REMOTE_COPY)
		start(b, n);
	else
		wait(b, n);
	b->at = outer;
}
