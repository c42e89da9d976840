"""The cells of the contract, member × case, and the tests that are registered for each."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from docs.printing.host_plugins_page import CONTRACT

Test: TypeAlias = Callable[[], Awaitable[None]]

CASES: Final = ("order", "error", "deadline", "critical", "wrong")

CELLS: Final[dict[tuple[str, str], Test]] = {}
"""Member and case → its test."""


def table() -> set[tuple[str, str]]:
    """Return the cells that the contract has."""
    return {(name, case) for name, member in CONTRACT.items() for case in CASES if getattr(member, case) is not None}


def cell(member: str, case: str) -> Callable[[Test], Test]:
    """Register a test for a cell, which has no other."""

    def registered(test: Test) -> Test:
        assert (member, case) not in CELLS
        CELLS[member, case] = test
        return test

    return registered
