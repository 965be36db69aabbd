"""Backward slices of a document: which nodes a value depends on, through loops and memory."""

from . import symbolic

_LOADS = ("tile.load",)
_CALLS = ("tile.for_loop", "tile.if", "tile.while", "tile.associative_scan", "tile.reduce")


def refs_of(raw):
    """Yields the names of the refs in a raw JSON argument."""
    if isinstance(raw, list):
        for item in raw:
            yield from refs_of(item)
    elif isinstance(raw, dict):
        if "ref" in raw:
            yield raw["ref"]
        for inner in raw.values():
            yield from refs_of(inner)


def is_write(node):
    """Whether a node writes memory."""
    return node.target == "tile.store" or str(node.target).startswith("tile.atomic_")


def host_name(graph, node):
    """The name of the host tensor that a memory node accesses, or None."""
    host = graph.by_name.get(node.args[0].get("ref")) if node.args else None
    return host.args[0] if host is not None and host.target == "tile.host_tensor" else None


class Slicer:
    """Walks dependences backward. A step is (graph, node name, item of a tuple or None)."""

    def __init__(self, document):
        self.document, self.callers, self.writers = document, {}, {}
        for graph in document.graphs.values():
            for node in graph.nodes:
                for called in symbolic.graphs_called(node):
                    self.callers.setdefault(called, []).append((graph, node))
                if is_write(node):
                    base = self.base(host_name(graph, node))
                    self.writers.setdefault(base, []).append((graph, node))

    def base(self, name):
        """The tensor whose memory `name` aliases, or is derived from."""
        while name in self.document.tensors and "of" in self.document.tensors[name]:
            name = self.document.tensors[name]["of"]
        return name

    def outputs(self, graph):
        """The refs that a graph outputs, None for what is no ref."""
        values = next((n.args[0] for n in graph.nodes if n.op == "output" and n.args), [])
        return [v.get("ref") if isinstance(v, dict) else None for v in values]

    def before(self, step):
        """The steps that `step` depends on directly."""
        graph, name, item = step
        node = graph.by_name[name]
        if node.op == "placeholder":
            return self._arguments(graph, name)
        if node.target == "getitem":
            return [(graph, r, node.args[1]) for r in refs_of(node.args[0])]
        if node.target in _CALLS:
            return self._results(graph, node, item)
        found = [(graph, r, None) for r in refs_of([node.args, list(node.kwargs.values())])]
        if node.target in _LOADS:
            for writer, store in self.writers.get(self.base(host_name(graph, node)), []):
                found.append((writer, store.name, None))
        return found

    def _arguments(self, graph, name):
        """What a placeholder stands for: the callers' arguments and what is carried into it."""
        holders = [n.name for n in graph.nodes if n.op == "placeholder"]
        number = holders.index(name)
        found = []
        for caller, call in self.callers.get(graph.id, []):
            found += [(caller, r, None) for r in refs_of(_call_argument(call, graph.id, number))]
        for loop in [graph, *self._loops_of(graph)]:
            outputs = self.outputs(loop)
            found += [(loop, outputs[o], None) for a, o in loop.carried if a == number]
        return [step for step in found if step[1] is not None]

    def _loops_of(self, graph):
        """The while graphs whose condition `graph` is: it sees their carried values."""
        for _, call in self.callers.get(graph.id, []):
            if call.target == "tile.while" and call.args[0] == graph.id:
                yield self.document.graphs[call.args[1]]

    def _results(self, graph, node, item):
        """What item `item` (None: all) of a call's result depends on."""
        found = []
        for called in symbolic.graphs_called(node):
            inner = self.document.graphs[called]
            outputs = self.outputs(inner)
            chosen = outputs if item is None or inner.kind == "cond" else outputs[item : item + 1]
            found += [(inner, name, None) for name in chosen if name is not None]
            for argument, output in inner.carried:
                if item in (None, output):
                    given = _call_argument(node, called, argument)
                    found += [(graph, r, None) for r in refs_of(given)]
        if node.target in ("tile.associative_scan", "tile.reduce"):
            found += [(graph, r, None) for r in refs_of(node.args[1])]
        return found

    def walk(self, steps):
        """Yields every (graph, node) that `steps` depend on, themselves included."""
        pending, seen = list(steps), set()
        while pending:
            step = pending.pop()
            key = (step[0].id, *step[1:])
            if key in seen or step[1] not in step[0].by_name:
                continue
            seen.add(key)
            yield step[0], step[0].by_name[step[1]]
            pending += self.before(step)


def _call_argument(call, graph_id, number):
    """The raw argument `number` that a call passes to a graph (all operands, for a combine)."""
    if call.target in ("tile.associative_scan", "tile.reduce"):
        return call.args[1]
    if call.target == "tile.if":
        at = 3 if call.args[1] == graph_id else 4
    else:
        at = 2 if call.target == "tile.while" else 3
    args = call.args[at] if len(call.args) > at else []
    return args[number] if number < len(args) else None
