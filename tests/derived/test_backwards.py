"""Backwards that `pallasc.grad` derives: against JAX's autodiff of the plain formula."""

import json
import re

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
    "fused_linear_cross_entropy_odd",
    "matmul_swiglu",
    "attention_b1_h2_s421_d96",
    "causal_attention_b1_h2_s421_d64",
    "gqa_attention_odd",
)


# Rows in place of those that the file has: two tiles, one of them ragged.
ROWS = {
    "attention_b1_h2_s421_d96": (421, 140),
    "causal_attention_b1_h2_s421_d64": (421, 140),
    "gqa_attention_odd": (300, 140),
}


def forward(name):
    """The document of a forward."""
    if name == "layer_norm_two_level":
        return layer_norm_two_level()
    was, rows = ROWS.get(name, (0, 0))
    return json.loads(re.sub(rf"\b{was}\b", str(rows), kit.text(name)))


def arrays(document):
    """Inputs by name; labels are columns."""
    names = [t["name"] for t in document["tensors"] if t["role"] == "input"]
    made = dict(zip(names, make_inputs(document, seed=1)[: len(names)], strict=True))
    for name, table, dim in (("labels", "logits", 1), ("ids", "weight", 0)):
        if name in made:
            columns = made[table].shape[dim]
            made[name] = (np.abs(made[name].astype(np.int64)) % columns).astype(np.int32)
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
    # Tiles that divide nothing: several of each block, the last one ragged.
    blocks = [b for b in backward["block_sizes"] if not b.get("reduction") and "size" not in b]
    config = {"block_sizes": [64 if b["extent"] > 64 else 16 for b in blocks]}
    got = run(backward, [known[name] for name in wanted], config=config)
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
    assert off and max(off.values()) < limit, off


@pytest.mark.parametrize("name", [*GRAPHS, "layer_norm_two_level"])
def test_the_compiler_takes_it(name):
    module = pallasc.compile(pallasc.grad(forward(name)), target="v6e")
    assert module.info["name"] == forward(name)["name"] + "_grad"


def test_attention_reads_what_the_forward_left():
    backward = pallasc.grad(kit.document("attention_b8_h32_s8192_d128"), residuals=["lse"])
    read = [t["name"] for t in backward["tensors"] if t["role"] == "input"]
    assert read == ["q_in", "k_in", "v_in", "out", "d_out", "lse"]
    # The sum of out * d_out is one root's to compute; no loop computes scores to sum them up.
    assert [g["kind"] for g in backward["graphs"]] == ["root", "for_loop", "root"]
    assert [t["name"] for t in backward["tensors"] if t["name"].startswith("kept_")] == [
        "kept_total"
    ]


def matmuls(graph):
    return [n["target"] for n in graph["nodes"] if "mm" in n.get("target", "")]


def test_one_loop_gives_all_gradients_of_attention(tmp_path, capsys):
    """Scores and their gradient are computed once: five matmuls; two loops would have seven."""
    from pallasc.__main__ import main

    wishes = ["--residual", "lse", "-o", str(tmp_path / "backward.json"), "--explain"]
    assert main(["grad", str(kit.path("attention_b8_h32_s8192_d128")), *wishes]) == 0
    assert "summed d_q_view (attention.py:39): added in the loop of d_v_view: " in (
        capsys.readouterr().err
    )
    backward = json.loads((tmp_path / "backward.json").read_text())
    loop = backward["graphs"][1]
    assert len(matmuls(loop)) == 5 and sum(len(matmuls(g)) for g in backward["graphs"]) == 5
    (add,) = [n for n in loop["nodes"] if n.get("target") == "tile.atomic_add"]
    assert add["meta"]["dtype"] == "float32"
    (d_q,) = [t for t in backward["tensors"] if t["name"] == "d_q_in"]
    assert (d_q["dtype"], d_q["init"]) == ("float32", 0)
    assert backward["returns"][0] == {
        "tensor": "d_q_in",
        "ops": [["prims.convert_element_type.default", {"dtype": "bfloat16"}]],
    }


def test_a_gradient_that_vmem_does_not_hold_has_a_loop_of_its_own():
    """d_q of a head is 4 or 16 MiB in float32."""
    text = kit.text("attention_b8_h32_s8192_d128")
    for rows, chip in (("8192", "v4"), ("32768", "v6e")):
        document = json.loads(text.replace("8192", rows))
        backward = pallasc.grad(document, residuals=["lse"], target=chip)
        assert [len(matmuls(g)) for g in backward["graphs"]] == [3, 0, 4, 0]


