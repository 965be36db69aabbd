/* kernel_read.c - kernel text (docs/kernel.md) becomes a program again: its head, and the signatures of its kernels.
 * Nothing of a text may hurt: it may come from anywhere. What it means is for program_verify_kernels(). */
#include "kernel_reader.h"
#include "kernel_text.h"

#include "src/json/json.h"

typedef struct Head {
	bool config, sizes, axes, cost, vmem, estimate, host;
} Head;

/* ---- signatures ------------------------------------------------------------------------------------------------- */

/* The names of the signature's buffers: what is left of it in its function. */
typedef struct Signature {
	VEC(Token) names;
	VEC(BufferId) buffers;
	bool done, wrapper;
} Signature;

static void read_grid(KReader *r) {
	static const ReadType type = {.type = KTYPE_INT, .dtype = DTYPE_I32, .layout = LAYOUT_SCALAR};
	Token name = kread_name(r);
	KGridDim dim = {.at = kread_new_value(r, &name, &type)};
	dim.steps = kread_number(r, "the steps of the grid", 0, INT32_MAX);
	dim.parallel = kread_accept(r, "parallel");
	if (!dim.parallel && !kread_accept(r, "arbitrary"))
		kread_expected(r, "'parallel' or 'arbitrary'");
	vec_push(r->a, &r->k->grid, dim);
}

static void read_array_of(KReader *r, KBuffer *b, const Token *at) {
	int64_t *array = arena_array(r->a, KDIM_MAX, sizeof *array);
	if (!kread_accept(r, "of")) {
		if (b->space != KSPACE_VMEM)
			b->array = b->shape;
		return;
	}
	uint32_t rank = kread_numbers(r, "[", "]", 0, array, KDIM_MAX);
	if (!r->failed && rank != b->rank)
		kread_error(r, at, "kernel-count", NULL, "the block has %u dims, its array %u", b->rank, rank);
	b->array = array;
}

static void read_operand(KReader *r, KBuffer *b, const Token *at) {
	read_array_of(r, b, at);
	if (kread_accept(r, "at"))
		b->index = kread_ints(r, b->rank);
	if (kread_accept(r, "buffers"))
		b->buffers = (int)kread_number(r, "how many buffers", 1, INT16_MAX);
	b->ahead = b->role == BUFFER_IN && b->index && kread_accept(r, "ahead");
	b->fused = b->role == BUFFER_IN && b->index && kread_accept(r, "fused");
	if (b->role == BUFFER_OUT && kread_accept(r, "alias"))
		b->alias = kread_known(r, ENTRY_BUFFER);
	b->half = b->role == BUFFER_OUT && kread_accept(r, "half");
}

static void read_buffer(KReader *r, Signature *s, BufferRole role) {
	int64_t shape[KDIM_MAX];
	Token name = kread_name(r);
	KBuffer b = kread_buffer_type(r, shape);
	b.role = role;
	if (role != BUFFER_SCRATCH)
		read_operand(r, &b, &name);
	if (r->failed)
		return;
	vec_push(r->a, &s->names, name);
	vec_push(r->a, &s->buffers, kread_new_buffer(r, &name, b));
}

/* held NAME [fill NUMBER] [copy NAME] [sums NAME] over (DIM, ...) */
static void read_held(KReader *r) {
	KHeld *held = arena_alloc(r->a, sizeof *held);
	int64_t dims[KDIM_MAX];
	Token at = r->token;
	BufferId b = kread_known(r, ENTRY_BUFFER);
	*held = (KHeld){.from = NONE, .sums = NONE};
	if (kread_accept(r, "fill")) {
		held->fill = true;
		KArg x = kread_arg(r);
		if (x.kind != KARG_REAL)
			kread_expected(r, "the number that fills it, with a point");
		held->value = x.real;
	}
	if (kread_accept(r, "copy")) {
		held->copy = true;
		held->from = kread_known(r, ENTRY_BUFFER);
	}
	if (kread_accept(r, "sums"))
		held->sums = kread_known(r, ENTRY_BUFFER);
	kread_expect(r, "over");
	uint32_t count = kread_numbers(r, "(", ")", 0, dims, KDIM_MAX);
	for (uint32_t i = 0; i < count && !r->failed; i++)
		if (dims[i] >= r->k->grid.count || dims[i] > 31)
			kread_error(r, &at, "kernel-range", NULL, "the grid has no dim %lld", (long long)dims[i]);
		else
			held->revisits |= 1u << dims[i];
	if (!r->failed)
		r->k->buffers.at[b].held = held;
}

