"""Writes packaging/: the man page and the completions of shells, of what `pallasc --help` says.

With --check it writes nothing: exit status 1 if a file is not what the program says.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from pallasc.__main__ import COMMANDS  # noqa: E402

FOLDER = ROOT / "packaging"
PROGRAM = ROOT / "pallasc"
OWN = {
    "compile": "compile a graph or a kernel: what it does without a command",
    "sweep": "judge many configurations of a graph",
    "explain": "what the code of a message means, and what to do",
}
# Where the description of an option begins in a line of the help.
COLUMN = 24
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
ENVIRONMENT = {
    "PALLASC_PYTHON": "the Python that runs the commands of Python; else that of the checkout's "
    ".venv, the one beside this program, or python3",
    "PALLASC_CACHE": "the folder of what compiles and profiles give; else pallasc in "
    "$XDG_CACHE_HOME or in ~/.cache",
    "PALLASC_LIBRARY": "the libpallasc.so that Python loads",
    "PALLASC_DEBUG": "set: a command of Python that fails inside shows where",
    "NO_COLOR": "set: no colours, unless --color=always",
}


def said(*words):
    """Standard output of the program."""
    command = [str(PROGRAM), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def paragraphs(text):
    """The help's paragraphs, each a list of lines."""
    return [part.split("\n") for part in text.rstrip("\n").split("\n\n")]


def terms(lines):
    """(term, description) of the lines of a paragraph of options."""
    found = []
    for line in lines:
        if line[:COLUMN].strip():
            found.append([line[:COLUMN].strip(), line[COLUMN:].strip()])
        else:
            found[-1][1] += f" {line.strip()}"
    return found


# ---- the man page --------------------------------------------------------------------------------


def roff(text):
    """Text as roff has it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text


def entries(pairs):
    """The lines of a list of terms."""
    return [line for term, about in pairs for line in (".TP", f"\\fB{roff(term)}\\fR", roff(about))]


def man_page(text):
    """pallasc.1."""
    usage, about, *options, status, example = paragraphs(text)
    version = said("--version").split()[1]
    lines = [f'.TH PALLASC 1 "" "pallasc {version}" "User Commands"', ".SH NAME"]
    lines += ["pallasc \\- compile graphs of tile operations to Pallas TPU kernels"]
    lines += [".SH SYNOPSIS", ".nf"]
    lines += [roff(line.removeprefix("usage:").strip()) for line in usage] + [".fi"]
    lines += [".SH DESCRIPTION", roff(" ".join(about)), ".SH OPTIONS"]
    for part in options:
        lines += entries(terms(part))
    lines += [
        ".SH COMMANDS",
        "Python runs all but the first two: each has a \\-\\-help of its own. ",
    ]
    lines[-1] += "A first argument that names a command is one; \\&./sweep is a file."
    lines += entries((OWN | COMMANDS).items())
    lines += [".SH EXIT STATUS", roff(" ".join(status).removeprefix("Exit status: "))]
    lines += [".SH ENVIRONMENT", *entries(ENVIRONMENT.items())]
    lines += [".SH EXAMPLE", ".nf", *(roff(line.strip()) for line in example), ".fi"]
    return "\n".join(lines) + "\n"


# ---- completions ---------------------------------------------------------------------------------


def choices():
    """{option: the words that it takes}."""
    first = lambda option: [line.split()[0] for line in said(option).splitlines()]  # noqa: E731
    help_text = " ".join(said("--help").split())
    emits = help_text.partition("--emit=WHAT ")[2].partition(" --target")[0]
    passes, rewrites = first("--print-passes"), first("--print-rewrites")
    return {
        "--emit": re.findall(r"(\w+)(?: \(default\))?:", emits),
        "--target": first("--print-targets"),
        "--diagnostics": ["text", "json"],
        "--color": ["auto", "always", "never"],
        "--passes": passes,
        "--print-before": passes,
        "--print-after": passes,
        "--rewrites": rewrites,
    }


def options_of(text):
    """The options that a help names, in the order of the alphabet."""
    return sorted(set(OPTION.findall(text)))


def commands():
    """{command: (what it does, its options)}; "": without one."""
    found = {"": ("", options_of(said("--help")))}
    for name, about in (OWN | COMMANDS).items():
        options = found[""][1] if name in OWN else options_of(said(name, "--help"))
        found[name] = (about, options)
    return found


BASH = """# bash completion of pallasc; made by `make docs`.
_pallasc() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words files
	if [ "$word" = = ]; then
		word=
	elif [ "$before" = = ]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	case $before in
