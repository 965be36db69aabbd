"""Errors of attention with `pallas_scale_in_q` off and on, beside float64, as a Markdown table.

    PYTHONPATH=python python bench/scale_error.py 1024 2048 4096 8192

One head of D=128, bfloat16, normal inputs, blocks [1, 512, 1024]; the kernel's text is executed.
"""

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from pallasc import execute

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ("block_sizes=[1,512,1024]", "pallas_loop_type=fori_loop")


def graph_of(rows):
    """testdata's attention, of one head with so many rows."""
    text = (ROOT / "testdata/graphs/attention.json").read_text()
    text = text.replace("[2, 2, 512, 128]", f"[1, 1, {rows}, 128]")
    text = text.replace("[4, 512", f"[1, {rows}").replace("[4, 128, 512]", f"[1, 128, {rows}]")
    text = text.replace('"extent": 4', '"extent": 1').replace('"extent": 512', f'"extent": {rows}')
    return text.replace("[512]", f"[{rows}]")


def kernel_of(rows, switch):
    """The kernel's text."""
    settings = [f"--set={setting}" for setting in (*CONFIG, f"pallas_scale_in_q={switch}")]
    command = [ROOT / "pallasc", "--emit=kernel", *settings, "-"]
    done = subprocess.run(command, input=graph_of(rows), capture_output=True, text=True, check=True)
    return done.stdout


def exact(q, k, v):
    """(out, lse) in float64, lse of base 2."""
    q, k, v = (x[0, 0].astype(np.float64) for x in (q, k, v))
    scores = q @ k.T * (np.log2(np.e) / np.sqrt(q.shape[1]))
    top = scores.max(1, keepdims=True)
    weights = np.exp2(scores - top)
    total = weights.sum(1, keepdims=True)
    return weights @ v / total, (top + np.log2(total))[:, 0]


def main(sizes):
    """Prints the table."""
    print("| S | switch | out, rms error | out, largest | lse, rms error | lse, largest |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rows in sizes:
        draw = np.random.default_rng(0).standard_normal((3, 1, 1, rows, 128))
        arrays = draw.astype(ml_dtypes.bfloat16)
        wanted = exact(*arrays)
        for switch in ("off", "on"):
            outputs = execute.run(kernel_of(rows, switch), *arrays)
            errors = []
            for actual, right in zip(outputs, wanted, strict=True):
                off = np.abs(np.asarray(actual, np.float64).reshape(right.shape) - right)
                errors += [f"{np.sqrt(np.mean(off**2)):.2e}", f"{off.max():.2e}"]
            print(f"| {rows} | {switch} | {' | '.join(errors)} |", flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
