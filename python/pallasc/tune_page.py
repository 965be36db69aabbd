"""The page of `tune`: all configurations that were judged, what was compiled, the chosen kernel.

It is the page of `--emit=html` (docs/page.md) of the configuration that was chosen, with a section
of what was found.
"""

import bisect
import json
import math
import subprocess
import tempfile

from .binding import (
    EMIT_PAGE,
    EMIT_PLAN,
    OK,
    Graph,
    config_text,
    format_diagnostics,
    parse_diagnostics,
)
from .errors import CompileError
from .tune import sweep_words

# Dots of the chart: configurations of one dot differ by less than a sixteenth in VMEM and in time.
CELLS_PER_OCTAVE = 12


class Survey:
    """What a sweep says of all configurations.

    Attributes:
      judged, accepted: how many.
      refused: {code: [how many, a reason]}.
      cells: {place: [VMEM, cost, how many]}, the fastest of those that lie so near.
      frontier: [(VMEM, cost, config)], more VMEM and less cost from one to the next.
    """

    def __init__(self):
        self.judged = self.accepted = 0
        self.refused, self.cells, self.frontier = {}, {}, []

    def add(self, line, unit):
        """Counts a line of a sweep."""
        self.judged += 1
        if line["verdict"] == "refused":
            self.refused.setdefault(line["code"], [0, line["reason"]])[0] += 1
            return
        self.accepted += 1
        cost = line["cycles"] if unit == "cycles" else line["seconds"] * 1e6
        vmem = max(line["vmem_bytes"], 1)
        place = tuple(round(CELLS_PER_OCTAVE * math.log2(max(x, 1e-9))) for x in (vmem, cost))
        cell = self.cells.setdefault(place, [vmem, cost, 0])
        cell[2] += 1
        if cost < cell[1]:
            cell[:2] = vmem, cost
        self._put(vmem, cost, line["config"])

    def _put(self, vmem, cost, config):
        at = bisect.bisect_right(self.frontier, vmem, key=lambda entry: entry[0])
        if at and self.frontier[at - 1][1] <= cost:
            return
        first = at - 1 if at and self.frontier[at - 1][0] == vmem else at
        last = first
        while last < len(self.frontier) and self.frontier[last][1] >= cost:
            last += 1
        self.frontier[first:last] = [(vmem, cost, config)]


def survey(asked, unit):
    """The `Survey` of what is asked; `unit`: "cycles" or "\u00b5s". Raises CompileError."""
    found = Survey()
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryDirectory() as folder:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": said, "text": True}
        with subprocess.Popen(sweep_words(asked, folder), **pipes) as process:
            try:
                process.stdin.write(asked.graph)
                process.stdin.close()
                for line in process.stdout:
                    found.add(json.loads(line), unit)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            said.seek(0)
            raise CompileError(said.read().strip())
    return found


def page(asked, search, tpu=False):
    """The page, as text, of a `tune.Search` that found something. Raises CompileError."""
    graph = Graph(asked.graph, asked.name)
    unit, best = "\u00b5s" if tpu else "cycles", search.best()
    seen, costs = survey(asked, unit), sorted(search.outcomes, key=_order)
    plans = [_compiled(graph, asked, outcome.config)["plan"] for outcome in costs]
    plans = [json.loads(text) for text in plans]
    found = {
        "unit": unit,
        "measured": "timed on a TPU" if tpu else "profiled by their schedules",
        "limit": plans[0]["vmem"]["limit"],
        "judged": seen.judged,
        "accepted": seen.accepted,
        "points": list(seen.cells.values()),
        "frontier": [dict(zip(("vmem", "cost", "config"), x, strict=True)) for x in seen.frontier],
        "refused": [
            {"code": code, "count": count, "reason": reason}
            for code, (count, reason) in sorted(seen.refused.items(), key=lambda x: -x[1][0])
        ],
        "compiled": [
            {
                "config": outcome.config,
                "cost": None if outcome.cost is None else outcome.cost * (1e6 if tpu else 1),
                "estimate": plan["estimate"]["cycles"],
                "vmem": plan["vmem"]["total"],
                "vmem_bytes": outcome.vmem_bytes,
                "failure": outcome.failure,
                "chosen": outcome is best,
            }
            for outcome, plan in zip(costs, plans, strict=True)
        ],
    }
    text = json.dumps({"tuning": found})
    return _compiled(graph, asked, best.config, EMIT_PAGE, text)["page"]


def _order(outcome):
    return outcome.cost is None, outcome.cost or 0


def _compiled(graph, asked, config, emit=EMIT_PLAN, found=None):
    """What the library gives of a configuration over what is asked."""
    config = {**asked.config, **(config or {})}
    text = config_text(config) if config else None
    answer = graph.compile(text, asked.target, emit=emit, vmem=asked.vmem, found=found)
    if answer["status"] != OK:
        raise CompileError(format_diagnostics(parse_diagnostics(answer["diagnostics"])))
    return answer
