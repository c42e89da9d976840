"""One edit in a process of its own: imports the package with it, runs the tests, and says which has noticed."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from property_tests.mutants.edits import EDITS, Editor, StaleEditError
from property_tests.mutants.suite import notice

STALE: Final = 3
"""The exit code if the edit does not fit the source any more."""

LIKELIEST: Final = ("folding", "guards", "approvals", "asks")


def main(place: int) -> int:
    """Break, test, and print the name of the test."""
    edit = EDITS[place]
    Editor(edit).install()
    try:
        import_module(edit.module)
    except StaleEditError as stale:
        print(stale, file=sys.stderr)
        return STALE
    print(notice(LIKELIEST) or "")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
