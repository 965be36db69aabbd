/* pair.c - which array of a backward is which of its forward: by what the caller says, else by names. A name that fits
 * several arrays is refused, as is one that fits none: nothing is guessed. */
#include "pair.h"

typedef struct Pairer {
	Arena *a;
	Diag *d;
	const PairPart *forward;
	const PairPart *backwards;
	const PairWishes *wishes;
	Pairing *out;
	bool *returned;
	PairArg **args;
	PairArg *gradients;
	bool *cotangent_read; /* by the forward's output */
	bool **read;          /* by backward, by output: as a gradient, or by a later backward */
} Pairer;

typedef VEC(PairArg) PairArgs;

/* ---- places and words ------------------------------------------------------------------------------------------- */

/* Where an array is declared. */
static Place array_place(Pairer *p, const PairPart *part, const KArray *x) {
	const Module *m = part->module;
	for (uint32_t t = 0; m && t < m->tensors.count; t++)
		if (strcmp(m->tensors.at[t].name, x->name) == 0)
			return diag_place(p->d, part->source, "/tensors/%u", t);
	for (uint32_t s = 0; m && s < m->scalars.count; s++)
		if (strcmp(m->scalars.at[s].name, x->name) == 0)
			return diag_place(p->d, part->source, "/scalars/%u", s);
	return (Place){.source = part->source, .line = x->line, .column = x->line != 0};
}

/* float32[2, 512] */
static const char *type_text(Pairer *p, const KArray *x) {
	Text out;
	text_init(&out, p->a);
	text_put(&out, x->scalar ? "a number of " : "");
	text_put(&out, dtype_name(x->dtype));
	for (uint32_t i = 0; i < x->rank; i++)
		text_printf(&out, i ? ", %lld" : "[%lld", (long long)x->shape[i]);
	text_put(&out, x->rank ? "]" : x->scalar ? "" : "[]");
	return out.at;
}

/* 'x', 'weight' */
static const char *names_text(Pairer *p, uint32_t count, const KArray *arrays) {
	Text out;
	text_init(&out, p->a);
	for (uint32_t i = 0; i < count; i++)
		text_printf(&out, i ? ", '%s'" : "'%s'", arrays[i].name);
	return count ? out.at : "none";
}

static const KProgram *program_of(const Pairer *p, PairArg arg) {
	return arg.from == PAIR_BACKWARD ? p->backwards[arg.backward].program : p->forward->program;
}

static const KArray *array_of(const Pairer *p, PairArg arg) {
	const KProgram *program = program_of(p, arg);
	return arg.from == PAIR_INPUT ? &program->inputs.at[arg.index] : &program->outputs.at[arg.index];
}

/* input 'x' of layer_norm */
static const char *arg_words(Pairer *p, PairArg arg) {
	static const char *const words[] = {"input", "output", "the cotangent of output", "output"};
	return arena_printf(p->a, "%s '%s' of %s", words[arg.from], array_of(p, arg)->name, program_of(p, arg)->name);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* The name without an ending that only tells inputs from outputs. */
static const char *bare(Pairer *p, const char *name) {
	static const char *const endings[] = {"_in", "_out"};
	size_t length = strlen(name);
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
		size_t n = strlen(endings[i]);
		if (length > n && strcmp(name + length - n, endings[i]) == 0)
			return arena_printf(p->a, "%.*s", (int)(length - n), name);
	}
	return name;
}

static bool is_array(Pairer *p, const char *name, const char *array) {
	return strcmp(name, array) == 0 || strcmp(name, bare(p, array)) == 0;
}

static bool is_called(const char *name, const char *before, const char *array, const char *behind) {
	size_t n = strlen(before), length = strlen(array);
	return strncmp(name, before, n) == 0 && strncmp(name + n, array, length) == 0 &&
	       strcmp(name + n + length, behind) == 0;
}

/* d_x, dx, grad_x, x_grad: what a derivative with respect to the array, or of it, is called. */
static bool is_derivative(Pairer *p, const char *name, const char *array) {
	const char *const forms[] = {array, bare(p, array)};
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (is_called(name, "d_", forms[i], "") || is_called(name, "d", forms[i], "") ||
		    is_called(name, "grad_", forms[i], "") || is_called(name, "", forms[i], "_grad"))
			return true;
	return false;
}

static bool has_array(uint32_t count, const KArray *arrays, const char *name) {
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(arrays[i].name, name) == 0)
			return true;
	return false;
}

