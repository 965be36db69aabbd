"""Operations and cycles by statement: `pallasc.profile.statements` and what it is made of."""

import collections
import dataclasses
import json
import re

import pytest
from pallasc.errors import ModuleError, PallascError, UsageError
from pallasc.module import Module
from pallasc.profile import mosaic, placement, statements
from pallasc.profile.chips import CHIPS
from pallasc.profile.machine import execute
from pallasc.profile.schedule import parse_bundles
from pallasc.profile.scopes import put_scopes
from stubs import ROOT, build_stub

GOLDEN = ROOT / "testdata" / "golden"
PLACE = placement.place
NUMBERED = "neighbours.unroll"

# Its lines are known to the tests: they count from the first one, `"""Known`.
KNOWN = '''"""Known counts: each statement's operations can be told by hand."""
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

KERNEL_INFO = {
    "name": "known",
    "target": "v7x",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [1024, 512]},
        {"name": "w", "dtype": "bfloat16", "shape": [512, 256]},
    ],
    "outputs": [],
    "config": {},
}


def _rows(total):
    return jnp.max(total, axis=1, keepdims=True)


def _known_kernel(x_ref, w_ref, out_ref, dot_ref):
    # x = x[tile, :]
    x = x_ref[...]
    # y = x + x * x
    square = x * x
    y = x + square
    # e = exp(y)
    e = jnp.exp(y)
    low = _rows(e)

    def body(i, total):
        def inner(j, total):
            # total = total * e
            total = total * e
            return total

        total = jax.lax.fori_loop(0, 5, inner, total)
        total = total - low
        return total

    total = jax.lax.fori_loop(0, 3, body, y)

    @pl.when(pl.program_id(0) == 0)
    def last():
        dot_ref[...] = jnp.zeros((256, 256), jnp.float32)

    dot_ref[...] = jax.lax.dot_general(
        x.astype(jnp.bfloat16), w_ref[...], (((1,), (0,)), ((), ())),
        preferred_element_type=jnp.float32,
    )
    out_ref[...] = total


@jax.jit
def known(x, w, interpret=False):
    """No statement."""
    tile = pl.BlockSpec((256, 512), lambda i: (i, 0))
    square = pl.BlockSpec((256, 256), lambda i: (i, 0))
    return pl.pallas_call(
        _known_kernel,
        name="known",
        grid=(4,),
        in_specs=[tile, pl.BlockSpec((512, 256), lambda i: (0, 0))],
        out_specs=[tile, square],
        out_shape=[
            jax.ShapeDtypeStruct((1024, 512), jnp.float32),
            jax.ShapeDtypeStruct((1024, 256), jnp.float32),
        ],
    )(x, w)
'''


def line_of(text, code):
    """The line of `text` that is `code`, from 1."""
    (line,) = [number for number, row in enumerate(text.split("\n"), 1) if row.strip() == code]
    return line


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of its own for the tests of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALLASC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield patch


@pytest.fixture(scope="module")
def seen():
    """What `known` had from `execute` and `place`: {function: [result]}."""
    return collections.defaultdict(list)


@pytest.fixture(scope="module")
def known(cache, seen):
    """The statements of `KNOWN` on v7x."""

    def recorded(function):
        def call(*arguments):
            seen[function].append(function(*arguments))
            return seen[function][-1]

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "execute", recorded(execute))
        patch.setattr(placement, "place", recorded(PLACE))
        return statements.statements(Module(KNOWN, "known.py"))


def test_known_counts(known):
    """Operations of the known kernel: 256 x 512 floats are 128 registers, in each of 4 steps."""
    by_code = {statement.code: statement for statement in known}

    def ops(code):
        assert by_code[code].line == line_of(KNOWN, code), code
        assert not by_code[code].unbounded
        return by_code[code].ops, by_code[code].executed

    assert ops("x = x_ref[...]") == ({"load": 128}, {"load": 512})
    assert ops("square = x * x") == ({"valu": 128}, {"valu": 512})
    assert ops("y = x + square") == ({"valu": 128}, {"valu": 512})
    assert ops("e = jnp.exp(y)") == ({"eup": 128}, {"eup": 512})
    assert ops("total = total * e") == ({"valu": 128}, {"valu": 128 * 5 * 3 * 4})
    assert ops("total = total - low") == ({"valu": 128}, {"valu": 128 * 3 * 4})
    assert ops("out_ref[...] = total") == ({"store": 128}, {"store": 512})
    # Four registers of a row's 512 columns are added up, then one is reduced across its lanes.
    rows, executed = ops("return jnp.max(total, axis=1, keepdims=True)")
    assert (rows["xlu"], executed["xlu"]) == (32, 128) and rows["valu"] >= 96
    guarded = by_code["dot_ref[...] = jnp.zeros((256, 256), jnp.float32)"]
    assert guarded.guarded and (guarded.ops, guarded.executed) == ({"store": 64}, {"store": 256})
    assert not by_code["out_ref[...] = total"].guarded
    (dot,) = [statement for statement in known if "dot_general" in statement.code]
    # bfloat16 registers hold 16 rows: 16 of them for 256 rows, for each of two halves of 512
    # columns that a unit of 256 rows takes.
    assert (dot.ops["mxu"], dot.executed["mxu"]) == (32, 128)
    assert (dot.ops["load"], dot.ops["store"]) == (64, 64)
    assert dot.function == "_known_kernel"


