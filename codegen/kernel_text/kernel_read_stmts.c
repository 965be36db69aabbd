/* kernel_read_stmts.c - reading statements and the regions that they stand in. */
#include "kernel_reader.h"

/* ---- the parts of a statement ----------------------------------------------------------------------------------- */

static void read_results(KReader *r, Draft *d) {
	if (!kread_next_is(r, "=") && !kread_next_is(r, ","))
		return;
	do {
		Token name = r->token;
		if (kread_is(r, "_"))
			kread_token(r);
		else
			name = kread_name(r);
		vec_push(r->a, &d->results, name);
	} while (kread_accept(r, ","));
	kread_expect(r, "=");
}

static const char *near_op(KReader *r, const char *word) {
	const char *names[K_END - K_FIRST + OP_COUNT + 1];
	uint32_t count = 0;
	for (uint16_t op = 0; op < K_END; op++) {
		const char *name = op == K_FIRST ? NULL : kernel_op_name(r->a, op);
		if (name && kernel_op_find(name) == op)
			names[count++] = name;
	}
	names[count] = NULL;
	const char *near = name_nearest(word, names);
	return near ? arena_printf(r->a, "did you mean '%s'?", near) : NULL;
}

static void read_op(KReader *r, Draft *d) {
	Token name = r->token;
	if (name.kind != TOKEN_NAME) {
		kread_expected(r, "a statement");
		return;
	}
	uint32_t op = map_get(&r->op_of, map_key(name.text));
	if (op == NONE)
		map_put(r->a, &r->op_of, map_key(name.text), op = kernel_op_find(name.text));
	if (op == K_END)
		kread_error(r, &name, "kernel-op", near_op(r, name.text), "there is no op '%s'", name.text);
	d->op = (uint16_t)op;
	kread_token(r);
}

static void read_items(KReader *r, Draft *d) {
	kread_expect(r, "[");
	for (bool more = !kread_is(r, "]"); more && !r->failed; more = kread_accept(r, ",")) {
		int64_t item[3] = {K_ITEM_ALL, 0, 0};
		if (kread_accept(r, "None")) {
			item[0] = K_ITEM_NEW;
		} else if (kread_accept(r, "...")) {
			item[0] = K_ITEM_REST;
		} else if (kread_accept(r, ":")) {
			item[0] = r->token.kind == TOKEN_INTEGER ? K_ITEM_FIRST : K_ITEM_ALL;
			item[2] = item[0] == K_ITEM_FIRST ? kread_number(r, "an item's end", 0, INT32_MAX) : 0;
		} else {
			item[0] = K_ITEM_AT;
			item[1] = kread_number(r, "an item", 0, INT32_MAX);
			if (kread_accept(r, ":")) {
				item[0] = K_ITEM_RANGE;
				item[2] = kread_number(r, "an item's end", 0, INT32_MAX);
			}
		}
		for (int i = 0; i < 3; i++)
			vec_push(r->a, &d->ints, item[i]);
	}
	kread_expect(r, "]");
}

static void read_number_list(KReader *r, Draft *d) {
	kread_expect(r, "(");
	for (bool more = !kread_is(r, ")"); more && !r->failed; more = kread_accept(r, ",")) {
		int64_t number = kread_number(r, "a number", INT64_MIN, INT64_MAX);
		vec_push(r->a, &d->ints, number);
	}
	kread_expect(r, ")");
}

/* In the order of the op's row. */
static void read_attributes(KReader *r, Draft *d) {
	const KOpRow *row = kernel_op_row(d->op);
	const char *at = row ? row->attributes : "";
	while (*at && !r->failed) {
		size_t n = strcspn(at, " *");
		char *name = arena_alloc(r->a, n + 1);
		memcpy(name, at, n);
		at += n + (at[n] == '*');
		bool list = at[-1] == '*';
		at += strspn(at, " ");
		if (list && !kread_is(r, name)) /* empty */
			return;
		if (!kread_is(r, name)) {
			kread_expected(r, arena_printf(r->a, "the attribute '%s='", name));
			return;
		}
		kread_token(r);
		kread_expect(r, "=");
		if (list && d->op == K_INDEX) {
			read_items(r, d);
		} else if (list) {
			read_number_list(r, d);
		} else {
			int64_t number = kread_number(r, name, INT64_MIN, INT64_MAX);
			vec_push(r->a, &d->ints, number);
		}
	}
}

