"""The page of errors: grouped by who must act, each with what happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentrail.errors import (
    AgentrailError,
    BrokenContractError,
    InfrastructureError,
    OutsideError,
    RefusedError,
    UsageError,
)
from docs.printing.fields_page import summary
from docs.printing.markdown import code, codes, joined, section

BRANCHES: Final = (UsageError, RefusedError, OutsideError, InfrastructureError, BrokenContractError)


def by_branch() -> list[str]:
    """Return all errors by branch, each with what happened; the error itself says what to do."""
    return joined(_branch(branch) for branch in BRANCHES)


def _branch(branch: type[AgentrailError]) -> list[str]:
    own = [_line(code(error.__name__), error.__doc__, depth) for error, depth in leaves(branch)]
    coded = [_line(code(name), f"{texts.about}.") for name, texts in sorted(branch.coded.items())]
    others = f"All others are a `{branch.__name__}` themselves, told apart by their `code`"
    if branch is UsageError:  # whoever meets one mends the call, as its text says; no program tells them apart
        names = [f"{others}: {codes(sorted(branch.coded))}."]
        return section(code(branch.__name__), [summary(branch.__doc__)], own, names, level=2)
    head = [f"{others}:"] if coded else []
    return section(code(branch.__name__), [summary(branch.__doc__)], own, head, coded, level=2)


def _line(name: str, about: str | None, depth: int = 0) -> str:
    return f"{'    ' * depth}- {name}: {summary(about)}"


def leaves(branch: type[AgentrailError], depth: int = 0) -> Iterator[tuple[type[AgentrailError], int]]:
    """Yield the errors of *branch* in the order of their names, each with its depth, before the kinds of it."""
    for error in sorted(branch.__subclasses__(), key=lambda cls: cls.__name__):
        if error.__module__.startswith("agentrail.errors."):
            yield error, depth
            yield from leaves(error, depth + 1)
