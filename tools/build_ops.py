"""Writes python/pallasc/build/ops.py, a typed function for each op, from the op table.

The table is what `build/tools/print_ops json` prints. With --check it writes nothing: exit status 1
if the file is out of date.
"""

import json
import keyword
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "python/pallasc/build/ops.py"
RULE = re.compile(r"^SHAPE_RULE\((\w+), \w+\)\s*/\* (.*?) \*/", re.MULTILINE)
# Kinds that have functions; the others are what `Graph`, tiles and Python's operators are made of.
KINDS = ("Pointwise", "Reductions, sorts and scans", "Views", "Matmuls", "Memory", "Creation")
TUPLES = {
    "REDUCE_PAIR",
    "REDUCE_ARG",
    "SORT",
    "TOPK",
    "SPLIT",
    "SPLIT_SIZES",
    "UNBIND",
    "TILE_SPLIT",
}
ANNOTATIONS = {
    "x": "Operand",
    "t": "Operators",
    "X": "Sequence[Operand | None]",
    "i": "Dim",
    "I": "Dim | Sequence[Dim]",
    "n": "float",
    "b": "bool",
    "d": "str",
    "s": "str",
    "N": "Index",
    "V": "Operand | Sequence[Operand]",
}
HEAD = '''"""A function for each op of the op table that computes, moves or makes values.

Generated from `include/ops.def` by `make docs`; do not edit. What an op means is its ATen schema's
semantics, the `tile.` ones are in docs/graph-format.md. `PARAMS` has all targets: those without a
function are `call(target, ...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .sizes import Dim
from .values import Index, Operand, Operators, Tensor, Value, current


def call(target: str, *args: Any, **kwargs: Any) -> Any:
    """Any op by its target: gives a `Value`, a tuple of them, or None of a store."""
    return current().call(target, *args, **kwargs)
'''


def table():
    """The rows of the op table."""
    program = "build/tools/print_ops"
    subprocess.run(["make", "-s", program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return json.loads(subprocess.check_output([ROOT / program, "json"]))


def shapes():
    """{shape rule: what the result's shape is}."""
    return dict(RULE.findall((ROOT / "include/shape_rules.def").read_text()))


def spelled(row):
    """The parameters as `include/ops.def` writes them."""
    words, by_name = [], False
    for param in row["params"]:
        if param["by_name"] and not by_name:
            words.append("*")
            by_name = True
        default = json.dumps(param["default"]) if "default" in param else None
        words.append(
            param["name"]
            + ":"
            + param["letter"]
            + ("?" if param["nullable"] else "")
            + ("" if default is None else f"={default}")
        )
    return " ".join(words)


def in_lines(text):
    """A string, written in several parts where it is long."""
    parts = textwrap.wrap(text, 64, break_long_words=False, drop_whitespace=False)
    return "(" + " ".join(map(json.dumps, parts)) + ")" if len(parts) > 1 else json.dumps(text)


def base_name(row):
    """What an op is called among its overloads: "aten.sum.dim_IntList" is sum."""
    parts = row["target"].split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def covers(row, other):
    """Whether an overload takes what another does, and more that has defaults."""
    names = [p["name"] for p in other["params"]]
    own = {p["name"]: p for p in row["params"]}
    more = [p for name, p in own.items() if name not in names]
    return set(names) <= set(own) and more and all("default" in p for p in more)


def says_no_more(row, main):
    """Whether an overload takes nothing that `main` does not."""
    own, others = ({p["name"] for p in r["params"]} for r in (row, main))
    return own <= others and row["dtype"] in (main["dtype"], "promoted, at least float")


def has_function(row):
    """Whether an op gets a function."""
    letters = {param["letter"] for param in row["params"]}
    return row["kind"] in KINDS and "G" not in letters and not base_name(row).startswith("_")


def named(rows):
    """{function's name: row}: an overload that covers the others has the plain name."""
    groups = {}
    for row in rows:
        if has_function(row):
            space = row["target"].split(".")[0]
            groups.setdefault(base_name(row), {}).setdefault(space, []).append(row)
    found = {}
    for base, spaces in groups.items():
        plain = base + ("_" if keyword.iskeyword(base) else "")
        first = min(spaces, key=["tile", "aten", "prims"].index)
        for space, overloads in spaces.items():
            name = plain if space == first else f"{space}_{base}"
            main = overloads[0]
            for row in overloads:
                main = row if covers(row, main) else main
            found[name] = main
            for row in overloads:
                if not says_no_more(row, main):
                    found[f"{name}_{row['target'].split('.')[-1]}"] = row
    return dict(sorted(found.items()))


def parameter(param, row):
    """A parameter's name and annotation, with its default."""
    name = {"self": "x"}.get(param["name"], param["name"])
    kind = ANNOTATIONS[param["letter"]]
    if row["kind"] == "Memory" and param["name"] == "tensor":
        kind = "Tensor"
    if param["nullable"] or param.get("default", 0) is None:
        kind += " | None"
    default = ""
    if "default" in param:
        value = tuple(param["default"]) if param["default"] == [] else param["default"]
        default = f" = {value!r}".replace("'", '"')
    return name, f"{name}: {kind}{default}"


def function(name, row, shapes):
    """The text of one function."""
    params = [(p, *parameter(p, row)) for p in row["params"]]
    plain = [text for p, _, text in params if not p["by_name"]]
    behind = [text for p, _, text in params if p["by_name"]]
    signature = ", ".join([*plain, *(["*", *behind] if behind else [])])
    gives = "tuple[Value, ...]" if row["shape"] in TUPLES else "Value"
    gives = "None" if row["shape"] == "STORE" else gives
    passed = [n if not p["by_name"] else f"{p['name']}={n}" for p, n, _ in params]
    passed = ", ".join([f'"{row["target"]}"', *passed])
    method = "call" if gives != "Value" else "call_value"
    returned = f"current().{method}({passed})"
    if gives == "tuple[Value, ...]":
        returned = f"result: tuple[Value, ...] = {returned}\n    return result"
    elif gives == "Value":
        returned = f"return {returned}"
    shape = shapes.get(row["shape"], "")
    lines = textwrap.wrap(f"Shape: {shape}.", 96) if shape else []
    lines += [f"Dtype: {row['dtype']}."] if row["dtype"] else []
    body = f"`{row['target']}`."
    if lines:
        body += "\n\n    " + "\n    ".join(lines) + "\n    "
    return f'def {name}({signature}) -> {gives}:\n    """{body}"""\n    {returned}\n'


def text():
    """The whole file, formatted."""
    rows, rules = table(), shapes()
    params = "\n".join(f"    {json.dumps(r['target'])}: {in_lines(spelled(r))}," for r in rows)
    functions = [function(name, row, rules) for name, row in named(rows).items()]
    last = f"PARAMS: Final[dict[str, str]] = {{\n{params}\n}}\n"
    whole = "\n\n".join([HEAD, *functions, last])
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--fix-only", "--quiet"], ["format"]):
        name = ["--stdin-filename", str(FILE), "-"]
        whole = subprocess.run(
            [*ruff, *command, *name], input=whole, text=True, check=True, stdout=subprocess.PIPE
        ).stdout
    return whole


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        FILE.write_text(text())
    elif FILE.read_text() != text():
        sys.exit(f"{FILE.relative_to(ROOT)} is out of date: make docs")
