"""The Helion exporter: the committed graphs, structure, values, refusals and the command line."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import numpy
import probes
import pytest
import torch
from pallasc import reference
from pallasc.binding import compile
from pallasc.errors import CompileError
from pallasc.export import ExportError, arrays, from_helion, main, text
from structure import document_check

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "testdata/kernels/graphs.json"
GRAPHS = ROOT / "testdata/graphs"
ENTRIES = {entry["graph"]: entry for entry in json.loads(MANIFEST.read_text())}
COVERAGE = GRAPHS.parent / "coverage"
DEVICES = GRAPHS.parent / "devices"
KEPT = [*COVERAGE.glob("graphs/*.json"), *DEVICES.glob("graphs/*.json")]
COMMITTED = sorted([*GRAPHS.iterdir(), *KEPT])
EXPORTED = ENTRIES.keys() | {
    entry["graph"]
    for path in [*COVERAGE.glob("*.json"), *DEVICES.glob("*.json")]
    for entry in json.loads(path.read_text())
}

SCALE = torch.linspace(-1, 1, 64)


def graph_load(name):
    return json.loads((GRAPHS / f"{name}.json").read_text())


def tensor(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype)


def nodes_of(document, target):
    return [n for g in document["graphs"] for n in g["nodes"] if n.get("target") == target]


def run(document, *inputs):
    """Run a document in the reference interpreter; return a list of torch tensors."""
    outputs = reference.run(document, [value.numpy() for value in inputs])
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return [torch.from_numpy(numpy.asarray(output)) for output in outputs]


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-5)


# The committed graphs


def test_committed_graphs_are_regenerated_byte_for_byte(tmp_path):
    """From another folder, with another hash seed."""
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, ROOT / "tools" / "graphs.py", "-o", tmp_path]
    subprocess.run(command, check=True, cwd=tmp_path.parent, env=environment)
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.json")}
    written = {path.stem for path in GRAPHS.iterdir()} - ENTRIES.keys()  # by hand
    kept = (path for path in COMMITTED if path.parent != GRAPHS or path.stem not in written)
    assert made == {path.relative_to(ROOT / "testdata") for path in kept}
    for path in made:
        assert (tmp_path / path).read_bytes() == (ROOT / "testdata" / path).read_bytes(), path


def test_committed_graphs_of_the_race_are_regenerated_byte_for_byte(tmp_path):
    """Those that the package has for `on-tpu`, which bench/race.py names."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, ROOT / "bench" / "tpu_rows.py", "-o", tmp_path]
    subprocess.run(command, check=True, env=environment)
    folder = ROOT / "python/pallasc/on_tpu/race"
    made, kept = (
        {path.name: path.read_bytes() for path in at.iterdir()} for at in (tmp_path, folder)
    )
    assert made == kept and "rows.json" in made


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_graphs_are_well_formed(path):
    if path.stem in EXPORTED:
        document_check(json.loads(path.read_text()))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_graphs_have_no_traces_of_the_machine(path):
    content = path.read_text()
    assert str(ROOT) not in content and "/work" not in content and "0x" not in content
    assert content.endswith("}\n")


ATTENTION = [name for name in ENTRIES if "attention" in name and name != "attention_columns"]


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_graphs(name):
    document = graph_load(name)
    batch, heads, length, dim = document["tensors"][0]["shape"]
    roles = {t["name"]: t for t in document["tensors"]}
    assert [t["name"] for t in document["tensors"] if t["role"] == "input"] == [
        "q_in",
        "k_in",
        "v_in",
    ]
    assert roles["q_view"]["of"] == "q_in" and "permute" not in roles["q_view"]
    assert roles["k_view"]["permute"] == [0, 2, 1]
    assert roles["k_view"]["shape"] == [batch * heads, dim, length]
    assert roles[roles["k_view"]["of"]] == {
        "name": "k_in_reshape",
        "role": "view",
        "dtype": roles["k_in"]["dtype"],
        "shape": [batch * heads, length, dim],
        "of": "k_in",
    }
    assert roles["lse"] == {
        "name": "lse",
        "role": "output",
        "dtype": "float32",
        "shape": [batch * heads, length],
    }
    assert document["returns"] == [
        {"tensor": "out", "shape": [batch, heads, length, dim]},
        {"tensor": "lse"},
    ]
    scale = 1.4426950408889634 / dim**0.5
    assert document["scalars"][0]["name"] == "qk_scale"
    assert document["scalars"][0]["value"] == pytest.approx(scale, rel=1e-15)
    loop = document["graphs"][0]
    assert loop["kind"] == "for_loop" and document["graphs"][1]["kind"] == "root"
    first = 0 if "q_inloop" in name else 1
    assert loop["carried"] == [[first, 0], [first + 1, 1], [first + 2, 2]]
    names = [n["name"] for n in loop["nodes"] if n.get("op") == "placeholder"]
    assert names == ["q", "m_i", "l_i", "acc"][1 - first :]