def test_without_a_common_block_loops_stay_apart(tmp_path, capsys):
    """The whole grid would run in order."""
    from pallasc.__main__ import main

    graph, file = str(kit.path("fused_linear_cross_entropy")), str(tmp_path / "backward.json")
    assert main(["grad", graph, "-o", file, "--explain"]) == 0
    assert "added in the loop" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cross_entropy_online_odd", "matmul_bias_gelu"])
def test_what_the_forward_keeps(name, tmp_path, capsys):
    from pallasc.__main__ import main

    document = kit.document(name)
    files = tmp_path / "forward.json", tmp_path / "backward.json"
    wishes = ["--forward", str(files[0]), "-o", str(files[1]), "--explain"]
    assert main(["grad", str(kit.path(name)), *wishes]) == 0
    forward, backward = (json.loads(file.read_text()) for file in files)
    told = capsys.readouterr().err
    kept = [t["name"] for t in forward["tensors"][len(document["tensors"]) :]]
    if name == "matmul_bias_gelu":  # 512 products are had sooner than 8 bytes
        assert kept == [] and "computed again acc_1 (matmul.py:31): " in told
        return
    assert kept == ["logsumexp"] and "kept by the forward as logsumexp (" in told
    pallasc.compile(forward, target="v6e")
    assert "logsumexp" in [t["name"] for t in backward["tensors"] if t["role"] == "input"]
    # One pass over the logits, where without the log-sum-exp there were two.
    assert [g["kind"] for g in backward["graphs"]] == ["root"]
    inputs = arrays(document)
    losses, top = run(forward, list(inputs.values()))
    assert np.array_equal(losses, *run(document, list(inputs.values())))
    given = np.ones_like(losses)
    [got] = run(backward, [inputs["logits"], inputs["labels"], given, top])
    wide = jnp.asarray(inputs["logits"]).astype(jnp.float32)
    wanted = jax.grad(lambda x: plain.cross_entropy(x, inputs["labels"]).sum())(wide)
    assert np.abs(got.astype(np.float32) - np.asarray(wanted)).max() < 4e-3


def paired(name):
    """The forward and what is derived of it as one function that jax differentiates."""
    document = forward(name)
    outputs = [t["name"] for t in document["tensors"] if t["role"] == "output"]
    wishes = {"returns": ["out"]} if "out" in outputs else {}
    wishes["nondiff"] = [t["name"] for t in document["tensors"] if t["dtype"] == "int32"]
    residuals = [name for name in outputs if "out" in outputs and name != "out"]
    return pallasc.vjp(document, pallasc.grad(document, residuals=residuals), **wishes)


@pytest.mark.parametrize("name", [*GRAPHS, "layer_norm_two_level"])
def test_forward_and_derived_are_a_pair(name):
    assert [t["name"] for t in paired(name).info["inputs"]] == [
        t["name"] for t in forward(name)["tensors"] if t["role"] == "input"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "softmax_odd",
        pytest.param("matmul_bias_gelu_odd", marks=pytest.mark.full),
        pytest.param("causal_attention_b1_h2_s421_d64", marks=pytest.mark.full),
    ],
)
def test_jax_differentiates_the_pair(name):
    function, random = paired(name), np.random.default_rng(0)
    entries = function.info["inputs"]
    inputs = [jnp.asarray(random.standard_normal(t["shape"]), t["dtype"]) for t in entries]
    _, pull = jax.vjp(lambda *values: function(*values, interpret=True), *inputs)
    wide = [x.astype(jnp.float32) for x in inputs]

    def formula(*values):
        found = plain.OF[forward(name)["name"]](*values)
        return found[0] if isinstance(found, tuple) else found

    out, back = jax.vjp(formula, *wide)
    given = jnp.asarray(random.standard_normal(out.shape), function.info["outputs"][0]["dtype"])
    for x, got, wanted in zip(inputs, pull(given), back(given.astype(jnp.float32)), strict=True):
        assert got.dtype == x.dtype
        off = jnp.abs(got.astype(jnp.float32) - wanted).max() / jnp.abs(wanted).max()
        assert off < (1e-2 if x.dtype == jnp.bfloat16 else 4e-6)


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
    "first_come": "node 'atomic_cas' (tile.atomic_cas): has no derivative here",
    "sums_before": "(tile.atomic_add): what was there before has no derivative here",
    "flagged_rows": "node '_if' (tile.if): has no derivative here",
    "put_row": "writes a part of 'out' alone",
    "sort_rows": "gives several values",
    "softmax_through_output": "reads 'out', which the graph may write",
    "prod_rows": "(aten.prod.dim_int): has no derivative here",
    "jagged_sum": "loop",
    "roots_shared_block": "2 roots",
    "recurrence_scan": "(tile.associative_scan): has no derivative here",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_its_place(name, capsys):
    from pallasc.__main__ import main

    assert main(["grad", str(kit.path(name))]) == 1
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith(f"pallasc: error: {kit.path(name)}: ")
    message, hint = told.err.splitlines()
    message = re.sub(r", \w+\.py:\d+(?=: )", "", message)
    assert REFUSED[name] in message and hint.startswith("  hint: ")


