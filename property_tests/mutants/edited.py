"""Tests one edit in a process of its own: imports the edited package, runs the tests, and prints which one failed."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from property_tests.mutants.edits import EDITS, Editor
from property_tests.mutants.suite import notice

LIKELIEST: Final = ("folding", "guards", "approvals", "asks")
"""Test modules that are run first, after the one that has the name of the edited module."""


def main(place: int) -> None:
    """Install the edit with this number, run the tests, and print the name of the first that fails, or nothing."""
    edit = EDITS[place]
    Editor(edit).install()
    import_module(edit.module)
    print(notice((edit.module.rpartition(".")[2], *LIKELIEST)) or "")


if __name__ == "__main__":
    main(int(sys.argv[1]))
