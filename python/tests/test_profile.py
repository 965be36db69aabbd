"""The instrument: how it reads a schedule, what its machine does, kernels of known figures."""

import json

import numpy as np
import pytest
from pallasc import __main__, aot
from pallasc.profile import (
    between,
    cases,
    chips,
    dump,
    machine,
    matmuls,
    report,
    scalars,
    schedule,
    selftest,
)
from pallasc.profile.estimate import estimate

V6E, V7X = chips.CHIPS["v6e"], chips.CHIPS["v7x"]
needs_libtpu = pytest.mark.skipif(aot._version("libtpu") == "none", reason="libtpu is not there")


def schedule_of(*bundles):
    """The text of a dump; a bundle is a string of instructions, `regions` behind a |."""
    lines = ["= control target key end", ""]
    for address, bundle in enumerate(bundles):
        body, _, regions = bundle.partition("|")
        starts = " :: ".join(f"Start region {number}" for number in regions.split())
        lines.append(f"  {address:#x}   : > {{ {body} }} /* {starts} */")
    return "\n".join(lines)


def run_of(*bundles, chip=V6E, tables=None, **options):
    return machine.execute(schedule.parse_bundles(schedule_of(*bundles)), chip, tables, **options)[
        1
    ]


LOOP = (
    "%s1_s1 = smov.u32 0",
    "%s2_s1 = sphi %s1_s1, %s3_s1  ;;  %7 = vmatmul.mubr.bf16.gmra.mrb %v1, mxu0 |1",
    "%s3_s1 = sadd.s32 1, %s2_s1",
    "%p4_p0 = scmp.lt.s32.totalorder %s3_s1, 5",
    "%9 = sbr.rel (%p4_p0) target bundleno = 1 (0x1), region = 1",
)


def test_a_loop_and_its_delay_slots():
    """Five trips of four bundles and the delay slots; the queue of the unit is not full."""
    for chip in (V6E, V7X):
        run = run_of(*LOOP, *[""] * chip.delay_slots, chip=chip)
        assert run.complete
        assert run.matmuls == {"bf16": 5}
        assert run.bundles == 1 + 5 * (4 + chip.delay_slots)
        assert run.cycles == run.bundles
        assert run.busy_cycles == 5 * chip.matmul_cycles


def test_full_queues_are_waited_for():
    bundle = "  ;;  ".join(f"%{n} = vmatmul.mubr.bf16.gmra.mrb %v{n}, mxu0" for n in range(3))
    run = run_of(bundle)
    assert (run.cycles, run.stall_cycles) == (3 * 8, 3 * 8 - 1)


def test_a_bundle_reads_what_was_before_it():
    """Two registers are exchanged; a conditional write that is off leaves its register."""
    run = run_of(
        "%s1_s1 = smov.u32 3  ;;  %s2_s2 = smov.u32 4",
        "%s3_s1 = smov.u32 %s2_s2  ;;  %s4_s2 = smov.u32 %s1_s1",
        "%p5_p0 = scmp.eq.s32.totalorder %s3_s1, 3",
        "%s6_s1 = smov.u32 (%p5_p0), 9",
        "%7 = vdelay %s6_s1",
        "%8 = vdelay %s4_s2",
    )
    assert run.cycles == 6 + 4 + 3


def test_a_target_in_the_delay_slots_of_another_branch():
    run = run_of(
        "%p1_p0 = scmp.eq.s32.totalorder 1, 2",
        "%9 = sbr.rel (%p1_p0) target bundleno = 7 (0x7), region = 2",
        "|1",
        *[""] * 4,
        "|2",
    )
    assert (run.complete, run.cycles) == (True, 8)


# A while that runs again as long as the number that its vector gives is greater than 1e-05.
WHILE = (
    "|1",
    "%1 = vpush %v1_v1",
    "%s2_s1 = spop %1",
    "%p3_p0 = scmp.gt.f32.partialorder %s2_s1, 1e-05",
    "%4 = sbr.rel (%p3_p0) target bundleno = 0 (0x0), region = 1",
    *[""] * V6E.delay_slots,
)


def numbers(*values):
    return np.array(values, np.float32).view(np.int32).tolist()


def test_numbers_of_vectors_say_how_often_a_while_runs():
    run = run_of(*WHILE, numbers=numbers(3, 0.5, 2e-5, 9e-6))
    assert run.complete
    assert run.cycles == 4 * len(WHILE)
    assert (run.unknown, run.numbers_left) == (set(), 0)


