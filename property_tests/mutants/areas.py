"""The areas of the package that are edited, and the tests that may notice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from property_tests.mutants.reach import Part


@frozen
class Suite:
    """Tests that may notice the edits of some areas."""

    areas: tuple[str, ...]
    """Folders of the package."""
    parts: tuple[Part, ...]
    """The tests."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Folders and modules of the tests."""
        return tuple(sorted({part.path for part in self.parts}))


def quick(*paths: str) -> tuple[Part, ...]:
    """Return the tests at *paths* that are not marked `long`."""
    return tuple(map(Part, paths))


def whole(paths: Iterable[str]) -> tuple[Part, ...]:
    """Return all tests at *paths*."""
    return tuple(Part(path, is_long) for path in paths for is_long in (False, True))


MACHINE: Final = (
    "tests/adapters/models/test_prefix_changed.py",
    "tests/adapters/models/test_typed_answers.py",
    "tests/cells",
    "tests/codec/test_samples.py",
    "tests/core",
    "tests/hooks",
    "tests/limits",
    "tests/plugins",
    "tests/recovery",
    "tests/runtime",
    "tests/tools/test_threads.py",
)
"""Tests of the machine and of what is around it."""

SUITES: Final = (
    Suite(("core", "hooks", "runtime"), whole(MACHINE)),
    Suite(("host",), quick("tests/api", "tests/host", "tests/remote")),
    Suite(("adapters",), quick("tests/adapters", "tests/mcp", "tests/sandboxes")),
    Suite(("plugins",), quick("tests/hooks", "tests/plugins")),
)
"""Each area, with its tests."""

AREAS: Final = tuple(area for suite in SUITES for area in suite.areas)
"""Folders of the package that are edited."""
