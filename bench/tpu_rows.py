"""`make tpu-rows`: the rows of the race for `python -m pallasc on-tpu`, where there is no torch.

Writes python/pallasc/on_tpu/race: rows.json, ours of each contest of race.py, and the graphs that
they name. Needs torch and helion.
"""

import argparse
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import measure
import race

FOLDER = measure.ROOT / "python" / "pallasc" / "on_tpu" / "race"
# Which formula of pallasc/on_tpu/formulas.py a kernel computes.
FORMULAS = {
    "attention": "attention",
    "matmul": "matmul",
    "matmul_split_k": "matmul",
    "layer_norm_bwd": "layer_norm_bwd",
    "layer_norm_bwd_two_level": "layer_norm_bwd",
    "softmax": "softmax",
    "softmax_two_pass": "softmax",
}


def graph_name(run):
    """The name of a run's graph: the kernel, and the shape of its first and second arguments."""
    shapes = dict.fromkeys(re.search(r"\[(.*)\]", text)[1] for text in run.args[:2])
    return "_".join([run.kernel.rpartition(":")[2], *"_".join(shapes).split(",")])


def rows():
    """The rows: a contest's name, graph, configuration, times it counts, and formula."""
    return [
        {
            "row": contest.name,
            "graph": graph_name(run),
            "config": json.loads(run.config),
            "scale": run.scale,
            "formula": FORMULAS[run.kernel.rpartition(":")[2]],
        }
        for contest in race.CONTESTS
        for run in contest.ours
    ]


def rows_text():
    """rows.json: a row a line."""
    lines = ",\n ".join(json.dumps(row) for row in rows())
    return f"[{lines}]\n"


def graphs():
    """{name: (kernel, arguments)} of the graphs that the rows name."""
    return {graph_name(r): (r.kernel, r.args) for c in race.CONTESTS for r in c.ours}


def main():
    """Writes the files; what nobody names is removed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=FOLDER, metavar="DIR")
    folder = parser.parse_args().output
    from pallasc.export import text
    from pallasc.files import write_file

    folder.mkdir(parents=True, exist_ok=True)
    found = graphs()
    for path in folder.glob("*.json"):
        if path.stem not in found:
            path.unlink()
    for name, (kernel, args) in found.items():
        write_file(str(folder / f"{name}.json"), text(measure.document(kernel, args)))
    write_file(str(folder / "rows.json"), rows_text())


if __name__ == "__main__":
    main()