def test_numbers_that_lack_or_are_left_are_said():
    """Of too few the rest count as 0, and the branch that looks at them is doubted."""
    assert estimate(dump_of(*WHILE), numbers=numbers(1, 0))["trusted"]
    (error,) = estimate(dump_of(*WHILE), numbers=numbers(1, 1))["errors"]
    assert "1 branches/DMAs depend on run-time data" in error
    (error,) = estimate(dump_of(*WHILE), numbers=numbers(0, 1, 1))["errors"]
    assert error == "k: 2 numbers of vectors are given that nothing takes"


def test_ints_of_vectors_are_followed_as_they_are():
    """A number of steps, and a delay of as many cycles."""
    run = run_of("%1 = vpush %v1_v1", "%s2_s1 = spop %1", "%3 = vdelay %s2_s1", numbers=[7])
    assert run.cycles == 3 + 7


COPY = "%1 = dma.hbm_to_vmem [#x], 1024, [#y], [#sem]"
WAIT = "%2 = dma.done.wait [#sem], 1024"


def test_a_copy_takes_the_bandwidth_and_a_latency():
    run = run_of(COPY, WAIT)
    size = 1024 * chips.GRANULE_BYTES
    assert run.copied == {"hbm_to_vmem": size}
    assert run.hbm_bytes == size
    done = 1 + size / V6E.hbm_bytes_per_cycle + V6E.dma_latency
    assert run.cycles == int(done)
    assert run.wait_cycles == int(done - 2)


@pytest.mark.parametrize(
    ("bundles", "text"),
    [
        ((WAIT,), "1 DMA waits without a DMA"),
        ((COPY,), "32768 DMA bytes never waited for"),
        (("%s1_s1 = snovel.s32 1, 2",), "unhandled scalar ops"),
        (("%p1_p0 = scmp.eq.s32.totalorder 1, 1", "%2 = shalt.err (%p1_p0)"), "asserts"),
        (("%s1_s1 = sld [smem:[#a]]", "%2 = vdelay %s1_s1"), "run-time data"),
    ],
)
def test_what_is_doubtful_is_said(bundles, text):
    found = estimate(dump_of(*bundles))
    assert not found["trusted"]
    assert text in found["errors"][0]


def test_one_device_of_several_waits_for_nothing():
    """What comes from the others is not there, and what goes to them is not waited for."""
    found = estimate({**dump_of(WAIT, COPY), "devices": 4})
    assert found["errors"] == ["one of 4 devices is executed: copies between them take no time"]


def dump_of(*bundles):
    kernel = {"schedule": schedule_of(*bundles), "same": True, "utilisation": None}
    kernel |= {"pallas": True, "vmem_bytes": 1 << 20}
    facts = {"target": "v6e", "kernels": {"k": kernel}, "hlo": "", "while_loops": 0}
    return facts | {"scalars": {}, "dots": None, "libtpu_cycles": {}}


HLO = """HloModule jit_f, is_scheduled=true

%fused (p: bf16[64,64]) -> bf16[64,64] {
  %copy-start.9 = (bf16[64]{0:S(1)}, bf16[64]{0}, u32[]) copy-start(%p)
}

ENTRY %main (a: bf16[4096,4096], b: f32[64,128]) -> bf16[64,64] {
  %a = bf16[4096,4096]{1,0:T(8,128)(2,1)} parameter(0)
  %copy-start = (bf16[4096,4096]{1,0:T(8,128)(2,1)S(1)}, bf16[4096,4096]{1,0}, u32[]) copy-start(%a)
  %b = f32[64,128]{1,0:T(8,128)} parameter(1)
  %slice-start = ((f32[64,128]{1,0:T(8,128)}), f32[32,128]{1,0:S(1)}, u32[]{:S(2)}) slice-start(%b)
  %first = f32[8]{0} fusion(%b), kind=kLoop, calls=%fused
  %copy-done = bf16[4096,4096]{1,0:T(8,128)(2,1)S(1)} copy-done(%copy-start), config={"a":[]}
  %second = f32[8]{0} fusion(%copy-done), kind=kLoop, calls=%fused
  %slice-done = f32[32,128]{1,0:S(1)} slice-done(%slice-start)
  ROOT %last = bf16[64,64]{1,0} fusion(%slice-done), kind=kLoop, calls=%fused
}

%behind (p: bf16[64,64]) -> bf16[64,64] {
  %copy-start.8 = (bf16[64]{0:S(1)}, bf16[64]{0}, u32[]) copy-start(%p)
}
"""


def facts_of(**cycles):
    """{kernel: facts} of kernels that keep HBM busy for half of their cycles."""
    moved = int(V6E.hbm_bytes_per_cycle)
    return {name: {"cycles": 2 * n, "hbm_bytes": n * moved} for name, n in cycles.items()}


