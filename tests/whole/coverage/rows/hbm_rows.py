"""Rows of tables that VMEM does not hold: copied from HBM where int tensors say."""

from coverage.row import family
from coverage.rows.indirect import by, embedding, named, rows_of

ROWS = [
    family(
        "embedding, a table in HBM",
        "hbm_rows",
        "32768_4096",
        embedding,
        [16, 300],
        inputs=by({"ids": rows_of}),
        needs=named("weight"),
        note="each row is copied by itself",
    ),
    family(
        "embedding, a table of bfloat16 in HBM",
        "hbm_packed_rows",
        "32768_4096",
        embedding,
        [16, 300],
        inputs=by({"ids": rows_of}),
        needs=named("weight"),
        note="rows are copied in pairs, which fill a word",
    ),
]
