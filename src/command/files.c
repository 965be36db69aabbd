/* files.c - reading whole documents and replacing files atomically. */
#define _XOPEN_SOURCE 700
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

/* The temporary file, for an interrupt. */
static const char *volatile unfinished;

void files_abandon(void) {
	if (unfinished)
		unlink(unfinished);
}

static void remove_unfinished(int number) {
	files_abandon();
	signal(number, SIG_DFL);
	raise(number);
}

static void guard_unfinished(const char *name) {
	static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	unfinished = name;
	for (size_t i = 0; i < sizeof interrupts / sizeof *interrupts; i++) {
		struct sigaction old;
		if (sigaction(interrupts[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			signal(interrupts[i], name ? remove_unfinished : SIG_DFL);
	}
}

/* A new file in the directory of `path`, with the mode that the file has, or that a new one gets. */
static int temporary_open(Arena *a, const char *path, const struct stat *old, const char **name) {
	const char *slash = strrchr(path, '/');
	int directory = slash ? (int)(slash - path) + 1 : 0;
	for (int i = 0; i < TEMPORARY_TRIES; i++) {
		*name = arena_printf(a, "%.*s.pallasc-%ld-%d.tmp", directory, path, (long)getpid(), i);
		int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0)
			guard_unfinished(*name);
		if (fd >= 0 && old)
			(void)fchmod(fd, old->st_mode & 07777);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

/* An interrupt must not come between the file and its name. */
static int temporary_guarded(Arena *a, const char *path, const struct stat *old, const char **name) {
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	int fd = temporary_open(a, path, old, name);
	int error = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return fd;
}

/* Where a link leads at which there is nothing yet; of what is no link itself. */
static const char *link_end(Arena *a, const char *path) {
	enum { LINKS = 40 };
	for (int i = 0; i < LINKS; i++) {
		char *to = arena_raw(a, PATH_MAX);
		ssize_t n = readlink(path, to, PATH_MAX);
		const char *slash = strrchr(path, '/');
		if (n <= 0 || n == PATH_MAX)
			break;
		int directory = *to != '/' && slash ? (int)(slash - path) + 1 : 0;
		path = arena_printf(a, "%.*s%.*s", directory, path, (int)n, to);
	}
	return path;
}

const char *output_open(Arena *a, const char *path, Output *out) {
	struct stat st;
	*out = (Output){.fd = STDOUT_FILENO};
	if (strcmp(path, "-") == 0)
		return NULL;
	bool exists = stat(path, &st) == 0;
	if (exists && S_ISDIR(st.st_mode))
		return strerror(EISDIR);
	if (exists && access(path, W_OK) != 0)
		return strerror(errno); /* rename() would replace a read-only file */
	if (exists && !S_ISREG(st.st_mode)) {
		out->fd = open(path, O_WRONLY | O_CLOEXEC);
		return out->fd < 0 ? strerror(errno) : NULL;
	}
	out->path = exists ? realpath(path, arena_raw(a, PATH_MAX)) : link_end(a, path);
	if (!out->path)
		return strerror(errno);
	out->fd = temporary_guarded(a, out->path, exists ? &st : NULL, &out->temporary);
	return out->fd < 0 ? strerror(errno) : NULL;
}

void output_drop(Output *out) {
	if (out->fd != STDOUT_FILENO && out->fd >= 0)
		close(out->fd);
	if (out->temporary && out->fd >= 0)
		unlink(out->temporary);
	guard_unfinished(NULL);
	out->fd = -1;
}

static const char *failed(Output *out) {
	const char *error = strerror(errno);
	output_drop(out);
	return error;
}

const char *output_put(Output *out, const char *text, size_t length) {
	while (length > 0) {
		ssize_t n = write(out->fd, text, length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(out);
		text += n;
		length -= (size_t)n;
	}
	return NULL;
}

const char *output_close(Output *out) {
	if (out->fd == STDOUT_FILENO)
		return NULL;
	if (out->temporary && fsync(out->fd) != 0 && errno != EINVAL)
		return failed(out);
	int fd = out->fd;
	out->fd = -1;
	if (close(fd) != 0 || (out->temporary && rename(out->temporary, out->path) != 0)) {
		const char *error = strerror(errno);
		if (out->temporary)
			unlink(out->temporary);
		guard_unfinished(NULL);
		return error;
	}
	guard_unfinished(NULL);
	return NULL;
}

void files_guard(void) {
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
			return; /* no /dev/null: nothing to be done */
}
