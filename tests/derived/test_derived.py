"""Backwards that `pallasc.grad` derives: against JAX's autodiff of the plain formula."""

import json

import jax
import jax.numpy as jnp
import kit
import numpy as np
import pallasc
import plain
import pytest
from pallasc.reference import run
from pallasc.reference.inputs import make_inputs
from two_level import layer_norm_two_level

GRAPHS = (
    "softmax",
    "softmax_odd",
    "softmax_two_pass_odd",
    "layer_norm",
    "layer_norm_odd",
    "rms_norm_odd",
    "matmul_odd",
    "matmul_bias_gelu",
    "matmul_bias_gelu_odd",
    "swiglu_odd",
    "swiglu_packed",
    "kl_div_odd",
    "cross_entropy",
    "cross_entropy_odd",
    "cross_entropy_online_odd",
    "attention_b1_h2_s421_d96",
    "causal_attention_b1_h2_s421_d64",
    "gqa_attention_odd",
)


def forward(name):
    """The document of a forward."""
    return layer_norm_two_level() if name == "layer_norm_two_level" else kit.document(name)


def arrays(document):
    """Inputs by name; labels are columns."""
    names = [t["name"] for t in document["tensors"] if t["role"] == "input"]
    made = dict(zip(names, make_inputs(document, seed=1)[: len(names)], strict=True))
    if "labels" in made:
        columns = made["logits"].shape[1]
        made["labels"] = (np.abs(made["labels"].astype(np.int64)) % columns).astype(np.int32)
    return made


def differences(document, backward):
    """{gradient: the largest difference from JAX's, beside its largest value}."""
    inputs = arrays(document)
    outputs = run(document, list(inputs.values()))
    names = [r["tensor"] for r in document["returns"]]
    random = np.random.default_rng(0)
    given = [random.standard_normal(x.shape).astype(x.dtype) for x in outputs]
    known = inputs | dict(zip(names, outputs, strict=True))
    known |= {f"d_{name}": x for name, x in zip(names, given, strict=True)}
    wanted = [t["name"] for t in backward["tensors"] if t["role"] == "input"]
    got = run(backward, [known[name] for name in wanted])
    floats = [name for name, x in inputs.items() if x.dtype != np.int32]

    def formula(*values):
        every = inputs | dict(zip(floats, values, strict=True))
        found = plain.OF[document["name"]](*every.values())
        return found if isinstance(found, tuple) else (found,)

    _, pull = jax.vjp(formula, *(jnp.asarray(inputs[n]).astype(jnp.float32) for n in floats))
    expected = pull(tuple(jnp.asarray(x).astype(jnp.float32) for x in given))
    found = {}
    for name, value in zip(floats, expected, strict=True):
        index = [r["tensor"] for r in backward["returns"]].index(f"d_{name}")
        assert got[index].dtype == inputs[name].dtype and got[index].shape == inputs[name].shape
        value = np.asarray(value)
        found[name] = np.abs(got[index].astype(np.float32) - value).max() / np.abs(value).max()
    return found


@pytest.mark.parametrize("name", [*GRAPHS, "layer_norm_two_level"])
def test_gradients_are_those_of_the_formula(name):
    document = forward(name)
    backward = pallasc.grad(document)
    narrow = any(t["dtype"] == "bfloat16" for t in document["tensors"])
    limit = 1e-2 if narrow else 4e-6
    off = differences(document, backward)
    assert off and max(off.values()) < (3e-2 if "online" in name else limit), off


@pytest.mark.parametrize("name", [*GRAPHS, "layer_norm_two_level"])
def test_the_compiler_takes_it(name):
    module = pallasc.compile(pallasc.grad(forward(name)), target="v6e")
    assert module.info["name"] == forward(name)["name"] + "_grad"


def test_attention_reads_what_the_forward_left():
    backward = pallasc.grad(kit.document("attention_b8_h32_s8192_d128"), residuals=["lse"])
    read = [t["name"] for t in backward["tensors"] if t["role"] == "input"]
    assert read == ["q_in", "k_in", "v_in", "out", "d_out", "lse"]
    # The sum of out * d_out is one root's to compute; no loop computes scores to sum them up.
    assert [g["kind"] for g in backward["graphs"]] == ["for_loop", "root", "for_loop", "root"]
    assert [t["name"] for t in backward["tensors"] if t["name"].startswith("kept_")] == [
        "kept_total"
    ]


def test_only_what_is_asked_for():
    backward = pallasc.grad(kit.document("layer_norm"), wrt=["bias"])
    assert [r["tensor"] for r in backward["returns"]] == ["d_bias"]
    assert [t["name"] for t in backward["tensors"] if t["role"] == "input"] == ["d_out"]


def test_the_command(tmp_path):
    from pallasc.__main__ import main

    out = tmp_path / "bwd.json"
    assert main(["grad", str(kit.path("softmax")), "-o", str(out)]) == 0
    assert json.loads(out.read_text()) == json.loads(
        json.dumps(pallasc.grad(kit.document("softmax")))
    )


REFUSED = {
    "matmul_split_k": "node 'atomic_add' (tile.atomic_add): has no derivative here",
    "sort_rows": "gives several values",
    "softmax_through_output": "reads 'out', which the graph may write",
    "prod_rows": "(aten.prod.dim_int): has no derivative here",
    "jagged_sum": "loop",
    "roots_shared_block": "2 roots",
    "extremes": "(aten.amin.default): has no derivative here",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_its_place(name, capsys):
    from pallasc.__main__ import main

    assert main(["grad", str(kit.path(name))]) == 1
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith(f"pallasc: error: {kit.path(name)}: ")
    assert REFUSED[name] in told.err and len(told.err.splitlines()) == 1


def test_a_causal_loop_whose_rest_is_not_hidden_is_refused():
    document = kit.document("causal_attention")
    loop = document["graphs"][0]["nodes"]
    visible = next(n for n in loop if n["name"] == "visible")
    visible["args"].reverse()
    with pytest.raises(pallasc.PallascError, match="is not proven to be -inf past it"):
        pallasc.grad(document)


def test_a_maximum_that_shows_in_a_result_is_refused():
    document = kit.document("cross_entropy_odd")
    nodes = document["graphs"][0]["nodes"]
    sub = next(n for n in nodes if n["name"] == "sub_1")
    sub["args"][0] = {"ref": "log"}
    with pytest.raises(pallasc.PallascError, match="'losses' may change with this maximum"):
        pallasc.grad(document)