def test_bmm_dtype_is_restored():
    (bmm,) = nodes_of(graph_load("attention"), "aten.bmm.dtype")
    assert bmm["args"][2] == {"dtype": "float32"}


def test_random_numbers_are_those_of_helions_other_backends():
    from helion._compiler.rng_utils import philox_rand_ref

    path = ROOT / "testdata" / "coverage" / "graphs" / "random_noise_odd.json"
    document = json.loads(path.read_text())
    (found,) = reference.run(document, [numpy.zeros((421, 300), numpy.float32)])
    wanted = philox_rand_ref(42, torch.arange(421 * 300).reshape(421, 300))
    assert numpy.array_equal(found, wanted.numpy())


def test_seeds_of_torchs_random_numbers_are_arguments_at_run_time():
    x = torch.ones(32, 128)
    document = from_helion(probes.dropout, (x,))
    document_check(document)
    seeds = numpy.array([3, 7], numpy.int32)
    assert [t["name"] for t in document["tensors"] if t["role"] == "input"] == ["x", "rng_seeds"]
    out, noise = reference.run(document, [x.numpy(), seeds])
    (wanted,) = run(from_helion(probes.seeded, (x,)), x)
    close(torch.from_numpy(noise), wanted)
    assert 0.7 < (out != 0).mean() < 0.8


def test_causal_loop_ends_at_the_diagonal():
    document = graph_load("causal_attention")
    (loop,) = nodes_of(document, "tile.for_loop")
    (end,) = nodes_of(document, "tile.end")
    assert loop["args"][1:3] == [[0], [{"ref": end["name"]}]]
    assert end["meta"] == {"sym": None}
    assert document["block_sizes"][2] == {
        "id": 2,
        "symbol": "u3",
        "name": "tile_n",
        "extent": None,
    }
    masks = [n for n in nodes_of(document, "tile.subscript") if n["meta"]["dtype"] == "int32"]
    assert [n["meta"]["shape"] for n in masks] == [["u1", 1], [1, "u3"]]


def test_layer_norm_operands_are_restored():
    document = graph_load("layer_norm_odd")
    (square,) = [n for n in nodes_of(document, "aten.mul.Tensor") if n["name"] == "mul"]
    assert square["args"] == [{"ref": "centered"}, {"ref": "centered"}]
    means = nodes_of(document, "aten.mean.dim")
    assert [n["args"][0]["ref"] for n in means] == ["row", "_mask_to_1"]
    assert document["scalars"] == [{"name": "eps", "dtype": "float32", "value": 1e-05}]
    assert [graph["kind"] for graph in document["graphs"]] == ["root"]
    assert document["block_sizes"][1]["reduction"] is True


def test_softmax_has_no_loop_and_two_pass_has_two():
    assert "pallas_loop_type" not in graph_load("softmax")["config"]
    document = graph_load("softmax_two_pass")
    assert [g.get("block_ids") for g in document["graphs"]] == [[0], [0], None]
    assert document["graphs"][0]["carried"] == [[0, 0], [1, 1]]
    assert "carried" not in document["graphs"][1]


def test_locations_are_whole_statements():
    (gelu,) = nodes_of(graph_load("matmul_bias_gelu"), "aten.gelu.default")
    code = "out[tile_m, tile_n] = torch.nn.functional.gelu(biased).to(x.dtype)"
    lines = (GRAPHS.parent / "kernels" / "matmul.py").read_text().splitlines()
    (line,) = [i for i, text in enumerate(lines, 1) if text.strip() == code]
    assert gelu["loc"] == {"file": "matmul.py", "line": line, "code": code}
    (loop,) = nodes_of(graph_load("attention"), "tile.for_loop")
    assert loop["loc"]["code"] == "for tile_n in hl.tile(kv_dim):"


