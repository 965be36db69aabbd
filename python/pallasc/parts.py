"""Running a kernel module at a part of its grid only: in place of `pl.pallas_call`, blocks alone.

The module's text stays as it is. Its wrapper runs on NumPy arrays, of which reshapes are views; of
each operand the kernel gets the blocks that the part of the grid has, cut out, and its results are
put where they belong, into arrays of which only these places ever take memory.
"""

import contextlib
import dataclasses
import itertools

import numpy as np

from .errors import KernelError
from .plain import for_pallas
from .reference.sparse import zeros


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a kernel's grid: `call`, its number in the module, and {dim: the id kept}."""

    call: int
    ids: dict


class Parts:
    """The parts of a module's kernels, run one after the other; results of all are kept together.

    Attributes:
      whole: names of operands that the kernel copies from HBM itself, so that it gets all of them.
      loose: whether the kernel copies results to HBM itself: then they are of the last part alone.
    """

    def __init__(self, module):
        self.module, self.whole = module.load(), set()
        self.results = {}  # (call, output) -> the array
        self.loose = False

    def kernel(self, part):
        """A callable that runs the module's function with nothing but this part of its grids."""

        def run(*inputs, interpret):
            import jax

            with _pallas(self.module, _Pallas(self, part)), jax.disable_jit():
                return self.module(*inputs, interpret=interpret)

        return run


