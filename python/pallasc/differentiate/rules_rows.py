"""Derivatives of reductions along dims of a tile, and of what is normalised along them."""

from .rules_curves import wide
from .rules_views import size_of


def _dims(value, position=1):
    dims = value.args[position] if len(value.args) > position else value.kwargs.get("dim")
    rank = len(value.args[0].shape)
    if dims is None or dims == []:
        return list(range(rank))
    return sorted(d % rank for d in ([dims] if isinstance(dims, int) else dims))


def _kept(value):
    if value.target.endswith((".correction", ".dim")) and "var" in value.target:
        at = 3 if value.target == "aten.var.dim" else 9
    elif value.target == "aten.std.correction":
        at = 9
    else:
        at = 2
    return value.args[at] if len(value.args) > at else value.kwargs.get("keepdim", False)


def _widened(b, value, x):
    """A result, or its gradient, with the reduced dims as ones."""
    whole = b.expand(x, value.shape)
    return whole if _kept(value) else b.insert(whole, _dims(value))


def _logsumexp(b, value, g):
    x = value.args[0]
    shifted = b.sub(wide(b, x), _widened(b, value, wide(b, value)))
    return [(x, b.mul(b.unary("aten.exp.default", shifted), _widened(b, value, g)))]


def _softmax(b, value, g):
    x, y = value.args[0], wide(b, value)
    product = b.mul(b.expand(g, value.shape), y)
    total = b.sum(product, [value.args[1]], True)
    return [(x, b.sub(product, b.mul(y, total)))]


def _log_softmax(b, value, g):
    x, whole = value.args[0], b.expand(g, value.shape)
    total = b.sum(whole, [value.args[1]], True)
    return [(x, b.sub(whole, b.mul(b.unary("aten.exp.default", wide(b, value)), total)))]


def _correction(value):
    if value.target == "aten.var.dim":
        unbiased = value.args[2] if len(value.args) > 2 else value.kwargs.get("unbiased", True)
        return 1 if unbiased else 0
    given = value.kwargs.get("correction")
    return 1 if given is None else given


def _variance(root):
    """Of the variance: 2 * (x - mean) / (n - correction); of its root, by that twice."""

    def rule(b, value, g):
        x, dims = wide(b, value.args[0]), _dims(value)
        count = size_of(x.shape, dims)
        if count is None or count <= _correction(value):
            return None
        mean = b.mul(b.sum(x, dims, True), 1.0 / count)
        slope = b.mul(b.sub(x, mean), (1.0 if root else 2.0) / (count - _correction(value)))
        found = b.mul(slope, _widened(b, value, g))
        if root:
            found = b.div(found, _widened(b, value, wide(b, value)))
        return [(value.args[0], found)]

    return rule


def extreme(b, value, g):
    """Of a maximum or minimum of lanes: to those that are it, in equal shares."""
    x, dims = value.args[0], _dims(value)
    top = _widened(b, value, value)
    chosen = b.where(b.compare("aten.eq.Tensor", x, top), 1.0, 0.0)
    chosen = b.expand(chosen, x.shape)
    count = b.sum(chosen, dims, True)
    return [(x, b.mul(chosen, b.div(_widened(b, value, g), count)))]


def _cumsum(b, value, g):
    x, dim = value.args[:2]
    dim %= len(x.shape)
    if not isinstance(x.shape[dim], int):
        return None

    def turned(y):
        return b.make("aten.flip.default", [y, [dim]], y.dtype, y.shape, name="reversed")

    whole = turned(b.expand(g, value.shape))
    total = b.make("aten.cumsum.default", [whole, dim], whole.dtype, whole.shape, name="running")
    return [(x, turned(total))]


ROWS = {
    "aten.logsumexp.default": _logsumexp,
    "aten._softmax.default": _softmax,
    "aten.softmax.int": _softmax,
    "aten._log_softmax.default": _log_softmax,
    "aten.log_softmax.int": _log_softmax,
    "aten.var.correction": _variance(root=False),
    "aten.var.dim": _variance(root=False),
    "aten.std.correction": _variance(root=True),
    "aten.amin.default": extreme,
    "aten.min.default": extreme,
    "aten.cumsum.default": _cumsum,
}