def test_numbers_stay_ints_and_floats():
    content = (GRAPHS / "attention.json").read_text()
    assert '"args": [[{"ref": "block_size_0"}, {"ref": "block_size_1"}], 0.0, ' in content
    assert '"args": [{"ref": "exp2"}, 0]' in content
    assert '{"float": "-inf"}' in content


# The same values as torch


@pytest.mark.parametrize("name", ["attention_b1_h2_s421_d96"])
def test_attention_values(name):
    torch.manual_seed(0)
    document = graph_load(name)
    q, k, v = (torch.randn(t["shape"]) for t in document["tensors"][:3])
    out, lse = run(document, q, k, v)
    scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
    torch.testing.assert_close(out, torch.softmax(scores, -1) @ v, rtol=1e-4, atol=1e-5)
    expected = torch.logsumexp(scores, -1).flatten(0, 1) * 1.4426950408889634
    torch.testing.assert_close(lse, expected, rtol=1e-4, atol=1e-5)


def test_branches_give_one_result_per_variable():
    torch.manual_seed(0)
    x = torch.randn(37, 64)
    document = from_helion(probes.branches, (x, 37, 2.5), {"block_sizes": [64]})
    document_check(document)
    (node,) = nodes_of(document, "tile.if")
    assert len(node["meta"]["tuple"]) == 3
    assert document["block_sizes"][0]["size"] == 1
    late = torch.arange(37)[:, None] > 3
    begin = torch.zeros(64)
    v = torch.where(late, x * 2.5, x)
    u = torch.where(late, x * 2.5 + 37, x * x)
    w = torch.where(late, x + 1, x + 3)
    close(run(document, x)[0], u + begin + 37 * 2 + w + v)


def test_split_k_has_a_tunable_and_a_computed_size():
    torch.manual_seed(0)
    x, y = torch.randn(64, 512), torch.randn(512, 64)
    document = from_helion(probes.split_k, (x, y))
    document_check(document)
    assert document["tunables"] == {"split": {"default": 2, "choices": [1, 2, 4, 8]}}
    assert document["block_sizes"][2]["size"] == "next_pow2(cdiv(512, split))"
    assert document["block_sizes"][3]["extent"] is None
    assert document["tensors"][2]["init"] == 0
    torch.testing.assert_close(run(document, x, y)[0], x @ y, rtol=1e-4, atol=1e-4)


def test_partial_sums_are_finished_by_the_wrapper():
    torch.manual_seed(0)
    x = torch.randn(64, 512)
    document = from_helion(probes.partial_sums, (x,))
    document_check(document)
    assert document["tensors"][1]["shape"] == ["(u0 + 63) // u0", 512]
    assert document["returns"] == [{"tensor": "parts", "ops": [["aten.sum.dim_IntList", [0]]]}]
    close(run(document, x)[0], x.sum(0))
    half = from_helion(probes.partial_sums, (x.bfloat16(),))
    cast = ["prims.convert_element_type.default", {"dtype": "bfloat16"}]
    assert half["returns"][0]["ops"] == [["aten.sum.dim_IntList", [0]], cast]


def test_host_views_chain():
    document = from_helion(probes.host_views, (tensor(32, 64), tensor(32, dtype=torch.bfloat16)))
    document_check(document)
    entries = {t["name"]: t for t in document["tensors"]}
    assert entries["left"]["slice"] == [[0, 32, 1], [16, 48, 1]]
    assert (entries["turned"]["of"], entries["turned"]["permute"]) == ("left", [1, 0])
    assert entries["scales"]["expand"] is True
    made = entries[entries[entries["scales"]["of"]]["of"]]
    assert (made["role"], made["dtype"], made["shape"]) == ("output", "float32", [32])
    first = document["graphs"][0]
    assert (first["kind"], first["grid"]) == ("root", [])
    targets = [node.get("target") for node in first["nodes"]]
    convert = "prims.convert_element_type.default"
    assert targets == [
        "tile.host_tensor",
        "tile.load",
        convert,
        "tile.host_tensor",
        "tile.store",
        None,
    ]
    assert entries["out"]["init"] == 2.5
    assert document["returns"][0] == {
        "tensor": "out",
        "ops": [["aten.permute.default", [1, 0]]],
    }
    assert document["block_sizes"][2]["begin"] == 4
    assert document["block_sizes"][2]["extent"] == 20


