"""pallas_narrow_steps: a step of attention takes 1024 of a block's columns, if nothing tells."""

import kit
import pytest
import simulated
from pallasc.build import Graph, ops

LARGE = "attention_b8_h32_s8192_d256"
ROWS, COLUMNS, WIDTH = 128, 4096, 128


def steps(graph, chip="v7x", **config):
    """(columns of a step, whether steps stand in pairs, and behind fences)."""
    found = kit.plan(graph, chip, **config)
    (loop,) = found["loops"]
    sizes = [block.get("taken", block["size"]) for block in found["blocks"]]
    return sizes[-1], loop["paired"], loop["fenced"]


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
@pytest.mark.parametrize(("loop", "fenced"), [("unroll", True), ("fori_loop", False)])
@pytest.mark.parametrize("blocks", [[2, 512, 2048], [1, 1024, 4096]])
def test_steps_that_overlap_take_1024_columns(chip, loop, fenced, blocks):
    """The configuration stays as it was given."""
    config = {"block_sizes": blocks, "pallas_loop_type": loop}
    assert steps(LARGE, chip, **config) == (1024, True, fenced)
    module = kit.compiled(LARGE, chip, **config)
    assert module.info["config"]["block_sizes"] == blocks
    assert module.plan["config"]["block_sizes"] == blocks


@pytest.mark.parametrize(
    ("chip", "blocks", "keys"),
    [
        ("v5e", [2, 512, 2048], {"pallas_loop_type": "unroll"}),  # no steps overlap there
        ("v7x", [1, 512, 1024], {}),
        ("v7x", [2, 512, 2048], {"pallas_narrow_steps": "off"}),
        ("v7x", [2, 512, 2048], {"pallas_loop_skew": "off"}),
        ("v7x", [2, 512, 2048], {"pallas_step_pairs": "off"}),
        ("v7x", [2, 512, 2048], {"pallas_loop_type": "unroll", "pallas_fenced_steps": "off"}),
        ("v7x", [2, 512, 2048], {"pallas_loop_type": "unroll", "pallas_matmul_ahead": 1}),
    ],
)
def test_what_stays(chip, blocks, keys):
    config = {"block_sizes": blocks, "pallas_loop_type": "fori_loop"} | keys
    assert steps(LARGE, chip, **config)[0] == blocks[-1]


def test_it_is_asked_for():
    """Whatever is estimated, on any chip."""
    config = {"block_sizes": [2, 512, 2048], "pallas_loop_type": "unroll"}
    assert steps(LARGE, "v5e", pallas_narrow_steps="on", **config)[0] == 1024


