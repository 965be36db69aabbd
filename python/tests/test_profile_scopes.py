"""Scopes of statements in texts, in Mosaic's last stage, in LLO: what `statements` is made of."""

import dataclasses

import pytest
from pallasc.profile import mosaic, placement
from pallasc.profile.scopes import put_scopes, scope_line


def test_put_scopes():
    """Lines stay; only whole statements of functions are scoped, a nested one in each scope."""
    text = '''"""Doc."""
X = 1


def f(a):
    """Doc."""
    # first
    # second
    b = g(
        a,
    )
    if a: b = 2
    for i in range(2):
        b += i; a = b
        yield b
    # text é
    é = "é"; c = 3
    return b
'''
    scoped, places = put_scopes(text)
    was, now = text.split("\n"), scoped.split("\n")
    changed = [line for line in range(1, len(was) + 1) if was[line - 1] != now[line - 1]]
    assert changed == sorted(places) == [9, 14, 17, 18]
    assert now[8] == '    with __import__("jax").named_scope("statement_9"): b = g('
    assert now[16].endswith(': é = "é"; c = 3')
    assert dataclasses.astuple(places[9]) == (9, "f", "b = g( a, )", "first; second")
    assert (places[14].source, places[17].source) == ("first; second", "text é")
    compile(scoped, "scoped", "exec")
    assert (
        scope_line("statement_9") == 9 and scope_line("loop") is scope_line("statement_x") is None
    )
    assert len(put_scopes("def f():\n    x = '" + "y" * 200 + "'")[1][2].code) == 100


STAGE = """module attributes {stable_mosaic.version = 15 : i64} {
  func.func @k(%arg0: i32) attributes {iteration_bounds = array<i64: 2, 3>, x = {}} {
    %0 = llo.constant {value = 0 : i32} : i32
    %1 = llo.constant {value = 1 : i32} : i32
    %4 = llo.constant {value = 4 : i32} : i32
    "llo.trace_start"() <{level = 10 : i32, message = "statement_7"}> : () -> ()
    "llo.trace_start"() <{level = 10 : i32, message = "users"}> : () -> ()
    %a = llo.vector_load %arg0 : i32 -> vector<8x128xf32>
    "llo.trace_stop"() : () -> ()
    %s:2 = scf.for %i = %0 to %4 step %1 iter_args(%j = %0) -> (i32)  : i32 {
      "llo.trace_start"() <{level = 10 : i32, message = "statement_8"}> : () -> ()
      %b = llo.vadd.f32 %a, %a : vector<8x128xf32>
      %p = llo.slt.s32 %i, %1
      %c = scf.if %p -> (vector<8x128xf32>) {
        %d = llo.vexp.f32 %b : vector<8x128xf32>
        scf.yield %d : vector<8x128xf32>
      } else {
        "llo.region"() ({
          %e = llo.vadd.xlane.f32 %b : vector<8x128xf32> -> vector<8x128xf32>
        }) : () -> ()
        scf.yield %b : vector<8x128xf32>
      } {in_layout = []}
      "llo.trace_stop"() : () -> ()
      scf.for %u = %0 to %p step %1  : i32 {
        %f = llo.vmatmul.mubr %b, %b : vector<8x128xf32>
      } {in_layout = []}
      scf.yield %i : i32
    } {in_layout = []}
    llo.vector_store %a into %arg0 : vector<8x128xf32> into i32
    "llo.trace_stop"() : () -> ()
    %g = llo.vbitcast %a : vector<8x128xf32> -> vector<8x128xi32>
    llo.vector_store_masked %g into %arg0 : vector<8x128xi32> into i32
    return
  }
  func.func @transform_0(%arg0: i32) -> i32 {
    %z = llo.vadd.f32 %arg0, %arg0 : i32
    return %z : i32
  }
}
"""


def test_parse_kernel():
    """Scopes, loops and branches nest; functions of index maps are left out."""
    kernel = mosaic.parse_kernel(STAGE)
    assert (kernel.name, kernel.grid) == ("k", [2, 3])
    assert kernel.markers == ["statement_7", "users", "statement_8"]
    vectors = {
        site.opcode: (site.line, site.count, site.trips, site.guarded, site.unbounded)
        for site in kernel.sites
        if mosaic.unit_of(site.opcode)
    }
    assert vectors == {
        "vector_load": (7, 1, 6, False, False),
        "vadd.f32": (8, 1, 24, False, False),
        "vexp.f32": (8, 1, 24, True, False),
        "vadd.xlane.f32": (8, 1, 24, True, False),
        "vmatmul.mubr": (7, 1, 24, False, True),
        "vector_store": (7, 1, 6, False, False),
        "vector_store_masked": (None, 1, 6, False, False),
    }
    dynamic = mosaic.parse_kernel(STAGE.replace("i64: 2, 3", "i64: 2, -9223372036854775808"))
    assert dynamic.grid == [2, None]
    assert all(site.unbounded for site in dynamic.sites)
    assert mosaic.parse_kernel(STAGE.replace("iteration_bounds", "other")).grid == []
    with pytest.raises(ValueError, match="no function"):
        mosaic.parse_kernel("module {\n}\n")


