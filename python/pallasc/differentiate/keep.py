"""What a forward may keep for its backward: sums of its loops that would be computed again."""

import copy
from dataclasses import dataclass

from ..document_text import unique_name
from .residuals import LOGS
from .schedule import microseconds
from .values import topological

ALL = {"slice": [None, None, None]}


@dataclass
class Kept:
    """A value that the forward stores for the backward."""

    name: str
    value: object
    nodes: list  # what the root of the forward has to add; the last gives the value


class Keeper:
    """Decides what is kept, and writes the forward that keeps it."""

    def __init__(self, program, estimate, asked):
        self.program, self.builder, self.estimate = program, program.builder, estimate
        self.asked = asked  # whether there is a forward to keep it in
        self.kept, self.lines = [], []

    def chosen(self, values):
        """The gradients `values` with loads of what the forward keeps."""
        changes = {}
        for value in self._candidates(values):
            again = self.estimate.seconds(*self.estimate.cone(value))
            size = self.estimate.bytes(value)
            held = self.estimate.seconds(2 * size)
            both = f"kept by the forward {microseconds(held)}, again {microseconds(again)}"
            nodes = self._nodes(value)
            if held >= again or nodes is None:
                self.lines.append(f"computed again {value.name}{value.line}: {both}")
            elif not self.asked:
                self.lines.append(
                    f"computed again {value.name}{value.line}: {both}; --forward keeps it"
                )
            else:
                kept = Kept(self._name(value), value, nodes)
                self.lines.append(f"kept by the forward as {kept.name}{value.line}: {both}")
                self.kept.append(kept)
                changes[value.number] = self._load(kept)
        return self.builder.substitute(values, changes) if changes else values

    def _candidates(self, values):
        """Outermost sums of forward loops among what the gradients are made of."""
        given = {t["name"] for t in self.program.document["tensors"]}
        forward, found, stack, seen = {}, [], list(values), set()
        for value in topological(values):
            loads = value.target != "tile.load" or value.args[0] in given
            forward[value.number] = loads and all(forward[x.number] for x in value.inputs)
        while stack:
            value = stack.pop()
            if value.number in seen:
                continue
            seen.add(value.number)
            if value.target in ("@sum", "@lse") and forward[value.number]:
                found.append(value)
            else:
                stack.extend(value.inputs)
        return sorted(found, key=lambda value: value.number)

    def _nodes(self, value):
        """Nodes that give a value at the end of the forward's root; None if it cannot store it."""
        if value.space - set(value.shape):
            return None
        names = self.program.root_names
        if value.target == "@sum":
            return [] if value.number in names else None
        maximum, total = value.args
        if maximum.number not in names or total.number not in names:
            return None
        meta = {"dtype": value.dtype, "shape": list(value.shape)}
        log = LOGS[self.builder.bases[maximum.number]]
        start = [{"name": "log_total", "target": log, "args": [{"ref": names[total.number]}]}]
        both = [{"ref": "log_total"}, {"ref": names[maximum.number]}]
        start.append({"name": "logsumexp", "target": "aten.add.Tensor", "args": both})
        return [node | {"meta": meta} for node in start]

    def _name(self, value):
        taken = {t["name"] for t in self.program.document["tensors"]} | {k.name for k in self.kept}
        return unique_name(value.name.strip("_"), taken)

    @staticmethod
    def _index(value):
        return [{"sym": s} if isinstance(s, str) else ALL for s in value.shape]

    def _load(self, kept):
        value = kept.value
        args = [kept.name, self._index(value)]
        return self.builder.make("tile.load", args, value.dtype, value.shape, name=kept.name)

    def entry(self, kept):
        """The tensor of a kept value, without its role."""
        value = kept.value
        shape = [s if isinstance(s, int) else self.program.extent(s) for s in value.shape]
        return {"name": kept.name, "dtype": value.dtype, "shape": shape}

    def forward(self):
        """The forward that also returns what is kept."""
        document = copy.deepcopy(self.program.source)
        root = next(g for g in document["graphs"] if g["kind"] == "root")
        names = {node["name"] for node in root["nodes"]}
        for kept in self.kept:
            added = self._added(kept, names)
            names |= {node["name"] for node in added}
            root["nodes"][-1:-1] = added
            document["tensors"].append(self.entry(kept) | {"role": "output"})
            if document.get("returns"):
                document["returns"].append({"tensor": kept.name})
        return document

    def _added(self, kept, names):
        """The nodes that store a kept value, under names that are free."""
        free = {}
        host, store = f"{kept.name}_kept", f"store_{kept.name}"
        for wanted in [*(node["name"] for node in kept.nodes), host, store]:
            free[wanted] = unique_name(wanted, names.union(free.values()))
        nodes = []
        for node in kept.nodes:
            args = [{"ref": free.get(x["ref"], x["ref"])} for x in node["args"]]
            nodes.append(node | {"name": free[node["name"]], "args": args})
        last = nodes[-1]["name"] if nodes else self.program.root_names[kept.value.number]
        entry = self.entry(kept)
        meta = {"dtype": entry["dtype"], "shape": entry["shape"]}
        return [
            *nodes,
            {"name": free[host], "target": "tile.host_tensor", "args": [kept.name], "meta": meta},
            {
                "name": free[store],
                "target": "tile.store",
                "args": [{"ref": free[host]}, self._index(kept.value), {"ref": last}],
            },
        ]
