/* print_pair.c - what makes of a forward and its backwards one function that jax differentiates: a jax.custom_vjp and
 * its two rules. */
#include "printer.h"

/* The rules' variables: one value for each array that has a name in them. */
typedef struct Rules {
	Printer *pr;
	const Pairing *pairing;
	Kernel *k;
	ValueId inputs, outputs, cotangents; /* of the forward: the first of each */
	ValueId *gradients;                  /* by backward: the first of what it gives */
	bool *saved;                         /* by input and, behind them, output: it is a residual */
} Rules;

typedef VEC(const char *) Names;

static bool is_reserved_in_rules(const char *name) {
	return name_is_reserved(name) || strcmp(name, "residuals") == 0 || strcmp(name, "cotangents") == 0;
}

static ValueId add_values(Rules *r, uint32_t count, const KArray *arrays) {
	ValueId first = r->k->values.count;
	for (uint32_t i = 0; i < count; i++)
		kernel_value(r->k, KTYPE_TILE, arrays[i].dtype, arrays[i].rank, arrays[i].shape, arrays[i].name);
	return first;
}

/* What a backward calls it; NULL: none takes it. */
static const char *cotangent_name(const Pairing *pairing, uint32_t output) {
	for (uint32_t b = 0; b < pairing->backward_count; b++)
		for (uint32_t i = 0; i < pairing->backwards[b]->inputs.count; i++) {
			PairArg arg = pairing->args[b][i];
			if (arg.from == PAIR_COTANGENT && arg.index == output)
				return pairing->backwards[b]->inputs.at[i].name;
		}
	return NULL;
}

static bool is_of_forward(const Pairing *pairing, const char *name) {
	const KProgram *f = pairing->forward;
	for (uint32_t i = 0; i < f->inputs.count + f->outputs.count; i++) {
		const KArray *x = i < f->inputs.count ? &f->inputs.at[i] : &f->outputs.at[i - f->inputs.count];
		if (strcmp(x->name, name) == 0)
			return true;
	}
	return false;
}

/* What a backward calls it, unless the forward has another of that name. */
static const char *gradient_name(Rules *r, uint32_t b, uint32_t output) {
	const KProgram *f = r->pairing->forward;
	const char *name = r->pairing->backwards[b]->outputs.at[output].name;
	for (uint32_t i = 0; i < f->inputs.count && is_of_forward(r->pairing, name); i++)
		if (r->pairing->gradients[i].backward == b && r->pairing->gradients[i].index == output)
			return arena_printf(r->pr->a, "d_%s", f->inputs.at[i].name);
	return name;
}

static void name_all(Rules *r) {
	const KProgram *f = r->pairing->forward;
	r->inputs = add_values(r, f->inputs.count, f->inputs.at);
	r->outputs = add_values(r, f->outputs.count, f->outputs.at);
	r->cotangents = r->k->values.count;
	for (uint32_t i = 0; i < f->outputs.count; i++) {
		const KArray *x = &f->outputs.at[i];
		kernel_value(r->k, KTYPE_TILE, x->dtype, x->rank, x->shape, cotangent_name(r->pairing, i));
	}
	for (uint32_t b = 0; b < r->pairing->backward_count; b++) {
		const KProgram *program = r->pairing->backwards[b];
		r->gradients[b] = add_values(r, program->outputs.count, program->outputs.at);
		for (uint32_t i = 0; i < program->outputs.count; i++)
			r->k->values.at[r->gradients[b] + i].name = gradient_name(r, b, i);
	}
	kernel_name_values(r->k, is_reserved_in_rules, f->name);
}

static void find_saved(Rules *r) {
	for (uint32_t b = 0; b < r->pairing->backward_count; b++)
		for (uint32_t i = 0; i < r->pairing->backwards[b]->inputs.count; i++) {
			PairArg arg = r->pairing->args[b][i];
			if (arg.from == PAIR_INPUT || arg.from == PAIR_OUTPUT)
				r->saved[arg.index + (arg.from == PAIR_OUTPUT ? r->outputs : r->inputs)] = true;
		}
}

/* "_": it has no variable. */
static const char *var(const Rules *r, ValueId v) {
	const char *name = r->k->values.at[v].var;
	return name ? name : "_";
}