static void read_types(KReader *r, Draft *d) {
	Token at = r->token;
	if (kread_accept(r, ":") && d->results.count)
		do {
			ReadType type = kread_type(r);
			vec_push(r->a, &d->types, type);
		} while (kread_accept(r, ","));
	if (!r->failed && d->types.count != d->results.count)
		kread_error(r, &at, "kernel-count", "each result has its type, behind a colon",
		            "the statement gives %u value%s and states %u type%s", d->results.count,
		            d->results.count == 1 ? "" : "s", d->types.count, d->types.count == 1 ? "" : "s");
}

static const Location *read_line_number(KReader *r) {
	Token at = r->token;
	if (kread_accept(r, "_"))
		return NULL;
	int64_t number = kread_number(r, "the number of a source line", 1, INT32_MAX);
	if (!r->failed && number > r->lines.count)
		kread_error(r, &at, "kernel-unknown", "the kernel's signature has them: line N NUMBER \"TEXT\"",
		            "there is no source line @%lld", (long long)number);
	return r->failed ? NULL : r->lines.at[number - 1];
}

/* stash NAME: of a value, where rows are computed in strips. */
static void read_stash(KReader *r, ValueId v) {
	Token at = r->token;
	kread_token(r);
	KStash stash = {v, kread_known(r, ENTRY_BUFFER)};
	if (r->failed)
		return;
	if (!r->k->strips || v == NONE)
		kread_error(r, &at, "kernel-structure", "the signature says: strips SIZE WIDTH",
		            v == NONE ? "there is no value to keep" : "no rows are computed in strips");
	else
		vec_push(r->a, &r->k->strips->stashes, stash);
}

static void read_words(KReader *r, Draft *d) {
	KStmt *s = kernel_stmt(r->k, d->stmt);
	if (kread_accept(r, "named"))
		d->name = kread_variable(r, "a name");
	s->name = s->var = d->name;
	if (kread_is(r, "stash"))
		read_stash(r, s->result);
	if (kread_accept(r, "narrow"))
		s->flags |= KSTMT_NARROW;
	if (kread_accept(r, "ahead"))
		s->flags |= KSTMT_AHEAD;
	if (kread_accept(r, "said"))
		s->flags |= KSTMT_SAID;
	if (kread_accept(r, "initial"))
		s->flags |= KSTMT_INITIAL;
	if (kread_accept(r, "@"))
		s->from = read_line_number(r);
	if (kread_accept(r, "@"))
		s->also = read_line_number(r);
}

void draft_make(KReader *r, Draft *d) {
	Kernel *k = r->k;
	read_types(r, d);
	if (r->failed)
		return;
	d->stmt = kernel_append(k, d->region, d->op, d->args.count, d->args.at, d->ints.count, d->ints.at);
	kernel_stmt(k, d->stmt)->function = d->function;
	while (k->line_of.count <= d->stmt)
		vec_push(r->a, &k->line_of, (uint32_t)r->line);
	for (uint32_t i = 0; i < d->results.count; i++) {
		const ReadType *type = &d->types.at[i];
		const Token *name = &d->results.at[i];
		const char *var = strcmp(name->text, "_") == 0 ? NULL : token_variable(name);
		ValueId v = kernel_result(k, d->stmt, type->type, type->dtype, type->rank, type->shape, var);
		k->values.at[v].layout = type->layout;
		k->values.at[v].var = var;
	}
	read_words(r, d);
}

