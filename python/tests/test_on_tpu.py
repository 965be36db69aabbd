"""`python -m pallasc on-tpu` on a device that costs nothing: times, checks, reports, chip data."""

import dataclasses
import functools
import json
import math
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from kit import document, path
from pallasc import chips, reference, timing
from pallasc.__main__ import main
from pallasc.aot import worker_environment
from pallasc.compare import tolerance_for
from pallasc.errors import FileError, KernelError, UsageError
from pallasc.on_tpu import calibrate, command, formulas, measure, report, rows
from pallasc.profile import run as profiled

LAUNCH = 1e-3  # seconds of any run, whatever its calls


class Device:
    """A TPU whose clock moves as it is told.

    Args:
      seconds: of a call: a number, or f(module).
      noise: of each run of several calls, in turn: its calls take so many times as long.
      wrong: names of kernels whose outputs are off.
      failing: names of kernels that do not run.
    """

    def __init__(self, seconds=0.1, noise=(), wrong=(), failing=(), kinds=("TPU v6 lite",)):
        self.seconds = seconds if callable(seconds) else lambda module: seconds
        self.noise, self.wrong, self.failing = iter(noise), wrong, failing
        self.kinds, self.now, self.compiled, self.timed = list(kinds), 0.0, [], []

    def devices(self):
        return self.kinds

    def compile(self, module, arrays):
        self.compiled.append(module.info["name"])
        return module, arrays

    def run(self, program, calls):
        module, arrays = program
        name = module and module.info["name"]
        if name in self.failing:
            raise KernelError("Mosaic failed: no such slot")
        one = self.seconds(module)
        factor = next(self.noise, 1.0) if calls > 1 else 1.0
        self.now += LAUNCH + one + (calls - 1) * one * factor
        if calls > 1:
            self.timed.append(name)
        if calls > 1 or name is None:
            return None
        outputs = reference.run(document(name), arrays, config=module.info["config"])
        return [output + (name in self.wrong) for output in outputs]

    def clock(self):
        return self.now


def row(graph, formula="softmax", name=None, **config):
    """A row of a graph of testdata, by formula; without one by the reference interpreter."""
    one = functools.partial(rows.Row, "race", name or f"{graph}, a row", graph, config)
    one = functools.partial(one, functools.partial(document, graph), rows.from_seed)
    return one(formula=formula) if formula else one(small=lambda: row(graph))


SOFTMAX = row("softmax", name="softmax, by formula")
ADD = row("add", formula="")


def measured(device, *chosen, path, again=False, target="v6e"):
    """(the report, [(name, status, whether it was known)])."""
    said = []
    made = report.begin(path, report.machine_of(device.devices(), target))
    measure.run(
        chosen,
        *(device, target, made, again),
        lambda row, entry, known: said.append((row.name, entry.status, known)),
    )
    return made, said


# ---- times


def test_a_median_and_its_quartiles():
    """Launches do not count; seven samples, whose extremes are less than 1% apart, are enough."""
    noise = [1, 1.004, 1, 0.998, 1.002, 1.001, 0.999, 1]
    timed = timing.time_program(Device(0.2, noise), (None, ()))
    assert timed.calls == 1
    assert timed.samples == pytest.approx([0.2 * factor for factor in noise[1:]])
    assert timed.median == pytest.approx(0.2)
    assert timed.quartiles == pytest.approx((0.2 * 0.9995, 0.2 * 1.0015))
    assert timed.uncertainty == pytest.approx(0.006)
    assert timed.stable


def test_it_goes_on_until_the_median_is_known():
    """One slow sample is an extreme, which eight samples do without."""
    timed = timing.time_program(Device(0.2, [1, 1, 1, 1.5]), (None, ()))
    assert len(timed.samples) == 8
    assert (timed.median, timed.uncertainty) == pytest.approx((0.2, 0))


def test_what_never_settles_is_said():
    timed = timing.time_program(Device(0.2, [1, *[1, 1.2] * 25]), (None, ()))
    assert len(timed.samples) == timing.MOST
    assert not timed.stable
    assert timed.median == pytest.approx(0.22)
    assert timed.uncertainty == pytest.approx(0.04 / 0.22)