static const char *arg_var(const Rules *r, PairArg arg) {
	ValueId first = arg.from == PAIR_INPUT       ? r->inputs
	                : arg.from == PAIR_OUTPUT    ? r->outputs
	                : arg.from == PAIR_COTANGENT ? r->cotangents
	                                             : r->gradients[arg.backward];
	return var(r, first + arg.index);
}

static void add_name(Rules *r, Names *names, const char *name) { vec_push(r->pr->a, names, name); }

static Names range(Rules *r, ValueId first, uint32_t count) {
	Names names = {0};
	for (uint32_t i = 0; i < count; i++)
		add_name(r, &names, var(r, first + i));
	return names;
}

static Names saved(Rules *r) {
	Names names = {0};
	for (ValueId v = r->inputs; v < r->cotangents; v++)
		if (r->saved[v])
			add_name(r, &names, var(r, v));
	return names;
}

/* Of the outputs that the caller gets, the values from `first` on. */
static Names returned(Rules *r, ValueId first) {
	Names names = {0};
	for (uint32_t i = 0; i < r->pairing->forward->outputs.count; i++)
		if (r->pairing->returned[i])
			add_name(r, &names, var(r, first + i));
	return names;
}

static const char *joined(Rules *r, const Names *names) {
	Text out;
	text_init(&out, r->pr->a);
	put_list(&out, names->count, names->at);
	return names->count ? out.at : "";
}

/* (a, b); (a,); () */
static const char *tuple(Rules *r, const Names *names) {
	return arena_printf(r->pr->a, names->count == 1 ? "(%s,)" : "(%s)", joined(r, names));
}

/* `a, b = VALUE`, in brackets, a line each, where one line has no room. */
static void print_unpacked(Rules *r, const Names *names, const char *value) {
	const char *list = joined(r, names);
	bool fits = strlen(list) + strlen(value) + 7 <= PY_WIDTH; /* "    ", " = " */
	const char *format = names->count == 1 || !fits ? "(%s,) = %s" : "%s = %s";
	py_line(&r->pr->w, format, list, value);
}

static void print_call(Rules *r, const Names *results, const char *name, const Names *args) {
	const char *list = joined(r, args), *comma = args->count ? ", " : "";
	const char *call = arena_printf(r->pr->a, "_%s_jit(%s%sinterpret)", name, list, comma);
	if (results->count == 1)
		py_line(&r->pr->w, "%s = %s", results->at[0], call);
	else
		py_line(&r->pr->w, "%s = %s", joined(r, results), call);
}

static void print_primal(Rules *r) {
	const KProgram *f = r->pairing->forward;
	Names inputs = range(r, r->inputs, f->inputs.count);
	const char *list = joined(r, &inputs), *comma = inputs.count ? ", " : "";
	text_put(r->pr->w.out, "\n\n");
	r->pr->w.indent = 0;
	py_line(&r->pr->w, "@functools.partial(jax.custom_vjp, nondiff_argnums=(%u,))", f->inputs.count);
	py_line(&r->pr->w, "def _%s_vjp(%s%sinterpret):", f->name, list, comma);
	r->pr->w.indent = 1;
	py_line(&r->pr->w, "return _%s_fwd(%s%sinterpret)[0]", f->name, list, comma);
}

static void print_forward(Rules *r) {
	const KProgram *f = r->pairing->forward;
	Names inputs = range(r, r->inputs, f->inputs.count), outputs = range(r, r->outputs, f->outputs.count);
	Names kept = saved(r), given = returned(r, r->outputs);
	text_put(r->pr->w.out, "\n\n");
	r->pr->w.indent = 0;
	py_line(&r->pr->w, "@functools.partial(jax.custom_jvp, nondiff_argnums=(%u,))", f->inputs.count);
	py_line(&r->pr->w, "def _%s_fwd(%s%sinterpret):", f->name, joined(r, &inputs), inputs.count ? ", " : "");
	r->pr->w.indent = 1;
	py_line(&r->pr->w, "if interpret:");
	r->pr->w.indent = 2;
	py_line(&r->pr->w, "_allow_checkpoint()");
	r->pr->w.indent = 1;
	for (uint32_t i = 0; i < f->outputs.count; i++)
		if (!r->pairing->returned[i] && !r->saved[r->outputs + i])
			outputs.at[i] = "_";
	print_call(r, &outputs, f->name, &inputs);
	py_line(&r->pr->w, "residuals = %s", tuple(r, &kept));
	py_line(&r->pr->w, "return %s, residuals", given.count == 1 ? given.at[0] : tuple(r, &given));
}

