"""One edit in a process of its own: imports the package with it, runs the tests, and says which has noticed."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from property_tests.mutants.edits import EDITS, Editor
from property_tests.mutants.suite import notice

LIKELIEST: Final = ("folding", "guards", "approvals", "asks")
"""Modules of tests that notice much, behind the one that is called like what is edited."""


def main(place: int) -> None:
    """Break, test, and print the name of the test."""
    edit = EDITS[place]
    Editor(edit).install()
    import_module(edit.module)
    print(notice((edit.module.rpartition(".")[2], *LIKELIEST)) or "")


if __name__ == "__main__":
    main(int(sys.argv[1]))
