"""The Helion exporter: traces a kernel with Helion and rewrites its device IR as the graph format.

`trace` binds the kernel, `host` replays its host code into `tensors`; `graphs` converts the device
graphs, with `calls` (who calls what), `lowering` (blanked operands), `writer` (nodes and values),
`targets` (the table of operations) and `values` (dtypes, expressions, metas); `document` assembles
and prints. `argspec` reads the command line's arguments. All but `argspec` and `errors` need torch
and Helion: `pallasc.export` imports them only when it exports.
"""