def test_a_fill_is_the_initial_value_and_a_row_is_a_view():
    x = torch.randn(3, 8)
    document = from_helion(probes.filled, (x,))
    document_check(document)
    entries = {t["name"]: t for t in document["tensors"]}
    assert entries["out"]["init"] == 7
    assert entries["row"]["shape"] == [8]
    assert entries[entries["row"]["of"]]["slice"] == [[2, 3, 1], [0, 8, 1]]
    close(run(document, x)[0], torch.cat([x[2, :4] * 2, torch.full([4], 7.0)]))


def test_a_written_argument_is_inout():
    x = torch.randn(8, 8)
    document = from_helion(probes.in_place, (x,))
    document_check(document)
    assert document["tensors"][0]["role"] == "inout"
    assert document["tensors"][1] == {
        "name": "flat",
        "role": "view",
        "dtype": "float32",
        "shape": [64],
        "of": "x",
    }
    close(run(document, x)[0], x * 2)


def test_a_kernel_without_a_result_gives_what_it_writes():
    x, rows, out = torch.randn(16, 8), torch.zeros(16), torch.randn(16, 8)
    document = from_helion(probes.writes_arguments, (x, rows, out))
    document_check(document)
    assert document["returns"] == [{"tensor": "rows"}, {"tensor": "out"}]
    roles = {entry["name"]: entry["role"] for entry in document["tensors"]}
    assert roles == {"x": "input", "rows": "inout", "out": "inout"}
    got = run(document, x, rows, out)
    close(got[0], x.sum(1))
    close(got[1], out + x * 2)


def test_lowering_intermediates_vanish():
    document = from_helion(probes.scans, (tensor(64, 32),))
    document_check(document)
    (var,) = nodes_of(document, "aten.var.correction")
    assert var["args"] == [{"ref": "v"}, [1]]
    assert var["kwargs"] == {"correction": 1, "keepdim": True}
    (scan,) = nodes_of(document, "tile.associative_scan")
    assert scan["args"] == [0, {"ref": "v"}, 1, False]
    assert document["graphs"][0]["kind"] == "combine"


def test_carried_variables_that_begin_alike_stay_apart():
    x = torch.randn(64, 32)
    document = from_helion(probes.twins, (x,))
    document_check(document)
    low, high, fresh = -x.sum(1), x.amax(1), x.amin(1)
    assert document["graphs"][0]["carried"] == [[0, 0], [1, 1], [2, 2]]
    close(run(document, x)[0], x + (low * high + fresh)[:, None])


def test_a_mean_over_a_tile_divides_by_the_valid_lanes():
    x = torch.randn(64, 50)
    document = from_helion(probes.tile_mean, (x,), {"block_sizes": [64, 32]})
    document_check(document)
    assert document["config"] == {"block_sizes": [64, 32]}
    total = (x[:, :32] + 1).mean(1) + (x[:, 32:] + 1).mean(1)
    close(run(document, x)[0], torch.nn.functional.gelu(total, approximate="tanh"))


def test_loops_over_rows_between_offsets():
    x = torch.randn(64, 64)
    offsets = torch.tensor([0, 3, 3, 20, 21, 40, 41, 50, 64], dtype=torch.int32)
    document = from_helion(probes.ragged_rows, (x, offsets))
    document_check(document)
    rows = [x[offsets[i] : offsets[i + 1]].sum(0) for i in range(8)]
    close(run(document, x, offsets)[0], torch.stack(rows))


def test_jagged_tiles_have_lengths():
    x = torch.randn(64)
    offsets = torch.tensor([0, 3, 3, 20, 21, 40, 41, 50, 64], dtype=torch.int32)
    document = from_helion(probes.jagged_sum, (x, offsets))
    document_check(document)
    assert document["graphs"][0]["lengths"] == 0
    sums = [x[offsets[i] : offsets[i + 1]].sum() for i in range(8)]
    close(run(document, x, offsets)[0], torch.stack(sums))


