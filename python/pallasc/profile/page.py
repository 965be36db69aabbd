"""The page of a profile: a module's text with the cycles of its lines, beside its source lines.

It is drawn by the page of `--emit=html` (docs/page.md), of a module alone.
"""

import ast
import dataclasses
import json

from ..binding import module_page
from ..module import PARSING
from .mosaic import UNITS
from .report import SLOTS
from .statements import has_costs

# Of the facts of a kernel (`estimate.kernel_facts`) those that are shown.
SHOWN = ("pallas", "cycles", "compute_cycles", "wait_cycles", "matmul_busy_cycles", "hbm_bytes")
SHOWN += ("matmul_stall_cycles", "vmem_bytes", "bundles", "spills", "fills", "slots", "loops")


def page(module, found, statements):
    """The page as text.

    Args:
      module: a `Module`.
      found: of `run.profile`.
      statements: of `statements.statements`, for the same target.
    """
    costs = [statement for statement in statements if has_costs(statement)]
    sources = list(dict.fromkeys(cost.source for cost in costs if cost.source))
    totals = ("target", "clock_hz", "cycles", "hbm_bytes", "trusted", "errors", "warnings")
    profile = {key: found[key] for key in totals}
    profile["slots"], profile["units"] = SLOTS, UNITS
    profile["kernels"] = [
        {"name": name} | {key: facts[key] for key in SHOWN}
        for name, facts in found["kernels"].items()
    ]
    profile["source"] = [{"code": source} for source in sources]
    profile["links"] = {"python": _links(module.source, costs, sources), "kernel": []}
    profile["statements"] = [_entry(cost, sources) for cost in costs]
    text = json.dumps({"profile": profile})
    return module_page(module.info["name"], found["target"], module.source, text)


def _entry(cost, sources):
    """A statement for the page, its source as an index."""
    entry = dataclasses.asdict(cost)
    entry["source"] = sources.index(cost.source) if cost.source else None
    return entry


def _links(text, costs, sources):
    """[line, index of its source line]: all lines of a statement, and the comments that name it."""
    with PARSING:
        tree = ast.parse(text)
    ends = {
        node.lineno: node.end_lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and not hasattr(node, "body")
    }
    found = {}
    for cost in costs:
        if cost.line and cost.source:
            for line in range(cost.line, ends.get(cost.line, cost.line) + 1):
                found[line] = sources.index(cost.source)
    words = {source: index for index, source in enumerate(sources)}
    for number, line in enumerate(text.splitlines(), 1):
        if (comment := line.strip()).startswith("#") and (said := comment[1:].strip()) in words:
            found[number] = words[said]
    return sorted([line, source] for line, source in found.items())