def test_short_kernels_are_called_often():
    """So often that a sample takes 50 ms."""
    device = Device(1e-4)
    timed = timing.time_program(device, (None, ()))
    assert timed.calls == 550
    assert timed.median == pytest.approx(1e-4)


def test_a_clock_that_stands_still():
    with pytest.raises(KernelError, match="clock does not tell"):
        timing.time_program(Device(0.0), (None, ()))


@pytest.mark.parametrize(("count", "ends"), [(7, (0, 6)), (8, (1, 6)), (50, (18, 31))])
def test_the_interval_of_a_median(count, ends):
    assert timing.interval([*range(count)][::-1]) == ends


def test_a_chain_of_calls_gives_the_last_outputs():
    """A kernel of one output or of several, in a loop whose calls are an argument."""
    x = np.arange(6, dtype=np.float32)
    two = jax.jit(timing.chained(lambda x: (x + 1, x * 2)))
    assert [np.asarray(output).tolist() for output in two(5, x)] == [
        (x + 1).tolist(),
        (x * 2).tolist(),
    ]
    (one,) = jax.jit(timing.chained(lambda x: x - 1))(1, x)
    assert np.asarray(one).tolist() == (x - 1).tolist()
    lowered = jax.jit(timing.chained(lambda x: x - 1)).lower(0, x)
    assert "optimization_barrier" in lowered.as_text() and "stablehlo.while" in lowered.as_text()
    compiled = lowered.compile()  # once, for any number of calls
    assert [np.asarray(compiled(calls, x)[0]).tolist() for calls in (1, 7)] == [
        (x - 1).tolist()
    ] * 2


class Loaded:
    """A module that is a function."""

    info = {"name": "f"}  # noqa: RUF012

    def __init__(self, function):
        self.load = lambda: function


def test_the_device_that_is_there(monkeypatch):
    """jax's own, the CPU in place of a TPU: one compile for all calls, and errors in a line."""
    cpu = jax.devices("cpu")
    monkeypatch.setattr(jax, "devices", lambda platform=None: cpu)
    traced, device = [], timing.Tpu()

    def double(x):
        traced.append(x)
        return x * 2

    program = device.compile(Loaded(double), [np.float32([1, 2])])
    count = len(traced)
    for calls in (1, 3):
        (output,) = device.run(program, calls)
        assert np.asarray(output).tolist() == [2, 4]
    assert len(traced) == count and device.devices() == [cpu[0].device_kind] * len(cpu)
    assert device.clock() <= device.clock()
    with pytest.raises(KernelError, match="TypeError: "):
        device.compile(Loaded(lambda x: x.reshape("no")), [np.float32([1, 2])])
    with pytest.raises(KernelError, match=r"the formula: .*softmax"):
        formulas.evaluate("softmax", ())


COMPILE = """
import sys
import jax
import pallasc
from jax.experimental import topologies
from pallasc import timing
from pallasc.aot_worker import tracing_for
from pallasc.chips import TOPOLOGIES

module = pallasc.compile(sys.argv[1], {}, "v6e")
chip = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES["v6e"]).devices[0]
place = jax.sharding.SingleDeviceSharding(chip)
shapes = [((), "int32"), *((tuple(e["shape"]), e["dtype"]) for e in module.info["inputs"])]
arguments = [jax.ShapeDtypeStruct(shape, dtype, sharding=place) for shape, dtype in shapes]
with tracing_for(chip):
    lowered = jax.jit(timing.chained(module.load()), out_shardings=place).trace(*arguments).lower()
print(lowered.compile().as_text())
"""