static void add_results(KReader *r, const Draft *d) {
	for (uint32_t i = 0; i < d->results.count && !r->failed; i++)
		if (strcmp(d->results.at[i].text, "_") != 0)
			kscope_add(r, d->results.at[i].text, ENTRY_VALUE, kernel_stmt(r->k, d->stmt)->result + i);
}

/* ---- regions ---------------------------------------------------------------------------------------------------- */

static void read_stmt(KReader *r, RegionId region);

void kread_block(KReader *r, RegionId region, ReadOwnLine *read_own, void *data) {
	uint32_t mark = r->scope.count;
	Token at = r->token;
	if (!kread_expect(r, "{") || !kread_end_of_line(r))
		return;
	if (++r->region_depth > READ_REGION_DEPTH)
		kread_error(r, &at, "kernel-depth", NULL, "regions are nested more than %d deep", READ_REGION_DEPTH);
	while (kread_line(r) && !kread_is(r, "}")) {
		if (!read_own || !read_own(r, data)) {
			if (region == NONE)
				kread_expected(r, "'in', 'out' or '}'");
			else
				read_stmt(r, region);
		}
		kread_end_of_line(r);
	}
	kread_expect(r, "}");
	kread_end_of_line(r);
	r->region_depth--;
	kscope_cut(r, mark);
}