def test_units():
    units = {
        "mxu": ["vmatmul", "vmatmul.mubr"],
        "push": ["vlatch", "vlatchi", "vmatprep.subr"],
        "xlu": ["vadd.xlane.f32", "vmax.index.xlane.f32", "vxpose", "vperm", "vrot.lane"],
        "eup": ["vexp.f32", "vpow2.bf16", "vrsqrt.f32", "vtanh.f32", "vrecip.f32.approx"],
        "valu": [
            "vadd.f32",
            "vadd.slane.f32",
            "vselect",
            "vpack",
            "slane.shuffle",
            "vperm.sublane",
        ],
        "load": ["vector_load", "vector_load_slane_stride", "vld_sublane_shuffle"],
        "store": ["vector_store", "vector_store_masked", "vst_sublane_shuffle"],
        None: ["vmatres", "vxpose.result", "vbitcast", "sadd.s32", "enqueue_dma", "vwait.ge"],
    }
    for unit, opcodes in units.items():
        assert [mosaic.unit_of(opcode) for opcode in opcodes] == [unit] * len(opcodes)


FENCED = """
  %s1 = sld [smem:[#allocation0]]
  %2 = vtrace 7 /* TraceMeStart(statement_3) [ */
  %v3 = vld [vmem:[%s1] sm:$0xff]
  %4 = vtrace 8 /* TraceMeStart(users) [ */
  %v5 = vadd.f32 %v3, %v3
  %6 = vtrace 9 /* ] TraceMeEnd(users) */
  %7 = vtrace 9 /* ] TraceMeEnd(statement_3) */
  %8 = vtrace 7 /* TraceMeStart(statement_4) [ */
  %v9 = vexp2.f32.pop %v5
  %10 = vtrace 9 /* ] TraceMeEnd(statement_4) */
  %11 = vtrace 7 /* TraceMeStart(statement_5) [ */
  %v12 = vexp2.f32.pop %v5
  %v13 = vadd.f32 %v12, %v9
  %14 = vtrace 9 /* ] TraceMeEnd(statement_5) */
"""
ORIGINAL = """
  %s1 = sld [smem:[#allocation0]]
  %v2 = vld [vmem:[%s1] sm:$0xff] /* loc("k.py":3:4 to :9) */
  %v3 = vadd.f32 %v2, %v2 /* loc("k.py":3:8 to :9) :: combined */
  %v4 = vexp2.f32.pop %v3 /* loc("k.py":4:8 to :9) */
  %v5 = vexp2.f32.pop %v3 /* loc("k.py":5:8 to :9) */
  %v6 = vadd.f32 %v5, %v4 /* loc("k.py":5:8 to :9) */
"""
BUNDLES = """
     0   : > { %s1_s0 = sld [smem:[#allocation0]] }
   0x1   : > { %3 = sbr.rel (%p1) target bundleno = 3 (0x3), region = 2 }
   0x2   : > {}
   0x3   : > {}
   0x4   : > { %v2_v0 = vld [vmem:[%s1_s0] sm:$0xff] /* loc("k.py":3:4 to :9) */ }
   0x5   : > {}
   0x6   : > { %v3_v1 = vadd.f32 %v2_v0, %v2_v0 ;;  %20 = vexp2.f32 %v3_v1
  ;;  %v9_v4 = vphi 0.0, %v2_v0 }
   0x7   : > { %v21_v2 = vpop.erf %20 /* copy :: loc("k.py":4:8 to :9) */ ;; %22 = vst [#a] %v1_v2 }
   0x8 LB: >> {}
   0x9   : > { %23 = vst [vmem:[#allocation2_spill + $0x8] sm:$0xff] %v2_v0 }
"""


def test_placement():
    """By number, by location, by the pop of a push; what nothing says is of no statement."""
    fenced = placement.read_fenced(FENCED)
    assert fenced.markers == ["statement_3", "users", "statement_4", "statement_5"]
    assert fenced.lines == {1: None, 2: 3, 3: 3, 4: 4, 5: 5, 6: 5}
    placed = placement.place(fenced, ORIGINAL, BUNDLES)
    assert [bundle.lines for bundle in placed] == [
        [],
        [],
        [],
        [],
        [3],
        [],
        [3, 4],
        [4, None],
        [],
        ["spill"],
    ]
    assert [index for index, bundle in enumerate(placed) if bundle.empty] == [2, 3, 5, 8]
    assert [index for index, bundle in enumerate(placed) if bundle.branch] == [1]
    with pytest.raises(ValueError, match="other instructions"):
        placement.place(fenced, ORIGINAL.replace("vadd", "vsub"), BUNDLES)
    plain = placement.without_locations(ORIGINAL)
    assert "loc(" not in plain and "%v3 = vadd.f32 %v2, %v2 /* combined */\n" in plain
    assert "%v4 = vexp2.f32.pop %v3\n" in plain


