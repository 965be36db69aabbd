"""Which graphs a node calls, and how: Helion's phis resolved into carried values and results."""

import dataclasses
import operator

import torch

from .errors import ExportError


@dataclasses.dataclass
class Call:
    """How one node calls a graph, once phis are resolved: `args` are nodes of the caller.

    There may be more of them than the graph has placeholders. `outputs` lists, for the graph's new
    outputs, its old output's index or an outer node that is passed through; None leaves the outputs
    as they are.
    """

    node: object
    kind: str
    args: list
    carried: list = dataclasses.field(default_factory=list)
    outputs: list = None

    def unchanged(self):
        """Return the places of arguments that are the same in each step, by their nodes."""
        carried = {place for place, _ in self.carried}
        places = (place for place in range(len(self.args)) if place not in carried)
        return {self.args[i]: i for i in places if isinstance(self.args[i], torch.fx.Node)}


def target_name(node):
    """Return the name of a Helion operation's function, '' for placeholders and outputs."""
    return getattr(node.target, "__name__", "") if node.op == "call_function" else ""


def calls_of(node, graphs):
    """Yield (graph id, Call) for every graph that `node` calls."""
    name = target_name(node)
    if name in ("_for_loop", "_for_loop_step"):
        args = list(node.args[3])
        carried = carried_find(node, args, graphs)
        kind = "for_loop"
        if type(graphs.infos[node.args[0]]).__name__ == "ReductionLoopGraphInfo":
            kind = "reduction_loop"
        yield node.args[0], Call(node, kind, args, carried)
    elif name == "_while_loop":
        if len(node.args) > 3 and node.args[3] is not None:
            raise ExportError("`while ... else` is not expressible", graphs.where(node))
        args = list(node.args[2])  # grows, and is the condition's as well
        carried = carried_find(node, args, graphs, graph_index=1)
        yield node.args[0], Call(node, "cond", args)
        yield node.args[1], Call(node, "while", args, carried)
    elif name == "_if":
        then, other = if_calls(node, graphs)
        yield node.args[1], then
        if then.outputs or not graph_empty(graphs.infos[node.args[2]].graph):
            yield node.args[2], other
    elif name in ("_associative_scan", "_reduce"):
        yield node.args[0], Call(node, "combine", [])


def combine_order(dtypes):
    """Return where the lefts, and then the rights, are among what a scan's function is traced with.

    Helion has them in pairs; of one dtype throughout, their order is the function's already.
    """
    count = len(dtypes)
    paired = dtypes[0::2] == dtypes[1::2] and len(set(dtypes)) > 1
    return [*range(0, count, 2), *range(1, count, 2)] if paired else [*range(count)]


def graph_empty(graph):
    """Return whether a graph does nothing but copy its arguments."""
    return all(target_name(node) in ("", "_new_var") for node in graph.nodes)


def carried_find(node, args, graphs, graph_index=0):
    """Return [[argument, output], ...] of a loop from its phis; `args` grows where one is missing.

    A phi joins a variable's value before the loop with the loop's output. Two variables may begin
    as one value: their names then tell the arguments apart.
    """
    ins, outs = graphs.trace.variables.get(node.args[graph_index], ([], []))
    carried = []
    for getitem in node.users:
        if getitem.target is not operator.getitem:
            continue
        output = getitem.args[1]
        for phi in getitem.users:
            if target_name(phi) != "_phi" or phi.args[1] is not getitem:
                continue
            initial = phi.args[0]
            places = [i for i, arg in enumerate(args) if arg is initial]
            named = [i for i in places if i < len(ins) and ins[i] == outs[output]] if outs else []
            if not places:
                args.append(initial)
                places = [len(args) - 1]
            carried.append([(named or places)[0], output])
    return sorted(carried, key=lambda pair: pair[1])


def if_calls(node, graphs):
    """Return the Calls of both branches, with n outputs each in the same order.

    Helion gives 2n results: n as the first branch leaves them, n as the second does. Where a branch
    leaves a variable alone, its value from outside is passed through.
    """
    then_id, then_args, else_args = node.args[1], node.args[3], node.args[4]
    info = graphs.infos[then_id]
    outside = dict(zip(info.else_arg_names, else_args, strict=True))
    outside |= dict(zip(info.if_arg_names, then_args, strict=True))
    calls = []
    for side, args in ((0, list(then_args)), (1, list(else_args))):
        outputs = []
        for pair in info.branches_outputs:
            output = pair[side]
            if isinstance(output, str):
                if output not in outside:
                    raise ExportError(f"'{output}' is set in one branch only", graphs.where(node))
                output = outside[output]
                if output not in args:
                    args.append(output)
            outputs.append(output)
        calls.append(Call(node, ("if", "else")[side], args, outputs=outputs))
    return calls