def test_while_loops_carry():
    x = torch.rand(64) * 9
    document = from_helion(probes.halving, (x,), {"block_sizes": [64]})
    document_check(document)
    assert [g["kind"] for g in document["graphs"]] == ["cond", "while", "root"]
    assert document["graphs"][1]["carried"] == [[0, 0], [1, 1]]
    expected = x
    while expected.amax() > 1:
        expected = expected * 0.5
    close(run(document, x)[0], expected)


def test_an_if_without_results_has_no_else():
    document = from_helion(probes.tensor_branch, (tensor(64),))
    document_check(document)
    (node,) = nodes_of(document, "tile.if")
    assert node["args"][2] is None and node["meta"] == {"tuple": []}


def test_a_variable_set_in_one_branch_comes_through_the_other():
    document = from_helion(probes.branch_without_else, (tensor(64),))
    document_check(document)
    (node,) = nodes_of(document, "tile.if")
    assert node["args"][2] is not None and len(node["meta"]["tuple"]) == 1
    x = torch.randn(64)
    close(run(document, x)[0], 2 * x)


def test_gathers_keep_the_index():
    document = from_helion(probes.gathers, (tensor(64, 64), tensor(32, dtype=torch.int32)))
    document_check(document)
    assert nodes_of(document, "tile.load")[1]["args"][1] == [
        {"ref": "load"},
        {"ref": "block_size_1"},
    ]


# Host code that computes


def test_host_operations_are_roots_in_their_order():
    x, y = torch.randn(3000, 1100), torch.randn(1100)
    document = from_helion(probes.host_chain, (x, y), {"block_sizes": [8]})
    document_check(document)
    assert [graph["kind"] for graph in document["graphs"]] == ["root"] * 6
    sizes = [(b["extent"], b["size"]) for b in document["block_sizes"][1:]]
    whole = [(3000, 256), (1100, 1024)]
    assert sizes == [(1100, 1024), (1100, 1024), *whole, *whole, (1100, 1024)]
    assert document["config"] == {"block_sizes": [8]}
    scaled = torch.exp(y) * 2
    before = (x + scaled) * 3
    before[1:3] = 7.0
    close(run(document, x, y)[0], before - y + 1)


def test_a_fill_after_the_kernel_is_no_initial_value():
    x = torch.randn(8, 128)
    document = from_helion(probes.filled_after, (x,))
    document_check(document)
    assert "init" not in document["tensors"][1]
    wanted = x * 2
    wanted[2] = 0
    close(run(document, x)[0], wanted)


def test_a_fill_of_what_was_read_is_no_initial_value():
    x = torch.randn(8, 128)
    document = from_helion(probes.filled_after_it_is_read, (x,))
    document_check(document)
    close(run(document, x)[0], torch.full([8, 128], 9.0))


# Ints of 64 bits


def test_int64_is_int32_that_is_widened_where_it_is_read():
    index = tensor(32, dtype=torch.int64)
    document = from_helion(probes.gathers, (tensor(64, 64), index))
    document_check(document)
    assert document["tensors"][1] == {
        "name": "index",
        "role": "input",
        "dtype": "int32",
        "shape": [32],
        "x_dtype": "int64",
    }
    (load, _gather) = nodes_of(document, "tile.load")
    assert load["meta"]["dtype"] == "int32"
    (wide,) = nodes_of(document, "prims.convert_element_type.default")
    assert wide["args"] == [{"ref": load["name"]}, {"dtype": "int64"}]
    x, index = torch.randn(64, 64), torch.randint(0, 64, (32,))
    (got,) = reference.run(document, arrays(document, (x, index)))
    assert numpy.array_equal(got, x[index].numpy())


def test_a_range_is_kept_and_checked():
    shapes = (tensor(64, 64), tensor(32, dtype=torch.int64))
    document = from_helion(probes.gathers, shapes, ranges={"index": (0, 63)})
    document_check(document)
    assert document["tensors"][1]["x_range"] == [0, 63]
    (clamp,) = nodes_of(document, "aten.clamp.default")
    assert clamp["args"] == [{"ref": "load"}, 0, 63] and clamp["meta"]["dtype"] == "int32"
    x, index = torch.randn(64, 64), torch.arange(32)
    (got,) = reference.run(document, arrays(document, (x, index)))
    assert numpy.array_equal(got, x[:32].numpy())
    index[7] = 64
    with pytest.raises(ExportError, match=r"'index'\[7\] is 64, not of 0..63"):
        arrays(document, (x, index))
    with pytest.raises(ExportError, match="no tensor of ints"):
        from_helion(probes.gathers, shapes, ranges={"x": (0, 63)})


