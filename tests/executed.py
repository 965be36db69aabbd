"""Whether the kernel text of documents, executed in NumPy, gives what the reference gives.

Each rewrite of a kernel must leave what it computes, and all of them must end in the compiler's own
text. `executed.py --coverage --matrix --drawn 500` runs all of them, in as many processes as there
are cores, in about six minutes on one; tests/kernel/test_kernel_rewrites.py runs some. In a session
of verdicts.py, as `make check-full` opens one, what tests/executed.txt keeps answers for the
coverage's kernels.
"""

import argparse
import concurrent.futures
import datetime
import functools
import itertools
import json
import os
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
for _path in (HERE, HERE / "whole" / "oracle", ROOT / "python"):
    if str(_path) not in sys.path:
        sys.path.insert(0, str(_path))
if __name__ == "__main__":  # processes for the cores, not threads of each
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

import kit  # noqa: E402
import numpy as np  # noqa: E402
import verdicts  # noqa: E402
from pallasc import execute  # noqa: E402
from pallasc.errors import PallascError  # noqa: E402

# A case's inputs; what lies past the edges of arrays is poison whatever they are.
INPUTS = "random"

# What a rewrite may change values by, relative and absolute: sums in another order, then rounded to
# bfloat16.
SUMS = (2.0**-7, 1e-4)
TOLERANCES = {"strips": SUMS, "row_sums": SUMS, "lane_sums": SUMS, "chunks": SUMS, "pieces": SUMS}


class Refused(Exception):
    """The compiler takes no such document."""


def kernel_text(document, config=None, target="v6e", emit="--emit=kernel"):
    """What `pallasc --emit=kernel` prints of a document, a dict. Raises Refused."""
    words = ("-", emit, f"--target={target}", *kit.settings(config or {}))
    ran = kit.run(*words, text=document)
    if ran.status == 1:
        raise Refused(ran.err)
    assert ran.status == 0, ran.err
    return ran.out


def read_again(text):
    """What the compiler makes of kernel text: the text, if it reads it as it was."""
    ran = kit.run("-", "--emit=kernel", text=text)
    return ran.out if ran.status == 0 else ran.err


def rewrites():
    """What a kernel goes through between the Plan and its text, in order."""
    return [line.split()[0] for line in kit.accepted("--print-rewrites").out.splitlines()]


def rewrite(text, names):
    """Kernel text, or a document, after some rewrites."""
    option = f"--rewrites={','.join(names)}"
    ran = kit.run("-", option, text=text)
    if ran.status:
        raise PallascError(f"{option}: {ran.err.strip()}")
    return ran.out


# ---- right? --------------------------------------------------------------------------------------


class Runs:
    """What texts compute of the same arrays: what was run once is not run again."""

    def __init__(self, arrays):
        self.arrays, self.found, self.rewritten = arrays, {}, {}

    def outputs(self, text):
        """The arrays that a text gives."""
        if (key := bare(text)) not in self.found:
            self.found[key] = execute.run(text, *self.arrays)
        return self.found[key]

    def differences(self, before, after, rtol=None, atol=0.0):
        """Lines that say how two texts differ in what they compute; none if they do not."""
        try:
            execute.check_same(self.outputs(before), self.outputs(after), rtol, atol)
        except PallascError as error:
            return [str(error)]
        return []

    def rewrite_problems(self, built, text):
        """Lines that say what rewrites make wrong of what is built, of which `text` is to come."""
        if (key := bare(built)) not in self.rewritten:
            self.rewritten[key] = self._rewritten(built)
        last, lines = self.rewritten[key]
        if not lines and not same_but_numbers(bare(last), bare(text)):
            return ["the rewrites, one by one, give another text"]
        return lines

    def _rewritten(self, before):
        """(what all rewrites together make of a text, the lines)."""
        for name in rewrites():
            after = rewrite(before, [name])
            if after != before:
                tolerances = TOLERANCES.get(name, ())
                if name == "walk" and " slice chunk_at " in before:  # other points have chunks
                    tolerances = SUMS
                if lines := self.differences(before, after, *tolerances):
                    return after, [f"{name}: {line}" for line in lines]
            before = after
        return before, []


def bare(text):
    """Text without the lines that say nothing of what it computes."""
    return re.sub(r"^(config|cost) .*\n", "", text, flags=re.MULTILINE)


def same_but_numbers(a, b):
    """Whether two texts are equal but for the numbers in names: `m_2` there is `m_1` here.

    Each kernel has names of its own.
    """
    kernels = [re.split(r"\n(?=kernel |host\()", text) for text in (a, b)]
    return len(kernels[0]) == len(kernels[1]) and all(map(_same_but_numbers, *kernels))


def _same_but_numbers(a, b):
    a, b = (re.findall(r'"(?:[^"\\]|\\.)*"|\w+|.|\n', text) for text in (a, b))
    pairs = set(zip(a, b, strict=False))
    bases = {tuple(re.sub(r"_\d+(?=_|$)", "", name) for name in pair) for pair in pairs}
    one_to_one = len(pairs) == len(set(a)) == len(set(b))
    return len(a) == len(b) and one_to_one and all(x == y for x, y in bases)


@functools.lru_cache(maxsize=1)
def runs(graph):
    """The Runs of a graph's inputs; those of the graph before are forgotten."""
    import proof

    for known in (proof.inputs, proof.expected_reference, proof.expected_formula):
        known.cache_clear()
    return Runs(proof.inputs(graph, INPUTS))


