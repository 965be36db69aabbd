"""The table of targets: name -> function of values, filled by the ops_*.py files."""

OPS = {}


def register(*names):
    """Registers the decorated function under each target name.

    A name without an overload (`aten.add`) serves every overload that has no row of its own.
    """

    def keep(function):
        for name in names:
            OPS[name] = function
        return function

    return keep


def lookup(target):
    """The function of `target`, or None."""
    if target in OPS:
        return OPS[target]
    if target.startswith(("aten.", "prims.")) and target.count(".") == 2:
        return OPS.get(target.rpartition(".")[0])
    return None