def test_a_size_may_be_an_item_that_is_told():
    shapes = (tensor(16, 128), tensor(3, dtype=torch.int64))
    document = from_helion(probes.sized_by_an_item, shapes, items={"offsets[-1]": 16})
    document_check(document)
    assert document["tensors"][1]["x_items"] == [[2, 16]]
    x, offsets = torch.randn(16, 128), torch.tensor([0, 7, 16])
    (got,) = reference.run(document, arrays(document, (x, offsets)))
    assert numpy.array_equal(got, 2 * x.numpy())
    offsets[2] = 15
    with pytest.raises(ExportError, match=r"'offsets'\[2\] is 15, the graph is for 16"):
        arrays(document, (x, offsets))
    with pytest.raises(
        ExportError, match=r"'offsets\[3\]' is outside of 'offsets', which is \[3\]"
    ):
        from_helion(probes.sized_by_an_item, shapes, items={"offsets[3]": 16})
    with pytest.raises(ExportError, match="'lengths' is no place in a tensor that is an argument"):
        from_helion(probes.sized_by_an_item, shapes, items={"lengths": 16})


def test_an_int64_result_is_proven_to_be_of_int32():
    document = from_helion(probes.sums_of_64_bits, (tensor(8, 128, dtype=torch.int32),))
    document_check(document)
    (out,) = (t for t in document["tensors"] if t["role"] == "output")
    assert (out["dtype"], out["whole"], out["x_dtype"]) == ("int32", True, "int64")
    with pytest.raises(CompileError, match=r"may be anywhere from .* more than 32 bits hold"):
        compile(text(document))
    bounded = from_helion(
        probes.sums_of_64_bits, (tensor(8, 128, dtype=torch.int32),), ranges={"x": (-5, 5)}
    )
    assert compile(text(bounded)).source


def test_arrays_are_of_the_dtypes_and_shapes_of_the_graph():
    document = from_helion(probes.gathers, (tensor(64, 64), tensor(32, dtype=torch.int64)))
    x, index = torch.randn(64, 64), torch.full([32], 2**40)
    with pytest.raises(ExportError, match=r"'index'\[0\] is 1099511627776, not of -2147483648"):
        arrays(document, (x, index))
    with pytest.raises(ExportError, match="1 tensors given, the graph takes 2: x, index"):
        arrays(document, (x,))
    with pytest.raises(ExportError, match=r"'x' is \[32, 64\], not \[64, 64\]"):
        arrays(document, (x[:32], index))
    with pytest.raises(ExportError, match="'x' is bfloat16, not float32"):
        arrays(document, (x.bfloat16(), index))


# Configurations


def test_configurations_are_checked_and_cleaned():
    import helion

    given = helion.Config(block_sizes=[8], num_warps=4, num_stages=2)
    document = from_helion(probes.pair_of_one, (tensor(64),), given)
    assert document["config"] == {"block_sizes": [8]}
    with pytest.raises(
        ExportError, match=r"config has block_sizes \[8, 8\], the kernel has 1 \(tile\)"
    ):
        from_helion(probes.pair_of_one, (tensor(64),), {"block_sizes": [8, 8]})


def test_fake_and_strided_arguments_count_by_shape():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(64, 50)
    expected = text(from_helion(probes.tile_mean, (tensor(64, 50),)))
    assert text(from_helion(probes.tile_mean, (fake,))) == expected
    assert text(from_helion(probes.tile_mean, (tensor(50, 64).t(),))) == expected
    meta = torch.empty(64, 50, device="meta")
    assert text(from_helion(probes.tile_mean, (meta,))) == expected


def test_host_lists_flags_and_globals():
    x, y = torch.rand(64), torch.rand(64)
    document = from_helion(probes.list_of_tensors, ([x, y], True, 3.0))
    document_check(document)
    assert [t["name"] for t in document["tensors"]] == ["xs_0", "xs_1", "out"]
    scalars = {scalar["name"]: scalar["value"] for scalar in document["scalars"]}
    assert scalars == {"weight": 2.0, "mul_2": 6.0, "OFFSET": 0.25}
    close(run(document, x, y)[0], (x + y) * 2.0 * 6.0 + 0.25)


