/* origin.c - of which line of a program a place in a document is: the kernel that was exported. A document says it in
 * each node's `loc`; the line's code stands there too, or is read from the file if that is near. */
#define _POSIX_C_SOURCE 200809L
#include "base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 400, CODE_MAX_BYTES = 400, FILE_MAX_BYTES = 1 << 22 };

/* ---- the line in its file ---------------------------------------------------------------------------------------- */

/* A document may name any file: only Python is read, and nothing that would have to be waited for. */
static bool is_python(const char *file) {
	size_t n = strlen(file);
	return n > 3 && strcmp(file + n - 3, ".py") == 0;
}

static const char *file_text(Arena *a, const char *path) {
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	char *text = NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < FILE_MAX_BYTES) {
		text = arena_alloc(a, (size_t)st.st_size + 1);
		ssize_t n = read(fd, text, (size_t)st.st_size);
		text[n > 0 ? n : 0] = '\0';
	}
	close(fd);
	return text;
}

/* Without the white space around it; NULL if the text is shorter. */
static const char *line_of(Arena *a, const char *text, int64_t line) {
	for (; text && line > 1; line--) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	if (!text)
		return NULL;
	text += strspn(text, " \t");
	size_t length = strcspn(text, "\r\n");
	return length ? arena_printf(a, "%.*s", (int)(length < CODE_MAX_BYTES ? length : CODE_MAX_BYTES), text) : NULL;
}

static const char *code_read(Arena *a, const Source *source, const Location *loc) {
	if (loc->line < 1 || !is_python(loc->file))
		return NULL;
	const char *slash = source ? strrchr(source->name, '/') : NULL;
	const char *beside = slash && *loc->file != '/'
	                             ? arena_printf(a, "%.*s/%s", (int)(slash - source->name), source->name, loc->file)
	                             : loc->file;
	const char *text = file_text(a, beside);
	return line_of(a, text ? text : file_text(a, loc->file), loc->line);
}

/* ---- the node ---------------------------------------------------------------------------------------------------- */

/* The length of "/graphs/G/nodes/N", with which a pointer begins; 0: with none. */
static size_t node_length(const char *pointer) {
	static const char *const words[] = {"/graphs/", "/nodes/"};
	size_t length = 0;
	for (int i = 0; i < 2; i++) {
		size_t n = strlen(words[i]), digits;
		if (strncmp(pointer + length, words[i], n) != 0)
			return 0;
		digits = strspn(pointer + length + n, "0123456789");
		length += n + digits;
		if (digits == 0)
			return 0;
	}
	return length;
}

static int64_t int_at(const Source *source, const char *pointer) {
	size_t offset;
	return diag_offset(source, pointer, false, &offset) ? strtoll(source->text + offset, NULL, 10) : 0;
}

/* The text from the place that `pointer` is of, where the document has it. */
static bool source_from(const Source *source, const char *pointer, Source *from) {
	size_t offset;
	if (!diag_offset(source, pointer, false, &offset))
		return false;
	*from = (Source){source->name, source->text + offset, source->length - offset};
	return true;
}

Origin origin_find(Arena *a, const Place *at, bool read_code) {
	Origin from = {.loc = at->loc};
	Source node;
	size_t length = at->pointer && at->source && at->source->text ? node_length(at->pointer) : 0;
	bool found = length && source_from(at->source, arena_printf(a, "%.*s", (int)length, at->pointer), &node);
	if (found)
		from.node = diag_string(a, &node, "/name", NAME_MAX_BYTES);
	if (found && strncmp(at->pointer + length, "/loc", 4) == 0)
		from.loc = (Location){0}; /* it is about that itself */
	else if (found && !from.loc.file)
		from.loc = (Location){.file = diag_string(a, &node, "/loc/file", NAME_MAX_BYTES),
		                      .line = int_at(&node, "/loc/line"),
		                      .code = diag_string(a, &node, "/loc/code", CODE_MAX_BYTES)};
	if (!from.loc.file || !*from.loc.file)
		from.loc = (Location){0};
	else if (read_code && !(from.loc.code && *from.loc.code))
		from.loc.code = code_read(a, at->source, &from.loc);
	return from;
}
