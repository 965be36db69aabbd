"""Which modules the tests print, each known by a hash: tests/modules.txt.

`make modules` says what has changed, `make modules-record` writes the file anew. With --against DIR
the same cases are compiled by another tree's libpallasc, and what differs is told to be estimated
(equal but for configurations and estimates, which the hashes leave out), renamed (equal but for
names of variables, comments and line breaks) or different, with diffs.
"""

import argparse
import concurrent.futures
import difflib
import hashlib
import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PATH = HERE / "modules.txt"
for _path in (HERE, ROOT / "python"):
    if str(_path) not in sys.path:
        sys.path.insert(0, str(_path))

import printed  # noqa: E402
import recorded  # noqa: E402
import renaming  # noqa: E402
from pallasc.module import kernel_text  # noqa: E402

# ---- the cases -----------------------------------------------------------------------------------


def cases():
    """Every `printed.Case`: (name, document, configuration, target), JSON texts; by name.

    The matrix of the numerics, the TPU compiler and the goldens, the rows of the coverage in all
    their configurations, and what the tests of configurations compile.
    """
    with concurrent.futures.ThreadPoolExecutor() as executor:
        calls = executor.submit(recorded.recorded)  # runs in other processes
        found = tabled()
    known = {tuple(case[1:]) for case in found}
    others = [named(*call) for call in calls.result() if call not in known]
    return sorted([*found, *others])


def tabled():
    """The cases of `proof` and of the coverage's rows, each document and configuration once."""
    import proof

    documents, found = {}, {}
    for case, chip in pairs():
        if case.graph not in documents:
            documents[case.graph] = json.dumps(proof.document(case.graph))
        plain = "-plain" if case.pre_broadcast is False else ""
        name = f"{case.id}{plain}@{chip}".replace(" ", "")
        key = documents[case.graph], json.dumps(case.config), chip
        found.setdefault(key, printed.Case(name, *key))
    return sorted(found.values())


def pairs():
    """(`proof.Case`, chip) of the tables, each once."""
    import proof
    from coverage import results
    from coverage import row as coverage

    found = [*proof.aot_full()]
    found += [(case, "v6e") for case in (*proof.matrix(), *proof.variants(), *proof.FULL)]
    for row in coverage.rows():
        found += [(case, "v6e") for case in row.cases(*row.graphs)]
        found += results.compilations(row).values()
    large = [proof.Case(graph, loop) for graph in proof.PRODUCTION for loop in proof.LOOPS]
    refused = [case for case, _ in coverage.refused()]
    found += [(case, chip) for case in (*large, *refused) for chip in proof.CHIPS]
    return dict.fromkeys(found)


def named(document, config, target):
    """A `printed.Case` of what a test compiles: its hash makes the name unique."""
    settings = [
        f"{key.removeprefix('pallas_')}={json.dumps(value, separators=(',', ':'))}"
        for key, value in json.loads(config).items()
    ]
    chip = json.loads(target).get("name", "custom") if target.startswith("{") else target
    name = "-".join([str(json.loads(document).get("name")), *settings])
    name = re.sub(r"[^!-~]|@", "_", name)[:100]
    name = f"{name}-{digest(document, config, target)[:8]}@{chip}"
    return printed.Case(name, document, config, target)


def drawn(count, seed):
    """Drawn cases of the oracle that compile: {"document", "values", "seed"}, `count` of them.

    The same for the same seed, which is the number of the first.
    """
    sys.path.insert(0, str(HERE / "whole" / "oracle"))
    import soak

    def accepted(case):
        text = json.dumps(case["document"])
        return printed.printed(printed.Case("", text, "{}", "v6e")).accepted

    return itertools.islice(filter(accepted, soak.cases(seed, 2 * count)), count)


def drawn_cases(count, seed):
    """The same as `printed.Case`s."""
    for number, case in enumerate(drawn(count, seed)):
        yield printed.Case(f"drawn_{seed}_{number}@v6e", json.dumps(case["document"]), "{}", "v6e")


# ---- the file ------------------------------------------------------------------------------------


