/* files.c - reading whole documents and replacing files atomically. */
#define _XOPEN_SOURCE 700
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_MIN = 64 * 1024, READ_MAX = 1 << 30, TEMPORARY_TRIES = 100 };

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Room for what fstat() promises; a pipe promises nothing. */
static size_t size_hint(int fd) {
	struct stat st;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > READ_MAX)
		return READ_MIN;
	return (size_t)st.st_size + 2; /* the NUL, and a byte for the read() that finds the end */
}

static const char *read_all(Arena *a, int fd, Source *source) {
	size_t room = size_hint(fd), length = 0;
	char *text = arena_alloc(a, room);
	for (;;) {
		ssize_t n = read(fd, text + length, room - length - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return strerror(errno);
		if (n == 0)
			break;
		length += (size_t)n;
		if (length > READ_MAX)
			return "larger than 1 GiB";
		if (length + 1 < room)
			continue;
		char *grown = arena_alloc(a, room * 2);
		memcpy(grown, text, length);
		text = grown;
		room *= 2;
	}
	text[length] = '\0';
	source->text = text;
	source->length = length;
	return NULL;
}

const char *file_read(Arena *a, const char *path, Source *source) {
	bool standard = strcmp(path, "-") == 0;
	source->name = standard ? "<stdin>" : path;
	int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return strerror(errno);
	const char *error = read_all(a, fd, source);
	if (!standard)
		close(fd);
	return error;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static const char *write_all(int fd, const char *text, size_t length) {
	while (length > 0) {
		ssize_t n = write(fd, text, length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return strerror(errno);
		text += n;
		length -= (size_t)n;
	}
	return NULL;
}

const char *output_write(const char *text, size_t length) { return write_all(STDOUT_FILENO, text, length); }

/* A new file in the directory of `path`, with the mode that the file has, or that a new one gets. */
static int temporary_open(Arena *a, const char *path, const struct stat *old, const char **name) {
	const char *slash = strrchr(path, '/');
	int directory = slash ? (int)(slash - path) + 1 : 0;
	for (int i = 0; i < TEMPORARY_TRIES; i++) {
		*name = arena_printf(a, "%.*s.pallasc-%ld-%d.tmp", directory, path, (long)getpid(), i);
		int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0 && old)
			(void)fchmod(fd, old->st_mode & 07777);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

static const char *write_and_rename(int fd, const char *name, const char *path, const char *text, size_t length) {
	const char *error = write_all(fd, text, length);
	if (!error && fsync(fd) != 0 && errno != EINVAL)
		error = strerror(errno);
	if (close(fd) != 0 && !error)
		error = strerror(errno);
	if (!error && rename(name, path) != 0)
		error = strerror(errno);
	if (error)
		unlink(name);
	return error;
}

static const char *replace_regular(Arena *a, const char *path, const struct stat *old, const char *text,
                                   size_t length) {
	const char *name;
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before); /* an interrupt must not leave the temporary file behind */
	int fd = temporary_open(a, path, old, &name);
	const char *error = fd < 0 ? strerror(errno) : write_and_rename(fd, name, path, text, length);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return error;
}

static const char *write_through(const char *path, const char *text, size_t length) {
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return strerror(errno);
	const char *error = write_all(fd, text, length);
	if (close(fd) != 0 && !error)
		error = strerror(errno);
	return error;
}

const char *file_replace(Arena *a, const char *path, const char *text, size_t length) {
	struct stat st;
	bool exists = stat(path, &st) == 0;
	if (exists && S_ISDIR(st.st_mode))
		return strerror(EISDIR);
	if (exists && !S_ISREG(st.st_mode))
		return write_through(path, text, length);
	if (exists && access(path, W_OK) != 0)
		return strerror(errno);                    /* rename() would replace a read-only file */
	char *real = exists ? realpath(path, NULL) : NULL; /* a link stays a link */
	const char *error = replace_regular(a, real ? real : path, exists ? &st : NULL, text, length);
	free(real);
	return error;
}

void files_guard(void) {
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
			return; /* no /dev/null: nothing to be done */
}
