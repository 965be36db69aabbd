"""`make golden`: writes testdata/golden again; without --update, says what differs."""

import argparse
import difflib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import proof


def texts():
    """{file name: the module's text} of every golden, as the compiler prints it now."""
    return {name: proof.module(case).source for name, case in proof.goldens().items()}


def stored():
    """{file name: text} of what testdata/golden holds."""
    return {path.name: path.read_text() for path in proof.GOLDEN_DIRECTORY.iterdir()}


def difference(name, old, new):
    """A unified diff, as text; "" if there is none."""
    lines = difflib.unified_diff(
        (old or "").splitlines(), (new or "").splitlines(), f"golden/{name}", "printed now", "", ""
    )
    return "\n".join(line.rstrip("\n") for line in lines)


def update(new):
    """Makes testdata/golden hold exactly `new`."""
    proof.GOLDEN_DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name in stored().keys() - new.keys():
        (proof.GOLDEN_DIRECTORY / name).unlink()
    for name, text in new.items():
        (proof.GOLDEN_DIRECTORY / name).write_text(text)


def main():
    """Exit status 1 if something differs and was not updated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write them")
    options = parser.parse_args()
    new = texts()
    old = stored() if proof.GOLDEN_DIRECTORY.exists() else {}
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    for name in changed:
        print(difference(name, old.get(name), new.get(name)))
    if options.update:
        update(new)
    print(f"{len(new)} goldens, {len(changed)} changed{' and written' if options.update else ''}")
    return 1 if changed and not options.update else 0


if __name__ == "__main__":
    sys.exit(main())