def test_nodes_and_refusals_name_the_line_of_the_forward():
    document = kit.document("attention")
    lines = {n["loc"]["line"] for n in kit.nodes(document) if "loc" in n}
    derived = kit.nodes(pallasc.grad(document))
    assert {n["loc"]["line"] for n in derived if "loc" in n} <= lines
    without = [
        n for n in derived if "loc" not in n and n.get("op", "call_function") == "call_function"
    ]
    assert not without
    with pytest.raises(
        pallasc.PallascError, match=r"'prod' .*, reductions.py:91: has no derivative"
    ):
        pallasc.grad(kit.document("prod_rows"))


def test_estimates_are_of_the_chip_asked_for(tmp_path):
    from pallasc.differentiate.estimate import rates

    assert rates("v7x")[0] == 3.7e12 and rates("v6e")[1] == 9.2e14
    assert rates("v4")[3] == 16 << 20 == rates({"base": "v6e", "vmem_bytes": 16 << 20})[3]
    small = {"base": "v6e", "hbm_bytes_per_s": 1e9}
    assert rates(small) == (1e9, *rates("v6e")[1:])
    file = tmp_path / "chip.json"
    file.write_text(json.dumps(small))
    assert rates(file) == rates(small)
    for wrong, told in (("v9", "unknown target 'v9'"), ({"name": "x"}, "are needed")):
        with pytest.raises(pallasc.PallascError, match=told):
            rates(wrong)


@pytest.mark.parametrize(("flops", "kept"), [(9.2e14, []), (1e13, ["acc_1"])])
def test_what_the_forward_keeps_depends_on_the_chip(flops, kept, tmp_path):
    """Where 512 products take longer than moving 8 bytes, their sum is kept."""
    from pallasc.__main__ import main

    name = "matmul_bias_gelu"
    files = [tmp_path / f"{what}.json" for what in ("chip", "forward", "backward")]
    files[0].write_text(json.dumps({"base": "v6e", "bf16_flops": flops}))
    wishes = ["-t", str(files[0]), "--forward", str(files[1]), "-o", str(files[2])]
    assert main(["grad", str(kit.path(name)), *wishes]) == 0
    tensors = json.loads(files[1].read_text())["tensors"]
    assert [t["name"] for t in tensors[len(kit.document(name)["tensors"]) :]] == kept


def test_a_causal_loop_whose_rest_is_not_hidden_is_refused():
    document = kit.document("causal_attention")
    loop = document["graphs"][0]["nodes"]
    visible = next(n for n in loop if n["name"] == "visible")
    visible["args"].reverse()
    with pytest.raises(pallasc.PallascError, match="is not proven to be -inf past it"):
        pallasc.grad(document)


def test_a_maximum_that_shows_in_a_result_is_refused():
    document = kit.document("attention")
    lse = next(n for n in kit.nodes(document, "root") if n["name"] == "add")
    lse["args"] = [{"ref": "_phi"}, {"ref": "_phi"}]
    with pytest.raises(pallasc.PallascError, match="'lse' may change with this maximum"):
        pallasc.grad(document)


def test_what_is_no_graph_is_told_as_the_compiler_tells_it(tmp_path, capsys):
    from pallasc.__main__ import main

    document = kit.document("add")
    document["graphs"][0]["nodes"][2]["args"] = [{"ref": "nobody"}, []]
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(document))
    assert main(["grad", str(file)]) == 1
    told = capsys.readouterr()
    assert told.out == "" and "nobody" in told.err and f"{file}:1:" in told.err
    file.write_text("{}")
    assert main(["grad", str(file)]) == 1
    assert "the field 'format' is missing" in capsys.readouterr().err
    assert main(["grad", str(tmp_path / "absent.json")]) == 3
    assert main(["grad", str(kit.path("add")), "--wrt", "z"]) == 1
    assert "'z' is no input of floats; there are x, y" in capsys.readouterr().err


def test_values_by_index_stay_in_the_loop():
    """Where a loop's body gets a column of indices from outside, matmuls are not turned."""
    backward = pallasc.grad(kit.document("causal_attention"), residuals=["lse"])
    for graph in backward["graphs"]:
        if graph["kind"] == "for_loop":
            held = [n for n in graph["nodes"] if n.get("op") == "placeholder"]
            assert {n["meta"]["dtype"] for n in held} == {"float32", "bfloat16"}
            assert sum(n.get("target") == "tile.index" for n in graph["nodes"]) == 2


