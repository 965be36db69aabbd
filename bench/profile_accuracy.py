"""`make bench-profile`: the instrument beside libtpu's own simulator, kernel by kernel.

    make bench-profile              all kernels, into docs/profile.md
    python bench/profile_accuracy.py --kernel matmul --target v7x

libtpu can simulate a schedule on the machine that it compiles on. Its model of the core is the
vendor's; HBM's bandwidth is not in it. So kernels that hardly wait for copies are compared. A run
takes half a minute and more for a kernel, and is kept in .cache/bench.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import measure
import proof
from pallasc.profile import dump
from pallasc.profile.estimate import estimate

PAGE = measure.ROOT / "docs" / "profile.md"
TIMEOUT_S = 900
# A kernel counts that waits for copies in less than this share of its cycles.
MOST_WAITED = 0.02
TARGETS = ["v6e", "v7x"]
# Graphs; NAME@N: of N heads.
GRAPHS = [
    "matmul_4096",
    "matmul_bias_gelu_4096",
    "attention_d128_8192@2",
    "alibi_attention_8192@2",
    "softcap_attention_8192@2",
    "attention_d256_8192@2",
    "gram_4096",
]
# Kernels written by hand: arguments of pallasc.profile.cases.attention, of 12 heads of 2048 rows.
WRITTEN = {
    "512 rows by 512, a loop": {"block": 512, "step": 512, "skew": False, "unroll": 1},
    "512 by 256, two steps in a loop": {"block": 512, "step": 256, "skew": False, "unroll": 2},
    "256 by 512, skewed": {"block": 256, "step": 512, "skew": True, "unroll": 1},
    "512 by 1024, skewed, with spills": {"block": 512, "step": 1024, "skew": True, "unroll": 1},
    "1024 by 512, D=128": {"block": 1024, "step": 512, "skew": False, "unroll": 1, "width": 128},
    "256 by 256, a loop": {"block": 256, "step": 256, "skew": False, "unroll": 1},
    "1024 by 256, two steps in a loop": {"block": 1024, "step": 256, "skew": False, "unroll": 2},
    "512 by 512, unrolled": {"block": 512, "step": 512, "skew": False, "unroll": True},
}


def of_graph(graph, target):
    """The dump of a graph's kernel with libtpu's figures, or a text that says why there is none."""
    source = proof.module(proof.Case(graph), target).source
    request = {"side": "ours", "target": target, "static": True, "source": source}
    answer = measure.answer_of({**request, "simulate": True}, timeout=TIMEOUT_S)
    if not answer["ok"]:
        return answer["error"].split("\n")[0]
    return dump.load(measure.dump_path(answer["key"]))


def of_written(name, target):
    """The same of a kernel that is written by hand."""
    texts = [measure.code_text(measure.PROFILE / "cases.py"), dump.FORMAT, WRITTEN[name], target]
    key = measure.digest("written", texts, measure.versions("jax", "jaxlib", "libtpu"))
    path = measure.dump_path(key)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        environment = measure.worker_environment()
        command = [sys.executable, __file__, "--compile", json.dumps(WRITTEN[name]), str(path)]
        done = subprocess.run(
            [*command, "--target", target],
            env=environment,
            timeout=TIMEOUT_S,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            return done.stderr.strip().split("\n")[-1]
    return dump.load(path)


def compile_written(options, path, target):
    """Compiles a kernel of WRITTEN with libtpu's simulator on; its dump goes to `path`."""
    from pallasc.profile import selftest

    with tempfile.TemporaryDirectory() as folder:
        dump.prepare(folder, simulate=True)
        from pallasc.profile import cases

        case = cases.attention(**json.loads(options), heads=12)
        dump.save(path, selftest.compiled(case, target, folder))


def compared(found):
    """What both say of the Pallas kernels of a dump: a dict, or why there is nothing to compare."""
    if isinstance(found, str):
        return found
    costs = found["libtpu_cycles"]
    ran = {name: facts for name, facts in estimate(found)["kernels"].items() if facts["pallas"]}
    if not ran or not costs.keys() >= ran.keys():
        return "libtpu's simulator gave no figure"
    return {
        "ours": sum(facts["cycles"] for facts in ran.values()),
        "waits": sum(facts["wait_cycles"] for facts in ran.values()),
        "libtpu": sum(costs[name] for name in ran),
    }


def row(name, target, found):
    """A row of the table."""
    if isinstance(found, str):
        return f"| {name} | {target} | - | - | - | {found} |"
    ratio, waited = found["ours"] / found["libtpu"], found["waits"] / found["ours"]
    cells = f"{found['ours']:,} | {found['libtpu']:,} | {waited:.1%} | {ratio:.3f}"
    return f"| {name} | {target} | {cells} |"


HEAD = "| kernel | chip | cycles | libtpu's simulator | waits for copies | ratio |"


def table(text, targets):
    """The lines of the table of kernels whose names hold a text, and what it comes to."""
    kernels = [(name, name, of_graph) for name in GRAPHS]
    kernels += [(name, f"attention by hand, {name}", of_written) for name in WRITTEN]
    lines, ratios = [HEAD, "| --- | --- | --- | --- | --- | --- |"], []
    for name, shown, dump_of in kernels:
        for target in targets if text in shown else ():
            found = compared(dump_of(name, target))
            lines.append(row(shown, target, found))
            print(lines[-1], file=sys.stderr, flush=True)
            if not isinstance(found, str) and found["waits"] < MOST_WAITED * found["ours"]:
                ratios.append(found["ours"] / found["libtpu"])
    return [*lines, "", *summary(ratios)]


def summary(ratios):
    """How many kernels hardly wait, and how far from libtpu's figure they are."""
    if not ratios:
        return []
    worst = max(ratios, key=lambda ratio: abs(ratio - 1))
    near = sum(abs(ratio - 1) <= 0.05 for ratio in ratios)
    text = f"Of the {len(ratios)} that wait for copies in less than {MOST_WAITED:.0%} of their"
    return [f"{text} cycles, {near} are within 5%; the furthest is {worst:.3f}."]


def main():
    """Prints the table; puts it between the marks in docs/profile.md where all is asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", default="", metavar="TEXT", help="only kernels so named")
    parser.add_argument("--target", choices=TARGETS, help="only this chip")
    parser.add_argument("--compile", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile:
        return compile_written(*options.compile, options.target)
    lines = table(options.kernel, [options.target] if options.target else TARGETS)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if not (options.kernel or options.target):
        begin, end = "<!-- measured -->\n", "<!-- end -->"
        found = re.sub(f"{begin}.*?{end}", f"{begin}{text}{end}", PAGE.read_text(), flags=re.DOTALL)
        PAGE.write_text(found)
    return None


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