def test_sources_and_functions(known):
    by_code = {statement.code: statement for statement in known}
    assert by_code["square = x * x"].source == "y = x + x * x"
    assert by_code["y = x + square"].source == "y = x + x * x"
    assert by_code["total = total * e"].source == "total = total * e"
    assert by_code["total = total * e"].function == "inner"
    assert by_code["return jnp.max(total, axis=1, keepdims=True)"].function == "_rows"
    assert {statement.kernel for statement in known} == {"known"}
    lines = [statement.line for statement in known if statement.line]
    assert lines == sorted(set(lines))


def test_instructions_are_placed(known, seen):
    """The schedule's instructions are with the statements whose operations they were."""
    (bundles,) = seen[PLACE]
    placed = collections.Counter(line for bundle in bundles for line in bundle.lines)
    assert placed[line_of(KNOWN, "square = x * x")] == 128
    assert placed[line_of(KNOWN, "y = x + square")] == 128
    # A multiplication, a push of a power of two and a pop for each.
    assert placed[line_of(KNOWN, "e = jnp.exp(y)")] == 3 * 128
    assert placed[line_of(KNOWN, "out_ref[...] = total")] == 128
    assert placed[None] < 0.1 * placed.total()


def test_cycles_add_up(known, seen):
    """Every cycle is given once, most of them to statements."""
    ((_, run),) = seen[execute]
    total = sum(statement.cycles + statement.waits for statement in known)
    assert total == pytest.approx(run.cycles, abs=1)
    by_code = {statement.code: statement for statement in known}
    # A load slot and others are full of spills: three times 128 registers are live in the loop.
    assert by_code[statements.SPILLS].cycles > 1000
    assert by_code[statements.NO_STATEMENT].cycles < 0.05 * run.cycles
    assert by_code[statements.COPIES].waits == run.wait_cycles > 0
    # A bundle has four VALU slots, and may be shared with as many other instructions.
    assert by_code["total = total * e"].cycles >= 128 * 60 / 8
    assert json.loads(json.dumps([dataclasses.asdict(row) for row in known]))


def test_table(known):
    text = statements.statements_table(known)
    lines = text.split("\n")
    assert lines[0] == "known: operations on vector registers that a call executes"
    assert lines[1].split() == ["line", *mosaic.UNITS, *"cycles waits share statement".split()]
    at = next(index for index, line in enumerate(lines) if line.endswith("  square = x * x"))
    assert lines[at - 1] == "# y = x + x * x"
    assert lines[at].split()[:2] == [str(line_of(KNOWN, "square = x * x")), "512"]
    assert re.search(r" <=256 .*dot_ref\[\.\.\.\] = jnp\.zeros", text)
    assert statements.statements_table([]) == "no Pallas kernel"


def test_cached(known, cache, monkeypatch):
    """The second time nothing is compiled; a cache that cannot be read is no error."""
    monkeypatch.setattr(statements, "Compiler", None)
    assert statements.statements(Module(KNOWN, "other.py")) == known
    path = statements._cache_path(KNOWN, "v7x")
    path.write_text("[{}]")
    assert statements._cache_load(path) is None


def test_cycles_are_equal_with_and_without_scopes():
    """The schedule that is executed is, instruction for instruction, that of the kernel as it is.

    With scopes and source locations on one side, neither on the other.
    """
    with (
        statements.Compiler() as bare,
        statements.Compiler((placement.LOCATE,)) as located,
    ):
        # Scopes shift the numbers of values in the last one.
        for name in ("matmul_1024.fori_loop", "attention.fori_loop", "softmax.grid", NUMBERED):
            text = (GOLDEN / f"{name}.py").read_text()
            scoped = put_scopes(text)[0]
            for target in ("v7x", "v6e"):
                plain = bare.compile(Module(text), target)
                marked = located.compile(Module(scoped), target)
                assert "trace_start" in marked.stages[0] and "trace_start" not in plain.stages[0]
                (kernel,) = [key for key in plain.schedules if key.split(".")[0] in name]
                assert "loc(" in marked.schedules[kernel] and "loc(" not in plain.schedules[kernel]
                without = parse_bundles(plain.schedules[kernel])
                with_scopes = parse_bundles(placement.without_locations(marked.schedules[kernel]))
                assert statements._instructions(with_scopes) == statements._instructions(without)
                run = execute(without, CHIPS[target])[1]
                assert run.complete and run.cycles > 1000
                scoped_run = execute(with_scopes, CHIPS[target])[1]
                assert dataclasses.replace(scoped_run, unknown=run.unknown) == run, (name, target)