@contextlib.contextmanager
def _pallas(module, stand_in):
    """The module's `pl` and `pltpu` are others meanwhile, and so is what it calls kernels by.

    Its `_pallas_call` is for jax's transformations, which would trace the arrays: none is at work.
    """
    names = {
        "pl": stand_in,
        "pltpu": _Mosaic(stand_in),
        "_pallas_call": stand_in.pallas_call,
    }
    before = {name: getattr(module, name) for name in names if hasattr(module, name)}
    for name in before:
        setattr(module, name, names[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


class _Pallas:
    """jax.experimental.pallas, but for what a part of a grid needs otherwise."""

    def __init__(self, parts, part):
        from jax.experimental import pallas

        self._pallas, self._parts, self._part = pallas, parts, part
        self._calls = itertools.count()
        self._fixed, self._steps = {}, ()

    def __getattr__(self, name):
        return getattr(self._pallas, name)

    def program_id(self, axis):
        """The id of the whole grid's point."""
        import jax.numpy as jnp

        if axis in self._fixed:
            return jnp.int32(self._fixed[axis])
        return self._pallas.program_id(axis)

    @contextlib.contextmanager
    def within_pipeline(self):
        """Ids are those of a pipeline's own grid meanwhile."""
        fixed, self._fixed = self._fixed, {}
        try:
            yield
        finally:
            self._fixed = fixed

    def num_programs(self, axis):
        """Of the whole grid."""
        return self._steps[axis]

    def kernel(self, *_arguments, **_options):
        """`pl.kernel`: subcores divide all of the work."""
        raise KernelError(
            "a SparseCore kernel has no grid points: check all of it, without --points"
        )

    def pallas_call(self, kernel, **options):
        """A call of which only the part is run; of another than the part's, nothing."""
        number = next(self._calls)
        options["interpret"] = for_pallas(options["interpret"])

        def call(*arrays):
            launch = _Launch(kernel, options, arrays)
            results = self._results(number, launch, arrays)
            if number == self._part.call:
                self._run(launch, results)
            several = isinstance(options["out_shape"], list | tuple)
            return results if several else results[0]

        return call

    def _results(self, number, launch, arrays):
        kept = self._parts.results
        for output, declared in enumerate(launch.out_shapes):
            source = launch.aliases.get(output)
            if (number, output) not in kept:
                kept[number, output] = (
                    zeros(declared.shape, declared.dtype)
                    if source is None
                    else np.array(arrays[source])
                )
        return [kept[number, output] for output in range(len(launch.out_shapes))]

    def _run(self, launch, results):
        import jax

        self._fixed, self._steps = self._part.ids, launch.grid
        cuts = [launch.cut(spec, self._fixed) for spec in launch.in_specs]
        puts = [launch.cut(spec, self._fixed) for spec in launch.out_specs]
        self._parts.whole |= {launch.name(i) for i, cut in enumerate(cuts) if cut.copied}
        self._parts.loose |= any(put.copied for put in puts)
        inputs = [cut.of(array) for cut, array in zip(cuts, launch.arrays, strict=True)]
        with jax.disable_jit(False):
            call = launch.part(self._pallas, self._fixed, cuts, puts)
            found = jax.jit(call)(*launch.prefetched, *inputs)
        found = found if isinstance(found, list | tuple) else [found]
        for result, put, values in zip(results, puts, found, strict=True):
            put.into(result, np.asarray(values))


class _Mosaic:
    """jax.experimental.pallas.tpu, but for pipelines, in which ids are of their own grids."""

    def __init__(self, pallas):
        self._pallas = pallas

    def __getattr__(self, name):
        from jax.experimental.pallas import tpu

        return getattr(tpu, name)

    def emit_pipeline(self, body, **options):
        """That of a body whose `pl.program_id` is jax's."""
        from jax.experimental.pallas import tpu

        def inside(*arguments):
            with self._pallas.within_pipeline():
                return body(*arguments)

        return tpu.emit_pipeline(inside, **options)


class _Launch:
    """One `pl.pallas_call` with its arrays."""

    def __init__(self, kernel, options, arrays):
        self.kernel, self.options = kernel, options
        spec = options.get("grid_spec")
        count = spec.num_scalar_prefetch if spec is not None else 0
        holder = options if spec is None else vars(spec)
        grid = holder.get("grid", ())
        self.spec, self.grid = spec, (grid,) if isinstance(grid, int) else tuple(grid)
        self.in_specs, self.out_specs = _listed(holder["in_specs"]), _listed(holder["out_specs"])
        self.out_shapes = _listed(options["out_shape"])
        self.prefetched, self.arrays = arrays[:count], arrays[count:]
        self.aliases = {
            output: source for source, output in options.get("input_output_aliases", {}).items()
        }

    def name(self, number):
        """The parameter of the kernel that an input is."""
        names = self.kernel.__code__.co_varnames if hasattr(self.kernel, "__code__") else ()
        at = number + len(self.prefetched)
        return names[at].removesuffix("_ref") if at < len(names) else f"operand {number}"

    def steps(self, fixed):
        """The grid of a part, of as many dims."""
        return tuple(1 if d in fixed else n for d, n in enumerate(self.grid))

    def cut(self, spec, fixed):
        """The `_Cut` of an operand's blocks at a part of the grid."""
        if spec.block_shape is None:
            return _Cut(None, (), copied="any" in str(spec.memory_space).lower())
        tables = [np.asarray(array) for array in self.prefetched]
        points = itertools.product(
            *[[fixed[d]] if d in fixed else range(n) for d, n in enumerate(self.grid)]
        )
        blocks = {tuple(map(int, _listed(spec.index_map(*p, *tables)))): None for p in points}
        return _Cut(tuple(1 if n is None else int(n) for n in spec.block_shape), tuple(blocks))

    def part(self, pallas, fixed, cuts, puts):
        """The call of the part, on what is cut out."""
        import jax

        def moved(spec, cut):
            if cut.shape is None:
                return spec

            def index(*given):
                ids, tables = given[: len(self.grid)], given[len(self.grid) :]
                ids = [fixed.get(d, i) for d, i in enumerate(ids)]
                found = _listed(spec.index_map(*ids, *tables))
                return tuple(i - first for i, first in zip(found, cut.first, strict=True))

            return pallas.BlockSpec(spec.block_shape, index, memory_space=spec.memory_space)

        in_specs = [moved(s, c) for s, c in zip(self.in_specs, cuts, strict=True)]
        out_specs = [moved(s, c) for s, c in zip(self.out_specs, puts, strict=True)]
        out_shapes = [
            jax.ShapeDtypeStruct(put.range(shape.shape), shape.dtype)
            for put, shape in zip(puts, self.out_shapes, strict=True)
        ]
        options = {**self.options, "out_shape": out_shapes}
        options.pop("cost_estimate", None)
        options.pop("input_output_aliases", None)  # other blocks are not here, and stay as they are
        given = {"grid": self.steps(fixed), "in_specs": in_specs, "out_specs": out_specs}
        if self.spec is None:
            return pallas.pallas_call(self.kernel, **{**options, **given})
        options["grid_spec"] = type(self.spec)(
            num_scalar_prefetch=len(self.prefetched),
            scratch_shapes=self.spec.scratch_shapes,
            **given,
        )
        return pallas.pallas_call(self.kernel, **options)


class _Cut:
    """Where blocks lie in an array: `shape` of one, None for all of it, and their indices."""

    def __init__(self, shape, blocks, copied=False):
        self.shape, self.blocks, self.copied = shape, blocks, copied
        self.first = tuple(map(min, zip(*blocks, strict=True))) if blocks else ()
        self.last = tuple(map(max, zip(*blocks, strict=True))) if blocks else ()

    def range(self, array_shape):
        """The shape of what holds all blocks, inside the array."""
        if self.shape is None:
            return tuple(array_shape)
        return tuple(
            part.stop - part.start for part in self._slices(self.first, self.last, array_shape)
        )

    def _slices(self, first, last, array_shape):
        return tuple(
            slice(a * size, min((b + 1) * size, whole))
            for a, b, size, whole in zip(first, last, self.shape, array_shape, strict=True)
        )

    def of(self, array):
        """What holds all blocks, of an array."""
        return (
            array if self.shape is None else array[self._slices(self.first, self.last, array.shape)]
        )

    def into(self, array, values):
        """Puts the blocks back."""
        if self.shape is None:
            array[...] = values
            return
        start = [a * size for a, size in zip(self.first, self.shape, strict=True)]
        for block in self.blocks:
            there = self._slices(block, block, array.shape)
            here = tuple(
                slice(part.start - s, part.stop - s) for part, s in zip(there, start, strict=True)
            )
            array[there] = values[here]


def _listed(one_or_more):
    return list(one_or_more) if isinstance(one_or_more, list | tuple) else [one_or_more]
