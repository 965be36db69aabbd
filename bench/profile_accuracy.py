"""`make bench-profile`: the instrument beside libtpu's own simulator, kernel by kernel.

    make bench-profile              all kernels, into docs/profile.md
    python bench/profile_accuracy.py --kernel matmul --target v7x

libtpu can simulate a schedule on the machine that it compiles on. Its model of the core is the
vendor's; HBM's bandwidth is not in it. So kernels that hardly wait for copies are compared. A run
takes half a minute for a kernel, and is kept in .cache/bench.
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import measure
import proof
from pallasc.profile import dump
from pallasc.profile.estimate import estimate

PAGE = measure.ROOT / "docs" / "profile.md"
TIMEOUT_S = 600
# A kernel counts that waits for copies in less than this share of its cycles.
MOST_WAITED = 0.02
# NAME@N: of N heads.
KERNELS = [
    "matmul_4096",
    "matmul_bias_gelu_4096",
    "attention_d128_8192@2",
    "alibi_attention_8192@2",
    "matmul_gelu_tanh_4096",
    "matmul_scaled_relu_4096",
    "softcap_attention_8192@2",
    "attention_d256_8192@2",
    "attention_dq_8192@2",
    "attention_dkdv_8192@2",
    "matmul_tn_4096",
    "matmul_nt_4096",
    "exclusive_attention_8192@2",
]
TARGETS = ["v6e", "v7x"]
# The graph whose figures lie furthest apart, and why.
GRAM = "gram_4096"


def compared(graph, target):
    """What both say of the Pallas kernel of a graph: a dict, or a text that says why not."""
    source = proof.module(proof.Case(graph), target).source
    request = {"side": "ours", "target": target, "static": True, "source": source}
    answer = measure.answer_of({**request, "simulate": True}, timeout=TIMEOUT_S)
    if not answer["ok"]:
        return answer["error"].split("\n")[0]
    found = dump.load(measure.dump_path(answer["key"]))
    costs = found["libtpu_cycles"]
    ran = {name: facts for name, facts in estimate(found)["kernels"].items() if facts["pallas"]}
    if not ran or not costs.keys() >= ran.keys():
        return "libtpu's simulator gave no figure"
    return {
        "ours": sum(facts["cycles"] for facts in ran.values()),
        "waits": sum(facts["wait_cycles"] for facts in ran.values()),
        "libtpu": sum(costs[name] for name in ran),
    }


def row(graph, target, found):
    """A row of the table."""
    if isinstance(found, str):
        return f"| {graph} | {target} | - | - | - | {found} |"
    ratio, waited = found["ours"] / found["libtpu"], found["waits"] / found["ours"]
    cells = f"{found['ours']:,} | {found['libtpu']:,} | {waited:.1%} | {ratio:.3f}"
    return f"| {graph} | {target} | {cells} |"


HEAD = "| kernel | chip | cycles | libtpu's simulator | waits for copies | ratio |"


def table(kernels, targets):
    """The lines of the table, and what it comes to."""
    lines, ratios = [HEAD, "| --- | --- | --- | --- | --- | --- |"], []
    for graph in kernels:
        for target in targets:
            found = compared(graph, target)
            lines.append(row(graph, target, found))
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
    options = parser.parse_args()
    kernels = [name for name in [*KERNELS, GRAM] if options.kernel in name]
    lines = table(kernels, [options.target] if options.target else TARGETS)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if not (options.kernel or options.target):
        begin, end = "<!-- measured -->\n", "<!-- end -->"
        found = re.sub(f"{begin}.*?{end}", f"{begin}{text}{end}", PAGE.read_text(), flags=re.DOTALL)
        PAGE.write_text(found)


if __name__ == "__main__":
    main()
