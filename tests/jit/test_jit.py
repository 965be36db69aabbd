"""`pallasc.jit`: sizes of arguments, what is kept, threads, tracing, padding."""

import re
import threading

import jax
import jax.numpy as jnp
import kit
import numpy as np
import pallasc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from named import numbered, rows_doc, sized, sums_doc
from pallasc import jitted, reference
from pallasc.errors import ArgumentError, UsageError


def array(*shape, seed=0, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def shaped(*shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def attention_of_any_length():
    return sized(kit.document("attention"), S=512)


def expected_rows(x, y):
    return reference.run(numbered(rows_doc(), {"S": x.shape[0]}), [np.asarray(x), np.asarray(y)])[0]


# ---- calls ---------------------------------------------------------------------------------------


def test_sizes_come_from_the_arguments():
    rows = pallasc.jit(rows_doc(), interpret=True)
    for size in (16, 5):
        x, y = array(size, 128), array(size, 128, seed=1)
        np.testing.assert_allclose(rows(x, y), expected_rows(x, y), rtol=1e-5, atol=1e-6)
        assert rows.sizes_for(x, y=y) == {"S": size}
        assert rows.module_for(x, y).info["outputs"][0]["shape"] == [size, 128]
    assert rows.cache_info() == (2, 2, 128, 2)
    assert repr(rows) == "<pallasc.jit rows(x, y)>"


def test_a_graph_without_names():
    add = pallasc.jit(kit.document("add"), target="v5e")
    shapes = [shaped(*t["shape"]) for t in kit.document("add")["tensors"] if t["role"] == "input"]
    module = add.module_for(*shapes)
    assert module.info["target"] == "v5e"
    assert module.source == pallasc.compile(kit.document("add"), target="v5e").source
    with pytest.raises(ArgumentError, match=r"add: \w+\.shape\[0\] is 3, the graph has \d+"):
        add.module_for(shaped(3, *shapes[0].shape[1:]), *shapes[1:])


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3000))
def test_the_module_is_that_of_the_numbers(batch, length):
    """What is compiled for sizes is what a document with those numbers gives."""
    document = attention_of_any_length()
    for tensor in document["tensors"][:3]:
        tensor["shape"] = ["B", 2, "S", 128]
    for tensor in document["tensors"][3:]:
        tensor["shape"] = ["B * 2" if dim == 4 else dim for dim in tensor["shape"]]
    document["returns"][0]["shape"] = ["B", 2, "S", 128]
    document["block_sizes"][0]["extent"] = "B * 2"
    document["sizes"]["B"] = 2
    q = shaped(batch, 2, length, 128, dtype=jnp.bfloat16)
    module = pallasc.jit(resized(document)).module_for(q, q, q)
    plain = numbered(document, {"S": length, "B": batch, "B * 2": batch * 2})
    assert module.info["sizes"] == {"S": length, "B": batch}
    source = re.sub(r'    "sizes": .*\n', "", module.source)
    assert source == pallasc.compile(resized(plain)).source


def resized(document):
    """The document, its host tensors with the shapes that the tensors have."""
    shapes = {tensor["name"]: tensor["shape"] for tensor in document["tensors"]}
    for node in kit.nodes(document):
        if node.get("target") == "tile.host_tensor":
            node["meta"] = {**node["meta"], "shape": shapes[node["args"][0]]}
    return document


def test_attention_of_two_lengths():
    """One graph, simulated; rows of Q may be padded where they have a size of their own."""
    document = attention_of_any_length()
    attention = pallasc.jit(document, interpret=True)
    for length in (128, 77):
        q, k, v = (array(2, 2, length, 128, seed=n, dtype=jnp.bfloat16) for n in range(3))
        found = attention(q, k, v)
        arrays = [np.asarray(x) for x in (q, k, v)]
        expected = reference.run(numbered(document, {"S": length}), arrays)
        for one, other in zip(found, expected, strict=True):
            one, other = (np.asarray(x, np.float32) for x in (one, other))
            np.testing.assert_allclose(one, other, atol=1e-2)
    assert attention.cache_info().currsize == 2


# ---- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([shaped(8, 128), shaped(9, 128)], "rows: y.shape[0] is 9, but S is 8 by x.shape[0]"),
        ([shaped(8, 64), shaped(8, 128)], "rows: x.shape[1] is 64, the graph has 128"),
        ([shaped(8), shaped(8, 128)], "rows: x has 1 dims, the graph has [S, 128]"),
        ([3.0, shaped(8, 128)], "rows: x is no array but float: jnp.asarray makes one"),
        ([shaped(8, 128)], "rows: it takes 2 arguments (x, y): 1 given"),
        ([shaped(8, 128)] * 3, "rows: it takes 2 arguments (x, y): 3 given"),
        (
            [shaped(8, 128, dtype=jnp.bfloat16), shaped(8, 128)],
            "rows: x is bfloat16, the graph has float32",
        ),
    ],
)
def test_arguments_that_do_not_fit(args, message):
    with pytest.raises(TypeError) as caught:
        pallasc.jit(rows_doc()).module_for(*args)
    assert str(caught.value) == message and isinstance(caught.value, UsageError)


