"""`pallasc tune`: the fastest configuration of a graph, with no TPU or on one.

`pallasc sweep` judges every configuration by estimates. The most promising are compiled by the real
compiler and executed by the profiler, or timed where there is a TPU; half of them those that the
estimates rank first, the others neighbours of the fastest so far, which differ in one value. By
what came of a loop type the estimates of its others are corrected. What came of each is kept as
soon as it is known, so that a run that was interrupted goes on where it was.
"""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import typing
from pathlib import Path

from . import aot, chips, judge
from .binding import Graph, config_text, format_diagnostics, graph_text, target_text
from .binding import compile as compile_graph
from .command import (
    Parser,
    add_size_option,
    add_vmem_options,
    at_least_one,
    bytes_text,
    find_command,
    parse_set,
    positive,
    read_json,
    table,
)
from .errors import CompileError, PallascError
from .files import keep_line, kept_lines, write_file
from .module import Module

GIB = 1 << 30
# Configurations of a sweep that are kept, the fastest by estimate.
KEPT = 20_000
# Of the compiles so many go to the first by estimate, the rest to neighbours of the fastest.
FIRST = 0.5


@dataclasses.dataclass
class Candidate:
    """A configuration that a sweep accepted.

    Attributes:
      number: in the space.
      config: over the graph's own, all that varies.
      estimate: cycles, as the compiler estimates them.
    """

    number: int
    config: dict
    estimate: float


@dataclasses.dataclass
class Outcome:
    """What the real compiler made of a configuration.

    Attributes:
      config: the configuration; None: what holds where none is given.
      settled: what was in force, all keys.
      code: digest of the module's code: configurations may make the same.
      cost: cycles by the profiler, or seconds on a TPU; None: it failed.
      estimate: cycles, as the compiler estimates them; None of the default.
      vmem_bytes: scoped VMEM that the compiled kernel takes; None: unknown.
      failure: why there is no cost, a line; "".
      known: it was measured before.
      lost: the compiler process crashed, or was killed, or took too much memory.
    """

    config: dict | None
    settled: dict
    code: str
    cost: float | None = None
    estimate: float | None = None
    vmem_bytes: int | None = None
    failure: str = ""
    known: bool = False
    lost: bool = False

    def is_sound(self):
        """Whether its values are of the kinds that they have: a journal may hold anything."""
        numbers = (self.cost, self.estimate, self.vmem_bytes)
        kinds = isinstance(self.code, str) and isinstance(self.failure, str)
        configs = isinstance(self.settled, dict) and isinstance(self.config, dict | None)
        return kinds and configs and all(isinstance(x, int | float | None) for x in numbers)


class Asked(typing.NamedTuple):
    """What is tuned: texts as `pallasc` takes them."""

    graph: str
    name: str
    target: str
    config: dict
    vmem: int | None = None
    space: str | None = None
    arguments: tuple = ()
    vmem_margin: float = 0.0


# ---- the sweep -----------------------------------------------------------------------------------


def sweep(asked, threads=None):
    """([Candidate], summary) of the accepted configurations, the fastest by estimate first.

    Raises CompileError where none is accepted, or the graph or the space is refused.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = [*sweep_words(asked, folder), f"--top={KEPT}"]
        words += [f"-j{threads}"] if threads else []
        done = subprocess.run(words, input=asked.graph, capture_output=True, text=True)
    ranked, counts = [], []
    for line in done.stdout.splitlines():
        figures, brace, config = line.partition("{")
        if brace and figures.split()[0].isdigit():
            config = json.loads(brace + config)
            ranked.append(Candidate(len(ranked), config, float(figures.split()[0])))
        elif "configuration" not in line.split()[-1:]:
            counts.append(line)
    if done.returncode or not ranked:
        raise CompileError(done.stderr.strip() or "\n".join(counts) or "no configuration fits")
    return ranked, "\n".join(counts)


def sweep_words(asked, folder):
    """The command that sweeps what is asked, the graph on its standard input; files in `folder`."""
    words = [find_command(), "sweep", "-"]
    words += ["--target", _file(folder, "target.json", asked.target)]
    if asked.config:
        words += ["--config", _file(folder, "config.json", json.dumps(asked.config))]
    words += [f"--vmem={asked.vmem}"] if asked.vmem else []
    words += [f"--vmem-margin={asked.vmem_margin}"] if asked.vmem_margin else []
    words += ["--space", asked.space] if asked.space else []
    return words


def _file(folder, name, text):
    """The path of a file with the text; of a chip's name that name."""
    if name == "target.json" and not text.lstrip().startswith("{"):
        return text
    path = Path(folder) / name
    path.write_text(text)
    return str(path)


# ---- what is known -------------------------------------------------------------------------------