def case_problems(case):
    """Lines that say what is wrong with a `proof.Case`'s kernel text; none if it is right."""
    import proof

    document, blocks = proof.document(case.graph), case.blocks or proof.default_blocks(case.graph)
    text = kernel_text(document, case.config)
    built = kernel_text(document, case.config, emit="--rewrites=")

    def execute_it():
        info = {"outputs": [{"name": name} for name in output_names(text)]}
        outputs = runs(case.graph).outputs(text)
        rows = proof.judge(case.graph, info, INPUTS, INPUTS, blocks, outputs)
        found = [f"{r.inputs}: {r.output} against {r.against}: {r.text}" for r in rows if not r.ok]
        if read_again(text) != text:
            found.append("the text does not read back")
        return found + runs(case.graph).rewrite_problems(built, text), proof.worst(rows)

    return verdicts.settle(question(case, built, text), execute_it)


def output_names(text):
    """Of a kernel text, in order."""
    return re.findall(r"^output (\S+)", text, re.MULTILINE)


def question(case, built, text):
    """What a verdict depends on, of what is built and of the text after all rewrites: a Question.

    Where both are what they were, so is what each rewrite alone leaves, or it does not matter.
    """
    import proof

    def arrays():
        return proof.arrays_of(case.graph, [INPUTS], blocks, len(output_names(text)))

    blocks = case.blocks or proof.default_blocks(case.graph)
    texts = [bare(built), bare(text), json.dumps([proof.document(case.graph), blocks])]
    name = f"{verdicts.EXECUTED}{case.id}"
    return verdicts.Question(name, "", [*texts, *judging()], proof.judging(case.graph), arrays)


@functools.cache
def judging():
    """The names of the rewrites, and the code that executes and compares."""
    import proof

    ours = (bare, same_but_numbers, _same_but_numbers, Runs, proof.judge)
    return [
        " ".join(rewrites()),
        str(TOLERANCES),
        verdicts.package_code("execute"),
        *map(verdicts.source, ours),
    ]


def drawn_problems(case):
    """The same of a drawn document: {"document", "values", "seed"}."""
    import properties

    try:
        properties.rewritten(case)
    except properties.Find as find:
        return [f"{find.kind}: {find}"]
    except properties.Refused as refused:
        raise Refused(refused.args[0][0]["message"]) from None
    return []


def problems(job):
    """(name, lines, seconds) of a job: ("case", proof.Case) or ("drawn", number, case)."""
    started = time.monotonic()
    try:
        with np.errstate(all="ignore"):  # some documents compute NaN
            lines = case_problems(job[-1]) if job[0] == "case" else drawn_problems(job[-1])
    except Refused:
        lines = ["refused"]
    except Exception as error:
        lines = [f"{type(error).__name__}: {error}"]
    return name(job), lines, time.monotonic() - started


def name(job):
    """Of a job."""
    return job[-1].id if job[0] == "case" else f"drawn {job[1]}"


def all_problems(some):
    """The same of jobs of one graph, one after the other: they share what was run."""
    return [problems(job) for job in some]


# ---- all of them ---------------------------------------------------------------------------------


def jobs(options):
    """What is asked for."""
    import proof
    from coverage import row as coverage

    cases = [*coverage.accepted()] if options.coverage else []
    cases += proof.accepted() if options.matrix else []
    cases += proof.variants() if options.matrix else []
    found = [("case", case) for case in dict.fromkeys(cases)]
    if options.drawn:
        import modules

        drawn = modules.drawn(options.drawn, options.seed)
        found += [("drawn", number, case) for number, case in enumerate(drawn)]
    return [job for job in found if options.match in name(job)]


def keep(found, case):
    """Writes a drawn document that is wrong to build/executed."""
    path = ROOT / "build" / "executed" / f"{found.replace(' ', '_')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(case))
    print(f"{found}: {path.relative_to(ROOT)}", flush=True)


def grouped(found):
    """Jobs in lists, those of a graph together."""
    groups = {}
    for job in found:
        groups.setdefault(job[1].graph if job[0] == "case" else name(job), []).append(job)
    return list(groups.values())


def main():
    """Exit status 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coverage", action="store_true", help="the rows of the coverage")
    parser.add_argument("--matrix", action="store_true", help="the proof's matrix")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="N drawn documents")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first that is drawn")
    parser.add_argument("--match", default="", metavar="TEXT", help="only what is so named")
    parser.add_argument("--slow", type=int, default=0, metavar="N", help="name the slowest")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes")
    options = parser.parse_args()
    if log := os.environ.get(verdicts.LOG):
        verdicts.begin(Path(log), datetime.date.today())
    asked, started, wrong, times = jobs(options), time.monotonic(), 0, []
    drawn = {name(job): job[-1] for job in asked if job[0] == "drawn"}
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as executor:
        done = executor.map(all_problems, grouped(asked))
        for found, lines, seconds in itertools.chain.from_iterable(done):
            times.append((seconds, found))
            wrong += bool(lines)
            if lines and found in drawn:
                keep(found, drawn[found])
            for line in lines:
                print(f"{found}: {line}", flush=True)
    for seconds, found in sorted(times, reverse=True)[: options.slow]:
        print(f"{seconds:6.1f} s {found}")
    kept = Path(log).read_text().count(f"kept {verdicts.EXECUTED}") if log else 0
    told = f"{len(asked) - kept} kernels executed{f', {kept} right by a kept verdict' * bool(log)}"
    print(f"{told}, {wrong} wrong, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