%(values)s
	*)
		case $word in
		-*)
			case ${COMP_WORDS[1]} in
%(options)s
			esac
			;;
		*)
			files=yes
			[ "$COMP_CWORD" -gt 1 ] || words="%(commands)s"
			;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	[ -z "$files" ] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _pallasc pallasc
"""


def bash(found, values):
    """The completion of bash."""
    rows = [f'\t{option}) words="{" ".join(words)}" ;;' for option, words in values.items()]
    options = [
        f'\t\t\t{name or "*"}) words="{" ".join(row[1])}" ;;'
        for name, row in sorted(found.items(), reverse=True)
        if name not in OWN
    ]
    names = " ".join(name for name in found if name)
    parts = {"values": "\n".join(rows), "options": "\n".join(options), "commands": names}
    return BASH % parts


ZSH = """#compdef pallasc
# zsh completion of pallasc; made by `make docs`.
_pallasc() {
	local -a commands options
	commands=(
%(commands)s
	)
	case $words[2] in
%(options)s
	esac
	case ${words[CURRENT]} in
%(values)s
	-*) compadd -- $options ;;
	*)
		if (( CURRENT == 2 )); then
			_describe command commands
		fi
		_files
		;;
	esac
}
_pallasc "$@"
"""


def zsh(found, values):
    """The completion of zsh."""
    quoted = {
        name: about.replace("'", "'\\''").replace(":", "\\:") for name, (about, _) in found.items()
    }
    listed = "\n".join(f"\t\t'{name}:{about}'" for name, about in quoted.items() if name)
    options = [
        f"\t{name or '*'}) options=({' '.join(row[1])}) ;;"
        for name, row in sorted(found.items(), reverse=True)
        if name not in OWN
    ]
    rows = [
        f"\t{option}=*) compset -P '*='; compadd -- {' '.join(words)} ;;"
        for option, words in values.items()
    ]
    return ZSH % {"commands": listed, "options": "\n".join(options), "values": "\n".join(rows)}


def fish(found, values):
    """The completion of fish."""
    names = " ".join(name for name in found if name and name not in OWN)
    other = f"'not __fish_seen_subcommand_from {names}'"
    lines = ["# fish completion of pallasc; made by `make docs`."]
    for name, (about, _) in found.items():
        if name:
            text = about.replace("'", "\\'")
            lines.append(f"complete -c pallasc -n __fish_use_subcommand -a {name} -d '{text}'")
    for name, (_, options) in found.items():
        when = f"'__fish_seen_subcommand_from {name}'" if name else other
        for option in options if name not in OWN else ():
            letter = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            words = values.get(option) if not name else None
            given = f" -x -a '{' '.join(words)}'" if words else ""
            lines.append(f"complete -c pallasc -n {when} {letter}{given}")
    return "\n".join(lines) + "\n"


def pages():
    """{path: text} of all that is written."""
    found, values = commands(), choices()
    return {
        FOLDER / "pallasc.1": man_page(said("--help")),
        FOLDER / "completions" / "pallasc.bash": bash(found, values),
        FOLDER / "completions" / "_pallasc": zsh(found, values),
        FOLDER / "completions" / "pallasc.fish": fish(found, values),
    }


def main():
    """Writes the files, or compares them."""
    texts, check = pages(), "--check" in sys.argv[1:]
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not what --help says: make docs", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
