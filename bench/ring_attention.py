"""The table of "Ring attention beside tokamax's" in docs/scaling.md, in the environment of exports.

    PYTHONPATH=python .venv-export/bin/python bench/ring_attention.py

A step of one of four devices in attention over 16,384 tokens: the kernel of its queries and of one
device's keys and values, and what merges its results with those of the steps before. `profile`
executes the compiler's schedule of both (docs/profile.md). tokamax is of requirements-bench.txt.
"""

import functools
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("python", "python/tests", "tests", "tests/jit")]

from page_part import write_part  # noqa: E402
from pallasc.errors import CompileError  # noqa: E402
from pallasc.profile.run import profile  # noqa: E402

PAGE = ROOT / "docs" / "scaling.md"
BEGIN, END = "<!-- ring-attention -->\n", "<!-- end ring-attention -->\n"
DEVICES, HEADS, ROWS, WIDTH = 4, 256, 4096, 128
OURS = ((1, 1024, 512), (1, 2048, 512), (1, 2048, 1024))
THEIRS = ((2048, 4096, 512), (2048, 2048, 1024), (2048, 4096, 1024), (2048, 2048, 512))


def arguments(shape):
    """Queries, keys and values; the maximum, the sum and the output so far."""
    import jax

    rows = [jax.ShapeDtypeStruct((HEADS, ROWS), "float32")] * 2
    out = jax.ShapeDtypeStruct((HEADS, ROWS, WIDTH), "float32")
    return [*[jax.ShapeDtypeStruct(shape, "bfloat16")] * 3, *rows, out]


def ours(chip, *blocks):
    """(function, arguments) of a step of the ring that pallasc prints."""
    import jax
    import kit
    import pallasc
    from named import sized

    document = sized(kit.document("attention_b8_h32_s8192_d128"), S=8192)
    document["config"] = {"block_sizes": list(blocks), "pallas_loop_type": "fori_loop"}
    ring = {"gather": {"k_in": "seq", "v_in": "seq"}, "sizes": {"S": ROWS * DEVICES}}
    module = pallasc.shard(document, {"seq": DEVICES}, {"tile_m": "seq"}, target=chip, **ring)
    kernel = module.load()

    def function(q, k, v, most, total, out):
        from jax import numpy as jnp

        y = kernel._attention_step(q, k, v, False)
        scaled = functools.partial(kernel._add_scaled, x_most=most, y_most=y[0], exp=jnp.exp2)
        row = (HEADS, ROWS)
        return (
            jnp.maximum(most, y[0]),
            scaled(total, y[1], shape=row),
            scaled(out, y[2], shape=(*row, 1)),
        )

    return jax.jit(function), arguments((8, 32, ROWS, WIDTH))


def theirs(*sizes):
    """(function, arguments) of a step of tokamax's ring attention."""
    import jax
    from jax import numpy as jnp
    from tokamax._src.ops.experimental.tpu.splash_attention import (
        splash_attention_kernel as kernels,
    )
    from tokamax._src.ops.experimental.tpu.splash_attention import splash_attention_mask as masks

    names = ("block_q", "block_kv", "block_kv_compute")
    config = kernels.SplashConfig(
        use_experimental_scheduler=True, use_base2_exp=False, **dict(zip(names, sizes, strict=True))
    )
    step = kernels.make_splash_mha_single_device(
        masks.FullMask((ROWS, ROWS)), config=config, save_residuals=True
    )

    def function(q, k, v, most, total, out):
        part, stats = step(q, k, v)
        part_most = stats["max_logits"]
        part_total = jnp.exp(stats["logsumexp"] - part_most)
        now = jnp.maximum(most, part_most)
        a, b = jnp.exp(most - now), jnp.exp(part_most - now)
        added = part.astype(jnp.float32) * part_total[..., None]
        return now, a * total + b * part_total, a[..., None] * out + b[..., None] * added

    return jax.jit(function), arguments((HEADS, ROWS, WIDTH))


def least(chip, way, choices, *given):
    """(cycles of all, of its kernels, the choice) of the fastest choice that compiles."""
    found = []
    for choice in choices:
        words = ", ".join(map(repr, (*given, *choice)))
        try:
            facts = profile(f"{Path(__file__)}:{way}({words})", chip)
        except CompileError as error:
            print(f"{way} {choice} on {chip}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        found.append((facts["cycles"], facts["pallas_cycles"], choice))
    return min(found)


def main():
    """Writes the table into the page."""
    lines = [
        "| chip | pallasc, kilocycles | of these its kernels | tokamax, kilocycles | of these its"
        " kernels | time |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for chip in ("v6e", "v7x"):
        us, them = least(chip, "ours", OURS, chip), least(chip, "theirs", THEIRS)
        cells = [
            f"{x:,.0f} | {kernels / 1e3:,.0f}"
            for x, kernels in ((us[0] / 1e3, us[1]), (them[0] / 1e3, them[1]))
        ]
        lines.append(f"| {chip} | {' | '.join(cells)} | {us[0] / them[0]:.2f} |")
        print(lines[-1], us[2], them[2], flush=True)
    write_part(PAGE, BEGIN, END, "\n" + "\n".join(lines) + "\n\n")


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
