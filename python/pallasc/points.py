"""`check --points N`: chosen grid points of a kernel of any size, against the reference."""

import dataclasses
import itertools

import numpy as np

from . import compare, judge, limit
from .errors import PallascError
from .parts import Part, Parts
from .plain import simulate_plainly
from .reference.slices import Slicer, host_name
from .reference.sparse import PointsRun
from .reference.symbolic import graphs_called
from .simulate import simulate


class _Points(PointsRun):
    """One that knows where what it compares lies."""

    def place(self, number, shape, part, index):
        """The index in output `number`, of this shape, of one in what is compared, of shape `part`.

        As `compared` gives it: a box of what the last points wrote, or that in a row, or all.
        """
        entry = self.document.returns[number]
        if entry.get("ops"):
            return index
        flat = self._written(self.memory.find(entry["tensor"]))
        positions = np.unravel_index(flat, shape)
        in_a_row = part == flat.shape
        return tuple(
            int(p[index[0]]) if in_a_row else int(p.min()) + index[d]
            for d, p in enumerate(positions)
        )


def check_points(module, graph, config, params, options, scalars):
    """Prints a line for each output of each point; gives whether all are right.

    `params`: InterpretParams; None: JAX's plain interpreter.
    """
    settled = {**module.info["config"], **config}
    reference = judge.guarded(_Points, graph, options.seed, settled, scalars)
    groups = _groups(module.plan, reference.document, options.points, options.seed)
    print(f"inputs: seed {options.seed}, by blocks{_whole(reference.whole)}", flush=True)
    blocks = {b["symbol"]: b.get("name") or b["symbol"] for b in graph.get("block_sizes", ())}
    parts, good = Parts(module), True
    for done, (root, part, chosen) in enumerate(groups):
        named = ", ".join(f"{blocks[b]} {t}" for b, t in chosen.items()) or "all of the grid"
        until = f"{done} of {len(groups)} points are checked"
        limit.say(f"executing the reference at {named}", until)
        judge.guarded(reference.execute, root, chosen)
        limit.say(f"simulating {named}", until)
        kernel, arguments = parts.kernel(part), reference.arguments()
        found = (
            simulate(kernel, arguments, params) if params else simulate_plainly(kernel, arguments)
        )
        print(f"{named}:", flush=True)
        names = judge.output_names(module.info, len(found.outputs))
        for number, actual, wanted in judge.guarded(
            lambda outputs: list(reference.compared(outputs)), found.outputs
        ):
            tolerance = judge.tolerance_for(graph, number, settled)
            verdict = compare.compare(actual, wanted, tolerance)
            shape = found.outputs[number].shape
            index = reference.place(number, shape, actual.shape, verdict.index)
            verdict = dataclasses.replace(verdict, index=index)
            good &= verdict.ok
            print(f"  {names[number]}: {verdict}", flush=True)
        for problem in [*found.races, *found.complaints]:
            good = False
            print(f"  {problem}", flush=True)
    if parts.whole:
        print(f"whole, for the kernel's own copies: {', '.join(sorted(parts.whole))}")
    if parts.loose and any(entry.get("ops") for entry in reference.document.returns):
        raise PallascError("--points: what is computed after the kernel needs all of its results")
    return good


def _whole(names):
    return f"; whole: {', '.join(names)}" if names else ""


def _groups(plan, document, count, seed):
    """[(root, Part, {block symbol: tile})] of the points that are checked."""
    kernels = plan.get("kernels") or [plan]
    if len(kernels) != len(document.roots):
        raise PallascError("--points: the kernels are not one for each root of the graph")
    _refuse_chains(document)
    groups = []
    for call, (kernel, root) in enumerate(zip(kernels, document.roots, strict=True)):
        symbols = {document.blocks_by_id[i].symbol for i in root.grid}
        grid = kernel["grid"]
        free = [
            d
            for d, dim in enumerate(grid)
            if dim["semantics"] == "parallel" and dim["block"] in symbols
        ]
        for tiles in _chosen([grid[d]["steps"] for d in free], count, seed):
            at = dict(zip(free, tiles, strict=True))
            chosen = {grid[d]["block"]: tile for d, tile in at.items()}
            last = len(grid) - 1
            turns = last >= 0 and grid[last]["back_and_forth"] and at.get(last - 1, 0) % 2
            ids = {
                d: grid[d]["steps"] - 1 - tile if d == last and turns else tile
                for d, tile in at.items()
            }
            groups.append((root, Part(call, ids), chosen))
    return groups


def _chosen(steps, count, seed):
    """Points of a grid: the first, the last, where one dim ends, other corners, and random ones."""
    first, last = tuple(0 for _ in steps), tuple(n - 1 for n in steps)
    tails = [tuple(n - 1 if d == i else 0 for i, n in enumerate(steps)) for d in range(len(steps))]
    corners = itertools.product(*[(0, n - 1) for n in steps[:10]]) if len(steps) <= 10 else ()
    points = list(dict.fromkeys([first, last, *tails, *corners]))[: max(2, count - count // 4)]
    total, random = int(np.prod(steps, dtype=np.int64)), np.random.default_rng(seed)
    while len(points) < min(count, total):
        point = tuple(int(random.integers(n)) for n in steps)
        points += [point] if point not in points else []
    return points[:count]


def _refuse_chains(document):
    """Raises PallascError where a root reads what one before it stores: that needs all of it."""
    slicer, stored = Slicer(document), set()
    for root in document.roots:
        graphs, pending = [], [root]
        while pending:
            graphs.append(pending.pop())
            for node in graphs[-1].nodes:
                pending += [document.graphs[i] for i in graphs_called(node)]
        loads = [
            slicer.base(host_name(g, n)) for g in graphs for n in g.nodes if n.target == "tile.load"
        ]
        for name in loads:
            if name in stored:
                raise PallascError(
                    f"--points: a root reads {name!r}, which one before it stores at all its "
                    "points: check a smaller size, without --points"
                )
        ids = {g.id for g in graphs}
        stored |= {
            base for base, sites in slicer.writers.items() if any(g.id in ids for g, _ in sites)
        }
