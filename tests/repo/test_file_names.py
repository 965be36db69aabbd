"""Files that pages and comments name: each is there, under the path that is given."""

import re
import subprocess

from kit import ROOT

NAME = re.compile(r"(?<![\w./$<{-])((?:[\w.-]+/)*[\w-]+\.(?:c|h|def))(?![\w(-]|\.\w)")
FILES = subprocess.run(
    ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split()
ENDS = {
    name[start:]
    for name in FILES
    for start in (0, *(slash.end() for slash in re.finditer("/", name)))
}
TEXTS = [
    name
    for name in FILES
    if re.fullmatch(
        r"(?:README|CONTRIBUTING)\.md|docs/.*\.md|(?:src|passes|codegen|include|tests/unit)/.*\.(?:c|h|def)",
        name,
    )
]
# `rewrite_NAME.c`; `_loops.c` of a list that gives the first name whole.
NAME_TO_FILL_IN = re.compile(r"[A-Z]|^_")
ELSEWHERE = re.compile(
    r"(?:jansson|cmocka|setjmp|std\w+|string|ctype|errno|math|limits|signal|unistd|fcntl)\.h"
)


def known(name):
    """It ends like the path of a file of ours."""
    return NAME_TO_FILL_IN.search(name) or ELSEWHERE.fullmatch(name) or name in ENDS


def named(text, path):
    """What a page says, and the comments of a source; #include lines the compiler checks."""
    if path.endswith(".md"):
        return NAME.findall(text)
    return [
        name for comment in re.findall(r"/\*.*?\*/", text, re.S) for name in NAME.findall(comment)
    ]


def test_files_that_are_named_exist():
    wrong = [
        f"{path}: {name}"
        for path in TEXTS
        for name in named((ROOT / path).read_text(), path)
        if not known(name)
    ]
    assert wrong == []