def test_arguments_by_name():
    rows = pallasc.jit(rows_doc())
    for named, told in {"z": "'z' is none of them", "x": "'x' given twice"}.items():
        with pytest.raises(ArgumentError, match=told):
            rows.sizes_for(shaped(8, 128), **{named: shaped(8, 128)})


def test_dims_that_are_computed():
    document = rows_doc()
    document["tensors"][1]["shape"] = ["2 * S + 1", 128]
    sizes = pallasc.jit(document).sizes_for
    assert sizes(shaped(8, 128), shaped(17, 128)) == {"S": 8}
    told = r"y.shape\[0\] is 16, the graph has 2 \* S \+ 1, 17 with S = 8 by x.shape\[0\]"
    with pytest.raises(ArgumentError, match=told):
        sizes(shaped(8, 128), shaped(16, 128))


def test_sizes_in_no_shape():
    document = rows_doc() | {"sizes": {"S": 16, "K": 4}}
    with pytest.raises(pallasc.CompileError, match="no argument has a dim that is 'K' alone"):
        pallasc.jit(document)
    assert pallasc.jit(document, sizes={"K": 5}).sizes_for(*[shaped(8, 128)] * 2) == {
        "S": 8,
        "K": 5,
    }
    with pytest.raises(ArgumentError, match=r"x.shape\[0\] is 8, but S is 16 by sizes="):
        pallasc.jit(rows_doc(), sizes={"S": 16}).sizes_for(*[shaped(8, 128)] * 2)
    fixed = rows_doc() | {"sizes": {"S": {"fixed": 16}}}
    assert pallasc.jit(fixed).module_for(*[shaped(16, 128)] * 2).info["sizes"] == {"S": 16}
    with pytest.raises(ArgumentError, match=r"x.shape\[0\] is 8, but S is 16 by the graph"):
        pallasc.jit(fixed).sizes_for(*[shaped(8, 128)] * 2)
    for sizes, told in [({"T": 1}, "no size is 'T'"), ({"S": 0}, "'S' is 0, no int above 0")]:
        with pytest.raises(pallasc.CompileError, match=told):
            pallasc.jit(rows_doc(), sizes=sizes)


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        ("{", "<graph>: not JSON"),
        ("program p for v6e", "pallasc.compile it"),
        ({"sizes": {}}, "malformed document"),
        (
            {"tensors": [{"name": "x", "role": "input", "dtype": "int32", "shape": ["a b"]}]},
            "'a b'",
        ),
    ],
)
def test_graphs_that_are_none(graph, told):
    with pytest.raises(pallasc.CompileError, match=told):
        pallasc.jit(graph)


def test_a_refusal_is_the_compilers():
    document = rows_doc()
    document["graphs"][0]["nodes"][2]["target"] = "aten.none.default"
    rows = pallasc.jit(document)
    for _ in range(2):
        with pytest.raises(pallasc.CompileError, match=r"aten\.none\.default"):
            rows.module_for(*[shaped(8, 128)] * 2)
    assert rows.cache_info() == (1, 1, 128, 1)


def test_no_tpu():
    with pytest.raises(UsageError, match="rows: there is no TPU here: interpret=True simulates"):
        pallasc.jit(rows_doc())(array(8, 128), array(8, 128))


# ---- chips and configurations --------------------------------------------------------------------


def test_the_chip_of_the_tpu(monkeypatch):
    def target(kind):
        monkeypatch.setattr(jitted, "_tpu_kind", lambda args: kind)
        return pallasc.jit(rows_doc()).module_for(*[shaped(8, 128)] * 2).info["target"]

    assert [target(kind) for kind in ("TPU v5 lite", "TPU7x", None)] == ["v5e", "v7x", "v6e"]
    with pytest.raises(UsageError, match="'TPU v99' is no chip that is known: target= says which"):
        target("TPU v99")


def test_configurations_by_size():
    def config(sizes):
        return {"block_sizes": [8 if sizes["S"] < 100 else 64, 128]}

    rows = pallasc.jit(rows_doc(), config)
    found = [rows.module_for(*[shaped(n, 128)] * 2).info["config"] for n in (64, 128)]
    assert [entry["block_sizes"] for entry in found] == [[8, 128], [64, 128]]


# ---- what is kept --------------------------------------------------------------------------------


def test_the_least_used_goes():
    rows = pallasc.jit(rows_doc(), maxsize=2)
    modules = {n: rows.module_for(*[shaped(n, 128)] * 2) for n in (8, 16)}
    assert rows.module_for(*[shaped(8, 128)] * 2) is modules[8]
    rows.module_for(*[shaped(24, 128)] * 2)
    assert rows.module_for(*[shaped(8, 128)] * 2) is modules[8]
    assert rows.module_for(*[shaped(16, 128)] * 2) is not modules[16]
    assert rows.cache_info() == (2, 4, 2, 2)
    rows.cache_clear()
    assert rows.cache_info() == (0, 0, 2, 0)


