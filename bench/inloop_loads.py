"""What sinking Q into attention's loop does to the real schedule: spills, fills, cycles.

Compiles attention (B=1, H=2, S=8192, bfloat16) with `pallas_inloop_loads` off and auto, and runs
the TPU compiler's final schedule in a model of the chip: `tpu_static.py`, in the directory that
--tools or the environment variable TPU_STATIC names. No TPU is needed. Prints a Markdown table.
Cycles are those of the schedule that runs, without waits for copies, which are the same for all.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import proof  # noqa: E402
from pallasc import compile as compile_graph  # noqa: E402

LOOPS = ("unroll", "fori_loop", "emit_pipeline")
# (head dim, block sizes, loop types)
ROWS = (
    (128, (1, 512, 1024), LOOPS),
    (128, (1, 256, 512), LOOPS[1:]),
    (128, (1, 1024, 1024), LOOPS[1:]),
    (256, (1, 512, 1024), LOOPS),
    (256, (1, 256, 512), LOOPS[1:]),
    (256, (1, 1024, 1024), LOOPS[1:]),
    (256, (2, 512, 2048), LOOPS[:1]),
)
CHIPS = {"v6e": "v6e", "v7x": "tpu7x"}
CHOICES = ("off", "auto")
STRIDED = "dma.general"
HARNESS = """
import jax, importlib.util
spec = importlib.util.spec_from_file_location("kernel", {path!r})
kernel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernel)
info = kernel.KERNEL_INFO
case = (
    jax.jit(getattr(kernel, info["name"])),
    [jax.ShapeDtypeStruct(x["shape"], x["dtype"]) for x in info["inputs"]],
)
"""


def module_text(head_dim, blocks, loop, chip, choice):
    """The module's text for two heads in one batch. Raises CompileError."""
    config = {
        "block_sizes": list(blocks),
        "pallas_loop_type": loop,
        "pallas_inloop_loads": choice,
    }
    document = proof.document(f"attention_b8_h32_s8192_d{head_dim}@2")
    return compile_graph(document, config, chip).source


def measure(text, chip, tools, cache):
    """The schedule of a module: spills, fills, cycles; or the error's text."""
    key = hashlib.sha256(proof.kernel_text(text).encode() + chip.encode()).hexdigest()[:32]
    kept = cache / f"{key}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        path, harness = Path(scratch) / "kernel.py", Path(scratch) / "harness.py"
        path.write_text(text)
        harness.write_text(HARNESS.format(path=str(path)))
        report = Path(scratch) / "report.json"
        command = [sys.executable, str(tools / "tpu_static.py"), str(harness), "case", "-t"]
        command += [CHIPS[chip], "--json", str(report), "--timeout", "600", "--brief"]
        subprocess.run(command, check=False, capture_output=True, cwd=scratch)
        found = json.loads(report.read_text())[0]
    kernels = [k for k in found.get("kernels", {}).values() if k["pallas"]]
    # The model does not follow copies with strides; the schedule's own loops do not need them.
    followed = all(
        op.startswith(STRIDED) for k in kernels for op in k.get("unhandled_scalar_ops", ())
    )
    if not found.get("ok") or not kernels or not followed:
        return {"error": str(found.get("error") or found.get("errors"))[:300]}
    (kernel,) = kernels
    result = {
        "spills": kernel["spills_static"],
        "fills": kernel["fills_static"],
        "cycles": int(kernel["compute_cycles"]),
    }
    cache.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(result))
    return result


def rows():
    """(head dim, blocks, loop type, chip) of every row of the table."""
    for head_dim, blocks, loops in ROWS:
        for loop in loops:
            for chip in CHIPS:
                yield head_dim, blocks, loop, chip


def cell(result):
    """A result as a table cell."""
    if "error" in result:
        return result["error"].splitlines()[0][:60]
    return f"{result['spills']} / {result['fills']} / {result['cycles']}"


def main():
    """Prints the table; exit status 1 where `auto` spills more than `off`."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("TPU_STATIC")
    parser.add_argument("--tools", type=Path, default=default, required=default is None)
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "bench")
    options = parser.parse_args()
    print("| D | blocks | loop | chip | off: spills / fills / cycles | auto | cycles |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    worse = 0
    for head_dim, blocks, loop, chip in rows():
        off, auto = (
            measure(
                module_text(head_dim, blocks, loop, chip, choice),
                chip,
                Path(options.tools).resolve(),
                options.cache,
            )
            for choice in CHOICES
        )
        change = "-"
        if "cycles" in off and "cycles" in auto:
            change = f"{100 * (auto['cycles'] / off['cycles'] - 1):+.2f}%"
            worse += auto["spills"] > off["spills"]
        cells = (head_dim, list(blocks), loop, chip, cell(off), cell(auto), change)
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