class Journal:
    """What came of each configuration, a line as soon as it is known; by the code of its module."""

    def __init__(self, path):
        self.path, self.known = path, {}
        for line in kept_lines(path):
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                entry = Outcome(**json.loads(line))
                if entry.is_sound():
                    self.known[entry.code] = entry

    def get(self, code, config, estimate):
        """The `Outcome` of such code under another configuration; None: it is not known."""
        found = self.known.get(code)
        changed = {"config": config, "estimate": estimate, "known": True}
        return found and dataclasses.replace(found, **changed)

    def put(self, outcome):
        """Keeps an outcome; a file that cannot be written is no error.

        That a compiler process was lost says nothing of the configuration: it is tried again.
        """
        if not outcome.lost:
            self.known[outcome.code] = outcome
            keep_line(self.path, json.dumps(dataclasses.asdict(outcome)))


def journal_of(asked, how):
    """The `Journal` of a graph, a target, and a way to measure."""
    from .profile.estimate import INSTRUMENT

    data = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for _, path in asked.arguments]
    versions = [aot._version(package) for package in ("jax", "jaxlib", "libtpu")]
    parts = [
        asked.graph,
        asked.target,
        how,
        INSTRUMENT,
        versions,
        [name for name, _ in asked.arguments],
        data,
    ]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return Journal(aot.cache_directory("tune") / f"{key}.jsonl")


# ---- measuring -----------------------------------------------------------------------------------


def by_profiler(module, asked, timeout):
    """(cycles, bytes of VMEM) of a module. Raises PallascError."""
    from .profile import run

    found = run.profile(module, None, dict(asked.arguments), timeout=timeout)
    if not found["trusted"]:
        raise CompileError(f"not to be trusted: {'; '.join(found['errors'])}")
    used = [kernel["vmem_bytes"] or 0 for kernel in found["kernels"].values() if kernel["pallas"]]
    return float(found["cycles"]), max(used, default=0)


def on_tpu(module, asked, timeout):
    """(seconds, None) of a module on this machine's TPU. Raises PallascError."""
    import numpy as np

    from . import inputs
    from .run import run_module
    from .simulate import time_limit

    arrays = inputs.make_tensors(module.info, 0) + inputs.make_scalars(module.info, {})
    names = [entry["name"] for entry in module.info["inputs"]]
    for name, path in asked.arguments:
        arrays[names.index(name)] = np.load(path, allow_pickle=False)
    with time_limit(timeout):
        _, _, seconds = run_module(module, arrays)
    return seconds, None


def measured(module, code, config, estimate, asked, measure, timeout):
    """The `Outcome` of a module; `code`: its digest."""
    outcome = Outcome(config, module.info["config"], code, estimate=estimate)
    try:
        outcome.cost, outcome.vmem_bytes = measure(module, asked, timeout)
    except PallascError as error:
        outcome.failure = str(error).splitlines()[0]
        outcome.lost = getattr(error, "lost", None) in ("crash", "memory")
    return outcome


def _digest(module):
    from .profile.run import code_of

    return hashlib.sha256(code_of(module.source).encode()).hexdigest()


# ---- the search ----------------------------------------------------------------------------------


def neighbours(config, candidates):
    """Candidates that differ from what is in force in one value, or one entry of a list."""
    return [c for c in candidates if _differences(config, c.config) == 1]


def _but_for_order(candidate):
    """The estimate, and a configuration without the order of its loops."""
    rest = {key: value for key, value in candidate.config.items() if key != "loop_orders"}
    return candidate.estimate, json.dumps(rest)


def errors(outcomes, candidates):
    """{loop type: how many times the estimate was taken, on average}, where costs are known."""
    found = {}
    for outcome in outcomes:
        estimate = outcome.estimate or _estimate_of(outcome.settled, candidates)
        if outcome.cost and estimate:
            config = outcome.config or outcome.settled
            loop = config.get("pallas_loop_type")
            found.setdefault(loop, []).append(outcome.cost / estimate)
    return {loop: sum(times) / len(times) for loop, times in found.items()}


def _estimate_of(settled, candidates):
    """The estimate of what is in force where no configuration is given; None: unknown."""
    same = (c.estimate for c in candidates if not _differences(settled, c.config))
    return next(same, None)


def _differences(a, b):
    """In how many of b's values a has others."""
    count = 0
    for key, y in b.items():
        x = a.get(key, y)  # absent: as it is by default
        both = isinstance(x, list) and isinstance(y, list) and len(x) == len(y)
        count += sum(p != q for p, q in zip(x, y, strict=True)) if both else x != y
    return count


