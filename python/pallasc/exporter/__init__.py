"""The Helion exporter: traces a kernel with Helion and rewrites its device IR as the graph format.

`trace` binds the kernel, with `patches` of Helion; `host` replays its host code into `tensors`;
`graphs` converts the device graphs, with `calls` (who calls what), `lowering` (blanked operands),
`writer` (nodes and values), `targets` (the table of operations) and `values` (dtypes, expressions,
metas); `hostroots` makes graphs of host operations; `document` assembles and prints. `argspec`
reads the command line's arguments, `arrays` makes the module's. All but these two and `errors` need
torch and Helion: `pallasc.export` imports them only when it exports.
"""
