"""Measures the tables of docs/passes and of the README again, and writes them into the pages.

    make bench-passes                   all pages
    make bench-passes PAGE=orient       the pages whose name holds this

A page is written by hand but for its tables, each between two lines of its own,

    <!-- bench-passes: NAME -->
    <!-- end -->

which pass_tables.py fills. No TPU is needed (see bench/measure.py); what was measured is kept.
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import kernels
import pass_tables
from measure import ROOT

MARK = re.compile(r"<!-- bench-passes: (\w+) -->\n(.*?)<!-- end -->\n", re.DOTALL)


def filled(text, tables):
    """A page with the text of each of its tables, {name: text}; each is there once."""
    names = [found[1] for found in MARK.finditer(text)]
    if sorted(names) != sorted(tables):
        raise SystemExit(f"passes: the page has tables {names}, pass_tables.py {list(tables)}")

    def fill(found):
        return f"<!-- bench-passes: {found[1]} -->\n\n{tables[found[1]]}\n<!-- end -->\n"

    return MARK.sub(fill, text)


def pages_named(part):
    """{page: {name: table}} of the pages whose name holds a text; of all without one."""
    found = {
        page: {name: table() for name, table in tables.items()}
        for page, tables in pass_tables.PAGES.items()
        if not part or part in page
    }
    if not found:
        raise SystemExit(f"passes: no page with '{part}'; there are {', '.join(pass_tables.PAGES)}")
    return found


def main():
    """Measures page after page, and writes each when it is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", metavar="TEXT", help="only pages whose name holds this")
    options = parser.parse_args()
    for page, tables in pages_named(options.page).items():
        jobs = [job for table in tables.values() for row in table.rows for job in row.jobs.values()]
        print(page, file=sys.stderr)
        outcomes = kernels.measure_all(jobs, 1)
        texts = {name: kernels.table_text(table, outcomes) for name, table in tables.items()}
        path = ROOT / page
        path.write_text(filled(path.read_text(), texts))


if __name__ == "__main__":
    main()
