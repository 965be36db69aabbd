/* handover.c - commands of pallasc that its Python side runs: `pallasc check G.json` is `python3 -m pallasc check
 * G.json`. This program becomes Python, so that signals, pipes and the exit status are Python's own. */
#define _XOPEN_SOURCE 700
#include "handover.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As in python/pallasc/__main__.py. */
static const char *const COMMANDS[] = {"aot",    "check",   "execute", "export", "grad", "lint",
                                       "on-tpu", "profile", "reduce",  "run",    "tune", NULL};

/* An interrupt ends what has not begun yet, without a traceback: SIGINT is blocked up to here. A Python without the
 * package would say only that there is no such module. */
static const char BEGIN[] =
	"import _signal\n"
	"if _signal.getsignal(_signal.SIGINT) == _signal.default_int_handler:\n"
	"    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)\n"
	"_signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])\n"
	"import importlib.util, runpy, sys\n"
	"if importlib.util.find_spec('pallasc') is None:\n"
	"    print(f'pallasc: error: {sys.executable} has no pallasc, whose Python side runs `pallasc {sys.argv[1]}`: "
	"'\n"
	"          'pip install pallasc there, or name another Python in PALLASC_PYTHON', file=sys.stderr)\n"
	"    sys.exit(3)\n"
	"runpy.run_module('pallasc', run_name='__main__', alter_sys=True)\n";

bool handed_over(const char *word) {
	for (uint32_t i = 0; COMMANDS[i]; i++)
		if (strcmp(word, COMMANDS[i]) == 0)
			return true;
	return false;
}

/* The folder of this program; NULL where the system does not say. */
static const char *own_folder(Arena *a, const char **path) {
	char *at = arena_raw(a, PATH_MAX);
	ssize_t n = readlink("/proc/self/exe", at, PATH_MAX - 1);
	if (n <= 0)
		return NULL;
	at[n] = '\0';
	*path = at;
	const char *slash = strrchr(at, '/');
	return slash ? arena_printf(a, "%.*s", (int)(slash - at), at) : NULL;
}

static const char *python_of(Arena *a, const char *folder, bool checkout) {
	const char *given = getenv("PALLASC_PYTHON");
	if (given && *given)
		return given;
	const char *beside =
		folder ? arena_printf(a, "%s/%s", folder, checkout ? ".venv/bin/python" : "python3") : NULL;
	return beside && access(beside, X_OK) == 0 ? beside : "python3";
}

/* A checkout's package stands before one that is installed. */
static void prepend_path(Arena *a, const char *folder) {
	const char *given = getenv("PYTHONPATH");
	bool any = given && *given;
	setenv("PYTHONPATH", arena_printf(a, "%s/python%s%s", folder, any ? ":" : "", any ? given : ""), 1);
}

const char *hand_over(Arena *a, int argc, char *const *argv) {
	const char *path = NULL, *folder = own_folder(a, &path);
	bool checkout = folder && access(arena_printf(a, "%s/python/pallasc/__main__.py", folder), R_OK) == 0;
	const char *python = python_of(a, folder, checkout);
	const char **words = arena_array(a, (size_t)argc + 3, sizeof *words);
	uint32_t count = 0;
	words[count++] = python;
	words[count++] = "-c";
	words[count++] = BEGIN;
	for (int i = 1; i < argc; i++)
		words[count++] = argv[i];
	if (checkout)
		prepend_path(a, folder);
	setenv("PYTHONSAFEPATH", "1", 1); /* no module of the folder that the user happens to be in */
	if (path)
		setenv("PALLASC_COMMAND", path, 0);
	sigset_t interrupt, before;
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupt, &before);
	execvp(python, (char *const *)words);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return arena_printf(a,
	                    "cannot run %s: %s: `pallasc %s` needs Python 3.11 or later with the package pallasc (pip "
	                    "install pallasc); PALLASC_PYTHON names another one",
	                    python, strerror(errno), argv[1]);
}
