"""A table of many small cases as one test, which shows all that fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from typing import TypeAlias, cast

import pytest

Check: TypeAlias = "Callable[..., object]"


def each_case(cases: Iterable[object]) -> Callable[[Check], Callable[[], None]]:
    """Make one test of a function and *cases*; a case is its argument, or a tuple of its arguments if it has several.

    A parametrized test costs pytest more than most of our cases take.
    """
    table = tuple(cases)

    def decorate(check: Check) -> Callable[[], None]:
        def test() -> None:
            check_each(table, check)

        update_wrapper(test, check)
        del test.__wrapped__  # type: ignore[attr-defined]  # pytest would look for its parameters among the fixtures
        return test

    return decorate


def check_each(cases: Sequence[object], check: Check) -> None:
    """Call *check* with each case, and fail once with all that failed."""
    assert cases, "there is no case"
    is_single = len(inspect.signature(check).parameters) == 1
    failures: list[tuple[object, BaseException]] = []
    for case in cases:
        try:
            check(case) if is_single else check(*cast("tuple[object, ...]", case))
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - all of them are shown
            failures.append((case, error))
    if failures:
        lines = (f"{case!r}: {type(error).__name__}: {error}" for case, error in failures)
        message = f"{len(failures)} of {len(cases)} cases fail, the first as above\n" + "\n".join(lines)
        raise AssertionError(message) from failures[0][1]