def test_copies_between_kernels_are_waited_for():
    large = 4096 * 4096 * 2 / V6E.hbm_bytes_per_cycle
    found = between.copies(HLO, {}, V6E)
    assert (found["copies"], found["bytes"]) == (2, 4096 * 4096 * 2 + 32 * 128 * 4)
    small = 32 * 128 * 4 / V6E.hbm_bytes_per_cycle
    assert found["wait_cycles"] == round(large + small + V6E.dma_latency)


def test_a_kernel_hides_the_copies_that_its_own_leave_room_for():
    large = 4096 * 4096 * 2 / V6E.hbm_bytes_per_cycle
    found = between.copies(HLO, facts_of(first=10_000, second=0, last=0), V6E)
    all_waits = between.copies(HLO, {}, V6E)["wait_cycles"]
    assert found["wait_cycles"] == pytest.approx(all_waits - 20_000 + 10_000, abs=10)
    found = between.copies(HLO, facts_of(first=int(2 * large), second=10, last=0), V6E)
    assert found["wait_cycles"] == 0


def test_the_time_of_a_module_has_the_copies_between_its_kernels():
    found = estimate({**dump_of("%1 = vnop", "%2 = vnop"), "hlo": HLO.replace("%first", "%k")})
    waits = found["between"]["wait_cycles"]
    assert waits > 30_000
    assert found["cycles"] == found["pallas_cycles"] + waits
    assert found["hbm_bytes"] == found["between"]["bytes"]
    line = f"copies of XLA's between kernels: 2, 32.02 MiB; waits {waits:,} cycles"
    assert line in report.text(found)


def test_work_on_sparse_cores_is_said():
    hlo = HLO.replace("kind=kLoop", 'async_execution_thread="sparsecore"')
    found = estimate({**dump_of("%1 = vnop"), "hlo": hlo})
    assert found["warnings"][-1].startswith("a part of the module runs on SparseCores")


def test_a_schedule_that_is_not_understood_is_said():
    found = estimate(dump_of("%1 = dma.hbm_to_vmem"))
    assert (found["complete"], found["trusted"]) == (False, False)
    assert "the schedule is not understood" in found["errors"][0]


def test_a_run_is_cut():
    run = run_of(*LOOP, *[""] * 4, limit=3)
    assert (run.complete, run.blocks) == (False, 4)


def test_what_is_written_to_smem_is_read():
    run = run_of(
        "%1 = sst [smem:[#a + $0x2]] 7", "%s2_s1 = sld [smem:[#a + 2]]", "%3 = vdelay %s2_s1"
    )
    assert (run.cycles, run.unknown) == (3 + 7, set())


@pytest.mark.parametrize(("predicate", "held"), [("%p1_p0", 7), ("!%p1_p0", 9)])
def test_a_store_to_smem_has_its_predicate_behind_the_address(predicate, held):
    run = run_of(
        "%p1_p0 = scmp.eq.s32.totalorder 0, 1  ;;  %s1_s0 = smov.u32 9",
        "%1 = sst [smem:[#a]] 7",
        f"%2 = sst [smem:[#a]] ({predicate}), %s1_s0",
        "%s2_s1 = sld [smem:[#a]]",
        "%3 = vdelay %s2_s1",
    )
    assert (run.cycles, run.unknown) == (5 + held, set())


SELECTED = (
    "%p1_p0 = scmp.eq.s32.totalorder 0, 1",
    "%s1_s0 = scalar_select /*predicate=*/%p1_p0, /*on_true=*/[#a], /*on_false=*/[#b]",
    "%s2_s1 = sld [smem:[%s1_s0]]",
    "%3 = vdelay %s2_s1",
)


def test_what_stands_in_for_a_load_is_not_unknown():
    """Of two allocations that nothing else names none is known to stand in for the other."""
    assert run_of("%1 = sst [smem:[#a]] 7", *SELECTED).unknown == set()
    assert run_of(*SELECTED).unknown == {"s2_s1"}
    assert run_of("%1 = sst [smem:[#a]] 7", "%2 = sst [smem:[#b + 1]] 7", *SELECTED).unknown == {
        "s2_s1"
    }


