"""Helion's own Pallas kernel for a configuration, as a function that jax can compile for any chip.

Helion generates a wrapper that calls `_launcher(kernel, grid, *args, ...)`. That call is caught on
tensors of the meta device and the kernel is built by Helion's own `_pallas_compile_jit_fn`, so what
is compiled is what Helion would launch. Needs torch and helion (requirements-export.txt).

What the wrapper does to tensors before the launch counts as free here: the transpose of K in
attention is an input that is already transposed. Padding that the launch asks for is not: it is
part of the function.
"""

import dataclasses
import inspect
import os
import sys
from pathlib import Path

KERNELS = Path(__file__).resolve().parent.parent / "testdata" / "kernels"
# Keys that only pallasc knows.
OURS = ("pallas_fori_dma", "pallas_inloop_loads", "pallas_boundary_views")


@dataclasses.dataclass
class Built:
    """A Helion kernel as jax sees it.

    Attributes:
      function: takes one array for each of `inputs`.
      inputs: (shape, dtype name) pairs.
      blocks: the block sizes that Helion took, by its names; it may raise what was asked for.
      refused: Helion's own refusal of this launch, which was overruled to hear the compiler, or "".
    """

    function: object
    inputs: list
    blocks: dict
    refused: str = ""


def environment():
    """The environment variables that Helion reads when it is imported: generate for a TPU."""
    return {"HELION_BACKEND": "pallas", "HELION_PALLAS_INTERPRET": "0"}


def kernel_build(kernel, args, config, vmem_bytes):
    """The `Built` kernel of FILE.py:KERNEL (in testdata/kernels).

    Args:
      kernel: FILE.py:KERNEL.
      args: texts as `pallasc export --args` takes them.
      config: a configuration, a dict, without the keys that Helion lacks; None: its default.
      vmem_bytes: VMEM of the chip, which Helion would ask the chip for.

    Raises whatever Helion raises where it cannot bind or generate code.
    """
    os.environ.update(environment())
    code = generate(kernel, args, config)
    call = launch_caught(code, args)
    return launch_build(call, vmem_bytes)


def generate(kernel, args, config):
    """The Python text that Helion generates."""
    import torch

    bound = bind(kernel, tuple(values(args)), interpret=False)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        return bound.to_code(config_for(bound, config))


def bind(kernel, arguments, interpret):
    """The kernel FILE.py:KERNEL bound to arguments, by Helion's Pallas backend."""
    import helion
    from pallasc.export import kernel_load

    file, _, name = kernel.rpartition(":")
    found = kernel_load(str(KERNELS / file), name)
    settings = helion.Settings(
        backend="pallas",
        pallas_interpret=interpret,
        static_shapes=True,
        ignore_warnings=[helion.exc.BaseWarning],
    )
    return helion.Kernel(found.fn, configs=[], settings=settings).bind(tuple(arguments))


def config_for(bound, config):
    """The `helion.Config` of a dict, without the keys that Helion lacks; None: its default."""
    import helion

    if config is None:
        return bound.config_spec.default_config()
    return helion.Config(**{key: value for key, value in config.items() if key not in OURS})


def values(args, device=None):
    """The arguments: fake tensors, or tensors of a device."""
    import torch
    from pallasc.exporter.argspec import argument_make, argument_parse

    for text in args:
        kind, *rest = parsed = argument_parse(text)
        if kind == "tensor" and device:
            yield torch.empty(rest[1], dtype=getattr(torch, rest[0]), device=device)
        else:
            yield argument_make(parsed)


@dataclasses.dataclass
class Launch:
    """The arguments of one `_launcher` call."""

    kernel: object
    grid: tuple
    args: tuple
    options: dict


class Caught(Exception):
    """Ends the generated wrapper at its launch: the `Launch` is its argument."""


def launch_caught(code, args):
    """Runs the generated wrapper on meta tensors up to its launch: a `Launch`."""
    import torch
    from torch._inductor.codecache import PyCodeCache

    module = PyCodeCache.load(code)
    (wrapper,) = (
        item
        for item in vars(module).values()
        if inspect.isfunction(item) and "_launcher" in inspect.signature(item).parameters
    )

    def launcher(kernel, grid, *args, **options):
        raise Caught(Launch(kernel, grid, args, options))

    try:
        with torch.device("meta"):
            wrapper(*values(args, "meta"), _launcher=launcher)
    except Caught as caught:
        launch = caught.args[0]
        launch.options["module"] = module
        return launch
    raise RuntimeError("Helion's wrapper launched nothing")


def launch_build(launch, vmem_bytes):
    """The `Built` kernel of a launch."""
    from helion.runtime.pallas import launcher as runtime

    options = dict(launch.options)
    module = options.pop("module")
    blocks = {k: v for k, v in vars(module).items() if k.startswith("_BLOCK_SIZE_")}
    pads = options.pop("_ds_pad_dims", None) or []
    outputs = options.get("_output_indices") or []
    padded, _ = runtime._pallas_apply_ds_padding(launch.args, outputs, pads)
    wanted = inspect.signature(runtime._pallas_compile_jit_fn).parameters
    options = {name: value for name, value in options.items() if name in wanted}
    defaults = {
        name: {"_output_indices": [], "_use_low_level_scheduler": False}.get(name)
        for name, parameter in wanted.items()
        if name.startswith("_")
    }
    runtime._CACHED_VMEM_LIMIT_BYTES = vmem_bytes
    refused, check = [], runtime._pallas_check_vmem_or_raise

    def check_noted(*args, **kwargs):
        try:
            check(*args, **kwargs)
        except RuntimeError as error:
            refused.append(str(error))

    runtime._pallas_check_vmem_or_raise = check_noted
    try:
        built = runtime._pallas_compile_jit_fn(
            launch.kernel,
            launch.grid,
            padded,
            **{**defaults, **options},
            interpret=False,
            placeholder_fn=runtime._jax_placeholder_for_tensor,
        )
    finally:
        runtime._pallas_check_vmem_or_raise = check
    return with_padding(built, launch, pads, blocks, "".join(refused))


def with_padding(built, launch, pads, blocks, refused):
    """A `Built` whose function pads its inputs as Helion's launcher does."""
    import jax.numpy as jnp
    from helion.runtime.pallas import launcher as runtime

    indices = built.tensor_arg_indices
    shapes = [runtime._jax_placeholder_for_tensor(launch.args[i]) for i in indices]
    widths = [[[0, 0] for _ in shape.shape] for shape in shapes]
    for argument, dim, block, extra in pads:
        if argument in indices:
            place = indices.index(argument)
            widths[place][dim][1] = -shapes[place].shape[dim] % block + extra
    jit_fn = built.jit_fn

    def function(*arrays):
        arrays = [
            jnp.pad(array, width) if any(sum(pair) for pair in width) else array
            for array, width in zip(arrays, widths, strict=True)
        ]
        return jit_fn(*arrays)

    inputs = [(tuple(shape.shape), str(shape.dtype)) for shape in shapes]
    return Built(function, inputs, blocks, refused)


if __name__ == "__main__":
    sys.exit("a part of bench/kernels.py")