static void print_gradients(Rules *r) {
	const KProgram *f = r->pairing->forward;
	Names names = {0};
	for (uint32_t i = 0; i < f->inputs.count; i++) {
		PairArg gradient = r->pairing->gradients[i];
		add_name(r, &names, gradient.backward == NONE ? "None" : arg_var(r, gradient));
	}
	const char *list = joined(r, &names);
	bool fits = strlen(list) + 11 <= PY_WIDTH; /* "    return " */
	py_line(&r->pr->w, names.count == 1 || !fits ? "return (%s,)" : "return %s", list);
}

static void print_backward(Rules *r) {
	const KProgram *f = r->pairing->forward;
	Names kept = saved(r), cotangents = returned(r, r->cotangents);
	bool alone = cotangents.count == 1 && strcmp(cotangents.at[0], "_") != 0;
	text_put(r->pr->w.out, "\n\n");
	r->pr->w.indent = 0;
	py_line(&r->pr->w, "@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))");
	py_line(&r->pr->w, "def _%s_bwd(interpret, %s, %s):", f->name, kept.count ? "residuals" : "_",
	        alone ? cotangents.at[0] : "cotangents");
	r->pr->w.indent = 1;
	if (kept.count)
		print_unpacked(r, &kept, "residuals");
	if (cotangents.count > 1)
		print_unpacked(r, &cotangents, "cotangents");
	for (uint32_t b = 0; b < r->pairing->backward_count; b++) {
		const KProgram *program = r->pairing->backwards[b];
		Names results = range(r, r->gradients[b], program->outputs.count), args = {0};
		for (uint32_t i = 0; i < program->inputs.count; i++)
			add_name(r, &args, arg_var(r, r->pairing->args[b][i]));
		print_call(r, &results, program->name, &args);
	}
	print_gradients(r);
}

/* The rule of the other two: a second derivative asks for theirs. */
static void print_twice(Rules *r) {
	const char *name = r->pairing->forward->name;
	text_put(r->pr->w.out, "\n\n");
	r->pr->w.indent = 0;
	py_line(&r->pr->w, "def _%s_twice(interpret, primals, tangents):", name);
	r->pr->w.indent = 1;
	py_line(&r->pr->w, "raise TypeError(\"%s can be differentiated once: its backward has no gradient\")", name);
}

void print_rules(Printer *pr, const Pairing *pairing) {
	Rules r = {.pr = pr, .pairing = pairing, .k = kernel_new(pr->a, "rules")};
	const KProgram *f = pairing->forward;
	r.gradients = arena_array(pr->a, pairing->backward_count + 1, sizeof *r.gradients);
	r.saved = arena_array(pr->a, f->inputs.count + f->outputs.count + 1, sizeof *r.saved);
	name_all(&r);
	find_saved(&r);
	print_primal(&r);
	print_forward(&r);
	print_backward(&r);
	print_twice(&r);
	text_put(pr->w.out, "\n\n");
	pr->w.indent = 0;
	py_line(&pr->w, "_%s_fwd.defjvp(_%s_twice)", f->name, f->name);
	py_line(&pr->w, "_%s_bwd.defjvp(_%s_twice)", f->name, f->name);
	py_line(&pr->w, "_%s_vjp.defvjp(_%s_fwd, _%s_bwd)", f->name, f->name, f->name);
}

/* The simulator's effects are those of its own memory: it may run again. */
void print_allow_checkpoint(Printer *pr) {
	text_put(pr->w.out,
	         "\n\ndef _allow_checkpoint():\n"
	         "    \"\"\"Lets jax.checkpoint take simulated kernels, whose effects it would refuse.\"\"\"\n"
	         "    try:\n"
	         "        from jax._src import callback, effects\n"
	         "\n"
	         "        for effect in (callback.IOEffect, callback.OrderedIOEffect):\n"
	         "            effects.remat_allowed_effects.add_type(effect)\n"
	         "    except (ImportError, AttributeError):\n"
	         "        pass\n");
}