void draft_body(KReader *r, Draft *d, ReadOwnLine *read_own, void *data) {
	if (r->failed)
		return;
	RegionId body = kernel_region(r->k, d->stmt);
	kernel_stmt(r->k, d->stmt)->body = body;
	kread_block(r, body, read_own, data);
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

static KParameter read_parameter(KReader *r) {
	Token name = kread_name(r);
	KParameter x = {.kind = PARAMETER_VALUE};
	int64_t shape[KDIM_MAX];
	kread_expect(r, ":");
	bool buffer = kread_next_is(r, "[") ? kread_is(r, "dma") || kread_is(r, "regular") : false;
	for (const char *const *w = (const char *const[]){"vmem", "hbm", "smem", "prefetch", NULL}; *w; w++)
		buffer = buffer || kread_is(r, *w);
	if (buffer) {
		KBuffer b = kread_buffer_type(r, shape);
		b.role = BUFFER_PARAMETER;
		x.kind = PARAMETER_BUFFER;
		x.id = kread_new_buffer(r, &name, b);
		return x;
	}
	ReadType type = kread_type(r);
	if (type.type == KTYPE_FLAG && !kread_accept(r, "given"))
		x.kind = PARAMETER_FLAG;
	x.id = kread_new_value(r, &name, &type);
	return x;
}

static void read_def(KReader *r, Draft *d) {
	Token name = kread_name(r);
	uint32_t mark = r->scope.count;
	if (r->failed)
		return;
	d->function = kernel_function(r->k, FUNCTION_PLAIN, token_variable(&name));
	r->k->functions.at[d->function].var = token_variable(&name);
	if (name.kind == TOKEN_NUMBERED)
		r->k->functions.at[d->function].name = "function";
	kread_expect(r, "(");
	for (bool more = !kread_is(r, ")"); more && !r->failed; more = kread_accept(r, ",")) {
		KParameter x = read_parameter(r);
		vec_push(r->a, &r->k->functions.at[d->function].parameters, x);
	}
	kread_expect(r, ")");
	if (kread_accept(r, "fori"))
		r->k->functions.at[d->function].kind = FUNCTION_FORI;
	else if (kread_accept(r, "while"))
		r->k->functions.at[d->function].kind = FUNCTION_WHILE;
	draft_make(r, d);
	if (r->failed)
		return;
	RegionId body = r->k->functions.at[d->function].body;
	r->k->regions.at[body].owner = d->stmt;
	kread_block(r, body, NULL, NULL);
	kscope_cut(r, mark);
	kscope_add(r, name.text, ENTRY_FUNCTION, d->function);
}

/* The next token is the name of that flag parameter. */
static bool at_flag(const KReader *r, const KFunction *f, uint32_t i) {
	if (i >= f->parameters.count || f->parameters.at[i].kind != PARAMETER_FLAG || kread_is(r, "_"))
		return false;
	const char *var = r->k->values.at[f->parameters.at[i].id].var;
	if (!var)
		return r->token.kind == TOKEN_NUMBERED;
	return (r->token.kind == TOKEN_NAME || r->token.kind == TOKEN_STRING) && strcmp(var, r->token.text) == 0;
}

static void read_called(KReader *r, Draft *d) {
	d->function = kread_known(r, ENTRY_FUNCTION);
	kread_expect(r, "(");
	for (bool more = !kread_is(r, ")"); more && !r->failed; more = kread_accept(r, ",")) {
		const KFunction *f = &r->k->functions.at[d->function];
		bool flag = at_flag(r, f, d->args.count);
		KArg arg = karg_value(flag ? f->parameters.at[d->args.count].id : NONE);
		if (flag)
			kread_token(r);
		if (!flag || kread_accept(r, "="))
			arg = kread_arg(r);
		vec_push(r->a, &d->args, arg);
	}
	kread_expect(r, ")");
	draft_make(r, d);
}

/* ---- any statement ---------------------------------------------------------------------------------------------- */

static void read_when(KReader *r, Draft *d) {
	kread_args(r, &d->args);
	bool word = kread_is(r, "ahead") || kread_is(r, "named") || kread_is(r, "said") || kread_is(r, "initial");
	if (r->token.kind == TOKEN_STRING || (r->token.kind == TOKEN_NAME && !word))
		d->name = kread_variable(r, "a name");
	draft_make(r, d);
	draft_body(r, d, NULL, NULL);
}

static void read_if(KReader *r, Draft *d) {
	KArg condition = kread_arg(r);
	vec_push(r->a, &d->args, condition);
	if (kread_accept(r, "else")) {
		kread_expect(r, "(");
		kread_args(r, &d->args);
		kread_expect(r, ")");
	}
	draft_make(r, d);
	draft_body(r, d, NULL, NULL);
}

/* A text stands before the values. */
static void read_debug_print(KReader *r, Draft *d) {
	const char *text = r->token.text;
	if (r->token.kind != TOKEN_STRING) {
		kread_expected(r, "a text in quotes");
		return;
	}
	kread_token(r);
	kread_expect(r, ",");
	kread_args(r, &d->args);
	read_attributes(r, d);
	draft_make(r, d);
	if (!r->failed)
		kernel_stmt(r->k, d->stmt)->text = text;
}

static void read_plain(KReader *r, Draft *d) {
	if (d->op == K_LAUNCH && kread_is(r, "kernel") && kread_next_is(r, "=")) {
		read_attributes(r, d);
		if (kread_accept(r, ","))
			kread_args(r, &d->args);
	} else {
		kread_args(r, &d->args);
		read_attributes(r, d);
	}
	draft_make(r, d);
}

static void read_stmt(KReader *r, RegionId region) {
	Draft d = {.function = NONE, .region = region};
	read_results(r, &d);
	if (!r->failed)
		read_op(r, &d);
	if (r->failed)
		return;
	switch (d.op) {
	case K_DEF: read_def(r, &d); break;
	case K_CALL:
	case K_WHILE: read_called(r, &d); break;
	case K_FORI: {
		KArg count = kread_arg(r);
		vec_push(r->a, &d.args, count);
		if (!kread_next_is(r, "(") && kread_accept(r, "unroll")) {
			int64_t steps = kread_number(r, "how many steps", 2, INT16_MAX);
			vec_push(r->a, &d.ints, steps);
		}
		read_called(r, &d);
		break;
	}
	case K_WHEN: read_when(r, &d); break;
	case K_IF: read_if(r, &d); break;
	case K_FOR: kread_for(r, &d); break;
	case K_LOOP: kread_loop(r, &d); break;
	case K_PIPELINE: kread_pipeline(r, &d); break;
	case K_DEBUG_PRINT: read_debug_print(r, &d); break;
	default: read_plain(r, &d); break;
	}
	add_results(r, &d);
}