def test_captured_tensors_are_parameters_after_the_arguments():
    bias, rows = torch.randn(64), torch.randn(32)

    def epilogue(value, i, j):
        return value * bias[j] + SCALE[j] + rows[i][:, None]

    x, y = torch.randn(32, 64), torch.randn(64)
    document = from_helion(probes.with_epilogue, (x, epilogue, y))
    document_check(document)
    entries = [(t["name"], t["role"], t.get("x_captured")) for t in document["tensors"]]
    assert entries[:2] == [("x", "input", None), ("y", "input", None)]
    assert entries[2:4] == [
        ("bias", "input", "epilogue.bias"),
        ("SCALE", "input", "SCALE"),
    ]
    assert [entry[:2] for entry in entries[4:]] == [("rows", "input"), ("out", "output")]
    got = run(document, x, y, bias, SCALE, rows)
    close(got[0], (x + y) * bias + SCALE + rows[:, None])


def test_captured_scalars_have_their_names():
    document = from_helion(probes.with_epilogue, (tensor(8, 64), scaled(3.0), tensor(64)))
    assert document["scalars"] == [{"name": "scale", "dtype": "float32", "value": 3.0}]


def scaled(scale):
    return lambda value, i, j: value * scale


def test_a_global_tensor_is_one_parameter_however_often_it_is_read():
    document = from_helion(probes.uses_global, (tensor(64),))
    document_check(document)
    assert [t["name"] for t in document["tensors"]] == ["x", "TABLE", "out"]


# Refusals name what and where


@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        ("pair_of_one", (tensor(64, dtype=torch.float64),), "'x' is float64.*use float32"),
        ("writes_global", (tensor(64),), r"probes.py:\d+: the kernel writes 'TABLE', no argument"),
        ("host_sum_changed", (tensor(64),), r"probes.py:\d+: host code copies or computes of a"),
        ("host_copy_changed", (tensor(64),), r"probes.py:\d+: host code copies or computes of a"),
        ("host_norm_changed", (tensor(64),), r"probes.py:\d+: host code copies or computes of a"),
        (
            "host_puts",
            (tensor(64),),
            r"probes.py:\d+: host code stores under a mask what depends on how much of it is",
        ),
        (
            "by_stride",
            (tensor(64, 32).T,),
            r"probes.py:\d+: the kernel asks for strides, and 'x' is not contiguous",
        ),
        ("printing", (tensor(64),), r"probes.py:\d+: operation 'device_print'"),
        ("pair", (tensor(64),), "a result is of type int"),
        ("writes_nothing", (tensor(64),), "the kernel returns nothing and writes no argument"),
        ("host_fails", (tensor(64),), r"probes.py:\d+: Helion: ValueError"),
        ("pair", (tensor(64), 3), "arguments of pair: too many"),
        ("plain", (tensor(64),), "'plain' is no Helion kernel"),
        ("tile_variance", (tensor(64, 50),), "aten.var.correction over a tile"),
    ],
)
def test_refusals(kernel, args, message):
    with pytest.raises(ExportError, match=message):
        from_helion(getattr(probes, kernel), args)


# The command line


