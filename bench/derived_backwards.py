"""Backward passes derived by `pallasc.grad` beside hand-written ones: cycles by estimate, on v6e.

    python bench/derived_backwards.py [--profile] [NAME ...]

Both get the block sizes that the compiler chooses. With --profile, also cycles of the compiler's
schedule (`python -m pallasc profile`), for which libtpu has to be there.
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


def attention(kind="", heads=16, rows=8192):
    """(forward, residuals, backwards) of attention, or causal attention, of 128 columns."""
    shape = {"_32": heads, "_8192": rows}
    forward = sized("attention_d128_8192", _16=heads, _8192=rows) if not kind else None
    if kind:
        forward = sized(f"{kind}attention", _4=heads, _512=rows)
        for tensor in [*forward["tensors"], *forward["returns"]]:
            if len(tensor.get("shape", ())) == 4:
                tensor["shape"] = [1, heads, rows, 128]
    names = ["attention_delta_8192", f"{kind}attention_dq_8192", f"{kind}attention_dkdv_8192"]
    return forward, ["lse"], [sized(name, **shape) for name in names]


def gqa():
    """Shared heads: the backwards are those of attention of as many heads that query."""
    forward = sized("gqa_attention_8192")
    heads = forward["tensors"][0]["shape"][1]
    return forward, ["lse"], attention(heads=heads)[2]


def gelu():
    """Of 4096 x 4096 x 4096."""
    forward = sized("matmul_bias_gelu_4096")
    first = pairs.gelu_bwd("bfloat16", 4096, 4096, 4096)
    return forward, [], [first, sized("matmul_nt_4096"), sized("matmul_tn_4096")]


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
        [pairs.cross_entropy_bwd("float32", 4096, 32000)],
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
    "kl_div": lambda: (sized("kl_div_4096_32768"), [], []),
    "attention": attention,
    "causal_attention": lambda: attention("causal_"),
    "gqa_attention": gqa,
}


def estimated(document):
    """Cycles of a kernel by estimate."""
    return pallasc.compile(plain(document), target=TARGET).plan["estimate"]["cycles"]


def profiled(document):
    """Cycles of a kernel by the compiler's schedule."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(pallasc.compile(plain(document), target=TARGET).source)
        command = [
            sys.executable,
            "-m",
            "pallasc",
            "profile",
            str(path),
            f"--target={TARGET}",
            "--json",
        ]
        ran = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=ROOT / "python"
        )
        return json.loads(ran.stdout)["cycles"]


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
        beside = f"{written:,} | {derived / written:.2f}" if written else "none | "
        print(f"| {name} | {derived:,} | {beside} |", flush=True)


if __name__ == "__main__":
    main()
