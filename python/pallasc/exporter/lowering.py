"""Undoing what Helion's lowering did to the operands of ATen nodes."""

import torch

from .calls import target_name


def operands_restore(node, originals):
    """Return (args, kwargs) of a node with the operands that Helion's lowering blanked.

    What it blanked to None or dropped is taken from before the lowering. Where an intermediate of
    the lowering reads that operand through a `_mask_to`, the mask is kept.
    """
    if node not in originals:
        return node.args, node.kwargs
    old_args, old_kwargs = originals[node]
    masks = {}
    intermediates_visit(node.kwargs.get("_extra_args", ()), masks, set())

    def merge(new, old):
        if isinstance(old, torch.fx.Node) and new is None:
            return masks.get(old, old)
        if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
            return [merge(*pair) for pair in zip(new, old, strict=True)]
        return new

    args = [merge(*pair) for pair in zip(node.args, old_args, strict=False)] + list(
        old_args[len(node.args) :]
    )
    kwargs = {key: merge(node.kwargs.get(key), old) for key, old in old_kwargs.items()}
    return args, kwargs


def intermediates_visit(nodes, masks, seen):
    """Collect {operand: its mask} over the intermediates of a lowering."""
    for node in nodes:
        if not isinstance(node, torch.fx.Node) or node in seen:
            continue
        seen.add(node)
        if target_name(node) == "_inductor_lowering_extra":
            intermediates_visit(node.args[0], masks, seen)
        elif target_name(node) == "_mask_to":
            masks[node.args[0]] = node
