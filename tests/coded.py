"""A check for `pytest.raises`: errors that have no class of their own are told apart by their code."""

from __future__ import annotations

from collections.abc import Callable

from agentrail.errors import AgentrailError


def coded(code: str) -> Callable[[AgentrailError], bool]:
    """Return a check that an error has *code*, and no class of its own."""
    return lambda error: error.is_coded and error.code == code