class Search:
    """Which configuration is to be measured next.

    Attributes:
      outcomes: of those that were, in their order; the default's first.
    """

    def __init__(self, candidates, compiles):
        self.candidates, self.compiles = candidates, compiles
        self.left = {candidate.number: candidate for candidate in candidates}
        self.outcomes, self.codes, self.spent = [], set(), 0
        # By all but the order of their loops: where that changes no estimate, others go first.
        self.taken = set()

    def best(self):
        """The fastest `Outcome`; None: none has a cost."""
        costs = [outcome for outcome in self.outcomes if outcome.cost is not None]
        return min(costs, key=lambda outcome: outcome.cost, default=None)

    def next(self):
        """A `Candidate` that was not taken yet; None: there is none, or enough were measured."""
        if self.spent >= self.compiles or not self.left:
            return None
        left = list(self.left.values())
        left = [c for c in left if _but_for_order(c) not in self.taken] or left
        best, near = self.best(), []
        if best and self.spent >= self.compiles * FIRST:
            near = neighbours(best.settled, left)
        off = errors(self.outcomes, self.candidates)
        # One that was not tried gets its chance: it counts as the best judged of the others.
        others = min(off.values(), default=1.0)

        def expected(candidate):
            loop = candidate.config.get("pallas_loop_type")
            return candidate.estimate * off.get(loop, others)

        found = min(near or left, key=expected)
        self.taken.add(_but_for_order(found))
        return self.left.pop(found.number)


def tune(asked, compiles, workers, measure, journal, timeout, say=lambda search: None):
    """Measures the most promising configurations: a `Search`.

    Args:
      asked: what to tune.
      compiles: so many modules are compiled, of those that are not known to be the same.
      workers: so many at a time.
      measure: `by_profiler` or `on_tpu`.
      journal: what is known.
      timeout: seconds for each.
      say: called whenever something came out.

    Raises CompileError where the graph is refused whatever the configuration.
    """
    candidates, _ = sweep(asked)
    search = Search(candidates, compiles)
    graph = Graph(asked.graph, asked.name)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        try:
            _run(search, graph, asked, workers, measure, journal, timeout, say, pool)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            with aot.Worker.ended():  # which the pool's threads wait for
                pool.shutdown()
            raise
    return search


def _run(search, graph, asked, workers, measure, journal, timeout, say, pool):
    """The default first, then candidates, as many at a time as there are workers."""
    waiting = {}
    queue = [Candidate(-1, {}, None)]
    while True:
        while len(waiting) < workers and (candidate := queue.pop() if queue else search.next()):
            module = _module(graph, asked, candidate.config)
            code = module and _digest(module)
            if module is None or code in search.codes:
                continue
            search.codes.add(code)
            config = candidate.config if candidate.number >= 0 else None
            search.spent += 1
            if known := journal.get(code, config, candidate.estimate):
                search.outcomes.append(known)
                say(search)
                continue
            task = (module, code, config, candidate.estimate, asked, measure, timeout)
            waiting[pool.submit(measured, *task)] = config
        if not waiting:
            return
        done, _ = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in done:
            del waiting[future]
            outcome = future.result()
            journal.put(outcome)
            search.outcomes.append(outcome)
            say(search)


def _module(graph, asked, config):
    """The `Module`; None where it is refused."""
    answer = graph.compile(
        config_text({**asked.config, **config}) if asked.config or config else None,
        asked.target,
        vmem=asked.vmem,
        vmem_margin=asked.vmem_margin,
    )
    return Module(answer["source"], asked.name) if answer["status"] == 0 else None


# ---- the command ---------------------------------------------------------------------------------


def main(argv):
    """`tune G.json`: exit status 1 if nothing could be measured."""
    options = _parser().parse_args(argv)
    asked = _asked(options)
    _refuse_early(asked)
    tpu = chips.tpu_attached() and not options.profile
    if not tpu:
        aot.require_libtpu()
    journal = journal_of(asked, "median on a tpu" if tpu else "profiler")
    measure = on_tpu if tpu else by_profiler
    workers = 1 if tpu else _workers(options.jobs)
    bar = _Progress(options.compiles)
    try:
        search = tune(asked, options.compiles, workers, measure, journal, options.timeout, bar.say)
    except KeyboardInterrupt:
        bar.close()
        print("interrupted: what was measured is kept; the same command goes on", file=sys.stderr)
        raise
    bar.close()
    print(report(search, "us" if tpu else "cycles", options.rows))
    best = search.best()
    if best is None:
        return 1
    if options.output:
        config = {**asked.config, **(best.config or {})}
        write_file(options.output, json.dumps(config, indent=1) + "\n")
    if options.page:
        from .tune_page import page

        write_file(options.page, page(asked, search, tpu))
    return 0