def test_many_threads_compile_once(monkeypatch):
    compiled, compile_graph = [], jitted.compile_graph

    def counted(*args, **options):
        compiled.append(options.get("sizes"))
        return compile_graph(*args, **options)

    monkeypatch.setattr(jitted, "compile_graph", counted)
    rows, found = pallasc.jit(rows_doc()), [{} for _ in range(16)]
    barrier = threading.Barrier(len(found))

    def call(number):
        barrier.wait()
        for step in range(40):
            size = 8 * (1 + (step + number) % 5)
            found[number].setdefault(size, set()).add(rows.module_for(*[shaped(size, 128)] * 2))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sizes["S"] for sizes in compiled) == [8, 16, 24, 32, 40]
    assert all(entry == found[0] for entry in found)
    assert all(len(modules) == 1 for modules in found[0].values())
    assert rows.cache_info() == (16 * 40 - 5, 5, 128, 5)


# ---- inside of jax -------------------------------------------------------------------------------


def test_traced():
    rows = pallasc.jit(rows_doc(), interpret=True)
    x, y = array(8, 128), array(8, 128, seed=1)
    summed = jax.jit(lambda x, y: rows(x, y) + rows(y, x))(x, y)
    np.testing.assert_allclose(
        summed, expected_rows(x, y) + expected_rows(y, x), rtol=1e-5, atol=1e-6
    )
    assert jax.eval_shape(rows, x, y) == shaped(8, 128)
    assert rows.lower(shaped(8, 128), shaped(8, 128)).compile()(x, y).shape == (8, 128)
    assert rows.cache_info().misses == 1


def test_traced_for_a_tpu_without_one():
    rows = pallasc.jit(rows_doc(), target="v5e")
    exported = jax.export.export(jax.jit(rows), platforms=["tpu"])(*[shaped(8, 128)] * 2)
    assert "tpu_custom_call" in exported.mlir_module()


def test_shapes_that_are_symbols():
    rows = pallasc.jit(rows_doc(), target="v5e")
    (size,) = jax.export.symbolic_shape("n")
    with pytest.raises(ArgumentError, match=r"x has the shape \(n, 128\), and a kernel is"):
        jax.export.export(jax.jit(rows), platforms=["tpu"])(*[shaped(size, 128)] * 2)


def test_timings():
    rows = pallasc.jit(rows_doc(), interpret=True)
    timings = rows.timings(shaped(8, 128), shaped(8, 128))
    assert timings._fields == ("compile", "load", "trace", "lower", "xla")
    assert all(seconds > 0 for seconds in timings)
    assert rows.timings(shaped(8, 128), shaped(8, 128), interpret=False).xla is None
    assert rows.cache_info().misses == 0


# ---- padding -------------------------------------------------------------------------------------


def test_buckets_pad_and_cut():
    rows = pallasc.jit(rows_doc(), buckets={"S": [8, 16, 64]}, interpret=True)
    for size in (16, 13, 9):
        x, y = array(size, 128), array(size, 128, seed=1)
        result = rows(x, y)
        assert result.shape == (size, 128)
        np.testing.assert_allclose(result, expected_rows(x, y), rtol=1e-5, atol=1e-6)
    assert rows.cache_info() == (2, 1, 128, 1)
    with pytest.raises(ArgumentError, match="S is 65, the largest bucket is 64"):
        rows.module_for(*[shaped(65, 128)] * 2)


def test_buckets_of_steps():
    rows = pallasc.jit(rows_doc(), buckets={"S": 128})
    shapes = [
        rows.module_for(*[shaped(n, 128)] * 2).info["outputs"][0]["shape"] for n in (1, 128, 129)
    ]
    assert shapes == [[128, 128], [128, 128], [256, 128]]


def test_buckets_that_change_results_are_refused():
    with pytest.raises(pallasc.CompileError) as caught:
        pallasc.jit(sums_doc(), buckets={"S": [32]})
    assert str(caught.value).splitlines() == [
        "sums: buckets of 'S': what is padded may change results: "
        "'n2': its loop over b1 carries values from tile to tile",
        "  hint: if no result depends on it, say what to pad with: pad={'x': VALUE}",
    ]
    sums = pallasc.jit(sums_doc(), buckets={"S": [32]}, pad={"x": 0.0}, interpret=True)
    x = array(21, 128)
    np.testing.assert_allclose(sums(x), np.asarray(x).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"buckets": {"T": [8]}}, "'T' is no size that arguments have; they have: S"),
        ({"buckets": {"S": [8]}, "sizes": {"S": 8}}, "'S' is no size that arguments have"),
        ({"buckets": {"S": []}}, "'S' has \\[\\], no ints above 0"),
        ({"buckets": {"S": 0}}, "'S' has 0, no ints above 0"),
        ({"pad": {"z": 0}}, "pad: 'z' is no array of x, y"),
    ],
)
def test_buckets_that_are_none(options, told):
    with pytest.raises(pallasc.CompileError, match=told):
        pallasc.jit(rows_doc(), **options)