def test_an_operand_is_read_after_its_copy():
    """A table's second granule, copied from 16 times the operand's address."""
    table = list(range(16))
    bundles = (
        "%s1_s1 = inlined_call_operand.hbm [shape: s32[16], index: 3, kind: input]",
        "%s2_s2 = sshll.u32 %s1_s1, 4",
        "%s3_s3 = scalar_lea.hbm %s2_s2, 1  ;;  %s4_s4 = smov.u32 [#a]",
        "%5 = dma.hbm_to_smem %s3_s3, 1, %s4_s4, [#sem]",
        "%6 = dma.done.wait [#sem], 1",
        "%s7_s5 = sld [smem:[#a + $0x2]]",
        "%8 = vdelay %s7_s5",
    )
    known, unknown = run_of(*bundles, tables={3: table}), run_of(*bundles)
    assert known.cycles - unknown.cycles == 8 + 2
    assert (len(known.unknown), len(unknown.unknown)) == (0, 1)


def test_division():
    run = run_of(
        "%1 = sdivrem.s32 -7, 2, kDivAndRem",
        "%s2_s1 = spop.drf %1",
        "%s3_s2 = spop.drf %1",
        "%s4_s3 = ssub.s32 10, %s2_s1",
        "%5 = vdelay %s4_s3",
        "%s6_s3 = ssub.s32 10, %s3_s2",
        "%7 = vdelay %s6_s3",
    )
    assert run.cycles == 7 + (10 + 3) + (10 + 1)


def test_final_bundles_may_lack_only_empty_ones():
    first = schedule.parse_bundles(schedule_of("%s1_s1 = smov.u32 0", "", "%2 = sfence"))
    assert schedule.same_instructions(first, [first[0], first[2]])
    assert not schedule.same_instructions(first, [first[2], first[0]])


UTILISATION = """== CAPACITY:
MATMUL, VALU, VLOAD:FILL, VSTORE:SPILL
    2     4     3     2
== UTILIZATION:
2 0 0 1
1 4 3 0
"""


def test_use_of_slots_is_weighted_by_how_often_a_bundle_runs():
    found = schedule.parse_utilisation(UTILISATION)
    shares = found.shares([1, 3])
    assert shares["MATMUL"] == (2 + 3) / 4 / 2
    assert shares["VALU"] == 12 / 4 / 4
    assert (found.static("VSTORE:SPILL"), found.static("VLOAD:FILL")) == (1, 3)
    assert schedule.parse_utilisation("") is None


@pytest.mark.parametrize(
    ("array", "layout", "place"),
    [
        (np.arange(4, dtype=np.int32), "0:T(128)", lambda i: i),
        (np.arange(7, dtype=np.float32).view(np.int32), "0", lambda i: i),
        (
            np.arange(1500, dtype=np.int32).reshape(5, 300),
            "1,0:T(8,128)",
            lambda r, c: c // 128 * 1024 + r * 128 + c % 128,
        ),
        (
            np.arange(60, dtype=np.int32).reshape(5, 12),
            "0,1:T(8,128)S(1)",
            lambda r, c: c * 128 + r,
        ),
    ],
)
def test_words_lie_in_tiles(array, layout, place):
    found = scalars.words(array, layout)
    for index in np.ndindex(array.shape):
        assert found[place(*index)] == array[index]


