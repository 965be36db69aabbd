"""Helion's side of the rows: what is asked of it, and what its answers mean.

bench/helion_rows.py asks, in an environment that has torch and helion.
"""

import base64
import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import proof
from pallasc import compare
from pallasc.reference.values import DTYPES

BENCH = proof.ROOT / "bench"
if str(BENCH) not in sys.path:
    sys.path.append(str(BENCH))
import measure  # noqa: E402

KERNELS = proof.ROOT / "testdata" / "kernels"
CHIP = "v7x"


@functools.cache
def exported():
    """{graph: the entry of the list that it was exported from}."""
    paths = [KERNELS / "graphs.json", *(KERNELS.parent / "coverage").glob("*.export.json")]
    entries = [entry for path in sorted(paths) for entry in json.loads(path.read_text())]
    return {entry["graph"]: entry for entry in entries}


def job(row):
    """What bench/helion_rows.py is asked of a row, but for the inputs; None without a kernel."""
    small, large = (exported().get(graph) for graph in (row.friendly, row.production))
    if row.diagnostic or not small:
        return None
    path, _, name = (row.helion or small["kernel"]).rpartition(":")
    return {
        "name": row.name,
        "kernel": f"{Path(path).name}:{name}",
        "check": {"args": small["args"], "config": small["config"]},
        "compile": large and {"args": large["args"], "config": large["config"], "target": CHIP},
    }


def key(row):
    """What Helion's result depends on: the kernel's text, arguments, configurations, versions."""
    asked = job(row)
    file, _, name = asked["kernel"].rpartition(":")
    pins = (proof.ROOT / "requirements-export.txt").read_text().splitlines()
    texts = [kernel_text(KERNELS / file, name), json.dumps(asked, sort_keys=True)]
    texts += [measure.code_text(BENCH / f"{part}.py") for part in ("helion_rows", "helion_kernel")]
    texts += [pin for pin in pins if pin.startswith(("torch==", "helion=="))]
    return proof.short("\0".join([*texts, proof.formula_text(row.formula)]))


def kernel_text(path, name):
    """The code of a file of kernels without the other kernels."""
    import ast

    tree = ast.parse(path.read_text())
    others = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("kernel" in ast.unparse(item) for item in node.decorator_list)
    }
    return measure.code_text(path, others - {name})


def answers(rows, python):
    """Yields (row, entry) as bench/helion_rows.py, run by `python`, answers."""
    jobs = []
    for row in rows:
        asked = job(row)
        asked["check"]["inputs"] = [array_save(a) for a in proof.inputs(row.friendly, "random")]
        jobs.append(asked)
    command = [python, str(BENCH / "helion_rows.py")]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        process.stdin.write(json.dumps(jobs))
        process.stdin.close()
        named = {row.name: row for row in rows}
        for line in process.stdout:
            found = json.loads(line)
            row = named[found["name"]]
            entry = {"key": key(row), "check": judged(row, found["check"])}
            yield row, entry | {"compile": found["compile"]}


def judged(row, answer):
    """An answer with "wrong" for "ok" where the numbers are off, and the largest error."""
    outputs = answer.pop("outputs", None)
    if outputs is None:
        return answer
    document, worst = proof.document(row.friendly), None
    expected = proof.expected_formula(row.friendly, "random")
    for index, (output, wanted) in enumerate(zip(outputs, expected, strict=False)):
        actual = array_load(output)
        tolerance = compare.tolerance_for(document, index)
        try:
            verdict = compare.compare(actual, np.reshape(wanted, actual.shape), tolerance)
        except ValueError as error:
            return answer | {"kind": "wrong", "message": str(error)}
        if worst is None or not verdict.ratio <= worst.ratio:
            worst = verdict
    if len(outputs) < len(expected):
        return answer | {"kind": "wrong", "message": f"{len(outputs)} outputs"}
    kind = "ok" if worst.ok else "wrong"
    return answer | {"kind": kind, "error": finite(worst.error), "ratio": finite(worst.ratio)}


def finite(number):
    """A number as JSON has it, to three digits; inf and NaN as text."""
    return float(f"{number:.3g}") if np.isfinite(number) else str(number)


def array_save(array):
    """An array as bench/helion_rows.py takes it."""
    array = np.asarray(array)
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def array_load(entry):
    """An array that bench/helion_rows.py gave."""
    data = np.frombuffer(base64.b64decode(entry["data"]), DTYPES[entry["dtype"]])
    return data.reshape(entry["shape"])
