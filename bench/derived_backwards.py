"""Backward passes derived by `pallasc.grad` beside hand-written ones: cycles by estimate, on v6e.

    python bench/derived_backwards.py [--profile] [NAME ...]

Both get the block sizes that the compiler chooses. With --profile, also cycles of the compiler's
schedule (`pallasc profile`), for which libtpu has to be there.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests")]

import pairs  # noqa: E402
import pallasc  # noqa: E402
from builder import Doc, sym  # noqa: E402

TARGET = "v6e"


def plain(document):
    """Without the configuration that its file has."""
    return {key: value for key, value in document.items() if key != "config"}


def sized(name, **sizes):
    """A graph of testdata with other sizes: of `matmul_nt`, _256=4096."""
    folder = next(
        f
        for f in ("graphs", "coverage/graphs")
        if (ROOT / "testdata" / f / f"{name}.json").exists()
    )
    text = (ROOT / "testdata" / folder / f"{name}.json").read_text()
    for old, new in sizes.items():
        text = re.sub(rf"(?<![\w.]){old[1:]}(?![\w.])", f"@{new}", text)
    return json.loads(text.replace("@", ""))


def attention(kind="", heads=16, rows=8192, kernels=("backward",)):
    """(forward, residuals, backwards) of attention, or causal attention, of 128 columns."""
    shape = {"_32": heads, "_8192": rows}
    forward = sized("attention_d128_8192", _16=heads, _8192=rows) if not kind else None
    if kind:
        forward = sized(f"{kind}attention", _4=heads, _512=rows)
        for tensor in [*forward["tensors"], *forward["returns"]]:
            if len(tensor.get("shape", ())) == 4:
                tensor["shape"] = [1, heads, rows, 128]
    names = ["attention_delta", *(f"{kind}attention_{kernel}" for kernel in kernels)]
    return forward, ["lse"], [sized(f"{name}_8192", **shape) for name in names]


def gqa():
    """Shared heads: the backwards are those of attention of as many heads that query."""
    forward = sized("gqa_attention_8192")
    heads = forward["tensors"][0]["shape"][1]
    return forward, ["lse"], attention(heads=heads, kernels=("dq", "dkdv"))[2]


def gelu():
    """Of 4096 x 4096 x 4096."""
    forward = sized("matmul_bias_gelu_4096")
    first = pairs.gelu_bwd("bfloat16", 4096, 4096, 4096)
    return forward, [], [first, sized("matmul_nt_4096"), sized("matmul_tn_4096")]


def kl_div():
    """The backward is pointwise: gradients of true * (log(max(true, eps)) - pred)."""
    forward = sized("kl_div_4096_32768")
    rows, width = forward["tensors"][0]["shape"]
    dtype = forward["tensors"][0]["dtype"]
    doc = Doc(name="kl_div_bwd").block(rows).block(width)
    for name in ("y_pred", "y_true"):
        doc.tensor(name, "input", dtype, [rows, width])
    doc.tensor("d_loss", "input", "float32", [rows])
    for name in ("d_y_pred", "d_y_true"):
        doc.tensor(name, "output", dtype, [rows, width])
    g = pairs.Rows(doc, "u1", grid=(0, 1))
    here = [sym("u0"), sym("u1")]
    pred, true, loss = g.tile("y_pred", here), g.tile("y_true", here), g.column("d_loss")
    logarithm = g.op("aten.log.default", g.op("aten.clamp_min.default", true, 1e-10))
    above = g.op("aten.ge.Scalar", true, 1e-10, dtype="bool")
    slope = g.op("aten.sub.Tensor", logarithm, pred)
    slope = g.op("aten.where.self", above, g.op("aten.add.Tensor", slope, 1.0), slope)
    g.put("d_y_true", here, g.op("aten.mul.Tensor", slope, loss))
    g.put("d_y_pred", here, g.op("aten.neg.default", g.op("aten.mul.Tensor", true, loss)))
    return forward, [], [doc.add(g.out())]


def two_level():
    """Layer norm whose grid tiles have inner loops over rows."""
    sys.path.append(str(ROOT / "tests"))
    sys.path.append(str(ROOT / "tests/derived"))
    from two_level import layer_norm_two_level

    text = json.dumps(layer_norm_two_level())
    text = re.sub(r"\b421\b", "4096", re.sub(r"\b1000\b", "8192", text))
    return json.loads(text), [], [sized("layer_norm_bwd_two_level_4096_8192")]


CASES = {
    "softmax": lambda: (
        sized("softmax_two_pass_4096_32768", _32768=8192),
        [],
        [sized("softmax_bwd_4096_8192")],
    ),
    "layer_norm": lambda: (
        sized("layer_norm_4096_8192"),
        [],
        [sized("layer_norm_bwd_4096_10240", _10240=8192)],
    ),
    "layer_norm_two_level": two_level,
    "rms_norm": lambda: (
        sized("rms_norm_4096_8192"),
        ["rstd"],
        [sized("rms_norm_bwd_4096_8192")],
    ),
    "cross_entropy": lambda: (
        sized("cross_entropy_4096_32000"),
        [],
        [pairs.cross_entropy_bwd("bfloat16", 4096, 32000)],
    ),
    "matmul": lambda: (
        sized("matmul_4096"),
        [],
        [sized("matmul_nt_4096"), sized("matmul_tn_4096")],
    ),
    "matmul_bias_gelu": gelu,
    "swiglu": lambda: (
        sized("swiglu_odd", _421=8192, _300=8192),
        [],
        [pairs.swiglu_bwd("bfloat16", 8192, 8192)],
    ),
    "kl_div": kl_div,
    "attention": attention,
    "causal_attention": lambda: attention("causal_"),
    "gqa_attention": gqa,
}


def estimated(document):
    """Cycles of a kernel by estimate."""
    return pallasc.compile(plain(document), target=TARGET).plan["estimate"]["cycles"]


def profiled(document):
    """Cycles of a module by the compiler's schedule, with what XLA does around its kernels."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(pallasc.compile(plain(document), target=TARGET).source)
        command = ["-m", "pallasc", "profile", str(path), "-t", TARGET, "--json"]
        ran = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, cwd=ROOT / "python"
        )
        found = json.loads(ran.stdout or "{}")
        if "cycles" not in found:
            sys.exit(f"profile failed: {ran.stderr or ran.stdout}")
        return found["cycles"]


def main():
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*CASES, []])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    measure = profiled if options.profile else estimated
    print("| forward | derived, cycles | hand-written, cycles | ratio |\n| --- | --- | --- | --- |")
    for name in options.names or CASES:
        forward, residuals, backwards = CASES[name]()
        derived = measure(pallasc.grad(forward, residuals=residuals))
        written = sum(measure(document) for document in backwards)
        print(f"| {name} | {derived:,} | {written:,} | {derived / written:.2f} |", flush=True)


if __name__ == "__main__":
    main()
