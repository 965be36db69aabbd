"""pallasc: compiles FX-style graphs of tile operations to standalone Pallas TPU kernels.

`compile` gives a `Module`, `jit` a callable that compiles itself for the sizes of its arguments,
`vjp` a function of a forward and its backward graphs that jax differentiates, `grad` derives a
backward graph, `reference` executes a graph in NumPy, `export` makes graphs from Helion kernels.
Importing the package imports neither jax nor torch: each name loads what it needs when it is first
used.
"""

import importlib

__all__ = [
    "CompileError",
    "Module",
    "PallascError",
    "compile",
    "experts",
    "export",
    "grad",
    "jit",
    "reference",
    "shard",
    "vjp",
    "worklist",
]

_LAZY = {
    "compile": ("binding", "compile"),
    "jit": ("jitted", "jit"),
    "Module": ("module", "Module"),
    "CompileError": ("errors", "CompileError"),
    "PallascError": ("errors", "PallascError"),
    "experts": ("mixture", "experts"),
    "export": ("export", None),
    "grad": ("differentiate", "grad"),
    "reference": ("reference", None),
    "shard": ("binding", "shard"),
    "vjp": ("pairing", "vjp"),
    "worklist": ("mixture", "worklist"),
}


def __getattr__(name):
    if name == "__version__":  # the compiler's, which is built from the same tree
        return importlib.import_module(".binding", __name__).find_library().version
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    submodule, attribute = _LAZY[name]
    module = importlib.import_module(f".{submodule}", __name__)
    return getattr(module, attribute) if attribute else module


def __dir__():
    return sorted({*globals(), *__all__})
