"""What the module says of a kernel's arrays: block specs, one for each space and rank."""

import ast

import kit

KERNEL = """program lines for v6e
input x float32[256]
input once float32[8, 128]
input table int32[4]
output out float32[256]

kernel lines {
  grid i 2 parallel
  in x_ref vmem float32[128] of [256] at (i) buffers 2
  in once_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 1
  in table_ref smem int32[4] buffers 2
  out out_ref vmem float32[128] of [256] at (i) buffers 2

  x = load x_ref[...] : float32[128]
  store out_ref[...], x
}

host(x, once, table) {
  out = launch kernel=0, x, once, table : float32[256]
  return out
}
"""


def test_block_specs():
    lines = [line.strip() for line in kit.accepted("-", text=KERNEL).out.splitlines()]
    first = next(i for i, line in enumerate(lines) if "pl.BlockSpec(" in line)
    specs = [line for line in lines[first : first + 8] if line.startswith("pl.BlockSpec(")]
    assert specs == [
        "pl.BlockSpec((128,), lambda i: (i,)),",
        "pl.BlockSpec((8, 128), lambda i: (0, 0), pipeline_mode=pl.Buffered(1)),",
        "pl.BlockSpec(memory_space=pltpu.SMEM),",
        "pl.BlockSpec((128,), lambda i: (i,)),",
    ]


def test_a_configuration_is_a_dict():
    """Words of JSON are those of Python, but for what stands in strings."""
    line = (
        'config "reduction_loops": [null, 8], "flatten_loops": [true, false], "of": "null \\" true"'
    )
    text = KERNEL.replace("\nkernel lines", f"{line}\n\nkernel lines")
    source = kit.accepted("-", text=text).out
    (info,) = [
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and node.targets[0].id == "KERNEL_INFO"
    ]
    assert ast.literal_eval(info)["config"] == {
        "reduction_loops": [None, 8],
        "flatten_loops": [True, False],
        "of": 'null " true',
    }
