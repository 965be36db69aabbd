"""Graphs of the repository with a few things changed: whatever comes of it, `pallasc` ends well.

A change is one that a person or a broken exporter could make: an argument is another node, a
number, a symbol, or missing; two arguments are swapped; a target, a dtype, a dim, a block id or a
key of the configuration is another. A type that no longer follows is then declared as the compiler
infers it, a few times over, so that what is changed reaches the passes and the plan as well as the
verifier.

    PALLASC=build/asan/pallasc PYTHONPATH=python python tests/load/mutations.py --count 20000

draws so many and writes each document that ended in a signal, a report of a sanitizer, text that is
no Python, a graph that a pass broke, a hang, or an exit status other than 0 and 1 to
build/mutations. The same numbers give the same documents.
"""

import argparse
import ast
import collections
import copy
import json
import random
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kit

REPAIRS = 6
SECONDS = 60
DTYPES = "float32 bfloat16 float16 float8_e5m2 int32 int16 int8 uint8 bool int64".split()
INTS = [0, 1, -1, 2, 3, 5, 8, 64, 127, 128, 4096, 2**31 - 1, 2**31, -(2**63), 2**63 - 1]
VALUES = [0.5, -0.0, True, False, None, "x", [], {"float": "nan"}, {"dtype": "float32"}]
VALUES += [{"slice": [None, None, None]}, {"slice": [1, 5, 2]}, {"slice": [0, {"sym": "u0"}, 1]}]
LOOPS = ["default", "unroll", "fori_loop", "emit_pipeline"]
CONFIG = {
    "pallas_loop_type": lambda r: r.choice(LOOPS),
    "block_sizes": lambda r: [r.choice([1, 2, 8, 100, 128, 256]) for _ in range(r.randint(0, 4))],
    "loop_orders": lambda r: [[1, 0]],
    "pallas_fori_dma": lambda r: r.choice(["auto", True, False]),
    "pallas_pre_broadcast": lambda r: r.choice([True, False]),
    "pallas_matmul_ahead": lambda r: r.randint(0, 3),
    "pallas_expected_steps": lambda r: r.randint(1, 50),
    "pallas_loop_skew": lambda r: r.choice([True, False]),
}
DECLARED = re.compile(r"it declares (.*), inferred (.*)$")
NO_META = re.compile(r"it declares no `meta`, inferred (.*)$")
HAS_NONE = re.compile(r"it declares .*, but has no value$")


def graph_files():
    """Every graph of testdata that is accepted as it is and small enough to be read quickly."""
    folders = ("graphs", "configs", "coverage/graphs")
    files = [p for folder in folders for p in (kit.ROOT / "testdata" / folder).glob("*.json")]
    return sorted((p for p in files if p.stat().st_size < 60_000), key=lambda p: p.as_posix())


# ---- changing


def slots(value):
    """(container, key) of each argument in a nested value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, list) or (isinstance(item, dict) and "slice" in item):
            yield from slots(item if isinstance(item, list) else item["slice"])


class Mutator:
    """Changes one document, in place."""

    def __init__(self, document, rng, targets):
        self.document, self.rng, self.targets = document, rng, targets
        self.symbols = [b["symbol"] for b in document.get("block_sizes") or []]
        self.block_ids = len(self.symbols)

    def graph(self):
        return self.rng.choice(self.document["graphs"])

    def node(self, graph=None):
        return self.rng.choice((graph or self.graph())["nodes"])

    def slot(self, graph, node):
        found = list(slots(node.get("args") or [])) + list(slots(node.get("kwargs") or {}))
        return self.rng.choice(found) if found else (None, None)

    def argument(self, graph, node):
        """A value for an argument of `node`: mostly a node before it."""
        draw, nodes = self.rng.random(), graph["nodes"]
        place = next(i for i, n in enumerate(nodes) if n is node)
        if draw < 0.55:
            among = nodes[:place] if place and self.rng.random() < 0.95 else nodes
            return {"ref": self.rng.choice(among)["name"]}
        if draw < 0.7:
            return self.rng.choice(INTS)
        if draw < 0.85 and self.symbols:
            symbol = self.rng.choice(self.symbols)
            return {"sym": self.rng.choice([symbol, f"{symbol} + 1", f"cdiv(100, {symbol})"])}
        return copy.deepcopy(self.rng.choice(VALUES))  # a later mutation may change it

    def replace(self):
        graph = self.graph()
        node = self.node(graph)
        container, key = self.slot(graph, node)
        if container is not None:
            container[key] = self.argument(graph, node)

    def delete(self):
        graph = self.graph()
        container, key = self.slot(graph, self.node(graph))
        if container is not None:
            del container[key]

    def swap(self):
        graph = self.graph()
        node = self.node(graph)
        (a, i), (b, j) = self.slot(graph, node), self.slot(graph, node)
        if a is b and a is not None:
            a[i], a[j] = a[j], a[i]

    def append(self):
        graph = self.graph()
        node = self.node(graph)
        if "args" in node:
            node["args"].append(self.argument(graph, node))

    def target(self):
        node = self.node()
        if "target" in node:
            node["target"] = self.rng.choice(self.targets)

    def drop_node(self):
        graph = self.graph()
        graph["nodes"].remove(self.node(graph))

    def dtype(self):
        of = self.rng.choice(
            [self.node().get("meta") or {}, self.rng.choice(self.document["tensors"])]
        )
        if "dtype" in of:
            of["dtype"] = self.rng.choice(DTYPES)

    def dim(self):
        of = self.rng.choice(
            [self.node().get("meta") or {}, self.rng.choice(self.document["tensors"])]
        )
        shape = of.get("shape")
        if shape:
            shape[self.rng.randrange(len(shape))] = self.rng.choice(INTS[:11] + self.symbols)

    def rank(self):
        shape = self.rng.choice(self.document["tensors"])["shape"]
        if shape and self.rng.random() < 0.5:
            shape.pop(self.rng.randrange(len(shape)))
        else:
            shape.append(self.rng.choice([1, 2, 100]))

    def block_id(self):
        graph = self.graph()
        ids = graph.get("grid") or graph.get("block_ids")
        if ids:
            ids[self.rng.randrange(len(ids))] = self.rng.randrange(self.block_ids + 1)

    def block(self):
        if self.block_ids:
            field = self.rng.choice(["size", "extent", "begin", "reduction"])
            value = self.rng.choice([None, 1, 2, 7, 128, 1000, self.rng.choice(self.symbols)])
            block = self.rng.choice(self.document["block_sizes"])
            block[field] = self.rng.choice([True, False]) if field == "reduction" else value

    def carried(self):
        graph = self.graph()
        pairs = graph.get("carried")
        if pairs:
            self.rng.choice(pairs)[self.rng.randrange(2)] = self.rng.randrange(4)

    def config(self):
        key = self.rng.choice(sorted(CONFIG))
        self.document["config"] = {
            **(self.document.get("config") or {}),
            key: CONFIG[key](self.rng),
        }

    WAYS = (
        "replace " * 8 + "delete swap append target target drop_node dtype dim rank block_id block "
        "carried config config"
    ).split()

    def mutate(self):
        getattr(self, self.rng.choice(self.WAYS))()


# ---- the compiler


def parse_type(text):
    """A `meta` from the compiler's words, `float32[u0, 128]`; None where it is no tensor."""
    found = re.fullmatch(r"(\w+)\[(.*)\]", text)
    if not found or found[1] not in [*DTYPES, "float8_e4m3fn", "uint32", "uint16", "int4"]:
        return None
    depth, dims, last = 0, [], ""
    for letter in found[2] + ",":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            dims.append(last.strip())
            last = ""
        else:
            last += letter
    dims = [d for d in dims if d]
    return {"dtype": found[1], "shape": [int(d) if d.isdigit() else d for d in dims]}