def test_ambiguous_location():
    """Where statements share a location, operands decide; a push of weights follows its unit."""
    fenced = placement.Fenced([], {1: 3, 2: 4, 3: 3, 4: 4}, dict.fromkeys((1, 2, 3, 4), "vadd.f32"))
    same = '/* loc("silu.py":9:1 to :5) */'
    original = (
        f"%v1 = vadd.f32 1\n%v2 = vadd.f32 1\n%v3 = vadd.f32 1 {same}\n%v4 = vadd.f32 1 {same}"
    )
    schedule = (
        "  0x1 : { %v1_v0 = vadd.f32 1 ;; %v2_v1 = vadd.f32 1 }\n"
        f"  0x2 : {{ %8 = vrcp.f32 %v2_v1 ;; %v9_v2 = vadd.f32 %v1_v0, %v2_v1 {same} }}\n"
        f"  0x3 : {{ %v10_v2 = vpop.erf %8 {same} ;; %12 = vmatprep.subr.bf16.mxu1 %v1_v0 }}\n"
        f"  0x4 : {{ %13 = vmatpush3.bf16.mxu1 %v2_v1 {same} ;; %14 = vmatpush3.mxu0 %v1_v0 }}\n"
    )
    lines = [bundle.lines for bundle in placement.place(fenced, original, schedule)]
    assert lines == [[3, 4], [4, None], [4, 4], [4, None]]


def test_location_of_equal_loads():
    """What uses a load's result says whose it is, where that differs."""
    lines = {1: 3, 2: 4, 3: 5, 4: 6, 5: 6}
    opcodes = {1: "vld", 2: "vld", 3: "vneg.f32", 4: "vneg.f32", 5: "vadd.f32"}
    where = '/* loc("k.py":3:1 to :5) */'
    original = "\n".join(
        (
            f"%v1 = vld [#x] {where}",
            f"%v2 = vld [#y] {where}",
            "%v3 = vneg.f32 %v1",
            "%v4 = vneg.f32 %v2",
            "%v5 = vadd.f32 %v4, %v3",
        )
    )
    schedule = (
        f"  0x1 : {{ %v7_v0 = vld [#x] {where} ;; %v8_v1 = vld [#y] {where} }}\n"
        "  0x2 : { %v3_v0 = vneg.f32 %v7_v0 ;; %v4_v1 = vneg.f32 %v8_v1 }\n"
        f"  0x3 : {{ %v5_v0 = vadd.f32 %v4_v1, %v3_v0 ;; %v9_v2 = vld [#z] {where} }}\n"
    )
    fenced = placement.Fenced([], lines, opcodes)
    placed = [bundle.lines for bundle in placement.place(fenced, original, schedule)]
    assert placed == [[3, 4], [5, 6], [6, None]]


def test_share():
    """Each bundle's cycles once: issued, waited for, or of control."""
    placed = placement.place(placement.read_fenced(FENCED), ORIGINAL, BUNDLES)
    cycles = placement.share(placed, [10] * 10, delay_slots=1)
    assert cycles.issue == {3: 15.0, 4: 10.0, None: 5.0, "spill": 10.0}
    # Bundle 2 is a delay slot; 3, 5 and 8 wait for what is in the bundle after them.
    assert cycles.wait == {3: 15.0, 4: 5.0, None: 0.0, "spill": 10.0}
    assert cycles.control == 30.0
    assert cycles.total == 100.0
    # Nothing comes after the last wait.
    assert placement.share(placed[:9], [10] * 9, delay_slots=1).control == 40.0


REGISTERS = """module {
  func.func @k(%arg0: i32, %arg1: memref<8x128xf32>) attributes {iteration_bounds = array<i64: 4>} {
    %c0 = arith.constant {in_layout = []} 0 : i32
    %c3_i32 = arith.constant 3 : i32
    %c1_i32 = arith.constant 1 : i32
    %a = tpu.load %arg1[%c0, %c0] sublanes [true] : memref<8x128xf32>, vector<8x128xf32>
    %n = arith.addi %c0, %c1_i32 : i32
    scf.for %i = %c0 to %c3_i32 step %c1_i32  : i32 {
      %b = math.exp %a : vector<8x128xf32>
      %c = tpu.bitcast_vreg %b : vector<8x128xf32> -> vector<8x128xi32>
      %d = arith.divf %b, %a : vector<8x128xf32>
    }
    tpu.store %arg1[%c0, %c0], %a sublanes [true] : memref<8x128xf32>, vector<8x128xf32>,
    return
  }
}
"""


def test_operations_on_registers():
    """By class; scalars and what renames registers are in none."""
    kernel = mosaic.parse_kernel(REGISTERS, mosaic.register_class)
    found = {site.opcode: (site.count, site.trips) for site in kernel.sites}
    assert found == {"load": (1, 4), "function": (2, 12), "store": (1, 4)}