/* strips SIZE WIDTH [spread COUNT] */
static void read_strips(KReader *r) {
	KStrips *strips = arena_alloc(r->a, sizeof *strips);
	*strips = (KStrips){0};
	strips->size = kread_number(r, "the columns of a row", 1, INT32_MAX);
	strips->width = kread_number(r, "the columns of a strip", 1, INT32_MAX);
	if (kread_accept(r, "spread"))
		strips->spread = (uint32_t)kread_number(r, "how many columns are spread over all lanes", 1, 64);
	r->k->strips = strips;
}

/* ring gather NAME AXIS DEVICES
 * ring scatter NAME AXIS DEVICES of DTYPE in DTYPE */
static void read_ring(KReader *r) {
	KRing *ring = arena_alloc(r->a, sizeof *ring);
	*ring = (KRing){.scatter = kread_is(r, "scatter"), .travels = DTYPE_F32, .out = DTYPE_F32, .added = NONE};
	if (!ring->scatter && !kread_is(r, "gather"))
		kread_expected(r, "gather or scatter");
	kread_token(r);
	ring->buffer = kread_known(r, ENTRY_BUFFER);
	ring->axis = kread_variable(r, "the mesh's axis");
	ring->devices = kread_number(r, "how many devices are along it", 2, INT16_MAX);
	if (ring->scatter) {
		kread_expect(r, "of");
		ring->out = kread_dtype(r);
		kread_expect(r, "in");
		ring->travels = kread_dtype(r);
	}
	r->k->ring = ring;
}

/* cost_estimate flops N transcendentals N bytes N */
static void read_cost_estimate(KReader *r) {
	KCost *cost = arena_alloc(r->a, sizeof *cost);
	kread_expect(r, "flops");
	cost->flops = kread_number(r, "the operations", 0, INT64_MAX);
	kread_expect(r, "transcendentals");
	cost->transcendentals = kread_number(r, "the transcendentals", 0, INT64_MAX);
	kread_expect(r, "bytes");
	cost->bytes = kread_number(r, "the bytes", 0, INT64_MAX);
	r->k->cost = cost;
}

static void read_source_line(KReader *r) {
	Location *line = arena_alloc(r->a, sizeof *line);
	kread_number(r, "the number after that of the line before", r->lines.count + 1, r->lines.count + 1);
	line->line = kread_number(r, "the line's number in its file", INT64_MIN, INT64_MAX);
	if (r->token.kind == TOKEN_STRING)
		line->code = r->token.text;
	else if (!kread_is(r, "_"))
		kread_expected(r, "the text of the line in quotes, or _");
	kread_token(r);
	if (r->token.kind == TOKEN_STRING) {
		line->file = r->token.text;
		kread_token(r);
	}
	vec_push(r->a, &r->lines, line);
}

static void read_signature_line(KReader *r, Signature *s, int which) {
	kread_token(r);
	switch (which) {
	case 0: read_grid(r); break;
	case 1: read_buffer(r, s, BUFFER_IN); break;
	case 2: read_buffer(r, s, BUFFER_OUT); break;
	case 3: read_buffer(r, s, BUFFER_SCRATCH); break;
	case 4: r->k->vmem_limit = kread_number(r, "the bytes of the limit", 1, INT64_MAX); break;
	case 5:
		r->k->mesh_axis = kread_variable(r, "the mesh's axis");
		r->k->devices = kread_number(r, "how many devices are along it", 1, INT32_MAX);
		break;
	case 6: r->k->collective_id = kread_number(r, "the barrier's number", 0, INT32_MAX); break;
	case 7:
		r->k->sparse_cores = kread_number(r, "how many SparseCores", 1, INT16_MAX);
		r->k->subcores = kread_number(r, "how many subcores of each", 1, INT16_MAX);
		break;
	case 8: read_held(r); break;
	case 9: r->k->turns = true; break;
	case 10: read_strips(r); break;
	case 11: r->k->unchecked = true; break;
	case 12: read_cost_estimate(r); break;
	case 13: read_ring(r); break;
	case 14: r->k->blocks = true; break;
	case 15: r->k->unmasked = true; break;
	case 16: r->k->pieces = true; break;
	case 17: r->k->chunks = true; break;
	case 18: r->k->narrow = true; break;
	case 19: r->k->turn_once = true; break;
	case 20: r->k->first_chunks = true; break;
	default: read_source_line(r); break;
	}
}