def attention(given=None, columns=COLUMNS, weights="bfloat16", result="bfloat16", **changes):
    """Attention of one head; `changes` replace what a step computes, {name: function of values}."""
    g = Graph("one_head")
    q = g.input("q", [ROWS, WIDTH], "bfloat16")
    k, v = (g.input(x, [columns, WIDTH], "bfloat16") for x in "kv")
    scale = g.input("scale", [columns], "float32")
    out = g.output("out", [ROWS, WIDTH], result)
    lse = g.output("lse", [ROWS], "float32")

    def change(name, value, *values):
        return changes[name](value, *values) if name in changes else value

    with g.grid(m=ROWS) as (m,):
        most = g.var(ops.full([m], float("-inf"), "float32"))
        total = g.var(ops.zeros([m], dtype="float32"))
        acc = g.var(ops.zeros([m, WIDTH], dtype="float32"))
        with g.loop("n", columns) as n:
            scores = ops.dot(q[m, :], k[n, :].T) * 0.125
            scores = change("scores", scores, scale[n], n)
            top = change("top", ops.amax(ops.mask_to(scores, float("-inf")), -1))
            new = ops.maximum(most, top)
            p = change("p", ops.exp(scores - new[:, None]), new)
            decay = ops.exp(most - new)
            part = ops.sum(ops.mask_to(p, 0), -1)
            total.set(change("total", total * decay + part, new, part, decay, total))
            rounded = ops.mask_to(p.to(weights), 0)
            product = ops.dot(rounded, v[n, :].to(weights))
            acc.set(change("acc", acc * decay[:, None] + product, new))
            most.set(new)
        out[m, :] = (acc / total[:, None]).to(result)
        lse[m] = most + ops.log(total)
    g.config(block_sizes={"m": ROWS, "n": given or columns // 2})
    return g.document()


ASKED = {"pallas_narrow_steps": "on"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scores": lambda x, scale, n: x + scale[None, :]},
        {"scores": lambda x, scale, n: ops.where(scale[None, :] > 0, x, float("-inf"))},
        {"scores": lambda x, scale, n: ops.where(n.index[None, :] < 3000, x, float("-inf"))},
        {"p": lambda p, new: p * 0.5},
        {"top": lambda top: ops.maximum(top, -3.0)},
        {"total": lambda x, new, part, decay, total: total * decay + (part * 2 + part)},
    ],
)
@pytest.mark.parametrize("loop", ["unroll", "fori_loop", "emit_pipeline"])
def test_numbers(changes, loop):
    document = attention(**changes)
    config = ASKED | {"pallas_loop_type": loop}
    assert steps(document, **config)[0] == 1024
    assert simulated.wrong(document, config, "v7x") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"total": lambda x, new, part, decay, total: x + 1},  # counts steps
        {"total": lambda x, new, part, decay, total: x + ops.exp(0.0 - new)},  # so does a sink
        {"total": lambda x, new, part, decay, total: total * decay + part * part},
        {"total": lambda x, new, part, decay, total: total * decay + ops.exp(part)},
        {"total": lambda x, new, part, decay, total: total + part},  # sums of other units
        {"total": lambda x, new, part, decay, total: part},  # the last step's
        {"total": lambda x, new, part, decay, total: x * 0.5},  # once for each step
        {"total": lambda x, new, part, decay, total: total * 0.5 + part},
        {"total": lambda x, new, part, decay, total: total * decay * decay + part},
        {"scores": lambda x, scale, n: x - ops.amax(x, -1)[:, None]},  # over the tile alone
        {"scores": lambda x, scale, n: x * ops.sum(x, -1, True)},
        {"scores": lambda x, scale, n: x * n.size},
        {"scores": lambda x, scale, n: x + n.id},
        {"scores": lambda x, scale, n: ops.cumsum(x, -1)},
        {"top": lambda top: top * 2},
        {"top": lambda top: top + 1},
        {"acc": lambda x, new: x + 1},
    ],
)
def test_what_tells_of_the_tile(changes):
    document = attention(**changes)
    assert steps(document, **ASKED)[0] == COLUMNS // 2


@pytest.mark.parametrize(
    ("weights", "result", "taken"),
    [
        ("bfloat16", "bfloat16", 1024),
        ("float32", "float32", 1024),
        ("bfloat16", "float32", 2048),
        ("float8_e4m3fn", "bfloat16", 2048),
    ],
)
def test_rounding_in_units_of_another_maximum(weights, result, taken):
    """No result is more exact than the weights."""
    document = attention(weights=weights, result=result)
    assert steps(document, **ASKED)[0] == taken
    if taken == 1024:
        assert simulated.wrong(document, ASKED, "v7x") == []


def test_parts_that_do_not_divide_the_range():
    assert steps(attention(2048, 5000), **ASKED)[0] == 2048
    assert steps(attention(1536, 3072), **ASKED)[0] == 1536


def test_a_ragged_last_step_of_whole_parts():
    """3072 columns in blocks of 2048."""
    document = attention(2048, 3072)
    assert steps(document, **ASKED)[0] == 1024
    assert simulated.wrong(document, ASKED, "v7x") == []


def test_what_is_said():
    keys = kit.settings({"block_sizes": [2, 512, 2048], "pallas_loop_type": "unroll"})
    said = kit.accepted(kit.path(LARGE), "--explain", "--emit=none", "--target=v6e", *keys).err
    assert "choose: taken: steps of a part of the columns (tile_n 1024), steps in pairs" in said
    why = "plan: tile_n: tiles of 1024, not 2048: what a step of more columns computes would be"
    assert f"{why} spilled\n" in said