def _parser():
    parser = Parser(
        prog="pallasc tune",
        description="Find the fastest configuration of a graph: all are judged by estimates, the"
        " most promising compiled by the TPU compiler and ranked by its schedules, or by time"
        " where there is a TPU. Run again it goes on where it was.",
    )
    parser.add_argument("graph", metavar="G.json", help="graph, or - for standard input")
    parser.add_argument("--target", default="v6e", metavar="T", help="chip, or .json file")
    add_size_option(parser)
    add_vmem_options(parser)
    parser.add_argument("--config", metavar="F", help="keys that stay as they are")
    parser.add_argument(
        *("--set", "-s"), action="append", default=[], metavar="K=V", help="one; repeatable"
    )
    parser.add_argument("--space", metavar="SPEC", help="the values to try: docs/sweep.md")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="data of an argument that steers the kernel; repeatable",
    )
    parser.add_argument(
        "--compiles", type=at_least_one, default=20, metavar="N", help="kernels to compile (20)"
    )
    parser.add_argument("-j", "--jobs", type=at_least_one, metavar="N", help="compiles at a time")
    parser.add_argument(
        "--rows", type=at_least_one, default=10, metavar="N", help="of the table (10)"
    )
    parser.add_argument("--timeout", type=positive, default=600.0, metavar="S", help="for each")
    parser.add_argument(
        "--profile", action="store_true", help="the profiler even if there is a TPU"
    )
    parser.add_argument("-o", "--output", metavar="F", help="the configuration, as JSON")
    parser.add_argument(
        "--page", metavar="F", help="all that was judged and compiled, and the chosen kernel: HTML"
    )
    return parser


def _asked(options):
    text, name = graph_text(options.graph)
    if options.size:  # which makes it another graph, and what is known of it another journal
        text = json.dumps(judge.resized(judge.read_graph((text, name)), dict(options.size)))
    config = read_json(options.config, "configuration") if options.config else {}
    config.update(parse_set(item) for item in options.set)
    arguments = tuple(parse_named(item) for item in options.arg)
    target = target_text(options.target)
    space, margin = options.space, options.vmem_margin
    return Asked(text, name, target, config, options.vmem, space, arguments, margin)


def parse_named(text):
    """(name, path) of NAME=FILE.npy."""
    from .profile.command import _named

    return _named(text)


def _refuse_early(asked):
    """Raises CompileError, with all diagnostics, for a graph that no configuration serves."""
    given = config_text(asked.config) if asked.config else None
    budget = {"vmem": asked.vmem, "vmem_margin": asked.vmem_margin}
    module = compile_graph(asked.graph, given, asked.target, adapt=True, **budget)
    notes = [d for d in module.diagnostics if d.get("code") != "config-adapted"]
    if notes:
        print(format_diagnostics(notes), file=sys.stderr)


def _workers(jobs):
    """Compiles at a time: one for each 8 GiB of free memory, and each processor."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        free = aot.MEMORY_BYTES
    fits = max(1, min(os.cpu_count() or 1, free // aot.MEMORY_BYTES))
    return min(jobs, fits) if jobs else fits


class _Progress:
    """tqdm's bar on a terminal; nothing elsewhere."""

    def __init__(self, compiles):
        self.bar = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=compiles, unit="kernel", file=sys.stderr)

    def say(self, search):
        """Shows how many were measured, and the fastest."""
        if self.bar is None:
            return
        best = search.best()
        self.bar.n = len(search.outcomes)
        self.bar.set_postfix_str(f"best {best.cost:.4g}" if best else "none yet")

    def close(self):
        """Leaves the bar as it is."""
        if self.bar is not None:
            self.bar.close()


def report(search, unit, count):
    """What came out, as text: the fastest, the default, and what failed.

    Args:
      search: a `Search`.
      unit: "cycles", or "us", where costs are seconds.
      count: rows of the table.
    """
    scale = 1e6 if unit == "us" else 1
    costs = sorted((o for o in search.outcomes if o.cost is not None), key=lambda o: o.cost)
    failed = [o for o in search.outcomes if o.cost is None]
    default = next((o for o in costs if o.config is None), None)
    rows = [(unit, "estimate", "VMEM", "configuration")]
    rows += [_row(outcome, scale) for outcome in costs[:count]]
    if default and default not in costs[:count]:
        rows.append(_row(default, scale))
    lines = table(rows) if costs else []
    known = sum(o.known for o in search.outcomes)
    kept = f", {known} of them known before" if known else ""
    lines.append(f"{len(search.outcomes)} kernels compiled{kept}, {len(failed)} failed")
    lines += [f"  {_text(o.config)}: {o.failure}" for o in failed]
    if default and costs[0].cost:
        lines.append(f"the default takes {default.cost / costs[0].cost:.3f} times the fastest")
    return "\n".join(lines)


def _row(outcome, scale):
    estimate = "" if outcome.estimate is None else f"{outcome.estimate:.0f}"
    vmem = bytes_text(outcome.vmem_bytes) if outcome.vmem_bytes is not None else ""
    return (f"{outcome.cost * scale:.6g}", estimate, vmem, _text(outcome.config))


def _text(config):
    return "the default" if config is None else json.dumps(config)