def test_narrow_elements_share_a_word():
    """Four rows of bytes lie in one word, the first in its low bits."""
    array = np.arange(-30, 30, dtype=np.int8).reshape(6, 10)
    found = scalars.words(array, "1,0:T(8,128)(4,1)")
    for (row, column), value in np.ndenumerate(array):
        word = np.int32(found[row // 4 * 128 + column])
        assert np.int8(word >> 8 * (row % 4) & 0xFF if value >= 0 else word >> 8 * (row % 4)) == (
            value
        )


def test_bounds_of_the_grid_are_operands():
    """Where the grid's length is data it comes first, so a table keeps the place it has in HLO."""
    import jax
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def function(steps, table, x):
        grid = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(steps,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, at: (at[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, at: (i, 0)),
        )
        out = jax.ShapeDtypeStruct((32, 128), np.float32)
        return pl.pallas_call(lambda at, x, y: None, out, grid_spec=grid, name="k")(table, x)

    table = np.array([3, 1, 2, 0], np.int32)
    shapes = [jax.ShapeDtypeStruct(s, d) for s, d in (((), "int32"), ((4,), "int32"))]
    shapes.append(jax.ShapeDtypeStruct((32, 128), "float32"))
    # As emitted modules call it, too.
    for called in (function, jax.jit(jax.custom_batching.sequential_vmap(function))):
        closed = jax.make_jaxpr(called)(*shapes)
        ((name, known),) = scalars.known_calls(closed, [np.int32(2), table, None])
        assert name == "k" and set(known) == {0, 1}
        assert known[0] == 2
        np.testing.assert_array_equal(known[1], table)


def test_matrix_work_is_verified():
    dots = {"low": 1e9, "high": 2e9, "exact": True, "dots": 1, "xla_dots": 0}
    assert matmuls.check(dots, 1.5e9) == ([], [])
    assert "MXU work" in matmuls.check(dots, 0.5e9)[0][0]
    assert "MXU work" in matmuls.check(dots | {"xla_dots": 1}, 4e9)[1][0]
    assert matmuls.check(dots | {"exact": False}, 9e9) == ([], [])


def test_dumps_are_kept(tmp_path):
    path = tmp_path / "dump"
    dump.save(path, {"kernels": {"k": "text"}})
    assert dump.load(path) == {"kernels": {"k": "text"}}
    path.write_bytes(b"not a dump")
    assert dump.load(path) is None
    assert dump.load(tmp_path / "none") is None


def test_a_report_has_a_row_for_each_loop():
    facts = dump_of(*LOOP, *[""] * 4)
    facts["kernels"]["k"]["utilisation"] = UTILISATION + "0 0 0 0\n" * 7
    text = report.text(estimate(facts))
    assert "k: 41 cycles" in text
    assert "1-8" in text and "5 bf16" in text


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 2, "no kernel given"),
        (["none.py"], 3, "cannot read none.py"),
        (["none.py:case"], 3, "cannot read none.py"),
        (["KERNEL:case", "-t", "v9"], 2, "unknown target 'v9': one of v5e, v5p, v6e, v7x"),
        (["KERNEL:case", "--arg", "x"], 2, "expected NAME=FILE.npy"),
        (["KERNEL:case", "--statements"], 2, "--statements: of a module"),
        (["KERNEL"], 1, "not a pallasc module"),
        (["--self-test", "-t", "v5p"], 2, "--self-test: not for v5p"),
    ],
)
def test_wrong_use_is_one_line(arguments, status, text, tmp_path, capsys):
    (tmp_path / "k.py").write_text("case = 1\n")
    arguments = [word.replace("KERNEL", str(tmp_path / "k.py")) for word in arguments]
    assert __main__.main(["profile", *arguments]) == status
    message = capsys.readouterr().err
    assert text in message
    assert "Traceback" not in message


GROUPS = """
import jax, numpy as np
from pallasc.profile import cases
case = cases.group_sizes(cases.shape((4,), np.int32))
nothing = 3
"""


@needs_libtpu
def test_the_command_follows_data_that_is_given(tmp_path, capsys):
    """As many steps as the file says; without it, and with another shape, a message."""
    (tmp_path / "k.py").write_text(GROUPS)
    np.save(tmp_path / "sizes.npy", np.array([1, 2, 0, 4], np.int32))
    np.save(tmp_path / "long.npy", np.zeros(5, np.int32))
    kernel = f"{tmp_path}/k.py:case"

    def profile(*more):
        status = __main__.main(["profile", kernel, "-t", "v6e", "--json", *more])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    status, out, _ = profile("--arg", f"0={tmp_path}/sizes.npy")
    assert status == 0
    (facts,) = (item for item in json.loads(out)["kernels"].values() if item["pallas"])
    assert facts["matmuls"] == {"bf16": 7 * cases.work(128, 256, 256)}
    status, out, _ = profile()
    assert (status, json.loads(out)["trusted"]) == (1, False)
    assert __main__.main(["profile", f"{tmp_path}/k.py:nothing"]) == 2
    assert "k.py:nothing: not (function, arguments)" in capsys.readouterr().err
    np.save(tmp_path / "wide.npy", np.zeros(2))
    status, _, error = profile("--numbers", f"{tmp_path}/wide.npy")
    assert (status, error.splitlines()[-1].partition("wide.npy: ")[2]) == (
        2,
        "int32 or float32 wanted, not float64",
    )
    status, _, error = profile("--arg", f"0={tmp_path}/sizes.npy", "--numbers", f"{tmp_path}/x.npy")
    assert status == 3
    assert "No such file" in error
    status, _, error = profile("--arg", f"0={tmp_path}/long.npy")
    assert status == 2
    assert "int32[4] wanted, not int32[5]" in error


@needs_libtpu
@pytest.mark.parametrize("target", selftest.TARGETS)
def test_kernels_of_known_figures(target):
    """Matmuls, bytes and trip counts of hand-written kernels, exactly."""
    found = list(selftest.results(target))
    assert len(found) == len(cases.CASES)
    assert not [(name, problems) for name, problems, _ in found if problems]


def test_no_kernel_has_vmem(tmp_path):
    """libtpu's report of a module whose kernels all run on SparseCores."""
    report_of = tmp_path / "1-vmem_report.html"
    report_of.write_text('<script>const DATA = {"hlo_breakdowns": null};</script>')
    assert dump._vmem(str(tmp_path)) == {}
