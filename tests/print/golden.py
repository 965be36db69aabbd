"""`make golden`: writes testdata/golden and golden_ir; without --update, says what differs."""

import argparse
import difflib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import golden_ir as ir
import proof


def texts():
    """{file name: the module's text} of every golden, as the compiler prints it now."""
    return {name: proof.module(case).source for name, case in proof.goldens().items()}


def stored(directory=proof.GOLDEN_DIRECTORY):
    """{file name: text} of what a directory of goldens holds; {} if there is none."""
    return {path.name: path.read_text() for path in directory.glob("*")}


def difference(name, old, new):
    """A unified diff, as text; "" if there is none."""
    lines = difflib.unified_diff(
        (old or "").splitlines(), (new or "").splitlines(), f"golden/{name}", "printed now", "", ""
    )
    return "\n".join(line.rstrip("\n") for line in lines)


def update(directory, new):
    """Makes the directory hold exactly `new`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in stored(directory).keys() - new.keys():
        (directory / name).unlink()
    for name, text in new.items():
        (directory / name).write_text(text)


def compare(directory, new, write):
    """Prints what differs from the directory; writes it if asked. Returns how many differ."""
    old = stored(directory)
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    for name in changed:
        print(difference(name, old.get(name), new.get(name)))
    if write:
        update(directory, new)
    written = " and written" if write else ""
    print(f"{directory.name}: {len(new)} goldens, {len(changed)} changed{written}")
    return len(changed)


def main():
    """Exit status 1 if something differs and was not updated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write them")
    options = parser.parse_args()
    changed = compare(proof.GOLDEN_DIRECTORY, texts(), options.update)
    changed += compare(ir.DIRECTORY, ir.texts(), options.update)
    return 1 if changed and not options.update else 0


if __name__ == "__main__":
    sys.exit(main())