/* From here on only the buffers are in scope: the grid's values are the index maps'. */
static void signature_end(KReader *r, Signature *s) {
	s->done = true;
	r->in_index = false;
	if (s->wrapper)
		return;
	kscope_cut(r, 0);
	for (uint32_t i = 0; i < s->buffers.count; i++)
		kscope_add(r, s->names.at[i].text, ENTRY_BUFFER, s->buffers.at[i]);
}

/* A signature's line, as long as no statement came. */
static bool read_signature(KReader *r, void *data) {
	static const char *const words[] = {
		"grid",          "in",          "out",          "scratch",  "vmem_limit", "mesh",
		"collective_id", "sparse_core", "held",         "turns",    "strips",     "unchecked",
		"cost_estimate", "ring",        "blocks",       "unmasked", "pieces",     "chunks",
		"narrow",        "turn_once",   "first_chunks", "line",     NULL};
	Signature *s = data;
	int which = 0;
	while (words[which] && !kread_is(r, words[which]))
		which++;
	if (words[which] && !s->done && !kread_next_is(r, "=") && !kread_next_is(r, ",")) {
		read_signature_line(r, s, which);
		return true;
	}
	if (!s->done)
		signature_end(r, s);
	return false;
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

static void kernel_start(KReader *r, const char *name) {
	r->k = kernel_new(r->a, name);
	r->lines.count = 0;
	r->in_index = true;
}

static void read_kernel(KReader *r) {
	Signature s = {.wrapper = false};
	kernel_start(r, kread_variable(r, "the kernel's name"));
	vec_push(r->a, &r->p->kernels, r->k);
	kread_block(r, r->k->body, read_signature, &s);
	kscope_cut(r, 0);
}

static ReadType input_type(const KArray *x) {
	ReadType type = {.type = x->scalar ? KTYPE_SCALAR : KTYPE_TILE, .dtype = x->dtype, .rank = x->rank};
	type.layout = x->rank ? LAYOUT_TILE : LAYOUT_SCALAR;
	if (x->rank)
		memcpy(type.shape, x->shape, x->rank * sizeof *x->shape);
	return type;
}

static void read_host(KReader *r) {
	Signature s = {.wrapper = true};
	uint32_t count = 0;
	kernel_start(r, r->p->name);
	r->p->host = r->k;
	kread_expect(r, "(");
	Token at = r->token;
	for (bool more = !kread_is(r, ")"); more && !r->failed; more = kread_accept(r, ",")) {
		Token name = kread_name(r);
		if (r->failed || count++ >= r->p->inputs.count)
			break;
		ReadType type = input_type(&r->p->inputs.at[count - 1]);
		kread_new_value(r, &name, &type);
	}
	if (!r->failed && count != r->p->inputs.count)
		kread_error(r, &at, "kernel-count", "it takes what the lines `input` say",
		            "the program has %u input%s, the host takes another number", r->p->inputs.count,
		            r->p->inputs.count == 1 ? "" : "s");
	kread_expect(r, ")");
	kread_block(r, r->k->body, read_signature, &s);
	kscope_cut(r, 0);
}

/* ---- the head --------------------------------------------------------------------------------------------------- */

static KArray read_array(KReader *r) {
	KArray x = {.name = kread_word(r, "the array's name"), .line = r->line};
	Token at = r->token;
	ReadType type = kread_type(r);
	if (!r->failed && type.dtype == DTYPE_NONE)
		kread_error(r, &at, "kernel-type", NULL, "an array has a dtype");
	int64_t *shape = arena_array(r->a, type.rank + 1, sizeof *shape);
	memcpy(shape, type.shape, type.rank * sizeof *shape);
	x.dtype = type.dtype;
	x.rank = type.rank;
	x.shape = shape;
	x.scalar = type.type == KTYPE_SCALAR;
	return x;
}

/* The members of a JSON object, to the end of the line. */
static const char *member_text(KReader *r, const char *what) {
	Token at = r->token; /* the word before it */
	const char *members = kread_rest(r);
	char *object = arena_printf(r->a, "{%s}", members);
	json_t *value = r->failed ? NULL : json_of(r->a, object, strlen(object));
	bool good = json_is_object(value);
	json_decref(value);
	if (!r->failed && !good)
		kread_error(r, &at, "kernel-syntax", NULL, "%s not the members of a JSON object", what);
	return members;
}

static double read_cost_number(KReader *r) {
	KArg x = {.kind = KARG_NONE};
	Token at = r->token;
	if (at.kind == TOKEN_INTEGER || at.kind == TOKEN_REAL)
		x = kread_arg(r);
	else
		kread_expected(r, "a number");
	return x.kind == KARG_REAL ? x.real : x.kind == KARG_INTEGER ? (double)x.integer : 0;
}

static void read_cost(KReader *r) {
	kread_expect(r, "vmem_bytes");
	r->p->vmem_bytes = kread_number(r, "bytes of VMEM", 0, INT64_MAX);
	kread_expect(r, "flops");
	r->p->flops = read_cost_number(r);
	kread_expect(r, "hbm_bytes");
	r->p->hbm_bytes = read_cost_number(r);
}

/* NAME NUMBER NAME NUMBER ..., to the end of the line */
static void read_parts(KReader *r, KParts *parts) {
	while (!r->failed && r->token.kind != TOKEN_END) {
		KPart part = {.name = r->token.text};
		if (r->token.kind != TOKEN_NAME)
			kread_expected(r, "the name of a part");
		kread_token(r);
		part.value = read_cost_number(r);
		vec_push(r->a, parts, part);
	}
}

/* False: it was there already. */
static bool once(KReader *r, bool *seen) {
	if (*seen)
		kread_expected(r, "another line: this one was there already");
	*seen = true;
	return !r->failed;
}

static void read_head_line(KReader *r, Head *head) {
	if (kread_is(r, "config") && once(r, &head->config)) {
		r->p->config = member_text(r, "the configuration is");
	} else if (kread_is(r, "sizes") && once(r, &head->sizes)) {
		r->p->sizes = member_text(r, "the sizes are");
	} else if (kread_is(r, "axes") && once(r, &head->axes)) {
		kread_token(r);
		while (!r->failed && r->token.kind != TOKEN_END) {
			KAxis axis = {.name = kread_word(r, "the name of an axis")};
			axis.devices = kread_number(r, "its devices", 1, INT32_MAX);
			vec_push(r->a, &r->p->axes, axis);
		}
	} else if (kread_is(r, "cost") && once(r, &head->cost)) {
		kread_token(r);
		read_cost(r);
	} else if (kread_is(r, "vmem") && once(r, &head->vmem)) {
		kread_token(r);
		read_parts(r, &r->p->vmem);
	} else if (kread_is(r, "estimate") && once(r, &head->estimate)) {
		kread_token(r);
		read_parts(r, &r->p->estimate);
	} else if (kread_is(r, "host") && once(r, &head->host)) {
		kread_token(r);
		read_host(r);
	} else if (kread_is(r, "input") && !head->host) {
		kread_token(r);
		KArray x = read_array(r);
		vec_push(r->a, &r->p->inputs, x);
	} else if (kread_accept(r, "output")) {
		KArray x = read_array(r);
		vec_push(r->a, &r->p->outputs, x);
	} else if (kread_accept(r, "kernel")) {
		read_kernel(r);
	} else {
		kread_expected(r, "input, output, config, sizes, axes, cost, vmem, estimate, kernel or host");
	}
	kread_end_of_line(r);
}

static void read_program(KReader *r) {
	Head head = {.config = false};
	if (!kread_line(r))
		kread_expected(r, "'program'");
	kread_expect(r, "program");
	r->p->name = kread_variable(r, "the program's name");
	kread_expect(r, "for");
	r->p->target = kread_word(r, "the target's name");
	kread_end_of_line(r);
	while (!r->failed && kread_line(r))
		read_head_line(r, &head);
	if (!head.host)
		kread_expected(r, "the host, which launches the kernels");
}

KProgram *kernels_read(Arena *a, Diag *d, const Source *text) {
	KReader r = {.a = a, .d = d, .source = text};
	r.p = arena_alloc(a, sizeof *r.p);
	r.p->arena = a;
	r.p->source = text;
	r.p->config = "";
	r.p->sizes = "";
	read_program(&r);
	return r.failed ? NULL : r.p;
}