def test_gradients_that_would_be_lost_are_refused():
    """Ways to an input, or from one, that the graph's nodes do not show."""
    document = kit.document("add")
    document["tensors"][1] |= {"role": "derived", "of": "x", "ops": [["aten.neg.default"]]}
    with pytest.raises(pallasc.PallascError, match="reads 'y', derived of an input"):
        pallasc.grad(document)
    assert pallasc.grad(kit.document("add"), wrt=["x"])["returns"] == [{"tensor": "d_x"}]
    document = kit.document("add")
    document["returns"] = [{"tensor": "out"}, {"tensor": "x"}]
    with pytest.raises(pallasc.PallascError, match="'x' is returned as it is, of role input"):
        pallasc.grad(document)
    document = kit.document("add")
    row = {"name": "row", "role": "input", "dtype": "float32", "shape": [1, 1024]}
    wide = document["tensors"][1] | {"role": "view", "of": "row", "expand": True}
    document["tensors"][1:2] = [row, wide]
    with pytest.raises(pallasc.PallascError, match="'y' is a view with expanded dims"):
        pallasc.grad(document)


def test_what_the_forward_never_reads_has_a_gradient_of_0():
    document = kit.document("add")
    document["tensors"][1]["shape"] = [512, 2048]
    host = next(n for n in document["graphs"][0]["nodes"] if n.get("args") == ["y"])
    host["meta"]["shape"] = [512, 2048]
    backward = pallasc.grad(document)
    given = np.ones((512, 1024), np.float32)
    d_x, d_y = run(backward, [given])
    assert np.array_equal(d_x, given)
    assert np.array_equal(d_y, np.pad(given, ((0, 0), (0, 1024))))


def test_two_gradients_in_one_output_are_no_parts_by_tile():
    """A weight that is read in halves: each is a sum over rows, and both are stored in one."""
    document = kit.document("swiglu_packed")
    rows = document["tensors"][0]
    weight = {"name": "weight", "role": "input", "dtype": "float32", "shape": [512]}
    halves = {"name": "wide", "role": "view", "dtype": "float32", "shape": [2, 256], "of": "weight"}
    document["tensors"][1:1] = [weight, halves]
    nodes = document["graphs"][0]["nodes"]
    host = {"name": "wide", "target": "tile.host_tensor", "args": ["wide"]}
    host["meta"] = {"dtype": "float32", "shape": [2, 256]}
    meta = {"dtype": "float32", "shape": ["u1"]}
    added, whole = [host], {"dtype": "float32", "shape": ["u0", "u1"]}
    for half, name in enumerate(("gate", "up")):
        index = [half, {"sym": "u1"}]
        load = {"name": f"w{half}", "target": "tile.load", "args": [{"ref": "wide"}, index]}
        product = {"name": f"{name}_w", "target": "aten.mul.Tensor", "meta": whole}
        product["args"] = [{"ref": name}, {"ref": f"w{half}"}]
        added += [load | {"meta": meta}, product]
    at = next(i for i, n in enumerate(nodes) if n["name"] == "neg")
    for node in nodes[at:]:
        node["args"] = json.loads(
            json.dumps(node["args"]).replace('"gate"', '"gate_w"').replace('"up"', '"up_w"')
        )
    nodes[at:at] = added
    backward = pallasc.grad(document)
    pallasc.compile(backward, target="v6e")
    random = np.random.default_rng(0)
    x = random.standard_normal(rows["shape"]).astype(np.float32)
    w = random.standard_normal(512).astype(np.float32)
    given = np.ones((256, 256), np.float32)
    known = {"x": x, "weight": w, "d_out": given}
    got = run(backward, [known[t["name"]] for t in backward["tensors"] if t["role"] == "input"])
    wanted = jax.grad(lambda x, w: plain.swiglu_packed(x * w).sum(), (0, 1))(x, w)
    for a, b in zip(got, wanted, strict=True):
        assert np.abs(a - np.asarray(b)).max() < 4e-6 * np.abs(b).max()


def test_exponentials_stand_before_the_other_factor():
    """The vector unit makes them while the matmul of the gradient beside them runs."""
    document = pallasc.grad(forward("gqa_attention_odd"), residuals=["lse"])
    loops = [g["nodes"] for g in document["graphs"] if g["kind"] == "for_loop"]
    for names in ([node["name"] for node in loop] for loop in loops):
        assert names.index("scores") < names.index("product")
