/* diag.c - collecting diagnostics. How they look is diag_print.c's. */
#include "base.h"

void diag_init(Diag *d, Arena *a) { *d = (Diag){.arena = a}; }

Place diag_place(Diag *d, const Source *source, const char *pointer_fmt, ...) {
	va_list ap;
	va_start(ap, pointer_fmt);
	Place at = {.source = source, .pointer = arena_vprintf(d->arena, pointer_fmt, ap)};
	va_end(ap);
	return at;
}

const char *diag_pointer_token(Diag *d, const char *key) {
	Text t;
	text_init(&t, d->arena);
	text_put(&t, "");
	for (; *key; key++) {
		if (*key == '~')
			text_put(&t, "~0");
		else if (*key == '/')
			text_put(&t, "~1");
		else
			text_putn(&t, key, 1);
	}
	return t.at;
}

/* A name of a megabyte makes no better message. */
static const char *message_cut(Arena *a, const char *fmt, va_list ap) {
	enum { MESSAGE_MAX = 1000 };
	char *s = arena_vprintf(a, fmt, ap);
	if (strlen(s) > MESSAGE_MAX + 3)
		memcpy(s + MESSAGE_MAX, "...", 4);
	return s;
}

static void diag_add(Diag *d, Severity severity, Place at, const char *code, const char *hint, const char *fmt,
                     va_list ap) {
	uint32_t count = severity == SEVERITY_ERROR ? ++d->errors : ++d->others;
	d->dropped = count > (severity == SEVERITY_ERROR ? (uint32_t)DIAG_ERROR_LIMIT : (uint32_t)DIAG_OTHER_LIMIT);
	if (d->dropped)
		return;
	Diagnostic x = {.severity = severity,
	                .code = code,
	                .at = at,
	                .message = message_cut(d->arena, fmt, ap),
	                .hint = hint ? arena_strdup(d->arena, hint) : NULL};
	vec_push(d->arena, &d->list, x);
}

void diag_error(Diag *d, Place at, const char *code, const char *hint, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	diag_add(d, SEVERITY_ERROR, at, code, hint, fmt, ap);
	va_end(ap);
}

void diag_warning(Diag *d, Place at, const char *code, const char *hint, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	diag_add(d, SEVERITY_WARNING, at, code, hint, fmt, ap);
	va_end(ap);
}

void diag_note(Diag *d, Place at, const char *code, const char *hint, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	diag_add(d, SEVERITY_NOTE, at, code, hint, fmt, ap);
	va_end(ap);
}

static bool same_place(const Place *a, const Place *b) {
	return a->source == b->source && a->pointer && b->pointer && strcmp(a->pointer, b->pointer) == 0;
}

void diag_related(Diag *d, Place at, const char *fmt, ...) {
	if (d->dropped || d->list.count == 0)
		return;
	Diagnostic *x = &d->list.at[d->list.count - 1];
	bool known = x->related.count == DIAG_RELATED_LIMIT || same_place(&x->at, &at);
	for (uint32_t i = 0; i < x->related.count; i++)
		known |= same_place(&x->related.at[i].at, &at);
	if (known)
		return;
	va_list ap;
	va_start(ap, fmt);
	Related r = {.at = at, .message = message_cut(d->arena, fmt, ap)};
	va_end(ap);
	vec_push(d->arena, &x->related, r);
}