def test_small_arrays_come_from_hbm():
    """XLA would keep them in VMEM, and the kernel would be another one than what is profiled."""
    module = Module((GOLDEN / "softmax.grid.py").read_text(), "softmax.py")
    found = statements.statements(module, target="v7x")
    (copies,) = [row for row in found if row.code == statements.COPIES]
    assert copies.waits > 1000
    assert all(row.cycles is not None for row in found)


def test_doubtful_runs(known, cache):
    """Where the run cannot be trusted there are operations, and the reason in place of cycles."""
    kernel = statements._Kernel("k", mosaic.Kernel("k", []), "", "", "")
    kernel.counted.sites.append(mosaic.Site(None, "vadd.f32", 3, 2, False, False))

    def reason(schedule, target, bare=None):
        kernel.schedule = schedule
        entry = {"schedule": bare or schedule, "pallas": True}
        dump = {"target": target, "kernels": {"k.1": entry}, "scalars": {}}
        rows = statements._rows(kernel, {}, dump)
        assert [row.cycles for row in rows] == [None, None] and rows[0].executed == {"valu": 6}
        assert rows[1].code in statements.statements_table(rows)
        return rows[1].code

    add = "  0x1 : { %v1_v1 = vadd.f32 1 }"
    assert reason("", "v4") == "(cycles are not known: there is no model of v4)"
    assert "no kernel of the module without scopes" in reason("", "v6e")
    assert "no kernel of the module without scopes" in reason(add, "v6e", add + "\n 0x2 : {}")
    assert "not understood" in reason("  0x1 : { %s1_s1 = sdivrem.s32 }", "v6e")
    assert "unhandled" in reason("  0x1 : { %s1_s1 = sfrobnicate.u32 1 }", "v6e")
    kernel.start = "%v1 = vadd.f32 1"
    assert "begins with other instructions" in reason(add, "v6e")


def test_function_without_statements(cache, tmp_path, monkeypatch):
    """A function of any file, whose kernel has no statement in a function."""
    path = tmp_path / "plain_kernels.py"
    path.write_text(
        "import jax\n"
        "from jax.experimental import pallas as pl\n"
        "twice = lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2.0)\n"
        "def fourfold(x):\n"
        "    x = pl.pallas_call(twice, out_shape=x, name='double')(x)\n"
        "    return pl.pallas_call(twice, out_shape=x, name='double')(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from plain_kernels import fourfold

    found = statements.statements(fourfold, [((64, 256), "float32")], "v6e")
    rows = [row for row in found if row.ops]
    assert [row.kernel for row in rows] == ["double", "double (2)"]
    for row in rows:
        assert (row.line, row.code) == (None, statements.NO_STATEMENT)
        assert row.ops == row.executed == {"load": 16, "valu": 16, "store": 16}
        assert row.cycles > 0
    assert statements.statements_table(found).count("statement\n") == 2


def test_refused_by_the_compiler(cache, tmp_path):
    text = KNOWN.replace("x * x", "jnp.sort(x)")
    path = tmp_path / "sorts.py"
    path.write_text(text)
    with pytest.raises(PallascError, match=r"sorts\.py: v7x: does not compile: .*sort"):
        statements.report(path)


def test_refused_before_the_compiler(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="unknown target 'v3'"):
        statements.statements(Module(KNOWN), target="v3")
    with pytest.raises(UsageError, match="not a function at the top level"):
        statements.statements(lambda x: x, [((8, 128), "float32")])
    with pytest.raises(UsageError, match="not a function at the top level"):
        statements.statements(len)
    plain = tmp_path / "plain_module.py"
    plain.write_text("KERNEL_INFO = {}\n\n\ndef kernel(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import plain_module

    with pytest.raises(UsageError, match=r"plain_module\.py: a kernel module: give its path"):
        statements.statements(plain_module.kernel, [((8, 128), "float32")])
    with pytest.raises(UsageError, match="argument 0: 3 has no shape and dtype"):
        statements.statements(build_stub, [3])
    with pytest.raises(ModuleError, match="not Python"):
        statements.statements(Module("KERNEL_INFO = {", "bad.py"), target="v7x")
    with pytest.raises(PallascError, match="cannot read"):
        statements.report(tmp_path / "none.py")