def digest(*texts):
    """The first digits of a hash."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def entry(found):
    """What the file says of a `printed.Printed`."""
    return digest(kernel_text(found.text)) if found.accepted else f"refused {digest(found.text)}"


def entries(some):
    """{name: what the file says} of cases, as the compiler prints them now."""
    return {
        case.name: entry(found) for case, found in zip(some, printed.all_printed(some), strict=True)
    }


def stored():
    """{name: what the file says}; {} if there is none."""
    lines = PATH.read_text().splitlines() if PATH.exists() else []
    return dict(line.split(" ", 1) for line in lines)


def write(found):
    """Writes the file anew."""
    PATH.write_text("".join(f"{name} {text}\n" for name, text in sorted(found.items())))


def check(found):
    """Prints what differs from the file; gives how many do."""
    old = stored()
    changed = [name for name in sorted(old | found) if old.get(name) != found.get(name)]
    for name in changed:
        print(f"{name}: {old.get(name, 'new')} -> {found.get(name, 'gone')}")
    how = ": make modules AGAINST=DIR, of a built tree, says how" if changed else ""
    print(f"{len(found)} modules, {len(changed)} differ from tests/modules.txt{how}")
    return len(changed)


# ---- against another tree ------------------------------------------------------------------------


def printed_by(tree, some):
    """A `printed.Printed` for each case, by the libpallasc that is built in another tree."""
    library = Path(tree).resolve() / "build" / "libpallasc.so"
    if not library.exists():
        raise SystemExit(f"no {library}: build that tree first, make -C {tree}")
    environment = {**os.environ, "PYTHONPATH": str(Path(tree).resolve() / "python")}
    environment.pop("PALLASC_LIBRARY", None)
    with tempfile.TemporaryDirectory() as directory:
        given, made = Path(directory, "cases"), Path(directory, "printed")
        given.write_bytes(pickle.dumps([tuple(case) for case in some]))
        command = [sys.executable, HERE / "printed.py", given, made]
        subprocess.run(command, env=environment, check=True)
        return [printed.Printed(*fields) for fields in pickle.loads(made.read_bytes())]


KINDS = ("estimated", "renamed", "different")


def verdict(both):
    """How (old, new) differ: "equal", "estimated", "renamed" or "different"."""
    old, new = both
    if old == new:
        return "equal"
    if not (old.accepted and new.accepted):
        return "different"
    texts = kernel_text(old.text), kernel_text(new.text)
    if texts[0] == texts[1]:
        return "estimated"
    return "renamed" if renaming.same_but_names(*texts) else "different"


def compare(tree, some, show):
    """Prints how each case's module differs from what another tree prints; gives how many do."""
    both = list(zip(printed_by(tree, some), printed.all_printed(some), strict=True))
    changed = [
        (case, texts) for case, texts in zip(some, both, strict=True) if texts[0] != texts[1]
    ]
    distinct = list(dict.fromkeys(texts for _, texts in changed))
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as executor:
        verdicts = dict(zip(distinct, executor.map(verdict, distinct, chunksize=8), strict=True))
    kinds = [verdicts[texts] for _, texts in changed]
    for kind, (case, _) in zip(kinds, changed, strict=True):
        if kind != "estimated":
            print(f"{kind} {case.name}")
    shown = sorted(zip(kinds, changed, strict=True), key=lambda item: -KINDS.index(item[0]))
    for _, (case, texts) in shown[:show]:
        print(difference(case.name, *texts))
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in KINDS)
    print(f"{len(some)} modules against {tree}: {len(some) - len(changed)} equal, {counts}")
    return len(changed)


def difference(name, old, new):
    """A unified diff of two `printed.Printed`."""
    texts = [item.text.splitlines() for item in (old, new)]
    return "\n".join(difflib.unified_diff(*texts, f"old/{name}", f"new/{name}", lineterm=""))


def main():
    """Exit status 1 if something differs and was not recorded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write tests/modules.txt")
    parser.add_argument("--against", metavar="DIR", help="a tree that is built, to compare with")
    parser.add_argument("--show", type=int, default=3, metavar="N", help="so many diffs (3)")
    parser.add_argument("--match", default="", metavar="TEXT", help="only cases so named")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="and N drawn documents")
    options = parser.parse_args()
    some = [case for case in cases() if options.match in case.name]
    if options.against:
        some += drawn_cases(options.drawn, 0) if options.drawn else []
        return 1 if compare(options.against, some, options.show) else 0
    found = entries(some)
    if options.record:
        write(found)
        print(f"tests/modules.txt: {len(found)} modules")
        return 0
    if options.match:
        raise SystemExit("--match is for --against")
    return 1 if check(found) else 0


if __name__ == "__main__":
    sys.exit(main())
