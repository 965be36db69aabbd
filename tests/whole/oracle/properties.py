"""What every drawn document must hold: `examine(case)`.

An outcome is {"status": "refused" | "ok" | "find", ...}; a find has a `kind`, which says which
property failed, and a `message`.
"""

import contextlib
import json
import subprocess

import executed
import kit
import numpy as np
import spread
import values
from beside import beside
from pallasc import aot, compare, reference
from pallasc.errors import KernelError, ModuleError, PallascError
from pallasc.module import Module
from pallasc.reference.errors import GraphError
from pallasc.simulate import huge_memory, interpret_params, simulate

COMPILE_SECONDS = 30
AOT_SECONDS = 600  # of the clock, on a machine that does other things too
CHIPS = tuple(aot.TOPOLOGIES)
QUICK = ((1, 1), (2, 4), (3, 8), (4, 2))
THOROUGH = tuple((seed, ulps) for seed in range(5, 17) for ulps in (1, 8))


class Find(Exception):
    """A property that does not hold: (kind, message)."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind, self.message = kind, message


class Refused(Exception):
    """The compiler's errors: a list of dicts."""


def compile_text(text, *options):
    """What the compiler prints. Raises Refused; Find for a crash, a hang, or no diagnostic."""
    try:
        run = kit.run("-", "--diagnostics=json", *options, text=text, timeout=COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        raise Find("hang", f"{' '.join(options)}: no answer in {COMPILE_SECONDS} s") from None
    if run.status not in (0, 1):
        raise Find("crash", f"{' '.join(options)}: status {run.status}: {run.err[-500:]}")
    if run.status == 0:
        return run.out
    try:
        found = [json.loads(line) for line in run.err.splitlines() if line.strip()]
    except ValueError:
        raise Find("crash", f"no diagnostic: {run.err[-500:]}") from None
    errors = [d for d in found if d.get("severity") == "error"]
    if not errors:
        raise Find("crash", "refused without an error")
    raise Refused(errors)


def passes():
    """Names of the passes, in order."""
    return [line.split()[0] for line in kit.accepted("--print-passes").out.splitlines()]


def examine(case, target="v6e"):
    """The outcome of all properties but the TPU compiler's verdict.

    A case whose `way` is "executed" has its kernel's text executed; others are simulated. A
    `thorough` one is also reloaded, compiled by each pass alone, and executed after each rewrite,
    or simulated in memory of huge values and with DMAs that move at once.
    """
    text = json.dumps(case["document"])
    try:
        source = compile_text(text, f"--target={target}")
        way = executes if case.get("way") == "executed" else accepted
        way(case, text, source, target)
    except Refused as refused:
        return _refused(refused)
    except Find as find:
        return _find(find)
    return {"status": "ok"}


class TpuCompiler:
    """Asks the TPU compiler, in one process for all cases."""

    def __init__(self):
        self.job, self.results = None, None

    def examine(self, case):
        """The outcome of its verdict: it takes the kernel, in no more VMEM than said.

        The kernel is part of a program that makes an array of 8 bits, too.

        `case` has a `chip`, the target.
        """
        chip = case["chip"]
        try:
            source = compile_text(json.dumps(case["document"]), f"--target={chip}")
        except Refused as refused:
            return _refused(refused)
        except Find as find:
            return _find(find)
        self.job = beside(Module(source, "<drawn>")), chip
        if self.results is None:
            self.results = aot.compile_many(self._jobs(), timeout=AOT_SECONDS)
        result = next(self.results)
        if result.kind == "memory":  # a process keeps what the kernels before took, too
            result = next(self.results)
        if not result.ok:
            return _find(Find(f"aot {result.kind}", f"{chip}: {result.message}"))
        if result.most_bytes is not None and result.most_bytes < result.vmem_bytes:
            what = f"{result.vmem_bytes} bytes of VMEM used, at most {result.most_bytes} predicted"
            return _find(Find("aot prediction", f"{chip}: {what}"))
        return {"status": "ok"}

    def _jobs(self):
        while True:
            yield self.job

    def close(self):
        """Ends the compiler's process."""
        if self.results is not None:
            self.results.close()


def _refused(refused):
    first = refused.args[0][0]
    return {"status": "refused", "code": first["code"], "message": first["message"]}


def _find(find):
    return {"status": "find", "kind": find.kind, "message": find.message}


def accepted(case, text, source, target):
    """Raises Find where what was accepted does not hold a property; `source` is the module."""
    module, arrays, expected = _loaded(case, source)
    _reloads(text, target)
    _keeps_meaning(text, target, expected)
    _simulates(module, arrays, expected, interpret_params(), "")
    if case.get("thorough"):
        with huge_memory():
            _simulates(module, arrays, expected, interpret_params(), " in huge memory")
        _simulates(module, arrays, expected, interpret_params(eager=True), " with eager DMA")


def executes(case, text, source, target):
    """The same where the kernel's text is executed, not simulated."""
    _, arrays, expected = _loaded(case, source)
    runs = executed.Runs(arrays)
    kernel = _executes(runs, text, target, expected)
    if case.get("thorough"):
        _reloads(text, target)
        _keeps_meaning(text, target, expected)
        _rewrites(runs, text, target, kernel)


def rewritten(case, target="v6e"):
    """Raises Find where kernel text of a case, executed, is wrong, at the end or by one rewrite.

    Raises Refused too.
    """
    text = json.dumps(case["document"])
    _, arrays, expected = _loaded(case, compile_text(text, f"--target={target}"))
    runs = executed.Runs(arrays)
    kernel = _executes(runs, text, target, expected)
    _rewrites(runs, text, target, kernel)


def _loaded(case, source):
    """(Module, arrays, _Expected) of a case whose printed module is `source`."""
    try:
        module = Module(source, "<drawn>")
        config = module.info["config"]
    except ModuleError as error:
        raise Find("module", str(error)) from None
    with _reference_errors():
        arrays = values.arrays(case, config)
    return module, arrays, _Expected(case["document"], arrays, config)


class _Expected:
    """The reference's outputs, and how far an output may be from them."""

    def __init__(self, document, arrays, config):
        self.document, self.arrays, self.config = document, arrays, config
        self.nan_maxima = set()
        with _reference_errors(), spread.nan_maxima(self.nan_maxima):
            self.outputs = reference.run(document, arrays, config=config)
        self.noisy = []

    def check(self, outputs, kind, what):
        """Raises Find where an output is off."""
        if len(outputs) != len(self.outputs):
            raise Find(kind, f"{what}: {len(outputs)} outputs, expected {len(self.outputs)}")
        for number, output in enumerate(outputs):
            if found := self._difference(number, output):
                index, actual, wanted, ratio, count = found
                raise Find(
                    kind,
                    f"{what}: output {number} at {list(index)}: {actual!r}, expected {wanted!r} "
                    f"({ratio:.3g} of what is allowed; {count} of {output.size} elements)",
                )

    def _difference(self, number, output):
        tolerance = compare.tolerance_for(self.document, number, self.config)
        expected = self.outputs[number]
        if self.nan_maxima and output.shape == expected.shape and expected.dtype.kind != "b":
            lost = (
                np.isnan(expected.astype(np.float64)) if expected.dtype.kind not in "iu" else None
            )
            if lost is not None:
                output = np.where(lost, expected, output)
        for seeds in ((), QUICK, THOROUGH):
            if len(self.noisy) < len(seeds):
                self.noisy += spread.samples(self.document, self.arrays, self.config, seeds)
            noisy = [run[number] for run in self.noisy]
            found = spread.difference(output, expected, noisy, tolerance)
            if found is None:
                break
        return found


@contextlib.contextmanager
def _reference_errors():
    """What the reference refuses of an accepted document is a find."""
    try:
        yield
    except GraphError as error:
        raise Find("reference", str(error)) from error


def as_fixed(plan):
    """A plan as if the graph fixed its sizes, as a document does whose tiles got whole lanes.

    Accesses of which passes made other nodes, those of a document after the passes are not.
    """
    found = json.loads(plan)
    made = ("vector gather", "one-hot matmul")
    for kernel in found.get("kernels", [found]):
        kernel["indirect"] = [x for x in kernel["indirect"] if x["way"] not in made]
    found["config"]["block_sizes"] = []
    for block in found["blocks"]:
        block["chosen"] = False
    return found


def _reloads(text, target):
    """The document after all passes is one again, and gives the same plan."""
    options = (f"--target={target}",)
    after = compile_text(text, *options, "--emit=json")
    plan = compile_text(text, *options, "--emit=plan")
    try:
        again = compile_text(after, *options, "--emit=plan")
    except Refused as refused:
        raise Find("reload", f"refused: {refused.args[0][0]['message']}") from None
    if plan != again and as_fixed(plan) != as_fixed(again):
        pairs = zip(plan.splitlines(), again.splitlines(), strict=False)
        line = next((f"{a.strip()} / {b.strip()}" for a, b in pairs if a != b), "one is longer")
        raise Find("reload", f"another plan: {line}")


def chosen(document, config):
    """A configuration without block sizes where the document fixes them all."""
    blocks = document["block_sizes"]
    free = any("size" not in block and not block.get("reduction") for block in blocks)
    return {key: value for key, value in config.items() if free or key != "block_sizes"}


def _keeps_meaning(text, target, expected):
    """The reference gives the same for the document after each single pass, and after all."""
    seen = set()
    for name in (*passes(), None):
        options = [f"--target={target}", "--emit=json", *([f"--passes={name}"] if name else [])]
        try:
            after = json.loads(compile_text(text, *options))
        except Refused as refused:
            if name:  # a pass may need what one before it makes
                continue
            raise Find("pass", f"refused: {refused.args[0][0]['message']}") from None
        after.pop("annotations", None)
        key = json.dumps(after)
        if key in seen:
            continue
        seen.add(key)
        with _reference_errors():
            config = chosen(after, expected.config)
            outputs = reference.run(after, expected.arrays, config=config)
        expected.check(outputs, "pass", f"after {name or 'all passes'}")


def _executes(runs, text, target, expected):
    """Gives the kernel text that the reference agrees with."""
    kernel = compile_text(text, f"--target={target}", "--emit=kernel")
    try:
        with np.errstate(all="ignore"):  # some documents compute NaN
            outputs = runs.outputs(kernel)
    except PallascError as error:
        raise Find("kernel", f"executed: {error}") from None
    expected.check(outputs, "numerics", "executed")
    return kernel


def _rewrites(runs, text, target, kernel):
    """Each rewrite leaves what is computed, and all of them end in the kernel's text."""
    built = compile_text(text, f"--target={target}", "--emit=kernel", "--rewrites=")
    try:
        with np.errstate(all="ignore"):
            lines = runs.rewrite_problems(built, kernel)
    except PallascError as error:
        raise Find("rewrite", str(error)) from None
    if lines:
        raise Find("rewrite", lines[0])


def _simulates(module, arrays, expected, params, how):
    try:
        ran = simulate(module.load(), arrays, params)
    except (KernelError, ModuleError) as error:
        raise Find("kernel", f"{error}{how}") from None
    if ran.races or ran.complaints:
        raise Find("race", "; ".join([*ran.races, *ran.complaints]) + how)
    expected.check(ran.outputs, "numerics", f"simulated{how}")