def repair(document, record):
    """Declares a node as the compiler infers it; False where the refusal is another one."""
    message = record["message"].split(": ", 1)[-1]
    path = (record["pointer"] or "").split("/")
    if len(path) < 5 or path[1] != "graphs" or path[3] != "nodes":
        return False
    node = document["graphs"][int(path[2])]["nodes"][int(path[4])]
    if HAS_NONE.search(message):
        return node.pop("meta", None) is not None
    found = DECLARED.search(message) or NO_META.search(message)
    meta = parse_type(found[found.lastindex]) if found else None
    if meta:
        node["meta"] = meta
    return meta is not None


class Broken(AssertionError):
    """What no input may do."""


def compile_once(document):
    """(status, errors): Raises Broken if the compiler does what it never may."""
    options = ("--diagnostics=json", "--verify-each", "-")
    try:
        ran = kit.run(*options, text=document, errors="surrogateescape", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Broken(f"no end after {SECONDS} s") from None
    try:
        records = [json.loads(line) for line in ran.err.splitlines()]
    except ValueError:
        records = None  # a sanitizer's report, whose exit status is 1 too
    if ran.status not in (0, 1) or records is None:
        raise Broken(f"exit {ran.status}: {ran.err[:3000]}")
    for r in records:
        if "made by a pass" in r["message"] or r["code"] == "internal":
            raise Broken(f"a pass breaks the graph: {r['message']}")
    if ran.status == 0:
        try:
            ast.parse(ran.out)
        except SyntaxError as error:
            raise Broken(f"no Python: {error}") from None
    return ran.status, [r for r in records if r["severity"] == "error"]


def examine(document):
    """Compiles a document, repairing it where types no longer follow; 0 or 1."""
    for _ in range(REPAIRS):
        status, errors = compile_once(document)
        if status == 0 or not any([repair(document, r) for r in errors]):
            break
    return status


# ---- a run


def draw(number, files, targets):
    """The document of that number."""
    rng = random.Random(number)
    document = json.loads(files[rng.randrange(len(files))].read_text())
    mutator = Mutator(document, rng, targets)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        mutator.mutate()
    return document


def all_targets(files):
    found = {target for p in files for target in kit.targets(json.loads(p.read_text()))}
    return sorted(found - {None})


def run(numbers, output=None):
    """Counts by exit status, and what was broken: {number: message}."""
    files = graph_files()
    targets, counts, broken = all_targets(files), collections.Counter(), {}
    for number in numbers:
        try:
            document = draw(number, files, targets)
        except (ValueError, IndexError):
            counts["empty"] += 1  # nothing left to change
            continue
        try:
            counts[examine(document)] += 1
        except Broken as error:
            broken[number] = str(error)
            if output:
                output.mkdir(parents=True, exist_ok=True)
                (output / f"{number}.json").write_text(json.dumps(document))
                (output / f"{number}.txt").write_text(str(error))
    return counts, broken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first document")
    options = parser.parse_args()
    numbers = range(options.seed, options.seed + options.count)
    counts, broken = run(numbers, kit.ROOT / "build" / "mutations")
    for number, message in broken.items():
        print(f"{number}: {message[:600]}")
    ends = f"{counts[0]} compiled, {counts[1]} refused, {len(broken)} broken"
    print(f"{options.count} documents: {ends}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