@pytest.mark.full
def test_the_compiler_leaves_the_kernel_in_the_loop():
    """And copies none of its arrays from call to call."""
    environment = worker_environment()
    command = [sys.executable, "-c", COMPILE, str(path("matmul_4096"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    computations = done.stdout.split("\n\n")
    (holds,) = [text for text in computations if '"tpu_custom_call"' in text]
    name = re.match(r"%([\w.-]+) ", holds.strip())[1]
    assert f"body=%{name}" in done.stdout
    assert not re.search(r"copy(-start)?\(", holds)


# ---- rows


def test_a_row_is_checked_and_timed(tmp_path):
    path = tmp_path / "report.json"
    made, said = measured(Device(2e-3), SOFTMAX, ADD, path=path)
    assert said == [(SOFTMAX.name, "ok", False), (ADD.name, "ok", False)]
    first, second = made.entries.values()
    assert (first.checked, second.checked) == ("formula", "reference")
    assert 0 < first.error_ratio < 0.5 and second.error_ratio == 0
    assert (first.median_s, first.repeats, first.stable) == (pytest.approx(2e-3), 7, True)
    assert first.quartiles_s == pytest.approx([2e-3, 2e-3])
    module = measure.compiled(SOFTMAX, "v6e")[1]
    assert (first.module, first.estimate_s) == (measure.digest(module), module.plan["seconds"])
    assert first.parts_s == module.plan["time"]
    assert len(first.module) == 64
    again = report.read(path)
    assert again.machine == made.machine and again.entries == made.entries
    assert again.machine.kind == "TPU v6 lite" and again.machine.jax == jax.__version__
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_the_estimate_of_several_kernels_is_their_sum(tmp_path):
    roots = row("roots_shared_block", formula="")
    _, module = measure.compiled(roots, "v6e")
    entry = report.Entry("race", "a", "g", {}, 1, "0", "ok")
    measure.estimates(entry, module)
    kernels = module.plan["kernels"]
    assert entry.estimate_s == module.plan["seconds"]
    assert entry.parts_s["start"] == kernels[0]["time"]["start"] + kernels[1]["time"]["start"]


def test_the_profilers_estimate_where_it_is_known(tmp_path, monkeypatch):
    """Cycles at the clock of v6e; none where nothing is cached, or what is cannot be trusted."""
    monkeypatch.setenv("PALLASC_CACHE", str(tmp_path))
    _, module = measure.compiled(SOFTMAX, "v6e")
    found = [measure.known(module, "v6e"), {"trusted": False, "cycles": 1}]
    found.append({"trusted": True, "cycles": 1754761})
    seconds = []
    for result in found:
        monkeypatch.setattr(measure, "known", lambda module, target, result=result: result)
        entry = report.Entry("race", "a", "g", {}, 1, "0", "ok")
        measure.estimates(entry, module)
        seconds.append(entry.profiler_s)
    assert seconds == [None, None, pytest.approx(1e-3, rel=1e-4)]


def test_a_dump_that_is_kept_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("PALLASC_CACHE", str(tmp_path))
    _, module = measure.compiled(SOFTMAX, "v6e")
    asked = []
    monkeypatch.setattr(profiled.dump, "load", lambda path: asked.append(path) or {"cycles": 5})
    monkeypatch.setattr(profiled, "estimate", lambda found: found["cycles"])
    monkeypatch.setattr(profiled.importlib.metadata, "version", lambda package: "1")
    assert profiled.known(module, "v6e") == 5
    job = {"source": module.source, "target": "v6e", "simulate": False, "arguments": {}}
    assert asked == [tmp_path / "profile" / f"{profiled._key(job)}.dump"]


def test_what_is_wrong_is_not_timed(tmp_path):
    device = Device(wrong=("softmax", "add"))
    made, said = measured(device, SOFTMAX, ADD, path=tmp_path / "r.json")
    assert [status for _, status, _ in said] == ["wrong", "wrong"]
    assert device.timed == []
    for entry in made.entries.values():
        assert entry.error_ratio > 1000 and entry.median_s is None
        assert entry.message.startswith("OFF: max error 1")
    assert report.read(tmp_path / "r.json").entries == made.entries


def test_what_fails_does_not_keep_others_from_running(tmp_path):
    """It is run again the next time, unlike what came out wrong."""
    refused = row("softmax", name="refused", block_sizes=[1, 2, 3])
    path = tmp_path / "r.json"
    made, said = measured(Device(failing=("softmax",)), SOFTMAX, refused, ADD, path=path)
    assert [status for _, status, _ in said] == ["failed", "refused", "ok"]
    first, second, _ = made.entries.values()
    assert first.message == "Mosaic failed: no such slot"
    assert "block_sizes has 3 values" in second.message
    _, said = measured(Device(), SOFTMAX, refused, ADD, path=path)
    assert said == [
        (SOFTMAX.name, "ok", False),
        ("refused", "refused", False),
        (ADD.name, "ok", True),
    ]


# ---- going on


def test_what_the_report_has_is_not_run_again(tmp_path):
    path = tmp_path / "r.json"
    measured(Device(2e-3), SOFTMAX, path=path)
    device = Device(4e-3)
    made, said = measured(device, SOFTMAX, ADD, path=path)
    assert said == [(SOFTMAX.name, "ok", True), (ADD.name, "ok", False)]
    assert device.compiled == ["add", "add"]  # the second is the small graph
    assert [e.median_s for e in made.entries.values()] == pytest.approx([2e-3, 4e-3])
    made, said = measured(Device(4e-3), SOFTMAX, path=path, again=True)
    assert said == [(SOFTMAX.name, "ok", False)]
    assert [e.median_s for e in made.entries.values()] == pytest.approx([4e-3, 4e-3])


def test_another_kernel_is_run(tmp_path):
    """The report's is known by its code, not by its name."""
    path = tmp_path / "r.json"
    made, _ = measured(Device(2e-3), SOFTMAX, path=path)
    made.entries[SOFTMAX.key].module = "0" * 64
    path.write_text(report.text(made))
    made, said = measured(Device(4e-3), SOFTMAX, path=path)
    assert said == [(SOFTMAX.name, "ok", False)]
    assert made.entries[SOFTMAX.key].median_s == pytest.approx(4e-3)


@pytest.mark.parametrize("again", [False, True])
def test_one_kernel_under_two_names_is_run_once(tmp_path, again):
    other = row("softmax", name="another name")
    device = Device()
    made, said = measured(device, SOFTMAX, other, path=tmp_path / "r.json", again=again)
    assert device.compiled == ["softmax"]
    assert said == [(SOFTMAX.name, "ok", False), ("another name", "ok", True)]
    first, second = made.entries.values()
    assert (first.median_s, first.module) == (second.median_s, second.module)


def test_an_interrupted_run_keeps_what_it_has(tmp_path):
    class Interrupted(Device):
        def compile(self, module, arrays):
            if module.info["name"] == "add":
                raise KeyboardInterrupt
            return super().compile(module, arrays)

    path = tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        measured(Interrupted(), SOFTMAX, ADD, path=path)
    assert list(report.read(path).entries) == [SOFTMAX.key]


def test_a_report_is_of_one_machine(tmp_path):
    path = tmp_path / "r.json"
    measured(Device(), SOFTMAX, path=path)
    machine = report.machine_of(["TPU v6 lite"] * 4, "v6e")
    with pytest.raises(UsageError, match="written with devices 1, this is 4: name another file"):
        report.begin(path, machine)


# ---- reports that are none


def good():
    entry = report.Entry("race", "a", "g", {}, 1, "0" * 64, "ok", median_s=1.0, estimate_s=1.0)
    entry.quartiles_s, entry.repeats, entry.calls, entry.stable = [1.0, 1.0], 7, 1, True
    return json.loads(report.text(report.Report(None, report.machine_of(["x"], "v6e"), [entry])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(format="other"), 'not a report: "format" is not "pallasc-on-tpu"'),
        (lambda r: r.update(version=2), "a report of version 2; this pallasc reads 1"),
        (lambda r: r.pop("rows"), '"machine" or "rows" is not what a report has'),
        (lambda r: r["machine"].pop("jax"), '"machine" or "rows" is not what a report has'),
        (lambda r: r["rows"].append(1), "rows[1]: not an object"),
        (lambda r: r["rows"][0].pop("module"), "rows[0]: module is missing"),
        (lambda r: r["rows"][0].update(median_s="1"), "rows[0]: median_s is '1'"),
        (lambda r: r["rows"][0].update(median_s=True), "rows[0]: median_s is True"),
        (lambda r: r["rows"][0].update(estimate_s=0), "must be times"),
        (lambda r: r["rows"][0].update(status="fine"), "rows[0]: status 'fine' is none of ok,"),
        (lambda r: r["rows"][0].update(more=1), "rows[0]: unknown field 'more'"),
    ],
)
def test_bad_reports(tmp_path, capsys, change, message):
    path, value = tmp_path / "r.json", good()
    path.write_text(json.dumps(value))
    assert next(iter(report.read(path).entries.values())).median_s == 1
    change(value)
    path.write_text(json.dumps(value))
    assert main(["on-tpu", "--calibrate", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"pallasc: error: {path}: ") and message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [("{", 2, "not JSON"), ("[]", 2, "not a report"), (None, 3, "cannot read")],
)
def test_files_that_are_no_reports(tmp_path, capsys, text, status, message):
    path = tmp_path / "r.json"
    if text is not None:
        path.write_text(text)
    assert main(["on-tpu", "--calibrate", str(path)]) == status
    assert message in capsys.readouterr().err


# ---- the formulas


def test_formula_of_attention():
    """In parts of the rows of Q, as a whole in float64."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 64, 32), np.float32) for _ in range(3))
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / math.sqrt(32)
    weights = np.exp(scores)
    out, lse = formulas.evaluate("attention", (q, k, v))
    np.testing.assert_allclose(out, weights / weights.sum(-1, keepdims=True) @ v, 0, 1e-5)
    np.testing.assert_allclose(lse, np.log2(weights.sum(-1)).reshape(2, 64), 1e-5)


def test_the_other_formulas():
    """What their kernels' graphs say: the reference interpreter."""
    cases = [("layer_norm_bwd_odd", "layer_norm_bwd"), ("softmax", "softmax")]
    cases += [("attention", "attention"), ("matmul_split_k", "matmul")]
    for graph, formula in cases:
        case = row(graph, formula)
        wanted, module = measure.compiled(case, "v6e")
        arrays = case.arrays(wanted, module.info, 1)
        outputs = reference.run(wanted, arrays)
        expected = formulas.evaluate(formula, arrays)
        found = measure.worst(measure._by_formula(wanted, {}, outputs, expected))
        assert found.ok and found.ratio < 0.6, (graph, str(found))
    x, y = np.float32([[1, 2]]), np.float32([[3], [5]])
    assert formulas.evaluate("matmul", (x, y))[0].tolist() == [[13]]


# ---- the rows of the package, and of a checkout


def test_the_rows_of_the_race():
    found = rows.race()
    names = dict.fromkeys(row.name for row in found)
    page = (rows.CHECKOUT / "docs" / "results.md").read_text()
    assert len(names) == 20 and all(f"| {name} | v7x |" in page for name in names)
    assert len({row.key for row in found}) == len(found) == 54
    assert {row.formula for row in found} == formulas.FORMULAS.keys()
    split = [row for row in found if row.name.startswith("split-K")]
    assert split[0].document()["tensors"][0]["shape"] == [512, 32768]
    assert [row.scale for row in found if "S=131072" in row.name] == [4, 4]


def test_formulas_give_what_kernels_give():
    """As many outputs, as large, each with a tolerance, for each graph of the race."""
    for one in {row.graph: row for row in rows.race()}.values():
        wanted, module = measure.compiled(one, "v6e")
        shapes = [jax.ShapeDtypeStruct(e["shape"], e["dtype"]) for e in module.info["inputs"]]
        made = jax.eval_shape(formulas.FORMULAS[one.formula], *shapes)
        outputs = [math.prod(entry["shape"]) for entry in module.info["outputs"]]
        assert [output.size for output in made] == outputs, one.name
        kinds = [tolerance_for(wanted, i).kind for i in range(len(outputs))]
        assert set(kinds) <= {"chain", "matmul", "reduction"}, one.name


def test_the_rows_of_the_coverage():
    found = {row.name: row for row in rows.coverage()}
    assert len(found) > 200
    one = found["RMS-norm"]
    assert (one.graph, one.small().graph) == ("rms_norm_4096_8192", "rms_norm")
    assert not one.small().small
    table = found["embedding, indices of int64"].small()
    arrays = table.arrays(table.document(), {"inputs": [], "config": {}}, 0)
    assert [array.shape for array in arrays][:1] == [(128, 256)] and arrays[1].max() < 128


def test_the_coverage_needs_a_checkout(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(rows, "CHECKOUT", tmp_path)
    rows.coverage.cache_clear()
    assert main(["on-tpu", "--list", "--coverage"]) == 3
    said = capsys.readouterr().err
    assert "--coverage needs a checkout of pallasc" in said and said.count("\n") == 1


# ---- chip data


def synthetic(chosen, chip, truth, slower=1.0):
    """A report of what kernels would take if the chip's data were others.

    Those of which the compiler would make another kernel there are left out.
    """
    made = report.Report(None, report.machine_of(["x"], chip["name"]))
    for one in chosen:
        _, module = measure.compiled(one, chip["name"])
        _, true = measure.compiled(one, json.dumps({**chip, **truth}))
        if measure.digest(module) != measure.digest(true):
            continue
        entry = report.Entry(one.kind, one.name, one.graph, one.config, 1, "", "ok")
        entry.module, entry.median_s = measure.digest(module), true.plan["seconds"] * slower
        entry.quartiles_s, entry.stable = [entry.median_s] * 2, True
        entry.repeats, entry.calls, entry.estimate_s = 7, 1, module.plan["seconds"]
        made.entries[entry.key] = entry
    return made


def fitted(made, chip):
    known = {one.key: one for one in (*rows.race(), *some())}
    samples, left_out = calibrate.samples_of([made], known)
    return calibrate.fit(chip, samples, left_out)


FEW = ("matmul 4096", "softmax 4096x10240, whole", "fori_loop", "split-K", "unroll [1")


def some():
    """Of split-K the loops, whose steps hang on the clock: whether they are straight code hangs on
    all of a chip's data.
    """
    found = rows.chosen(FEW, False)
    assert len(found) > 15
    split = [one for one in found if one.name.startswith("split")]
    loops = [
        dataclasses.replace(one, config={**one.config, "pallas_straight_loops": "off"})
        for one in split
        if "unroll" not in str(one)
    ]
    return [one for one in found if one not in split] + loops


def test_known_factors_are_found():
    chip = command._chip_data("v6e")
    truth = {"bf16_flops": 0.8 * 9.2e14, "hbm_bytes_per_s": 1.2 * 1.64e12, "clock_hz": 1.5e9}
    made = synthetic(some(), chip, truth)
    assert len(made.entries) > 10
    found = fitted(made, chip)
    for field, value in truth.items():
        assert found.after[field] == pytest.approx(value, rel=0.01), field
        assert field not in found.why
    assert found.before["bf16_flops"] == 9.2e14
    before, after = (calibrate.spread([e[i] for e in found.errors]) for i in (0, 1))
    assert before > 1.1 and after < 1.002
    assert found.left_out == []


def test_a_right_chip_stays():
    chip = command._chip_data("v7x")
    found = fitted(synthetic(some(), chip, {}), chip)
    assert found.after == pytest.approx(found.before, rel=1e-4)
    assert all(error == pytest.approx([1, 1]) for error in found.errors)


def matmuls():
    return [one for one in rows.race() if one.name.startswith("matmul")]


def test_what_rows_do_not_determine_stays():
    """One kernel, which hangs on the peak: what is said of all else is why it stays."""
    chip = command._chip_data("v6e")
    found = fitted(synthetic(matmuls(), chip, {}, slower=1.2), chip)
    # The matrix unit has all that is missing, and hides copies that it did not hide.
    assert 0.7 < found.after["bf16_flops"] / 9.2e14 < 1 / 1.2
    assert found.errors == [[pytest.approx(1.2), pytest.approx(1, rel=1e-3)]]
    assert {name: found.after[name] for name in found.why} == {
        name: chip[name]
        for name in ("hbm_bytes_per_s", "clock_hz", "copy_cycles", "loop_step_cycles")
    }
    assert set(found.why.values()) == {"no row hangs on it enough"}
    assert json.loads(calibrate.target_text(found, "mine")) == {
        "base": "v6e",
        "name": "mine",
        "bf16_flops": found.after["bf16_flops"],
    }


def test_where_the_compiler_would_make_another_kernel():
    """The estimate of the one that was measured goes on by the powers that it had."""
    chip = command._chip_data("v6e")
    far = {**chip, "bf16_flops": 0.4 * 9.2e14}
    made = synthetic(matmuls(), chip, {}, slower=2.2)
    (entry,) = {entry.module: entry for entry in made.entries.values()}.values()
    _, other = measure.compiled(matmuls()[0], json.dumps(far))
    assert measure.digest(other) != entry.module
    found = fitted(made, chip)
    assert 0.2 < found.after["bf16_flops"] / 9.2e14 < 0.4
    ((before, after),) = found.errors
    assert (before, after) == (pytest.approx(2.2), pytest.approx(1, rel=0.01))


def test_the_file_is_chip_data(tmp_path, capsys):
    """It is written, says what it is of, and is what --target takes."""
    chip, path, out = command._chip_data("v6e"), tmp_path / "r.json", tmp_path / "chip.json"
    made = synthetic(some()[:6], chip, {"bf16_flops": 0.8 * 9.2e14})
    wrong = report.Entry("race", "gone", "g", {}, 1, "0", "wrong", "OFF")
    made.entries[wrong.key] = wrong
    path.write_text(report.text(made))
    assert main(["on-tpu", "--calibrate", str(path), "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert "left out: gone {}: wrong" in said and "estimates off by a factor of" in said
    assert json.loads(out.read_text())["name"] == "v6e_measured"
    assert command._chip_data(out)["bf16_flops"] == pytest.approx(0.8 * 9.2e14, rel=0.02)
    assert main(["on-tpu", "--calibrate", str(path)]) == 0
    assert capsys.readouterr().out == out.read_text()


def test_reports_that_cannot_be_fitted():
    chip = command._chip_data("v6e")
    made = synthetic(some()[:1], chip, {})
    (entry,) = made.entries.values()
    entry.module = "0" * 64
    with pytest.raises(UsageError, match=r"no row to fit to: .*makes another kernel of it"):
        fitted(made, chip)
    entry.stable = False
    with pytest.raises(UsageError, match="its median is not stable"):
        fitted(made, chip)
    other = report.Report(None, report.machine_of(["x"], "v7x"))
    with pytest.raises(UsageError, match="of several chips: v6e, v7x"):
        calibrate.target_of([made, other])
    mine = report.Report(None, report.machine_of(["x"], "mine"))
    with pytest.raises(UsageError, match="chip data of its own, 'mine'"):
        calibrate.target_of([mine])


# ---- the command


def test_no_tpu_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(chips, "tpu_attached", lambda: False)
    assert main(["on-tpu"]) == 2
    said = capsys.readouterr().err
    assert said == (
        "pallasc: error: on-tpu: this machine has no TPU (--list and --calibrate need none)\n"
    )


def test_a_tpu_that_jax_does_not_find_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(chips, "tpu_attached", lambda: True)
    assert main(["on-tpu"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("pallasc: error: jax finds no TPU: ") and said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "kinds", "message"),
    [
        (["--row", "nothing"], "TPU v6 lite", "no row with 'nothing' (--list shows them"),
        ([], "TPU v99", "'TPU v99' is no chip that pallasc knows: name one, --target"),
        (["--target", "v99"], "TPU v6 lite", "unknown target 'v99'; one of: v4, v5e,"),
    ],
)
def test_wrong_usage(words, kinds, message):
    with pytest.raises(UsageError) as raised:
        command.main(words, Device(kinds=[kinds]))
    assert message in str(raised.value)


def test_the_command_measures(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rows, "race", lambda: (SOFTMAX, ADD, row("gram", formula="", name="odd")))
    assert command.main(["--row", "softmax", "--row", "odd"], Device(3e-3)) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("softmax, by formula: 3.00 ms (quartiles 0.0% apart), estimated ")
    assert second.startswith("odd: 3.00 ms") and second.endswith("error 0 of what is allowed")
    assert last == "2 rows: 2 ok; the report is on_tpu-v6e.json"
    assert command.main([], Device(3e-3, wrong=["add"])) == 1
    *_, wrong, odd, last = capsys.readouterr().out.splitlines()
    assert wrong.startswith("add, a row: wrong: OFF: max error 1")
    assert odd.endswith(", known before")
    assert last == "3 rows: 2 ok, 1 wrong; the report is on_tpu-v6e.json"


def test_list(capsys):
    assert main(["on-tpu", "--list", "--row", "matmul 4096"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["set", "row", "configuration"]
    assert len(lines) == 3 and all("[1024, 1024, 1024]" in line for line in lines[:2])


def test_no_tpu_here():
    with pytest.raises(FileError, match="jax finds no TPU"):
        timing.Tpu().devices()