def test_command_writes_a_file(tmp_path, capsys):
    path = tmp_path / "graph.json"
    kernel = f"{ROOT}/testdata/kernels/layer_norm.py:layer_norm"
    args = ["float32[256,1024]", "f32[1024]", "f32[1024]", "1e-5"]
    config = '{"block_sizes": [64]}'
    assert main([kernel, "--args", *args, "--config", config, "-o", str(path)]) == 0
    assert path.read_bytes() == (GRAPHS / "layer_norm.json").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json"]
    assert main([kernel, "--args", *args, "--name", "norm"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "norm"


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["probes.py:gathers", "--args", "f32[64,64]", "f64[32]"], 1, "float64"),
        (["probes.py:gathers", "--args", "f32[64,64]", "i64[32]:9..3"], 1, "range 9..3 of 'index'"),
        (["probes.py:gathers", "--args", "f32[64,64]:1..3", "i64[32]"], 1, "no tensor of ints"),
        (["probes.py:nope"], 1, "no kernel 'nope': it has branches,"),
        (["probes.py:pair", "--args", "q32[64]"], 2, "unknown dtype 'q32'"),
        (["probes.py:pair", "--args", "foo("], 2, "neither like"),
        (["probes.py:pair", "--args", "f32[4,,4]"], 2, "a size is missing"),
        (["probes.py"], 2, "not like FILE.py:KERNEL"),
        ([], 2, "which kernel?"),
        (["probes.py:pair", "--name", "a b", "--args", "f32[64]"], 2, "no Python identifier"),
        (["absent.py:pair"], 3, "cannot read"),
        (["probes.py:pair_of_one", "--args", "f32[64]", "-o", "/absent/x.json"], 3, "cannot write"),
        (["--manifest", "absent.json"], 3, "cannot read"),
        (["probes.py:pair_of_one", "--args", "f32[64]", "--config", "{"], 2, "--config is no JSON"),
    ],
)
def test_command_errors(argv, status, message, capsys, monkeypatch):
    monkeypatch.chdir(pathlib.Path(__file__).parent)
    assert main(argv) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = [line for line in printed.err.splitlines() if "error:" in line]
    assert len(lines) == 1 and message in lines[0]
    assert "Traceback" not in printed.err


def test_broken_kernel_file_is_named_with_its_line(tmp_path, capsys):
    path = tmp_path / "broken.py"
    path.write_text("import torch\nimport absent_module\n")
    assert main([f"{path}:kernel"]) == 1
    assert "broken.py:2: ModuleNotFoundError" in capsys.readouterr().err
    path.write_text("def kernel(:\n")
    assert main([f"{path}:kernel"]) == 1
    assert "broken.py:1: SyntaxError" in capsys.readouterr().err


def test_refusal_leaves_the_output_alone(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text("before")
    assert main([f"{__file__}:nothing", "-o", str(path)]) == 1
    assert path.read_text() == "before"


def test_importing_needs_no_torch(tmp_path):
    code = (
        "import sys, pallasc.export as e\n"
        "assert 'torch' not in sys.modules and 'helion' not in sys.modules\n"
        "sys.modules['helion'] = None\n"
        f"sys.exit(e.main([{str(ROOT / 'testdata/kernels/add.py:add')!r}]))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip().count("\n") == 0
    assert "pip install helion==1.5.1 torch==2.13.0" in done.stderr


# Other versions of Helion


@pytest.fixture
def strange_version(monkeypatch):
    """A Helion of a version that nobody has tried."""
    version = importlib.metadata.version
    changed = {"helion": "9.9.9"}
    monkeypatch.setattr(importlib.metadata, "version", lambda n: changed.get(n) or version(n))


def test_a_strange_version_is_tried_and_told(strange_version, capsys):
    document_check(from_helion(probes.pair_of_one, (tensor(64),)))
    assert "warning: helion 9.9.9 (tested: 1.5.1, 1.5.0, 1.4.0)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("helion._compiler.device_ir.WalkDeviceAST", "_trace_graph"),
        ("helion.language._tracing_ops", "_not"),
        ("helion._compiler.inductor_lowering", "prepare_node_lowering"),
        ("helion._compiler.host_function.HostFunction", "global_imports"),  # not in INTERNALS
    ],
)
def test_what_a_strange_version_lacks_is_named_in_a_line(
    strange_version, place, name, monkeypatch, capsys
):
    monkeypatch.chdir(pathlib.Path(__file__).parent)
    monkeypatch.delattr(f"{place}.{name}")
    assert main(["probes.py:pair_of_one", "--args", "f32[64]"]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert name in line
    assert "helion" in line.lower() and "9.9.9" in line


def test_a_block_that_torch_fixes_is_refused(monkeypatch):
    """As `take_along_dim` would be, were it not traced as what it computes."""
    import language
    from pallasc.exporter import patches

    others = tuple(p for p in patches.PATCHES if p is not patches.torch_respelled)
    monkeypatch.setattr(patches, "PATCHES", others)
    found = language.PROBES["take_along_dim"]
    with pytest.raises(ExportError, match=r"language.py:\d+: an operation takes the block of 'i'"):
        from_helion(found.kernel, language.arguments(found))
