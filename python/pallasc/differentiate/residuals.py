"""Forward outputs that stand for what would have to be computed again.

A maximum that only shifts exponents may be any number: the results are the same. Taking the
log-sum-exp for it makes the sum of the exponentials 1, and what is divided by the sum the quotient
itself. So a forward that stores its log-sum-exp, or the quotient, leaves a backward little to do.
"""

from .shift import EXPONENTIALS, guarded, nonzero, rate
from .values import LINEAR_VIEWS, topological

LOGS = {"aten.exp.default": "aten.log.default", "aten.exp2.default": "aten.log2.default"}


def normalize(program, roots, shifts):
    """The gradients `roots` with residuals in place of maxima, sums and what they divide."""
    changes = {}
    for maximum in shifts:
        if any(part is maximum for part in topological(roots)):
            changes.update(_changes(program, maximum))
    return program.builder.substitute(roots, changes) if changes else roots


def _changes(program, maximum):
    builder = program.builder
    builder.at(maximum)
    values = topological([store.value for store in program.stores])
    total = _sum_of_exponentials(builder, values, maximum)
    if total is None:
        return {}
    quotients = _quotients(program, total)
    stored = _stored_logsumexp(program, maximum, total)
    changes = {total.number: builder.full(total.shape, 1.0)}
    for numerator, quotient in quotients:
        changes[numerator.number] = quotient
    if stored is not None:
        changes[maximum.number] = stored
    elif maximum.target == "@max":
        changes[maximum.number] = _computed(builder, maximum, total)
    elif not _only_quotients(builder, values, maximum, quotients):
        return {}  # in a tile that holds the whole row, computing it again is as cheap
    else:
        # Nothing else needs the shift; where it stays after all, it is one and the same number.
        changes[maximum.number] = maximum
        return {k: v for k, v in changes.items() if k != maximum.number}
    return changes


def _sum_of_exponentials(builder, values, maximum):
    """The sum of exp(x - maximum) over all that the maximum is of, or None."""
    for value in values:
        if value.target in ("@sum", "aten.sum.dim_IntList") and rate(builder, value, maximum) == (
            "mul",
            -1.0,
        ):
            inner = value
            while (
                inner.target in ("@sum", "aten.sum.dim_IntList", "tile.mask_to")
                or inner.target in LINEAR_VIEWS
            ):
                inner = inner.args[0]
            looped = value.target == "@sum" or maximum.target != "@max"
            if inner.target in EXPONENTIALS and looped:
                return value
    return None


def _unviewed(value):
    while value.target in LINEAR_VIEWS:
        value = value.args[0]
    return value


def _rounded(value):
    return value.args[0] if value.target == "prims.convert_element_type.default" else value


def residual(program, store, dtype="float32"):
    """What a store of the forward wrote, read again."""
    builder, entry = program.builder, program.tensor(store.tensor)
    loaded = builder.make(
        "tile.load",
        [program.tiles[store.tensor], store.index],
        entry["dtype"],
        store.value.shape,
        origin=store.origin,
        name=store.tensor,
    )
    return builder.convert(loaded, dtype)


def _quotients(program, total):
    """[(numerator, its quotient as stored)] of what is divided by the sum."""
    found = []
    for store in program.stores:
        value = _rounded(store.value)
        if store.mask is not None or store.adds:
            continue
        below = _unviewed(value.args[1]) if value.target == "aten.div.Tensor" else None
        if below is not None and total in (below, nonzero(below)):
            found.append((value.args[0], residual(program, store, value.dtype)))
    return found


def _stored_logsumexp(program, maximum, total):
    for store in program.stores:
        value = _rounded(store.value)
        if (
            value.target != "aten.add.Tensor"
            or value.dtype != "float32"
            or store.mask is not None
            or store.adds
        ):
            continue
        for a, b in (value.args, reversed(value.args)):
            logarithm = LOGS[program.builder.bases[maximum.number]]
            shift = _unviewed(a)
            if (
                maximum in (shift, guarded(shift))
                and b.target == logarithm
                and _unviewed(b.args[0]) is total
            ):
                return _shaped(program.builder, residual(program, store), maximum.shape)
    return None


def _shaped(builder, value, shape):
    if value.shape == shape:
        return value
    ones = [d for d, size in enumerate(shape) if size == 1]
    return builder.insert(value, ones)


def _computed(builder, maximum, total):
    """The log-sum-exp of a loop, as one value that a loop accumulates."""
    args = [maximum, total]
    return builder.make(
        "@lse",
        args,
        "float32",
        maximum.shape,
        dims=maximum.dims,
        origin=maximum.origin,
        name="logsumexp",
    )


def _only_quotients(builder, values, maximum, quotients):
    """Whether all exponentials that the maximum shifts are numerators whose quotient is stored."""
    numerators = {numerator.number for numerator, _ in quotients}
    shifted = [
        v
        for v in values
        if v.target in EXPONENTIALS and any(x is maximum for x in topological([v]))
    ]
    return bool(shifted) and all(v.number in numerators for v in shifted)
