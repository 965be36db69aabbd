"""Helion kernels that compile through pallasc, with one line.

    import pallasc.helion

    pallasc.helion.use()

From then on calls, `bind`, `to_code`, `compile_config`, `set_config` and `autotune` of kernels of
Helion's Pallas backend are pallasc's. docs/helion.md says what stays and what differs.

Needs torch and helion.
"""

from .switch import Row, Table, stop, table, use

__all__ = ["Row", "Table", "stop", "table", "use"]