/* What a tensor of role inout is called before the update, x_in, and after it, x_out; of other arrays their name. */
static const char *side_name(Pairer *p, bool input, uint32_t i) {
	const KProgram *f = p->forward->program;
	const char *name = input ? f->inputs.at[i].name : f->outputs.at[i].name;
	bool both = input ? has_array(f->outputs.count, f->outputs.at, name)
	                  : has_array(f->inputs.count, f->inputs.at, name);
	return both ? arena_printf(p->a, input ? "%s_in" : "%s_out", name) : name;
}

/* What the cotangent of the one array that a function returns is called, too. */
static bool is_the_cotangent(const char *name) {
	static const char *const names[] = {"dy", "do", "dout", "d_out", "grad", "grad_out", "grad_output"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* What a wish says of a name, behind `NAME=`; NULL: it is of another. A name may hold '='. */
static const char *wish_of(const char *wish, const char *name) {
	size_t n = strlen(name);
	return strncmp(wish, name, n) == 0 && wish[n] == '=' ? wish + n + 1 : NULL;
}

/* The same of an array of a program: PROGRAM.NAME= is of it alone. */
static const char *wish_of_array(const char *wish, const KProgram *program, const char *name, bool alone) {
	size_t n = strlen(program->name);
	bool qualified = strncmp(wish, program->name, n) == 0 && wish[n] == '.';
	return !alone ? wish_of(wish, name) : qualified ? wish_of(wish + n + 1, name) : NULL;
}

/* The FORWARD of the wish BACKWARD=FORWARD for an array of a backward; NULL. */
static const char *wished(NameList wishes, const KProgram *program, const char *name) {
	for (int alone = 1; alone >= 0; alone--)
		for (uint32_t i = 0; i < wishes.count; i++) {
			const char *forward = wish_of_array(wishes.at[i], program, name, alone);
			if (forward)
				return forward;
		}
	return NULL;
}

static bool is_named(NameList names, const char *name) {
	for (uint32_t i = 0; i < names.count; i++)
		if (strcmp(names.at[i], name) == 0)
			return true;
	return false;
}

/* ---- what the caller gets --------------------------------------------------------------------------------------- */

/* Its cotangent is one that a backward may take. */
static bool has_cotangent(const Pairer *p, uint32_t output) {
	const KArray *x = &p->forward->program->outputs.at[output];
	return p->returned[output] && dtype_is_float(x->dtype) && !is_named(p->wishes->nondiff, x->name);
}

/* Names of outputs in `returns`, of inputs and outputs in `nondiff`. */
static void check_names(Pairer *p) {
	const KProgram *f = p->forward->program;
	const NameList *returns = &p->wishes->returns, *nondiff = &p->wishes->nondiff;
	Place at = {.source = p->forward->source};
	for (uint32_t i = 0; i < returns->count; i++)
		if (!has_array(f->outputs.count, f->outputs.at, returns->at[i]))
			diag_error(
				p->d, at, "pair-name",
				arena_printf(p->a, "its outputs: %s", names_text(p, f->outputs.count, f->outputs.at)),
				"`returns` names '%s', which is no output of %s", returns->at[i], f->name);
	for (uint32_t i = 0; i < nondiff->count; i++)
		if (!has_array(f->outputs.count, f->outputs.at, nondiff->at[i]) &&
		    !has_array(f->inputs.count, f->inputs.at, nondiff->at[i]))
			diag_error(p->d, at, "pair-name",
			           arena_printf(p->a, "its inputs: %s; its outputs: %s",
			                        names_text(p, f->inputs.count, f->inputs.at),
			                        names_text(p, f->outputs.count, f->outputs.at)),
			           "`nondiff` names '%s', which is no input or output of %s", nondiff->at[i], f->name);
}

static void choose_returned(Pairer *p) {
	const KProgram *f = p->forward->program;
	for (uint32_t i = 0; i < f->outputs.count; i++)
		p->returned[i] = p->wishes->returns.count == 0 || is_named(p->wishes->returns, f->outputs.at[i].name);
}

/* ---- inputs of backwards ---------------------------------------------------------------------------------------- */

/* Of an inout tensor `x` may be either side, x_in and x_out are one. */
static bool is_side(Pairer *p, const char *name, bool exact, bool input, uint32_t i) {
	const KProgram *f = p->forward->program;
	const char *array = input ? f->inputs.at[i].name : f->outputs.at[i].name;
	return (exact ? strcmp(name, array) == 0 : is_array(p, name, array)) ||
	       strcmp(name, side_name(p, input, i)) == 0;
}

static void find_forward_arrays(Pairer *p, const char *name, bool exact, PairArgs *found) {
	const KProgram *f = p->forward->program;
	for (uint32_t i = 0; i < f->inputs.count; i++)
		if (is_side(p, name, exact, true, i))
			vec_push(p->a, found, ((PairArg){PAIR_INPUT, NONE, i}));
	for (uint32_t i = 0; i < f->outputs.count; i++)
		if (is_side(p, name, exact, false, i))
			vec_push(p->a, found, ((PairArg){PAIR_OUTPUT, NONE, i}));
}

static void find_cotangents(Pairer *p, const char *name, bool exact, PairArgs *found) {
	const KProgram *f = p->forward->program;
	for (uint32_t i = 0; i < f->outputs.count; i++)
		if (exact ? p->returned[i] && strcmp(name, f->outputs.at[i].name) == 0
		          : has_cotangent(p, i) && is_derivative(p, name, side_name(p, false, i)))
			vec_push(p->a, found, ((PairArg){PAIR_COTANGENT, NONE, i}));
}

/* Of what backwards before number `b` give. */
static void find_earlier(Pairer *p, uint32_t b, const char *name, PairArgs *found) {
	for (uint32_t e = 0; e < b; e++)
		for (uint32_t i = 0; i < p->backwards[e].program->outputs.count; i++)
			if (strcmp(name, p->backwards[e].program->outputs.at[i].name) == 0)
				vec_push(p->a, found, ((PairArg){PAIR_BACKWARD, e, i}));
}

static void find_the_cotangent(Pairer *p, const char *name, PairArgs *found) {
	const KProgram *f = p->forward->program;
	uint32_t count = 0, last = 0;
	for (uint32_t i = 0; i < f->outputs.count; i++)
		if (has_cotangent(p, i)) {
			count++;
			last = i;
		}
	if (count == 1 && is_the_cotangent(name))
		vec_push(p->a, found, ((PairArg){PAIR_COTANGENT, NONE, last}));
}

/* All arrays that an input of backward `b` may be. */
static PairArgs candidates(Pairer *p, uint32_t b, const char *name) {
	const KProgram *program = p->backwards[b].program;
	const char *residual = wished(p->wishes->residuals, program, name);
	const char *cotangent = wished(p->wishes->cotangents, program, name);
	PairArgs found = {0};
	if (residual)
		find_forward_arrays(p, residual, true, &found);
	if (cotangent)
		find_cotangents(p, cotangent, true, &found);
	if (residual || cotangent)
		return found;
	find_forward_arrays(p, name, false, &found);
	find_cotangents(p, name, false, &found);
	find_earlier(p, b, name, &found);
	if (found.count == 0)
		find_the_cotangent(p, name, &found);
	return found;
}

/* What the caller said of the array, if that is why nothing is found. */
static const char *said_of(Pairer *p, const KProgram *program, const char *name, bool output) {
	const char *residual = output ? NULL : wished(p->wishes->residuals, program, name);
	const char *cotangent = output ? NULL : wished(p->wishes->cotangents, program, name);
	const char *gradient = output ? wished(p->wishes->gradients, program, name) : NULL;
	const char *list = residual ? "residuals" : cotangent ? "cotangents" : "gradients";
	const char *forward = residual ? residual : cotangent ? cotangent : gradient;
	return forward ? arena_printf(p->a, ", as `%s` has it: '%s'", list, forward) : "";
}

static const char *hint_unknown(Pairer *p, const char *name) {
	const KProgram *f = p->forward->program;
	if (is_the_cotangent(name) && f->outputs.count > 1)
		return arena_printf(p->a,
		                    "%s has the outputs %s: say in `returns` which one is not a residual alone, or in "
		                    "`cotangents` whose cotangent it is",
		                    f->name, names_text(p, f->outputs.count, f->outputs.at));
	return arena_printf(
		p->a,
		"%s has the inputs %s and the outputs %s; the cotangent of 'y' is called d_y, dy, grad_y or "
		"y_grad; or say which it is, in `residuals` or `cotangents`",
		f->name, names_text(p, f->inputs.count, f->inputs.at), names_text(p, f->outputs.count, f->outputs.at));
}

static void say_unknown(Pairer *p, uint32_t b, const KArray *x) {
	const KProgram *f = p->forward->program;
	diag_error(p->d, array_place(p, &p->backwards[b], x), "pair-unknown", hint_unknown(p, x->name),
	           "input '%s' of %s is no input, output or cotangent of %s, nor given by an earlier backward%s",
	           x->name, p->backwards[b].program->name, f->name,
	           said_of(p, p->backwards[b].program, x->name, false));
}

static void say_ambiguous(Pairer *p, Place at, const char *what, const PairArgs *found) {
	const KArray *x = array_of(p, found->at[0]);
	bool both = strcmp(x->name, array_of(p, found->at[1])->name) == 0 && found->at[0].from == PAIR_INPUT &&
	            found->at[1].from == PAIR_OUTPUT;
	const char *hint =
		both ? arena_printf(p->a, "'%s_in' is what it was before the update, '%s_out' what it became", x->name,
	                            x->name)
		     : "say which, in `residuals`, `cotangents` or `gradients`";
	diag_error(p->d, at, "pair-ambiguous", hint, "%s may be %s or %s", what, arg_words(p, found->at[0]),
	           arg_words(p, found->at[1]));
}

static bool same_type(const KArray *x, const KArray *y) {
	return x->dtype == y->dtype && x->scalar == y->scalar &&
	       kernel_same_shape(x->rank, x->shape, y->rank, y->shape);
}

static void say_mismatch(Pairer *p, Place at, const char *what, const KArray *x, PairArg other, const char *hint) {
	diag_error(p->d, at, "pair-mismatch", hint, "%s is %s, %s is %s", what, type_text(p, x), arg_words(p, other),
	           type_text(p, array_of(p, other)));
}

static void pair_input(Pairer *p, uint32_t b, uint32_t i) {
	const KProgram *program = p->backwards[b].program;
	const KArray *x = &program->inputs.at[i];
	PairArgs found = candidates(p, b, x->name);
	const char *what = arena_printf(p->a, "input '%s' of %s", x->name, program->name);
	Place at = array_place(p, &p->backwards[b], x);
	if (found.count == 0) {
		say_unknown(p, b, x);
		return;
	}
	if (found.count > 1) {
		say_ambiguous(p, at, what, &found);
		return;
	}
	PairArg arg = found.at[0];
	const KArray *is = array_of(p, arg);
	p->args[b][i] = arg;
	if (arg.from == PAIR_COTANGENT && !dtype_is_float(is->dtype))
		diag_error(p->d, at, "pair-cotangent", NULL, "%s is %s, which has none: it is %s", what,
		           arg_words(p, arg), dtype_name(is->dtype));
	else if (!same_type(x, is))
		say_mismatch(p, at, what, x, arg, NULL);
	if (arg.from == PAIR_COTANGENT)
		p->cotangent_read[arg.index] = true;
	if (arg.from == PAIR_BACKWARD)
		p->read[arg.backward][arg.index] = true;
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

static PairArgs gradient_candidates(Pairer *p, const KProgram *program, const char *name) {
	const KProgram *f = p->forward->program;
	const char *wish = wished(p->wishes->gradients, program, name);
	PairArgs found = {0};
	for (uint32_t i = 0; i < f->inputs.count; i++)
		if (wish ? strcmp(wish, f->inputs.at[i].name) == 0 : is_derivative(p, name, side_name(p, true, i)))
			vec_push(p->a, &found, ((PairArg){PAIR_INPUT, NONE, i}));
	return found;
}

static void take_gradient(Pairer *p, uint32_t b, uint32_t i, PairArg of) {
	const KArray *x = &p->backwards[b].program->outputs.at[i], *input = array_of(p, of);
	const char *what = arena_printf(p->a, "output '%s' of %s", x->name, p->backwards[b].program->name);
	Place at = array_place(p, &p->backwards[b], x);
	PairArg *gradient = &p->gradients[of.index];
	if (gradient->backward != NONE)
		diag_error(p->d, at, "pair-gradient", "one of them has to go",
		           "%s is a second gradient of %s, beside %s", what, arg_words(p, of), arg_words(p, *gradient));
	else if (is_named(p->wishes->nondiff, input->name))
		diag_error(p->d, at, "pair-gradient", "leave it out of `nondiff`",
		           "%s is the gradient of %s, which `nondiff` says has none", what, arg_words(p, of));
	else if (!dtype_is_float(input->dtype))
		diag_error(p->d, at, "pair-gradient", NULL, "%s is the gradient of %s, which has none: it is %s", what,
		           arg_words(p, of), dtype_name(input->dtype));
	else if (!same_type(x, input))
		say_mismatch(p, at, what, x, of,
		             x->dtype != input->dtype && kernel_same_shape(x->rank, x->shape, input->rank, input->shape)
		                     ? "a gradient has the dtype of its input: convert it where it is "
		                       "stored, or by a step of `returns`"
		                     : NULL);
	*gradient = (PairArg){PAIR_BACKWARD, b, i};
}

static void say_no_gradient(Pairer *p, uint32_t b, const KArray *x) {
	const KProgram *f = p->forward->program, *program = p->backwards[b].program;
	const char *hint =
		arena_printf(p->a,
	                     "%s has the inputs %s; the gradient of 'x' is called d_x, dx, grad_x or x_grad; "
	                     "or say whose it is, in `gradients`",
	                     f->name, names_text(p, f->inputs.count, f->inputs.at));
	diag_error(p->d, array_place(p, &p->backwards[b], x), "pair-unknown", hint,
	           "output '%s' of %s is the gradient of no input of %s, and no later backward reads it%s", x->name,
	           program->name, f->name, said_of(p, program, x->name, true));
}

static void pair_output(Pairer *p, uint32_t b, uint32_t i) {
	const KProgram *program = p->backwards[b].program;
	const KArray *x = &program->outputs.at[i];
	PairArgs found = gradient_candidates(p, program, x->name);
	if (found.count > 1)
		say_ambiguous(p, array_place(p, &p->backwards[b], x),
		              arena_printf(p->a, "output '%s' of %s", x->name, program->name), &found);
	else if (found.count == 1)
		take_gradient(p, b, i, found.at[0]);
	else if (!p->read[b][i])
		say_no_gradient(p, b, x);
}

/* ---- what is missing -------------------------------------------------------------------------------------------- */

static void check_whole(Pairer *p) {
	const KProgram *f = p->forward->program;
	for (uint32_t i = 0; i < f->inputs.count; i++) {
		const KArray *x = &f->inputs.at[i];
		if (p->gradients[i].backward == NONE && !is_named(p->wishes->nondiff, x->name))
			diag_error(p->d, array_place(p, p->forward, x), "pair-gradient",
			           arena_printf(p->a,
			                        "name it in `nondiff`: then it is zero; or, in `gradients`, the output "
			                        "that it is"),
			           "no backward gives the gradient of input '%s' of %s", x->name, f->name);
	}
	for (uint32_t i = 0; i < f->outputs.count; i++) {
		const KArray *x = &f->outputs.at[i];
		if (has_cotangent(p, i) && !p->cotangent_read[i])
			diag_error(p->d, array_place(p, p->forward, x), "pair-cotangent",
			           "if it is only a residual, leave it out of `returns`; name it in `nondiff`, and its "
			           "cotangent is ignored; or, in `cotangents`, the input that takes it",
			           "%s returns '%s', whose cotangent no backward takes", f->name, x->name);
	}
}

static bool is_of_a_backward(const Pairer *p, const char *wish, bool output) {
	for (uint32_t b = 0; b < p->out->backward_count; b++) {
		const KProgram *program = p->backwards[b].program;
		const KArray *arrays = output ? program->outputs.at : program->inputs.at;
		for (uint32_t i = 0; i < (output ? program->outputs.count : program->inputs.count); i++)
			if (wish_of_array(wish, program, arrays[i].name, true) ||
			    wish_of_array(wish, program, arrays[i].name, false))
				return true;
	}
	return false;
}

/* What a wish says of a name that no backward has was meant for another name. */
static void check_wishes(Pairer *p, NameList wishes, const char *what, bool output) {
	for (uint32_t i = 0; i < wishes.count; i++)
		if (!is_of_a_backward(p, wishes.at[i], output))
			diag_error(p->d, (Place){.source = p->backwards[0].source}, "pair-name",
			           "it takes BACKWARD=FORWARD, the names of two arrays",
			           "`%s` says '%s', but no backward has such an %s", what, wishes.at[i],
			           output ? "output" : "input");
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static bool can_be_paired(Pairer *p, const PairPart *part) {
	for (uint32_t i = 0; i < part->program->kernels.count; i++) {
		const Kernel *k = part->program->kernels.at[i];
		if (k->mesh_axis || k->sparse_cores) {
			diag_error(p->d, (Place){.source = part->source}, "pair-program", NULL,
			           "%s runs on %s, and cannot be paired", part->program->name,
			           k->mesh_axis ? "a mesh of devices" : "SparseCores");
			return false;
		}
	}
	if (strcmp(part->program->target, p->forward->program->target) != 0) {
		diag_error(p->d, (Place){.source = part->source}, "pair-program", "compile both for one chip",
		           "%s is for %s, %s for %s", part->program->name, part->program->target,
		           p->forward->program->name, p->forward->program->target);
		return false;
	}
	return true;
}

static bool name_is_taken(const Pairer *p, uint32_t b, const char *name) {
	for (uint32_t i = 0; i <= b; i++) {
		const KProgram *program = i ? p->backwards[i - 1].program : p->forward->program;
		if (strcmp(program->name, name) == 0)
			return true;
		for (uint32_t k = 0; k < program->kernels.count; k++)
			if (strcmp(program->kernels.at[k]->name, name) == 0)
				return true;
	}
	return false;
}

/* One module has them all. */
static void make_names_differ(Pairer *p, uint32_t b) {
	KProgram *program = p->backwards[b].program;
	while (name_is_taken(p, b, program->name))
		program->name = arena_printf(p->a, "%s_bwd", program->name);
	for (uint32_t k = 0; k < program->kernels.count; k++)
		while (name_is_taken(p, b, program->kernels.at[k]->name))
			program->kernels.at[k]->name = arena_printf(p->a, "%s_bwd", program->kernels.at[k]->name);
}

static void start(Pairer *p, uint32_t count) {
	const KProgram *f = p->forward->program;
	const KProgram **backwards = arena_array(p->a, count + 1, sizeof *backwards);
	p->returned = arena_array(p->a, f->outputs.count + 1, sizeof *p->returned);
	p->cotangent_read = arena_array(p->a, f->outputs.count + 1, sizeof *p->cotangent_read);
	p->gradients = arena_array(p->a, f->inputs.count + 1, sizeof *p->gradients);
	p->args = arena_array(p->a, count + 1, sizeof *p->args);
	p->read = arena_array(p->a, count + 1, sizeof *p->read);
	for (uint32_t i = 0; i < f->inputs.count; i++)
		p->gradients[i].backward = NONE;
	for (uint32_t b = 0; b < count; b++) {
		const KProgram *program = backwards[b] = p->backwards[b].program;
		p->args[b] = arena_array(p->a, program->inputs.count + 1, sizeof *p->args[b]);
		p->read[b] = arena_array(p->a, program->outputs.count + 1, sizeof *p->read[b]);
	}
	*p->out = (Pairing){.forward = f,
	                    .returned = p->returned,
	                    .backward_count = count,
	                    .backwards = backwards,
	                    .args = (const PairArg *const *)p->args,
	                    .gradients = p->gradients};
}

const Pairing *pairing_make(Arena *a, Diag *d, const PairPart *forward, const PairPart *backwards, uint32_t count,
                            const PairWishes *wishes) {
	Pairing *out = arena_alloc(a, sizeof *out);
	Pairer p = {.a = a, .d = d, .forward = forward, .backwards = backwards, .wishes = wishes, .out = out};
	bool ok = can_be_paired(&p, forward);
	for (uint32_t b = 0; b < count; b++)
		ok &= can_be_paired(&p, &backwards[b]);
	if (!ok)
		return NULL;
	for (uint32_t b = 0; b < count; b++)
		make_names_differ(&p, b);
	start(&p, count);
	check_names(&p);
	check_wishes(&p, wishes->residuals, "residuals", false);
	check_wishes(&p, wishes->cotangents, "cotangents", false);
	check_wishes(&p, wishes->gradients, "gradients", true);
	choose_returned(&p);
	uint32_t before = d->errors;
	for (uint32_t b = 0; b < count; b++)
		for (uint32_t i = 0; i < backwards[b].program->inputs.count; i++)
			pair_input(&p, b, i);
	for (uint32_t b = 0; b < count; b++)
		for (uint32_t i = 0; i < backwards[b].program->outputs.count; i++)
			pair_output(&p, b, i);
	if (d->errors == before) /* else what is missing follows from what was said */
		check_whole(&p);
	return d->errors ? NULL : out;
}
